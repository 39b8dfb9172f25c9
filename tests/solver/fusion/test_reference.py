"""The search for fused mappings against AccelForge's own optima, where they are at hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from model.formats.fused import load_cascade
from solver.fusion import fuse_cascade
from solver.result import Status
from tests.model.fused.reference import FUSED

CASES = FUSED / "cases.jsonl"
FEW = ("mm2_8_S64", "mm2_8_3lvl_bw", "mm3_8_S64", "qkv_8_4_S128", "mm2_8_bypass_S64")
"""Cases that the search settles quickly."""


def answers() -> list[dict[str, Any]]:
    if not CASES.exists():
        return []
    rows = map(json.loads, CASES.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["name"] in FEW and not row["unfused"]]


@pytest.mark.skipif(not CASES.exists(), reason="no reference data in ../shared")
@pytest.mark.parametrize("record", answers(), ids=lambda record: f"{record['name']}-{record['metric']}")
def test_the_search_finds_accelforges_optima(record: dict[str, Any], tmp_path: Path):
    files = tmp_path / "workload.yaml", tmp_path / "arch.yaml"
    for path, key in zip(files, ("workload", "arch"), strict=True):
        path.write_text(record[key], encoding="utf-8")
    cascade, _ = load_cascade(files)
    result = fuse_cascade(cascade, record["metric"].lower())
    assert result.status is Status.OPTIMAL
    assert result.evaluation.energy_j == pytest.approx(record["energy"], rel=1e-6)
    assert float(result.evaluation.latency_s) == pytest.approx(record["latency"], rel=1e-6)
