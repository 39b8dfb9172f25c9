"""Charges: the accesses at each boundary under one keep mask, their prices, and the words that are free."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any, NamedTuple, Protocol

import numpy as np

from model.cost.prices import most_paying_instances
from model.numbers import common_divisor
from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.path.split import UNSPLIT, Split
from solver.search.space.dataspaces import box_words
from solver.search.space.keep_masks import Chain, KeepMask
from solver.search.space.prices import Resource, cycles_per_word
from solver.search.space.search_space import SearchSpace

SUMS_CLOSE = 1 - 1e-13
"""Sums of some dozen products of doubles, none below 0, err by a smaller share."""

BLOCKS_CLOSE = 1 - 1e-12
"""Numbers of words err by a smaller share."""

MOST_GRAINS = 1e12
"""Grains of energy up to which doubles that err so little tell them apart."""

GRAINS_CLOSE, APART = 2e-15, 1e-14
"""By what share products of a whole number and a grain may err; and by what share more than those of the
resource before those of each resource are lowered: a bound then tells which resource it is about."""

LOADS_CLOSE = 1 - 1e-9
"""Cycles of words err by a smaller share where they are no whole numbers of parts of a cycle."""

WHOLE_DOUBLES = 2.0**53
"""Whole numbers up to which doubles are exact."""

EXACT = 2.0 ** (np.finfo(np.longdouble).nmant + 1)
"""Whole numbers up to which the widest floating-point numbers are exact."""

FINELY_CLOSE = 1 - 200 * np.finfo(np.longdouble).eps
"""Sums of the widest floating-point numbers err by a smaller share."""


class Charge(NamedTuple):
    """An access whose words follow from the deliveries of a dataspace to one boundary.

    Parameters
    ----------
    place
        Of the dataspace.
    boundary
        The level that the words are delivered to; the number of levels stands for the arithmetic.
    level
        The level that is accessed.
    shared
        Whether children that need the same word share the access; else each instance of the boundary pays.
    price, exact
        Energy units per word, at least; and the same as a fraction.
    loads
        Pairs of a resource and cycles per word, of all instances of the level together.
    free
        Share of the first touches that costs nothing.
    block
        Words that are paid for together.
    action
        Read, fill or update.
    grains
        The price in grains of the words' energy, as closely as numbers can tell.
    """

    place: int
    boundary: int
    level: int
    shared: bool
    price: float
    exact: Fraction
    loads: tuple[tuple[int, float], ...]
    free: float
    block: int
    action: str
    grains: np.longdouble

    @property
    def ends(self) -> tuple[int, int, int, bool]:
        """The levels that its words depend on."""
        return self[:4]


class Price(NamedTuple):
    """A price of words: a weighted sum of energy and loads.

    Parameters
    ----------
    energy
        Weight of energy units.
    loads
        Pairs of a resource and the weight of its cycles, of the busiest instance.
    grain
        Energy units of which energies are multiples that are counted in these, in wide numbers; 0 for
        energies in units, in doubles.
    """

    energy: float = 0.0
    loads: tuple[tuple[int, float], ...] = ()
    grain: int = 0

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Of the costs."""
        return np.longdouble if self.grain else np.float64

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what is paid, besides that of the words."""
        return ()

    @property
    def unit(self) -> int:
        """Energy units."""
        return self.grain or 1

    def pays(self, charge: Charge) -> bool:
        """Whether words of an access have a cost."""
        return any(self.of(charge))

    def of(self, charge: Charge) -> tuple[float, float]:
        """The cost of a word of an access, and that cost divided by the instances of its level."""
        cycles = dict(charge.loads)
        price: Any = charge.grains if self.grain else charge.price
        return self.energy * price, sum(weight * cycles.get(r, 0.0) for r, weight in self.loads)

    def parts(self, charge: Charge) -> tuple[float, float]:
        """What `of` returns; 1 in place of a figure that is alone."""
        whole, divided = self.of(charge)
        return (whole, divided) if whole and divided else (float(bool(whole)), float(bool(divided)))

    def paid(
        self, charge: Charge, words: FloatArray, free: float | FloatArray = 0.0, split: Split = UNSPLIT
    ) -> FloatArray:
        """Words that are paid for, given the needed and the free words; energy in whole blocks."""
        if charge.block == 1 or self.loads:
            return np.maximum(words - free, 0)
        total: FloatArray = np.zeros(1)
        for instances, share, free_share in zip(*split, strict=True):
            own = np.maximum(words * share - free * free_share, 0)
            total = total + instances * np.ceil(own / charge.block * BLOCKS_CLOSE)
        return total * charge.block


class StackedPrices(NamedTuple):
    """Several prices at once: what is paid has an axis for them in front of all others."""

    each: tuple[Price, ...]

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Of the costs."""
        return np.result_type(*(own.dtype for own in self.each)).type

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what is paid, besides that of the words."""
        return (len(self.each),)

    @property
    def grain(self) -> int:
        """Whether any counts energy in grains."""
        return max(own.grain for own in self.each)

    def pays(self, charge: Charge) -> bool:
        """Whether words of an access have a cost."""
        return any(own.pays(charge) for own in self.each)

    def of(self, charge: Charge) -> tuple[FloatArray, FloatArray]:
        """The cost of a word of an access, and that cost divided by the instances of its level."""
        whole, divided = zip(*(own.of(charge) for own in self.each), strict=True)
        return np.array(whole, self.dtype)[:, np.newaxis], np.array(divided)[:, np.newaxis]

    def paid(
        self, charge: Charge, words: FloatArray, free: float | FloatArray = 0.0, split: Split = UNSPLIT
    ) -> FloatArray:
        """Words that are paid for, where these are needed, and so many are free."""
        plain = np.maximum(words - free, 0)
        in_blocks = [] if charge.block == 1 else [k for k, own in enumerate(self.each) if not own.loads]
        if not in_blocks:
            return plain
        every: FloatArray = np.repeat(plain[np.newaxis], len(self.each), axis=0)
        for place in in_blocks:
            every[place] = self.each[place].paid(charge, words, free, split)
        return every


ENERGY, NOTHING = Price(1.0), Price()


class SpatialRows(Protocol):
    """Spatial choices, one a row, see `solver.search.path.inside.Unrolled`."""

    def __len__(self) -> int:
        """Rows."""

    def product(self, first: int, last: int) -> IntArray:
        """Factors of the stages from one up to before another, at most, shape (rows, dimensions)."""

    def copies(self, first: int, last: int) -> IntArray:
        """Factors of the stages from one up to before another, at least, shape (rows, dimensions)."""


@dataclass(frozen=True)
class Charges:
    """All accesses under one keep mask, and the other parts of energy and cycles.

    Parameters
    ----------
    space, mask
        The search space, and which level keeps what.
    known
        Accesses of a dataspace by the levels that keep it, which masks share.
    """

    space: SearchSpace
    mask: KeepMask
    known: dict[tuple[int, Chain], tuple[Charge, ...]] = field(default_factory=dict)

    @cached_property
    def every(self) -> tuple[Charge, ...]:
        """All accesses that cost energy or take up a bandwidth."""
        return tuple(charge for view in self.space.views for charge in self.of(view.place))

    def of(self, place: int) -> tuple[Charge, ...]:
        """Those of a dataspace."""
        key = place, self.space.chain(self.mask, place)
        if key not in self.known:
            self.known[key] = tuple(own for own in self._of(place) if own.price or own.loads)
        return self.known[key]

    def depend_on(self, place: int) -> tuple[object, ...]:
        """What accesses to a dataspace, and what they cost, depend on."""
        return place, self.space.chain(self.mask, place)

    def at(self, boundary: int) -> tuple[Charge, ...]:
        """Those of one boundary."""
        return tuple(charge for charge in self.every if charge.boundary == boundary)

    def _of(self, place: int) -> list[Charge]:
        space, name = self.space, self.space.views[place].name
        found = []
        for access in space.accesses(place, space.chain(self.mask, place)):
            level = space.levels[access.level]
            packing = level.packing_of(name)
            paying = self.paying(access.level)
            price = getattr(level.energy, access.name) * packing.accesses_per_block * paying
            loads = (
                (number, float(cycles_per_word(space.levels, resource, access, name)))
                for number, resource in enumerate(space.resources)
            )
            exact = Fraction(price) / packing.block_size
            grains = exact / self._word_grain
            found.append(
                Charge(
                    place,
                    access.boundary,
                    access.level,
                    access.per_child,
                    float(price / packing.block_size),
                    exact,
                    tuple((number, cycles) for number, cycles in loads if cycles),
                    float(access.free_share) if access.first_touch_free else 0.0,
                    packing.block_size if paying == 1 else 1,
                    access.name,
                    np.longdouble(grains.numerator) / np.longdouble(grains.denominator),
                )
            )
        return found

    def paying(self, level: int) -> Fraction:
        """Share of the instances of a level that pay: one per cluster, the busiest ones."""
        total = self.space.instances[level]
        return Fraction(most_paying_instances(self.space.levels[level], total), total)

    @cached_property
    def kept_at(self) -> tuple[frozenset[int], ...]:
        """Per level, the dataspaces that are delivered to it; none to the outermost one that keeps each."""
        chains = [self.space.chain(self.mask, view.place) for view in self.space.views]
        return tuple(
            frozenset(place for place, chain in enumerate(chains) if level in chain[1:])
            for level in range(len(self.space.levels))
        )

    @cached_property
    def compute_energy(self) -> int:
        """Energy units of the arithmetic."""
        return self.space.problem.computes * self.space.architecture.compute.energy

    # Of sparse data, all that follows is less.

    def share(
        self, charge: Charge, price: Price, tiles: IntArray, unrolled: SpatialRows, loose: Collection[int]
    ) -> float | FloatArray:
        """Share of the price of an access that a word costs, at least, by row.

        Parameters
        ----------
        tiles
            Numbers of tiles at the access's boundary, or of such as are no larger, shape (rows, dimensions).
        unrolled
            Spatial choices.
        loose
            Dimensions along which tiles may be smaller than these.
        """
        del charge, price, tiles, unrolled, loose
        return 1.0

    def share_outside(self, charge: Charge, price: Price) -> float | FloatArray:
        """Share of the price that a word costs, at least, with nothing unrolled; by numbers of tiles."""
        del charge, price
        return 1.0

    def least_share_outside(self, charge: Charge, price: Price) -> float:
        """Share of the price that a word costs, at least, with nothing unrolled and any tiles."""
        del charge, price
        return 1.0

    def least_share(self, charge: Charge, price: Price, unrolled: SpatialRows) -> float | FloatArray:
        """Share of the price that a word costs, at least, with any tiles; by spatial choice."""
        del charge, price, unrolled
        return 1.0

    def arithmetic(self, unrolled: SpatialRows) -> float | FloatArray:
        """Energy units of the arithmetic, at least, without what rounding may save; by spatial choice."""
        del unrolled
        return float(self.compute_energy)

    def saved_by_rounding(self, unrolled: SpatialRows) -> float | FloatArray:
        """Energy by which rounding may make a mapping cheaper than its words; by spatial choice."""
        del unrolled
        return 0.0

    def steps(self, steps: FloatArray, unrolled: SpatialRows, tiles: IntArray | None = None) -> FloatArray:
        """Least compute cycles by row, given those of all computes.

        Parameters
        ----------
        tiles
            Numbers of tiles at the first boundary inside, if these are known.
        """
        del unrolled, tiles
        return steps

    def leaking(self, level: int, used: FloatArray, busy: IntArray, cycles: FloatArray) -> FloatArray:
        """Least number of cycles in which instances of a level leak.

        Parameters
        ----------
        used
            Cycles of the instances that ever have something to do.
        busy
            Cycles of the instances that have work for the arithmetic.
        cycles
            Cycles of one instance.
        """
        del level, cycles
        return np.maximum(used, busy)

    def lost(self, resource: int) -> float:
        """Cycles by which rounding may make a bandwidth faster than its words."""
        del resource
        return 0.0

    @property
    def are_sparse(self) -> bool:
        """Whether all this is less: energies then are no multiples of a grain, and do not tell ties."""
        return False

    @cached_property
    def grain(self) -> int:
        """Energy units that divide the energy of every mapping."""
        leaks = [level.energy.leak_per_cycle for level in self.space.levels]
        if self.rounded_leaks:
            return 1  # parts of a cycle leak parts of that
        return math.gcd(self.compute_energy, self._word_grain, *leaks) or 1

    @cached_property
    def rounded_leaks(self) -> int:
        """Levels whose leakage is rounded to the nearest energy unit, as cycles are not whole numbers."""
        if self.space.ticks_per_cycle == 1:
            return 0
        return sum(bool(level.energy.leak_per_cycle) for level in self.space.levels)

    @cached_property
    def load_grains(self) -> tuple[Fraction | None, ...]:
        """By resource, cycles that divide what loads it; None where they divide nothing."""
        if self.are_sparse or not self.space.mapspace.counting_rule.exact_cycles:
            return (None,) * len(self.space.resources)
        return tuple(map(self._load_grain, self.space.resources))

    def _load_grain(self, resource: Resource) -> Fraction | None:
        """Cycles that divide what any words load a resource, and what loads it besides."""
        levels, names = self.space.levels, [view.name for view in self.space.views]
        scales = [levels[place].scale(name) for place in resource.levels for name in names]
        rates = [each * scale for each in (resource.read_cycles, resource.write_cycles) for scale in scales]
        every = [Fraction(own) for own in (*rates, resource.besides(levels)) if own]
        return reduce(common_divisor, every) if every else None

    def whole_loads(self, resource: int, cycles: FloatArray) -> FloatArray:
        """Bounds on cycles of a bandwidth, rounded up to what words may load it where doubles tell that."""
        grain = self.load_grains[resource]
        if grain is None:
            return cycles * LOADS_CLOSE
        exact = np.ceil(cycles / float(grain) * SUMS_CLOSE)
        whole = self._of_grains(resource, grain, exact)
        found: FloatArray = np.where(exact < MOST_GRAINS, whole, cycles * SUMS_CLOSE)
        return found

    @staticmethod
    def _of_grains(resource: int, grain: Fraction, number: FloatArray) -> FloatArray:
        """Cycles of whole numbers of a resource's grains, at least."""
        lowered: FloatArray = number * (float(grain) * (1 - APART * (resource + 1)))
        if max(grain.numerator, grain.denominator) >= WHOLE_DOUBLES:
            return lowered
        # A quotient of whole numbers is rounded once: it is no larger than what it is a bound on.
        is_rounded_once = number * grain.numerator < WHOLE_DOUBLES
        return np.where(is_rounded_once, number * grain.numerator / grain.denominator, lowered)

    def exact_cycles(self, cycles: float, resources: Sequence[int]) -> Fraction:
        """Cycles of a mapping, at least, as exactly as can be told.

        Parameters
        ----------
        cycles
            A bound, the larger one of whole steps and of what `whole_loads` says of some resources.
        resources
            These.
        """
        if cycles.is_integer():
            return Fraction(cycles)
        least, meant = Fraction(cycles) * (1 - Fraction(GRAINS_CLOSE)), list[Fraction]()
        for resource in resources:
            grain = self.load_grains[resource]
            if grain is None or cycles / float(grain) >= MOST_GRAINS:
                return least
            number = round(cycles / float(grain))
            told = float(self._of_grains(resource, grain, np.array(float(number))))
            meant += [grain * number] if abs(told - cycles) <= cycles * GRAINS_CLOSE else []
        return min(meant, default=least)

    @cached_property
    def _word_grain(self) -> int:
        """Energy units that divide those of all accesses."""
        prices = []
        for number, level in enumerate(self.space.levels):
            each = math.gcd(level.energy.read, level.energy.fill, level.energy.update)
            for view in self.space.views:
                accesses = level.packing_of(view.name).accesses_per_block
                prices.append(each * accesses * self.words_step(view.place, number))
        return math.gcd(*prices) or 1

    def words_step(self, place: int, level: int) -> int:
        """Words that divide those of each access of a level: tiles cover a dataspace, once or several times.

        1 where some tiles may be short or overlap, or where some words are paid for together.
        """
        space, own, view = self.space, self.space.levels[level], self.space.views[place]
        is_uneven = space.has_remainders or self.are_sparse or not view.simple
        is_uneven |= space.mapspace.counting_rule.looks_once
        if is_uneven or own.packing_of(view.name).block_size > 1 or self.paying(level) != 1:
            return 1
        words, free = math.prod(space.lattice.bounds[d] for d in view.relevant), own.free_share(view.name)
        return 1 if words % free.denominator else words // free.denominator

    def whole(self, energies: FloatArray) -> FloatArray:
        """Bounds on energies, rounded down, but to a multiple of the grain where doubles tell these apart."""
        energies = energies - self.rounded_leaks / 2
        grains = energies / self.grain
        found: FloatArray = np.where(
            grains < MOST_GRAINS, np.ceil(grains * SUMS_CLOSE) * self.grain, energies * SUMS_CLOSE
        )
        return found

    @property
    def fine(self) -> Price:
        """Energy of words in grains of their own, as exactly as numbers can tell."""
        return Price(1.0, grain=self._word_grain)

    @cached_property
    def _is_whole(self) -> bool:
        """Whether whole numbers of words, or of their blocks, cost whole grains, without rounding."""
        for charge in self.every:
            grains = charge.exact / self._word_grain
            binary = grains.denominator & (grains.denominator - 1) == 0
            if not binary or charge.block % grains.denominator or charge.free not in (0, 1):
                return False
        return True

    def grains(self, energies: FloatArray, whole: BoolArray) -> FloatArray:
        """Bounds on grains of energy that are as fine as numbers can tell, rounded up to whole ones.

        Parameters
        ----------
        energies
            Of words, in grains of their own.
        whole
            Where all words are whole numbers.
        """
        exact = whole & self._is_whole & (energies < EXACT)
        # Words that are no whole numbers are doubles, and so are those that are too many for these.
        finely = whole & (self.space.problem.computes < WHOLE_DOUBLES)
        close: FloatArray = np.ceil(energies * np.where(finely, FINELY_CLOSE, SUMS_CLOSE))
        return np.where(exact, energies, close)

    def first_words(self, place: int) -> float:
        """Upper bound on the distinct words of a dataspace."""
        return self._first_words[place]

    @cached_property
    def _first_words(self) -> tuple[float, ...]:
        whole = np.array([self.space.lattice.bounds], dtype=np.int64)
        return tuple(float(box_words(view, whole)[0]) for view in self.space.views)


def gates(space: SearchSpace) -> tuple[tuple[int, int], ...]:
    """Per level, the stage from which a gate powers all instances inside, and how many those are each.

    A level without a gate farther out is its own.
    """
    return tuple(_gate_stage(space, place) for place in range(len(space.levels)))


def _gate_stage(space: SearchSpace, place: int) -> tuple[int, int]:
    """The stage whose gate powers the instances of a level, and how many those are."""
    gate, below = space.levels[place].gating_fanouts, space.fanouts_below[:place]
    if gate is None:
        return place, 1
    counts = [sum(map(len, below[: number + 1])) for number in range(place)]
    stage = sum(count <= gate for count in counts)
    behind = space.architecture.fanouts[gate : sum(map(len, below))]
    return stage, math.prod(fanout.size for fanout in behind)
