"""Tilings for people and as JSON documents; docs/tiling.md lists the keys."""

from __future__ import annotations

from importlib.metadata import version

from rich.console import Console
from rich.table import Table

from model.tiling.backend import Backend
from model.tiling.operators import Operator, Shape
from model.tiling.result import TensorTiling, Tiling
from solver.report.document import Document
from solver.report.figures import count_text, percent
from solver.report.tables import plain_table

NUMBERS = ("Tiles", "Elements", "Scratchpad")


def print_tiling(console: Console, operator: Operator, backend: Backend, outcome: Tiling | Exception) -> None:
    """Print strategies, tile shapes and use of the scratchpads, or why there is no tiling."""
    shape = "x".join(map(str, operator.input))
    console.print(f"Tiling of {operator.name} {shape} for {backend.name}", style="bold")
    if not isinstance(outcome, Tiling):
        console.print(f"It cannot be tiled: {outcome}.")
        return
    console.print(_table(outcome))
    whole = len(outcome.tensors) * backend.capacity
    console.print(
        f"In use: {count_text(outcome.total_elements)} of {count_text(whole)} elements, "
        f"{_share(outcome.total_elements, whole)} of {len(outcome.tensors)} scratchpads "
        f"of {count_text(backend.spad_bytes)} bytes"
    )
    for note in outcome.notes:
        console.print(f"note: {note}")


def tiling_document(operator: Operator, backend: Backend, outcome: Tiling | Exception) -> Document:
    """Return a tiling as JSON values; without one, `outcome` says why, and its figures are null."""
    head: Document = {
        "version": version("tilewright"),
        "operator": operator.name,
        "backend": backend.name,
        "spad_elements": backend.capacity,
    }
    if not isinstance(outcome, Tiling):
        nothing = dict.fromkeys(("strategies", "tiles", "total_elements"))
        return {**head, "status": "CANNOT_TILE", **nothing, "reason": str(outcome), "notes": []}
    return {
        **head,
        "status": "TILED",
        "strategies": {tensor.name: _strategy(tensor) for tensor in outcome.tensors},
        "tiles": {tensor.name: _tiles(tensor) for tensor in outcome.tensors},
        "total_elements": outcome.total_elements,
        "reason": None,
        "notes": list(outcome.notes),
    }


def _table(tiling: Tiling) -> Table:
    headings = ("Tensor", "Shape", "Strategy", "Tile", "Tiles", "First", "Last", "Elements", "Scratchpad")
    table = plain_table(*headings)
    for column, heading in zip(table.columns, headings, strict=True):
        column.justify = "right" if heading in NUMBERS else "left"
    for tensor in tiling.tensors:
        table.add_row(
            tensor.name,
            _shape(tensor.shape),
            _strategy(tensor) or "-",
            _shape(tensor.tile),
            count_text(tensor.listed.count),
            _shape(tensor.listed.first),
            _shape(tensor.listed.last),
            count_text(tensor.tile_elements),
            _share(tensor.tile_elements, tiling.backend.capacity),
        )
    return table


def _tiles(tensor: TensorTiling) -> Document:
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


def _shape(shape: Shape) -> str:
    return "x".join(map(str, shape))


def _share(part: int, whole: int) -> str:
    return percent(part / whole)
