"""What ``--plot`` draws and pages show of results: a mapping, a front, convergence, sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product

from model.objective import EDP, ENERGY, LATENCY
from solver.report.charts import Band, ChartAxis, Curve, Mark, curves_scene
from solver.report.curve_charts import bound_scene, curves_title
from solver.report.drawing import Scene, headed_scene, series_ink, stacked
from solver.report.figures import counted, energy_text, energy_unit, percent, significant
from solver.report.mapped import shown_mapping
from solver.report.mapping_picture import mapping_scene
from solver.report.reading import DocumentError, Value, optional, value_text

PLOT_WIDTH_PX = 760.0
"""Pixels of a picture in a file of its own."""

MOST_LABELS = 24
"""Points of a chart up to which each is labelled."""

LEAST_EDP = "least EDP"


def least_edp(document: Value) -> Value | None:
    """Return the point of least EDP of a front; None where a missing one may have less.

    A complete front contains it: a mapping that dominates one of least EDP has no more EDP.
    """
    points = document["points"].entries()
    if document["status"].text() != "OPTIMAL" or not points:
        return None
    return min(points, key=lambda point: point["edp_pj_cycles"].number())


def front_scene(document: Value, width: float) -> Scene:
    """Return energy against cycles, with the point of least EDP and where points may be missing."""
    points = document["points"].entries()
    if not points:
        return Scene(width, 1, "Energy against cycles")
    size, unit = energy_unit(points[-1]["energy_pj"].number())
    least = least_edp(document)
    marks = [
        Mark(
            point["cycles"].count(),
            point["energy_pj"].number() / size,
            f"{counted(point['cycles'].count(), 'cycle')}, {energy_text(point['energy_pj'].number())}",
            not point["proven"].flag(),
            LEAST_EDP if point == least else "",
        )
        for point in points
    ]
    bands = [
        Band("open", "warn", each["least_cycles"].count(), optional(each["most_cycles"]))
        for each in document["open"].entries()
    ]
    axes = ChartAxis("cycles"), ChartAxis(f"energy ({unit})")
    curves = [Curve("", "s0", marks, "steps")]
    return curves_scene("Energy against cycles", curves, *axes, width, bands)


def traces(document: Value) -> list[tuple[str, list[Value], float]]:
    """Return name, points and end of every run that found something."""
    runs = [
        ("tilewright", document),
        *((each["name"].text(), each) for each in document["mappers"].entries()),
    ]
    return [
        (name, run["trace"].entries(), run["seconds"].number())
        for name, run in runs
        if run["trace"].entries()
    ]


LEAST_SECONDS = 1e-4
"""Where logarithmic time begins."""


def convergence_scene(document: Value, width: float) -> Scene:
    """Return the best value so far of every mapper against time, both on logarithmic axes."""
    curves, units = [], document["units"].text()
    for number, (name, points, seconds) in enumerate(traces(document)):
        marks = [
            Mark(
                max(point["seconds"].number(), LEAST_SECONDS),
                point["value"].number(),
                f"{name}: {value_text(point['value'], units)} after {point['seconds'].number():.3g} s",
            )
            for point in points
        ]
        last = Mark(max(seconds, marks[-1].x), marks[-1].y)
        curves.append(Curve(name, series_ink(number), [*marks, last], "steps", has_dots=False))
        curves.append(Curve(name, series_ink(number), marks))
    if document["bound"].raw is not None and document["bound"].number():
        ends = [mark.x for curve in curves for mark in curve.marks]
        bound = document["bound"].number()
        label = "optimum" if document["proven"].flag() else "bound"
        line = [Mark(min(ends), bound), Mark(max(ends), bound)]
        curves.append(Curve(label, "text", line, "line", is_dashed=True, has_dots=False))
    axes = ChartAxis("seconds", True), ChartAxis(f"{document['objective'].text()} ({units})", True)
    return curves_scene("Best value against time", curves, *axes, width)


def has_figures(point: Value, workload: str, across: str) -> bool:
    """Whether a point of a sweep has an energy, and something to draw it against."""
    figures = point["energy_pj"].raw, point[across].raw
    return point["workload"].text() == workload and None not in figures and bool(point[across].number())


def sweep_scene(points: Sequence[Value], workload: str, across: str, width: float) -> Scene:
    """Return the points of one workload; lines join the values of the last attribute."""
    shown = [point for point in points if has_figures(point, workload, across)]
    size, unit = energy_unit(min(point["energy_pj"].number() for point in shown))
    groups: dict[str, list[Mark]] = {}
    for point in shown:
        settings = [(name, value.text()) for name, value in point["attributes"].items()]
        others = (f"{name} {value}" for name, value in settings[:-1])
        line = ", ".join((point["architecture"].text(), *others))
        label = settings[-1][1] if settings else ""
        figures = (
            f"{energy_text(point['energy_pj'].number())}, {significant(point[across].number())} {across}"
        )
        note = f"{line} {label}: {figures}"
        is_dominated = not point["front"].flag()
        mark = Mark(point[across].number(), point["energy_pj"].number() / size, note, is_dominated)
        groups.setdefault(line, []).append(
            Mark(mark.x, mark.y, note, is_dominated, label if len(shown) <= MOST_LABELS else "")
        )
    curves = [
        Curve(name, series_ink(number), marks, "line") for number, (name, marks) in enumerate(groups.items())
    ]
    what = {"cycles": "cycles", "area_mm2": "area (mm2)"}[across]
    return curves_scene(
        f"Energy against {what}", curves, ChartAxis(what, True), ChartAxis(f"energy ({unit})", True), width
    )


def sweep_scenes(document: Value) -> Iterator[tuple[str, Callable[[float], Scene]]]:
    """Yield a workload and its chart: of energy against cycles, and against area where that is known."""
    points = document["points"].entries()
    workloads = dict.fromkeys(point["workload"].text() for point in points)
    for workload, across in product(workloads, ("cycles", "area_mm2")):
        if any(has_figures(point, workload, across) for point in points):
            yield workload, partial(sweep_scene, points, workload, across)


def density_scene(document: Value, width: float) -> Scene:
    """Return the objective against the first density: of the best mappings, and of those of dense data."""
    points = document["points"].entries()
    objective, units = (points[0][key].text() for key in ("objective", "units"))
    best: list[Mark] = []
    dense: list[Mark] = []
    for point in points:
        share = next(own for _, own in point["shares"].items()).number()
        if point["value"].raw is not None:
            best.append(Mark(share, point["value"].number()))
        if point["dense_optimum"] and point["dense_optimum"]["on_sparse_data"]:
            costs = point["dense_optimum"]["on_sparse_data"]
            dense.append(Mark(share, costs[COST_KEYS.get(objective, objective)].number()))
    name = next(name for name, _ in points[0]["shares"].items())
    curves = [
        Curve("best mapping", "s0", best, "line"),
        Curve("best mapping of dense data", "s1", dense, "line", is_dashed=True),
    ]
    axes = ChartAxis(f"density of {name}"), ChartAxis(f"{objective} ({units})", from_zero=True)
    return curves_scene(f"{objective} against density", curves, *axes, width)


COST_KEYS = {ENERGY: "energy_pj", LATENCY: "cycles", EDP: "edp_pj_cycles"}


def plot_scene(document: Value) -> Scene:
    """Return the picture of a document in a file of its own.

    Raises
    ------
    DocumentError
        If there is none of its kind, or nothing to draw.
    """
    kind = document["kind"].text()
    if kind not in PLOTS:
        raise DocumentError(f"kind: there is no picture of {kind!r}, only of {', '.join(PLOTS)}")
    return PLOTS[kind](document)


def _mapping_plot(document: Value) -> Scene:
    shown = shown_mapping(document)
    if shown is None:
        raise DocumentError("there is no mapping to draw")
    return mapping_scene(shown, PLOT_WIDTH_PX, _mapping_heading(document))


def _mapping_heading(document: Value) -> list[str]:
    """Return the heading of a mapping's picture: its subject and its costs."""
    problem, architecture = document["problem"].text(), document["architecture"]["name"].text()
    figures = f"{energy_text(document['energy_pj'].number())}, {counted(document['cycles'].count(), 'cycle')}"
    if document.get("status"):
        objective, gap = document["objective"].text(), document["gap"]
        gap_text = "" if not gap.raw else f", gap {percent(gap.number())}"
        value = f"{significant(document['value'].number())} {document['units'].text()}"
        figures = f"{document['status'].text()}: {objective} {value}{gap_text}; {figures}"
    return [" on ".join(filter(None, (problem, architecture))), figures]


