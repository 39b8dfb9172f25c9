"""The checker's bounds on mappings whose factors divide, and the enumeration of what these leave open.

Floors exclude most choices of spatial factors. Tables over temporal loops bound the others, and an
enumeration decides the nests that the tables leave open. docs/certificates.md explains why this is a proof.
"""

import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import chain
from math import inf, prod
from operator import eq, le
from typing import Any, NamedTuple

import numpy as np

from solver.certificate.checker.claims import (
    EXACT,
    MOST_ENTRIES,
    MOST_NESTS,
    SLACK,
    Array,
    CannotCheckError,
    Cost,
    Levels,
    Loops,
    Mask,
    Number,
    Query,
    State,
    need,
    remembered,
    satisfies,
)
from solver.certificate.checker.conditions import Case
from solver.certificate.checker.counting import Placed
from solver.certificate.checker.dataspaces import Extent, Strides, Whole, divisors
from solver.certificate.checker.remainders import Access, Bandwidth, Space
from solver.certificate.checker.tables import Known, Tables

Measure = Bandwidth | None  # None is energy
Prices = list[tuple[Any, ...]]
Pins = Sequence[tuple[tuple[int, ...], Any]]


class Charge(NamedTuple):
    """What accesses cost; numbers, or arrays of them per choice of spatial factors.

    Words that an instance of `source` gets (None: the arithmetic) cause max(0, words * times - first)
    accesses of each instance of the level, for all of which `paying` instances pay.
    """

    source: int | None
    access: Access
    price: int
    block: int
    paying: Any
    times: Any
    first: Any


