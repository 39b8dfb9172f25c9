"""A report as one HTML page: its parts, and how they are written into the template."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from model.wording import printable
from solver.report.drawing import DARK, LIGHT, svg_text
from solver.report.page import (
    DETAIL,
    TERMINAL,
    TONES,
    Cell,
    ConflictReport,
    Fact,
    Figure,
    Page,
    Section,
    Table,
)
from solver.report.reading import Value

if TYPE_CHECKING:
    from jinja2 import Environment, Template

WIDE, NARROW = 820.0, 330.0
"""Widths of figures in pixels: on a large screen and on paper, and on a phone."""

LONGEST_CELL = 2000
"""Characters of a text of a table; what is longer is cut off."""

LONGEST_LINE = 60
"""Characters of loops that stay in one line."""

LONGEST_WORD, SHORTEST_TEXT = 32, 14
"""Characters of a word that is not broken, and of a text that is worth a wide column."""

FACTORS = re.compile(r"[^\W\d]\w*( [^\W\d]\w*\d)+")
"""Extents or loops of several dimensions, such as ``m14 k1 n16``: they stay in one line."""


def page_text(page: Page, document: Value) -> str:
    """Return the page of a document as HTML that needs nothing else."""
    version = document.get("version").text()
    parts = _template_values(page, document)
    return _template("report.html.jinja").render(**parts, version=version, script=_asset("report.js"))


def fragment_text(page: Page, document: Value) -> str:
    """Return a page as an HTML fragment for a notebook, without a script; its style is its own."""
    parts = _template_values(page, document, _fragment_prefix(page))
    # Its rules count more than those of the notebook, whatever the order.
    parts["style"] = _style().replace(".tilewright", ".tilewright.tilewright")
    return _template("fragment.html.jinja").render(**parts)


def _fragment_prefix(page: Page) -> str:
    """Return what distinguishes the ids of a page from those of others in one notebook."""
    return f"t{hashlib.sha256(repr(page.facts).encode()).hexdigest()[:8]}-"


def _template_values(page: Page, document: Value, prefix: str = "") -> dict[str, object]:
    """Return the values for templates; `prefix` distinguishes the ids of several pages in one notebook."""
    from markupsafe import Markup  # noqa: PLC0415 (with jinja2)

    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {
        "page": page,
        "facts": _shown_facts(page),
        "tone": TONES.get(page.status, "plain"),
        "style": Markup(_style()),
        "script_hash": f"sha256-{digest}",
        "sections": [
            _section_values(section, f"{prefix}s{number}")
            for number, section in enumerate(_page_sections(page, document))
            if section and section.where not in (TERMINAL, DETAIL)
        ],
    }


def _page_sections(page: Page, document: Value) -> Iterator[Section]:
    """Yield the conflicts, what the page says, the notes, and how the document is made again."""
    yield from _conflict_sections(page.conflicts)
    yield from page.sections
    notes = [(note,) for note in page.notes]
    yield Section("Notes", tables=[Table("Notes", ("Note",), notes)] if notes else ())
    yield run_section(document)


def _shown_facts(page: Page) -> list[Fact]:
    """Return the facts without their parts, which figures show, and the verdict of the checker."""
    facts = [fact for fact in page.facts if not fact[0].startswith(" ")]
    return [*facts, *([("Checked without the solver", page.check, "")] if page.check else [])]


def _section_values(section: Section, identity: str) -> dict[str, object]:
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
        "remarks": section.remarks,
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
    environment.filters |= {
        "shown": _shown_text,
        "sort_key": _sort_key,
        "shape": _breaking_style,
        "breakable": _breakable,
    }
    return environment


def _shown_text(cell: Cell) -> str:
    """Return the text of a cell, without what controls a terminal or the direction of text."""
    text = printable(cell if isinstance(cell, str) else cell[0])
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}…"


def _breakable(heading: str) -> str:
    """Return a heading that may go on in a new line after a dot or an underscore."""
    from markupsafe import Markup, escape  # noqa: PLC0415 (with jinja2)

    # Entities contain neither of them.
    return Markup(re.sub(r"([._])", r"\1<wbr>", str(escape(_shown_text(heading)))))


def _breaking_style(cell: Cell) -> str:
    """Return how a text is broken into lines: within words, between them, or not at all."""
    text = _shown_text(cell)
    if len(text) <= LONGEST_LINE and FACTORS.fullmatch(text):
        return "line"
    if max(map(len, text.split()), default=0) > LONGEST_WORD:
        return "breaks"
    if len(text) > LONGEST_WORD:
        return "prose"
    return "words" if " " in text and len(text) > SHORTEST_TEXT else ""


def _sort_key(cell: Cell) -> str:
    return json.dumps(cell[1]) if isinstance(cell, tuple) else ""


def run_section(document: Value) -> Section:
    """Return how to reproduce a result: program, command line and inputs."""
    run = document.get("run")
    lines = [run["command"].text()] if run else []
    rows: list[Sequence[Cell]] = [
        (entry["path"].text(), entry["sha256"].text() or "-")
        for entry in (run["inputs"].entries() if run else [])
    ]
    tables = [Table("Inputs", ("File", "SHA-256"), rows)] if rows else []
    return Section("How to reproduce this", f"Tilewright {document.get('version').text()}", (), tables, lines)


def _conflict_sections(conflicts: Sequence[ConflictReport]) -> Iterator[Section]:
    """Yield a section per conflict: what cannot hold at once, what is short, and what would resolve it."""
    for conflict in conflicts:
        for number, reason in enumerate(conflict.reasons, 1):
            name = f"Conflict {number}" if len(conflict.reasons) > 1 else "Conflict"
            title = f"{conflict.head}: {name}" if conflict.head else name
            yield Section(title, reason["text"].text(), tables=list(_reason_tables(reason)))
        if conflict.lines:
            yield Section(conflict.head or "Conflicts", lines=conflict.lines)


def _reason_tables(reason: Value) -> Iterator[Table]:
    constraints = [_text_with_sources(each) for each in reason["constraints"].entries()]
    if constraints:
        yield Table("Conflicting constraints", ("Constraint", "At"), constraints)
    shortfalls: list[Sequence[Cell]] = [
        (each["text"].text(), *(f"{each[key].count():,}" for key in ("demand", "limit")), each["unit"].text())
        for each in reason["shortfalls"].entries()
    ]
    if shortfalls:
        yield Table("Shortfalls", ("What", ">Demand", ">Limit", "Unit"), shortfalls)
    levers = [_text_with_sources(each) for each in reason["levers"].entries()]
    if levers:
        yield Table("Any one of these changes suffices", ("Change", "At"), levers)


def _text_with_sources(written: Value) -> tuple[str, str]:
    return written["text"].text(), ", ".join(written["sources"].texts()) or "-"
