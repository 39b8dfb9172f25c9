"""Words that a nest with remainders moves, counted exactly; without remainders it gives the same counts.

What an instance sees of each dimension is a share of it (`model.cost.shares`). Dimensions that index the
same ranks form a group; words of a box, and of what two boxes have in common, are products over groups,
and sums over steps and instances are taken group by group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Mapping as Named
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise, product
from typing import NamedTuple

from model.architecture import Architecture, StorageLevel
from model.cost.nest import Nest
from model.cost.shares import LoopsAbove, RowLoop, Share, Turn, Turns, deal, first, share_of
from model.cost.traffic import (
    Traffic,
    accesses,
    askers,
    in_passing,
    kept_anywhere,
    reuses,
    sharing_fanouts,
)
from model.counting.words import connected, covered_words, tile_words
from model.mapping import Mapping
from model.problem import Dataspace, Term

Shares = Named[str, tuple[Share, ...]]
"""By dimension, the shares of a node's instances."""

Interval = tuple[int, int]
"""First and last word along a rank; empty if the last one lies before the first."""

Box = tuple[Interval, ...]

_NOTHING: Interval = 0, -1


def box_words(box: Box) -> int:
    """Words of a box."""
    return math.prod(max(0, last - first + 1) for first, last in box)


def common(one: Box, other: Box) -> Box:
    """Words that two boxes have in common."""
    return tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))


@dataclass(frozen=True)
class Group:
    """Dimensions that index the same ranks of a dataspace; one dimension and no rank if it indexes none."""

    dims: tuple[str, ...]
    ranks: tuple[tuple[Term, ...], ...]

    def box(self, starts: Sequence[int], extents: Sequence[int]) -> Box:
        """Words that a block of iterations touches, given its start and its extent per dimension."""
        at = dict(zip(self.dims, zip(starts, extents, strict=True), strict=True))
        return tuple(_interval_along(rank, at) for rank in self.ranks)


def _interval_along(rank: Iterable[Term], at: Named[str, tuple[int, int]]) -> Interval:
    low = high = 0
    for term in rank:
        start, extent = at[term.dim]
        ends = term.coefficient * start, term.coefficient * (start + extent - 1)
        low, high = low + min(ends), high + max(ends)
    return low, high


def groups_of(space: Dataspace, dims: Iterable[str]) -> tuple[Group, ...]:
    """Group the dimensions of a problem as a dataspace's ranks join them."""
    names = tuple(dims)
    groups = connected([*({dim} for dim in names), *({term.dim for term in rank} for rank in space.ranks)])
    count = len(names)
    return tuple(
        Group(
            tuple(names[place] for place in group if place < count),
            tuple(space.ranks[place - count] for place in group if place >= count),
        )
        for group in groups
    )


class _Child(NamedTuple):
    """One way of a dimension through the fanouts: its digits, its tile's start, and its turns."""

    digits: tuple[tuple[int, int], ...]  # pairs of a fanout's position and a digit there
    start: int
    turns: Turns


class _Moment(NamedTuple):
    """A round of a dimension's loops: how many are like it, and the children that have something to do."""

    times: int
    children: tuple[tuple[_Child, Turn], ...]


