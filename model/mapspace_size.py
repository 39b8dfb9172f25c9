"""How many choices a mapspace leaves, counted without enumerating them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from model.architecture import Fanout
from model.choices import KeepChoice, allowed_factors
from model.extents import ANY, Factors, tiles_of
from model.mapspace import FactorRule, KeepRules, Mapspace, ParallelGroup, SpatialRules, TemporalRules

LARGEST_COUNTED = 10**7
"""Bounds up to which factorizations with remainders are counted; above, their number is an upper limit."""


@dataclass(frozen=True, slots=True)
class MapspaceSize:
    """The numbers of choices of each kind; capacities and meshes are not looked at."""

    factorizations: int  # of all bounds, one factor per node; at most so many, see `LARGEST_COUNTED`
    orders: int  # of the temporal loops if every loop that may exceed 1 does
    splits: int  # of spatial loops between X and Y, in fanouts that have both
    keep_masks: int  # of the dataspaces that each level keeps

    @property
    def mappings(self) -> int:
        """Product of all choices, an upper limit on the number of different mappings."""
        return self.factorizations * self.orders * self.splits * self.keep_masks


def mapspace_size(mapspace: Mapspace) -> MapspaceSize:
    """Count the choices of a mapspace, 0 where rules conflict; ``min_parallelism`` is not looked at."""
    problem, architecture = mapspace.problem, mapspace.architecture
    slots, kind = mapspace.factor_rules, mapspace.factors
    bounds = list(zip(problem.dims, problem.bounds, strict=True))
    return MapspaceSize(
        factorizations=math.prod(_count_factorizations(dim, bound, slots, kind) for dim, bound in bounds),
        orders=math.prod(_orders(bounds, rules, kind) for rules in mapspace.temporal),
        splits=math.prod(
            _count_axis_splits(bounds, fanout, rules, kind)
            for fanout, rules in zip(architecture.fanouts, mapspace.spatial, strict=True)
        ),
        keep_masks=keep_masks(mapspace),
    )


def keep_masks(mapspace: Mapspace) -> int:
    """Count the choices of the dataspaces that each level keeps."""
    spaces = mapspace.problem.dataspaces
    return math.prod(_keep_masks(space.name, mapspace.keep, mapspace.parallel) for space in spaces)


def _count_factorizations(dim: str, bound: int, slots: Sequence[Sequence[FactorRule]], kind: Factors) -> int:
    """Count the ordered factorizations of `bound`, one factor a slot, by the tiles that remain outside."""
    if kind == ANY and bound > LARGEST_COUNTED:
        return math.prod(len(allowed_factors(rules, dim, bound, kind)) for rules in slots[1:])
    ways = Counter({bound: 1})
    for rules in reversed(slots):
        ways = _ways_after(dim, ways, rules, kind)
    return ways[1]


def _ways_after(
    dim: str, ways: Mapping[int, int], rules: Sequence[FactorRule], kind: Factors
) -> Counter[int]:
    """Count the ways to what remains after one more slot."""
    after: Counter[int] = Counter()
    for remaining, count in ways.items():
        for factor, alike in _kinds_of_factors(allowed_factors(rules, dim, remaining, kind), remaining):
            after[tiles_of(remaining, factor)] += count * alike
    return after


def _kinds_of_factors(factors: Sequence[int], bound: int) -> Iterator[tuple[int, int]]:
    """Yield a factor of each number of tiles that is left outside, and how many leave as many."""
    if not isinstance(factors, range):
        yield from ((factor, 1) for factor in factors)
        return
    factor = factors.start
    while factor < factors.stop:
        left = tiles_of(bound, factor)
        higher = tiles_of(bound, left - 1) if left > 1 else factors.stop
        yield factor, min(higher, factors.stop) - factor
        factor = higher


def _may_exceed_one(
    bounds: Iterable[tuple[str, int]], rules: Sequence[FactorRule], kind: Factors
) -> set[str]:
    """Return the dimensions whose factor may exceed 1."""
    allowed = ((dim, allowed_factors(rules, dim, bound, kind)) for dim, bound in bounds)
    return {dim for dim, factors in allowed if factors and factors[-1] > 1}


def _orders(bounds: Sequence[tuple[str, int]], rules: TemporalRules, kind: Factors) -> int:
    return math.factorial(
        len(_may_exceed_one(bounds, rules.factors, kind).difference(rules.inner, rules.outer))
    )


def _count_axis_splits(
    bounds: Sequence[tuple[str, int]], fanout: Fanout, rules: SpatialRules, kind: Factors
) -> int:
    if fanout.mesh_x == 1 or fanout.mesh_y == 1:
        return 1
    live = _may_exceed_one(bounds, rules.factors, kind)
    unlisted = {dim for dim, _ in bounds}.difference(rules.inner, rules.outer, rules.uncounted)
    free = len(unlisted & live)
    if rules.split is None:
        return len(live.intersection(rules.inner)) + (1 << free) + len(live.intersection(rules.outer))
    taken = rules.split - len(rules.inner)
    if not 0 < taken < len(unlisted):
        return 1
    idle = len(unlisted) - free
    return sum(math.comb(free, along_x) for along_x in range(max(0, taken - idle), min(free, taken) + 1))


def _keep_masks(dataspace: str, levels: Sequence[KeepRules], groups: Sequence[ParallelGroup]) -> int:
    """Count the sets of levels that may keep `dataspace`; the outermost level does unless it must not."""
    choice = KeepChoice.of(levels, dataspace)
    if choice is None:
        return 0
    forced, free = choice.forced, set(choice.free)
    grouped = {level for group in groups for level in group.levels}
    choices = 1 << len(free - grouped)
    for group in groups:
        choices *= _branch_choices(len(forced.intersection(group.levels)), group, free, dataspace)
    nowhere_allowed = not forced and all(group.skips(dataspace) for group in groups)
    return choices - 1 if nowhere_allowed else choices


def _branch_choices(forced: int, group: ParallelGroup, free: set[int], dataspace: str) -> int:
    if forced:
        return 1 if forced == 1 else 0
    return len(free.intersection(group.levels)) + (1 if group.skips(dataspace) else 0)
