"""First mappings, within milliseconds: the best of a few random ones, with many children of fanouts in use.

They are drawn under any counting rule, and with memories in the order of the hardware.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from model.architecture import StorageLevel
from model.cost import evaluate_in
from model.counting import EXACT
from model.extents import PERFECT, Extents
from model.mapspace import FactorRule, Mapspace
from solver.heuristics.interface import Budget, BudgetSpent, MapperError
from solver.heuristics.pricing import Pricing
from solver.heuristics.rules import MapspaceRules
from solver.heuristics.sampling import INWARD, Sampler
from solver.search.priced import Priced
from solver.search.space.spatial import fanout_choices
from solver.search.space.user_rules import factors_allowed
from solver.search.stopping import Stop, Stopped

TOGETHER, ONE_BY_ONE = 64, 4
"""Mappings that are drawn before it is asked whether one fits; where each is priced by itself, fewer."""


def drawn(mapspace: Mapspace, objective: str, seed: int, stop: Stop) -> Priced | None:
    """A valid mapping, if it is found at once; without remainders if there is such a one."""
    own = replace(mapspace, free_order=frozenset())
    found = _drawn(replace(own, factors=PERFECT), objective, seed, stop)
    return found if found is not None or own.factors == PERFECT else _drawn(own, objective, seed, stop)


def _drawn(mapspace: Mapspace, objective: str, seed: int, stop: Stop) -> Priced | None:
    """The best of a few random mappings, if any is valid."""
    with suppress(MapperError):
        pricing = Pricing(_priced_together(mapspace), (objective,), Budget(None), seed, stop)
        with suppress(BudgetSpent):
            _draw(pricing, stop)
        priced = (Priced(own.mapping, evaluate_in(mapspace, own.mapping)) for own in reversed(pricing.trace))
        return next((own for own in priced if own.evaluation.valid), None)
    return None


def _priced_together(mapspace: Mapspace) -> Mapspace:
    """The same mappings under a rule by which many are priced at once: it ranks them."""
    architecture = mapspace.architecture
    nodes = tuple(replace(n, ports=()) if isinstance(n, StorageLevel) else n for n in architecture.nodes)
    counting = mapspace.counting if mapspace.counting_rule.is_general else EXACT
    return replace(mapspace, counting=counting, architecture=replace(architecture, nodes=nodes))


def _draw(pricing: Pricing, stop: Stop) -> None:
    """Price random mappings until one fits."""
    random = np.random.default_rng(pricing.seed)
    is_fast = pricing.batched and pricing.mapspace.factors == PERFECT
    for sampler in _samplers(pricing.mapspace, stop):
        pricing.price_batch(sampler.draw(random, TOGETHER if is_fast else ONE_BY_ONE))
        if pricing.best is not None:
            return


def _samplers(mapspace: Mapspace, stop: Stop) -> Iterator[Sampler]:
    """Yield distributions, with ever smaller tiles inside: those with wide fanouts first."""
    for own in (_unrolled(mapspace, stop), mapspace):
        samplers = () if own is None else (Sampler(MapspaceRules(own), inward) for inward in INWARD)
        yield from (sampler for sampler in samplers if not sampler.empty)


def _unrolled(mapspace: Mapspace, stop: Stop) -> Mapspace | None:
    """The mappings whose fanouts have as many children in use as can be, the innermost one first.

    None where that leaves a fanout no choice, or one has too many.
    """
    spatial, left = list(mapspace.spatial), dict(mapspace.problem.bound)
    for number in reversed(range(len(spatial))):
        factors = _widest(mapspace, number, left, stop)
        if factors is None:
            return None
        rules = (FactorRule(dim, "=", factor) for dim, factor in factors.items())
        spatial[number] = replace(spatial[number], factors=(*spatial[number].factors, *rules))
        left = {dim: bound // factors[dim] for dim, bound in left.items()}
    return replace(mapspace, spatial=tuple(spatial))


def _widest(mapspace: Mapspace, number: int, left: dict[str, int], stop: Stop) -> dict[str, int] | None:
    """The factors of a fanout with the most children in use, where so many iterations are left to divide."""
    fanout, rules, dims = mapspace.architecture.fanouts[number], mapspace.spatial[number], tuple(left)
    active = [dim for dim in dims if left[dim] > 1]
    allows, extents = factors_allowed(mapspace, fanout, active), [Extents(left[dim]) for dim in active]
    try:
        found = fanout_choices(fanout, rules, dims, active, extents, stop, allows).factors
    except Stopped:
        return None
    if not len(found):
        return None
    widest = found[int(found.prod(axis=1).argmax())].tolist()
    return {**dict.fromkeys(dims, 1), **dict(zip(active, widest, strict=True))}
