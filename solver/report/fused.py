"""Fused mappings as JSON documents: their tree, what stays where, and what each Einsum costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from model.architecture import StorageLevel
from model.cost.order import instances_in_use
from model.counting.words import extents, tile_words
from model.fused.cascade import Cascade, CascadeEinsum
from model.fused.mapping import Body, FusedMapping, Leaf, LeafPath, Stored
from model.fused.nests import VisitKind, nest_bounds, visit_kinds
from model.fused.report import EinsumCost, FusedEvaluation, RoomTaken
from model.fused.visits import Visits
from model.mapping import StorageMapping
from model.note import Note
from model.objective import UNITS, in_reported_unit
from solver.fusion import FusedResult
from solver.report.document import (
    FIGURES,
    Document,
    Run,
    architecture_document,
    einsum_document,
    narrower_document,
    picked,
    plain,
    si_figures,
    slow_unit_notes,
    violation_document,
)
from solver.report.figures import NOTHING, einsum_text
from solver.report.mapped import nest_lines
from solver.report.reading import Value
from solver.report.timeloop_mapping import mapping_targets

COMPUTE = "compute"


def fused_document(
    cascade: Cascade, mapping: FusedMapping, evaluation: FusedEvaluation, notes: Sequence[Note]
) -> Document:
    """Return the document of a priced fused mapping."""
    visits = Visits(cascade, mapping)
    return {
        "kind": "evaluate-fused",
        "workload": cascade.name,
        "counting": evaluation.counting,
        "valid": evaluation.valid,
        "violations": [
            {"einsum": einsum, **violation_document(violation)} for einsum, violation in evaluation.violations
        ],
        **picked(evaluation, *FIGURES),
        **si_figures(
            None if evaluation.latency_s is None else evaluation.energy_j,
            evaluation.latency_s,
            sum(own.problem.computes * own.n_instances for own in cascade.einsums if not own.is_copy),
        ),
        "tree": [_part_document(visits, evaluation, child, 0) for child in mapping.children],
        "stored": [picked(stored, "tensor", "memory", "depth") for stored in mapping.stored],
        "einsums": [
            {**_einsum_document(cascade, cost, evaluation), **_nests_document(visits, place)}
            for place, cost in enumerate(evaluation.einsums)
        ],
        "notes": plain([*notes, *slow_unit_notes(list(_runs(cascade, evaluation)))]),
    }


def _runs(cascade: Cascade, evaluation: FusedEvaluation) -> Iterator[Run]:
    """Yield the Einsums that compute, with their time in cycles of the cascade."""
    for einsum, cost in zip(cascade.einsums, evaluation.einsums, strict=True):
        if not einsum.is_copy and cost.steps:
            name, units = einsum.mapspace.architecture.compute.name, -(-einsum.problem.computes // cost.steps)
            time, waits = cost.cycles * cost.n_instances * cost.cycle_length, limiting(cost) != COMPUTE
            yield Run(cost.einsum, name, time, units, waits)


def _nests_document(visits: Visits, place: int) -> Document:
    """Return the loop nests of an Einsum as text, and each kind of its visits."""
    einsum, path = visits.cascade.einsums[place], visits.mapping.paths[place]
    kinds = () if einsum.is_copy else visit_kinds(visits, place)
    return {"nests": list(_nests(einsum, path)), "kinds": list(map(_kind_document, kinds))}


def _nests(einsum: CascadeEinsum, path: LeafPath) -> Iterator[list[str]]:
    """Yield the loop nest of an Einsum in each kind of its visits, as text."""
    for nest in path.leaf.nests:
        problem = replace(einsum.problem, bounds=nest_bounds(einsum.problem, nest))
        architecture = nest.placed(einsum.mapspace.architecture)
        targets = Value(mapping_targets(problem, architecture, nest.mapping))
        yield nest_lines(Value(architecture_document(architecture)), targets, einsum_text(problem))


def _kind_document(kind: VisitKind) -> Document:
    """Return visits that are alike, with the keys by which pictures of a mapping are drawn."""
    return {
        "visits": kind.count,
        "einsum": einsum_document(kind.problem),
        "architecture": architecture_document(kind.architecture),
        "mapping": mapping_targets(kind.problem, kind.architecture, kind.mapping),
        "compute_instances": kind.nest.instances(len(kind.architecture.nodes)),
        "levels": list(_kind_levels(kind)),
    }


def _kind_levels(kind: VisitKind) -> Iterator[Document]:
    """Yield the storage levels with their tiles in one visit."""
    for position in kind.architecture.storage_indices:
        level, chosen = kind.architecture.nodes[position], kind.mapping.nodes[position]
        assert isinstance(level, StorageLevel)
        assert isinstance(chosen, StorageMapping)
        tiles = {}
        for space in (own for own in kind.problem.dataspaces if own.name in chosen.keep):
            seen = kind.seen(space.name)
            bounds = seen.nest.bounds[seen.positions[position]]
            words = tile_words(space, bounds)
            tiles[space.name] = {
                "tile_shape": list(extents(space, bounds)),
                "tile_words": words,
                "size_words": words * level.packing_of(space.name).size_per_value,
            }
        instances = instances_in_use(kind.architecture, kind.nest, position)
        yield {"name": level.name, "instances": instances, "dataspaces": tiles}


def fused_result_document(
    result: FusedResult, notes: Sequence[Note], mapping_text: str | None = None, check: str | None = None
) -> Document:
    """Return the document of a search for a fused mapping.

    `mapping_text` is the mapping as YAML, `check` the verdict of the checker, if it was asked.
    """
    units, objective = result.units_per_pj, result.objective
    alone = None if result.unfused is None else result.unfused.value(objective)
    values = {"value": result.value, "bound": result.bound, "unfused_value": alone}
    found = {}
    if result.mapping is not None and result.evaluation is not None:
        found = fused_document(result.cascade, result.mapping, result.evaluation, notes)
    return {
        **found,
        "kind": "network-fused",
        "workload": result.cascade.name,
        "status": result.status.name,
        "termination": result.termination.name,
        "objective": objective,
        **picked(result, "factors", "shared_factors"),
        "units": UNITS[objective],
        **{k: None if v is None else in_reported_unit(objective, v, units) for k, v in values.items()},
        "unfused": None if result.unfused is None else _unfused_document(result.cascade, result.unfused),
        "gap": result.gap,
        "perfect_factors": narrower_document(result.perfect_factors, objective, units),
        "equal_parts": narrower_document(result.equal_parts, objective, units),
        **_hardware_order(result),
        "restrictions": list(result.restrictions),
        "statistics": asdict(result.statistics),
        "mapping": mapping_text,
        "check": check,
        "notes": found.get("notes", plain(notes)),
    }


def _hardware_order(result: FusedResult) -> Document:
    """Return what the search in the order of the hardware came to, where memories may lie in others."""
    if result.hardware_order is None:
        return {}
    own = narrower_document(result.hardware_order, result.objective, result.units_per_pj)
    return {"hardware_order": own}


def _unfused_document(cascade: Cascade, evaluation: FusedEvaluation) -> Document:
    """Return the cost of the best mapping without fusion."""
    einsums = [_einsum_document(cascade, cost, evaluation) for cost in evaluation.einsums]
    return {**picked(evaluation, *FIGURES), "einsums": einsums}


def _part_document(visits: Visits, evaluation: FusedEvaluation, child: Body | Leaf, depth: int) -> Document:
    if isinstance(child, Leaf):
        leaf: Document = _leaf_document(visits, evaluation, child)
        return leaf
    inside = depth + len(child.loops)
    return {
        "loops": [
            {"trips": loop.trips, "tile": tile, "dims": dict(loop.dims)}
            for loop, tile in zip(child.loops, _loop_tiles(visits, child, depth), strict=True)
        ],
        "children": [_part_document(visits, evaluation, below, inside) for below in child.children],
    }


def _einsum_document(cascade: Cascade, cost: EinsumCost, evaluation: FusedEvaluation) -> Document:
    units = evaluation.units_per_pj
    accesses = cascade.einsums[cascade.place(cost.einsum)].accesses
    return {
        **picked(cost, "einsum", "visits", "n_instances", "steps", "cycles", "cycle_length"),
        "tensors": {access.dataspace: access.tensor for access in accesses},
        "limited_by": limiting(cost),
        "energy_pj": cost.energy / units,
        "compute_energy_pj": cost.compute_energy / units,
        "memories": [
            {
                **picked(memory, "name", "instances", "cycles"),
                "energy_pj": memory.energy / units,
                "leak_energy_pj": memory.leak_energy / units,
                "dataspaces": {
                    space.dataspace: {
                        **picked(space, "tile_words", "reads", "fills", "updates"),
                        "energy_pj": space.energy / units,
                    }
                    for space in memory.dataspaces
                },
            }
            for memory in cost.memories
        ],
        "room": list(map(_room_document, evaluation.rooms_of(cost.einsum))),
    }


def _room_document(room: RoomTaken) -> Document:
    return {
        **picked(room, "memory", "size_words", "usable_words"),
        "tiles": [picked(tile, "tensor", "einsum", "kind", "size_words") for tile in room.tiles],
    }


def _loop_tiles(visits: Visits, body: Body, depth: int) -> Iterator[int]:
    """Yield the longest part that each loop of a body selects, in the first Einsum below."""
    first = next(path for path in visits.mapping.paths if body.loops[0] in path.loops)
    place = visits.cascade.place(first.leaf.einsum)
    for number, loop in enumerate(body.loops, depth + 1):
        spans = visits.spans(place, loop.dim(first.leaf.einsum), number)
        yield max(high - low for low, high in spans)


def _leaf_document(visits: Visits, evaluation: FusedEvaluation, leaf: Leaf) -> Any:
    """Return an Einsum with the tiles that it holds above shared loops, and which of its outputs wait."""
    cascade = visits.cascade
    place = cascade.place(leaf.einsum)
    einsum, path = cascade.einsums[place], visits.mapping.paths[place]
    held = []
    for tile in leaf.held:
        memory = einsum.mapspace.architecture.on_chip[0].name
        words = evaluation.einsum(leaf.einsum).memory(memory).dataspace(tile.dataspace).tile_words
        above = path.loops[tile.depth].dim(leaf.einsum) if tile.depth < len(path.loops) else None
        slid = path.loops[tile.depth - 1].dim(leaf.einsum) if tile.keeps_overlap else None
        found = {"above": above, "slid_by": slid, "memory": memory, "words": words}
        held.append({**picked(tile, "dataspace", "depth"), **found})
    written = [a.tensor for a in einsum.accesses if a.tensor in einsum.written]
    waits = [
        {"tensor": tensor, "memory": stored.memory, "shape": _largest_tile(visits, stored)}
        for tensor in written
        if (stored := visits.mapping.stored_at.get(tensor)) is not None
    ]
    return {"einsum": leaf.einsum, "held": held, "waits": waits}


def _largest_tile(visits: Visits, stored: Stored) -> list[int]:
    """Return the extents of a stored tensor's largest tile, rank by rank."""
    ranks = visits.tile(stored.tensor, stored.depth)
    return [max(high - low for low, high in spans) for _, spans in ranks]


def limiting(cost: EinsumCost) -> str:
    """Return the bottleneck of an Einsum: compute, or a memory."""
    slowest = max(cost.memories, key=lambda memory: memory.cycles, default=None)
    if slowest is None or not slowest.cycles:
        return NOTHING
    return slowest.name if slowest.cycles > cost.steps else COMPUTE
