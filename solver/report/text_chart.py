"""Staircases on logarithmic axes for a terminal: braille for one, letters for several."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

ROWS = 14
DOT_ROWS, DOT_COLUMNS = 4, 2
"""Dots of a braille cell."""

BRAILLE = 0x2800
BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Of a cell, by column and row from the top."""

TICK_GAP = 3
"""Blanks between the texts below the chart, at least."""


@dataclass(frozen=True)
class Stairs:
    """Figures that hold from a place on, both above 0; places rise."""

    places: Sequence[float]
    figures: Sequence[float]

    def at(self, place: float) -> float | None:
        """Return the figure at a place; None before the first one."""
        number = bisect_right(self.places, place)
        return self.figures[number - 1] if number else None


def chart_lines(
    curves: Sequence[Stairs], ends: tuple[float, float], text: Callable[[float], str], width: int
) -> list[str]:
    """Return staircases between two ends of the horizontal axis, with texts of both axes.

    Parameters
    ----------
    curves
        One is drawn in braille; several with a letter each, in their order.
    text
        Writes a figure of an axis.
    width
        Characters of the lines.
    """
    least, most = ends
    figures = [own for curve in curves for own in _figures_between(curve, ends)]
    if not figures or most <= least:
        return []
    low, high = min(figures), max(figures)
    names = [text(high), text(math.sqrt(low * high)), text(low)]
    margin = max(map(len, names))
    columns = max(10, width - margin - 2)
    fine = (DOT_COLUMNS, DOT_ROWS) if len(curves) == 1 else (1, 1)
    canvas = _Canvas(columns, fine, (low, high), ends)
    cells = canvas.cells(curves)
    labels = {0: names[0], ROWS // 2: names[1], ROWS - 1: names[2]} if low < high else {ROWS // 2: names[1]}
    drawn = ["".join(row.get(column, " ") for column in range(columns)) for row in cells]
    lines = [f"{labels.get(row, ''):>{margin}} |{line}" for row, line in enumerate(drawn)]
    return [*lines, f"{'':>{margin}} +{'-' * columns}", f"{'':>{margin}}  {_ticks(ends, text, columns)}"]


def _figures_between(curve: Stairs, ends: tuple[float, float]) -> Iterator[float]:
    """Yield the figures that a staircase has between the ends."""
    if (first := curve.at(ends[0])) is not None:
        yield first
    for place, figure in zip(curve.places, curve.figures, strict=True):
        if ends[0] < place <= ends[1]:
            yield figure


@dataclass(frozen=True)
class _Canvas:
    """Cells of a chart, each of so many dots across and up; the ranges of figures and places."""

    columns: int
    fine: tuple[int, int]
    figures: tuple[float, float]
    places: tuple[float, float]

    def cells(self, curves: Sequence[Stairs]) -> list[dict[int, str]]:
        """Return what stands in each row, by column."""
        rows: list[dict[int, str]] = [{} for _ in range(ROWS)]
        for curve, letter in zip(curves, _letters(len(curves)), strict=True):
            for x, y in self._dots(curve):
                column, row = x // self.fine[0], y // self.fine[1]
                before = rows[row].get(column, chr(BRAILLE))
                rows[row][column] = letter if self.fine == (1, 1) else _with_dot(before, x, y)
        return rows

    def _dots(self, curve: Stairs) -> Iterator[tuple[int, int]]:
        """Yield the dots of a staircase, from the top left; steps are vertical lines."""
        across, up = self.columns * self.fine[0], ROWS * self.fine[1]
        before: int | None = None
        for x in range(across):
            figure = curve.at(_interpolated(self.places, x / max(1, across - 1)))
            if figure is None:
                continue
            y = round((up - 1) * (1 - _share_between(self.figures, figure)))
            for every in range(min(y, before if before is not None else y), y + 1):
                yield x, every
            before = y


def _with_dot(cell: str, x: int, y: int) -> str:
    """Return a braille cell with one more dot."""
    return chr(ord(cell) | BITS[x % DOT_COLUMNS][y % DOT_ROWS])


def _letters(number: int) -> Iterator[str]:
    return (ascii_lowercase[place % len(ascii_lowercase)] for place in range(number))


def _share_between(ends: tuple[float, float], figure: float) -> float:
    """Where a figure lies between two ends, from 0 to 1."""
    low, high = map(math.log, ends)
    return 0.5 if high == low else (math.log(figure) - low) / (high - low)


def _interpolated(ends: tuple[float, float], share: float) -> float:
    """Return what lies so far between two ends, and these exactly."""
    if share >= 1:
        return ends[1]
    return ends[0] * math.exp(share * math.log(ends[1] / ends[0]))


def _ticks(ends: tuple[float, float], text: Callable[[float], str], columns: int) -> str:
    """Return the texts of powers of two where they stand."""
    line = ""
    for power in range(math.ceil(math.log2(ends[0])), math.floor(math.log2(ends[1])) + 1):
        place = round((columns - 1) * _share_between(ends, 2.0**power))
        name = text(2.0**power)
        start = max(0, place - len(name) // 2)
        if (line and start < len(line) + TICK_GAP) or start + len(name) > columns:
            continue
        line = line.ljust(start) + name
    return line
