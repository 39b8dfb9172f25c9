"""Numbers as people read them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.report.figures import (
    cost_text,
    count_text,
    counted,
    energy_text,
    large_count_text,
    objective_text,
    percent,
    seconds_text,
    significant,
)


@pytest.mark.parametrize(
    ("picojoules", "text"),
    [
        (0, "0 pJ"),
        (0.00123456, "0.0012346 pJ"),
        (1e-9, "1.0000e-9 pJ"),
        (1.15, "1.1500 pJ"),
        (999.99, "999.99 pJ"),
        (1000, "1.0000 nJ"),
        (12_345_678, "12.346 uJ"),
        (2.5e9, "2.5000 mJ"),
        (7e12, "7.0000 J"),
        (7e18, "7.0000e6 J"),
    ],
)
def test_energies_take_the_largest_unit_they_reach(picojoules, text):
    assert energy_text(picojoules) == text


@given(st.floats(1e-12, 1e30))
def test_significant_digits_are_within_half_a_unit_of_the_last(number):
    assert float(significant(number)) == pytest.approx(number, rel=5.1e-5)


def test_shares_do_not_hide_that_they_are_positive():
    assert percent(0) == "0.00 %"
    assert percent(1e-9) == "<0.01 %"
    assert percent(0.123456) == "12.35 %"


def test_counts_are_exact_and_say_their_magnitude():
    assert count_text(1234567) == "1,234,567"
    assert large_count_text(1234567) == "1,234,567"
    assert large_count_text(12 * 10**30).endswith("(about 1.2e31)")


def test_seconds_lose_their_decimals_when_they_are_many():
    assert seconds_text(1.234) == "1.23 s"
    assert seconds_text(1234.5) == "1,234 s"


def test_objective_values_carry_their_unit():
    assert objective_text("energy", 1_500_000, 1000) == "1.5000 nJ"
    assert objective_text("latency", 1_500_000, 1000) == "1,500,000 cycles"
    assert objective_text("edp", 1_500_000, 1000) == "1500.0 pJ*cycles"


def test_what_is_counted_is_one_or_several():
    assert counted(1, "mapping") == "1 mapping"
    assert counted(0, "mapping") == "0 mappings"
    assert counted(1234, "search", "searches") == "1,234 searches"


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (Fraction(1, 3), "0.3333333"),
        (Fraction("0.06713"), "0.06713"),
        (Fraction(1234567), "1,234,567"),
        (Fraction("607318912.4"), "607,318,912"),
        (Fraction(10**15), "1e+15"),
        (Fraction(0), "0"),
    ],
)
def test_costs_of_assignments(cost, text):
    assert cost_text(cost) == text
