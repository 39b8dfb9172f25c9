"""Results as JSON documents; docs/json.md lists the keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from fractions import Fraction
from importlib.metadata import version
from typing import TYPE_CHECKING

from model.architecture import Architecture, Node, StorageLevel
from model.cost.nest import build_nest
from model.cost.order import seen_by
from model.cost.report import BrokenRule, Evaluation, LevelCost, Violation
from model.cost.slack import Slack, slacks
from model.counting.words import Vector, extents
from model.mapping import Mapping as LoopMapping
from model.mapspace import Mapspace
from model.note import Note
from model.objective import UNITS, in_reported_unit
from model.places import gathered
from model.problem import Problem
from model.source_ref import SourceRef
from solver.pareto import Front
from solver.report.figures import einsum_text, rank_text
from solver.report.timeloop_mapping import mapping_targets
from solver.result import Narrower, Reason, Result, Status
from solver.sensitivity import Effect, variations

if TYPE_CHECKING:
    from solver.explain import CostReport
    from solver.explain.costs import ClauseCost

Document = dict[str, object]

FIGURES = ("energy_pj", "cycles", "edp_pj_cycles")


def json_text(document: Mapping[str, object]) -> str:
    """Return a document and the program's version as JSON; ``ValueError`` if a figure is infinite."""
    return json.dumps(headed(document), indent=2, allow_nan=False) + "\n"


def headed(document: Mapping[str, object]) -> Document:
    """Return a document with the program's version before it."""
    return {"version": version("tilewright"), **document}


def picked(thing: object, *names: str) -> Document:
    """Return attributes as JSON values under their names; null for all of them if `thing` is None."""
    return {name: None if thing is None else plain(getattr(thing, name)) for name in names}


