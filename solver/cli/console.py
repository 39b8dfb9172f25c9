"""The console that reports are printed on."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

PLAIN_WIDTH = 160


@contextmanager
def report_console() -> Iterator[Console]:
    """Yield a console on stdout: as wide as the terminal, or plain text of a fixed width when piped."""
    if sys.stdout.isatty():
        yield Console(highlight=False, markup=False)
        return
    text = io.StringIO()
    yield Console(
        file=text, width=PLAIN_WIDTH, color_system=None, force_terminal=False, highlight=False, markup=False
    )
    for line in text.getvalue().splitlines():
        print(line.rstrip())
