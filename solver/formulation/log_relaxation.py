"""A one-shot constrained optimizer: the formulation, with logarithms as its objective, solved once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from model.architecture import StorageLevel
from model.cost.batch import MappingBatch
from model.cost.batch.mappings import Booleans, Integers
from model.extents import ANY
from model.mapspace import Mapspace, TemporalRules
from model.numbers import divisors
from model.problem import Problem
from solver.cpsat import Answer, Expression, RangeError, Settings, Variable
from solver.formulation.constraints import Constraints
from solver.formulation.integers import LARGEST_BOUND, integers_of
from solver.formulation.requirements import constraints_of
from solver.heuristics.interface import MapperError
from solver.heuristics.pricing import Pricing
from solver.heuristics.rules import MapspaceRules
from solver.heuristics.sampling import perfect_first

LOG_UNIT = 1 << 11
"""Integer units of one binary logarithm."""

WEIGHT_TOTAL = 1000
"""What the weights of the objective add up to, about."""

SMALL_FACTORS = 32
"""Factors up to it are all modelled where any are allowed."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What counts how much in the sum of logarithms: filled buffers, cycles, and words moved."""

    # From 0 to 1 each; they need not add up to 1.
    utilization: float
    compute: float
    traffic: float


def units(value: float) -> int:
    """Binary logarithm in integer units."""
    return round(math.log2(value) * LOG_UNIT)


def modelled_factors(mapspace: Mapspace, dim: str) -> list[int]:
    """Return factors of a dimension: low ones, divisors, those of least extents, and what is asked for."""
    bound = mapspace.problem.bound[dim]
    asked = {rule.value for rules in mapspace.factor_rules for rule in rules if rule.dim == dim}
    sides = {side for fanout in mapspace.architecture.fanouts for side in (fanout.mesh_x, fanout.mesh_y)}
    found = {
        *range(1, SMALL_FACTORS + 1),
        *mapspace.extents(dim).least_factors(1),
        *divisors(bound),
        *asked,
        *sides,
    }
    return sorted(factor for factor in found if factor <= bound)


