"""The command ``assign`` end to end."""

import json
import re
from pathlib import Path

import pytest

from solver.cli.main import main
from tests.conftest import REPOSITORY
from tests.solver.assignment.networks import CONFLICT, TINY
from tests.solver.golden import assert_golden

DATA = Path(__file__).parent / "data"
SHIPPED = REPOSITORY / "specs" / "networks"


def run(capsys, *words):
    code = main(["assign", *map(str, words)])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, captured.out


def without_seconds(text):
    return (
        "\n".join(line.rsplit(",", 1)[0] if "OPTIMAL" in line else line for line in text.splitlines()) + "\n"
    )


def test_report(capsys):
    code, text = run(capsys, TINY)
    assert code == 0
    assert_golden("assign_tiny.txt", without_seconds(text))


def test_report_of_a_published_instance_with_all_steps(capsys):
    code, text = run(capsys, SHIPPED / "inception_3a.yaml", "--decomposition")
    assert code == 0
    assert_golden("assign_inception_3a.txt", without_seconds(text))


def test_json(capsys):
    code, text = run(capsys, TINY, "--json", "-")
    document = json.loads(text)
    assert code == 0
    assert {key: document[key] for key in ("status", "total", "unit", "method_used", "margin")} == {
        "status": "OPTIMAL",
        "total": 3.0,
        "unit": "ms",
        "method_used": "chain",
        "margin": 0.25,
    }
    assert document["assignment"] == {"conv1": "kn2row", "conv2": "im2col"}
    assert document["runner_up"]["assignment"] == {"conv1": "im2col", "conv2": "winograd"}
    assert [policy["total"] for policy in document["policies"]] == [None, 3.25, None, None]


def test_no_assignment_names_the_conflict(capsys):
    code, text = run(capsys, CONFLICT)
    assert code == 4
    conflict = text[text.index("Conflict:") :].splitlines()
    assert conflict[0] == "Conflict: no assignment satisfies all of these"
    rules = ["layer b allows only x", "edge a -> b forbids x to x", "edge a -> c forbids y to x, y to y"]
    assert [line.strip() for line in conflict[1:7:2]] == rules
    assert conflict[2].endswith(":5:5")
    assert conflict[7] == "  Any one of these changes suffices:"
    changes = [line.strip().split("  (")[0] for line in conflict[8:11]]
    assert changes == [f"without this: {rule}" for rule in rules]
    assert text.startswith("INFEASIBLE no assignment is allowed")


def test_several_conflicts_and_what_suffices(capsys, tmp_path):
    network = tmp_path / "n.yaml"
    network.write_text(
        "network:\n  layers:\n"
        "  - {name: a, methods: {x: 1, y: inf}}\n  - {name: b, methods: {x: 1, y: 1}}\n"
        "  - {name: c, methods: {x: inf}}\n"
        "  edges:\n"
        "  - {from: a, to: b, transition: {x: {x: inf, y: inf}, y: {x: inf}}}\n"
        "  - {from: b, to: c, transition: {x: {x: inf}, y: {x: inf}}}\n",
        encoding="utf-8",
    )
    code, text = run(capsys, network)
    assert code == 4
    lines = text[text.index("Conflict 1:") :].splitlines()
    assert [line.split("  (")[0] for line in lines if line and "-->" not in line] == [
        "Conflict 1: no assignment satisfies all of these",
        "  layer c forbids all of its methods",
        "  Any one of these changes suffices, once the other conflicts are resolved:",
        "    without this: layer c forbids all of its methods",
        "Conflict 2: no assignment satisfies all of these",
        "  edge b -> c forbids all pairs of methods",
        "  Any one of these changes suffices, once the other conflicts are resolved:",
        "    without this: edge b -> c forbids all pairs of methods",
        "Conflict 3: no assignment satisfies all of these",
        "  layer a allows only x",
        "  edge a -> b allows only y to y",
        "  Any one of these changes suffices, once the other conflicts are resolved:",
        "    without this: layer a allows only x",
        "    without this: edge a -> b allows only y to y",
    ]


