"""Certificates of fused results on buffers that exist several times, under rules on orders; and forged."""

import copy
from collections.abc import Callable
from random import Random
from types import SimpleNamespace

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from solver.certificate.checker import fused_edges
from solver.certificate.checker.fused_visits import Kind, Limits
from solver.fusion import FusionLimits
from tests.model.fused.random_cascades import cascade_of
from tests.slow import slow
from tests.solver.certificate.checker import verdict
from tests.solver.certificate.test_fused import certified, least, resealed
from tests.solver.fusion.test_instances import (
    B_ALONG_X,
    B_INSIDE,
    FREE,
    M_ALONG_X,
    M_INSIDE,
    on_cores,
    ruled,
)
from tests.solver.fusion.test_optimum import by_place, uneven


def is_proven(document, tmp_path) -> bool:
    """Whether the checker confirms an optimum, and its dynamic program does not leave that out."""
    assert document["status"] == "OPTIMAL"
    bound = document["bound"]
    is_exact = least(document, bound + 1, is_spread=True) == bound
    return verdict(document, tmp_path)[0] == "VALID" and is_exact


@pytest.mark.parametrize(
    "name, seed, cores, inside, objective",
    [
        ("few products", 1, 4, False, "edp"),
        ("few products", 1, 2, True, "energy"),
        ("few products", 0, 2, False, "latency"),
        ("residual", 1, 2, False, "energy"),
        slow("attention", 2, 2, False, "energy"),
        slow("window", 5, 2, False, "energy"),
    ],
)
def test_certificates_on_several_buffers(
    name: str, seed: int, cores: int, inside: bool, objective: str, tmp_path
):
    document = certified(on_cores(Random(f"{name} {seed}"), name, cores, inside=inside), objective)
    assert bool(document["mapping"]["stored"]) is (objective != "latency")
    assert is_proven(document, tmp_path)


def test_certificates_on_several_buffers_with_several_places(tmp_path):
    assert is_proven(certified(uneven(on_cores(Random("uneven"), "few products", 2)), "energy"), tmp_path)
    assert is_proven(certified(by_place(on_cores(Random("by place"), "few products", 2)), "edp"), tmp_path)


def under_rules(producer, consumer, mesh, **limits):
    """The certificate of two products on four buffers under rules on their spatial loops."""
    cascade = ruled(on_cores(Random(0), "few products", 4), producer, consumer, mesh=mesh)
    return certified(cascade, "energy", FusionLimits(**limits))


@pytest.mark.parametrize(
    "producer, consumer, mesh, value",
    [(M_INSIDE, B_INSIDE, (4, 1), 2556), (M_ALONG_X, M_ALONG_X, (2, 2), 2328)],
)
def test_certificates_under_rules_on_orders(producer, consumer, mesh, value: int, tmp_path):
    document = under_rules(producer, consumer, mesh)
    assert document["bound"] == value
    assert is_proven(document, tmp_path)


@pytest.fixture(scope="module")
def stored():
    """A tensor is spread along two ranks, in the order that the rules of its producer ask for."""
    return under_rules(B_INSIDE, FREE, (4, 1))


@pytest.fixture(scope="module")
def held():
    """No order of loops spreads a tensor, so operands are held."""
    return under_rules(M_ALONG_X, B_ALONG_X, (2, 2))


def test_stored_and_held_tiles_are_proven(stored, held, tmp_path):
    assert is_proven(stored, tmp_path)
    assert is_proven(held, tmp_path)
    assert any(leaf["held"] for leaf in leaves(held["mapping"]["tree"]))
    # As long as it is open how fanouts divide what is stored and held, cheaper mappings seem possible.
    assert least(held, held["bound"], is_spread=False) < held["bound"]


def leaves(tree):
    """The leaves of a tree, in order."""
    for part in tree:
        yield from [part] if "einsum" in part else leaves(part["children"])


def a_lower_value(doc):
    doc["cost"]["energy"] -= 1
    doc["bound"] -= 1


def a_bound_above_the_value(doc):
    doc["status"], doc["bound"] = "FEASIBLE", doc["bound"] + 1


def no_room(doc):
    doc["problem"]["rooms"][0] = 0
    for einsum in doc["problem"]["einsums"]:
        next(node for node in einsum["mapspace"]["nodes"] if node["name"] == "GLB")["most_size"] = 0


def raised_claims(doc):
    for edge in doc["edges"]:
        edge["corners"] = [[energy + 1, cycles] for energy, cycles in edge["corners"]]


def no_mappings(doc):
    for edge in doc["edges"]:
        edge["corners"] = []


def claimed_for_all(doc):
    for edge in doc["edges"]:
        edge["shares"], edge["undivided"] = [], []


