"""Bounds on lists of tiles against the enumeration of all mappings."""

from dataclasses import replace

import numpy as np
import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.mapspace import KeepRules, Mapspace
from model.problem import Dataspace, Problem, Term
from solver.search.path.charges import ENERGY, Charges
from solver.search.path.masked import Masked, spatial_choices
from solver.search.path.tables import Frame
from solver.search.space.search_space import SearchSpace
from tests.bruteforce import optimum
from tests.mapspaces import free_mapspace


def bypassed() -> Mapspace:
    """A convolution whose inputs go from the outermost memory to the innermost one."""
    spaces = (
        Dataspace("W", ((Term("K"),), (Term("C"),), (Term("R"),))),
        Dataspace("I", ((Term("C"),), (Term("P"), Term("R")))),
        Dataspace("O", ((Term("K"),), (Term("P"),)), read_write=True),
    )
    problem = Problem("convolution", ("K", "C", "P", "R"), (4, 4, 2, 3), spaces)
    dram = StorageLevel("DRAM", energy=AccessEnergy(200, 170, 190))
    buffer = StorageLevel("buffer", 16, energy=AccessEnergy(6, 6, 6))
    registers = StorageLevel("registers", 4, energy=AccessEnergy(1, 1, 1))
    keep = KeepRules(frozenset("WIO")), KeepRules(frozenset("WO"), frozenset("I"))
    found = free_mapspace(problem, dram, buffer, Fanout("row", 1, 1), registers)
    return replace(found, keep=(*keep, KeepRules(frozenset("I"), frozenset("WO"))))


def test_windows_that_bypass_the_level_outside(monkeypatch: pytest.MonkeyPatch):
    """Where windows go back along the same tiles, sums that the buffer keeps are repeated."""
    mapspace = bypassed()
    space = SearchSpace(mapspace)
    (mask,) = space.keep_masks
    best = optimum(mapspace, "energy")
    assert best is not None

    def costs() -> np.ndarray:
        frame = Frame(space)
        masked = Masked(frame, Charges(space, mask), {})
        unrolled = spatial_choices(frame).repeated(0, len(masked.tiles))
        listed = masked.listed(masked.tiles, unrolled, np.zeros(1, dtype=np.int64))
        fixed = masked.fixed(unrolled, np.zeros(len(unrolled)))
        return np.asarray(fixed + masked.cost(listed, ENERGY, np.full(len(unrolled), 1e30)))

    closer = costs()
    monkeypatch.setattr(
        Masked, "_closed_apart", lambda _, still, places, *rest: np.full(len(places), -np.inf)
    )
    assert np.count_nonzero(costs() < closer) > 0
    assert closer.min() <= best[0]