def test_array_within_a_budget(capsys):
    code, text = run(capsys, SHIPPED / "inception_3a.yaml", "--dsp-budget", "500", "--json", "-")
    document = json.loads(text)
    assert code == 0
    assert document["array"]["rows"] * document["array"]["columns"] <= 500
    assert document["array"]["value"] == document["total"]
    assert document["status"] == "OPTIMAL"


def test_a_stopped_array_search_says_so(capsys):
    words = (SHIPPED / "googlenet.yaml", "--dsp-budget", "5000", "--time-limit", "0")
    code, text = run(capsys, *words)
    assert code == 3
    assert text.splitlines()[0].startswith("FEASIBLE total")
    assert "stopped by the time limit" in text.splitlines()[0]


@pytest.fixture
def graphviz(tmp_path, monkeypatch):
    """A `dot` that writes its options and what it reads, or fails if `FAILING` is set."""
    program = tmp_path / "bin" / "dot"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ -z "$FAILING" ] || { echo "no memory" >&2; exit 1; }\necho "$@"; cat\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_pictures_are_drawn_by_graphviz(tmp_path, capsys, graphviz, suffix):
    plot, graph = tmp_path / f"chosen.{suffix}", tmp_path / f"graph.{suffix}"
    code, text = run(capsys, SHIPPED / "inception_3a.yaml", "--quiet", "--plot", plot, "--show-graph", graph)
    assert (code, text) == (0, "")
    options, _, drawn = graph.read_text(encoding="utf-8").partition("\n")
    assert (options, drawn[:8]) == (f"-T{suffix}", "digraph ")
    assert "style=bold" in plot.read_text(encoding="utf-8") and "style=bold" not in drawn


def test_a_graphviz_that_fails(tmp_path, capsys, graphviz, monkeypatch):
    monkeypatch.setenv("FAILING", "1")
    assert main(["assign", str(TINY), "--quiet", "--plot", str(tmp_path / "out.png")]) == 2
    assert capsys.readouterr().err.endswith("out.png: Graphviz failed: no memory\n")


