"""The shipped designs for sparse data: all load, and small problems are proven on them."""

from dataclasses import replace
from pathlib import Path

import pytest

from model.extents import PERFECT
from model.formats.timeloop import LoadOptions, TimeloopOptions, load_timeloop
from model.mapspace import Mapspace
from model.problem import Problem
from solver.result import Options, Status
from solver.sparse_search import detailed
from solver.stages import map_einsum

SPECS = Path(__file__).parents[2] / "specs"
SPARSE = SPECS / "sparse"
GEMM = SPARSE / "problems" / "gemm.yaml"
FORMATS = sorted((SPARSE / "formats").glob("*.yaml"))
LAYER = SPECS / "layers" / "resnet18" / "16_conv5_block1_a.yaml"


def loaded(*files: Path) -> Mapspace:
    options = LoadOptions(timeloop=TimeloopOptions(skip_mapping=True), model_sparse=True)
    return load_timeloop(files, options=options).mapspace


def smaller(mapspace: Mapspace, bound: int) -> Mapspace:
    """Return the mapspace with bounds of that many iterations at most."""
    problem = mapspace.problem
    bounds = tuple(min(bound, own) for own in problem.bounds)
    return replace(mapspace, problem=Problem(problem.name, problem.dims, bounds, problem.dataspaces))


def assert_saves(mapspace: Mapspace) -> None:
    result = map_einsum(replace(mapspace, factors=PERFECT), Options(objectives=("energy",)))
    assert result.status is Status.OPTIMAL
    best = detailed(mapspace, result.mapping)
    assert best is not None
    assert best.energy < best.dense_energy


def test_a_dot_product():
    assert_saves(loaded(SPARSE / "dot_product.yaml", SPARSE / "problems" / "dot_product.yaml"))


@pytest.mark.parametrize("path", FORMATS, ids=lambda path: path.stem)
def test_formats_of_matrix_products(path):
    sparsity = loaded(SPARSE / "gemm_array.yaml", path, GEMM).sparsity
    assert sparsity is not None
    counts = [[len(own.ranks) for own in level.representations.values()] for level in sparsity.levels]
    assert counts == [[3, 3], [2, 2], [1, 1]]
    assert sparsity.optimized


def test_hierarchical_skipping():
    assert_saves(smaller(loaded(SPARSE / "extensor_like.yaml", GEMM), 16))


@pytest.mark.parametrize(
    "densities", sorted((SPARSE / "densities").glob("*.yaml")), ids=lambda path: path.stem
)
def test_an_array_that_gates(densities):
    mapspace = loaded(SPARSE / "eyeriss_gating.yaml", LAYER, densities)
    assert mapspace.sparsity is not None
    assert_saves(mapspace)
