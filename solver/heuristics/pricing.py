"""The price service: every mapping of every mapper is judged here, on the cost model, within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from model.cost import Evaluation
from model.cost.batch import BatchEvaluation, BatchEvaluator, MappingBatch, encode
from model.cost.batch.evaluator import MAPPINGS_PER_CHUNK
from model.cost.batch.judge import rules_hold
from model.cost.batch.mappings import Booleans, Doubles
from model.cost.nest import build_nest
from model.extents import PERFECT
from model.mapping import Mapping
from model.mapspace import Mapspace
from model.objective import objective_value
from model.places import gathered
from model.sparse import evaluate_totals
from solver.heuristics.interface import Budget, BudgetSpent
from solver.heuristics.rules import MapspaceRules
from solver.result import ContradictionError

AT_ONCE = 256
"""Mappings that take long, with remainders or one by one, before the budget is looked at again."""

ROUNDING = 1 + 1e-12
"""Values of doubles this close to each other are compared exactly."""

MOST_SETTLED = 16
"""Of mappings that estimates or rounded counts do not tell apart, the best, which are compared exactly."""


@dataclass(frozen=True)
class Incumbent:
    """The best mapping so far, and what the plain cost model says of it."""

    seconds: float  # since the run began
    evaluations: int  # mappings that were priced by then
    values: tuple[int, ...]  # one per objective: energy units, cycles, or their product
    mapping: Mapping
    evaluation: Evaluation


@dataclass(frozen=True, eq=False)
class BatchPrices:
    """Prices of a batch of mappings."""

    allowed: Booleans  # shape ``(mappings,)``: those that break no rule and no limit
    values: Doubles  # shape ``(mappings, objectives)``: see `Incumbent`; infinite where not allowed

    @property
    def scores(self) -> Doubles:
        """Values of the first objective, shape ``(mappings,)``."""
        return self.values[:, 0]


_Costs = Callable[[MappingBatch], tuple[Doubles, Doubles]]
"""Energy and cycles of mappings that break no rule, infinite where they break a limit."""


class Pricing:
    """Prices mappings for one run of a mapper, counts them, and remembers the best.

    Parameters
    ----------
    objectives
        Names out of `model.objective.OBJECTIVES`, compared lexicographically.
    budget, should_stop
        When `BudgetSpent` is raised. The time runs from the creation of this object.
    seed
        For mappers that draw random numbers.

    Raises
    ------
    MapperError
        If the mapspace is beyond what arrays of mappings are made for.
    ValueError
        If it has what only the plain cost model knows, see `Mapspace.check_searchable`; remainders and
        rules may be.
    """

    def __init__(
        self,
        mapspace: Mapspace,
        objectives: Sequence[str],
        budget: Budget = Budget(),
        seed: int = 0,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        replace(gathered(mapspace), rules=(), sparsity=None).check_searchable()
        self.mapspace = mapspace
        self.objectives = tuple(objectives)
        self.budget = budget
        self.seed = seed
        self.rules = MapspaceRules(mapspace)
        self.evaluations = 0
        self.valid = 0
        self.trace: list[Incumbent] = []
        self.notes: list[str] = []
        self._should_stop = should_stop
        self._evaluator = _evaluator(mapspace)
        self._least_estimate = np.inf
        if self._evaluator is None and mapspace.sparsity is None:
            self.note("counts exceed 64 bits, so mappings are priced one by one")
        self._start = time.perf_counter()

    @property
    def batched(self) -> bool:
        """Whether many mappings are priced at once; one by one takes a thousand times longer."""
        return self._evaluator is not None

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self._start

    @property
    def seconds_left(self) -> float:
        """Time that is left, infinite without a limit, 0 once the run is to stop."""
        if self._should_stop():
            return 0.0
        return np.inf if self.budget.seconds is None else max(0.0, self.budget.seconds - self.seconds)

    @property
    def best(self) -> Incumbent | None:
        """The best mapping that was priced."""
        return self.trace[-1] if self.trace else None

    def note(self, text: str) -> None:
        """Add a remark that people read beside the result."""
        self.notes.append(text)

    def check_budget(self) -> None:
        """Raise `BudgetSpent` if nothing is left; for mappers that compute long between prices."""
        if self.seconds_left <= 0 or self._next_chunk() <= 0:
            raise BudgetSpent

    def price(self, mappings: Sequence[Mapping]) -> BatchPrices:
        """Price mappings; the axes of their spatial loops are free (see `MapspaceRules`).

        Raises
        ------
        BudgetSpent
            Once the budget is spent; what was priced up to then counts.
        ValueError
            If a mapping is none of this problem on this architecture.
        """
        return self.price_batch(self._encode(mappings))

    def price_batch(self, batch: MappingBatch) -> BatchPrices:
        """Price mappings that are arrays already, as `price` does; ``columns`` are not looked at.

        Of memories with several places, those that keep nothing are as `MapspaceRules.arranged` has them.
        """
        is_fast = self.mapspace.factors == PERFECT and self._evaluator is not None
        return self._in_chunks(batch, self._chunk, MAPPINGS_PER_CHUNK if is_fast else AT_ONCE)

    def estimate_batch(self, batch: MappingBatch) -> BatchPrices:
        """Price mappings as `price_batch` does, but with remainders about: see `BatchEvaluator.estimate`.

        For mappers that compare many. The one that seems best is priced exactly, if better than all before.
        """
        if self.mapspace.factors == PERFECT or self._evaluator is None:
            return self.price_batch(batch)
        return self._in_chunks(batch, self._estimated_chunk, MAPPINGS_PER_CHUNK)

    def settle(self, batch: MappingBatch, prices: BatchPrices, most: int = MOST_SETTLED) -> None:
        """Price the `most` best of mappings exactly whose `prices` are estimates; they count once."""
        if self.mapspace.factors == PERFECT:
            return
        batch, rows = self.rules.arranged(batch), np.flatnonzero(prices.allowed)
        for row in rows[np.argsort(prices.scores[rows], kind="stable")[:most]]:
            if self.seconds_left <= 0:
                raise BudgetSpent
            one = batch.part(np.array([row]))
            energy, cycles = self._costs_one_by_one(one)
            self._consider(one, self._values(energy, cycles)[:, 0], energy, cycles)

    def offer(self, mapping: Mapping) -> str | None:
        """Price a mapper's answer, within the budget or not; return what rule or limit it breaks, if any."""
        batch = self._encode([mapping])
        self._check(batch)
        batch = self.rules.arranged(batch)
        if (rule := self.rules.broken(batch, 0)) is not None:
            return rule
        self._chunk(batch)
        found = self._exact(self.rules.mapping(batch, 0))
        if found is None:
            return "what formats can hold"
        if found.violations:
            return f"the {found.violations[0].kind} of {found.violations[0].node}"
        return f"the rule {found.broken_rules[0].rule}" if found.broken_rules else None

    def _encode(self, mappings: Sequence[Mapping]) -> MappingBatch:
        problem, architecture = self.mapspace.problem, self.mapspace.architecture
        for mapping in mappings:
            build_nest(problem, architecture, mapping)
        return encode(problem, architecture, mappings)

    def _check(self, batch: MappingBatch) -> None:
        """Raise `ValueError` if factors or orders are none of this problem."""
        bounds = self.mapspace.problem.bounds
        if (batch.factors < 1).any():
            raise ValueError("a loop's bound is below 1")
        if self.mapspace.factors == PERFECT and (batch.factors.prod(axis=1) != bounds).any():
            raise ValueError("the factors of a dimension do not multiply to its bound")
        if (np.sort(batch.order, axis=2) != np.arange(len(bounds))).any():
            raise ValueError("an order of loops does not have each dimension once")

    def _next_chunk(self, together: int = MAPPINGS_PER_CHUNK) -> int:
        """Mappings that may be priced before the budget is looked at again."""
        most = self.budget.evaluations
        return together if most is None else min(together, most - self.evaluations)

    def _in_chunks(
        self,
        batch: MappingBatch,
        chunk: Callable[[MappingBatch], tuple[Booleans, Doubles]],
        together: int,
    ) -> BatchPrices:
        """Price mappings in chunks of at most so many; `BudgetSpent` once the budget is spent."""
        self._check(batch)
        batch = self.rules.arranged(batch)
        allowed = np.zeros(len(batch), dtype=np.bool_)
        values = np.full((len(batch), len(self.objectives)), np.inf)
        start = 0
        while start < len(batch):
            self.check_budget()
            rows = slice(start, start + self._next_chunk(together))
            allowed[rows], values[rows] = chunk(batch.part(rows))
            start = rows.stop
        return BatchPrices(allowed, values)

    def _chunk(self, batch: MappingBatch) -> tuple[Booleans, Doubles]:
        energy, cycles = self._costs(batch, self._exact_costs)
        values = self._values(energy, cycles)
        allowed = np.isfinite(energy)
        if allowed.any():
            self._consider(batch, values[:, 0], energy, cycles)
        return allowed, values

    def _estimated_chunk(self, batch: MappingBatch) -> tuple[Booleans, Doubles]:
        assert self._evaluator is not None
        energy, cycles = self._costs(batch, self._batch_costs(self._evaluator.estimate))
        prices = BatchPrices(np.isfinite(energy), self._values(energy, cycles))
        least = float(prices.scores.min(initial=np.inf))
        if least < self._least_estimate:
            self._least_estimate = least
            self.settle(batch, prices, 1)
        return prices.allowed, prices.values

    def _values(self, energy: Doubles, cycles: Doubles) -> Doubles:
        return np.stack([objective_value(name, energy, cycles) for name in self.objectives], axis=1)

    def _costs(self, batch: MappingBatch, costs: _Costs) -> tuple[Doubles, Doubles]:
        """Energy and cycles of mappings, infinite where they break a rule or a limit."""
        rows = np.flatnonzero(self.rules.allows(batch))
        energy, cycles = np.full(len(batch), np.inf), np.full(len(batch), np.inf)
        energy[rows], cycles[rows] = costs(batch.part(rows))
        self.evaluations += len(batch)
        self.valid += int(np.isfinite(energy).sum())
        return energy, cycles

    def _exact_costs(self, batch: MappingBatch) -> tuple[Doubles, Doubles]:
        if self._evaluator is None:
            return self._costs_one_by_one(batch)
        return self._batch_costs(self._evaluator.evaluate)(batch)

    def _batch_costs(self, price: Callable[[MappingBatch], BatchEvaluation]) -> _Costs:
        def costs(batch: MappingBatch) -> tuple[Doubles, Doubles]:
            found = price(batch)
            valid = found.valid & rules_hold(self.mapspace, batch, found)
            return np.where(valid, found.energy, np.inf), np.where(valid, found.cycles, np.inf)

        return costs

    def _costs_one_by_one(self, batch: MappingBatch) -> tuple[Doubles, Doubles]:
        evaluations = [self._exact(self.rules.mapping(batch, row)) for row in range(len(batch))]
        costs = [
            (each.energy, each.cycles) if each is not None and each.valid else (np.inf, np.inf)
            for each in evaluations
        ]
        energy, cycles = np.array(costs, dtype=np.float64).reshape(len(costs), 2).T
        return energy, cycles

    def _consider(self, batch: MappingBatch, scores: Doubles, energy: Doubles, cycles: Doubles) -> None:
        """Make the best mapping of a batch the incumbent, if exact prices say so."""
        least = float(scores.min())
        if self.best is not None and least > float(self.best.values[0]) * ROUNDING:
            return
        near = np.flatnonzero(scores <= least * ROUNDING)
        pairs, first = np.unique(np.stack([energy[near], cycles[near]]), axis=1, return_index=True)
        ranked = [
            tuple(objective_value(name, int(pair[0]), int(pair[1])) for name in self.objectives)
            for pair in pairs.T
        ]
        best_first = sorted(range(len(ranked)), key=ranked.__getitem__)
        rounded = self._evaluator is not None and self._evaluator.rounded
        for place in best_first[: MOST_SETTLED if rounded else 1]:
            self._compare(self.rules.mapping(batch, int(near[first[place]])))

    def _compare(self, mapping: Mapping) -> None:
        """Make a valid mapping the incumbent if it is better."""
        evaluation = self._exact(mapping)
        if evaluation is None or not evaluation.valid:
            raise ContradictionError("the batched and the plain cost model disagree on what is valid")
        exact = tuple(map(evaluation.value, self.objectives))
        if self.best is None or exact < self.best.values:
            self.trace.append(Incumbent(self.seconds, self.evaluations, exact, mapping, evaluation))

    def _exact(self, mapping: Mapping) -> Evaluation | None:
        return evaluate_totals(self.mapspace, mapping)


def _evaluator(mapspace: Mapspace) -> BatchEvaluator | None:
    """The batched cost model, None if it does not know the data or such large counts."""
    if mapspace.sparsity is not None:
        return None
    for rounded in (False, True) if mapspace.counting_rule.rounds_counts else (False,):
        with suppress(OverflowError):
            return BatchEvaluator(mapspace.problem, mapspace.architecture, mapspace.counting, rounded=rounded)
    return None
