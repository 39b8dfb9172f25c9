"""What the command ``check`` prints of a spec: problem, hierarchy, energies, areas, size of the mapspace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from rich.console import Console
from rich.text import Text

from model.architecture import Architecture, Direction, Fanout, StorageLevel
from model.counting.words import tile_words
from model.extents import ANY
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules
from model.mapspace_size import LARGEST_COUNTED, mapspace_size
from model.places import gathered
from model.problem import Problem
from solver.report.console import ReportTable, plain_table, unheaded_table
from solver.report.figures import (
    NOTHING,
    count_text,
    einsum_text,
    energy_text,
    large_count_text,
    percent,
    significant,
)

_WAYS: dict[Direction, str] = {"down": "inwards", "up": "outwards", "both": "either way"}

FLAGS = {
    "no_temporal_reuse": "no temporal reuse of",
    "rmw_first_update": "rmw_first_update of",
    "no_coalesce": "no coalescing of",
    "no_multicast": "no multicast of",
    "no_link_transfer": "no link transfer of",
}


def print_check(console: Console, mapspace: Mapspace) -> None:
    """Print problem, hierarchy, prices, areas as far as known, and the size of the mapspace."""
    name = mapspace.problem.name
    console.print(Text.assemble(("Problem", "bold"), f" of {name}" if name else ""))
    console.print(einsum_text(mapspace.problem))
    console.print(problem_table(mapspace.problem))
    console.print(_table_title("Hierarchy, outermost first"))
    console.print(hierarchy_table(mapspace))
    console.print(_table_title("Energy per access"))
    architecture = gathered(mapspace).architecture
    console.print(prices_table(architecture))
    if any(component.area_um2 is not None for component, _ in architecture.components):
        console.print(_table_title("Area"))
        console.print(areas_table(architecture))
    console.print(_table_title("Mapspace"))
    console.print(size_table(mapspace))
    if mapspace.rules:
        console.print(_table_title("Rules"))
    for rule in mapspace.rules:
        console.print(str(rule), markup=False)
    for note in mapspace.notes:
        console.print(f"note: {note}")


def _table_title(text: str) -> Text:
    """Return the line above a table."""
    return Text.assemble("\n", (text, "bold"))


def areas_table(architecture: Architecture) -> ReportTable:
    """Return a row per component with the area of one instance and of all, and where it comes from."""
    table = plain_table("Component", ">Instances", ">Each", ">All", "...Source")
    for component, instances in architecture.components:
        area = component.area_um2
        cells = (NOTHING,) * 3
        if area is not None:
            total = f"{significant(area * instances / 1e6)} mm2"
            cells = (f"{significant(area)} um2", total, component.area_source)
        table.add_row(component.name, count_text(instances), *cells)
    return table


def prices_table(architecture: Architecture) -> ReportTable:
    """Return the energy of every access, the words it moves, and where the figures come from."""
    figures = (">Read", ">Fill", ">Update", ">Leak/cycle", ">Words")
    table = plain_table("Component", *figures, "...Source", optional=("Leak/cycle", "Words"))
    units = architecture.units_per_pj
    for level in architecture.levels:
        price = level.energy
        shown = (
            _energy(each, units) for each in (price.read, price.fill, price.update, price.leak_per_cycle)
        )
        table.add_row(level.name, *shown, block_text(level), joined_sources(price.sources))
    compute = architecture.compute
    idle = (NOTHING,) * 4
    table.add_row(compute.name, _energy(compute.energy, units), *idle, compute.energy_source or NOTHING)
    return table


def block_text(level: StorageLevel) -> str:
    """Return the words of one access; for each dataspace if their values differ in size."""
    if not level.packing:
        return str(level.block_size)
    shares = (
        (packing.dataspace, Fraction(packing.block_size, packing.accesses_per_block))
        for packing in level.packing
    )
    return ", ".join(f"{name} {words}" for name, words in shares)


def joined_sources(sources: Sequence[tuple[str, str]]) -> str:
    """Return the sources of a component's figures with their actions; lines of one file are joined."""
    lines: dict[str, list[int]] = {}
    actions: dict[str, list[str]] = {}
    for action, source in sources:
        place, line = _split_line(source)
        lines.setdefault(place, []).extend(line)
        actions.setdefault(place, []).append(action)
    texts = [(", ".join(actions[place]), _with_lines(place, lines[place])) for place in actions]
    if len(texts) == 1:
        return texts[0][1]
    return "; ".join(f"{names}: {text}" for names, text in texts) or NOTHING


def _split_line(source: str) -> tuple[str, list[int]]:
    """Split ``file:12`` into the file and its line; other texts have no line."""
    place, colon, line = source.rpartition(":")
    return (place, [int(line)]) if colon and line.isdecimal() else (source, [])


def _with_lines(place: str, lines: Sequence[int]) -> str:
    if not lines:
        return place
    first, last = min(lines), max(lines)
    return f"{place}:{first}" if first == last else f"{place}:{first}-{last}"


