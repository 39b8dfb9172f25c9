"""The least cost of an edge, found with growing effort: `EdgePricer.least`.

What is known without a search comes from formulas and floors (`bounds`). A path that needs an edge asks for
more: the floor of its visits, a search with all of the room, searches with the room that is left, and the
points of a front one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple

from model.cost.plain import evaluate_in
from model.fused.mapping import PrivateNest
from model.mapspace import Mapspace
from model.objective import objective_value
from model.orders import in_order, order_of, renamed_order
from model.renaming import Renaming, by_position
from solver.fusion.amounts import UNLIMITED
from solver.fusion.bounds import AGAIN, Deeper, EdgeBounds
from solver.fusion.edges import Choice, EdgeKind, EdgeSpace, Left, Point, Shift
from solver.fusion.remembered import remembered, remembered_by
from solver.fusion.space import Cut, Trips
from solver.fusion.unlike import Alone, UnlikeVisits, as_named
from solver.result import Result, Status
from solver.search.drawn import drawn
from solver.search.goal import Caps
from solver.search.orders import Ordered
from solver.search.priced import Priced
from solver.search.stopping import Stop


class Effort(Enum):
    """What is done to find the least cost of an edge."""

    NONE = "none"
    """Nothing: formulas and floors say what it is at the least, and searches that are over."""
    ONE_STEP = "one step"
    """The next one: the floor of the visits, a search with all of the room, or with the room that is left."""
    ROOM_LEFT = "room left"
    """A search with the room that is left."""


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
    times: int = 1
    """How many times as long as a first search the next one without remainders may take."""


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
        """Remember what an edge costs, unless something is stored where no outer loop may move it.

        Nor where spatial loops are fixed, or tiles have to be large.
        """
        if kind.deeper or kind.shares or kind.least:
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
    formula: Callable[[], tuple[int, int]]
    core: _Core
    known: Coarser
    positional: EdgeKind
    wider: Edge | None = None
    """This edge with all of the room in memories farther in."""
    has_floor: bool = False

    @cached_property
    def least(self) -> tuple[int, int]:
        """Energy and cycles that no mapping is below; searches may raise them."""
        return self.formula()

    @property
    def points(self) -> Iterator[Point]:
        """All mappings that are known."""
        return chain.from_iterable(known.points for known in self.core.solved)

    @property
    def is_settled(self) -> bool:
        """Whether its least costs are known at each room that was looked at."""
        return all(known.beyond is None for known in self.core.solved)

    @cached_property
    def renaming(self) -> Renaming:
        """Names that say the position only."""
        return by_position(self.space.problem)

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
            return UNLIMITED, UNLIMITED
        return min(own.energy for own in found), min(own.cycles for own in found)

    def _known(self, known: _Solved, floor: int, as_paid: bool) -> Iterator[Choice]:
        shift = self.space.shift_energy
        for point in (own.as_paid() if as_paid else own for own in known.points):
            choice = Choice(point.energy + shift, point.cycles, point.need_words, point)
            yield choice
            if choice.room_words > floor:
                energy, cycles = self.least
                least = max(energy, point.energy + shift), max(cycles, point.cycles)
                yield Choice(*least, floor, None)
        if known.beyond is not None:
            energy, cycles = known.beyond
            yield Choice(max(energy + shift, self.least[0]), max(cycles, self.least[1]), floor, None)

    def nests(self, point: Point) -> tuple[PrivateNest, ...]:
        """The nest of each kind of visits, in the Einsum's own names."""
        if not self.space.kind.is_mixed:
            (nest,), names = point.nests, self.renaming.inverse
            order = None if point.order is None else renamed_order(point.order, names.dataspaces)
            return (self.space.nest(names.mapping(nest), order),)
        shifts, homes = self.space.kind.shifts, point.homes
        alike = (replace(kind, shifts=shifts, homes=homes) for kind in self.space.kind.alike())
        kinds = [replace(self.space, kind=kind) for kind in alike]
        return tuple(own.nest(as_named(own, nest)) for own, nest in zip(kinds, point.nests, strict=True))


