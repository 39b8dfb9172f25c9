"""Tilings for people and as JSON documents; docs/tiling.md lists the keys."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from model.cost import evaluate_in
from model.mapping import Mapping
from model.mapspace import Mapspace
from model.tiling.operators import Shape
from model.tiling.tilings import TensorTiling, Tiling
from solver.report.console import ReportTable, plain_table, print_page
from solver.report.document import Document, evaluation_document, picked
from solver.report.einsum_page import mapping_page
from solver.report.figures import NOTHING, count_text, percent
from solver.report.reading import as_value
from solver.report.timeloop_mapping import mapping_targets

HEADINGS = ("Tensor", "Shape", "Strategy", "Tile", ">Tiles", "First", "Last", ">Elements", ">Scratchpad")


@dataclass(frozen=True)
class MappedReport:
    """A tiling as a mapping."""

    mapspace: Mapspace
    mapping: Mapping
    remarks: tuple[str, ...]  # where the mapping's tiles are not those of the tiling
    broken: str | None  # the rule of the mapspace or limit of the hardware that it breaks


@dataclass(frozen=True)
class TilingReport:
    """A tiling of `operator` for `backend` (their names), or the reason why there is none."""

    operator: str
    backend: str
    tiling: Tiling | None = None
    reason: str | None = None
    mapped: MappedReport | None = None


def print_tiling(console: Console, report: TilingReport) -> None:
    """Print strategies, tile shapes and use of the scratchpads, or why there is no tiling."""
    console.print(f"Tiling of {report.operator} for {report.backend}", style="bold")
    if report.tiling is None:
        console.print(f"It cannot be tiled: {report.reason}.")
        return
    tiling, capacity = report.tiling, report.tiling.backend.capacity
    console.print(_table(tiling))
    tensors = len(tiling.tensors)
    console.print(
        f"In use: {count_text(tiling.total_elements)} of {count_text(tensors * capacity)} elements, "
        f"{percent(tiling.total_elements / (tensors * capacity))} of {tensors} scratchpads "
        f"of {count_text(capacity)} elements"
    )
    for remark in tiling.remarks:
        console.print(f"note: {remark}")
    if report.mapped is not None:
        console.print()
        mapspace, mapping = report.mapped.mapspace, report.mapped.mapping
        evaluation = evaluate_in(mapspace, mapping)
        print_page(console, mapping_page(as_value(evaluation_document(mapspace, mapping, evaluation))))
        for remark in (*report.mapped.remarks, *_broken_note(report.mapped)):
            console.print(f"note: {remark}")


def tiling_document(report: TilingReport) -> Document:
    """Return a tiling as JSON values; without one, all but the reason is null."""
    tiling, mapped = report.tiling, report.mapped
    document: Document = {
        "status": "CANNOT_TILE" if tiling is None else "TILED",
        **picked(report, "reason", "operator", "backend"),
        **dict.fromkeys(("spad_elements", "strategies", "tiles", "total_elements")),
        "notes": [],
        "mapping": None,
    }
    if tiling is None:
        return document
    notes, targets = list(tiling.remarks), None
    if mapped is not None:
        mapspace = mapped.mapspace
        notes += [*map(str, mapspace.notes), *mapped.remarks, *_broken_note(mapped)]
        targets = mapping_targets(mapspace.problem, mapspace.architecture, mapped.mapping)
    return document | {
        "spad_elements": tiling.backend.capacity,
        "strategies": {tensor.name: _strategy(tensor) for tensor in tiling.tensors},
        "tiles": {tensor.name: _tiles_document(tensor) for tensor in tiling.tensors},
        "total_elements": tiling.total_elements,
        "notes": notes,
        "mapping": targets,
    }


def _broken_note(mapped: MappedReport) -> tuple[str, ...]:
    return (
        ()
        if mapped.broken is None
        else (f"the spec does not allow this mapping: it violates {mapped.broken}",)
    )


def _table(tiling: Tiling) -> ReportTable:
    table = plain_table(*HEADINGS)
    for tensor in tiling.tensors:
        table.add_row(
            tensor.name,
            _shape_text(tensor.shape),
            _strategy(tensor) or NOTHING,
            _shape_text(tensor.tile),
            count_text(tensor.listed.count),
            _shape_text(tensor.listed.first),
            _shape_text(tensor.listed.last),
            count_text(tensor.tile_elements),
            percent(tensor.tile_elements / tiling.backend.capacity),
        )
    return table


def _tiles_document(tensor: TensorTiling) -> Document:
    return {
        "tensor": list(tensor.shape),
        "shape": list(tensor.tile),
        "count": tensor.listed.count,
        "first": list(tensor.listed.first),
        "last": list(tensor.listed.last),
        "elements": tensor.tile_elements,
        "scheduled": tensor.grid.count,
    }


def _strategy(tensor: TensorTiling) -> str | None:
    return None if tensor.strategy is None else tensor.strategy.value


def _shape_text(shape: Shape) -> str:
    return "x".join(map(str, shape))
