"""Lower bounds by dynamic programming over the divisor lattice, from the compute outwards.

For each level and tile, the tables bound from below the cost of all boundaries inside the tile. A
boundary's cost splits into a part that depends on its own tile and, for a dataspace that stays in place
in the innermost loops outside, a part that depends only on the tile of the level where it stops staying
in place: the loops in between cancel out. So a running minimum over divisors joins the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Generic, TypeVar

import numpy as np

from solver.search.arrays import FloatArray, IntArray
from solver.search.bounds.boundary import Boundaries, Boundary
from solver.search.bounds.pairs import MOST_PAIRS
from solver.search.bounds.steps import SlotStep
from solver.search.bounds.tables import CLOSED, BoundTables, Row, StageTables
from solver.search.bounds.uneven import UnevenStep
from solver.search.space.counts import CountLattice, CountSlot
from solver.search.space.lattice import INFINITY
from solver.search.space.search_space import Led
from solver.search.stopping import Stop, Stopped, never
from solver.search.subproblems.subproblem import Subproblem

Sub_co = TypeVar("Sub_co", bound=Subproblem, covariant=True)
"""The subproblem that is bounded."""

Survivors = tuple[IntArray, ...]
"""Per level but the outermost one, tiles that may be part of a mapping, ascending."""


MOST_PARTS = 64
"""Parts up to which the pairs of tiles inside and outside of a slot are looked at."""


class LatticeBounds(Generic[Sub_co]):
    """The dynamic program of one subproblem.

    All tables hold quanta of the cost beyond the ``constant``: what the subproblem's mappings share, and
    the least that each boundary costs.

    Parameters
    ----------
    sub
        What is bounded.
    limit
        In units of its cost. Tiles are left out whose own boundary alone reaches it with the least cost of
        all others: they are part of no mapping below it.
    tables
        What the program found in another process; None to run it.
    pairwise
        Whether to look at pairs of tiles where windows slide, or closely at remainders, which takes longer.
    stop
        Asked now and then.
    within
        Where it is known already which tiles are part of no mapping, the others; None otherwise.
    survivors
        What is left, if it is known from elsewhere; None for the tiles of the tables.

    References
    ----------
    docs/search.md, "The lattice".
    """

    def __init__(
        self,
        sub: Sub_co,
        limit: int,
        tables: BoundTables | None = None,
        pairwise: bool = False,
        stop: Stop = never,
        within: Survivors | None = None,
        survivors: Survivors | None = None,
    ) -> None:
        self.sub = sub
        self.pairwise = pairwise
        self._within = within
        self._left = survivors
        self._stop = stop
        self.space = sub.space
        self.classes = self.space.led_classes
        self.depth = len(self.space.levels)
        self.boundaries = Boundaries(sub)
        known = self._tables(limit) if tables is None else tables
        self.tables = known
        self.inside, self.stages, self.states = known.inside, known.stages, known.states
        self.loads_inside = known.loads_inside

    def _tables(self, limit: int) -> BoundTables:
        tiles = [self.tiles(level) for level in range(self.depth)]
        if self._within is not None:
            # They may be those that bounds of several subproblems together leave.
            rest = zip(tiles[1:], self._within, strict=True)
            tiles[1:] = [left[np.isin(left, fits, assume_unique=True)] for fits, left in rest]
        if any(len(fitting) == 0 for fitting in tiles):
            return self._nothing(0)
        room = self.room(limit)
        return self._run(tiles, room) if room else self._nothing(0)

    def _nothing(self, states: int) -> BoundTables:
        """What is left when no mapping is below the limit."""
        loads = np.zeros((self.depth, len(self.sub.base_loads)))
        return BoundTables(({CLOSED: np.full(1, INFINITY, dtype=np.int64)},), (), loads, states)

    def anew(self, limit: int, within: Survivors, stop: Stop) -> LatticeBounds[Sub_co]:
        """Bounds of the same kind for another limit, with the tiles that are left."""
        return LatticeBounds(self.sub, limit, pairwise=self.pairwise, stop=stop, within=within)

    @cached_property
    def constant(self) -> int:
        """What all mappings of the subproblem cost at least, in units, without their tiles' extra."""
        least = self.sub.constant + self.boundaries.once * self.sub.quantum
        return least + self.sub.rounded_off(self._fewest)

    def room(self, limit: int) -> int:
        """Quanta beyond the constant from which on the cost reaches `limit` (units)."""
        return max(0, min(-(-(limit - self.constant) // self.sub.quantum), INFINITY))

    def tiles(self, level: int) -> IntArray:
        """Lattice indices of the tiles that `level` can hold; the outermost one holds everything."""
        fits = self.sub.feasible(level)
        return fits[fits == self.space.lattice.size - 1] if level == 0 else fits

    @property
    def least(self) -> int:
        """Lower bound on the cost (units) of every mapping below the limit."""
        waiting = self.sub.leak_per_cycle * (self.least_cycles - self.sub.least_cycles)
        return self._least_cost + waiting

    @property
    def _least_cost(self) -> int:
        """The same without the leakage for cycles that only bandwidths add."""
        return self.constant + int(self.inside[0][CLOSED][0]) * self.sub.quantum

    @property
    def least_cycles(self) -> int:
        """Lower bound on the cycles of every mapping below the limit."""
        loads = self.sub.base_loads + self.loads_inside[0]
        return max(self.sub.cycles(self.sub.loads_at(self._least_cost, loads)), self.model_cycles)

    @cached_property
    def model_cycles(self) -> int:
        """Cycles by the plain cost model if every boundary gets the fewest words that any tile needs."""
        return self.sub.model_cycles(self._fewest)

    @property
    def _fewest(self) -> dict[tuple[int, int], int]:
        """The fewest words that each boundary gets of any tile."""
        return {
            (b.place, b.level): b.once_words for boundaries in self.boundaries.by_level for b in boundaries
        }

    @property
    def survivors(self) -> Survivors:
        """Tiles that may be part of a mapping below the limit, if there is any."""
        return self._left or tuple(stage.tiles for stage in self.stages)

    def connected(self, limit: int) -> Survivors:
        """With remainders, those that loops connect with tiles of all levels outside, below the limit."""
        room, survivors = self.room(limit), []
        outside, spent = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        outside[0] = self.space.lattice.size - 1
        for level, stage in enumerate(self.stages):
            sources, origins, factors = self._unrolled(level, stage.tiles)
            slot = self.space.slots[level]
            assert isinstance(slot, CountSlot)
            reach = slot.reach(sources, outside, factors)
            least = reach.least_outside(spent)
            before = np.full(len(stage.tiles), INFINITY, dtype=np.int64)
            np.minimum.at(before, origins, least)
            keep = before + stage.least < room
            outside = stage.tiles[keep]
            survivors.append(outside)
            spent = before[keep] + stage.boundary_costs[:, keep].min(axis=0)
        return tuple(survivors)

    @property
    def empty(self) -> bool:
        """Whether no mapping is below the limit."""
        return int(self.inside[0][CLOSED][0]) >= INFINITY

    def _run(self, feasible: Sequence[IntArray], room: int) -> BoundTables:
        tiles, at_boundary = self._survivors(feasible, room)
        states = sum(len(fitting) for fitting in feasible[1:])
        if any(len(t) == 0 for t in tiles):
            return self._nothing(states)
        outside = [0, *accumulate(int(costs.min()) for costs in at_boundary)]
        loads_inside = np.zeros((self.depth, len(self.sub.base_loads)))
        inside: dict[Row, IntArray] = {CLOSED: self._innermost(tiles[-1])}
        rows_inside: list[dict[Row, IntArray]] = []
        stages: list[StageTables] = []
        for level in reversed(range(1, self.depth)):
            stage, inside = self._stage(tiles[level], at_boundary[level], inside, room - outside[level])
            if len(stage.tiles) == 0:
                return self._nothing(states)
            loads_inside[level - 1] = loads_inside[level] + self._least_loads(level, stage.tiles)
            rows_inside.append(inside)
            stages.append(stage)
            inside = self._join(level - 1, stage, inside, tiles[level - 1], room - outside[level])
        return BoundTables((inside, *reversed(rows_inside)), tuple(reversed(stages)), loads_inside, states)

    def _survivors(self, feasible: Sequence[IntArray], room: int) -> tuple[list[IntArray], list[IntArray]]:
        """Per level, the tiles that can matter, and per class and tile the cost at their boundary."""
        tiles = list(feasible)
        price = self._boundary_costs_once if self._within is None else self._boundary_costs
        at_boundary = [price(level, t) for level, t in enumerate(tiles)]
        at_boundary[-1] = np.minimum(at_boundary[-1] + self.sub.operands_beyond(tiles[-1]), INFINITY)
        floors = [costs.min(axis=0) for costs in at_boundary]
        slack = room - sum(int(floor.min()) for floor in floors)
        for level, floor in enumerate(floors):
            keep = floor - floor.min() < slack
            tiles[level], at_boundary[level] = tiles[level][keep], at_boundary[level][:, keep]
        return tiles, at_boundary

    def _boundary_costs_once(self, level: int, tiles: IntArray) -> IntArray:
        """`_boundary_costs`, remembered for levels without fanouts above: there it is often the same."""
        if self.sub.unrolls(0, level):
            return self._boundary_costs(level, tiles)
        prices = tuple((b.place, b.price) for b in self.boundaries.by_level[level])
        key = ("own", level, self.space.tenants(self.sub.mask, level), prices)
        return self.space.memo(key, lambda: self._boundary_costs(level, tiles))

    def _boundary_costs(self, level: int, tiles: IntArray) -> IntArray:
        """Cost at the boundary of `level` per class and tile, but for what the class reuses."""
        costs = np.zeros((len(self.classes), len(tiles)), dtype=np.int64)
        for boundary in self.boundaries.by_level[level]:
            surplus = boundary.surplus(tiles)
            loose = self._each([boundary.extra(words) for words in self._unreused(boundary, tiles)])
            for number, led in enumerate(self.classes):
                costs[number] += surplus if boundary.counts_in(led.members) else loose[number]
        return np.minimum(costs, INFINITY)

    def _each(self, arrays: list[IntArray]) -> list[IntArray]:
        """One array for each class, where there may be one for all of them."""
        return arrays if len(arrays) > 1 else arrays * len(self.classes)

    def _unreused(self, boundary: Boundary, tiles: IntArray) -> list[IntArray]:
        """Least words delivered without reuse, for each class, or one array for all of them.

        The innermost loop above is the one that leads a window, and one of the class.
        """
        if not boundary.sliding:
            return [boundary.tile_words(tiles)]
        return [boundary.tile_words(tiles, led) for led in self.classes]

    def _least_loads(self, level: int, tiles: IntArray) -> FloatArray:
        """Least load of each resource at the boundary of `level`, over tiles and classes.

        Loads grow with the words delivered, so the fewest words of each dataspace are enough.
        """
        count = len(self.sub.base_loads)
        best = np.full(count, np.inf)
        if count == 0:
            return best
        fewest = {
            boundary.place: self._each(
                [words.min(keepdims=True) for words in self._unreused(boundary, tiles)]
            )
            for boundary in self.boundaries.by_level[level]
        }
        for number, led in enumerate(self.classes):
            loads = np.zeros((1, count))
            for boundary in self.boundaries.by_level[level]:
                once, loose = np.array([boundary.once_words]), fewest[boundary.place][number]
                boundary.price.add_loads(once if boundary.counts_in(led.members) else loose, loads)
            best = np.minimum(best, loads[0])
        return best

    def _innermost(self, tiles: IntArray) -> IntArray:
        unrollings = self.sub.unrollings(self.depth - 1)
        return self.space.memo(("innermost", unrollings), lambda: self._fillable(unrollings))[tiles]

    def _fillable(self, unrollings: Sequence[int]) -> IntArray:
        """0 for the tiles that loops of the innermost level and its fanouts can make up."""
        around, _ = self.space.lattice.times(np.zeros(1, dtype=np.int64), unrollings)
        made_up = self.space.slots[-1].products(around)
        return np.where(made_up, 0, INFINITY)

    def _stage(
        self, tiles: IntArray, at_boundary: IntArray, inside: dict[Row, IntArray], room: int
    ) -> tuple[StageTables, dict[Row, IntArray]]:
        """Tables of one level and its rows of bounds, both only for tiles that leave some of `room`."""
        rows = self._undominated(at_boundary, inside, room)
        least = np.full(len(tiles), INFINITY, dtype=np.int64)
        for led, costs in zip(self.classes, at_boundary, strict=True):
            fitting = [values for row, values in rows.items() if row.fits(led)]
            np.minimum(least, costs + np.min(fitting, axis=0), out=least)
        keep = least < room
        stage = StageTables(tiles[keep], at_boundary[:, keep], least[keep])
        return stage, {row: values[keep] for row, values in rows.items()}

    def _undominated(
        self, at_boundary: IntArray, inside: dict[Row, IntArray], room: int
    ) -> dict[Row, IntArray]:
        """The rows without bounds that leave none of `room`."""
        rows = {}
        # Branching also goes on with loops that leave less in place than any class, and fit more rows.
        least = at_boundary.min(axis=0)
        for row, values in inside.items():
            useful = values + least < room
            if row == CLOSED or useful.any():
                rows[row] = np.where(useful, values, INFINITY)
        return rows

    def _join(
        self, level: int, stage: StageTables, inside: dict[Row, IntArray], outer: IntArray, room: int
    ) -> dict[Row, IntArray]:
        """Bounds at the tiles `outer` of `level` from those of the stage one level inside."""
        sources, origins, factors = self._unrolled(level, stage.tiles)
        result = {CLOSED: np.full(len(outer), INFINITY, dtype=np.int64)}
        for part in self._parts(len(sources), len(outer)):
            tiles = stage.tiles[origins]
            slot: SlotStep
            if factors is None:
                slot = SlotStep(self.boundaries, level, tiles, sources, outer[part], self.pairwise)
            else:
                slot = UnevenStep(self.boundaries, level, tiles, sources, outer[part], self.pairwise, factors)
            for key, bound in self._outwards(slot, stage, inside, origins, room):
                known = result.setdefault(key, np.full(len(outer), INFINITY, dtype=np.int64))
                known[part] = np.minimum(known[part], bound)
        return result

    def _unrolled(self, level: int, tiles: IntArray) -> tuple[IntArray, IntArray, IntArray | None]:
        """Tiles times the spatial choices below a level, the places of the former, and None.

        With remainders the tiles themselves, and each one's choice, of shape (products, dimensions).
        """
        lattice, codes = self.space.lattice, self.sub.unrollings(level)
        if not isinstance(lattice, CountLattice):
            return *lattice.times(tiles, codes), None
        parts = [lattice.enough(tiles, code) for code in codes]
        origins = np.concatenate(parts)
        chosen = np.array([lattice.factors(code) for code in codes], dtype=np.int64)
        return tiles[origins], origins, np.repeat(chosen, [len(own) for own in parts], axis=0)

    def _parts(self, sources: int, targets: int) -> list[slice]:
        """Parts of the tiles outside of a slot: so small that pairs may be looked at, where that pays."""
        if self.space.uneven or not self.pairwise or sources * targets > MOST_PARTS * MOST_PAIRS:
            return [slice(0, targets)]
        size = max(1, MOST_PAIRS // max(1, sources))
        return [slice(start, start + size) for start in range(0, targets, size)]

    def _outwards(
        self, slot: SlotStep, stage: StageTables, inside: dict[Row, IntArray], origins: IntArray, room: int
    ) -> Iterator[tuple[Row, IntArray]]:
        """Rows outside of a slot with bounds at its outer tiles, several times the same row."""
        classes = zip(self.classes, stage.boundary_costs, strict=True)
        fitting = ((row, *led) for led in classes for row in inside if row.fits(led[0]))
        for row, led, costs in fitting:
            if self._stop():
                raise Stopped
            combined = costs + inside[row]
            if led.alone is not None and row.alone is None:
                # Where nothing stays by chance, it does not matter which loop it is.
                plain = stage.boundary_costs[self.classes.index(Led(led.members))]
                combined = np.where(costs < plain, combined, INFINITY)
            useful = combined < room
            if useful.any():
                yield from slot.outwards(row, led, np.where(useful, combined, INFINITY)[origins])


AnyBounds = LatticeBounds[Subproblem]
"""Bounds of whatever cost."""
