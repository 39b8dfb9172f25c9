"""What all optimizers share: the strategy of a tensor, its tile shapes, and the choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from model.tiling.operators import AXES_OF_RANKS, Shape
from model.tiling.tilings import Strategy
from solver.heuristics.smaug.sizes import TileShape

ENUMERATION_ORDER = "NCHW"
"""Outermost to innermost; of several equally large configurations the first one is taken."""


class CannotTile(Exception):  # noqa: N818 (an answer, not a malfunction)
    """No tiling of this kind fits into the scratchpads; the message says which tensor is why."""


@dataclass(frozen=True, slots=True)
class TileRule:
    """The smallest useful tile of a tensor, and by how much each rank grows from there."""

    minimum: Shape
    step: Shape


@dataclass(frozen=True, slots=True)
class Configuration:
    """One tile shape per tensor.

    Parameters
    ----------
    weights
        None for operators without any.
    """

    inputs: TileShape
    outputs: TileShape
    weights: TileShape | None = None

    @property
    def elements(self) -> int:
        """Elements of all scratchpads that are in use."""
        weights = 0 if self.weights is None else self.weights.counted
        return self.inputs.counted + weights + self.outputs.counted


def best_strategy(
    name: str, tensor: TileShape, minimum: Shape, capacity: int, order: Iterable[Strategy]
) -> Strategy:
    """Return the first strategy of `order` by which `tensor` can be cut to at most `capacity` elements.

    Raises
    ------
    CannotTile
        If none does.
    """
    axes = AXES_OF_RANKS[len(tensor.dims)]
    for strategy in order:
        if set(strategy.axes) <= set(axes) and _smallest(tensor, strategy, minimum) <= capacity:
            return strategy
    raise CannotTile(
        f"no strategy cuts the {name} {list(tensor.dims)} into tiles of at most {capacity} elements"
    )


def tile_shapes(tensor: TileShape, strategy: Strategy, rule: TileRule, capacity: int) -> Iterator[TileShape]:
    """Yield the tiles of at most `capacity` elements that `strategy` allows.

    Ranks that it does not cut are whole; those that it cuts grow from the minimum by the step.
    """
    axes = AXES_OF_RANKS[len(tensor.dims)]
    order = [axes.index(axis) for axis in ENUMERATION_ORDER if axis in axes]
    choices = [
        _sizes(tensor.dims[rank], rule, rank, capacity) if strategy.cuts(axes[rank]) else (tensor.dims[rank],)
        for rank in order
    ]
    stored = [
        [_aligned(size, tensor.alignment) if rank == len(axes) - 1 else size for size in sizes]
        for rank, sizes in zip(order, choices, strict=True)
    ]
    for positions in _positions_within(stored, capacity):
        dims = {
            rank: sizes[position] for rank, sizes, position in zip(order, choices, positions, strict=True)
        }
        yield TileShape.aligned(tuple(dims[rank] for rank in range(len(axes))), tensor.alignment)


def fullest(configurations: Iterable[Configuration], capacity: int) -> Configuration:
    """Return the configuration that fills the scratchpads most, the first of several such.

    Raises
    ------
    CannotTile
        If there is none.
    """
    best = max(configurations, key=lambda configuration: configuration.elements, default=None)
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


def _aligned(size: int, alignment: int) -> int:
    return size + -size % alignment


def _sizes(extent: int, rule: TileRule, rank: int, capacity: int) -> Sequence[int]:
    return range(min(rule.minimum[rank], extent), min(extent, capacity) + 1, rule.step[rank])


def _positions_within(factors: Sequence[Sequence[int]], room: int) -> Iterator[tuple[int, ...]]:
    """Yield positions in each list (ascending numbers) whose product is at most `room`."""
    if not factors:
        yield ()
        return
    least = 1
    for rest in factors[1:]:
        least *= rest[0]
    for position, factor in enumerate(factors[0]):
        if factor * least > room:
            return
        for tail in _positions_within(factors[1:], room // factor):
            yield (position, *tail)
