"""Mapspaces in which memories have several places in the loop nest, and mappings of these.

The places of a memory are levels of their own (`model.architecture.with_places`). Each dataspace that the
memory keeps is kept at one of them. Places that keep nothing are the last ones, and have no loops: only the
first place always has its loops, as a memory that keeps nothing has them with one place, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from model.architecture import Architecture, Fanout, with_places
from model.mapping import Mapping, NodeMapping, StorageMapping
from model.mapspace import FactorRule, JointRules, KeepRules, Mapspace, ParallelGroup, TemporalRules


def most_places(mapspace: Mapspace) -> dict[str, int]:
    """Return how many places each memory may have: one for each dataspace that it may keep.

    Parameters
    ----------
    mapspace
        Each of its memories has one place.

    Returns
    -------
    dict
        Numbers above 1 by name. The outermost memory is left out, which holds everything.
    """
    names = [space.name for space in mapspace.problem.dataspaces]
    pairs = zip(mapspace.architecture.levels[1:], mapspace.keep[1:], strict=True)
    kept = {
        level.name: sum(name not in rules.bypass for name in names)
        for level, rules in pairs
        if not rules.whole and not level.tolls
    }
    return {name: count for name, count in kept.items() if count > 1}


def spread(mapspace: Mapspace, memories: Collection[str] | None = None) -> Mapspace:
    """Give memories as many places as they have dataspaces that they may keep.

    Parameters
    ----------
    mapspace
        Each of its memories has one place.
    memories
        Names; None for all memories. Those that have no use for several places keep their one: tolls, and
        those that store a dataspace as a whole, as no loop over its dimensions may lie outside of its tile.

    Returns
    -------
    Mapspace
        Its rules on loops hold for those of all places of a memory together (`JointRules`).

    Raises
    ------
    KeyError
        If there is no memory of a name.
    """
    unknown = set(memories or ()) - {level.name for level in mapspace.architecture.levels}
    if unknown:
        raise KeyError(min(unknown))
    places = {n: count for n, count in most_places(mapspace).items() if memories is None or n in memories}
    if not places:
        return mapspace
    architecture = with_places(mapspace.architecture, places)
    numbers: list[list[int]] = [[] for _ in mapspace.architecture.levels]
    for number, level in enumerate(architecture.levels):
        numbers[_number_of(mapspace.architecture, level.component)].append(number)
    temporal: list[TemporalRules] = []
    keep: list[KeepRules] = []
    joint: list[JointRules] = []
    for loops, kept, own in zip(mapspace.temporal, mapspace.keep, numbers, strict=True):
        single = len(own) == 1
        temporal += [loops if single else _of_one_place(loops)] * len(own)
        keep += [kept if single else KeepRules(bypass=kept.bypass, sources=kept.sources)] * len(own)
        joint += [] if single else [JointRules(tuple(own), loops, kept)]
    return replace(
        mapspace,
        architecture=architecture,
        temporal=tuple(temporal),
        keep=tuple(keep),
        parallel=tuple(_groups_with_places(mapspace, numbers)),
        joint=tuple(joint),
    )


def _number_of(architecture: Architecture, name: str) -> int:
    return [level.component for level in architecture.levels].index(name)


def _of_one_place(rules: TemporalRules) -> TemporalRules:
    """What follows for the loops of one place of several."""
    most = (
        replace(rule, relation="<=") if rule.relation == "=" else rule
        for rule in rules.factors
        if rule.relation != ">="
    )
    return replace(rules, factors=tuple[FactorRule, ...](most))


def _groups_with_places(mapspace: Mapspace, numbers: Sequence[Sequence[int]]) -> Iterator[ParallelGroup]:
    """Yield the branches with all places of their memories, and the places of each other memory."""
    branches = {level for group in mapspace.parallel for level in group.levels}
    for group in mapspace.parallel:
        kept = [mapspace.keep[level].keep for level in group.levels if len(numbers[level]) > 1]
        levels = tuple(number for level in group.levels for number in numbers[level])
        yield ParallelGroup(levels, group.may_skip, group.always.union(*kept))
    for level, own in enumerate(numbers):
        if len(own) > 1 and level not in branches:
            yield ParallelGroup(tuple(own), may_skip=True, always=mapspace.keep[level].keep)


def windows_without_outer_loops(mapspace: Mapspace) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield memories right below a fanout that may keep windows, and the names of these dataspaces.

    No loop lies in an instance of such a memory around all of its tiles. If places decide what stays, such a
    loop might slide a window whose overlap stays; outside of the fanout, it moves other windows.

    Parameters
    ----------
    mapspace
        Each of its memories has one place.
    """
    if mapspace.counting_rule.by_order:
        return
    architecture = mapspace.architecture
    pairs = zip(architecture.storage_indices, architecture.levels, mapspace.keep, strict=True)
    stores = [(position, level, rules) for position, level, rules in pairs if not level.tolls]
    windows = [space.name for space in mapspace.problem.dataspaces if mapspace.has_windows(space)]
    for (before, *_), (position, level, rules) in pairwise(stores):
        kept = tuple(name for name in windows if name not in rules.bypass)
        if kept and any(before < fanout < position for fanout in architecture.fanout_indices):
            yield level.name, kept


