"""Answers of AccelForge, and of an independent enumeration, priced from their trees alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from model.counting import ACCELFORGE
from model.formats.fused import load_cascade
from model.fused.cost import evaluate_fused
from tests.model.fused.reference import FUSED, accelforge_cascade, accelforge_tree, tilewright_tree

pytestmark = pytest.mark.skipif(not FUSED.is_dir(), reason="reference figures are absent")


def _answers() -> list[dict[str, Any]]:
    """AccelForge's, but for windows: it has one loop there that stands for two kinds of visits."""
    if not FUSED.is_dir():
        return []
    lines = (FUSED / "cases.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if "conv" not in record["name"]]


def _name(record: dict[str, Any]) -> str:
    return f"{record['name']}-{record['metric']}-{'unfused' if record['unfused'] else 'fused'}"


@pytest.mark.parametrize("record", _answers(), ids=_name)
def test_accelforges_counting(record: dict[str, Any], tmp_path: Path):
    cascade = accelforge_cascade(record, tmp_path)
    cost = evaluate_fused(cascade, accelforge_tree(cascade, record["nodes"]))
    assert cost.counting == ACCELFORGE
    assert cost.energy_j == pytest.approx(record["energy"], rel=1e-6)
    assert float(cost.latency_s) == pytest.approx(record["latency"], rel=1e-6)
    limited = {room.memory for room in cost.rooms if room.usable_words is not None}
    for memory in limited:
        most = max(room.size_words / room.usable_words for room in cost.rooms if room.memory == memory)
        assert most == pytest.approx(record["resource_usage"][memory], rel=1e-6)


@pytest.mark.parametrize("path", sorted(FUSED.glob("tilewright/*.json")), ids=lambda path: path.stem)
def test_enumerated_optima(path: Path):
    files = [path.with_name(f"{path.stem}.{part}.yaml") for part in ("workload", "arch")]
    cascade, _ = load_cascade(files)
    document = json.loads(path.read_text())
    results = [
        document[space][goal]
        for space in ("unfused", "fused_rank_once", "fused")
        for goal in ("energy", "edp")
    ]
    for result in (result for result in results if "tree" in result):
        cost = evaluate_fused(cascade, tilewright_tree(cascade, result["tree"]))
        assert cost.valid
        assert (cost.energy_pj, cost.cycles) == (result["energy"], result["cycles"])
        rooms = {einsum: cost.room(einsum, "GLB").size_words for einsum in result["room"]}
        assert rooms == result["room"]
