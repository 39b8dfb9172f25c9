"""From places in the canonical problem back to the text they stand in."""

from __future__ import annotations

from collections.abc import Mapping

from model.source_ref import SourceRef
from model.text.fields import source_ref
from model.text.source import MappingNode, Node, Span, values_in

Places = Mapping[SourceRef, Span]


def places_of(*documents: Node) -> dict[SourceRef, Span]:
    """Return the span of every place that a node of some documents starts at.

    Where several nodes start at one place, as a mapping does with its first key, the shortest
    counts: constraints point at names and values.

    Parameters
    ----------
    documents
        Their roots; what aliases share is looked at once.
    """
    spans: dict[SourceRef, Span] = {}
    for span in (span for node in values_in(*documents) for span in _spans_of(node)):
        place = source_ref(span)
        known = spans.get(place)
        if known is None or _end(span) < _end(known):
            spans[place] = span
    return spans


def _spans_of(node: Node) -> list[Span]:
    """Return the places of a node and of its keys."""
    keys = [key.span for key, _ in node.entries] if isinstance(node, MappingNode) else []
    return [node.span, *keys]


def _end(span: Span) -> tuple[int, int]:
    return span.end_line, span.end_column
