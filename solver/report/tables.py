"""The tables of a report: of a mapping, of the hierarchy, of limits. Without colour they read the same."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from rich import box
from rich.cells import cell_len
from rich.table import Column, Table

from model.architecture import BANDWIDTHS, Architecture, Direction, Fanout, StorageLevel
from model.cost.report import Evaluation, LevelCost
from model.cost.slack import CAPACITY, Resource, Slack
from model.counting import Counting, rule_of
from model.counting.words import tile_words
from model.extents import ANY
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules
from model.mapspace_size import LARGEST_COUNTED, mapspace_size
from model.objective import EDP, UNITS
from model.places import gathered
from model.problem import Problem
from model.wording import printable
from solver.report.figures import (
    NOTHING,
    count_text,
    energy_text,
    large_count_text,
    objective_text,
    percent,
    seconds_text,
    significant,
)
from solver.result import Result, StageCost, Status
from solver.sensitivity import FACTORS, Effect

LONG_TEXT = 60
NARROWEST = 12
LONGEST_WORD = 24
"""Widths of a column of text on a narrow terminal: the least, and the longest word that is kept whole."""

GAP = 2
"""Blanks between columns."""


class ReportTable(Table):
    """A table of texts that are safe on a terminal; columns named in `optional` may be left out."""

    optional: Sequence[str] = ()

    def add_row(self, *cells: str) -> None:  # type: ignore[override]
        """Add a row of texts."""
        super().add_row(*map(printable, cells))

    def fitted(self, width: int) -> tuple[ReportTable, list[str]]:
        """Return the table for a terminal of some width, and the headings of the columns left out.

        Optional columns go where breaking headings and folding texts do not suffice; no figure is cut off.
        """
        columns = list(self.columns)
        natural, least = {id(c): _width(c) for c in columns}, {id(c): _least_width(c) for c in columns}
        excess = _total(columns, natural) - width
        if excess <= 0:
            return self, []
        if not self.show_header:
            last = columns[-1]
            last.width, last.overflow = max(NARROWEST, _width(last) - excess), "fold"
            return self, []
        headings = list(self.optional)
        while _total(columns, least) > width and headings:
            dropped = headings.pop()
            columns = [column for column in columns if column.header != dropped]
        widths = _shrunk(columns, natural, least, _total(columns, natural) - width)
        table = plain_table(*(column.copy() for column in columns))
        for column, original in zip(table.columns, columns, strict=True):
            column.width = widths[id(original)]
            column.header = _broken(str(column.header), column.width)
            column.no_wrap, column.overflow = not _is_text(original), "fold"
        for row in zip(*(column.cells for column in columns), strict=True):
            table.add_row(*map(str, row))
        kept = set(map(id, columns))
        left_out = (str(column.header) for column in self.columns if id(column) not in kept)
        return table, list(dict.fromkeys(left_out))


def _is_text(column: Column) -> bool:
    return column.justify == "left" and column.header != ""


def _widest(texts: Iterable[object]) -> int:
    return max((cell_len(str(text)) for text in texts), default=0)


def _width(column: Column) -> int:
    widest = _widest((column.header, *column.cells))
    return min(widest, column.max_width or widest)


def _least_width(column: Column) -> int:
    """Return the width to which a column shrinks: headings are broken, texts are folded between words."""
    words = (word for text in column.cells for word in str(text).split())
    body = max(NARROWEST, min(_widest(words), LONGEST_WORD)) if _is_text(column) else _widest(column.cells)
    return min(_width(column), max(body, _widest(_pieces(str(column.header)))))


def _total(columns: Sequence[Column], widths: Mapping[int, int]) -> int:
    return sum(widths[id(column)] + GAP for column in columns) - GAP


def _shrunk(
    columns: Sequence[Column], natural: Mapping[int, int], least: Mapping[int, int], excess: int
) -> dict[int, int]:
    """Return widths that are smaller by `excess`, if possible; headings are broken before texts."""
    widths = dict(natural)
    for column in columns:
        if not _is_text(column):
            saved = max(0, min(excess, widths[id(column)] - least[id(column)]))
            widths[id(column)] -= saved
            excess -= saved
    for narrowest in (least, dict.fromkeys(least, NARROWEST)):
        texts = [id(column) for column in columns if _is_text(column)]
        while excess > 0 and (wide := [key for key in texts if widths[key] > narrowest[key]]):
            widths[max(wide, key=widths.__getitem__)] -= 1
            excess -= 1
    return widths


def _pieces(heading: str) -> list[str]:
    """Return the parts of a heading between which it may be broken."""
    return re.findall(r"[^ ._]+[._]*|[._]+", heading)


def _broken(heading: str, width: int) -> str:
    """Break a heading into lines of some width, if possible."""
    lines = [""]
    for piece in re.findall(r"[^ ._]+[._]* ?|[._ ]+", heading):
        if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(map(str.rstrip, lines))


def plain_table(*columns: str | Column, optional: Sequence[str] = ()) -> ReportTable:
    """Return an empty table with the common look.

    Headings of right-aligned figures begin with ``>``, those of long texts with ``...``. A narrow terminal
    can do without the columns in `optional`, the last one first.
    """
    table = ReportTable(
        *map(_column, columns),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
        header_style="bold",
    )
    table.optional = optional
    return table


def _column(heading: str | Column) -> Column:
    if isinstance(heading, Column):
        return heading
    if heading.startswith("..."):
        return Column(printable(heading[3:]), overflow="fold", max_width=LONG_TEXT)
    figures = heading.startswith(">")
    return Column(printable(heading.removeprefix(">")), justify="right" if figures else "left", no_wrap=True)


def plain_grid() -> ReportTable:
    """Return an empty table without headings, such as of totals."""
    return ReportTable(
        padding=(0, GAP), collapse_padding=True, pad_edge=False, show_header=False, show_edge=False, box=None
    )


def levels_table(architecture: Architecture, evaluation: Evaluation) -> ReportTable:
    """Return a row per storage level and dataspace it keeps, and one for the arithmetic.

    Tiles and accesses are words of one instance, the busiest one, energies are of all instances together.
    """
    headings = (">Instances", ">Tile", ">Of level", ">Reads", ">Fills", ">Updates", ">Energy", ">Of total")
    table = plain_table("Level", "Dataspace", *headings, optional=("Instances", "Of level", "Of total"))
    positions = architecture.storage_indices
    for position, level, cost in zip(positions, architecture.levels, evaluation.levels, strict=True):
        head = (level.name, _used(cost.instances, architecture.instances_above(position)))
        for space, *figures in _level_rows(level, cost, evaluation):
            table.add_row(head[0], space, head[1], *figures)
            head = ("", "")
    used = _used(evaluation.compute_instances, architecture.compute_instances)
    energy = _energy_and_share(evaluation.compute_energy, evaluation)
    table.add_row(architecture.compute.name, NOTHING, used, *(NOTHING,) * 5, *energy)
    return table


def totals_table(architecture: Architecture, evaluation: Evaluation, counting: Counting) -> ReportTable:
    """Return energy with what each level has of it, cycles, EDP and utilization of the whole problem."""
    table = plain_grid()
    table.add_row("Counting", counting, rule_of(counting).description)
    per_compute = significant(evaluation.energy_pj / evaluation.computes)
    table.add_row("Energy", energy_text(evaluation.energy_pj), f"{per_compute} pJ per compute")
    parts = [(level.name, level.energy) for level in evaluation.levels]
    for name, part in (*parts, (architecture.compute.name, evaluation.compute_energy)):
        table.add_row(f"  {name}", *_energy_and_share(part, evaluation))
    leakage, share = _energy_and_share(evaluation.leak_energy, evaluation)
    table.add_row("  leakage", leakage, f"{share}, within the levels above")
    bound_by = _slowest(evaluation)
    table.add_row("Cycles", count_text(evaluation.cycles), f"limited by {bound_by}")
    table.add_row("EDP", significant(evaluation.edp_pj_cycles), UNITS[EDP])
    for row in seconds_rows(evaluation.energy_j, evaluation.latency_s):
        table.add_row(*row)
    used = _used(evaluation.compute_instances, architecture.compute_instances)
    table.add_row(
        "Utilization", percent(evaluation.utilization), f"{used} {architecture.compute.name} in use"
    )
    return table


def seconds_rows(energy_j: float, latency_s: Fraction | None) -> Iterator[tuple[str, str, str]]:
    """Yield energy, latency and EDP in joules and seconds, nothing where there is no clock."""
    if latency_s is not None:
        yield "In SI units", f"{energy_j:.6g} J", f"{float(latency_s):.6g} s"
        yield "", f"{energy_j * float(latency_s):.6g} J*s", "EDP"


def stages_table(stages: Sequence[StageCost]) -> ReportTable:
    """Return a row per stage of a search, with what it took."""
    table = plain_table("Stage", "Engine", ">Time")
    for own in stages:
        table.add_row(own.stage, own.engine, seconds_text(own.seconds))
    return table


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


def _level_rows(level: StorageLevel, cost: LevelCost, evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    """Yield dataspace, tile, share of the capacity, reads, fills, updates and energy."""
    for space in cost.dataspaces:
        size = level.packing_of(space.dataspace).size_per_value
        tile = count_text(space.tile_words) + ("" if size == 1 else f" x {count_text(size)}")
        accesses = map(count_text, (space.reads, space.fills, space.updates))
        share = percent(space.size_words / level.usable_words) if level.usable_words else NOTHING
        yield space.dataspace, tile, share, *accesses, *_energy_and_share(space.energy, evaluation)
    if cost.leak_energy or not cost.dataspaces:
        label = "(leakage)" if cost.dataspaces else "(nothing)"
        yield label, *(NOTHING,) * 5, *_energy_and_share(cost.leak_energy, evaluation)


def _energy_and_share(part: int, evaluation: Evaluation) -> tuple[str, str]:
    share = part / evaluation.energy if evaluation.energy else 0
    return _energy(part, evaluation.units_per_pj), percent(share)


def _slowest(evaluation: Evaluation) -> str:
    """Say what decides the latency: the arithmetic, or the bandwidth of a level."""
    slowest = max(evaluation.levels, key=lambda level: level.cycles)
    if slowest.cycles <= evaluation.compute_cycles:
        return "the arithmetic"
    return f"the bandwidth of {slowest.name} ({count_text(evaluation.compute_cycles)} without it)"


def _used(used: int, instances: int) -> str:
    return f"{count_text(used)}/{count_text(instances)}"


def _energy(units: int, units_per_pj: int) -> str:
    return energy_text(units / units_per_pj)


_WAYS: dict[Direction, str] = {"down": "inwards", "up": "outwards", "both": "either way"}

FLAGS = {
    "no_temporal_reuse": "no temporal reuse of",
    "rmw_first_update": "rmw_first_update of",
    "no_coalesce": "no coalescing of",
    "no_multicast": "no multicast of",
    "no_link_transfer": "no link transfer of",
}


def problem_table(problem: Problem) -> ReportTable:
    """Return the dimensions with their bounds and the dataspaces with their words."""
    table = plain_grid()
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
            constraints = _joined((*_loops_text(next(spatial)), *_flags_text(node)))
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
        table.add_row(node.name, "storage", instances, *size, _joined(parts))
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
    table = plain_grid()
    with_remainders = " with remainders" if mapspace.factors == ANY else ""
    at_most = " at most" if with_remainders and max(mapspace.problem.bounds) > LARGEST_COUNTED else ""
    table.add_row(f"Factorizations{with_remainders}", f"{large_count_text(size.factorizations)}{at_most}")
    table.add_row("Loop orders", f"{large_count_text(size.orders)} at most")
    table.add_row("Spatial splits", f"{large_count_text(size.splits)} at most")
    table.add_row("Keep masks", large_count_text(size.keep_masks))
    table.add_row("Mappings", f"{large_count_text(size.mappings)} at most, ignoring capacities")
    return table


def _joined(parts: Iterable[str]) -> str:
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


RESOURCE_NAMES: dict[Resource, str] = {
    CAPACITY: "capacity",
    **{resource: resource.replace("_", " ") for resource in BANDWIDTHS},
}
RESOURCE_UNITS: dict[Resource, str] = {CAPACITY: "words", **dict.fromkeys(BANDWIDTHS, "words/cycle")}
HEADINGS = {Fraction(1, 2): "Halved", Fraction(2): "Doubled"}
UNCHANGED = "unchanged"


def slack_table(slacks: Iterable[Slack]) -> ReportTable:
    """Return a row per limit of one instance: its size, and what the mapping uses and leaves of it."""
    figures = (">Limit", ">Used", ">Unused", ">Of limit")
    table = plain_table("Level", "Resource", "Unit", *figures, optional=("Unit", "Unused"))
    previous = ""
    for slack in slacks:
        head = (_once(slack.level, previous), RESOURCE_NAMES[slack.resource], RESOURCE_UNITS[slack.resource])
        amounts = (amount_text(slack.resource, part) for part in (slack.limit, slack.used, slack.unused))
        table.add_row(*head, *amounts, percent(slack.unused_share))
        previous = slack.level
    return table


def sensitivity_table(base: Result, effects: Iterable[Effect]) -> ReportTable:
    """Return a row per limit: the optimum if it is halved and doubled, and by how much it moves."""
    figures = (f">{heading}" for name in HEADINGS.values() for heading in (name, "Optimum", "Change"))
    table = plain_table("Level", "Resource", "Unit", *figures, optional=("Unit", "Optimum"))
    rows: dict[tuple[str, Resource], dict[Fraction, Effect]] = {}
    for effect in effects:
        key = (effect.variation.level, effect.variation.resource)
        rows.setdefault(key, {})[effect.variation.factor] = effect
    previous = ""
    for (level, resource), by_factor in rows.items():
        cells = (cell for factor in FACTORS for cell in _effect_cells(by_factor.get(factor), base))
        table.add_row(_once(level, previous), RESOURCE_NAMES[resource], RESOURCE_UNITS[resource], *cells)
        previous = level
    return table


def amount_text(resource: Resource, amount: Fraction) -> str:
    """Return words exactly, words per cycle with five significant digits."""
    if resource == CAPACITY or amount.denominator == 1:
        return count_text(int(amount))
    return significant(amount)


def change_text(ratio: Fraction | None) -> str:
    """Return the signed change of a value, given its new over its old value; None where one is missing."""
    if ratio is None:
        return NOTHING
    if ratio == 1:
        return UNCHANGED
    sign = "+" if ratio > 1 else "-"
    return f"{sign}{percent(abs(ratio - 1))}"


def _effect_cells(effect: Effect | None, base: Result) -> tuple[str, str, str]:
    """Return the limit, the optimum and its change; anything but a proven optimum says what it is."""
    if effect is None:
        return (NOTHING,) * 3
    result = effect.result
    limit = amount_text(effect.variation.resource, effect.limit)
    if result.value is None:
        return limit, result.status.value, NOTHING
    value = objective_text(base.objective, result.value, base.units_per_pj)
    suffix = "" if result.status is Status.OPTIMAL else f" ({result.status.value})"
    return limit, value + suffix, _change(effect)


def _change(effect: Effect) -> str:
    """Return by how much the first objective moved; if it did not, the next one that did, with its name."""
    for name, ratio in zip(effect.result.objectives[1:], effect.later_ratios, strict=False):
        if effect.ratio == 1 and ratio not in (1, None):
            return f"{change_text(ratio)} {name}"
    return change_text(effect.ratio)


def _once(name: str, previous: str) -> str:
    return "" if name == previous else name
