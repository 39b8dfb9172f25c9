"""What an Einsum between two cuts costs at the least: in closed form, and by floors of its mapspace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, reduce
from itertools import product
from typing import NamedTuple

import numpy as np

from model.architecture import AccessEnergy, StorageLevel
from model.cost.prices import network_latency
from model.extents import PERFECT
from model.mapspace import Mapspace
from model.renaming import by_position
from solver.fusion.amounts import Amount, ever, larger, rounded_up, smaller
from solver.fusion.edges import EdgeKind, EdgeSpace, Shift, unlimited, with_places_of
from solver.fusion.parts import PartSizes
from solver.fusion.remembered import remembered, remembered_by
from solver.fusion.space import WHOLE, Cut, Cuts, FusionSpace, Parts, Tile
from solver.result import Clock, Options, Result, Termination
from solver.search.goal import Caps
from solver.search.mapper import SharedSearch
from solver.search.orders import Ordered, OrderSearch, order_floors
from solver.search.path.floors import cost_floors
from solver.search.priced import Priced
from solver.search.stopping import heed

Deeper = tuple[tuple[str, int], ...]
"""Dataspaces that are stored in memories farther in, with levels, as `EdgeKind` has them."""

MOST_BOXES = 400
"""Boxes of extents of which a bound for any parts looks at each one."""

STEP_SHARE, STEP_S, UNHURRIED_S = 1 / 16, 1.0, 10.0
"""Of the time that is left, what a first search for one Einsum may take; at least; and without a limit.