def cores_of(doc) -> list[list[list[int]]]:
    """Per Einsum with a nest its loops over the cores."""
    at = [[n["name"] for n in e["mapspace"]["nodes"]].index("core") for e in doc["problem"]["einsums"]]
    mapped = (leaf for leaf in leaves(doc["mapping"]["tree"]) if leaf["nests"])
    return [leaf["nests"][0]["loops"][at[leaf["einsum"]]] for leaf in mapped]


def spread_in_another_order(doc):
    for loops in cores_of(doc):
        loops.reverse()


def spread_differently(doc):
    cores_of(doc)[1].reverse()


FORGED = [
    a_lower_value,
    a_bound_above_the_value,
    no_room,
    raised_claims,
    no_mappings,
    claimed_for_all,
]


@pytest.mark.parametrize("forge", [*FORGED, spread_in_another_order, spread_differently])
def test_forged_spreads_are_refused(forge: Callable[..., None], stored, tmp_path):
    check(forge, stored, tmp_path)


@pytest.mark.parametrize("forge", FORGED)
def test_forged_divisions_are_refused(forge: Callable[..., None], held, tmp_path):
    check(forge, held, tmp_path)


REASONS = {
    spread_in_another_order: "rules of all Einsums allow",
    spread_differently: "all Einsums spread a stored tensor alike",
}


def check(forge: Callable[..., None], document, tmp_path):
    """Forge a certificate and check it."""
    forged = copy.deepcopy(document)
    forge(forged)
    assert forged != document
    word, reason = resealed(forged, tmp_path)
    assert word == "INVALID"
    assert REASONS.get(forge, "") in reason


def test_claims_that_are_missing_prove_nothing(held, tmp_path):
    edges = [edge for edge in held["edges"] if not edge["shares"]]
    word, reason = resealed({**copy.deepcopy(held), "edges": edges}, tmp_path)
    assert word == "CANNOT CHECK"
    assert "do not exclude values from" in reason


def test_a_dearer_mapping_is_not_proven(held, tmp_path):
    """The best mapping without shared loops, claimed to be the best one of all."""
    forged = under_rules(M_ALONG_X, B_ALONG_X, (2, 2), max_loops=0)
    assert forged["bound"] > held["bound"]
    forged |= {key: copy.deepcopy(held[key]) for key in ("problem", "least", "edges")}
    assert resealed(forged, tmp_path)[0] == "CANNOT CHECK"


def test_claims_on_held_tiles_hold_where_no_less_is_read():
    """Words that are touched first are not read: a claim that counts them as read says too much."""
    kind = Kind((4,), (2,), frozenset([0]), ((0, 10, 0),))
    einsum = SimpleNamespace(space=SimpleNamespace(latency=5))
    stated = einsum, kind, 8, Limits(), ((1, 11),), False
    settled = fused_edges.with_trips([(8, ((1, 11),), stated)])
    # Twice as many visits wait for networks twice as often.
    assert [*fused_edges.further(settled, (4,), ((0, 10, 0),))] == [(8, ((1, 21),), stated)]
    assert not [*fused_edges.further(settled, (4,), ((0, 10, 4),))]


# Copies


@pytest.fixture(scope="module")
def copied():
    """Two products read a copy that two buffers without limit have parts of."""
    nodes = (
        StorageLevel("Main", energy=AccessEnergy(9, 0, 8)),
        Fanout("core", 2),
        StorageLevel("GLB", energy=AccessEnergy(1, 2, 3, 1)),
    )
    shape = ("C[m,d] <- A[m,d]", "V[m] = C[m,d] W[d]", "K[m,n] = C[m,d] X[d,n]")
    architecture = Architecture("cores", nodes, Compute("MAC", energy=1))
    return certified(cascade_of(shape, {"m": 2, "d": 2, "n": 1}, architecture), "edp")


def test_certificates_of_copies_among_instances(copied, tmp_path):
    """The products differ in size, but not the sizes that their problems state for unlimited buffers."""
    assert copied["mapping"]["stored"]
    assert all(map(len, cores_of(copied)))
    assert is_proven(copied, tmp_path)


def unspread(doc):
    for loops in cores_of(doc):
        loops.clear()


def in_other_parts(doc):
    for loops in cores_of(doc)[:1]:
        loops[0][0] ^= 1


def stored_by_nobody(doc):
    doc["mapping"]["stored"] = []


@pytest.mark.parametrize(
    "forge", [a_lower_value, a_bound_above_the_value, unspread, in_other_parts, stored_by_nobody]
)
def test_forged_certificates_of_copies(copied, forge: Callable[..., None], tmp_path):
    check(forge, copied, tmp_path)
