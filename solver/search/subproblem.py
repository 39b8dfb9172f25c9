"""One keep mask and one class of spatial choices: prices are constants, only tiles and orders are open."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from model.architecture import StorageLevel
from solver.search.lattice import IntArray
from solver.search.prices import BoundaryPrice, DataspaceFlow, PriceList, resources
from solver.search.space import KeepMask, SearchSpace
from solver.search.spatial import StageClass


@dataclass(frozen=True)
class Subproblem:
    """The mappings with one keep mask and one class of spatial choices per stage.

    ``spatial[l]`` belongs to the fanouts below level l. Prices are in multiples of ``quantum`` energy
    units, rounded down: nothing is lost while it divides all of them.
    """

    space: SearchSpace
    mask: KeepMask
    spatial: tuple[StageClass, ...]
    quantum: int = 1

    @cached_property
    def above(self) -> tuple[int, ...]:
        """Instances in use of each level, and of the compute."""
        return tuple(
            math.prod(s.units for s in self.spatial[:level]) for level in range(len(self.spatial) + 1)
        )

    def unused_above(self, place: int, level: int) -> int:
        """Product of the spatial factors above `level` that do not index dataspace `place`."""
        return math.prod(s.irrelevant[place] for s in self.spatial[:level])

    @cached_property
    def steps(self) -> int:
        """Cycles of the compute: product of all temporal bounds."""
        return self.space.problem.computes // self.above[-1]

    @cached_property
    def least_cycles(self) -> int:
        """Cycles that every mapping takes at least, network latencies included."""
        latency = sum(v.network_fill_latency + v.network_drain_latency for v in self.space.levels)
        return max(self.steps, self._fixed_load_cycles()) + latency

    def _fixed_load_cycles(self) -> int:
        most = max(self.base_loads, default=0.0)
        # Floating-point sums err by far less than this share.
        return math.ceil(most * (1 - 1e-12))

    @cached_property
    def prices(self) -> tuple[dict[int, BoundaryPrice], ...]:
        """Per dataspace, the price of each of its boundaries (by the level below)."""
        space = self.space
        paying = tuple(
            min(used, total // level.cluster_size)
            for used, total, level in zip(self.above, space.instances, space.levels, strict=False)
        )
        table = PriceList(space.levels, paying, resources(space.levels), self.quantum)
        return tuple(table.boundaries(self._flow(place)) for place in range(len(space.views)))

    def _flow(self, place: int) -> DataspaceFlow:
        space = self.space.views[place]
        words = int(self.space.tables[place].tile_words[-1])
        partition = [words]
        for stage in self.spatial[:-1]:
            shared = stage.units // stage.irrelevant[place] if space.simple else 1
            partition.append(partition[-1] // shared)
        return DataspaceFlow(
            space.name,
            space.read_write,
            self.space.chain(self.mask, place),
            tuple(stage.distinct[place] for stage in self.spatial),
            tuple(partition),
        )

    @cached_property
    def base_loads(self) -> tuple[float, ...]:
        """Load of each resource that the compute's own accesses cause, in cycles."""
        loads = [0.0] * len(resources(self.space.levels))
        for prices in self.prices:
            boundary = prices.get(len(self.space.levels))
            for term in boundary.loads if boundary else ():
                words = self.steps * term.multiplier - term.minus
                loads[term.resource] += words * term.cycles_per_word
        return tuple(loads)

    @cached_property
    def constant(self) -> int:
        """Energy units that all mappings here share at least: compute, its operands, leakage."""
        space = self.space
        compute = space.problem.computes * space.architecture.compute.energy
        operands = sum(
            prices[len(space.levels)].exact(self.steps)
            for prices in self.prices
            if len(space.levels) in prices
        )
        leak = sum(
            level.energy.leak_per_cycle * self._least_leaking(place, level) * self.least_cycles
            for place, level in enumerate(space.levels)
        )
        return compute + operands * self.quantum + leak

    def _least_leaking(self, place: int, level: StorageLevel) -> int:
        """Instances that leak at least; fewer than in truth only where a gate lies between two fanouts."""
        if level.gating_fanouts is None:
            return self.above[place]
        fanouts_above = 0
        gated_by = 0
        for stage, below in enumerate(self.space.fanouts_below[:place]):
            if fanouts_above + len(below) <= level.gating_fanouts:
                gated_by = stage + 1
            fanouts_above += len(below)
        behind = self.space.architecture.fanouts[level.gating_fanouts : fanouts_above]
        return max(self.above[place], self.above[gated_by] * math.prod(fanout.size for fanout in behind))

    def feasible(self, level: int) -> IntArray:
        """Lattice indices of the tiles that fit into `level` under this mask."""
        return self.space.feasible(level, self.space.tenants(self.mask, level))
