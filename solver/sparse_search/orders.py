"""Orders of loops that sparse data tell apart, which of them formats have ranks for, and spatial loops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from model.sparse.fibers import has_ranks_for
from solver.search.path.orders import Dims, Orders, Slot
from solver.search.path.ruled import gaps
from solver.search.space.dataspaces import DataspaceView
from solver.search.space.search_space import SearchSpace
from solver.sparse_search.choices import Chain, Chains
from solver.sparse_search.grid import TensorGrid, Vector
from solver.sparse_search.shares import LeastShares

ORDERED = ("innermost", "energy", "cycles")
"""Quantities of rules that loops in another order may change."""


class SparseOrders(Orders):
    """The orders of each level's loops, by who keeps what.

    Parameters
    ----------
    space
        Its rules decide which orders there are.
    shares
        What sparse data leave.
    chains
        Who keeps what.
    """

    def __init__(self, space: SearchSpace, shares: LeastShares, chains: Chains) -> None:
        super().__init__(space)
        self.shares, self.chains = shares, chains
        self._tensors = tuple(shares.tensors.values())
        self._depth = len(shares.levels)

    def _is_settled(self, slot: Slot, views: Sequence[DataspaceView], first: Sequence[str]) -> bool:
        """Never: formats and units see all loops."""
        del slot, views, first
        return False

    def _seen(self, level: int, order: Dims) -> tuple[object, ...]:
        """What rules, formats, units and Timeloop's rule see of an order of a slot."""
        kind: list[object] = [order if self._is_asked_for else ()]
        for tensor in self._tensors:
            name, own = tensor.space.name, self.chains[tensor.space.name]
            run, mover = _until_moved(order, tensor.axes)
            moving = tuple(axis for axis in order if axis in tensor.axes)
            keeper = max((k for k in own if k <= level), default=None)
            kind.append(() if keeper is None else moving[: self._shaping(name, keeper, moving)])
            if self._is_seen(name, level):
                kind.append((run, mover))
            if not self._is_exact and not tensor.simple and any(k > level for k in own):
                kind.append(gaps(order, tensor.axes))
        if level == self._depth - 1 and self._in_blocks:
            kind.append((order[:1], len(order)))
        return tuple(kind)

    @property
    def _is_exact(self) -> bool:
        """Whether words are those that an execution moves."""
        return self.shares.mapspace.counting_rule.is_executed

    @cached_property
    def _is_asked_for(self) -> bool:
        """Whether rules tell orders apart, other than by limits on costs."""
        parts = (
            part for rule in self.shares.mapspace.rules for part in rule.parts if part.cost_limit is None
        )
        return any(asked.kind in ORDERED for part in parts for asked in part.quantities)

    @cached_property
    def _in_blocks(self) -> bool:
        """Whether units see more than one word at a time of what serves the arithmetic."""
        return any(
            self.shares.levels[saver.place].packing_of(name).block_size > 1
            for name, own in self.chains.items()
            for saver in self.shares.savers(name, own)
        )

    def _shaping(self, name: str, keeper: int, moving: Sequence[int]) -> int | None:
        """Innermost loops of a node whose order shapes ranks of a level's tiles; None if all do.

        Ranks that are left over reach from the innermost loop outwards. Where a dimension has no loop at the
        node, a loop of bound 1 is innermost.
        """
        representation = self.shares.representation(keeper, name)
        if representation is None:
            return 0
        own = self.shares.tensors[name].space.dims
        flat = all(
            own <= {dim for group in rank.flattened for dim in group} and len(rank.flattened) == 1
            for rank in representation.ranks
        )
        if representation.inner_to_outer or not flat:
            return None
        return 1 if len(representation.ranks) > 1 and len(moving) == len(own) else 0

    def _is_seen(self, name: str, level: int) -> bool:
        """Whether units see which loops of a slot leave a dataspace in place."""
        own = self.chains[name]
        for saver in self.shares.savers(name, own):
            child = next((k for k in own if k > saver.place), None)
            if child is not None and saver.place <= level < child:
                return True
        return False

    # ----------------------------------------------------------------------------------------- formats

    def are_held(
        self,
        level: int,
        tile: Vector,
        slots: Sequence[Sequence[tuple[int, int]]],
        fanouts: Sequence[Vector],
    ) -> bool:
        """Whether formats have ranks for all loops outside of what comes to a level, as far as is known.

        Parameters
        ----------
        level, tile
            The level, or the arithmetic, and its tile.
        slots
            Dimensions and bounds of the loops of all levels outside, outermost level first, innermost loop
            first.
        fanouts
            Spatial factors.
        """
        return all(self._has_ranks(tensor, level, tile, slots, fanouts) for tensor in self._tensors)

    def _has_ranks(
        self,
        tensor: TensorGrid,
        level: int,
        tile: Vector,
        slots: Sequence[Sequence[tuple[int, int]]],
        fanouts: Sequence[Vector],
    ) -> bool:
        own = self.chains[tensor.space.name]
        outer = max((keeper for keeper in own if keeper < level), default=None)
        if outer is None or (level < self._depth and level not in own):
            return True
        representation = self.shares.representation(outer, tensor.space.name)
        if representation is None or not representation.compressed:
            return True
        dims = self._moving_dims(tensor, range(outer, level), slots, fanouts)
        return dims is None or has_ranks_for(representation, dims, self._copied_ranks(tensor, level, tile))

    def _moving_dims(
        self,
        tensor: TensorGrid,
        levels: range,
        slots: Sequence[Sequence[tuple[int, int]]],
        fanouts: Sequence[Vector],
    ) -> list[str] | None:
        """Dimensions of the loops of some levels that move a dataspace, outermost first; None if open."""
        found: list[int] = []
        for level in levels:
            found += [axis for axis, _ in reversed(slots[level]) if axis in tensor.axes]
            unrolled = (fanouts[fanout] for fanout in self.shares.fanouts_between(level, level + 1))
            live = [[axis for axis in tensor.axes if factors[axis] > 1] for factors in unrolled]
            if any(len(axes) > 1 for axes in live):
                return None
            found += chain.from_iterable(live)
        return [self.shares.grid.dims[axis] for axis in found]

    def _copied_ranks(self, tensor: TensorGrid, level: int, tile: Vector) -> int:
        """Ranks that a compressed level has in common with the next inner one, which has a tile."""
        extents = tuple(np.array([own]) for own in tile)
        if level == self._depth or tensor.words_of(extents).max() == 1:
            return 0
        inner = self.shares.representation(level, tensor.space.name)
        return 1 if inner is None else len(inner.ranks)

    def is_crossed(self, fanout: int, factors: Vector) -> bool:
        """Whether formats or units see the order of a fanout's loops."""
        return any(self._crosses(name, own, fanout, factors) for name, own in self.chains.items())

    def _crosses(self, name: str, own: Chain, fanout: int, factors: Vector) -> bool:
        units = {saver.place for saver in self.shares.savers(name, own)}
        moving = [axis for axis in self.shares.tensors[name].axes if factors[axis] > 1]
        return any(
            fanout in self.shares.fanouts_between(keeper, child)
            for keeper, child in zip(own, (*own[1:], self._depth), strict=True)
            if keeper in units or self._shaping(name, keeper, moving) != 0
        )


def _until_moved(order: Dims, axes: Sequence[int]) -> tuple[frozenset[int], int | None]:
    """The innermost loops that leave a dataspace in place, and the first one that does not."""
    for n, axis in enumerate(order):
        if axis in axes:
            return frozenset(order[:n]), axis
    return frozenset(order), None
