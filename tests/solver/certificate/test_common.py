"""Certificates of one spatial unrolling for all layers: of random networks, and forged."""

import copy
import json
from dataclasses import replace

import pytest

from solver import Options, Status
from solver.certificate.canonical import CertificateError, canonical_sha256
from solver.network.common import CommonResult, map_with_common_unrolling
from solver.network.common_certificate import common_certificate
from tests.slow import slow
from tests.solver.certificate.checker import digested, verdict
from tests.solver.network.test_common import OBJECTIVES, networks

SPLIT = 10, 4, "latency"
"""Seed, number and objective of a network whose unrollings are looked at in several parts."""


def certified(result: CommonResult):
    return json.loads(json.dumps(common_certificate(result, ["python"])))


@pytest.mark.parametrize(
    ("seed", "factors", "count"), [(3, "perfect", 8), (4, "any", 5), slow(10, "perfect", 8)]
)
def test_certificates_of_random_networks(seed, factors, count, tmp_path):
    """Their optima are held against all mappings in the tests of the search."""
    for number, network in enumerate(networks(seed, count, factors)):
        result = map_with_common_unrolling(network, Options(objectives=(OBJECTIVES[number % 3],)))
        document = certified(result)
        assert verdict(document, tmp_path)[0] == "VALID"
        assert document["bound"] == result.value


@pytest.fixture(scope="module")
def result():
    seed, number, objective = SPLIT
    return map_with_common_unrolling(networks(seed, 8)[number], Options(objectives=(objective,)))


@pytest.fixture(scope="module")
def document(result):
    document = certified(result)
    assert document["regions"]["parts"]
    return document


def a_lower_value(doc):
    doc["cost"] -= 1
    doc["bound"] -= 1


def more_runs(doc):
    doc["problem"]["layers"][0]["n_instances"] += 1


def another_width(doc):
    doc["loops"][0][2] += 1


def a_loop_less(doc):
    doc["loops"].pop()


def a_mapping_of_another_layer(doc):
    doc["mappings"].reverse()


def raised_claims(doc):
    for claim in doc["claims"]:
        claim["bound"] = None if claim["bound"] is None else claim["bound"] + 1


def claims_without_mappings(doc):
    for claim in doc["claims"]:
        claim["bound"] = None


def wider_claims(doc):
    for claim in doc["claims"]:
        claim["ranges"] = []


def no_common_unrolling(doc):
    doc |= dict.fromkeys(("bound", "loops", "mappings", "cost"))
    doc["status"] = "INFEASIBLE"
    claims_without_mappings(doc)


def another_objective(doc):
    doc["objective"] = "energy"


FORGERIES = [
    *(a_lower_value, more_runs, another_width, a_loop_less, a_mapping_of_another_layer, raised_claims),
    *(claims_without_mappings, wider_claims, no_common_unrolling, another_objective),
]


@pytest.mark.parametrize("forge", FORGERIES)
def test_forged_claims_are_refused(forge, document, tmp_path):
    assert _changed(document, forge, tmp_path) == "INVALID"


def no_claims(doc):
    doc["claims"] = [claim for claim in doc["claims"] if claim["layer"] != 0]


def a_part_left_out(doc):
    region = doc["regions"]
    while region["parts"][-1]["parts"]:
        region = region["parts"][-1]
    region["parts"].pop()


def no_parts(doc):
    doc["regions"]["parts"] = []


@pytest.mark.parametrize("forge", [no_claims, a_part_left_out, no_parts])
def test_what_is_missing_proves_nothing(forge, document, tmp_path):
    assert _changed(document, forge, tmp_path) == "CANNOT CHECK"


def _changed(document, forge, folder):
    forged = copy.deepcopy(document)
    forge(forged)
    forged["problem_sha256"] = canonical_sha256(forged["problem"])
    return verdict(digested(forged), folder)[0]


def test_a_worse_unrolling_is_no_optimum(tmp_path):
    """That of least energy, with the cycles that it takes: there is a faster one."""
    network = networks(2, 5)[4]
    result, least = (
        map_with_common_unrolling(network, Options(objectives=(own,))) for own in ("latency", "energy")
    )
    assert least.common is not None
    cycles = sum(own.result.evaluation.cycles * own.layer.n_instances for own in least.common.layers)
    assert cycles > result.value
    theirs = certified(least)
    forged = {**certified(result), "bound": cycles, "cost": cycles}
    forged |= {key: theirs[key] for key in ("loops", "mappings")}
    assert verdict(digested(forged), tmp_path)[0] == "CANNOT CHECK"


def test_what_is_not_proven_is_not_certified(result):
    with pytest.raises(CertificateError, match="only a proven unrolling"):
        common_certificate(replace(result, status=Status.FEASIBLE), ["python"])
