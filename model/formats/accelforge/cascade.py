"""The Einsums of a workload as they are written, and what follows from all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from model.formats.accelforge.einsums import WrittenEinsum
from model.text.source import Span


@dataclass(frozen=True)
class Cascade:
    """All Einsums of a workload as they are written."""

    einsums: Sequence[WrittenEinsum]

    @cached_property
    def tensors(self) -> dict[str, Span]:
        """All tensors, with the place where each is first accessed."""
        places: dict[str, Span] = {}
        for einsum in self.einsums:
            for access in einsum.accesses:
                places.setdefault(access.tensor, access.span)
        return places

    @cached_property
    def rank_variables(self) -> frozenset[str]:
        """All rank variables."""
        return frozenset(name for einsum in self.einsums for name in einsum.rank_variables)

    @cached_property
    def ranks(self) -> frozenset[str]:
        """The ranks of all tensors."""
        accesses = (access for einsum in self.einsums for access in einsum.accesses)
        return frozenset(index.rank for access in accesses for index in access.indices)

    @cached_property
    def intermediates(self) -> frozenset[str]:
        """Tensors that some Einsum writes and some Einsum reads."""
        accesses = [access for einsum in self.einsums for access in einsum.accesses]
        written = frozenset(access.tensor for access in accesses if access.output)
        return written & frozenset(access.tensor for access in accesses if not access.output)

    @cached_property
    def fed(self) -> frozenset[str]:
        """Tensors that look like intermediates of a larger workload, of which these Einsums are a part.

        No Einsum writes them, and they have a rank that all written tensors have: what runs through
        a network keeps its batch or its tokens, which weights do not have.
        """
        accesses = [access for einsum in self.einsums for access in einsum.accesses]
        ranks = {a.tensor: frozenset(index.rank for index in a.indices) for a in accesses}
        written = {access.tensor for access in accesses if access.output}
        carried = frozenset.intersection(*(ranks[tensor] for tensor in written))
        return frozenset(tensor for tensor in ranks.keys() - written if ranks[tensor] & carried)

    @cached_property
    def shared(self) -> frozenset[str]:
        """Tensors that more than one Einsum accesses."""
        users = Counter(name for e in self.einsums for name in {access.tensor for access in e.accesses})
        return frozenset(name for name, count in users.items() if count > 1)
