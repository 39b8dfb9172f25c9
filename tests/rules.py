"""Whether rules allow a mapping, by their definitions.

It shares only the units in use, and what the places of a memory may do, with the enumeration.
"""

from __future__ import annotations

import math
from itertools import permutations

from model.architecture import Fanout, StorageLevel
from model.mapping import FanoutMapping, Loop, Mapping
from model.mapspace import FactorRule, Mapspace, SpatialRules, TemporalRules
from model.problem import Problem
from tests.bruteforce import places_allowed, units_in_use


def allows(mapspace: Mapspace, mapping: Mapping) -> bool:
    """Whether every rule of a mapspace allows `mapping`."""
    parts = list(zip(mapspace.architecture.nodes, mapping.nodes, strict=True))
    storage = [part for node, part in parts if isinstance(node, StorageLevel)]
    spatial = [part for node, part in parts if isinstance(node, Fanout)]
    return (
        all(
            factors_allowed(mapspace.problem, rules.factors, part.temporal)
            and order_allowed(rules, [loop.dim for loop in part.temporal])
            for rules, part in zip(mapspace.temporal, storage, strict=True)
        )
        and all(
            factors_allowed(mapspace.problem, rules.factors, part.spatial)
            and axes_allowed(mapspace.problem, rules, fanout, part)
            for rules, fanout, part in zip(
                mapspace.spatial, mapspace.architecture.fanouts, spatial, strict=True
            )
        )
        and all(
            rules.keep <= part.keep and not rules.bypass & part.keep
            for rules, part in zip(mapspace.keep, storage, strict=True)
        )
        and all(
            sum(name in storage[level].keep for level in group.levels)
            in ((0, 1) if group.may_skip and name not in group.always else (1,))
            for group in mapspace.parallel
            for name in (space.name for space in mapspace.problem.dataspaces)
        )
        and places_allowed(mapspace, [part.temporal for part in storage], [part.keep for part in storage])
        and _units(mapspace, mapping) >= mapspace.min_parallelism
    )


def _units(mapspace: Mapspace, mapping: Mapping) -> int:
    """Arithmetic units that any iteration is computed on."""
    ones = dict.fromkeys(mapspace.problem.dims, 1)
    factors = [
        ones
        | {
            loop.dim: loop.bound
            for loop in (part.spatial if isinstance(part, FanoutMapping) else part.temporal)
        }
        for part in mapping.nodes
    ]
    return units_in_use(mapspace.problem, factors, mapspace.architecture.fanout_indices)


def factors_allowed(problem: Problem, rules: tuple[FactorRule, ...], loops: tuple[Loop, ...]) -> bool:
    """Whether the loops of a node have factors that its rules allow."""
    factor = dict.fromkeys(problem.dims, 1) | {loop.dim: loop.bound for loop in loops}
    return all(rule.allows(factor[rule.dim]) for rule in rules)


def order_allowed(rules: TemporalRules, order: list[str]) -> bool:
    """Whether temporal loops, innermost first, end on both sides as they must."""
    inner = [dim for dim in rules.inner if dim in order]
    outer = [dim for dim in rules.outer if dim in order]
    return order[: len(inner)] == inner and order[len(order) - len(outer) :] == outer


def axes_allowed(problem: Problem, rules: SpatialRules, fanout: Fanout, part: FanoutMapping) -> bool:
    """Whether some order and split of a fanout's dimensions fits its mesh."""
    factor = dict.fromkeys(problem.dims, 1) | {loop.dim: loop.bound for loop in part.spatial}
    listed = (*rules.inner, *rules.outer, *rules.uncounted)
    middles = permutations([dim for dim in problem.dims if dim not in listed])
    for order in ((*rules.inner, *middle, *rules.outer) for middle in middles):
        for split in range(len(order) + 1) if rules.split is None else [rules.split]:
            width = math.prod(factor[dim] for dim in order[:split])
            height = math.prod(factor[dim] for dim in order[split:])
            if width <= fanout.mesh_x and height <= fanout.mesh_y:
                return True
    return False
