"""Bucket elimination: variables with any number of neighbours, where the tables stay small.

The general form of the reductions (Dechter, Artificial Intelligence 113, 1999): a variable is folded into a
table over all of its neighbours. Exact; time and memory are exponential in the width of the order alone, so
long networks of narrow blocks take no longer than their blocks.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np

from model.assignment import CostArray
from solver.assignment.elimination import Elimination, Scope
from solver.assignment.instance import Instance

MOST_ENTRIES = 1 << 24
"""Entries of all tables of one elimination together: about a second."""


def plan_order(sizes: Mapping[int, int], near: Mapping[int, Set[int]], most_entries: int) -> list[int] | None:
    """Return an order of elimination; the variable with the smallest table goes first."""
    linked = {variable: set(others) for variable, others in near.items()}

    def entries(variable: int) -> int:
        return sizes[variable] * math.prod(sizes[other] for other in linked[variable])

    waiting = [(entries(variable), variable) for variable in linked]
    heapq.heapify(waiting)
    order = []
    while waiting:
        count, variable = heapq.heappop(waiting)
        if variable not in linked or count != entries(variable):
            continue
        most_entries -= count
        if most_entries < 0:
            return None
        order.append(variable)
        scope = linked.pop(variable)
        for other in scope:
            linked[other] |= scope
            linked[other] -= {variable, other}
            heapq.heappush(waiting, (entries(other), other))
    return order


def eliminate(instance: Instance, order: Sequence[int]) -> Iterator[Elimination]:
    """Yield the variables of `order` as they leave; no other variable is linked to them."""
    rank = {variable: place for place, variable in enumerate(order)}
    vectors = {variable: instance.vectors[variable] for variable in order}
    buckets: dict[int, dict[Scope, CostArray]] = {variable: {} for variable in order}
    for (i, j), matrix in instance.matrices.items():
        if i in rank:
            first, second, table = (i, j, matrix) if rank[i] < rank[j] else (j, i, matrix.T)
            buckets[first][second,] = table
    for variable in order:
        links = tuple(buckets.pop(variable).items())
        yield Elimination(variable, vectors[variable], links)
        scope = tuple(sorted({other for own, _ in links for other in own}, key=rank.__getitem__))
        if not scope:
            continue
        folded = _joined(vectors[variable], links, scope, instance.infinity).min(axis=0)
        first, rest = scope[0], scope[1:]
        present = buckets[first].get(rest, 0) if rest else vectors[first]
        total: CostArray = np.minimum(folded + present, instance.infinity)
        if rest:
            buckets[first][rest] = total
        else:
            vectors[first] = total


def _joined(
    vector: CostArray, links: Sequence[tuple[Scope, CostArray]], scope: Scope, infinity: int
) -> CostArray:
    """Return the sum of a vector and all tables, over the values and all of `scope`."""
    joined = vector.reshape(-1, *(1 for _ in scope))
    for neighbours, table in links:
        sizes = dict(zip(neighbours, table.shape[1:], strict=True))
        aligned = table.reshape(len(vector), *(sizes.get(other, 1) for other in scope))
        joined = np.minimum(joined + aligned, infinity)
    return joined
