"""Which memories may store tensors, and how these are spread over memories that exist several times."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, permutations, product
from typing import NamedTuple

from model.architecture import Architecture, Fanout, StorageLevel
from model.choices import SideOrder
from model.fused.cascade import Cascade, CascadeEinsum, lone_dims
from model.fused.check import accesses_of
from model.fused.mapping import PrivateNest
from model.mapping import Axis, FanoutMapping, NodeMapping, SpatialLoop
from model.mapping import Mapping as LoopNest
from model.mapspace import Mapspace, SpatialRules
from model.numbers import divisors
from solver.fusion.edges import EdgeKind, fanouts_outside, level_number

AXES: tuple[Axis, ...] = ("x", "y")


class Share(NamedTuple):
    """A rank of a tensor that a fanout spreads: over how many children, of its extent in a visit.

    Where rules order the loops of the fanout, with an axis; those of one fanout are innermost first.
    """

    fanout: int
    rank: str
    parts: int
    extent: int
    axis: Axis | None = None


Spread = tuple[Share, ...]
"""How a stored tensor is spread, outermost fanout first; empty if it is not."""

Ordered = tuple[tuple[str, int, Axis | None], ...]
"""Spatial loops of one fanout: dimensions and children, with axes where rules order them; innermost first."""

Shares = tuple[tuple[int, tuple[tuple[str, int], ...]], ...]
"""By fanout, the spatial loops of an Einsum: dimensions and children."""


@dataclass(frozen=True)
class Stores:
    """The memories of a cascade that may store tensors."""

    cascade: Cascade

    @property
    def _architecture(self) -> Architecture:
        return self.cascade.einsums[0].mapspace.architecture

    @cached_property
    def levels(self) -> dict[int, StorageLevel]:
        """The on-chip memories, by number."""
        return dict(enumerate(self._architecture.on_chip, start=1))

    @cached_property
    def ordered(self) -> frozenset[int]:
        """Fanouts whose spatial loops the rules of some Einsum order; copies have no loops."""
        einsums = (einsum for einsum in self.cascade.einsums if not einsum.is_copy)
        rules = (own for einsum in einsums for own in enumerate(einsum.mapspace.spatial))
        return frozenset(fanout for fanout, own in rules if _is_ordered(own))

    @cached_property
    def least(self) -> dict[int, int]:
        """By number of a memory that has one, the words that its least utilization asks for."""
        return {number: level.least_words for number, level in self.levels.items() if level.least_words}

    @cached_property
    def unlike(self) -> frozenset[int]:
        """Memories that have other room for some Einsums: what is stored there for several does not wait."""
        rooms = zip(*(own.mapspace.architecture.on_chip for own in self.cascade.einsums), strict=True)
        sizes = ({level.usable_words for level in own} for own in rooms)
        return frozenset(number for number, own in enumerate(sizes, start=1) if len(own) > 1)

    def homes(self, tensor: str) -> Iterator[int]:
        """Yield the levels that the rules of all Einsums let store a tensor, outermost first."""
        accesses = list(accesses_of(self.cascade, tensor))
        if len({frozenset(access.ranks) for _, access in accesses}) > 1:
            return
        allowed = {1} if any(einsum.keeps_rest for einsum, _ in accesses) else self.levels.keys()
        for number in sorted(allowed - self.unlike):
            if all(_may_store(einsum.mapspace, access.dataspace, number) for einsum, access in accesses):
                yield number

    def outside(self, level: int) -> tuple[int, ...]:
        """Fanouts outside of a memory that have several children."""
        return fanouts_outside(self._architecture, level)

    def instances(self, level: int) -> int:
        """How often a memory exists."""
        architecture = self._architecture
        return architecture.instances_above(architecture.storage_indices[level_number(architecture, level)])

    def spreads(self, place: int, tensor: str, level: int, extents: Mapping[str, int]) -> Iterator[Spread]:
        """Yield every way to spread what an Einsum writes in a visit over the instances of a memory.

        Parameters
        ----------
        extents
            Of its dimensions in a visit; without those whose visits differ.
        """
        einsum = self.cascade.einsums[place]
        (access,) = einsum.accesses_of(tensor)
        dims = lone_dims(einsum, access)
        ranks = sorted((r for r in dims if dims[r] in extents), key=lambda r: (self._order[tensor, r], r))
        own = {rank: extents[dims[rank]] for rank in ranks}
        for counts in self._counts(self.outside(level), own):
            shares = [Share(fanout, rank, count, own[rank]) for fanout, rank, count in counts]
            of_fanouts = ([x for x in shares if x.fanout == n] for n in self.outside(level))
            ways = (self._in_each_order(einsum, dims, x) for x in of_fanouts)
            yield from (tuple(chain.from_iterable(chosen)) for chosen in product(*map(list, ways)))

    def copied(self, place: int, source: str, target: str, spread: Spread) -> Spread | None:
        """Return how a copy is spread that lies beside its source; None if it lacks the ranks for that."""
        einsum = self.cascade.einsums[place]
        one, other = (lone_dims(einsum, einsum.accesses_of(tensor)[0]) for tensor in (source, target))
        ranks = {dim: rank for rank, dim in other.items()}
        if not {one.get(share.rank, "") for share in spread} <= ranks.keys():
            return None
        return tuple(share._replace(rank=ranks[one[share.rank]]) for share in spread)

    def _in_each_order(
        self, einsum: CascadeEinsum, dims: Mapping[str, str], shares: Sequence[Share]
    ) -> Iterator[Sequence[Share]]:
        """Yield shares of one fanout with all orders and axes that an Einsum may have, if rules say."""
        if not shares or shares[0].fanout not in self.ordered:
            yield shares
            return
        by_dim = {dims[own.rank]: own for own in shares}
        counts = {dim: own.parts for dim, own in by_dim.items()}
        for loops in _orders(einsum, shares[0].fanout, counts):
            yield [by_dim[dim]._replace(axis=axis) for dim, _, axis in loops]

    def alone(self, place: int, remainders: bool = False) -> EdgeKind:
        """An Einsum that shares no loops, and neither stores nor holds anything."""
        return EdgeKind(place, remainders=remainders, least=tuple(sorted(self.least.items())))

    def is_open(self, kind: EdgeKind) -> bool:
        """Whether an Einsum holds tiles, and it is open how spatial loops part them among instances."""
        return bool(kind.shifts) and not dict(kind.shares).keys() >= set(self.outside(1))

    def may_leave(self, deeper: Iterable[tuple[str, int]], above: Collection[str] = ()) -> bool:
        """Whether nests may have remainders: what they store farther in, or have `above`, is not parted."""
        return not any(map(self.outside, [level for _, level in deeper] + [1] * bool(above)))

    def loops_outside(self, level: int, extents: Mapping[str, int]) -> Iterator[Shares]:
        """Yield all spatial loops of fanouts outside of a memory, given extents of dimensions in a visit."""
        outside = self.outside(level)
        for counts in self._counts(outside, extents):
            yield tuple((n, tuple((dim, count) for own, dim, count in counts if own == n)) for n in outside)

    def _counts(
        self, fanouts: Sequence[int], left: Mapping[str, int]
    ) -> Iterator[tuple[tuple[int, str, int], ...]]:
        if not fanouts:
            yield ()
            return
        fanout = self._architecture.fanouts[fanouts[0]]
        for counts in product(*(_up_to(fanout.size, extent) for extent in left.values())):
            used = [(rank, count) for rank, count in zip(left, counts, strict=True) if count > 1]
            if _axes(fanout, [count for _, count in used]) is None:
                continue
            below = {
                rank: extent // count for (rank, extent), count in zip(left.items(), counts, strict=True)
            }
            for rest in self._counts(fanouts[1:], below):
                yield (*((fanouts[0], rank, count) for rank, count in used), *rest)

    @cached_property
    def _order(self) -> dict[tuple[str, str], int]:
        """One order of the ranks of all tensors: those that one dimension indexes have the same number."""
        numbers: dict[tuple[str, str], int] = {}
        for einsum in self.cascade.einsums:
            for dim in einsum.problem.dims:
                pairs = ((access, lone_dims(einsum, access)) for access in einsum.accesses)
                ranks = [(a.tensor, rank) for a, dims in pairs for rank in dims if dims[rank] == dim]
                known = [numbers[rank] for rank in ranks if rank in numbers]
                numbers.update(dict.fromkeys(ranks, min(known, default=len(numbers))))
        return numbers

    def shares(
        self, place: int, extents: Mapping[str, int], spreads: Mapping[str, tuple[int, Spread | None]]
    ) -> Shares | None:
        """Return the spatial loops that spread the tensors of an Einsum; None where there are none.

        Parameters
        ----------
        extents
            Those of `spreads`.
        spreads
            By tensor its level, and its spread if that is known.
        """
        einsum, found = self.cascade.einsums[place], set[tuple[int, Ordered]]()
        for access in (a for a in einsum.accesses if a.tensor in spreads):
            level, spread = spreads[access.tensor]
            dims, known = lone_dims(einsum, access), spread or ()
            if any(extents.get(dims.get(share.rank, "")) != share.extent for share in known):
                return None
            for fanout in self.outside(level) if spread is not None else ():
                found.add((fanout, _loops_of(known, fanout, dims)))
        if len(dict(found)) < len(found) or not all(self._may_have(einsum, *own) for own in found):
            return None
        counts = ((n, tuple((dim, count) for dim, count, _ in loops)) for n, loops in found)
        return tuple(sorted((n, tuple(sorted(own)) if n in self.ordered else own) for n, own in counts))

    def _may_have(self, einsum: CascadeEinsum, fanout: int, loops: Ordered) -> bool:
        """Whether the rules of an Einsum allow spatial loops in their order."""
        counts = {dim: count for dim, count, _ in loops}
        return fanout not in self.ordered or loops in _orders(einsum, fanout, counts)

    def aligned(self, kind: EdgeKind, nest: PrivateNest, spreads: Mapping[str, Spread]) -> PrivateNest:
        """Return a nest whose spatial loops outside of what it stores stand in one order for all Einsums.

        In that of `spreads`, by tensor, as far as these are known.
        """
        einsum, stored = self.cascade.einsums[kind.place], dict(kind.deeper)
        outside = {fanout for level in stored.values() for fanout in self.outside(level)}
        outside.update(self.outside(1) if kind.above else ())
        order = {dim: (len(self._order), dim) for dim in einsum.problem.dims}
        known = dict[int, Ordered]()
        for access in (own for own in einsum.accesses if own.dataspace in kind.at_home):
            dims = lone_dims(einsum, access)
            order.update({dim: (self._order[access.tensor, rank], rank) for rank, dim in dims.items()})
            spread = spreads.get(access.tensor, ())
            known.update((n, _loops_of(spread, n, dims)) for n in {share.fanout for share in spread})
        fanouts = iter(enumerate(self._architecture.fanouts))

        def in_order(entry: NodeMapping) -> NodeMapping:
            if not isinstance(entry, FanoutMapping):
                return entry
            number, fanout = next(fanouts)
            if number not in outside:
                return entry
            if number not in self.ordered:
                return _aligned(fanout, entry, order)
            counts = {loop.dim: loop.bound for loop in entry.spatial if loop.bound > 1}
            ways = _orders(einsum, number, counts)
            chosen = known[number] if known.get(number) in ways else ways[0]
            return FanoutMapping(tuple(SpatialLoop(dim, count, axis or "x") for dim, count, axis in chosen))

        return replace(nest, mapping=LoopNest(tuple(map(in_order, nest.mapping.nodes))))


def _is_ordered(rules: SpatialRules) -> bool:
    return bool(rules.inner or rules.outer) or rules.split is not None


def _loops_of(spread: Spread, fanout: int, dims: Mapping[str, str]) -> Ordered:
    """The spatial loops of a fanout that spread a tensor, given the dimensions of its ranks."""
    return tuple((dims[own.rank], own.parts, own.axis) for own in spread if own.fanout == fanout)


def _orders(einsum: CascadeEinsum, number: int, counts: Mapping[str, int]) -> list[Ordered]:
    """All orders and axes that rules allow to loops of a fanout: innermost first, X before Y."""
    fanout = einsum.mapspace.architecture.fanouts[number]
    rules = SpatialRules() if einsum.is_copy else einsum.mapspace.spatial[number]
    order = SideOrder.of(rules, einsum.problem.dims)
    ranks = {dim: (0, place) for place, dim in enumerate(order.inner)}
    ranks |= {dim: (2, place) for place, dim in enumerate(order.outer)}
    found = list[Ordered]()
    sides = {frozenset(own): None for own in order.sets_along_x(counts)}
    for along_x, dims in product(sides, permutations(counts)):
        keys = [(dim not in along_x, *ranks.get(dim, (1, 0))) for dim in dims]
        width = math.prod(counts[dim] for dim in along_x)
        fits = width <= fanout.mesh_x and math.prod(counts.values()) <= width * fanout.mesh_y
        if fits and keys == sorted(keys):
            found.append(tuple((dim, counts[dim], "x" if dim in along_x else "y") for dim in dims))
    return found


def _may_store(mapspace: Mapspace, name: str, level: int) -> bool:
    """Whether the rules of an Einsum leave it to a level to store a dataspace, with nothing farther out."""
    number, levels = level_number(mapspace.architecture, level), mapspace.architecture.levels
    outside = (
        rules for rules, own in zip(mapspace.keep[1:number], levels[1:], strict=False) if not own.tolls
    )
    if name in mapspace.keep[number].bypass or any(name in rules.keep for rules in outside):
        return False
    return all(group.skips(name) for group in mapspace.parallel if max(group.levels) < number)


def _up_to(most: int, extent: int) -> list[int]:
    return [count for count in divisors(extent) if count <= most]


def _axes(fanout: Fanout, counts: Sequence[int]) -> tuple[Axis, ...] | None:
    """The first way to lay loops along the axes of a mesh."""
    for axes in product(AXES, repeat=len(counts)):
        pairs = list(zip(axes, counts, strict=True))
        along = (math.prod(count for own, count in pairs if own == axis) for axis in AXES)
        if all(length <= mesh for length, mesh in zip(along, (fanout.mesh_x, fanout.mesh_y), strict=True)):
            return axes
    return None


def _aligned(fanout: Fanout, entry: FanoutMapping, order: Mapping[str, tuple[int, str]]) -> FanoutMapping:
    loops = sorted((loop for loop in entry.spatial if loop.bound > 1), key=lambda loop: order[loop.dim])
    axes = _axes(fanout, [loop.bound for loop in loops]) or tuple(loop.axis for loop in loops)
    return FanoutMapping(tuple(replace(loop, axis=axis) for loop, axis in zip(loops, axes, strict=True)))
