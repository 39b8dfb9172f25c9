"""Rules of the user's own in specs: on nodes, and those of the whole mapspace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from model.architecture import Architecture
from model.formats.timeloop.constraints import RULES, TILE
from model.formats.timeloop.context import Context
from model.formats.timeloop.document import section_of
from model.formats.timeloop.tree import ArchLeaf
from model.mapspace import NOT_SIMPLE, Mapspace
from model.rules import Rule, RuleScope, parse_rule
from model.rules.parser import Place
from model.syntax import ExpressionError
from model.text.arithmetic import calculated
from model.text.expressions import part_of
from model.text.fields import Names, as_mapping, as_scalar, given
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, SpecError, source_ref

MOST_RULES = 256
"""Rules of one spec."""

_FACTOR = re.compile(r"\w+ ?= ?\w+")
_FACTORS_HINT = "a factor stands under `factors`; a rule compares with `==`"
_PLACES: tuple[Place, ...] = ("tile", "spatial", "temporal")


class WrittenRule(NamedTuple):
    """The text of a rule; the node that it stands on, if on any, and in which of its constraints."""

    text: ScalarNode
    leaf: ArchLeaf | None = None
    place: Place | None = None


def written_rules(top: MappingNode, context: Context) -> tuple[WrittenRule, ...]:
    """Return the rules of a spec, unread: those of the nodes, outermost first, then those of the mapspace."""
    rules = [rule for leaf in context.tree.leaves for rule in _rules_at(leaf)]
    section = section_of(top, "mapspace")
    own = given(as_mapping(section, "`mapspace`"), RULES) if section is not None else None
    rules += [WrittenRule(text) for text in _texts(own, f"`{RULES}` of `mapspace`")]
    if len(rules) > MOST_RULES:
        raise SpecError(f"a spec has at most {MOST_RULES} rules", rules[MOST_RULES].text.span)
    return tuple(rules)


def _rules_at(leaf: ArchLeaf) -> Iterator[WrittenRule]:
    constraints = given(leaf.node, "constraints")
    if constraints is None:
        return
    for place in _PLACES:
        value = given(as_mapping(constraints, "`constraints`"), place)
        if isinstance(value, MappingNode) and place != TILE:
            value = given(value, RULES)
        for text in _texts(value, f"`{place}`"):
            yield WrittenRule(text, leaf, place)


def _texts(value: Node | None, what: str) -> Iterator[ScalarNode]:
    if value is None:
        return
    items = value.items if isinstance(value, SequenceNode) else (value,)
    for item in items:
        yield as_scalar(item, f"a rule in {what}")


def read_rules(
    written: Iterable[WrittenRule], architecture: Architecture, context: Context
) -> tuple[Rule, ...]:
    """Return the rules of the canonical mapspace.

    Raises
    ------
    SpecError
        If one is no condition on mappings, with the part that is wrong.
    """
    return tuple(_read_rule(rule, architecture, context) for rule in written)


def _read_rule(written: WrittenRule, architecture: Architecture, context: Context) -> Rule:
    text, leaf, place = written
    if leaf is None or place is None:
        scope = RuleScope(context.problem, architecture, constants=_finite_names(context.variables))
    else:
        _check_node(text, leaf, place, architecture)
        names = _finite_names(context.names_at(leaf))
        scope = RuleScope(context.problem, architecture, place, leaf.name, names)
    line = " ".join(text.text.split("\n")).strip()
    try:
        return parse_rule(line, scope, source_ref(text.span))
    except ExpressionError as error:
        place_of = text.span
        if error.start is not None:
            place_of = part_of(text.span, line, error.start, error.end) or text.span
        hint = _FACTORS_HINT if place != TILE and _FACTOR.fullmatch(line) else error.hint
        raise SpecError(error.message, place_of, hint=hint) from None


def _check_node(text: ScalarNode, leaf: ArchLeaf, place: Place, architecture: Architecture) -> None:
    """Raise a SpecError for a rule on a node that has no tile, no loops or no fanout."""
    nodes = architecture.fanouts if place == "spatial" else architecture.levels
    if leaf.name not in [node.name for node in nodes]:
        lack = "has no fanout" if place == "spatial" else "stores nothing"
        raise SpecError(f"a {place} rule has no effect on `{leaf.name}`, which {lack}", text.span)


def _finite_names(names: Names) -> Mapping[str, Fraction]:
    """Return the names of finite numbers, which rules may use."""
    numbers = {
        name: calculated(value)
        for name, value in names.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    return {name: Fraction(value) for name, value in numbers.items() if value.is_finite()}


def check_searched_with_places(mapspace: Mapspace, written: Sequence[WrittenRule]) -> None:
    """Raise a SpecError for a rule that searches do not know where memories may have several places."""
    for rule, (text, _, _) in zip(mapspace.rules, written, strict=True):
        if mapspace.joint and not rule.is_simple:
            message = "this rule is not searched where memories may have several places"
            raise SpecError(message, text.span, hint=f"{NOT_SIMPLE}; or leave out --uneven")


def check_searched(rules: Iterable[Rule], written: Sequence[WrittenRule]) -> None:
    """Raise a SpecError for a rule that searches do not know."""
    for rule, (text, _, _) in zip(rules, written, strict=True):
        if not rule.is_simple:
            hint = f"{NOT_SIMPLE}; `evaluate` checks other rules of a given mapping"
            raise SpecError("this rule is not searched yet", text.span, hint=hint)
