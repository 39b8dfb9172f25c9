"""Methods that a mapper prices: a lowering, a dataflow, and the layouts of what goes in and comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from model.architecture import StorageLevel
from model.assignment.lowering import IM2COL, Copy
from model.assignment.shapes import Convolution, ShapedEdge, ShapedLayer, ShapedNetwork
from model.mapspace import Mapspace
from model.note import Note


@dataclass(frozen=True)
class Method:
    """A way to carry out a convolution.

    Parameters
    ----------
    name
        Unique among the methods.
    lowering
        Out of `model.assignment.lowering.LOWERINGS`.
    dataflow
        The constraints that its mappings keep to, by name.
    input_layout, output_layout
        How tensors lie in the outermost level. ``im2col`` takes the windows of its input layout
        unfolded.
    """

    name: str
    lowering: str
    dataflow: str
    input_layout: str
    output_layout: str


@dataclass(frozen=True)
class MethodNetwork:
    """A network whose costs are yet to be found by a mapper.

    Parameters
    ----------
    shaped
        Layers with the names of methods; of layouts, where a layer only holds a tensor.
    methods
        By name.
    dataflows
        Names, in the order in which they are declared.
    mapspaces
        What is to be mapped, by shape and method.
    level
        The outermost storage level, which tensors lie in between two layers.
    units_per_pj
        Energy units of `level`.
    copy_leakage
        What leaks per cycle of a copy, in these units.
    notes
        For people.
    """

    shaped: ShapedNetwork
    methods: Mapping[str, Method]
    dataflows: tuple[str, ...]
    mapspaces: Mapping[tuple[Convolution, str], Mapspace]
    level: StorageLevel
    units_per_pj: int
    copy_leakage: int
    notes: tuple[Note, ...] = ()

    def transition(self, edge: ShapedEdge) -> dict[tuple[str, str], Copy]:
        """Return what each pair of methods along an edge has to copy; pairs that share a layout not."""
        source, target = self.shaped.layers[edge.source], self.shaped.layers[edge.target]
        pairs = product(self._produced(source), target.methods)
        copies = {(own, to): self._copy(layout, to, target, edge) for (own, layout), to in pairs}
        return {pair: copy for pair, copy in copies.items() if copy is not None}

    def _produced(self, layer: ShapedLayer) -> Sequence[tuple[str, str]]:
        """Return each method of a layer with the layout of its output."""
        if isinstance(layer.shape, Convolution):
            return [(name, self.methods[name].output_layout) for name in layer.methods]
        return [(layout, layout) for layout in layer.methods]

    def _copy(self, layout: str, method: str, target: ShapedLayer, edge: ShapedEdge) -> Copy | None:
        shape = target.shape
        if not isinstance(shape, Convolution):
            channels = shape.channels if edge.channels is None else edge.channels
            words = shape.height * shape.width * channels
            return None if layout == method else Copy(words, words)
        channels = shape.in_channels if edge.channels is None else edge.channels
        words = shape.positions * shape.stride**2 * channels
        wanted = self.methods[method]
        if unfolds(shape, wanted):
            unfolded = shape.positions * shape.window * channels
            return Copy(min(words, unfolded), unfolded)
        return None if layout == wanted.input_layout else Copy(words, words)


def unfolds(shape: Convolution, method: Method) -> bool:
    """Whether a method takes a tensor that is no mere reordering: windows that overlap or skip."""
    return method.lowering == IM2COL and (shape.window > 1 or shape.stride > 1)
