"""Random mapspaces of Einsums beyond the usual ones, and what several tests of the search share."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from model.mapspace import Mapspace
from model.problem import Dataspace, Term
from solver.search.bounds import LatticeBounds
from solver.search.goal import UNLIMITED
from solver.search.lattice import Lattice, Slot
from solver.search.space import SearchSpace, keep_masks
from solver.search.subproblem import Subproblem
from solver.search.survey import SpatialGrid
from tests import strategies

COEFFICIENTS = (1, 1, 1, 2, 2, 3, 4, -1, -2)


def unusual_einsum(random: Random) -> tuple[Dataspace, ...]:
    """Operands with long sums, negative coefficients and dimensions in several ranks; a dense output."""
    dims = "PQRSK"[: random.randint(2, 5)]
    operands = []
    for name in ("A", "B"):
        ranks = []
        for _ in range(random.randint(0, 3)):
            terms = random.sample(dims, min(random.choice((1, 1, 2, 2, 3)), len(dims)))
            ranks.append(tuple(Term(dim, random.choice(COEFFICIENTS)) for dim in terms))
        operands.append(Dataspace(name, tuple(ranks)))
    loose = random.sample(dims, random.randint(1, len(dims)))
    ranks = []
    while loose:
        size = random.choice((1, 1, 2, 3))
        ranks.append(tuple(Term(dim, random.choice((1, 1, -1))) for dim in loose[:size]))
        loose = loose[size:]
    return (*operands, Dataspace("Z", tuple(ranks), read_write=True))


def unusual_mapspaces(
    monkeypatch: pytest.MonkeyPatch, seed: int, count: int, max_mappings: int
) -> list[Mapspace]:
    """Mapspaces of `unusual_einsum`, otherwise as `tests.strategies.random_mapspaces` draws them."""
    monkeypatch.setattr(strategies, "EINSUMS", (unusual_einsum,))
    return strategies.random_mapspaces(seed, count, max_mappings)


def random_slot(random: Random, lattice: Lattice) -> Slot:
    """A slot that leaves about half of the dimensions free and lists some divisors for the others."""
    allowed = []
    for dim in range(len(lattice.bounds)):
        divisors = lattice.divisors_of(dim)
        free = random.random() < 0.5
        size = len(divisors) if free else random.randint(1, len(divisors))
        allowed.append(frozenset(random.sample(divisors, size)))
    return Slot(lattice, tuple(allowed))


def subproblems(space: SearchSpace) -> Iterable[Subproblem]:
    """Every keep mask with every combination of spatial classes."""
    grid = SpatialGrid(space)
    for mask in keep_masks(space):
        for number in range(len(grid)):
            yield Subproblem(space, mask, grid.spatial(number))


def unlimited_bounds(sub: Subproblem) -> LatticeBounds:
    """Lattice bounds that no incumbent has thinned out."""
    return LatticeBounds(sub, UNLIMITED)
