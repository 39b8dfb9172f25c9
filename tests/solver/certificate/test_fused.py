"""Certificates of fused results: against complete enumeration, and forged."""

import copy
import json
import math
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, Port, StorageLevel
from model.fused.cascade import Cascade
from model.mapspace import KeepRules
from solver.certificate.canonical import CertificateError, canonical_sha256
from solver.certificate.checker import fused_cascade, fused_edges, fused_paths
from solver.fusion import FusionLimits, fuse_cascade
from solver.fusion.certificate import fused_certificate
from solver.result import Options, Status
from tests.fused_bruteforce import BruteForce
from tests.model.fused.random_cascades import COPIES as COPIED
from tests.model.fused.random_cascades import SHAPES, cascade_of
from tests.slow import few, slow
from tests.solver.certificate.checker import digested, verdict
from tests.solver.fusion.test_optimum import (
    OBJECTIVES,
    attention,
    by_place,
    drawn,
    halo_waits,
    uneven,
    windowed,
)

ONCE = FusionLimits(max_loops_per_rank=1)

DRAWN = [
    ("products", 1, OBJECTIVES),
    ("skip", 0, ("energy", "latency")),
    slow("three", 3, ("energy",)),
    slow("projections", 0, ("latency", "edp")),
    slow("attention", 1, ("latency", "edp")),
    slow("diamond", 2, ("latency",)),
]


def certified(cascade: Cascade, objective: str, limits: FusionLimits | None = None):
    """The certificate of the best fused mapping, as it is read back from a file."""
    result = fuse_cascade(cascade, objective, Options(time_limit_s=math.inf), limits or FusionLimits())
    return json.loads(json.dumps(fused_certificate(result, ["python"])))


def least(document, limit, is_spread=False):
    """The least value of all paths below a limit, by what the certificate says of its edges."""
    cascade = fused_cascade.Cascade(document["problem"])
    edges = fused_edges.Edges(cascade, document, {})
    return fused_paths.Paths(cascade, edges, document["objective"], limit, is_spread=is_spread).least()


@pytest.mark.parametrize("name, seed, objectives", DRAWN)
def test_certificates_prove_what_enumeration_finds(
    name: str, seed: int, objectives: tuple[str, ...], tmp_path
):
    cascade = drawn(Random(f"certificate {name} {seed}"), name)
    optima = BruteForce(cascade, even=True).optima(objectives)
    for objective in objectives:
        document = certified(cascade, objective)
        assert verdict(document, tmp_path)[0] == "VALID"
        optimum = optima[objective].value
        assert document["bound"] == document["cost"][objective] == optimum
        # The dynamic program does not leave the optimum out, and knows what it costs.
        assert least(document, optimum + 1) == optimum


def test_operands_need_room_beside_what_is_stored(tmp_path):
    """A tensor that takes eight of nine words leaves too few: each operand needs one."""
    main, buffer = StorageLevel("Main", energy=AccessEnergy(128, 128, 128)), StorageLevel("GLB", size_words=9)
    architecture = Architecture("small", (main, buffer), Compute("MAC", energy=1))
    cascade = cascade_of(SHAPES["products"], {"m": 4, "a": 2, "b": 4, "c": 2}, architecture)
    kept = []
    for einsum in cascade.einsums:
        every = KeepRules(frozenset(space.name for space in einsum.problem.dataspaces))
        kept.append(replace(einsum, mapspace=replace(einsum.mapspace, keep=(every, every))))
    document = certified(replace(cascade, einsums=tuple(kept)), "energy")
    assert document["status"] == "OPTIMAL"
    assert verdict(document, tmp_path)[0] == "VALID"


@pytest.mark.parametrize("name, seed", [("projections", 4), ("skip", 9)])
def test_claims_on_fewer_shared_loops_hold_with_all_corners_and_rooms(name: str, seed: int, tmp_path):
    document = certified(drawn(Random(f"open {name} {seed}"), name), "edp")
    assert document["status"] == "OPTIMAL"
    assert verdict(document, tmp_path)[0] == "VALID"


