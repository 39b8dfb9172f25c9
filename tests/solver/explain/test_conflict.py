"""Conflicts are irreducible: checked by complete enumeration."""

from dataclasses import replace
from functools import cache

import pytest

from model.mapspace import FactorRule, KeepRules, TemporalRules
from solver.explain.explanation import find_conflict, find_conflicts
from solver.explain.feasibility import Decision, Feasibility, Verdict
from solver.formulation.requirements import FactorLimit, constraints_of
from solver.result import ContradictionError
from tests.mapspaces import copies
from tests.solver.explain.enumeration import all_but, allows_a_mapping, feasible_without, some_mapspaces

INFEASIBLE = 32


@cache
def infeasible():
    return [m for m in some_mapspaces(43, 100) if allows_a_mapping(m) is False]


def conflict_of(mapspace):
    return find_conflict(Feasibility(mapspace), constraints_of(mapspace))


def test_there_are_enough_of_them():
    assert len(infeasible()) == INFEASIBLE


@pytest.mark.parametrize("number", range(INFEASIBLE))
def test_conflicts_are_irreducible(number):
    mapspace = infeasible()[number]
    conflict = conflict_of(mapspace)
    assert conflict.irreducible
    rest = all_but(mapspace, conflict.constraints)
    assert feasible_without(mapspace, rest) is not True
    for constraint in conflict.constraints:
        # None: too many mappings to try, all tried ones breaking some limit.
        assert feasible_without(mapspace, [*rest, constraint]) is not False
        without_it = [c for c in conflict.constraints if c != constraint]
        assert Feasibility(mapspace).decide(without_it).verdict is Verdict.FEASIBLE


@pytest.mark.parametrize("number", range(12))
def test_conflicts_share_no_constraint_and_are_all_there_are(number):
    mapspace = infeasible()[number]
    found = list(find_conflicts(Feasibility(mapspace), constraints_of(mapspace), most=100))
    named = [constraint for conflict in found for constraint in conflict.constraints]
    assert len(named) == len(set(named))
    assert feasible_without(mapspace, named) is not False


def test_what_holds_together_is_no_conflict():
    mapspace = next(m for m in some_mapspaces(43, 100) if allows_a_mapping(m))
    assert conflict_of(mapspace) is None


def test_a_conflict_among_factors_is_preferred_to_one_with_hardware():
    rules = (FactorRule("D0", "=", 2), FactorRule("D0", "=", 4))
    conflict = conflict_of(copies((4,), 1, 1, tile_rules=rules))
    assert [constraint.rule for constraint in conflict.constraints] == list(rules)


def test_settled_branches_are_never_blamed():
    mapspace = copies((4,), 6, 1, tile_rules=(FactorRule("D0", "=", 1),))
    settled = KeepRules(frozenset({"A", "Z"}), settled=frozenset({"A", "Z"}))
    kinds = {type(c).__name__ for c in conflict_of(mapspace).constraints}
    fixed = {
        type(c).__name__ for c in conflict_of(replace(mapspace, keep=(KeepRules(), settled))).constraints
    }
    assert kinds - fixed == {"KeptOrBypassed"}


def test_a_stopped_search_does_not_claim_irreducibility():
    mapspace = infeasible()[0]
    budget = iter([False] * 3)
    feasibility = Feasibility(mapspace, stop=lambda: next(budget, True))
    conflict = find_conflict(feasibility, constraints_of(mapspace))
    assert conflict is None or not conflict.irreducible


@pytest.mark.parametrize(
    ("blamed", "message"), [(1, "does not confirm a conflict"), (0, "without constraints")]
)
def test_a_wrong_conflict_is_not_reported(blamed, message, monkeypatch):
    """The first solver takes a factor, or nothing at all, to be impossible."""
    mapspace = copies((4,), 100, 1, tile_rules=(FactorRule("D0", "=", 2),))
    feasibility = Feasibility(mapspace)

    def decide(asked):
        factors = [constraint for constraint in asked if isinstance(constraint, FactorLimit)]
        return Decision(Verdict.INFEASIBLE if len(factors) >= blamed else Verdict.FEASIBLE)

    monkeypatch.setattr(feasibility, "decide", decide)
    with pytest.raises(ContradictionError, match=message):
        find_conflict(feasibility, constraints_of(mapspace))


def test_orders_of_temporal_loops_are_no_part_of_conflicts():
    mapspace = copies((4, 4), 1, 1)
    ordered = replace(mapspace, temporal=(TemporalRules(inner=("D0",)), TemporalRules(outer=("D0",))))
    assert constraints_of(mapspace) == constraints_of(ordered)
