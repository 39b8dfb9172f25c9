"""Words delivered into a level over time, and distinct words among the children of a fanout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import add, sub
from typing import NamedTuple

from model.cost.tiles import Vector, fresh_words

Move = tuple[int, Vector]
"""A loop as a dataspace sees it: its bound, and the displacement of the tile per iteration."""


class Change(NamedTuple):
    """What a temporal loop brings whenever it advances.

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


def changes(tile: Sequence[int], moves: Iterable[Move], reuse: bool = True) -> Iterator[Change]:
    """What each temporal loop above a level brings into one instance of it.

    Every loop is looked at between its first two iterations, and the words that are new in the
    second one count for all further ones. The innermost loop that moves the tile keeps what
    overlaps with the tile before. A loop farther out is compared with the last position, all inner
    loops being in their second iteration: it brings nothing if the tile comes to lie where it was,
    keeps the overlap if it continues the innermost movement, and brings the whole tile otherwise.

    Notes
    -----
    Timeloop's rule; docs/model.md, "The counting rule of temporal reuse", says where it is not exact.
    """
    loops = [(bound, move) for bound, move in moves if bound > 1]
    repeats = math.prod(bound for bound, _ in loops)
    innermost: Vector | None = None
    position: Vector = (0,) * len(tile)
    for bound, move in loops:
        if innermost is None and any(move):
            innermost = move
        jump = tuple(map(sub, move, position))
        outer_repeats = repeats // bound
        words = _new_words(tile, jump, innermost) if reuse else math.prod(tile)
        yield Change(repeats - outer_repeats, jump, words)
        position = tuple(map(add, position, move))
        repeats = outer_repeats


def _new_words(tile: Sequence[int], jump: Vector, innermost: Vector | None) -> int:
    if not any(jump):
        return 0
    return fresh_words(tile, jump) if jump == innermost else math.prod(tile)


def delivered_words(tile: Sequence[int], moves: Iterable[Move], reuse: bool = True) -> int:
    """Words that one instance receives while the temporal loops above it run.

    Parameters
    ----------
    tile, moves, reuse
        As in `changes`.

    Returns
    -------
    int
        The first tile, and what every loop brings whenever it advances.
    """
    advances = changes(tile, moves, reuse)
    return math.prod(tile) + sum(change.repeats * change.words for change in advances)


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
    groups: list[tuple[set[int], list[Move]]] = []
    for move in moves:
        ranks = {rank for rank, step in enumerate(move[1]) if step}
        joined = [group for group in groups if group[0] & ranks]
        apart = [group for group in groups if not group[0] & ranks]
        members = [other for _, others in joined for other in others]
        groups = [*apart, (ranks.union(*(own for own, _ in joined)), [*members, move])]
    return [members for _, members in groups]


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
