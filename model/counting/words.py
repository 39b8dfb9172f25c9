"""Moved words: tiles, the words that loops bring into them, and the words that children share."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import add, sub
from typing import NamedTuple, TypeVar

from model.problem import Dataspace

Item = TypeVar("Item", bound=Hashable)

Vector = tuple[int, ...]
"""Words per rank."""

Move = tuple[int, Vector]
"""A loop as a dataspace sees it: its bound, and the displacement of the tile per iteration."""


def extents(space: Dataspace, bounds: Mapping[str, int]) -> Vector:
    """Extent per rank of the bounding box that a block of iterations touches.

    A rank spans ``1 + sum(|coefficient| * (bound - 1))`` words: the holes that a stride leaves
    count.

    Parameters
    ----------
    space
        The dataspace.
    bounds
        Iterations of each dimension, at least 1; dimensions that are missing stand still.

    Returns
    -------
    tuple of int
        Words, one entry per rank.
    """
    return tuple(
        1 + sum(abs(term.coefficient) * (bounds.get(term.dim, 1) - 1) for term in rank)
        for rank in space.ranks
    )


def tile_words(space: Dataspace, bounds: Mapping[str, int]) -> int:
    """Words in the bounding box of `extents`; same parameters."""
    return math.prod(extents(space, bounds))


def displacement(space: Dataspace, dim: str, stride: int) -> Vector:
    """The distance by which a tile moves when a dimension advances.

    Parameters
    ----------
    space
        The dataspace.
    dim, stride
        The dimension, and by how much it advances.

    Returns
    -------
    tuple of int
        Words per rank, of either sign.
    """
    if dim not in space.dims:
        return (0,) * len(space.ranks)
    return tuple(sum(term.coefficient for term in rank if term.dim == dim) * stride for rank in space.ranks)


def fresh_words(tile: Sequence[int], move: Sequence[int]) -> int:
    """Words of a box that it did not cover before it moved."""
    overlap = math.prod(max(0, extent - abs(step)) for extent, step in zip(tile, move, strict=True))
    return math.prod(tile) - overlap


class Change(NamedTuple):
    """The words that a temporal loop brings whenever it advances.

    Parameters
    ----------
    repeats
        How often the loop advances while all loops run.
    jump
        Displacement of the tile per rank since the step before.
    words
        Words that are new in the tile.
    """

    repeats: int
    jump: Vector
    words: int


def exact_changes(tile: Sequence[int], moves: Iterable[Move]) -> Iterator[Change]:
    """The words that each temporal loop above a level brings into one instance, as an execution moves them.

    When a loop advances, all loops inside it go back from their last iteration to their first. The
    level keeps what the new tile shares with the one before, and nothing else.

    Parameters
    ----------
    tile
        Extent per rank.
    moves
        The temporal loops, innermost first.
    """
    return _changes_outwards(tile, moves, lambda bound: bound - 1, lambda jump, lead: fresh_words(tile, jump))


def timeloop_changes(tile: Sequence[int], moves: Iterable[Move]) -> Iterator[Change]:
    """The words that each temporal loop brings by Timeloop's rule; parameters as of `exact_changes`.

    The rule compares the first two iterations of each loop; the words that are new in the second
    one count for all further ones. The innermost loop that moves the tile keeps what
    overlaps with the tile before. A loop farther out is compared with the last position, all inner
    loops being in their second iteration: it brings nothing if the tile is back where it was,
    keeps the overlap if it continues the innermost movement, and brings the whole tile otherwise.

    Notes
    -----
    Timeloop since January 2025 (NVlabs/timeloop #297). docs/model.md, "Timeloop's rule", says where
    this is more or less than an execution moves.
    """

    def words(jump: Vector, lead: Vector | None) -> int:
        if not any(jump):
            return 0
        return fresh_words(tile, jump) if jump == lead else math.prod(tile)

    return _changes_outwards(tile, moves, lambda bound: 1, words)


def place_changes(tile: Sequence[int], moves: Iterable[Move]) -> Iterator[Change]:
    """The words that each temporal loop brings into one instance by AccelForge's rule.

    Only the place of a tile in the nest decides whether it stays: every loop outside fetches the whole tile
    again, even if it is the same. Only the innermost of these loops keeps the overlap, where it moves the
    tile by less than its extent.
    """
    loops = [(bound, move) for bound, move in moves if bound > 1]
    repeats = math.prod(bound for bound, _ in loops)
    for place, (bound, move) in enumerate(loops):
        outer_repeats = repeats // bound
        overlaps = place == 0 and any(move)
        yield Change(repeats - outer_repeats, move, fresh_words(tile, move) if overlaps else math.prod(tile))
        repeats = outer_repeats


def _changes_outwards(
    tile: Sequence[int],
    moves: Iterable[Move],
    advanced: Callable[[int], int],
    words: Callable[[Vector, Vector | None], int],
) -> Iterator[Change]:
    """Walk the loops outwards; `advanced` says how many iterations an inner loop of some bound is past."""
    loops = [(bound, move) for bound, move in moves if bound > 1]
    repeats = math.prod(bound for bound, _ in loops)
    lead: Vector | None = None
    position: Vector = (0,) * len(tile)
    for bound, move in loops:
        if lead is None and any(move):
            lead = move
        jump = tuple(map(sub, move, position))
        outer_repeats = repeats // bound
        yield Change(repeats - outer_repeats, jump, words(jump, lead))
        steps = advanced(bound)
        position = tuple(map(add, position, (steps * step for step in move)))
        repeats = outer_repeats


def covered_words(tile: Sequence[int], moves: Iterable[Move]) -> int:
    """Distinct words that a tile covers while loops move it: all words that one instance holds.

    Parameters
    ----------
    tile
        Extent per rank.
    moves
        Loops in any order.
    """
    return _covered_words(tuple(tile), tuple(sorted(move for move in moves if move[0] > 1 and any(move[1]))))


@lru_cache(maxsize=65536)
def _covered_words(tile: Vector, moves: tuple[Move, ...]) -> int:
    moved: set[int] = set()
    covered = 1
    for group in _independent_groups(moves):
        ranks = sorted({rank for _, step in group for rank, words in enumerate(step) if words})
        moved.update(ranks)
        covered *= _covered_in_group(
            [tile[r] for r in ranks], [(b, tuple(m[r] for r in ranks)) for b, m in group]
        )
    return covered * math.prod(extent for rank, extent in enumerate(tile) if rank not in moved)


def _covered_in_group(tile: Sequence[int], moves: Sequence[Move]) -> int:
    """Distinct words in ranks that loops move together; by formula for intervals that stay in step."""
    if len(tile) > 1:
        return _counted_words(tile, moves)
    words = span = tile[0]
    for step, bound in sorted((abs(move[0]), bound) for bound, move in moves):
        reach = span + (bound - 1) * step
        if words == span and step <= span:
            words = reach
        elif step >= span:
            words *= bound
        else:
            return _counted_words(tile, moves)
        span = reach
    return words


def _counted_words(tile: Sequence[int], moves: Sequence[Move]) -> int:
    """Distinct words as a set of bits, one per position of a box that holds them all."""
    weight, loops = 1, []
    weights = []
    for rank, extent in enumerate(tile):
        weights.append(weight)
        loops.append((extent, weight))
        weight *= extent + sum((bound - 1) * abs(move[rank]) for bound, move in moves)
    loops += [(bound, abs(sum(map(int.__mul__, move, weights)))) for bound, move in moves]
    covered = 1
    for bound, step in loops:
        covered = _copies_united(covered, bound, step)
    return covered.bit_count()


def _copies_united(bits: int, times: int, step: int) -> int:
    """Union of `times` copies of a set, each `step` farther than the one before."""
    if times == 1:
        return bits
    half = _copies_united(bits, times // 2, step)
    both = half | half << times // 2 * step
    return both | bits << (times - 1) * step


def distinct_offsets(moves: Iterable[Move]) -> int:
    """Number of different tile positions among the children that spatial loops span.

    Children at one position receive the same words, so one access serves them all; children
    whose tiles only overlap share nothing.

    Parameters
    ----------
    moves
        The spatial loops of a fanout, in any order.

    Returns
    -------
    int
        At least 1. Groups of three and more loops that share ranks are counted child by child, all
        others by formula.
    """
    return _distinct_offsets(tuple(sorted(move for move in moves if move[0] > 1 and any(move[1]))))


@lru_cache(maxsize=65536)
def _distinct_offsets(moves: tuple[Move, ...]) -> int:
    return math.prod(_distinct_in_group(group) for group in _independent_groups(moves))


def _independent_groups(moves: tuple[Move, ...]) -> list[list[Move]]:
    """Split the moves so that moves of different groups share no rank."""
    moved = [{rank for rank, step in enumerate(step_by_rank) if step} for _, step_by_rank in moves]
    return [[moves[place] for place in group] for group in connected(moved)]


def connected(sets: Iterable[set[Item]]) -> list[list[int]]:
    """Group sets that have members in common, directly or through others; each group lists their places."""
    groups: list[tuple[set[Item], list[int]]] = []
    for place, own in enumerate(sets):
        met = [group for group in groups if not group[0].isdisjoint(own)]
        groups = [group for group in groups if group[0].isdisjoint(own)]
        joined = [other for _, others in met for other in others]
        groups.append((own.union(*(members for members, _ in met)), [*joined, place]))
    return [group for _, group in groups]


def _distinct_in_group(group: list[Move]) -> int:
    if len(group) == 1:
        return group[0][0]
    if len(group) == 2:
        return _distinct_in_pair(*group)
    offsets: set[Vector] = {(0,) * len(group[0][1])}
    for bound, move in group:
        offsets = {
            tuple(o + index * m for o, m in zip(offset, move, strict=True))
            for offset in offsets
            for index in range(bound)
        }
    return len(offsets)


def _distinct_in_pair(first: Move, second: Move) -> int:
    """Positions that two loops reach: only moves along one line can meet again."""
    (bound_a, move_a), (bound_b, move_b) = first, second
    rank = next(rank for rank, step in enumerate(move_a) if step)
    step_a, step_b = move_a[rank], move_b[rank]
    if any(a * step_b != b * step_a for a, b in zip(move_a, move_b, strict=True)):
        return bound_a * bound_b
    return distinct_sums(bound_a, step_a, bound_b, step_b)


def distinct_sums(bound_a: int, step_a: int, bound_b: int, step_b: int) -> int:
    """Number of different values ``i * step_a + j * step_b``, ``i < bound_a`` and ``j < bound_b``.

    Two pairs agree when they differ by multiples of ``(step_b, -step_a) / gcd``; each pair that
    has such a successor within the bounds repeats a value.

    Parameters
    ----------
    bound_a, bound_b
        At least 1.
    step_a, step_b
        Not both zero; their signs do not matter.
    """
    divisor = math.gcd(step_a, step_b)
    shift_a, shift_b = abs(step_b) // divisor, abs(step_a) // divisor
    return bound_a * bound_b - max(0, bound_a - shift_a) * max(0, bound_b - shift_b)
