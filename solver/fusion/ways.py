"""The ways to keep an Einsum's tiles below open bodies, and what each costs at the least.

All is stated for one body, in whole numbers, and for many at a time, in arrays: see `amounts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import permutations, product
from typing import NamedTuple

import numpy as np

from model.numbers import divisors
from solver.fusion.amounts import Amount, ever, larger, smaller, unless
from solver.fusion.bounds import NOTHING, Deeper, Exchange, Inner
from solver.fusion.edges import Shift
from solver.fusion.least import EdgePricer
from solver.fusion.remembered import remembered
from solver.fusion.space import WHOLE, Cut, Cuts, Frame, Frames, FusionSpace, Segment, Tile

DECIDED_OUTSIDE = -1
"""In place of words: a tensor goes through the outermost memory."""

MOST_COUNTS = 16
"""Trips of the loops between two held tiles that are told apart, at most."""


class Given(NamedTuple):
    """What is decided for an Einsum.

    Parameters
    ----------
    stored
        Room of the tensors that it reads, in words; without room they may be in any memory.
    taken_words
        Room of the outermost on-chip memory that all else takes.
    levels
        Of those that are stored in memories farther in.
    """

    stored: tuple[tuple[str, int], ...]
    taken_words: int
    levels: tuple[tuple[str, int], ...] = ()

    @property
    def outside(self) -> frozenset[str]:
        """Tensors that go through the outermost memory."""
        return frozenset(name for name, words in self.stored if words == DECIDED_OUTSIDE)

    @property
    def places(self) -> dict[str, tuple[int, int]]:
        """Room and level by tensor."""
        levels = dict(self.levels)
        return {name: (words, levels.get(name, 1)) for name, words in self.stored}

    def among(self, choices: Sequence[Deeper], tiles: Sequence[Tile]) -> list[Deeper]:
        """Those ways to store tensors in memories farther in that agree with what is decided."""
        levels = {name: level for name, (words, level) in self.places.items() if words > 0}
        wanted = [(tile.space.name, levels[tile.tensor]) for tile in tiles if tile.tensor in levels]
        return [own for own in choices if all(dict(own).get(name, 1) == level for name, level in wanted)]


class Option(NamedTuple):
    """One way to keep a tile: its room, and what it exchanges with the outermost memory.

    `above` says whether it is stored or held above the nests, `lasting` whether it takes room while all
    Einsums of the body run; `stored` is the tensor, if it is decided here that it is stored. With a `level`
    above 1 it is stored in that memory, and takes its room. `between` is the tile, if it is held between
    loops that are not ordered yet: its room is that below all of them, and its words cross once for each
    iteration of those outside.
    """

    name: str
    words: Amount
    move: Exchange = NOTHING
    above: bool = True
    lasting: bool = False
    stored: str = ""
    level: int = 1
    between: Tile | None = None


class Way(NamedTuple):
    """One way to keep all tiles of an Einsum: room in all, room that lasts, energy and cycles."""

    words: Amount
    lasting: Amount
    energy: Amount
    cycles: Amount
    stored: frozenset[str] = frozenset()  # tensors, as far as this decides about them

    def changed(self, change: Callable[[Amount], Amount]) -> Way:
        """Return a way of changed amounts."""
        return Way(
            change(self.words), change(self.lasting), change(self.energy), change(self.cycles), self.stored
        )

    def over(self, size: int) -> Way:
        """Return a way whose amounts are arrays, an entry for each of so many bodies."""
        return self.changed(lambda own: np.broadcast_to(np.asarray(own, np.float64), size))

    @property
    def nbytes(self) -> int:
        """Memory that its arrays take."""
        return 4 * int(self.words.nbytes)


FREE = Way(0, 0, 0, 0)
"""What a copy takes of its own: no tiles, and what it moves is paid on the path."""


@dataclass(frozen=True)
class Places:
    """Where an Einsum's tiles may be held.

    Parameters
    ----------
    frames
        The bodies around it.
    cuts
        Those below each segment whose place is decided, the outermost first.
    last
        Below all loops.
    further
        Loops of the innermost body that are not ordered yet, after those whose cuts are known.
    above_left
        Above the loops that are left, if there are any: places inside may be farther in, of smaller tiles.
    has_none_left
        Whether none are left after all.
    deeper
        The tensors that further bodies inside may store, which take no room; None without such bodies.
    """

    frames: Frames
    cuts: Sequence[Cut]
    last: Cut
    further: tuple[Segment, ...] = ()
    above_left: Cut | None = None
    has_none_left: Amount = False
    deeper: frozenset[str] | None = None


@dataclass(frozen=True)
class TileWays:
    """Enumerates the ways to keep tiles.

    Parameters
    ----------
    usable_words
        Room of the outermost on-chip memory.
    are_estimates
        Whether costs need be no bounds where loops cut dimensions into unequal parts.
    """

    space: FusionSpace
    pricer: EdgePricer
    usable_words: int
    are_estimates: bool = False

    def of_places(self, place: int, given: Given, places: Places) -> list[list[Option]]:
        """The ways to keep each tile of an Einsum."""
        return [self._options(tile, given.places, places) for tile in self.space.tiles[place]]

    def _options(self, tile: Tile, stored: dict[str, tuple[int, int]], places: Places) -> list[Option]:
        """The ways to keep a tile, but those that are dearer than to fetch it in each visit."""
        name, again = tile.space.name, self.space.is_repeated(tile)  # then it takes room once
        known, home = stored.get(tile.tensor, (DECIDED_OUTSIDE, 0))
        if known > 0:
            return [Option(name, 0 if again else known, level=home)]
        fetched = self.fetched(tile, places.last)
        found, is_decided = [fetched], tile.tensor in stored
        for level in self.space.homes.get(tile.tensor, ()) if not known or not is_decided else ():
            if is_decided:
                found.append(Option(name, 0, level=level))
                continue
            is_free = again or tile.tensor in (places.deeper or ())
            words = 0 if is_free else self._stored_words(places, tile.tensor, level)
            lasting = level == 1 and bool(places.frames) and stays(self.space, tile, places.frames[-1])
            found.append(Option(name, words, lasting=lasting, stored=tile.tensor, level=level))
        if not tile.bypassed:
            is_large = 1 in self.space.stores.least
            held = self._held(tile, places)
            found += (own for own in held if is_large or own.move.helps(fetched.move))
        return found

    def fetched(self, tile: Tile, last: Cut) -> Option:
        """A tile that is neither stored nor held."""
        return Option(tile.space.name, tile.least_words, self.pricer.exchange(tile, last), above=False)

    def _held(self, tile: Tile, places: Places) -> Iterator[Option]:
        """Yield the ways to hold a tile among some loops that have room."""
        pricer, dense, last = self.pricer, self.space.dense[tile], places.last
        may_keep = any(self.space.keeping(tile, frame.start, frame.end) for frame in places.frames)
        above = self._above(tile, places, may_keep)
        # Below loops to come, smaller tiles have fewer holes between strides.
        spots: list[tuple[Shift, Amount, Tile | None]] = [
            (pricer.shift(tile, self._fetching(tile, places, *at)), self.space.held_words(tile, at[1]), None)
            for at in above
        ]
        if places.above_left is not None and not self._is_handed(tile, places.frames):
            words = unless(places.has_none_left, self.space.held_words(tile, last))
            spots.append((pricer.shift(dense, places.above_left), words, tile))
        for shift, words, between in spots:
            if ever(words <= self.usable_words):
                move = pricer.exchange(tile, last, shift)
                yield Option(tile.space.name, words, move, lasting=True, between=between)
        below = self._below(tile, places) if may_keep else pricer.shift(dense, last)
        if may_keep:
            move = pricer.exchange(tile, last, below)
            yield Option(tile.space.name, self.space.held_words(tile, last), move)
        if places.deeper is not None:
            yield Option(tile.space.name, 0, pricer.exchange(tile, last, below))

    def _above(self, tile: Tile, places: Places, may_keep: bool) -> Iterator[tuple[int, Cut]]:
        """Yield numbers of segments that a tile may be held below, and their cuts."""
        if self._is_handed(tile, places.frames):
            return
        least = self.space.least_depth(places.frames, tile)
        yield from enumerate(places.cuts[least:], least)
        if may_keep and places.above_left is not None:
            yield len(places.cuts), places.above_left

    def _fetching(self, tile: Tile, places: Places, depth: int, cut: Cut) -> Cut:
        """The cut of the loops that fetch all of a tile again which is held below so many segments."""
        known = sum(len(frame.segments) for frame in places.frames)
        if depth <= known:
            cuts = self.space.cuts(places.frames, tile.place)
            return cuts[self.space.fetch_depth(places.frames, tile, depth)]
        frame = places.frames[-1]
        without = self.space.keeping(tile, frame.start, frame.end)
        return self._without(tile, places, depth, cut, without) if without else cut

    def _without(self, tile: Tile, places: Places, depth: int, cut: Cut, without: Collection[int]) -> Cut:
        """A cut but for some classes of loops in the last of so many segments."""
        frame = places.frames[-1]
        number = depth - sum(len(frame.segments) for frame in places.frames) - 1
        before = (*places.cuts, places.above_left)[depth - 1]
        assert before is not None
        loops = tuple(loop for loop in places.further[number] if loop[0] not in without)
        return replace(cut, trips=self.space.grown(before.trips, frame, tile.place, loops))

    def _below(self, tile: Tile, places: Places) -> Shift:
        """What a tile exchanges at the least that keeps what overlaps below all known loops.

        Of the loops that have no order yet, the last one may be any that slides it.
        """
        depth, above, last = len(places.cuts), places.above_left, places.last
        if above is None:
            return self.pricer.shift(tile, self._fetching(tile, places, depth, last))
        dense, frame = self.space.dense[tile], places.frames[-1]
        cuts = [
            self._without(tile, places, depth + 1, last, {n})
            for n in self.space.keeping(tile, frame.start, frame.end)
        ]
        moved = [self.space.moved_words(dense, cut) for cut in (last, *cuts)]
        settled = self.space.moved_words(dense, self._fetching(tile, places, depth, above))
        moved.append(unless(np.logical_not(places.has_none_left), settled))
        return replace(self.pricer.shift(dense, last), moved=reduce(smaller, moved))

    def _is_handed(self, tile: Tile, frames: Frames) -> bool:
        """Whether one Einsum of the innermost body writes a tile's tensor and another one reads it."""
        cascade = self.space.cascade
        users = [own for own in cascade.users[tile.tensor] if frames and own in _span(frames[-1])]
        return len(users) > 1 and cascade.writers.get(tile.tensor) == users[0]

    def _stored_words(self, places: Places, tensor: str, level: int) -> Amount:
        """Room of a tensor where it is stored, if it is written in the open bodies."""
        users = self.space.cascade.users[tensor]
        around = tuple(own for own in places.frames if own.start <= users[0] and users[-1] < own.end)
        if not places.further or around != places.frames:
            return self._decided_words(around, tensor, level)
        trips = self.space.raw_trips(around, users[0])
        for segment in places.further:
            trips = self.space.grown(trips, around[-1], users[0], segment)
        return self.space.stored_words(tensor, trips, level)

    @remembered
    def _decided_words(self, around: Frames, tensor: str, level: int) -> int:
        return self.space.stored(around, tensor, level)[1]

    def each(
        self,
        place: int,
        options: Sequence[Sequence[Option]],
        last: Cut,
        is_open: bool,
        free_words: int | None = None,
        above_left: Cut | None = None,
    ) -> Iterator[Way]:
        """Yield all ways to keep an Einsum's tiles, by the options of each.

        Parameters
        ----------
        is_open
            Whether further loops may cut dimensions into unequal parts.
        free_words
            Room that is left of the outermost on-chip memory; None to yield ways without room, too.
        above_left
            Above the loops that are not ordered yet, if there are any.
        """
        inners: dict[tuple[frozenset[str], Deeper], Inner] = {}
        latency = self.pricer.latency(place)
        for chosen in self._chosen(options, last, above_left):
            self.pricer.heed()
            words = self._fitting(chosen, sum(own.words for own in chosen if own.level == 1))
            if free_words is not None and words > free_words:
                continue
            deeper = tuple(sorted((own.name, own.level) for own in chosen if own.level > 1))
            moves = [own.move for own in chosen]
            key = self._exchanging(place, moves, last), deeper
            if key not in inners:
                inners[key] = self.pricer.inner_under(place, last, *key, is_open, self.are_estimates)
            energy, cycles = self.pricer.exchanging(place, last, moves, inners[key])
            if not last.parts and not is_open:
                above = frozenset(own.name for own in chosen if own.above and own.level == 1)
                core = self.pricer.core(place, above, (), deeper, self.are_estimates)
                energy = larger(energy, core[0] + sum(own.move.energy for own in chosen if own.above))
                cycles = larger(cycles, core[1] + (last.visits - 1) * latency)
            lasting = sum(own.words for own in chosen if own.lasting)
            stored = frozenset(own.stored for own in chosen if own.stored)
            yield Way(words, lasting, energy, cycles, stored)

    def _chosen(
        self, options: Sequence[Sequence[Option]], last: Cut, above_left: Cut | None
    ) -> Iterator[Sequence[Option]]:
        """Yield an option for each tile; of two held between open loops, each may be in the outer place."""
        for chosen in product(*options):
            held = [own for own in chosen if own.between is not None]
            if len(held) < 2 or above_left is None or last.parts or self.space.remainders:
                yield chosen
                continue
            for outer, inner in permutations(sorted(held, key=self._words)[-2:]):
                ordered = self._ordered(outer, inner, last, above_left)
                yield from ([changed.get(own.name, own) for own in chosen] for changed in ordered)

    def _words(self, option: Option) -> int:
        """Words of the whole dataspace of a tile that is held between loops."""
        assert option.between is not None
        words: int = self.space.tile_words(option.between, WHOLE)
        return words

    def _ordered(
        self, outer: Option, inner: Option, last: Cut, above_left: Cut
    ) -> Iterator[dict[str, Option]]:
        """Yield two held tiles, one outside of the other one, for each number of loops that part it.

        The loops outside of its place that move it make its tile smaller. Those of them that do not move the
        other one fetch that anew, which lies inside.
        """
        one, other = outer.between, inner.between
        assert one is not None
        assert other is not None
        if one.windowed or self.space.is_parted:
            yield {}  # what it takes is no product of extents
            return
        again = (one.dims - other.dims) & last.trips.keys()
        every: Amount = math.prod(last.trips[dim] // above_left.trips.get(dim, 1) for dim in again)
        shift = self.pricer.shift(self.space.dense[other], above_left)
        for least, most in _groups(every):
            words = unless(least > every, outer.words * larger(1, every // most))
            if not ever(words <= self.usable_words):
                continue
            move = self.pricer.exchange(other, last, replace(shift, moved=shift.moved * least))
            yield {outer.name: outer._replace(words=words), inner.name: inner._replace(move=move)}

    def _exchanging(self, place: int, moves: Sequence[Exchange], last: Cut) -> frozenset[str]:
        """Dataspaces of which all words cross; of many bodies those that always do, so that few floors do."""
        if isinstance(last, Cuts):
            return self.always_exchanging(place)
        return frozenset(move.dataspace for move in moves if not move.bypassed)

    @remembered
    def always_exchanging(self, place: int) -> frozenset[str]:
        """Dataspaces of an Einsum that are never stored."""
        tiles = (t for t in self.space.tiles[place] if not t.bypassed)
        return frozenset(t.space.name for t in tiles if t.tensor not in self.space.storable)

    def _fitting(self, chosen: Sequence[Option], words: Amount) -> Amount:
        """Room of the outermost on-chip memory; without limit where memories farther in have too little."""
        for level in {own.level for own in chosen if own.level > 1} & self.space.rooms.keys():
            taken = sum(own.words for own in chosen if own.level == level)
            words = unless(taken > self.space.rooms[level], words)
        return words


def _groups(total: Amount) -> Iterator[tuple[int, int]]:
    """Yield the least and the most of some neighbours among the divisors of a number, or of many."""
    totals = np.unique(total).astype(np.int64).tolist()
    counts = sorted({own for each in totals for own in divisors(each)})
    size = -(-len(counts) // MOST_COUNTS)
    yield from ((own[0], own[-1]) for own in (counts[n : n + size] for n in range(0, len(counts), size)))


def _span(frame: Frame) -> range:
    return range(frame.start, frame.end)


def stays(space: FusionSpace, tile: Tile, frame: Frame) -> bool:
    """Whether a tile, once stored, takes room while any Einsum of a body runs.

    If others than those of the body access its tensor, it lies above the loops of the body. So that it counts
    once, this holds where one Einsum of the body alone accesses it, and none a tensor that shares its room.
    """
    users = space.cascade.users
    inside = {own for t in space.copies.relatives(tile.tensor) for own in users[t] if own in _span(frame)}
    return len(users[tile.tensor]) > 1 and inside == {tile.place}
