"""Boundaries: what it costs to deliver a dataspace to a level, as far as tiles alone tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from solver.search.arrays import FloatArray, IntArray
from solver.search.bounds.tables import Row
from solver.search.space.counts import Alone, CountLattice
from solver.search.space.lattice import INFINITY
from solver.search.space.prices import LARGEST_TOTAL, BoundaryPrice
from solver.search.space.search_space import Led
from solver.search.space.spatial import used_above
from solver.search.space.uneven import repeated_alone
from solver.search.space.windows import Unrolling, Words
from solver.search.subproblems.subproblem import Subproblem

LARGEST_COUNT = 1 << 62
"""Words up to which 64 bits hold the counts of all dataspaces together."""

REPEATS = (1, 2, 4, 16, 64)
"""Numbers of deliveries that bounds tell apart where tiles of windows are reused: so many, up to the next."""


def ceil_div(numerator: IntArray, denominator: int) -> IntArray:
    """Round up ``numerator / denominator``, entry by entry; the denominator is above 0."""
    return numerator if denominator == 1 else -(-numerator // denominator)


def times(words: IntArray, factor: int) -> IntArray:
    """Words times a factor, as far as 64 bits hold the product."""
    return words * factor if factor <= 1 else np.minimum(words, LARGEST_COUNT // factor) * factor


def products(factors: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """All products of one factor of each."""
    return tuple(sorted({math.prod(own) for own in product(*factors)}))


@dataclass(frozen=True)
class Boundary:
    """The boundary below which a subproblem's level `level` keeps dataspace `place`.

    Parameters
    ----------
    place
        Of the dataspace; the subproblem prices it at this level.
    level
        1 or more: nothing is delivered to the outermost level.
    """

    sub: Subproblem
    place: int
    level: int

    @property
    def price(self) -> BoundaryPrice:
        """Cost and load of the words delivered."""
        return self.sub.prices[self.place][self.level]

    def counts_in(self, members: frozenset[int]) -> bool:
        """Whether the dataspace is one of `members` and reused at this boundary."""
        return self.place in members and self.sub.space.reuses(self.place, self.level)

    @cached_property
    def share(self) -> tuple[int, int]:
        """What each instance gets of words for all of them: numerator, denominator."""
        return self.sub.share(self.place, self.level)

    @cached_property
    def _least(self) -> tuple[int, int]:
        """Least words over the tiles that fit: each time that they are repeated, and at first.

        Raises
        ------
        ValueError
            If no tile fits.
        """
        fits = self.sub.feasible(self.level)
        repeated, begun = self.words()
        return int(repeated[fits].min()), int(begun[fits].min())

    @cached_property
    def least_floor(self) -> int:
        """Least words that all instances get, over the tiles that fit."""
        return int(self.floor_words[self.sub.feasible(self.level)].min())

    @cached_property
    def unrolling(self) -> Unrolling:
        """Spatial factors of the window dimensions above the level."""
        return self.sub.unrolling(self.level)

    def words(self, led: Led | None = None, dim: int | None = None) -> Words:
        """As of `SearchSpace.relevant_words`, exact but for sliding windows, and remainders."""
        return self.sub.space.relevant_words(self.place, self.level, self.unrolling, led, dim)

    @property
    def floor_words(self) -> IntArray:
        """As of `SearchSpace.floor_words`, shape (lattice size,)."""
        return self.sub.space.floor_words(self.place, self.level, self.unrolling)

    @cached_property
    def once_words(self) -> int:
        """Least words delivered per instance when all loops above reuse the dataspace."""
        numerator, denominator = self.share
        return -(-self.least_floor * numerator // denominator)

    @cached_property
    def once(self) -> int:
        """Least cost when all loops above reuse the dataspace, as far as tables tell it apart."""
        return min(self.price.exact(self.once_words), LARGEST_TOTAL)

    def extra(self, words: IntArray) -> IntArray:
        """Cost by which delivering `words` exceeds the least there can be, at most `INFINITY`."""
        return np.minimum(self.price.price(words) - self.once, INFINITY)

    def unreused_words(self, tiles: IntArray, words: Words) -> IntArray:
        """Least words delivered per instance without reuse in the slot above, shape (len(tiles),).

        `words` belong to the tiles.
        """
        irrelevant = self.sub.space.tables[self.place].irrelevant_tiles[tiles]
        total = words.repeated * irrelevant + (words.begun - words.repeated) * self._copies
        return np.maximum(ceil_div(total, self.sub.above[self.level]), self.once_words)

    def repeated_words(self, words: Words, inside: IntArray, outside: IntArray) -> IntArray:
        """Least words delivered per instance if loops with `inside` iterations repeat deliveries.

        Loops with `outside` iterations begin with whole tiles.
        """
        unused = self.sub.unused_above(self.place, self.level)
        total = (words.repeated * (inside - 1) + words.begun) * outside * unused
        return np.maximum(ceil_div(total, self.sub.above[self.level]), self.once_words)

    def tile_words(self, tiles: IntArray, led: Led | None = None) -> IntArray:
        """The same as far as the tiles tell; `led` as of `SearchSpace.relevant_words`."""
        words = self.words(led)
        return self.unreused_words(tiles, Words(words.repeated[tiles], words.begun[tiles]))

    def reused(
        self, level: int, tiles: IntArray, runs: IntArray | None = None, repeats: IntArray | int = 1
    ) -> IntArray:
        """Least extra cost when no loop between here and the tile of `level` moves the dataspace.

        What is left is one delivery per iteration of the loops outside of that tile, but for those directly
        outside that leave it in place too, whose product is `runs`; and that `repeats` times.

        Returns
        -------
        IntArray
            In quanta beyond `once`, shape (len(tiles),).

        References
        ----------
        docs/search.md, "The lattice": reuse is charged where it ends.
        """
        repeated, begun = self._least
        if self.sub.space.uneven:
            return self.delivered(self.times(level, tiles, runs), repeated)
        deliveries = self._deliveries(level, tiles, runs) * repeats
        return self._extra_of(repeated * np.maximum(deliveries - 1, 0) + begun)

    def delivered(self, number: IntArray, repeated: IntArray | int) -> IntArray:
        """Least extra cost of so many deliveries, as of `times`, each of which repeats so many words."""
        copies = self._copies
        more = np.maximum(number - copies, 0)
        words = np.minimum(repeated, LARGEST_COUNT // np.maximum(more, 1)) * more
        return self.extra(np.maximum(words + copies * self._least[1], self.once_words))

    def repeating(self, number: IntArray, more: IntArray) -> IntArray:
        """What it costs, at least, that so many deliveries, as of `times`, have `more` words each."""
        repeats = np.maximum(number - self._copies, 0)
        words = np.minimum(more, LARGEST_COUNT // np.maximum(repeats, 1)) * repeats
        return np.minimum(self.price.increment(words), INFINITY)

    @cached_property
    def least_repeated(self) -> int:
        """Least words each time that tiles are repeated, unless a loop leaves some in place by chance."""
        view, space = self.sub.space.views[self.place], self.sub.space
        if view.window_dims or not space.uneven:
            return self._least[0]
        return int(space.tables[self.place].plain_words[self.sub.feasible(self.level)].min())

    @cached_property
    def alone(self) -> tuple[Alone, ...]:
        """Loops that may leave some tiles in place by chance, and move the others."""
        space = self.sub.space
        view = space.views[self.place]
        if view.window_dims or not space.uneven or not space.reuses(self.place, self.level):
            return ()
        return tuple(Alone(d, left) for d in sorted(view.relevant) for left in space.left(d))

    def repeated(self, alone: Alone, level: int, children: Sequence[int]) -> IntArray:
        """Least words that are repeated each time that such a loop ends, by tiles of `level` along it.

        Parameters
        ----------
        level
            This one, or one farther out inside of the loop.
        children
            How many of its tiles may run side by side in an iteration of the loop.

        Returns
        -------
        IntArray
            By place along the dimension of the lattice.
        """
        known = alone, level, (*children,)
        if known not in self._known_repeated:
            inside = products(self.sub.unrolled(number)[alone.dim] for number in range(level, self.level))
            key = self.place, alone, inside, (*children,)
            least = self.sub.space.memo_along(key, lambda: self._repeated(alone, inside, children))
            self._known_repeated[known] = least
        return self._known_repeated[known]

    @cached_property
    def _known_repeated(self) -> dict[tuple[Alone, int, tuple[int, ...]], IntArray]:
        return {}

    def repeated_farther(self, alone: Alone, level: int) -> IntArray:
        """The same if the loop is any farther out than the tiles of `level`."""
        if (alone.dim, level) not in self._known_children:
            unrolled = [self.sub.unrolled(number)[alone.dim] for number in range(level)]
            children = {own for outer in range(level) for own in products(unrolled[outer:])}
            self._known_children[alone.dim, level] = sorted(children)
        return self.repeated(alone, level, self._known_children[alone.dim, level])

    @cached_property
    def _known_children(self) -> dict[tuple[int, int], list[int]]:
        return {}

    def repeated_by_both(self, alone: Alone, other: int, level: int, places: IntArray) -> IntArray:
        """The same as `repeated_farther` if such a loop over another dimension follows, by places of tiles.

        Only tiles stay that both leave in place.

        Parameters
        ----------
        places
            Of tiles of `level`, shape (tiles, dimensions).
        """
        plain = self.least_repeated
        kept = np.maximum(plain - self.repeated_farther(alone, level)[places[:, alone.dim]], 0)
        share = self.left_farther(other, level)[places[:, other]]
        most = np.minimum(np.ceil(kept * share * (1 + 1e-9)).astype(np.int64), kept)
        repeated: IntArray = plain - most
        return repeated

    def left_farther(self, dim: int, level: int) -> FloatArray:
        """The largest share of words that a loop leaves in place which is farther out than `level`.

        Returns
        -------
        FloatArray
            By place along the dimension.
        """
        plain = max(1, self.least_repeated)
        words = [self.repeated_farther(own, level) for own in self.alone if own.dim == dim]
        shares: FloatArray = np.clip((plain - np.minimum.reduce(words)) / plain, 0.0, 1.0)
        return shares

    def _repeated(self, alone: Alone, inside: Sequence[int], children: Sequence[int]) -> IntArray:
        space, dim = self.sub.space, alone.dim
        view, lattice = space.views[self.place], space.lattice
        assert isinstance(lattice, CountLattice)
        words: IntArray = np.full(lattice.counts[dim], LARGEST_COUNT)
        for inner, outer in product(inside, children):
            every = tuple((inner * outer,) for _ in lattice.bounds)
            least = repeated_alone(view, lattice, replace(self.unrolling, inside=every), alone)
            for first, last, own in zip(*lattice.rounds(dim, inner), least, strict=True):
                words[first : last + 1] = np.minimum(words[first : last + 1], own)
        return words

    @cached_property
    def _copies(self) -> int:
        """Instances that use the same words, at least."""
        return self.sub.copies_above(self.place, self.level)

    def times(self, level: int, tiles: IntArray, runs: IntArray | None) -> IntArray:
        """How often all words are delivered, with remainders, if reuse ends at the tile of `level`.

        With T tiles outside, and s children for each, s (T - 1) + 1 copies are delivered at least, for the
        last round may have work for one child only; that is no less than s T / 2. That holds dimension by
        dimension.
        """
        view, outer = self.sub.space.views[self.place], self.sub.copies_above(self.place, level)
        outside: IntArray = self.sub.space.tables[self.place].irrelevant_tiles[tiles]
        apart = self._times_apart(level, tiles)
        if runs is not None:
            outside, apart = -(-outside // runs), np.where(runs == 1, apart, 0)
        unused = self.sub.unused_above(self.place, self.level)
        if outer > 1 or unused != self._copies:
            # Children differ in what their own children have to do.
            return np.maximum(np.maximum(outside, apart), self._copies)
        halves = 1 << (len(view.irrelevant) if unused > 1 else 0)
        many = np.maximum(outside, -(-outside * unused // halves))
        return np.maximum(np.maximum(many, apart), self._copies)

    def _times_apart(self, level: int, tiles: IntArray) -> IntArray:
        """How often tiles are delivered along each dimension if no loop leaves them in place, multiplied."""
        if level not in self._known_along:
            self._known_along[level] = [*self._times_along(level)]
        places, number = self.sub.space.lattice.places[tiles], np.ones(len(tiles), dtype=np.int64)
        for d, along in self._known_along[level]:
            number *= along[places[:, d]]
        return number

    @cached_property
    def _known_along(self) -> dict[int, list[tuple[int, IntArray]]]:
        return {}

    def _times_along(self, level: int) -> Iterator[tuple[int, IntArray]]:
        """The same along each dimension, by place."""
        sub, between = self.sub, range(level, self.level)
        used = used_above([sub.least_used(stage) for stage in between], len(sub.space.active))
        for d in sorted(sub.space.views[self.place].irrelevant):
            outside = sub.space.lattice.tiles_along(d).reshape(-1)
            every = math.prod(min(sub.unrolled(stage)[d]) for stage in between)
            yield d, np.where(outside == 1, used[d], every * (outside - 1) + 1)

    def _deliveries(self, level: int, tiles: IntArray, runs: IntArray | None) -> IntArray:
        """Iterations outside of the tile of `level` that repeat deliveries, but for `runs`."""
        irrelevant: IntArray = self.sub.space.tables[self.place].irrelevant_tiles[tiles]
        unused = self.sub.unused_above(self.place, level)
        if runs is None:
            return irrelevant // unused
        # Where a division leaves a rest there is no such mapping, or the factors are those of several.
        return -(-irrelevant // (unused * runs))

    def _extra_of(self, words: IntArray) -> IntArray:
        """Cost beyond `once` of `words` that all instances get."""
        numerator, denominator = self.share
        delivered = ceil_div(times(words, numerator), denominator)
        return self.extra(np.maximum(delivered, self.once_words))

    @cached_property
    def repeats(self) -> tuple[int, ...]:
        """What to tell apart of `REPEATS`, for all levels that reuse the dataspace; (0,) if nothing."""
        view = self.sub.space.views[self.place]
        most = int(self.sub.space.tables[self.place].irrelevant_tiles.max())
        if not self.sliding or view.read_write or most == 1 or self.sub.space.uneven:
            return (0,)
        return tuple(number for number in REPEATS if number <= most)

    def begun(self, tiles: IntArray, repeats: int) -> IntArray:
        """Cost of so many deliveries of reused tiles beyond `surplus`, at least; one of `repeats`."""
        if repeats <= 1:
            return np.zeros(len(tiles), dtype=np.int64)
        repeated, begun = self.words()
        words = times(repeated[tiles], repeats - 1) + begun[tiles]
        more: IntArray = np.maximum(self._extra_of(words) - self.surplus(tiles), 0)
        return more

    def ended(self, level: int, tiles: IntArray, repeats: int, runs: IntArray | None = None) -> IntArray:
        """As `reused`, beyond what `begun` has; `INFINITY` where a row with other `repeats` holds."""
        if repeats == 0:
            return self.reused(level, tiles, runs)
        deliveries = self._deliveries(level, tiles, runs)
        place = self.repeats.index(repeats)
        possible = deliveries >= repeats
        if place + 1 < len(self.repeats):
            possible &= deliveries < self.repeats[place + 1]
        if repeats == 1:
            return np.where(possible, self._extra_of(np.full(len(tiles), self._least[1])), INFINITY)
        numerator, denominator = self.share
        more = times(np.maximum(deliveries - repeats, 0), self._least[0] * numerator) // denominator
        return np.where(possible, np.minimum(self.price.increment(more), INFINITY), INFINITY)

    @property
    def sliding(self) -> bool:
        """Whether the words delivered depend on which loop is the innermost one that moves the tile."""
        space = self.sub.space
        if space.overlaps(self.place, self.level):
            return True
        moves = bool(space.views[self.place].window_dims) or space.uneven
        return moves and space.reuses(self.place, self.level)

    def surplus(self, tiles: IntArray) -> IntArray:
        """Cost by which reused `tiles` exceed the cheapest tile, at least.

        Returns
        -------
        IntArray
            In quanta, shape (len(tiles),); 0 for outputs and where tiles are a partition.
        """
        view = self.sub.space.views[self.place]
        if view.simple or view.read_write:
            # A produced dataspace's first touches are free, so more words of it need not cost more.
            return np.zeros(len(tiles), dtype=np.int64)
        numerator, denominator = self.share
        more = np.maximum(self.words().begun[tiles] - self.least_floor, 0)
        return np.minimum(self.price.increment(times(more, numerator) // denominator), INFINITY)


@dataclass(frozen=True)
class Boundaries:
    """All boundaries of a subproblem."""

    sub: Subproblem

    @cached_property
    def by_level(self) -> tuple[tuple[Boundary, ...], ...]:
        """Those of each level."""
        levels, places = range(len(self.sub.space.levels)), range(len(self.sub.prices))
        return tuple(
            tuple(self._known[place, level] for place in places if (place, level) in self._known)
            for level in levels
        )

    @cached_property
    def _known(self) -> dict[tuple[int, int], Boundary]:
        depth = len(self.sub.space.levels)
        keys = ((p, level) for p, prices in enumerate(self.sub.prices) for level in prices if level < depth)
        return {key: Boundary(self.sub, *key) for key in keys}

    @cached_property
    def once(self) -> int:
        """Least cost of all of them."""
        return sum(boundary.once for boundary in self._known.values())

    def due(self, row: Row, level: int) -> list[Boundary]:
        """Boundaries inside `level` whose cost a row leaves out."""
        if row.place is None:
            return []
        inside = (boundary for inner in self.by_level[level + 1 : row.innermost + 1] for boundary in inner)
        return [boundary for boundary in inside if boundary.counts_in(frozenset((row.place,)))]
