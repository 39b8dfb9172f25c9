"""A mapping as Timeloop v4 mapping targets, and their YAML text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml

from model.architecture import Architecture
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.problem import Problem

Target = dict[str, object]

MAX_WIDTH = 10_000


def mapping_targets(problem: Problem, architecture: Architecture, mapping: Mapping) -> list[Target]:
    """Return the targets of a Timeloop v4 ``mapping``, outermost node first.

    All dimensions are listed in ``factors`` and ``permutation`` (innermost first), so that nothing is left
    to a reader's defaults. ``ValueError`` if a node has two loops over one dimension.
    """
    targets: list[Target] = []
    for node, chosen in zip(architecture.nodes, mapping.nodes, strict=True):
        if isinstance(chosen, StorageMapping):
            targets.extend(_storage_targets(problem, node.name, chosen))
        else:
            targets.append(_spatial_target(problem, node.name, chosen))
    return targets


def mapping_yaml(targets: Sequence[Target]) -> str:
    """Return the targets as a YAML document with the top-level key ``mapping``."""
    document = {"mapping": list(targets)}
    return yaml.safe_dump(document, default_flow_style=None, sort_keys=False, width=MAX_WIDTH)


def _storage_targets(problem: Problem, name: str, chosen: StorageMapping) -> Iterator[Target]:
    names = [space.name for space in problem.dataspaces]
    yield {
        "target": name,
        "type": "dataspace",
        "keep": [space for space in names if space in chosen.keep],
        "bypass": [space for space in names if space not in chosen.keep],
    }
    live = [loop for loop in chosen.temporal if loop.bound > 1]
    yield _loops_target(problem, name, "temporal", live)


def _spatial_target(problem: Problem, name: str, chosen: FanoutMapping) -> Target:
    live = [loop for loop in chosen.spatial if loop.bound > 1]
    along_y = [loop for loop in live if loop.axis == "y"]
    in_order = [*(loop for loop in live if loop.axis == "x"), *along_y]
    split = len(problem.dims) - len(along_y)
    return {**_loops_target(problem, name, "spatial", in_order), "split": split}


def _loops_target(problem: Problem, name: str, kind: str, live: Sequence[Loop | SpatialLoop]) -> Target:
    """Return the target of loops, innermost first; dimensions without one come before them."""
    bounds = {loop.dim: loop.bound for loop in live}
    if len(bounds) < len(live):
        raise ValueError("a node has two loops over one dimension")
    return {
        "target": name,
        "type": kind,
        "factors": [f"{dim}={bounds.get(dim, 1)}" for dim in problem.dims],
        "permutation": [*(dim for dim in problem.dims if dim not in bounds), *bounds],
    }
