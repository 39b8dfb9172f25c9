"""A network as the solvers see it: numbered variables, cost vectors, and a matrix per interacting pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model.assignment import FORBIDDEN, LARGEST_TOTAL, CostArray, CostedNetwork

Pair = tuple[int, int]

Choice = tuple[int, ...]
"""A value per variable."""


@dataclass(frozen=True, eq=False)
class Instance:
    """Choose a value per variable so that the vectors and matrices add up to the least."""

    vectors: list[CostArray]  # per variable the cost of each value, shape (values,)
    # Per pair (i, j), i < j, the cost of each pair of values, shape (values of i, values of j). Pairs that do
    # not interact are left out.
    matrices: dict[Pair, CostArray]
    infinity: int  # larger than any assignment without a forbidden choice. Sums are cut off there.

    @classmethod
    def of(cls, network: CostedNetwork) -> Instance:
        """Return the instance of a network."""
        edges = [(edge, edge.transition) for edge in network.edges if edge.transition is not None]
        arrays = [*(layer.costs for layer in network.layers), *(matrix for _, matrix in edges)]
        least, most = _extremes(arrays)
        infinity = 1 + sum(max(0, own) for own in most)
        dtype = np.int64 if infinity <= LARGEST_TOTAL else object
        finite = [
            np.where(costs == FORBIDDEN, infinity, costs.astype(dtype, copy=False))
            if lowest == FORBIDDEN
            else costs.astype(dtype, copy=False)
            for costs, lowest in zip(arrays, least, strict=True)
        ]
        count = len(network.layers)
        matrices: dict[Pair, CostArray] = {}
        for (edge, _), matrix, *extremes in zip(
            edges, finite[count:], least[count:], most[count:], strict=True
        ):
            if not any(extremes):
                continue
            is_upward = edge.source < edge.target
            pair = (edge.source, edge.target) if is_upward else (edge.target, edge.source)
            joined = matrix if is_upward else matrix.T
            if pair in matrices:  # parallel edges add up
                joined = np.minimum(matrices[pair] + joined, infinity)
            matrices[pair] = joined
        return cls(finite[:count], matrices, infinity)

    def neighbours(self) -> list[list[int]]:
        """Return the variables that each variable interacts with."""
        neighbours: list[list[int]] = [[] for _ in self.vectors]
        for i, j in self.matrices:
            neighbours[i].append(j)
            neighbours[j].append(i)
        return neighbours

    def matrices_from(self) -> list[list[tuple[int, CostArray]]]:
        """Return per variable its neighbours, each with the matrix that has the variable's values outside."""
        near: list[list[tuple[int, CostArray]]] = [[] for _ in self.vectors]
        for (i, j), matrix in self.matrices.items():
            near[i].append((j, matrix))
            near[j].append((i, matrix.T))
        return near

    def costs_of(
        self, near: Sequence[Sequence[tuple[int, CostArray]]], choice: Sequence[int], variable: int
    ) -> CostArray:
        """Return what each value of a variable costs while the others keep theirs."""
        costs = self.vectors[variable]
        for other, matrix in near[variable]:
            costs = np.minimum(costs + matrix[:, choice[other]], self.infinity)
        return costs


def _extremes(arrays: Sequence[CostArray]) -> tuple[list[int], list[int]]:
    """Return the least and the largest entry of each array; all at once, as there may be many small ones."""
    starts = np.cumsum([0, *(array.size for array in arrays[:-1])])
    entries = np.concatenate([array.ravel() for array in arrays])
    return np.minimum.reduceat(entries, starts).tolist(), np.maximum.reduceat(entries, starts).tolist()


def part_of(instance: Instance, variables: Sequence[int]) -> Instance:
    """Return the instance of some variables alone, numbered as in `variables` (ascending)."""
    number = {variable: position for position, variable in enumerate(variables)}
    matrices = {(number[i], number[j]): matrix for (i, j), matrix in instance.matrices.items() if i in number}
    return Instance([instance.vectors[v] for v in variables], matrices, instance.infinity)


def price(instance: Instance, choice: Sequence[int]) -> int:
    """Return the exact total of an assignment; at least `infinity` where it is forbidden."""
    total = sum(int(vector[k]) for vector, k in zip(instance.vectors, choice, strict=True))
    return total + sum(int(matrix[choice[i], choice[j]]) for (i, j), matrix in instance.matrices.items())


def descend(instance: Instance, start: Sequence[int]) -> Choice | None:
    """Improve an assignment by changes of single values; None if what no change improves is forbidden."""
    near = instance.matrices_from()
    choice, before = list(start), list[int]()
    while choice != before:
        before = choice.copy()
        for i, value in enumerate(before):
            costs = instance.costs_of(near, choice, i)
            best = int(costs.argmin())
            choice[i] = best if costs[best] < costs[value] else value
    return tuple(choice) if price(instance, choice) < instance.infinity else None


def best_neighbour(instance: Instance, choice: Choice) -> Choice | None:
    """Return the best assignment that differs from `choice` in one value, None if all are forbidden."""
    near = instance.matrices_from()
    changes = []
    for i, value in enumerate(choice):
        costs = instance.costs_of(near, choice, i)
        margins = [int(cost) - int(costs[value]) for cost in costs]
        changes += [(margin, i, k) for k, margin in enumerate(margins) if k != value]
    if not changes:
        return None
    _, i, k = min(changes)
    neighbour = (*choice[:i], k, *choice[i + 1 :])
    return neighbour if price(instance, neighbour) < instance.infinity else None


CHAIN, TREE, SERIES_PARALLEL, GENERAL = "chain", "tree", "series-parallel", "general"


def graph_structure(instance: Instance) -> str:
    """Return the narrowest kind that holds the graph of interacting layers.

    Every connected part of a ``chain`` is a path, of a ``tree`` has no ring, and of a ``series-parallel``
    graph vanishes when nodes with two neighbours at most are taken out, joining those neighbours.
    """
    neighbours = instance.neighbours()
    has_ring, has_rest = _eliminate([set(near) for near in neighbours])
    if has_rest:
        return GENERAL
    if has_ring:
        return SERIES_PARALLEL
    return CHAIN if max(map(len, neighbours)) <= 2 else TREE


def _eliminate(near: list[set[int]]) -> tuple[bool, bool]:
    """Take out nodes with two neighbours at most, in place; those with fewer go first."""
    gone = [False] * len(near)
    has_ring = False
    leaves = [node for node, neighbours in enumerate(near) if len(neighbours) <= 1]
    bends = [node for node, neighbours in enumerate(near) if len(neighbours) == 2]
    while leaves or bends:
        node = leaves.pop() if leaves else bends.pop()
        ends = tuple(near[node])
        if gone[node] or len(ends) > 2:
            continue
        gone[node] = True
        for end in ends:
            near[end].discard(node)
        if len(ends) == 2:
            has_ring = True
            near[ends[0]].add(ends[1])
            near[ends[1]].add(ends[0])
        for end in ends:
            (leaves if len(near[end]) <= 1 else bends).append(end)
    return has_ring, not all(gone)
