"""A subproblem as the lattice bounds see it: which tiles there are, and what delivering them costs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np

from solver.search.arrays import FloatArray, IntArray
from solver.search.goal import SLACK
from solver.search.space.keep_masks import KeepMask
from solver.search.space.prices import BoundaryPrice
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import Factors
from solver.search.space.windows import Unrolling


@dataclass(frozen=True)
class Subproblem(ABC):
    """Mappings with one keep mask, and one of their costs, which has a unit of its own.

    It may be their energy (`EnergySubproblem`, `SubproblemGroup`), the load of a bandwidth
    (`LoadSubproblem`), or a weighted sum of both (`MixedSubproblem`). Prices are in multiples of ``quantum``
    units, rounded down: nothing is lost while it divides all of them.

    Parameters
    ----------
    space
        What all subproblems share.
    mask
        Which level keeps which dataspaces.
    quantum
        Units of the cost per unit of prices and tables.
    """

    space: SearchSpace
    mask: KeepMask
    _: KW_ONLY
    quantum: int = 1

    @abstractmethod
    def on(self, space: SearchSpace) -> Self:
        """The same mappings in a space with the same spatial choices."""

    @property
    @abstractmethod
    def above(self) -> tuple[int, ...]:
        """Instances of each level, and of the compute, whose words are counted apart."""

    @abstractmethod
    def unused_above(self, place: int, level: int) -> int:
        """Product of the spatial factors above `level` that do not index dataspace `place`, at least."""

    def copies_above(self, place: int, level: int) -> int:
        """Instances of `level` that use the same words of dataspace `place`, at least."""
        return self.unused_above(place, level)

    @abstractmethod
    def unrolls(self, outer: int, inner: int) -> bool:
        """Whether any fanout between levels `outer` and `inner` is used."""

    @abstractmethod
    def share(self, place: int, level: int) -> tuple[int, int]:
        """What is counted at `level` of the words that deliver dataspace `place` once to all instances.

        Numerator and denominator of that part.
        """

    @abstractmethod
    def unrollings(self, level: int) -> tuple[int, ...]:
        """Lattice indices of the spatial factors below `level`, one of which is chosen."""

    @abstractmethod
    def unrolled(self, level: int) -> tuple[Factors, ...]:
        """Per dimension, all factors of the fanouts below `level` that some choice has."""

    @abstractmethod
    def least_used(self, level: int) -> Factors:
        """Per dimension, children of the fanouts below `level` that have something to do, at least."""

    @abstractmethod
    def unrolling(self, level: int) -> Unrolling:
        """Spatial factors of the window dimensions above `level` (not the outermost)."""

    @abstractmethod
    def feasible(self, level: int) -> IntArray:
        """Lattice indices of the tiles that fit into `level`, and leave room for the fanouts above.

        Returns
        -------
        IntArray
            Shape (tiles,), ascending; empty if nothing fits, and then no mapping is left.
        """

    def operands_beyond(self, tiles: IntArray) -> IntArray:
        """What serves the compute costs beyond the constant, at least, given tiles of the innermost level.

        Returns
        -------
        IntArray
            Quanta, shape (len(tiles),).
        """
        return np.zeros(len(tiles), dtype=np.int64)

    @property
    @abstractmethod
    def prices(self) -> tuple[dict[int, BoundaryPrice], ...]:
        """Per dataspace, the price of each of its boundaries (by the level below)."""

    @property
    @abstractmethod
    def constant(self) -> int:
        """What all mappings cost in common at least, in units."""

    def rounded_off(self, fewest: Mapping[tuple[int, int], int]) -> int:
        """Units that rounded prices leave out of every mapping's cost, at least."""
        del fewest  # most prices are exact, or bounds
        return 0

    @property
    def leak_per_cycle(self) -> int:
        """What each cycle adds to the cost, in units, at least."""
        return 0

    @property
    @abstractmethod
    def base_loads(self) -> FloatArray:
        """Load of each resource that the compute's own accesses cause, in cycles.

        Returns
        -------
        FloatArray
            Shape (resources,); empty where bandwidths are left out.
        """

    def loads_at(self, cost: int, loads: FloatArray) -> FloatArray:
        """Loads of mappings that cost `cost` units, and load resources with `loads` cycles at least.

        Parameters
        ----------
        loads
            Shape (resources,).
        """
        del cost  # it is no load, as a rule
        return loads

    @property
    @abstractmethod
    def steps(self) -> int:
        """Cycles of the compute, at least."""

    @property
    @abstractmethod
    def least_cycles(self) -> int:
        """Cycles that every mapping takes at least, network latencies included."""

    def cycles(self, loads: FloatArray) -> int:
        """Least cycles under these loads of the resources.

        Parameters
        ----------
        loads
            In cycles, shape (resources,); the busiest one counts.
        """
        # Floating-point sums err by far less than this share.
        busiest = math.ceil(float(loads.max(initial=0.0)) * SLACK)
        return max(self.steps, busiest) + self.space.latency

    @abstractmethod
    def model_cycles(self, delivered: Mapping[tuple[int, int], int]) -> int:
        """Cycles by the plain cost model, at least."""
