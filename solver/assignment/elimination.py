"""Variables that were eliminated, and the way back: the best choice, and the second-best one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model.network import CostArray


@dataclass(frozen=True, eq=False)
class Elimination:
    """A variable that left the problem, with what it cost at that moment.

    Parameters
    ----------
    variable
        Its number.
    vector
        Per value the cost that depends on it alone, with the best choice of all that was folded into
        it before, shape (values,).
    links
        The neighbours that were left, each with its matrix of shape (values, neighbour's values).
    """

    variable: int
    vector: CostArray
    links: tuple[tuple[int, CostArray], ...]

    def costs(self, choice: Sequence[int]) -> CostArray:
        """Return the cost of each value when the neighbours are chosen."""
        costs = self.vector
        for neighbour, matrix in self.links:
            costs = costs + matrix[:, choice[neighbour]]
        return costs


@dataclass(frozen=True)
class Departure:
    """The cheapest way to leave the best assignment at one of the eliminated variables.

    Parameters
    ----------
    position
        Place of the variable in the order of elimination.
    value
        What it takes instead of its best value.
    margin
        How much more that costs.
    """

    position: int
    value: int
    margin: int


def restore(eliminations: Sequence[Elimination], choice: list[int], infinity: int) -> Departure | None:
    """Choose the best value of every eliminated variable, last eliminated first.

    `choice` holds the variables that were not eliminated and is completed.

    Returns
    -------
    Departure or None
        To the second-best assignment among those that share the given choices. Any other assignment
        leaves the best one somewhere first, going back through the eliminations; up to there it
        agrees, and behind it the best completion is already part of the vector. So the least margin of
        a single variable is the margin of the whole. None where there is no other feasible one.
    """
    best: Departure | None = None
    for position in range(len(eliminations) - 1, -1, -1):
        own = eliminations[position]
        costs = own.costs(choice)
        value = int(costs.argmin())
        choice[own.variable] = value
        if len(costs) == 1:
            continue
        others = costs.copy()
        others[value] = infinity
        second = int(others.argmin())
        if others[second] >= infinity:
            continue
        margin = int(others[second]) - int(costs[value])
        if best is None or margin < best.margin:
            best = Departure(position, second, margin)
    return best


def depart(eliminations: Sequence[Elimination], choice: Sequence[int], departure: Departure) -> list[int]:
    """Return the assignment that leaves `choice` at the departure and is best from there on."""
    other = list(choice)
    other[eliminations[departure.position].variable] = departure.value
    for own in reversed(eliminations[: departure.position]):
        other[own.variable] = int(own.costs(other).argmin())
    return other


def least_total(eliminations: Sequence[Elimination]) -> int:
    """Return what the variables without neighbours add up to, each at its best."""
    return sum(int(np.min(own.vector)) for own in eliminations if not own.links)
