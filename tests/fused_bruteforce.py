"""All fused mappings of a small cascade, and the optima among them.

It shares nothing with a search. Trees, places of stored and held tiles, and the nests of every Einsum are
enumerated; the plain cost model prices the optimum in the end, and has to agree with what was added up.
An Einsum's nests depend on those of others through the room alone, so they are enumerated once per set of
bounds, and only those that no other one dominates (energy, cycles, room) are combined.

The architecture has an outermost memory and one on-chip memory, perhaps with an inner memory; one array at
most lies somewhere. The on-chip memory has a place per dataspace, the inner one has one. Blocks are single
words, factors perfect. Tensors are stored in any memory but the outermost one. Where nests have remainders,
memories have one place and one instance; an array may be above the arithmetic.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import islice, permutations, product

from model.architecture import Architecture, Fanout, with_places
from model.cost.nest import Nest, build_nest
from model.cost.prices import leaking_instances, network_latency
from model.cost.remainders import Route
from model.cost.traffic import MulticastDelivery, dataspace_traffic, kept_positions
from model.counting import rule_of
from model.counting.words import extents
from model.extents import ANY, Extents, tiles_of
from model.fused.cascade import Cascade, CascadeEinsum
from model.fused.check import FusedMappingError, check_fused, check_tree, loop_choices
from model.fused.cost import evaluate_fused
from model.fused.mapping import Body, FusedMapping, Held, Leaf, LeafPath, PrivateNest, SharedLoop, Stored
from model.fused.report import FusedEvaluation
from model.fused.room import room_roots
from model.fused.visits import Visits, multi_term_dims, path_dims, slides
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace, SpatialRules
from model.numbers import prime_factors
from model.problem import Dataspace
from model.rules import Quantity

Step = tuple[str, int]
"""A dimension and a prime factor of its bound: one loop."""


@dataclass(frozen=True)
class Loops:
    """The private loops of a nest: of the outer memories (outermost first), across the array, and inside."""

    above: tuple[Step, ...]
    across: tuple[Step, ...] = ()
    inside: tuple[Step, ...] = ()
    outside: int | None = None
    """Those of `above` that the outermost memory has; None leaves that open."""

    def divide(self, bound: dict[str, int]) -> bool:
        """Whether there are no remainders."""
        factors = Counter(dict.fromkeys(bound, 1))
        for dim, size in (*self.above, *self.across, *self.inside):
            factors[dim] *= size
        return factors == bound


@dataclass(frozen=True)
class SpaceOption:
    """Where a nest keeps a dataspace, and the words per visit and instance that this moves.

    `words` has per level reads, fills and updates before first touches are left out; `firsts` the words that
    are touched there first, by reads and by fills.
    """

    position: int | None
    registers: bool
    words: tuple[tuple[int, int, int], ...]
    firsts: tuple[tuple[int, int], ...]
    room: tuple[int, ...]
    fan: int


@dataclass(frozen=True)
class Item:
    """A choice for one Einsum: its total energy and cycles, its own room per level, and its nests."""

    energy: int
    cycles: int
    room: tuple[int, ...]
    nests: tuple[PrivateNest, ...]


@dataclass(frozen=True)
class Optimum:
    """The least value of an objective, a mapping that has it, and its cost by the plain model."""

    value: int
    mapping: FusedMapping
    cost: FusedEvaluation


# Trees


def trees(cascade: Cascade, once_per_rank: bool = False, ragged: bool = False) -> Iterator[FusedMapping]:
    """Yield every tree of a cascade, without nests; loops have prime trips unless ranks are looped once.

    Where a tile that keeps what overlaps may slide, trips are any divisors. Loops that are `ragged` have any
    trips that leave no tile of a largest part empty.
    """
    enumerator = _Trees(cascade, once_per_rank, ragged)
    for children in enumerator.parts(tuple(range(len(cascade.einsums))), {}, whole=False):
        mapping = FusedMapping(children)
        try:
            check_tree(cascade, mapping)
        except FusedMappingError:
            continue
        by_place = any(not rule_of(own.mapspace.counting).by_order for own in cascade.einsums)
        if not (by_place and any(_slides(cascade, path) for path in mapping.paths)):
            yield mapping


def _slides(cascade: Cascade, path: LeafPath) -> bool:
    """Whether a shared loop moves a window of what Einsums below it hand over."""
    return any(_moves_a_window(cascade, loop, path.leaf.einsum) for loop in path.loops)


def _moves_a_window(cascade: Cascade, loop: SharedLoop, name: str) -> bool:
    """Whether a loop moves a window of what an Einsum hands over to others below it, or gets from them."""
    below = [einsum for einsum in cascade.einsums if einsum.name in dict(loop.dims)]
    written = {tensor for einsum in below for tensor in einsum.written}
    read = {own.tensor for einsum in below for own in einsum.accesses if own.tensor not in einsum.written}
    einsum, dim = next(own for own in below if own.name == name), loop.dim(name)
    for access in (own for own in einsum.accesses if own.tensor in written & read):
        ranks = [
            {term.dim: term.coefficient for term in terms if einsum.problem.bound[term.dim] > 1}
            for terms in einsum.space(access.dataspace).ranks
        ]
        moving = [own for own in ranks if dim in own]
        if len(moving) > 1 or any(len(own) > 1 or abs(own[dim]) > 1 for own in moving):
            return True
    return False


def _may_keep(einsum: CascadeEinsum, dim: str, name: str | None = None) -> bool:
    """Whether a tile below a loop may keep what overlaps, as the loop moves it along a sum of dimensions."""
    if rule_of(einsum.mapspace.counting).by_order:
        return False
    spaces = [own for own in einsum.problem.dataspaces if name in (None, own.name)]
    ranks = [{term.dim for term in terms} for own in spaces for terms in own.ranks if len(terms) > 1]
    return any(dim in dims for dims in ranks)


@dataclass
class _Trees:
    cascade: Cascade
    once: bool
    ragged: bool
    known: dict[tuple[int, ...], list[dict[str, str]]] = field(default_factory=dict)

    def parts(
        self, places: tuple[int, ...], cut: dict[Step | tuple[str, str], int], whole: bool
    ) -> Iterator[tuple[Body | Leaf, ...]]:
        """Yield the ways to part neighbouring Einsums into leaves and bodies; if `whole`, not as one body."""
        if not places:
            yield ()
            return
        for size in range(1, len(places) + 1):
            if whole and size == len(places):
                continue
            firsts = list(self.part(places[:size], cut))
            rests = list(self.parts(places[size:], cut, whole=False)) if firsts else []
            yield from ((first, *rest) for first, rest in product(firsts, rests))

    def part(self, places: tuple[int, ...], cut: dict[tuple[str, str], int]) -> Iterator[Body | Leaf]:
        """Yield a leaf, or every body over some Einsums."""
        if len(places) == 1:
            yield Leaf(self.cascade.einsums[places[0]].name, ())
            return
        for loops, below in self.loops(places, cut):
            for children in self.parts(places, below, whole=True):
                yield Body(loops, children)

    def loops(
        self, places: tuple[int, ...], cut: dict[tuple[str, str], int]
    ) -> Iterator[tuple[tuple[SharedLoop, ...], dict[tuple[str, str], int]]]:
        """Yield every list of one and more loops, with the trips over each dimension."""
        for dims in self.choices(places):
            for trips in self.trips(places, dims, cut):
                below = {**cut, **{pair: cut.get(pair, 1) * trips for pair in dims.items()}}
                loop = SharedLoop(trips, tuple(dims.items()))
                yield (loop,), below
                for others, lower in self.loops(places, below):
                    yield (loop, *others), lower

    def choices(self, places: tuple[int, ...]) -> list[dict[str, str]]:
        """Dimensions that a loop of a body may run over, one per Einsum."""
        if places not in self.known:
            self.known[places] = list(loop_choices(self.cascade, places))
        return self.known[places]

    def slides(self, dims: dict[str, str]) -> bool:
        """Whether a loop may slide a tile that keeps what overlaps."""
        own = ((self.cascade.einsums[self.cascade.place(name)], dim) for name, dim in dims.items())
        return any(_may_keep(einsum, dim) for einsum, dim in own)

    def trips(
        self, places: tuple[int, ...], dims: dict[str, str], cut: dict[tuple[str, str], int]
    ) -> list[int]:
        """Trips that cut what the loops above leave, for the last Einsum: others follow what it needs."""
        if self.once and any(pair in cut for pair in dims.items()):
            return []
        last = self.cascade.einsums[places[-1]]
        left = tiles_of(last.problem.bound[dims[last.name]], cut.get((last.name, dims[last.name]), 1))
        if self.ragged:
            return sorted({tiles_of(left, tile) for tile in range(1, left)})
        if self.once or self.slides(dims):
            return [trips for trips in range(2, left + 1) if left % trips == 0]
        return [prime for prime, _ in prime_factors(left)]


def divides(cascade: Cascade, tree: FusedMapping, ragged: bool = False) -> bool:
    """Whether no loop has a remainder in an Einsum that goes as far as it is told to, not as readers need.

    Where loops are `ragged`, whether it leaves no tile of a largest part empty.
    """
    visits = Visits(cascade, tree)
    for place, path in enumerate(tree.paths):
        for depth, loop in enumerate(path.loops, start=1):
            dim = loop.dim(path.leaf.einsum)
            before = visits.spans(place, dim, depth - 1)
            led = any(True for _ in visits.needs(place, dim, depth))
            most = max(high - low for low, high in before)
            uneven = any((high - low) % loop.trips for low, high in before)
            empty = loop.trips != tiles_of(most, tiles_of(most, loop.trips))
            if not led and (empty if ragged else uneven):
                return False
    return True


def with_stored(
    cascade: Cascade, tree: FusedMapping, memories: frozenset[str] | None, deepest: bool
) -> Iterator[FusedMapping]:
    """Yield a tree with every way to store tensors, each below as many loops as may be if it is `deepest`."""
    choices: list[list[Stored | None]] = []
    for tensor in cascade.intermediates:
        found: list[Stored | None] = [None]
        paths = [tree.paths[place] for place in cascade.users[tensor]]
        most = min(a.shared(b) for a in paths for b in paths)
        for memory in homes_of(cascade, tensor):
            if memories is None or memory in memories:
                depths = (d for d in range(most, -1, -1) if may_store(cascade, tree, tensor, memory, d))
                found += [Stored(tensor, memory, d) for d in (islice(depths, 1) if deepest else depths)]
        choices.append(found)
    for choice in product(*choices):
        yield FusedMapping(tree.children, tuple(own for own in choice if own is not None))


def homes_of(cascade: Cascade, tensor: str) -> Iterator[str]:
    """Yield the on-chip memories that the rules of the mapspaces let store a tensor."""
    rules = [
        (
            [
                own
                for own, level in zip(e.mapspace.keep, e.mapspace.architecture.levels, strict=True)
                if not level.tolls
            ],
            a,
        )
        for e in cascade.einsums
        for a in e.accesses_of(tensor)
    ]
    architecture = cascade.einsums[0].mapspace.architecture
    for number, level in enumerate(architecture.on_chip, start=1):
        passed = all(a.dataspace not in own.keep for keep, a in rules for own in keep[1:number])
        # What copies alone access lies in a single instance.
        several = are_in_array(architecture, architecture.nodes.index(level))
        copied = all(cascade.einsums[place].is_copy for place in cascade.users[tensor])
        if (
            passed
            and not (several and copied)
            and all(a.dataspace not in keep[number].bypass for keep, a in rules)
        ):
            yield level.name


Shares = tuple[tuple[str, int], ...]
"""By rank of a tensor, over how many instances it is spread."""


def are_in_array(architecture: Architecture, position: int) -> bool:
    """Whether a node exists several times."""
    return any(at < position for at in architecture.fanout_indices)


def are_cores(architecture: Architecture) -> bool:
    """Whether the outermost on-chip memory exists several times."""
    return are_in_array(architecture, architecture.nodes.index(architecture.on_chip[0]))


def spreads(visits: Visits) -> Iterator[dict[str, Shares]]:
    """Yield every way to spread what is stored or held in an array over its instances.

    Of Einsums that hold something there, under their names in brackets, the spatial loops.
    """
    architecture, mapping = visits.cascade.einsums[0].mapspace.architecture, visits.mapping
    cores, home = are_cores(architecture), architecture.on_chip[0].name
    most = architecture.fanouts[0].mesh_x if architecture.fanouts else 1
    found = {
        own.tensor: _shares(visits, own.tensor, most) for own in mapping.stored if cores or own.memory != home
    }
    holding = (place for place, path in enumerate(mapping.paths) if path.leaf.held and cores)
    found |= {f"[{mapping.paths[place].leaf.einsum}]": _across(visits, place, most) for place in holding}
    yield from (dict(zip(found, chosen, strict=True)) for chosen in product(*map(list, found.values())))


def _windowed(einsum: CascadeEinsum, space: Dataspace) -> frozenset[str]:
    """Dimensions of windows, and those whose steps are longer than a word."""
    strided = (term.dim for terms in space.ranks for term in terms if term.coefficient != 1)
    return multi_term_dims(einsum, space.name) | frozenset(strided)


def _across(visits: Visits, place: int, most: int) -> Iterator[Shares]:
    """Yield the spatial loops that an Einsum may have where it holds tiles: none parts a window or stride."""
    einsum, path = visits.cascade.einsums[place], visits.mapping.paths[place]
    held = (own.dataspace for own in path.leaf.held if own.fetch_depth < len(path.loops))
    sliding = [_windowed(einsum, einsum.space(name)) for name in held]
    parts: list[list[int]] = []
    for dim in einsum.problem.dims:
        sizes = visits.extents(place, dim, len(path.loops))
        alike = len(sizes) == 1 and not any(dim in own for own in sliding)
        parts.append([n for n in range(1, most + 1) if n == 1 or (alike and min(sizes) % n == 0)])
    for chosen in product(*parts):
        if math.prod(chosen) <= most:
            yield tuple((dim, n) for dim, n in zip(einsum.problem.dims, chosen, strict=True) if n > 1)


def _shares(visits: Visits, tensor: str, most: int) -> Iterator[Shares]:
    cascade, paths = visits.cascade, visits.mapping.paths
    extents: dict[str, set[int]] = {}
    for place in cascade.users[tensor]:
        einsum = cascade.einsums[place]
        for access in einsum.accesses_of(tensor):
            for rank, terms in zip(access.ranks, einsum.space(access.dataspace).ranks, strict=True):
                alone = visits.extents(place, terms[0].dim, len(paths[place].loops))
                extents.setdefault(rank, set()).update([0, 1] if len(terms) > 1 else alone)
    parts = [
        [n for n in range(1, most + 1) if n == 1 or (len(sizes) == 1 and min(sizes) % n == 0)]
        for sizes in extents.values()
    ]
    ruled = any(own.inner or own.outer for e in cascade.einsums for own in e.mapspace.spatial)
    copied = any(einsum.is_copy for einsum in cascade.einsums)
    for chosen in product(*parts):
        if math.prod(chosen) <= most:
            found = tuple((rank, n) for rank, n in zip(extents, chosen, strict=True) if n > 1)
            # Rules, and copies of tensors with other ranks, ask for an order.
            yield from permutations(found) if ruled or copied else (found,)


def may_store(cascade: Cascade, tree: FusedMapping, tensor: str, memory: str, depth: int) -> bool:
    """Whether a tensor may be stored below so many loops."""
    mapping = FusedMapping(tree.children, (Stored(tensor, memory, depth),))
    try:
        check_fused(cascade, mapping)
    except FusedMappingError as error:
        return not isinstance(error.subject, Stored)  # nests are missing
    return True


# Nests of one Einsum


def orders(steps: Sequence[Step]) -> list[tuple[Step, ...]]:
    """All different orders of some loops."""
    return sorted(set(permutations(steps)))


def loop_nests(
    architecture: Architecture, bound: dict[str, int], sliding: Collection[str] = ()
) -> Iterator[Loops]:
    """Every way to place and order the prime factors of some bounds.

    Above the tiles of registers, a loop over a `sliding` dimension may take several factors: it may keep more
    of a window than loops with one each.
    """
    ways = [products(size) if dim in sliding else [primes(size)] for dim, size in bound.items()]
    for sizes in product(*ways):
        steps = [(dim, size) for dim, own in zip(bound, sizes, strict=True) for size in own]
        yield from _placed(architecture, steps)


def primes(number: int) -> tuple[int, ...]:
    """The prime factors of a number, ascending."""
    return tuple(prime for prime, power in prime_factors(number) for _ in range(power))


def products(number: int, least: int = 2) -> list[tuple[int, ...]]:
    """Every way to write a number as a product of others, ascending."""
    if number == 1:
        return [()]
    return [
        (size, *others)
        for size in range(least, number + 1)
        if number % size == 0
        for others in products(number // size, size)
    ]


def _placed(architecture: Architecture, steps: Sequence[Step]) -> Iterator[Loops]:
    """Yield every way to place and order some loops; only primes lie below the tiles of registers."""
    regions = [0, *([1] if architecture.fanouts else []), *([2] if len(architecture.on_chip) > 1 else [])]
    seen: set[Loops] = set()
    for choice in product(*(regions if primes(size) == (size,) else [0] for _, size in steps)):
        parts = [[s for s, region in zip(steps, choice, strict=True) if region == r] for r in range(3)]
        for above in orders(parts[0]):
            # All loops in the registers lie below their tiles: their order does not matter.
            loops = Loops(above, tuple(sorted(parts[1])), tuple(sorted(parts[2])))
            across = math.prod(size for _, size in loops.across)
            if loops not in seen and (not loops.across or across <= architecture.fanouts[0].mesh_x):
                seen.add(loops)
                yield loops


def uneven_nests(architecture: Architecture, bound: dict[str, int]) -> Iterator[Loops]:
    """Every nest whose loops may have remainders: each node has a loop over each dimension."""
    nodes = len(architecture.nodes)
    chains = [list(Extents(size, ANY).chains(nodes)) for size in bound.values()]
    for chosen in product(*chains):
        # By node, outermost first.
        steps = [
            tuple((dim, f) for dim, f in zip(bound, factors, strict=True) if f > 1)
            for factors in reversed(list(zip(*chosen, strict=True)))
        ]
        fanouts = [
            own for own, node in zip(steps, architecture.nodes, strict=True) if isinstance(node, Fanout)
        ]
        across = tuple(step for own in fanouts for step in own)
        if math.prod(size for _, size in across) > math.prod(f.mesh_x for f in architecture.fanouts):
            continue
        inside = steps[2] if len(architecture.levels) > 2 else ()
        # No order matters below the tiles of the innermost memory.
        second = orders(steps[1]) if len(architecture.levels) > 2 else [steps[1]]
        for outer, inner in product(orders(steps[0]), second):
            yield Loops((*outer, *inner), across, inside, len(outer))


def _free(einsum: CascadeEinsum, space: Dataspace, level: int) -> list[bool]:
    """Whether an on-chip memory may bypass a dataspace, and keep it, as far as the mapspace's rules go."""
    architecture = einsum.mapspace.architecture
    if level >= len(architecture.on_chip):
        return [False]
    rules = einsum.mapspace.keep[architecture.levels.index(architecture.on_chip[level])]
    return [kept for kept, no in ((False, rules.keep), (True, rules.bypass)) if space.name not in no]


