"""Traffic of dataspaces whose tiles overlap: sliding windows, such as the inputs of a convolution."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from solver.search.dataspaces import DataspaceView, Tables
from solver.search.lattice import IntArray, Lattice


@dataclass(frozen=True)
class Unrolling:
    """Spatial factors of the window dimensions above a level, per active dimension (1 for others).

    ``above`` multiplies all fanouts above the level, ``directly`` those between it and the next level
    outside. All ones is always a valid, if weaker, assumption.
    """

    above: tuple[int, ...]
    directly: tuple[int, ...]


def sliding_words(
    view: DataspaceView, tables: Tables, lattice: Lattice, component: int, unrolling: Unrolling
) -> IntArray:
    """Least words of all deliveries of tiles that cover the dataspace once, if `component` slides.

    Only one component slides: as soon as a loop moves another one, tiles are delivered whole. What an
    instance receives is at least the union of its tiles. That is no less than its share of the
    component's window, and no less than the tiles at the distinct positions that the loops of any one
    dimension reach, which lie at least a tile's step times the directly unrolled factor apart.

    Returns
    -------
    IntArray
        Words of all instances, shape (lattice size,).
    """
    part = view.components[component]
    box = tables.boxes[component]
    extents = lattice.extents
    ratios = {d: lattice.bounds[d] // extents[:, d] for d in part.dims}
    covered = box * math.prod(ratios.values())
    others = tables.plain_words // covered
    instances = math.prod(unrolling.above[d] for d in part.dims)
    union = np.full(len(box), -(-part.window_words // instances), dtype=np.int64)
    for d in part.dims:
        step = part.step(d)
        if step is not None:
            positions = -(-ratios[d] // unrolling.above[d])
            fresh = np.minimum(extents[:, d] * (step * unrolling.directly[d]), box)
            np.maximum(union, box + (positions - 1) * fresh, out=union)
    words: IntArray = others * np.minimum(covered, union * instances)
    return words


def relevant_words(view: DataspaceView, tables: Tables, lattice: Lattice, unrolling: Unrolling) -> IntArray:
    """Least words of all deliveries of tiles that cover the dataspace once, shape (lattice size,)."""
    words = tables.plain_words
    for number, component in enumerate(view.components):
        if component.sliding:
            words = np.minimum(words, sliding_words(view, tables, lattice, number, unrolling))
    return words
