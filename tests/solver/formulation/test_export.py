"""Formulations in files, and what other solvers make of them."""

import itertools
from pathlib import Path
from random import Random

import pytest
from google.protobuf import text_format
from ortools.sat import cp_model_pb2
from ortools.sat.python import cp_model

from model.mapspace import Mapspace
from solver.cli.options import MODELS
from solver.cpsat import CheckedModel, Settings
from solver.formulation import Formulation
from solver.formulation.export import ExportError, LinearRow, export_model, rows_of
from solver.formulation.model import Scaled
from solver.formulation.program import EmptyProgramError
from tests.bruteforce import optimum
from tests.solver.examples import MAPSPACE
from tests.strategies import random_mapspaces


def formulated(mapspace: Mapspace, objective: str) -> tuple[Formulation, Scaled]:
    formulation = Formulation(mapspace, timed=objective == "latency")
    return formulation, formulation.minimise(objective)


def test_other_solvers_find_the_same_optimum(tmp_path: Path):
    highspy = pytest.importorskip("highspy", reason="HiGHS is not installed (pip install highspy)")
    path, solved, exact = tmp_path / "model.mps", 0, 0
    for number, mapspace in enumerate(random_mapspaces(770, 36, 120)):
        objective = ("energy", "latency")[number % 2]
        try:
            formulation, scale = formulated(mapspace, objective)
        except EmptyProgramError:
            continue
        export_model(formulation, scale, path)
        outcome, _ = formulation.solve(Settings(), lambda: False)
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.readModel(str(path))
        highs.run()
        optimal = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        assert optimal == (outcome.answer is not None)
        if outcome.answer is None:
            continue
        assert round(highs.getObjectiveValue()) == outcome.answer.objective
        solved += 1
        best = optimum(mapspace, objective)
        assert best is not None
        exact += scale.value(outcome.answer.objective) == best[0]
    assert solved >= 20
    assert exact >= 10  # the tables alone are exact where neither blocks nor windows nor clusters count


def test_or_tools_reads_its_own_format(tmp_path: Path):
    path = tmp_path / "model.pb"
    formulation, scale = formulated(MAPSPACE, "energy")
    export_model(formulation, scale, path)
    outcome, _ = formulation.solve(Settings(), lambda: False)
    assert outcome.answer is not None
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.solve(loaded(path))
    assert round(solver.objective_value) == outcome.answer.objective


def loaded(path: Path) -> cp_model.CpModel:
    """Read a model as any program may that knows its protocol buffer."""
    proto = cp_model_pb2.CpModelProto()
    proto.ParseFromString(path.read_bytes())
    model = cp_model.CpModel()
    model.proto.parse_text_format(text_format.MessageToString(proto))
    return model


def test_flatzinc_holds_the_same_rows(tmp_path: Path):
    """Read back by a few lines of our own: sums and their limits."""
    path = tmp_path / "model.fzn"
    formulation, scale = formulated(MAPSPACE, "latency")
    export_model(formulation, scale, path)
    lines = path.read_text().splitlines()
    sums = [line for line in lines if line.startswith("constraint int_lin_")]
    rows = list(rows_of(formulation.program.model.proto))
    sides = [1 if row.least == row.most else (row.least is not None) + (row.most is not None) for row in rows]
    assert len(sums) == sum(sides) + 1  # and the objective's
    assert lines[0].startswith("% the mapping problem of conv1d")
    assert lines[-1] == "solve minimize cost;"


@pytest.mark.parametrize("suffix", MODELS)
def test_every_format_of_the_command_line_is_known(suffix: str, tmp_path: Path):
    formulation, scale = formulated(MAPSPACE, "energy")
    export_model(formulation, scale, tmp_path / f"model{suffix}")
    assert (tmp_path / f"model{suffix}").stat().st_size > 1000


def test_other_formats_are_refused(tmp_path: Path):
    formulation, scale = formulated(MAPSPACE, "energy")
    with pytest.raises(ExportError, match=r"not .\.lp"):
        export_model(formulation, scale, tmp_path / "model.lp")


def test_rows_that_depend_on_literals_hold_as_they_did():
    random = Random(4)
    for _ in range(30):
        checked = CheckedModel()
        model = checked.model
        variables = [model.new_bool_var(f"b{number}") for number in range(5)]
        literals = [x if random.random() < 0.5 else x.negated() for x in random.sample(variables[3:], 2)]
        weights = [random.randint(-4, 4) for _ in range(3)]
        total, limit = checked.weighted_sum(variables[:3], weights), random.randint(-4, 4)
        model.add(total <= limit if random.random() < 0.5 else total >= limit).only_enforce_if(*literals)
        model.add_bool_or(variables[0].negated(), variables[4]).only_enforce_if(literals[0])
        rows = list(rows_of(model.proto))
        for values in itertools.product((0, 1), repeat=5):
            model.clear_assumptions()
            model.add_assumptions(
                [x if own else x.negated() for x, own in zip(variables, values, strict=True)]
            )
            fits = checked.solve(Settings(presolve=False), lambda: False).answer is not None
            assert fits == all(holds(row, values) for row in rows)


def holds(row: LinearRow, values: tuple[int, ...]) -> bool:
    """Whether values satisfy a row."""
    total = sum(coefficient * values[variable] for coefficient, variable in row.terms)
    return (row.least is None or row.least <= total) and (row.most is None or total <= row.most)


def test_rows_with_gaps_are_refused():
    checked = CheckedModel()
    x = checked.model.new_int_var(0, 9, "x")
    checked.model.add_linear_expression_in_domain(x, cp_model.Domain.from_values([1, 5]))
    with pytest.raises(ExportError, match="gaps"):
        list(rows_of(checked.model.proto))
