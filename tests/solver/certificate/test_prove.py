"""The checker: it accepts true certificates, and none that has been tampered with."""

import copy
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from model.architecture import AccessEnergy, StorageLevel
from model.cost import evaluate_in
from model.counting import EXACT, TIMELOOP
from model.energy.figures import MOST_DIGITS
from model.mapspace import KeepRules
from model.problem import Dataspace, Problem, Term
from solver import Status, Termination
from solver.certificate.canonical import canonical, canonical_sha256
from solver.certificate.document import certificate
from tests.bruteforce import objective_value, optima, valid_mappings
from tests.conftest import REPOSITORY
from tests.mapspaces import free_mapspace, perfect_mapspace
from tests.reference import DESIGNS, design
from tests.slow import few
from tests.solver.certificate.checker import bounds, certified, digested, prove, solved, tables, verdict
from tests.solver.certificate.samples import SAMPLES, feasible, infeasible
from tests.solver.search.unusual import register_mapspaces, unusual_mapspaces, with_signs
from tests.strategies import mapspaces, random_mapspaces

OBJECTIVES = (("energy",), ("latency",), ("edp",), ("energy", "latency"), ("latency", "energy"))
INFORMATION = {"versions", "seed", "command"}


def changes(value, path=()):
    """Yield (path, other value) for every part of a JSON value, containers as well as leaves."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield (*path, key), "REMOVED"
            yield from changes(part, (*path, key))
    elif isinstance(value, list):
        yield path, [*value, copy.deepcopy(value[0]) if value else 1]
        for index, part in enumerate(value):
            yield (*path, index), "REMOVED"
            yield from changes(part, (*path, index))
    elif isinstance(value, bool):
        yield path, not value
    elif isinstance(value, int):
        yield from (
            (path, other) for other in (value + 1, value - 1, -value - 1, str(value), float(value) + 0.5)
        )
    else:
        yield from ((path, other) for other in (f"{value}x", None if value is not None else 1))


def is_claim(path):
    """Whether a part is more than information, which the digest alone protects."""
    return path[0] != "digest" and not {*path} & INFORMATION


def tampered(document, path, value):
    """Return a copy with one part replaced or removed."""
    changed = copy.deepcopy(document)
    place = changed
    for key in path[:-1]:
        place = place[key]
    if value == "REMOVED":
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return changed


@pytest.mark.parametrize("objectives", OBJECTIVES)
def test_random_optima_are_valid(objectives, tmp_path):
    for mapspace in random_mapspaces(seed=11, count=15, max_mappings=1000):
        document = certified(mapspace, *objectives)
        assert verdict(document, tmp_path)[0] == "VALID", document["status"]


def test_prices_may_have_all_the_digits_that_specs_allow():
    random = Random(17)
    for mapspace in random_mapspaces(seed=17, count=12, max_mappings=300):
        nodes = tuple(
            replace(node, energy=AccessEnergy(*(10 ** random.randrange(MOST_DIGITS) for _ in range(4))))
            if isinstance(node, StorageLevel)
            else node
            for node in mapspace.architecture.nodes
        )
        wide = replace(
            mapspace, architecture=replace(mapspace.architecture, nodes=nodes, units_per_pj=10**30)
        )
        best = optima(wide, ["energy"])[0]
        document = certified(wide, "energy")
        assert document["bounds"] == ([] if best is None else [best[0]])
        assert prove.check(document)


@pytest.mark.parametrize("kind", ["usual", "unusual", "signs", "registers"])
def test_every_optimum_is_found_and_nothing_better(kind, monkeypatch):
    """With its own values as limits the optimum has to be found: no bound excludes it."""
    for number, mapspace in enumerate(_of_a_kind(kind, monkeypatch)):
        objectives = OBJECTIVES[number % len(OBJECTIVES)]
        document = certified(mapspace, *objectives)
        assert prove.check(document)
        if document["status"] == "OPTIMAL":
            limits = dict(zip(objectives, document["bounds"], strict=True))
            found = prove.refute(prove.Space(document["problem"]), prove.Query(**limits))
            assert found is not None
            assert all(found[objective] == limit for objective, limit in limits.items())


@pytest.mark.parametrize("kind", ["usual", "registers"])
def test_prices_that_are_rounded_down_exclude_no_optimum(kind, monkeypatch):
    for mapspace in _of_a_kind(kind, monkeypatch):
        document = certified(mapspace, "energy")
        if document["status"] == "OPTIMAL":
            (best,) = document["bounds"]
            for few in (4, 64, 1024):
                monkeypatch.setattr(bounds, "EXACT", few)
                found = prove.refute(prove.Space(document["problem"]), prove.Query(energy=best))
                assert found and found["energy"] == best


def test_what_rounding_takes_away_of_words_that_always_move_is_not_lost(monkeypatch):
    """All nests move the same words: tables have to refute a lower energy, as there are too many nests."""
    spaces = Dataspace("A", ((Term("M"),), (Term("N"),))), Dataspace("Z", ((Term("M"),), (Term("N"),)), True)
    prices = (AccessEnergy(*(10**28 + n + i for i in range(3))) for n in (11, 17, 29))
    levels = (StorageLevel(f"L{n}", block_size=8, energy=own) for n, own in enumerate(prices))
    mapspace = free_mapspace(Problem("elementwise", ("M", "N"), (256, 256), spaces), *levels)
    document = certified(mapspace, "energy")
    monkeypatch.setattr(tables, "MOST_NESTS", 1000)
    (best,), space = document["bounds"], prove.Space(document["problem"])
    assert prove.refute(space, prove.Query(energy=best))["energy"] == best
    assert prove.check(document)


def test_nests_that_paid_more_so_far_may_cost_less_in_the_end():
    """Words come in whole blocks: what two tiles cost together so far does not tell what they will cost."""
    spaces = (
        Dataspace("S0", ((Term("D"), Term("C"), Term("B")),)),
        Dataspace("S1", ((Term("A"), Term("D")), (Term("C"),))),
        Dataspace("S2", ((Term("B", 2), Term("A", 2), Term("C", 3)),)),
        Dataspace("Z", ((Term("A"),),), read_write=True),
    )
    levels = (
        StorageLevel("L0", block_size=3, energy=AccessEnergy(1, 1, 1)),
        StorageLevel("L1", size_words=3, block_size=6, energy=AccessEnergy(2, 2, 2)),
        StorageLevel("L2", size_words=1, block_size=2),
    )
    problem = Problem("windows", ("A", "B", "C", "D"), (2, 2, 2, 3), spaces)
    kept = [frozenset({"S0", "S1", "S2", "Z"}), frozenset({"S0", "S1", "S2"}), frozenset({"S1"})]
    keep = tuple(KeepRules(own, kept[0] - own) for own in kept)
    mapspace = replace(free_mapspace(problem, *levels), keep=keep)
    best, _ = optima(mapspace, ["energy"])[0]
    document = certified(mapspace, "energy")
    assert document["bounds"] == [best]
    found = prove.refute(prove.Space(document["problem"]), prove.Query(energy=best))
    assert found and found["energy"] == best


ROUNDED = """
problem:
  shape:
    name: pointwise
    dimensions: [P, Q, C, K]
    data_spaces:
    - {name: Weights, projection: [[[C]], [[K]]]}
    - {name: Inputs, projection: [[[C]], [[P]], [[Q]]]}
    - {name: Outputs, projection: [[[K]], [[P]], [[Q]]], read_write: true}
  instance: {P: 28, Q: 28, C: 256, K: 64}
