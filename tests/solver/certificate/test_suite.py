"""The scripted proofs of the shipped layers."""

import subprocess
import sys

from tests.solver.certificate.checker import SCRIPTS


def run(*words, options=()):
    command = [sys.executable, *options, str(SCRIPTS / "prove.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def test_the_suite_maps_certifies_and_checks():
    ended = run("--suite", "--only", "tpu_like/resnet18/21_fc")
    assert ended.returncode == 0
    rows = [line.split() for line in ended.stdout.splitlines() if "21_fc" in line]
    assert [row[3] for row in rows] == ["energy", "edp"]
    assert all(row[5] == row[7] and row[9] == "VALID" for row in rows)
    assert ended.stdout.endswith("2 of 2 proofs are VALID\n")


def test_a_name_of_no_case_is_an_error():
    ended = run("--suite", "--only", "no such layer")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: no case's name contains 'no such layer'")


def test_a_safe_path_leaves_the_halves_of_the_checker_together(tmp_path):
    ended = run(str(tmp_path / "missing.json"), options=["-P"])
    assert (ended.returncode, ended.stderr) == (2, "")
    assert ended.stdout.startswith("UNREADABLE: ")