COPIES = {
    "in": SHAPES["copy"],
    "mid": ("T[m,b] = A[m,a] W[a,b]", "U[m,b] <- T[m,b]", "Z[m,c] = U[m,b] V[b,c]"),
    "part": ("T[m,b] = A[m,b]", "U[n,b] <- T[m,b]", "Z[n,b] = U[n,b]"),
    "both": ("T[m,b] = A[m,a] W[a,b]", "U[m,b] <- T[m,b]", "Y[m,b] = T[m,b]", "Z[m,c] = U[m,b] V[b,c]"),
}


def with_copies(name: str) -> Cascade:
    """A cascade with a copy, of what is read or handed over, alone or beside its source."""
    main = StorageLevel("Main", energy=AccessEnergy(30, 0, 80, 2), shared_bandwidth=1)
    buffer = StorageLevel("GLB", size_words=8, energy=AccessEnergy(3, 5, 2), block_size=2)
    architecture = Architecture("small", (main, buffer), Compute("MAC", energy=1))
    return cascade_of(COPIES[name], dict.fromkeys("mkanboc", 2), architecture)


@pytest.mark.parametrize(
    "name, objective", [("in", "energy"), ("part", "latency"), slow("mid", "edp"), ("both", "energy")]
)
def test_certificates_of_copies(name: str, objective: str, tmp_path):
    document = certified(with_copies(name), objective)
    assert verdict(document, tmp_path)[0] == "VALID"
    assert document["mapping"]["stored"]
    assert least(document, document["bound"] + 1) == document["bound"]
    elsewhere = copy.deepcopy(document)
    elsewhere["mapping"]["stored"].pop()
    assert resealed(elsewhere, tmp_path)[0] == "INVALID"


def test_networks_take_as_long_in_each_further_visit(tmp_path):
    """A claim on fewer shared loops says more of further ones: six cycles of 21 here."""
    nodes = (
        StorageLevel("Main", energy=AccessEnergy(90, 0, 80), shared_bandwidth=1),
        StorageLevel("GLB", size_words=11, read_bandwidth=2, network_fill_latency=3),
        Fanout("PE", 3),
        StorageLevel("RF", size_words=8),
    )
    architecture = Architecture("small", nodes, Compute("MAC", energy=1))
    cascade = cascade_of(COPIED["two copies"], {"m": 3, "b": 4}, architecture)
    limits = FusionLimits(max_loops_per_rank=1, memories=frozenset({"GLB"}))
    document = certified(cascade, "latency", limits)
    assert verdict(document, tmp_path)[0] == "VALID"
    assert least(document, document["bound"] + 1) == document["bound"] == 30
    for claim in document["edges"]:
        claim["corners"] = [[energy, cycles + 1] for energy, cycles in claim["corners"]]
    assert resealed(document, tmp_path)[0] == "INVALID"


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_words_in_holes_between_strides_do_not_count(objective: str, tmp_path):
    """A tile within a stride has no holes, so less is fetched than the box of all indices."""
    main = StorageLevel("Main", energy=AccessEnergy(5, 0, 80), shared_bandwidth=1)
    buffer = StorageLevel("GLB", size_words=8, energy=AccessEnergy(3, 6, 2))
    architecture = Architecture("small", (main, buffer), Compute("MAC", energy=1))
    cascade = cascade_of(("T[p] = A[2*p] W", "Z[p] = T[p] V"), {"p": 4}, architecture)
    document = certified(cascade, objective)
    assert document["bound"] == BruteForce(cascade, even=True).optima((objective,))[objective].value
    assert verdict(document, tmp_path)[0] == "VALID"


def test_limits_are_part_of_the_claim(tmp_path):
    for limits in (FusionLimits(max_loops=1), FusionLimits(0)):
        document = certified(attention(3), "energy", limits)
        assert verdict(document, tmp_path)[0] == "VALID"
    document["problem"]["most_loops"] = None
    assert resealed(document, tmp_path)[0] == "CANNOT CHECK"  # there are better ones


