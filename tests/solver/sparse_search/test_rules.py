"""The search for sparse data under user-defined rules, against complete enumeration.

``SPARSE_RULES=100`` tries as many random problems of each kind.
"""

import os
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from model.mapspace import Mapspace
from model.sparse import MappingError, evaluate_sparse_in
from solver.densities import density_sweep
from solver.explain import explain_sparse
from solver.pareto import pareto_front
from solver.result import Options, Status
from solver.stages import map_einsum
from tests.bruteforce import enumerate_sparse, sparse_optima
from tests.random_rules import SPATIAL, TILE, WIDE, means, random_rule
from tests.random_sparsity import random_sparse_mapspace
from tests.solver.sparse_search.alone import searched

PROBLEMS = int(os.environ.get("SPARSE_RULES", "6"))
SINGLES = ("energy", "latency", "edp")


def ruled(seed: int, kinds: tuple[str, ...], in_space: bool = False) -> tuple[Mapspace, list[str]]:
    """Return a mapspace with one or two rules, and their texts."""
    random, mapspace = Random(seed), random_sparse_mapspace(seed, 100, in_space)
    texts = [random_rule(random, mapspace, kinds) for _ in range(random.choice((1, 1, 2)))]
    if WIDE in kinds and random.random() < 0.4:
        texts.append(cost_rule(random, mapspace))
    return mapspace.where(*texts), texts


def cost_rule(random: Random, mapspace: Mapspace) -> str:
    """Return a rule on costs that some mappings break and others do not, if there are two."""
    costs = [(own.cycles, own.energy_pj) for _, own in priced(mapspace)]
    cycles, energy = random.choice(costs) if costs else (1, 1.0)
    return random.choice(
        (
            f"cycles <= {cycles}",
            f"energy <= {energy:.20f} pJ",
            f"energy >= {energy:.20f} pJ",
            f"cycles != {cycles}",
            f"cycles % 3 != {cycles % 3}",
        )
    )


def priced(mapspace: Mapspace):
    """All valid mappings with their costs."""
    for mapping in enumerate_sparse(mapspace):
        try:
            evaluation = evaluate_sparse_in(mapspace, mapping)
        except MappingError:
            continue
        if evaluation.valid:
            yield mapping, evaluation


def assert_optimal(mapspace: Mapspace) -> None:
    for objective, best in zip(SINGLES, sparse_optima(mapspace, SINGLES), strict=True):
        result = map_einsum(mapspace, Options((objective,)), reasons=False)
        assert result.status is (Status.OPTIMAL if best else Status.INFEASIBLE)
        assert result.value == (best[0] if best else None)
        if best is not None:
            assert searched(mapspace, objective, incumbent=best[0] + 1) == (best[0], best[0])


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_rules_on_one_tile_or_fanout(seed):
    assert_optimal(ruled(seed, (TILE, SPATIAL))[0])


@pytest.mark.parametrize("seed", range(1000, 1000 + PROBLEMS))
def test_rules_of_all_kinds(seed):
    assert_optimal(ruled(seed, (TILE, SPATIAL, WIDE, WIDE))[0])


@pytest.mark.parametrize("seed", range(2000, 2000 + PROBLEMS // 2))
def test_rules_where_instances_are_skipped(seed):
    assert_optimal(ruled(seed, (TILE, SPATIAL, WIDE), in_space=True)[0])


@pytest.mark.parametrize("seed", range(3000, 3000 + PROBLEMS))
def test_rules_mean_what_they_say(seed):
    mapspace, texts = ruled(seed, (TILE, SPATIAL, WIDE))
    free = replace(mapspace, rules=())
    left = [mapping for mapping, _ in priced(mapspace)]
    plain = (text for text in texts if "pJ" not in text and "cycles" not in text)
    assert all(means(text, free, mapping) for text in plain for mapping in left)
    if len(texts) == 1 and "pJ" not in texts[0] and "cycles" not in texts[0]:
        assert left == [mapping for mapping, _ in priced(free) if means(texts[0], free, mapping)]


@pytest.mark.parametrize("seed", range(4000, 4000 + PROBLEMS // 3))
def test_fronts_and_densities_under_rules(seed):
    mapspace = ruled(seed, (TILE, SPATIAL, WIDE, WIDE))[0]
    costs = sorted({(own.cycles, own.fixed_energy) for _, own in priced(mapspace)})
    front = [own for n, own in enumerate(costs) if all(own[1] < other[1] for other in costs[:n])]
    points = pareto_front(mapspace, Options()).points
    assert [(own.evaluation.cycles, own.evaluation.energy) for own in points] == front
    name = mapspace.problem.dataspaces[0].name
    for point in density_sweep(mapspace, {name: (Fraction(1, 4), Fraction(1))}, Options(("energy",))):
        share = dict(point.densities)[name]
        sparsity = mapspace.sparsity
        density = replace(sparsity.density(name), share=share)
        own = replace(mapspace, sparsity=replace(sparsity, densities={**sparsity.densities, name: density}))
        (best,) = sparse_optima(own, ("energy",))
        assert point.result.value == (None if best is None else best[0])


def test_rules_that_conflict_are_named():
    mapspace = random_sparse_mapspace(3, 60)
    dim = mapspace.problem.dims[0]
    level = mapspace.architecture.levels[0].name
    with_conflict = mapspace.where(f"tile({level}, {dim}) < {mapspace.problem.bound[dim]}")
    assert map_einsum(with_conflict, Options(("energy",))).status is Status.INFEASIBLE
    (reason,) = explain_sparse(with_conflict)
    assert [statement.text for statement in reason.constraints] == [str(with_conflict.rules[0])]
