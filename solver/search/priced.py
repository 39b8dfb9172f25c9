"""Mappings with their exact costs, and skeletons: mappings but for the orders of their loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from solver.result import Priced
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import StageChoice

__all__ = ["Order", "Priced", "Skeleton"]

Order = tuple[str, ...]
"""Dimensions of temporal loops, innermost first."""


@dataclass(frozen=True)
class Skeleton:
    """All factors of a mapping: per level the temporal ones, per stage the spatial ones.

    ``temporal[l]`` runs along the active dimensions.

    Parameters
    ----------
    temporal
        Iterations per level, outermost first, and active dimension.
    spatial
        One per stage, outermost first.
    """

    space: SearchSpace
    mask: KeepMask
    temporal: tuple[tuple[int, ...], ...]
    spatial: tuple[StageChoice, ...]

    def mapping(self, orders: tuple[Order, ...]) -> Mapping:
        """The mapping with the loops of each level in these orders (innermost first)."""
        nodes: list[NodeMapping] = []
        views = self.space.views
        for level, order in enumerate(orders):
            factor = dict(zip(self.space.active, self.temporal[level], strict=True))
            loops = tuple(Loop(dim, factor[dim]) for dim in order)
            nodes.append(StorageMapping(loops, frozenset(views[p].name for p in self.mask[level])))
            nodes.extend(FanoutMapping(loops) for loops in self._spatial_loops(level))
        return Mapping(tuple(nodes))

    def _spatial_loops(self, level: int) -> Iterator[tuple[SpatialLoop, ...]]:
        """Loops of the fanouts below `level`, in the order that the user fixed, X before Y."""
        fanouts = self.space.fanouts_below[level]
        for number, choice in zip(fanouts, self.spatial[level].choices, strict=True):
            rules = self.space.mapspace.spatial[number]
            loose = [d for d in self.space.active if d not in rules.inner and d not in rules.outer]
            order = (*rules.inner, *loose, *rules.outer)
            loops = [
                SpatialLoop(dim, factor, "x" if d in choice.along_x else "y")
                for d, (dim, factor) in enumerate(zip(self.space.active, choice.factors, strict=True))
                if factor > 1
            ]
            yield tuple(sorted(loops, key=lambda loop: (loop.axis, order.index(loop.dim))))
