"""The table of what constraints cost."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from solver.explain import CostReport
from solver.explain.costs import ClauseCost
from solver.report.reasons import costs_table, explanation_document, print_costs
from solver.result import Statement
from tests.solver.examples import MAPSPACE, OPTIMAL


@pytest.mark.parametrize(
    ("least", "most", "text"),
    [
        (0.0, 0.0, "none"),
        (1e-9, 1e-9, "<0.01 %"),
        (0.009, 0.009, "0.90 %"),
        (0.009, 0.25, "0.90 % to 25.00 %"),
        (0.0, 0.25, "at most 25.00 %"),
        (0.0, 1e-9, "at most 0.01 %"),
        (0.009, None, "at least 0.90 %"),
        (0.0, None, "unproven"),
    ],
)
def test_nothing_is_told_from_next_to_nothing(least: float, most: float | None, text: str):
    cost = ClauseCost(Statement("`buffer` holds 64 words"), OPTIMAL, 0.1, least, most, "energy")
    table = costs_table(CostReport(OPTIMAL, (cost,), ()))
    assert [*table.columns[-1].cells] == ["-", text]


ORDERED = replace(OPTIMAL, objectives=("latency", "edp", "energy"))


@pytest.mark.parametrize(
    ("share", "most", "objective", "unproven", "text"),
    [
        (0.0, 0.0, "latency", (), "none"),
        (0.009, 0.009, "edp", (), "0.90 % of edp"),
        (0.009, 0.5, "edp", ("edp", "energy"), "0.90 % to 50.00 % of edp; energy not proven"),
        (0.0, None, "latency", ("latency", "edp", "energy"), "unproven"),
        (0.009, None, "edp", ("edp", "energy"), "at least 0.90 % of edp; energy not proven"),
        (0.009, 0.009, "latency", ("energy",), "0.90 % of latency; energy not proven"),
    ],
)
def test_costs_name_one_of_several_objectives(share, most, objective, unproven, text):
    cost = ClauseCost(Statement("`buffer` holds 64 words"), ORDERED, share, share, most, objective, unproven)
    report = CostReport(ORDERED, (cost,), ())
    assert [*costs_table(report).columns[-1].cells] == ["-", text]
    stream = StringIO()
    print_costs(Console(file=stream, width=200), report)
    printed = stream.getvalue()
    assert "improvement of the best latency, or else of edp, then energy, if only this constraint" in printed
    assert ("the optimum may be lower" in printed) == ("not proven" in text)
    document = explanation_document(MAPSPACE, (), report)
    assert document["objectives"] == ["latency", "edp", "energy"]
    (row,) = document["without"]
    assert (row["objective"], row["unproven"]) == (objective, list(unproven))
    assert (row["least"], row["most"]) == (share, most)
