"""Whether a mapping is one of a problem on an architecture at all."""

from __future__ import annotations

from collections.abc import Container

from model.architecture import Architecture, Fanout
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.problem import Problem


def check_nodes(architecture: Architecture, mapping: Mapping) -> None:
    """Check that a mapping has one entry of the right kind per node.

    Raises
    ------
    ValueError
        If it has not.
    """
    if len(mapping.nodes) != len(architecture.nodes):
        raise ValueError(f"mapping has {len(mapping.nodes)} nodes, architecture {len(architecture.nodes)}")
    for node, entry in zip(reversed(architecture.nodes), reversed(mapping.nodes), strict=True):
        if isinstance(node, Fanout) != isinstance(entry, FanoutMapping):
            raise ValueError(f"mapping of node {node.name!r} is of the wrong kind")


def check_loop(loop: Loop | SpatialLoop, dims: Container[str]) -> None:
    """Check that a loop is over a dimension of the problem, and iterates at least once.

    Raises
    ------
    ValueError
        If it is not, or does not.
    """
    if loop.dim not in dims:
        raise ValueError(f"loop over {loop.dim!r}, which is no dimension of the problem")
    if loop.bound < 1:
        raise ValueError(f"loop over {loop.dim!r} with the bound {loop.bound}")


def check_keeps(problem: Problem, mapping: Mapping) -> None:
    """Check that levels keep none but dataspaces of the problem.

    Raises
    ------
    ValueError
        If one keeps anything else.
    """
    known = {space.name for space in problem.dataspaces}
    for entry in mapping.nodes:
        unknown = entry.keep - known if isinstance(entry, StorageMapping) else frozenset()
        if unknown:
            raise ValueError(f"mapping keeps unknown dataspaces {sorted(unknown)}")
