from decimal import Decimal

import pytest

from model.energy.figures import rounded

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
