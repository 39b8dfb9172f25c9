"""The checker's reading of a mapspace with perfect factors: its choices, what its mappings cost, floors.

Words are counted by a rule, Timeloop's or that of an execution; both say as well at most how many words there
are where the order and the factors of loops are open.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, reduce
from itertools import chain, product
from math import inf, prod
from typing import Any

import numpy as np

from solver.certificate.checker.claims import (
    EXACT,
    MOST_CHILDREN,
    MOST_PAIRS,
    MOST_PLACES,
    MOST_STATES,
    SLACK,
    Array,
    CannotCheckError,
    Cost,
    Json,
    Levels,
    Loops,
    Mask,
    Number,
    Problem,
    need,
    remembered,
)
from solver.certificate.checker.conditions import Rules

Extent = Sequence[Number]  # iterations per dimension, of one tile or of many
Whole = tuple[int, ...]  # the same of one
Term = tuple[int, int]  # a dimension and its coefficient
Rank = Sequence[Term]
Strides = tuple[tuple[int, int, int], ...]  # loops: dimension, factor, how far the dimension advances
Begun = Callable[[int, int | None], int]  # words that a level writes first for tiles of another one
Measure = tuple[int, str] | None  # a level and a bandwidth; None is energy
Rates = dict[tuple[int, str], Fraction]
Access = tuple[int | None, int, str, int, int, Any, Any, Any]  # see `Space.accesses`
Move = tuple[
    int, int, str, int, int, int, int
]  # dataspace, level, bandwidth, block, energy, payers, accesses


@cache
def divisors(number: int) -> list[int]:
    """Divisors in ascending order."""
    small = [f for f in range(1, math.isqrt(number) + 1) if number % f == 0]
    return sorted({*small, *(number // f for f in small)})


def least_factor(numbers: Number, bound: int) -> Number:
    """The least factor above 1 of divisors of a bound; 1 has 1."""
    least = numbers
    for n in reversed(divisors(bound)[1:]):
        least = np.where(numbers % n == 0, n, least)
    return least


def advances(steps: Number, loops: Iterable[tuple[Number, Number]]) -> Number:
    """Words that loops bring in all, given their factors and what each advance brings, innermost first.

    They have so many `steps` together with the loops outside of them.
    """
    words = 0
    for n, new in loops:
        words, steps = words + (steps - steps // n) * new, steps // n
    return words


def listed(loops: Iterable[tuple[int, int]]) -> Array:
    """All places that loops (factor, step) reach, in ascending order."""
    places = np.zeros(1, dtype=np.int64)
    for n, step in loops:
        need(len(places) * n <= MOST_PLACES, "tiles have too many places", CannotCheckError)
        places = np.unique(np.add.outer(places, step * np.arange(n)))
    return places


class Dataspace:
    """What tiles of a dataspace hold, where loops (dimension, factor, stride) move them, what children share.

    A counting rule completes it: the words that loops deliver, their least number where order and factors
    are open, and the words of an output that are touched for the first time.
    """

    def __init__(self, doc: Json, bounds: Sequence[int]) -> None:
        self.rw, self.keep, self.bounds = doc["read_write"], [tuple(kept) for kept in doc["keep"]], bounds
        self.ranks = [[(d, c) for d, c in rank if c and bounds[d] > 1] for rank in doc["ranks"]]
        times = Counter(d for rank in self.ranks for d, _ in rank)
        alone = [rank for rank in self.ranks if all(times[d] == 1 for d, _ in rank)]
        self.plain, self.relevant = {rank[0][0] for rank in alone if len(rank) == 1}, set(times)
        self.windows = [rank for rank in alone if len(rank) == 2 and rank[0][1] * rank[1][1] > 0]
        self.tangled = self.relevant - self.plain - {d for rank in self.windows for d, _ in rank}
        self.groups: list[
            list[int]
        ] = []  # of ranks that share dimensions, however indirectly; plain ones are in none
        for r in [r for r, rank in enumerate(self.ranks) if {d for d, _ in rank} - self.plain]:
            joined = [ranks for ranks in self.groups if any(self.share(r, other) for other in ranks)]
            apart = [ranks for ranks in self.groups if ranks not in joined]
            self.groups = [*apart, [*chain(*joined), r]]
        steps = [1 + abs(c) for rank in self.ranks for _, c in rank]
        self.dense = self.plain == self.relevant and {*steps} <= {2}
        self.most = prod(steps) * prod(bounds[d] ** (n - 1) for d, n in times.items()) * prod(bounds)
        self.ending = self.relevant  # dimensions of loops that end the reuse of a tile
        self.multicast: dict[int, bool] = {}  # by fanout, whether equal words are sent once

    def stays(self, doc: Json) -> bool:
        """Whether tiles at a level may stay in place, or keep a part, from one step to the next."""
        return bool(doc["temporal_reuse"])

    def share(self, *ranks: int) -> bool:
        """Whether two ranks have a dimension in common."""
        one, other = ({d for d, _ in self.ranks[r]} for r in ranks)
        return bool(one & other)

    def lengths(self, extent: Extent) -> list[Number]:
        """Lengths of the box that `extent` iterations per dimension touch, holes included, rank by rank."""
        return [1 + sum(abs(c) * (extent[d] - 1) for d, c in rank) for rank in self.ranks]

    def tile(self, extent: Extent) -> Number:
        """Words of that box."""
        return prod(self.lengths(extent))

    def move(self, d: int, stride: Number) -> tuple[Number, ...]:
        """How far the box moves along each rank when dimension `d` advances by `stride`."""
        return tuple(sum(c * stride for e, c in rank if e == d) for rank in self.ranks)

    def fresh(self, extent: Extent, move: Sequence[Number]) -> Number:
        """Words of the box that it did not cover before it moved."""
        both = [np.maximum(n - abs(step), 0) for n, step in zip(self.lengths(extent), move, strict=True)]
        return self.tile(extent) - prod(both)

    @remembered
    def distinct(self, loops: Strides, multicast: bool) -> int:
        """Number of children that spatial loops span, with multicast of those with different tiles."""
        children = prod(n for _, n, _ in loops)
        if not multicast:
            return children
        need(children < MOST_CHILDREN, "a fanout has too many children", CannotCheckError)
        offsets = {(0,) * len(self.ranks)}
        for d, n, stride in loops:
            step = self.move(d, stride)
            offsets = {
                tuple(a + i * s for a, s in zip(at, step, strict=True)) for at in offsets for i in range(n)
            }
        return len(offsets)

    def few_distinct(self, factors: Array, multicast: bool) -> Array:
        """At most that number for all strides, given factors (choice, dimension): windows may coincide."""
        if not multicast:
            return np.asarray(factors.prod(axis=1))
        least: Array = factors[:, sorted(self.plain)].prod(axis=1)
        least = least * factors[:, sorted(self.tangled)].max(axis=1, initial=1)
        for (d, near), (e, far) in self.windows:
            pairs, index = np.unique(factors[:, [d, e]], axis=0, return_inverse=True)
            (a, b), strides = pairs.T, product(*(divisors(self.bounds[i]) for i in (d, e)))
            ratios = {Fraction(near * x, far * y) for x, y in strides}
            need(len(ratios) * len(a) < MOST_PAIRS, "windows have too many strides", CannotCheckError)
            again = (np.maximum(a - r.denominator, 0) * np.maximum(b - r.numerator, 0) for r in ratios)
            least = least * (a * b - reduce(np.maximum, again))[index.ravel()]
        return least

    def decisive(
        self, loops: Iterable[tuple[int, int]], inner: Whole, outer: Whole, spatial: bool
    ) -> Hashable:
        """What words written first depend on: all loops that move a tile, in any order within a node."""
        return frozenset((d, n, inner[d]) for d, n in loops if n > 1 and d in self.relevant)


class Timeloop(Dataspace):
    """Timeloop's rule: each loop is looked at between its first two iterations only."""

    @remembered
    def delivered(self, extent: Whole, loops: Strides, reuse: bool) -> int:
        """Words delivered to a tile of `extent`: the first tile, and what each loop outside of it brings."""
        tile: int = self.tile(extent)
        words = tile
        outer, at = prod(n for _, n, _ in loops), (0,) * len(self.ranks)
        first: tuple[int, ...] | None = None
        for d, n, stride in loops:
            step = self.move(d, stride)
            jump = tuple(a - b for a, b in zip(step, at, strict=True))
            first = step if first is None and any(step) else first
            new = 0 if not any(jump) else int(self.fresh(extent, jump)) if jump == first else tile
            words += (outer - outer // n) * (new if reuse else tile)
            outer, at = outer // n, tuple(map(sum, zip(at, step, strict=True)))
        return words

    def few_words(self, extent: Extent, stride: Extent, left: Extent, outer: Number) -> Number:
        """At most the words delivered to a tile of `extent`, whatever the order of the loops above.

        `stride` is how far a dimension advances there, `left` the iterations left per dimension, `outer`
        their product. The first loop that moves the tile keeps what overlaps, and so do later ones that
        agree with it: those over its dimension, and those over both of a window unless they are apart.
        """
        tile = self.tile(extent)
        words = tile * prod(left[d] for d in self.plain) if self.tangled else outer * tile
        for d, e in [way for (a, _), (b, _) in self.windows for way in ((a, b), (b, a))]:
            new, factor = self.fresh(extent, self.move(d, stride[d])), divisors(self.bounds[d])[1]
            alone = (outer - outer // left[d]) * new + outer // left[d] * tile
            mixed = (outer + -outer // factor) * new + outer // (left[d] * left[e]) * tile
            least = np.where(self.apart(d, e, stride) | (left[e] == 1), alone, mixed)
            words = np.where(left[d] > 1, np.minimum(words, least), words)
        return words

    def apart(self, d: int, e: int, stride: Extent) -> Number:
        """Whether moves of the two dimensions of a window, from these strides on, can never sum up alike."""
        near, far = (max(abs(step) for step in self.move(i, 1)) for i in (d, e))
        farthest = far * (self.bounds[e] - stride[e]) // (divisors(self.bounds[e])[1] - 1)
        return (near * stride[d] > farthest) | (far * stride[e] > near * self.bounds[d])

    @remembered
    def loose(self, d: int, factor: int, stride: Whole) -> Whole:
        """Dimensions whose later loops may agree with the first that moves a tile, over `d`."""
        if d in self.tangled:
            return tuple(e for e in range(len(self.bounds)) if e not in self.plain)
        others = [e for pair in self.windows if d in dict(pair) for e in dict(pair) if e != d]
        apart = all(self.apart(d, e, stride) for e in others)
        return (d, *others) if not apart else (d,) if others and factor == 2 else ()

    def to_come(self, extent: Whole, loops: Strides, then: Whole, left: Whole, now: Whole) -> int:
        """At most the words that a tile gets first and from loops to come, by what is left of these.

        `loops` have moved it; dimensions advanced by `then` when they began, and advance by `now` here.
        """
        loose = self.loose(*loops[0][:2], then)
        tile: int = self.tile(extent)
        return tile * (prod(left) // prod(left[d] for d in loose))

    def memory(self, loops: Strides) -> Strides:
        """What decides, of the loops that move a tile, what those to come bring."""
        return tuple(loop for loop in loops if loop[0] in self.relevant)

    def begun(self, extents: Sequence[Whole], nest: Sequence[Strides], used: Mapping[int, int]) -> Begun:
        """The words that an instance of level p writes first: Timeloop's partitions."""
        tile = [self.tile(x) for x in extents]
        part = [
            reduce(lambda n, q: n * tile[q + 1] // tile[q], [q for q in used if q < p], tile[0])
            for p in range(len(nest))
        ]
        return lambda p, _: part[p]

    def decisive(
        self, loops: Iterable[tuple[int, int]], inner: Whole, outer: Whole, spatial: bool
    ) -> Hashable:
        """What words written first depend on: the sizes of tiles inside and outside of a fanout."""
        return (self.tile(inner), self.tile(outer)) if spatial else ()


class Executed(Dataspace):
    """The exact rule: what an execution moves that keeps of a tile what the next one shares with it."""

    @remembered
    def delivered(self, extent: Whole, loops: Strides, reuse: bool) -> int:
        """Words delivered to a tile of `extent`: the first tile, and what each loop outside of it brings.

        When a loop advances, those inside of it go from their last iteration back to their first.
        """
        tile: int = self.tile(extent)
        words = tile
        outer, last = prod(n for _, n, _ in loops), (0,) * len(self.ranks)
        for d, n, stride in loops:
            step = self.move(d, stride)
            new = (
                int(self.fresh(extent, tuple(a - b for a, b in zip(step, last, strict=True))))
                if reuse
                else tile
            )
            words += (outer - outer // n) * new
            outer, last = outer // n, tuple(b + (n - 1) * a for a, b in zip(step, last, strict=True))
        return words

    def few_words(self, extent: Extent, stride: Extent, left: Extent, outer: Number) -> Number:
        """At most the words delivered to a tile of `extent`, whatever the order of the loops above.

        `stride` is how far a dimension advances there, `left` the iterations left per dimension, `outer`
        their product. The first loop that moves the tile brings the same whenever it advances. If it runs
        over a plain dimension, all others bring the whole tile; plain ones do so in any case.
        """
        tile, plain = self.tile(extent), prod(left[d] for d in self.plain)
        words = outer * tile
        for d in sorted(self.tangled):
            new = self.fresh(extent, self.move(d, stride[d]))
            least = plain * tile + (outer - outer // least_factor(left[d], self.bounds[d])) * new
            words = np.where(left[d] > 1, np.minimum(words, least), words)
        for near, far in [way for one, other in self.windows for way in ((one, other), (other, one))]:
            least = plain * tile + self.led(near, far, extent, stride, left, outer, plain)
            words = np.where(left[near[0]] > 1, np.minimum(words, least), words)
        return words

    def led(
        self,
        near: Term,
        far: Term,
        extent: Extent,
        stride: Extent,
        left: Extent,
        outer: Number,
        plain: Number,
    ) -> Number:
        """At most the words of all advances but those of plain loops, if the first loop runs over `near`.

        `near` and `far` are the terms of a window. When a loop advances, the tile moves along it by the
        loop's step, less the way that loops inside of it go back.
        """
        (d, by), (e, over) = near, far
        length = 1 + abs(by) * (extent[d] - 1) + abs(over) * (extent[e] - 1)
        row, first = self.tile(extent) // length, least_factor(left[d], self.bounds[d])
        step, leap = abs(by) * stride[d], abs(over) * stride[e]
        reach = abs(by) * (self.bounds[d] - self.bounds[d] // left[d])
        span = abs(over) * (self.bounds[e] - self.bounds[e] // left[e])
        back = (first - 1) * step
        on = np.maximum(np.maximum(step - span, np.minimum(step, leap - reach)), 0)
        across = np.maximum(np.maximum(leap - reach, back - span), 0)
        shares = [self.shared(terms, extent, stride, left) for terms in self.windows if d not in dict(terms)]
        elsewhere = prod(n for n, _, _ in shares)
        on, across, gone, new = (row * np.minimum(way, length) for way in (on, across, back, step))
        kept = row * np.maximum(length - back, 0)
        others = [(left[d] // first, on), (outer // (left[d] * left[e] * plain * elsewhere), gone)]
        turned = [row * length - kept // long * rest for _, long, rest in shares]
        others += [(elsewhere, reduce(np.minimum, turned))] if turned else []
        orders = [[*others[:i], (left[e], across), *others[i:]] for i in range(len(others) + 1)]
        return reduce(np.minimum, (advances(outer, [(first, new), *order]) for order in orders))

    def shared(self, terms: Rank, extent: Extent, stride: Extent, left: Extent) -> tuple[Number, int, Number]:
        """Places along another window, its length, and what it shares at most when its loops advance."""
        length: Number = 1 + sum(abs(c) * (extent[i] - 1) for i, c in terms)
        rest: Number = 0
        for (i, c), (other, far) in (terms, terms[::-1]):
            way = abs(c) * stride[i] - abs(far) * (self.bounds[other] - self.bounds[other] // left[other])
            rest = np.maximum(rest, np.where(left[i] > 1, length - np.clip(way, 0, length), 0))
        return prod(left[i] for i, _ in terms), length, rest

    def to_come(self, extent: Whole, loops: Strides, then: Whole, left: Whole, now: Whole) -> int:
        """At most the words that a tile gets first and from loops to come, by what is left of these.

        `loops` have moved it; dimensions advanced by `then` when they began, and advance by `now` here.
        """
        return self.coming(extent, self.memory(loops), left, now)

    @remembered
    def coming(self, extent: Whole, last: Whole, left: Whole, now: Whole) -> int:
        """The same of a tile that is at its `last` place; the loops that bring least count as innermost."""
        classes = []
        for d in (d for d, n in enumerate(left) if n > 1):
            jump = [self.jump(d, rank, way, left, now) for rank, way in zip(self.ranks, last, strict=True)]
            classes.append((int(self.fresh(extent, jump)), left[d]))
        return int(self.tile(extent) + advances(prod(left), [(n, words) for words, n in sorted(classes)]))

    def jump(self, d: int, rank: Rank, last: int, left: Whole, now: Whole) -> int:
        """How far a tile moves along a rank at least when a loop to come over `d` advances.

        It goes back by `last` for the loops so far, and by any way for others inside of the loop.
        """
        low = high = -last
        for e, c in rank:
            farthest = self.bounds[e] - self.bounds[e] // left[e]
            ways = (c * now[e], c * farthest) if e == d else (0, -c * farthest)
            low, high = low + min(ways), high + max(ways)
        return max(low, -high, 0)

    @remembered
    def memory(self, loops: Strides) -> Whole:
        """What decides, of the loops that move a tile, what those to come bring: the last place."""
        steps = [[(n - 1) * step for step in self.move(d, stride)] for d, n, stride in loops]
        return tuple(map(sum, zip(*steps, strict=True)))

    def begun(self, extents: Sequence[Whole], nest: Sequence[Strides], used: Mapping[int, int]) -> Begun:
        """The words that an instance of level p writes first for tiles of level q: all that these cover."""

        def words(p: int, q: int | None) -> int:
            q = len(nest) if q is None else q
            nodes = [i for i in range(q) if i not in used or i > p]
            return self.covered(extents[q], tuple(sorted(chain(*(nest[i] for i in nodes)))))

        return words

    @remembered
    def covered(self, extent: Whole, loops: Strides) -> int:
        """Distinct words of all places of a tile: a product over ranks that share no dimension."""
        words: int = 1
        lengths, whole = self.lengths(extent), self.lengths(self.bounds)
        for ranks in self.groups:
            *others, last = ranks
            unit = {r: prod(whole[other] for other in ranks[i + 1 :]) for i, r in enumerate(ranks)}
            every = [(n, self.move(d, stride)) for d, n, stride in loops if d not in self.plain]
            moves = [(n, move) for n, move in every if any(move[r] for r in ranks)]
            steps = [(n, sum(move[r] * unit[r] for r in ranks)) for n, move in moves]
            places = listed([*((lengths[r], unit[r]) for r in others), *steps])
            words *= int(lengths[last] + np.minimum(np.diff(places), lengths[last]).sum())
        alone = {*range(len(lengths))}.difference(*self.groups)
        words *= prod(lengths[r] for r in alone) * prod(n for d, n, _ in loops if d in self.plain)
        return words


class Placed(Dataspace):
    """AccelForge's rule: each loop outside of a tile fetches it again, whether it moves the tile or not.

    Only the first loop outside of a tile keeps what overlaps with the tile before. Children share accesses
    along loops that do not move their tiles, and loops that move them count as touching new words.
    """

    def __init__(self, doc: Json, bounds: Sequence[int]) -> None:
        super().__init__(doc, bounds)
        self.ending, self.sliding = {*range(len(bounds))}, sorted(self.relevant - self.plain)
        need(self.dense or not self.rw, "outputs have no windows by this rule", CannotCheckError)

    def stays(self, doc: Json) -> bool:
        """Whether a part of a tile may stay."""
        return doc["temporal_reuse"] and bool(self.sliding)

    def distinct(self, loops: Strides, multicast: bool) -> int:
        """Children that spatial loops span, those along loops that do not move a tile only once."""
        return prod(n for d, n, _ in loops if d in self.relevant or not multicast)

    def few_distinct(self, factors: Array, multicast: bool) -> Array:
        """The same, given factors (choice, dimension)."""
        return np.asarray(factors[:, sorted(self.relevant) if multicast else slice(None)].prod(axis=1))

    def distinct_again(self, factors: Array) -> Array:
        """Per choice, the children of a fanout along loops that do not move a tile."""
        return np.asarray(factors.prod(axis=1) // self.few_distinct(factors, True))

    @remembered
    def delivered(self, extent: Whole, loops: Strides, reuse: bool) -> int:
        """Words delivered to a tile of `extent`: whole tiles, but for what the first loop outside brings."""
        tile: int = self.tile(extent)
        outer = prod(n for _, n, _ in loops)
        if not reuse or not loops:
            return outer * tile
        d, n, stride = loops[0]
        new = int(self.fresh(extent, self.move(d, stride))) if d in self.relevant else tile
        return int(advances(outer, [(n, new), (outer // n, tile)])) + tile

    def few_words(self, extent: Extent, stride: Extent, left: Extent, outer: Number) -> Number:
        """At most the words delivered to a tile of `extent`, whatever the order of the loops above."""
        tile = self.tile(extent)
        words = outer * tile
        for d in self.sliding:
            new = self.fresh(extent, self.move(d, stride[d]))
            least = outer // left[d] * tile + (outer - outer // left[d]) * new
            words = np.where(left[d] > 1, np.minimum(words, least), words)
        return words

    def to_come(self, extent: Whole, loops: Strides, then: Whole, left: Whole, now: Whole) -> int:
        """The words that a tile gets first and from loops to come: whole tiles."""
        tile: int = self.tile(extent)
        return tile * prod(left)

    def memory(self, loops: Strides) -> Strides:
        """What decides, of the loops that follow a tile, what those to come bring: nothing."""
        return ()

    def begun(self, extents: Sequence[Whole], nest: Sequence[Strides], used: Mapping[int, int]) -> Begun:
        """The words that an instance of level p writes first for tiles of level q."""

        def words(p: int, q: int | None) -> int:
            q = len(nest) if q is None else q
            moving = [n for i in range(q) if i not in used for d, n, _ in nest[i] if d in self.relevant]
            apart = (self.distinct(nest[i], self.multicast[i]) for i in used if p < i < q)
            tile: int = self.tile(extents[q])
            return tile * prod(moving) * prod(apart)

        return words


Counted = Executed | Timeloop | Placed
RULES: dict[str, Any] = {"exact": Executed, "timeloop": Timeloop, "accelforge": Placed}


class Space(Problem):
    """A mapspace of perfect factors: its choices of spatial factors, exact costs, and floors under them."""

    is_sparse = False
    spaces: list[Counted]

    def __init__(self, doc: Json) -> None:
        need(doc["counting"] in [*RULES], "words are counted by a known rule")
        super().__init__(doc)
        states = prod(len(divisors(n)) for n in self.bounds)
        need(states < MOST_STATES, "the problem is too large", CannotCheckError)
        self.exact, self.placed = doc["counting"] != "timeloop", doc["counting"] == "accelforge"
        rule: type[Counted] = RULES[doc["counting"]]
        self.spaces = [rule(space, self.bounds) for space in doc["dataspaces"]]
        for v, space in enumerate(self.spaces):
            space.multicast = {p: self.nodes[p]["multicast"][v] for p in self.fans}
        blocks = {held["block"] for own in self.at.values() for held in own}
        need(not self.placed or blocks == {1}, "words are paid one by one by this rule", CannotCheckError)
        self.bounded(self.spaces)
        self.spatial = self.choices()
        self.rules = Rules(doc, self)
        self.steps = self.computes // self.spatial.prod(axis=(1, 2))

    def rates(self, v: int, p: int, kind: str) -> Rates:
        """Cycles that a word takes of the limited bandwidths (level, kind) that it uses."""
        widths, scale = self.nodes[p]["bandwidths"], Fraction(*self.at[p][v]["bandwidth_scale"])
        home = self.home[p]
        rates = {(home, way): scale / Fraction(*widths[way]) for way in (kind, "shared") if widths[way]}
        ports = ((i, Fraction(*port[kind])) for i, port in enumerate(self.nodes[p].get("ports", ())))
        return rates | {(home, f"port {i}"): scale * cycles for i, cycles in ports if cycles}

    def leaks(self, used: Mapping[int, int]) -> list[int]:
        """Leakage of each level per cycle, given how many children each fanout uses."""
        nodes = [self.nodes[p] for p in self.stores]
        return [node["leak"] * prod(used[q] for q in node["leak_fanouts"]) for node in nodes]

    def least_leakage(self, used: Mapping[int, int], busy: int, steps: int) -> int:
        """What leaks at least while levels are busy for so many cycles, which may have been rounded up."""
        leaks = self.leaks(used)
        if not self.placed:
            return busy * sum(leaks)
        return max(0, max(busy - 1, steps) * sum(leaks) - sum(map(bool, leaks)))

    def accesses(
        self,
        v: int,
        kept: Levels,
        one: Number,
        used: Mapping[int, Number],
        split: Callable[[int], Any],
        part: Callable[[int, int | None], Any],
    ) -> Iterator[Access]:
        """Yield accesses: source, level, bandwidth, words of a block and its energy, payers, times, first.

        Words delivered into level `source` (None: the arithmetic) cause max(0, words * times - first)
        accesses per instance. Fanout p uses `used[p]` children, `split(p)` of them with different tiles;
        level p writes `part(p, source)` words before it reads them for tiles of the level inside.
        """
        source: int | None = None
        times, rw = one, self.spaces[v].rw
        for p in range(len(self.nodes) - 1, kept[0] - 1, -1):
            times = times * split(p) if p in used else times
            if p not in kept:
                continue
            doc, above = self.at[p][v], prod([n for q, n in used.items() if q < p], start=one)
            if "toll" in doc:
                yield from self.tolls(doc, source, p, times, part(p, source) if rw else 0 * one, above, rw)
                continue
            passes, paying = doc["passes_on"], np.minimum(above, min(self.nodes[p]["most_paying"], EXACT))
            writes = rw and not passes and not doc["first_write_reads"]
            first, own = (part(p, source), part(p, p)) if writes else (0 * one, 0 * one)
            kinds: list[tuple[int | None, str, Number, Number]] = [(source, "read", times, first)]
            if p > kept[0]:
                kinds.append((source, "fill", times, 0 * one) if rw and passes else (p, "fill", one, own))
            if rw:
                kinds.append((source, "update", times, 0 * one))
            if rw and self.placed and p > kept[0]:
                kinds.append((p, "read", one, 0 * one))
            for origin, action, often, free in kinds:
                kind = "read" if action == "read" else "write"
                yield origin, p, kind, doc["block"], doc[action], paying, often, free
            source, times = (source, times) if passes else (p, one)

    def tolls(
        self, doc: Json, source: int | None, p: int, times: Number, first: Number, above: Number, rw: bool
    ) -> Iterator[Access]:
        """Yield the same of a level that words only pass, those that go down and those that go up."""
        (down, up), paying = doc["toll"], np.minimum(above, min(self.nodes[p]["most_paying"], EXACT))
        if down:
            yield source, p, "read", doc["block"], doc["read"], paying, times, first
        if up and rw:
            yield source, p, "write", doc["block"], doc["update"], paying, times, 0 * first

    def moves(self, loops: Loops, mask: Mask) -> tuple[list[Move], Counter[int], dict[int, int]]:
        """What a mapping moves: accesses as `accesses` has them with their number; room; children in use."""
        extents, nest = self.nest(loops)
        used = {p: prod(loops[p].values()) for p in self.fans}
        steps: int = self.computes // prod(used.values())
        moves: list[Move] = []
        sizes: Counter[int] = Counter()
        for v, (space, kept) in enumerate(zip(self.spaces, mask, strict=True)):
            words: dict[int | None, int] = {None: steps}
            for p in kept:
                above = tuple(loop for q in reversed(range(p)) if q not in used for loop in nest[q])
                words[p] = space.delivered(extents[p], above, space.stays(self.at[p][v]))
                sizes[self.home[p]] += space.tile(extents[p]) * self.at[p][v]["size"]
            split = {p: space.distinct(nest[p], self.nodes[p]["multicast"][v]) for p in used}
            charges = self.accesses(v, kept, 1, used, split.get, space.begun(extents, nest, used))
            for source, p, kind, block, access, paying, times, first in charges:
                moves.append((v, p, kind, block, access, int(paying), max(0, words[source] * times - first)))
        return moves, sizes, used

    def nest(self, loops: Loops) -> tuple[list[Whole], list[Strides]]:
        """Iterations at and inside of each node, inside of all at last, and each node's loops."""
        extents: list[Whole] = [(1,) * len(self.bounds)]
        found: list[Strides] = []
        for factors in reversed(loops):
            found.insert(0, tuple((d, n, extents[0][d]) for d, n in factors.items()))
            extents.insert(0, tuple(x * factors.get(d, 1) for d, x in enumerate(extents[0])))
        return extents, found

    def fits(self, sizes: Mapping[int, int]) -> bool:
        """Whether tiles of these sizes fit."""
        limits = ((sizes[p], *self.sizes[p]) for p in self.homes)
        return all(least <= size <= most for size, least, most in limits)

    def price(self, loops: Loops, mask: Mask) -> Cost:
        """The exact energy, cycles and product of both of a mapping, and whether its tiles fit."""
        moves, sizes, used = self.moves(loops, mask)
        energy, steps = self.arithmetic, self.computes // prod(used.values())
        counts: Counter[tuple[int, int, str]] = Counter()
        for v, p, kind, block, access, paying, count in moves:
            energy += -(-count // block) * access * paying
            counts[self.home[p], v, kind] += count
        busy = max(self.level_cycles(p, counts, steps) for p in self.homes)
        cycles = math.ceil(busy) + self.latency
        energy += sum(round(leak * busy) for leak in self.leaks(used))
        return {
            "energy": energy,
            "latency": cycles,
            "edp": energy * cycles,
            "fits": self.fits(sizes),
        }

    def level_cycles(self, p: int, counts: Mapping[Any, Any], steps: int) -> Fraction | int:
        """Cycles that level `p` needs, in doubles as Timeloop defines them, or exact quotients rounded up."""
        if self.exact:
            pairs = [*product(range(len(self.spaces)), ("read", "write"))]
            rates = [(pair, self.rates(pair[0], p, pair[1])) for pair in pairs]
            loads = [(way, rate * counts[p, *pair]) for pair, own in rates for way, rate in own.items()]
            busy = (sum(load for way, load in loads if way == own) for own, _ in loads)
            found: Fraction | int = max(steps, *(busy if self.placed else map(math.ceil, busy)), 0)
            return found
        demand, widths, slowdown = {"read": 0.0, "write": 0.0}, self.nodes[p]["bandwidths"], 1.0
        for v, kind in product(range(len(self.spaces)), demand):
            demand[kind] += counts[p, v, kind] / steps * float(Fraction(*self.at[p][v]["bandwidth_scale"]))
        for kind, words in (*demand.items(), ("shared", sum(demand.values()))):
            width = float(Fraction(*widths[kind])) if widths[kind] else inf
            slowdown = min(slowdown, width / words) if width < words else slowdown
        return math.ceil(steps / slowdown)

    def above(self, p: int, dims: Iterable[int]) -> Array:
        """Per choice, the product of the factors over `dims` in the fanouts above node `p`."""
        return np.asarray(self.spatial[:, [q < p for q in self.fans]][:, :, sorted(dims)].prod(axis=(1, 2)))

    @remembered
    def charges(self, v: int, kept: Levels) -> list[Access]:
        """The accesses to dataspace `v`, with arrays per choice, no cheaper than in any mapping."""
        space, fans = self.spaces[v], dict(zip(self.fans, np.moveaxis(self.spatial, 1, 0), strict=True))
        dims, used = space.relevant if space.dense else (), {p: n.prod(axis=1) for p, n in fans.items()}
        split = {p: space.few_distinct(n, self.nodes[p]["multicast"][v]) for p, n in fans.items()}
        part = {p: space.tile(self.bounds) // self.above(p, dims) for p in kept}
        if isinstance(space, Placed):  # children that share nothing touch words apart
            alone = {p: [n for q, n in fans.items() if q > p and not space.multicast[q]] for p in kept}
            part = {p: n * prod(space.distinct_again(own) for own in alone[p]) for p, n in part.items()}
        return [*self.accesses(v, kept, 1 + 0 * self.steps, used, split.get, lambda p, _: part[p])]

    @remembered
    def fewest(self, v: int, p: int) -> Number:
        """Least words that all instances of level `p` get of dataspace `v`, over all tiles that fit."""
        space = self.spaces[v]
        tile = np.ix_(*(divisors(n) if d in space.relevant else [1] for d, n in enumerate(self.bounds)))
        left = [side.max() // side for side in tile]
        fits = space.tile(tile) * self.at[p][v]["size"] <= self.sizes[p][1]
        return np.where(fits, space.few_words(tile, tile, left, prod(left)), EXACT).min()

    @remembered
    def floor(self, v: int, kept: Levels, measure: Measure) -> Array:
        """Per choice, at most the energy of dataspace `v`, or its cycles of the bandwidth `measure`."""
        return self.floor_of(v, kept, measure)

    def floor_of(self, v: int, kept: Levels, measure: Measure) -> Array:
        """Per choice, at most the energy of dataspace `v`, or its cycles of the bandwidth `measure`."""
        relevant = self.spaces[v].relevant
        total: Array = 0.0 * self.steps
        for source, p, kind, block, access, paying, times, first in self.charges(v, kept):
            words = self.steps if source is None else self.fewest(v, source) / self.above(source, relevant)
            unit: Number = (
                float(self.rates(v, p, kind).get(measure, 0)) if measure else access / block * paying
            )
            total = total + unit * (words * times * (1 - SLACK) - first * (1 + SLACK))
        return total
