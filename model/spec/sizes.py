"""Whether what a spec describes is of a size that can be dealt with."""

from __future__ import annotations

import math
from collections.abc import Sequence

from model.cost.tiles import tile_words
from model.problem import Problem
from model.spec.limits import Limits
from model.spec.source import Span, SpecError


def check_count(items: Sequence[object], most: int, what: str, span: Span) -> None:
    """Raise a SpecError for more than `most` items; `what` names them in the plural."""
    if len(items) > most:
        raise SpecError(f"{len(items)} {what}; at most {most} are read", span)


def check_points(count: int, limits: Limits, what: str, span: Span) -> None:
    """Raise a SpecError for a number of computes, words or instances beyond all plausibility."""
    if count > limits.points:
        message = f"{what} about 1e{math.floor(math.log10(count))}; at most {float(limits.points):g} are read"
        raise SpecError(message, span)


def check_problem(problem: Problem, limits: Limits, span: Span) -> None:
    """Raise a SpecError for an Einsum whose computes or words are beyond all plausibility.

    Parameters
    ----------
    problem
        The Einsum with its bounds.
    limits
        `Limits.points` counts.
    span
        Where the bounds are given.
    """
    check_points(problem.computes, limits, "the computes are", span)
    for space in problem.dataspaces:
        check_points(tile_words(space, problem.bound), limits, f"the words of `{space.name}` are", span)
