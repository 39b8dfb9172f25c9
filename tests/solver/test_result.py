"""Options, progress and results."""

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.objective import in_reported_unit
from solver.result import Options, Phase, Progress, Status, Termination, relative_gap
from tests.solver.examples import EVALUATION, FEASIBLE, INFEASIBLE, OPTIMAL, UNKNOWN


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objectives": ("power",)}, "unknown objective 'power'"),
        ({"objectives": ()}, "at least one"),
        ({"objectives": ("edp", "edp")}, "once each"),
        ({"objectives": "EDP"}, "did you mean 'edp'"),
        ({"time_limit_s": -1.0}, "time limit"),
        ({"time_limit_s": "5"}, "the time limit must be a number, but is '5'"),
        ({"time_limit_s": float("nan")}, "the time limit must be a number"),
        ({"jobs": None}, "jobs must be a number"),
        ({"jobs": 0}, "jobs"),
        ({"memory_limit_mib": 0}, "memory limit"),
    ],
)
def test_options_out_of_range_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Options(**changes)


@pytest.mark.parametrize(
    ("result", "changes"),
    [
        (OPTIMAL, {"bound": OPTIMAL.value - 1}),
        (OPTIMAL, {"termination": Termination.TIME_LIMIT}),
        (OPTIMAL, {"status": Status.FEASIBLE}),
        (OPTIMAL, {"mapping": None}),
        (OPTIMAL, {"later_bounds": (1,)}),
        (FEASIBLE, {"bound": FEASIBLE.value + 1}),
        (FEASIBLE, {"evaluation": None}),
        (INFEASIBLE, {"termination": Termination.MEMORY_LIMIT}),
        (UNKNOWN, {"termination": Termination.PROVEN}),
        (UNKNOWN, {"value": 50}),
    ],
)
def test_results_that_contradict_themselves_are_refused(result, changes):
    with pytest.raises(ValueError):
        replace(result, **changes)


def test_reported_values_are_in_picojoules_and_cycles():
    assert OPTIMAL.reported_value == EVALUATION.edp_pj_cycles == OPTIMAL.edp_pj_cycles
    assert (OPTIMAL.energy_pj, OPTIMAL.cycles) == (EVALUATION.energy_pj, EVALUATION.cycles)
    assert (UNKNOWN.energy_pj, UNKNOWN.cycles, UNKNOWN.edp_pj_cycles) == (None, None, None)
    assert FEASIBLE.reported_value == EVALUATION.energy_pj
    assert FEASIBLE.reported_bound == EVALUATION.energy_pj - 2
    assert UNKNOWN.reported_value is None
    assert UNKNOWN.reported_bound == 48
    assert in_reported_unit("latency", 7, 1000) == 7


def test_gap_is_relative_to_the_value():
    assert relative_gap(200, 150) == 0.25
    assert relative_gap(0, 0) == 0.0
    assert relative_gap(None, 3) is None
    assert relative_gap(3, None) is None
    assert Progress(Phase.PATHS, 1.0, "edp", 4, 3).gap == 0.25


def test_phases_are_known():
    assert {Progress(phase, 0.0, "edp").phase for phase in Phase} == set(Phase)
    with pytest.raises(ValueError, match="lattice 3/12"):
        Progress("lattice 3/12", 0.0, "edp")


@given(st.integers(1, 10**40), st.data())
def test_gap_is_zero_only_where_nothing_is_left(value, data):
    bound = data.draw(st.integers(0, value))
    gap = relative_gap(value, bound)
    assert 0 <= gap <= 1
    assert (gap == 0) == (bound == value)


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import sys, solver; from solver import Options; "
        "print([m for m in ('numpy', 'ortools', 'rich', 'yaml', 'jinja2') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_unknown_public_names_are_attribute_errors():
    import solver  # noqa: PLC0415

    with pytest.raises(AttributeError, match="nonsense"):
        solver.nonsense  # noqa: B018
