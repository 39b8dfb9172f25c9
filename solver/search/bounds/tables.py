"""What the dynamic program over the lattice finds: rows of bounds, and the tiles that can still matter."""

from __future__ import annotations

from dataclasses import dataclass

from solver.search.arrays import FloatArray, IntArray
from solver.search.space.search_space import Led


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
    alone
        With remainders, a dimension: the next loop outside runs over it, and leaves tiles in place in passes
        of one iteration only, which the figures have used already. None if any loop may come next.
    still
        Likewise, dataspaces that the next loop leaves in place; with `alone`, the first one over another
        dimension outside of that.
    """

    place: int | None = None
    innermost: int = 0
    repeats: int = 0
    alone: int | None = None
    still: frozenset[int] = frozenset()

    def fits(self, led: Led) -> bool:
        """Whether the next loop outside can be of this kind."""
        if self.alone is not None:
            if led.alone is None or led.alone.dim != self.alone or not self.still <= led.still:
                return False
        elif not self.still <= led.members:
            return False
        return self.place is None or self.place in led.members


CLOSED = Row()
"""Nothing is in place, nothing is open."""


@dataclass(frozen=True)
class StageTables:
    """The tiles of one level that can still matter, and their costs.

    ``boundary_costs[k]`` is what is paid at the level's boundary for class k of the slot above, ``least``
    the least of any class with all that is inside, both without what depends on the loops outside.

    Parameters
    ----------
    tiles
        Lattice indices, ascending.
    boundary_costs, least
        In quanta, shapes (classes, tiles) and (tiles,).
    """

    tiles: IntArray
    boundary_costs: IntArray
    least: IntArray


@dataclass(frozen=True)
class BoundTables:
    """What the dynamic program finds.

    ``inside[l]`` has the rows of bounds at the tiles of level l, ``stages[l]`` the tables of level
    l + 1, ``loads_inside[l]`` the least load of each resource at all boundaries inside level l.

    Parameters
    ----------
    inside
        From the outermost level on; each row has an entry per tile. Only one level, and `INFINITY` there, if
        no mapping is left.
    stages
        From level 1 on; none if no mapping is left.
    loads_inside
        In cycles, shape (levels, resources).
    states
        Tiles that were looked at, of all levels but the outermost one: they fit, and nothing ruled them out.
    """

    inside: tuple[dict[Row, IntArray], ...]
    stages: tuple[StageTables, ...]
    loads_inside: FloatArray
    states: int
