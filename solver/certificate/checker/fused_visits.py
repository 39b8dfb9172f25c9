"""Visits of an Einsum that are alike as one mapspace; nothing stays from one visit to the next."""

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from solver.certificate.checker.claims import (
    EXACT,
    Array,
    CannotCheckError,
    Json,
    Levels,
    Mask,
    Problem,
    need,
)
from solver.certificate.checker.perfect import Access, Measure, Space
from solver.certificate.checker.remainders import Uneven

if TYPE_CHECKING:
    from solver.certificate.checker.fused_einsums import Einsum

Numbers = tuple[int, ...]
HeldTile = tuple[int, int, int]  # dataspace, words moved, words that are touched first
Deep = tuple[tuple[int, int], ...]  # dataspaces, and numbers of memories, of which the outermost on chip is 1


class Kind(NamedTuple):
    """Visits of an Einsum that are alike."""

    bounds: Numbers  # of each
    trips: Numbers  # how many there are, per dimension
    above: frozenset[int]  # dataspaces above the nests
    held: tuple[HeldTile, ...]
    homes: Numbers | None = None  # on-chip levels that keep the outputs (None: any)
    loose: bool = False  # bandwidths are left out
    deep: Deep = ()  # what is stored in memories farther in


UNLIMITED = {"bandwidths": dict.fromkeys(("read", "write", "shared")), "ports": []}


class Visits(Problem):
    """What mapspaces of visits have in common, whatever factors their loops have.

    Dataspaces `above` the nests come from the on-chip memory, without room. Bandwidths carry the words of
    held tiles besides. Words of an output that an earlier visit has touched are not touched for the first
    time: only the trips over its own dimensions bring new ones.
    """

    def repeat(self, einsum: "Einsum", kind: Kind) -> None:
        """Count all of the visits."""
        self.visits, self.outside = prod(kind.trips), kind.above.union(v for v, _ in kind.deep)
        self.fresh: list[int] = [
            prod(n for d, n in enumerate(kind.trips) if d in dims) for dims in einsum.dims
        ]
        self.computes, self.arithmetic = self.computes * self.visits, self.arithmetic * self.visits
        self.latency = self.latency * self.visits
        most = max([self.computes, self.latency, *(space.most * self.visits for space in self.spaces)])
        need(most * len(self.spaces) < EXACT, "the problem is too large", CannotCheckError)
        self.loads: Counter[tuple[int, int, str]] = Counter()
        at = dict(zip(einsum.space.stores, self.stores, strict=True))
        for v, moved, first in kind.held:
            read, filled, written, drained = einsum.shifted(v, moved, first)
            self.loads[0, v, "read"] += read
            self.loads[0, v, "write"] += written
            self.loads[at[einsum.home], v, "write"] += filled
            self.loads[at[einsum.home], v, "read"] += drained
            for p, down, up in einsum.tolls(v):
                self.loads[at[p], v, "read"] += read * down
                self.loads[at[p], v, "write"] += written * up

    def arranged(self, mask: Mask, single: bool = False) -> bool:
        """The same of places of a memory; any number of tiles may be above the nests."""
        own = tuple(() if v in self.outside else kept for v, kept in enumerate(mask))
        crowded = single and any(max(memory.kept(own)) > 1 for memory in self.memories)
        return not crowded and super().arranged(mask)


class PerfectVisits(Visits, Space):
    """Visits whose loops have perfect factors."""

    def __init__(self, einsum: "Einsum", kind: Kind, doc: Json) -> None:
        super().__init__(doc)
        self.repeat(einsum, kind)
        self.steps = self.steps * self.visits

    def accesses(self, v: int, *counts: Any) -> Iterator[Access]:
        """Accesses of all visits; those of the arithmetic are counted over all of them already."""
        for source, *way, times, first in super().accesses(v, *counts):
            yield source, *way, times * (1 if source is None else self.visits), first * self.fresh[v]

    def level_cycles(self, p: int, counts: Mapping[Any, Any], steps: int) -> Fraction | int:
        """Cycles that level `p` needs, with the words of held tiles."""
        return super().level_cycles(p, Counter(counts) + self.loads, steps)

    def floor_of(self, v: int, kept: Levels, measure: Measure) -> Array:
        """The floor with the words of held tiles."""
        ways = [(p, kind, words) for (p, own, kind), words in self.loads.items() if own == v]
        loads = [words * self.rates(v, p, kind).get(measure, 0) for p, kind, words in ways if measure]
        return np.asarray(super().floor_of(v, kept, measure) + float(sum(loads)))


class UnevenVisits(Visits, Uneven):
    """Visits whose loops may have remainders."""

    def __init__(self, einsum: "Einsum", kind: Kind, doc: Json) -> None:
        super().__init__(doc)
        self.repeat(einsum, kind)


def visits_as_mapspace(einsum: "Einsum", kind: Kind, doc: Json) -> PerfectVisits | UnevenVisits:
    """The mapspace of visits, given its canonical problem."""
    return (PerfectVisits if doc["factors"] == "perfect" else UnevenVisits)(einsum, kind, doc)
