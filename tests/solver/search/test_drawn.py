"""First mappings are valid, cost what the cost model says, and are there where there are any mappings."""

from dataclasses import replace
from random import Random

import pytest

from model.cost import evaluate_in
from model.counting import ACCELFORGE, EXACT, TIMELOOP
from model.mapspace import Mapspace
from solver.result import Options, Status
from solver.search.drawn import drawn
from solver.search.mapper import map_by_bounds
from solver.search.stopping import never
from tests import strategies
from tests.slow import few
from tests.strategies import (
    counted_as_accelforge,
    random_mapspaces,
    random_mapspaces_with_places,
    with_tolls,
)


def finds_first(mapspace: Mapspace) -> bool:
    """Hold a first mapping against the optimum; return whether there is one if there are any mappings."""
    found, best = drawn(mapspace, "edp", 0, never), map_by_bounds(mapspace, Options(("edp",)))
    if found is None:
        return best.status is Status.INFEASIBLE
    assert found.evaluation == evaluate_in(mapspace, found.mapping)
    assert found.evaluation.valid
    assert best.status is Status.OPTIMAL
    assert found.evaluation.value("edp") >= (best.value or 0)
    return True


@pytest.mark.parametrize("counting", [EXACT, TIMELOOP, ACCELFORGE])
def test_small_spaces_have_a_first_mapping(counting: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strategies, "EINSUMS", (strategies.gemm, strategies.mttkrp, strategies.elementwise))
    random, spaces = Random(4), random_mapspaces(4, 8, 200, packed_share=0)
    for own in spaces:
        is_own = counting == ACCELFORGE
        assert finds_first(counted_as_accelforge(own, random) if is_own else replace(own, counting=counting))


@pytest.mark.parametrize("seed", few(range(4), 1))
def test_places_and_tolls(seed: int):
    spaces = random_mapspaces_with_places(seed, 3, 400)
    tolled = (with_tolls(Random(seed), own) for own in random_mapspaces(seed, 3, 200, packed_share=0))
    assert all(map(finds_first, (*spaces, *tolled)))


def test_nothing_is_found_once_the_time_is_over():
    (mapspace,) = random_mapspaces(4, 1, 400)
    assert drawn(mapspace, "edp", 0, lambda: True) is None
