"""Reports of comparisons with several objectives."""

from dataclasses import replace

import pytest

from solver.comparison import Comparison, Improvement, MapperRun
from solver.heuristics.interface import Budget
from solver.heuristics.pricing import Incumbent
from solver.report.comparison import comparison_document
from solver.result import Status, Termination
from tests.solver.examples import MAPPING, MAPSPACE, OPTIMAL
from tests.solver.golden import reported

ORDER = ("latency", "edp", "energy")
LATENCY, EDP, ENERGY = LEAST = tuple(map(OPTIMAL.evaluation.value, ORDER))
PROVEN = replace(OPTIMAL, objectives=ORDER, value=LATENCY, bound=LATENCY, later_bounds=(EDP, ENERGY))
STOPPED = replace(PROVEN, status=Status.FEASIBLE, termination=Termination.TIME_LIMIT, later_bounds=())


@pytest.mark.parametrize(
    ("result", "values", "behind"),
    [
        (PROVEN, LEAST, ""),
        (PROVEN, (LATENCY, 2 * EDP, 2 * ENERGY), "edp"),
        (PROVEN, (LATENCY, EDP, 2 * ENERGY), "energy"),
        (PROVEN, (LATENCY + 1, 2 * EDP, 2 * ENERGY), ""),
        (STOPPED, (LATENCY, 2 * EDP, 2 * ENERGY), ""),
    ],
)
def test_a_mapper_that_is_behind_in_a_later_objective_has_a_line(result, values, behind):
    best = Incumbent(1.0, 1, values, MAPPING, OPTIMAL.evaluation)
    outcome = MapperRun("greedy", 1.0, 1, 1, (Improvement(1.0, values[0], 1),), best, "a remark")
    comparison = Comparison("", MAPSPACE, result, (), (outcome, replace(outcome, best=None)), Budget(), 0)
    lines = [
        line for line in reported(comparison_document(comparison)).splitlines() if line.startswith("greedy: ")
    ]
    remarks = [line for line in lines if line != "greedy: a remark"]
    assert len(lines) - len(remarks) == 2
    assert [line.split()[1] for line in remarks] == ([behind] if behind else [])
    assert all(", where the optimum is " in line for line in remarks)
