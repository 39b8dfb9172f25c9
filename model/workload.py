"""The canonical workload: a cascade of Einsums over named tensors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from model.problem import Term
from model.source_ref import SourceRef

MOST_EINSUMS = 10_000
"""In a workload that is mapped: reading each with the architecture takes milliseconds."""


@dataclass(frozen=True, slots=True)
class RankIndex:
    """How one rank of a tensor is indexed: the sum of `terms`, each variable once at most, and `offset`."""

    rank: str
    terms: tuple[Term, ...]
    offset: int = 0

    @classmethod
    def of(cls, rank: str, *terms: tuple[str, int], offset: int = 0) -> RankIndex:
        """Return the index of a rank by pairs of a variable and its coefficient."""
        return cls(rank, tuple(Term(name, coefficient) for name, coefficient in terms), offset)


@dataclass(frozen=True)
class TensorAccess:
    """One tensor of an Einsum.

    Parameters
    ----------
    tensor, bits_per_value
        Its name and the size of a value in bits, the same in all Einsums.
    persistent, backing_storage_size_scale
        Whether it stays in its backing storage for the whole workload, and a factor on what it takes there.
    """

    tensor: str
    indices: tuple[RankIndex, ...]
    output: bool = False
    bits_per_value: int = 8
    persistent: bool = False
    backing_storage_size_scale: Fraction = Fraction(1)

    @cached_property
    def rank_variables(self) -> frozenset[str]:
        """The rank variables that index this tensor."""
        return frozenset(term.dim for index in self.indices for term in index.terms)


@dataclass(frozen=True)
class Einsum:
    """One Einsum of a workload.

    Parameters
    ----------
    rank_variables, ranges, is_box
        In the order in which the accesses mention them, with their values. Unless `is_box`, some combinations
        of these are left out: accesses beyond a rank's bounds, or an iteration space with another shape.
    accesses
        The tensors, at least one of them an output.
    is_copy_operation
        Whether the input's values are moved to the outputs as they are.
    n_instances
        How often the Einsum runs in all, over all instances of the workload.
    tensor_renames, rank_variable_renames
        Further names, each for a set of tensors or of rank variables.
    """

    name: str
    rank_variables: tuple[str, ...]
    ranges: tuple[range, ...]
    accesses: tuple[TensorAccess, ...]
    is_copy_operation: bool = False
    n_instances: int = 1
    tensor_renames: tuple[tuple[str, tuple[str, ...]], ...] = ()
    rank_variable_renames: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_box: bool = True
    source: SourceRef | None = None

    @cached_property
    def bounds(self) -> dict[str, int]:
        """Number of values of each rank variable."""
        return {name: len(span) for name, span in zip(self.rank_variables, self.ranges, strict=True)}

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """The tensors it accesses, each once."""
        return tuple(dict.fromkeys(access.tensor for access in self.accesses))

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The tensors it reads."""
        return tuple(dict.fromkeys(access.tensor for access in self.accesses if not access.output))

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The tensors it writes."""
        return tuple(dict.fromkeys(access.tensor for access in self.accesses if access.output))

    def extent(self, index: RankIndex) -> range:
        """Return the span of values that a rank's index takes over all combinations of the ranges."""
        low = high = index.offset
        spans = dict(zip(self.rank_variables, self.ranges, strict=True))
        for term in index.terms:
            ends = (term.coefficient * spans[term.dim][0], term.coefficient * spans[term.dim][-1])
            low, high = low + min(ends), high + max(ends)
        return range(low, high + 1)

    def size_values(self, access: TensorAccess) -> int:
        """Return the number of values in the bounding box of one access of a tensor."""
        return math.prod(len(self.extent(index)) for index in access.indices)


@dataclass(frozen=True)
class Workload:
    """A cascade of Einsums, as written: what one writes, others may read."""

    name: str
    einsums: tuple[Einsum, ...]

    @cached_property
    def intermediates(self) -> frozenset[str]:
        """The tensors that one Einsum writes and another one reads."""
        read = frozenset(tensor for einsum in self.einsums for tensor in einsum.inputs)
        return read.intersection(tensor for einsum in self.einsums for tensor in einsum.outputs)

    @cached_property
    def shared(self) -> frozenset[str]:
        """The tensors that several Einsums access."""
        users = Counter(tensor for einsum in self.einsums for tensor in einsum.tensors)
        return frozenset(tensor for tensor, count in users.items() if count > 1)

    @cached_property
    def tensors(self) -> frozenset[str]:
        """The tensors of all Einsums."""
        return frozenset(tensor for einsum in self.einsums for tensor in einsum.tensors)

    @cached_property
    def tensor_renames(self) -> frozenset[str]:
        """The further names that some Einsum has for sets of tensors."""
        return frozenset(name for einsum in self.einsums for name, _ in einsum.tensor_renames)

    @cached_property
    def dims(self) -> Mapping[str, None]:
        """The rank variables of all Einsums, then the further names for sets of them, in order."""
        variables = (name for einsum in self.einsums for name in einsum.rank_variables)
        renames = (name for einsum in self.einsums for name, _ in einsum.rank_variable_renames)
        return dict.fromkeys((*variables, *renames))

    def einsum(self, name: str) -> Einsum:
        """Return the Einsum called `name`; ``KeyError`` if there is none."""
        for einsum in self.einsums:
            if einsum.name == name:
                return einsum
        raise KeyError(name)
