"""Statuses, limits, progress, determinism, and numbers beyond 64 bits."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.numbers import divisors, prime_factors
from model.problem import Dataspace, Problem, Term
from solver.result import Options, Progress, Result, Status, Termination, TooLargeError
from solver.search import map_by_bounds, mapper
from solver.search.mapper import SharedSearch
from solver.search.path.frame import estimated_bytes
from solver.search.space.lattice import coarsened
from solver.search.space.search_space import SearchSpace
from tests.bruteforce import enumerate_mappings, optima, optimum
from tests.conftest import REPOSITORY
from tests.mapspaces import free_mapspace, matmul, perfect_mapspace
from tests.reference import OBJECTIVES
from tests.slow import few
from tests.strategies import batched_gemm, random_mapspaces

ENERGIES = (AccessEnergy(200, 210, 220), AccessEnergy(6, 7, 8), AccessEnergy(1, 1, 1))


def matmul_mapspace(*bounds: int, scale: int = 1, buffer: int = 40) -> Mapspace:
    """A matrix product on three levels with a mesh; ``scale`` multiplies all energies."""
    energies = [AccessEnergy(e.read * scale, e.fill * scale, e.update * scale) for e in ENERGIES]
    nodes = (
        StorageLevel("dram", energy=energies[0]),
        StorageLevel("buffer", size_words=buffer, energy=energies[1]),
        Fanout("mesh", 2, 2),
        StorageLevel("registers", size_words=3, energy=energies[2]),
    )
    mapspace = free_mapspace(matmul(*bounds), *nodes)
    compute = replace(mapspace.architecture.compute, energy=scale)
    return replace(mapspace, architecture=replace(mapspace.architecture, compute=compute))


SMALL = matmul_mapspace(4, 4, 6)
LARGE = matmul_mapspace(480, 720, 960, buffer=9000)


@pytest.mark.parametrize("mapspace", [SMALL, LARGE])
def test_no_time_at_all(mapspace: Mapspace):
    result = map_by_bounds(mapspace, Options(objectives=("energy",), time_limit_s=0))
    assert result.status in (Status.UNKNOWN, Status.FEASIBLE)
    assert result.termination is Termination.TIME_LIMIT
    proven = map_by_bounds(mapspace, Options(objectives=("energy",)))
    assert proven.status is Status.OPTIMAL
    assert result.bound is None or result.bound <= proven.value
    assert result.value is None or result.value >= proven.value


@pytest.mark.parametrize("objectives", [("energy",), ("latency", "energy"), ("edp",)])
@pytest.mark.parametrize("calls", [1, 3, 10, 50])
def test_interrupted_after_some_questions(objectives: tuple[str, ...], calls: int):
    """Whenever a search is stopped, its bound holds and its mapping is real."""
    for mapspace in random_mapspaces(600, 12, 200):
        best = optima(mapspace, [objectives])[0]
        questions = itertools.count(1)
        result = map_by_bounds(
            mapspace, Options(objectives=objectives), None, lambda q=questions: next(q) > calls
        )
        if result.status is Status.INFEASIBLE:
            assert best is None
        elif result.status is Status.OPTIMAL:
            assert best is not None
            assert [result.bound, *result.later_bounds] == list(best[0])
        else:
            assert result.termination is Termination.INTERRUPTED
            assert best is None or result.bound is None or result.bound <= best[0][0]
            assert result.value is None or result.value >= best[0][0]


def test_interrupted_with_an_incumbent():
    """A search that is stopped late returns what it has."""
    for calls in range(1, 400):
        questions = itertools.count(1)
        result = map_by_bounds(
            LARGE, Options(objectives=("edp",)), None, lambda q=questions, most=calls: next(q) > most
        )
        if result.status is Status.FEASIBLE:
            assert result.evaluation.valid
            assert result.bound is None or result.bound <= result.value
            return
    pytest.fail("never stopped with an incumbent in hand")


def test_progress_never_gets_worse(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("solver.search.mapper.PROGRESS_PERIOD_S", 0.0)
    incumbents_seen = 0
    for mapspace in (SMALL, *random_mapspaces(605, 12, 600)):
        seen: list[Progress] = []
        result = map_by_bounds(mapspace, Options(objectives=("energy", "latency")), seen.append)
        if result.status is Status.INFEASIBLE:
            continue
        assert result.status is Status.OPTIMAL
        for objective, best in (("energy", result.value), ("latency", result.evaluation.cycles)):
            own = [progress for progress in seen if progress.objective == objective]
            incumbents = [p.incumbent for p in own if p.incumbent is not None]
            incumbents_seen += len(incumbents)
            assert incumbents == sorted(incumbents, reverse=True)
            assert all(incumbent >= best for incumbent in incumbents)
            assert all(p.bound <= best for p in own if p.bound is not None)
        assert [p.seconds for p in seen] == sorted(p.seconds for p in seen)
    assert incumbents_seen > 5


def untimed(result: Result) -> Result:
    """A result without what depends on the clock."""
    stages = tuple(replace(own, seconds=0.0) for own in result.statistics.stages)
    return replace(result, statistics=replace(result.statistics, seconds=0.0, stages=stages))


def test_same_input_same_answer():
    for mapspace in random_mapspaces(610, 8, 150):
        first, second = (map_by_bounds(mapspace, Options()) for _ in range(2))
        assert untimed(first) == untimed(second)


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_answer_does_not_depend_on_the_number_of_workers(objective: str):
    one, two = (map_by_bounds(LARGE, Options(objectives=(objective,), jobs=jobs)) for jobs in (1, 2))
    assert one.mapping == two.mapping
    assert untimed(one).statistics == untimed(two).statistics


def test_default_objectives_are_the_mapspaces():
    result = map_by_bounds(replace(SMALL, objectives=("latency", "energy")))
    assert result.objectives == ("latency", "energy")
    assert result.value == result.evaluation.cycles


@pytest.mark.parametrize(
    "rules",
    [
        {"temporal": (TemporalRules((FactorRule("M", "=", 3),)), TemporalRules(), TemporalRules())},
        {"temporal": (TemporalRules((FactorRule("M", "=", 4),)), TemporalRules((FactorRule("M", ">=", 2),)))},
        {"min_parallelism": Fraction(5)},
        {"spatial": (SpatialRules((FactorRule("M", "=", 4),), inner=("M", "N", "K"), split=0),)},
        {"keep": (KeepRules(), KeepRules(frozenset("A"), frozenset("A")), KeepRules())},
    ],
)
def test_infeasible(rules: dict[str, object]):
    if "temporal" in rules:
        rules = {"temporal": (*rules["temporal"], TemporalRules())[:3]}
    mapspace = replace(SMALL, **rules)
    assert next(enumerate_mappings(mapspace), None) is None
    result = map_by_bounds(mapspace, Options(objectives=("edp", "energy")))
    assert result.status is Status.INFEASIBLE
    assert result.termination is Termination.PROVEN
    assert result.mapping is result.evaluation is result.value is None


def test_infeasible_by_capacity():
    mapspace = matmul_mapspace(2, 2, 2)
    nodes = tuple(
        replace(node, size_words=2) if node.name == "registers" else node
        for node in mapspace.architecture.nodes
    )
    mapspace = replace(mapspace, architecture=replace(mapspace.architecture, nodes=nodes))
    assert optimum(mapspace, "energy") is None
    assert map_by_bounds(mapspace).status is Status.INFEASIBLE


@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
def test_a_single_point(objective: str):
    """A problem whose bounds are all 1 has mappings too: they differ in what is kept where."""
    nodes = (
        StorageLevel("dram", energy=AccessEnergy(9, 9, 9)),
        Fanout("mesh", 4),
        StorageLevel("buffer", size_words=9, energy=AccessEnergy(1, 1, 1)),
    )
    mapspace = free_mapspace(matmul(1, 1, 1), *nodes, keep=False)
    best = optimum(mapspace, objective)
    assert best is not None
    assert map_by_bounds(mapspace, Options(objectives=(objective,))).value == best[0]


def test_spatial_factors_that_do_not_multiply_up():
    """Two meshes may each take a dimension, but not both the whole of it."""
    spaces = (
        Dataspace("A", ((Term("M"),), (Term("N"),))),
        Dataspace("Z", ((Term("M"),), (Term("N"),)), read_write=True),
    )
    nodes = (
        StorageLevel("dram", energy=AccessEnergy(50, 60, 70), read_bandwidth=Fraction(1)),
        Fanout("outer", 4),
        StorageLevel("buffer", size_words=8, energy=AccessEnergy(3, 3, 3)),
        Fanout("inner", 4),
    )
    mapspace = free_mapspace(Problem("elementwise", ("M", "N"), (2, 2), spaces), *nodes)
    for objectives in (("energy",), ("latency",), ("edp",), ("latency", "edp"), ("edp", "energy")):
        best = optima(mapspace, [objectives])[0]
        result = map_by_bounds(mapspace, Options(objectives=objectives))
        assert [result.bound, *result.later_bounds] == list(best[0])


def test_a_cluster_may_be_larger_than_all_instances():
    """One cluster pays all the same: accesses that seem to be free would leave every mapping open."""
    buffer = StorageLevel("buffer", size_words=12, energy=AccessEnergy(6, 7, 8), cluster_size=8)
    nodes = (StorageLevel("dram", energy=AccessEnergy(9, 9, 9)), Fanout("row", 2), buffer)
    mapspace = free_mapspace(matmul(4, 6, 4), *nodes)
    best = optimum(mapspace, "energy")
    assert best is not None
    result = map_by_bounds(mapspace, Options(objectives=("energy",)))
    assert (result.status, result.value) == (Status.OPTIMAL, best[0])
    assert result.statistics.mappings_priced < 5


# ------------------------------------------------------------- beyond 64 bits


@pytest.mark.parametrize("objective", ["energy", "edp"])
@pytest.mark.parametrize("scale", [10**9, 10**15, 10**17, 10**21])
def test_energies_scale_without_limit(scale: int, objective: str):
    """Totals of any size: the optimum of scaled energies is the scaled optimum."""
    best = optimum(SMALL, objective)
    assert best is not None
    result = map_by_bounds(matmul_mapspace(4, 4, 6, scale=scale), Options(objectives=(objective,)))
    assert result.status is Status.OPTIMAL
    assert result.value == best[0] * scale


@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
def test_the_dearest_arithmetic_that_specs_allow(objective: str):
    """1e30 pJ, counted in units of 1e-12 pJ, for each of 2**60 multiplications."""
    bound = (1 << 31) - 1
    mapspace = free_mapspace(matmul(bound, bound >> 2, 1), StorageLevel("dram", energy=AccessEnergy(1, 1, 1)))
    compute = replace(mapspace.architecture.compute, energy=10**42)
    dear = replace(mapspace, architecture=replace(mapspace.architecture, compute=compute))
    result = map_by_bounds(dear, Options(objectives=(objective,)))
    assert result.status is Status.OPTIMAL
    assert result.evaluation.energy > 10**42 * bound * (bound >> 2)


def coprime(mapspace: Mapspace, scale: int) -> Mapspace:
    """Energies of many digits without a common divisor, in the same proportions up to the last ones."""
    primes = iter((2, 3, 5, 7, 11, 13, 17, 19, 23))
    nodes = tuple(
        replace(
            node,
            energy=AccessEnergy(
                node.energy.read * scale + next(primes),
                node.energy.fill * scale + next(primes),
                node.energy.update * scale + next(primes),
            ),
        )
        if isinstance(node, StorageLevel)
        else node
        for node in mapspace.architecture.nodes
    )
    compute = replace(mapspace.architecture.compute, energy=mapspace.architecture.compute.energy * scale)
    return replace(mapspace, architecture=replace(mapspace.architecture, nodes=nodes, compute=compute))


@pytest.mark.parametrize("objective", ["energy", "edp"])
@pytest.mark.parametrize("scale", [10**6, 10**12, 10**15, 10**16, 10**17, 10**18, 10**20, 10**25])
def test_last_digits_of_long_figures_count(scale: int, objective: str):
    mapspace = coprime(matmul_mapspace(2, 2, 6, buffer=9), scale)
    best = optimum(mapspace, objective)
    assert best is not None
    result = map_by_bounds(mapspace, Options(objectives=(objective,)))
    assert result.status is Status.OPTIMAL
    assert result.value == best[0]


def test_totals_beyond_64_bits_in_a_large_problem():
    """Twelve digits behind the point, and bounds of thousands: proven, in integers."""
    bounds, level = (4096, 8192, 16384), 10**12
    mapspace = coprime(matmul_mapspace(*bounds, buffer=1 << 16), level)
    result = map_by_bounds(mapspace, Options(objectives=("energy",), time_limit_s=math.inf))
    assert result.value > 1 << 63
    assert result.value == result.evaluation.energy
    assert result.status is Status.OPTIMAL
    rough = map_by_bounds(matmul_mapspace(*bounds, buffer=1 << 16), Options(objectives=("energy",)))
    # The digits beyond the scale add less than a share of 23 units per access.
    assert 0 <= result.value - rough.value * level < rough.value * level * 1e-9


def test_a_first_bound_far_below_the_optimum_still_leads_to_a_proof(tmp_path: Path):
    """Bounds with large prime factors: the first tables hold too little, the next ones must not be coarse."""
    layer = tmp_path / "layer.yaml"
    shape = "instance: {R: 1, S: 1, P: 2048, Q: 1, C: 8321, K: 8388, N: 1}"
    layer.write_text(f"problem: {{version: 0.4, shape: cnn-layer, {shape}}}\n", encoding="utf-8")
    eyeriss = REPOSITORY / "specs" / "architectures" / "eyeriss_like.yaml"
    mapspace = perfect_mapspace(layer, eyeriss)
    result = map_by_bounds(mapspace, Options(objectives=("edp",), time_limit_s=math.inf))
    assert result.status is Status.OPTIMAL
    assert result.evaluation is not None
    assert result.evaluation.energy > 1 << 63


def test_tiny_bounds_need_no_search():
    assert Architecture("a", (StorageLevel("dram"),), Compute("mac")).levels
    mapspace = free_mapspace(matmul(2, 3, 4), StorageLevel("dram", energy=AccessEnergy(1, 1, 1)))
    best = optima(mapspace, ["energy"])[0]
    assert map_by_bounds(mapspace, Options(objectives=("energy",))).value == best[0]


@pytest.fixture
def short_descents(monkeypatch: pytest.MonkeyPatch):
    """Leave the work to the search: no more than a few mappings of heuristics beforehand."""
    for name in ("FEW_HINTED", "MANY_HINTED"):
        monkeypatch.setattr(mapper, name, 8)


@pytest.mark.usefixtures("short_descents")
def test_a_part_of_the_space_proves_nothing(monkeypatch: pytest.MonkeyPatch):
    """With too little memory for all tiles a mapping is found, not called optimal if some are left out."""
    monkeypatch.setattr(mapper, "estimated_bytes", lambda space: space.lattice.size << 20)
    for mapspace in random_mapspaces(31, 12, 500):
        best = optimum(mapspace, "energy")
        result = map_by_bounds(mapspace, Options(objectives=("energy",), memory_limit_mib=1))
        if all(len(divisors(bound)) <= 2 for bound in mapspace.problem.bounds):
            assert best is not None
            assert (result.status, result.value) == (Status.OPTIMAL, best[0])
            continue
        assert result.status in (Status.FEASIBLE, Status.UNKNOWN)
        assert result.termination is Termination.MEMORY_LIMIT
        if result.value is not None:
            assert best is not None
            assert result.bound <= best[0] <= result.value


def test_as_much_of_the_space_is_searched_as_fits():
    """With a part of the memory that all tiles take, the mapping is nearly as good as the best one."""
    best = map_by_bounds(LARGE, Options(objectives=("energy",)))
    assert 4 << 20 < estimated_bytes(SearchSpace(LARGE)) < 8 << 20
    states = [best.statistics.states]
    for memory_limit_mib in (4, 1):
        result = map_by_bounds(LARGE, Options(objectives=("energy",), memory_limit_mib=memory_limit_mib))
        assert (result.status, result.termination) == (Status.FEASIBLE, Termination.MEMORY_LIMIT)
        assert result.bound <= best.value <= result.value <= best.value * 1.1
        states.append(result.statistics.states)
    assert states == sorted(states, reverse=True)


@pytest.mark.usefixtures("short_descents")
@pytest.mark.parametrize("seed", few(range(3)))
def test_coarse_spaces_have_mappings_of_the_whole_one(seed: int, monkeypatch: pytest.MonkeyPatch):
    found = 0
    for mapspace in random_mapspaces(350 + seed, 12, 600):
        best = optimum(mapspace, "energy")
        dims = [dim for dim in mapspace.problem.dims if mapspace.problem.bound[dim] > 1]
        coarse = tuple((dim, coarsened(prime_factors(mapspace.problem.bound[dim]))) for dim in dims[::2])
        monkeypatch.setattr(mapper, "_affordable", lambda m, _, stop, c=coarse: SearchSpace(m, c, stop))
        result = map_by_bounds(mapspace, Options(objectives=("energy",)))
        assert result.status in (Status.FEASIBLE, Status.UNKNOWN)
        if result.value is not None:
            assert best is not None
            assert result.bound <= best[0] <= result.value
            found += 1
    assert found > 3


@pytest.mark.parametrize("price", [10**18, 10**19, 10**30])
def test_an_action_that_costs_more_than_64_bits_is_avoided(price: int):
    """Sums that stay in the buffer until they are complete need no read of the outermost level."""
    sums = Dataspace("Z", ((Term("M"),),), read_write=True)
    dram = StorageLevel("dram", energy=AccessEnergy(price, 0, 1))
    buffer = StorageLevel("buffer", size_words=2, energy=AccessEnergy(1, 1, 1))
    mapspace = free_mapspace(Problem("sums", ("M", "K"), (4, 4), (sums,)), dram, buffer)
    result = map_by_bounds(mapspace, Options(objectives=("energy",)))
    assert result.status is Status.OPTIMAL
    assert result.value == optimum(mapspace, "energy")[0] < price


def test_as_many_words_as_64_bits_count():
    dram, registers = StorageLevel("dram", energy=ENERGIES[0]), StorageLevel("registers", energy=ENERGIES[2])
    problem = Problem("batched", ("H", "K", "M", "N"), (31_607,) * 4, batched_gemm(Random(0)))
    mapspace = free_mapspace(problem, dram, registers)
    for objective, best in zip(OBJECTIVES, optima(mapspace, OBJECTIVES), strict=True):
        result = map_by_bounds(mapspace, Options(objectives=(objective,)))
        assert result.status is Status.OPTIMAL
        assert result.value == best[0]


def test_more_words_than_64_bits_count():
    """Tables whose counts overflow may exclude every mapping."""
    space = Dataspace("A", ((Term("M"),), (Term("N"),), (Term("K"),)))
    output = Dataspace("Z", ((Term("M"),),), read_write=True)
    problem = Problem("sums", ("M", "N", "K"), (1_000_003, 1_000_003, 10_000_019), (space, output))
    mapspace = free_mapspace(problem, StorageLevel("dram"), StorageLevel("registers", size_words=2))
    with pytest.raises(TooLargeError, match="total about 1e19, more than a search can count"):
        map_by_bounds(mapspace)


def test_nothing_to_minimise_is_refused():
    with pytest.raises(ValueError, match="at least one objective"):
        SharedSearch(SMALL).minimise(())
