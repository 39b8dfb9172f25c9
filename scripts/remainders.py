"""The checker's reading of loops whose last pass may be cut short: what they cost, and that none cost less.

Along a dimension, a loop of `f` iterations around tiles of `x` makes tiles of `f * x`; the outermost loop has
as many iterations as cover the bound, and what lies beyond is not executed. An instance has its digits of the
spatial loops fixed; the iterations that these leave it, without the digits, are again the first so many of
the dimension: its share. docs/certificates.md explains the bounds, and why they hold.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, namedtuple
from fractions import Fraction
from functools import cache, cached_property, lru_cache, reduce
from itertools import chain, pairwise, product
from math import inf, prod

import numpy as np
from claims import (
    EXACT,
    MOST_CHILDREN,
    MOST_CHOICES,
    MOST_ENTRIES,
    MOST_MASKS,
    MOST_NESTS,
    MOST_NUMBERS,
    MOST_PLACES,
    CannotCheckError,
    Problem,
    need,
)

Loop = namedtuple("Loop", "place node factor stride")  # over one dimension; temporal ones have places


def ceiling(number, by):
    """The quotient, rounded up."""
    return -(-number // by)


def share(count, loop, digit):
    """Iterations, of `count`, of the instance at a digit of a spatial loop."""
    rounds, rest = divmod(count, loop.factor * loop.stride)
    return rounds * loop.stride + min(max(rest - digit * loop.stride, 0), loop.stride)


def dealt(shares, loop):
    """Shares of the children of instances with these `shares`, a `Counter`; those without any are not in use."""
    found = Counter()
    for count, instances in shares.items():
        full = count // loop.stride % loop.factor
        for digit, times in ((0, full), (full, 1), (full + 1, loop.factor - full - 1)):
            if times > 0 and (own := share(count, loop, digit)):
                found[own] += times * instances
    return found


def position(tile, loops):
    """Where a tile starts, by its number."""
    at = 0
    for loop in loops:
        tile, digit = divmod(tile, loop.factor)
        at += digit * loop.stride
    return at


@lru_cache(1 << 16)
def turns(count, extent, loops, kind):
    """What happens to an instance's tile along a dimension: (rounds, step) pairs, all in round 0 if alike.

    A step is a triple: how far the start of the tile moves, and its extents before and after. `loops` are the
    temporal ones around the tile, innermost first. `kind` says what happens: "first" the first tile comes,
    "every" tile comes, or (i, own): a loop advances that has `i` of these loops inside of it, and is itself
    one of them or not. Returns (number of rounds, step in all but the last, step in the last, period):
    rounds that are multiples of a period above 1 have no step.
    """
    tiles = ceiling(count, extent)
    short = count - (tiles - 1) * extent
    if kind == "first":
        return 1, None, (0, 0, min(extent, count)), 1
    if kind == "every":
        return tiles, (0, 0, extent), (0, 0, short), 1
    i, own = kind
    inside = prod(loop.factor for loop in loops[:i])
    rounds, back = ceiling(tiles, inside), position(inside - 1, loops)
    begun = tiles - (rounds - 1) * inside  # tiles of the last round
    after = short if begun == 1 else extent
    if own:
        move = loops[i].stride - back
        return rounds, (move, extent, extent), (move, extent, after), loops[i].factor
    return rounds, (-back, extent, extent), (-position(begun - 1, loops), short, after), 1


def times(first, last, period):
    """How many of the rounds from `first` to before `last` have a step."""
    return last - first if period == 1 else last - first - (ceiling(last, period) - ceiling(first, period))


@lru_cache(1 << 16)
def steps_of(count, extent, loops, kind):
    """The steps of `turns`, and how often each happens."""
    rounds, regular, last, period = turns(count, extent, loops, kind)
    pairs = (regular, times(0, rounds - 1, period)), (last, times(rounds - 1, rounds, period))
    return [(step, number) for step, number in pairs if number]


class Tensor:
    """A dataspace: its dimensions in groups that share ranks, and the words of boxes."""

    def __init__(self, doc, bounds):
        self.rw, self.keep = doc["read_write"], [tuple(kept) for kept in doc["keep"]]
        ranks = [tuple((d, c) for d, c in rank if c and bounds[d] > 1) for rank in doc["ranks"]]
        self.ranks = [rank for rank in ranks if rank]
        self.relevant = {d for rank in self.ranks for d, _ in rank}
        groups = [((d,), ()) for d in range(len(bounds))]
        for rank in self.ranks:
            met = [group for group in groups if {*group[0]} & {*dict(rank)}]
            joined = tuple(chain(*(dims for dims, _ in met))), (*chain(*(own for _, own in met)), rank)
            groups = [*(group for group in groups if group not in met), joined]
        self.groups = groups
        self.dense = all(len(rank) == 1 and abs(rank[0][1]) == 1 for rank in self.ranks)
        self.dense = self.dense and len(self.relevant) == len(self.ranks)
        self.least = prod(self.distinct(ranks, bounds) for dims, ranks in groups if ranks)
        times = Counter(d for rank in self.ranks for d, _ in rank)
        steps = [1 + abs(c) for rank in self.ranks for _, c in rank]
        self.most = prod(steps) * prod(bounds[d] ** (n - 1) for d, n in times.items()) * prod(bounds)

    @staticmethod
    def distinct(ranks, bounds):
        """At most the words that a group of dimensions touches: those of one rank, which are sums."""
        return max(1 + sum(bounds[d] - 1 for d, _ in rank) for rank in ranks)

    def tile(self, extent):
        """Words of the box that so many iterations per dimension touch, holes included."""
        return prod(1 + sum(abs(c) * (extent[d] - 1) for d, c in rank) for rank in self.ranks)


def box(ranks, dims, starts, extents):
    """First and last word along each rank of a block of iterations."""
    at = dict(zip(dims, zip(starts, extents)))
    ends = []
    for rank in ranks:
        low = sum(c * at[d][0] + min(0, c * (at[d][1] - 1)) for d, c in rank)
        ends.append((low, low + sum(abs(c) * (at[d][1] - 1) for d, c in rank)))
    return tuple(ends)


def both(one, other):
    """Words that two boxes have in common, as a box."""
    return tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other))


def words_of(ends):
    """Words of a box."""
    return prod(max(0, high - low + 1) for low, high in ends)


def brought(ranks, dims, starts, steps):
    """The box that comes in a step, and the part of it that was there before."""
    new = box(ranks, dims, starts, [after for _, _, after in steps])
    if not all(before for _, before, _ in steps):
        return new, None
    back = [start - move for start, (move, _, _) in zip(starts, steps)]
    return new, both(new, box(ranks, dims, back, [before for _, before, _ in steps]))


class Nest:
    """The loops of a mapping, dimension by dimension; counts what they move."""

    def __init__(self, space, loops):
        self.space, self.bounds, size = space, space.bounds, len(space.nodes)
        stride, place, self.extents = [1] * len(self.bounds), 0, {size: (1,) * len(self.bounds)}
        self.temporal, self.spatial = [[] for _ in self.bounds], [[] for _ in self.bounds]
        for p in reversed(range(size)):
            for d, n in loops[p].items():
                found = Loop(place, p, n, stride[d])
                (self.spatial if p in space.fans else self.temporal)[d].append(found)
                stride[d], place = stride[d] * n, place + (p not in space.fans)
            self.extents[p] = tuple(map(min, stride, self.bounds))
        self.places = [loop.place for own in self.temporal for loop in own]
        self.known = {}

    def above(self, d, q):
        """The temporal loops over a dimension above node `q`, innermost first."""
        return tuple(loop for loop in self.temporal[d] if loop.node < q)

    def shares(self, d, p):
        """Iterations of a dimension that instances of node `p` have, and how many instances."""
        if (d, p) not in self.known:
            self.known[d, p] = self.shared_out(d, p)
        return self.known[d, p]

    def shared_out(self, d, p):
        """The same, reckoned anew."""
        outwards = [loop for loop in reversed(self.spatial[d]) if loop.node < p]
        return reduce(dealt, outwards, Counter({self.bounds[d]: 1}))

    def instances(self, p):
        """Instances of a node that are ever in use."""
        return prod(sum(self.shares(d, p).values()) for d in self.space.every)

    def steps(self):
        """Steps of all temporal loops: the first instance takes part in all of them."""
        counts = self.bounds
        for d, own in enumerate(self.spatial):
            first = reduce(lambda count, loop: share(count, loop, 0), reversed(own), counts[d])
            counts = [*counts[:d], first, *counts[d + 1 :]]
        return prod(counts)

    def words(self, v, p, q, shares, reuse):
        """Words that instances of level `p` with these shares give to node `q`, or get themselves (p = q)."""
        groups = self.space.spaces[v].groups
        if not reuse:
            return prod(self.sums(v, group, p, q, shares, "every")[0] for group in groups)
        total = prod(self.sums(v, group, p, q, shares, "first")[0] for group in groups)
        moving = [loop.place for d in self.space.spaces[v].relevant for loop in self.above(d, q)]
        for place in range(min(moving), len(self.places)) if moving else ():
            pairs = [self.sums(v, group, p, q, shares, place) for group in groups]
            total += prod(whole for whole, _ in pairs) - prod(kept for _, kept in pairs)
        return total

    def kind(self, d, q, when):
        """The kind of a step, as `turns` has it, for one dimension."""
        if isinstance(when, str):
            return when
        loops = self.above(d, q)
        return sum(loop.place < when for loop in loops), any(loop.place == when for loop in loops)

    def sums(self, v, group, p, q, shares, when):
        """Words of a group's tiles in some steps, and those that are there already."""
        dims, ranks = group
        kinds = [self.kind(d, q, when) for d in dims]
        key = v, dims, p, q, *(tuple(shares[d].items()) for d in dims), *kinds
        if key not in self.known:
            between = [[loop for loop in reversed(self.spatial[d]) if p < loop.node < q] for d in dims]
            shared = [{loop.node for loop in own if self.space.multicast(loop.node, v)} for own in between]
            apart = sum(map(len, shared)) == len({*chain(*shared)})
            count = self.sums_apart if apart else self.sums_meeting
            self.known[key] = count(v, group, q, shares, kinds, between)
        return self.known[key]

    def sums_apart(self, v, group, q, shares, kinds, between):
        """The same where children that share ranks have different tiles, or none are looked at."""
        dims, ranks = group
        lists = []
        for d, kind, loops in zip(dims, kinds, between):
            own = shares[d]
            for loop in loops:
                if ranks or not self.space.multicast(loop.node, v):
                    own = dealt(own, loop)
                else:  # the first child takes part in all that others do
                    own = sum((Counter({share(n, loop, 0): m}) for n, m in own.items()), Counter())
            around, extent = self.above(d, q), self.extents[q][d]
            lists.append(
                [
                    (step, number * instances)
                    for count, instances in own.items()
                    for step, number in steps_of(count, extent, around, kind)
                ]
            )
        if not ranks:
            number = sum(number for _, number in lists[0])
            return number, number
        whole = kept = 0
        for chosen in product(*lists):
            number = prod(number for _, number in chosen)
            new, held = brought(ranks, dims, [0] * len(dims), [step for step, _ in chosen])
            whole, kept = whole + number * words_of(new), kept + (number * words_of(held) if held else 0)
        return whole, kept

    def sums_meeting(self, v, group, q, shares, kinds, between):
        """The same where children may have equal tiles, child by child."""
        dims, ranks = group
        nodes = sorted({loop.node for loop in chain(*between)})
        lists = [
            [
                moment
                for count, instances in shares[d].items()
                for moment in self.moments(d, q, count, instances, kind, loops, nodes)
            ]
            for d, kind, loops in zip(dims, kinds, between)
        ]
        shared = [self.space.multicast(p, v) for p in nodes]
        whole = kept = 0
        for chosen in product(*lists):
            number = prod(number for number, _ in chosen)
            asked = []
            for children in product(*(children for _, children in chosen)):
                digits = [*zip(*(digits for digits, _, _ in children))]
                starts, steps = [start for _, start, _ in children], [step for _, _, step in children]
                asked.append((digits, *brought(ranks, dims, starts, steps)))
            for new, held in joined(asked, shared, 0):
                whole, kept = whole + number * words_of(new), kept + (number * words_of(held) if held else 0)
        return whole, kept

    def moments(self, d, q, count, instances, kind, loops, nodes):
        """Rounds in which children do the same along a dimension: how many, and the children in use.

        A child is given by its digit at each of the `nodes`, the start of its tile, and its step.
        """
        children = []
        need(prod(loop.factor for loop in loops) < MOST_CHILDREN, "too many children", CannotCheckError)
        for digits in product(*(range(loop.factor) for loop in loops)):
            own = reduce(lambda n, pair: share(n, *pair), zip(loops, digits), count)
            if own:
                at = {loop.node: digit for loop, digit in zip(loops, digits)}
                start = sum(loop.stride * digit for loop, digit in zip(loops, digits))
                turn = turns(own, self.extents[q][d], self.above(d, q), kind)
                children.append((tuple(at.get(p) for p in nodes), start, turn))
        ends = sorted({0, *chain(*((turn[0] - 1, turn[0]) for _, _, turn in children))})
        for first, last in pairwise(ends):
            number = times(first, last, children[0][2][3])
            if number:
                busy = [
                    (digits, start, turn[2] if first == turn[0] - 1 else turn[1])
                    for digits, start, turn in children
                    if first < turn[0]
                ]
                yield number * instances, busy

    def touched(self, v, p, q, counts):
        """Distinct words that tiles of node `q` ever take under one instance of `p` with so many iterations."""
        return prod(
            self.covered(v, group, p, q, tuple(counts[d] for d in group[0]))
            for group in self.space.spaces[v].groups
            if group[1]
        )

    def covered(self, v, group, p, q, counts):
        """The same of one group of dimensions: the union of boxes."""
        dims, ranks = group
        places = []
        for d, count in zip(dims, counts):
            inner = [loop for loop in self.spatial[d] if p < loop.node < q]
            loops = sorted((*self.above(d, q), *inner), key=lambda loop: loop.stride)
            extent = self.extents[q][d]
            tiles = ceiling(count, extent)
            if len(dims) == len(ranks) == 1:
                c = abs(ranks[0][0][1])
                return (tiles - 1) * (1 + c * (extent - 1)) + 1 + c * (count - (tiles - 1) * extent - 1)
            need(tiles <= MOST_PLACES, "tiles have too many places", CannotCheckError)
            size = [min(extent, count - tile * extent) for tile in range(tiles)]
            places.append([(position(tile, loops), size[tile]) for tile in range(tiles)])
        need(prod(map(len, places)) <= MOST_PLACES, "tiles have too many places", CannotCheckError)
        boxes = {box(ranks, dims, *zip(*chosen)) for chosen in product(*places)}
        return united(boxes)


