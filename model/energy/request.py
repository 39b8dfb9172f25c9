"""What the spec layer asks of the prices, and the answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from model.text.source import Span, SpecError

Kind = Literal["storage", "compute"]

CLASS = "class"
"""What an error is about that lies in a component's class, and the place of it."""


class EnergyError(SpecError):
    """A component cannot be priced.

    Carries what `SpecError` carries: message, span of the component, related places and a hint; and
    `about`, the attribute of the component that is wrong, or `CLASS`.
    """

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        related: tuple[tuple[Span, str], ...] = (),
        hint: str | None = None,
        about: str | None = None,
    ) -> None:
        super().__init__(message, span, related, hint)
        self.about = about


@dataclass(frozen=True)
class EnergyRequest:
    """One component of an architecture, to be priced by `model.energy.price`.

    Parameters
    ----------
    name
        The component's name, as an ERT knows it.
    component_class, subclass
        ``class`` and ``subclass`` of the component. The subclass, when there is one, names the
        model to be used; the class then says only ``storage`` or ``compute``.
    attributes
        Evaluated attributes, inherited ones included (``width`` and ``depth`` of one instance in
        bits and rows, ``technology``, ``global_cycle_seconds``, ...).
    kind
        ``storage`` is priced per vector access, ``compute`` per operation.
    given
        Figures that the user wrote, by action: picojoule and where they were written
        (`model.energy.read_given`).
    given_area
        Area of one instance in square micrometres as the user wrote it, and where.
    span
        Place of the component, for error messages.
    places
        Places of its attributes, and that of `CLASS`.
    """

    name: str
    component_class: str
    subclass: str | None
    attributes: Mapping[str, object]
    kind: Kind
    given: Mapping[str, tuple[Decimal, str]] = field(default_factory=dict)
    given_area: tuple[Decimal, str] | None = None
    span: Span | None = None
    places: Mapping[str, Span] = field(default_factory=dict)

    @property
    def model_class(self) -> str:
        """Name of the class that says what the component is made of."""
        return self.subclass or self.component_class


@dataclass(frozen=True)
class Prices:
    """Energies of one component in picojoule, exact as written, or estimated and rounded (six
    digits; accesses to the attojoule).

    Parameters
    ----------
    read, fill, update
        Per vector access of a storage, else zero.
    leak
        Per instance and cycle of a storage, else zero.
    compute
        Per operation of a compute component, else zero.
    area_um2
        Of one instance in square micrometres, None when unknown.
    area_source
        Where the area comes from.
    sources
        Where the figure of each action that applies comes from.
    given
        Actions whose figures stand in the spec or its ERT; others are estimated or count as zero.
    remarks
        Remarks that a user should see.
    """

    read: Decimal = Decimal(0)
    fill: Decimal = Decimal(0)
    update: Decimal = Decimal(0)
    leak: Decimal = Decimal(0)
    compute: Decimal = Decimal(0)
    area_um2: float | None = None
    area_source: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    remarks: tuple[str, ...] = ()
