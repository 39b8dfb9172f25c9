"""Certificates under user-defined rules: optima, forged claims, and how the checker reads rules."""

import copy
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random

import pytest

from model.architecture import Fanout, StorageLevel
from model.cost import evaluate_in
from model.extents import ANY, PERFECT, Factors
from model.mapspace import Mapspace
from model.places import spread
from model.rules import RuleScope, parse_rule
from solver import Options, Status
from solver.certificate.canonical import canonical, canonical_mapping, canonical_sha256
from solver.certificate.document import certificate
from solver.stages import map_einsum
from tests.bruteforce import enumerate_mappings, optima
from tests.mapspaces import free_mapspace, matmul
from tests.random_rules import SPATIAL, TILE, WIDE, means, random_rule, with_binding_rules
from tests.slow import few
from tests.solver.certificate.any_factors import mapspaces_with_any_factors
from tests.solver.certificate.checker import certified, digested, prove, verdict
from tests.solver.certificate.enumerated import claimed, enumerated
from tests.strategies import random_mapspaces, random_mapspaces_with_places

OBJECTIVES = (("energy",), ("latency",), ("edp",), ("energy", "latency"), ("latency", "energy"))
KINDS = (TILE, SPATIAL, WIDE, WIDE)


@cache
def ruled(seed: int, any_factors: bool = False) -> tuple[Mapspace, ...]:
    """Mapspaces with rules of all kinds, which most of them satisfy in some way."""
    random, found = Random(seed), []
    free = (
        mapspaces_with_any_factors(40 + seed, 5, 120)
        if any_factors
        else random_mapspaces(700 + seed, 12, 120)
    )
    for mapspace in free:
        drawn = (
            mapspace.where(*(random_rule(random, mapspace, KINDS) for _ in range(random.choice((1, 1, 2)))))
            for _ in range(4)
        )
        options = list(drawn)
        found.append(next((own for own in options if any(islice(valid(own), 1))), options[0]))
    return tuple(found)


def valid(mapspace):
    """Yield all mappings that rules and capacities allow."""
    return (own for own in enumerate_mappings(mapspace) if evaluate_in(mapspace, own).valid)


@pytest.mark.parametrize("seed", few(range(2)))
def test_optima_under_rules_are_valid_and_nothing_else(seed, tmp_path):
    statuses = set()
    for mapspace, objectives in zip(ruled(seed), OBJECTIVES * 3, strict=False):
        document = enumerated(mapspace, *objectives)
        statuses.add(document["status"])
        assert verdict(document, tmp_path)[0] == "VALID", mapspace.rules
        if document["status"] == "OPTIMAL":
            raised = {**document, "status": "FEASIBLE", "bounds": [document["bounds"][0] + 1]}
            assert verdict(digested(raised), tmp_path)[0] == "INVALID"
    assert statuses == {"OPTIMAL", "INFEASIBLE"}


@pytest.mark.parametrize("seed", few(range(2)))
def test_optima_with_remainders_under_rules(seed, tmp_path):
    for mapspace, objectives in zip(ruled(seed, any_factors=True), OBJECTIVES, strict=True):
        assert verdict(enumerated(mapspace, *objectives), tmp_path)[0] == "VALID", mapspace.rules


@pytest.mark.parametrize("any_factors", [False, True])
def test_no_bound_excludes_a_mapping_that_rules_allow(any_factors):
    random = Random(5)
    for mapspace in ruled(int(any_factors), any_factors):
        space, mappings = prove.mapspace(canonical(mapspace)), list(valid(mapspace))
        for mapping in random.sample(mappings, min(2, len(mappings))):
            own = evaluate_in(mapspace, mapping)
            query = prove.Query(energy=own.energy, latency=own.cycles, edp=own.energy * own.cycles)
            assert prove.refute(space, query) is not None, mapspace.rules


def test_a_better_mapping_that_breaks_a_rule_is_none(tmp_path):
    random, seen = Random(3), 0
    for free in random_mapspaces(720, 24, 120):
        (optimum,) = optima(free, [("energy",)])
        if optimum is None:
            continue
        best = claimed(free, ("energy",), optimum)
        mapspace = with_binding_rules(random, free, optimum[1])
        honest = enumerated(mapspace, "energy")
        assert verdict(honest, tmp_path)[0] == "VALID"
        if honest["status"] == "INFEASIBLE" or honest["cost"]["energy"] == best["cost"]["energy"]:
            continue
        seen += 1
        forged = digested({**honest, **{key: best[key] for key in ("mapping", "cost", "bounds")}})
        result, reason = verdict(forged, tmp_path)
        assert (result, "satisfies all user-defined constraints" in reason) == ("INVALID", True)
        # Without its rules the optimum of a ruled mapspace is none.
        dropped = {key: honest[key] for key in honest if key != "rules"}
        problem = {key: own for key, own in honest["problem"].items() if key != "rules"}
        changed = {"problem": problem, "problem_sha256": canonical_sha256(problem), "format": prove.FORMAT}
        assert verdict(digested({**dropped, **changed}), tmp_path)[0] == "INVALID"
    assert seen >= 4


