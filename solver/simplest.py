"""Of mappings that cost the same, a simple one: few loops, and factors that divide.

A search keeps the first mapping of its value. With remainders that may be one whose short last passes serve
nothing: five iterations as two passes of four and one, where a single loop of five costs the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from model.cost import Evaluation, evaluate_in
from model.extents import PERFECT, tiles_of
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace
from solver.result import Priced, Result

MOST_PRICED = 100
"""Mappings that are priced at most to simplify one."""


class _Place(NamedTuple):
    """Where a loop is: its node, and its position among the node's loops."""

    node: int
    position: int


def simplified(mapspace: Mapspace, result: Result) -> Result:
    """Return a result with a simpler mapping of the same value, no more energy and no more cycles.

    A mapping is simpler if it has fewer loops, or as many of which more divide. Each step leaves out one
    loop, or changes one factor; other loops of the dimension make up for it. What a level keeps, and the
    order of loops, stay what they are.
    """
    if result.found is None:
        return result
    known, prices = result.found, iter(range(MOST_PRICED))
    while (simpler := _simpler(mapspace, result.objectives, known, prices)) is not None:
        known = simpler
    return replace(result, mapping=known.mapping, evaluation=known.evaluation)


def _simpler(
    mapspace: Mapspace, objectives: Sequence[str], known: Priced, prices: Iterator[int]
) -> Priced | None:
    """The first variant that is simpler and costs the same; each that is priced takes one of the `prices`."""
    most = _complexity(mapspace, known.mapping)
    for variant in _variants(mapspace, known.mapping):
        if _complexity(mapspace, variant) >= most or not _is_allowed(mapspace, variant):
            continue
        if next(prices, None) is None:
            return None
        priced = evaluate_in(mapspace, variant)
        if priced.valid and _costs_the_same(objectives, priced, known.evaluation):
            return Priced(variant, priced)
    return None


def _costs_the_same(objectives: Sequence[str], new: Evaluation, known: Evaluation) -> bool:
    """Whether all objectives have the same values, energy and cycles are no more, and units no fewer."""
    if new.energy > known.energy or new.cycles > known.cycles:
        return False
    if new.compute_instances < known.compute_instances:
        return False
    return all(new.value(name) == known.value(name) for name in objectives)


def _complexity(mapspace: Mapspace, mapping: Mapping) -> tuple[int, int]:
    """How many loops a mapping has, and how many of these have a short last pass."""
    pairs = [
        (loop.bound, last)
        for node, lasts in zip(mapping.nodes, mapping.remainders(mapspace.problem.bound), strict=True)
        for loop, last in zip(_loops_of_node(node), lasts, strict=True)
        if loop.bound > 1
    ]
    return len(pairs), sum(bound != last for bound, last in pairs)


def _loops_of_node(node: NodeMapping) -> Sequence[Loop | SpatialLoop]:
    return node.temporal if isinstance(node, StorageMapping) else node.spatial


def _without_idle(node: NodeMapping, bounds: Sequence[int]) -> NodeMapping:
    """Return a node whose loops have other bounds, without those of a single iteration."""
    if isinstance(node, StorageMapping):
        loops = tuple(
            replace(loop, bound=own) for loop, own in zip(node.temporal, bounds, strict=True) if own > 1
        )
        return replace(node, temporal=loops)
    spatial = tuple(
        replace(loop, bound=own) for loop, own in zip(node.spatial, bounds, strict=True) if own > 1
    )
    return replace(node, spatial=spatial)


def _variants(mapspace: Mapspace, mapping: Mapping) -> Iterator[Mapping]:
    """Yield mappings that differ in the loops of one dimension."""
    for dim, bound in mapspace.problem.bound.items():
        places = [place for place in _loop_places(mapping) if _loop_at(mapping, place).dim == dim]
        factors = tuple(_loop_at(mapping, place).bound for place in places)
        changes = dict.fromkeys(_other_factors(bound, factors))
        yield from (_with_factors(mapping, places, own) for own in changes if own != factors)


def _loop_places(mapping: Mapping) -> Iterator[_Place]:
    """Yield where there are loops, innermost first."""
    for node in reversed(range(len(mapping.nodes))):
        yield from (_Place(node, position) for position in range(len(_loops_of_node(mapping.nodes[node]))))


def _loop_at(mapping: Mapping, place: _Place) -> Loop | SpatialLoop:
    return _loops_of_node(mapping.nodes[place.node])[place.position]


def _other_factors(bound: int, factors: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield other factors of a dimension's loops, innermost first: 1 where a loop is left out."""
    numbers = range(len(factors))
    for dropped in reversed(numbers):
        kept = _with_factor(factors, dropped, 1)
        yield _covering(bound, kept)
        others = (number for number in numbers if number != dropped)
        needed = ((number, tiles_of(bound, math.prod(_with_factor(kept, number, 1)))) for number in others)
        yield from (_covering(bound, _with_factor(kept, *own)) for own in needed)
    left = bound
    for number, factor in enumerate(factors):
        outside = tiles_of(left, factor)
        yield _covering(bound, _with_factor(factors, number, tiles_of(left, outside)))
        left = outside


def _with_factor(factors: tuple[int, ...], number: int, factor: int) -> tuple[int, ...]:
    return (*factors[:number], factor, *factors[number + 1 :])


def _covering(bound: int, factors: tuple[int, ...]) -> tuple[int, ...]:
    """Return the factors cut to what is left of the bound; the outermost loop takes up all that is."""
    outermost = max((number for number, factor in enumerate(factors) if factor > 1), default=0)
    covering, left = [], bound
    for number, factor in enumerate(factors):
        own = left if number == outermost else min(factor, left)
        covering.append(own)
        left = tiles_of(left, own)
    return tuple(covering)


def _with_factors(mapping: Mapping, places: Sequence[_Place], factors: Sequence[int]) -> Mapping:
    """Return a mapping with other factors at some places, without loops of a single iteration."""
    bounds = dict(zip(places, factors, strict=True))
    nodes: list[NodeMapping] = []
    for number, node in enumerate(mapping.nodes):
        own = [
            bounds.get(_Place(number, place), loop.bound) for place, loop in enumerate(_loops_of_node(node))
        ]
        nodes.append(_without_idle(node, own))
    return Mapping(tuple(nodes))


def _is_allowed(mapspace: Mapspace, mapping: Mapping) -> bool:
    """Whether a mapping keeps to the rules on factors, as one that keeps to all rules and has fewer loops."""
    levels = [_iterations(node) for node in mapping.nodes if isinstance(node, StorageMapping)]
    fanouts = [_iterations(node) for node in mapping.nodes if isinstance(node, FanoutMapping)]
    temporal, spatial = mapspace.temporal, mapspace.spatial
    rules = (*(own.factors for own in temporal), *(own.factors for own in spatial))
    ruled = zip(rules, (*levels, *fanouts), strict=True)
    if not all(rule.allows(bounds.get(rule.dim, 1)) for own, bounds in ruled for rule in own):
        return False
    if not all(joint.allow([levels[level] for level in joint.levels]) for joint in mapspace.joint):
        return False
    return mapspace.factors != PERFECT or mapping.divides(mapspace.problem.bound)


def _iterations(node: NodeMapping) -> dict[str, int]:
    """Iterations of a node's loops by dimension, where there are several."""
    found: dict[str, int] = {}
    for loop in _loops_of_node(node):
        found[loop.dim] = found.get(loop.dim, 1) * loop.bound
    return found
