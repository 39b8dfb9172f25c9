"""Problems that are malformed, or too much work, with recomputed hashes: nothing is proven from them."""

import copy
import json
from itertools import product
from time import process_time

import numpy as np
import pytest

from solver.certificate.canonical import canonical_sha256
from tests.solver.certificate.checker import certified, dataspaces, digested, prove, verdict
from tests.solver.certificate.samples import SAMPLES, feasible

PRICES = ("read", "fill", "update")


@pytest.fixture(scope="module")
def document():
    """The certificate of a mapspace with a fanout, whose problem has small bounds."""
    documents = (certified(mapspace, "latency") for mapspace in map(feasible, range(SAMPLES)))
    return next(
        own for own in documents if any(node["kind"] == "spatial" for node in own["problem"]["nodes"])
    )


def storage(problem, **changes):
    """Change all storage levels."""
    for node in problem["nodes"]:
        if node["kind"] == "storage":
            node.update(changes)


def held(problem, **changes):
    """Change what storage levels know of each dataspace."""
    for node in problem["nodes"]:
        for own in node["dataspaces"] if node["kind"] == "storage" else ():
            own.update(changes)


def fanouts(problem, **changes):
    """Change all fanouts."""
    for node in problem["nodes"]:
        if node["kind"] == "spatial":
            node.update(changes)


def sizes_overflow(problem):
    """Let tiles take 2^62 or more, which sums of 64 bits do not hold, where any size is allowed."""
    storage(problem, least_size=1, most_size=1 << 70)
    held(problem, size=1 << 62)


def ranks_overflow(problem):
    """Index every tensor by the same dimension again and again."""
    problem["bounds"][0] = 64
    for space in problem["dataspaces"]:
        space["ranks"] = [[[0, 1]]] * 12


def coefficients(value):
    """Set all coefficients."""

    def change(problem):
        for space in problem["dataspaces"]:
            space["ranks"] = [[[dim, value] for dim, _ in rank] for rank in space["ranks"]]

    return change


def ranks_of(dim):
    """Index every tensor by one dimension."""

    def change(problem):
        for space in problem["dataspaces"]:
            space["ranks"] = [[[dim, 1]]]

    return change


def keep(*sets):
    """Set the levels that may keep a dataspace."""

    def change(problem):
        for space in problem["dataspaces"]:
            space["keep"] = list(sets)

    return change


def loops(problem, **changes):
    """Change all nodes of temporal loops."""
    for node in problem["nodes"]:
        if node["kind"] == "temporal":
            node.update(changes)


def nested(problem):
    """Nest lists deeper than a recursive function goes."""
    problem["extra"] = []
    for _ in range(800):
        problem["extra"] = [problem["extra"]]


def no_bandwidth(problem):
    """Serve no word per cycle."""
    storage(problem, bandwidths={kind: [0, 1] for kind in ("read", "write", "shared")})


def truth_in_words(problem):
    """Tell by a text that a dataspace is only read: any text is true."""
    for space in problem["dataspaces"]:
        space["read_write"] = str(space["read_write"]).lower()


def cancelled(problem):
    """Name a dimension twice in a rank, so that nothing moves it."""
    for space in problem["dataspaces"]:
        space["ranks"] = [[*rank, *([dim, -value] for dim, value in rank)] for rank in space["ranks"]]


def many_masks(problem):
    """Leave 2^60 choices of what is kept where."""
    inner = max(place for place, node in enumerate(problem["nodes"]) if node["kind"] == "storage")
    problem["dataspaces"] = [{**problem["dataspaces"][0], "keep": [[0], [0, inner]]}] * 60
    for node in problem["nodes"]:
        if node["kind"] == "storage":
            node["dataspaces"] = node["dataspaces"][:1] * 60
    fanouts(problem, multicast=[True] * 60)


def loops_of_storage(problem):
    """Give storage levels factors of their own, and no other node any."""
    storage(problem, factors=[[1, bound] for bound in problem["bounds"]])
    loops(problem, factors=[[1]] * len(problem["bounds"]))
    fanouts(problem, factors=[[1]] * len(problem["bounds"]))


def slow_networks(problem):
    """Let networks add more cycles than doubles tell apart."""
    problem["network_latency"] = (1 << 60) + 129


