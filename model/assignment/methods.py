"""Methods that a mapper prices: lowerings of a convolution, dataflows, layouts, and copies between them.

All lowerings share the names of a convolution, so that one architecture and one set of constraints serve
them: R x S filter, P x Q output positions, C input channels, K output channels, N batch; and the dataspaces
Weights, Inputs, Outputs. A matrix product has its rows in P.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from model.architecture import StorageLevel
from model.assignment.network import ConvolutionShape, ShapedEdge, ShapedLayer, ShapedNetwork
from model.counting.cycles import transfer_cycles
from model.mapspace import FactorRule, Mapspace
from model.note import Note
from model.problem import Dataspace, Problem, Term

DIRECT, IM2COL, KN2ROW = LOWERINGS = ("direct", "im2col", "kn2row")

DIMS = ("R", "S", "P", "Q", "C", "K", "N")


@dataclass(frozen=True)
class Lowered:
    """What a lowering makes of a convolution."""

    problem: Problem  # the Einsum to map
    # Dimensions that all other loops run inside of: one product after the other.
    outermost: tuple[str, ...] = ()


def lower(shape: ConvolutionShape, lowering: str) -> Lowered:
    """Return the problem that `lowering` makes of a convolution.

    ``direct``
        The convolution itself, inputs indexed by ``P * stride + R`` and ``Q * stride + S``.
    ``im2col``
        One matrix product of the unfolded windows (P = positions, C = channels * filter positions)
        and the weights.
    ``kn2row``
        One product of all positions (P) and channels per filter position (R, S), each with the input
        shifted, one after the other: R and S are the outermost loops, and every product but the first
        reads the sums of the ones before.

    Raises
    ------
    ValueError
        There is no such lowering.
    """
    high, wide = shape.kernel
    channels, features = shape.in_channels, shape.out_channels
    if lowering == DIRECT:
        rows = (Term("R"), Term("P", shape.stride))
        columns = (Term("S"), Term("Q", shape.stride))
        bounds = (high, wide, shape.height, shape.width, channels, features, 1)
        return Lowered(_convolution_problem(bounds, (rows, columns)))
    positions = (Term("P"),)
    if lowering == IM2COL:
        bounds = (1, 1, shape.positions, 1, channels * shape.window, features, 1)
        return Lowered(_convolution_problem(bounds, (positions,)))
    if lowering == KN2ROW:
        bounds = (high, wide, shape.positions, 1, channels, features, 1)
        shifted = ((Term("R"),), (Term("S"),), positions)
        outermost = tuple(dim for dim, bound in (("S", wide), ("R", high)) if bound > 1)
        return Lowered(_convolution_problem(bounds, shifted), outermost)
    raise ValueError(f"{lowering} is not a lowering")


def _convolution_problem(bounds: Sequence[int], window: tuple[tuple[Term, ...], ...]) -> Problem:
    weights, outputs = (tuple((Term(dim),) for dim in dims) for dims in ("CKRS", "NKQP"))
    inputs = ((Term("N"),), (Term("C"),), *window)
    spaces = (
        Dataspace("Weights", weights),
        Dataspace("Inputs", inputs),
        Dataspace("Outputs", outputs, read_write=True),
    )
    return Problem("convolution", DIMS, tuple(bounds), spaces)


def run_outermost(mapspace: Mapspace, dims: Sequence[str]) -> Mapspace:
    """Return the mapspace in which `dims` have loops at the outermost level only, outside of all others.

    Raises
    ------
    ValueError
        The outermost level has another order already.
    """
    if not dims:
        return mapspace
    first, *inside = mapspace.temporal
    taken = [dim for dim in dims if dim in (*first.inner, *first.outer)]
    if taken:
        level = mapspace.architecture.levels[0].name
        raise ValueError(f"the order of `{taken[0]}` at `{level}` is fixed already")
    ones = tuple(FactorRule(dim, "=", 1) for dim in dims)
    return replace(
        mapspace,
        temporal=(
            replace(first, outer=(*first.outer, *dims)),
            *(replace(rules, factors=(*rules.factors, *ones)) for rules in inside),
        ),
        spatial=tuple(replace(rules, factors=(*rules.factors, *ones)) for rules in mapspace.spatial),
    )


@dataclass(frozen=True)
class Copy:
    """Words of a tensor that are read and written at the outermost level to change its layout."""

    read_words: int = 0
    write_words: int = 0

    def accesses(self, level: StorageLevel) -> tuple[int, int]:
        """Return reads and writes of whole vectors."""
        return -(-self.read_words // level.block_size), -(-self.write_words // level.block_size)

    def energy(self, level: StorageLevel) -> int:
        """Return the energy in the architecture's unit: vector accesses, writes at the price of updates."""
        reads, writes = self.accesses(level)
        return reads * level.energy.read + writes * level.energy.update

    def cycles(self, level: StorageLevel) -> int:
        """Return the cycles that the level's bandwidths need, zero where none is limited."""
        return transfer_cycles(level, self.read_words, self.write_words)


@dataclass(frozen=True)
class Method:
    """A way to carry out a convolution."""

    name: str  # unique among the methods
    lowering: str  # out of `model.assignment.methods.LOWERINGS`
    dataflow: str  # the constraints that its mappings keep to, by name
    # How tensors lie in the outermost level. ``im2col`` takes the windows of its input layout unfolded.
    input_layout: str
    output_layout: str


@dataclass(frozen=True)
class MethodNetwork:
    """A network whose costs are yet to be found by a mapper."""

    shaped: ShapedNetwork  # layers with the names of methods; of layouts, where a layer only holds a tensor
    methods: Mapping[str, Method]  # by name
    dataflows: tuple[str, ...]  # names, in the order in which they are declared
    mapspaces: Mapping[tuple[ConvolutionShape, str], Mapspace]  # what is to be mapped, by shape and method
    level: StorageLevel  # the outermost storage level, which tensors lie in between two layers
    units_per_pj: int  # energy units of `level`
    copy_leakage: int  # what leaks per cycle of a copy, in these units
    notes: tuple[Note, ...] = ()  # for people

    def transition(self, edge: ShapedEdge) -> dict[tuple[str, str], Copy]:
        """Return what each pair of methods along an edge has to copy; pairs that share a layout not."""
        source, target = self.shaped.layers[edge.source], self.shaped.layers[edge.target]
        pairs = product(self._produced(source), target.methods)
        copies = {(own, to): self._copy(layout, to, target, edge) for (own, layout), to in pairs}
        return {pair: copy for pair, copy in copies.items() if copy is not None}

    def _produced(self, layer: ShapedLayer) -> Sequence[tuple[str, str]]:
        """Return each method of a layer with the layout of its output."""
        if isinstance(layer.shape, ConvolutionShape):
            return [(name, self.methods[name].output_layout) for name in layer.methods]
        return [(layout, layout) for layout in layer.methods]

    def _copy(self, layout: str, method: str, target: ShapedLayer, edge: ShapedEdge) -> Copy | None:
        shape = target.shape
        if not isinstance(shape, ConvolutionShape):
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


def unfolds(shape: ConvolutionShape, method: Method) -> bool:
    """Whether a method takes a tensor that is no mere reordering: windows that overlap or skip."""
    return method.lowering == IM2COL and (shape.window > 1 or shape.stride > 1)
