"""Loop orders of a storage level that the rules allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from model.mapspace import TemporalRules


def allowed_orders(
    rules: TemporalRules, dims: Sequence[str], settled: Callable[[Sequence[str]], bool] = lambda first: False
) -> Iterator[tuple[str, ...]]:
    """All orders of the loops over `dims` (bounds above 1), innermost first, that `rules` allow.

    Of those with the same first loops only one, once it is `settled` by these that the others do not matter.
    """
    inner = tuple(dim for dim in rules.inner if dim in dims)
    outer = tuple(dim for dim in rules.outer if dim in dims)
    loose = tuple(dim for dim in dims if dim not in inner and dim not in outer)
    for order in _permutations(inner, loose, settled):
        yield (*order, *outer)


def put_inside(rules: TemporalRules, dims: Sequence[str]) -> tuple[frozenset[int], ...]:
    """For each of `dims`, places of those whose loops lie inside of its own wherever both have loops."""
    inner = [dim for dim in rules.inner if dim in dims]
    outer = [dim for dim in rules.outer if dim in dims]
    loose = [dim for dim in dims if dim not in inner and dim not in outer]

    def inside(dim: str) -> list[str]:
        if dim in inner:
            return inner[: inner.index(dim)]
        return inner if dim in loose else [*inner, *loose, *outer[: outer.index(dim)]]

    return tuple(frozenset(map(dims.index, inside(dim))) for dim in dims)


def _permutations(
    first: tuple[str, ...], rest: tuple[str, ...], settled: Callable[[Sequence[str]], bool]
) -> Iterator[tuple[str, ...]]:
    if len(rest) < 2 or settled(first):
        yield (*first, *rest)
        return
    for place, dim in enumerate(rest):
        yield from _permutations((*first, dim), (*rest[:place], *rest[place + 1 :]), settled)
