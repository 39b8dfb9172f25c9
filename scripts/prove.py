#!/usr/bin/env python3
"""Checks certificates: no mapping in the stated mapspace is better than the one that is claimed.

Shares no code with the optimizer and trusts nothing in a certificate but the problem. It prices the mapping
itself, then looks for a better one under every choice of keeping levels and spatial factors: floors exclude
most choices, tables over temporal loops bound the others, and an enumeration decides the nests that the
tables leave open. docs/certificates.md explains why this is a proof.

Exit codes: 2 if a certificate cannot be read; otherwise 1 if one is INVALID, 6 if one cannot be checked, 0.
"""

import argparse
import hashlib
import json
import math
import signal
import sys
import time
from collections import Counter, defaultdict, namedtuple
from contextlib import contextmanager
from fractions import Fraction
from functools import cache, lru_cache, partial, reduce
from itertools import chain, pairwise, permutations, product
from math import inf, prod
from operator import eq, le
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # which `python -P` leaves out

from claims import (
    EXACT,
    MOST_CHILDREN,
    MOST_CHOICES,
    MOST_ENTRIES,
    MOST_MASKS,
    MOST_NESTS,
    MOST_NUMBERS,
    MOST_PAIRS,
    MOST_PLACES,
    MOST_STATES,
    SLACK,
    CannotCheckError,
    InvalidError,
    Problem,
    Query,
    UnreadableError,
    natural,
    need,
)
from conditions import Case, Rules
from remainder_bounds import refute as refute_uneven
from remainders import Uneven

MOST_BYTES = 1 << 26  # of a file
sys.modules.setdefault("prove", sys.modules[__name__])  # whose classes others build on


