"""The layered graph of an assignment, a node per layer and method: in DOT, and as Graphviz draws that."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from model.assignment import FORBIDDEN, CostedNetwork, Edge, ShapedNetwork
from model.wording import printable
from solver.report.figures import cost_text
from solver.report.pictures import PlotError
from solver.saving import save

SOURCE, SINK = "source", "sink"

LARGEST_PICTURE = 20_000
"""Arcs up to which a picture shows more than a grey area."""

LONGEST_LAYOUT_S = 120
"""Seconds that Graphviz may take."""

DOT_HELPS = "--show-graph OUT.dot writes the graph as text"

Place = tuple[int, int]
"""A node: positions of the layer and of its method."""


@dataclass(frozen=True)
class MethodPair:
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

    def arcs(self) -> Iterator[MethodPair]:
        """Yield the arcs between allowed nodes that no infinite cost forbids."""
        allowed = set(self.nodes())
        for edge in self.network.edges:
            yield from (arc for arc in self._arcs_of(edge) if {arc.tail, arc.head} <= allowed)

    def _arcs_of(self, edge: Edge) -> Iterator[MethodPair]:
        sizes = [len(self.network.layers[end].methods) for end in (edge.source, edge.target)]
        costs = np.zeros(sizes, dtype=np.int64) if edge.transition is None else edge.transition
        for k, m in np.argwhere(costs != FORBIDDEN).tolist():
            tail, head = (edge.source, k), (edge.target, m)
            chosen = self.is_chosen(tail) and self.is_chosen(head)
            yield MethodPair(tail, head, self.network.in_unit(int(costs[k, m])), chosen)

    def first_layers(self) -> list[int]:
        """Return the layers that no edge leads to; the source leads to them."""
        return sorted(set(range(len(self.network.layers))) - {edge.target for edge in self.network.edges})

    def last_layers(self) -> list[int]:
        """Return the layers that no edge leaves; they lead to the sink."""
        return sorted(set(range(len(self.network.layers))) - {edge.source for edge in self.network.edges})


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
        lines.append(f"  {_name(node)} [label={_quoted(label)}{_edge_style(graph.is_chosen(node))}];")
    for arc in graph.arcs():
        label = f"label={_quoted(cost_text(arc.cost))}{_edge_style(arc.is_chosen)}"
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


def _edge_style(is_chosen: bool) -> str:
    return ", style=bold, color=red" if is_chosen else ""


def _quoted(text: str) -> str:
    lines = map(printable, text.split("\n"))
    escaped = "\n".join(lines).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def draw(graph: LayeredGraph, path: Path) -> None:
    """Have Graphviz lay out and draw the graph; `PlotError` if that fails."""
    command = ["dot", f"-T{path.suffix[1:].lower()}"]
    try:
        drawn = subprocess.run(
            command, input=dot_text(graph).encode(), capture_output=True, check=True, timeout=LONGEST_LAYOUT_S
        )
        save(path, drawn.stdout)
    except subprocess.TimeoutExpired:
        raise PlotError(
            f"cannot draw {path}: Graphviz took more than {LONGEST_LAYOUT_S} s; {DOT_HELPS}"
        ) from None
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise PlotError(f"cannot draw {path}: Graphviz failed: {last}") from error
    except OSError as error:
        raise PlotError(f"cannot write {path}: {error.strerror}") from error


def check_drawing(path: Path) -> None:
    """Check before the work that Graphviz is there to draw a picture; `PlotError` if it is not."""
    if shutil.which("dot") is None:
        raise PlotError(f"cannot draw {path}: the program `dot` of Graphviz is missing; {DOT_HELPS}")