def joined(asked, shared, i):
    """What children ask for in all, from the i-th fanout inwards: the boxes, and what all hold of each.

    Children that ask for the same boxes share accesses.
    """
    if i == len(shared):
        return [(new, held) for _, new, held in asked[:1]]
    parts = defaultdict(list)
    for own in asked:
        parts[own[0][i]].append(own)
    found = {}
    for child, own in parts.items():
        boxes = joined(own, shared, i + 1)
        via = frozenset(new for new, _ in boxes) if shared[i] else child
        for number, (new, held) in enumerate(sorted(boxes, key=lambda pair: pair[0])):
            known = found.get((via, number), (new, held))[1]
            found[via, number] = new, None if held is None or known is None else both(held, known)
    return [*found.values()]


def united(boxes):
    """Words of a union of boxes."""
    if len(next(iter(boxes))) == 1:
        total, reach = 0, -inf
        for ((low, high),) in sorted(boxes):
            total, reach = total + max(0, high - max(low, reach + 1) + 1), max(reach, high)
        return total
    lows = [min(ends[r][0] for ends in boxes) for r in range(len(next(iter(boxes))))]
    highs = [max(ends[r][1] for ends in boxes) for r in range(len(lows))]
    shape = [high - low + 1 for low, high in zip(lows, highs)]
    need(prod(shape) <= MOST_PLACES, "tiles have too many places", CannotCheckError)
    grid = np.zeros(shape, dtype=bool)
    for ends in boxes:
        grid[tuple(slice(a - low, b - low + 1) for (a, b), low in zip(ends, lows))] = True
    return int(grid.sum())


