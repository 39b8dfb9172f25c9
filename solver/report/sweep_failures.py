"""Why points of a sweep have no mapping, each conflict once however many points have it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from model.sweep import Variant
from model.text.source import Places
from model.wording import listing
from solver.network.sweep import SweepPoint, SweepResult
from solver.report.failures import (
    MOST_CONFLICTS,
    Failure,
    failure_lines,
    failures,
    likewise_lines,
    lines_of,
    more_line,
)

MOST_POINTS = 3
"""Points that are named where they have no values in common."""

MOST_VALUES = 8
"""Values of an attribute that are named."""


PlacesOf = Callable[[Variant], Places]
"""Finds the text that a variant was read from."""


@dataclass(frozen=True)
class _Shared:
    """A failure and the points that have it."""

    failure: Failure
    points: tuple[SweepPoint, ...]


def why_lines(result: SweepResult, places: PlacesOf) -> Iterator[str]:
    """Yield why points have no mapping.

    Equal failures of several points are told once. Of those that the same lines lead to, with other
    values of an attribute or in other Einsums, the first is shown with the lines, the others without.
    """
    kinds = _kinds(result)
    labels = _Labels(result)
    for first, *others in kinds[:MOST_CONFLICTS]:
        yield f"No mapping of {listing(first.failure.names)}{labels.at(first.points)}"
        yield from failure_lines(first.failure, places(first.points[0].variant))
        yield from likewise_lines([(shared.failure, labels.at(shared.points)) for shared in others])
    yield from more_line(len(kinds))


def _kinds(result: SweepResult) -> list[list[_Shared]]:
    """Return the failures of all points: equal ones once, those that the same lines lead to together."""
    points: dict[Failure, list[SweepPoint]] = {}
    for point in result.points:
        for failure in failures(point.result):
            points.setdefault(failure, []).append(point)
    kinds: dict[Hashable, list[_Shared]] = {}
    for failure, places in points.items():
        kinds.setdefault(lines_of(failure), []).append(_Shared(failure, tuple(places)))
    return list(kinds.values())


class _Labels:
    """Names points of a sweep by what tells them from all others."""

    def __init__(self, result: SweepResult) -> None:
        self._prefixes = ("", "", *(f"{name}=" for name in result.attributes))
        self._values = _values(result.points)

    def at(self, points: Sequence[SweepPoint]) -> str:
        """Return where `points` are; nothing if they are all of the sweep."""
        values = _values(points)
        if math.prod(map(len, values)) == len(points):
            named = self._range(values)
            return f" at {named}" if named else ""
        named = "; ".join(self._range(_values([point])) for point in points[:MOST_POINTS])
        more = len(points) - MOST_POINTS
        return f" at {named} and {more} more" if more > 0 else f" at {named}"

    def _range(self, point_values: Sequence[Sequence[str]]) -> str:
        """Name all points with these values of workload, architecture and attributes."""
        return ", ".join(
            f"{prefix}{','.join(values[:MOST_VALUES])}{',...' if len(values) > MOST_VALUES else ''}"
            for prefix, values, every in zip(self._prefixes, point_values, self._values, strict=True)
            if len(values) < len(every)
        )


def _values(points: Sequence[SweepPoint]) -> list[tuple[str, ...]]:
    """Return the workloads, the architectures, and the values of each attribute that `points` have."""
    variants = [point.variant for point in points]
    rows = (
        (variant.workload, variant.architecture, *(value for _, value in variant.settings))
        for variant in variants
    )
    return [tuple(dict.fromkeys(column)) for column in zip(*rows, strict=True)]
