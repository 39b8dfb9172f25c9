"""Certificates of fused results that store tensors in memories farther in: proven, and forged."""

import copy
from random import Random

import pytest

from solver.certificate.checker.fused_bodies import Bodies
from solver.certificate.checker.fused_edges import Way
from solver.fusion import FusionLimits
from tests.slow import slow
from tests.solver.certificate.checker import verdict
from tests.solver.certificate.test_fused import certified, least, resealed
from tests.solver.fusion.test_optimum import by_place, uneven
from tests.solver.fusion.test_stores import deep, only_tensors


def is_stored_inside(document) -> bool:
    """Whether the mapping stores a tensor in the registers."""
    return any(memory == 2 for *_, memory in document["mapping"]["stored"])


@pytest.mark.parametrize(
    "name, seed, array, objective",
    [
        ("projections", 0, 0, "energy"),
        ("products", 10, 4, "energy"),
        slow("residual", 0, 0, "energy"),
        slow("products", 12, 0, "energy"),
        slow("projections", 3, 2, "edp"),
        slow("attention", 4, 2, "energy"),
    ],
)
def test_certificates_of_stores_in_registers(name: str, seed: int, array: int, objective: str, tmp_path):
    """Which exist once, or in an array."""
    document = certified(deep(Random(f"{name} {seed}"), name, array), objective)
    assert is_stored_inside(document)
    assert verdict(document, tmp_path)[0] == "VALID"
    assert document["bound"] == document["cost"][objective]
    # The dynamic program does not leave the optimum out.
    assert least(document, document["bound"] + 1, is_spread=array > 0) == document["bound"]


@pytest.mark.parametrize("change", [lambda cascade: by_place(only_tensors(cascade)), slow(uneven)])
def test_certificates_of_stores_where_memories_have_several_places(change, tmp_path):
    document = certified(change(deep(Random("products 12"), "products")), "energy")
    assert is_stored_inside(document)
    assert verdict(document, tmp_path)[0] == "VALID"
    assert least(document, document["bound"] + 1) == document["bound"]


@pytest.fixture(scope="module")
def document():
    """Two tensors wait in the registers."""
    return certified(deep(Random("projections 0"), "projections"), "energy")


def a_lower_value(doc):
    doc["cost"]["energy"] -= 1
    doc["bound"] -= 1


def a_bound_above_the_value(doc):
    doc["status"], doc["bound"] = "FEASIBLE", doc["bound"] + 1


def too_few_registers(doc, size=2):
    doc["problem"]["rooms"][1] = size
    for einsum in doc["problem"]["einsums"]:
        next(node for node in einsum["mapspace"]["nodes"] if node["name"] == "RF")["most_size"] = size


def room_that_memories_do_not_have(doc):
    doc["problem"]["rooms"][1] += 1


def stored_farther_out(doc):
    doc["mapping"]["stored"][0][2] = 1


def stored_in_no_memory(doc):
    doc["mapping"]["stored"][0][2] = 3


def stored_against_its_will(doc):
    for tensor in doc["problem"]["tensors"]:
        tensor["may_stay"] = [1] if tensor["may_stay"] else []


def moved_by_a_private_loop(doc):
    """A loop of the registers, over a dimension of what waits in them, lies outside of them instead."""
    (nest,) = doc["mapping"]["tree"][0]["nests"]
    *_, outside, _, inside = nest["loops"]
    outside.append(inside.pop(0))


def raised_edges_inside(doc):
    for edge in (edge for edge in doc["edges"] if edge["deeper"]):
        edge["corners"] = [[energy + 1, cycles] for energy, cycles in edge["corners"]]


def no_mappings_inside(doc):
    for edge in (edge for edge in doc["edges"] if edge["deeper"]):
        edge["corners"] = []


def raised_floors_inside(doc):
    for own in (own for own in doc["least"] if own["deeper"]):
        own["paid"] *= 2


