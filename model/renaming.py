"""Names of dimensions and dataspaces replaced, so that problems which differ in names alone are equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from model.architecture import Architecture, Fanout, StorageLevel
from model.mapping import FanoutMapping, Loop, NodeMapping, SpatialLoop, StorageMapping
from model.mapping import Mapping as LoopNest
from model.mapspace import FactorRule, JointRules, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Problem, Term
from model.sparsity import Conditional, Optimization, Representation, Sparsity

Own = TypeVar("Own")


@dataclass(frozen=True)
class Renaming:
    """New names of all dimensions and dataspaces of a problem, by old ones."""

    dims: Mapping[str, str]
    dataspaces: Mapping[str, str]

    @property
    def inverse(self) -> Renaming:
        """The way back."""
        return Renaming(
            {new: old for old, new in self.dims.items()}, {new: old for old, new in self.dataspaces.items()}
        )

    def mapping(self, mapping: LoopNest) -> LoopNest:
        """Return a mapping under the new names."""
        return LoopNest(tuple(self._node_mapping(node) for node in mapping.nodes))

    def mapspace(self, mapspace: Mapspace) -> Mapspace:
        """Return a mapspace under the new names, without what is there for people only."""
        return replace(
            mapspace,
            problem=self.problem(mapspace.problem),
            architecture=self._architecture(mapspace.architecture),
            temporal=tuple(self._temporal(rules) for rules in mapspace.temporal),
            spatial=tuple(self._spatial(rules) for rules in mapspace.spatial),
            keep=tuple(self._keep(rules) for rules in mapspace.keep),
            parallel=tuple(replace(group, always=self._spaces(group.always)) for group in mapspace.parallel),
            joint=tuple(self._joint(rules) for rules in mapspace.joint),
            rules=tuple(rule.renamed(self.dims, self.dataspaces) for rule in mapspace.rules),
            sparsity=None if mapspace.sparsity is None else self._sparsity(mapspace.sparsity),
            notes=(),
            min_parallelism_source=None,
        )

    def _sparsity(self, sparsity: Sparsity) -> Sparsity:
        densities = {self.dataspaces[name]: own for name, own in sparsity.densities.items()}
        levels = tuple(
            replace(
                level,
                representations={
                    self.dataspaces[name]: self._representation(own)
                    for name, own in level.representations.items()
                },
                optimizations=tuple(self._optimization(unit) for unit in level.optimizations),
            )
            for level in sparsity.levels
        )
        return replace(sparsity, densities=densities, levels=levels)

    def _representation(self, representation: Representation) -> Representation:
        ranks = (
            replace(rank, flattened=tuple(self._dims(group) for group in rank.flattened))
            for rank in representation.ranks
        )
        return replace(representation, ranks=tuple(ranks))

    def _optimization(self, unit: Optimization) -> Optimization:
        options = (
            Conditional(self.dataspaces[own.target], tuple(self.dataspaces[name] for name in own.conditions))
            for own in unit.options
        )
        return replace(unit, options=tuple(options))

    def _dims(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.dims[name] for name in names)

    def _spaces(self, names: Iterable[str]) -> frozenset[str]:
        """New names of the problem's own dataspaces; an architecture may name those of other problems."""
        return frozenset(self.dataspaces[name] for name in names if name in self.dataspaces)

    def _node_mapping(self, node: NodeMapping) -> NodeMapping:
        if isinstance(node, FanoutMapping):
            loops = (SpatialLoop(self.dims[loop.dim], loop.bound, loop.axis) for loop in node.spatial)
            return FanoutMapping(tuple(loops))
        temporal = tuple(Loop(self.dims[loop.dim], loop.bound) for loop in node.temporal)
        return StorageMapping(temporal, frozenset(self.dataspaces[name] for name in node.keep))

    def problem(self, problem: Problem) -> Problem:
        """Return a problem under the new names, without a name of its own."""
        spaces = tuple(
            replace(
                space,
                name=self.dataspaces[space.name],
                ranks=tuple(
                    tuple(Term(self.dims[term.dim], term.coefficient) for term in rank)
                    for rank in space.ranks
                ),
            )
            for space in problem.dataspaces
        )
        return Problem("", self._dims(problem.dims), problem.bounds, spaces)

    def _architecture(self, architecture: Architecture) -> Architecture:
        return replace(architecture, nodes=tuple(self._node(node) for node in architecture.nodes))

    def _node(self, node: StorageLevel | Fanout) -> StorageLevel | Fanout:
        if isinstance(node, Fanout):
            return replace(
                node,
                no_multicast=self._spaces(node.no_multicast),
                no_link_transfer=self._spaces(node.no_link_transfer),
            )
        packing = (
            replace(packing, dataspace=self.dataspaces[packing.dataspace])
            for packing in node.packing
            if packing.dataspace in self.dataspaces
        )
        return replace(
            node,
            bandwidth_scale=self._pairs(node.bandwidth_scale),
            packing=tuple(sorted(packing, key=lambda own: own.dataspace)),
            free_first_touches=self._pairs(node.free_first_touches),
            no_temporal_reuse=self._spaces(node.no_temporal_reuse),
            rmw_first_update=self._spaces(node.rmw_first_update),
            no_coalesce=self._spaces(node.no_coalesce),
            tolls=self._pairs(node.tolls),
        )

    def _pairs(self, pairs: Iterable[tuple[str, Own]]) -> tuple[tuple[str, Own], ...]:
        """What belongs to dataspaces under the new names, sorted by these."""
        own = ((self.dataspaces[name], of_it) for name, of_it in pairs if name in self.dataspaces)
        return tuple(sorted(own, key=lambda pair: pair[0]))

    def _factors(self, rules: Iterable[FactorRule]) -> tuple[FactorRule, ...]:
        renamed = {FactorRule(self.dims[rule.dim], rule.relation, rule.value) for rule in rules}
        return tuple(sorted(renamed, key=lambda rule: (rule.dim, rule.relation, rule.value)))

    def _temporal(self, rules: TemporalRules) -> TemporalRules:
        return TemporalRules(self._factors(rules.factors), self._dims(rules.inner), self._dims(rules.outer))

    def _joint(self, rules: JointRules) -> JointRules:
        return JointRules(rules.levels, self._temporal(rules.temporal), self._keep(rules.keep))

    def _spatial(self, rules: SpatialRules) -> SpatialRules:
        return SpatialRules(
            factors=self._factors(rules.factors),
            inner=self._dims(rules.inner),
            outer=self._dims(rules.outer),
            uncounted=frozenset(self._dims(rules.uncounted)),
            split=rules.split,
        )

    def _keep(self, rules: KeepRules) -> KeepRules:
        return KeepRules(
            keep=self._spaces(rules.keep),
            bypass=self._spaces(rules.bypass),
            settled=self._spaces(rules.settled),
        )


def by_position(problem: Problem) -> Renaming:
    """Return names that say the position only: ``d0``, ``d1``, ... and ``t0``, ``t1``, ..."""
    spaces = [space.name for space in problem.dataspaces]
    return Renaming(
        {name: f"d{place}" for place, name in enumerate(problem.dims)},
        {name: f"t{place}" for place, name in enumerate(spaces)},
    )
