"""The exit codes of the checker: the worst of several verdicts decides."""

import json
import runpy
import sys
from itertools import combinations, permutations
from types import SimpleNamespace

import pytest

from solver.exit_codes import EXIT_OPTIMAL, EXIT_UNCHECKED, EXIT_UNPROVEN
from tests.solver.certificate.checker import SCRIPTS, certified, digested, prove
from tests.solver.certificate.samples import feasible

WORST_FIRST = {"UNREADABLE": 2, "INVALID": 1, "CANNOT CHECK": 6, "VALID": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file for each verdict but that which no file has, named like it."""
    folder = tmp_path_factory.mktemp("certificates")
    valid = certified(feasible(0), "energy")
    large = json.loads(json.dumps(valid))
    large["problem"]["bounds"][0] = 2**60
    large["problem_sha256"] = prove.sha256(large["problem"])
    documents = {"VALID": valid, "INVALID": {**valid, "seed": 1}, "CANNOT CHECK": digested(large)}
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document), encoding="utf-8")
    return folder


def run(monkeypatch, *words, main=prove.main):
    monkeypatch.setattr(sys, "argv", ["prove.py", *map(str, words)])
    return main()


def script_main():
    """What `scripts/prove.py` starts."""
    return runpy.run_path(str(SCRIPTS / "prove.py"))["main"]


SEVERAL = [order for n in (1, 2) for own in combinations(WORST_FIRST, n) for order in permutations(own)]


@pytest.mark.parametrize("verdicts", [*SEVERAL, tuple(WORST_FIRST)], ids=" ".join)
def test_the_worst_verdict_counts(verdicts, folder, monkeypatch, capsys):
    code = run(monkeypatch, *(folder / name for name in verdicts))
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in printed] == [*verdicts]
    assert code == next(code for name, code in WORST_FIRST.items() if name in verdicts)


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [(set(), 0), ({"VALID"}, 0), ({"VALID", "CANNOT CHECK"}, 6), ({"CANNOT CHECK", "INVALID"}, 1)],
)
def test_a_suite_ends_likewise(verdicts, code, monkeypatch):
    monkeypatch.setitem(sys.modules, "prove_suite", SimpleNamespace(run_suite=lambda *_: verdicts))
    assert run(monkeypatch, "--suite", main=script_main()) == code


def test_a_certificate_or_the_suite_is_asked_for(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, main=script_main())
    assert "give a certificate, or --suite" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(monkeypatch)
    assert "give a certificate\n" in capsys.readouterr().err


def test_the_command_line_has_the_same_codes():
    named = {"INVALID": EXIT_UNPROVEN, "CANNOT CHECK": EXIT_UNCHECKED, "VALID": EXIT_OPTIMAL}
    assert prove.EXITS == WORST_FIRST
    assert named.items() <= prove.EXITS.items()
