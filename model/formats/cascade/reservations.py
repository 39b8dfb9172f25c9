"""Room that persistent tensors take where they are stored while an Einsum runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from fractions import Fraction
from typing import NamedTuple

from model.workload import Einsum, TensorAccess, Workload


class Stored(NamedTuple):
    """What a tensor takes where it is stored.

    Parameters
    ----------
    bits
        In all, with its ``backing_storage_size_scale``.
    bits_per_value
        Those of one of its values.
    """

    bits: int
    bits_per_value: int


def persistent_bits(workload: Workload) -> dict[str, Stored]:
    """Return what each persistent tensor takes for the whole workload.

    A tensor counts once per instance of the Einsum that accesses most of it, times its
    ``backing_storage_size_scale``.
    """
    taken: dict[str, Stored] = {}
    accesses = ((einsum, access) for einsum in workload.einsums for access in einsum.accesses)
    for einsum, access in accesses:
        if access.persistent:
            stored = Stored(stored_bits(einsum, access) * einsum.n_instances, access.bits_per_value)
            taken[access.tensor] = max(taken.get(access.tensor, stored), stored)
    return taken


def stored_bits(einsum: Einsum, access: TensorAccess) -> int:
    """Return the bits that what an Einsum accesses of a tensor takes in its backing storage."""
    return math.ceil(_plain_bits(einsum, access) * access.backing_storage_size_scale)


def reserved_bits(einsum: Einsum, persistent: dict[str, Stored], stored: Collection[str]) -> dict[int, int]:
    """Return what is taken of a level beyond the Einsum's own tensors as they are."""
    accesses = {access.tensor: access for access in einsum.accesses if access.tensor in stored}
    total: Counter[int] = Counter()
    for tensor in persistent.keys() & set(stored) - accesses.keys():
        total[persistent[tensor].bits_per_value] += persistent[tensor].bits
    for tensor, access in accesses.items():
        taken = persistent[tensor].bits if tensor in persistent else stored_bits(einsum, access)
        total[access.bits_per_value] += taken - math.ceil(_plain_bits(einsum, access))
    return {size: bits for size, bits in total.items() if bits}


def _plain_bits(einsum: Einsum, access: TensorAccess) -> Fraction:
    return Fraction(einsum.size_values(access) * access.bits_per_value)
