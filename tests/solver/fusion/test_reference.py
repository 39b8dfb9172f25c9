"""The search for fused mappings against AccelForge's own optima, where they are at hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from model.extents import PERFECT
from model.formats.fused import load_cascade
from model.formats.timeloop.loader import LoadOptions
from solver.fusion import fuse_cascade
from solver.result import Status
from tests.model.fused.reference import FUSED

CASES = FUSED / "cases.jsonl"
FEW = ("mm2_8_S64", "mm2_8_3lvl_bw", "mm3_8_S64", "mm2_8_bypass_S64")
"""Cases that the search settles quickly."""


def answers() -> list[dict[str, Any]]:
    if not CASES.exists():
        return []
    rows = map(json.loads, CASES.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["name"] in FEW and not row["unfused"]]


@pytest.mark.skipif(not FUSED.is_dir(), reason="no reference data in ../shared")
@pytest.mark.parametrize("name", ["qkv_31_32"])
def test_the_search_finds_the_optima_of_an_independent_enumeration(name: str):
    """Which has a place per dataspace in the buffer."""
    folder = FUSED / "tilewright"
    files = [folder / f"{name}.workload.yaml", folder / f"{name}.arch.yaml"]
    cascade, _ = load_cascade(files, options=LoadOptions(has_places=True, factors=PERFECT))
    expected = json.loads((folder / f"{name}.json").read_text())
    units = cascade.einsums[0].mapspace.architecture.units_per_pj
    for objective, key, unit in (
        ("energy", "energy", units),
        ("latency", "cycles", 1),
        ("edp", "edp", units),
    ):
        result = fuse_cascade(cascade, objective)
        assert result.status is Status.OPTIMAL
        assert result.value == expected["fused"][objective][key] * unit
        assert result.unfused is not None
        assert result.unfused.value(objective) == expected["unfused"][objective][key] * unit


@pytest.mark.skipif(not CASES.exists(), reason="no reference data in ../shared")
@pytest.mark.parametrize("record", answers(), ids=lambda record: f"{record['name']}-{record['metric']}")
def test_the_search_finds_accelforges_optima(record: dict[str, Any], tmp_path: Path):
    files = tmp_path / "workload.yaml", tmp_path / "arch.yaml"
    for path, key in zip(files, ("workload", "arch"), strict=True):
        path.write_text(record[key], encoding="utf-8")
    cascade, _ = load_cascade(files, options=LoadOptions(factors=PERFECT))
    result = fuse_cascade(cascade, record["metric"].lower())
    assert result.status is Status.OPTIMAL
    assert result.evaluation.energy_j == pytest.approx(record["energy"], rel=1e-6)
    assert float(result.evaluation.latency_s) == pytest.approx(record["latency"], rel=1e-6)