@dataclass(frozen=True)
class Route:
    """The way of a dataspace from a level to the next one inwards, or to the arithmetic.

    Parameters
    ----------
    architecture, nest, space
        The hardware, the loops of a mapping, and the dataspace.
    outer, inner
        Positions of the level that is asked, and of the node that asks. With both the same, the words
        that its instances receive are counted one by one.
    """

    architecture: Architecture
    nest: Nest
    space: Dataspace
    outer: int
    inner: int

    @property
    def reuses(self) -> bool:
        """Whether the node that asks keeps what it holds from step to step."""
        return reuses(self.architecture, self.space, self.inner)

    @cached_property
    def _groups(self) -> tuple[Group, ...]:
        return groups_of(self.space, self.nest.bounds[0])

    @cached_property
    def _rows(self) -> dict[str, LoopsAbove]:
        return {dim: self.nest.row(dim, self.inner) for dim in self.nest.bounds[0]}

    @cached_property
    def _shared(self) -> frozenset[int]:
        """Positions of the fanouts on the way whose children share accesses."""
        return sharing_fanouts(self.architecture, self.space, self.outer, self.inner)

    def brought_words(self, shares: Shares, *, reuse: bool) -> int:
        """Words that the asking node gets while all loops run, each as often as the level is accessed for it.

        In a step, children in use that want equal tiles share accesses, and a word is read once if any of
        them lacks it. An instance that has nothing to do in a round keeps what it holds.

        Parameters
        ----------
        shares
            Of the level's instances, over which the words are summed.
        reuse
            Whether the asking node keeps what it holds from step to step.
        """
        if not reuse:
            return self._fresh(shares, None)[0]
        starts = math.prod(self._sums(group, shares, "start")[0] for group in self._groups)
        steps = (self._fresh(shares, place) for place in self._moving)
        return starts + sum(whole - kept for whole, kept in steps)

    @cached_property
    def _moving(self) -> range:
        """Numbers of the temporal loops from the innermost one on that moves the tile."""
        relevant = [loop.place for dim in self.space.dims for loop in self._rows[dim].temporal]
        return range(min(relevant), len(self.nest.loops_above(self.inner))) if relevant else range(0)

    def _fresh(self, shares: Shares, place: int | None) -> tuple[int, int]:
        sums = [self._sums(group, shares, place) for group in self._groups]
        return math.prod(whole for whole, _ in sums), math.prod(kept for _, kept in sums)

    def _sums(self, group: Group, shares: Shares, kind: int | str | None) -> tuple[int, int]:
        """Words of a group's tiles in some steps, and those of them that are there already."""
        key = group.dims, kind, *(shares[dim] for dim in group.dims)
        if key not in self._known:
            self._known[key] = self._counted_sums(group, shares, kind)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[object, ...], tuple[int, int]]:
        return {}

    def _counted_sums(self, group: Group, shares: Shares, kind: int | str | None) -> tuple[int, int]:
        if self._may_meet(group):
            return self._meeting_sums(group, shares, kind)
        turns = [self._turns(dim, shares[dim], kind, relevant=bool(group.ranks)) for dim in group.dims]
        if not group.ranks:
            times = sum(count for count, _ in turns[0])
            return times, times
        if len(group.dims) == len(group.ranks) == 1:
            return _line_sums(abs(group.ranks[0][0].coefficient), turns[0])
        whole = kept = 0
        for chosen in product(*turns):
            times = math.prod(count for count, _ in chosen)
            tile, held = _tile_and_held(group, [0] * len(chosen), [turn for _, turn in chosen])
            whole += times * box_words(tile)
            kept += times * box_words(common(tile, held))
        return whole, kept

    def _turns(
        self, dim: str, shares: tuple[Share, ...], kind: int | str | None, *, relevant: bool
    ) -> list[tuple[int, Turn]]:
        """The turns of all children along a dimension, and how often each happens."""
        row = self._rows[dim]
        for loop in self._between(dim):
            alone = relevant or loop.place not in self._shared
            shares = deal(shares, [loop]) if alone else first(shares, [loop])
        return [
            (times * share.instances, turn)
            for share in shares
            for times, turn in _turns_of(row, share.iterations, kind).counted()
        ]

    def _between(self, dim: str) -> list[RowLoop]:
        return [loop for loop in self._rows[dim].spatial if loop.place > self.outer]

    def _may_meet(self, group: Group) -> bool:
        """Whether two dimensions of a group are unrolled in one fanout that shares accesses."""
        if len(group.dims) == 1:
            return False
        places = [{loop.place for loop in self._between(dim)} & self._shared for dim in group.dims]
        return len(set().union(*places)) < sum(map(len, places))

    # ------------------------------------------------- children that may hold equal tiles

    def _meeting_sums(self, group: Group, shares: Shares, kind: int | str | None) -> tuple[int, int]:
        """Whether two dimensions are unrolled in one fanout that shares accesses, child by child."""
        ways = [range(loop.place, loop.place + 1) for dim in group.dims for loop in self._between(dim)]
        fanouts = sorted({place for way in ways for place in way})
        moments = [self._moments(dim, shares[dim], kind) for dim in group.dims]
        whole = kept = 0
        for chosen in product(*moments):
            times = math.prod(moment.times for moment in chosen)
            asked = [
                _asked_by_children(group, combined) for combined in product(*(m.children for m in chosen))
            ]
            for tile, held in self._requests(asked, fanouts).values():
                whole += times * box_words(tile)
                kept += times * box_words(held)
        return whole, kept

    def _moments(self, dim: str, shares: tuple[Share, ...], kind: int | str | None) -> Iterator[_Moment]:
        """Yield the kinds of rounds, summed over the level's instances."""
        for share in shares:
            children = list(_children_in_use(self._rows[dim], self._between(dim), share.iterations, kind))
            yield from _moments(children, share.instances)

    def _requests(self, asked: list[_Asked], fanouts: Sequence[int]) -> dict[_Key, tuple[Box, Box]]:
        """Join what children ask for, from the inside outwards.

        Returns
        -------
        dict
            By the way of a request: a tile, and what all children that take part hold of it already.
        """
        if not fanouts:
            return {(tile,): (tile, common(tile, held)) for _, tile, held in asked}
        by_child: dict[object, list[_Asked]] = {}
        for one in asked:
            by_child.setdefault(_digits_at(one.digits, fanouts[0]), []).append(one)
        joined: dict[_Key, tuple[Box, Box]] = {}
        for child, own in by_child.items():
            requests = self._requests(own, fanouts[1:])
            tiles = frozenset(tile for tile, _ in requests.values())
            via = tiles if fanouts[0] in self._shared else child
            for key, (tile, held) in requests.items():
                known = joined.get((via, *key), (tile, held))
                joined[via, *key] = tile, common(held, known[1])
        return joined

    # ------------------------------------------------------------------- distinct words

    def touched_words(self, shares: Shares) -> int:
        """Distinct words that the tiles of the asking node ever take, summed over instances of the level."""
        return math.prod(self._touched(group, shares) for group in self._groups)

    def _touched(self, group: Group, shares: Shares) -> int:
        total = 0
        for chosen in product(*(shares[dim] for dim in group.dims)):
            instances = math.prod(share.instances for share in chosen)
            total += instances * self._covered(group, [share.iterations for share in chosen])
        return total

    def _covered(self, group: Group, iterations: Sequence[int]) -> int:
        """Distinct words of a group that tiles cover under one instance with so many iterations."""
        rows = [self._rows[dim] for dim in group.dims]
        if not group.ranks:
            return 1
        if len(group.dims) == 1 and len(group.ranks) == 1:
            return _words_apart(group, rows[0], iterations[0])
        loops = [(*row.temporal, *self._between(dim)) for dim, row in zip(group.dims, rows, strict=True)]
        if all(
            row.extent * math.prod(loop.bound for loop in own) == count
            for row, own, count in zip(rows, loops, iterations, strict=True)
        ):
            tile = group.box([0] * len(rows), [row.extent for row in rows])
            moves = [
                (loop.bound, tuple(_coefficient(rank, dim) * loop.stride for rank in group.ranks))
                for dim, own in zip(group.dims, loops, strict=True)
                for loop in own
            ]
            return covered_words([last - first + 1 for first, last in tile], moves)
        tiles = [
            list(_blocks_of_tiles(row, sorted(own, key=lambda loop: loop.stride), count))
            for row, own, count in zip(rows, loops, iterations, strict=True)
        ]
        return _union(group, tiles)


