"""Words between levels, counted as in the cost model; sums that mappings share are cached."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from model.architecture import Fanout
from model.cost.nest import Nest
from model.cost.remainders import Group, Route, groups_of
from model.cost.shares import LoopsAbove, RowLoop, Share, deal
from model.cost.traffic import reuses
from model.problem import Dataspace
from solver.search.space.search_space import SearchSpace

HERE = 1 << 20
"""Number of the loop that advances; loops inside of it have smaller numbers, those outside larger ones."""

Sums = tuple[int, int]
"""Words of tiles, and those of them that are there already."""

Kind = str | tuple[tuple[int, ...], int | None] | None
"""Steps: all, the start, or those in which a loop advances.

Of the latter, so many loops over each dimension of a group lie inside; it runs over one of them, or none."""


@dataclass(frozen=True, eq=False)
class DimLoops:
    """All loops over one dimension.

    Parameters
    ----------
    bound
        Of the dimension.
    temporal
        Factors by level, outermost first.
    extents
        Of the tile at each level, and at the compute.
    strides
        Of the temporal loop at each level.
    spatial
        Loops of bound above 1, outermost first, by their fanouts' positions.
    positions
        Of the levels in the architecture, and of the compute.
    above
        Per level, and for the compute, what lies outside: a number that other lines have for the same.
    """

    bound: int
    temporal: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    spatial: tuple[RowLoop, ...]
    positions: tuple[int, ...]
    above: tuple[int, ...]

    @cached_property
    def shares(self) -> tuple[tuple[Share, ...], ...]:
        """Iterations of the instances of each level, and of the compute."""
        return tuple(self._by_node[position] for position in self.positions)

    @cached_property
    def _by_node(self) -> tuple[tuple[Share, ...], ...]:
        """Iterations of the instances of each node, and of the compute."""
        dealt: list[tuple[Share, ...]] = [(Share(self.bound, 1),)]
        loops = {loop.place: loop for loop in self.spatial}
        for position in range(self.positions[-1]):
            dealt.append(deal(dealt[-1], [loops[position]]) if position in loops else dealt[-1])
        return tuple(dealt)

    @cached_property
    def instances(self) -> tuple[int, ...]:
        """Instances in use of each node, and of the compute, as far as this dimension tells."""
        return tuple(sum(share.instances for share in own) for own in self._by_node)

    def row(self, level: int, inside: int, leads: bool) -> LoopsAbove:
        """The loops above a level, so many of which lie inside of the loop that advances, or is the next."""
        own = (number for number in reversed(range(level)) if self.temporal[number] > 1)
        places = (HERE + n - inside + (0 if leads or n < inside else 1) for n, _ in enumerate(self.temporal))
        loops = (RowLoop(p, self.temporal[n], self.strides[n]) for p, n in zip(places, own, strict=False))
        position = self.positions[level]
        spatial = tuple(loop for loop in self.spatial if loop.place < position)
        return LoopsAbove(self.extents[level], tuple(loops), spatial)

    @cached_property
    def full(self) -> bool:
        """Whether all passes of all loops are whole."""
        return math.prod(self.temporal) * math.prod(loop.bound for loop in self.spatial) == self.bound

    @cached_property
    def moves(self) -> tuple[bool, ...]:
        """Per level, whether every pass of its loop has several iterations, whatever instance looks at it."""
        return tuple(map(self._moves, range(len(self.temporal))))

    def _moves(self, level: int) -> bool:
        factor = self.temporal[level]
        if factor == 1 or self.full:
            return factor > 1
        if any(loop.place > self.positions[level] for loop in self.spatial):
            # Children may differ.
            return False
        inside = math.prod(self.temporal[level + 1 :])
        return -(-self.bound // inside) % factor != 1


class Lines:
    """The lines of a search space, each made once.

    Parameters
    ----------
    space
        Its architecture has the levels and fanouts.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._positions = (*space.architecture.storage_indices, len(space.architecture.nodes))
        self._known: dict[object, DimLoops] = {}
        self._numbers: dict[object, int] = {}

    def line(self, dim: int, temporal: tuple[int, ...], spatial: tuple[int, ...]) -> DimLoops:
        """Return the loops over a dimension; spatial factors are those of all fanouts."""
        key = dim, temporal, spatial
        if key not in self._known:
            self._known[key] = self._made(dim, temporal, spatial)
        return self._known[key]

    def _made(self, dim: int, temporal: tuple[int, ...], spatial: tuple[int, ...]) -> DimLoops:
        bound = self._space.problem.bound[self._space.active[dim]]
        loops: list[RowLoop] = []
        extents, strides, stride = [1], list[int](), 1
        inward = iter(reversed(temporal)), iter(reversed(spatial))
        for position, node in reversed(list(enumerate(self._space.architecture.nodes))):
            factor = next(inward[isinstance(node, Fanout)])
            if isinstance(node, Fanout):
                loops += [RowLoop(position, factor, stride)] if factor > 1 else []
            else:
                strides.append(stride)
                extents.append(min(stride * factor, bound))
            stride *= factor
        extents.reverse()
        strides.reverse()
        outward = tuple(reversed(loops))
        above = tuple(
            self._numbers.setdefault(
                (
                    dim,
                    extents[level],
                    tuple(zip(temporal[:level], strides[:level], strict=True)),
                    tuple(loop for loop in outward if loop.place < position),
                ),
                len(self._numbers),
            )
            for level, position in enumerate(self._positions)
        )
        return DimLoops(bound, temporal, tuple(extents), tuple(strides), outward, self._positions, above)


