"""Comparisons: ratios and times against the optimum, mappers that fail, and contradictions."""

import csv
import io
import re
import runpy
from contextlib import nullcontext
from dataclasses import replace

import pytest
from rich.console import Console

from solver.comparison import MILESTONES_PERCENT, Comparison, Improvement, compare, geometric_mean
from solver.heuristics.interface import Budget, MapperError
from solver.heuristics.pricing import Pricing
from solver.heuristics.timeloop_mappers import LinearPruned, RandomSearch
from solver.report.comparison import (
    EXACT,
    comparison_document,
    comparisons_csv,
)
from solver.result import ContradictionError, Options, Status, Termination
from solver.stages import map_einsum
from tests.conftest import REPOSITORY
from tests.solver.examples import FEASIBLE, INFEASIBLE, MAPPING, MAPSPACE, OPTIMAL
from tests.solver.golden import printed, reported
from tests.strategies import random_mapspaces

BUDGET = Budget(None, 2000)
EDP = Options(objectives=("edp",))


class Fixed:
    """Returns the example's mapping."""

    def find_mapping(self, mapspace, pricing):
        pricing.note("a note")
        return MAPPING


class Broken:
    """Fails, after it has priced something."""

    def find_mapping(self, mapspace, pricing):
        pricing.price([MAPPING])
        raise ZeroDivisionError("by zero")


class Unwilling:
    """Refuses."""

    def find_mapping(self, mapspace, pricing):
        raise MapperError("not for me")


MAPPERS = [("fixed", Fixed()), ("broken", Broken()), ("unwilling", Unwilling()), ("random", RandomSearch())]


@pytest.fixture(scope="module")
def comparison():
    return compare(MAPSPACE, MAPPERS, EDP, BUDGET, case="an example")


def test_over_a_random_suite_no_mapper_is_below_what_is_proven():
    for mapspace in random_mapspaces(61, 20, 400):
        found = compare(mapspace, [("all", LinearPruned()), ("random", RandomSearch())], Options(), BUDGET)
        assert found.result.status in (Status.OPTIMAL, Status.INFEASIBLE)
        complete, sampled = found.outcomes
        if found.proven:
            assert found.ratio(complete.value) == 1
            assert found.first_within(complete.trace, 0) == complete.trace[-1].seconds
            assert sampled.value is None or found.ratio(sampled.value) >= 1
        else:
            assert complete.value is sampled.value is None


def test_no_incumbent_is_later_than_its_run(comparison):
    assert comparison.trace[-1].seconds <= comparison.result.statistics.seconds
    assert comparison.trace[-1].value == comparison.result.value
    assert all(own.trace[-1].seconds <= own.seconds for own in comparison.outcomes if own.trace)


def test_each_outcome_says_what_happened(comparison):
    fixed, broken, unwilling, random = comparison.outcomes
    assert comparison.proven
    assert (fixed.remark, fixed.failure, fixed.evaluations) == ("a note", "", 1)
    assert broken.value == fixed.value
    assert broken.remark == "failed: ZeroDivisionError: by zero"
    assert "Traceback" in broken.failure
    assert (unwilling.remark, unwilling.value, unwilling.evaluations) == ("not for me", None, 0)
    assert random.evaluations == BUDGET.evaluations
    assert random.remark == ""


class Exiting:
    """Ends the program."""

    def find_mapping(self, mapspace, pricing):
        raise SystemExit(3)


def test_a_mapper_cannot_end_the_program():
    found = compare(MAPSPACE, [("exiting", Exiting()), MAPPERS[0]], EDP, BUDGET)
    assert [own.remark for own in found.outcomes] == ["failed: SystemExit: 3", "a note"]


def test_every_mapper_says_what_arrays_are_not_made_for(monkeypatch):
    monkeypatch.setattr("solver.stages.map_einsum", lambda *_, **__: OPTIMAL)
    problem = replace(MAPSPACE.problem, bounds=(1 << 63, *MAPSPACE.problem.bounds[1:]))
    found = compare(replace(MAPSPACE, problem=problem), MAPPERS[:2], EDP, BUDGET)
    assert {own.remark for own in found.outcomes} == {"R has 2^63 points or more, too many for 64 bits"}


