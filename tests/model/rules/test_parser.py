"""Texts of rules: what is a condition, and where one that is none is wrong."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.architecture import Fanout, StorageLevel
from model.rules import Locality, RuleScope, parse_rule
from model.syntax import ExpressionError
from tests.mapspaces import free_mapspace, matmul

MAPSPACE = free_mapspace(
    matmul(8, 8, 8),
    StorageLevel("DRAM"),
    StorageLevel("buffer", size_words=64),
    Fanout("PE", 4, 4),
    StorageLevel("reg", size_words=4),
)
PROBLEM, ARCHITECTURE = MAPSPACE.problem, MAPSPACE.architecture
WHOLE = RuleScope(PROBLEM, ARCHITECTURE)
AT = {
    "tile": RuleScope(PROBLEM, ARCHITECTURE, "tile", "buffer", {"lanes": 4}),
    "temporal": RuleScope(PROBLEM, ARCHITECTURE, "temporal", "buffer"),
    "spatial": RuleScope(PROBLEM, ARCHITECTURE, "spatial", "PE"),
    "": WHOLE,
}
BUFFER, PE = Locality("tile", "buffer"), Locality("spatial", "PE")

READ = [
    ("tile", "K % 16 == 0", "(tile(buffer, K) % 16) == 0", BUFFER),
    ("tile", "words(A) <= 0.5 * capacity", "words(buffer, A) <= (0.5 * capacity(buffer))", BUFFER),
    ("tile", "M == N", "tile(buffer, M) == tile(buffer, N)", BUFFER),
    ("tile", "K <= 2 * lanes", "tile(buffer, K) <= (2 * 4)", BUFFER),
    ("tile", "keeps(A) or tile(reg, K) > 1", "keeps(buffer, A) or (tile(reg, K) > 1)", None),
    ("spatial", "M <= 4 * K", "spatial(PE, M) <= (4 * spatial(PE, K))", PE),
    ("spatial", "instances >= .75 * fanout", "instances(PE) >= (0.75 * fanout(PE))", PE),
    ("temporal", "M >= 2", "temporal(buffer, M) >= 2", None),
    ("temporal", "innermost in [M, K]", "(innermost(buffer) == M) or (innermost(buffer) == K)", None),
    ("temporal", "innermost not in (M,)", "not (innermost(buffer) == M)", None),
    ("", "energy <= 2.5 mJ", "energy <= 2500000000 pJ", None),
    ("", "cycles <= 1e6 and energy > 1 fJ", "(cycles <= 1000000) and (energy > 0.001 pJ)", None),
    ("", 'keeps("buffer", A)', "keeps(buffer, A)", BUFFER),
]


@pytest.mark.parametrize(("place", "text", "condition", "locality"), READ)
def test_conditions(place, text, condition, locality):
    rule = parse_rule(text, AT[place])
    assert (str(rule.condition), rule.locality) == (condition, locality)
    assert parse_rule(condition, WHOLE) == rule


REFUSED = [
    ("", "energy <= 5", "an energy is compared with a number", "5", "has a unit"),
    ("", "energy <= 2.5mJ", "not an expression", None, "a blank stands before a unit"),
    ("", "K >= 2", "`K` is not defined here", "K", "tile(LEVEL, K)"),
    ("tile", "Q >= 2", "`Q` is not defined here", "Q", "the problem has"),
    ("tile", "A < 3", "`A` is not defined here", "A", "words(A)"),
    ("tile", "K = 2", "not an expression", None, "`==`"),
    ("tile", "K & 2", "not allowed", "K & 2", "write `and`"),
    ("tile", "K ** 2 < 3", "not allowed", "K ** 2", None),
    ("tile", "words(C) < 2", "no dataspace `C`", "C", "`A`, `B` and `Z`"),
    ("tile", "tile(bufer, K) > 2", "no level `bufer`", "bufer", "did you mean `buffer`?"),
    ("tile", "wrods(A) > 2", "no function `wrods`", "wrods(A)", "did you mean `words`?"),
    ("tile", "words(A, B, Z) < 1", "`words(LEVEL, DATASPACE)`", "words(A, B, Z)", None),
    ("tile", "words < 1", "`words(LEVEL, DATASPACE)`", "words", None),
    ("spatial", "words(A) < 1", "`words(LEVEL, DATASPACE)`", "words(A)", None),
    ("tile", "capacity(DRAM) > K", "no limited capacity", "capacity(DRAM)", None),
    ("tile", "K % 0 == 1", "divides by zero", "K % 0", None),
    ("tile", "K + 1", "this is a number, not a condition", "K + 1", None),
    ("tile", "(K > 1) + 2 > 3", "this is a condition, not a number", "K > 1", None),
    ("tile", "(K > 1) == (M > 1)", "a condition is not compared", "K > 1", "`and` and `or`"),
    ("", "energy * energy > 1 J", "`*` cannot be combined with these", "energy * energy", None),
    ("", "innermost(buffer) < M", "`==`, `!=` and `in` only", "M", None),
    ("temporal", "K in 4", "`in` needs a list", "4", None),
    ("tile", "2 < 3", "says nothing about a mapping", None, None),
    ("tile", "__import__('os').system('x')", "not allowed", "__import__('os').system('x')", None),
    ("tile", "K.__class__ > 1", "not allowed", "K.__class__", None),
    ("tile", "[K for K in M] == 1", "not allowed", "[K for K in M]", None),
    ("tile", "True", "not allowed", "True", None),
    ("tile", "K < 1e999", "at most 200 digits", "1e999", None),
    ("tile", "K < " + "9" * 300, "at most 200 digits", None, None),
    ("tile", "-" * 99 + "K < 2", "nested too deep", None, None),
    ("tile", "K < 1" + " + 1" * 300, "nested too deep", None, None),
    ("tile", "K < 1" + " + 1" * 600, "at most 2000 characters", None, None),
    ("tile", "", "missing", None, None),
]


@pytest.mark.parametrize(("place", "text", "message", "mark", "hint"), REFUSED)
def test_what_is_no_condition_is_refused_with_its_place(place, text, message, mark, hint):
    with pytest.raises(ExpressionError) as caught:
        parse_rule(text, AT[place])
    error = caught.value
    assert message in error.message
    if mark is not None:
        assert text[error.start : error.end] == mark
    assert hint is None or hint in (error.hint or "")


TOKEN_TEXT = """
( ) [ ] , + - * / // % ** == = != < <= > >= and or not in if else lambda : . # \\ ' é
K M A PE buffer lanes tile words share keeps capacity innermost instances energy cycles
0 1 2.5 1e9 1e999 0x10 3j 2.5mJ mJ J 1_0 True None f'{K}' \0
"""
TOKENS = tuple(TOKEN_TEXT.split())


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(TOKENS), max_size=14), st.sampled_from(sorted(AT)), st.sampled_from(("", " "))
)
def test_any_text_is_a_rule_or_ends_in_an_error_with_a_place(tokens, place, between):
    text = between.join(tokens)
    try:
        rule = parse_rule(text, AT[place])
    except ExpressionError as error:
        assert error.start is None or 0 <= error.start <= len(text)
        return
    assert parse_rule(str(rule.condition), WHOLE) == rule


def test_a_unit_is_no_dimension_of_its_name():
    problem = matmul(2, 2, 2)
    scope = RuleScope(
        type(problem)("p", ("J", "N", "K"), (2, 2, 2), problem.dataspaces), ARCHITECTURE, "tile", "reg"
    )
    assert str(parse_rule("2 * J <= 4", scope).condition) == "(2 * tile(reg, J)) <= 4"
    assert str(parse_rule("energy <= 2 J", scope).condition) == "energy <= 2000000000000 pJ"


LIMITS = [
    ("cycles <= 1e3", ("cycles", 1000)),
    ("2 * 50 > cycles", ("cycles", 99)),
    ("cycles < 99.5", ("cycles", 99)),
    ("energy < 2 pJ", ("energy", 1999)),
    ("1/3 * 1 pJ >= energy", ("energy", 333)),
    ("cycles >= 4", None),
    ("cycles <= tile(buffer, K)", None),
    ("cycles * 2 <= 4", None),
    ("cycles <= 1 / (2 - 2)", None),
]


@pytest.mark.parametrize(("text", "limit"), LIMITS)
def test_limits_on_costs(text, limit):
    found = parse_rule(text, WHOLE).cost_limit
    assert (found and (found.quantity, found.in_units(units_per_pj=1000))) == limit
    assert parse_rule(text, WHOLE).is_simple is (limit is not None)


def test_mapspaces_are_narrowed_from_python():
    narrowed = MAPSPACE.where("tile(buffer, K) % 4 == 0", "keeps(buffer, A)").where("instances(PE) == 16")
    assert len(narrowed.rules) == 3
    assert hash(narrowed) != hash(MAPSPACE)
    narrowed.check_searchable(simple_rules=True)
    with pytest.raises(ValueError, match="must be about the tile at one level"):
        narrowed.where("tile(buffer, K) == tile(reg, K)").check_searchable(simple_rules=True)
    both = MAPSPACE.where("tile(buffer, K) == 2 and spatial(PE, M) in [2, 4]")
    both.check_searchable(simple_rules=True)
    with pytest.raises(ValueError, match="does not support user-defined constraints"):
        both.check_searchable()
    assert [part.locality for part in both.rules[0].parts] == [BUFFER, PE]
