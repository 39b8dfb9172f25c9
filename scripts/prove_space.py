"""The mapspace that a certificate states: its rules, its choices of spatial factors, and exact costs.

Part of the checker `prove.py`; it shares no code with the product's own cost model and readers.
"""

import math
from collections import Counter
from fractions import Fraction
from functools import cache, partial, reduce
from itertools import chain, combinations, product
from math import inf, prod

import numpy as np

KIND = {"read": "read", "fill": "write", "update": "write"}  # the bandwidth that an action uses
EXACT = 1 << 53  # sums of whole doubles compare rightly with numbers up to here
MOST_DIMS, MOST_BOUND = 20, 1 << 30
MOST_CHOICES, MOST_WAYS, MOST_STATES, MOST_OFFSETS = 1 << 18, 1 << 28, 1 << 21, 1 << 20


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
        self.spatial = self.choices()
        self.steps = self.computes // self.spatial.prod(axis=(1, 2))

    def along_x(self, p):
        """Yield the sets of dimensions that may lie along X in fanout `p`."""
        for way in self.nodes[p]["along_x"]:
            for size in range(way["least"], min(way["most"], len(way["free"])) + 1):
                yield from (
                    [self.number[d] for d in (*way["dims"], *own)] for own in combinations(way["free"], size)
                )

    def choices(self):
        """All choices of spatial factors: (choice, fanout, dimension)."""
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
        return rows[rows.prod(axis=(1, 2)) >= self.least_units]

    def above(self, p, dims):
        """Per choice, the product of the factors over `dims` in the fanouts above node `p`."""
        return self.spatial[:, [q < p for q in self.fans]][:, :, sorted(dims)].prod(axis=(1, 2))

    def read(self, doc):
        """The loops (dimension, factor) per node, and keeping levels per dataspace, of a legal mapping."""
        loops = [[(self.number[d], n) for d, n in entry["loops"]] for entry in doc]
        rows = [[dict(own).get(d, 1) for d in self.every] for own in loops]
        need(
            len(rows) == len(self.nodes) and all(len(dict(own)) == len(own) for own in loops),
            "loops are told apart",
        )
        need(
            natural(rows) and [prod(own) for own in zip(*rows)] == self.bounds,
            "factors multiply to the bounds",
        )
        need(
            all(n in own for pair in zip(rows, self.factors) for n, own in zip(*pair)), "factors are allowed"
        )
        own = np.array([rows[p] for p in self.fans]).reshape(-1, len(self.bounds))
        need((self.spatial == own).all(axis=(1, 2)).any(), "the spatial factors fit their meshes")
        for p, stages in self.stages.items():
            places = [i for d, n in loops[p] if n > 1 for i, dims in enumerate(stages) if d in dims]
            need(places == sorted(places), f"the loops of {self.nodes[p]['name']!r} are in an allowed order")
        kept = [entry["keep"] for entry in doc]
        need(
            all(own == [name for name in self.names if name in own] for own in kept),
            "dataspaces are named in order",
        )
        mask = [tuple(p for p in self.levels if name in kept[p]) for name in self.names]
        need(
            all(kept in own for kept, own in zip(mask, self.keepers)), "dataspaces are kept where they may be"
        )
        return loops, mask

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
        need(apart < MOST_OFFSETS, "too many children share windows", CannotCheckError)
        offsets = {(0,) * len(self.ranks[v])}
        for d, n, stride in nest[p]:
            step = self.move(v, d, stride if d not in self.plain[v] else 0)
            offsets = {tuple(map(sum, zip(at, (i * s for s in step)))) for at in offsets for i in range(n)}
        return len(offsets) * prod(n for d, n, _ in nest[p] if d in self.plain[v])
