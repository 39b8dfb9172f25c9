"""Certificates of fused results whose nests have remainders: proven, forged, and what they rest on."""

import copy
from dataclasses import replace
from itertools import product
from math import inf, prod
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.extents import PERFECT
from solver.certificate.canonical import canonical
from solver.certificate.checker import (
    fused_cascade,
    fused_edges,
    fused_einsums,
    fused_further,
    fused_verdict,
    fused_visits,
)
from tests.model.fused.random_cascades import SHAPES, cascade_of
from tests.slow import slow
from tests.solver.certificate.checker import prove, verdict
from tests.solver.certificate.test_fused import certified, leaf, resealed
from tests.solver.fusion.test_remainders import drawn, with_remainders

BETTER = ("attention", {"m": 3, "p": 3, "e": 2, "f": 1}, 9, "energy")
"""With remainders; in a body."""


@pytest.mark.parametrize(
    "name, bounds, seed, objective",
    [
        slow(*BETTER),
        slow("products", {"a": 1, "b": 3, "c": 2, "m": 5}, 25, "edp"),
        ("products", {"a": 4, "b": 1, "c": 3, "m": 7}, 8, "latency"),
        slow("three", {"a": 1, "b": 1, "c": 3, "d": 2, "m": 1}, 5, "edp"),
        ("skip", {"a": 2, "b": 5, "d": 7, "m": 1}, 9, "energy"),
        slow("attention", {"e": 2, "f": 3, "m": 2, "p": 6}, 0, "latency"),
    ],
)
def test_the_optimum_is_proven_and_is_the_least_that_claims_leave_open(
    name: str, bounds: dict[str, int], seed: int, objective: str, tmp_path
):
    document = certified(drawn(name, bounds, seed), objective)
    assert document["status"] == "OPTIMAL"
    assert verdict(document, tmp_path)[0] == "VALID"
    limit, cascade = document["bound"] + 1, fused_cascade.Cascade(document["problem"])
    assert fused_verdict.left_open(cascade, document, limit, prove.refute, {}) == document["bound"]


def with_registers(random: Random) -> Architecture:
    """A small architecture of two or three memories, with fanouts and bandwidths or without."""
    energy = lambda least: AccessEnergy(*(random.randint(least, 9) for _ in range(3)))  # noqa: E731
    nodes: list[StorageLevel | Fanout] = [
        StorageLevel("Main", energy=AccessEnergy(30, 0, 80, 2), shared_bandwidth=random.choice((None, 1))),
        StorageLevel("GLB", size_words=random.randint(4, 12), energy=energy(1), read_bandwidth=2),
    ]
    nodes[1] = replace(nodes[1], network_fill_latency=random.choice((0, 3)))
    nodes += [Fanout("PE", random.choice((2, 3)))] * random.choice((0, 1))
    if random.random() < 0.5:
        nodes.append(StorageLevel("RF", size_words=random.randint(1, 4), energy=energy(0)))
        nodes += [Fanout("MACs", 2)] * random.choice((0, 1))
    return Architecture("small", tuple(nodes), Compute("MAC", energy=1))


def least(space, key: str) -> int:
    """The optimum of a mapspace, found by queries."""
    limit = inf
    while found := prove.refute(space, prove.Query(**{key: limit - 1})):
        limit = found[key]
    return limit


