"""Certificates where memories have several places: proofs that hold, and claims that do not."""

import copy
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.cost import evaluate_in
from model.extents import ANY, PERFECT, Factors
from model.mapspace import FactorRule, Mapspace, SpatialRules, TemporalRules
from model.places import gathered, on_places, spread, tidied
from solver.certificate.canonical import CertificateError, canonical, canonical_mapping, canonical_sha256
from solver.certificate.document import certificate
from tests.bruteforce import enumerate_mappings
from tests.mapspaces import free_mapspace, matmul
from tests.reference import OBJECTIVES
from tests.solver.certificate.checker import certified, digested, prove, solved, verdict
from tests.strategies import random_mapspaces_with_places


def tight(*rules: FactorRule) -> Mapspace:
    """A product on four units, and a buffer of 20 words of which only uneven tiles make the most."""
    dram = StorageLevel("dram", energy=AccessEnergy(100, 100, 100))
    buffer = StorageLevel("buffer", size_words=20, energy=AccessEnergy(1, 1, 1))
    mapspace = free_mapspace(matmul(8, 8, 8), dram, buffer, Fanout("array", 2, 2))
    fixed = tuple(FactorRule(dim, "=", factor) for dim, factor in (("K", 2), ("N", 2), ("M", 1)))
    temporal = TemporalRules(), TemporalRules(rules, ("K",) if rules else ())
    return spread(replace(mapspace, temporal=temporal, spatial=(SpatialRules(fixed),)))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return certified(tight(FactorRule("M", "<=", 4), FactorRule("N", ">=", 2)), "energy")


@pytest.mark.parametrize(("seed", "factors"), [(0, PERFECT), (2, PERFECT), (4, PERFECT), (30, ANY)])
def test_random_optima_are_valid(seed: int, factors: Factors, tmp_path):
    for mapspace in random_mapspaces_with_places(seed, 3, 240, factors):
        if any(level.no_coalesce for level in mapspace.architecture.levels):
            with pytest.raises(CertificateError):
                certified(mapspace, "energy")
            continue
        for objective in OBJECTIVES:
            assert verdict(certified(mapspace, objective), tmp_path)[0] == "VALID"


def test_even_tiles_are_not_taken_for_the_best(tmp_path):
    mapspace = tight()
    best, even = solved(mapspace, "energy"), solved(gathered(mapspace), "energy")
    assert even.value > best.value
    mapping = tidied(mapspace, on_places(mapspace, even.mapping))
    claimed = replace(even, mapping=mapping, evaluation=evaluate_in(mapspace, mapping))
    assert verdict(certificate(mapspace, best, ["python"]), tmp_path)[0] == "VALID"
    found, why = verdict(certificate(mapspace, claimed, ["python"]), tmp_path)
    assert found == "INVALID"
    assert "no mapping has energy below" in why


@pytest.mark.parametrize("factors", [PERFECT, ANY])
def test_places_of_two_memories_may_alternate(factors: Factors):
    """Tiles of one memory take no room of the other, whose only word is in use."""
    sizes = {"large 1": 100, "small 1": 1, "large 2": 100, "small 2": 1}
    levels = (StorageLevel(name, size_words=words) for name, words in sizes.items())
    mapspace = free_mapspace(matmul(4, 4, 4), StorageLevel("dram"), *levels)
    problem = canonical(replace(mapspace, factors=factors))
    _, *places = [p for p, node in enumerate(problem["nodes"]) if node["kind"] == "storage"]
    large, small = places[::2], places[1::2]
    pairs = [(own, [[p + 1] for p in own]) for own in (large, small)]
    problem["memories"] = [{"places": own, "groups": loops, "factors": [None] * 3} for own, loops in pairs]
    for dataspace, place in zip(problem["dataspaces"], (*large, small[0]), strict=True):
        dataspace["keep"] = [[0, place]]
    assert prove.refute(prove.mapspace(problem), prove.Query()) is not None


