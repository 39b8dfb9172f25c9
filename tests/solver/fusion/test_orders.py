"""The search for fused mappings whose nests may have memories in any order, against complete enumeration."""

import math
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel
from model.counting import ACCELFORGE, EXACT
from model.fused.cascade import Cascade
from model.fused.cost import evaluate_fused
from model.mapspace import KeepRules
from model.orders import in_hardware_order
from solver.fusion import FusionLimits, NotSearchedError, fuse_cascade
from solver.fusion.edges import EdgeKind
from solver.fusion.least import EdgePricer
from solver.fusion.space import FusionSpace
from solver.result import Clock, Options, Status
from solver.search.orders import map_orders
from solver.search.path.floors import cost_floors
from tests.fused_orders import OrderedBruteForce, every_nest, ordered_cascade
from tests.model.fused.random_cascades import SHAPES, cascade_of
from tests.orders import priced, small_orders
from tests.slow import few, slow

OBJECTIVES = ("energy", "latency", "edp")
MOST = 700
"""Nests of a whole cascade that are enumerated."""


@cache
def drawn(name: str, number: int) -> tuple[Cascade, FusionLimits]:
    """A cascade with few enough nests, and where it may store tensors: not where they would be spread."""
    for seed in range(1000):
        cascade = ordered_cascade(Random(f"{name} {number} {seed}"), name)
        bounds = [dict(einsum.problem.bound) for einsum in cascade.einsums]
        pairs = zip(cascade.einsums, bounds, strict=True)
        nests = (nest for own in pairs for nest in every_nest(*own, {}, frozenset()))
        if sum(1 for _ in islice(nests, MOST + 1)) <= MOST:
            is_array = bool(cascade.einsums[0].mapspace.architecture.fanouts)
            return cascade, FusionLimits(memories=frozenset(["GLB"]) if is_array else None)
    raise AssertionError("no cascade")


def gaining(between: int = 2) -> tuple[Cascade, FusionLimits]:
    """Two products whose weights stay in registers while rows pass through the buffer outside of these."""
    main = StorageLevel("Main", energy=AccessEnergy(90, 0, 90))
    buffer = StorageLevel("GLB", 4, energy=AccessEnergy(3, 3, 3))
    registers = StorageLevel("RF", 4, energy=AccessEnergy(1, 1, 1))
    architecture = Architecture("small", (main, buffer, registers), Compute("MAC", energy=1))
    cascade = cascade_of(SHAPES["products"], {"m": 3, "a": 2, "b": between, "c": 2}, architecture)
    einsums = []
    for einsum, weights in zip(cascade.einsums, ("W", "V"), strict=True):
        every = frozenset(access.dataspace for access in einsum.accesses)
        alone = frozenset([weights])
        keep = KeepRules(), KeepRules(every - alone, alone), KeepRules(alone, every - alone)
        mapspace = replace(einsum.mapspace, keep=keep, counting=ACCELFORGE, free_order=frozenset(["RF"]))
        einsums.append(replace(einsum, mapspace=mapspace))
    return replace(cascade, einsums=tuple(einsums)), FusionLimits()


@pytest.mark.parametrize(
    ("name", "number", "objectives"),
    [
        ("", 0, ("energy", "edp")),
        *(slow("products", number, OBJECTIVES) for number in range(12)),
        slow("attention", 0, OBJECTIVES),
        slow("three", 0, OBJECTIVES),
    ],
)
def test_the_search_finds_the_optimum(name: str, number: int, objectives: tuple[str, ...]):
    cascade, limits = drawn(name, number) if name else gaining(between=1)
    optima = OrderedBruteForce(cascade, divided=True, memories=limits.memories).optima()
    for objective in objectives:
        result = fuse_cascade(cascade, objective, limits=limits)
        if objective not in optima:
            assert result.status is Status.INFEASIBLE
            continue
        assert result.status is Status.OPTIMAL
        assert result.value == result.bound == optima[objective].value
        assert result.mapping is not None
        assert evaluate_fused(cascade, result.mapping).value(objective) == result.value
        assert any("memories lie in any order" in text for text in result.restrictions)


def test_an_order_of_its_own_may_be_better_and_a_stop_leaves_a_bound():
    cascade, limits = gaining()
    result = fuse_cascade(cascade, "energy", limits=limits)
    assert any(nest.order for path in result.mapping.paths for nest in path.leaf.nests)
    einsums = (replace(e, mapspace=replace(e.mapspace, free_order=frozenset())) for e in cascade.einsums)
    hardware = fuse_cascade(replace(cascade, einsums=tuple(einsums)), "energy", limits=limits)
    assert hardware.status is Status.OPTIMAL
    assert hardware.value > result.value
    left = iter(range(300))
    stopped = fuse_cascade(cascade, "energy", limits=limits, should_stop=lambda: next(left, None) is None)
    assert stopped.bound <= result.value <= (stopped.value or result.value)


def test_other_counting_rules_are_refused():
    cascade, _ = gaining()
    einsums = (replace(e, mapspace=replace(e.mapspace, counting=EXACT)) for e in cascade.einsums)
    with pytest.raises(NotSearchedError, match="are not searched in cascades by the exact rule"):
        fuse_cascade(replace(cascade, einsums=tuple(einsums)), "energy")


@pytest.mark.parametrize("seed", few(range(60), 4))
def test_floors_in_the_order_of_the_hardware_hold_in_any_order(seed: int):
    mapspace = small_orders(Random(f"floor{seed}"), 1200)
    every = priced(mapspace)
    energy, cycles = cost_floors(in_hardware_order(mapspace), lambda: False)
    for own in every:
        assert energy * (1 - 1e-9) <= own[0]
        assert cycles * (1 - 1e-9) <= own[1]


def test_it_knows_the_least_edp_of_an_einsum_alone():
    cascade, limits = gaining()
    space = FusionSpace(cascade, limits)
    pricer = EdgePricer(space, "edp", Options(), Clock(None))
    alone = map_orders(cascade.einsums[0].mapspace, Options(objectives=("edp",)))
    point = pricer.least_product(pricer.edge(EdgeKind(0)), space.memory.usable_words, math.inf)
    assert point is not None
    assert point.energy * point.cycles == alone.value
