"""Pictures, drawn by matplotlib (the extra ``plot``): fronts, comparisons over time, and sweeps."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from model.objective import UNITS, in_reported_unit
from model.wording import printable
from solver.report.figures import energy_unit
from solver.result import Status
from solver.saving import save

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

    from solver.comparison import Comparison, Point
    from solver.network.sweep import SweepPoint, SweepResult
    from solver.pareto import Front

FORMATS = (".png", ".svg", ".pdf")
PAINTED = (".png", ".pdf")
"""Formats in which matplotlib draws what this program writes as SVG itself."""

SIZE_INCHES = (8.0, 5.0)
DOTS_PER_INCH = 150

MOST_STEPS = 4
"""Steps between the ticks of an axis, which leave room for long cycle counts."""

TICK_GAP = 3
"""Least distance between the labels of two ticks, in dots."""

FAR_APART = 10
"""Ratio of the largest to the least value from which an axis of a sweep is logarithmic."""

MOST_LABELS = 40
"""Points of a panel up to which they are labelled."""

CYCLES, AREA = "cycles", "area (mm2)"
LABEL_SIZE = 7
LABEL_DISTANCE = 5
CORNERS = ((1, 1), (-1, 1), (1, -1), (-1, -1))
MARKER_POINTS = 8
MARGIN = 0.08
COLOURS = 10
MARKERS = "os^vDP"
POINTS_PER_INCH = 72


class PlotError(Exception):
    """A picture cannot be drawn; the message says why."""


def check_plot(path: Path | None, by_matplotlib: Sequence[str] = FORMATS) -> None:
    """Check before a long search whether a picture, if one is asked for, can be drawn; `PlotError` if not.

    `by_matplotlib` has the formats that need matplotlib.
    """
    if path is None:
        return
    if path == Path("-"):
        raise PlotError("a picture is not written to stdout")
    if path.suffix.lower() not in FORMATS:
        raise PlotError(f"{path}: the name of a picture must end in {', '.join(FORMATS)}")
    if path.suffix.lower() not in by_matplotlib:
        return
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        needs = f"--plot needs matplotlib for {', '.join(by_matplotlib)}"
        raise PlotError(f"{needs}: pip install 'tilewright[plot]'") from None


def blank_figure(rows: int = 1, columns: int = 1) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure and its panels, row by row, each of the usual size."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    wide, high = SIZE_INCHES
    figure = Figure(figsize=(wide * columns, high * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False).tolist()


def verbatim(name: str) -> str:
    """Return a user's name for a picture, in which a pair of dollar signs would begin a formula."""
    return printable(name).replace("$", r"\$")


def write_numbers_out(axes: Axes, whole_across: bool = True) -> None:
    """Label the ticks of linear axes as tables do: counts with commas, figures without powers or offsets."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter, StrMethodFormatter

    linear = [axis for axis in (axes.xaxis, axes.yaxis) if axis.get_scale() == "linear"]
    for axis in linear:
        plain = ScalarFormatter(useOffset=False)
        plain.set_scientific(False)
        axis.set_major_formatter(plain)
    if axes.xaxis in linear and whole_across:
        axes.xaxis.set_major_locator(MaxNLocator(MOST_STEPS, integer=True))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def save_figure(figure: Figure, path: Path, dots_per_inch: int = DOTS_PER_INCH) -> None:
    """Write a figure; `PlotError` if that fails."""
    drawn = BytesIO()
    with warnings.catch_warnings():
        # Characters that the font lacks are drawn as boxes; the warning would show lines of this program.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure.draw_without_rendering()  # only then are the places of labels known
        for axes in figure.axes:
            _thin_out(axes.xaxis)
            _thin_out(axes.yaxis)
        figure.savefig(drawn, format=path.suffix[1:].lower(), dpi=dots_per_inch)
    try:
        save(path, drawn.getvalue())
    except OSError as error:
        raise PlotError(f"cannot write {path}: {error.strerror}") from error


def _thin_out(axis: Axis) -> None:
    """Leave out the labels of ticks that would overlap others; major ones come first."""
    taken: list[Bbox] = []
    for label in (*axis.get_majorticklabels(), *axis.get_minorticklabels()):
        box = label.get_window_extent().padded(TICK_GAP)
        if label.get_text() and any(box.overlaps(other) for other in taken):
            label.set_visible(False)
        elif label.get_text():
            taken.append(box)


def draw_front(front: Front, title: str, path: Path) -> None:
    """Draw energy against cycles; below and left of the staircase of a complete front there is no mapping."""
    from solver.report.front import LEAST_EDP, NOT_PROVEN, PROVEN, least_edp

    figure, ((axes,),) = blank_figure()
    size_pj, unit = energy_unit(front.points[-1].evaluation.energy_pj)
    places = [(point.evaluation.cycles, point.evaluation.energy_pj / size_pj) for point in front.points]
    for proven, label, face in ((True, PROVEN, "tab:blue"), (False, NOT_PROVEN, "none")):
        of_kind = [place for place, point in zip(places, front.points, strict=True) if point.proven == proven]
        if of_kind:
            axes.plot(*_columns(of_kind), "o", color="tab:blue", markerfacecolor=face, label=label, zorder=4)
    best = least_edp(front)
    if best is not None:
        place = places[front.points.index(best)]
        axes.plot(*place, "*", color="tab:orange", markersize=18, label=LEAST_EDP)
    _draw_staircase(axes, front, places)
    axes.set_xlabel("latency (cycles)")
    axes.set_ylabel(f"energy ({unit})")
    axes.set_title(f"Energy-latency front of {verbatim(title)}")
    write_numbers_out(axes)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    save_figure(figure, path)


def _draw_staircase(axes: Axes, front: Front, places: Sequence[tuple[float, float]]) -> None:
    """Draw the border of what the points dominate, and shade where points may be missing."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    across = [places[0][0], *(cycles for cycles, _ in places), right]
    up = [top, *(energy for _, energy in places), places[-1][1]]
    axes.step(across, up, where="post", color="0.5", linewidth=1.0, zorder=1)
    if front.status is Status.OPTIMAL:
        bounds = ([left, *across], [top, *up])
        axes.fill_between(*bounds, bottom, step="post", color="0.93", label="no mapping", zorder=0)
    for number, open_range in enumerate(front.open_ranges):
        most = right if open_range.most_cycles is None else open_range.most_cycles
        label = "open" if number == 0 else None
        axes.axvspan(open_range.least_cycles, most, color="tab:red", alpha=0.1, label=label)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)


