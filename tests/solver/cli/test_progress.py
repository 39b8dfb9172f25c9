"""The status line: what it says, and that only a terminal sees it."""

import io

from solver.cli import progress
from solver.cli.progress import StatusLine, live_progress, status_text
from solver.result import Phase, Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_line_before_the_first_report():
    assert status_text(None, 0.5, 1) == "starting  0.50 s"


def test_line_with_and_without_an_incumbent():
    early = Progress(Phase.LATTICE, 0.1, "latency", bound=1200)
    late = Progress(Phase.BRANCHING, 0.9, "energy", 2_000_000, 1_500_000, label="greedy")
    assert status_text(early, 0.2, 1000) == "lattice  incumbent -  bound 1,200 cycles  gap -  0.20 s"
    assert (
        status_text(late, 1, 1000)
        == "greedy branching  incumbent 2.0000 nJ  bound 1.5000 nJ  gap 25.00 %  1.00 s"
    )


def test_the_line_shows_the_latest_report():
    line = StatusLine(1)
    line.update(Progress(Phase.SURVEY, 0.0, "latency"))
    line.update(Progress(Phase.LATTICE, 0.0, "latency"))
    assert line.__rich__().startswith("lattice  ")


def test_nothing_when_piped_or_quiet(monkeypatch):
    monkeypatch.setattr(progress.sys, "stderr", io.StringIO())
    with live_progress(1, quiet=False) as callback:
        assert callback is None
    monkeypatch.setattr(progress.sys, "stderr", Terminal())
    with live_progress(1, quiet=True) as callback:
        assert callback is None


def test_a_terminal_sees_it(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with live_progress(1000, quiet=False) as callback:
        callback(Progress(Phase.LATTICE, 0.1, "latency", bound=1200))
    assert "1,200 cycles" in terminal.getvalue()
