"""What the outermost slot's loops deliver to the level inside of them, over all orders: exact costs.

Tables bound each dataspace alone. But where several move, no order may be the best one for all of them. What
the outermost slot delivers depends on nothing else than the numbers of tiles inside of it. So the best order
is looked up for those that turn up on paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from solver.search.path.charges import Price
from solver.search.path.costs import Cost, Costs, Part
from solver.search.path.orders import Slot
from solver.search.path.words import Line, Lines
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace

BOUNDARY = 1
"""The boundary right inside of the outermost slot."""


class Outermost:
    """Costs of deliveries to the second level; nothing is unrolled outside of it, and factors are perfect.

    Parameters
    ----------
    space
        What is searched.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._lines = Lines(space)
        self._costs = Costs(space)

    def least(self, mask: KeepMask, tiles: Sequence[int], leads: frozenset[int] | None, price: Price) -> Any:
        """What the deliveries under a keep mask cost at least; infinite if no order is allowed.

        Parameters
        ----------
        mask
            What is kept.
        tiles
            Numbers of tiles of the second level.
        leads
            Dimensions that the innermost loop may run over; None where there are no loops.
        price
            Of words.
        """
        lines = tuple(self._line(d, number) for d, number in enumerate(tiles))
        return min((_paid(cost, price) for cost in self._by_order(mask, lines, leads)), default=np.inf)

    def _line(self, dim: int, number: int) -> Line:
        inside = self._space.lattice.bounds[dim] // number
        return self._lines.line(dim, (number, inside, *self._further), self._no_children)

    @cached_property
    def _further(self) -> tuple[int, ...]:
        """Factors of the levels from the third one on."""
        return (1,) * (len(self._space.levels) - 2)

    @cached_property
    def _no_children(self) -> tuple[int, ...]:
        return (1,) * len(self._space.architecture.fanouts)

    def _by_order(
        self, mask: KeepMask, lines: Sequence[Line], leads: frozenset[int] | None
    ) -> Iterator[Cost]:
        """Costs in all orders of the loops that others are not as good as."""
        above = tuple(line.above[BOUNDARY] for line in lines)
        parts = list(self._parts(mask))
        live = tuple(d for d, line in enumerate(lines) if line.temporal[0] > 1)
        moving = frozenset(d for d, line in enumerate(lines) if line.moves[0])
        views = frozenset(part.place for part in parts if part.by_order)
        slot = Slot(0, live, moving, leads, views)
        none = (0,) * len(self._costs.orders(slot))
        pairs = [(part, *self._costs.price(part, lines, above)) for part in parts]
        brought = [
            self._costs.of_slot(part, lines, above, slot) if part.by_order else none for part, _, _ in pairs
        ]
        for words in zip(none, *brought, strict=True):
            total = Cost(0, (0.0,) * len(self._space.resources))
            for (_, price, first), own in zip(pairs, words[1:], strict=True):
                total = total.plus(price.of(first + own))
            yield total

    def _parts(self, mask: KeepMask) -> Iterator[Part]:
        for place, chain in enumerate(self._space.chains(mask)):
            yield from (part for part in self._costs.parts(place, chain) if part.boundary == BOUNDARY)


def _paid(cost: Cost, price: Price) -> Any:
    """What a cost comes to, by a price."""
    energy: Any = np.longdouble(cost.energy // price.grain) if price.grain else float(cost.energy)
    return price.energy * energy + sum(weight * cost.loads[r] for r, weight in price.loads)
