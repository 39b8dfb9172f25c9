"""The loop nests of a batch of mappings, as arrays with the mappings along the last axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.architecture import Architecture
from model.cost.batch.encoding import Integers, MappingBatch
from model.cost.batch.space import SpaceIndex, distinct_children, extents_of, fresh_by_dim
from model.problem import Problem


@dataclass(frozen=True, eq=False)
class BatchNest:
    """Loops of many mappings.

    Parameters
    ----------
    architecture
        Its nodes, outermost first.
    factors
        Shape ``(nodes, dims, mappings)``.
    bounds
        Shape ``(nodes + 1, dims, mappings)``: iterations at or below each node.
    order
        Shape ``(storage levels, dims, mappings)``: dimensions, innermost first.
    repeats
        Shape ``(storage levels, dims, mappings)``: how often each temporal loop advances.
    """

    architecture: Architecture
    factors: Integers
    bounds: Integers
    order: Integers
    repeats: Integers

    @property
    def steps(self) -> Integers:
        """Product of all temporal bounds, shape ``(mappings,)``."""
        return self.steps_above(len(self.architecture.nodes))

    def steps_above(self, position: int) -> Integers:
        """Product of the temporal bounds above a node."""
        nodes = [index for index in self.architecture.storage_indices if index < position]
        return _product(self.factors[nodes])

    def children(self, position: int) -> Integers:
        """Children in use per instance of the fanout at `position` of the nodes, shape ``(mappings,)``."""
        return _product(self.factors[[position]])

    def instances(self, position: int) -> Integers:
        """Used instances of the node at `position` (their number for the compute), shape ``(mappings,)``."""
        nodes = [index for index in self.architecture.fanout_indices if index < position]
        return _product(self.factors[nodes])

    def multicast(self, index: SpaceIndex, position: int) -> Integers:
        """Distinct tiles among the children of a fanout."""
        return distinct_children(index, self.factors[position], self.bounds[position + 1])

    def delivered(self, index: SpaceIndex, level: int) -> Integers:
        """Words delivered into one instance of a level, by the rule of `model.cost.delivery.changes`."""
        extents = extents_of(index, self.bounds[self.architecture.storage_indices[level]])
        tile: Integers = np.prod(extents, axis=0)
        total = tile.copy()
        innermost, position, fresh = np.zeros_like(tile), np.zeros_like(tile), np.zeros_like(tile)
        for outer in reversed(range(level)):
            node = self.architecture.storage_indices[outer]
            strides = self.bounds[node + 1]
            moves = np.where(self.factors[node] > 1, index.keys[:, None] * strides, 0)
            moves = np.take_along_axis(moves, self.order[outer], axis=0)
            renewed = np.take_along_axis(fresh_by_dim(index, extents, strides), self.order[outer], axis=0)
            for loop, move in enumerate(moves):
                fresh = np.where(innermost == 0, renewed[loop], fresh)
                innermost = np.where(innermost == 0, move, innermost)
                jump = move - position
                change = np.where(jump == innermost, fresh, tile)
                total += self.repeats[outer, loop] * np.where(jump == 0, 0, change)
                position += move
        return total


def _product(factors: Integers) -> Integers:
    product: Integers = np.prod(factors, axis=(0, 1))
    return product


def unroll(problem: Problem, architecture: Architecture, batch: MappingBatch) -> BatchNest:
    """Lay out the loops of all mappings.

    Raises
    ------
    ValueError
        If an array has the wrong shape, the factors of a dimension do not multiply to its bound, or
        an order is no permutation.
    """
    size, levels, dims = len(batch), len(architecture.levels), len(problem.dims)
    if batch.factors.shape != (size, len(architecture.nodes), dims):
        raise ValueError(f"factors have shape {batch.factors.shape}")
    if batch.order.shape != (size, levels, dims) or batch.keep.shape != (
        size,
        levels,
        len(problem.dataspaces),
    ):
        raise ValueError(f"order and keep have shapes {batch.order.shape} and {batch.keep.shape}")
    if not (np.sort(batch.order, axis=2) == np.arange(dims)).all():
        raise ValueError("an order is not a permutation of the dimensions")
    factors = np.ascontiguousarray(batch.factors.transpose(1, 2, 0))
    order = np.ascontiguousarray(batch.order.transpose(1, 2, 0))
    bounds = np.ones((len(factors) + 1, dims, size), dtype=np.int64)
    np.cumprod(factors[::-1], axis=0, out=bounds[-2::-1])
    if not (problem.bounds == bounds[0].T).all():
        raise ValueError("the factors of a dimension do not multiply to its bound")
    return BatchNest(architecture, factors, bounds, order, _repeats(architecture, factors, order))


def _repeats(architecture: Architecture, factors: Integers, order: Integers) -> Integers:
    """How often each temporal loop advances: all its steps but one, per iteration of the outer loops."""
    repeats = np.empty_like(order)
    outside = np.ones(order.shape[2], dtype=np.int64)
    for level, node in enumerate(architecture.storage_indices):
        bounds = np.take_along_axis(factors[node], order[level], axis=0)
        for loop in reversed(range(len(bounds))):
            inside = outside * bounds[loop]
            repeats[level, loop] = inside - outside
            outside = inside
    return repeats
