"""Certificates of mapspaces with remainders: exact costs, enumerated optima, false claims."""

import copy
import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest

from model.architecture import AccessEnergy, StorageLevel
from model.cost import evaluate_in
from model.extents import ANY, PERFECT
from solver.certificate.canonical import canonical, canonical_mapping, canonical_sha256
from tests.bruteforce import enumerate_mappings, objective_value, valid_mappings
from tests.conftest import REPOSITORY
from tests.mapspaces import free_mapspace, matmul, outer_product, perfect_mapspace, uneven_split
from tests.model.cost.random_mappings import random_case, random_mapping
from tests.slow import few
from tests.solver.certificate.any_factors import mapspaces_with_any_factors
from tests.solver.certificate.checker import bounds, certified, digested, prove, verdict
from tests.solver.certificate.enumerated import claimed, enumerated
from tests.strategies import random_mapspaces

OBJECTIVES = (("energy",), ("latency",), ("edp",), ("energy", "latency"), ("latency", "energy"))


def small():
    """Mapspaces of all kinds."""
    return mapspaces_with_any_factors(3, 15, 150)


def test_mappings_cost_what_the_cost_model_says():
    """On problems, architectures and mappings of any kind, windows that children share included."""
    random, seen = Random(8), 0
    while seen < 250:
        problem, architecture, _ = random_case(random, 3)
        bounds = tuple(random.choice((1, 2, 3, 5, 7)) for _ in problem.bounds)
        problem = replace(problem, bounds=bounds)
        mapspace = replace(
            free_mapspace(problem, *architecture.nodes), factors=ANY, architecture=architecture
        )
        mapping = random_mapping(random, problem, architecture, ANY)
        own = evaluate_in(mapspace, mapping)
        space, document = prove.mapspace(canonical(mapspace)), canonical_mapping(mapspace, mapping)
        loops, mask = [dict(pairs) for pairs in document["loops"]], [tuple(kept) for kept in document["keep"]]
        cost = space.price(loops, mask)
        assert (cost["energy"], cost["latency"]) == (own.energy, own.cycles)
        assert least_busy(space, loops, mask) <= own.cycles - space.latency
        seen += 1


def least_busy(space, loops, mask):
    """Cycles that bandwidths take at the least, by the spatial factors of a mapping alone."""
    factors = [[loops[p].get(d, 1) for d in space.every] for p in space.fans]
    space.spatial = np.array(factors, dtype=np.int64).reshape(1, len(space.fans), len(space.bounds))
    choices = bounds.Choices(space)
    floors = [choices.floors(tuple(map(tuple, mask)), measure)[0] for measure in bounds.bandwidths(space)]
    return max([choices.steps[0], *(math.ceil(cycles) for cycles in floors)])


def test_bandwidths_bound_what_a_walk_would_have_to_price(tmp_path):
    """Every word passes a slow memory once, which takes longer than the arithmetic."""
    memory = StorageLevel("DRAM", shared_bandwidth=Fraction(1, 4), energy=AccessEnergy(9, 9, 9))
    buffer = StorageLevel("buffer", size_words=120, energy=AccessEnergy(2, 2, 2, 5))
    mapspace = replace(free_mapspace(matmul(6, 7, 5), memory, buffer), factors=ANY)
    document = certified(mapspace, "edp")
    space = prove.mapspace(document["problem"])
    mask = tuple(tuple(own.keep[-1]) for own in space.spaces)
    words = 6 * 7 + 7 * 5 + 6 * 5
    assert least_busy(space, [{}] * len(space.nodes), mask) == document["cost"]["latency"] == 4 * words
    assert verdict(document, tmp_path)[0] == "VALID"


@pytest.mark.parametrize("first", few(range(0, 15, 5)))
def test_optima_are_valid_and_nothing_else(first, tmp_path):
    for mapspace, objectives in zip(small()[first:], OBJECTIVES, strict=False):
        document = enumerated(mapspace, *objectives)
        assert verdict(document, tmp_path)[0] == "VALID"
        if document["status"] == "INFEASIBLE":
            continue
        lower = copy.deepcopy(document)
        lower["bounds"][0] -= 1
        lower["cost"][objectives[0]] -= 1
        assert verdict(digested(lower), tmp_path)[0] == "INVALID"
        raised = digested({**document, "status": "FEASIBLE", "bounds": [document["bounds"][0] + 1]})
        assert verdict(raised, tmp_path)[0] == "INVALID"


def test_no_bound_excludes_a_mapping():
    """With its own costs as limits each mapping has to be found, or another that is as good."""
    random = Random(2)
    for mapspace in small()[:8]:
        space = prove.mapspace(canonical(mapspace))
        mappings = [own for own in enumerate_mappings(mapspace) if evaluate_in(mapspace, own).valid]
        for mapping in random.sample(mappings, min(3, len(mappings))):
            own = evaluate_in(mapspace, mapping)
            query = prove.Query(energy=own.energy, latency=own.cycles, edp=own.energy * own.cycles)
            assert prove.refute(space, query) is not None
            assert prove.refute(space, prove.Query(energy=own.energy)) is not None


