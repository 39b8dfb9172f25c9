"""Buffers that exist several times, and those that have to be filled, against complete enumeration."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.fused.cascade import Cascade
from solver.fusion import fuse_cascade
from solver.result import Status
from tests.fused_bruteforce import BruteForce, Optimum
from tests.model.fused.agreement import disagreements
from tests.model.fused.random_cascades import SHAPES, cascade_of
from tests.solver.fusion.test_optimum import by_place, uneven

BOUNDS = {
    "products": {"m": 4, "a": 1, "b": 2, "c": 2},
    "attention": {"m": 2, "p": 2, "e": 1, "f": 1},
    "few products": {"m": 2, "a": 1, "b": 2, "c": 1},
    "window": {"q": 2, "r": 2, "p": 3, "c": 2},
    "residual": {"q": 4, "r": 2, "p": 5},
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
        ("products", 0, 2, False, "energy"),
        ("products", 1, 4, False, "edp"),
        ("attention", 2, 2, False, "energy"),
        ("attention", 4, 2, True, "energy"),
        ("window", 5, 2, False, "energy"),
        ("residual", 6, 2, False, "latency"),
    ],
)
def test_the_optimum_on_several_buffers(name: str, seed: int, cores: int, inside: bool, objective: str):
    cascade = on_cores(Random(f"{name} {seed}"), name, cores, inside=inside)
    optimum = check(cascade, objective)
    assert optimum.mapping.stored
    assert not disagreements(cascade, optimum.mapping, seed=0)


def test_several_buffers_with_several_places():
    check(uneven(on_cores(Random("uneven"), "products", 2)), "energy", even=False)
    check(by_place(on_cores(Random("by place"), "products", 2)), "edp", even=False)


@pytest.mark.parametrize(
    "name, seed, share, cores, inside, objective",
    [
        ("products", 0, Fraction(3, 4), 1, False, "energy"),
        ("window", 3, Fraction(3, 4), 1, False, "energy"),
        ("few products", 4, Fraction(1, 2), 2, False, "energy"),
        ("few products", 5, Fraction(1, 2), 1, True, "edp"),
    ],
)
def test_buffers_are_filled(name: str, seed: int, share: Fraction, cores: int, inside: bool, objective: str):
    cascade = on_cores(Random(f"{name} {seed}"), name, cores, share, inside)
    optimum = check(cascade, objective)
    free = BruteForce(
        on_cores(Random(f"{name} {seed}"), name, cores, Fraction(0), inside), even=True, divided=True
    )
    assert optimum.value >= free.optima((objective,))[objective].value
