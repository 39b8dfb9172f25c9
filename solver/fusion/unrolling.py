"""Which visits are large enough for what rules ask of fanouts, such as a least number of children in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from model.extents import Extents
from model.fused.cascade import Cascade
from solver.fusion.remembered import remembered
from solver.search.space.spatial import fanout_choices
from solver.search.space.user_rules import factors_allowed


@dataclass(frozen=True)
class UnrolledVisits:
    """Looks at each fanout by itself: what it leaves out has no nest, but not all else has one."""

    cascade: Cascade

    def may_be(self, place: int, extents: Mapping[str, int]) -> bool:
        """Whether an Einsum may have visits of these extents."""
        return all(
            self._has_choice(place, fanout, tuple((dim, extents[dim]) for dim in dims))
            for fanout, dims in self._asking(place)
        )

    @remembered
    def _asking(self, place: int) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """The fanouts that ask for several children, and the dimensions that may be spread over them."""
        einsum = self.cascade.einsums[place]
        if einsum.is_copy:
            return ()
        mapspace, found = einsum.mapspace, list[tuple[int, tuple[str, ...]]]()
        for number, rules in enumerate(mapspace.spatial):
            allows = factors_allowed(mapspace, mapspace.architecture.fanouts[number], mapspace.problem.dims)
            single = all(rule.allows(1) for rule in rules.factors)
            if single and allows((1,) * len(mapspace.problem.dims)):
                continue
            fixed = {rule.dim for rule in rules.factors if rule.relation == "=" and rule.value == 1}
            found.append((number, tuple(dim for dim in mapspace.problem.dims if dim not in fixed)))
        return tuple(found)

    @remembered
    def _has_choice(self, place: int, number: int, sizes: tuple[tuple[str, int], ...]) -> bool:
        """Whether one fanout may be used as its rules ask, in visits of these extents."""
        mapspace = self.cascade.einsums[place].mapspace
        fanout = mapspace.architecture.fanouts[number]
        dims = tuple(dim for dim, _ in sizes)
        extents = [Extents(size, mapspace.factors) for _, size in sizes]
        rules, all_dims = mapspace.spatial[number], mapspace.problem.dims
        allows = factors_allowed(mapspace, fanout, dims)
        return len(fanout_choices(fanout, rules, all_dims, dims, extents, allows=allows)) > 0
