"""Given first values of outputs: enumeration, both searches and the checker of certificates agree."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from model.counting import COUNTINGS, EXACT, Counting
from model.extents import ANY
from model.mapspace import Mapspace
from solver.certificate.canonical import CertificateError
from solver.certificate.document import certificate
from solver.formulation import map_by_formulation
from solver.formulation.model import check_formulated
from solver.result import Options, Status
from solver.search import map_by_bounds
from tests.bruteforce import optima
from tests.mapspaces import free_mapspace, matmul
from tests.slow import few
from tests.solver.certificate.checker import digested, verdict
from tests.solver.certificate.enumerated import claimed
from tests.strategies import (
    random_mapspaces,
    random_mapspaces_with_remainders,
    with_first_values,
    with_tolls,
)

CLAIMS = ("bounds", "mapping", "cost")
OBJECTIVES = ("energy", "latency", "edp")


def onto_values(seed: int, mapspace: Mapspace) -> Mapspace:
    return replace(mapspace, problem=with_first_values(Random(seed), mapspace.problem))


def assert_all_agree(mapspace: Mapspace) -> None:
    for objective, best in zip(OBJECTIVES, optima(mapspace, OBJECTIVES), strict=True):
        found = [map_by_bounds(mapspace, Options((objective,)))]
        if mapspace.counting == EXACT:
            check_formulated(mapspace)
            found.append(map_by_formulation(mapspace, Options((objective,))))
        for result in found:
            assert result.status is (Status.INFEASIBLE if best is None else Status.OPTIMAL)
            assert result.value == (None if best is None else best[0])


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("seed", few(range(12), 3))
def test_searches_find_the_optimum(seed: int, counting: Counting) -> None:
    (mapspace,) = random_mapspaces(500 + seed, 1, 100)
    assert_all_agree(replace(onto_values(seed, mapspace), counting=counting))


@pytest.mark.parametrize("seed", few(range(12), 3))
def test_searches_find_the_optimum_with_remainders(seed: int) -> None:
    (mapspace,) = random_mapspaces_with_remainders(500 + seed, 1, 100)
    assert_all_agree(onto_values(seed, mapspace))


@pytest.mark.parametrize("seed", few(range(8), 2))
def test_searches_find_the_optimum_where_outputs_pass_tolls(seed: int) -> None:
    (mapspace,) = random_mapspaces(600 + seed, 1, 60)
    assert_all_agree(onto_values(seed, with_tolls(Random(seed), mapspace)))


@pytest.mark.parametrize("factors", ["perfect", "any"])
@pytest.mark.parametrize("seed", few(range(8), 2))
def test_the_checker_counts_first_values(seed: int, factors: str, tmp_path) -> None:
    """The optimum onto given values is confirmed, but not for the problem onto nothing."""
    draw = random_mapspaces_with_remainders if factors == ANY else random_mapspaces
    (mapspace,) = draw(700 + seed, 1, 60)
    onto, nothing = onto_values(seed, mapspace), mapspace
    best, other = (optima(own, [("energy",)])[0] for own in (onto, nothing))
    confirmed = claimed(onto, ("energy",), best)
    assert verdict(confirmed, tmp_path)[0] == "VALID"
    if best is not None and best[0] != other[0]:
        forged = {**claimed(nothing, ("energy",), other), **{key: confirmed[key] for key in CLAIMS}}
        assert verdict(digested(forged), tmp_path)[0] == "INVALID"


def test_certificates_with_tolls_are_refused() -> None:
    mapspace = onto_values(0, with_tolls(Random(0), free_mapspace(matmul(2, 2, 2), *_levels())))
    with pytest.raises(CertificateError, match="does not support given first values of 'Z' at 'toll0'"):
        certificate(mapspace, map_by_bounds(mapspace, Options(("energy",))), ["test"])


def _levels():
    return random_mapspaces(1, 1, 60)[0].architecture.nodes[:1]
