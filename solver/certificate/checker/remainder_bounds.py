"""The checker's bounds on mappings with remainders, and its walk through what they leave open.

docs/certificates.md explains why they hold.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import chain, product
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from solver.certificate.checker.claims import (
    EXACT,
    MOST_ENTRIES,
    MOST_NESTS,
    MOST_NUMBERS,
    Array,
    Cost,
    Mask,
    Number,
    Query,
    State,
    able,
    ceiling,
    satisfies,
)
from solver.certificate.checker.remainders import Access, Bandwidth, Nest, Space, between, leaving
from solver.certificate.checker.tables import Known, Tables


def refute_remainders(space: Space, query: Query) -> Cost | None:
    """The cost of a mapping that satisfies the query, None if the mapspace has none."""
    for mask in space.masks():
        parts = space.rules.case(mask, space.rules.kept(mask))
        if parts is None:
            continue
        found = refute_masked(space, mask, space.rules.limited(query, parts))
        if found:
            return found
    return None


def refute_masked(space: Space, mask: Mask, query: Query) -> Cost | None:
    """The cost of a mapping with these keep sets that satisfies the query, None if there is none.

    Choices of spatial factors are split until bounds exclude all of them, or one is left, which is walked
    through.
    """
    spatial = space.spatial[space.rules.open]
    stack: list[Array] = [spatial] if len(spatial) else []
    known: dict[tuple[int, str] | None, Known] = defaultdict(dict)
    ways = limited_bandwidths(space) if query.latency < inf else []
    while stack:
        rows = stack.pop()
        if sum(map(len, known.values())) * prod(map(len, space.numbers)) > MOST_NUMBERS:
            known.clear()
        tables = TileTables(space, mask, rows, query, known[None])
        left = tables.left
        for way in ways:
            left = Carried(way, space, mask, left, query, known[way]).left if len(left) else left
        if len(left) > 1:
            stack += halves(left)
        elif len(left) and not tables.single:
            stack.append(left)
        elif len(left) and (found := tables.search(query)):
            return found
    return None


def halves(rows: Array) -> list[Array]:
    """Two parts of choices, by the factor that differs most."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    i, d = np.unravel_index(np.argmax(high / low), low.shape)
    column = rows[:, i, d]
    middle = np.median(column)
    middle = middle if middle < high[i, d] else high[i, d] - 1
    return [rows[column <= middle], rows[column > middle]]


class TileCharge(NamedTuple):
    """What accesses of level `p` to dataspace `v` cost per word that node `asking` gets."""

    v: int
    asking: int
    p: int
    price: int
    block: int
    counted: list[int]  # fanouts whose children are counted one by one
    first: bool  # words that are written first are free


class TilePoint(NamedTuple):
    """A point of a nest that grows outwards."""

    i: int
    cell: tuple[int, ...]
    state: State
    paid: float
    here: tuple[int, ...]
    nest: tuple[tuple[int, int, int, int], ...]
    last: int
    room: int


def split(number: Number, factors: Iterable[int]) -> Number:
    """At least the instances in use: `number` blocks, dealt out by spatial loops within a block, outer first.

    All blocks but the last one are full; a single one is the whole dimension, and fills a loop.
    """
    for factor in factors:
        number = np.where(number == 1, factor, (number - 1) * factor + 1)
    return number


