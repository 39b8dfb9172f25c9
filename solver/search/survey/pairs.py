"""Pairs of tiles of two neighbouring levels, and what they cost together at many prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.space.grid import SpatialGrid
from solver.search.space.search_space import SearchSpace
from solver.search.survey.survey import fewest_words

CHUNK = 1 << 21
"""Costs that are computed together, for each class of loop orders."""

MOST_CONNECTED = 1 << 14
"""Pairs of tiles, per subproblem, up to which it is looked up which of them loops connect."""


@dataclass(frozen=True)
class Rates:
    """What words cost that are delivered to a level; arrays of shape (dataspaces, subproblems).

    Parameters
    ----------
    per_word
        A word that is delivered into one instance; 0 for a dataspace that the level does not get.
    per_copies
        A word that is delivered into all instances which the spatial factors let use it.
    """

    per_word: FloatArray
    per_copies: FloatArray

    def chosen(self, places: IntArray) -> Rates:
        """Those of the subproblems at some places, in that order."""
        return Rates(self.per_word[:, places], self.per_copies[:, places])


@dataclass(frozen=True)
class Level:
    """A level that keeps the same dataspaces in all subproblems, and the tiles that fit into it.

    Parameters
    ----------
    place
        0 is the outermost level, which is none of these.
    tenants
        Places of the dataspaces that take room.
    """

    space: SearchSpace
    place: int
    tenants: frozenset[int]

    @cached_property
    def tiles(self) -> IntArray:
        """Lattice indices, ascending, shape (tiles,)."""
        return self.space.feasible(self.place, self.tenants)

    def reuses(self, place: int, members: frozenset[int]) -> bool:
        """Whether loops that leave `members` in place spare deliveries of a dataspace."""
        return place in members and self.space.reuses(place, self.place)

    def fewest(self, place: int) -> float:
        """Fewest words that deliver a dataspace once to all instances, over the tiles.

        Raises
        ------
        ValueError
            If no tile fits.
        """
        return float(fewest_words(self.space, place, (self.place, self.tenants))[0])

    def fewest_repeated(self, place: int) -> float:
        """Fewest words each time that this is repeated."""
        return float(self._repeated(place).min())

    def words(self, place: int) -> FloatArray:
        """Words of all instances without reuse, at least; shape (tiles,)."""
        irrelevant = self.space.tables[place].irrelevant_tiles[self.tiles]
        return self._repeated(place) * irrelevant

    def _repeated(self, place: int) -> FloatArray:
        words = self.space.relevant_words(place, self.place, self.space.no_unrolling).repeated
        return words[self.tiles].astype(np.float64)


class Costs:
    """What the boundary of a level costs, for each class of loop orders, tile, and subproblem.

    Subproblems of equal prices per word share what is delivered without reuse.

    Attributes
    ----------
    least
        The least cost of any tile and class, shape (subproblems,).
    """

    def __init__(self, level: Level, rates: Rates) -> None:
        distinct, self._shared = np.unique(rates.per_word, axis=1, return_inverse=True)
        classes = level.space.reuse_classes
        priced = [place for place, per_word in enumerate(distinct) if per_word.any()]
        loose = {place: distinct[place][:, None] * level.words(place) for place in priced}
        once = {place: rates.per_copies[place] * level.fewest(place) for place in priced}
        self._loose = np.zeros((len(classes), distinct.shape[1], len(level.tiles)))
        self._once = np.zeros((len(classes), len(self._shared)))
        for (k, members), place in product(enumerate(classes), priced):
            if level.reuses(place, members):
                self._once[k] += once[place]
            else:
                self._loose[k] += loose[place]
        # Each dataspace is delivered once at the least.
        self._all_once = sum(once.values(), np.zeros(len(self._shared)))
        fewest = self._loose.min(axis=2, initial=np.inf)[:, self._shared] + self._once
        self.least = np.maximum(fewest.min(axis=0), self._all_once)

    def hopeful(self, room: FloatArray) -> BoolArray:
        """Which tiles cost less than `room` beyond the least in any subproblem, shape (tiles,).

        Parameters
        ----------
        room
            Shape (subproblems,).
        """
        most = self.least + room
        open_ = most > self._all_once
        hopeful = np.zeros(self._loose.shape[2], dtype=np.bool_)
        for loose, once in zip(self._loose, self._once, strict=True):
            limits = np.zeros(len(loose))
            np.maximum.at(limits, self._shared[open_], (most - once)[open_])
            hopeful |= (loose < limits[:, None]).any(axis=0)
        return hopeful

    def beyond_least(self, tiles: IntArray) -> FloatArray:
        """Costs of some tiles beyond the least, shape (classes, tiles, subproblems)."""
        loose = self._loose[:, :, tiles].transpose(0, 2, 1)
        costs = loose[:, :, self._shared] + self._once[:, None]
        beyond: FloatArray = np.maximum(costs, self._all_once) - self.least
        return beyond


class TilePairs:
    """Two neighbouring levels of subproblems that have the same tiles and the same loops between them.

    Parameters
    ----------
    outer, inner
        Both levels.
    between, below
        Spatial classes of the fanouts below each of them; None if those below the inner level differ.
    """

    def __init__(self, outer: Level, inner: Level, between: int, below: int | None) -> None:
        self.space = outer.space
        self.outer, self.inner = outer, inner
        self._unrollings = self.space.stage_tables[outer.place].unrollings(between)
        self._below = below

    @property
    def at_once(self) -> int:
        """Subproblems whose costs are computed together."""
        return max(1, CHUNK // max(1, len(self.outer.tiles) + len(self.inner.tiles)))

    @cached_property
    def _made_up(self) -> BoolArray:
        """Which tiles of the inner level its loops and the fanouts below can make up."""
        if self._below is None:
            return np.ones(len(self.inner.tiles), dtype=np.bool_)
        unrollings = self.space.stage_tables[self.inner.place].unrollings(self._below)
        around, _ = self.space.lattice.times(np.zeros(1, dtype=np.int64), unrollings)
        return self.space.slots[self.inner.place].products(around)[self.inner.tiles]

    def added(self, outer: Rates, inner: Rates, grid: SpatialGrid, room: FloatArray) -> FloatArray:
        """By how much both levels cost more together than each alone, up to `room`.

        Parameters
        ----------
        room
            What costs may be more before nothing improves, shape (subproblems,).

        Returns
        -------
        FloatArray
            A lower bound, not rounded, shape (subproblems,): `room` if no pair of tiles is left, 0 if there
            are too many.
        """
        outside, inside = Costs(self.outer, outer), Costs(self.inner, inner)
        roomy = self._roomy(grid)
        targets = np.flatnonzero(outside.hopeful(room) & roomy.any(axis=0))
        tiles = np.flatnonzero(inside.hopeful(room) & self._made_up)
        sources, origins = self.space.lattice.times(self.inner.tiles[tiles], self._unrollings)
        if len(sources) == 0 or len(targets) == 0:
            return room
        if len(sources) * len(targets) > MOST_CONNECTED * len(room):
            return np.zeros(len(room))
        charges = np.where(roomy[:, targets].T, outside.beyond_least(targets), np.inf)
        step = _Step(self, inside.beyond_least(tiles), charges, inner, grid)
        return np.minimum(step.least(sources, origins, self.outer.tiles[targets]), room)

    def _roomy(self, grid: SpatialGrid) -> BoolArray:
        """Which tiles of the outer level leave room for the fanouts above, shape (subproblems, tiles)."""
        lattice, roomy = self.space.lattice, np.ones((len(grid), len(self.outer.tiles)), dtype=np.bool_)
        for table, index in zip(self.space.stage_tables[: self.outer.place], grid.choices, strict=False):
            classes, places = np.unique(index, return_inverse=True)
            unrollings = [table.unrollings(own) for own in classes]
            roomy &= np.stack([lattice.leaving_room(self.outer.tiles, own) for own in unrollings])[places]
        return roomy


@dataclass(frozen=True)
class _Step:
    """The step from the tiles inside of a slot to those outside, at many prices.

    ``costs`` and ``charges`` are those of the tiles inside and outside, beyond the least, shape
    (classes, tiles, subproblems).
    """

    pair: TilePairs
    costs: FloatArray
    charges: FloatArray
    rates: Rates
    grid: SpatialGrid

    def least(self, sources: IntArray, origins: IntArray, targets: IntArray) -> FloatArray:
        """Least cost of both levels beyond each one's least, over tiles that loops connect.

        Either the reuse of a class ends in the slot between, and is charged at the outer tile; or one
        dataspace stays in place, and is charged farther out. ``sources`` are the tiles inside times what is
        unrolled, ``origins`` their places.
        """
        space = self.pair.space
        rows, columns = self._connected(sources, targets, None)
        outside, ended = self.charges.min(axis=0), self._ended(targets)
        least = np.full(len(self.grid), np.inf)
        for costs, members in zip(self.costs, space.reuse_classes, strict=True):
            charged = sum((ended[place] for place in ended if place in members), outside)
            np.minimum(least, _least_sum(costs, charged, origins[columns], rows), out=least)
        for place in ended:
            # It stays in place: only loops that leave it there lie in the slot, and nothing is charged yet.
            those = [k for k, members in enumerate(space.reuse_classes) if place in members]
            dims = sorted(space.views[place].irrelevant)
            rows, columns = self._connected(sources, targets, dims)
            inside, outside = (own[those].min(axis=0, initial=np.inf) for own in (self.costs, self.charges))
            np.minimum(least, _least_sum(inside, outside, origins[columns], rows), out=least)
        return least

    def _connected(
        self, sources: IntArray, targets: IntArray, dims: Sequence[int] | None
    ) -> tuple[IntArray, IntArray]:
        """Places of the targets and sources that loops connect, by rising places of the targets."""
        connects = self.pair.space.slots[self.pair.outer.place].connects(sources, targets, dims)
        # In one dimension that is several times faster.
        rows, columns = np.divmod(np.flatnonzero(connects), len(sources))
        return rows, columns

    def _ended(self, targets: IntArray) -> dict[int, FloatArray]:
        """What reused dataspaces cost beyond one delivery if that ends here, shape (tiles, subproblems)."""
        space, inner = self.pair.space, self.pair.inner
        ended = {}
        for place, per_copies in enumerate(self.rates.per_copies):
            if per_copies.any() and space.reuses(place, inner.place):
                iterations = space.tables[place].irrelevant_tiles[targets].astype(np.float64)
                unused = self.grid.copies_above[place][self.pair.outer.place]
                more = np.maximum(iterations[:, None] / unused - 1, 0.0)
                ended[place] = more * (per_copies * inner.fewest_repeated(place))
        return ended


def _least_sum(costs: FloatArray, charges: FloatArray, columns: IntArray, rows: IntArray) -> FloatArray:
    """The least sum of a cost and a charge, over pairs of their places by rising places of the charges."""
    if len(rows) == 0:
        return np.full(costs.shape[1], np.inf)
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    counts = np.diff(starts, append=len(rows))
    falling = np.argsort(-counts, kind="stable")
    starts, counts = starts[falling], counts[falling]
    cheapest = costs[columns[starts]]
    # The second cost of each charge, the third, and so on: that is faster than charge by charge.
    for rank in range(1, int(counts[0])):
        more = int(np.searchsorted(-counts, -rank))
        np.minimum(cheapest[:more], costs[columns[starts[:more] + rank]], out=cheapest[:more])
    least: FloatArray = (cheapest + charges[rows[starts]]).min(axis=0)
    return least
