"""Sums of large integers in CP-SAT, as digits that no presolve can overflow."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from solver.assignment.clock import Clock

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

LARGEST_ACTIVITY = 1 << 28
"""What the digits of one place add up to, at most; rows stay below 2^31 with room for the carry."""

LARGEST_ROW = (1 << 31) - 1
"""OR-tools 9.15 can mislead its presolve with larger coefficients (google/or-tools #5293)."""

POLL_S = 0.02


class ModelError(RuntimeError):
    """CP-SAT found a model invalid, or answered outside of it: a defect, never an answer."""


@dataclass(frozen=True)
class Digit:
    """A digit of the sum: its expression, and what one of it counts for."""

    sum: cp_model.LinearExprT
    weight: int


class ExactSum:
    """The sum of ``cost * literal``, in digits of a power of two that are tied by carries.

    Parameters
    ----------
    model
        Gets the variables and rows of the carries.
    terms
        Literals and their costs, none negative.
    """

    def __init__(self, model: cp_model.CpModel, terms: Sequence[tuple[cp_model.IntVar, int]]) -> None:
        self._digits: list[Digit] = []
        terms = [term for term in terms if term[1]] or terms[:1]
        literals = [literal for literal, _ in terms]
        costs = [cost for _, cost in terms]
        bits = (LARGEST_ACTIVITY // max(1, len(terms))).bit_length() - 1
        if bits < 1:
            raise ModelError(f"{len(terms)} terms are too many for one sum")
        if sum(costs) <= LARGEST_ACTIVITY:
            bits = LARGEST_ACTIVITY.bit_length()
        base, weight = 1 << bits, 1
        carries: list[cp_model.IntVar] = []
        while True:
            low = [cost % base for cost in costs]
            costs = [cost // base for cost in costs]
            place = _weighted([*literals, *carries], [*low, *(1 for _ in carries)])
            if not any(costs):
                self._digits.append(Digit(place, weight))
                return
            rest = model.new_int_var(0, base - 1, f"digit{len(self._digits)}")
            onward = model.new_int_var(0, len(terms) + 1, f"carry{len(self._digits)}")
            model.add(place == base * onward + rest)
            self._digits.append(Digit(rest, weight))
            carries, weight = [onward], weight * base

    def digits_down(self) -> Iterator[Digit]:
        """Return the digits, highest first: minimised in this order, each fixed, they give the least sum."""
        return reversed(self._digits)


def _weighted(literals: Sequence[cp_model.IntVar], costs: Sequence[int]) -> cp_model.LinearExprT:
    from ortools.sat.python import cp_model  # noqa: PLC0415 (many networks never need it)

    return cp_model.LinearExpr.weighted_sum(literals, costs)


def new_solver(jobs: int, seed: int) -> cp_model.CpSolver:
    """Return a solver with the settings that every model here is solved with."""
    from ortools.sat.python import cp_model  # noqa: PLC0415 (many networks never need it)

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = jobs
    solver.parameters.random_seed = seed
    solver.parameters.presolve_inclusion_work_limit = 0
    solver.parameters.catch_sigint_signal = False
    # The local polytope's relaxation proves most; probing pairs takes longer than it saves.
    solver.parameters.linearization_level = 2
    solver.parameters.cp_model_probing_level = 0
    return solver


def run(solver: cp_model.CpSolver, model: cp_model.CpModel, clock: Clock) -> cp_model.CpSolverStatus:
    """Solve until proven, or until the clock says stop."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(POLL_S):
            if clock.stop():
                solver.stop_search()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        return solver.solve(model)
    finally:
        done.set()
        watcher.join()
