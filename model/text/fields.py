"""Values and keys of a spec: each function returns a checked value or raises a SpecError."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import TypeVar

from model.counting.words import tile_words
from model.problem import Problem
from model.text.expressions import evaluate_expression
from model.text.limits import Limits
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError
from model.wording import did_you_mean, listing, suggestion

Key = TypeVar("Key")
Names = Mapping[str, object]
NO_NAMES: Names = MappingProxyType({})

MAX_INTEGER = 10**15
LONGEST_NAME = 200
"""Characters of a name."""
IDENTIFIER_HINT = "use letters, digits and `_`, not beginning with a digit"


def kind_of(node: Node) -> str:
    """Return what `node` is, for a message."""
    if isinstance(node, SequenceNode):
        return "a list"
    if isinstance(node, MappingNode):
        return "a mapping"
    if node.value is None:
        return "empty"
    words = {bool: "a boolean", int: "an integer", float: "a number", str: "text"}
    return f"{words[type(node.value)]} (`{node.text}`)"


def as_mapping(node: Node, what: str) -> MappingNode:
    """Return `node` if it is a mapping; SpecError otherwise."""
    if not isinstance(node, MappingNode):
        raise SpecError(f"{what} must be a mapping, but is {kind_of(node)}", node.span)
    return node


def as_sequence(node: Node, what: str) -> SequenceNode:
    """Return `node` if it is a list; SpecError otherwise."""
    if not isinstance(node, SequenceNode):
        raise SpecError(f"{what} must be a list, but is {kind_of(node)}", node.span)
    return node


def flat_items(items: Iterable[Node]) -> Iterator[Node]:
    """Yield the items of a list with those of the lists in it, which included files give."""
    for item in items:
        if isinstance(item, SequenceNode):
            yield from flat_items(item.items)
        else:
            yield item


def as_scalar(node: Node, what: str) -> ScalarNode:
    """Return `node` if it is a single value that is not empty; SpecError otherwise."""
    if not isinstance(node, ScalarNode) or node.value is None:
        raise SpecError(f"{what} must be a single value, but is {kind_of(node)}", node.span)
    return node


def as_name(node: Node, what: str) -> str:
    """Return the text of a scalar that names something, as written: ``N`` and ``1`` are names."""
    text = as_scalar(node, what).text.strip()
    if not text:
        raise SpecError(f"{what} must not be empty", node.span)
    if len(text) > LONGEST_NAME:
        raise SpecError(f"{what} must have at most {LONGEST_NAME} characters, but has {len(text)}", node.span)
    if not text.isprintable():
        raise SpecError(f"{what} must be printable, but is `{text}`", node.span)
    return text


def is_blank(node: Node | None) -> bool:
    """Whether there is no value, or an empty one."""
    return node is None or (isinstance(node, ScalarNode) and node.value is None)


def given(node: MappingNode, key: str) -> Node | None:
    """Return the value under `key`, or None if it is missing or empty."""
    value = node.get(key)
    return None if is_blank(value) else value


def items_of(node: Node | None, what: str) -> tuple[Node, ...]:
    """Return the items of a list, none for a missing or empty value."""
    return () if node is None or is_blank(node) else as_sequence(node, what).items


def add_once(places: dict[Key, Span], key: Key, span: Span, message: str, first: str = "the first") -> None:
    """Add the place of what may be there once; SpecError with both places where it is there already."""
    if key in places:
        raise SpecError(message, span, () if places[key] == span else ((places[key], first),))
    places[key] = span


def known_name(node: Node, known: Iterable[str], what: str) -> str:
    """Return a name that is one of `known`; `what` says what they name, in the singular."""
    name = as_name(node, what)
    names = tuple(known)
    if name in names:
        return name
    hint = suggestion(name, names, "choose from")
    raise SpecError(f"unknown {what} `{name}`", node.span, hint=hint)


def scalar_value(node: Node, names: Names, what: str) -> int | float | str | bool:
    """Return a scalar's value; plain text is evaluated as an expression over `names`."""
    scalar = as_scalar(node, what)
    if isinstance(scalar.value, str) and not scalar.quoted:
        return evaluate_expression(scalar, names)
    assert scalar.value is not None
    return scalar.value


