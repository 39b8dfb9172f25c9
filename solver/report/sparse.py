"""Reports of priced mappings of sparse data: tiles, accesses by kind, metadata, and what sparsity saves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction

from rich.console import Console

from model.architecture import Architecture
from model.cost.counting import Vector
from model.cost.report import Evaluation
from model.mapping import Mapping as LoopMapping
from model.mapping import NodeMapping, StorageMapping
from model.mapspace import Mapspace
from model.objective import EDP, UNITS, in_reported_unit
from model.sparse import FIXED_POINT
from model.sparse.counting import MetadataAccesses, RankWords
from model.sparse.report import SparseDataspaceCost, SparseEvaluation, SparseLevelCost
from model.sparsity import Density, Sparsity
from solver.report.document import (
    FIGURES,
    Document,
    background,
    broken_rule_document,
    effect_document,
    narrower_document,
    picked,
    tile_shapes,
    violation_document,
)
from solver.report.figures import NOTHING, count_text, energy_text, objective_text, percent, significant
from solver.report.tables import RULES, ReportTable, plain_grid, plain_table
from solver.report.text import (
    ENDINGS,
    heading,
    loop_nest,
    narrower_parts,
    print_notes,
    print_sensitivity,
    print_verdict,
    status_line,
    title,
    work_text,
)
from solver.report.timeloop_mapping import mapping_targets
from solver.result import Reason, Result, Status
from solver.sensitivity import Effect
from solver.sparse_search import DensityPoint, SparseResult

ACCESSES = ("reads", "fills", "updates")


def print_sparse_evaluation(
    console: Console, mapspace: Mapspace, mapping: LoopMapping, evaluation: SparseEvaluation
) -> None:
    """Print a priced mapping of sparse data, and the limits and the rules that it breaks."""
    print_verdict(console, evaluation.violations, evaluation.broken_rules)
    _print_figures(console, mapspace, mapping, evaluation)
    print_notes(console, mapspace.notes)


def print_sparse_result(
    console: Console, mapspace: Mapspace, result: SparseResult, effects: Sequence[Effect] = ()
) -> None:
    """Print the result of a search on sparse data, and what the best mapping of dense data is worth."""
    console.print(status_line(result.status, _status_parts(result)))
    if result.best is not None:
        _print_figures(console, mapspace, result.best.mapping, result.best.evaluation)
        console.print(title("The best mapping of dense data"))
        console.print(_dense_table(result))
    if effects:
        print_sensitivity(console, mapspace, result, effects)
    print_notes(console, mapspace.notes)


def _status_parts(result: SparseResult) -> tuple[str, ...]:
    ending = ENDINGS[result.termination], work_text(result.statistics)
    if result.status is Status.UNKNOWN:
        return (*narrower_parts(result, None), *ending)
    return ending if result.value is None else (sparse_outcome_text(result), *ending)


def sparse_outcome_text(result: SparseResult) -> str:
    """Return the value of a result, with bound and gap unless it is proven."""
    if result.value is None:
        no_mapping = "no mapping satisfies all constraints"
        return no_mapping if result.status is Status.INFEASIBLE else "no mapping was found"
    value, bound = (
        objective_text(result.objective, quantity, result.units_per_pj)
        for quantity in (result.value, result.bound)
    )
    gap = f", bound {bound}, gap {percent(result.gap)}" if result.gap else ""
    narrower = "".join(f", {part}" for part in narrower_parts(result, result.value))
    return f"{result.objective} {value}{gap}{narrower}"


def _dense_table(result: SparseResult) -> ReportTable:
    """Return what the best mapping of dense data costs without zeros, with them, and against the best one."""
    table = plain_table("Mapping", "Data", ">Energy", ">Cycles", ">EDP", ">Against the best")
    best, dense = result.best, result.dense
    assert best is not None
    if dense is not None and dense.evaluation is not None:
        known = "best" if dense.status is Status.OPTIMAL else "best known"
        own = dense.evaluation
        table.add_row(f"{known} for dense data", "dense", *_costs(own), "")
    if result.dense_best is not None:
        value, least = (priced.evaluation.value(result.objective) for priced in (result.dense_best, best))
        more = f"{percent(value / least - 1)} more {result.objective}" if value > least else "no worse"
        table.add_row("the same", "sparse", *_costs(result.dense_best.evaluation), more)
    elif dense is not None and dense.mapping is not None:
        table.add_row("the same", "sparse", NOTHING, NOTHING, NOTHING, "not possible: formats or room")
    table.add_row("best for sparse data", "sparse", *_costs(best.evaluation), "")
    return table


def _costs(evaluation: Evaluation | SparseEvaluation) -> tuple[str, str, str]:
    return (
        energy_text(evaluation.energy_pj),
        count_text(evaluation.cycles),
        significant(evaluation.edp_pj_cycles),
    )


def _print_figures(
    console: Console, mapspace: Mapspace, mapping: LoopMapping, evaluation: SparseEvaluation
) -> None:
    """Print a mapping with its tiles, accesses and totals."""
    problem, architecture, sparsity = mapspace.problem, mapspace.architecture, mapspace.sparsity
    assert sparsity is not None
    console.print(heading(problem, "\nMapping"))
    for line in loop_nest(problem, architecture, mapping):
        console.print(line)
    console.print(title("Densities"))
    console.print(densities_table(mapspace, sparsity))
    console.print(title("Tiles"), "(of one instance; formats from the top rank down; metadata at most)")
    console.print(tiles_table(architecture, evaluation))
    console.print(title("Accesses"), "(expected words of one instance; energy: all instances)")
    console.print(accesses_table(evaluation))
    console.print(title("Totals"))
    console.print(sparse_totals_table(mapspace, evaluation))


def density_text(density: Density) -> str:
    """Return a density for people."""
    if density.distribution == "banded":
        return f"band of width {density.band_width}"
    return f"{float(density.share):g} {density.distribution}"


def densities_table(mapspace: Mapspace, sparsity: Sparsity) -> ReportTable:
    """Return a row per dataspace with its density."""
    table = plain_grid()
    for space in mapspace.problem.dataspaces:
        table.add_row(space.name, density_text(sparsity.density(space.name)))
    return table


def tiles_table(architecture: Architecture, evaluation: SparseEvaluation) -> ReportTable:
    """Return a row per level and dataspace: format, words of dense data and taken, metadata."""
    columns = (">Dense", ">Expected", ">Taken", ">Of level", ">Metadata bits", ">Instances")
    table = plain_table("Level", "Dataspace", "Format", *columns, optional=("Instances", "Of level"))
    for level, cost in zip(architecture.levels, evaluation.levels, strict=True):
        name = level.name
        for space in cost.dataspaces:
            share = percent(space.size_words / level.usable_words) if level.usable_words else NOTHING
            table.add_row(
                name,
                space.dataspace,
                space.format or NOTHING,
                count_text(space.tile_words),
                significant(space.expected_words),
                count_text(space.size_words),
                share,
                count_text(space.metadata_size_bits) if space.format else NOTHING,
                f"{space.instances:g}",
            )
            name = ""
    return table


def accesses_table(evaluation: SparseEvaluation) -> ReportTable:
    """Return a row per level, dataspace and kind of access, and one for the arithmetic."""
    columns = (">Dense", ">Actual", ">Gated", ">Skipped", ">Metadata", ">Energy")
    table = plain_table("Level", "Dataspace", "Access", *columns, optional=("Dense",))
    for level in evaluation.levels:
        for row in _access_rows(level, evaluation.units_per_pj):
            table.add_row(*row)
    made = evaluation.computes
    kinds = map(count_text, (evaluation.dense_computes, made.actual, made.gated, made.skipped))
    energy = energy_text(float(evaluation.compute_energy / evaluation.units_per_pj))
    table.add_row("arithmetic", "", "computes", *kinds, NOTHING, energy)
    return table


def _access_rows(level: SparseLevelCost, units_per_pj: int) -> Iterator[tuple[str, ...]]:
    name = level.name
    for space in level.dataspaces:
        head, energy = space.dataspace, energy_text(float(space.energy / units_per_pj))
        for access in (access for access in ACCESSES if getattr(space.dense, access)):
            yield name, head, *_access_cells(space, access), energy
            name = head = energy = ""


def _access_cells(space: SparseDataspaceCost, access: str) -> tuple[str, ...]:
    moved = space.moved
    kinds = (space.dense, moved.data, moved.gated, moved.skipped)
    words = (count_text(getattr(kind, access)) for kind in kinds)
    return access, *words, count_text(_total(moved.metadata, access)) if space.format else NOTHING


def _total(metadata: MetadataAccesses, access: str) -> int:
    ranks: tuple[RankWords, ...] = getattr(metadata, access)
    return sum(map(sum, ranks))


def sparse_totals_table(mapspace: Mapspace, evaluation: SparseEvaluation) -> ReportTable:
    """Return energy, cycles and EDP of the whole problem, each with what it is for dense data."""
    table = plain_grid()
    units = evaluation.units_per_pj
    table.add_row("Counting", mapspace.counting, RULES[mapspace.counting])
    dense_pj = evaluation.dense_energy / units
    table.add_row(
        "Energy",
        energy_text(evaluation.energy_pj),
        _against(evaluation.energy_pj, dense_pj, energy_text(dense_pj)),
    )
    for level in evaluation.levels:
        table.add_row(f"  {level.name}", *_share(level.energy, evaluation))
    table.add_row(f"  {mapspace.architecture.compute.name}", *_share(evaluation.compute_energy, evaluation))
    leakage, share = _share(evaluation.leak_energy, evaluation)
    table.add_row("  leakage", leakage, f"{share}, within the levels above")
    cycles = count_text(evaluation.dense_cycles)
    table.add_row(
        "Cycles", count_text(evaluation.cycles), _against(evaluation.cycles, evaluation.dense_cycles, cycles)
    )
    table.add_row("EDP", significant(evaluation.edp_pj_cycles), UNITS[EDP])
    table.add_row("Utilization", percent(evaluation.utilization), "by computes that are made")
    return table


def _against(value: float, dense: float, text: str) -> str:
    """Return a figure of dense data with what sparsity saves of it."""
    return f"{text} for dense data" + (f": {percent(1 - value / dense)} saved" if dense else "")


def _share(part: Fraction, evaluation: SparseEvaluation) -> tuple[str, str]:
    share = part / evaluation.energy if evaluation.energy else Fraction(0)
    return energy_text(float(part / evaluation.units_per_pj)), percent(share)


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
        **_cost(mapspace, mapping, evaluation),
        **background(mapspace, ()),
    }


def sparse_result_document(
    mapspace: Mapspace,
    result: SparseResult,
    reasons: Sequence[Reason],
    effects: Sequence[Effect] | None = None,
    check: str | None = None,
    costs: Document | None = None,
) -> Document:
    """Return the document of a search on sparse data; without a mapping its figures are None.

    Parameters
    ----------
    effects, check, costs
        As of `solver.report.document.result_document`.
    """
    best = result.best
    if best is None:
        cost = dict.fromkeys((*FIGURES, "levels", "mapping"))
    else:
        cost = _cost(mapspace, best.mapping, best.evaluation)
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
        "sensitivity": None if effects is None else list(map(effect_document, effects)),
        "check": check,
        "constraints": costs,
        "statistics": asdict(result.statistics),
        **background(mapspace, reasons),
    }


def totals_document(mapspace: Mapspace, result: Result) -> Document:
    """Return the document of a search on sparse data that returned totals alone."""
    return sparse_result_document(mapspace, SparseResult.of(mapspace, result), result.reasons)


def _reported(result: SparseResult, objective: str, quantity: int | None) -> float | int | None:
    return None if quantity is None else in_reported_unit(objective, quantity, result.units_per_pj)


def _dense_optimum(mapspace: Mapspace, result: SparseResult) -> Document | None:
    """Return the best mapping of the same problem without zeros, and what it costs with them."""
    dense, sparse = result.dense, result.dense_best
    if dense is None or dense.mapping is None or dense.evaluation is None:
        return None
    return {
        **picked(dense, "status"),
        **picked(dense.evaluation, *FIGURES),
        "on_sparse_data": None if sparse is None else picked(sparse.evaluation, *FIGURES),
        "mapping": mapping_targets(mapspace.problem, mapspace.architecture, dense.mapping),
    }


def _densities(mapspace: Mapspace) -> Document:
    assert mapspace.sparsity is not None
    return {
        space.name: picked(mapspace.sparsity.density(space.name), "distribution", "share", "band_width")
        for space in mapspace.problem.dataspaces
    }


def _cost(mapspace: Mapspace, mapping: LoopMapping, evaluation: SparseEvaluation) -> Document:
    """Return the figures of a mapping."""
    units = evaluation.units_per_pj
    shapes = tile_shapes(mapspace, mapping)
    return {
        **picked(evaluation, *FIGURES, "utilization"),
        "compute_energy_pj": float(evaluation.compute_energy / units),
        "leak_energy_pj": float(evaluation.leak_energy / units),
        "computes": {
            "dense": evaluation.dense_computes,
            **picked(evaluation.computes, "actual", "gated", "skipped"),
        },
        "compute_cycles": evaluation.compute_cycles,
        "compute_instances": math.ceil(evaluation.compute_instances),
        "dense": {"energy_pj": evaluation.dense_energy / units, "cycles": evaluation.dense_cycles},
        "levels": [_level(level, own, units) for level, own in zip(evaluation.levels, shapes, strict=True)],
        "mapping": _ordered_targets(mapspace, mapping),
    }


def _ordered_targets(mapspace: Mapspace, mapping: LoopMapping) -> list[Document]:
    """Return the targets of a mapping with loops of bound 1 in their places, which matter to formats."""
    orders = iter(mapping.nodes)
    targets = mapping_targets(mapspace.problem, mapspace.architecture, mapping)
    return [
        target if target["type"] == "dataspace" else {**target, "permutation": _order(mapspace, next(orders))}
        for target in targets
    ]


def _order(mapspace: Mapspace, entry: NodeMapping) -> list[str]:
    """Return the dimensions of a node's loops, innermost first, those along X before those along Y."""
    if isinstance(entry, StorageMapping):
        named = [loop.dim for loop in entry.temporal]
    else:
        named = [loop.dim for loop in sorted(entry.spatial, key=lambda loop: loop.axis)]
    return [*(dim for dim in mapspace.problem.dims if dim not in named), *named]


