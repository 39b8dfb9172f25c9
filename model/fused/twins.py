"""Einsums of a fused mapping that do the same by other names: what one of them costs, all do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from model.fused.cascade import Cascade
from model.fused.mapping import FusedMapping
from model.problem import Problem
from model.renaming import by_position


def twins_of(cascade: Cascade, mapping: FusedMapping) -> tuple[int, ...]:
    """Return per Einsum the place of the first one that does the same.

    These are Einsums alike with equal nests, that share no loops, and neither store nor hold anything.
    """
    first: dict[object, int] = {}
    return tuple(first.setdefault(_key(cascade, mapping, n), n) for n in range(len(cascade.einsums)))


def _key(cascade: Cascade, mapping: FusedMapping, place: int) -> object:
    """What an Einsum's cost depends on, but for names; its place, if it has a part in anything shared."""
    einsum, path = cascade.einsums[place], mapping.paths[place]
    is_alone = not path.loops and not path.leaf.held and einsum.tensors.isdisjoint(mapping.stored_at)
    if einsum.is_copy or not is_alone or any(nest.bounds is not None for nest in path.leaf.nests):
        return place
    names = by_position(einsum.problem)
    try:
        nests = tuple(replace(nest, mapping=names.mapping(nest.mapping)) for nest in path.leaf.nests)
    except KeyError:  # a nest with strange names, which is refused where it is priced
        return place
    return cascade.alike[place], nests


def other_names(problem: Problem, other: Problem) -> Mapping[str, str]:
    """Return the names of dataspaces in a problem that differs in names alone."""
    pairs = zip(problem.dataspaces, other.dataspaces, strict=True)
    return {own.name: their.name for own, their in pairs}
