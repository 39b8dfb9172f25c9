"""Orders of one slot's loops: one of each kind that dataspaces tell apart, and the best for each alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

from solver.search.space.dataspaces import DataspaceView
from solver.search.space.orders import allowed_orders
from solver.search.space.search_space import SearchSpace

Dims = tuple[int, ...]
"""Places of dimensions; of an order, innermost first."""


class Seen(NamedTuple):
    """What a dataspace sees of an order.

    Parameters
    ----------
    order
        One that it cannot tell apart from the order, the same for all of these.
    ended
        Whether some loop moves the tile in every pass to where nothing overlaps: from there on all loops
        move it, and their order does not matter.
    """

    order: Dims
    ended: bool


class Option(NamedTuple):
    """An order of a slot, and what each dataspace sees of it."""

    order: Dims
    seen: tuple[Seen, ...]


class Slot(NamedTuple):
    """The loops of one slot.

    Parameters
    ----------
    level
        It is inside of.
    live
        Dimensions with a loop, ascending.
    moving
        Those whose loops have several iterations in every pass.
    leads
        Those that may be innermost, None for all.
    """

    level: int
    live: Dims
    moving: frozenset[int]
    leads: frozenset[int] | None


class Orders:
    """The orders of all slots of a search space, remembered by their loops.

    Parameters
    ----------
    space
        Its rules decide which orders there are.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._number = {dim: d for d, dim in enumerate(space.active)}
        self._options: dict[Slot, tuple[Option, ...]] = {}
        self._fewest: dict[tuple[int, Slot], tuple[Seen, ...]] = {}

    def options(self, slot: Slot) -> tuple[Option, ...]:
        """Orders that the rules and leads allow, one of each kind."""
        if slot not in self._options:
            self._options[slot] = tuple(self._told_apart(slot))
        return self._options[slot]

    def any(self, level: int, live: Sequence[int]) -> Dims:
        """One order that the rules allow."""
        names = [self._space.active[d] for d in live]
        return tuple(
            self._number[dim] for dim in next(allowed_orders(self._space.mapspace.temporal[level], names))
        )

    def _told_apart(self, slot: Slot) -> Iterator[Option]:
        views, live = self._space.views, frozenset(slot.live)

        def settled(first: Sequence[str]) -> bool:
            inside = frozenset(map(self._number.__getitem__, first))
            return bool(first) and all(
                view.relevant.isdisjoint(live - inside) or not inside.isdisjoint(_ending(view, slot))
                for view in views
            )

        known = set()
        names = [self._space.active[d] for d in slot.live]
        for names_in_order in allowed_orders(self._space.mapspace.temporal[slot.level], names, settled):
            order = tuple(map(self._number.__getitem__, names_in_order))
            if order and slot.leads is not None and order[0] not in slot.leads:
                continue
            seen = tuple(_seen(view, slot, order) for view in views)
            if seen not in known:
                known.add(seen)
                yield Option(order, seen)

    def fewest(self, place: int, slot: Slot) -> tuple[Seen, ...]:
        """What a dataspace may see of orders among which is the best for it alone, whatever the rules say.

        Loops that leave its tile in place are as far inside as leads allow: moving one inwards never
        brings more words.
        """
        key = place, slot
        if key not in self._fewest:
            view = self._space.views[place]
            every = (_seen(view, slot, order) for order in self._innermost_first(view, slot))
            self._fewest[key] = tuple(dict.fromkeys(every))
        return self._fewest[key]

    @staticmethod
    def _innermost_first(view: DataspaceView, slot: Slot) -> Iterator[Dims]:
        still = tuple(d for d in slot.live if d in view.irrelevant)
        moving = tuple(d for d in slot.live if d in view.relevant)
        if slot.leads is None or any(d in slot.leads for d in still):
            yield from ((*still, *own) for own in permutations(moving))
            return
        for first in (d for d in moving if d in slot.leads):
            others = (d for d in moving if d != first)
            yield from ((first, *still, *own) for own in permutations(others))


def _ending(view: DataspaceView, slot: Slot) -> frozenset[int]:
    """Loops that move the tile of a dataspace in every pass to where nothing overlaps."""
    return slot.moving & (view.relevant - view.window_dims)


def _seen(view: DataspaceView, slot: Slot, order: Dims) -> Seen:
    ending = _ending(view, slot)
    first: list[int] = []
    between: list[int] = []
    for d in order:
        if d in ending:
            first += sorted(between)
            rest = [own for own in slot.live if own not in first]
            end = next(own for own in rest if own in ending)
            return Seen((*first, end, *(own for own in rest if own != end)), ended=True)
        if d in view.irrelevant:
            between.append(d)
            continue
        first += [*sorted(between), d]
        between = []
    return Seen((*first, *sorted(between)), ended=False)
