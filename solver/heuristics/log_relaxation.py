"""A one-shot constrained optimizer: the mapping problem in logarithms, solved once by CP-SAT."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, pairwise, product
from typing import NamedTuple

import numpy as np

from model.architecture import StorageLevel
from model.cost.batch import MappingBatch
from model.cost.batch.mappings import Booleans, Integers
from model.extents import ANY, PERFECT
from model.mapspace import FactorRule, Mapspace, TemporalRules
from model.numbers import divisors, prime_factors
from model.problem import Problem, Term
from solver.cpsat import Answer, CheckedModel, Expression, RangeError, Settings, Variable
from solver.heuristics.interface import MapperError
from solver.heuristics.pricing import Pricing
from solver.heuristics.rules import Rules
from solver.heuristics.sampling import completed, perfect_first

LOG_UNIT = 1 << 11
"""Integer units of one binary logarithm."""

WEIGHT_TOTAL = 1000
"""What the weights of the objective add up to, about."""

SMALL = 32
"""Factors up to it are all modelled where any are allowed."""

SHARES = 8
"""Parts into which a level is divided among the dataspaces it keeps."""


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


class _Axis(NamedTuple):
    """A prime of a bound, or the whole of a dimension whose factors may be any."""

    dim: int
    log: int  # of what an exponent of 1 stands for
    factors: dict[int, int]  # by exponent, ascending

    @property
    def most(self) -> int:
        """The largest exponent."""
        return max(self.factors)


def _axes(mapspace: Mapspace) -> Iterator[_Axis]:
    """Yield the axes of all dimensions: the exponents of a factor are its logarithm where it may be any."""
    for dim, (name, bound) in enumerate(mapspace.problem.bound.items()):
        if mapspace.factors == ANY and bound > 1:
            yield _Axis(dim, 1, {units(factor): factor for factor in _modelled_factors(mapspace, name)})
        primes = prime_factors(bound) if mapspace.factors == PERFECT else ()
        for prime, most in primes:
            yield _Axis(dim, units(prime), {exponent: prime**exponent for exponent in range(most + 1)})


def _modelled_factors(mapspace: Mapspace, dim: str) -> list[int]:
    """Return factors of a dimension: low ones, divisors, those of least extents, and what is asked for."""
    bound = mapspace.problem.bound[dim]
    asked = {rule.value for rules in mapspace.factor_rules for rule in rules if rule.dim == dim}
    sides = {side for fanout in mapspace.architecture.fanouts for side in (fanout.mesh_x, fanout.mesh_y)}
    found = {*range(1, SMALL + 1), *mapspace.extents(dim).least_factors(1), *divisors(bound), *asked, *sides}
    return sorted(factor for factor in found if factor <= bound)


class LogModel:
    """Exponents of the primes of all factors, and what the levels, meshes and rules say of them.

    Where factors may be any, their logarithms take the place of exponents, and their product may exceed the
    bound: up to twice.

    What is left out: sums of tiles (each dataspace has a share of a level, one of a few, and one of the
    words that are demanded of it), the words that sliding windows share, and orders, except for which
    dataspace rests innermost in each level.
    """

    def __init__(self, rules: Rules, kept: Booleans, weights: Weights) -> None:
        self.checked = CheckedModel()
        self.model = self.checked.model
        self._rules = rules
        self._mapspace: Mapspace = rules.mapspace
        self._kept = kept
        problem = self._mapspace.problem
        self._axes = list(_axes(self._mapspace))
        self._logs = [axis.log for axis in self._axes]
        self._along = {
            name: [place for place, axis in enumerate(self._axes) if axis.dim == number]
            for number, name in enumerate(problem.dims)
        }
        self._relevant = [
            sorted(axis for dim in space.dims for axis in self._along[dim]) for space in problem.dataspaces
        ]
        self.exponents = [
            [
                self.model.new_int_var(0, axis.most, f"e{node}_{place}")
                for place, axis in enumerate(self._axes)
            ]
            for node in range(len(self._mapspace.architecture.nodes))
        ]
        self._add_factors()
        self._add_meshes()
        self.resting = self._add_resting()
        self._add_objective(weights, self._add_capacities())
        try:
            self.checked.check()
        except RangeError as error:
            raise MapperError("sums of logarithms are too large for CP-SAT to be relied on") from error

    def _log(self, nodes: Sequence[int], axes: Sequence[int]) -> Expression:
        """Logarithm of the product of all factors of some axes at some nodes."""
        return sum(self.exponents[node][axis] * self._logs[axis] for node in nodes for axis in axes)

    def _add_factors(self) -> None:
        is_any = self._mapspace.factors == ANY
        for place, axis in enumerate(self._axes):
            total = sum(of_node[place] for of_node in self.exponents)
            # Rounded logarithms of each node are off by half a unit.
            least = axis.most - len(self.exponents) if is_any else axis.most
            self.model.add_linear_constraint(total, least, axis.most + LOG_UNIT if is_any else axis.most)
        for (node, rules), (dim, axes) in product(
            enumerate(self._mapspace.factor_rules), self._along.items()
        ):
            of_dim = [rule for rule in rules if rule.dim == dim]
            if axes and (of_dim or is_any):
                self._restrict(node, axes, of_dim)

    def _restrict(self, node: int, axes: Sequence[int], rules: Sequence[FactorRule]) -> None:
        rows = [
            tuple(exponent for exponent, _ in row)
            for row in product(*(self._axes[axis].factors.items() for axis in axes))
            if all(rule.allows(math.prod(factor for _, factor in row)) for rule in rules)
        ]
        self.model.add_allowed_assignments([self.exponents[node][axis] for axis in axes], rows)

    def _add_meshes(self) -> None:
        """Split the exponents of each fanout into X and Y, with sets along X that the rules allow."""
        architecture = self._mapspace.architecture
        for position, arrangements in zip(architecture.fanout_indices, self._rules.arrangements, strict=True):
            along_x = [self.model.new_bool_var(f"x{position}_{dim}") for dim in self._mapspace.problem.dims]
            self.model.add_allowed_assignments(along_x, arrangements.along_x.astype(int).tolist())
            columns = []
            for place, axis in enumerate(self._axes):
                column = self.model.new_int_var(0, axis.most, f"columns{position}_{place}")
                self.model.add(column == self.exponents[position][place]).only_enforce_if(along_x[axis.dim])
                self.model.add(column == 0).only_enforce_if(along_x[axis.dim].negated())
                columns.append(column)
            width = sum(column * log for column, log in zip(columns, self._logs, strict=True))
            fanout = arrangements.fanout
            self.model.add(width <= units(fanout.mesh_x + 0.5))
            self.model.add(
                self._log([position], range(len(self._axes))) - width <= units(fanout.mesh_y + 0.5)
            )
        least = float(self._mapspace.min_parallelism)
        if least > 1:
            in_use = self._log(architecture.fanout_indices, range(len(self._axes)))
            self.model.add(in_use >= units(math.ceil(least) - 0.5))

    def _add_resting(self) -> list[list[Variable]]:
        """Per storage level, which dataspace its innermost loops leave in place."""
        spaces = range(len(self._mapspace.problem.dataspaces))
        levels = range(len(self._mapspace.architecture.levels))
        resting = [[self.model.new_bool_var(f"rests{level}_{place}") for place in spaces] for level in levels]
        for literals in resting:
            self.model.add_exactly_one(literals)
        return resting

    def _add_capacities(self) -> list[Expression]:
        """Bound the tiles by shares of the levels; return the logarithms of the tiles' iterations."""
        architecture = self._mapspace.architecture
        filled: list[Expression] = []
        for number, (position, level) in enumerate(
            zip(architecture.storage_indices, architecture.levels, strict=True)
        ):
            spaces = np.flatnonzero(self._kept[number]).tolist()
            if level.usable_words is None or not spaces:
                continue
            inside = range(position, len(architecture.nodes))
            sizes = [
                level.packing_of(self._mapspace.problem.dataspaces[place].name).size_per_value
                for place in spaces
            ]
            rows = _shares(level.usable_words, sizes)
            most = max(max(row) for row in rows)
            shares = [self.model.new_int_var(0, most, f"share{number}_{place}") for place in spaces]
            self.model.add_allowed_assignments(shares, rows)
            for place, share in zip(spaces, shares, strict=True):
                ranks = self._mapspace.problem.dataspaces[place].ranks
                self.model.add(sum(self._extent(inside, rank) for rank in ranks) <= share)
                filled.append(self._log(inside, self._relevant[place]))
            if least := math.ceil(level.usable_words * level.min_utilization):
                self._add_demands(inside, spaces, _demands(least, sizes))
        return filled

    def _add_demands(self, inside: range, spaces: Sequence[int], rows: Sequence[tuple[int, ...]]) -> None:
        """Ask for tiles of no fewer values (in logarithms) than one of `rows` says."""
        demands = [self.model.new_int_var(0, max(column), "demand") for column in zip(*rows, strict=True)]
        self.model.add_allowed_assignments(demands, rows)
        for place, demand in zip(spaces, demands, strict=True):
            ranks = self._mapspace.problem.dataspaces[place].ranks
            self.model.add(sum(self._term(inside, term) for rank in ranks for term in rank) >= demand)

    def _extent(self, inside: range, rank: tuple[Term, ...]) -> Expression:
        """Logarithm of no less than the extent of a tile in one rank.

        The extent of a sum of k terms is at most the product of their extents, and at most k times the
        largest: the model chooses which of the two it keeps to.
        """
        parts = [self._term(inside, term) for term in rank]
        if len(parts) == 1:
            return parts[0]
        longest = sum(self._longest(axis) for axis in self._axes)
        most = longest + sum(units(abs(term.coefficient)) for term in rank) + units(max(1, len(rank)))
        extent = self.model.new_int_var(0, most, "extent")
        by_largest = self.model.new_bool_var("by_largest")
        self.model.add(extent >= sum(parts)).only_enforce_if(by_largest.negated())
        for part in parts:
            self.model.add(extent >= part + units(len(parts))).only_enforce_if(by_largest)
        return extent

    def _longest(self, axis: _Axis) -> int:
        """Logarithm of the largest product of all factors of an axis."""
        return axis.log * axis.most + (LOG_UNIT if self._mapspace.factors == ANY else 0)

    def _term(self, inside: range, term: Term) -> Expression:
        """Logarithm of no less than the extent along one dimension; strides count once it has one."""
        axes = self._along[term.dim]
        length = self._log(inside, axes)
        if abs(term.coefficient) == 1:
            return length
        extended = self.model.new_bool_var("extended")
        for node, axis in product(inside, axes):
            self.model.add(self.exponents[node][axis] == 0).only_enforce_if(extended.negated())
        return length + units(abs(term.coefficient)) * extended

    def _add_objective(self, weights: Weights, filled: Sequence[Expression]) -> None:
        architecture = self._mapspace.architecture
        everything = range(len(self._axes))
        steps = -self._log(architecture.fanout_indices, everything)
        if self._mapspace.factors == ANY:  # products differ, so that more children need not mean fewer steps
            steps = self._log(architecture.storage_indices, everything)
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
        positions = self._mapspace.architecture.storage_indices
        idle = [axis for axis in range(len(self._axes)) if axis not in self._relevant[place]]
        loops = self._log([positions[outer]], idle)
        most = sum(self._longest(self._axes[place]) for place in idle)
        repeats = self.model.new_int_var(0, most, f"repeats{level}_{place}_{outer}")
        free = self.model.new_bool_var(f"free{level}_{place}_{outer}")
        self.model.add(repeats >= loops).only_enforce_if(free.negated())
        self.model.add_implication(free, self.resting[outer][place])
        for between in positions[outer + 1 : level]:
            for axis in self._relevant[place]:
                self.model.add(self.exponents[between][axis] == 0).only_enforce_if(free)
        return repeats

    def factors(self, answer: Answer) -> Integers:
        """Decode an answer, shape ``(nodes, dims)``."""
        factors = np.ones((len(self.exponents), len(self._mapspace.problem.dims)), dtype=np.int64)
        for node, exponents in enumerate(self.exponents):
            for axis, exponent in zip(self._axes, exponents, strict=True):
                factors[node, axis.dim] *= axis.factors[answer.value(exponent)]
        return self._covering(factors) if self._mapspace.factors == ANY else factors

    def _covering(self, factors: Integers) -> Integers:
        """Let the outermost loop over each dimension have what the others leave."""
        storage = list(self._mapspace.architecture.storage_indices)
        outermost = np.array(storage)[(factors[storage] > 1).argmax(axis=0)]
        return completed(factors.T, outermost, np.array(self._mapspace.problem.bounds)).T


