"""What the dynamic program over the lattice finds: tables of the tiles that can still matter."""

from __future__ import annotations

from dataclasses import dataclass

from solver.search.arrays import FloatArray, IntArray
from solver.search.bounds.rows import Row


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
