"""Prices of delivered words: arrays against single figures, and against the cost model's counts."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel, with_places
from solver.search.space.prices import (
    LARGEST_COST,
    LARGEST_TOTAL,
    BoundaryPrice,
    LinearPrice,
    LoadTerm,
    PriceTerm,
    Resource,
    resources,
)


def random_price(random: Random) -> BoundaryPrice:
    terms = tuple(
        PriceTerm(
            random.randint(1, 10 ** random.randint(1, 9)),
            random.randint(1, 20),
            random.choice((0, 0, random.randint(1, 200))),
            random.choice((1, 1, 2, 3, 4, 8)),
        )
        for _ in range(random.randint(0, 4))
    )
    return BoundaryPrice(terms, ())


@pytest.mark.parametrize("seed", range(30))
def test_arrays_are_priced_like_single_figures(seed: int):
    random = Random(seed)
    price = random_price(random)
    least = max((-(-term.minus // term.multiplier) for term in price.terms), default=0)
    words = [least + random.randint(0, 10 ** random.randint(1, 6)) for _ in range(50)]
    expected = [price.exact(count) for count in words]
    assert price.price(np.array(words)).tolist() == expected
    for more in (0, 1, 5, 1000):
        increment = int(price.increment(np.array([more]))[0])
        assert all(price.exact(count + more) - price.exact(count) >= increment for count in words)


@pytest.mark.parametrize("seed", range(10))
def test_linear_prices_never_exceed_what_they_stand_for(seed: int):
    random = Random(seed)
    exact = random_price(random)
    rates = tuple((t.price * t.multiplier / t.block, t.price * t.minus / t.block) for t in exact.terms)
    price = LinearPrice((), (), rates)
    words = np.array(sorted(random.randint(0, 10 ** random.randint(1, 6)) for _ in range(50)))
    found = price.price(words)
    assert found.tolist() == [price.exact(int(count)) for count in words]
    assert (np.diff(found) >= 0).all()
    assert all(own <= exact.exact(int(count)) * (1 + 1e-12) for own, count in zip(found, words, strict=True))
    for more in (0, 1, 5, 1000):
        increment = price.increment(np.array([more]))[0]
        assert (price.price(words + more) - found >= increment - 1).all()


def test_linear_prices_are_cut_off_before_they_wrap_around():
    price = LinearPrice((), (), ((1e30, 0.0), (2.0, 1e6)))
    assert price.price(np.array([0, 1, 1 << 60])).tolist() == [0, LARGEST_TOTAL, LARGEST_TOTAL]


def test_exact_rounds_up_to_blocks():
    price = BoundaryPrice((PriceTerm(10, 3, 2, 4), PriceTerm(1, 1, 0, 1)), ())
    assert price.exact(5) == 10 * 4 + 5
    assert price.exact(2) == 10 * 1 + 2


@pytest.mark.parametrize("words", [1, 10**6, 10**12, 1 << 59])
def test_dear_actions_are_cut_off_and_never_wrap_around(words: int):
    price = BoundaryPrice(tuple(PriceTerm(10**12 + 7, 3, 0, block) for block in (1, 2, 4)), ())
    found = int(price.price(np.array([words]))[0])
    assert 0 < found <= price.exact(words)
    assert found == price.exact(words) or found > LARGEST_COST
    assert 0 <= int(price.increment(np.array([words]))[0]) <= price.exact(words)


def test_loads_add_up_per_resource():
    price = BoundaryPrice((), (LoadTerm(1, 2, 3, 0.5), LoadTerm(1, 1, 0, 2.0), LoadTerm(0, 1, 0, 1.0)))
    loads = np.ones((2, 2))
    price.add_loads(np.array([4, 10]), loads)
    assert loads.tolist() == [[1 + 4, 1 + 2.5 + 8], [1 + 10, 1 + 8.5 + 20]]


def test_every_limited_bandwidth_is_a_resource():
    levels = (
        StorageLevel("dram", shared_bandwidth=Fraction(3, 2)),
        StorageLevel(
            "buffer", read_bandwidth=Fraction(1), write_bandwidth=Fraction(2), energy=AccessEnergy(1)
        ),
    )
    architecture = Architecture("a", levels, Compute("mac"))
    assert resources(architecture) == (
        Resource((0,), Fraction(2, 3), Fraction(2, 3)),
        Resource((1,), Fraction(1), Fraction(0)),
        Resource((1,), Fraction(0), Fraction(1, 2)),
    )
    places = resources(with_places(architecture, {"buffer": 2}))
    assert [r.levels for r in places] == [(0,), (1, 2), (1, 2)]


def test_few_words_of_large_blocks_are_priced_at_the_lowest_price():
    """What an action is cut off at stays a 64-bit integer, however cheap it is."""
    price = BoundaryPrice((PriceTerm(1, 3, 2, 64),), ())
    assert price.price(np.array([100])).tolist() == [price.exact(100)]
    assert price.increment(np.array([100])).tolist() == [300 // 64]