class LogModel:
    """The mappings of the formulation that keep what is given, and logarithms of what they cost.

    What is left out: words that sliding windows share, and orders, except for which dataspace rests
    innermost in each level; and, where factors may be any, all but the `modelled_factors`.
    """

    def __init__(self, rules: MapspaceRules, kept: Booleans, weights: Weights) -> None:
        self._mapspace: Mapspace = rules.mapspace
        self._kept = kept
        if self._mapspace.factors == ANY and max(self._mapspace.problem.bounds) > LARGEST_BOUND:
            raise MapperError("products of factors are too large for CP-SAT to be relied on")
        self._numbers = integers_of(self._mapspace)
        self.checked = self._numbers.checked
        self.model = self.checked.model
        Constraints(self._numbers).require(constraints_of(self._mapspace))
        spaces = self._mapspace.problem.dataspaces
        for level, place in product(range(len(kept)), range(len(spaces))):
            self.model.add(self._numbers.keeps(level, spaces[place].name) == int(kept[level, place]))
        self._logs = {
            (node, dim): self._numbers.logarithm(factor, units, modelled_factors(self._mapspace, dim))
            for (node, dim), factor in self._numbers.factors.items()
        }
        self._add_products()
        self.resting = self._add_resting()
        self._add_objective(weights)
        try:
            self.checked.check()
        except RangeError as error:
            raise MapperError("sums of logarithms are too large for CP-SAT to be relied on") from error

    def _log(self, nodes: Iterable[int], dims: Iterable[str]) -> Expression:
        """Logarithm of the product of all factors of some dimensions at some nodes."""
        every = list(dims)
        return sum(self._logs[node, dim] for node in nodes for dim in every)

    def _add_products(self) -> None:
        """Limit products by their logarithms as well: a linear relaxation sees nothing else of them."""
        architecture, bound = self._mapspace.architecture, self._mapspace.problem.bound
        nodes = range(len(architecture.nodes))
        # No logarithm of a prime or a factor is off by more than half a unit.
        rounding = sum(bound[dim].bit_length() for dim in self._numbers.dims)
        for dim in self._numbers.dims if self._mapspace.factors == ANY else ():
            least, most = units(bound[dim]) - len(nodes), self._longest(dim) + len(nodes)
            self.model.add_linear_constraint(self._log(nodes, [dim]), least, most)
        for node, fanout in zip(architecture.fanout_indices, architecture.fanouts, strict=True):
            self.model.add(self._log([node], self._numbers.dims) <= units(fanout.size) + rounding)

    def _longest(self, dim: str) -> int:
        """Logarithm of the largest product of all factors of a dimension, twice the bound with remainders."""
        return units(self._mapspace.problem.bound[dim]) + (LOG_UNIT if self._mapspace.factors == ANY else 0)

    def _add_resting(self) -> list[list[Variable]]:
        """Per storage level, which dataspace its innermost loops leave in place."""
        spaces = range(len(self._mapspace.problem.dataspaces))
        levels = range(len(self._mapspace.architecture.levels))
        resting = [[self.model.new_bool_var(f"rests{level}_{place}") for place in spaces] for level in levels]
        for literals in resting:
            self.model.add_exactly_one(literals)
        return resting

    def _moving(self, place: int) -> list[str]:
        """Dimensions with iterations that index a dataspace."""
        space = self._mapspace.problem.dataspaces[place]
        return [dim for dim in self._numbers.dims if dim in space.dims]

    def _filled(self) -> list[Expression]:
        """Logarithms of the iterations that the tiles in limited levels stand for."""
        architecture = self._mapspace.architecture
        levels = zip(architecture.storage_indices, architecture.levels, self._kept, strict=True)
        return [
            self._log(range(position, len(architecture.nodes)), self._moving(place))
            for position, level, kept in levels
            if level.usable_words is not None
            for place in np.flatnonzero(kept).tolist()
        ]

    def _add_objective(self, weights: Weights) -> None:
        architecture, filled = self._mapspace.architecture, self._filled()
        steps = self._log(architecture.storage_indices, self._numbers.dims)
        terms = [max(1, round(weights.compute * WEIGHT_TOTAL)) * steps]
        if filled and weights.utilization:
            terms.append(-max(1, round(weights.utilization * WEIGHT_TOTAL / len(filled))) * sum(filled))
        prices = self._prices()
        total = sum(prices.values()) or 1.0
        for (level, place), price in prices.items():
            weight = round(weights.traffic * WEIGHT_TOTAL * price / total)
            if weight:
                terms.append(weight * sum(self._repeats(level, place, outer) for outer in range(level)))
        self.model.minimize(sum(terms))

    def _prices(self) -> dict[tuple[int, int], float]:
        """What delivering a dataspace once to a level that keeps it costs, about."""
        levels = self._mapspace.architecture.levels
        bound = self._mapspace.problem.bound
        prices = {}
        for place, space in enumerate(self._mapspace.problem.dataspaces):
            keeping = np.flatnonzero(self._kept[:, place]).tolist()
            words = math.prod(bound[dim] for dim in space.dims)
            for outer, level in pairwise(keeping):
                prices[level, place] = words * sum(_price(levels[at], space.name) for at in (outer, level))
        return prices

    def _repeats(self, level: int, place: int, outer: int) -> Variable:
        """Logarithm of how often loops of the level `outer` redundantly deliver a dataspace to `level`."""
        positions, moving = self._mapspace.architecture.storage_indices, self._moving(place)
        idle = [dim for dim in self._numbers.dims if dim not in moving]
        most = sum(self._longest(dim) + self._mapspace.problem.bound[dim].bit_length() for dim in idle)
        repeats = self.model.new_int_var(0, most, f"repeats{level}_{place}_{outer}")
        free = self.model.new_bool_var(f"free{level}_{place}_{outer}")
        self.model.add(repeats >= self._log([positions[outer]], idle)).only_enforce_if(free.negated())
        self.model.add_implication(free, self.resting[outer][place])
        for between, dim in product(positions[outer + 1 : level], moving):
            self._numbers.between(self._numbers.factor(between, dim), 1, 1, free)
        return repeats

    def factors(self, answer: Answer) -> Integers:
        """Decode an answer, shape ``(nodes, dims)``."""
        dims = self._mapspace.problem.dims
        factors = np.ones((len(self._mapspace.architecture.nodes), len(dims)), dtype=np.int64)
        for (node, dim), factor in self._numbers.factors.items():
            factors[node, dims.index(dim)] = self._numbers.read(factor, answer)
        return factors


def _price(level: StorageLevel, dataspace: str) -> float:
    """Mean energy of moving a value of a dataspace, in the architecture's unit, at least 1."""
    energy, packing = level.energy, level.packing_of(dataspace)
    accesses = packing.accesses_per_block / packing.block_size
    return max(1.0, (energy.read + max(energy.fill, energy.update)) / 2 * accesses)


