"""The checker of sparse data against the cost model and complete enumeration; forged claims.

``SPARSE_CERTIFICATES=200`` checks as many random problems.
"""

import copy
import json
import os
from itertools import islice

import pytest

from model.mapspace import Mapspace
from model.sparse import MappingError, evaluate_sparse_in
from solver.certificate.canonical import CertificateError, canonical, canonical_mapping, canonical_sha256
from solver.certificate.checker import sparse
from solver.certificate.checker.sparse_bounds import refute_sparse
from solver.certificate.document import certificate, check_certifiable
from solver.result import Options, Status
from solver.stages import map_einsum
from tests.bruteforce import enumerate_sparse, sparse_optima
from tests.random_sparsity import random_sparse_mapspace
from tests.slow import few
from tests.solver.certificate.checker import digested, prove, verdict

OBJECTIVES = ("energy", "latency", "edp", ("latency", "energy"))
PROBLEMS = int(os.environ.get("SPARSE_CERTIFICATES", "12"))
TOGETHER = 6
"""Problems of one test."""


def as_read(value):
    """A JSON value as it is read back from a file."""
    return json.loads(json.dumps(value))


def problems(first: int, count: int, most_mappings: int, in_space: bool = False):
    """Random problems whose densities change counts."""
    found = (random_sparse_mapspace(seed, most_mappings, in_space) for seed in range(first, 10**6))
    return islice((mapspace for mapspace in found if mapspace.sparsity.optimized), count)


def assert_priced_alike(mapspace: Mapspace) -> None:
    """Compare the costs of all mappings."""
    space = sparse.Sparse(as_read(canonical(mapspace)))
    for mapping in enumerate_sparse(mapspace):
        try:
            evaluation = evaluate_sparse_in(mapspace, mapping)
        except MappingError:
            evaluation = None
        try:
            cost = space.price(*space.read(as_read(canonical_mapping(mapspace, mapping))))
        except prove.InvalidError:  # more children than a mesh has
            cost = {"fits": False}
        if evaluation is None or not evaluation.valid:
            assert not cost["fits"]
        else:
            assert cost == {"fits": True, **{name: evaluation.value(name) for name in prove.Query._fields}}


@pytest.mark.parametrize("first", few(range(0, 200, 80)))
def test_costs_are_those_of_the_model(first):
    for mapspace in problems(first, 6, 100):
        assert_priced_alike(mapspace)


def test_costs_where_instances_are_skipped():
    for mapspace in problems(100, 8, 100, in_space=True):
        assert_priced_alike(mapspace)


def assert_decided(mapspace: Mapspace) -> None:
    """Compare what the checker refutes with enumeration: all below the optimum, and not the optimum."""
    space = sparse.Sparse(as_read(canonical(mapspace)))
    for objective, best in zip(OBJECTIVES, sparse_optima(mapspace, OBJECTIVES), strict=True):
        if best is None:
            assert refute_sparse(space, prove.Query()) is None
            continue
        names = (objective,) if isinstance(objective, str) else objective
        values = best[0] if isinstance(best[0], tuple) else (best[0],)
        limits: dict[str, int] = {}
        for name, value in zip(names, values, strict=True):
            assert refute_sparse(space, prove.Query(**{**limits, name: value - 1})) is None
            limits[name] = value
            assert refute_sparse(space, prove.Query(**limits)) is not None


