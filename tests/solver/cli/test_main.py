"""The commands end to end: exit codes, files, and what goes to stdout and stderr."""

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest
import yaml

from model.cost import evaluate
from model.extents import ANY
from model.formats.timeloop import load_timeloop
from solver.cli.main import main
from solver.report.timeloop_mapping import mapping_targets, mapping_yaml
from tests.bruteforce import enumerate_mappings
from tests.conftest import REPOSITORY
from tests.mapspaces import perfect_mapspace
from tests.solver.examples import FEASIBLE, INFEASIBLE, OPTIMAL, UNKNOWN
from tests.solver.golden import assert_golden

DATA = Path(__file__).parent / "data"
SPEC = str(DATA / "row.yaml")
MAPPING = str(DATA / "row_mapping.yaml")
LOADED = load_timeloop([SPEC, MAPPING])
PRICED = evaluate(LOADED.mapspace.problem, LOADED.mapspace.architecture, LOADED.mapping)
FOUND = {"mapping": LOADED.mapping, "evaluation": PRICED}
PROVEN = replace(OPTIMAL, value=PRICED.edp, bound=PRICED.edp, **FOUND)
STOPPED = replace(FEASIBLE, value=PRICED.energy, bound=0, **FOUND)
EXIT_CODES = ((PROVEN, 0), (STOPPED, 3), (INFEASIBLE, 4), (UNKNOWN, 5))


@pytest.fixture
def answer(monkeypatch):
    """Make the search return a given result, and collect the options it was called with."""
    calls = []

    def install(result):
        def fake(mapspace, options, on_progress, should_stop, known=None, **_):
            assert not should_stop()
            calls.append(options)
            return result

        monkeypatch.setattr("solver.stages.map_einsum", fake)
        return calls

    return install


def test_check(capsys):
    assert main(["check", SPEC]) == 0
    assert_golden("row_check.txt", capsys.readouterr().out)


def test_evaluate(capsys):
    assert main(["evaluate", SPEC, "--mapping", MAPPING]) == 0
    assert_golden("row_evaluate.txt", capsys.readouterr().out)


def test_a_mapping_that_says_nothing_is_no_mapping(tmp_path, capsys):
    empty = tmp_path / "empty.yaml"
    empty.write_text("mapping: []\n", encoding="utf-8")
    assert main(["evaluate", SPEC, "--mapping", str(empty)]) == 2
    assert "error: there is nothing under the key `mapping` in " in capsys.readouterr().err


def test_several_layers_are_a_network(tmp_path, capsys):
    other = tmp_path / "other.yaml"
    other.write_text("problem: {instance: {M: 12}}\n", encoding="utf-8")
    assert main(["map", SPEC, str(other)]) == 2
    message = capsys.readouterr().err
    assert "`M` is given a second value (`12`)" in message
    assert message.endswith("help: if these are several layers, the command `network` maps them\n")


def test_evaluate_takes_the_mapping_of_the_specs_unless_told_otherwise(tmp_path, capsys):
    assert main(["evaluate", SPEC, MAPPING]) == 0
    assert_golden("row_evaluate.txt", capsys.readouterr().out)
    other = tmp_path / "other.yaml"
    other.write_text(Path(MAPPING).read_text().replace("M=2", "M=1").replace("M=3", "M=6"))
    assert main(["evaluate", SPEC, str(other), "--mapping", MAPPING]) == 0
    lines = capsys.readouterr().out.splitlines()
    (note,) = (line for line in lines if line.startswith("note:"))
    assert "other.yaml:1:1: this `mapping` is overridden by that of " in note
    assert main(["evaluate", SPEC, MAPPING, "--mapping", MAPPING]) == 0
    assert capsys.readouterr().out.splitlines() == [line for line in lines if line != note]


def test_evaluate_with_link_transfers_reads_less_from_the_buffer(tmp_path):
    files = [tmp_path / "plain.json", tmp_path / "links.json"]
    assert main(["evaluate", SPEC, "--mapping", MAPPING, "--json", str(files[0])]) == 0
    assert main(["evaluate", SPEC, "--mapping", MAPPING, "--link-transfers", "--json", str(files[1])]) == 0
    plain, links = (json.loads(file.read_text()) for file in files)
    assert links["energy_pj"] <= plain["energy_pj"]
    assert links.keys() == plain.keys()


def test_a_mapping_beyond_a_capacity_is_priced_and_called_invalid(tmp_path, capsys):
    text = Path(SPEC).read_text().replace("depth: 64", "depth: 40")
    spec = tmp_path / "tight.yaml"
    spec.write_text(text)
    assert main(["evaluate", str(spec), "--mapping", MAPPING]) == 4
    assert (
        "INVALID the mapping exceeds limits of the hardware\n  buffer: tiles take" in capsys.readouterr().out
    )
    assert main(["evaluate", str(spec), "--mapping", MAPPING, "--json", "-"]) == 4
    assert json.loads(capsys.readouterr().out)["violations"][0]["kind"] == "capacity"


