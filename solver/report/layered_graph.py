"""The layered graph of an assignment, in DOT and as a picture: a node per layer and method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np

from model.assignment import FORBIDDEN, CostedNetwork, Edge, ShapedNetwork
from model.wording import printable
from solver.report.figures import cost_text
from solver.report.pictures import save_figure, verbatim

SOURCE, SINK = "source", "sink"

LARGEST_PICTURE = 20_000
"""Arcs up to which a picture shows more than a grey area."""

INCHES_PER_ROW, INCHES_PER_CHARACTER, GAP_INCHES = 0.55, 0.055, 0.9
LONGEST_LABEL = 40
LARGEST_SIDE_INCHES = 200.0
DOTS_PER_INCH = 100
BOX_HEIGHT = 0.7
"""Of the distance between two rows."""

CHOSEN, OTHER = "tab:red", "0.8"

Place = tuple[int, int]
"""A node: positions of the layer and of its method."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Arc:
    """An allowed pair of methods of two layers, its cost, and whether the assignment takes it."""

    tail: Place
    head: Place
    cost: Fraction
    is_chosen: bool


@dataclass(frozen=True)
class LayeredGraph:
    """A network as a graph of methods: an assignment takes one node per layer, and all arcs between those.

    In a chain, its total is the length of a path from source to sink, where a node's cost counts as well.
    """

    network: CostedNetwork
    choice: Sequence[int] | None = None  # the assignment to mark, if any

    def nodes(self) -> Iterator[Place]:
        """Yield the allowed nodes, layer by layer."""
        for layer, vector in enumerate(self.network.layers):
            for method in np.flatnonzero(vector.costs != FORBIDDEN).tolist():
                yield layer, method

    def cost(self, node: Place) -> Fraction:
        """Return the execution cost of a node in the network's unit."""
        return self.network.in_unit(int(self.network.layers[node[0]].costs[node[1]]))

    def label(self, node: Place) -> str:
        """Return the node's layer and method."""
        layer = self.network.layers[node[0]]
        return f"{layer.name} {layer.methods[node[1]]}"

    def is_chosen(self, node: Place) -> bool:
        """Whether the assignment takes the node."""
        return self.choice is not None and self.choice[node[0]] == node[1]

    def arcs(self) -> Iterator[Arc]:
        """Yield the arcs between allowed nodes that no infinite cost forbids."""
        allowed = set(self.nodes())
        for edge in self.network.edges:
            yield from (arc for arc in self._arcs_of(edge) if {arc.tail, arc.head} <= allowed)

    def _arcs_of(self, edge: Edge) -> Iterator[Arc]:
        sizes = [len(self.network.layers[end].methods) for end in (edge.source, edge.target)]
        costs = np.zeros(sizes, dtype=np.int64) if edge.transition is None else edge.transition
        for k, m in np.argwhere(costs != FORBIDDEN).tolist():
            tail, head = (edge.source, k), (edge.target, m)
            chosen = self.is_chosen(tail) and self.is_chosen(head)
            yield Arc(tail, head, self.network.in_unit(int(costs[k, m])), chosen)

    def first_layers(self) -> list[int]:
        """Return the layers that no edge leads to; the source leads to them."""
        return sorted(set(range(len(self.network.layers))) - {edge.target for edge in self.network.edges})

    def last_layers(self) -> list[int]:
        """Return the layers that no edge leaves; they lead to the sink."""
        return sorted(set(range(len(self.network.layers))) - {edge.source for edge in self.network.edges})

    def depths(self) -> list[int]:
        """Return per layer the number of edges on the longest path that leads to it."""
        before: dict[int, list[int]] = {layer: [] for layer in range(len(self.network.layers))}
        for edge in self.network.edges:
            before[edge.target].append(edge.source)
        depths = dict.fromkeys(before, 0)
        for layer in TopologicalSorter(before).static_order():
            depths[layer] = max((depths[source] + 1 for source in before[layer]), default=0)
        return [depths[layer] for layer in before]


