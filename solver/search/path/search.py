"""The search: a queue of regions by their bounds, from keep masks to single paths."""

from __future__ import annotations

import heapq
import math
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from model.mapspace import EXACT
from solver.result import Evidence, MaskEvidence, Phase, is_within
from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.branching.completion import Priced
from solver.search.goal import Goal
from solver.search.path.bounds import Bounds
from solver.search.path.branch import Branch, Found
from solver.search.path.charges import ENERGY, Charges, Price
from solver.search.path.inside import Unrolled
from solver.search.path.leaves import Leaves, Path
from solver.search.path.masked import Leads, Masked, spatial_choices
from solver.search.path.tables import Frame, Outside
from solver.search.shared import Shared
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stopped, heeding
from solver.search.trivial import trivial_bound

FEW_PAIRS = 8_000
"""Pairs of tiles and spatial choices up to which each is bounded; else choices are parted."""

MOST_CHOICES, MOST_MASKS = 1 << 20, 1 << 12
"""Combinations of spatial choices, and keep masks, up to which each is looked at."""

TABLES = 40
"""Tables over all numbers of tiles that are held at a time, about."""

PATHS = 4
"""Paths that are priced together."""

FIRST_PATHS = 32
"""Paths of a row of which the best one is priced as soon as the row is bounded."""

SLACKS = (1.0, 1.005, 1.02, 1.1, 1.5, 3.0, 10.0, 1e3, np.inf)
"""By how much the paths of a row may exceed its bound, time after time, while there is no incumbent."""


class _Mask(NamedTuple):
    bounds: Bounds


class _Cell(NamedTuple):
    """Some spatial choices under a mask, and the tiles inside that may go with any of them."""

    bounds: Bounds
    choices: IntArray
    tiles: IntArray


