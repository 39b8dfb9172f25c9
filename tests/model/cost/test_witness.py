"""The execution as an independent check of the cost model, on random mappings."""

import math
from collections.abc import Mapping as Named
from dataclasses import replace
from itertools import islice
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from model.architecture import Architecture, Compute, Fanout, StorageLevel
from model.cost import evaluate
from model.cost.nest import build_nest
from model.extents import ANY
from model.mapping import Mapping
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem
from tests.bruteforce import enumerate_mappings
from tests.mapspaces import free_mapspace
from tests.model.cost.nests import (
    BUFFER,
    DRAM,
    across,
    nest,
    operands_of,
    problem,
    rank,
    run,
    space,
    storage,
)
from tests.model.cost.random_mappings import random_mapping
from tests.strategies import (
    EINSUMS,
    mapspaces,
    packed,
    random_architecture,
    random_mapspace,
    with_first_values,
    with_tolls,
)
from tests.witness import AccessCounts, Execution, Layout, execute

Case = tuple[Mapspace, Mapping]


def reference_result(task: Problem, operands: Named[str, np.ndarray], output: Dataspace) -> np.ndarray:
    """Sum the products of all operands over the whole iteration space at once."""
    index = np.indices(task.bounds).reshape(len(task.dims), -1)

    def ranks(s: Dataspace) -> tuple[np.ndarray, ...]:
        at = [sum(t.coefficient * index[task.dims.index(t.dim)] for t in terms) for terms in s.ranks]
        return tuple(values - values.min() for values in at)

    terms = np.prod([operands[s.name][ranks(s)] for s in task.dataspaces if not s.read_write], axis=0)
    result = np.zeros(Layout.of(task, output).shape, dtype=np.int64)
    if output.given:
        result += operands[output.name]
    np.add.at(result, ranks(output), terms)
    return result


@st.composite
def mapped(draw: st.DrawFn) -> Case:
    """A mapspace and one of its mappings."""
    mapspace = draw(mapspaces(max_mappings=300))
    assume(mapspace.problem.computes <= 300)
    mappings = list(enumerate_mappings(mapspace))
    assume(mappings)
    mapping = draw(st.sampled_from(mappings))
    assume(not any(level.no_coalesce for level in mapspace.architecture.levels))
    return mapspace, mapping


@st.composite
def windows(draw: st.DrawFn) -> Case:
    """A mapping of a convolution whose windows slide in two levels' loops and a fanout."""
    bounds = {
        "K": st.sampled_from((1, 2, 3)),
        "P": st.sampled_from((2, 3, 4, 6, 8)),
        "R": st.sampled_from((1, 2, 3, 4)),
    }
    stride, dilation = draw(st.sampled_from(((1, 1), (1, 1), (2, 1), (1, 2), (3, 2))))
    window = rank(("P", stride), ("R", dilation))
    spaces = (space("W", "K", "R"), space("I", window), space("O", "K", "P", read_write=True))
    task = problem(spaces, **{dim: draw(bound) for dim, bound in bounds.items()})
    architecture = Architecture(
        "a", (DRAM, BUFFER, Fanout("array", 6), StorageLevel("registers")), Compute("mac")
    )
    everything = KeepRules(frozenset("WIO"))
    mapspace = Mapspace(task, architecture, (TemporalRules(),) * 3, (SpatialRules(),), (everything,) * 3)
    mapping = draw(st.sampled_from(list(enumerate_mappings(mapspace, innermost_orders=False))))
    return mapspace, mapping


@st.composite
def anything(draw: st.DrawFn) -> Case:
    """A mapping of an Einsum whose ranks, the output's too, are sums of any dimensions, of either sign."""
    dims = ("P", "R", "Q")
    coefficients = st.sampled_from((1, 1, 1, 2, 3, -1))
    ranks = st.lists(st.sampled_from(dims), min_size=1, max_size=3, unique=True).flatmap(
        lambda of: st.tuples(*(coefficients.map(lambda c, d=d: (d, c)) for d in of))
    )
    tensors = st.lists(ranks, min_size=1, max_size=2)
    spaces = tuple(
        space(name, *(rank(*r) for r in draw(tensors)), read_write=name == "O") for name in ("W", "I", "O")
    )
    task = problem(spaces, **{dim: draw(st.sampled_from((1, 2, 3, 4, 6))) for dim in dims})
    architecture = Architecture(
        "a", (DRAM, Fanout("array", 6), BUFFER, Fanout("more", 2), StorageLevel("registers")), Compute("mac")
    )
    rules = (TemporalRules(),) * 3, (SpatialRules(),) * 2
    mapspace = Mapspace(task, architecture, *rules, (KeepRules(frozenset("WIO")), KeepRules(), KeepRules()))
    random = Random(draw(st.integers(0, 2**32)))
    return mapspace, random_mapping(random, task, architecture)