@dataclass
class EdgePricer(EdgeBounds):
    """Prices edges for one objective: bounds first, then searches for the edges that matter."""

    is_cut_short: bool = False
    """Whether there was no time for a search with remainders to end."""
    is_patient: bool = False
    """Whether searches that were cut short are tried again, with more time."""
    edges: dict[EdgeKind, Edge] = field(default_factory=dict)
    cores: dict[EdgeKind, _Core] = field(default_factory=dict)
    coarser: Coarser = field(default_factory=Coarser)
    in_shares: dict[EdgeKind, tuple[int, int]] = field(default_factory=dict)
    alone: dict[tuple[object, ...], Alone] = field(default_factory=dict)

    def edge(self, kind: EdgeKind) -> Edge:
        """The edge of a kind; those that differ only in names are one."""
        if kind not in self.edges:
            own = EdgeSpace(self.space.einsums[kind.place], kind, self.timed)
            core = self.cores.setdefault(self._core_key(kind), _Core())
            wider = self.edge(replace(kind, rooms=())) if kind.rooms else None
            least = partial(self.formula, replace(kind, rooms=()))
            self.edges[kind] = Edge(own, least, core, self.coarser, self._positional(kind), wider)
        return self.edges[kind]

    @remembered
    def _positional(self, kind: EdgeKind) -> EdgeKind:
        """A kind with names of positions, of the first Einsum that differs in names alone."""
        renaming = by_position(self.space.einsums[kind.place].problem)
        return kind.renamed(self.alike[kind.place], renaming.dims, renaming.dataspaces)

    def _core_key(self, kind: EdgeKind) -> EdgeKind:
        """What edges have in common that differ in names alone."""
        own = self._positional(kind)
        return own if self.timed else replace(own, shifts=())

    # Bounds of edges

    @remembered
    def formula(self, kind: EdgeKind) -> tuple[int, int]:
        """Least energy and cycles of an edge, without any search."""
        cut = Cut(dict(kind.trips), dict(kind.parts))
        shifts = {shift.dataspace: shift for shift in kind.shifts}
        moves = [
            self.exchange(tile, cut, shifts.get(tile.space.name))
            for tile in self.space.tiles[kind.place]
            if tile.space.name not in kind.at_home or tile.space.name in shifts
        ]
        held = sum(move.energy for move in moves if move.dataspace in shifts)
        looped = () if kind.parts else ((),) if kind.remainders else ((), kind.trips)
        cores = [self.core(kind.place, kind.above, trips, kind.deeper, False) for trips in looped]
        cores += [self._shared(kind)] if kind.shares and not kind.parts else []
        energy, cycles = self.together(kind.place, cut, moves, kind.deeper)
        if kind.shares and kind.shifts:
            held = max(held, EdgeSpace(self.space.einsums[kind.place], kind, self.timed).shift_energy)
        return (
            max(energy, *(core[0] + held for core in cores), 0),
            max(cycles, *(core[1] for core in cores), 0),
        )

    def _shared(self, kind: EdgeKind) -> tuple[int, int]:
        """Least energy and cycles by a floor that knows how stored tensors are spread, but for held tiles."""
        kind = replace(kind, shifts=(), least=())
        own = EdgeSpace(self.space.einsums[kind.place], kind, self.timed)
        self.in_shares[kind] = self.kept_floor(own.mapspace(self.space.memory.usable_words))
        return self.in_shares[kind]

    @remembered
    def core(
        self,
        place: int,
        above: frozenset[str],
        trips: tuple[tuple[str, int], ...],
        deeper: Deeper,
        is_estimate: bool,
    ) -> tuple[int, int]:
        """Least energy and cycles of an edge with all of the room, but for what held tiles exchange.

        It holds with further loops, too: they may be the outermost private loops, which keep what a visit
        would bring again. An estimate takes no search.
        """
        loops = tuple(loop for loop in trips if loop[1] > 1)
        named = self._estimated_core if is_estimate else self._named_core
        return named(place, above, loops, deeper)

    @remembered_by(lambda own, place, above, trips, deeper: own.unnamed(place, trips, deeper, above))
    def _named_core(
        self, place: int, above: frozenset[str], trips: tuple[tuple[str, int], ...], deeper: Deeper
    ) -> tuple[int, int]:
        if self.is_unknown(place) and not trips:
            return 0, 0
        kind = EdgeKind(place, trips, above, deeper=deeper)
        self.known_cores[kind] = self._core_of(kind)
        return self.known_cores[kind]

    @remembered_by(lambda own, place, above, trips, deeper: own.unnamed(place, trips, deeper, above))
    def _estimated_core(
        self, place: int, above: frozenset[str], trips: tuple[tuple[str, int], ...], deeper: Deeper
    ) -> tuple[int, int]:
        """A core without a search."""
        if self.is_unknown(place) and not trips:
            return 0, 0
        kind = EdgeKind(place, trips, above, deeper=deeper, remainders=self.remainders)
        return self._core_by_floor(EdgeSpace(self.space.einsums[place], kind, self.timed, is_relaxed=True))

    @cached_property
    def known_cores(self) -> dict[EdgeKind, tuple[int, int]]:
        """What `core` has found: of Einsums alike, for one."""
        return {}

    def _core_of(self, kind: EdgeKind) -> tuple[int, int]:
        """Least energy and cycles by a floor; of edges without shared loops, which are few, by a search."""
        kind = replace(kind, remainders=self.remainders)
        own = EdgeSpace(self.space.einsums[kind.place], kind, self.timed, is_relaxed=True)
        is_plain = not kind.remainders and not kind.deeper and not self.in_closed_form
        if not kind.trips and is_plain and not self.is_ruled(kind.place):
            core = self.cores.setdefault(self._core_key(kind), _Core())
            edge = Edge(own, lambda: (0, 0), core, self.coarser, self._positional(kind))
            if not edge.core.solved:
                self._refine(edge, None)
            return self._least_at(edge.core.solved[0])
        return self._core_by_floor(own)

    def _core_by_floor(self, own: EdgeSpace) -> tuple[int, int]:
        """Energy and cycles that no mapping of the whole room is below."""
        mapspace = own.mapspace(self.space.memory.usable_words)
        mapspace = replace(mapspace, temporal=(own.visit_rules, *mapspace.temporal[1:]))
        return self.floor(by_position(mapspace.problem).mapspace(mapspace))

    # Growing effort

    def least(
        self,
        kind: EdgeKind,
        effort: Effort = Effort.NONE,
        room_words: int | None = None,
        as_paid: bool = False,
    ) -> list[Choice]:
        """Return the least costs of an edge after some effort: mappings, and bounds on others.

        Parameters
        ----------
        room_words
            Room of the outermost on-chip memory that is left for own tiles; None for a memory without limit.
        as_paid
            Whether nests of visits that differ cost what is paid for them; else that is a bound, too.
        """
        if effort is not Effort.NONE:
            self.refine(kind, effort, room_words)
        return list(self.edge(kind).choices(as_paid))

    def refine(self, kind: EdgeKind, effort: Effort, room_words: int | None = None) -> bool:
        """Do what `least` does of some effort; whether anything was learned."""
        return self._refine(self.edge(kind), room_words, effort)

    def _refine(self, edge: Edge, room_words: int | None, effort: Effort = Effort.ONE_STEP) -> bool:
        """Take one step; whether anything was learned."""
        if self._is_raised(edge) and effort is Effort.ONE_STEP:
            return True
        solved = edge.core.solved
        if edge.wider is not None and self._is_taken_over(edge, edge.wider, room_words):
            return True
        most = self.space.memory.usable_words
        room = room_words if solved or effort is Effort.ROOM_LEFT else most
        at = next((known for known in solved if known.room_words == room), None)
        if at is not None:
            return self._goes_on(edge, at)
        at = _Solved(room, [], None)
        points = self._unlike_points if edge.space.kind.is_mixed else self._first_points
        points(edge, at)
        solved.append(at)  # not before: a search that has to stop leaves nothing that looks complete
        solved.sort(key=lambda known: (known.room_words is not None, -(known.room_words or 0)))
        if edge.space.kind.is_mixed:
            return True
        if edge.space.kind.parts or len(solved) > 1 or room != most:
            return True
        is_free = not (edge.space.kind.remainders or self.is_ruled(edge.space.kind.place))
        if at.points and is_free:
            self.coarser.add(edge.positional, *self._least_at(at))
        is_roomy = room_words is None or any(point.need_words <= room_words for point in at.points)
        if at.points and not is_roomy and not self.clock.stop():
            self._refine(edge, room_words)
        return True

    def _goes_on(self, edge: Edge, at: _Solved) -> bool:
        """Find out more where a search was made before; whether there was more to find."""
        if at.is_cut_short and not edge.space.kind.remainders:
            return self.is_patient and self._search_again(edge, at)
        # Where its front is complete, what is open is the front of a smaller room.
        rest = edge.core.solved[edge.core.solved.index(at) :]
        return self._next_point(edge, next((known for known in rest if known.beyond is not None), at))

    def _search_again(self, edge: Edge, before: _Solved) -> bool:
        """Repeat a search that was cut short, with more time, from the mappings that are known."""
        edge.core.times *= AGAIN
        at = _Solved(before.room_words, [], None)
        self._first_points(edge, at)
        if at.beyond is not None and before.beyond is not None:
            energy, cycles = map(max, at.beyond, before.beyond)
            at.beyond = energy, cycles
        edge.core.solved[edge.core.solved.index(before)] = at
        return True

    def _is_raised(self, edge: Edge) -> bool:
        """Raise the bound on an edge whose nests may have remainders by its floor, once."""
        kind = edge.space.kind
        if not self.remainders or not kind.remainders or not kind.trips:
            return False
        if kind.parts or edge.has_floor or edge.core.solved:
            return False
        edge.has_floor = True
        energy, cycles = self.core(kind.place, kind.above, kind.trips, kind.deeper, False)
        edge.least = max(edge.least[0], energy + edge.space.shift_energy), max(edge.least[1], cycles)
        return True

    def _is_taken_over(self, edge: Edge, wider: Edge, room_words: int | None) -> bool:
        """Whether the best mappings with all of the room farther in, at this room, have enough of it here."""
        if edge.core.solved or self.objective == "edp":
            return False
        if not any(known.room_words == room_words for known in wider.core.solved):
            self._refine(wider, room_words)
        rooms = dict(edge.space.kind.rooms)
        left = Left(room_words, tuple(rooms.get(level) for level in self.space.inner))
        for known in wider.core.solved:
            within = known.room_words is None or (room_words is not None and known.room_words >= room_words)
            if within and known.beyond is None and all(map(left.has_room, known.points)):
                edge.core.solved[:] = [known]
                return True
        return False

    def _least_at(self, at: _Solved) -> tuple[int, int]:
        """Least energy and cycles of a front; 0 for what is not known."""
        if not at.points and at.beyond is None:
            return UNLIMITED, UNLIMITED
        known = [own.energy for own in at.points[:1]] + ([] if at.beyond is None else [at.beyond[0]])
        energy = min(known)
        cycles = at.points[-1].cycles if at.beyond is None else at.beyond[1]
        if self.objective == "edp":
            return energy, cycles
        is_known = at.beyond is None
        return (energy, 0) if is_known and self.objective == "energy" else (0, cycles if is_known else 0)

    def _search(self, edge: Edge, room: int | None, objectives: tuple[str, ...], caps: Caps) -> Result:
        known, most_s = self._known_mapping(edge, room, caps), self.first_s * edge.core.times
        return self.searched(edge.mapspace(room), objectives, caps, known, most_s)

    def _known_mapping(self, edge: Edge, room: int | None, caps: Caps) -> Priced | Ordered | None:
        """The best known mapping of an edge without remainders, to begin with."""
        even = self.edge(replace(edge.space.kind, remainders=False))
        fitting = [
            point
            for point in even.points
            if (room is None or point.need_words <= room)
            and (caps.cycles is None or point.cycles <= caps.cycles)
        ]
        if not fitting:
            return None
        best = min(fitting, key=lambda point: objective_value(self.objective, point.energy, point.cycles))
        (nest,), mapspace = best.nests, edge.mapspace(room)
        if best.order is None:
            return Priced(nest, evaluate_in(mapspace, nest))
        ordered = in_order(mapspace, best.order)
        return Ordered(ordered, Priced(nest, evaluate_in(ordered, nest)))

    def drawn(self, edge: Edge, room_words: int | None, stop: Stop) -> Point | None:
        """A mapping that takes a moment to find, if there is one."""
        found = drawn(edge.mapspace(room_words), self.objective, self.options.seed, stop)
        return None if found is None else self._point(edge, found)

    def least_product(self, edge: Edge, room_words: int | None, most_s: float) -> Point | None:
        """The mapping with the least EDP that a search finds in some time."""
        found = self.searched(edge.mapspace(room_words), ("edp",), Caps(), most_s=most_s)
        return None if found.mapping is None else self._point(edge, found)

    def _point(self, edge: Edge, result: Result | Priced) -> Point:
        assert result.mapping is not None
        assert result.evaluation is not None
        names = edge.renaming.inverse
        own = names.mapping(result.mapping)
        cost, order, ordered = result.evaluation, None, None
        if isinstance(result, Result) and result.mapspace is not None:
            order = order_of(edge.mapspace(None), result.mapspace)
            ordered = renamed_order(order, names.dataspaces)
        room, *inner = (edge.space.own_words(own, level, ordered) for level in (1, *self.space.inner))
        return Point(cost.energy, cost.cycles, room, (result.mapping,), inner_words=tuple(inner), order=order)

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

    def _unlike_points(self, edge: Edge, at: _Solved) -> None:
        """Map each kind of visits by itself."""
        unlike = UnlikeVisits(self, self.alone, self._core_key)
        energy, cycles = edge.least[0] - edge.space.shift_energy, edge.least[1]
        at.points, at.beyond = unlike.points(edge.space, (energy, cycles), at.room_words)
        self.is_cut_short |= unlike.is_cut_short

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


def _is_proven(*results: Result) -> bool:
    return all(result.status is Status.OPTIMAL for result in results)