class _Asked(NamedTuple):
    """A child that is in use: its digits per dimension, the tile that it wants, and the one that it has."""

    digits: tuple[tuple[tuple[int, int], ...], ...]
    tile: Box
    held: Box


_Key = tuple[object, ...]


def _digits_at(digits: Iterable[tuple[tuple[int, int], ...]], place: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(digit for own, digit in of_dim if own == place) for of_dim in digits)


def _turns_of(row: LoopsAbove, iterations: int, kind: int | str | None) -> Turns:
    """The turns of an instance: when it starts, in every step, or when a loop advances."""
    if kind is None:
        return row.every(iterations)
    return row.starting(iterations) if isinstance(kind, str) else row.advancing(iterations, kind)


def _children_in_use(
    row: LoopsAbove, loops: Sequence[RowLoop], iterations: int, kind: int | str | None
) -> Iterator[_Child]:
    """Yield the children in use along one dimension, the one with most to do first."""
    for digits in product(*(range(loop.bound) for loop in loops)):
        own = iterations
        for loop, digit in zip(loops, digits, strict=True):
            own = share_of(own, loop, digit)
        if own:
            placed = zip(loops, digits, strict=True)
            start = sum(loop.stride * digit for loop, digit in zip(loops, digits, strict=True))
            turns = _turns_of(row, own, kind)
            yield _Child(tuple((loop.place, digit) for loop, digit in placed), start, turns)


