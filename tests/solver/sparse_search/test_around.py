"""Fronts, varied limits and explanations of random sparse problems against complete enumeration."""

from dataclasses import replace

import pytest

from model.architecture import StorageLevel
from model.sparse import MappingError, evaluate_sparse_in
from solver.explain import explain_sparse
from solver.pareto import pareto_front
from solver.result import Clock, Options, Status
from solver.sensitivity import sensitivity, varied
from solver.sparse_search import first_mapping
from solver.stages import map_einsum
from tests.bruteforce import enumerate_sparse, sparse_optima
from tests.random_sparsity import random_sparse_mapspace
from tests.slow import few


def priced(mapspace):
    """Cycles and energies of all mappings."""
    for mapping in enumerate_sparse(mapspace):
        try:
            evaluation = evaluate_sparse_in(mapspace, mapping)
        except MappingError:
            continue
        if evaluation.valid:
            yield evaluation.cycles, evaluation.fixed_energy


@pytest.mark.parametrize("seed", few(range(8), 2))
def test_fronts(seed):
    mapspace = random_sparse_mapspace(seed, 150)
    front = pareto_front(mapspace, Options())
    found = [(point.evaluation.cycles, point.evaluation.energy) for point in front.points]
    costs = sorted(set(priced(mapspace)))
    best = [own for n, own in enumerate(costs) if all(own[1] < other[1] for other in costs[:n])]
    assert found == best
    assert front.status is (Status.OPTIMAL if best else Status.INFEASIBLE)


@pytest.mark.parametrize("seed", few(range(20, 26), 2))
def test_optima_under_other_limits(seed):
    mapspace = random_sparse_mapspace(seed, 100)
    base = map_einsum(mapspace, Options(("energy",)))
    if base.mapping is None:
        return
    for effect in sensitivity(mapspace, base, Options(("energy",)), map_einsum):
        changed = replace(mapspace, architecture=varied(mapspace.architecture, effect.variation))
        best = sparse_optima(changed, ("energy",))[0]
        assert effect.result.value == (None if best is None else best[0])


def test_explanations():
    explained = 0
    for seed in range(12):
        mapspace = squeezed(random_sparse_mapspace(seed, 60))
        if first_mapping(mapspace, Clock(None, None)) is Status.FEASIBLE:
            assert any(True for _ in priced(mapspace))
            continue
        assert not any(True for _ in priced(mapspace))
        reasons = explain_sparse(mapspace)
        assert reasons and all(reason.text for reason in reasons)
        explained += 1
    assert explained > 2


def squeezed(mapspace):
    """A mapspace whose levels hold next to nothing."""
    nodes = tuple(
        replace(node, size_words=2) if isinstance(node, StorageLevel) and node.size_words else node
        for node in mapspace.architecture.nodes
    )
    return replace(mapspace, architecture=replace(mapspace.architecture, nodes=nodes))
