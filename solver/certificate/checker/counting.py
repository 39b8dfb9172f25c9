"""The counting rules: words that loops deliver to a tile where factors divide, of an execution and of others.

Each says as well at most how many words there are where the order and the factors of loops are open, and how
many words of an output are touched for the first time.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import dropwhile, product
from math import inf, prod
from typing import Any

import numpy as np

from solver.certificate.checker.claims import Array, Json, Number, able, remembered
from solver.certificate.checker.dataspaces import Dataspace, Extent, Rank, Strides, Term, Whole, divisors


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
        rest = steps // n
        words, steps = words + (steps - rest) * new, rest
    return words


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

    def memory(self, loops: Strides) -> Strides:
        """What decides, of the loops that move a tile, what those to come bring."""
        return tuple(loop for loop in loops if loop[0] in self.relevant)

    def begun(self, nest: Any, p: int, q: int) -> int:
        """The words that an instance of level `p` writes first: Timeloop's partitions."""
        fans = [f for f in nest.space.fans if f < p]
        tile = [self.tile(nest.extents[i]) for i in range(p + 1)]
        return reduce(lambda n, f: int(n * tile[f + 1] // tile[f]), fans, int(tile[0]))

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

        When a loop advances, those inside of it go from their last iteration back to their first. Where each
        rank has a dimension of its own, all is new from the first loop on that moves the tile.
        """
        tile: int = self.tile(extent)
        words = tile
        if self.is_plain and reuse:
            moving = dropwhile(lambda loop: loop[1] == 1 or loop[0] not in self.relevant, loops)
            return words * prod(n for _, n, _ in moving)
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

    @remembered
    def memory(self, loops: Strides) -> Whole:
        """What decides, of the loops that move a tile, what those to come bring: the last place."""
        steps = [[(n - 1) * step for step in self.move(d, stride)] for d, n, stride in loops]
        return tuple(map(sum, zip(*steps, strict=True)))


class Placed(Dataspace):
    """AccelForge's rule: each loop outside of a tile fetches it again, whether it moves the tile or not.

    Only the first loop outside of a tile keeps what overlaps with the tile before. Children share accesses
    along loops that do not move their tiles, and loops that move them count as touching new words.
    """

    def __init__(self, doc: Json, bounds: Sequence[int]) -> None:
        super().__init__(doc, bounds)
        self.ending, self.sliding = {*range(len(bounds))}, sorted(self.relevant - self.plain)
        able(
            self.dense or not self.rw,
            "the checker does not know outputs with windows by AccelForge's counting rule",
        )

    def stays(self, doc: Json) -> bool:
        """Whether a part of a tile may stay."""
        return doc["temporal_reuse"] and bool(self.sliding)

    def distinct(self, loops: Strides, multicast: bool) -> int:
        """Children that spatial loops span, those along loops that do not move a tile only once."""
        return prod(n for d, n, _ in loops if d in self.relevant or not multicast)

    def few_distinct(self, factors: Array, multicast: bool) -> Array:
        """The children of a fanout whose accesses count, given factors (choice, dimension)."""
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

    def memory(self, loops: Strides) -> Strides:
        """What decides, of the loops that follow a tile, what those to come bring: nothing."""
        return ()

    def begun(self, nest: Any, p: int, q: int) -> int:
        """The words that an instance of level `p` writes first for tiles of node `q`."""
        moving = [loop.factor for d in self.relevant for loop in nest.above(d, q)]
        fans = [f for f in nest.space.fans if p < f < q]
        apart = (self.distinct(nest.unrolled(f), self.multicast[f]) for f in fans)
        words: int = self.tile(nest.extents[q]) * prod(moving) * prod(apart)
        return words


def slowed(
    counts: Mapping[tuple[int, str], int], scales: Sequence[Fraction], widths: Json, steps: int
) -> int:
    """Cycles that a memory needs for what it reads and writes, in doubles, as Timeloop has it."""
    demand, slowdown = {"read": 0.0, "write": 0.0}, 1.0
    for v, kind in product(range(len(scales)), demand):
        demand[kind] += counts[v, kind] / steps * float(scales[v])
    for kind, load in (*demand.items(), ("shared", sum(demand.values()))):
        width = float(Fraction(*widths[kind])) if widths[kind] else inf
        slowdown = min(slowdown, width / load) if width < load else slowdown
    return math.ceil(steps / slowdown)


RULES: dict[str, type[Executed] | type[Timeloop] | type[Placed]] = {
    "exact": Executed,
    "timeloop": Timeloop,
    "accelforge": Placed,
}
