"""What words cost at each boundary: for many combinations of spatial classes at a time, or cells of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from solver.search.grid import ROUNDED_UP, SpatialGrid
from solver.search.lattice import FloatArray, IntArray
from solver.search.prices import Action, DataspaceFlow, actions, cycles_per_word, resources
from solver.search.space import KeepMask, SearchSpace

Measure = int | None
"""What words cost: energy units (None), or cycles of a resource, which has this place."""


class Portion(NamedTuple):
    """Actions on one dataspace that follow from the words delivered to one boundary.

    ``boundary`` is the level below it, or the number of levels for the compute; ``acts`` has level and name
    of each action. Many keep masks have the same portions.
    """

    place: int
    boundary: int
    acts: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Rate:
    """The least that words of a portion cost, words of all instances counted together; arrays per cell.

    Attributes
    ----------
    per_word
        Cost of a word that is delivered into one instance.
    per_copies
        Cost of a word that is delivered into all instances which the spatial factors let use it.
    subtracted
        What it costs less at the most, whatever is delivered.
    """

    per_word: FloatArray
    per_copies: FloatArray
    subtracted: FloatArray


class RateTable:
    """The rates of keep masks for the combinations of a grid, or for cells of them.

    Parameters
    ----------
    grid
        Combinations, those of a cell one after the other.
    starts
        Where the cells begin; None if each combination is one of its own.
    masks
        What rates are needed for.
    """

    def __init__(self, grid: SpatialGrid, starts: IntArray | None, masks: Iterable[KeepMask]) -> None:
        self._grid = grid
        self._starts = starts
        self.space = grid.space
        self.steps = self._least(grid.steps)
        self.leak_per_cycle = self._least(grid.leak_per_cycle)
        self.rates: dict[tuple[Portion, Measure], Rate] = {}
        chains = {
            (v.place, grid.space.chain(mask, v.place)): mask for mask in masks for v in grid.space.views
        }
        for (place, _), mask in chains.items():
            self._add(place, mask)

    def __len__(self) -> int:
        """Number of cells."""
        return len(self.steps)

    def _add(self, place: int, mask: KeepMask) -> None:
        found = actions(self.space.levels, self._grid.flow(mask, place))
        for portion, acts in by_boundary(place, found).items():
            if (portion, None) not in self.rates:
                self.rates |= dict(self._rates(portion, acts))

    def _rates(
        self, portion: Portion, acts: Sequence[Action]
    ) -> Iterator[tuple[tuple[Portion, Measure], Rate]]:
        space, place = self.space, portion.place
        yield (portion, None), self._rate(portion, acts, [self._grid.price(place, own) for own in acts])
        for number, resource in enumerate(resources(space.levels)):
            name = space.views[place].name
            shares = [float(cycles_per_word(space.levels, resource, own, name)) for own in acts]
            if any(shares):
                yield (portion, number), self._rate(portion, acts, shares)

    def _rate(self, portion: Portion, acts: Sequence[Action], weights: Sequence[FloatArray | float]) -> Rate:
        grid, boundary = self._grid, portion.boundary
        pairs = list(zip(acts, weights, strict=True))
        none = np.zeros(len(grid))
        per_word = sum((weight * own.multiplier for own, weight in pairs), none) / grid.above[boundary]
        subtracted = sum((weight * own.minus for own, weight in pairs), none)
        copies = grid.unused_above[portion.place][boundary]
        least_words, least_copies = self._least(per_word), self._least(per_word * copies)
        return Rate(least_words, least_copies, self._most(subtracted) * ROUNDED_UP)

    def _least(self, values: FloatArray) -> FloatArray:
        return values if self._starts is None else np.minimum.reduceat(values, self._starts)

    def _most(self, values: FloatArray) -> FloatArray:
        return values if self._starts is None else np.maximum.reduceat(values, self._starts)


def portions(space: SearchSpace, place: int, chain: Sequence[int]) -> tuple[Portion, ...]:
    """The portions of the actions on a dataspace that the levels of `chain` keep."""
    view, ones = space.views[place], (1,) * len(space.levels)
    flow = DataspaceFlow(view.name, view.read_write, tuple(chain), ones, ones)
    return tuple(by_boundary(place, actions(space.levels, flow)))


def by_boundary(place: int, acts: Iterable[Action]) -> dict[Portion, list[Action]]:
    """Actions on a dataspace, portion by portion."""
    found: dict[int, list[Action]] = defaultdict(list)
    for own in acts:
        found[own.boundary].append(own)
    return {
        Portion(place, boundary, tuple((own.level, own.name) for own in several)): several
        for boundary, several in found.items()
    }
