"""The rules for batches against the enumerator of complete mapspaces, and against broken mappings."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from model.architecture import Architecture, StorageLevel
from model.cost.batch import MappingBatch, encode
from model.mapspace import FactorRule, KeepRules, Mapspace, ParallelGroup, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem, Term
from solver.heuristics.interface import MapperError
from solver.heuristics.rules import MapspaceRules
from solver.heuristics.sampling import Sampler
from tests.bruteforce import enumerate_mappings
from tests.solver.examples import MAPPING, MAPSPACE
from tests.strategies import random_mapspaces


def canonical(mapspace: Mapspace, batch: MappingBatch) -> list[tuple[object, ...]]:
    """What mappings do, without the order of loops that do not iterate and of the innermost level."""
    levels = mapspace.architecture.storage_indices[:-1]
    return [
        (
            factors.tobytes(),
            tuple(
                tuple(order[order_at(factors[at], order)]) for at, order in zip(levels, orders, strict=False)
            ),
            keep.tobytes(),
        )
        for factors, orders, keep in zip(batch.factors, batch.order, batch.keep, strict=True)
    ]


def order_at(factors: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Places of an order whose dimensions iterate."""
    return np.flatnonzero(factors[order] > 1)


def test_all_enumerated_mappings_are_allowed_and_samples_are_among_them():
    for mapspace in random_mapspaces(31, 60, 600):
        rules, sampler = MapspaceRules(mapspace), Sampler(MapspaceRules(mapspace))
        complete = encode(mapspace.problem, mapspace.architecture, list(enumerate_mappings(mapspace)))
        assert rules.allows(complete).all()
        if sampler.empty:
            assert len(complete) == 0
            continue
        drawn = sampler.draw(np.random.default_rng(1), 300)
        known = set(canonical(mapspace, complete))
        found = [mapping in known for mapping in canonical(mapspace, drawn)]
        assert rules.allows(drawn).tolist() == found


def test_decoded_mappings_encode_to_the_same_choices():
    for mapspace in random_mapspaces(32, 20, 300):
        problem, architecture = mapspace.problem, mapspace.architecture
        rules = MapspaceRules(mapspace)
        batch = encode(problem, architecture, list(enumerate_mappings(mapspace)))
        decoded = [rules.mapping(batch, row) for row in range(len(batch))]
        assert canonical(mapspace, encode(problem, architecture, decoded)) == canonical(mapspace, batch)


def with_rules(**changes: object) -> Mapspace:
    """The example's mapspace, all rules dropped but those given."""
    free = replace(
        MAPSPACE,
        temporal=(TemporalRules(),) * 4,
        spatial=(SpatialRules(),) * 2,
        keep=(KeepRules(),) * 4,
        parallel=(),
    )
    return replace(free, **changes)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({}, None),
        ({"temporal": (TemporalRules((FactorRule("M", "=", 1),)), *(TemporalRules(),) * 3)}, "factor M=1"),
        ({"temporal": (*(TemporalRules(),) * 3, TemporalRules((FactorRule("M", ">=", 4),)))}, "M>=4"),
        ({"temporal": (*(TemporalRules(),) * 3, TemporalRules((FactorRule("M", "<=", 2),)))}, "M<=2"),
        ({"spatial": (SpatialRules((FactorRule("C", "<=", 2),)), SpatialRules())}, "C<=2 of column"),
        ({"spatial": (SpatialRules(split=0), SpatialRules())}, "split"),
        ({"spatial": (SpatialRules(), SpatialRules(split=4))}, "split"),
        ({"keep": (*(KeepRules(),) * 3, KeepRules(bypass=frozenset({"Outputs"})))}, "keep Outputs"),
        ({"keep": (KeepRules(), KeepRules(frozenset({"Weights"})), *(KeepRules(),) * 2)}, "keep Weights"),
        ({"parallel": (ParallelGroup((1, 2), may_skip=False),)}, None),
        ({"parallel": (ParallelGroup((1, 3), may_skip=True),)}, "keep Outputs"),
        ({"parallel": (ParallelGroup((2, 3), may_skip=False),)}, "keep Inputs"),
        ({"min_parallelism": Fraction(25, 2)}, "compute units"),
        ({"min_parallelism": Fraction(12)}, None),
    ],
)
def test_each_kind_of_rule_is_seen(changes, rule):
    rules = MapspaceRules(with_rules(**changes))
    batch = encode(MAPSPACE.problem, MAPSPACE.architecture, [MAPPING])
    broken = rules.broken(batch, 0)
    assert rules.allows(batch)[0] == (rule is None)
    assert broken is None if rule is None else rule in broken


