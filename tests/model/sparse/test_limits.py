"""Capacity by compressed tiles, overbooking, support for packing, and instances that are not needed."""

from dataclasses import replace
from fractions import Fraction

import pytest

from model.architecture import Architecture, Fanout
from model.sparse import MappingError
from model.sparsity import SparseLevel
from tests.model.sparse.nests import Nest, level, mapping, nest, ranks, saves, structured, uniform

PACKED = (level(formats={"A": ranks("UOP", "CP")}), level(formats={"A": ranks("UOP", "CP")}))
WHOLE = mapping("", "M8 K8 N4")


def limited(case: Nest, words: int, **sparse: object) -> Nest:
    """Return a nest whose inner level has so many words, and further properties."""
    *outer, inner = case.architecture.nodes
    architecture = replace(case.architecture, nodes=(*outer, replace(inner, size_words=words)))
    levels = (case.sparsity.levels[0], replace(case.sparsity.levels[1], **sparse))
    return replace(case, architecture=architecture, sparsity=replace(case.sparsity, levels=levels))


def broken(case: Nest, defects: bool = False) -> list[tuple[str, int]]:
    return [(violation.kind, violation.demand) for violation in case.evaluated(defects).violations]


def test_compressed_tiles_take_their_nonzeros():
    case = nest(WHOLE, {"A": structured("1/4")}, PACKED)
    # 16 of 64 words of A, 32 of B and of Z each; metadata: 9 offsets and 16 coordinates of 4 bits
    assert broken(limited(case, 80, metadata_size_bits=100)) == []
    assert broken(limited(case, 79, metadata_size_bits=100)) == [("capacity", 80)]
    assert broken(limited(case, 80, metadata_size_bits=99)) == [("metadata", 100)]


def test_offsets_alone_leave_tiles_as_large_as_they_are():
    formats = {"A": ranks("UOP", "UOP")}
    case = nest(WHOLE, {"A": structured("1/4")}, (level(formats=formats), level(formats=formats)))
    assert broken(limited(case, 80, metadata_size_bits=1000)) == [("capacity", 128)]
    assert broken(limited(case, 80, metadata_size_bits=1000), defects=True) == []


def test_overbooked_tiles_fit_most_of_the_time():
    inner = mapping("M8 N4", "K8")
    case = nest(
        inner,
        {"A": uniform("0.25")},
        (level(formats={"A": ranks("CP", "CP")}), level(formats={"A": ranks("CP")})),
    )
    # 8 of 64 words of A at a time: 8 at most, 4 in more than 95 % of the cases; 8 words of B, 1 of Z
    assert broken(limited(case, 13, metadata_size_bits=1000)) == [("capacity", 17)]
    overbooked = limited(
        case, 13, metadata_size_bits=1000, allow_overbooking=True, max_overbooked=Fraction(1, 10)
    )
    assert broken(overbooked) == []
    of = overbooked.evaluated().level("inner").dataspace("A")
    assert of.size_words <= 4
    assert 0.9 <= of.confidence < 1


def test_what_does_not_fit_is_read_farther_out():
    inner = mapping("M8 N4", "K8")
    case = nest(
        inner,
        {"A": uniform("0.25")},
        (level(formats={"A": ranks("CP", "CP")}), level(formats={"A": ranks("CP")})),
    )
    full = case.evaluated()
    share = {"allow_overbooking": True, "max_overbooked": Fraction(1, 10), "metadata_size_bits": 1000}
    part = limited(case, 13, **share).evaluated()
    confidence = Fraction(part.level("inner").dataspace("A").confidence)
    before, after = (each.level("inner").dataspace("A").energy for each in (full, part))
    assert after == before * confidence
    reads = full.level("inner").dataspace("A").moved.data.reads
    moved = part.level("outer").dataspace("A").energy - full.level("outer").dataspace("A").energy
    assert moved == reads * 10 * (1 - confidence)


