"""The core in CP-SAT: what lattice bounds and branching leave open of a subproblem.

Tiles, spatial choices and reuse classes are Booleans over the survivors, the prime exponents of the
temporal loops are integers that tie them together, and the objective is a sum of table entries: a lower
bound on the plain cost model for every assignment. The best assignment, or the best found where a proof
takes long, is priced exactly, excluded, and the model solved again, until nothing below the incumbent is
left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from solver.cpsat import Answer, CheckedModel, Expression, ModelError, Outcome, Settings, Variable
from solver.search.arrays import IntArray
from solver.search.bounds.lattice_bounds import LatticeBounds
from solver.search.branching.completion import Skeleton
from solver.search.stopping import Stop
from solver.search.subproblems.loads import Searchable

LARGEST_TOTAL = 1 << 30
"""What all coefficients of the objective add up to, at most."""

LARGEST_CORE = 20_000
"""Pairs of a tile and a class up to which a core is worth building."""

SLICE_DETERMINISTIC_S = 0.5
"""CP-SAT's deterministic seconds of a first attempt, each of which takes twice as long as the one before."""


def fits_core(bounds: LatticeBounds[Searchable]) -> bool:
    """Whether what is left of a subproblem is small enough for a core."""
    return sum(len(stage.tiles) for stage in bounds.stages) * len(bounds.space.reuse_classes) <= LARGEST_CORE


@dataclass(frozen=True)
class _Pick:
    """One option of a choice: its literal and its cost in quanta."""

    literal: Variable
    cost: int


@dataclass(frozen=True)
class _ClassLiterals:
    """A reuse class of a slot: it is the innermost one and ends there, or it goes on outside."""

    members: frozenset[int]
    ends: Variable
    goes: Variable


