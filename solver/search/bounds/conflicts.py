"""What windows that slide and boundaries whose reuse ends in a slot cost more together than apart.

A loop that returns to a window's tile lies inside of all that move it elsewhere. If it moves another
dataspace as well, that one stays in place for few of the slot's loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from solver.search.arrays import IntArray
from solver.search.bounds.boundary import Boundary
from solver.search.bounds.rows import Waiting
from solver.search.bounds.surcharges import Surcharges
from solver.search.space.lattice import INFINITY

_Key = tuple[Waiting, frozenset[int] | None, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class Conflicts:
    """The conflicts of one slot, pair by pair of its tiles.

    References
    ----------
    docs/search.md, "Sharp bounds": pairs of tiles also tell what does not go together.
    """

    slot: Surcharges

    @cached_property
    def _known(self) -> dict[_Key, IntArray]:
        return {}

    def of(self, waiting: Iterable[Waiting], members: frozenset[int], ended: Sequence[Boundary]) -> IntArray:
        """The worst conflict of any boundary that waits with those that end.

        The slot's innermost loop is one of those that leave `members` in place.

        Returns
        -------
        IntArray
            In quanta beyond what both are charged apart, shape (pairs,), 0 to `INFINITY`.
        """
        conflict: IntArray = np.zeros(len(self.slot.pairs.tiles), dtype=np.int64)
        for one in waiting:
            if ended and self.slot.waits_here(one):
                conflict = np.maximum(conflict, self._with(one, members, ended))
        return conflict

    def _with(self, waiting: Waiting, members: frozenset[int], ended: Sequence[Boundary]) -> IntArray:
        key = waiting, members if waiting.lead is None else None, tuple((b.place, b.level) for b in ended)
        if key not in self._known:
            if waiting.lead is None:
                self._known[key] = self._leading_here(waiting, members, ended)
            else:
                self._known[key] = self._leading_inside(waiting, waiting.lead, ended)
        return self._known[key]

    def _leading_here(self, waiting: Waiting, members: frozenset[int], ended: Sequence[Boundary]) -> IntArray:
        """A conflict where one of the slot's loops leads, one of those that leave `members` in place."""
        slot, space = self.slot, self.slot.boundaries.sub.space
        boundary, charges = slot.boundaries.of(waiting), slot.charges(ended)
        plain = space.tables[waiting.place].plain_words[slot.tiles_of(boundary)]
        together = slot.beyond_least(boundary, plain) + charges
        leading, inward = space.leading(members), slot.inward(boundary)
        for lead in slot.pairs.leads(waiting.place, boundary.unrolling, inward, leading):
            straight = slot.beyond_least(boundary, lead.straight) + charges
            short = self._cut_short(lead.partners, lead.apart, ended)
            returning = slot.beyond_least(boundary, lead.returning) + short
            together = np.minimum(together, np.where(lead.may_be_straight, straight, INFINITY))
            together = np.minimum(together, np.where(lead.may_return, returning, INFINITY))
        more = np.maximum(together - charges - slot.waiting(waiting, members), 0)
        return np.where(slot.moved(waiting.place), np.minimum(more, INFINITY), 0)

    def _leading_inside(self, waiting: Waiting, dim: int, ended: Sequence[Boundary]) -> IntArray:
        """A conflict where a loop inside of the slot leads, and loops of the slot may return.

        The slot's loop over the lead's own dimension may go on with the lead's row. If it returns to a
        tile, a loop over a partner lies inside of it.
        """
        slot, led = self.slot, self.slot.led(waiting)
        view, boundary = slot.boundaries.sub.space.views[waiting.place], slot.boundaries.of(waiting)
        apart, partners = view.apart(led.component), [d for d in led.component.dims if d != dim]
        charges, surcharge = slot.charges(ended), slot.waiting(waiting, frozenset())
        going_on = replace(led.returns, here=led.going_on)
        straight = slot.led_surcharge(boundary, led.lead, going_on) + charges
        inside, outside = (self._cut_short(partners, out, ended) for out in (apart, [*apart, dim]))
        returning = surcharge + np.where(led.returns_around, inside, outside)
        more: IntArray = np.maximum(np.minimum(straight, returning) - charges - surcharge, 0)
        return np.where(slot.left_open(waiting), 0, np.minimum(more, INFINITY))

    def _cut_short(
        self, partners: Sequence[int], outside: Sequence[int], ended: Sequence[Boundary]
    ) -> IntArray:
        """What boundaries cost whose reuse ends in the slot, if a loop over `partners` returns to a tile.

        Those over dimensions `outside` lie outside of it.
        """
        charges, views = self.slot.charges(ended), self.slot.boundaries.sub.space.views
        if not all(set(partners) <= views[boundary.place].relevant for boundary in ended):
            return charges
        short = np.zeros(len(self.slot.pairs.tiles), dtype=np.int64)
        for boundary in ended:
            inside = views[boundary.place].irrelevant - set(outside)
            short = short + boundary.reused(self.slot.level, self.slot.pairs.grown(sorted(inside)))
        return np.maximum(short, charges)
