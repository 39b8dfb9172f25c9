"""Words of tiles that keep what overlaps: as many as an execution fetches that has one window at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel
from model.counting import ACCELFORGE
from model.fused.cascade import Cascade
from model.fused.cost import evaluate_fused
from model.fused.mapping import Body, FusedMapping, Held, Leaf, PrivateNest, SharedLoop, Stored
from model.fused.visits import slides
from model.mapping import Loop, Mapping, StorageMapping
from model.numbers import divisors
from tests.model.fused.random_cascades import cascade_of

SHAPES = {
    "depthwise": ("U[q,n] = T[q+r,n] V[r,n]", "Z[q,m] = U[q,n] X[n,m]"),
    "stride": ("U[q,n] = T[2*q+r,n] V[r]", "Z[q] = U[q,n] X[n]"),
    "plane": ("U[q,n] = T[q+r,n+s] V[r,s]", "Z[q,n] = U[q,n] X"),
}
BOUNDS = {"q": 8, "n": 4, "m": 2, "r": 3, "s": 2}


def by_place(name: str) -> Cascade:
    buffer = StorageLevel("GLB", energy=AccessEnergy(1, 1, 1))
    architecture = Architecture("one buffer", (StorageLevel("Main"), buffer), Compute("MAC"))
    cascade = cascade_of(SHAPES[name], BOUNDS, architecture)
    spaces = (replace(own.mapspace, counting=ACCELFORGE) for own in cascade.einsums)
    pairs = zip(cascade.einsums, spaces, strict=True)
    return replace(cascade, einsums=tuple(replace(own, mapspace=space) for own, space in pairs))


def mapped(cascade: Cascade, loops: Sequence[tuple[str, int]], depth: int) -> FusedMapping:
    """A mapping with loops over a dimension and trips, and what overlaps of T kept below so many of them."""
    leaves = []
    for einsum in cascade.einsums:
        left = dict(einsum.problem.bound)
        for dim, trips in loops:
            left[dim] //= trips
        outside = frozenset(own.dataspace for own in einsum.accesses if own.tensor != "U")
        inner = StorageMapping(tuple(Loop(dim, size) for dim, size in left.items() if size > 1))
        nest = PrivateNest(Mapping((StorageMapping((), outside), inner)))
        held = (Held("T", depth, keeps_overlap=True),) if einsum.name == "U" else ()
        leaves.append(Leaf(einsum.name, (nest,), held))
    shared = tuple(SharedLoop(trips, (("U", dim), ("Z", dim))) for dim, trips in loops)
    return FusedMapping((Body(shared, tuple(leaves)),), (Stored("U", "GLB", len(loops)),))


def windows(
    cascade: Cascade, loops: Sequence[tuple[str, int]]
) -> Iterator[tuple[tuple[int, ...], set[tuple[int, ...]]]]:
    """Yield each iteration of some loops, and the words of T that it needs."""
    problem = cascade.einsums[0].problem
    ranks = cascade.einsums[0].space("T").ranks
    for trips in product(*(range(count) for _, count in loops)):
        low, size = dict.fromkeys(problem.dims, 0), dict(problem.bound)
        for (dim, count), trip in zip(loops, trips, strict=True):
            size[dim] //= count
            low[dim] += trip * size[dim]
        points = product(*(range(low[dim], low[dim] + size[dim]) for dim in problem.dims))
        values = (dict(zip(problem.dims, point, strict=True)) for point in points)
        yield (
            trips,
            {tuple(sum(t.coefficient * own[t.dim] for t in terms) for terms in ranks) for own in values},
        )


@pytest.mark.parametrize("name", SHAPES)
def test_a_loop_fetches_what_the_window_before_did_not_have(name: str):
    random, cascade, most = Random(name), by_place(name), 0
    for _ in range(12):
        left, loops = {"q": 8, "n": 4} if name != "stride" else {"q": 8}, list[tuple[str, int]]()
        for dim in random.choices(sorted(left), k=random.randint(1, 3)):
            trips = random.choice([n for n in divisors(left[dim]) if n > 1] or [1])
            left[dim] //= trips
            loops += [(dim, trips)] if trips > 1 else []
        slid = [slides(cascade.einsums[0].space("T"), dim) for dim, _ in loops]
        for depth in (n for n, is_slid in enumerate(slid, 1) if is_slid):
            fetched, before, kept = 0, None, set[tuple[int, ...]]()
            for (*outer, _), window in windows(cascade, loops[:depth]):
                fetched += len(window - kept if outer == before else window)
                before, kept = outer, window
            cost = evaluate_fused(cascade, mapped(cascade, loops, depth))
            main, buffer = cost.einsum("U").memories
            moved = [own.total_reads for own in main.dataspaces if own.dataspace == "T"]
            filled = [own for own in buffer.dataspaces if own.dataspace == "T"]
            assert [fetched] == moved == [own.total_fills for own in filled]
            assert filled[0].tile_words == max(len(own) for _, own in windows(cascade, loops[:depth]))
            most = max(most, depth)
    assert most > 1
