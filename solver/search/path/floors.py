"""Floors: bounds on the cost of a mapspace that need no search, each boundary by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

import numpy as np

from model.mapspace import Mapspace
from solver.search.arrays import TOGETHER, WITHIN_64_BITS, BoolArray, FloatArray, IntArray, minimal_rows
from solver.search.goal import Goal
from solver.search.path.bounds import Bounds
from solver.search.path.charges import ENERGY, MOST_GRAINS, Charge, Charges, Price
from solver.search.path.frame import TileFrame
from solver.search.path.inside import Inside, price_of
from solver.search.path.masked import Masked, fewest_steps
from solver.search.path.unrolled import InCells, Unrolled
from solver.search.space.keep_masks import Chain
from solver.search.space.search_space import GRAINS, SearchSpace
from solver.search.stopping import Stop, Stopped, heeding

MOST_TILES, MOST_CHOICES = 1 << 17, 1 << 18
"""Numbers of tiles that are told apart where there may be remainders, and spatial choices, at most."""


NEAR = 1 + 1e-11
"""Energies within such a factor of the least one are computed once more, as exactly as numbers can tell..."""

MOST_NEAR = 1 << 10
"""... if there are no more of them."""

FEW_CHOICES = 1 << 10
"""Spatial choices that are all looked at; of more, cells of similar ones come first."""


def cost_floors(mapspace: Mapspace, stop: Stop, timed: bool = True) -> tuple[int, int]:
    """Energy units and cycles that no mapping is below; 0 where there is too much to look at, or none.

    Without windows they hold for all visits together as well that further loops part the dimensions into:
    these have no fewer tiles of the same extents, and share no more of what is unrolled.

    Parameters
    ----------
    timed
        Whether bandwidths count.
    """
    try:
        return _least_costs(_space(mapspace, stop), timed)
    except Stopped:
        return 0, 0


def _space(mapspace: Mapspace, stop: Stop) -> SearchSpace:
    """The space of a mapspace; with many tiles that may be short, cells of similar ones."""
    for cells in range(len(GRAINS) + 1):
        space = SearchSpace(mapspace, stop=stop, grains=GRAINS[:cells])
        if not space.has_remainders or space.lattice.size <= MOST_TILES:
            return space
    raise Stopped


def _least_costs(space: SearchSpace, timed: bool) -> tuple[int, int]:
    choices = math.prod(len(stage.places) for stage in space.stages)
    if not 0 < choices <= MOST_CHOICES or space.problem.computes > WITHIN_64_BITS:
        return 0, 0
    frame, known = TileFrame(space), dict[tuple[int, Chain], tuple[Charge, ...]]()
    # Visits have other numbers of tiles: none of these rules any choice out.
    grid = np.meshgrid(*(np.arange(len(stage.places)) for stage in space.stages), indexing="ij")
    every = InVisits(frame, tuple(own.ravel() for own in grid), choices)
    charges = [Charges(space, mask, known) for mask in heeding(space.stop, space.keep_masks)]
    if choices > FEW_CHOICES and not frame.divides:
        every = _promising(every, charges, timed)
    return _FloorsOfMasks(every, charges, timed).least


def _promising(every: InVisits, charges: Sequence[Charges], timed: bool) -> InVisits:
    """The choices that may have the least energy or cycles: the others are in cells that cost more."""
    cells = InCells.of(every.frame)
    bounds, cell = _FloorsOfMasks(cells, charges, timed), cells.rows_of(every)
    able = np.isin(np.arange(len(cells)), [bounds.energies.argmin(), bounds.cycles.argmin()])
    least = _FloorsOfMasks(every[np.flatnonzero(able[cell])], charges, timed)
    able |= bounds.energies <= least.energies.min() * NEAR
    able |= bounds.cycles < least.cycles.min()
    return every[np.flatnonzero(able[cell])]


@dataclass(frozen=True)
class _FloorsOfMasks:
    """The least of all keep masks, by spatial choice."""

    every: Unrolled
    charges: Sequence[Charges]
    timed: bool

    @cached_property
    def _of_each(self) -> list[tuple[FloatArray, FloatArray, MaskFloors]]:
        """By mask, energies and cycles; infinite for choices that are not allowed."""
        every, steps = self.every, fewest_steps(self.every)
        found = []
        for own in self.charges:
            floors = MaskFloors(every.frame, own, every)
            cycles = floors.cycles(steps, self.timed)
            found.append((floors.energies(cycles, steps), cycles, floors))
        return found

    @cached_property
    def energies(self) -> FloatArray:
        """Energy units, by choice."""
        none = np.full(len(self.every), math.inf)
        return reduce(np.minimum, (own for own, _, _ in self._of_each), none)

    @cached_property
    def cycles(self) -> FloatArray:
        """Cycles, by choice."""
        none = np.full(len(self.every), math.inf)
        return reduce(np.minimum, (own for _, own, _ in self._of_each), none)

    @property
    def least(self) -> tuple[int, int]:
        """Energy units and cycles of all choices; 0 if there is none."""
        energy, fewest = float(self.energies.min()), float(self.cycles.min())
        if not (math.isfinite(energy) and math.isfinite(fewest)):
            return 0, 0
        steps, most = fewest_steps(self.every), energy * NEAR
        near = [own for own in self._of_each if own[0].min() <= most]
        finely = min(floors.least_energy_finely(own, cycles, steps, most) for own, cycles, floors in near)
        return max(math.ceil(energy), finely), math.ceil(fewest)


class InVisits(Unrolled):
    """Spatial choices of visits that have any extents: these do not tell what the last child has to do."""

    def __getitem__(self, rows: IntArray) -> InVisits:
        """Some of the rows."""
        members = tuple(own[rows] for own in self.members)
        return InVisits(self.frame, members, len(members[0]))

    def _nesting(self, last: int) -> Iterator[int]:
        del last
        return iter(())


@dataclass(frozen=True)
class MaskFloors:
    """What mappings with one keep mask cost at least, by spatial choice."""

    frame: TileFrame
    charges: Charges
    every: Unrolled

    @cached_property
    def _bounds(self) -> Bounds:
        every = frozenset(range(len(self.frame.space.resources)))
        return Bounds(Masked(self.frame, self.charges, {}), Goal("energy"), self.every, 0.0, every)

    @cached_property
    def _inside(self) -> Inside:
        return Inside(self.frame, self.charges)

    def cycles(self, steps: FloatArray, timed: bool) -> FloatArray:
        """Cycles, given those of the arithmetic."""
        resources = range(len(self.frame.space.resources)) if timed else ()
        loads = (self._bounds.loads((r,), self._words(Price(0.0, ((r, 1.0),)))) for r in resources)
        return self._bounds.cycles(reduce(np.maximum, loads, np.zeros(len(self.every))), steps)

    def energies(self, cycles: FloatArray, steps: FloatArray) -> FloatArray:
        """Energy units, given cycles, and those of the arithmetic; infinite where nothing is possible."""
        waiting = self._bounds.waiting(cycles, steps)
        energies = self._bounds.masked.fixed(self.every, waiting) + self._words(ENERGY)
        return np.where(np.isfinite(cycles), self.charges.whole(energies), math.inf)

    def least_energy_finely(
        self, energies: FloatArray, cycles: FloatArray, steps: FloatArray, most: float
    ) -> int:
        """Energy units of the choices with up to `most`, as exactly as numbers can tell."""
        if most < MOST_GRAINS * self.charges.grain:
            return 0
        near = np.flatnonzero(energies <= most * NEAR)
        if len(near) > MOST_NEAR:
            return 0
        some, fine = replace(self, every=self.every[near]), self.charges.fine
        waiting = self._bounds.waiting(cycles[near], steps[near])
        fixed = self._bounds.masked.exactly_fixed(some.every, self._bounds.exactly(waiting))
        words = self.charges.grains(some._words(fine), self._inside.are_whole(some.every))
        pairs = zip(words.tolist(), fixed, strict=True)
        return min((int(own) * fine.unit + more for own, more in pairs), default=math.floor(most))

    def _words(self, price: Price) -> FloatArray:
        """What all words cost."""
        total = np.zeros(len(self.every), price.dtype)
        for boundary in range(1, self._inside.depth + 1):
            paid = tuple(own for own in self.charges.at(boundary) if any(price.of(own)))
            if paid:
                tenants = self.frame.space.tenants(self.charges.mask, boundary)
                key = "boundary", boundary, tenants, paid, price
                total = total + self.every.once(
                    key, partial(self._least_words_cost, boundary, tenants, paid, price)
                )
        return total

    def _least_words_cost(
        self, boundary: int, tenants: frozenset[int], paid: Sequence[Charge], price: Price
    ) -> FloatArray:
        """What words cost that are delivered to one boundary, with the best tiles that fit."""
        self.frame.heed()
        places = sorted({own.place for own in paid})
        once = {place: self._sum(partial(self._paid, price), paid, place, price) for place in places}
        least = sum(once.values(), np.zeros(len(self.every)))
        if boundary == self._inside.depth:
            return least
        fits = self.frame.fits(boundary, tenants)
        if fits[self.frame.whole]:
            return least
        best = np.full(len(self.every), np.inf)
        for members in self.frame.space.reuse_classes if fits.any() else ():
            still = [p for p in places if p in members and self.frame.space.reuses(p, boundary)]
            own, moved = (
                sum((once[p] for p in still), np.zeros(len(self.every))),
                sorted({*places} - {*still}),
            )
            if moved:
                rate = partial(self._rate, price)
                rates = np.stack([self._sum(rate, paid, p, price) for p in moved], axis=1)
                own = own + _least_product(rates, self._front(boundary, tenants, moved, fits))
                own = own - sum(self._sum(self._free, paid, p, price) for p in moved)
            best = np.minimum(best, own)
        found: FloatArray = np.maximum(least, best)
        return found

    def _sum(
        self, words: Callable[[Charge], FloatArray], paid: Sequence[Charge], place: int, price: Price
    ) -> FloatArray:
        """What some words of all accesses to one dataspace cost."""
        own = (charge for charge in paid if charge.place == place)
        none = np.zeros(len(self.every))
        return sum((price_of(charge, price, self.every) * words(charge) for charge in own), none)

    def _paid(self, price: Price, charge: Charge) -> FloatArray:
        """Words of an access that are paid for, at least."""
        return price.paid(charge, self._first_words(charge), self._free(charge))

    def _first_words(self, charge: Charge) -> FloatArray:
        """Words of an access if each comes once to all that use it; operands as seldom as may be."""
        return self.every.once(("once", charge.ends), partial(self._count_first_words, charge))

    def _count_first_words(self, charge: Charge) -> FloatArray:
        """Count the words of an access if each comes once to all that use it."""
        view, every = self.frame.space.views[charge.place], self.every
        if charge.boundary == self._inside.depth:
            return self._inside.fewest_operands(charge, every)
        words = self.frame.words.of(charge.place, self.frame.space.no_unrolling, view.relevant).begun.min()
        used, share = every.at_once(charge.boundary), np.ones(1)
        if charge.shared:
            used = every.askers(view, charge.level, charge.boundary)
            share = every.share(view, charge.level, charge.boundary)
        begun: FloatArray = share * words * used[:, sorted(view.irrelevant)].prod(axis=1)
        return begun

    def _rate(self, price: Price, charge: Charge) -> FloatArray:
        """Words of an access per word that comes to one instance: some share it."""
        key = "rate", charge.ends, price.dtype
        return self.every.once(key, partial(self._words_per_instance_word, price, charge))

    def _words_per_instance_word(self, price: Price, charge: Charge) -> FloatArray:
        """Count the words of an access per word that comes to one instance."""
        view, every, ends = self.frame.space.views[charge.place], self.every, (charge.level, charge.boundary)
        if not charge.shared:
            return np.ones(1)
        together = every.product(*ends) // every.unshared_factors(view, *ends)
        of_each = together[:, sorted(view.irrelevant)].prod(axis=1).astype(price.dtype)
        rate: FloatArray = every.share(view, *ends) / of_each
        return rate

    def _free(self, charge: Charge) -> FloatArray:
        """Words of first touches that cost nothing, at most."""
        key = "free", charge.ends, charge.free
        return self.every.once(key, partial(self._inside.free, charge, self.every))

    def _front(
        self, boundary: int, tenants: frozenset[int], places: Sequence[int], fits: BoolArray
    ) -> FloatArray:
        """Words of tiles that fit where nothing stays, shape (dataspaces, tiles), but for worse tiles."""
        key = "front", boundary, tenants, tuple(places)
        return self.every.once(key, lambda: minimal_rows(self._moved(places, fits)).T.copy())

    def _moved(self, places: Sequence[int], fits: BoolArray) -> FloatArray:
        """Words of some tiles where nothing stays, shape (tiles, dataspaces)."""
        views, unrolling = self.frame.space.views, self.frame.space.no_unrolling
        again = (self.frame.words.of(p, unrolling, views[p].relevant).again for p in places)
        pairs = zip(places, again, strict=True)
        moved = (np.broadcast_to(own * self.frame.times(p), fits.shape)[fits] for p, own in pairs)
        return np.stack(list(moved), axis=1)


def _least_product(rates: FloatArray, front: FloatArray) -> FloatArray:
    """By row, the least of its products with the columns of a front."""
    rows = max(1, TOGETHER // front.shape[1])
    parts = (rates[start : start + rows] for start in range(0, len(rates), rows))
    # A product of BLAS takes several times longer for a few columns, and threads that others may need.
    return np.concatenate([np.einsum("ck,kt->ct", own, front).min(axis=1) for own in parts])
