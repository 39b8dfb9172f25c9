"""Edges whose visits differ: each kind of visits is mapped by itself, with the outputs in common memories."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, product
from typing import NamedTuple

from model.architecture import Bandwidth, StorageLevel
from model.cost.plain import evaluate_in
from model.cost.report import Evaluation
from model.mapping import Mapping as LoopNest
from model.mapspace import Mapspace
from model.objective import objective_value
from solver.fusion.bounds import EdgeBounds
from solver.fusion.edges import EdgeKind, EdgeSpace, unlimited
from solver.fusion.points import Point
from solver.network.tasks import by_position
from solver.result import Result, Status, Termination
from solver.search.goal import NO_CAPS, Caps

MOST_POINTS = 12
"""Mappings of one kind of visits that are told apart by energy and cycles."""

MOST_SCALED = 1 << 50
"""Cycles that searches may count exactly."""

BANDWIDTHS: tuple[Bandwidth, ...] = ("read_bandwidth", "write_bandwidth", "shared_bandwidth")


class Alone(NamedTuple):
    """A search for visits of one kind that is proven, or had all the time that it may have."""

    space: EdgeSpace
    room_words: int | None
    objectives: tuple[str, ...]
    result: Result


class _Together(NamedTuple):
    """Visits of several kinds: least energy and cycles of all, those paid one by one, room, and nests."""

    least: tuple[int, int]
    paid: tuple[int, int]
    need_words: int
    nests: tuple[LoopNest, ...]
    inner_words: tuple[int, ...]
    homes: frozenset[int]


class _One(NamedTuple):
    """What all visits of one kind cost, at least or with a nest."""

    energy: int
    cycles: int
    nest: LoopNest | None


@dataclass
class UnlikeVisits:
    """Maps the kinds of visits of an edge one by one.

    What all together cost at the least is kept with the best nests: it is exact but for bandwidths, which all
    visits load together, and whole vectors.

    Parameters
    ----------
    alone
        Searches for one kind that are over.
    key_of
        What edges have in common that differ in names alone.
    """

    bounds: EdgeBounds
    alone: dict[tuple[object, ...], Alone]
    key_of: Callable[[EdgeKind], tuple[object, ...]]
    is_cut_short: bool = False

    def points(
        self, space: EdgeSpace, least: tuple[int, int], room: int | None
    ) -> tuple[list[Point], tuple[int, int] | None]:
        """Return mappings with what they cost at the least, or a bound if none is known.

        Parameters
        ----------
        least
            Energy and cycles that no mapping is below.
        """
        # It is enough that tiles of one kind of visits are as large as memories ask for.
        numbers = range(len(list(space.kind.alike())))
        large = list(product(numbers, repeat=len(space.kind.least)))
        pairs = product(space.homes(), large)
        found = [each for homes, own in pairs for each in self._at(space, homes, own, room)]
        if not found:
            return [], None
        found = [
            own._replace(least=(max(least[0], own.least[0]), max(least[1], own.least[1]))) for own in found
        ]
        mapped = [own for own in found if own.nests]
        if not mapped:
            return [], (min(own.least[0] for own in found), min(own.least[1] for own in found))
        best = min(mapped, key=lambda own: objective_value(self.bounds.objective, *own.paid))
        if not self._is_told_apart:
            least = min(own.least[0] for own in found), min(own.least[1] for own in found)
            return [self._point(best._replace(least=least), room)], None
        nests = [own if own.nests else best._replace(least=own.least) for own in found]
        return [self._point(own, room) for own in _undominated(nests)], None

    def _point(self, own: _Together, room: int | None) -> Point:
        """A mapping; if its nests cost more than the bound, there may be a closer one with less room."""
        counted = {"energy": slice(0, 1), "latency": slice(1, 2), "edp": slice(0, 2)}[self.bounds.objective]
        is_exact = own.paid[counted] == own.least[counted]
        known_from = 0 if is_exact or room is None else room
        return Point(*own.least, own.need_words, own.nests, own.paid, own.inner_words, own.homes, known_from)

    @property
    def _is_told_apart(self) -> bool:
        """Whether energy goes against cycles: where shared loops have remainders."""
        return self.bounds.objective == "edp" and self.bounds.space.remainders

    def _at(
        self, space: EdgeSpace, homes: frozenset[int], large: Sequence[int], room: int | None
    ) -> list[_Together]:
        """What the kinds of visits cost with outputs at these levels; nothing if one does not fit.

        For each least that memories ask for, `large` has the number of the kind whose tiles take it.
        """
        kinds = []
        for number, kind in enumerate(space.kind.alike()):
            least = tuple(own for own, at in zip(kind.least, large, strict=True) if at == number)
            kinds.append(replace(space, kind=replace(kind, homes=homes, least=least)))
        one = self._best(space, kinds, homes, room)
        if one is None or not self.bounds.space.remainders or self.bounds.objective == "energy":
            return [] if one is None else [one]
        busy = self._least_busy(space, kinds, room)
        found = self._sums(space, kinds, one, room) if self._is_told_apart else [one]
        return [own._replace(least=(own.least[0], max(own.least[1], busy))) for own in found]

    def _best(
        self, space: EdgeSpace, kinds: Sequence[EdgeSpace], homes: frozenset[int], room: int | None
    ) -> _Together | None:
        """The best nest of each kind, and the least energy and cycles of all."""
        nests, costs, needs, energy, cycles = list[LoopNest](), list[Evaluation](), [0], 0, 0
        inner = [(0,) * len(self.bounds.space.inner)]
        objective = self.bounds.objective
        goal = {"energy": ("energy",), "latency": ("latency", "energy"), "edp": ("edp",)}[objective]
        for own in kinds:
            result = self._alone(own, room, goal)
            if result.status is Status.INFEASIBLE:
                return None
            loose = self._loose(own)
            energy += self._alone(loose, room, ("energy",)).bound or 0 if objective != "latency" else 0
            cycles += self._alone(loose, room, ("latency",)).bound or 0 if objective != "energy" else 0
            if result.mapping is not None and result.evaluation is not None:
                nests.append(result.mapping)
                named = as_named(own, result.mapping)
                needs.append(own.own_words(named))
                inner.append(tuple(own.own_words(named, level) for level in self.bounds.space.inner))
                costs.append(result.evaluation)
        least = max(0, energy - space.rounding_energy() * (len(kinds) - 1)), cycles
        complete = tuple(nests) if len(nests) == len(kinds) else ()
        most = tuple(max(column) for column in zip(*inner, strict=True))
        return _Together(least, self._paid(space, costs), max(needs), complete, most, homes)

    def _paid(self, space: EdgeSpace, costs: Sequence[Evaluation]) -> tuple[int, int]:
        """Energy and cycles of nests of all kinds, whose words load the bandwidths together."""
        levels, busy = space.einsum.mapspace.architecture.levels, Fraction(0)
        for number, level in enumerate(levels):
            own = [o for cost in costs for o in cost.levels if o.name == level.name]
            words = [
                (level.scale(d.dataspace), d.reads, d.fills + d.updates) for o in own for d in o.dataspaces
            ]
            reads, writes = (sum(each[0] * each[way] for each in words) for way in (1, 2))
            carried = {"read_bandwidth": reads, "write_bandwidth": writes, "shared_bandwidth": reads + writes}
            for name in (own for own in BANDWIDTHS if level.bandwidth(own)):
                rate = Fraction(level.bandwidth(name) or 1)
                busy = max(busy, Fraction(carried[name]) / rate + space.shifted_cycles(number, name))
        cycles = max(sum(cost.compute_cycles for cost in costs), math.ceil(busy))
        latency = self.bounds.latency(space.kind.place) * space.kind.visits
        return sum(cost.energy for cost in costs), cycles + latency

    def _loose(self, space: EdgeSpace) -> EdgeSpace:
        return replace(space, unlimited=self.bounds.timed)

    def _alone(self, space: EdgeSpace, room: int | None, objectives: tuple[str, ...]) -> Result:
        """The best mapping of visits of one kind."""
        key = self.key_of(space.kind), space.unlimited, room, objectives
        if key not in self.alone:
            result = self._searched(space.mapspace(room), objectives)
            is_open = result.termination is not Termination.PROVEN
            if is_open and (self.bounds.clock.stop() or not space.kind.remainders):
                return result
            self.is_cut_short |= is_open
            self.alone[key] = Alone(space, room, objectives, result)
        return self.alone[key].result

    def _searched(self, mapspace: Mapspace, objectives: tuple[str, ...], caps: Caps = NO_CAPS) -> Result:
        return self.bounds.searched(by_position(mapspace.problem).mapspace(mapspace), objectives, caps)

    # Energy against cycles

    def _sums(
        self, space: EdgeSpace, kinds: Sequence[EdgeSpace], one: _Together, room: int | None
    ) -> list[_Together]:
        """The fronts of all kinds, bandwidths left out, added up."""
        sums = [(0, 0, tuple[_One, ...]())]
        for own in kinds:
            front = self._front(own, room)
            longer = [(e + p.energy, c + p.cycles, (*before, p)) for e, c, before in sums for p in front]
            longer.sort(key=lambda each: each[:2])
            fewest = accumulate((cycles for _, cycles, _ in longer), min, initial=math.inf)
            sums = [each for each, before in zip(longer, fewest, strict=False) if each[1] < before]
        spare = kinds[0].rounding_energy() * (len(kinds) - 1)
        found = [
            self._mapped(space, kinds, chosen, one, room)._replace(least=(max(0, energy - spare), cycles))
            for energy, cycles, chosen in sums
        ]
        return [*found, one._replace(least=one.paid)] if one.nests else found

    def _mapped(
        self,
        space: EdgeSpace,
        kinds: Sequence[EdgeSpace],
        chosen: Sequence[_One],
        one: _Together,
        room: int | None,
    ) -> _Together:
        """What nests of all kinds cost; without one of each, there are none."""
        nests = [own.nest for own in chosen if own.nest is not None]
        if len(nests) < len(kinds):
            return one._replace(nests=())
        pairs = list(zip(kinds, nests, strict=True))
        costs = []
        for own, nest in pairs:
            mapspace = own.mapspace(room)
            costs.append(evaluate_in(by_position(mapspace.problem).mapspace(mapspace), nest))
        named = [(own, as_named(own, nest)) for own, nest in pairs]
        inner = self.bounds.space.inner
        return one._replace(
            paid=self._paid(space, costs),
            need_words=max(own.own_words(nest) for own, nest in named),
            nests=tuple(nests),
            inner_words=tuple(max(own.own_words(nest, level) for own, nest in named) for level in inner),
        )

    def _front(self, space: EdgeSpace, room: int | None) -> list[_One]:
        """Mappings of one kind without bandwidths that no other one beats; a bound on others comes last."""
        loose = self._loose(space)
        fewest = self._alone(loose, room, ("latency",)).bound or 0
        mapspace, found = loose.mapspace(room), list[_One]()
        result = self._alone(loose, room, ("energy", "latency"))
        while result.mapping is not None and result.evaluation is not None:
            cost = result.evaluation
            if result.status is not Status.OPTIMAL or len(found) == MOST_POINTS:
                break
            found.append(_One(cost.energy, cost.cycles, result.mapping))
            if cost.cycles <= fewest:
                return found
            result = self._searched(mapspace, ("energy", "latency"), Caps(cycles=cost.cycles - 1))
        if result.status is Status.INFEASIBLE:
            return found
        self.is_cut_short |= result.status is not Status.OPTIMAL
        return [*found, _One(max(result.bound or 0, found[-1].energy if found else 0), fewest, None)]

    # Bandwidths, which all visits load together

    def _least_busy(self, space: EdgeSpace, kinds: Sequence[EdgeSpace], room: int | None) -> int:
        """Least cycles by the words that cross each bandwidth: of all kinds and of held tiles together."""
        levels = space.einsum.mapspace.architecture.levels
        rates = [(n, name) for n, level in enumerate(levels) for name in BANDWIDTHS if level.bandwidth(name)]
        latency = self.bounds.latency(space.kind.place) * space.kind.visits
        busiest = 0
        for number, name in rates:
            every = [self._least_at(own, room, number, name) for own in kinds]
            busiest = max(busiest, math.ceil(sum(every, space.shifted_cycles(number, name))) + latency)
        return busiest

    def _least_at(self, space: EdgeSpace, room: int | None, number: int, name: Bandwidth) -> Fraction:
        """Least cycles of one kind by the words that cross one bandwidth: this one is as slow as it takes."""
        mapspace = space.mapspace(room)
        places = mapspace.architecture.storage_indices
        nodes = [unlimited(n) if isinstance(n, StorageLevel) else n for n in mapspace.architecture.nodes]
        if len(places) > len(space.einsum.mapspace.architecture.levels):
            return Fraction(0)  # of several places of a memory, which it has together
        rate, steps = mapspace.architecture.levels[number].bandwidth(name), mapspace.problem.computes
        assert rate is not None
        level = nodes[places[number]]
        assert isinstance(level, StorageLevel)
        slower = 1 << (16 + steps.bit_length())
        if slower * steps > MOST_SCALED:
            return Fraction(0)
        nodes[places[number]] = level.with_bandwidth(name, Fraction(rate) / slower)
        own = replace(mapspace, architecture=replace(mapspace.architecture, nodes=tuple(nodes)))
        key = self.key_of(space.kind), room, number, name
        if key not in self.alone:
            result = self._searched(own, ("latency",))
            self.alone[key] = Alone(space, room, (name,), result)
        latency = self.bounds.latency(space.kind.place) * space.kind.visits
        cycles = (self.alone[key].result.bound or 0) - latency
        return max(Fraction(0), Fraction(cycles - 1 - steps, slower))


def as_named(space: EdgeSpace, nest: LoopNest) -> LoopNest:
    """A nest of one kind of visits in the Einsum's own names."""
    return by_position(space.mapspace(None).problem).inverse.mapping(nest)


def _undominated(found: Sequence[_Together]) -> Iterator[_Together]:
    """Yield those that cost less energy or fewer cycles, at the least, than any other one."""
    fewest: float = math.inf
    for own in sorted(found, key=lambda each: (each.least, each.paid)):
        if own.least[1] < fewest:
            fewest = own.least[1]
            yield own
