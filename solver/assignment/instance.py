"""A network as the solvers see it: numbered variables, cost vectors, and a matrix per interacting pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.network import FORBIDDEN, CostArray, Network

LARGEST_INT64 = 1 << 60
"""Up to this total, sums of three infinities stay within 64 bits."""

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Instance:
    """Choose a value per variable so that the vectors and matrices add up to the least.

    Parameters
    ----------
    vectors
        Per variable the cost of each value, shape (values,).
    matrices
        Per pair (i, j), i < j, the cost of each pair of values, shape (values of i, values of j).
        Pairs that do not interact are left out.
    infinity
        Larger than any assignment without a forbidden choice. Sums are cut off there.
    """

    vectors: list[CostArray]
    matrices: dict[Pair, CostArray]
    infinity: int

    @classmethod
    def of(cls, network: Network) -> Instance:
        """Return the instance of a network."""
        arrays = [layer.costs for layer in network.layers]
        arrays += [edge.transition for edge in network.edges if edge.transition is not None]
        infinity = 1 + sum(max(0, int(costs.max())) for costs in arrays)
        dtype = np.int64 if infinity <= LARGEST_INT64 else object

        def finite(costs: CostArray) -> CostArray:
            costs = costs.astype(dtype, copy=False)
            return np.where(costs == FORBIDDEN, infinity, costs) if costs.min() == FORBIDDEN else costs

        matrices: dict[Pair, CostArray] = {}
        for edge in network.edges:
            if edge.transition is None or not edge.transition.any():
                continue
            matrix = finite(edge.transition)
            is_upward = edge.source < edge.target
            pair = (edge.source, edge.target) if is_upward else (edge.target, edge.source)
            matrices[pair] = matrix if is_upward else matrix.T
        return cls([finite(layer.costs) for layer in network.layers], matrices, infinity)

    def neighbours(self) -> list[list[int]]:
        """Return the variables that each variable interacts with."""
        found: list[list[int]] = [[] for _ in self.vectors]
        for i, j in self.matrices:
            found[i].append(j)
            found[j].append(i)
        return found
