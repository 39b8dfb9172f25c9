"""Finds the scratchpads of an architecture: where each dataspace is first kept on the chip."""

from __future__ import annotations

from dataclasses import dataclass

from model.mapspace import Mapspace, ParallelGroup
from solver.heuristics.interface import MapperError


@dataclass(frozen=True)
class Scratchpads:
    """Where the tiles lie.

    Parameters
    ----------
    level_of
        Position in ``architecture.levels`` of each dataspace's scratchpad, by the dataspace's name.
    capacity
        Words of a tile (values of its dataspace): what each gets of the smallest scratchpad, which all that
        it keeps share equally.
    """

    level_of: dict[str, int]
    capacity: int


def find_scratchpads(mapspace: Mapspace) -> Scratchpads:
    """Return the outermost levels of limited size that may keep each dataspace.

    Raises
    ------
    MapperError
        If a dataspace has none, or it lies below a fanout: then there are more than two levels of tiles.
    """
    level_of = {space.name: _first_level(mapspace, space.name) for space in mapspace.problem.dataspaces}
    for group in mapspace.parallel:
        level_of = _spread(mapspace, group, level_of)
    return Scratchpads(level_of, _capacity(mapspace, level_of))


def _first_level(mapspace: Mapspace, dataspace: str) -> int:
    architecture = mapspace.architecture
    allowed = [
        number
        for number, level in enumerate(architecture.levels)
        if number > 0 and level.size_words is not None and dataspace not in mapspace.keep[number].bypass
    ]
    if not allowed:
        raise MapperError(f"no level of limited size below the outermost one may keep {dataspace}")
    position = architecture.storage_indices[allowed[0]]
    if architecture.instances_above(position) > 1:
        name = architecture.nodes[position].name
        raise MapperError(f"{dataspace} is first kept in {name}, below a fanout: not two levels of tiles")
    return allowed[0]


def _spread(mapspace: Mapspace, group: ParallelGroup, level_of: dict[str, int]) -> dict[str, int]:
    """Give each dataspace of levels that stand side by side one of its own, as far as there are enough."""
    spread = dict(level_of)
    free = list(group.levels)
    for name in (name for name, number in level_of.items() if number in group.levels):
        fitting = [number for number in free if name not in mapspace.keep[number].bypass]
        if fitting:
            spread[name] = fitting[0]
            free.remove(fitting[0])
    return spread


def kept_at(mapspace: Mapspace, level_of: dict[str, int], number: int) -> frozenset[str]:
    """Return what a level keeps: all it may if it is the outermost, else what it holds or must keep."""
    if number == 0:
        return frozenset(space.name for space in mapspace.problem.dataspaces) - mapspace.keep[0].bypass
    held = {name for name, level in level_of.items() if level == number}
    return mapspace.keep[number].keep | held


def _capacity(mapspace: Mapspace, level_of: dict[str, int]) -> int:
    return min(_values(mapspace, number, level_of) for number in level_of.values())


def _values(mapspace: Mapspace, number: int, level_of: dict[str, int]) -> int:
    """Values of any dataspace that fit into an equal share of a level."""
    level, kept = mapspace.architecture.levels[number], kept_at(mapspace, level_of, number)
    widest = max(level.packing_of(name).size_per_value for name in kept)
    return (level.usable_words or 0) // (len(kept) * widest)
