"""Tile shapes: strategies that fit, tiles that they allow, and the combination that fills scratchpads most.

Weights of convolutions and inner products begin with the rank of output features and end with that of
channels; outputs end with features.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

from model.tiling.operators import AXES_OF_RANKS, Shape
from model.tiling.tilings import Backend, Strategy


@dataclass(frozen=True, slots=True)
class TileShape:
    """A tile and the padding of its last rank.

    SMAUG pads the last rank of a stored tensor to the alignment. When it derives a tile of weights or
    outputs from the whole tensor, it keeps the whole tensor's padding: `counted` is the size that its
    decisions rest on, `stored` is what the tile takes.
    """

    dims: Shape  # elements of each rank
    alignment: int  # elements to a multiple of which the last rank is stored
    padding: int  # elements that are counted on top of the last rank

    @classmethod
    def aligned(cls, dims: Shape, alignment: int) -> TileShape:
        """A tensor, or a tile that is padded for itself."""
        return cls(dims, alignment, -dims[-1] % alignment)

    def shrunk(self, dims: Shape) -> TileShape:
        """A tile of this tensor that keeps the tensor's padding."""
        return replace(self, dims=dims)

    @property
    def counted(self) -> int:
        """Elements that the tile counts for."""
        return math.prod(self.dims[:-1]) * (self.dims[-1] + self.padding)

    @property
    def stored(self) -> int:
        """Elements that the tile takes in a scratchpad."""
        return math.prod(self.dims[:-1]) * (self.dims[-1] + -self.dims[-1] % self.alignment)

    def fits(self, capacity: int) -> bool:
        """Whether a scratchpad of `capacity` elements holds the tile, by either count."""
        return max(self.counted, self.stored) <= capacity


ENUMERATION_ORDER = "NCHW"
"""Outermost to innermost; of several equally large configurations the first one is taken."""


class CannotTile(Exception):  # noqa: N818 (an answer, not a malfunction)
    """No tiling of this kind fits into the scratchpads; the message says which tensor is why."""


@dataclass(frozen=True, slots=True)
class TileRule:
    """The smallest useful tile of a tensor, and by how much each rank grows from there."""

    minimum: Shape
    step: Shape


Configuration = tuple[TileShape, ...]
"""A tile shape per tensor, in the order of the operator's shapes."""


def best_strategy(
    name: str, tensor: TileShape, minimum: Shape, capacity: int, order: Iterable[Strategy]
) -> Strategy:
    """Return the first strategy of `order` by which `tensor` can be cut to at most `capacity` elements."""
    axes = AXES_OF_RANKS[len(tensor.dims)]
    for strategy in order:
        if set(strategy.axes) <= set(axes) and _smallest(tensor, strategy, minimum) <= capacity:
            return strategy
    raise CannotTile(
        f"no strategy cuts the {name} {list(tensor.dims)} into tiles of at most {capacity} elements"
    )


def tile_shapes(tensor: TileShape, strategy: Strategy, rule: TileRule, capacity: int) -> Iterator[TileShape]:
    """Yield the tiles of at most `capacity` elements; ranks that `strategy` does not cut are whole."""
    axes = AXES_OF_RANKS[len(tensor.dims)]
    order = [axes.index(axis) for axis in ENUMERATION_ORDER if axis in axes]
    choices = [
        _tile_sizes(tensor.dims[rank], rule, rank, capacity)
        if strategy.cuts(axes[rank])
        else (tensor.dims[rank],)
        for rank in order
    ]
    stored = [
        [_rounded_up(size, tensor.alignment) if rank == len(axes) - 1 else size for size in sizes]
        for rank, sizes in zip(order, choices, strict=True)
    ]
    for positions in _positions_within(stored, capacity):
        dims = {
            rank: sizes[position] for rank, sizes, position in zip(order, choices, positions, strict=True)
        }
        yield TileShape.aligned(tuple(dims[rank] for rank in range(len(axes))), tensor.alignment)


def fullest(configurations: Iterable[Configuration], capacity: int) -> Configuration:
    """Return the configuration that fills the scratchpads most, the first of several such."""
    best = max(configurations, key=lambda tiles: sum(tile.counted for tile in tiles), default=None)
    if best is None:
        raise CannotTile(f"no combination of tiles fits scratchpads of {capacity} elements each")
    return best


