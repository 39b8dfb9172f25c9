"""How a search is stopped from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Stop = Callable[[], bool]
"""Asked often; once it answers True the search must end."""


BETWEEN_STOPS = 1000
"""Items of a long list after which it is asked whether to stop."""

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818 (no error)
    """Raised inside of a long calculation when the search must end."""


def never() -> bool:
    """Do not stop."""
    return False


def heed(stop: Stop) -> None:
    """Raise `Stopped` once `stop` answers True."""
    if stop():
        raise Stopped


def heeding(stop: Stop, items: Iterable[T]) -> Iterator[T]:
    """Yield items; `Stopped` is raised once `stop` answers True."""
    for number, item in enumerate(items):
        if number % BETWEEN_STOPS == BETWEEN_STOPS - 1 and stop():
            raise Stopped
        yield item
