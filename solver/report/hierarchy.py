"""What ``check`` prints: the problem, the flattened hierarchy and the size of the mapspace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from rich.table import Table

from model.architecture import Fanout, StorageLevel
from model.cost.counting import tile_words
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.mapspace_size import mapspace_size
from model.problem import Problem
from solver.report.figures import count_text, large_count_text, percent
from solver.report.tables import LONG_TEXT, NOTHING, block_text, plain_table

FLAGS = {
    "no_temporal_reuse": "no temporal reuse of",
    "rmw_first_update": "rmw_first_update of",
    "no_coalesce": "no coalescing of",
    "no_multicast": "no multicast of",
    "no_link_transfer": "no link transfer of",
}


def problem_table(problem: Problem) -> Table:
    """Return the dimensions with their bounds and the dataspaces with their words."""
    table = Table.grid(padding=(0, 2))
    bounds = ", ".join(f"{dim}={bound}" for dim, bound in problem.bound.items())
    table.add_row("Dimensions", bounds)
    table.add_row("Computes", count_text(problem.computes))
    for space in problem.dataspaces:
        kind = "read-write" if space.read_write else "read-only"
        table.add_row(space.name, f"{count_text(tile_words(space, problem.bound))} words, {kind}")
    return table


def hierarchy_table(mapspace: Mapspace) -> Table:
    """Return a row per node of the flattened hierarchy, outermost first, with its constraints."""
    architecture = mapspace.architecture
    table = plain_table("Node", "Kind")
    for heading in ("Instances", "Words", "Bits", "Block"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Constraints", overflow="fold", max_width=LONG_TEXT)
    temporal, spatial = iter(zip(mapspace.temporal, mapspace.keep, strict=True)), iter(mapspace.spatial)
    for position, node in enumerate(architecture.nodes):
        if isinstance(node, Fanout):
            size = count_text(architecture.instances_above(position) * node.size)
            kind = f"fanout {node.mesh_x} x {node.mesh_y}"
            constraints = _joined((*_spatial_text(next(spatial)), *_flags_text(node)))
            table.add_row(node.name, kind, size, *(NOTHING,) * 3, constraints)
            continue
        loops, keep = next(temporal)
        instances = count_text(architecture.instances_above(position))
        parts = (*_keep_text(keep), *_temporal_text(loops), *_flags_text(node), *_utilization_text(node))
        table.add_row(node.name, "storage", instances, *_storage_columns(node), _joined(parts))
    units = count_text(architecture.compute_instances)
    least = math.ceil(mapspace.min_parallelism)
    parallelism = f"at least {count_text(least)} in use" if least > 1 else NOTHING
    table.add_row(architecture.compute.name, "compute", units, *(NOTHING,) * 3, parallelism)
    return table


def size_table(mapspace: Mapspace) -> Table:
    """Return the numbers of choices of each kind, exact."""
    size = mapspace_size(mapspace)
    table = Table.grid(padding=(0, 2))
    table.add_row("Factorizations", large_count_text(size.factorizations))
    table.add_row("Loop orders", f"{large_count_text(size.orders)} at most")
    table.add_row("Spatial splits", f"{large_count_text(size.splits)} at most")
    table.add_row("Keep masks", large_count_text(size.keep_masks))
    table.add_row("Mappings", f"{large_count_text(size.mappings)} at most, capacities aside")
    return table


def _storage_columns(level: StorageLevel) -> tuple[str, str, str]:
    words = "unlimited" if level.usable_words is None else count_text(level.usable_words)
    return words, str(level.word_bits), block_text(level)


def _joined(parts: Iterable[str]) -> str:
    return "; ".join(parts) or NOTHING


def _keep_text(rules: KeepRules) -> Iterator[str]:
    for verb, names in (("keep", rules.keep), ("bypass", rules.bypass)):
        if names:
            yield f"{verb} {', '.join(sorted(names))}"


def _factors_text(rules: tuple[FactorRule, ...]) -> Iterator[str]:
    if rules:
        yield ", ".join(f"{rule.dim}{rule.relation}{rule.value}" for rule in rules)


def _order_text(rules: TemporalRules | SpatialRules) -> Iterator[str]:
    for place, dims in (("innermost", rules.inner), ("outermost", rules.outer)):
        if dims:
            yield f"{place} {' '.join(dims)}"


def _temporal_text(rules: TemporalRules) -> Iterator[str]:
    yield from _factors_text(rules.factors)
    yield from _order_text(rules)


def _spatial_text(rules: SpatialRules) -> Iterator[str]:
    yield from _factors_text(rules.factors)
    yield from _order_text(rules)
    if rules.split is not None:
        yield f"split {rules.split}"


def _flags_text(node: StorageLevel | Fanout) -> Iterator[str]:
    for flag, text in FLAGS.items():
        names: frozenset[str] = getattr(node, flag, frozenset())
        if names:
            yield f"{text} {', '.join(sorted(names))}"


def _utilization_text(level: StorageLevel) -> Iterator[str]:
    if level.min_utilization:
        yield f"at least {percent(level.min_utilization)} full"
