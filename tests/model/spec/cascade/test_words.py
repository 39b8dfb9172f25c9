"""Words as values: capacities, blocks, bandwidths, prices; and what persistent tensors take."""

from fractions import Fraction

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel
from model.problem import Term
from model.spec.cascade.reservations import persistent_bits, reserved_bits
from model.spec.cascade.words import in_values
from model.workload import Einsum, RankIndex, TensorAccess, Workload


def level(**changes: object) -> StorageLevel:
    given = {"size_words": 100, "word_bits": 16, "block_size": 4, "energy": AccessEnergy(6, 7, 8, 9)}
    return StorageLevel("buffer", **{**given, **changes})


def converted(own: StorageLevel, *bits: int) -> StorageLevel:
    names = dict(zip("VWXYZ", bits, strict=False))
    return in_values(Architecture("a", (own,), Compute("mac")), names).levels[0]


@pytest.mark.parametrize(
    ("bits", "block", "size", "price"),
    [
        (16, 4, 100, 6),
        (8, 8, 200, 6),
        (4, 16, 400, 6),
        (32, 2, 50, 6),
        (64, 1, 25, 6),
        (12, 5, 125, 6),
        (48, 1, 25, 6),
        (65, 1, 12, 12),
        (128, 1, 12, 12),
        (129, 1, 8, 18),
    ],
)
def test_rows_hold_whole_values(bits: int, block: int, size: int, price: int):
    found = converted(level(), bits)
    assert (found.word_bits, found.block_size, found.size_words) == (bits, block, size)
    assert found.energy.read == price
    assert found.energy.leak_per_cycle == 9


def test_a_level_with_words_of_this_size_stays_as_it_is():
    assert converted(level(), 16) is not None
    assert converted(level(size_words=101), 16) == level(size_words=101)


def test_a_last_short_row_holds_what_fits():
    assert converted(level(size_words=102), 8).size_words == 204
    assert converted(level(size_words=101), 24).size_words == 25 * 2 + 0
    assert converted(level(size_words=None), 8).size_words is None


def test_bandwidths_keep_their_bits():
    found = converted(level(read_bandwidth=Fraction(3), shared_bandwidth=Fraction(1, 2)), 12)
    assert found.read_bandwidth == 4
    assert found.shared_bandwidth == Fraction(2, 3)
    assert found.write_bandwidth is None


def matmul(name: str, tensors: str, n_instances: int = 1, **weight: object) -> Einsum:
    left, right, out = tensors
    return Einsum(
        name=name,
        rank_variables=("m", "k", "n"),
        ranges=(range(2), range(3), range(5)),
        accesses=(
            TensorAccess(left, (RankIndex("M", (Term("m"),)), RankIndex("K", (Term("k"),)))),
            TensorAccess(right, (RankIndex("K", (Term("k"),)), RankIndex("N", (Term("n"),))), **weight),
            TensorAccess(out, (RankIndex("M", (Term("m"),)), RankIndex("N", (Term("n"),))), output=True),
        ),
        n_instances=n_instances,
    )


def test_persistent_tensors_of_other_einsums_are_reserved():
    first, second = matmul("e", "ABC", persistent=True), matmul("f", "CDE", persistent=True)
    taken = persistent_bits(Workload("w", (first, second)))
    assert taken == {"B": (15 * 8, 8), "D": (15 * 8, 8)}
    assert reserved_bits(first, taken) == {8: 15 * 8}
    assert reserved_bits(matmul("g", "EFG"), taken) == {8: 2 * 15 * 8}


def test_instances_of_a_persistent_tensor_are_reserved_beside_the_own_one():
    einsum = matmul("e", "ABC", n_instances=3, persistent=True)
    taken = persistent_bits(Workload("w", (einsum,)))
    assert taken == {"B": (3 * 15 * 8, 8)}
    assert reserved_bits(einsum, taken) == {8: 2 * 15 * 8}


@pytest.mark.parametrize(("scale", "reserved"), [(Fraction(2), 15 * 8), (Fraction(1, 3), -80)])
def test_the_scale_counts_for_any_tensor(scale: Fraction, reserved: int):
    einsum = matmul("e", "ABC", backing_storage_size_scale=scale)
    assert reserved_bits(einsum, {}) == {8: reserved}
