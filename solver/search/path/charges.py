"""Charges: the accesses at each boundary under one keep mask, their prices, and the words that are free."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from model.cost.prices import most_paying_instances
from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.path.split import UNSPLIT, Split
from solver.search.space.dataspaces import box_words
from solver.search.space.keep_masks import Chain, KeepMask
from solver.search.space.prices import cycles_per_word
from solver.search.space.search_space import SearchSpace

SUMS_CLOSE = 1 - 1e-13
"""Sums of some dozen products of doubles, none below 0, err by a smaller share."""

BLOCKS_CLOSE = 1 - 1e-12
"""Numbers of words err by a smaller share."""

MOST_GRAINS = 1e12
"""Grains of energy up to which doubles that err so little tell them apart."""

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
        leaks = (level.energy.leak_per_cycle for level in self.space.levels)
        return math.gcd(self.compute_energy, self._word_grain, *leaks) or 1

    @cached_property
    def _word_grain(self) -> int:
        """Energy units that divide those of all accesses."""
        prices = []
        for level in self.space.levels:
            rows = [level.packing_of(view.name).accesses_per_block for view in self.space.views]
            each = (level.energy.read, level.energy.fill, level.energy.update)
            prices += [price * own for price in each for own in rows]
        return math.gcd(*prices) or 1

    def whole(self, energies: FloatArray) -> FloatArray:
        """Bounds on energies, rounded down, but to a multiple of the grain where doubles tell these apart."""
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
        close: FloatArray = np.where(exact, energies, np.ceil(energies * FINELY_CLOSE))
        return close

    @staticmethod
    def rounded_down(numbers: FloatArray) -> FloatArray:
        """Wide numbers that are whole, or a little less where they are too large to be exact."""
        return np.where(numbers < EXACT, numbers, numbers * FINELY_CLOSE)

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
