"""Methods that compute each answer once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial, update_wrapper
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
    return _remembered(method, lambda _, *arguments: arguments)


def remembered_by(
    key: Callable[[Any, *Arguments], object],
) -> Callable[[Callable[[Any, *Arguments], Answer]], cached_property[Callable[[*Arguments], Answer]]]:
    """Let a method remember its answers by a key that says all that matters of its arguments."""
    return partial(_remembered, key=key)


def _remembered(
    method: Callable[[Any, *Arguments], Answer], key: Callable[[Any, *Arguments], object]
) -> cached_property[Callable[[*Arguments], Answer]]:
    def look_up_in(own: Any) -> Callable[[*Arguments], Answer]:
        known: dict[object, Answer] = {}

        def look_up(*arguments: *Arguments) -> Answer:
            about = key(own, *arguments)
            if about not in known:
                known[about] = method(own, *arguments)
            return known[about]

        return look_up

    return cached_property(update_wrapper(look_up_in, method))
