"""Sparse data as JSON documents: tiles, accesses by kind, metadata, and what sparsity saves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from model.architecture import StorageLevel
from model.cost.prices import network_latency
from model.cost.slack import bandwidth_slacks
from model.counting.words import Vector
from model.mapping import Mapping as LoopMapping
from model.mapping import NodeMapping, StorageMapping
from model.mapspace import Mapspace
from model.objective import UNITS, in_reported_unit
from model.sparse import FIXED_POINT
from model.sparse.counting import MetadataAccesses, RankWords
from model.sparse.report import SparseDataspaceCost, SparseEvaluation, SparseLevelCost
from solver.densities import DensityPoint
from solver.report.document import (
    FIGURES,
    Document,
    background,
    broken_rule_document,
    full_tile_extents,
    narrower_document,
    picked,
    sensitivity_document,
    si_figures,
    violation_document,
)
from solver.report.timeloop_mapping import mapping_targets
from solver.result import Result
from solver.sensitivity import Effect
from solver.sparse_search import detailed

ACCESSES = ("reads", "fills", "updates")


def sparse_document(mapspace: Mapspace, mapping: LoopMapping, evaluation: SparseEvaluation) -> Document:
    """Return the document of a priced mapping of sparse data."""
    return {
        "kind": "evaluate-sparse",
        "problem": mapspace.problem.name,
        "counting": mapspace.counting,
        "factors": mapspace.factors,
        "valid": evaluation.valid,
        "violations": list(map(violation_document, evaluation.violations)),
        "broken_rules": list(map(broken_rule_document, evaluation.broken_rules)),
        "densities": _densities(mapspace),
        **_cost_document(mapspace, mapping, evaluation),
        **background(mapspace, ()),
    }


def sparse_result_document(
    mapspace: Mapspace,
    result: Result,
    effects: Sequence[Effect] | None = None,
    check: str | None = None,
    costs: Document | None = None,
) -> Document:
    """Return the document of a search on sparse data; without a mapping its figures are None.

    Parameters
    ----------
    effects, check, costs
        See `solver.report.document.result_document`.
    """
    best = detailed(mapspace, result.mapping)
    if result.mapping is None or best is None:
        cost = dict.fromkeys((*FIGURES, "levels", "mapping"))
    else:
        cost = _cost_document(mapspace, result.mapping, best)
    return {
        "kind": "map-sparse",
        "problem": mapspace.problem.name,
        "counting": mapspace.counting,
        "factors": mapspace.factors,
        **picked(result, "status", "termination", "objective", "objectives"),
        "units": UNITS[result.objective],
        "value": _reported(result, result.objective, result.value),
        "bound": _reported(result, result.objective, result.bound),
        "gap": result.gap,
        "later_bounds": [
            _reported(result, objective, bound)
            for objective, bound in zip(result.objectives[1:], result.later_bounds, strict=False)
        ],
        "perfect_factors": narrower_document(result.perfect_factors, result.objective, result.units_per_pj),
        "unit_parts": FIXED_POINT,
        "seconds": result.statistics.seconds,
        "densities": _densities(mapspace),
        **cost,
        "dense_optimum": _dense_optimum(mapspace, result),
        **sensitivity_document(mapspace, effects),
        "check": check,
        "constraints": costs,
        "statistics": asdict(result.statistics),
        **background(mapspace, result.reasons),
    }


def _reported(result: Result, objective: str, quantity: int | None) -> float | int | None:
    return None if quantity is None else in_reported_unit(objective, quantity, result.units_per_pj)


def _dense_optimum(mapspace: Mapspace, result: Result) -> Document | None:
    """Return the best mapping of the same problem without zeros, and what it costs with them."""
    dense = result.dense
    if dense is None or dense.mapping is None or dense.evaluation is None:
        return None
    sparse = detailed(mapspace, dense.mapping)
    return {
        **picked(dense, "status"),
        **picked(dense.evaluation, *FIGURES),
        "on_sparse_data": None if sparse is None else picked(sparse, *FIGURES),
        "mapping": mapping_targets(mapspace.problem, mapspace.architecture, dense.mapping),
    }


def _densities(mapspace: Mapspace) -> Document:
    assert mapspace.sparsity is not None
    return {
        space.name: picked(mapspace.sparsity.density(space.name), "distribution", "share", "band_width")
        for space in mapspace.problem.dataspaces
    }


def _cost_document(mapspace: Mapspace, mapping: LoopMapping, evaluation: SparseEvaluation) -> Document:
    """Return the figures of a mapping."""
    units, cycle_s = evaluation.units_per_pj, mapspace.architecture.cycle_s
    shapes = full_tile_extents(mapspace, mapping)
    run = evaluation.cycles - network_latency(mapspace.architecture)
    return {
        **picked(evaluation, *FIGURES, "utilization"),
        **si_figures(
            evaluation.energy_pj * 1e-12,
            None if cycle_s is None else evaluation.cycles * cycle_s,
            evaluation.dense_computes,
        ),
        "compute_energy_pj": float(evaluation.compute_energy / units),
        "leak_energy_pj": float(evaluation.leak_energy / units),
        "computes": {
            "dense": evaluation.dense_computes,
            **picked(evaluation.computes, "actual", "gated", "skipped"),
        },
        "compute_cycles": evaluation.compute_cycles,
        "compute_instances": math.ceil(evaluation.compute_instances),
        "dense": {"energy_pj": evaluation.dense_energy / units, "cycles": evaluation.dense_cycles},
        "levels": [
            {**_level_document(level, own, units), "slack": _slack_document(hardware, level, run)}
            for hardware, level, own in zip(
                mapspace.architecture.levels, evaluation.levels, shapes, strict=True
            )
        ],
        "mapping": _ordered_targets(mapspace, mapping),
    }


def _ordered_targets(mapspace: Mapspace, mapping: LoopMapping) -> list[Document]:
    """Return the targets of a mapping with loops of bound 1 in their places, which matter to formats."""
    orders = iter(mapping.nodes)
    targets = mapping_targets(mapspace.problem, mapspace.architecture, mapping)
    return [
        target
        if target["type"] == "dataspace"
        else {**target, "permutation": _loop_order(mapspace, next(orders))}
        for target in targets
    ]


def _loop_order(mapspace: Mapspace, entry: NodeMapping) -> list[str]:
    """Return the dimensions of a node's loops, innermost first, those along X before those along Y."""
    if isinstance(entry, StorageMapping):
        named = [loop.dim for loop in entry.temporal]
    else:
        named = [loop.dim for loop in sorted(entry.spatial, key=lambda loop: loop.axis)]
    return [*(dim for dim in mapspace.problem.dims if dim not in named), *named]


