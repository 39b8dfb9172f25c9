"""How a tensor is cut: the spans of every rank, and all tiles as their product."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from model.tiling.operators import Shape, Window

NO_WINDOW = Window(1, 1)
MAX_SPANS = 1 << 20
"""Spans of a rank at most; more would be a mistake, or exhaust the memory."""


class TooManyTilesError(ValueError):
    """A rank would be cut into more than `MAX_SPANS` spans."""


@dataclass(frozen=True, slots=True)
class RankSpan:
    """Part of a rank: from `start` up to, not including, `stop`."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.stop - self.start


Cut = tuple[RankSpan, ...]
"""The spans of one rank, in order."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The tiles of a tensor: one for each choice of a span per rank, the last rank fastest."""

    cuts: tuple[Cut, ...]

    @property
    def counts(self) -> Shape:
        """Number of spans of each rank."""
        return tuple(map(len, self.cuts))

    @property
    def count(self) -> int:
        """Number of tiles."""
        return math.prod(self.counts)

    @property
    def first(self) -> Shape:
        """Shape of the first tile."""
        return tuple(cut[0].size for cut in self.cuts)

    @property
    def last(self) -> Shape:
        """Shape of the last tile."""
        return tuple(cut[-1].size for cut in self.cuts)

    @property
    def largest(self) -> Shape:
        """Shape that every tile fits into."""
        return tuple(max(span.size for span in cut) for cut in self.cuts)

    def indices(self) -> Iterator[Shape]:
        """Return the positions of the tiles in order, one number per rank."""
        return product(*map(range, self.counts))

    def spans(self, index: Shape) -> tuple[RankSpan, ...]:
        """Return the spans of the tile at a position, in elements of the whole tensor."""
        return tuple(cut[position] for cut, position in zip(self.cuts, index, strict=True))


def plain_cut(extent: int, tile: int) -> Cut:
    """Cut a rank into spans of `tile` elements that do not overlap; the last one holds the rest."""
    _check_number(extent, tile)
    return tuple(RankSpan(start, min(start + tile, extent)) for start in range(0, extent, tile))


def windowed_cut(extent: int, tile: int, window: Window, first: int | None = None) -> Cut:
    """Cut a rank for a sliding window, so that each window lies in one span.

    Neighbours overlap by ``window.halo`` (or leave elements out that no window covers). The first span has
    `first` elements, or is smaller than the others because the padding in front counts: it ends with a
    complete window.
    """
    _check_number(extent, max(1, tile - window.halo))
    if tile >= extent:
        return (RankSpan(0, extent),)
    if first is None:
        steps = (tile + window.before - window.field) // window.stride
        first = window.field + steps * window.stride - window.before
    spans = [RankSpan(0, first)]
    while (start := spans[-1].stop - window.halo) < extent and spans[-1].stop < extent:
        if start <= spans[-1].start:
            raise ValueError(f"tiles of {tile} do not advance with a halo of {window.halo}")
        spans.append(RankSpan(start, min(start + tile, extent)))
    return tuple(spans)


def windows_within(span: RankSpan, extent: int, window: Window) -> RankSpan:
    """Return which windows of a rank, counted from 0, can be computed from a span alone; perhaps none."""
    last = window.positions(extent)
    first = 0 if span.start == 0 else -(-(span.start + window.before) // window.stride)
    if span.stop < extent:
        last = (span.stop + window.before - window.field) // window.stride + 1
    return RankSpan(first, last)


def plain_grid(shape: Shape, tile: Shape) -> Grid:
    """Cut a tensor into tiles that do not overlap."""
    return Grid(tuple(plain_cut(extent, size) for extent, size in zip(shape, tile, strict=True)))


def windowed_grid(shape: Shape, tile: Shape, windows: tuple[Window, Window]) -> Grid:
    """Cut a tensor for windows that slide along its rows and columns."""
    along = (NO_WINDOW, *windows, NO_WINDOW)
    return Grid(tuple(map(windowed_cut, shape, tile, along)))


def _check_number(extent: int, advance: int) -> None:
    if extent // advance > MAX_SPANS:
        raise TooManyTilesError(
            f"{extent} elements would be cut into more than {MAX_SPANS} tiles along a rank"
        )
