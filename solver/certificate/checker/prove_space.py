"""The mapspace that a certificate states: its rules, exact costs, and floors under them.

Part of the checker `prove.py`; it shares no code with the product's own cost model and readers.
"""

import math
import time
from collections import Counter
from fractions import Fraction
from functools import cache, lru_cache, reduce
from itertools import chain, pairwise, product
from math import inf, prod

import numpy as np

EXACT = 1 << 53  # sums of whole doubles compare rightly with numbers up to here
SLACK = 1e-9  # relative; doubles, here and in the definition of cycles, err far less
MOST_DIMS, MOST_BOUND, MOST_STATES = 20, 1 << 30, 1 << 21
MOST_CHOICES, MOST_CHILDREN, MOST_MASKS, MOST_PAIRS = 1 << 21, 1 << 20, 1 << 18, 1 << 28
MOST_PARTS, MOST_NUMBERS = 1 << 12, 1 << 26  # nodes, dataspaces and ranks; entries of an array of choices
NAMES = {"name", "kind", "dims", "objective", "ranks"}
WHOLE = {"storage": ("least_size", "most_size", "most_paying", "leak"), "spatial": ("mesh_x", "mesh_y")}
HELD, TRUTHS = (
    ("size", "block", "read", "fill", "update"),
    ("temporal_reuse", "first_write_reads", "passes_on"),
)
TOTALS = ("compute_energy", "network_latency", "least_units")


class InvalidError(Exception):
    """A claim that does not hold."""


class CannotCheckError(Exception):
    """More work than this program takes on."""


def need(condition, claim, error=InvalidError):
    """Raise `error` unless `condition` holds."""
    if not condition:
        raise error(claim)


def natural(value):
    """Whether a JSON value has no other numbers than natural ones; names and ranks are left out."""
    if isinstance(value, dict):
        return all(natural(entry) for key, entry in value.items() if key not in NAMES)
    if isinstance(value, list):
        return all(map(natural, value))
    return value is None or isinstance(value, bool) or (type(value) is int and value >= 0)


def formed(node, count):
    """Whether a node has whole numbers, truth values and fractions where it should; `count` dataspaces."""
    lists, held, truths = node.get("factors", []), node.get("dataspaces", []), node.get("multicast", [])
    if node["kind"] == "storage":
        truths = [space[key] for space in held for key in TRUTHS]
        widths = [node["bandwidths"][key] for key in ("read", "write", "shared")]
        pairs = [*filter(None, widths), *(space["bandwidth_scale"] for space in held)]
        fits = len(held) == count and all(len(pair) == 2 for pair in pairs)
        lists = [*pairs, node["leak_fanouts"], *([space[key] for key in HELD] for space in held)]
    elif node["kind"] == "spatial":
        fits, lists = len(truths) == count, [*lists, *node["along_x"]]
    else:
        fits = not held and not truths
    numbers = [*(node[key] for key in WHOLE.get(node["kind"], ())), *chain(*lists)]
    return fits and {*map(type, numbers)} <= {int} and {*map(type, truths)} <= {bool}