COMPUTE_SHARE = {"energy": 0.1, "latency": 0.9, "edp": 0.5}
"""Weight of the cycles against that of the traffic, by objective."""

MOST_KEEP_MASKS = 4096

PERFECT_SHARE = 0.25
"""Share of the time for perfect factors first, where factors may be any."""


class LogRelaxation:
    """Minimises a weighted sum of logarithms: filled buffers, cycles, and words moved.

    Every level keeps what it may while CP-SAT decides, or what it must if that has no solution; the loops
    that come out are then priced with all choices of kept dataspaces. All solutions on the way to the best
    one are priced as they are found. Where factors may be any, perfect ones come first.

    Parameters
    ----------
    utilization, compute
        Weights of the filled buffers and of the cycles (None: by objective); ``1 - compute`` is that of the
        words moved.
    seconds
        Time limit of CP-SAT, where the budget has none below it.
    """

    def __init__(self, utilization: float = 0.1, compute: float | None = None, seconds: float = 60.0) -> None:
        if not 0 <= utilization <= 1 or not 0 <= (compute or 0) <= 1 or not seconds > 0:
            raise ValueError("weights lie between 0 and 1, and the time limit above 0")
        self._utilization = utilization
        self._compute = compute
        self._seconds = seconds

    def find_mapping(self, mapspace: Mapspace, pricing: Pricing) -> None:
        """Solve the relaxation, and price its solutions."""
        if not all(len(options) for options in pricing.rules.keep_options):
            raise MapperError("the rules of the mapspace leave no mapping")
        seconds = min(self._seconds, pricing.seconds_left)
        solved = False
        if mapspace.factors == ANY:
            with suppress(MapperError):
                solved = self._solved(next(perfect_first(pricing.rules)), pricing, seconds * PERFECT_SHARE)
        if not self._solved(pricing.rules, pricing, self._seconds) and not solved:
            raise MapperError("the relaxation has no solution")

    def _solved(self, rules: MapspaceRules, pricing: Pricing, seconds: float) -> bool:
        """Price the solutions with these rules, and return whether there are any."""
        share = COMPUTE_SHARE[pricing.objectives[0]] if self._compute is None else self._compute
        weights = Weights(self._utilization, share, 1 - share)
        deadline = time.monotonic() + seconds
        choices = math.prod(len(keep_sets) for keep_sets in rules.keep_options)
        for chosen in (np.argmax, np.argmin):
            kept = np.stack(
                [keep_sets[chosen(keep_sets.sum(axis=1))] for keep_sets in rules.keep_options], axis=1
            )
            masks = rules.keep_masks() if choices <= MOST_KEEP_MASKS else kept[None]
            decoder = _Decoder(rules.mapspace, pricing, masks)
            if _solve(LogModel(rules, kept, weights), decoder, pricing, deadline):
                return True
        return False


class _Decoder:
    """Prices what a solution of the model stands for."""

    def __init__(self, mapspace: Mapspace, pricing: Pricing, masks: Booleans) -> None:
        self._mapspace = mapspace
        self._pricing = pricing
        self._masks = masks

    def price(self, factors: Integers, resting: Sequence[int]) -> None:
        """Price factors of shape ``(nodes, dims)``, with the dataspace that rests in each level."""
        problem, temporal = self._mapspace.problem, self._mapspace.temporal
        order = [_loop_order(problem, rules, space) for rules, space in zip(temporal, resting, strict=True)]
        rows = len(self._masks)
        batch = MappingBatch(
            np.tile(factors, (rows, 1, 1)), np.tile(np.array(order), (rows, 1, 1)), self._masks
        )
        self._pricing.settle(batch, self._pricing.estimate_batch(batch))


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


def _loop_order(problem: Problem, rules: TemporalRules, resting: int) -> list[int]:
    """Dimensions innermost first: those that leave the resting dataspace in place lie innermost."""
    moved = {dim: sum(dim in space.dims for space in problem.dataspaces) for dim in problem.dims}
    rests = problem.dataspaces[resting]
    middle = [dim for dim in problem.dims if dim not in (*rules.inner, *rules.outer)]
    middle.sort(key=lambda dim: (dim in rests.dims, moved[dim]))
    return [problem.dims.index(dim) for dim in (*rules.inner, *middle, *rules.outer)]