def _level(level: SparseLevelCost, shapes: Mapping[str, Vector], units: int) -> Document:
    return {
        **picked(level, "name", "instances", "cycles"),
        "energy_pj": float(level.energy / units),
        "leak_energy_pj": float(level.leak_energy / units),
        "dataspaces": {
            space.dataspace: {
                "tile_shape": list(shapes[space.dataspace]),
                **_dataspace(space, units),
            }
            for space in level.dataspaces
        },
    }


def _dataspace(space: SparseDataspaceCost, units: int) -> Document:
    moved = space.moved
    return {
        **picked(space, "format", "density", "tile_words", "size_words", "expected_words"),
        **picked(moved.data, *ACCESSES),
        "dense": picked(space.dense, *ACCESSES),
        "gated": picked(moved.gated, *ACCESSES),
        "skipped": picked(moved.skipped, *ACCESSES),
        "metadata": {
            "size": _ranks(space.metadata_size),
            "size_bits": space.metadata_size_bits,
            **_metadata(moved.metadata),
            "gated": _metadata(moved.gated_metadata),
            "skipped": _metadata(moved.skipped_metadata),
        },
        **picked(space, "temporal_reductions", "decompressions", "compressions", "instances", "confidence"),
        "energy_pj": float(space.energy / units),
    }


