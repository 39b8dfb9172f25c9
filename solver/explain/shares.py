"""Sizes of hardware that shares depend on: neither more nor less of it is better by itself.

A least parallelism is a share of all units, a least utilization one of a capacity. A larger size has more
room, and its share asks for more. The nearest size that suffices is closed in on from the one that does
not: what the share of the next size asks for needs some room, the share of that room asks for more, and so
on until both agree. No size in between suffices.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from model.architecture import StorageLevel
from solver.explain.constraints import Capacity, Constraint, Mesh, Parallelism, Utilization
from solver.explain.feasibility import Feasibility
from solver.explain.nearest import nearest, with_value


@dataclass(frozen=True)
class Sized:
    """Hardware, or what it is to be used for, of a size on which several constraints depend.

    Parameters
    ----------
    below, above
        The next sizes on either side of the size as it is now.
    limits
        The constraints that a size comes to: more of it allows more.
    shares
        The constraints that ask for a share of a size: more of it allows less.
    needed
        The size that has room for a value of the first of `limits`.
    """

    below: int
    above: int
    limits: Callable[[int], list[Constraint]]
    shares: Callable[[int], list[Constraint]]
    needed: Callable[[int], int] = lambda value: value

    def at(self, size: int) -> list[Constraint]:
        """Return all that a size comes to."""
        return [*self.limits(size), *self.shares(size)]


def sized_mesh(rest: Collection[Constraint], meshes: Sequence[Mesh]) -> Sized:
    """Return the children of meshes that are written together; `rest` has a least parallelism, if any."""
    now = meshes[0].size
    asked = [c for c in rest if isinstance(c, Parallelism)]

    def limits(size: int) -> list[Constraint]:
        return [with_value(mesh, size) for mesh in meshes]

    def shares(size: int) -> list[Constraint]:
        growth = Fraction(size, now) ** len(meshes)
        return [replace(c, units=c.units * growth) for c in asked]

    return Sized(now - 1, now + 1, limits, shares)


def sized_storages(capacities: Sequence[Capacity], filled: Collection[int]) -> Sized:
    """Return the size of storages whose capacities are written together, each in what it is given in.

    Levels in `filled` are to be filled to their least utilization.
    """
    storages = [each.storage for each in capacities]

    def limits(size: int) -> list[Constraint]:
        return [_resized(each, size) for each in capacities]

    def shares(size: int) -> list[Constraint]:
        resized = [_resized(each, size) for each in capacities if each.level in filled]
        return [Utilization(each.level, each.storage) for each in resized if each.words]

    def needed(words: int) -> int:
        return max(
            math.ceil(words * storage.multiple_buffering / unit_words(storage)) for storage in storages
        )

    words, unit = storages[0].size_words or 0, unit_words(storages[0])
    return Sized((words - 1) // unit, words // unit + 1, limits, shares, needed)


def unit_words(storage: StorageLevel) -> int:
    """Return the words in one unit of what a capacity is given in: rows, or single words."""
    if storage.rows_per_word is None:
        return 1
    words = 1 / storage.rows_per_word
    return int(words) if words.denominator == 1 and storage.reserved_words % words == 0 else 1


def sized_utilizations(utilizations: Sequence[Utilization]) -> Sized:
    """Return what is to be filled at the least, in words of the first of what is written together."""
    first = utilizations[0]

    def shares(words: int) -> list[Constraint]:
        share = Fraction(words, first.storage.usable_words or 1)
        return [
            Utilization(utilization.level, replace(utilization.storage, min_utilization=share))
            for utilization in utilizations
        ]

    return Sized(first.words - 1, first.words + 1, lambda _: [], shares)


def next_larger(feasibility: Feasibility, rest: Collection[Constraint], sized: Sized) -> int | None:
    """Return the least larger size that suffices, None if none was found.

    `rest` is what holds whatever the size is; with the size as it is now it is infeasible.
    """
    size = sized.above
    while True:
        first, *others = sized.limits(size - 1)
        suffices = nearest(feasibility, [*rest, *sized.shares(size)], first, others)
        if suffices is None or not suffices.exact:
            return None
        size = max(size, sized.needed(suffices.value))
        if feasibility.decide([*rest, *sized.at(size)]).witness is not None:
            return size
        size += 1


def next_smaller(feasibility: Feasibility, rest: Collection[Constraint], sized: Sized) -> int | None:
    """Return the largest smaller size that suffices, None if none was found; `rest` as for `next_larger`."""

    def fails(*asked: Constraint) -> bool:
        return feasibility.decide([*rest, *asked]).witness is None

    size = sized.below
    while size > 0 and fails(*sized.at(size)):
        limits = sized.limits(size)
        if fails(*limits):
            return None
        size = bisect_left(range(size), True, lo=1, key=lambda less: fails(*limits, *sized.shares(less))) - 1
    return size if size > 0 else None


def _resized(capacity: Capacity, size: int) -> Capacity:
    storage = capacity.storage
    return Capacity(capacity.level, replace(storage, size_words=size * unit_words(storage)))
