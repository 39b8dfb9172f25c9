"""Junctions: paths that meet at the same cost and continue alike are followed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile

from solver.search.path.counting import LeftInPlace
from solver.search.path.listed import Leads

Tiles = dict[int, tuple[int, ...]]
"""Numbers of tiles, by boundary."""


@dataclass(frozen=True, eq=False)
class Reach:
    """The loops of one slot.

    Parameters
    ----------
    number
        Reaches are numbered in the order in which they are found.
    start, end
        Where the loops begin, inside, and where they lead; None outside of all loops.
    slot, lead, tiles
        The slot, its lead, and the numbers of tiles outside of its loops.
    value, cost
        What paths that end here are ranked by.
    """

    number: int
    start: Junction
    end: Junction | None
    slot: int
    lead: LeftInPlace
    tiles: tuple[int, ...]
    value: float = 0.0
    cost: float = 0.0


@dataclass(frozen=True, eq=False)
class Junction:
    """A point at which paths meet: the start of some paths, or the end of the ways that lead to it."""

    begun: tuple[Tiles, Leads] | None = None
    _arriving: list[Reach] = field(default_factory=list)
    _leaving: list[Reach] = field(default_factory=list)

    @property
    def is_new(self) -> bool:
        """Whether at most one way leads here."""
        return len(self._arriving) < 2

    def link(self, way: Reach) -> None:
        """Go on with a way from here."""
        self._leaving.append(way)
        if way.end is not None:
            way.end._arriving.append(way)

    def before(self, latest: int) -> Iterator[tuple[Tiles, Leads]]:
        """Yield what leads here along ways up to this number."""
        if self.begun is not None:
            yield self.begun
        for way in takewhile(lambda way: way.number <= latest, self._arriving):
            yield from walks((way,), latest)

    def ends(self, latest: int) -> Iterator[tuple[Reach, ...]]:
        """Yield ways up to this number that complete a path from here."""
        for way in takewhile(lambda way: way.number <= latest, self._leaving):
            rests = [()] if way.end is None else way.end.ends(latest)
            yield from ((way, *rest) for rest in rests)


def walks(ways: Sequence[Reach], latest: int) -> Iterator[tuple[Tiles, Leads]]:
    """Yield tiles and leads of all that ends with these ways, along ways up to this number."""
    for tiles, leads in ways[0].start.before(latest):
        yield (
            {**tiles, **{way.slot: way.tiles for way in ways}},
            {**leads, **{way.slot: way.lead for way in ways}},
        )


@dataclass(frozen=True, eq=False)
class Junctions:
    """All junctions of a branch, by what paths have in common that meet there."""

    _known: dict[object, Junction] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def step(
        self, start: Junction, slot: int, lead: LeftInPlace, tiles: tuple[int, ...], key: object
    ) -> tuple[Junction, list[tuple[Reach, ...]]]:
        """Go on to the junction with a key; what completes paths from `start` that have been there before."""
        end = self._known.setdefault(key, Junction())
        way = Reach(next(self._numbers), start, end, slot, lead, tiles)
        start.link(way)
        return end, [(way, *rest) for rest in end.ends(way.number)]

    def complete(
        self, start: Junction, lead: LeftInPlace, tiles: tuple[int, ...], value: float, cost: float
    ) -> tuple[Reach, ...]:
        """End paths with loops of the outermost slot."""
        way = Reach(next(self._numbers), start, None, 0, lead, tiles, value, cost)
        start.link(way)
        return (way,)
