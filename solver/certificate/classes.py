"""The choices that a proof has to cover: levels that keep dataspaces, and spatial factors."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

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


def count_spatial_choices(mapspace: Mapspace) -> int:
    """Count the choices of spatial factors per fanout that the rules, the meshes and the bounds allow.

    Arrangements along X and Y that differ are one choice; none uses fewer units than the mapspace asks for.
    """
    dims, bounds = mapspace.problem.dims, mapspace.problem.bounds
    # Choices that leave the same bounds to the fanouts inside of them go on alike.
    count: dict[Factors, int] = {bounds: 1}
    for fanout, rules in zip(mapspace.architecture.fanouts, mapspace.spatial, strict=True):
        order = SideOrder.of(rules, dims)
        fitting = [
            vector for vector in _factors(dims, bounds, fanout, rules) if _fits(dims, fanout, order, vector)
        ]
        count = _divided(count, fitting)
    computes = math.prod(bounds)
    return sum(
        number for left, number in count.items() if computes // math.prod(left) >= mapspace.min_parallelism
    )


def _divided(count: Mapping[Factors, int], factors: Iterable[Factors]) -> Counter[Factors]:
    """Count what is left after one more fanout, whose factors have to divide what was left before."""
    divided: Counter[Factors] = Counter()
    for left, vector in product(count, factors):
        if not any(map(operator.mod, left, vector)):
            divided[tuple(map(operator.floordiv, left, vector))] += count[left]
    return divided


def _factors(
    dims: Sequence[str], bounds: Sequence[int], fanout: Fanout, rules: SpatialRules
) -> list[Factors]:
    vectors: list[Factors] = [()]
    for dim, bound in zip(dims, bounds, strict=True):
        allowed = allowed_factors(rules.factors, dim, bound)
        vectors = [
            (*vector, factor)
            for vector in vectors
            for factor in allowed
            if math.prod(vector) * factor <= fanout.size
        ]
    return vectors


def _fits(dims: Sequence[str], fanout: Fanout, order: SideOrder, factors: Factors) -> bool:
    """Whether some arrangement on X and Y fits the mesh."""
    factor = dict(zip(dims, factors, strict=True))
    for along_x in order.sets_along_x([dim for dim in dims if factor[dim] > 1]):
        width = math.prod(factor[dim] for dim in along_x)
        if width <= fanout.mesh_x and math.prod(factors) // width <= fanout.mesh_y:
            return True
    return False
