"""Charts of fused mappings: Einsums over time with buffers and traffic, and what fusion saves."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from solver.report.charts import COMPUTE, Bar, Lane, Segment, TimeSpan, bars_scene, timeline_scene
from solver.report.drawing import Ink, Scene, series_ink
from solver.report.figures import count_text, counted, energy_text, percent, significant
from solver.report.page import Cell, Table, count_cell, energy_cell
from solver.report.reading import Value

MOST_VISITS = 48
"""Visits in a timeline; of groups with more rounds, the first rounds are drawn."""

ROW_HEIGHT_PX = 11.0
LEAKAGE = "leakage"
OTHER_INKS: Mapping[str, Ink] = {COMPUTE: "work", LEAKAGE: "late"}
"""Colours of energies that no tensor causes."""

Energies = defaultdict[str, float]
"""In picojoules, by tensor, and of leakage and computes."""


def tensor_inks(einsums: Sequence[Value]) -> dict[str, Ink]:
    """Return the colour of each tensor, the same in all pictures of a page."""
    names = dict.fromkeys(tensor.text() for each in einsums for _, tensor in each["tensors"].items())
    return {name: series_ink(number) for number, name in enumerate(names)}


def fused_cycles(einsum: Value) -> int:
    """Return the cycles of an Einsum by the clock of all of them."""
    return einsum["cycles"].count() * einsum["cycle_length"].count()


def limited_rooms(einsum: Value) -> list[Value]:
    """Return what is in each limited memory while an Einsum runs."""
    return [room for room in einsum["room"].entries() if room["usable_words"].raw is not None]


def fused_timeline_scene(
    tree: Sequence[Value], einsums: Sequence[Value], inks: Mapping[str, Ink], width: float
) -> Scene:
    """Return the visits over time: what runs, what crosses to the outermost memory, what buffers hold."""
    known = {each["einsum"].text(): each for each in einsums}
    spans = [span for visit in shown_visits(tree) if (span := _span(visit, known)) is not None]
    memories = dict.fromkeys(room["memory"].text() for own in einsums for room in limited_rooms(own))
    lanes = [
        *(_einsum_lane(name, own) for name, own in known.items()),
        *_traffic_lanes(known, inks),
        *(_memory_lane(memory, known, inks) for memory in memories),
    ]
    return timeline_scene("Timeline of Einsums, traffic and buffers", spans, lanes, list(inks.items()), width)


def timeline_caption(tree: Sequence[Value], einsums: Sequence[Value]) -> str:
    """Return the time that a timeline covers, and the visits that it leaves out."""
    cycles = f"{count_text(sum(map(fused_cycles, einsums)))} cycles."
    drawn = [name for name, left_out in shown_visits(tree) if not left_out]
    every = sum(each["visits"].count() for each in einsums)
    if len(drawn) >= every:
        return cycles
    shown = f"{len(drawn)} of {counted(every, 'visit')}"
    return f"{cycles} {shown}; dashed lines stand for rounds like those before."


Visit = tuple[str, int]
"""The Einsum that runs; or an empty name, and how many rounds of a group are left out."""


def shown_visits(tree: Sequence[Value]) -> list[Visit]:
    """Return visits in their order, of every group as many of its first rounds as there is room for."""
    rounds = next((most for most in range(MOST_VISITS, 1, -1) if _visits_of(tree, most) <= MOST_VISITS), 1)
    return list(_visits(tree, rounds))


def _visits_of(children: Sequence[Value], most: int) -> int:
    """Return the number of visits with so many rounds of each group."""
    return sum(
        1
        if child.get("einsum")
        else min(_rounds(child), most) * _visits_of(child["children"].entries(), most)
        for child in children
    )


def _rounds(group: Value) -> int:
    return math.prod(loop["trips"].count() for loop in group["loops"].entries())


def _visits(children: Sequence[Value], most: int) -> Iterator[Visit]:
    for child in children:
        if child.get("einsum"):
            yield child["einsum"].text(), 0
            continue
        rounds = _rounds(child)
        for _ in range(min(rounds, most)):
            yield from _visits(child["children"].entries(), most)
        if rounds > most:
            yield "", rounds - most


def _span(visit: Visit, known: Mapping[str, Value]) -> TimeSpan | None:
    name, left_out = visit
    if left_out:
        return TimeSpan("", 0.0, f"{counted(left_out, 'more round')} of this group")
    if name not in known:
        return None
    return TimeSpan(name, fused_cycles(known[name]) / max(1, known[name]["visits"].count()), name)


def _einsum_lane(name: str, einsum: Value) -> Lane:
    visits, cycles = einsum["visits"].count(), fused_cycles(einsum)
    note = f"{name}: {counted(visits, 'visit')}, {counted(cycles, 'cycle')}"
    return Lane(name, "", 1.0, {name: [Segment(1.0, "work", note)]}, ROW_HEIGHT_PX)


def _traffic_lanes(known: Mapping[str, Value], inks: Mapping[str, Ink]) -> Iterator[Lane]:
    """Yield the words to and from the outermost memory per cycle; areas are words."""
    outermost = next((own["memories"].entries()[0] for own in known.values() if own["memories"]), None)
    if outermost is None:
        return
    contents = {}
    for name, own in known.items():
        cycles = max(1, fused_cycles(own))
        contents[name] = [
            Segment(words / cycles, inks[tensor], f"{name}, {tensor}: {counted(words, 'word')}")
            for tensor, words in traffic(own).items()
        ]
    most = max((sum(part.value for part in parts) for parts in contents.values()), default=0.0)
    remark = f"up to {significant(most)} words per cycle in and out"
    yield Lane(outermost["name"].text(), remark, most, contents)


def _memory_lane(memory: str, known: Mapping[str, Value], inks: Mapping[str, Ink]) -> Lane:
    """Return the occupancy of a buffer while each Einsum runs."""
    contents, limit = {}, 0
    for name, own in known.items():
        rooms = [room for room in limited_rooms(own) if room["memory"].text() == memory]
        limit = max([limit, *(room["usable_words"].count() for room in rooms)])
        contents[name] = [_tile_segment(tile, inks) for room in rooms for tile in room["tiles"].entries()]
    fullest = max((sum(part.value for part in parts) for parts in contents.values()), default=0.0)
    full = percent(fullest / limit) if limit else "0 %"
    return Lane(memory, f"up to {full} of {counted(limit, 'word')}", limit, contents)


def _tile_segment(tile: Value, inks: Mapping[str, Ink]) -> Segment:
    tensor, words, kind = tile["tensor"].text(), tile["size_words"].count(), tile["kind"].text()
    return Segment(words, inks.get(tensor, "line"), f"{tensor} ({kind}): {counted(words, 'word')}")


def traffic(einsum: Value) -> Counter[str]:
    """Return the words that an Einsum moves to and from the outermost memory, over all visits, by tensor."""
    moved: Counter[str] = Counter()
    for memory in einsum["memories"].entries()[:1]:
        for space, figures in memory["dataspaces"].items():
            words = sum(figures[access].count() for access in ("reads", "fills", "updates"))
            moved[einsum["tensors"][space].text()] += words * memory["instances"].count()
    return moved


def tensor_energies(memories: Iterable[tuple[Value, Value]]) -> Energies:
    """Return the energy of pairs of an Einsum and one of its memories by tensor, and their leakage."""
    energies: Energies = defaultdict(float)
    for einsum, memory in memories:
        for space, figures in memory["dataspaces"].items():
            energies[einsum["tensors"][space].text()] += figures["energy_pj"].number()
        energies[LEAKAGE] += memory["leak_energy_pj"].number()
    return energies


def energies_of_einsum(einsum: Value) -> Energies:
    """Return the energy of one instance of an Einsum by tensor, and that of leakage and computes."""
    energies = tensor_energies((einsum, memory) for memory in einsum["memories"].entries())
    energies[COMPUTE] += einsum["compute_energy_pj"].number()
    return energies


def tensor_energies_scene(
    title: str, parts: Sequence[tuple[str, Energies]], inks: Mapping[str, Ink], width: float
) -> Scene:
    """Return a bar per Einsum or memory, stacked by tensor."""
    every = {**inks, **OTHER_INKS}
    bars = []
    for label, energies in parts:
        segments = [
            Segment(energies[name], ink, f"{label}, {name}: {energy_text(energies[name])}")
            for name, ink in every.items()
            if name in energies
        ]
        bars.append(Bar(label, segments, energy_text(sum(energies.values()))))
    used = {name for _, energies in parts for name, energy in energies.items() if energy}
    return bars_scene(title, bars, width, [own for own in every.items() if own[0] in used])


def all_runs(einsums: Sequence[Value]) -> tuple[Counter[str], Energies]:
    """Return words to and from the outermost memory and energies of all instances, by tensor."""
    words: Counter[str] = Counter()
    energies: Energies = defaultdict(float)
    for own in einsums:
        runs = own["n_instances"].count()
        words.update({tensor: moved * runs for tensor, moved in traffic(own).items()})
        for name, energy in energies_of_einsum(own).items():
            energies[name] += energy * runs
    return words, energies


def savings_scene(fused: Counter[str], unfused: Counter[str], inks: Mapping[str, Ink], width: float) -> Scene:
    """Return the words of each tensor with fusion, and what it saves of those without."""
    bars = []
    for tensor, ink in inks.items():
        moved, before = fused[tensor], unfused[tensor]
        segments = [
            Segment(moved, ink, f"{tensor}: {counted(moved, 'word')}"),
            Segment(
                max(0, before - moved), "line", f"{tensor}: {counted(max(0, before - moved), 'word')} saved"
            ),
        ]
        bars.append(Bar(tensor, segments, f"{count_text(moved)} instead of {count_text(before)}"))
    return bars_scene("Traffic with and without fusion", bars, width, [("saved by fusion", "line")])


def savings_table(
    outermost: str, fused: tuple[Counter[str], Energies], unfused: tuple[Counter[str], Energies]
) -> Table:
    """Return words and energies with and without fusion: a row per tensor, computes, leakage, and the sum."""
    (words, energies), (words_before, energies_before) = fused, unfused
    rows: list[Sequence[Cell]] = [
        _savings_row(name, (words_before[name], words[name]), (energies_before[name], energies[name]))
        for name in sorted(energies_before | energies, key=OTHER_INKS.__contains__)
    ]
    sums = [sum(own.values()) for own in (words_before, words, energies_before, energies)]
    rows.append(_savings_row("(all)", (int(sums[0]), int(sums[1])), (sums[2], sums[3])))
    headings = (
        "Tensor",
        f">{outermost} words unfused",
        ">Fused",
        ">Saved",
        ">Energy unfused",
        ">Fused",
        ">Saved",
    )
    return Table("Savings by tensor", headings, rows)


def _savings_row(name: str, words: tuple[int, int], energies: tuple[float, float]) -> Sequence[Cell]:
    label = f"({name})" if name in OTHER_INKS else name
    moved = (*map(count_cell, words), _saved_cell(*words))
    return label, *moved, *map(energy_cell, energies), _saved_cell(*energies)


def _saved_cell(before: float, after: float) -> Cell:
    """Return what is saved, negative if more is spent."""
    share = (before - after) / before if before else 0.0
    return (f"-{percent(-share)}" if share < 0 else percent(share)), share
