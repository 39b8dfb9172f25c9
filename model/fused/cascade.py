"""The canonical cascade: Einsums on one architecture, and the tensors that they hand over."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from model.mapspace import Mapspace
from model.problem import Dataspace, Problem
from model.renaming import by_position
from model.source_ref import SourceRef


@dataclass(frozen=True, slots=True)
class Access:
    """How a dataspace of an Einsum's problem lies in a tensor of the cascade.

    Parameters
    ----------
    ranks
        Names of the tensor's ranks, one per rank of the dataspace.
    offsets
        Index into each of these ranks at the first point of the problem's iteration space.
    """

    dataspace: str
    tensor: str
    ranks: tuple[str, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class CascadeEinsum:
    """One Einsum of a cascade.

    Parameters
    ----------
    mapspace
        Its problem, and the architecture with every memory at one place. Words are the same in all Einsums
        of a cascade.
    accesses
        One per dataspace, in the problem's order.
    is_copy
        Whether it only passes its input on.
    n_instances
        How often it runs; energy and cycles count as often.
    cycle_length
        Cycles of the cascade that one of its own takes.
    memories_with_places
        Memories that searches may give several places in a nest.
    keeps_rest
        Whether the outermost on-chip memory keeps each tensor that the outermost one does not: then no
        memory farther in stores it.
    """

    name: str
    mapspace: Mapspace
    accesses: tuple[Access, ...]
    is_copy: bool = False
    n_instances: int = 1
    cycle_length: int = 1
    memories_with_places: frozenset[str] = frozenset()
    keeps_rest: bool = False
    source: SourceRef | None = field(default=None, compare=False)

    @property
    def times(self) -> tuple[int, int]:
        """How often energy and cycles of one run count in the cascade."""
        return self.n_instances, self.n_instances * self.cycle_length

    @property
    def problem(self) -> Problem:
        """The Einsum with all of its bounds."""
        return self.mapspace.problem

    @cached_property
    def tensors(self) -> frozenset[str]:
        """The tensors that it accesses."""
        return frozenset(access.tensor for access in self.accesses)

    @cached_property
    def written(self) -> frozenset[str]:
        """The tensors that it produces."""
        return frozenset(a.tensor for a in self.accesses if self.space(a.dataspace).read_write)

    @cached_property
    def copied(self) -> str:
        """The tensor that a copy passes on."""
        (source,) = (access.tensor for access in self.accesses if access.tensor not in self.written)
        return source

    def space(self, dataspace: str) -> Dataspace:
        """Return a dataspace by name."""
        return self.problem.dataspace(dataspace)

    def accesses_of(self, tensor: str) -> tuple[Access, ...]:
        """Return the accesses of a tensor: several where it is read under different indices."""
        return tuple(access for access in self.accesses if access.tensor == tensor)

    def access(self, dataspace: str) -> Access:
        """Return the access that a dataspace is."""
        return next(access for access in self.accesses if access.dataspace == dataspace)


@dataclass(frozen=True)
class Cascade:
    """Einsums in the order in which they run.

    Parameters
    ----------
    persistent
        Tensors that stay where they are stored for the whole run.
    room_scale
        Tensors that take another multiple than 1 of their size where they are stored.

    Raises
    ------
    ValueError
        If first values of outputs are given.
    """

    name: str
    einsums: tuple[CascadeEinsum, ...]
    persistent: frozenset[str] = frozenset()
    room_scale: tuple[tuple[str, Fraction], ...] = ()

    def __post_init__(self) -> None:
        for einsum in self.einsums:
            if any(space.given for space in einsum.problem.dataspaces):
                raise ValueError(
                    f"given first values of outputs of {einsum.name!r} are not modelled in cascades"
                )

    @property
    def cycle_s(self) -> Fraction | None:
        """Seconds of a cycle of the cascade, 0 where nothing takes time; None where nobody says."""
        cycles = [own.mapspace.architecture.cycle_s for own in self.einsums]
        pairs = zip(cycles, self.einsums, strict=True)
        return next((cycle / own.cycle_length for cycle, own in pairs if cycle), cycles[0])

    @cached_property
    def users(self) -> dict[str, tuple[int, ...]]:
        """Places of the Einsums that access each tensor, in order."""
        places: dict[str, list[int]] = {}
        for place, einsum in enumerate(self.einsums):
            for tensor in dict.fromkeys(access.tensor for access in einsum.accesses):
                places.setdefault(tensor, []).append(place)
        return {tensor: tuple(own) for tensor, own in places.items()}

    @cached_property
    def writers(self) -> dict[str, int]:
        """Place of the Einsum that produces each tensor; inputs of the cascade have none."""
        return {tensor: place for place, einsum in enumerate(self.einsums) for tensor in einsum.written}

    @cached_property
    def intermediates(self) -> tuple[str, ...]:
        """The tensors that one Einsum produces and a later one reads, in the order of their writers."""
        return tuple(tensor for tensor in self.writers if self.readers(tensor))

    def readers(self, tensor: str) -> tuple[int, ...]:
        """Return the places of the Einsums that read a tensor."""
        return tuple(place for place in self.users[tensor] if tensor not in self.einsums[place].written)

    @cached_property
    def alike(self) -> tuple[int, ...]:
        """Per Einsum the place of the first one that differs from it in names alone."""
        first: dict[object, int] = {}
        every = (
            (own.mapspace, own.memories_with_places, own.keeps_rest, own.is_copy) for own in self.einsums
        )
        keys = ((by_position(mapspace.problem).mapspace(mapspace), *rest) for mapspace, *rest in every)
        return tuple(first.setdefault(key, place) for place, key in enumerate(keys))

    def place(self, einsum: str) -> int:
        """Return the place of an Einsum by name; ``KeyError`` if there is none."""
        return self._places[einsum]

    @cached_property
    def _places(self) -> dict[str, int]:
        """The place of each Einsum, by name."""
        return {einsum.name: place for place, einsum in enumerate(self.einsums)}


def lone_dims(einsum: CascadeEinsum, access: Access) -> dict[str, str]:
    """Return the dimensions that index a rank of a tensor by themselves, by rank."""
    ranks = zip(access.ranks, einsum.space(access.dataspace).ranks, strict=True)
    return {rank: terms[0].dim for rank, terms in ranks if len(terms) == 1}