def _moments(children: Sequence[_Child], instances: int) -> Iterator[_Moment]:
    """Yield the rounds in which the children's turns differ; the first one takes part in all."""
    ends = sorted({0}.union(*({child.turns.rounds - 1, child.turns.rounds} for child in children)))
    for start, stop in pairwise(ends):
        present = [(child, turn) for child in children if (turn := child.turns.at(start)) is not None]
        times = children[0].turns.times(start, stop) * instances
        if times:
            yield _Moment(times, tuple(present))


def _asked_by_children(group: Group, combined: Sequence[tuple[_Child, Turn]]) -> _Asked:
    starts = [child.start for child, _ in combined]
    tile, held = _tile_and_held(group, starts, [turn for _, turn in combined])
    return _Asked(tuple(child.digits for child, _ in combined), tile, held)


def _tile_and_held(group: Group, starts: Sequence[int], turns: Sequence[Turn]) -> tuple[Box, Box]:
    """The tile after a step, and what is held of the one before."""
    tile = group.box(starts, [turn.after for turn in turns])
    if any(turn.anew for turn in turns):
        return tile, (_NOTHING,) * len(tile)
    before = [start - turn.shift for start, turn in zip(starts, turns, strict=True)]
    return tile, group.box(before, [turn.before for turn in turns])


def _line_sums(coefficient: int, turns: Iterable[tuple[int, Turn]]) -> tuple[int, int]:
    """Words of tiles of one dimension in one rank, and those that are there already, without boxes."""
    whole = kept = 0
    for times, (shift, before, after, anew) in turns:
        start = -coefficient * shift
        last, last_held = coefficient * (after - 1), start + coefficient * (before - 1)
        whole += times * (last + 1)
        kept += 0 if anew else times * max(0, min(last, last_held) - max(0, start) + 1)
    return whole, kept


def _coefficient(rank: Iterable[Term], dim: str) -> int:
    return sum(term.coefficient for term in rank if term.dim == dim)


