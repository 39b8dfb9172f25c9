"""The choices that a proof has to cover: levels that keep dataspaces, and spatial factors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, combinations

from model.architecture import Architecture, Fanout
from model.mapspace import FactorRule, Mapspace, SpatialRules
from model.numbers import divisors

Factors = tuple[int, ...]
"""A factor per dimension, in the problem's order."""


def keep_sets(mapspace: Mapspace, dataspace: str) -> Iterator[tuple[int, ...]]:
    """Yield the sets of storage levels (positions, ascending) that may keep `dataspace`."""
    levels = range(len(mapspace.keep))
    banned = {level for level in levels if dataspace in mapspace.keep[level].bypass}
    forced = {level for level in levels if dataspace in mapspace.keep[level].keep} | ({0} - banned)
    if forced & banned:
        return
    free = [level for level in levels if level not in forced | banned]
    for chosen in chain.from_iterable(combinations(free, size) for size in range(len(free) + 1)):
        kept = forced.union(chosen)
        if _in_groups(mapspace, kept) and _keeps(mapspace.architecture, dataspace, kept):
            yield tuple(sorted(kept))


def _in_groups(mapspace: Mapspace, kept: set[int]) -> bool:
    counts = ((len(kept.intersection(group.levels)), group.may_skip) for group in mapspace.parallel)
    return all(count == 1 or (count == 0 and may_skip) for count, may_skip in counts)


def _keeps(architecture: Architecture, dataspace: str, kept: set[int]) -> bool:
    """Whether some level holds the dataspace itself; those that only pass it on do not count."""
    return any(dataspace not in architecture.levels[level].no_coalesce for level in kept)


def spatial_choices(mapspace: Mapspace) -> list[tuple[Factors, ...]]:
    """Return the spatial factors per fanout that the rules, the meshes and the bounds allow."""
    fanouts = list(zip(mapspace.architecture.fanouts, mapspace.spatial, strict=True))
    dims, bounds = mapspace.problem.dims, mapspace.problem.bounds
    found: list[tuple[tuple[Factors, ...], Factors]] = [((), bounds)]
    for fanout, rules in fanouts:
        own = [
            factors
            for factors in _factors(dims, bounds, fanout, rules)
            if _fits(dims, fanout, rules, factors)
        ]
        found = [
            ((*chosen, factors), tuple(rest // factor for rest, factor in zip(left, factors, strict=True)))
            for chosen, left in found
            for factors in own
            if all(rest % factor == 0 for rest, factor in zip(left, factors, strict=True))
        ]
    least = mapspace.min_parallelism
    return [chosen for chosen, _ in found if math.prod(map(math.prod, chosen)) >= least]


def _factors(
    dims: Sequence[str], bounds: Sequence[int], fanout: Fanout, rules: SpatialRules
) -> list[Factors]:
    found: list[Factors] = [()]
    for dim, bound in zip(dims, bounds, strict=True):
        allowed = [factor for factor in divisors(bound) if _allows(rules.factors, dim, factor)]
        found = [
            (*own, factor) for own in found for factor in allowed if math.prod(own) * factor <= fanout.size
        ]
    return found


def _allows(rules: Sequence[FactorRule], dim: str, factor: int) -> bool:
    return all(rule.allows(factor) for rule in rules if rule.dim == dim)


def _fits(dims: Sequence[str], fanout: Fanout, rules: SpatialRules, factors: Factors) -> bool:
    """Whether some arrangement on X and Y fits the mesh."""
    factor = dict(zip(dims, factors, strict=True))
    for along_x in _arrangements(dims, rules, [dim for dim in dims if factor[dim] > 1]):
        width = math.prod(factor[dim] for dim in along_x)
        if width <= fanout.mesh_x and math.prod(factors) // width <= fanout.mesh_y:
            return True
    return False


def _arrangements(dims: Sequence[str], rules: SpatialRules, live: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield the sets of live dimensions that may lie along X."""
    unlisted = [dim for dim in dims if dim not in (*rules.inner, *rules.outer, *rules.uncounted)]
    free = [dim for dim in unlisted if dim in live]
    idle = len(unlisted) - len(free)
    places = len(rules.inner) + len(unlisted) + len(rules.outer)
    for split in range(places + 1) if rules.split is None else (rules.split,):
        middle = min(max(0, split - len(rules.inner)), len(unlisted))
        ends = (*rules.inner[:split], *rules.outer[: max(0, split - len(rules.inner) - len(unlisted))])
        for count in range(max(0, middle - idle), min(middle, len(free)) + 1):
            for chosen in combinations(free, count):
                yield (*(dim for dim in ends if dim in live), *chosen)
