"""The search for sparse data against complete enumeration of small mapspaces.

``SPARSE_PROBLEMS=150`` tries as many random problems.
"""

import os
from dataclasses import replace
from fractions import Fraction

import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.counting import TIMELOOP
from model.extents import ANY, PERFECT
from model.mapspace import KeepRules, Mapspace
from model.sparse import FIXED_POINT, evaluate_sparse_in
from model.sparsity import Density, Sparsity
from solver import load
from solver.result import Clock, Narrower, Options, Status, Termination
from solver.search import mapper
from solver.sparse_search import detailed, first_mapping, judged, lack_of_remainders, map_sparse_by_bounds
from solver.stages import map_einsum
from tests import strategies
from tests.bruteforce import sparse_optima
from tests.mapspaces import free_mapspace
from tests.model.sparse.nests import ENERGY, gemm, level, mapping, ranks, saves, uniform
from tests.random_sparsity import random_sparse_mapspace, random_sparse_mapspace_with_remainders
from tests.solver.search.path.test_search import stops_after
from tests.solver.sparse_search.alone import searched

OBJECTIVES = ("energy", "latency", "edp", ("latency", "energy"))
PROBLEMS = int(os.environ.get("SPARSE_PROBLEMS", "4"))


def assert_optimal(mapspace: Mapspace) -> int:
    """Compare the optimum of every objective with brute force; return how many there are."""
    found = 0
    if lack_of_remainders(mapspace) is not None:
        mapspace = replace(mapspace, factors=PERFECT)
    for objective, best in zip(OBJECTIVES, sparse_optima(mapspace, OBJECTIVES), strict=True):
        names = (objective,) if isinstance(objective, str) else objective
        result = map_einsum(mapspace, Options(objectives=names), reasons=False)
        if best is None:
            assert result.status is Status.INFEASIBLE
            continue
        least = best[0] if isinstance(best[0], tuple) else (best[0],)
        assert result.status is Status.OPTIMAL
        assert (result.value, *result.later_bounds) == least
        assert result.mapping is not None
        assert evaluate_sparse_in(mapspace, result.mapping).value(names[0]) == result.value
        found += 1
    return found


def test_formats_and_units_see_loops_that_dense_data_can_do_without():
    """The buffer keeps neither vector: dense words do not say at which level the loop stands."""
    mapspace = load("specs/sparse/dot_product.yaml", "specs/sparse/problems/dot_product.yaml")
    assert assert_optimal(mapspace) == len(OBJECTIVES)


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_random_problems(seed):
    assert_optimal(random_sparse_mapspace(seed, 200))


