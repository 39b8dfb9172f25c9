"""Affine expressions and comparisons, against Python's own arithmetic."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.formats.accelforge.affine import Affine, NotAffineError, read_affine, read_constraints, tightened
from model.text.source import SourceText, Span, SpecError

NAMES = ("m", "n0", "p")
SPAN = Span("w.yaml", 1, 1, 1, 9)


def expressions() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(NAMES) | st.integers(0, 9).map(str)

    def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        sums = st.tuples(parts, st.sampled_from("+-"), parts).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
        products = st.tuples(st.integers(-3, 9), parts).map(lambda t: f"{t[0]} * {t[1]}")
        return sums | products | parts.map(lambda part: f"-{part}")

    return st.recursive(leaves, joined, max_leaves=6)


def value_of(affine: Affine, point: dict[str, int]) -> int:
    return affine.constant + sum(c * point[name] for name, c in affine.coefficients.items())


def calculated(text: str, point: dict[str, int]) -> object:
    return eval(compile(ast.parse(text, mode="eval"), "", "eval"), {}, point)


@given(expressions(), st.fixed_dictionaries({name: st.integers(-5, 20) for name in NAMES}))
def test_an_affine_expression_has_the_value_that_it_says(text: str, point: dict[str, int]):
    assert value_of(read_affine(text, None), point) == calculated(text, point)


@given(
    st.lists(
        st.tuples(expressions(), st.sampled_from(("<", "<=", ">", ">=", "==")), expressions()), max_size=3
    ),
    st.fixed_dictionaries({name: st.integers(-5, 20) for name in NAMES}),
)
def test_constraints_hold_where_the_comparisons_do(parts: list[tuple[str, str, str]], point: dict[str, int]):
    text = " and ".join(f"{left} {symbol} {right}" for left, symbol, right in [*parts, ("0", "<=", "m")])
    found = read_constraints(text, SPAN)
    assert all(value_of(c.affine, point) >= 0 for c in found) is calculated(text, point)


@given(
    st.lists(
        st.tuples(st.fixed_dictionaries({name: st.integers(-3, 3) for name in NAMES}), st.integers(-9, 9)),
        max_size=3,
    )
)
def test_the_box_holds_every_point(rows: list[tuple[dict[str, int], int]]):
    limits = [c for name in NAMES for c in read_constraints(f"0 <= {name} < 5", SPAN)]
    rules = []
    for coefficients, constant in rows:
        terms = " + ".join(f"({c}) * {name}" for name, c in coefficients.items())
        rules += read_constraints(f"{terms} + {constant} >= 0", SPAN)
    points = [dict(zip(NAMES, (x, y, z), strict=True)) for x in range(5) for y in range(5) for z in range(5)]
    kept = [p for p in points if all(value_of(r.affine, p) >= 0 for r in rules)]
    try:
        box = tightened(NAMES, [*limits, *rules])
    except SpecError:
        assert not kept
        return
    for point in kept:
        for name in NAMES:
            low, high = box[name].low, box[name].high
            assert low is not None
            assert high is not None
            assert low <= point[name] <= high


@pytest.mark.parametrize(
    ("text", "place"),
    [("p * r", 1), ("1 + p / 2", 5), ("p + 2.5", 5), ("p + 'a'", 5), ("f(p)", 1), ("p % 2 + 1", 1)],
)
def test_what_is_not_affine_is_refused_at_its_place(text: str, place: int):
    span = Span("w.yaml", 1, 1, 1, len(text) + 1, SourceText.of("w.yaml", text))
    with pytest.raises(SpecError, match="affine") as caught:
        read_affine(text, span)
    assert caught.value.span is not None
    assert caught.value.span.column == place


@pytest.mark.parametrize("text", ["0 <= = p < 8", "0 < < p", "p = = 3"])
def test_signs_of_comparison_that_follow_each_other_are_refused_as_they_stand(text: str):
    with pytest.raises(SpecError) as caught:
        read_constraints(text, SPAN)
    assert f"follow each other in `{text}`" in caught.value.message


def test_large_numbers_are_refused():
    with pytest.raises(SpecError, match="numbers above"):
        read_affine("100000 * 100000 * p", None)


@pytest.mark.parametrize("text", ["m", "m < 3 or m > 5", "m != 3", "not m < 3", "m % 2 == 0"])
def test_other_conditions_are_not_affine(text: str):
    with pytest.raises(NotAffineError):
        read_constraints(text, SPAN)