def plain(value: object) -> object:
    """Return a value for JSON: of an enum its value, of a fraction a number, of places and notes a text."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    if isinstance(value, SourceRef | Note):
        return str(value)
    return list(map(plain, value)) if isinstance(value, tuple | list) else value


def result_document(
    mapspace: Mapspace,
    result: Result,
    effects: Sequence[Effect] | None = None,
    check: str | None = None,
    constraints: Document | None = None,
) -> Document:
    """Return the document of a search; without a mapping its figures are None.

    `check` is the verdict of the checker of certificates, if it was asked; `constraints` say what each costs.
    """
    return {
        "kind": "map",
        "problem": mapspace.problem.name,
        "counting": mapspace.counting,
        "factors": mapspace.factors,
        **picked(result, "status", "termination"),
        **outcome_document(result),
        "gap": result.gap,
        "later_bounds": [
            in_reported_unit(objective, bound, result.units_per_pj)
            for objective, bound in zip(result.objectives[1:], result.later_bounds, strict=False)
        ],
        "perfect_factors": narrower_document(result.perfect_factors, result.objective, result.units_per_pj),
        "even_tiles": narrower_document(result.even_tiles, result.objective, result.units_per_pj),
        **_hardware_order(result),
        "seconds": result.statistics.seconds,
        **_cost_document(mapspace, result.mapping, result.evaluation),
        "statistics": {**asdict(result.statistics), "settled": _settled(result)},
        **background(mapspace, result.reasons),
        "check": check,
        "constraints": constraints,
        **sensitivity_document(mapspace, effects),
    }


def sensitivity_document(mapspace: Mapspace, effects: Sequence[Effect] | None) -> Document:
    """Return the optimum under other limits, and the number of limits that an interrupt left out."""
    if effects is None:
        return {"sensitivity": None, "sensitivity_left": None}
    left = len(tuple(variations(gathered(mapspace).architecture))) - len(effects)
    return {"sensitivity": list(map(effect_document, effects)), "sensitivity_left": max(0, left)}


def _settled(result: Result) -> dict[str, dict[str, float]]:
    """Return the share of spatial choices that each step settles, by objective that bounds have proven."""
    shares = {}
    for evidence in result.evidence if result.status is not Status.FEASIBLE else ():
        counts = {
            step: sum(getattr(mask, f"by_{step}") for mask in evidence.masks)
            for step in ("bounds", "listing")
        }
        every = sum(counts.values())
        shares[evidence.objective] = {step: own / every for step, own in counts.items()} if every else {}
    return shares


def _hardware_order(result: Result) -> Document:
    """Return what is known of mappings in the order of the hardware, where memories may lie in any order."""
    if result.hardware_order is None:
        return {}
    own = narrower_document(result.hardware_order, result.objective, result.units_per_pj)
    return {"hardware_order": own}


def narrower_document(known: Narrower | None, objective: str, units_per_pj: int) -> Document | None:
    """Return the result of a narrower mapspace; None if it was not searched."""
    if known is None:
        return None
    value, bound = (
        None if own is None else in_reported_unit(objective, own, units_per_pj)
        for own in (known.value, known.bound)
    )
    return {**picked(known, "status"), "value": value, "bound": bound}


def outcome_document(result: Result) -> Document:
    """Return objectives, value and bound."""
    return {
        **picked(result, "objective", "objectives"),
        "units": UNITS[result.objective],
        "value": result.reported_value,
        "bound": result.reported_bound,
    }


def evaluation_document(
    mapspace: Mapspace,
    mapping: LoopMapping | None,
    evaluation: Evaluation | None,
    reasons: Sequence[Reason] = (),
) -> Document:
    """Return the document of a priced mapping; without one, `reasons` say which constraints conflict."""
    return {
        "kind": "evaluate",
        "problem": mapspace.problem.name,
        "counting": mapspace.counting,
        "factors": mapspace.factors,
        "valid": evaluation is not None and evaluation.valid,
        "violations": list(map(violation_document, evaluation.violations if evaluation else ())),
        "broken_rules": list(map(broken_rule_document, evaluation.broken_rules if evaluation else ())),
        **_cost_document(mapspace, mapping, evaluation),
        **background(mapspace, reasons),
    }


def background(mapspace: Mapspace, reasons: Sequence[Reason]) -> Document:
    """Return the last keys of every document about one mapspace."""
    return {
        "einsum": einsum_document(mapspace.problem),
        "architecture": architecture_document(mapspace.architecture),
        "energies_pj": energies_pj(mapspace.architecture),
        "energy_sources": energy_sources(mapspace.architecture),
        "areas": areas(mapspace.architecture),
        "notes": plain(mapspace.notes),
        "reasons": list(map(reason_document, reasons)),
    }


def einsum_document(problem: Problem) -> Document:
    """Return an Einsum as text, with its bounds and its dataspaces."""
    return {
        "text": einsum_text(problem),
        "dimensions": problem.bound,
        "computes": problem.computes,
        "dataspaces": [
            {
                "name": space.name,
                "ranks": list(map(rank_text, space.ranks)),
                "output": space.read_write,
                **({"initial": "given"} if space.given else {}),
            }
            for space in problem.dataspaces
        ],
    }


def architecture_document(architecture: Architecture) -> Document:
    """Return the nodes of an architecture, outermost first, each with its instances in the hardware."""
    return {
        "name": architecture.name,
        "nodes": [
            {**_node_document(node), "instances": architecture.instances_above(position)}
            for position, node in enumerate(architecture.nodes)
        ],
        "compute": {"name": architecture.compute.name, "instances": architecture.compute_instances},
    }


def _node_document(node: Node) -> Document:
    if isinstance(node, StorageLevel):
        return {
            "type": "storage",
            "name": node.name,
            "memory": node.component,
            **picked(node, "usable_words"),
            **({"tolls": dict(node.tolls)} if node.tolls else {}),
        }
    return {"type": "fanout", **picked(node, "name", "mesh_x", "mesh_y")}


def reason_document(reason: Reason) -> Document:
    """Return a conflict between constraints."""
    return {
        **picked(reason, "text", "sources", "irreducible", "complete"),
        "constraints": [picked(statement, "text", "sources") for statement in reason.constraints],
        "shortfalls": [
            picked(shortfall, "text", "demand", "limit", "unit", "gap") for shortfall in reason.shortfalls
        ],
        "levers": [picked(lever, "text", "current", "needed", "sources") for lever in reason.levers],
    }


def broken_rule_document(broken: BrokenRule) -> Document:
    """Return a user-defined constraint that is broken: energies in pJ."""
    figures = {
        str(asked): float(value) if isinstance(value, Fraction) else value for asked, value in broken.figures
    }
    return {"rule": str(broken.rule), "figures": figures}


def violation_document(violation: Violation) -> Document:
    """Return a limit of the hardware that is broken."""
    document = {**picked(violation, "node", "kind", "demand"), "limit": float(violation.limit)}
    if violation.parts:
        document["parts"] = [
            {"dataspace": dataspace, "level": level, "words": words}
            for dataspace, level, words in violation.parts
        ]
    return document


def effect_document(effect: Effect) -> Document:
    """Return one variation of a limit and its optimum."""
    result = effect.result
    return {
        **picked(effect.variation, "level", "resource"),
        "factor": float(effect.variation.factor),
        "limit": plain(effect.limit),
        **picked(result, "status", "termination"),
        "value": result.reported_value,
        "bound": result.reported_bound,
        **picked(result.evaluation, "energy_pj", "cycles"),
        "ratio": None if effect.ratio is None else float(effect.ratio),
        "later_ratios": [None if ratio is None else float(ratio) for ratio in effect.later_ratios],
        "searched": effect.searched,
    }


def _cost_document(
    mapspace: Mapspace, mapping: LoopMapping | None, evaluation: Evaluation | None
) -> Document:
    """Return the figures of a mapping, all null without one."""
    if mapping is None or evaluation is None:
        energies = ("compute_energy_pj", "leak_energy_pj")
        computes = ("compute_cycles", "compute_instances")
        return dict.fromkeys((*FIGURES, "utilization", *computes, *energies, "levels", "mapping"))
    unused, architecture = slacks(mapspace.architecture, evaluation), mapspace.architecture
    outermost = (architecture.levels[places[0]] for places in architecture.memories)
    memories = {level.name: level.component for level in outermost}
    units = evaluation.units_per_pj
    return {
        **picked(evaluation, *FIGURES, "utilization", "compute_cycles", "compute_instances"),
        **evaluation_si_figures(evaluation),
        "compute_energy_pj": evaluation.compute_energy / units,
        "leak_energy_pj": evaluation.leak_energy / units,
        "levels": [
            _level_document(
                level, shapes, units, [slack for slack in unused if slack.level == memories.get(level.name)]
            )
            for level, shapes in zip(evaluation.levels, full_tile_extents(mapspace, mapping), strict=True)
        ],
        "mapping": mapping_targets(mapspace.problem, mapspace.architecture, mapping),
    }


OPERATIONS = 2
"""A compute is a multiplication and an addition, as datasheets count."""


def si_figures(energy_j: float | None, latency_s: Fraction | None, computes: int) -> Document:
    """Return energy, latency, EDP, power and throughput in SI units; nothing without a clock.

    What is divided by nothing is null.
    """
    if energy_j is None or latency_s is None:
        return {}
    seconds, tera_operations = float(latency_s), OPERATIONS * computes / 1e12
    return {
        "energy_j": energy_j,
        "latency_s": seconds,
        "edp_j_s": energy_j * seconds,
        "power_w": energy_j / seconds if seconds else None,
        "tops": tera_operations / seconds if seconds else None,
        "tops_per_w": tera_operations / energy_j if energy_j else None,
    }


def evaluation_si_figures(evaluation: Evaluation) -> Document:
    """Return the figures of a priced mapping in SI units; nothing without a clock."""
    return si_figures(evaluation.energy_j, evaluation.latency_s, evaluation.computes)


def full_tile_extents(mapspace: Mapspace, mapping: LoopMapping) -> list[dict[str, Vector]]:
    """Return per storage level, outermost first, the extents of a full tile of each dataspace, by rank."""
    problem, architecture = mapspace.problem, mapspace.architecture
    bounds = {space.name: _seen_bounds(mapspace, mapping, space.name) for space in problem.dataspaces}
    return [
        {space.name: extents(space, bounds[space.name][position]) for space in problem.dataspaces}
        for position in architecture.storage_indices
    ]


def _seen_bounds(mapspace: Mapspace, mapping: LoopMapping, space: str) -> dict[int, dict[str, int]]:
    """Return by node the iterations of each dimension in a full tile, as a dataspace sees them."""
    architecture, positions = mapspace.architecture, tuple(range(len(mapping.nodes)))
    if architecture.has_own_order:
        seen = seen_by(architecture, mapping, space)
        architecture, mapping, positions = seen.architecture, seen.mapping, seen.positions
    return dict(zip(positions, build_nest(mapspace.problem, architecture, mapping).bounds, strict=False))


def _level_document(
    level: LevelCost, shapes: Mapping[str, Vector], units_per_pj: int, unused: Iterable[Slack]
) -> Document:
    return {
        **picked(level, "name", "instances", "cycles"),
        "energy_pj": level.energy / units_per_pj,
        "leak_energy_pj": level.leak_energy / units_per_pj,
        "dataspaces": {
            space.dataspace: {
                "tile_shape": list(shapes[space.dataspace]),
                **picked(space, "tile_words", "size_words", "reads", "fills", "updates"),
                **picked(space, "total_reads", "total_fills", "total_updates"),
                "energy_pj": space.energy / units_per_pj,
            }
            for space in level.dataspaces
        },
        "slack": {slack.resource: picked(slack, "limit", "used", "unused") for slack in unused},
    }


def energy_sources(architecture: Architecture) -> Document:
    """Return, per component and action, where the energy figure comes from."""
    sources: Document = {level.name: dict(level.energy.sources) for level in architecture.levels}
    sources[architecture.compute.name] = {"compute": architecture.compute.energy_source}
    return sources


def energies_pj(architecture: Architecture) -> Document:
    """Return the energy of every access, and of a cycle's leakage, in pJ."""
    units = architecture.units_per_pj
    energies: Document = {
        level.name: {
            "read": level.energy.read / units,
            "fill": level.energy.fill / units,
            "update": level.energy.update / units,
            "leak": level.energy.leak_per_cycle / units,
        }
        for level in architecture.levels
    }
    return {**energies, architecture.compute.name: {"compute": architecture.compute.energy / units}}


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


