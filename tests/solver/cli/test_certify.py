"""Certificates on the command line."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from solver.certificate.canonical import canonical_sha256
from solver.cli import certificates
from solver.cli.main import main
from tests.conftest import REPOSITORY
from tests.solver.examples import UNKNOWN

SPECS = REPOSITORY / "specs"
FILES = [
    str(SPECS / "architectures" / "output_stationary.yaml"),
    str(SPECS / "layers" / "resnet18" / "21_fc.yaml"),
    "--factors",
    "perfect",
]
"""And an option: these certificates are checked within a second."""


def test_prove_maps_certifies_and_checks(tmp_path, capfd):
    path = tmp_path / "certificate.json"
    words = ["--objective", "energy,latency", "--jobs", "1", "--quiet", "--certificate", str(path)]
    assert main(["prove", *FILES, *words]) == 0
    output = capfd.readouterr().out
    found = re.match(
        r"OPTIMAL by the optimizer in [\d.]+ s: energy ([\d.]+ .J), then latency ([\d,]+ cycles)\n", output
    )
    assert found is not None
    energy, latency = found.groups()
    assert f"VALID: {path}: no mapping is below energy {energy}, then latency {latency} (" in output
    document = json.loads(path.read_text())
    assert document["command"][3:] == ["map", *FILES, "--objective", "energy,latency"]


def test_the_command_has_a_memory_limit_of_its_own(tmp_path):
    path = tmp_path / "certificate.json"
    words = ["--objective", "energy", "--jobs", "1", "--memory-limit", "1000", "--quiet"]
    assert main(["map", *FILES, *words, "--certificate", str(path)]) == 0
    command = json.loads(path.read_text())["command"]
    assert command[3:] == ["map", *FILES, "--memory-limit", "1000", "--objective", "energy"]


def test_prove_finds_the_checker_on_a_safe_path(capfd, monkeypatch):
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    assert main(["prove", *FILES, "--objective", "energy", "--jobs", "1"]) == 0
    assert "VALID: " in capfd.readouterr().out


def test_prove_gives_a_check_up(capfd):
    assert main(["prove", *FILES, "--objective", "energy", "--jobs", "1", "--check-time-limit", "0"]) == 6
    assert "CANNOT CHECK: the time limit was reached" in capfd.readouterr().out


def test_a_certificate_may_be_named_like_an_option(working_directory, capfd):
    words = ["--objective", "energy", "--jobs", "1", "--certificate=-x.json", "--check-time-limit", "60"]
    assert main(["prove", *FILES, *words]) == 0
    assert "VALID: -x.json: no mapping is below energy " in capfd.readouterr().out


def test_certificates_that_there_are_are_only_checked(working_directory, capfd):
    words = ["--objective", "energy", "--jobs", "1", "--quiet"]
    assert main(["map", *FILES, *words, "--certificate", "good.json"]) == 0
    text = Path("good.json").read_text(encoding="utf-8")
    Path("bad.json").write_text(text.replace('"seed": 0', '"seed": 1'), encoding="utf-8")
    Path("sorted.json").write_text(json.dumps(json.loads(text), sort_keys=True), encoding="utf-8")
    assert main(["prove", "good.json", "--check-time-limit", "60"]) == 0
    assert main(["prove", "good.json", "bad.json", "sorted.json"]) == 1
    verdicts = [line.split(" ")[:2] for line in capfd.readouterr().out.splitlines()]
    assert verdicts[:2] == [["VALID:", "good.json:"], ["VALID:", "good.json:"]]
    assert verdicts[2:] == [["INVALID:", "bad.json:"], ["VALID:", "sorted.json:"]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["c.json", FILES[0]], "output_stationary.yaml is not a certificate; certificates are checked"),
        (["c.json", "--certificate", "x.json"], "certificates given as arguments are only checked"),
    ],
)
def test_certificates_are_checked_alone(working_directory, capfd, words, message):
    Path("c.json").write_text('{"format": "tilewright certificate 5"}', encoding="utf-8")
    assert main(["prove", *words]) == 2
    assert message in capfd.readouterr().err


def test_prove_names_no_file_that_is_gone(capfd):
    assert main(["prove", *FILES, "--objective", "energy", "--jobs", "1"]) == 0
    assert "VALID: no mapping is below energy " in capfd.readouterr().out


@pytest.mark.parametrize("name", ["ü.json", "\udcff.json"])
def test_certificates_may_have_any_name(name, tmp_path):
    program = [sys.executable, "-m", "solver", "prove", *FILES, "--objective", "energy", "--jobs", "1"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    words = [*program, "--certificate", str(tmp_path / name)]
    run = subprocess.run(words, env=environment, cwd=REPOSITORY, capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"VALID: " in run.stdout


SLOW_CHECKER = """
import os, pathlib, sys, time
written = pathlib.Path(sys.argv[-1] + ".new")
written.write_text(str(os.getpid()))
written.rename(sys.argv[-1])
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_check_and_the_checker(number, tmp_path, monkeypatch):
    (tmp_path / "checker.py").write_text(SLOW_CHECKER, encoding="utf-8")
    monkeypatch.setattr(certificates, "checker_path", lambda: tmp_path / "checker.py")
    begun = tmp_path / "begun"

    def interrupt_once_it_runs():
        while not begun.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    watcher = threading.Thread(target=interrupt_once_it_runs)
    watcher.start()
    with pytest.raises(KeyboardInterrupt):
        certificates.checked([begun], None)
    watcher.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