@pytest.mark.parametrize("seed", range(4))
def test_floors_hold_however_further_shared_loops_cut(seed: int):
    random = Random(seed)
    bounds = {dim: random.choice((1, 2, 3, 4)) for dim in "mabc"} | {"b": 2}
    cascade = with_remainders(cascade_of(SHAPES["products"], bounds, with_registers(random)))
    own = cascade.einsums[random.choice((0, 1))]
    accesses = [
        {"tensor": number, "ranks": list(access.ranks), "offsets": list(access.offsets)}
        for number, access in enumerate(own.accesses)
    ]
    runs = {"is_copy": False, "n_instances": 1, "cycle_length": 1}
    document = {"mapspace": canonical(own.mapspace), "accesses": accesses, **runs}
    einsum = fused_einsums.Einsum(document, 0)
    above = frozenset(v for v in einsum.stay if random.random() < 0.4)

    def visits(cut):
        sizes = tuple(n // count for n, count in zip(einsum.bounds, cut, strict=True))
        kind = fused_visits.Kind(sizes, cut, above, ())
        doc = fused_edges.unruled(einsum, einsum.visit(kind, None))
        return fused_visits.Visits(einsum, kind, doc)

    cuts = [*product(*([f for f in range(1, n + 1) if n % f == 0] for n in einsum.bounds))]
    whole = visits((1,) * len(einsum.bounds))
    for key, claimed in (("energy", {"energy": 10**9}), ("latency", {"cycles": 10**9})):
        assert fused_further.floor(whole, **claimed) <= min(least(visits(cut), key) for cut in cuts)

    def problem(kind):
        return fused_edges.unruled(einsum, einsum.visit(kind, None))

    kind = fused_visits.Kind(tuple(einsum.bounds), (1,) * len(einsum.bounds), above, ())
    found = fused_edges.least(problem, einsum, kind, prove.refute, cycles=10**9)
    # Networks take as long in each further visit, besides what the claim says.
    later = ((visits(cut), einsum.space.latency * (prod(cut) - 1)) for cut in cuts)
    assert found == min(least(space, "latency") - more for space, more in later)


@pytest.fixture(scope="module")
def document():
    """The certificate of an optimum in a body, with remainders."""
    name, bounds, seed, objective = BETTER
    return certified(drawn(name, bounds, seed), objective)


@pytest.fixture(scope="module")
def second_best():
    """That of the best mapping without remainders."""
    name, bounds, seed, objective = BETTER
    cascade = drawn(name, bounds, seed)
    pairs = ((own, replace(own.mapspace, factors=PERFECT)) for own in cascade.einsums)
    einsums = tuple(replace(own, mapspace=mapspace) for own, mapspace in pairs)
    return certified(replace(cascade, einsums=einsums), objective)


def claims_of_the_second_best(doc, other):
    doc["least"], doc["edges"] = other["least"], other["edges"]


def raised_floors(doc, other):
    for claim in doc["least"]:
        claim["free"], claim["paid"] = 9 * claim["free"], 9 * claim["paid"]


def raised_edges(doc, other):
    for claim in doc["edges"]:
        claim["corners"] = [[9 * energy, cycles] for energy, cycles in claim["corners"]]


def edges_for_further_loops(doc, other):
    raised_edges(doc, other)
    for claim in doc["edges"]:
        claim["ruled"] = False


def edges_without_mappings(doc, other):
    for claim in doc["edges"]:
        claim["corners"] = []


def perfect_problems(doc, other):
    """The other problem, whose claims hold; but the mapping has remainders."""
    doc["mapping"], doc["cost"] = doc["own"]
    doc["problem"] = other["problem"]


FORGED = {
    claims_of_the_second_best: "INVALID CANNOT CHECK",
    raised_floors: "INVALID CANNOT CHECK",
    raised_edges: "INVALID",
    edges_for_further_loops: "INVALID",
    edges_without_mappings: "INVALID",
    perfect_problems: "INVALID",
}


@pytest.mark.parametrize("forge", FORGED)
def test_a_second_best_mapping_is_never_proven(forge, document, second_best, tmp_path):
    forged = copy.deepcopy(document)
    own = forged["mapping"], forged["cost"]
    forged |= {key: copy.deepcopy(second_best[key]) for key in ("mapping", "cost", "bound")}
    assert forged["bound"] > document["bound"]
    forged["own"] = own
    forge(forged, copy.deepcopy(second_best))
    del forged["own"]
    assert resealed(forged, tmp_path)[0] in FORGED[forge]


def a_pass_less(doc):
    for nest in leaf(doc["mapping"]["tree"][0], 0)["nests"]:
        loops = next(own for own in nest["loops"] if own)
        loops[0][1] -= 1


def other_visits(doc):
    nest = leaf(doc["mapping"]["tree"][0], 0)["nests"][0]
    nest["bounds"][0] += 1


def perfect_nests(doc):
    for einsum in doc["problem"]["einsums"]:
        einsum["mapspace"]["factors"] = "perfect"


@pytest.mark.parametrize("forge", [a_pass_less, other_visits, perfect_nests])
def test_forged_mappings_are_refused(forge, document, tmp_path):
    forged = copy.deepcopy(document)
    forge(forged)
    assert resealed(forged, tmp_path)[0] == "INVALID"
