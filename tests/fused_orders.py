"""All fused mappings of a small cascade whose nests may have memories in any order, and the optima.

Trees, stored and held tiles are those of `tests.fused_bruteforce`. Nests are all permutations of what
memories hold, with loops anywhere; the plain cost model says which of them there are, and what they cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, permutations, product
from random import Random

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel, with_order
from model.counting import ACCELFORGE
from model.fused.cascade import Cascade, CascadeEinsum
from model.fused.check import FusedMappingError
from model.fused.cost import evaluate_fused
from model.fused.mapping import Body, FusedMapping, Held, Leaf, PrivateNest
from model.fused.visits import Visits, path_dims
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import KeepRules
from model.numbers import divisors
from tests.fused_bruteforce import BruteForce, Item, Shares
from tests.model.fused.random_cascades import SHAPES, cascade_of

Kept = tuple[int, str]
"""A level, and a dataspace that it keeps."""


def ordered_cascade(random: Random, name: str) -> Cascade:
    """A cascade with two memories on chip, which may lie in any order in its nests."""
    letters = sorted({char for text in SHAPES[name] for char in text if char.islower()})
    sizes = (1, 2, 2, 3, 4) if name == "products" else (1, 2, 2)
    bounds = {dim: random.choice(sizes) for dim in letters}
    main = StorageLevel(
        "Main",
        energy=AccessEnergy(random.choice((9, 30)), 0, random.choice((10, 40)), random.choice((0, 2))),
        shared_bandwidth=random.choice((None, 1)),
    )
    prices = [AccessEnergy(*(random.randint(1, 9) for _ in range(3))) for _ in range(2)]
    buffer = StorageLevel("GLB", random.choice((4, 5, 6, 8, 11)), energy=prices[0])
    registers = StorageLevel("RF", random.choice((2, 3, 4)), energy=prices[1])
    array = (Fanout("PE", 2),) if random.random() < 0.5 else ()
    architecture = Architecture("small", (main, buffer, *array, registers), Compute("MAC", energy=1))
    cascade = cascade_of(SHAPES[name], bounds, architecture, random.choice((1, 1, 3)))
    free = frozenset(random.choice((("GLB",), ("RF",), ("GLB", "RF"))))
    own = partial_rules(random)
    einsums = (replace(e, mapspace=replace(e.mapspace, **own(e), free_order=free)) for e in cascade.einsums)
    return replace(cascade, einsums=tuple(einsums))


def partial_rules(random: Random):
    """Rules on what memories keep: registers for one or two tensors of each Einsum."""
    count = random.choice((1, 1, 2))

    def of_einsum(einsum: CascadeEinsum) -> dict:
        names = [access.dataspace for access in einsum.accesses]
        own = frozenset(random.sample(names, min(len(names), count)))
        inner = KeepRules(bypass=frozenset(names) - own)
        outer = KeepRules(bypass=frozenset(random.sample(names, random.choice((0, 0, 1)))))
        intermediate = {a.dataspace for a in einsum.accesses if a.tensor in ("T", "U", "S", "P")}
        outer = KeepRules(bypass=outer.bypass - intermediate)
        return {"keep": (KeepRules(), outer, inner), "counting": ACCELFORGE}

    return of_einsum


@dataclass
class OrderedBruteForce(BruteForce):
    """`BruteForce` with memories in any order in each nest."""

    priced: dict[object, list[Item]] = field(default_factory=dict)

    def _held_of(self, visits: Visits, place: int) -> Iterator[tuple[Held, ...]]:
        """Yield the tiles that an Einsum may hold: none that the memory has to let pass."""
        bypassed = self.cascade.einsums[place].mapspace.keep[1].bypass
        for every in super()._held_of(visits, place):
            if not any(held.dataspace in bypassed for held in every):
                yield every

    def einsum_items(self, visits: Visits, place: int, shares: dict[str, Shares]) -> list[Item]:
        """Every choice for one Einsum that no other one dominates, the room for its own tiles included."""
        einsum, path = self.cascade.einsums[place], visits.mapping.paths[place]
        loops = tuple((loop.dim(einsum.name), loop.trips) for loop in path.loops)
        at = visits.mapping.stored_at
        stored = tuple((a.dataspace, at[a.tensor].memory) for a in einsum.accesses if a.tensor in at)
        key = place, loops, stored, path.leaf.held
        if key not in self.priced:
            self.priced[key] = _least(list(self._items(visits, place, dict(stored))))
        return self.priced[key]

    def _items(self, visits: Visits, place: int, stored: dict[str, str]) -> Iterator[Item]:
        einsum, path = self.cascade.einsums[place], visits.mapping.paths[place]
        levels = [level.name for level in einsum.mapspace.architecture.levels]
        homes = {**stored, **{held.dataspace: "GLB" for held in path.leaf.held}}
        for nest in every_nest(einsum, _bounds(visits, place), homes, frozenset(stored)):
            mapping = self._with(visits.mapping, einsum.name, nest)
            try:
                cost = evaluate_fused(self.cascade, mapping)
            except FusedMappingError:
                continue
            own = cost.einsum(einsum.name)
            tiles = [
                sum(t.size_words for t in cost.room(einsum.name, name).tiles if t.kind == "own")
                for name in levels[1:]
            ]
            broken = {violation.kind for name, violation in cost.violations if name == einsum.name}
            if broken - {"capacity", "min_utilization"}:
                continue
            yield Item(own.energy, own.cycles, (0, *tiles), (nest,))

    def _with(self, mapping: FusedMapping, name: str, nest: PrivateNest) -> FusedMapping:
        """The tree with a nest of one Einsum, and others that do nothing but compute."""

        def filled(child: Body | Leaf) -> Body | Leaf:
            if isinstance(child, Body):
                return replace(child, children=tuple(map(filled, child.children)))
            place = self.cascade.place(child.einsum)
            own = nest if child.einsum == name else self._plain(visits, place)
            return replace(child, nests=(own,))

        visits = Visits(self.cascade, mapping)
        return replace(mapping, children=tuple(map(filled, mapping.children)))

    def _plain(self, visits: Visits, place: int) -> PrivateNest:
        einsum = self.cascade.einsums[place]
        stored = {a.dataspace for a in einsum.accesses if a.tensor in visits.mapping.stored_at}
        loops = tuple(Loop(dim, size) for dim, size in _bounds(visits, place).items() if size > 1)
        first = StorageMapping((), frozenset(a.dataspace for a in einsum.accesses) - stored)
        nodes = einsum.mapspace.architecture.nodes
        inner = [FanoutMapping() if isinstance(node, Fanout) else StorageMapping() for node in nodes[1:-1]]
        return PrivateNest(Mapping((first, *inner, StorageMapping(loops))))


def _bounds(visits: Visits, place: int) -> dict[str, int]:
    """What a visit covers; all visits are alike."""
    einsum, path = visits.cascade.einsums[place], visits.mapping.paths[place]
    bounds = dict(einsum.problem.bound)
    for dim in path_dims(path, len(path.loops)):
        (bounds[dim],) = visits.extents(place, dim, len(path.loops))
    return bounds


def every_nest(
    einsum: CascadeEinsum, bounds: dict[str, int], homes: dict[str, str], stored: frozenset[str]
) -> Iterator[PrivateNest]:
    """Yield nests of all orders that may be: what is at home above has no tile there, nor one outside."""
    mapspace, hardware = einsum.mapspace, einsum.mapspace.architecture
    names = [level.name for level in hardware.levels]
    options: list[list[tuple[Kept, ...]]] = []
    for space in (access.dataspace for access in einsum.accesses):
        home = names.index(homes.get(space, names[0]))
        inside = range(home + 1, len(names))
        may = [n for n in inside if space not in mapspace.keep[n].bypass]
        must = {n for n in inside if space in mapspace.keep[n].keep}
        options.append([tuple((n, space) for n in own) for own in _subsets(may) if must <= {*own}])
    first = StorageMapping((), frozenset(a.dataspace for a in einsum.accesses) - stored)
    for chosen in product(*options):
        held = [own for some in chosen for own in some]
        for order in permutations(held):
            if all(_may_precede(mapspace.free_order, names, a, b) for a, b in combinations(order, 2)):
                yield from _nests(hardware, bounds, [(names[n], space) for n, space in order], first)


def _subsets(levels: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(levels, count) for count in range(len(levels) + 1))


def _may_precede(free: frozenset[str], names: Sequence[str], first: Kept, second: Kept) -> bool:
    if first[0] <= second[0]:
        return True
    return first[1] != second[1] and not free.isdisjoint((names[first[0]], names[second[0]]))


def _nests(
    hardware: Architecture, bounds: dict[str, int], order: Sequence[tuple[str, str]], first: StorageMapping
) -> Iterator[PrivateNest]:
    memories = tuple(memory for memory, _ in order)
    nodes = with_order(hardware, memories).nodes
    usable = [
        n for n, node in enumerate(nodes) if isinstance(node, Fanout) or not n or node.component in memories
    ]
    splits = [list(_splits(size, len(usable))) for size in bounds.values()]
    for chosen in product(*splits):
        at = {n: [own[place] for own in chosen] for place, n in enumerate(usable)}
        tiles, entries = iter(order), list[NodeMapping]()
        for n, node in enumerate(nodes):
            pairs = zip(bounds, at.get(n, [1] * len(bounds)), strict=True)
            loops = [(dim, size) for dim, size in pairs if size > 1]
            if isinstance(node, Fanout):
                entries.append(FanoutMapping(tuple(SpatialLoop(dim, size, "x") for dim, size in loops)))
                continue
            kept = first.keep if not n else frozenset((next(tiles)[1],)) if n in at else frozenset()
            entries.append(StorageMapping(tuple(Loop(dim, size) for dim, size in loops), kept))
        yield PrivateNest(Mapping(tuple(entries)), order=memories)


def _splits(bound: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (bound,)
        return
    for factor in divisors(bound):
        for rest in _splits(bound // factor, parts - 1):
            yield (factor, *rest)


def _least(items: list[Item]) -> list[Item]:
    """Those that no other one is as good as in energy, cycles and room."""
    kept: list[Item] = []
    for item in sorted(items, key=lambda own: (own.energy, own.cycles, own.room)):
        if not any(
            other.cycles <= item.cycles and all(a <= b for a, b in zip(other.room, item.room, strict=True))
            for other in kept
        ):
            kept.append(item)
    return kept
