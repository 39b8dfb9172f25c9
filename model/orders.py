"""Orders of memories: the mapspaces that make up one whose memories may lie in any order in the nest.

The tile of a dataspace in a memory is *held* at one place of the nest. Those of one dataspace lie in the
order of the hardware. Those of different dataspaces may lie in any order if one of their memories is in
`Mapspace.free_order`. Each order is a mapspace whose nodes are in the order of the nest (`in_order`). With
one choice of spatial factors, it is as good as a mapspace without fanouts (`unrolled`): what fanouts do to
tiles and words are constant factors then.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Mapping as Named
from dataclasses import dataclass, replace
from itertools import chain, product

from model.architecture import Architecture, Fanout, StorageLevel, with_order
from model.choices import keep_options, keep_sets
from model.cost.order import crossed_slots
from model.cost.prices import leaking_instances
from model.counting import rule_of
from model.extents import PERFECT
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, StorageMapping
from model.mapspace import FactorRule, JointRules, KeepRules, Mapspace, TemporalRules
from model.places import spread
from model.problem import Dataspace, Problem

Held = tuple[int, str]
"""A level of the hardware, and a dataspace that it keeps."""

Order = tuple[Held, ...]
"""What is held inside of the outermost memory as it lies in the nest, outermost first."""

Unrolling = tuple[Named[str, int], ...]
"""Per fanout, from the outermost, its factor of each dimension."""


def check_orders(mapspace: Mapspace) -> None:
    """Check that the orders of a mapspace's memories can be searched.

    Raises
    ------
    ValueError
        If it has what is known in the order of the hardware only.
    """
    for obstacle in chain(_obstacles(mapspace), _fanout_obstacles(mapspace)):
        raise ValueError(f"memories in any order (force_memory_hierarchy_order: False) {obstacle}")


def _obstacles(mapspace: Mapspace) -> Iterator[str]:
    levels = mapspace.architecture.levels
    if mapspace.factors != PERFECT or mapspace.sparsity is not None:
        yield "are not searched with remainders or sparse data"
    if not (rule := rule_of(mapspace.counting)).in_any_order:
        yield f"are not counted by {rule.title}"
    if mapspace.joint or mapspace.parallel or not all(map(_is_plain, mapspace.temporal[1:])):
        yield "are not searched with `!Parallel`, given places or constraints on temporal loops"
    if any(_takes_room(mapspace, space.name) for space in mapspace.problem.dataspaces):
        yield "are not searched where the outermost memory need not keep all tensors"
    if any(level.tolls or level.cluster_size > 1 or level.passing for level in levels):
        yield "are not searched with tolls, clusters or uncoalesced words"
    names = [space.name for space in mapspace.problem.dataspaces]
    if any(level.packing_of(name).block_size > 1 for level in levels for name in names):
        yield "are not searched where words come in blocks"
    if any(level.min_utilization for level in levels):
        yield "are not searched with a minimum utilization"
    if any(not rule.is_spatial for rule in mapspace.rules):
        yield "are not searched under user-defined constraints on tiles, loops or costs"


def _is_plain(rules: TemporalRules) -> bool:
    """Whether all that is said of a memory's loops is over which dimensions it has none."""
    return not (rules.inner or rules.outer) and all(map(_is_none, rules.factors))


def _is_none(rule: FactorRule) -> bool:
    return rule.relation == "=" and rule.value == 1


def _home(mapspace: Mapspace, name: str) -> int | None:
    """Return the level that has the whole of a dataspace in any case; None where that is open."""
    for level, rules in enumerate(mapspace.keep):
        options = keep_options(rules, level, name)
        if options != (False,):
            return level if options == (True,) else None
    return None


def _takes_room(mapspace: Mapspace, name: str) -> bool:
    """Whether a dataspace that the outermost memory does not keep takes room where it is."""
    home = _home(mapspace, name)
    return home is None or (
        home > 0 and mapspace.architecture.levels[home].packing_of(name).size_per_value > 0
    )


def _fanout_obstacles(mapspace: Mapspace) -> Iterator[str]:
    """Yield what fanouts may do that is no constant factor of tiles and words."""
    bounds = mapspace.problem.bound
    pairs = zip(mapspace.architecture.fanouts, mapspace.spatial, strict=True)
    for (fanout, rules), space in product(pairs, mapspace.problem.dataspaces):
        fixed = {rule.dim for rule in rules.factors if rule.relation != ">=" and rule.value == 1}
        live = {dim for dim, bound in bounds.items() if bound > 1} - fixed
        if live & _sliding(space):
            yield f"are not searched where `{fanout.name}` may unroll windows of {space.name}"
        if space.name in fanout.no_multicast and live - space.dims:
            yield f"are not searched where `{fanout.name}` may unroll {space.name} without multicast"


