"""What words cost at each boundary: for many combinations of spatial classes at a time, or cells of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.space.grid import ROUNDED_DOWN, ROUNDED_UP, SpatialGrid
from solver.search.space.keep_masks import Chain
from solver.search.space.prices import Access, Action, cycles_per_word
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stop, heeding, never

MANY_BLOCKS = 1 << 10
"""Blocks from which on it does not matter whether the last one is full."""

Measure = int | None
"""What words cost: energy units (None), or cycles of a resource, which has this place."""


class Portion(NamedTuple):
    """Accesses to one dataspace that follow from the words delivered to one boundary.

    ``boundary`` is the level below it, or the number of levels for the compute. Many keep masks have the
    same portions.

    Parameters
    ----------
    place
        Of the dataspace.
    """

    place: int
    boundary: int
    accesses: tuple[Access, ...]


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
    """The rates of portions for the combinations of a grid, or for cells of them.

    Parameters
    ----------
    grid
        Combinations, those of a cell one after the other.
    starts
        Where the cells begin; None if each combination is one of its own.
    """

    def __init__(self, grid: SpatialGrid, starts: IntArray | None = None) -> None:
        self._grid = grid
        self._starts = starts
        self.space = grid.space
        self.steps = self._least(grid.steps)
        self.leak_per_cycle = self._least(grid.leak_per_cycle)
        self._rates: dict[Portion, dict[Measure, Rate]] = {}
        self._held: dict[tuple[int, frozenset[int]], BoolArray] = {}

    def __len__(self) -> int:
        """Number of cells."""
        return len(self.steps)

    def rate(self, portion: Portion, measure: Measure) -> Rate | None:
        """The rate of a portion; None if it takes nothing of a resource.

        Returns
        -------
        Rate | None
            Arrays of shape (cells,).
        """
        if portion not in self._rates:
            self._rates[portion] = dict(self._measured(portion))
        return self._rates[portion].get(measure)

    def in_blocks(self, portion: Portion, fewest: IntArray | int | None = None) -> FloatArray:
        """Least energy of a portion, words in whole blocks, instance by instance.

        ``fewest`` words are delivered to all instances that use different ones, or one per operation (None).
        Where there are so many that blocks make no difference, it is 0: that follows from the combination
        alone, whichever others are in the table.

        Returns
        -------
        FloatArray
            Energy units, shape (cells,), rounded down.
        """
        grid, name = self._grid, self.space.views[portion.place].name
        above, copies = grid.above[portion.boundary], grid.copies_above[portion.place][portion.boundary]
        words = grid.computes_each if fewest is None else np.ceil(fewest * copies / above)
        blocks = [self.space.levels[access.level].packing_of(name).block_size for access in portion.accesses]
        matters = words <= MANY_BLOCKS * max(blocks)
        # With remainders, instances may differ.
        if max(blocks) == 1 or self.space.uneven or not matters.any():
            return np.zeros(len(self))
        energy = np.zeros(len(grid))
        for block, access in zip(blocks, portion.accesses, strict=True):
            action = grid.spreads[portion.place].action(access)
            counted = np.maximum(words * action.multiplier - action.minus * ROUNDED_UP, 0.0)
            energy += grid.price(portion.place, action) * block * np.ceil(counted / block)
        return self._least(np.where(matters, energy, 0.0)) * ROUNDED_DOWN

    def holds(self, level: int, tenants: frozenset[int]) -> BoolArray:
        """Whether a level has room for what is unrolled inside it, where it keeps `tenants`.

        Returns
        -------
        BoolArray
            Shape (cells,): of a cell, whether it is so for any of its combinations.
        """
        if (level, tenants) not in self._held:
            fits = self.space.within_capacity(level, tenants, self._grid.tiles_inside[level])
            self._held[level, tenants] = (
                fits if self._starts is None else np.logical_or.reduceat(fits, self._starts)
            )
        return self._held[level, tenants]

    def _measured(self, portion: Portion) -> Iterator[tuple[Measure, Rate]]:
        space, place = self.space, portion.place
        acts = [*map(self._grid.spreads[place].action, portion.accesses)]
        yield None, self._rate(portion, acts, [self._grid.price(place, action) for action in acts])
        for number, resource in enumerate(space.resources):
            name = space.views[place].name
            shares = [float(cycles_per_word(space.levels, resource, action, name)) for action in acts]
            if any(shares):
                yield number, self._rate(portion, acts, [np.full(len(self._grid), share) for share in shares])

    def _rate(self, portion: Portion, acts: Sequence[Action], weights: Sequence[FloatArray]) -> Rate:
        grid, boundary = self._grid, portion.boundary
        pairs = list(zip(acts, weights, strict=True))
        none = np.zeros(len(grid))
        per_word = sum((weight * action.multiplier for action, weight in pairs), none) / grid.above[boundary]
        subtracted = sum((weight * action.minus for action, weight in pairs), none)
        copies = grid.copies_above[portion.place][boundary]
        least_words, least_copies = self._least(per_word), self._least(per_word * copies)
        return Rate(least_words, least_copies, self._most(subtracted) * ROUNDED_UP)

    def _least(self, values: FloatArray) -> FloatArray:
        return values if self._starts is None else np.minimum.reduceat(values, self._starts)

    def _most(self, values: FloatArray) -> FloatArray:
        return values if self._starts is None else np.maximum.reduceat(values, self._starts)


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """What a level keeps, and what is delivered to it; the level after the last one is the compute.

    Parameters
    ----------
    level
        1 is the one below the outermost.
    tenants
        Places of the dataspaces that take room in it.
    """

    level: int
    tenants: frozenset[int]
    portions: tuple[Portion, ...]


class KeptLevels:
    """What each level keeps, mask by mask.

    Attributes
    ----------
    variants
        What it may keep: of all levels but the outermost one, and the compute.
    variant_of_mask
        Which of that it is, by mask: arrays of shape (masks,).
    """

    def __init__(self, space: SearchSpace, stop: Stop = never) -> None:
        self._space = space
        chains: list[dict[Chain, int]] = [{} for _ in space.views]
        rows = (
            [known.setdefault(chain, len(known)) for known, chain in zip(chains, own, strict=True)]
            for own in map(space.chains, heeding(stop, space.keep_masks))
        )
        chain_of_mask = np.array(list(rows), dtype=np.int64).reshape(-1, len(chains)).T
        facts = [[self._facts(place, chain) for chain in own] for place, own in enumerate(chains)]
        numbered = [self._numbered(level, facts, chain_of_mask) for level in range(len(space.levels))]
        self.variants, self.variant_of_mask = zip(*numbered, strict=True)

    @cached_property
    def tenants(self) -> tuple[IntArray, ...]:
        """Numbers that tell apart which dataspaces each level keeps, shaped as `variant_of_mask`."""
        return tuple(map(_alike, self.variants, self.variant_of_mask))

    def _numbered(
        self, level: int, facts: Sequence[Sequence[Sequence[_Fact]]], chain_of_mask: IntArray
    ) -> tuple[tuple[Kept, ...], IntArray]:
        """What a level may keep, by `facts` of dataspaces and their chains, and which of that by mask."""
        codes, known = np.zeros(chain_of_mask.shape[1], dtype=np.int64), [_NO_FACTS]
        for of_chains, chains in zip(facts, chain_of_mask, strict=True):
            own: dict[_Fact, int] = {}
            kinds = np.array([own.setdefault(fact[level], len(own)) for fact in of_chains], dtype=np.int64)
            there, codes = np.unique(codes * len(own) + kinds[chains], return_inverse=True)
            kept = list(own)
            known = [(*known[code // len(own)], kept[code % len(own)]) for code in there.tolist()]
        return tuple(_kept(level + 1, key) for key in known), codes

    def _facts(self, place: int, chain: Chain) -> tuple[_Fact, ...]:
        """What a chain has to do with each level but the outermost one, and with the compute."""
        by_boundary: dict[int, list[Access]] = defaultdict(list)
        for access in self._space.accesses(place, chain):
            by_boundary[access.boundary].append(access)
        portions = {
            boundary: Portion(place, boundary, tuple(accesses)) for boundary, accesses in by_boundary.items()
        }
        places_to = enumerate(self._space.places_to)
        held = (place if not own.isdisjoint(chain) else None for level, own in places_to if level)
        levels = range(1, len(self._space.levels) + 1)
        return tuple(zip(held, map(portions.get, levels), strict=True))


def _alike(variants: Sequence[Kept], kinds: IntArray) -> IntArray:
    """Per mask, a number that is the same where a level keeps the same."""
    numbers: dict[frozenset[int], int] = {}
    alike = np.array([numbers.setdefault(kept.tenants, len(numbers)) for kept in variants])
    chosen: IntArray = alike[kinds]
    return chosen


_Fact = tuple[int | None, Portion | None]
"""The place of a dataspace, if a level keeps it, and what is delivered to that level."""

_NO_FACTS: tuple[_Fact, ...] = ()


def _kept(level: int, facts: Sequence[_Fact]) -> Kept:
    tenants = frozenset(place for place, _ in facts if place is not None)
    return Kept(level, tenants, tuple(portion for _, portion in facts if portion is not None))
