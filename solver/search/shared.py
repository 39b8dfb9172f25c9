"""What all searches of one mapspace have in common: options, limits, workers, and the work done so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from solver.result import Options, Phase, Statistics
from solver.search.goal import Goal
from solver.search.stopping import Stop
from solver.search.workers import Bounder

Report = Callable[[Phase, Goal, int | None], None]
"""Told the phase, the goal with its incumbent, and the bound that is proven so far."""


@dataclass
class Counters:
    """Work done so far.

    Parameters
    ----------
    states, masks, spatial_classes, subproblems, core_variables, core_calls, mappings_priced
        As of `Statistics`.
    """

    states: int = 0
    masks: int = 0
    spatial_classes: int = 0
    subproblems: int = 0
    core_variables: int = 0
    core_calls: int = 0
    mappings_priced: int = 0

    def statistics(self, seconds: float) -> Statistics:
        """Return the work as a result tells it, with the `seconds` that it took."""
        return Statistics(seconds=seconds, **vars(self))


@dataclass(frozen=True)
class Shared:
    """What all searches of one mapspace have in common.

    Parameters
    ----------
    stop
        Asked often; once it answers True the search ends.
    report
        Told how far the search is.
    """

    options: Options
    stop: Stop
    report: Report
    counters: Counters
    bounder: Bounder
