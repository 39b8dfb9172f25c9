"""Windows: ranks of two dimensions, along which neighbouring tiles overlap, and what they bring at least.

docs/formulation.md ("Windows") derives all of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from model.counting.words import covered_words
from model.problem import Dataspace, Term
from solver.formulation.program import Number

WHOLE, BACK, ACROSS = "whole", "back", "across"
"""How the reuse along a window is repeated, see `View.sweep`."""


@dataclass(frozen=True)
class WindowLoops:
    """Loops over one dimension of a window: the tile's extent, and iterations of the loops outside.

    Parameters
    ----------
    extent
        Of the tile.
    reused, shared, above, outside
        Iterations of the loops that leave a part in place, of the fanouts whose children share words, of
        the fanouts above (1 if these count with the others), and of all that are outside.
    """

    extent: int
    reused: int
    shared: int
    above: int
    outside: int


@dataclass(frozen=True)
class WindowSteps:
    """Tiles along a window: how many different ones children and loops outside reach, and words of each.

    Of these at least some are new after a step; None if no loop moves the tiles.
    """

    places: int
    words: int
    fresh: int | None


def steps_of(
    coefficients: Sequence[int], splits: Sequence[tuple[int, ...]], bounds: Sequence[int]
) -> WindowSteps:
    """Tiles of two dimensions, given extents, and numbers of children that share reads.

    Where both dimensions move them, tiles may meet, and are apart by the steps' greatest divisor at least.
    """
    extents, children = zip(*splits, strict=True)
    words = 1 + sum(own * (extent - 1) for own, extent in zip(coefficients, extents, strict=True))
    apart = [own * extent for own, extent in zip(coefficients, extents, strict=True)]
    steps = [own * number for own, number in zip(apart, children, strict=True)]
    turns = [bound // (split[0] * split[1]) for bound, split in zip(bounds, splits, strict=True)]
    moved = [step for step, number in zip(steps, turns, strict=True) if number > 1]
    fresh = min(words, math.gcd(*moved)) if moved else None
    return WindowSteps(_sums(apart, children) * _sums(steps, turns), words, fresh)


def _sums(steps: Sequence[int], numbers: Sequence[int]) -> int:
    """How many different sums multiples of two steps have, each below so many times."""
    return covered_words((1,), [(number, (step,)) for step, number in zip(steps, numbers, strict=True)])


def fewest_in_steps(along: Sequence[WindowSteps]) -> int:
    """Words that tiles bring if each moves along one window only, by a step."""
    box, places = math.prod(own.words for own in along), math.prod(own.places for own in along)
    least = min((box // own.words * own.fresh for own in along if own.fresh is not None), default=box)
    return places * least


def distinct_words(part: Dataspace, bound: Mapping[str, int]) -> int:
    """Words along some ranks that there are."""
    moves = [(bound[dim], tuple(coefficient_of(rank, dim) for rank in part.ranks)) for dim in part.dims]
    return covered_words((1,) * len(part.ranks), moves)


def window_words(
    coefficients: Sequence[int], one: WindowLoops, other: WindowLoops, sweep: str, each: bool, distinct: int
) -> Number:
    """Words along a window that are delivered, at least; docs/formulation.md, "Windows".

    Those of whole sweeps are at least the `distinct` ones. Others are rounded down, so that there are few.
    """
    extents, reused = (one.extent, other.extent), (one.reused, other.reused)
    apart = [own * extent for own, extent in zip(coefficients, extents, strict=True)]
    children = _sums(apart, (one.shared, other.shared))
    outside = one.outside * other.outside
    is_whole = sweep == WHOLE or one.reused == other.reused == 1 or (sweep == ACROSS and outside == 1)
    sweep = WHOLE if is_whole else sweep
    words = covered_window(coefficients, extents, reused, sweep) * children * outside
    least = max(words, distinct) if is_whole else _coarse(words)
    return Fraction(least, one.above * other.above) if each else least


def _coarse(number: int) -> int:
    """Round a number, at least 1, down to one of a few, by a fifth at most."""
    found = following = 1
    while following <= number:
        found, following = following, max(following + 1, following * 5 // 4)
    return found


def covered_window(
    coefficients: Sequence[int], extents: Sequence[int], reused: Sequence[int], sweep: str = WHOLE
) -> int:
    """Words along a rank of two dimensions that one sweep of the reused loops brings, at least.

    Tiles that only one of the dimensions moves overlap by what the window has beyond their distance. Sums of
    two sets of numbers have at least as many elements as both sets together, less one.

    Parameters
    ----------
    coefficients, extents, reused
        Of both dimensions: positive coefficients, the tile's extents, iterations of the reused loops.
    sweep
        Out of `WHOLE`, `BACK` and `ACROSS`: what is left of a tile from one sweep to the next.
    """
    widths = [own * (extent - 1) + 1 for own, extent in zip(coefficients, extents, strict=True)]
    steps = [own * extent for own, extent in zip(coefficients, extents, strict=True)]
    tile = sum(widths) - 1
    alone = (tile + (turns - 1) * min(tile, step) for turns, step in zip(reused, steps, strict=True))
    words = max(*alone, sum(turns * width for turns, width in zip(reused, widths, strict=True)) - 1)
    moved = [step for turns, step in zip(reused, steps, strict=True) if turns > 1]
    if not moved or sweep == WHOLE:
        return words
    return words - tile + (min(tile, *moved) if sweep == BACK else 0)


def coefficient_of(rank: Sequence[Term], dim: str) -> int:
    """What an iteration of a dimension moves along a rank."""
    return sum(term.coefficient for term in rank if term.dim == dim)
