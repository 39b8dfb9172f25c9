"""Subproblems in the queue of a search, with the bounds of their energy and their loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from solver.search.bounds import LatticeBounds, Survivors
from solver.search.goal import UNLIMITED, Goal
from solver.search.lattice import IntArray
from solver.search.loads import LoadBounds, loaded
from solver.search.mixes import Cost, sift
from solver.search.prices import resources
from solver.search.stopping import Stop
from solver.search.subproblem import Subproblem


@dataclass(frozen=True)
class Candidate:
    """A subproblem in the queue: surveyed (and the next of `rest` follows it), or bounded already.

    It may be a group of several; ``numbers`` are their places among all combinations of spatial classes.
    ``bounds`` are those of the energy or, where only cycles count, of the busiest resource's load.
    ``loads`` are those of other resources, as far as they are at hand, and ``within`` the tiles that all
    of them leave, or that those of a group leave to one of its parts. ``jointly`` bounds the objective by
    sums of costs.
    """

    sub: Subproblem
    numbers: IntArray
    rest: Iterator[tuple[int, Candidate]] | None = None
    bounds: LatticeBounds | None = None
    loads: tuple[LoadBounds, ...] = ()
    within: Survivors | None = None
    jointly: int = 0

    def value(self, goal: Goal) -> int:
        """Bound on the objective by the lattices."""
        assert self.bounds is not None  # of a surveyed candidate the survey knows it
        return max(self.jointly, goal.value(self.bounds.least, self.least_cycles))

    @property
    def least_cycles(self) -> int:
        """Bound on the cycles by the lattices."""
        assert self.bounds is not None
        return max(self.bounds.least_cycles, *(own.bounds.least_cycles for own in self.loads), 0)

    def decided_by(self, loads: Sequence[LoadBounds]) -> Candidate:
        """The candidate with the bounds of the busiest resource foremost.

        Of `loads`, each was bounded within the tiles that the one before it leaves.
        """
        busiest = max(loads, key=lambda own: own.bounds.least_cycles)
        others = tuple(own for own in loads if own is not busiest)
        return replace(self, bounds=busiest.bounds, loads=others, within=loads[-1].bounds.survivors)


def tightened(candidate: Candidate, goal: Goal, sharp: bool, stop: Stop) -> Candidate | None:
    """Bound a candidate anew for the incumbent there is now, energy and loads together.

    Parameters
    ----------
    sharp, stop
        As for `LatticeBounds`.

    Returns
    -------
    Candidate or None
        None if nothing in it can improve.
    """
    sub, bounds = candidate.sub, candidate.bounds
    assert bounds is not None  # a surveyed candidate is bounded first
    within = bounds.survivors if candidate.within is None else candidate.within
    if not goal.counts_energy:
        loads = _load_bounds(sub, goal, 0, within, sharp, stop)
        return None if loads is None else _narrowed(candidate.decided_by(loads), goal, stop)
    # Sharp bounds look at pairs of tiles where those are few: the incumbent leaves fewer than before.
    for look_at_pairs in (False, True) if sharp else (False,):
        bounds = LatticeBounds(sub, sub.limit(goal), sharp=look_at_pairs, stop=stop, within=within)
        if bounds.empty:
            return None
        within = bounds.survivors
    loads = _load_bounds(sub, goal, bounds.least, bounds.survivors, sharp, stop)
    if loads is None:
        return None
    within = loads[-1].bounds.survivors if loads else bounds.survivors
    return _narrowed(replace(candidate, bounds=bounds, loads=loads, within=within), goal, stop)


def _load_bounds(
    sub: Subproblem, goal: Goal, energy: int, within: Survivors, sharp: bool, stop: Stop
) -> tuple[LoadBounds, ...] | None:
    """Bounds on the loads of mappings that take `energy` or more; None if none of those is left."""
    if goal.counts_energy and goal.cycles_limit(energy) >= UNLIMITED:
        return ()
    found: list[LoadBounds] = []
    for resource in (*range(len(resources(sub.space.levels))), None):
        own = loaded(sub, resource, goal, energy)
        # Where no bandwidth decides the cycles, it is enough to know which mappings there are.
        superfluous = bool(found) or goal.counts_energy if resource is None else own.idle(goal, energy)
        if superfluous:
            continue
        bounds = LatticeBounds(own, own.limit(goal, energy), sharp=sharp, stop=stop, within=within)
        if bounds.empty:
            return None
        found.append(LoadBounds(own, bounds, energy))
        within = bounds.survivors
    return tuple(found)


def _narrowed(candidate: Candidate, goal: Goal, stop: Stop) -> Candidate | None:
    """Bound a candidate with the tiles that its costs leave together; None if those are none."""
    bounds, loads = candidate.bounds, candidate.loads
    if bounds is None or not loads:
        return candidate
    several = [bounds, *(own.bounds for own in loads)]
    limits = [bounds.sub.limit(goal), *(own.limit(goal) for own in loads)]
    if any(limit >= UNLIMITED for limit in limits):
        return candidate
    costs = [Cost(own.sub, limit) for own, limit in zip(several, limits, strict=True)]
    rooms = [own.least / limit for own, limit in zip(several, limits, strict=True)]
    within = bounds.survivors if candidate.within is None else candidate.within
    sifted = sift(costs, rooms.index(max(rooms)), within, bounds.sharp, stop)
    if sifted is None:
        return None
    left = sifted.within
    anew = [
        LatticeBounds(own.sub, limit, sharp=bounds.sharp, stop=stop, within=left)
        for own, limit in zip(several, limits, strict=True)
    ]
    if any(own.empty for own in anew):
        return None
    again = tuple(replace(own, bounds=new) for own, new in zip(loads, anew[1:], strict=True))
    narrowed = replace(candidate, bounds=anew[0], loads=again, within=left)
    energy = anew[0].least if goal.counts_energy else 0
    jointly = (mix.least_value(goal, total, energy, narrowed.least_cycles) for mix, total in sifted.sums)
    return replace(narrowed, jointly=max(candidate.jointly, *jointly))