class Core:
    """A CP-SAT model of the survivors of one subproblem, for costs below `limit` (quanta).

    Parameters
    ----------
    bounds
        Those that are not empty.
    limit
        As `LatticeBounds.room`: quanta beyond the constant, exclusive.
    seed
        For CP-SAT, whose answer depends on it.

    Raises
    ------
    ModelError
        If coefficients are beyond what CP-SAT is trusted with.
    """

    def __init__(self, bounds: LatticeBounds[Searchable], limit: int, seed: int) -> None:
        self.bounds = bounds
        self.space = bounds.space
        self.depth = bounds.depth
        self._checked = CheckedModel()
        self.model = self._checked.model
        self.calls = 0
        self._excluded: list[list[int]] = []
        self._seed = seed
        self._tiles = [np.array([self.space.lattice.size - 1]), *(s.tiles for s in bounds.stages)]
        self._states = [self._one_of(f"tile{level}", len(t)) for level, t in enumerate(self._tiles)]
        self._members = [
            self._one_of(f"spatial{level}", len(stage.members))
            for level, stage in enumerate(bounds.sub.spatial)
        ]
        self._loops = [self._slot(level) for level in range(self.depth)]
        self._choices: list[list[_Pick]] = []
        self._stages: list[list[_ClassLiterals]] = []
        for level in range(self.depth - 1):
            self._stages.append(self._classes(level))
        self._add_objective(limit)
        self._checked.check()

    @property
    def variables(self) -> int:
        """Number of variables of the model."""
        return self._checked.variables

    def skeletons(self, stop: Stop) -> Iterator[Skeleton | None]:
        """All factor choices that the model leaves below the limit.

        The next one is the cheapest of those left where CP-SAT proves that in time, else the cheapest that it
        has found. Ends when there are none left; yields None last when `stop` cut it short.

        Raises
        ------
        ModelError
            If CP-SAT's answer breaks the model, or comes twice.
        """
        while True:
            outcome = self._solve(stop)
            if outcome.is_infeasible:
                return
            if outcome.answer is None:
                yield None
                return
            chosen = self._chosen(outcome.answer)
            if chosen in self._excluded:
                raise ModelError("CP-SAT answers with an assignment that is excluded")
            self._excluded.append(chosen)
            yield self._skeleton(chosen[: self.depth], chosen[self.depth :])
            literals = zip((*self._states, *self._members), chosen, strict=True)
            self.model.add_bool_or([options[place].negated() for options, place in literals])

    def _one_of(self, name: str, count: int) -> list[Variable]:
        literals = [self.model.new_bool_var(f"{name}_{i}") for i in range(count)]
        self.model.add_exactly_one(literals)
        return literals

    def _slot(self, level: int) -> list[Variable]:
        """Exponents of the temporal loops of `level`, one per lattice axis, tied to tiles and members."""
        lattice, slot = self.space.lattice, self.space.slots[level]
        exponents = lattice.exponents.astype(int)
        members = [lattice.code(m.factors) for m in self.bounds.sub.spatial[level].members]
        variables = []
        for axis, (dim, prime, most) in enumerate(lattice.axes):
            outer = self._sum(self._states[level], exponents[self._tiles[level], axis])
            unrolled = self._sum(self._members[level], exponents[members, axis])
            loops = self.model.new_int_var(0, int(most), f"loops{level}_{self.space.active[dim]}_{prime}")
            parts = [loops, unrolled]
            if level + 1 < self.depth:
                parts.append(self._sum(self._states[level + 1], exponents[self._tiles[level + 1], axis]))
            self.model.add(sum(parts) == outer)
            variables.append(loops)
        for dim, allowed in enumerate(slot.allowed):
            if not slot.free[dim]:
                self._restrict(variables, dim, sorted(allowed))
        return variables

    def _restrict(self, variables: list[Variable], dim: int, allowed: list[int]) -> None:
        lattice = self.space.lattice
        axes = [a for a, (d, _, _) in enumerate(lattice.axes) if d == dim]
        places = [lattice.position[dim][factor] * lattice.dim_strides[dim] for factor in allowed]
        rows = lattice.exponents[places][:, axes].astype(int).tolist()
        self.model.add_allowed_assignments([variables[a] for a in axes], rows)

    def _sum(self, literals: list[Variable], weights: IntArray) -> Expression:
        return self._checked.weighted_sum(literals, weights.tolist())

    def _classes(self, level: int) -> list[_ClassLiterals]:
        """Reuse class of the slot of `level`: per class a literal for ending here, one for going on.

        A class that goes on beyond the slot costs what full reuse costs, and only loops that leave
        one of its dataspaces in place may lie in the slot.
        """
        classes = self.bounds.space.reuse_classes
        stage = self.bounds.stages[level]
        ends = [self.model.new_bool_var(f"ends{level}_{k}") for k in range(len(classes))]
        goes = [self.model.new_bool_var(f"goes{level}_{k}") for k in range(len(classes))]
        self.model.add_exactly_one([*ends, *goes])
        inner = self._states[level + 1]
        picks: list[_Pick] = []
        by_state: list[list[Variable]] = [[] for _ in inner]
        for k in range(len(classes)):
            pairs = [self.model.new_bool_var(f"pair{level}_{k}_{i}") for i in range(len(inner))]
            self.model.add(sum(pairs) == ends[k] + goes[k])
            for i, pair in enumerate(pairs):
                by_state[i].append(pair)
                picks.append(_Pick(pair, int(stage.boundary_costs[k][i])))
        for state, own in zip(inner, by_state, strict=True):
            self.model.add(sum(own) == state)
        self._choices.append(picks)
        self._choices.append(self._reuse(level, ends, goes))
        for k, members in enumerate(classes):
            self._limit_going(level, members, goes[k])
        return [_ClassLiterals(*each) for each in zip(classes, ends, goes, strict=True)]

    def _reuse(self, level: int, ends: list[Variable], goes: list[Variable]) -> list[_Pick]:
        """Costs of the reused dataspaces: by the tile outside where reuse ends, else the least."""
        outer = self._states[level]
        picks: list[_Pick] = []
        by_state: list[list[Variable]] = [[] for _ in outer]
        for k, members in enumerate(self.bounds.space.reuse_classes):
            here = [
                boundary
                for boundary in self.bounds.boundaries.by_level[level + 1]
                if boundary.counts_in(members)
            ]
            costs = np.zeros(len(outer), dtype=np.int64)
            for boundary in here:
                costs += boundary.reused(level, self._tiles[level])
            pairs = [self.model.new_bool_var(f"reuse{level}_{k}_{j}") for j in range(len(outer))]
            self.model.add(sum(pairs) == ends[k])
            for j, pair in enumerate(pairs):
                by_state[j].append(pair)
                picks.append(_Pick(pair, int(costs[j])))
            picks.append(_Pick(goes[k], 0))
        for state, own in zip(outer, by_state, strict=True):
            self.model.add(sum(own) <= state)
        return picks

    def _limit_going(self, level: int, members: frozenset[int], goes: Variable) -> None:
        if level == 0:
            self.model.add(goes == 0)
            return
        still = {dim for place in members for dim in self.space.views[place].irrelevant}
        for axis, (dim, _, _) in enumerate(self.space.lattice.axes):
            if dim not in still:
                self.model.add(self._loops[level][axis] == 0).only_enforce_if(goes)
        outside = [
            literal
            for other in self._stages[level - 1]
            if other.members & members or not members
            for literal in (other.ends, other.goes)
        ]
        self.model.add_bool_or(outside).only_enforce_if(goes)

    def _add_objective(self, limit: int) -> None:
        """Minimise the sum of the choices' costs, scaled to the window below `limit`."""
        floors = [min(pick.cost for pick in picks) for picks in self._choices]
        window = limit - sum(floors)
        surplus = [
            max(0, min(pick.cost - floor, window))
            for picks, floor in zip(self._choices, floors, strict=True)
            for pick in picks
        ]
        unit = max(1, -(-sum(surplus) // LARGEST_TOTAL))
        most = window // unit
        literals = [pick.literal for picks in self._choices for pick in picks]
        # Rounded down, and cut off where a single entry fills the window.
        total = self._sum(literals, np.array([extra // unit for extra in surplus], dtype=np.int64))
        if window <= 0:
            self.model.add_bool_or([])
        else:
            self.model.add(total <= most)
            self.model.minimize(total)

    def _solve(self, stop: Stop) -> Outcome:
        """Solve with a growing limit: once one is reached, any assignment found by then will do."""
        slice_s = SLICE_DETERMINISTIC_S
        while True:
            outcome = self._checked.solve(Settings(seed=self._seed, deterministic_s=slice_s), stop)
            self.calls += 1
            if outcome.answer or outcome.is_proven or stop():
                return outcome
            slice_s *= 2

    def _chosen(self, answer: Answer) -> list[int]:
        return [answer.choice(literals) for literals in (*self._states, *self._members)]

    def _skeleton(self, states: list[int], members: list[int]) -> Skeleton:
        """Decode tiles and spatial choices into factors, checking that they divide."""
        lattice, sub = self.space.lattice, self.bounds.sub
        choices = [stage.members[m] for stage, m in zip(sub.spatial, members, strict=True)]
        tiles = [lattice.vector(int(t[i])) for t, i in zip(self._tiles, states, strict=True)]
        tiles.append((1,) * len(self.space.active))
        temporal = []
        for level, choice in enumerate(choices):
            inner = [a * b for a, b in zip(tiles[level + 1], choice.factors, strict=True)]
            divides = all(outer % span == 0 for outer, span in zip(tiles[level], inner, strict=True))
            loops = tuple(outer // span for outer, span in zip(tiles[level], inner, strict=True))
            allowed = self.space.slots[level].allowed
            if not divides or any(f not in own for f, own in zip(loops, allowed, strict=True)):
                raise ModelError("CP-SAT's answer breaks a constraint of the model")
            temporal.append(loops)
        return Skeleton(self.space, sub.mask, tuple(temporal), tuple(choices))