def _level_document(level: SparseLevelCost, shapes: Mapping[str, Vector], units: int) -> Document:
    return {
        **picked(level, "name", "instances", "cycles"),
        "energy_pj": float(level.energy / units),
        "leak_energy_pj": float(level.leak_energy / units),
        "dataspaces": {
            space.dataspace: {
                "tile_shape": list(shapes[space.dataspace]),
                **_dataspace_document(space, units),
            }
            for space in level.dataspaces
        },
    }


def _slack_document(level: StorageLevel, cost: SparseLevelCost, cycles: int) -> Document:
    """Return the unused part of each bandwidth of an instance."""
    unused = bandwidth_slacks(level, cost.demands, cycles)
    return {slack.resource: picked(slack, "limit", "used", "unused") for slack in unused}


def _dataspace_document(space: SparseDataspaceCost, units: int) -> Document:
    moved = space.moved
    return {
        **picked(space, "format", "density", "tile_words", "size_words", "expected_words"),
        **picked(moved.data, *ACCESSES),
        "dense": picked(space.dense, *ACCESSES),
        "gated": picked(moved.gated, *ACCESSES),
        "skipped": picked(moved.skipped, *ACCESSES),
        "metadata": {
            "size": _rank_documents(space.metadata_size),
            "size_bits": space.metadata_size_bits,
            **_metadata_document(moved.metadata),
            "gated": _metadata_document(moved.gated_metadata),
            "skipped": _metadata_document(moved.skipped_metadata),
        },
        **picked(space, "temporal_reductions", "decompressions", "compressions", "instances", "confidence"),
        "energy_pj": float(space.energy / units),
    }


def _metadata_document(metadata: MetadataAccesses) -> Document:
    return {access: _rank_documents(getattr(metadata, access)) for access in ACCESSES}


def _rank_documents(ranks: tuple[RankWords, ...]) -> list[Document]:
    """Return the words of each rank, the top one first."""
    return [{"metadata": metadata, "payload": payload} for metadata, payload in reversed(ranks)]


def density_sweep_document(mapspace: Mapspace, points: Sequence[DensityPoint]) -> Document:
    """Return the document of a sweep over densities: that of `map` for every point."""
    found = []
    for point in points:
        shares = {name: float(share) for name, share in point.densities}
        found.append({"shares": shares, **sparse_result_document(point.mapspace, point.result)})
    return {"kind": "sweep-sparse", "problem": mapspace.problem.name, "points": found}
