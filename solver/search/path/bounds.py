"""Bounds on the objective under one keep mask, from energy, compute cycles and bandwidth loads."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.goal import Goal
from solver.search.path.charges import ENERGY, LOADS_CLOSE, MOST_GRAINS, NOTHING, Price, StackedPrices
from solver.search.path.listed import Listed
from solver.search.path.masked import FEW_TILES, Masked
from solver.search.path.unrolled import Loosest, Unrolled

TIED = 1 - 1e-4
"""Share of the incumbent from which bounds are computed once more, as exactly as numbers can tell.

Whether each instance pays for whole blocks matters there, too: that raises bounds by more than doubles err.
"""

MOST_LIMITED_GRAINS = 1 << 64
"""Grains of energy from which on limits are not looked at."""

BUSY = 0.25
"""Resources are looked at which words load for this share of the least cycles of the arithmetic, or more."""


UP = 1 + 2e-9
"""A load may exceed the cycles that it is counted as, but by less than this factor."""

CLOSEST = 2
"""The last of the stages in which all spatial choices are bounded together."""


class Bounded(NamedTuple):
    """Bounds on rows, each of shape (rows,).

    Parameters
    ----------
    values
        Of the objective.
    cycles
        Of mappings.
    loads
        Of all bandwidths together.
    """

    values: FloatArray
    cycles: FloatArray
    loads: FloatArray


@dataclass(frozen=True)
class Bounds:
    """Bounds on rows under one mask.

    Parameters
    ----------
    masked
        What rows cost.
    goal
        The objective, and its incumbent.
    every
        All spatial choices.
    steps
        Cycles of the arithmetic, at least.
    overloaded
        Resources that were seen to keep mappings from improving.
    """

    masked: Masked
    goal: Goal
    every: Unrolled
    steps: float
    overloaded: frozenset[int] = frozenset()

    @cached_property
    def besides(self) -> tuple[float, ...]:
        """Cycles of each resource besides those of words."""
        space = self.masked.frame.space
        lost = self.masked.charges.lost
        return tuple(float(own.besides(space.levels)) - lost(r) for r, own in enumerate(space.resources))

    @cached_property
    def busy(self) -> tuple[int, ...]:
        """Resources whose loads may decide."""
        levels = self.masked.frame.space.levels
        if not self.goal.counts_cycles and not any(level.energy.leak_per_cycle for level in levels):
            return ()
        # Nothing but loads tells apart the many mappings whose arithmetic takes as long.
        least = self.steps * (0.0 if self.goal.objective == "latency" else BUSY)
        resources = range(len(self.masked.frame.space.resources))
        return tuple(r for r in resources if r in self.overloaded or self._least_load(r) >= least)

    def _least_load(self, resource: int) -> float:
        small = self.masked.frame.space.lattice.size <= FEW_TILES
        floors = self.masked.floors(self.every, Price(0.0, ((resource, 1.0),)), with_tables=small)
        return float(self.loads((resource,), floors.min(keepdims=True))[0])

    def loads(self, resources: tuple[int, ...], words: FloatArray) -> FloatArray:
        """Mean cycles of some resources, at least, given those of their words."""
        cycles = words + self.besides_words(resources)
        if len(resources) > 1:
            return cycles * LOADS_CLOSE
        return self.masked.charges.whole_loads(resources[0], cycles)

    @property
    def _words(self) -> Price:
        """What words are bounded by first: where energy does not matter, tables say which tiles there are."""
        return ENERGY if self.goal.counts_energy else NOTHING

    @cached_property
    def together(self) -> tuple[tuple[int, ...], ...]:
        """Resources whose mean load is bounded: each alone, and the busiest ones outside of the fanouts.

        Some tiles load one, others the other. The mean is no more than the largest. Where energy counts, it
        tells these tiles apart.
        """
        if self.goal.counts_energy:
            return tuple((r,) for r in self.busy)
        frame = self.masked.frame
        outer = [r for r in self.busy if min(frame.space.resources[r].levels) <= frame.meeting]
        outer = sorted(outer, key=self._least_load, reverse=True)
        several = (tuple(outer[:number]) for number in range(2, len(outer) + 1))
        return (*((r,) for r in self.busy), *several)

    def besides_words(self, resources: tuple[int, ...]) -> float:
        """Mean cycles of some resources besides those of words."""
        return sum(self.besides[r] for r in resources) / len(resources)

    def load_limit(self, resources: tuple[int, ...], most_cycles: int) -> float:
        """What the mean load of words on some resources stays below, for so many cycles at most."""
        most = (most_cycles - self.masked.frame.space.latency) * UP + 1e-6
        return most - self.besides_words(resources)

    @cached_property
    def _loaded(self) -> float:
        """Cycles of the busiest resource, at least."""
        return max((self._least_load(r) for r in self.busy), default=0.0)

    def without_words(self, steps: FloatArray) -> tuple[float, float]:
        """Energy besides that of words, and cycles, at least, given the least steps of each spatial choice.

        Nothing where data are sparse: they depend on what is kept.
        """
        if self.masked.charges.are_sparse:
            return 0.0, 0.0
        cycles = self.cycles(np.zeros(len(steps)), steps)
        fixed = self.masked.fixed(self.every, self.waiting(cycles, steps))
        able = np.isfinite(steps)
        return float(fixed[able].min(initial=np.inf)), float(cycles[able].min(initial=np.inf))

    def by_choice(self, steps: FloatArray, stage: int) -> FloatArray:
        """Bounds by spatial choice, given the least steps of each; shape (choices,).

        The first stage takes no tables, the next one those of energy, and `CLOSEST` those of loads, too.
        """
        steps = self.masked.charges.steps(steps, self.every)
        cycles = self.cycles(np.full(len(steps), self._loaded if stage == CLOSEST else 0.0), steps)
        fixed = self.masked.fixed(self.every, self.waiting(cycles, steps))
        floors = self.masked.floors(self.every, self._words, with_tables=stage > 0)
        values = self.values(self.masked.charges.whole(fixed + floors), cycles)
        tied = self.tied(values)
        if stage == CLOSEST and len(tied):
            floors = self.masked.floors(self.every, self.masked.charges.fine, with_tables=True)
            values[tied[~self.improves(self.every[tied], floors[tied], cycles[tied], steps[tied])]] = np.inf
        return values

    @property
    def has_pairs(self) -> bool:
        """Whether `by_pair` says anything."""
        return self._is_limited and self.goal.counts_energy and self.masked.has_windows(self.every)

    def by_pair(self, tiles: IntArray, choices: IntArray, steps: FloatArray) -> ByPair:
        """Bounds on tiles with spatial choices, from what says much and costs little: words of windows.

        Parameters
        ----------
        tiles
            At the first boundary inside, shape (tiles, dimensions).
        choices
            Places of the spatial choices.
        steps
            The least ones of each of these choices.
        """
        every = self.every[choices]
        steps = self.masked.charges.steps(steps, every)
        cycles = self.cycles(np.full(len(steps), self._loaded), steps)
        fixed = self.masked.fixed(every, self.waiting(cycles, steps))
        floors = self.masked.floors(every, self._words, with_tables=True)
        more, classes = self.masked.windows(tiles, self.every, choices, self._words)
        return ByPair(self, fixed + floors, cycles, more, classes)

    def tied(self, values: FloatArray) -> IntArray:
        """Which values may improve on the incumbent by little."""
        incumbent = self.goal.incumbent
        if incumbent is None or self.goal.objective == "latency":
            return np.empty(0, dtype=np.int64)
        if self.masked.charges.are_sparse:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.goal.below(values) & (values >= float(incumbent) * TIED))

    def improves(
        self,
        unrolled: Unrolled,
        words: FloatArray,
        cycles: FloatArray,
        steps: FloatArray,
        tiles: IntArray | None = None,
    ) -> BoolArray:
        """Whether mappings may improve: as exactly as numbers can tell.

        Parameters
        ----------
        unrolled
            Spatial choices.
        words
            What all words cost, by the fine price.
        cycles, steps
            Of mappings, and of their arithmetic, at least.
        tiles
            At the first boundary inside, where these are known.
        """
        charges = self.masked.charges
        grains = charges.grains(words, self.masked.inside.are_whole(unrolled))
        waiting, latency = self.exactly(self.waiting(cycles, steps)), self.masked.frame.space.latency
        fixed = self.masked.exactly_fixed(unrolled, waiting, tiles)
        pairs = zip(self.exactly(cycles - latency), fixed, strict=True)
        left = [self.goal.energy_limit(math.ceil(own) + latency) - spent for own, spent in pairs]
        limits = (-(-own // charges.fine.unit) for own in left)
        most = np.array(
            [np.longdouble(own) if own < MOST_LIMITED_GRAINS else np.longdouble(np.inf) for own in limits]
        )
        # Wide numbers may hardly tell what all words cost, but whole ones tell what they cost at the least.
        able: BoolArray = np.array(self.masked.exactly_once(unrolled), object) < np.array(left, object)
        return able & (grains < most)

    def cycles(self, loads: FloatArray, steps: FloatArray) -> FloatArray:
        """Cycles, at least, of the slowest, not rounded up where those that leak are not."""
        space = self.masked.frame.space
        busy = np.ceil(loads) if space.ticks_per_cycle == 1 else loads
        cycles: FloatArray = np.maximum(steps, busy) + float(space.latency)
        return cycles

    def waiting(self, cycles: FloatArray, steps: FloatArray) -> FloatArray:
        """Cycles in which instances leak, at least, where a mapping takes so many."""
        return np.maximum(steps, cycles - self.masked.frame.space.latency)

    def exactly(self, cycles: FloatArray) -> list[Fraction]:
        """Bounds on cycles without what networks take, as exactly as can be told."""
        charges, resources = self.masked.charges, self.busy
        known = {own: charges.exact_cycles(own, resources) for own in set(cycles.tolist())}
        return [known[own] for own in cycles.tolist()]

    def _whole(self, cycles: FloatArray) -> FloatArray:
        """Cycles that a mapping is said to take, given those of its slowest part."""
        return np.ceil(cycles) if self.masked.frame.space.ticks_per_cycle > 1 else cycles

    def values(self, energies: FloatArray, cycles: FloatArray) -> FloatArray:
        """Objective of mappings that cost so much at least, rounded down; infinite beyond a limit."""
        return self.goal.values(energies, self._whole(cycles))

    def energy_limits(self, cycles: FloatArray) -> FloatArray:
        """Least energies that can no longer improve, rounded up, given the least cycles."""
        return self.goal.energy_limits(self._whole(cycles))

    def floors(self, tiles: IntArray, choices: Unrolled, least_steps: float) -> FloatArray:
        """Bounds on tiles at the first boundary inside, whichever of some spatial choices there is."""
        loosest = Loosest(choices, len(tiles))
        steps = np.maximum(self.masked.inside.steps(tiles, loosest), least_steps)
        least = np.full(len(tiles), np.inf)
        rows = self.with_any_leads(tiles, loosest, steps)
        for labels in self.masked.parted(len(rows)) if len(rows) else ():
            every = np.tile(rows, len(labels))
            listed = self.masked.listed(tiles[every], loosest[every], np.repeat(labels, len(rows)))
            values = self.closely(listed, steps[every]).values.reshape(len(labels), len(rows))
            least[rows] = np.minimum(least[rows], values.min(axis=0))
        return least

    def with_any_leads(self, tiles: IntArray, unrolled: Unrolled, steps: FloatArray) -> IntArray:
        """Which rows may improve on the incumbent, whatever the leads of the slots inside are."""
        masked = self.masked
        if not self._is_limited or len(masked.parted(len(tiles))) == 1:
            return np.arange(len(tiles))
        listed = masked.with_any_leads(tiles, unrolled)
        return np.flatnonzero(self.goal.below(self.closely(listed, steps).values))

    @property
    def _is_limited(self) -> bool:
        """Whether there is anything to compare with."""
        return self.goal.incumbent is not None or bool(self.goal.limits)

    def _loads(self, listed: Listed, close: bool) -> tuple[FloatArray, FloatArray]:
        """Cycles of the busiest resource, and of all together, at least."""
        if not self.together:
            return np.zeros(len(listed)), np.zeros(len(listed))
        most, limits = self.goal.cycles_limit(0) - 1, None
        if close:
            limits = np.array([[self.load_limit(own, most)] * len(listed) for own in self.together])
        words = self.masked.costs(listed, StackedPrices(tuple(map(mean_load, self.together))), limits)
        loads = np.array([self.loads(own, row) for own, row in zip(self.together, words, strict=True)])
        return loads.max(axis=0), loads.sum(axis=0)

    def closely(self, listed: Listed, steps: FloatArray) -> Bounded:
        """Bounds on rows, given steps of the arithmetic: ever closer, but only on rows that may improve."""
        values, cycles = np.full(len(listed), np.inf), np.full(len(listed), np.inf)
        rows = np.flatnonzero(np.isfinite(steps))
        energy, loads = np.zeros(len(listed)), np.full(len(listed), self._loaded)
        tiles, total = listed.tiles[self.masked.inside.first], np.zeros(len(listed))
        listed = listed[rows]
        for close in (False, True) if self._is_limited else (False,):
            least = self.cycles(loads[rows], steps[rows])
            fixed = self.masked.fixed(listed.unrolled, self.waiting(least, steps[rows]), tiles[rows])
            limits = self.energy_limits(least) - fixed if close else None
            energy[rows] = self.masked.charges.whole(fixed + self.masked.cost(listed, self._words, limits))
            live = self._hopeful(rows, energy, loads, steps)
            rows, listed = rows[live], listed[live]
            if len(rows) == len(self.tied(self.values(energy[rows], least[live]))):
                live = np.flatnonzero(self._improve(listed, least[live], steps[rows]))
                rows, listed = rows[live], listed[live]
            if not len(rows):
                break
            busiest, total[rows] = self._loads(listed, close)
            loads[rows] = np.maximum(loads[rows], busiest)
            live = self._hopeful(rows, energy, loads, steps)
            rows, listed = rows[live], listed[live]
        cycles[rows] = self.cycles(loads[rows], steps[rows])
        values[rows] = self.values(energy[rows], cycles[rows])
        tied = self.tied(values[rows])
        if len(tied):
            values[rows[tied[~self._improve(listed[tied], cycles[rows[tied]], steps[rows[tied]])]]] = np.inf
        return Bounded(values, cycles, total)

    def still(self, listed: Listed, cycles: FloatArray) -> BoolArray:
        """Whether rows that are tied with the incumbent may improve, given the least cycles of each."""
        steps = self.masked.steps(listed.tiles[self.masked.inside.first], listed.unrolled)
        return self._improve(listed, cycles, steps)

    def _improve(self, listed: Listed, cycles: FloatArray, steps: FloatArray) -> BoolArray:
        """Whether tied rows may improve: with any tiles, then with the least ones if larger ones cannot."""
        able = self._may_improve(listed, cycles, steps)
        rows = np.flatnonzero(able)
        some = listed[rows]
        smallest = self._smallest(some, cycles[rows], steps[rows])
        if smallest.any():
            some = replace(some, smallest=smallest, source=None)
            able[rows] = self._may_improve(some, cycles[rows], steps[rows])
        return able

    def _smallest(self, listed: Listed, cycles: FloatArray, steps: FloatArray) -> BoolArray:
        """Along which dimensions rows may improve with the least tiles alone; shape (rows, dimensions)."""
        inside = self.masked.inside
        smallest = np.zeros((len(listed), len(self.masked.frame.axes)), dtype=np.bool_)
        if isinstance(listed.unrolled, Loosest) or inside.first not in listed.tiles:
            return smallest
        for d in (d for d, axis in enumerate(self.masked.frame.axes) if not axis.divides):
            children = listed.unrolled.factors[self.masked.frame.meeting][:, d]
            rows = np.flatnonzero((children > 1) & inside.may_be_larger(d, listed))
            if len(rows):
                others = replace(listed[rows], larger=d, source=None)
                longer = inside.larger_steps(others, steps[rows])
                busier = np.maximum(self.cycles(self._loads(others, close=False)[0], longer), cycles[rows])
                smallest[rows, d] = ~self._may_improve(others, busier, longer)
        return smallest

    def _may_improve(self, listed: Listed, cycles: FloatArray, steps: FloatArray) -> BoolArray:
        """Whether rows may improve, as exactly as numbers can tell."""
        fine, tiles = self.masked.charges.fine, listed.tiles[self.masked.inside.first]
        fixed = self.masked.fixed(listed.unrolled, self.waiting(cycles, steps), tiles)
        limits = (self.energy_limits(cycles) - fixed) / fine.unit
        words = self.masked.cost(listed, fine, limits)
        return self.improves(listed.unrolled, words, cycles, steps, tiles)

    def _hopeful(self, rows: IntArray, energy: FloatArray, loads: FloatArray, steps: FloatArray) -> IntArray:
        """Places of those of some rows whose bounds leave room for a better mapping."""
        energy, cycles = energy[rows], self.cycles(loads[rows], steps[rows])
        places = np.flatnonzero(self.goal.below(self.values(energy, cycles)))
        return self.live(places, energy, cycles)

    def live(self, rows: IntArray, energy: FloatArray, cycles: FloatArray) -> IntArray:
        """Those of some rows that may improve where energies are few grains, so that doubles are exact."""
        grain = self.masked.charges.grain
        if not self._is_limited or not len(rows) or float(energy[rows].max()) >= MOST_GRAINS * grain:
            return rows
        every, inverse = np.unique(self._whole(cycles[rows]), return_inverse=True)
        limits = [-(-self.goal.energy_limit(int(own)) // grain) for own in every]
        most = np.array([min(float(own), 2 * MOST_GRAINS) for own in limits])
        return rows[np.rint(energy[rows] / grain) < most[inverse.reshape(-1)]]


class ByPair(NamedTuple):
    """Bounds on all pairs of some tiles and spatial choices.

    Parameters
    ----------
    bounds
        Whose they are.
    energy, cycles
        Of each choice with any tile, shape (choices,).
    more
        Energy beyond that, by tile and class of choices, shape (tiles, classes).
    classes
        Of each choice.
    """

    bounds: Bounds
    energy: FloatArray
    cycles: FloatArray
    more: FloatArray
    classes: IntArray

    def _values(self, energy: FloatArray, cycles: FloatArray) -> FloatArray:
        return self.bounds.values(self.bounds.masked.charges.whole(energy), cycles)

    @property
    def by_choice(self) -> FloatArray:
        """Bounds by choice with any tile, shape (choices,)."""
        return self._values(self.energy + self.more.min(axis=0)[self.classes], self.cycles)

    @property
    def by_tile(self) -> FloatArray:
        """Bounds by tile with any choice, shape (tiles,)."""
        energy, cycles = np.full((2, self.more.shape[1]), np.inf)
        np.minimum.at(energy, self.classes, self.energy)
        np.minimum.at(cycles, self.classes, self.cycles)
        least: FloatArray = self._values(self.more + energy, cycles).min(axis=1)
        return least

    @property
    def able(self) -> tuple[IntArray, IntArray]:
        """Places of the tiles and choices of all pairs that may improve, choice by choice."""
        every = self._values((self.energy + self.more[:, self.classes]).T, self.cycles[:, np.newaxis])
        choices, tiles = np.nonzero(self.bounds.goal.below(every))
        return tiles, choices


def mean_load(resources: tuple[int, ...]) -> Price:
    """Cycles of some resources, on the average."""
    return Price(0.0, tuple((r, 1 / len(resources)) for r in resources))
