"""Unforeseen errors: one line, and a distinct exit code."""

import pytest

from solver.__main__ import TRACEBACK, main
from solver.exit_codes import EXIT_DEFECT
from solver.result import ContradictionError


@pytest.fixture
def fails(monkeypatch):
    def install(error):
        def broken(_):
            raise error

        monkeypatch.setattr("solver.cli.main.parse_arguments", broken)

    return install


@pytest.mark.parametrize("error", [RuntimeError("a defect"), ContradictionError("the proof is\nwr\u00f6ng")])
def test_defects_are_told_in_one_line(fails, capsys, error):
    fails(error)
    assert main([]) == EXIT_DEFECT
    told = capsys.readouterr().err
    assert told.startswith("error: internal error, please report it")
    assert type(error).__name__ in told
    assert told.count("\n") == 1
    assert told.isascii()


def test_tracebacks_are_there_for_those_who_ask(fails, capsys, monkeypatch):
    fails(RuntimeError("a defect"))
    monkeypatch.setenv(TRACEBACK, "1")
    assert main([]) == EXIT_DEFECT
    assert "Traceback" in capsys.readouterr().err


def import_error():
    """The error that numpy raises where its libraries do not fit."""
    try:
        raise ImportError("libstdc++.so.6: failed to map segment from shared object")
    except ImportError as cause:
        try:
            raise ImportError("IMPORTANT: PLEASE READ THIS") from cause
        except ImportError as error:
            return error


@pytest.mark.parametrize("error", [MemoryError(), import_error()])
def test_a_lack_of_memory_is_no_defect(error, fails, capsys):
    fails(error)
    assert main([]) == EXIT_DEFECT
    assert capsys.readouterr().err.startswith("error: there is not enough memory")


def test_what_ends_the_program_is_left_alone(fails):
    fails(SystemExit(7))
    with pytest.raises(SystemExit):
        main([])
