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
from solver.search.goal import rounded_down
from solver.search.grid import LARGEST_EXACT, ROUNDED_DOWN, ROUNDED_UP, SpatialGrid, spatial_grid
from solver.search.lattice import FloatArray, IntArray
from solver.search.prices import Action, actions, cycles_per_word, resources
from solver.search.space import KeepMask, SearchSpace
from solver.search.stopping import Stop, Stopped, never

NO_TILE = np.iinfo(np.int64).max
"""Stands for the words of no tile."""

CHUNK = 4_000_000
"""Entries of a product that are looked at together."""

PART = 1 << 16
"""Combinations that are surveyed together: for each there are dozens of numbers at a time."""

Fronts = dict[tuple[int, frozenset[int], frozenset[int]], FloatArray]
"""Traffic of the tiles that matter, by level, what it keeps, and the dataspaces that are not reused."""


class Survey:
    """Bounds on the energy and the cycles of every combination of spatial classes, mask by mask.

    Raises
    ------
    Stopped
        Where `stop` answers True before what is asked for is known.
    """

    def __init__(self, space: SearchSpace, stop: Stop = never) -> None:
        self.space = space
        self._stop = stop
        self._fronts: Fronts = {}
        self._bounds: dict[KeepMask, tuple[FloatArray, FloatArray]] = {}

    @cached_property
    def grid(self) -> SpatialGrid:
        """All combinations."""
        return spatial_grid(self.space, self._stop)

    def bounds(self, mask: KeepMask) -> tuple[FloatArray, FloatArray]:
        """Lower bounds per combination on energy (units) and cycles; infinite where no tile fits."""
        if mask not in self._bounds:
            found = [self._bounded(part, mask) for part in self.grid.parts(PART)]
            energies, cycles = (np.concatenate(own) for own in zip(*found, strict=True))
            self._bounds[mask] = energies, cycles
        return self._bounds[mask]

    def closer(self, mask: KeepMask, numbers: IntArray) -> tuple[FloatArray, FloatArray]:
        """Higher bounds on some combinations: tiles of windows leave room for what is unrolled above."""
        parts = self.grid.chosen(numbers).parts(PART)
        energies, cycles = zip(*(self._bounded(part, mask, closely=True) for part in parts), strict=True)
        return np.concatenate(energies), np.concatenate(cycles)

    def _bounded(
        self, part: SpatialGrid, mask: KeepMask, closely: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        if self._stop():
            raise Stopped
        return _PartSurvey(self.space, part, self._fronts, closely).bounds(mask)


class _PartSurvey:
    """The survey of some of the combinations; `closely` if it looks at what is unrolled above each tile."""

    def __init__(self, space: SearchSpace, grid: SpatialGrid, fronts: Fronts, closely: bool) -> None:
        self.space = space
        self.grid = grid
        self._closely = closely
        self._fronts = fronts

    def bounds(self, mask: KeepMask) -> tuple[FloatArray, FloatArray]:
        """Lower bounds per combination on energy and cycles."""
        found = [
            (place, action)
            for place in range(len(self.space.views))
            for action in actions(self.space.levels, self.grid.flow(mask, place))
        ]
        busy = self._busy(mask, found)
        priced = [(place, action, self.grid.price(place, action)) for place, action in found]
        energies = self._fixed(np.where(np.isfinite(busy), busy, 0.0)) + self._total(mask, priced)
        cycles = busy + rounded_down(network_latency(self.space.architecture))
        cycles = np.where(cycles < LARGEST_EXACT, cycles, np.nextafter(cycles, 0.0))
        return energies * np.where(energies > 0, ROUNDED_DOWN, 1.0), cycles

    def _busy(self, mask: KeepMask, found: Sequence[tuple[int, Action]]) -> FloatArray:
        """Cycles at least, but for latencies of networks."""
        busy = self.grid.steps
        for resource in resources(self.space.levels):
            loads = [
                (place, action, np.full(len(self.grid), float(share)))
                for place, action in found
                if (share := cycles_per_word(self.space.levels, resource, action, self._name(place)))
            ]
            busy = np.maximum(busy, self._total(mask, loads) * ROUNDED_DOWN)
        return busy

    def _name(self, place: int) -> str:
        return self.space.views[place].name

    def _total(self, mask: KeepMask, weighed: Sequence[tuple[int, Action, FloatArray]]) -> FloatArray:
        """Least weighted sum of the words of all actions, boundary by boundary."""
        depth = len(self.space.levels)
        total = np.zeros(len(self.grid))
        weights: dict[tuple[int, int], FloatArray] = {}
        for place, action, weight in weighed:
            total = total - weight * action.minus * ROUNDED_UP
            if action.boundary == depth:
                total = total + weight * action.multiplier * self.grid.steps
                continue
            key = (action.boundary, place)
            weights[key] = weights.get(key, np.zeros(len(self.grid))) + weight * action.multiplier
        for level in range(1, depth):
            own = {place: w for (boundary, place), w in weights.items() if boundary == level}
            total = total + self._least(mask, level, own)
        return total

    def _fixed(self, busy: FloatArray) -> FloatArray:
        """Energy of the compute, and leakage of the used instances for so many busy cycles."""
        compute = float(self.space.problem.computes * self.space.architecture.compute.energy)
        return compute + self.grid.leak_per_cycle * busy

    def _least(self, mask: KeepMask, level: int, weights: dict[int, FloatArray]) -> FloatArray:
        """Least cost of the boundary of `level` over tiles and classes."""
        space = self.space
        tenants = space.tenants(mask, level)
        if len(space.feasible(level, tenants)) == 0:
            return np.full(len(self.grid), np.inf)
        if not weights:
            return np.zeros(len(self.grid))
        fewest = {place: self._fewest(place, level, tenants) for place in weights}
        once = {
            place: weight * fewest[place] * self.grid.unused_above[place][level] / self.grid.above[level]
            for place, weight in weights.items()
        }
        best = np.full(len(self.grid), np.inf)
        for members in space.reuse_classes:
            reused = [p for p in weights if p in members and space.reuses(p, level)]
            loose = sorted(p for p in weights if p not in reused)
            fixed = sum((once[p] for p in reused), np.zeros(len(self.grid)))
            if loose:
                front = self._front(level, tenants, frozenset(loose))
                matrix = np.stack([weights[p] / self.grid.above[level] for p in loose], axis=1)
                fixed += _least_product(matrix, front)
            np.minimum(best, fixed, out=best)
        # The front has tiles that are too large for what is unrolled above: they seem to be delivered less.
        least: FloatArray = np.maximum(best, sum(once.values()))
        exists = np.logical_and.reduce([words < NO_TILE for words in fewest.values()])
        return np.where(exists, least, np.inf)

    def _relevant(self, place: int, level: int) -> IntArray:
        return self.space.relevant_words(place, level, self.space.no_unrolling)

    def _unreused_words(self, place: int, level: int) -> FloatArray:
        irrelevant = self.space.tables[place].irrelevant_tiles
        return (self._relevant(place, level) * irrelevant).astype(np.float64)

    def _fewest(self, place: int, level: int, tenants: frozenset[int]) -> IntArray:
        """Fewest words of all instances that deliver a dataspace once, over the tiles that fit."""
        if not self._closely:
            least: IntArray = self._relevant(place, level)[self.space.feasible(level, tenants)].min(
                keepdims=True
            )
            return least
        key = ("fewest", place, level, tenants)
        table = self.space.memo(key, lambda: self._fewest_within(place, level, tenants))
        largest = self.space.lattice.size - 1 - self.grid.unrolled_above[level]
        return table[largest]

    def _fewest_within(self, place: int, level: int, tenants: frozenset[int]) -> IntArray:
        """The same per lattice vector that the tiles have to divide; `NO_TILE` where none does."""
        tiles = self.space.feasible(level, tenants)
        table = np.full(self.space.lattice.size, NO_TILE, dtype=np.int64)
        table[tiles] = self._relevant(place, level)[tiles]
        return self.space.lattice.least_of_divisors(table)

    def _front(self, level: int, tenants: frozenset[int], places: frozenset[int]) -> FloatArray:
        """Traffic of the tiles that fit and that no other tile undercuts, shape (places, tiles)."""
        key = (level, tenants, places)
        if key not in self._fronts:
            tiles = self.space.feasible(level, tenants)
            traffic = [self._unreused_words(p, level)[tiles] for p in sorted(places)]
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
