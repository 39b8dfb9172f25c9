"""A picture of a comparison: best value so far against time, the optimum as a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from model.objective import UNITS, in_reported_unit
from solver.comparison import Comparison, Point
from solver.report.comparison_document import EXACT
from solver.report.picture import blank_figure, save_figure, verbatim


def draw_convergence(comparison: Comparison, path: Path) -> None:
    """Draw the best value of every mapper so far against time, both on logarithmic axes.

    Parameters
    ----------
    comparison
        With an incumbent at least, of whichever mapper.
    path
        Its suffix says which of `solver.report.picture.FORMATS` it is.

    Raises
    ------
    PlotError
        It cannot be written.
    """
    result = comparison.result
    figure, [[axes]] = blank_figure()
    runs = [(EXACT, comparison.trace, result.statistics.seconds)]
    runs += [(outcome.mapper, outcome.trace, outcome.seconds) for outcome in comparison.outcomes]
    for name, trace, seconds in runs:
        if not trace:
            continue
        times, values = _steps(comparison, trace, seconds)
        width = 2.0 if name == EXACT else 1.2
        label, size = verbatim(name), 2 * width
        axes.step(times, values, where="post", label=label, linewidth=width, marker="o", markersize=size)
    if comparison.reference:
        label = "optimum" if comparison.proven else "bound"
        height = in_reported_unit(result.objective, comparison.reference, result.units_per_pj)
        axes.axhline(height, color="black", linestyle="--", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("seconds")
    axes.set_ylabel(f"{result.objective} ({UNITS[result.objective]})")
    axes.set_title(verbatim(comparison.case))
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    save_figure(figure, path)


def _steps(comparison: Comparison, trace: Sequence[Point], seconds: float) -> tuple[list[float], list[float]]:
    """Times and values of a staircase that goes on to the end of the run."""
    result = comparison.result
    times = [point.seconds for point in trace]
    values = [float(in_reported_unit(result.objective, point.value, result.units_per_pj)) for point in trace]
    return [*times, max(seconds, times[-1])], [*values, values[-1]]