@pytest.mark.parametrize("seed", range(100, 100 + PROBLEMS // 4))
def test_random_problems_that_skip_instances(seed):
    assert_optimal(random_sparse_mapspace(seed, 150, in_space=True))


@pytest.mark.parametrize("seed", range(2000, 2000 + PROBLEMS))
def test_random_problems_with_remainders(seed):
    assert_optimal(random_sparse_mapspace_with_remainders(seed, 150))


@pytest.mark.parametrize("seed", range(1000, 1000 + PROBLEMS // 2))
def test_random_windows_with_remainders(seed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strategies, "EINSUMS", strategies.CONVOLUTIONS)
    assert_optimal(random_sparse_mapspace_with_remainders(seed, 150))


@pytest.mark.parametrize("seed", range(2100, 2100 + PROBLEMS // 2))
def test_no_bound_hides_a_mapping_with_remainders(seed):
    mapspace = random_sparse_mapspace_with_remainders(seed, 150)
    singles = OBJECTIVES[:3]
    for objective, best in zip(singles, sparse_optima(mapspace, singles), strict=True):
        if best is not None and lack_of_remainders(mapspace) is None:
            assert searched(mapspace, objective, incumbent=best[0] + 1) == (best[0], best[0])
            bound, _ = searched(mapspace, objective, stops_after(8))
            assert bound is not None and bound <= best[0]


def test_no_heuristic_of_dense_data_is_asked_where_nothing_fits():
    mapspace = random_sparse_mapspace(4036, 50, in_space=True)
    assert searched(mapspace, "energy") == (None, None)
    assert sparse_optima(mapspace, ("energy",)) == [None]


def test_accesses_that_cost_no_energy_but_cycles():
    assert_optimal(random_sparse_mapspace(6000, 40))


def test_units_that_would_skip_instances_where_no_fanout_is_below_them():
    assert_optimal(random_sparse_mapspace(3113, 50, in_space=True))


@pytest.mark.parametrize("seed", range(200, 200 + PROBLEMS // 2))
def test_random_problems_counted_as_timeloop_does(seed):
    assert_optimal(replace(random_sparse_mapspace(seed, 120), counting=TIMELOOP))


@pytest.mark.parametrize("seed", range(300, 300 + PROBLEMS // 4))
def test_random_windows(seed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strategies, "EINSUMS", strategies.CONVOLUTIONS)
    mapspace = random_sparse_mapspace(seed, 120)
    assert_optimal(mapspace)
    assert_optimal(replace(mapspace, counting=TIMELOOP))


@pytest.mark.parametrize("seed", [361, *range(400, 400 + PROBLEMS // 4)])
def test_no_bound_hides_what_is_one_below_the_incumbent(seed):
    mapspace = random_sparse_mapspace(seed, 80, in_space=seed % 2 == 0)
    singles = OBJECTIVES[:3]
    for objective, best in zip(singles, sparse_optima(mapspace, singles), strict=True):
        if best is not None:
            assert searched(mapspace, objective, incumbent=best[0] + 1) == (best[0], best[0])


@pytest.mark.parametrize("seed", [54, *range(700, 700 + PROBLEMS // 4)])
def test_energy_and_a_load_together(seed):
    """Units may leave less of the energy than of the load."""
    mapspace = random_sparse_mapspace(seed, 100)
    for best in sparse_optima(mapspace, ("edp",)):
        value = None if best is None else best[0]
        assert searched(mapspace, "edp") == (value, value)


@pytest.mark.parametrize("seed", range(500, 500 + PROBLEMS // 4))
def test_a_stopped_search_has_a_bound(seed):
    mapspace = random_sparse_mapspace(seed, 80)
    singles = OBJECTIVES[:3]
    for objective, best in zip(singles, sparse_optima(mapspace, singles), strict=True):
        for calls in (0, 1, 2, 4, 8, 16, 32) if best is not None else ():
            bound, value = searched(mapspace, objective, stops_after(calls))
            assert bound is not None
            assert bound <= best[0]
            assert value is None or value >= best[0]


def test_a_single_iteration():
    unit = saves("gating", "B", "A")
    sparsity = Sparsity({"A": uniform("0.25")}, (level(unit), level()))
    nodes = StorageLevel("outer", energy=ENERGY), StorageLevel("inner", size_words=12, energy=ENERGY)
    assert assert_optimal(replace(free_mapspace(gemm(1, 1, 1), *nodes), sparsity=sparsity)) == len(OBJECTIVES)


def sparse_gemm(sparsity: Sparsity, words: int | None = 12, children: int = 2) -> Mapspace:
    """A product of small matrices on two levels."""
    nodes = [StorageLevel("outer", energy=ENERGY), Fanout("array", children)]
    nodes.append(StorageLevel("inner", size_words=words, energy=replace(ENERGY, read=1, fill=1, update=1)))
    return replace(free_mapspace(gemm(2, 4, 2), *nodes), sparsity=sparsity)


def test_compressed_tiles_leave_room_for_larger_ones():
    formats = {"A": ranks("B", "B", "B", "B"), "B": ranks("B", "B", "B", "B")}
    densities = {"A": uniform("0.25"), "B": uniform("0.25")}
    packed = Sparsity(
        densities,
        (
            level(formats=formats),
            replace(level(formats={"A": ranks("B", "B"), "B": ranks("B", "B")}), metadata_size_bits=1000),
        ),
    )
    mapspace = sparse_gemm(packed, words=10, children=1)
    assert assert_optimal(mapspace) == len(OBJECTIVES)
    best = detailed(mapspace, map_einsum(mapspace, Options(objectives=("energy",))).mapping)
    assert best is not None
    inner = best.level("inner")
    assert sum(space.tile_words for space in inner.dataspaces) > 10


def test_sums_are_read_a_whole_number_of_times():
    """Of 9 reads of sums 0.3 are left: 2."""
    sparsity = Sparsity({"A": uniform("0.3")}, (level(), level(saves("skipping", "Z", "A"))))
    nodes = StorageLevel("outer"), StorageLevel("inner", energy=AccessEnergy(1, 1, 1))
    mapspace = free_mapspace(gemm(1, 10, 1), *nodes)
    only_sums = KeepRules(frozenset("Z"), frozenset("AB"))
    mapspace = replace(mapspace, keep=(mapspace.keep[0], only_sums), sparsity=sparsity)
    (best,) = sparse_optima(mapspace, ("energy",))
    assert best is not None
    assert best[0] == 5 * FIXED_POINT
    assert searched(mapspace, "energy", incumbent=best[0] + 1) == (best[0], best[0])


def test_the_best_dense_mapping_need_not_be_the_best_sparse_one():
    units = saves("skipping", "B", "A")
    sparsity = Sparsity({"A": Density(share=Fraction(1, 8))}, (level(units), level()))
    mapspace = sparse_gemm(sparsity)
    assert assert_optimal(mapspace) == len(OBJECTIVES)
    result = map_einsum(mapspace, Options(objectives=("energy",)))
    assert result.dense is not None and result.value is not None
    known = detailed(mapspace, result.dense.mapping)
    assert known is not None and result.value < known.fixed_energy


def test_a_search_that_is_stopped_keeps_its_bound():
    mapspace = sparse_gemm(Sparsity({"A": uniform("0.25")}, (level(saves("gating", "B", "A")), level())))
    optimum = map_einsum(mapspace, Options(objectives=("energy",)))
    stopped = map_einsum(mapspace, Options(objectives=("energy",), time_limit_s=0))
    assert stopped.status in (Status.UNKNOWN, Status.FEASIBLE)
    assert stopped.termination is Termination.TIME_LIMIT
    assert stopped.bound is not None and optimum.value is not None
    assert stopped.bound <= optimum.value
    assert optimum.units_per_pj == mapspace.architecture.units_per_pj * FIXED_POINT


@pytest.mark.parametrize("calls", [0, 5, 10])
def test_a_search_that_is_stopped_before_it_knows_the_spatial_choices(calls: int):
    skips = Sparsity({"A": uniform("0.25")}, (level(saves("skipping_spatial", "B", "A")), level()))
    result = map_einsum(sparse_gemm(skips), Options(("energy",)), should_stop=stops_after(calls))
    assert result.status in (Status.UNKNOWN, Status.FEASIBLE)
    assert result.termination is Termination.INTERRUPTED


def test_remainders_go_beyond_what_divides():
    """Five columns on three children take two steps."""
    sparsity = Sparsity({"A": uniform("0.75")}, (level(saves("gating", "B", "A")), level()))
    nodes = StorageLevel("outer", energy=ENERGY), Fanout("array", 3), StorageLevel("inner", energy=ENERGY)
    mapspace = replace(free_mapspace(gemm(1, 5, 2), *nodes), sparsity=sparsity, factors=ANY)
    assert assert_optimal(mapspace) == len(OBJECTIVES)
    result = map_einsum(mapspace, Options(objectives=("latency",)))
    perfect = map_einsum(replace(mapspace, factors=PERFECT), Options(objectives=("latency",)))
    assert result.perfect_factors == Narrower(perfect.status, perfect.value, perfect.bound)
    assert result.value is not None and perfect.value is not None
    assert result.value < perfect.value
    assert first_mapping(mapspace, Clock(None, None)) is Status.FEASIBLE


def test_an_open_search_for_remainders_says_what_is_proven_without(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapper, "REMAINDERS_S", 0.0)
    mapspace = sparse_gemm(Sparsity({"A": uniform("0.25")}, (level(saves("gating", "B", "A")), level())))
    result = map_einsum(replace(mapspace, factors=ANY), Options(objectives=("energy",)))
    assert (result.status, result.termination) == (Status.FEASIBLE, Termination.REMAINDER_LIMIT)
    assert result.perfect_factors is not None
    assert result.perfect_factors.status is Status.OPTIMAL
    assert result.perfect_factors.value == result.value


def test_what_has_no_remainders():
    band = Sparsity({"A": Density("banded", Fraction(1), 1)}, (level(), level()))
    assert lack_of_remainders(sparse_gemm(band)) == "where nonzeros are in a band"
    plain = sparse_gemm(Sparsity({}, (level(), level())))
    assert lack_of_remainders(plain) is None
    assert lack_of_remainders(replace(plain, counting=TIMELOOP)) == "by Timeloop's rule"
    skips = sparse_gemm(Sparsity({}, (level(saves("skipping_spatial", "B", "A")), level())))
    assert lack_of_remainders(skips) == "where units skip children of an array"


def test_a_known_mapping_with_remainders_is_not_one_of_those_that_are_searched():
    sparsity = Sparsity({"A": uniform("0.25")}, (level(saves("gating", "B", "A")), level()))
    levels = StorageLevel("outer", energy=ENERGY), StorageLevel("inner", size_words=20, energy=ENERGY)
    mapspace = replace(free_mapspace(gemm(2, 5, 2), *levels), sparsity=sparsity)
    known = mapping("K2", "M2 K3 N2")
    assert evaluate_sparse_in(mapspace, known).valid
    assert judged(mapspace, known) is None
    assert judged(mapspace, mapping("K5", "M2 N2")) is not None


def test_dense_data_are_refused():
    with pytest.raises(ValueError, match="the data is dense"):
        map_sparse_by_bounds(replace(sparse_gemm(Sparsity({}, (level(), level()))), sparsity=None))
