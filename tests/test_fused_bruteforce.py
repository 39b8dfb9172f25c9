"""The enumeration of fused mappings: against an independent one, and against mappings drawn at random."""

import json
from pathlib import Path
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.formats.fused import load_cascade
from model.fused.cascade import Cascade
from model.fused.cost import evaluate_fused
from model.fused.mapping import Held
from tests.fused_bruteforce import BruteForce, loop_nests, trees
from tests.model.fused.agreement import disagreements
from tests.model.fused.random_cascades import SHAPES, cascade_of, random_fused
from tests.model.fused.reference import FUSED
from tests.overlaps import depthwise_and_pointwise

OBJECTIVES = ("energy", "latency", "edp")

BOUNDS: dict[str, dict[str, int]] = {
    "products": {"m": 4, "a": 2, "b": 2, "c": 2},
    "attention": {"m": 4, "p": 2, "e": 2, "f": 1},
    "projections": {"m": 2, "p": 2, "d": 2, "e": 1},
    "skip": {"m": 2, "a": 2, "b": 2, "d": 2},
    "window": {"q": 4, "r": 3, "p": 6, "c": 2},
    "residual": {"q": 4, "r": 3, "p": 6},
}


def small(random: Random, name: str) -> Cascade:
    """A cascade whose fused mappings can all be looked at."""
    prices = [AccessEnergy(*(random.randint(1, 9) for _ in range(3))) for _ in range(3)]
    main = StorageLevel("Main", energy=AccessEnergy(90, 0, 80, 2), shared_bandwidth=random.choice((None, 1)))
    buffer = StorageLevel("GLB", size_words=random.choice((8, 14, 24)), energy=prices[1], read_bandwidth=4)
    nodes: tuple[StorageLevel | Fanout, ...] = (main, buffer)
    if name == "projections":
        nodes += (Fanout("PE", 2), StorageLevel("RF", size_words=4, energy=prices[2]))
    return cascade_of(SHAPES[name], BOUNDS[name], Architecture("small", nodes, Compute("MAC", energy=1)))


@pytest.mark.parametrize("name", BOUNDS)
def test_no_random_mapping_is_better_than_the_optimum(name: str):
    random = Random(name)
    cascade = small(random, name)
    optima = BruteForce(cascade).optima()
    drawn = [mapping for mapping in (random_fused(random, cascade) for _ in range(80)) if mapping]
    costs = [cost for cost in (evaluate_fused(cascade, mapping) for mapping in drawn) if cost.valid]
    assert len(costs) > 10
    for objective, optimum in optima.items():
        assert optimum.value <= min(cost.value(objective) for cost in costs)
        assert not disagreements(cascade, optimum.mapping, seed=0)
    unfused = BruteForce(cascade, fused=False).optima()
    once = BruteForce(cascade, once_per_rank=True).optima()
    for objective in unfused:
        assert optima[objective].value <= once[objective].value <= unfused[objective].value


def test_trees_of_two_products():
    """No body; or one with loops over m (2 trips, or 2 and 2), b (2) and their orders."""
    cascade = cascade_of(
        SHAPES["products"],
        {"m": 4, "a": 2, "b": 2, "c": 2},
        small(Random(0), "skip").einsums[0].mapspace.architecture,
    )
    loops = sorted(
        tuple(loop.dim("T") for loop in body.loops) for tree in trees(cascade) for body, _ in tree.bodies
    )
    assert loops == [
        ("b",),
        ("b", "m"),
        ("b", "m", "m"),
        ("m",),
        ("m", "b"),
        ("m", "b", "m"),
        ("m", "m"),
        ("m", "m", "b"),
    ]
    assert sum(not tree.bodies for tree in trees(cascade)) == 1


SPACES = ("unfused", "fused_rank_once", "fused")
QUICK = {
    "ew_rf_31_20": SPACES,
    "mm3_31_9": ("unfused", "fused"),
    "qkvs_31_33": SPACES,
    "skip_31_14": SPACES,
}


@pytest.mark.skipif(not FUSED.is_dir(), reason="reference figures are absent")
@pytest.mark.parametrize("name", QUICK)
def test_an_independent_enumeration_finds_the_same_optima(name: str):
    folder = FUSED / "tilewright"
    cascade, _ = load_cascade([folder / f"{name}.workload.yaml", folder / f"{name}.arch.yaml"])
    document = json.loads((folder / f"{name}.json").read_text())
    units = cascade.einsums[0].mapspace.architecture.units_per_pj
    outermost = frozenset([cascade.einsums[0].mapspace.architecture.levels[1].name])
    spaces = {
        "unfused": BruteForce(cascade, fused=False),
        "fused_rank_once": BruteForce(cascade, once_per_rank=True, memories=outermost),
        "fused": BruteForce(cascade, memories=outermost),
    }
    for space in QUICK[name]:
        found, expected = spaces[space].optima(), document[space]
        assert found["energy"].value == expected["energy"]["energy"] * units
        assert found["latency"].value == expected["latency"]["cycles"]
        assert found["edp"].value == expected["edp"]["edp"] * units


@pytest.mark.parametrize(
    ("p", "r", "c", "m", "size", "energy_j", "loops"),
    [
        (4, 3, 1, 1, 10, 1478, None),
        (6, 2, 1, 1, 6, 1682, 1),
        (6, 3, 2, 1, 14, 3252, 2),
    ],
)
def test_what_overlaps_is_kept_where_accelforges_mapper_keeps_it(
    tmp_path: Path, p: int, r: int, c: int, m: int, size: int, energy_j: int, loops: int | None
):
    """The energies are those that AccelForge 1.0.467 finds; `loops` lie above what is kept."""
    cascade = depthwise_and_pointwise(tmp_path, p, r, c, m, size)
    optimum = BruteForce(cascade).optima(("energy",))["energy"]
    assert optimum.cost.energy_j == energy_j
    kept = [tile for path in optimum.mapping.paths for tile in path.leaf.held if tile.keeps_overlap]
    assert kept == ([] if loops is None else [Held("T0", loops, keeps_overlap=True)])


def test_a_private_loop_that_slides_a_window_may_take_several_factors(tmp_path: Path):
    cascade = depthwise_and_pointwise(tmp_path, p=4, r=2, c=1, m=1, size=12)
    architecture = cascade.einsums[0].mapspace.architecture
    ways = [{nest.above for nest in loop_nests(architecture, {"p": 4}, own)} for own in ((), ("p",))]
    assert ways == [{(("p", 2), ("p", 2))}, {(("p", 2), ("p", 2)), (("p", 4),)}]