def _sliding(space: Dataspace) -> set[str]:
    """Dimensions along which tiles are no plain parts of a dataspace."""
    terms = [term.dim for rank in space.ranks for term in rank]
    odd = (rank for rank in space.ranks if len(rank) > 1 or any(abs(t.coefficient) != 1 for t in rank))
    return {term.dim for rank in odd for term in rank} | {dim for dim in terms if terms.count(dim) > 1}


def orders(mapspace: Mapspace) -> Iterator[Order]:
    """Yield every order of every choice of what memories keep.

    A dataspace that the outermost memory does not keep is there before the nest begins: what it is in lies as
    far outside as memories around it allow.
    """
    for held in held_sets(mapspace):
        yield from orders_of(mapspace, held)


def held_sets(mapspace: Mapspace) -> Iterator[tuple[Held, ...]]:
    """Yield what memories inside of the outermost one may hold together."""
    names = [space.name for space in mapspace.problem.dataspaces]
    for chosen in product(*(sorted(map(sorted, keep_sets(mapspace, name))) for name in names)):
        held = [(level, name) for name, kept in zip(names, chosen, strict=True) for level in kept if level]
        yield tuple(sorted(held))


def orders_of(mapspace: Mapspace, held: Sequence[Held]) -> Iterator[Order]:
    """Yield the orders of what is held."""
    if not held:
        yield ()
    for own in nexts(mapspace, held):
        others = [other for other in held if other != own]
        yield from ((own, *order) for order in orders_of(mapspace, others))


def nexts(mapspace: Mapspace, left: Sequence[Held]) -> list[Held]:
    """Return what may lie outside of all else that is to come: what is there in any case first."""
    homes = {(_home(mapspace, space.name), space.name) for space in mapspace.problem.dataspaces}
    found = [own for own in left if not any(_lies_above(mapspace, homes, other, own) for other in left)]
    return [own for own in found if own in homes][:1] or found


def _lies_above(
    mapspace: Mapspace, homes: Collection[tuple[int | None, str]], outer: Held, inner: Held
) -> bool:
    """Whether one tile has to lie above another one."""
    levels, free = mapspace.architecture.levels, mapspace.free_order
    is_bound = inner in homes or free.isdisjoint(levels[level].component for level, _ in (outer, inner))
    return outer[0] < inner[0] and (outer[1] == inner[1] or is_bound)


def in_order(mapspace: Mapspace, order: Order) -> Mapspace:
    """Return the mappings of one order: each place holds one dataspace, and nodes are in the nest's order."""
    levels = mapspace.architecture.levels
    architecture = with_order(mapspace.architecture, [levels[level].name for level, _ in order])
    names = [level.name for level in levels]
    numbers = [names.index(level.component) for level in architecture.levels]
    held = iter(order)
    kept = [
        frozenset((next(held)[1],)) if any(n == own for own, _ in order) else frozenset() for n in numbers[1:]
    ]
    everything = frozenset(space.name for space in mapspace.problem.dataspaces)
    every = [(0, everything - mapspace.keep[0].bypass), *zip(numbers[1:], kept, strict=True)]
    return replace(
        mapspace,
        architecture=architecture,
        temporal=tuple(_temporal(mapspace, every)),
        keep=tuple(replace(mapspace.keep[n], keep=own, bypass=everything - own) for n, own in every),
        joint=tuple(_joint(every)),
        free_order=frozenset(),
    )


def _temporal(mapspace: Mapspace, every: Sequence[tuple[int, frozenset[str]]]) -> Iterator[TemporalRules]:
    """Yield the rules on the loops of each place.

    Loops above the place of what the outermost memory does not keep move it no more than that one's do.
    """
    dims, whole = frozenset(mapspace.problem.dims), mapspace.temporal[0]
    still = {rule.dim for rule in whole.factors if _is_none(rule)}
    yield whole
    for place, (level, kept) in enumerate(every[1:], start=1):
        fixed = {rule.dim for rule in mapspace.temporal[level].factors}
        for number, own in every[place + 1 :]:
            at_home = (name for name in own if number == _home(mapspace, name))
            fixed |= {
                dim for name in at_home for dim in mapspace.problem.dataspace(name).dims if dim in still
            }
        is_first = all(own and _home(mapspace, *own) == n == 1 for n, own in every[1 : place + 1])
        yield TemporalRules(
            tuple(FactorRule(dim, "=", 1) for dim in sorted(fixed if kept and not is_first else dims))
        )


