"""Decides one choice of keeping levels and spatial factors for `prove.py`: tables, then all open nests."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np
from prove_bounds import KINDS, Choices, Measure, few_words, lattice
from prove_space import INF, CannotCheckError, divisors, positive

MOST_NESTS, FEW_NESTS = 1 << 20, 1000
EXACT_SLACK = Fraction(1, 10**9)  # relative; covers the rounding of the cost model's doubles
State = tuple[int | None, ...]  # per dataspace, since which level its tile is in place; None: no longer
Mask = Sequence[tuple[int, ...]]  # per dataspace, the levels that keep it
Left = tuple[int, ...]  # per dimension, the iterations left for temporal loops farther out


class Query(NamedTuple):
    """Asks for a mapping with at most this energy, cycles, and product of both."""

    energy: Any = math.inf
    cycles: Any = math.inf
    edp: Any = math.inf


class Rate(NamedTuple):
    """What words delivered cost: max(0, words * times - first) accesses, some of them in blocks."""

    times: int
    first: int
    block: int
    per_block: int
    per_word: int
    most: int


class Choice:
    """One set of keeping levels per dataspace with one choice of spatial factors; temporal loops are open.

    A point of a nest is known by what is left to iterate outside of it, and by the tiles that have been in
    place up to it. Tables hold the least cost of all that lies outside of every point, slot by slot.
    """

    def __init__(self, choices: Choices, mask: Mask, index: int) -> None:
        self.space = space = choices.space
        self.mask, self.steps = mask, int(choices.steps[index])
        self.spatial: list[list[int]] = choices.spatial[index].tolist()
        self.children = {p: int(own[index]) for p, own in choices.children.items()}
        self.charges = [
            [(*charge[:3], *(int(part[index]) for part in charge[3:])) for charge in choices.charges(v, kept)]
            for v, kept in enumerate(mask)
        ]
        factors = choices.spatial[index].prod(axis=0).tolist()
        self.bounds: Left = tuple(n // s for n, s in zip(space.bounds, factors, strict=True))
        self.shape, self.left, self.axes, self.places = lattice(self.bounds)
        self.inside = [n // left for n, left in zip(self.bounds, self.left, strict=True)]
        self.outer = math.prod(self.left) + np.zeros(self.shape, dtype=np.int64)
        self.below = {
            p: [math.prod(s) for s in zip(*self.spatial[sum(q <= p for q in space.fans) :], strict=True)]
            or [1] * len(factors)
            for p in space.levels
        }
        self.reused = [
            [p for p in kept[1:] if not space.flag(p, "no_temporal_reuse", v)] for v, kept in enumerate(mask)
        ]
        self.factors = {
            p: [[f for f in divisors(n) if space.allows(p, d, f)] for d, n in enumerate(self.bounds)]
            for p in space.levels
        }
        self.none: State = (None,) * len(mask)

    def decide(self, query: Query, low: int, measure: Measure, pivot: int) -> Any:
        """Return the cost of a mapping that satisfies the query, None if there is none here.

        Its cycles are at least `low`. Intervals of cycles are decided apart: below `pivot` and from there on,
        and for a limit on energy * cycles they are halved as long as the walk leaves too much open.
        """
        split = measure is not None and low < pivot <= query.cycles
        intervals = [(low, pivot - 1), (pivot, query.cycles)] if split else [(low, query.cycles)]
        while intervals:
            low, high = intervals.pop()
            if low > high or not self.tightest(query, low, high, measure):
                continue
            if query.edp < math.inf and high == math.inf and measure is not None:
                intervals.append((low, query.edp // max(1, self.least)))
                continue
            halve = query.edp < math.inf and measure is not None and high > 1.01 * low
            found = self.search(query, FEW_NESTS if halve else MOST_NESTS, again=not halve)
            if found:
                return found
            if halve and (self.missed or self.exhausted):
                middle = math.isqrt(low * int(high))
                intervals += [(low, middle), (middle + 1, high)]
            elif self.exhausted:
                raise CannotCheckError("too many nests are left open by the bounds")
        return None

    def tightest(self, query: Query, low: int, high: Any, measure: Measure) -> bool:
        """Fill the tables by the tilt that leaves least open; False if one leaves nothing open."""
        slack: dict[int, float] = {}
        for tilt in (0, 2, 1) if measure is not None and 0 < high < math.inf else (0,):
            if not self.bound(query, low, high, measure, tilt):
                return False
            slack[tilt] = self.slack
        best = min(slack, key=lambda tilt: slack[tilt])
        return best == tilt or self.bound(query, low, high, measure, best)

    def bound(self, query: Query, low: int, high: Any, measure: Measure, tilt: int) -> bool:
        """Fill the tables for mappings whose cycles lie from `low` to `high`; False if none is left open.

        What is bounded is energy + slope * cycles, which is at most `top` for all mappings that satisfy the
        query: on the hyperbola energy * cycles = edp it is largest at an end. With `tilt` 1 the line is the
        chord. Cycles count by one bandwidth, and at least `low` times the leakage.
        """
        energy, slope, top = 1, 0, min(query.energy, query.edp // low)
        if top == math.inf:
            energy, top, slope = 0, 0, (1 << 30 if high < math.inf else 0)
        elif high < math.inf:
            slope = tilt * int(min(top, query.edp // high) // low)
        if slope:
            most = [
                min(query.energy, query.edp // n) + slope * int(n) + 1 if energy else slope * n
                for n in (low, high)
            ]
            top = max(most)
        leak = energy * sum(self.space.leak(p, self.children) for p in self.space.levels)
        fixed = energy * self.space.computing + low * leak
        unit = self.set_rates(energy, slope, high, measure, top - fixed)
        operands = sum(self.charge(v, None, self.steps) for v in range(len(self.mask)))
        self.limit = (top - fixed) // unit + 1 - operands
        if self.limit <= 0:
            return False
        self.fill()
        rest = int(self.table[self.space.levels[-1]][-1][0][self.none].flat[-1])
        self.least, self.slack = fixed + unit * (operands + rest), 1 - rest / self.limit
        return rest < self.limit

    def set_rates(self, energy: int, slope: int, high: Any, measure: Measure, top: Any) -> int:
        """Set what words cost, in a unit (returned) that keeps sums small; prices are rounded down to it."""
        space = self.space
        rates: list[tuple[tuple[int, int | None], Rate]] = []
        for v, own in enumerate(self.charges):
            for source, p, action, times, first, paying in own:
                node, word, most = space.nodes[p], 0, INF
                for kind in ("shared", KINDS[action]):
                    rate = space.rate(v, p, kind)
                    if rate and high < math.inf:
                        most = min(most, math.ceil(high / rate * (1 + EXACT_SLACK)))
                    if (p, kind) == measure:
                        word = math.floor(slope * rate * (1 - EXACT_SLACK))
                price = energy * node["energy"][action] * paying
                rates.append(((v, source), Rate(times, first, node["block_size"], price, word, most)))
        unit = max(1, math.gcd(*(n for _, rate in rates for n in (rate.per_block, rate.per_word))))
        while top // unit >= INF:
            unit *= 2
        self.rates: dict[tuple[int, int | None], list[Rate]] = defaultdict(list)
        for key, rate in rates:
            block, word = rate.per_block // unit, rate.per_word // unit
            most = min(rate.most, INF // (block // rate.block + word + 1))
            self.rates[key].append(rate._replace(per_block=block, per_word=word, most=most))
        return unit

    def charge(self, v: int, source: int | None, words: Any) -> Any:
        """Cost of the accesses that words delivered into `source` cause; at least `INF` beyond a limit."""
        total = 0
        for rate in self.rates[v, source]:
            count = positive(words * rate.times - rate.first)
            some = rate.most - positive(rate.most - count)
            total = (
                total
                - (-some // rate.block) * rate.per_block
                + some * rate.per_word
                + (count > rate.most) * INF
            )
        return total

    def extents(self, p: int, inside: Sequence[Any]) -> list[Any]:
        """Extents of the tile of level `p`, of its temporal and all spatial loops inside."""
        return [x * s for x, s in zip(inside, self.below[p], strict=True)]

    def fits(self, p: int) -> Any:
        """Where the kept tiles fit level `p`, and factor rules can be met on both sides of its boundary."""
        extent, (least, most) = self.extents(p, self.inside), self.space.usable(p)
        words = sum(
            (self.space.tile(v, extent) for v, kept in enumerate(self.mask) if p in kept), 0 * self.outer
        )
        fits = (least <= words) & (words <= most)
        for d, n in enumerate(self.bounds):
            sides = [{1}, {1}]
            for q in self.space.levels:
                own = self.factors[q][d]
                sides[q < p] = {a * f for a in sides[q < p] for f in own if n % (a * f) == 0}
            fits = fits & np.isin(self.inside[d], [x for x in sides[0] if n // x in sides[1]])
        return fits

    def once(self, v: int, p: int, inside: Sequence[Any], outer: Any) -> Any:
        """Cost of what level `p` gets of dataspace `v` if it keeps it without any reuse."""
        if p not in self.mask[v][1:] or p in self.reused[v]:
            return 0
        return self.charge(v, p, outer * self.space.tile(v, self.extents(p, inside)))

    def due(self, v: int, since: Any, p: int, inside: Any, left: Any, outer: Any, only: Any = None) -> Any:
        """Cost of the tiles of `v` in place since level `since` if their reuse ends in the slot of `p`."""
        stride = self.extents(p, inside)
        return sum(
            self.charge(v, c, few_words(self.space, v, self.extents(c, inside), stride, left, outer, only))
            for c in self.reused[v]
            if p < c <= since
        )

    def crossed(self, state: State, p: int) -> State:
        """The state outside of the boundary of level `p`: what it keeps is in place from there on."""
        return tuple(p if s is None and p in own else s for s, own in zip(state, self.reused, strict=True))

    def stages(self, p: int) -> list[list[int]]:
        """Dimensions that the slot of level `p` may iterate over, innermost first; listed ones one by one."""
        inner, outer, _ = self.space.order[p]
        middle = [d for d in range(len(self.bounds)) if d not in (*inner, *outer)]
        parts = (*([d] for d in inner), middle, *([d] for d in outer))
        moving = [[d for d in dims if max(self.factors[p][d], default=1) > 1] for dims in parts]
        return [dims for dims in moving if dims] or [[]]

    def fill(self) -> None:
        """Fill the tables from the outermost slot inwards; per stage: before it, after it, its dimensions."""
        space, nowhere = self.space, np.full(self.shape, INF)
        self.table: dict[int, list[tuple[dict[State, Any], dict[State, Any], list[int]]]] = {}
        after: dict[State, Any] = {self.none: nowhere.copy()}
        after[self.none].flat[0] = 0
        for p in space.levels:
            options = [[None, *(c for c in own if c > p)] for own in self.reused]
            states = sorted(product(*options), key=lambda state: -state.count(None))
            once = sum(self.once(v, p, self.inside, self.outer) for v in range(len(self.mask)))
            once = once + np.where(self.fits(p), 0, INF)
            after = {s: np.minimum(INF, once + after.get(self.crossed(s, p), nowhere)) for s in states}
            due = {
                (v, since): np.minimum(INF, self.due(v, since, p, self.inside, self.left, self.outer))
                for v, own in enumerate(options)
                for since in own
                if since is not None
            }
            self.table[p] = []
            for dims in reversed(self.stages(p)):
                before: dict[State, Any] = {}
                for state in states:
                    best, held = after[state], set()
                    for v, since in enumerate(state):
                        if since is not None:
                            rest = before[(*state[:v], None, *state[v + 1 :])]
                            best, held = np.minimum(best, due[v, since] + rest), held | space.relevant[v]
                    for axis in chain(*(self.axes[d] for d in dims if d not in held)):
                        best = np.minimum.accumulate(best, axis=axis)
                    before[state] = best
                self.table[p].append((before, after, dims))
                after = before

    def search(self, query: Query, budget: int, again: bool) -> Any:
        """Walk through all nests that the tables leave open.

        At first, of nests that agree in all that lies ahead only the cheapest goes on. That decides unless
        one that is complete turns out to miss the query, as its true cost is more: then all are walked.
        """
        for memo in ({}, None) if again else ({},):
            self.memo: dict[Any, int] | None = memo
            self.budget, self.missed, self.exhausted = budget, False, False
            loops: list[list[tuple[int, int]]] = [[] for _ in self.space.nodes]
            found = self.step(query, len(self.space.levels) - 1, -1, self.bounds, self.none, 0, loops)
            if found or not self.missed:
                return found
        return None

    def seen(self, key: Any, spent: int) -> bool:
        """Whether the walk need not go on from here."""
        self.budget -= 1
        self.exhausted |= self.budget < 0
        if self.memo is None or self.exhausted:
            return self.exhausted
        if self.memo.get(key, INF) <= spent:
            return True
        self.memo[key] = spent
        return False

    def step(self, query: Query, j: int, stage: int, left: Left, state: State, spent: int, loops: Any) -> Any:
        """Try every loop that may come next at the j-th level, then what lies farther out."""
        space, p = self.space, self.space.levels[j]
        own, (before, after, dims) = loops[p], self.table[p][stage]
        if self.seen((p, stage, left, state, frozenset(own)), spent):
            return None
        inside, outer = [n // x for n, x in zip(self.bounds, left, strict=True)], math.prod(left)
        for d in dims:
            ends = [v for v, since in enumerate(state) if since is not None and d in space.relevant[v]]
            then = tuple(None if v in ends else since for v, since in enumerate(state))
            for factor in self.factors[p][d]:
                if factor == 1 or left[d] % factor or d in dict(own):
                    continue
                rest = (*left[:d], left[d] // factor, *left[d + 1 :])
                ended = (self.due(v, state[v], p, inside, left, outer, (d, factor)) for v in ends)
                cost = spent + sum(ended)
                if cost + self.look(before[then], rest) < self.limit:
                    own.append((d, factor))
                    found = self.step(query, j, stage, rest, then, cost, loops)
                    own.pop()
                    if found:
                        return found
        if -stage < len(self.table[p]):
            open_ = spent + self.look(after[state], left) < self.limit
            return self.step(query, j, stage - 1, left, state, spent, loops) if open_ else None
        if not all(dict(own).get(d, 1) in self.factors[p][d] for d in range(len(left))):
            return None
        if j == 0:
            return self.complete(query, loops) if outer == 1 else None
        spent += sum(self.once(v, p, inside, outer) for v in range(len(self.mask)))
        outside, then = self.table[space.levels[j - 1]][-1][0], self.crossed(state, p)
        fits = self.look(after[state], left) < INF
        if not fits or spent + self.look(outside[then], left) >= self.limit:
            return None
        return self.step(query, j - 1, -1, left, then, spent, loops)

    def look(self, table: Any, left: Left) -> int:
        """The entry of a table for what is left."""
        return int(table[tuple(chain(*(place[n] for place, n in zip(self.places, left, strict=True))))])

    def complete(self, query: Query, loops: Any) -> Any:
        """The cost of the mapping with these temporal loops, if it is valid and satisfies the query."""
        full = [list(own) for own in loops]
        for p, row in zip(self.space.fans, self.spatial, strict=True):
            full[p] = [(d, factor) for d, factor in enumerate(row) if factor > 1]
        cost = self.space.price(full, self.mask)
        good = cost["fits"] and all(cost[key] <= getattr(query, key) for key in query._fields)
        self.missed |= not good
        return cost if good else None
