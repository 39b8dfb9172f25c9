"""Prices of delivered words."""

from fractions import Fraction

import numpy as np

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel, with_places
from solver.search.space.prices import (
    BoundaryPrice,
    LoadTerm,
    PriceTerm,
    Resource,
    resources,
)


def test_exact_rounds_up_to_blocks():
    price = BoundaryPrice((PriceTerm(10, 3, 2, 4), PriceTerm(1, 1, 0, 1)), ())
    assert price.exact(5) == 10 * 4 + 5
    assert price.exact(2) == 10 * 1 + 2


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
