"""A picture of a sweep: energy against cycles and against area, a row of panels per workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from solver.network.sweep import SweepPoint, SweepResult
from solver.report.figures import energy_unit
from solver.report.label_places import Box, Label, label_offsets
from solver.report.picture import blank_figure, save_figure, verbatim, write_numbers_out

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAR_APART = 10
"""Ratio of the largest to the least value from which an axis is logarithmic."""

MOST_LABELS = 40
"""Points of a panel up to which their labels can be read."""

CYCLES, AREA = "cycles", "area (mm2)"
LABEL_SIZE = 7
MARGIN = 0.08
COLOURS = 10
MARKERS = "os^vDP"
POINTS_PER_INCH = 72


@dataclass(frozen=True)
class _Style:
    """How a line is drawn in all panels."""

    colour: str
    marker: str

    @classmethod
    def of(cls, number: int) -> _Style:
        """Return the style of the line of this number, unlike those of the lines before."""
        return cls(f"C{number % COLOURS}", MARKERS[number // COLOURS % len(MARKERS)])


@dataclass(frozen=True)
class _Spot:
    """A point of the sweep with totals, on a line of points with a label each."""

    workload: str
    line: str
    label: str
    energy_pj: float
    cycles: int
    area_mm2: float | None
    is_on_front: bool


@dataclass(frozen=True)
class _Panel:
    """Axes with the points that are drawn in them, and their places; `across` is `CYCLES` or `AREA`."""

    axes: Axes
    across: str
    spots: Sequence[_Spot]
    places: Sequence[tuple[float, float]]

    @property
    def pairs(self) -> Iterator[tuple[_Spot, tuple[float, float]]]:
        """Each point with its place."""
        return zip(self.spots, self.places, strict=True)


def draw_sweep(result: SweepResult, path: Path) -> None:
    """Draw every point with totals; lines go through the values of the last attribute, in their order.

    Points of the front have a ring. The second panel of a row is there if all areas are known. Labels that
    would lie on others, or on other points, are left out.

    Parameters
    ----------
    result
        With totals of one point at the least.
    path
        What is written.

    Raises
    ------
    PlotError
        The file cannot be written.
    """
    spots = list(_spots(result))
    styles = {name: _Style.of(number) for number, name in enumerate(dict.fromkeys(s.line for s in spots))}
    has_areas = all(point.area_mm2 for point in result.points)
    figure, rows = blank_figure(max(1, len(result.workloads)), 2 if has_areas else 1)
    panels: list[_Panel] = []
    for workload, row in zip(result.workloads, rows, strict=True):
        of_workload = [spot for spot in spots if spot.workload == workload]
        size_pj, unit = energy_unit(min((spot.energy_pj for spot in of_workload), default=0))
        up = [spot.energy_pj / size_pj for spot in of_workload]
        panels.append(
            _Panel(
                row[0],
                CYCLES,
                of_workload,
                [(spot.cycles, y) for spot, y in zip(of_workload, up, strict=True)],
            )
        )
        if has_areas:
            across = [spot.area_mm2 or 0 for spot in of_workload]
            panels.append(_Panel(row[1], AREA, of_workload, list(zip(across, up, strict=True))))
        for axes in row:
            axes.set_ylabel(f"energy ({unit})")
            axes.set_title(verbatim(workload))
    for panel in panels:
        _draw_panel(panel, styles)
    _add_legend(figure, panels)
    figure.draw_without_rendering()  # only then it is known where points lie
    for panel in panels:
        _label_points(panel, styles)
    save_figure(figure, path)


def _spots(result: SweepResult) -> Iterator[_Spot]:
    """Yield the points that have totals."""
    front = result.front
    for place, point in enumerate(result.points):
        if point.costs is not None:
            names = point.variant.workload, *_texts(point)
            yield _Spot(*names, *point.costs, point.area_mm2, place in front)


def _draw_panel(panel: _Panel, styles: Mapping[str, _Style]) -> None:
    """Draw the lines of a panel, and the rings around points of the front."""
    axes = panel.axes
    for name in dict.fromkeys(spot.line for spot in panel.spots):
        places, style = [place for spot, place in panel.pairs if spot.line == name], styles[name]
        axes.plot(
            *_columns(places), marker=style.marker, color=style.colour, linewidth=0.8, label=verbatim(name)
        )
    rings = [place for spot, place in panel.pairs if spot.is_on_front]
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
    across, up = _columns(panel.places)
    axes.set_xscale(_scale(across))
    axes.set_yscale(_scale(up))
    write_numbers_out(axes, whole_across=panel.across == CYCLES)
    axes.set_xlabel(panel.across)
    axes.margins(MARGIN)
    axes.grid(visible=True, which="both", alpha=0.3)


def _add_legend(figure: Figure, panels: Sequence[_Panel]) -> None:
    """Add one legend for all panels beside them, where it covers no point."""
    known: dict[str, Artist] = {}
    for handles, names in (panel.axes.get_legend_handles_labels() for panel in panels):
        known |= dict(zip(names, handles, strict=True))
    figure.legend(known.values(), known.keys(), loc="outside right upper")


def _label_points(panel: _Panel, styles: Mapping[str, _Style]) -> None:
    """Label the points of a panel whose labels can be read, those of the front before the others."""
    if not 0 < len(panel.spots) <= MOST_LABELS:
        return
    axes, dots = panel.axes, panel.axes.figure.dpi / POINTS_PER_INCH
    different = {(place, spot.label): spot for spot, place in panel.pairs}
    ranked = sorted(different.items(), key=lambda item: not item[1].is_on_front)
    texts = [
        axes.annotate(
            verbatim(spot.label),
            place,
            xytext=(0, 0),
            textcoords="offset points",
            verticalalignment="bottom",
            fontsize=LABEL_SIZE,
            color=styles[spot.line].colour,
        )
        for (place, _), spot in ranked
    ]
    places = axes.transData.transform([place for (place, _), _ in ranked]) / dots
    sizes = [text.get_window_extent() for text in texts]
    labels = [
        Label(x, y, size.width / dots, size.height / dots)
        for (x, y), size in zip(places.tolist(), sizes, strict=True)
    ]
    frame = Box(*(edge / dots for edge in axes.bbox.extents))
    for text, offset in zip(texts, label_offsets(labels, frame), strict=True):
        if offset is None:
            text.remove()
            continue
        text.xyann = offset
        text.set_in_layout(False)


def _columns(places: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in places], [y for _, y in places]


def _scale(values: Sequence[float]) -> str:
    """Return a logarithmic scale for values that are far apart."""
    least, largest = min(values, default=0), max(values, default=0)
    return "log" if 0 < least * FAR_APART <= largest else "linear"


def _texts(point: SweepPoint) -> tuple[str, str]:
    """Return the name of the line that a point is on, and its label: the value of the last attribute."""
    architecture, settings = point.variant.architecture, point.variant.settings
    if not settings:
        return architecture, architecture
    others = (f"{name} {value}" for name, value in settings[:-1])
    return ", ".join((architecture, *others)), settings[-1][1]
