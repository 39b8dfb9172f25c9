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
from collections import defaultdict, namedtuple
from fractions import Fraction
from functools import cache, partial
from itertools import product
from math import inf, prod
from pathlib import Path

import numpy as np
from prove_space import EXACT, CannotCheckError, InvalidError, Space, divisors, few_sums, natural, need

FORMAT = "tilewright certificate 2"
CLAIMS = "problem problem_sha256 status objectives values bounds mapping cost covered"
KEYS = {"format", "versions", "seed", "command", "digest", *CLAIMS.split()}
FIGURES = {"energy": "energy", "latency": "cycles", "edp": "edp"}
SLACK = Fraction(1, 10**9)  # relative; doubles, here and in the definition of cycles, err far less
MOST_CELLS, FEW_NESTS, MOST_NESTS = 1 << 27, 5000, 1 << 20
Query = namedtuple("Query", "energy cycles edp", defaults=(inf,) * 3)  # asks for a mapping within all


class Choices(Space):
    """Floors of what a dataspace costs under each choice of spatial factors."""

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


def check(doc):
    """What a certificate proves; raises `InvalidError` with the first claim that fails."""
    need(doc.keys() == KEYS and doc["format"] == FORMAT, f"it has the keys of a {FORMAT!r}")
    need(doc["digest"] == sha256({key: doc[key] for key in doc if key != "digest"}), "the digest is right")
    need(doc["problem_sha256"] == sha256(doc["problem"]), "the hash is that of the problem")
    status, names, bounds, space = doc["status"], doc["objectives"], doc["bounds"], Choices(doc["problem"])
    need(names and set(names) <= set(FIGURES) and len(set(names)) == len(names), "objectives are known")
    need(type(bounds) is list and natural(bounds), "bounds are natural")
    limits, least = {}, int(space.steps.min()) if len(space.steps) else None
    counted = {"spatial_choices": len(space.steps), "least_steps": least}
    need(doc["covered"] == counted, "all choices are covered")
    if status == "INFEASIBLE":
        need(doc["mapping"] is doc["cost"] is doc["values"] is None and not bounds, "nothing is claimed")
        need(refute(space, Query()) is None, "no mapping exists")
        return "no mapping exists"
    cost = space.price(*space.read(doc["mapping"]))
    need(cost.pop("fits"), "the mapping respects all capacities")
    need(doc["cost"] == cost, "the cost is that of the mapping")
    values = [cost[FIGURES[name]] for name in names]
    need(doc["values"] == values, "the values are those of the mapping")
    need(status in ("OPTIMAL", "FEASIBLE"), "the status is known")
    proven = bounds == values if status == "OPTIMAL" else len(bounds) == 1 and bounds <= values
    need(proven, "the bounds are what the status needs")
    for name, bound in zip(names, bounds):
        better = refute(space, Query(**{**limits, FIGURES[name]: bound - 1})) if bound else None
        shown = f": one has {better[FIGURES[name]]}" if better else ""
        need(better is None, f"no mapping has {name} below {bound}{shown}")
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
    parser.add_argument("--only", default="", metavar="TEXT", help="of the suite, cases with this name")
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