def test_mappings_with_remainders_cost_what_the_cost_model_says():
    """And with their own costs as limits they are found, or others that are as good."""
    random, seen = Random(7), 0
    for mapspace in random_mapspaces_with_places(32, 4, 600, ANY):
        if any(level.no_coalesce for level in mapspace.architecture.levels):
            continue
        space, mappings = prove.mapspace(canonical(mapspace)), list(enumerate_mappings(mapspace))
        for mapping in random.sample(mappings, min(10, len(mappings))):
            own, written = evaluate_in(mapspace, mapping), canonical_mapping(mapspace, mapping)
            cost = space.price(*space.read(written))
            enough = own.compute_instances >= mapspace.min_parallelism
            found = (cost["energy"], cost["latency"], cost["fits"])
            assert found == (own.energy, own.cycles, not own.violations and enough)
            limits = prove.Query(energy=own.energy, latency=own.cycles, edp=own.energy * own.cycles)
            assert not cost["fits"] or prove.refute(space, limits) is not None
            seen += cost["fits"]
    assert seen > 5


def test_even_tiles_with_remainders_are_not_taken_for_the_best(tmp_path):
    """Products of factors at all places lie between two numbers; none of them is exceeded."""
    odd = tight(FactorRule("M", "<=", 4), FactorRule("N", ">=", 2))
    mapspace = replace(odd, problem=replace(odd.problem, bounds=(5, 4, 4)), factors=ANY)
    document = certified(mapspace, "energy")
    assert verdict(document, tmp_path)[0] == "VALID"
    assert document["problem"]["memories"][0]["factors"] == [[1, 4], [2, None], None]
    raised = digested({**document, "status": "FEASIBLE", "bounds": [document["bounds"][0] + 1]})
    assert verdict(raised, tmp_path)[0] == "INVALID"
    changed = copy.deepcopy(document)
    changed["problem"]["memories"][0]["factors"][1] = [1, 1]
    changed["problem_sha256"] = canonical_sha256(changed["problem"])
    found, why = verdict(digested(changed), tmp_path)
    assert (found, "go together" in why) == ("INVALID", True)


def test_rules_on_all_places_are_checked(document, tmp_path):
    assert verdict(document, tmp_path)[0] == "VALID"
    (memory,) = document["problem"]["memories"]
    assert memory["places"] == [2, 5, 8]
    assert memory["groups"] == [[3, 4], [6, 7], [9, 10]]
    assert memory["factors"] == [[1, 2, 4], [2, 4, 8], None]


def _smaller(problem: dict[str, Any]) -> None:
    for node in problem["nodes"]:
        if node["name"].startswith("buffer#"):
            node.update({"most_size": 12} if node["kind"] == "storage" else {})


def _stricter(problem: dict[str, Any]) -> None:
    problem["memories"][0]["factors"] = [[1], [1], [1]]


def _apart(problem: dict[str, Any]) -> None:
    problem["memories"] = []


def _elsewhere(problem: dict[str, Any]) -> None:
    problem["memories"][0]["places"] = [2, 5, 9]


def _twice(problem: dict[str, Any]) -> None:
    problem["memories"] *= 2


def _any_factors(problem: dict[str, Any]) -> None:
    problem["factors"] = "any"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_smaller, "the mapping respects all capacities"),
        (_stricter, "loops of several places of a memory go together"),
        (_apart, "it has the keys of the format 'tilewright certificate 9'"),
        (_elsewhere, "places of a memory are in order"),
        (_twice, "no place is one of two memories"),
        (_any_factors, "factors lie between two numbers"),
    ],
)
def test_other_problems_are_not_proven(
    change: Callable[[dict[str, Any]], None], message: str, document, tmp_path
):
    changed = copy.deepcopy(document)
    change(changed["problem"])
    changed["problem_sha256"] = canonical_sha256(changed["problem"])
    found, why = verdict(digested(changed), tmp_path)
    assert found in ("INVALID", "CANNOT CHECK")
    assert message in why
