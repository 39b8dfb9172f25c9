"""The objective of the paths through one row, from the energy and the loads of their words together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.search.arrays import FloatArray, IntArray
from solver.search.path.bounds import Bounds, mean_load
from solver.search.path.charges import ENERGY, NOTHING, Price, StackedPrices
from solver.search.path.unrolled import Unrolled


@dataclass(frozen=True)
class RowWorth:
    """What the paths through one row are worth.

    Parameters
    ----------
    bounds
        Of the row.
    tiles, unrolled
        Its tiles at the first boundary inside, shape (1, dimensions), and its spatial choice.
    cycles
        Of its mappings, at least, shape (1,).
    finely
        Whether energies are as exact as numbers can tell.
    """

    bounds: Bounds
    tiles: IntArray
    unrolled: Unrolled
    cycles: FloatArray
    finely: bool

    @cached_property
    def _steps(self) -> FloatArray:
        return self.bounds.masked.steps(self.tiles, self.unrolled)

    @cached_property
    def _energy(self) -> Price | None:
        """Of words; None where their energy does not matter."""
        if not self.bounds.goal.counts_energy:
            return None
        return self.bounds.masked.charges.fine if self.finely else ENERGY

    @cached_property
    def prices(self) -> StackedPrices:
        """Of words: their energy first."""
        loads = map(mean_load, self.bounds.together)
        energy = () if self._energy is None else (self._energy,)
        return StackedPrices((*energy, *loads) or (NOTHING,))

    @cached_property
    def limits(self) -> FloatArray:
        """What words of a path have to stay below by each price."""
        bounds, goal = self.bounds, self.bounds.goal
        fixed = self._fixed(self.cycles)
        most = goal.cycles_limit(max(0, int(fixed[0]))) - 1
        loads = [bounds.load_limit(own, most) for own in bounds.together]
        energy = self._energy
        first = [] if energy is None else [(bounds.energy_limits(self.cycles) - fixed)[0] / energy.unit]
        return np.array([*first, *loads] or [np.inf])

    def values(self, costs: FloatArray) -> FloatArray:
        """The objective, at least, of words that cost so much, shape (prices, rows).

        Infinite where no mapping improves.
        """
        bounds, charges, goal = self.bounds, self.bounds.masked.charges, self.bounds.goal
        loads, words = costs[-len(bounds.together) :] if bounds.together else costs[:0], costs[0]
        cycles = np.broadcast_to(self.cycles, len(words))
        if len(loads):
            busiest = (loads + self._besides).max(axis=0).astype(np.float64)
            cycles = np.maximum(cycles, bounds.cycles(busiest, self._steps))
        energy = self._fixed(cycles)
        if self._energy is not None:
            energy = energy + words.astype(np.float64) * self._energy.unit
        energy = charges.whole(energy)
        values = bounds.values(energy, cycles)
        values[~goal.below(values)] = np.inf
        if not self.finely:
            live = bounds.live(np.flatnonzero(np.isfinite(values)), energy, cycles)
            return np.where(np.isin(np.arange(len(values)), live), values, np.inf)
        tied = bounds.tied(values)
        if len(tied):
            able = bounds.improves(self.unrolled, words[tied], cycles[tied], self._steps, self.tiles)
            values[tied[~able]] = np.inf
        return values

    @cached_property
    def _besides(self) -> FloatArray:
        """Mean cycles besides those of words, by price of loads."""
        return np.array([[self.bounds.besides_words(own)] for own in self.bounds.together])

    def _fixed(self, cycles: FloatArray) -> FloatArray:
        """Energy besides that of words in so many cycles."""
        waiting = self.bounds.waiting(cycles, self._steps)
        return self.bounds.masked.fixed(self.unrolled, waiting, self.tiles)
