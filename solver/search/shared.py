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
    """

    options: Options
    stop: Stop
    report: Report
    statistics: Statistics
    bounder: Bounder
