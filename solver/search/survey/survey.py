"""A first bound on all subproblems, or on cells of them, many at once and in floating point.

Each boundary is bounded on its own: the least cost over the tiles that fit, with the most favourable
class of loop orders. Only tiles matter whose traffic no other tile undercuts in every dataspace, and
there are few of those; so thousands of spatial choices are bounded by a few matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, partial, reduce

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray, alike, pareto_front, ranges
from solver.search.goal import rounded_down
from solver.search.space.grid import LARGEST_EXACT, ROUNDED_DOWN, SpatialGrid, spatial_grid
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stop, Stopped, never
from solver.search.survey.cells import Cells, alone, parted
from solver.search.survey.rates import Kept, KeptLevels, Measure, Rate, RateTable

NO_TILE = np.iinfo(np.int64).max
"""Stands for the words of no tile."""

UNKNOWN = -1
"""Stands for words that were not counted yet."""

MOST_KNOWN = 1 << 23
"""Numbers of words that are remembered, about."""

Tenancy = tuple[int, frozenset[int]]
"""A level, and the dataspaces that it keeps."""


def fewest_words(space: SearchSpace, place: int, tenancy: Tenancy) -> IntArray:
    """Fewest words whatever is unrolled above the level, shape (1,).

    Raises
    ------
    ValueError
        If none does.
    """
    words = space.floor_words(place, tenancy[0], space.no_unrolling)
    least: IntArray = words[space.feasible(*tenancy)].min(keepdims=True)
    return least


class FewestBelow:
    """Fewest words combination by combination: as instances have their own tiles, windows overlap less.

    Tiles leave room for what is unrolled above, too.

    Parameters
    ----------
    grid
        All combinations: those that have the same classes outside of a level follow each other.
    stop
        Asked now and then; once it answers True `Stopped` is raised.
    """

    def __init__(self, grid: SpatialGrid, stop: Stop = never) -> None:
        self._grid = grid
        self._stop = stop
        self._space = grid.space
        self._known: dict[tuple[int, Tenancy], IntArray] = {}

    def words(self, numbers: IntArray, place: int, tenancy: Tenancy) -> IntArray:
        """Fewest words of some combinations of the grid; `NO_TILE` where no tile fits.

        Returns
        -------
        IntArray
            Lower bounds, words of all instances, shape (len(numbers),).
        """
        firsts, kinds = self._prefixes[tenancy[0]]
        known = self._remembered((place, tenancy), len(firsts))
        chosen = kinds[numbers]
        asked = np.zeros(len(firsts), dtype=np.bool_)
        asked[chosen] = True
        missing = np.flatnonzero(asked & (known == UNKNOWN))
        for rows in _alike(self._windows(firsts[missing], place, tenancy[0])):
            if self._stop():
                raise Stopped
            known[missing[rows]] = self._least(firsts[missing[rows]], place, tenancy)
        words: IntArray = known[chosen]
        return words

    def _remembered(self, key: tuple[int, Tenancy], size: int) -> IntArray:
        """What is known so far; of what was asked for long ago, much is forgotten."""
        if key not in self._known:
            while self._known and size + sum(map(len, self._known.values())) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[key] = np.full(size, UNKNOWN)
        return self._known[key]

    @cached_property
    def _prefixes(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """Per level, where what is unrolled above it changes, and how often that was before a combination."""
        starts = np.zeros(len(self._grid), dtype=np.bool_)
        starts[:1] = True
        changes = np.flatnonzero(starts), np.cumsum(starts) - 1
        prefixes = [changes]
        for stage, choices in zip(self._space.stages, self._grid.choices, strict=True):
            if len(stage) > 1:
                starts[1:] |= choices[1:] != choices[:-1]
                changes = np.flatnonzero(starts), np.cumsum(starts) - 1
            prefixes.append(changes)
        return tuple(prefixes)

    def _windows(self, numbers: IntArray, place: int, level: int) -> IntArray:
        """Numbers that tell how some combinations unroll a dataspace's windows above a level."""
        codes = np.zeros(len(numbers), dtype=np.int64)
        if self._space.views[place].window_dims:
            for kinds, choice in zip(self._window_kinds[:level], self._grid.choices, strict=False):
                _, codes = np.unique(codes * len(kinds) + kinds[choice[numbers]], return_inverse=True)
        return codes

    @cached_property
    def _window_kinds(self) -> tuple[IntArray, ...]:
        """Stage by stage, which classes unroll windows alike: a number per class.

        With remainders as many children have to be in use, too.
        """
        space = self._space
        dims = sorted(space.window_dims) if space.uneven else []
        pairs = zip(space.stages, space.stage_tables, strict=True)
        return tuple(
            alike(np.concatenate([stage.windows, table.least_used[:, dims]], axis=1))[1]
            for stage, table in pairs
        )

    def _least(self, numbers: IntArray, place: int, tenancy: Tenancy) -> IntArray:
        """Fewest words with what each combination unrolls above a level, windows all in the same way."""
        space, (level, _) = self._space, tenancy
        stages = self._grid.spatial(int(numbers[0]))[:level]
        unrolling = space.unrolling(
            [own.windows for own in stages],
            [stage.unrolled for stage in space.stages[:level]],
            [own.least_used for own in stages],
        )
        tiles = space.feasible(*tenancy)
        table = np.full(space.lattice.size, NO_TILE)
        table[tiles] = space.floor_words(place, level, unrolling)[tiles]
        largest = space.lattice.largest_below(self._grid.chosen(numbers).unrolled_above[level])
        least: IntArray = space.lattice.least_of_divisors(table)[largest]
        return least