Some settle nothing for long but which of many equal mappings is the best one.
"""

AGAIN = 4
"""How many times as long a search may take that is tried again."""

BOUNDED_SHARE = 1 / 8
"""Share of the time that is left which searches for bounds on all Einsums may take."""

LARGE = 64
"""How many times as long as the whole a box is in each dimension that visits are small beside."""


class Inner(NamedTuple):
    """Least costs where all is stored on chip that may be.

    Parameters
    ----------
    free, paid
        Energy, if what bypasses the on-chip memory comes for nothing; and if each word of it is paid, but no
        visit brings it again.
    """

    free: int
    paid: Amount
    cycles: Amount

    def raised(self, paid: Amount, cycles: Amount) -> Inner:
        """With at least so much energy, all of it paid, and cycles."""
        return Inner(self.free, larger(self.paid, paid), larger(self.cycles, cycles))


class Exchange(NamedTuple):
    """Energy of what a tile exchanges with the outermost memory, and its words, times their scales."""

    dataspace: str  # empty for a tile that exchanges nothing
    energy: Amount
    reads: Amount
    writes: Amount
    bypassed: bool = False

    @property
    def words(self) -> Amount:
        """Both."""
        return self.reads + self.writes

    def helps(self, other: Exchange) -> bool:
        """Whether less is exchanged than by another one, in any body."""
        pairs = (self.energy, other.energy), (self.reads, other.reads), (self.writes, other.writes)
        return any(ever(own < theirs) for own, theirs in pairs)


NOTHING = Exchange("", 0, 0.0, 0.0)
"""What a tile exchanges whose tensor is stored."""


class _Last(NamedTuple):
    """The last search, if it was proven, and the clock that it asks."""

    mapspace: Mapspace
    clock: Clock
    search: SharedSearch | OrderSearch


@dataclass
class EdgeBounds:
    """Bounds what edges cost for one objective, from what their cuts say.

    Parameters
    ----------
    objective
        "energy", "latency" or "edp".
    """

    space: FusionSpace
    objective: str
    options: Options
    clock: Clock
    remainders: bool = False
    """Whether loops of nests may have remainders."""
    search_s: float = math.inf
    """Seconds of a search for nests with remainders, at most."""
    step_s: float = math.inf
    """Seconds of a search without remainders, at most; one that is tried again has `AGAIN` times as many."""
    in_closed_form: bool = False
    """Whether bounds leave out floors and searches: once a search is over."""
    _last: _Last | None = None
    searches: int = 0
    floors: int = 0
    inner_bounds: dict[Mapspace, Inner] = field(default_factory=dict)
    part_bounds: dict[Mapspace, tuple[int, int]] = field(default_factory=dict)
    in_unlike_parts: dict[tuple[int, tuple[tuple[str, Parts], ...]], tuple[int, int]] = field(
        default_factory=dict
    )

    def heed(self) -> None:
        """Raise `Stopped` once the search has to end: what was to be computed is not remembered then."""
        heed(self.clock.stop)

    @cached_property
    def timed(self) -> bool:
        """Whether cycles matter to the objective at all."""
        levels = (level for einsum in self.space.einsums for level in einsum.mapspace.architecture.levels)
        return self.objective != "energy" or any(level.energy.leak_per_cycle for level in levels)

    @cached_property
    def alike(self) -> tuple[int, ...]:
        """Per Einsum a number that those have in common which differ in names alone."""
        numbers, einsums = dict[Mapspace, int](), self.space.einsums
        alike = self.space.cascade.alike
        mapspaces = {place: EdgeSpace(einsums[place], EdgeKind(0)).mapspace(None) for place in set(alike)}
        renamed = {place: by_position(own.problem).mapspace(own) for place, own in mapspaces.items()}
        return tuple(numbers.setdefault(renamed[first], place) for place, first in enumerate(alike))

    # With what is exchanged

    def together(
        self,
        place: int,
        cut: Cut,
        moves: Sequence[Exchange],
        deeper: Deeper = (),
        is_open: bool = False,
        is_estimate: bool = False,
    ) -> tuple[int, int]:
        """Least energy and cycles of an Einsum whose tiles exchange so much with the outermost memory.

        Parameters are those of `inner_under`.
        """
        exchanging = frozenset(move.dataspace for move in moves if not move.bypassed)
        inner = self.inner_under(place, cut, exchanging, deeper, is_open, is_estimate)
        return self.exchanging(place, cut, moves, inner)

    def exchanging(
        self, place: int, cut: Cut, moves: Sequence[Exchange], inner: Inner
    ) -> tuple[Amount, Amount]:
        """Least energy and cycles of what tiles exchange with the outermost memory, and of all else."""
        level = self.space.einsums[place].mapspace.architecture.levels[0]
        latency, ported = self.latency(place), 0.0
        for kind, rate in (
            ("reads", level.read_bandwidth),
            ("writes", level.write_bandwidth),
            ("words", level.shared_bandwidth),
        ):
            if rate is not None:
                ported = larger(ported, sum(getattr(move, kind) for move in moves) / float(rate))
        busy = larger(inner.cycles - latency, rounded_up(ported))
        passing = sum(move.energy for move in moves if not move.bypassed)
        every = passing + sum(move.energy for move in moves if move.bypassed)
        return larger(inner.free + every, inner.paid + passing), busy + cut.visits * latency

    def inner_under(
        self,
        place: int,
        cut: Cut,
        exchanging: frozenset[str],
        deeper: Deeper = (),
        is_open: bool = False,
        is_estimate: bool = False,
    ) -> Inner:
        """Least costs below shared loops of all but the exchange with the outermost memory.

        Parameters
        ----------
        exchanging, deeper
            See `inner`.
        is_open
            Whether further loops may cut dimensions into unequal parts.
        is_estimate
            Whether it need be no bound there, and is to take less work.
        """
        if isinstance(cut, Cuts):
            return self._inner_under(place, cut, exchanging, deeper, is_open, is_estimate)
        exchanging = exchanging if self.objective != "energy" else frozenset()
        key = place, id(cut), exchanging, deeper, is_open, is_estimate
        if key not in self._under:
            # With the cut, which keeps its identity.
            self._under[key] = cut, self._inner_under(place, cut, exchanging, deeper, is_open, is_estimate)
        return self._under[key][1]

    def _inner_under(
        self,
        place: int,
        cut: Cut,
        exchanging: frozenset[str],
        deeper: Deeper,
        is_open: bool,
        is_estimate: bool,
    ) -> Inner:
        is_unlike = is_open or bool(cut.parts)
        if is_unlike and not is_estimate:
            return self._inner_unlike(place, cut, deeper, is_open)
        inner = self.inner(place, exchanging, deeper)
        if is_unlike or (isinstance(cut, Cuts) and cut.is_rough):
            return inner
        for dim, count in cut.trips.items():
            energy, cycles = self._in_visits_over(place, dim, count, deeper)
            inner = inner.raised(energy, cycles - (count - 1) * self.latency(place))
        return inner

    def _inner_unlike(self, place: int, cut: Cut, deeper: Deeper, is_open: bool) -> Inner:
        """Least costs in parts that are not alike, or need not be."""
        if self.space.remainders:
            return self.in_any_parts(place, deeper) if is_open else self.in_parts(place, cut.parts, deeper)
        if self.is_unknown(place) or deeper:
            return self.arithmetic(place)
        return self.in_open_parts(place, cut) if is_open else self.in_parts(place, cut.parts)

    def _in_visits_over(self, place: int, dim: str, count: Amount, deeper: Deeper) -> tuple[Amount, Amount]:
        """Least energy and cycles with loops over one dimension, by their trips."""
        if not isinstance(count, np.ndarray):
            return self.in_visits(place, dim, count, deeper)
        counts, index = np.unique(count, return_inverse=True)
        found = [self.in_visits(place, dim, int(own), deeper) for own in counts]
        energies, cycles = np.array(found, np.float64)[index].T
        return energies, cycles

    @cached_property
    def _under(self) -> dict[tuple[object, ...], tuple[Cut, Inner]]:
        return {}

    def exchange(self, tile: Tile, cut: Cut, shift: Shift | None = None) -> Exchange:
        """What a tile that is neither stored nor held exchanges with the outermost memory at the least."""
        architecture = self.space.einsums[tile.place].mapspace.architecture
        outside, inside = architecture.levels[0], architecture.on_chip[0]
        name, scale = tile.space.name, float(outside.scale(tile.space.name))
        if shift is None:
            moved = self.space.moved_words(self.space.dense[tile], cut)
            first = smaller(moved, self._first_words(tile, cut)) if tile.space.read_write else 0
            shift = Shift(name, moved, first)
        written = shift.moved if tile.space.read_write else 0

        tolls = sum(
            _scaled(read, toll, name, shift.fetched) + _scaled(update, toll, name, written)
            for toll in architecture.outer_tolls
            for read, update in _toll_prices(toll, name)
        )

        def energy(read: int, update: int) -> Amount:
            own = _scaled(read, outside, name, shift.fetched)
            return tolls + own + _scaled(update, outside, name, written)

        energies = [energy(outside.energy.read, outside.energy.update)]
        if not tile.bypassed:
            energies[0] += _scaled(self._fill_energy, inside, name, shift.fetched)
        if tile.bypassable and not tile.bypassed:
            cheaper = self._cheaper[tile.place]
            energies.append(
                energy(outside.energy.read - cheaper.read, outside.energy.update - cheaper.update)
            )
        paid = larger(0, reduce(smaller, energies))
        return Exchange(name, paid, shift.fetched * scale, written * scale, tile.bypassed)

    def _first_words(self, tile: Tile, cut: Cut) -> Amount:
        # Of a window at most.
        return self.space.moved_words(tile, cut) if tile.windowed else self.space.tile_words(tile, WHOLE)

    def latency(self, place: int) -> int:
        """Cycles that networks take in each visit."""
        return network_latency(self.space.einsums[place].mapspace.architecture)

    @cached_property
    def _fill_energy(self) -> int:
        """What it takes to fill a word at the least: the instances of a cluster share accesses."""
        return (
            0
            if self.space.is_parted and self.space.memory.cluster_size > 1
            else self.space.memory.energy.fill
        )

    @cached_property
    def _cheaper(self) -> tuple[AccessEnergy, ...]:
        """Per Einsum the less of what accesses to the two outermost memories take.

        Nothing where the on-chip one exists several times: what bypasses it may be multicast.
        """
        architectures = [einsum.mapspace.architecture for einsum in self.space.einsums]
        if self.space.is_parted:
            leaks = (own.on_chip[0].energy.leak_per_cycle for own in architectures)
            return tuple(AccessEnergy(leak_per_cycle=leak) for leak in leaks)
        return tuple(_cheaper(own.levels[0], own.on_chip[0]) for own in architectures)

    def shift(self, tile: Tile, cut: Cut) -> Shift:
        """What a tile that is held below some loops exchanges with the outermost memory."""
        first = self.space.tile_words(tile, WHOLE) if tile.space.read_write else 0
        return Shift(tile.space.name, self.space.moved_words(tile, cut), first)

    # Without what is exchanged

    def inner(self, place: int, exchanging: frozenset[str], deeper: Deeper = ()) -> Inner:
        """Least costs of all but what the outermost memory exchanges with the on-chip one.

        Parameters
        ----------
        exchanging
            Dataspaces of which all words cross between the two at least once, and load their bandwidths. For
            energy they are left out: leakage alone depends on cycles.
        deeper
            What is stored in memories farther in, like `EdgeKind.deeper`.
        """
        if self.is_unknown(place):
            return self.arithmetic(place)
        return self._inner(place, exchanging - {""} if self.objective != "energy" else frozenset(), deeper)

    @remembered
    def _inner(self, place: int, exchanging: frozenset[str], deeper: Deeper) -> Inner:
        mapspace = by_position(self.space.einsums[place].problem).mapspace(
            self._inner_mapspace(place, exchanging, deeper)
        )
        if mapspace not in self.inner_bounds:
            self.inner_bounds[mapspace] = self._least_of(mapspace)
        found = Inner(*map(max, self.inner_bounds[mapspace], self.arithmetic(place)))
        self.known_inner[place, exchanging, (), deeper] = found
        return found

    @cached_property
    def known_inner(self) -> dict[tuple[int, frozenset[str], tuple[tuple[str, int], ...], Deeper], Inner]:
        """What `inner` and `in_visits` have found, by their arguments: of Einsums alike, for one."""
        return {}

    def in_parts(self, place: int, parts: Mapping[str, Parts], deeper: Deeper = ()) -> Inner:
        """Like `inner`, where dimensions are cut into unequal parts: those of all parts.

        Bandwidths do not count, which all visits load together; whole vectors are rounded up on totals.
        """
        return self._least_in_parts(place, tuple(sorted(parts.items())), deeper)

    @remembered
    def _least_in_parts(self, place: int, parts: tuple[tuple[str, Parts], ...], deeper: Deeper) -> Inner:
        spare = EdgeSpace(self.space.einsums[place], EdgeKind(place)).rounding_energy()
        paid, cycles = spare, 0
        for chosen in product(*(sizes for _, sizes in parts)):
            one = tuple((dim, (own,)) for (dim, _), own in zip(parts, chosen, strict=True))
            energy, busy = self._in_part(place, one, deeper)
            times = math.prod(count for _, count in chosen)
            every = times * (energy - spare)
            if not deeper:
                self.in_unlike_parts[place, one] = max(0, every + spare), times * busy
            paid, cycles = paid + every, cycles + times * (busy - self.latency(place))
        least = self.arithmetic(place)
        paid = max(paid, least.paid)
        return Inner(least.free, paid, max(cycles, least.cycles) + self.latency(place))

    def in_any_parts(self, place: int, deeper: Deeper = ()) -> Inner:
        """Like `inner`, however shared loops cut the dimensions that they may run over.

        A visit costs no less than the floor of its extents, and visits part a box again and again in two.
        """
        return self._least_in_boxes(place, deeper)

    def unnamed(
        self,
        place: int,
        loops: Iterable[tuple[str, object]],
        deeper: Deeper,
        above: Iterable[str] = (),
    ) -> tuple[object, ...]:
        """All that matters of an Einsum, of loops over it, and of where its dataspaces are, but names."""
        problem = self.space.einsums[place].problem
        names = [space.name for space in problem.dataspaces]
        return (
            self.alike[place],
            frozenset((problem.dims.index(dim), own) for dim, own in loops),
            frozenset((names.index(name), level) for name, level in deeper),
            frozenset(map(names.index, above)),
        )

    @remembered_by(
        lambda own, place, deeper: own.unnamed(place, ((dim, 1) for dim in own.space.looped(place)), deeper)
    )
    def _least_in_boxes(self, place: int, deeper: Deeper) -> Inner:
        """Least costs of a box, alone or parted in two, from the smallest one to the whole."""
        least, bound = self.arithmetic(place), self.space.einsums[place].problem.bound
        dims = [dim for dim in self.space.looped(place) if bound[dim] > 1]
        shape = [bound[dim] for dim in dims]
        if math.prod(shape) > MOST_BOXES:
            return self._least_by_rate(place, deeper, dims)
        spare = EdgeSpace(self.space.einsums[place], EdgeKind(place)).rounding_energy()
        found: dict[tuple[int, ...], tuple[int, int]] = {}
        for box in product(*(range(1, size + 1) for size in shape)):
            part = tuple((dim, ((size, 1),)) for dim, size in zip(dims, box, strict=True))
            energy, busy = self._in_part(place, part, deeper)
            own = max(0, energy - spare), max(0, busy - self.latency(place))
            energies, cycles = zip(own, *_parted_in_two(found, box), strict=True)
            found[box] = min(energies), min(cycles)
        paid, busy = found[tuple(shape)]
        latency = self.latency(place)
        return Inner(least.free, max(least.paid, paid + spare), max(least.cycles, busy) + latency)

    def _least_by_rate(self, place: int, deeper: Deeper, dims: Sequence[str]) -> Inner:
        """Least costs by what an iteration costs at the least in a box that all visits are small beside.

        Visits of one kind, again and again, fill the large box and stick out by less than one of them. They
        have no fewer tiles than it has (docs/fusion.md, "Remainders of shared loops").
        """
        least, problem = self.arithmetic(place), self.space.einsums[place].problem
        outputs = [space.dims for space in problem.dataspaces if space.read_write]
        if self.is_unknown(place) or any(dim not in own for dim in dims for own in outputs):
            return least
        spare = EdgeSpace(self.space.einsums[place], EdgeKind(place)).rounding_energy()
        large = {dim: LARGE * problem.bound[dim] for dim in dims}
        energy, busy = self._in_part(place, tuple((d, ((n, 1),)) for d, n in large.items()), deeper)
        share = math.prod(Fraction(problem.bound[d], n + problem.bound[d] - 1) for d, n in large.items())
        latency = self.latency(place)
        paid = math.ceil(max(0, energy - spare) * share) + spare
        cycles = math.ceil(max(0, busy - latency) * share) + latency
        return Inner(least.free, max(least.paid, paid), max(least.cycles, cycles))

    def in_open_parts(self, place: int, cut: Cut) -> Inner:
        """Least costs where further loops may cut parts again: by the least that an iteration costs."""
        least = self.arithmetic(place)
        if self.is_unknown(place) or self.space.einsums[place].is_copy:
            return least
        if self.space.remainders:
            return self.in_any_parts(place)
        dims = self.unlike(place)
        bound = self.space.einsums[place].problem.bound
        if isinstance(cut, Cuts):
            return self._in_open_parts_of(place, cut, dims)
        parts = {
            dim: cut.parts.get(dim, ((cut.largest(dim, bound[dim]), cut.trips.get(dim, 1)),)) for dim in dims
        }
        paid = cycles = Fraction(0)
        for chosen in product(*parts.values()):
            most = tuple((dim, size) for dim, (size, _) in zip(dims, chosen, strict=True))
            iterations = math.prod(size * count for size, count in chosen)
            energy, busy = self.rate(place, most)
            paid, cycles = paid + energy * iterations, cycles + busy * iterations
        busiest = max(math.ceil(cycles), least.cycles)
        return Inner(least.free, max(math.ceil(paid), least.paid), busiest + self.latency(place))

    def _in_open_parts_of(self, place: int, cuts: Cuts, dims: Sequence[str]) -> Inner:
        """Those of many bodies, by the largest parts alone."""
        least = self.arithmetic(place)
        if not dims or cuts.sizes is None:
            return least
        sizes, index = np.unique(np.stack([cuts.sizes[dim] for dim in dims]), axis=1, return_inverse=True)
        chosen = (tuple(zip(dims, map(int, own), strict=True)) for own in sizes.T)
        iterations = math.prod(self.space.einsums[place].problem.bound[dim] for dim in dims)
        rates = np.array([tuple(map(float, self.rate(place, own))) for own in chosen])
        energies, busy = (rates[index.ravel()] * iterations).T
        raised = least.raised(energies, busy)
        return raised._replace(cycles=raised.cycles + self.latency(place))

    def follows(self, place: int) -> bool:
        """Whether further loops may cut an Einsum into unequal parts, as far as its readers' windows go."""
        if place not in self.space.followers:
            return False
        return self.space.remainders or self.sizes.unlike(place) != ()

    def unlike(self, place: int) -> tuple[str, ...]:
        """Dimensions of an Einsum whose parts may have different extents, if these are known."""
        return self.sizes.unlike(place) or ()

    @property
    def sizes(self) -> PartSizes:
        """Which extents parts may have, if shared loops have no remainders."""
        is_fused = self.space.limits.max_loops != 0
        return self._sizes(is_fused)

    @remembered
    def _sizes(self, _: bool) -> PartSizes:
        return PartSizes(self.space, lambda: self.clock.whole.stop())

    def rate(self, place: int, most: tuple[tuple[str, int], ...]) -> tuple[Fraction, Fraction]:
        """Least energy and cycles of an iteration of unlike dimensions, in parts of at most some extents.

        A visit costs no less than its share of a visit that is a multiple of it, as its loops could be the
        outermost private ones there. So these are looked at which no other one is a multiple of.
        """
        bound = self.space.einsums[place].problem.bound
        return self._rate(place, tuple((dim, _halved(bound[dim], size)) for dim, size in most))

    @remembered
    def _rate(self, place: int, most: tuple[tuple[str, int], ...]) -> tuple[Fraction, Fraction]:
        extents = [self.sizes.largest(place, dim, size) for dim, size in most]
        if not extents or None in extents:
            return Fraction(0), Fraction(0)
        spare = EdgeSpace(self.space.einsums[place], EdgeKind(place)).rounding_energy()
        found = []
        for chosen in product(*(own for own in extents if own is not None)):
            one = tuple((dim, ((size, 1),)) for (dim, _), size in zip(most, chosen, strict=True))
            energy, busy = self._in_part(place, one, ())
            times = math.prod(chosen)
            found.append(
                (Fraction(max(0, energy - spare), times), Fraction(max(0, busy - self.latency(place)), times))
            )
        energies, cycles = zip(*found, strict=True)
        return min(energies), min(cycles)

    @remembered_by(
        lambda own, place, part, deeper: own.unnamed(place, ((d, s) for d, ((s, _),) in part), deeper)
    )
    def _in_part(self, place: int, part: tuple[tuple[str, Parts], ...], deeper: Deeper) -> tuple[int, int]:
        """Least energy and cycles of one visit, by its floor alone: there are many parts."""
        return self.kept_floor(self._inner_mapspace(place, frozenset(), deeper, part))

    def kept_floor(self, mapspace: Mapspace) -> tuple[int, int]:
        """Least energy and cycles by a floor that a certificate may name."""
        renamed = by_position(mapspace.problem).mapspace(mapspace)
        if renamed not in self.part_bounds:
            self.part_bounds[renamed] = self.floor(renamed)
        return self.part_bounds[renamed]

    @remembered_by(lambda own, place, dim, count, deeper: own.unnamed(place, [(dim, count)], deeper))
    def in_visits(self, place: int, dim: str, count: int, deeper: Deeper) -> tuple[int, int]:
        """Least energy and cycles where all is on chip that may be, and shared loops bring the rest anew.

        It holds with further loops, too.
        """
        if count == 1 or self.is_unknown(place):
            return 0, 0
        trips = ((dim, count),)
        mapspace = self._inner_mapspace(place, frozenset(), deeper, (), trips)
        found = self.floor(by_position(mapspace.problem).mapspace(mapspace))
        self.known_inner[place, frozenset(), trips, deeper] = Inner(0, *found)
        return found

    def arithmetic(self, place: int) -> Inner:
        """What is paid and takes time in any case: no closer bound holds for all unequal parts."""
        einsum = self.space.einsums[place]
        if einsum.is_copy:
            return Inner(0, 0, 0)
        architecture = einsum.mapspace.architecture
        energy = einsum.problem.computes * architecture.compute.energy
        units = math.prod(fanout.size for fanout in architecture.fanouts)
        return Inner(energy, energy, -(-einsum.problem.computes // units))

    def is_ruled(self, place: int) -> bool:
        """Whether rules bind loops of the outermost memory: then private ones cannot replace shared ones."""
        rules = self.space.einsums[place].mapspace.temporal[0]
        return bool(rules.factors or rules.inner or rules.outer)

    def is_unknown(self, place: int) -> bool:
        """Whether floors say nothing of visits by further loops: with remainders, of windows."""
        return self.remainders and self._slides[place]

    @cached_property
    def _slides(self) -> tuple[bool, ...]:
        """Which Einsums have windows."""
        return tuple(
            any(map(einsum.mapspace.has_windows, einsum.problem.dataspaces)) for einsum in self.space.einsums
        )

    def _least_of(self, mapspace: Mapspace) -> Inner:
        """Least costs by searches where they matter, with and without energy of the outermost memory."""
        paid, cycles = self.floor(mapspace)
        free = paid
        is_exact = not self.remainders  # see `floor`
        if self.objective != "latency":
            paid = max(paid, self._bound(mapspace, "energy") if is_exact else 0)
            nodes = list(mapspace.architecture.nodes)
            outside = nodes[0]
            assert isinstance(outside, StorageLevel)
            nodes[0] = replace(outside, energy=AccessEnergy(leak_per_cycle=outside.energy.leak_per_cycle))
            architecture = replace(mapspace.architecture, nodes=tuple(nodes))
            free = 0
            if mapspace.keep[0].bypass != {space.name for space in mapspace.problem.dataspaces}:
                free = self.floor(replace(mapspace, architecture=architecture))[0]
        if self.objective != "energy" and is_exact:
            cycles = max(cycles, self._bound(mapspace, "latency"))
        return Inner(free, paid, cycles)

    def _bound(self, mapspace: Mapspace, objective: str) -> int:
        if self.in_closed_form:
            return 0
        left_s, most_s = self.clock.left_s, self.first_s
        if left_s is not None:
            most_s = min(most_s, left_s * BOUNDED_SHARE / len(set(self.alike)))
        return self.searched(mapspace, (objective,), Caps(), None, most_s).bound or 0

    def _inner_mapspace(
        self,
        place: int,
        exchanging: frozenset[str],
        deeper: Deeper = (),
        parts: tuple[tuple[str, Parts], ...] = (),
        trips: tuple[tuple[str, int], ...] = (),
    ) -> Mapspace:
        """All is stored or held on chip that may be; `parts` has extents of visits, `trips` their number."""
        tiles = self.space.tiles[place]
        farther_in = {name for name, _ in deeper}
        above = frozenset(
            tile.space.name for tile in tiles if not tile.bypassed and tile.space.name not in farther_in
        )
        moving = (self.space.dense[tile] for tile in tiles if tile.space.name in exchanging)
        shifts = tuple(self.shift(tile, WHOLE) for tile in moving)
        kind = EdgeKind(place, trips, above, shifts, parts, deeper=deeper, remainders=self.remainders)
        einsum = self.space.einsums[place]
        own = EdgeSpace(einsum, kind, self.timed, unlimited=bool(parts), is_relaxed=True)
        mapspace = own.even_mapspace(None)
        nodes, inside = list(mapspace.architecture.nodes), mapspace.architecture.on_chip[0]
        if any(t.bypassable and not t.bypassed and t.space.name not in farther_in for t in tiles):
            nodes[nodes.index(inside)] = replace(unlimited(inside), energy=self._cheaper[place])
        # Shared loops count as loops of the outermost memory here, which its rules do not bind.
        temporal = (own.visit_rules, *mapspace.temporal[1:])
        architecture = replace(mapspace.architecture, nodes=tuple(nodes))
        mapspace = replace(mapspace, architecture=architecture, temporal=temporal)
        return with_places_of(self.space.einsums[place], mapspace, above)

    # By floors and searches

    @property
    def first_s(self) -> float:
        """Seconds of a search without remainders that was not tried before, at most."""
        left_s = self.clock.left_s
        return min(self.step_s, UNHURRIED_S if left_s is None else max(STEP_S, left_s * STEP_SHARE))

    def floor(self, mapspace: Mapspace) -> tuple[int, int]:
        """Least energy and cycles by the floor of a mapspace; 0 where it takes too much.

        It holds with further shared loops, also where nests have remainders. An optimum would not hold: nests
        of visits are none of the whole.
        """
        self.heed()
        if self.in_closed_form:
            return 0, 0
        self.floors += 1
        floors = order_floors if mapspace.free_order else cost_floors
        least = floors(mapspace, self.clock.stop, self.timed)
        self.heed()  # a floor that was cut short says nothing
        return least

    def searched(
        self,
        mapspace: Mapspace,
        objectives: tuple[str, ...],
        caps: Caps,
        known: Priced | Ordered | None = None,
        most_s: float = math.inf,
    ) -> Result:
        """The optimum of a mapspace, from a known mapping, in the time that is left."""
        self.searches += 1
        last = self._last
        reused = last is not None and (last.mapspace, last.clock) == (mapspace, self.clock)
        search = last.search if last is not None and reused else self._begun(mapspace, most_s)
        result = search.minimise(objectives, caps, known)  # type: ignore[arg-type]  # of its own kind
        # A mapspace is often searched for energy and then for latency: its tables serve both.
        is_proven = result.termination is Termination.PROVEN
        self._last = _Last(mapspace, self.clock, search) if is_proven else None
        return result

    def _begun(self, mapspace: Mapspace, most_s: float) -> SharedSearch | OrderSearch:
        limit_s = self.clock.left_s
        if mapspace.factors != PERFECT:
            most_s = self.search_s
        if most_s < math.inf:
            limit_s = most_s if limit_s is None else min(limit_s, most_s)
        kind = OrderSearch if mapspace.free_order else SharedSearch
        return kind(mapspace, replace(self.options, time_limit_s=limit_s), None, self.clock.stop)


def _parted_in_two(
    found: Mapping[tuple[int, ...], tuple[int, int]], box: tuple[int, ...]
) -> Iterator[tuple[int, int]]:
    """Yield energy and cycles of two parts of a box, by those of smaller boxes."""
    for axis, size in enumerate(box):
        for part in range(1, size // 2 + 1):
            one, other = (found[(*box[:axis], own, *box[axis + 1 :])] for own in (part, size - part))
            yield one[0] + other[0], one[1] + other[1]


def _scaled(energy: int, level: StorageLevel, name: str, words: Amount) -> Amount:
    """Energy of some words, at the least: blocks are not rounded up."""
    packing = level.packing_of(name)
    every = words * energy * packing.accesses_per_block
    return every // packing.block_size if packing.block_size > 1 else every


def _toll_prices(toll: StorageLevel, name: str) -> Iterator[tuple[int, int]]:
    """Yield what a word pays that comes in, and one that goes out, if its dataspace pays there at all."""
    if name in toll.passing:
        ways = toll.charges(name, "down"), toll.charges(name, "up")
        yield toll.energy.read * ways[0], toll.energy.update * ways[1]


def _cheaper(outside: StorageLevel, inside: StorageLevel) -> AccessEnergy:
    """The less of the energies of two levels, action by action; nothing where their blocks differ."""
    own, other = inside.energy, outside.energy
    names = ["", *(row.dataspace for row in (*outside.packing, *inside.packing))]
    pairs = [(outside.packing_of(name), inside.packing_of(name)) for name in names]
    are_alike = all(
        (one.block_size, one.accesses_per_block) == (two.block_size, two.accesses_per_block)
        for one, two in pairs
    )
    if inside.cluster_size > 1 or not are_alike:
        return AccessEnergy(leak_per_cycle=own.leak_per_cycle)
    return replace(
        own,
        read=min(own.read, other.read),
        fill=min(own.fill, other.fill),
        update=min(own.update, other.update),
    )


def _halved(bound: int, size: int) -> int:
    """The least of a bound and its halves, rounded up, that is no less than a size."""
    return -((-bound) >> ((bound // size).bit_length() - 1))
