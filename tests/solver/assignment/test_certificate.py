"""Certificates of assignments: of random networks, and forged ones."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from model.assignment import CostedLayer, CostedNetwork, Edge
from solver.assignment import AssignOptions, assign
from solver.certificate.assignment import assignment_certificate
from solver.certificate.canonical import CertificateError
from solver.result import Status
from tests.solver.assignment.networks import crowded_networks
from tests.solver.certificate.checker import digested, verdict


def certified(result):
    return json.loads(json.dumps(assignment_certificate(result, ["python"])))


def ring(limit=None):
    """Four layers that all interact, of three methods each; the cheap ones need most room."""
    costs = np.random.default_rng(3)
    names = ("small", "middle", "large")
    layers = tuple(
        CostedLayer(
            f"l{i}",
            names,
            np.array([90, 40, 5]) + costs.integers(0, 9, 3),
            None,
            np.array([1, 4, 9]),
            (i, i + 3),
        )
        for i in range(5)
    )
    edges = [Edge(i, j, costs.integers(0, 50, (3, 3))) for j in range(5) for i in range(j)]
    return CostedNetwork("ring", "ms", 1000, layers, (*edges, edges[0]), (), limit)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network=crowded_networks())
def test_certificates_of_random_networks(network, tmp_path):
    result = assign(network)
    if result.proof not in ("exact", "checked"):
        assume(result.status is not Status.INFEASIBLE)
    document = certified(result)
    assert verdict(document, tmp_path)[0] == "VALID"
    if result.proof in ("exact", "checked"):
        assert document["status"] == result.status.name


@pytest.mark.parametrize("limit", [None, 12])
def test_what_is_searched_has_a_bound_that_is_checked(limit, tmp_path, monkeypatch):
    monkeypatch.setattr("solver.assignment.elimination.MOST_ENTRIES", 0)
    monkeypatch.setattr("solver.assignment.elimination.reduce_instance.__defaults__", (0, frozenset()))
    result = assign(ring(limit))
    assert result.status is Status.OPTIMAL and result.decomposition.kernels
    document = certified(result)
    assert document["moved"] and bool(document["prices"]) is (limit is not None)
    assert 0 < document["bound"] <= result.total
    assert verdict(document, tmp_path)[0] == "VALID"


FORGERIES = {
    "total": lambda own: own.update(total=own["total"] - 1, bound=own["bound"] - 1),
    "choice": lambda own: own["choice"].__setitem__(0, 1 if own["choice"][0] == 0 else 0),
    "no method": lambda own: own["choice"].__setitem__(0, 3),
    "none": lambda own: own.update(status="INFEASIBLE", choice=None, total=None, bound=None),
    "an unknown layer": lambda own: own["order"].append(99),
    "twice": lambda own: own["order"].append(own["order"][0]),
    "a bound above": lambda own: own.update(status="FEASIBLE", bound=own["bound"] + 1),
    "not closed": lambda own: own.update(bound=own["bound"] - 1),
    "a negative price": lambda own: own.update(prices=[[2, -1]]),
    "moved from nowhere": lambda own: own.update(moved=[[0, 1, [1, 1, 1]]]),
    "no scale": lambda own: own.update(scale=0),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_claims_are_refused(forgery, tmp_path):
    document = certified(assign(ring()))
    assert document["status"] == "OPTIMAL" and verdict(document, tmp_path)[0] == "VALID"
    forged = copy.deepcopy(document)
    FORGERIES[forgery](forged)
    assert verdict(digested(forged), tmp_path)[0] == "INVALID"


def test_an_assignment_that_does_not_fit_is_refused(tmp_path):
    document = certified(assign(ring(12)))
    free = certified(assign(ring()))
    assert document["total"] > free["total"]
    forged = digested({**document, **{key: free[key] for key in ("choice", "total")}})
    assert verdict(forged, tmp_path) == (
        "INVALID",
        "this claim fails: the assignment fits the limit at every moment",
    )


def test_room_that_is_too_small_for_all_is_certified(tmp_path):
    document = certified(assign(ring(2)))
    assert document["status"] == "INFEASIBLE"
    assert verdict(document, tmp_path) == ("VALID", "no assignment exists")
    wide = digested({**document, "prices": []})
    assert verdict(wide, tmp_path)[0] == "INVALID"


def test_what_a_library_says_alone_is_not_certified():
    result = assign(ring(2))
    with pytest.raises(CertificateError, match="by the word of"):
        assignment_certificate(replace(result, evidence=None), [])


def test_no_time_leaves_a_certificate_of_the_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("solver.assignment.elimination.reduce_instance.__defaults__", (0, frozenset()))
    result = assign(ring(12), AssignOptions(time_limit_s=0))
    assert verdict(certified(result), tmp_path)[0] == "VALID"
