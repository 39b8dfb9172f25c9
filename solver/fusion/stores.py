"""Which memories may store tensors, and how these are spread over memories that exist several times."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

from model.architecture import Architecture, Fanout, StorageLevel
from model.fused.cascade import Cascade
from model.fused.check import accesses_of
from model.fused.mapping import PrivateNest
from model.mapping import Axis, FanoutMapping, NodeMapping
from model.mapping import Mapping as LoopNest
from model.mapspace import Mapspace, SpatialRules
from model.numbers import divisors
from solver.fusion.edges import EdgeKind, fanouts_outside, level_number, lone_dims

AXES: tuple[Axis, ...] = ("x", "y")


class Share(NamedTuple):
    """A rank of a tensor that a fanout spreads: over how many children, of its extent in a visit."""

    fanout: int
    rank: str
    parts: int
    extent: int


Spread = tuple[Share, ...]
"""How a stored tensor is spread, outermost fanout first; empty if it is not."""

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
        """The memories that are searched, by number.

        Where they exist several times, no rules order the spatial loops outside of them: those of all Einsums
        that access a tensor agree.
        """
        every = enumerate(self._architecture.on_chip, start=1)
        return {number: level for number, level in every if not self.is_ordered(number)}

    def is_ordered(self, number: int) -> bool:
        """Whether rules order the spatial loops outside of a memory."""
        rules = [einsum.mapspace.spatial for einsum in self.cascade.einsums]
        return any(_is_ordered(own[fanout]) for own in rules for fanout in self.outside(number))

    @cached_property
    def least(self) -> dict[int, int]:
        """By number of a memory that has one, the words that its least utilization asks for."""
        pairs = enumerate(self._architecture.on_chip, start=1)
        words = {n: math.ceil((own.usable_words or 0) * own.min_utilization) for n, own in pairs}
        return {number: least for number, least in words.items() if least}

    def homes(self, tensor: str) -> Iterator[int]:
        """Yield the levels that the rules of all Einsums let store a tensor, outermost first."""
        accesses = list(accesses_of(self.cascade, tensor))
        if len({frozenset(access.ranks) for _, access in accesses}) > 1:
            return
        for number in self.levels:
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
            yield tuple(Share(fanout, rank, count, own[rank]) for fanout, rank, count in counts)

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
            As of `spreads`.
        spreads
            By tensor its level, and its spread if that is known.
        """
        einsum, found = self.cascade.einsums[place], set[tuple[int, tuple[tuple[str, int], ...]]]()
        for access in (a for a in einsum.accesses if a.tensor in spreads):
            level, spread = spreads[access.tensor]
            dims, known = lone_dims(einsum, access), spread or ()
            if any(extents.get(dims.get(share.rank, "")) != share.extent for share in known):
                return None
            for fanout in self.outside(level) if spread is not None else ():
                loops = ((dims[own.rank], own.parts) for own in known if own.fanout == fanout)
                found.add((fanout, tuple(loops)))
        fixed = tuple(sorted(found))
        return fixed if len(dict(fixed)) == len(fixed) else None

    def aligned(self, kind: EdgeKind, nest: PrivateNest) -> PrivateNest:
        """Return a nest whose spatial loops outside of what it stores stand in one order for all Einsums."""
        einsum, stored = self.cascade.einsums[kind.place], dict(kind.deeper)
        outside = {fanout for level in stored.values() for fanout in self.outside(level)}
        outside.update(self.outside(1) if kind.above and not self.is_ordered(1) else ())
        order = {dim: (len(self._order), dim) for dim in einsum.problem.dims}
        for access in (own for own in einsum.accesses if own.dataspace in kind.at_home):
            dims = lone_dims(einsum, access)
            order.update({dim: (self._order[access.tensor, rank], rank) for rank, dim in dims.items()})
        fanouts = iter(enumerate(self._architecture.fanouts))

        def in_order(entry: NodeMapping) -> NodeMapping:
            if not isinstance(entry, FanoutMapping):
                return entry
            number, fanout = next(fanouts)
            return _aligned(fanout, entry, order) if number in outside else entry

        return replace(nest, mapping=LoopNest(tuple(map(in_order, nest.mapping.nodes))))


def _is_ordered(rules: SpatialRules) -> bool:
    return bool(rules.inner or rules.outer) or rules.split is not None


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
