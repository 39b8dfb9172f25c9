"""Several subproblems of one keep mask, bounded together: one lattice may settle hundreds of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import islice, product

import numpy as np

from model.extents import PERFECT
from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.goal import Goal
from solver.search.space.grid import ROUNDED_DOWN, ROUNDED_UP, SpatialGrid
from solver.search.space.keep_masks import KeepMask
from solver.search.space.prices import Action, BoundaryPrice, LinearPrice
from solver.search.space.spatial import StageClass
from solver.search.space.windows import Unrolling
from solver.search.subproblems.energies import EnergySubproblem
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
        return self.unused_above(place, level), 1

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
        by_stage = ([table.unrollings[members] for members in classes] for table, classes in stages)
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
        rest = self.grid.leak_per_cycle * self.grid.steps
        for place in range(len(self.space.views)):
            rest = rest + self._operands(place)
        return compute + math.floor(float(rest.min()) * ROUNDED_DOWN)

    def _operands(self, place: int) -> FloatArray:
        """Energy of what serves the compute with a dataspace, at least, per subproblem."""
        energy = np.zeros(len(self.grid))
        for action in (paid for paid in self._actions_of(place) if paid.boundary == len(self.space.levels)):
            words = self.grid.steps * action.multiplier - ROUNDED_UP * action.minus
            energy += self.grid.price(place, action) * np.maximum(words, 0.0)
        return energy

    def unrolling(self, level: int) -> Unrolling:
        """What the spatial factors of the window dimensions above `level` have in common."""
        chosen = zip(self.space.stages[:level], self._classes[:level], strict=True)
        windows = ([stage[own].windows for own in classes] for stage, classes in chosen)
        common = [reduce(lambda one, other: tuple(map(math.gcd, one, other)), own) for own in windows]
        return self.space.unrolling(common)

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


@dataclass(frozen=True, kw_only=True)
class UnevenSubproblem(SubproblemGroup):
    """The mappings of one combination where loops may have remainders.

    Instances do different amounts of work, so that words are counted over all of them, as in a group.
    """

    @cached_property
    def spatial(self) -> tuple[StageClass, ...]:
        """The spatial classes, one per stage."""
        return self.grid.spatial(0)

    def cost(self, place: int, boundary: int, arriving: IntArray, asked: IntArray) -> IntArray:
        """Cost of words that arrive at a boundary, and of those that the level outside is asked for."""
        total = np.zeros(len(arriving), dtype=np.int64)
        for per_child, rate, free in self._rates[place, boundary]:
            total += np.maximum((asked if per_child else arriving) - free, 0) * rate
        return total // self.quantum

    @cached_property
    def _rates(self) -> dict[tuple[int, int], list[tuple[bool, int, int]]]:
        """Per dataspace and boundary: whether it is the level outside that acts, units per word, free words."""
        found = defaultdict(list)
        for view in self.space.views:
            chain = self.space.chain(self.mask, view.place)
            for access in self.space.accesses(view.place, chain):
                level = self.space.levels[access.level]
                rate = getattr(level.energy, access.name)
                words = int(self.space.tables[view.place].tile_words[-1])
                copies = math.prod(
                    max(member.factors[d] for member in stage.members)
                    for stage in self.spatial[: access.level] for d in view.irrelevant
                )
                free = words * copies if access.first_touch_free else 0
                found[view.place, access.boundary].append((access.per_child, rate, free))
        return found

    @cached_property
    def constant(self) -> int:
        """Energy units that all mappings spend at least."""
        compute = self.space.problem.computes * self.space.architecture.compute.energy
        return compute + sum(self._operand_energy(place) for place in range(len(self.space.views)))

    def _operand_energy(self, place: int) -> int:
        """Energy of what serves the compute with a dataspace: rounds that are cut short count in full."""
        view, depth = self.space.views[place], len(self.space.levels)
        if (place, depth) not in self._rates:
            return 0
        if view.window_dims:
            return math.floor(float(super()._operands(place)[0]) * ROUNDED_DOWN)
        parent, bounds = self.space.chain(self.mask, place)[-1], self.space.lattice.bounds
        combos = product(*(stage.members for stage in self.spatial[parent:]))
        least = min(
            math.prod(
                -(-bounds[d] // math.prod(member.factors[d] for member in combo)) for d in view.irrelevant
            )
            for combo in islice(combos, 64)
        )
        words = np.array([least * math.prod(bounds[d] for d in view.relevant)])
        return int(self.cost(place, depth, words, words)[0]) * self.quantum

    def costs(self, least: IntArray, constant: int, busiest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Energy and cycles at least."""
        energies = least * float(self.quantum) + float(constant)
        return energies, np.full(len(least), float(self.least_cycles))

    def improves(self, goal: Goal, least: int, cycles: int) -> bool:
        """Whether mappings may improve that take `least` energy units and `cycles`, or more."""
        return least < goal.energy_limit(max(cycles, self.least_cycles))


def together(
    grid: SpatialGrid, mask: KeepMask, quantum: int, fewest_cycles: int = 0
) -> EnergySubproblem | SubproblemGroup:
    """The subproblem of the only combination of `grid`, or the group of those of all of them."""
    if len(grid) == 1 and grid.space.mapspace.factors == PERFECT:
        return EnergySubproblem(grid.space, mask, grid.spatial(0), quantum=quantum)
    if len(grid) == 1:
        return UnevenSubproblem(grid.space, mask, quantum=quantum, grid=grid, fewest_cycles=fewest_cycles)
    return SubproblemGroup(grid.space, mask, quantum=quantum, grid=grid, fewest_cycles=fewest_cycles)
