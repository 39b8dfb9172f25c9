"""The choices that a proof has to cover: levels that keep dataspaces, and spatial factors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from model.architecture import Architecture, Fanout
from model.choices import SideOrder, allowed_factors, keep_sets
from model.mapspace import Mapspace, SpatialRules

Factors = tuple[int, ...]
"""A factor per dimension, in the problem's order."""


def coalesced_sets(mapspace: Mapspace, dataspace: str) -> Iterator[tuple[int, ...]]:
    """Yield the sets of storage levels (positions, ascending) that may keep `dataspace`, and do hold it."""
    for kept in keep_sets(mapspace, dataspace):
        if _keeps(mapspace.architecture, dataspace, kept):
            yield tuple(sorted(kept))


def _keeps(architecture: Architecture, dataspace: str, kept: frozenset[int]) -> bool:
    """Whether some level holds the dataspace itself; those that only pass it on do not count."""
    return any(dataspace not in architecture.levels[level].no_coalesce for level in kept)


def spatial_choices(mapspace: Mapspace) -> list[tuple[Factors, ...]]:
    """Return the spatial factors per fanout that the rules, the meshes and the bounds allow.

    Returns
    -------
    list
        Per choice and fanout, outermost first, a factor per dimension. Arrangements along X and Y that differ
        are one choice; none of them uses fewer units than the mapspace asks for.
    """
    fanouts = list(zip(mapspace.architecture.fanouts, mapspace.spatial, strict=True))
    dims, bounds = mapspace.problem.dims, mapspace.problem.bounds
    found: list[tuple[tuple[Factors, ...], Factors]] = [((), bounds)]
    for fanout, rules in fanouts:
        order = SideOrder.of(rules, dims)
        own = [
            factors
            for factors in _factors(dims, bounds, fanout, rules)
            if _fits(dims, fanout, order, factors)
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
        allowed = allowed_factors(rules.factors, dim, bound)
        found = [
            (*own, factor) for own in found for factor in allowed if math.prod(own) * factor <= fanout.size
        ]
    return found


def _fits(dims: Sequence[str], fanout: Fanout, order: SideOrder, factors: Factors) -> bool:
    """Whether some arrangement on X and Y fits the mesh."""
    factor = dict(zip(dims, factors, strict=True))
    for along_x in order.sets_along_x([dim for dim in dims if factor[dim] > 1]):
        width = math.prod(factor[dim] for dim in along_x)
        if width <= fanout.mesh_x and math.prod(factors) // width <= fanout.mesh_y:
            return True
    return False