def test_the_checker_ends_with_a_parent_that_is_killed(tmp_path):
    (tmp_path / "checker.py").write_text(SLOW_CHECKER, encoding="utf-8")
    code = (
        "import sys; from pathlib import Path; from solver.cli import certificates; "
        "certificates.checker_path = lambda: Path(sys.argv[1]); "
        "certificates.checked([Path(sys.argv[2])], None)"
    )
    begun = tmp_path / "begun"
    words = [sys.executable, "-c", code, str(tmp_path / "checker.py"), str(begun)]
    with subprocess.Popen(words, cwd=REPOSITORY) as parent:
        wait_until(begun.exists)
        parent.kill()
    checker = int(begun.read_text())
    wait_until(lambda: has_ended(checker))


def wait_until(happens):
    while not happens():
        time.sleep(0.01)


def has_ended(process):
    """Whether a process of another parent has ended; where none collects it, its state is left."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        pass
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_signals_of_the_terminal_do_not_reach_the_checker(tmp_path, monkeypatch):
    (tmp_path / "checker.py").write_text("import os; print(os.getsid(0))", encoding="utf-8")
    monkeypatch.setattr(certificates, "checker_path", lambda: tmp_path / "checker.py")
    assert int(certificates.checked([tmp_path], None)[1]) != os.getsid(0)


def test_a_checker_that_is_killed_has_checked_nothing(tmp_path, monkeypatch):
    (tmp_path / "checker.py").write_text("import os; os.kill(os.getpid(), 9)", encoding="utf-8")
    monkeypatch.setattr(certificates, "checker_path", lambda: tmp_path / "checker.py")
    code, printed = certificates.checked([tmp_path / "c.json"], None)
    assert code == 6
    assert printed == f"CANNOT CHECK: {tmp_path / 'c.json'}: the checker was ended by signal 9\n"


def test_a_checker_without_a_verdict_has_checked_nothing(tmp_path, monkeypatch):
    (tmp_path / "checker.py").write_text("import sys; sys.exit(1)", encoding="utf-8")
    monkeypatch.setattr(certificates, "checker_path", lambda: tmp_path / "checker.py")
    code, printed = certificates.checked([tmp_path / "c.json"], None)
    assert (code, printed) == (
        6,
        f"CANNOT CHECK: {tmp_path / 'c.json'}: the checker ended without a verdict\n",
    )


@pytest.mark.parametrize(
    ("printed", "code"), [("INVALID: this claim fails", 1), ("UNREADABLE: gone", 2), ("CANNOT CHECK: it", 6)]
)
def test_prove_exits_as_the_checker_does(printed, code, tmp_path, monkeypatch, capfd):
    text = f"import sys; print({printed!r}); sys.exit({code})"
    (tmp_path / "checker.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(certificates, "checker_path", lambda: tmp_path / "checker.py")
    assert main(["prove", *FILES, "--objective", "energy", "--jobs", "1"]) == code
    assert printed in capfd.readouterr().out


def test_prove_says_why_nothing_fits(tmp_path, capfd):
    row = (Path(__file__).parent / "data" / "row.yaml").read_text(encoding="utf-8")
    spec = tmp_path / "tight.yaml"
    spec.write_text(row.replace("depth: 64", "depth: 64, min_utilization: 1"), encoding="utf-8")
    main(["prove", str(spec), "--jobs", "1", "--factors", "perfect"])
    output = capfd.readouterr().out
    assert output.startswith("Conflict: ")
    assert "INFEASIBLE by the optimizer in " in output


def test_the_command_of_a_certificate_reproduces_it(tmp_path):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    reading = [
        "--objective",
        "edp",
        "--limit",
        "nodes=9000",
        "--set",
        "a=1",
        "--allow-include",
        str(tmp_path),
        "--ignore-sparse",
        "--timeloop-padding",
    ]
    assert main(["map", *FILES, *reading, "--quiet", "--certificate", str(first)]) == 0
    document = json.loads(first.read_text())
    assert set(reading) <= set(document["command"])
    assert main([*document["command"][3:], "--quiet", "--certificate", str(second)]) == 0
    again = json.loads(second.read_text())
    for key in ("problem_sha256", "cost", "bounds", "spatial_choices", "command"):
        assert again[key] == document[key]
    assert document["problem_sha256"] == canonical_sha256(document["problem"])


@pytest.mark.parametrize("command", ["map", "prove"])
def test_nothing_is_certified_where_nothing_is_known(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("solver.stages.map_einsum", lambda *_: UNKNOWN)
    path = tmp_path / "certificate.json"
    assert main([command, *FILES, "--quiet", "--certificate", str(path)]) == 5
    assert "no certificate is written" in capsys.readouterr().err
    assert not path.exists()


def test_a_pipe_is_no_file_for_the_checker(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    for name in (str(tmp_path / "pipe"), "/dev/null"):
        assert main(["prove", *FILES, "--certificate", name]) == 2
        assert "--certificate must name a file" in capsys.readouterr().err


def test_the_name_of_a_certificate_moves_no_cursor(tmp_path, capfd):
    path = tmp_path / "c\x1b[2J.json"
    words = ["--objective", "energy", "--jobs", "1", "--certificate", str(path)]
    assert main(["prove", *FILES, *words]) == 0
    output = capfd.readouterr().out
    assert "\x1b" not in output
    assert "[2J.json: no mapping is below energy " in output
    assert path.exists()


def test_prove_needs_a_file(capsys):
    assert main(["prove", *FILES, "--certificate", "-"]) == 2
    assert "must name a file" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["map", "check"])
def test_outputs_are_not_specs(command, tmp_path, capsys):
    certificate, result = str(tmp_path / "proof.json"), str(tmp_path / "result.json")
    words = [
        "--objective",
        "energy",
        "--jobs",
        "1",
        "--quiet",
        "--certificate",
        certificate,
        "--json",
        result,
    ]
    assert main(["map", *FILES, *words]) == 0
    capsys.readouterr()
    assert main([command, certificate]) == 2
    message = (
        f"error: {certificate} is a certificate, not a spec\nhelp: `python -m solver prove {certificate}`"
    )
    assert capsys.readouterr().err.startswith(message)
    assert main([command, FILES[0], result]) == 2
    assert capsys.readouterr().err.startswith(f"error: {result} is a result that --json wrote, not a spec\n")
