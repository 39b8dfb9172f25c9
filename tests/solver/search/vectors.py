"""Where vectors are in the tables of a lattice."""

from collections.abc import Sequence

import numpy as np

from solver.search.space.lattice import Lattice


def index_of(lattice: Lattice, extents: Sequence[int]) -> int:
    """Linear index of the vector, or the cell, that has as many tiles as those of some extents."""
    places = []
    for d, extent in enumerate(extents):
        numbers, own = lattice.tiles_along(d).reshape(-1), -(-lattice.bounds[d] // extent)
        places.append(int(np.argmax(np.where(numbers <= own, numbers, 0))))
    return int(np.ravel_multi_index(places, lattice.counts)) if places else 0


def vector_at(lattice: Lattice, index: int) -> tuple[int, ...]:
    """Extents at a linear index."""
    return tuple(lattice.extents[index].tolist())
