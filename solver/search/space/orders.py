"""Loop orders of a storage level: classes that decide the reuse, and all orders that the rules allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from model.mapspace import TemporalRules
from solver.search.space.dataspaces import DataspaceView

Signature = frozenset[int]
"""Places of the dataspaces that a loop leaves in place."""


@dataclass(frozen=True)
class Group:
    """Loops over `dims` that follow each other, in any order; each leaves the same dataspaces in place."""

    dims: tuple[int, ...]
    signature: Signature


def _leads(groups: Sequence[Group], views: Sequence[DataspaceView]) -> Iterator[tuple[Group, ...]]:
    """Yield each group as the innermost one, if any window can tell, and all others as one."""
    if len(groups) < 2 or not any(view.window_dims for view in views):
        yield _rest(groups)
        return
    for group in groups:
        yield (group, *_rest([other for other in groups if other is not group]))


def _chains(groups: Sequence[Group], in_place: Signature) -> Iterator[tuple[Group, ...]]:
    useful = [group for group in groups if group.signature & in_place]
    if not useful:
        yield _rest(groups)
        return
    for group in useful:
        others = [other for other in groups if other is not group]
        for chain in _chains(others, in_place & group.signature):
            yield (group, *chain)


def _rest(groups: Sequence[Group]) -> tuple[Group, ...]:
    rest = tuple(dim for group in groups for dim in group.dims)
    return (Group(rest, frozenset()),) if rest else ()


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


def _permutations(
    first: tuple[str, ...], rest: tuple[str, ...], settled: Callable[[Sequence[str]], bool]
) -> Iterator[tuple[str, ...]]:
    if len(rest) < 2 or settled(first):
        yield (*first, *rest)
        return
    for place, dim in enumerate(rest):
        yield from _permutations((*first, dim), (*rest[:place], *rest[place + 1 :]), settled)
