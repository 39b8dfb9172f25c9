"""Edges whose visits differ: each kind of visits is mapped by itself, with the outputs in common memories."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from model.architecture import Bandwidth
from model.cost.report import Evaluation
from model.mapping import Mapping as LoopNest
from model.objective import objective_value
from model.renaming import by_position
from solver.fusion.bounds import EdgeBounds
from solver.fusion.edges import EdgeKind, EdgeSpace, Point
from solver.result import Result, Status, Termination
from solver.search.goal import NO_CAPS

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
    key_of: Callable[[EdgeKind], EdgeKind]
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
        found = [each for homes, own in pairs if (each := self._at(space, homes, own, room)) is not None]
        if not found:
            return [], None
        least = (
            max(least[0], min(own.least[0] for own in found)),
            max(least[1], min(own.least[1] for own in found)),
        )
        mapped = [own for own in found if own.nests]
        if not mapped:
            return [], least
        best = min(mapped, key=lambda own: objective_value(self.bounds.objective, *own.paid))
        return [self._point(best._replace(least=least), room)], None

    def _point(self, own: _Together, room: int | None) -> Point:
        """A mapping; if its nests cost more than the bound, there may be a closer one with less room."""
        counted = {"energy": slice(0, 1), "latency": slice(1, 2), "edp": slice(0, 2)}[self.bounds.objective]
        is_exact = own.paid[counted] == own.least[counted]
        known_from = 0 if is_exact or room is None else room
        return Point(*own.least, own.need_words, own.nests, own.paid, own.inner_words, own.homes, known_from)

    def _at(
        self, space: EdgeSpace, homes: frozenset[int], large: Sequence[int], room: int | None
    ) -> _Together | None:
        """What the kinds of visits cost with outputs at these levels; None if one does not fit.

        For each least that memories ask for, `large` has the number of the kind whose tiles take it.
        """
        kinds = []
        for number, kind in enumerate(space.kind.alike()):
            least = tuple(own for own, at in zip(kind.least, large, strict=True) if at == number)
            kinds.append(replace(space, kind=replace(kind, homes=homes, least=least)))
        return self._best(space, kinds, homes, room)

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
            mapspace = space.mapspace(room)
            renamed = by_position(mapspace.problem).mapspace(mapspace)
            result = self.bounds.searched(renamed, objectives, NO_CAPS)
            is_open = result.termination is not Termination.PROVEN
            if is_open and (self.bounds.clock.stop() or not space.kind.remainders):
                return result
            self.is_cut_short |= is_open
            self.alone[key] = Alone(space, room, objectives, result)
        return self.alone[key].result


def as_named(space: EdgeSpace, nest: LoopNest) -> LoopNest:
    """A nest of one kind of visits in the Einsum's own names."""
    return by_position(space.problem).inverse.mapping(nest)
