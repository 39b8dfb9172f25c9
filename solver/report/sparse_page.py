"""Reports of a mapping of sparse data: what is made, gated and skipped, and what dense data would cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from model.objective import EDP, UNITS
from solver.report.einsum_page import (
    cycles_sections,
    einsum_page,
    energy_facts,
    energy_scene,
    nest_sections,
)
from solver.report.figures import NOTHING, count_text, energy_text, percent, significant
from solver.report.mapped import ShownMapping, shown_mapping
from solver.report.page import (
    PAGE,
    Cell,
    Fact,
    Figure,
    Page,
    Section,
    Table,
    cost_cells,
    count_cell,
    counting_fact,
    energy_cell,
    figure_cell,
    share_cell,
    si_facts,
    totals_section,
)
from solver.report.plots import COST_KEYS
from solver.report.reading import Value

ACCESSES = ("reads", "fills", "updates")
KINDS = ("Dense", "Actual", "Gated", "Skipped")


def sparse_page(document: Value) -> Page:
    """Return the report of ``map`` or ``evaluate`` on sparse data."""
    shown = shown_mapping(document)
    if shown is None:
        return einsum_page(document, (), ())
    facts = _sparse_facts(document)
    found = [*_sparse_sections(document, shown), totals_section(facts)]
    found += [_dense_section(document)] if document.get("status") else []
    return einsum_page(document, facts, found)


def _sparse_facts(document: Value) -> list[Fact]:
    """Return the costs of a mapping of sparse data, each with what it is for dense data."""
    energy, cycles = document["energy_pj"].number(), document["cycles"].count()
    dense_pj, dense_cycles = document["dense"]["energy_pj"].number(), document["dense"]["cycles"].count()
    leak = document["leak_energy_pj"].number()
    leakage = percent(leak / energy if energy else 0.0)
    return [
        *_density_facts(document),
        counting_fact(document),
        ("Energy", energy_text(energy), _against(energy, dense_pj, energy_text(dense_pj))),
        *energy_facts(document, energy),
        ("  leakage", energy_text(leak), f"{leakage}, included in the levels above"),
        ("Cycles", count_text(cycles), _against(cycles, dense_cycles, count_text(dense_cycles))),
        ("EDP", significant(document["edp_pj_cycles"].number()), UNITS[EDP]),
        *si_facts(document, "2 operations per compute, those with zeros too"),
        ("Utilization", percent(document["utilization"].number()), "counting only performed computes"),
    ]


def _density_facts(document: Value) -> Iterator[Fact]:
    for name, density in document["densities"].items():
        kind = density["distribution"].text()
        is_banded = kind == "banded"
        band = f"band of width {density['band_width'].count()}" if is_banded else ""
        yield f"Density of {name}", band or f"{density['share'].number():g} {kind}", ""


def _against(value: float, dense: float, text: str) -> str:
    """Return a figure of dense data with what sparsity saves of it."""
    return f"{text} for dense data" + (f": {percent(1 - value / dense)} saved" if dense else "")


def _sparse_sections(document: Value, shown: ShownMapping) -> Iterator[Section]:
    yield from nest_sections(document, shown)
    yield _compressed_section(document, shown)
    yield Section("Energy", figures=[Figure(partial(energy_scene, document, shown.inks))], where=PAGE)
    headings = (
        "Level",
        "Dataspace",
        "Access",
        *(f">{kind}" for kind in KINDS),
        ">Metadata",
        ">Energy",
    )
    table = Table("Accesses", headings, list(_access_rows(document)), ("Dense",), is_grouped=True)
    text = "Expected words per instance; energies are for all instances."
    yield Section("Accesses", text, tables=[table])
    yield from cycles_sections(document, shown)


def _compressed_section(document: Value, shown: ShownMapping) -> Section:
    """Return the tiles with their formats, and the room that they take."""
    limits = {node.name: node.usable_words for node in shown.levels}
    rows: list[Sequence[Cell]] = []
    for level in document["levels"].entries():
        limit = limits.get(level["name"].text())
        for name, space in level["dataspaces"].items():
            size, form = space["size_words"].count(), _format_text(space)
            bits = count_cell(space["metadata"]["size_bits"].count()) if form else NOTHING
            words = count_cell(space["tile_words"].count()), figure_cell(space["expected_words"].number())
            full = share_cell(size, limit) if limit else NOTHING
            ends = (full, bits, f"{space['instances'].number():g}")
            rows.append((level["name"].text(), name, form or NOTHING, *words, count_cell(size), *ends))
    columns = (">Dense", ">Expected", ">Taken", ">Of capacity", ">Metadata bits", ">Instances")
    headings = ("Level", "Dataspace", "Format", *columns)
    return Section(
        "Compressed tiles",
        "Words per instance; formats from the top rank down; metadata is an upper limit.",
        tables=[Table("Tiles", headings, rows, ("Instances", "Of capacity"), is_grouped=True)],
    )


def _format_text(space: Value) -> str:
    form = space["format"]
    return " ".join(form.texts()) if isinstance(form.raw, list) else form.text()


def _access_rows(document: Value) -> Iterator[Sequence[Cell]]:
    """Yield a row per level, dataspace and kind of access, and one for the computes."""
    for level in document["levels"].entries():
        for name, space in level["dataspaces"].items():
            yield from _space_rows(level["name"].text(), name, space)
    made = (count_cell(document["computes"][kind.lower()].count()) for kind in KINDS)
    energy = energy_cell(document["compute_energy_pj"].number())
    yield document["architecture"]["compute"]["name"].text(), "", "computes", *made, NOTHING, energy


def _space_rows(level: str, name: str, space: Value) -> Iterator[Sequence[Cell]]:
    """Yield a row per kind of access to a dataspace, the first one with its energy."""
    kinds = (space["dense"], space, space["gated"], space["skipped"])
    energy: Cell = energy_cell(space["energy_pj"].number())
    for access in (own for own in ACCESSES if space["dense"][own].count()):
        words = (count_cell(kind[access].count()) for kind in kinds)
        moved = space["metadata"][access].entries()
        metadata = sum(own[part].count() for own in moved for part in ("metadata", "payload"))
        yield level, name, access, *words, count_cell(metadata) if _format_text(space) else NOTHING, energy
        energy = ""


def _dense_section(document: Value) -> Section:
    """Return the costs of the best mapping on dense data, on dense and on sparse data."""
    dense, objective = document["dense_optimum"], document["objective"].text()
    rows: list[Sequence[Cell]] = []
    if dense:
        known = "best" if dense["status"].text() == "OPTIMAL" else "best known"
        rows.append((f"{known} for dense data", "dense", *cost_cells(dense), ""))
        against = against_text(document) or "not possible with these formats or capacities"
        rows.append((f"{known} for dense data", "sparse", *cost_cells(dense["on_sparse_data"]), against))
    rows.append(("best for sparse data", "sparse", *cost_cells(document), ""))
    headings = ("Mapping", "Data", ">Energy", ">Cycles", ">EDP", f">{objective} vs. the best")
    return Section("Best mapping on dense data", tables=[Table("", headings, rows)])


def against_text(document: Value) -> str:
    """Return the extra cost of the best dense mapping on sparse data; an empty text if it cannot run."""
    dense, objective = document["dense_optimum"], document["objective"].text()
    if not dense or not dense["on_sparse_data"]:
        return ""
    if objective not in COST_KEYS:
        return ""
    key = COST_KEYS[objective]
    value, least = dense["on_sparse_data"][key].number(), document[key].number()
    return f"{percent(value / least - 1)} more" if value > least > 0 else "no worse"