def as_int(
    node: Node,
    what: str,
    names: Names = NO_NAMES,
    minimum: int | None = None,
    maximum: int = MAX_INTEGER,
) -> int:
    """Return a whole number, also from an expression over `names` or a float with a whole value."""
    value = scalar_value(node, names, what)
    if isinstance(value, (bool, str)) or not _is_whole(value):
        unlimited = isinstance(value, float) and math.isinf(value)
        hint = "omit the key for no limit" if unlimited else None
        raise unfit(node, value, f"{what} must be a whole number", hint)
    number = int(value)
    if minimum is not None and number < minimum:
        raise SpecError(f"{what} must be at least {minimum}, but is {_value_text(node, number)}", node.span)
    if number > maximum:
        raise SpecError(f"{what} must be at most {maximum}, but is {_value_text(node, number)}", node.span)
    return number


def unfit(node: Node, value: object, demand: str, hint: str | None = None) -> SpecError:
    """Return the error for a value that is not as `demand`, a clause, says; quoted text has its own hint."""
    if not isinstance(node, ScalarNode) or not node.quoted:
        return SpecError(f"{demand}, but is `{_value_text(node, value)}`", node.span, hint=hint)
    if not node.text.strip():
        return SpecError(f"{demand}, but is empty", node.span)
    hint = "quoted values are text: remove the quotes" if _starts_with(node, ("'", '"')) else None
    return SpecError(f"{demand}, but is the text `{node.text}`", node.span, hint=hint)


def _starts_with(node: Node, marks: tuple[str, ...]) -> bool:
    """Whether the file has one of `marks` where `node` begins."""
    span = node.span.rendered or node.span
    line = None if span.source is None else span.source.line(span.line)
    return line is not None and line.startswith(marks, span.column - 1)


def _is_whole(value: float) -> bool:
    return isinstance(value, int) or (math.isfinite(value) and value == int(value))


def as_fraction(node: Node, what: str, names: Names = NO_NAMES) -> Fraction:
    """Return a number exactly as written; a computed float counts as its shortest decimal form."""
    scalar = as_scalar(node, what)
    if isinstance(scalar.value, (int, float)) and not isinstance(scalar.value, bool):
        return _exact_fraction(scalar.text, node, what)
    value = scalar_value(node, names, what)
    if isinstance(value, (bool, str)):
        raise unfit(node, value, f"{what} must be a number")
    return _exact_fraction(repr(value), node, what)


def as_share(node: Node, what: str, names: Names = NO_NAMES) -> Fraction:
    """Return a number from 0 to 1, exactly as written."""
    share = as_fraction(node, what, names)
    if not 0 <= share <= 1:
        raise SpecError(f"{what} must be between 0 and 1, but is {float(share):g}", node.span)
    return share


_TRUTHS = {**dict.fromkeys(("yes", "y", "on"), "true"), **dict.fromkeys(("no", "n", "off"), "false")}
_YAML_1_2 = "in YAML 1.2 other words are text"


def as_bool(node: Node, what: str, names: Names = NO_NAMES) -> bool:
    """Return a truth value; 0 and 1 are allowed, but not words of YAML 1.1 such as ``yes``."""
    scalar = as_scalar(node, what)
    is_word = isinstance(scalar.value, str) and scalar.value.isidentifier() and scalar.value not in names
    value = scalar.text if is_word else scalar_value(node, names, what)
    if not isinstance(value, bool) and value not in (0, 1):
        hint = _TRUTHS.get(scalar.text.lower())
        raise unfit(node, value, f"{what} must be true or false", hint and f"write `{hint}`: {_YAML_1_2}")
    return bool(value)


def name_list(node: Node, known: Iterable[str], what: str) -> dict[str, Span]:
    """Return the names in a list, or a single name, with their places; ``*`` stands for all, at its place."""
    names = tuple(known)
    items = node.items if isinstance(node, SequenceNode) else (as_scalar(node, f"list of {what}s"),)
    if any(as_name(item, what) == "*" for item in items):
        return dict.fromkeys(names, node.span)
    spans: dict[str, Span] = {}
    for item in items:
        name = known_name(item, names, what)
        add_once(spans, name, item.span, f"{what} `{name}` is listed twice", "first here")
    return spans


def means_all(node: Node) -> bool:
    """Whether a list of names is ``*`` or contains it."""
    items = node.items if isinstance(node, SequenceNode) else (node,)
    return any(isinstance(item, ScalarNode) and item.text.strip() == "*" for item in items)


