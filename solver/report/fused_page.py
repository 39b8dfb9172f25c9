"""Reports of fused mappings as HTML pages, made from their JSON documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from solver.report.charts import ARITHMETIC, Segment, Span, energies_scene, first_of, timeline_scene
from solver.report.drawing import SMALL, Box, Ink, Label, Part, Scene, fitted, series_ink
from solver.report.einsum_page import check_facts, cost_facts, violation_sections
from solver.report.figures import NOTHING, count_text, energy_text, percent, seconds_text
from solver.report.fused import held_text, loop_text, waiting_text
from solver.report.html import Cell, Figure, Page, Section, Table, notes_section, run_section
from solver.report.reading import Value, value_text

INDENT, HEAD, ROW, GAP = 12.0, 24.0, 17.0, 6.0
"""Sizes of the picture of a tree, in pixels: of bodies in bodies, their headings, and rows of Einsums."""


def fused_page(document: Value) -> Page:
    """Return the report of a fused mapping: its tree, and what is in each memory while time passes."""
    valid = document["valid"].flag()
    return Page(
        f"Fused mapping of {document['workload'].text()}",
        "VALID" if valid else "INVALID",
        "The mapping respects every limit." if valid else "The mapping breaks limits of the hardware.",
        (*cost_facts(document), ("Counting rule", document["counting"].text())),
        (*_mapping_sections(document), notes_section(document), run_section(document)),
    )


def fused_result_page(document: Value) -> Page:
    """Return the report of a search for a fused mapping: what is proven, what fusion brings, the mapping."""
    objective, units = document["objective"].text(), document["units"].text()
    value, seconds = document["value"], document["statistics"]["seconds"].number()
    facts = [
        (name, value_text(document[key], units))
        for name, key in (("Value", "value"), ("Bound", "bound"), ("Without fusion", "unfused_value"))
    ]
    if document["perfect_factors"].raw is not None:
        facts.append(("Without remainders", value_text(document["perfect_factors"]["value"], units)))
    if document["equal_parts"].raw is not None:
        text = value_text(document["equal_parts"]["value"], units)
        facts.append(("Without remainders of shared loops", text))
    if document["gap"].raw is not None:
        facts.insert(2, ("Gap", percent(document["gap"].number())))
    found = value.raw is not None
    verdict = (
        f"{objective} {value_text(value, units)}. {_gain(document)}" if found else "No mapping was found."
    )
    if document["status"].text() == "INFEASIBLE":
        verdict = "No fused mapping exists. This is proven."
    return Page(
        f"Fused mapping of {document['workload'].text()}",
        document["status"].text(),
        verdict,
        (
            *facts,
            ("Time", seconds_text(seconds)),
            *(cost_facts(document) if found else ()),
            *check_facts(document),
        ),
        (
            *(_mapping_sections(document) if found else ()),
            _search_section(document),
            notes_section(document),
            run_section(document),
        ),
    )


def _gain(document: Value) -> str:
    """Return what fusion brings against the best mapping of each Einsum alone."""
    if document["unfused_value"].raw is None:
        return "What it takes without fusion is not known."
    alone, value = document["unfused_value"].number(), document["value"].number()
    saved = max(0.0, alone - value) / alone if alone else 0.0
    took = value_text(document["unfused_value"], document["units"].text())
    return f"Fusion saves {percent(saved)} of the {took} that the Einsums take alone."


def _search_section(document: Value) -> Section:
    """Return what was searched, and the work that it took."""
    work: list[Sequence[Cell]] = [
        (name, (count_text(each.count()), each.count()))
        for name, each in document["statistics"].items()
        if name != "seconds"
    ]
    restrictions = "; ".join(document["restrictions"].texts())
    return Section(
        "Search",
        f"Searched: {restrictions}." if restrictions else "",
        tables=[Table("Work of the search", ("What", ">Number"), work)],
        is_folded=True,
    )


def _mapping_sections(document: Value) -> Iterator[Section]:
    """Yield the sections about a fused mapping and its cost."""
    einsums = document["einsums"].entries()
    parts = [(each["einsum"].text(), _fused_energies(each)) for each in einsums]
    yield from violation_sections(document)
    yield Section(
        "Tree",
        "Bodies with their shared loops, from the outermost on; in them the Einsums, what they keep above "
        "shared loops, and which of their tensors wait on chip.",
        [Figure(partial(_tree_scene, document["tree"].entries()))],
    )
    yield _room_section(einsums)
    yield Section(
        "Energy by Einsum",
        "One instance of each Einsum, over all visits, by memory.",
        [Figure(partial(energies_scene, "Energy by Einsum", parts), first_of(parts))],
    )
    yield _fused_section(document)


def _tree_scene(children: Sequence[Value], width: float) -> Scene:
    """Return bodies as boxes in each other, with their Einsums."""
    parts: list[Part] = []
    height = _draw(parts, children, 0.0, 0.0, width)
    return Scene(width, max(1.0, height), "Tree of bodies and Einsums", tuple(parts))


def _draw(parts: list[Part], children: Sequence[Value], x: float, y: float, width: float) -> float:
    """Add parts of a tree below each other; return where they end."""
    for child in children:
        if child.get("einsum"):
            y = _draw_einsum(parts, child, x, y, width)
            continue
        place, inner = len(parts), max(width - 2 * INDENT, 2 * INDENT)
        title = f"body {', '.join(map(_loop, child['loops'].entries()))}"
        parts.append(
            fitted(Label(x + INDENT, y + HEAD - 8, title, size=SMALL + 1, bold=True, note=title), inner)
        )
        end = _draw(parts, child["children"].entries(), x + INDENT, y + HEAD, inner)
        parts.insert(place, Box(x, y, width, end - y, "panel", "line", title, 6))
        y = end + GAP
    return y


def _loop(loop: Value) -> str:
    dims = list(dict.fromkeys(dim.text() for _, dim in loop["dims"].items()))
    return loop_text(dims, loop["trips"].count(), loop["tile"].count())


def _draw_einsum(parts: list[Part], leaf: Value, x: float, y: float, width: float) -> float:
    """Add an Einsum with what it keeps and stores; return where it ends."""
    name, rows = leaf["einsum"].text(), list(_facts(leaf))
    height = 8 + ROW * (1 + len(rows))
    parts.append(Box(x, y, width, height, "page", "line", name, 4))
    parts.append(fitted(Label(x + 8, y + ROW - 1, name, bold=True, note=name), width - 16))
    for number, row in enumerate(rows, 1):
        label = Label(x + 8, y + ROW * (1 + number) - 2, row, "muted", SMALL, note=row)
        parts.append(fitted(label, width - 16))
    return y + height + GAP


def _facts(leaf: Value) -> Iterator[str]:
    """Yield what an Einsum holds above shared loops, and which of its tensors wait."""
    for tile in leaf["held"].entries():
        if tile["above"].raw is not None:
            dataspace, above, memory = (tile[key].text() for key in ("dataspace", "above", "memory"))
            yield held_text(dataspace, above, memory, tile["words"].count())
    for tile in leaf["waits"].entries():
        shape = [extent.count() for extent in tile["shape"].entries()]
        yield waiting_text(tile["tensor"].text(), tile["memory"].text(), shape)


def _fused_energies(einsum: Value) -> list[tuple[str, float]]:
    """Return the energy of each memory, and of the arithmetic."""
    memories = einsum["memories"].entries()
    energies = [(memory["name"].text(), memory["energy_pj"].number()) for memory in memories]
    return [*energies, (ARITHMETIC, einsum["compute_energy_pj"].number())]


def _room_section(einsums: Sequence[Value]) -> Section:
    limited = [room["memory"].text() for each in einsums for room in _limited_rooms(each)]
    return Section(
        "Room over time",
        "Each column is an Einsum, as wide as its cycles. The line is the memory's capacity.",
        [Figure(partial(_room_scene, einsums, memory), memory) for memory in dict.fromkeys(limited)],
        [Table("Tiles in limited memories", ROOM_HEADINGS, list(_room_rows(einsums)))],
        is_folded=True,
    )


def _fused_section(document: Value) -> Section:
    rows: list[Sequence[Cell]] = []
    waits = dict(_waiting(document["tree"].entries()))
    for each in document["einsums"].entries():
        counts = [each[key].count() for key in ("visits", "n_instances")]
        energy, cycles, name = each["energy_pj"].number(), each["cycles"].count(), each["einsum"].text()
        figures = [(count_text(count), count) for count in counts]
        spent = (energy_text(energy), energy), (count_text(cycles), cycles)
        rows.append((name, *figures, *spent, each["limited_by"].text(), waits.get(name) or NOTHING))
    headings = ("Einsum", ">Visits", ">Runs", ">Energy", ">Cycles", "Limited by", "Waits on chip")
    stored: list[Sequence[Cell]] = [
        (each["tensor"].text(), each["memory"].text(), (count_text(depth := each["depth"].count()), depth))
        for each in document["stored"].entries()
    ]
    tables = [Table("Einsums", headings, rows)]
    tables += [Table("Stored on chip", ("Tensor", "Memory", ">Loops above"), stored)] if stored else []
    return Section("Einsums", "One run, over all visits.", tables=tables)


def _waiting(children: Sequence[Value]) -> Iterator[tuple[str, str]]:
    """Yield each Einsum with the tensors that it leaves on chip for others."""
    for child in children:
        if child.get("einsum"):
            yield (
                child["einsum"].text(),
                ", ".join(each["tensor"].text() for each in child["waits"].entries()),
            )
        else:
            yield from _waiting(child["children"].entries())


ROOM_HEADINGS = ("While", "Memory", "Tensor", "Kind", ">Words")


def _limited_rooms(einsum: Value) -> list[Value]:
    return [room for room in einsum["room"].entries() if room["usable_words"].raw is not None]


def _room_rows(einsums: Sequence[Value]) -> Iterator[Sequence[Cell]]:
    for einsum, room in ((each, room) for each in einsums for room in _limited_rooms(each)):
        for tile in room["tiles"].entries():
            words = tile["size_words"].count()
            names = (
                einsum["einsum"].text(),
                room["memory"].text(),
                tile["tensor"].text(),
                tile["kind"].text(),
            )
            yield (*names, (count_text(words), words))


def _room_scene(einsums: Sequence[Value], memory: str, width: float) -> Scene:
    """Return what takes room in a memory while each Einsum runs."""
    inks: dict[str, Ink] = {}
    spans, limit = [], 0
    for each in einsums:
        rooms = [room for room in _limited_rooms(each) if room["memory"].text() == memory]
        limit = max([limit, *(room["usable_words"].count() for room in rooms)])
        tiles = [tile for room in rooms for tile in room["tiles"].entries()]
        fills = [_tile_segment(tile, inks) for tile in tiles]
        spans.append(Span(each["einsum"].text(), each["cycles"].count(), fills, each["einsum"].text()))
    whole = sum(span.duration for span in spans)
    texts = f"{count_text(int(whole))} cycles", f"{count_text(limit)} words"
    return timeline_scene(f"Room in {memory}", spans, limit, texts, list(inks.items()), width)


def _tile_segment(tile: Value, inks: dict[str, Ink]) -> Segment:
    tensor, words, kind = tile["tensor"].text(), tile["size_words"].count(), tile["kind"].text()
    ink = inks.setdefault(tensor, series_ink(len(inks)))
    return Segment(words, ink, f"{tensor} ({kind}): {count_text(words)} words")
