"""How a search is stopped from outside."""

from __future__ import annotations

from collections.abc import Callable

Stop = Callable[[], bool]
"""Asked often; once it answers True the search must end."""


class Stopped(Exception):  # noqa: N818 (no error)
    """Raised inside of a long calculation when the search must end."""


def never() -> bool:
    """Do not stop."""
    return False
