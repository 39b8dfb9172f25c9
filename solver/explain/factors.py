"""Factors of dimensions in a CP-SAT model: prime exponents of perfect ones, or any with remainders.

A factor is a vector of variables. Perfect ones are vectors of prime exponents, so that a factorization is a
set of sums. Any other one is a single variable, its value; the extent outside of a loop is the product of the
factors up to it, and a loop has no more iterations than there are tiles inside of it:

    x_j = x_(j-1) f_j        f_j <= ceil(N / x_(j-1)), that is x_j - x_(j-1) < N        N <= x_n
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from model.architecture import Fanout, Node
from model.extents import ANY
from model.mapspace import Mapspace
from model.numbers import divisors, prime_factors
from model.problem import Problem
from solver.cpsat import LARGEST_ACTIVITY, Answer, CheckedModel, Expression, Variable

Factor = tuple[Variable, ...]
"""A factor or an extent: the exponent of each prime of the bound, primes ascending; or its value."""


class FactorModel(Protocol):
    """The factors of all nodes over the dimensions of a bound above 1, and the extents of tiles.

    Its `factors` are those of each node and dimension.
    """

    factors: dict[tuple[int, str], Factor]

    def tile(self, position: int, dim: str) -> Factor:
        """Return the extent of a dimension in a full tile of the node at `position`."""
        ...

    def place(self, dim: str, value: int) -> int:
        """Return the `index` of a factor or an extent with this value."""
        ...

    def index(self, factor: Factor, dim: str) -> Variable:
        """Return a variable that grows with a factor."""
        ...

    def value(self, factor: Factor, dim: str, most: int) -> Variable:
        """Return a factor of `dim`; one above `most` counts as ``most + 1``."""
        ...

    def read(self, factor: Factor, dim: str, values: Answer) -> int:
        """Return the value of a factor in an answer."""
        ...


def factor_model(checked: CheckedModel, mapspace: Mapspace) -> FactorModel:
    """Return the factors that the mapspace's kind of factors leaves, added to a model."""
    if mapspace.factors == ANY:
        return AnyFactors(checked, mapspace.problem, mapspace.architecture.nodes)
    return PerfectFactors(checked, mapspace.problem, len(mapspace.architecture.nodes))


class PerfectFactors:
    """Vectors of prime exponents.

    Tables tie a vector to the index of its factor among the divisors of the bound, so that rules are
    comparisons, and to the factor itself, capped just above the largest value that matters.
    """

    def __init__(self, checked: CheckedModel, problem: Problem, nodes: int) -> None:
        self._model = checked.model
        self._bound = problem.bound
        self._indices: dict[Factor, Variable] = {}
        self._nodes = nodes
        self.factors: dict[tuple[int, str], Factor] = {}
        for dim in (dim for dim, bound in problem.bound.items() if bound > 1):
            primes = prime_factors(self._bound[dim])
            for node in range(nodes):
                self.factors[node, dim] = tuple(
                    self._model.new_int_var(0, most, f"e{node}_{dim}_{prime}") for prime, most in primes
                )
            for place, (_, most) in enumerate(primes):
                self._model.add(sum(self.factors[node, dim][place] for node in range(nodes)) == most)

    def tile(self, position: int, dim: str) -> Factor:
        """Return the exponents of an extent: the sums of those of the factors inside."""
        extents = []
        for place, (prime, most) in enumerate(prime_factors(self._bound[dim])):
            extent = self._model.new_int_var(0, most, f"t{position}_{dim}_{prime}")
            inside = (self.factors[node, dim][place] for node in range(position, self._nodes))
            self._model.add(sum(inside) == extent)
            extents.append(extent)
        return tuple(extents)

    def place(self, dim: str, value: int) -> int:
        """Return the place of a divisor among those of the bound."""
        return divisors(self._bound[dim]).index(value)

    def index(self, factor: Factor, dim: str) -> Variable:
        """Return the place of a factor among the divisors of the bound of `dim`."""
        if factor not in self._indices:
            count = len(divisors(self._bound[dim]))
            self._indices[factor] = self._model.new_int_var(0, count - 1, f"i{len(self._indices)}")
            self._tie(factor, dim, self._indices[factor], list(range(count)))
        return self._indices[factor]

    def value(self, factor: Factor, dim: str, most: int) -> Variable:
        """Return a factor of `dim`; one above `most` counts as ``most + 1``."""
        values = [min(divisor, most + 1) for divisor in divisors(self._bound[dim])]
        value = self._model.new_int_var(1, values[-1], f"v_{dim}")
        self._tie(factor, dim, value, values)
        return value

    def _tie(self, factor: Factor, dim: str, variable: Variable, values: Sequence[int]) -> None:
        """Let `variable` be the entry of `values` that belongs to the divisor with these exponents."""
        bound = self._bound[dim]
        primes = [prime for prime, _ in prime_factors(bound)]
        powers = [dict(prime_factors(divisor)) for divisor in divisors(bound)]
        rows = [
            (*(powers_of.get(prime, 0) for prime in primes), value)
            for powers_of, value in zip(powers, values, strict=True)
        ]
        self._model.add_allowed_assignments([*factor, variable], rows)

    def read(self, factor: Factor, dim: str, values: Answer) -> int:
        """Return the value of a factor in an answer."""
        value = 1
        for (prime, _), exponent in zip(prime_factors(self._bound[dim]), factor, strict=True):
            value *= prime ** values.value(exponent)
        return value


