"""A first bound on all subproblems of one keep mask at once, in floating point.

Each boundary is bounded on its own: the least cost over the tiles that fit, with the most favourable
class of loop orders. Only tiles matter whose traffic no other tile undercuts in every dataspace, and
there are few of those; so thousands of spatial choices are bounded by a few matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from model.cost.prices import network_latency
from solver.search.cells import Cells, alone, cells
from solver.search.goal import rounded_down
from solver.search.grid import LARGEST_EXACT, ROUNDED_DOWN, SpatialGrid, spatial_grid
from solver.search.lattice import FloatArray, IntArray
from solver.search.prices import resources
from solver.search.rates import Kept, KeptLevels, Measure, Rate, RateTable
from solver.search.space import KeepMask, SearchSpace
from solver.search.stopping import Stop, Stopped, never

NO_TILE = np.iinfo(np.int64).max
"""Stands for the words of no tile."""

CHUNK = 4_000_000
"""Entries of a product that are looked at together."""

PART = 1 << 16
"""Combinations that are surveyed together: for each there are dozens of numbers at a time."""

MOST_BOUNDS = 1 << 22
"""Bounds up to which every combination has its own with every keep mask from the beginning."""

FEWEST_CELLS, MOST_CELLS = 1 << 6, 1 << 11
"""Cells into which more combinations than that are put."""

MOST_PAID = 1 << 23
"""Costs of levels that are remembered, roughly."""

MOST_OPENED = 1 << 9
"""Cells whose combinations have costs that are remembered."""

Fronts = dict[tuple[int, frozenset[int], frozenset[int]], FloatArray]
"""Traffic of the tiles that matter, by level, what it keeps, and the dataspaces that are not reused."""

Bounds = tuple[FloatArray, FloatArray]
"""Lower bounds on energies (units) and on cycles; infinite where no tile fits."""


class Survey:
    """Bounds on the energy and the cycles of combinations of spatial classes, mask by mask.

    Where there are many, cells of similar combinations are bounded first.

    Raises
    ------
    Stopped
        Where `stop` answers True before what is asked for is known.
    """

    def __init__(self, space: SearchSpace, stop: Stop = never) -> None:
        self.space = space
        self._stop = stop
        self._fronts: Fronts = {}
        self._kept = KeptLevels(space)
        self._opened: dict[int, _Surveyor] = {}

    @cached_property
    def grid(self) -> SpatialGrid:
        """All combinations."""
        return spatial_grid(self.space, self._stop)

    @cached_property
    def cells(self) -> Cells:
        """All combinations, in cells."""
        number = MOST_BOUNDS // max(1, len(self.space.keep_masks))
        if len(self.grid) <= number:
            return alone(self.grid)
        return cells(self.grid, min(max(number, FEWEST_CELLS), MOST_CELLS), self._stop)

    def overview(self, mask: KeepMask) -> Bounds:
        """Bounds per cell, that hold for all of its combinations."""
        return self._overviews[mask]

    @cached_property
    def _overviews(self) -> dict[KeepMask, Bounds]:
        masks, found = self.space.keep_masks, list[list[Bounds]]()
        for grid, starts in self.cells.parts(PART):
            surveyor = _Surveyor(RateTable(grid, starts), self._kept, self._fronts)
            found.append([self._bounded(surveyor, mask) for mask in masks])
        return {mask: _joined(own) for mask, own in zip(masks, zip(*found, strict=True), strict=True)}

    def bounds(self, mask: KeepMask, chosen: IntArray) -> Bounds:
        """Bounds on all combinations of some cells, as `Cells.members` has them."""
        if self.cells.single:
            energies, cycles = self.overview(mask)
            return energies[chosen], cycles[chosen]
        return _joined([self._bounded(self._surveyor(int(cell)), mask) for cell in chosen])

    def _surveyor(self, cell: int) -> _Surveyor:
        """What bounds the combinations of a cell: several masks come back to the same ones."""
        if cell not in self._opened:
            if len(self._opened) >= MOST_OPENED:
                del self._opened[next(iter(self._opened))]
            grid = self.grid.chosen(self.cells.members(np.array([cell])))
            self._opened[cell] = _Surveyor(RateTable(grid), self._kept, self._fronts)
        return self._opened[cell]

    def closer(self, mask: KeepMask, numbers: IntArray) -> Bounds:
        """Higher bounds on some combinations: tiles of windows leave room for what is unrolled above."""
        parts = self.grid.chosen(numbers).parts(PART)
        surveyors = (_Surveyor(RateTable(own), self._kept, self._fronts, own.unrolled_above) for own in parts)
        return _joined([self._bounded(own, mask) for own in surveyors])

    def _bounded(self, surveyor: _Surveyor, mask: KeepMask) -> Bounds:
        if self._stop():
            raise Stopped
        return surveyor.bounds(mask)


def _joined(parts: Sequence[Bounds]) -> Bounds:
    energies, cycles = (np.concatenate(own) for own in zip(*parts, strict=True))
    return energies, cycles


class _Surveyor:
    """Bounds cells, mask by mask: these share what is paid at a level.

    That follows from what the level keeps, and from the portions that are delivered to it.
    """

    def __init__(
        self,
        table: RateTable,
        kept: KeptLevels,
        fronts: Fronts,
        unrolled_above: Sequence[IntArray] | None = None,
    ) -> None:
        self._table = table
        self._kept = kept
        self.space = table.space
        self._fronts = fronts
        self._unrolled_above = unrolled_above
        self._paid: dict[tuple[Kept, Measure], FloatArray] = {}

    def bounds(self, mask: KeepMask) -> Bounds:
        """Lower bounds per cell on energy and cycles."""
        levels = self._kept.of(mask)
        busy = self._table.steps
        for number in range(len(resources(self.space.levels))):
            busy = np.maximum(busy, self._total(levels, number) * ROUNDED_DOWN)
        energies = self._fixed(np.where(np.isfinite(busy), busy, 0.0)) + self._total(levels, None)
        cycles = busy + rounded_down(network_latency(self.space.architecture))
        cycles = np.where(cycles < LARGEST_EXACT, cycles, np.nextafter(cycles, 0.0))
        return energies * np.where(energies > 0, ROUNDED_DOWN, 1.0), cycles

    def _total(self, levels: Sequence[Kept], measure: Measure) -> FloatArray:
        """Least cost of the words of all actions, boundary by boundary."""
        return sum((self._cost(own, measure) for own in levels), np.zeros(len(self._table)))

    def _cost(self, kept: Kept, measure: Measure) -> FloatArray:
        if (kept, measure) not in self._paid:
            if len(self._paid) * len(self._table) > MOST_PAID:
                self._paid.clear()
            self._paid[kept, measure] = self._least(kept, measure)
        return self._paid[kept, measure]

    def _least(self, kept: Kept, measure: Measure) -> FloatArray:
        """Least cost of the boundary of a level over tiles and classes."""
        chain, table = self._kept.chain, self._table
        rates = {own.place: table.rate(own, measure, chain[own]) for own in kept.portions}
        charged = {place: rate for place, rate in rates.items() if rate is not None}
        least = -sum((rate.subtracted for rate in charged.values()), np.zeros(len(self._table)))
        if kept.level == len(self.space.levels):
            # The compute takes one word of each dataspace per operation.
            computes = float(self.space.problem.computes)
            return sum((rate.per_word * computes for rate in charged.values()), least)
        if len(self.space.feasible(kept.level, kept.tenants)) == 0:
            return np.full(len(self._table), np.inf)
        return least + self._delivered(kept, charged) if charged else least

    def _delivered(self, kept: Kept, rates: dict[int, Rate]) -> FloatArray:
        """Least cost of what is delivered to a level, over tiles and classes."""
        fewest = {place: self._fewest(place, kept) for place in rates}
        once = {place: rate.per_copies * fewest[place] for place, rate in rates.items()}
        best = np.full(len(self._table), np.inf)
        for members in self.space.reuse_classes:
            reused = [p for p in rates if p in members and self.space.reuses(p, kept.level)]
            loose = sorted(p for p in rates if p not in reused)
            fixed = sum((once[p] for p in reused), np.zeros(len(self._table)))
            if loose:
                front = self._front(kept, frozenset(loose))
                fixed += _least_product(np.stack([rates[p].per_word for p in loose], axis=1), front)
            np.minimum(best, fixed, out=best)
        # The front has tiles that are too large for what is unrolled above: they seem to be delivered less.
        least: FloatArray = np.maximum(best, sum(once.values()))
        exists = np.logical_and.reduce([words < NO_TILE for words in fewest.values()])
        return np.where(exists, least, np.inf)

    def _fixed(self, busy: FloatArray) -> FloatArray:
        """Energy of the compute, and leakage of the used instances for so many busy cycles."""
        compute = float(self.space.problem.computes * self.space.architecture.compute.energy)
        return compute + self._table.leak_per_cycle * busy

    def _relevant(self, place: int, level: int) -> IntArray:
        return self.space.relevant_words(place, level, self.space.no_unrolling)

    def _unreused_words(self, place: int, level: int) -> FloatArray:
        irrelevant = self.space.tables[place].irrelevant_tiles
        return (self._relevant(place, level) * irrelevant).astype(np.float64)

    def _fewest(self, place: int, kept: Kept) -> IntArray:
        """Fewest words of all instances that deliver a dataspace once, over the tiles that fit."""
        if self._unrolled_above is None:
            tiles = self.space.feasible(kept.level, kept.tenants)
            least: IntArray = self._relevant(place, kept.level)[tiles].min(keepdims=True)
            return least
        key = ("fewest", place, kept.level, kept.tenants)
        table = self.space.memo(key, lambda: self._fewest_within(place, kept))
        largest = self.space.lattice.size - 1 - self._unrolled_above[kept.level]
        return table[largest]

    def _fewest_within(self, place: int, kept: Kept) -> IntArray:
        """The same per lattice vector that the tiles have to divide; `NO_TILE` where none does."""
        tiles = self.space.feasible(kept.level, kept.tenants)
        table = np.full(self.space.lattice.size, NO_TILE, dtype=np.int64)
        table[tiles] = self._relevant(place, kept.level)[tiles]
        return self.space.lattice.least_of_divisors(table)

    def _front(self, kept: Kept, places: frozenset[int]) -> FloatArray:
        """Traffic of the tiles that fit and that no other tile undercuts, shape (places, tiles)."""
        key = (kept.level, kept.tenants, places)
        if key not in self._fronts:
            tiles = self.space.feasible(kept.level, kept.tenants)
            traffic = [self._unreused_words(p, kept.level)[tiles] for p in sorted(places)]
            self._fronts[key] = pareto_front(np.stack(traffic, axis=1)).T.copy()
        return self._fronts[key]


def _least_product(weights: FloatArray, front: FloatArray) -> FloatArray:
    """Row-wise minimum of ``weights @ front``, in chunks of bounded memory."""
    rows = max(1, CHUNK // front.shape[1])
    # A product of BLAS takes several times longer for a few columns, and threads that others may need.
    parts = [
        np.einsum("ck,kt->ct", weights[i : i + rows], front).min(axis=1) for i in range(0, len(weights), rows)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def pareto_front(points: FloatArray) -> FloatArray:
    """Rows of `points` that no other row undercuts in every column (each value once)."""
    rest = points[np.argsort(points.sum(axis=1), kind="stable")]
    found = []
    while len(rest):
        found.append(rest[0])
        rest = rest[(rest < rest[0]).any(axis=1)]
    return np.array(found)
