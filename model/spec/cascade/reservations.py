"""Room that persistent tensors take in the outermost level while an Einsum runs."""

from __future__ import annotations

import math
from fractions import Fraction

from model.workload import Einsum, TensorAccess, Workload


def persistent_bits(workload: Workload) -> dict[str, int]:
    """Return the bits that each persistent tensor takes for the whole workload.

    A tensor counts once per instance of the Einsum that accesses most of it, times its
    ``backing_storage_size_scale``.
    """
    taken: dict[str, int] = {}
    for einsum in workload.einsums:
        for access in einsum.accesses:
            if access.persistent:
                bits = stored_bits(einsum, access) * einsum.n_instances
                taken[access.tensor] = max(taken.get(access.tensor, 0), bits)
    return taken


def stored_bits(einsum: Einsum, access: TensorAccess) -> int:
    """Return the bits that what an Einsum accesses of a tensor takes in its backing storage."""
    return math.ceil(_plain_bits(einsum, access) * access.backing_storage_size_scale)


def reserved_bits(einsum: Einsum, persistent: dict[str, int]) -> int:
    """Return what is taken of the outermost level beyond the Einsum's own tensors as they are.

    Parameters
    ----------
    einsum
        The Einsum that runs.
    persistent
        As `persistent_bits` gives it.

    Returns
    -------
    int
        Bits; negative if scales below 1 leave more room than the tensors' own sizes do.
    """
    own = {access.tensor: access for access in einsum.accesses}
    total = sum(bits for tensor, bits in persistent.items() if tensor not in own)
    for tensor, access in own.items():
        stored = persistent.get(tensor, stored_bits(einsum, access))
        total += stored - math.ceil(_plain_bits(einsum, access))
    return total


def _plain_bits(einsum: Einsum, access: TensorAccess) -> Fraction:
    return Fraction(einsum.size_values(access) * access.bits_per_value)