class Profile:
    """Sums of one group of dimensions on one way, each counted when it is asked for.

    Parameters
    ----------
    way
        Between two levels.
    group, dims, lines
        The group, the places of its dimensions, and their loops.
    shares
        Of the instances of the level that is asked, by dimension.
    level
        That asks.
    """

    def __init__(
        self,
        way: Route,
        group: Group,
        dims: tuple[int, ...],
        lines: Sequence[DimLoops],
        shares: Sequence[tuple[Share, ...]],
        level: int,
    ) -> None:
        self.dims = dims
        self._way, self._group, self._lines = way, group, lines
        self._shares, self._level = dict(zip(group.dims, shares, strict=True)), level
        self._known: dict[object, Sums] = {}

    def sums(self, kind: Kind) -> Sums:
        """Words in all steps, at the start, or when a loop advances."""
        found = self._known.get(kind)
        if found is None:
            self._known[kind] = found = self._counted(kind)
        return found

    def _counted(self, kind: Kind) -> Sums:
        if isinstance(kind, tuple):
            self._place(*kind)
            return self._way._counted_sums(self._group, self._shares, HERE)
        self._place((0,) * len(self.dims), None)
        return self._way._counted_sums(self._group, self._shares, kind)

    def touched(self) -> int:
        """Distinct words."""
        self._place((0,) * len(self.dims), None)
        return self._way._touched(self._group, self._shares)

    def _place(self, inside: Sequence[int], leading: int | None) -> None:
        """Give the way its loops, so many of which lie inside of the one that advances."""
        rows = vars(self._way)["_rows"]
        for name, dim, line, own in zip(self._group.dims, self.dims, self._lines, inside, strict=True):
            rows[name] = line.row(self._level, own, leading == dim)


