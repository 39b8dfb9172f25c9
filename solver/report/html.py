"""A report as one HTML page: its parts, and how they are written into the template."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from model.wording import printable
from solver.report.drawing import DARK, LIGHT, Scene, svg_text
from solver.report.reading import Value

if TYPE_CHECKING:
    from jinja2 import Environment, Template

WIDE, NARROW = 820.0, 330.0
"""Widths of figures in pixels: on a large screen and on paper, and on a phone."""

LONGEST_CELL = 2000
"""Characters of a text of a table; what is longer is cut off."""

LONGEST_WORD, SHORTEST_TEXT = 32, 14
"""Characters of a word that is not broken, and of a text that is worth a wide column."""

TONES = {
    "OPTIMAL": "good",
    "VALID": "good",
    "FEASIBLE": "fair",
    "INFEASIBLE": "bad",
    "UNKNOWN": "bad",
    "INVALID": "bad",
}

Cell = str | tuple[str, float]
"""A text of a table, and for figures the number by which it is sorted."""


@dataclass(frozen=True)
class Figure:
    """A picture that is drawn for a wide and for a narrow page."""

    draw: Callable[[float], Scene | None]
    caption: str = ""


@dataclass(frozen=True)
class Table:
    """A table; headings of figures begin with ``>``. Many rows can be sorted and searched."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def is_long(self) -> bool:
        """Whether it is worth searching."""
        return len(self.rows) > 5


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading."""

    title: str
    text: str = ""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    lines: Sequence[str] = ()  # shown as they are, in a typewriter face
    is_folded: bool = False

    def __bool__(self) -> bool:
        """Whether there is anything below the heading."""
        return bool(self.text or self.figures or self.tables or self.lines)


@dataclass(frozen=True)
class Page:
    """What a report says: the verdict first, facts, then sections."""

    title: str
    status: str
    verdict: str
    facts: Sequence[tuple[str, str]] = ()
    sections: Sequence[Section] = field(default=())
    subtitle: str = ""


def page_text(page: Page, version: str) -> str:
    """Return a page as an HTML document that needs nothing else."""
    return _template("report.html.jinja").render(**_parts(page), version=version, script=_asset("report.js"))


def fragment_text(page: Page) -> str:
    """Return a page as an HTML fragment for a notebook, without a script; its style is its own."""
    prefix = f"t{hashlib.sha256(repr(page.facts).encode()).hexdigest()[:8]}-"
    return _template("fragment.html.jinja").render(**_parts(page, prefix))


def _parts(page: Page, prefix: str = "") -> dict[str, object]:
    """Return what templates show; `prefix` keeps the ids of several pages in one notebook apart."""
    from markupsafe import Markup  # noqa: PLC0415 (with jinja2)

    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {
        "page": page,
        "tone": TONES.get(page.status, "plain"),
        "style": Markup(_style()),
        "script_hash": f"sha256-{digest}",
        "sections": [
            _shown(section, f"{prefix}s{number}") for number, section in enumerate(page.sections) if section
        ],
    }


def _shown(section: Section, identity: str) -> dict[str, object]:
    return {
        "title": section.title,
        "identity": identity,
        "text": section.text,
        "lines": "\n".join(map(printable, section.lines)),
        "is_folded": section.is_folded,
        "figures": [
            figure
            for place, each in enumerate(section.figures)
            if (figure := _drawn(each, f"{identity}f{place}"))
        ],
        "tables": section.tables,
    }


def _drawn(figure: Figure, identity: str) -> dict[str, object] | None:
    """Return a figure in both widths; None if there is nothing to draw."""
    from markupsafe import Markup  # noqa: PLC0415

    wide, narrow = figure.draw(WIDE), figure.draw(NARROW)
    if wide is None or narrow is None:
        return None
    # The element tree has escaped all names in them.
    drawn = {
        "wide": svg_text(wide, identity=f"{identity}w"),
        "narrow": svg_text(narrow, identity=f"{identity}n"),
    }
    return {"caption": figure.caption, **{name: Markup(text) for name, text in drawn.items()}}


def _style() -> str:
    colours = {
        name: "".join(f"--{ink}:{value};" for ink, value in palette.items())
        for name, palette in (("light", LIGHT), ("dark", DARK))
    }
    return _asset("report.css").replace("/*light*/", colours["light"]).replace("/*dark*/", colours["dark"])


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def _template(name: str) -> Template:
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 (slow to import)

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shown": _shown_text, "sort_key": _sort_key, "shape": _shape}
    return environment


def _shown_text(cell: Cell) -> str:
    """Return the text of a cell, without what controls a terminal or the direction of text."""
    text = printable(cell if isinstance(cell, str) else cell[0])
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}…"


def _shape(cell: Cell) -> str:
    """Return how a text is broken into lines: within words, between them, or not at all."""
    text = _shown_text(cell)
    if max(map(len, text.split()), default=0) > LONGEST_WORD:
        return "breaks"
    if len(text) > LONGEST_WORD:
        return "prose"
    return "words" if " " in text and len(text) > SHORTEST_TEXT else ""


def _sort_key(cell: Cell) -> str:
    return json.dumps(cell[1]) if isinstance(cell, tuple) else ""


def run_section(document: Value) -> Section:
    """Return how a result is made again: program, command line, inputs, and the check of its certificate."""
    run = document.get("run")
    lines = [run["command"].text()] if run else []
    rows: list[Sequence[Cell]] = [
        (entry["path"].text(), entry["sha256"].text() or "-")
        for entry in (run["inputs"].entries() if run else [])
    ]
    tables = [Table("Inputs", ("File", "SHA-256"), rows)] if rows else []
    return Section("How to reproduce this", f"Tilewright {document.get('version').text()}", (), tables, lines)


def notes_section(document: Value, *keys: str) -> Section:
    """Return the notes of a document, one a line."""
    notes = [f"• {note}" for key in keys or ("notes",) for note in document.get(key).texts()]
    return Section(
        "Notes", tables=[Table("Notes", ("Note",), [(note[2:],) for note in notes])] if notes else ()
    )


def reason_sections(reasons: Sequence[Value]) -> Iterator[Section]:
    """Yield a section per conflict: what cannot hold at once, the arithmetic, and what would resolve it."""
    for number, reason in enumerate(reasons, 1):
        tables = []
        constraints = [_placed(each) for each in reason["constraints"].entries()]
        if constraints:
            tables.append(Table("Cannot hold at once", ("Constraint", "At"), constraints))
        shortfalls: list[Sequence[Cell]] = [
            (
                each["text"].text(),
                *(f"{each[key].count():,}" for key in ("demand", "limit")),
                each["unit"].text(),
            )
            for each in reason["shortfalls"].entries()
        ]
        if shortfalls:
            tables.append(Table("The arithmetic", ("What", ">Demand", ">Limit", "Unit"), shortfalls))
        levers = [_placed(each) for each in reason["levers"].entries()]
        if levers:
            tables.append(Table("Any one of these changes suffices", ("Change", "At"), levers))
        title = f"Conflict {number}" if len(reasons) > 1 else "Conflict"
        yield Section(title, reason["text"].text(), tables=tables)


def _placed(written: Value) -> tuple[str, str]:
    return written["text"].text(), ", ".join(written["sources"].texts()) or "-"
