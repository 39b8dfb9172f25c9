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

HEIGHT = 25
"""Without a height rich takes no width either where the terminal is a dumb one, and cuts off figures."""


@contextmanager
def report_console() -> Iterator[Console]:
    """Yield a console whose text goes to stdout in the end, without trailing blanks; plain when piped."""
    text = io.StringIO()
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    yield Console(
        file=text,
        width=WIDTH,
        height=HEIGHT,
        force_terminal=on_terminal,
        highlight=False,
        markup=False,
        emoji=False,
    )
    write_stdout("".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines()))
