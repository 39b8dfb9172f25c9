"""Combinations of spatial classes, one per stage, as arrays: what thousands of subproblems differ in."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.goal import rounded_down
from solver.search.space.dataspaces import DataspaceView
from solver.search.space.prices import Action, Spread
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import StageClass, StageTable
from solver.search.stopping import Stop, Stopped, never

Pairs = tuple[IntArray, IntArray]
"""Places of pairs."""

PAIRS_AT_ONCE = 1 << 20
"""Pairs of a class and a combination of the stages inside that are looked at together."""

MOST_MEMBERS = 1 << 26
"""Pairs of members of two stages up to which they are looked at."""

ROUNDED_DOWN, ROUNDED_UP = 1 - 1e-9, 1 + 1e-9
"""Floating-point sums of prices err by far less than these shares."""

LARGEST_EXACT = 2.0**53
"""Quotients of whole numbers are rounded from here on."""


@dataclass(frozen=True)
class SpatialGrid:
    """Combinations of spatial classes, one per stage; arrays of shape (combinations,).

    ``choices[l]`` has the places of the classes of stage l.

    Parameters
    ----------
    space
        What they are of.
    choices
        One array per level, outermost first.
    """

    space: SearchSpace
    choices: tuple[IntArray, ...]

    def __len__(self) -> int:
        """Number of combinations."""
        return len(self.choices[0])

    def chosen(self, numbers: IntArray | slice) -> SpatialGrid:
        """Some of the combinations."""
        return SpatialGrid(self.space, tuple(own[numbers] for own in self.choices))

    def spatial(self, number: int) -> tuple[StageClass, ...]:
        """The classes of one combination."""
        pairs = zip(self.space.stages, self.choices, strict=True)
        return tuple(stage[int(index[number])] for stage, index in pairs)

    @property
    def _staged(self) -> Iterator[tuple[StageTable, IntArray]]:
        """Stage by stage, all classes, and the places of those that the combinations have."""
        return zip(self.space.stage_tables, self.choices, strict=True)

    @cached_property
    def above(self) -> tuple[FloatArray, ...]:
        """Instances in use of each level, and of the compute.

        Returns
        -------
        tuple
            One array per level, outermost first, and one for the compute; all of shape (combinations,).
        """
        result = [np.ones(len(self))]
        for table, index in self._staged:
            result.append(result[-1] * table.units[index])
        return tuple(result)

    @cached_property
    def steps(self) -> FloatArray:
        """Cycles of the compute, at least.

        Returns
        -------
        FloatArray
            Shape (combinations,); whole numbers, rounded down where doubles are too coarse.
        """
        if not self.space.uneven:
            return self.computes_each
        unrolled = np.ones((len(self), len(self.space.active)), dtype=np.int64)
        for table, index in self._staged:
            unrolled = unrolled * table.most_factors[index]
        bounds = np.array(self.space.lattice.bounds, dtype=np.int64)
        rounds = (-(-bounds // np.minimum(unrolled, bounds))).astype(np.float64).prod(axis=1)
        # Products of whole numbers beyond 53 bits are rounded.
        rounds = np.where(rounds < LARGEST_EXACT, rounds, np.floor(rounds * ROUNDED_DOWN))
        steps: FloatArray = np.maximum(rounds, self.computes_each)
        return steps

    @cached_property
    def computes_each(self) -> FloatArray:
        """Operations of an instance of the compute, on average, rounded down; shape (combinations,)."""
        # In whole numbers: a quotient of doubles may come out a cycle above.
        units, index = np.unique(self.above[-1], return_inverse=True)
        computes = self.space.problem.computes
        return np.array([rounded_down(computes // _no_less(used)) for used in units])[index]

    @cached_property
    def leak_per_cycle(self) -> FloatArray:
        """Energy units that the instances in use leak per cycle, at least; shape (combinations,)."""
        levels = zip(self.space.levels, self.above, strict=False)
        return sum((level.energy.leak_per_cycle * used for level, used in levels), np.zeros(len(self)))

    def price(self, place: int, action: Action) -> FloatArray:
        """Energy per word of one action on dataspace `place`.

        Returns
        -------
        FloatArray
            Energy units of all instances that pay, shape (combinations,): at the least, which is in full
            blocks.
        """
        level = self.space.levels[action.level]
        packing = level.packing_of(self.space.views[place].name)
        most = max(1, self.space.instances[action.level] // level.cluster_size)
        paying = np.minimum(self.above[action.level], most)
        each = getattr(level.energy, action.name) * packing.accesses_per_block / packing.block_size
        price: FloatArray = paying * each
        return price

    @cached_property
    def spreads(self) -> tuple[Spread, ...]:
        """How the words of each dataspace spread."""
        return tuple(map(self._spread, self.space.views))

    def _spread(self, view: DataspaceView) -> Spread:
        words = float(self.space.tables[view.place].whole_words)
        partition = [np.full(len(self), words)]
        for level in range(1, len(self.space.levels)):
            shared = self.above[level] / self.unused_above[view.place][level]
            partition.append(words / shared if view.simple else partition[0])
        if self.space.touched_apart(view.place):
            unused = self.unused_above[view.place]
            partition = [own * unused[-1] / unused[level] for level, own in enumerate(partition)]
        return Spread(self.distinct[view.place], tuple(partition))

    @cached_property
    def unrolled_above(self) -> tuple[IntArray, ...]:
        """Codes of what is unrolled above each level in any case, whichever members are chosen.

        Returns
        -------
        tuple
            One array per level, outermost first, and one for the compute; all of shape (combinations,).
        """
        result = [np.zeros(len(self), dtype=np.int64)]
        for table, index in self._staged:
            result.append(self.space.lattice.product(result[-1], table.common[index]))
        return tuple(result)

    @cached_property
    def unrolled_inside(self) -> tuple[IntArray, ...]:
        """Codes of what is unrolled inside each level in any case, shaped as `unrolled_above`."""
        result = [np.zeros(len(self), dtype=np.int64)]
        for table, index in reversed(list(self._staged)):
            result.append(self.space.lattice.product(table.common[index], result[-1]))
        return tuple(reversed(result))

    @cached_property
    def tiles_inside(self) -> tuple[IntArray, ...]:
        """Indices of the tiles of what is unrolled inside each level alone, shaped as `unrolled_above`."""
        return tuple(map(self.space.lattice.unrolled, self.unrolled_inside))

    @cached_property
    def unused_above(self) -> tuple[tuple[FloatArray, ...], ...]:
        """Per dataspace and level, the spatial factors above that do not index the dataspace.

        Returns
        -------
        tuple
            Indexed by dataspace, then by level (one more for the compute); arrays of shape (combinations,).
        """
        result = []
        for place in range(len(self.space.views)):
            products = [np.ones(len(self))]
            for table, index in self._staged:
                products.append(products[-1] * table.irrelevant[place, index])
            result.append(tuple(products))
        return tuple(result)

    @cached_property
    def copies_above(self) -> tuple[tuple[FloatArray, ...], ...]:
        """Instances above each level that use the same words, at least, shaped as `unused_above`."""
        if not self.space.uneven:
            return self.unused_above
        by_level = [self._least_used(level) for level in range(len(self.space.levels) + 1)]
        return tuple(
            tuple(used[:, sorted(view.irrelevant)].prod(axis=1).astype(np.float64) for used in by_level)
            for view in self.space.views
        )

    def _least_used(self, level: int) -> IntArray:
        """Instances of a level that have something to do, at least: shape (combinations, dimensions)."""
        used = np.ones((len(self), len(self.space.active)), dtype=np.int64)
        for table, index in reversed(list(self._staged)[:level]):
            own = table.least_used[index]
            used = np.where(own == 1, used, (own - 1) * used + 1)
        return used

    @cached_property
    def distinct(self) -> tuple[tuple[FloatArray, ...], ...]:
        """Per dataspace and stage, the distinct tiles among the children.

        Returns
        -------
        tuple
            Indexed by dataspace, then by stage; arrays of shape (combinations,), lower bounds where windows
            slide.
        """
        return tuple(
            tuple(table.distinct[place, index] for table, index in self._staged)
            for place in range(len(self.space.views))
        )


def _no_less(product: float) -> int:
    """What a product of whole numbers is at the most, given its double."""
    return int(product) if product < LARGEST_EXACT else math.ceil(product * ROUNDED_UP)


def spatial_grid(space: SearchSpace, stop: Stop = never) -> SpatialGrid:
    """All combinations that the bounds and the levels may have room for, stage by stage outwards.

    A level holds at least what is unrolled below it, of the dataspaces that it has to keep.
    """
    units, spans = np.ones(1), np.zeros(1, dtype=np.int64)
    choices: dict[int, IntArray] = {}  # of stages with several classes
    for level in reversed(range(len(space.levels))):
        table = space.stage_tables[level]
        outer, inner, spans = _pairs(space, level, table.common, spans, stop)
        units = table.units[outer] * units[inner]
        choices = {stage: places[inner] for stage, places in choices.items()}
        if len(table.units) > 1:
            choices[level] = outer
    possible = units >= float(space.mapspace.min_parallelism)
    if not space.uneven:
        possible &= units <= float(space.problem.computes)
    for stage, other in combinations(sorted(choices), 2):
        agree = _agree(space, stage, other, stop)
        if not agree.all():
            possible &= agree[choices[stage], choices[other]]
    only = np.broadcast_to(np.zeros(1, dtype=np.int64), int(possible.sum()))
    chosen = {stage: places[possible] for stage, places in choices.items()}
    return SpatialGrid(space, tuple(chosen.get(level, only) for level in range(len(space.levels))))


def _pairs(
    space: SearchSpace, level: int, own: IntArray, spans: IntArray, stop: Stop
) -> tuple[IntArray, IntArray, IntArray]:
    """Pairs of one of `own`, in order, and of `spans`, that `level` may have room for; and their products."""
    kept = _kept_in_any_case(space, level)
    found = [np.empty((3, 0), dtype=np.int64)]
    for first, second in _unless(stop, space.lattice.dividing(own, spans, PAIRS_AT_ONCE)):
        products = space.lattice.product(own[first], spans[second])
        held = space.within_capacity(level, kept, space.lattice.unrolled(products))
        found.append(np.stack((first, second, products))[:, held])
    outer, inner, both = np.concatenate(found, axis=1)
    return outer, inner, both


def _kept_in_any_case(space: SearchSpace, level: int) -> frozenset[int]:
    """Dataspaces that take room in a level's memory, all of whose places have the same fanouts inside."""
    keep, never_sure = space.mapspace.keep[level].keep, space.levels[level].no_coalesce
    for rules in space.mapspace.joint:
        keep = rules.keep.keep if level in rules.levels else keep
    return frozenset(view.place for view in space.views if view.name in keep - never_sure)


def _unless(stop: Stop, pairs: Iterator[Pairs]) -> Iterator[Pairs]:
    """The same, until `stop` answers True."""
    for own in pairs:
        if stop():
            raise Stopped
        yield own


def _agree(space: SearchSpace, outer: int, inner: int, stop: Stop) -> BoolArray:
    """Which classes of two stages have members that divide the bounds together, shape (outer, inner).

    Those with one member each do wherever what is common to all members does. Too many are not looked at.
    """
    first, second = space.stage_tables[outer], space.stage_tables[inner]
    if first.number_of_members * second.number_of_members > MOST_MEMBERS:
        return np.ones((len(first.units), len(second.units)), dtype=np.bool_)
    agree = ~first.several[:, None] & ~second.several
    for own, others in ((first.several, np.ones_like(second.several)), (~first.several, second.several)):
        (rows, one), (columns, other) = first.members(own), second.members(others)
        for i, j in _unless(stop, space.lattice.dividing(one, other, PAIRS_AT_ONCE)):
            agree[rows[i], columns[j]] = True
    return agree
