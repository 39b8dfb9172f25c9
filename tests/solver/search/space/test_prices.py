"""Prices of delivered words."""

from fractions import Fraction

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel, with_places
from solver.search.space.prices import (
    Resource,
    resources,
)


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
