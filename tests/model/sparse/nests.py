"""Small sparse problems on small hardware, made by hand."""

from __future__ import annotations

from collections.abc import Mapping as Named
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.problem import Dataspace, Problem, Term
from model.sparse import SparseEvaluation, evaluate_sparse
from model.sparsity import (
    Conditional,
    Density,
    Format,
    Optimization,
    OptimizationKind,
    Rank,
    Representation,
    SparseCompute,
    SparseLevel,
    Sparsity,
)
from tests.witness.sparse import SparseExecution, draw, execute_sparse, tensor_shape


def space(name: str, *dims: str, read_write: bool = False) -> Dataspace:
    return Dataspace(name, tuple((Term(dim),) for dim in dims), read_write)


def gemm(m: int, k: int, n: int) -> Problem:
    spaces = (space("A", "M", "K"), space("B", "K", "N"), space("Z", "M", "N", read_write=True))
    return Problem("gemm", ("M", "K", "N"), (m, k, n), spaces)


ENERGY = AccessEnergy(read=10, fill=10, update=10)


def hardware(children: int = 1) -> Architecture:
    nodes = [
        StorageLevel("outer", energy=ENERGY),
        Fanout("array", children),
        StorageLevel("inner", energy=ENERGY),
    ]
    if children == 1:
        del nodes[1]
    return Architecture("two levels", tuple(nodes), Compute("mac", 1))


def loops(text: str) -> tuple[Loop, ...]:
    """Return loops from a text such as ``N4 K2``, innermost first."""
    return tuple(Loop(part[0], int(part[1:])) for part in text.split())


def mapping(outer: str, inner: str, across: str = "", bypass: str = "", spaces: str = "ABZ") -> Mapping:
    """Return a mapping onto `hardware`; the inner level bypasses some of the dataspaces."""
    spatial = tuple(SpatialLoop(loop.dim, loop.bound, "x") for loop in loops(across))
    nodes = [
        StorageMapping(loops(outer), frozenset(spaces)),
        FanoutMapping(spatial),
        StorageMapping(loops(inner), frozenset(spaces) - frozenset(bypass)),
    ]
    if not across:
        del nodes[1]
    return Mapping(tuple(nodes))


def saves(kind: OptimizationKind, target: str, conditions: str) -> Optimization:
    return Optimization(kind, (Conditional(target, tuple(conditions)),))


def ranks(*formats: Format, bits: int = 4) -> Representation:
    """Return ranks, the top one first."""
    return Representation(tuple(Rank(name, bits, bits) for name in reversed(formats)))


def level(*units: Optimization, formats: Named[str, Representation] | None = None) -> SparseLevel:
    return SparseLevel(
        representations={} if formats is None else formats,
        optimizations=units,
        metadata_word_bits=4,
        metadata_width_bits=16,
        decompresses=True,
        compresses=True,
    )


@dataclass(frozen=True)
class Nest:
    """A mapping of a sparse problem."""

    problem: Problem
    architecture: Architecture
    mapping: Mapping
    sparsity: Sparsity

    def evaluated(self, defects: bool = False) -> SparseEvaluation:
        """Return the model's expectations."""
        return evaluate_sparse(
            self.problem, self.architecture, self.sparsity, self.mapping, timeloop_defects=defects
        )

    def executed(self, seed: int) -> SparseExecution:
        """Run the mapping on tensors that are drawn with a seed."""
        random = np.random.default_rng(seed)
        tensors = {
            tensor.name: draw(tensor_shape(self.problem, tensor), self.sparsity.density(tensor.name), random)
            for tensor in self.problem.dataspaces
        }
        return execute_sparse(self.problem, self.architecture, self.sparsity, self.mapping, tensors)


def uniform(share: str) -> Density:
    return Density("hypergeometric", Fraction(share))


def structured(share: str) -> Density:
    return Density("fixed_structured", Fraction(share))


def nest(
    mapped: Mapping,
    densities: Named[str, Density],
    levels: tuple[SparseLevel, SparseLevel],
    compute: SparseCompute | None = None,
    problem: Problem | None = None,
) -> Nest:
    """Return a nest of an 8 x 8 x 4 product, or of another problem; with 4 children where it is across."""
    children = len(mapped.nodes) == 3
    architecture = hardware(4 if children else 1)
    sparsity = Sparsity(densities, levels, compute or SparseCompute())
    return Nest(problem or gemm(8, 8, 4), architecture, mapped, sparsity)