def test_a_cascade_that_nothing_fits_is_proven_to_have_no_mapping(tmp_path):
    main = StorageLevel("Main", energy=AccessEnergy(9, 9, 9))
    buffer = StorageLevel("GLB", size_words=2, energy=AccessEnergy(1, 1, 1), min_utilization=0)
    cascade = cascade_of(
        SHAPES["products"],
        {"m": 2, "a": 2, "b": 2, "c": 2},
        Architecture("small", (main, buffer, StorageLevel("RF", size_words=0)), Compute("MAC")),
    )
    full = []
    for einsum in cascade.einsums:
        kept = KeepRules(frozenset(space.name for space in einsum.problem.dataspaces))
        full.append(replace(einsum, mapspace=replace(einsum.mapspace, keep=(KeepRules(), KeepRules(), kept))))
    cascade = replace(cascade, einsums=tuple(full))
    result = fuse_cascade(cascade, "energy")
    document = json.loads(json.dumps(fused_certificate(result, ["python"])))
    assert document["status"] == "INFEASIBLE"
    assert verdict(document, tmp_path)[0] == "VALID"


@pytest.fixture(scope="module")
def proven():
    """The result for attention, which takes the shape of FlashAttention."""
    return fuse_cascade(attention(6), "energy", limits=ONCE)


@pytest.fixture(scope="module")
def document(proven):
    """Its certificate."""
    return json.loads(json.dumps(fused_certificate(proven, ["python"])))


def test_a_search_that_was_stopped_claims_its_bound(proven, tmp_path):
    result = replace(proven, status=Status.FEASIBLE, bound=proven.value - 9)
    document = json.loads(json.dumps(fused_certificate(result, ["python"])))
    assert document["bound"] < document["cost"]["energy"]
    assert verdict(document, tmp_path)[0] == "VALID"
    nothing = replace(result, status=Status.UNKNOWN, mapping=None, evaluation=None)
    with pytest.raises(CertificateError, match="claims nothing"):
        fused_certificate(nothing, ["python"])


@pytest.mark.parametrize(
    "name, seed, objectives",
    [
        ("window", 1, OBJECTIVES),
        ("residual", 1, ("energy",)),
        slow("depthwise", 1, ("latency",)),
        slow("two windows", 0, ("energy",)),
        slow("plane", 0, ("edp",)),
    ],
)
def test_certificates_of_loops_that_slide_windows(
    name: str, seed: int, objectives: tuple[str, ...], tmp_path
):
    cascade = windowed(Random(f"{name} {seed}"), name)
    optima = BruteForce(cascade, even=True, divided=True).optima(objectives)
    for objective in objectives:
        document = certified(cascade, objective)
        assert verdict(document, tmp_path)[0] == "VALID"
        optimum = optima[objective].value
        assert document["bound"] <= least(document, optimum + 1) <= optimum <= document["cost"][objective]
        assert document["bound"] == optimum or document["status"] == "FEASIBLE"


@pytest.mark.parametrize("name, objective", [slow("depthwise", "energy"), ("residual", "latency")])
def test_whole_vectors_are_rounded_up_for_all_visits_together(name: str, objective: str, tmp_path):
    """And the buffer's bandwidth carries the words of all of them."""
    main = StorageLevel("Main", energy=AccessEnergy(20, 0, 20, 1), block_size=4)
    buffer = StorageLevel(
        "GLB", size_words=16, block_size=4, energy=AccessEnergy(8, 9, 7), shared_bandwidth=2
    )
    architecture = Architecture("small", (main, buffer), Compute("MAC", energy=1))
    cascade = cascade_of(SHAPES[name], {"q": 4, "r": 3, "p": 6, "c": 2, "k": 2}, architecture)
    assert verdict(certified(cascade, objective), tmp_path)[0] == "VALID"


@pytest.mark.parametrize(
    "name, objective", few([("products", "energy"), ("projections", "edp"), ("three", "latency")])
)
def test_certificates_of_several_places_of_the_buffer(name: str, objective: str, tmp_path):
    cascade = uneven(drawn(Random(f"certificate {name} 0"), name))
    (optimum,) = BruteForce(cascade).optima((objective,)).values()
    document = certified(cascade, objective)
    assert verdict(document, tmp_path)[0] == "VALID"
    assert document["bound"] == document["cost"][objective] == optimum.value
    assert least(document, document["bound"] + 1) == document["bound"]


