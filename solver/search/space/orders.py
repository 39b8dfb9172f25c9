"""Loop orders of a storage level: classes that decide the reuse, and all orders that the rules allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from model.mapspace import TemporalRules
from solver.search.space.dataspaces import DataspaceView

MOST_SPLIT = 6
"""Dimensions of a group up to which it is told apart which of their loops lie inside of one that returns."""

Signature = frozenset[int]
"""Places of the dataspaces that a loop leaves in place."""


@dataclass(frozen=True)
class Group:
    """Loops that follow each other, in any order; ``signature`` holds for each of them.

    Loops over the dimensions ``before`` may lie farther in as well.

    Parameters
    ----------
    dims, before
        Places of active dimensions.
    """

    dims: tuple[int, ...]
    signature: Signature
    before: tuple[int, ...] = ()


Dims = frozenset[int]


@dataclass(frozen=True)
class Turn:
    """A loop over one of `leads` moves a window, one over `partners` farther out returns to its tiles."""

    leads: Dims
    partners: Dims


@dataclass(frozen=True)
class OrderClass:
    """Orders of the loops of one slot: `groups`, innermost first.

    With `turns` the class is there for orders in which one of them takes place, with `late` for those with a
    loop over one of these dimensions, which comes after a turn or ends the reuse.
    """

    groups: tuple[Group, ...]
    turns: tuple[Turn, ...] = ()
    late: Dims = frozenset()

    @cached_property
    def anywhere(self) -> Dims:
        """Dimensions whose loops may lie farther in than their group."""
        return frozenset(d for group in self.groups for d in group.before)

    @cached_property
    def _numbers(self) -> dict[int, int]:
        numbers = {d: number for number, group in enumerate(self.groups) for d in group.dims}
        return {d: number for d, number in numbers.items() if d not in self.anywhere}

    def inside(self, dim: int, dims: Sequence[int]) -> list[int]:
        """Those of `dims` whose loops certainly lie inside of the one over `dim`."""
        number = self._numbers.get(dim, 0)
        return [d for d in dims if self._numbers.get(d, number) < number]


@dataclass(frozen=True)
class SlotOrders:
    """Classes of the loop orders of one slot.

    The first `fixed` groups are the same in all classes. ``useful`` are the dimensions whose order
    is open and whose loops leave some dataspace in place.
    """

    fixed: int
    useful: tuple[int, ...]
    classes: tuple[OrderClass, ...]


def slot_orders(rules: TemporalRules, active: Sequence[str], views: Sequence[DataspaceView]) -> SlotOrders:
    """Classes of loop orders, groups innermost first, that cover every useful order.

    Loops that leave the same dataspaces in place belong together: moving one inwards to the other
    keeps them in place for longer and costs nothing, unless a window returned before. A group matters
    only while some dataspace is in place; the loops outside of that form one last group. It begins earlier
    where a loop moves all that is in place, and some of it along a window.
    """
    number = {dim: i for i, dim in enumerate(active)}

    def signature(dim: int) -> Signature:
        return frozenset(v.place for v in views if dim in v.irrelevant)

    def single(dims: Sequence[str]) -> tuple[Group, ...]:
        places = [number[dim] for dim in dims if dim in number]
        return tuple(Group((place,), signature(place)) for place in places)

    inner, outer = single(rules.inner), single(rules.outer)
    fixed = {dim for group in (*inner, *outer) for dim in group.dims}
    by_signature: dict[Signature, list[int]] = {}
    for dim in range(len(active)):
        if dim not in fixed:
            by_signature.setdefault(signature(dim), []).append(dim)
    groups = [Group(tuple(dims), sig) for sig, dims in by_signature.items()]
    everything = frozenset(v.place for v in views)
    chains = list(_chains(groups, everything))
    classes = [OrderClass((*inner, *chain, *outer)) for chain in chains]
    cut = [OrderClass((*inner, *chain, *outer), late=late) for chain, late in _cut_short(groups, views)]
    turning = dict.fromkeys(order for chain in chains for order in _turning(inner, chain, views))
    turned = [replace(order, groups=(*order.groups, *outer)) for order in turning]
    useful = tuple(dim for group in groups if group.signature for dim in group.dims)
    return SlotOrders(len(inner), useful, (*classes, *cut, *turned))


def _turning(
    inner: Sequence[Group], chain: Sequence[Group], views: Sequence[DataspaceView]
) -> Iterator[OrderClass]:
    """Classes in which a window returns before loops that a chain has farther in, outside of `inner`.

    A loop that returns lies inside of all that move the dataspace in other ranks. Some of these may belong
    to the group of the window's innermost loop, or to one that follows it. So may loops that leave the
    dataspace in place: outside of the one that returns they repeat it, inside of it they do not.
    """
    for number, group in enumerate(chain):
        if group.signature:
            yield from _turning_in(inner, chain, number, views)


def _turning_in(
    inner: Sequence[Group], chain: Sequence[Group], number: int, views: Sequence[DataspaceView]
) -> Iterator[OrderClass]:
    """Those in which the loops inside of the one that returns end with some of the group at `number`."""
    group, outside = chain[number], chain[number + 1 :]
    rest = tuple(d for other in outside for d in other.dims)
    skipped = frozenset(d for other in outside if other.signature for d in other.dims)
    farther_in = frozenset(d for group in (*inner, *chain[:number]) for d in group.dims)
    if between := _between(group, farther_in, views):
        yield OrderClass((*inner, *chain[:number], replace(group, before=rest), *outside), late=between)
    for dims, turns in _turns(group, farther_in, views):
        late = frozenset(group.dims) - dims
        first = replace(group, dims=tuple(d for d in group.dims if d in dims))
        turned = _turned(rest, late, _all_move(turns, group.signature, views))
        if late or skipped:
            yield OrderClass((*inner, *chain[:number], first, *turned), turns, late or skipped)


def _turned(rest: tuple[int, ...], late: Dims, reuse_ends: bool) -> tuple[Group, ...]:
    """Groups outside of a window's innermost loops: `late` comes after a loop that returns."""
    outer = tuple(sorted(late))
    if not outer or not reuse_ends:
        return (Group((*rest, *outer), frozenset()),)
    return Group(rest, frozenset(), outer), Group(outer, frozenset())


