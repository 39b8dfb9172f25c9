"""Marks the long tail of random comparisons, which runs where slow tests are asked for."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow(*values: object) -> Any:
    """Parameters of a test that is slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


def few(values: Iterable[Any], most: int = 1) -> list[Any]:
    """Parameters of tests of which all but the first `most` are slow."""
    return [
        own if number < most else slow(*own) if isinstance(own, tuple) else slow(own)
        for number, own in enumerate(values)
    ]