class PerChoice:
    """What the choices of spatial factors cost at least, if all factors divide."""

    def __init__(self, space: Space) -> None:
        self.space, self.spaces, self.spatial = space, space.spaces, space.spatial
        self.steps = space.computes // self.spatial.prod(axis=(1, 2))
        self.fans = dict(zip(space.fans, np.moveaxis(self.spatial, 1, 0), strict=True))
        self.counted: tuple[int, Known] = -1, {}

    def words(self, i: int) -> Known:
        """Words that tables of choice `i` have counted; those of other choices are forgotten."""
        if self.counted[0] != i:
            self.counted = i, {}
        return self.counted[1]

    def above(self, p: int, dims: Iterable[int]) -> Array:
        """Per choice, the product of the factors over `dims` in the fanouts above node `p`."""
        own = self.spatial[:, [q < p for q in self.space.fans]]
        return np.asarray(own[:, :, sorted(dims)].prod(axis=(1, 2)))

    @remembered
    def charges(self, v: int, kept: Levels) -> list[Charge]:
        """The accesses to dataspace `v`, with arrays per choice, no cheaper than in any mapping."""
        return [self.charge(access, kept) for access in self.space.accesses(v, kept)]

    def charge(self, access: Access, kept: Levels) -> Charge:
        """What one kind of access costs."""
        (v, p, asking, action, first), doc = access, self.space.at[access.p][access.v]
        space, nothing = self.spaces[v], 0 * self.steps
        source = asking if asking < len(self.space.nodes) else None
        inner = [own for f, own in self.fans.items() if p < f < asking]
        shares = [self.space.nodes[f]["multicast"][v] for f in self.fans if p < f < asking]
        times = prod(map(space.few_distinct, inner, shares), start=1 + nothing)
        above = prod((own.prod(axis=1) for f, own in self.fans.items() if f < p), start=1 + nothing)
        paying = np.minimum(above, min(self.space.nodes[p]["most_paying"], EXACT))
        begun = (self.begun(v, p) if first else nothing) * self.space.fresh[v]
        times = times * (1 if source is None else self.space.visits)
        return Charge(source, access, doc[action], doc["block"], paying, times, begun)

    def begun(self, v: int, p: int) -> Array:
        """Per choice, at most the words of an output that an instance of level `p` writes first."""
        space = self.spaces[v]
        part = space.tile(self.space.bounds) // self.above(p, space.relevant if space.dense else ())
        if not isinstance(space, Placed):
            return np.asarray(part)
        # Children that share nothing touch words apart.
        alone = [own for f, own in self.fans.items() if f > p and not space.multicast[f]]
        return np.asarray(part * prod(space.distinct_again(own) for own in alone))

    @remembered
    def fewest(self, v: int, p: int) -> Number:
        """Least words that all instances of level `p` get of dataspace `v`, over all tiles that fit."""
        space, bounds = self.spaces[v], self.space.bounds
        tile = np.ix_(*(divisors(n) if d in space.relevant else [1] for d, n in enumerate(bounds)))
        left = [side.max() // side for side in tile]
        fits = space.tile(tile) * self.space.at[p][v]["size"] <= self.space.sizes[p][1]
        return np.where(fits, space.few_words(tile, tile, left, prod(left)), EXACT).min()

    @remembered
    def floor(self, v: int, kept: Levels, measure: Measure) -> Array:
        """Per choice, at most the energy of dataspace `v`, or its cycles of the bandwidth `measure`."""
        relevant, rates = self.spaces[v].relevant, self.space.rates
        total: Array = 0.0 * self.steps
        for source, access, price, block, paying, times, first in self.charges(v, kept):
            words = self.steps if source is None else self.fewest(v, source) / self.above(source, relevant)
            rate = rates(v, access.p, access.kind).get(measure, 0) if measure else 0
            unit: Number = float(rate) if measure else price / block * paying
            total = total + unit * (words * times * (1 - SLACK) - first * (1 + SLACK))
        loads = [(p, kind, n) for (p, own, kind), n in self.space.loads.items() if own == v and measure]
        held = sum(n * rates(v, p, kind).get(measure, 0) for p, kind, n in loads) if measure else 0
        return total + float(held)


class Ended(NamedTuple):
    """A tile whose reuse ended in a nest."""

    tile: tuple[int, int]  # dataspace and level
    extent: Whole
    stride: Whole
    since: int  # loops of the nest before that
    prices: Prices


class Point(NamedTuple):
    """A point of a nest that is built outwards."""

    i: int
    left: Whole
    state: State
    paid: Array
    ended: tuple[Ended, ...]
    nest: Strides
    loops: Loops


class LoopTables(Tables):
    """Tables of temporal loops with factors that divide, where keep sets and spatial factors are given.

    There is one for every set of divisors of what the spatial factors leave; the last axis is for several
    costs. `way` leads outwards through the nodes. Who builds on it says what words cost (`priced`, `charge`)
    and what leaving a level does (`leaving`), and sets `limits` before it prepares the tables.
    """

    limits: Array

    @abstractmethod
    def priced(self, v: int, source: int | None, tile: Extent | None, box: Extent | None, end: int) -> Prices:
        """What words cost that are delivered into a tile of `source`, whose reuse a loop of `end` ends."""

    @abstractmethod
    def charge(self, prices: Prices, words: Number) -> Array:
        """Costs of words, along a last axis."""

    @abstractmethod
    def leaving(self, p: int, inside: Extent, outer: Number) -> Array:
        """Costs of leaving level `p`; infinite if its tiles do not fit."""

    def __init__(self, space: Space, mask: Mask, i: int) -> None:
        super().__init__(space, mask, {})
        self.spatial = dict(zip(space.fans, space.spatial[i].tolist(), strict=True))
        self.bounds = tuple(
            n // prod(used) for n, *used in zip(space.bounds, *self.spatial.values(), strict=True)
        )
        self.place = [{left: i for i, left in enumerate(divisors(n))} for n in self.bounds]
        self.way = [p for p in reversed(range(self.size)) if p not in self.spatial]
        self.joined: dict[tuple[int, int], dict[int, list[int]]] = {}
        self.words: Known = {}

    def prepare(self) -> None:
        """Make what tables are made of."""
        self.left: tuple[Array, ...] = np.ix_(*map(divisors, self.bounds))
        self.outer = reduce(np.multiply, self.left)
        self.within = [n // rest for n, rest in zip(self.bounds, self.left, strict=True)]
        nothing = np.full((*self.outer.shape, len(self.limits)), inf)
        entries = nothing.size * len(self.way) * prod(len(levels) + 1 for levels in self.reused)
        need(entries < MOST_ENTRIES, "too many tiles may stay in place", CannotCheckError)
        self.end = np.where(self.outer[..., None] == 1, 0, nothing)

    def boundary(self, p: int) -> Array:
        """Costs of leaving a level at every point."""
        return self.leaving(p, self.within, self.outer)

    def joins(self, p: int, d: int) -> dict[int, list[int]]:
        """The loops of a node over a dimension, by place."""
        if (p, d) not in self.joined:
            place, factors = self.place[d], [f for f in self.space.factors[p][d] if f > 1]
            lefts = {i: [place[n // f] for f in factors if n % f == 0] for n, i in place.items()}
            self.joined[p, d] = {i: own for i, own in lefts.items() if own}
        return self.joined[p, d]

    def ends(self, v: int, since: int, p: int) -> Array:
        """Costs of the tiles of a dataspace whose reuse loops of node `p` end, at every point."""
        stride = self.extents(p, self.within)
        total: Any = 0.0
        for c in (c for c in self.reused[v] if p < c <= since):
            tile = self.extents(c, self.within)
            if (v, c, p) not in self.words:
                self.words[v, c, p] = self.spaces[v].few_words(tile, stride, self.left, self.outer)
            total = total + self.charge(self.priced(v, c, tile, stride, p), self.words[v, c, p])
        return np.asarray(total)

    def to_go(self, at: "Point") -> Array:
        """The least costs outside of a point."""
        p = (*self.way, -1)[at.i]
        table = self.inside(p, at.state) if p >= 0 and at.loops[p] else self.table(p, at.state)
        spots = zip(self.place, at.left, strict=True)
        return np.asarray(table[tuple(places[left] for places, left in spots)])

    @property
    def open(self) -> bool:
        """Whether the tables leave a nest within the limits."""
        return bool((self.to_go(self.origin) < self.limits).all())

    @property
    def origin(self) -> "Point":
        """The point inside of all temporal loops, with the spatial factors of every node."""
        spatial = [dict(enumerate(self.spatial.get(p, ()))) for p in range(self.size)]
        spatial = [{d: n for d, n in own.items() if n > 1} for own in spatial]
        return Point(0, self.bounds, self.start, np.zeros(len(self.limits)), (), (), spatial)

    def extents(self, p: int, inside: Extent) -> list[Number]:
        """Iterations inside of node `p`, of temporal loops and all spatial ones."""
        return [
            prod(n)
            for n in zip(inside, *(factors for q, factors in self.spatial.items() if q > p), strict=True)
        ]

    def around(self, at: "Point") -> tuple[int, list[int]]:
        """The node that a point has reached, -1 outside of all, and the iterations inside of it."""
        return (*self.way, -1)[at.i], [n // rest for n, rest in zip(self.bounds, at.left, strict=True)]

    def may_leave(self, p: int, loops: Loops) -> bool:
        """Whether a nest that is built from inside of it may go on outside of node `p`."""
        factors, here = self.space.factors[p], loops[p]
        return all(here.get(d, 1) in factors[d] for d in self.space.every)

    def loops_next(self, p: int, here: Mapping[int, int]) -> Iterable[int]:
        """The dimensions that the next loop of a node may have, those that it has already included."""
        return self.space.every

    def grown(self, at: Point) -> Iterator[Point]:
        """Yield the points that may come next: at the next node, or after one more loop of this one."""
        p, inside = self.around(at)
        if self.may_leave(p, at.loops):
            cost = self.leaving(p, inside, prod(at.left)) if p in self.space.stores else 0
            state = self.crossed(at.state, p) if p in self.space.stores else at.state
            yield at._replace(i=at.i + 1, state=state, paid=at.paid + cost)
        here, stride = at.loops[p], (*self.extents(p, inside),)
        dims = [d for d in self.loops_next(p, here) if d not in here]
        pairs = [(d, f) for d in dims for f in self.space.factors[p][d] if at.left[d] % f == 0 < f - 1]
        for d, f in pairs:
            ended = chain(*(self.ending(at, v, p, inside, stride) for v, _ in self.moved(at.state, d)))
            left, state = (*at.left[:d], at.left[d] // f, *at.left[d + 1 :]), self.left_in_place(at.state, d)
            loops = [*at.loops[:p], {**here, d: f}, *at.loops[p + 1 :]]
            yield Point(at.i, left, state, at.paid, (*at.ended, *ended), (*at.nest, (d, f, stride[d])), loops)

    def ending(self, at: Point, v: int, p: int, inside: Extent, stride: Whole) -> Iterator[Ended]:
        """Yield the tiles of a dataspace whose reuse a loop of node `p` ends."""
        since = at.state[v]
        for c in (c for c in self.reused[v] if since is not None and p < c <= since):
            tile = (*self.extents(c, inside),)
            yield Ended((v, c), tile, stride, len(at.nest), self.priced(v, c, tile, stride, p))

    def to_come(self, at: Point, ended: Ended) -> int:
        """At least the words of an ended tile at first and for the loops to come."""
        now, space = tuple(self.extents(*self.around(at))), self.spaces[ended.tile[0]]
        return space.to_come(ended.extent, at.nest[ended.since :], ended.stride, at.left, now)

    def spent(self, at: Point, ended: Iterable[Ended]) -> Array:
        """Costs so far, and of `ended` tiles at the least: exact for loops so far, few words for others."""
        total, outer = at.paid, prod(at.left)
        for own in ended:
            space = self.spaces[own.tile[0]]
            words = space.delivered(own.extent, at.nest[own.since :], True) - space.tile(own.extent)
            total = total + self.charge(own.prices, words * outer + self.to_come(at, own))
        return total


class Choice(LoopTables):
    """Keep sets and spatial factors with several limits of energy and cycles; the temporal loops are open."""

    def __init__(
        self,
        floors: PerChoice,
        mask: Mask,
        i: int,
        case: Case,
        query: Query,
        low: int,
        high: int | float,
        measures: Sequence[Measure],
    ) -> None:
        space = floors.space
        super().__init__(space, mask, i)
        self.case, self.is_ruled, self.words = case, bool(case.parts), floors.words(i)
        every = chain(*(floors.charges(v, kept) for v, kept in enumerate(mask)))
        charges = [Charge(*charge[:4], *(int(array[i]) for array in charge[4:])) for charge in every]
        limits, prices = zip(
            *(self.aim(charges, query, low, high, measure) for measure in measures), strict=True
        )
        self.limits = np.array(limits, dtype=float)
        self.prices: dict[tuple[int, int | None], Prices] = defaultdict(list)
        for (source, access, _, block, _, times, first), *pairs in zip(charges, *prices, strict=True):
            self.prices[access.v, source].append((times, first, block, *np.transpose(pairs)))
        self.limits -= sum(self.charge(self.prices[v, None], int(floors.steps[i])) for v in range(len(mask)))
        self.prepare()

    def aim(
        self, charges: Sequence[Charge], query: Query, low: int, high: int | float, measure: Measure
    ) -> tuple[int | float, list[list[float]]]:
        """The limit of energy + slope * cycles for mappings with cycles from `low` to `high`, and its prices.

        With a slope of at least edp / (low * high) the sum is largest at an end of the interval. Cycles count
        by the bandwidth `measure`, alone if energy is free. Prices are rounded down to keep sums exact.
        """
        most, least = (min(query.energy, query.edp // n) for n in (low, high))
        fixed, slope, top = 0, 1 << 20, high * (1 << 20)
        if most < inf:
            steps = prod(self.bounds) * self.space.visits
            fixed = self.space.arithmetic + self.leakage(low - self.space.latency, steps)
            slope = int(least // low) + 1 if measure and high < inf else 0
            top = (max(most + slope * low, least + slope * high) + 1 if slope else most) - fixed
        pairs = []
        for _, access, price, _, paying, _, _ in charges:
            rates = self.space.rates(access.v, access.p, access.kind)
            rate = (rates.get(measure, 0) if measure else 0) * (1 - Fraction(SLACK))
            pairs.append((price * paying * (most < inf), int(slope * rate)))
        unit = math.gcd(*chain(*pairs)) or 1
        while inf > top // unit >= EXACT:
            unit *= 2
        limit = top // unit + 1 if top < inf else inf
        return limit, [[float(price // unit) for price in pair] for pair in pairs]

    def leakage(self, busy: int, steps: int) -> int:
        """What leaks at least while levels are busy for so many cycles, which may have been rounded up."""
        used = {p: prod(factors) for p, factors in self.spatial.items()}
        nodes = [self.space.nodes[p] for p in self.space.stores]
        leaks: list[int] = [node["leak"] * prod(used[q] for q in node["leak_fanouts"]) for node in nodes]
        if not self.space.placed:
            return busy * sum(leaks)
        return max(0, max(busy - 1, steps) * sum(leaks) - sum(map(bool, leaks)))

    def priced(self, v: int, source: int | None, tile: Extent | None, box: Extent | None, end: int) -> Prices:
        """The prices of the accesses that words delivered into `source` cause, whatever its tile."""
        return self.prices[v, source]

    def charge(self, prices: Prices, words: Number) -> Array:
        """Costs of the accesses that words cause, along a last axis."""
        total: Any = 0.0
        words = np.asarray(words)[..., None]
        for times, first, block, per_block, per_word in prices:
            count = np.maximum(words * times - first, 0)
            total = total + -(-count // block) * per_block + count * per_word
        return np.asarray(total)

    def leaving(self, p: int, inside: Extent, outer: Number) -> Array:
        """Costs of leaving level `p`: for what it gets without reuse; infinite if its tiles do not fit."""
        extent, (least, most) = self.extents(p, inside), self.space.sizes[p]
        tiles = {v: self.spaces[v].tile(extent) for v, kept in enumerate(self.mask) if p in kept}
        size = self.taken(p, extent) + 0 * outer
        least = 0 if p in self.memory else least
        once = [v for v in tiles if p != self.mask[v][0] and p not in self.reused[v]]
        cost = sum(self.charge(self.prices[v, p], outer * tiles[v]) for v in once)
        fits = (least <= size) & (size <= most)
        if self.is_ruled:
            single = isinstance(outer, int)
            fits = fits & (self.case.allows_one(p, extent) if single else self.case.allows(p, extent))
        return cost + np.where(fits, 0, inf)[..., None]

    def taken(self, p: int, extent: Extent, loops: Loops | None = None) -> Number:
        """Room that tiles of `extent` take of level `p`, at least: outer tiles of its memory are no smaller.

        With the `loops` inside of it, tiles of inner places count as well.
        """
        places = self.memory[p].outside(p) if p in self.memory else [p]
        held = [(v, p, extent) for v, kept in enumerate(self.mask) if {*kept}.intersection(places)]
        if loops is not None and p in self.memory:
            held += self.farther_in(p, loops)
        return sum(self.spaces[v].tile(own) * self.space.at[q][v]["size"] for v, q, own in held)

    def farther_in(self, p: int, loops: Loops) -> list[tuple[int, int, list[int]]]:
        """The tiles at the places of a memory inside of `p`: dataspace, place, extent."""
        inner = [q for q in self.memory[p].places if q > p]
        kept = [(v, q) for v, levels in enumerate(self.mask) for q in inner if q in levels]
        every = range(len(self.bounds))
        extents = {q: [prod(own.get(d, 1) for own in loops[q:]) for d in every] for q in inner}
        return [(v, q, extents[q]) for v, q in kept]

    def possible(self, p: int, loops: Loops) -> bool:
        """Whether a memory has room and rules for a nest that is built from inside of it to its place `p`."""
        if p not in self.memory:
            return True
        memory, every = self.memory[p], range(len(self.bounds))
        extent, first = [prod(own.get(d, 1) for own in loops[p:]) for d in every], p == memory.places[0]
        size, (least, most) = self.taken(p, extent, loops), self.space.sizes[p]
        fits = (least if first else 0) <= size <= most
        return fits and memory.ordered(loops) and (not first or memory.allow(loops))

    def pending(self, at: Point) -> tuple[Any, ...]:
        """What the places of memories that a nest has reached leave to those outside of them."""
        left = [p for p in self.way[at.i :] if p in self.memory]
        found: list[Any] = []
        for memory in dict.fromkeys(self.memory[p] for p in left):
            tiles = self.farther_in(next(p for p in left if p in memory.places), at.loops)
            found.append(sum(self.spaces[v].tile(own) * self.space.at[q][v]["size"] for v, q, own in tiles))
            nodes = [p for own in memory.groups for p in own] if memory.binds else []
            found += (frozenset(at.loops[p].items()) for p in nodes)
        return (*found,)

    def looped(self, p: int, state: State) -> Array:
        """The table inside of a node, where rules may ask for its innermost loop, or for none."""
        if p not in self.case.first:
            return super().looped(p, state)
        d = self.case.first[p]
        if d is None:
            return self.table(p - 1, state)
        return np.asarray(self.due(p, state, d) + self.after(p, self.left_in_place(state, d), d))

    def inside(self, p: int, state: State) -> Array:
        """The table inside of a node that has a loop inside already."""
        if p not in self.case.first:
            return self.table(p, state)
        return self.once(("inside", p, state), super().looped, p, state)

    def may_leave(self, p: int, loops: Loops) -> bool:
        """Whether a nest may leave node `p`, by rules on innermost loops and places of a memory as well."""
        waits = self.case.first.get(p) is not None and not loops[p]
        return super().may_leave(p, loops) and self.possible(p, loops) and not waits

    def loops_next(self, p: int, here: Mapping[int, int]) -> Iterable[int]:
        """The dimensions that the next loop of a node may have: none at places without loops."""
        if p in self.idle or (p in self.case.first and self.case.first[p] is None):
            return []
        first = self.case.first.get(p)
        return self.space.every if first is None or here else [first]

    def settled(self, at: Point) -> Point:
        """A point at which those ended tiles are paid for that all loops to come bring whole."""
        whole, outer = [self.spaces[own.tile[0]].tile(own.extent) for own in at.ended], prod(at.left)
        sure = [
            own for own, tile in zip(at.ended, whole, strict=True) if self.to_come(at, own) == tile * outer
        ]
        unsure = tuple(ended for ended in at.ended if ended not in sure)
        return at._replace(paid=self.spent(at, sure), ended=unsure)

    def future(self, at: Point) -> tuple[Any, ...]:
        """What the cost of the loops to come depends on."""
        pairs = [(own, self.spaces[own.tile[0]]) for own in at.ended]
        ended = [(*own[:2], space.memory(at.nest[own.since :])) for own, space in pairs]
        return (*at[:3], frozenset(at.loops[self.way[at.i]].items()), self.pending(at), *ended)

    def sunk(self, at: Point) -> tuple[tuple[Any, ...], list[int]]:
        """What decides the cost of the loops so far: what has to agree, and numbers that it rises with."""
        sizes, numbers, since, inner = [], [], 0, (1,) * len(self.bounds)
        for p in range(len(at.loops) - 1, self.way[at.i], -1):
            outer = tuple(n * at.loops[p].get(d, 1) for d, n in enumerate(inner))
            if p in self.spatial:
                loops = tuple((d, n, inner[d]) for d, n in at.loops[p].items())
                sent = zip(self.spaces, self.space.nodes[p]["multicast"], strict=True)
                numbers += [s.distinct(loops, once) for s, once in sent if s.plain < s.relevant]
            elif p in self.space.stores:
                kept = [(v, self.space.at[p][v]) for v, levels in enumerate(self.mask) if p in levels[1:]]
                reuse = [(self.spaces[v], self.spaces[v].stays(doc)) for v, doc in kept]
                numbers += [space.delivered(inner, at.nest[since:], same) for space, same in reuse]
            else:
                since += len(at.loops[p])
            written = [space for space in self.spaces if space.rw and not space.dense]
            sizes += [s.decisive(at.loops[p].items(), inner, outer, p in self.spatial) for s in written]
            inner = outer
        return tuple(sizes), numbers

    def search(self, query: Query) -> Cost | None:
        """The cost of a mapping that satisfies the query, None if none does, of all nests within the limits.

        Of nests with the same future only those go on that no other undercuts in all that costs rise with. To
        compare costs so far would not do: words come in whole blocks, and the first ones may be free.
        """
        seen: dict[tuple[Any, ...], list[list[int]]] = {}
        budget, stack = MOST_NESTS, [self.origin]
        while stack:
            at = self.settled(stack.pop())
            to_come = self.to_go(at)
            if (self.spent(at, at.ended) + to_come >= self.limits).any():
                continue
            cost = self.space.price(at.loops, self.mask) if at.i == len(self.way) else None
            if cost and satisfies(cost, query) and not self.space.rules.broken(at.loops, self.mask, cost):
                return cost
            if not cost and not self.undercut(at, seen):
                budget -= 1
                need(budget, "too many nests are left open by the bounds", CannotCheckError)
                stack += self.grown(at)
        return None

    def undercut(self, at: Point, seen: dict[tuple[Any, ...], list[list[int]]]) -> bool:
        """Whether a nest `seen` before costs no more, however both go on; else this one counts as seen.

        What rules ask of the loops is the same of both, and what both cost as well if a rule asks for that.
        """
        (sizes, sunk), compare = self.sunk(at), eq if self.case.wide and self.case.prices else le
        known = seen.setdefault((*self.future(at), sizes, self.case.recalled(at.loops)), [])
        if any(all(map(compare, other, sunk)) for other in known):
            return True
        known.append(sunk)
        return False


def decide_divisors(
    query: Query,
    low: int,
    high: int | float,
    measures: Sequence[Measure],
    floors: PerChoice,
    mask: Mask,
    i: int,
    pinned: Pins = (),
) -> Cost | None:
    """The cost of a mapping with cycles from `low` to `high` that satisfies the query, None if none does.

    Tables of the first two `measures` are enough nearly everywhere. Rules about several levels are decided
    one value of a tile or of an innermost loop at a time: those are `pinned`.
    """
    space = floors.space
    case = Case(space, mask, i, dict(pinned))
    if case.parts is None:
        return None
    query = space.rules.limited(query, case.parts)
    high = min(high, query.latency)
    if low > high:
        return None
    for counted in dict.fromkeys((measures[:2], measures)):
        tables = Choice(floors, mask, i, case, query, low, high, counted)
        if not tables.open:
            return None
    if found := case.next():
        pins = [(*pinned, (found[0], value)) for value in found[1]]
        return next(
            filter(None, (decide_divisors(query, low, high, measures, floors, mask, i, own) for own in pins)),
            None,
        )
    if query.edp == inf or not 1.05 * low < high < inf:
        return tables.search(query)
    middle = math.isqrt(low * int(high))
    lower = decide_divisors(query, low, middle, measures, floors, mask, i, pinned)
    return lower or decide_divisors(query, middle + 1, high, measures, floors, mask, i, pinned)


def refute_divisors(space: Space, query: Query) -> Cost | None:
    """The cost of a mapping that satisfies the query, None if the mapspace has none."""
    floors = PerChoice(space)
    choices = floored(floors, query)
    costs = (
        decide_divisors(query, *cycles, measures, floors, *choice) for cycles, measures, choice in choices
    )
    return next(filter(None, costs), None)


def floored(
    per_choice: PerChoice, query: Query
) -> Iterator[tuple[tuple[int, int | float], tuple[Measure, ...], tuple[Mask, int]]]:
    """The choices that floors do not exclude, with the cycles they may take and what may limit these."""
    space, steps = per_choice.space, per_choice.steps
    kinds = [(p, kind) for p in space.homes for kind, width in space.nodes[p]["bandwidths"].items() if width]
    kinds += [(p, f"port {i}") for p in space.homes for i in range(len(space.nodes[p].get("ports", ())))]
    for mask in space.masks():
        if space.rules.case(mask, space.rules.kept(mask)) is None:
            continue
        floors = [[per_choice.floor(v, kept, kind) for v, kept in enumerate(mask)] for kind in (None, *kinds)]
        energy, *slow = [np.sum(floor, axis=0) * (1 - SLACK) for floor in floors]
        energy = energy + space.arithmetic * (1 - SLACK)
        cycles = np.max([steps, *slow], axis=0) * (1 - SLACK) + space.latency
        within = (
            space.rules.open
            & (energy <= query.energy)
            & (cycles <= query.latency)
            & (energy * cycles <= query.edp)
        )
        for i in np.flatnonzero(within):
            low, counted = max(int(steps[i]) + space.latency, math.ceil(cycles[i])), query.edp < inf
            most = int(query.edp / energy[i] * (1 + SLACK)) + 1 if counted and energy[i] > 0 else inf
            high = min(query.latency, most, inf if kinds else low)
            loads = {
                kind: load[i]
                for kind, load in zip(kinds, slow, strict=True)
                if min(query.latency, query.edp) < inf
            }
            measures = (None, *sorted(loads, key=lambda kind: loads[kind], reverse=True))
            yield (low, high), measures, (mask, int(i))
