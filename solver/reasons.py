"""Why nothing fits: constraints in conflict, their arithmetic, and what would resolve it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.source_ref import SourceRef


@dataclass(frozen=True, slots=True)
class Statement:
    """One constraint in words, and where it is written; nowhere if it follows from what is not."""

    text: str
    sources: tuple[SourceRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What is needed against what there is, both in `unit`; `gap` is the distance between them."""

    text: str
    demand: int
    limit: int
    unit: str

    @property
    def gap(self) -> int:
        """How much is missing, or too much."""
        return abs(self.demand - self.limit)


@dataclass(frozen=True, slots=True)
class Lever:
    """A single change that makes room for a mapping, to the nearest value that does.

    ``needed`` is None where the constraint has to go. Both figures are in the unit of the constraint:
    words, children, arithmetic units, dimensions or a factor.
    """

    text: str
    current: int | None = None
    needed: int | None = None
    sources: tuple[SourceRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    """Why no mapping exists.

    Parameters
    ----------
    text
        One line for people.
    sources
        All places that it speaks of.
    constraints
        What cannot hold together.
    irreducible
        Whether mappings exist as soon as any one of the constraints is dropped, the others of this
        reason kept.
    shortfalls
        The arithmetic of the conflict, what matters most first.
    levers
        Single changes that suffice, all other constraints kept but those of other reasons.
    complete
        Whether there was time to look for all of this.
    """

    text: str
    sources: tuple[SourceRef, ...] = ()
    constraints: tuple[Statement, ...] = ()
    irreducible: bool = False
    shortfalls: tuple[Shortfall, ...] = ()
    levers: tuple[Lever, ...] = ()
    complete: bool = True
