"""The choices that the rules of a mapspace leave: factors, sides of fanouts, levels that keep dataspaces."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from model.extents import ANY, PERFECT, Extents, Factors
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules
from model.numbers import subsets


def allowed_factors(
    rules: Iterable[FactorRule], dim: str, bound: int, kind: Factors = PERFECT
) -> Sequence[int]:
    """Return the factors of `bound` that a node's rules allow to a dimension, ascending; a range of any."""
    if kind == ANY:
        least, most = factor_range(rules, dim, bound)
        return range(least, most + 1)
    of_dim = [rule for rule in rules if rule.dim == dim]
    factors = Extents(bound, kind).values
    return tuple(factor for factor in factors if all(rule.allows(factor) for rule in of_dim))


def factor_range(rules: Iterable[FactorRule], dim: str, bound: int) -> tuple[int, int]:
    """Return the least and the largest factor that a node's rules allow where loops may have any factors.

    The first exceeds the second if there is none.
    """
    own = [rule for rule in rules if rule.dim == dim]
    least = max([1, *(rule.value for rule in own if rule.relation != "<=")])
    return least, min([bound, *(rule.value for rule in own if rule.relation != ">=")])


@dataclass(frozen=True)
class SideOrder:
    """The order of a fanout's dimensions: the first `split` lie along X, the others along Y."""

    inner: tuple[str, ...]
    between: tuple[str, ...]  # in any order
    outer: tuple[str, ...]
    split: int | None  # dimensions along X, of bound 1 or not; None leaves any number

    @classmethod
    def of(cls, rules: SpatialRules, dims: Sequence[str]) -> SideOrder:
        """Return the order that `rules` leave to all dimensions of a problem."""
        placed = {*rules.inner, *rules.outer, *rules.uncounted}
        between = tuple(dim for dim in dims if dim not in placed)
        return cls(rules.inner, between, rules.outer, rules.split)

    def free(self, live: Collection[str]) -> tuple[str, ...]:
        """Return the `live` dimensions that may lie along either side, in the problem's order."""
        return tuple(dim for dim in self.between if dim in live)

    def sets_along_x(self, live: Collection[str]) -> Iterator[tuple[str, ...]]:
        """Yield the sets of `live` dimensions that may lie along X, by rising split; some of them twice.

        Other dimensions, whose spatial loops are 1, take their places in the order, and no room.
        """
        free = self.free(live)
        places = len(self.inner) + len(self.between) + len(self.outer)
        for split in range(places + 1) if self.split is None else (self.split,):
            yield from self._first(split, live, free)

    def _first(self, split: int, live: Collection[str], free: Sequence[str]) -> Iterator[tuple[str, ...]]:
        past_inner = max(0, split - len(self.inner))
        middle = min(past_inner, len(self.between))
        ends = (*self.inner[:split], *self.outer[: past_inner - middle])
        named = tuple(dim for dim in ends if dim in live)
        idle = len(self.between) - len(free)
        for count in range(max(0, middle - idle), min(middle, len(free)) + 1):
            yield from ((*named, *chosen) for chosen in combinations(free, count))


def keep_options(rules: KeepRules, level: int, dataspace: str) -> tuple[bool, ...]:
    """Return whether a storage level may keep a dataspace: True, False, both, or none where rules conflict.

    The outermost level is where data come from: it keeps what it is not told to bypass.
    """
    bypasses = dataspace in rules.bypass
    keeps = dataspace in rules.keep or (level == 0 and not bypasses)
    if keeps and bypasses:
        return ()
    return (True,) if keeps else (False,) if bypasses else (True, False)


@dataclass(frozen=True)
class KeepChoice:
    """What the rules on keeping leave to one dataspace; levels are positions in ``Architecture.levels``."""

    forced: frozenset[int]  # levels that keep it in any case
    free: tuple[int, ...]  # those that may, outermost first

    @classmethod
    def of(cls, rules: Sequence[KeepRules], dataspace: str) -> KeepChoice | None:
        """Return what the rules of all levels leave, None if those of one level contradict each other."""
        options = [keep_options(own, level, dataspace) for level, own in enumerate(rules)]
        if () in options:
            return None
        forced = frozenset(level for level, allowed in enumerate(options) if allowed == (True,))
        return cls(forced, tuple(level for level, allowed in enumerate(options) if len(allowed) == 2))


def keep_sets(mapspace: Mapspace, dataspace: str) -> Iterator[frozenset[int]]:
    """Yield the sets of levels that may keep a dataspace, by rising size; none where rules conflict."""
    choice = KeepChoice.of(mapspace.keep, dataspace)
    if choice is None:
        return
    for chosen in subsets(choice.free):
        kept = choice.forced.union(chosen)
        if kept and all(group.allows(dataspace, kept) for group in mapspace.parallel):
            yield kept
