"""The command ``network``: reports, JSON, exit codes, and runs that are killed."""

import errno
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from solver.cli.main import main
from tests.conftest import REPOSITORY
from tests.small_network import ARCHITECTURE, WORKLOAD, write_specs

SPECS = REPOSITORY / "specs"


@pytest.fixture
def arguments(working_directory: Path) -> list[str]:
    write_specs()
    return ["network", "w.yaml", "a.yaml", "--cache", "cache", "--jobs", "1"]


def without_work(document: dict) -> dict:
    """The document without what depends on the run: times, work, and where answers come from."""
    layers = [
        {
            **layer,
            "origin": None,
            "result": layer["result"] and {**layer["result"], "seconds": 0, "statistics": 0},
        }
        for layer in document["layers"]
    ]
    return {**document, "seconds": 0, "layers": layers, "run": 0}


def test_the_report(arguments, capsys):
    assert main([*arguments, "--objective", "energy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["", "Network w"]
    assert lines[4].startswith("Einsum")
    assert lines[4].rstrip().endswith("From")
    rows = {line.split()[0]: line for line in lines[6:10]}
    assert "nothing moves" in rows["A"]
    assert rows["A"].rstrip().endswith("copy")
    assert "m 4, k 6, n 4" in rows["T"]
    assert rows["Y"].rstrip().endswith("= T")
    assert "OPTIMAL 4 of 4 Einsums proven" in lines[0]
    assert any(line.split() == ["Proven", "4/4", "100.00", "%"] for line in lines)


def test_json_to_stdout(arguments, capsys):
    assert main([*arguments, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "OPTIMAL"
    assert [layer["origin"] for layer in document["layers"]] == ["copy", "searched", "searched", "identical"]
    energies = [layer["n_instances"] * layer["result"]["energy_pj"] for layer in document["layers"][1:]]
    assert sum(energies) == pytest.approx(document["energy_pj"])
    assert document["edp_pj_cycles"] == pytest.approx(document["energy_pj"] * document["cycles"])
    assert document["layers"][3]["same_as"] == "T"
    targets = document["layers"][3]["result"]["mapping"]
    assert any("j" in str(target.get("factors", "")) for target in targets)


def test_resume_takes_what_is_kept(arguments, capsys):
    main([*arguments, "--quiet"])
    assert capsys.readouterr().out == ""
    main([*arguments, "--json", "-", "--resume"])
    document = json.loads(capsys.readouterr().out)
    assert [layer["origin"] for layer in document["layers"]] == ["copy", "cached", "cached", "identical"]


def test_a_run_that_is_killed_loses_nothing(arguments, tmp_path):
    """Kill the program whenever another answer was kept: the last run says what an undisturbed one says."""
    names = [f"layers/resnet18/{name}.yaml" for name in ("01_conv1", "21_fc")]
    specs = [str(SPECS / name) for name in (*names, "architectures/eyeriss_like.yaml")]
    quick = ["--factors", "perfect", "--resume", "--jobs", "1", "--quiet"]
    command = [sys.executable, "-m", "solver", "network", *specs, *quick]
    cache = tmp_path / "killed"
    kills = 0
    while True:
        before = len(list(cache.glob("*.json"))) if cache.exists() else 0
        run = subprocess.Popen([*command, "--cache", str(cache), "--json", "killed.json"], cwd=tmp_path)
        while run.poll() is None and (not cache.exists() or len(list(cache.glob("*.json"))) == before):
            time.sleep(0.005)
        if run.poll() is not None:
            break
        run.kill()
        run.wait()
        kills += 1
    assert kills == 2
    assert run.returncode == 0
    done = subprocess.run(
        [*command, "--cache", "undisturbed", "--json", "whole.json"], cwd=tmp_path, check=True
    )
    assert done.returncode == 0
    killed, whole = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("killed", "whole"))
    assert without_work(killed) == without_work(whole)
    assert [layer["origin"] for layer in killed["layers"]] == ["cached"] * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"w.yaml": "workload: {}\n"}, "is missing the key `einsums`"),
        ({"w.yaml": WORKLOAD.replace("weight: Inputs", "weigth: Inputs")}, "`weight` is not a tensor"),
        ({"w.yaml": WORKLOAD.replace("{M: 4", "{M: {{M}}")}, "--set M=VALUE"),
        (
            {
                "w.yaml": WORKLOAD[: WORKLOAD.index("renames:")],
                "a.yaml": ARCHITECTURE.replace("keep: [input], bypass: [weight]", "keep: [Weights]"),
            },
            "means the rename `weight`",
        ),
        ({"a.yaml": "variables: {}\n"}, "no architecture is given"),
        ({"a.yaml": "zzqx: {}\n"}, "unknown top-level key `zzqx`\n --> a.yaml:1:1"),
        ({"w.yaml": WORKLOAD.replace("workload:", "worklaod:")}, "did you mean `workload`?"),
        ({"a.yaml": "arch: {nodes: []}\n"}, "`arch` has no `!Memory`"),
        ({"w.yaml": f"{WORKLOAD}problem: {{}}\n"}, "one network at a time: this file has a `problem`"),
    ],
)
def test_errors_of_users_take_one_message_and_exit_code_2(arguments, capsys, changes, message):
    for name, text in changes.items():
        Path(name).write_text(text, encoding="utf-8")
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert "Traceback" not in output.err


