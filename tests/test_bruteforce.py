"""The enumerator against the rules themselves, and against optima that another program found."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import compress

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from model.architecture import Fanout, StorageLevel
from model.cost import evaluate
from model.cost.batch import BatchEvaluator, encode
from model.extents import ANY, PERFECT
from model.mapping import FanoutMapping, Mapping, SpatialLoop, StorageMapping
from model.mapspace import KeepRules, Mapspace, ParallelGroup, SpatialRules, TemporalRules
from tests.bruteforce import (
    axis_choices,
    count_mappings,
    enumerate_mappings,
    objective_value,
    optima,
    optimum,
    temporal_orders,
)
from tests.mapspaces import free_mapspace, matmul
from tests.reference import NAMES, OBJECTIVES, OPTIMA, load_reference
from tests.rules import allows
from tests.strategies import (
    free_mapspaces_with_remainders,
    mapspaces,
    random_mapspaces,
)

SMALL = settings(max_examples=40, suppress_health_check=list(HealthCheck))


TWO_LEVELS = free_mapspace(matmul(4, 1, 3), StorageLevel("dram"), StorageLevel("buffer"))


def test_counts_factorizations_times_orders():
    # M: 1*4, 2*2, 4*1; K: 1*3, 3*1. Both loops share a level for (4, 3) at either one, and for
    # M = 2*2 with K at either one: 2 orders there, 1 elsewhere.
    assert count_mappings(TWO_LEVELS, 1000) == 2 + 2 + 2 + 2 + 1 + 1
    assert count_mappings(TWO_LEVELS, 4) == 5


def test_no_mapping_is_yielded_twice():
    for mapspace in random_mapspaces(11, 20, 300):
        assert max(Counter(enumerate_mappings(mapspace)).values(), default=1) == 1


def test_temporal_orders_keep_the_ends():
    rules = TemporalRules(inner=("D", "A"), outer=("C",))
    orders = temporal_orders(rules, {"A": 2, "B": 3, "C": 5, "D": 1, "E": 7})
    found = {"".join(loop.dim for loop in order) for order in orders}
    assert found == {"ABEC", "AEBC"}


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        (0, {""}),
        (1, {"A"}),
        (2, {"AB", "AD"}),
        (3, {"ABD"}),
        (4, {"ABCD"}),
        (None, {"", "A", "AB", "AD", "ABD", "ABCD"}),
    ],
)
def test_axis_choices_are_prefixes_of_the_full_order(split: int | None, expected: set[str]):
    rules = SpatialRules(inner=("A",), outer=("C",), uncounted=frozenset("E"), split=split)
    assert {"".join(sorted(choice)) for choice in axis_choices(rules, "ABCDE")} == expected


def test_free_bypass_keeps_everything_outermost_and_somewhere():
    dram, buffer, registers = (StorageLevel(name) for name in ("dram", "buffer", "registers"))
    free = free_mapspace(matmul(1, 1, 1), dram, buffer, registers, keep=False)
    assert count_mappings(free, 1000) == 4**3
    outside_only = {mapping.nodes[0].keep for mapping in enumerate_mappings(free)}
    assert outside_only == {frozenset("ABZ")}
    without_a = replace(free, keep=(KeepRules(bypass=frozenset("A")), *free.keep[1:]))
    assert count_mappings(without_a, 1000) == 3 * 4**2
    contradiction = replace(free, keep=(KeepRules(frozenset("A"), frozenset("A")), *free.keep[1:]))
    assert count_mappings(contradiction, 1000) == 0


@pytest.mark.parametrize(("may_skip", "per_dataspace"), [(False, 2), (True, 3)])
def test_parallel_levels_share_no_dataspace(may_skip: bool, per_dataspace: int):
    dram, buffer, registers = (StorageLevel(name) for name in ("dram", "buffer", "registers"))
    free = free_mapspace(matmul(1, 1, 1), dram, buffer, registers, keep=False)
    grouped = replace(free, parallel=(ParallelGroup((1, 2), may_skip),))
    assert count_mappings(grouped, 1000) == per_dataspace**3


def test_min_parallelism_counts_arithmetic_units_in_use():
    mapspace = free_mapspace(matmul(4, 1, 1), StorageLevel("dram"), Fanout("array", 4))
    used = [math.prod(loop.bound for loop in m.nodes[1].spatial) for m in enumerate_mappings(mapspace)]
    assert sorted(used) == [1, 2, 4]
    assert count_mappings(replace(mapspace, min_parallelism=Fraction(3, 2)), 9) == 2
    assert count_mappings(replace(mapspace, min_parallelism=Fraction(5)), 9) == 0


def test_split_decides_whether_a_dimension_finds_room():
    mapspace = free_mapspace(matmul(4, 1, 1), StorageLevel("dram"), Fanout("array", 1, 4))
    assert count_mappings(mapspace, 9) == 3
    all_along_x = replace(mapspace, spatial=(SpatialRules(split=3),))
    assert count_mappings(all_along_x, 9) == 1


# ------------------------------------------------- against the rules, one mapping at a time


def without_axes(mapping: Mapping) -> Mapping:
    """Forget where spatial loops lie and in which order."""
    return Mapping(
        tuple(
            FanoutMapping(
                tuple(
                    sorted(
                        (SpatialLoop(loop.dim, loop.bound, "x") for loop in part.spatial), key=lambda s: s.dim
                    )
                )
            )
            if isinstance(part, FanoutMapping)
            else part
            for part in mapping.nodes
        )
    )


@SMALL
@given(mapspaces(max_mappings=200))
def test_enumerates_exactly_what_the_rules_allow(mapspace: Mapspace):
    wide = tuple(
        Fanout(node.name, 10**6) if isinstance(node, Fanout) else node for node in mapspace.architecture.nodes
    )
    free = replace(
        mapspace,
        architecture=replace(mapspace.architecture, nodes=wide),
        temporal=tuple(TemporalRules() for _ in mapspace.temporal),
        spatial=tuple(SpatialRules() for _ in mapspace.spatial),
        keep=tuple(
            KeepRules(bypass=rules.bypass if i == 0 else frozenset()) for i, rules in enumerate(mapspace.keep)
        ),
        parallel=(),
        min_parallelism=Fraction(0),
    )
    assume(count_mappings(free, 1000) <= 1000)
    expected = {without_axes(mapping) for mapping in enumerate_mappings(free) if allows(mapspace, mapping)}
    found = [without_axes(mapping) for mapping in enumerate_mappings(mapspace)]
    assert len(found) == len(set(found))
    assert set(found) == expected


# ------------------------------------------------------- what may be priced only once


@SMALL
@given(mapspaces(max_mappings=300), st.data())
def test_price_ignores_axes_and_the_innermost_order(mapspace: Mapspace, data: st.DataObject):
    mappings = list(enumerate_mappings(mapspace))
    assume(mappings)
    mapping = data.draw(st.sampled_from(mappings))
    roomy = tuple(
        replace(node, mesh_x=10**3, mesh_y=10**3) if isinstance(node, Fanout) else node
        for node in mapspace.architecture.nodes
    )
    architecture = replace(mapspace.architecture, nodes=roomy)
    innermost = architecture.storage_indices[-1]

    def redraw(position: int, part: StorageMapping | FanoutMapping) -> StorageMapping | FanoutMapping:
        if isinstance(part, FanoutMapping):
            loops = data.draw(st.permutations(part.spatial))
            return FanoutMapping(
                tuple(replace(loop, axis=data.draw(st.sampled_from("xy"))) for loop in loops)
            )
        if position == innermost:
            return replace(part, temporal=tuple(data.draw(st.permutations(part.temporal))))
        return part

    other = Mapping(tuple(redraw(i, part) for i, part in enumerate(mapping.nodes)))
    assert evaluate(mapspace.problem, architecture, other) == evaluate(
        mapspace.problem, architecture, mapping
    )


# ------------------------------------------------------------------------- optima


@pytest.mark.parametrize("name", NAMES)
def test_reference_optimum(name: str):
    if not OPTIMA.exists():
        pytest.skip(f"{OPTIMA} is absent")
    reference = load_reference(OPTIMA / f"{name}.json", axes_apart=True)
    mapspace = reference.mapspace
    problem, architecture = mapspace.problem, mapspace.architecture
    mappings = list(enumerate_mappings(mapspace, innermost_orders=False))
    # All at once, which is much faster; some are priced by the plain model, too.
    batch = BatchEvaluator(problem, architecture).evaluate(encode(problem, architecture, mappings))
    figures = list(zip(map(bool, batch.valid), map(int, batch.energy), map(int, batch.cycles), strict=True))
    for mapping, found in list(zip(mappings, figures, strict=True))[::17]:
        plain = evaluate(problem, architecture, mapping)
        assert (plain.valid, plain.energy, plain.cycles) == found
    # The reference counts every order of the innermost loops, which all have one price.
    innermost = architecture.storage_indices[-1]
    orders = [math.factorial(len(mapping.nodes[innermost].temporal)) for mapping in mappings]
    assert sum(compress(orders, batch.valid)) == reference.mappings
    costs = [(energy, cycles) for valid, energy, cycles in figures if valid]
    least = {own: min(objective_value(own, *cost) for cost in costs) for own in OBJECTIVES}
    assert least == reference.optimum


def test_optima_prices_each_objective():
    if not OPTIMA.exists():
        pytest.skip(f"{OPTIMA} is absent")
    reference = load_reference(OPTIMA / "gemm_block.json")
    mapspace = reference.mapspace
    lexicographic = ("latency", "energy")
    found = optima(mapspace, [*OBJECTIVES, lexicographic])
    values = [value for value, _ in found]
    assert values[:3] == [reference.optimum[objective] for objective in OBJECTIVES]
    assert values[3] == (48, 8488)
    for objective, (value, mapping) in zip([*OBJECTIVES, lexicographic], found, strict=True):
        evaluation = evaluate(mapspace.problem, mapspace.architecture, mapping)
        assert evaluation.valid
        assert objective_value(objective, evaluation.energy, evaluation.cycles) == value


def test_no_optimum_where_nothing_fits():
    small = free_mapspace(matmul(2, 2, 2), StorageLevel("dram"), StorageLevel("buffer", size_words=2))
    assert optimum(small, "energy") is None
    roomy = free_mapspace(matmul(2, 2, 2), StorageLevel("dram"), StorageLevel("buffer", size_words=3))
    assert optimum(roomy, "latency")[0] == 8


# --------------------------------------------------------------- the random mapspaces


def test_random_mapspaces_are_small_and_repeatable():
    drawn = random_mapspaces(3, 15, 150)
    assert drawn == random_mapspaces(3, 15, 150)
    assert drawn != random_mapspaces(4, 15, 150)
    assert all(count_mappings(mapspace, 150, innermost_orders=False) <= 150 for mapspace in drawn)


def test_random_mapspaces_hold_every_feature():
    drawn = random_mapspaces(0, 300, 200)
    levels = [level for mapspace in drawn for level in mapspace.architecture.levels]
    temporal = [rules for mapspace in drawn for rules in mapspace.temporal]
    spatial = [rules for mapspace in drawn for rules in mapspace.spatial]
    fanouts = [fanout for mapspace in drawn for fanout in mapspace.architecture.fanouts]
    relations = {rule.relation for rules in (*temporal, *spatial) for rule in rules.factors}
    assert len({mapspace.problem.name for mapspace in drawn}) == 9
    assert {len(mapspace.architecture.levels) for mapspace in drawn} == {2, 3, 4}
    assert {len(mapspace.architecture.fanouts) for mapspace in drawn} == {0, 1, 2}
    assert relations == {"=", "<=", ">="}
    for feature in (
        *("block_size", "cluster_size", "multiple_buffering", "min_utilization", "bandwidth_scale"),
        *("read_bandwidth", "write_bandwidth", "shared_bandwidth", "network_fill_latency"),
        *("network_drain_latency", "gating_fanouts", "no_temporal_reuse", "rmw_first_update", "no_coalesce"),
        "packing",
    ):
        assert len({getattr(level, feature) for level in levels}) > 1, feature
    assert any(level.energy.leak_per_cycle for level in levels)
    assert any(fanout.no_multicast for fanout in fanouts)
    assert any(rules.inner for rules in temporal)
    assert any(rules.outer for rules in temporal)
    assert any(rules.split is not None and rules.inner for rules in spatial)
    assert any(rules.uncounted for rules in spatial)
    assert any(mapspace.min_parallelism > 1 for mapspace in drawn)
    assert {group.may_skip for mapspace in drawn for group in mapspace.parallel} == {True, False}
    empty = sum(count_mappings(mapspace, 1) == 0 for mapspace in drawn)
    assert 0 < empty < len(drawn) / 3


# ------------------------------------------------------------------- loops with remainders

OBJECTIVES_OF_ONE = ("energy", "latency", "edp")


def test_with_remainders_the_optimum_is_no_worse_than_without_or_after_padding():
    better = Counter()
    for number, mapspace in enumerate(free_mapspaces_with_remainders(5, 24, 300)):
        wider = optima(mapspace, OBJECTIVES_OF_ONE)
        bounds = list(mapspace.problem.bounds)
        bounds[number % len(bounds)] += 1
        padded = replace(mapspace, problem=replace(mapspace.problem, bounds=tuple(bounds)))
        for kind, other in (("perfect", mapspace), ("padded", padded)):
            for own, found in zip(
                wider, optima(replace(other, factors=PERFECT), OBJECTIVES_OF_ONE), strict=True
            ):
                assert found is None or (own is not None and own[0] <= found[0])
                better[kind] += found is not None and own[0] < found[0]
    assert better["perfect"] > 5
    assert better["padded"] > 5


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(mapspaces(max_mappings=100))
def test_enumerates_what_the_rules_allow_with_remainders(mapspace: Mapspace):
    wider = replace(mapspace, factors=ANY)
    assume(count_mappings(wider, 800) <= 800)
    mappings = list(enumerate_mappings(wider))
    assert max(Counter(mappings).values(), default=1) == 1
    assert all(allows(wider, mapping) for mapping in mappings)
    assert {*map(without_axes, enumerate_mappings(mapspace))} <= {*map(without_axes, mappings)}
