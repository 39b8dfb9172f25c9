"""What a bound at a tile leaves open about the loops farther in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Waiting(NamedTuple):
    """A boundary whose windows may still overlap or not, as the loops farther out have it.

    Without a `lead` no loop has moved its tile so far, and the next one does. With one, only the loop
    over that dimension has, with `times` iterations in the slot of level `slot`, and one farther out may
    return to its tiles. Others over the same dimension may lie between, with `onward` iterations in all:
    together with the lead, they move the window `passed` times as far as the lead alone.

    Parameters
    ----------
    place, level
        Of the dataspace and its boundary.
    lead
        An active dimension, or None; what follows means nothing then.
    """

    place: int
    level: int
    lead: int | None = None
    times: int = 1
    slot: int = 0
    onward: int = 1
    passed: int = 1


@dataclass(frozen=True)
class Row:
    """What a bound at a tile leaves open about the loops inside.

    Parameters
    ----------
    place
        A dataspace that is still in place outside of the tile, or None. What its boundaries cost,
        from the tile's level (exclusive) to level `innermost` (inclusive), is not in the row's figures:
        it depends on where the dataspace stops being in place.
    waiting
        Boundaries whose figures are the least that they cost in any case.
    """

    place: int | None = None
    innermost: int = 0
    waiting: frozenset[Waiting] = frozenset()

    def fits(self, members: frozenset[int]) -> bool:
        """Whether the next loop outside can leave `members`, and no other dataspace, in place."""
        if self.place is not None and self.place not in members:
            return False
        return not any(waiting.place in members for waiting in self.waiting if waiting.lead is None)


CLOSED = Row()
"""Nothing is in place, nothing is open."""
