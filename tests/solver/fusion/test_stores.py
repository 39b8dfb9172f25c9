"""Tensors that are stored in memories farther in, against complete enumeration."""

from dataclasses import replace
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.fused.cascade import Cascade
from model.mapspace import KeepRules
from solver.fusion import FusedResult, FusionLimits, LimitError, fuse_cascade
from solver.result import Status
from tests.fused_bruteforce import BruteForce
from tests.model.fused.agreement import disagreements
from tests.model.fused.random_cascades import SHAPES, cascade_of
from tests.slow import few, slow
from tests.solver.fusion.test_optimum import by_place

SIZES = {"attention": (2, 2, 2, 3), "skip": (2, 2)}


def deep(random: Random, name: str, array: int = 0) -> Cascade:
    """A cascade on an outermost memory, a buffer, and registers, once or in an array."""
    letters = sorted({char for text in SHAPES[name] for char in text if char.islower()})
    bounds = {dim: random.choice(SIZES.get(name, (2, 2, 3))) for dim in letters}
    if name == "projections":
        bounds["p"] = bounds["m"]
    if name == "skip":
        bounds["d"] = bounds["b"]
    if name == "residual":
        bounds |= {"r": 2, "p": bounds["q"] + 1}
    main = StorageLevel(
        "Main",
        energy=AccessEnergy(random.choice((9, 90)), 0, 80, random.choice((0, 2))),
        shared_bandwidth=random.choice((None, 1)),
    )
    buffer = StorageLevel(
        "GLB",
        size_words=random.choice((8, 14, 24)),
        energy=AccessEnergy(*(random.randint(6, 30) for _ in range(3))),
        read_bandwidth=random.choice((None, 2)),
        network_fill_latency=random.choice((0, 0, 3)),
    )
    registers = StorageLevel(
        "RF",
        size_words=random.choice((3, 5, 8, 12)),
        energy=AccessEnergy(*(random.randint(1, 4) for _ in range(3))),
    )
    fanouts = (Fanout("PE", array),) if array else ()
    architecture = Architecture("deep", (main, buffer, *fanouts, registers), Compute("MAC", energy=1))
    return cascade_of(SHAPES[name], bounds, architecture, random.choice((1, 1, 3)))


def stored_inside(result: FusedResult) -> set[str]:
    """Tensors that a mapping stores in the registers."""
    assert result.mapping is not None
    return {stored.tensor for stored in result.mapping.stored if stored.memory == "RF"}


@pytest.mark.parametrize(
    "name, seed, array, objective",
    [
        ("residual", 0, 0, "energy"),
        ("products", 10, 4, "energy"),
        slow("skip", 2, 0, "edp"),
        slow("products", 11, 0, "latency"),
        slow("projections", 3, 2, "edp"),
        slow("attention", 4, 2, "energy"),
    ],
)
def test_the_optimum_with_stores_in_registers(name: str, seed: int, array: int, objective: str):
    cascade = deep(Random(f"{name} {seed}"), name, array)
    (optimum,) = BruteForce(cascade, even=True, divided=True).optima((objective,)).values()
    result = fuse_cascade(cascade, objective)
    assert result.status is Status.OPTIMAL
    assert result.value == result.bound == optimum.value
    assert result.mapping is not None
    assert not disagreements(cascade, result.mapping, seed=0)
    assert objective == "latency" or stored_inside(result)


@pytest.mark.parametrize("name, seed, array", few([("products", 12, 2), ("products", 11, 0)]))
def test_the_optimum_with_stores_in_registers_by_accelforges_rule(name: str, seed: int, array: int):
    cascade = by_place(only_tensors(deep(Random(f"{name} {seed}"), name, array)))
    (optimum,) = BruteForce(cascade).optima(("energy",)).values()
    result = fuse_cascade(cascade, "energy")
    assert result.value == result.bound == optimum.value
    assert stored_inside(result)


def only_tensors(cascade: Cascade) -> Cascade:
    """Add registers that keep only tensors between Einsums: one place suffices for these."""
    einsums = []
    for einsum in cascade.einsums:
        others = {a.dataspace for a in einsum.accesses if a.tensor not in cascade.intermediates}
        rules = (KeepRules(), KeepRules(), KeepRules(bypass=frozenset(others)))
        einsums.append(replace(einsum, mapspace=replace(einsum.mapspace, keep=rules)))
    return replace(cascade, einsums=tuple(einsums))


def test_memories_are_named():
    cascade = deep(Random("products 10"), "products", 4)
    values = {}
    for memories in (None, ("GLB",), ("RF",)):
        limits = FusionLimits(memories=None if memories is None else frozenset(memories))
        result = fuse_cascade(cascade, "energy", limits=limits)
        values[memories] = result.value
        assert bool(stored_inside(result)) == (memories != ("GLB",))
    assert values[None] == values["RF",] < values["GLB",]


def test_rules_say_what_a_memory_may_store():
    """Nothing passes a memory that has to keep it, nor waits where nothing may be kept."""
    cascade = deep(Random("products 10"), "products", 4)

    def kept(*rules: KeepRules) -> Cascade:
        first, *others = cascade.einsums
        einsum = replace(first, mapspace=replace(first.mapspace, keep=rules))
        return replace(cascade, einsums=(einsum, *others))

    everything, tensor = KeepRules(), frozenset("T")
    for rules in (
        (everything, KeepRules(keep=tensor), everything),
        (everything, everything, KeepRules(bypass=tensor)),
    ):
        assert not stored_inside(fuse_cascade(kept(*rules), "energy"))
    with pytest.raises(LimitError, match="'Main' is the outermost memory"):
        fuse_cascade(cascade, "energy", limits=FusionLimits(memories=frozenset(["Main"])))
