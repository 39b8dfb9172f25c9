"""What edges cost: bounds that take no search, and exact fronts by searches where a path needs them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from model.architecture import AccessEnergy, StorageLevel
from model.cost.prices import network_latency
from model.fused.mapping import PrivateNest
from model.mapping import Mapping as LoopNest
from model.mapspace import ACCELFORGE, Mapspace, TemporalRules
from solver.fusion.edges import EdgeKind, EdgeSpace, Shift, with_all_places
from solver.fusion.space import FusionSpace, Tile, Trips
from solver.network.tasks import Renaming, by_position
from solver.result import Clock, Options, Result, Status
from solver.search.goal import Caps
from solver.search.mapper import SharedSearch
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stopped
from solver.search.survey.survey import Survey

SHARE_KEPT = 1 - 1e-9
"""Sums of floating-point bounds err by far less."""


class Point(NamedTuple):
    """A mapping: energy and cycles without held tiles' energy, room of its own tiles, and the loop nest."""

    energy: int
    cycles: int
    need_words: int
    mapping: LoopNest


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


@dataclass
class _Core:
    """Searches of edges that differ in names alone, at several rooms."""

    solved: list[_Solved] = field(default_factory=list)  # by falling room


class _Settled(NamedTuple):
    """Least energy and cycles of an edge with all of the room, without the energy of held tiles."""

    trips: Trips
    shifts: tuple[Shift, ...]
    energy: int
    cycles: int


