"""Short tiles: the model's expectations against executions over all places of a tensor's nonzeros."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from model.cost import evaluate
from model.sparse import MappingError
from model.sparsity import Density, Sparsity
from tests.model.sparse.nests import Nest, gemm, level, mapping, nest, ranks, saves
from tests.model.sparse.test_random_nests import counted, expected, random_nest
from tests.witness.sparse import Mask, SparseExecution, execute_sparse, tensor_shape


def all_executions(case: Nest, name: str) -> list[SparseExecution]:
    """Run a mapping for all places of the nonzeros of one tensor; the others have no zeros."""
    shapes = {own.name: tensor_shape(case.problem, own) for own in case.problem.dataspaces}
    words = int(np.prod(shapes[name]))
    nonzeros = -(-case.sparsity.density(name).share * words // 1)
    runs = []
    for places in combinations(range(words), int(nonzeros)):
        tensors: dict[str, Mask] = {own: np.ones(shape, dtype=bool) for own, shape in shapes.items()}
        tensors[name] = np.isin(np.arange(words), places).reshape(shapes[name])
        runs.append(execute_sparse(case.problem, case.architecture, case.sparsity, case.mapping, tensors))
    return runs


def assert_means(case: Nest, name: str) -> None:
    """Compare the model with the mean of all executions, up to the words that rounding makes."""
    of = expected(case.evaluated())
    means = np.mean([counted(run, of) for run in all_executions(case, name)], axis=0)
    for mean, (key, (words, room)) in zip(means, of.items(), strict=True):
        assert abs(mean - words) <= room, key


SKIPS = saves("skipping", "B", "A")
SHARE = {"A": Density("hypergeometric", Fraction(2, 21))}
CASES = {
    "tiles of B skipped where short tiles of A are empty": nest(
        mapping("K4 M3", "K2 N2"), SHARE, (level(SKIPS), level()), problem=gemm(3, 7, 2)
    ),
    "short tiles in an array": nest(
        mapping("K4", "M2 K2 N2", "M2"), SHARE, (level(SKIPS), level(SKIPS)), problem=gemm(3, 7, 2)
    ),
    "children that have less to do": nest(
        mapping("N2", "M3 K2", "K4"), SHARE, (level(), level(SKIPS)), problem=gemm(3, 7, 2)
    ),
    "rounds with fewer rows": nest(
        mapping("K4 M3", "M2 N2"), SHARE, (level(SKIPS), level(SKIPS)), problem=gemm(5, 4, 2)
    ),
    "empty short tiles do not come": nest(
        mapping("M3 K4", "K2 N2"),
        SHARE,
        (level(formats={"A": ranks("UOP", "RLE", "RLE")}), level(formats={"A": ranks("RLE")})),
        problem=gemm(3, 7, 2),
    ),
    "unpacked on the way in": nest(
        mapping("M3 K4", "K2 N2"), SHARE, (level(formats={"A": ranks("B", "RLE", "B")}), level(SKIPS)),
        problem=gemm(3, 7, 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_mean_of_all_executions(name: str):
    assert_means(CASES[name], "A")


def test_chances_are_those_of_short_tiles():
    """Of 21 words of A two are nonzero: two words are empty with a chance of 171/210, one with 190/210."""
    case = nest(mapping("K4 M3", "K2 N2"), SHARE, (level(SKIPS), level()), problem=gemm(3, 7, 2))
    reads = case.evaluated().level("outer").dataspace("B").moved
    skipped = 3 * (3 * 4 * Fraction(171, 210) + 2 * Fraction(190, 210))
    assert reads.skipped.reads == int(skipped) == 34
    assert reads.data.reads == 42 - 34


@pytest.mark.parametrize("seed", range(12))
def test_dense_data_move_as_the_dense_model_says(seed: int):
    case = random_nest(seed, "any")
    plain = replace(case, sparsity=Sparsity({}, tuple(level() for _ in case.sparsity.levels)))
    dense = evaluate(case.problem, case.architecture, case.mapping)
    priced, run = plain.evaluated(), plain.executed(0)
    for own in dense.levels:
        for cost in own.dataspaces:
            tally = run.tallies[own.name, cost.dataspace]
            totals = cost.total_reads, cost.total_fills, cost.total_updates
            assert (tally.reads, tally.fills, tally.updates) == totals
            loads = priced.level(own.name).dataspace(cost.dataspace).loads
            assert totals == tuple(sum(n * moved.data[i] for n, moved in loads) for i in range(3))
    assert priced.energy == dense.energy
    assert priced.cycles == dense.cycles


def test_children_that_are_skipped_are_not_priced_with_remainders():
    unit = saves("skipping_spatial", "B", "A")
    formats = {"A": ranks("B", "B", "B")}
    case = nest(
        mapping("M3", "K2 N2", "K4"), SHARE, (level(unit, formats=formats), level()), problem=gemm(3, 7, 2)
    )
    with pytest.raises(MappingError, match="remainders are not priced where units skip its children"):
        case.evaluated()
