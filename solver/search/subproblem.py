"""One keep mask and one class of spatial choices: prices are constants, only tiles and orders are open."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from model.architecture import StorageLevel
from model.cost.prices import level_cycles, network_latency, paying_instances
from solver.search.goal import SLACK, Goal, rounded_down
from solver.search.lattice import FloatArray, IntArray
from solver.search.prices import Action, BoundaryPrice, DataspaceFlow, PriceList, actions, resources
from solver.search.space import KeepMask, SearchSpace
from solver.search.spatial import StageClass
from solver.search.windows import Unrolling


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

    def unrolls(self, outer: int, inner: int) -> bool:
        """Whether any fanout between levels `outer` and `inner` is used."""
        return self.above[outer] != self.above[inner]

    def share(self, place: int, level: int) -> tuple[int, int]:
        """What each instance of `level` gets of the words that deliver dataspace `place` once to all of them.

        Numerator and denominator of that part.
        """
        return 1, self.above[level] // self.unused_above(place, level)

    def unrollings(self, level: int) -> tuple[int, ...]:
        """Lattice indices of the spatial factors below `level`, one of which is chosen."""
        lattice = self.space.lattice
        return tuple(dict.fromkeys(lattice.index(member.factors) for member in self.spatial[level].members))

    @cached_property
    def steps(self) -> int:
        """Cycles of the compute: product of all temporal bounds."""
        return self.space.problem.computes // self.above[-1]

    @cached_property
    def least_cycles(self) -> int:
        """Cycles that every mapping takes at least, network latencies included."""
        return self.cycles(self.base_loads)

    def cycles(self, loads: FloatArray) -> int:
        """Least cycles under these loads of the resources."""
        # Floating-point sums err by far less than this share.
        busiest = math.ceil(float(loads.max(initial=0.0)) * SLACK)
        return max(self.steps, busiest) + network_latency(self.space.architecture)

    def model_cycles(self, delivered: Mapping[tuple[int, int], int]) -> int:
        """Cycles by the plain cost model, at least.

        Its doubles, and what they round up to, never fall while words rise.

        Parameters
        ----------
        delivered
            The fewest words that each (dataspace, level) is delivered, per instance.
        """
        moved: list[dict[str, list[int]]] = [{} for _ in self.space.levels]
        for place, action in self._actions:
            words = delivered.get((place, action.boundary), self.steps)
            reads_and_writes = moved[action.level].setdefault(self.space.views[place].name, [0, 0])
            counted = max(0, words * int(action.multiplier) - int(action.minus))
            reads_and_writes[action.name != "read"] += counted
        slowest = max(
            level_cycles(level, self.steps, ((name, own[0], own[1]) for name, own in demands.items()))
            for level, demands in zip(self.space.levels, moved, strict=True)
        )
        return slowest + network_latency(self.space.architecture)

    @cached_property
    def _actions(self) -> tuple[tuple[int, Action], ...]:
        """All accesses, each with its dataspace."""
        places = range(len(self.space.views))
        return tuple((p, action) for p in places for action in actions(self.space.levels, self.flow(p)))

    def limit(self, goal: Goal) -> int:
        """Least cost, as prices have it, that can no longer improve."""
        return goal.energy_limit(self.least_cycles)

    def loads_at(self, cost: int, loads: FloatArray) -> FloatArray:
        """Loads of mappings that cost `cost`, as prices have it, and load resources with `loads` at least."""
        del cost  # energy is no load
        return loads

    def costs(self, least: IntArray, constant: int, busiest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Energy and cycles at least.

        Parameters
        ----------
        least, constant
            Bounds on the cost as prices have it: quanta beyond `constant`.
        busiest
            Bounds on the load of the busiest resource, in cycles.
        """
        latency = network_latency(self.space.architecture)
        least_busy = float(self.least_cycles - latency)
        busy = np.ceil(busiest * SLACK)
        # Beside long latencies nothing is left of the difference.
        waiting = np.maximum(busy - least_busy, 0.0) * float(self.leak_per_cycle)
        # Each is rounded once: then it is not above the double of any number of cycles that it bounds.
        cycles = np.maximum(busy + rounded_down(latency), float(self.least_cycles))
        return least * float(self.quantum) + float(constant) + waiting, cycles

    def improves(self, goal: Goal, least: int, cycles: int) -> bool:
        """Whether mappings may improve that cost `least`, as prices have it, and take `cycles`, or more."""
        cycles = max(cycles, self.least_cycles)
        return least + self.leak_per_cycle * (cycles - self.least_cycles) < goal.energy_limit(cycles)

    @cached_property
    def prices(self) -> tuple[dict[int, BoundaryPrice], ...]:
        """Per dataspace, the price of each of its boundaries (by the level below)."""
        space = self.space
        paying = tuple(
            paying_instances(level, total, used)
            for used, total, level in zip(self.above, space.instances, space.levels, strict=False)
        )
        table = PriceList(space.levels, paying, resources(space.levels), self.quantum)
        return tuple(table.boundaries(self.flow(place)) for place in range(len(space.views)))

    def flow(self, place: int) -> DataspaceFlow:
        """How the words of a dataspace spread."""
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
    def base_loads(self) -> FloatArray:
        """Load of each resource that the compute's own accesses cause, in cycles."""
        loads: FloatArray = np.zeros((1, len(resources(self.space.levels))))
        for prices in self.prices:
            if len(self.space.levels) in prices:
                prices[len(self.space.levels)].add_loads(np.array([self.steps]), loads)
        only: FloatArray = loads[0]
        return only

    @cached_property
    def leak_per_cycle(self) -> int:
        """Energy units that the instances in use leak per cycle, at least."""
        return sum(
            level.energy.leak_per_cycle * self._least_leaking(place, level)
            for place, level in enumerate(self.space.levels)
        )

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
        busy = self.least_cycles - network_latency(space.architecture)
        return compute + operands * self.quantum + self.leak_per_cycle * busy

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

    def unrolling(self, level: int) -> Unrolling:
        """Spatial factors of the window dimensions above `level` (not the outermost)."""
        return self.space.unrolling([stage.windows for stage in self.spatial[:level]])

    def feasible(self, level: int) -> IntArray:
        """Lattice indices of the tiles that fit into `level`, and leave room for the fanouts above."""
        tenants = self.space.tenants(self.mask, level)
        stages = {place: stage for place, stage in enumerate(self.spatial[:level]) if stage.units > 1}
        if not stages:
            return self.space.feasible(level, tenants)
        # Classes of two stages may have one key and different members.
        key = ("feasible", level, tenants, *((place, stage.key) for place, stage in stages.items()))
        fitting = self.space.feasible(level, tenants)
        return self.space.memo(key, lambda: self._leaving_room(fitting, stages.values()))

    def _leaving_room(self, tiles: IntArray, stages: Iterable[StageClass]) -> IntArray:
        """Those of `tiles` that some spatial choice of each stage can multiply within the bounds."""
        lattice = self.space.lattice
        for stage in stages:
            factors = {lattice.index(member.factors) for member in stage.members}
            tiles = tiles[lattice.leaving_room(tiles, factors)]
        return tiles
