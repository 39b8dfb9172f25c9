"""Constraints mean the same of numbers in tables and of integers."""

from dataclasses import replace
from random import Random

import pytest

from model.extents import FACTORS
from model.mapspace import KeepRules, Mapspace
from solver.cpsat import Settings
from solver.explain import Verdict
from solver.explain.feasibility import Feasibility
from solver.formulation.constraints import Constraints
from solver.formulation.requirements import KeptOrBypassed, constraints_of
from solver.formulation.tables import Tables
from solver.formulation.variables import Variables
from tests.strategies import random_mapspaces


def free(mapspace: Mapspace) -> Mapspace:
    """A mapspace without the rules that its variables leave out values for."""
    return replace(
        mapspace,
        temporal=tuple(replace(own, factors=()) for own in mapspace.temporal),
        spatial=tuple(replace(own, factors=()) for own in mapspace.spatial),
        keep=tuple(KeepRules() for _ in mapspace.keep),
    )


@pytest.mark.parametrize("factors", FACTORS)
def test_tables_and_integers_agree_on_any_set_of_constraints(factors: str):
    random, seen = Random(3), []
    for drawn in random_mapspaces(92, 20, 60):
        mapspace = replace(drawn, factors=factors)
        constraints, feasibility = constraints_of(mapspace), Feasibility(mapspace)
        if any(
            isinstance(own, KeptOrBypassed) and (own.level, own.verb) == (0, "bypass") for own in constraints
        ):
            continue  # the outermost level keeps what no constraint lets it bypass
        if feasibility.decide(constraints).verdict is Verdict.FEASIBLE and len(seen) % 8:
            continue
        tables = Tables(Variables(free(mapspace)))
        stated = Constraints(tables)
        stated.state(constraints)
        for dropped in (0, 1, 2, 4):
            asked = random.sample(constraints, max(0, len(constraints) - dropped))
            tables.checked.model.clear_assumptions()
            tables.checked.model.add_assumptions([stated.literal(own) for own in asked])
            answer = tables.checked.solve(Settings(presolve=False), lambda: False).answer
            assert (answer is not None) == (feasibility.decide(asked).verdict is Verdict.FEASIBLE)
            seen.append(answer is not None)
    assert min(seen.count(True), seen.count(False)) > 5