@pytest.mark.parametrize(
    "name, seed, objectives",
    few([("attention", 101, ("energy",)), ("products", 105, ("edp",)), ("three", 100, ("latency",))]),
)
def test_certificates_by_accelforges_rule(name: str, seed: int, objectives: tuple[str, ...], tmp_path):
    cascade = ported(Random(seed), by_place(drawn(Random(f"{name} {seed}"), name)))
    optima = BruteForce(cascade).optima(objectives)
    for objective in objectives:
        document = certified(cascade, objective)
        assert verdict(document, tmp_path)[0] == "VALID"
        assert document["bound"] == document["cost"][objective] == optima[objective].value
        assert least(document, document["bound"] + 1) == document["bound"]


def ported(random: Random, cascade: Cascade) -> Cascade:
    """Give memories ports whose reads and writes take different times."""
    port = Port(Fraction(random.randint(0, 3), 3), Fraction(random.randint(0, 4), 2))

    def changed(node: StorageLevel | Fanout) -> StorageLevel | Fanout:
        return replace(node, ports=(port,)) if isinstance(node, StorageLevel) else node

    einsums = []
    for einsum in cascade.einsums:
        architecture = einsum.mapspace.architecture
        architecture = replace(architecture, nodes=tuple(map(changed, architecture.nodes)))
        einsums.append(replace(einsum, mapspace=replace(einsum.mapspace, architecture=architecture)))
    return replace(cascade, einsums=tuple(einsums))


def resealed(document, folder):
    """The verdict on a certificate with its hashes computed anew."""
    document["problem_sha256"] = canonical_sha256(document["problem"])
    return verdict(digested(document), folder)


def leaf(part, number):
    """A leaf of a tree."""
    if "einsum" in part:
        return part if part["einsum"] == number else None
    return next(filter(None, (leaf(child, number) for child in part["children"])), None)


def a_lower_cost(doc):
    doc["cost"]["energy"] -= 1


def a_lower_value(doc):
    doc["cost"]["energy"] -= 1
    doc["bound"] -= 1


def a_bound_above_the_value(doc):
    doc["status"], doc["bound"] = "FEASIBLE", doc["bound"] + 1


def a_cheaper_memory(doc):
    for einsum in doc["problem"]["einsums"]:
        for own in einsum["mapspace"]["nodes"][0]["dataspaces"]:
            own["read"] -= 1


def no_room(doc):
    for einsum in doc["problem"]["einsums"]:
        for node in einsum["mapspace"]["nodes"]:
            if node["kind"] == "storage" and node["name"] == "GLB":
                node["most_size"] = 17
    doc["problem"]["rooms"][0] = 17


def computing_twice(doc):
    """A shared loop over a dimension that does not index what is handed over."""
    (body,) = doc["mapping"]["tree"]
    body["loops"][0]["over"][0][1] = 2


def more_trips(doc):
    (body,) = doc["mapping"]["tree"]
    body["loops"][0]["trips"] *= 2


def a_loop_less(doc):
    (body,) = doc["mapping"]["tree"]
    body["loops"].pop()


def an_einsum_left_out(doc):
    (body,) = doc["mapping"]["tree"]
    body["children"].pop(1)


def einsums_exchanged(doc):
    (body,) = doc["mapping"]["tree"]
    body["children"].reverse()


def a_body_of_one(doc):
    (body,) = doc["mapping"]["tree"]
    body["children"] = [{"loops": body["loops"][:1], "children": body["children"]}]


def nothing_held(doc):
    leaf(doc["mapping"]["tree"][0], 0)["held"] = []


def held_farther_out(doc):
    leaf(doc["mapping"]["tree"][0], 2)["held"][0][1] = 0


def stored_below_more_loops(doc):
    doc["mapping"]["stored"][0][1] += 1


def stored_twice(doc):
    doc["mapping"]["stored"].append(doc["mapping"]["stored"][0])


def stored_against_its_will(doc):
    for tensor in doc["problem"]["tensors"]:
        tensor["may_stay"] = []