def problem_table(problem: Problem) -> ReportTable:
    """Return the dimensions with their bounds and the dataspaces with their words."""
    table = unheaded_table()
    bounds = ", ".join(f"{dim}={bound}" for dim, bound in problem.bound.items())
    table.add_row("Dimensions", bounds)
    table.add_row("Computes", count_text(problem.computes))
    for space in problem.dataspaces:
        kind = "read-write" if space.read_write else "read-only"
        kind += ", first values given" if space.given else ""
        table.add_row(space.name, f"{count_text(tile_words(space, problem.bound))} words, {kind}")
    return table


def hierarchy_table(mapspace: Mapspace) -> ReportTable:
    """Return a row per node of the flattened hierarchy, outermost first, with its constraints."""
    places = {
        mapspace.architecture.levels[rules.levels[0]].component: len(rules.levels) for rules in mapspace.joint
    }
    mapspace = gathered(mapspace)
    architecture = mapspace.architecture
    table = plain_table("Node", "Kind", ">Instances", ">Words", ">Bits", ">Block", "...Constraints")
    temporal, spatial = iter(zip(mapspace.temporal, mapspace.keep, strict=True)), iter(mapspace.spatial)
    for position, node in enumerate(architecture.nodes):
        if isinstance(node, Fanout):
            children = count_text(architecture.instances_above(position) * node.size)
            kind = f"fanout {node.mesh_x} x {node.mesh_y}"
            constraints = _listed_text((*_loops_text(next(spatial)), *_flags_text(node)))
            table.add_row(node.name, kind, children, *(NOTHING,) * 3, constraints)
            continue
        loops, keep = next(temporal)
        if node.tolls:
            table.add_row(*_toll_row(node, count_text(architecture.instances_above(position))))
            continue
        instances = count_text(architecture.instances_above(position))
        several = [f"up to {places[node.name]} places"] if node.name in places else []
        flags = (*_flags_text(node), *_utilization_text(node))
        parts = (*several, *_keep_text(keep), *_loops_text(loops), *flags)
        words = "unlimited" if node.usable_words is None else count_text(node.usable_words)
        size = (words, str(node.word_bits), block_text(node))
        table.add_row(node.name, "storage", instances, *size, _listed_text(parts))
    units = count_text(architecture.compute_instances)
    least = math.ceil(mapspace.min_parallelism)
    parallelism = f"at least {count_text(least)} in use" if least > 1 else NOTHING
    table.add_row(architecture.compute.name, "compute", units, *(NOTHING,) * 3, parallelism)
    return table


def _toll_row(node: StorageLevel, instances: str) -> tuple[str, ...]:
    paying = ", ".join(f"{name} {_WAYS[direction]}" for name, direction in sorted(node.tolls))
    return node.name, "toll", instances, NOTHING, str(node.word_bits), NOTHING, f"paid by {paying}"


def size_table(mapspace: Mapspace) -> ReportTable:
    """Return the numbers of choices of each kind, exact."""
    size = mapspace_size(mapspace)
    table = unheaded_table()
    with_remainders = " with remainders" if mapspace.factors == ANY else ""
    at_most = " at most" if with_remainders and max(mapspace.problem.bounds) > LARGEST_COUNTED else ""
    table.add_row(f"Factorizations{with_remainders}", f"{large_count_text(size.factorizations)}{at_most}")
    table.add_row("Loop orders", f"{large_count_text(size.orders)} at most")
    table.add_row("Spatial splits", f"{large_count_text(size.splits)} at most")
    table.add_row("Bypass choices", large_count_text(size.keep_masks))
    table.add_row("Mappings", f"{large_count_text(size.mappings)} at most, ignoring capacities")
    return table


def _listed_text(parts: Iterable[str]) -> str:
    return "; ".join(parts) or NOTHING


def _keep_text(rules: KeepRules) -> Iterator[str]:
    for verb, names in (("keep", rules.keep), ("bypass", rules.bypass)):
        if names:
            yield f"{verb} {', '.join(sorted(names))}"


def _loops_text(rules: TemporalRules | SpatialRules) -> Iterator[str]:
    """Yield the factors, the order and the split."""
    if rules.factors:
        yield ", ".join(f"{rule.dim}{rule.relation}{rule.value}" for rule in rules.factors)
    for place, dims in (("innermost", rules.inner), ("outermost", rules.outer)):
        if dims:
            yield f"{place} {' '.join(dims)}"
    if isinstance(rules, SpatialRules) and rules.split is not None:
        yield f"split {rules.split}"


def _flags_text(node: StorageLevel | Fanout) -> Iterator[str]:
    for flag, text in FLAGS.items():
        names: frozenset[str] = getattr(node, flag, frozenset())
        if names:
            yield f"{text} {', '.join(sorted(names))}"


def _utilization_text(level: StorageLevel) -> Iterator[str]:
    if level.min_utilization:
        yield f"at least {percent(level.min_utilization)} full"


def _energy(units: int, units_per_pj: int) -> str:
    return energy_text(units / units_per_pj)
