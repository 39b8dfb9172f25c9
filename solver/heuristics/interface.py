"""What ends or limits a run of a mapper: its budget, and its errors."""

from __future__ import annotations

from dataclasses import dataclass


class MapperError(Exception):
    """A mapper cannot treat a mapspace, or its name or options are wrong; the message says why."""


class BudgetSpent(Exception):  # noqa: N818 (no error: the ordinary end of a search that never ends by itself)
    """No more mappings are priced."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What one run of a mapper may take; None is no limit."""

    seconds: float | None = 10.0  # wall-clock time
    evaluations: int | None = None  # mappings that may be priced, allowed ones or not

    @property
    def unlimited(self) -> bool:
        """Whether nothing but the mapper itself ends a run."""
        return self.seconds is None and self.evaluations is None
