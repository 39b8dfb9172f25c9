"""The search along paths where bandwidths and the arithmetic tie, and where instances leak meanwhile."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from model.architecture import AccessEnergy, Fanout, Port, StorageLevel
from model.mapspace import Mapspace
from model.problem import Dataspace, Problem, Term
from solver.search.goal import Goal
from solver.search.path.search import EinsumSearch
from solver.search.space.search_space import SearchSpace
from tests import strategies
from tests.bruteforce import optima
from tests.mapspaces import free_mapspace, perfect_mapspace
from tests.slow import few, slow
from tests.solver.search.path.alone import quiet, searched
from tests.strategies import (
    CONVOLUTIONS,
    counted_as_accelforge,
    random_mapspaces,
    random_mapspaces_with_remainders,
)

SPECS = Path(__file__).parents[4] / "specs"

OBJECTIVES = ("energy", "latency", "edp")


def narrow(mapspace: Mapspace, seed: int) -> Mapspace:
    """Make memories slow, and let them leak."""
    random = Random(seed)

    def slowed(level: StorageLevel) -> StorageLevel:
        read, write = (Fraction(1, random.choice((1, 2, 3))) for _ in range(2))
        energy = replace(level.energy, leak_per_cycle=random.choice((0, 1, 7, 50)))
        return replace(level, read_bandwidth=read, write_bandwidth=write, energy=energy)

    architecture = mapspace.architecture
    nodes = tuple(slowed(node) if isinstance(node, StorageLevel) else node for node in architecture.nodes)
    return replace(mapspace, architecture=replace(architecture, nodes=nodes))


@pytest.mark.parametrize("draw", [random_mapspaces, random_mapspaces_with_remainders])
@pytest.mark.parametrize("seed", few(range(4)))
def test_optimum_where_memories_are_slow_and_leak(draw, seed: int, monkeypatch: pytest.MonkeyPatch):
    if seed % 2:
        monkeypatch.setattr(strategies, "EINSUMS", CONVOLUTIONS)
    for mapspace in (narrow(own, seed) for own in draw(1100 + seed, 3, 200)):
        for objective, best in zip(OBJECTIVES, optima(mapspace, OBJECTIVES), strict=True):
            value = None if best is None else best[0]
            assert searched(mapspace, objective) == (value, value)


def in_parts_of_a_cycle(mapspace: Mapspace, random: Random) -> Mapspace:
    """The same by AccelForge's rule, in large units: memories leak in parts of a cycle."""
    mapspace = counted_as_accelforge(mapspace, random)
    unit = random.choice((1, 12, 10**4, 10**13, 7 * 10**24 + 1))
    awkward = random.choice((1, Fraction(6_153_846_153_846_153, 2**20 * 10**9)))

    def scaled(level: StorageLevel) -> StorageLevel:
        own = level.energy
        energy = AccessEnergy(
            unit * own.read, unit * own.fill, unit * own.update, unit * random.choice((0, 1, 7))
        )
        rates = Fraction(random.randint(1, 9), 7), Fraction(random.randint(0, 9), 5)
        ports = (Port(awkward * rates[0], awkward * rates[1]),)
        return replace(level, energy=energy, ports=ports)

    architecture = mapspace.architecture
    nodes = tuple(scaled(node) if isinstance(node, StorageLevel) else node for node in architecture.nodes)
    compute = replace(architecture.compute, energy=unit * architecture.compute.energy)
    return replace(mapspace, architecture=replace(architecture, nodes=nodes, compute=compute))


@pytest.mark.parametrize("seed", few(range(6)))
def test_optimum_where_cycles_are_not_rounded(seed: int, monkeypatch: pytest.MonkeyPatch):
    if seed % 2:
        monkeypatch.setattr(strategies, "EINSUMS", CONVOLUTIONS)
    random = Random(seed)
    drawn = random_mapspaces(1500 + seed, 6, 200, packed_share=0)
    for mapspace in (in_parts_of_a_cycle(own, random) for own in drawn):
        for objective, best in zip(OBJECTIVES, optima(mapspace, OBJECTIVES), strict=True):
            value = None if best is None else best[0]
            assert searched(mapspace, objective) == (value, value)


def shipped(architecture: str, instance: str, tmp_path: Path) -> Mapspace:
    """A convolution on a shipped architecture."""
    layer = tmp_path / "layer.yaml"
    problem = f"{{version: 0.4, shape: cnn-layer, instance: {{{instance}}}}}"
    layer.write_text(f"problem: {problem}\n", encoding="utf-8")
    return perfect_mapspace(SPECS / "architectures" / f"{architecture}.yaml", layer)


@pytest.mark.parametrize(
    ("architecture", "shape", "objective"),
    [
        ("eyeriss_like", "R: 3, S: 3, P: 7, Q: 7, C: 512, K: 512, N: 1", "latency"),
        ("tpu_like", "R: 3, S: 3, P: 28, Q: 28, C: 512, K: 512, N: 1", "latency"),
        ("simba_like", "R: 1, S: 1, P: 1, Q: 1, C: 512, K: 1536, N: 1", "latency"),
        slow("tpu_like", "R: 3, S: 3, P: 54, Q: 54, C: 1024, K: 512, N: 1", "latency"),
        ("tpu_like", "R: 3, S: 3, P: 14, Q: 14, C: 256, K: 256, N: 1", "edp"),
    ],
)
def test_few_mappings_are_priced_where_many_tie(
    architecture: str, shape: str, objective: str, tmp_path: Path
):
    """Thousands of tiles take the arithmetic as long: those come first that load bandwidths least."""
    mapspace = shipped(architecture, shape, tmp_path)
    goal, shared = Goal(objective), quiet()
    search = EinsumSearch(SearchSpace(mapspace), goal, shared)
    assert search.run() == goal.incumbent
    assert shared.statistics.mappings_priced < 20


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_equal_mappings_of_an_elementwise_einsum_are_told_at_once(objective: str):
    """Figures with many digits: neither energy nor cycles are whole numbers that doubles tell apart."""
    own = (Dataspace(name, tuple((Term(dim),) for dim in "MNH"), name == "Z") for name in "AZ")
    problem = Problem("softmax", ("M", "N", "H"), (2048, 2048, 32), tuple(own))

    def level(name: str, size_words: int | None, price: int) -> StorageLevel:
        energy = AccessEnergy(price, price + 3, price + 3, 1_275_401_954_097_930_007)
        cycles = Fraction(6_153_846_153_846_153, 2**20 * 10**9 * (1 if size_words is None else 9))
        return StorageLevel(name, size_words, energy=energy, ports=(Port(cycles, cycles),))

    levels = (
        level("DRAM", None, 128_000_000_000_000_000_007),
        level("GLB", 1 << 15, 9_056_430_298_994_264_001),
        level("RF", 16, 22_733_893_884_485_344_003),
    )
    mapspace = free_mapspace(problem, levels[0], levels[1], Fanout("PE", 16, 1), levels[2])
    mapspace = replace(mapspace, counting="accelforge")
    goal, shared = Goal(objective), quiet()
    search = EinsumSearch(SearchSpace(mapspace), goal, shared)
    assert search.run() == goal.incumbent
    assert shared.statistics.listed < 3
    assert shared.statistics.mappings_priced < 3