def numbers_of_tiles(bound):
    """All numbers of tiles that cover a bound, descending."""
    found = [bound]
    while found[-1] > 1:
        found.append(ceiling(bound, ceiling(bound, found[-1] - 1)))
    return found


def leaving(tiles, factors):
    """Numbers of tiles that a loop with one of these factors, above 1, makes of as many tiles."""
    factor, most = max(2, factors.start), min(factors.stop - 1, tiles)
    while factor <= most:
        left = ceiling(tiles, factor)
        yield left
        if left == 1:
            return
        factor = (tiles - 1) // (left - 1) + 1


def between(tiles, left, factors):
    """The factors of a loop that makes so many tiles of as many."""
    least, most = ceiling(tiles, left), tiles if left == 1 else (tiles - 1) // (left - 1)
    return range(max(least, factors.start, 2), min(most, factors.stop - 1) + 1)


class Uneven(Problem):
    """A mapspace whose loops may have any factors: what it allows, and the exact costs of a mapping."""

    def __init__(self, doc):
        need(doc["counting"] == "exact", "remainders are counted by the exact rule")
        super().__init__(doc)
        one = [range(1, 2)] * len(self.bounds)
        given = [pair for lists in self.lists if lists is not None for pair in lists]
        need(all(len(pair) == 2 for pair in given), "factors lie between two numbers")
        self.factors = [
            one if lists is None else [range(least, min(most, n) + 1) for (least, most), n in zip(lists, self.bounds)]
            for lists in self.lists
        ]
        self.spaces = [Tensor(space, self.bounds) for space in doc["dataspaces"]]
        self.bounded(self.spaces)
        for p in self.stores:
            gates = self.nodes[p]["leak_fanouts"]
            need(gates == [q for q in self.fans if q < p][: len(gates)], "leakage follows the outer fanouts")
        self.least_units, self.joined = doc["least_units"], {}
        self.spatial = self.choices()

    @cached_property
    def numbers(self):
        """Per dimension all numbers of tiles."""
        return [numbers_of_tiles(bound) for bound in self.bounds]

    @cached_property
    def place(self):
        """Per dimension the place of a number of tiles among all."""
        return [{number: i for i, number in enumerate(own)} for own in self.numbers]

    def joins(self, p, d, by, inside, outside):
        """Loops of node `p` over a dimension as pairs of places: by kinds of tiles that may be alone, by places.

        A place stands for a number of tiles inside of fanouts that have factors of `by` in all.
        """
        key = p, d, by, inside, outside
        if key not in self.joined:
            found, place = {short: defaultdict(list) for short in (None, *range(4))}, {}
            for i, number in enumerate(self.numbers[d]):
                place.setdefault(ceiling(number, by), i)
            for i, number in enumerate(self.numbers[d]):
                tiles = ceiling(number, by)
                for left in leaving(tiles, self.factors[p][d]):
                    for short in (None, self.alone(p, d, tiles, left, inside, outside)):
                        found[short][i].append(place[left])
            self.joined[key] = found
        return self.joined[key]

    def alone(self, p, d, number, left, inside, outside):
        """Which tiles a loop that leaves so many of as many may leave alone in the last round of an instance.

        0: none; 1: those of instances with as many tiles as there are rounds; 2: of those with one less; 3:
        any. `inside` and `outside` say whether fanouts on that side of the node have factors of the dimension.
        """
        if outside:
            return 3
        factors = between(number, left, self.factors[p][d])
        full = left > 1 and any((number - 1) % f == 0 for f in factors)
        return full + 2 * (inside and any((number - 2) % f == 0 for f in factors))

    def refute(self, query):
        """The cost of a mapping that satisfies the query, None if the mapspace has none."""
        for mask in product(*(space.keep for space in self.spaces)):
            stack, known = [(self.spatial, False)] if len(self.spatial) else [], {}
            while stack:
                rows, deep = stack.pop()
                tables = Tables(self, mask, rows, query, known, deep)
                if deep and len(tables.left):
                    found = tables.search(query)
                    if found:
                        return found
                elif len(tables.left):
                    single = len(tables.left) == 1
                    parts = [tables.left] if single else halves(tables.left)
                    stack += [(part, single and tables.single) for part in parts]
        return None

    def multicast(self, p, v):
        """Whether the children of a fanout share accesses to a dataspace."""
        return self.nodes[p]["multicast"][v]

    def choices(self):
        """All choices of spatial factors: (choice, fanout, dimension)."""
        rows = np.ones((1, len(self.fans), len(self.bounds)), dtype=np.int64)
        left = np.array([self.bounds], dtype=np.int64)
        for i, p in reversed([*enumerate(self.fans)]):
            mesh_x, mesh_y = self.nodes[p]["mesh_x"], self.nodes[p]["mesh_y"]
            sides = len(self.nodes[p]["along_x"])
            need(sides <= MOST_MASKS, "too many sets of dimensions along X", CannotCheckError)
            for d in self.every:
                own = self.factors[p][d]
                factors = np.arange(own.start, min(own.stop, mesh_x * mesh_y + 1), dtype=np.int64)
                most = max(rows.size, len(rows) * max(len(factors), sides))
                need(most <= MOST_NUMBERS, "too many spatial choices", CannotCheckError)
                fits = left[:, d, None] >= factors
                fits &= np.outer(rows[:, i].prod(axis=1), factors) <= mesh_x * mesh_y
                row, index = np.nonzero(fits)
                need(len(row) <= MOST_CHOICES, "too many spatial choices", CannotCheckError)
                rows, left = rows[row], left[row]
                rows[:, i, d] = factors[index]
                left[:, d] = ceiling(left[:, d], factors[index])
            wide = [rows[:, i, x].prod(axis=1) for x in self.nodes[p]["along_x"]]
            fits = [(n <= mesh_x) & (rows[:, i].prod(axis=1) // n <= mesh_y) for n in wide]
            kept = np.any(fits, axis=0)
            rows, left = rows[kept], left[kept]
        return rows[rows.prod(axis=(1, 2)) >= self.least_units]

    def read(self, mapping):
        """The factors of each node's loops, innermost first, and the levels of each dataspace, if legal."""
        pairs, mask = [*chain(*mapping["loops"])], [tuple(kept) for kept in mapping["keep"]]
        known = all(d in self.every and type(n) is int and n > 1 for d, n in pairs)
        loops = [dict(pairs) for pairs in mapping["loops"]] if known else []  # any keys may share a hash
        once = len(loops) == len(self.nodes) and sum(map(len, loops)) == len(pairs)
        need(once, "no node has two loops over a dimension")
        left = [*self.bounds]
        for own in reversed(loops):
            need(all(n <= left[d] for d, n in own.items()), "no loop goes beyond its dimension")
            left = [ceiling(n, own.get(d, 1)) for d, n in enumerate(left)]
        need({*left} <= {1}, "loops cover the bounds")
        allowed = all(self.allowed(p, own) for p, own in enumerate(loops))
        need(allowed, "factors are allowed")
        rows = [[loops[p].get(d, 1) for d in self.every] for p in self.fans]
        fans = np.array(rows, dtype=np.int64).reshape(-1, len(self.bounds))
        need((self.spatial == fans).all(axis=(1, 2)).any(), "the spatial factors fit their meshes")
        kept = len(mask) == len(self.spaces) and all(m in space.keep for m, space in zip(mask, self.spaces))
        need(kept, "dataspaces are kept where they may be")
        return loops, mask

    def allowed(self, p, own):
        """Whether a node may have these loops, and none over other dimensions."""
        return all(own.get(d, 1) in factors for d, factors in enumerate(self.factors[p]))

    def sources(self, v, kept):
        """Levels that keep a dataspace, innermost first, each with the node that asks it."""
        asking = len(self.nodes)
        for p in reversed(kept):
            yield p, asking
            asking = asking if self.at[p][v]["passes_on"] else p

    def reuses(self, q, v):
        """Whether a node keeps what it has of a dataspace from step to step."""
        return q < len(self.nodes) and self.at[q][v]["temporal_reuse"]

    def price(self, loops, mask):
        """The exact energy, cycles and product of both of a mapping, and whether it is allowed."""
        nest, busy, energy, fits = Nest(self, loops), 0, self.arithmetic, True
        steps = nest.steps()
        at = {p: [] for p in self.stores}
        for v, kept in enumerate(mask):
            for p, asking in self.sources(v, kept):
                at[p].append((v, asking, p == kept[0]))
        for p, own in at.items():
            spent, cycles = self.level(nest, p, own, steps)
            energy, busy = energy + spent, max(busy, cycles)
            size = sum(self.spaces[v].tile(nest.extents[p]) * self.at[p][v]["size"] for v, *_ in own)
            fits = fits and self.sizes[p][0] <= size <= self.sizes[p][1]
        for p in self.stores:
            gates = self.nodes[p]["leak_fanouts"]
            leaking = nest.instances(gates[-1] + 1) if gates else 1
            energy += busy * self.nodes[p]["leak"] * leaking
        fits = fits and nest.instances(len(self.nodes)) >= self.least_units
        cycles = busy + self.latency
        return {"energy": energy, "latency": cycles, "edp": energy * cycles, "fits": fits}

    def level(self, nest, p, own, steps):
        """The energy of a level's accesses, and the cycles that its busiest instance needs."""
        doc, every = self.nodes[p], [nest.shares(d, p) for d in self.every]
        spent, busy = defaultdict(list), steps
        if self.summed(nest, p, [v for v, *_ in own]):
            shares, number = [every], [1]
        else:
            found = [*product(*(pairs.items() for pairs in every))]
            shares = [[Counter({count: 1}) for count, _ in chosen] for chosen in found]
            number = [prod(instances for _, instances in chosen) for chosen in found]
        for alike, instances in zip(shares, number):
            load = Counter()
            for v, asking, outermost in own:
                reads, fills, updates = self.accesses(nest, p, v, asking, outermost, alike)
                held = self.at[p][v]
                counts = (reads, held["read"]), (fills, held["fill"]), (updates, held["update"])
                spent[v].append((sum(ceiling(n, held["block"]) * price for n, price in counts), instances))
                scale = Fraction(*held["bandwidth_scale"])
                load["read"] += scale * reads
                load["write"] += scale * (fills + updates)
                load["shared"] += scale * (reads + fills + updates)
            widths = [(kind, Fraction(*width)) for kind, width in doc["bandwidths"].items() if width]
            busy = max(busy, *(math.ceil(load[kind] / width) for kind, width in widths), 0)
        return sum(paid(parts, doc["most_paying"]) for parts in spent.values()), busy

    def summed(self, nest, p, held):
        """Whether energies of a level follow from the words of all instances together, and cycles need none."""
        blocks = {self.at[p][v]["block"] for v in held} <= {1}
        free = not any(self.nodes[p]["bandwidths"].values())
        return blocks and free and nest.instances(p) <= self.nodes[p]["most_paying"]

    def accesses(self, nest, p, v, asking, outermost, shares):
        """Reads, fills and updates of dataspace `v` by instances of level `p` with these shares."""
        doc, rw = self.at[p][v], self.spaces[v].rw
        served = nest.words(v, p, asking, shares, self.reuses(asking, v))
        if rw and doc["passes_on"]:
            return served, served, served
        got = 0 if outermost else nest.words(v, p, p, shares, self.reuses(p, v))
        if not rw:
            return served, got, 0
        if doc["first_write_reads"]:
            return served, got, served
        first, own = (self.begun(nest, v, p, q, shares) for q in (asking, p))
        return max(0, served - first), max(0, got - own), served

    def begun(self, nest, v, p, q, shares):
        """Words that instances write first, which they need not read."""
        found = product(*(pairs.items() for pairs in shares))
        return sum(
            nest.touched(v, p, q, [count for count, _ in chosen]) * prod(number for _, number in chosen)
            for chosen in found
        )


def paid(parts, most):
    """Energy of at most so many instances, the busiest ones; `parts` are pairs of energy and instances."""
    total = 0
    for energy, instances in sorted(parts, reverse=True):
        own = min(instances, most)
        total, most = total + own * energy, most - own
    return total


def halves(rows):
    """Two parts of choices, by the factor that differs most."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    i, d = np.unravel_index(np.argmax(high / low), low.shape)
    column = rows[:, i, d]
    middle = np.median(column)
    middle = middle if middle < high[i, d] else high[i, d] - 1
    return [rows[column <= middle], rows[column > middle]]


Charge = namedtuple("Charge", "v asking p price block counted first")
SHARES = (1, 2), (3, 4), (7, 8), (15, 16)  # of words in tiles that may be alone in a last round
Alone = namedtuple("Alone", "since node share")  # tiles in place since a level, until a loop of a node
Point = namedtuple("Point", "i cell state paid here nest saved last")  # of a nest that is built outwards


def split(number, factors):
    """At least the instances in use: `number` blocks, dealt out by spatial loops within a block, outer first.

    All blocks but the last one are full; a single one is the whole dimension, and fills a loop.
    """
    for factor in factors:
        number = np.where(number == 1, factor, (number - 1) * factor + 1)
    return number


class Tables:
    """The least costs of all that lies outside of each point of a nest, for some choices of spatial factors.

    A point of a nest is known by the numbers of tiles that cover the dimensions there, and since which level
    each tile has been in place (None: no longer). Words cost where the reuse of their tile ends. All bounds
    hold for every extent that has as many tiles.
    """

    def __init__(self, space, mask, rows, query, known, deep):
        self.space, self.spaces, self.mask, self.size = space, space.spaces, mask, len(space.nodes)
        self.low, self.high = ({p: own[i] for i, p in enumerate(space.fans)} for own in (rows.min(0), rows.max(0)))
        self.start, levels = (None,) * len(mask), range(-1, self.size + 1)
        self.fixed = [all(self.low[p][d] == self.high[p][d] for p in space.fans) for d in space.every]
        self.single, self.deep, self.known, self.keys = len(rows) == 1, deep, known, {}
        powers = [1 << i for i in range(31)]
        self.few, self.many = (
            {
                p: own[p] if self.single else [powers[bisect(powers, int(n)) - 1 if bisect is bisect_right else bisect(powers, int(n))] for n in own[p]]
                for p in own
            }
            for own, bisect in ((self.low, bisect_right), (self.high, bisect_left))
        )
        self.by = [[self.fixed_inside(p, d) for d in space.every] for p in levels]
        self.reused = [
            [p for p in kept[1:] if space.at[p][v]["temporal_reuse"]] for v, kept in enumerate(mask)
        ]
        used = prod(ceiling(n, rows[:, :, d].prod(axis=1)) for d, n in enumerate(space.bounds))
        leak = self.leak()
        limits = [self.energy(int(steps), leak, query) for steps in used]
        self.limit, self.left = max(limits), rows[:0]
        if self.limit >= 0:
            self.fill(rows, limits)

    def energy(self, steps, leak, query):
        """The most energy of accesses that a mapping with so many steps at least may have; negative for none."""
        cycles = steps + self.space.latency
        limit = min(query.energy, query.edp // cycles) if cycles <= query.latency else -1
        return limit - self.space.arithmetic - steps * leak if limit < inf else inf

    @staticmethod
    def most(factors, d, nodes):
        """Product of the factors of a dimension in some fanouts."""
        return prod(int(factors[p][d]) for p in nodes)

    def direct(self, rows):
        """Per choice, at the least, the costs of what the arithmetic asks for."""
        factors, total = dict(zip(self.space.fans, np.moveaxis(rows, 1, 0))), 0.0
        charges = [charge for (_, asking), own in self.prices.items() if asking == self.size for charge in own]
        for v, _, p, price, block, counted, first in charges:
            apart = prod((n for q, n in factors.items() if q not in counted), start=np.ones((len(rows), len(self.space.bounds)), dtype=np.int64))
            words = self.spread_out(v, apart, prod((n for q, n in factors.items() if q < p), start=1), first)
            total = total + ceiling(words, block) * float(price)
        return total + np.zeros(len(rows))

    def spread_out(self, v, apart, outside, first):
        """Per choice, at the least, words of a dataspace that the arithmetic asks for; less the first ones.

        `apart` has the factors, per choice and dimension, of fanouts whose children share accesses, `outside`
        those of the fanouts around the level that is asked.
        """
        space, bounds = self.spaces[v], np.array(self.space.bounds)
        blocks, others = ceiling(bounds, apart), [d for d in self.space.every if d not in self.spaces[v].relevant]
        if space.dense:
            begun, whole = outside + 0 * blocks, prod(self.space.bounds[d] for d in space.relevant)
            sure = (blocks > 1) & (blocks > begun)
            again, begun = (np.where(sure, n, 1)[:, others].prod(axis=1) for n in (blocks, begun))
            return whole * (again - begun if first else blocks[:, others].prod(axis=1))
        if first:
            return 0 * blocks[:, 0]
        words = blocks[:, others].prod(axis=1)
        for dims, _ in (group for group in space.groups if group[1]):
            shared = apart[:, list(dims)]
            words = words * ceiling(prod(self.space.bounds[d] for d in dims), shared.prod(axis=1) // shared.max(axis=1))
        return words

    def fixed_inside(self, p, d):
        """Product of the factors of a dimension in the fanouts inside of a node, 1 if choices differ."""
        return self.most(self.low, d, [q for q in self.space.fans if q > p]) if self.fixed[d] else 1

    def tiles(self, p, cell):
        """Numbers of tiles just outside of node `p`, or inside if it is a fanout, by those of `cell`.

        Where all choices have the same factors of a dimension, its cells stand for the tiles inside of the
        fanouts, until a loop comes.
        """
        return [ceiling(number, by) for number, by in zip(cell, self.by[p + 1])]

    def leak(self):
        """Leakage per cycle at the least."""
        total = 0
        for p in self.space.stores:
            gates = self.space.nodes[p]["leak_fanouts"]
            used = prod(int(split(1, [self.low[q][d] for q in gates])) for d in self.space.every)
            total += self.space.nodes[p]["leak"] * used
        return total

    def charges(self, rows):
        """What accesses cost: per node that asks, and per level that is accessed."""
        for v, kept in enumerate(self.mask):
            for p, asking in self.space.sources(v, kept):
                doc, rw = self.space.at[p][v], self.spaces[v].rw
                above = [q for q in self.space.fans if q < p]
                apart = [q for q in self.space.fans if p < q < asking and not self.space.multicast(q, v)]
                used = rows[:, [q < p for q in self.space.fans]].prod(axis=(1, 2)).max()
                share = min(Fraction(1), Fraction(self.space.nodes[p]["most_paying"], int(used)))
                first = rw and not doc["passes_on"] and not doc["first_write_reads"]
                served = (v, asking, p), (doc["block"], [*above, *apart])
                kinds = [(served, "read", first)]
                kinds += [(served, "update", False)] if rw else []
                if p > kept[0]:
                    passed = rw and doc["passes_on"]
                    kinds.append((served if passed else ((v, p, p), (doc["block"], above)), "fill", first))
                for (who, how), action, fresh in kinds:
                    price = math.floor(doc[action] * share)
                    if price:
                        yield Charge(*who, price, *how, fresh)

    def scale(self, charges):
        """Prices in a unit that keeps sums of doubles exact, by node that asks; and the limit in that unit."""
        unit = math.gcd(*(charge.price for charge in charges)) or 1
        while self.limit < inf and self.limit // unit >= EXACT:
            unit *= 2
        self.limit, self.unit = self.limit // unit if self.limit < inf else inf, unit
        found = defaultdict(list)
        for charge in charges:
            if charge.price // unit:
                found[charge.v, charge.asking].append(charge._replace(price=charge.price // unit))
        return found

    def cost(self, v, asking, *stages):
        """At least the costs of what node `asking` gets of a dataspace, given loops that move its tile.

        A stage is a node, a cell, the dimension of a loop there, and which tiles it may leave alone in a last
        round (see `Uneven.alone`); the first stage is where reuse ends.
        """
        total = 0.0
        for charge in self.prices.get((v, asking), ()):
            total = total + ceiling(self.words(charge, stages), charge.block) * float(charge.price)
        return total

    def words(self, charge, stages):
        """At least the words of a charge.

        Tiles come as often as the loops from the first stage on say; but those that every stage so far has
        left alone stay until the next one.
        """
        space, bounds = self.spaces[charge.v], self.space.bounds
        if not space.dense:
            return 0 if charge.first else space.least
        whole = prod(bounds[d] for d in space.relevant)
        parts = [self.repeats(charge, n, cell) for n, cell, *_ in stages]
        words = whole * parts[0][1]
        for (often, _), (n, cell, d, short) in zip(reversed(parts), reversed(stages)):
            gained = np.maximum(whole * often - words, 0)
            words = words + gained
            if short:
                above, below = self.alone(cell, d, n, charge.asking, short)
                times, rest = np.divmod(gained, below)
                words = words - times * above - ceiling(rest * above, below)
        return words

    def repeats(self, charge, n, cell):
        """How often each word comes at the least if reuse ends at node `n`; and of a tile that is alone.

        Less the times that need not be paid, where the first words of an output are free.
        """
        v, asking, p, *_, counted, first = charge
        again, begun, once, tiles = 1, 1, 1, self.tiles(n, cell)
        others = [d for d in self.space.every if d not in self.spaces[v].relevant and self.space.bounds[d] > 1]
        for d in others:
            apart = self.most(self.high, d, [q for q in self.low if q < n and q not in counted])
            blocks, inside = ceiling(tiles[d], apart), [self.few[q][d] for q in sorted(counted) if q > n]
            number, once = split(blocks, inside), once * split(1, inside)
            if first:
                least = split(1, [self.few[q][d] for q in sorted(counted) if n < q < p])
                outside = self.most(self.high, d, [q for q in self.low if q < min(n, p)])
                most = outside * self.most(self.few, d, [q for q in self.low if n < q < p])
                sure = (blocks > 1) & (blocks > outside)
                number, most = np.where(sure, number, least), np.where(sure, most, least)
                begun = begun * most
            again = again * number
        return (np.maximum(again - begun, 0), 0) if first else (again, once)

    def alone(self, cell, d, n, asking, short):
        """At most the share, as a fraction, of a dimension in tiles that are alone in a last round."""
        tiles, number = (self.tiles(p, cell)[d] for p in (n, asking))
        outside = self.most(self.high, d, [q for q in self.low if q < n])
        inside = self.most(self.many, d, [q for q in self.low if n < q < asking])
        if outside > 1:
            return np.minimum(outside, np.maximum(tiles - 1, 1)), np.maximum(tiles - 1, 1)
        if inside == 1:
            return 1 + 0 * tiles, tiles
        if self.fixed[d]:
            full = number - (tiles - 1) * inside  # instances that have a tile in the last round
            some = full if short == 1 else inside - full if short == 2 else np.maximum(full, inside - full)
            return np.minimum(some, np.maximum(number - 1, 1)), np.maximum(number - 1, 1)
        return np.where(tiles > 2, 1, inside - 1), np.where(tiles > 2, tiles - 1, inside)

    def fill(self, rows, limits):
        """Find the choices that may have a cost within their limits."""
        space, charges = self.space, [*self.charges(rows)]
        self.prices = self.scale(charges)
        self.cell = np.ix_(*(np.array(own, dtype=np.int64) for own in space.numbers))
        outer = reduce(np.multiply, self.tiles(-1, self.cell))
        entries = outer.size * self.size * prod(len(levels) + 1 for levels in self.reused)
        need(entries < MOST_ENTRIES, "too many tiles may stay in place", CannotCheckError)
        self.price_list = tuple(charge.price for own in self.prices.values() for charge in own)
        self.end = np.where(outer == 1, 0.0, inf)
        least, direct = self.table(self.size - 1, self.start)[(0,) * len(space.bounds)], self.direct(rows)
        limits = np.array([limit // self.unit if limit < inf else inf for limit in limits], dtype=float)
        self.left, self.paid = rows[least + direct <= limits], float(direct.min())

    def key(self, p, state=()):
        """All that tables outside of node `p` depend on, but for what is the same for all choices."""
        if (p, state) not in self.keys:
            outer, every = [q for q in self.low if q < p], self.space.every
            own = [self.price_list, self.deep, *self.fixed, *chain(*self.by[: p + 2])]
            own += [int(n) for q in outer for n in (*self.low[q], *self.high[q])]
            own += [self.unrolled_around(p, d)[0] for d in every]
            for space, since in zip(self.spaces, state):
                last = since.since if type(since) is Alone else since
                for q in (q for q in self.low if last is not None and p < q < last):
                    own += [int((self.many if d in space.relevant else self.few)[q][d]) for d in every]
            self.keys[p, state] = tuple(own)
        return self.keys[p, state]

    def once(self, key, count, *arguments):
        """What `count` returns, which depends on nothing but the `key`."""
        if key not in self.known:
            self.known[key] = count(*arguments)
        return self.known[key]

    def table(self, p, state):
        """The table inside of a node, for tiles that are in place there; outside of all for node -1."""
        return self.once(("table", p, state, self.key(p, state)), self.filled, p, state)

    def left_for(self, p):
        """Costs of leaving a level, see `boundary`."""
        return self.once(("level", p, self.key(p)), self.boundary, p, self.cell)

    def filled(self, p, state):
        """The same, made anew."""
        if p < 0:
            since = [(v, c, since) for v, since in enumerate(state) if type(since) is int for c in self.reused[v]]
            return self.end + sum(self.cost(v, c, (p, self.cell, None, 0)) for v, c, since in since if c <= since)
        if p in self.space.stores:
            return self.left_for(p) + self.table(p - 1, self.crossed(state, p))
        if p in self.low:
            return self.unrolled(p, self.table(p - 1, state))
        return self.looped(p, state)

    def crossed(self, state, p):
        """The state outside of level `p`: what it keeps is in place from there on."""
        return tuple(p if type(c) is not int and p in levels else c for c, levels in zip(state, self.reused))

    def boundary(self, p, cell):
        """Costs of leaving level `p`: for what it gets without reuse; infinite if its tiles do not fit."""
        held = [v for v, kept in enumerate(self.mask) if p in kept]
        bounds, (least, most), tiles = self.space.bounds, self.space.sizes[p], self.tiles(p, cell)
        small = [
            np.minimum(n, by * ceiling(n, number)) for n, number, by in zip(bounds, cell, self.by[p + 1])
        ]
        large = [np.where(number > 1, (n - 1) // np.maximum(number - 1, 1), n) for n, number in zip(bounds, tiles)]
        low, high = (
            sum(self.spaces[v].tile(extent) * self.space.at[p][v]["size"] for v in held) for extent in (small, large)
        )
        once = [v for v in held if p != self.mask[v][0] and p not in self.reused[v]]
        cost = sum(self.cost(v, p, (p, cell, None, 0)) for v in once)
        return np.broadcast_to(cost + np.where((low <= most) & (high >= least), 0.0, inf), self.end.shape)

    def unrolled(self, p, table):
        """The table inside of a fanout: the least over all factors of the choices."""
        for d in self.space.every:
            low, high, along = int(self.low[p][d]), int(self.high[p][d]), np.moveaxis(table, d, 0)
            if self.fixed[d]:
                idle = self.tiles(p, self.cell)[d] < low
                table = np.where(idle, inf, table) if idle.any() else table
                continue
            found, place = np.full(along.shape, inf), self.space.place[d]
            for i, number in enumerate(self.space.numbers[d]):
                lefts = [number] if low == 1 else []
                lefts += leaving(number, range(low, high + 1))
                if lefts:
                    found[i] = along[[place[left] for left in lefts]].min(axis=0)
            table = np.moveaxis(found, 0, d)
        return table

    def looped(self, p, state):
        """The table inside of a node of temporal loops, by which loop moves a tile first."""
        held = [v for v, since in enumerate(state) if since is not None]
        best, moving = self.table(p - 1, state).copy(), set().union(*(self.spaces[v].relevant for v in held))
        loops = [d for d in self.space.every if len(self.space.factors[p][d]) and self.space.factors[p][d][-1] > 1]
        for d, short in product((d for d in loops if d in moving), range(4)):
            if self.joins(p, d)[short]:
                due = sum((self.ended(v, since, p, d, short) for v, since in self.moved(state, d)), 0.0)
                for where, after in self.states(state, p, d, short):
                    cost = due + self.after(p, after, d, short)
                    np.minimum(best, cost, out=best, where=True if where is None else where)
        for d in (d for d in loops if d not in moving):
            np.minimum(best, self.spread(best, p, d, None), out=best)
        return best

    def after(self, p, state, d, short):
        """What costs at the least, at every point before a loop of node `p` over `d`, come after it."""
        key = "after", p, state, d, short, self.key(p, state)
        return self.once(key, lambda: self.spread(self.table(p, state), p, d, short))

    def moved(self, state, d):
        """Dataspaces with tiles, in place or alone, that a loop over a dimension moves; and since when."""
        pairs = enumerate(state)
        return [(v, since) for v, since in pairs if since is not None and d in self.spaces[v].relevant]

    def states(self, state, p, d, short):
        """The states after a loop of node `p` over a dimension, each with the places where it is so.

        Where many tiles may be alone in a last round, they count as in place until the next loop moves them.
        """
        key = "states", p, d, short, state, self.key(p, state)
        return self.once(key, self.states_after, state, p, d, short)

    def states_after(self, state, p, d, short):
        """The same, found anew."""
        after = [None if d in space.relevant else c for c, space in zip(state, self.spaces)]
        moved = [(v, c) for v, c in self.moved(state, d) if type(c) is int and self.spaces[v].dense]
        if not short or not self.deep or not moved:
            return [(None, tuple(after))]
        kinds, code, found = [self.kinds(v, since, p, d, short) for v, since in moved], 0, []
        for kind in kinds:
            code = code * (len(SHARES) + 1) + kind
        for value in np.unique(code):
            rest = int(value)
            for v, since in reversed(moved):
                rest, kind = divmod(rest, len(SHARES) + 1)
                after[v] = Alone(since, p, kind - 1) if kind else None
            found.append((np.broadcast_to(code == value, self.end.shape), tuple(after)))
        return found

    def kinds(self, v, since, p, d, short):
        """How many of `SHARES` the share of tiles that may be alone reaches at the least."""
        parts = [self.alone(self.cell, d, p, c, short) for c in self.reused[v] if p < c <= since]
        return reduce(np.minimum, [sum(above * n >= m * below for m, n in SHARES) for above, below in parts])

    def ended(self, v, since, p, d, short):
        """Costs of the tiles of one dataspace, in place since a level, whose reuse ends so."""
        state = *(None,) * v, since
        return self.once(("ended", v, p, d, short, since, self.key(p, state)), self.ends, v, since, p, d, short)

    def ends(self, v, since, p, d, short):
        """The same, reckoned anew."""
        stage = p, self.cell, d, short
        if type(since) is int:
            total = sum((self.cost(v, c, stage) for c in self.reused[v] if p < c <= since), 0.0)
        else:
            levels = [c for c in self.reused[v] if since.node < c <= since.since]
            total = sum((self.resumed(v, c, SHARES[since.share], stage) for c in levels), 0.0)
        return np.broadcast_to(total, self.end.shape)

    def resumed(self, v, asking, share, stage):
        """At least the costs of tiles, a share of all, that were alone until a loop moves them."""
        total, (n, cell, d, short), whole = 0.0, stage, prod(self.space.bounds[d] for d in self.spaces[v].relevant)
        for charge in self.prices.get((v, asking), ()):
            often, once = self.repeats(charge, n, cell)
            words = whole * np.maximum(often - once, 0) * share[0] // share[1]
            if short:
                above, below = self.alone(cell, d, n, asking, short)
                times, rest = np.divmod(words, below)
                words = words - times * above - ceiling(rest * above, below)
            total = total + words // charge.block * float(charge.price)
        return total

    def unrolled_around(self, p, d):
        """Whether fanouts inside of a node, and outside of it, may have factors of a dimension."""
        wide = [q for q in self.low if self.high[q][d] > 1]
        return any(q > p for q in wide), any(q < p for q in wide)

    def joins(self, p, d):
        """The loops of node `p` over a dimension as pairs of places, see `Uneven.joins`."""
        return self.space.joins(p, d, self.by[p + 1][d], *self.unrolled_around(p, d))

    def spread(self, table, p, d, short):
        """For every entry the least of those that a loop of node `p` over `d` leads to."""
        along, found = np.moveaxis(table, d, 0), np.full(np.moveaxis(table, d, 0).shape, inf)
        for i, lefts in self.joins(p, d)[short].items():
            found[i] = along[lefts].min(axis=0)
        return np.moveaxis(found, 0, d)

    def search(self, query):
        """The cost of a mapping that satisfies the query, None if none does, of all nests within the limits."""
        budget = MOST_NESTS
        stack = [Point(self.size - 1, self.space.bounds, self.start, self.paid, {}, (), (), -1)]
        while stack:
            at = stack.pop()
            if at.i < 0:
                found = self.settle(at, query)
                if found:
                    return found
                continue
            place = tuple(map(dict.get, self.space.place, at.cell))
            if at.paid + self.table(at.i, at.state)[place] > self.limit:
                continue
            budget -= 1
            need(budget, "too many nests are left open by the bounds", CannotCheckError)
            stack += self.grown(at)
        return None

    def grown(self, at):
        """Yield the points that may come next: outside of the node, or after one more loop of it."""
        p, factors, tiles = at.i, self.space.factors[at.i], self.tiles(at.i, at.cell)
        place = tuple(map(dict.get, self.space.place, at.cell))
        if p in self.space.stores:
            paid = at.paid + float(self.left_for(p)[place])
            yield at._replace(i=p - 1, state=self.crossed(at.state, p), paid=paid)
            return
        if p in self.low:
            loops = {d: int(n) for d, n in enumerate(self.low[p]) if n > 1}
            if all(n <= tiles[d] for d, n in loops.items()):
                nest = (*at.nest, *((p, d, tiles[d], n) for d, n in loops.items()))
                yield at._replace(i=p - 1, nest=nest)
            return
        if all(d in at.here or 1 in factors[d] for d in self.space.every):
            yield at._replace(i=p - 1, here={}, last=-1)
        free = self.any_order(at)
        around = [self.unrolled_around(p, d) for d in self.space.every]
        for d in (d for d in self.space.every[at.last + 1 :] if d not in at.here and tiles[d] > 1):
            by = self.by[p + 1][d]
            for left in leaving(tiles[d], factors[d]):
                short = self.space.alone(p, d, tiles[d], left, *around[d])
                most = self.space.numbers[d][bisect_left(self.space.numbers[d], -left, key=lambda n: -ceiling(n, by))]
                state = next(own for where, own in self.states(at.state, p, d, short) if where is None or where[place])
                ended = [pair for pair in self.moved(at.state, d) if type(pair[1]) is int]
                after = (*at.cell[:d], most, *at.cell[d + 1 :])
                due = at.paid + sum(float(self.ended(*own, p, d, short)[place]) for own in ended)
                if due + self.table(p, state)[tuple(map(dict.get, self.space.place, after))] > self.limit:
                    continue
                saved, paid = self.savings(at, p, d, short)
                nest, last = (*at.nest, (p, d, tiles[d], left)), d if free else -1
                yield Point(p, after, state, due + paid, {**at.here, d: left}, nest, saved, last)

    def any_order(self, at):
        """Whether the cost does not depend on the order of the loops to come at the node."""
        kept = any(levels[-1] > at.i for levels in self.mask)
        dense = all(space.dense for space in self.spaces)
        return not at.saved and not any(at.state) and (dense or not kept)

    def savings(self, at, p, d, short):
        """Tiles that a loop of node `p` over a dimension may leave in place later, and what it takes back.

        A tile that is alone in a last round stays while loops over other dimensions advance, until a loop
        moves it that does not leave it alone as well. From there outwards it comes as often as all others.
        """
        paid, saved, stage = 0.0, [], (p, at.cell, d, short)
        for own in at.saved:
            if d not in self.spaces[own[0]].relevant:
                saved.append(own)
                continue
            paid += float(self.cost(*own, stage)) - float(self.cost(*own))
            saved += [(*own, stage)] if short else []
        if short:
            moved = [pair for pair in self.moved(at.state, d) if type(pair[1]) is int]
            saved += [(v, c, stage) for v, since in moved for c in self.reused[v] if p < c <= since]
        return tuple(saved), paid

    def settle(self, at, query):
        """The cost of the mapping that satisfies the query, of all whose loops leave these numbers of tiles."""
        if set(self.tiles(-1, at.cell)) != {1}:
            return None
        choices = []
        for p, d, number, left in at.nest:
            unrolled = p in self.low
            choices.append([left] if unrolled else between(number, left, self.space.factors[p][d]))
        for chosen in product(*choices):
            loops = [{} for _ in self.space.nodes]
            for (p, d, *_), factor in zip(at.nest, chosen):
                loops[p][d] = factor
            cost = self.space.price(loops, self.mask)
            if cost["fits"] and all(cost[key] <= most for key, most in query._asdict().items()):
                return cost
        return None
