"""What the names in an architecture's constraints mean for one Einsum of a workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from model.problem import Dataspace, Problem, Term
from model.text.source import Span
from model.workload import Einsum, Workload

CONVENTIONAL = {"Weights": "weight", "Inputs": "input", "Outputs": "output"}
"""Dataspaces of Timeloop's usual shapes, and the renames that workloads have in their place."""


def dataspace_names(einsum: Einsum) -> tuple[str, ...]:
    """Return a name per access: the tensor's, with a number where it is accessed again."""
    taken = set(einsum.tensors)
    names: list[str] = []
    for access in einsum.accesses:
        name, number = access.tensor, 1
        while name in names:
            number += 1
            candidate = f"{access.tensor}_{number}"
            name = name if candidate in taken else candidate
        names.append(name)
    return tuple(names)


def problem_of(einsum: Einsum, further_dims: Iterable[str] = ()) -> Problem:
    """Return an Einsum as a canonical problem over the box of its rank variables.

    Rank variables become dimensions and tensor accesses dataspaces; the outputs are read-write. An
    index that does not change has no rank, and offsets do not matter.
    """
    spaces = tuple(
        Dataspace(
            name=name,
            ranks=tuple(
                tuple(Term(term.dim, term.coefficient) for term in index.terms)
                for index in access.indices
                if index.terms
            ),
            read_write=access.output,
        )
        for name, access in zip(dataspace_names(einsum), einsum.accesses, strict=True)
    )
    further = tuple(further_dims)
    bounds = (*einsum.bounds.values(), *(1 for _ in further))
    return Problem(einsum.name, (*einsum.rank_variables, *further), bounds, spaces)


def place_of(einsum: Einsum) -> Span:
    """Return where an Einsum is written; without a source a place in a file of the Einsum's name."""
    source = einsum.source
    if source is None:
        return Span(einsum.name, 1, 1, 1, 2)
    return Span(source.file, source.line, source.column, source.line, source.column + 1)


@dataclass(frozen=True)
class Naming:
    """Names of one Einsum, beside those that only other Einsums of the workload have.

    Parameters
    ----------
    einsum
        One of the Einsums of `workload`.
    workload
        Knows which names there are at all.
    """

    einsum: Einsum
    workload: Workload

    def tensors(self, name: str) -> tuple[str, ...] | None:
        """Return the dataspaces that a name means here.

        A rename of the Einsum goes before a tensor, and this before the set of that name (``All``).
        ``Weights``, ``Inputs`` and ``Outputs`` mean the renames ``weight``, ``input`` and
        ``output`` where there are any.
        """
        for spelling in (name, CONVENTIONAL.get(name, name)):
            if spelling in self._tensor_renames:
                return self._dataspaces(self._tensor_renames[spelling])
        if name in self.einsum.tensors:
            return self._dataspaces((name,))
        if name in self._sets:
            return self._dataspaces(self._sets[name])
        is_elsewhere = (
            name in self.workload.tensors or CONVENTIONAL.get(name, name) in self.workload.tensor_renames
        )
        return () if is_elsewhere else None

    def is_all_inputs(self, name: str) -> bool:
        """Whether `name` means several inputs, though renames of the workload tell weights from the input."""
        is_set = name == "Inputs" and "input" not in self._tensor_renames and name not in self.einsum.tensors
        others_tell = not self.workload.tensor_renames.isdisjoint(("weight", "input"))
        return is_set and others_tell and len(self.einsum.inputs) > 1

    def dims(self, name: str) -> tuple[str, ...]:
        """Return the rank variables that `name` means here, none if it is no name of the Einsum's."""
        renames = dict(self.einsum.rank_variable_renames)
        if name in renames:
            return renames[name]
        return (name,) if name in self.einsum.rank_variables else ()

    def knows_dim(self, name: str) -> bool:
        """Whether some Einsum of the workload has a rank variable or a rename `name`."""
        return name in self.workload.dims

    def dim_in_other_case(self, name: str) -> str | None:
        """Return the rank variable or rename that differs from an unknown `name` by case only, if any."""
        return next((known for known in self.workload.dims if known.casefold() == name.casefold()), None)

    @property
    def known_tensor_names(self) -> tuple[str, ...]:
        """All names of tensors that an architecture can use for some Einsum of the workload."""
        tensors = (tensor for einsum in self.workload.einsums for tensor in einsum.tensors)
        return tuple(dict.fromkeys((*sorted(self.workload.tensor_renames), *tensors, *self._sets)))

    @cached_property
    def _tensor_renames(self) -> Mapping[str, tuple[str, ...]]:
        return dict(self.einsum.tensor_renames)

    @cached_property
    def _sets(self) -> Mapping[str, tuple[str, ...]]:
        all_tensors = self.einsum.tensors
        persistent = {access.tensor for access in self.einsum.accesses if access.persistent}
        return {
            "All": all_tensors,
            "Tensors": all_tensors,
            "Nothing": (),
            "Inputs": self.einsum.inputs,
            "Outputs": self.einsum.outputs,
            "Intermediates": tuple(name for name in all_tensors if name in self.workload.intermediates),
            "Shared": tuple(name for name in all_tensors if name in self.workload.shared),
            "Persistent": tuple(name for name in all_tensors if name in persistent),
        }

    def _dataspaces(self, tensors: Iterable[str]) -> tuple[str, ...]:
        """Return the dataspaces of tensors; one that is accessed twice has two."""
        wanted = frozenset(tensors)
        pairs = zip(dataspace_names(self.einsum), self.einsum.accesses, strict=True)
        return tuple(name for name, access in pairs if access.tensor in wanted)
