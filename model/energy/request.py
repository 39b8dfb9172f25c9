"""What readers of specs ask of the prices, and what they get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from model.text.source import Span, SpecError

Kind = Literal["storage", "compute"]

Figure = tuple[Decimal, str]
"""An energy or area, and where it comes from."""

CLASS = "class"
"""What an error is about that lies in a component's class, and the place of it."""


class EnergyError(SpecError):
    """A component cannot be priced; `about` is the attribute of it that is wrong, or `CLASS`."""

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
    """One component of an architecture, to be priced by `model.energy.price`."""

    name: str  # the component's name, as an ERT knows it
    # The subclass, when there is one, names the model to be used; the class is then storage or compute.
    component_class: str
    subclass: str | None
    # Evaluated, inherited ones included: width and depth of one instance in bits and rows, technology, ...
    attributes: Mapping[str, object]
    kind: Kind  # ``storage`` is priced per vector access, ``compute`` per operation
    given: Mapping[str, Figure] = field(default_factory=dict)  # by the user, in picojoule, by action
    given_area: Figure | None = None  # by the user, of one instance, in square micrometres
    span: Span | None = None
    places: Mapping[str, Span] = field(default_factory=dict)  # places of its attributes, and that of `CLASS`
    sparse: bool = False  # whether actions on sparse data are priced as well

    @property
    def model_class(self) -> str:
        """Name of the class that says what the component is made of."""
        return self.subclass or self.component_class


@dataclass(frozen=True)
class ComponentPrices:
    """Energies of one component in picojoule, exact as written, or estimated and rounded to six digits."""

    # Per vector access of a storage, else zero.
    read: Decimal = Decimal(0)
    fill: Decimal = Decimal(0)
    update: Decimal = Decimal(0)
    leak: Decimal = Decimal(0)  # per instance and cycle of a storage, else zero
    compute: Decimal = Decimal(0)  # per operation of a compute component, else zero
    area_um2: float | None = None  # of one instance in square micrometres, None when unknown
    area_source: str = ""  # where the area comes from
    sources: Mapping[str, str] = field(default_factory=dict)  # where each action's figure comes from
    # Actions whose figures stand in the spec or its ERT; others are estimated or count as zero.
    given: frozenset[str] = frozenset()
    remarks: tuple[str, ...] = ()
    # Actions on sparse data, by their names in `model.sparsity`; those that nobody prices are missing
    further: Mapping[str, Decimal] = field(default_factory=dict)
