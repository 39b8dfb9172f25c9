"""The console that reports are printed on: names in them are safe, and tables fit the terminal."""

from __future__ import annotations

import os
import shutil
import textwrap
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from model.wording import printable
from solver.report.tables import ReportTable

WIDTH = 1000
"""Wider than any line: figures are never cut off."""

HANGING = 2
"""Spaces by which the rest of a long line stands further in, on a terminal."""

HEIGHT = 25
"""Without a height, rich ignores the width on a dumb terminal and cuts figures off."""


class ReportConsole(Console):
    """Prints a report into a stream, in colour if that ends on a terminal."""

    def __init__(self, stream: TextIO, on_terminal: bool, wide: bool = False) -> None:
        super().__init__(
            file=stream,
            width=WIDTH,
            height=HEIGHT,
            force_terminal=on_terminal,
            highlight=False,
            markup=False,
            emoji=False,
        )
        self._table_width = WIDTH if wide else _table_width(on_terminal)

    def print(self, *objects: object, **options: object) -> None:
        """Print texts on one line, or a table."""
        if not objects or not isinstance(objects[0], ReportTable):
            super().print(*self._broken(list(map(_one_line, objects))), **options)  # type: ignore[arg-type]
            return
        fitting, left_out = objects[0].fitted(self._table_width)
        super().print(fitting)
        if left_out:
            self.print(f"(left out to fit the terminal: {', '.join(left_out)}; --wide shows all)")

    def _broken(self, parts: list[str | Text | Table]) -> list[str | Text | Table]:
        """Break the line of these parts between words where it is wider than the terminal."""
        width = self._table_width
        texts = [
            Text(part) if isinstance(part, str) else part for part in parts if not isinstance(part, Table)
        ]
        line = Text(" ").join(texts)
        core = line.plain.strip("\n")
        if width >= WIDTH or len(texts) < len(parts) or len(core) <= width:
            return parts
        if not (len(parts) == 1 and isinstance(parts[0], str)):
            return [Text("\n").join(line.wrap(self, width))]
        indent = " " * (len(core) - len(core.lstrip()) + HANGING)
        broken = textwrap.wrap(
            core, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        return [line.plain.replace(core, "\n".join(broken))]


def _table_width(on_terminal: bool) -> int:
    """Return the width of the terminal, or that of the variable ``COLUMNS``, also in a pipe."""
    columns = os.environ.get("COLUMNS", "")
    is_set = columns.isascii() and columns.isdecimal() and int(columns) > 0
    return shutil.get_terminal_size().columns if on_terminal or is_set else WIDTH


def _one_line(text: object) -> str | Text | Table:
    """Return a line whose names cannot begin new lines or control the terminal."""
    if isinstance(text, Text):
        text.plain = _safe(text.plain)
        return text
    return text if isinstance(text, Table) else _safe(str(text))


def _safe(line: str) -> str:
    """Keep line breaks at either end, which separate sections."""
    core = line.strip("\n")
    start = len(line) - len(line.lstrip("\n"))
    return line[:start] + printable(core) + line[start + len(core) :]
