"""Factors of bounds, and products of them, as variables of a CP-SAT model."""

from __future__ import annotations

from collections.abc import Sequence

from model.numbers import divisors, prime_factors
from model.problem import Problem
from solver.cpsat import CheckedModel, Expression, Literal, Variable

Exponents = tuple[Variable, ...]
"""A factor of a bound: the exponent of each prime of the bound, primes ascending."""


class Products:
    """What is derived from vectors of prime exponents, and added to a model with it.

    Tables tie a vector to the place of its factor among the divisors of the bound, on which rules are
    comparisons, and to the factor itself, cut off above what a limit can tell apart.

    Parameters
    ----------
    checked
        The model; whoever adds to it checks it.
    problem
        Whose bounds are factorized.
    """

    def __init__(self, checked: CheckedModel, problem: Problem) -> None:
        self._model = checked.model
        self._bound = problem.bound
        self._indices: dict[Exponents, Variable] = {}

    def index(self, exponents: Exponents, dim: str) -> Variable:
        """Return the place of a factor among the divisors of the bound of `dim`."""
        if exponents not in self._indices:
            count = len(divisors(self._bound[dim]))
            self._indices[exponents] = self._model.new_int_var(0, count - 1, f"i{len(self._indices)}")
            self._tie(exponents, dim, self._indices[exponents], list(range(count)))
        return self._indices[exponents]

    def value(self, exponents: Exponents, dim: str, most: int) -> Variable:
        """Return a factor of `dim`; those above `most` read ``most + 1``."""
        values = [min(divisor, most + 1) for divisor in divisors(self._bound[dim])]
        value = self._model.new_int_var(1, values[-1], f"v_{dim}")
        self._tie(exponents, dim, value, values)
        return value

    def _tie(self, exponents: Exponents, dim: str, variable: Variable, values: Sequence[int]) -> None:
        """Let `variable` be the entry of `values` that belongs to the divisor with these exponents."""
        bound = self._bound[dim]
        primes = [prime for prime, _ in prime_factors(bound)]
        powers = [dict(prime_factors(divisor)) for divisor in divisors(bound)]
        rows = [
            (*(own.get(prime, 0) for prime in primes), value)
            for own, value in zip(powers, values, strict=True)
        ]
        self._model.add_allowed_assignments([*exponents, variable], rows)

    def where(
        self, conditions: Sequence[Literal], value: Expression, most: int, otherwise: int = 1
    ) -> Variable:
        """Return `value`, at most `most`, where all conditions hold, else `otherwise`."""
        shadow = self._model.new_int_var(min(otherwise, 1), most, "s")
        self._model.add(shadow == value).only_enforce_if(*conditions)
        for condition in conditions:
            self._model.add(shadow == otherwise).only_enforce_if(condition.negated())
        return shadow

    def product(self, factors: Sequence[Variable], most: int) -> Variable:
        """Return the product of variables, each at least 1; it cannot exceed `most`."""
        total = self._model.new_constant(1)
        for factor in factors:
            following = self._model.new_int_var(1, most, "p")
            self._model.add_multiplication_equality(following, [total, factor])
            total = following
        return total