def small():
    """A mapspace with a rule that cuts off its optimum, whose certificate is written by the search."""
    buffer, array = StorageLevel("glb-1", size_words=40), Fanout("PE", 2, 2)
    mapspace = free_mapspace(
        matmul(4, 4, 4), StorageLevel("DRAM"), buffer, array, StorageLevel("spad", size_words=8)
    )
    scope = RuleScope(mapspace.problem, mapspace.architecture, "tile", "glb-1")
    texts = ("K % 2 == 0 and not 2*M < N", "words(A)<= capacity / 2 - 2 and share(B) in [1/5, 0.4, 8 / 40]")
    rules = tuple(parse_rule(text, scope) for text in texts)
    wide = mapspace.where("temporal('glb-1', K) * 2 == tile(spad, N) + tile(spad,K)", "energy < 1e3 mJ").rules
    return replace(mapspace, rules=(*rules, *wide))


@pytest.fixture(scope="module")
def document():
    mapspace = small()
    result = map_einsum(mapspace, Options(objectives=("energy",)))
    assert result.status is Status.OPTIMAL
    return certificate(mapspace, result, ["python"])


def test_a_certificate_of_cp_sat(document, tmp_path):
    assert document["rules"][0]["place"] == ["tile", "glb-1"]
    assert verdict(document, tmp_path)[0] == "VALID"


def altered_text(own):
    own["rules"][0]["text"] = "K % 2 == 0 and not 2*(M < N)"


def altered_condition(own):
    own["rules"][3]["text"] = own["rules"][3]["condition"] = "energy < 1 pJ"


def altered_place(own):
    own["rules"][0]["place"] = ["tile", "spad"]


def dropped(own):
    del own["rules"][2]


def added(own):
    own["rules"].append({"condition": "cycles > 1", "text": "cycles > 1", "place": None})


def altered_problem(own):
    rules = own["problem"]["rules"]
    own["rules"][2]["condition"] = rules[-1] = rules[-1].replace("+", "-")
    own["problem_sha256"] = canonical_sha256(own["problem"])


@pytest.mark.parametrize(
    "change", [altered_text, altered_condition, altered_place, dropped, added, altered_problem]
)
def test_rules_that_are_altered_or_dropped(change, document, tmp_path):
    forged = copy.deepcopy(document)
    change(forged)
    assert verdict(digested(forged), tmp_path)[0] == "INVALID"


@pytest.mark.parametrize(
    "text",
    ["tile(DRAM, K", "tile(DRAM, X) == 1", "tile(DRAM, K) ** 2 > 1", "", "words > 1", "K == 1", "width == 1"],
)
def test_what_is_no_rule(text, document, tmp_path):
    forged = copy.deepcopy(document)
    forged["problem"]["rules"] = [text]
    forged["problem_sha256"] = canonical_sha256(forged["problem"])
    assert verdict(digested(forged), tmp_path)[0] == "INVALID"


def test_rules_are_read_alike():
    """What the checker says of mappings under random rules is what Python's arithmetic says."""
    random, both = Random(9), set()
    for mapspace in random_mapspaces(730, 8, 120):
        mappings = list(enumerate_mappings(mapspace))
        for text in (random_rule(random, mapspace, KINDS) for _ in range(12)):
            own = mapspace.where(text)
            space = prove.Space(canonical(own))
            space.rules.written([{"condition": str(own.rules[0].condition), "text": text, "place": None}])
            for mapping in random.sample(mappings, min(4, len(mappings))):
                written = canonical_mapping(mapspace, mapping)
                loops, mask = [dict(pairs) for pairs in written["loops"]], written["keep"]
                holds = not space.rules.broken(loops, mask, space.price(loops, mask))
                assert holds == means(text, mapspace, mapping), text
                both.add(holds)
    assert both == {True, False}


def test_a_rule_without_its_text_is_checked(document, tmp_path):
    """Rules of renamed layers have no text."""
    bare = copy.deepcopy(document)
    for rule in bare["rules"]:
        rule["text"] = ""
    assert verdict(digested(bare), tmp_path)[0] == "VALID"


def test_loops_at_several_places_of_a_memory_are_not_known(tmp_path):
    even = free_mapspace(matmul(4, 2, 2), StorageLevel("DRAM"), StorageLevel("buffer", size_words=9))
    mapspace = spread(even.where("cycles <= 16"))
    limited = certified(mapspace, "energy")
    assert verdict(limited, tmp_path)[0] == "VALID"
    limited["problem"]["rules"] = ["innermost(buffer) == K"]
    limited["problem_sha256"] = canonical_sha256(limited["problem"])
    result, reason = verdict(digested(limited), tmp_path)
    assert (result, "several places" in reason) == ("CANNOT CHECK", True)


@pytest.mark.parametrize(("seed", "factors"), [(44, PERFECT), (42, ANY)])
def test_rules_on_tiles_at_several_places(seed: int, factors: Factors, tmp_path):
    random = Random(seed)
    for free in random_mapspaces_with_places(seed, 3, 300, factors):
        best = optima(free, ["energy"])[0]
        if best is None or any(level.no_coalesce for level in free.architecture.levels):
            continue
        mapspace = with_binding_rules(random, free, best[1])
        document = certified(mapspace, "energy")
        assert verdict(document, tmp_path)[0] == "VALID"
        if document["status"] == "OPTIMAL":
            raised = {**document, "status": "FEASIBLE", "bounds": [document["bounds"][0] + 1]}
            assert verdict(digested(raised), tmp_path)[0] == "INVALID"
