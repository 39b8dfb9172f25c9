#!/usr/bin/env python3
"""Checks certificates: no mapping in the stated mapspace is better than the one that is claimed.

Shares no code with the optimizer and believes nothing in a certificate but the problem. It prices the
mapping anew, then asks for a better one under every choice of keeping levels and spatial factors: floors
exclude most choices, tables over what temporal loops may iterate bound the others, and a walk through the
nests that the tables leave open decides. docs/certificates.md has the argument.

Exit codes: 0 all certificates are VALID, 1 one is INVALID or cannot be checked, 2 one cannot be read.
"""

import argparse
import hashlib
import json
import math
import sys
import time
from collections import Counter, defaultdict, namedtuple
from fractions import Fraction
from functools import cache, partial, reduce
from itertools import chain, combinations, product
from math import inf, prod
from pathlib import Path

import numpy as np

FORMAT = "tilewright certificate 2"
CLAIMS = "problem problem_sha256 status objectives values bounds mapping cost covered"
KEYS = {"format", "versions", "seed", "command", "digest", *CLAIMS.split()}
FIGURES = {"energy": "energy", "latency": "cycles", "edp": "edp"}
KIND = {"read": "read", "fill": "write", "update": "write"}  # the bandwidth that an action uses
SLACK = Fraction(1, 10**9)  # relative; doubles, here and in the definition of cycles, err far less
EXACT = 1 << 53  # sums of whole doubles compare rightly with numbers up to here
MOST_DIMS, MOST_BOUND = 20, 1 << 30
MOST_CHOICES, MOST_WAYS, MOST_STATES, MOST_CELLS = 1 << 18, 1 << 28, 1 << 21, 1 << 27
FEW_NESTS, MOST_NESTS = 5000, 1 << 20
Query = namedtuple("Query", "energy cycles edp", defaults=(inf,) * 3)  # asks for a mapping within all


class InvalidError(Exception):
    """A claim that does not hold."""


class CannotCheckError(Exception):
    """More work than this program takes on."""


def need(condition, claim, error=InvalidError):
    """Raise `error` unless `condition` holds."""
    if not condition:
        raise error(claim)


def natural(value):
    """Whether all numbers in a JSON value are natural."""
    if isinstance(value, (list, dict)):
        return all(map(natural, value.values() if isinstance(value, dict) else value))
    return isinstance(value, (str, bool)) or value is None or (type(value) is int and value >= 0)


