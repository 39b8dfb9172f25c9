"""From dense counts to actual, gated and skipped accesses of one dataspace, data and metadata."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from model.sparse.fibers import Units
from model.sparse.saving import Saved

RankWords = tuple[int, int]
"""Words of metadata and of payload at one rank."""


class Accesses(NamedTuple):
    """Words of data that one instance moves."""

    reads: int = 0
    fills: int = 0
    updates: int = 0


NOTHING = Accesses()


@dataclass(frozen=True)
class MetadataAccesses:
    """Words of metadata that one instance moves, per rank, the lowest first."""

    reads: tuple[RankWords, ...] = ()
    fills: tuple[RankWords, ...] = ()
    updates: tuple[RankWords, ...] = ()


@dataclass(frozen=True)
class Moved:
    """What moves at one level, in words of one instance.

    Parameters
    ----------
    data, gated, skipped
        Accesses that are made, and those that are gated or skipped here. What units farther out have cut
        is in none of them.
    metadata, gated_metadata, skipped_metadata
        Accesses to metadata that are made, gated and skipped.
    """

    data: Accesses
    metadata: MetadataAccesses
    gated: Accesses = NOTHING
    skipped: Accesses = NOTHING
    gated_metadata: MetadataAccesses = field(default_factory=MetadataAccesses)
    skipped_metadata: MetadataAccesses = field(default_factory=MetadataAccesses)


def represented(dense: Accesses, share: float, read_write: bool) -> Accesses:
    """Return the accesses to a tile that has metadata: to its nonzeros, `share` of its words, alone."""

    def nonzero(words: int) -> int:
        return words - math.floor(words * (1 - min(1.0, share)))  # doubles may be a hair above 1

    reads, fills, updates = dense
    return Accesses(nonzero(reads), nonzero(fills), nonzero(updates) if read_write else updates)


def metadata_accesses(expected: Sequence[Units], dense: Accesses, tile_words: int) -> MetadataAccesses:
    """Return the metadata that moves: that of a whole tile as often as its words move."""

    def moved(words: int) -> tuple[RankWords, ...]:
        times = words / tile_words
        return tuple((math.ceil(u.metadata * times), math.ceil(u.payload * times)) for u in expected)

    return MetadataAccesses(moved(dense.reads), moved(dense.fills), moved(dense.updates))


@dataclass(frozen=True)
class Unit:
    """What saves accesses to one dataspace at one level.

    Parameters
    ----------
    saved
        By gating or skipping; None if it saves instances alone.
    instances
        Share of the instances below that are not needed.
    """

    saved: Saved | None
    instances: float = 0.0

    @property
    def probability(self) -> float:
        """Share of the accesses farther in that there is no need for."""
        return self.instances if self.saved is None else self.saved.probability

    @property
    def computed(self) -> float:
        """Share of the computations that there is no need for."""
        if self.saved is None or self.saved.computed is None:
            return self.probability
        return self.saved.computed


@dataclass(frozen=True)
class Combined:
    """What is left of a dataspace.

    Parameters
    ----------
    moved
        By position of the level.
    unit
        The innermost unit, whose useless accesses are useless computations, too; None without one.
    """

    moved: dict[int, Moved]
    unit: Unit | None


def combine(
    levels: Mapping[int, Moved],
    units: Mapping[int, Unit],
    read_write: bool,
    defects: bool,
) -> Combined:
    """Apply the units of all levels to one dataspace, from the outermost one in.

    A unit cuts off what lies farther in, up to the next unit. That one saves what is still useless of what
    reaches it.

    Parameters
    ----------
    levels
        By position, what a level moves without any unit.
    units
        By position; a unit that saves instances may stand where the dataspace is not kept.
    read_write
        Whether the dataspace is an output.
    defects
        Whether to count as Timeloop does where that is wrong (docs/sparse.md).
    """
    left, done = dict(levels), dict[int, Moved]()
    places = sorted({*levels, *units})
    last = None
    for number, place in enumerate(places):
        if place not in units:
            continue
        last = unit = units[place]
        outer_ranks = len(left[place].metadata.reads) if place in left else 0
        following = next((p for p in places[number + 1 :] if p in units), places[-1])
        for inner in (p for p in places[number + 1 :] if p <= following and p in left):
            left[inner] = _without_cut(left[inner], unit, outer_ranks, defects)
        if place not in done and place in left and unit.saved is not None:
            done[place] = _locally(left, place, unit, unit.probability, read_write, defects)
        inner_unit = units.get(following)
        if following > place and following in left and inner_unit is not None and inner_unit.saved:
            rest = _remaining(inner_unit.probability, unit.probability, defects)
            base = {**left, following: _with_updates_read(left[following])} if defects else left
            done[following] = _locally(base, following, inner_unit, rest, read_write, defects)
    finished = {place: done.get(place, left[place]) for place in levels}
    return Combined(finished, last)


def _remaining(own: float, outer: float, defects: bool) -> float:
    """Share that is useless of what an outer unit lets through; the outer one's cases are among the own."""
    if outer >= 1:
        return 0.0
    rest = 1 - (1 - own) / (1 - outer)
    return rest if defects else max(0.0, rest)


