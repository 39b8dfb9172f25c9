"""The search: a queue of regions by their bounds, from keep masks to single paths, until the incumbent is no worse."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import numpy as np

from solver.result import Phase
from solver.search.arrays import FloatArray, IntArray
from solver.search.branching.completion import Priced
from solver.search.goal import Goal
from solver.search.path.branch import Branch, Found, Leads
from solver.search.path.charges import Charges
from solver.search.path.inside import Inside, Loosest, Unrolled
from solver.search.path.leaves import Leaves
from solver.search.path.masked import Masked, spatial_choices
from solver.search.path.tables import Frame, Outside
from solver.search.shared import Shared
from solver.search.space.search_space import SearchSpace

PAIRS = 200_000
"""Pairs of tiles and a spatial choice that are bounded together, about."""

PATHS = 4
"""Paths that are priced together."""

SLACKS = (1.0, 1.005, 1.02, 1.1, 1.5, 3.0, 10.0, 1e3, 1e9)
"""By how much paths may exceed the bound of their row while there is no incumbent."""


class _Mask(NamedTuple):
    masked: Masked


class _Choices(NamedTuple):
    """Spatial choices under a mask, with tiles and their floors."""

    masked: Masked
    rows: IntArray
    floors: FloatArray


class _Rows(NamedTuple):
    """Tiles with a spatial choice each, by rising bounds from `next` on."""

    masked: Masked
    leads: Leads
    tiles: IntArray
    choices: IntArray
    values: FloatArray
    cycles: FloatArray
    next: int


class _Paths(NamedTuple):
    """Complete paths of one row, by rising bounds from `next` on."""

    found: tuple[Found, ...]
    values: FloatArray
    next: int


@dataclass
class PathSearch:
    """The search for one objective of a search space.

    Parameters
    ----------
    space, goal
        What is searched for.
    shared
        Limits, statistics, who is told.
    best
        A mapping to begin with.
    """

    space: SearchSpace
    goal: Goal
    shared: Shared
    best: Priced | None = None
    _queue: list[tuple[float, int, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._frame = Frame(self.space)
        self._ticket = count()
        self._outsides: dict[object, Outside] = {}
        self._leaves = Leaves(self.space, self.goal, self.shared.stop)

    def run(self) -> int | None:
        """Search until the incumbent is proven, or stopped: the bound, None if there is no mapping."""
        self._every = spatial_choices(self._frame)
        bounds = np.array([axis.bound for axis in self._frame.axes], dtype=np.int64)
        rounds = -(-bounds // self._every.product(0, len(self.space.levels)))
        self._steps: FloatArray = rounds.astype(np.float64).prod(axis=1)
        self._order = np.argsort(self._steps, kind="stable")
        least = float(self._steps.min(initial=np.inf))
        for mask in self.space.keep_masks:
            masked = self._masked(Charges(self.space, mask))
            self._push(self._value(masked.floor(self._every), least), _Mask(masked))
        while self._queue:
            value, _, item = heapq.heappop(self._queue)
            if self._settles(value):
                return self.goal.incumbent
            if self.shared.stop():
                return self._bound(value)
            self.shared.report(Phase.LATTICE, self.goal, self._bound(value))
            self._open(item, value)
        return self.goal.incumbent

    def _masked(self, charges: Charges) -> Masked:
        """The mappings with a mask; tables outside are shared by all masks that keep the same there."""
        m = self._frame.meeting
        tenants = tuple(self.space.tenants(charges.mask, level) for level in range(m + 1))
        key = tenants, tuple(charges.at(boundary) for boundary in range(1, m + 1))
        if key not in self._outsides:
            self._outsides[key] = Outside(self._frame, charges)
        return Masked(self._frame, charges, self._outsides[key], Inside(self._frame, charges))

    def _bound(self, value: float) -> int:
        """A float bound as an integer that no mapping is below."""
        bound = int(min(value, 1e300))
        return bound if self.goal.incumbent is None else min(bound, self.goal.incumbent)

    def _value(self, energy: float, cycles: float) -> float:
        latency = float(self.space.latency)
        return float(self.goal.values(np.array([energy]), np.array([cycles + latency]))[0])

    def _settles(self, value: float) -> bool:
        return not np.isfinite(value) or (self.goal.incumbent is not None and value >= float(self.goal.incumbent))

    def _push(self, value: float, item: object) -> None:
        if not self._settles(value):
            heapq.heappush(self._queue, (value, next(self._ticket), item))

    def _open(self, item: object, value: float) -> None:
        if isinstance(item, _Mask):
            self._open_mask(item.masked, value)
        elif isinstance(item, _Choices):
            self._open_choices(item, value)
        elif isinstance(item, _Rows):
            self._open_row(item, value)
        elif isinstance(item, _Paths):
            self._price(item)

    def _open_mask(self, masked: Masked, value: float) -> None:
        """Bound each tile at the first boundary inside with the loosest spatial choice there might be."""
        tiles = masked.tiles
        if not len(tiles):
            return
        floors = np.full(len(tiles), np.inf)
        loosest = Loosest(self._every, len(tiles))
        cycles = float(self._steps.min()) + float(self.space.latency)
        limits = self.goal.energy_limits(np.full(len(tiles), cycles))
        closely = self.goal.incumbent is not None
        for leads in masked.labels():
            bounds = masked.bound({masked.inside.first: tiles}, loosest, leads, limits, closely)
            floors = np.minimum(floors, bounds.energy)
        self.shared.statistics.states += len(tiles)
        start = 0
        while start < len(self._order):
            steps = float(self._steps[self._order[start]])
            live = self._hopeful(floors, np.full(len(floors), steps))
            if not len(live):
                return
            rows = self._order[start : start + max(1, PAIRS // len(live))]
            start += len(rows)
            self._push(max(value, self._value(float(floors.min()), steps)), _Choices(masked, rows, floors))

    def _hopeful(self, energies: FloatArray, steps: FloatArray) -> IntArray:
        cycles = steps + float(self.space.latency)
        return np.flatnonzero(np.isfinite(energies) & self.goal.hopeful(energies, cycles))

    def _open_choices(self, item: _Choices, value: float) -> None:
        """Bound pairs of tiles and spatial choices."""
        masked, first = item.masked, item.masked.inside.first
        steps = float(self._steps[item.rows[0]])
        live = self._hopeful(item.floors, np.full(len(item.floors), steps))
        choices = np.repeat(item.rows, len(live))
        tiles = np.tile(masked.tiles[live], (len(item.rows), 1))
        hopeful = self._hopeful(np.tile(item.floors[live], len(item.rows)), self._steps[choices])
        choices, tiles = choices[hopeful], tiles[hopeful]
        if not len(tiles):
            return
        unrolled = self._every[choices]
        limits = self.goal.energy_limits(self._steps[choices] + float(self.space.latency))
        closely = self.goal.incumbent is not None
        self.shared.statistics.states += len(tiles)
        for leads in masked.labels():
            energy, cycles = masked.bound({first: tiles}, unrolled, leads, limits, closely)
            values = self.goal.values(energy, cycles)
            rows = np.flatnonzero(np.isfinite(values) & ~self._all_settled(values))
            rows = rows[np.argsort(values[rows], kind="stable")]
            if len(rows):
                own = _Rows(masked, leads, tiles[rows], choices[rows], values[rows], cycles[rows], 0)
                self._push(max(value, float(own.values[0])), own)

    def _all_settled(self, values: FloatArray) -> np.ndarray:
        if self.goal.incumbent is None:
            return np.zeros(len(values), dtype=np.bool_)
        return values >= float(self.goal.incumbent)

    def _open_row(self, item: _Rows, value: float) -> None:
        """List the complete paths of a row."""
        place = item.next
        if place + 1 < len(item.values):
            self._push(max(value, float(item.values[place + 1])), item._replace(next=place + 1))
        tiles, unrolled = item.tiles[place : place + 1], self._every[item.choices[place : place + 1]]
        cycles = float(item.cycles[place])
        limit = float(self.goal.energy_limits(np.array([cycles]))[0])
        self.shared.statistics.subproblems += 1
        found = tuple(self._paths(item, tiles, unrolled, limit))
        if found:
            energies = np.array([own.energy for own in found])
            values = self.goal.values(energies, np.full(len(found), cycles))
            self._push(max(value, float(values[0])), _Paths(found, values, 0))

    def _paths(self, item: _Rows, tiles: IntArray, unrolled: Unrolled, limit: float) -> Iterator[Found]:
        masked, first = item.masked, item.masked.inside.first
        if np.isfinite(limit):
            yield from self._below(item, tiles, unrolled, limit)
            return
        least = float(masked.bound({first: tiles}, unrolled, item.leads, np.array([np.inf])).energy[0])
        for slack in SLACKS if np.isfinite(least) else ():
            found = self._below(item, tiles, unrolled, least * slack * (1 + 1e-9))
            if found:
                # What lies beyond is looked at once there is an incumbent.
                self._again(item)
                yield from found
                return

    def _again(self, item: _Rows) -> None:
        self._push(float(item.values[item.next]), item._replace(next=item.next))

    def _below(self, item: _Rows, tiles: IntArray, unrolled: Unrolled, limit: float) -> list[Found]:
        paths = Branch(item.masked, tiles, unrolled, item.leads, limit).paths()
        return sorted(paths, key=lambda own: own.energy)

    def _price(self, item: _Paths) -> None:
        """Price the mappings of the next paths."""
        end = item.next + PATHS
        better = self._leaves.improve([own.path for own in item.found[item.next : end]])
        self.shared.statistics.mappings_priced = self._leaves.priced
        if better is not None:
            self.best = better
            evaluation = better.evaluation
            self.goal.incumbent = self.goal.value(evaluation.energy, evaluation.cycles)
        if end < len(item.found):
            self._push(float(item.values[end]), item._replace(next=end))