@cache
def divisors(number):
    """Divisors in ascending order."""
    small = [f for f in range(1, math.isqrt(number) + 1) if number % f == 0]
    return sorted({*small, *(number // f for f in small)})


class Dataspace:
    """What tiles of a dataspace hold, and how many words loops (dimension, factor, stride) deliver."""

    def __init__(self, doc, bounds):
        self.rw, self.keep, self.bounds = doc["read_write"], [tuple(kept) for kept in doc["keep"]], bounds
        self.ranks = [[(d, c) for d, c in rank if c and bounds[d] > 1] for rank in doc["ranks"]]
        times = Counter(d for rank in self.ranks for d, _ in rank)
        alone = [rank for rank in self.ranks if all(times[d] == 1 for d, _ in rank)]
        self.plain, self.relevant = {rank[0][0] for rank in alone if len(rank) == 1}, set(times)
        self.windows = [rank for rank in alone if len(rank) == 2 and rank[0][1] * rank[1][1] > 0]
        self.tangled = self.relevant - self.plain - {d for rank in self.windows for d, _ in rank}
        steps = [1 + abs(c) for rank in self.ranks for _, c in rank]
        self.dense = self.plain == self.relevant and {*steps} <= {2}
        self.most = prod(steps) * prod(bounds[d] ** (n - 1) for d, n in times.items()) * prod(bounds)

    def lengths(self, extent):
        """Lengths of the box that `extent` iterations per dimension touch, holes included, rank by rank."""
        return [1 + sum(abs(c) * (extent[d] - 1) for d, c in rank) for rank in self.ranks]

    def tile(self, extent):
        """Words of that box."""
        return prod(self.lengths(extent))

    def move(self, d, stride):
        """How far the box moves along each rank when dimension `d` advances by `stride`."""
        return tuple(sum(c * stride for e, c in rank if e == d) for rank in self.ranks)

    def fresh(self, extent, move):
        """Words of the box that it did not cover before it moved."""
        both = [np.maximum(n - abs(step), 0) for n, step in zip(self.lengths(extent), move)]
        return self.tile(extent) - prod(both)

    @lru_cache(1 << 18)
    def delivered(self, extent, loops, reuse):
        """Words delivered to a tile of `extent`: the first tile, and what each loop outside of it brings."""
        words = tile = self.tile(extent)
        outer, at, first = prod(n for _, n, _ in loops), (0,) * len(self.ranks), None
        for d, n, stride in loops:
            step = self.move(d, stride)
            jump = tuple(a - b for a, b in zip(step, at))
            first = step if first is None and any(step) else first
            new = 0 if not any(jump) else int(self.fresh(extent, jump)) if jump == first else tile
            words += (outer - outer // n) * (new if reuse else tile)
            outer, at = outer // n, tuple(map(sum, zip(at, step)))
        return words

    def few_words(self, extent, stride, left, outer):
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

    def apart(self, d, e, stride):
        """Whether moves of the two dimensions of a window, from these strides on, can never sum up alike."""
        near, far = (max(abs(step) for step in self.move(i, 1)) for i in (d, e))
        farthest = far * (self.bounds[e] - stride[e]) // (divisors(self.bounds[e])[1] - 1)
        return (near * stride[d] > farthest) | (far * stride[e] > near * self.bounds[d])

    def loose(self, d, factor, stride):
        """Dimensions whose later loops may agree with the first that moves a tile, over `d`."""
        if d in self.tangled:
            return tuple(e for e in range(len(self.bounds)) if e not in self.plain)
        others = [e for pair in self.windows if d in dict(pair) for e in dict(pair) if e != d]
        apart = all(self.apart(d, e, stride) for e in others)
        return (d, *others) if not apart else (d,) if others and factor == 2 else ()

    @cache
    def distinct(self, loops, multicast):
        """Number of children that spatial loops span, with multicast of those with different tiles."""
        children = prod(n for _, n, _ in loops)
        if not multicast:
            return children
        need(children < MOST_CHILDREN, "a fanout has too many children", CannotCheckError)
        offsets = {(0,) * len(self.ranks)}
        for d, n, stride in loops:
            step = self.move(d, stride)
            offsets = {tuple(a + i * s for a, s in zip(at, step)) for at in offsets for i in range(n)}
        return len(offsets)

    def few_distinct(self, factors, multicast):
        """At most that number for all strides, given factors (choice, dimension): windows may coincide."""
        if not multicast:
            return factors.prod(axis=1)
        least = factors[:, sorted(self.plain)].prod(axis=1)
        least = least * factors[:, sorted(self.tangled)].max(axis=1, initial=1)
        for (d, near), (e, far) in self.windows:
            pairs, index = np.unique(factors[:, [d, e]], axis=0, return_inverse=True)
            (a, b), strides = pairs.T, product(*(divisors(self.bounds[i]) for i in (d, e)))
            ratios = {Fraction(near * x, far * y) for x, y in strides}
            need(len(ratios) * len(a) < MOST_PAIRS, "windows have too many strides", CannotCheckError)
            again = (np.maximum(a - r.denominator, 0) * np.maximum(b - r.numerator, 0) for r in ratios)
            least = least * (a * b - reduce(np.maximum, again))[index.ravel()]
        return least


class Space:
    """A mapspace: its rules, its choices of spatial factors, exact costs, and floors under them.

    Dimensions, dataspaces and nodes are numbers; node 0 is the outermost.
    """

    def __init__(self, doc, seconds=inf):
        self.deadline = time.monotonic() + seconds
        self.bounds, self.nodes, self.every = doc["bounds"], doc["nodes"], range(len(doc["bounds"]))
        kinds, one = [node["kind"] for node in self.nodes], [[1]] * len(self.bounds)
        pairs = zip(self.nodes, kinds)
        self.factors = [one if kind == "storage" else node["factors"] for node, kind in pairs]
        ranks = [rank for space in doc["dataspaces"] for rank in space["ranks"]]
        whole = all(type(c) is int and d in self.every for d, c in chain(*ranks))
        whole = whole and natural(doc) and all(map(all, [self.bounds, *chain(*self.factors)]))
        need(whole, "numbers are natural")
        need(all(len(dict(rank)) == len(rank) for rank in ranks), "ranks name a dimension once")
        need({*map(len, self.factors)} == {len(one)}, "nodes have factors for each dimension")
        pairs = [pair for own in chain(*self.factors) for pair in pairwise(own)]
        need(all(small < large for small, large in pairs), "factors ascend")
        small = len(ranks) + len(self.nodes) + len(doc["dataspaces"]) <= MOST_PARTS
        small = small and all(abs(c) < EXACT for _, c in chain(*ranks))
        small = small and len(self.bounds) <= MOST_DIMS and max(self.bounds) < MOST_BOUND
        small = small and prod(len(divisors(n)) for n in self.bounds) < MOST_STATES
        need(small, "the problem is too large", CannotCheckError)
        self.stores = [p for p, kind in enumerate(kinds) if kind == "storage"]
        self.fans = [p for p, kind in enumerate(kinds) if kind == "spatial"]
        need(0 in self.stores and {*kinds} <= {"storage", "temporal", "spatial"}, "nodes are of known kinds")
        formal = all(formed(node, len(doc["dataspaces"])) for node in self.nodes)
        numbers = [*self.bounds, *(doc[key] for key in TOTALS)]
        truths = {type(space["read_write"]) for space in doc["dataspaces"]}
        need(formal and {*map(type, numbers)} <= {int} and truths <= {bool}, "values are of their kinds")
        need(len(doc["dims"]) == len(self.bounds), "each dimension has a name")
        self.spaces = [Dataspace(space, self.bounds) for space in doc["dataspaces"]]
        sets = [kept for space in self.spaces for kept in space.keep]
        need(all(kept and [p for p in self.stores if p in kept] == [*kept] for kept in sets), "levels keep")
        self.at = {p: self.nodes[p]["dataspaces"] for p in self.stores}
        self.sizes = {p: (self.nodes[p]["least_size"], self.nodes[p]["most_size"]) for p in self.stores}
        self.computes, self.latency = prod(self.bounds), doc["network_latency"]
        self.arithmetic = self.computes * doc["compute_energy"]
        pairs = [pair for docs in self.at.values() for pair in zip(self.spaces, docs)]
        most = [space.most * max(1, doc["size"]) for space, doc in pairs]
        small = prod(len(space.keep) for space in self.spaces) <= MOST_MASKS
        small = small and len(self.spaces) * max([self.computes, self.latency, *most]) < EXACT
        need(small, "the problem is too large", CannotCheckError)
        self.spatial = self.choices(doc["least_units"])
        self.steps = self.computes // self.spatial.prod(axis=(1, 2))

    def in_time(self):
        """Give up after the time limit."""
        need(time.monotonic() < self.deadline, "it is not decided within the time limit", CannotCheckError)

    def choices(self, least_units):
        """All choices of spatial factors: (choice, fanout, dimension)."""
        rows = np.ones((1, len(self.fans), len(self.bounds)), dtype=np.int64)
        for i, p in enumerate(self.fans):
            mesh_x, mesh_y = self.nodes[p]["mesh_x"], self.nodes[p]["mesh_y"]
            sides = len(self.nodes[p]["along_x"])
            need(sides <= MOST_MASKS, "too many sets of dimensions along X", CannotCheckError)
            for d, bound in enumerate(self.bounds):
                self.in_time()
                factors = np.array([n for n in self.factors[p][d] if bound % n == 0], dtype=np.int64)
                most = max(rows.size, len(rows) * max(len(factors), sides))
                need(most <= MOST_NUMBERS, "too many spatial choices", CannotCheckError)
                fits = bound % np.outer(rows[:, :, d].prod(axis=1), factors) == 0
                fits &= np.outer(rows[:, i].prod(axis=1), factors) <= mesh_x * mesh_y
                row, index = np.nonzero(fits)
                need(len(row) <= MOST_CHOICES, "too many spatial choices", CannotCheckError)
                rows = rows[row]
                rows[:, i, d] = factors[index]
            wide = [rows[:, i, x].prod(axis=1) for x in self.nodes[p]["along_x"]]
            fits = [(n <= mesh_x) & (rows[:, i].prod(axis=1) // n <= mesh_y) for n in wide]
            rows = rows[np.any(fits, axis=0)]
        return rows[rows.prod(axis=(1, 2)) >= least_units]

    def read(self, mapping):
        """The factors of each node's loops, innermost first, and the levels of each dataspace, if legal."""
        pairs, mask = [*chain(*mapping["loops"])], [tuple(kept) for kept in mapping["keep"]]
        known = all(d in self.every and type(n) is int and n > 1 for d, n in pairs)
        loops = [dict(pairs) for pairs in mapping["loops"]] if known else []  # any keys may share a hash
        once = len(loops) == len(self.nodes) and sum(map(len, loops)) == len(pairs)
        need(once, "loops are told apart")
        rows = [[factors.get(d, 1) for d in self.every] for factors in loops]
        need([prod(column) for column in zip(*rows)] == self.bounds, "factors multiply to the bounds")
        allowed = (n in choices for pair in zip(rows, self.factors) for n, choices in zip(*pair))
        need(all(allowed), "factors are allowed")
        fans = np.array([rows[p] for p in self.fans]).reshape(-1, len(self.bounds))
        need((self.spatial == fans).all(axis=(1, 2)).any(), "the spatial factors fit their meshes")
        kept = len(mask) == len(self.spaces) and all(m in space.keep for m, space in zip(mask, self.spaces))
        need(kept, "dataspaces are kept where they may be")
        return loops, mask

    def rates(self, v, p, kind):
        """Cycles that a word takes of the limited bandwidths (level, kind) that it uses."""
        widths, scale = self.nodes[p]["bandwidths"], Fraction(*self.at[p][v]["bandwidth_scale"])
        return {(p, way): scale / Fraction(*widths[way]) for way in (kind, "shared") if widths[way]}

    def leak(self, used):
        """Leakage per cycle, given how many children each fanout uses."""
        nodes = [self.nodes[p] for p in self.stores]
        return sum(node["leak"] * prod(used[q] for q in node["leak_fanouts"]) for node in nodes)

    def accesses(self, v, kept, one, used, split, part):
        """Yield accesses: source, level, bandwidth, words of a block and its energy, payers, times, first.

        Words delivered into level `source` (None: the arithmetic) cause max(0, words * times - first)
        accesses per instance. Fanout p uses `used[p]` children, `split(p)` of them with different tiles;
        level p writes `part(p)` words before it reads them.
        """
        source, times, rw = None, one, self.spaces[v].rw
        for p in range(len(self.nodes) - 1, kept[0] - 1, -1):
            times = times * split(p) if p in used else times
            if p not in kept:
                continue
            doc, above = self.at[p][v], prod([n for q, n in used.items() if q < p], start=one)
            passes, paying = doc["passes_on"], np.minimum(above, min(self.nodes[p]["most_paying"], EXACT))
            first = part(p) if rw and not passes and not doc["first_write_reads"] else 0 * one
            kinds = [(source, "read", times, first)]
            if p > kept[0]:
                kinds.append((source, "fill", times, 0 * one) if rw and passes else (p, "fill", one, first))
            if rw:
                kinds.append((source, "update", times, 0 * one))
            for origin, action, *counts in kinds:
                kind = "read" if action == "read" else "write"
                yield origin, p, kind, doc["block"], doc[action], paying, *counts
            source, times = (source, times) if passes else (p, one)

    def price(self, loops, mask):
        """The exact energy, cycles and product of both of a mapping, and whether its tiles fit."""
        extents, nest = [(1,) * len(self.bounds)], []
        for factors in reversed(loops):
            nest.insert(0, tuple((d, n, extents[0][d]) for d, n in factors.items()))
            extents.insert(0, tuple(x * factors.get(d, 1) for d, x in enumerate(extents[0])))
        used = {p: prod(loops[p].values()) for p in self.fans}
        steps = self.computes // prod(used.values())
        energy, counts, sizes = self.arithmetic, Counter(), Counter()
        for v, (space, kept) in enumerate(zip(self.spaces, mask)):
            tile, words, part = [space.tile(x) for x in extents], {None: steps}, {}
            for p in kept:
                above = tuple(loop for q in reversed(range(p)) if q not in used for loop in nest[q])
                words[p] = space.delivered(extents[p], above, self.at[p][v]["temporal_reuse"])
                part[p] = reduce(lambda n, q: n * tile[q + 1] // tile[q], [q for q in used if q < p], tile[0])
                sizes[p] += tile[p] * self.at[p][v]["size"]
            split = {p: space.distinct(nest[p], self.nodes[p]["multicast"][v]) for p in used}
            charges = self.accesses(v, kept, 1, used, split.get, part.get)
            for source, p, kind, block, access, paying, times, first in charges:
                count = max(0, words[source] * times - first)
                energy += -(-count // block) * access * int(paying)
                counts[p, v, kind] += count
        busy = max(self.level_cycles(p, counts, steps) for p in self.stores)
        cycles, energy = busy + self.latency, energy + busy * self.leak(used)
        fits = all(least <= sizes[p] <= most for p, (least, most) in self.sizes.items())
        return {"energy": energy, "latency": cycles, "edp": energy * cycles, "fits": fits}

    def level_cycles(self, p, counts, steps):
        """Cycles that level `p` needs, in doubles as they are defined."""
        demand, widths, slowdown = {"read": 0.0, "write": 0.0}, self.nodes[p]["bandwidths"], 1.0
        for v, kind in product(range(len(self.spaces)), demand):
            demand[kind] += counts[p, v, kind] / steps * float(Fraction(*self.at[p][v]["bandwidth_scale"]))
        for kind, words in (*demand.items(), ("shared", sum(demand.values()))):
            width = float(Fraction(*widths[kind])) if widths[kind] else inf
            slowdown = min(slowdown, width / words) if width < words else slowdown
        return math.ceil(steps / slowdown)

    def above(self, p, dims):
        """Per choice, the product of the factors over `dims` in the fanouts above node `p`."""
        return self.spatial[:, [q < p for q in self.fans]][:, :, sorted(dims)].prod(axis=(1, 2))

    @cache
    def charges(self, v, kept):
        """The accesses to dataspace `v`, with arrays per choice, no cheaper than in any mapping."""
        space, fans = self.spaces[v], dict(zip(self.fans, np.moveaxis(self.spatial, 1, 0)))
        dims, used = space.relevant if space.dense else (), {p: n.prod(axis=1) for p, n in fans.items()}
        split = {p: space.few_distinct(n, self.nodes[p]["multicast"][v]) for p, n in fans.items()}
        part = {p: space.tile(self.bounds) // self.above(p, dims) for p in kept}
        return [*self.accesses(v, kept, 1 + 0 * self.steps, used, split.get, part.get)]

    @cache
    def fewest(self, v, p):
        """Least words that all instances of level `p` get of dataspace `v`, over all tiles that fit."""
        space = self.spaces[v]
        tile = np.ix_(*(divisors(n) if d in space.relevant else [1] for d, n in enumerate(self.bounds)))
        left = [side.max() // side for side in tile]
        fits = space.tile(tile) * self.at[p][v]["size"] <= self.sizes[p][1]
        return np.where(fits, space.few_words(tile, tile, left, prod(left)), EXACT).min()

    @cache
    def floor(self, v, kept, measure):
        """Per choice, at most the energy of dataspace `v`, or its cycles of the bandwidth `measure`."""
        total, relevant = 0.0 * self.steps, self.spaces[v].relevant
        for source, p, kind, block, access, paying, times, first in self.charges(v, kept):
            words = self.steps if source is None else self.fewest(v, source) / self.above(source, relevant)
            unit = float(self.rates(v, p, kind).get(measure, 0)) if measure else access / block * paying
            total = total + unit * (words * times * (1 - SLACK) - first * (1 + SLACK))
        return total