@dataclass
class Coarser:
    """Edges that are settled: with further shared loops, and no other tiles above, none costs less.

    Such loops may be the outermost private loops instead, which keep what a visit would bring again.
    """

    settled: dict[tuple[int, frozenset[str]], list[_Settled]] = field(default_factory=dict)

    def add(self, kind: EdgeKind, energy: int, cycles: int) -> None:
        """Remember what an edge costs."""
        own = _Settled(dict(kind.trips), kind.shifts, energy, cycles)
        self.settled.setdefault((kind.place, kind.above), []).append(own)

    def bound(self, kind: EdgeKind) -> tuple[int, int]:
        """Least energy and cycles of another edge, without the energy of held tiles."""
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

    @cached_property
    def renaming(self) -> Renaming:
        """Names that say the position only."""
        return by_position(self.space.mapspace(None).problem)

    def mapspace(self, room_words: int | None) -> Mapspace:
        """The mapspace with so much room, in these names."""
        return self.renaming.mapspace(self.space.mapspace(room_words))

    def choices(self) -> Iterator[Choice]:
        """Yield what is known: mappings, and bounds where there may be others."""
        solved = self.core.solved
        most = solved[0].room_words if solved else -1
        if not solved:
            energy, cycles = self.known.bound(self.space.kind)
            energy += self.space.shift_energy
            yield Choice(max(self.least[0], energy), max(self.least[1], cycles), 0, None)
        elif most is not None:
            yield Choice(*self.least, most + 1, None)
        if not solved:
            return
        lower = [*(known.room_words for known in solved[1:]), -1]
        for known, below in zip(solved, lower, strict=True):
            assert below is not None
            yield from self._known(known, below + 1)

    def _known(self, known: _Solved, floor: int) -> Iterator[Choice]:
        shift = self.space.shift_energy
        for point in known.points:
            yield Choice(point.energy + shift, point.cycles, point.need_words, point)
            if point.need_words > floor:
                energy, cycles = self.least
                least = max(energy, point.energy + shift), max(cycles, point.cycles)
                yield Choice(*least, floor, None)
        if known.beyond is not None:
            energy, cycles = known.beyond
            yield Choice(max(energy + shift, self.least[0]), max(cycles, self.least[1]), floor, None)

    def nest(self, point: Point) -> PrivateNest:
        """The nest of one visit, in the Einsum's own names."""
        return self.space.nest(self.renaming.inverse.mapping(point.mapping))


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
    searches: int = 0
    surveys: int = 0
    edges: dict[EdgeKind, Edge] = field(default_factory=dict)
    cores: dict[tuple[object, ...], _Core] = field(default_factory=dict)
    coarser: Coarser = field(default_factory=Coarser)
    inner_bounds: dict[Mapspace, Inner] = field(default_factory=dict)

    @cached_property
    def timed(self) -> bool:
        """Whether cycles matter to the objective at all."""
        levels = self.space.einsums[0].mapspace.architecture.levels
        return self.objective != "energy" or any(level.energy.leak_per_cycle for level in levels)

    def edge(self, kind: EdgeKind) -> Edge:
        """The edge of a kind; those that differ only in names are one."""
        if kind not in self.edges:
            own = EdgeSpace(self.space.einsums[kind.place], kind, self.timed)
            core = self.cores.setdefault(self._core_key(kind), _Core())
            self.edges[kind] = Edge(own, self.least(kind), core, self.coarser)
        return self.edges[kind]

    def _core_key(self, kind: EdgeKind) -> tuple[object, ...]:
        """What edges have in common that differ in names alone."""
        problem = self.space.einsums[kind.place].problem
        names = [space.name for space in problem.dataspaces]
        trips = tuple((problem.dims.index(dim), count) for dim, count in kind.trips)
        above = frozenset(map(names.index, kind.above))
        shifts = ((names.index(s.dataspace), s.moved, s.first) for s in kind.shifts if self.timed)
        return self._alike[kind.place], tuple(sorted(trips)), above, tuple(sorted(shifts))

    @cached_property
    def _alike(self) -> tuple[int, ...]:
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
            trips = dict(kind.trips)
            shifts = {shift.dataspace: shift for shift in kind.shifts}
            moves = [
                self.exchange(tile, trips, shifts.get(tile.space.name))
                for tile in self.space.tiles[kind.place]
                if tile.space.name not in kind.above or tile.space.name in shifts
            ]
            self._least[kind] = self.together(kind.place, trips, moves)
        return self._least[kind]

    def together(self, place: int, trips: Trips, moves: list[Exchange]) -> tuple[int, int]:
        """Least energy and cycles of an Einsum whose tiles exchange so much with the outermost memory."""
        inner = self.inner(place, frozenset(move.dataspace for move in moves if not move.bypassed))
        level = self.space.einsums[place].mapspace.architecture.levels[0]
        visits = math.prod(trips.values())
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

    def exchange(self, tile: Tile, trips: Trips, shift: Shift | None = None) -> Exchange:
        """What a tile that is neither stored nor held exchanges with the outermost memory at the least."""
        architecture = self.space.einsums[tile.place].mapspace.architecture
        outside, inside = architecture.levels[:2]
        name, scale = tile.space.name, float(outside.scale(tile.space.name))
        if shift is None:
            moved = self.space.moved_words(tile, trips)
            first = self._first_words(tile, trips) if tile.space.read_write else 0
            shift = Shift(name, moved, first)
        written = shift.moved if tile.space.read_write else 0

        def energy(read: int, update: int) -> int:
            own = _scaled(read, outside, name, shift.fetched)
            return own + _scaled(update, outside, name, written)

        energies = [energy(outside.energy.read, outside.energy.update)]
        if not tile.bypassed:
            energies[0] += _scaled(inside.energy.fill, inside, name, shift.fetched)
        if tile.bypassable and not tile.bypassed:
            cheaper = _cheaper(outside, inside)
            energies.append(
                energy(outside.energy.read - cheaper.read, outside.energy.update - cheaper.update)
            )
        return Exchange(name, max(0, min(energies)), shift.fetched * scale, written * scale, tile.bypassed)

    def _first_words(self, tile: Tile, trips: Trips) -> int:
        bounds = self.space.einsums[tile.place].problem.bound
        if tile.windowed:
            return self.space.moved_words(tile, trips)  # at most
        return self.space.tile_words(tile, {}, bounds)

    def latency(self, place: int) -> int:
        """Cycles that networks take in each visit."""
        return network_latency(self.space.einsums[place].mapspace.architecture)

    def scale(self, tile: Tile) -> float:
        """How much a word of a tile loads the bandwidths of the outermost memory."""
        return float(self.space.einsums[tile.place].mapspace.architecture.levels[0].scale(tile.space.name))

    def prices(self, tile: Tile) -> list[tuple[float, float]]:
        """Energy of a word that is fetched, and of one that is written back: as `exchange` has them."""
        outside, inside = self.space.einsums[tile.place].mapspace.architecture.levels[:2]

        def price(energy: int, level: StorageLevel) -> float:
            packing = level.packing_of(tile.space.name)
            return energy * packing.accesses_per_block / packing.block_size

        read, update = outside.energy.read, outside.energy.update
        fill = 0.0 if tile.bypassed else price(inside.energy.fill, inside)
        found = [(price(read, outside) + fill, price(update, outside))]
        if tile.bypassable and not tile.bypassed:
            cheaper = _cheaper(outside, inside)
            found.append((price(read - cheaper.read, outside), price(update - cheaper.update, outside)))
        return found

    def inner(self, place: int, exchanging: frozenset[str]) -> Inner:
        """Least costs of all but what the outermost memory exchanges with the on-chip one.

        Parameters
        ----------
        exchanging
            Dataspaces of which all words cross between the two at least once, and load their bandwidths.
        """
        key = place, exchanging - {""} if self.timed else frozenset()
        if key not in self._inner:
            mapspace = self._inner_mapspace(*key)
            renamed = by_position(mapspace.problem).mapspace(mapspace)
            if renamed not in self.inner_bounds:
                self.inner_bounds[renamed] = self._least_of(renamed)
            self._inner[key] = self.inner_bounds[renamed]
        return self._inner[key]

    @cached_property
    def _inner(self) -> dict[tuple[int, frozenset[str]], Inner]:
        return {}

    def _least_of(self, mapspace: Mapspace) -> Inner:
        """Least costs by searches where they matter, with and without energy of the outermost memory."""
        paid, cycles = self._survey(mapspace)
        free = paid
        if self.objective != "latency":
            paid = max(paid, self._bound(mapspace, "energy"))
            nodes = list(mapspace.architecture.nodes)
            outside = nodes[0]
            assert isinstance(outside, StorageLevel)
            nodes[0] = replace(outside, energy=AccessEnergy(leak_per_cycle=outside.energy.leak_per_cycle))
            architecture = replace(mapspace.architecture, nodes=tuple(nodes))
            free = 0
            if mapspace.keep[0].bypass != {space.name for space in mapspace.problem.dataspaces}:
                free = self._survey(replace(mapspace, architecture=architecture))[0]
        if self.objective != "energy":
            cycles = max(cycles, self._bound(mapspace, "latency"))
        return Inner(free, paid, cycles)

    def _bound(self, mapspace: Mapspace, objective: str) -> int:
        self.searches += 1
        options = replace(self.options, objectives=(objective,), time_limit_s=self.clock.left_s)
        with SharedSearch(mapspace, options, None, self.clock.stop) as search:
            result = search.minimise((objective,))
        return result.bound or 0

    def _inner_mapspace(self, place: int, exchanging: frozenset[str]) -> Mapspace:
        """All is stored or held on chip that may be."""
        tiles = self.space.tiles[place]
        above = frozenset(tile.space.name for tile in tiles if not tile.bypassed)
        shifts = tuple(self.shift(tile, {}) for tile in tiles if tile.space.name in exchanging)
        own = EdgeSpace(self.space.einsums[place], EdgeKind(place, (), above, shifts), self.timed)
        mapspace = own.even_mapspace(None)
        nodes, position = list(mapspace.architecture.nodes), mapspace.architecture.storage_indices[1]
        outside, inside = nodes[0], nodes[position]
        assert isinstance(outside, StorageLevel)
        assert isinstance(inside, StorageLevel)
        if any(tile.bypassable and not tile.bypassed for tile in tiles):
            nodes[position] = replace(_unlimited(inside), energy=_cheaper(outside, inside))
        # Shared loops count as loops of the outermost memory here, which its rules do not bind.
        temporal = (TemporalRules(), *mapspace.temporal[1:])
        architecture = replace(mapspace.architecture, nodes=tuple(nodes))
        mapspace = replace(mapspace, architecture=architecture, temporal=temporal)
        return with_all_places(mapspace) if mapspace.counting == ACCELFORGE else mapspace

    def _survey(self, mapspace: Mapspace) -> tuple[int, int]:
        """Least energy and cycles by the survey; 0 where it takes too much, or is stopped."""
        self.surveys += 1
        try:
            space = SearchSpace(mapspace, stop=self.clock.stop)
            energies, cycles = Survey(space, self.clock.stop).overview
        except Stopped:
            return 0, 0
        least = float(np.min(energies, initial=np.inf)), float(np.min(cycles, initial=np.inf))
        if not all(map(math.isfinite, least)):
            return 0, 0
        return math.ceil(least[0] * SHARE_KEPT), math.ceil(least[1] * SHARE_KEPT)

    def shift(self, tile: Tile, cut: Trips) -> Shift:
        """What a tile that is held below some loops exchanges with the outermost memory."""
        first = self.space.tile_words(tile, {}) if tile.space.read_write else 0
        return Shift(tile.space.name, self.space.moved_words(tile, cut), first)

    # Exact costs

    def refine(self, edge: Edge, room_words: int | None) -> None:
        """Replace what is a bound by what is true: first with all of the room, then with what is left."""
        solved = edge.core.solved
        most = self.space.memory.usable_words
        room = room_words if solved else most
        at = next((known for known in solved if known.room_words == room), None)
        self.searches += 1
        if at is not None:
            self._next_point(edge, at)
            return
        at = _Solved(room, [], None)
        solved.append(at)
        solved.sort(key=lambda known: (known.room_words is not None, -(known.room_words or 0)))
        self._first_points(edge, at)
        rules = self.space.einsums[edge.space.kind.place].mapspace.temporal[0]
        if len(solved) == 1 and at.points and not (rules.factors or rules.inner or rules.outer):
            self.coarser.add(edge.space.kind, *self._least_at(at))

    def _least_at(self, at: _Solved) -> tuple[int, int]:
        """Least energy and cycles of a front; 0 for what is not known."""
        if self.objective == "energy":
            return (at.points[0].energy, 0) if at.beyond is None else (0, 0)
        if self.objective == "latency":
            return (0, at.points[0].cycles) if at.beyond is None else (0, 0)
        if at.beyond is None:
            return at.points[0].energy, at.points[-1].cycles
        return at.beyond

    def _search(self, edge: Edge, room: int | None, objectives: tuple[str, ...], caps: Caps) -> Result:
        left_s = self.clock.left_s
        options = replace(self.options, objectives=objectives, time_limit_s=left_s)
        with SharedSearch(edge.mapspace(room), options, None, self.clock.stop) as search:
            return search.minimise(objectives, caps)

    def _point(self, edge: Edge, result: Result) -> Point:
        assert result.mapping is not None
        assert result.evaluation is not None
        own = edge.renaming.inverse.mapping(result.mapping)
        cost = result.evaluation
        return Point(cost.energy, cost.cycles, edge.space.own_words(own), result.mapping)

    def _first_points(self, edge: Edge, at: _Solved) -> None:
        objectives = {"energy": ("energy",), "latency": ("latency",), "edp": ("energy", "latency")}
        result = self._search(edge, at.room_words, objectives[self.objective], Caps())
        self._take(edge, at, result)
        if self.objective != "edp" or not at.points:
            return
        fast = self._search(edge, at.room_words, ("latency",), Caps())
        least_cycles = fast.bound or 0
        if fast.status is Status.OPTIMAL and least_cycles >= at.points[0].cycles:
            at.beyond = None
            return
        at.beyond = at.points[-1].energy, least_cycles

    def _next_point(self, edge: Edge, at: _Solved) -> None:
        """Extend the front by its next point, which takes fewer cycles than the last one."""
        if at.beyond is None or not at.points:
            return
        least_cycles = at.beyond[1]
        cap = Caps(cycles=at.points[-1].cycles - 1)
        result = self._search(edge, at.room_words, ("energy", "latency"), cap)
        self._take(edge, at, result)
        if at.beyond is not None:
            return
        if result.status is Status.OPTIMAL and at.points[-1].cycles > least_cycles:
            at.beyond = at.points[-1].energy, least_cycles

    def _take(self, edge: Edge, at: _Solved, result: Result) -> None:
        """Add what a search has found; what it has not settled remains a bound."""
        at.beyond = None
        if result.mapping is not None:
            at.points.append(self._point(edge, result))
        if result.status in (Status.OPTIMAL, Status.INFEASIBLE):
            return
        self.clock.stop()
        bound = result.bound or 0
        at.beyond = (bound, 0) if self.objective != "latency" else (0, bound)


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


def _unlimited(level: StorageLevel) -> StorageLevel:
    return replace(level, read_bandwidth=None, write_bandwidth=None, shared_bandwidth=None)