def _entries(
    architecture: Architecture,
    loops: Loops,
    homes: dict[str, tuple[int | None, bool]],
    outside: Iterable[str],
    in_cores: bool,
) -> PrivateNest:
    """The nest; `homes` has per dataspace its position among the loops, and whether registers keep it.

    With `in_cores`, no temporal loops lie outside of on-chip memories that keep something.
    """
    positions = sorted({at for at, _ in homes.values() if at is not None})
    positions = [0, *positions] if in_cores and positions and positions[0] else positions
    positions = positions if loops.outside is None else [loops.outside]
    borders = [*positions, len(loops.above)]
    first = _temporal(loops.above[: borders[0]])
    places: list[NodeMapping] = []
    for start, end in zip(positions, borders[1:], strict=True):
        keep = frozenset(name for name, (at, _) in homes.items() if at == start)
        places.append(StorageMapping(_temporal(loops.above[start:end]), keep))
    places += [] if positions else [StorageMapping()]
    kept = frozenset(name for name, (_, registers) in homes.items() if registers)
    entries = _nodes(architecture, loops, [StorageMapping(first, frozenset(outside))], places, kept)
    memory = architecture.on_chip[0].name
    several = ((memory, len(positions)),) if len(positions) > 1 else ()
    return PrivateNest(Mapping(entries), several)


