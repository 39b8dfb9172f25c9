"""Words as values: capacities, blocks, bandwidths, prices; and the space of persistent tensors."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.architecture import AccessEnergy, Architecture, Compute, Packing, StorageLevel
from model.formats.cascade.storage import persistent_bits, reserved_bits
from model.formats.timeloop.values import in_values
from model.problem import Term
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


@pytest.mark.parametrize(
    ("bits", "word_bits", "block", "size", "packing"),
    [
        # rows of 64 bits: eight and two values in each
        ((8, 32), 8, 8, 200, [(8, 1, 1), (2, 4, 1)]),
        # the others are multiples of the smallest
        ((4, 16, 8), 4, 16, 400, [(16, 1, 1), (4, 4, 1), (8, 2, 1)]),
        # five and four in a row: a word is a twentieth of it
        ((12, 16), Fraction(64, 20), 20, 500, [(5, 4, 1), (4, 5, 1)]),
        # one in a row, one in two, one in three
        ((64, 65, 129), 64, 1, 25, [(1, 1, 1), (1, 2, 2), (1, 3, 3)]),
        # all take several rows, and a word is two of them
        ((65, 200), 128, 1, 12, [(1, 1, 2), (1, 2, 4)]),
        # half a row, or three of them
        ((32, 150), 32, 2, 50, [(2, 1, 1), (1, 6, 3)]),
    ],
)
def test_values_of_several_sizes_share_the_rows(
    bits: tuple[int, ...],
    word_bits: int | Fraction,
    block: int,
    size: int,
    packing: list[tuple[int, int, int]],
):
    found = converted(level(), *bits)
    assert (found.word_bits, found.block_size, found.size_words) == (word_bits, block, size)
    assert found.packing == tuple(Packing(name, *own) for name, own in zip("VWXYZ", packing, strict=False))
    assert found.energy == level().energy


@given(
    bits=st.lists(st.integers(1, 200), min_size=2, max_size=4),
    values=st.lists(st.integers(0, 60), min_size=4, max_size=4),
    rows=st.integers(1, 40),
    block=st.integers(1, 8),
)
def test_what_fits_takes_no_more_rows_than_there_are(
    bits: list[int], values: list[int], rows: int, block: int
):
    found = converted(level(size_words=rows * block, word_bits=8, block_size=block), *bits)
    row_bits = 8 * block
    taken = sum(
        Fraction(count * -(-own // row_bits), max(1, row_bits // own))
        for count, own in zip(values, bits, strict=False)
    )
    sizes = [found.packing_of(name).size_per_value for name, _ in zip("VWXYZ", bits, strict=False)]
    words = sum(count * size for count, size in zip(values, sizes, strict=False))
    assert (words <= found.size_words) == (taken <= rows)
    assert math.gcd(*sizes) == 1


@given(bits=st.integers(1, 200), more=st.integers(0, 7), rows=st.integers(0, 9), block=st.integers(1, 8))
def test_one_size_holds_as_much_as_the_same_size_among_others(bits: int, more: int, rows: int, block: int):
    """A size that occurs twice beside itself is no other size."""
    own = level(size_words=rows * block + min(more, block - 1), word_bits=8, block_size=block)
    assert converted(own, bits, bits) == converted(own, bits)


def test_a_short_row_counts_with_its_share_of_the_bits():
    # 33 rows of three 8-bit words, and one word more: it holds an 8-bit value, but none of 16 bits.
    short = level(word_bits=8, block_size=3)
    assert converted(short, 8).size_words == 100
    assert converted(short, 16).size_words == 33
    assert converted(short, 8, 16).size_words == 33 * 3 + 1
    # A row of 16 four-bit words holds two values of 24 bits or five of 12, one of 14 words as many.
    longer = level(word_bits=4, block_size=16, size_words=10 * 16 + 14)
    assert converted(longer, 24).size_words == 11 * 2
    assert converted(longer, 12).size_words == 10 * 5 + 4
    assert converted(longer, 24, 12).size_words == 10 * 10 + 8
    assert converted(replace(longer, size_words=10 * 16 + 15), 24, 12).size_words == 11 * 10


def test_bandwidths_count_bits_whatever_the_size_of_a_value():
    own = level(read_bandwidth=Fraction(3), bandwidth_scale=(("W", Fraction(1, 2)),))
    found = converted(own, 8, 12)
    # 48 bits per cycle: six values of 8 bits, or eight of 12 that count half.
    assert found.read_bandwidth / found.scale("V") == 6
    assert found.read_bandwidth / found.scale("W") == 8


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
    assert reserved_bits(first, taken, "ABCDE") == {8: 15 * 8}
    assert reserved_bits(matmul("g", "EFG"), taken, "BDEFG") == {8: 2 * 15 * 8}
    assert reserved_bits(first, taken, "ABC") == {}
    assert reserved_bits(first, taken, "D") == {8: 15 * 8}


def test_instances_of_a_persistent_tensor_are_reserved_beside_the_own_one():
    einsum = matmul("e", "ABC", n_instances=3, persistent=True)
    taken = persistent_bits(Workload("w", (einsum,)))
    assert taken == {"B": (3 * 15 * 8, 8)}
    assert reserved_bits(einsum, taken, "ABC") == {8: 2 * 15 * 8}
    assert reserved_bits(einsum, taken, "AC") == {}


@pytest.mark.parametrize(("scale", "reserved"), [(Fraction(2), 15 * 8), (Fraction(1, 3), -80)])
def test_the_scale_counts_for_any_tensor(scale: Fraction, reserved: int):
    einsum = matmul("e", "ABC", backing_storage_size_scale=scale)
    assert reserved_bits(einsum, {}, "ABC") == {8: reserved}
