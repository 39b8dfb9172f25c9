"""Notes on edges that say nothing of channels where the two layers do not agree on them."""

from __future__ import annotations

from collections.abc import Sequence

from model.assignment.shapes import Convolution, ShapedEdge, ShapedLayer
from model.spec.assignment.graph import NamedEdge

MOST_NOTES = 10
"""Networks have thousands of edges; what is wrong with all of them is seen by a few."""


def channel_notes(
    named: Sequence[NamedEdge], edges: Sequence[ShapedEdge], layers: Sequence[ShapedLayer]
) -> list[str]:
    """Return a note for each edge that takes all channels of the next layer, which the one before lacks.

    An edge with ``channels`` says what it carries, and is believed.
    """
    notes = [
        f"{own.span}: {_text(layers[edge.source], layers[edge.target])}"
        for own, edge in zip(named, edges, strict=True)
        if edge.channels is None and not _agree(layers[edge.source], layers[edge.target])
    ]
    if len(notes) <= MOST_NOTES:
        return notes
    return [*notes[:MOST_NOTES], f"{len(notes) - MOST_NOTES:,} more edges like these"]


def _agree(source: ShapedLayer, target: ShapedLayer) -> bool:
    """Whether one takes in what the other puts out, or all positions of it as channels, perhaps pooled."""
    if target.channels == source.out_channels:
        return True
    shape = target.shape
    is_dense = isinstance(shape, Convolution) and shape.positions == shape.window == 1
    positions, rest = divmod(target.channels, source.out_channels)
    return is_dense and not rest and 1 <= positions <= source.shape.height * source.shape.width


def _text(source: ShapedLayer, target: ShapedLayer) -> str:
    taken = f"all {target.channels:,} channels that layer `{target.name}` takes in"
    made = f"layer `{source.name}` puts out {source.out_channels:,}"
    return f"without `channels` the edge carries {taken}, but {made}"
