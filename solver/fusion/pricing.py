"""What edges cost: bounds that take no search, and exact fronts by searches where a path needs them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from model.architecture import AccessEnergy, StorageLevel
from model.cost.plain import evaluate_in
from model.cost.prices import network_latency
from model.extents import PERFECT
from model.fused.cascade import CascadeEinsum
from model.fused.mapping import PrivateNest
from model.mapping import Mapping as LoopNest
from model.mapspace import Mapspace
from model.objective import objective_value
from solver.fusion.edges import EdgeKind, EdgeSpace, Shift, unlimited, with_places_of
from solver.fusion.space import WHOLE, Cut, FusionSpace, Parts, Tile, Trips
from solver.network.tasks import Renaming, by_position
from solver.result import Clock, Options, Result, Status, Termination
from solver.search.branching.completion import Priced
from solver.search.goal import Caps
from solver.search.mapper import SharedSearch
from solver.search.space.search_space import GRAINS, SearchSpace
from solver.search.stopping import Stopped
from solver.search.survey.survey import Survey

Deeper = tuple[tuple[str, int], ...]
"""Dataspaces that are stored in memories farther in, with levels, as `EdgeKind` has them."""

Numbered = tuple[tuple[int, int], ...]
"""Pairs of the number of a dimension or dataspace and a count or level, sorted."""

IMPOSSIBLE = 1 << 200
"""Energy and cycles of what does not fit."""

MOST_TILES = 1 << 17
"""Tiles with remainders that a survey tells apart."""

SHARE_KEPT = 1 - 1e-9
"""Sums of floating-point bounds err by far less."""


class Remainders(Enum):
    """Where loops of nests may have remainders."""

    NOWHERE = "nowhere"
    ALONE = "alone"
    """In Einsums that share no loops, and neither store nor hold anything."""
    EVERYWHERE = "everywhere"


class Point(NamedTuple):
    """A mapping: energy and cycles without held tiles' energy, room of its own tiles, and its loop nests.

    There is a nest for each kind of visits. Where energy and cycles are bounds, `paid` has those of the
    nests: kinds of visits cost no more together than one by one, or there was no time for a closer bound.
    `inner_words` are needed of memories farther in that may store tensors.
    """

    energy: int
    cycles: int
    need_words: int
    nests: tuple[LoopNest, ...]
    paid: tuple[int, int] | None = None
    inner_words: tuple[int, ...] = ()

    def as_paid(self) -> Point:
        """With the costs of the nests."""
        return self if self.paid is None else self._replace(energy=self.paid[0], cycles=self.paid[1])


class Choice(NamedTuple):
    """What an edge costs, or at the least, where at least `need_words` are left for its own tiles.

    `point` is the mapping that does so; without one, it is a bound.
    """

    energy: int
    cycles: int
    need_words: int
    point: Point | None


@dataclass
class _Solved:
    """The front at one room, as far as it is known, and a bound on what is not: None where it is complete."""

    room_words: int | None
    points: list[Point]
    beyond: tuple[int, int] | None
    is_cut_short: bool = False


@dataclass
class _Core:
    """Searches of edges that differ in names alone, at several rooms."""

    solved: list[_Solved] = field(default_factory=list)  # by falling room


class _Mixed(NamedTuple):
    """Visits of several kinds: least energy and cycles of all, those paid one by one, room, and nests."""

    least: tuple[int, int]
    paid: tuple[int, int]
    need_words: int
    nests: tuple[LoopNest, ...]
    inner_words: tuple[int, ...]


class _Settled(NamedTuple):
    """Least energy and cycles of an edge with all of the room, without the energy of held tiles."""

    trips: Trips
    shifts: tuple[Shift, ...]
    energy: int
    cycles: int


@dataclass
class Coarser:
    """Edges that are settled: with further shared loops, and no other tiles above, none costs less.

    Such loops may be the outermost private loops instead, which keep what a visit would bring again. Names
    are those of positions.
    """

    settled: dict[tuple[int, frozenset[str]], list[_Settled]] = field(default_factory=dict)

    def add(self, kind: EdgeKind, energy: int, cycles: int) -> None:
        """Remember what an edge costs, unless something is stored where no outer loop may move it."""
        if kind.deeper:
            return
        own = _Settled(dict(kind.trips), kind.shifts, energy, cycles)
        self.settled.setdefault((kind.place, kind.above), []).append(own)

    def bound(self, kind: EdgeKind) -> tuple[int, int]:
        """Least energy and cycles of another edge, without the energy of held tiles."""
        if kind.deeper:
            return 0, 0
        trips, energy, cycles = dict(kind.trips), 0, 0
        for known in self.settled.get((kind.place, kind.above), ()):
            if len(known.shifts) != len(kind.shifts):
                continue
            moved = zip(known.shifts, kind.shifts, strict=True)
            less = all(own.dataspace == other.dataspace and own.moved <= other.moved for own, other in moved)
            if less and all(trips.get(dim, 1) % count == 0 for dim, count in known.trips.items()):
                energy, cycles = max(energy, known.energy), max(cycles, known.cycles)
        return energy, cycles


@dataclass
class Edge:
    """An Einsum between two cuts, with all that is known of its costs, whatever its room."""

    space: EdgeSpace
    least: tuple[int, int]
    core: _Core
    known: Coarser
    positional: EdgeKind
    wider: Edge | None = None
    """The same with all of the room in memories farther in."""
    is_surveyed: bool = False

    @cached_property
    def renaming(self) -> Renaming:
        """Names that say the position only."""
        return by_position(self.space.mapspace(None).problem)

    def mapspace(self, room_words: int | None) -> Mapspace:
        """The mapspace with so much room, in these names."""
        return self.renaming.mapspace(self.space.mapspace(room_words))

    def choices(self, as_paid: bool = False) -> Iterator[Choice]:
        """Yield what is known: mappings, and bounds where there may be others.

        Of visits that differ mappings are bounds, too, or cost what is `paid`.
        """
        solved = self.core.solved
        most = solved[0].room_words if solved else -1
        if not solved:
            kind = self.space.kind
            energy, cycles = (0, 0) if kind.parts or kind.remainders else self.known.bound(self.positional)
            energy += self.space.shift_energy
            wide = (0, 0) if self.wider is None else self.wider.settled_least()
            yield Choice(max(self.least[0], energy, wide[0]), max(self.least[1], cycles, wide[1]), 0, None)
        elif most is not None:
            yield Choice(*self.least, most + 1, None)
        if not solved:
            return
        lower = [*(known.room_words for known in solved[1:]), -1]
        for known, below in zip(solved, lower, strict=True):
            assert below is not None
            yield from self._known(known, below + 1, as_paid)

    def settled_least(self) -> tuple[int, int]:
        """Least energy and cycles of all that is known, or may be."""
        found = list(self.choices())
        if not found:
            return IMPOSSIBLE, IMPOSSIBLE
        return min(own.energy for own in found), min(own.cycles for own in found)

    def _known(self, known: _Solved, floor: int, as_paid: bool) -> Iterator[Choice]:
        shift = self.space.shift_energy
        for point in (own.as_paid() if as_paid else own for own in known.points):
            yield Choice(point.energy + shift, point.cycles, point.need_words, point)
            if point.need_words > floor:
                energy, cycles = self.least
                least = max(energy, point.energy + shift), max(cycles, point.cycles)
                yield Choice(*least, floor, None)
        if known.beyond is not None:
            energy, cycles = known.beyond
            yield Choice(max(energy + shift, self.least[0]), max(cycles, self.least[1]), floor, None)

    def nests(self, point: Point) -> tuple[PrivateNest, ...]:
        """The nest of each kind of visits, in the Einsum's own names."""
        if not self.space.kind.is_mixed:
            (nest,) = point.nests
            return (self.space.nest(self.renaming.inverse.mapping(nest)),)
        shifts = self.space.kind.shifts
        kinds = [replace(self.space, kind=replace(kind, shifts=shifts)) for kind in self.space.kind.alike()]
        return tuple(own.nest(_as_named(own, nest)) for own, nest in zip(kinds, point.nests, strict=True))


