"""Loop orders of a storage level: classes that decide the reuse, and all orders that the rules allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations

from model.mapspace import TemporalRules
from solver.search.dataspaces import DataspaceView

Signature = frozenset[int]
"""Places of the dataspaces that a loop leaves in place."""


@dataclass(frozen=True)
class Group:
    """Loops that follow each other, in any order; ``signature`` holds for each of them.

    Loops over the dimensions ``before`` may lie farther in as well: no dataspace that the groups inside
    leave in place stays in place under them. They shorten the reuse, but windows may slide along them.
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

    With `turns` the class is there for orders in which one of them takes place, and then a loop over `late`.
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
    only while some dataspace is in place; the loops outside of that form one last group.
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
    turning = dict.fromkeys(own for chain in chains for own in _turning(chain, views))
    turned = [replace(own, groups=(*inner, *own.groups, *outer)) for own in turning]
    useful = tuple(dim for group in groups if group.signature for dim in group.dims)
    return SlotOrders(len(inner), useful, (*classes, *turned))


def _turning(chain: Sequence[Group], views: Sequence[DataspaceView]) -> Iterator[OrderClass]:
    """Classes in which a window returns before loops that a chain has farther in.

    A loop that returns lies inside of all that move the dataspace in other ranks. Some of these may belong
    to the group of the window's innermost loop, or to one that follows it.
    """
    for number, group in enumerate(chain):
        if group.signature:
            yield from _turning_in(chain, number, views)


def _turning_in(chain: Sequence[Group], number: int, views: Sequence[DataspaceView]) -> Iterator[OrderClass]:
    """Those in which the loops inside of the one that returns are of the group at `number`."""
    group, outside = chain[number], chain[number + 1 :]
    rest = tuple(d for other in outside for d in other.dims)
    skipped = frozenset(d for other in outside if other.signature for d in other.dims)
    for dims, turns in _turns(group, views):
        late = frozenset(group.dims) - dims
        first = replace(group, dims=tuple(d for d in group.dims if d in dims))
        groups = (*chain[:number], first, *_turned(rest, late, _all_move(turns, group.signature, views)))
        if late or skipped:
            yield OrderClass(groups, turns, late or skipped)


def _turned(rest: tuple[int, ...], late: Dims, reuse_ends: bool) -> tuple[Group, ...]:
    """Groups outside of a window's innermost loops: `late` comes after a loop that returns."""
    outer = tuple(sorted(late))
    if not outer or not reuse_ends:
        return (Group((*rest, *outer), frozenset()),)
    return Group(rest, frozenset(), outer), Group(outer, frozenset())


def _all_move(turns: Sequence[Turn], places: Signature, views: Sequence[DataspaceView]) -> bool:
    """Whether every loop that returns moves the dataspaces that the loops inside leave in place."""
    return all(turn.partners <= views[place].relevant for turn in turns for place in places)


def _turns(group: Group, views: Sequence[DataspaceView]) -> Iterator[tuple[Dims, tuple[Turn, ...]]]:
    """What the loops of a group run over that lie inside of a loop that returns, and its turns."""
    dims = frozenset(group.dims)
    windows = [(view, c) for view in views if dims <= view.relevant for c in view.components if c.sliding]
    inside = [(dims - frozenset(view.apart(c)), frozenset(c.dims)) for view, c in windows]
    closed: set[Dims] = set()
    for own, _ in inside:
        closed |= {own, *(own & other for other in closed)}
    for first in sorted(closed, key=sorted):
        turns = {Turn(window & first, window - first) for own, window in inside if first <= own}
        possible = tuple(turn for turn in turns if turn.leads and turn.partners)
        if possible:
            yield first, possible


def _chains(groups: Sequence[Group], in_place: Signature) -> Iterator[tuple[Group, ...]]:
    useful = [group for group in groups if group.signature & in_place]
    if not useful:
        rest = tuple(dim for group in groups for dim in group.dims)
        yield (Group(rest, frozenset()),) if rest else ()
        return
    useless = tuple(dim for group in groups if group not in useful for dim in group.dims)
    for group in useful:
        others = [other for other in groups if other is not group]
        for chain in _chains(others, in_place & group.signature):
            yield (Group(group.dims, group.signature, useless), *chain)


def allowed_orders(rules: TemporalRules, dims: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """All orders of the loops over `dims` (bounds above 1), innermost first, that `rules` allow."""
    inner = [dim for dim in rules.inner if dim in dims]
    outer = [dim for dim in rules.outer if dim in dims]
    loose = [dim for dim in dims if dim not in inner and dim not in outer]
    for order in permutations(loose):
        yield (*inner, *order, *outer)
