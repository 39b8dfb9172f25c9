"""Power and throughput in the units of datasheets."""

from fractions import Fraction

import pytest

from solver.report.document import si_figures
from solver.report.page import si_facts
from solver.report.reading import as_value


def test_a_known_chip():
    """10^9 computes in 4 ms for 0.5 mJ."""
    figures = si_figures(5e-4, Fraction(4, 1000), 10**9)
    assert figures["power_w"] == pytest.approx(0.125)
    assert figures["tops"] == pytest.approx(0.5)
    assert figures["tops_per_w"] == pytest.approx(4.0)
    assert figures["tops"] == pytest.approx(figures["tops_per_w"] * figures["power_w"])
    _, quoted = si_facts(as_value(figures))
    assert quoted[1] == "4.0000 ms, 0.12500 W, 0.50000 TOPS, 4.0000 TOPS/W"


def test_nothing_without_a_clock():
    assert si_figures(5e-4, None, 8) == {} and si_facts(as_value({})) == []


@pytest.mark.parametrize(("energy_j", "latency_s"), [(5e-4, Fraction(0)), (0.0, Fraction(1))])
def test_nothing_is_divided_by_zero(energy_j, latency_s):
    figures = si_figures(energy_j, latency_s, 8)
    assert None in figures.values()
    assert len(si_facts(as_value(figures))) == 1


def test_documents_of_earlier_runs_have_no_power():
    assert len(si_facts(as_value({"energy_j": 1.0, "latency_s": 1.0, "edp_j_s": 1.0}))) == 1