def in_hardware_order(mapspace: Mapspace) -> Mapspace:
    """Return the mappings in the order of the hardware: memories have a place for each dataspace.

    What the outermost memory does not keep is at the first one, if it is there in the next one.
    """
    names = (space.name for space in mapspace.problem.dataspaces)
    above = frozenset(name for name in names if _home(mapspace, name) == 1)
    return with_first_places(spread(replace(mapspace, free_order=frozenset())), above)


def with_first_places(mapspace: Mapspace, above: Collection[str]) -> Mapspace:
    """Return the mappings with some dataspaces at the first place of the outermost memory on chip."""
    home = mapspace.architecture.on_chip[0].component if above else ""
    places = [n for n, level in enumerate(mapspace.architecture.levels) if level.component == home]
    keep = list(mapspace.keep)
    for place in places:
        rules = keep[place]
        if place == places[0]:
            keep[place] = replace(rules, keep=rules.keep.union(above))
        else:
            keep[place] = replace(rules, bypass=rules.bypass.union(above))
    return replace(mapspace, keep=tuple(keep))


def rearranged(mapspace: Mapspace, hardware: Mapspace, mapping: Mapping) -> tuple[Mapspace, Mapping]:
    """Return a mapping of `in_hardware_order` as one of its order, and the mapspace of that order."""
    memories = [level.name for level in mapspace.architecture.levels]
    tiles: list[tuple[Held | None, tuple[Loop, ...]]] = []
    positions = hardware.architecture.storage_indices
    for position, level in zip(positions, hardware.architecture.levels, strict=True):
        entry = mapping.nodes[position]
        assert isinstance(entry, StorageMapping)
        number = memories.index(level.component)
        tiles += [((number, name), ()) for name in sorted(entry.keep)] if number else []
        last, loops = tiles.pop() if tiles else (None, ())
        tiles.append((last, (*entry.temporal, *loops)))
    for name in (space.name for space in mapspace.problem.dataspaces):
        tiles = _homed(tiles, _home(mapspace, name) or 0, name)
    own = in_order(mapspace, tuple(held for held, _ in tiles if held is not None))
    stores = iter(tiles)
    fanouts = iter([entry for entry in mapping.nodes if isinstance(entry, FanoutMapping)])
    keeps, nodes = iter(own.keep), list[NodeMapping]()
    for node in own.architecture.nodes:
        if isinstance(node, Fanout):
            nodes.append(next(fanouts))
            continue
        kept = next(keeps).keep
        nodes.append(StorageMapping(next(stores)[1] if kept or not nodes else (), kept))
    return own, Mapping(tuple(nodes))


def _homed(
    tiles: Sequence[tuple[Held | None, tuple[Loop, ...]]], level: int, name: str
) -> list[tuple[Held | None, tuple[Loop, ...]]]:
    """Move the tile that a dataspace is in before the nest begins as far outside as may be."""
    if not level:
        return list(tiles)
    number = next(n for n, (held, _) in enumerate(tiles) if held == (level, name))
    above = tiles[number - 1][0]
    if level > 1 and (above is None or above[0] < level):
        return list(tiles)  # the loops below it are not to move it
    (before, outside), (own, loops) = tiles[number - 1], tiles[number]
    left = [*tiles[: number - 1], (before, (*loops, *outside)), *tiles[number + 1 :]]
    outer = (n for n, (held, _) in enumerate(left) if held is None or held[0] < level)
    place = 1 + max(outer)
    return [*left[:place], (own, ()), *left[place:]]


def order_of(mapspace: Mapspace, ordered: Mapspace) -> Order:
    """Return the order whose mapspace `in_order` has made of a mapspace."""
    memories = [level.name for level in mapspace.architecture.levels]
    pairs = zip(ordered.architecture.levels[1:], ordered.keep[1:], strict=True)
    return tuple(
        (memories.index(level.component), name) for level, rules in pairs for name in sorted(rules.keep)
    )


def renamed_order(order: Order, names: Named[str, str]) -> Order:
    """Return an order with other names of dataspaces."""
    return tuple((level, names[name]) for level, name in order)


def _joint(places: Sequence[tuple[int, frozenset[str]]]) -> Iterator[JointRules]:
    numbers = [level for level, _ in places]
    for memory in dict.fromkeys(numbers):
        own = tuple(place for place, level in enumerate(numbers) if level == memory)
        if len(own) > 1:
            kept = frozenset().union(*(places[place][1] for place in own))
            yield JointRules(own, TemporalRules(), KeepRules(keep=kept))


