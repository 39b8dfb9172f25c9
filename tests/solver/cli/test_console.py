"""Reports are the same on a terminal and in a pipe, except for colours."""

import io
import re

import pytest
from rich.text import Text

from solver.cli.output import report_console
from solver.report.console import plain_table


class Stream(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


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
def test_a_narrow_terminal_folds_text_and_cuts_nothing_off(terminal, monkeypatch):
    monkeypatch.setenv("TERM", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    lines = plain(printed(monkeypatch, is_terminal=True)).splitlines()
    assert max(map(len, lines)) <= 40
    assert "".join(lines).count("x") == 300


WIDE = plain_table("Layer", ">Value", ">Runs", ">Time", optional=("Runs", "Time"))
WIDE.add_row("a long name of a layer", "1,234,567 pJ", "1,234,567", "12.34 s")


@pytest.mark.parametrize(
    ("columns", "left_out"),
    [(60, None), (46, None), (44, "Time"), (40, "Time"), (30, "Runs, Time"), (5, "Runs, Time")],
)
def test_columns_shrink_and_are_left_out_but_figures_stay(columns, left_out, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout", stream := Stream(is_terminal=True))
    with report_console() as console:
        console.print(WIDE)
    text = plain(stream.getvalue())
    assert "1,234,567 pJ" in text
    assert " ".join(text.split()).count("layer") == 1
    table, _, note = text.partition("(columns")
    note = " ".join(note.split()).removeprefix("not shown: ")
    assert note == (f"{left_out}; --wide shows all)" if left_out else "")
    assert max(map(len, table.splitlines())) <= max(columns, 26)


def test_headings_are_broken_and_words_stay_whole_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "42")
    monkeypatch.setattr("sys.stdout", stream := Stream(is_terminal=False))
    table = plain_table("Layer", ">global_buffer.depth", ">Energy of all", "Front", optional=("Front",))
    table.add_row("conv3_block1_shortcut of all", "1600", "30.008 uJ", "*")
    with report_console() as console:
        console.print(table)
    assert stream.getvalue().splitlines() == [
        "                        global_",
        "                        buffer.  Energy of",
        "Layer                     depth        all",
        "─" * 42,
        "conv3_block1_shortcut      1600  30.008 uJ",
        "of all",
        "(columns not shown: Front; --wide shows",
        "  all)",
    ]


def test_all_columns_are_shown_if_asked_for(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr("sys.stdout", stream := Stream(is_terminal=True))
    with report_console(wide=True) as console:
        console.print(WIDE)
    assert "not shown" not in stream.getvalue()


def test_a_pipe_has_no_width_unless_columns_is_set(monkeypatch):
    for columns, fits in (("40", True), ("0", False), ("wide", False), (None, False)):
        monkeypatch.delenv("COLUMNS", raising=False) if columns is None else monkeypatch.setenv(
            "COLUMNS", columns
        )
        monkeypatch.setattr("sys.stdout", stream := Stream(is_terminal=False))
        with report_console() as console:
            console.print(WIDE)
        assert ("not shown" in stream.getvalue()) is fits


FORGED = "a\x1b[2Jb\nOPTIMAL forged"


def test_names_cannot_forge_rows_or_control_the_terminal(monkeypatch):
    monkeypatch.setattr("sys.stdout", stream := Stream(is_terminal=False))
    table = plain_table("Layer", FORGED)
    table.add_row(FORGED, "")
    with report_console() as console:
        console.print(table)
        console.print(f"note: {FORGED}")
        console.print(Text.assemble("\n", (FORGED, "bold")))
    text = stream.getvalue()
    assert text.count("a\ufffd[2Jb\ufffdOPTIMAL forged") == 4
    assert len(text.splitlines()) == 6
    assert all(line.isprintable() for line in text.splitlines())


def test_a_pipe_gets_plain_text_that_is_not_cut_off(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    head, rule, row, status = printed(monkeypatch, is_terminal=False).splitlines()
    assert head.endswith("[bold]Kept :smile:")
    assert set(rule) == {"─"}
    assert row == "x" * 300
    assert status == "OPTIMAL"
