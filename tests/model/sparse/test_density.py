"""Distributions of nonzeros against enumeration."""

from fractions import Fraction
from itertools import combinations

import pytest

from model.sparse.density import Banded, FixedStructured, Hypergeometric, Within, distribution_of
from model.sparsity import Density

DISTRIBUTIONS = [FixedStructured(0.3), Hypergeometric(7, 24), Hypergeometric(700, 2400), Banded(12, 1)]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("tile", [(1, 1), (2, 2), (1, 4), (3, 4)])
def test_chances_add_up_to_the_mean(distribution, tile):
    chances = distribution.chances(tile)
    assert sum(chance for _, chance in chances) == pytest.approx(1)
    words = tile[0] * tile[1]
    assert sum(number * chance for number, chance in chances) == pytest.approx(words * distribution.mean)
    assert distribution.empty(tile) == pytest.approx(dict(chances).get(0, 0))
    assert distribution.most(tile) >= chances[-1][0]
    assert distribution.least(tile) <= chances[0][0]


def test_a_hypergeometric_tile_is_what_all_draws_say():
    marked = set(range(3))
    draws = [len(marked.intersection(draw)) for draw in combinations(range(8), 4)]
    shares = {number: draws.count(number) / len(draws) for number in set(draws)}
    assert dict(Hypergeometric(3, 8).chances((4,))) == pytest.approx(shares)
    assert Hypergeometric(3, 8).empty((4,)) == shares[0]


@pytest.mark.parametrize(("confidence", "most"), [(0.2, 0), (0.5, 1), (0.9, 2), (1.0, 3)])
def test_most_at_a_confidence(confidence, most):
    assert Hypergeometric(3, 8).most((4,), confidence) == most


def test_a_smaller_tile_within_one_with_known_nonzeros():
    within = Within((2, 4), 2)
    assert FixedStructured(0.9).empty((1, 2), within) == 0.5
    assert Hypergeometric(90, 100).empty((1, 2), within) == pytest.approx(15 / 28)


def test_large_tensors_are_close_to_small_ones():
    small, large = (Hypergeometric(words // 4, words).chances((64,)) for words in (1024, 1026))
    assert dict(large)[16] == pytest.approx(dict(small)[16], rel=1e-2)
    grouped = Hypergeometric(10**7, 10**8).chances((10**8 // 2,))
    assert sum(chance for _, chance in grouped) == pytest.approx(1)
    assert sum(number * chance for number, chance in grouped) == pytest.approx(10**7 / 2, rel=1e-6)


def test_a_band_is_counted_exactly_on_square_tiles():
    counts: dict[int, int] = {}
    for top in range(0, 12, 2):
        for left in range(0, 12, 2):
            cells = [(r, c) for r in (top, top + 1) for c in (left, left + 1)]
            nonzeros = sum(abs(r - c) <= 1 for r, c in cells)
            counts[nonzeros] = counts.get(nonzeros, 0) + 1
    expected = {number: count / 36 for number, count in counts.items()}
    assert dict(Banded(12, 1).chances((2, 2))) == pytest.approx(expected)


def test_timeloop_doubles_the_offset_of_a_tile_around():
    """The first 4 x 4 tile with six nonzeros begins in column 4; from column 8 on Timeloop sees nothing."""
    within = Within((4, 4), 6)
    right, timeloop = (Banded(12, 3, defects).empty((2, 2), within) for defects in (False, True))
    assert (right, timeloop) == (0.25, 1.0)


def test_a_band_of_what_is_no_square_matrix_is_refused():
    with pytest.raises(ValueError, match="square"):
        distribution_of(Density("banded", Fraction(1), 1), (4, 6))


def test_a_band_without_empty_tiles_has_no_tile_of_none():
    """Of a band that fills the matrix, every tile is full, whatever share of cases is asked for."""
    band = distribution_of(Density("banded", band_width=3), (4, 4))
    assert [band.most((2, 2), confidence) for confidence in (1.0, 0.7, 0.2)] == [4, 4, 4]
