"""Small mapspaces whose loops may have any factors, for the checker of certificates."""

from dataclasses import replace
from functools import cache
from random import Random

from model.extents import ANY
from model.mapspace import Mapspace
from model.mapspace_size import mapspace_size
from tests.bruteforce import count_mappings
from tests.strategies import endless_mapspaces

BOUNDS = (1, 2, 3, 3, 4, 5, 5, 6, 7)
MOST = 10_000
"""Factorizations, most of which may keep too few units busy, that are looked at for one mapspace."""


@cache
def mapspaces_with_any_factors(seed: int, count: int, most: int) -> tuple[Mapspace, ...]:
    """Random mapspaces of two dimensions at least, of 20 to `most` mappings; few bounds divide."""
    random, found = Random(seed), []
    for drawn in endless_mapspaces(seed, 40):
        problem = drawn.problem
        bounds = tuple(random.choice(BOUNDS) if random.random() < 0.7 else 1 for _ in problem.bounds)
        mapspace = replace(drawn, problem=replace(problem, bounds=bounds), factors=ANY)
        if sum(bound > 1 for bound in bounds) < 2 or mapspace_size(mapspace).factorizations > MOST:
            continue
        if 20 <= count_mappings(mapspace, most, innermost_orders=False) <= most:
            found.append(mapspace)
        if len(found) == count:
            break
    return tuple(found)
