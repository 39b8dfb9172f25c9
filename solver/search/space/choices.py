"""Temporal factors of one dimension at all levels, and what a mapping's cost depends on in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

TemporalFactors = tuple[int, ...]
"""Temporal factors of one dimension by level, outermost first."""


class FactorChoice(NamedTuple):
    """Factors of a dimension, and what mappings depend on, the extents of the tiles of all levels among it.

    Parameters
    ----------
    counts
        Per level, iterations that the arithmetic asks it for; of the outermost level, steps in time.
    extents
        Of the tile at each level.
    """

    factors: TemporalFactors
    counts: tuple[int, ...]
    extents: tuple[int, ...]


def choice_of(bound: int, temporal: TemporalFactors, spatial: Sequence[int]) -> FactorChoice:
    """Return what factors of a dimension come to; the spatial ones are those of its stages."""
    extents, extent = [], 1
    for factor, unrolled in zip(reversed(temporal), reversed(spatial), strict=True):
        extent = min(extent * unrolled * factor, bound)
        extents.append(extent)
    counts = (_asked_iterations(bound, temporal, spatial, level) for level in range(len(spatial)))
    return FactorChoice(temporal, tuple(counts), tuple(reversed(extents)))


def is_no_larger(one: FactorChoice, other: FactorChoice) -> bool:
    """Whether one choice has no larger extents and counts than another."""
    pairs = zip((*one.extents, *one.counts), (*other.extents, *other.counts), strict=True)
    return all(a <= b for a, b in pairs)


def fewest_counts(bound: int, spatial: Sequence[int]) -> tuple[int, ...]:
    """Return the counts of a choice if all children always had something to do."""
    every = math.prod(spatial)
    outside = (every // math.prod(spatial[:level]) for level in range(len(spatial)))
    return tuple(-(-bound // unrolled) for unrolled in outside)


def _asked_iterations(bound: int, temporal: Sequence[int], spatial: Sequence[int], level: int) -> int:
    """Iterations of a dimension that differ by more than what children inside of a level share.

    Levels are outermost first. With level 0 these are its steps in time.
    """
    loops = [
        loop
        for own in reversed(range(len(spatial)))
        for loop in ((spatial[own], own < level), (temporal[own], True))
    ]
    return _digit_combinations(loops, bound)


def _digit_combinations(loops: Sequence[tuple[int, bool]], number: int) -> int:
    """How many combinations of the digits that count the first so many iterations of loops have.

    Loops are given innermost first, with whether their digits count.
    """
    if not loops:
        return 1
    *inner, (_, counts) = loops
    size = math.prod(factor for factor, _ in inner)
    rounds = -(-number // size)
    last = _digit_combinations(inner, number - (rounds - 1) * size)
    if rounds == 1:
        return last
    full = math.prod(factor for factor, own in inner if own)
    return (rounds - 1) * full + last if counts else full