def most_arcs(network: CostedNetwork | ShapedNetwork) -> int:
    """Return the number of arcs if nothing is forbidden, without listing them."""
    sizes = [len(layer.methods) for layer in network.layers]
    return sum(sizes[edge.source] * sizes[edge.target] for edge in network.edges)


def dot_text(graph: LayeredGraph) -> str:
    """Return the graph in the DOT language; what the assignment takes is bold."""
    network = graph.network
    lines = [f"digraph {_quoted(network.name or 'network')} {{", "  rankdir=LR;", "  node [shape=box];"]
    lines += [f"  {name} [shape=circle];" for name in (SOURCE, SINK)]
    for node in graph.nodes():
        label = f"{graph.label(node)}\n{cost_text(graph.cost(node))} {network.unit}"
        lines.append(f"  {_name(node)} [label={_quoted(label)}{_mark(graph.is_chosen(node))}];")
    for arc in graph.arcs():
        label = f"label={_quoted(cost_text(arc.cost))}{_mark(arc.is_chosen)}"
        lines.append(f"  {_name(arc.tail)} -> {_name(arc.head)} [{label}];")
    first, last = set(graph.first_layers()), set(graph.last_layers())
    for node in graph.nodes():
        mark = " [style=bold, color=red]" if graph.is_chosen(node) else ""
        if node[0] in first:
            lines.append(f"  {SOURCE} -> {_name(node)}{mark};")
        if node[0] in last:
            lines.append(f"  {_name(node)} -> {SINK}{mark};")
    return "\n".join([*lines, "}"]) + "\n"


def _name(node: Place) -> str:
    return f"l{node[0]}m{node[1]}"


def _mark(is_chosen: bool) -> str:
    return ", style=bold, color=red" if is_chosen else ""