def test_a_cache_that_cannot_be_written(arguments, capsys):
    Path("cache").write_text("", encoding="utf-8")
    assert main(arguments) == 2
    assert "cannot cache results in cache" in capsys.readouterr().err


def test_a_cluster_that_does_not_answer(arguments, capsys, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("solver.network.executors.CONNECT_S", 1)
    assert main([*arguments, "--cluster", "tcp://127.0.0.1:1"]) == 2
    assert "no Dask scheduler answers" in capsys.readouterr().err


def test_processes_print_what_one_process_prints(arguments, capsys):
    main([*arguments, "--json", "-"])
    alone = json.loads(capsys.readouterr().out)
    main([*arguments[:-1], "2", "--json", "-"])
    assert without_work(json.loads(capsys.readouterr().out)) == without_work(alone)


def test_an_infeasible_einsum(arguments, capsys):
    Path("a.yaml").write_text(
        ARCHITECTURE.replace("bypass: [weight]", "keep: [weight]")
        .replace("keep: [input], ", "")
        .replace("depth: 12", "depth: 1, min_utilization: 1")
        .replace("width: 16", "width: 56"),
        encoding="utf-8",
    )
    assert main(arguments) == 4
    text = capsys.readouterr().out
    assert "no mapping of `Z` satisfies the constraints" in text
    conflict = "the tiles in `buffer` total at most 6 words, min_utilization requires 7: 1 too few"
    assert f"\n\nNo mapping of `Z`\nConflict: {conflict}\n" in text
    assert "  --> a.yaml:12:50\n" in text
    assert "^" in text
    for further in (["--resume"], ["--jobs", "2"]):
        assert main([*arguments, *further]) == 4
        assert text[text.index("No mapping") :] in capsys.readouterr().out
    assert main([*arguments, "--json", "-"]) == 4
    reasons = {
        layer["name"]: layer["result"]["reasons"]
        for layer in json.loads(capsys.readouterr().out)["layers"]
        if layer["result"]
    }
    assert reasons["T"] == reasons["Y"] == []
    (reason,) = reasons["Z"]
    assert reason["irreducible"]
    assert reason["sources"][0] == "a.yaml:12:50"


def test_the_reasons_are_those_of_map(tmp_path, capsys):
    files = [str(SPECS / "architectures/eyeriss_like.yaml"), str(SPECS / "layers/resnet18/21_fc.yaml")]
    impossible = tmp_path / "impossible.yaml"
    text = Path(files[0]).read_text(encoding="utf-8")
    impossible.write_text(
        text.replace("depth: 24\n", "depth: 24\n            min_utilization: 1\n"), encoding="utf-8"
    )
    words = [str(impossible), files[1], "--factors", "perfect"]
    assert main(["map", *words]) == 4
    own = capsys.readouterr().out
    assert main(["network", *words, "--cache", str(tmp_path / "cache"), "--jobs", "1"]) == 4
    assert own[own.index("Conflict") : own.index("INFEASIBLE")] in capsys.readouterr().out


def test_a_factor_that_one_layer_cannot_have_leaves_the_others(tmp_path, capsys):
    architecture = tmp_path / "eight.yaml"
    text = (SPECS / "architectures" / "eyeriss_like.yaml").read_text(encoding="utf-8")
    lines = text.replace("factors: {S: 1, P", "factors: {K: 8, S: 1, P")
    assert lines != text
    architecture.write_text(lines, encoding="utf-8")
    layers = []
    for name, rows in (("wide", 8), ("narrow", 1)):
        instance = f"{{C: 2, K: {rows}, R: 1, S: 1, N: 1, P: 2, Q: 2}}"
        layers.append(tmp_path / f"{name}.yaml")
        layers[-1].write_text(f"problem: {{shape: cnn-layer, instance: {instance}}}\n", encoding="utf-8")
    words = [*map(str, (architecture, *layers)), "--cache", str(tmp_path / "cache")]
    assert main(["network", *words, "--json", "-"]) == 4
    found = {own["name"]: own["result"]["status"] for own in json.loads(capsys.readouterr().out)["layers"]}
    assert found == {"wide": "OPTIMAL", "narrow": "INFEASIBLE"}


def test_values_wider_than_a_row_are_named_as_the_cause(tmp_path, capsys):
    text = (
        "workload:\n  rank_sizes: {M: 8, N: 8, K: 8}\n  bits_per_value: {All: 16}\n"
        "  einsums:\n  - einsum: Z[m, n] = A[m, k] * W[k, n]\n    renames: {weight: W, input: A, output: Z}\n"
    )
    (tmp_path / "w.yaml").write_text(text, encoding="utf-8")
    words = [str(tmp_path / "w.yaml"), str(SPECS / "architectures" / "tpu_like.yaml")]
    assert main(["network", *words, "--cache", str(tmp_path / "cache")]) == 4
    cause = "W needs at least 1 word, `weight_register` holds 0, as a word of 16 bits takes 2 rows"
    assert f"Conflict: {cause}: 1 too few" in capsys.readouterr().out


def test_identical_einsums_that_nothing_fits_are_explained_once(arguments, capsys):
    tight = ARCHITECTURE.replace("keep: [input], bypass: [weight]", "keep: [All]")
    Path("a.yaml").write_text(tight.replace("depth: 12", "depth: 1"), encoding="utf-8")
    assert main(arguments) == 4
    text = capsys.readouterr().out
    assert "No mapping of `T` and `Y`\nConflict" in text
    assert text.count("Conflict") == text.count("Likewise `Z`\n") == 1


def test_a_time_limit_leaves_einsums_unproven(arguments, capsys):
    specs = [str(SPECS / "layers/vgg16/08_conv4_1.yaml"), str(SPECS / "architectures/free_three_level.yaml")]
    code = main(["network", *specs, "--cache", "cache", "--jobs", "1", "--time-limit", "0"])
    assert code in (3, 5)
    assert "0 of 1 Einsums proven" in capsys.readouterr().out


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_layer_too_large_for_a_search_leaves_the_others(arguments, capsys, jobs):
    huge = "  - T[m, n] = A[m, k] * W[n, k, p, q, r]\n"
    Path("w.yaml").write_text(
        "workload:\n  rank_sizes: {M: 4, K: 6, N: 4, L: 2, P: 2097152, Q: 2097152, R: 2097152}\n"
        f"  bits_per_value: {{All: 8}}\n  einsums:\n{huge}  - Z[m, l] = T[m, n] * V[n, l]\n"
        "renames: {einsums: [{name: default, tensor_accesses: {input: A | T, weight: V}}]}\n",
        encoding="utf-8",
    )
    assert main([*arguments[:-1], jobs]) == 5
    assert "UNKNOWN 1 of 2 Einsums proven; too large for a search: `T`" in capsys.readouterr().out
    assert main(["sweep", *arguments[1:]]) == 5
    assert "too large for a search: `T`" in capsys.readouterr().out


def test_networks_of_both_forms_agree(tmp_path, capsys):
    """A layer of ResNet-18 as a workload and as Timeloop's problem has one optimum."""
    layer = str(SPECS / "layers/resnet18/18_conv5_block1_shortcut.yaml")
    eyeriss = str(SPECS / "architectures/eyeriss_like.yaml")
    options = ["--factors", "perfect", "--cache", str(tmp_path), "--jobs", "1", "--json", "-"]
    main(["network", layer, eyeriss, *options])
    alone = json.loads(capsys.readouterr().out)
    text = (SPECS / "workloads/resnet18.yaml").read_text(encoding="utf-8")
    lines = [
        line for line in text.splitlines() if not line.startswith('  ["') or "conv5_block1_shortcut" in line
    ]
    one = tmp_path / "one.yaml"
    one.write_text("\n".join(lines), encoding="utf-8")
    main(["network", str(one), eyeriss, *options, "--set", "BITS=16"])
    own = json.loads(capsys.readouterr().out)
    assert len(own["layers"]) == 1
    assert (own["energy_pj"], own["cycles"]) == (alone["energy_pj"], alone["cycles"])


def test_results_are_kept_in_the_users_cache(arguments, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "mine")
    assert main([*arguments[:3], "--quiet"]) == 0
    assert len(list(Path("mine/tilewright").glob("*.json"))) == 2


def test_a_user_without_a_home_gets_a_warning(arguments, capsys, monkeypatch):
    def homeless(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", homeless)
    assert main([*arguments[:3], "--quiet"]) == 0
    message = (
        "warning: there is no home directory to cache results in; --cache DIR selects another directory\n"
    )
    assert capsys.readouterr().err == message
    assert main([*arguments, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["network", "sweep"])
def test_a_default_cache_that_cannot_be_written_is_a_warning(arguments, capsys, monkeypatch, command):
    Path("file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", "file")
    assert main([command, *arguments[1:3], "--quiet", "--resume"]) == 0
    message = "warning: cannot cache results in file/tilewright: Not a directory; --cache DIR selects another"
    assert capsys.readouterr().err.startswith(message)
    assert main([command, *arguments[1:3], "--quiet", "--cache", "file"]) == 2


def test_no_results_are_kept_without_a_cache(arguments, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "mine")
    assert main([*arguments[:3], "--quiet", "--no-cache"]) == 0
    assert not Path("mine").exists()
    assert main([*arguments[:3], "--no-cache", "--resume"]) == 2
    assert "--resume uses cached results and cannot be combined with --no-cache" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*arguments, "--no-cache"])


def test_a_cache_that_is_full_takes_no_answer_away(arguments, capsys, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert main([*arguments, "--json", "-"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["status"] == "OPTIMAL"
    message = "cannot cache results in cache: No space left on device; --cache DIR selects another directory"
    assert output.err == f"warning: {message}\n"
    assert [path.name for path in Path("cache").iterdir()] == [".key"]


def test_processes_that_cannot_be_started(arguments, capsys, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.submit", refuse)
    assert main([*arguments[:-1], "2"]) == 2
    assert capsys.readouterr().err == (
        "error: processes cannot be started: Resource temporarily unavailable\n"
    )


@pytest.mark.parametrize("name", ["x" * 300, f"{'x' * 300}.onnx"])
def test_a_name_that_no_file_can_have(arguments, capsys, name):
    pytest.importorskip("onnx")
    for words in (["network", name, "a.yaml"], ["sweep", "a.yaml", "--workloads", name]):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert "cannot read" in error
        assert "File name too long" in error


def test_one_unrolling_for_all_layers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    specs = [str(REPOSITORY / "specs/architectures/output_stationary.yaml")]
    specs += [
        str(REPOSITORY / f"specs/layers/resnet18/{name}.yaml")
        for name in ("18_conv5_block1_shortcut", "21_fc")
    ]
    words = ["network", "--same", "spatial", *specs, "--objective", "energy", "--factors", "perfect"]
    assert main([*words, "--quiet", "--no-cache", "--json", "same.json", "--mappings", "maps"]) == 0
    document = json.loads(Path("same.json").read_text(encoding="utf-8"))
    assert (document["kind"], document["status"], document["gap"]) == ("network-same", "OPTIMAL", 0)
    widths = {(own["fanout"], own["dimension"]): own["width"] for own in document["spatial"]}
    assert 1000 % widths["column", "K"] == 512 % widths["column", "K"] == 0
    assert document["value"] == pytest.approx(sum(own["energy_pj"] for own in document["common"]["layers"]))
    assert document["own_value"] == pytest.approx(sum(own["energy_pj"] for own in document["own"]["layers"]))
    assert len(list(Path("maps").iterdir())) == 2
    assert main([*words, "--no-cache", "--report", "page.html"]) == 0
    printed = capsys.readouterr().out
    assert "with one spatial unrolling" in printed.splitlines()[0]
    assert "Common spatial loops" in printed
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Common spatial loops" in page
    assert "Cost by Einsum" in page
    assert main(["report", "same.json", "--output", "again.html"]) == 0
    assert main([*words, "--fuse"]) == 2
    assert "--same" in capsys.readouterr().err
