"""What an unquoted YAML scalar means, by the core schema of YAML 1.2."""

from __future__ import annotations

import math
import re

from model.text.decimals import float_of
from model.text.limits import Limits, raised_by
from model.text.source import Scalar, ScalarNode, Span, SpecError

CORE_TAGS = "tag:yaml.org,2002:"

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {text: text.lower() == "true" for text in ("true", "True", "TRUE", "false", "False", "FALSE")}
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NOT_A_NUMBER = frozenset({".nan", ".NaN", ".NAN"})
_TAGGED_TYPES: dict[str, type | tuple[type, ...]] = {
    "int": int,
    "float": (int, float),
    "bool": bool,
    "null": type(None),
}


def plain_value(text: str, span: Span | None = None, limits: Limits | None = None) -> Scalar:
    """Return the value of an unquoted scalar.

    Parameters
    ----------
    text
        The scalar's content.
    span
        Its place, None where it stands in no file.
    limits
        ``integer_digits`` counts; the defaults if None.

    Returns
    -------
    None, bool, int, float or str
        Infinities and ``.nan`` are floats.

    Raises
    ------
    SpecError
        For a number with too many digits, or one too large or too small for a float.
    """
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    return _number(text, span, limits or Limits())


def scalar_node(text: str, quoted: bool, span: Span, tag: str | None, limits: Limits) -> ScalarNode:
    """Return the node of a scalar as written.

    Parameters
    ----------
    text, quoted, span
        As in `ScalarNode`.
    tag
        One of the core schema is applied and dropped, others are kept; None without one.
    limits
        As for `plain_value`.

    Raises
    ------
    SpecError
        As for `plain_value`, and where the text is not of the type that its tag says.
    """
    if tag is None:
        value = text if quoted else plain_value(text, span, limits)
        return ScalarNode(value, text, quoted, span)
    kind = tag.removeprefix(CORE_TAGS)
    if tag == "!" or (tag.startswith(CORE_TAGS) and kind == "str"):
        return ScalarNode(text, text, True, span)
    if tag.startswith(CORE_TAGS) and kind in _TAGGED_TYPES:
        return _converted(text, kind, span, limits)
    value = text if quoted else plain_value(text, span, limits)
    return ScalarNode(value, text, quoted, span, tag)


def _converted(text: str, kind: str, span: Span, limits: Limits) -> ScalarNode:
    value = plain_value(text, span, limits)
    if not isinstance(value, _TAGGED_TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise SpecError(f"`{text}` is tagged `!!{kind}` but is none", span)
    return ScalarNode(
        float(value) if kind == "float" and isinstance(value, int) else value, text, False, span
    )


def _number(text: str, span: Span | None, limits: Limits) -> Scalar:
    """Return the number that `text` is, or `text` itself."""
    bases = ((10, _DECIMAL), (8, _OCTAL), (16, _HEXADECIMAL))
    base = next((base for base, pattern in bases if pattern.fullmatch(text)), None)
    if base is not None:
        _check_digits(text, span, limits)
        return int(text.replace("0o", "") if base == 8 else text, base)
    if _FLOAT.fullmatch(text):
        return _finite(text, span, limits)
    if _INFINITE.fullmatch(text):
        return -math.inf if text.startswith("-") else math.inf
    return math.nan if text in _NOT_A_NUMBER else text


def _finite(text: str, span: Span | None, limits: Limits) -> float:
    _check_digits(text, span, limits)
    value = float_of(text)
    if math.isinf(value):
        raise SpecError(f"`{text}` is too large for a number", span, hint="infinity is written `.inf`")
    # The exact value of such a text is a fraction that can be too long for the memory.
    if value == 0 and any(digit in text.lower().partition("e")[0] for digit in "123456789"):
        raise SpecError(f"`{text}` is too small for a number", span, hint="write 0")
    return value


def _check_digits(text: str, span: Span | None, limits: Limits) -> None:
    if len(text) > limits.integer_digits:
        message = f"a number of {len(text)} digits; at most {limits.integer_digits} are read"
        raise SpecError(message, span, hint=raised_by("integer_digits"))