@pytest.mark.parametrize(
    ("outer", "inner", "message"),
    [
        (level(formats={"A": ranks("UOP", "CP")}), SparseLevel(), "`decompression_supported` is not set"),
        (level(), level(formats={"A": ranks("UOP", "CP")}), "is compressed, but not at outer"),
        (level(formats={"A": ranks("CP")}), level(formats={"A": ranks("CP")}), "more loops than its format"),
        (level(formats={"A": ranks("CP")}), level(formats={"A": ranks("CP", "CP")}), "fewer ranks"),
        (level(formats={"A": ranks("B", "B")}), level(formats={"A": ranks("B", "CP")}), "other formats"),
        (
            level(formats={"Z": ranks("CP", "CP")}),
            replace(level(), compresses=False),
            "`compression_supported`",
        ),
    ],
)
def test_formats_that_do_not_fit(outer, inner, message):
    with pytest.raises(MappingError, match=message):
        nest(WHOLE, {"A": structured("1/4")}, (outer, inner)).evaluated()


def spatial(mesh: int, share: str) -> Nest:
    """Return a nest with a loop over K across 4 children that two units skip where A is empty."""
    units = (saves("skipping_spatial", "B", "A"), saves("skipping_spatial", "Z", "A"))
    formats = {"A": ranks("UOP", "UOP", "CP")}
    case = nest(
        mapping("K2 M8 N4", "", "K4"), {"A": structured(share)}, (level(*units, formats=formats), level())
    )
    nodes = tuple(replace(n, mesh_x=mesh) if isinstance(n, Fanout) else n for n in case.architecture.nodes)
    architecture = Architecture(case.architecture.name, nodes, case.architecture.compute)
    return replace(case, architecture=architecture)


def test_skipping_in_space_needs_fewer_instances():
    evaluation = spatial(2, "1/2").evaluated()
    assert evaluation.violations == ()
    assert evaluation.compute_instances == 2
    assert evaluation.computes.actual == 128
    assert evaluation.compute_cycles == 64
    assert evaluation.level("inner").dataspace("B").instances == 2


def test_skipping_in_space_needs_what_a_fiber_may_hold():
    assert [(v.kind, v.demand, v.limit) for v in spatial(1, "1/2").evaluated().violations] == [
        ("mesh_x", 2, 1)
    ]
    assert spatial(4, "1").evaluated().compute_instances == 4


def test_densities_alone_change_nothing():
    case = nest(WHOLE, {"A": structured("1/4")}, (level(), level()))
    evaluation = case.evaluated()
    assert evaluation.energy == evaluation.dense_energy
    assert evaluation.cycles == evaluation.dense_cycles
    assert evaluation.computes.actual == evaluation.dense_computes == 256


def test_everything_nonzero_moves_as_dense_data_does():
    formats = {"A": ranks("UOP", "CP"), "B": ranks("UOP", "B")}
    inner = {"A": ranks("CP"), "B": ranks("UOP", "B")}
    units = (saves("skipping", "B", "A"), saves("gating", "Z", "AB"))
    case = nest(mapping("M8", "K8 N4"), {}, (level(*units, formats=formats), level(*units, formats=inner)))
    evaluation = case.evaluated()
    assert evaluation.computes.actual == 256
    assert evaluation.cycles == evaluation.dense_cycles
    for cost in evaluation.levels:
        assert all(of.moved.data == of.dense for of in cost.dataspaces)


def test_an_empty_tensor_moves_nothing():
    formats = {"A": ranks("UOP", "CP")}
    units = (saves("skipping", "B", "A"), saves("skipping", "Z", "A"))
    levels = (level(formats=formats), level(*units, formats={"A": ranks("CP")}))
    evaluation = nest(mapping("M8", "K8 N4"), {"A": uniform("0")}, levels).evaluated()
    assert evaluation.computes == (0, 0, 0)
    assert evaluation.level("inner").dataspace("A").moved.data == (0, 0, 0)
    assert evaluation.level("inner").dataspace("Z").moved.data.updates == 0
