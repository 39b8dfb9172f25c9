"""Obvious conflicts between constraints: the message on stderr, and the output files."""

import csv
import json
from pathlib import Path

import pytest

from solver.cli.main import main
from tests.solver.explain.row import edited

TIGHT = ("P=1]}\n        - !Component", "P=1, C=4, R=3]}\n        - !Component")
CONFLICT = "Weights needs at least 12 words, `weight_spad` holds 8: 4 too few"
LEVER = "C=2 instead of C=4 in the temporal loops of `weight_spad`"
MAPPING = Path(__file__).parent / "data" / "row_mapping.yaml"


@pytest.fixture
def spec(working_directory):
    Path("row.yaml").write_text(edited(TIGHT), encoding="utf-8")
    return "row.yaml"


def refused(capsys, *words):
    """Run a command that refuses the spec, and return its document."""
    assert main([*words, "--json", "out.json"]) == 4
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"error: {CONFLICT}\n")
    return json.loads(Path("out.json").read_text(encoding="utf-8"))


def assert_explained(document):
    (reason,) = document["reasons"]
    assert reason["text"] == CONFLICT
    assert LEVER in [lever["text"] for lever in reason["levers"]]


def test_map(spec, capsys):
    document = refused(capsys, "map", spec, "--objective", "latency,energy")
    assert (document["status"], document["termination"]) == ("INFEASIBLE", "PROVEN")
    assert document["objectives"] == ["latency", "energy"]
    assert document["value"] is document["mapping"] is document["sensitivity"] is None
    assert_explained(document)
    assert refused(capsys, "map", spec, "--sensitivity")["sensitivity"] == []


def test_a_front(spec, capsys):
    document = refused(capsys, "map", spec, "--pareto")
    assert (document["status"], document["points"]) == ("INFEASIBLE", [])
    assert_explained(document)


def test_evaluate(spec, capsys):
    document = refused(capsys, "evaluate", spec, "--mapping", str(MAPPING))
    assert document["valid"] is False
    assert document["energy_pj"] is document["mapping"] is None
    assert document["notes"] == []
    assert_explained(document)
    assert main(["evaluate", str(MAPPING.with_name("row.yaml")), str(MAPPING), "--json", "priced.json"]) == 0
    assert list(document) == list(json.loads(Path("priced.json").read_text(encoding="utf-8")))


def test_compare(spec, capsys):
    document = refused(capsys, "compare", spec, "--csv", "out.csv")
    assert (document["status"], document["mappers"]) == ("INFEASIBLE", [])
    assert_explained(document)
    rows = list(csv.DictReader(Path("out.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["mapper"], row["value"]) for row in rows] == [("tilewright", "")]


def test_tile(spec, capsys):
    document = refused(capsys, "tile", "--onto", spec)
    assert document["status"] == "CANNOT_TILE"
    assert document["reason"].endswith(CONFLICT)


@pytest.mark.parametrize("words", [("map", "row.yaml"), ("tile", "--onto", "row.yaml")])
def test_no_mapping_is_written(spec, capsys, words):
    Path("out.yaml").write_text("older", encoding="utf-8")
    assert main([*words, "--mapping", "out.yaml"]) == 4
    assert Path("out.yaml").read_text(encoding="utf-8") == "older"
    assert capsys.readouterr().err.endswith("note: no mapping is written: none was found\n")


@pytest.mark.parametrize(("words", "lack"), [(("map", "--pareto"), "point"), (("compare",), "mapping")])
def test_no_picture_is_drawn(spec, capsys, words, lack):
    assert main([*words, spec, "--plot", "out.svg"]) == 4
    assert capsys.readouterr().err.endswith(f"note: out.svg is not written: there is no {lack} to draw\n")
    assert not Path("out.svg").exists()


def test_the_document_goes_to_stdout(spec, capsys):
    assert main(["map", spec, "--json", "-"]) == 4
    output = capsys.readouterr()
    assert_explained(json.loads(output.out))
    assert output.err.startswith(f"error: {CONFLICT}\n")


def test_an_output_that_fails_takes_no_message_along(spec, capsys):
    if not Path("/dev/full").exists():
        pytest.skip("there is no full device here")
    assert main(["map", spec, "--json", "/dev/full"]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"error: {CONFLICT}\n")
    assert message.endswith("error: cannot write /dev/full: No space left on device\n")


PERFECT = ("--factors", "perfect")  # which the checker decides within a second


def test_a_certificate_needs_the_search(spec, capsys):
    assert main(["map", spec, *PERFECT, "--certificate", "certificate.json", "--jobs", "1"]) == 4
    assert f"Conflict: {CONFLICT}" in capsys.readouterr().out
    assert json.loads(Path("certificate.json").read_text(encoding="utf-8"))["status"] == "INFEASIBLE"
    assert main(["prove", spec, *PERFECT, "--jobs", "1"]) == 4
    assert "VALID: no mapping exists" in capsys.readouterr().out


def test_what_else_is_wrong_comes_first(working_directory, capsys):
    """Or `explain`, which the message names, would refuse the spec for it."""
    Path("row.yaml").write_text(edited(TIGHT, ("class: intmac", "class: intmagic")), encoding="utf-8")
    for command in ("map", "explain"):
        assert main([command, "row.yaml"]) == 2
        assert "intmagic" in capsys.readouterr().err


def test_a_mapping_in_the_specs_is_looked_at_by_evaluate_and_check(working_directory, capsys):
    text = MAPPING.read_text(encoding="utf-8")
    assert "M=3" in text
    Path("wrong.yaml").write_text(text.replace("M=3", "M=7"), encoding="utf-8")
    spec = str(MAPPING.with_name("row.yaml"))
    for command in ("evaluate", "check"):
        assert main([command, spec, "wrong.yaml"]) == 2
        assert "wrong.yaml" in capsys.readouterr().err
    assert main(["map", spec, "wrong.yaml", "--jobs", "1"]) == 0
    assert "note: the `mapping` in the specs is ignored here" in capsys.readouterr().out
