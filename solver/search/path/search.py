"""The search: a queue of regions by rising bounds, from keep masks to single paths."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice
from typing import NamedTuple

import numpy as np

from solver.result import Evidence, MaskEvidence, Phase, is_within
from solver.search.arrays import FloatArray, IntArray
from solver.search.goal import Goal
from solver.search.path.bounds import CLOSEST, TIED, Bounds
from solver.search.path.branch import Branch, FoundPath
from solver.search.path.charges import ENERGY, Charge, Charges, Price
from solver.search.path.frame import TileFrame, bytes_beside
from solver.search.path.leaves import Leaves, TilePath
from solver.search.path.listed import Listed
from solver.search.path.masked import Masked, fewest_steps, supported_choices
from solver.search.path.outside import Outside
from solver.search.path.unrolled import Unrolled
from solver.search.path.worth import RowWorth
from solver.search.priced import Priced
from solver.search.shared import Shared
from solver.search.space.keep_masks import Chain, KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stopped, heeding
from solver.search.trivial import trivial_bound

FEW_PAIRS, MOST_PAIRS = 2_000, 32_000
"""Pairs of tiles and spatial choices that are bounded at first, and up to which all of a cell are."""

HELD_SHARE = 0.6
"""Of the memory, what tables outside take at most."""

FIRST_TRIED = 16
"""Keep masks that are opened at once, whatever else is open, and rows in which a first path is looked for."""


class _Unseen(NamedTuple):
    """All mappings with a mask of which no table is made yet."""

    mask: KeepMask


class _Mask(NamedTuple):
    """All mappings with a mask, and the stage in which they were bounded."""

    bounds: Bounds
    stage: int = 0


class _Cell(NamedTuple):
    """Some spatial choices under a mask, and the tiles inside that may go with any of them; with bounds.

    So many `pairs` are bounded next.
    """

    bounds: Bounds
    choices: IntArray
    by_choice: FloatArray
    tiles: IntArray
    by_tile: FloatArray
    pairs: int = FEW_PAIRS

    def only(self, places: IntArray) -> _Cell:
        """Some of the spatial choices."""
        return self._replace(choices=self.choices[places], by_choice=self.by_choice[places])


class _Pairs(NamedTuple):
    """Tiles with a spatial choice each, and steps of the arithmetic."""

    bounds: Bounds
    tiles: IntArray
    choices: IntArray
    steps: FloatArray

    def only(self, rows: IntArray) -> _Pairs:
        """Some of them."""
        return _Pairs(self.bounds, self.tiles[rows], self.choices[rows], self.steps[rows])


class _Led(NamedTuple):
    """Pairs, with leads of the slots inside."""

    pairs: _Pairs
    listed: Listed

    def only(self, rows: IntArray) -> _Led:
        """Some of them."""
        return _Led(self.pairs.only(rows), self.listed[rows])

    def bounded(self, values: FloatArray, cycles: FloatArray) -> _QueuedRows:
        """The rows, with bounds."""
        pairs = self.pairs
        return _QueuedRows(pairs.bounds, self.listed.labels.own, pairs.tiles, pairs.choices, values, cycles)


class _QueuedRows(NamedTuple):
    """Tiles with a spatial choice and leads each, by rising bounds from `next` on.

    Bounds that are close to the incumbent were compared with the one that is `compared`.
    """

    bounds: Bounds
    labels: IntArray
    tiles: IntArray
    choices: IntArray
    values: FloatArray
    cycles: FloatArray
    next: int = 0
    compared: int | None = None

    @property
    def first(self) -> tuple[object, ...]:
        """What tells the first row from all others."""
        mask = self.bounds.masked.charges.mask
        return mask, int(self.labels[0]), self.tiles[0].tobytes(), int(self.choices[0])

    def only(self, rows: IntArray) -> _QueuedRows:
        """Some of them."""
        return self._replace(
            labels=self.labels[rows],
            tiles=self.tiles[rows],
            choices=self.choices[rows],
            values=self.values[rows],
            cycles=self.cycles[rows],
            next=0,
        )


class _Paths(NamedTuple):
    """Complete paths of a row of its own, by rising values; those below `done` were priced.

    So many `times` some were priced together, each time twice as many.
    """

    row: _QueuedRows
    branch: Branch
    found: Iterator[FoundPath]
    finely: bool
    done: float = -math.inf
    times: int = 0


@dataclass
class EinsumSearch:
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
    _aside: list[tuple[float, int, int, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.space = TileFrame(self.space).narrowed()
        self._frame = self._framed()
        limit = self.shared.options.memory_limit_mib << 20
        self._frame.held.most_bytes = max(0, min(int(HELD_SHARE * limit), limit - bytes_beside(self.space)))
        self._every = supported_choices(self._frame)
        self._ticket = count()
        self._in_vain = self._passed_over = 0
        self._dived: set[object] = set()
        self._branched: dict[KeepMask, set[int]] = {}
        self._outsides: dict[object, dict[Price, Outside]] = {}
        self._known_charges: dict[tuple[int, Chain], tuple[Charge, ...]] = {}
        self._served: dict[tuple[object, ...], float] = {}
        self._leaves = self._pricing()

    def _framed(self) -> TileFrame:
        """Axes, and the tiles that fit."""
        return TileFrame(self.space)

    def _charges(self, mask: KeepMask) -> Charges:
        """What words cost under a mask."""
        return Charges(self.space, mask, self._known_charges)

    def _pricing(self) -> Leaves:
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
        self.shared.report(Phase.SURVEY, self.goal, None)
        with suppress(Stopped):
            if not self.space.active:
                self._improve([self._without_loops(mask) for mask in self._masks()])
                return self.goal.incumbent
            self._begin()
            self._open_first()
            if self._settled():
                return self.goal.incumbent
        return self._at_most(self._least)

    def least(self) -> float:
        """The objective of all mappings, at least, as far as tables tell; infinite if there are none."""
        if self.space.excluded or not len(self._every):
            return math.inf
        if not self.space.active:
            return float(self._without_search())
        self._begin()
        found = (
            max(value, float(self._bounds(item.mask).by_choice(self._steps, CLOSEST).min()))
            for value, _, _, item in self._queue
            if isinstance(item, _Unseen)
        )
        return min(found, default=math.inf)

    def _without_loops(self, mask: KeepMask) -> TilePath:
        """The path where every dimension has one iteration."""
        none: tuple[int, ...] = ()
        spatial = tuple(stage.member(0) for stage in self.space.stages)
        return TilePath(mask, (none,) * len(spatial), spatial, (None,) * (len(spatial) - 1))

    def _settled(self) -> bool:
        """Open regions by rising bounds; whether that ends with a proof, not at the gap that is asked for."""
        while self._queue:
            value, _, _, item = heapq.heappop(self._queue)
            if self._settles(value):
                return True
            self._least = max(self._least, self._bound(value))
            self.shared.report(Phase.PATHS, self.goal, self._least)
            if is_within(self.shared.options.gap, self.goal.incumbent, self._least):
                return False
            self._open(item, value)
            better = self.shared.partner.exchange(self.goal, self.best)
            if better is not None:
                self._keep(better)
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
        masks = list(heeding(self.shared.stop, self._masks()))
        for mask, value in zip(masks, self._floors(masks), strict=True):
            self._push(value, _Unseen(mask))

    def _floors(self, masks: Sequence[KeepMask]) -> list[float]:
        """Bounds on all keep masks at once: each dataspace is served by the cheapest spatial choice."""
        if not masks:
            return []
        first = self._bounds(masks[0])
        fixed, cycles = first.without_words(self._steps)
        words = np.array([self._least_words(mask) for mask in heeding(self.shared.stop, masks)])
        energy = first.masked.charges.whole(words + fixed)
        return list(map(float, first.values(energy, np.full(len(masks), cycles))))

    def _least_words(self, mask: KeepMask) -> float:
        """What words cost under a mask, at least."""
        total, own = 0.0, self._charges(mask)
        for view in self.space.views if self.goal.counts_energy else ():
            key = own.depend_on(view.place)
            if key not in self._served:
                served = self._masked(own).floor(view.place, self._every, ENERGY, with_tables=False)
                self._served[key] = float(served.min(initial=np.inf))
            total += self._served[key]
        return total - float(np.max(own.saved_by_rounding(self._every)))

    def _bounds(self, mask: KeepMask) -> Bounds:
        """Bounds on the mappings with a mask."""
        least = float(self._steps.min(initial=np.inf))
        masked = self._masked(self._charges(mask))
        return Bounds(masked, self.goal, self._every, least, frozenset(self._leaves.overloaded))

    def _heeding_loads(self, bounds: Bounds) -> Bounds:
        """These with the loads of all resources that were seen to matter."""
        overloaded = bounds.overloaded.union(self._leaves.overloaded)
        return bounds if overloaded == bounds.overloaded else replace(bounds, overloaded=overloaded)

    def _open_first(self) -> None:
        """Open some masks at once: where bounds are loose, good mappings may be in later ones."""
        opened = 0
        while self._queue and opened < FIRST_TRIED:
            value, rank, ticket, item = heapq.heappop(self._queue)
            self._rise(value)
            self.shared.report(Phase.PATHS, self.goal, self._least)
            if self._settles(value):
                break
            match item:
                case _Unseen():
                    self._open(item, value)
                case _Mask():
                    opened += 1
                    self._open_mask(item._replace(stage=CLOSEST), value)
                case _:
                    self._aside.append((value, rank, ticket, item))
        for own in self._aside:
            heapq.heappush(self._queue, own)
        self._aside.clear()

    def _rise(self, value: float) -> None:
        """Note the least bound of all regions, of which the one at hand is no better than a value."""
        others = (own[0][0] for own in (self._queue, self._aside) if own)
        if math.isfinite(least := min((value, *others))):
            self._least = max(self._least, self._bound(least))

    def evidence(self) -> Evidence:
        """What the bound rests on: for how many spatial choices of each keep mask paths had to be listed."""
        choices = self.space.spatial_choices
        masks = ((mask, len(self._branched.get(mask, ()))) for mask in self.space.keep_masks)
        return Evidence(
            self.goal.objective,
            tuple(
                MaskEvidence(self.space.chains(mask), by_bounds=choices - own, by_listing=own)
                for mask, own in masks
            ),
        )

    def _masked(self, charges: Charges) -> Masked:
        """The mappings with a mask; tables outside are shared by all masks that keep the same there."""
        frame, m = self._frame.under(charges.mask), self._frame.meeting
        tenants = tuple(self.space.tenants(charges.mask, level) for level in range(m + 1))
        key = frame.left_out(m), tenants, tuple(charges.at(boundary) for boundary in range(1, m + 1))
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
            case _Unseen():
                bounds = self._bounds(item.mask)
                self._push(max(value, float(bounds.by_choice(self._steps, 0).min())), _Mask(bounds))
            case _Mask():
                self._open_mask(item._replace(bounds=self._heeding_loads(item.bounds)), value)
            case _Cell():
                self._open_cell(item._replace(bounds=self._heeding_loads(item.bounds)), value)
            case _QueuedRows():
                self._open_row(item, value)
            case _Paths():
                self._price(item, value)

    def _open_mask(self, item: _Mask, value: float) -> None:
        """Begin with all tiles at the first boundary inside, and the spatial choices that may improve."""
        bounds = item.bounds
        values = bounds.by_choice(self._steps, min(item.stage + 1, CLOSEST))
        if item.stage < CLOSEST:
            self._push(max(value, float(values.min())), _Mask(bounds, item.stage + 1))
            return
        # What follows may take longer than there is time.
        self._rise(max(value, float(values.min())))
        choices = self._hopeful(values)
        choices = choices[np.argsort(values[choices], kind="stable")]
        tiles = bounds.masked.tiles
        cell = _Cell(bounds, choices, values[choices], tiles, np.zeros(len(tiles)))
        if self.goal.incumbent is not None:
            cell = self._bounded(cell)
        if not len(cell.tiles) or not len(cell.choices):
            return
        few = max(1, cell.pairs // len(cell.tiles))
        self._dive_from(bounds, cell.choices[:few], cell.tiles, value)
        rest = cell.choices[few:]
        if len(rest):
            values = bounds.by_choice(self._steps, CLOSEST)
            self._push_cell(cell._replace(choices=rest, by_choice=values[rest]), value)

    def _dive_from(self, bounds: Bounds, choices: IntArray, tiles: IntArray, value: float) -> None:
        """Price a path with some spatial choices: a good incumbent leaves little of all others."""
        pairs = self._paired(bounds, choices, tiles)
        if not self.goal.counts_energy:
            self._open_pairs(pairs, value)
            return
        self.shared.statistics.states += len(pairs.choices)
        every = list(self._with_all_leads(pairs))
        for own in self._with_first(every) if self.goal.incumbent is None else every:
            self._open_led(own, value)

    def _with_first(self, every: Sequence[_Led]) -> list[_Led]:
        """Price a path of the best of some pairs that has one; those that may improve on it."""
        pairs = [(own, own.pairs.bounds.closely(own.listed, own.pairs.steps)) for own in every]
        best = [
            own.bounded(found.values, found.cycles).only(np.array([row]))
            for own, found in pairs
            for row in np.argsort(found.values, kind="stable")[:FIRST_TRIED]
        ]
        best.sort(key=lambda row: float(row.values[0]))
        for row in best[:FIRST_TRIED]:
            if len(self._hopeful(row.values)):
                self._dive(row)
            if self.goal.incumbent is not None:
                break
        return [own.only(self._hopeful(found.values)) for own, found in pairs]

    def _paired(self, bounds: Bounds, choices: IntArray, tiles: IntArray) -> _Pairs:
        """Pairs of some tiles and spatial choices that have mappings and may improve."""
        if not bounds.has_pairs:
            tiles, choices = np.tile(tiles, (len(choices), 1)), np.repeat(choices, len(tiles))
        else:
            rows, own = bounds.by_pair(tiles, choices, self._steps[choices]).able
            tiles, choices = tiles[rows], choices[own]
        steps = bounds.masked.steps(tiles, self._unrolled(choices))
        return _Pairs(bounds, tiles, choices, steps).only(np.flatnonzero(np.isfinite(steps)))

    def _with_all_leads(self, pairs: _Pairs) -> Iterator[_Led]:
        """Yield some pairs with all leads of the slots inside."""
        masked, number = pairs.bounds.masked, len(pairs.choices)
        for labels in masked.parted(number) if number else ():
            some = pairs.only(np.tile(np.arange(number), len(labels)))
            own = np.repeat(labels, number)
            yield _Led(some, masked.listed(some.tiles, self._unrolled(some.choices), own))

    def _unrolled(self, choices: IntArray) -> Unrolled:
        """One spatial choice a row."""
        first = int(choices[0]) if len(choices) else 0
        return self._every.repeated(first, len(choices)) if (choices == first).all() else self._every[choices]

    def _push_cell(self, cell: _Cell, value: float) -> None:
        """Queue the tiles that may improve with some of the spatial choices."""
        cell = self._bounded(cell)
        if len(cell.tiles) and len(cell.choices):
            self._push(max(value, float(cell.by_tile.min()), float(cell.by_choice.min())), cell)

    def _bounded(self, cell: _Cell) -> _Cell:
        """The tiles of a cell that may improve with some of its spatial choices."""
        cell = self._by_pair(self._may_improve(cell))
        if self._number_of_pairs(cell) <= (MOST_PAIRS if cell.bounds.has_pairs else FEW_PAIRS):
            return cell
        every = self._every[cell.choices]
        steps = cell.bounds.masked.charges.steps(self._steps[cell.choices], every)
        values = cell.bounds.floors(cell.tiles, every, float(steps.min()))
        self.shared.statistics.states += len(values)
        return self._may_improve(cell._replace(by_tile=np.maximum(values, cell.by_tile)))

    def _number_of_pairs(self, cell: _Cell) -> int:
        """Pairs of a cell that may improve, at most."""
        pairs = len(cell.choices) * len(cell.tiles)
        if not 0 < pairs <= MOST_PAIRS or not cell.bounds.has_pairs:
            return pairs
        return len(cell.bounds.by_pair(cell.tiles, cell.choices, self._steps[cell.choices]).able[0])

    def _by_pair(self, cell: _Cell) -> _Cell:
        """A cell whose choices and tiles are bounded by what windows take in any pair of them."""
        if not 0 < len(cell.choices) * len(cell.tiles) <= MOST_PAIRS or not cell.bounds.has_pairs:
            return cell
        pairs = cell.bounds.by_pair(cell.tiles, cell.choices, self._steps[cell.choices])
        by_choice = np.maximum(cell.by_choice, pairs.by_choice)
        return self._may_improve(
            cell._replace(by_choice=by_choice, by_tile=np.maximum(cell.by_tile, pairs.by_tile))
        )

    def _may_improve(self, cell: _Cell) -> _Cell:
        """What of a cell may improve on the incumbent."""
        choices, tiles = self._hopeful(cell.by_choice), self._hopeful(cell.by_tile)
        return cell._replace(
            choices=cell.choices[choices],
            by_choice=cell.by_choice[choices],
            tiles=cell.tiles[tiles],
            by_tile=cell.by_tile[tiles],
        )

    def _open_cell(self, item: _Cell, value: float) -> None:
        """Bound all pairs once they are few; else part the spatial choices in two, or take the best ones."""
        cell = self._may_improve(item)
        pairs = self._number_of_pairs(cell)
        if not pairs:
            return
        is_large, few = len(cell.choices) > 1 and pairs > MOST_PAIRS, len(cell.choices)
        if is_large and cell.by_choice.min() <= cell.by_tile.min():
            for part in self._parted(cell.choices):
                self._push_cell(cell.only(part), value)
            return
        if is_large:
            # The choice says more than the tiles.
            few = max(1, cell.pairs // len(cell.tiles))
        order = np.argsort(cell.by_choice, kind="stable")
        self._open_pairs(self._paired(cell.bounds, cell.choices[order[:few]], cell.tiles), value)
        rest = self._may_improve(cell.only(order[few:]))._replace(pairs=min(2 * cell.pairs, MOST_PAIRS))
        if len(rest.choices) and len(rest.tiles):
            self._push(max(value, float(rest.by_choice.min())), rest)

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

    def _open_pairs(self, pairs: _Pairs, value: float) -> None:
        """Bound pairs of tiles and spatial choices, and queue those that may improve, by rising bounds."""
        bounds = pairs.bounds
        self.shared.statistics.states += len(pairs.choices)
        if not len(pairs.choices):
            return
        rows = bounds.with_any_leads(pairs.tiles, self._unrolled(pairs.choices), pairs.steps)
        for own in self._with_all_leads(pairs.only(rows)):
            self._open_led(own, value)

    def _open_led(self, item: _Led, value: float) -> None:
        """Queue those of some pairs that may improve with their leads."""
        values, cycles, loads = item.pairs.bounds.closely(item.listed, item.pairs.steps)
        rows = self._hopeful(values)
        if not len(rows):
            return
        rows = rows[np.lexsort((loads[rows], values[rows]))]
        own = item.bounded(values, cycles).only(rows)
        least = float(own.values[0])
        self._push(max(value, least), own)
        self._dive(own)

    def _open_row(self, item: _QueuedRows, value: float) -> None:
        """Look for the complete paths of the first row, the best ones first."""
        place, bounds = item.next, self._heeding_loads(item.bounds)
        if bounds is not item.bounds:
            rest = item.only(np.arange(place, len(item.values)))
            listed = self._listed(rest)
            steps = bounds.masked.steps(rest.tiles, listed.unrolled)
            self._open_led(_Led(_Pairs(bounds, rest.tiles, rest.choices, steps), listed), value)
            return
        if self._is_to_compare(item, item.values[place]):
            rest = item.only(np.arange(place, len(item.values)))
            again = self._compared(rest, self._listed(rest))
            if len(again.values):
                self._push(max(value, float(again.values[0])), again)
            return
        if place + 1 < len(item.values):
            self._push(max(value, float(item.values[place + 1])), item._replace(next=place + 1))
        self.shared.statistics.listed += 1
        self._branched.setdefault(item.bounds.masked.charges.mask, set()).add(int(item.choices[place]))
        value = max(value, float(item.values[place]))
        self._push(value, self._paths(item.only(np.array([place])), value))

    def _is_to_compare(self, item: _QueuedRows, value: float) -> bool:
        """Whether a bound ties with the incumbent, and the rows were not compared with it."""
        return item.compared != self.goal.incumbent and self._is_tied(item.bounds, value)

    def _is_tied(self, bounds: Bounds, value: float) -> bool:
        """Whether a bound ties with the incumbent."""
        return len(bounds.tied(np.array([value]))) > 0

    def _paths(self, row: _QueuedRows, value: float, done: float = -math.inf) -> _Paths:
        """The complete paths of a row."""
        bounds, finely = row.bounds, self._is_tied(row.bounds, value)
        listed = self._listed(row)
        worth = RowWorth(bounds, row.tiles, listed.unrolled, row.cycles, finely)
        branch = Branch(bounds.masked, listed, worth, self.shared.stop)
        return _Paths(row, branch, branch.paths(), finely, done)

    def _compared(self, item: _QueuedRows, listed: Listed) -> _QueuedRows:
        """Those of some rows that may improve on the incumbent though they are close to it."""
        able = item.bounds.still(listed, item.cycles) & self.goal.below(item.values)
        return item.only(np.flatnonzero(able))._replace(compared=self.goal.incumbent)

    def _listed(self, rows: _QueuedRows) -> Listed:
        """Some rows as a list."""
        return rows.bounds.masked.listed(rows.tiles, self._unrolled(rows.choices), rows.labels)

    def _dive(self, item: _QueuedRows) -> None:
        """Price a path of the best row so far at once: a good incumbent leaves little to do.

        The more of these were in vain, one after the other, the rarer they get.
        """
        if item.first in self._dived:
            return
        if self._passed_over < self._in_vain:
            self._passed_over += 1
            return
        self._dived.add(item.first)
        incumbent = self.goal.incumbent
        self._follow_best(item)
        self._passed_over = 0
        self._in_vain = self._in_vain + 1 if incumbent == self.goal.incumbent else 0

    def _follow_best(self, item: _QueuedRows) -> None:
        """Price a path of the best of some rows."""
        branch = self._paths(item.only(np.zeros(1, dtype=np.int64)), float(item.values[0])).branch
        if self.goal.counts_energy:
            best = branch.first()
            self._improve([] if best is None else [best])
        else:
            self._improve([own.path for own in islice(branch.paths(), 1)])

    def _price(self, item: _Paths, value: float) -> None:
        """Price the mappings of the next paths, as long as no other region may have better ones."""
        if self._heeding_loads(item.row.bounds) is not item.row.bounds:
            self._push(value, item.row)
            return
        if self._is_to_compare(item.row, value):
            item = item._replace(row=self._compared(item.row, item.branch.row))
        if not len(item.row.values):
            return
        if not item.finely and self._is_tied(item.row.bounds, value):
            # What was priced may seem to cost a little more or less now.
            self._push(value, self._paths(item.row, value, item.done * TIED))
            return
        paths: list[TilePath] = []
        for own in item.found:
            if own.value > value or len(paths) == 1 << item.times:
                times = item.times + (own.value <= value)
                rest = item._replace(found=chain((own,), item.found), done=value, times=times)
                self._push(max(value, own.value), rest)
                break
            if own.value >= item.done:
                paths.append(own.path)
        self._improve(paths)

    def _improve(self, paths: list[TilePath]) -> None:
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
        case _Paths():
            return item.times
        case _QueuedRows():
            return 1
        case _Mask():
            return 2 + CLOSEST - item.stage
        case _Unseen():
            return 3 + CLOSEST
    return 2
