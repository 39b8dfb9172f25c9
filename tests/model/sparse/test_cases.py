"""Timeloop's figures in ../shared/reference/sparse: counts exactly, energies and cycles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model.counting import TIMELOOP
from model.sparse import SparseEvaluation, evaluate_sparse
from model.sparse.counting import MetadataAccesses, RankWords
from model.sparse.report import SparseDataspaceCost
from tests.model.sparse.cases import CASES, case_names, load_case, statistics

ACCESSES = ("reads", "fills", "updates")
NAMES = case_names() or [pytest.param("", marks=pytest.mark.skip("../shared is absent"))]
DEFECTIVE = {"own-RLE-skipping", "own-UB-options", "own-hyper-B-gating", "own-two-safs-blocks"}
"""Cases that one of Timeloop's defects changes."""


def evaluated(name: str, directory: Path | None, defects: bool) -> SparseEvaluation:
    loaded = load_case(name, directory)
    mapspace = loaded.mapspace
    if mapspace.sparsity is None:
        pytest.skip("nothing is sparse in this case")
    assert loaded.mapping is not None
    return evaluate_sparse(
        mapspace.problem, mapspace.architecture, mapspace.sparsity, loaded.mapping, TIMELOOP, defects
    )


def ranks(printed: Any, count: int) -> tuple[RankWords, ...]:
    """Return the words of each rank, the lowest first; Timeloop prints one 0 for none."""
    if not printed:
        return ((0, 0),) * count
    return tuple((printed[str(rank)][0], printed[str(rank)][1]) for rank in range(count))


def words_of(metadata: MetadataAccesses, access: str, count: int) -> tuple[RankWords, ...]:
    return getattr(metadata, access) or ((0, 0),) * count


def assert_counts(space: SparseDataspaceCost, printed: dict[str, Any]) -> None:
    moved = space.moved
    kinds = {"Algorithmic": space.dense, "Actual": moved.data, "Gated": moved.gated, "Skipped": moved.skipped}
    of_metadata = {
        "Actual": moved.metadata,
        "Gated": moved.gated_metadata,
        "Skipped": moved.skipped_metadata,
    }
    count = len(moved.metadata.reads)
    for access in ACCESSES:
        for kind, words in kinds.items():
            assert getattr(words, access) == printed[f"{kind} scalar {access} (per-instance)"], (kind, access)
        for kind, metadata in of_metadata.items():
            key = f"{kind} scalar format {access} (per-instance)"
            if key in printed:
                assert words_of(metadata, access, count) == ranks(printed[key], count), key
    assert space.temporal_reductions == printed["Temporal reductions (per-instance)"]
    assert space.tile_words == printed["Data tile shape"]
    assert space.size_words == printed["Max utilized data storage capacity"]
    of_format = printed["Max utilized Repr format storage capacity"]
    assert space.metadata_size == ranks(of_format, len(space.metadata_size))


def printed_digits(figure: float) -> Any:
    """Return what a figure with two decimals says."""
    return pytest.approx(figure, rel=1e-6, abs=0.0051)


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_as_timeloop_prints_it(name, tmp_path):
    evaluation = evaluated(name, tmp_path, defects=True)
    printed = statistics(name)
    units = evaluation.units_per_pj
    for level_name, level in printed["levels"].items():
        figures = level["stats"]
        if "Actual Computes (total)" in figures:
            assert evaluation.computes.actual == figures["Actual Computes (total)"]
            assert evaluation.computes.gated == figures["Gated Computes (total)"]
            assert evaluation.computes.skipped == figures["Skipped Computes (total)"]
            assert evaluation.compute_cycles == figures["Cycles"]
            assert float(evaluation.compute_energy / units) == printed_digits(figures["Energy (total)"])
            continue
        for space_name, of_space in level["dataspaces"].items():
            space = evaluation.level(level_name).dataspace(space_name)
            assert_counts(space, of_space)
            assert float(space.energy / units) == printed_digits(of_space["Energy (total)"])
            assert space.instances == pytest.approx(of_space["Utilized instances (average)"], abs=0.0051)
        if level["dataspaces"]:
            own = evaluation.level(level_name)
            assert own.cycles == figures["Cycles"]
            assert float(own.leak_energy / units) == printed_digits(level["specs"]["Leakage energy (total)"])
    assert evaluation.cycles == int(printed["cycles"])
    per_compute = printed["fj"]["fJ/Algorithmic-Compute"]["Total"]
    assert evaluation.energy_pj * 1000 / evaluation.dense_computes == printed_digits(per_compute)
    assert evaluation.valid


@pytest.mark.parametrize("name", NAMES)
def test_without_defects_only_known_cases_change(name, tmp_path):
    right, defective = (evaluated(name, tmp_path, defects) for defects in (False, True))
    assert (right != defective) == (name in DEFECTIVE)


@pytest.mark.skipif(not CASES.exists(), reason="../shared is absent")
def test_metadata_of_what_an_outer_unit_skips_does_not_move(tmp_path):
    right, timeloop = (evaluated("own-RLE-skipping", tmp_path, defects) for defects in (False, True))
    figures = [each.level("L0").dataspace("O").moved.metadata for each in (right, timeloop)]
    assert [metadata.fills[0] for metadata in figures] == [(23, 0), (120, 0)]
    assert (right.cycles, timeloop.cycles) == (156, 214)


@pytest.mark.skipif(not CASES.exists(), reason="../shared is absent")
def test_offsets_alone_compress_nothing(tmp_path):
    right, timeloop = (evaluated("own-hyper-B-gating", tmp_path, defects) for defects in (False, True))
    assert [each.level("L3").dataspace("A").size_words for each in (right, timeloop)] == [64, 8]


@pytest.mark.parametrize("name", NAMES)
def test_a_flattened_spec_is_read_as_it_stands(name, tmp_path):
    flat, nested = (evaluated(name, directory, defects=False) for directory in (None, tmp_path))
    assert (flat.energy, flat.cycles, flat.computes) == (nested.energy, nested.cycles, nested.computes)
