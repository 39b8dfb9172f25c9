"""Bounds on two Einsums in closed form, against enumeration and against the search."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Packing, StorageLevel
from model.fused.cascade import Cascade, CascadeEinsum
from model.objective import ENERGY
from solver.certificate.canonical import CertificateError
from solver.fusion import fuse_cascade
from solver.fusion.certificate import fused_certificate
from solver.fusion.space import FusionSpace
from solver.fusion.two_einsums import TwoEinsums
from solver.result import Options, Status
from solver.search.stopping import Stopped, never
from tests.fused_bruteforce import BruteForce
from tests.model.fused.random_cascades import SHAPES, cascade_of
from tests.slow import few

TWO = (
    SHAPES["products"],
    ("T[m,p,h] = Q[m,e,h] K[p,e,h]", "Z[m,f,h] = T[m,p,h] V[p,f,h]"),
    ("T[m,b] = A[m,a] W[a,b]", "Z[m,b] = T[m,b] V[b]"),
    ("T[m] = A[m,a] W[a]", "Z[m,c] = T[m] V[m,c]"),
    ("T[m,b] = A[m,b]", "Z[m] = T[m,b] V[b]"),
    ("T[m,b] = A[m,a] W[a,b]", "Z[b,c] = T[m,b] V[m,c]"),
    ("T[m,b] = A[m,a] W[b]", "Z[c] = T[m,b] V[b,c]"),
    ("T[m,b] = A[m,b]", "Z[m,b] = T[m,b]"),
)

BELOW = {40}
"""Cases whose bound is below the optimum."""


def drawn(seed: int, choices: tuple[int, ...], most: int, packs: bool = True) -> Cascade:
    """Draw a cascade on a memory and a buffer, with values of several sizes if it packs them."""
    random = Random(seed)
    bounds = {dim: random.choice(choices) for dim in "abcefhmp"}
    sizes = {name: random.choice((1, 1, 2)) for name in "AKQTVWZ"}
    buffer = StorageLevel("buffer", size_words=random.randint(2, most))
    memory = StorageLevel("memory", energy=AccessEnergy(read=3, update=2))
    design = Architecture("one buffer", (memory, buffer), Compute("mac"))
    cascade = cascade_of(TWO[seed % len(TWO)], bounds, design)
    return (
        replace(cascade, einsums=tuple(packed(own, sizes) for own in cascade.einsums)) if packs else cascade
    )


def packed(einsum: CascadeEinsum, sizes: Mapping[str, int]) -> CascadeEinsum:
    """The Einsum with values of other sizes."""
    names = [space.name for space in einsum.problem.dataspaces]
    packing = tuple(Packing(name, 1, sizes[name], sizes[name]) for name in names)
    design = einsum.mapspace.architecture
    levels = tuple(replace(level, packing=packing) for level in design.levels)
    return replace(einsum, mapspace=replace(einsum.mapspace, architecture=replace(design, nodes=levels)))


@pytest.mark.parametrize("seed", few(range(64), 8))
def test_no_mapping_is_below_the_bound(seed: int):
    cascade = drawn(seed, (1, 2, 2, 3), 14, packs=False)
    space = FusionSpace(cascade)
    assert TwoEinsums.is_known(space)
    optima = BruteForce(cascade, even=True).optima((ENERGY,))
    if optima:
        assert TwoEinsums(space, never).least(1 << 40) <= optima[ENERGY].value


@pytest.mark.parametrize("seed", few(range(80), 16))
def test_it_is_what_the_search_proves(seed: int):
    """But where tiles in several places of a nest would do better, which the search leaves out."""
    cascade = drawn(seed, (1, 2, 3, 4, 6), 40)
    result = fuse_cascade(cascade, ENERGY, Options())
    assert result.status in {Status.OPTIMAL, Status.INFEASIBLE}
    least = TwoEinsums(FusionSpace(cascade), never).least(1 << 40)
    assert result.value is None or least <= result.value
    if result.value is not None and seed not in BELOW:
        assert least == result.value


def test_it_ends_at_the_limit():
    space = FusionSpace(drawn(0, (6,), 40))
    least = TwoEinsums(space, never).least(1 << 40)
    assert TwoEinsums(space, never).least(least - 1) == least - 1
    assert TwoEinsums(space, never).least(least + 1) == least
    with pytest.raises(Stopped):
        TwoEinsums(space, lambda: True).least(1 << 40)


def test_a_proof_in_closed_form_has_no_certificate():
    cascade = drawn(0, (6,), 40)
    searched = fuse_cascade(cascade, ENERGY, Options())
    result = fuse_cascade(cascade, ENERGY, Options(), in_closed_form=True)
    assert (result.status, result.value, result.bound) == (Status.OPTIMAL, searched.value, searched.bound)
    assert result.statistics.states == 0 < searched.statistics.states
    with pytest.raises(CertificateError, match="closed form"):
        fused_certificate(result, ["python"])


def test_what_it_does_not_know():
    cascade = drawn(0, (6,), 40)
    assert not TwoEinsums.is_known(FusionSpace(replace(cascade, einsums=cascade.einsums[:1])))
    random = Random(0)
    bounds = {dim: random.choice((2, 3)) for dim in "abcdefhkmnop"}
    design = cascade.einsums[0].mapspace.architecture
    for name in ("three", "attention", "copy"):
        assert not TwoEinsums.is_known(FusionSpace(cascade_of(SHAPES[name], bounds, design)))
    twice = cascade_of(("T[m] = A[m,a] A[a,m]", "Z[m] = T[m] V[m]"), {"m": 3, "a": 3}, design)
    assert not TwoEinsums.is_known(FusionSpace(twice))
