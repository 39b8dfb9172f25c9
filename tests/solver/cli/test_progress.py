"""The status line: what it says, and that only a terminal sees it."""

import io
import time

from model.cascade import Layer
from solver.cli import progress, searches
from solver.cli.progress import StatusLine, live_progress, status_text
from solver.network.run import NetworkProgress
from solver.result import Phase, Progress
from tests.solver.examples import MAPSPACE


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_line_before_the_first_report():
    assert status_text(None, 0.5, 1) == "starting  0.50 s"


def test_line_with_and_without_an_incumbent():
    early = Progress(Phase.PATHS, 0.1, "latency", bound=1200)
    late = Progress(Phase.PATHS, 0.9, "energy", 2_000_000, 1_500_000, label="greedy")
    assert status_text(early, 0.2, 1000) == "paths  bound 1,200 cycles  0.20 s"
    assert (
        status_text(late, 1, 1000)
        == "greedy paths  incumbent 2.0000 nJ  bound 1.5000 nJ  gap 25.00 %  1.00 s"
    )


def test_an_explanation_has_no_incumbent():
    assert status_text(Progress(Phase.EXPLANATION, 0.1, "edp"), 3, 1000) == "explanation  3.00 s"


def test_the_line_shows_the_latest_report():
    line = StatusLine(1)
    line.update(Progress(Phase.SURVEY, 0.0, "latency"))
    line.update(Progress(Phase.PATHS, 0.0, "latency"))
    assert line.__rich__().startswith("paths  ")


def test_a_pipe_gets_a_line_from_time_to_time(monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(progress.sys, "stderr", stderr)
    monkeypatch.setattr(progress, "LOG_PERIOD_S", 3600)
    with live_progress(1000, quiet=False) as callback:
        callback(Progress(Phase.PATHS, 0.1, "latency", bound=1200))
    assert stderr.getvalue() == ""  # a short search
    monkeypatch.setattr(progress, "LOG_PERIOD_S", 0.01)
    with live_progress(1000, quiet=False) as callback:
        callback(Progress(Phase.PATHS, 0.1, "energy", 2_000_000, 1_500_000))
        while stderr.getvalue().count("gap 25.00 %") < 2:
            time.sleep(0.01)
    first, *_ = (line for line in stderr.getvalue().splitlines() if "incumbent" in line)
    assert first.startswith("progress: paths  incumbent 2.0000 nJ  bound 1.5000 nJ  gap 25.00 %  ")


def test_networks_say_how_many_searches_are_done(monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(progress.sys, "stderr", stderr)
    monkeypatch.setattr(progress, "LOG_PERIOD_S", 0.01)
    search = Progress(Phase.PATHS, 0.1, "latency", bound=1200)
    with searches._progress_bar(quiet=False) as callback:
        for own in (None, search):
            callback(NetworkProgress(3, 7, Layer("conv1", MAPSPACE), own))
            seen = "1,200 cycles" if own else "3/7  conv1"
            while seen not in stderr.getvalue():
                time.sleep(0.01)
    assert "progress: 3/7  conv1  paths  bound 1,200 cycles  0.10 s  elapsed " in stderr.getvalue()


def test_nothing_when_quiet(monkeypatch):
    monkeypatch.setattr(progress.sys, "stderr", Terminal())
    with live_progress(1, quiet=True) as callback:
        assert callback is None


def test_a_terminal_sees_it(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with live_progress(1000, quiet=False) as callback:
        callback(Progress(Phase.PATHS, 0.1, "latency", bound=1200))
    assert "1,200 cycles" in terminal.getvalue()
