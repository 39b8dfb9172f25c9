import copy
import pickle
from decimal import Decimal

import pytest

from model.text.arithmetic import LongFloat, calculated, float_of

LONG = "1.2345678901234567891"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1 * 3, "0.3"),
        (100 * 1e-15, "1.00E-13"),
        (1 / 3, "0.333333333333333"),
        (3.6e-12, "3.6E-12"),
        (0.123456789012345, "0.123456789012345"),
        (10**20 + 1, "100000000000000000001"),
        (float_of("1.2345678901234567891"), "1.2345678901234567891"),
    ],
)
def test_what_is_calculated_loses_the_noise_of_doubles(value, text):
    assert calculated(value) == Decimal(text)


@pytest.mark.parametrize("text", ["1.5", "0.123456789012345", "1e-7", "0.0", "1e999", "-2.5"])
def test_what_a_double_holds_is_one(text):
    assert type(float_of(text)) is float
    assert float_of(text) == float(text)


@pytest.mark.parametrize("again", [lambda number: pickle.loads(pickle.dumps(number)), copy.deepcopy])
def test_longer_numbers_keep_their_digits(again):
    number = again(float_of(LONG))
    assert isinstance(number, LongFloat)
    assert (str(number), repr(number), number == float(LONG)) == (LONG, LONG, True)
