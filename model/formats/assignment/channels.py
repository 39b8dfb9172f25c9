"""Notes on edges that say nothing of channels where the two layers do not agree on them."""

from __future__ import annotations

from collections.abc import Sequence

from model.assignment.shapes import Convolution, ShapedEdge, ShapedLayer
from model.formats.assignment.graph import NamedEdge
from model.note import Note
from model.text.source import Span, note_at

MOST_NOTES = 10
"""Networks have thousands of edges; what is wrong with all of them is seen by a few."""


def channel_notes(
    named: Sequence[NamedEdge], edges: Sequence[ShapedEdge], layers: Sequence[ShapedLayer]
) -> list[Note]:
    """Return a note for each edge that takes all channels of the next layer, which the one before lacks.

    An edge with ``channels`` says what it carries, and is believed.
    """
    notes = [
        _note(own.span, layers[edge.source], layers[edge.target])
        for own, edge in zip(named, edges, strict=True)
        if edge.channels is None and not _agree(layers[edge.source], layers[edge.target])
    ]
    if len(notes) <= MOST_NOTES:
        return notes
    return [*notes[:MOST_NOTES], note_at(None, "{:,} more edges like these", len(notes) - MOST_NOTES)]


def _agree(source: ShapedLayer, target: ShapedLayer) -> bool:
    """Whether one takes in what the other puts out, or all positions of it as channels, perhaps pooled."""
    if target.channels == source.out_channels:
        return True
    shape = target.shape
    is_dense = isinstance(shape, Convolution) and shape.positions == shape.window == 1
    positions, rest = divmod(target.channels, source.out_channels)
    return is_dense and not rest and 1 <= positions <= source.shape.height * source.shape.width


def _note(span: Span, source: ShapedLayer, target: ShapedLayer) -> Note:
    sentence = (
        "without `channels` the edge carries all {:,} channels that layer `{}` takes in, "
        "but layer `{}` puts out {:,}"
    )
    return note_at(span, sentence, target.channels, target.name, source.name, source.out_channels)