def _alike(codes: IntArray) -> list[IntArray]:
    """Places of equal numbers together."""
    order = np.argsort(codes, kind="stable")
    return list(filter(len, np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)))


CHUNK = 4_000_000
"""Entries of a product that are looked at together."""

PART, SMALL_PART = 1 << 16, 1 << 14
"""Combinations of which cells, or they themselves, are surveyed together: with dozens of numbers for each."""

MOST_BOUNDS = 1 << 22
"""Bounds up to which every combination has its own with every keep mask from the beginning."""

FEWEST_CELLS, MOST_CELLS = 1 << 6, 1 << 11
"""Cells into which more combinations than that are put."""

AT_ONCE = 1 << 19
"""Bounds of several masks that are computed together, roughly."""

EVERYTHING = slice(None)

Fronts = dict[tuple[int, frozenset[int], frozenset[int]], FloatArray]
"""Traffic of the tiles that matter, by level, what it keeps, and the dataspaces that are not reused."""

Bounds = tuple[FloatArray, FloatArray]
"""Lower bounds on energies (units) and on cycles; infinite where no tile fits."""


class Survey:
    """Bounds on the energy and the cycles of combinations of spatial classes, for all keep masks.

    Where there are many, cells of similar combinations are bounded first. Masks are known by their places.
    """

    def __init__(self, space: SearchSpace, stop: Stop = never) -> None:
        self.space = space
        self.stop = stop
        self._fronts: Fronts = {}

    @cached_property
    def grid(self) -> SpatialGrid:
        """All combinations."""
        return spatial_grid(self.space, self.stop)

    @cached_property
    def cells(self) -> Cells:
        """All combinations, in cells."""
        number = max(MOST_BOUNDS // max(1, len(self.space.keep_masks)), FEWEST_CELLS)
        if len(self.grid) <= number:
            return alone(self.grid)
        return parted(self.grid, min(number, MOST_CELLS), self.stop)

    @cached_property
    def _fewest_below(self) -> FewestBelow:
        return FewestBelow(self.grid, self.stop)

    @cached_property
    def kept(self) -> KeptLevels:
        """What each level keeps, mask by mask."""
        return KeptLevels(self.space, self.stop)

    @cached_property
    def overview(self) -> Bounds:
        """Bounds per mask and cell, that hold for all of its combinations: shape (masks, cells)."""
        shape = len(self.space.keep_masks), len(self.cells)
        energies, cycles = np.empty(shape), np.empty(shape)
        every = np.arange(len(self.space.keep_masks))
        for part in self.cells.parts(PART):
            starts = None if part.single else part.starts
            surveyor = _Surveyor(self.kept, RateTable(part.members, starts), self._fronts)
            rows = max(1, AT_ONCE // max(1, len(part.places)))
            for masks in (every[start : start + rows] for start in range(0, len(every), rows)):
                place = np.ix_(masks, part.places)
                energies[place], cycles[place] = self._bounded(surveyor, masks)
        return energies, cycles

    def opened(self, pairs: BoolArray) -> Iterator[tuple[IntArray, IntArray, Bounds]]:
        """Bounds on all combinations of some cells with some masks each.

        Parameters
        ----------
        pairs
            Which cells of which masks, shape (masks, cells).
        """
        if not pairs.any():
            return
        for part in self.cells.parts(SMALL_PART, np.flatnonzero(pairs.any(axis=0))):
            surveyor = _Surveyor(self.kept, RateTable(part.members), self._fronts)
            masks, cells = np.nonzero(pairs[:, part.places])
            ends = np.cumsum(part.sizes[cells])
            cuts = np.searchsorted(ends, np.arange(AT_ONCE, ends[-1], AT_ONCE))
            for some in filter(len, np.split(np.arange(len(masks)), cuts)):
                places, columns = ranges(part.starts[cells[some]], part.sizes[cells[some]])
                rows = masks[some][places]
                yield rows, part.numbers[columns], self._bounded(surveyor, rows, columns)

    def closer(self, mask: int, numbers: IntArray) -> Bounds:
        """Higher bounds on some combinations: tiles of windows go together with what is unrolled above.

        Returns
        -------
        Bounds
            Energy units and cycles, both of shape (len(numbers),).
        """
        bounds = []
        for part in (
            numbers[start : start + SMALL_PART] for start in range(0, max(1, len(numbers)), SMALL_PART)
        ):
            fewest = partial(self._fewest_below.words, part)
            surveyor = _Surveyor(self.kept, RateTable(self.grid.chosen(part)), self._fronts, fewest)
            bounds.append(self._bounded(surveyor, np.array([mask])))
        energies, cycles = (np.concatenate(parts, axis=1)[0] for parts in zip(*bounds, strict=True))
        return energies, cycles

    def surplus(self, masks: IntArray, numbers: IntArray) -> FloatArray:
        """What whole blocks of words add to the bounds on energies, per pair of a mask and a combination."""
        if len(numbers) == 0:
            return np.empty(0)
        distinct, columns = np.unique(numbers, return_inverse=True)
        surveyor = _Surveyor(self.kept, RateTable(self.grid.chosen(distinct)), self._fronts)
        return surveyor.surplus(masks, columns)

    def _bounded(self, surveyor: _Surveyor, masks: IntArray, cells: slice | IntArray = EVERYTHING) -> Bounds:
        if self.stop():
            raise Stopped
        return surveyor.bounds(masks, cells)


class _Surveyor:
    """Bounds cells or combinations: masks share what is paid at a level.

    That follows from what the level keeps, and from the portions that are delivered to it.
    """

    def __init__(
        self,
        kept: KeptLevels,
        table: RateTable,
        fronts: Fronts,
        fewest: Callable[[int, Tenancy], IntArray] | None = None,
    ) -> None:
        self._kept = kept
        self._table = table
        self.space = table.space
        self._fronts = fronts
        self._fewest = cache(partial(fewest_words, table.space) if fewest is None else fewest)
        self._paid: dict[tuple[Kept, Measure], FloatArray] = {}
        self._known_surplus: dict[Kept, FloatArray] = {}

    def bounds(self, masks: IntArray, cells: slice | IntArray) -> Bounds:
        """Lower bounds on energy and cycles.

        For a slice of the table's cells of shape (masks, cells); else each mask has a cell of its own.
        """
        table, numbered = self._table, self._by_level(masks)
        fixed = float(self.space.problem.computes * self.space.architecture.compute.energy)
        energies = (
            self._total(numbered, cells, self._energy) + self._total(numbered, cells, self._surplus) + fixed
        )
        busy = np.broadcast_to(table.steps[cells], energies.shape)
        for number in range(len(self.space.resources)):
            load = self._total(numbered, cells, partial(self._cost, measure=number))
            busy = np.maximum(busy, load * ROUNDED_DOWN)
        busy = np.ceil(busy)  # The cost model counts whole cycles.
        if table.leak_per_cycle.any():
            energies += table.leak_per_cycle[cells] * np.where(np.isfinite(busy), busy, 0.0)
            energies -= float(self.space.unrounded(math.ceil(float(table.leak_per_cycle.max()))))
        cycles = busy + rounded_down(self.space.latency)
        cycles = np.where(cycles < LARGEST_EXACT, cycles, np.nextafter(cycles, 0.0))
        return energies * np.where(energies > 0, ROUNDED_DOWN, 1.0), cycles

    def _total(
        self, numbered: Sequence[_Numbered], cells: slice | IntArray, cost: Callable[[Kept], FloatArray]
    ) -> FloatArray:
        """A cost of all levels together, and of the compute."""
        boundaries = zip(numbered, self._kept.variants, strict=True)
        costs = (
            np.stack([cost(kept[kind]) for kind in kinds])[rows, cells] for (kinds, rows), kept in boundaries
        )
        return reduce(np.add, costs)

    def _energy(self, kept: Kept) -> FloatArray:
        return self._cost(kept, None)

    def _cost(self, kept: Kept, measure: Measure) -> FloatArray:
        if (kept, measure) not in self._paid:
            self._paid[kept, measure] = self._least(kept, measure)
        return self._paid[kept, measure]

    def _least(self, kept: Kept, measure: Measure) -> FloatArray:
        """Least cost of the boundary of a level over tiles and classes."""
        table = self._table
        rates = {portion.place: table.rate(portion, measure) for portion in kept.portions}
        charged = {place: rate for place, rate in rates.items() if rate is not None}
        least = -sum((rate.subtracted for rate in charged.values()), np.zeros(len(self._table)))
        if kept.level == len(self.space.levels):
            # The compute takes one word of each dataspace per operation.
            computes = float(self.space.problem.computes)
            return sum((rate.per_word * computes for rate in charged.values()), least)
        if len(self.space.feasible(kept.level, kept.tenants)) == 0:
            return np.full(len(self._table), np.inf)
        if charged:
            least = least + self._delivered(kept, charged)
        return np.where(table.holds(kept.level, kept.tenants), least, np.inf)

    def _surplus(self, kept: Kept) -> FloatArray:
        """By how much the energy at a level is more if each dataspace is delivered once, in whole blocks."""
        if kept not in self._known_surplus:
            self._known_surplus[kept] = self._blocks_beyond(kept, self._energy(kept))
        return self._known_surplus[kept]

    def _blocks_beyond(self, kept: Kept, energy: FloatArray) -> FloatArray:
        none = np.zeros(len(energy))
        if not np.isfinite(energy).any():
            return none
        tenancy, compute = (kept.level, kept.tenants), kept.level == len(self.space.levels)
        fewest = [None if compute else self._fewest(portion.place, tenancy) for portion in kept.portions]
        blocks = sum(map(self._table.in_blocks, kept.portions, fewest), none)
        return np.maximum(blocks - energy, 0.0)

    def surplus(self, masks: IntArray, cells: slice | IntArray) -> FloatArray:
        """What whole blocks of words add to the energies that `bounds` has, shaped as these."""
        return self._total(self._by_level(masks), cells, self._surplus)

    def _by_level(self, masks: IntArray) -> list[_Numbered]:
        """What each level keeps with any of the masks."""
        return [_numbered(variants[masks]) for variants in self._kept.variant_of_mask]

    def _delivered(self, kept: Kept, rates: dict[int, Rate]) -> FloatArray:
        """Least cost of what is delivered to a level, over tiles and classes."""
        fewest = {place: self._fewest(place, (kept.level, kept.tenants)) for place in rates}
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

    def _relevant(self, place: int, level: int) -> IntArray:
        return self.space.relevant_words(place, level, self.space.no_unrolling).repeated

    def _unreused_words(self, place: int, level: int) -> IntArray:
        irrelevant = self.space.tables[place].irrelevant_tiles
        key = "unreused", place, self.space.reuses(place, level), self.space.overlaps(place, level)
        return self.space.memo(key, lambda: self._relevant(place, level) * irrelevant)

    def _front(self, kept: Kept, places: frozenset[int]) -> FloatArray:
        """Traffic of the tiles that fit and that no other tile undercuts, shape (places, tiles)."""
        key = (kept.level, kept.tenants, places)
        if key not in self._fronts:
            tiles = self.space.feasible(kept.level, kept.tenants)
            traffic = [self._unreused_words(p, kept.level)[tiles] for p in sorted(places)]
            self._fronts[key] = pareto_front(np.stack(traffic).astype(np.float64).T).T.copy()
        return self._fronts[key]


_Numbered = tuple[IntArray, IntArray]
"""Kinds that there are, and the place of each one's among them."""


def _numbered(kinds: IntArray) -> _Numbered:
    # `np.unique` sorts, which takes longer for the few small numbers here.
    there = np.flatnonzero(np.bincount(kinds))
    return there, np.searchsorted(there, kinds)


def _least_product(weights: FloatArray, front: FloatArray) -> FloatArray:
    """Row-wise minimum of ``weights @ front``, in chunks of bounded memory."""
    rows = max(1, CHUNK // front.shape[1])
    # A product of BLAS takes several times longer for a few columns, and threads that others may need.
    parts = [
        np.einsum("ck,kt->ct", weights[i : i + rows], front).min(axis=1) for i in range(0, len(weights), rows)
    ]
    return np.concatenate(parts) if parts else np.empty(0)
