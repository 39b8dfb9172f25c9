"""Certificates of fused mappings whose nests may have memories in any order."""

import copy
import json
from dataclasses import replace

import pytest

from model.fused.cascade import Cascade
from solver.certificate.canonical import canonical_sha256
from solver.certificate.checker import fused_cascade, fused_edges, fused_paths
from solver.certificate.checker.bounds import Choice, Choices
from solver.certificate.checker.claims import Query
from solver.certificate.checker.fused_visits import Kind, in_any_order
from solver.certificate.checker.orders import AnyOrder, Orders, Spatial, Tiles
from solver.fusion import FusionLimits, fuse_cascade
from solver.fusion.certificate import fused_certificate
from solver.fusion.limits import in_hardware_order
from solver.result import Status
from tests.fused_orders import OrderedBruteForce
from tests.slow import few, slow
from tests.solver.certificate.checker import digested, verdict
from tests.solver.fusion.test_orders import OBJECTIVES, drawn, gaining


def certified(cascade: Cascade, objective: str, limits: FusionLimits) -> dict:
    """The certificate of the best fused mapping, as it is read back from a file."""
    result = fuse_cascade(cascade, objective, limits=limits)
    assert result.status is Status.OPTIMAL
    return json.loads(json.dumps(fused_certificate(result, ["python"])))


def resealed(document, folder):
    document["problem_sha256"] = canonical_sha256(document["problem"])
    return verdict(digested(document), folder)


@pytest.fixture(scope="module")
def document():
    cascade, limits = gaining()
    return certified(cascade, "energy", limits)


@pytest.mark.parametrize(
    ("name", "number", "objective"),
    [
        slow("", 0, "edp"),
        ("products", 5, "energy"),
        *few([("products", n, own) for n in range(9) for own in OBJECTIVES], 0),
        *few([(name, 0, own) for name in ("attention", "three") for own in OBJECTIVES], 0),
    ],
)
def test_certificates_prove_what_enumeration_finds(name: str, number: int, objective: str, tmp_path):
    cascade, limits = drawn(name, number) if name else gaining()
    document = certified(cascade, objective, limits)
    assert verdict(document, tmp_path)[0] == "VALID"
    optima = OrderedBruteForce(cascade, divided=True, memories=limits.memories).optima((objective,))
    assert document["bound"] == document["cost"][objective] == optima[objective].value
    # The dynamic program does not leave the optimum out, and knows what it costs.
    read = fused_cascade.Cascade(document["problem"])
    edges = fused_edges.Edges(read, document, {})
    assert fused_paths.Paths(read, edges, objective, document["bound"] + 1).least() == document["bound"]


def leaves(part):
    return [part] if "einsum" in part else [own for child in part["children"] for own in leaves(child)]


def nest(doc):
    return next(own for part in doc["mapping"]["tree"] for own in leaves(part))["nests"][0]


def a_lower_value(doc):
    doc["cost"]["energy"] -= 1
    doc["bound"] -= 1


def a_raised_edge(doc):
    for edge in doc["edges"]:
        edge["corners"] = [[energy + 1, cycles] for energy, cycles in edge["corners"]]


def edges_without_mappings(doc):
    for edge in doc["edges"]:
        edge["corners"] = []


def a_raised_floor(doc):
    for own in doc["least"]:
        own["paid"] += 1


def another_order(doc):
    nest(doc)["order"].reverse()


def a_tile_left_out(doc):
    nest(doc)["order"].pop()


def a_tile_twice(doc):
    nest(doc)["order"].append(nest(doc)["order"][0])
    nest(doc)["slots"].append([])


def loops_elsewhere(doc):
    nest(doc)["slots"].reverse()


def the_order_of_the_hardware(doc):
    for einsum in doc["problem"]["einsums"]:
        einsum["mapspace"]["free_order"] = []


def no_room(doc):
    for einsum in doc["problem"]["einsums"]:
        for node in einsum["mapspace"]["nodes"]:
            if node["kind"] == "storage" and node["name"] == "GLB":
                node["most_size"] = 1
    doc["problem"]["rooms"][0] = 1


FORGED = [
    *(a_lower_value, a_raised_edge, edges_without_mappings, a_raised_floor, another_order, a_tile_left_out),
    *(a_tile_twice, loops_elsewhere, the_order_of_the_hardware, no_room),
]


@pytest.mark.parametrize("forge", FORGED)
def test_forged_claims_are_refused(forge, document, tmp_path):
    forged = copy.deepcopy(document)
    forge(forged)
    assert forged != document
    assert resealed(forged, tmp_path)[0] == "INVALID"


def test_a_dearer_mapping_and_claims_that_are_missing_prove_nothing(document, tmp_path):
    """The best mapping in the order of the hardware is one in any order, and not the best one."""
    assert verdict(document, tmp_path)[0] == "VALID"
    cascade, _ = gaining()
    raised = {**copy.deepcopy(document), "status": "FEASIBLE", "bound": document["bound"] + 1}
    assert resealed(raised, tmp_path)[0] == "INVALID"
    assert resealed({**copy.deepcopy(document), "edges": [], "least": []}, tmp_path)[0] == "CANNOT CHECK"
    found = fuse_cascade(in_hardware_order(cascade), "energy")
    known = json.loads(json.dumps(fused_certificate(replace(found, cascade=cascade), ["python"])))
    assert known["bound"] > document["bound"]
    assert resealed(copy.deepcopy(known), tmp_path)[0] != "VALID"
    dearer = {**copy.deepcopy(document), **{key: known[key] for key in ("mapping", "cost", "bound")}}
    word, reason = resealed(dearer, tmp_path)
    assert word == "CANNOT CHECK"
    assert f"values from {document['bound']:,}" in reason


def least_costs(orders: Orders, spatial: Spatial, tiles: Tiles) -> tuple[float, list[float]]:
    """The least energy by tables over all orders of some tiles, and by those of each one."""
    every = [*orders.orders(tiles)]
    given = Query(energy=1 << 30), 1, 1 << 40, (None,)
    found = []
    for order in every:
        choices = Choices(orders.made(order, spatial))
        (mask,) = choices.space.masks()
        own = Choice(choices, mask, 0, *given)
        found.append(float(own.to_go(own.origin)[0]) * own.units[0][0])
    together = AnyOrder(orders, order, spatial, choices, mask, *given)
    least = together.below(frozenset())[together.spot(together.origin.cell)]
    return float(least[0]) * together.units[0][0], found


def test_tables_over_all_orders_are_the_least_of_those_of_each_order():
    cascade, limits = drawn("products", 0)
    einsum = fused_cascade.Cascade(certified(cascade, "energy", limits)["problem"]).einsums[0]
    kind = Kind(tuple(einsum.bounds), (1,) * len(einsum.bounds), frozenset(), ())
    orders = in_any_order(einsum, kind, einsum.visit(kind, None))
    for spatial in orders.choices:
        for tiles in orders.kept():
            together, each = least_costs(orders, spatial, tiles)
            assert together == min(each)
