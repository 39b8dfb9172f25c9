"""Why nothing fits: the conflicts of a document as lines for a terminal, with the user's own lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from model.text.source import Span, excerpts
from solver.report.reading import Value

INDENT = "  "


def reason_lines(reasons: Sequence[Value], places: Mapping[str, Span]) -> Iterator[str]:
    """Yield the conflicts one by one, with the lines that `places` has."""
    others = ", once the other conflicts are resolved" if len(reasons) > 1 else ""
    for number, reason in enumerate(reasons, start=1):
        yield f"Conflict{f' {number}' if len(reasons) > 1 else ''}: {reason['text'].text()}"
        for further in reason["shortfalls"].entries()[1:]:
            yield f"{INDENT}{further['text'].text()}"
        yield from _statements(reason["constraints"].entries(), places)
        if reason["constraints"]:
            yield from _levers(reason, others)
        yield ""


def _statements(statements: Sequence[Value], places: Mapping[str, Span]) -> Iterator[str]:
    """Yield constraints with the lines that state them; those of one place together."""
    shown = [source for statement in statements for source in statement["sources"].texts()]
    spans = {source: places[source] for source in shown if source in places}
    texts = dict(zip(spans, excerpts(spans.values()), strict=True))
    for sources, group in groupby(statements, key=lambda statement: statement["sources"].texts()):
        yield from (f"{INDENT}{statement['text'].text()}" for statement in group)
        for source in sources:
            yield from (f"{INDENT}{line}" for line in texts.get(source, [f" --> {source}"]))


def _levers(reason: Value, others: str) -> Iterator[str]:
    """Yield the single changes that suffice, or why none is known."""
    if not reason["irreducible"].flag():
        yield f"{INDENT}(stopped early: some of these may not be needed)"
    if not reason["complete"].flag():
        yield f"{INDENT}(stopped early: other changes may suffice, too)"
    levers = reason["levers"].entries()
    if not levers:
        yield f"{INDENT}No single change was found that suffices{others}."
        return
    yield f"{INDENT}Any one of these changes suffices{others}:"
    for lever in levers:
        at = "".join(f"  ({source})" for source in lever["sources"].texts())
        yield f"{INDENT * 2}{lever['text'].text()}{at}"
