"""The console that reports are printed on."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from solver.cli.output import write_stdout

WIDTH = 1000
"""Wider than any table: figures are never cut off, a narrow terminal breaks the lines itself."""


@contextmanager
def report_console() -> Iterator[Console]:
    """Yield a console on stdout; plain text without trailing blanks when piped."""
    if sys.stdout is not None and sys.stdout.isatty():
        yield Console(width=WIDTH, highlight=False, markup=False, emoji=False)
        return
    text = io.StringIO()
    yield Console(
        file=text,
        width=WIDTH,
        color_system=None,
        force_terminal=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    write_stdout("".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines()))
