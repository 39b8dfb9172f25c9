"""Lists of shared loops with remainders: the search omits none that could store a tensor better."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate

import pytest

from model.architecture import Architecture, Compute, StorageLevel
from model.extents import ANY
from model.fused.cascade import Cascade
from model.fused.mapping import Body, FusedMapping, Leaf, SharedLoop
from model.mapspace import KeepRules
from solver.fusion import FusionLimits
from solver.fusion.space import Frame, FusionSpace
from solver.fusion.trips import BodyLoops
from tests.fused_bruteforce import divides, may_store, trees
from tests.model.fused.random_cascades import cascade_of

Lists = tuple[frozenset[tuple[object, ...]], ...]

SHAPES = {
    "two": ("T[p,c] = A[p,c]", "Z[q,c] = T[q+r,c] D[r]"),
    "three": ("T[p,c] = A[p,c]", "U[q,c] = T[q+r,c]", "Z[q,c] = U[q,c] T[q,c]"),
}


def in_registers_alone(name: str) -> Cascade:
    """A cascade whose tensors bypass the buffer: none of them is held there, between the loops."""
    nodes = (StorageLevel("Main"), StorageLevel("GLB", size_words=64), StorageLevel("RF", size_words=64))
    architecture = Architecture("small", nodes, Compute("MAC", energy=1))
    cascade = cascade_of(SHAPES[name], {"c": 3, "q": 3, "r": 2, "p": 4}, architecture, 1)
    einsums = []
    for einsum in cascade.einsums:
        passed = frozenset(own.dataspace for own in einsum.accesses if own.tensor in cascade.intermediates)
        keep = (KeepRules(), KeepRules(bypass=passed), KeepRules())
        einsums.append(replace(einsum, mapspace=replace(einsum.mapspace, keep=keep, factors=ANY)))
    return replace(cascade, einsums=tuple(einsums))


@pytest.mark.parametrize("name", SHAPES)
def test_a_tensor_may_be_stored_in_registers_wherever_windows_let_it(name: str):
    """Two loops over channels do what one cannot, and come before the loops that slide the window."""
    cascade = in_registers_alone(name)
    leaves = tuple(Leaf(einsum.name, ()) for einsum in cascade.einsums)
    space = FusionSpace(cascade, FusionLimits(equal_parts=False), remainders=True)
    searched = set()
    for frame in frames_of(BodyLoops(space), len(leaves)):
        loops, ends = space.loops(frame), {0, *accumulate(map(len, frame.segments))}
        known = (own for own in places(cascade, loops, leaves) if own[1] in ends)
        searched |= {(tensor, lists(loops, end)) for tensor, end in known}
    every = set()
    for tree in trees(cascade, ragged=True):
        body = tree.children[0]
        if isinstance(body, Body) and body.children == leaves and divides(cascade, tree, ragged=True):
            deepest = dict(places(cascade, body.loops, leaves))
            every |= {(tensor, lists(body.loops, end)) for tensor, end in deepest.items()}
    assert len(every) >= 20
    assert every <= searched


def frames_of(loops: BodyLoops, end: int) -> Iterator[Frame]:
    """All bodies of the search over some Einsums, with each order of their loops."""
    waiting = [(Frame(0, end, ()), total) for total in loops.totals((), 0, end)]
    while waiting:
        frame, left = waiting.pop()
        if max(left) == 1:
            yield frame
        else:
            waiting += loops.longer((), frame, left)


def places(
    cascade: Cascade, loops: tuple[SharedLoop, ...], leaves: tuple[Leaf, ...]
) -> Iterator[tuple[str, int]]:
    """Tensors, with each number of loops below which registers may store them, few ones first."""
    tree = FusedMapping((Body(loops, leaves),))
    for tensor in sorted(cascade.intermediates):
        for depth in range(len(loops) + 1):
            if may_store(cascade, tree, tensor, "RF", depth):
                yield tensor, depth


def lists(loops: tuple[SharedLoop, ...], end: int) -> Lists:
    """The trips above a place, and those below, by what loops run over."""
    parts = (loops[:end], loops[end:])
    return tuple(
        frozenset((dims, *(own.trips for own in part if own.dims == dims)) for dims in {o.dims for o in part})
        for part in parts
    )
