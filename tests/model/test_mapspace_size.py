"""The size of a mapspace against choices counted one by one."""

import math
from dataclasses import replace
from itertools import product

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from model.architecture import Architecture, Compute, Fanout, StorageLevel
from model.extents import FACTORS
from model.mapping import FanoutMapping, StorageMapping
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.mapspace_size import mapspace_size
from model.problem import Dataspace, Problem, Term
from tests.bruteforce import axis_choices, enumerate_mappings, ordered_factorizations, temporal_orders
from tests.strategies import mapspaces

DIMS = ("A", "B", "C", "D")


def boundless(mapspace):
    """Enlarge all fanouts so that every factorization fits."""
    nodes = tuple(
        replace(node, mesh_x=10**6, mesh_y=10**6) if isinstance(node, Fanout) else node
        for node in mapspace.architecture.nodes
    )
    return replace(mapspace, architecture=replace(mapspace.architecture, nodes=nodes), min_parallelism=0)


def factors(mapping, dims):
    rows = []
    for node in mapping.nodes:
        loops = node.spatial if isinstance(node, FanoutMapping) else node.temporal
        bounds = {loop.dim: loop.bound for loop in loops}
        rows.append(tuple(bounds.get(dim, 1) for dim in dims))
    return tuple(rows)


def keeps(mapping):
    return tuple(node.keep for node in mapping.nodes if isinstance(node, StorageMapping))


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(mapspaces(max_mappings=300), st.sampled_from(FACTORS), st.integers(0, 1))
def test_factorizations_and_masks_are_those_of_a_complete_enumeration(mapspace, kind, more):
    first, *others = mapspace.problem.bounds
    problem = replace(mapspace.problem, bounds=(first + more, *others))
    free = replace(boundless(mapspace), factors=kind, problem=problem)
    size = mapspace_size(free)
    assume(size.factorizations * size.keep_masks < 2000)
    mappings = list(enumerate_mappings(free, innermost_orders=False))
    if mappings:
        assert size.factorizations == len({factors(mapping, free.problem.dims) for mapping in mappings})
        assert size.keep_masks == len({keeps(mapping) for mapping in mappings})
    else:
        assert size.mappings == 0


@settings(max_examples=20)
@given(mapspaces(max_mappings=300))
def test_no_enumeration_has_more_mappings_than_the_size_allows(mapspace):
    assert len(list(enumerate_mappings(mapspace))) <= mapspace_size(mapspace).mappings


def one_fanout(rules, bounds=(2, 2, 2, 2), mesh=(4, 4)):
    space = Dataspace("Z", tuple((Term(dim),) for dim in DIMS), read_write=True)
    nodes = (StorageLevel("mem"), Fanout("pe", *mesh))
    return Mapspace(
        Problem("p", DIMS, bounds, (space,)),
        Architecture("a", nodes, Compute("mac")),
        (TemporalRules(),),
        (rules,),
        (KeepRules(frozenset({"Z"})),),
    )


@given(
    st.permutations(DIMS),
    st.integers(0, 4),
    st.integers(0, 4),
    st.one_of(st.none(), st.integers(0, 4)),
    st.sets(st.sampled_from(DIMS)),
)
def test_splits_are_the_distinct_assignments_of_live_loops(order, first, second, split, idle):
    cut, end = sorted((first, second))
    fixed = tuple(FactorRule(dim, "=", 1) for dim in sorted(idle))
    rules = SpatialRules(fixed, inner=tuple(order[:cut]), outer=tuple(order[cut:end]), split=split)
    distinct = {frozenset(chosen) - idle for chosen in axis_choices(rules, DIMS)}
    assert mapspace_size(one_fanout(rules)).splits == len(distinct)


def test_a_fanout_along_one_axis_has_one_split():
    assert mapspace_size(one_fanout(SpatialRules(), mesh=(16, 1))).splits == 1


def test_orders_are_those_of_loops_that_may_exceed_one():
    rules = TemporalRules((FactorRule("A", "=", 1),), inner=("B",))
    mapspace = replace(one_fanout(SpatialRules(), bounds=(2, 2, 2, 2)), temporal=(rules,))
    live = {"B": 2, "C": 2, "D": 2}
    assert mapspace_size(mapspace).orders == len(set(temporal_orders(rules, live))) == 2


def test_unconstrained_sizes_are_the_textbook_ones():
    mapspace = one_fanout(SpatialRules(), bounds=(12, 8, 30, 7))
    size = mapspace_size(mapspace)
    per_dim = [len(list(ordered_factorizations(bound, 2))) for bound in mapspace.problem.bounds]
    assert size.factorizations == math.prod(per_dim) == 6 * 4 * 8 * 2
    assert size.orders == math.factorial(4)
    assert size.splits == len(list(product((0, 1), repeat=4)))
