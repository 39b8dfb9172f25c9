"""Packed exponents: what one comparison of integers says is what all exponents say."""

import numpy as np
import pytest

from solver.search.space.lattice import Lattice
from solver.search.space.packing import WIDEST, packed


@pytest.mark.parametrize("bounds", [(2,), (8, 6), (12, 30, 7), (512, 210, 4), (2310, 2310, 6)])
def test_vectors_divide_as_their_exponents_say(bounds: tuple[int, ...]):
    lattice, random = Lattice(bounds), np.random.default_rng(len(bounds))
    places = random.integers(0, lattice.size, 60)
    for factor, whole in random.integers(0, lattice.size, (30, 2)):
        room = lattice.exponents[whole] - lattice.exponents[factor]
        fits = (lattice.exponents[places] <= room).all(axis=1)
        assert lattice.fitting(places, int(factor), int(whole)).tolist() == fits.tolist()
    axes = [a for a in range(len(lattice.axes)) if a % 2 == 0]
    rows, columns = lattice.exponents[places][:, None, axes], lattice.exponents[places][None, :, axes]
    covers = np.ones((60, 60), dtype=np.bool_)
    for part in lattice.packed:
        covers &= part.covers(part.codes[places][:, None], part.codes[places][None, :], axes)
    assert (covers == (rows >= columns).all(axis=2)).all()


def test_what_one_integer_cannot_hold_takes_several():
    exponents = np.random.default_rng(1).integers(0, 2, (50, 32)).astype(np.int8)
    exponents[:, 1:] &= exponents[:, :1]
    parts = packed(exponents, [1] * 32)
    assert WIDEST < 32 * 2
    assert len(parts) == 2
    covers = np.ones((50, 50), dtype=np.bool_)
    for part in parts:
        covers &= part.covers(part.codes[:, None], part.codes[None, :])
    assert (covers == (exponents[:, None] >= exponents[None, :]).all(axis=2)).all()
