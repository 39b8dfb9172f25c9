"""The search for fused mappings against complete enumeration."""

from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.fused.cascade import Cascade
from solver.fusion.mapper import fuse_cascade
from solver.fusion.space import FusionLimits
from solver.result import Status
from tests.fused_bruteforce import BruteForce
from tests.model.fused.random_cascades import SHAPES, cascade_of

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


PLAIN = ("products", "three", "attention", "projections", "diamond", "skip")


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("seed", range(2))
def test_the_search_finds_the_optimum(name: str, seed: int):
    random = Random(f"{name} {seed}")
    cascade = drawn(random, name)
    once = random.random() < 0.2
    optima = BruteForce(cascade, once_per_rank=once, even=True).optima()
    limits = FusionLimits(max_loops_per_rank=1 if once else None)
    for objective in OBJECTIVES:
        result = fuse_cascade(cascade, objective, limits=limits)
        if not optima:
            assert result.status is Status.INFEASIBLE
            continue
        assert result.status is Status.OPTIMAL
        assert result.value == optima[objective].value
        assert result.unfused is None or result.unfused.value(objective) >= result.value
