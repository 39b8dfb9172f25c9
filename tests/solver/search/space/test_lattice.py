"""The divisor lattice against plain loops over divisors."""

import math
from itertools import product
from random import Random

import numpy as np
import pytest

from model.numbers import divisors, prime_factors
from solver.search.space.lattice import INFINITY, Lattice, Slot, coarsened
from tests.slow import few
from tests.solver.search.unusual import random_slot

BOUNDS = ((), (2,), (12,), (7, 4), (6, 30), (8, 9, 5), (2, 3, 2, 6))


@pytest.mark.parametrize("bounds", BOUNDS)
def test_holds_every_vector_of_divisors_once(bounds: tuple[int, ...]):
    lattice = Lattice(bounds)
    vectors = [lattice.vector(index) for index in range(lattice.size)]
    assert sorted(vectors) == sorted(product(*(divisors(bound) for bound in bounds)))
    assert [lattice.index(vector) for vector in vectors] == list(range(lattice.size))
    assert lattice.vector(lattice.size - 1) == bounds
    assert lattice.vector(0) == (1,) * len(bounds)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_exponents_spell_the_extents(bounds: tuple[int, ...]):
    lattice = Lattice(bounds)
    for index in range(lattice.size):
        spelled = [1] * len(bounds)
        for (dim, prime, most), exponent in zip(lattice.axes, lattice.exponents[index], strict=True):
            assert 0 <= exponent <= most
            spelled[dim] *= prime ** int(exponent)
        assert tuple(spelled) == lattice.vector(index)
    assert [(d, p, e) for d, bound in enumerate(bounds) for p, e in prime_factors(bound)] == list(
        lattice.axes
    )


@pytest.mark.parametrize("bounds", BOUNDS)
def test_places_and_positions_agree(bounds: tuple[int, ...]):
    lattice = Lattice(bounds)
    for index in range(lattice.size):
        vector = lattice.vector(index)
        places = [lattice.position[d][extent] for d, extent in enumerate(vector)]
        assert lattice.places[index].tolist() == places
        assert sum(p * s for p, s in zip(places, lattice.dim_strides, strict=True)) == index


@pytest.mark.parametrize("bounds", BOUNDS)
def test_indices_of_products_add_up(bounds: tuple[int, ...]):
    lattice = Lattice(bounds)
    everything = np.arange(lattice.size)
    for factor in range(lattice.size):
        fits = lattice.fitting(everything, factor)
        for index in range(lattice.size):
            vector = tuple(a * b for a, b in zip(lattice.vector(index), lattice.vector(factor), strict=True))
            inside = all(bound % v == 0 for bound, v in zip(bounds, vector, strict=True))
            assert fits[index] == inside
            if inside:
                assert lattice.index(vector) == index + factor


def swept(slot: Slot, table: np.ndarray, dims: tuple[int, ...] | None) -> list[int]:
    """Minimum over all vectors from which the slot leads to each vector, pair by pair."""
    lattice = slot.lattice
    moving = range(len(lattice.bounds)) if dims is None else dims
    result = []
    for target in map(lattice.vector, range(lattice.size)):
        best = INFINITY
        for source in range(lattice.size):
            vector = lattice.vector(source)
            pairs = enumerate(zip(target, vector, strict=True))
            if all(
                t % s == 0 and t // s in slot.allowed[d] and (d in moving or t == s) for d, (t, s) in pairs
            ):
                best = min(best, int(table[source]))
        result.append(best)
    return result


def draw(seed: int) -> tuple[Random, Slot, tuple[int, ...] | None]:
    random = Random(seed)
    bounds = random.choice(BOUNDS[1:])
    slot = random_slot(random, Lattice(bounds))
    dims = tuple(sorted(random.sample(range(len(bounds)), random.randint(0, len(bounds)))))
    return random, slot, random.choice((None, dims))


@pytest.mark.parametrize("seed", few(range(60), 20))
def test_sweep_is_the_minimum_over_what_leads_there(seed: int):
    random, slot, dims = draw(seed)
    table = np.array([random.choice((INFINITY, random.randint(0, 99))) for _ in range(slot.lattice.size)])
    before = table.copy()
    assert slot.sweep(table, dims).tolist() == swept(slot, table, dims)
    assert (table == before).all()


@pytest.mark.parametrize("seed", few(range(40), 15))
@pytest.mark.parametrize("pairs", [0, 10**9])
def test_reach_by_pairs_and_by_sweep(seed: int, pairs: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("solver.search.space.lattice.PAIRS_PER_STATE", pairs)
    random, slot, dims = draw(1000 + seed)
    size = slot.lattice.size
    sources = np.array(random.choices(range(size), k=random.randint(0, size)), dtype=np.int64)
    targets = np.array(random.choices(range(size), k=random.randint(1, size)), dtype=np.int64)
    values = np.array([random.randint(0, 50) for _ in sources], dtype=np.int64)
    table = np.full(size, INFINITY)
    for source, value in zip(sources, values, strict=True):
        table[source] = min(table[source], value)
    expected = [swept(slot, table, dims)[target] for target in targets]
    assert slot.reach(sources, targets).least(values, dims).tolist() == expected


def test_infinities_of_all_tables_add_up():
    assert sum([np.int64(INFINITY)] * 12) == 12 * INFINITY
    assert math.log2(12 * INFINITY) < 63


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
