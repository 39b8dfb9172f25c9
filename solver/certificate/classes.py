"""The choices that a proof has to cover, each with a count and a floor that is cheap to recompute.

The floors are far below the optimum. They are no part of the checker's argument, which bounds every
choice on its own; they let a reader see what has been covered, and a checker see what has been left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, combinations, product

from model.architecture import Architecture, Fanout, StorageLevel
from model.cost.tiles import tile_words
from model.mapspace import FactorRule, Mapspace, SpatialRules
from model.numbers import divisors
from model.problem import Dataspace

Factors = tuple[int, ...]
"""A factor per dimension, in the problem's order."""


def covered_choices(mapspace: Mapspace) -> dict[str, object]:
    """Return the spatial choices and the sets of keeping levels of `mapspace`.

    Returns
    -------
    dict
        ``spatial_choices``: number of ways to choose the spatial factors of all fanouts.
        ``least_cycles``: least product of the temporal bounds among them, None if there are none.
        ``keep_sets``: per dataspace and set of levels that may keep it, the number of its tiles that fit
        each of these levels alone, and the least energy of the accesses that serve the arithmetic.
    """
    spatial = spatial_choices(mapspace)
    computes = mapspace.problem.computes
    steps = [computes // math.prod(map(math.prod, choice)) for choice in spatial]
    return {
        "spatial_choices": len(spatial),
        "least_cycles": min(steps, default=None),
        "keep_sets": [
            {
                "dataspace": space.name,
                "levels": list(levels),
                "tiles": [_fitting_tiles(mapspace, space, level) for level in levels],
                "floor": _operand_floor(mapspace, space, levels[-1], spatial, steps) if spatial else None,
            }
            for space in mapspace.problem.dataspaces
            for levels in keep_sets(mapspace, space.name)
        ],
    }


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


def _fitting_tiles(mapspace: Mapspace, space: Dataspace, level: int) -> int:
    """Number of tiles (divisors of the bounds of its dimensions) that fit the level with nothing else."""
    limit = mapspace.architecture.levels[level].usable_words
    dims = [dim for dim in mapspace.problem.dims if dim in space.dims]
    choices = product(*(divisors(mapspace.problem.bound[dim]) for dim in dims))
    if limit is None:
        return math.prod(len(divisors(mapspace.problem.bound[dim])) for dim in dims)
    return sum(tile_words(space, dict(zip(dims, extents, strict=True))) <= limit for extents in choices)


def _operand_floor(
    mapspace: Mapspace,
    space: Dataspace,
    level: int,
    spatial: Sequence[tuple[Factors, ...]],
    steps: Sequence[int],
) -> int:
    """Least energy of the accesses by which `level` serves the arithmetic, over all spatial choices.

    Children that need different words are at least as many as the largest factor of a dimension that
    indexes the dataspace, in each fanout.
    """
    architecture = mapspace.architecture
    position = architecture.storage_indices[level]
    storage = architecture.levels[level]
    above = sum(index < position for index in architecture.fanout_indices)
    price = storage.energy.update if space.read_write else storage.energy.read
    relevant = [index for index, dim in enumerate(mapspace.problem.dims) if dim in space.dims]
    return price * min(
        _paying(architecture, storage, position, choice[:above])
        * -(
            -served
            * _distinct(architecture.fanouts[above:], space.name, choice[above:], relevant)
            // storage.block_size
        )
        for choice, served in zip(spatial, steps, strict=True)
    )


def _paying(
    architecture: Architecture, storage: StorageLevel, position: int, above: Sequence[Factors]
) -> int:
    used = math.prod(map(math.prod, above))
    return min(used, max(1, architecture.instances_above(position) // storage.cluster_size))


def _distinct(
    fanouts: Sequence[Fanout], space: str, choice: Sequence[Factors], relevant: Sequence[int]
) -> int:
    return math.prod(
        math.prod(factors) if space in fanout.no_multicast else max((factors[i] for i in relevant), default=1)
        for fanout, factors in zip(fanouts, choice, strict=True)
    )
