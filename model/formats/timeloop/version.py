"""The key ``version`` of Timeloop's sections."""

from __future__ import annotations

from decimal import Decimal

from model.text.fields import as_scalar
from model.text.source import MappingNode, SpecError

VERSION = Decimal("0.4")


def check_version(node: MappingNode) -> None:
    """Check the optional key ``version`` of a section.

    Raises
    ------
    SpecError
        It is another one than 0.4.
    """
    version = node.get("version")
    if version is None:
        return
    text = as_scalar(version, "`version`").text
    try:
        number = Decimal(text)
    except ArithmeticError:
        number = Decimal(-1)
    if number != VERSION:
        raise SpecError(f"version `{text}` is not supported", version.span, hint="version 0.4 is")
