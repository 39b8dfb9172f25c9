"""A picture of a sweep: energy against cycles and against area, a row of panels per workload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from solver.network.sweep import SweepPoint, SweepResult
from solver.report.picture import blank_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Coordinate = Callable[[SweepPoint], float | None]

MOST_LABELS = 40
"""Points of a panel up to which their labels can be read."""


def draw_sweep(result: SweepResult, path: Path) -> None:
    """Draw every point with totals; lines go through the values of one architecture, in their order.

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
            axes.set_title(workload)
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
        place = _place(point, coordinate)
        series.setdefault(point.variant.architecture, []).append(place)
        if is_on_front:
            rings.append(place)
        if len(own) <= MOST_LABELS:
            axes.annotate(_label(point), place, textcoords="offset points", xytext=(4, 4), fontsize=7)
    for architecture, places in series.items():
        axes.plot(*_columns(places), marker="o", linewidth=0.8, label=architecture)
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
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(visible=True, which="both", alpha=0.3)
    if series:
        axes.legend()


def _place(point: SweepPoint, coordinate: Coordinate) -> tuple[float, float]:
    across = coordinate(point)
    assert across is not None
    assert point.costs is not None  # only such points are drawn
    return across, point.costs[0]


def _columns(places: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in places], [y for _, y in places]


def _label(point: SweepPoint) -> str:
    """Return the values of the attributes, or the architecture where none is set."""
    return ", ".join(value for _, value in point.variant.settings) or point.variant.architecture


def _cycles(point: SweepPoint) -> float | None:
    return None if point.costs is None else point.costs[1]


def _area(point: SweepPoint) -> float | None:
    return point.area_mm2
