"""Orders of one slot's loops, without those that others dominate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from solver.search.space.dataspaces import Component, DataspaceView
from solver.search.space.orders import allowed_orders
from solver.search.space.search_space import SearchSpace

Dims = tuple[int, ...]
"""Places of dimensions; of an order, innermost first."""


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
    views
        Dataspaces with boundaries inside that depend on the order.
    sliding
        Dimensions of windows that have loops in slots farther in.
    """

    level: int
    live: Dims
    moving: frozenset[int]
    leads: frozenset[int] | None
    views: frozenset[int]
    sliding: frozenset[int]


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
        self._options: dict[Slot, tuple[Dims, ...]] = {}

    def options(self, slot: Slot) -> tuple[Dims, ...]:
        """Orders that the rules and leads allow, those that no other one is as good as for all dataspaces."""
        if slot not in self._options:
            alike = self._told_apart(slot).values()
            self._options[slot] = tuple(own for every in alike for own in _undominated(every))
        return self._options[slot]

    def any(self, level: int, live: Sequence[int]) -> Dims:
        """One order that the rules allow."""
        names = [self._space.active[d] for d in live]
        return tuple(
            self._number[dim] for dim in next(allowed_orders(self._space.mapspace.temporal[level], names))
        )

    def _told_apart(self, slot: Slot) -> dict[object, dict[tuple[MovingRun, ...], Dims]]:
        """Orders that the rules and leads allow, one of each kind, by what is `_seen` of them."""
        views = [self._space.views[place] for place in sorted(slot.views)]
        names = [self._space.active[d] for d in slot.live]
        kinds: dict[object, dict[tuple[MovingRun, ...], Dims]] = {}
        for named in self._allowed(slot, names, partial(self._is_settled, slot, views)):
            order = tuple(map(self._number.__getitem__, named))
            runs = tuple(run_of(view, slot, order) for view in views)
            kinds.setdefault(self._seen(slot.level, order), {}).setdefault(runs, order)
        return kinds

    def _seen(self, level: int, order: Dims) -> object:
        """What besides the words of dataspaces depends on an order: nothing."""
        del level, order
        return None

    def _is_settled(self, slot: Slot, views: Sequence[DataspaceView], first: Sequence[str]) -> bool:
        """Whether orders that begin so are all of one kind."""
        inside = frozenset(map(self._number.__getitem__, first))
        outside = frozenset(slot.live) - inside
        return bool(first) and all(
            view.relevant.isdisjoint(outside) or not inside.isdisjoint(_ending(view, slot)) for view in views
        )

    def _allowed(
        self, slot: Slot, names: Sequence[str], settled: Callable[[Sequence[str]], bool]
    ) -> Iterator[tuple[str, ...]]:
        """Orders that rules and leads allow; of those that begin alike only one, once that is settled."""
        for named in allowed_orders(self._space.mapspace.temporal[slot.level], names, settled):
            if slot.leads is None or not named or self._number[named[0]] in slot.leads:
                yield named


def _undominated(orders: dict[tuple[MovingRun, ...], Dims]) -> list[Dims]:
    """Those that no other one is as good as."""
    best: list[tuple[tuple[MovingRun, ...], Dims]] = []
    for runs, order in orders.items():
        if not any(runs_no_worse(other, runs) for other, _ in best):
            best = [*(own for own in best if not runs_no_worse(runs, own[0])), (runs, order)]
    return [order for _, order in best]


def _ending(view: DataspaceView, slot: Slot) -> frozenset[int]:
    """Loops that move the tile of a dataspace in every pass to where nothing overlaps."""
    return slot.moving & (view.relevant - view.window_dims)


class MovingRun(NamedTuple):
    """Loops that move a tile, up to one that ends all reuse, and per such loop those inside that do not.

    Parameters
    ----------
    moving
        Innermost first, without the one that ends it.
    inside
        One more set if there is one that ends it.
    entangled
        Whether one of `moving` moves a window that another one moves, too, or loops farther in: where one
        goes on as the other goes back, the tile may be the same again.
    """

    moving: Dims
    inside: tuple[frozenset[int], ...]
    entangled: bool


def run_of(view: DataspaceView, slot: Slot, order: Dims) -> MovingRun:
    """What a dataspace sees of an order."""
    ending = _ending(view, slot)
    moving: list[int] = []
    inside: list[frozenset[int]] = []
    still: frozenset[int] = frozenset()
    for d in order:
        if d in view.irrelevant:
            still |= {d}
            continue
        inside.append(still)
        if d in ending:
            break
        moving.append(d)
    return MovingRun(
        tuple(moving), tuple(inside), any(_entangles(own, slot, moving) for own in view.components)
    )


def _entangles(component: Component, slot: Slot, moving: Sequence[int]) -> bool:
    """Whether loops of a slot move a window together, or together with loops farther in."""
    own = frozenset(moving).intersection(component.dims)
    return len(own) > 1 or (len(own) == 1 and not slot.sliding.isdisjoint(component.dims))


def runs_no_worse(one: Sequence[MovingRun], other: Sequence[MovingRun]) -> bool:
    """Whether no dataspace gets more words: loops that leave tiles in place lie as far inside, or farther.

    Where several loops move the same window, loops in between may keep tiles from being the same again.
    """
    return all(
        a.moving == b.moving
        and all(map(frozenset.issuperset, a.inside, b.inside))
        and (not a.entangled or a.inside == b.inside)
        for a, b in zip(one, other, strict=True)
    )
