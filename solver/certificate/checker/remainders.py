"""The checker's reading of loops whose last pass may be cut short: what they cost, and that none cost less.

Along a dimension, a loop of `f` iterations around tiles of `x` makes tiles of `f * x`; the outermost loop has
as many iterations as cover the bound, and what lies beyond is not executed. An instance has its digits of the
spatial loops fixed; the iterations that these leave it, without the digits, are again the first so many of
the dimension: its share. docs/certificates.md explains the bounds, and why they hold.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from itertools import chain, pairwise, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from solver.certificate.checker.claims import (
    MOST_CHILDREN,
    MOST_PLACES,
    MOST_STATES,
    Cost,
    Json,
    Levels,
    Loops,
    Mask,
    Number,
    Problem,
    able,
    ceiling,
    need,
    remembered,
)
from solver.certificate.checker.conditions import Rules
from solver.certificate.checker.counting import RULES, Executed, Placed, Timeloop, slowed
from solver.certificate.checker.dataspaces import Dims, Group, Rank, Strides, divisors

Ranks = tuple[Rank, ...]
Shares = Counter[int]  # how many instances have so many iterations
Step = tuple[int, int, int]  # how far a tile moves, its extents before and after
When = str | tuple[int, bool]  # see `turns`
Box = tuple[tuple[int, int], ...]  # first and last word along each rank
Child = tuple[tuple[int | None, ...], int, Step]
Asked = tuple[tuple[Any, ...], Box, Box | None]
Bandwidth = tuple[int, str]  # a memory, and one of its bandwidths or ports
MOST_SUMS = 1 << 18  # that a mapspace remembers


class Access(NamedTuple):
    """Accesses of level `p` to dataspace `v` for the words that node `asking` gets."""

    v: int
    p: int
    asking: int
    action: str  # read, fill or update
    first: bool  # words that are written first are free

    @property
    def kind(self) -> str:
        """The kind of bandwidth that its words load."""
        return "read" if self.action == "read" else "write"


Alike = tuple[int, dict[Access, int]]  # instances that do the same, and the words of one


class Loop(NamedTuple):
    """A loop over one dimension; temporal ones have places."""

    place: int
    node: int
    factor: int
    stride: int


def share(count: int, loop: Loop, digit: int) -> int:
    """Iterations, of `count`, of the instance at a digit of a spatial loop."""
    rounds, rest = divmod(count, loop.factor * loop.stride)
    return rounds * loop.stride + min(max(rest - digit * loop.stride, 0), loop.stride)


def dealt(shares: Shares, loop: Loop) -> Shares:
    """Shares of the children of instances with these `shares`, a `Counter`; idle ones are left out."""
    found: Shares = Counter()
    for count, instances in shares.items():
        full = count // loop.stride % loop.factor
        digits = (0, full), (full, 1), (full + 1, loop.factor - full - 1)
        for own, number in ((share(count, loop, digit), number) for digit, number in digits):
            found[own] += number * instances
    return Counter({own: number for own, number in found.items() if own and number})


@lru_cache(1 << 16)
def dealt_all(count: int, loops: tuple[Loop, ...]) -> Shares:
    """Shares of all instances that spatial loops, outermost first, span of so many iterations."""
    return reduce(dealt, loops, Counter({count: 1}))


def digits_of(tile: int, loops: Sequence[Loop]) -> list[int]:
    """The iterations of loops, innermost first, in which a tile is worked on, by its number."""
    found = []
    for loop in loops:
        tile, digit = divmod(tile, loop.factor)
        found.append(digit)
    return found


def position(tile: int, loops: Sequence[Loop]) -> int:
    """Where a tile starts, by its number."""
    return sum(digit * loop.stride for digit, loop in zip(digits_of(tile, loops), loops, strict=True))


@lru_cache(1 << 16)
def turns(count: int, extent: int, loops: tuple[Loop, ...], kind: When) -> tuple[int, Step | None, Step, int]:
    """What happens to an instance's tile along a dimension: (rounds, step) pairs, all in round 0 if alike.

    A step is a triple: how far the start of the tile moves, and its extents before and after; 0 before if
    nothing is there. A loop moves the tile in every pass: after one of a single iteration nothing is there.
    `loops` are the temporal ones around the tile, innermost first. `kind` says what happens: "first" the
    first tile comes, "every" tile comes, or (i, own): a loop advances that has `i` of these loops inside of
    it, and is itself one of them or not. Returns (number of rounds, step in all but the last, step in the
    last, period): rounds that are multiples of a period above 1 have no step.
    """
    tiles = ceiling(count, extent)
    short = count - (tiles - 1) * extent
    if kind == "first":
        return 1, None, (0, 0, min(extent, count)), 1
    if kind == "every":
        return tiles, (0, 0, extent), (0, 0, short), 1
    assert not isinstance(kind, str)
    i, own = kind
    inside = prod(loop.factor for loop in loops[:i])
    rounds, back = ceiling(tiles, inside), position(inside - 1, loops)
    begun = tiles - (rounds - 1) * inside  # tiles of the last round
    after = short if begun == 1 else extent
    there = short * all(digits_of(begun - 1, loops[:i]))
    if own:
        move = loops[i].stride - back
        return rounds, (move, extent, extent), (move, extent, after), loops[i].factor
    return rounds, (-back, extent, extent), (-position(begun - 1, loops), there, after), 1


def times(first: int, last: int, period: int) -> int:
    """How many of the rounds from `first` to before `last` have a step."""
    return last - first if period == 1 else last - first - (ceiling(last, period) - ceiling(first, period))


@lru_cache(1 << 16)
def steps_of(count: int, extent: int, loops: tuple[Loop, ...], kind: When) -> list[tuple[Step, int]]:
    """The steps of `turns`, and how often each happens."""
    rounds, regular, last, period = turns(count, extent, loops, kind)
    pairs = (regular, times(0, rounds - 1, period)), (last, times(rounds - 1, rounds, period))
    return [(step, number) for step, number in pairs if number and step is not None]


def box(ranks: Ranks, dims: Dims, starts: Sequence[int], extents: Sequence[int]) -> Box:
    """First and last word along each rank of a block of iterations."""
    at = dict(zip(dims, zip(starts, extents, strict=True), strict=True))
    ends = []
    for rank in ranks:
        low = sum(c * at[d][0] + min(0, c * (at[d][1] - 1)) for d, c in rank)
        ends.append((low, low + sum(abs(c) * (at[d][1] - 1) for d, c in rank)))
    return tuple(ends)


def both(one: Box, other: Box) -> Box:
    """Words that two boxes have in common, as a box."""
    return tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))


def words_of(ends: Box) -> int:
    """Words of a box."""
    return prod(max(0, high - low + 1) for low, high in ends)


def brought(ranks: Ranks, dims: Dims, starts: Sequence[int], steps: Sequence[Step]) -> tuple[Box, Box | None]:
    """The box that comes in a step, and the part of it that was there before."""
    new = box(ranks, dims, starts, [after for _, _, after in steps])
    if not all(before for _, before, _ in steps):
        return new, None
    back = [start - move for start, (move, _, _) in zip(starts, steps, strict=True)]
    return new, both(new, box(ranks, dims, back, [before for _, before, _ in steps]))


class Nest:
    """The loops of a mapping, dimension by dimension; counts what they move."""

    def __init__(self, space: "Space", loops: Loops) -> None:
        self.space, self.bounds, size = space, space.bounds, len(space.nodes)
        stride, place, self.extents = [1] * len(self.bounds), 0, {size: (1,) * len(self.bounds)}
        self.temporal: list[list[Loop]] = [[] for _ in self.bounds]
        self.spatial: list[list[Loop]] = [[] for _ in self.bounds]
        chains: list[list[tuple[int, int]]] = [[] for _ in self.bounds]
        for p in reversed(range(size)):
            for d, n in loops[p].items():
                found = Loop(place, p, n, stride[d])
                chains[d].append((p, n))
                (self.spatial if p in space.fans else self.temporal)[d].append(found)
                stride[d], place = stride[d] * n, place + (p not in space.fans)
            self.extents[p] = tuple(map(min, stride, self.bounds))
        self.places = [loop.place for own in self.temporal for loop in own]
        self.chains = [*map(tuple, chains)]  # all loops over a dimension, which say what it does at each node
        self.known: dict[tuple[Any, ...], Any] = {}

    def above(self, d: int, q: int) -> tuple[Loop, ...]:
        """The temporal loops over a dimension above node `q`, innermost first."""
        if ("above", d, q) not in self.known:
            self.known["above", d, q] = tuple(loop for loop in self.temporal[d] if loop.node < q)
        found: tuple[Loop, ...] = self.known["above", d, q]
        return found

    def shares(self, d: int, p: int) -> Shares:
        """Iterations of a dimension that instances of node `p` have, and how many instances."""
        return self.shared_out(d, [q for q in self.space.fans if q < p])

    def shared_out(self, d: int, fans: Collection[int]) -> Shares:
        """Iterations of a dimension per instance that some fanouts span, and how many instances."""
        outwards = tuple(loop for loop in reversed(self.spatial[d]) if loop.node in fans)
        return dealt_all(self.bounds[d], outwards)

    def instances(self, p: int) -> int:
        """Instances of a node that are ever in use."""
        return prod(sum(self.shares(d, p).values()) for d in self.space.every)

    def in_use(self, fans: Collection[int]) -> int:
        """Instances in use that some fanouts span."""
        return prod(sum(self.shared_out(d, fans).values()) for d in self.space.every)

    def unrolled(self, p: int) -> Strides:
        """The loops of a fanout."""
        return tuple(
            (d, loop.factor, loop.stride)
            for d, own in enumerate(self.spatial)
            for loop in own
            if loop.node == p
        )

    def around(self, q: int) -> Strides:
        """The temporal loops above node `q`, innermost first."""
        found = [(loop.place, d, loop) for d in self.space.every for loop in self.above(d, q)]
        return tuple((d, loop.factor, loop.stride) for _, d, loop in sorted(found))

    def steps(self) -> int:
        """Steps of all temporal loops: the first instance takes part in all of them."""
        counts = self.bounds
        for d, own in enumerate(self.spatial):
            first = reduce(lambda count, loop: share(count, loop, 0), reversed(own), counts[d])
            counts = [*counts[:d], first, *counts[d + 1 :]]
        return prod(counts)

    def words(self, v: int, p: int, q: int, shares: Sequence[Shares], reuse: bool) -> int:
        """Words that instances of level `p` with these shares give to node `q`, or get themselves (p = q)."""
        space = self.space.spaces[v]
        if not isinstance(space, Executed):
            inner = [f for f in self.space.fans if p < f < q]
            apart = (space.distinct(self.unrolled(f), space.multicast[f]) for f in inner)
            instances = prod(sum(own.values()) for own in shares)
            return instances * prod(apart) * space.delivered(self.extents[q], self.around(q), reuse)
        groups = space.groups
        if not reuse:
            return prod(self.sums(v, group, p, q, shares, "every")[0] for group in groups)
        total = prod(self.sums(v, group, p, q, shares, "first")[0] for group in groups)
        moving = [loop.place for d in space.relevant for loop in self.above(d, q)]
        for place in range(min(moving), len(self.places)) if moving else ():
            pairs = [self.sums(v, group, p, q, shares, place) for group in groups]
            total += prod(whole for whole, _ in pairs) - prod(kept for _, kept in pairs)
        return total

    def kind(self, d: int, q: int, when: str | int) -> When:
        """The kind of a step, as `turns` has it, for one dimension."""
        if isinstance(when, str):
            return when
        loops = self.above(d, q)
        return sum(loop.place < when for loop in loops), any(loop.place == when for loop in loops)

    def sums(
        self, v: int, group: Group, p: int, q: int, shares: Sequence[Shares], when: str | int
    ) -> tuple[int, int]:
        """Words of a group's tiles in some steps, and those that are there already."""
        dims = group[0]
        kinds = [self.kind(d, q, when) for d in dims]
        known = self.space.sums
        key = (
            v,
            p,
            q,
            *((d, self.chains[d], kind, *shares[d].items()) for d, kind in zip(dims, kinds, strict=True)),
        )
        if key not in known:
            if len(known) > MOST_SUMS:
                known.clear()
            between = [[loop for loop in reversed(self.spatial[d]) if p < loop.node < q] for d in dims]
            once = self.space.spaces[v].multicast
            shared = [{loop.node for loop in own if once[loop.node]} for own in between]
            apart = sum(map(len, shared)) == len({*chain(*shared)})
            count = self.sums_apart if apart else self.sums_meeting
            known[key] = count(v, group, q, shares, kinds, between)
        return known[key]

    def sums_apart(
        self,
        v: int,
        group: Group,
        q: int,
        shares: Sequence[Shares],
        kinds: Sequence[When],
        between: Sequence[Sequence[Loop]],
    ) -> tuple[int, int]:
        """Words as `sums` says, where no two children that share accesses may have equal tiles."""
        dims, ranks = group
        lists = []
        for d, kind, loops in zip(dims, kinds, between, strict=True):
            own = reduce(lambda found, loop: self.below(v, ranks, found, loop), loops, shares[d])
            around, extent = self.above(d, q), self.extents[q][d]
            steps = ((steps_of(count, extent, around, kind), number) for count, number in own.items())
            lists.append([(step, times * number) for found, number in steps for step, times in found])
        if not ranks:
            number = sum(number for _, number in lists[0])
            return number, number
        whole = kept = 0
        for chosen in product(*lists):
            number = prod(number for _, number in chosen)
            new, held = brought(ranks, dims, [0] * len(dims), [step for step, _ in chosen])
            whole, kept = whole + number * words_of(new), kept + (number * words_of(held) if held else 0)
        return whole, kept

    def below(self, v: int, ranks: Ranks, shares: Shares, loop: Loop) -> Shares:
        """The shares of children along a dimension, as far as they cause accesses of their own."""
        if ranks or not self.space.spaces[v].multicast[loop.node]:
            return dealt(shares, loop)
        # The first child takes part in all that others do.
        return sum((Counter({share(count, loop, 0): number}) for count, number in shares.items()), Counter())

    def sums_meeting(
        self,
        v: int,
        group: Group,
        q: int,
        shares: Sequence[Shares],
        kinds: Sequence[When],
        between: Sequence[Sequence[Loop]],
    ) -> tuple[int, int]:
        """Words as `sums` says, where children may have equal tiles: child by child."""
        dims, ranks = group
        nodes = sorted({loop.node for loop in chain(*between)})
        lists = [
            [
                moment
                for count, instances in shares[d].items()
                for moment in self.moments(d, q, count, instances, kind, loops, nodes)
            ]
            for d, kind, loops in zip(dims, kinds, between, strict=True)
        ]
        shared = [self.space.spaces[v].multicast[p] for p in nodes]
        whole = kept = 0
        for chosen in product(*lists):
            number = prod(number for number, _ in chosen)
            asked = []
            for children in product(*(children for _, children in chosen)):
                digits = tuple(zip(*(digits for digits, _, _ in children), strict=True))
                starts, steps = [start for _, start, _ in children], [step for _, _, step in children]
                asked.append((digits, *brought(ranks, dims, starts, steps)))
            for new, held in joined(asked, shared, 0):
                whole, kept = whole + number * words_of(new), kept + (number * words_of(held) if held else 0)
        return whole, kept

    def moments(
        self,
        d: int,
        q: int,
        count: int,
        instances: int,
        kind: When,
        loops: Sequence[Loop],
        nodes: Sequence[int],
    ) -> Iterator[tuple[int, list[Child]]]:
        """Rounds in which children do the same along a dimension: how many, and the children in use.

        A child is given by its digit at each of the `nodes`, the start of its tile, and its step.
        """
        children = []
        able(prod(loop.factor for loop in loops) < MOST_CHILDREN, "too many children")
        for digits in product(*(range(loop.factor) for loop in loops)):
            own = reduce(lambda n, pair: share(n, *pair), zip(loops, digits, strict=True), count)
            if own:
                at = {loop.node: digit for loop, digit in zip(loops, digits, strict=True)}
                start = sum(loop.stride * digit for loop, digit in zip(loops, digits, strict=True))
                turn = turns(own, self.extents[q][d], self.above(d, q), kind)
                children.append((tuple(at.get(p) for p in nodes), start, turn))
        ends = sorted({0, *chain(*((turn[0] - 1, turn[0]) for _, _, turn in children))})
        for first, last in pairwise(ends):
            number = times(first, last, children[0][2][3])
            if number:
                steps = [
                    (digits, start, turn[2] if first == turn[0] - 1 else turn[1])
                    for digits, start, turn in children
                    if first < turn[0]
                ]
                busy = [(digits, start, step) for digits, start, step in steps if step is not None]
                yield number * instances, busy

    def begun(self, v: int, p: int, q: int, shares: Sequence[Shares]) -> int:
        """Words that instances of level `p` with these shares write first for tiles of node `q`."""
        space, found = self.space.spaces[v], product(*(pairs.items() for pairs in shares))
        counted = [([count for count, _ in chosen], prod(n for _, n in chosen)) for chosen in found]
        if not isinstance(space, Executed):
            return sum(number for _, number in counted) * space.begun(self, p, q)
        return sum(self.touched(v, p, q, counts) * number for counts, number in counted)

    def touched(self, v: int, p: int, q: int, counts: Sequence[int]) -> int:
        """Distinct words that tiles of node `q` ever take under an instance of `p` with these `counts`."""
        return prod(
            self.covered(v, group, p, q, tuple(counts[d] for d in group[0]))
            for group in self.space.spaces[v].groups
            if group[1]
        )

    def covered(self, v: int, group: Group, p: int, q: int, counts: tuple[int, ...]) -> int:
        """Distinct words along the ranks of one group of dimensions: the union of boxes."""
        dims, ranks = group
        places = []
        for d, count in zip(dims, counts, strict=True):
            inner = [loop for loop in self.spatial[d] if p < loop.node < q]
            loops = sorted((*self.above(d, q), *inner), key=lambda loop: loop.stride)
            extent = self.extents[q][d]
            tiles = ceiling(count, extent)
            if len(dims) == len(ranks) == 1:
                c = abs(ranks[0][0][1])
                words = (tiles - 1) * (1 + c * (extent - 1)) + 1 + c * (count - (tiles - 1) * extent - 1)
                return int(words)
            able(tiles <= MOST_PLACES, "the tiles of an output have too many positions")
            size = [min(extent, count - tile * extent) for tile in range(tiles)]
            places.append([(position(tile, loops), size[tile]) for tile in range(tiles)])
        able(prod(map(len, places)) <= MOST_PLACES, "the tiles of an output have too many positions")
        boxes = {box(ranks, dims, *zip(*chosen, strict=True)) for chosen in product(*places)}
        return united(boxes)