def ranks_without_end(problem):
    """Index a tensor so often that the product of its ranks has 10^9 digits."""
    problem["bounds"][0] = 10**4000
    problem["dataspaces"][0]["ranks"] = [[[0, 1]]] * 50_000


def many_fanouts(problem):
    """Nest so many fanouts that their choices do not fit the memory."""
    fanout = next(node for node in problem["nodes"] if node["kind"] == "spatial")
    problem["bounds"] = [64] * len(problem["bounds"])
    wide = {**fanout, "mesh_x": 64, "factors": [[1, 2, 4, 8, 16, 32, 64]] * len(problem["bounds"])}
    problem["nodes"] += [wide] * 300


CHANGES = {
    "sizes overflow": (sizes_overflow, "CANNOT CHECK"),
    "ranks overflow": (ranks_overflow, "CANNOT CHECK"),
    "broken coefficients": (coefficients(1.5), "INVALID"),
    "true coefficients": (coefficients(True), "INVALID"),
    "huge coefficients": (coefficients(1 << 70), "CANNOT CHECK"),
    "factors of no dimension": (lambda problem: loops(problem, factors=[]), "INVALID"),
    "factors of 0": (lambda problem: loops(problem, factors=[[0, 1]] * len(problem["bounds"])), "INVALID"),
    "nodes of an unknown kind": (lambda problem: loops(problem, kind="other"), "INVALID"),
    "no level outermost": (lambda problem: problem["nodes"].reverse(), "INVALID"),
    "dimensions that are not there": (ranks_of(99), "INVALID"),
    "dimensions counted from the end": (ranks_of(-1), "INVALID"),
    "leakage of no fanout": (lambda problem: storage(problem, leak_fanouts=[99]), "INVALID"),
    "kept twice by a level": (keep([0, 0]), "INVALID"),
    "kept in reverse order": (keep([1, 0]), "INVALID"),
    "kept nowhere": (keep([]), "INVALID"),
    "kept by no node": (keep([0, 99]), "INVALID"),
    "a bound with many divisors": (
        lambda problem: problem["bounds"].__setitem__(0, 963761198400),
        "CANNOT CHECK",
    ),
    "nested lists": (nested, "CANNOT CHECK"),
    "blocks of no value": (lambda problem: held(problem, block=0), "INVALID"),
    "no bandwidth": (no_bandwidth, "INVALID"),
    "truth in words": (truth_in_words, "INVALID"),
    "dimensions that cancel": (cancelled, "INVALID"),
    "factors of some dimensions": (lambda problem: loops(problem, factors=[[1]]), "INVALID"),
    "ranks without end": (ranks_without_end, "CANNOT CHECK"),
    "fanouts without end": (many_fanouts, "CANNOT CHECK"),
    "a mesh in a list": (lambda problem: fanouts(problem, mesh_x=[4]), "INVALID"),
    "a size in a list": (lambda problem: storage(problem, most_size=[0]), "INVALID"),
    "units in a list": (lambda problem: problem.update(least_units=[1 << 40]), "INVALID"),
    "prices that are missing": (lambda problem: held(problem, fill=None), "INVALID"),
    "half of a fraction": (lambda problem: held(problem, bandwidth_scale=[1]), "INVALID"),
    "a fraction of nothing": (lambda problem: held(problem, bandwidth_scale=[1, 0]), "INVALID"),
    "a bandwidth of nothing": (
        lambda problem: storage(problem, bandwidths={"read": [0, 1], "write": None, "shared": None}),
        "INVALID",
    ),
    "multicast of one dataspace": (lambda problem: fanouts(problem, multicast=[True]), "INVALID"),
    "multicast by number": (
        lambda problem: fanouts(problem, multicast=[1] * len(problem["dataspaces"])),
        "INVALID",
    ),
    "dimensions without names": (lambda problem: problem.update(dims=[]), "INVALID"),
    "factors that repeat": (
        lambda problem: fanouts(problem, factors=[[1, 1]] * len(problem["bounds"])),
        "INVALID",
    ),
    "sets along X without end": (lambda problem: fanouts(problem, along_x=[[0]] * 300_000), "CANNOT CHECK"),
    "choices of what is kept": (many_masks, "CANNOT CHECK"),
    "cycles beyond doubles": (slow_networks, "CANNOT CHECK"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_nonsense_proves_nothing(name, document, tmp_path):
    """A claim that no mapping exists is the easiest to make of a problem that makes no sense."""
    change, expected = CHANGES[name]
    forged = copy.deepcopy(document)
    change(forged["problem"])
    forged["problem_sha256"] = canonical_sha256(forged["problem"])
    assert verdict(digested(forged), tmp_path)[0] == expected
    forged |= {"status": "INFEASIBLE", "bounds": [], "mapping": None, "cost": None}
    assert verdict(digested(forged), tmp_path)[0] == expected


ALIKE = [number * (2**61 - 1) for number in range(200_000)]
"""Numbers of which all have the hash 0."""


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda own: own["mapping"]["loops"].__setitem__(0, [[n, 2] for n in ALIKE]), id="loops"),
        pytest.param(lambda own: own.update(objectives=ALIKE), id="objectives"),
    ],
)
def test_keys_of_one_hash_take_no_quadratic_time(document, change, tmp_path):
    forged = copy.deepcopy(document)
    change(forged)
    start = process_time()
    assert verdict(digested(forged), tmp_path)[0] == "INVALID"
    assert process_time() - start < 10


