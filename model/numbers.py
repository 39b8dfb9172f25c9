"""Small exact number theory: divisors and prime powers; decimals of any length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import TypeVar

Item = TypeVar("Item")

EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Sums and products of decimals in it are exact; the usual context rounds to 28 digits."""


@cache
def divisors(number: int) -> tuple[int, ...]:
    """Divisors of `number`, which is at least 1, in ascending order."""
    found = [1]
    for prime, exponent in prime_factors(number):
        powers = [prime**power for power in range(exponent + 1)]
        found = [divisor * power for divisor in found for power in powers]
    return tuple(sorted(found))


@cache
def prime_factors(number: int) -> tuple[tuple[int, int], ...]:
    """Pairs (prime, exponent) of `number`, primes ascending, by trial division; none for 1."""
    powers: list[tuple[int, int]] = []
    prime = 2
    while prime * prime <= number:
        exponent = 0
        while number % prime == 0:
            number //= prime
            exponent += 1
        if exponent:
            powers.append((prime, exponent))
        prime += 1
    return (*powers, (number, 1)) if number > 1 else tuple(powers)


def common_divisor(first: Fraction, second: Fraction) -> Fraction:
    """Return the largest number of which both are multiples; of 0 everything is one."""
    shared = math.lcm(first.denominator, second.denominator)
    return Fraction(math.gcd(int(first * shared), int(second * shared)), shared)


def subsets(items: Iterable[Item]) -> Iterator[tuple[Item, ...]]:
    """Yield the subsets of some items, in their order, by rising size."""
    own = tuple(items)
    return (chosen for size in range(len(own) + 1) for chosen in combinations(own, size))


def rounded_quotient(number: int, divisor: int) -> int:
    """The quotient of whole numbers as `round` rounds it: to the nearest one, halves to even."""
    whole, rest = divmod(number, divisor)
    return whole + (2 * rest > divisor or (2 * rest == divisor and whole % 2 == 1))
