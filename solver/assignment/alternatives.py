"""For each layer the best total when that layer takes another method than the best assignment gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from model.assignment import CostArray
from solver.assignment.assigner import take_apart
from solver.assignment.elimination import Elimination, least_total, restore
from solver.assignment.instance import Instance
from solver.assignment.reductions import reduce_instance
from solver.assignment.result import AssignResult
from solver.result import Status

MOST_SOLVED_AGAIN = 200
"""Layers up to which a graph with rings is solved once more for every layer."""

MOST_ENTRIES_AGAIN = 1 << 26
"""What the tables of all those solutions may have together: a few seconds."""


@dataclass(frozen=True)
class Alternative:
    """A layer's best other method.

    Parameters
    ----------
    method
        Its position in the layer's `methods`.
    margin
        Steps by which the best assignment with it is above the best one of all.
    """

    method: int
    margin: int


Alternatives = tuple[Alternative | None, ...]
"""One per layer; None for a layer that has no other method."""


def alternatives(result: AssignResult) -> Alternatives | None:
    """Return each layer's best other method.

    Exact. In chains and trees one pass back through the eliminations tells the least total under
    every method of every layer (the min-marginals); other graphs that reductions solve are solved again
    without the layer's method, once per layer.

    Returns
    -------
    tuple or None
        None where the assignment or its margin is not proven, where a rest was searched, and where a
        graph with rings has more than `MOST_SOLVED_AGAIN` layers, or takes too many entries.
    """
    if result.best is None or result.status is not Status.OPTIMAL:
        return None
    if result.runner_up is not None and result.margin is None:
        return None
    instance = Instance.of(result.network)
    reduced, _ = take_apart(instance)
    if reduced.kernels:
        return None
    if all(len(elimination.neighbours) <= 1 for elimination in reduced.eliminations):
        surplus = _surpluses(reduced.eliminations, instance.infinity)
        return tuple(
            _best_other(surplus[layer], chosen, instance.infinity)
            for layer, chosen in enumerate(result.best.choice)
        )
    layers = len(instance.vectors)
    if (
        layers > MOST_SOLVED_AGAIN
        or layers * sum(elimination.entries for elimination in reduced.eliminations) > MOST_ENTRIES_AGAIN
    ):
        return None
    total = result.best.total
    return tuple(_without(instance, layer, value, total) for layer, value in enumerate(result.best.choice))


def _surpluses(eliminations: Sequence[Elimination], infinity: int) -> dict[int, CostArray]:
    """Return per variable and value how far the best total with it is above the least of all.

    Every elimination has one link at most. Back from the last one: what lies beyond the link is the
    neighbour's surplus without the part that this variable had passed on to it.
    """
    surpluses: dict[int, CostArray] = {}
    for elimination in reversed(eliminations):
        if not elimination.links:
            surpluses[elimination.variable] = np.where(
                elimination.vector < infinity, elimination.vector - elimination.vector.min(), infinity
            )
            continue
        (((neighbour,), matrix),) = elimination.links
        passed_on = (elimination.vector[:, None] + matrix).min(axis=0)
        is_open = (surpluses[neighbour] < infinity) & (passed_on < infinity)
        # May be negative: only together with the variable's own costs it is a surplus.
        beyond = np.where(is_open & (matrix < infinity), matrix + surpluses[neighbour] - passed_on, infinity)
        least = beyond.min(axis=1)
        is_open = (elimination.vector < infinity) & (least < infinity)
        surpluses[elimination.variable] = np.where(is_open, elimination.vector + least, infinity)
    return surpluses


def _best_other(surplus: CostArray, chosen: int, infinity: int) -> Alternative | None:
    others = surplus.copy()
    others[chosen] = infinity
    method = int(others.argmin())
    return None if others[method] >= infinity else Alternative(method, int(others[method]))


def _without(instance: Instance, layer: int, chosen: int, total: int) -> Alternative | None:
    """Solve an instance again without one value of one variable."""
    vectors = list(instance.vectors)
    vectors[layer] = vectors[layer].copy()
    vectors[layer][chosen] = instance.infinity
    reduced = reduce_instance(replace(instance, vectors=vectors))
    least = least_total(reduced.eliminations)
    if least >= instance.infinity:
        return None
    choice = [0] * len(vectors)
    restore(reduced.eliminations, choice, instance.infinity)
    return Alternative(choice[layer], least - total)