WRONG = [
    *(a_lower_value, a_bound_above_the_value, too_few_registers, room_that_memories_do_not_have),
    *(stored_farther_out, stored_in_no_memory, stored_against_its_will, moved_by_a_private_loop),
    *(raised_edges_inside, no_mappings_inside, raised_floors_inside),
]


@pytest.mark.parametrize("forge", WRONG)
def test_forged_stores_are_refused(forge, document, tmp_path):
    forged = copy.deepcopy(document)
    forge(forged)
    assert forged != document
    word, reason = resealed(forged, tmp_path)
    assert word == "INVALID"
    assert forge is not moved_by_a_private_loop or "the nodes allow all factors" in reason


def test_edges_inside_that_are_missing_prove_nothing(document, tmp_path):
    edges = [edge for edge in document["edges"] if not edge["deeper"]]
    assert resealed({**copy.deepcopy(document), "edges": edges}, tmp_path)[0] == "CANNOT CHECK"


def test_the_optimum_without_stores_inside_is_not_the_least(document, tmp_path):
    """The best mapping with the buffer alone, claimed to be the best one of all."""
    cascade = deep(Random("projections 0"), "projections")
    forged = certified(cascade, "energy", FusionLimits(memories=frozenset(["GLB"])))
    assert forged["bound"] > document["bound"]
    forged |= {key: copy.deepcopy(document[key]) for key in ("problem", "least", "edges")}
    word, reason = resealed(forged, tmp_path)
    assert word == "CANNOT CHECK"
    assert f"values from {document['bound']:,}" in reason


@pytest.fixture(scope="module")
def spread():
    """A tensor waits in an array of registers; each Einsum by itself had better spread it otherwise."""
    return certified(deep(Random("products 10"), "products", 4), "energy")


def spread_differently(doc):
    """The reader's children have other rows than the writer's, however many registers they have."""
    too_few_registers(doc, 100)
    (nest,) = doc["mapping"]["tree"][1]["nests"]
    *_, across, _, inside = nest["loops"]
    across[0], inside[0] = inside[0], across[0]


def raised_edges_of_a_spread(doc):
    for edge in (edge for edge in doc["edges"] if edge["shares"]):
        edge["corners"] = [[energy + 1, cycles] for energy, cycles in edge["corners"]]


def edges_of_a_spread_claimed_for_all(doc):
    for edge in (edge for edge in doc["edges"] if edge["shares"]):
        edge["shares"] = []


WRONG_SPREADS = [
    *(a_lower_value, a_bound_above_the_value, too_few_registers, stored_farther_out, spread_differently),
    *(raised_edges_of_a_spread, edges_of_a_spread_claimed_for_all),
]


@pytest.mark.parametrize("forge", WRONG_SPREADS)
def test_forged_spreads_are_refused(forge, spread, tmp_path):
    forged = copy.deepcopy(spread)
    forge(forged)
    word, reason = resealed(forged, tmp_path)
    assert word == "INVALID"
    assert forge is not spread_differently or "spread a stored tensor alike" in reason


def test_edges_of_a_spread_that_are_missing_prove_nothing(spread, tmp_path):
    """Without them both Einsums have their best nests, which do not agree."""
    edges = [edge for edge in spread["edges"] if not edge["shares"]]
    word, reason = resealed({**copy.deepcopy(spread), "edges": edges}, tmp_path)
    assert word == "CANNOT CHECK"
    assert "do not exclude values from" in reason


def test_a_tile_for_which_only_inner_memories_have_room_is_bounded_there():
    """The outermost on-chip memory had no room for it, so that no way to fetch or hold it was left."""
    inner = [Way(stored=2, room=3), Way(stored=3, room=5)]
    assert Bodies.cheapest(inner) == inner
    fetched = [Way(energy=7, reads=2), Way(energy=5, reads=4)]
    assert Bodies.cheapest([*fetched, *inner]) == [Way(energy=5, reads=2), *inner]
    assert Bodies.cheapest([]) == []
