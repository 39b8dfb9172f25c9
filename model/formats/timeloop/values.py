"""Values of given sizes in memories: how many a row holds, levels that count in them (docs/network.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from model.architecture import Architecture, Packing, StorageLevel

MOST_WORDS = 1 << 56
"""Words of a level, at most: sums of a few such numbers fit an integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How values of one size lie in rows."""

    values: int  # whole values in a row, at least 1
    rows: int  # that a value takes, at least 1; above 1 only if `values` is 1

    @property
    def size_rows(self) -> Fraction:
        """What a value takes of the rows."""
        return Fraction(self.rows, self.values)


def fit(level: StorageLevel, bits: int) -> Fit:
    """Return how values lie in the rows of a level."""
    row_bits = _row_bits(level)
    return Fit(max(1, row_bits // bits), -(-bits // row_bits))


def word_rows(level: StorageLevel, bits: Mapping[str, int]) -> Fraction:
    """Return the rows that a word stands for: the largest unit of which all values are multiples."""
    sizes = [fit(level, value_bits).size_rows for value_bits in bits.values()]
    shared = math.lcm(*(size.denominator for size in sizes))
    return Fraction(math.gcd(*(int(size * shared) for size in sizes)), shared)


def in_values(architecture: Architecture, bits: Mapping[str, int]) -> Architecture:
    """Return an architecture that counts in values of these sizes (docs/network.md).

    A row of a level holds as many whole values as its bits allow; a value wider than a row takes
    several rows, each of which is accessed. Bandwidths keep their bits per cycle. Where all values
    have one size a word is a value, else it is what `word_rows` says.
    """
    nodes = tuple(
        _level_in_values(node, bits) if isinstance(node, StorageLevel) else node
        for node in architecture.nodes
    )
    return replace(architecture, nodes=nodes)


def _level_in_values(level: StorageLevel, bits: Mapping[str, int]) -> StorageLevel:
    if len(set(bits.values())) > 1:
        return _packed(level, bits)
    (value_bits, *_) = bits.values()
    if level.word_bits == value_bits:
        return level
    found, energy = fit(level, value_bits), level.energy
    rows = found.rows
    return replace(
        _with_words(level, bits, Fraction(value_bits)),
        word_bits=value_bits,
        block_size=found.values,
        energy=replace(energy, read=energy.read * rows, fill=energy.fill * rows, update=energy.update * rows),
    )


def _packed(level: StorageLevel, bits: Mapping[str, int]) -> StorageLevel:
    """Return a level with values of several sizes."""
    rows = word_rows(level, bits)
    word_bits = rows * _row_bits(level)
    fits = {name: fit(level, value_bits) for name, value_bits in bits.items()}
    return replace(
        _with_words(level, bits, word_bits),
        word_bits=int(word_bits) if word_bits.denominator == 1 else word_bits,
        block_size=max(1, int(1 / rows)),
        bandwidth_scale=tuple(
            (name, level.scale(name) * value_bits / word_bits) for name, value_bits in bits.items()
        ),
        packing=tuple(
            Packing(name, fitted.values, int(fitted.size_rows / rows), fitted.rows)
            for name, fitted in fits.items()
        ),
    )


def _with_words(level: StorageLevel, bits: Mapping[str, int], word_bits: Fraction) -> StorageLevel:
    """Return a level with its capacity in words, and bandwidths that count `word_bits` each."""
    ratio = level.word_bits / word_bits
    return replace(
        level,
        rows_per_word=None if level.rows_per_word is None else word_rows(level, bits),
        size_words=None if level.size_words is None else _words_in_rows(level, level.size_words, bits),
        read_bandwidth=_scaled(level.read_bandwidth, ratio),
        write_bandwidth=_scaled(level.write_bandwidth, ratio),
        shared_bandwidth=_scaled(level.shared_bandwidth, ratio),
    )


def _words_in_rows(level: StorageLevel, size_words: int, bits: Mapping[str, int]) -> int:
    """Return how many words a level holds: whole rows of them, and those of a last, short row.

    That counts with its share of a row's bits, or as what the values fill of it that fill it least,
    if that is more: neither is more than any of them finds room for.
    """
    full, rest = divmod(size_words, level.block_size)
    rows, rest_bits = word_rows(level, bits), rest * level.word_bits
    share = Fraction(rest_bits, _row_bits(level))
    filled = min(rest_bits // value_bits * fit(level, value_bits).size_rows for value_bits in bits.values())
    return math.floor(full / rows) + math.floor(max(share, filled) / rows)


def _row_bits(level: StorageLevel) -> int:
    return int(level.block_size * level.word_bits)


def _scaled(bandwidth: Fraction | None, ratio: Fraction) -> Fraction | None:
    return None if bandwidth is None else bandwidth * ratio
