"""Why no mapping of sparse data exists: compressed tiles that do not fit, or formats that cannot hold any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

from model.architecture import StorageLevel
from model.mapspace import Mapspace
from model.source_ref import SourceRef
from model.sparsity import SparseLevel
from solver.explain.explanation import DEFAULT_TIME_LIMIT_S, NOT_FOUND, diagnose
from solver.explain.feasibility import Verdict
from solver.explain.user_rules import rules_reason
from solver.formulation.requirements import TileCapacity
from solver.result import Clock, Lever, Reason, Shortfall, Statement, Status, StopCallback
from solver.sparse_search import first_mapping

PLENTY = 1 << 50
"""Words, or bits, that hold everything; a level without any capacity would hold all metadata, too."""


@dataclass(frozen=True)
class _LimitedRoom:
    """A room that tiles or metadata take: what a level has of it, and the mapspace with another one."""

    level: int
    text: str
    unit: str
    current: int
    sources: tuple[SourceRef, ...]
    widened: Callable[[Mapspace, int | None], Mapspace]


def explain_sparse(
    mapspace: Mapspace,
    should_stop: StopCallback | None = None,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
) -> tuple[Reason, ...]:
    """Return why an infeasible mapspace of sparse data has no mapping.

    Rooms are those of compressed tiles, as the cost model sizes them. A conflict of other constraints is the
    one that dense data have, too.
    """
    clock = Clock(time_limit_s, should_stop)
    if mapspace.rules:
        ruled, mapspace = mapspace, replace(mapspace, rules=())
        if first_mapping(mapspace, clock) is Status.FEASIBLE:
            return (rules_reason(ruled, clock, first_mapping),)
    rooms = list(_rooms(mapspace))
    roomy = _with_room(mapspace, rooms)
    status = first_mapping(roomy, clock)
    if status is Status.FEASIBLE:
        return (_short_of_room(mapspace, rooms, clock),)
    if status is Status.UNKNOWN:
        return (NOT_FOUND,)
    dense = diagnose(replace(roomy, sparsity=None), should_stop, max(2.0, clock.left_s or 0.0))
    if dense.verdict is Verdict.INFEASIBLE:
        return dense.reasons
    return (_formats(mapspace, roomy, clock),)


def _rooms(mapspace: Mapspace) -> Iterator[_LimitedRoom]:
    assert mapspace.sparsity is not None
    pairs = zip(mapspace.architecture.levels, mapspace.sparsity.levels, strict=True)
    for number, (level, sparse) in enumerate(pairs):
        if level.usable_words is None or level.size_words is None:
            continue
        sources = TileCapacity(number, level).sources
        text = f"`{level.name}` holds {level.usable_words:,} words of compressed tiles"
        yield _LimitedRoom(number, text, "words", level.size_words, sources, _capacity_widener(number))
        if sparse.representations and not sparse.allow_overbooking:
            bits = sparse.metadata_size_bits
            text = f"`{level.name}` holds {bits:,} bits of metadata"
            yield _LimitedRoom(number, text, "bits of metadata", bits, (), _metadata_widener(number))
        if level.min_utilization:
            text = f"`{level.name}` must be filled to {float(level.min_utilization):.0%} by compressed tiles"
            yield _LimitedRoom(number, text, "least share", 0, sources, _unfilled(number))


def _capacity_widener(number: int) -> Callable[[Mapspace, int | None], Mapspace]:
    def change(level: StorageLevel) -> StorageLevel:
        return replace(level, size_words=PLENTY, min_utilization=Fraction(0))

    def widened(mapspace: Mapspace, words: int | None) -> Mapspace:
        if words is None:
            return _with_changed_level(mapspace, number, change)
        return _with_changed_level(mapspace, number, lambda level: replace(level, size_words=words))

    return widened


def _unfilled(number: int) -> Callable[[Mapspace, int | None], Mapspace]:
    return lambda mapspace, _: _with_changed_level(
        mapspace, number, lambda level: replace(level, min_utilization=Fraction(0))
    )


def _metadata_widener(number: int) -> Callable[[Mapspace, int | None], Mapspace]:
    def widened(mapspace: Mapspace, bits: int | None) -> Mapspace:
        size = PLENTY if bits is None else bits
        return _with_level(mapspace, number, lambda own: replace(own, metadata_size_bits=size))

    return widened


def _with_changed_level(
    mapspace: Mapspace, number: int, change: Callable[[StorageLevel], StorageLevel]
) -> Mapspace:
    """Return a mapspace with another storage level."""
    architecture, place = mapspace.architecture, mapspace.architecture.storage_indices[number]
    node = architecture.nodes[place]
    assert isinstance(node, StorageLevel)
    nodes = (*architecture.nodes[:place], change(node), *architecture.nodes[place + 1 :])
    return replace(mapspace, architecture=replace(architecture, nodes=nodes))


def _with_level(mapspace: Mapspace, number: int, change: Callable[[SparseLevel], SparseLevel]) -> Mapspace:
    """Return a mapspace with a level that has something else for sparse data."""
    assert mapspace.sparsity is not None
    levels = list(mapspace.sparsity.levels)
    levels[number] = change(levels[number])
    return replace(mapspace, sparsity=replace(mapspace.sparsity, levels=tuple(levels)))


def _with_room(mapspace: Mapspace, rooms: Sequence[_LimitedRoom]) -> Mapspace:
    """Return a mapspace without some limits."""
    for room in rooms:
        mapspace = room.widened(mapspace, None)
    return mapspace


def _short_of_room(mapspace: Mapspace, rooms: Sequence[_LimitedRoom], clock: Clock) -> Reason:
    """Return the capacities that are too small together, and the size that each needs."""
    needed = list(rooms)
    for room in rooms:
        others = [own for own in needed if own is not room]
        lifted = _with_room(mapspace, [own for own in rooms if own not in others])
        if first_mapping(lifted, clock) is Status.INFEASIBLE:
            needed = others
    levers = [lever for lever in (_room_lever(mapspace, room, clock) for room in needed) if lever is not None]
    shortfalls = [
        Shortfall(
            f"{room.text}: a mapping needs a size of {lever.needed:,}", lever.needed, room.current, room.unit
        )
        for room, lever in zip(needed, levers, strict=False)
        if lever.needed is not None and len(levers) == len(needed)
    ]
    what = " and ".join(dict.fromkeys(room.unit for room in needed)) or "capacity"
    return Reason(
        text=f"no mapping's compressed tiles fit: too few {what}"
        if needed
        else "compressed tiles do not fit",
        sources=tuple(source for room in needed for source in room.sources),
        constraints=tuple(Statement(room.text, room.sources) for room in needed),
        irreducible=clock.termination is None,
        shortfalls=tuple(shortfalls),
        levers=tuple(levers),
        complete=clock.termination is None,
    )


def _room_lever(mapspace: Mapspace, room: _LimitedRoom, clock: Clock) -> Lever | None:
    """Return the least room of one kind with which a mapping exists; None if it does not suffice."""
    if first_mapping(room.widened(mapspace, None), clock) is not Status.FEASIBLE:
        return None
    name = mapspace.architecture.levels[room.level].name
    if room.unit == "least share":
        return Lever(f"drop the minimum utilization of `{name}`", sources=room.sources)
    low, high = room.current, max(1, room.current)
    while high < PLENTY:
        high *= 2
        if first_mapping(room.widened(mapspace, high), clock) is not Status.INFEASIBLE:
            break
    while high - low > 1 and not clock.stop():
        middle = (low + high) // 2
        fits = first_mapping(room.widened(mapspace, middle), clock) is Status.FEASIBLE
        low, high = (low, middle) if fits else (middle, high)
    text = f"give `{name}` {high:,} {room.unit} instead of {room.current:,}"
    return Lever(text, room.current, high, room.sources)


def _formats(mapspace: Mapspace, roomy: Mapspace, clock: Clock) -> Reason:
    """Return that formats, with what levels can unpack and pack, rule out all mappings."""
    levers = tuple(lever for lever, changed in _format_changes(mapspace, roomy) if _suffices(changed, clock))
    needed = _stored(mapspace)
    for stored in tuple(needed):
        others = [own for own in needed if own != stored]
        dropped = [own for own in _stored(mapspace) if own not in others]
        if first_mapping(reduce(_unformatted, dropped, roomy), clock) is Status.INFEASIBLE:
            needed = others
    return Reason(
        text="no mapping is possible with the formats of compressed tiles: "
        "too few ranks, incompatible formats "
        "of neighbouring levels, or a level that cannot compress or decompress",
        constraints=tuple(Statement(_ranks_text(mapspace, *stored)) for stored in needed),
        irreducible=clock.termination is None,
        levers=levers,
        complete=clock.termination is None,
    )


def _suffices(mapspace: Mapspace, clock: Clock) -> bool:
    return first_mapping(mapspace, clock) is Status.FEASIBLE


def _stored(mapspace: Mapspace) -> list[tuple[int, str]]:
    """Return the levels and dataspaces that have formats."""
    assert mapspace.sparsity is not None
    levels = enumerate(mapspace.sparsity.levels)
    return [(number, name) for number, sparse in levels for name in sparse.representations]


def _ranks_text(mapspace: Mapspace, number: int, dataspace: str) -> str:
    assert mapspace.sparsity is not None
    ranks = mapspace.sparsity.levels[number].representations[dataspace].ranks
    formats = " ".join(rank.format for rank in reversed(ranks))
    return f"`{mapspace.architecture.levels[number].name}` stores {dataspace} as {formats}"


def _format_changes(mapspace: Mapspace, roomy: Mapspace) -> Iterator[tuple[Lever, Mapspace]]:
    """Yield single changes of formats, and of what levels can do about them."""
    assert mapspace.sparsity is not None
    for number, sparse in enumerate(mapspace.sparsity.levels):
        name = mapspace.architecture.levels[number].name
        if not (sparse.decompresses and sparse.compresses):
            able = _with_level(roomy, number, lambda own: replace(own, decompresses=True, compresses=True))
            yield Lever(f"set decompression_supported and compression_supported of `{name}`"), able
        for stored in sparse.representations:
            yield Lever(f"store {stored} without a format in `{name}`"), _unformatted(roomy, (number, stored))


def _unformatted(mapspace: Mapspace, stored: tuple[int, str]) -> Mapspace:
    """Return a mapspace in which a level stores a dataspace as it is."""
    number, dataspace = stored

    def change(level: SparseLevel) -> SparseLevel:
        others = {name: own for name, own in level.representations.items() if name != dataspace}
        return replace(level, representations=others)

    return _with_level(mapspace, number, change)
