"""Levels whose words are the values of one Einsum, less what other tensors take of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from model.architecture import AccessEnergy, Architecture, StorageLevel


def in_values(architecture: Architecture, bits_per_value: int) -> Architecture:
    """Return an architecture whose words are values of `bits_per_value` bits.

    A row of a level holds as many whole values as its bits allow; a value wider than a row takes
    several rows, each of which is accessed. Bandwidths keep their bits per cycle. A level whose
    words have this size already stays as it is.
    """
    nodes = tuple(
        _level_in_values(node, bits_per_value) if isinstance(node, StorageLevel) else node
        for node in architecture.nodes
    )
    return replace(architecture, nodes=nodes)


def _level_in_values(level: StorageLevel, bits: int) -> StorageLevel:
    if level.word_bits == bits:
        return level
    row_bits = level.block_size * level.word_bits
    values, rows = max(1, row_bits // bits), -(-bits // row_bits)
    ratio = Fraction(level.word_bits, bits)
    return replace(
        level,
        size_words=None if level.size_words is None else _capacity(level, bits, values, rows),
        word_bits=bits,
        block_size=values,
        read_bandwidth=_scaled(level.read_bandwidth, ratio),
        write_bandwidth=_scaled(level.write_bandwidth, ratio),
        shared_bandwidth=_scaled(level.shared_bandwidth, ratio),
        energy=_times(level.energy, rows),
    )


def _capacity(level: StorageLevel, bits: int, values: int, rows: int) -> int:
    """Return how many values a level holds: whole rows of them, and what fits into a last, short row."""
    assert level.size_words is not None
    full, rest = divmod(level.size_words, level.block_size)
    if rows > 1:
        return full // rows
    return full * values + rest * level.word_bits // bits


def _scaled(bandwidth: Fraction | None, ratio: Fraction) -> Fraction | None:
    return None if bandwidth is None else bandwidth * ratio


def _times(energy: AccessEnergy, rows: int) -> AccessEnergy:
    return replace(energy, read=energy.read * rows, fill=energy.fill * rows, update=energy.update * rows)
