from decimal import Decimal

import pytest

from model.energy.figures import rounded, with_fewer_digits

FINEST = Decimal("1e-6")


@pytest.mark.parametrize(
    ("value", "whole", "dropped"),
    [
        (1.2345678e29, "1.23457e29", "1.23457e29"),
        (123456.789, "123457", "123457"),
        (1.2345678, "1.23457", "1.23457"),
        (0.012345678, "0.0123457", "0.012346"),
        (0.0012345678, "0.00123457", "0.001235"),
        (0.00098765432, "0.000987654", "0.000987654"),
    ],
)
def test_digits_below_the_finest_are_dropped_where_four_are_left(value, whole, dropped):
    assert (rounded(value), rounded(value, FINEST)) == (Decimal(whole), Decimal(dropped))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("0.311350666666666667", "0.311350666667"),
        ("0.00000031135066", "3.11351E-7"),
        ("0.0000000311350666", "3.11351E-8"),
        ("3.11350666E-20", "3.11351E-20"),
        ("1.18943E-15", "1.18943E-15"),
        ("1.23457E+29", "1.23457E+29"),
        ("0", "0"),
    ],
)
def test_estimates_that_are_scaled_keep_twelve_decimals_or_six_digits(text, kept):
    assert with_fewer_digits(Decimal(text)) == Decimal(kept)
