"""Why no mapping exists, with the user's own lines: for the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from model.text.source import Places, excerpts
from solver.result import Lever, Reason, Shortfall, Statement

INDENT = "  "


def reason_lines(reasons: Sequence[Reason], places: Places) -> Iterator[str]:
    """Yield the report of an infeasible search, conflict by conflict.

    Parameters
    ----------
    places
        Text of the constraints, where it is known; other places are named only.
    """
    for title, reason in titled(reasons):
        yield title
        for further in reason.shortfalls[1:]:
            yield f"{INDENT}{further.text}"
        yield from _statements(reason.constraints, places)
        yield from _levers(reason, others_left(reasons))
        yield ""


def titled(reasons: Sequence[Reason]) -> Iterator[tuple[str, Reason]]:
    """Yield conflicts with their first lines, which number several of them."""
    for number, reason in enumerate(reasons, start=1):
        yield f"Conflict{f' {number}' if len(reasons) > 1 else ''}: {reason.text}", reason


def others_left(reasons: Sequence[Reason]) -> str:
    """Return the end of a sentence about resolving one of several conflicts."""
    return ", once the other conflicts are resolved" if len(reasons) > 1 else ""


def _statements(statements: Sequence[Statement], places: Places) -> Iterator[str]:
    """Yield constraints with the lines that ask for them; those of one place stand together."""
    shown = [source for statement in statements for source in statement.sources]
    spans = {source: places[source] for source in shown if source in places}
    texts = dict(zip(spans, excerpts(spans.values()), strict=True))
    for sources, group in groupby(statements, key=lambda statement: statement.sources):
        yield from (f"{INDENT}{statement.text}" for statement in group)
        for source in sources:
            yield from (f"{INDENT}{line}" for line in texts.get(source, [f" --> {source}"]))


def _levers(reason: Reason, remaining: str) -> Iterator[str]:
    if not reason.constraints:
        return
    if not reason.irreducible:
        yield f"{INDENT}(stopped early: perhaps not all of these are needed)"
    if not reason.complete:
        yield f"{INDENT}(stopped early: perhaps there are other changes that suffice)"
    if not reason.levers:
        yield f"{INDENT}No single change was found that suffices{remaining}."
        return
    yield from change_lines(reason.levers, remaining)


def change_lines(levers: Iterable[Lever], remaining: str) -> Iterator[str]:
    """Yield single changes that suffice, each with its places; `remaining` as `others_left` words it."""
    yield f"{INDENT}Any one of these changes suffices{remaining}:"
    yield from (f"{INDENT * 2}{placed_text(lever)}" for lever in levers)


def placed_text(written: Statement | Lever) -> str:
    """Return a constraint or a change with its places behind it."""
    return written.text + "".join(f"  ({source})" for source in written.sources)


def reason_document(reason: Reason) -> dict[str, object]:
    """Return a reason as JSON; docs/json.md lists the keys."""
    return {
        "text": reason.text,
        "sources": list(map(str, reason.sources)),
        "irreducible": reason.irreducible,
        "complete": reason.complete,
        "constraints": [_statement(statement) for statement in reason.constraints],
        "shortfalls": [_shortfall(found) for found in reason.shortfalls],
        "levers": [_lever(lever) for lever in reason.levers],
    }


def _statement(statement: Statement) -> dict[str, object]:
    return {"text": statement.text, "sources": list(map(str, statement.sources))}


def _shortfall(shortfall: Shortfall) -> dict[str, object]:
    return {
        "text": shortfall.text,
        "demand": shortfall.demand,
        "limit": shortfall.limit,
        "unit": shortfall.unit,
        "gap": shortfall.gap,
    }


def _lever(lever: Lever) -> dict[str, object]:
    return {
        "text": lever.text,
        "current": lever.current,
        "needed": lever.needed,
        "sources": list(map(str, lever.sources)),
    }