def test_orders_are_held_against_both_ends():
    mapspace = with_rules(temporal=(TemporalRules(inner=("C",), outer=("M", "P")), *(TemporalRules(),) * 3))
    rules = MapspaceRules(mapspace)
    factors = np.ones((1, 6, 4), dtype=np.int64)
    factors[0, 0] = mapspace.problem.bounds
    keep = np.ones((1, 4, 3), dtype=np.bool_)
    dims = mapspace.problem.dims
    for order, allowed in (("CRMP", True), ("CRPM", False), ("RCMP", False), ("CMRP", False)):
        ranked = [[dims.index(dim) for dim in order]]
        orders = np.array([ranked + [list(range(4))] * 3])
        assert rules.allows(MappingBatch(factors, orders, keep))[0] == allowed
        factors_without = factors.copy()
        factors_without[0, 0, dims.index("R")] = 1
        factors_without[0, 1, dims.index("R")] = 3
        moved = rules.allows(MappingBatch(factors_without, orders, keep))[0]
        assert moved == (order.replace("R", "") == "CMP")


def test_a_biased_sampler_draws_the_same_space():
    random = Random(5)
    for mapspace in random_mapspaces(random.randrange(100), 10, 200):
        rules = MapspaceRules(mapspace)
        if Sampler(rules).empty:
            continue
        inner = [
            Sampler(rules, inward).draw(np.random.default_rng(2), 400).factors[:, 0].prod(axis=1).mean()
            for inward in (0.0, -4.0)
        ]
        assert inner[0] <= inner[1] * 1.1


def test_more_free_choices_than_can_be_looked_at_are_refused():
    dims = tuple(f"D{number}" for number in range(20))
    space = Dataspace("Z", tuple((Term(dim),) for dim in dims), read_write=True)
    problem = Problem("wide", dims, (2,) * 20, (space,))
    temporal = (TemporalRules(),) * len(MAPSPACE.temporal)
    spatial = (SpatialRules(),) * len(MAPSPACE.spatial)
    with pytest.raises(MapperError, match="20 dimensions may lie along either axis"):
        MapspaceRules(replace(MAPSPACE, problem=problem, temporal=temporal, spatial=spatial))
    levels = (*MAPSPACE.architecture.levels, *(StorageLevel(f"level{number}") for number in range(20)))
    free = (KeepRules(),) * len(levels)
    deep = replace(
        MAPSPACE,
        architecture=Architecture("deep", levels, MAPSPACE.architecture.compute),
        temporal=(TemporalRules(),) * len(levels),
        spatial=(),
        keep=free,
    )
    with pytest.raises(MapperError, match=r"23 levels may keep \w+ or not"):
        MapspaceRules(deep).keep_masks()


def test_of_many_levels_few_choices_are_drawn_and_all_are_judged():
    space = Dataspace("Z", ((Term("M"),),), read_write=True)
    problem = Problem("deep", ("M",), (8,), (space,))
    levels = (*(StorageLevel(f"level{number}") for number in range(20)),)
    free = [KeepRules()] * len(levels)
    free[3], free[5] = KeepRules(keep=frozenset({"Z"})), KeepRules(bypass=frozenset({"Z"}))
    deep = Mapspace(
        problem,
        Architecture("deep", levels, MAPSPACE.architecture.compute),
        temporal=(TemporalRules(),) * len(levels),
        spatial=(),
        keep=tuple(free),
    )
    rules = MapspaceRules(deep)
    drawn = rules.keep_options[0]
    assert drawn[:, 0].all() and drawn[:, 3].all() and not drawn[:, 5].any()
    assert {int(row.sum()) for row in drawn} == {2, 3, 4, 17, 18, 19}
    random = np.random.default_rng(4)
    keep = random.random((40, len(levels), 1)) < 0.5
    factors = np.ones((40, len(levels), 1), dtype=np.int64)
    factors[:, 0] = 8
    batch = MappingBatch(factors, np.zeros((40, len(levels), 1), dtype=np.int64), keep)
    expected = keep[:, 0, 0] & keep[:, 3, 0] & ~keep[:, 5, 0]
    assert rules.allows(batch).tolist() == expected.tolist() and 0 < expected.sum() < 40


def test_the_number_of_temporal_loops_is_limited():
    for mapspace in random_mapspaces(33, 10, 200):
        mappings = list(enumerate_mappings(mapspace))
        batch = encode(mapspace.problem, mapspace.architecture, mappings)
        limited = MapspaceRules(replace(mapspace, max_temporal_loops=2))
        assert limited.allows(batch).tolist() == [mapping.temporal_loops <= 2 for mapping in mappings]
        wide = [row for row, mapping in enumerate(mappings) if mapping.temporal_loops > 2]
        assert {limited.broken(batch, row) for row in wide} <= {"the maximum number of temporal loops"}