LARGEST_BOUND = LARGEST_ACTIVITY // 4
"""Bounds up to which sums of extents stay in range."""


class AnyFactors:
    """Values of factors that may leave remainders."""

    def __init__(self, checked: CheckedModel, problem: Problem, nodes: Sequence[Node]) -> None:
        self._model = checked.model
        self._bound = problem.bound
        self._nodes = nodes
        self.factors: dict[tuple[int, str], Factor] = {}
        self._strides: dict[tuple[int, str], Expression] = {}
        for dim, bound in ((dim, bound) for dim, bound in problem.bound.items() if bound > 1):
            stride: Expression = 1
            for node in reversed(range(len(nodes))):
                factor = self._model.new_int_var(1, bound, f"f{node}_{dim}")
                outside = self._model.new_int_var(1, 2 * bound, f"x{node}_{dim}")
                self._model.add_multiplication_equality(outside, [stride, factor])
                self._model.add(outside - stride <= bound - 1)
                self.factors[node, dim] = (factor,)
                self._strides[node, dim] = stride = outside
            self._model.add(stride >= bound)

    def tile(self, position: int, dim: str) -> Factor:
        """Return an extent: the product of the factors inside, at most the bound."""
        return (self._at_most(self._strides[position, dim], self._bound[dim], f"t{position}_{dim}"),)

    def _at_most(self, value: Expression, most: int, name: str) -> Variable:
        """Return `value`, or `most` if that is less."""
        capped, over = self._model.new_int_var(1, most, name), self._model.new_bool_var(f"over_{name}")
        self._model.add(capped == value).only_enforce_if(over.negated())
        self._model.add(capped == most).only_enforce_if(over)
        self._model.add(value >= most).only_enforce_if(over)
        return capped

    def place(self, dim: str, value: int) -> int:
        """Return the value itself."""
        return value

    def index(self, factor: Factor, dim: str) -> Variable:
        """Return the variable of a factor."""
        return factor[0]

    def value(self, factor: Factor, dim: str, most: int) -> Variable:
        """Return a factor of `dim`; one above `most` counts as ``most + 1``."""
        return factor[0] if self._bound[dim] <= most + 1 else self._at_most(factor[0], most + 1, f"v_{dim}")

    def read(self, factor: Factor, dim: str, values: Answer) -> int:
        """Return the value of a factor in an answer."""
        return values.value(factor[0])

    def units(self, dim: str) -> Expression:
        """Return how many instances of the innermost node are ever in use along a dimension.

        With several fanouts the last tile may use fewer than a full one does. Of ``T_(j-1)`` tiles inside
        of a loop the last pass has ``T_(j-1) - (T_j - 1) f_j``, of which the last tile may be short; full
        ones use as many instances as the product of the spatial factors inside.
        """
        fanouts = [node for node, kind in enumerate(self._nodes) if isinstance(kind, Fanout)]
        if len(fanouts) < 2:
            return sum(self.factors[node, dim][0] for node in fanouts) if fanouts else 1
        bound = self._bound[dim]
        tiles: Expression = bound
        full: Expression = 1
        last: Expression = 1
        for node in reversed(range(len(self._nodes))):
            (factor,) = self.factors[node, dim]
            outside = self._variable(1, bound)
            passes = self._model.new_int_var(0, 2 * bound, "q")
            self._model.add_multiplication_equality(passes, [outside - 1, factor])
            rest = self._variable(1, bound)
            self._model.add(rest == tiles - passes)
            self._model.add(rest <= factor)
            last = self._last(node in fanouts, rest, full, last, bound)
            full = self._times(full, factor, 2 * bound) if node in fanouts else full
            tiles = outside
        return last

    def _last(
        self, spatial: bool, rest: Variable, full: Expression, last: Expression, bound: int
    ) -> Variable:
        """Instances that the last tile uses outside of a loop whose last pass has `rest` iterations."""
        used = self._variable(1, 2 * bound)
        if spatial:
            self._model.add(used == self._times(rest - 1, full, 2 * bound, least=0) + last)
            return used
        more = self._model.new_bool_var("more")
        self._model.add(rest >= 2).only_enforce_if(more)
        self._model.add(rest == 1).only_enforce_if(more.negated())
        self._model.add(used == full).only_enforce_if(more)
        self._model.add(used == last).only_enforce_if(more.negated())
        return used

    def _times(self, one: Expression, other: Expression, most: int, least: int = 1) -> Variable:
        result = self._variable(least, most)
        self._model.add_multiplication_equality(result, [one, other])
        return result

    def _variable(self, least: int, most: int) -> Variable:
        return self._model.new_int_var(least, most, "u")
