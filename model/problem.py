"""The canonical problem: one Einsum over named dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Term:
    """One summand ``coefficient * dim`` of a rank's index expression; the coefficient may be negative."""

    dim: str
    coefficient: int = 1


@dataclass(frozen=True)
class Dataspace:
    """A tensor and how the problem's dimensions index it.

    Parameters
    ----------
    ranks
        One tuple of terms per rank; the index into the rank is their sum. A dimension stands at
        most once in a rank, and no coefficient is zero.
    read_write
        True for a tensor that is produced (read, modified and written), False for an operand.
    given
        Of a tensor that is produced: whether its words have values at the start, to which results are added,
        as in ``C += A B``. Otherwise it starts at nothing, and the first touch of a word needs no read.
    """

    name: str
    ranks: tuple[tuple[Term, ...], ...]
    read_write: bool = False
    given: bool = False

    def __post_init__(self) -> None:
        if self.given and not self.read_write:
            raise ValueError(f"first values of {self.name!r} are given, which is no output")

    @cached_property
    def dims(self) -> frozenset[str]:
        """The dimensions that index this dataspace (the relevant ones)."""
        return frozenset(term.dim for rank in self.ranks for term in rank)


@dataclass(frozen=True)
class Problem:
    """An Einsum with its bounds fixed."""

    name: str  # for people only; it does not enter the cost
    dims: tuple[str, ...]
    bounds: tuple[int, ...]  # along `dims`, all at least 1
    dataspaces: tuple[Dataspace, ...]  # at least one of them ``read_write``

    @cached_property
    def bound(self) -> dict[str, int]:
        """Bound of each dimension by name."""
        return dict(zip(self.dims, self.bounds, strict=True))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the dimensions and of the dataspaces."""
        return (*self.dims, *(space.name for space in self.dataspaces))

    @cached_property
    def computes(self) -> int:
        """Number of points of the iteration space, one multiply-accumulate each."""
        return math.prod(self.bounds)

    def dataspace(self, name: str) -> Dataspace:
        """Return the dataspace called `name`; ``KeyError`` if there is none."""
        for space in self.dataspaces:
            if space.name == name:
                return space
        raise KeyError(name)
