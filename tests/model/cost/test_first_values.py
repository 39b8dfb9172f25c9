"""Given first values of outputs, as in ``C += A B``: what reads and fills they cost, and who refuses them."""

from dataclasses import replace
from fractions import Fraction

import pytest

from model.architecture import Architecture, Compute, StorageLevel
from model.cost import evaluate
from model.counting import ACCELFORGE, EXACT, TIMELOOP, Counting
from model.fused.cascade import Cascade, CascadeEinsum
from model.mapping import Loop, Mapping, StorageMapping
from model.problem import Dataspace, Term
from model.sparse import evaluate_sparse
from model.sparsity import Density, SparseLevel, Sparsity
from tests.mapspaces import free_mapspace, matmul
from tests.witness.sparse import execute_sparse

LEVELS = StorageLevel("main"), StorageLevel("buf")
EVERYTHING = frozenset("ABZ")
INSIDE = Mapping(
    (
        StorageMapping((), EVERYTHING),
        StorageMapping((Loop("N", 16), Loop("M", 16), Loop("K", 16)), EVERYTHING),
    )
)
"""All loops in the buffer, over K outermost: every word of Z is used 16 times there."""


def given():
    """Return a product of 16 x 16 matrices onto given values."""
    problem = matmul(16, 16, 16)
    spaces = (replace(space, given=space.read_write) for space in problem.dataspaces)
    return replace(problem, dataspaces=tuple(spaces))


def counts(problem, mapping, counting=EXACT):
    evaluation = evaluate(problem, Architecture("a", LEVELS, Compute("mac")), mapping, counting)
    spaces = (evaluation.level(level.name).dataspace("Z") for level in LEVELS)
    return [(space.reads, space.fills, space.updates) for space in spaces]


@pytest.mark.parametrize("counting", [EXACT, TIMELOOP])
def test_first_values_are_read_and_filled(counting: Counting):
    assert counts(matmul(16, 16, 16), INSIDE, counting) == [(0, 0, 256), (3840, 0, 4096)]
    assert counts(given(), INSIDE, counting) == [(256, 0, 256), (4096, 256, 4096)]


@pytest.mark.parametrize("counting", [EXACT, TIMELOOP])
def test_partial_sums_that_come_back_cost_what_they_did(counting: Counting):
    mapping = Mapping((StorageMapping((Loop("K", 16),), EVERYTHING), INSIDE.nodes[1]))
    inner = StorageMapping(INSIDE.nodes[1].temporal[:2], EVERYTHING)
    mapping = Mapping((mapping.nodes[0], inner))
    # With one tile of Z in the buffer nothing comes back; with tiles of one row each it does 15 times.
    rows = Mapping(
        (
            StorageMapping((Loop("M", 16), Loop("K", 16)), EVERYTHING),
            StorageMapping((Loop("N", 16),), EVERYTHING),
        )
    )
    assert counts(given(), mapping, counting) == [(256, 0, 256), (4096, 256, 4096)]
    nothing, onto = (counts(problem, rows, counting) for problem in (matmul(16, 16, 16), given()))
    assert nothing == [(15 * 256, 0, 16 * 256), (15 * 256, 15 * 256, 16 * 256)]
    assert onto == [(16 * 256, 0, 16 * 256), (16 * 256, 16 * 256, 16 * 256)]


def test_operands_have_no_first_values():
    with pytest.raises(ValueError, match="'A' are given, which is no output"):
        Dataspace("A", ((Term("M"),),), given=True)


def test_what_does_not_know_first_values_refuses_them():
    problem, architecture = given(), Architecture("a", LEVELS, Compute("mac"))
    sparsity = Sparsity({"A": Density(share=Fraction(1, 2))}, (SparseLevel(),) * 2)
    mapspace = free_mapspace(problem, *LEVELS)
    with pytest.raises(ValueError, match="'Z' are not supported by AccelForge's rule"):
        evaluate(problem, architecture, INSIDE, ACCELFORGE)
    with pytest.raises(ValueError, match="'Z' are not supported by AccelForge's rule"):
        replace(mapspace, counting=ACCELFORGE).check_searchable(by_bounds=True)
    with pytest.raises(ValueError, match="sparse data are not counted where first values"):
        evaluate_sparse(problem, architecture, sparsity, INSIDE)
    with pytest.raises(ValueError, match="know no given first values"):
        execute_sparse(problem, architecture, sparsity, INSIDE, {})
    with pytest.raises(ValueError, match="of 'e' are not modelled in cascades"):
        Cascade("c", (CascadeEinsum("e", mapspace, ()),))