def front_document(mapspace: Mapspace, front: Front) -> Document:
    """Return the document of a front; docs/json.md lists the keys."""
    problem, architecture = mapspace.problem, mapspace.architecture
    figures = ("cycles", "energy", "energy_pj", "edp_pj_cycles", "utilization")
    return {
        "kind": "pareto",
        "problem": problem.name,
        "counting": mapspace.counting,
        "factors": mapspace.factors,
        **picked(front, "status", "termination"),
        "seconds": front.statistics.seconds,
        "units_per_pj": front.units_per_pj,
        "points": [
            {
                "proven": point.proven,
                **picked(point.evaluation, *figures),
                **evaluation_si_figures(point.evaluation),
                "mapping": mapping_targets(problem, architecture, point.mapping),
            }
            for point in front.points
        ],
        "open": [
            {
                **picked(open_range, "least_cycles", "most_cycles", "least_energy"),
                "least_energy_pj": open_range.least_energy / front.units_per_pj,
            }
            for open_range in front.open_ranges
        ],
        "statistics": asdict(front.statistics),
        "energy_sources": energy_sources(architecture),
        "notes": plain(mapspace.notes),
        "reasons": list(map(reason_document, front.reasons)),
    }


def explanation_document(
    mapspace: Mapspace, reasons: tuple[Reason, ...], report: CostReport | None
) -> Document:
    """Return the document of ``explain``: why nothing fits, or a `report` on what constraints cost."""
    baseline = None if report is None else report.baseline
    return {
        "kind": "explain",
        "problem": mapspace.problem.name,
        "counting": mapspace.counting,
        "factors": mapspace.factors,
        "status": Status.INFEASIBLE.value if baseline is None else baseline.status.value,
        **picked(baseline, "objective", "objectives"),
        "units": None if baseline is None else UNITS[baseline.objective],
        **costs_document(report),
        "reasons": list(map(reason_document, reasons)),
        "notes": plain(mapspace.notes),
    }


def costs_document(report: CostReport | None) -> Document:
    """Return the cost of each constraint; None without a report."""
    return {
        "with_all": None if report is None else _outcome_document(report.baseline),
        "without": [] if report is None else list(map(_clause, report.clauses)),
        "left_out": [] if report is None else [statement.text for statement in report.left_out],
    }


def _clause(cost: ClauseCost) -> Document:
    return {
        **picked(cost.statement, "text", "sources"),
        **picked(cost, "share", "least", "most", "proven", "objective", "unproven"),
        **_outcome_document(cost.result),
    }


def _outcome_document(result: Result) -> Document:
    return {
        **picked(result, "status", "objectives"),
        "value": result.reported_value,
        **picked(result.evaluation, *FIGURES),
    }
