"""What is known of an edge: mappings with their costs, and bounds where there may be others."""

from __future__ import annotations

from typing import NamedTuple

from model.mapping import Mapping as LoopNest

IMPOSSIBLE = 1 << 200
"""Energy and cycles of what does not fit."""


class Point(NamedTuple):
    """A mapping: energy and cycles without held tiles' energy, room of its own tiles, and its loop nests.

    There is a nest for each kind of visits. Where energy and cycles are bounds, `paid` has those of the
    nests: kinds of visits cost no more together than one by one, or there was no time for a closer bound.
    `inner_words` are needed of memories farther in that may store tensors; `homes` are the levels at which
    all kinds of visits keep outputs. With less than `room_words` for own tiles, bounds may be closer.
    """

    energy: int
    cycles: int
    need_words: int
    nests: tuple[LoopNest, ...]
    paid: tuple[int, int] | None = None
    inner_words: tuple[int, ...] = ()
    homes: frozenset[int] | None = None
    room_words: int = 0

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

    @property
    def room_words(self) -> int:
        """Words that have to be left; where bounds may be closer with less, more than are needed."""
        return self.need_words if self.point is None else max(self.need_words, self.point.room_words)
