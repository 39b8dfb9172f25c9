"""A picture of the energy-latency front: a staircase, and what is open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from solver.pareto import Front
from solver.report.figures import energy_unit
from solver.report.front import LEAST_EDP, NOT_PROVEN, PROVEN, least_edp
from solver.report.picture import blank_figure, save_figure, verbatim, write_numbers_out
from solver.result import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_front(front: Front, title: str, path: Path) -> None:
    """Draw energy against cycles; below and left of the staircase of a complete front there is no mapping.

    Parameters
    ----------
    front
        With one point at the least.
    title
        What is mapped.

    Raises
    ------
    PlotError
        The file cannot be written.
    """
    figure, ((axes,),) = blank_figure()
    size_pj, unit = energy_unit(front.points[-1].evaluation.energy_pj)
    places = [(point.evaluation.cycles, point.evaluation.energy_pj / size_pj) for point in front.points]
    for proven, label, face in ((True, PROVEN, "tab:blue"), (False, NOT_PROVEN, "none")):
        of_kind = [place for place, point in zip(places, front.points, strict=True) if point.proven == proven]
        if of_kind:
            across, up = zip(*of_kind, strict=True)
            axes.plot(across, up, "o", color="tab:blue", markerfacecolor=face, label=label, zorder=4)
    best = least_edp(front)
    if best is not None:
        place = places[front.points.index(best)]
        axes.plot(*place, "*", color="tab:orange", markersize=18, label=LEAST_EDP)
    _draw_staircase(axes, front, places)
    axes.set_xlabel("latency (cycles)")
    axes.set_ylabel(f"energy ({unit})")
    axes.set_title(f"Energy-latency front of {verbatim(title)}")
    write_numbers_out(axes)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    save_figure(figure, path)


def _draw_staircase(axes: Axes, front: Front, places: Sequence[tuple[float, float]]) -> None:
    """Draw the border of what the points beat, up to the frame, and shade where points may be missing."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    across = [places[0][0], *(cycles for cycles, _ in places), right]
    up = [top, *(energy for _, energy in places), places[-1][1]]
    axes.step(across, up, where="post", color="0.5", linewidth=1.0, zorder=1)
    if front.status is Status.OPTIMAL:
        bounds = ([left, *across], [top, *up])
        axes.fill_between(*bounds, bottom, step="post", color="0.93", label="no mapping", zorder=0)
    for number, open_range in enumerate(front.open_ranges):
        most = right if open_range.most_cycles is None else open_range.most_cycles
        label = "open" if number == 0 else None
        axes.axvspan(open_range.least_cycles, most, color="tab:red", alpha=0.1, label=label)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
