"""``--report`` of every command, and ``report``: a page also if nothing was found."""

import json
from pathlib import Path

import pytest

from solver.cli.main import main
from tests.small_network import ARCHITECTURE, write_specs
from tests.solver.explain.row import edited

DATA = Path(__file__).parent / "data"
FUSED = Path(__file__).parents[2] / "model" / "fused" / "data"


@pytest.fixture
def specs(working_directory):
    write_specs()
    Path("row.yaml").write_text(edited(), encoding="utf-8")
    Path("tight.yaml").write_text(
        ARCHITECTURE.replace("depth: 12", "depth: 1, min_utilization: 1").replace("width: 16", "width: 56"),
        encoding="utf-8",
    )
    return working_directory


COMMANDS = {
    "map": (
        0,
        ["map", "row.yaml", "--check", "--sensitivity", "--price-constraints", "--jobs", "1"],
        "Cost of each constraint",
    ),
    "map in no time": (5, ["map", "row.yaml", "--time-limit", "0", "--jobs", "1"], "no mapping was found"),
    "front": (0, ["map", "row.yaml", "--pareto", "--jobs", "1"], "the complete front"),
    "explain": (0, ["explain", "row.yaml", "--jobs", "1"], "Cost of each constraint"),
    "evaluate": (
        0,
        ["evaluate", "row.yaml", "--mapping", str(DATA / "row_mapping.yaml")],
        "respects every limit",
    ),
    "sparse": (0, ["evaluate", str(DATA / "sparse_gemm.yaml")], "for dense data"),
    "fused": (
        0,
        [
            *("evaluate", str(FUSED / "attention.workload.yaml"), str(FUSED / "arch.yaml")),
            *("--mapping", str(FUSED / "attention.fused.yaml")),
        ],
        "Buffer occupancy",
    ),
    "network": (0, ["network", "w.yaml", "a.yaml", "--no-cache", "--jobs", "1"], "Energy by Einsum"),
    "infeasible network": (4, ["network", "w.yaml", "tight.yaml", "--no-cache", "--jobs", "1"], "Conflict"),
    "sweep": (
        0,
        ["sweep", "w.yaml", "a.yaml", "--set-attribute", "buffer.depth=6,12", "--no-cache", "--jobs", "1"],
        "2 points",
    ),
    "infeasible sweep": (
        4,
        ["sweep", "w.yaml", "tight.yaml", "--set-attribute", "buffer.depth=1", "--no-cache", "--jobs", "1"],
        "Conflict",
    ),
    "compare": (
        0,
        ["compare", "row.yaml", "--mappers", "greedy", "--evaluations", "20", "--jobs", "1"],
        "Convergence",
    ),
    "assign": (0, ["assign", str(DATA / "tiny_network.yaml"), "--jobs", "1"], "Naive rules"),
    "no assignment": (
        4,
        ["assign", str(DATA / "network_without_assignment.yaml"), "--jobs", "1"],
        "no assignment is allowed",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_writes_a_page_that_its_json_gives_again(name, specs, capsys, monkeypatch):
    code, words, said = COMMANDS[name]
    if name == "map in no time":
        monkeypatch.setattr("solver.stages.drawn", lambda *_: None)
    assert main([*words, "--json", "out.json", "--report", "page.html"]) == code
    page = Path("page.html").read_text(encoding="utf-8")
    assert said in page
    command = json.loads(Path("out.json").read_text(encoding="utf-8"))["run"]["command"]
    assert command.startswith(f"python -m solver {words[0]} ")
    assert main(["report", "out.json", "--output", "again.html"]) == 0
    assert Path("again.html").read_text(encoding="utf-8") == page


@pytest.mark.parametrize("command", ["map", "compare"])
def test_specs_in_conflict_have_a_page_too(command, specs):
    Path("row.yaml").write_text(edited(("depth: 8", "depth: 2"), ("[P=1]", "[P=1, C=4]")), encoding="utf-8")
    assert main([command, "row.yaml", "--report", "page.html", "--jobs", "1"]) == 4
    assert "INFEASIBLE" in Path("page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "absent.json"], "absent.json: cannot be read: No such file"),
        (["report", "row.yaml"], "row.yaml: not valid JSON"),
        (["report", "a.html", "--output", "a.html"], "it is one of the inputs"),
        (["map", "row.yaml", "--report", "row.yaml"], "it is one of the inputs"),
        (["map", "row.yaml", "--report", "-", "--json", "-"], "two outputs have the same path"),
        (["map", "row.yaml", "--check", "--certificate", "-"], "--check needs a certificate in a file"),
        (["map", "row.yaml", "--check", "--pareto"], "--check needs a single best mapping"),
    ],
)
def test_what_cannot_be_done_is_one_message(words, message, specs, capsys):
    Path("a.html").write_text("{}", encoding="utf-8")
    assert main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.out == ""


def test_a_page_on_stdout_is_all_that_is_printed(specs, capsys):
    assert main(["map", "row.yaml", "--report", "-", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


def test_a_hash_tells_which_file_was_read(specs):
    assert main(["map", "row.yaml", "--json", "out.json", "--quiet", "--jobs", "1"]) == 0
    (read,) = json.loads(Path("out.json").read_text(encoding="utf-8"))["run"]["inputs"]
    assert read["path"] == "row.yaml" and len(read["sha256"]) == 64
