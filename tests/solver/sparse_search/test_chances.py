"""Sizes of what is together along a dimension, against all extents that a number of tiles stands for."""

from random import Random

import numpy as np
import pytest

from model.sparse.density import FixedStructured, Hypergeometric
from solver.search.space.counts import numbers_of_tiles
from solver.sparse_search.chances import Chances, Sizes, cut, of_any

CASES = [(bound, number) for bound in (2, 5, 12, 17, 40) for number in numbers_of_tiles(bound)]


def extents(bound: int, number: int) -> list[int]:
    return [own for own in range(1, bound + 1) if -(-bound // own) == number]


def parts(bound: int, extent: int) -> list[int]:
    """What is together: parts of an extent, and the rest."""
    return [min(extent, bound - start) for start in range(0, bound, extent)]


def no_more(sizes: Sizes, actual: list[int], once: bool) -> None:
    """Check that sizes are no larger than the actual ones, share by share."""
    assert sum(float(share[0]) for _, share in sizes) == pytest.approx(1)
    for most in range(1, max(actual) + 1):
        weights = [1 if once else own for own in actual]
        exact = sum(w for own, w in zip(actual, weights, strict=True) if own <= most) / sum(weights)
        assert sum(float(share[0]) for own, share in sizes if own[0] <= most) >= exact - 1e-12


@pytest.mark.parametrize(("bound", "number"), CASES)
@pytest.mark.parametrize("together", [1, 2, 3])
@pytest.mark.parametrize("once", [False, True])
def test_sizes_hold_for_all_extents_of_a_number_of_tiles(bound, number, together, once):
    every = extents(bound, number)
    arrays = (np.array([own]) for own in (number, every[0], every[-1]))
    sizes = cut(bound, *arrays, np.array([together]), np.array([True]), once)
    for extent in every:
        no_more(sizes, parts(bound, extent * together), once)


@pytest.mark.parametrize(("bound", "number"), CASES)
@pytest.mark.parametrize("once", [False, True])
def test_sizes_of_several_spatial_choices(bound, number, once):
    every = extents(bound, number)
    arrays = (np.array([own]) for own in (number, every[0], every[-1]))
    sizes = cut(bound, *arrays, np.array([2]), np.array([False]), once)
    for extent in every:
        for together in (2, 3, 5):
            no_more(sizes, parts(bound, extent * together), once)


@pytest.mark.parametrize("once", [False, True])
def test_sizes_of_any_parts(once):
    for bound, full in ((7, 3), (12, 5), (5, 9)):
        sizes = of_any(bound, np.array([full]), once)
        for own in range(full, bound + 1):
            no_more(sizes, parts(bound, own), once)


def test_chances_are_those_of_distributions_at_least():
    random = Random(3)
    for _ in range(40):
        words = random.choice((40, 500, 1500, 40_000, 3_000_000))
        nonzeros = random.randint(0, words)
        for distribution in (Hypergeometric(nonzeros, words), FixedStructured(nonzeros / words)):
            tiles = sorted(
                {1, 2, 3, words // 7, words // 2, words, *(random.randint(1, words) for _ in range(9))}
            )
            most = Chances(distribution).empty(np.array([float(own) for own in tiles]))
            for own, chance in zip(tiles, most.tolist(), strict=True):
                exact = distribution.empty((own,))
                assert exact * (1 - 1e-12) <= chance <= min(1, exact * 1.001 + 1e-3)
