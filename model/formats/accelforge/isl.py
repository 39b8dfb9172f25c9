"""Iteration spaces that are not boxes, by the integer set library (the optional extra ``isl``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from model.formats.accelforge.affine import Constraint
from model.formats.accelforge.boxes import Box, Interval
from model.text.source import Span, SpecError

if TYPE_CHECKING:
    from types import ModuleType

EXTRA = "isl"

# Seconds at most; strides, triangles and bands of twelve variables take a fifth of it.
_MOST_OPERATIONS = 10**5


def bounding_box(
    variables: Sequence[str], constraints: Iterable[Constraint], texts: Sequence[tuple[str, Span]]
) -> tuple[Box, bool]:
    """Return the least box around a set of integer points, and whether the set fills it.

    Raises
    ------
    SpecError
        The extra is not installed, ISL does not understand a text or needs too many steps for it,
        or the set is empty.
    """
    isl = _library(texts[0][1])
    context = isl.Context()
    context.set_max_operations(_MOST_OPERATIONS)
    try:
        return _bounding_box(_Isl(isl, context), variables, constraints, texts)
    except isl.Error as error:
        raise _refusal(error, texts[-1][1]) from None


@dataclass(frozen=True)
class _Isl:
    """The library, and the context that counts its steps."""

    library: ModuleType
    context: Any


def _bounding_box(
    isl: _Isl, variables: Sequence[str], constraints: Iterable[Constraint], texts: Sequence[tuple[str, Span]]
) -> tuple[Box, bool]:
    everything = f"[{', '.join(variables)}]"
    known = [f"{constraint.affine} >= 0" for constraint in constraints]
    result = _set(isl, everything, " and ".join(known) or "true", texts[0][1])
    for text, span in texts:
        _check_text(text, span)
        condition = re.sub(r"==+", "=", text)
        result = result.intersect(_set(isl, everything, f"({condition})", span))
    if result.is_empty():
        raise SpecError("no point of the iteration space is left", texts[-1][1])
    box = {name: _interval(result, place) for place, name in enumerate(variables)}
    if not all(interval.is_bounded for interval in box.values()):
        return box, False
    limits = (f"{own.low} <= {name} <= {own.high}" for name, own in box.items())
    return box, bool(_set(isl, everything, " and ".join(limits), texts[0][1]).is_equal(result))


def _check_text(text: str, span: Span) -> None:
    """Refuse what would end the condition that it is put into."""
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0 or character in "{};":
            raise SpecError(f"`{character}` does not belong into this condition", span)


def _library(span: Span) -> ModuleType:
    try:
        import islpy  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415 (an optional extra)
    except ImportError:
        message = "this iteration space is not a box of ranges such as `0 <= m < 128`"
        hint = f"other sets need the extra `{EXTRA}`: pip install 'tilewright[{EXTRA}]'"
        raise SpecError(message, span, hint=hint) from None
    return islpy  # type: ignore[no-any-return,unused-ignore]


def _set(isl: _Isl, everything: str, condition: str, span: Span) -> Any:
    try:
        return isl.library.Set.read_from_str(isl.context, f"{{ {everything} : {condition} }}")
    except isl.library.Error as error:
        raise _refusal(error, span) from None


def _refusal(error: Exception, span: Span) -> SpecError:
    if "number of operations exceeded" in str(error):
        return SpecError(f"ISL needs more than {_MOST_OPERATIONS:,} steps for this", span)
    return SpecError("ISL does not understand this", span)


def _interval(points: Any, place: int) -> Interval:
    low, high = points.dim_min_val(place), points.dim_max_val(place)
    return Interval(
        int(low.to_str()) if low.is_int() else None, int(high.to_str()) if high.is_int() else None
    )
