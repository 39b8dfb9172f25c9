"""The execution of random fused mappings against the cost model, and against the unfused cascade."""

from dataclasses import replace
from random import Random

import pytest

from model.architecture import with_places
from model.cost.plain import evaluate
from model.counting import ACCELFORGE, EXACT, Counting
from model.fused.cascade import Cascade
from model.fused.check import FusedMappingError
from model.fused.cost import evaluate_fused
from model.fused.mapping import FusedMapping, LeafPath
from model.fused.visits import Visits, path_dims
from tests.model.fused.agreement import disagreements
from tests.model.fused.random_cascades import (
    COPIES,
    ODD_SIZES,
    SHAPES,
    in_other_orders,
    random_cascade,
    random_fused,
    with_tolls,
)
from tests.slow import few


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("seed", few(range(5), 2))
def test_cost_and_results_agree_with_the_execution(name: str, seed: int):
    random = Random(f"{name} {seed}")
    cascade = random_cascade(random, name)
    mapping = next(found for found in (random_fused(random, cascade) for _ in range(100)) if found)
    assert not disagreements(cascade, mapping, seed)


@pytest.mark.parametrize("name", ["copied input", "copy between", "turned copy", "copied output"])
@pytest.mark.parametrize("seed", few(range(4)))
def test_copies_among_instances(name: str, seed: int):
    """Tensors that copies read and write are spread over buffers or registers; perhaps with tolls."""
    random, seen = Random(f"instances {name} {seed}"), 0
    while seen < 3:
        cascade = random_cascade(random, name, cores=True)
        cascade = with_tolls(random, cascade) if random.random() < 0.3 else cascade
        mapping = random_fused(random, cascade)
        if mapping is None:
            continue
        copies = (einsum.name for einsum in cascade.einsums if einsum.is_copy)
        costs = map(evaluate_fused(cascade, mapping).einsum, copies)
        seen += any(memory.instances > 1 for cost in costs for memory in cost.memories)
        assert not disagreements(cascade, mapping, seed)


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "copy"])
@pytest.mark.parametrize("seed", few(range(4)))
def test_memories_in_orders_of_the_nests(name: str, seed: int):
    random = Random(f"orders {name} {seed}")
    seen = 0
    for _ in range(200):
        cascade = random_cascade(random, name)
        mapping = random_fused(random, cascade, shared=0)
        if mapping is None or seen == 3:
            continue
        mapping = in_other_orders(random, cascade, mapping)
        try:
            evaluate_fused(cascade, mapping)
        except FusedMappingError:
            continue  # tiles in pieces, or a tensor's own memories in another order
        seen += _is_out_of_order(cascade, mapping)
        assert not disagreements(cascade, mapping, seed)
    assert seen == 3


def _is_out_of_order(cascade: Cascade, mapping: FusedMapping) -> bool:
    names = [level.name for level in cascade.einsums[0].mapspace.architecture.levels]
    orders = [nest.order or () for path in mapping.paths for nest in path.leaf.nests]
    return any(sorted(own, key=names.index) != list(own) for own in orders)


@pytest.mark.parametrize("name", [*SHAPES, *COPIES, "copied window"])
@pytest.mark.parametrize("seed", few(range(2)))
def test_tolls(name: str, seed: int):
    """Anywhere, also where private loops have remainders and visits differ."""
    random = Random(f"tolls {name} {seed}")
    for remainders in (0, 0, 0.5):
        cascade = with_tolls(random, random_cascade(random, name))
        mapping = next(
            found for found in (random_fused(random, cascade, remainders) for _ in range(200)) if found
        )
        assert not disagreements(cascade, mapping, seed)


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "copy"])
@pytest.mark.parametrize("seed", range(2))
def test_remainders_of_private_loops(name: str, seed: int):
    random = Random(f"remainders {name} {seed}")
    cascades = (random_cascade(random, name) for _ in range(200))
    drawn = ((cascade, random_fused(random, cascade, remainders=0.5)) for cascade in cascades)
    cascade, mapping = next(own for own in drawn if own[1] and any(map(_has_remainders, own[1].paths)))
    assert not disagreements(cascade, mapping, seed)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("seed", few(range(3)))
def test_remainders_of_shared_loops(name: str, seed: int):
    """Perhaps of several over one rank; private loops may have some, too, and there may be tolls."""
    random = Random(f"shared {name} {seed}")
    for _ in range(3):
        cascades = (random_cascade(random, name, ODD_SIZES) for _ in range(200))
        cascades = (with_tolls(random, own) if random.random() < 0.2 else own for own in cascades)
        drawn = ((own, random_fused(random, own, random.choice((0, 0.5)), shared=0.9)) for own in cascades)
        cascade, mapping = next(own for own in drawn if own[1] and _has_unlike_visits(*own))
        assert not disagreements(cascade, mapping, seed)


@pytest.mark.parametrize(
    "seed, counting", [*((seed, EXACT) for seed in range(6)), (1, ACCELFORGE), (2, ACCELFORGE)]
)
def test_nests_alone_cost_as_by_the_plain_model(seed: int, counting: Counting):
    random = Random(f"alone {seed}")
    cascade = with_tolls(random, random_cascade(random, "products"))
    drawn = (random_fused(random, cascade, 0.6 if counting == EXACT else 0) for _ in range(500))
    mapping = next(found for found in drawn if found and not found.bodies and not found.stored)
    leaves = tuple(replace(path.leaf, held=()) for path in mapping.paths)
    cost = evaluate_fused(cascade, FusedMapping(leaves), counting)
    for einsum, leaf in zip(cascade.einsums, leaves, strict=True):
        (nest,), own = leaf.nests, cost.einsum(einsum.name)
        architecture = with_places(einsum.mapspace.architecture, dict(nest.places))
        alone = evaluate(einsum.problem, architecture, nest.mapping, counting)
        assert (own.energy, own.cycles) == (alone.energy, alone.cycles)


def _has_unlike_visits(cascade: Cascade, mapping: FusedMapping) -> bool:
    visits = Visits(cascade, mapping)
    last = len(mapping.paths) - 1
    depth = len(mapping.paths[last].loops)
    return any(len(visits.extents(last, dim, depth)) > 1 for dim in path_dims(mapping.paths[last], depth))


def _has_remainders(path: LeafPath) -> bool:
    return any(nest.bounds is not None for nest in path.leaf.nests)
