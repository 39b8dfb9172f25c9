"""The search for fused mappings against complete enumeration, and what it is never worse than."""

from dataclasses import replace
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.counting import ACCELFORGE
from model.fused.cascade import Cascade
from model.fused.cost import evaluate_fused
from solver.fusion import FusionLimits, LimitError, NotSearchedError, fuse_cascade
from solver.result import Options, Status, Termination
from tests.fused_bruteforce import BruteForce
from tests.model.fused.random_cascades import SHAPES, cascade_of
from tests.slow import few, slow

OBJECTIVES = ("energy", "latency", "edp")
SIZES = {"three": (2, 2, 3), "diamond": (2, 3), "attention": (2, 2, 4), "skip": (2, 3)}


def drawn(random: Random, name: str) -> Cascade:
    """A cascade whose fused mappings can all be looked at."""
    letters = sorted({char for text in SHAPES[name] for char in text if char.islower()})
    bounds = {dim: random.choice(SIZES.get(name, (2, 3, 4))) for dim in letters}
    if name == "projections":
        bounds["p"] = bounds["m"]
    if name == "skip":
        bounds["d"] = bounds["b"]
    prices = [AccessEnergy(*(random.randint(1, 9) for _ in range(3))) for _ in range(3)]
    main = StorageLevel(
        "Main",
        energy=AccessEnergy(random.choice((5, 90)), 0, 80, random.choice((0, 2))),
        shared_bandwidth=random.choice((None, 1)),
    )
    buffer = StorageLevel(
        "GLB",
        size_words=random.choice((8, 14, 24)),
        energy=prices[1],
        read_bandwidth=random.choice((None, 2)),
        network_fill_latency=random.choice((0, 0, 3)),
    )
    nodes: tuple[StorageLevel | Fanout, ...] = (main, buffer)
    if random.random() < 0.3 and name in ("products", "projections"):
        nodes += (Fanout("PE", 2), StorageLevel("RF", size_words=4, energy=prices[2]))
    architecture = Architecture("small", nodes, Compute("MAC", energy=1))
    return cascade_of(SHAPES[name], bounds, architecture, random.choice((1, 1, 3)))


@pytest.mark.parametrize(
    "name, seed, objectives",
    [
        ("products", 112, OBJECTIVES),
        ("skip", 105, ("edp",)),
        ("three", 104, ("latency", "edp")),
        slow("attention", 101, ("energy",)),
        slow("projections", 111, ("energy", "edp")),
    ],
)
def test_the_search_finds_the_optimum(name: str, seed: int, objectives: tuple[str, ...]):
    random = Random(f"{name} {seed}")
    cascade = drawn(random, name)
    once = random.random() < 0.2
    optima = BruteForce(cascade, once_per_rank=once, even=True).optima(objectives)
    limits = FusionLimits(max_loops_per_rank=1 if once else None)
    for objective in objectives:
        result = fuse_cascade(cascade, objective, limits=limits)
        if not optima:
            assert result.status is Status.INFEASIBLE
            continue
        assert result.status is Status.OPTIMAL
        assert result.value == result.bound == optima[objective].value
        assert result.mapping is not None
        assert evaluate_fused(cascade, result.mapping).value(objective) == result.value
        assert result.unfused is not None
        assert result.unfused.value(objective) >= result.value


@pytest.mark.parametrize(
    "name, seed, objective",
    few([("skip", 3, "latency"), ("three", 2, "energy"), ("projections", 2, "latency")]),
)
def test_the_optimum_with_several_places_of_the_buffer(name: str, seed: int, objective: str):
    cascade = uneven(drawn(Random(f"uneven {name} {seed}"), name))
    (optimum,) = BruteForce(cascade).optima((objective,)).values()
    result = fuse_cascade(cascade, objective)
    assert result.status is Status.OPTIMAL
    assert result.value == result.bound == optimum.value


def uneven(cascade: Cascade) -> Cascade:
    """Give each dataspace a place of its own in the buffer."""
    memories = frozenset(("GLB",))
    return replace(cascade, einsums=tuple(replace(e, memories_with_places=memories) for e in cascade.einsums))


@pytest.mark.parametrize(
    "name, seed, objectives",
    [slow("products", 105, OBJECTIVES), ("attention", 101, ("latency",)), ("three", 100, ("energy",))],
)
def test_the_optimum_by_accelforges_rule(name: str, seed: int, objectives: tuple[str, ...]):
    """Each memory has several places then, as in the enumeration."""
    cascade = by_place(drawn(Random(f"{name} {seed}"), name))
    optima = BruteForce(cascade).optima(objectives)
    for objective in objectives:
        result = fuse_cascade(cascade, objective)
        assert result.status is Status.OPTIMAL
        assert result.value == result.bound == optima[objective].value


