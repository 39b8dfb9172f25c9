"""Wrong solutions, planted in responses of CP-SAT."""

from collections.abc import Callable
from typing import Any

import pytest
from ortools.sat.python import cp_model

Lie = Callable[[cp_model.CpModel, Any], None]
"""Changes a response; the model tells the names of the variables."""


def plant(monkeypatch: pytest.MonkeyPatch, lie: Lie) -> None:
    """Let every response of CP-SAT pass through `lie`."""
    original = cp_model.CpSolver.solve

    def solve(solver: cp_model.CpSolver, model: cp_model.CpModel, *rest: Any) -> Any:
        original(solver, model, *rest)
        lie(model, solver.response_proto)
        return solver.response_proto.status

    monkeypatch.setattr(cp_model.CpSolver, "solve", solve)


def invalid(model: cp_model.CpModel, response: Any) -> None:
    response.status = cp_model.MODEL_INVALID


def infeasible(model: cp_model.CpModel, response: Any) -> None:
    response.status = cp_model.INFEASIBLE


def in_floating_point(model: cp_model.CpModel, response: Any) -> None:
    """What CP-SAT itself does now and then: 2.9999999996 for 3."""
    response.objective_value -= 4e-10
    response.best_objective_bound -= 4e-10


def wrong_objective(model: cp_model.CpModel, response: Any) -> None:
    response.objective_value -= 1
    response.best_objective_bound -= 1


def fractional_objective(model: cp_model.CpModel, response: Any) -> None:
    response.objective_value -= 0.5


def bound_above_objective(model: cp_model.CpModel, response: Any) -> None:
    response.best_objective_bound += 1


def bound_below_optimum(model: cp_model.CpModel, response: Any) -> None:
    response.best_objective_bound -= 1


def outside_domains(model: cp_model.CpModel, response: Any) -> None:
    for place, variable in zip(range(len(response.solution)), model.proto.variables, strict=False):
        response.solution[place] = max(variable.domain) + 1


def no_values(model: cp_model.CpModel, response: Any) -> None:
    response.solution.clear()


def set_all(value: int) -> Lie:
    """Set all Booleans alike: no choice has one answer then."""

    def lie(model: cp_model.CpModel, response: Any) -> None:
        for place, variable in zip(range(len(response.solution)), model.proto.variables, strict=False):
            if list(variable.domain) == [0, 1]:
                response.solution[place] = value

    return lie


WRONG = {
    "invalid": invalid,
    "wrong objective": wrong_objective,
    "fractional objective": fractional_objective,
    "bound above objective": bound_above_objective,
    "bound below optimum": bound_below_optimum,
    "outside domains": outside_domains,
    "no values": no_values,
    "all true": set_all(1),
    "all false": set_all(0),
}
"""What every user of CP-SAT that minimises finds out."""
