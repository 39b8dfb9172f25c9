"""Spatial choices: what each fanout can unroll, and the classes of choices that cost the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from model.architecture import Fanout
from model.mapspace import SpatialRules
from model.numbers import divisors

Factors = tuple[int, ...]


@dataclass(frozen=True)
class FanoutChoice:
    """Factors of one fanout, per active dimension, and the dimensions that lie along X."""

    factors: Factors
    along_x: frozenset[int]


def fanout_choices(
    fanout: Fanout, rules: SpatialRules, all_dims: Sequence[str], active: Sequence[str], bounds: Sequence[int]
) -> list[FanoutChoice]:
    """All factor vectors that `rules` and the mesh allow, each with one arrangement on the mesh.

    How the dimensions are arranged along X and Y does not change the cost, so one witness is enough.
    """
    if any(not rule.allows(1) for rule in rules.factors if rule.dim not in active):
        return []
    candidates = []
    for dim, bound in zip(active, bounds, strict=True):
        own = [rule for rule in rules.factors if rule.dim == dim]
        longest = max(fanout.mesh_x, fanout.mesh_y)
        candidates.append([f for f in divisors(bound) if f <= longest and all(r.allows(f) for r in own)])
    arranger = _Arranger(fanout, rules, all_dims, active)
    choices = []
    for factors in _vectors(candidates, fanout.size):
        along_x = arranger.arrange(factors)
        if along_x is not None:
            choices.append(FanoutChoice(factors, along_x))
    return choices


def _vectors(candidates: Sequence[Sequence[int]], room: int) -> Iterator[Factors]:
    if not candidates:
        yield ()
        return
    for factor in candidates[0]:
        if factor > room:
            break
        for rest in _vectors(candidates[1:], room // factor):
            yield (factor, *rest)


class _Arranger:
    """Finds which dimensions go along X, within the order and split that the rules fix."""

    def __init__(
        self, fanout: Fanout, rules: SpatialRules, all_dims: Sequence[str], active: Sequence[str]
    ) -> None:
        self._fanout = fanout
        self._rules = rules
        self._place = {dim: i for i, dim in enumerate(active)}
        fixed = set(rules.inner) | set(rules.outer) | rules.uncounted
        self._loose = [dim for dim in all_dims if dim not in fixed]
        length = len(rules.inner) + len(self._loose) + len(rules.outer)
        self._splits = range(length + 1) if rules.split is None else [min(rules.split, length)]

    def arrange(self, factors: Factors) -> frozenset[int] | None:
        """Active dimensions along X for `factors`, None if no arrangement fits the mesh."""
        total = math.prod(factors)
        if total > self._fanout.size:
            return None
        needed = frozenset(i for i, f in enumerate(factors) if f > 1)
        for split in self._splits:
            for along_x in self._prefixes(split, needed):
                width = math.prod(factors[i] for i in along_x)
                if width <= self._fanout.mesh_x and total // width <= self._fanout.mesh_y:
                    return along_x
        return None

    def _prefixes(self, split: int, needed: frozenset[int]) -> Iterator[frozenset[int]]:
        inner, outer = self._rules.inner, self._rules.outer
        start = self._live(inner[:split], needed)
        if split <= len(inner):
            yield start
            return
        loose_live = sorted(self._live(self._loose, needed))
        places = split - len(inner)
        if places >= len(self._loose):
            yield start | set(loose_live) | self._live(outer[: places - len(self._loose)], needed)
            return
        fillers = len(self._loose) - len(loose_live)
        for count in range(max(0, places - fillers), min(places, len(loose_live)) + 1):
            for chosen in combinations(loose_live, count):
                yield start | set(chosen)

    def _live(self, dims: Sequence[str], needed: frozenset[int]) -> frozenset[int]:
        places = (self._place[dim] for dim in dims if dim in self._place)
        return frozenset(i for i in places if i in needed)


@dataclass(frozen=True)
class StageChoice:
    """One choice per fanout between two storage levels, outermost first, and their product."""

    choices: tuple[FanoutChoice, ...]
    factors: Factors


@dataclass(frozen=True)
class StageClass:
    """Spatial choices of a stage that cost the same up to divisibility.

    ``units`` is the number of children in use per instance above. Per dataspace, ``irrelevant`` is
    the product of the factors that do not index it, and ``distinct`` a lower bound on the number of
    different tiles among the children, exact but for sliding windows. ``windows`` has the factors of
    the dimensions along which tiles overlap, and 1 for the others.
    """

    units: int
    irrelevant: tuple[int, ...]
    distinct: tuple[int, ...]
    windows: Factors
    members: tuple[StageChoice, ...]

    @property
    def key(self) -> tuple[int, Factors, Factors, Factors]:
        """What tells this class from the others of its stage."""
        return self.units, self.irrelevant, self.distinct, self.windows
