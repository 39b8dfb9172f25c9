"""What handing out windows costs once it is known where their tiles lie: few children share one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from model.cost.counting import displacement
from model.cost.rules import rule_of
from solver.search.arrays import FloatArray
from solver.search.branching.walk import Node
from solver.search.space.prices import BoundaryPrice
from solver.search.space.spatial import FanoutChoice, StageChoice
from solver.search.subproblems.energies import EnergySubproblem

_Place = tuple[int, int, StageChoice, tuple[int, ...]]
"""A dataspace, a stage, its spatial choice, and the extents of what its children get."""


@dataclass(frozen=True)
class WindowMulticast:
    """Prices of a subproblem's boundaries that know how many children of fanouts get different tiles.

    Those of the subproblem take the fewest that any tiles lead to.
    """

    sub: EnergySubproblem

    @cached_property
    def _places(self) -> tuple[int, ...]:
        """Dataspaces whose windows some stage unrolls."""
        views = self.sub.space.views
        unrolled = {d for stage in self.sub.spatial for d, factor in enumerate(stage.windows) if factor > 1}
        return tuple(view.place for view in views if unrolled & view.window_dims)

    def beyond(self, node: Node) -> tuple[int, FloatArray]:
        """By how much the boundaries outside of a node's tile cost more than the subproblem says.

        Returns
        -------
        int
            Quanta of energy.
        FloatArray
            Cycles of load of each resource, shape (resources,).
        """
        spent, loads = 0, np.zeros(len(self.sub.space.resources))
        for place in self._places:
            more, loaded = self._beyond(place, node)
            spent, loads = spent + more, loads + loaded
        return spent, loads

    def _beyond(self, place: int, node: Node) -> tuple[int, FloatArray]:
        least = tuple(stage.distinct[place] for stage in self.sub.spatial)
        stages = zip(node.spatial, node.extents, strict=True)
        known = [self._known(place, stage, *own) for stage, own in enumerate(stages)]
        if all(n == few for n, few in zip(known, least, strict=False)):
            return 0, np.zeros(len(self.sub.space.resources))
        delivered = [(level, words) for own, level, words in node.delivered if own == place]
        exact = _cost(self._priced(place, (*known, *least[len(known) :])), delivered, node)
        assumed = _cost(self.sub.prices[place], delivered, node)
        return exact[0] - assumed[0], exact[1] - assumed[1]

    def _known(self, place: int, stage: int, choice: StageChoice, extents: Sequence[int]) -> int:
        inside = tuple(n // factor for n, factor in zip(extents, choice.factors, strict=True))
        key = place, stage, choice, inside
        if key not in self._distinct:
            self._distinct[key] = self._count(*key)
        return self._distinct[key]

    @cached_property
    def _distinct(self) -> dict[_Place, int]:
        return {}

    def _count(self, place: int, stage: int, choice: StageChoice, inside: tuple[int, ...]) -> int:
        """Different tiles among the children of a stage, whose tiles are `inside`."""
        numbers, count = self.sub.space.fanouts_below[stage], 1
        for number, fanout_choice in reversed(list(zip(numbers, choice.choices, strict=True))):
            count *= self._multicast(place, number, fanout_choice, inside)
            inside = tuple(n * factor for n, factor in zip(inside, fanout_choice.factors, strict=True))
        return count

    def _multicast(self, place: int, number: int, choice: FanoutChoice, inside: Sequence[int]) -> int:
        """The same of one fanout."""
        space = self.sub.space
        dataspace = space.problem.dataspaces[place]
        if dataspace.name in space.architecture.fanouts[number].no_multicast:
            return math.prod(choice.factors)
        loops = zip(space.active, choice.factors, inside, strict=True)
        copies = rule_of(space.mapspace.counting).copies
        return copies((factor, displacement(dataspace, dim, n)) for dim, factor, n in loops)

    def _priced(self, place: int, distinct: tuple[int, ...]) -> dict[int, BoundaryPrice]:
        key = place, distinct
        if key not in self._prices:
            spread = replace(self.sub.spread(place), distinct=distinct)
            self._prices[key] = self.sub.priced(place, spread)
        return self._prices[key]

    @cached_property
    def _prices(self) -> dict[tuple[int, tuple[int, ...]], dict[int, BoundaryPrice]]:
        return {}


def _cost(
    prices: Mapping[int, BoundaryPrice], delivered: Sequence[tuple[int, int]], node: Node
) -> tuple[int, FloatArray]:
    """Quanta, and cycles of load, of words that are delivered to levels."""
    loads: FloatArray = np.zeros((1, len(node.loads)))
    for level, words in delivered:
        prices[level].add_loads(np.array([words]), loads)
    only: FloatArray = loads[0]
    return sum(prices[level].exact(words) for level, words in delivered), only