def joined(asked: Sequence[Asked], shared: Sequence[bool], i: int) -> list[tuple[Box, Box | None]]:
    """What children ask for in all, from the i-th fanout inwards: the boxes, and what all hold of each.

    Children that ask for the same boxes share accesses.
    """
    if i == len(shared):
        return [(new, held) for _, new, held in asked[:1]]
    parts: dict[Any, list[Asked]] = defaultdict(list)
    for one in asked:
        parts[one[0][i]].append(one)
    found: dict[tuple[Any, int], tuple[Box, Box | None]] = {}
    for child, own in parts.items():
        boxes = joined(own, shared, i + 1)
        via = frozenset(new for new, _ in boxes) if shared[i] else child
        for number, (new, held) in enumerate(sorted(boxes, key=lambda pair: pair[0])):
            known = found.get((via, number), (new, held))[1]
            found[via, number] = new, None if held is None or known is None else both(held, known)
    return [*found.values()]


def united(boxes: Collection[Box]) -> int:
    """Words of a union of boxes."""
    if len(next(iter(boxes))) == 1:
        total, reach = 0, min(low for ((low, _),) in boxes) - 1
        for ((low, high),) in sorted(boxes):
            total, reach = total + max(0, high - max(low, reach + 1) + 1), max(reach, high)
        return total
    lows = [min(ends[r][0] for ends in boxes) for r in range(len(next(iter(boxes))))]
    highs = [max(ends[r][1] for ends in boxes) for r in range(len(lows))]
    shape = [high - low + 1 for low, high in zip(lows, highs, strict=True)]
    able(prod(shape) <= MOST_PLACES, "the tiles of an output have too many positions")
    grid = np.zeros(shape, dtype=bool)
    for ends in boxes:
        grid[tuple(slice(a - low, b - low + 1) for (a, b), low in zip(ends, lows, strict=True))] = True
    return int(grid.sum())


