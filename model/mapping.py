"""A mapping: the loops of every node of an architecture, and what each storage level keeps."""

from __future__ import annotations

from collections.abc import Mapping as Named
from dataclasses import dataclass
from typing import Literal

from model.extents import remainder_of

Axis = Literal["x", "y"]


@dataclass(frozen=True, slots=True)
class Loop:
    """A temporal loop over `dim` with `bound` iterations (at least 1)."""

    dim: str
    bound: int


@dataclass(frozen=True, slots=True)
class SpatialLoop:
    """A spatial loop over `dim`: `bound` children (at least 1) side by side along `axis`."""

    dim: str
    bound: int
    axis: Axis


@dataclass(frozen=True, slots=True)
class StorageMapping:
    """What a storage level does: its loops, innermost first, and what it keeps; all else bypasses it."""

    temporal: tuple[Loop, ...] = ()
    keep: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FanoutMapping:
    """Spatial loops of a fanout, innermost first."""

    spatial: tuple[SpatialLoop, ...] = ()


NodeMapping = StorageMapping | FanoutMapping


@dataclass(frozen=True, slots=True)
class Mapping:
    """One entry per node of the architecture, in the same order (outermost first).

    Loops of bound 1 may be left out. A dimension's bounds over all loops multiply to the problem's bound, or
    the outermost one is what the others leave of it, rounded up: then the last passes are cut short.
    """

    nodes: tuple[NodeMapping, ...]

    def remainders(self, bounds: Named[str, int]) -> tuple[tuple[int, ...], ...]:
        """Return how many iterations every loop has in the last pass over its dimension.

        Parameters
        ----------
        bounds
            Of the problem's dimensions.

        Returns
        -------
        tuple of tuple of int
            Per node, in the order of its loops: the loop's bound where nothing is cut short.
        """
        inner = dict.fromkeys(bounds, 1)
        found: list[tuple[int, ...]] = []
        for node in reversed(self.nodes):
            own: list[int] = []
            for loop in node.temporal if isinstance(node, StorageMapping) else node.spatial:
                own.append(remainder_of(bounds[loop.dim], inner[loop.dim], loop.bound))
                inner[loop.dim] *= loop.bound
            found.append(tuple(own))
        return tuple(reversed(found))

    def divides(self, bounds: Named[str, int]) -> bool:
        """Whether the factors of each dimension multiply to its bound, so that no last pass is short."""
        products = dict.fromkeys(bounds, 1)
        for node in self.nodes:
            for loop in node.temporal if isinstance(node, StorageMapping) else node.spatial:
                products[loop.dim] *= loop.bound
        return all(products[dim] == bound for dim, bound in bounds.items())

    @property
    def temporal_loops(self) -> int:
        """Number of temporal loops with a bound above 1."""
        levels = (node.temporal for node in self.nodes if isinstance(node, StorageMapping))
        return sum(loop.bound > 1 for loops in levels for loop in loops)
