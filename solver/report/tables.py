"""The tables of a report, as rich renderables; without colour they read the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from rich import box
from rich.table import Table

from model.architecture import Architecture, StorageLevel
from model.cost.report import Evaluation, LevelCost
from model.objective import EDP, UNITS
from solver.report.figures import count_text, energy_text, percent, significant

NOTHING = "-"
LONG_TEXT = 60


def levels_table(architecture: Architecture, evaluation: Evaluation) -> Table:
    """Return a row per storage level and dataspace it keeps, and one for the arithmetic.

    Tiles and accesses are words (values) of one instance, tiles times the words of the level that each
    takes if that is not one; energies are of all instances together.
    """
    table = plain_table("Level", "Dataspace")
    for heading in ("Instances", "Tile", "Of level", "Reads", "Fills", "Updates", "Energy", "Of total"):
        table.add_column(heading, justify="right", no_wrap=True)
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


def totals_table(architecture: Architecture, evaluation: Evaluation) -> Table:
    """Return energy with what each level has of it, cycles, EDP and utilization of the whole problem."""
    table = Table.grid(padding=(0, 2))
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
    used = _used(evaluation.compute_instances, architecture.compute_instances)
    table.add_row(
        "Utilization", percent(evaluation.utilization), f"{used} {architecture.compute.name} in use"
    )
    return table


def areas_table(architecture: Architecture) -> Table:
    """Return a row per component with the area of one instance and of all, and where it comes from."""
    table = plain_table("Component")
    for heading in ("Instances", "Each", "All"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Source", overflow="fold", max_width=LONG_TEXT)
    for component, instances in architecture.components:
        area = component.area_um2
        figures = (NOTHING, NOTHING, NOTHING)
        if area is not None:
            figures = (
                f"{significant(area)} um2",
                f"{significant(area * instances / 1e6)} mm2",
                component.area_source,
            )
        table.add_row(component.name, count_text(instances), *figures)
    return table


def prices_table(architecture: Architecture) -> Table:
    """Return the energy of every access, the words it moves, and where the figures come from."""
    table = plain_table("Component")
    for heading in ("Read", "Fill", "Update", "Leak/cycle", "Words"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Source", overflow="fold", max_width=LONG_TEXT)
    units = architecture.units_per_pj
    for level in architecture.levels:
        price = level.energy
        figures = (price.read, price.fill, price.update, price.leak_per_cycle)
        shown = (_energy(figure, units) for figure in figures)
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
    """Return the sources of a component's figures, each with its actions unless there is but one.

    Sources that differ in the line only, such as the actions of one component, become one.
    """
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


def plain_table(*headings: str) -> Table:
    """Return an empty table with the common look; the headings are of text columns."""
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True, header_style="bold"
    )
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


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
    return f"the bandwidth of {slowest.name} ({count_text(evaluation.compute_cycles)} without)"


def _used(used: int, instances: int) -> str:
    return f"{count_text(used)}/{count_text(instances)}"


def _energy(units: int, units_per_pj: int) -> str:
    return energy_text(units / units_per_pj)
