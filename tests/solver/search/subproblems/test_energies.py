"""Energies with rounded prices."""

from dataclasses import replace

import pytest

from solver.search.space.search_space import SearchSpace
from tests.solver.search.unusual import subproblems, unlimited_bounds
from tests.strategies import random_mapspaces


@pytest.mark.parametrize("quantum", [7, 97, 100_003])
def test_what_all_mappings_share_is_not_rounded(quantum: int):
    """Tables count in quanta, but where each boundary gets the fewest words the energy is exact."""
    rounded_off = 0
    for mapspace in random_mapspaces(5150, 25, 800):
        for sub in list(subproblems(SearchSpace(mapspace)))[:20]:
            bounds, coarse = unlimited_bounds(sub), replace(sub, quantum=quantum)
            if not bounds.empty:
                assert unlimited_bounds(coarse).constant == bounds.constant
                rounded_off += coarse.constant < sub.constant
    assert rounded_off > 50