def _all_move(turns: Sequence[Turn], places: Signature, views: Sequence[DataspaceView]) -> bool:
    """Whether every loop that returns moves the dataspaces that the loops inside leave in place."""
    return all(turn.partners <= views[place].relevant for turn in turns for place in places)


def _turns(
    group: Group, farther_in: Dims, views: Sequence[DataspaceView]
) -> Iterator[tuple[Dims, tuple[Turn, ...]]]:
    """What the loops of a group run over that lie inside of a loop that returns, and its turns.

    Loops over the dimensions `farther_in` lie inside of the group.
    """
    inside = list(dict.fromkeys(_splits(group, farther_in, views)))
    closed: set[Dims] = set()
    for own, _, _ in inside:
        closed |= {own, *(own & other for other in closed)}
    for first in sorted(closed, key=sorted):
        turns = dict.fromkeys(
            Turn(window & (first | farther_in if leads_farther_in else first), window - first - farther_in)
            for own, window, leads_farther_in in inside
            if first <= own
        )
        possible = tuple(turn for turn in turns if turn.leads and turn.partners)
        if possible:
            yield first, possible


def _splits(
    group: Group, farther_in: Dims, views: Sequence[DataspaceView]
) -> Iterator[tuple[Dims, Dims, bool]]:
    """Per window, dimensions of a group whose loops may lie inside of one that returns, without the others.

    With them come those of the window, and whether its innermost loop lies inside of the whole group.
    """
    for own, several, window, leads_farther_in in _windows(group, farther_in, views):
        outside = _parts(several) if len(several) <= MOST_SPLIT else [frozenset[int]()]
        yield from (
            (own - left, window, leads_farther_in) for left in outside if left != several or not several
        )


def _between(group: Group, farther_in: Dims, views: Sequence[DataspaceView]) -> Dims:
    """Dimensions whose loops may return to a window between so many of a group that each case is too much."""
    windows = _windows(group, farther_in, views)
    crowded = (window for _, several, window, _ in windows if len(several) > MOST_SPLIT)
    return frozenset(d for window in crowded for d in window) - frozenset(group.dims) - farther_in


def _windows(
    group: Group, farther_in: Dims, views: Sequence[DataspaceView]
) -> Iterator[tuple[Dims, Dims, Dims, bool]]:
    """Per window, dimensions of a group whose loops may lie inside of one that returns.

    With them come those that may as well lie outside of it, those of the window, and whether its innermost
    loop lies inside of the whole group.
    """
    dims = frozenset(group.dims)
    windows = ((view, c, frozenset(c.dims)) for view in views for c in view.components if c.sliding)
    for view, component, window in windows:
        if dims <= view.relevant:
            own = dims - frozenset(view.apart(component))
            # If a partner lies elsewhere, loops of the group over the same window may follow it.
            yield own, own & window if window - dims else frozenset(), window, False
        elif dims.isdisjoint(view.relevant) and window & farther_in and window - farther_in:
            yield dims, dims, window, True


def _parts(dims: Dims) -> Iterator[Dims]:
    """All subsets."""
    for size in range(len(dims) + 1):
        yield from map(frozenset, combinations(sorted(dims), size))


def _chains(groups: Sequence[Group], in_place: Signature) -> Iterator[tuple[Group, ...]]:
    useful = [group for group in groups if group.signature & in_place]
    if not useful:
        yield _rest(groups)
        return
    for group in useful:
        others = [other for other in groups if other is not group]
        for chain in _chains(others, in_place & group.signature):
            yield (group, *chain)


def _cut_short(
    groups: Sequence[Group], views: Sequence[DataspaceView], inside: tuple[Group, ...] = ()
) -> Iterator[tuple[tuple[Group, ...], Dims]]:
    """Chains that a loop ends which moves all that is in place, and what it runs over.

    That shortens the reuse, but what was in place may slide along such a loop.
    """
    in_place = [view for view in views if all(view.place in group.signature for group in inside)]
    kept = frozenset(view.place for view in in_place)
    moving = frozenset(d for group in groups if not group.signature & kept for d in group.dims)
    sliding = frozenset(d for view in in_place for d in view.window_dims)
    useful = [group for group in groups if group.signature & kept]
    for dim in sorted(moving & sliding if useful else ()):
        rest = [replace(group, dims=tuple(d for d in group.dims if d != dim)) for group in groups]
        yield (*inside, Group((dim,), frozenset()), *_rest(rest)), frozenset((dim,))
    for group in useful:
        yield from _cut_short([other for other in groups if other is not group], views, (*inside, group))


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
