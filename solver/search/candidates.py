"""Subproblems in the queue of a search, from the survey's bounds to joint ones, and pairs of tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import TypeGuard

from solver.search.arrays import IntArray
from solver.search.bounds.lattice_bounds import AnyBounds, LatticeBounds, Survivors
from solver.search.branching.branch import LoadBounds
from solver.search.goal import UNLIMITED, Goal
from solver.search.stopping import Stop
from solver.search.subproblems.energies import EnergySubproblem
from solver.search.subproblems.groups import SubproblemGroup
from solver.search.subproblems.loads import Searchable, loaded
from solver.search.subproblems.mixes import Cost, MixedSubproblem, UnevenMix

WEIGHTS = (Fraction(1, 64), Fraction(1, 16), Fraction(1, 4), Fraction(1))
"""Weights of a cost beside another one, which are tried in turn."""


@dataclass(frozen=True)
class Sifted:
    """Tiles that several costs together leave, and the least weighted sums of them that were found.

    Parameters
    ----------
    within
        As of `LatticeBounds`.
    sums
        Lower bounds, in units of each sum.
    """

    within: Survivors
    sums: tuple[tuple[MixedSubproblem, int], ...]


def sift(
    costs: Sequence[Cost],
    leading: int,
    within: Survivors,
    pairwise: bool,
    stop: Stop,
    enough: Callable[[MixedSubproblem, int], bool],
) -> Sifted | None:
    """Tiles out of `within` that several costs together leave; None if they leave no mapping that improves.

    References
    ----------
    docs/search.md, "Bandwidths": joint bounds.
    """
    origin = costs[0].sub
    others = frozenset(range(len(costs))) - {leading}
    singles = [frozenset((number,)) for number in sorted(others)]
    # The energy, which is the first cost where it counts, and all costs together tell the most.
    groups = dict.fromkeys((*singles[:1], others, *singles))
    sums = []
    for beside, weight in product(groups, WEIGHTS):
        weights = tuple(
            Fraction(1) if number == leading else weight if number in beside else Fraction(0)
            for number in range(len(costs))
        )
        kind = UnevenMix if origin.space.uneven else MixedSubproblem
        mixed = kind(origin.space, origin.mask, origin.spatial, mixed=tuple(costs), weights=weights)
        bounds = LatticeBounds(mixed, mixed.limit, pairwise=pairwise, stop=stop, within=within)
        if bounds.empty or enough(mixed, bounds.least):
            return None
        within = bounds.survivors
        sums.append((mixed, bounds.least))
    return Sifted(within, tuple(sums))


@dataclass(frozen=True)
class Surveyed:
    """A subproblem in the queue, or a group of several, of which only the survey's bound is known.

    Parameters
    ----------
    numbers
        Places among all combinations of spatial classes.
    within
        Tiles that the bounds of a group leave to one of its parts.
    """

    sub: EnergySubproblem | SubproblemGroup
    numbers: IntArray
    within: Survivors | None = None

    @property
    def single(self) -> EnergySubproblem:
        """Its only subproblem."""
        assert isinstance(self.sub, EnergySubproblem)  # groups are bounded by energy only
        return self.sub


@dataclass(frozen=True)
class Unopened:
    """Cells in the queue that are opened when it is their turn: the agenda goes on with what is in them."""


@dataclass(frozen=True)
class Bounded:
    """A subproblem in the queue whose lattice was bounded.

    Parameters
    ----------
    bounds
        Those of the energy or, where only cycles count, of the busiest resource's load.
    loads
        Those of other resources, as far as they are at hand.
    within
        Tiles that all of them leave; None if only those of ``bounds`` are known.
    jointly
        Bound on the objective by sums of costs.
    tightened
        Whether a few nodes of branching did not settle it, and it was bounded once more after these.
    """

    sub: EnergySubproblem
    bounds: LatticeBounds[Searchable]
    loads: tuple[LoadBounds, ...] = ()
    within: Survivors | None = None
    jointly: int = 0
    tightened: bool = False

    def value(self, goal: Goal) -> int:
        """Bound on the objective by the lattices."""
        return max(self.jointly, goal.value(self.bounds.least, self.least_cycles))

    @property
    def least_cycles(self) -> int:
        """Bound on the cycles by the lattices."""
        return max(self.bounds.least_cycles, *(load.bounds.least_cycles for load in self.loads), 0)

    def value_with(self, mixed: MixedSubproblem, total: int, goal: Goal) -> int:
        """Bound on the objective if a weighted sum of costs is `total` or more."""
        energy = self.bounds.least if goal.counts_energy else 0
        return mixed.least_value(goal, total, energy, self.least_cycles)

    @property
    def survivors(self) -> Survivors:
        """Tiles that may be part of a mapping that improves."""
        return self.bounds.survivors if self.within is None else self.within

    def without_loads(self) -> Bounded:
        """The same to be kept for long: tables of many subproblems take memory."""
        return replace(self, loads=())


def of_one(bounds: AnyBounds) -> TypeGuard[LatticeBounds[EnergySubproblem]]:
    """Whether these are bounds of the energy of a single subproblem."""
    return isinstance(bounds.sub, EnergySubproblem)


Coming = Surveyed | Unopened

Candidate = Coming | Bounded


def decided_by(sub: EnergySubproblem, loads: Sequence[LoadBounds]) -> Bounded:
    """A subproblem of which only the cycles count, with the bounds of the busiest resource foremost.

    Of `loads`, each was bounded within the tiles that the one before it leaves.
    """
    busiest = max(loads, key=lambda load: load.bounds.least_cycles)
    others = tuple(load for load in loads if load is not busiest)
    return Bounded(sub, busiest.bounds, others, loads[-1].bounds.survivors)


def tightened(candidate: Bounded, goal: Goal, pairwise: bool, stop: Stop) -> Bounded | None:
    """Bound a candidate once more for the present incumbent, energy and loads together.

    Parameters
    ----------
    pairwise, stop
        As for `LatticeBounds`.

    Returns
    -------
    Bounded or None
        None if nothing in it can improve.
    """
    sub, within = candidate.sub, candidate.survivors
    if not goal.counts_energy:
        loads = _load_bounds(sub, goal, 0, within, pairwise, stop)
        if loads is None:
            return None
        bounded = replace(decided_by(sub, loads), jointly=candidate.jointly, tightened=pairwise)
        return _narrowed(bounded, goal, stop)
    # Few pairs of tiles are looked at: the incumbent leaves fewer than before.
    for by_pairs in (False, True) if pairwise else (False,):
        bounds = LatticeBounds(sub, sub.limit(goal), pairwise=by_pairs, stop=stop, within=within)
        if bounds.empty:
            return None
        within = bounds.survivors
    loads = _load_bounds(sub, goal, bounds.least, within, pairwise, stop)
    if loads is None:
        return None
    within = loads[-1].bounds.survivors if loads else bounds.survivors
    bounded = replace(candidate, bounds=bounds, loads=loads, within=within, tightened=pairwise)
    return _narrowed(bounded, goal, stop)


def _load_bounds(
    sub: EnergySubproblem, goal: Goal, energy: int, within: Survivors, pairwise: bool, stop: Stop
) -> tuple[LoadBounds, ...] | None:
    """Bounds on the loads of mappings that take `energy` or more; None if none of those is left."""
    if goal.counts_energy and goal.cycles_limit(energy) >= UNLIMITED:
        return ()
    loads: list[LoadBounds] = []
    for resource in (*range(len(sub.space.resources)), None):
        load = loaded(sub, resource, goal, energy)
        # Where no bandwidth decides the cycles, it is enough to know which mappings there are.
        superfluous = bool(loads) or goal.counts_energy if resource is None else load.idle(goal, energy)
        if superfluous:
            continue
        bounds = LatticeBounds(load, load.limit(goal, energy), pairwise=pairwise, stop=stop, within=within)
        if bounds.empty:
            return None
        loads.append(LoadBounds(load, bounds, energy))
        within = bounds.survivors
    return tuple(loads)


def _narrowed(candidate: Bounded, goal: Goal, stop: Stop) -> Bounded | None:
    """Bound a candidate with the tiles that its costs leave together; None if those are none."""
    bounds, loads = candidate.bounds, candidate.loads
    if not loads:
        return candidate
    lattices = [bounds, *(load.bounds for load in loads)]
    limits = [bounds.sub.limit(goal), *(load.limit(goal) for load in loads)]
    if any(limit >= UNLIMITED for limit in limits):
        return candidate
    costs = [Cost(lattice.sub, limit) for lattice, limit in zip(lattices, limits, strict=True)]
    rooms = [lattice.least / limit for lattice, limit in zip(lattices, limits, strict=True)]

    def enough(mixed: MixedSubproblem, total: int) -> bool:
        return goal.incumbent is not None and candidate.value_with(mixed, total, goal) >= goal.incumbent

    sifted = sift(costs, rooms.index(max(rooms)), candidate.survivors, bounds.pairwise, stop, enough)
    if sifted is None:
        return None
    within = sifted.within
    bounds = bounds.anew(limits[0], within, stop)
    loads = tuple(
        replace(load, bounds=load.bounds.anew(limit, within, stop))
        for load, limit in zip(loads, limits[1:], strict=True)
    )
    if bounds.empty or any(load.bounds.empty for load in loads):
        return None
    narrowed = replace(candidate, bounds=bounds, loads=loads, within=within)
    jointly = (narrowed.value_with(mixed, total, goal) for mixed, total in sifted.sums)
    return replace(narrowed, jointly=max(candidate.jointly, *jointly))