def by_place(cascade: Cascade) -> Cascade:
    """Count a cascade by AccelForge's rule, without latencies of networks."""
    einsums = []
    for einsum in cascade.einsums:
        architecture = einsum.mapspace.architecture
        nodes = tuple(
            replace(node, network_fill_latency=0) if isinstance(node, StorageLevel) else node
            for node in architecture.nodes
        )
        mapspace = replace(
            einsum.mapspace, architecture=replace(architecture, nodes=nodes), counting=ACCELFORGE
        )
        einsums.append(replace(einsum, mapspace=mapspace))
    return replace(cascade, einsums=tuple(einsums))


def windowed(random: Random, name: str, leak: int = 0) -> Cascade:
    """A cascade with windows, whose fused mappings can all be looked at."""
    q, r = random.choice((2, 3, 4)), random.choice((1, 2, 3))
    bounds = {"q": q, "r": r, "p": q + r - 1 + random.choice((0, 0, 1)), "c": 2, "k": 2}
    if name == "residual":
        bounds["p"] = q + r - 1
    if name == "plane":
        bounds = {"x": 4, "y": 2, "r": 2, "s": 2, "p": 5, "q": 3}
    if name == "two windows":
        bounds |= {"x": q, "y": 2, "q": q + 1, "s": 2, "p": 2 * q + r}
    main = StorageLevel(
        "Main", energy=AccessEnergy(90, 0, 80, leak), shared_bandwidth=random.choice((None, 1))
    )
    prices = (random.randint(1, 9) for _ in range(3))
    buffer = StorageLevel(
        "GLB",
        size_words=random.choice((6, 8, 10, 14)),
        energy=AccessEnergy(*prices),
        network_fill_latency=random.choice((0, 3)),
    )
    architecture = Architecture("small", (main, buffer), Compute("MAC", energy=1))
    return cascade_of(SHAPES[name], bounds, architecture, random.choice((1, 3)))


@pytest.mark.parametrize(
    "name, seed, objectives",
    [
        ("window", 0, OBJECTIVES),
        ("depthwise", 5, OBJECTIVES),
        ("residual", 2, ("energy", "latency")),
        slow("two windows", 2, ("energy", "edp")),
        slow("plane", 4, ("energy",)),
    ],
)
def test_loops_that_slide_windows(name: str, seed: int, objectives: tuple[str, ...]):
    cascade = windowed(Random(f"{name} {seed}"), name)
    optima = BruteForce(cascade, even=True, divided=True).optima(objectives)
    for objective, optimum in optima.items():
        result = fuse_cascade(cascade, objective)
        assert result.value is not None
        assert result.bound is not None
        assert result.bound <= optimum.value <= result.value
        # All visits of an Einsum load a bandwidth together: that is not bounded exactly.
        if objective == "energy":
            assert result.status is Status.OPTIMAL
            assert result.value == result.bound


@pytest.mark.slow
def test_loops_that_slide_windows_over_several_places_of_the_buffer():
    """Where an output is kept decides how many places the nests of unlike visits have."""
    main = StorageLevel("Main", energy=AccessEnergy(30, 0, 10, 2))
    buffer = StorageLevel("GLB", size_words=8, energy=AccessEnergy(1, 7, 7))
    architecture = Architecture("small", (main, buffer), Compute("MAC", energy=1))
    bounds = {"x": 4, "y": 2, "r": 2, "s": 2, "p": 5, "q": 3}
    cascade = uneven(cascade_of(SHAPES["plane"], bounds, architecture))
    (optimum,) = BruteForce(cascade, divided=True).optima(("energy",)).values()
    result = fuse_cascade(cascade, "energy")
    assert result.bound is not None
    assert result.value is not None
    assert result.bound <= optimum.value <= result.value


def halo_waits() -> Cascade:
    """A convolution's input comes from another Einsum, and a buffer could not hold all of its rows."""
    main, buffer = StorageLevel("Main", energy=AccessEnergy(99, 99, 99)), StorageLevel("GLB", size_words=10)
    architecture = Architecture("small", (main, buffer), Compute("MAC", energy=1))
    return cascade_of(SHAPES["depthwise"], {"q": 8, "r": 3, "p": 10, "c": 2, "k": 1}, architecture)


