"""Two results of one kind side by side: figures, energy by level, mappings, and Einsums of networks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from solver.report.charts import energies_scene
from solver.report.document import Document
from solver.report.figures import NOTHING, percent, significant
from solver.report.fused_charts import fused_cycles
from solver.report.fused_page import fused_energies, tree_lines
from solver.report.mapped import node_texts
from solver.report.network_page import energy_parts, with_results
from solver.report.page import Cell, Fact, Figure, Page, Section, Table, count_cell, energy_cell, joined
from solver.report.reading import DocumentError, Value, optional

EINSUMS = ("map", "evaluate", "map-sparse", "evaluate-sparse")
FUSED = ("network-fused", "evaluate-fused")
NETWORKS = ("network", "network-same", *FUSED)

SAME, CHANGED = "SAME", "CHANGED"
FIGURES = {
    "energy_pj": "Energy",
    "cycles": "Cycles",
    "edp_pj_cycles": "EDP (pJ*cycles)",
    "utilization": "Utilization",
    "latency_s": "Latency (s)",
    "power_w": "Power (W)",
    "tops": "TOPS",
    "tops_per_w": "TOPS/W",
}
GROUPS = "fused groups"

Figures = Mapping[str, float | None]
"""Figures by name, None where there is none."""

_Costs = tuple[float | None, float | None, object]
"""Energy in pJ, cycles, and loop nest of an Einsum; None where they are not known."""


def difference_document(before: Value, after: Value, names: tuple[str, str]) -> Document:
    """Return what differs between two results, as a document.

    Parameters
    ----------
    before, after
        Documents of ``map`` or ``evaluate``, or of ``network``, fused or not.
    names
        What to call them, such as the names of their files.

    Raises
    ------
    DocumentError
        If they are not both of one Einsum, or both of a network.
    """
    both = _both(before, after)
    return {
        "kind": "difference",
        "results": [_about(result, name) for result, name in zip(both, names, strict=True)],
        "figures": _pairs(*map(_figures, both)),
        "energies_pj": _pairs(*map(_energies, both)),
        "mapping": _changes(*map(_mapping, both)),
        "einsums": list(_einsums(*both)),
        "notes": list(_unlike(*both)),
    }


def _both(before: Value, after: Value) -> tuple[Value, Value]:
    kinds = before["kind"].text(), after["kind"].text()
    for kind in kinds:
        if kind not in (*EINSUMS, *NETWORKS):
            raise DocumentError(
                f"kind: results of {', '.join((*EINSUMS, *NETWORKS))} are compared, not {kind!r}"
            )
    if (kinds[0] in EINSUMS) != (kinds[1] in EINSUMS):
        raise DocumentError(f"kind: {kinds[0]!r} and {kinds[1]!r} are not compared: one is of a network")
    return _unwrapped(before), _unwrapped(after)


def _unwrapped(result: Value) -> Value:
    """Return the network with a common unrolling, or without one if there is none."""
    return result["common"] or result["own"] if result["kind"].text() == "network-same" else result


def _about(result: Value, name: str) -> Document:
    architecture = result.get("architecture")
    return {
        "name": name,
        "subject": _subject(result),
        "architecture": architecture["name"].text() if architecture else "",
        "status": result.get("status").text() or ("VALID" if result.get("valid").flag() else "INVALID"),
    }


def _subject(result: Value) -> str:
    keys = ("problem", "network", "workload")
    return next((result[key].text() for key in keys if result.get(key)), "")


def _unlike(before: Value, after: Value) -> Iterator[str]:
    """Yield what makes the results those of different questions."""
    for what, read in (("Einsums", _question), ("counting rules", lambda one: one.get("counting").raw)):
        own, other = read(before), read(after)
        if own is not None and other is not None and own != other:
            yield f"the results are of different {what}: {own}; {other}"
    missing = [
        name for name, one in (("first", before), ("second", after)) if _figures(one)["cycles"] is None
    ]
    yield from (f"the {name} result has no mapping" for name in missing)


def _question(result: Value) -> str | None:
    einsum = result.get("einsum")
    if not einsum:
        return None
    sizes = ", ".join(f"{dim} {bound.count()}" for dim, bound in einsum["dimensions"].items())
    return f"{einsum['text'].text()} with {sizes}"


def _figures(result: Value) -> Figures:
    return {name: optional(result.get(name)) for name in FIGURES}


def _pairs(before: Figures, after: Figures) -> list[Document]:
    """Return the figures that at least one result has."""
    names = dict.fromkeys((*before, *after))
    rows: list[Document] = [
        {"name": name, "before": before.get(name), "after": after.get(name)} for name in names
    ]
    return [row for row in rows if (row["before"], row["after"]) != (None, None)]


def _energies(result: Value) -> Figures:
    """Return the energy of each level and of the computes, over all runs of all Einsums."""
    found: dict[str, float] = defaultdict(float)
    for name, energy in chain.from_iterable(_parts(result)):
        found[name] += energy
    return found


def _parts(result: Value) -> Iterator[Sequence[tuple[str, float]]]:
    if result["kind"].text() == "network":
        yield from (parts for _, parts in energy_parts(result["layers"].entries()))
    elif result["kind"].text() in FUSED:
        for einsum in _fused_einsums(result):
            runs = einsum["n_instances"].count()
            yield [(name, energy * runs) for name, energy in fused_energies(einsum)]
    elif result.get("levels"):
        yield [(level["name"].text(), level["energy_pj"].number()) for level in result["levels"].entries()]
        compute = result["architecture"]["compute"]["name"].text()
        yield [(compute, result["compute_energy_pj"].number())]


def _fused_einsums(result: Value) -> list[Value]:
    return result["einsums"].entries() if result.get("tree") else []


def _mapping(result: Value) -> Mapping[str, str]:
    """Return what each node keeps and loops over, by name; of a network what is fused."""
    if result["kind"].text() in FUSED:
        return {GROUPS: "; ".join(tree_lines(result["tree"].entries(), 0)) if result.get("tree") else ""}
    if result["kind"].text() not in EINSUMS or not result.get("mapping"):
        return {}
    return node_texts(result["architecture"], result["mapping"])


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[Document]:
    names = dict.fromkeys((*before, *after))
    rows: list[Document] = [
        {"name": name, "before": before.get(name, ""), "after": after.get(name, "")} for name in names
    ]
    return [row for row in rows if row["before"] != row["after"]]


def _einsums(before: Value, after: Value) -> Iterator[Document]:
    """Yield energy and cycles of each Einsum of a network, and whether its loop nest is another one."""
    own, other = _costs(before), _costs(after)
    for key in dict.fromkeys((*own, *other)):
        costs = [side.get(key) for side in (own, other)]
        nests = [None if side is None else side[2] for side in costs]
        yield {
            "name": key[0],
            **{
                name: {"before": _nth(costs[0], place), "after": _nth(costs[1], place)}
                for place, name in enumerate(("energy_pj", "cycles"))
            },
            "mapping_changed": None if None in nests else nests[0] != nests[1],
        }


def _nth(costs: _Costs | None, place: int) -> object:
    return None if costs is None else costs[place]


def _costs(result: Value) -> dict[tuple[str, int], _Costs]:
    """Return energy, cycles and loop nest of the Einsums of a network; one name may have several."""
    found: dict[tuple[str, int], _Costs] = {}
    times: dict[str, int] = defaultdict(int)
    for name, energy, cycles, nest in _rows(result):
        found[name, times[name]] = energy, cycles, nest
        times[name] += 1
    return found


def _rows(result: Value) -> Iterator[tuple[str, *_Costs]]:
    if result["kind"].text() == "network":
        for layer, own in with_results(result["layers"].entries()):
            nest = own["mapping"].raw if own and own.get("mapping") else None
            yield layer["name"].text(), optional(layer["energy_pj"]), optional(layer["cycles"]), nest
    elif result["kind"].text() in FUSED:
        for einsum in _fused_einsums(result):
            runs = einsum["n_instances"].count()
            energy, cycles = einsum["energy_pj"].number() * runs, fused_cycles(einsum) * runs
            yield einsum["einsum"].text(), energy, cycles, None


def difference_page(document: Value) -> Page:
    """Return the report of two results: what changed in figures, energy by level, mapping and Einsums."""
    before, after = document["results"].entries()
    rows = {row["name"].text(): row for row in document["figures"].entries()}
    changed = any(map(_is_changed, rows.values())) or bool(document["mapping"])
    names = before["name"].text(), after["name"].text()
    shown = [_change_text(name, rows[name]) for name in ("energy_pj", "cycles") if name in rows]
    return Page(
        f"{names[0]} and {names[1]}",
        CHANGED if changed else SAME,
        joined(shown) or "no mapping to compare",
        [_result_fact(result) for result in (before, after)],
        (*_sections(document, names),),
        notes=document["notes"].texts(),
    )


def _result_fact(result: Value) -> Fact:
    place = " on ".join(filter(None, (result["subject"].text(), result["architecture"].text())))
    return result["name"].text(), result["status"].text(), place


def _sections(document: Value, names: tuple[str, str]) -> Iterator[Section]:
    figures, energies = document["figures"].entries(), document["energies_pj"].entries()
    headings = (f">{names[0]}", f">{names[1]}", ">Change")
    yield Section("Figures", tables=[Table("", ("", *headings), list(map(_figure_row, figures)))])
    parts = [(name, _side(energies, side)) for name, side in zip(names, ("before", "after"), strict=True)]
    pictures = [Figure(partial(energies_scene, "Energy by level", parts))] if energies else ()
    rows = [(row["name"].text(), *_cells(row, energy_cell)) for row in energies]
    tables = [Table("", ("Level", *headings), rows)] if rows else ()
    yield Section("Energy by level", figures=pictures, tables=tables)
    einsums = list(map(_einsum_row, document["einsums"].entries()))
    costs = (">Energy", ">after", ">Change", ">Cycles", ">after", ">Change", "Mapping")
    yield Section("Einsums", tables=[Table("", ("Einsum", *costs), einsums)] if einsums else ())
    moved = [
        tuple(row[key].text() for key in ("name", "before", "after")) for row in document["mapping"].entries()
    ]
    table = Table("", ("Node", *names), moved)
    is_alike = bool(figures) and not (moved or document["einsums"])
    yield Section(
        "Mapping", "Both mappings are the same." if is_alike else "", tables=[table] if moved else ()
    )


def _side(energies: Sequence[Value], side: str) -> list[tuple[str, float]]:
    return [(row["name"].text(), optional(row[side]) or 0.0) for row in energies]


def _figure_row(row: Value) -> Sequence[Cell]:
    name = row["name"].text()
    return (FIGURES.get(name, name), *_cells(row, partial(_figure_cell, name)))


def _figure_cell(name: str, number: float) -> Cell:
    if name == "energy_pj":
        return energy_cell(number)
    if name == "utilization":
        return percent(number), number
    return count_cell(number) if name == "cycles" else (significant(number), number)


def _cells(row: Value, cell: Callable[[float], Cell]) -> Sequence[Cell]:
    """Return both sides of a figure, and how it changed."""
    both = (optional(row[side]) for side in ("before", "after"))
    return (*(NOTHING if number is None else cell(number) for number in both), _change(row))


def _change(row: Value) -> Cell:
    """Return by how much a figure is above or below what it was, to be sorted by that."""
    before, after = (optional(row[side]) for side in ("before", "after"))
    if before is None or after is None:
        return NOTHING
    if before == after:
        return "same", 0.0
    if not before:
        return NOTHING
    share = (after - before) / before
    return f"{'+' if share > 0 else '-'}{percent(abs(share))}", share


def _is_changed(row: Value) -> bool:
    return row["before"].raw != row["after"].raw


def _change_text(name: str, row: Value) -> str:
    """Return a figure of both results with its change, for the verdict."""
    before, after, change = (cell if isinstance(cell, str) else cell[0] for cell in _figure_row(row)[1:])
    what = FIGURES[name].lower()
    return f"{what} {before}, the same" if change == "same" else f"{what} {before} to {after} ({change})"


def _einsum_row(row: Value) -> Sequence[Cell]:
    is_changed = row["mapping_changed"]
    mapping = NOTHING if is_changed.raw is None else CHANGED.lower() if is_changed.flag() else SAME.lower()
    energies, cycles = _cells(row["energy_pj"], energy_cell), _cells(row["cycles"], _count_cell)
    return (row["name"].text(), *energies, *cycles, mapping)


def _count_cell(number: float) -> Cell:
    return count_cell(int(number))
