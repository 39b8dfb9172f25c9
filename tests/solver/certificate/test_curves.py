"""Certificates of curves: of random Einsums, and forged."""

import copy
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from model.extents import ANY, PERFECT
from model.problem import Dataspace, Problem, Term
from solver.certificate.canonical import CertificateError, canonical_sha256
from solver.cli.curve_inputs import Reading, read_texts
from solver.curves.certificate import certified_points, curves_certificate
from solver.curves.fused import FusedPoint, fused_curve
from solver.curves.network import Part, network_curve
from solver.result import Clock
from tests.mapspaces import matmul
from tests.slow import few
from tests.solver.certificate.checker import digested, verdict
from tests.strategies import EINSUMS


def certified(problem: Problem, factors: str = ANY, **bits: int) -> dict[str, Any]:
    part = Part("one", problem, {space.name: bits.get(space.name, 8) for space in problem.dataspaces})
    curve = network_curve([part, Part("other", problem, part.bits)], factors)
    return json.loads(json.dumps(curves_certificate(curve.layers, ["python"])))


def drawn(seed: int) -> Problem:
    drawn = random.Random(seed)
    spaces = EINSUMS[seed % len(EINSUMS)](drawn)
    dims = tuple(sorted({dim for space in spaces for dim in space.dims}))
    long = drawn.sample(dims, min(4, len(dims)))
    return Problem("random", dims, tuple(drawn.randint(2, 11) if dim in long else 2 for dim in dims), spaces)


