"""The console that reports are printed on."""

from __future__ import annotations

import sys

from rich.console import Console

PLAIN_WIDTH = 160


def report_console() -> Console:
    """Return a console on stdout: as wide as the terminal, or plain and of fixed width when piped."""
    if sys.stdout.isatty():
        return Console(highlight=False, markup=False)
    return Console(
        file=sys.stdout,
        width=PLAIN_WIDTH,
        color_system=None,
        force_terminal=False,
        highlight=False,
        markup=False,
    )
