"""Random factors against complete enumeration, with remainders and without."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from model.extents import ANY, FACTORS
from model.mapspace import FactorRule, TemporalRules
from solver.heuristics.rules import MapspaceRules
from solver.heuristics.sampling import Sampler
from tests.mapspaces import free_mapspace, matmul
from tests.model.cost.nests import BUFFER, DRAM


@pytest.mark.parametrize("kind", FACTORS)
def test_all_chains_of_factors_are_drawn_equally_often(kind):
    mapspace = replace(
        free_mapspace(matmul(7, 6, 1), DRAM, BUFFER, replace(BUFFER, name="inner")), factors=kind
    )
    drawn = Sampler(MapspaceRules(mapspace)).draw(np.random.default_rng(1), 9000).factors
    for place, dim in enumerate(mapspace.problem.dims):
        expected = {chain[::-1] for chain in mapspace.extents(dim).chains(3)}
        found = Counter(map(tuple, drawn[:, :, place].tolist()))
        assert set(found) == expected
        assert min(found.values()) > 0.7 * 9000 / len(expected)


def test_rules_on_factors_hold_with_remainders():
    free = free_mapspace(matmul(1000, 1, 197), DRAM, BUFFER)
    rules = TemporalRules((FactorRule("M", "=", 7), FactorRule("K", "<=", 9)))
    mapspace = replace(free, factors=ANY, temporal=(TemporalRules(), rules))
    drawn = Sampler(MapspaceRules(mapspace)).draw(np.random.default_rng(2), 300).factors
    m, _, k = (mapspace.problem.dims.index(dim) for dim in "MNK")
    assert {tuple(row) for row in drawn[:, :, m].tolist()} == {(143, 7)}
    assert {inner for _, inner in drawn[:, :, k].tolist()} == set(range(1, 10))
    assert all(outer == -(-197 // inner) for outer, inner in drawn[:, :, k].tolist())
