"""Which visits are large enough for what rules ask of fanouts, such as a least number of children in use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from model.extents import PERFECT, Extents
from model.fused.cascade import Cascade
from solver.fusion.amounts import BoolArray, IntArray
from solver.fusion.remembered import remembered
from solver.search.space.spatial import fanout_choices
from solver.search.space.user_rules import factors_allowed


@dataclass(frozen=True)
class UnrolledVisits:
    """Looks at the fanouts whose rules ask for several children."""

    cascade: Cascade

    def may_be(self, place: int, extents: Mapping[str, int]) -> bool:
        """Whether an Einsum may have visits of these extents, as far as fanouts tell."""
        least = self._least(place)
        if least is None:
            return True
        dims = self.cascade.einsums[place].problem.dims
        return bool(self._fits(place, least, np.array([extents[dim] for dim in dims])).any())

    @remembered
    def _least(self, place: int) -> IntArray | None:
        """Factors by which fanouts may be used as their rules ask, none of which needs more than another one.

        All fanouts that ask are taken together. None if there are none.
        """
        einsum = self.cascade.einsums[place]
        asking = [] if einsum.is_copy else list(self._asking(place))
        if not asking:
            return None
        found = np.ones((1, len(einsum.problem.dims)), np.int64)
        for number in asking:
            own = self._least_of(place, self._choices(place, number))
            # With remainders, each fanout has all of the extents.
            join = np.multiply if einsum.mapspace.factors == PERFECT else np.maximum
            found = self._least_of(place, join(found[:, None], own).reshape(-1, found.shape[1]))
        return found

    def _asking(self, place: int) -> Iterator[int]:
        """Yield the fanouts that ask for several children."""
        mapspace = self.cascade.einsums[place].mapspace
        dims = mapspace.problem.dims
        for number, (fanout, rules) in enumerate(
            zip(mapspace.architecture.fanouts, mapspace.spatial, strict=True)
        ):
            allows = factors_allowed(mapspace, fanout, dims)
            if not (all(rule.allows(1) for rule in rules.factors) and allows((1,) * len(dims))):
                yield number

    def _choices(self, place: int, number: int) -> IntArray:
        """Factors by which one fanout may be used: visits have those of them that fit their extents."""
        mapspace = self.cascade.einsums[place].mapspace
        fanout, problem = mapspace.architecture.fanouts[number], mapspace.problem
        extents = [Extents(problem.bound[dim], mapspace.factors) for dim in problem.dims]
        allows = factors_allowed(mapspace, fanout, problem.dims)
        rules = mapspace.spatial[number]
        return fanout_choices(fanout, rules, problem.dims, problem.dims, extents, allows=allows).factors

    def _least_of(self, place: int, factors: IntArray) -> IntArray:
        """Those of some factors that no other ones fit into."""
        left, found = factors[np.argsort(factors.prod(axis=1), kind="stable")], list[IntArray]()
        while len(left):
            found.append(left[0])
            left = left[~self._fits(place, left[0], left)]
        return np.array(found, np.int64).reshape(-1, factors.shape[1])

    def _fits(self, place: int, factors: IntArray, sizes: IntArray) -> BoolArray:
        """Which factors extents have room for."""
        is_perfect = self.cascade.einsums[place].mapspace.factors == PERFECT
        fits = sizes % factors == 0 if is_perfect else factors <= sizes
        return np.asarray(fits.all(axis=-1))
