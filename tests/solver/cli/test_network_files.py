"""Certificates and mappings of whole networks, and the check of the certificates."""

import json
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from solver.cli import certificates
from solver.cli.layer_files import file_names
from solver.cli.main import main
from solver.stages import map_einsum
from tests.small_network import ARCHITECTURE, write_specs


@pytest.fixture
def arguments(working_directory: Path) -> list[str]:
    write_specs()
    return ["network", "w.yaml", "a.yaml", "--cache", "cache", "--jobs", "1", "--objective", "energy,latency"]


def files(directory: str) -> list[str]:
    return sorted(path.name for path in Path(directory).iterdir())


def test_each_problem_has_a_certificate_that_is_checked(arguments, capfd):
    assert main([*arguments, "--certificates", "proofs/w", "--check"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert files("proofs/w") == ["T.json", "Z.json"]
    assert lines[-1] == "2 of 2 certificates are VALID"
    assert lines[-3].startswith("VALID: T: no mapping is below energy ")
    assert lines[-2].startswith("VALID: Z: no mapping is below energy ")
    document = json.loads(Path("proofs/w/T.json").read_text(encoding="utf-8"))
    assert document["problem"]["dims"] == ["m", "k", "n"]
    assert document["command"][3:6] == ["network", "w.yaml", "a.yaml"]


def test_answers_that_were_kept_are_certified_alike(arguments, capfd):
    main([*arguments, "--certificates", "first"])
    assert main([*arguments, "--certificates", "second", "--check", "--resume"]) == 0
    assert "2 of 2 certificates are VALID" in capfd.readouterr().out
    for name in ("T.json", "Z.json"):
        assert Path("first", name).read_text() == Path("second", name).read_text()


def test_answers_of_processes_are_certified(arguments, capfd):
    words = [word if word != "1" else "2" for word in arguments]
    assert main([*words, "--check"]) == 0
    assert "2 of 2 certificates are VALID" in capfd.readouterr().out


def test_every_einsum_has_its_mapping(arguments, capsys):
    assert main([*arguments, "--mappings", "maps", "--json", "result.json"]) == 0
    assert files("maps") == ["T.yaml", "Y.yaml", "Z.yaml"]
    layers = json.loads(Path("result.json").read_text(encoding="utf-8"))["layers"]
    for layer in layers[1:]:
        text = Path("maps", f"{layer['name']}.yaml").read_text(encoding="utf-8")
        assert yaml.safe_load(text)["mapping"] == layer["result"]["mapping"]
    assert capsys.readouterr().err == ""


def test_a_verdict_against_a_certificate_names_its_einsum(arguments, capfd, tmp_path, monkeypatch):
    checker = "import sys\nfor path in sys.argv[2:]:\n    print(f'INVALID: {path}: no')\nsys.exit(1)\n"
    (tmp_path / "checker.py").write_text(checker, encoding="utf-8")
    monkeypatch.setattr(certificates, "checker_path", lambda: tmp_path / "checker.py")
    assert main([*arguments, "--check"]) == 1
    assert capfd.readouterr().out.endswith("INVALID: T: no\nINVALID: Z: no\n0 of 2 certificates are VALID\n")


def test_a_quiet_check_speaks_by_its_exit_code(arguments, capfd):
    assert main([*arguments, "--check", "--check-time-limit", "0", "--quiet"]) == 6
    assert capfd.readouterr().out == ""


def test_that_nothing_fits_is_certified(arguments, capfd):
    tight = ARCHITECTURE.replace("keep: [input], bypass: [weight]", "keep: [All]")
    Path("a.yaml").write_text(tight.replace("depth: 12", "depth: 1"), encoding="utf-8")
    assert main([*arguments, "--check", "--mappings", "maps"]) == 4
    output = capfd.readouterr()
    assert "VALID: T: no mapping exists (" in output.out
    assert "note: no mapping of Z is written: none was found" in output.err
    assert files("maps") == []


def test_what_proves_nothing_has_no_certificate(arguments, capfd):
    wide = "  - Z[m, l] = T[m, n, p, q, r] * V[n, l]\n"
    Path("w.yaml").write_text(
        "workload:\n  rank_sizes: {M: 4, N: 4, L: 2, P: 2097152, Q: 2097152, R: 2097152}\n"
        f"  bits_per_value: {{All: 8}}\n  einsums:\n{wide}"
        "renames: {einsums: [{name: default, tensor_accesses: {input: T, weight: V}}]}\n",
        encoding="utf-8",
    )
    assert main([*arguments, "--certificates", "proofs", "--check"]) == 5
    output = capfd.readouterr()
    assert "note: no certificate of Z is written: nothing is proven" in output.err
    assert output.out.endswith("No certificate to check\n")
    assert files("proofs") == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--certificates", "."], "cannot write to .: it contains inputs"),
        (["--mappings", "../{here}"], "it contains inputs; choose another directory"),
        (["--certificates", "w.yaml/x"], "cannot write to w.yaml/x: "),
        (["--check-time-limit", "1"], "it needs --check"),
    ],
)
def test_directories_and_options_are_looked_at_before_the_search(arguments, capsys, words, message):
    words = [word.replace("{here}", Path.cwd().name) for word in words]
    assert main([*arguments, *words]) == 2
    assert message in capsys.readouterr().err
    assert not Path("cache").exists()


def test_an_interrupted_run_checks_nothing(arguments, capsys, monkeypatch):
    """The first search is stopped; what is known by then is written."""
    stop = threading.Event()

    def interrupted(mapspace, options, on_progress, should_stop, **_):
        stop.set()
        return map_einsum(mapspace, options)

    monkeypatch.setattr("solver.cli.searches.interruptible", lambda: nullcontext(stop))
    monkeypatch.setattr("solver.stages.map_einsum", interrupted)
    monkeypatch.setattr("solver.cli.layer_files.checked", pytest.fail)
    assert main([*arguments, "--quiet", "--check", "--certificates", "proofs"]) == 6
    assert "note: interrupted: certificates are not checked" in capsys.readouterr().err
    assert len(list(Path("proofs").iterdir())) == 2


def test_names_of_files_differ_and_are_plain():
    names = ["conv1", "Conv1", "a/b", "a b", "../..", "", "\u00fc.1", "x" * 300, "a_b_2"]
    found = list(file_names(names))
    assert found == [
        "conv1",
        "Conv1_2",
        "a_b",
        "a_b_2",
        "einsum",
        "einsum_2",
        "\u00fc.1",
        "x" * 100,
        "a_b_2_2",
    ]


def test_files_that_fail_are_all_reported(arguments, capfd):
    Path("maps").mkdir()
    Path("proofs").mkdir()
    for name in ("maps/T.yaml", "proofs/Z.json"):
        Path(name).mkdir()
    assert main([*arguments, "--mappings", "maps", "--certificates", "proofs"]) == 2
    errors = capfd.readouterr().err
    assert errors.count("error: cannot write ") == 2
    assert files("maps") == ["T.yaml", "Y.yaml", "Z.yaml"]
    assert files("proofs") == ["T.json", "Z.json"]
