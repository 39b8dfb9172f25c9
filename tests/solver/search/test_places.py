"""The search of mappings with several places of one memory, against enumeration and hand-derived figures."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.cost import evaluate
from model.extents import ANY, PERFECT, Factors
from model.formats.cascade import load_network
from model.formats.timeloop.loader import LoadOptions
from model.mapping import FanoutMapping, Mapping, SpatialLoop, StorageMapping
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.places import spread
from solver.explain import Verdict, diagnose
from solver.result import Options, Status
from solver.search import map_by_bounds
from tests.bruteforce import optima
from tests.conftest import SHARED
from tests.mapspaces import free_mapspace, matmul
from tests.model.cost.nests import storage
from tests.random_rules import with_binding_rules
from tests.reference import OBJECTIVES
from tests.slow import few
from tests.solver.search.holding import compare, hold_search, solve
from tests.strategies import random_mapspaces_with_places

CASCADES = SHARED / "reference" / "fused" / "tilewright"


@pytest.mark.parametrize("seed", few(range(2)))
def test_the_best_of_all_mappings(seed: int):
    results = compare(random_mapspaces_with_places(seed, 4, 1500), OBJECTIVES)
    assert all(r.even_tiles.value is None or r.value <= r.even_tiles.value for r in results if r.value)


@pytest.mark.parametrize("seed", few((32, 31)))
def test_the_best_of_all_mappings_with_remainders(seed: int, monkeypatch: pytest.MonkeyPatch):
    mapspaces = random_mapspaces_with_places(seed, 3, 1500, ANY)
    for result in compare(mapspaces, OBJECTIVES):
        assert result.perfect_factors.value is None or result.value <= result.perfect_factors.value
    for mapspace in mapspaces:
        hold_search(mapspace, monkeypatch)


@pytest.mark.parametrize(("seed", "factors"), few([(40, PERFECT), (41, PERFECT), (42, ANY)]))
def test_the_best_of_those_that_rules_on_tiles_allow(
    seed: int, factors: Factors, monkeypatch: pytest.MonkeyPatch
):
    random = Random(seed)
    for free in random_mapspaces_with_places(seed, 3, 1200, factors):
        best = optima(free, ["energy"])[0]
        mapspace = with_binding_rules(random, free, None if best is None else best[1])
        compare([mapspace], OBJECTIVES)
        hold_search(mapspace, monkeypatch)


@pytest.mark.parametrize("seed", few((21, 20)))
def test_nothing_that_improves_is_ruled_out(seed: int, monkeypatch: pytest.MonkeyPatch):
    for mapspace in random_mapspaces_with_places(seed, 2, 1500):
        hold_search(mapspace, monkeypatch)


def array(words: int, size: int, bound: int = 1024, bandwidth: int = 16) -> Mapspace:
    """A product of square matrices on an array of units that hold one word of B each."""
    dram = StorageLevel("dram", energy=AccessEnergy(200, 200, 200), shared_bandwidth=Fraction(bandwidth))
    buffer = StorageLevel("buffer", size_words=words, energy=AccessEnergy(6, 6, 6))
    register = StorageLevel("register", size_words=1, energy=AccessEnergy(1, 1, 1))
    mapspace = free_mapspace(matmul(bound, bound, bound), dram, buffer, Fanout("array", size, size), register)
    fixed = tuple(FactorRule(dim, "=", factor) for dim, factor in (("K", size), ("N", size), ("M", 1)))
    return replace(
        mapspace,
        spatial=(SpatialRules(fixed, ("K",), ("N",), frozenset("M"), split=1),),
        keep=(*mapspace.keep[:2], KeepRules(frozenset("B"), frozenset("AZ"))),
    )


def test_three_places_fill_a_buffer_exactly():
    """Z of 256 x 128, B and A of 128 x 128 words: 65,536; even tiles of 256 x 128 x 128 take 81,920."""
    even, spatial = (
        array(65_536, 128),
        FanoutMapping((SpatialLoop("K", 128, "x"), SpatialLoop("N", 128, "y"))),
    )
    wide = spread(even)
    inside = (spatial, storage("", "B"))
    places = Mapping(
        (storage("K8 N8 M4", "ABZ"), storage("M2", "Z"), storage("", "B"), storage("M128", "A"), *inside)
    )
    cost = evaluate(wide.problem, wide.architecture, places)
    assert cost.valid
    assert [level.size_words for level in cost.levels[1:4]] == [32_768, 16_384, 16_384]
    together = Mapping((storage("K8 N8 M4", "ABZ"), storage("M256", "ABZ"), *inside))
    (violation,) = evaluate(even.problem, even.architecture, together).violations
    assert violation[:4] == ("buffer", "capacity", 81_920, 65_536)


@pytest.mark.parametrize(("words", "size", "least"), [(65_536, 128, 0.3), (24_576, 64, 0.2)])
def test_arrays_with_tight_buffers_gain_by_uneven_tiles(words: int, size: int, least: float):
    result = solve(spread(array(words, size)), "edp")
    assert result.status is Status.OPTIMAL
    assert result.even_tiles.status is Status.OPTIMAL
    assert 1 - result.value / result.even_tiles.value > least
    assert len(result.mapping.nodes) == 6


@pytest.mark.parametrize("path", sorted(CASCADES.glob("*.json")), ids=lambda path: path.stem)
def test_einsums_of_cascades_cost_what_another_enumeration_found(path: Path):
    """By an independent program, with even tiles and with uneven ones."""
    files = [path.with_suffix(f".{kind}.yaml") for kind in ("workload", "arch")]
    expected = json.loads(path.read_text(encoding="utf-8"))
    for key, uneven in (("unfused_even", False), ("unfused", True)):
        layers = load_network(files, {}, LoadOptions(has_places=uneven, factors="perfect")).layers
        energies = (
            map_by_bounds(layer.mapspace, Options(objectives=("energy",))).reported_value for layer in layers
        )
        cycles = (map_by_bounds(layer.mapspace, Options(objectives=("latency",))).value for layer in layers)
        assert sum(energies) == expected[key]["energy"]["energy"]
        assert sum(cycles) == expected[key]["latency"]["cycles"]


def as_a_whole(words: int) -> Mapspace:
    """No loops lie outside of the buffer: its outermost tile is everything, 4 words of each matrix."""
    mapspace = free_mapspace(matmul(2, 2, 2), StorageLevel("dram"), StorageLevel("buffer", size_words=words))
    outer = TemporalRules((FactorRule("M", "=", 1), FactorRule("N", "=", 1), FactorRule("K", "=", 1)))
    return replace(mapspace, temporal=(outer, TemporalRules()))


def test_what_fits_with_uneven_tiles_only():
    """One whole matrix and a word of each of the others take 6, even tiles 12."""
    even = as_a_whole(6)
    assert diagnose(even).verdict is Verdict.INFEASIBLE
    wide = spread(even)
    ((value, _),) = optima(wide, ["energy"])
    result = solve(wide, "energy")
    assert result.even_tiles.status is Status.INFEASIBLE
    assert (result.status, result.value) == (Status.OPTIMAL, value)
    assert diagnose(wide).verdict is Verdict.FEASIBLE


def test_why_not_even_uneven_tiles_fit():
    wide = spread(as_a_whole(5))
    assert solve(wide, "latency").status is Status.INFEASIBLE
    found = diagnose(wide)
    assert found.verdict is Verdict.INFEASIBLE
    assert found.reasons[0].text.startswith("with even tiles: ")


def test_mappings_have_as_few_places_as_they_need():
    mapspace = free_mapspace(matmul(4, 4, 4), StorageLevel("dram"), StorageLevel("buffer"))
    result = solve(spread(mapspace), "energy")
    assert result.mapping.nodes[2:] == (StorageMapping(), StorageMapping())