def _nodes(
    architecture: Architecture,
    loops: Loops,
    outside: list[NodeMapping],
    places: list[NodeMapping],
    kept: frozenset[str],
) -> tuple[NodeMapping, ...]:
    """The entries of all nodes, given those of the two outer memories, and what registers keep."""
    entries: list[NodeMapping] = []
    for node in architecture.nodes:
        if isinstance(node, Fanout):
            across = tuple(SpatialLoop(dim, size, "x") for dim, size in loops.across)
            entries.append(FanoutMapping(across))
        elif node.tolls:
            entries.append(StorageMapping((), frozenset(dict(node.tolls))))
        elif node is architecture.levels[0]:
            entries += outside
        elif node is architecture.on_chip[0]:
            entries += places
        else:
            entries.append(StorageMapping(_temporal(loops.inside), kept))
    return tuple(entries)


def _temporal(steps: Sequence[Step]) -> tuple[Loop, ...]:
    return tuple(Loop(dim, bound) for dim, bound in reversed(steps))


class _Skipping(MulticastDelivery):
    """Delivery that leaves out what a held tile receives."""

    skipped: int | None = None

    def received(self, position: int) -> tuple[int, int]:
        return (0, 0) if position == self.skipped else MulticastDelivery.received(self, position)


def space_options(
    einsum: CascadeEinsum,
    bound: dict[str, int],
    loops: Loops,
    space: Dataspace,
    above: str,
    outside_first: bool = False,
) -> Iterator[SpaceOption]:
    """Every way to keep a dataspace in a nest; `above` is ``stored`` or ``held`` if its tile is there.

    It is ``inside`` if the inner memory stores it. With `outside_first` loops of the outermost memory lie
    outside of an array of on-chip memories.
    """
    base = einsum.mapspace.architecture
    architecture = with_places(base, {base.on_chip[0].name: 2})
    problem = replace(einsum.problem, bounds=tuple(bound[dim] for dim in einsum.problem.dims))
    own = _free(einsum, space, 0)
    positions = [None] if above or False in own else []
    within = range(len(loops.above) + 1) if loops.outside is None else [loops.outside]
    positions += within if True in own and not above else []
    names = [level.name for level in base.levels]
    tops = [
        number for number, level in enumerate(architecture.levels) if level.component == base.on_chip[0].name
    ]
    top = architecture.storage_indices[tops[0]]
    for position, registers in product(positions, _free(einsum, space, 1) if above != "inside" else [True]):
        cut = len(loops.above) if position is None else position
        cut = cut if loops.outside is None else loops.outside
        keep = frozenset([space.name])
        first = keep if above in ("", "held") else frozenset[str]()
        outside: list[NodeMapping] = [StorageMapping((), first)]
        waiting = keep if above in ("stored", "held") else frozenset[str]()
        if outside_first:
            outside = [StorageMapping(_temporal(loops.above[:cut]), first)]
        places: list[NodeMapping] = [
            StorageMapping(() if outside_first else _temporal(loops.above[:cut]), waiting),
            StorageMapping(_temporal(loops.above[cut:]), keep if position is not None else frozenset()),
        ]
        kept = keep if registers else frozenset[str]()
        mapping = Mapping(_nodes(base, loops, outside, places, kept))
        nest = build_nest(problem, architecture, mapping)
        if loops.outside is not None and not are_cores(base):
            yield _counted(architecture, nest, mapping, space, position, registers, above)
            continue
        rule = rule_of(einsum.mapspace.counting)
        rule = replace(rule, touched=lambda a, n, s: lambda outer, inner: 0)
        delivery = _Skipping(rule, architecture, nest, space)
        object.__setattr__(delivery, "skipped", top if above == "held" else None)
        touched = rule_of(einsum.mapspace.counting).touched(architecture, nest, space)
        traffic = dataspace_traffic(rule, architecture, mapping, nest, space, delivery)
        words = [(0, 0, 0)] * len(base.levels)
        firsts, room = [(0, 0)] * len(base.levels), [0] * len(base.levels)
        inner = len(architecture.nodes)
        for entry in reversed(traffic):
            node = architecture.nodes[entry.position]
            level = names.index(node.component)
            words[level] = (entry.reads, entry.fills, entry.updates)
            if space.read_write and node.tolls:
                firsts[level] = touched(entry.position, inner) * node.charges(space.name, "down"), 0
            elif space.read_write:
                own = touched(entry.position, entry.position) if entry is not traffic[0] else 0
                firsts[level] = touched(entry.position, inner), own
            room[level] = entry.tile_words if entry.position > top and above != "inside" else 0
            inner = inner if node.tolls else entry.position
        second = registers and above != "inside"
        yield SpaceOption(position, second, tuple(words), tuple(firsts), tuple(room), 1)