def draw_convergence(comparison: Comparison, path: Path) -> None:
    """Draw the best value so far of every mapper against time, both on logarithmic axes."""
    from solver.report.comparison import EXACT

    result = comparison.result
    figure, [[axes]] = blank_figure()
    runs = [(EXACT, comparison.trace, result.statistics.seconds)]
    runs += [(outcome.mapper, outcome.trace, outcome.seconds) for outcome in comparison.outcomes]
    for name, trace, seconds in runs:
        if not trace:
            continue
        times, values = _steps(comparison, trace, seconds)
        width = 2.0 if name == EXACT else 1.2
        label, size = verbatim(name), 2 * width
        axes.step(times, values, where="post", label=label, linewidth=width, marker="o", markersize=size)
    if comparison.reference:
        label = "optimum" if comparison.proven else "bound"
        height = in_reported_unit(result.objective, comparison.reference, result.units_per_pj)
        axes.axhline(height, color="black", linestyle="--", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("seconds")
    axes.set_ylabel(f"{result.objective} ({UNITS[result.objective]})")
    axes.set_title(verbatim(comparison.case))
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    save_figure(figure, path)


def _steps(comparison: Comparison, trace: Sequence[Point], seconds: float) -> tuple[list[float], list[float]]:
    """Return times and values of a staircase that extends to the end of the run."""
    result = comparison.result
    times = [point.seconds for point in trace]
    values = [float(in_reported_unit(result.objective, point.value, result.units_per_pj)) for point in trace]
    return [*times, max(seconds, times[-1])], [*values, values[-1]]


@dataclass(frozen=True)
class _Spot:
    """A point of a sweep with totals, on a line of points with a label each."""

    workload: str
    line: str
    label: str
    energy_pj: float
    cycles: int
    area_mm2: float | None
    is_on_front: bool


@dataclass(frozen=True)
class _Panel:
    """Axes with the points in them, and their places; `across` is `CYCLES` or `AREA`."""

    axes: Axes
    across: str
    spots: Sequence[_Spot]
    places: Sequence[tuple[float, float]]

    @property
    def pairs(self) -> Iterator[tuple[_Spot, tuple[float, float]]]:
        """Each point with its place."""
        return zip(self.spots, self.places, strict=True)


def draw_sweep(result: SweepResult, path: Path) -> None:
    """Draw every point with totals: energy against cycles and (if known) area, a row of panels per workload.

    Lines join the values of the last attribute, in their order; the legend names it, and its values label
    the points, where there is room. Points of the front have a ring.
    """
    spots = list(_spots(result))
    styles = {name: _style(number) for number, name in enumerate(dict.fromkeys(s.line for s in spots))}
    has_areas = all(point.area_mm2 for point in result.points)
    figure, rows = blank_figure(max(1, len(result.workloads)), 2 if has_areas else 1)
    panels: list[_Panel] = []
    for workload, row in zip(result.workloads, rows, strict=True):
        of_workload = [spot for spot in spots if spot.workload == workload]
        size_pj, unit = energy_unit(min((spot.energy_pj for spot in of_workload), default=0))
        for axes, across in zip(row, (CYCLES, AREA), strict=False):
            places = [
                (spot.cycles if across == CYCLES else spot.area_mm2 or 0, spot.energy_pj / size_pj)
                for spot in of_workload
            ]
            panels.append(_Panel(axes, across, of_workload, places))
            axes.set_ylabel(f"energy ({unit})")
            axes.set_title(verbatim(workload))
    for panel in panels:
        _draw_panel(panel, styles)
    _add_legend(figure, panels, result.attributes[-1] if result.attributes else "")
    figure.draw_without_rendering()  # only then are the places of points known
    for panel in panels:
        _label_points(panel, styles)
    save_figure(figure, path)


def _style(number: int) -> tuple[str, str]:
    """Return colour and marker of the line of this number, unlike those of the lines before."""
    return f"C{number % COLOURS}", MARKERS[number // COLOURS % len(MARKERS)]


def _spots(result: SweepResult) -> Iterator[_Spot]:
    """Yield the points that have totals."""
    front = result.front
    for place, point in enumerate(result.points):
        if point.costs is not None:
            names = point.variant.workload, *_texts(point)
            yield _Spot(*names, *point.costs, point.area_mm2, place in front)


def _texts(point: SweepPoint) -> tuple[str, str]:
    """Return the name of the line that a point is on, and its label: the value of the last attribute."""
    architecture, settings = point.variant.architecture, point.variant.settings
    if not settings:
        return architecture, architecture
    others = (f"{name} {value}" for name, value in settings[:-1])
    return ", ".join((architecture, *others)), settings[-1][1]


def _draw_panel(panel: _Panel, styles: Mapping[str, tuple[str, str]]) -> None:
    """Draw the lines of a panel, and the rings around points of the front."""
    axes = panel.axes
    for name in dict.fromkeys(spot.line for spot in panel.spots):
        places, (colour, marker) = [place for spot, place in panel.pairs if spot.line == name], styles[name]
        axes.plot(*_columns(places), marker=marker, color=colour, linewidth=0.8, label=verbatim(name))
    rings = [place for spot, place in panel.pairs if spot.is_on_front]
    if rings:
        label, (x, y) = "front in energy and cycles", _columns(rings)
        axes.plot(x, y, "o", markersize=11, markerfacecolor="none", color="black", label=label)
    across, up = _columns(panel.places)
    axes.set_xscale(_scale(across))
    axes.set_yscale(_scale(up))
    write_numbers_out(axes, whole_across=panel.across == CYCLES)
    axes.set_xlabel(panel.across)
    axes.margins(MARGIN)
    axes.grid(visible=True, which="both", alpha=0.3)


def _add_legend(figure: Figure, panels: Sequence[_Panel], attribute: str) -> None:
    """Add one legend for all panels beside them, where it covers no point; it names the varied attribute."""
    known: dict[str, Artist] = {}
    for handles, names in (panel.axes.get_legend_handles_labels() for panel in panels):
        known |= dict(zip(names, handles, strict=True))
    title = f"labels: {verbatim(attribute)}" if attribute else None
    figure.legend(known.values(), known.keys(), loc="outside right upper", title=title)


def _label_points(panel: _Panel, styles: Mapping[str, tuple[str, str]]) -> None:
    """Label the points of a panel, those of the front first, where there is room in one of four corners."""
    if not 0 < len(panel.spots) <= MOST_LABELS:
        return
    from matplotlib.transforms import Bbox

    axes = panel.axes
    radius = MARKER_POINTS / 2 * axes.figure.dpi / POINTS_PER_INCH
    taken = [
        Bbox.from_bounds(x - radius, y - radius, 2 * radius, 2 * radius)
        for x, y in axes.transData.transform(panel.places)
    ]
    different = {(place, spot.label): spot for spot, place in panel.pairs}
    for (place, _), spot in sorted(different.items(), key=lambda item: not item[1].is_on_front):
        colour, _ = styles[spot.line]
        text = axes.annotate(
            verbatim(spot.label),
            place,
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=LABEL_SIZE,
            color=colour,
        )
        text.set_in_layout(False)
        if not _placed(text, axes.bbox, taken):
            text.remove()


def _placed(text: Annotation, frame: Bbox, taken: list[Bbox]) -> bool:
    """Put a label into a free corner of its point and return True, or return False."""
    for across, up in CORNERS:
        text.xyann = (across * LABEL_DISTANCE, up * LABEL_DISTANCE)
        text.set_horizontalalignment("left" if across > 0 else "right")
        text.set_verticalalignment("bottom" if up > 0 else "top")
        box = text.get_window_extent()
        inside = frame.contains(*box.min) and frame.contains(*box.max)
        if inside and not any(box.overlaps(other) for other in taken):
            taken.append(box)
            return True
    return False


def _columns(places: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in places], [y for _, y in places]


def _scale(values: Sequence[float]) -> str:
    """Return a logarithmic scale for values that are far apart."""
    least, largest = min(values, default=0), max(values, default=0)
    return "log" if 0 < least * FAR_APART <= largest else "linear"