class TileTables(Tables):
    """The least costs of all that lies outside of each point of a nest, for some choices of spatial factors.

    All bounds hold for every extent that has as many tiles.
    """

    def __init__(self, space: Space, mask: Mask, rows: Array, query: Query, known: Known) -> None:
        super().__init__(space, mask, known)
        self.low, self.high = (
            {p: own[i] for i, p in enumerate(space.fans)} for own in (rows.min(0), rows.max(0))
        )
        self.place, levels = space.place, range(-1, self.size + 1)
        self.fixed = self.fixed_dims()
        self.single = len(rows) == 1
        self.used = tuple((p, (*own.tolist(),)) for p, own in self.low.items() if self.single)
        self.keys: dict[tuple[int, State], tuple[Any, ...]] = {}
        self.few, self.many = dict(self.low), dict(self.high)
        if not self.single:  # powers of two, so that tables of other choices serve as well
            self.few = {p: [1 << (int(n).bit_length() - 1) for n in own] for p, own in self.low.items()}
            self.many = {p: [1 << int(n - 1).bit_length() for n in own] for p, own in self.high.items()}
        self.by = [[self.fixed_inside(p, d) for d in space.every] for p in levels]
        used = prod(ceiling(n, rows[:, :, d].prod(axis=1)) for d, n in enumerate(space.bounds)) * space.visits
        self.leaks, used = self.leak(), np.maximum(used, self.slow(rows))
        self.busy = int(used.min())
        limits = [self.energy(int(cycles), query) for cycles in used]
        self.limit, self.left = max(limits), rows[:0]
        if self.limit >= 0:
            self.fill(rows, limits)

    def fixed_dims(self) -> list[bool]:
        """Per dimension, whether all choices have the same factors."""
        return [all(self.low[p][d] == self.high[p][d] for p in self.space.fans) for d in self.space.every]

    @property
    def accesses(self) -> int:
        """What accesses of a single choice cost at the least."""
        return (
            int(self.paid + self.table(self.size - 1, self.start)[self.spot(self.space.bounds)]) * self.unit
        )

    @property
    def least_energy(self) -> int:
        """Of a single choice."""
        return self.accesses + int(self.space.arithmetic) + self.busy * self.leaks

    @property
    def least_cycles(self) -> int:
        """Of a single choice, by what is known of it."""
        return self.busy + int(self.space.latency)

    def slow(self, rows: Array) -> Array:
        """Per choice, at the least, the cycles that bandwidths take: each word moves once.

        The busiest instance of a memory moves no less than all together move on average.
        """
        space, cycles = self.space, np.zeros(len(rows), dtype=np.int64)
        for home, own in space.moves(self.mask).items():
            once = {access: self.spaces[access.v].least * space.visits for access in own if not access.first}
            for load in space.loaded(home, once).values():
                above = rows[:, [q < home for q in space.fans]].prod(axis=(1, 2))
                cycles = np.maximum(cycles, ceiling(math.ceil(load), above))
        return cycles

    def energy(self, busy: int, query: Query) -> int | float:
        """The most energy of accesses that a mapping that takes so long may have; negative for none."""
        cycles = busy + self.space.latency
        limit = min(query.energy, query.edp // cycles) if cycles <= query.latency else -1
        return limit - self.space.arithmetic - busy * self.leaks if limit < inf else inf

    @staticmethod
    def most(factors: Mapping[int, Sequence[int]], d: int, nodes: Iterable[int]) -> int:
        """Product of the factors of a dimension in some fanouts."""
        return prod(int(factors[p][d]) for p in nodes)

    def direct(self, rows: Array) -> Array:
        """Per choice, at the least, the costs of what the arithmetic asks for."""
        factors, total = dict(zip(self.space.fans, np.moveaxis(rows, 1, 0), strict=True)), 0.0
        charges = [
            charge for (_, asking), own in self.prices.items() if asking == self.size for charge in own
        ]
        for v, _, p, price, block, counted, first in charges:
            apart = prod(
                (n for q, n in factors.items() if q not in counted),
                start=np.ones((len(rows), len(self.space.bounds)), dtype=np.int64),
            )
            outside = prod((n for q, n in factors.items() if q < p), start=1)
            words = self.spread_out(v, apart, outside, first)
            total = total + ceiling(words, block) * float(price)
        return total + np.zeros(len(rows))

    def spread_out(self, v: int, apart: Array, outside: Number, first: bool) -> Number:
        """Per choice, at the least, words of a dataspace that the arithmetic asks for; less the first ones.

        `apart` has the factors, per choice and dimension, of fanouts whose children share accesses, `outside`
        those of the fanouts around the level that is asked.
        """
        space, bounds = self.spaces[v], np.array(self.space.bounds)
        blocks, others = (
            ceiling(bounds, apart),
            [d for d in self.space.every if d not in self.spaces[v].relevant],
        )
        if space.is_plain:
            begun, whole = outside + 0 * blocks, prod(self.space.bounds[d] for d in space.relevant)
            sure = (blocks > 1) & (blocks > begun)
            again, begun = (np.where(sure, n, 1)[:, others].prod(axis=1) for n in (blocks, begun))
            again, begun = again * self.space.visits, begun * self.space.fresh[v]
            return whole * (again - begun if first else blocks[:, others].prod(axis=1) * self.space.visits)
        if first:
            return 0 * blocks[:, 0]
        words = blocks[:, others].prod(axis=1) * self.space.visits
        for dims, _ in (group for group in space.groups if group[1]):
            shared = apart[:, list(dims)]
            words = words * ceiling(
                prod(self.space.bounds[d] for d in dims), shared.prod(axis=1) // shared.max(axis=1)
            )
        return words

    def fixed_inside(self, p: int, d: int) -> int:
        """Product of the factors of a dimension in the fanouts inside of a node, 1 if choices differ."""
        return self.most(self.low, d, [q for q in self.space.fans if q > p]) if self.fixed[d] else 1

    def tiles(self, p: int, cell: Sequence[Number]) -> list[Number]:
        """Numbers of tiles just outside of node `p`, or inside if it is a fanout, by those of `cell`.

        Where all choices have the same factors of a dimension, its cells stand for the tiles inside of the
        fanouts, until a loop comes.
        """
        return [ceiling(number, by) for number, by in zip(cell, self.by[p + 1], strict=True)]

    def leak(self) -> int:
        """Leakage per cycle at the least."""
        total = 0
        for p in self.space.stores:
            gates = self.space.nodes[p]["leak_fanouts"]
            used = prod(int(split(1, [self.low[q][d] for q in gates])) for d in self.space.every)
            total += self.space.nodes[p]["leak"] * used
        return total

    def charges(self, rows: Array) -> Iterator[TileCharge]:
        """What accesses cost: per node that asks, and per level that is accessed."""
        every = chain(*(self.space.accesses(v, kept) for v, kept in enumerate(self.mask)))
        return (self.charge(rows, access) for access in every if self.counts(access))

    def charge(self, rows: Array, access: Access) -> TileCharge:
        """What one kind of access costs."""
        v, p, asking, action, first = access
        doc, fans, multicast = self.space.at[p][v], self.space.fans, self.spaces[v].multicast
        counted = [q for q in fans if q < p or (p < q < asking and not multicast[q])]
        used = rows[:, [q < p for q in fans]].prod(axis=(1, 2)).max()
        share = min(Fraction(1), Fraction(self.space.nodes[p]["most_paying"], int(used)))
        return TileCharge(v, asking, p, math.floor(doc[action] * share), doc["block"], counted, first)

    def counts(self, access: Access) -> bool:
        """Whether an access costs anything here."""
        return True

    def scale(self, charges: Sequence[TileCharge]) -> dict[tuple[int, int], list[TileCharge]]:
        """Prices by node that asks, in a unit that keeps sums of doubles exact, as the limit is then."""
        unit = math.gcd(*(charge.price for charge in charges)) or 1
        while self.limit < inf and self.limit // unit >= EXACT:
            unit *= 2
        self.limit, self.unit = self.limit // unit if self.limit < inf else inf, unit
        found = defaultdict(list)
        for charge in charges:
            if charge.price // unit:
                found[charge.v, charge.asking].append(charge._replace(price=charge.price // unit))
        return found

    def cost(self, v: int, asking: int, n: int, cell: Sequence[Number]) -> Number:
        """At least the costs of what node `asking` gets of a dataspace, whose reuse ends at node `n`."""
        total = 0.0
        for charge in self.prices.get((v, asking), ()):
            total = total + ceiling(self.words(charge, n, cell), charge.block) * float(charge.price)
        return total

    def words(self, charge: TileCharge, n: int, cell: Sequence[Number]) -> Number:
        """At least the words of a charge: tiles come as often as the loops from node `n` on say."""
        space = self.spaces[charge.v]
        if not space.is_plain:
            return 0 if charge.first else space.least * self.space.visits
        return self.whole(charge, n, cell) * self.repeats(charge, n, cell)

    def whole(self, charge: TileCharge, n: int, cell: Sequence[Number]) -> Number:
        """At least the words of all tiles that come; those of strided dimensions have holes."""
        tiles = self.tiles(charge.asking, cell)
        words: Number = 1
        for ((d, c),) in self.spaces[charge.v].ranks:
            bound, inside = self.space.bounds[d], [q for q in self.low if n < q < charge.asking]
            most = (
                tiles[d] if self.fixed[d] else np.minimum(tiles[d] * self.most(self.many, d, inside), bound)
            )
            words = words * (abs(c) * bound - (abs(c) - 1) * most)
        return words

    def repeats(self, charge: TileCharge, n: int, cell: Sequence[Number]) -> Number:
        """How often each word comes at the least if reuse ends at node `n`.

        Less the times that need not be paid, where the first words of an output are free.
        """
        v, _, p, *_, counted, first = charge
        tiles = self.tiles(n, cell)
        again: Number = 1
        begun: Number = 1
        others = [
            d for d in self.space.every if d not in self.spaces[v].relevant and self.space.bounds[d] > 1
        ]
        for d in others:
            apart = self.most(self.high, d, [q for q in self.low if q < n and q not in counted])
            blocks, inside = ceiling(tiles[d], apart), [self.few[q][d] for q in sorted(counted) if q > n]
            number = self.children(blocks, inside)
            if first:
                least = self.children(1, [self.few[q][d] for q in sorted(counted) if n < q < p])
                outside = self.most(self.high, d, [q for q in self.low if q < min(n, p)])
                most: Number = outside * self.most(self.few, d, [q for q in self.low if n < q < p])
                sure = (blocks > 1) & (blocks > outside)
                number, most = np.where(sure, number, least), np.where(sure, most, least)
                begun = begun * most
            again = again * number
        again, begun = again * self.space.visits, begun * self.space.fresh[v]
        return np.maximum(again - begun, 0) if first else again

    @staticmethod
    def children(number: Number, factors: Sequence[int]) -> Number:
        """At least the children in use of spatial loops inside of so many blocks, outer first."""
        return split(number, factors)

    def lefts(self, p: int, d: int, number: int, factors: range) -> Iterable[int]:
        """Numbers of tiles that a loop with a factor above 1 makes of as many."""
        return leaving(number, factors)

    def fill(self, rows: Array, limits: Sequence[int | float]) -> None:
        """Find the choices that may have a cost within their limits."""
        space, charges = self.space, [*self.charges(rows)]
        self.prices = self.scale(charges)
        self.cell = np.ix_(*(np.array(own, dtype=np.int64) for own in space.numbers))
        outer = reduce(np.multiply, self.tiles(-1, self.cell))
        entries = outer.size * self.size * prod(len(levels) + 1 for levels in self.reused)
        able(entries < MOST_ENTRIES, "the tables would be too large")
        self.price_list = tuple(charge[:4] for own in self.prices.values() for charge in own)
        self.end = np.where(outer == 1, 0.0, inf)
        least, direct = self.table(self.size - 1, self.start)[self.spot(space.bounds)], self.direct(rows)
        most = np.array([limit // self.unit if limit < inf else inf for limit in limits], dtype=float)
        self.paid, within = float(direct.min()), (least + direct <= most) & (least < inf)
        self.left = rows[within]

    def key(self, p: int, state: State = ()) -> tuple[Any, ...]:
        """All that tables just inside of node `p` depend on, but for what is the same for all choices."""
        if (p, state) in self.keys:
            return self.keys[p, state]
        outer, every = [q for q in self.low if q <= p], self.space.every
        own = [self.price_list, *self.fixed, *chain(*self.by[: p + 2])]
        own += [int(n) for q in outer for n in (*self.low[q], *self.high[q])]
        pairs = [(v, q) for v, last in enumerate(state) if last is not None for q in self.low if p < q < last]
        for v, q in pairs:
            many = self.spaces[v].relevant
            own += [int((self.many if d in many else self.few)[q][d]) for d in every]
        self.keys[p, state] = tuple(own)
        return self.keys[p, state]

    def boundary(self, p: int) -> Array:
        """Costs of leaving level `p`: for what it gets without reuse; infinite if its tiles do not fit.

        Tiles at outer places of a memory are no smaller, and take room as well; how much, the walk knows.
        """
        held, cell = [v for v, kept in enumerate(self.mask) if p in kept], self.cell
        bounds, (least, most), tiles = self.space.bounds, self.space.sizes[p], self.tiles(p, cell)
        small = self.smallest(p, cell)
        large = [
            np.where(number > 1, (n - 1) // np.maximum(number - 1, 1), n)
            for n, number in zip(bounds, tiles, strict=True)
        ]
        places = self.memory[p].outside(p) if p in self.memory else [p]
        tenants = [v for v, kept in enumerate(self.mask) if {*kept}.intersection(places)]
        low, high = self.sizes(p, tenants, small), self.sizes(p, held, large)
        least = 0 if p in self.memory else least
        once = [v for v in held if p != self.mask[v][0] and p not in self.reused[v]]
        cost = sum(self.cost(v, p, p, cell) for v in once)
        fits = (low <= most) & (high >= least)
        for allowed in self.space.rules.sorted_out(self.mask, self.used)[0]:
            fits = fits & (allowed.any_between(small, large) if allowed.p == p else True)
        return np.broadcast_to(cost + np.where(fits, 0.0, inf), self.end.shape)

    def smallest(self, p: int, cell: Sequence[Number]) -> list[Number]:
        """The least extents of which there are as many tiles just outside of level `p`."""
        parts = zip(self.space.bounds, cell, self.by[p + 1], strict=True)
        return [np.minimum(n, by * ceiling(n, number)) for n, number, by in parts]

    def sizes(self, p: int, held: Iterable[int], extent: Sequence[Number]) -> Number:
        """Room that tiles of dataspaces take of level `p`."""
        return sum(self.spaces[v].tile(extent) * self.space.at[p][v]["size"] for v in held)

    def room(self, at: TilePoint, p: int) -> int:
        """Room that tiles at the places of a memory take at the least from its innermost one to `p`."""
        held = [v for v, kept in enumerate(self.mask) if p in kept]
        before = 0 if p == self.memory[p].places[-1] else at.room
        return before + int(self.sizes(p, held, self.smallest(p, at.cell)))

    def possible(self, at: TilePoint, p: int, room: int) -> bool:
        """Whether a memory has room for a nest up to its place `p`, and lets its loops lie so."""
        loops: list[dict[int, int]] = [{} for _ in self.space.nodes]
        for q, d, _, left in at.nest:
            loops[q][d] = left
        return room <= self.space.sizes[p][1] and self.memory[p].ordered(loops)

    def unrolled(self, p: int, table: Array) -> Array:
        """The table inside of a fanout: the least over all factors of the choices."""
        for d in self.space.every:
            if self.fixed[d]:
                idle = self.tiles(p, self.cell)[d] < self.low[p][d]
                table = np.where(idle, inf, table) if idle.any() else table
            else:
                table = self.unrolled_over(p, d, table)
        return table

    def unrolled_over(self, p: int, d: int, table: Array) -> Array:
        """The table inside of a fanout along one dimension, of which the choices have different factors."""
        along, place = np.moveaxis(table, d, 0), self.space.place[d]
        factors, found = range(int(self.low[p][d]), int(self.high[p][d]) + 1), np.full(along.shape, inf)
        for i, number in enumerate(self.space.numbers[d]):
            lefts = [place[left] for left in self.lefts(p, d, number, factors)]
            lefts += [i] if 1 in factors else []
            found[i] = along[lefts].min(axis=0, initial=inf)
        return np.moveaxis(found, 0, d)

    def ends(self, v: int, since: int, p: int) -> Number:
        """Costs of the tiles of a dataspace whose reuse loops of node `p` end, see `Tables`."""
        return sum((self.cost(v, c, p, self.cell) for c in self.reused[v] if p < c <= since), 0.0)

    def joins(self, p: int, d: int) -> dict[int, list[int]]:
        """The loops of node `p` over a dimension as pairs of places, see `Space.joins`."""
        return self.space.joins(p, d, self.by[p + 1][d])

    def search(self, query: Query) -> Cost | None:
        """The cost of a mapping that satisfies the query, None if none does, of nests within the limits."""
        budget = MOST_NESTS
        stack = [TilePoint(self.size - 1, self.space.bounds, self.start, self.paid, (), (), -1, 0)]
        while stack:
            at = stack.pop()
            budget -= 1
            able(budget, "the bounds leave too many loop nests open")
            if at.i >= 0:
                stack += self.grown(at)
            elif found := self.settle(at, query):
                return found
        return None

    def open(self, at: TilePoint) -> bool:
        """Whether the bounds leave a point open."""
        total = at.paid + float(self.table(at.i, at.state)[self.spot(at.cell)])
        return total < inf and total <= self.limit

    def spot(self, cell: Sequence[int]) -> tuple[int, ...]:
        """The place of numbers of tiles in tables."""
        return tuple(places[number] for places, number in zip(self.place, cell, strict=True))

    def grown(self, at: TilePoint) -> list[TilePoint]:
        """The points that may come next, as far as bounds leave them open."""
        p, factors, tiles = at.i, self.space.factors[at.i], self.tiles(at.i, at.cell)
        if p in self.space.stores:
            paid = at.paid + float(self.left_for(p)[self.spot(at.cell)])
            room = self.room(at, p) if p in self.memory else 0
            if p in self.memory and not self.possible(at, p, room):
                return []
            found = [at._replace(i=p - 1, state=self.crossed(at.state, p), paid=paid, room=room)]
        elif p in self.low:
            loops = tuple((p, d, tiles[d], int(n)) for d, n in enumerate(self.low[p]) if n > 1)
            busy = all(n <= number for _, _, number, n in loops)
            found = [at._replace(i=p - 1, nest=(*at.nest, *loops))] if busy else []
        else:
            done = all(d in at.here or 1 in factors[d] for d in self.space.every)
            found = [at._replace(i=p - 1, here=(), last=-1)] if done else []
            dims = [] if p in self.idle else self.space.every[at.last + 1 :]
            dims = [d for d in dims if d not in at.here]
            longer = (self.longer(at, d, left) for d in dims for left in leaving(tiles[d], factors[d]))
            found += [own for own in longer if own is not None]
        return [own for own in found if self.open(own)]

    def longer(self, at: TilePoint, d: int, left: int) -> TilePoint | None:
        """The point after one more loop at the node, None if the bounds exclude it."""
        p, number, place = at.i, self.tiles(at.i, at.cell)[d], self.spot(at.cell)
        by, numbers = self.by[p + 1][d], self.space.numbers[d]
        most = numbers[bisect_left(numbers, -left, key=lambda n: -ceiling(n, by))]
        after = at._replace(
            cell=(*at.cell[:d], most, *at.cell[d + 1 :]),
            state=self.left_in_place(at.state, d),
            paid=at.paid + sum(float(self.ended(*own, p)[place]) for own in self.moved(at.state, d)),
            here=(*at.here, d),
            nest=(*at.nest, (p, d, number, left)),
            last=d if self.any_order(at) else -1,
        )
        return after if self.open(after) else None

    def any_order(self, at: TilePoint) -> bool:
        """Whether the cost does not depend on the order of the loops to come at the node."""
        kept = any(levels[-1] > at.i for levels in self.mask)
        plain = all(space.is_plain for space in self.spaces)
        free = not self.space.rules.asks_order and not any(at.state)
        return free and (plain or not kept)

    def within(self, steps: int, spent: int, query: Query) -> bool:
        """Whether a mapping with so many steps, and so much energy of accesses, may satisfy a query."""
        busy = max(steps, self.busy)
        energy: int = spent + self.space.arithmetic + busy * self.leaks
        cycles: int = busy + self.space.latency
        return energy <= query.energy and cycles <= query.latency and energy * cycles <= query.edp

    def settle(self, at: TilePoint, query: Query) -> Cost | None:
        """The cost of a mapping that satisfies the query, of those whose loops leave these numbers."""
        if set(self.tiles(-1, at.cell)) != {1}:
            return None
        choices, sure = [], int(at.paid + self.table(-1, at.state)[self.spot(at.cell)]) * self.unit
        for p, d, number, left in at.nest:
            unrolled = p in self.low
            choices.append([left] if unrolled else between(number, left, self.space.factors[p][d]))
        for chosen in product(*choices):
            loops: list[dict[int, int]] = [{} for _ in self.space.nodes]
            for (p, d, *_), factor in zip(at.nest, chosen, strict=True):
                loops[p][d] = factor
            if not self.within(Nest(self.space, loops).steps() * self.space.visits, sure, query):
                continue
            if self.space.rules.broken(loops, self.mask) or not self.space.go_together(loops, self.mask):
                continue
            cost = self.space.price(loops, self.mask)
            if satisfies(cost, query) and not self.space.rules.broken(loops, self.mask, cost):
                return cost
        return None


class Carried(TileTables):
    """Tables of the words that one bandwidth of a memory carries, in place of energy.

    The busiest instance carries no less than all do on average. Words count in parts of `unit_words`.
    """

    def __init__(self, way: Bandwidth, space: Space, mask: Mask, rows: Array, *arguments: Any) -> None:
        self.way, (home, kind) = way, way
        self.width: Fraction = Fraction(*space.nodes[home]["bandwidths"][kind])
        self.width *= int(rows[:, [q < home for q in space.fans]].prod(axis=(1, 2)).max())
        scales = [Fraction(*held["bandwidth_scale"]) for held in space.at[home]]
        self.unit_words = math.lcm(*(scale.denominator for scale in scales))
        loads = [(v, n) for (p, v, own), n in space.loads.items() if p == home and kind in (own, "shared")]
        self.load = sum(int(scales[v] * self.unit_words) * n for v, n in loads)
        super().__init__(space, mask, rows, *arguments)

    def counts(self, access: Access) -> bool:
        """Whether words of an access load the bandwidth."""
        return self.space.home[access.p] == self.way[0] and self.way[1] in (access.kind, "shared")

    def charge(self, rows: Array, access: Access) -> TileCharge:
        """Words of one kind of access."""
        scale = Fraction(*self.space.at[access.p][access.v]["bandwidth_scale"])
        own = super().charge(rows, access)
        return own._replace(price=int(scale * self.unit_words), block=1)

    def energy(self, busy: int, query: Query) -> int | float:
        """The most words that a mapping that takes so long may move; negative for none."""
        cycles = query.latency - self.space.latency
        if not busy <= cycles < inf:
            return cycles if busy <= cycles else -1
        return math.floor(int(cycles) * self.width * self.unit_words) - self.load

    @property
    def least_cycles(self) -> int:
        """Of a single choice."""
        words = Fraction(self.accesses + self.load, self.unit_words)
        return max(self.busy, math.ceil(words / self.width)) + int(self.space.latency)


def limited_bandwidths(space: Space) -> list[Bandwidth]:
    """The bandwidths that limit words, as memories and kinds."""
    kinds = ((p, kind, width) for p in space.homes for kind, width in space.nodes[p]["bandwidths"].items())
    return [(p, kind) for p, kind, width in kinds if width]