def growing(extent: int, step: int) -> range:
    """Return the sizes up to `extent` in steps of `step`, beginning with one step or, if less, all."""
    return range(min(extent, step), extent + 1, step)


def _smallest(tensor: TileShape, strategy: Strategy, minimum: Shape) -> float:
    """Estimate the elements of the smallest tile: the share of one item that the minimum makes up.

    In floating point, as SMAUG does it: a share that is exactly the capacity is decided alike.
    """
    if strategy is Strategy.NONE:
        return tensor.counted
    axes = AXES_OF_RANKS[len(tensor.dims)]
    items = tensor.dims[0]
    per_item = tensor.counted // items
    if strategy is Strategy.N:
        return per_item * min(minimum[0], items)
    elements = float(per_item)
    for axis in strategy.axes[1:]:
        size = tensor.dims[axes.index(axis)]
        elements *= min(minimum[axes.index(axis)], size) / size
    return elements


def _rounded_up(size: int, alignment: int) -> int:
    return size + -size % alignment


def _tile_sizes(extent: int, rule: TileRule, rank: int, capacity: int) -> Sequence[int]:
    return range(min(rule.minimum[rank], extent), min(extent, capacity) + 1, rule.step[rank])


def _positions_within(factors: Sequence[Sequence[int]], room: int) -> Iterator[tuple[int, ...]]:
    """Yield positions in each list (ascending numbers) whose product is at most `room`."""
    if not factors:
        yield ()
        return
    least = math.prod(rest[0] for rest in factors[1:])
    for position, factor in enumerate(factors[0]):
        if factor * least > room:
            return
        for tail in _positions_within(factors[1:], room // factor):
            yield (position, *tail)


class Strategies(NamedTuple):
    """A strategy per tensor, in the order of the operator's shapes."""

    inputs: Strategy
    weights: Strategy
    outputs: Strategy


def feature_combinations(
    tiles: Iterable[TileShape], weights: TileShape, chosen: Strategies, backend: Backend, repad: bool
) -> Iterator[tuple[TileShape, TileShape, int]]:
    """Yield each tile of inputs with each tile of `weights` that goes with it, and features of outputs.

    `repad` says whether weights that are cut along features alone are padded for themselves.
    """
    for inputs in tiles:
        for tile in _weight_tiles(weights, inputs, chosen, backend, repad):
            yield from ((inputs, tile, count) for count in _output_features(tile, weights, chosen, backend))


def _weight_tiles(
    weights: TileShape, inputs: TileShape, chosen: Strategies, backend: Backend, repad: bool
) -> Iterator[TileShape]:
    """Yield the tiles of `weights` that fit and go with the tile `inputs`.

    Features grow by the number of PEs. Channels are those of the inputs' tile, unless the weights are cut
    along them and the inputs are not: then they grow by what a PE reduces at a time.
    """
    channels: Sequence[int] = (inputs.dims[-1],)
    if chosen.weights.cuts("C") and not chosen.inputs.cuts("C"):
        channels = growing(weights.dims[-1], backend.num_maccs_per_pe)
    features: Sequence[int] = (weights.dims[0],)
    if chosen.weights is not Strategy.NONE:
        features = growing(weights.dims[0], backend.num_pes)
    for feature_count in features:
        sizes = ((feature_count, *weights.dims[1:-1], channel_count) for channel_count in channels)
        tiles = (_weight_tile(weights, size, chosen, repad) for size in sizes)
        fitting = list(takewhile(lambda tile: tile.fits(backend.capacity), tiles))
        if not fitting:
            return
        yield from fitting


def _output_features(
    tile: TileShape, weights: TileShape, chosen: Strategies, backend: Backend
) -> Sequence[int]:
    """Return how many features a tile of outputs may have beside the tile of `weights`."""
    if chosen.outputs is Strategy.NONE:
        return (weights.dims[0],)
    if chosen.weights is not Strategy.NONE or chosen.outputs.cuts("H"):
        return (tile.dims[0],)
    return growing(weights.dims[0], backend.num_pes)


def _weight_tile(weights: TileShape, dims: Shape, chosen: Strategies, repad: bool) -> TileShape:
    if repad and chosen.weights is Strategy.N:
        return TileShape.aligned(dims, weights.alignment)
    return weights.shrunk(dims)