def test_storage_levels_have_no_loops(document, tmp_path):
    forged = copy.deepcopy(document)
    loops_of_storage(forged["problem"])
    forged["problem_sha256"] = canonical_sha256(forged["problem"])
    assert verdict(digested(forged), tmp_path)[0] == "INVALID"
    space = prove.Space(forged["problem"])
    assert all(own == [1] for factors in space.factors for own in factors)


def test_keys_do_not_repeat(document, tmp_path):
    text = json.dumps(document)
    path = tmp_path / "certificate.json"
    path.write_text(text)
    assert prove.verdict(path)[0] == "VALID"
    path.write_text(text.replace("{", '{"status": "INFEASIBLE", ', 1))
    assert prove.verdict(path)[0] == "INVALID"


def test_meshes_beyond_64_bits_are_checked(document, tmp_path):
    wide = copy.deepcopy(document)
    storage(wide["problem"], most_paying=1 << 64)
    wide["problem_sha256"] = canonical_sha256(wide["problem"])
    assert verdict(digested(wide), tmp_path)[0] == "VALID"


def test_windows_with_too_many_strides_are_not_looked_at():
    bounds = (2**3 * 3**3 * 5 * 7 * 11 * 13, 2**4 * 3**2 * 5 * 7 * 11 * 17)
    space = dataspaces.Dataspace({"read_write": False, "keep": [[0]], "ranks": [[[0, 1], [1, 1]]]}, bounds)
    factors = np.array(list(product(*map(dataspaces.divisors, bounds))))
    with pytest.raises(prove.CannotCheckError, match="strides"):
        space.few_distinct(factors, multicast=True)


def test_a_text_cannot_print_a_verdict(document, tmp_path):
    forged = copy.deepcopy(document)
    storage(
        forged["problem"], bandwidths={kind: ["\ud800\nVALID", 1] for kind in ("read", "write", "shared")}
    )
    forged["problem_sha256"] = canonical_sha256(forged["problem"])
    result, reason = verdict(digested(forged), tmp_path)
    assert result == "INVALID"
    assert "\n" not in reason
    assert reason.isascii()


@pytest.mark.parametrize("index", range(SAMPLES))
def test_energy_that_is_free_limits_no_cycles(index):
    """Where nothing costs energy, a product of 0 is within reach at any number of cycles."""
    problem = copy.deepcopy(certified(feasible(index), "latency")["problem"])
    problem["compute_energy"] = 0
    storage(problem, leak=0, bandwidths={"read": [1, 2], "write": [1, 3], "shared": None})
    held(problem, **dict.fromkeys(PRICES, 0))
    space = prove.Space(problem)
    fastest = prove.refute(space, prove.Query())["latency"]
    for limits in ({"edp": 0}, {"latency": fastest, "edp": 0}, {"energy": 0, "latency": fastest, "edp": 0}):
        assert prove.refute(space, prove.Query(**limits)) is not None