def numbers_of_tiles(bound: int) -> list[int]:
    """All numbers of tiles that cover a bound, descending."""
    found = [bound]
    while found[-1] > 1:
        found.append(ceiling(bound, ceiling(bound, found[-1] - 1)))
    return found


def leaving(tiles: int, factors: range) -> Iterator[int]:
    """Numbers of tiles that a loop with one of these factors, above 1, makes of as many tiles."""
    factor, most = max(2, factors.start), min(factors.stop - 1, tiles)
    while factor <= most:
        left = ceiling(tiles, factor)
        yield left
        if left == 1:
            return
        factor = (tiles - 1) // (left - 1) + 1


def between(tiles: int, left: int, factors: range) -> range:
    """The factors of a loop that makes so many tiles of as many."""
    least, most = ceiling(tiles, left), tiles if left == 1 else (tiles - 1) // (left - 1)
    return range(max(least, factors.start, 2), min(most, factors.stop - 1) + 1)


class Space(Problem):
    """A mapspace: what it allows, and the exact costs of a mapping.

    All of it is executed `visits` times, and nothing stays in between; `fresh` says per dataspace how many of
    the times touch words of their own, and `loads` what words besides load a level (level, dataspace, kind).
    """

    is_sparse = False
    spaces: list[Executed | Timeloop | Placed]

    def __init__(self, doc: Json) -> None:
        need(doc["counting"] in [*RULES], "words are counted by a known rule")
        need(
            doc["factors"] == "perfect" or doc["counting"] == "exact",
            "loops with remainders are counted by the exact rule",
        )
        super().__init__(doc)
        able(prod(map(len, self.numbers)) < MOST_STATES, "the problem is too large")
        self.counting, self.placed = doc["counting"], doc["counting"] == "accelforge"
        self.spaces = [RULES[doc["counting"]](space, self.bounds) for space in doc["dataspaces"]]
        for v, space in enumerate(self.spaces):
            space.multicast = {p: self.nodes[p]["multicast"][v] for p in self.fans}
        blocks = {held["block"] for own in self.at.values() for held in own}
        able(
            not self.placed or blocks == {1},
            "the checker knows AccelForge's counting rule only for blocks of one word",
        )
        self.bounded(self.spaces)
        self.visits, self.fresh = 1, [1] * len(self.spaces)
        self.sums: dict[tuple[Any, ...], tuple[int, int]] = {}  # that nests have in common
        self.loads: dict[tuple[int, int, str], int | Fraction] = defaultdict(int)
        for p in self.stores if self.any else ():
            gates = self.nodes[p]["leak_fanouts"]
            need(
                gates == [q for q in self.fans if q < p][: len(gates)],
                "leakage depends on the outermost fanouts",
            )
        self.spatial = self.choices()
        self.rules = Rules(doc, self)

    @cached_property
    def numbers(self) -> list[list[int]]:
        """Per dimension all numbers of tiles."""
        return [numbers_of_tiles(n) if self.any else divisors(n)[::-1] for n in self.bounds]

    def sources(self, v: int, kept: Levels) -> Iterator[tuple[int, int]]:
        """Levels that keep a dataspace, innermost first, each with the node that asks it."""
        asking = len(self.nodes)
        for p in reversed(kept):
            yield p, asking
            asking = asking if self.at[p][v]["passes_on"] or "toll" in self.at[p][v] else p

    @remembered
    def accesses(self, v: int, kept: Levels) -> list[Access]:
        """What is accessed when words of a dataspace move between the levels that keep it."""
        found, rw = [], self.spaces[v].rw
        for p, asking in self.sources(v, kept):
            doc, inner = self.at[p][v], p > kept[0]
            if "toll" in doc:  # words only pass, those that go down and those that go up
                down, up = doc["toll"]
                found += [Access(v, p, asking, "read", rw)] if down else []
                found += [Access(v, p, asking, "update", False)] if up and rw else []
                continue
            passed = rw and doc["passes_on"]
            first = rw and not passed and not doc["first_write_reads"]
            found.append(Access(v, p, asking, "read", first))
            found += [Access(v, p, asking if passed else p, "fill", first)] if inner else []
            found += [Access(v, p, asking, "update", False)] if rw else []
            found += [Access(v, p, p, "read", False)] if rw and inner and self.placed else []
        return found

    def price(self, loops: Loops, mask: Mask) -> Cost:
        """The exact energy, cycles and product of both of a mapping, and whether it is allowed."""
        nest, energy = Nest(self, loops), self.arithmetic
        steps = busy = nest.steps() * self.visits
        for home, own in self.moves(mask).items():
            alike = self.alike(nest, home, own)
            energy += self.spent(home, alike)
            busy = max([busy, *(self.cycles(home, words, steps) for _, words in alike)])
        energy += sum(round(busy * leak) for leak in self.leaking(nest).values())
        cycles = math.ceil(busy) + self.latency
        return {"energy": energy, "latency": cycles, "edp": energy * cycles, "fits": self.fits(nest, mask)}

    def fits(self, nest: Nest, mask: Mask) -> bool:
        """Whether tiles fit the memories and fill them enough, and enough units are in use."""
        sizes = self.taken(nest, mask)
        fits = all(self.sizes[p][0] <= size <= self.sizes[p][1] for p, size in sizes.items())
        return fits and nest.instances(len(self.nodes)) >= self.least_units

    def taken(self, nest: Nest, mask: Mask) -> dict[int, int]:
        """Room that tiles take, by the first place of each memory."""
        sizes = dict.fromkeys(self.homes, 0)
        for v, p in ((v, p) for v, kept in enumerate(mask) for p in kept):
            sizes[self.home[p]] += self.spaces[v].tile(nest.extents[p]) * self.at[p][v]["size"]
        return sizes

    def moves(self, mask: Mask) -> dict[int, list[Access]]:
        """Per memory, what is accessed."""
        found: dict[int, list[Access]] = {p: [] for p in self.homes}
        for own in chain(*(self.accesses(v, tuple(kept)) for v, kept in enumerate(mask))):
            found[self.home[own.p]].append(own)
        return found

    def leaking(self, nest: Nest) -> dict[int, int]:
        """Leakage of each level per cycle."""
        return {p: self.nodes[p]["leak"] * nest.in_use(self.nodes[p]["leak_fanouts"]) for p in self.stores}

    def alike(self, nest: Nest, home: int, own: Sequence[Access]) -> list[Alike]:
        """Alike instances of a memory: how many, and the words of one, by access.

        All are one if sums are enough. Between places there are no fanouts: instances have the same shares
        at all of them. The first are those that have most to do.
        """
        every = [nest.shares(d, home) for d in self.every]
        if self.summed(nest, home, own):
            shares, number = [every], [1]
        else:
            found = [*product(*(pairs.items() for pairs in every))]
            shares = [[Counter({count: 1}) for count, _ in chosen] for chosen in found]
            number = [prod(instances for _, instances in chosen) for chosen in found]
        return [
            (instances, {access: self.words(nest, access, each) for access in own})
            for each, instances in zip(shares, number, strict=True)
        ]

    def summed(self, nest: Nest, home: int, own: Iterable[Access]) -> bool:
        """Whether the words of all instances together say what a level costs."""
        node = self.nodes[home]
        free = not any(node["bandwidths"].values()) and not node.get("ports")
        blocks = {self.at[access.p][access.v]["block"] for access in own} <= {1}
        return blocks and free and nest.instances(home) <= node["most_paying"]

    def words(self, nest: Nest, access: Access, shares: Sequence[Shares]) -> int:
        """Words of an access of instances with these shares."""
        v, p, asking, *_, first = access
        reuse = asking < len(self.nodes) and self.spaces[v].stays(self.at[asking][v])
        words = nest.words(v, p, asking, shares, reuse) * self.visits
        return max(0, words - nest.begun(v, p, asking, shares) * self.fresh[v]) if first else words

    def spent(self, home: int, alike: Iterable[Alike]) -> int:
        """Energy that instances of a memory spend, all of them or as many as pay for a dataspace."""
        parts: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for instances, words in alike:
            own: Counter[tuple[int, int]] = Counter()
            for access, n in words.items():
                own[access.v, access.p] += self.priced(access, n)
            for key, energy in own.items():
                parts[key].append((energy, instances))
        return sum(paid(pairs, self.nodes[home]["most_paying"]) for pairs in parts.values())

    def priced(self, access: Access, words: int) -> int:
        """Energy of the words of one instance: whole blocks are paid."""
        held = self.at[access.p][access.v]
        return int(ceiling(words, held["block"]) * held[access.action])

    @remembered
    def rates(self, v: int, p: int, kind: str) -> dict[Bandwidth, Fraction]:
        """Cycles that a word takes of the limited bandwidths that it loads."""
        home, scale = self.home[p], Fraction(*self.at[p][v]["bandwidth_scale"])
        node, widths = self.nodes[home], self.nodes[home]["bandwidths"]
        rates = {(home, way): scale / Fraction(*widths[way]) for way in (kind, "shared") if widths[way]}
        ports = ((i, Fraction(*port[kind])) for i, port in enumerate(node.get("ports", ())))
        return rates | {(home, f"port {i}"): scale * cycles for i, cycles in ports if cycles}

    def loaded(self, home: int, words: Mapping[Access, int]) -> dict[Bandwidth, Fraction]:
        """Cycles that each limited bandwidth of a memory needs for the words of an instance, as fractions."""
        found: dict[Bandwidth, Fraction] = defaultdict(Fraction)
        every: list[tuple[int, int, str, Number]] = [(own.v, own.p, own.kind, n) for own, n in words.items()]
        every += [(v, p, kind, n) for (p, v, kind), n in self.loads.items() if self.home[p] == home]
        for v, p, kind, n in every:
            for way, rate in self.rates(v, p, kind).items():
                found[way] += rate * n
        return found

    def cycles(self, home: int, words: Mapping[Access, int], steps: int) -> Any:
        """Cycles that a memory needs for the words of an instance; whole ones by the exact rule."""
        if self.counting == "timeloop":
            counts: Counter[tuple[int, str]] = Counter()
            for access, n in words.items():
                counts[access.v, access.kind] += n
            scales = [Fraction(*held["bandwidth_scale"]) for held in self.at[home]]
            return slowed(counts, scales, self.nodes[home]["bandwidths"], steps)
        return self.whole(max(self.loaded(home, words).values(), default=Fraction(0)))

    def whole(self, cycles: Fraction) -> Any:
        """Cycles rounded up, unless the rule compares fractions."""
        return cycles if self.placed else math.ceil(cycles)


def paid(parts: Iterable[tuple[int, int]], most: int) -> int:
    """Energy of at most so many instances, the busiest ones; `parts` are pairs of energy and instances."""
    total = 0
    for energy, instances in sorted(parts, reverse=True):
        own = min(instances, most)
        total, most = total + own * energy, most - own
    return total
