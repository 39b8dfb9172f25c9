"""A one-shot constrained optimizer: the mapping problem in logarithms, solved once by CP-SAT."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import product

import numpy as np

from model.cost.batch import MappingBatch
from model.cost.batch.encoding import Booleans, Integers
from model.mapspace import Mapspace, TemporalRules
from model.problem import Problem
from solver.cpsat import Answer, Settings
from solver.heuristics.interface import MapperError
from solver.heuristics.log_model import LogModel, Weights
from solver.heuristics.pricing import Pricing

COMPUTE_SHARE = {"energy": 0.1, "latency": 0.9, "edp": 0.5}
"""Weight of the cycles against that of the traffic, by objective."""

MOST_KEEP_MASKS = 4096


class LogRelaxation:
    """Minimises a weighted sum of logarithms: filled buffers, cycles, and words moved.

    Every level keeps what it may while CP-SAT decides, or what it must if that has no solution; the loops
    that come out are then priced with all choices of kept dataspaces. All solutions on the way to the best
    one are priced as they are found.

    Parameters
    ----------
    utilization
        Weight of the filled buffers.
    compute
        Weight of the cycles, and ``1 - compute`` that of the words moved; None takes what suits the
        objective.
    seconds
        Time limit of CP-SAT, where the budget has none below it.

    Raises
    ------
    ValueError
        A weight outside of 0 to 1, or a time limit that is not above 0.
    """

    def __init__(self, utilization: float = 0.1, compute: float | None = None, seconds: float = 60.0) -> None:
        if not 0 <= utilization <= 1 or not 0 <= (compute or 0) <= 1 or not seconds > 0:
            raise ValueError("weights lie between 0 and 1, and the time limit above 0")
        self._utilization = utilization
        self._compute = compute
        self._seconds = seconds

    def find_mapping(self, mapspace: Mapspace, pricing: Pricing) -> None:
        """Solve the relaxation, and price its solutions.

        Raises
        ------
        BudgetSpent
            Once the budget is spent.
        MapperError
            If the rules leave no mapping, the relaxation has no solution or none in time, or its numbers are
            too large.
        """
        if not all(len(options) for options in pricing.rules.keep_options):
            raise MapperError("the rules of the mapspace leave no mapping")
        share = COMPUTE_SHARE[pricing.objectives[0]] if self._compute is None else self._compute
        weights = Weights(self._utilization, share, 1 - share)
        deadline = time.monotonic() + self._seconds
        for chosen in (np.argmax, np.argmin):
            kept = np.stack(
                [keep_sets[chosen(keep_sets.sum(axis=1))] for keep_sets in pricing.rules.keep_options], axis=1
            )
            decoder = _Decoder(mapspace, pricing, _keep_masks(pricing.rules.keep_options, kept))
            if _solve(LogModel(pricing.rules, kept, weights), decoder, pricing, deadline):
                return
        raise MapperError("the relaxation has no solution")


class _Decoder:
    """Prices what a solution of the model stands for."""

    def __init__(self, mapspace: Mapspace, pricing: Pricing, masks: Booleans) -> None:
        self._mapspace = mapspace
        self._pricing = pricing
        self._masks = masks

    def price(self, factors: Integers, resting: Sequence[int]) -> None:
        """Price factors of shape ``(nodes, dims)``, with the dataspace that rests in each level."""
        problem, temporal = self._mapspace.problem, self._mapspace.temporal
        order = [_order(problem, rules, space) for rules, space in zip(temporal, resting, strict=True)]
        rows = len(self._masks)
        self._pricing.price_batch(
            MappingBatch(np.tile(factors, (rows, 1, 1)), np.tile(np.array(order), (rows, 1, 1)), self._masks)
        )


def _solve(model: LogModel, decoder: _Decoder, pricing: Pricing, deadline: float) -> bool:
    """Price every solution as CP-SAT finds it, and return whether there are any; `MapperError` when late."""
    answers = 0

    def on_answer(answer: Answer) -> None:
        nonlocal answers
        answers += 1
        decoder.price(model.factors(answer), [answer.choice(level) for level in model.resting])

    # The linear relaxation proves what branching does not.
    outcome = model.checked.solve(
        Settings(seed=pricing.seed, linearization=2),
        lambda: pricing.seconds_left <= 0 or time.monotonic() > deadline,
        on_answer,
    )
    if answers == 0 and not outcome.is_infeasible:
        raise MapperError("no solution of the relaxation was found in time")
    return answers > 0


def _keep_masks(options: Sequence[Booleans], kept: Booleans) -> Booleans:
    """All choices of kept dataspaces, shape ``(masks, levels, dataspaces)``; if too many, `kept` alone."""
    if np.prod([len(keep_sets) for keep_sets in options], dtype=np.float64) > MOST_KEEP_MASKS:
        return kept[None]
    return np.array([np.stack(chosen, axis=1) for chosen in product(*options)])


def _order(problem: Problem, rules: TemporalRules, resting: int) -> list[int]:
    """Dimensions innermost first: those that leave the resting dataspace in place lie innermost."""
    moved = {dim: sum(dim in space.dims for space in problem.dataspaces) for dim in problem.dims}
    rests = problem.dataspaces[resting]
    middle = [dim for dim in problem.dims if dim not in (*rules.inner, *rules.outer)]
    middle.sort(key=lambda dim: (dim in rests.dims, moved[dim]))
    return [problem.dims.index(dim) for dim in (*rules.inner, *middle, *rules.outer)]
