"""Certificates of results counted as AccelForge counts, with ports, leakage, windows and tolls."""

import copy
import json
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from random import Random

import pytest

from model.architecture import AccessEnergy, Fanout, Port, StorageLevel
from model.cost import evaluate_in
from model.counting import ACCELFORGE
from model.mapspace import Mapspace, TemporalRules, toll_rules
from model.places import spread
from solver.certificate.canonical import canonical, canonical_mapping, canonical_sha256
from tests import strategies
from tests.bruteforce import enumerate_mappings, optima
from tests.mapspaces import free_mapspace, matmul
from tests.reference import OBJECTIVES
from tests.slow import few
from tests.solver.certificate.checker import certified, digested, prove, verdict
from tests.strategies import random_mapspaces, random_mapspaces_with_places, with_tolls

PRODUCTS = (strategies.gemm, strategies.mttkrp, strategies.elementwise)


def drawn(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[Mapspace]:
    """Return small mapspaces of AccelForge's rule, of products or convolutions, half of them with tolls."""
    monkeypatch.setattr(strategies, "EINSUMS", strategies.CONVOLUTIONS if seed % 2 else PRODUCTS)
    random = Random(seed)
    found = [*random_mapspaces_with_places(seed, 1, 200), *random_mapspaces(seed, 3, 200, packed_share=0)]
    plain = [own for own in found if not any(level.no_coalesce for level in own.architecture.levels)]
    tolled = [with_tolls(random, own) if number % 2 else own for number, own in enumerate(plain)]
    return [strategies.counted_as_accelforge(mapspace, random) for mapspace in tolled]


@pytest.mark.parametrize("seed", few([1, 2, 0, 4], 2))
def test_the_checker_finds_the_optimum_and_nothing_below(seed: int, tmp_path, monkeypatch):
    for mapspace in drawn(seed, monkeypatch):
        space = prove.mapspace(json.loads(json.dumps(canonical(mapspace))))
        for objective, best in zip(OBJECTIVES, optima(mapspace, OBJECTIVES), strict=True):
            assert verdict(certified(mapspace, objective), tmp_path)[0] == "VALID"
            if best is None:
                continue
            found = prove.refute(space, prove.Query(**{objective: best[0]}))
            assert found is not None
            assert found[objective] == best[0]
            assert prove.refute(space, prove.Query(**{objective: best[0] - 1})) is None


@pytest.mark.parametrize("seed", few([10, 11, 13]))
def test_the_checker_prices_mappings_as_the_model_does(seed: int, monkeypatch):
    random = Random(seed)
    for mapspace in drawn(seed, monkeypatch):
        space = prove.mapspace(canonical(mapspace))
        mappings = list(islice(enumerate_mappings(mapspace, innermost_orders=False), 300))
        for mapping in random.sample(mappings, min(12, len(mappings))):
            document = json.loads(json.dumps(canonical_mapping(mapspace, mapping)))
            evaluation, cost = evaluate_in(mapspace, mapping), space.price(*space.read(document))
            assert (cost["energy"], cost["latency"]) == (evaluation.energy, evaluation.cycles)
            assert cost["fits"] == (not evaluation.violations)


def converting() -> Mapspace:
    """A product on two units, with a converter of outputs in front of a buffer that leaks."""
    problem = matmul(4, 4, 4)
    output = next(space.name for space in problem.dataspaces if space.read_write)
    dram = StorageLevel("dram", energy=AccessEnergy(100, 100, 100))
    toll = StorageLevel("adc", tolls=((output, "up"),), energy=AccessEnergy(30, 0, 30))
    buffer = StorageLevel(
        "buffer",
        size_words=12,
        energy=AccessEnergy(1, 2, 2, 5),
        ports=(Port(Fraction(1, 3), Fraction(1, 2)),),
    )
    even = free_mapspace(problem, dram, toll, buffer, Fanout("array", 2))
    loops, keep = toll_rules(toll, problem)
    own = {"temporal": (TemporalRules(), loops, TemporalRules()), "keep": (even.keep[0], keep, even.keep[2])}
    return spread(replace(even, counting=ACCELFORGE, **own))


def test_rules_on_fanouts_go_with_several_places(tmp_path):
    free, alone = converting(), converting().where('instances("array") <= 1')
    best, ruled = certified(free, "latency"), certified(alone, "latency")
    assert verdict(best, tmp_path)[0] == verdict(ruled, tmp_path)[0] == "VALID"
    assert ruled["bounds"] > best["bounds"]
    # What is best without the rule breaks it.
    forged = {**ruled, **{key: best[key] for key in ("mapping", "cost", "bounds")}}
    assert verdict(digested(forged), tmp_path)[0] == "INVALID"


def test_wrong_claims_are_caught(tmp_path):
    """A better bound, another cost, a dearer mapping called the best, another rule or toll."""
    mapspace = converting()
    best = certified(mapspace, "energy")
    assert verdict(best, tmp_path)[0] == "VALID"
    assert any("toll" in held for node in best["problem"]["nodes"] for held in node.get("dataspaces", ()))
    mappings = islice(enumerate_mappings(mapspace, innermost_orders=False), 300)
    priced = [(own, evaluate_in(mapspace, own)) for own in mappings]
    dearer = max((own for own in priced if own[1].valid), key=lambda own: own[1].energy)
    assert dearer[1].energy > best["bounds"][0]
    figures = {"energy": dearer[1].energy, "latency": dearer[1].cycles}
    figures["edp"] = figures["energy"] * figures["latency"]
    forged = {
        "bound": {"bounds": [best["bounds"][0] - 1]},
        "cost": {
            "cost": {**best["cost"], "energy": best["cost"]["energy"] - 1},
            "bounds": [best["bounds"][0] - 1],
        },
        "mapping": {
            "mapping": canonical_mapping(mapspace, dearer[0]),
            "cost": figures,
            "bounds": [figures["energy"]],
        },
    }
    for changes in forged.values():
        assert verdict(digested({**best, **changes}), tmp_path)[0] == "INVALID"
    for change in (free_tolls, exact_rule):
        problem = change(copy.deepcopy(best["problem"]))
        claim = {**best, "problem": problem, "problem_sha256": canonical_sha256(problem)}
        assert verdict(digested(claim), tmp_path)[0] == "INVALID"


def free_tolls(problem: dict) -> dict:
    """Let nothing pay tolls."""
    for node in problem["nodes"]:
        for held in node.get("dataspaces", ()):
            if "toll" in held:
                held["toll"] = [False, False]
    return problem


def exact_rule(problem: dict) -> dict:
    """Let words count as an execution moves them."""
    return {**problem, "counting": "exact"}
