"""What a mapper is: a class with one method from a mapspace and a price service to a mapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from model.mapping import Mapping
    from model.mapspace import Mapspace
    from solver.heuristics.pricing import Pricing


class Mapper(Protocol):
    """A way to find a mapping, good or bad; a user's own needs no more than this method.

    It is made by calling its class, without arguments or with the keyword arguments that a user sets.
    """

    def find_mapping(self, mapspace: Mapspace, pricing: Pricing) -> Mapping | None:
        """Return a mapping of ``mapspace.problem`` on ``mapspace.architecture``.

        Parameters
        ----------
        mapspace
            The problem, the architecture, and what the user allows.
        pricing
            Prices mappings (``price``, ``price_batch``), remembers the best one, and knows the
            objectives, the seed and what is left of the budget. A mapper that needs no prices need not
            use it.

        Returns
        -------
        Mapping | None
            A mapping, which is priced in any case; or None, if the best of those that were priced is the
            answer, or if there is none.

        Raises
        ------
        MapperError
            If the mapper cannot treat this mapspace; the message says why.
        BudgetSpent
            By `pricing` once the budget is spent. There is no need to catch it: the best mapping priced
            so far is then the answer.
        """
        ...


class MapperError(Exception):
    """A mapper cannot treat a mapspace, or its name or options are wrong; the message says why."""


class BudgetSpent(Exception):  # noqa: N818 (no error: the ordinary end of a search that never ends by itself)
    """No more mappings are priced."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What one run of a mapper may take.

    Parameters
    ----------
    seconds
        Wall-clock time; None is no limit.
    evaluations
        Mappings that may be priced, allowed ones or not; None is no limit.
    """

    seconds: float | None = 10.0
    evaluations: int | None = None

    @property
    def unlimited(self) -> bool:
        """Whether nothing but the mapper itself ends a run."""
        return self.seconds is None and self.evaluations is None
