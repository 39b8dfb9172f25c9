"""Builders of small mapspaces: an Einsum on the nodes that a test names, with few rules or none."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.extents import ANY, PERFECT
from model.formats.timeloop import LoadOptions, load_timeloop
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem, Term

PERFECT_ONLY = LoadOptions(factors=PERFECT)
"""For tests of what ships that are not about remainders."""


def perfect_mapspace(*files: str | Path, **options: Any) -> Mapspace:
    """Mapspace of spec files, with perfect factors."""
    return load_timeloop(files, options=replace(PERFECT_ONLY, **options)).mapspace


def matmul(m: int, n: int, k: int) -> Problem:
    """Matrix product ``Z[m, n] += A[m, k] * B[k, n]`` of these bounds."""

    def space(name: str, *dims: str, read_write: bool = False) -> Dataspace:
        return Dataspace(name, tuple((Term(dim),) for dim in dims), read_write)

    spaces = (space("A", "M", "K"), space("B", "K", "N"), space("Z", "M", "N", read_write=True))
    return Problem("matmul", ("M", "N", "K"), (m, n, k), spaces)


def free_mapspace(problem: Problem, *nodes: StorageLevel | Fanout, keep: bool = True) -> Mapspace:
    """Mapspace without rules, but that each level keeps everything unless `keep` is false."""
    architecture = Architecture("a", nodes, Compute("mac"))
    names = frozenset(space.name for space in problem.dataspaces) if keep else frozenset()
    return Mapspace(
        problem,
        architecture,
        tuple(TemporalRules() for _ in architecture.levels),
        tuple(SpatialRules() for _ in architecture.fanouts),
        tuple(KeepRules(names) for _ in architecture.levels),
    )


def copies(
    bounds: tuple[int, ...], words: int, mesh: int, units: int = 0, tile_rules: tuple[FactorRule, ...] = ()
) -> Mapspace:
    """Mapspace of copying a tensor with one dimension per bound from DRAM through a buffer and a fanout."""
    dims = tuple(f"D{place}" for place in range(len(bounds)))
    ranks = tuple((Term(dim),) for dim in dims)
    return Mapspace(
        Problem("copy", dims, bounds, (Dataspace("A", ranks), Dataspace("Z", ranks, read_write=True))),
        Architecture(
            "row",
            (StorageLevel("DRAM"), StorageLevel("buffer", size_words=words), Fanout("PE", mesh)),
            Compute("mac"),
        ),
        temporal=(TemporalRules(tile_rules), TemporalRules()),
        spatial=(SpatialRules(),),
        keep=(KeepRules(), KeepRules(frozenset({"A", "Z"}))),
        min_parallelism=Fraction(units),
    )


def uneven_split() -> Mapspace:
    """100 iterations on 4 instances whose buffers hold 20 to 24: tiles of 24 take 28 steps, of 20 take 40."""
    spaces = Dataspace("A", ((Term("N"),),)), Dataspace("Z", ((Term("N"),),), read_write=True)
    nodes = StorageLevel("DRAM"), Fanout("PE", 4), StorageLevel("buffer", size_words=48)
    mapspace = free_mapspace(Problem("copy", ("N",), (100,), spaces), *nodes)
    temporal = TemporalRules(), TemporalRules((FactorRule("N", ">=", 20),))
    return replace(mapspace, temporal=temporal, factors=ANY)


def outer_product(least: int, most: int) -> Mapspace:
    """Five words of A, fetched into a register for each of three repetitions, in two rounds.

    Loops of 3 and 2 fetch 9 words in the first round and 6 in the second; loops of 4 and 2 fetch 12 and 3:
    the last word is fetched anew each time. The inner loop has a factor between `least` and `most`.
    """
    spaces = (
        Dataspace("A", ((Term("P"),),)),
        Dataspace("B", ((Term("K"),),)),
        Dataspace("Z", ((Term("P"),), (Term("K"),)), read_write=True),
    )
    levels = (
        StorageLevel("DRAM", energy=AccessEnergy(100, 0, 0)),
        StorageLevel("buffer"),
        StorageLevel("register", size_words=1),
    )
    kept = [frozenset("ABZ"), frozenset("B"), frozenset("A")]
    between = FactorRule("P", ">=", least), FactorRule("P", "<=", most)
    temporal = (
        TemporalRules((FactorRule("K", "=", 1),)),
        TemporalRules((*between, FactorRule("K", "=", 3)), inner=("P", "K")),
        TemporalRules(tuple(FactorRule(dim, "=", 1) for dim in "PK")),
    )
    mapspace = free_mapspace(Problem("outer product", ("P", "K"), (5, 3), spaces), *levels)
    keep = tuple(KeepRules(own, frozenset("ABZ") - own) for own in kept)
    return replace(mapspace, keep=keep, temporal=temporal, factors=ANY)
