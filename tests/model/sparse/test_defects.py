"""Timeloop's defects: the right figure, and Timeloop's. docs/sparse.md has both of each."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from model.sparse import SparseEvaluation
from model.sparsity import SparseCompute
from tests.conftest import REPOSITORY
from tests.model.sparse.nests import Nest, gemm, level, mapping, nest, ranks, saves, structured, uniform

PAGE = (REPOSITORY / "docs" / "sparse.md").read_text(encoding="utf-8")
SPARSE_A = {"A": uniform("0.1"), "B": uniform("0.5")}


def both(case: Nest) -> tuple[SparseEvaluation, SparseEvaluation]:
    return case.evaluated(), case.evaluated(defects=True)


def under_units(*inner: object, formats: bool = True) -> Nest:
    """Return a nest whose outer level skips tiles of B."""
    four, two = (
        {"B": ranks(*(["RLE"] * 4))} if formats else None,
        {"B": ranks("RLE", "RLE")} if formats else None,
    )
    levels = (level(saves("skipping", "B", "A"), formats=four), level(*inner, formats=two))
    return nest(mapping("M4 K4 N2", "M2 K2 N2"), SPARSE_A, levels)


def listed(name: str) -> list[str]:
    """Return the cells of a row of the page's table of defects."""
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| ") and name in line]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_what_an_outer_unit_cuts_off_moves_no_metadata():
    right, timeloop = (
        sum(words for words, _ in each.level("inner").dataspace("B").moved.metadata.fills)
        for each in both(under_units())
    )
    assert listed("the metadata further in")[2:] == [f"{right} words", f"{timeloop} words"]


def test_metadata_reads_are_no_updates():
    case = under_units(saves("gating", "B", "A"))
    right, timeloop = (
        sum(words for words, _ in each.level("inner").dataspace("B").moved.metadata.reads)
        for each in both(case)
    )
    assert listed("the metadata reads of a unit")[2:] == [f"{right} words", f"{timeloop} words"]


def test_an_inner_unit_that_saves_less_saves_nothing_more():
    levels = (level(saves("skipping", "B", "A")), level(saves("gating", "B", "Z")))
    case = nest(mapping("M4 K4 N2", "M2 K2 N2"), SPARSE_A, levels)
    case = replace(case, sparsity=replace(case.sparsity, densities={**SPARSE_A, "Z": uniform("0.99")}))
    right, timeloop = (each.level("inner").dataspace("B").moved.gated.reads for each in both(case))
    assert timeloop > 2**63
    assert listed("an inner unit that sees less")[2:] == [f"{right}", f"{timeloop}"]


def test_skipped_computations_without_a_price_are_free():
    formats = {"A": ranks("RLE", "RLE"), "B": ranks("RLE", "RLE")}
    inner = {"A": ranks("RLE"), "B": ranks("RLE", "RLE")}
    case = nest(
        mapping("M8", "K8 N4"),
        {"A": structured("1/4"), "B": structured("1/2")},
        (level(formats=formats), level(formats=inner)),
        SparseCompute(skips_unaligned=True),
    )
    right, timeloop = (each.compute_energy for each in both(case))
    assert listed("skipped or gated computes")[2:] == [f"{right} pJ", f"{timeloop} pJ"]
    priced = replace(
        case,
        sparsity=replace(
            case.sparsity, compute=SparseCompute(skips_unaligned=True, energy={"skipped_compute": 0})
        ),
    )
    assert priced.evaluated(defects=True).compute_energy == Fraction(right)


def test_offsets_compress_nothing():
    formats = {"A": ranks("UOP", "UOP")}
    case = nest(
        mapping("", "M8 K8 N4"), {"A": structured("1/4")}, (level(formats=formats), level(formats=formats))
    )
    right, timeloop = (each.level("inner").dataspace("A").size_words for each in both(case))
    assert listed("formats of offsets and masks alone")[2:] == [f"{right} words", f"{timeloop} words"]


ONE_OF_EIGHT = {"A": uniform("0.125")}


def reads_of_b(outer: str, inner: str, bypass: str) -> list[str]:
    """Return the words of B that the outer level reads for a 2 x 4 x 1 product, and those by Timeloop."""
    levels = (level(saves("skipping", "B", "A")), level())
    case = nest(mapping(outer, inner, "K2", bypass), ONE_OF_EIGHT, levels, problem=gemm(2, 4, 1))
    return [f"{each.level('outer').dataspace('B').moved.data.reads:.1f}" for each in both(case)]


def test_a_condition_that_an_outer_loop_moves_is_met_while_the_tile_stays():
    assert listed("an outer loop moves the condition")[2:] == reads_of_b("M2 K2", "", "")


def test_children_with_words_of_their_own_are_not_looked_at_together():
    assert listed("a unit that serves the compute past a level")[2:] == reads_of_b("", "M2 K2", "B")
