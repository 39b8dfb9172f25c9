"""How the optimum moves when one capacity or bandwidth of the architecture is halved or doubled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from model.architecture import Architecture, StorageLevel
from model.cost import Evaluation
from model.cost.slack import CAPACITY, RESOURCES, Resource
from model.mapspace import Mapspace
from model.places import gathered, spread_like
from model.sparse import evaluate_totals
from solver.result import Options, ProgressCallback, Result, Search, Status, StopCallback
from solver.search.priced import Priced

FACTORS = (Fraction(1, 2), Fraction(2))


@dataclass(frozen=True, slots=True)
class Variation:
    """One limit of one storage level, times `factor`."""

    level: str
    resource: Resource  # as in `model.cost.slack.Slack`
    factor: Fraction  # out of `FACTORS`


@dataclass(frozen=True)
class Effect:
    """The optimum under a variation."""

    variation: Variation
    limit: Fraction  # after the change: words (before multiple buffering), or words per cycle
    result: Result
    ratio: Fraction | None  # new over old value of the first objective; None if one is missing or old is 0
    searched: bool = True  # False if a tighter limit leaves the best mapping as it is
    later_ratios: tuple[Fraction | None, ...] = ()  # of the other objectives


def variations(architecture: Architecture) -> Iterator[Variation]:
    """Yield every limit of a level, halved (unless it is one word) and doubled, outermost level first."""
    for level, resource, factor in product(architecture.levels, RESOURCES, FACTORS):
        if limit_of(level, resource) is None:
            continue
        variation = Variation(level.name, resource, factor)
        if limit_of(_varied_level(level, variation), resource):
            yield variation


def limit_of(level: StorageLevel, resource: Resource) -> Fraction | None:
    """Return a limit of `level`: words of one instance, or words per cycle; None if it has none."""
    limit = level.size_words if resource == CAPACITY else level.bandwidth(resource)
    return None if limit is None else Fraction(limit)


def varied(architecture: Architecture, variation: Variation) -> Architecture:
    """Return `architecture` with one limit changed. All prices stay: leakage and accesses cost the same.

    A capacity is rounded down to whole words. Its least utilization is a share and moves with it.
    """
    nodes = tuple(
        _varied_level(node, variation)
        if isinstance(node, StorageLevel) and node.name == variation.level
        else node
        for node in architecture.nodes
    )
    return replace(architecture, nodes=nodes)


def _varied_level(level: StorageLevel, variation: Variation) -> StorageLevel:
    limit = limit_of(level, variation.resource)
    assert limit is not None
    changed = limit * variation.factor
    if variation.resource == CAPACITY:
        return replace(level, size_words=math.floor(changed))
    return level.with_bandwidth(variation.resource, changed)


def sensitivity(
    mapspace: Mapspace,
    base: Result,
    options: Options,
    search: Search,
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
) -> tuple[Effect, ...]:
    """Map the problem once more for each of `variations`, in their order, until `should_stop` returns True.

    `search` is `solver.stages.map_einsum` or alike; where `base` still fits, it is the incumbent.
    """
    effects: list[Effect] = []
    even = gathered(mapspace)
    for variation in variations(even.architecture):
        if should_stop is not None and should_stop():
            break
        changed = replace(even, architecture=varied(even.architecture, variation))
        changed = spread_like(mapspace, changed)
        known = _known(changed, base)
        kept = None if known is None else _still_best(changed, base, known, variation)
        result = kept or search(changed, options, on_progress, should_stop, known)
        level = _chosen_level(changed, variation)
        limit = limit_of(level, variation.resource)
        assert limit is not None
        ratio, *later = (_ratio(name, result, base) for name in base.objectives)
        effects.append(Effect(variation, limit, result, ratio, kept is None, tuple(later)))
    return tuple(effects)


def _chosen_level(mapspace: Mapspace, variation: Variation) -> StorageLevel:
    levels = mapspace.architecture.levels
    return next(level for level in levels if level.component == variation.level)


def _known(changed: Mapspace, base: Result) -> Priced | None:
    """Return the best mapping of the unvaried mapspace if it still fits, with its costs now."""
    if base.mapping is None:
        return None
    evaluation = evaluate_totals(changed, base.mapping)
    return Priced(base.mapping, evaluation) if evaluation is not None and evaluation.valid else None


def _still_best(changed: Mapspace, base: Result, known: Priced, variation: Variation) -> Result | None:
    """Return the result if the best mapping is known to stay the best one, None if that takes a search.

    A tighter limit allows no further mapping and makes none cheaper, so a proven optimum that still fits at
    the same values stays optimal. Exceptions: half a capacity is easier to fill to a least share, and where
    tiles may overflow, room decides on costs.
    """
    if base.status is not Status.OPTIMAL or variation.factor > 1 or overflows(changed):
        return None
    level = _chosen_level(changed, variation)
    if variation.resource == CAPACITY and level.min_utilization:
        return None
    assert base.evaluation is not None
    if _objective_values(known.evaluation, base) != _objective_values(base.evaluation, base):
        return None
    return replace(base, evaluation=known.evaluation)


def overflows(mapspace: Mapspace) -> bool:
    """Whether tiles of sparse data may exceed capacities at times."""
    levels = () if mapspace.sparsity is None else mapspace.sparsity.levels
    return any(level.allow_overbooking for level in levels)


def _objective_values(evaluation: Evaluation, base: Result) -> tuple[int, ...]:
    return tuple(map(evaluation.value, base.objectives))


def _ratio(objective: str, result: Result, base: Result) -> Fraction | None:
    if result.evaluation is None or base.evaluation is None:
        return None
    before = base.evaluation.value(objective)
    return Fraction(result.evaluation.value(objective), before) if before else None