@cache
def divisors(number):
    """Divisors in ascending order."""
    small = [f for f in range(1, math.isqrt(number) + 1) if number % f == 0]
    return sorted({*small, *(number // f for f in small)})


def least_factor(numbers, bound):
    """The least factor above 1 of divisors of a bound; 1 has 1."""
    least = numbers
    for n in reversed(divisors(bound)[1:]):
        least = np.where(numbers % n == 0, n, least)
    return least


def advances(steps, loops):
    """Words that loops bring in all, given their factors and what each advance brings, innermost first.

    They have so many `steps` together with the loops outside of them.
    """
    words = 0
    for n, new in loops:
        words, steps = words + (steps - steps // n) * new, steps // n
    return words


def listed(loops):
    """All places that loops (factor, step) reach, in ascending order."""
    places = np.zeros(1, dtype=np.int64)
    for n, step in loops:
        need(len(places) * n <= MOST_PLACES, "tiles have too many places", CannotCheckError)
        places = np.unique(np.add.outer(places, step * np.arange(n)))
    return places


class Dataspace:
    """What tiles of a dataspace hold, where loops (dimension, factor, stride) move them, what children share.

    A counting rule completes it: the words that loops deliver, their least number where order and factors
    are open, and the words of an output that are touched for the first time.
    """

    def __init__(self, doc, bounds):
        self.rw, self.keep, self.bounds = doc["read_write"], [tuple(kept) for kept in doc["keep"]], bounds
        self.ranks = [[(d, c) for d, c in rank if c and bounds[d] > 1] for rank in doc["ranks"]]
        times = Counter(d for rank in self.ranks for d, _ in rank)
        alone = [rank for rank in self.ranks if all(times[d] == 1 for d, _ in rank)]
        self.plain, self.relevant = {rank[0][0] for rank in alone if len(rank) == 1}, set(times)
        self.windows = [rank for rank in alone if len(rank) == 2 and rank[0][1] * rank[1][1] > 0]
        self.tangled = self.relevant - self.plain - {d for rank in self.windows for d, _ in rank}
        self.groups = []  # of ranks that share dimensions, however indirectly; plain ones are in none
        for r in [r for r, rank in enumerate(self.ranks) if {d for d, _ in rank} - self.plain]:
            joined = [ranks for ranks in self.groups if any(self.share(r, other) for other in ranks)]
            apart = [ranks for ranks in self.groups if ranks not in joined]
            self.groups = [*apart, [*chain(*joined), r]]
        steps = [1 + abs(c) for rank in self.ranks for _, c in rank]
        self.dense = self.plain == self.relevant and {*steps} <= {2}
        self.most = prod(steps) * prod(bounds[d] ** (n - 1) for d, n in times.items()) * prod(bounds)

    def share(self, *ranks):
        """Whether two ranks have a dimension in common."""
        one, other = ({d for d, _ in self.ranks[r]} for r in ranks)
        return bool(one & other)

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


class Timeloop(Dataspace):
    """Timeloop's rule: each loop is looked at between its first two iterations only."""

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

    @lru_cache(1 << 18)
    def loose(self, d, factor, stride):
        """Dimensions whose later loops may agree with the first that moves a tile, over `d`."""
        if d in self.tangled:
            return tuple(e for e in range(len(self.bounds)) if e not in self.plain)
        others = [e for pair in self.windows if d in dict(pair) for e in dict(pair) if e != d]
        apart = all(self.apart(d, e, stride) for e in others)
        return (d, *others) if not apart else (d,) if others and factor == 2 else ()

    def to_come(self, extent, loops, then, left, now):
        """At most the words that a tile gets first and from loops to come, by what is left of these.

        `loops` have moved it; dimensions advanced by `then` when they began, and advance by `now` here.
        """
        loose = self.loose(*loops[0][:2], then)
        return self.tile(extent) * (prod(left) // prod(left[d] for d in loose))

    def memory(self, loops):
        """What decides, of the loops that move a tile, what those to come bring."""
        return tuple(loop for loop in loops if loop[0] in self.relevant)

    def begun(self, extents, nest, used):
        """The words that an instance of level p writes first: Timeloop's partitions."""
        tile = [self.tile(x) for x in extents]
        part = [
            reduce(lambda n, q: n * tile[q + 1] // tile[q], [q for q in used if q < p], tile[0])
            for p in range(len(nest))
        ]
        return lambda p, _: part[p]

    def decisive(self, loops, inner, outer, spatial):
        """What words written first depend on: the sizes of tiles inside and outside of a fanout."""
        return (self.tile(inner), self.tile(outer)) if spatial else ()


class Executed(Dataspace):
    """The exact rule: what an execution moves that keeps of a tile what the next one shares with it."""

    @lru_cache(1 << 18)
    def delivered(self, extent, loops, reuse):
        """Words delivered to a tile of `extent`: the first tile, and what each loop outside of it brings.

        When a loop advances, those inside of it go from their last iteration back to their first.
        """
        words = tile = self.tile(extent)
        outer, last = prod(n for _, n, _ in loops), (0,) * len(self.ranks)
        for d, n, stride in loops:
            step = self.move(d, stride)
            new = int(self.fresh(extent, tuple(a - b for a, b in zip(step, last)))) if reuse else tile
            words += (outer - outer // n) * new
            outer, last = outer // n, tuple(b + (n - 1) * a for a, b in zip(step, last))
        return words

    def few_words(self, extent, stride, left, outer):
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

    def led(self, near, far, extent, stride, left, outer, plain):
        """At most the words of all advances but those of plain loops, if the first loop runs over `near`.

        `near` and `far` are the terms of a window. When a loop advances, the tile moves along it by the
        loop's step, less the way that loops inside of it go back.
        """
        (d, near), (e, far) = near, far
        length = 1 + abs(near) * (extent[d] - 1) + abs(far) * (extent[e] - 1)
        row, first = self.tile(extent) // length, least_factor(left[d], self.bounds[d])
        step, leap = abs(near) * stride[d], abs(far) * stride[e]
        reach = abs(near) * (self.bounds[d] - self.bounds[d] // left[d])
        span = abs(far) * (self.bounds[e] - self.bounds[e] // left[e])
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

    def shared(self, terms, extent, stride, left):
        """Places along another window, its length, and what it shares at most when its loops advance."""
        length, rest = 1 + sum(abs(c) * (extent[i] - 1) for i, c in terms), 0
        for (i, c), (other, far) in (terms, terms[::-1]):
            way = abs(c) * stride[i] - abs(far) * (self.bounds[other] - self.bounds[other] // left[other])
            rest = np.maximum(rest, np.where(left[i] > 1, length - np.clip(way, 0, length), 0))
        return prod(left[i] for i, _ in terms), length, rest

    def to_come(self, extent, loops, then, left, now):
        """At most the words that a tile gets first and from loops to come, by what is left of these.

        `loops` have moved it; dimensions advanced by `then` when they began, and advance by `now` here.
        """
        return self.coming(extent, self.memory(loops), left, now)

    @lru_cache(1 << 18)
    def coming(self, extent, last, left, now):
        """The same of a tile that is at its `last` place; the loops that bring least count as innermost."""
        classes = []
        for d in (d for d, n in enumerate(left) if n > 1):
            jump = [self.jump(d, rank, way, left, now) for rank, way in zip(self.ranks, last)]
            classes.append((int(self.fresh(extent, jump)), left[d]))
        return self.tile(extent) + advances(prod(left), [(n, words) for words, n in sorted(classes)])

    def jump(self, d, rank, last, left, now):
        """How far a tile moves along a rank at least when a loop to come over `d` advances.

        It goes back by `last` for the loops so far, and by any way for others inside of the loop.
        """
        low = high = -last
        for e, c in rank:
            farthest = self.bounds[e] - self.bounds[e] // left[e]
            ways = (c * now[e], c * farthest) if e == d else (0, -c * farthest)
            low, high = low + min(ways), high + max(ways)
        return max(low, -high, 0)

    @lru_cache(1 << 18)
    def memory(self, loops):
        """What decides, of the loops that move a tile, what those to come bring: the last place."""
        steps = [[(n - 1) * step for step in self.move(d, stride)] for d, n, stride in loops]
        return tuple(map(sum, zip(*steps)))

    def begun(self, extents, nest, used):
        """The words that an instance of level p writes first for tiles of level q: all that these cover."""

        def words(p, q):
            q = len(nest) if q is None else q
            nodes = [i for i in range(q) if i not in used or i > p]
            return self.covered(extents[q], tuple(sorted(chain(*(nest[i] for i in nodes)))))

        return words

    @lru_cache(1 << 18)
    def covered(self, extent, loops):
        """Distinct words of all places of a tile: a product over ranks that share no dimension."""
        words, lengths, whole = 1, self.lengths(extent), self.lengths(self.bounds)
        for ranks in self.groups:
            *others, last = ranks
            unit = {r: prod(whole[other] for other in ranks[i + 1 :]) for i, r in enumerate(ranks)}
            moves = [(n, self.move(d, stride)) for d, n, stride in loops if d not in self.plain]
            moves = [
                (n, sum(move[r] * unit[r] for r in ranks)) for n, move in moves if any(move[r] for r in ranks)
            ]
            places = listed([*((lengths[r], unit[r]) for r in others), *moves])
            words *= int(lengths[last] + np.minimum(np.diff(places), lengths[last]).sum())
        alone = {*range(len(lengths))}.difference(*self.groups)
        return words * prod(lengths[r] for r in alone) * prod(n for d, n, _ in loops if d in self.plain)

    def decisive(self, loops, inner, outer, spatial):
        """What words written first depend on: all loops that move a tile, in any order within a node."""
        return frozenset((d, n, inner[d]) for d, n in loops if n > 1 and d in self.relevant)


RULES = {"exact": Executed, "timeloop": Timeloop}


class Space(Problem):
    """A mapspace of perfect factors: its choices of spatial factors, exact costs, and floors under them."""

    is_sparse = False

    def __init__(self, doc):
        need(doc["counting"] in [*RULES], "words are counted by a known rule")
        super().__init__(doc)
        one = [[1]] * len(self.bounds)
        self.factors = [one if lists is None else lists for lists in self.lists]
        pairs = [pair for own in chain(*self.factors) for pair in pairwise(own)]
        need(all(small < large for small, large in pairs), "factors are in ascending order")
        states = prod(len(divisors(n)) for n in self.bounds)
        need(states < MOST_STATES, "the problem is too large", CannotCheckError)
        self.exact = doc["counting"] == "exact"
        self.spaces = [RULES[doc["counting"]](space, self.bounds) for space in doc["dataspaces"]]
        self.bounded(self.spaces)
        self.spatial = self.choices(doc["least_units"])
        self.rules = Rules(doc, self)
        self.steps = self.computes // self.spatial.prod(axis=(1, 2))

    def choices(self, least_units):
        """All choices of spatial factors: (choice, fanout, dimension)."""
        rows = np.ones((1, len(self.fans), len(self.bounds)), dtype=np.int64)
        for i, p in enumerate(self.fans):
            mesh_x, mesh_y = self.nodes[p]["mesh_x"], self.nodes[p]["mesh_y"]
            sides = len(self.nodes[p]["along_x"])
            need(sides <= MOST_MASKS, "too many sets of dimensions along X", CannotCheckError)
            for d, bound in enumerate(self.bounds):
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
        need(once, "no node has two loops over a dimension")
        rows = [[factors.get(d, 1) for d in self.every] for factors in loops]
        need([prod(column) for column in zip(*rows)] == self.bounds, "factors multiply to the bounds")
        allowed = (n in choices for pair in zip(rows, self.factors) for n, choices in zip(*pair))
        need(all(allowed), "factors are allowed")
        fans = np.array([rows[p] for p in self.fans]).reshape(-1, len(self.bounds))
        need((self.spatial == fans).all(axis=(1, 2)).any(), "the spatial factors fit their meshes")
        kept = len(mask) == len(self.spaces) and all(m in space.keep for m, space in zip(mask, self.spaces))
        need(kept and self.arranged(mask), "dataspaces are kept where they may be")
        need(self.go_together(loops, mask), "loops of several places of a memory go together")
        return loops, mask

    def rates(self, v, p, kind):
        """Cycles that a word takes of the limited bandwidths (level, kind) that it uses."""
        widths, scale = self.nodes[p]["bandwidths"], Fraction(*self.at[p][v]["bandwidth_scale"])
        home = self.home[p]
        return {(home, way): scale / Fraction(*widths[way]) for way in (kind, "shared") if widths[way]}

    def leak(self, used):
        """Leakage per cycle, given how many children each fanout uses."""
        nodes = [self.nodes[p] for p in self.stores]
        return sum(node["leak"] * prod(used[q] for q in node["leak_fanouts"]) for node in nodes)

    def accesses(self, v, kept, one, used, split, part):
        """Yield accesses: source, level, bandwidth, words of a block and its energy, payers, times, first.

        Words delivered into level `source` (None: the arithmetic) cause max(0, words * times - first)
        accesses per instance. Fanout p uses `used[p]` children, `split(p)` of them with different tiles;
        level p writes `part(p, source)` words before it reads them for tiles of the level inside.
        """
        source, times, rw = None, one, self.spaces[v].rw
        for p in range(len(self.nodes) - 1, kept[0] - 1, -1):
            times = times * split(p) if p in used else times
            if p not in kept:
                continue
            doc, above = self.at[p][v], prod([n for q, n in used.items() if q < p], start=one)
            passes, paying = doc["passes_on"], np.minimum(above, min(self.nodes[p]["most_paying"], EXACT))
            writes = rw and not passes and not doc["first_write_reads"]
            first, own = (part(p, source), part(p, p)) if writes else (0 * one, 0 * one)
            kinds = [(source, "read", times, first)]
            if p > kept[0]:
                kinds.append((source, "fill", times, 0 * one) if rw and passes else (p, "fill", one, own))
            if rw:
                kinds.append((source, "update", times, 0 * one))
            for origin, action, *counts in kinds:
                kind = "read" if action == "read" else "write"
                yield origin, p, kind, doc["block"], doc[action], paying, *counts
            source, times = (source, times) if passes else (p, one)

    def moves(self, loops, mask):
        """What a mapping moves: accesses as `accesses` has them with their number; room; children in use."""
        extents, nest = [(1,) * len(self.bounds)], []
        for factors in reversed(loops):
            nest.insert(0, tuple((d, n, extents[0][d]) for d, n in factors.items()))
            extents.insert(0, tuple(x * factors.get(d, 1) for d, x in enumerate(extents[0])))
        used = {p: prod(loops[p].values()) for p in self.fans}
        steps, moves, sizes = self.computes // prod(used.values()), [], Counter()
        for v, (space, kept) in enumerate(zip(self.spaces, mask)):
            words = {None: steps}
            for p in kept:
                above = tuple(loop for q in reversed(range(p)) if q not in used for loop in nest[q])
                words[p] = space.delivered(extents[p], above, self.at[p][v]["temporal_reuse"])
                sizes[self.home[p]] += space.tile(extents[p]) * self.at[p][v]["size"]
            split = {p: space.distinct(nest[p], self.nodes[p]["multicast"][v]) for p in used}
            charges = self.accesses(v, kept, 1, used, split.get, space.begun(extents, nest, used))
            for source, p, kind, block, access, paying, times, first in charges:
                moves.append((v, p, kind, block, access, int(paying), max(0, words[source] * times - first)))
        return moves, sizes, used

    def fits(self, sizes):
        """Whether tiles of these sizes fit."""
        limits = ((sizes[p], *self.sizes[p]) for p in self.homes)
        return all(least <= size <= most for size, least, most in limits)

    def price(self, loops, mask):
        """The exact energy, cycles and product of both of a mapping, and whether its tiles fit."""
        moves, sizes, used = self.moves(loops, mask)
        energy, counts, steps = self.arithmetic, Counter(), self.computes // prod(used.values())
        for v, p, kind, block, access, paying, count in moves:
            energy += -(-count // block) * access * paying
            counts[self.home[p], v, kind] += count
        busy = max(self.level_cycles(p, counts, steps) for p in self.homes)
        cycles, energy = busy + self.latency, energy + busy * self.leak(used)
        return {
            "energy": energy,
            "latency": cycles,
            "edp": energy * cycles,
            "fits": self.fits(sizes),
        }

    def level_cycles(self, p, counts, steps):
        """Cycles that level `p` needs, in doubles as Timeloop defines them, or exact quotients rounded up."""
        if self.exact:
            pairs = [*product(range(len(self.spaces)), ("read", "write"))]
            rates = [(pair, self.rates(pair[0], p, pair[1])) for pair in pairs]
            loads = [(way, rate * counts[p, *pair]) for pair, own in rates for way, rate in own.items()]
            busy = (sum(load for way, load in loads if way == own) for own, _ in loads)
            return max(steps, *map(math.ceil, busy), 0)
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
        return [*self.accesses(v, kept, 1 + 0 * self.steps, used, split.get, lambda p, _: part[p])]

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


Point = namedtuple("Point", "i left state paid ended nest loops")  # of a nest that is built outwards
Ended = namedtuple("Ended", "tile extent stride since")  # a tile whose reuse ended at a place in the nest


class Choice:
    """Keep sets and spatial factors with several limits of energy and cycles; the temporal loops are open.

    A point of a nest is known by what is left to iterate outside of it, and since which level each tile has
    been in place (None: no longer). Tables hold the least costs, one for each limit, of all that lies outside
    of every point; words cost where the reuse of their tile ends. `way` leads outwards through the nodes.
    """

    def __init__(self, space, mask, i, case, query, low, high, measures):
        self.space, self.spaces, self.mask, self.start = space, space.spaces, mask, (None,) * len(mask)
        self.case, self.is_ruled = case, bool(case.parts)
        self.spatial = dict(zip(space.fans, space.spatial[i].tolist()))
        self.bounds = tuple(n // prod(used) for n, *used in zip(space.bounds, *self.spatial.values()))
        self.place = [{left: i for i, left in enumerate(divisors(n))} for n in self.bounds]
        sets = [*enumerate(mask)]
        self.reused = [[p for p in kept[1:] if space.at[p][v]["temporal_reuse"]] for v, kept in sets]
        self.way = [p for p in reversed(range(len(space.nodes))) if p not in self.spatial]
        self.memory = {p: own for own in space.memories for p in own.places}
        self.idle = {p for own in space.memories for p in own.idle(mask)}
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
        size = self.taken(p, extent) + 0 * outer
        least = 0 if p in self.memory else least
        once = [v for v in tiles if p != self.mask[v][0] and p not in self.reused[v]]
        cost = sum(self.charge(v, p, outer * tiles[v]) for v in once)
        fits = (least <= size) & (size <= most)
        if self.is_ruled:
            single = isinstance(outer, int)
            fits = fits & (self.case.allows_one(p, extent) if single else self.case.allows(p, extent))
        return cost + np.where(fits, 0, inf)[..., None]

    def taken(self, p, extent, loops=None):
        """Room that tiles of `extent` take of level `p`, at least: outer tiles of its memory are no smaller.

        With the `loops` inside of it, tiles of inner places count as well.
        """
        places = self.memory[p].outside(p) if p in self.memory else [p]
        held = [(v, p, extent) for v, kept in enumerate(self.mask) if {*kept}.intersection(places)]
        if loops is not None and p in self.memory:
            held += self.inside(p, loops)
        return sum(self.spaces[v].tile(own) * self.space.at[q][v]["size"] for v, q, own in held)

    def inside(self, p, loops):
        """The tiles at the places of a memory inside of `p`: dataspace, place, extent."""
        inner = [q for q in self.memory[p].places if q > p]
        kept = [(v, q) for v, levels in enumerate(self.mask) for q in inner if q in levels]
        every = range(len(self.bounds))
        extents = {q: [prod(own.get(d, 1) for own in loops[q:]) for d in every] for q in inner}
        return [(v, q, extents[q]) for v, q in kept]

    def possible(self, p, loops):
        """Whether a memory has room and rules for a nest that is built from inside of it to its place `p`."""
        if p not in self.memory:
            return True
        memory, every = self.memory[p], range(len(self.bounds))
        extent, first = [prod(own.get(d, 1) for own in loops[p:]) for d in every], p == memory.places[0]
        size, (least, most) = self.taken(p, extent, loops), self.space.sizes[p]
        fits = (least if first else 0) <= size <= most
        return fits and memory.ordered(loops) and (not first or memory.allow(loops))

    def pending(self, at):
        """What the places of a memory that a nest has reached leave to those outside of them."""
        place = next((p for p in self.way[at.i :] if p in self.memory), None)
        if place is None:
            return ()
        memory = self.memory[place]
        tiles = self.inside(place, at.loops)
        size = sum(self.spaces[v].tile(own) * self.space.at[q][v]["size"] for v, q, own in tiles)
        nodes = [p for own in memory.groups for p in own] if memory.binds else []
        return size, *(frozenset(at.loops[p].items()) for p in nodes)

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
        self.tables, self.resumed, table = [], {}, defaultdict(lambda: nothing)
        table[self.start] = np.where(outer[..., None] == 1, 0, nothing)
        for p in (-1, *reversed(self.way)):
            outside, states = table, [[None, *(c for c in levels if c > p)] for levels in self.reused]
            if p in self.space.stores:
                cost = self.boundary(p, inside, outer)
                table = {state: cost + outside[self.crossed(state, p)] for state in product(*states)}
            else:
                table = self.looped(p, outside, states, inside, left, outer)
            self.tables.insert(0, table)

    def looped(self, p, outside, states, inside, left, outer):
        """The table inside of node `p`, whose loops may end the reuse of tiles, by the one outside of it."""
        if p in self.case.first and self.case.first[p] is None:
            return {state: outside[state] for state in product(*states)}
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
        if p in self.case.first:
            self.resumed[p] = table
            return self.begun(table, self.case.first[p], due)
        return table

    def begun(self, table, d, due):
        """The table inside of a node whose innermost loop runs over `d`, by that without this loop."""
        found = {}
        for state in table:
            moved = [(v, c) for v, c in enumerate(state) if c is not None and d in self.spaces[v].relevant]
            after = table[tuple(None if (v, c) in moved else c for v, c in enumerate(state))]
            later = np.full(after.shape, inf)
            along, outside, place = np.moveaxis(later, d, 0), np.moveaxis(after, d, 0), self.place[d]
            for n in divisors(self.bounds[d])[1:]:
                along[place[n]] = outside[[place[m] for m in divisors(n)[:-1]]].min(axis=0)
            found[state] = later + sum(due[own] for own in moved)
        return found

    def spread(self, table, d):
        """Let loops over `d` be free: every entry becomes the least over the divisors of what is left."""
        along, place = np.moveaxis(table, d, 0), self.place[d]
        for n in reversed(divisors(self.bounds[d])):
            along[place[n]] = along[[place[m] for m in divisors(n)]].min(axis=0)

    def grown(self, at):
        """Yield the points that may come next: at the next node, or after one more loop of this one."""
        p, inside = self.way[at.i], [n // rest for n, rest in zip(self.bounds, at.left)]
        factors, here, stride = self.space.factors[p], at.loops[p], (*self.extents(p, inside),)
        if p in self.space.stores:
            paid = at.paid + self.boundary(p, inside, prod(at.left))
            if not self.possible(p, at.loops):
                return
            yield at._replace(i=at.i + 1, state=self.crossed(at.state, p), paid=paid)
        elif all(here.get(d, 1) in factors[d] for d in self.space.every) and not self.waits(p, here):
            yield at._replace(i=at.i + 1)
        dims = [] if p in self.idle else self.loops_next(p, here)
        pairs = [(d, f) for d in dims if d not in here for f in factors[d]]
        for d, f in [(d, f) for d, f in pairs if at.left[d] % f == 0 < f - 1]:
            moved = [v for v, c in enumerate(at.state) if c is not None and d in self.spaces[v].relevant]
            tiles = [(v, c) for v in moved for c in self.reused[v] if p < c <= at.state[v]]
            extents = [(*self.extents(c, inside),) for _, c in tiles]
            ended = [Ended(*tile, stride, len(at.nest)) for tile in zip(tiles, extents)]
            left = (*at.left[:d], at.left[d] // f, *at.left[d + 1 :])
            state = tuple(None if v in moved else c for v, c in enumerate(at.state))
            loops = [*at.loops[:p], {**here, d: f}, *at.loops[p + 1 :]]
            yield Point(at.i, left, state, at.paid, (*at.ended, *ended), (*at.nest, (d, f, stride[d])), loops)

    def waits(self, p, here):
        """Whether the innermost loop of a node is still to come that rules ask for."""
        return self.case.first.get(p) is not None and not here

    def loops_next(self, p, here):
        """The dimensions that the next loop of a node may have, where rules ask for the innermost one."""
        if p not in self.case.first:
            return self.space.every
        first = self.case.first[p]
        return [] if first is None else self.space.every if here else [first]

    def to_come(self, at, ended):
        """At least the words of an ended tile at first and for the loops to come."""
        p, inside = (*self.way, -1)[at.i], [n // rest for n, rest in zip(self.bounds, at.left)]
        now, space = tuple(self.extents(p, inside)), self.spaces[ended.tile[0]]
        return space.to_come(ended.extent, at.nest[ended.since :], ended.stride, at.left, now)

    def spent(self, at, ended):
        """Costs so far, and of `ended` tiles at the least: exact for loops so far, few words for others."""
        total, outer = at.paid, prod(at.left)
        for own in ended:
            (v, c), extent, _, since = own
            words = self.spaces[v].delivered(extent, at.nest[since:], True) - self.spaces[v].tile(extent)
            total = total + self.charge(v, c, words * outer + self.to_come(at, own))
        return total

    def settled(self, at):
        """The same point with those ended tiles paid for that all loops to come bring whole."""
        whole, outer = [self.spaces[own.tile[0]].tile(own.extent) for own in at.ended], prod(at.left)
        sure = [own for own, tile in zip(at.ended, whole) if self.to_come(at, own) == tile * outer]
        unsure = tuple(ended for ended in at.ended if ended not in sure)
        return at._replace(paid=self.spent(at, sure), ended=unsure)

    def future(self, at):
        """What the cost of the loops to come depends on."""
        pairs = [(own, self.spaces[own.tile[0]]) for own in at.ended]
        ended = [(*own[:2], space.memory(at.nest[own.since :])) for own, space in pairs]
        return (*at[:3], frozenset(at.loops[self.way[at.i]].items()), self.pending(at), *ended)

    def sunk(self, at):
        """What decides the cost of the loops so far: what has to agree, and numbers that it rises with."""
        sizes, numbers, since, inner = [], [], 0, (1,) * len(self.bounds)
        for p in range(len(at.loops) - 1, self.way[at.i], -1):
            outer = tuple(n * at.loops[p].get(d, 1) for d, n in enumerate(inner))
            if p in self.spatial:
                loops = tuple(zip(at.loops[p], at.loops[p].values(), inner))
                sent = zip(self.spaces, self.space.nodes[p]["multicast"])
                numbers += [s.distinct(loops, once) for s, once in sent if s.plain < s.relevant]
            elif p in self.space.stores:
                kept = [(v, self.space.at[p][v]) for v, levels in enumerate(self.mask) if p in levels[1:]]
                reuse = [(self.spaces[v], doc["temporal_reuse"]) for v, doc in kept]
                numbers += [space.delivered(inner, at.nest[since:], same) for space, same in reuse]
            else:
                since += len(at.loops[p])
            written = [space for space in self.spaces if space.rw and not space.dense]
            sizes += [s.decisive(at.loops[p].items(), inner, outer, p in self.spatial) for s in written]
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
            at = self.settled(stack.pop())
            spent, cell = self.spent(at, at.ended), tuple(map(dict.get, self.place, at.left))
            if (spent + self.table(at)[at.state][cell] >= self.limits).any():
                continue
            cost = self.space.price(at.loops, self.mask) if at.i == len(self.way) else None
            fits = cost and cost["fits"] and all(cost[key] <= most for key, most in query._asdict().items())
            if fits and not self.space.rules.broken(at.loops, self.mask, cost):
                return cost
            if not cost and not self.undercut(at, seen):
                budget -= 1
                need(budget, "too many nests are left open by the bounds", CannotCheckError)
                stack += self.grown(at)
        return None

    def table(self, at):
        """The table of a point; inside of a node whose innermost loop is known by now, that of the others."""
        p = (*self.way, -1)[at.i]
        return self.resumed[p] if p in self.resumed and at.loops[p] else self.tables[at.i]

    def undercut(self, at, seen):
        """Whether a nest `seen` before costs no more, however both go on; else this one counts as seen.

        What rules ask of the loops is the same of both, and what both cost as well if a rule asks for that.
        """
        (sizes, sunk), compare = self.sunk(at), eq if self.case.wide and self.case.prices else le
        known = seen.setdefault((*self.future(at), sizes, self.case.recalled(at.loops)), [])
        if any(all(map(compare, other, sunk)) for other in known):
            return True
        known.append(sunk)
        return False


def decide(query, low, high, measures, space, mask, i, pinned=()):
    """The cost of a mapping with cycles from `low` to `high` that satisfies the query, None if none does.

    Tables of the first two `measures` are enough nearly everywhere. Rules about several levels are decided
    one value of a tile or of an innermost loop at a time: those are `pinned`.
    """
    case = Case(space, mask, i, dict(pinned))
    if case.parts is None:
        return None
    query = space.rules.limited(query, case.parts)
    high = min(high, query.latency)
    if low > high:
        return None
    for counted in dict.fromkeys((measures[:2], measures)):
        tables = Choice(space, mask, i, case, query, low, high, counted)
        if not tables.open:
            return None
    if found := case.next():
        pins = [(*pinned, (found[0], value)) for value in found[1]]
        return next(
            filter(None, (decide(query, low, high, measures, space, mask, i, own) for own in pins)), None
        )
    if query.edp == inf or not 1.05 * low < high < inf:
        return tables.search(query)
    middle = math.isqrt(low * high)
    lower = decide(query, low, middle, measures, space, mask, i, pinned)
    return lower or decide(query, middle + 1, high, measures, space, mask, i, pinned)


FORMAT, WITH_PLACES, WITH_RULES = (f"tilewright certificate {n}" for n in (6, 7, 8))
FUSED, SPARSE = (f"tilewright certificate {kind}" for kind in ("fused 2", "sparse 1"))
CLAIMS = "problem problem_sha256 status objectives bounds mapping cost spatial_choices evidence"
KEYS = {"format", "versions", "seed", "command", "digest", *CLAIMS.split()}
EXITS = {"UNREADABLE": 2, "INVALID": 1, "CANNOT CHECK": 6, "VALID": 0}  # the worst first
ENERGY_UNITS = (10**12, "J"), (10**9, "mJ"), (10**6, "uJ"), (10**3, "nJ")


def mapspace(problem):
    """The mapspace of a canonical problem: its loops have perfect factors, or any."""
    need(problem["factors"] in ("perfect", "any"), "loops have factors of a known kind")
    if "sparse" in problem:
        from sparse import Sparse  # noqa: PLC0415 (it is built on this module)

        need(problem["factors"] == "perfect", "loops over sparse data have perfect factors")
        return Sparse(problem)
    return Space(problem) if problem["factors"] == "perfect" else Uneven(problem)


def refute(space, query):
    """The cost of a mapping that satisfies the query, None if the mapspace has none."""
    query = space.rules.limited(query, space.rules.parts)
    if isinstance(space, Uneven):
        return refute_uneven(space, query)
    if space.is_sparse:
        from sparse_bounds import refute as refute_sparse  # noqa: PLC0415 (it is built on this module)

        return refute_sparse(space, query)
    choices = floored(space, query)
    costs = (decide(query, *cycles, measures, space, *choice) for cycles, measures, choice in choices)
    return next(filter(None, costs), None)


def floored(space, query):
    """The choices that floors do not exclude, with the cycles they may take and what may limit these."""
    kinds = [(p, kind) for p in space.homes for kind, width in space.nodes[p]["bandwidths"].items() if width]
    masks = product(*(dataspace.keep for dataspace in space.spaces))
    for mask in (mask for mask in masks if space.arranged(mask, single=True)):
        if space.rules.case(space.rules.kept(mask)) is None:
            continue
        floors = [[space.floor(v, kept, kind) for v, kept in enumerate(mask)] for kind in (None, *kinds)]
        energy, *slow = [sum(floor) * (1 - SLACK) for floor in floors]
        energy = energy + space.arithmetic * (1 - SLACK)
        cycles = np.max([space.steps, *slow], axis=0) * (1 - SLACK) + space.latency
        within = (
            space.rules.open
            & (energy <= query.energy)
            & (cycles <= query.latency)
            & (energy * cycles <= query.edp)
        )
        for i in np.flatnonzero(within):
            low, counted = max(int(space.steps[i]) + space.latency, math.ceil(cycles[i])), query.edp < inf
            most = int(query.edp / energy[i] * (1 + SLACK)) + 1 if counted and energy[i] > 0 else inf
            high = min(query.latency, most, inf if kinds else low)
            loads = {kind: load[i] for kind, load in zip(kinds, slow) if min(query.latency, query.edp) < inf}
            measures = (None, *sorted(loads, key=loads.get, reverse=True))
            yield (low, high), measures, (mask, i)


def sha256(document):
    """SHA-256 of a JSON value: sorted keys, no spaces."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def covered(space, doc, status, names):
    """Check what the search says of itself: no objective, keep set or class of choices is left out."""
    evidence = doc["evidence"]
    named = names[: {"OPTIMAL": None, "INFEASIBLE": 1}.get(status, len(evidence))]
    solved = [search for search in evidence if "solved_by" in search]
    need(all(own.keys() == {"objective", "solved_by"} for own in solved), "solvers have no other evidence")
    searched = natural(evidence) and [search["objective"] for search in evidence]
    need(searched == named, "objectives were searched")
    masks = product(*(map(tuple, own["keep"]) for own in doc["problem"]["dataspaces"]))
    sets = sorted([*map(list, mask)] for mask in masks if space.arranged(mask, single=True))
    bounds = doc["bounds"] if status == "OPTIMAL" else [0] * len(evidence)
    # CP-SAT solves all choices at once.
    pairs = [(own["masks"], bound) for own, bound in zip(evidence, bounds) if own not in solved]
    for masks, bound in pairs:
        need(sorted(mask["keep"] for mask in masks) == sets, "all keep sets were searched")
        classes = [sum(n for step, n in mask.items() if step.startswith("by_")) for mask in masks]
        need(classes == classes[:1] * len(classes), "all keep sets have the same classes")
        least = [mask["survey_bound"] for mask in masks if mask["survey_bound"] is not None]
        need(all(n >= bound for n in least), "nothing that the survey excludes is better")


def check(doc):
    """What a certificate proves; raises `InvalidError` with the first claim that fails."""
    if doc["format"] == FUSED:
        from fused_paths import check_fused  # noqa: PLC0415 (it builds on this module)

        bound, units = (
            check_fused(doc, sha256, refute),
            doc["problem"]["einsums"][0]["mapspace"]["units_per_pj"],
        )
        shows = "no fused mapping exists"
        return (
            shows if bound is None else f"no fused mapping is below {shown(doc['objective'], bound, units)}"
        )
    ruled = bool(doc["problem"].get("rules"))
    known = WITH_RULES if ruled else WITH_PLACES if doc["problem"].get("memories") else FORMAT
    known = SPARSE if "sparse" in doc["problem"] else known
    keys = KEYS | {"rules"} if ruled else KEYS
    need(doc.keys() == keys and doc["format"] == known, f"it has the keys of a {known!r}")
    need(doc["digest"] == sha256({key: doc[key] for key in doc if key != "digest"}), "the digest is right")
    need(doc["problem_sha256"] == sha256(doc["problem"]), "the hash matches the problem")
    space, units = mapspace(doc["problem"]), doc["problem"]["units_per_pj"]
    need(type(units) is int and units > 0, "energies have a unit")
    units = units * doc["problem"]["sparse"]["unit"] if known == SPARSE else units
    status, names, bounds = doc["status"], doc["objectives"], doc["bounds"]
    need(names in [[*x] for n in (1, 2, 3) for x in permutations(Query._fields, n)], "objectives are known")
    need(type(bounds) is list and natural(bounds), "bounds are non-negative integers")
    need(doc["spatial_choices"] == len(space.spatial), "all choices are covered")
    if known != SPARSE:
        covered(space, doc, status, names)
    space.rules.written(doc.get("rules", []))
    if status == "INFEASIBLE":
        need(doc["mapping"] is doc["cost"] is None and not bounds, "nothing is claimed")
        need(refute(space, Query()) is None, "no mapping exists")
        return "no mapping exists"
    mapping = space.read(doc["mapping"])
    cost = space.price(*mapping)
    need(cost.pop("fits"), "the mapping respects all capacities")
    need(known == SPARSE or not space.rules.broken(*mapping, cost), "the mapping satisfies all rules")
    need(doc["cost"] == cost, "the cost matches the mapping")
    values = [cost[name] for name in names]
    proven = {"OPTIMAL": bounds == values, "FEASIBLE": len(bounds) == 1 and bounds <= values}
    need(proven.get(status, False), "the bounds match the status")
    limits = {}
    for name, bound in zip(names, bounds):
        better = refute(space, Query(**{**limits, name: bound - 1})) if bound else None
        found = f": one has {better[name]:,}" if better else ""
        need(better is None, f"no mapping has {name} below {bound:,}{found}")
        limits[name] = bound
    return "no mapping is below " + ", then ".join(shown(*bound, units) for bound in zip(names, bounds))


def shown(name, value, units_per_pj):
    """A value of an objective for people, to five digits: the certificate has it exactly."""
    if name == "latency":
        return f"{name} {value:,} cycles"
    size, unit = 1, "pJ*cycles"
    if name == "energy":
        size, unit = next((unit for unit in ENERGY_UNITS if value >= unit[0] * units_per_pj), (1, "pJ"))
    return f"{name} {value / (size * units_per_pj):#.5g} {unit}".replace("e+", "e")


def distinct(pairs):
    """A JSON object, unless a key repeats."""
    need(len(dict(pairs)) == len(pairs), "no key occurs twice")
    return dict(pairs)


@contextmanager
def limited(seconds):
    """Raise `CannotCheckError` after that many seconds, whatever is at work."""

    def stop(*_):
        raise CannotCheckError("it is not decided within the time limit")

    if seconds == inf:
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    # Once more every second: an exception that is raised while an object is finalized is lost.
    signal.setitimer(signal.ITIMER_REAL, min(max(seconds, 1e-6), 1e8), 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def read(path):
    """The JSON object in a file."""
    with path.open("rb") as file:  # perhaps a device or a pipe, whose size nobody knows
        content = file.read(MOST_BYTES + 1)
    need(len(content) <= MOST_BYTES, f"it is larger than {MOST_BYTES >> 20} MiB", CannotCheckError)
    doc = json.loads(content.decode(), object_pairs_hook=distinct)
    if (
        isinstance(doc, dict)
        and {"version", "status"} <= doc.keys()
        and not {"format", "digest"} & doc.keys()
    ):
        raise UnreadableError("it is a result that `--json` wrote; `--certificate` writes certificates")
    return doc


def verdict(path, seconds=inf):
    """The verdict on a file, VALID, INVALID, CANNOT CHECK or UNREADABLE, and what it rests on."""
    try:
        with limited(seconds):
            return "VALID", check(read(path))
    except json.JSONDecodeError as error:
        return "UNREADABLE", f"it is not JSON: {error}"
    except (OSError, UnicodeDecodeError, UnreadableError) as error:
        return "UNREADABLE", str(error)
    except InvalidError as error:
        return "INVALID", f"this claim fails: {error}"
    except (CannotCheckError, MemoryError, RecursionError) as error:
        return "CANNOT CHECK", str(error) or type(error).__name__
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return "INVALID", f"this claim fails: the document is well formed ({error!a})"


def nonnegative(text):
    """A number of seconds on the command line."""
    number = float(text)
    if not number >= 0:
        raise ValueError
    return number


def main():
    """Check the certificates that the command line names, or the shipped layers."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("certificates", nargs="*", type=Path, metavar="CERT.json")
    parser.add_argument("--suite", action="store_true", help="map, certify and check the shipped layers")
    parser.add_argument(
        "--time-limit", type=nonnegative, default=inf, metavar="S", help="seconds per certificate"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases of the suite with this name")
    parser.add_argument(
        "--witness",
        action="append",
        default=[],
        choices=("cp-sat", "enumeration"),
        help="ask it about each case of the suite as well",
    )
    parser.add_argument(
        "--witness-time", type=nonnegative, default=60, metavar="S", help="seconds per witness and case"
    )
    options = parser.parse_args()
    found = set()
    if options.suite:
        from prove_suite import run_suite  # noqa: PLC0415 (rich is for tables only)

        check_case = partial(verdict, seconds=options.time_limit)
        found = run_suite(options.only, check_case, options.witness, options.witness_time)
    elif not options.certificates:
        parser.error("give a certificate, or --suite")
    sys.stdout.reconfigure(errors="backslashreplace")  # file names may be any bytes
    for path in options.certificates:
        start = time.perf_counter()
        result, reason = verdict(path, options.time_limit)
        print(f"{result}: {path}: {reason} ({time.perf_counter() - start:.2f} s)", flush=True)
        found.add(result)
    return next((code for result, code in EXITS.items() if result in found), 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
