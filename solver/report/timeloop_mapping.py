"""A mapping as Timeloop v4 mapping targets, and their YAML text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Named

import yaml

from model.architecture import Architecture
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.problem import Problem

Target = dict[str, object]

_Counted = tuple[Loop | SpatialLoop, int]
"""A loop, and its iterations in the last pass over its dimension."""

MAX_WIDTH = 10_000


def mapping_targets(problem: Problem, architecture: Architecture, mapping: Mapping) -> list[Target]:
    """Return the targets of a Timeloop v4 ``mapping``, outermost node first.

    All dimensions are listed in ``factors`` and ``permutation`` (innermost first), so that nothing is left
    to a reader's defaults. A factor whose last pass is cut short has its remainder beside it: ``P=4,3``.
    ``ValueError`` if a node has two loops over one dimension.
    """
    targets: list[Target] = []
    remainders = mapping.remainders(problem.bound)
    for node, chosen, last in zip(architecture.nodes, mapping.nodes, remainders, strict=True):
        if isinstance(chosen, StorageMapping):
            targets.extend(_storage_targets(problem, node.name, chosen, last))
        else:
            targets.append(_spatial_target(problem, node.name, chosen, last))
    return targets


def mapping_yaml(targets: Sequence[Target]) -> str:
    """Return the targets as a YAML document with the top-level key ``mapping``.

    The factors of a target with remainders are one text, ``P=4,3 Q=2``: Timeloop's programs read those only
    there, and not in a list.
    """
    document = {"mapping": [{key: _as_text(value) for key, value in target.items()} for target in targets]}
    return yaml.safe_dump(document, default_flow_style=None, sort_keys=False, width=MAX_WIDTH)


def has_remainders(targets: Sequence[Target]) -> bool:
    """Whether a loop of the targets has its remainder beside its factor."""
    return any(_as_text(value) is not value for target in targets for value in target.values())


def _as_text(value: object) -> object:
    """Return factors with remainders as one text, and everything else as it is."""
    if isinstance(value, list) and any("," in item for item in value):
        return " ".join(value)
    return value


def _storage_targets(
    problem: Problem, name: str, chosen: StorageMapping, remainders: Sequence[int]
) -> Iterator[Target]:
    names = [space.name for space in problem.dataspaces]
    yield {
        "target": name,
        "type": "dataspace",
        "keep": [space for space in names if space in chosen.keep],
        "bypass": [space for space in names if space not in chosen.keep],
    }
    yield _loops_target(problem, name, "temporal", _iterating(chosen.temporal, remainders))


def _spatial_target(problem: Problem, name: str, chosen: FanoutMapping, remainders: Sequence[int]) -> Target:
    live = _iterating(chosen.spatial, remainders)
    along_y = [loop for loop in live if isinstance(loop[0], SpatialLoop) and loop[0].axis == "y"]
    in_order = [*(loop for loop in live if loop not in along_y), *along_y]
    split = len(problem.dims) - len(along_y)
    return {**_loops_target(problem, name, "spatial", in_order), "split": split}


def _iterating(loops: Sequence[Loop | SpatialLoop], remainders: Sequence[int]) -> list[_Counted]:
    """Return the loops that iterate, each with its iterations in the last pass."""
    return [pair for pair in zip(loops, remainders, strict=True) if pair[0].bound > 1]


def _loops_target(problem: Problem, name: str, kind: str, live: Sequence[_Counted]) -> Target:
    """Return the target of loops, innermost first; dimensions without one come before them."""
    bounds = {loop.dim: loop.bound for loop, _ in live}
    if len(bounds) < len(live):
        raise ValueError("a node has two loops over one dimension")
    short = {loop.dim: remainder for loop, remainder in live if remainder < loop.bound}
    factors = [f"{dim}={bounds.get(dim, 1)}{_remainder(short, dim)}" for dim in problem.dims]
    return {
        "target": name,
        "type": kind,
        "factors": factors,
        "permutation": [*(dim for dim in problem.dims if dim not in bounds), *bounds],
    }


def _remainder(short: Named[str, int], dim: str) -> str:
    return f",{short[dim]}" if dim in short else ""
