"""The table of what constraints cost."""

import pytest

from solver.explain import CostReport
from solver.explain.costs import ClauseCost
from solver.reasons import Statement
from solver.report.constraint_costs import costs_table
from tests.solver.examples import OPTIMAL


@pytest.mark.parametrize(
    ("share", "most", "text"),
    [
        (0.0, 0.0, "none"),
        (1e-9, 1e-9, "<0.01 %"),
        (0.009, 0.009, "0.90 %"),
        (0.0, 0.25, "none to 25.00 %"),
        (0.0, None, "none to ?"),
    ],
)
def test_nothing_is_told_from_next_to_nothing(share: float, most: float | None, text: str):
    cost = ClauseCost(Statement("`buffer` holds 64 words"), OPTIMAL, share, most)
    table = costs_table(CostReport(OPTIMAL, (cost,), ()))
    assert [*table.columns[-1].cells] == ["-", text]