def _counted(
    architecture: Architecture,
    nest: Nest,
    mapping: Mapping,
    space: Dataspace,
    position: int | None,
    registers: bool,
    above: str,
) -> SpaceOption:
    """An option of a nest with remainders, where each memory has one instance."""
    number = {0: 0, 1: 1, 2: 1}  # the place above the nests is one of the on-chip memory
    levels = len(architecture.levels) - 1
    words, firsts, room = [(0, 0, 0)] * levels, [(0, 0)] * levels, [0] * levels
    kept, asking = kept_positions(architecture, mapping, space.name), len(architecture.nodes)
    skipped = kept[1] if above == "held" else None
    for at in reversed(kept):
        shares = {dim: nest.shares(dim, at) for dim in nest.bounds[0]}
        served, received = (Route(architecture, nest, space, at, inner) for inner in (asking, at))
        stream = 0 if asking == skipped else served.brought_words(shares, reuse=served.reuses)
        filled = 0 if at in (kept[0], skipped) else received.brought_words(shares, reuse=received.reuses)
        level = number.get(at, 2)
        words[level] = (stream, filled, stream if space.read_write else 0)
        if space.read_write:
            own = received.touched_words(shares) if at != kept[0] else 0
            firsts[level] = served.touched_words(shares), own
        if at > 1 and above != "inside":
            room[level] = math.prod(extents(space, nest.bounds[at]))
        asking = at
    second = registers and above != "inside"
    return SpaceOption(position, second, tuple(words), tuple(firsts), tuple(room), 1)


# One Einsum in a tree


