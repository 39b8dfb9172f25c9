"""``map --pareto`` end to end."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from solver.cli.arguments import parse_arguments
from solver.cli.main import main
from solver.cli.running import load_unmapped
from solver.pareto import Front, OpenRange, pareto_front
from solver.report.document import front_document
from solver.result import Options, Status, Termination
from tests.conftest import REPOSITORY
from tests.solver.explain.row import IDLE, edited
from tests.solver.golden import FOLDER as GOLDEN
from tests.solver.golden import assert_golden, reported

SPEC = str(Path(__file__).parent / "data" / "row.yaml")
SPECS = REPOSITORY / "specs"
LAYER = [
    str(SPECS / "architectures" / "free_three_level.yaml"),
    str(SPECS / "layers" / "alexnet" / "02_conv2.yaml"),
    "--factors",
    "perfect",
]


@pytest.fixture
def small(tmp_path) -> str:
    """A spec whose front has three points, with perfect factors."""
    spec = tmp_path / "small.yaml"
    spec.write_text(edited(("depth: 64", "depth: 8")) + "mapspace: {template: uber}\n")
    return str(spec)


def without_time(text: str) -> str:
    return re.sub(r"[\d.]+ s$", "TIME", text, flags=re.MULTILINE)


def test_the_front_of_a_shipped_layer(tmp_path, capsys):
    out = tmp_path / "out.json"
    assert main(["map", *LAYER, "--pareto", "--jobs", "1", "--json", str(out)]) == 0
    assert_golden("front_free_alexnet_02.txt", without_time(capsys.readouterr().out))
    document = json.loads(out.read_text())
    assert (document["status"], document["open"]) == ("OPTIMAL", [])
    points = document["points"]
    assert [own["cycles"] for own in points] == sorted({own["cycles"] for own in points})
    assert [own["energy"] for own in points] == sorted({own["energy"] for own in points}, reverse=True)
    for own in points:
        assert own["proven"]
        assert own["energy"] / document["units_per_pj"] == own["energy_pj"]
        assert own["mapping"]


def test_the_documentation_shows_the_front_as_it_is():
    text = (REPOSITORY / "docs" / "pareto.md").read_text(encoding="utf-8")
    assert (GOLDEN / "front_free_alexnet_02.txt").read_text(encoding="utf-8") in without_time(text)


def test_the_keys_are_documented(small):
    mapspace = load_unmapped(parse_arguments(["map", small])).mapspace
    document = front_document(mapspace, pareto_front(mapspace))
    text = (REPOSITORY / "docs" / "json.md").read_text(encoding="utf-8")
    part = text.split("## `map --pareto`")[1].split("\n## ")[0]
    keys = [*document, *document["points"][0], *asdict(OpenRange(1, 2, 3))]
    assert [key for key in keys if f"`{key}`" not in part] == []


def test_the_mappings_of_the_document_price_as_it_says(small, tmp_path, capsys):
    out, mapping, priced = (tmp_path / name for name in ("out.json", "mapping.yaml", "priced.json"))
    assert main(["map", small, "--pareto", "--quiet", "--json", str(out)]) == 0
    assert capsys.readouterr().out == ""
    points = json.loads(out.read_text())["points"]
    assert len(points) == 3
    for own in points:
        mapping.write_text(json.dumps({"mapping": own["mapping"]}))
        assert main(["evaluate", small, "--mapping", str(mapping), "--json", str(priced)]) == 0
        evaluation = json.loads(priced.read_text())
        for key in ("cycles", "energy_pj", "utilization"):
            assert evaluation[key] == own[key]


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<svg "), ("png", b"\x89PNG")])
def test_a_picture_is_drawn(suffix, start, small, tmp_path):
    if suffix != "svg":
        pytest.importorskip("matplotlib")
    picture = tmp_path / f"out.{suffix}"
    assert main(["map", small, "--pareto", "--quiet", "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(start)


def test_nothing_found_in_no_time(tmp_path, capsys):
    out = tmp_path / "out.json"
    assert main(["map", SPEC, "--pareto", "--time-limit", "0", "--json", str(out)]) == 5
    (line,) = [own for own in capsys.readouterr().out.splitlines() if own.startswith("open:")]
    assert "cycles and more, where no mapping takes less than" in line
    document = json.loads(out.read_text())
    assert (document["points"], document["open"][0]["most_cycles"]) == ([], None)


def test_a_picture_without_points_is_not_written_and_says_so(tmp_path, capsys):
    picture = tmp_path / "out.svg"
    assert main(["map", SPEC, "--pareto", "--time-limit", "0", "--quiet", "--plot", str(picture)]) == 5
    assert capsys.readouterr().err == f"note: {picture} is not written: there is no point to draw\n"
    assert not picture.exists()


def test_what_is_infeasible_says_why(tmp_path, capsys):
    spec = tmp_path / "tight.yaml"
    spec.write_text(
        edited(*IDLE, ("class: intmac", "class: intmac\n      constraints: {min_parallelism: 0.9}"))
    )
    assert main(["map", str(spec), "--pareto"]) == 4
    captured = capsys.readouterr()
    assert "Conflict" in captured.out
    assert captured.out.splitlines()[0].startswith("INFEASIBLE no mapping satisfies all constraints")


def partial_front() -> tuple[object, Front]:
    """The front of a small spec as a stopped search leaves it, built by hand."""
    mapspace = load_unmapped(parse_arguments(["map", SPEC])).mapspace
    (point,) = pareto_front(mapspace).points
    rest = OpenRange(point.evaluation.cycles + 1, None, 10 * mapspace.architecture.units_per_pj)
    return mapspace, Front(
        Status.FEASIBLE, Termination.TIME_LIMIT, mapspace.architecture.units_per_pj, (point,), (rest,)
    )


def test_an_open_front_is_printed_with_what_is_open():
    mapspace, front = partial_front()
    text = reported(front_document(mapspace, front))
    assert "open: 25 cycles and more, where no mapping takes less than 10.000 pJ\n" in text
    assert text.splitlines()[0].startswith("FEASIBLE 1 point; stopped by the time limit; ")
    assert "least EDP" not in text


def test_the_keys_do_not_depend_on_the_status():
    mapspace, front = partial_front()
    stopped = pareto_front(mapspace, Options(time_limit_s=0))
    complete = pareto_front(mapspace)
    assert len({tuple(front_document(mapspace, own)) for own in (front, stopped, complete)}) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pareto", "--objective", "edp"], "--objective needs a single best mapping"),
        (["--pareto", "--mapping", "-"], "--mapping needs a single best mapping"),
        (["--pareto", "--mapped-spec", "-"], "--mapped-spec needs a single best mapping"),
        (["--pareto", "--sensitivity"], "--sensitivity needs a single best mapping"),
        (["--pareto", "--certificate", "out.json"], "--certificate needs a single best mapping"),
        (["--plot", "out.gif"], ".png, .svg, .pdf"),
        (["--pareto", "--plot", "out.gif"], ".png, .svg, .pdf"),
        (["--pareto", "--plot", "-"], "cannot be written to stdout"),
        (["--pareto", "--plot", "no/such/out.svg"], "there is no directory"),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_two(words, message, capsys):
    assert main(["map", SPEC, *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