architecture:
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {width: 64, datawidth: 8, read_bandwidth: 8}
    energy: {read: 200, write: 200, leak: 0}
  - !Component
    name: buffer
    class: SRAM
    attributes: {depth: 4096, width: 512, datawidth: 8}
    energy: {read: 12, write: 14, leak: 0}
    constraints: {dataspace: {keep: [Weights, Inputs], bypass: [Outputs]}}
  - !Component
    name: sums
    class: SRAM
    attributes: {depth: 256, width: 512, datawidth: 32}
    energy: {read: 6, write: 7, leak: 0}
    constraints: {dataspace: {keep: [Outputs], bypass: [Weights, Inputs]}}
  - !Container
    name: units
    spatial: {meshX: 1024}
    constraints: {spatial: {factors: [P=1, Q=1, C=64, K=16]}}
  - !Component {name: mac, class: intmac, energy: {compute: 1}}
"""
"""All words of the operands, once each, take 27,136 cycles of the DRAM, and a little more in doubles."""


def test_a_cycle_that_doubles_add_leaves_few_nests_to_the_walk(tmp_path, monkeypatch):
    (tmp_path / "rounded.yaml").write_text(ROUNDED)
    monkeypatch.setattr(tables, "MOST_NESTS", 20_000)
    mapspace = perfect_mapspace(tmp_path / "rounded.yaml")
    for counting, cycles in ((EXACT, 27_136), (TIMELOOP, 27_137)):
        document = certified(replace(mapspace, counting=counting), "latency")
        assert document["bounds"] == [cycles]
        assert prove.check(document) == f"no mapping is below latency {cycles:,} cycles"


def test_levels_that_only_pass_words_on_may_be_outermost():
    for mapspace in random_mapspaces(seed=23, count=8, max_mappings=500):
        output = next(space.name for space in mapspace.problem.dataspaces if space.read_write)
        first, *others = mapspace.architecture.nodes
        passing = replace(first, no_coalesce=frozenset({output}))
        document = certified(
            replace(mapspace, architecture=replace(mapspace.architecture, nodes=(passing, *others))), "energy"
        )
        assert prove.check(document)
        if document["status"] == "OPTIMAL":
            limits = prove.Query(energy=document["bounds"][0])
            assert prove.refute(prove.Space(document["problem"]), limits) is not None


def _of_a_kind(kind, monkeypatch):
    if kind == "unusual":
        return unusual_mapspaces(monkeypatch, 5, 10, 1000)
    if kind == "registers":
        return register_mapspaces(5, 10, 1000)
    usual = random_mapspaces(seed=5, count=15, max_mappings=1000)
    random = Random(5)
    return usual if kind == "usual" else [with_signs(random, mapspace) for mapspace in usual]


@pytest.mark.slow
@settings(max_examples=8, derandomize=True, suppress_health_check=list(HealthCheck))
@given(mapspaces(max_mappings=200))
def test_brute_force_solver_and_checker_agree(mapspace):
    best = optima(mapspace, list(OBJECTIVES))
    for objectives, optimum in zip(OBJECTIVES, best, strict=True):
        document = certified(mapspace, *objectives)
        assert document["bounds"] == ([] if optimum is None else list(optimum[0]))
        assert prove.check(document)


@pytest.mark.parametrize(
    ("objective", "value", "text"),
    [
        ("latency", 1_555_200, "latency 1,555,200 cycles"),
        ("energy", 125_027_328_224, "energy 1.2503 mJ"),
        ("energy", 84_700_000, "energy 847.00 nJ"),
        ("energy", 12, "energy 0.12000 pJ"),
        ("edp", 194_440_000_000_000, "edp 1.9444e12 pJ*cycles"),
    ],
)
def test_bounds_are_for_people(objective, value, text):
    assert prove.shown(objective, value, 100) == text


@pytest.mark.parametrize("index", range(SAMPLES))
@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
def test_the_second_best_mapping_is_invalid(index, objective, tmp_path):
    mapspace = feasible(index)
    priced = {}
    for mapping, energy, cycles in valid_mappings(mapspace, innermost_orders=False):
        priced.setdefault(objective_value(objective, energy, cycles), mapping)
    best, *others = sorted(priced)
    assert best == solved(mapspace, objective).value
    if not others:
        pytest.skip("all mappings are equally good")
    mapping = priced[others[0]]
    claim = {"value": others[0], "bound": others[0], "mapping": mapping}
    forged = replace(solved(mapspace, objective), evaluation=evaluate_in(mapspace, mapping), **claim)
    document = certificate(mapspace, forged, [])
    result, reason = verdict(digested(document), tmp_path)
    assert result == "INVALID"
    assert f"no mapping has {objective} below {others[0]:,}" in reason


@pytest.mark.parametrize(("index", "objectives"), few([(0, ("edp",)), (2, ("energy", "latency"))]))
def test_every_field_is_protected(index, objectives, tmp_path):
    document = certified(feasible(index), *objectives)
    assert verdict(document, tmp_path)[0] == "VALID"
    for path, value in changes(document):
        changed = tampered(document, path, value)
        assert verdict(changed, tmp_path)[0] == "INVALID", (path, value)
        if is_claim(path):
            assert verdict(digested(changed), tmp_path)[0] == "INVALID", (path, value)


def test_a_claim_of_infeasibility_is_protected(tmp_path):
    document = certified(infeasible(), "energy")
    assert verdict(document, tmp_path) == ("VALID", "no mapping exists")
    for path, value in changes(document):
        if path[0] != "objectives" and is_claim(path):
            assert verdict(digested(tampered(document, path, value)), tmp_path)[0] == "INVALID", (path, value)
    allowed = certified(feasible(0), "energy")
    lie = {"status": "INFEASIBLE", "bounds": [], "mapping": None, "cost": None}
    result, reason = verdict(digested({**allowed, **lie}), tmp_path)
    assert (result, "no mapping exists" in reason) == ("INVALID", True)


def test_another_problem_with_its_hash_is_never_taken_for_a_worse_claim(tmp_path):
    """With the hash computed anew a certificate speaks of another problem: what holds there is decided."""
    document = certified(feasible(0), "energy")
    for path, value in changes(document["problem"], ("problem",)):
        changed = tampered(document, path, value)
        changed["problem_sha256"] = canonical_sha256(changed["problem"])
        result, reason = verdict(digested(changed), tmp_path)
        assert result in ("VALID", "INVALID", "CANNOT CHECK"), reason
        if result == "VALID":
            assert changed["problem_sha256"] != document["problem_sha256"]
            assert prove.Space(changed["problem"]).computes == prove.Space(document["problem"]).computes


def test_a_certificate_says_nothing_that_its_checker_does_not_test(tmp_path):
    document = certified(feasible(0), "energy")
    assert document.keys() == prove.KEYS
    told = digested({**document, "evidence": [{"objective": "energy", "solved_by": "cp-sat"}]})
    assert verdict(told, tmp_path)[0] == "INVALID"


def test_an_altered_energy_table_is_invalid(tmp_path):
    document = certified(feasible(0), "energy")
    prices = document["problem"]["nodes"][0]["dataspaces"]
    for action in ("read", "update"):
        for own in prices:
            own[action] *= 2
    document["problem_sha256"] = canonical_sha256(document["problem"])
    result, reason = verdict(digested(document), tmp_path)
    assert (result, reason) == ("INVALID", "this claim fails: the cost matches the mapping")


def test_a_bound_of_an_interrupted_search_claims_no_more(tmp_path):
    result = solved(feasible(0), "energy")
    assert result.value is not None
    early = replace(
        result, status=Status.FEASIBLE, termination=Termination.TIME_LIMIT, bound=result.value * 9 // 10
    )
    document = json.loads(json.dumps(certificate(feasible(0), early, [])))
    assert verdict(document, tmp_path)[0] == "VALID"
    raised = digested({**document, "bounds": [result.value + 1]})
    assert verdict(raised, tmp_path)[0] == "INVALID"


@pytest.mark.parametrize("text", ["", "{", "[1", "\x00"])
def test_what_is_no_json_is_unreadable(text, tmp_path):
    path = tmp_path / "certificate.json"
    path.write_text(text)
    assert prove.verdict(path)[0] == "UNREADABLE"
    assert prove.verdict(tmp_path / "missing.json")[0] == "UNREADABLE"


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, {"format": 1}])
def test_other_json_is_invalid(value, tmp_path):
    assert verdict(value, tmp_path)[0] == "INVALID"


def test_a_check_ends_with_its_time_limit(tmp_path):
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(certified(feasible(0), "energy")))
    assert prove.verdict(path, seconds=0) == ("CANNOT CHECK", "the time limit was reached")
    assert prove.verdict(path, seconds=600)[0] == "VALID"


def test_an_endless_file_is_not_read_to_its_end():
    assert prove.verdict(Path("/dev/zero")) == ("CANNOT CHECK", "it is larger than 64 MiB")


def test_the_time_limit_covers_reading(tmp_path):
    """Nobody ever writes to this pipe."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    late = ("CANNOT CHECK", "the time limit was reached")
    assert prove.verdict(path, seconds=0.05) == late


