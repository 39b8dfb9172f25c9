"""A picture of the energy-latency front: a staircase, and what is open."""

from __future__ import annotations

from pathlib import Path

from solver.pareto import Front
from solver.report.front import NOT_PROVEN, PROVEN, least_edp
from solver.report.picture import blank_figure, save_figure, verbatim


def draw_front(front: Front, title: str, path: Path) -> None:
    """Draw energy against cycles; below and left of the staircase of a complete front there is no mapping.

    Raises
    ------
    PlotError
        The file cannot be written.
    """
    figure, ((axes,),) = blank_figure()
    costs = [(point.evaluation.cycles, point.evaluation.energy_pj) for point in front.points]
    axes.step([x for x, _ in costs], [y for _, y in costs], where="post", color="0.6", linewidth=1.0)
    for proven, label, face in ((True, PROVEN, "tab:blue"), (False, NOT_PROVEN, "none")):
        own = [cost for cost, point in zip(costs, front.points, strict=True) if point.proven == proven]
        if own:
            axes.plot(
                [x for x, _ in own],
                [y for _, y in own],
                marker="o",
                markerfacecolor=face,
                color="tab:blue",
                linestyle="",
                label=label,
            )
    best = least_edp(front) if front.points else None
    if best is not None:
        place = best.evaluation.cycles, best.evaluation.energy_pj
        axes.plot(*place, marker="*", markersize=13, color="tab:orange", linestyle="", label="least EDP")
    for own_range in front.open_ranges:
        most = max(cycles for cycles, _ in costs) if own_range.most_cycles is None else own_range.most_cycles
        axes.axvspan(own_range.least_cycles, most, color="tab:red", alpha=0.1, label="open")
    axes.set_xlabel("cycles")
    axes.set_ylabel("energy (pJ)")
    axes.set_title(verbatim(title))
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    save_figure(figure, path)