@pytest.mark.parametrize("factors", [ANY, PERFECT])
@pytest.mark.parametrize("seed", few(range(45), 9))
def test_certificates_of_random_einsums(seed, factors, tmp_path):
    """Each point is needed: without it the curve is no bound."""
    document = certified(drawn(seed), factors)
    assert verdict(document, tmp_path)[0] == "VALID"
    points = document["curves"][0]["points"]
    for place in {0, len(points) // 2, len(points) - 1}:
        forged = copy.deepcopy(document)
        del forged["curves"][0]["points"][place]
        assert verdict(digested(forged), tmp_path)[0] == "INVALID"


@pytest.mark.parametrize(("stride", "dilation"), [(1, 2), (2, 1), (3, 2), (2, 3)])
def test_windows_whose_tiles_have_holes(stride, dilation, tmp_path):
    rows = ((Term("P", stride), Term("R", dilation)),)
    window = (Dataspace("W", ((Term("R"),),)), Dataspace("I", rows), Dataspace("O", ((Term("P"),),), True))
    assert verdict(certified(Problem("row", ("P", "R"), (23, 5), window)), tmp_path)[0] == "VALID"
    back = (Dataspace("W", ((Term("R"),),)), Dataspace("I", ((Term("P"),),)), Dataspace("O", rows, True))
    assert verdict(certified(Problem("transposed", ("P", "R"), (17, 5), back)), tmp_path)[0] == "VALID"


def test_a_single_operation(tmp_path):
    """Without a loop, there is one mapping for each choice of what is kept."""
    document = certified(matmul(1, 1, 1))
    assert document["curves"][0]["points"][0][:2] == [0, 3]
    assert verdict(document, tmp_path)[0] == "VALID"
    document["curves"][0]["points"][0][1] = 4
    assert verdict(digested(document), tmp_path)[0] == "INVALID"


def test_a_dimension_that_indexes_two_ranks(tmp_path):
    spaces = (Dataspace("A", ((Term("M"),), (Term("M"),))), Dataspace("Z", ((Term("M"),),), True))
    assert verdict(certified(Problem("diagonal", ("M",), (11,), spaces)), tmp_path)[0] == "VALID"


@pytest.fixture(scope="module")
def document():
    document = certified(matmul(12, 10, 9), A=8, B=16, Z=32)
    assert document["curves"][0]["layers"] == ["one", "other"]
    assert len(document["curves"][0]["points"]) > 6
    return document


def test_values_of_several_sizes(document, tmp_path):
    assert verdict(document, tmp_path)[0] == "VALID"


def fewer_words(points):
    points[3][1] -= 1


def more_words(points):
    points[3][1] += 1


def a_smaller_buffer(points):
    points[3][0] -= 1


def a_tile_that_does_not_fit(points):
    points[3][2] = points[4][2]


def a_mapping_of_a_worse_point(points):
    points[3][2] = points[2][2]


def points_in_another_order(points):
    points[2], points[3] = points[3], points[2]


def a_point_twice(points):
    points.insert(3, points[3])


def truth_for_a_number(points):
    points[0][0] = False


def no_points(points):
    points.clear()


def a_loop_less(points):
    del points[3][2]["loops"][1][0]


def a_tensor_that_the_memory_lacks(points):
    points[3][2]["keep"][0] = [2]


@pytest.mark.parametrize(
    ("forge", "claim"),
    [
        (fewer_words, "the words match the mapping"),
        (more_words, "the words match the mapping"),
        (a_smaller_buffer, "the capacity is what the tiles take"),
        (a_tile_that_does_not_fit, "the words match the mapping"),
        (a_mapping_of_a_worse_point, "the words match the mapping"),
        (points_in_another_order, "capacities rise"),
        (a_point_twice, "capacities rise"),
        (truth_for_a_number, "points are numbers"),
        (no_points, "points are numbers"),
        (a_loop_less, "loops cover the bounds"),
        (a_tensor_that_the_memory_lacks, "dataspaces are kept where they may be"),
    ],
)
def test_forged_points(forge, claim, document, tmp_path):
    forged = copy.deepcopy(document)
    forge(forged["curves"][0]["points"])
    found, reason = verdict(digested(forged), tmp_path)
    assert (found, claim in reason) == ("INVALID", True), reason


def test_a_tile_that_does_not_fit_with_its_own_words(document, tmp_path):
    forged = copy.deepcopy(document)
    points = forged["curves"][0]["points"]
    points[3] = [points[3][0], *points[4][1:]]
    del points[4]
    found, reason = verdict(digested(forged), tmp_path)
    assert (found, "the capacity is what the tiles take" in reason) == ("INVALID", True)


@pytest.mark.parametrize(
    "change",
    [
        lambda own: own["problem"]["bounds"].reverse(),
        lambda own: own["problem"].update(factors="perfect"),
        lambda own: own["problem"]["nodes"][0]["dataspaces"][0].update(read=2),
        lambda own: own["problem"]["nodes"][2]["dataspaces"][0].update(read=1),
        lambda own: own["problem"]["dataspaces"][0].update(keep=[[0]]),
    ],
)
def test_another_problem(change, document, tmp_path):
    """What a curve says depends on the problem, which has a hash; with another hash the claims fail."""
    forged = copy.deepcopy(document)
    own = forged["curves"][0]
    change(own)
    found, reason = verdict(digested(forged), tmp_path)
    assert (found, "is the hash of the problem" in reason) == ("INVALID", True)


def test_there_has_to_be_a_curve(document, tmp_path):
    with pytest.raises(CertificateError, match="no curve"):
        curves_certificate([], ["python"])
    assert verdict(digested({**document, "curves": []}), tmp_path)[0] == "INVALID"
    assert verdict({**document, "seed": 1}, tmp_path)[0] == "INVALID"


# Points of fused cascades

TEXTS = ("T[m,n] = A[m,k] * B[k,n]", "C[m,l] = T[m,n] * D[n,l]")
SIZES = {"m": 4, "k": 2, "n": 4, "l": 2}


@pytest.fixture(scope="module")
def fused_points() -> list[FusedPoint]:
    cascade = read_texts(TEXTS, SIZES, Reading(None, PERFECT, {}, fuse=True), "{}").cascade
    assert cascade is not None
    points = fused_curve(cascade, [8 * size for size in (6, 10, 16, 40)], Clock(None)).points
    certified, others = certified_points(points)
    assert (len(certified), others) == (4, [])
    return certified


@pytest.fixture(scope="module")
def fused_document(fused_points) -> dict[str, Any]:
    named = [("C", point) for point in fused_points]
    return json.loads(json.dumps(curves_certificate([], ["python"], named)))


def test_points_of_a_fused_cascade(fused_document, tmp_path):
    found, reason = verdict(fused_document, tmp_path)
    assert (found, "4 points of fused cascades" in reason) == ("VALID", True), reason
    traffic = [own["point"][1] for own in fused_document["fused"]]
    assert traffic == sorted(traffic, reverse=True)
    assert traffic[-1] == 8 * (4 * 2 + 2 * 4 + 4 * 2 + 4 * 2)


def less_traffic(doc):
    doc["fused"][1]["point"][1] -= 8


def a_smaller_fused_buffer(doc):
    """Smaller than what the mapping takes."""
    doc["fused"][2]["point"][0] = doc["fused"][1]["point"][0]


def a_larger_buffer_than_the_bound_is_about(doc):
    doc["fused"][0]["point"][0] = doc["proofs"][doc["fused"][0]["bound"]]["problem"]["rooms"][0] + 1


def the_bound_of_a_larger_buffer(doc):
    doc["fused"][0]["bound"] = doc["fused"][-1]["bound"]


def a_proof_that_is_not_there(doc):
    doc["fused"][0]["bound"] = len(doc["proofs"])


def the_bound_of_another_cascade(doc):
    own = copy.deepcopy(doc["proofs"][doc["fused"][0]["bound"]])
    own["problem"]["tensors"][0]["name"] = "other"
    own["problem_sha256"] = canonical_sha256(own["problem"])
    doc["proofs"].append(digested(own))
    doc["fused"][0]["bound"] = len(doc["proofs"]) - 1


def a_higher_bound(doc):
    doc["proofs"][doc["fused"][0]["bound"]]["bound"] += 8


@pytest.mark.parametrize(
    ("forge", "claim"),
    [
        (less_traffic, "the traffic is that of the mapping"),
        (a_smaller_fused_buffer, "fit the on-chip memories"),
        (a_larger_buffer_than_the_bound_is_about, "a buffer that is no smaller"),
        (the_bound_of_a_larger_buffer, "the bound is the traffic"),
        (a_proof_that_is_not_there, "points name proofs"),
        (the_bound_of_another_cascade, "the same cascade"),
        (a_higher_bound, "is the hash of the certificate"),
    ],
)
def test_forged_points_of_a_fused_cascade(forge, claim, fused_document, tmp_path):
    forged = copy.deepcopy(fused_document)
    forge(forged)
    found, reason = verdict(digested(forged), tmp_path)
    assert (found, claim in reason) == ("INVALID", True), reason


def test_a_price_that_is_no_word_does_not_round_the_bound_up(fused_document, tmp_path):
    """The bound of a point is rounded up to what every cost is a multiple of, and no further."""
    own = fused_document["proofs"][fused_document["fused"][0]["bound"]]
    forged = copy.deepcopy(fused_document)
    forged["proofs"].append(digested({**copy.deepcopy(own), "bound": own["bound"] - 8}))
    forged["fused"][0]["bound"] = len(forged["proofs"]) - 1
    found, reason = verdict(digested(forged), tmp_path)
    assert (found, "the bound is the traffic" in reason) == ("INVALID", True), reason


def test_points_that_are_not_proven_have_no_certificate(fused_points):
    point = replace(fused_points[0], bound_bits=0)
    assert certified_points([point, fused_points[1]]) == ([fused_points[1]], [(point, "not proven")])