@cache
def divisors(number):
    """Divisors in ascending order."""
    small = [f for f in range(1, math.isqrt(number) + 1) if number % f == 0]
    return sorted({*small, *(number // f for f in small)})


def few_sums(near, far, n, m, a, b):
    """At most the different i * near * x + j * far * y for i < a, j < b, whatever divides n / a and m / b."""
    steps = [(abs(near) * x, abs(far) * y) for x in divisors(n // a) for y in divisors(m // b)]
    again = [(a - y // math.gcd(x, y), b - x // math.gcd(x, y)) for x, y in steps]
    return a * b - max(max(0, i) * max(0, j) for i, j in again)


class Space:
    """A mapspace and its costs; dimensions and dataspaces are numbers, nodes are positions, 0 outermost."""

    def __init__(self, doc):
        self.bounds, self.nodes, spaces = doc["bounds"], doc["nodes"], doc["dataspaces"]
        self.levels = [p for p, node in enumerate(self.nodes) if node["kind"] == "storage"]
        self.fans = [p for p, node in enumerate(self.nodes) if node["kind"] == "fanout"]
        need(
            0 in self.levels and len(self.levels + self.fans) == len(self.nodes),
            "nodes are levels or fanouts",
        )
        whole = all(type(c) is int for s in spaces for rank in s["ranks"] for _, c in rank)
        need(whole and natural({**doc, "dataspaces": []}) and min(self.bounds) > 0, "all numbers are natural")
        few = len(self.bounds) <= MOST_DIMS and prod(self.bounds) < EXACT and max(self.bounds) < MOST_BOUND
        need(few, "the problem is too large", CannotCheckError)
        self.names, self.rw = [s["name"] for s in spaces], [s["read_write"] for s in spaces]
        self.keepers = [[tuple(kept) for kept in s["keep"]] for s in spaces]
        self.number = {name: d for d, name in enumerate(doc["dims"])}
        sets = [own for kept in self.keepers for own in kept]
        need(all(own and [p for p in self.levels if p in own] == [*own] for own in sets), "levels keep")
        self.at = [[node["dataspaces"].get(name) for name in self.names] for node in self.nodes]
        self.factors = [
            [
                [f for f in divisors(n) if f in node["factors"].get(d, [f])]
                for d, n in zip(doc["dims"], self.bounds, strict=True)
            ]
            for node in self.nodes
        ]
        self.stages = {
            p: [[self.number[d] for d in own] for own in self.nodes[p]["stages"]] for p in self.levels
        }
        once = all(sorted(chain(*own)) == [*range(len(self.bounds))] for own in self.stages.values())
        need(once and len({*self.names}) == len(spaces), "each dataspace and dimension is listed once")
        self.least = {p: self.nodes[p]["least_size"] for p in self.levels}
        sizes = {p: self.nodes[p]["most_size"] for p in self.levels}
        self.most = {p: inf if size is None else size for p, size in sizes.items()}
        self.every, self.computes = range(len(self.bounds)), prod(self.bounds)
        self.computing, self.latency = self.computes * doc["compute_energy"], doc["network_latency"]
        self.least_units = doc["least_units"]
        live = [[[(self.number[d], c) for d, c in rank] for rank in s["ranks"]] for s in spaces]
        self.ranks = [
            [[(d, c) for d, c in rank if c and self.bounds[d] > 1] for rank in ranks] for ranks in live
        ]
        times = [Counter(d for rank in ranks for d, _ in rank) for ranks in self.ranks]
        self.relevant = [set(own) for own in times]
        alone = [
            [r for r in ranks if all(own[d] == 1 for d, _ in r)] for ranks, own in zip(self.ranks, times)
        ]
        self.plain = [{r[0][0] for r in ranks if len(r) == 1} for ranks in alone]
        self.windows = [[r for r in ranks if len(r) == 2 and r[0][1] * r[1][1] > 0] for ranks in alone]
        sliding = [{d for rank in own for d, _ in rank} for own in self.windows]
        self.tangled = [r - p - s for r, p, s in zip(self.relevant, self.plain, sliding)]
        holes = prod(1 + abs(c) for ranks in self.ranks for rank in ranks for _, c in rank)
        again = prod(self.bounds[d] ** (n - 1) for own in times for d, n in own.items())
        tiles = [self.tile(v, self.bounds) for v in range(len(spaces))]
        sizes = [sum(n * own["size"] for n, own in zip(tiles, self.at[p])) for p in self.levels]
        few = prod(len(divisors(n)) for n in self.bounds) < MOST_STATES
        few = few and max(self.computes * holes * again, *sizes) < EXACT
        need(few, "the problem is too large", CannotCheckError)

    def along_x(self, p):
        """Yield the sets of dimensions that may lie along X in fanout `p`."""
        for way in self.nodes[p]["along_x"]:
            for size in range(way["least"], min(way["most"], len(way["free"])) + 1):
                yield from (
                    [self.number[d] for d in (*way["dims"], *own)] for own in combinations(way["free"], size)
                )

    def lengths(self, v, extent):
        """Lengths of the box that `extent` iterations per dimension touch, holes included, rank by rank."""
        return [1 + sum(abs(c) * (extent[d] - 1) for d, c in rank) for rank in self.ranks[v]]

    def tile(self, v, extent):
        """Words of that box."""
        return prod(self.lengths(v, extent))

    def move(self, v, d, stride):
        """How far the box moves along each rank when dimension `d` advances by `stride`."""
        return tuple(sum(c * stride for e, c in rank if e == d) for rank in self.ranks[v])

    def fresh(self, v, extent, move):
        """Words of the box that it did not cover before it moved."""
        both = [np.maximum(n - abs(step), 0) for n, step in zip(self.lengths(v, extent), move)]
        return self.tile(v, extent) - prod(both)

    def rates(self, v, p, action):
        """Cycles that a word of an action takes of the limited bandwidths (level, kind) that it uses."""
        widths, scale = self.nodes[p]["bandwidths"], Fraction(*self.at[p][v]["bandwidth_scale"])
        return {
            (p, kind): scale / Fraction(*widths[kind]) for kind in (KIND[action], "shared") if widths[kind]
        }

    def leak(self, p, used):
        """Leakage per cycle of level `p`: of the instances in use, and of idle ones under a common gate."""
        whole = {q: self.nodes[q]["mesh_x"] * self.nodes[q]["mesh_y"] for q in self.nodes[p]["gated_fanouts"]}
        return self.nodes[p]["leak"] * prod(n for q, n in {**used, **whole}.items() if q < p)

    def accesses(self, v, kept, split, part):
        """Yield the accesses to dataspace `v` as (source, level, action, times, first).

        Words delivered into level `source` (None: the arithmetic) cause max(0, words * times - first)
        accesses per instance. `split(p)` counts the different tiles below fanout `p`, `part(p)` the words
        that level `p` ever holds, whose first write needs no read.
        """
        source, times = None, 1
        for p in range(len(self.nodes) - 1, kept[0] - 1, -1):
            times = times * split(p) if p in self.fans else times
            if p not in kept:
                continue
            passes = self.at[p][v]["passes_on"]
            first = part(p) if self.rw[v] and not passes and not self.at[p][v]["first_write_reads"] else 0
            yield source, p, "read", times, first
            if p > kept[0]:
                yield (source, p, "fill", times, 0) if self.rw[v] and passes else (p, p, "fill", 1, first)
            if self.rw[v]:
                yield source, p, "update", times, 0
            source, times = (source, times) if passes else (p, 1)

    def price(self, loops, mask):
        """The exact energy, cycles and product of both of a mapping, and whether its tiles fit."""
        extents, nest = [[1 for _ in self.every]], []
        for own in reversed(loops):
            nest.insert(0, [(d, n, extents[0][d]) for d, n in own])
            extents.insert(0, [x * dict(own).get(d, 1) for d, x in enumerate(extents[0])])
        steps = prod(n for p in self.levels for _, n in loops[p])
        used = {p: prod(n for _, n in loops[p]) for p in self.fans}
        energy, counts, sizes = self.computing, Counter(), Counter()
        for v, kept in enumerate(mask):
            tile, words, parts = [self.tile(v, x) for x in extents], {None: steps}, {}
            for p in kept:
                above = [loop for q in reversed(self.levels) if q < p for loop in nest[q]]
                words[p] = self.delivered(v, p, extents[p], above)
                parts[p] = reduce(
                    lambda n, q: n * tile[q + 1] // tile[q], [q for q in used if q < p], tile[0]
                )
                sizes[p] += tile[p] * self.at[p][v]["size"]
            split = partial(self.distinct, v, nest)
            for source, p, action, times, first in self.accesses(v, kept, split, parts.get):
                count = max(0, words[source] * times - first)
                paying = min(self.nodes[p]["most_paying"], prod(n for q, n in used.items() if q < p))
                energy += -(-count // self.at[p][v]["block"]) * self.at[p][v][action] * paying
                counts[p, v, KIND[action]] += count
        cycles = max(self.level_cycles(p, counts, steps) for p in self.levels) + self.latency
        energy += cycles * sum(self.leak(p, used) for p in self.levels)
        fits = all(self.least[p] <= sizes[p] <= self.most[p] for p in self.levels)
        return {"energy": energy, "cycles": cycles, "edp": energy * cycles, "fits": fits}

    def level_cycles(self, p, counts, steps):
        """Cycles that level `p` needs, in doubles as they are defined."""
        demand, widths, slowdown = {"read": 0.0, "write": 0.0}, self.nodes[p]["bandwidths"], 1.0
        for v, kind in product(range(len(self.names)), demand):
            demand[kind] += counts[p, v, kind] / steps * float(Fraction(*self.at[p][v]["bandwidth_scale"]))
        for kind, words in (*demand.items(), ("shared", sum(demand.values()))):
            width = float(Fraction(*widths[kind])) if widths[kind] else inf
            slowdown = min(slowdown, width / words) if width < words else slowdown
        return math.ceil(steps / slowdown)

    def delivered(self, v, p, extent, loops):
        """Words delivered into an instance of level `p`: the first tile, and what each loop above brings."""
        words = tile = self.tile(v, extent)
        outer, at, first = prod(n for _, n, _ in loops), (0,) * len(self.ranks[v]), None
        for d, n, stride in (loop for loop in loops if loop[1] > 1):
            step = self.move(v, d, stride)
            jump = tuple(a - b for a, b in zip(step, at))
            first = step if first is None and any(step) else first
            new = 0 if not any(jump) else int(self.fresh(v, extent, jump)) if jump == first else tile
            words += (outer - outer // n) * (new if self.at[p][v]["temporal_reuse"] else tile)
            outer, at = outer // n, tuple(map(sum, zip(at, step)))
        return words

    def distinct(self, v, nest, p):
        """Number of different tiles among the children that the spatial loops of fanout `p` span."""
        if not self.at[p][v]["multicast"]:
            return prod(n for _, n, _ in nest[p])
        apart = prod(n for d, n, _ in nest[p] if d not in self.plain[v])
        need(apart < MOST_NESTS, "too many children share windows", CannotCheckError)
        offsets = {(0,) * len(self.ranks[v])}
        for d, n, stride in nest[p]:
            step = self.move(v, d, stride if d not in self.plain[v] else 0)
            offsets = {tuple(map(sum, zip(at, (i * s for s in step)))) for at in offsets for i in range(n)}
        return len(offsets) * prod(n for d, n, _ in nest[p] if d in self.plain[v])


class Choices(Space):
    """All choices of spatial factors, and floors of what a dataspace costs under each of them."""

    def __init__(self, doc):
        super().__init__(doc)
        rows = np.ones((1, len(self.fans), len(self.bounds)), dtype=np.int64)
        for i, p in enumerate(self.fans):
            mesh_x, mesh_y = self.nodes[p]["mesh_x"], self.nodes[p]["mesh_y"]
            for d, own in enumerate(self.factors[p]):
                need(len(rows) * len(own) < 16 * MOST_CHOICES, "too many spatial choices", CannotCheckError)
                rows = np.repeat(rows, len(own), axis=0)
                rows[:, i, d] = np.tile(own or [1], len(rows) // max(1, len(own)))
                divides = self.bounds[d] % rows[:, :, d].prod(axis=1) == 0
                rows = rows[divides & (rows[:, i].prod(axis=1) <= mesh_x * mesh_y)]
                need(len(rows) < MOST_CHOICES, "too many spatial choices", CannotCheckError)
            children, fits = rows[:, i].prod(axis=1), np.zeros(len(rows), dtype=bool)
            for n, x in enumerate(self.along_x(p)):
                need(n * (len(rows) + 1024) < MOST_WAYS, "too many spatial choices", CannotCheckError)
                wide = rows[:, i, x].prod(axis=1)
                fits |= (wide <= mesh_x) & (children // wide <= mesh_y)
            rows = rows[fits]
        self.spatial = rows[rows.prod(axis=(1, 2)) >= self.least_units]
        self.steps = self.computes // self.spatial.prod(axis=(1, 2))

    def above(self, p, dims):
        """Per choice, the product of the factors over `dims` in the fanouts above node `p`."""
        return self.spatial[:, [q < p for q in self.fans]][:, :, sorted(dims)].prod(axis=(1, 2))

    def split(self, v, q):
        """Per choice, at most the number of different tiles below fanout `q`: windows may coincide."""
        own, sums = self.spatial[:, self.fans.index(q)], []
        for (d, near), (e, far) in self.windows[v]:
            pairs, place = np.unique(own[:, [d, e]], axis=0, return_inverse=True)
            counts = [few_sums(near, far, self.bounds[d], self.bounds[e], *pair) for pair in pairs.tolist()]
            sums.append(np.array(counts)[place.reshape(-1)])
        tangled = own[:, sorted(self.tangled[v])].max(axis=1, initial=1)
        fewest = prod([tangled, own[:, sorted(self.plain[v])].prod(axis=1), *sums])
        return fewest if self.at[q][v]["multicast"] else own.prod(axis=1)

    def part(self, v, p):
        """Per choice, at least the words that an instance of level `p` ever holds."""
        dense = self.plain[v] == self.relevant[v] and all(abs(c) == 1 for r in self.ranks[v] for _, c in r)
        return self.tile(v, self.bounds) // (self.above(p, self.relevant[v]) if dense else 1 + 0 * self.steps)

    @cache
    def charges(self, v, kept):
        """Per access: dataspace, source, level, action, and per choice times, first, number of payers."""
        paying = {p: np.minimum(self.above(p, self.every), self.nodes[p]["most_paying"]) for p in kept}
        own = self.accesses(v, kept, partial(self.split, v), partial(self.part, v))
        return [
            (v, *which, times + 0 * self.steps, first + 0 * self.steps, paying[which[1]])
            for *which, times, first in own
        ]

    @cache
    def fewest(self, v, p):
        """Least words that all instances of level `p` get of dataspace `v`, over all tiles that fit."""
        tile = np.ix_(*(divisors(n) if d in self.relevant[v] else [1] for d, n in enumerate(self.bounds)))
        left = [side.max() // side for side in tile]
        fits = self.tile(v, tile) * self.at[p][v]["size"] <= self.most[p]
        return np.where(fits, self.few_words(v, tile, tile, left, prod(left)), EXACT).min()

    @cache
    def floor(self, v, kept, measure):
        """Per choice, at most the energy of dataspace `v`, or its cycles of the bandwidth `measure`."""
        total = 0.0 * self.steps
        for _, source, p, action, times, first, paying in self.charges(v, kept):
            words = self.steps
            if source is not None:
                words = self.fewest(v, source) / self.above(source, self.relevant[v])
            unit = self.at[p][v][action] / self.at[p][v]["block"] * paying
            if measure:
                unit = float(self.rates(v, p, action).get(measure, 0))
            total = total + unit * (words * times * (1 - 1e-9) - first * (1 + 1e-9))
        return total

    def few_words(self, v, extent, stride, left, outer, only=None):
        """At most the words delivered into one instance, whatever the order of the temporal loops above.

        `extent` is the tile per dimension, `stride` how far a dimension advances above it, `left` the
        iterations left per dimension, `outer` their product, `only` the first loop that moves the tile. That
        loop keeps what overlaps, and so do later ones that agree with it: those over its dimension if its
        factor is 2, and those over both dimensions of its window unless their moves can never sum up alike.
        """
        tile = self.tile(v, extent)
        words = outer * tile
        if self.tangled[v] and (only is None or only[0] not in self.plain[v]):
            words = tile * prod(left[d] for d in self.plain[v])
        for (d, near), (e, far) in [way for pair in self.windows[v] for way in (pair, pair[::-1])]:
            if only is not None and d != only[0]:
                continue
            new = self.fresh(v, extent, self.move(v, d, stride[d]))
            farthest = abs(far) * (self.bounds[e] - stride[e]) // (divisors(self.bounds[e])[1] - 1)
            apart = (abs(near) * stride[d] > farthest) | (abs(far) * stride[e] > abs(near) * self.bounds[d])
            factor = only[1] if only else divisors(self.bounds[d])[1]
            whole = outer // (factor if only and factor > 2 else left[d])
            alone = (outer - whole) * new + whole * tile
            mixed = (outer + -outer // factor) * new + outer // (left[d] * left[e]) * tile
            least = np.where(apart | (left[e] == 1), alone, mixed)
            words = np.where(left[d] > 1, np.minimum(words, least), words)
        return words


class Choice:
    """One keep set per dataspace with one choice of spatial factors; the temporal loops are open.

    A point of a nest is known by what is left to iterate outside of it, and since which level each tile has
    been in place (None: no longer). Tables hold the least cost of all that lies outside of every point; words
    cost where the reuse of their tile ends. `way` leads outwards: stages of a level's loops, its boundary.
    """

    def __init__(self, space, mask, i):
        self.space, self.mask, self.steps, self.way = space, mask, int(space.steps[i]), []
        self.spatial = dict(zip(space.fans, space.spatial[i].tolist()))
        charges = [charge for v, kept in enumerate(mask) for charge in space.charges(v, kept)]
        self.charges = [(*own[:4], *(int(part[i]) for part in own[4:])) for own in charges]
        self.bounds = tuple(n // prod(own) for n, *own in zip(space.bounds, *self.spatial.values()))
        self.place = [{left: i for i, left in enumerate(divisors(n))} for n in self.bounds]
        self.left = np.ix_(*map(divisors, self.bounds))
        reuses = [{p for p in space.levels if space.at[p][v]["temporal_reuse"]} for v in range(len(mask))]
        self.reused = [[p for p in kept[1:] if p in own] for kept, own in zip(mask, reuses)]
        for p in reversed(space.levels):
            free = {d for d in space.every if any(f > 1 for f in space.factors[p][d])}
            stages = [[d for d in dims if d in free] for dims in space.stages[p] if free & {*dims}]
            self.way += [(p, dims) for dims in (*(stages or [[]]), None)]
        self.start = (0, self.bounds, (None,) * len(mask), 0, dict.fromkeys(space.levels, ()))

    def decide(self, query, low, high, measure):
        """The cost of a mapping that satisfies the query with cycles from `low` to `high`, None if none does.

        At first, of nests with the same future only the cheapest goes on: that decides unless its true cost
        is too much. If bandwidths decide the cycles, an interval that leaves too much open is halved.
        """
        tilts, tight = (0, 1) if measure and min(query.energy, query.edp) < inf > high else (0,), {}
        for tilt in tilts:
            if low > high or not self.leaves_open(query, low, high, measure, tilt):
                return None
            tight[tilt] = self.tight
            if query.edp < inf and self.least and not tilt:
                high = min(high, query.edp // self.least)
        self.leaves_open(query, low, high, measure, max(tilts, key=tight.get))
        whole = inf in (query.edp, high) or measure is None or high < 1.01 * low
        for self.seen in ({}, None):
            self.budget, self.missed = MOST_NESTS if whole else FEW_NESTS, False
            found = self.walk(query, *self.start)
            if found or (self.budget >= 0 and not (self.missed and self.seen)):
                return found
        need(not whole, "too many nests are left open by the bounds", CannotCheckError)
        middle = math.isqrt(low * high)
        return self.decide(query, low, middle, measure) or self.decide(query, middle + 1, high, measure)

    def leaves_open(self, query, low, high, measure, tilt):
        """Fill the tables; whether energy + slope * cycles may be in reach, for cycles from `low` to `high`.

        With a slope of at least edp / (low * high) the sum is largest at an end of the interval. Cycles count
        by the bandwidth `measure`, alone if energy is free. Prices are rounded down to keep sums exact.
        """
        space, used = self.space, {p: prod(own) for p, own in self.spatial.items()}
        most, least = (min(query.energy, query.edp // n) for n in (low, high))
        fixed, slope, top = 0, 1 << 20, high * (1 << 20)
        if most < inf:
            fixed = space.computing + low * sum(space.leak(p, used) for p in space.levels)
            slope = int(least // low) + 1 if tilt else 0
            top = (max(most + slope * low, least + slope * high) + 1 if tilt else most) - fixed
        self.prices, every = defaultdict(list), [0]
        for v, source, p, action, times, first, paying in self.charges:
            node, rates = space.at[p][v], space.rates(v, p, action)
            cap = [math.ceil(high / rate * (1 + SLACK)) for rate in rates.values() if high < inf]
            every += [node[action] * paying * (most < inf), int(slope * rates.get(measure, 0) * (1 - SLACK))]
            self.prices[v, source].append((times, first, node["block"], *every[-2:], min(cap, default=inf)))
        self.unit = max(1, math.gcd(*every))
        while inf > top // self.unit >= EXACT:
            self.unit *= 2
        operands = sum(self.charge(v, None, self.steps) for v in range(len(self.mask)))
        self.limit = (top // self.unit + 1 if top < inf else inf) - operands
        self.fill()
        rest = self.tables[0][self.start[2]].flat[-1]
        if rest >= self.limit:
            return False
        self.tight, self.least = rest / self.limit, fixed + int(rest + operands) * self.unit
        return True

    def charge(self, v, source, words):
        """Cost of the accesses that words delivered into `source` cause; infinite beyond a bandwidth."""
        total = 0.0
        for times, first, block, per_block, per_word, most in self.prices[v, source]:
            count = np.maximum(words * times - first, 0)
            total = (
                total + -(-count // block) * float(per_block // self.unit) + np.where(count > most, inf, 0)
            )
            total = total + count * float(per_word // self.unit)
        return total

    def extents(self, p, inside):
        """Extents of the tile of level `p`, of its temporal and all spatial loops inside."""
        return [prod(own) for own in zip(inside, *(own for q, own in self.spatial.items() if q > p))]

    def due(self, v, since, p, inside, left, outer, only=None):
        """Cost of the tiles of `v` in place since level `since` if loops of level `p` end their reuse."""
        stride, ended = self.extents(p, inside), [c for c in self.reused[v] if p < c <= since]
        words = [self.space.few_words(v, self.extents(c, inside), stride, left, outer, only) for c in ended]
        return sum(self.charge(v, c, own) for c, own in zip(ended, words))

    def boundary(self, p, inside, outer):
        """Cost of leaving level `p`: for what it gets without reuse; infinite if its tiles do not fit."""
        space, extent = self.space, self.extents(p, inside)
        tiles = {v: space.tile(v, extent) for v, kept in enumerate(self.mask) if p in kept}
        size = sum(tile * space.at[p][v]["size"] for v, tile in tiles.items())
        once = [v for v in tiles if p != self.mask[v][0] and p not in self.reused[v]]
        cost = sum(self.charge(v, p, outer * tiles[v]) for v in once)
        return cost + np.where((space.least[p] <= size) & (size <= space.most[p]), 0, inf) + 0 * outer

    def crossed(self, state, p):
        """The state outside of the boundary of level `p`: what it keeps is in place from there on."""
        return tuple(p if s is None and p in own else s for s, own in zip(state, self.reused))

    def fill(self):
        """Fill the tables, one for each place on the way, from the outermost inwards."""
        outer, inside = prod(self.left), [n // left for n, left in zip(self.bounds, self.left)]
        cells = outer.size * len(self.way) * prod(len(own) + 1 for own in self.reused)
        need(cells < MOST_CELLS, "too many tiles may stay in place", CannotCheckError)
        table, due = {self.start[2]: np.where(outer == 1, 0, inf)}, {}
        self.tables = [table]
        for p, dims in reversed(self.way):
            outside, table = table, {}
            cost = self.boundary(p, inside, outer) if dims is None else 0
            options = [[None, *(c for c in own if c > p)] for own in self.reused]
            for state in sorted(product(*options), key=lambda state: -state.count(None)):
                if dims is None:
                    table[state] = cost + outside.get(self.crossed(state, p), inf)
                    continue
                table[state], held = outside[state].copy(), set()
                for v, since in ((v, since) for v, since in enumerate(state) if since is not None):
                    if (p, v, since) not in due:
                        due[p, v, since] = self.due(v, since, p, inside, self.left, outer)
                    ended = table[(*state[:v], None, *state[v + 1 :])] + due[p, v, since]
                    table[state], held = np.minimum(table[state], ended), held | self.space.relevant[v]
                self.spread(table[state], [d for d in dims if d not in held])
            self.tables.insert(0, table)

    def spread(self, table, dims):
        """Let loops over `dims` be free: every entry becomes the least over the divisors of what is left."""
        primes = [(d, q) for d in dims for q in divisors(self.bounds[d]) if len(divisors(q)) == 2]
        for d, q in primes:
            along, place = np.moveaxis(table, d, 0), self.place[d]
            for n in [n for n in place if n % q == 0]:
                along[place[n]] = np.minimum(along[place[n]], along[place[n // q]])

    def walk(self, query, i, left, state, spent, loops):
        """The cost of a mapping that satisfies the query and begins with these loops, else None."""
        self.budget -= 1
        if self.budget < 0 or prod(left) == 1:
            return None if self.budget < 0 else self.complete(query, loops)
        (p, dims), key = self.way[i], (i, left, state, frozenset(loops[self.way[i][0]]))
        if self.seen is not None and self.seen.get(key, inf) <= spent:
            return None
        if self.seen is not None:
            self.seen[key] = spent
        inside, outer = [n // rest for n, rest in zip(self.bounds, left)], prod(left)
        own, factors, moves = dict(loops[p]), self.space.factors[p], []
        if dims is not None:
            moves.append((i + 1, left, state, 0, ()))
        elif all(own.get(d, 1) in factors[d] for d in self.space.every):
            moves.append((i + 1, left, self.crossed(state, p), self.boundary(p, inside, outer), ()))
        found = [(d, f) for d in dims or () if d not in own for f in factors[d] if left[d] % f == 0 < f - 1]
        for d, f in found:
            ends = [v for v, since in enumerate(state) if since is not None and d in self.space.relevant[v]]
            then = tuple(None if v in ends else since for v, since in enumerate(state))
            cost = sum(self.due(v, state[v], p, inside, left, outer, (d, f)) for v in ends)
            moves.append((i, (*left[:d], left[d] // f, *left[d + 1 :]), then, cost, ((d, f),)))
        for j, rest, then, cost, loop in moves:
            if spent + cost + self.tables[j][then][tuple(map(dict.get, self.place, rest))] < self.limit:
                found = self.walk(query, j, rest, then, spent + cost, {**loops, p: loops[p] + loop})
                if found:
                    return found
        return None

    def complete(self, query, loops):
        """The cost of the mapping with these temporal loops, if it satisfies the query."""
        for p, own in loops.items():
            if any(dict(own).get(d, 1) not in allowed for d, allowed in enumerate(self.space.factors[p])):
                return None
        loops = loops | {p: [(d, n) for d, n in enumerate(own) if n > 1] for p, own in self.spatial.items()}
        cost = self.space.price([loops[p] for p in range(len(loops))], self.mask)
        good = cost["fits"] and all(cost[key] <= most for key, most in query._asdict().items())
        self.missed |= not good
        return cost if good else None


def refute(space, query):
    """The cost of a mapping that satisfies the query, None if the mapspace has none."""
    kinds = [(p, kind) for p in space.levels for kind, width in space.nodes[p]["bandwidths"].items() if width]
    for mask in product(*space.keepers):
        energy, *slow = [
            sum(space.floor(v, kept, own) for v, kept in enumerate(mask)) for own in (None, *kinds)
        ]
        energy = (energy + float(space.computing)) * (1 - 1e-9)
        cycles = np.max([space.steps, *slow], axis=0) * (1 - 1e-9) + space.latency
        within = (energy <= query.energy) & (cycles <= query.cycles) & (energy * cycles <= query.edp)
        for i in np.flatnonzero(within):
            low = max(int(space.steps[i]) + space.latency, math.ceil(cycles[i]))
            measure = kinds[int(np.argmax([own[i] for own in slow]))] if slow else None
            found = Choice(space, mask, i).decide(query, low, query.cycles, measure)
            if found:
                return found
    return None


def sha256(document):
    """SHA-256 of a JSON value: sorted keys, no spaces."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read(space, doc):
    """The loops (dimension, factor) per node, and keeping levels per dataspace, of a legal mapping."""
    loops = [[(space.number[d], n) for d, n in entry["loops"]] for entry in doc]
    rows = [[dict(own).get(d, 1) for d in space.every] for own in loops]
    need(
        len(rows) == len(space.nodes) and all(len(dict(own)) == len(own) for own in loops),
        "loops are told apart",
    )
    need(
        natural(rows) and [prod(own) for own in zip(*rows)] == space.bounds, "factors multiply to the bounds"
    )
    need(all(n in own for pair in zip(rows, space.factors) for n, own in zip(*pair)), "factors are allowed")
    own = np.array([rows[p] for p in space.fans]).reshape(-1, len(space.bounds))
    need((space.spatial == own).all(axis=(1, 2)).any(), "the spatial factors fit their meshes")
    for p, stages in space.stages.items():
        places = [i for d, n in loops[p] if n > 1 for i, dims in enumerate(stages) if d in dims]
        need(places == sorted(places), f"the loops of {space.nodes[p]['name']!r} are in an allowed order")
    kept = [entry["keep"] for entry in doc]
    need(
        all(own == [name for name in space.names if name in own] for own in kept),
        "dataspaces are named in order",
    )
    mask = [tuple(p for p in space.levels if name in kept[p]) for name in space.names]
    need(all(kept in own for kept, own in zip(mask, space.keepers)), "dataspaces are kept where they may be")
    return loops, mask


def check(doc):
    """What a certificate proves; raises `InvalidError` with the first claim that fails."""
    need(doc.keys() == KEYS and doc["format"] == FORMAT, f"it has the keys of a {FORMAT!r}")
    need(doc["digest"] == sha256({key: doc[key] for key in doc if key != "digest"}), "the digest is right")
    need(doc["problem_sha256"] == sha256(doc["problem"]), "the hash is that of the problem")
    status, names, bounds, space = doc["status"], doc["objectives"], doc["bounds"], Choices(doc["problem"])
    need(
        names and set(names) <= set(FIGURES) and len(set(names)) == len(names),
        "objectives are known, each once",
    )
    need(type(bounds) is list and natural(bounds), "bounds are natural")
    limits, least = {}, int(space.steps.min()) if len(space.steps) else None
    need(
        doc["covered"] == {"spatial_choices": len(space.steps), "least_steps": least},
        "all choices are covered",
    )
    if status == "INFEASIBLE":
        need(doc["mapping"] is doc["cost"] is doc["values"] is None and not bounds, "nothing is claimed")
        need(refute(space, Query()) is None, "no mapping exists")
        return "no mapping exists"
    cost = space.price(*read(space, doc["mapping"]))
    need(cost.pop("fits"), "the mapping respects all capacities")
    need(doc["cost"] == cost, "the cost is that of the mapping")
    values = [cost[FIGURES[name]] for name in names]
    need(doc["values"] == values, "the values are those of the mapping")
    need(status in ("OPTIMAL", "FEASIBLE"), "the status is known")
    proven = bounds == values if status == "OPTIMAL" else len(bounds) == 1 and bounds <= values
    need(proven, "the bounds are what the status needs")
    for name, bound in zip(names, bounds):
        better = refute(space, Query(**{**limits, FIGURES[name]: bound - 1})) if bound else None
        need(
            better is None,
            f"no mapping has {name} below {bound}" + (f": one has {better[FIGURES[name]]}" if better else ""),
        )
        limits[FIGURES[name]] = bound
    return "no mapping is below " + ", then ".join(f"{name} {bound}" for name, bound in zip(names, bounds))


def verdict(path):
    """The verdict on a file, VALID, INVALID, CANNOT CHECK or UNREADABLE, and what it rests on."""
    try:
        doc = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return "UNREADABLE", str(error)
    try:
        return "VALID", check(doc)
    except InvalidError as error:
        return "INVALID", f"this claim fails: {error}"
    except (CannotCheckError, MemoryError, RecursionError) as error:
        return "CANNOT CHECK", str(error)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return "INVALID", f"this claim fails: the document is well formed ({type(error).__name__}: {error})"


def main():
    """Check the certificates that the command line names, or the shipped layers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("certificates", nargs="*", type=Path, metavar="CERT.json")
    parser.add_argument("--suite", action="store_true", help="map, certify and check the shipped layers")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="of the suite, the cases with this in the name"
    )
    options = parser.parse_args()
    if options.suite:
        from prove_suite import run_suite  # noqa: PLC0415 (rich is for tables only)

        return run_suite(options.only, verdict)
    if not options.certificates:
        parser.error("name a certificate, or --suite")
    results = []
    for path in options.certificates:
        start = time.perf_counter()
        results.append(verdict(path))
        print(f"{results[-1][0]}: {path}: {results[-1][1]} ({time.perf_counter() - start:.2f} s)")
    found = {result for result, _ in results}
    return 2 if "UNREADABLE" in found else int(found != {"VALID"})


if __name__ == "__main__":
    sys.exit(main())
