"""The scripted proofs of the shipped layers."""

import subprocess
import sys

import pytest

from tests.solver.certificate.checker import SCRIPTS, prove

sys.path.insert(0, str(SCRIPTS))

import prove_suite


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


SMALL = """
problem:
  shape:
    name: product
    dimensions: [M, K]
    data-spaces:
    - {name: A, projection: [[[M]], [[K]]]}
    - {name: B, projection: [[[K]]]}
    - {name: Z, projection: [[[M]]], read-write: true}
  instance: {M: 6, K: 4}
architecture:
  version: 0.4
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {width: 16, datawidth: 16}
    energy: {read: 100, write: 90, leak: 0}
  - !Component
    name: buffer
    class: SRAM
    attributes: {width: 16, depth: 12, datawidth: 16}
    energy: {read: 3, write: 4, update: 5, leak: 0}
  - !Component {name: mac, class: intmac, energy: 1}
"""


@pytest.mark.slow
def test_all_witnesses_agree_and_one_that_does_not_is_named(tmp_path, monkeypatch):
    spec = tmp_path / "small.yaml"
    spec.write_text(SMALL, encoding="utf-8")
    case = prove_suite.Case("small", [spec])
    row, result = prove_suite._row(case, "energy", prove.verdict, prove_suite.WITNESSES, 30)
    assert (result, row[5]) == ("VALID", "bounds, checker, cp-sat, enumeration")
    monkeypatch.setitem(prove_suite._ASKED, "cp-sat", lambda *_: float(row[2]) * 0.99)
    monkeypatch.setitem(prove_suite._ASKED, "enumeration", lambda *_: None)
    row, result = prove_suite._row(case, "energy", prove.verdict, prove_suite.WITNESSES, 30)
    assert (result, row[4:6]) == ("INVALID", ["INVALID: contradicted by cp-sat", "bounds, checker"])


def test_a_name_of_no_case_is_an_error():
    ended = run("--suite", "--only", "no such layer")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: no case's name contains 'no such layer'")


def test_a_safe_path_leaves_the_halves_of_the_checker_together(tmp_path):
    ended = run(str(tmp_path / "missing.json"), options=["-P"])
    assert (ended.returncode, ended.stderr) == (2, "")
    assert ended.stdout.startswith("UNREADABLE: ")
