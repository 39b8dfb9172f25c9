"""Reports look alike on a terminal and in a pipe, but for colours."""

import io

import pytest
from rich.text import Text

from solver.cli.console import report_console
from solver.report.tables import plain_table


class Stream(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal


def printed(monkeypatch, is_terminal):
    stream = Stream(is_terminal)
    monkeypatch.setattr("sys.stdout", stream)
    table = plain_table("Level", "[bold]Kept :smile:")
    table.add_row("x" * 300, "")
    with report_console() as console:
        console.print(table)
        console.print(Text("OPTIMAL", style="bold green"))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("variables", "status"),
    [
        ({"TERM": "xterm"}, "\x1b[1;32mOPTIMAL\x1b[0m"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "\x1b[1mOPTIMAL\x1b[0m"),
        ({"TERM": "dumb"}, "OPTIMAL"),
    ],
)
def test_a_terminal_shows_colours_if_it_can(variables, status, monkeypatch):
    for name in ("NO_COLOR", "COLORTERM", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert printed(monkeypatch, is_terminal=True).endswith(f"{status}\n")


@pytest.mark.parametrize("terminal", ["dumb", "unknown", "xterm"])
def test_a_terminal_gets_text_that_is_not_cut_off(terminal, monkeypatch):
    monkeypatch.setenv("TERM", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    assert "x" * 300 in printed(monkeypatch, is_terminal=True)


def test_a_pipe_gets_plain_text_that_is_not_cut_off(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    head, rule, row, status = printed(monkeypatch, is_terminal=False).splitlines()
    assert head.endswith("[bold]Kept :smile:")
    assert set(rule) == {"─"}
    assert row == "x" * 300
    assert status == "OPTIMAL"