def _words_apart(group: Group, row: LoopsAbove, iterations: int) -> int:
    """Words of the tiles of one dimension in one rank: they do not overlap."""
    tiles = -(-iterations // row.extent)
    last = iterations - (tiles - 1) * row.extent
    full, short = (box_words(group.box([0], [extent])) for extent in (row.extent, last))
    return (tiles - 1) * full + short


class _Tiles(NamedTuple):
    """Tiles of one extent, from a start on, repeated by loops: pairs of a bound and a stride."""

    start: int
    extent: int
    loops: tuple[tuple[int, int], ...]


def _blocks_of_tiles(row: LoopsAbove, loops: Sequence[RowLoop], iterations: int) -> Iterator[_Tiles]:
    """Yield all tiles of a share, as blocks whose loops run in full; loops innermost first."""
    tiles = -(-iterations // row.extent)
    last, start = tiles - 1, 0
    for place in reversed(range(len(loops))):
        inner = math.prod(loop.bound for loop in loops[:place])
        digit, last = divmod(last, inner)
        full = tuple((loop.bound, loop.stride) for loop in loops[:place])
        if digit:
            yield _Tiles(start, row.extent, (*full, (digit, loops[place].stride)))
        start += digit * loops[place].stride
    yield _Tiles(start, iterations - (tiles - 1) * row.extent, ())


def _union(group: Group, tiles: Sequence[Sequence[_Tiles]]) -> int:
    """Distinct words of all combinations of tiles, as a set of bits."""
    boxes = [
        group.box([blocks.start for blocks in chosen], [blocks.extent for blocks in chosen])
        for chosen in product(*tiles)
    ]
    reach = [
        sum(abs(_coefficient(rank, dim)) * _reach(own) for dim, own in zip(group.dims, tiles, strict=True))
        for rank in group.ranks
    ]
    weights = [math.prod(2 * size + 1 for size in reach[:place]) for place in range(len(reach))]
    origin = sum(weight * size for weight, size in zip(weights, reach, strict=True))
    covered = 0
    for chosen, box in zip(product(*tiles), boxes, strict=True):
        loops = [
            (bound, stride * sum(w * _coefficient(r, dim) for w, r in zip(weights, group.ranks, strict=True)))
            for dim, blocks in zip(group.dims, chosen, strict=True)
            for bound, stride in blocks.loops
        ]
        loops += [(high - low + 1, weight) for (low, high), weight in zip(box, weights, strict=True)]
        at = origin + sum(w * low for w, (low, _) in zip(weights, box, strict=True))
        covered |= _reached_positions(at, loops)
    return covered.bit_count()


def _reach(tiles: Iterable[_Tiles]) -> int:
    """Iterations up to the end of the last tile."""
    return max(
        blocks.start + blocks.extent + sum((bound - 1) * stride for bound, stride in blocks.loops)
        for blocks in tiles
    )


def _reached_positions(at: int, loops: Iterable[tuple[int, int]]) -> int:
    """The set of positions that loops reach from a first one, as bits."""
    bits = 1
    for bound, step in loops:
        at += min(0, (bound - 1) * step)
        copies = 1
        while copies < bound:
            more = min(copies, bound - copies)
            bits |= bits << more * abs(step)
            copies += more
    return bits << at


def equal_instances(nest: Nest, position: int) -> Iterator[tuple[int, Shares]]:
    """Yield the instances of a node that have equal shares: their number, and the shares of one of them.

    Those with the largest share of every dimension come first.
    """
    dims = tuple(nest.bounds[0])
    for chosen in product(*(nest.shares(dim, position) for dim in dims)):
        one = {dim: (Share(own.iterations, 1),) for dim, own in zip(dims, chosen, strict=True)}
        yield math.prod(share.instances for share in chosen), one


def traffic_with_remainders(
    architecture: Architecture, mapping: Mapping, nest: Nest, space: Dataspace
) -> Iterator[tuple[int, Callable[[Shares], Traffic]]]:
    """Yield the levels that keep a dataspace, innermost first, and what instances do there by their shares.

    The words that instances move are those of their own nests: shares with one instance give the words
    of one, others sums over several.

    Raises
    ------
    ValueError
        If no level keeps `space`.
    """
    kept = kept_anywhere(architecture, mapping, space.name)
    for position, level, asking in askers(architecture, kept, space):
        served = Route(architecture, nest, space, position, asking)
        received = Route(architecture, nest, space, position, position)
        yield position, partial(_traffic, level, served, received, position == kept[0])


def _traffic(level: StorageLevel, served: Route, received: Route, outermost: bool, shares: Shares) -> Traffic:
    """What instances of a level do with these shares."""
    space, position = served.space, received.inner
    above = 0 if outermost else received.brought_words(shares, reuse=received.reuses)
    held = received.touched_words(shares)
    firsts = (served.touched_words(shares) if space.read_write else held), held
    stream = served.brought_words(shares, reuse=served.reuses)
    if level.tolls:
        return in_passing(position, level, space, stream, firsts[0])
    tile = tile_words(space, served.nest.bounds[position])
    return Traffic(position, tile, held, *accesses(level, space, stream, (above, 0), firsts))
