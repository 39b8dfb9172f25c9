"""Checks that what a spec describes is not too large to be dealt with."""

from __future__ import annotations

import math
from collections.abc import Sequence

from model.cost.tiles import tile_words
from model.problem import Problem
from model.text.limits import Limits
from model.text.source import Span, SpecError


def check_count(items: Sequence[object], most: int, what: str, span: Span) -> None:
    """Check that there are not too many of something.

    Parameters
    ----------
    items
        All of them.
    most
        How many may be there.
    what
        Names them in the plural.
    span
        Where they are given.

    Raises
    ------
    SpecError
        There are more.
    """
    if len(items) > most:
        raise SpecError(f"{len(items)} {what}; at most {most} are read", span)


def check_points(count: int, limits: Limits, what: str, span: Span) -> None:
    """Check that a number of computes, words or instances is not beyond all plausibility.

    Parameters
    ----------
    count
        At least 0.
    limits
        `Limits.points` counts.
    what
        The message's beginning, such as ``the computes are``.
    span
        Where the number comes from.

    Raises
    ------
    SpecError
        It is greater than the limit.
    """
    if count > limits.points:
        message = f"{what} about 1e{math.floor(math.log10(count))}; at most {float(limits.points):g} are read"
        raise SpecError(message, span)


def check_problem(problem: Problem, limits: Limits, span: Span) -> None:
    """Check that the computes and words of an Einsum are not beyond all plausibility.

    Parameters
    ----------
    problem
        The Einsum with its bounds.
    limits
        `Limits.points` counts.
    span
        Where the bounds are given.

    Raises
    ------
    SpecError
        They are.
    """
    check_points(problem.computes, limits, "the computes are", span)
    for space in problem.dataspaces:
        check_points(tile_words(space, problem.bound), limits, f"the words of `{space.name}` are", span)
