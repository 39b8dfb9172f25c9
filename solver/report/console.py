"""Reports on a terminal: names in them are safe, tables fit the width, colour adds nothing."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from model.text.source import Span
from model.wording import printable
from solver.report.page import DETAIL, PAGE, TONES, VERBOSE, Page, Section, Table, Tone
from solver.report.reasons import reason_lines

LONG_TEXT = 60
NARROWEST = 12
LONGEST_WORD = 24
"""Widths of a column of text on a narrow terminal: the least, and the longest word that is kept whole."""

GAP = 2
"""Blanks between columns."""


class ReportTable(RichTable):
    """A table of texts that are safe on a terminal; columns named in `optional` may be left out."""

    optional: Sequence[str] = ()

    def add_row(self, *cells: str) -> None:  # type: ignore[override]
        """Add a row of texts."""
        super().add_row(*map(printable, cells))

    def fitted(self, width: int) -> tuple[ReportTable, list[str]]:
        """Return the table for a terminal of some width, and the headings of the columns left out.

        Optional columns go where breaking headings and folding texts do not suffice; no figure is cut off.
        """
        columns = list(self.columns)
        natural, least = {id(c): _column_width(c) for c in columns}, {id(c): _least_width(c) for c in columns}
        excess = _total(columns, natural) - width
        if excess <= 0:
            return self, []
        if not self.show_header:
            last = columns[-1]
            last.width, last.overflow = max(NARROWEST, _column_width(last) - excess), "fold"
            return self, []
        headings = list(self.optional)
        while _total(columns, least) > width and headings:
            dropped = headings.pop()
            columns = [column for column in columns if column.header != dropped]
        widths = _shrunk(columns, natural, least, _total(columns, natural) - width)
        table = plain_table(*(column.copy() for column in columns))
        for column, original in zip(table.columns, columns, strict=True):
            column.width = widths[id(original)]
            column.header = _broken(str(column.header), column.width)
            column.no_wrap, column.overflow = not _is_text(original), "fold"
        for row in zip(*(column.cells for column in columns), strict=True):
            table.add_row(*map(str, row))
        kept = set(map(id, columns))
        left_out = (str(column.header) for column in self.columns if id(column) not in kept)
        return table, list(dict.fromkeys(left_out))


def _is_text(column: Column) -> bool:
    return column.justify == "left" and column.header != ""


def _widest(texts: Iterable[object]) -> int:
    return max((cell_len(str(text)) for text in texts), default=0)


def _column_width(column: Column) -> int:
    widest = _widest((column.header, *column.cells))
    return min(widest, column.max_width or widest)


def _least_width(column: Column) -> int:
    """Return the width to which a column shrinks: headings are broken, texts are folded between words."""
    words = (word for text in column.cells for word in str(text).split())
    body = max(NARROWEST, min(_widest(words), LONGEST_WORD)) if _is_text(column) else _widest(column.cells)
    return min(_column_width(column), max(body, _widest(_pieces(str(column.header)))))


def _total(columns: Sequence[Column], widths: Mapping[int, int]) -> int:
    return sum(widths[id(column)] + GAP for column in columns) - GAP


def _shrunk(
    columns: Sequence[Column], natural: Mapping[int, int], least: Mapping[int, int], excess: int
) -> dict[int, int]:
    """Return widths that are smaller by `excess`, if possible; headings are broken before texts."""
    widths = dict(natural)
    for column in columns:
        if not _is_text(column):
            saved = max(0, min(excess, widths[id(column)] - least[id(column)]))
            widths[id(column)] -= saved
            excess -= saved
    for narrowest in (least, dict.fromkeys(least, NARROWEST)):
        texts = [id(column) for column in columns if _is_text(column)]
        while excess > 0 and (wide := [key for key in texts if widths[key] > narrowest[key]]):
            widths[max(wide, key=widths.__getitem__)] -= 1
            excess -= 1
    return widths


def _pieces(heading: str) -> list[str]:
    """Return the parts of a heading between which it may be broken."""
    return re.findall(r"[^ ._]+[._]*|[._]+", heading)


def _broken(heading: str, width: int) -> str:
    """Break a heading into lines of some width, if possible."""
    lines = [""]
    for piece in re.findall(r"[^ ._]+[._]* ?|[._ ]+", heading):
        if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(map(str.rstrip, lines))


def plain_table(*columns: str | Column, optional: Sequence[str] = ()) -> ReportTable:
    """Return an empty table with the common look.

    Headings of right-aligned figures begin with ``>``, those of long texts with ``...``. A narrow terminal
    can do without the columns in `optional`, the last one first.
    """
    table = ReportTable(
        *map(_column, columns),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
        header_style="bold",
    )
    table.optional = optional
    return table


def _column(heading: str | Column) -> Column:
    if isinstance(heading, Column):
        return heading
    if heading.startswith("..."):
        return Column(printable(heading[3:]), overflow="fold", max_width=LONG_TEXT)
    figures = heading.startswith(">")
    return Column(printable(heading.removeprefix(">")), justify="right" if figures else "left", no_wrap=True)


def unheaded_table() -> ReportTable:
    """Return an empty table without headings, such as of totals."""
    return ReportTable(
        padding=(0, GAP), collapse_padding=True, pad_edge=False, show_header=False, show_edge=False, box=None
    )


WIDTH = 1000
"""Wider than any line: figures are never cut off."""

HANGING = 2
"""Spaces by which the rest of a long line stands further in, on a terminal."""

CHART_WIDTH, NARROWEST_CHART, WIDEST_CHART = 80, 40, 120
"""Characters of a chart: in a pipe, and between which it follows the terminal."""

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
        self.table_width = WIDTH if wide else _table_width(on_terminal)

    def print(self, *objects: object, **options: object) -> None:
        """Print texts on one line, or a table."""
        if not objects or not isinstance(objects[0], ReportTable):
            super().print(*self._broken(list(map(_one_line, objects))), **options)  # type: ignore[arg-type]
            return
        fitting, left_out = objects[0].fitted(self.table_width)
        super().print(fitting)
        if left_out:
            self.print(f"(columns not shown: {', '.join(left_out)}; --wide shows all)")

    def _broken(self, parts: list[str | Text | RichTable]) -> list[str | Text | RichTable]:
        """Break the line of these parts between words where it is wider than the terminal."""
        width = self.table_width
        texts = [
            Text(part) if isinstance(part, str) else part for part in parts if not isinstance(part, RichTable)
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


def chart_width(console: Console) -> int:
    """Return how wide a chart may be: as wide as the terminal, within limits; some width in a pipe."""
    width = console.table_width if isinstance(console, ReportConsole) else WIDTH
    return CHART_WIDTH if width == WIDTH else max(NARROWEST_CHART, min(width, WIDEST_CHART))


def _one_line(text: object) -> str | Text | RichTable:
    """Return a line whose names cannot begin new lines or control the terminal."""
    if isinstance(text, Text):
        text.plain = _safe(text.plain)
        return text
    return text if isinstance(text, RichTable) else _safe(str(text))


def _safe(line: str) -> str:
    """Keep line breaks at either end, which separate sections."""
    core = line.strip("\n")
    start = len(line) - len(line.lstrip("\n"))
    return line[:start] + printable(core) + line[start + len(core) :]


MOST_ROWS = 1000
"""Rows of a table that are printed; each takes a millisecond or two."""

STYLES: dict[Tone, str] = {"good": "bold green", "fair": "bold yellow", "bad": "bold red", "plain": "bold"}

NO_PLACES: Mapping[str, Span] = MappingProxyType({})


def print_page(
    console: Console, page: Page, verbose: bool = False, places: Mapping[str, Span] = NO_PLACES
) -> None:
    """Print a report: the verdict, sections, notes, the conflicts with their lines, the checker's verdict.

    Parameters
    ----------
    verbose
        Whether to print the sections that are not shown otherwise.
    places
        Where the places that conflicts name stand in the text of the specs.
    """
    style = STYLES[TONES.get(page.status, "plain")]
    console.print(Text.assemble((page.status, style), f" {page.verdict}" if page.verdict else ""))
    hidden = {PAGE} if verbose else {PAGE, VERBOSE, DETAIL}
    for section in page.sections:
        if section and section.where not in hidden:
            _print_section(console, section)
    for note in page.notes:
        console.print(f"note: {note}")
    if any(conflict.head for conflict in page.conflicts):
        console.print()
    for conflict in page.conflicts:
        for line in (
            *filter(None, [conflict.head]),
            *reason_lines(conflict.reasons, places),
            *conflict.lines,
        ):
            console.print(line)
    if page.check:
        console.print(page.check)


def _print_section(console: Console, section: Section) -> None:
    if section.title:
        console.print(Text.assemble("\n", (section.title, "bold")))
    if section.text:
        console.print(section.text)
    for line in section.lines:
        console.print(line)
    for line in () if section.chart is None else section.chart(chart_width(console)):
        console.print(line)
    for table in section.tables:
        if table.caption and len(section.tables) > 1:
            console.print(f"{table.caption}:")
        console.print(text_table(table))
        if len(table.rows) > MOST_ROWS:
            console.print(f"{len(table.rows) - MOST_ROWS:,} more rows; --json has all of them")
    for remark in section.remarks:
        console.print(remark)


def text_table(table: Table) -> ReportTable:
    """Return a table for a terminal."""
    drawn = plain_table(*table.headings, optional=table.optional) if table.headings else unheaded_table()
    last = ""
    for row in table.rows[:MOST_ROWS]:
        first, *others = (cell if isinstance(cell, str) else cell[0] for cell in row)
        drawn.add_row("" if table.is_grouped and first == last else first, *others)
        last = first
    return drawn
