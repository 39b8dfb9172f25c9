"""What bounds on bodies rest on: room, what may be stored, and loops that no body has."""

from dataclasses import replace

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel
from model.fused.cascade import Cascade
from model.mapspace import KeepRules
from solver.fusion import fuse_cascade
from solver.fusion.space import Frame, FusionSpace
from solver.fusion.trips import BodyLoops
from solver.result import Status
from tests.fused_bruteforce import BruteForce
from tests.model.fused.random_cascades import SHAPES, cascade_of


def _architecture(size_words: int) -> Architecture:
    main, buffer = (
        StorageLevel("Main", energy=AccessEnergy(90, 0, 80)),
        StorageLevel("GLB", size_words=size_words),
    )
    return Architecture("small", (main, buffer), Compute("MAC", energy=1))


def test_a_tensor_that_is_read_twice_takes_room_once():
    architecture = _architecture(7)
    shape = ("T[m,e] = A[m,e]", "Z[m,p] = T[m,e] U[p,e]")
    first, second = cascade_of(shape, {"m": 2, "p": 2, "e": 4}, architecture).einsums
    accesses = tuple(
        replace(access, tensor="T") if access.tensor == "U" else access for access in second.accesses
    )
    cascade = Cascade("twice", (first, replace(second, accesses=accesses)))
    result = fuse_cascade(cascade, "energy")
    assert result.value == result.bound == BruteForce(cascade, even=True).optima(("energy",))["energy"].value
    assert result.mapping is not None
    assert [tile.tensor for tile in result.mapping.stored] == ["T"]


def test_what_the_architecture_keeps_from_the_chip_is_not_fused():
    cascade = cascade_of(SHAPES["attention"], {"m": 2, "p": 2, "e": 2, "f": 2}, _architecture(10))
    rules = {name: frozenset(("S", "P")) & space for name, space in _dataspaces(cascade).items()}
    einsums = (
        replace(e, mapspace=replace(e.mapspace, keep=(KeepRules(), KeepRules(bypass=rules[e.name]))))
        for e in cascade.einsums
    )
    result = fuse_cascade(replace(cascade, einsums=tuple(einsums)), "energy")
    assert result.status is Status.OPTIMAL
    assert result.unfused is not None
    assert result.value == result.unfused.value("energy")
    assert result.mapping is not None
    assert not result.mapping.stored


def _dataspaces(cascade: Cascade) -> dict[str, frozenset[str]]:
    return {e.name: frozenset(space.name for space in e.problem.dataspaces) for e in cascade.einsums}


def test_no_loops_move_one_window_twice():
    """A body shares the loop over q; then one inside of it does not share that over r."""
    architecture = _architecture(9)
    shape = ("T[p] = A[p]", "X[p] = T[p]", "U[q] = X[q+r] V[r]", "Z[q] = U[q]")
    space = FusionSpace(cascade_of(shape, {"p": 6, "q": 4, "r": 3}, architecture))
    outer, inner = space.classes(0, 4), space.classes(0, 3)
    frame = Frame(0, 4, (((outer.index(("p", "p", "q", "q")), 2),),), flat=False)
    looped = {
        inner[number]
        for trips in BodyLoops(space).totals((frame,), 0, 3)
        for number, n in enumerate(trips)
        if n > 1
    }
    assert looped == {("p", "p", "q")}


def test_what_fits_nowhere_is_found_out():
    architecture = _architecture(2)
    cascade = cascade_of(SHAPES["three"], {"m": 2, "a": 2, "b": 2, "c": 2, "d": 2}, architecture)
    names = _dataspaces(cascade)
    einsums = (
        replace(e, mapspace=replace(e.mapspace, keep=(KeepRules(), KeepRules(keep=names[e.name]))))
        for e in cascade.einsums
    )
    result = fuse_cascade(replace(cascade, einsums=tuple(einsums)), "edp")
    assert result.status is Status.INFEASIBLE