@dataclass(frozen=True)
class _Factors:
    """What one choice of spatial factors does to the tiles and words of dataspaces.

    Parameters
    ----------
    problem
        Its dataspaces.
    unrolling
        The factors.
    """

    problem: Problem
    unrolling: Unrolling

    def children(self, first: int, last: int, dims: Collection[str]) -> int:
        """Factors of some dimensions in the fanouts from one up to before another."""
        own = self.unrolling[first:last]
        return math.prod(factor for fanout in own for dim, factor in fanout.items() if dim in dims)

    def tiles(self, space: Dataspace, above: int) -> int:
        """By what fanouts inside of so many make the tile of one instance larger."""
        return self.children(above, len(self.unrolling), space.dims)

    def accesses(self, space: Dataspace, above: int) -> int:
        """Accesses in all instances under so many fanouts for each one without any."""
        others = frozenset(self.problem.dims) - space.dims
        return self.children(0, len(self.unrolling), space.dims) * self.children(0, above, others)


def unrolled(mapspace: Mapspace, unrolling: Unrolling) -> Mapspace:
    """Return the temporal loops of one order with one choice of spatial factors: a mapspace without fanouts.

    Its mappings have the energy and cycles of those of the order, and fit where they do.

    Parameters
    ----------
    mapspace
        Of `in_order`.
    unrolling
        Factors that divide the bounds.
    """
    problem, architecture = mapspace.problem, mapspace.architecture
    factors = _Factors(problem, unrolling)
    inside = {dim: math.prod(own.get(dim, 1) for own in unrolling) for dim in problem.dims}
    bounds = tuple(bound // inside[dim] for dim, bound in problem.bound.items())
    levels = tuple(_alone(architecture, position, factors) for position in architecture.storage_indices)
    units = math.prod(inside.values())
    compute = replace(architecture.compute, energy=architecture.compute.energy * units)
    return replace(
        mapspace,
        problem=replace(problem, bounds=bounds),
        architecture=replace(architecture, nodes=levels, compute=compute),
        temporal=tuple(_whole(mapspace, unrolling)),
        spatial=(),
        min_parallelism=type(mapspace.min_parallelism)(0),
        rules=(),
    )


def _alone(architecture: Architecture, position: int, factors: _Factors) -> StorageLevel:
    """Return a level that stands for all of its instances."""
    level, above = architecture.level_at(position), architecture.fanouts_above(position)
    spaces = factors.problem.dataspaces

    def used(node: int) -> int:
        return factors.children(0, architecture.fanouts_above(node), factors.problem.dims)

    leaking = leaking_instances(architecture, position, used)
    tiles = {space.name: factors.tiles(space, above) for space in spaces}
    packing = map(level.packing_of, tiles)
    accesses = (factors.accesses(space, above) for space in spaces)
    return replace(
        level,
        fanouts_above=None,
        gating_fanouts=None,
        packing=tuple(
            replace(
                own,
                size_per_value=own.size_per_value * tiles[own.dataspace],
                accesses_per_block=own.accesses_per_block * count,
            )
            for own, count in zip(packing, accesses, strict=True)
        ),
        bandwidth_scale=tuple((name, level.scale(name) * own) for name, own in tiles.items()),
        energy=replace(level.energy, leak_per_cycle=level.energy.leak_per_cycle * leaking),
    )


def _whole(mapspace: Mapspace, unrolling: Unrolling) -> Iterator[TemporalRules]:
    """Yield the rules on temporal loops under which no tile is made of pieces."""
    architecture, fixed = mapspace.architecture, set[tuple[int, str]]()
    kept = [own.keep for own in mapspace.keep]
    for number, own in enumerate(unrolling):
        for dim in (dim for dim, factor in own.items() if factor > 1):
            spaces = [space.name for space in mapspace.problem.dataspaces if dim in space.dims]
            fixed |= {(slot, dim) for slot in crossed_slots(architecture, kept, number, spaces)}
    for slot, rules in enumerate(mapspace.temporal):
        own_dims = sorted(dim for place, dim in fixed if place == slot)
        yield replace(rules, factors=(*rules.factors, *(FactorRule(dim, "=", 1) for dim in own_dims)))


def with_spatial(mapspace: Mapspace, mapping: Mapping, spatial: Sequence[FanoutMapping]) -> Mapping:
    """Return a mapping of `unrolled` as one of the order, with the loops of its fanouts."""
    levels, fanouts = iter(mapping.nodes), iter(spatial)
    nodes: Iterator[NodeMapping] = (
        next(fanouts) if isinstance(node, Fanout) else next(levels) for node in mapspace.architecture.nodes
    )
    return Mapping(tuple(nodes))