def _exact_fraction(text: str, node: Node, what: str) -> Fraction:
    try:
        number = Fraction(Decimal(text.replace("_", "")))
    except (ArithmeticError, ValueError):
        raise SpecError(f"{what} must be a finite number, but is `{text}`", node.span) from None
    if number and not Fraction(1, MAX_INTEGER) <= abs(number) <= MAX_INTEGER:
        message = f"{what} must be 0 or from {1 / MAX_INTEGER:g} to {MAX_INTEGER:g}, but is `{text}`"
        raise SpecError(message, node.span)
    return number


def _value_text(node: Node, value: object) -> str:
    """Return a value for a message: its text, and the result if it was calculated."""
    text = node.text if isinstance(node, ScalarNode) else str(value)
    literal = isinstance(node, ScalarNode) and node.value is value
    return text if literal or text == str(value) else f"{text}, which is {value}"


NOWHERE: Mapping[str, str] = MappingProxyType({})


def check_keys(
    node: MappingNode,
    known: Iterable[str],
    what: str,
    required: Iterable[str] = (),
    elsewhere: Mapping[str, str] = NOWHERE,
) -> None:
    """Check that a mapping, called `what`, has only known keys; SpecError at the first unknown one.

    If that resembles no known key, the message names the `required` keys that are missing: it may be one of
    them, misspelt. `elsewhere` has keys that belong under another key, and that key.
    """
    names = tuple(known)
    for key, _ in node.entries:
        if key.text in names:
            continue
        if key.text in elsewhere:
            raise SpecError(
                f"unknown key `{key.text}` in {what}", key.span, hint=belongs(key.text, elsewhere)
            )
        raise _unknown_key(key, names, what, [name for name in required if name not in node])


def keyed_mapping(
    node: Node,
    what: str,
    known: Iterable[str],
    required: Iterable[str] = (),
    elsewhere: Mapping[str, str] = NOWHERE,
) -> MappingNode:
    """Return a node if it is a mapping with none but known keys; see `check_keys`."""
    mapping = as_mapping(node, what)
    check_keys(mapping, known, what, required, elsewhere)
    return mapping


def belongs(key: str, elsewhere: Mapping[str, str]) -> str:
    """Return the hint for a key of `elsewhere`, which belongs under another one."""
    return f"`{key}` belongs under `{elsewhere[key]}`"


def _unknown_key(key: ScalarNode, known: Sequence[str], what: str, missing: Sequence[str]) -> SpecError:
    message = f"unknown key `{key.text}` in {what}"
    similar = did_you_mean(key.text, known)
    if missing and similar is None:
        message = f"{message}, which lacks {listing(missing)}"
    return SpecError(message, key.span, hint=similar or f"known keys are {listing(known)}")


def one_of(node: MappingNode, keys: Iterable[str], what: str) -> tuple[ScalarNode, Node] | None:
    """Return the entry whose key is one of several synonyms, or None; SpecError if two say something."""
    present = [(node.key(key), value) for key in keys if (value := node.get(key)) is not None]
    if len(present) > 1:
        present = [entry for entry in present if not _says_nothing(entry[1])] or present[:1]
    if len(present) > 1:
        first, second = present[0][0], present[1][0]
        message = f"`{first.text}` and `{second.text}` are two names for the same key in {what}"
        raise SpecError(message, second.span, ((first.span, "first given here"),))
    return present[0] if present else None


def _says_nothing(node: Node) -> bool:
    """Whether a value is blank, or a list or a mapping without entries."""
    is_empty = isinstance(node, SequenceNode) and not node.items
    return is_blank(node) or is_empty or (isinstance(node, MappingNode) and not node.entries)


def check_count(items: Sequence[object], most: int, what: str, span: Span) -> None:
    """Check that there are at most so many of something; `what` names it in the plural."""
    if len(items) > most:
        raise SpecError(f"{len(items)} {what}; at most {most} are read", span)


def check_points(count: int, limits: Limits, what: str, span: Span) -> None:
    """Check that a number is within `Limits.points`; `what` begins the message: ``the computes are``."""
    if count > limits.points:
        message = f"{what} about 1e{math.floor(math.log10(count))}; at most {float(limits.points):g} are read"
        raise SpecError(message, span)


def check_problem(problem: Problem, limits: Limits, span: Span) -> None:
    """Check that the computes and words of an Einsum are within `Limits.points`."""
    check_points(problem.computes, limits, "the computes are", span)
    for space in problem.dataspaces:
        check_points(tile_words(space, problem.bound), limits, f"the words of `{space.name}` are", span)