def gathered(mapspace: Mapspace) -> Mapspace:
    """Return the mapspace in which each memory has one place: that which `spread` was given."""
    architecture = mapspace.architecture
    if not mapspace.joint:
        return mapspace
    firsts = {places[0]: number for number, places in enumerate(architecture.memories)}
    of_level = {place: number for number, places in enumerate(architecture.memories) for place in places}
    rules = {own.levels[0]: own for own in mapspace.joint}
    kept = {*(architecture.storage_indices[level] for level in firsts), *architecture.fanout_indices}
    nodes = tuple(
        node if isinstance(node, Fanout) else replace(node, name=node.component, memory=None)
        for position, node in enumerate(architecture.nodes)
        if position in kept
    )
    groups = (
        ParallelGroup(tuple(dict.fromkeys(of_level[level] for level in group.levels)), group.may_skip)
        for group in mapspace.parallel
    )
    return replace(
        mapspace,
        architecture=replace(architecture, nodes=nodes),
        temporal=tuple(rules[n].temporal if n in rules else mapspace.temporal[n] for n in firsts),
        keep=tuple(rules[n].keep if n in rules else mapspace.keep[n] for n in firsts),
        parallel=tuple(group for group in groups if len(group.levels) > 1 or not group.may_skip),
        joint=(),
    )


def spread_like(mapspace: Mapspace, even: Mapspace) -> Mapspace:
    """Return `even`, a mapspace with one place per memory, spread as another one is."""
    levels = mapspace.architecture.levels
    memories = {levels[rules.levels[0]].component for rules in mapspace.joint}
    return spread(even, memories) if memories else even


def on_places(mapspace: Mapspace, mapping: Mapping) -> Mapping:
    """Return a mapping of `gathered` as one of the mapspace: equal tiles, one dataspace at each place."""
    architecture = mapspace.architecture
    joint = {architecture.storage_indices[rules.levels[0]]: len(rules.levels) for rules in mapspace.joint}
    inner = {architecture.storage_indices[level] for rules in mapspace.joint for level in rules.levels[1:]}
    given = iter(mapping.nodes)
    nodes: list[NodeMapping] = []
    for position in (own for own in range(len(architecture.nodes)) if own not in inner):
        node = next(given)
        if isinstance(node, StorageMapping) and position in joint:
            nodes += _one_dataspace_each(mapspace, node, joint[position])
        else:
            nodes.append(node)
    return Mapping(tuple(nodes))


def _one_dataspace_each(mapspace: Mapspace, node: StorageMapping, count: int) -> list[StorageMapping]:
    kept = [frozenset((space.name,)) for space in mapspace.problem.dataspaces if space.name in node.keep]
    *first, last = kept or [frozenset()]
    alone = [StorageMapping(keep=own) for own in first]
    return [*alone, replace(node, keep=last), *[StorageMapping()] * (count - len(alone) - 1)]


def tidied(mapspace: Mapspace, mapping: Mapping) -> Mapping:
    """Return the mapping with as few places as it needs: equal tiles of a memory stand at one place.

    Words, tiles, energy and cycles stay what they are.
    """
    nodes: list[NodeMapping] = list(mapping.nodes)
    for rules in mapspace.joint:
        if all(mapspace.keep[level].keep for level in rules.levels):
            continue  # it is said what each place holds
        positions = [mapspace.architecture.storage_indices[level] for level in rules.levels]
        own = [node for node in map(nodes.__getitem__, positions) if isinstance(node, StorageMapping)]
        for position, place in zip(positions, _united_places(own), strict=True):
            nodes[position] = place
    return Mapping(tuple(nodes))


def _united_places(places: Sequence[StorageMapping]) -> list[StorageMapping]:
    """Places of a memory, those without loops between them as one."""
    joined: list[StorageMapping] = []
    for place in places:
        if joined and not any(loop.bound > 1 for loop in joined[-1].temporal):
            joined[-1] = StorageMapping(place.temporal, joined[-1].keep | place.keep)
        else:
            joined.append(place)
    return [*joined, *[StorageMapping()] * (len(places) - len(joined))]