def test_unlike_visits_are_what_is_best():
    result = fuse_cascade(halo_waits(), "energy")
    assert result.status is Status.OPTIMAL
    assert result.mapping is not None
    assert result.evaluation is not None
    producer, consumer = result.mapping.paths
    assert producer.loops == consumer.loops != ()
    assert len(producer.leaf.nests) == 2  # the first visit computes the halo as well
    assert len(consumer.leaf.nests) == 1
    assert [tile.tensor for tile in result.mapping.stored] == ["T"]
    assert result.evaluation.einsum("T").steps == 20  # nothing is computed twice


def test_a_gap_of_unlike_visits_ends_the_search():
    """Leakage depends on bandwidths, which unlike visits load together."""
    cascade = windowed(Random("residual 0"), "residual", leak=2)
    optimum = BruteForce(cascade, even=True, divided=True).optima(("energy",))["energy"]
    result = fuse_cascade(cascade, "energy")
    assert result.bound is not None
    assert result.value is not None
    assert result.bound <= optimum.value <= result.value
    assert result.termination in (Termination.PROVEN, Termination.BOUND)


def attention(size: int = 8) -> Cascade:
    """Attention with a buffer that holds neither all scores nor those of a few rows."""
    main = StorageLevel("Main", energy=AccessEnergy(128, 128, 128))
    buffer = StorageLevel("GLB", size_words=size * 3 + 4, energy=AccessEnergy(1, 1, 1))
    architecture = Architecture("small", (main, buffer), Compute("MAC", energy=1))
    return cascade_of(SHAPES["attention"], {"m": size, "p": size, "e": 2, "f": 2}, architecture)


def test_attention_takes_the_shape_of_flashattention():
    result = fuse_cascade(attention(), "energy", limits=FusionLimits(max_loops_per_rank=1))
    assert result.status is Status.OPTIMAL
    assert result.mapping is not None
    (body,) = result.mapping.children
    assert [loop.dim("Z") for loop in body.loops] == ["m", "p"]
    held = {
        leaf.leaf.einsum: [(tile.dataspace, tile.depth) for tile in leaf.leaf.held]
        for leaf in result.mapping.paths
    }
    assert held == {"S": [("Q", 1)], "P": [], "Z": [("Z", 1)]}
    assert {stored.tensor: stored.depth for stored in result.mapping.stored} == {"S": 2, "P": 2}


def test_limits_narrow_the_space():
    cascade = attention(3)

    def value(**limits: object) -> int:
        result = fuse_cascade(cascade, "energy", limits=FusionLimits(**limits))
        assert result.status is Status.OPTIMAL
        assert result.value is not None
        return result.value

    alone = value(no_fuse=frozenset(("S", "P")))
    assert alone == value(memories=frozenset())
    whole, one = value(max_loops=0), value(max_loops=1)
    assert alone >= whole > one >= value(max_loops_per_rank=1)
    assert alone == BruteForce(cascade, fused=False, even=True).optima(("energy",))["energy"].value


@pytest.mark.parametrize(
    "limits, message",
    [
        (
            FusionLimits(no_fuse=frozenset("X")),
            "no Einsum accesses 'X'; tensors between Einsums: `S` and `P`",
        ),
        (FusionLimits(equal_parts=False), "remainders of shared loops need nests that may have remainders"),
        (FusionLimits(memories=frozenset(("Main",))), "'Main' is the outermost memory"),
        (FusionLimits(memories=frozenset(("L2",))), "there is no memory 'L2'; on chip there are `GLB`"),
    ],
)
def test_limits_name_what_is_there(limits: FusionLimits, message: str):
    with pytest.raises(LimitError, match=message):
        fuse_cascade(attention(4), "energy", limits=limits)


def test_a_stopped_search_keeps_its_bound():
    result = fuse_cascade(attention(), "energy", Options(), should_stop=lambda: True)
    assert result.status in (Status.UNKNOWN, Status.FEASIBLE)
    assert result.termination is Termination.INTERRUPTED
    assert result.value is None or (result.bound or 0) <= result.value


def test_what_is_not_searched_is_refused():
    first, *others = attention().einsums
    ruled = replace(first, mapspace=first.mapspace.where("tile(GLB, m) >= 1"))
    with pytest.raises(NotSearchedError, match="user-defined constraints"):
        fuse_cascade(replace(attention(), einsums=(ruled, *others)), "energy")