def a_lower_nest(doc):
    (nest,) = leaf(doc["mapping"]["tree"][0], 0)["nests"]
    next(own for own in nest["loops"] if own).pop()


def a_raised_edge(doc):
    for edge in doc["edges"]:
        for corner in edge["corners"]:
            corner[0] += 1


def edges_without_mappings(doc):
    for edge in doc["edges"]:
        edge["corners"] = []


def a_raised_floor(doc):
    for own in doc["least"]:
        own["paid"] *= 10  # more than on-chip reads add to the arithmetic


def another_rule(doc):
    for einsum in doc["problem"]["einsums"]:
        einsum["mapspace"]["counting"] = "exact"


def two_rules(doc):
    doc["problem"]["einsums"][0]["mapspace"]["counting"] = "exact"


def edges_with_several_tiles_above(doc):
    """Raised bounds where several tiles are above the nests, at one place of the buffer."""
    several = [edge for edge in doc["edges"] if len(edge["above"]) > 1 and edge["corners"]]
    assert several
    for edge in several:
        edge["corners"] = []


INVALID = [
    *(a_lower_cost, a_lower_value, a_bound_above_the_value, a_cheaper_memory, no_room, computing_twice),
    *(more_trips, a_loop_less, an_einsum_left_out, einsums_exchanged, a_body_of_one, nothing_held),
    *(held_farther_out, stored_below_more_loops, stored_twice, stored_against_its_will, a_lower_nest),
    *(a_raised_edge, edges_without_mappings, a_raised_floor),
]


@pytest.mark.parametrize("forge", INVALID)
def test_forged_claims_are_refused(forge, document, tmp_path):
    forged = copy.deepcopy(document)
    forge(forged)
    assert resealed(forged, tmp_path)[0] == "INVALID"


WRONG_BY_PLACE = [
    *(
        a_lower_cost,
        a_lower_value,
        a_bound_above_the_value,
        no_room,
        nothing_held,
        a_lower_nest,
        a_raised_edge,
    ),
    *(edges_with_several_tiles_above, a_raised_floor, another_rule, two_rules),
]


@pytest.fixture(scope="module")
def placed():
    """The certificate of attention by AccelForge's rule."""
    return certified(by_place(attention(3)), "energy", ONCE)


def test_edges_that_are_missing_by_accelforges_rule_prove_nothing(placed, tmp_path):
    assert verdict(placed, tmp_path)[0] == "VALID"
    assert resealed({**copy.deepcopy(placed), "edges": []}, tmp_path)[0] == "CANNOT CHECK"


@pytest.mark.parametrize("forge", WRONG_BY_PLACE)
def test_claims_that_are_forged_by_accelforges_rule(forge, placed, tmp_path):
    forged = copy.deepcopy(placed)
    forge(forged)
    assert resealed(forged, tmp_path)[0] == "INVALID"


@pytest.fixture(scope="module")
def halo():
    """The certificate of a convolution after another one: the halo waits, and visits differ."""
    return certified(halo_waits(), "energy")


def a_visit_without_nest(doc):
    leaf(doc["mapping"]["tree"][0], 0)["nests"].pop()


def a_nest_twice(doc):
    nests = leaf(doc["mapping"]["tree"][0], 0)["nests"]
    nests[1] = nests[0]


def no_room_for_the_halo(doc):
    """A word less than what waits and what the producer needs besides."""
    for einsum in doc["problem"]["einsums"]:
        for node in einsum["mapspace"]["nodes"]:
            if node["kind"] == "storage" and node["name"] == "GLB":
                node["most_size"] = 7
    doc["problem"]["rooms"][0] = 7


def other_rows(doc):
    """The consumer's loop runs over the rows of its window instead."""
    doc["mapping"]["tree"][0]["loops"][0]["over"][1][1] = (
        1 - doc["mapping"]["tree"][0]["loops"][0]["over"][1][1]
    )


def a_raised_part(doc):
    for edge in (edge for edge in doc["edges"] if edge["homes"] is not None):
        edge["corners"] = [[energy + 1, cycles] for energy, cycles in edge["corners"]]


