"""What the order of a level's loops leaves on each dataspace: most orders make no difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from model.mapspace import TemporalRules
from solver.search.space.dataspaces import DataspaceView
from solver.search.space.orders import allowed_orders

Order = tuple[str, ...]
"""Dimensions of temporal loops, innermost first."""

Imprint = tuple[int, ...]
"""All that the deliveries of one dataspace depend on in the order of one level's loops."""


@dataclass(frozen=True)
class Ordered:
    """An order of the loops of a level, and all that dataspaces, in their order, can tell of it."""

    order: Order
    imprints: tuple[Imprint, ...]


def distinct_orders(
    rules: TemporalRules, factors: Mapping[str, int], active: Sequence[str], views: Sequence[DataspaceView]
) -> tuple[Ordered, ...]:
    """One order of each kind that dataspaces can tell apart, of all that the rules allow."""
    number = {dim: place for place, dim in enumerate(active)}
    every = frozenset(map(number.__getitem__, factors))
    loops = {number[dim]: factor for dim, factor in factors.items()}

    def settled(first: Sequence[str]) -> bool:
        done = frozenset(map(number.__getitem__, first))
        return all(_ended(view, done) or view.relevant.isdisjoint(every - done) for view in views)

    kinds: dict[tuple[Imprint, ...], Order] = {}
    for order in allowed_orders(rules, list(factors), settled):
        places = [number[dim] for dim in order]
        kinds.setdefault(tuple(_imprint(view, places, loops) for view in views), order)
    return tuple(Ordered(order, imprints) for imprints, order in kinds.items())


def _ended(view: DataspaceView, done: frozenset[int]) -> bool:
    """Whether a loop moves the tile to where nothing overlaps: from there on every loop multiplies."""
    return not done.isdisjoint(view.relevant - view.window_dims)


def _imprint(view: DataspaceView, order: Sequence[int], loops: Mapping[int, int]) -> Imprint:
    """What an order leaves on a dataspace.

    Until its tile has moved to where nothing overlaps, the loops along its windows count one by one and those
    in between by their product.
    """
    imprint = []
    run = 1
    for d in order:
        if d in view.irrelevant:
            run *= loops[d]
            continue
        imprint.append(run)
        if d not in view.window_dims:
            return tuple(imprint)
        imprint.append(-1 - d)
        run = 1
    return (*imprint, run)
