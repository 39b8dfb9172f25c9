"""The smallest tiles that exceed a capacity, and how they are kept."""

from dataclasses import replace

import pytest

from model.architecture import Packing, StorageLevel
from model.mapspace import FactorRule
from model.numbers import divisors
from model.problem import Dataspace, Problem, Term
from solver.explain.feasibility import Feasibility, Verdict, least_oversize
from solver.formulation.requirements import TileCapacity, constraints_of
from tests.mapspaces import copies

BOUNDS = {"M": 36, "N": 48, "R": 3}
SPACES = (
    Dataspace("A", ((Term("M", 2), Term("R", 1)),)),
    Dataspace("B", ((Term("N", 1),), (Term("R", 1),))),
    Dataspace("Z", ((Term("M", 1),), (Term("N", 1),)), read_write=True),
)
PROBLEM = Problem("conv", tuple(BOUNDS), tuple(BOUNDS.values()), SPACES)
PACKED = (Packing("A", 1, 5), Packing("B", 1, 2), Packing("Z", 1, 1))


def words(kept, extents, storage):
    sizes = {space.name: storage.packing_of(space.name).size_per_value for space in SPACES}
    m, n, r = (extents[dim] for dim in BOUNDS)
    tiles = {"A": 2 * (m - 1) + r, "B": n * r, "Z": m * n}
    return sum(sizes[name] * tiles[name] for name in kept)


@pytest.mark.parametrize("packing", [(), PACKED])
@pytest.mark.parametrize("kept", ["A", "AB", "ABZ", "Z"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
def test_nothing_can_be_taken_from_the_least_one(kept, share, packing):
    storage = StorageLevel("buffer", 1000, packing=packing)
    whole = words(kept, BOUNDS, storage)
    limit = int(share * whole) if share < 0.9 else whole - 1
    tile = least_oversize(PROBLEM, storage, limit, kept, BOUNDS)
    assert tile.words == words(tile.kept, tile.extents, storage) > limit
    assert tile.kept <= set(kept)
    for name in tile.kept:
        assert words(tile.kept - {name}, tile.extents, storage) <= limit
    for dim, extent in tile.extents.items():
        own = divisors(BOUNDS[dim])
        assert extent in own
        if extent > 1:
            smaller = {**tile.extents, dim: own[own.index(extent) - 1]}
            assert words(tile.kept, smaller, storage) <= limit


def test_what_is_too_large_for_a_capacity_is_too_large_for_a_smaller_one(monkeypatch):
    """One solve suffices once its tiles are known."""
    rule = FactorRule("D0", "<=", 1)  # so that tiles are not small by chance
    mapspace = copies((64, 64), 1000, 1, tile_rules=(rule,))
    feasibility = Feasibility(mapspace, largest_limit=0)
    (capacity,) = (own for own in constraints_of(mapspace) if isinstance(own, TileCapacity))
    others = [own for own in constraints_of(mapspace) if own != capacity]
    solved = []
    solve = feasibility._numbers.checked.solve
    monkeypatch.setattr(feasibility._numbers.checked, "solve", lambda *own: solved.append(1) or solve(*own))
    assert feasibility.decide([*others, capacity]).verdict is Verdict.FEASIBLE
    first = len(solved)
    assert first > 1
    smaller = replace(capacity, storage=replace(capacity.storage, size_words=999))
    for known in (capacity, smaller):
        solved.clear()
        assert feasibility.decide([*others, known]).verdict is Verdict.FEASIBLE
        assert len(solved) == 1
