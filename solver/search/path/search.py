"""The search: a queue of regions by their bounds, from keep masks to single paths."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import NamedTuple, Protocol

import numpy as np

from model.mapspace import ACCELFORGE, TIMELOOP
from solver.result import Evidence, MaskEvidence, Phase, is_within
from solver.search.arrays import FloatArray, IntArray
from solver.search.branching.completion import Priced
from solver.search.goal import Goal
from solver.search.path.bounds import CLOSEST, TIED, Bounds
from solver.search.path.branch import Branch, Found
from solver.search.path.charges import ENERGY, Charge, Charges, Price
from solver.search.path.inside import Leads, Listed
from solver.search.path.leaves import Leaves, Path
from solver.search.path.masked import Masked, fewest_steps, spatial_choices
from solver.search.path.mixed import Mixed, mixes
from solver.search.path.tables import Frame, Outside
from solver.search.path.unrolled import Unrolled
from solver.search.shared import Shared
from solver.search.space.keep_masks import Chain, KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stopped, heeding
from solver.search.trivial import trivial_bound

FEW_PAIRS, MOST_PAIRS = 2_000, 32_000
"""Pairs of tiles and spatial choices that are bounded at first; and those up to which all of a cell are."""

MOST_CHOICES, MOST_MASKS = 1 << 20, 1 << 12
"""Combinations of spatial choices, and keep masks, up to which each is looked at."""

TABLES = 60
"""Tables over all numbers of tiles that are held at a time, about, as many doubles each."""

PATHS = 4
"""Paths that are priced together."""

FEW_ROWS = 4
"""Rows that are branched before the next ones are bounded by energy and loads together."""

FIRST_MASKS = 16
"""Keep masks that are opened at once, whatever else is open."""

TRIES = 8
"""Rows in which a first path is looked for."""

NEAR = 1.02
"""By how much paths may exceed the least of one price that are priced first."""


class _Mask(NamedTuple):
    """All mappings with a mask, and the stage in which they were bounded."""

    bounds: Bounds
    stage: int = 0


class _Cell(NamedTuple):
    """Some spatial choices under a mask, and the tiles inside that may go with any of them; with bounds."""

    bounds: Bounds
    choices: IntArray
    by_choice: FloatArray
    tiles: IntArray
    by_tile: FloatArray


class _Rows(NamedTuple):
    """Tiles with a spatial choice each, by rising bounds from `next` on.

    Bounds that are close to the incumbent were compared with the one that is `compared`.
    """

    bounds: Bounds
    leads: Leads
    tiles: IntArray
    choices: IntArray
    values: FloatArray
    cycles: FloatArray
    next: int = 0
    compared: int | None = None

    def only(self, rows: IntArray) -> _Rows:
        """Some of them."""
        return self._replace(
            tiles=self.tiles[rows],
            choices=self.choices[rows],
            values=self.values[rows],
            cycles=self.cycles[rows],
            next=0,
        )


class _Paths(NamedTuple):
    """Complete paths of a row of its own, by rising bounds; those that cost less than `done` were priced."""

    row: _Rows
    price: Price
    branch: Branch
    found: Iterator[Found]
    done: float = -math.inf


class _Mixed(NamedTuple):
    """Complete paths of a row of its own by rising bounds on a weighted sum of energy and cycles."""

    mixed: Mixed
    found: Iterator[Found]


class _Stream(NamedTuple):
    """Complete paths of one row, listed when they are priced, and how many times some were."""

    found: Iterator[Found]
    times: int


class Pricing(Protocol):
    """Prices complete paths; `priced` mappings so far."""

    priced: int

    def improve(self, paths: Sequence[Path]) -> Priced | None:
        """Return the best mapping of all these paths that improves on the incumbent, None if none does."""


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
    _queue: list[tuple[float, int, int, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.space = Frame(self.space).narrowed()
        self._frame = self._framed()
        self._every = spatial_choices(self._frame)
        self._ticket = count()
        self._in_vain = self._passed_over = 0
        self._branched: dict[KeepMask, set[int]] = {}
        self._outsides: dict[object, dict[Price, Outside]] = {}
        self._known_charges: dict[tuple[int, Chain], tuple[Charge, ...]] = {}
        self._leaves = self._pricing()

    def _framed(self) -> Frame:
        """Axes, and the tiles that fit."""
        return Frame(self.space)

    def _charges(self, mask: KeepMask) -> Charges:
        """What words cost under a mask."""
        return Charges(self.space, mask, self._known_charges)

    def _pricing(self) -> Pricing:
        """What prices complete paths."""
        return Leaves(self.space, self.goal, self.shared.stop)

    def _without_search(self) -> int:
        """A bound that is known at once."""
        return trivial_bound(self.space.mapspace, self.goal.objective)

    def _masks(self) -> Iterator[KeepMask]:
        """Keep masks that may have mappings."""
        return (m for m in self.space.keep_masks if self._frame.has_room(self.space.tenants(m, 0)))

    def run(self) -> int | None:
        """Search until the incumbent is proven, or stopped: the bound, None if there is no mapping."""
        if self.space.excluded or not len(self._every):
            return None
        self._least = self._without_search()
        with suppress(Stopped):
            self._begin()
            if self._queue:
                self._least = max(self._least, self._bound(self._queue[0][0]))
            self._open_first()
            if self._settled():
                return self.goal.incumbent
        return self._at_most(self._least)

    def _settled(self) -> bool:
        """Open regions by rising bounds; whether that ends with a proof, not at the gap that is asked for."""
        while self._queue:
            value, _, _, item = heapq.heappop(self._queue)
            if self._settles(value):
                return True
            self._least = max(self._least, self._bound(value))
            self.shared.report(Phase.LATTICE, self.goal, self._least)
            if is_within(self.shared.options.gap, self.goal.incumbent, self._least):
                return False
            self._open(item, value)
        return True

    def _keep(self, better: Priced) -> None:
        """Take a better mapping for the incumbent."""
        self.best = better
        self.goal.incumbent = self.goal.value(better.evaluation.energy, better.evaluation.cycles)

    def _at_most(self, bound: int) -> int:
        """A bound, but no more than the incumbent."""
        return bound if self.goal.incumbent is None else min(bound, self.goal.incumbent)

    def _begin(self) -> None:
        """Queue all keep masks."""
        self._steps = fewest_steps(self._every)
        least = float(self._steps.min(initial=np.inf))
        for mask in heeding(self.shared.stop, self._masks()):
            own = Bounds(self._masked(self._charges(mask)), self.goal, self._every, least)
            self._push(float(own.by_choice(self._steps, 0).min()), _Mask(own))

    def _open_first(self) -> None:
        """Open some masks at once: where bounds are loose, good mappings may be in later ones."""
        queue, self._queue = sorted(self._queue), []
        for number, (value, _, _, item) in enumerate(queue):
            if number < FIRST_MASKS and isinstance(item, _Mask) and not self._settles(value):
                self._open_mask(item._replace(stage=CLOSEST), value)
            else:
                self._push(value, item)

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
        frame, m = self._frame.under(charges.mask), self._frame.meeting
        tenants = tuple(self.space.tenants(charges.mask, level) for level in range(m + 1))
        key = frame.idle, tenants, tuple(charges.at(boundary) for boundary in range(1, m + 1))
        return Masked(frame, charges, self._outsides.setdefault(key, {}))

    def _bound(self, value: float) -> int:
        """A float bound as an integer that no mapping is below."""
        # Large doubles may have been rounded up.
        return self._at_most(int(min(value if value < 2.0**53 else math.nextafter(value, 0.0), 1e300)))

    def _settles(self, value: float) -> bool:
        incumbent = self.goal.incumbent
        return not np.isfinite(value) or (incumbent is not None and value >= float(incumbent))

    def _push(self, value: float, item: object) -> None:
        if not self._settles(value):
            heapq.heappush(self._queue, (value, _rank(item), next(self._ticket), item))

    def _open(self, item: object, value: float) -> None:
        """Part a region, or bound it closer."""
        match item:
            case _Mask():
                self._open_mask(item, value)
            case _Cell():
                self._open_cell(item, value)
            case _Rows():
                self._open_row(item, value)
            case _Paths():
                self._price(item, value)
            case _Mixed():
                self._price_mixed(item, value)
            case _Stream():
                self._price_some(item, value)

    def _open_mask(self, item: _Mask, value: float) -> None:
        """Begin with all tiles at the first boundary inside, and the spatial choices that may improve."""
        bounds = item.bounds
        values = bounds.by_choice(self._steps, min(item.stage + 1, CLOSEST))
        if item.stage < CLOSEST:
            self._push(max(value, float(values.min())), _Mask(bounds, item.stage + 1))
            return
        tiles = bounds.masked.tiles
        choices = self._hopeful(values)
        choices = choices[np.argsort(values[choices], kind="stable")]
        if not len(tiles) or not len(choices):
            return
        few = max(1, FEW_PAIRS // len(tiles))
        self._dive_from(bounds, choices[:few], value)
        choices = choices[few:]
        if len(choices):
            values = bounds.by_choice(self._steps, CLOSEST)
            self._push_cell(_Cell(bounds, choices, values[choices], tiles, np.zeros(len(tiles))), value)

    def _dive_from(self, bounds: Bounds, choices: IntArray, value: float) -> None:
        """Price a path with some spatial choices: a good incumbent leaves little of all others."""
        tiles, choices = self._paired(choices, bounds.masked.tiles)
        unrolled = self._unrolled(choices)
        least: FloatArray = np.full(len(tiles), np.inf)
        best: list[_Rows] = []
        for leads in bounds.masked.labels():
            values, cycles = bounds.roughly(tiles, unrolled, leads)
            least = np.minimum(least, values)
            every = _Rows(bounds, leads, tiles, choices, values, cycles)
            best += [every.only(np.array([row])) for row in np.argsort(values, kind="stable")[:TRIES]]
        best.sort(key=lambda row: float(row.values[0]))
        for row in best[: TRIES if self.goal.incumbent is None else 1]:
            if len(self._hopeful(row.values)):
                self._dive(row)
            if self.goal.incumbent is not None:
                break
        live = self._hopeful(least)
        if len(live):
            self._open_pairs(bounds, tiles[live], choices[live], value)

    def _paired(self, choices: IntArray, tiles: IntArray) -> tuple[IntArray, IntArray]:
        """All pairs of tiles and spatial choices."""
        return np.tile(tiles, (len(choices), 1)), np.repeat(choices, len(tiles))

    def _unrolled(self, choices: IntArray) -> Unrolled:
        """One spatial choice a row."""
        first = int(choices[0])
        return self._every.repeated(first, len(choices)) if (choices == first).all() else self._every[choices]

    def _push_cell(self, cell: _Cell, value: float) -> None:
        """Queue the tiles that may improve with some of the spatial choices."""
        cell = self._still(cell)
        if not len(cell.choices) or not len(cell.tiles):
            return
        every = self._every[cell.choices]
        steps = cell.bounds.masked.charges.steps(self._steps[cell.choices], every)
        values = cell.bounds.floors(cell.tiles, every, float(steps.min()))
        self.shared.statistics.states += len(values)
        cell = self._still(cell._replace(by_tile=np.maximum(values, cell.by_tile)))
        if len(cell.tiles):
            self._push(max(value, float(cell.by_tile.min())), cell)

    def _still(self, cell: _Cell) -> _Cell:
        """What of a cell may improve on the incumbent."""
        choices, tiles = self._hopeful(cell.by_choice), self._hopeful(cell.by_tile)
        return cell._replace(
            choices=cell.choices[choices],
            by_choice=cell.by_choice[choices],
            tiles=cell.tiles[tiles],
            by_tile=cell.by_tile[tiles],
        )

    def _open_cell(self, item: _Cell, value: float) -> None:
        """Part the spatial choices in two, or bound all pairs once they are few."""
        cell = self._still(item)
        pairs = len(cell.choices) * len(cell.tiles)
        if len(cell.choices) > 1 and pairs > MOST_PAIRS:
            for part in self._parted(cell.choices):
                own = cell._replace(choices=cell.choices[part], by_choice=cell.by_choice[part])
                self._push_cell(own, value)
        elif pairs:
            self._open_pairs(cell.bounds, *self._paired(cell.choices, cell.tiles), value)

    def _parted(self, choices: IntArray) -> tuple[IntArray, IntArray]:
        """Places of two halves of some spatial choices, by the factor in which they differ most."""
        every = self._every[choices]
        factors = np.concatenate(every.factors, axis=1)
        spread = factors.max(axis=0) / factors.min(axis=0)
        column = factors[:, int(spread.argmax())]
        if spread.max() == 1:
            places = np.arange(len(choices))
            return places[: len(choices) // 2], places[len(choices) // 2 :]
        middle = math.sqrt(float(column.max()) * float(column.min()))
        return np.flatnonzero(column <= middle), np.flatnonzero(column > middle)

    def _hopeful(self, values: FloatArray) -> IntArray:
        """Which bounds leave room for a better mapping."""
        return np.flatnonzero(self.goal.below(values))

    def _open_pairs(self, bounds: Bounds, tiles: IntArray, choices: IntArray, value: float) -> None:
        """Bound pairs of tiles and spatial choices."""
        unrolled = self._unrolled(choices)
        self.shared.statistics.states += len(tiles)
        for leads in bounds.masked.labels():
            values, cycles = bounds.closely(tiles, unrolled, leads)
            rows = self._hopeful(values)
            rows = rows[np.argsort(values[rows], kind="stable")]
            if not len(rows):
                continue
            own = _Rows(bounds, leads, tiles[rows], choices[rows], values[rows], cycles[rows])
            least = float(own.values[0])
            self._push(max(value, least), own)
            if self.goal.incumbent is None or least * NEAR < self.goal.incumbent:
                self._dive(own)

    def _open_row(self, item: _Rows, value: float) -> None:
        """Look for the complete paths of the first row, the best ones first."""
        place = item.next
        if self._is_near(item.bounds, item.values[place]) and item.compared != self.goal.incumbent:
            self._compare(item, value)
            return
        if place + 1 < len(item.values):
            self._push(max(value, float(item.values[place + 1])), item._replace(next=place + 1))
        self.shared.statistics.subproblems += 1
        if self.goal.objective == "latency":
            self._push(value, self._stream(item))
            return
        self._branched.setdefault(item.bounds.masked.charges.mask, set()).add(int(item.choices[place]))
        value, row = max(value, float(item.values[place])), item.only(np.array([place]))
        closer = self._closer(row) if self.shared.statistics.subproblems > FEW_ROWS else None
        if closer is None:
            self._push(value, self._paths(row, value))
        else:
            self._push(max(value, closer[0]), closer[1])

    def _closer(self, row: _Rows) -> tuple[float, _Mixed] | None:
        """A bound on a row by energy and a load together, where that is higher, and its paths."""
        if self.goal.incumbent is None or self.goal.limits:
            return None
        bounds, unrolled, incumbent = row.bounds, self._every[row.choices], float(self.goal.incumbent)
        listed = Listed({bounds.masked.inside.first: row.tiles}, unrolled, row.leads)
        found = []
        for mixed in mixes(bounds, listed, float(row.cycles[0])):
            cost = bounds.masked.cost(listed, mixed.price, np.array([mixed.limit(incumbent)]))
            found.append((mixed.value(float(cost[0])), mixed))
        if not found:
            return None
        value, best = max(found, key=lambda own: own[0])
        if value <= float(row.values[0]):
            return None
        limit, tiles = best.limit(incumbent), row.tiles
        branch = Branch(bounds.masked, tiles, unrolled, row.leads, best.price, limit, self.shared.stop)
        return value, _Mixed(best, branch.paths())

    def _price_mixed(self, item: _Mixed, value: float) -> None:
        """Price the mappings of the next paths."""
        paths: list[Path] = []
        for own in item.found:
            value = max(value, item.mixed.value(own.cost))
            if self._settles(value):
                break
            paths.append(own.path)
            if len(paths) == PATHS:
                self._push(value, item)
                break
        self._improve(paths)

    def _is_near(self, bounds: Bounds, value: float) -> bool:
        """Whether a bound is close to the incumbent."""
        return len(bounds.near(np.array([value]))) > 0

    def _paths(self, row: _Rows, value: float, done: float = -math.inf) -> _Paths:
        """The complete paths of a row."""
        masked = row.bounds.masked
        price = masked.charges.fine if self._is_near(row.bounds, value) else ENERGY
        unrolled = self._every[row.choices]
        fixed = self._fixed(row)
        limit = float((self.goal.energy_limits(row.cycles) - fixed)[0]) / price.unit
        branch = Branch(masked, row.tiles, unrolled, row.leads, price, limit, self.shared.stop)
        return _Paths(row, price, branch, branch.paths(), done)

    def _fixed(self, row: _Rows) -> FloatArray:
        """Energy of a row besides that of words."""
        masked, unrolled = row.bounds.masked, self._every[row.choices]
        waiting = row.bounds.waiting(row.cycles, masked.steps(row.tiles, unrolled))
        return masked.fixed(unrolled, waiting, row.tiles)

    def _compare(self, item: _Rows, value: float) -> None:
        """Keep those of the rows that may improve on the incumbent though they are close to it."""
        rows = np.arange(item.next, len(item.values))
        able = item.bounds.still(
            item.tiles[rows], self._every[item.choices[rows]], item.leads, item.cycles[rows]
        )
        rows = rows[able & self.goal.below(item.values[rows])]
        if len(rows):
            again = item.only(rows)._replace(compared=self.goal.incumbent)
            self._push(max(value, float(again.values[0])), again)

    def _stream(self, item: _Rows) -> _Stream:
        """The paths of the next row that may improve: good ones first, and then all of them.

        Most of those that improve are as good as the row's bound, so that one of them is enough.
        """
        return _Stream(self._by_loads(item), 0)

    def _by_loads(self, item: _Rows) -> Iterator[Found]:
        """The same: the best by each price, and those by the price that takes the most of its limit."""
        place, bounds = item.next, item.bounds
        masked, tiles = bounds.masked, item.tiles[place : place + 1]
        unrolled, cycles = self._every[item.choices[place : place + 1]], float(item.cycles[place])
        fixed = self._fixed(item.only(np.array([place])))
        listed, none = Listed({masked.inside.first: tiles}, unrolled, item.leads), np.array([np.inf])
        branches = []
        for price, limit in bounds.prices(float(fixed[0]), cycles):
            least = float(masked.cost(listed, price, none)[0])
            if least >= limit:
                return
            branch = Branch(masked, tiles, unrolled, item.leads, price, limit, self.shared.stop)
            branches.append((least / limit, least, branch))
        _, least, last = branches[-1]
        near = replace(last, limit=min(last.limit, least * NEAR + 1))
        yield from islice(near.paths(), PATHS)
        yield from max(branches, key=lambda own: own[0])[2].paths()

    def _price_some(self, item: _Stream, value: float) -> None:
        """Price the next paths of a row, each time twice as many."""
        some = [own.path for own in islice(item.found, PATHS << item.times)]
        if some:
            self._improve(some)
            self._push(value, item._replace(times=item.times + 1))

    def _dive(self, item: _Rows) -> None:
        """Price a path of the best row so far at once: a good incumbent leaves little to do.

        The more of these were in vain, one after the other, the rarer they get.
        """
        if self._passed_over < self._in_vain:
            self._passed_over += 1
            return
        incumbent = self.goal.incumbent
        self._follow_best(item)
        self._passed_over = 0
        self._in_vain = self._in_vain + 1 if incumbent == self.goal.incumbent else 0

    def _follow_best(self, item: _Rows) -> None:
        """Price a path of the best of some rows."""
        if self.goal.objective == "latency":
            self._improve([own.path for own in islice(self._stream(item).found, 1)])
            return
        best = self._paths(item.only(np.zeros(1, dtype=np.int64)), float(item.values[0])).branch.first()
        if best is not None:
            self._improve([best.path])

    def _price(self, item: _Paths, value: float) -> None:
        """Price the mappings of the next paths."""
        row, masked = item.row, item.row.bounds.masked
        if item.price == ENERGY and self._is_near(row.bounds, value):
            # What was priced may seem to cost a little more or less now.
            again = self._paths(row, value, item.done * TIED / masked.charges.fine.unit)
            self._push(value, again)
            return
        fixed, paths = self._fixed(row), []
        for own in item.found:
            energy = masked.charges.whole(fixed + own.cost * item.price.unit)
            value = max(value, float(self.goal.values(energy, row.cycles)[0]))
            if self._settles(value) or not self._may_improve(item, own.cost, energy):
                # Paths that follow cost no less.
                break
            if own.cost < item.done:
                continue
            paths.append(own.path)
            if len(paths) == PATHS:
                self._push(value, item._replace(done=own.cost))
                break
        self._improve(paths)

    def _may_improve(self, item: _Paths, cost: float, energy: FloatArray) -> bool:
        """Whether a path may improve on the incumbent, as exactly as its price tells."""
        row = item.row
        if item.price == ENERGY:
            return len(row.bounds.live(np.zeros(1, dtype=np.int64), energy, row.cycles)) > 0
        words = np.array([cost], item.price.dtype)
        unrolled = self._every[row.choices]
        steps = row.bounds.masked.steps(row.tiles, unrolled)
        return bool(row.bounds.improves(unrolled, words, row.cycles, steps, row.tiles)[0])

    def _improve(self, paths: list[Path]) -> None:
        """Price mappings, and keep a better one."""
        if self.shared.stop():
            raise Stopped
        better = self._leaves.improve(paths)
        self.shared.statistics.mappings_priced = self._leaves.priced
        if better is not None:
            self._keep(better)
        if self.shared.stop():
            # Some of the mappings may not have been looked at.
            raise Stopped


def _rank(item: object) -> int:
    """Which of several regions with the same bound comes first: what is known closer."""
    match item:
        case _Stream():
            return item.times
        case _Paths() | _Mixed():
            return 0
        case _Rows():
            return 1
        case _Mask():
            return 2 + CLOSEST - item.stage
    return 2


def searches_paths(space: SearchSpace, goal: Goal, memory_bytes: int) -> bool:
    """Whether a goal is minimised along paths.

    With one place for each memory by Timeloop's rule, or with remainders; and always by AccelForge's rule.
    """
    mapspace = space.mapspace
    alone = not mapspace.joint and (space.uneven or mapspace.counting == TIMELOOP)
    if not space.active or not (alone or mapspace.counting == ACCELFORGE):
        return False
    choices = math.prod(len(stage.places) for stage in space.stages)
    tables = TABLES * 8 * space.lattice.size
    return choices <= MOST_CHOICES and len(space.keep_masks) <= MOST_MASKS and tables <= memory_bytes
