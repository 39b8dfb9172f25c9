"""The rule that figures follow, and what the other one says of a mapping."""

import json
from pathlib import Path

import pytest

from solver.cli.main import main

SPEC = str(Path(__file__).parent / "data" / "one_word_registers.yaml")
ROW = str(Path(__file__).parent / "data" / "row.yaml")
ROW_MAPPING = str(Path(__file__).parent / "data" / "row_mapping.yaml")
TAPS_INSIDE = """
mapping:
- {target: DRAM, type: temporal, factors: [Q=1, S=1]}
- {target: ibuf, type: temporal, factors: [Q=1, S=1]}
- {target: wbuf, type: temporal, factors: [Q=5, S=3], permutation: [S, Q]}
"""
BY_TIMELOOP = "Timeloop's rule counts 170.00 pJ (19 % less) for this mapping"
EXECUTED = "an execution of this mapping takes 210.00 pJ (24 % more)"


@pytest.fixture
def mapping(tmp_path: Path) -> str:
    path = tmp_path / "mapping.yaml"
    path.write_text(TAPS_INSIDE, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("options", "rule", "energy_pj", "note"),
    [
        ([], "exact", 210, BY_TIMELOOP),
        (["--counting", "exact"], "exact", 210, BY_TIMELOOP),
        (["--counting", "timeloop"], "timeloop", 170, EXECUTED),
        (["--link-transfers"], "timeloop", 170, EXECUTED),
    ],
)
def test_evaluate_says_what_the_other_rule_counts(
    options: list[str], rule: str, energy_pj: int, note: str, mapping: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["evaluate", SPEC, "--mapping", mapping, *options]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert any(line.split()[:2] == ["Counting", rule] for line in printed)
    assert [line for line in printed if line.startswith("note: ")] == [f"note: {note}"]
    assert main(["evaluate", SPEC, "--mapping", mapping, "--json", "-", *options]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["counting"], document["energy_pj"]) == (rule, energy_pj)
    assert document["notes"] == [note]


@pytest.mark.parametrize(
    ("rule", "energy_pj", "note"),
    [
        ("exact", 194, "Timeloop's rule counts 174.00 pJ (10 % less) for this mapping"),
        ("timeloop", 170, EXECUTED),
    ],
)
def test_map_says_what_the_other_rule_counts(
    rule: str, energy_pj: int, note: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["map", SPEC, "--factors", "perfect", "--counting", rule, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["status"], document["counting"], document["energy_pj"]) == ("OPTIMAL", rule, energy_pj)
    assert document["notes"] == [note]


def test_nothing_is_said_where_the_rules_agree(capsys: pytest.CaptureFixture[str]):
    for rule in ("exact", "timeloop"):
        assert main(["evaluate", ROW, "--mapping", ROW_MAPPING, "--counting", rule]) == 0
        printed = capsys.readouterr().out
        assert "Timeloop's rule counts" not in printed
        assert "an execution of this mapping" not in printed


def test_link_transfers_are_no_part_of_the_exact_rule(mapping: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as end:
        main(["evaluate", SPEC, "--mapping", mapping, "--link-transfers", "--counting", "exact"])
    assert end.value.code == 2
    assert "--link-transfers uses Timeloop's rule" in capsys.readouterr().err
