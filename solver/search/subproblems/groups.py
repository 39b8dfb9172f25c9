"""Several subproblems of one keep mask, bounded together: one lattice may settle hundreds of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.goal import Goal
from solver.search.space.grid import ROUNDED_DOWN, ROUNDED_UP, SpatialGrid
from solver.search.space.keep_masks import KeepMask
from solver.search.space.prices import Action, BoundaryPrice, LinearPrice
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import Factors
from solver.search.space.windows import Unrolling
from solver.search.subproblems.energies import EnergySubproblem, UnevenSubproblem
from solver.search.subproblems.subproblem import Subproblem


@dataclass(frozen=True, kw_only=True)
class SubproblemGroup(Subproblem):
    """The mappings of several subproblems of one keep mask, with prices that none of them undercuts.

    Words are those of all instances together, so that the spatial choices may use any number of them: each
    combination of ``grid`` has its own classes. Every mapping takes
    ``fewest_cycles`` or more, as far as is known.

    Parameters
    ----------
    grid
        The combinations of spatial classes of the members, one at least.
    fewest_cycles
        Network latencies included.

    References
    ----------
    docs/search.md, "Groups", says why no member undercuts these prices.
    """

    grid: SpatialGrid
    fewest_cycles: int = 0

    def on(self, space: SearchSpace) -> Self:
        """The same mappings in a space with the same spatial choices."""
        return replace(self, space=space, grid=SpatialGrid(space, self.grid.choices))

    @cached_property
    def above(self) -> tuple[int, ...]:
        """One of each level: its instances count together."""
        return (1,) * (len(self.space.levels) + 1)

    def unused_above(self, place: int, level: int) -> int:
        """Product of the least factors, stage by stage above `level`, that do not index dataspace `place`."""
        chosen = zip(self.space.stage_tables[:level], self._classes[:level], strict=True)
        return math.prod(int(table.irrelevant[place, classes].min()) for table, classes in chosen)

    def unrolls(self, outer: int, inner: int) -> bool:
        """Whether any fanout between levels `outer` and `inner` is used by any of the subproblems."""
        return bool((self.grid.above[outer] != self.grid.above[inner]).any())

    def share(self, place: int, level: int) -> tuple[int, int]:
        """All instances together get as many copies as there are instances that use the same words."""
        return self.copies_above(place, level), 1

    def copies_above(self, place: int, level: int) -> int:
        """Instances of `level` that use the same words of a dataspace, at least."""
        if not self.space.uneven:
            return self.unused_above(place, level)
        return math.floor(float(self.grid.copies_above[place][level].min()))

    def unrollings(self, level: int) -> tuple[int, ...]:
        """Lattice indices of the spatial factors below `level`, one of which is chosen."""
        return tuple(self._unrollings[level].tolist())

    @cached_property
    def _classes(self) -> tuple[IntArray, ...]:
        """Per stage, the places of the classes that any subproblem has."""
        return tuple(np.unique(own) for own in self.grid.choices)

    @cached_property
    def _unrollings(self) -> tuple[IntArray, ...]:
        stages = zip(self.space.stage_tables, self._classes, strict=True)
        by_stage = ([table.unrollings(members) for members in classes] for table, classes in stages)
        return tuple(np.unique(np.concatenate(unrollings)) for unrollings in by_stage)

    @cached_property
    def steps(self) -> int:
        """Cycles of the compute, at least."""
        return math.floor(float(self.grid.steps.min()))

    @cached_property
    def least_cycles(self) -> int:
        """Cycles that every mapping takes at least."""
        return max(self.steps + self.space.latency, self.fewest_cycles)

    def model_cycles(self, delivered: Mapping[tuple[int, int], int]) -> int:
        """Cycles at least: bandwidths are left to the subproblems themselves."""
        del delivered
        return self.least_cycles

    @cached_property
    def base_loads(self) -> FloatArray:
        """Those of no resource, shape (0,): they are left to the subproblems, too."""
        return np.zeros(0)

    def limit(self, goal: Goal) -> int:
        """Least energy that can no longer improve."""
        return goal.energy_limit(self.least_cycles)

    @cached_property
    def prices(self) -> tuple[dict[int, BoundaryPrice], ...]:
        """Per dataspace, the least price of the words of all instances, by the level below each boundary."""
        return tuple(self._least_prices(place) for place in range(len(self.space.views)))

    def _least_prices(self, place: int) -> dict[int, BoundaryPrice]:
        steady: dict[int, FloatArray] = defaultdict(lambda: np.zeros(len(self.grid)))
        reduced: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for action in self._actions_of(place):
            if action.boundary == len(self.space.levels):
                continue
            price = self.grid.price(place, action) / self.quantum
            rates = price * action.multiplier / self.grid.above[action.boundary]
            # Where something is subtracted, it counts for each action alone.
            subtracted = price * action.minus
            alone = bool(np.any(subtracted))
            steady[action.boundary] += 0 if alone else rates
            if alone:
                rate, minus = rates.min() * ROUNDED_DOWN, subtracted.max() * ROUNDED_UP
                reduced[action.boundary].append((float(rate), float(minus)))
        return {
            boundary: LinearPrice((), (), ((float(rates.min() * ROUNDED_DOWN), 0.0), *reduced[boundary]))
            for boundary, rates in steady.items()
        }

    def _actions_of(self, place: int) -> Iterator[Action]:
        accesses = self.space.accesses(place, self.space.chain(self.mask, place))
        return map(self.grid.spreads[place].action, accesses)

    @cached_property
    def constant(self) -> int:
        """Energy units that all mappings spend at least, whatever their tiles: compute, operands, leakage."""
        compute = self.space.problem.computes * self.space.architecture.compute.energy
        rest = self.grid.leak_per_cycle * self.grid.steps - self.space.unrounded(self._most_leakage)
        for place in range(len(self.space.views)):
            rest = rest + self._operands(place)
        return compute + math.floor(float(rest.min()) * ROUNDED_DOWN)

    @cached_property
    def _most_leakage(self) -> int:
        return math.ceil(float(self.grid.leak_per_cycle.max()))

    def _operands(self, place: int) -> FloatArray:
        """Energy of what serves the compute with a dataspace, at least, per subproblem."""
        energy = np.zeros(len(self.grid))
        for action in (paid for paid in self._actions_of(place) if paid.boundary == len(self.space.levels)):
            words = self.grid.computes_each * action.multiplier - ROUNDED_UP * action.minus
            energy += self.grid.price(place, action) * np.maximum(words, 0.0)
        return energy

    def unrolled(self, level: int) -> tuple[Factors, ...]:
        """As of `Subproblem`."""
        return self._unrolled[level]

    @cached_property
    def _unrolled(self) -> tuple[tuple[Factors, ...], ...]:
        stages = zip(self.space.stages, self._classes, strict=True)
        return tuple(stage.unrolled_by(own) for stage, own in stages)

    def least_used(self, level: int) -> Factors:
        """As of `Subproblem`."""
        own = self.space.stage_tables[level].least_used[self._classes[level]]
        return tuple(own.min(axis=0).tolist())

    def unrolling(self, level: int) -> Unrolling:
        """What the spatial factors of the window dimensions above `level` have in common."""
        chosen = list(zip(self.space.stages[:level], self._classes[:level], strict=True))
        shared = np.minimum if self.space.uneven else np.gcd
        common = [tuple(shared.reduce(stage.windows[own], axis=0).tolist()) for stage, own in chosen]
        every = [self.unrolled(number) for number in range(level)]
        return self.space.unrolling(common, every, [self.least_used(number) for number in range(level)])

    def feasible(self, level: int) -> IntArray:
        """Lattice indices of the tiles that fit into `level`, and leave room for the fanouts above."""
        tiles = self.space.feasible(level, self.space.tenants(self.mask, level))
        for room in self._rooms[:level]:
            tiles = tiles if room is None else tiles[room[tiles]]
        return tiles

    @cached_property
    def _rooms(self) -> tuple[BoolArray | None, ...]:
        """Per stage, which tiles leave room for some spatial choice; None where all do."""
        room_left = self.space.lattice.room_left
        return tuple(None if own[0] == 0 else room_left(own) for own in self._unrollings)


def together(
    grid: SpatialGrid, mask: KeepMask, quantum: int, fewest_cycles: int = 0
) -> EnergySubproblem | SubproblemGroup:
    """The subproblem of the only combination of `grid`, or the group of those of all of them."""
    if len(grid) == 1:
        kind = UnevenSubproblem if grid.space.uneven else EnergySubproblem
        return kind(grid.space, mask, grid.spatial(0), quantum=quantum)
    return SubproblemGroup(grid.space, mask, quantum=quantum, grid=grid, fewest_cycles=fewest_cycles)
