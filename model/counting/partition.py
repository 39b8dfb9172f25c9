"""Partitions: all words of a dataspace that one instance of a level holds during a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from model.architecture import Architecture, Fanout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Words = TypeVar("Words", int, "NDArray[np.int64]")
"""Words of one mapping, or of a batch: shape ``(mappings,)``."""


def partition_words(architecture: Architecture, tiles: Sequence[Words]) -> tuple[Words, ...]:
    """Partition of one dataspace at each node.

    The outermost level holds the whole tensor. A fanout gives each child the share of its tile in
    the tile of all children together, rounded down; temporal loops change nothing.

    Parameters
    ----------
    architecture
        Its nodes say where the fanouts lie.
    tiles
        Words that the loops at or below each node touch, one more entry for the compute.

    Returns
    -------
    tuple
        Words per instance of each node, outermost first.
    """
    parts = [tiles[0]]
    for position, node in enumerate(architecture.nodes[:-1]):
        share = parts[-1]
        if isinstance(node, Fanout):
            whole, part = tiles[position], tiles[position + 1]
            # Nothing exceeds 64 bits where tiles divide the tensor: there is no remainder then.
            share = share // whole * part + share % whole * part // whole
        parts.append(share)
    return tuple(parts)