@st.composite
def remainders(draw: st.DrawFn) -> Case:
    """A mapping with remainders, of any of these Einsums, onto levels with blocks and bandwidths."""
    random = Random(draw(st.integers(0, 2**32)))
    if random.random() < 0.3:
        task = draw(anything())[0].problem
    else:
        einsum = random.choice(EINSUMS)(random)
        dims = sorted({dim for s in einsum for dim in s.dims})
        task = problem(einsum, **{dim: random.choice((1, 2, 3, 5, 7, 9, 13)) for dim in dims})
    assume(task.computes <= 200)
    architecture = packed(random, task, random_architecture(random, task))
    assume(not any(level.no_coalesce for level in architecture.levels))
    mapping = random_mapping(random, task, architecture, ANY)
    assume(build_nest(task, architecture, mapping).remainder_dims)
    mapspace = free_mapspace(task, *architecture.nodes)
    return replace(mapspace, architecture=architecture, factors=ANY), mapping


@settings(max_examples=45, suppress_health_check=list(HealthCheck))
@given(st.one_of(mapped(), windows(), anything(), anything()))
def test_execution_bears_the_cost_model_out(case: Case):
    _assert_executed(*case)


@settings(max_examples=45, suppress_health_check=list(HealthCheck))
@given(remainders())
def test_execution_bears_the_cost_model_out_with_remainders(case: Case):
    _assert_executed(*case)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.one_of(mapped(), windows(), anything(), remainders()), st.randoms(use_true_random=False))
def test_execution_bears_the_cost_model_out_where_first_values_are_given(case: Case, random: Random):
    mapspace, mapping = case
    _assert_executed(replace(mapspace, problem=with_first_values(random, mapspace.problem)), mapping)


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_execution_bears_the_cost_model_out_where_windows_with_remainders_meet(seed: int):
    """Two dimensions of a window are unrolled by one fanout, so that children may want equal tiles."""
    random = Random(seed)
    window = rank(("P", random.choice((1, 1, 2))), ("R", random.choice((1, 1, 2))))
    output = random.choice(("P", "P", rank("P", ("R", random.choice((1, -1))))))
    spaces = (space("W", "K", "R"), space("I", window), space("O", "K", output, read_write=True))
    task = problem(spaces, K=2, P=random.choice((3, 5)), R=random.choice((2, 3)))
    inner = random.choice(((), (Fanout("more", 4),)))
    mapspace = replace(free_mapspace(task, DRAM, Fanout("array", 9), BUFFER, *inner), factors=ANY)
    unrolled = [
        mapping
        for mapping in islice(enumerate_mappings(mapspace), 3000)
        if {"P", "R"} <= {loop.dim for loop in mapping.nodes[1].spatial}
        and build_nest(task, mapspace.architecture, mapping).remainder_dims
    ]
    assume(unrolled)
    _assert_executed(mapspace, random.choice(unrolled))


@pytest.mark.parametrize("seed", range(12))
def test_execution_bears_out_what_passes_tolls(seed: int):
    random = Random(seed)
    while True:
        mapspace = with_tolls(random, random_mapspace(random, 200))
        passing = any(level.no_coalesce for level in mapspace.architecture.levels)
        mappings = [] if passing else list(islice(enumerate_mappings(mapspace), 500))
        if mappings and mapspace.problem.computes <= 300:
            break
    for mapping in random.sample(mappings, min(3, len(mappings))):
        _assert_executed(mapspace, mapping)
        _assert_executed(replace(mapspace, problem=with_first_values(random, mapspace.problem)), mapping)
    wider = free_mapspace(mapspace.problem, *mapspace.architecture.nodes)
    uneven = random_mapping(random, wider.problem, wider.architecture, ANY)
    kept = zip(uneven.nodes, wider.architecture.nodes, strict=True)
    nodes = (
        replace(own, keep=frozenset(dict(node.tolls)), temporal=own.temporal)
        if isinstance(node, StorageLevel) and node.tolls
        else own
        for own, node in kept
    )
    _assert_executed(replace(wider, factors=ANY), Mapping(tuple(nodes)))


