"""Builders of small mapspaces: an Einsum on the nodes that a test names, with few rules or none."""

from __future__ import annotations

from fractions import Fraction

from model.architecture import Architecture, Compute, Fanout, StorageLevel
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem, Term


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
