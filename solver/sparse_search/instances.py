"""Skipping in space: the instances that sparse data need at least, and the children that meshes must have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from model.choices import SideOrder
from model.sparse.density import Banded
from solver.sparse_search.choices import Mask, fits_mesh
from solver.sparse_search.grid import FloatArray, Vector
from solver.sparse_search.shares import LeastShares


@dataclass(frozen=True)
class NeededInstances:
    """Of one choice of who keeps what, and of spatial factors.

    Parameters
    ----------
    shares
        Figures of all tiles.
    mask, fanouts
        What is chosen: who keeps what, and per fanout a factor for each active dimension.
    """

    shares: LeastShares
    mask: Mask
    fanouts: tuple[Vector, ...]

    def least(self, name: str, level: int) -> FloatArray:
        """Share of the instances of a level that a dataspace needs, at least, by its tile or one inside it.

        The level after the last one is the arithmetic.
        """
        return self._handed_on(name)[self._places[level]]

    def cut(self, name: str, level: int) -> FloatArray:
        """Share of the accesses at a level that units cut off with the instances they skip, at most."""
        found = np.ones(self.shares.grid.size)
        for fanout, place in enumerate(self.shares.mapspace.architecture.fanout_indices):
            if place < self._places[level] and self._conditions(name, fanout):
                found = np.minimum(found, self._handed_on(name)[place + 1])
        return 1 - found

    def needs_all(self, fanout: int) -> bool:
        """Whether some dataspace needs all children of a fanout, whatever is empty."""
        return any(
            not any(self._narrows(name, outer) for outer in range(fanout + 1)) for name in self.mask.chains
        )

    @property
    def fits(self) -> bool:
        """Whether meshes may have enough children."""
        mapspace, grid = self.shares.mapspace, self.shares.grid
        parts = zip(mapspace.architecture.fanouts, mapspace.spatial, self.fanouts, strict=True)
        return all(
            fits_mesh(fanout, SideOrder.of(rules, mapspace.problem.dims), grid, vector)
            for number, (fanout, rules, vector) in enumerate(parts)
            if self.needs_all(number)
        )

    # ---------------------------------------------------------------------------------------- shares

    @cached_property
    def _places(self) -> tuple[int, ...]:
        architecture = self.shares.mapspace.architecture
        return (*architecture.storage_indices, len(architecture.nodes))

    @cached_property
    def _known(self) -> dict[str, list[FloatArray]]:
        return {}

    def _handed_on(self, name: str) -> list[FloatArray]:
        """Shares by position in the architecture; units hand theirs on inwards once fewer children do."""
        if name not in self._known:
            found = [np.ones(self.shares.grid.size)] * (self._places[-1] + 1)
            self._hand_on(name, found, self._own(name))
            self._hand_on(name, found, self._units(name))
            self._known[name] = found
        return self._known[name]

    def _hand_on(self, name: str, found: list[FloatArray], left: dict[int, FloatArray]) -> None:
        """Take the shares that fanouts leave into account."""
        for place, share in left.items():
            found[place + 1] = found[place + 1] * share
        narrow = False
        fanouts = {place: n for n, place in enumerate(self.shares.mapspace.architecture.fanout_indices)}
        for place in range(1, len(found)):
            if place - 1 in fanouts:
                narrow = narrow or self._narrows(name, fanouts[place - 1])
            for inner in range(place + 1, len(found)) if narrow else ():
                found[inner] = found[inner] * found[place]

    def _own(self, name: str) -> dict[int, FloatArray]:
        """By position of a fanout, the share that a dataspace's own metadata leaves."""
        places = self.shares.mapspace.architecture.fanout_indices
        return {place: self._not_empty((name,), fanout) for fanout, place in enumerate(places)}

    def _units(self, name: str) -> dict[int, FloatArray]:
        """By position of a fanout, the share that units leave."""
        places = self.shares.mapspace.architecture.fanout_indices
        return {
            place: self._not_empty(self._conditions(name, fanout), fanout)
            for fanout, place in enumerate(places)
        }

    def _not_empty(self, names: Sequence[str], fanout: int) -> FloatArray:
        found = np.ones(self.shares.grid.size)
        for name in names:
            if any(True for _ in self._seen(name, fanout)):
                found = found * (1 - self.shares.empty(name))
        return found

    def _conditions(self, name: str, fanout: int) -> tuple[str, ...]:
        """Conditions of the units that skip children of a fanout for a dataspace."""
        shares = self.shares
        return tuple(
            condition
            for level, sparse in enumerate(shares.sparsity.levels)
            if fanout in shares.fanouts_between(level, level + 1)
            for unit in sparse.optimizations
            if unit.kind == "skipping_spatial" and unit.options[0].target == name
            for condition in unit.options[0].conditions
        )

    def _seen(self, name: str, fanout: int) -> Iterator[int]:
        """Yield the axes of a fanout along which metadata say which parts of a dataspace are empty."""
        outer = [level for level in self.mask.chains[name] if self._places[level] < self._position(fanout)]
        if outer and self.shares.representation(outer[-1], name) is not None:
            factors = self.fanouts[fanout]
            yield from (axis for axis in self.shares.tensors[name].axes if factors[axis] > 1)

    def _position(self, fanout: int) -> int:
        return self.shares.mapspace.architecture.fanout_indices[fanout]

    def _narrows(self, name: str, fanout: int) -> bool:
        """Whether a dataspace may need fewer children of a fanout than there are parts."""
        names = (name, *self._conditions(name, fanout))
        return any(self._leaves_out(own, axis, fanout) for own in names for axis in self._seen(own, fanout))

    def _leaves_out(self, name: str, axis: int, fanout: int) -> bool:
        """Whether so many parts of a dataspace may be too many for its nonzeros."""
        tensor, distribution = self.shares.tensors[name], self.shares.distributions[name]
        if isinstance(distribution, Banded) or not tensor.simple:
            return True
        factor = self.fanouts[fanout][axis]
        least = np.ones((1, len(self.shares.grid.dims)), dtype=np.int64)
        least[0, axis] = factor
        return distribution.most(tuple(tensor.ranks_of(least)[0].tolist())) < factor