@pytest.mark.parametrize("factors", [PERFECT, ANY])
def test_pairs_of_limits_are_decided_as_by_enumeration(factors):
    random = Random(4)
    for mapspace in small()[:6] if factors is ANY else random_mapspaces(4, 6, 300):
        space, mappings = prove.mapspace(canonical(mapspace)), list(valid_mappings(mapspace))
        for own in random.sample(mappings, min(4, len(mappings))):
            for energy, cycles in product((own.energy, own.energy - 1), (own.cycles, own.cycles - 1)):
                exists = any(other.energy <= energy and other.cycles <= cycles for other in mappings)
                assert bool(prove.refute(space, prove.Query(energy, cycles))) == exists


def test_the_second_best_mapping_is_no_optimum(tmp_path):
    for mapspace in small()[8:12]:
        found = [(own, evaluate_in(mapspace, own)) for own in enumerate_mappings(mapspace)]
        costs = sorted({objective_value(("energy",), own.energy, 1) for _, own in found if own.valid})
        for value in costs[1:2]:
            mapping = next(mapping for mapping, own in found if own.valid and own.energy == value[0])
            assert verdict(claimed(mapspace, ("energy",), (value, mapping)), tmp_path)[0] == "INVALID"


def test_the_least_factors_are_not_always_the_best(tmp_path):
    mapspace = uneven_split()
    space = prove.mapspace(canonical(mapspace))
    document = enumerated(mapspace, "latency")
    assert document["bounds"] == [28]
    assert verdict(document, tmp_path)[0] == "VALID"
    mappings = [(own, canonical_mapping(mapspace, own)) for own in enumerate_mappings(mapspace)]
    least = [
        evaluate_in(mapspace, own).value("latency")
        for own, written in mappings
        if has_least_factors(space.bounds, written["loops"]) and evaluate_in(mapspace, own).valid
    ]
    assert min(least) == 40


@pytest.mark.parametrize("factor", [3, 4])
def test_a_tile_alone_in_its_pass_is_brought_anew(factor, tmp_path):
    document = enumerated(outer_product(factor, factor), "energy")
    assert document["bounds"] == [1800]
    assert verdict(document, tmp_path)[0] == "VALID"


def has_least_factors(bounds, loops):
    """Whether no loop but the outermost could be shorter with as many iterations left outside of it."""
    left = list(bounds)
    for d, factor in (pair for own in reversed(loops) for pair in own):
        outside = -(-left[d] // factor)
        if factor > 1 and -(-left[d] // (factor - 1)) == outside:
            return False
        left[d] = outside
    return True


def test_what_is_said_of_factors_is_checked(tmp_path):
    buffer = StorageLevel("buffer", size_words=9)
    mapspace = replace(free_mapspace(matmul(3, 2, 5), StorageLevel("DRAM"), buffer), factors=ANY)
    document = enumerated(mapspace, "energy")
    assert verdict(document, tmp_path)[0] == "VALID"
    assert document["problem_sha256"] != canonical_sha256(canonical(replace(mapspace, factors=PERFECT)))
    first, changes = temporal(document["problem"])["factors"], []
    changes += [{"factors": kind} for kind in (None, "ruby", ["any"])] + [{"counting": "timeloop"}]
    for change in changes:
        assert rehashed(document, lambda problem, own=change: problem.update(own), tmp_path) == "INVALID"
    pairs = [1], [0, 3], [1, 2, 3], [1, "3"], [1, None], [1.0, 3], [], 3, [2, 1]  # no factor lies in the last
    for pair in pairs:
        own = {"factors": [pair, *first[1:]]}
        assert rehashed(document, lambda doc, own=own: temporal(doc).update(own), tmp_path) == "INVALID"


def temporal(problem):
    """The outermost node with temporal loops."""
    return next(node for node in problem["nodes"] if node["kind"] == "temporal")


def rehashed(document, change, folder):
    """The verdict on a certificate whose problem is changed, with all hashes computed anew."""
    changed = copy.deepcopy(document)
    change(changed["problem"])
    changed["problem_sha256"] = canonical_sha256(changed["problem"])
    return verdict(digested(changed), folder)[0]


def test_loops_beyond_their_dimension_are_refused(tmp_path):
    document = enumerated(replace(uneven_split(), factors=ANY), "latency")
    for node, pairs in enumerate(document["mapping"]["loops"]):
        for place, (d, factor) in enumerate(pairs):
            for other in (factor + 1, factor - 1, 101):
                changed = copy.deepcopy(document)
                changed["mapping"]["loops"][node][place] = [d, other]
                assert verdict(digested(changed), tmp_path)[0] == "INVALID"


def test_a_large_matrix_product_is_decided():
    """37^3 on 16 x 16 units: there is a mapping at the optimum, and none below."""
    files = [
        REPOSITORY / "specs" / path
        for path in ("architectures/free_three_level.yaml", "layers/gemm/1024.yaml")
    ]
    loaded = perfect_mapspace(*files)
    bounds = tuple(37 if bound > 1 else 1 for bound in loaded.problem.bounds)
    mapspace = replace(loaded, problem=replace(loaded.problem, bounds=bounds), factors=ANY)
    space = prove.mapspace(canonical(mapspace))
    assert prove.refute(space, prove.Query(energy=998_000)) is None
    assert prove.refute(space, prove.Query(energy=998_001))["energy"] == 998_001