class _Rows(NamedTuple):
    """Tiles with a spatial choice each, by rising bounds from `next` on.

    Of the paths of the first row those are known that cost less than `done`.
    """

    bounds: Bounds
    leads: Leads
    tiles: IntArray
    choices: IntArray
    values: FloatArray
    cycles: FloatArray
    next: int = 0
    slack: int = 0
    done: float = 0.0


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
        self._lowest = np.inf
        self._branched: dict[KeepMask, set[int]] = {}
        self._outsides: dict[object, dict[Price, Outside]] = {}
        self._leaves = Leaves(self.space, self.goal, self.shared.stop)

    def run(self) -> int | None:
        """Search until the incumbent is proven, or stopped: the bound, None if there is no mapping."""
        if self.space.excluded or not all(len(stage.places) for stage in self.space.stages):
            return None
        self._least = trivial_bound(self.space.mapspace, self.goal.objective)
        with suppress(Stopped):
            self._begin()
            if self._settled():
                return self.goal.incumbent
        return self._at_most(self._least)

    def _settled(self) -> bool:
        """Open regions by rising bounds; whether that ends with a proof, not at the gap that is asked for."""
        while self._queue:
            value, _, item = heapq.heappop(self._queue)
            if self._settles(value):
                return True
            self._least = max(self._least, self._bound(value))
            self.shared.report(Phase.LATTICE, self.goal, self._least)
            if is_within(self.shared.options.gap, self.goal.incumbent, self._least):
                return False
            self._open(item, value)
        return True

    def _at_most(self, bound: int) -> int:
        """A bound, but no more than the incumbent."""
        return bound if self.goal.incumbent is None else min(bound, self.goal.incumbent)

    def _begin(self) -> None:
        """Queue all keep masks."""
        self._every = spatial_choices(self._frame)
        bounds = np.array([axis.bound for axis in self._frame.axes], dtype=np.int64)
        rounds = -(-bounds // self._every.product(0, len(self.space.levels)))
        self._steps: FloatArray = rounds.astype(np.float64).prod(axis=1)
        least = float(self._steps.min(initial=np.inf))
        for mask in heeding(self.shared.stop, self.space.keep_masks):
            own = Bounds(self._masked(Charges(self.space, mask)), self.goal, self._every, least)
            self._push(float(own.by_choice(self._steps).min()), _Mask(own))

    def evidence(self) -> Evidence:
        """What the bound rests on: for how many spatial choices of each keep mask paths had to be listed."""
        choices = math.prod(len(stage.places) for stage in self.space.stages)
        masks = ((mask, len(self._branched.get(mask, ()))) for mask in self.space.keep_masks)
        return Evidence(
            self.goal.objective,
            tuple(
                MaskEvidence(self.space.chains(mask), 0, by_lattice=choices - own, by_branching=own)
                for mask, own in masks
            ),
        )

    def _masked(self, charges: Charges) -> Masked:
        """The mappings with a mask; tables outside are shared by all masks that keep the same there."""
        m = self._frame.meeting
        tenants = tuple(self.space.tenants(charges.mask, level) for level in range(m + 1))
        key = tenants, tuple(charges.at(boundary) for boundary in range(1, m + 1))
        return Masked(self._frame, charges, self._outsides.setdefault(key, {}))

    def _bound(self, value: float) -> int:
        """A float bound as an integer that no mapping is below."""
        return self._at_most(int(min(value, 1e300)))

    def _settles(self, value: float) -> bool:
        incumbent = self.goal.incumbent
        return not np.isfinite(value) or (incumbent is not None and value >= float(incumbent))

    def _push(self, value: float, item: object) -> None:
        if not self._settles(value):
            heapq.heappush(self._queue, (value, next(self._ticket), item))

    def _open(self, item: object, value: float) -> None:
        """Part a region, or bound it closer."""
        match item:
            case _Mask():
                self._open_mask(item.bounds, value)
            case _Cell():
                self._open_cell(item, value)
            case _Rows():
                self._open_row(item, value)
            case _Paths():
                self._price(item)

    def _open_mask(self, bounds: Bounds, value: float) -> None:
        """Begin with all tiles at the first boundary inside, and the spatial choices that may improve."""
        tiles = bounds.masked.tiles
        choices = self._hopeful(bounds.by_choice(self._steps))
        if len(tiles) and len(choices):
            self._push_cell(bounds, choices, tiles, value)

    def _push_cell(self, bounds: Bounds, choices: IntArray, tiles: IntArray, value: float) -> None:
        """Queue the tiles that may improve with some of the spatial choices."""
        values = bounds.floors(tiles, self._every[choices], float(self._steps[choices].min()))
        self.shared.statistics.states += len(tiles)
        live = self._hopeful(values)
        if len(live):
            self._push(max(value, float(values[live].min())), _Cell(bounds, choices, tiles[live]))

    def _open_cell(self, item: _Cell, value: float) -> None:
        """Part the spatial choices in two, or bound all pairs once they are few."""
        if len(item.choices) == 1 or len(item.choices) * len(item.tiles) <= FEW_PAIRS:
            self._open_pairs(item, value)
            return
        for part in self._parted(item.choices):
            self._push_cell(item.bounds, part, item.tiles, value)

    def _parted(self, choices: IntArray) -> tuple[IntArray, IntArray]:
        """Two halves of some spatial choices, by the factor in which they differ most."""
        every = self._every[choices]
        factors = np.concatenate(every.factors, axis=1)
        spread = factors.max(axis=0) / factors.min(axis=0)
        column = factors[:, int(spread.argmax())]
        if spread.max() == 1:
            return choices[: len(choices) // 2], choices[len(choices) // 2 :]
        middle = math.sqrt(float(column.max()) * float(column.min()))
        return choices[column <= middle], choices[column > middle]

    def _hopeful(self, values: FloatArray) -> IntArray:
        """Which bounds leave room for a better mapping."""
        able: BoolArray = np.isfinite(values)
        if self.goal.incumbent is not None:
            able &= values < float(self.goal.incumbent)
        return np.flatnonzero(able)

    def _open_pairs(self, item: _Cell, value: float) -> None:
        """Bound pairs of tiles and spatial choices."""
        bounds, masked = item.bounds, item.bounds.masked
        choices = np.repeat(item.choices, len(item.tiles))
        tiles = np.tile(item.tiles, (len(item.choices), 1))
        self.shared.statistics.states += len(tiles)
        single = choices[:1] if (choices == choices[0]).all() else choices
        unrolled = Unrolled(self._frame, tuple(own[single] for own in self._every.members), len(choices))
        for leads in masked.labels():
            values, cycles = bounds.closely(tiles, unrolled, leads)
            rows = self._hopeful(values)
            rows = rows[np.argsort(values[rows], kind="stable")]
            if len(rows):
                own = _Rows(bounds, leads, tiles[rows], choices[rows], values[rows], cycles[rows])
                self._push(max(value, float(own.values[0])), own)
                self._dive(own)

    def _open_row(self, item: _Rows, value: float) -> None:
        """List the complete paths of a row: all that may improve, or while nothing is known the best ones."""
        place, masked = item.next, item.bounds.masked
        if item.slack == 0 and place + 1 < len(item.values):
            self._push(max(value, float(item.values[place + 1])), item._replace(next=place + 1))
        tiles, unrolled = item.tiles[place : place + 1], self._every[item.choices[place : place + 1]]
        cycles = np.array([float(item.cycles[place])])
        waiting = item.bounds.waiting(cycles, masked.steps(tiles, unrolled))
        fixed = masked.fixed(unrolled, waiting)
        limit = float((self.goal.energy_limits(cycles) - fixed)[0])
        self.shared.statistics.subproblems += 1
        self._branched.setdefault(masked.charges.mask, set()).add(int(item.choices[place]))
        if not np.isfinite(limit):
            known, none = {masked.inside.first: tiles}, np.array([np.inf])
            least = float(masked.cost(known, unrolled, item.leads, ENERGY, none)[0])
            if not np.isfinite(least):
                return
            limit = (least + 1) * SLACKS[item.slack]
            if np.isfinite(limit):
                rest = float(self.goal.values(fixed + limit, cycles)[0])
                again = item._replace(slack=item.slack + 1, done=limit)
                self._push(max(value, rest), again)
        branch = Branch(masked, tiles, unrolled, item.leads, ENERGY, limit, self.shared.stop)
        found = sorted((own for own in branch.paths() if own.cost >= item.done), key=lambda own: own.cost)
        energies = masked.charges.whole(fixed + np.array([own.cost for own in found]))
        each = np.repeat(cycles, len(found))
        live = item.bounds.live(np.arange(len(found)), energies, each)
        if len(live):
            values = np.maximum(self.goal.values(energies[live], each[live]), float(item.values[place]))
            paths = tuple(found[number] for number in live.tolist())
            self._push(max(value, float(values[0])), _Paths(paths, values, 0))

    def _dive(self, item: _Rows) -> None:
        """Price the best path of the best rows so far at once: a good incumbent leaves little to do."""
        if float(item.values[0]) >= self._lowest:
            return
        self._lowest = float(item.values[0])
        tiles, unrolled = item.tiles[:1], self._every[item.choices[:1]]
        masked, known = item.bounds.masked, {item.bounds.masked.inside.first: item.tiles[:1]}
        least = float(masked.cost(known, unrolled, item.leads, ENERGY, np.array([np.inf]))[0])
        for slack in SLACKS[:4] if np.isfinite(least) else ():
            branch = Branch(
                masked, tiles, unrolled, item.leads, ENERGY, (least + 1) * slack, self.shared.stop
            )
            found = min(islice(branch.paths(), FIRST_PATHS), key=lambda own: own.cost, default=None)
            if found is not None:
                self._improve([found.path])
                return

    def _price(self, item: _Paths) -> None:
        """Price the mappings of the next paths."""
        end = item.next + PATHS
        self._improve([own.path for own in item.found[item.next : end]])
        if end < len(item.found):
            self._push(float(item.values[end]), item._replace(next=end))

    def _improve(self, paths: list[Path]) -> None:
        """Price mappings, and keep a better one."""
        if self.shared.stop():
            raise Stopped
        better = self._leaves.improve(paths)
        self.shared.statistics.mappings_priced = self._leaves.priced
        if better is not None:
            self.best = better
            evaluation = better.evaluation
            self.goal.incumbent = self.goal.value(evaluation.energy, evaluation.cycles)
        if self.shared.stop():
            # Some of the mappings may not have been looked at.
            raise Stopped


def searches_paths(space: SearchSpace, goal: Goal, memory_bytes: int) -> bool:
    """Whether a goal is minimised along paths: remainders, exact counts, one place for each memory."""
    mapspace = space.mapspace
    if (
        not space.active
        or not space.uneven
        or mapspace.counting != EXACT
        or mapspace.joint
        or mapspace.rules
        or goal.limits
    ):
        return False
    if goal.objective not in ("energy", "edp"):
        return False
    choices = math.prod(len(stage.places) for stage in space.stages)
    tables = TABLES * 8 * space.lattice.size
    return choices <= MOST_CHOICES and len(space.keep_masks) <= MOST_MASKS and tables <= memory_bytes
