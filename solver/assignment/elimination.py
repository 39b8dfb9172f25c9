"""Variables that were eliminated, and the way back: the best choice, and the second-best one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.assignment import CostArray

Scope = tuple[int, ...]
"""Variables, as the axes of a table."""


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
        The neighbours that were left, each set with its table of shape (values, values of each).
    """

    variable: int
    vector: CostArray
    links: tuple[tuple[Scope, CostArray], ...]

    @property
    def neighbours(self) -> Scope:
        """The variables that it was folded into."""
        return tuple(dict.fromkeys(other for scope, _ in self.links for other in scope))

    @property
    def entries(self) -> int:
        """Entries of the table over its own values and those of all neighbours."""
        sizes = {
            other: size
            for scope, table in self.links
            for other, size in zip(scope, table.shape[1:], strict=True)
        }
        return int(len(self.vector) * math.prod(sizes.values()))

    def costs(self, choice: Sequence[int], infinity: int) -> CostArray:
        """Return the cost of each value when the neighbours are chosen.

        Returns
        -------
        CostArray
            Shape (values,).
        """
        costs = self.vector
        for scope, table in self.links:
            place: tuple[Any, ...] = (slice(None), *(choice[other] for other in scope))
            costs = np.minimum(costs + table[place], infinity)
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
    """
    best: Departure | None = None
    for position in range(len(eliminations) - 1, -1, -1):
        elimination = eliminations[position]
        costs = elimination.costs(choice, infinity)
        value = int(costs.argmin())
        choice[elimination.variable] = value
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


def depart(
    eliminations: Sequence[Elimination], choice: Sequence[int], departure: Departure, infinity: int
) -> list[int]:
    """Return the assignment that leaves `choice` at the departure and is best from there on."""
    other = list(choice)
    other[eliminations[departure.position].variable] = departure.value
    for elimination in reversed(eliminations[: departure.position]):
        other[elimination.variable] = int(elimination.costs(other, infinity).argmin())
    return other


def least_total(eliminations: Sequence[Elimination]) -> int:
    """Return what the variables without neighbours add up to, each at its best."""
    return sum(int(np.min(elimination.vector)) for elimination in eliminations if not elimination.links)