def test_the_clock_is_read_at_each_distance():
    found = Comparison("", MAPSPACE, replace(OPTIMAL), (), (), BUDGET, 0)
    best = found.reference
    trace = [
        Improvement(1.0, 3 * best),
        Improvement(2.0, best + best // 11),
        Improvement(3.0, best + 1),
        Improvement(4.0, best),
    ]
    assert [found.first_within(trace, percent) for percent in MILESTONES_PERCENT] == [2.0, 3.0, 4.0]
    assert found.first_within(trace[:1], 10) is None
    assert found.ratio(3 * best) == 3
    assert found.ratio(None) is None


@pytest.mark.parametrize(("value", "ratio"), [(0, 1.0), (5, None)])
def test_an_optimum_of_zero_has_no_other_ratio(value, ratio, comparison):
    evaluation = replace(OPTIMAL.evaluation, cycles=0, compute_energy=0, levels=())
    result = replace(OPTIMAL, value=0, bound=0, evaluation=evaluation)
    assert replace(comparison, result=result).ratio(value) == ratio


@pytest.mark.parametrize("result", [INFEASIBLE, replace(OPTIMAL, value=10**30, bound=10**30)])
def test_a_mapping_better_than_the_proof_is_a_contradiction(result, monkeypatch):
    monkeypatch.setattr("solver.stages.map_einsum", lambda *_, **__: result)
    with pytest.raises(ContradictionError):
        compare(MAPSPACE, MAPPERS[:1], EDP, BUDGET)


def test_a_mapping_below_the_bound_on_a_later_objective_is_a_contradiction(monkeypatch):
    options = Options(objectives=("latency", "energy"))
    best = map_einsum(MAPSPACE, options)

    class Same:
        def find_mapping(self, mapspace, pricing):
            return best.mapping

    ended = {"status": Status.FEASIBLE, "termination": Termination.TIME_LIMIT}
    for later, agree in (((best.later_bounds[0] + 1,), False), (best.later_bounds, True), ((), True)):
        stopped = replace(best, later_bounds=later, **ended)
        monkeypatch.setattr("solver.stages.map_einsum", lambda *_, stopped=stopped, **__: stopped)
        with nullcontext() if agree else pytest.raises(ContradictionError, match="below the bound"):
            compare(MAPSPACE, [("same", Same())], options, BUDGET)


def test_a_contradiction_inside_of_a_mapper_is_not_taken_for_its_failure(monkeypatch):
    def disagree(*_):
        raise ContradictionError("models disagree")

    monkeypatch.setattr(Pricing, "_consider", disagree)
    with pytest.raises(ContradictionError):
        compare(MAPSPACE, MAPPERS[:1], EDP, BUDGET)


def test_an_interrupt_leaves_the_other_mappers_out():
    calls = []

    def stop():
        calls.append(None)
        return len(calls) > 3

    found = compare(MAPSPACE, MAPPERS, EDP, BUDGET, should_stop=stop)
    assert found.left_out == tuple(name for name, _ in MAPPERS[len(found.outcomes) :])
    assert "random" in found.left_out


def test_the_document_has_the_documented_keys(comparison):
    page = (REPOSITORY / "docs" / "compare.md").read_text(encoding="utf-8")
    tables = page.split("## The JSON document")[1].split("An element of `mappers`:")
    document = comparison_document(comparison)
    for text, keys in zip(tables, (["version", *document], document["mappers"][0]), strict=True):
        documented = [
            key for cell in re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE) for key in cell.split(", ")
        ]
        assert sorted(key.strip("`") for key in documented) == sorted(keys)
    assert list(document["first_within"]) == ["10", "1", "0"]
    assert document["mappers"][0]["trace"][-1]["value"] == document["mappers"][0]["value"]
    assert document["mappers"][2]["mapping"] is None


def test_the_csv_has_a_row_per_mapper(comparison):
    rows = list(csv.DictReader(io.StringIO(comparisons_csv([comparison, comparison]))))
    assert [row["mapper"] for row in rows] == [EXACT, *(name for name, _ in MAPPERS)] * 2
    named = "case problem architecture objective units mapper value ratio proven seconds evaluations valid"
    times = (f"seconds_to_{percent}_percent" for percent in MILESTONES_PERCENT)
    assert list(rows[0]) == [*named.split(), *times, "remark"]
    assert (rows[0]["ratio"], rows[0]["case"], rows[3]["value"]) == ("1.0", "an example", "")


@pytest.mark.parametrize("proven", [True, False])
def test_the_report_shows_remarks_and_a_missing_proof(comparison, proven):
    text = reported(comparison_document(comparison if proven else replace(comparison, result=FEASIBLE)))
    assert "broken: failed: ZeroDivisionError: by zero" in text
    assert "unwilling: not for me" in text
    assert ("the optimum is not proven; ratios and times refer to its bound" in text) != proven


def test_geometric_means_are_over_what_is_proven(comparison):
    assert geometric_mean([]) is None
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    summary_table = runpy.run_path(str(REPOSITORY / "scripts" / "compare.py"))["summary_table"]
    rows = printed(Console.print, summary_table([comparison, comparison])).splitlines()
    unwilling = next(row for row in rows if row.startswith("unwilling"))
    assert unwilling.split()[1:4] == ["edp", "2", "0"]
    exact = next(row for row in rows if row.startswith(EXACT))
    assert exact.split()[1:6] == ["edp", "2", "2", "1.0000", "1.0000"]
