from decimal import Decimal
from fractions import Fraction

import pytest

from model.energy.figures import MOST_DIGITS, SpreadError, energy_units, exact_units, to_units


def numbers(*texts):
    return [Decimal(text) for text in texts]


@pytest.mark.parametrize(
    ("texts", "digits"),
    [
        ((), 0),
        (("0", "0.000"), 0),
        (("512", "2.50", "0"), 1),
        (("1E+3", "0.30000000000000000001"), 20),
        (("1e-30", "1e6"), 30),
        (("1e-30", "1.5e-29"), 30),
        (("1e30", "1e-12"), 12),
    ],
)
def test_the_unit_is_the_largest_that_rounds_nothing(texts, digits):
    values = numbers(*texts)
    assert energy_units(values) == exact_units(values) == 10**digits


def test_figures_of_too_many_digits_are_rounded_by_less_than_a_billionth_of_the_least():
    values = numbers("0." + "3" * 60, "1e6", "1e-27", "0")
    units = energy_units(values)
    assert units == 10**36 < exact_units(values)
    assert len(str(to_units(values[1], units))) == MOST_DIGITS
    error = abs(Fraction(to_units(values[0], units), units) - Fraction(values[0]))
    assert 0 < error < Fraction(values[2]) / 10**9


@pytest.mark.parametrize("texts", [("1e-30", "1e13"), ("1e-12", "1e31"), ("0." + "3" * 60, "1e-28", "1e6")])
def test_figures_too_far_apart_have_no_unit(texts):
    with pytest.raises(SpreadError, match="are too far apart"):
        energy_units(numbers(*texts))
