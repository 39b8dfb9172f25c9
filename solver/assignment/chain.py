"""Chains: the shortest path through the layered graph of methods, by dynamic programming in O(N K^2)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from solver.assignment.elimination import Elimination
from solver.assignment.instance import Instance


def find_paths(instance: Instance) -> list[list[int]] | None:
    """Return the variables along every path of the graph, or None where it is no set of paths."""
    neighbours = instance.neighbours()
    if any(len(near) > 2 for near in neighbours):
        return None
    seen: set[int] = set()
    paths = []
    for start, near in enumerate(neighbours):
        if len(near) < 2 and start not in seen:
            path = list(_walk(start, neighbours))
            seen.update(path)
            paths.append(path)
    return paths if len(seen) == len(neighbours) else None


def _walk(start: int, neighbours: list[list[int]]) -> Iterator[int]:
    before, here = -1, start
    while True:
        yield here
        onward = [other for other in neighbours[here] if other != before]
        if not onward:
            return
        before, here = here, onward[0]


def relax_path(instance: Instance, path: list[int]) -> Iterator[Elimination]:
    """Yield the layers of a path with their distances from the source, source first.

    The distance of a layer's method is the least cost of a path from the source that ends with it; the
    sink behind the last layer costs nothing, so that the least distance there is the path's cost.
    """
    distances = instance.vectors[path[0]]
    for here, onward in pairwise(path):
        is_upward = here < onward
        matrix = instance.matrices[(here, onward) if is_upward else (onward, here)]
        matrix = matrix if is_upward else matrix.T
        yield Elimination(here, distances, (((onward,), matrix),))
        reached = (distances[:, None] + matrix).min(axis=0)
        distances = np.minimum(reached + instance.vectors[onward], instance.infinity)
    yield Elimination(path[-1], distances, ())
