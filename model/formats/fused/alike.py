"""What the Einsums of a cascade have in common, each of which sees the architecture in words of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import takewhile

from model.architecture import AccessEnergy, Architecture, Fanout, Node, StorageLevel
from model.formats.accelforge.canonical import Common
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.numbers import common_divisor

Entry = tuple[Node, TemporalRules, KeepRules, SpatialRules]
"""A node with its rules: those of a memory, or those of a fanout; the others are empty."""


class UnlikeError(ValueError):
    """An Einsum has other memories, words or sizes than the others; `place` is its own."""

    def __init__(self, place: int, what: str) -> None:
        super().__init__(what)
        self.place = place


def common_of(mapspaces: Iterable[Mapspace]) -> Common:
    """Return what divides the bits of all values that Einsums keep in each memory, and a unit of energy."""
    bits: dict[str, Fraction] = {}
    units = 1
    for mapspace in mapspaces:
        units = max(units, mapspace.architecture.units_per_pj)
        for level in _used_levels(mapspace):
            own = Fraction(level.word_bits)
            bits[level.name] = common_divisor(bits.get(level.name, own), own)
    return Common(bits, units)


def cycle_lengths(mapspaces: Sequence[Mapspace]) -> list[int]:
    """Return per Einsum how many cycles one of its own takes, in cycles of which all are multiples.

    Raises
    ------
    UnlikeError
        If some take time and others do not.
    """
    cycles = [mapspace.architecture.cycle_s or Fraction(0) for mapspace in mapspaces]
    shared = reduce(common_divisor, cycles)
    if shared and not all(cycles):
        raise UnlikeError(cycles.index(Fraction(0)), "its clock: nothing takes time there")
    return [int(own / shared) if shared else 1 for own in cycles]


def with_common_nodes(mapspaces: Sequence[Mapspace]) -> list[Mapspace]:
    """Return the mapspaces with the same memories and fanouts, but for tolls.

    A memory that holds nothing of an Einsum has the words and the size that it has for others. What lies
    farther in than the arithmetic of an Einsum holds nothing of it, and has no spatial loops; what leaks
    there is counted already, at the outermost memory.

    Raises
    ------
    UnlikeError
        If memories differ otherwise, or the words of one, or the room of the outermost one on chip.
    """
    known: dict[str, StorageLevel] = {}
    for place, mapspace in enumerate(mapspaces):
        for level in _used_levels(mapspace):
            is_home = level is mapspace.architecture.on_chip[0]
            _check_alike(place, level, known.setdefault(level.name, level), is_home)
    longest = max((_nodes_but_tolls(own.architecture) for own in mapspaces), key=len)
    return [_with_nodes(place, own, longest, known) for place, own in enumerate(mapspaces)]


def _check_alike(place: int, level: StorageLevel, other: StorageLevel, is_home: bool) -> None:
    """Check that a memory has the same words; the outermost on-chip one, which all share, the same room."""
    if level.word_bits != other.word_bits:
        raise UnlikeError(place, f"the sizes of values at `{level.name}`")
    if is_home and level.size_words != other.size_words:
        raise UnlikeError(place, f"the size of `{level.name}`")


def _nodes_but_tolls(architecture: Architecture) -> list[Node]:
    """Return the fanouts, and the memories that are no tolls."""
    return [node for node in architecture.nodes if not _is_toll(node)]


def _used_levels(mapspace: Mapspace) -> Iterator[StorageLevel]:
    """Yield the memories that may keep something."""
    for level, rules in zip(mapspace.architecture.levels, mapspace.keep, strict=True):
        if not level.tolls and not _holds_nothing(mapspace, rules):
            yield level


def _holds_nothing(mapspace: Mapspace, rules: KeepRules) -> bool:
    return all(space.name in rules.bypass for space in mapspace.problem.dataspaces)


def _with_nodes(
    place: int, mapspace: Mapspace, nodes: Sequence[Node], known: dict[str, StorageLevel]
) -> Mapspace:
    """Return a mapspace with further nodes that its Einsum does not use."""
    entries: list[Entry] = []
    missing = list(nodes)
    for entry in _rules_by_node(mapspace):
        before = _nodes_before(place, entry[0], missing)
        entries += [_unused(mapspace, own) for own in before]
        missing = missing[len(before) + (not _is_toll(entry[0])) :]
        entries.append(_as_known(mapspace, entry, known))
    entries += [_unused(mapspace, node) for node in missing]
    is_level = [isinstance(node, StorageLevel) for node, *_ in entries]
    return replace(
        mapspace,
        architecture=replace(mapspace.architecture, nodes=tuple(node for node, *_ in entries)),
        temporal=tuple(own[1] for own, level in zip(entries, is_level, strict=True) if level),
        keep=tuple(own[2] for own, level in zip(entries, is_level, strict=True) if level),
        spatial=tuple(own[3] for own, level in zip(entries, is_level, strict=True) if not level),
    )


def _nodes_before(place: int, node: Node, missing: Sequence[Node]) -> list[Node]:
    """Return the memories that an Einsum lacks before one of its nodes."""
    if _is_toll(node):
        return []
    before = list(takewhile(lambda other: other.name != node.name, missing))
    if len(before) == len(missing) or any(isinstance(own, Fanout) for own in before):
        raise UnlikeError(place, "memories")
    return before


def _is_toll(node: Node) -> bool:
    return isinstance(node, StorageLevel) and bool(node.tolls)


def _rules_by_node(mapspace: Mapspace) -> Iterator[Entry]:
    levels = iter(zip(mapspace.temporal, mapspace.keep, strict=True))
    spatial = iter(mapspace.spatial)
    for node in mapspace.architecture.nodes:
        if isinstance(node, Fanout):
            yield node, TemporalRules(), KeepRules(), next(spatial)
        else:
            yield node, *next(levels), SpatialRules()


def _as_known(mapspace: Mapspace, entry: Entry, known: dict[str, StorageLevel]) -> Entry:
    """Return a memory that holds nothing of the Einsum with the words and the size that it has for others."""
    level, temporal, keep, spatial = entry
    other = known.get(level.name)
    if isinstance(level, Fanout) or level.tolls or other is None or not _holds_nothing(mapspace, keep):
        return entry
    alike = replace(
        level, size_words=other.size_words, word_bits=other.word_bits, packing=(), bandwidth_scale=()
    )
    return alike, temporal, keep, spatial


def _unused(mapspace: Mapspace, node: Node) -> Entry:
    """Return a node of other Einsums as one that an Einsum has, but does not use."""
    names = [space.name for space in mapspace.problem.dataspaces]
    ones = tuple(FactorRule(dim, "=", 1, is_settled=True) for dim in mapspace.problem.dims)
    if isinstance(node, Fanout):
        fanout = replace(node, no_multicast=frozenset(), no_link_transfer=frozenset())
        return fanout, TemporalRules(), KeepRules(), SpatialRules(ones)
    level = StorageLevel(
        node.name,
        node.size_words,
        node.word_bits,
        gating_fanouts=node.gating_fanouts,
        energy=AccessEnergy(sources=node.energy.sources, given=node.energy.given),
        size_source=node.size_source,
    )
    nothing = KeepRules(bypass=frozenset(names), settled=frozenset(names))
    return level, TemporalRules(ones), nothing, SpatialRules()
