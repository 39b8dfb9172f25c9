"""Words delivered into a level over time, and distinct words among the children of a fanout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

from model.cost.tiles import Vector, fresh_words

Move = tuple[int, Vector]
"""A loop as a dataspace sees it: its bound, and the displacement of the tile per iteration."""


def delivered_words(tile: Sequence[int], moves: Iterable[Move]) -> int:
    """Words that one instance receives while the temporal loops above it run.

    Every loop is looked at between its first two iterations, and the words that are new in the
    second one count for all further ones. The innermost loop that moves the tile keeps what
    overlaps with the tile before. A loop farther out is compared with the last position, all inner
    loops being in their second iteration: it brings nothing if the tile comes to lie where it was,
    keeps the overlap if it continues the innermost movement, and brings the whole tile otherwise.

    Parameters
    ----------
    tile
        Extent per rank of the tile that the instance holds.
    moves
        The temporal loops above the instance, innermost first.

    Returns
    -------
    int
        Words per instance, the first tile included.
    """
    loops = [(bound, move) for bound, move in moves if bound > 1]
    words = math.prod(tile)
    repeats = math.prod(bound for bound, _ in loops)
    total = words
    innermost: Vector | None = None
    position: Vector = (0,) * len(tile)
    for bound, move in loops:
        outer_repeats = repeats // bound
        if innermost is None and any(move):
            innermost = move
            change = fresh_words(tile, move)
        elif innermost is None:
            change = 0
        else:
            change = _reentry(tile, move, position, innermost)
        total += (repeats - outer_repeats) * change
        position = tuple(map(sum, zip(position, move, strict=True)))
        repeats = outer_repeats
    return total


def _reentry(tile: Sequence[int], move: Vector, position: Vector, innermost: Vector) -> int:
    """Words that a loop outside the innermost moving one brings per iteration."""
    jump = tuple(step - last for step, last in zip(move, position, strict=True))
    if not any(jump):
        return 0
    return fresh_words(tile, innermost) if jump == innermost else math.prod(tile)


def distinct_offsets(moves: Iterable[Move]) -> int:
    """Number of different tile positions among the children that spatial loops span.

    Children at one position receive the same words, so one access serves them all; children
    whose tiles only overlap share nothing.
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
        members = [move]
        apart = []
        for other_ranks, others in groups:
            if other_ranks & ranks:
                ranks |= other_ranks
                members = others + members
            else:
                apart.append((other_ranks, others))
        groups = [*apart, (ranks, members)]
    return [members for _, members in groups]


def _distinct_in_group(group: list[Move]) -> int:
    if len(group) == 1:
        return group[0][0]
    if len(group) == 2 and all(sum(step != 0 for step in move) == 1 for _, move in group):
        (bound_a, move_a), (bound_b, move_b) = group
        return distinct_sums(bound_a, sum(move_a), bound_b, sum(move_b))
    offsets: set[Vector] = {(0,) * len(group[0][1])}
    for bound, move in group:
        offsets = {
            tuple(o + index * m for o, m in zip(offset, move, strict=True))
            for offset in offsets
            for index in range(bound)
        }
    return len(offsets)


def distinct_sums(bound_a: int, step_a: int, bound_b: int, step_b: int) -> int:
    """Number of different values ``i * step_a + j * step_b``, ``i < bound_a`` and ``j < bound_b``.

    Two pairs agree when they differ by multiples of ``(step_b, -step_a) / gcd``; each pair that
    has such a successor within the bounds repeats a value.
    """
    divisor = math.gcd(step_a, step_b)
    shift_a, shift_b = abs(step_b) // divisor, abs(step_a) // divisor
    return bound_a * bound_b - max(0, bound_a - shift_a) * max(0, bound_b - shift_b)