def parts_without_mappings(doc):
    for edge in (edge for edge in doc["edges"] if edge["homes"] is not None):
        edge["corners"] = []


def a_raised_floor_of_parts(doc):
    for own in doc["least"]:
        own["paid"] += 1


def the_halo_dropped(doc):
    """A shorter window: fewer rows overlap."""
    (einsum,) = (own for own in doc["problem"]["einsums"] if own["name"] == "Z")
    read = next(own for own in einsum["mapspace"]["dataspaces"] if own["name"] == "T")
    read["ranks"][0] = [term for term in read["ranks"][0] if term[0] == read["ranks"][0][0][0]]


WRONG_HALOS = [
    *(a_lower_cost, a_lower_value, a_bound_above_the_value, a_visit_without_nest, a_nest_twice),
    *(no_room_for_the_halo, other_rows, a_raised_part, parts_without_mappings, a_raised_floor_of_parts),
    *(the_halo_dropped, more_trips, stored_below_more_loops, stored_against_its_will),
]


@pytest.mark.parametrize("forge", WRONG_HALOS)
def test_forged_halos_are_refused(forge, halo, tmp_path):
    assert verdict(halo, tmp_path)[0] == "VALID"
    forged = copy.deepcopy(halo)
    forge(forged)
    assert forged != halo
    assert resealed(forged, tmp_path)[0] == "INVALID"


def test_what_keeps_an_overlap_lies_above_loops_that_would_drop_it():
    """Columns inside of rows: all columns of a window's rows have to wait."""
    document = certified(windowed(Random("plane 0"), "plane"), "energy", FusionLimits(0))
    cascade = fused_cascade.Cascade(document["problem"])
    rows, columns = (fused_cascade.SharedLoop(2, 0, dims) for dims in ((0, 0), (1, 1)))
    assert {rows.dims, columns.dims} <= {*cascade.classes(0, 2)}
    tensor = next(iter(cascade.storable))
    assert cascade.keeps(tensor, (rows,))
    assert not cascade.keeps(tensor, (rows, columns))
    assert next(own for own, _ in cascade.waiting(tensor, (rows,)).values()) == [(0, 3), (2, 5)]
    assert cascade.cut(0, (rows,))[0] == ((3, 1), (2, 1))


def test_edges_that_are_missing_prove_nothing(document, tmp_path):
    word, reason = resealed({**copy.deepcopy(document), "edges": []}, tmp_path)
    assert word == "CANNOT CHECK"
    assert "do not exclude values from" in reason


def test_parts_that_are_missing_prove_nothing(tmp_path):
    document = certified(windowed(Random("depthwise 1"), "depthwise"), "energy")
    whole = [edge for edge in document["edges"] if edge["homes"] is None]
    assert len(whole) < len(document["edges"])
    assert resealed({**document, "edges": whole}, tmp_path)[0] == "CANNOT CHECK"


def test_a_bound_that_is_too_high_is_not_confirmed(document, tmp_path):
    """A worse mapping, the unfused one, with its value as the bound."""
    forged = certified(attention(6), "energy", FusionLimits(0, 1, frozenset("SP")))
    assert forged["bound"] > document["bound"]
    for own, theirs in zip(forged["problem"]["tensors"], document["problem"]["tensors"], strict=True):
        own["may_stay"] = theirs["may_stay"]
    forged["problem"]["most_loops"] = None
    forged["least"], forged["edges"] = document["least"], document["edges"]
    word, reason = resealed(forged, tmp_path)
    assert word == "CANNOT CHECK"
    assert f"values from {document['bound']:,}" in reason


@pytest.mark.parametrize(
    "key, value",
    [
        ("bound", -1),
        ("bound", 1.5),
        ("objective", "area"),
        ("status", "UNKNOWN"),
        ("mapping", {}),
        ("edges", [{}]),
    ],
)
def test_malformed_certificates_are_invalid(key, value, document, tmp_path):
    assert resealed({**copy.deepcopy(document), key: value}, tmp_path)[0] == "INVALID"


def test_a_digest_protects_the_rest(document, tmp_path):
    assert verdict({**document, "seed": 7}, tmp_path)[0] == "INVALID"