def _front_plot(document: Value) -> Scene:
    name = document["problem"].text()
    return headed_scene(
        [f"Energy-latency front{f' of {name}' if name else ''}"], front_scene(document, PLOT_WIDTH_PX)
    )


def _comparison_plot(document: Value) -> Scene:
    return headed_scene([document["case"].text()], convergence_scene(document, PLOT_WIDTH_PX))


def _sweep_plot(document: Value) -> Scene:
    charts = [headed_scene([workload], draw(PLOT_WIDTH_PX)) for workload, draw in sweep_scenes(document)]
    return stacked(PLOT_WIDTH_PX, "Energy against cycles and area", charts)


def _density_plot(document: Value) -> Scene:
    name = document["problem"].text()
    return headed_scene([name or "Best mappings by density"], density_scene(document, PLOT_WIDTH_PX))


PLOTS: Mapping[str, Callable[[Value], Scene]] = {
    "map": _mapping_plot,
    "map-sparse": _mapping_plot,
    "evaluate": _mapping_plot,
    "evaluate-sparse": _mapping_plot,
    "pareto": _front_plot,
    "compare": _comparison_plot,
    "sweep": _sweep_plot,
    "sweep-sparse": _density_plot,
    "bound": lambda document: headed_scene([curves_title(document)], bound_scene(document, PLOT_WIDTH_PX)),
}
