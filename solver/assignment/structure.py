"""What kind of graph a network is, by its shape alone."""

from __future__ import annotations

from solver.assignment.instance import Instance

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
