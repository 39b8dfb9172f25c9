"""Certificates of fused mappings in memories with a least utilization: against enumeration, and forged."""

import copy
import json
from fractions import Fraction
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel
from model.fused.cascade import Cascade
from solver.certificate.canonical import canonical_sha256
from solver.fusion import FusionLimits, fuse_cascade
from solver.fusion.certificate import fused_certificate
from solver.result import Status
from tests.fused_bruteforce import BruteForce
from tests.model.fused.random_cascades import COPIES, SHAPES, cascade_of
from tests.slow import slow
from tests.solver.certificate.checker import digested, verdict
from tests.solver.fusion.test_instances import on_cores

THREE_QUARTERS = Fraction(3, 4)


def filled(name: str, seed: int, share: Fraction, inside: bool = False) -> Cascade:
    return on_cores(Random(f"{name} {seed}"), name, 1, share, inside)


def certified(cascade: Cascade, objective: str = "energy", limits: FusionLimits | None = None):
    result = fuse_cascade(cascade, objective, limits=limits or FusionLimits())
    return json.loads(json.dumps(fused_certificate(result, ["python"])))


def resealed(document, folder) -> str:
    """The verdict on a certificate with its hashes computed anew."""
    document["problem_sha256"] = canonical_sha256(document["problem"])
    return verdict(digested(document), folder)[0]


@pytest.mark.parametrize(
    "name, seed, inside, objective, free",
    [
        ("few products", 0, False, "energy", 3084),
        ("few products", 0, False, "edp", None),
        ("few products", 1, True, "energy", 2238),
        ("window", 3, False, "energy", 3972),
        slow("attention", 0, False, "latency", None),
    ],
)
def test_certificates_prove_what_enumeration_finds(
    name: str, seed: int, inside: bool, objective: str, free: int | None, tmp_path
):
    """That is more than without least utilization, which is `free`."""
    cascade = filled(name, seed, THREE_QUARTERS, inside)
    document = certified(cascade, objective)
    (optimum,) = BruteForce(cascade, even=True, divided=True).optima((objective,)).values()
    assert document["status"] == "OPTIMAL"
    assert document["bound"] == document["cost"][objective] == optimum.value > (free or 0)
    assert verdict(document, tmp_path)[0] == "VALID"


def on_one_buffer(name: str, bounds: dict[str, int], size: int) -> Cascade:
    """A cascade on a buffer that has to be full."""
    main = StorageLevel("Main", energy=AccessEnergy(90, 0, 80))
    buffer = StorageLevel("GLB", size_words=size, energy=AccessEnergy(1, 1, 1), min_utilization=Fraction(1))
    architecture = Architecture("small", (main, buffer), Compute("MAC", energy=1))
    return cascade_of((SHAPES | COPIES)[name], bounds, architecture)


@pytest.mark.parametrize("name, size, value", [("copies of copies", 4, 621), ("two copies", 4, 453)])
def test_what_shares_room_fills_it_once(name: str, size: int, value: int, tmp_path):
    """Two words that take one room are no four words: other tiles have to fill the memory."""
    document = certified(on_one_buffer(name, {"m": 1, "b": 2}, size))
    assert document["status"] == "OPTIMAL"
    assert document["bound"] == value
    assert verdict(document, tmp_path)[0] == "VALID"


def test_what_cannot_be_filled_has_no_mapping(tmp_path):
    """All tensors of an Einsum together have eight words."""
    cascade = on_one_buffer("products", {"m": 2, "a": 1, "b": 2, "c": 1}, 9)
    assert not BruteForce(cascade, even=True, divided=True).optima(("energy",))
    document = certified(cascade)
    assert document["status"] == Status.INFEASIBLE.value
    assert verdict(document, tmp_path)[0] == "VALID"
    for einsum in document["problem"]["einsums"]:
        for node in einsum["mapspace"]["nodes"]:
            node.update({"least_size": 0} if node["kind"] == "storage" else {})
    assert resealed(document, tmp_path) != "VALID"