def _metadata(metadata: MetadataAccesses) -> Document:
    return {access: _ranks(getattr(metadata, access)) for access in ACCESSES}


def _ranks(ranks: tuple[RankWords, ...]) -> list[Document]:
    """Return the words of each rank, the top one first."""
    return [{"metadata": metadata, "payload": payload} for metadata, payload in reversed(ranks)]


def print_density_sweep(console: Console, mapspace: Mapspace, points: Sequence[DensityPoint]) -> None:
    """Print a row per combination of densities: the best mapping, and that of dense data."""
    names = [name for name, _ in points[0].densities] if points else []
    columns = (">Energy", ">Cycles", ">EDP", ">Mapping of dense data")
    table = plain_table(*(f">{name}" for name in names), "Status", *columns)
    for point in points:
        best, dense = point.result.best, point.result.dense_best
        costs = (NOTHING,) * 3 if best is None else _costs(best.evaluation)
        more = NOTHING
        if best is not None and dense is not None:
            objective = point.result.objective
            value, least = dense.evaluation.value(objective), best.evaluation.value(objective)
            more = f"{percent(value / least - 1)} more {objective}" if value > least else "no worse"
        shares = (f"{float(share):g}" for _, share in point.densities)
        table.add_row(*shares, point.result.status.value, *costs, more)
    console.print(table)
    print_notes(console, mapspace.notes)


def density_sweep_document(mapspace: Mapspace, points: Sequence[DensityPoint]) -> Document:
    """Return the document of a sweep over densities: that of `map` for every point."""
    assert mapspace.sparsity is not None
    found = []
    for point in points:
        own = {name: replace(mapspace.sparsity.density(name), share=share) for name, share in point.densities}
        sparsity = replace(mapspace.sparsity, densities={**mapspace.sparsity.densities, **own})
        document = sparse_result_document(replace(mapspace, sparsity=sparsity), point.result, ())
        shares = {name: float(share) for name, share in point.densities}
        found.append({"shares": shares, **document})
    return {"kind": "sweep-sparse", "problem": mapspace.problem.name, "points": found}