def test_evaluate_may_be_quiet(tmp_path, capsys):
    out = tmp_path / "out.json"
    assert main(["evaluate", SPEC, "--mapping", MAPPING, "--quiet", "--json", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads(out.read_text())


@pytest.mark.parametrize(("result", "code"), EXIT_CODES)
def test_exit_codes_follow_the_status(result, code, answer, capsys):
    answer(result)
    assert main([SPEC]) == code
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0].startswith(result.status.value)
    assert captured.err == ""


def test_a_mapping_that_was_not_found_is_said_not_to_be_written(answer, capsys, tmp_path):
    older = tmp_path / "mapping.yaml"
    older.write_text("mapping: []\n")
    answer(UNKNOWN)
    assert main(["map", SPEC, "--mapping", str(older)]) == 5
    assert capsys.readouterr().err == "note: no mapping is written: none was found\n"
    assert older.read_text() == "mapping: []\n"


def test_options_reach_the_search(answer):
    calls = answer(UNKNOWN)
    words = "--objective latency,energy --time-limit 2.5 --jobs 3 --memory-limit 99 --quiet"
    main(["map", SPEC, *words.split()])
    (options,) = calls
    assert (options.objectives, options.time_limit_s, options.jobs) == (("latency", "energy"), 2.5, 3)
    assert options.memory_limit_mib == 99


def test_sensitivity_maps_again_with_every_limit(answer, tmp_path, capsys):
    calls = answer(PROVEN)
    out = tmp_path / "out.json"
    assert main(["map", SPEC, "--sensitivity", "--objective", "edp", "--json", str(out)]) == 0
    effects = json.loads(out.read_text())["sensitivity"]
    limits = {(effect["level"], effect["resource"]) for effect in effects}
    assert len(effects) == 2 * len(limits)
    assert len(calls) == 1 + sum(effect["searched"] for effect in effects)
    assert "Sensitivity of edp" in capsys.readouterr().out


def test_sensitivity_of_nothing(answer, capsys):
    answer(UNKNOWN)
    assert main(["map", SPEC, "--sensitivity", "--json", "-"]) == 5
    assert json.loads(capsys.readouterr().out)["sensitivity"] == []


def test_quiet_prints_nothing_and_writes_the_files(answer, tmp_path, capsys):
    answer(PROVEN)
    out, mapping = tmp_path / "out.json", tmp_path / "map.yaml"
    assert main(["map", SPEC, "--quiet", "--json", str(out), "--mapping", str(mapping)]) == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    assert json.loads(out.read_text())["mapping"] == yaml.safe_load(mapping.read_text())["mapping"]


def test_stdout_holds_the_json_alone(answer, capsys):
    answer(INFEASIBLE)
    assert main(["map", SPEC, "--json", "-"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "INFEASIBLE"
    assert document["mapping"] is document["levels"] is document["value"] is None


def test_no_mapping_file_without_a_mapping(answer, tmp_path):
    answer(UNKNOWN)
    assert main(["map", SPEC, "--quiet", "--mapping", str(tmp_path / "map.yaml")]) == 5
    assert not (tmp_path / "map.yaml").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["map", "missing.yaml"], "missing.yaml"),
        (["check", MAPPING], "problem"),
        (["evaluate", SPEC, "--mapping", SPEC], "error: there is no key `mapping` in "),
        (["map", SPEC, "--json", "no/such/dir/out.json"], "there is no directory"),
        (["map", SPEC, "--json", "."], "it is a directory"),
        (["map", SPEC, "--set", "novalue"], "novalue"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_two(words, message, capsys):
    assert main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_file_without_the_mapping_is_named_alone(working_directory, capsys):
    Path("spec.yaml").write_text(f"{Path(SPEC).read_text()}\n{Path(MAPPING).read_text()}")
    Path("other.yaml").write_text("variables: {a: 1}\n")
    assert main(["evaluate", "spec.yaml", "--mapping", "other.yaml"]) == 2
    assert capsys.readouterr().err.startswith("error: there is no key `mapping` in other.yaml\nhelp: ")


def test_a_mapping_in_the_specs_is_not_passed_over_in_silence(answer, capsys):
    answer(UNKNOWN)
    main(["map", SPEC, MAPPING])
    assert "note: the `mapping` in the specs is ignored here" in capsys.readouterr().out
    main(["map", SPEC])
    assert "`mapping`" not in capsys.readouterr().out


def test_spec_errors_show_the_place(tmp_path, capsys):
    spec = tmp_path / "bad.yaml"
    spec.write_text(Path(SPEC).read_text().replace("keep: [Weights]", "keep: [Weigths]"))
    assert main(["check", str(spec)]) == 2
    message = capsys.readouterr().err
    assert "bad.yaml:54:32" in message
    assert "Weigths" in message
    assert "^" in message


def test_written_mappings_price_the_same(tmp_path):
    mapspace = perfect_mapspace(SPEC)
    problem, architecture = mapspace.problem, mapspace.architecture
    file = tmp_path / "map.yaml"
    for mapping in islice(enumerate_mappings(mapspace), 0, 60_000, 1_500):
        file.write_text(mapping_yaml(mapping_targets(problem, architecture, mapping)))
        read = load_timeloop([SPEC, file]).mapping
        assert evaluate(problem, architecture, read) == evaluate(problem, architecture, mapping)


def test_written_mappings_with_remainders_price_the_same(tmp_path):
    spec, file = tmp_path / "spec.yaml", tmp_path / "map.yaml"
    spec.write_text(Path(SPEC).read_text().split("\nmapping:")[0])
    loaded = load_timeloop([spec])
    problem, architecture = loaded.mapspace.problem, loaded.mapspace.architecture
    wider, random = replace(loaded.mapspace, factors=ANY), Random(2)
    for mapping in islice(enumerate_mappings(wider), random.randint(0, 500), 100_000, 9_001):
        targets = mapping_targets(problem, architecture, mapping)
        file.write_text(mapping_yaml(targets))
        read = load_timeloop([spec, file]).mapping
        assert evaluate(problem, architecture, read) == evaluate(problem, architecture, mapping)


def test_spec_errors_and_help_load_nothing_heavy():
    code = (
        "import sys; from solver.cli.main import main; code = main(['map', 'missing.yaml']); "
        "print(code, [m for m in ('numpy', 'ortools', 'rich', 'jinja2') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "2 []"


EVERY_KIND_OF_OUTPUT = (
    f"check {SPEC}",
    f"evaluate {SPEC} --mapping {MAPPING} --json -",
    "network --help",
    "--help",
    "--version",
)


def test_names_of_outputs_move_no_cursor(capsys):
    assert main(["map", SPEC, "--json", "absent\x1b[2J/out.json"]) == 2
    captured = capsys.readouterr().err
    assert captured.startswith("error: cannot write absent")
    assert "\x1b" not in captured


@pytest.mark.parametrize("command", ["map", "explain"])
def test_words_beyond_64_bits_are_refused(command, tmp_path, capsys):
    text = Path(SPEC).read_text().replace("P: 4, C: 4, M: 6", "P: 2097152, C: 2097152, M: 2097152")
    (tmp_path / "large.yaml").write_text(text)
    assert main([command, str(tmp_path / "large.yaml")]) == 2
    assert capsys.readouterr().err == (
        "error: the words of all tensors total about 1e20, more than a search can count\n"
    )


FULL, CLOSED = "No space left on device", "it is closed"


# What is closed has no buffer.
WAYS_TO_WRITE = (("> /dev/full", True, FULL), ("> /dev/full", False, FULL), (">&-", True, CLOSED))
# Reports are written by one function, help and versions by another; those take every way.
WAYS_OF_OUTPUT = (WAYS_TO_WRITE, WAYS_TO_WRITE[1:2], WAYS_TO_WRITE[:1], WAYS_TO_WRITE[2:], WAYS_TO_WRITE)


@pytest.mark.parametrize(
    ("words", "redirection", "buffered", "reason"),
    [
        (words, *ways)
        for words, several in zip(EVERY_KIND_OF_OUTPUT, WAYS_OF_OUTPUT, strict=True)
        for ways in several
    ],
)
def test_a_full_or_closed_stdout_takes_one_message_and_exit_code_2(words, redirection, buffered, reason):
    run = run_in_shell(f"{words} {redirection}", buffered, stderr=subprocess.PIPE)
    assert (run.returncode, run.stderr) == (2, f"error: cannot write to stdout: {reason}\n")


def run_in_shell(words, buffered, **streams):
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    program = f"{sys.executable} -m solver {words}"
    return subprocess.run(program, shell=True, text=True, check=False, env=environment, **streams)


@pytest.mark.parametrize(
    "words",
    [
        f"map {SPEC}",
        f"map {SPEC} --pareto",
        f"evaluate {SPEC} --mapping {MAPPING}",
        f"compare {SPEC} --mappers random --evaluations 9",
        f"explain {SPEC} --time-limit 1 --factors perfect",
        f"network {SPEC} --cache {{out}}.cache",
        f"sweep {SPEC} --cache {{out}}.cache",
        "assign specs/networks/inception_3a.yaml",
        "tile --operator unary --input 1,2",
    ],
)
def test_files_are_written_whatever_becomes_of_stdout(words, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out.json"
    monkeypatch.chdir(REPOSITORY)
    with ExitStack() as stack:
        stack.enter_context(suppress(OSError))  # the buffer, as it is closed
        full = stack.enter_context(Path("/dev/full").open("w", encoding="utf-8"))
        monkeypatch.setattr(sys, "stdout", full)
        code = main([*words.format(out=out).split(), "--json", str(out)])
        monkeypatch.undo()
    error = "error: cannot write to stdout: No space left on device\n"
    assert (code, capsys.readouterr().err) == (2, error)
    json.loads(out.read_text())


WAYS_TO_REPORT = (("2>/dev/full", True), ("2>/dev/full", False), ("2>&-", True), ("2>&- <&-", True))
CASES_OF_STDERR = (
    ("check missing.yaml", 2, "", WAYS_TO_REPORT),
    ("map --nonsense", 2, "", WAYS_TO_REPORT),
    ("chekc", 2, "", WAYS_TO_REPORT),
    (f"map {SPEC} --factors perfect --quiet --json {{out}}", 0, "", WAYS_TO_REPORT[1:3]),
    (
        f"compare {SPEC} --mappers random --evaluations 9 --json {{out}}",
        0,
        "OPTIMAL",
        WAYS_TO_REPORT[3:],
    ),
)


@pytest.mark.parametrize(
    ("words", "code", "printed", "redirection", "buffered"),
    [(*case, *way) for *case, ways in CASES_OF_STDERR for way in ways],
)
def test_a_full_or_closed_stderr_leaves_the_exit_code_alone(
    words, code, printed, redirection, buffered, tmp_path
):
    out = tmp_path / "out.json"
    run = run_in_shell(f"{words.format(out=out)} {redirection}", buffered, stdout=subprocess.PIPE)
    assert run.returncode == code
    assert run.stdout.startswith(printed) if printed else run.stdout == ""
    if code == 0:
        assert json.loads(out.read_text())["status"] == "OPTIMAL"


@pytest.mark.parametrize(
    ("words", "redirections"),
    [
        (f"check {SPEC}", "2>&- >&-"),
        ("--version", "2>&- >&-"),
        ("--version", "2>/dev/full >/dev/full"),
        ("--version", "2>&- >&- <&-"),
    ],
)
def test_nothing_can_be_written_anywhere(words, redirections):
    program = f"{sys.executable} -m solver {words} {redirections}"
    assert subprocess.run(program, shell=True, check=False).returncode == 2


@pytest.mark.parametrize("words", EVERY_KIND_OF_OUTPUT)
def test_a_pipe_that_nobody_reads_ends_it_quietly(words):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "solver", *words.split()]
    run = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (run.returncode, run.stderr) == (141, "")


def test_map_prints_a_proven_mapping(capsys):
    assert main(["map", SPEC, "--objective", "energy"]) == 0
    text = re.sub(r"[\d,]+ tiles bounded, .*", "...", capsys.readouterr().out)
    assert_golden("row_map.txt", text)


@pytest.mark.parametrize("objective", ["energy", "latency", "edp", "latency,energy"])
def test_map_and_evaluate_agree(objective, tmp_path):
    found, priced, mapping = (tmp_path / name for name in ("found.json", "priced.json", "map.yaml"))
    words = [
        "map",
        SPEC,
        "--objective",
        objective,
        "--quiet",
        "--json",
        str(found),
        "--mapping",
        str(mapping),
    ]
    assert main(words) == 0
    assert main(["evaluate", SPEC, "--mapping", str(mapping), "--json", str(priced)]) == 0
    first, second = json.loads(found.read_text()), json.loads(priced.read_text())
    for key in ("energy_pj", "cycles", "edp_pj_cycles", "utilization", "levels", "mapping"):
        assert first[key] == second[key]
    values = {"energy": first["energy_pj"], "latency": first["cycles"], "edp": first["edp_pj_cycles"]}
    assert first["value"] == first["bound"] == values[first["objective"]]


@pytest.mark.parametrize("init", [False, True])
def test_a_folder_called_specs_hides_nothing_that_ships(init, tmp_path):
    """The working directory comes first on the path, as in a notebook."""
    (tmp_path / "specs").mkdir()
    if init:
        (tmp_path / "specs" / "__init__.py").touch()
    shipped = REPOSITORY / "specs"
    specs = (shipped / "architectures" / "simba_like.yaml", shipped / "layers/resnet18/21_fc.yaml")
    layer = ["check", *map(str, specs)]
    tiles = ["tile", "--operator", "eltwise", "--input", "2,16", "--backend", "smv"]
    code = f"from solver.cli.main import main; print([main(words) for words in ({layer}, {tiles})])"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout.splitlines()[-1], run.stderr) == ("[0, 0]", "")
