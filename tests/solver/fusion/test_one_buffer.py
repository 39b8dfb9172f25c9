"""Fused mappings onto one buffer by formulas: what they say is what the cost model counts."""

from dataclasses import replace
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel
from model.fused.cascade import Cascade
from model.fused.cost import evaluate_fused
from model.objective import ENERGY
from solver.fusion import FusionLimits, fuse_cascade
from solver.fusion.one_buffer import good_mapping, is_known
from solver.fusion.space import FusionSpace
from solver.result import Options, Status
from solver.search.stopping import never
from tests.model.fused.random_cascades import SHAPES, cascade_of
from tests.slow import few

KINDS = ("products", "three", "attention", "projections", "diamond", "skip")


def drawn(name: str, seed: int, choices=(2, 3, 4, 6, 8, 12), unit: int = 1) -> Cascade:
    random = Random(seed)
    bounds = {dim: random.choice(choices) for dim in "abcdefhkmnop"}
    if name == "skip":
        bounds["d"] = bounds["b"]
    buffer = StorageLevel("buffer", size_words=random.choice((20, 40, 80, 160, 400)))
    memory = StorageLevel("memory", energy=AccessEnergy(read=3 * unit, update=2 * unit))
    return cascade_of(SHAPES[name], bounds, Architecture("one buffer", (memory, buffer), Compute("mac")))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("seed", few(range(12), 3))
def test_the_cost_model_agrees(name: str, seed: int):
    cascade = drawn(name, seed)
    alone = fuse_cascade(cascade, ENERGY, Options(), FusionLimits(0, None, frozenset(cascade.intermediates)))
    assert alone.mapping is not None and alone.evaluation is not None
    space = FusionSpace(cascade)
    assert is_known(space)
    energies = [cost.energy for cost in alone.evaluation.einsums]
    energy, mapping = good_mapping(space, alone.mapping.children, energies, never)
    found = evaluate_fused(cascade, mapping)
    assert (found.valid, found.energy) == (True, energy)
    assert energy <= alone.value


def test_energies_are_exact_beyond_64_bits():
    by_unit = []
    for unit in (1, 10**18):
        space = FusionSpace(drawn("products", 0, unit=unit))
        assert is_known(space)
        leaves = fuse_cascade(space.cascade, ENERGY, limits=FusionLimits(0)).mapping.children
        by_unit.append(good_mapping(space, leaves, [unit * 10**6] * len(leaves), never))
    assert by_unit[1] == (10**18 * by_unit[0][0], by_unit[0][1])
    memory = StorageLevel("memory", energy=AccessEnergy(read=10**18 + 1, update=10**18))
    architecture = Architecture("fine", (memory, StorageLevel("buffer", size_words=80)), Compute("mac"))
    assert not is_known(FusionSpace(cascade_of(SHAPES["products"], dict.fromkeys("mabc", 4), architecture)))


@pytest.mark.parametrize(
    ("name", "seed"), [("products", 0), ("products", 3), ("attention", 1), *few([("three", 2)], 0)]
)
def test_it_is_no_better_than_the_optimum(name: str, seed: int):
    cascade = drawn(name, seed, (2, 4, 6))
    result = fuse_cascade(cascade, ENERGY, Options())
    alone = fuse_cascade(cascade, ENERGY, Options(), FusionLimits(0, None, frozenset(cascade.intermediates)))
    assert result.status is Status.OPTIMAL
    energies = [cost.energy for cost in alone.evaluation.einsums]
    energy, _ = good_mapping(FusionSpace(cascade), alone.mapping.children, energies, never)
    assert result.value <= energy <= alone.value


def priced(price: int) -> Cascade:
    """Products whose memory takes so much energy for a word."""
    memory = StorageLevel("memory", energy=AccessEnergy(read=price, update=price + 1))
    architecture = Architecture("dear", (memory, StorageLevel("buffer", size_words=20)), Compute("mac"))
    return cascade_of(SHAPES["products"], dict.fromkeys("mabc", 4), architecture)


@pytest.mark.parametrize("price", [10**20, (1 << 62) // 100])
def test_energies_beyond_64_bits(price: int):
    cascade = priced(price)
    assert not is_known(FusionSpace(cascade))
    assert fuse_cascade(cascade, ENERGY).status is Status.OPTIMAL
    whole = replace_energy(cascade, AccessEnergy(read=price, update=price))
    assert is_known(FusionSpace(whole))
    cheap = replace_energy(cascade, AccessEnergy(read=1, update=1))
    assert fuse_cascade(whole, ENERGY).value == price * fuse_cascade(cheap, ENERGY).value


def replace_energy(cascade: Cascade, energy: AccessEnergy) -> Cascade:
    """Change what the outer memory takes."""
    einsums = []
    for einsum in cascade.einsums:
        memory, *others = einsum.mapspace.architecture.nodes
        architecture = replace(einsum.mapspace.architecture, nodes=(replace(memory, energy=energy), *others))
        einsums.append(replace(einsum, mapspace=replace(einsum.mapspace, architecture=architecture)))
    return replace(cascade, einsums=tuple(einsums))


def test_what_the_formulas_do_not_know():
    windows = drawn("attention", 0)
    assert is_known(FusionSpace(windows))
    memory = StorageLevel("memory", energy=AccessEnergy(read=3, update=2))
    costly = StorageLevel("buffer", size_words=100, energy=AccessEnergy(read=1))
    shape, bounds = SHAPES["products"], dict.fromkeys("mabc", 4)
    cascade = cascade_of(shape, bounds, Architecture("costly", (memory, costly), Compute("mac")))
    assert not is_known(FusionSpace(cascade))
    bounds = {"p": 6, "q": 4, "r": 3, "c": 2}
    free = StorageLevel("buffer", size_words=100)
    sliding = cascade_of(SHAPES["window"], bounds, Architecture("free", (memory, free), Compute("mac")))
    assert not is_known(FusionSpace(sliding))