def _as_named(space: EdgeSpace, nest: LoopNest) -> LoopNest:
    """A nest of one kind of visits in the Einsum's own names."""
    return by_position(space.mapspace(None).problem).inverse.mapping(nest)


def _scaled(energy: int, level: StorageLevel, name: str, words: int) -> int:
    """Energy of some words, at the least: blocks are not rounded up."""
    packing = level.packing_of(name)
    return words * energy * packing.accesses_per_block // packing.block_size


@dataclass
class EdgePricer:
    """Prices edges for one objective.

    Parameters
    ----------
    objective
        "energy", "latency" or "edp".
    """

    space: FusionSpace
    objective: str
    options: Options
    clock: Clock
    remainders: Remainders = Remainders.NOWHERE
    search_s: float = math.inf
    """Seconds of a search for nests with remainders, at most."""
    is_cut_short: bool = False
    """Whether there was no time for one of them to end."""
    searches: int = 0
    surveys: int = 0
    edges: dict[EdgeKind, Edge] = field(default_factory=dict)
    cores: dict[tuple[object, ...], _Core] = field(default_factory=dict)
    coarser: Coarser = field(default_factory=Coarser)
    inner_bounds: dict[Mapspace, Inner] = field(default_factory=dict)
    part_bounds: dict[Mapspace, tuple[int, int]] = field(default_factory=dict)
    in_unlike_parts: dict[tuple[int, tuple[tuple[str, Parts], ...]], tuple[int, int]] = field(
        default_factory=dict
    )
    in_shares: dict[EdgeKind, tuple[int, int]] = field(default_factory=dict)
    alone: dict[tuple[object, ...], Alone] = field(default_factory=dict)

    @cached_property
    def timed(self) -> bool:
        """Whether cycles matter to the objective at all."""
        levels = (level for einsum in self.space.einsums for level in einsum.mapspace.architecture.levels)
        return self.objective != "energy" or any(level.energy.leak_per_cycle for level in levels)

    def may_leave(self, frames: Sequence[object], above: Collection[str]) -> bool:
        """Whether nests may have remainders under some bodies, with tiles `above`."""
        if self.remainders is Remainders.ALONE:
            return not frames and not above
        return self.remainders is Remainders.EVERYWHERE

    def or_alone(self, place: int, least: tuple[int, int]) -> tuple[int, int]:
        """A bound on an Einsum without remainders, or what it costs at the least if it has some, alone."""
        if self.remainders is not Remainders.ALONE:
            return least
        known = list(self.edge(EdgeKind(place, remainders=True)).choices())
        energies, cycles = (own.energy for own in known), (own.cycles for own in known)
        return min(least[0], min(energies, default=least[0])), min(least[1], min(cycles, default=least[1]))

    def edge(self, kind: EdgeKind) -> Edge:
        """The edge of a kind; those that differ only in names are one."""
        if kind not in self.edges:
            own = EdgeSpace(self.space.einsums[kind.place], kind, self.timed)
            core = self.cores.setdefault(self._core_key(kind), _Core())
            wider = self.edge(replace(kind, rooms=())) if kind.rooms else None
            least = self.least(replace(kind, rooms=()))
            self.edges[kind] = Edge(own, least, core, self.coarser, self._positional(kind), wider)
        return self.edges[kind]

    def _positional(self, kind: EdgeKind) -> EdgeKind:
        """A kind with names of positions, of the first Einsum that differs in names alone."""
        problem = self.space.einsums[kind.place].problem
        renaming = by_position(problem)
        return replace(
            kind,
            place=self.alike[kind.place],
            trips=tuple(sorted((renaming.dims[dim], count) for dim, count in kind.trips)),
            above=frozenset(map(renaming.dataspaces.__getitem__, kind.above)),
            shifts=tuple(replace(s, dataspace=renaming.dataspaces[s.dataspace]) for s in kind.shifts),
            deeper=tuple(sorted((renaming.dataspaces[name], level) for name, level in kind.deeper)),
            shares=(),
        )

    def _core_key(self, kind: EdgeKind) -> tuple[object, ...]:
        """What edges have in common that differ in names alone."""
        problem = self.space.einsums[kind.place].problem
        names = [space.name for space in problem.dataspaces]
        trips = tuple((problem.dims.index(dim), count) for dim, count in kind.trips)
        above = frozenset(map(names.index, kind.above))
        shifts = ((names.index(s.dataspace), s.moved, s.first) for s in kind.shifts if self.timed)
        parts = tuple(sorted((problem.dims.index(dim), sizes) for dim, sizes in kind.parts))
        return (
            self.alike[kind.place],
            tuple(sorted(trips)),
            above,
            tuple(sorted(shifts)),
            parts,
            kind.homes,
            kind.remainders,
            tuple(sorted((names.index(name), level) for name, level in kind.deeper)),
            kind.rooms,
            tuple((n, tuple((problem.dims.index(d), count) for d, count in own)) for n, own in kind.shares),
        )

    @cached_property
    def alike(self) -> tuple[int, ...]:
        """Per Einsum a number that those have in common which differ in names alone."""
        numbers: dict[Mapspace, int] = {}
        mapspaces = [EdgeSpace(e, EdgeKind(0)).mapspace(None) for e in self.space.einsums]
        renamed = (by_position(own.problem).mapspace(own) for own in mapspaces)
        return tuple(numbers.setdefault(own, len(numbers)) for own in renamed)

    # Bounds in closed form

    @cached_property
    def _least(self) -> dict[EdgeKind, tuple[int, int]]:
        return {}

    def least(self, kind: EdgeKind) -> tuple[int, int]:
        """Least energy and cycles of an edge, without any search."""
        if kind not in self._least:
            cut = Cut(dict(kind.trips), dict(kind.parts))
            shifts = {shift.dataspace: shift for shift in kind.shifts}
            moves = [
                self.exchange(tile, cut, shifts.get(tile.space.name))
                for tile in self.space.tiles[kind.place]
                if tile.space.name not in kind.at_home or tile.space.name in shifts
            ]
            held = sum(move.energy for move in moves if move.dataspace in shifts)
            is_loose = kind.remainders and self.remainders is not Remainders.EVERYWHERE
            looped = () if kind.parts or is_loose else ((),) if kind.remainders else ((), kind.trips)
            cores = [self.core(kind.place, kind.above, trips, kind.deeper) for trips in looped]
            cores += [self._shared(kind)] if kind.shares and not kind.parts else []
            energy, cycles = self.together(kind.place, cut, moves, kind.deeper, is_open=is_loose)
            self._least[kind] = (
                max(energy, *(core[0] + held for core in cores), 0),
                max(cycles, *(core[1] for core in cores), 0),
            )
        return self._least[kind]

    def _shared(self, kind: EdgeKind) -> tuple[int, int]:
        """The same by a survey where it is known how stored tensors are spread, but for held tiles."""
        kind = replace(kind, shifts=())
        own = EdgeSpace(self.space.einsums[kind.place], kind, self.timed)
        mapspace = own.mapspace(self.space.memory.usable_words)
        renamed = by_position(mapspace.problem).mapspace(mapspace)
        if renamed not in self.part_bounds:
            self.part_bounds[renamed] = self._survey(renamed)
        self.in_shares[kind] = self.part_bounds[renamed]
        return self.in_shares[kind]

    def together(
        self,
        place: int,
        cut: Cut,
        moves: list[Exchange],
        deeper: Deeper = (),
        is_open: bool = False,
        is_estimate: bool = False,
    ) -> tuple[int, int]:
        """Least energy and cycles of an Einsum whose tiles exchange so much with the outermost memory.

        Parameters
        ----------
        deeper
            What is stored in memories farther in, as of `EdgeKind`.
        is_open
            Whether further loops may cut dimensions into unequal parts.
        is_estimate
            Whether it need be no bound there, and is to take less work.
        """
        inner = self._inner_under(place, cut, moves, deeper, is_open, is_estimate)
        level = self.space.einsums[place].mapspace.architecture.levels[0]
        visits = cut.visits
        ported = [
            sum(getattr(move, kind) for move in moves) / float(rate)
            for kind, rate in (
                ("reads", level.read_bandwidth),
                ("writes", level.write_bandwidth),
                ("words", level.shared_bandwidth),
            )
            if rate is not None
        ]
        latency = network_latency(self.space.einsums[place].mapspace.architecture)
        busy = max(inner.cycles - latency, math.ceil(max(ported, default=0.0) * SHARE_KEPT))
        passing = sum(move.energy for move in moves if not move.bypassed)
        every = passing + sum(move.energy for move in moves if move.bypassed)
        return max(inner.free + every, inner.paid + passing), busy + visits * latency

    def _inner_under(
        self, place: int, cut: Cut, moves: list[Exchange], deeper: Deeper, is_open: bool, is_estimate: bool
    ) -> Inner:
        """Least costs below shared loops of all but the exchange with the outermost memory."""
        exchanging = frozenset[str]()
        if self.objective != "energy":
            exchanging = frozenset(move.dataspace for move in moves if not move.bypassed)
        key = place, id(cut), exchanging, deeper, is_open, is_estimate
        if key in self._under:
            return self._under[key][1]
        if is_estimate and (is_open or cut.parts):
            inner = self.inner(place, exchanging, deeper)
        elif is_open or self._is_unknown(place) or (cut.parts and deeper):
            inner = self.arithmetic(place)
        elif cut.parts:
            inner = self.in_parts(place, cut.parts)
        else:
            inner = self.inner(place, exchanging, deeper)
            for dim, count in cut.trips.items():
                energy, cycles = self.in_visits(place, ((dim, count),), deeper)
                inner = inner.raised(energy, cycles - (count - 1) * self.latency(place))
        self._under[key] = cut, inner  # which keeps the cut, and so its identity
        return inner

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
            first = min(moved, self._first_words(tile, cut)) if tile.space.read_write else 0
            shift = Shift(name, moved, first)
        written = shift.moved if tile.space.read_write else 0

        tolls = sum(
            _scaled(read, toll, name, shift.fetched) + _scaled(update, toll, name, written)
            for toll in architecture.outer_tolls
            for read, update in _toll_prices(toll, name)
        )

        def energy(read: int, update: int) -> int:
            own = _scaled(read, outside, name, shift.fetched)
            return tolls + own + _scaled(update, outside, name, written)

        energies = [energy(outside.energy.read, outside.energy.update)]
        if not tile.bypassed:
            energies[0] += _scaled(inside.energy.fill, inside, name, shift.fetched)
        if tile.bypassable and not tile.bypassed:
            cheaper = _cheaper(outside, inside)
            energies.append(
                energy(outside.energy.read - cheaper.read, outside.energy.update - cheaper.update)
            )
        return Exchange(name, max(0, min(energies)), shift.fetched * scale, written * scale, tile.bypassed)

    def _first_words(self, tile: Tile, cut: Cut) -> int:
        # Of a window at most.
        return self.space.moved_words(tile, cut) if tile.windowed else self.space.tile_words(tile, WHOLE)

    def latency(self, place: int) -> int:
        """Cycles that networks take in each visit."""
        return network_latency(self.space.einsums[place].mapspace.architecture)

    def scale(self, tile: Tile) -> float:
        """How much a word of a tile loads the bandwidths of the outermost memory."""
        return float(self.space.einsums[tile.place].mapspace.architecture.levels[0].scale(tile.space.name))

    def prices(self, tile: Tile) -> list[tuple[float, float]]:
        """Energy of a word that is fetched, and of one that is written back: as `exchange` has them."""
        architecture = self.space.einsums[tile.place].mapspace.architecture
        outside, inside = architecture.levels[0], architecture.on_chip[0]
        name = tile.space.name

        def price(energy: int, level: StorageLevel) -> float:
            packing = level.packing_of(name)
            return energy * packing.accesses_per_block / packing.block_size

        tolls = [(toll, pair) for toll in architecture.outer_tolls for pair in _toll_prices(toll, name)]
        down, up = (sum(price(pair[way], toll) for toll, pair in tolls) for way in (0, 1))
        read, update = outside.energy.read, outside.energy.update
        fill = 0.0 if tile.bypassed else price(inside.energy.fill, inside)
        found = [(price(read, outside) + fill + down, price(update, outside) + up)]
        if tile.bypassable and not tile.bypassed:
            cheaper = _cheaper(outside, inside)
            read, update = read - cheaper.read, update - cheaper.update
            found.append((price(read, outside) + down, price(update, outside) + up))
        return found

    def inner(self, place: int, exchanging: frozenset[str], deeper: Deeper = ()) -> Inner:
        """Least costs of all but what the outermost memory exchanges with the on-chip one.

        Parameters
        ----------
        exchanging
            Dataspaces of which all words cross between the two at least once, and load their bandwidths. For
            energy they are left out: leakage alone depends on cycles.
        deeper
            What is stored in memories farther in, as of `EdgeKind`.
        """
        if self._is_unknown(place):
            return self.arithmetic(place)
        key = place, exchanging - {""} if self.objective != "energy" else frozenset(), deeper
        if key not in self._inner:
            found, least = self._inner_of(self._inner_mapspace(*key)), self.arithmetic(place)
            # A survey that is stopped says nothing.
            self._inner[key] = Inner(*map(max, found, least))
        return self._inner[key]

    def anywhere(self, place: int, exchanging: frozenset[str], outside: frozenset[str]) -> Inner:
        """The least of these over all memories that may store tensors, but those that come from `outside`."""
        found = [
            self.inner(place, exchanging, deeper) for deeper in self.space.deeper_choices(place, outside)
        ]
        return Inner(*(min(column) for column in zip(*found, strict=True)))

    def _inner_of(self, mapspace: Mapspace) -> Inner:
        renamed = by_position(mapspace.problem).mapspace(mapspace)
        if renamed not in self.inner_bounds:
            self.inner_bounds[renamed] = self._least_of(renamed)
        return self.inner_bounds[renamed]

    @cached_property
    def _inner(self) -> dict[tuple[int, frozenset[str], Deeper], Inner]:
        return {}

    def in_parts(self, place: int, parts: Mapping[str, Parts]) -> Inner:
        """Least costs as of `inner` where dimensions are cut into unequal parts: those of all parts.

        Bandwidths do not count, which all visits load together; whole vectors are rounded up on totals.
        """
        key = place, tuple(sorted(parts.items()))
        if key not in self._in_parts:
            spare = EdgeSpace(self.space.einsums[place], EdgeKind(place)).rounding_energy()
            paid, cycles = spare, 0
            for chosen in product(*(sizes for _, sizes in key[1])):
                one = tuple((dim, (own,)) for (dim, _), own in zip(key[1], chosen, strict=True))
                energy, busy = self._in_part(place, one)
                times = math.prod(count for _, count in chosen)
                every = times * (energy - spare)
                self.in_unlike_parts[place, one] = max(0, every + spare), times * busy
                paid, cycles = paid + every, cycles + times * (busy - self.latency(place))
            least = self.arithmetic(place)
            paid = max(paid, least.paid)
            self._in_parts[key] = Inner(least.free, paid, max(cycles, least.cycles) + self.latency(place))
        return self._in_parts[key]

    def _in_part(self, place: int, part: tuple[tuple[str, Parts], ...]) -> tuple[int, int]:
        """The same for one visit, by a survey alone: there are many parts."""
        mapspace = self._inner_mapspace(place, frozenset(), (), part)
        renamed = by_position(mapspace.problem).mapspace(mapspace)
        if renamed not in self.part_bounds:
            self.part_bounds[renamed] = self._survey(renamed)
        return self.part_bounds[renamed]

    @cached_property
    def _in_parts(self) -> dict[tuple[int, tuple[tuple[str, Parts], ...]], Inner]:
        return {}

    def core(
        self, place: int, above: frozenset[str], trips: tuple[tuple[str, int], ...], deeper: Deeper = ()
    ) -> tuple[int, int]:
        """Least energy and cycles of an edge with all of the room, but for what held tiles exchange.

        It holds with further loops, too: they may be the outermost private loops, which keep what a visit
        would bring again.
        """
        if (place, above, trips, deeper) not in self._named_cores:
            self._named_cores[place, above, trips, deeper] = self._named_core(place, above, trips, deeper)
        return self._named_cores[place, above, trips, deeper]

    @cached_property
    def _named_cores(self) -> dict[tuple[object, ...], tuple[int, int]]:
        return {}

    def _named_core(
        self, place: int, above: frozenset[str], trips: tuple[tuple[str, int], ...], deeper: Deeper
    ) -> tuple[int, int]:
        if self._is_unknown(place) and not trips:
            return 0, 0
        problem = self.space.einsums[place].problem
        names = [space.name for space in problem.dataspaces]
        loops = tuple(sorted((problem.dims.index(dim), count) for dim, count in trips if count > 1))
        inside = tuple(sorted((names.index(name), level) for name, level in deeper))
        key = self.alike[place], frozenset(map(names.index, above)), loops, inside
        if key not in self._cores:
            kind = EdgeKind(place, trips, above, deeper=deeper)
            self._cores[key] = self._core_of(kind, is_whole=not loops)
        return self._cores[key]

    def _core_of(self, kind: EdgeKind, is_whole: bool) -> tuple[int, int]:
        """Least energy and cycles by a survey; of edges without shared loops, which are few, by a search."""
        if self.remainders is Remainders.EVERYWHERE:
            kind = replace(kind, remainders=True)
        own = EdgeSpace(self.space.einsums[kind.place], kind, self.timed, is_relaxed=True)
        rules = own.einsum.mapspace.temporal[0]
        is_plain = not kind.remainders and not kind.deeper
        if is_whole and is_plain and not (rules.factors or rules.inner or rules.outer):
            core = self.cores.setdefault(self._core_key(kind), _Core())
            edge = Edge(own, (0, 0), core, self.coarser, self._positional(kind))
            if not edge.core.solved:
                self.refine(edge, None)
            return self._least_at(edge.core.solved[0])
        crowded = kind.remainders and _unrolled_twice(own.einsum.mapspace, 0)  # see `_is_unknown`
        mapspace = own.mapspace(None if crowded else self.space.memory.usable_words)
        mapspace = replace(mapspace, temporal=(own.visit_rules, *mapspace.temporal[1:]))
        return self._survey(by_position(mapspace.problem).mapspace(mapspace))

    @cached_property
    def _cores(self) -> dict[tuple[int, frozenset[int], Numbered, Numbered], tuple[int, int]]:
        return {}

    def in_visits(
        self, place: int, trips: tuple[tuple[str, int], ...], deeper: Deeper = ()
    ) -> tuple[int, int]:
        """Least energy and cycles where all is on chip that may be, and shared loops bring the rest anew.

        It holds with further loops, too.
        """
        problem = self.space.einsums[place].problem
        names = [space.name for space in problem.dataspaces]
        loops = tuple(sorted((problem.dims.index(dim), count) for dim, count in trips if count > 1))
        key = self.alike[place], loops, tuple(sorted((names.index(name), level) for name, level in deeper))
        if not loops or self._is_unknown(place):
            return 0, 0
        if key not in self._in_visits:
            mapspace = self._inner_mapspace(place, frozenset(), deeper, (), trips)
            self._in_visits[key] = self._survey(by_position(mapspace.problem).mapspace(mapspace))
        return self._in_visits[key]

    @cached_property
    def _in_visits(self) -> dict[tuple[int, Numbered, Numbered], tuple[int, int]]:
        return {}

    def _is_unknown(self, place: int) -> bool:
        """Whether surveys say nothing of visits by further loops: with remainders, of windows, or in arrays.

        Two fanouts inside of a level may take less of it in visits than in the whole, if both unroll one
        dimension: the last child of the outer one may have work for a part of its children only.
        """
        return self.remainders is Remainders.EVERYWHERE and self._unknown[place]

    @cached_property
    def _unknown(self) -> tuple[bool, ...]:
        return tuple(map(self._may_defy_surveys, self.space.einsums))

    def _may_defy_surveys(self, einsum: CascadeEinsum) -> bool:
        nodes, home = einsum.mapspace.architecture.nodes, self.space.memory.name
        limited = (
            at
            for at, node in enumerate(nodes)
            if isinstance(node, StorageLevel) and node.name != home and node.size_words is not None
        )
        crowded = any(_unrolled_twice(einsum.mapspace, at) for at in limited)
        return crowded or any(map(einsum.mapspace.has_windows, einsum.problem.dataspaces))

    def arithmetic(self, place: int) -> Inner:
        """What is paid and takes time in any case: no closer bound holds for all unequal parts."""
        einsum = self.space.einsums[place]
        architecture = einsum.mapspace.architecture
        energy = einsum.problem.computes * architecture.compute.energy
        units = math.prod(fanout.size for fanout in architecture.fanouts)
        return Inner(energy, energy, -(-einsum.problem.computes // units))

    def _least_of(self, mapspace: Mapspace) -> Inner:
        """Least costs by searches where they matter, with and without energy of the outermost memory."""
        paid, cycles = self._survey(mapspace)
        free = paid
        is_exact = self.remainders is not Remainders.EVERYWHERE  # see `_survey`
        if self.objective != "latency":
            paid = max(paid, self._bound(mapspace, "energy") if is_exact else 0)
            nodes = list(mapspace.architecture.nodes)
            outside = nodes[0]
            assert isinstance(outside, StorageLevel)
            nodes[0] = replace(outside, energy=AccessEnergy(leak_per_cycle=outside.energy.leak_per_cycle))
            architecture = replace(mapspace.architecture, nodes=tuple(nodes))
            free = 0
            if mapspace.keep[0].bypass != {space.name for space in mapspace.problem.dataspaces}:
                free = self._survey(replace(mapspace, architecture=architecture))[0]
        if self.objective != "energy" and is_exact:
            cycles = max(cycles, self._bound(mapspace, "latency"))
        return Inner(free, paid, cycles)

    def _bound(self, mapspace: Mapspace, objective: str) -> int:
        return self._searched(mapspace, (objective,), Caps()).bound or 0

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
        remainders = self.remainders is Remainders.EVERYWHERE
        kind = EdgeKind(place, trips, above, shifts, parts, deeper=deeper, remainders=remainders)
        einsum = self.space.einsums[place]
        own = EdgeSpace(einsum, kind, self.timed, unlimited=bool(parts), is_relaxed=True)
        mapspace = own.even_mapspace(None)
        nodes, inside = list(mapspace.architecture.nodes), mapspace.architecture.on_chip[0]
        outside, position = mapspace.architecture.levels[0], nodes.index(inside)
        if any(t.bypassable and not t.bypassed and t.space.name not in farther_in for t in tiles):
            nodes[position] = replace(unlimited(inside), energy=_cheaper(outside, inside))
        # Shared loops count as loops of the outermost memory here, which its rules do not bind.
        temporal = (own.visit_rules, *mapspace.temporal[1:])
        architecture = replace(mapspace.architecture, nodes=tuple(nodes))
        mapspace = replace(mapspace, architecture=architecture, temporal=temporal)
        return with_places_of(self.space.einsums[place], mapspace, above)

    def _survey(self, mapspace: Mapspace) -> tuple[int, int]:
        """Least energy and cycles by the survey; 0 where it takes too much, or is stopped.

        It holds with further shared loops, also where nests have remainders: without these loops there are
        no more tiles of equal extents. An optimum would not hold: nests of visits are none of the whole.
        """
        self.surveys += 1
        try:
            space = self._surveyed_space(mapspace)
            energies, cycles = Survey(space, self.clock.stop).overview
        except Stopped:
            return 0, 0
        least = float(np.min(energies, initial=np.inf)), float(np.min(cycles, initial=np.inf))
        if not all(map(math.isfinite, least)):
            return 0, 0
        return math.ceil(least[0] * SHARE_KEPT), math.ceil(least[1] * SHARE_KEPT)

    def _surveyed_space(self, mapspace: Mapspace) -> SearchSpace:
        """The space of a mapspace; with many tiles that may be short, cells of similar ones."""
        for cells in range(len(GRAINS) + 1):
            space = SearchSpace(mapspace, stop=self.clock.stop, grains=GRAINS[:cells])
            if not space.uneven or space.lattice.size <= MOST_TILES:
                return space
        raise Stopped

    def shift(self, tile: Tile, cut: Cut) -> Shift:
        """What a tile that is held below some loops exchanges with the outermost memory."""
        first = self.space.tile_words(tile, WHOLE) if tile.space.read_write else 0
        return Shift(tile.space.name, self.space.moved_words(tile, cut), first)

    # Exact costs

    def refine(self, edge: Edge, room_words: int | None) -> bool:
        """Replace what is a bound by what is true: first with all of the room, then with what is left.

        Where nests have remainders, a survey of the visits comes first. Answer whether anything was learned.
        """
        if self._is_surveyed(edge):
            return True
        solved = edge.core.solved
        if edge.wider is not None and self._is_taken_over(edge, edge.wider, room_words):
            return True
        most = self.space.memory.usable_words
        room = room_words if solved else most
        at = next((known for known in solved if known.room_words == room), None)
        if at is not None:
            # Where its front is complete, what is open is the front of a smaller room.
            rest = solved[solved.index(at) :]
            return self._next_point(edge, next((known for known in rest if known.beyond is not None), at))
        at = _Solved(room, [], None)
        solved.append(at)
        solved.sort(key=lambda known: (known.room_words is not None, -(known.room_words or 0)))
        if edge.space.kind.is_mixed:
            self._mixed_point(edge, at)
            return True
        self._first_points(edge, at)
        rules = self.space.einsums[edge.space.kind.place].mapspace.temporal[0]
        if edge.space.kind.parts or len(solved) > 1:
            return True
        is_free = not (edge.space.kind.remainders or rules.factors or rules.inner or rules.outer)
        if at.points and is_free:
            self.coarser.add(edge.positional, *self._least_at(at))
        is_roomy = room_words is None or any(point.need_words <= room_words for point in at.points)
        if at.points and not is_roomy and not self.clock.stop():
            self.refine(edge, room_words)
        return True

    def _is_surveyed(self, edge: Edge) -> bool:
        """Raise the bound on an edge whose nests may have remainders by a survey, once."""
        kind = edge.space.kind
        if self.remainders is not Remainders.EVERYWHERE or not kind.remainders or not kind.trips:
            return False
        if kind.parts or edge.is_surveyed or edge.core.solved:
            return False
        edge.is_surveyed = True
        energy, cycles = self.core(kind.place, kind.above, kind.trips)
        edge.least = max(edge.least[0], energy + edge.space.shift_energy), max(edge.least[1], cycles)
        return True

    def _is_taken_over(self, edge: Edge, wider: Edge, room_words: int | None) -> bool:
        """Whether the best mappings with all of the room farther in, at this room, have enough of it here."""
        if edge.core.solved or self.objective == "edp":
            return False
        if not any(known.room_words == room_words for known in wider.core.solved):
            self.refine(wider, room_words)
        rooms = dict(edge.space.kind.rooms)
        left = [rooms.get(level) for level in self.space.inner]
        for known in wider.core.solved:
            within = known.room_words is None or (room_words is not None and known.room_words >= room_words)
            if (
                not within
                or known.beyond is not None
                or not all(
                    (room_words is None or point.need_words <= room_words)
                    and all(own is None or w <= own for own, w in zip(left, point.inner_words, strict=True))
                    for point in known.points
                )
            ):
                continue
            edge.core.solved[:] = [known]
            return True
        return False

    def _least_at(self, at: _Solved) -> tuple[int, int]:
        """Least energy and cycles of a front; 0 for what is not known."""
        if not at.points and at.beyond is None:
            return IMPOSSIBLE, IMPOSSIBLE
        known = [own.energy for own in at.points[:1]] + ([] if at.beyond is None else [at.beyond[0]])
        energy = min(known)
        cycles = at.points[-1].cycles if at.beyond is None else at.beyond[1]
        if self.objective == "edp":
            return energy, cycles
        is_known = at.beyond is None
        return (energy, 0) if is_known and self.objective == "energy" else (0, cycles if is_known else 0)

    def _search(self, edge: Edge, room: int | None, objectives: tuple[str, ...], caps: Caps) -> Result:
        known = self._without_remainders(edge, room, caps) if edge.space.kind.remainders else None
        return self._searched(edge.mapspace(room), objectives, caps, known)

    def _without_remainders(self, edge: Edge, room: int | None, caps: Caps) -> Priced | None:
        """The best known mapping of an edge without remainders, to begin with."""
        even = self.edge(replace(edge.space.kind, remainders=False))
        self.refine(even, room)
        fitting = [
            point
            for known in even.core.solved
            for point in known.points
            if (room is None or point.need_words <= room)
            and (caps.cycles is None or point.cycles <= caps.cycles)
        ]
        if not fitting:
            return None
        best = min(fitting, key=lambda point: objective_value(self.objective, point.energy, point.cycles))
        (nest,) = best.nests
        return Priced(nest, evaluate_in(edge.mapspace(room), nest))

    def _searched(
        self, mapspace: Mapspace, objectives: tuple[str, ...], caps: Caps, known: Priced | None = None
    ) -> Result:
        self.searches += 1
        limit_s = self.clock.left_s
        if mapspace.factors != PERFECT and self.search_s < math.inf:
            limit_s = self.search_s if limit_s is None else min(limit_s, self.search_s)
        options = replace(self.options, objectives=objectives, time_limit_s=limit_s)
        with SharedSearch(mapspace, options, None, self.clock.stop) as search:
            return search.minimise(objectives, caps, known)

    def _point(self, edge: Edge, result: Result) -> Point:
        assert result.mapping is not None
        assert result.evaluation is not None
        own = edge.renaming.inverse.mapping(result.mapping)
        cost = result.evaluation
        inner = self._inner_words(edge.space, own)
        return Point(
            cost.energy, cost.cycles, edge.space.own_words(own), (result.mapping,), inner_words=inner
        )

    def _inner_words(self, space: EdgeSpace, nest: LoopNest) -> tuple[int, ...]:
        """Words that own tiles take of the memories farther in that may store tensors."""
        return tuple(space.own_words(nest, level) for level in self.space.inner)

    def _first_points(self, edge: Edge, at: _Solved) -> None:
        objectives = {"energy": ("energy",), "latency": ("latency",), "edp": ("energy", "latency")}
        result = self._search(edge, at.room_words, objectives[self.objective], Caps())
        self._take(edge, at, result)
        if self.objective == "edp" and at.points:
            self._fast_points(edge, at, result)
        self._close(edge, at)

    def _fast_points(self, edge: Edge, at: _Solved, cheap: Result) -> None:
        """Bound the cycles of a front that begins with the `cheap` point."""
        fast = self._search(edge, at.room_words, ("latency",), Caps())
        least_cycles = fast.bound or 0
        if cheap.status is fast.status is Status.OPTIMAL and least_cycles >= at.points[0].cycles:
            at.beyond = None
            return
        energy = at.points[-1].energy if at.beyond is None else at.beyond[0]
        at.beyond = energy, least_cycles
        if fast.mapping is not None and edge.space.kind.remainders and not _is_proven(cheap, fast):
            at.points.append(self._point(edge, fast))

    def _close(self, edge: Edge, at: _Solved) -> None:
        """Let what a search with remainders has not settled in its time remain a bound for good.

        The best mapping that is known stands for it.
        """
        is_settled = at.beyond is None or not at.is_cut_short
        if is_settled or not edge.space.kind.remainders or not at.points or self.clock.stop():
            return
        assert at.beyond is not None
        best = min(at.points, key=lambda point: objective_value(self.objective, point.energy, point.cycles))
        energy, cycles = at.beyond
        at.points.append(best._replace(energy=energy, cycles=cycles, paid=(best.energy, best.cycles)))
        at.beyond = None
        self.is_cut_short = True

    # Visits that differ

    def _mixed_point(self, edge: Edge, at: _Solved) -> None:
        """Map each kind of visits by itself, with the outputs in common memories.

        What all together cost at the least is kept with the best nests: it is exact but for bandwidths, which
        all visits load together, and whole vectors.
        """
        found = [self._mixed_at(edge.space, homes, at.room_words) for homes in edge.space.homes()]
        open_ = [own for own in found if own is not None]
        if not open_:
            at.beyond = None
            return
        energy = max(min(own.least[0] for own in open_), edge.least[0] - edge.space.shift_energy)
        cycles = max(min(own.least[1] for own in open_), edge.least[1])
        mapped = [own for own in open_ if own.nests]
        at.beyond = None if mapped else (energy, cycles)
        if mapped:
            best = min(mapped, key=lambda own: objective_value(self.objective, *own.paid))
            at.points.append(Point(energy, cycles, best.need_words, best.nests, best.paid, best.inner_words))

    def _mixed_at(self, space: EdgeSpace, homes: frozenset[int], room: int | None) -> _Mixed | None:
        """What the kinds of visits cost with outputs at these levels; None if one does not fit."""
        nests, paid, needs, energy, cycles = list[LoopNest](), [0, 0], [0], 0, 0
        inner = [(0,) * len(self.space.inner)]
        goal = {"energy": ("energy",), "latency": ("latency", "energy"), "edp": ("edp",)}[self.objective]
        for kind in space.kind.alike():
            own = replace(space, kind=replace(kind, homes=homes))
            result = self._alone(own, room, goal)
            if result.status is Status.INFEASIBLE:
                return None
            loose = replace(own, unlimited=self.timed)
            energy += self._alone(loose, room, ("energy",)).bound or 0 if self.objective != "latency" else 0
            cycles += self._alone(loose, room, ("latency",)).bound or 0 if self.objective != "energy" else 0
            if result.mapping is not None and result.evaluation is not None:
                nests.append(result.mapping)
                named = _as_named(own, result.mapping)
                needs.append(own.own_words(named))
                inner.append(self._inner_words(own, named))
                paid = [paid[0] + result.evaluation.energy, paid[1] + result.evaluation.cycles]
        kinds = len(list(space.kind.alike()))
        least = max(0, energy - space.rounding_energy() * (kinds - 1)), cycles
        complete = tuple(nests) if len(nests) == kinds else ()
        most = tuple(max(column) for column in zip(*inner, strict=True))
        return _Mixed(least, (paid[0], paid[1]), max(needs), complete, most)

    def _alone(self, space: EdgeSpace, room: int | None, objectives: tuple[str, ...]) -> Result:
        """The best mapping of visits of one kind."""
        key = self._core_key(space.kind), space.unlimited, room, objectives
        if key not in self.alone:
            mapspace = space.mapspace(room)
            result = self._searched(by_position(mapspace.problem).mapspace(mapspace), objectives, Caps())
            is_open = result.termination is not Termination.PROVEN
            if is_open and (self.clock.stop() or not space.kind.remainders):
                return result
            self.is_cut_short |= is_open
            self.alone[key] = Alone(space, room, objectives, result)
        return self.alone[key].result

    def _next_point(self, edge: Edge, at: _Solved) -> bool:
        """Extend the front by its next point, which takes fewer cycles than the last one; whether it was."""
        if at.beyond is None or not at.points:
            return False
        least_cycles = at.beyond[1]
        cap = Caps(cycles=at.points[-1].cycles - 1)
        result = self._search(edge, at.room_words, ("energy", "latency"), cap)
        self._take(edge, at, result)
        if at.beyond is not None:
            at.beyond = at.beyond[0], max(at.beyond[1], least_cycles)
            self._close(edge, at)
        elif result.status is Status.OPTIMAL and at.points[-1].cycles > least_cycles:
            at.beyond = at.points[-1].energy, least_cycles
        return True

    def _take(self, edge: Edge, at: _Solved, result: Result) -> None:
        """Add what a search has found; what it has not settled remains a bound."""
        at.beyond = None
        if result.mapping is not None:
            at.points.append(self._point(edge, result))
        if result.status in (Status.OPTIMAL, Status.INFEASIBLE):
            return
        self.clock.stop()
        at.is_cut_short = True
        bound = result.bound or 0
        at.beyond = (bound, 0) if self.objective != "latency" else (0, bound)


def _is_proven(*results: Result) -> bool:
    return all(result.status is Status.OPTIMAL for result in results)


def _unrolled_twice(mapspace: Mapspace, outside: int) -> bool:
    """Whether two of the fanouts inside of a node may have spatial loops over the same dimension."""
    seen = set[str]()
    for at, rules in zip(mapspace.architecture.fanout_indices, mapspace.spatial, strict=True):
        fixed = {rule.dim for rule in rules.factors if rule.value == 1 and rule.relation != ">="}
        own = {dim for dim, bound in mapspace.problem.bound.items() if bound > 1 and dim not in fixed}
        if at > outside and own & seen:
            return True
        seen |= own if at > outside else set()
    return False


class Alone(NamedTuple):
    """A search for visits of one kind that is proven, or had all the time that it may have."""

    space: EdgeSpace
    room_words: int | None
    objectives: tuple[str, ...]
    result: Result


class Inner(NamedTuple):
    """Least costs where all is stored on chip that may be.

    Parameters
    ----------
    free, paid
        Energy, if what bypasses the on-chip memory comes for nothing; and if each word of it is paid, but no
        visit brings it again.
    """

    free: int
    paid: int
    cycles: int

    def raised(self, paid: int, cycles: int) -> Inner:
        """With at least so much energy, all of it paid, and cycles."""
        return Inner(self.free, max(self.paid, paid), max(self.cycles, cycles))


class Exchange(NamedTuple):
    """Energy of what a tile exchanges with the outermost memory, and its words, times their scales."""

    dataspace: str  # empty for a tile that exchanges nothing
    energy: int
    reads: float
    writes: float
    bypassed: bool = False

    @property
    def words(self) -> float:
        """Both."""
        return self.reads + self.writes

    def helps(self, other: Exchange) -> bool:
        """Whether less is exchanged than by another one."""
        return self.energy < other.energy or self.reads < other.reads or self.writes < other.writes


def _toll_prices(toll: StorageLevel, name: str) -> Iterator[tuple[int, int]]:
    """Yield what a word pays that comes in, and one that goes out, if its dataspace pays there at all."""
    if name in toll.passing:
        ways = toll.charges(name, "down"), toll.charges(name, "up")
        yield toll.energy.read * ways[0], toll.energy.update * ways[1]


def _cheaper(outside: StorageLevel, inside: StorageLevel) -> AccessEnergy:
    """The less of the energies of two levels, action by action; nothing where their rows differ."""
    if (outside.block_size, outside.packing) != (inside.block_size, ()) or inside.cluster_size > 1:
        rows = {p.dataspace: (p.block_size, p.accesses_per_block) for p in inside.packing}
        if any(
            rows[name] != (outside.packing_of(name).block_size, outside.packing_of(name).accesses_per_block)
            for name in rows
        ):
            return AccessEnergy(leak_per_cycle=inside.energy.leak_per_cycle)
    own, other = inside.energy, outside.energy
    return replace(
        own,
        read=min(own.read, other.read),
        fill=min(own.fill, other.fill),
        update=min(own.update, other.update),
    )
