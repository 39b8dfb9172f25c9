"""Notes on what other orders of memories than the hardware's would save."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from model.mapspace import Mapspace
from model.note import Note
from model.objective import ENERGY, LATENCY
from solver.cli.running import search
from solver.report.figures import objective_text
from solver.result import Result, Status

NOTED_SHARE = 0.05
"""Of the objective, what other orders save at the least where a note says so."""

AT_MOST = (
    "memories in any order (`force_memory_hierarchy_order: False`) might reduce {} by {} at most; "
    "`--sensitivity` searches for that"
)
FOUND = "with `force_memory_hierarchy_order: False`, the best mapping{} has {}: {} less"
NOTHING = "`force_memory_hierarchy_order: False` saves nothing"
NOT_FOUND = "no better mapping with `force_memory_hierarchy_order: False` was found; it might save at most {}"


def order_notes(mapspace: Mapspace, result: Result, arguments: argparse.Namespace) -> Iterator[Note]:
    """Yield what memories in any order would save, at most, or as a search finds if time is asked for.

    Nothing where that is little, or where these orders cannot be searched.
    """
    from solver.search.orders import least_in_any_order, with_any_order

    is_asked = mapspace.architecture.is_accelforge and result.value and arguments.uneven is not False
    free = with_any_order(mapspace) if is_asked else None
    if free is None:
        return
    objective = result.objectives[0]
    energy, cycles = least_in_any_order(free)
    least = {ENERGY: energy, LATENCY: cycles}.get(objective, energy * cycles)
    if not _is_worth_saying(result, least):
        return
    if not arguments.sensitivity:
        yield Note(AT_MOST, (objective, _share(result, least)))
        return
    found = search(free, arguments)
    is_proven = found.status is Status.OPTIMAL
    if found.value is not None and result.value is not None and found.value < result.value:
        text = objective_text(objective, found.value, found.units_per_pj)
        yield Note(FOUND, ("" if is_proven else " found", text, _share(result, found.value)))
    elif is_proven:
        yield Note(NOTHING)
    else:
        yield Note(NOT_FOUND, (_share(result, found.bound or least),))


def _is_worth_saying(result: Result, value: float) -> bool:
    assert result.value is not None
    return float(value) < (1 - NOTED_SHARE) * float(result.value)


def _share(result: Result, value: float) -> str:
    assert result.value is not None
    return f"{100 * (1 - float(value) / float(result.value)):.1f} %"
