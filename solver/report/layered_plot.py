"""Pictures of the layered graph, drawn by matplotlib (the extra ``plot``)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from solver.report.figures import cost_text
from solver.report.layered_graph import LayeredGraph, Place
from solver.report.picture import save_figure, verbatim

LARGEST_PICTURE = 20_000
"""Arcs up to which a picture shows more than a grey area."""

INCHES_PER_COLUMN, INCHES_PER_ROW = 1.6, 0.55
LARGEST_SIDE_INCHES = 200.0
DOTS_PER_INCH = 100
CHOSEN, OTHER = "tab:red", "0.8"

Point = tuple[float, float]


def draw(graph: LayeredGraph, path: Path) -> None:
    """Draw the graph; the assignment's nodes and arcs are red.

    Parameters
    ----------
    graph
        At most `LARGEST_PICTURE` arcs.
    path
        The suffix says the format.

    Raises
    ------
    PlotError
        The file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (an optional extra)
    from matplotlib.collections import LineCollection  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    points = _points(graph)
    columns = 1 + max(x for x, _ in points.values())
    rows = 1 + max(-y for _, y in points.values())
    wide, high = INCHES_PER_COLUMN * (columns + 2), INCHES_PER_ROW * (rows + 1.5)
    figure = Figure(figsize=(min(wide, LARGEST_SIDE_INCHES), min(high, LARGEST_SIDE_INCHES)))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    lines = _lines(graph, points, columns)
    for is_chosen, colour, width in ((False, OTHER, 0.5), (True, CHOSEN, 2.0)):
        segments = [line for line, chosen in lines if chosen is is_chosen]
        axes.add_collection(
            LineCollection(segments, colors=colour, linewidths=width, zorder=2 if is_chosen else 1)
        )
    for node, (x, y) in points.items():
        colour = CHOSEN if graph.is_chosen(node) else "black"
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": colour}
        text = f"{verbatim(graph.label(node))}\n{cost_text(graph.cost(node))}"
        axes.text(x, y, text, ha="center", va="center", fontsize=6, color=colour, bbox=box, zorder=3)
    for name, x in (("source", -1.0), ("sink", float(columns))):
        axes.text(x, _middle(points), name, ha="center", va="center", fontsize=7, bbox={"facecolor": "white"})
    axes.set_xlim(-1.5, columns + 0.5)
    axes.set_ylim(min(y for _, y in points.values()) - 1, 1.5)
    total = "" if graph.choice is None else f": {_total_text(graph)}"
    title = verbatim(f"{graph.network.name} ({graph.network.unit}){total}")
    axes.text(-1.4, 1.2, title, va="center", fontsize=9)
    save_figure(figure, path, DOTS_PER_INCH)


def _points(graph: LayeredGraph) -> dict[Place, Point]:
    """Put layers of one depth into one column, their methods below each other.

    A layer begins no higher than the layers that lead to it, which keeps most arcs clear of the boxes.
    """
    depths = graph.depths()
    before: list[list[int]] = [[] for _ in depths]
    for edge in graph.network.edges:
        before[edge.target].append(edge.source)
    methods: defaultdict[int, list[int]] = defaultdict(list)
    for layer, method in graph.nodes():
        methods[layer].append(method)
    free: defaultdict[int, int] = defaultdict(int)
    tops: dict[int, int] = {}
    points: dict[Place, Point] = {}
    for layer in sorted(range(len(depths)), key=depths.__getitem__):
        column = depths[layer]
        tops[layer] = max(free[column], min((tops[other] for other in before[layer]), default=0))
        for row, method in enumerate(methods[layer], start=tops[layer]):
            points[layer, method] = (float(column), -float(row))
        free[column] = tops[layer] + len(methods[layer]) + 1
    return points


def _lines(
    graph: LayeredGraph, points: dict[Place, Point], columns: float
) -> list[tuple[tuple[Point, Point], bool]]:
    """Return the lines of all arcs, source and sink included, each with whether it is taken."""
    lines = [((points[arc.tail], points[arc.head]), arc.is_chosen) for arc in graph.arcs()]
    first, last = set(graph.first_layers()), set(graph.last_layers())
    middle = _middle(points)
    for node, point in points.items():
        if node[0] in first:
            lines.append((((-1.0, middle), point), graph.is_chosen(node)))
        if node[0] in last:
            lines.append(((point, (columns, middle)), graph.is_chosen(node)))
    return lines


def _middle(points: dict[Place, Point]) -> float:
    return min(y for _, y in points.values()) / 2


def _total_text(graph: LayeredGraph) -> str:
    network = graph.network
    total = None if graph.choice is None else network.total(graph.choice)
    return "" if total is None else f"total {cost_text(network.in_unit(total))} {network.unit}"
