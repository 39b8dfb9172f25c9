"""Fused mappings whose nests have remainders: against complete enumeration, and against each Einsum alone."""

import math
from dataclasses import replace
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.extents import ANY
from model.fused.cascade import Cascade
from solver.fusion import FusionLimits, fuse_cascade
from solver.result import Options, Status, Termination
from solver.search.mapper import map_by_bounds
from tests.fused_bruteforce import BruteForce
from tests.model.fused.agreement import disagreements
from tests.model.fused.random_cascades import SHAPES, cascade_of

UNLIKE = FusionLimits(equal_parts=False)
"""Shared loops may have remainders."""


def with_remainders(cascade: Cascade) -> Cascade:
    """Allow any factors in a cascade."""
    mapspaces = (replace(einsum.mapspace, factors=ANY) for einsum in cascade.einsums)
    pairs = zip(cascade.einsums, mapspaces, strict=True)
    return replace(cascade, einsums=tuple(replace(einsum, mapspace=own) for einsum, own in pairs))


def drawn(name: str, bounds: dict[str, int], seed: int) -> Cascade:
    """A cascade whose fused mappings can all be looked at; with an array of compute units, or without."""
    random = Random(seed)
    main = AccessEnergy(random.choice((5, 30, 90)), 0, random.choice((10, 80)), random.choice((0, 2)))
    nodes: tuple[StorageLevel | Fanout, ...] = (
        StorageLevel("Main", energy=main, shared_bandwidth=random.choice((None, 1))),
        StorageLevel(
            "GLB",
            size_words=random.choice((6, 8, 11, 14)),
            energy=AccessEnergy(*(random.randint(1, 9) for _ in range(3))),
            read_bandwidth=random.choice((None, 2)),
            network_fill_latency=random.choice((0, 3)),
        ),
    )
    if random.random() < 0.6:
        nodes += (Fanout("PE", random.choice((2, 3, 4))),)
    architecture = Architecture("small", nodes, Compute("MAC", energy=1))
    return with_remainders(cascade_of(SHAPES[name], bounds, architecture, random.choice((1, 3))))


@pytest.mark.parametrize(
    "name, bounds, seed, objective, in_body",
    [
        ("attention", {"m": 3, "p": 3, "e": 2, "f": 1}, 9, "energy", True),
        ("products", {"m": 7, "a": 2, "b": 2, "c": 1}, 4, "edp", True),
        ("products", {"m": 5, "a": 2, "b": 2, "c": 2}, 1, "latency", False),
    ],
)
def test_the_search_finds_the_optimum(
    name: str, bounds: dict[str, int], seed: int, objective: str, in_body: bool
):
    """Each of these is better than what has no remainders; shared loops have none."""
    cascade = drawn(name, bounds, seed)
    optimum = BruteForce(cascade, even=True, divided=True, remainders=True).optima((objective,))[objective]
    result = fuse_cascade(cascade, objective, Options(time_limit_s=math.inf))
    assert (result.status, result.termination) == (Status.OPTIMAL, Termination.PROVEN)
    assert result.mapping is not None
    assert result.value == result.bound == optimum.value
    assert result.perfect_factors is not None
    assert result.value < (result.perfect_factors.value or 0)
    assert any(path.loops for path in result.mapping.paths) is in_body
    for mapping in (result.mapping, optimum.mapping):
        assert not disagreements(cascade, mapping, seed=0)


@pytest.mark.parametrize(
    "name, bounds, seed, objective",
    [
        ("products", {"m": 3, "a": 2, "b": 2, "c": 1}, 8, "latency"),
        ("window", {"q": 3, "r": 2, "p": 4, "c": 1}, 7, "energy"),
    ],
)
def test_shared_loops_with_remainders_against_enumeration(
    name: str, bounds: dict[str, int], seed: int, objective: str
):
    cascade = drawn(name, bounds, seed)
    brute = BruteForce(cascade, even=True, divided=True, remainders=True, ragged=True)
    (optimum,) = brute.optima((objective,)).values()
    result = fuse_cascade(cascade, objective, Options(time_limit_s=math.inf), UNLIKE)
    assert (result.value, result.bound) == (optimum.value, optimum.value)
    assert not disagreements(cascade, optimum.mapping, seed=0)


def test_seven_rows_in_unlike_parts():
    """Three rows share the weights, and so do the next three; rows one by one do not (docs/fusion.md)."""
    nodes = (
        StorageLevel("Main", energy=AccessEnergy(200, 0, 200)),
        StorageLevel("GLB", size_words=9, energy=AccessEnergy(2, 2, 2)),
    )
    architecture = Architecture("small", nodes, Compute("MAC", energy=1))
    cascade = with_remainders(cascade_of(SHAPES["products"], {"m": 7, "a": 2, "b": 2, "c": 2}, architecture))
    result = fuse_cascade(cascade, "energy", Options(time_limit_s=math.inf))
    assert (result.status, result.value, result.equal_parts) == (Status.OPTIMAL, 12428, None)
    assert "shared loops have no remainders" in result.restrictions
    result = fuse_cascade(cascade, "energy", Options(time_limit_s=math.inf), UNLIKE)
    assert result.mapping is not None
    assert (result.status, result.value) == (Status.OPTIMAL, 10892)
    assert [loop.trips for loop in result.mapping.paths[0].loops] == [3]
    assert result.equal_parts is not None
    assert (result.equal_parts.status, result.equal_parts.value) == (Status.OPTIMAL, 12428)
    assert not disagreements(cascade, result.mapping, seed=0)


def test_einsums_alone_are_mapped_as_without_fusion():
    """197 rows leave remainders on 16 units."""
    buffer = StorageLevel("GLB", size_words=600, energy=AccessEnergy(2, 2, 2))
    main = StorageLevel("Main", energy=AccessEnergy(90, 90, 90))
    architecture = Architecture("small", (main, buffer, Fanout("PE", 16)), Compute("MAC", energy=1))
    bounds = {"m": 197, "a": 4, "b": 3, "c": 2}
    cascade = with_remainders(cascade_of(SHAPES["products"], bounds, architecture))
    alone = FusionLimits(max_loops=0, no_fuse=frozenset("T"))
    for objective in ("energy", "latency"):
        each = [
            map_by_bounds(e.mapspace, Options(objectives=(objective,), time_limit_s=math.inf))
            for e in cascade.einsums
        ]
        result = fuse_cascade(cascade, objective, Options(time_limit_s=math.inf), alone)
        assert result.status is Status.OPTIMAL
        assert result.value == sum(own.value or 0 for own in each)
    assert result.perfect_factors is not None
    assert result.value < (result.perfect_factors.value or 0)


def test_windows_have_a_bound():
    cascade = drawn("window", {"q": 3, "r": 2, "p": 4, "c": 1}, 1)
    optimum = BruteForce(cascade, even=True, divided=True, remainders=True).optima(("energy",))["energy"]
    result = fuse_cascade(cascade, "energy", Options(time_limit_s=math.inf))
    assert result.bound is not None
    assert result.value is not None
    assert result.bound <= optimum.value <= result.value


def test_without_time_for_remainders_the_bound_is_one_of_all():
    cascade = drawn("products", {"m": 7, "a": 2, "b": 2, "c": 1}, 4)
    asked = iter(range(1000))
    result = fuse_cascade(cascade, "edp", limits=UNLIKE, should_stop=lambda: next(asked) > 600)
    assert (result.status, result.termination) == (Status.FEASIBLE, Termination.INTERRUPTED)
    assert result.bound is not None
    assert result.bound <= 66365 <= (result.value or 0)
