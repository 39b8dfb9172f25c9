"""Reports of fused mappings: their tree, the nests of Einsums, tables, and what fusion saves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from model.extents import ANY, PERFECT
from model.objective import EDP, UNITS
from solver.report.charts import COMPUTE, MOST_BARS, first_of
from solver.report.drawing import SMALL, Box, Ink, Part, Scene, TextLine, fitted_label
from solver.report.einsum_page import ENDINGS, stages_section, violation_sections
from solver.report.figures import (
    NOTHING,
    count_text,
    counted,
    energy_text,
    percent,
    seconds_text,
    significant,
)
from solver.report.fused_charts import (
    all_runs,
    energies_of_einsum,
    fused_cycles,
    fused_timeline_scene,
    limited_rooms,
    savings_scene,
    savings_table,
    tensor_energies,
    tensor_energies_scene,
    tensor_inks,
    timeline_caption,
)
from solver.report.mapped import STEP, shown_mapping
from solver.report.mapping_picture import array_scene, nest_scene
from solver.report.page import (
    PAGE,
    TERMINAL,
    Cell,
    Fact,
    Figure,
    Page,
    Section,
    Table,
    count_cell,
    counting_fact,
    energy_cell,
    joined,
    si_facts,
    totals_section,
)
from solver.report.reading import Value, value_text

INDENT, HEAD, ROW, GAP = 12.0, 24.0, 17.0, 6.0
"""Sizes of the picture of a tree, in pixels: of bodies in bodies, their headings, and rows of Einsums."""

SHARED_PERFECT = "shared loops without remainders"
"""What a verdict is about, where loops of nests may have remainders."""

WORK = {
    "edges": "edges bounded",
    "floors": "lower bounds",
    "mapped": "edges mapped exactly",
    "paths": "shortest paths",
    "states": "partial mappings expanded",
    "dominated": "dominated",
}

MOST_NESTS = 100
"""Einsums whose loop nests a terminal shows."""

STORED = ("stored", "persistent")
"""Kinds of tiles that stay on chip between Einsums."""


def fused_page(document: Value) -> Page:
    """Return the report of a given fused mapping."""
    is_valid = document["valid"].flag()
    broken = "the mapping exceeds limits of the hardware"
    return Page(
        f"Fused mapping of {document['workload'].text()}",
        "VALID" if is_valid else "INVALID",
        "the mapping respects every limit of the hardware" if is_valid else broken,
        _cascade_facts(document),
        tuple(_mapping_sections(document)),
        notes=document["notes"].texts(),
    )


def fused_result_page(document: Value) -> Page:
    """Return the report of a search for a fused mapping: verdict, savings from fusion, mapping."""
    found = document["value"].raw is not None
    return Page(
        f"Fused mapping of {document['workload'].text()}",
        document["status"].text(),
        joined(_result_parts(document)),
        _cascade_facts(document) if found else (),
        (
            _search_section(document),
            *(_mapping_sections(document) if found else ()),
            stages_section(document),
        ),
        notes=document["notes"].texts(),
        check=document.get("check").text(),
    )


def _result_parts(document: Value) -> Iterator[str]:
    objective, units = document["objective"].text(), document["units"].text()
    value, gap = document["value"], document["gap"]
    if document["status"].text() == "INFEASIBLE":
        yield "no fused mapping exists"
    elif value.raw is None:
        yield "no mapping was found"
    else:
        bound = value_text(document["bound"], units)
        bound = f", bound {bound}, gap {percent(gap.number())}" if gap.raw else ""
        yield f"{objective} {value_text(value, units)}{bound}"
    if (document.get("factors").raw, document.get("shared_factors").raw) == (ANY, PERFECT):
        yield SHARED_PERFECT
    yield ENDINGS.get(document["termination"].text(), "")


def _cascade_facts(document: Value) -> list[Fact]:
    return [
        counting_fact(document),
        ("Energy", energy_text(document["energy_pj"].number()), "all Einsums"),
        ("Cycles", count_text(document["cycles"].count()), ""),
        ("EDP", significant(document["edp_pj_cycles"].number()), UNITS[EDP]),
        *si_facts(document),
    ]


def _search_section(document: Value) -> Section:
    """Return the savings from fusion and remainders, the restrictions, and the work of the search."""
    work = document["statistics"]
    others = ("seconds", "stages")
    counts = [f"{own.count():,} {WORK.get(name, name)}" for name, own in work.items() if name not in others]
    restrictions = "; ".join(document["restrictions"].texts())
    lines = [_gain_text(document, "unfused_value", "fusion", "fusion saves")]
    for key, of_what in (("perfect_factors", "remainders"), ("equal_parts", "remainders of shared loops")):
        if document[key]:
            lines.append(_gain_text(document[key], "value", of_what, "remainders save", document))
    hardware = document.get("hardware_order")
    if hardware:
        lines.append(_gain_text(hardware, "value", "other orders of memories", "these save", document))
    lines += [f"Restrictions: {restrictions}."] if restrictions else []
    seconds = seconds_text(work["seconds"].number())
    return Section("Search", lines=[*lines, f"{', '.join(counts)}; {seconds}"])


def _gain_text(known: Value, key: str, without: str, saves: str, document: Value | None = None) -> str:
    """Return the saving from fusion or remainders over the best mapping without them."""
    document = document or known
    if known[key].raw is None or document["value"].raw is None:
        return f"Without {without}: not known."
    alone, value = known[key].number(), document["value"].number()
    saved = percent((alone - value) / alone if alone else 0.0)
    at_most = "" if known is document or known["status"].text() == "OPTIMAL" else " at most"
    return f"Without {without} {value_text(known[key], document['units'].text())}{at_most}: {saves} {saved}."


def _mapping_sections(document: Value) -> Iterator[Section]:
    """Yield the sections about a fused mapping and its cost."""
    einsums = document["einsums"].entries()
    tree, inks = document["tree"].entries(), tensor_inks(einsums)
    yield from violation_sections(document)
    yield Section(
        f"Fused mapping of {document['workload'].text()}", lines=list(tree_lines(tree, 0)), where=TERMINAL
    )
    yield _savings_section(document, inks)
    yield Section(
        "Tree",
        "Fused groups with their shared loops, outermost first; inside them the Einsums, with the tiles that "
        "they hold above shared loops and the intermediates that stay on chip.",
        [Figure(partial(_tree_scene, tree))],
        where=PAGE,
    )
    yield Section(
        "Timeline",
        "Einsums run one after the other, from left to right. Below them: the words that cross to the "
        "outermost memory, and the tiles in one instance of each limited memory. Widths are average cycles "
        "of a visit.",
        [Figure(partial(fused_timeline_scene, tree, einsums, inks), timeline_caption(tree, einsums))],
        where=PAGE,
    )
    for number, each in enumerate(einsums):
        yield from _nest_sections(each, inks, number < MOST_NESTS)
    if more := einsums[MOST_NESTS:]:
        yield Section("", lines=[f"{len(more):,} more loop nests; --json has all of them"], where=TERMINAL)
    yield _fused_section(document)
    yield _room_section(einsums)
    yield _energy_section(einsums, inks)
    yield totals_section(_cascade_facts(document))


def _savings_section(document: Value, inks: Mapping[str, Ink]) -> Section:
    """Return what fusion saves by tensor, if the best mapping without it is known."""
    unfused, einsums = document.get("unfused"), document["einsums"].entries()
    if not unfused or not einsums:
        return Section("Savings from fusion")
    now, before = all_runs(einsums), all_runs(unfused["einsums"].entries())
    outermost = next((memory["name"].text() for memory in einsums[0]["memories"].entries()), "")
    cycles = (
        f"{count_text(document['cycles'].count())} instead of {counted(unfused['cycles'].count(), 'cycle')}"
    )
    return Section(
        "Savings from fusion",
        f"Against the best mapping without fusion, all instances of each Einsum: {cycles}. The bars show "
        f"words to and from {outermost}.",
        [Figure(partial(savings_scene, now[0], before[0], inks))],
        [savings_table(outermost, now, before)],
        where=PAGE,
    )


def _nest_sections(einsum: Value, inks: Mapping[str, Ink], has_text: bool) -> Iterator[Section]:
    """Yield the loop nest of a visit as text for a terminal, and as pictures of each kind of visit."""
    title = f"Loop nest of {einsum['einsum'].text()}, one visit"
    if has_text:
        yield Section(title, lines=list(_nest_lines(einsum)), where=TERMINAL)
    own = {space: inks[tensor.text()] for space, tensor in einsum["tensors"].items()}
    kinds = einsum["kinds"].entries()
    figures = []
    for number, kind in enumerate(kinds, 1):
        shown = shown_mapping(kind, own)
        if shown is None:
            continue
        visits = counted(kind["visits"].count(), "visit")
        which = f"Kind {number} of {len(kinds)}: {visits}." if len(kinds) > 1 else f"{visits.capitalize()}."
        figures += [Figure(partial(nest_scene, shown), which), Figure(partial(array_scene, shown))]
    yield Section(title, figures=figures, where=PAGE)


def _energy_section(einsums: Sequence[Value], inks: Mapping[str, Ink]) -> Section:
    """Return the energy of each Einsum and of each memory, by tensor."""
    memories: dict[str, list[tuple[Value, Value]]] = {}
    for einsum in einsums:
        for memory in einsum["memories"].entries():
            memories.setdefault(memory["name"].text(), []).append((einsum, memory))
    parts = [(each["einsum"].text(), energies_of_einsum(each)) for each in einsums]
    by_memory = [(name, tensor_energies(own)) for name, own in memories.items()]
    return Section(
        "Energy",
        "One instance of each Einsum, over all visits, by tensor.",
        [
            Figure(
                partial(tensor_energies_scene, "Energy by Einsum", parts[:MOST_BARS], inks), first_of(parts)
            ),
            Figure(partial(tensor_energies_scene, "Energy by memory", by_memory, inks)),
        ],
        where=PAGE,
    )


def _nest_lines(einsum: Value) -> Iterator[str]:
    """Yield the loop nest of a visit, of each kind where visits differ."""
    nests = einsum["nests"].entries()
    for number, nest in enumerate(nests, 1):
        if len(nests) > 1:
            yield f"visits of kind {number} of {len(nests)}:"
        yield from nest.texts()


def tree_lines(children: Sequence[Value], indent: int) -> Iterator[str]:
    """Yield the tree: a fused group with its loops and their tiles, then its Einsums with held tiles."""
    for child in children:
        if child.get("einsum"):
            name, facts = child["einsum"].text(), list(_leaf_facts(child))
            yield f"{STEP * indent}{name}{f'  {facts[0]}' if facts else ''}"
            yield from (f"{STEP * indent}{' ' * len(name)}  {fact}" for fact in facts[1:])
            continue
        yield f"{STEP * indent}group {', '.join(map(_shared_loop_text, child['loops'].entries()))}"
        yield from tree_lines(child["children"].entries(), indent + 1)


def _tree_scene(children: Sequence[Value], width: float) -> Scene:
    """Return bodies as boxes in each other, with their Einsums."""
    parts: list[Part] = []
    height = _draw_tree(parts, children, 0.0, 0.0, width)
    return Scene(width, max(1.0, height), "Tree of fused groups and Einsums", tuple(parts))


def _draw_tree(parts: list[Part], children: Sequence[Value], x: float, y: float, width: float) -> float:
    """Add parts of a tree below each other; return where they end."""
    for child in children:
        if child.get("einsum"):
            y = _draw_einsum(parts, child, x, y, width)
            continue
        place, inner = len(parts), max(width - 2 * INDENT, 2 * INDENT)
        title = f"group {', '.join(map(_shared_loop_text, child['loops'].entries()))}"
        parts.append(
            fitted_label(
                TextLine(x + INDENT, y + HEAD - 8, title, size=SMALL + 1, bold=True, note=title), inner
            )
        )
        end = _draw_tree(parts, child["children"].entries(), x + INDENT, y + HEAD, inner)
        parts.insert(place, Box(x, y, width, end - y, "panel", "line", title, 6))
        y = end + GAP
    return y


def _shared_loop_text(loop: Value) -> str:
    """Return a shared loop: its dimensions in the Einsums below, its trips, and how long a part is."""
    dims = list(dict.fromkeys(dim.text() for _, dim in loop["dims"].items()))
    tile = loop["tile"].count()
    return f"{'/'.join(dims)} in [0:{loop['trips'].count()}){f' of {tile}' if tile > 1 else ''}"


def _draw_einsum(parts: list[Part], leaf: Value, x: float, y: float, width: float) -> float:
    """Add an Einsum with what it keeps and stores; return where it ends."""
    name, rows = leaf["einsum"].text(), list(_leaf_facts(leaf))
    height = 8 + ROW * (1 + len(rows))
    parts.append(Box(x, y, width, height, "page", "line", name, 4))
    parts.append(fitted_label(TextLine(x + 8, y + ROW - 1, name, bold=True, note=name), width - 16))
    for number, row in enumerate(rows, 1):
        label = TextLine(x + 8, y + ROW * (1 + number) - 2, row, "muted", SMALL, note=row)
        parts.append(fitted_label(label, width - 16))
    return y + height + GAP


def _leaf_facts(leaf: Value) -> Iterator[str]:
    """Yield the tiles that an Einsum holds above shared loops, and its tensors that stay on chip."""
    for tile in leaf["held"].entries():
        dataspace, memory = tile["dataspace"].text(), tile["memory"].text()
        words = counted(tile["words"].count(), "word")
        if tile.get("slid_by"):
            yield f"keeps what overlaps of {dataspace} along {tile['slid_by'].text()} in {memory} ({words})"
        elif tile["above"].raw is not None:
            yield f"holds {dataspace} above {tile['above'].text()} in {memory} ({words})"
    for tile in leaf["waits"].entries():
        shape = " x ".join(count_text(extent.count()) for extent in tile["shape"].entries()) or 1
        yield f"{tile['tensor'].text()} stays in {tile['memory'].text()} ({shape})"


def fused_energies(einsum: Value) -> list[tuple[str, float]]:
    """Return the energy of each memory, and of the computes."""
    memories = einsum["memories"].entries()
    energies = [(memory["name"].text(), memory["energy_pj"].number()) for memory in memories]
    return [*energies, (COMPUTE, einsum["compute_energy_pj"].number())]


def _room_section(einsums: Sequence[Value]) -> Section:
    """Return the tiles in each limited memory while each Einsum runs."""
    headings = ("Einsum", "Memory", ">Words", ">Capacity", "Own tiles", "Held and stored")
    return Section(
        "Buffer occupancy",
        "Words per instance while each Einsum runs.",
        tables=[Table("Tiles in limited memories", headings, list(_room_rows(einsums)))],
        is_folded=True,
    )


def _fused_section(document: Value) -> Section:
    """Return a row per Einsum: visits, energy, cycles, what limits them, and what stays on chip meanwhile."""
    rows: list[Sequence[Cell]] = []
    for each in document["einsums"].entries():
        tiles = [tile for room in each["room"].entries() for tile in room["tiles"].entries()]
        stored = dict.fromkeys(tile["tensor"].text() for tile in tiles if tile["kind"].text() in STORED)
        rows.append(
            (
                each["einsum"].text(),
                *(count_cell(each[key].count()) for key in ("visits", "n_instances")),
                energy_cell(each["energy_pj"].number()),
                count_cell(fused_cycles(each)),
                each["limited_by"].text(),
                ", ".join(stored) or NOTHING,
            )
        )
    headings = ("Einsum", ">Visits", ">Runs", ">Energy", ">Cycles", "Limited by", "Stored on chip")
    return Section(
        "Einsums", "One instance, over all visits.", tables=[Table("Einsums", headings, rows, ("Runs",))]
    )


def _room_rows(einsums: Sequence[Value]) -> Iterator[Sequence[Cell]]:
    for einsum, room in ((each, room) for each in einsums for room in limited_rooms(each)):
        tiles = [(tile, tile["kind"].text() == "own") for tile in room["tiles"].entries()]
        own, others = (
            ", ".join(
                f"{tile['tensor'].text()} {count_text(tile['size_words'].count())}"
                for tile, is_own in tiles
                if is_own is wanted
            )
            for wanted in (True, False)
        )
        words = count_cell(room["size_words"].count()), count_cell(room["usable_words"].count())
        names = einsum["einsum"].text(), room["memory"].text()
        yield (*names, *words, own or NOTHING, others or NOTHING)
