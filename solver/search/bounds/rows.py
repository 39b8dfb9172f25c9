"""What a bound at a tile leaves open about the loops farther in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What a bound at a tile leaves open about the loops inside.

    Parameters
    ----------
    place
        A dataspace that is still in place outside of the tile, or None. What its boundaries cost,
        from the tile's level (exclusive) to level `innermost` (inclusive), is not in the row's figures:
        it depends on where the dataspace stops being in place.
    repeats
        How often it is delivered at least until then, as of `Boundary.REPEATS`; 0 if any number of times.
    """

    place: int | None = None
    innermost: int = 0
    repeats: int = 0

    def fits(self, members: frozenset[int]) -> bool:
        """Whether the next loop outside can leave `members`, and no other dataspace, in place."""
        return self.place is None or self.place in members


CLOSED = Row()
"""Nothing is in place, nothing is open."""
