"""Bounds on windows with remainders, against the cheapest mapping of each spatial choice."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.extents import ANY
from model.mapspace import FactorRule, KeepRules, Mapspace, TemporalRules
from model.problem import Dataspace, Problem, Term
from solver.search.bounds.lattice_bounds import LatticeBounds
from solver.search.space import search_space
from solver.search.space.grid import spatial_grid
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.subproblems.groups import together
from tests.bruteforce import count_mappings
from tests.mapspaces import free_mapspace
from tests.solver.search.holding import least_by_choice, least_energies

MOST = 700
"""Mappings that are enumerated of each mapspace, at most."""


def convolution(random: Random) -> Problem:
    """One with a window, an output channel or an input channel besides, or two windows."""
    bounds, window = (
        {"P": random.choice((5, 6, 7, 9)), "R": random.choice((2, 3, 4))},
        (
            Term("P", random.choice((1, 1, 2, 3))),
            Term("R", random.choice((1, 1, 2, -1))),
        ),
    )
    inputs, weights, outputs = (window,), ["R"], ["P"]
    match random.randrange(4):
        case 0:
            bounds.update(K=2)
            weights, outputs = ["R", "K"], ["P", "K"]
        case 1:
            bounds.update(C=random.choice((2, 3)))
            inputs, weights = ((Term("C"),), window), ["R", "C"]
        case 2:
            bounds.update(P=random.choice((2, 3, 5)), Q=random.choice((2, 3)), S=2)
            inputs, weights, outputs = (window, (Term("Q"), Term("S"))), ["R", "S"], ["P", "Q"]
    spaces = (
        Dataspace("I", inputs),
        Dataspace("W", tuple((Term(d),) for d in weights)),
        Dataspace("O", tuple((Term(d),) for d in outputs), read_write=True),
    )
    return Problem("convolution", tuple(bounds), tuple(bounds.values()), spaces)


def mapspace(random: Random) -> Mapspace:
    """Fanouts in a row, of which some children may have nothing to do, around memories that keep inputs."""
    problem = convolution(random)
    nodes: list[StorageLevel | Fanout] = [StorageLevel("DRAM", energy=AccessEnergy(100, 10, 0))]
    for level in range(random.choice((1, 1, 2))):
        nodes += [Fanout(f"F{level}{n}", random.choice((2, 3, 4))) for n in range(random.choice((0, 1, 2)))]
        size = random.choice((None, 4, 6, 8, 12))
        nodes.append(
            StorageLevel(f"L{level}", size_words=size, energy=AccessEnergy(1, random.choice((0, 3)), 0))
        )
    free = free_mapspace(problem, *nodes)
    names = frozenset("IWO")
    keep = [KeepRules(names), *(KeepRules(frozenset("I"), names - {"I"}) for _ in free.keep[1:])]
    rules = [
        TemporalRules(
            tuple(
                FactorRule(d, "<=", random.choice((1, 2, 3))) for d in problem.dims if random.random() < 0.3
            ),
            inner=tuple(random.sample(problem.dims, 2)),
        )
        for _ in free.temporal
    ]
    return replace(free, keep=tuple(keep), temporal=tuple(rules), factors=ANY)


def mapspaces(seed: int, count: int) -> Iterator[Mapspace]:
    """Some that are neither trivial nor too large to enumerate."""
    random = Random(seed)
    while count:
        found = mapspace(random)
        if 100 < count_mappings(found, MOST) < MOST:
            count -= 1
            yield found


def least_of_each(own: Mapspace) -> list[tuple[KeepMask, int, int]]:
    """A keep mask, the number of a spatial choice, and the least energy."""
    space = SearchSpace(own)
    grid, least = spatial_grid(space), least_by_choice(own, space)
    masks = ((mask, least_energies(space, grid, mask, least)) for mask in space.keep_masks)
    return [(mask, number, energy) for mask, each in masks for number, energy in each.items()]


@pytest.mark.parametrize("seed", range(4))
def test_no_mapping_is_below_the_bounds(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Neither of single numbers of tiles, pairs of them looked at or not, nor of cells of similar ones."""
    checked = 0
    for own in mapspaces(seed, 3):
        energies = least_of_each(own)
        for grains in ((2.0,), (1.3, 2.0, 4.0)):
            monkeypatch.setattr(search_space, "GRAINS", grains)
            space = SearchSpace(own)
            grid = spatial_grid(space)
            for (mask, number, energy), finer in product(energies, (space, *space.coarser)):
                sub = together(grid.chosen(np.array([number])), mask, 1).on(finer)
                for pairwise in (False, True):
                    bounds = LatticeBounds(sub, energy + 1, pairwise=pairwise)
                    assert not bounds.empty
                    assert bounds.least <= energy
                    checked += 1
    assert checked > 20
