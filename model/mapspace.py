"""The mapspace: a problem, an architecture, and what the user allows each node to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from operator import eq, ge, le
from typing import TYPE_CHECKING, Any, Literal, overload

from model.architecture import Architecture, Fanout, StorageLevel
from model.counting import EXACT, Counting, CountingRule, rule_of
from model.extents import PERFECT, Extents, Factors
from model.note import Note
from model.objective import ENERGY, LATENCY
from model.problem import Dataspace, Problem
from model.rules import Locality, Quantity, Rule, RuleScope, parse_rule
from model.source_ref import SourceRef
from model.sparsity import Sparsity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Relation = Literal["=", "<=", ">="]
_COMPARISONS: dict[Relation, Callable[[Any, int], Any]] = {"=": eq, "<=": le, ">=": ge}

_LONGEST_LINE = 110
"""Characters of a line about a mapspace."""

NOT_SIMPLE = (
    "a rule must be about the tile at one level or the factors of one fanout, "
    "or limit energy or cycles from above"
)
"""What searches ask of rules."""

UNSEARCHED_ORDER = (
    "this search supports memories in the order of the hardware only (force_memory_hierarchy_order: False)"
)
"""What searches say that do not go through the orders of memories."""


@dataclass(frozen=True, slots=True)
class FactorRule:
    """``factor(dim) relation value`` for one node; several rules on one dimension all hold.

    Parameters
    ----------
    relation, value
        What the bound of the node's loop over `dim` is compared with; the bound is 1 without a loop.
    stored
        The dataspace for whose sake the rule is there: see ``KeepRules.whole``. None for any other rule.
    is_settled
        Whether the hardware leaves nothing else: no user could drop the rule.
    """

    dim: str
    relation: Relation
    value: int
    source: SourceRef | None = None
    stored: str | None = field(default=None, compare=False)
    is_settled: bool = field(default=False, compare=False)

    @overload
    def allows(self, factor: int) -> bool: ...
    @overload
    def allows(self, factor: NDArray[np.int64]) -> NDArray[np.bool_]: ...
    def allows(self, factor: int | NDArray[np.int64]) -> bool | NDArray[np.bool_]:
        """Whether a factor, or each factor of an array, satisfies this rule."""
        allowed: bool | NDArray[np.bool_] = _COMPARISONS[self.relation](factor, self.value)
        return allowed


@dataclass(frozen=True)
class TemporalRules:
    """What a storage level's temporal loops may be.

    Parameters
    ----------
    inner, outer
        Dimensions that are innermost, innermost first, and outermost, the last one being the outermost loop.
        Loops over all others lie between them in any order. Loops of bound 1 do not count.
    source
        Where the order is written.
    """

    factors: tuple[FactorRule, ...] = ()
    inner: tuple[str, ...] = ()
    outer: tuple[str, ...] = ()
    source: SourceRef | None = None


@dataclass(frozen=True)
class SpatialRules:
    """What a fanout's spatial loops may be.

    The full order of the dimensions is `inner`, then the dimensions in neither list (in any order),
    then `outer`. Loops of bound 1 take their place in the order but need no hardware.

    Parameters
    ----------
    uncounted
        Dimensions that are unlisted and fixed to 1; they take no place in the order.
    split
        Number of dimensions, from the first of the full order, that lie along X; the others lie along
        Y. None leaves the split free.
    source, split_source
        Where the order and the split are written.
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

    Parameters
    ----------
    keep, bypass
        A name in both leaves no mapping.
    source, sources
        Where the constraint is written, and pairs of a dataspace and the place that asks for it.
    settled
        Those that a ``!Parallel`` has to settle one way or the other, and all of a level with tolls: no
        mapspace leaves them free.
    whole
        Those of `keep` that the level, in all its instances together, stores as a whole: factor rules
        keep temporal loops over their dimensions from the levels outside.
    """

    keep: frozenset[str] = frozenset()
    bypass: frozenset[str] = frozenset()
    source: SourceRef | None = None
    sources: tuple[tuple[str, SourceRef], ...] = field(default=(), compare=False)
    settled: frozenset[str] = field(default=frozenset(), compare=False)
    whole: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True)
class ParallelGroup:
    """Storage levels of which at most one keeps a dataspace: branches of a ``!Parallel``, places of a memory.

    `levels` are positions in ``Architecture.levels``. Without `may_skip`, which a ``!Nothing`` branch
    gives, a dataspace is kept in exactly one; with it, those in `always` are.
    """

    levels: tuple[int, ...]
    may_skip: bool = False
    always: frozenset[str] = frozenset()

    def skips(self, dataspace: str) -> bool:
        """Whether none of the levels need keep a dataspace."""
        return self.may_skip and dataspace not in self.always

    def allows(self, dataspace: str, kept: frozenset[int]) -> bool:
        """Whether exactly the levels `kept` may keep a dataspace, as far as these levels matter."""
        count = len(kept.intersection(self.levels))
        return count == 1 or (count == 0 and self.skips(dataspace))


@dataclass(frozen=True)
class JointRules:
    """What the places of one memory may do together, see `model.places`.

    Parameters
    ----------
    levels
        The places as positions in ``Architecture.levels``, outermost first.
    temporal
        Holds for their loops together: factors multiply, and the order binds the joined loops. The rules of
        each place are those that follow for it alone.
    keep
        What the memory keeps and bypasses, at whichever place.
    """

    levels: tuple[int, ...]
    temporal: TemporalRules
    keep: KeepRules

    def allow(self, loops: Sequence[Mapping[str, int]]) -> bool:
        """Whether the places may have loops over these dimensions, whatever their order at each place.

        Parameters
        ----------
        loops
            By place, outermost first: iterations by dimension, above 1.
        """
        products: dict[str, int] = {}
        for own in loops:
            for dim, bound in own.items():
                products[dim] = products.get(dim, 1) * bound
        dims = {rule.dim for rule in self.temporal.factors}
        if not all(self.allows_product(dim, products.get(dim, 1)) for dim in dims):
            return False
        return all(self.follows(outer, inner) for outer, inner in combinations(loops, 2))

    def allows_product(self, dim: str, factor: int) -> bool:
        """Whether the factors of a dimension at all places may multiply to `factor`."""
        return all(rule.allows(factor) for rule in self.temporal.factors if rule.dim == dim)

    def follows(self, outer: Collection[str], inner: Collection[str]) -> bool:
        """Whether loops over some dimensions at an outer place may lie outside of those at an inner one."""
        least = min(map(self.rank, outer), default=math.inf)
        return max(map(self.rank, inner), default=-math.inf) <= least

    def rank(self, dim: str) -> int:
        """Where the order has the loops over a dimension: the innermost ones have the least rank."""
        inner, outer = self.temporal.inner, self.temporal.outer
        if dim in inner:
            return inner.index(dim)
        return len(inner) + 1 + outer.index(dim) if dim in outer else len(inner)


@dataclass(frozen=True)
class Mapspace:
    """Everything that decides which mappings are allowed and what they cost.

    Parameters
    ----------
    temporal, keep, spatial
        Rules along ``architecture.levels``, and those of the fanouts along ``architecture.fanouts``.
    min_parallelism
        Least number of arithmetic units in use.
    objectives
        Out of `model.objective.OBJECTIVES`; each decides among mappings that are equal in those before.
    max_temporal_loops
        Most temporal loops with a bound above 1 in all levels together; None for no limit. Searches do
        not know it: their results are checked (`solver.result.within_loop_limit`).
    counting
        How moved words and cycles are counted, out of `model.counting.PRICED_COUNTINGS`.
    factors
        Which factors loops may have, out of `model.extents.FACTORS`. What reads specs asks for any unless
        they say otherwise; here they are perfect if nothing is said.
    sparsity
        Densities, formats, and what is gated or skipped; None for dense data. Searches do not know it.
    rules
        Conditions of the user's own, all of which hold (docs/constraints.md). Searches know simple ones only:
        see `Rule.is_simple`.
    joint
        Rules of the memories that have several places, outermost first.
    free_order
        Names of the memories whose tiles of one dataspace may lie above those of others in memories outside
        of them, or below those in memories inside. Each of its orders is a mapspace of its own
        (`model.orders`); here the memories are in the order of the hardware.
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
    max_temporal_loops: int | None = None
    counting: Counting = EXACT
    factors: Factors = PERFECT
    sparsity: Sparsity | None = None
    rules: tuple[Rule, ...] = ()
    joint: tuple[JointRules, ...] = ()
    free_order: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        """Return what is mapped onto what in a few lines; notebooks print it."""
        problem, architecture = self.problem, self.architecture
        sizes = ", ".join(f"{dim}={bound}" for dim, bound in problem.bound.items())
        nodes = ", ".join((*(node.name for node in architecture.nodes), architecture.compute.name))
        further = f", {len(self.rules)} user-defined constraints" if self.rules else ""
        searched = f"factors {self.factors}, objectives {', '.join(self.objectives)}"
        lines = (
            f"Mapspace of {problem.name or 'an Einsum'} on {architecture.name or 'an architecture'}",
            f"  dimensions: {sizes}",
            f"  dataspaces: {', '.join(space.name for space in problem.dataspaces)}",
            f"  nodes: {nodes}",
            f"  counting {self.counting}, {searched}{further}",
        )
        return "\n".join(line[:_LONGEST_LINE] + "..." * (len(line) > _LONGEST_LINE) for line in lines)

    def where(self, *texts: str) -> Mapspace:
        """Return the mappings of this mapspace for which further rules hold.

        Parameters
        ----------
        texts
            Conditions, such as ``tile(buffer, K) % 16 == 0`` or ``keeps(buffer, Weights)``; see
            docs/constraints.md.

        Raises
        ------
        model.syntax.ExpressionError
            A ValueError: if one is no condition on mappings of this problem and architecture.
        """
        scope = RuleScope(self.problem, self.architecture)
        return replace(self, rules=(*self.rules, *(parse_rule(text, scope) for text in texts)))

    @property
    def counting_rule(self) -> CountingRule:
        """The rule by which moved words and cycles are counted."""
        return rule_of(self.counting)

    def extents(self, dim: str) -> Extents:
        """Return the extents that tiles of a dimension may have."""
        return Extents(self.problem.bound[dim], self.factors)

    def check_searchable(self, simple_rules: bool = False, by_bounds: bool = False) -> None:
        """Check that searches know all of it; what they do not know, only the cost model prices.

        Parameters
        ----------
        simple_rules
            Whether the search knows simple user-defined rules (`Rule.is_simple`).
        by_bounds
            Whether it is the search by bounds, which knows more than others: memories with several places,
            ports, and AccelForge's rule where no windows of outputs slide and words are paid one by one.

        Raises
        ------
        ValueError
            If words are counted by a rule that is not general, a level has a `Port`, a memory has several
            places, factors may leave remainders that the rule does not count, or outputs have given first
            values that it does not count, data are sparse, the order of memories is free, or there are rules
            that the search does not know.
        """
        if self.free_order or self.architecture.has_own_order:
            raise ValueError(UNSEARCHED_ORDER)
        rule = self.counting_rule
        rule.check_given(self.problem)
        if not (rule.is_general or by_bounds):
            raise ValueError(f"mappings are not searched by the counting rule {self.counting!r}")
        if not rule.by_order:
            self._check_counted_by_place()
        ported = [level.name for level in self.architecture.levels if level.ports]
        if ported and not by_bounds:
            raise ValueError(f"reads and writes of {ported[0]!r} take different times: that is not searched")
        self._check_places(by_bounds)
        if self.factors != PERFECT and not rule.remainders:
            raise ValueError(f"remainders are not counted by the rule {self.counting!r}")
        if self.sparsity is not None:
            raise ValueError("mappings of sparse data are not searched")
        self._check_rules(simple_rules)

    def _check_counted_by_place(self) -> None:
        if any(space.read_write and self.has_windows(space) for space in self.problem.dataspaces):
            raise ValueError(f"sliding windows of outputs are not searched by the rule {self.counting!r}")
        for level in self.architecture.levels:
            blocks = [level.packing_of(space.name).block_size for space in self.problem.dataspaces]
            if max(blocks) > 1:
                raise ValueError(f"blocks of several words are not searched by the rule {self.counting!r}")

    def has_windows(self, space: Dataspace) -> bool:
        """Whether several loops move a dataspace along one rank, or one loop along several."""
        terms = [term.dim for rank in space.ranks for term in rank if self.problem.bound[term.dim] > 1]
        ranks = [sum(self.problem.bound[term.dim] > 1 for term in rank) for rank in space.ranks]
        steps = [abs(term.coefficient) for rank in space.ranks for term in rank]
        return max(ranks, default=0) > 1 or len(set(terms)) < len(terms) or max(steps, default=1) > 1

    def _check_places(self, known: bool) -> None:
        several = [level.memory for level in self.architecture.levels if level.memory is not None]
        if several and not (known and self.joint):
            raise ValueError(f"mappings with several places of {several[0]!r} are not searched")

    def _check_rules(self, simple_rules: bool) -> None:
        if self.rules and not simple_rules:
            raise ValueError("this search does not support user-defined constraints")
        for rule in self.rules:
            if not rule.is_simple:
                raise ValueError(f"the rule `{rule}` is not searched: {NOT_SIMPLE}")

    @property
    def has_simple_rules(self) -> bool:
        """Whether the search by bounds knows all user-defined rules."""
        return all(rule.is_simple for rule in self.rules)

    @property
    def cost_limits(self) -> tuple[tuple[str, int], ...]:
        """The most that user-defined rules let mappings cost, by objective: energy units or cycles."""
        found = (part.cost_limit for rule in self.rules for part in rule.parts)
        names = {"energy": ENERGY, "cycles": LATENCY}
        units = self.architecture.units_per_pj
        return tuple((names[own.quantity], own.in_units(units)) for own in found if own is not None)

    def rules_on(self, locality: Locality) -> tuple[Rule, ...]:
        """Return the parts of rules about one tile or one fanout, with figures of the hardware put in."""
        parts = (part for rule in self.rules for part in rule.parts)
        return tuple(part.given(self._hardware) for part in parts if part.locality == locality)

    @cached_property
    def _hardware(self) -> dict[Quantity, int]:
        """What rules may ask of the hardware alone."""
        children = {Quantity("fanout", own.name): own.size for own in self.architecture.fanouts}
        levels = (own for own in self.architecture.levels if own.usable_words is not None)
        return children | {Quantity("capacity", own.component): own.usable_words or 0 for own in levels}

    @cached_property
    def factor_rules(self) -> tuple[tuple[FactorRule, ...], ...]:
        """The rules on factors of each node, along ``architecture.nodes``."""
        temporal, spatial = iter(self.temporal), iter(self.spatial)
        return tuple(
            next(spatial).factors if isinstance(node, Fanout) else next(temporal).factors
            for node in self.architecture.nodes
        )


def toll_rules(
    level: StorageLevel, problem: Problem, source: SourceRef | None = None
) -> tuple[TemporalRules, KeepRules]:
    """Return the rules of a level with tolls: no loops, and just the dataspaces that pay there pass it."""
    paying, names = frozenset(dict(level.tolls)), frozenset(space.name for space in problem.dataspaces)
    loops = tuple(FactorRule(dim, "=", 1, source, is_settled=True) for dim in problem.dims)
    return TemporalRules(loops), KeepRules(paying, names - paying, source, settled=names)
