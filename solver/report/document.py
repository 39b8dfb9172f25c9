"""Results as JSON documents; docs/json.md lists the keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version

from model.architecture import Architecture
from model.cost.report import Evaluation, LevelCost, Violation
from model.cost.slack import slacks
from model.mapping import Mapping
from model.mapspace import Mapspace
from model.objective import UNITS, in_reported_unit
from solver.report.reasons import reason_document
from solver.report.slack import effect_document, slack_document
from solver.report.timeloop_mapping import mapping_targets
from solver.result import Reason, Result
from solver.sensitivity import Effect

Document = dict[str, object]

COST_KEYS = (
    "energy_pj",
    "cycles",
    "edp_pj_cycles",
    "utilization",
    "compute_energy_pj",
    "leak_energy_pj",
    "levels",
    "mapping",
)


def result_document(mapspace: Mapspace, result: Result, effects: Sequence[Effect] | None = None) -> Document:
    """Return the document of a search; without a mapping its figures are None.

    Parameters
    ----------
    mapspace
        That was searched.
    result
        Of whichever status.
    effects
        Those of `solver.sensitivity`, None where they were not asked for.
    """
    return {
        "version": version("tilewright"),
        "problem": mapspace.problem.name,
        "status": result.status.value,
        "termination": result.termination.value,
        "objective": result.objective,
        "objectives": list(result.objectives),
        "units": UNITS[result.objective],
        "value": result.reported_value,
        "bound": result.reported_bound,
        "gap": result.gap,
        "later_bounds": [
            in_reported_unit(objective, bound, result.units_per_pj)
            for objective, bound in zip(result.objectives[1:], result.later_bounds, strict=False)
        ],
        "seconds": result.statistics.seconds,
        **_cost(mapspace, result.mapping, result.evaluation),
        "statistics": asdict(result.statistics),
        "energy_sources": energy_sources(mapspace.architecture),
        "areas": areas(mapspace.architecture),
        "notes": list(map(str, mapspace.notes)),
        "reasons": [reason_document(reason) for reason in result.reasons],
        "sensitivity": None if effects is None else [effect_document(effect) for effect in effects],
    }


def evaluation_document(mapspace: Mapspace, mapping: Mapping, evaluation: Evaluation) -> Document:
    """Return the document of a priced mapping.

    Parameters
    ----------
    evaluation
        Of the mapping; it may break limits.
    """
    return {
        "version": version("tilewright"),
        "problem": mapspace.problem.name,
        "valid": evaluation.valid,
        "violations": [violation_document(found) for found in evaluation.violations],
        **_cost(mapspace, mapping, evaluation),
        "energy_sources": energy_sources(mapspace.architecture),
        "areas": areas(mapspace.architecture),
        "notes": list(map(str, mapspace.notes)),
        "reasons": [],
    }


def refused_document(mapspace: Mapspace, reasons: Sequence[Reason]) -> Document:
    """Return the document of `evaluate` where no mapping keeps to the constraints, and so none is priced."""
    return {
        "version": version("tilewright"),
        "problem": mapspace.problem.name,
        "valid": False,
        "violations": [],
        **dict.fromkeys(COST_KEYS),
        "energy_sources": energy_sources(mapspace.architecture),
        "areas": areas(mapspace.architecture),
        "notes": list(map(str, mapspace.notes)),
        "reasons": [reason_document(reason) for reason in reasons],
    }


def violation_document(violation: Violation) -> Document:
    """Return a limit of the hardware that is broken."""
    return {
        "node": violation.node,
        "kind": violation.kind,
        "demand": violation.demand,
        "limit": float(violation.limit),
    }


def json_text(document: Document) -> str:
    """Return the document as indented JSON with a line end.

    Raises
    ------
    ValueError
        A figure is infinite or NaN.
    """
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _cost(mapspace: Mapspace, mapping: Mapping | None, evaluation: Evaluation | None) -> Document:
    if mapping is None or evaluation is None:
        return dict.fromkeys(COST_KEYS)
    unused = slacks(mapspace.architecture, evaluation)
    return {
        "energy_pj": evaluation.energy_pj,
        "cycles": evaluation.cycles,
        "edp_pj_cycles": evaluation.edp_pj_cycles,
        "utilization": evaluation.utilization,
        "compute_energy_pj": evaluation.compute_energy / evaluation.units_per_pj,
        "leak_energy_pj": evaluation.leak_energy / evaluation.units_per_pj,
        "levels": [
            _level(level, evaluation.units_per_pj)
            | {"slack": slack_document(slack for slack in unused if slack.level == level.name)}
            for level in evaluation.levels
        ],
        "mapping": mapping_targets(mapspace.problem, mapspace.architecture, mapping),
    }


def _level(level: LevelCost, units_per_pj: int) -> Document:
    return {
        "name": level.name,
        "instances": level.instances,
        "cycles": level.cycles,
        "energy_pj": level.energy / units_per_pj,
        "leak_energy_pj": level.leak_energy / units_per_pj,
        "dataspaces": {
            space.dataspace: {
                "tile_words": space.tile_words,
                "size_words": space.size_words,
                "reads": space.reads,
                "fills": space.fills,
                "updates": space.updates,
                "energy_pj": space.energy / units_per_pj,
            }
            for space in level.dataspaces
        },
    }


def energy_sources(architecture: Architecture) -> Document:
    """Return, per component and action, where the energy figure comes from."""
    sources: Document = {level.name: dict(level.energy.sources) for level in architecture.levels}
    sources[architecture.compute.name] = {"compute": architecture.compute.energy_source}
    return sources


def areas(architecture: Architecture) -> Document:
    """Return, per component, its instances, the area of one, and where that comes from."""
    return {
        component.name: {
            "instances": instances,
            "area_um2": component.area_um2,
            "source": component.area_source or None,
        }
        for component, instances in architecture.components
    }