@dataclass
class BruteForce:
    """Optima over all fused mappings of a cascade.

    Parameters
    ----------
    once_per_rank
        Whether a path loops over each rank at most once.
    fused
        Whether there are bodies and stored tensors at all.
    even
        Whether the on-chip memory has one place for all tiles that are neither stored nor held.
    divided
        Whether shared loops have no remainders but where they follow windows.
    memories
        Those that may store tensors; None for all on chip.
    remainders, ragged
        Whether loops of nests, and shared ones, may have remainders.
    """

    cascade: Cascade
    once_per_rank: bool = False
    fused: bool = True
    even: bool = False
    divided: bool = False
    remainders: bool = False
    ragged: bool = False
    memories: frozenset[str] | None = None
    options: dict[object, list[tuple[Loops, list[list[SpaceOption]]]]] = field(default_factory=dict)
    items: dict[object, list[Item]] = field(default_factory=dict)

    def optima(self, objectives: Sequence[str] = ("energy", "latency", "edp")) -> dict[str, Optimum]:
        """Return the least value of each objective; empty if nothing fits."""
        best: dict[str, tuple[int, FusedMapping]] = {}
        for mapping in self.skeletons():
            for held in self.held_choices(mapping):
                self._improve(best, mapping, held, objectives)
        return {objective: self._checked(objective, *found) for objective, found in best.items()}

    def skeletons(self) -> Iterator[FusedMapping]:
        """Yield trees with stored tensors."""
        if not self.fused:
            yield FusedMapping(tuple(Leaf(einsum.name, ()) for einsum in self.cascade.einsums))
            return
        for tree in trees(self.cascade, self.once_per_rank, self.ragged):
            if self.divided and not divides(self.cascade, tree, self.ragged):
                continue
            yield from with_stored(self.cascade, tree, self.memories, not self.fills)

    @property
    def fills(self) -> bool:
        """Whether a memory has a least utilization."""
        return any(level.min_utilization for level in self.cascade.einsums[0].mapspace.architecture.levels)

    def _checked(self, objective: str, value: int, mapping: FusedMapping) -> Optimum:
        """Price an optimum by the plain model."""
        cost = evaluate_fused(self.cascade, mapping)
        assert cost.valid
        assert cost.value(objective) == value, (cost.value(objective), value)
        return Optimum(value, mapping, cost)

    def held_choices(self, mapping: FusedMapping) -> Iterator[tuple[tuple[Held, ...], ...]]:
        """Yield the tiles that each Einsum holds above shared loops, but none that only takes more room."""
        visits = Visits(self.cascade, mapping)
        each = [list(self._held_of(visits, place)) for place in range(len(self.cascade.einsums))]
        yield from product(*each)

    def _held_of(self, visits: Visits, place: int) -> Iterator[tuple[Held, ...]]:
        einsum, mapping = self.cascade.einsums[place], visits.mapping
        path = mapping.paths[place]
        choices: list[list[Held | None]] = []
        for access in einsum.accesses:
            depths: list[Held | None] = [None]
            if access.tensor not in mapping.stored_at:
                writer = self.cascade.writers.get(access.tensor)
                others = self.cascade.readers(access.tensor) if writer == place else [writer]
                paths = [mapping.paths[other] for other in others if other is not None]
                least = max((path.shared(other) for other in paths), default=0)
                moved = [_moved(visits, place, access.dataspace, d) for d in range(len(path.loops) + 1)]
                depths += [
                    Held(access.dataspace, depth)
                    for depth in range(least, len(path.loops))
                    if self.fills or moved[depth] < moved[depth + 1]
                ]
                depths += [
                    Held(access.dataspace, depth, keeps_overlap=True)
                    for depth in range(least + 1, len(path.loops) + 1)
                    if _may_keep(einsum, path.loops[depth - 1].dim(einsum.name), access.dataspace)
                    and (self.fills or moved[depth - 1] < moved[depth])
                ]
            choices.append(depths)
        for chosen in product(*choices):
            yield tuple(held for held in chosen if held is not None)

    def _improve(
        self,
        best: dict[str, tuple[int, FusedMapping]],
        mapping: FusedMapping,
        held: Sequence[tuple[Held, ...]],
        objectives: Sequence[str],
    ) -> None:
        """Look at all nests for one tree with its stored and held tiles."""
        tiles = dict(zip([path.leaf.einsum for path in mapping.paths], held, strict=True))
        tree = FusedMapping(_holding(mapping.children, tiles), mapping.stored)
        visits = Visits(self.cascade, tree)
        for shares in spreads(visits):
            self._improve_spread(best, visits, shares, objectives)

    def _improve_spread(
        self,
        best: dict[str, tuple[int, FusedMapping]],
        visits: Visits,
        shares: dict[str, Shares],
        objectives: Sequence[str],
    ) -> None:
        """Look at all nests that spread stored tensors so."""
        tree = visits.mapping
        fronts: list[list[Item]] = []
        for place in range(len(self.cascade.einsums)):
            left, least = self._room_left(visits, place, shares), self._least_room(visits, place, shares)
            fitting = [
                item
                for item in self.einsum_items(visits, place, shares)
                if all(room is None or own <= room for own, room in zip(item.room, left, strict=True))
                and all(own >= room for own, room in zip(item.room, least, strict=False))
            ]
            if not fitting:
                return
            fronts.append(_front(fitting))
        sums = [((0, 0), ())]
        for place, front in enumerate(fronts):
            runs, of_cycles = self.cascade.einsums[place].times
            joined = [
                ((e + item.energy * runs, c + item.cycles * of_cycles), (*chosen, item))
                for ((e, c), chosen), item in product(sums, front)
            ]
            sums = _least(joined)
        for objective in objectives:
            value, chosen = min(
                ((_value(objective, *total), items) for total, items in sums), key=lambda pair: pair[0]
            )
            if objective not in best or value < best[objective][0]:
                nests = {path.leaf.einsum: item.nests for path, item in zip(tree.paths, chosen, strict=True)}
                best[objective] = value, FusedMapping(_nested(tree.children, nests), tree.stored)

    def _room_left(self, visits: Visits, place: int, shares: dict[str, Shares]) -> list[int | None]:
        """What stored and held tiles leave of each level while an Einsum runs."""
        mapping, paths = visits.mapping, visits.mapping.paths
        architecture = self.cascade.einsums[place].mapspace.architecture
        home, largest, roots = architecture.on_chip[0].name, Counter[tuple[str, str]](), room_roots(visits)
        for stored in mapping.stored:
            users = self.cascade.users[stored.tensor]
            later = any(paths[user].shared(paths[place]) > stored.depth for user in users)
            if users[0] <= place <= users[-1] or later:
                key = stored.memory, roots[stored.tensor]
                largest[key] = max(largest[key], self._stored_words(visits, stored, shares))
        taken = Counter[str]()
        for (memory, _), words in largest.items():
            taken[memory] += words
        for owner, path in enumerate(paths):
            for held in path.leaf.held:
                if owner == place or path.shared(paths[place]) > held.depth:
                    taken[home] += _tile(visits, owner, held, shares)
        usable = [(level.usable_words, taken[level.name]) for level in architecture.levels]
        return [None if words is None else words - gone for words, gone in usable]

    def _stored_words(self, visits: Visits, stored: Stored, shares: dict[str, Shares]) -> int:
        """Words of a stored tensor in one instance."""
        spread = dict(shares.get(stored.tensor, ()))
        return math.prod(
            max(-(-(high - low) // spread.get(rank, 1)) for low, high in spans)
            for rank, spans in visits.tile(stored.tensor, stored.depth)
        )

    def _least_room(self, visits: Visits, place: int, shares: dict[str, Shares]) -> list[int]:
        """What is asked of the own tiles of a nest, beside what the Einsum stores and holds."""
        einsum, had = self.cascade.einsums[place], Counter[str]()
        architecture = einsum.mapspace.architecture
        largest, roots = Counter[tuple[str, str]](), room_roots(visits)
        for stored in (own for own in visits.mapping.stored if own.tensor in einsum.tensors):
            key = stored.memory, roots[stored.tensor]
            largest[key] = max(largest[key], self._stored_words(visits, stored, shares))
        for (memory, _), words in largest.items():
            had[memory] += words
        for held in visits.mapping.paths[place].leaf.held:
            had[architecture.on_chip[0].name] += _tile(visits, place, held, shares)
        levels = () if einsum.is_copy else architecture.levels
        return [
            math.ceil((level.usable_words or 0) * level.min_utilization) - had[level.name] for level in levels
        ]

    def einsum_items(self, visits: Visits, place: int, shares: dict[str, Shares]) -> list[Item]:
        """Every choice for one Einsum that no other one dominates, the room for its own tiles included."""
        einsum, path = self.cascade.einsums[place], visits.mapping.paths[place]
        dims = path_dims(path, len(path.loops))
        counts = [visits.extents(place, dim, len(path.loops)) for dim in dims]
        at = visits.mapping.stored_at
        stored = tuple((a.dataspace, at[a.tensor].memory) for a in einsum.accesses if a.tensor in at)
        held = tuple(
            (tile.dataspace, _moved(visits, place, tile.dataspace, tile.fetch_depth))
            for tile in path.leaf.held
        )
        spread = tuple((a.dataspace, shares[a.tensor]) for a in einsum.accesses if a.tensor in shares)
        spread += tuple(("", shares[own]) for own in [f"[{einsum.name}]"] if own in shares)
        key = place, dims, tuple(tuple(count.items()) for count in counts), stored, held, spread
        if key not in self.items:
            self.items[key] = self._einsum_items(place, dims, counts, dict(stored), dict(held), dict(spread))
        return self.items[key]

    def _einsum_items(
        self,
        place: int,
        dims: Sequence[str],
        counts: Sequence[dict[int, int]],
        stored: dict[str, str],
        held: dict[str, int],
        spread: dict[str, Shares],
    ) -> list[Item]:
        einsum = self.cascade.einsums[place]
        architecture = einsum.mapspace.architecture
        if einsum.is_copy:
            return list(_copy_items(einsum, stored, spread))
        assert all(level.block_size == 1 and not level.packing for level in architecture.levels)
        # By where the nests of all kinds of visits keep the outputs.
        totals: dict[Homes, list[_Sum]] | None = None
        visits = 0
        for chosen in product(*(count.items() for count in counts)):
            size = {dim: extent for dim, (extent, _) in zip(dims, chosen, strict=True)}
            times = {dim: count for dim, (_, count) in zip(dims, chosen, strict=True)}
            firsts = {d for d, c, (e, _) in zip(dims, counts, chosen, strict=True) if next(iter(c)) == e}
            visits += math.prod(times.values())
            kinds: dict[Homes, list[_Sum]] = {}
            for own in self._kind_sums(einsum, place, size, times, firsts, stored, held, spread):
                kinds.setdefault(_output_homes(einsum, own), []).append(own)
            nothing = [_Sum.nothing(len(architecture.levels))]
            before = dict.fromkeys(kinds, nothing) if totals is None else totals
            totals = {
                homes: _undominated(
                    [a.joined(b) for a, b in product(before[homes], _undominated(own, self.fills))],
                    self.fills,
                )
                for homes, own in kinds.items()
                if homes in before
            }
        sums = [own for alike in (totals or {}).values() for own in alike]
        return _items(architecture, einsum, sums, visits)

    def _kind_sums(
        self,
        einsum: CascadeEinsum,
        place: int,
        size: dict[str, int],
        times: dict[str, int],
        firsts: set[str],
        stored: dict[str, str],
        held: dict[str, int],
        spread: dict[str, Shares],
    ) -> Iterator[_Sum]:
        """Yield what the nests of one kind of visits add up to."""
        bound = {**einsum.problem.bound, **size}
        kinds = {level.name: "inside" for level in einsum.mapspace.architecture.on_chip[1:]}
        above = tuple(
            kinds.get(stored[s.name], "stored") if s.name in stored else "held" if s.name in held else ""
            for s in einsum.problem.dataspaces
        )
        outside = [space.name for space in einsum.problem.dataspaces if space.name not in stored]
        visits = math.prod(times.values())
        architecture = einsum.mapspace.architecture
        slides = any(map(einsum.mapspace.has_windows, einsum.problem.dataspaces))
        in_cores = slides and not self.even and are_cores(architecture)
        for loops, spaces in self._placed(einsum, place, bound, above, spread):
            across = math.prod(bound for _, bound in loops.across)
            steps = visits * self._steps(loops, bound)
            for kept in self._by_homes(einsum, spaces):
                sums = [_Sum.start(architecture, steps, across)]
                for space, options in zip(einsum.problem.dataspaces, kept, strict=True):
                    first = firsts.issuperset(times)
                    words = held.get(space.name, 0) if first else 0
                    moved = _exchanged(architecture, loops, space, words)
                    relevant = math.prod(n for dim, n in times.items() if dim in space.dims)
                    parts = relevant if firsts.issuperset(times.keys() - space.dims) else 0
                    added = [
                        _Sum.of(architecture, einsum, space, option, visits, parts, moved, across)
                        for option in options
                    ]
                    added = _undominated(added, self.fills)
                    sums = _undominated([a.beside(b) for a, b in product(sums, added)], self.fills)
                for total in sums:
                    nest = _entries(architecture, loops, dict(total.homes), outside, in_cores)
                    if not loops.divide(bound):
                        nest = replace(nest, bounds=tuple(bound.items()))
                    yield replace(total, nests=(nest,))

    @staticmethod
    def _by_homes(
        einsum: CascadeEinsum, spaces: Sequence[list[SpaceOption]]
    ) -> Iterator[list[list[SpaceOption]]]:
        """Yield the options of all dataspaces by where they keep the outputs: visits that differ agree."""
        by_space = []
        for space, options in zip(einsum.problem.dataspaces, spaces, strict=True):
            parted: dict[object, list[SpaceOption]] = {}
            for option in options:
                home = (option.position is None, option.registers) if space.read_write else None
                parted.setdefault(home, []).append(option)
            by_space.append(list(parted.values()))
        yield from (list(chosen) for chosen in product(*by_space))

    def _steps(self, loops: Loops, bound: dict[str, int]) -> int:
        """Steps of a nest in one visit."""
        steps = 1
        for dim, size in bound.items():
            inside, across = (
                math.prod(f for d, f in region if d == dim) for region in (loops.inside, loops.across)
            )
            # The first child of an array has no less to do than others.
            steps *= sum(i // inside % across == 0 for i in range(size))
        return steps

    def _placed(
        self,
        einsum: CascadeEinsum,
        place: int,
        bound: dict[str, int],
        above: tuple[str, ...],
        spread: dict[str, Shares],
    ) -> Iterator[tuple[Loops, list[list[SpaceOption]]]]:
        """Yield loops with the options that go together."""
        for loops, spaces in self._options(einsum, place, bound, above, spread):
            if not self.even or loops.outside is not None:
                yield loops, spaces
                continue
            for position in range(len(loops.above) + 1):
                common = [[o for o in options if o.position in (None, position)] for options in spaces]
                if all(common):
                    yield loops, common

    def _options(
        self,
        einsum: CascadeEinsum,
        place: int,
        bound: dict[str, int],
        above: tuple[str, ...],
        spread: dict[str, Shares],
    ) -> list[tuple[Loops, list[list[SpaceOption]]]]:
        key = place, tuple(bound.values()), above, tuple(spread.items())
        if key not in self.options:
            inside = [s for s, over in zip(einsum.problem.dataspaces, above, strict=True) if over == "inside"]
            # The order of loops and cores matters to windows alone.
            slides = any(map(einsum.mapspace.has_windows, einsum.problem.dataspaces))
            cores = are_cores(einsum.mapspace.architecture) and self.even and slides
            first = cores and not {"stored", "held"} & set(above)
            self.options[key] = [
                (
                    loops,
                    [
                        list(space_options(einsum, bound, loops, space, over, first))
                        for space, over in zip(einsum.problem.dataspaces, above, strict=True)
                    ],
                )
                for found in self._loops(einsum, bound, inside, spread)
                for loops in (_parted(found) if cores else [found])
            ]
        return self.options[key]

    def _loops(
        self,
        einsum: CascadeEinsum,
        bound: dict[str, int],
        inside: Sequence[Dataspace],
        spread: dict[str, Shares],
    ) -> Iterator[Loops]:
        """Yield loops of which none outside moves what is stored inside, and that spread it as it must be."""
        sliding = {dim for dim in bound if any(slides(space, dim) for space in einsum.problem.dataspaces)}
        if einsum.mapspace.counting_rule.by_order:
            sliding.clear()
        nests = uneven_nests if self.remainders else partial(loop_nests, sliding=sliding)
        for loops in nests(einsum.mapspace.architecture, bound):
            # Memories that exist several times store nothing where there are remainders.
            if inside and einsum.mapspace.architecture.fanouts and not loops.divide(bound):
                continue
            across = Counter[str]()
            for dim, size in loops.across:
                across[dim] = max(1, across[dim]) * size
            moving = {dim for dim, _ in loops.above}
            if any(moving & space.dims for space in inside) or dict(spread.get("", across)) != across:
                continue
            orders = set()
            for space in (einsum.space(name) for name in spread if name):
                access = einsum.access(space.name)
                ranks = zip(access.ranks, space.ranks, strict=True)
                dims = {rank: terms[0].dim for rank, terms in ranks}
                wanted = {dims[rank]: size for rank, size in spread[space.name]}
                orders.add(tuple(wanted.items()) if wanted == across else None)
            if loops.across and self._are_windows_parted(einsum, across, spread):
                continue
            if not _are_allowed(einsum.mapspace, across):
                continue
            if not orders:
                yield loops
            elif None not in orders and len(orders) == 1:
                ordered = replace(loops, across=orders.pop())
                if all(_are_in_order(rules, ordered.across) for rules in einsum.mapspace.spatial):
                    yield ordered

    @staticmethod
    def _are_windows_parted(einsum: CascadeEinsum, across: Counter[str], spread: dict[str, Shares]) -> bool:
        """Whether cores part windows or strides where something is above the nest: that is not searched."""
        is_above = bool(spread) and are_cores(einsum.mapspace.architecture)
        joint = (_windowed(einsum, space) for space in einsum.problem.dataspaces)
        return is_above and any(not own.isdisjoint(across) for own in joint)


def _are_allowed(mapspace: Mapspace, across: Counter[str]) -> bool:
    """Whether the user's own rules, which are about the array, allow its loops."""

    def fact(asked: Quantity) -> int:
        return math.prod(across.values()) if asked.kind == "instances" else max(1, across[asked.of])

    return all(rule.holds(fact) for rule in mapspace.rules)


def _are_in_order(rules: SpatialRules, across: tuple[Step, ...]) -> bool:
    """Whether rules that say nothing of axes allow loops in their order, innermost first."""
    dims = [dim for dim, _ in across]
    ruled = ([dim for dim in own if dim in dims] for own in (rules.inner, rules.outer))
    first, last = ruled
    return dims[: len(first)] == first and dims[len(dims) - len(last) :] == last


@dataclass(frozen=True)
class _Sum:
    """Energy without leakage, steps, words per level and instance (reads, writes), own room, instances."""

    energy: int
    steps: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    room: tuple[int, ...]
    across: int
    homes: tuple[tuple[str, tuple[int | None, bool]], ...] = ()
    nests: tuple[PrivateNest, ...] = ()

    @classmethod
    def nothing(cls, levels: int) -> _Sum:
        """Nothing at all."""
        return cls(0, 0, (0,) * levels, (0,) * levels, (0,) * levels, 1)

    @classmethod
    def start(cls, architecture: Architecture, steps: int, across: int) -> _Sum:
        """A nest before its dataspaces."""
        return replace(cls.nothing(len(architecture.levels)), steps=steps, across=across)

    @classmethod
    def of(
        cls,
        architecture: Architecture,
        einsum: CascadeEinsum,
        space: Dataspace,
        option: SpaceOption,
        visits: int,
        parts: int,
        moved: tuple[int, int],
        across: int,
    ) -> _Sum:
        """One dataspace in all visits of a kind; `moved` is what a held tile exchanges with the outside.

        It has the words outside, and those of one instance.
        """
        energy, reads, writes = 0, [], []
        home = architecture.on_chip[0]
        drains = rule_of(einsum.mapspace.counting).drains_are_reads and space.read_write
        for number, (level, place) in enumerate(
            zip(architecture.levels, architecture.storage_indices, strict=True)
        ):
            read, fill, update = (visits * words for words in option.words[number])
            if level is home:
                read, fill = read + (moved[1] if drains else 0), fill + moved[1]
            elif number == 0 or level in architecture.outer_tolls:
                read += moved[0] * level.charges(space.name, "down")
                update += moved[0] * (space.read_write and level.charges(space.name, "up"))
            if space.read_write:
                served, filled = option.firsts[number]
                read, fill = read - parts * served, fill - parts * filled
            inside = any(fanout < place for fanout in architecture.fanout_indices)
            price, used = level.energy, across if inside else 1
            energy += (read * price.read + fill * price.fill + update * price.update) * used
            reads.append(read)
            writes.append(fill + update)
        kept = (space.name, (option.position, option.registers))
        return cls(energy, 0, tuple(reads), tuple(writes), option.room, across, (kept,))

    def beside(self, other: _Sum) -> _Sum:
        """Two dataspaces of one nest: their room adds up."""
        return self._plus(other, tuple(map(sum, zip(self.room, other.room, strict=True))))

    def joined(self, other: _Sum) -> _Sum:
        """Two kinds of visits: they use the room one after the other."""
        return self._plus(other, tuple(map(max, zip(self.room, other.room, strict=True))))

    def _plus(self, other: _Sum, room: tuple[int, ...]) -> _Sum:
        return _Sum(
            self.energy + other.energy,
            self.steps + other.steps,
            tuple(map(sum, zip(self.reads, other.reads, strict=True))),
            tuple(map(sum, zip(self.writes, other.writes, strict=True))),
            room,
            max(self.across, other.across),
            self.homes + other.homes,
            self.nests + other.nests,
        )

    @property
    def figures(self) -> tuple[int, ...]:
        """What no better sum has more of."""
        return (self.energy, self.steps, *self.reads, *self.writes, *self.room, self.across)


Homes = frozenset[tuple[str, bool, bool]]
"""Outputs, and whether the on-chip memory and the inner one keep them."""


def _output_homes(einsum: CascadeEinsum, total: _Sum) -> Homes:
    outputs = {space.name for space in einsum.problem.dataspaces if space.read_write}
    return frozenset((name, at is not None, inner) for name, (at, inner) in total.homes if name in outputs)


def _undominated(sums: Sequence[_Sum], fills: bool) -> list[_Sum]:
    """Those with no other one that has no more of anything; and as much room where tiles may be too small."""
    kept: list[tuple[tuple[int, ...], _Sum]] = []
    pairs = ((own.figures + tuple(-words for words in own.room if fills), own) for own in sums)
    for figures, candidate in sorted(pairs, key=lambda pair: pair[0]):
        if not any(all(a <= b for a, b in zip(known, figures, strict=True)) for known, _ in kept):
            kept.append((figures, candidate))
    return [own for _, own in kept]


def _parted(loops: Loops) -> Iterator[Loops]:
    """Yield the same loops with each number of them in the outermost memory."""
    yield from (replace(loops, outside=count) for count in range(len(loops.above) + 1))


def _exchanged(architecture: Architecture, loops: Loops, space: Dataspace, moved: int) -> tuple[int, int]:
    """Words that a held tile exchanges outside, and those of one instance, given those of all parts of it."""
    if not are_cores(architecture):
        return moved, moved
    parts = math.prod(size for dim, size in loops.across if dim in space.dims)
    assert moved % parts == 0
    apart = space.name in architecture.fanouts[0].no_multicast
    copies = math.prod(size for _, size in loops.across) if apart else parts
    return moved // parts * copies, moved // parts


def _items(
    architecture: Architecture, einsum: CascadeEinsum, sums: Sequence[_Sum], visits: int
) -> list[Item]:
    items: list[Item] = []
    for total in sums:
        rule = rule_of(einsum.mapspace.counting)
        busy = max(
            rule.latency(level, total.steps, [("", read, write)])
            for level, read, write in zip(architecture.levels, total.reads, total.writes, strict=True)
        )

        def used(position: int, across: int = total.across) -> int:
            return across ** sum(own < position for own in architecture.fanout_indices)

        leaks = (
            level.energy.leak_per_cycle * leaking_instances(architecture, position, used)
            for position, level in zip(architecture.storage_indices, architecture.levels, strict=True)
        )
        leak = sum(round(own * busy) for own in leaks)
        energy = total.energy + leak + einsum.problem.computes * architecture.compute.energy
        cycles = math.ceil(busy) + visits * network_latency(architecture)
        items.append(Item(energy, cycles, total.room, total.nests))
    return items


def _copy_items(einsum: CascadeEinsum, stored: dict[str, str], spread: dict[str, Shares]) -> Iterator[Item]:
    """Yield what a copy moves, if the array spreads what it reads and what it writes alike.

    Each word is read where the source is, and written where copies are, if these are not there. It pays the
    tolls between: as the source inwards, as a copy outwards. All instances in use have equal shares.
    """
    ranks = {name: (einsum.access(name).ranks, einsum.space(name).ranks) for name in spread}
    across = {
        tuple((ranks[name][1][ranks[name][0].index(rank)][0].dim, n) for rank, n in own)
        for name, own in spread.items()
    }
    if len(across) < 2:
        yield _copy_item(einsum, stored, math.prod(n for own in across for _, n in own))


def _copy_item(einsum: CascadeEinsum, stored: dict[str, str], used: int) -> Item:
    """What a copy costs, with so many instances in use of what is in an array."""
    architecture = einsum.mapspace.architecture
    levels = architecture.levels
    names = [level.name for level in levels]
    homes = {s.name: names.index(stored.get(s.name, names[0])) for s in einsum.problem.dataspaces}
    nothing = Item(0, 0, (0,) * len(levels), ())
    (source,) = (s.name for s in einsum.problem.dataspaces if not s.read_write)
    moved = [s for s in einsum.problem.dataspaces if homes[s.name] != homes[source]]
    if not moved:
        return nothing
    words = {s.name: math.prod(extents(s, einsum.problem.bound)) for s in einsum.problem.dataspaces}
    reads, writes = Counter({homes[source]: words[source]}), Counter[int]()
    for space in moved:
        writes[homes[space.name]] += words[space.name]
    for number, level in enumerate(levels):
        ways = dict(level.tolls)
        if ways.get(source) in ("down", "both") and homes[source] < number < max(homes.values()):
            reads[number] += words[source]
        names = [s.name for s in moved if homes[s.name] < number < homes[source]]
        writes[number] += max((words[own] for own in names if ways.get(own) in ("up", "both")), default=0)
    energy, leak, busy = 0, 0, Fraction(0)
    for number, (level, position) in enumerate(zip(levels, architecture.storage_indices, strict=True)):
        several = used if are_in_array(architecture, position) else 1
        own = reads[number], writes[number]
        price = level.energy.fill if number > homes[source] and not level.tolls else level.energy.update
        energy += own[0] * level.energy.read + own[1] * price
        leak += level.energy.leak_per_cycle * several
        rates = (
            (level.read_bandwidth, own[0]),
            (level.write_bandwidth, own[1]),
            (level.shared_bandwidth, sum(own)),
        )
        busy = max([busy, *(Fraction(count, several) / rate for rate, count in rates if rate is not None)])
    cycles = math.ceil(busy)
    return replace(nothing, energy=energy + cycles * leak, cycles=cycles)


def _front(items: Sequence[Item]) -> list[Item]:
    least: list[Item] = []
    for item in sorted(items, key=lambda item: (item.energy, item.cycles)):
        if not least or item.cycles < least[-1].cycles:
            least.append(item)
    return least


def _least(
    sums: Sequence[tuple[tuple[int, int], tuple[Item, ...]]],
) -> list[tuple[tuple[int, int], tuple[Item, ...]]]:
    least: list[tuple[tuple[int, int], tuple[Item, ...]]] = []
    for total, items in sorted(sums, key=lambda pair: pair[0]):
        if not least or total[1] < least[-1][0][1]:
            least.append((total, items))
    return least


def _value(objective: str, energy: int, cycles: int) -> int:
    return {"energy": energy, "latency": cycles, "edp": energy * cycles}[objective]


def _holding(children: Sequence[Body | Leaf], held: dict[str, tuple[Held, ...]]) -> tuple[Body | Leaf, ...]:
    return tuple(
        replace(child, held=held[child.einsum])
        if isinstance(child, Leaf)
        else replace(child, children=_holding(child.children, held))
        for child in children
    )


def _nested(
    children: Sequence[Body | Leaf], nests: dict[str, tuple[PrivateNest, ...]]
) -> tuple[Body | Leaf, ...]:
    return tuple(
        replace(child, nests=nests[child.einsum])
        if isinstance(child, Leaf)
        else replace(child, children=_nested(child.children, nests))
        for child in children
    )


def _tile(visits: Visits, place: int, held: Held, shares: dict[str, Shares]) -> int:
    """Words of the largest tile below some shared loops, in one instance."""
    einsum = visits.cascade.einsums[place]
    across = dict(shares.get(f"[{einsum.name}]", ()))
    sizes = {dim: max(visits.extents(place, dim, held.depth)) for dim in einsum.problem.dims}
    return _box(einsum.space(held.dataspace), {dim: -(-n // across.get(dim, 1)) for dim, n in sizes.items()})


def _box(space: Dataspace, size: dict[str, int]) -> int:
    return math.prod(1 + sum(abs(t.coefficient) * (size[t.dim] - 1) for t in terms) for terms in space.ranks)


def _moved(visits: Visits, place: int, name: str, depth: int) -> int:
    """Words of all tiles below some shared loops."""
    einsum = visits.cascade.einsums[place]
    dims = einsum.problem.dims
    total = 0
    for chosen in product(*(visits.extents(place, dim, depth).items() for dim in dims)):
        size = {dim: extent for dim, (extent, _) in zip(dims, chosen, strict=True)}
        looped = math.prod(count for _, count in chosen)
        total += looped * _box(einsum.space(name), size)
    return total
