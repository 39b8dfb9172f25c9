"""The nests of temporal loops under one choice of keeping levels and spatial factors: is any of them better?

Part of the checker `prove.py`. Tables bound what lies outside of every point of a nest; a walk through the
nests that they leave open decides. docs/certificates.md has the argument.
"""

import math
from collections import defaultdict, namedtuple
from fractions import Fraction
from itertools import chain, product
from math import inf, prod
from operator import le

import numpy as np
from prove_space import EXACT, SLACK, CannotCheckError, divisors, need

MOST_ENTRIES, MOST_NESTS = 1 << 28, 1 << 20
Query = namedtuple("Query", "energy latency edp", defaults=(inf,) * 3)  # asks for a mapping within all
Point = namedtuple("Point", "i left state paid ended nest loops")  # of a nest that is built outwards
Ended = namedtuple("Ended", "tile extent loose since")  # a tile whose reuse ended at a place in the nest


class Choice:
    """Keep sets and spatial factors with several limits of energy and cycles; the temporal loops are open.

    A point of a nest is known by what is left to iterate outside of it, and since which level each tile has
    been in place (None: no longer). Tables hold the least costs, one for each limit, of all that lies outside
    of every point; words cost where the reuse of their tile ends. `way` leads outwards through the nodes.
    """

    def __init__(self, space, mask, i, query, low, high, measures):
        self.space, self.spaces, self.mask, self.start = space, space.spaces, mask, (None,) * len(mask)
        self.spatial = dict(zip(space.fans, space.spatial[i].tolist()))
        self.bounds = tuple(n // prod(used) for n, *used in zip(space.bounds, *self.spatial.values()))
        self.place = [{left: i for i, left in enumerate(divisors(n))} for n in self.bounds]
        sets = [*enumerate(mask)]
        self.reused = [[p for p in kept[1:] if space.at[p][v]["temporal_reuse"]] for v, kept in sets]
        self.way = [p for p in reversed(range(len(space.nodes))) if p not in self.spatial]
        charges = [(v, *charge) for v, kept in sets for charge in space.charges(v, kept)]
        charges = [(*charge[:6], *(int(array[i]) for array in charge[6:])) for charge in charges]
        limits, prices = zip(*(self.aim(charges, query, low, high, measure) for measure in measures))
        self.limits, self.prices = np.array(limits, dtype=float), defaultdict(list)
        for (v, source, _, _, block, *_, times, first), *pairs in zip(charges, *prices):
            self.prices[v, source].append((times, first, block, *np.transpose(pairs)))
        self.limits -= sum(self.charge(v, None, int(space.steps[i])) for v in range(len(mask)))
        self.fill()
        self.open = (self.tables[0][self.start].reshape(-1, len(limits))[-1] < self.limits).all()

    def aim(self, charges, query, low, high, measure):
        """The limit of energy + slope * cycles for mappings with cycles from `low` to `high`, and its prices.

        With a slope of at least edp / (low * high) the sum is largest at an end of the interval. Cycles count
        by the bandwidth `measure`, alone if energy is free. Prices are rounded down to keep sums exact.
        """
        most, least = (min(query.energy, query.edp // n) for n in (low, high))
        fixed, slope, top = 0, 1 << 20, high * (1 << 20)
        if most < inf:
            leak = self.space.leak({p: prod(factors) for p, factors in self.spatial.items()})
            fixed = self.space.arithmetic + (low - self.space.latency) * leak
            slope = int(least // low) + 1 if measure and high < inf else 0
            top = (max(most + slope * low, least + slope * high) + 1 if slope else most) - fixed
        pairs = []
        for v, _, p, kind, _, access, paying, _, _ in charges:
            rate = self.space.rates(v, p, kind).get(measure, 0) * (1 - Fraction(SLACK))
            pairs.append((access * paying * (most < inf), int(slope * rate)))
        unit = math.gcd(*chain(*pairs)) or 1
        while inf > top // unit >= EXACT:
            unit *= 2
        limit = top // unit + 1 if top < inf else inf
        return limit, [[float(price // unit) for price in pair] for pair in pairs]

    def charge(self, v, source, words):
        """Costs of the accesses that words delivered into `source` cause, along a last axis."""
        total, words = 0.0, np.asarray(words)[..., None]
        for times, first, block, per_block, per_word in self.prices[v, source]:
            count = np.maximum(words * times - first, 0)
            total = total + -(-count // block) * per_block + count * per_word
        return total

    def extents(self, p, inside):
        """Iterations inside of node `p`, of temporal loops and all spatial ones."""
        return [prod(n) for n in zip(inside, *(factors for q, factors in self.spatial.items() if q > p))]

    def due(self, v, since, p, inside, left, outer):
        """Costs of the tiles of `v` in place since level `since` if loops of node `p` end their reuse."""
        stride, total = self.extents(p, inside), 0.0
        for c in (c for c in self.reused[v] if p < c <= since):
            words = self.spaces[v].few_words(self.extents(c, inside), stride, left, outer)
            total = total + self.charge(v, c, words)
        return total

    def boundary(self, p, inside, outer):
        """Costs of leaving level `p`: for what it gets without reuse; infinite if its tiles do not fit."""
        extent, (least, most) = self.extents(p, inside), self.space.sizes[p]
        tiles = {v: self.spaces[v].tile(extent) for v, kept in enumerate(self.mask) if p in kept}
        size = sum(tile * self.space.at[p][v]["size"] for v, tile in tiles.items()) + 0 * outer
        once = [v for v in tiles if p != self.mask[v][0] and p not in self.reused[v]]
        cost = sum(self.charge(v, p, outer * tiles[v]) for v in once)
        return cost + np.where((least <= size) & (size <= most), 0, inf)[..., None]

    def crossed(self, state, p):
        """The state outside of level `p`: what it keeps is in place from there on."""
        return tuple(p if c is None and p in levels else c for c, levels in zip(state, self.reused))

    def fill(self):
        """Fill the tables, one outside of all nodes and one for each on the way, outermost first."""
        left = np.ix_(*map(divisors, self.bounds))
        outer, inside = prod(left), [n // rest for n, rest in zip(self.bounds, left)]
        nothing = np.full((*outer.shape, len(self.limits)), inf)
        entries = nothing.size * len(self.way) * prod(len(levels) + 1 for levels in self.reused)
        need(entries < MOST_ENTRIES, "too many tiles may stay in place", CannotCheckError)
        self.tables, table = [], defaultdict(lambda: nothing)
        table[self.start] = np.where(outer[..., None] == 1, 0, nothing)
        for p in (-1, *reversed(self.way)):
            self.space.in_time()
            outside, states = table, [[None, *(c for c in levels if c > p)] for levels in self.reused]
            if p in self.space.stores:
                cost = self.boundary(p, inside, outer)
                table = {state: cost + outside[self.crossed(state, p)] for state in product(*states)}
            else:
                table = self.looped(p, outside, states, inside, left, outer)
            self.tables.insert(0, table)

    def looped(self, p, outside, states, inside, left, outer):
        """The table inside of node `p`, whose loops may end the reuse of tiles, by the one outside of it."""
        pairs = [(v, c) for v, levels in enumerate(states) for c in levels[1:]]
        due = {(v, c): self.due(v, c, p, inside, left, outer) for v, c in pairs}
        free = [d for d in self.space.every if p >= 0 and max(self.space.factors[p][d], default=1) > 1]
        table = {}
        for state in sorted(product(*states), key=lambda state: -state.count(None)):
            table[state], held = outside[state].copy(), set()
            for v, c in (pair for pair in enumerate(state) if pair in due):
                ended = table[(*state[:v], None, *state[v + 1 :])] + due[v, c]
                table[state], held = np.minimum(table[state], ended), held | self.spaces[v].relevant
            for d in (d for d in free if d not in held):
                self.spread(table[state], d)
        return table

    def spread(self, table, d):
        """Let loops over `d` be free: every entry becomes the least over the divisors of what is left."""
        along, place = np.moveaxis(table, d, 0), self.place[d]
        for n in reversed(divisors(self.bounds[d])):
            along[place[n]] = along[[place[m] for m in divisors(n)]].min(axis=0)

    def grown(self, at):
        """Yield the points that may come next: at the next node, or after one more loop of this one."""
        p, inside = self.way[at.i], [n // rest for n, rest in zip(self.bounds, at.left)]
        factors, here, stride = self.space.factors[p], at.loops[p], self.extents(p, inside)
        if p in self.space.stores:
            paid = at.paid + self.boundary(p, inside, prod(at.left))
            yield at._replace(i=at.i + 1, state=self.crossed(at.state, p), paid=paid)
        elif all(here.get(d, 1) in factors[d] for d in self.space.every):
            yield at._replace(i=at.i + 1)
        pairs = [(d, f) for d in self.space.every if d not in here for f in factors[d]]
        for d, f in [(d, f) for d, f in pairs if at.left[d] % f == 0 < f - 1]:
            moved = [v for v, c in enumerate(at.state) if c is not None and d in self.spaces[v].relevant]
            tiles = [(v, c) for v in moved for c in self.reused[v] if p < c <= at.state[v]]
            extents = [(*self.extents(c, inside),) for _, c in tiles]
            loose = [self.spaces[v].loose(d, f, stride) for v, _ in tiles]
            ended = [Ended(*tile, len(at.nest)) for tile in zip(tiles, extents, loose)]
            left = (*at.left[:d], at.left[d] // f, *at.left[d + 1 :])
            state = tuple(None if v in moved else c for v, c in enumerate(at.state))
            loops = [*at.loops[:p], {**here, d: f}, *at.loops[p + 1 :]]
            yield Point(at.i, left, state, at.paid, (*at.ended, *ended), (*at.nest, (d, f, stride[d])), loops)

    def words(self, at, ended):
        """The words that the loops so far deliver to `ended` tiles."""
        return [self.spaces[v].delivered(extent, at.nest[since:], True) for (v, _), extent, _, since in ended]

    def spent(self, at, ended):
        """Costs so far, and of `ended` tiles at the least: exact for loops so far, few words for others."""
        total, outer = at.paid, prod(at.left)
        for ((v, c), extent, loose, _), words in zip(ended, self.words(at, ended)):
            tile = self.spaces[v].tile(extent)
            few = tile * (outer // prod(at.left[d] for d in loose))
            total = total + self.charge(v, c, (words - tile) * outer + few)
        return total

    def settled(self, at):
        """The same point with those ended tiles paid for that no loop to come may agree with."""
        sure = [ended for ended in at.ended if prod(at.left[d] for d in ended.loose) == 1]
        unsure = tuple(ended for ended in at.ended if ended not in sure)
        return at._replace(paid=self.spent(at, sure), ended=unsure)

    def future(self, at):
        """What the cost of the loops to come depends on."""
        pairs = [(tile, self.spaces[tile.tile[0]].relevant) for tile in at.ended]
        ended = [(*tile[:2], *(loop for loop in at.nest[tile.since :] if loop[0] in d)) for tile, d in pairs]
        return (*at[:3], frozenset(at.loops[self.way[at.i]].items()), *ended)

    def sunk(self, at):
        """All that decides what the loops so far cost: sizes of tiles, and numbers that costs rise with."""
        sizes, numbers, since, inner = [], [], 0, (1,) * len(self.bounds)
        for p in range(len(at.loops) - 1, self.way[at.i], -1):
            outer = tuple(n * at.loops[p].get(d, 1) for d, n in enumerate(inner))
            if p in self.spatial:
                loops = tuple(zip(at.loops[p], at.loops[p].values(), inner))
                sent = zip(self.spaces, self.space.nodes[p]["multicast"])
                numbers += [s.distinct(loops, once) for s, once in sent if s.plain < s.relevant]
                sizes += [(s.tile(inner), s.tile(outer)) for s in self.spaces if s.rw and not s.dense]
            elif p in self.space.stores:
                kept = [(v, self.space.at[p][v]) for v, levels in enumerate(self.mask) if p in levels[1:]]
                reuse = [(self.spaces[v], doc["temporal_reuse"]) for v, doc in kept]
                numbers += [space.delivered(inner, at.nest[since:], same) for space, same in reuse]
            else:
                since += len(at.loops[p])
            inner = outer
        return tuple(sizes), numbers

    def search(self, query):
        """The cost of a mapping that satisfies the query, None if none does, of all nests within the limits.

        Of nests with the same future only those go on that no other undercuts in all that costs rise with. To
        compare costs so far would not do: words come in whole blocks, and the first ones may be free.
        """
        spatial = [dict(enumerate(self.spatial.get(p, ()))) for p in range(len(self.space.nodes))]
        seen, budget = {}, MOST_NESTS
        stack = [Point(0, self.bounds, self.start, np.zeros(len(self.limits)), (), (), spatial)]
        while stack:
            self.space.in_time()
            at = self.settled(stack.pop())
            spent, cell = self.spent(at, at.ended), tuple(map(dict.get, self.place, at.left))
            if (spent + self.tables[at.i][at.state][cell] >= self.limits).any():
                continue
            cost = self.space.price(at.loops, self.mask) if at.i == len(self.way) else None
            if cost and cost["fits"] and all(cost[key] <= most for key, most in query._asdict().items()):
                return cost
            if not cost and not self.undercut(at, seen):
                budget -= 1
                need(budget, "too many nests are left open by the bounds", CannotCheckError)
                stack += self.grown(at)
        return None

    def undercut(self, at, seen):
        """Whether a nest `seen` before costs no more, however both go on; else this one counts as seen."""
        sizes, sunk = self.sunk(at)
        known = seen.setdefault((*self.future(at), sizes), [])
        if any(all(map(le, other, sunk)) for other in known):
            return True
        known.append(sunk)
        return False


def decide(query, low, high, measures, *choice):
    """The cost of a mapping with cycles from `low` to `high` that satisfies the query, None if none does.

    Tables of the first two `measures` are enough nearly everywhere.
    """
    choice[0].in_time()
    if low > high:
        return None
    for counted in dict.fromkeys((measures[:2], measures)):
        tables = Choice(*choice, query, low, high, counted)
        if not tables.open:
            return None
    if query.edp == inf or not 1.05 * low < high < inf:
        return tables.search(query)
    middle = math.isqrt(low * high)
    lower = decide(query, low, middle, measures, *choice)
    return lower or decide(query, middle + 1, high, measures, *choice)
