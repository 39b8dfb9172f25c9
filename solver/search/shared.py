"""What all searches of one mapspace have in common: options, limits, and the work done so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from solver.result import Options, Phase, Statistics
from solver.search.goal import Goal
from solver.search.priced import Priced
from solver.search.stopping import Stop

Report = Callable[[Phase, Goal, int | None], None]
"""Told the phase, the goal with its incumbent, and the bound that is proven so far."""


class Partner:
    """Another engine at the same question; this one knows nothing and does nothing."""

    remark = ""
    """Whether it was asked, and why not or how that ended."""

    @property
    def is_empty(self) -> bool:
        """Whether it has proven that there is no mapping within the goal's limits."""
        return False

    @property
    def bound(self) -> int | None:
        """A bound on the goal's objective, None if it knows none."""
        return None

    @property
    def is_refused(self) -> bool:
        """Whether it does not know such problems."""
        return False

    @property
    def seconds(self) -> float:
        """How long it has worked."""
        return 0.0

    def exchange(self, goal: Goal, best: Priced | None) -> Priced | None:
        """Take the best mapping of a goal so far; return a better one, if there is any."""
        del goal, best
        return None

    def has_settled(self) -> bool:
        """Whether it has proven that the best mapping it was told of is optimal, or that there is none."""
        return False

    def close(self) -> None:
        """Work no longer."""


ALONE = Partner()
"""No other engine."""


@dataclass(frozen=True)
class Shared:
    """What all searches of one mapspace have in common.

    Parameters
    ----------
    stop
        Asked often; once it answers True the search ends.
    report
        Told how far the search is.
    statistics
        Of all of them, brought up to date by each.
    partner
        Told of better mappings, and asked for them.
    """

    options: Options
    stop: Stop
    report: Report
    statistics: Statistics
    partner: Partner = ALONE