def _quoted(text: str) -> str:
    lines = map(printable, text.split("\n"))
    escaped = "\n".join(lines).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def draw(graph: LayeredGraph, path: Path) -> None:
    """Draw the graph; nodes and arcs of the assignment are red, and no arc runs through a box."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (an optional extra)
    from matplotlib.collections import LineCollection  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    layout = Layout(graph)
    labels = {node: _shortened(graph.label(node)) for node in layout.points}
    box_inches = INCHES_PER_CHARACTER * max(map(len, (*labels.values(), SOURCE)))
    pitch = box_inches + GAP_INCHES
    half = box_inches / pitch / 2
    wide, high = pitch * (layout.columns + 2), INCHES_PER_ROW * (layout.rows + 2)
    figure = Figure(figsize=(min(wide, LARGEST_SIDE_INCHES), min(high, LARGEST_SIDE_INCHES)))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    lines = list(layout.lines(half))
    for is_chosen, colour, width in ((False, OTHER, 0.5), (True, CHOSEN, 2.0)):
        drawn = [line for line, chosen in lines if chosen is is_chosen]
        axes.add_collection(LineCollection(drawn, colors=colour, linewidths=width, zorder=1 + is_chosen))
    boxes = [
        (point, f"{verbatim(labels[node])}\n{cost_text(graph.cost(node))}", graph.is_chosen(node))
        for node, point in layout.points.items()
    ]
    boxes += [((-1.0, layout.middle), SOURCE, False), ((float(layout.columns), layout.middle), SINK, False)]
    for (x, y), text, is_chosen in boxes:
        colour = CHOSEN if is_chosen else "black"
        corner = (x - half, y - BOX_HEIGHT / 2)
        axes.add_patch(Rectangle(corner, 2 * half, BOX_HEIGHT, facecolor="white", edgecolor=colour, zorder=3))
        axes.text(x, y, text, ha="center", va="center", fontsize=6, color=colour, zorder=4)
    axes.set_xlim(-1.5, layout.columns + 0.5)
    axes.set_ylim(-layout.rows, 1.5)
    axes.text(-1.4, 1.2, verbatim(_title(graph)), va="center", fontsize=9)
    save_figure(figure, path, DOTS_PER_INCH)


class Layout:
    """Places of the nodes: layers of one depth in one column, their methods below each other.

    An edge that spans several columns, also one to the sink, has a free row in each column between. A layer
    begins no higher than the layers that lead to it, which keeps most arcs short.
    """

    def __init__(self, graph: LayeredGraph) -> None:
        self._graph = graph
        self._depths = graph.depths()
        self.columns = 1 + max(self._depths)
        self._lanes: dict[tuple[int, int | None], list[Point]] = {}
        self.points = self._placed()
        lowest = min((y for _, y in self.points.values()), default=0.0)
        self.middle = lowest / 2
        lanes = (y for lane in self._lanes.values() for _, y in lane)
        self.rows = 1 - min(lowest, min(lanes, default=lowest))

    def _placed(self) -> dict[Place, Point]:
        graph, depths = self._graph, self._depths
        before: defaultdict[int, list[int]] = defaultdict(list)
        after: defaultdict[int, list[int | None]] = defaultdict(list)
        for edge in graph.network.edges:
            before[edge.target].append(edge.source)
            after[edge.source].append(edge.target)
        for layer in graph.last_layers():
            after[layer].append(None)  # the sink
        methods: defaultdict[int, list[int]] = defaultdict(list)
        for layer, method in graph.nodes():
            methods[layer].append(method)
        free: defaultdict[int, int] = defaultdict(int)
        tops: dict[int, int] = {}
        points: dict[Place, Point] = {}
        for layer in sorted(range(len(depths)), key=depths.__getitem__):
            column = depths[layer]
            top = max(free[column], min((tops[other] for other in before[layer]), default=0))
            tops[layer] = top
            for row, method in enumerate(methods[layer], start=top):
                points[layer, method] = (float(column), -float(row))
            free[column] = top + len(methods[layer]) + 1
            for target in after[layer]:
                end = self.columns if target is None else depths[target]
                self._lanes[layer, target] = [
                    self._lane(free, between, top) for between in range(column + 1, end)
                ]
        return points

    @staticmethod
    def _lane(free: dict[int, int], column: int, top: int) -> Point:
        """Take the next free row of a column, which no box will be in."""
        row = max(free[column], top)
        free[column] = row + 1
        return float(column), -float(row)

    def lines(self, half: float) -> Iterator[tuple[list[Point], bool]]:
        """Yield the lines of all arcs between boxes of half a width, each with whether it is chosen."""
        graph, points = self._graph, self.points
        for arc in graph.arcs():
            lanes = self._lanes[arc.tail[0], arc.head[0]]
            yield _line(points[arc.tail], lanes, points[arc.head], half), arc.is_chosen
        first, last = set(graph.first_layers()), set(graph.last_layers())
        for node, point in points.items():
            if node[0] in first:
                yield _line((-1.0, self.middle), [], point, half), graph.is_chosen(node)
            if node[0] in last:
                lanes = self._lanes[node[0], None]
                yield _line(point, lanes, (float(self.columns), self.middle), half), graph.is_chosen(node)


def _line(tail: Point, lanes: Sequence[Point], head: Point, half: float) -> list[Point]:
    """Return the corners of a line from the right of one box to the left of another, straight past others."""
    passed = [(x + side, y) for x, y in lanes for side in (-half, half)]
    return [(tail[0] + half, tail[1]), *passed, (head[0] - half, head[1])]


def _shortened(label: str) -> str:
    text = printable(label)
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 3]}..."


def _title(graph: LayeredGraph) -> str:
    network = graph.network
    total = None if graph.choice is None else network.total(graph.choice)
    end = "" if total is None else f": total {cost_text(network.in_unit(total))} {network.unit}"
    return f"{network.name} ({network.unit}){end}"