@pytest.mark.parametrize("kept", ["IW", "IOW"])
def test_what_an_idle_instance_holds_below_a_level_without_reuse_goes_back(kept):
    # P: 3 = 2 rounds of 2; the second instance has nothing to do in the last one.
    task = problem((space("W", "P"), space("I", "P"), space("O", "R", read_write=True)), P=3, R=1)
    pairs = (
        (DRAM, storage("P2", "WIO")),
        (Fanout("array", 2), across("P2")),
        (replace(BUFFER, no_temporal_reuse=frozenset("O")), storage("", "O")),
        (StorageLevel("registers"), storage("", kept)),
    )
    result, cost = run(task, *pairs), evaluate(task, *nest(*pairs))
    assert result.outputs["O"] == reference_result(task, operands_of(task), task.dataspace("O"))
    for level in ("dram", "buffer"):
        seen, counted = result.counts[level, "O"], cost.level(level).dataspace("O")
        assert (seen.reads, seen.updates) == (counted.total_reads, counted.total_updates)


def test_children_that_take_part_in_one_round_share_what_they_bring_anew():
    # Outputs 0 and 1 on the children, then 2 on the first ones alone: when K advances, these come back from
    # words 2 and 3 to 0 and 1, and the others, which have a single tile each, fetch 1 and 2 anew.
    spaces = (space("W", "K", "R"), space("I", rank("P", "R")), space("O", "K", "P", read_write=True))
    pairs = (
        (DRAM, storage("P2 K2", "WIO")),
        (Fanout("array", 4), across("P2 R2")),
        (BUFFER, storage("", "WIO")),
    )
    task = problem(spaces, K=2, P=3, R=2)
    assert run(task, *pairs).counts["dram", "I"].reads == 3 + 2 + 3 + 2
    assert evaluate(task, *nest(*pairs)).level("dram").dataspace("I").reads == 10


def _assert_executed(mapspace: Mapspace, mapping: Mapping) -> None:
    task, architecture = mapspace.problem, mapspace.architecture
    operands = operands_of(task)
    result = execute(task, architecture, mapping, operands)
    cost = evaluate(task, architecture, mapping)
    for s in task.dataspaces:
        if s.read_write:
            assert (result.outputs[s.name] == reference_result(task, operands, s)).all()
    assert result.steps == cost.compute_cycles
    assert sum(len(level.dataspaces) for level in cost.levels) == len(result.counts)
    for position, level, counted in zip(
        architecture.storage_indices, architecture.levels, cost.levels, strict=True
    ):
        for of_space in counted.dataspaces:
            seen = result.counts[level.name, of_space.dataspace]
            assert seen.instances == counted.instances
            assert seen.tile_words == of_space.tile_words
            assert seen.reads == of_space.total_reads
            assert seen.fills == of_space.total_fills
            assert seen.updates == of_space.total_updates
            assert (of_space.reads, of_space.fills, of_space.updates) in seen.of_instances
            available = architecture.instances_above(position)
            assert _energy(level, of_space.dataspace, available, seen) == of_space.energy
        assert _cycles(level, result) == counted.cycles


def _energy(level: StorageLevel, name: str, available: int, seen: AccessCounts) -> int:
    """Energy of what was seen, instance by instance: whole blocks, of the busiest ones in clusters."""
    packing, price = level.packing_of(name), level.energy
    energies = [
        sum(
            -(-words // packing.block_size) * each
            for words, each in zip(words, (price.read, price.fill, price.update), strict=True)
        )
        for words in seen.of_instances
    ]
    paying = min(seen.instances, max(1, available // level.cluster_size))
    return sum(sorted(energies, reverse=True)[:paying]) * packing.accesses_per_block


def _cycles(level: StorageLevel, result: Execution) -> int:
    """Cycles that the busiest instance needs for what was seen."""
    needed = result.steps
    names = [name for at, name in result.counts if at == level.name]
    for words in zip(*(result.counts[level.name, name].of_instances for name in names), strict=True):
        scaled = [
            [count * level.scale(name) for count in own] for name, own in zip(names, words, strict=True)
        ]
        reads, fills, updates = (sum(column) for column in zip(*scaled, strict=True))
        writes = fills + updates
        for amount, rate in (
            (reads, level.read_bandwidth),
            (writes, level.write_bandwidth),
            (reads + writes, level.shared_bandwidth),
        ):
            needed = needed if rate is None else max(needed, math.ceil(amount / rate))
    return needed
