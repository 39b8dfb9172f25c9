"""How words split up among instances."""

import numpy as np
import pytest

from solver.search.path.split import UNSPLIT, dealt, evenly


def deal(tiles: int, children: int, each: int, last: int) -> dict[int, int]:
    """Instances by their work, tile by tile."""
    work = [0] * children
    for tile in range(tiles):
        work[tile % children] += last if tile == tiles - 1 else each
    return {own: work.count(own) for own in work}


@pytest.mark.parametrize(("tiles", "children"), [(1, 1), (4, 4), (3, 4), (5, 4), (7, 4), (8, 4), (9, 2)])
def test_tiles_are_dealt_out_one_by_one(tiles: int, children: int):
    split = dealt(np.array([tiles]), np.array([children]), np.array([6]), np.array([5]), frees=True)
    total = 6 * (tiles - 1) + 5
    found: dict[int, int] = {}
    for count, share in zip(split.counts[:, 0], split.words[:, 0], strict=True):
        found[round(share * total)] = found.get(round(share * total), 0) + int(count)
    assert {own: count for own, count in found.items() if count} == deal(tiles, children, 6, 5)


def test_shares_of_all_instances_make_one():
    tiles, children = np.array([7, 5, 3]), np.array([4, 2, 3])
    one = dealt(tiles, children, np.array([6]), np.array([5]), frees=False)
    split = UNSPLIT.by(one).by(evenly(np.array([2, 1, 5])))
    assert np.allclose((split.counts * split.words).sum(axis=0), 1)
    assert np.allclose((split.counts * split.free).sum(axis=0), 1)
    assert split.counts.sum(axis=0).tolist() == [8, 2, 15]


def test_where_nothing_is_known_all_are_together():
    split = evenly(np.array([4, 4])).where(np.array([True, False]))
    assert split.counts.tolist() == [[4, 1]]
    assert split.words.tolist() == [[0.25, 1]]
