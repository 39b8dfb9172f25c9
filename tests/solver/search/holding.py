"""Holds searches against complete enumeration."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from model.cost import evaluate_in
from model.mapping import FanoutMapping, Mapping
from model.mapspace import Mapspace
from solver.result import Options, Result, Status, Termination
from solver.search import map_by_bounds
from solver.search.path.search import EinsumSearch
from tests.bruteforce import Objective, axis_choices, objective_value, optima
from tests.reference import OBJECTIVES
from tests.rules import allows


def solve(mapspace: Mapspace, objective: Objective, **options: float) -> Result:
    """Search for the best mapping by an objective or a list of them, however long the proof takes."""
    names = (objective,) if isinstance(objective, str) else objective
    return map_by_bounds(mapspace, Options(objectives=names, **{"time_limit_s": math.inf, **options}))


def axes_as_ruled(mapspace: Mapspace, mapping: Mapping) -> bool:
    """Whether the dimensions along X are ones that the order and the split of each fanout put there."""
    parts = [part for part in mapping.nodes if isinstance(part, FanoutMapping)]
    for rules, part in zip(mapspace.spatial, parts, strict=True):
        along_x = {loop.dim for loop in part.spatial if loop.axis == "x"}
        used = {loop.dim for loop in part.spatial}
        choices = axis_choices(rules, mapspace.problem.dims)
        if not any(along_x == used.intersection(choice) for choice in choices):
            return False
    return True


def assert_best(mapspace: Mapspace, objective: Objective, result: Result, best: object) -> None:
    """Hold a finished search against the least value that any allowed mapping has (None: none is)."""
    assert result.termination is Termination.PROVEN
    if best is None:
        assert result.status is Status.INFEASIBLE
        assert result.mapping is None
        return
    assert result.status is Status.OPTIMAL
    evaluation = evaluate_in(mapspace, result.mapping)
    assert evaluation == result.evaluation
    assert evaluation.valid
    assert objective_value(objective, evaluation.energy, evaluation.cycles) == best
    assert allows(mapspace, result.mapping)
    assert axes_as_ruled(mapspace, result.mapping)
    values = [best] if isinstance(objective, str) else list(best)
    assert [result.bound, *result.later_bounds] == values


def compare(mapspaces: Sequence[Mapspace], objectives: Sequence[Objective], **options: int) -> list[Result]:
    """Hold a search by each objective against the enumeration; return what was found."""
    results = []
    for mapspace in mapspaces:
        for objective, best in zip(objectives, optima(mapspace, objectives), strict=True):
            result = solve(mapspace, objective, **options)
            assert_best(mapspace, objective, result, None if best is None else best[0])
            results.append(result)
    return results


def start_below(monkeypatch: pytest.MonkeyPatch, value: int) -> None:
    """Let searches keep nothing that costs `value` or more, as if a mapping were known that does."""
    run = EinsumSearch.run

    def started(search: EinsumSearch) -> int | None:
        search.goal.incumbent = value
        return run(search)

    monkeypatch.setattr(EinsumSearch, "run", started)


def hold_search(mapspace: Mapspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that no mapping hides what a bound rules out: the only ones that are good enough are the best."""
    every = zip(OBJECTIVES, optima(mapspace, OBJECTIVES), strict=True)
    for objective, best in ((objective, best) for objective, best in every if best is not None):
        with monkeypatch.context() as patch:
            start_below(patch, best[0] + 1)
            result = solve(mapspace, objective)
        assert (result.status, result.value) == (Status.OPTIMAL, best[0])
