"""Skipping in space: the instances that sparse data need at least, and the children that meshes must have.

Spatial choices of one kind need the same: those that unroll the same dimensions at each fanout, and of which
the same parts may be more than there are nonzeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np

from model.choices import SideOrder
from model.sparse.density import Banded
from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.space.spatial import SpatialStage
from solver.sparse_search.choices import Chains, fits_mesh, spatial_factors
from solver.sparse_search.grid import Vector
from solver.sparse_search.shares import LeastShares


@dataclass(frozen=True)
class NeededInstances:
    """Of one choice of who keeps what, and of spatial factors.

    Parameters
    ----------
    shares
        Figures of all tiles.
    chains, fanouts
        What is chosen: who keeps what, and per fanout a factor for each active dimension.
    """

    shares: LeastShares
    chains: Chains
    fanouts: tuple[Vector, ...]

    def least(self, name: str, level: int) -> FloatArray:
        """Share of the instances of a level that a dataspace needs, at least, by its tile or one inside it.

        The level after the last one is the arithmetic.
        """
        return self._handed_on(name)[self._places[level]]

    def cut(self, name: str, level: int) -> FloatArray:
        """Share of the accesses at a level that units cut off with the instances they skip, at most."""
        found = np.array(1.0)
        for fanout, place in enumerate(self.shares.mapspace.architecture.fanout_indices):
            if place < self._places[level] and self._conditions(name, fanout):
                found = np.minimum(found, self._handed_on(name)[place + 1])
        return 1 - found

    def kept(self, name: str, level: int) -> FloatArray:
        """Share of the accesses at a level that units leave, at least."""
        return 1 - self.cut(name, level)

    def needs_all(self, fanout: int) -> bool:
        """Whether some dataspace needs all children of a fanout, whatever is empty."""
        return any(not any(self._narrows(name, outer) for outer in range(fanout + 1)) for name in self.chains)

    @property
    def fits(self) -> bool:
        """Whether meshes may have enough children."""
        mapspace, grid = self.shares.mapspace, self.shares.grid
        parts = zip(mapspace.architecture.fanouts, mapspace.spatial, self.fanouts, strict=True)
        return all(
            fits_mesh(fanout, SideOrder.of(rules, mapspace.problem.dims), spatial_factors(grid.dims, vector))
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
            found = [np.array(1.0)] * (self._places[-1] + 1)
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
        found = np.array(1.0)
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
        outer = [level for level in self.chains[name] if self._places[level] < self._position(fanout)]
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
        return leaves_out(self.shares, name, axis, self.fanouts[fanout][axis])


def leaves_out(shares: LeastShares, name: str, axis: int, factor: int) -> bool:
    """Whether so many parts of a dataspace may be too many for its nonzeros."""
    tensor, distribution = shares.tensors[name], shares.distributions[name]
    if isinstance(distribution, Banded) or not tensor.simple:
        return True
    least = tuple(np.array([factor if d == axis else 1]) for d in range(len(shares.grid.dims)))
    return distribution.most(tuple(int(own[0]) for own in tensor.ranks_of(least))) < factor


Kind = tuple[tuple[tuple[int, frozenset[str]], ...], ...]
"""Per fanout, the dimensions that it unrolls, each with the dataspaces that may leave out parts."""


@dataclass
class Kinds:
    """The kinds of all spatial choices of a search space.

    Parameters
    ----------
    shares
        Figures of all tiles.
    stages
        What the fanouts between two levels may unroll.
    """

    shares: LeastShares
    stages: tuple[SpatialStage, ...]
    vectors: list[tuple[Vector, ...]] = field(default_factory=list)
    _numbers: dict[Kind, int] = field(default_factory=dict)
    _known: dict[tuple[int, int], frozenset[str]] = field(default_factory=dict)

    def number(self, fanouts: tuple[Vector, ...]) -> int:
        """The number of a kind, by the factors of all fanouts; `vectors` has some of the same kind."""
        kind = tuple(map(self._of_fanout, fanouts))
        if kind not in self._numbers:
            self._numbers[kind] = len(self.vectors)
            self.vectors.append(fanouts)
        return self._numbers[kind]

    def _of_fanout(self, vector: Vector) -> tuple[tuple[int, frozenset[str]], ...]:
        return tuple((axis, self._leaving(axis, factor)) for axis, factor in enumerate(vector) if factor > 1)

    def _leaving(self, axis: int, factor: int) -> frozenset[str]:
        key = axis, factor
        if key not in self._known:
            names = (name for name, own in self.shares.tensors.items() if axis in own.axes)
            found = frozenset(name for name in names if leaves_out(self.shares, name, axis, factor))
            self._known[key] = found
        return self._known[key]

    def numbers(self, members: Sequence[IntArray]) -> IntArray:
        """The kinds of several spatial choices, by stage the places of their members, of shape (rows,)."""
        own = [firsts[places] for (firsts, _), places in zip(self._by_stage, members, strict=True)]
        rows, inverse = np.unique(np.stack(np.broadcast_arrays(*own), axis=1), axis=0, return_inverse=True)
        numbers = [
            self.number(tuple(chain.from_iterable(self._by_stage[k][1][n] for k, n in enumerate(row))))
            for row in rows.tolist()
        ]
        return np.array(numbers, dtype=np.int64)[inverse.reshape(-1)]

    @cached_property
    def _by_stage(self) -> list[tuple[IntArray, list[tuple[Vector, ...]]]]:
        """By stage, the kind of each member, and vectors of each kind."""
        return [self._of_stage(stage) for stage in self.stages]

    def _of_stage(self, stage: SpatialStage) -> tuple[IntArray, list[tuple[Vector, ...]]]:
        known: dict[Kind, int] = {}
        vectors: list[tuple[Vector, ...]] = []
        places = list[int]()
        for number in range(len(stage.places)):
            own = tuple(choice.factors for choice in stage.member(number).choices)
            kind = tuple(map(self._of_fanout, own))
            if kind not in known:
                known[kind] = len(vectors)
                vectors.append(own)
            places.append(known[kind])
        return np.array(places, dtype=np.int64), vectors

    @cached_property
    def fits(self) -> list[BoolArray]:
        """Per fanout, whether the members of its stage fit its mesh if all children are needed."""
        found: list[BoolArray] = []
        columns = ((stage, column) for stage in self.stages for column in range(len(stage.fanouts)))
        for number, (stage, column) in enumerate(columns):
            choices, places = stage.fanouts[column], stage.places[:, column]
            able = [self._fits_mesh(number, tuple(own)) for own in choices.factors.tolist()]
            found.append(np.array(able, dtype=np.bool_)[places])
        return found

    def _fits_mesh(self, number: int, vector: Vector) -> bool:
        mapspace = self.shares.mapspace
        order = SideOrder.of(mapspace.spatial[number], mapspace.problem.dims)
        return fits_mesh(
            mapspace.architecture.fanouts[number], order, spatial_factors(self.shares.grid.dims, vector)
        )