@pytest.mark.parametrize("limit", ["-1", "nan", "soon"])
def test_a_time_limit_is_a_number_of_seconds(limit, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["prove.py", "x.json", f"--time-limit={limit}"])
    with pytest.raises(SystemExit):
        prove.main()
    assert "--time-limit" in capsys.readouterr().err


def test_a_result_is_told_from_a_certificate(tmp_path):
    result = {"version": "0.1.0", "problem": "conv", "status": "OPTIMAL", "objectives": ["energy"]}
    reason = "it is a result that `--json` wrote; `--certificate` writes certificates"
    assert verdict(result, tmp_path) == ("UNREADABLE", reason)


def test_a_problem_that_is_too_large_is_not_checked(tmp_path):
    document = certified(feasible(0), "energy")
    document["problem"]["bounds"][0] = 2**60
    document["problem_sha256"] = canonical_sha256(document["problem"])
    assert verdict(digested(document), tmp_path) == ("CANNOT CHECK", "the problem is too large")


@pytest.mark.parametrize("layer", ["resnet18/21_fc", "mobilenet_v2/42_block14_project"])
@pytest.mark.parametrize("architecture", ["eyeriss_like", "simba_like", "tpu_like"])
def test_shipped_layers(architecture, layer, tmp_path):
    specs = REPOSITORY / "specs"
    files = [specs / "architectures" / f"{architecture}.yaml", specs / "layers" / f"{layer}.yaml"]
    document = certified(perfect_mapspace(*files), "edp")
    assert verdict(document, tmp_path)[0] == "VALID"
    assert len(json.dumps(document)) < 5_000_000


BEST_EDP = {
    "resnet18/07.yaml": 16_464_815_827_579_717_025_792,
    "resnet18/05.yaml": 717_687_864_907_470_735_409_152,
}
"""What searches prove of `simple_output_stationary`, in its unit."""


@pytest.mark.parametrize(
    "layer", [pytest.param(name, marks=[pytest.mark.slow] * name.endswith("05.yaml")) for name in BEST_EDP]
)
def test_edp_that_neither_energy_nor_cycles_decide_alone(layer):
    """The second one is decided by a bandwidth that is not the one with the highest floor."""
    if not DESIGNS.exists():
        pytest.skip("the reference designs in ../shared are absent")
    space = prove.mapspace(canonical(design("simple_output_stationary", layer)))
    best = BEST_EDP[layer]
    assert prove.refute(space, prove.Query(edp=best - 1)) is None
    found = prove.refute(space, prove.Query(edp=best))
    assert found["energy"] * found["latency"] == best
