"""Tensors that inner levels store: they lie there as a whole while an Einsum runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from model.cost.copying import backing_levels
from model.mapspace import FactorRule, KeepRules, Mapspace, TemporalRules
from model.problem import Problem


def stored_as_a_whole(mapspace: Mapspace) -> Mapspace:
    """Return the mapspace whose inner levels hold what they store as a whole.

    A tensor that the outer levels bypass is kept at the level that stores it, and no level outside
    that one has temporal loops over the tensor's dimensions: nothing could take its place meanwhile.
    Spatial loops outside are free; each instance holds its part then.

    Notes
    -----
    docs/network.md.
    """
    homes = {name: level for name, level in backing_levels(mapspace).items() if level > 0}
    levels = range(len(mapspace.keep))
    return replace(
        mapspace,
        temporal=tuple(_temporal(mapspace, homes, level) for level in levels),
        keep=tuple(_keeping(mapspace.keep[level], homes, level) for level in levels),
    )


def _temporal(mapspace: Mapspace, homes: Mapping[str, int], level: int) -> TemporalRules:
    farther_in = [name for name, home in homes.items() if home > level]
    rules = mapspace.temporal[level]
    return replace(rules, factors=(*rules.factors, *_without_loops(mapspace.problem, farther_in)))


def _without_loops(problem: Problem, names: list[str]) -> Iterator[FactorRule]:
    for space in (space for space in problem.dataspaces if space.name in names):
        dims = (dim for dim in problem.dims if dim in space.dims)
        yield from (FactorRule(dim, "=", 1, stored=space.name) for dim in dims)


def _keeping(rules: KeepRules, homes: Mapping[str, int], level: int) -> KeepRules:
    stored = frozenset(name for name, home in homes.items() if home == level)
    return replace(rules, keep=rules.keep | stored, whole=stored)
