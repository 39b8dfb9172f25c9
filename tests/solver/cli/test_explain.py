"""``explain``, and the reasons that ``map`` prints."""

import json
import re
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from solver.cli.main import main
from solver.stages import map_einsum
from tests.conftest import REPOSITORY
from tests.solver.explain.row import IDLE, edited
from tests.solver.golden import assert_golden

TIGHT = (("P=1]}\n        - !Component", "P=1, C=4, R=3]}\n        - !Component"),)


@pytest.fixture
def row(working_directory):
    """Write the row of PEs with some of its text replaced, with perfect factors; return its name."""

    def write(*edits, factors="mapspace: {template: uber}\n"):
        Path("row.yaml").write_text(edited(*edits) + factors, encoding="utf-8")
        return "row.yaml"

    return write


def test_a_plain_conflict_is_explained_with_its_lines(row, capsys):
    assert main(["explain", row(*TIGHT, factors="")]) == 4
    text = capsys.readouterr().out
    assert_golden("row_explain_infeasible.txt", text)
    shown = text.split("INFEASIBLE")[0].strip()
    assert shown in (REPOSITORY / "docs" / "explain.md").read_text(encoding="utf-8")


def test_a_plain_conflict_is_refused_by_other_commands(row, capsys):
    assert main(["map", row(*TIGHT)]) == 4
    message = capsys.readouterr().err
    assert "Weights needs at least 12 words, `weight_spad` holds 8: 4 too few" in message
    assert message.endswith("`python -m solver explain` with the same specs lists the changes that suffice\n")
    assert [line for line in message.splitlines() if line.startswith("note:")] == [
        "note: `Weights` is kept here",
        "note: `R=3` at `weight_spad`",
        "note: `C=4` at `weight_spad`",
        "note: the capacity",
    ]


@pytest.mark.parametrize(
    ("rule", "message", "lever"),
    [
        ("C=8", "`C=8`: the factor exceeds the bound C = 4", "C=4 instead of C=8"),
        ("'C>=8'", "`C>=8`: the factor exceeds the bound C = 4", "C>=4 instead of C>=8"),
        ("C=3", "`C=3`: 3 does not divide the bound C = 4", "C=4 instead of C=3"),
        ("'C>=3', 'C<=3'", "no divisor of C = 4 satisfies `C>=3` and `C<=3`", "C<=4 instead of C<=3"),
    ],
)
def test_a_factor_that_the_bound_cannot_have_is_a_conflict(row, capsys, rule, message, lever):
    spec = row(("spatial: {factors: [P=1]}", f"spatial: {{factors: [{rule}, P=1]}}"))
    assert main(["map", spec]) == 4
    assert message in capsys.readouterr().err
    assert main(["explain", spec]) == 4
    assert lever in capsys.readouterr().out


def test_the_arithmetic_keeps_what_the_spec_asks_for(row, capsys):
    """The conflict needs none of the `keep` lines, and yet must not be told of a mapping against them."""
    nothing = "        - !Nothing\n          constraints:\n            dataspace: {keep: [Inputs]}\n"
    spec = row((nothing, ""), ("{depth: 8, width: 8", "{depth: 1, width: 8"))
    assert main(["explain", spec]) == 4
    text = capsys.readouterr().out
    assert "Weights 1 + Inputs 1 = at least 2 words, `weight_spad` holds 1" in text
    assert "Inputs 1 + Outputs 1 = at least 2 words, `output_spad` holds 1" in text


def idle_units(row):
    """Only R is left for the PEs, and 90 % of them are to be in use: nothing the reader sees."""
    return row(*IDLE, ("class: intmac", "class: intmac\n      constraints: {min_parallelism: 0.9}"))


def test_map_says_why_there_is_no_mapping(row, capsys):
    assert main(["map", idle_units(row), "--objective", "energy"]) == 4
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "Conflict: at most 3 compute units can be in use, but 11 are required: 8 too few"
    assert lines[0].startswith("INFEASIBLE no mapping satisfies all constraints")
    marked = [line.count("^") for line in lines if "^" in line]
    assert marked == [3, 3, 3, 3]
    assert "    3 of 12 compute units (0.25) instead of 11  (row.yaml:70:38)" in lines


def test_reasons_are_in_the_json(row, tmp_path, capsys):
    assert main(["map", idle_units(row), "--json", "-"]) == 4
    (found,) = json.loads(capsys.readouterr().out)["reasons"]
    assert main(["explain", "row.yaml", "--json", "out.json"]) == 4
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["status"] == "INFEASIBLE"
    assert document["reasons"] == [found]
    assert document["with_all"] is document["objective"] is None
    assert document["without"] == []
    assert found["irreducible"] is True
    assert found["shortfalls"][0]["gap"] == 8
    assert {lever["needed"] for lever in found["levers"]} >= {3}


def test_costs_of_a_feasible_spec(row, capsys):
    assert main(["explain", row()]) == 0
    assert_golden("row_explain.txt", capsys.readouterr().out)


@pytest.mark.parametrize(("edits", "code"), [((), 0), (TIGHT, 4)])
def test_notes_on_the_spec_come_once(edits, code, row, capsys):
    Path("mapper.yaml").write_text("mapper: {timeout: 100}\n")
    assert main(["explain", row(*edits), "mapper.yaml"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("note: mapper.yaml:1:9: ") for line in lines) == 1


def test_costs_as_json(row, capsys):
    assert main(["explain", row(), "--objective", "energy", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "OPTIMAL"
    assert document["reasons"] == []
    dearest = document["without"][0]
    assert dearest["value"] == pytest.approx(document["with_all"]["value"] * (1 - dearest["share"]))
    assert dearest["proven"] is True
    assert dearest["sources"] == ["row.yaml:36:36"]
    text = (REPOSITORY / "docs" / "explain.md").read_text(encoding="utf-8")
    assert all(f"`{key}`" in text for key in document)
    assert all(f"`{key}`" in text or f"`without[].{key}`" in text for key in dearest)


def test_a_search_without_a_mapping_is_unknown(row, capsys, monkeypatch):
    monkeypatch.setattr("solver.stages.drawn", lambda *_: None)
    assert main(["explain", row(), "--time-limit", "0"]) == 5
    assert capsys.readouterr().out.startswith("UNKNOWN no mapping was found\n")


def test_an_interrupt_is_said_with_what_it_kept_from_being_done(row, capsys, monkeypatch):
    stop = threading.Event()

    def once(mapspace, options, *_, **__):
        stop.set()
        return map_einsum(mapspace, options)

    monkeypatch.setattr("solver.cli.progress.interruptible", lambda: nullcontext(stop))
    monkeypatch.setattr("solver.stages.map_einsum", once)
    assert main(["explain", row()]) == 0
    assert re.search(r"\nInterrupted: \d+ constraints not examined", capsys.readouterr().out)


def test_errors_of_the_text_stay_errors(row, capsys):
    assert main(["explain", row(("keep: [Weights]", "keep: [Weigths]"))]) == 2
    assert "Weigths" in capsys.readouterr().err
