"""Methods that compute each answer once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any, TypeVar, TypeVarTuple

Arguments = TypeVarTuple("Arguments")
Answer = TypeVar("Answer")


def remembered(
    method: Callable[[Any, *Arguments], Answer],
) -> cached_property[Callable[[*Arguments], Answer]]:
    """Return a method that remembers its answers as long as its object lives.

    Arguments are given by position. Like other cached properties, answers are no part of what
    `dataclasses.replace` copies.
    """

    def look_up_in(own: Any) -> Callable[[*Arguments], Answer]:
        known: dict[object, Answer] = {}

        def look_up(*arguments: *Arguments) -> Answer:
            if arguments not in known:
                known[arguments] = method(own, *arguments)
            return known[arguments]

        return look_up

    return cached_property(update_wrapper(look_up_in, method))