class ExecutedWords:
    """Words of the dataspaces of a search space, by the exact rule.

    Parameters
    ----------
    space
        Its problem and its architecture.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        number = {dim: d for d, dim in enumerate(space.active)}
        self._spaces = [_reduced(own, number) for own in space.problem.dataspaces]
        self._groups = [
            [(group, tuple(number[dim] for dim in group.dims)) for group in groups_of(own, space.active)]
            for own in self._spaces
        ]
        self._positions = (*space.architecture.storage_indices, len(space.architecture.nodes))
        self._ways: dict[tuple[int, int, int], Route] = {}
        self._profiles: dict[object, Profile] = {}
        self._known: dict[object, int] = {}

    def reuses(self, place: int, level: int) -> bool:
        """Whether a level, or the compute, keeps a dataspace's tile from step to step."""
        return reuses(self._space.architecture, self._spaces[place], self._positions[level])

    def start(
        self,
        place: int,
        outer: int,
        level: int,
        lines: Sequence[DimLoops],
        shares: Sequence[int] | None = None,
    ) -> int:
        """Words of the first tiles of a dataspace that a level gets; of all where it keeps none.

        Parameters
        ----------
        place
            Of the dataspace.
        outer, level
            That is asked, and that asks: words count as often as the former is accessed for them. With both
            the same, those that all instances receive are counted one by one.
        lines
            Of all dimensions.
        shares
            Which of `Line.shares` the instance has whose words these are; None for all instances together.
        """
        profiles = self._profiles_of(place, outer, level, lines, shares)
        kind = "start" if self.reuses(place, level) else None
        return math.prod(own.sums(kind)[0] for own in profiles)

    def of_slot(
        self,
        ends: tuple[int, int, int],
        lines: Sequence[DimLoops],
        slot: int,
        orders: Sequence[Sequence[int]],
        shares: Sequence[int] | None = None,
    ) -> tuple[int, ...]:
        """Words that come whenever a loop of a slot advances, for each of several orders of its loops.

        Where loops farther in leave the tile does not depend on their order: so slots add up.

        Parameters
        ----------
        ends
            Place of the dataspace, and as of `start` the level that is asked, and the one that asks.
        lines
            Of all dimensions.
        slot
            The level that the loops belong to, outside of the one that asks.
        orders
            Innermost first.
        shares
            See `start`.
        """
        place, outer, level = ends
        profiles = self._profiles_of(place, outer, level, lines, shares)
        inside = [sum(own > 1 for own in line.temporal[slot + 1 : level]) for line in lines]
        known: dict[tuple[frozenset[int], int], int] = {}

        def brought(before: frozenset[int], dim: int) -> int:
            if (before, dim) not in known:
                known[before, dim] = _fresh(profiles, [n + (d in before) for d, n in enumerate(inside)], dim)
            return known[before, dim]

        return tuple(
            sum(brought(frozenset(order[:number]), dim) for number, dim in enumerate(order))
            for order in orders
        )

    def dims_by_group(self, place: int) -> list[tuple[int, ...]]:
        """Return the groups of a dataspace: places of the dimensions that index the same ranks of it."""
        return [dims for _, dims in self._groups[place]]

    def profiles(self, place: int, outer: int, level: int, lines: Sequence[DimLoops]) -> list[Profile]:
        """Return the sums of all groups of a dataspace, ordered as `dims_by_group`; levels as of `start`."""
        return self._profiles_of(place, outer, level, lines, None)

    def _profiles_of(
        self, place: int, outer: int, level: int, lines: Sequence[DimLoops], shares: Sequence[int] | None
    ) -> list[Profile]:
        found = []
        for number, (group, dims) in enumerate(self._groups[place]):
            chosen = None if shares is None else tuple(shares[d] for d in dims)
            key = place, outer, level, number, chosen, *(lines[d].above[level] for d in dims)
            if key not in self._profiles:
                own, way = [lines[d] for d in dims], self._way(place, outer, level)
                dealt = _chosen_shares([line.shares[outer] for line in own], chosen)
                self._profiles[key] = Profile(way, group, dims, own, dealt, level)
            found.append(self._profiles[key])
        return found

    def _way(self, place: int, outer: int, level: int) -> Route:
        """A way without a nest: what it asks of one is given whenever it counts."""
        key = place, outer, level
        if key not in self._ways:
            nest = Nest((), (), ())
            ends = self._positions[outer], self._positions[level]
            self._ways[key] = Route(self._space.architecture, nest, self._spaces[place], *ends)
            vars(self._ways[key])["_rows"] = {}
        return self._ways[key]

    def touched(
        self,
        place: int,
        outer: int,
        level: int,
        lines: Sequence[DimLoops],
        shares: Sequence[int] | None = None,
    ) -> int:
        """Distinct words that tiles of a level ever take, summed over instances of another one."""
        key = "touched", place, outer, level, shares, tuple(line.above[level] for line in lines)
        if key not in self._known:
            profiles = self._profiles_of(place, outer, level, lines, shares)
            self._known[key] = math.prod(own.touched() for own in profiles)
        return self._known[key]


def _chosen_shares(
    shares: Sequence[tuple[Share, ...]], chosen: Sequence[int] | None
) -> Sequence[tuple[Share, ...]]:
    """The shares of all instances, or those of one, by dimension."""
    if chosen is None:
        return shares
    return [(Share(own[n].iterations, 1),) for own, n in zip(shares, chosen, strict=True)]


def _reduced(space: Dataspace, active: Container[str]) -> Dataspace:
    """A dataspace without dimensions that have a single iteration."""
    ranks = (tuple(term for term in rank if term.dim in active) for rank in space.ranks)
    return replace(space, ranks=tuple(rank for rank in ranks if rank))


def _fresh(profiles: Sequence[Profile], inside: Sequence[int], dim: int) -> int:
    """Words that come whenever a loop over a dimension advances, with so many loops of each one inside."""
    whole = kept = 1
    for own in profiles:
        words, held = own.sums((tuple(inside[d] for d in own.dims), dim if dim in own.dims else None))
        whole, kept = whole * words, kept * held
    return whole - kept
