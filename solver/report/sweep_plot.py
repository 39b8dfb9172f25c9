"""A picture of a sweep: energy against cycles and against area, a row of panels per workload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from solver.network.sweep import SweepPoint, SweepResult
from solver.report.picture import blank_figure, save_figure, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Coordinate = Callable[[SweepPoint], float | None]

FAR_APART = 10
"""Ratio of the largest to the least value from which an axis is logarithmic."""

MOST_LABELS = 40
"""Points of a panel up to which their labels can be read."""


def draw_sweep(result: SweepResult, path: Path) -> None:
    """Draw every point with totals; lines go through the values of the last attribute, in their order.

    Points of the front have a ring. The second panel of a row is there if all areas are known.

    Raises
    ------
    PlotError
        The file cannot be written.
    """
    panels: list[tuple[str, Coordinate]] = [("cycles", _cycles)]
    if all(point.area_mm2 for point in result.points):
        panels.append(("area (mm2)", _area))
    workloads = result.workloads
    figure, rows = blank_figure(max(1, len(workloads)), len(panels))
    for workload, row in zip(workloads, rows, strict=True):
        for (label, coordinate), axes in zip(panels, row, strict=True):
            _draw_panel(axes, result, workload, coordinate)
            axes.set_xlabel(label)
            axes.set_ylabel("energy (pJ)")
            axes.set_title(verbatim(workload))
    save_figure(figure, path)


def _draw_panel(axes: Axes, result: SweepResult, workload: str, coordinate: Coordinate) -> None:
    """Draw the points of one workload."""
    front = result.front
    own = [
        (point, place in front)
        for place, point in enumerate(result.points)
        if point.variant.workload == workload and point.costs is not None
    ]
    series: dict[str, list[tuple[float, float]]] = {}
    rings: list[tuple[float, float]] = []
    for point, is_on_front in own:
        place, (name, label) = _place(point, coordinate), _texts(point)
        series.setdefault(name, []).append(place)
        if is_on_front:
            rings.append(place)
        if len(own) <= MOST_LABELS:
            axes.annotate(verbatim(label), place, textcoords="offset points", xytext=(4, 4), fontsize=7)
    for name, places in series.items():
        axes.plot(*_columns(places), marker="o", linewidth=0.8, label=verbatim(name))
    if rings:
        axes.plot(
            *_columns(rings),
            marker="o",
            markersize=11,
            markerfacecolor="none",
            color="black",
            linestyle="",
            label="front in energy and cycles",
        )
    across, up = _columns([place for places in series.values() for place in places])
    axes.set_xscale(_scale(across))
    axes.set_yscale(_scale(up))
    axes.grid(visible=True, which="both", alpha=0.3)
    if series:
        axes.legend()


def _scale(values: Sequence[float]) -> str:
    """Return a logarithmic scale for values that are far apart."""
    least, largest = min(values, default=0), max(values, default=0)
    return "log" if 0 < least * FAR_APART <= largest else "linear"


def _place(point: SweepPoint, coordinate: Coordinate) -> tuple[float, float]:
    across = coordinate(point)
    assert across is not None
    assert point.costs is not None  # only such points are drawn
    return across, point.costs[0]


def _columns(places: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in places], [y for _, y in places]


def _texts(point: SweepPoint) -> tuple[str, str]:
    """Return the name of the line that a point is on, and its label: the value of the last attribute."""
    architecture, settings = point.variant.architecture, point.variant.settings
    if not settings:
        return architecture, architecture
    others = (f"{name} {value}" for name, value in settings[:-1])
    return ", ".join((architecture, *others)), settings[-1][1]


def _cycles(point: SweepPoint) -> float | None:
    return None if point.costs is None else point.costs[1]


def _area(point: SweepPoint) -> float | None:
    return point.area_mm2
