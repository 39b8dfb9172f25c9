"""Which visits are large enough for what rules ask of fanouts, such as a least number of children in use."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from model.extents import PERFECT, Extents
from model.fused.cascade import Cascade
from model.numbers import divisors
from solver.fusion.remembered import remembered
from solver.search.space.spatial import fanout_choices
from solver.search.space.user_rules import factors_allowed

Sizes = tuple[int, ...]
"""Extents of the dimensions of an Einsum, in its order."""


@dataclass(frozen=True)
class UnrolledVisits:
    """Looks at the fanouts whose rules ask for several children."""

    cascade: Cascade

    def may_be(self, place: int, extents: Mapping[str, int]) -> bool:
        """Whether an Einsum may have visits of these extents, as far as fanouts tell."""
        asking = self._asking(place)
        dims = self.cascade.einsums[place].problem.dims
        return not asking or self._may_be(place, asking, tuple(extents[dim] for dim in dims))

    @remembered
    def _asking(self, place: int) -> tuple[int, ...]:
        """The fanouts that ask for several children."""
        einsum = self.cascade.einsums[place]
        return () if einsum.is_copy else tuple(self._each_asking(place))

    def _each_asking(self, place: int) -> Iterator[int]:
        mapspace = self.cascade.einsums[place].mapspace
        dims = mapspace.problem.dims
        for number, (fanout, rules) in enumerate(
            zip(mapspace.architecture.fanouts, mapspace.spatial, strict=True)
        ):
            allows = factors_allowed(mapspace, fanout, dims)
            if not (all(rule.allows(1) for rule in rules.factors) and allows((1,) * len(dims))):
                yield number

    @remembered
    def _may_be(self, place: int, fanouts: tuple[int, ...], sizes: Sizes) -> bool:
        """Whether some fanouts may be used as their rules ask, one inside of the other."""
        if not fanouts:
            return True
        told = self._told(place, fanouts, sizes)
        if told != sizes:
            return self._may_be(place, fanouts, told)
        return any(self._may_be(place, fanouts[1:], left) for left in self._left(place, fanouts[0], sizes))

    def _told(self, place: int, fanouts: tuple[int, ...], sizes: Sizes) -> Sizes:
        """Extents that fanouts cannot tell from some: with the same divisors up to their children."""
        mapspace = self.cascade.einsums[place].mapspace
        if mapspace.factors != PERFECT:
            return sizes
        most = math.prod(mapspace.architecture.fanouts[number].size for number in fanouts)
        return tuple(_with_divisors(size, most) for size in sizes)

    def _left(self, place: int, number: int, sizes: Sizes) -> Iterator[Sizes]:
        """Yield what each way to use a fanout leaves of extents; with remainders all, at the most."""
        mapspace = self.cascade.einsums[place].mapspace
        fanout, dims = mapspace.architecture.fanouts[number], mapspace.problem.dims
        extents = [Extents(size, mapspace.factors) for size in sizes]
        allows = factors_allowed(mapspace, fanout, dims)
        choices = fanout_choices(fanout, mapspace.spatial[number], dims, dims, extents, allows=allows)
        for factors in choices.factors.tolist():
            is_exact = mapspace.factors == PERFECT
            yield tuple(size // own for size, own in zip(sizes, factors, strict=True)) if is_exact else sizes


@cache
def _with_divisors(number: int, most: int) -> int:
    """The least number with the divisors of another one, up to the largest that counts."""
    return math.lcm(*(own for own in divisors(number) if own <= most))