def on_registers(bounds: dict[str, int], buffer_words: int, words: int) -> Cascade:
    """Two products with registers that have to be full."""
    main = StorageLevel("Main", energy=AccessEnergy(90, 0, 80))
    buffer = StorageLevel("GLB", size_words=buffer_words, energy=AccessEnergy(1, 1, 1))
    full = StorageLevel("RF", size_words=words, energy=AccessEnergy(1, 1, 1), min_utilization=Fraction(1))
    architecture = Architecture("small", (main, buffer, full), Compute("MAC", energy=1))
    return cascade_of(SHAPES["products"], bounds, architecture)


@pytest.mark.parametrize("buffer_words, words", [(4, 6), (4, 8)])
def test_registers_that_nothing_fills_need_no_claims_on_held_tiles(buffer_words: int, words: int, tmp_path):
    """A tile that is held could be fetched into the same room, which says as much of registers."""
    cascade = on_registers({"m": 1, "a": 1, "b": 2, "c": 1}, buffer_words, words)
    assert not BruteForce(cascade, even=True, divided=True).optima(("energy",))
    document = certified(cascade)
    assert document["status"] == Status.INFEASIBLE.value
    assert verdict(document, tmp_path)[0] == "VALID"
    for edge in document["edges"]:
        edge["room"] = max(0, edge["room"] - 1)
    assert verdict(digested(document), tmp_path)[0] == "CANNOT CHECK"


@pytest.fixture(scope="module")
def cascade():
    return filled("few products", 0, THREE_QUARTERS)


@pytest.fixture(scope="module")
def document(cascade):
    return certified(cascade)


def claims_left_out(doc):
    doc["edges"] = []


def raised_claims(doc):
    for edge in doc["edges"]:
        edge["corners"] = [[energy + 1, cycles] for energy, cycles in edge["corners"]]


def claims_for_smaller_tiles(doc):
    """What holds for tiles that fill the memory is claimed for all."""
    for edge in doc["edges"]:
        edge["fills"] = []


def no_claim_has_mappings(doc):
    for edge in doc["edges"]:
        edge["corners"] = []


def a_raised_bound(doc):
    doc["status"], doc["bound"] = "FEASIBLE", doc["bound"] + 1


def no_mapping(doc):
    doc.update(status="INFEASIBLE", bound=None, mapping=None, cost=None)


def less_to_fill(doc):
    for einsum in doc["problem"]["einsums"]:
        for node in einsum["mapspace"]["nodes"]:
            node.update({"least_size": 0} if node["kind"] == "storage" else {})


def a_least_for_the_outermost_memory(doc):
    doc["edges"][0]["fills"] = [[0, 1]]


@pytest.mark.parametrize(
    "forge",
    [
        claims_left_out,
        raised_claims,
        claims_for_smaller_tiles,
        no_claim_has_mappings,
        a_raised_bound,
        no_mapping,
        less_to_fill,
        a_least_for_the_outermost_memory,
    ],
)
def test_forged_certificates_are_not_valid(document, forge, tmp_path):
    forged = copy.deepcopy(document)
    forge(forged)
    assert forged != document
    assert resealed(forged, tmp_path) != "VALID"


def test_a_mapping_that_does_not_fill_the_memory_is_invalid(document, tmp_path):
    small = certified(filled("few products", 0, Fraction(0)))
    forged = {**document, **{key: small[key] for key in ("mapping", "cost", "bound")}}
    assert small["bound"] < document["bound"]
    assert resealed(forged, tmp_path) == "INVALID"


def test_a_dearer_mapping_is_not_proven(cascade, document, tmp_path):
    dear = certified(cascade, limits=FusionLimits(0, None, frozenset(cascade.intermediates)))
    assert dear["bound"] > document["bound"]
    forged = {**document, **{key: dear[key] for key in ("mapping", "cost", "bound")}}
    assert resealed(forged, tmp_path) != "VALID"
    forged["edges"] = [*document["edges"], *dear["edges"]]
    assert resealed(forged, tmp_path) != "VALID"