@pytest.mark.parametrize("first", few(range(0, 20 * PROBLEMS // TOGETHER, 20)))
def test_random_optima(first):
    for mapspace in problems(first, TOGETHER, 60):
        assert_decided(mapspace)


def test_random_optima_where_instances_are_skipped():
    for mapspace in problems(100, TOGETHER, 60, in_space=True):
        assert_decided(mapspace)


@pytest.fixture(scope="module")
def optimum():
    """A mapspace with several mappings, and the certificate of the one of least energy."""
    for mapspace in problems(0, 100, 150):
        result = map_einsum(mapspace, Options(("energy",)))
        worse = [
            m
            for m in valid_mappings(mapspace)
            if evaluate_sparse_in(mapspace, m).value("energy") > result.value
        ]
        if (
            worse
            and evaluate_sparse_in(mapspace, result.mapping).computes.actual
            and mapspace.architecture.fanouts
        ):
            return mapspace, as_read(certificate(mapspace, result, ["python"])), worse[0]
    raise AssertionError("no problem has mappings of unequal costs")


def valid_mappings(mapspace: Mapspace):
    """Yield the mappings that formats can hold, and that fit."""
    for mapping in enumerate_sparse(mapspace):
        try:
            if evaluate_sparse_in(mapspace, mapping).valid:
                yield mapping
        except MappingError:
            continue


def forged(document, problem=None, **parts):
    """A certificate with other parts, its hashes computed anew."""
    problem = document["problem"] if problem is None else problem
    changed = {**copy.deepcopy(document), **parts, "problem": problem}
    return digested({**changed, "problem_sha256": canonical_sha256(problem)})


def test_a_true_certificate_is_valid(optimum, tmp_path):
    _, document, _ = optimum
    assert document["status"] == "OPTIMAL"
    assert verdict(document, tmp_path)[0] == "VALID"


def test_a_mapping_that_is_worse_is_not_optimal(optimum, tmp_path):
    mapspace, document, worse = optimum
    evaluation = evaluate_sparse_in(mapspace, worse)
    cost = {name: evaluation.value(name) for name in prove.Query._fields}
    mapping = as_read(canonical_mapping(mapspace, worse))
    claim = forged(document, mapping=mapping, cost=cost, bounds=[cost["energy"]])
    found = verdict(claim, tmp_path)
    assert found[0] == "INVALID" and "no mapping has energy below" in found[1]


def test_other_claims_are_refused(optimum, tmp_path):
    mapspace, document, _ = optimum
    least = document["bounds"][0]
    claims = [
        forged(document, bounds=[least - 1]),
        forged(document, bounds=[least + 1]),
        forged(document, cost={**document["cost"], "energy": least - 1}, bounds=[least - 1]),
        forged(document, status="INFEASIBLE", mapping=None, cost=None, bounds=[]),
        forged(document, status="FEASIBLE", bounds=[least + 1]),
        forged(document, spatial_choices=document["spatial_choices"] + 1),
        forged(document, format="tilewright certificate 9"),
        {**document, "cost": {**document["cost"], "latency": 1}},
        *(forged(document, problem) for problem in other_problems(document["problem"])),
    ]
    assert mapspace.sparsity is not None
    for claim in claims:
        assert verdict(claim, tmp_path)[0] == "INVALID"


def test_rules_on_sparse_data_are_refused(optimum, tmp_path):
    mapspace, document, _ = optimum
    with pytest.raises(CertificateError, match="does not support user-defined rules on sparse data"):
        check_certifiable(mapspace.where("cycles <= 1"))
    rule = {"condition": "cycles <= 1", "text": "cycles <= 1", "place": None}
    claim = forged(document, {**document["problem"], "rules": ["cycles <= 1"]}, rules=[rule])
    assert "certificates of sparse data have no user-defined constraints" in verdict(claim, tmp_path)[1]


def other_problems(problem):
    """Yield problems that are malformed, or for which a mapping has another cost."""
    for change in (
        lambda own: own["sparse"].update(unit=1),
        lambda own: own["sparse"]["levels"].pop(),
        lambda own: own["sparse"]["densities"].pop(),
        lambda own: own["sparse"]["levels"][0].update(layouts=[]),
        lambda own: own["sparse"]["levels"][0]["units"].append({"kind": "guessing", "options": []}),
        lambda own: own.update(compute_energy=own["compute_energy"] + 1000),
        lambda own: own["sparse"].update(most_loops=-1),
    ):
        changed = copy.deepcopy(problem)
        change(changed)
        yield changed


def test_an_infeasible_problem_is_certified(tmp_path):
    found = ((own, map_einsum(own, Options(("energy",)))) for own in problems(0, 60, 60))
    mapspace, result = next(pair for pair in found if pair[1].status is Status.INFEASIBLE)
    document = as_read(certificate(mapspace, result, ["python"]))
    assert verdict(document, tmp_path) == ("VALID", "no mapping exists")
    assert verdict(forged(document, status="OPTIMAL", bounds=[0]), tmp_path)[0] == "INVALID"