def _without_cut(moved: Moved, unit: Unit, outer_ranks: int, defects: bool) -> Moved:
    """Return what is left without the accesses that a unit farther out has cut, which nobody makes."""
    share, (reads, fills, updates) = unit.computed, moved.data
    data = Accesses(
        reads - math.floor(reads * share),
        fills - math.floor(fills * unit.probability),
        updates - math.floor(updates * share),
    )
    ranks = len(moved.metadata.reads)
    if not defects:
        cut = MetadataAccesses(*(_ranks_cut(words, share, ranks) for words in _lists(moved.metadata)))
        return replace(moved, data=data, metadata=cut)
    lowest = 1 if outer_ranks == 1 else 0
    metadata = replace(
        moved.metadata,
        reads=_ranks_cut(moved.metadata.reads, share, lowest),
        fills=_ranks_cut(moved.metadata.fills, share, lowest),
    )
    return replace(moved, data=data, metadata=metadata)


def _lists(metadata: MetadataAccesses) -> tuple[tuple[RankWords, ...], ...]:
    return metadata.reads, metadata.fills, metadata.updates


def _ranks_cut(ranks: Sequence[RankWords], share: float, count: int) -> tuple[RankWords, ...]:
    """Cut a share of the words of the lowest `count` ranks."""
    saved = _of_share(ranks, share, count)
    return tuple((a - c, b - d) for (a, b), (c, d) in zip(ranks, saved, strict=True))


def _of_share(ranks: Sequence[RankWords], share: float, count: int) -> tuple[RankWords, ...]:
    return tuple(
        (math.floor(a * share), math.floor(b * share)) if place < count else (0, 0)
        for place, (a, b) in enumerate(ranks)
    )


def _with_updates_read(moved: Moved) -> Moved:
    """Read as much metadata as is updated: Timeloop's slip at a unit with another one outside."""
    return replace(moved, metadata=replace(moved.metadata, reads=moved.metadata.updates))


_WRAP = 2**64


def _locally(
    left: Mapping[int, Moved], place: int, unit: Unit, share: float, read_write: bool, defects: bool
) -> Moved:
    """Gate or skip a share of the reads and updates of a level, and of the metadata that goes inwards."""
    moved = left[place]
    assert unit.saved is not None
    child = min((p for p in left if p > place), default=None)
    own = len(moved.metadata.reads)
    ranks = own if child is None else min(own, len(left[child].metadata.reads))
    reads, fills, updates = moved.data
    useless = Accesses(
        math.ceil(reads * share) if read_write else math.floor(reads * share), 0, math.floor(updates * share)
    )
    kept = Accesses(reads - useless.reads, fills, updates - useless.updates)
    if defects:
        useless = Accesses(*(words % _WRAP for words in useless))
    metadata = moved.metadata
    saved = MetadataAccesses(
        _of_share(metadata.reads, share, ranks), (), _of_share(metadata.updates, share, ranks)
    )
    rest = replace(
        metadata,
        reads=_ranks_cut(metadata.reads, share, ranks),
        updates=_ranks_cut(metadata.updates, share, ranks),
    )
    if unit.saved.skips:
        return replace(moved, data=kept, skipped=useless, metadata=rest, skipped_metadata=saved)
    return replace(moved, data=kept, gated=useless, metadata=rest, gated_metadata=saved)
