"""Tolls in fused searches: complete enumeration, AccelForge's optima, and certificates."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Direction, StorageLevel
from model.formats.fused import fused_yaml, load_cascade, load_fused
from model.fused.cascade import Cascade
from model.fused.cost import evaluate_fused
from model.text.source import SpecError
from solver.certificate.canonical import canonical_sha256
from solver.fusion import FusedResult, FusionLimits, fuse_cascade
from solver.fusion.certificate import fused_certificate
from solver.result import Status
from tests.fused_bruteforce import BruteForce
from tests.model.fused.agreement import disagreements
from tests.model.fused.random_cascades import COPIES, cascade_of, tolled, with_tolls
from tests.slow import slow
from tests.solver.certificate.checker import digested, verdict
from tests.solver.fusion.test_optimum import by_place, drawn
from tests.solver.search.test_tolls import BUFFER, COMPUTE, MAIN, PER_TENSOR, toll

WORKLOAD = """
workload:
  rank_sizes: {M: 4, A: 8, B: 4, C: 4}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "T[m, b] = X[m, a] * W[a, b]", renames: {input: X, weight: W, output: T}}
  - {einsum: "Z[m, c] = T[m, b] * V[b, c]", renames: {input: T, weight: V, output: Z}}
"""
OPEN = MAIN.replace("{keep: All}", "{keep: ~Intermediates, may_keep: All}")
PORTED = OPEN.replace("16, throughput: inf", "16, throughput: 2").replace(
    "20, throughput: inf", "20, throughput: 1"
)
SLOW = BUFFER.replace("energy: 1, throughput: inf", "energy: 1, throughput: 2")
ARCHITECTURES = {
    "both ways outside": OPEN
    + toll("DAC", "up_and_down", "All", "5")
    + BUFFER.replace("256", "320")
    + COMPUTE,
    "ports": PORTED + toll("DAC", "up", "All", "50", "0.5") + BUFFER.replace("256", "320") + COMPUTE,
    "inside": OPEN + SLOW.replace("256", "320") + toll("ADC", PER_TENSOR, "All", "3", "4", "0.25") + COMPUTE,
    "on both sides": OPEN
    + toll("Row", "down", "input", "9")
    + BUFFER.replace("256", "384")
    + toll("Col", "up_and_down", "output", "7", "0.25")
    + COMPUTE,
}
ONCE = FusionLimits(max_loops_per_rank=1)


def files(folder: Path, architecture: str) -> list[Path]:
    paths = [folder / "workload.yaml", folder / "arch.yaml"]
    for path, text in zip(paths, (WORKLOAD, architecture), strict=True):
        path.write_text(text)
    return paths


def certificate(result: FusedResult):
    return json.loads(json.dumps(fused_certificate(result, ["python"])))


@pytest.mark.parametrize(
    "name, objective, value",
    [
        ("both ways outside", "energy", 25664),
        ("ports", "latency", 512),
        slow("ports", "edp", 14450688),
        slow("inside", "energy", 36208),
        slow("on both sides", "latency", 11264),
        ("on both sides", "edp", 493813760),
    ],
)
def test_the_optima_of_accelforge(name: str, objective: str, value: int, tmp_path):
    """Those that AccelForge 1.0.467 finds for the same files, with one shared loop per rank."""
    paths = files(tmp_path, ARCHITECTURES[name])
    cascade, _ = load_cascade(paths)
    result = fuse_cascade(cascade, objective, limits=ONCE)
    assert result.status is Status.OPTIMAL
    assert result.evaluation is not None
    assert result.mapping is not None
    assert _in_their_units(cascade, result, objective) == value
    assert verdict(certificate(result), tmp_path)[0] == "VALID"
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(fused_yaml(cascade, result.mapping))
    again = load_fused(paths, mapping)
    assert evaluate_fused(again.cascade, again.mapping).value(objective) == result.value


def _in_their_units(cascade: Cascade, result: FusedResult, objective: str) -> float:
    """Joules and seconds; the arithmetic takes a second per step."""
    units = cascade.einsums[0].mapspace.architecture.units_per_pj * 10**12
    assert result.value is not None
    return result.value if objective == "latency" else round(result.value / units, 6)


@pytest.mark.parametrize(
    "name, seed, rule, objectives",
    [
        ("products", 2, "place", ("energy", "latency")),
        ("skip", 0, "exact", ("energy",)),
        slow("three", 0, "place", ("energy",)),
    ],
)
def test_the_search_finds_the_optimum_past_tolls(
    name: str, seed: int, rule: str, objectives: tuple[str, ...], tmp_path
):
    random = Random(f"tolls {name} {seed}")
    cascade = drawn(random, name)
    cascade = with_tolls(random, by_place(cascade) if rule == "place" else cascade, random.random() < 0.5)
    optima = BruteForce(cascade, even=rule == "exact").optima(objectives)
    for objective in objectives:
        result = fuse_cascade(cascade, objective)
        assert result.value == result.bound == optima[objective].value
        assert verdict(certificate(result), tmp_path)[0] == "VALID"


@pytest.mark.parametrize(
    "name, payer, direction", [("copied input", "A", "down"), ("copied output", "C", "up")]
)
def test_copies_pay_the_tolls_between(name: str, payer: str, direction: Direction, tmp_path):
    """Inwards what is copied pays, and outwards the copy: each word once."""
    main = StorageLevel("Main", energy=AccessEnergy(90, 0, 80))
    buffer = StorageLevel("GLB", size_words=8, energy=AccessEnergy(1, 1, 1))
    architecture = Architecture("small", (main, buffer), Compute("MAC", energy=1))
    plain = cascade_of(COPIES[name], dict.fromkeys("mabe", 2), architecture)
    toll = StorageLevel("toll", energy=AccessEnergy(5, 0, 7))
    einsums = tuple(tolled(own, toll, dict.fromkeys("AC", direction), 1) for own in plain.einsums)
    cascade = replace(plain, einsums=einsums)
    optimum = BruteForce(cascade, even=True).optima(("energy",))["energy"]
    result = fuse_cascade(cascade, "energy")
    assert result.value == result.bound == optimum.value
    assert result.evaluation is not None
    (copy_cost,) = (result.evaluation.einsum(own.name) for own in einsums if own.is_copy)
    ((paid, energy),) = ((own.dataspace, own.energy) for own in copy_cost.memory("toll").dataspaces)
    assert (paid, energy) == (payer, 4 * (5 if direction == "down" else 7))
    assert not disagreements(cascade, optimum.mapping, seed=0)
    document = certificate(result)
    assert verdict(document, tmp_path)[0] == "VALID"
    free_tolls(document)
    document["problem_sha256"] = canonical_sha256(document["problem"])
    assert verdict(digested(document), tmp_path)[0] == "INVALID"


def test_tolls_that_an_einsum_does_not_pay_are_none_of_its_own(tmp_path):
    """And what is stored inside of a toll pays nothing there."""
    outside = toll("DAC", "up_and_down", "T | V", "50")
    cascade, _ = load_cascade(files(tmp_path, OPEN + outside + BUFFER.replace("256", "320") + COMPUTE))
    assert [dict(e.mapspace.architecture.levels[1].tolls) for e in cascade.einsums] == [
        {"T": "both"},
        {"T": "both", "V": "both"},
    ]
    result = fuse_cascade(cascade, "energy", limits=ONCE)
    assert result.mapping is not None
    assert result.evaluation is not None
    assert [stored.memory for stored in result.mapping.stored] == ["Buffer"]
    paid = [own.memory("DAC").dataspaces for own in result.evaluation.einsums]
    assert [[space.dataspace for space in own] for own in paid] == [[], ["V"]]
    named = fused_yaml(cascade, result.mapping).replace("memory: Buffer", "memory: DAC")
    (tmp_path / "named.yaml").write_text(named)
    with pytest.raises(SpecError, match="unknown memory `DAC`"):
        load_fused([tmp_path / "workload.yaml", tmp_path / "arch.yaml"], tmp_path / "named.yaml")


def free_tolls(doc):
    for einsum in doc["problem"]["einsums"]:
        for node in einsum["mapspace"]["nodes"]:
            for held in node.get("dataspaces", ()):
                held.update({"toll": [False, False]} if "toll" in held else {})


def half_a_toll(doc):
    """A level that is a toll for some dataspaces, and stores others."""
    nodes = doc["problem"]["einsums"][0]["mapspace"]["nodes"]
    del next(n for n in nodes if any("toll" in own for own in n.get("dataspaces", ())))["dataspaces"][0][
        "toll"
    ]


def lower_cost(doc):
    doc["cost"]["energy"] -= 1
    doc["bound"] -= 1


def raised_edges(doc):
    for edge in doc["edges"]:
        edge["corners"] = [[energy + 1, cycles] for energy, cycles in edge["corners"]]


def test_forged_claims_about_tolls_are_refused(tmp_path):
    cascade, _ = load_cascade(files(tmp_path, ARCHITECTURES["on both sides"]))
    document = certificate(fuse_cascade(cascade, "energy", limits=ONCE))
    assert verdict(document, tmp_path)[0] == "VALID"
    for forge in (free_tolls, half_a_toll, lower_cost, raised_edges):
        forged = copy.deepcopy(document)
        forge(forged)
        forged["problem_sha256"] = canonical_sha256(forged["problem"])
        assert verdict(digested(forged), tmp_path)[0] == "INVALID"
