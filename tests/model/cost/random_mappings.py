"""Random mappings of a problem on an architecture, regardless of limits."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from model.architecture import Architecture, Fanout, StorageLevel
from model.extents import ANY, PERFECT, Extents, Factors
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.numbers import prime_factors
from model.problem import Dataspace, Problem, Term
from tests.strategies import random_architecture, random_problem


def random_case(random: Random, primes: int = 6) -> tuple[Problem, Architecture, Mapping]:
    """Draw a problem, an architecture and a mapping."""
    problem = random_problem(random, random.randint(1, primes))
    architecture = random_architecture(random, problem)
    if random.random() < 0.3:
        problem = _entangled(random, problem)
    return problem, architecture, random_mapping(random, problem, architecture)


def random_mapping(
    random: Random, problem: Problem, architecture: Architecture, kind: Factors = PERFECT
) -> Mapping:
    """Draw factors, orders, axes and kept dataspaces; the outermost level keeps everything."""
    factors = [dict.fromkeys(problem.dims, 1) for _ in architecture.nodes]
    draw = _divide if kind == PERFECT else _cut
    for dim, bound in problem.bound.items():
        draw(random, dim, bound, factors)
    return Mapping(
        tuple(
            _entry(random, problem, node, own, outermost=position == 0)
            for position, (node, own) in enumerate(zip(architecture.nodes, factors, strict=True))
        )
    )


def _divide(random: Random, dim: str, bound: int, factors: list[dict[str, int]]) -> None:
    """Deal the primes of a bound out to the nodes."""
    for prime, power in prime_factors(bound):
        for _ in range(power):
            random.choice(factors)[dim] *= prime


def _cut(random: Random, dim: str, bound: int, factors: list[dict[str, int]]) -> None:
    """Draw any factors from the innermost node outwards; the last loop takes what is left."""
    extents, extent = Extents(bound, ANY), 1
    drawn = sorted(random.sample(range(len(factors)), random.randint(1, len(factors))))
    for node in reversed(drawn):
        possible = extents.factors(extent)
        factor = possible[-1] if node == drawn[0] else random.choice(possible[: random.choice((2, 4, 8))])
        factors[node][dim] = factor
        extent = extents.grown(extent, factor)


def _entry(
    random: Random, problem: Problem, node: StorageLevel | Fanout, factors: dict[str, int], outermost: bool
) -> NodeMapping:
    dims = random.sample(problem.dims, len(problem.dims))
    if isinstance(node, Fanout):
        return FanoutMapping(
            tuple(
                SpatialLoop(dim, factors[dim], random.choice(("x", "y"))) for dim in dims if factors[dim] > 1
            )
        )
    chance = 1 if outermost else 0.75
    keep = frozenset(space.name for space in problem.dataspaces if random.random() < chance)
    return StorageMapping(tuple(Loop(dim, factors[dim]) for dim in dims), keep)


def _entangled(random: Random, problem: Problem) -> Problem:
    """Let some ranks be indexed by one more dimension, with any coefficient."""
    return replace(
        problem, dataspaces=tuple(_entangle(random, problem, space) for space in problem.dataspaces)
    )


def _entangle(random: Random, problem: Problem, space: Dataspace) -> Dataspace:
    ranks = list(space.ranks)
    chosen = random.randrange(len(ranks))
    free = [dim for dim in problem.dims if dim not in {term.dim for term in ranks[chosen]}]
    if free:
        ranks[chosen] = (*ranks[chosen], Term(random.choice(free), random.choice((1, 1, 2, 3, -1, -2))))
    return replace(space, ranks=tuple(ranks))
