"""Which attributes are expressions, and which are text."""

import pytest

from model.formats.timeloop.attributes import NO_ATTRIBUTES, read_attributes
from model.text.composer import compose
from model.text.documents import Document
from model.text.limits import Limits


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5 if 3 > 2 else 7", 5),
        ("0 or 10", 10),
        ("8 if not 1 else 4 and 6", 6),
        ("2 * 1e3 if 2 > 1e-3 else 3", 2000),
        ("rows if 2 > 1 else 0", 4),
        ("10 in", "10 in"),
        ("not", "not"),
        ("2 or more", "2 or more"),
        ("45nm", "45nm"),
        ("2 * 1e3x", "2 * 1e3x"),
    ],
)
def test_operators_and_exponents_name_nothing(text, value):
    node = compose(Document.of("attributes.yaml", f"depth: {text}\nrows: 4\n"), Limits())
    assert read_attributes(node, NO_ATTRIBUTES, {})["depth"].value == value