def test_graph_as_dot(tmp_path, capsys):
    code, text = run(capsys, TINY, "--show-graph", "-")
    assert code == 0
    run(capsys, TINY, "--quiet", "--show-graph", tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text() == text
    assert_golden("assign_tiny.dot", text)


def test_no_picture_without_an_assignment(tmp_path, capsys, graphviz):
    picture = tmp_path / "out.png"
    assert main(["assign", str(CONFLICT), "--plot", str(picture)]) == 4
    assert capsys.readouterr().err == f"note: {picture} is not written: there is no assignment to draw\n"
    assert not picture.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.yaml"], "missing.yaml"),
        ([TINY, "--dsp-budget", "9"], "--dsp-budget needs a network with a `cost_model`"),
        ([SHIPPED / "googlenet.yaml", "--dsp-budget", "20001"], "--dsp-budget must be at most 20,000"),
        ([TINY, "--json", "no/such/out.json"], "there is no directory"),
        ([TINY, "--json", "-", "--show-graph", "-"], "two outputs"),
        ([SHIPPED / "chain_1000.yaml", "--plot", "/tmp/none/x.png"], "there is no directory"),
        ([REPOSITORY / "specs" / "layers" / "gemm" / "1024.yaml"], "unknown key `problem`"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_two(words, message, capsys):
    assert main(["assign", *map(str, words)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("error: ")
    assert captured.out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--plot", "out.txt"], "'out.txt' does not end in .png, .svg, .pdf"),
        (["--plot", "-"], "does not end in"),
        (["--show-graph", "out"], "does not end in .dot"),
        (["--dsp-budget", "0"], "not a positive integer"),
        (["--array-criterion", "best"], "invalid choice"),
    ],
)
def test_wrong_arguments(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["assign", str(TINY), *words])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_picture_needs_graphviz(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["assign", str(TINY), "--plot", str(tmp_path / "out.png")]) == 2
    message = "the program `dot` of Graphviz is missing; --show-graph OUT.dot writes the graph as text\n"
    assert capsys.readouterr().err.endswith(message)


def test_a_picture_has_its_limits(capsys, tmp_path, graphviz):
    names = ", ".join(f"m{k}: 1" for k in range(150))
    layers = "\n".join(f"  - {{name: {name}, methods: {{{names}}}}}" for name in "ab")
    path = tmp_path / "net.yaml"
    path.write_text(f"network:\n  layers:\n{layers}\n  edges: chain\n")
    assert main(["assign", str(path), "--plot", str(tmp_path / "out.png")]) == 2
    assert "a .dot file has no limit" in capsys.readouterr().err


def test_a_thousand_layers_from_the_command_line(capsys):
    code, text = run(capsys, SHIPPED / "chain_1000.yaml")
    assert code == 0
    assert sum(line.startswith("conv") for line in text.splitlines()) == 1000


def mapped(*words):
    files = (DATA / "mapped_network.yaml", DATA / "mapped_architecture.yaml", "--methods", METHODS)
    return (*files, "--factors", "perfect", *words)


METHODS = DATA / "mapped_methods.yaml"


def test_report_of_costs_by_the_mapper(tmp_path, capsys):
    code, text = run(capsys, *mapped("--cache", tmp_path))
    assert code == 0
    assert_golden("assign_mapped.txt", without_seconds(text))


def further_keys(document):
    """What stands behind the keys of every assignment, in the notation of the documentation."""
    own = {key: document[key] for key in list(document)[list(document).index("reasons") + 1 :]}
    keys = (
        set(own) - {"gain", "costs", "run"}
        | {f"gain.{kind}" for kind in own["gain"]}
        | {"costs.LAYER.METHOD"}
    )
    keys |= {f"gain.*.{key}" for key in own["gain"]["method"]}
    return keys | {f"costs.*.*.{key}" for key in own["costs"]["conv1"]["direct"]}


def documented_further_keys():
    text = (REPOSITORY / "docs" / "assignment.md").read_text(encoding="utf-8")
    part = text.split("## Further keys with `--methods`")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", part, flags=re.MULTILINE))


def test_json_of_costs_by_the_mapper(tmp_path, capsys):
    code, text = run(capsys, *mapped("--cache", tmp_path, "--objective", "latency", "--json", "-"))
    document = json.loads(text)
    assert code == 0
    assert {key: document[key] for key in ("status", "objective", "unit", "unproven", "total")} == {
        "status": "OPTIMAL",
        "objective": "latency",
        "unit": "cycles",
        "unproven": 0,
        "total": 193.0,
    }
    assert document["costs"]["conv1"]["shift"] == {"status": "INFEASIBLE", "value": None, "bound": None}
    assert document["costs"]["conv3"]["shift"] == {"status": "OPTIMAL", "value": 64.0, "bound": 64.0}
    assert document["gain"]["method"] == {"name": "direct", "total": 197.0, "share": pytest.approx(4 / 197)}
    assert further_keys(document) == documented_further_keys()
    assert document["layers"][3]["alternative"] == {"method": "direct", "margin": 4.0}


def test_searches_without_time_leave_the_assignment_unproven(tmp_path, capsys):
    code, text = run(capsys, *mapped("--cache", tmp_path, "--time-limit", "0"))
    assert code in (3, 5)
    assert "searches ended without a proof (*) or without any mapping (?)" in text
    assert text.splitlines()[0].startswith(("FEASIBLE", "UNKNOWN"))
    assert "stopped by the time limit" in text.splitlines()[0]


def test_kept_answers_are_used_again(tmp_path, capsys):
    first = run(capsys, *mapped("--cache", tmp_path, "--json", "-"))
    kept = sorted(path.stat().st_mtime_ns for path in tmp_path.glob("*.json"))
    second = run(capsys, *mapped("--cache", tmp_path, "--json", "-", "--resume"))
    assert json.loads(first[1])["costs"] == json.loads(second[1])["costs"]
    # conv1 by `shift` has no mapping; that is kept as well.
    assert len(kept) == 8
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.glob("*.json")) == kept


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([TINY, "--objective", "energy"], "--objective needs --methods"),
        ([TINY, "--resume"], "--resume needs --methods"),
        ([TINY, "--cache", "here"], "--cache needs --methods"),
        ([TINY, "--array-criterion", "layers"], "--array-criterion needs a budget of multipliers"),
        (mapped("--array-criterion", "layers"), "--array-criterion and --methods exclude each other"),
        (mapped("--dsp-budget", "9"), "--dsp-budget and --methods exclude each other"),
        ([*mapped()[:2], "--methods", "missing.yaml"], "missing.yaml"),
        ([DATA / "mapped_network.yaml", "--methods", METHODS], "no architecture is given"),
        ([TINY, DATA / "mapped_architecture.yaml", "--methods", METHODS], "has either `conv` or `tensor`"),
        (mapped("--limit", "nodes=5"), "more than 5 values"),
        ([TINY, "--limit", "nodes=5"], "more than 5 values"),
    ],
)
def test_bad_input_to_the_mapper(words, message, capsys):
    assert main(["assign", *map(str, words)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_names_that_read_alike_are_not_mixed_up(tmp_path, capsys):
    """Layer `a` by `b by c` and layer `a by b` by `c` are two searches."""
    text = METHODS.read_text(encoding="utf-8").replace("name: direct", "name: b by c").replace("unfold", "c")
    methods, network = tmp_path / "m.yaml", tmp_path / "n.yaml"
    methods.write_text(text, encoding="utf-8")
    convs = (
        "in_channels: 1, out_channels: 1, height: 2, width: 2",
        "in_channels: 1, out_channels: 4, height: 2, width: 4",
    )
    layers = [
        f"  - {{name: {name}, conv: {{{conv}}}}}\n" for name, conv in zip(("a", "a by b"), convs, strict=True)
    ]
    network.write_text("network:\n  layers:\n" + "".join(layers), encoding="utf-8")
    words = (
        network,
        DATA / "mapped_architecture.yaml",
        "--methods",
        methods,
        "--cache",
        tmp_path,
        "--objective",
    )
    _, text = run(capsys, *words, "latency", "--json", "-")
    cycles = [{own["value"] for own in costs.values()} for costs in json.loads(text)["costs"].values()]
    assert cycles == [{2.0}, {16.0}]


@pytest.mark.parametrize(
    ("objective", "message"),
    [("edp", "edp is a product, which does not add up over layers"), ("energy,latency", "is not energy or")],
)
def test_objectives_that_do_not_add_up(objective, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["assign", *map(str, mapped("--objective", objective))])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_an_instance_of_the_contest_is_answered_in_its_form(tmp_path, capsys):
    instance, answer = tmp_path / "own.json", tmp_path / "answer.json"
    instance.write_text(
        '{"problem": {"name": "own", "nodes": {"intervals": [[0, 2], [1, 3]], "costs": [[5, 1], [4, 2]], '
        '"usages": [[1, 3], [1, 3]]}, "edges": {"nodes": [[1, 0]], "costs": [[0, 0, 9, 0]]}, '
        '"usage_limit": 4}}'
    )
    code, text = run(capsys, instance, "--answer", answer)
    assert code == 0
    assert answer.read_text() == "[1, 0]\n"
    assert "Peak usage" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((TINY, "--answer", "out.json"), "--answer needs an instance in JSON"),
        (("own.json", TINY), "give no other files"),
        (("own.json", "--set", "a=1"), "has no variables to set"),
    ],
)
def test_what_goes_with_an_instance(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.json").write_text("{}")
    assert main(["assign", *map(str, words)]) == 2
    assert message in capsys.readouterr().err