def _price(level: StorageLevel, dataspace: str) -> float:
    """Mean energy of moving a value of a dataspace, in the architecture's unit, at least 1."""
    energy, packing = level.energy, level.packing_of(dataspace)
    accesses = packing.accesses_per_block / packing.block_size
    return max(1.0, (energy.read + max(energy.fill, energy.update)) / 2 * accesses)


def _shares(words: int, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Ways to divide a level among dataspaces with values of these sizes, in logarithms of values."""
    parts = max(SHARES, len(sizes))
    divisions = []
    for cuts in combinations(range(1, parts), len(sizes) - 1):
        ends = zip(pairwise((0, *cuts, parts)), sizes, strict=True)
        divisions.append(tuple(max(1, words * (b - a) // (parts * size)) for (a, b), size in ends))
    # A quarter of a word more, so that rounded logarithms do not exclude what just fits.
    return [tuple(units(share + 0.25) for share in row) for row in divisions]


def _demands(words: int, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Ways to hold no less than `words`, in logarithms of the least number of values of each dataspace.

    Of so many parts as the words are divided into, all but one per further dataspace are held whole.
    """
    parts = max(SHARES, len(sizes))
    whole = parts + 1 - len(sizes)
    divisions = []
    for cuts in combinations_with_replacement(range(whole + 1), len(sizes) - 1):
        ends = zip(pairwise((0, *cuts, whole)), sizes, strict=True)
        divisions.append(tuple(words * (b - a) // (parts * size) for (a, b), size in ends))
    # A quarter of a word less, so that rounded logarithms do not exclude what is just enough.
    return [tuple(units(max(1, demand - 0.25)) for demand in row) for row in divisions]


COMPUTE_SHARE = {"energy": 0.1, "latency": 0.9, "edp": 0.5}
"""Weight of the cycles against that of the traffic, by objective."""

MOST_KEEP_MASKS = 4096

MOST_SETTLED = 4
"""Choices of kept dataspaces, the best ones, that are priced exactly where prices are estimates."""

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

    def _solved(self, rules: Rules, pricing: Pricing, seconds: float) -> bool:
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
        order = [_order(problem, rules, space) for rules, space in zip(temporal, resting, strict=True)]
        rows = len(self._masks)
        batch = MappingBatch(
            np.tile(factors, (rows, 1, 1)), np.tile(np.array(order), (rows, 1, 1)), self._masks
        )
        self._pricing.settle(batch, self._pricing.estimate_batch(batch), MOST_SETTLED)


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


def _order(problem: Problem, rules: TemporalRules, resting: int) -> list[int]:
    """Dimensions innermost first: those that leave the resting dataspace in place lie innermost."""
    moved = {dim: sum(dim in space.dims for space in problem.dataspaces) for dim in problem.dims}
    rests = problem.dataspaces[resting]
    middle = [dim for dim in problem.dims if dim not in (*rules.inner, *rules.outer)]
    middle.sort(key=lambda dim: (dim in rests.dims, moved[dim]))
    return [problem.dims.index(dim) for dim in (*rules.inner, *middle, *rules.outer)]
