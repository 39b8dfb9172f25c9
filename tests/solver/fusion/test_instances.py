"""Buffers that exist several times, and those that have to be filled, against complete enumeration."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.fused.cascade import Cascade
from model.mapspace import SpatialRules
from solver.fusion import fuse_cascade
from solver.result import Status
from tests.fused_bruteforce import BruteForce, Optimum
from tests.model.fused.agreement import disagreements
from tests.model.fused.random_cascades import SHAPES, cascade_of
from tests.slow import slow
from tests.solver.fusion.test_optimum import by_place, uneven

BOUNDS = {
    "attention": {"m": 2, "p": 2, "e": 1, "f": 1},
    "few products": {"m": 2, "a": 1, "b": 2, "c": 1},
    "window": {"q": 2, "r": 2, "p": 3, "c": 2},
    "residual": {"q": 2, "r": 2, "p": 3},
}


def on_cores(
    random: Random, name: str, cores: int, least: Fraction = Fraction(0), inside: bool = False
) -> Cascade:
    """A cascade on some buffers of which a share has to be used, perhaps with registers inside."""
    leaks = () if name in ("window", "residual") else (0, 2)  # bandwidths leave a gap where windows slide
    main = StorageLevel(
        "Main",
        energy=AccessEnergy(90, 0, 80, random.choice(leaks or (0,))),
        shared_bandwidth=random.choice((None, 1)),
    )
    buffer = StorageLevel(
        "GLB",
        size_words=random.choice((5, 6, 8)),
        energy=AccessEnergy(*(random.randint(1, 30 if inside else 9) for _ in range(3))),
        read_bandwidth=random.choice((None, 2)),
        min_utilization=least,
        network_fill_latency=random.choice((0, 3)),
    )
    registers = StorageLevel("RF", size_words=random.choice((4, 5, 8)), energy=AccessEnergy(1, 2, 1))
    outside = (Fanout("core", cores),) if cores > 1 else ()
    nodes = (main, *outside, buffer, *([replace(registers, min_utilization=least)] if inside else []))
    architecture = Architecture("cores", nodes, Compute("MAC", energy=1))
    return cascade_of(SHAPES[name.split()[-1]], BOUNDS[name], architecture, random.choice((1, 3)))


def check(cascade: Cascade, objective: str, even: bool = True) -> Optimum:
    """Search, and compare with the enumeration."""
    (optimum,) = BruteForce(cascade, even=even, divided=True).optima((objective,)).values()
    result = fuse_cascade(cascade, objective)
    assert result.status is Status.OPTIMAL
    assert result.value == result.bound == optimum.value
    assert result.mapping is not None
    return optimum


@pytest.mark.parametrize(
    "name, seed, cores, inside, objective",
    [
        ("few products", 1, 4, False, "edp"),
        ("few products", 1, 2, True, "energy"),
        slow("attention", 2, 2, False, "energy"),
        slow("window", 5, 2, False, "energy"),
        ("residual", 1, 2, False, "energy"),
    ],
)
def test_the_optimum_on_several_buffers(name: str, seed: int, cores: int, inside: bool, objective: str):
    cascade = on_cores(Random(f"{name} {seed}"), name, cores, inside=inside)
    optimum = check(cascade, objective)
    assert optimum.mapping.stored
    assert not disagreements(cascade, optimum.mapping, seed=0)


def test_several_buffers_with_several_places():
    check(uneven(on_cores(Random("uneven"), "few products", 2)), "energy", even=False)
    check(by_place(on_cores(Random("by place"), "few products", 2)), "edp", even=False)


def ruled(cascade: Cascade, *rules: SpatialRules, mesh: tuple[int, int]) -> Cascade:
    """Add rules on each Einsum's spatial loops, and cores on a mesh."""
    (cores,) = cascade.einsums[0].mapspace.architecture.fanouts
    cores, einsums = replace(cores, mesh_x=mesh[0], mesh_y=mesh[1]), []
    for einsum, own in zip(cascade.einsums, rules, strict=True):
        main, _, *inside = einsum.mapspace.architecture.nodes
        architecture = replace(einsum.mapspace.architecture, nodes=(main, cores, *inside))
        einsums.append(
            replace(einsum, mapspace=replace(einsum.mapspace, architecture=architecture, spatial=(own,)))
        )
    return replace(cascade, einsums=tuple(einsums))


FREE, M_INSIDE, B_INSIDE = SpatialRules(), SpatialRules(inner=("m",)), SpatialRules(outer=("m",))
M_ALONG_X, B_ALONG_X = (SpatialRules(inner=(dim,), split=1) for dim in "mb")


@pytest.mark.parametrize(
    "producer, consumer, mesh, value",
    [
        (B_INSIDE, FREE, (4, 1), 2328),
        (M_INSIDE, B_INSIDE, (4, 1), 2556),  # one loop only spreads T, over m or over b
        (M_ALONG_X, M_ALONG_X, (2, 2), 2328),
        (M_ALONG_X, B_ALONG_X, (2, 2), 3234),  # none does
    ],
)
def test_rules_order_spatial_loops(
    producer: SpatialRules, consumer: SpatialRules, mesh: tuple[int, int], value: int
):
    """A tensor is spread in an order and along axes that the rules of producer and consumer allow."""
    cascade = ruled(on_cores(Random(0), "few products", 4), producer, consumer, mesh=mesh)
    if mesh == (4, 1):  # others are not enumerated
        assert check(cascade, "energy").value == value
    else:
        assert fuse_cascade(cascade, "energy").bound == value


@pytest.mark.parametrize(
    "name, seed, share, cores, inside, free",
    [
        ("few products", 0, Fraction(3, 4), 1, False, 3084),
        ("window", 3, Fraction(3, 4), 1, False, 3972),
        ("few products", 1, Fraction(3, 4), 2, False, 2592),
        ("few products", 1, Fraction(3, 4), 1, True, 2238),
    ],
)
def test_buffers_are_filled(name: str, seed: int, share: Fraction, cores: int, inside: bool, free: int):
    """That costs more than the optimum without least utilization, which is `free`."""
    optimum = check(on_cores(Random(f"{name} {seed}"), name, cores, share, inside), "energy")
    assert optimum.value > free
