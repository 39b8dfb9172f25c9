"""The command ``sweep``: table, JSON, CSV, picture, and errors of users."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from model.formats.cascade.loader import load_variants
from model.formats.timeloop.overrides import parse_setting
from solver.cli.main import main
from solver.network.sweep import SweepResult, sweep
from solver.report.network import sweep_document
from tests.conftest import REPOSITORY
from tests.small_network import ARCHITECTURE, WORKLOAD, write_specs
from tests.solver.golden import reported


@pytest.fixture
def arguments(working_directory: Path) -> list[str]:
    write_specs()
    Path("v.yaml").write_text(WORKLOAD.replace("L: 2", "L: 1"), encoding="utf-8")
    Path("b.yaml").write_text(ARCHITECTURE.replace("read: 100", "read: 50"), encoding="utf-8")
    return ["sweep", "w.yaml", "a.yaml", "--cache", "cache", "--jobs", "1"]


DEPTHS = ("--set-attribute", "buffer.depth=6,12")


def test_the_table(arguments, capsys):
    assert main([*arguments, *DEPTHS]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split() == [
        *("Workload", "Architecture", "buffer.depth", "Status", "Energy", "Cycles"),
        *("EDP", "(pJ*cycles)", "Area", "Proven", "Front"),
    ]
    rows = [line.split() for line in lines[5:7]]
    assert [row[:4] for row in rows] == [["w", "PE", "6", "OPTIMAL"], ["w", "PE", "12", "OPTIMAL"]]
    assert [row[-2:] for row in rows] in ([["4/4", "*"], ["-", "4/4"]], [["-", "4/4"], ["4/4", "*"]])
    note = next(line for line in lines if line.startswith("note: buffer.depth"))
    assert "(read, fill, update, leak) are given and do not depend on it" in note
    assert lines[0].startswith("OPTIMAL 2 points; 8 of 8 Einsums proven; 4 searches")


def test_json_and_csv_say_the_same(arguments, capsys):
    given = [*arguments[:1], *arguments[3:], *DEPTHS, "--architectures", "a.yaml", "b.yaml"]
    assert main([*given, "--workloads", "w.yaml", "v.yaml", "--json", "-", "--csv", "out.csv"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = list(csv.DictReader(io.StringIO(Path("out.csv").read_text(encoding="utf-8"))))
    assert len(rows) == len(document["points"]) == 8
    for row, point in zip(rows, document["points"], strict=True):
        assert row["workload"] == point["workload"]
        assert row["architecture"] == point["architecture"]
        assert row["buffer.depth"] == point["attributes"]["buffer.depth"]
        assert float(row["energy_pj"]) == point["energy_pj"]
        assert int(row["cycles"]) == point["cycles"]
        assert row["area_mm2"] == ""
        assert row["front"] == str(point["front"])
    assert {point["status"] for point in document["points"]} == {"OPTIMAL"}
    assert document["searches"] == 12


def test_alternatives_that_are_named_again_count_once(arguments, capsys):
    given = [*arguments[:1], *arguments[3:], "--architectures", "b.yaml", "a.yaml", "./b.yaml", "b.yaml"]
    assert main([*given, "--workloads", "w.yaml", "w.yaml", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(point["workload"], point["architecture"]) for point in document["points"]] == [
        ("w", "b"),
        ("w", "a"),
    ]
    repeated = [note for note in document["notes"] if "more than once" in note]
    assert repeated == [
        "the workload w.yaml is given more than once; the repetition is ignored",
        "the architecture b.yaml is given more than once; the repetition is ignored",
    ]


def test_a_point_is_what_network_says_of_it(arguments, capsys):
    main([*arguments, *DEPTHS, "--json", "-"])
    point = json.loads(capsys.readouterr().out)["points"][1]
    main(["network", *arguments[1:], "--json", "-"])
    network = json.loads(capsys.readouterr().out)
    keys = ("energy_pj", "cycles", "edp_pj_cycles", "proven", "einsums", "status")
    assert {key: point[key] for key in keys} == {key: network[key] for key in keys}


def test_resume_takes_what_network_kept(arguments, capsys):
    main(["network", *arguments[1:], "--quiet"])
    main([*arguments, *DEPTHS, "--resume", "--json", "-"])
    assert json.loads(capsys.readouterr().out)["searches"] == 2


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_picture(arguments, capsys, suffix):
    if suffix != "svg":
        pytest.importorskip("matplotlib")
    two = ["--set-attribute", "PE.meshX=1,4"]
    assert main([*arguments, *two, *DEPTHS, "--quiet", "--plot", f"out.{suffix}"]) == 0
    assert capsys.readouterr().out == ""
    assert Path(f"out.{suffix}").stat().st_size > 1000


def test_a_picture_of_nothing_that_can_be_mapped(arguments, capsys):
    tight = ARCHITECTURE.replace("keep: [input], bypass: [weight]", "keep: [All]")
    Path("a.yaml").write_text(tight.replace("width: 16", "width: 8"), encoding="utf-8")
    given = [*arguments, "--set-attribute", "buffer.depth=1", "--quiet", "--plot", "out.svg"]
    assert main(given) == 4
    assert not Path("out.svg").exists()
    assert capsys.readouterr().err == "note: out.svg is not written: there is no point to draw\n"


def test_a_time_limit_leaves_points_unproven(arguments, capsys):
    assert main([*arguments, *DEPTHS, "--time-limit", "0"]) in (3, 5)
    assert "2 of 8 Einsums proven" in capsys.readouterr().out  # the copies


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set-attribute", "bufer.depth=1"), "did you mean `buffer`?"),
        (("--set-attribute", "buffer.depth"), "does not set an attribute"),
        (("--set-attribute", "buffer.depth=0"), "buffer.depth=0"),
        (("--set-attribute", "buffer.depth=1,1"), "twice"),
        (("--workloads", "absent.yaml"), "absent.yaml"),
        (("--workloads", "v.yaml"), "second value"),
        (("--plot", "out.gif"), "the name of a picture must end in"),
        (("--json", "a.yaml"), "it is one of the inputs"),
        (("--csv", "same", "--json", "same"), "two outputs"),
    ],
)
def test_errors_of_users_take_one_message_and_exit_code_2(arguments, capsys, words, message):
    assert main([*arguments, *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert "Traceback" not in output.err
    assert not Path("cache").exists()


def test_the_files_of_a_directory_are_one_alternative(arguments, capsys):
    Path("designs").mkdir()
    for name in ("a.yaml", "b.yaml"):
        Path(name).rename(f"designs/{name}")
    assert main([*arguments[:2], *arguments[3:], "--architectures", "designs"]) == 2
    message = capsys.readouterr().err
    assert "error: two nodes are named" in message
    assert message.endswith("`sweep --architectures` takes alternatives, file by file\n")


def test_nothing_given(capsys):
    assert main(["sweep"]) == 2
    assert "no workload and no layers are given" in capsys.readouterr().err


def test_a_picture_without_the_extra(arguments, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([*arguments, "--plot", "out.png"]) == 2
    assert "tilewright[plot]" in capsys.readouterr().err


def test_a_picture_that_cannot_be_written(arguments, capsys):
    Path("out.svg").symlink_to("/dev/full")
    assert main([*arguments, "--quiet", "--plot", "out.svg"]) == 2
    assert "cannot write out.svg" in capsys.readouterr().err


def test_every_key_is_documented(arguments, capsys):
    text = (REPOSITORY / "docs" / "sweep.md").read_text(encoding="utf-8")
    main([*arguments, "--json", "-"])
    document = json.loads(capsys.readouterr().out)
    for key in (*document, *document["points"][0]):
        assert f"`{key}`" in text


TIGHT = ARCHITECTURE.replace("keep: [input], bypass: [weight]", "keep: [All]").replace(
    "width: 16", "width: 8"
)
BANDWIDTHS = ("--set-attribute", "DRAM.shared_bandwidth=1,2")


def explanation(text: str) -> str:
    return text[text.index("No mapping") :].rstrip("\n") + "\n"


def test_points_without_a_mapping_say_why(arguments, capsys):
    Path("a.yaml").write_text(TIGHT, encoding="utf-8")
    given = [*arguments, "--set-attribute", "buffer.depth=1,2,50"]
    assert main([*given, *BANDWIDTHS]) == 0
    text = capsys.readouterr().out
    documentation = (REPOSITORY / "docs" / "sweep.md").read_text(encoding="utf-8")
    shown = documentation[documentation.index("No mapping of") :].split("```")[0]
    assert shown in explanation(text)
    assert explanation(text).count("Conflict") == 1
    assert main([*given[:-1], "buffer.depth=1", "--resume"]) == 4
    assert "No mapping of `T` and `Y`\nConflict" in capsys.readouterr().out


def test_conflicts_of_other_files_are_shown_with_their_lines(arguments, capsys):
    Path("a.yaml").write_text(TIGHT, encoding="utf-8")
    Path("b.yaml").write_text(TIGHT.replace("name: DRAM", "name: DRAM "), encoding="utf-8")
    given = [*arguments[:2], *arguments[3:], "--architectures", "a.yaml", "b.yaml", *BANDWIDTHS]
    assert main([*given, "--set-attribute", "buffer.depth=1,9"]) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if line.startswith("No mapping")]
    assert heads == [f"No mapping of `T` and `Y` at {name}, buffer.depth=1" for name in "ab"]


def test_reasons_as_json(arguments, capsys):
    Path("a.yaml").write_text(TIGHT, encoding="utf-8")
    main([*arguments, "--set-attribute", "buffer.depth=1,50", "--json", "-"])
    tight, ample = json.loads(capsys.readouterr().out)["points"]
    assert ample["infeasible"] == []
    assert [own["einsums"] for own in tight["infeasible"]] == [["T", "Y"], ["Z"]]
    for own in tight["infeasible"]:
        assert own["violations"] == []
        assert own["reasons"][0]["sources"] == ["a.yaml:14:38", "--set-attribute buffer.depth:1:14"]


def test_copies_that_no_level_holds(arguments, capsys):
    Path("a.yaml").write_text(
        ARCHITECTURE.replace(
            "shared_bandwidth: 4}", "shared_bandwidth: 4}\n    constraints: {dataspace: {bypass: [A_in]}}"
        ),
        encoding="utf-8",
    )
    words = [*arguments, "--set-attribute", "buffer.depth=10,11,12", *BANDWIDTHS]
    assert main(words) == 0
    why = explanation(capsys.readouterr().out)
    assert why == (
        "No mapping of `A` at buffer.depth=10\n  buffer: tiles take 24 words of 20\n\n"
        "Likewise `A` at buffer.depth=11\n  buffer: tiles take 24 words of 22\n"
    )
    main([*words, "--json", "-"])
    (own,) = json.loads(capsys.readouterr().out)["points"][0]["infeasible"]
    (violation,) = own["violations"]
    assert (own["einsums"], own["reasons"], violation["demand"]) == (["A"], [], 24)


def test_points_that_are_no_range_are_named_one_by_one(arguments):
    Path("a.yaml").write_text(TIGHT.replace("depth: 12", "depth: 1"), encoding="utf-8")
    attributes = ("DRAM.shared_bandwidth=1,2", "DRAM.read_bandwidth=3,4,5")
    variants = load_variants(["w.yaml", "a.yaml"], settings=[parse_setting(text) for text in attributes])
    points = sweep(variants).points

    def head(count: int) -> str:
        text = reported(sweep_document(SweepResult(points[:count], 0.0)))
        return next(line for line in text.splitlines() if line.startswith("No mapping"))

    assert head(1) == head(3) == head(6) == "No mapping of `T` and `Y`"
    listed = "; ".join(f"DRAM.shared_bandwidth=1, DRAM.read_bandwidth={value}" for value in (3, 4, 5))
    assert head(4) == f"No mapping of `T` and `Y` at {listed} and 1 more"


def test_a_long_list_is_cut_off(arguments, capsys):
    names = [f"a{number}.yaml" for number in range(12)]
    for name in names:
        Path(name).write_text(TIGHT, encoding="utf-8")
    given = [*arguments[:2], *arguments[3:], "--architectures", *names]
    assert main([*given, "--set-attribute", "buffer.depth=1,50"]) == 0
    text = capsys.readouterr().out
    assert text.count("Conflict") == 10
    assert "2 more conflicts at other lines; --json lists all\n" in text
