"""Attributes of a component as the estimator's models ask for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from model.energy.request import EnergyError

LARGEST_ATTRIBUTE = 1e15
PROCESS_ATTRIBUTES = ("technology", "global_cycle_seconds")
_MILLIMETRES = {"m": 1e3, "mm": 1.0, "um": 1e-3, "µm": 1e-3, "nm": 1e-6}
_LENGTH = re.compile(rf"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*({'|'.join(_MILLIMETRES)})?")
_PLACEHOLDERS = frozenset({"setme", "mustspecify"})


def is_placeholder(value: object) -> bool:
    """Whether a value only marks that there should be one: ``SET ME``, ``must_specify``."""
    return isinstance(value, str) and value.casefold().replace(" ", "").replace("_", "") in _PLACEHOLDERS


def missing_attribute(name: str, component_class: str) -> EnergyError:
    """Return the error for an attribute that nobody specified; the caller raises it."""
    hint = None
    if name in PROCESS_ATTRIBUTES:
        hint = f"give `{name}` on the component, on a container around it, or in the top-level variables"
    return EnergyError(f"the class `{component_class}` needs the attribute `{name}`", hint=hint)


@dataclass(frozen=True)
class Attributes:
    """Evaluated attributes of one component.

    Parameters
    ----------
    component_class
        Name of its class, for messages.
    values
        By name. Missing values are left out, None, or placeholders such as ``SET ME``.
    """

    component_class: str
    values: Mapping[str, object]

    def lookup(self, *names: str) -> object | None:
        """Return the value of the first of `names` that is specified, None without any."""
        for name in names:
            value = self.values.get(name)
            if value is not None and not is_placeholder(value):
                return value
        return None

    def require(self, *names: str) -> object:
        """Return the value of the first of `names` that is specified.

        Raises
        ------
        EnergyError
            When none is; the message asks for the first.
        """
        value = self.lookup(*names)
        if value is None:
            raise missing_attribute(names[0], self.component_class)
        return value

    def number(self, *names: str, default: float | None = None, least: float = 0.0) -> float:
        """Return a number, of the first of some names that is specified.

        Raises
        ------
        EnergyError
            When it is missing without a default, no number, or out of range.
        """
        written = self.lookup(*names)
        if written is None and default is not None:
            return default
        value = _to_number(self.require(*names))
        if value is None or not least <= value <= LARGEST_ATTRIBUTE:
            given_name = next(name for name in names if self.lookup(name) is not None)
            raise EnergyError(
                f"attribute `{given_name}` of the class `{self.component_class}` is {written!r}, "
                f"but must be a number from {least:g} to {LARGEST_ATTRIBUTE:g}",
                about=given_name,
            )
        return value

    def millimetres(self, *names: str) -> float:
        """Return a length such as ``2mm`` or ``150 um``; a bare number is in millimetres.

        Raises
        ------
        EnergyError
            When it is missing, no length, or out of range.
        """
        match = _LENGTH.fullmatch(str(self.lookup(*names)).strip())
        if match is None or match[2] is None:
            return self.number(*names)
        given_name = next(name for name in names if self.lookup(name) is not None)
        length = float(match[1]) * _MILLIMETRES[match[2]]
        return Attributes(self.component_class, {given_name: length}).number(given_name)


def _to_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
