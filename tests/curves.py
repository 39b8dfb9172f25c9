"""Curves of least traffic by enumeration, and small Einsums to compare them on."""

from __future__ import annotations

import random

from model.counting.words import tile_words
from model.extents import ANY
from model.problem import Problem
from solver.curves.design import Design
from solver.curves.einsum import Curve
from tests.bruteforce import count_mappings, valid_mappings
from tests.strategies import EINSUMS


def design_of(problem: Problem, factors: str = ANY, **bits: int) -> Design:
    return Design(problem, {space.name: bits.get(space.name, 8) for space in problem.dataspaces}, factors)


def enumerated_steps(design: Design) -> list[tuple[int, int]]:
    """The staircase of all mappings: pairs of a capacity and the traffic."""
    problem, found = design.problem, []
    for priced in valid_mappings(design.mapspace, innermost_orders=False):
        buffer = priced.mapping.nodes[1]
        extents = {loop.dim: loop.bound for loop in buffer.temporal}
        tile = {dim: min(extents.get(dim, 1), bound) for dim, bound in problem.bound.items()}
        kept = [space for space in problem.dataspaces if space.name in buffer.keep]
        room = sum(tile_words(space, tile) * design.bits[space.name] // design.unit_bits for space in kept)
        found.append((room, priced.energy))
    front: list[tuple[int, int]] = []
    for room, traffic in sorted(found):
        if not front or traffic < front[-1][1]:
            front.append((room, traffic))
    return front


def steps_of(curve: Curve) -> list[tuple[int, int]]:
    return [(point.capacity, point.traffic) for point in curve.points]


FEW_MAPPINGS = 800
"""Enumeration takes about a millisecond for each."""


def small_design(seed: int, factors: str) -> Design:
    """Draw an Einsum with three loops at most, so that these are long although there are few mappings."""
    drawn = random.Random(seed)
    spaces = drawn.choice(EINSUMS)(drawn)
    dims = tuple(sorted({dim for space in spaces for dim in space.dims}))
    places = drawn.sample(range(len(dims)), min(len(dims), 3))
    sizes = [drawn.randint(3, 6) for _ in places]
    while True:
        bound = {dims[place]: size for place, size in zip(places, sizes, strict=True)}
        bounds = tuple(bound.get(dim, 1) for dim in dims)
        design = design_of(Problem("random", dims, bounds, spaces), factors)
        if count_mappings(design.mapspace, FEW_MAPPINGS, innermost_orders=False) <= FEW_MAPPINGS:
            return design
        sizes[sizes.index(max(sizes))] -= 1
