"""Copies in bodies, and stored sources and copies, against complete enumeration."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.fused.cascade import Cascade
from model.fused.mapping import FusedMapping
from solver.fusion import FusionLimits, fuse_cascade
from solver.fusion.copies import Copies
from solver.result import Status
from tests.fused_bruteforce import BruteForce
from tests.model.fused.agreement import disagreements
from tests.model.fused.random_cascades import COPIED_WINDOWS, COPIES, cascade_of
from tests.slow import slow
from tests.solver.fusion.test_optimum import by_place

HARDWARE = Architecture(
    "two",
    (
        StorageLevel("Main", energy=AccessEnergy(90, 0, 80)),
        StorageLevel("GLB", size_words=7, energy=AccessEnergy(1, 1, 1)),
    ),
    Compute("MAC", energy=1),
)


def drawn(name: str, seed: int, inner: str) -> Cascade:
    """A cascade with a copy on two memories, or with registers, perhaps in an array."""
    random = Random(f"{name} {seed}")
    shape = (COPIES | COPIED_WINDOWS)[name]
    letters = sorted({char for text in shape for char in text if char.islower()})
    bounds = {dim: random.choice((2, 2, 3) if len(shape) > 3 or inner else (2, 3, 4)) for dim in letters}
    if name == "projections of a copy":
        bounds["p"] = bounds["m"]
    if name in COPIED_WINDOWS:
        bounds |= {"q": 4, "r": 2, "p": 5}
    main = StorageLevel(
        "Main",
        energy=AccessEnergy(random.choice((9, 90)), 0, 80, random.choice((0, 0, 2))),
        shared_bandwidth=random.choice((None, 1)),
    )
    buffer = StorageLevel(
        "GLB",
        size_words=random.choice((5, 6, 8, 11)),
        energy=AccessEnergy(*(random.randint(1, 9) for _ in range(3))),
        read_bandwidth=random.choice((None, 2)),
    )
    registers = StorageLevel(
        "RF", size_words=4, energy=AccessEnergy(*(random.randint(1, 4) for _ in range(3)))
    )
    nodes = {"": (), "registers": (registers,), "array": (Fanout("PE", 2), registers)}[inner]
    architecture = Architecture("small", (main, buffer, *nodes), Compute("MAC", energy=1))
    return cascade_of(shape, bounds, architecture, random.choice((1, 1, 3)))


@pytest.mark.parametrize(
    "name, seed, inner, objective",
    [
        ("copy between", 1, "", "latency"),
        ("copy and source", 1, "", "edp"),
        ("turned copy", 1, "array", "energy"),
        ("copied window", 0, "registers", "energy"),
        slow("copied input", 1, "", "edp"),
        slow("copy between", 0, "registers", "energy"),
        slow("copies of copies", 1, "", "energy"),
        slow("two copies", 2, "", "energy"),
        slow("copied output", 1, "registers", "energy"),
        slow("turned copy", 2, "registers", "edp"),
        slow("window beside", 1, "", "energy"),
        slow("window ahead", 2, "", "energy"),
    ],
)
def test_the_optimum_with_copies(name: str, seed: int, inner: str, objective: str):
    cascade = drawn(name, seed, inner)
    optima = BruteForce(cascade, even=True, divided=True).optima((objective,))
    result = fuse_cascade(cascade, objective)
    assert result.status is Status.OPTIMAL
    assert result.mapping is not None
    assert result.value == result.bound == optima[objective].value
    assert not disagreements(cascade, result.mapping, seed=0)


def stored(mapping: FusedMapping | None) -> dict[str, int]:
    """Loops above each stored tensor."""
    assert mapping is not None
    return {tile.tensor: tile.depth for tile in mapping.stored}


def test_a_copy_brings_an_input_on_chip_that_several_einsums_read():
    """Each reader has two words of it at a time, and weights that are read once per visit."""
    shape = ("C[m] <- A[m]", "Q[m] = C[m] X[m]", "K[m] = C[m] Y[m]", "Z[m] = C[m] Q[m] K[m]")
    cascade = cascade_of(shape, {"m": 8}, HARDWARE)
    result = fuse_cascade(cascade, "energy")
    assert result.value == result.bound
    assert result.mapping is not None
    (body,) = result.mapping.bodies
    assert len(body[0].children) == 4
    assert stored(result.mapping) == {"C": 1, "Q": 1, "K": 1}
    assert result.evaluation is not None
    # A, X and Y come from outside once, and Z goes there: 24 x 90 + 8 x 80, besides words in the buffer.
    outside = [
        memory.energy
        for einsum in result.evaluation.einsums
        for memory in einsum.memories
        if memory.name == "Main"
    ]
    assert sum(outside) == 24 * 90 + 8 * 80
    assert result.value < fuse_cascade(cascade, "energy", limits=FusionLimits(no_fuse=frozenset("C"))).value


def test_a_copy_takes_room_as_soon_as_a_source_below_more_loops():
    """T and Q wait below the loop over b, the copy of T above it: while T and Q run, too."""
    cascade = cascade_of(COPIES["copy around"], {"b": 4, "o": 1}, HARDWARE)
    (optimum,) = BruteForce(cascade, even=True, divided=True).optima(("energy",)).values()
    result = fuse_cascade(cascade, "energy")
    assert result.value == result.bound == optimum.value
    depths = stored(result.mapping)
    assert depths["C"] == 0 < depths["T"]
    assert result.evaluation is not None
    taken = result.evaluation.room("T", "GLB")
    assert {tile.tensor: tile.size_words for tile in taken.tiles if tile.kind == "stored"} == {"C": 4, "U": 1}


def test_a_copy_whose_tensors_have_other_ranks():
    """Reads follow the size of the source, writes that of the copy; loops run over common ranks."""
    shape = ("T[m,g] = A[m,g]", "X[e,g] <- T[m,g]", "Z[e,g] = X[e,g] W[g]")
    cascade = cascade_of(shape, {"m": 2, "e": 3, "g": 4}, HARDWARE)
    optima = BruteForce(cascade, even=True, divided=True).optima(("energy", "edp"))
    for objective, optimum in optima.items():
        result = fuse_cascade(cascade, objective)
        assert result.value == result.bound == optimum.value
    assert stored(optima["energy"].mapping) == {"T": 1, "X": 1}


@pytest.mark.parametrize("size_words, value", [slow(4, 2196), (5, 1775)])
def test_a_copy_of_a_copy_takes_the_room_of_the_first_source(size_words: int, value: int):
    """D waits as a whole while T runs, and the row of T is part of it, though C was not there yet."""
    shape = (
        "P[m,k] = A[m,k]",
        "T[m] = P[m,k] W[m,k]",
        "C[m] <- T[m]",
        "D[m] <- C[m]",
        "U[m,k] = C[m] P[m,k]",
        "Z[q] = D[2*q]",
    )
    main, buffer = HARDWARE.levels
    hardware = replace(HARDWARE, nodes=(main, replace(buffer, size_words=size_words)))
    cascade = cascade_of(shape, {"m": 3, "q": 2, "k": 2}, hardware)
    (optimum,) = BruteForce(cascade, even=True, divided=True).optima(("energy",)).values()
    result = fuse_cascade(cascade, "energy")
    assert result.value == result.bound == optimum.value == value
    assert stored(result.mapping).keys() >= {"P", "T", "C"}


def test_which_tensors_take_one_room():
    cascade = cascade_of(COPIES["two copies"], {"m": 2, "b": 2}, HARDWARE)
    copies = Copies(cascade)
    assert copies.roots({("C", 1), ("D", 1), ("E", 2)}) == {"C": "C", "D": "C", "E": "E"}
    assert copies.roots({("C", 0), ("D", 1)}) == {"C": "C", "D": "C"}  # C may be anywhere
    assert copies.are_told_apart(["C", "D"])
    assert not copies.are_told_apart(["D", "E"])  # C is not there any more


def on_cores(shape: tuple[str, ...], bounds: dict[str, int], cores: int, size_words: int) -> Cascade:
    """A cascade on so many buffers."""
    main, buffer = HARDWARE.levels
    main = replace(main, energy=AccessEnergy(9, 0, 8), read_bandwidth=Fraction(2))
    buffer = replace(buffer, size_words=size_words, energy=AccessEnergy(1, 2, 3, 1))
    buffer = replace(buffer, write_bandwidth=Fraction(1, 2))
    nodes = (main, Fanout("core", cores), buffer)
    return cascade_of(shape, bounds, Architecture("cores", nodes, Compute("MAC", energy=1)))


@pytest.mark.parametrize(
    "shape, bounds, cores, size_words",
    [
        (("C[m,b] <- A[m,b]", "Z[m] = C[m,b] V[b]", "Y[m] = C[m,b] W[b]"), {"m": 2, "b": 2}, 2, 6),
        slow(COPIES["copy between"], {"m": 2, "a": 1, "b": 2, "c": 1}, 4, 5),
        (COPIES["copied input"], {"m": 2, "a": 1, "e": 1}, 2, 5),
        slow(COPIES["turned copy"], {"m": 2, "b": 2, "c": 2}, 4, 5),
        slow(COPIES["two copies"], {"m": 2, "b": 4}, 2, 8),
    ],
)
def test_the_optimum_with_copies_among_instances(
    shape: tuple[str, ...], bounds: dict[str, int], cores: int, size_words: int
):
    cascade = on_cores(shape, bounds, cores, size_words)
    optima = BruteForce(cascade, even=True, divided=True).optima(("energy", "latency", "edp"))
    for objective, optimum in optima.items():
        result = fuse_cascade(cascade, objective)
        assert result.status is Status.OPTIMAL
        assert result.mapping is not None
        assert result.value == result.bound == optimum.value
        assert not disagreements(cascade, result.mapping, seed=0)


@pytest.mark.parametrize("objective, value", [("energy", 32), slow("edp", 32 * 8)])
def test_a_copy_stays_on_chip_among_several_buffers(objective: str, value: int):
    """Two products read it there: each word moves once. For EDP, four buffers have parts of it."""
    main, buffer = HARDWARE.levels
    main = replace(main, energy=AccessEnergy(1, 0, 1))
    buffer = replace(buffer, size_words=None, energy=AccessEnergy(0, 0, 0))
    architecture = Architecture("at_glb", (main, Fanout("core", 4), buffer), Compute("MAC"))
    shape = ("C[m,d] <- A[m,d]", "V[m,n] = C[m,d] W[d,n]", "K[m,n] = C[m,d] X[d,n]")
    cascade = by_place(cascade_of(shape, {"m": 4, "d": 2, "n": 2}, architecture))
    result = fuse_cascade(cascade, objective)
    assert result.value == result.bound == value


def test_tensors_that_only_copies_access_are_named():
    told_of = "tensors that only copies access are not stored in `GLB`, with several instances"
    cascade = on_cores(COPIES["two copies"], {"m": 2, "b": 2}, 2, 8)
    assert [own for own in restrictions_of(cascade) if "copies" in own] == [told_of]
    one = on_cores(COPIES["two copies"], {"m": 2, "b": 2}, 1, 8)
    assert not [own for own in restrictions_of(one) if "copies" in own]


def restrictions_of(cascade: Cascade) -> Sequence[str]:
    """What a search leaves out."""
    return fuse_cascade(cascade, "latency", limits=FusionLimits(max_loops=0)).restrictions
