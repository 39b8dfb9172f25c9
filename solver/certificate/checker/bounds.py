"""The checker's bounds on the mappings of one Einsum, and how it decides what they leave open.

Floors exclude most choices of spatial factors. Tables bound the others, and a walk decides the nests that the
tables leave open. docs/certificates.md explains why this is a proof.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from itertools import chain, product
from math import inf, prod
from operator import eq, le
from typing import Any, NamedTuple

import numpy as np

from solver.certificate.checker.claims import (
    EXACT,
    SLACK,
    Array,
    Cost,
    Levels,
    Loops,
    Mask,
    Number,
    Query,
    ceiling,
    remembered,
    satisfies,
)
from solver.certificate.checker.conditions import Pins, asked
from solver.certificate.checker.counting import Placed
from solver.certificate.checker.dataspaces import divisors
from solver.certificate.checker.remainders import Access, Bandwidth, Nest, Space, between
from solver.certificate.checker.tables import Known, Point, Tables, TooManyNestsError, Unrolled

MOST_SHARE = 16  # entries of a table per nest of a walk that is tried before other tables
Measure = Bandwidth | None  # None is energy
Weights = list[tuple["Charge", Array, Array]]


class Charge(NamedTuple):
    """What accesses cost; numbers, or arrays of them per choice of spatial factors.

    With perfect factors words that an instance of `source` gets (None: the arithmetic) cause max(0, words *
    times - first) accesses of each instance of the level, for all of which `paying` instances pay. With
    remainders the words are those of all instances, `among` them; children of fanouts in `counted` are
    counted one by one.
    """

    source: int | None
    access: Access
    price: int
    block: int
    paying: Any
    among: Any
    times: Any
    first: Any
    counted: tuple[int, ...]

    def of(self, i: int) -> "Charge":
        """What they cost with one choice."""
        arrays = (self.paying, self.among, self.times, self.first)
        paying, among, times, first = (int(own[i]) for own in arrays)
        return self._replace(paying=paying, among=among, times=times, first=first)


def split(number: Number, factors: Iterable[Number]) -> Number:
    """At least the instances in use: `number` blocks, dealt out by spatial loops within a block, outer first.

    All blocks but the last one are full; a single one is the whole dimension, and fills a loop.
    """
    for factor in factors:
        number = np.where(number == 1, factor, (number - 1) * factor + 1)
    return number


class Words(Unrolled):
    """At least the words that accesses move."""

    def words(self, charge: Charge, n: int | None, cell: Sequence[Number]) -> Number:
        """At least the words of a charge, if the reuse of its tile ends at node `n`; None: anywhere."""
        source = charge.source
        if self.space.any:
            return self.words_of_all(charge, n, cell)
        if source is None:
            few = self.steps
        elif n is None:
            (v, *_), relevant = charge.access, self.spaces[charge.access.v].relevant
            few = self.fewest(v, source) / prod(self.around[source][d] for d in relevant) * (1 - SLACK)
        else:
            few = self.delivered(charge.access.v, source, n, cell)
        return np.maximum(few * charge.times - charge.first, 0)

    @remembered
    def fewest(self, v: int, p: int) -> Number:
        """Least words that all instances of level `p` get of dataspace `v`, over all tiles that fit."""
        space, bounds = self.spaces[v], self.space.bounds
        tile = np.ix_(*(divisors(n) if d in space.relevant else [1] for d, n in enumerate(bounds)))
        left = [side.max() // side for side in tile]
        fits = space.tile(tile) * self.space.at[p][v]["size"] <= self.space.sizes[p][1]
        return np.where(fits, space.few_words(tile, tile, left, prod(left)), EXACT).min()

    def delivered(self, v: int, source: int, n: int, cell: Sequence[Number]) -> Number:
        """At least the words that an instance of `source` gets, if its tile stays up to node `n`."""
        return self.spaces[v].few_words(self.extents(source, cell), self.extents(n, cell), cell, prod(cell))

    # ------------------------------------------------------------------------------- with remainders

    def words_of_all(self, charge: Charge, n: int | None, cell: Sequence[Number]) -> Number:
        """At least the words of all instances: tiles come as often as the loops from node `n` on say."""
        space = self.spaces[charge.access.v]
        if charge.source is None:
            n, cell = self.size, self.space.bounds
        elif n is None:
            n, pairs = -1, enumerate(self.space.bounds)
            cell = [bound if d in space.relevant else 1 for d, bound in pairs]
        if space.is_plain:
            return self.whole(charge, cell) * self.repeats(charge, n, cell)
        if charge.access.first:
            return 0
        return space.least * self.space.visits if charge.source is not None else self.computed(charge)

    def whole(self, charge: Charge, cell: Sequence[Number]) -> Number:
        """At least the words of all tiles that come; those of strided dimensions have holes."""
        tiles, words = self.tiles(charge.access.asking, cell), 1
        for ((d, c),) in self.spaces[charge.access.v].ranks:
            words = words * (abs(c) * self.space.bounds[d] - (abs(c) - 1) * tiles[d])
        return words

    def repeats(self, charge: Charge, n: int, cell: Sequence[Number]) -> Number:
        """How often each word comes at the least if reuse ends at node `n`.

        Less the times that need not be paid, where the first words of an output are free.
        """
        (v, p, *_, first), counted, tiles = charge.access, charge.counted, self.tiles(n, cell)
        again: Number = 1
        begun: Number = 1
        for d in (d for d in self.space.every if self.space.bounds[d] > 1):
            if d in self.spaces[v].relevant:
                continue
            apart = prod(own[d] for q, own in self.used.items() if q < n and q not in counted)
            blocks = ceiling(tiles[d], apart)
            number = self.children(blocks, [self.used[q][d] for q in counted if q > n])
            if first:
                least = self.children(1, [self.used[q][d] for q in counted if n < q < p])
                outside = prod(own[d] for q, own in self.used.items() if q < min(n, p))
                most = outside * prod(own[d] for q, own in self.used.items() if n < q < p)
                sure = (blocks > 1) & (blocks > outside)
                number, most = np.where(sure, number, least), np.where(sure, most, least)
                begun = begun * most
            again = again * number
        again, begun = again * self.space.visits, begun * self.space.fresh[v]
        return np.maximum(again - begun, 0) if first else again

    @staticmethod
    def children(number: Number, factors: Sequence[Number]) -> Number:
        """At least the children in use of spatial loops inside of so many blocks, outer first."""
        return split(number, factors)

    def computed(self, charge: Charge) -> Number:
        """At least the words that the arithmetic asks for, where they may overlap or have holes."""
        space, bounds = self.spaces[charge.access.v], self.space.bounds
        shared = [own for q, own in self.used.items() if q not in charge.counted]
        apart = [prod(own[d] for own in shared) for d in self.space.every]
        others = [d for d in self.space.every if d not in space.relevant]
        words = prod(ceiling(bounds[d], apart[d]) for d in others) * self.space.visits
        for dims, _ in (group for group in space.groups if group[1]):
            most = [apart[d] + 0 for d in dims]
            words = words * ceiling(prod(bounds[d] for d in dims), prod(most) // np.maximum.reduce(most))
        return words


class Choices(Words):
    """What the choices of spatial factors cost at least, as arrays."""

    def __init__(self, space: Space) -> None:
        self.spatial = space.spatial
        fans = zip(space.fans, np.moveaxis(space.spatial, 1, 0), strict=True)
        super().__init__(space, {p: [*own.T] for p, own in fans})
        self.nothing = np.zeros(len(self.spatial), dtype=np.int64)
        self.steps = self.steps + self.nothing
        self.counted: tuple[int, Known] = -1, {}

    def counts(self, i: int) -> Known:
        """Words that tables of choice `i` have counted; those of other choices are forgotten."""
        if self.counted[0] != i:
            self.counted = i, {}
        return self.counted[1]

    @remembered
    def charges(self, v: int, kept: Levels) -> list[Charge]:
        """The accesses to dataspace `v`, with arrays per choice, no cheaper than in any mapping."""
        return [self.charge(access) for access in self.space.accesses(v, kept)]

    def charge(self, access: Access) -> Charge:
        """What one kind of access costs."""
        (v, p, asking, action, first), doc = access, self.space.at[access.p][access.v]
        space, fans, multicast = self.spaces[v], self.space.fans, self.spaces[v].multicast
        source, times, begun = asking if asking < self.size else None, 1 + self.nothing, self.nothing
        instances = prod(self.around[p]) + self.nothing
        paying = np.minimum(instances, min(self.space.nodes[p]["most_paying"], EXACT))
        counted = tuple(q for q in fans if q < p or (p < q < asking and not multicast[q]))
        if not self.space.any:
            inner = ((self.spatial[:, i], multicast[q]) for i, q in enumerate(fans) if p < q < asking)
            times = prod((space.few_distinct(*own) for own in inner), start=times)
            times = times * (1 if source is None else self.space.visits)
            begun = (self.begun(v, p) if first else begun) * self.space.fresh[v]
        among = instances if self.space.any else 1 + self.nothing
        return Charge(source, access, doc[action], doc["block"], paying, among, times, begun, counted)

    def begun(self, v: int, p: int) -> Array:
        """Per choice, at most the words of an output that an instance of level `p` writes first."""
        space, fans = self.spaces[v], self.space.fans
        part = space.tile(self.space.bounds) + self.nothing
        part = part // prod(self.around[p][d] for d in space.relevant) if space.dense else part
        if not isinstance(space, Placed):
            return np.asarray(part)
        # Children that share nothing touch words apart.
        alone = [self.spatial[:, i] for i, q in enumerate(fans) if q > p and not space.multicast[q]]
        return np.asarray(part * prod(space.distinct_again(own) for own in alone))

    @remembered
    def floor(self, v: int, kept: Levels, measure: Measure) -> Array:
        """Per choice, at most the energy of dataspace `v`, or its cycles of the bandwidth `measure`."""
        rates, total = self.space.rates, 0.0 * self.nothing
        for charge in self.charges(v, kept):
            rate = rates(v, charge.access.p, charge.access.kind).get(measure, 0) if measure else 0
            unit = float(rate) if measure else charge.price / charge.block * charge.paying
            total = total + unit * self.words(charge, None, ()) / charge.among
        return total + float(held(self.space, v, measure))

    def floors(self, mask: Mask, measure: Measure) -> Array:
        """Per choice, at most the energy of all, or the cycles of a bandwidth."""
        total = np.sum([self.floor(v, kept, measure) for v, kept in enumerate(mask)], axis=0)
        return np.asarray((total + (0 if measure else self.space.arithmetic)) * (1 - SLACK))

    def cycles(self, slow: Iterable[Array]) -> Array:
        """Per choice, at most the cycles of all, given those of bandwidths."""
        return np.asarray(np.max([self.steps, *map(np.ceil, slow)], axis=0) + self.space.latency)


def held(space: Space, v: int, measure: Measure) -> Fraction:
    """Cycles of a bandwidth that words of a dataspace take which no loop moves."""
    if measure is None:
        return Fraction(0)
    loads = ((p, kind, n) for (p, own, kind), n in space.loads.items() if own == v)
    return sum((n * space.rates(v, p, kind).get(measure, Fraction(0)) for p, kind, n in loads), Fraction(0))


def bandwidths(space: Space) -> list[Bandwidth]:
    """What limits words, as memories and kinds."""
    kinds = [(p, kind) for p in space.homes for kind, width in space.nodes[p]["bandwidths"].items() if width]
    ports = ((p, i) for p in space.homes for i in range(len(space.nodes[p].get("ports", ()))))
    return kinds + [(p, f"port {i}") for p, i in ports]


class Choice(Words, Tables):
    """Keep sets and spatial factors with several limits of energy and cycles; the temporal loops are open."""

    def __init__(
        self,
        choices: Choices,
        mask: Mask,
        i: int,
        query: Query,
        low: int,
        high: int | float,
        measures: Sequence[Measure],
        pins: Pins = (),
    ) -> None:
        space = choices.space
        used = tuple(zip(space.fans, map(tuple, space.spatial[i].tolist()), strict=True))
        Tables.__init__(self, space, mask, dict(used))
        self.counted = choices.counts(i)
        self.allowed, self.others = space.rules.sorted_out(mask, used, pins)
        asks = {ask for part in self.others for ask in asked(part)}
        self.asks = sorted(ask for ask in asks if len(ask) > 1)
        self.compare = eq if any(len(ask) == 1 for ask in asks) else le
        every = chain(*(choices.charges(v, kept) for v, kept in enumerate(mask)))
        charges = [charge.of(i) for charge in every]
        few = [self.least(charge, choices.fewest) for charge in charges]
        self.floors: Counter[int] = Counter()  # energy that each memory spends at the least
        for charge, n in zip(charges, few, strict=True):
            paid = charge.price * charge.paying * ceiling(n, charge.block) // charge.among
            self.floors[space.home[charge.access.p]] += paid
        self.moves = [*space.moves(mask).items()]
        aims = [self.aim(charges, few, query, low, high, measure) for measure in measures]
        self.limits = np.array([limit for limit, *_ in aims], dtype=float)
        self.units = [(unit, scale) for _, unit, scale, _ in aims]
        self.prices: dict[tuple[int, int], Weights] = defaultdict(list)
        for charge, *pairs in zip(charges, *(own for *_, own in aims), strict=True):
            weights = np.transpose(pairs)
            if weights.any():
                self.prices[charge.access.v, charge.access.asking].append((charge, *weights))
        nothing = np.zeros(len(measures))
        self.direct = sum(
            (self.priced(v, self.size, self.size, self.bounds) for v in range(len(mask))), nothing
        )
        self.limits -= self.direct
        self.prepare()

    def least(self, charge: Charge, fewest: Callable[[int, int], Number]) -> int:
        """At least the words of a charge, wherever the reuse of its tile ends, as a whole number.

        `fewest` are those that all instances of a level get of a dataspace.
        """
        if self.space.any or charge.source is None:
            return int(self.words(charge, None, ()))
        v, source = charge.access.v, charge.source
        apart = prod(self.around[source][d] for d in self.spaces[v].relevant)
        return int(max(int(fewest(v, source)) * charge.times // apart - charge.first, 0))

    def aim(
        self,
        charges: Sequence[Charge],
        few: Sequence[int],
        query: Query,
        low: int,
        high: int | float,
        measure: Measure,
    ) -> tuple[int | float, int, int, list[list[float]]]:
        """The limit of energy + slope * cycles for mappings with cycles from `low` to `high`, and its prices.

        With a slope of at least edp / (low * high) the sum is largest at an end of the interval. Cycles count
        by the bandwidth `measure`, alone if energy is free. Prices, of blocks and of words, are in a unit of
        so many parts of a `scale`, and rounded down to keep sums exact. What that takes away of the `few`
        words that each charge has at the least comes off the limit.
        """
        space = self.space
        most, least = (min(query.energy, query.edp // n) for n in (low, high))
        rates = [Fraction(0) if measure is None else self.rate(charge, measure) for charge in charges]
        fixed, slope, top, scale = 0, 1, high, min(math.lcm(*(own.denominator for own in rates)), 1 << 60)
        if most < inf:
            scale, slope = 1 << 20, int(least // low) + 1 if measure and high < inf else 0
            fixed = space.arithmetic + self.leakage(low - space.latency)
            top = max(most + slope * low, least + slope * high) + 1 if slope else most
        fixed += math.floor(slope * (space.latency + self.held(measure))) if measure else 0
        top = (top - fixed) * scale if top < inf else inf
        pairs = []
        for charge, rate in zip(charges, rates, strict=True):
            price = charge.price * charge.paying * scale // charge.among if most < inf else 0
            pairs.append((price, int(slope * scale * rate)))
        unit = math.gcd(*chain(*pairs)) or 1
        while inf > top // unit >= EXACT:
            unit *= 2
        lost = sum(
            price % unit * ceiling(n, charge.block) + rate % unit * n
            for charge, n, (price, rate) in zip(charges, few, pairs, strict=True)
        )
        limit = (top - lost) // unit + 1 if top < inf else inf
        return limit, unit, scale, [[float(price // unit) for price in pair] for pair in pairs]

    def rate(self, charge: Charge, measure: Bandwidth) -> Fraction:
        """Cycles of a bandwidth that a word takes at the least: one instance is as busy as all on average."""
        (v, p, *_), kind = charge.access, charge.access.kind
        rate: Fraction = self.space.rates(v, p, kind).get(measure, Fraction(0)) / charge.among
        return rate * (1 - Fraction(SLACK)) if self.space.counting == "timeloop" else rate

    def leakage(self, busy: int) -> int:
        """What leaks at least while levels are busy for so many cycles, which may have been rounded up."""
        if not self.space.placed:
            return busy * sum(self.leaks)
        return max(0, max(busy - 1, int(self.steps)) * sum(self.leaks) - sum(map(bool, self.leaks)))

    @cached_property
    def leaks(self) -> list[int]:
        """What leaks per cycle at the least, by storage level."""
        own: Callable[[int, Sequence[Number]], Number] = split if self.space.any else lambda n, f: n * prod(f)
        leaks: list[int] = []
        for node in (self.space.nodes[p] for p in self.space.stores):
            gates = node["leak_fanouts"]
            used = prod(int(own(1, [self.used[q][d] for q in gates])) for d in self.space.every)
            leaks.append(node["leak"] * used)
        return leaks

    def priced(self, v: int, asking: int, n: int, cell: Sequence[Number]) -> Array:
        """At least the costs of what node `asking` gets of a dataspace, whose reuse ends at node `n`."""
        total: Any = np.zeros(len(self.limits))
        for charge, per_block, per_word in self.prices.get((v, asking), ()):
            words = np.asarray(self.words(charge, n, cell))[..., None]
            blocks = words if charge.block == 1 else ceiling(words, charge.block)
            total = total + blocks * per_block + (words * per_word if per_word.any() else 0.0)
        return np.asarray(total)

    def cost(self, v: int, asking: int, n: int) -> Array:
        """The same at every point."""
        return self.priced(v, asking, n, self.cell)

    def delivered(self, v: int, source: int, n: int, cell: Sequence[Number]) -> Number:
        """At least the words that an instance of `source` gets, at every point if that is asked."""
        if cell is not self.cell:
            return super().delivered(v, source, n, cell)
        key = v, *self.inside[source + 1], *self.inside[n + 1]
        if key not in self.counted:
            self.counted[key] = super().delivered(v, source, n, cell)
        return self.counted[key]

    def boundary(self, p: int) -> Array:
        """Costs of leaving level `p`: for what it gets without reuse; infinite if its tiles do not fit.

        Tiles at outer places of a memory are no smaller, and take room as well; how much, the walk knows.
        """
        small, large = self.extents(p, self.cell), self.largest(p, self.cell)
        least, most = self.space.sizes[p]
        held_here = [v for v, kept in enumerate(self.mask) if p in kept]
        once = [v for v in held_here if p != self.mask[v][0] and p not in self.reused[v]]
        fits = (self.sizes(p, self.tenants(p), small) <= most) | (self.end[..., 0] < 0)
        if p not in self.memory:
            fits = fits & (self.sizes(p, held_here, large) >= least)
        for allowed in (own for own in self.allowed if own.p == p):
            fits = fits & allowed.any_between(small, large)
        return sum(self.cost(v, p, p) for v in once) + np.where(fits, 0.0, inf)[..., None]

    def tenants(self, p: int) -> list[int]:
        """Dataspaces that take room of level `p`, of a memory with several places also those farther out."""
        places = self.memory[p].outside(p) if p in self.memory else [p]
        return [v for v, kept in enumerate(self.mask) if {*kept}.intersection(places)]

    def sizes(self, p: int, tenants: Iterable[int], extent: Sequence[Number]) -> Number:
        """Room that tiles of dataspaces take of level `p`."""
        return sum(self.spaces[v].tile(extent) * self.space.at[p][v]["size"] for v in tenants)

    # ------------------------------------------------------------------------------------------ walk

    def taken(self, at: Point) -> tuple[int, ...] | None:
        """Room that tiles take of memories with several places up to the level to come.

        None: there is too little, or rules do not allow the nest.
        """
        p, rules, loops = at.p, self.space.rules, self.loops(at)
        is_ruled = self.others and not self.space.any
        if is_ruled and rules.case(self.mask, rules.so_far(p, loops, self.mask)) is None:
            return None
        if p not in self.memory:
            return at.rooms
        extent, i = self.extents(p, at.cell), self.space.memories.index(self.memory[p])
        fits = at.rooms[i] + self.sizes(p, self.tenants(p), extent) <= self.space.sizes[p][1]
        room = at.rooms[i] + int(self.sizes(p, [v for v, kept in enumerate(self.mask) if p in kept], extent))
        return (*at.rooms[:i], room, *at.rooms[i + 1 :]) if fits and self.memory[p].ordered(loops) else None

    def pending(self, at: Point, loops: Loops) -> tuple[Any, ...]:
        """What the places of memories that a nest has reached leave to those outside of them."""
        pairs = zip(self.space.memories, at.rooms, strict=True)
        left = [(own, room) for own, room in pairs if own.places[0] <= at.p]
        nodes = [p for own, _ in left if own.binds for p in chain(*own.groups)]
        return (*(room for _, room in left), *(frozenset(loops[p].items()) for p in nodes))

    def compared(self, at: Point) -> tuple[Any, Sequence[Any]]:
        """What nests have to agree in, and numbers that costs rise with.

        To compare costs so far would not do: words come in whole blocks, and the first ones may be free.
        """
        if self.space.any:
            return self.alike(at), ()
        loops = self.loops(at)
        (same, sunk), here = self.sunk(at, loops), frozenset(loops[at.p].items())
        facts = (self.space.rules.fact(ask, loops, self.mask) for ask in self.asks)
        return (*at[:3], here, self.pending(at, loops), same, *facts), sunk

    def sunk(self, at: Point, loops: Loops) -> tuple[tuple[Any, ...], list[int]]:
        """What decides the cost of the loops so far: what has to agree, and numbers that it rises with."""
        same: list[Any] = []
        numbers: list[int] = []
        since, inner = 0, (1,) * len(self.bounds)
        nest = tuple(
            (d, n // left, self.space.bounds[d] // (n * self.around[p + 1][d])) for p, d, n, left in at.nest
        )
        for p in range(self.size - 1, at.p, -1):
            outer = tuple(n * loops[p].get(d, 1) for d, n in enumerate(inner))
            if p in self.used:
                own = tuple((d, n, inner[d]) for d, n in loops[p].items())
                sent = zip(self.spaces, self.space.nodes[p]["multicast"], strict=True)
                numbers += [s.distinct(own, once) for s, once in sent if s.plain < s.relevant]
            elif p in self.space.stores:
                kept = [(v, self.space.at[p][v]) for v, levels in enumerate(self.mask) if p in levels[1:]]
                reuse = [(self.spaces[v], self.spaces[v].stays(doc)) for v, doc in kept]
                numbers += [space.delivered(inner, nest[since:], stays) for space, stays in reuse]
                same += [space.memory(nest[since:]) for space, stays in reuse if stays and not space.is_plain]
            else:
                since += len(loops[p])
            written = [space for space in self.spaces if space.rw and not space.dense]
            same += [s.decisive(loops[p].items(), inner, outer, p in self.used) for s in written]
            inner = outer
        return tuple(same), numbers

    def alike(self, at: Point) -> tuple[Any, ...]:
        """What decides the cost of a nest with remainders: its loops, and which leave a tile in place.

        Loops in another order do the same, unless words overlap or rules ask for the order.
        """
        found: list[Any] = [at[:3], frozenset(at.nest)]
        if self.space.rules.asks_order:
            found.append(at.nest)
        for v, c in ((v, c) for v, kept in enumerate(self.mask) for c in kept[1:] if c > at.p):
            outside, space = [loop for loop in at.nest if loop.p < c], self.spaces[v]
            ends = [i for i, loop in enumerate(outside) if loop.d in space.relevant] + [len(outside)]
            found.append(frozenset(outside[: ends[0]]) if space.is_plain else tuple(outside))
        return tuple(found)

    def settle(self, at: Point, query: Query) -> Cost | None:
        """The cost of a mapping with the loops of a whole nest that satisfies the query, None without one."""
        space, loops = self.space, self.loops(at)
        choices = [self.factors(*loop) for loop in at.nest]
        for chosen in product(*choices):
            for loop, factor in zip(at.nest, chosen, strict=True):
                loops[loop.p][loop.d] = factor
            if not self.within(loops, at, query):
                continue
            if space.rules.broken(loops, self.mask) or not space.go_together(loops, self.mask):
                continue
            cost = space.price(loops, self.mask)
            if satisfies(cost, query) and not space.rules.broken(loops, self.mask, cost):
                return cost
        return None

    def factors(self, p: int, d: int, number: int, left: int) -> Iterable[int]:
        """The factors of a loop that leaves one number of tiles of another."""
        return between(number, left, self.space.factors[p][d]) if self.space.any else (number // left,)

    def within(self, loops: Loops, at: Point, query: Query) -> bool:
        """Whether the steps of a mapping, and what it costs by tables and by memory, leave it within limits.

        Memories are looked at one after the other, while the others cost what floors say. The one that
        decides comes first with the next mapping, as that may well be alike.
        """
        nest, space = Nest(self.space, loops), self.space
        steps = nest.steps() * space.visits
        leak = self.leakage(steps) if space.placed else steps * sum(space.leaking(nest).values())
        cycles, base = steps + space.latency, space.arithmetic + leak
        most = min(query.energy, query.edp // cycles)
        energy = base + self.floors.total()
        if cycles > query.latency or max(energy, base + self.spent(at)) > most:
            return False
        for place, (home, accesses) in enumerate(self.moves):
            energy += space.spent(home, space.alike(nest, home, accesses)) - self.floors[home]
            if energy > most:
                self.moves.insert(0, self.moves.pop(place))
                return False
        return True

    def spent(self, at: Point) -> int:
        """Energy of accesses at the least, where the first cost is energy."""
        unit, scale = self.units[0]
        return int((at.paid + self.to_go(at) + self.direct)[0]) * unit // scale

    def held(self, measure: Measure) -> Fraction:
        """Cycles of a bandwidth that words take which no loop moves."""
        return sum((held(self.space, v, measure) for v in range(len(self.mask))), Fraction(0))


def decide(
    query: Query,
    low: int,
    high: int | float,
    measures: Sequence[Measure],
    choices: Choices,
    mask: Mask,
    i: int,
    pins: Pins = (),
) -> Cost | None:
    """The cost of a mapping with cycles from `low` to `high` that satisfies the query, None if none does.

    Tables of the first two `measures` are enough nearly everywhere. With perfect factors, extents that rules
    about several levels ask for are looked at value by value: those are `pins`.
    """
    space, rules = choices.space, choices.space.rules
    used = tuple(zip(space.fans, map(tuple, space.spatial[i].tolist()), strict=True))
    parts = rules.case(mask, rules.kept(mask, used, pins))
    query = rules.limited(query, parts or ())
    high = min(high, query.latency)
    if parts is None or low > high:
        return None
    for counted in dict.fromkeys((measures[:2], measures)):
        tables = Choice(choices, mask, i, query, low, high, counted, pins)
        if not tables.open:
            return None
        with suppress(TooManyNestsError):  # a short walk costs less than more tables
            return tables.search(query, 1 + tables.end.size // MOST_SHARE)
    if not space.any and (pin := rules.pin(tables.others, pins)):
        every = ((*pins, (pin[0], n)) for n in pin[1])
        found = (decide(query, low, high, measures, choices, mask, i, own) for own in every)
        return next(filter(None, found), None)
    if query.edp == inf or len(measures) == 1 or not 1.05 * low < high < inf:
        return tables.search(query)
    middle = math.isqrt(low * int(high))
    lower = decide(query, low, middle, measures, choices, mask, i, pins)
    return lower or decide(query, middle + 1, high, measures, choices, mask, i, pins)


def refute_dense(space: Space, query: Query) -> Cost | None:
    """The cost of a mapping that satisfies the query, None if the mapspace has none."""
    choices = Choices(space)
    costs = (decide(query, *cycles, *own) for cycles, *own in left_open(choices, query))
    return next(filter(None, costs), None)


def left_open(choices: Choices, query: Query) -> Iterator[tuple[Any, ...]]:
    """The choices that floors do not exclude, with the cycles they may take and what may limit these."""
    space, kinds = choices.space, bandwidths(choices.space)
    for mask in space.masks():
        if space.rules.case(mask, space.rules.kept(mask)) is None:
            continue
        energy, *slow = [choices.floors(mask, kind) for kind in (None, *kinds)]
        cycles = choices.cycles(slow)
        within = (
            space.rules.open
            & (energy <= query.energy)
            & (cycles <= query.latency)
            & (energy * cycles <= query.edp)
        )
        for i in np.flatnonzero(within):
            low = int(cycles[i])
            most = int(query.edp / energy[i] * (1 + SLACK)) + 1 if query.edp < inf and energy[i] > 0 else inf
            high = min(query.latency, most, inf if kinds or space.any else low)
            counts = min(query.latency, query.edp) < inf
            loads = {kind: load[i] for kind, load in zip(kinds, slow, strict=True) if counts}
            measures = (None, *sorted(loads, key=lambda kind: loads[kind], reverse=True))
            yield (low, high), measures, choices, mask, int(i)
