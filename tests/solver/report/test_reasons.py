"""The table of what constraints cost."""

from dataclasses import replace

import pytest

from solver.explain import CostReport
from solver.explain.costs import ClauseCost
from solver.report.document import explanation_document
from solver.report.einsum_page import cost_sections
from solver.report.reading import as_value
from solver.result import Statement
from tests.solver.examples import MAPSPACE, OPTIMAL
from tests.solver.golden import reported


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
    document = as_value(explanation_document(MAPSPACE, (), CostReport(OPTIMAL, (cost,), ())))
    section, *_ = cost_sections(document, "energy")
    (table,) = section.tables
    assert [row[-1] for row in table.rows] == ["-", (text, least)]


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
    document = explanation_document(MAPSPACE, (), report)
    printed = reported(document)
    row = next(line for line in printed.splitlines() if line.startswith("`buffer` holds"))
    assert row.endswith(f"  {text}")
    assert "improvement of the best latency, or else of edp, then energy if only this constraint" in printed
    assert ("the optimum may be lower" in printed) == ("not proven" in text)
    assert document["objectives"] == ["latency", "edp", "energy"]
    (row,) = document["without"]
    assert (row["objective"], row["unproven"]) == (objective, list(unproven))
    assert (row["least"], row["most"]) == (share, most)
