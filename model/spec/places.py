"""From places in the canonical problem back to the text they stand in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from model.source_ref import SourceRef
from model.spec.source import MappingNode, Node, SequenceNode, Span

Places = Mapping[SourceRef, Span]


def places_of(*documents: Node) -> dict[SourceRef, Span]:
    """Return the span of every place that a node of `documents` starts at.

    Where several nodes start at one place, as a mapping does with its first key, the shortest
    counts: constraints point at names and values.
    """
    found: dict[SourceRef, Span] = {}
    for node in _nodes(documents):
        span = node.span
        place = SourceRef(span.file, span.line, span.column)
        known = found.get(place)
        if known is None or _end(span) < _end(known):
            found[place] = span
    return found


def _nodes(documents: Sequence[Node]) -> Iterator[Node]:
    """Yield all nodes, each once however many aliases point at it."""
    waiting = list(documents)
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, SequenceNode):
            waiting.extend(node.items)
        elif isinstance(node, MappingNode):
            waiting.extend(part for entry in node.entries for part in entry)


def _end(span: Span) -> tuple[int, int]:
    return span.end_line, span.end_column
