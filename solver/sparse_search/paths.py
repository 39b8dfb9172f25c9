"""The search along paths for sparse data: tiles that fit, loops that formats have ranks for, and charges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from model.architecture import Fanout, StorageLevel
from model.mapspace import Mapspace
from model.rules import Locality
from solver.search.arrays import BoolArray
from solver.search.path.axes import SlotLoops
from solver.search.path.charges import Charge, Charges
from solver.search.path.frame import TileFrame
from solver.search.path.search import EinsumSearch
from solver.search.space.keep_masks import Chain, KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import SpatialStage
from solver.search.stopping import Stop
from solver.sparse_search.charges import Figures, SparseCharges
from solver.sparse_search.choices import always_kept, packs
from solver.sparse_search.grid import ONE, TileGrid
from solver.sparse_search.instances import Kinds
from solver.sparse_search.leaves import Judge, SparseLeaves
from solver.sparse_search.shares import LeastShares, skips_instances

WIDEST = 1 << 31
"""Children along one side of a fanout, at most, where units skip some."""


@dataclass(frozen=True)
class _Widened(SearchSpace):
    """Fanouts unroll as many as `wide` ones do."""

    wide: SearchSpace = field(kw_only=True)

    @cached_property
    def stages(self) -> tuple[SpatialStage, ...]:
        """See `SearchSpace`."""
        return self.wide.stages


def without_capacities(mapspace: Mapspace, stop: Stop) -> SearchSpace:
    """A search space whose levels hold everything: what compressed tiles take is known elsewhere.

    Where units skip instances, fanouts may unroll more than they have children. Of the rules of the user's
    own it knows those about fanouts.
    """
    architecture = mapspace.architecture
    fanouts = (Locality("spatial", fanout.name) for fanout in architecture.fanouts)
    mapspace = replace(mapspace, rules=tuple(rule for own in fanouts for rule in mapspace.rules_on(own)))
    nodes = tuple(
        replace(node, size_words=None, min_utilization=type(node.min_utilization)(0))
        if isinstance(node, StorageLevel)
        else node
        for node in architecture.nodes
    )
    roomy = replace(mapspace, architecture=replace(architecture, nodes=nodes))
    if not skips_instances(mapspace):
        return SearchSpace(roomy, stop=stop)
    most = min(mapspace.problem.computes, WIDEST)
    wide = (replace(node, mesh_x=most, mesh_y=most) if isinstance(node, Fanout) else node for node in nodes)
    other = replace(mapspace, architecture=replace(architecture, nodes=tuple(wide)))
    return _Widened(roomy, stop=stop, wide=SearchSpace(other, stop=stop))


@dataclass(frozen=True)
class SparseFrame(TileFrame):
    """What tables share where data are sparse.

    Parameters
    ----------
    mapspace
        With the capacities of its levels.
    """

    mapspace: Mapspace = field(kw_only=True)

    def under(self, mask: KeepMask) -> TileFrame:
        """All loops, whatever is kept: formats and units see at which level each of them stands."""
        return self

    @cached_property
    def least_shares(self) -> LeastShares:
        """Figures of all tiles."""
        return LeastShares(self.mapspace, TileGrid(self.mapspace.problem, self.axes))

    @cached_property
    def figures(self) -> Figures:
        """What sparse data leave, by tile."""
        live = tuple(loops.live for loops in self.loops)
        return Figures(
            self.least_shares, self.least_shares.grid, Kinds(self.least_shares, self.space.stages), live
        )

    @cached_property
    def loops(self) -> tuple[SlotLoops, ...]:
        """By slot: those that rules and formats leave."""
        without = self._without_rank
        return tuple(
            SlotLoops(
                self.axes,
                [own & ONE if d in without[level] else own for d, own in enumerate(slot)],
            )
            for level, slot in enumerate(self.space.loop_factors)
        )

    @cached_property
    def _without_rank(self) -> tuple[frozenset[int], ...]:
        """Per level, dimensions whose loops find no rank in a dataspace that is always there."""
        shares = self.least_shares
        found: list[set[int]] = [set() for _ in self.space.levels]
        for name in shares.tensors:
            for level in always_kept(self.mapspace, shares.sparsity, name):
                found[level] |= shares.without_rank(name, level)
        return tuple(map(frozenset, found))

    @cached_property
    def outermost(self) -> None:
        """Not known."""

    def fits(self, level: int, kept: frozenset[int]) -> BoolArray:
        """Which numbers of tiles `level` has room for, shape `shape`; user-defined rules hold."""
        if (level, kept) not in self._fits:
            names = [self.space.views[place].name for place in kept]
            self._fits[level, kept] = np.broadcast_to(self.least_shares.within(level, names), self.shape)
        return self._fits[level, kept]


@dataclass(frozen=True, eq=False)
class SparseData:
    """What all searches of one mapspace share.

    Parameters
    ----------
    mapspace
        Its data are sparse.
    judge
        The cost model.
    space
        Without capacities, see `unlimited`.
    """

    mapspace: Mapspace
    judge: Judge
    space: SearchSpace

    @cached_property
    def frame(self) -> SparseFrame:
        """Axes, and the tiles that fit."""
        return SparseFrame(self.space, mapspace=self.mapspace)

    @cached_property
    def _shared(self) -> dict[tuple[int, Chain], tuple[Charge, ...]]:
        return {}

    @cached_property
    def _charges(self) -> dict[KeepMask, SparseCharges]:
        return {}

    def charges(self, mask: KeepMask) -> SparseCharges:
        """What expected words cost under a mask."""
        if mask not in self._charges:
            self._charges[mask] = SparseCharges(self.space, mask, self._shared, figures=self.frame.figures)
        return self._charges[mask]

    def packs(self, mask: KeepMask) -> bool:
        """Whether levels can pack and unpack what they exchange."""
        sparsity = self.frame.least_shares.sparsity
        chains = zip(self.space.views, self.space.chains(mask), strict=True)
        return all(packs(self.mapspace, sparsity, view.name, chain) for view, chain in chains)


@dataclass
class SparsePaths(EinsumSearch):
    """The search for one objective.

    Parameters
    ----------
    data
        What all searches share; the search space is its own.
    """

    data: SparseData = field(kw_only=True)

    def _framed(self) -> TileFrame:
        """The frame with what compressed tiles take."""
        return self.data.frame

    def _charges(self, mask: KeepMask) -> Charges:
        """What expected words cost."""
        return self.data.charges(mask)

    def _pricing(self) -> SparseLeaves:
        """What prices complete paths."""
        data = self.data
        return SparseLeaves(data.space, data.mapspace, data.charges, data.judge, self.goal, self.shared.stop)

    def _without_search(self) -> int:
        """Nothing is known at once."""
        return 0

    def _masks(self) -> Iterator[KeepMask]:
        """Those whose levels can pack and unpack what they exchange."""
        return filter(self.data.packs, super()._masks())
