"""The divisor lattice against plain loops over divisors."""

from itertools import product

import pytest

from model.numbers import divisors, prime_factors
from solver.search.space.lattice import Lattice, coarsened
from tests.solver.search.vectors import index_of, vector_at

BOUNDS = ((), (2,), (12,), (7, 4), (6, 30), (8, 9, 5), (2, 3, 2, 6))


@pytest.mark.parametrize("bounds", BOUNDS)
def test_holds_every_vector_of_divisors_once(bounds: tuple[int, ...]):
    lattice = Lattice(bounds)
    vectors = [vector_at(lattice, index) for index in range(lattice.size)]
    assert sorted(vectors) == sorted(product(*(divisors(bound) for bound in bounds)))
    assert [index_of(lattice, vector) for vector in vectors] == list(range(lattice.size))
    assert vector_at(lattice, lattice.size - 1) == bounds
    assert vector_at(lattice, 0) == (1,) * len(bounds)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_exponents_spell_the_extents(bounds: tuple[int, ...]):
    lattice = Lattice(bounds)
    for index in range(lattice.size):
        spelled = [1] * len(bounds)
        for (dim, prime, most), exponent in zip(lattice.axes, lattice.exponents[index], strict=True):
            assert 0 <= exponent <= most
            spelled[dim] *= prime ** int(exponent)
        assert tuple(spelled) == vector_at(lattice, index)
    assert [(d, p, e) for d, bound in enumerate(bounds) for p, e in prime_factors(bound)] == list(
        lattice.axes
    )


@pytest.mark.parametrize("bound", [2, 7, 12, 49, 64, 128, 210, 360, 960, 1024, 5040, 3**5 * 4])
def test_coarsened_steps_make_up_fewer_divisors(bound: int):
    lattice = Lattice((bound,))
    assert lattice.divisors_of(0)[-1] == bound
    while lattice.size > 2:
        coarser = Lattice((bound,), ((0, coarsened(lattice.steps(0))),))
        extents = coarser.divisors_of(0)
        assert {1, bound} <= {*extents} < {*lattice.divisors_of(0)}
        assert len({*extents}) == coarser.size >= lattice.size // 6
        lattice = coarser
    assert lattice.divisors_of(0) == (1, bound)
