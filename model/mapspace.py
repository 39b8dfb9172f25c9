"""The mapspace: a problem, an architecture, and what the user allows each node to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from model.architecture import Architecture
from model.note import Note
from model.problem import Problem
from model.source_ref import SourceRef

Relation = Literal["=", "<=", ">="]


@dataclass(frozen=True, slots=True)
class FactorRule:
    """``factor(dim) relation value`` for one node; several rules on one dimension all hold.

    ``stored`` is the dataspace for whose sake the rule is there: see ``KeepRules.whole``.
    """

    dim: str
    relation: Relation
    value: int
    source: SourceRef | None = None
    stored: str | None = field(default=None, compare=False)

    def allows(self, factor: int) -> bool:
        """Whether `factor` satisfies this rule."""
        if self.relation == "=":
            return factor == self.value
        return factor <= self.value if self.relation == "<=" else factor >= self.value


@dataclass(frozen=True)
class TemporalRules:
    """What a storage level's temporal loops may be.

    ``inner`` lists dimensions that are innermost, in that order (innermost first); ``outer`` lists
    those that are outermost, in order, the last one being the outermost loop. Loops over the other
    dimensions lie between them in any order. Loops of bound 1 do not count.
    """

    factors: tuple[FactorRule, ...] = ()
    inner: tuple[str, ...] = ()
    outer: tuple[str, ...] = ()
    source: SourceRef | None = None


@dataclass(frozen=True)
class SpatialRules:
    """What a fanout's spatial loops may be.

    The full order of the dimensions is ``inner``, then the dimensions in neither list (in any
    order), then ``outer``; ``uncounted`` dimensions (unlisted, and fixed to 1) take no place in it.
    The first `split` dimensions of the full order lie along X, the others along Y; None leaves the
    split free. Loops of bound 1 take their place in the order but need no hardware.
    """

    factors: tuple[FactorRule, ...] = ()
    inner: tuple[str, ...] = ()
    outer: tuple[str, ...] = ()
    uncounted: frozenset[str] = frozenset()
    split: int | None = None
    source: SourceRef | None = None
    split_source: SourceRef | None = None


@dataclass(frozen=True)
class KeepRules:
    """Dataspaces that a storage level must keep and must bypass; the others are free.

    ``sources`` pairs dataspaces with the places that ask for it, where there are any. ``settled``
    are those that a ``!Parallel`` has to settle one way or the other: no mapspace leaves them free.
    ``whole`` are those of ``keep`` that the level, in all its instances together, stores as a whole:
    factor rules keep temporal loops over their dimensions from the levels outside.
    """

    keep: frozenset[str] = frozenset()
    bypass: frozenset[str] = frozenset()
    source: SourceRef | None = None
    sources: tuple[tuple[str, SourceRef], ...] = field(default=(), compare=False)
    settled: frozenset[str] = field(default=frozenset(), compare=False)
    whole: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True)
class ParallelGroup:
    """Storage levels that are branches of one ``!Parallel``: a dataspace is kept in at most one.

    ``levels`` are positions in ``Architecture.levels``. With ``may_skip`` a dataspace may pass by
    all of them (the group has a ``!Nothing`` branch); without, each is kept in exactly one.
    """

    levels: tuple[int, ...]
    may_skip: bool = False

    def allows(self, kept: frozenset[int]) -> bool:
        """Whether a dataspace may be kept in the storage levels `kept`, as far as the branches matter."""
        count = len(kept.intersection(self.levels))
        return count == 1 or (count == 0 and self.may_skip)


@dataclass(frozen=True)
class Mapspace:
    """Everything that decides which mappings are allowed and what they cost.

    ``temporal`` and ``keep`` run along ``architecture.levels``, ``spatial`` along
    ``architecture.fanouts``. ``min_parallelism`` is the least number of arithmetic units in use.
    """

    problem: Problem
    architecture: Architecture
    temporal: tuple[TemporalRules, ...]
    spatial: tuple[SpatialRules, ...]
    keep: tuple[KeepRules, ...]
    parallel: tuple[ParallelGroup, ...] = ()
    min_parallelism: Fraction = Fraction(0)
    objectives: tuple[str, ...] = ("edp",)
    notes: tuple[Note, ...] = ()
    min_parallelism_source: SourceRef | None = field(default=None, compare=False)
