"""A priced fused mapping for people, and as JSON: its tree, what waits where, and what each Einsum costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from model.architecture import with_places
from model.cost.report import Violation
from model.counting import rule_of
from model.extents import ANY, PERFECT
from model.fused.cascade import Cascade
from model.fused.mapping import Body, FusedMapping, Leaf, Path, Stored
from model.fused.report import EinsumCost, FusedEvaluation, Room
from model.fused.visits import Visits
from model.note import Note
from model.objective import EDP, UNITS, in_reported_unit
from solver.fusion import FusedResult
from solver.report.document import Document, narrower_document, picked, plain
from solver.report.figures import NOTHING, count_text, energy_text, objective_text, percent, seconds_text
from solver.report.tables import ReportTable, plain_table
from solver.report.text import ENDINGS, STEP, loop_nest, print_notes
from solver.result import Narrower, Status, Termination

ARITHMETIC = "compute"

SHARED_PERFECT = "shared loops with factors that divide"
"""What a verdict is about, where loops of nests may have remainders."""


def print_fused(
    console: Console,
    cascade: Cascade,
    mapping: FusedMapping,
    evaluation: FusedEvaluation,
    notes: Sequence[Note],
) -> None:
    """Print the limits that are broken, the tree with the nests, a table per Einsum, room and totals."""
    _print_fused_verdict(console, evaluation)
    _print_mapping(console, cascade, mapping, evaluation)
    print_notes(console, notes)


def _print_mapping(
    console: Console, cascade: Cascade, mapping: FusedMapping, evaluation: FusedEvaluation
) -> None:
    """Print the tree with the nests, a table per Einsum, room and totals."""
    console.print(Text.assemble("\n", ("Fused mapping", "bold"), f" of {cascade.name}"))
    for line in tree_lines(cascade, mapping, evaluation):
        console.print(line)
    for path in (path for path in mapping.paths if path.leaf.nests):
        console.print(Text.assemble("\n", (path.leaf.einsum, "bold"), " in one visit"))
        for line in _nest_lines(cascade, path):
            console.print(line)
    console.print(Text.assemble("\n", ("Einsums", "bold")), "(over all visits, one instance)")
    console.print(einsums_table(evaluation))
    console.print(Text.assemble("\n", ("Room", "bold")), "(words of one instance while the Einsum runs)")
    console.print(room_table(evaluation))
    console.print(Text.assemble("\n", ("Totals", "bold")))
    console.print(_totals(evaluation))
    rule = rule_of(evaluation.counting)
    if not rule.is_executed:
        console.print(f"Counted by {rule.description}.")
    if evaluation.latency_s is not None:
        energy_j, latency_s = evaluation.energy_j, float(evaluation.latency_s)
        console.print(f"In SI units: {energy_j:.6g} J, {latency_s:.6g} s, {energy_j * latency_s:.6g} J*s.")


def print_fused_result(console: Console, result: FusedResult, notes: Sequence[Note]) -> None:
    """Print what a search has proven, the fused mapping, what fusion brings, and what was not searched."""
    units, objective = result.units_per_pj, result.objective
    verdict = Text.assemble((result.status.name, "bold green" if result.gap == 0 else "bold yellow"))
    verdict.append(f"  {objective} {objective_text(objective, result.value, units)}")
    if result.gap:
        verdict.append(f"  bound {objective_text(objective, result.bound, units)}  gap {percent(result.gap)}")
    if (result.factors, result.shared_factors) == (ANY, PERFECT):
        verdict.append(f"  {SHARED_PERFECT}")
    console.print(verdict)
    if result.termination is Termination.REMAINDER_LIMIT:
        console.print(ENDINGS[result.termination])
    console.print(fusion_gain(result))
    if result.perfect_factors is not None:
        console.print(remainders_gain(result, result.perfect_factors))
    if result.equal_parts is not None:
        console.print(remainders_gain(result, result.equal_parts, " of shared loops"))
    console.print(f"Searched: {'; '.join(result.restrictions)}.")
    console.print(_work(result))
    if result.mapping is not None and result.evaluation is not None:
        _print_mapping(console, result.cascade, result.mapping, result.evaluation)
    print_notes(console, notes)


def fusion_gain(result: FusedResult) -> str:
    """Return what fusion brings against the best mapping of each Einsum alone."""
    units, objective = result.units_per_pj, result.objective
    if result.unfused is None or result.value is None:
        return "Without fusion: not known."
    alone = result.unfused.value(objective)
    saved = percent((alone - result.value) / alone) if alone else percent(0.0)
    return f"Without fusion {objective_text(objective, alone, units)}: fusion saves {saved}."


def remainders_gain(result: FusedResult, perfect: Narrower, of_what: str = "") -> str:
    """Return what remainders bring against the best mapping without any, or without those of some loops."""
    if result.value is None or perfect.value is None:
        return f"Without remainders{of_what}: not known."
    saved = percent((perfect.value - result.value) / perfect.value) if perfect.value else percent(0.0)
    proven = "" if perfect.status is Status.OPTIMAL else " at most"
    value = objective_text(result.objective, perfect.value, result.units_per_pj)
    return f"Without remainders{of_what} {value}{proven}: remainders save {saved}."


def _work(result: FusedResult) -> str:
    work = result.statistics
    return (
        f"{work.edges:,} edges bounded, {work.mapped:,} mapped exactly, {work.searches:,} searches; "
        f"{work.paths:,} paths, {work.states:,} states, {work.dominated:,} dominated; "
        f"{seconds_text(work.seconds)}"
    )


def _print_fused_verdict(console: Console, evaluation: FusedEvaluation) -> None:
    if evaluation.valid:
        verdict = Text.assemble(("VALID", "bold green"), " the mapping respects every limit of the hardware")
        console.print(verdict)
        return
    console.print(Text.assemble(("INVALID", "bold red"), " the mapping breaks limits of the hardware"))
    for einsum, violation in evaluation.violations:
        console.print(f"  {fused_violation_text(einsum, violation)}")


def tree_lines(cascade: Cascade, mapping: FusedMapping, evaluation: FusedEvaluation) -> Iterator[str]:
    """Yield the tree: a body with its loops and their tiles, then the Einsums with what they keep."""
    visits = Visits(cascade, mapping)
    for child in mapping.children:
        yield from _part_lines(visits, evaluation, child, 0, 0)


def _part_lines(
    visits: Visits, evaluation: FusedEvaluation, child: Body | Leaf, depth: int, indent: int
) -> Iterator[str]:
    if isinstance(child, Leaf):
        facts = list(_leaf_facts(visits, evaluation, child))
        yield f"{STEP * indent}{child.einsum}{f'  {facts[0]}' if facts else ''}"
        yield from (f"{STEP * indent}{' ' * len(child.einsum)}  {fact}" for fact in facts[1:])
        return
    loops = [
        loop_text(list(dict.fromkeys(dim for _, dim in loop.dims)), loop.trips, tile)
        for loop, tile in zip(child.loops, _loop_tiles(visits, child, depth), strict=True)
    ]
    yield f"{STEP * indent}body {', '.join(loops)}"
    for below in child.children:
        yield from _part_lines(visits, evaluation, below, depth + len(child.loops), indent + 1)


def loop_text(dims: Sequence[str], trips: int, tile: int) -> str:
    """Return a shared loop: its dimensions in the Einsums below, its trips, and how long a part is."""
    return f"{'/'.join(dims)} in [0:{trips}){f' of {tile}' if tile > 1 else ''}"


def _loop_tiles(visits: Visits, body: Body, depth: int) -> Iterator[int]:
    """Yield the longest part that each loop of a body selects, in the first Einsum below."""
    first = next(path for path in visits.mapping.paths if body.loops[0] in path.loops)
    place = visits.cascade.place(first.leaf.einsum)
    for number, loop in enumerate(body.loops, depth + 1):
        spans = visits.spans(place, loop.dim(first.leaf.einsum), number)
        yield max(high - low for low, high in spans)


def _leaf_facts(visits: Visits, evaluation: FusedEvaluation, leaf: Leaf) -> Iterator[str]:
    """Yield what an Einsum holds above shared loops, and which of the tensors that it produces wait."""
    document = _leaf_document(visits, evaluation, leaf)
    for held in (held for held in document["held"] if held["above"] is not None):
        yield held_text(held["dataspace"], held["above"], held["memory"], held["words"])
    for waiting in document["waits"]:
        yield waiting_text(waiting["tensor"], waiting["memory"], waiting["shape"])


def held_text(dataspace: str, above: str, memory: str, words: int) -> str:
    """Return what an Einsum keeps above a shared loop."""
    return f"keeps {dataspace} above {above} in {memory} ({count_text(words)} words)"


def waiting_text(tensor: str, memory: str, shape: Sequence[int]) -> str:
    """Return what waits on chip for the Einsums that read it."""
    return f"{tensor} waits in {memory} ({' x '.join(map(count_text, shape)) or 1})"


def _leaf_document(visits: Visits, evaluation: FusedEvaluation, leaf: Leaf) -> Any:
    """Return an Einsum with the tiles that it holds above shared loops, and which of its outputs wait."""
    cascade = visits.cascade
    place = cascade.place(leaf.einsum)
    einsum, path = cascade.einsums[place], visits.mapping.paths[place]
    held = []
    for tile in leaf.held:
        memory = einsum.mapspace.architecture.on_chip[0].name
        words = evaluation.einsum(leaf.einsum).memory(memory).dataspace(tile.dataspace).tile_words
        above = path.loops[tile.depth].dim(leaf.einsum) if tile.depth < len(path.loops) else None
        held.append({**picked(tile, "dataspace", "depth"), "above": above, "memory": memory, "words": words})
    written = [a.tensor for a in einsum.accesses if a.tensor in einsum.written]
    waits = [
        {"tensor": tensor, "memory": stored.memory, "shape": _shape(visits, stored)}
        for tensor in written
        if (stored := visits.mapping.stored_at.get(tensor)) is not None
    ]
    return {"einsum": leaf.einsum, "held": held, "waits": waits}


def _shape(visits: Visits, stored: Stored) -> list[int]:
    """Return the extents of a stored tensor's largest tile, rank by rank."""
    ranks = visits.tile(stored.tensor, stored.depth)
    return [max(high - low for low, high in spans) for _, spans in ranks]


def _nest_lines(cascade: Cascade, path: Path) -> Iterator[str]:
    einsum = cascade.einsums[cascade.place(path.leaf.einsum)]
    for number, nest in enumerate(path.leaf.nests, 1):
        if len(path.leaf.nests) > 1:
            yield f"visits of kind {number} of {len(path.leaf.nests)}:"
        architecture = with_places(einsum.mapspace.architecture, dict(nest.places))
        yield from loop_nest(einsum.problem, architecture, nest.mapping)


def einsums_table(evaluation: FusedEvaluation) -> ReportTable:
    """Return a row per Einsum: visits, energy, cycles, what limits them, and which tensors wait meanwhile."""
    headings = ("Einsum", ">Visits", ">Runs", ">Energy", ">Cycles", "Limited by", "Waiting on chip")
    table = plain_table(*headings, optional=("Runs",))
    for cost in evaluation.einsums:
        energy = energy_text(cost.energy / evaluation.units_per_pj)
        runs, cycles = count_text(cost.n_instances), count_text(cost.cycles)
        waiting = ", ".join(waiting_tensors(evaluation, cost.einsum)) or NOTHING
        table.add_row(cost.einsum, count_text(cost.visits), runs, energy, cycles, limiting(cost), waiting)
    return table


def waiting_tensors(evaluation: FusedEvaluation, einsum: str) -> list[str]:
    """Return the tensors that are stored on chip while an Einsum runs."""
    rooms = (room for room in evaluation.rooms if room.einsum == einsum)
    tiles = (tile for room in rooms for tile in room.tiles if tile.kind in {"stored", "persistent"})
    return list(dict.fromkeys(tile.tensor for tile in tiles))


def limiting(cost: EinsumCost) -> str:
    """Return what decides the cycles of an Einsum: its arithmetic, or a memory."""
    slowest = max(cost.memories, key=lambda memory: memory.cycles, default=None)
    if slowest is None or not slowest.cycles:
        return NOTHING
    return slowest.name if slowest.cycles > cost.steps else ARITHMETIC


def room_table(evaluation: FusedEvaluation) -> ReportTable:
    """Return a row per Einsum and limited memory: what takes room there meanwhile."""
    table = plain_table("While", "Memory", ">Words", ">Of", "Own tiles", "Held and stored")
    for room in (room for room in evaluation.rooms if room.usable_words is not None):
        own = [tile for tile in room.tiles if tile.kind == "own"]
        others = [tile for tile in room.tiles if tile.kind != "own"]
        table.add_row(
            room.einsum,
            room.memory,
            count_text(room.size_words),
            count_text(room.usable_words or 0),
            ", ".join(f"{tile.tensor} {count_text(tile.size_words)}" for tile in own) or NOTHING,
            ", ".join(f"{tile.tensor} {count_text(tile.size_words)}" for tile in others) or NOTHING,
        )
    return table


def _totals(evaluation: FusedEvaluation) -> ReportTable:
    table = plain_table("", ">Energy", ">Cycles", ">EDP")
    table.add_row(
        "All Einsums",
        energy_text(evaluation.energy_pj),
        count_text(evaluation.cycles),
        objective_text(EDP, evaluation.edp, evaluation.units_per_pj),
    )
    return table


def fused_violation_text(einsum: str, violation: Violation) -> str:
    """Return which limit is broken while an Einsum runs, and by what."""
    demand, limit = count_text(violation.demand), f"{float(violation.limit):,g}"
    if violation.kind == "capacity":
        parts = ", ".join(f"{tensor} ({whose}) {words:,}" for tensor, whose, words in violation.parts)
        return f"{violation.node}, while {einsum} runs: {parts} take {demand} words of {limit}"
    if violation.kind == "min_utilization":
        return f"{violation.node}: tiles of {einsum} take {demand} words, at least {limit} are required"
    axis = violation.kind[-1].upper()
    return f"{violation.node}: {demand} children along {axis} for {einsum}, there are {limit}"


def fused_document(
    cascade: Cascade, mapping: FusedMapping, evaluation: FusedEvaluation, notes: Sequence[Note]
) -> Document:
    """Return the document of a priced fused mapping."""
    return {
        "kind": "evaluate-fused",
        "workload": cascade.name,
        "counting": evaluation.counting,
        "valid": evaluation.valid,
        "violations": [
            {"einsum": einsum, **picked(violation, "node", "kind", "demand"), "limit": float(violation.limit)}
            for einsum, violation in evaluation.violations
        ],
        **picked(evaluation, "energy_pj", "cycles", "edp_pj_cycles"),
        **_si_figures(evaluation),
        "tree": [
            _part_document(Visits(cascade, mapping), evaluation, child, 0) for child in mapping.children
        ],
        "stored": [picked(stored, "tensor", "memory", "depth") for stored in mapping.stored],
        "einsums": [_einsum_document(cost, evaluation) for cost in evaluation.einsums],
        "notes": plain(notes),
    }


def _si_figures(evaluation: FusedEvaluation) -> Document:
    """Return energy and latency in joules and seconds, where there is a clock."""
    latency_s = evaluation.latency_s
    if latency_s is None:
        return {}
    energy_j, seconds = evaluation.energy_j, float(latency_s)
    return {"energy_j": energy_j, "latency_s": seconds, "edp_j_s": energy_j * seconds}


def fused_result_document(
    result: FusedResult, notes: Sequence[Note], mapping_text: str | None = None, check: str | None = None
) -> Document:
    """Return the document of a search for a fused mapping.

    `mapping_text` is the mapping as YAML, `check` the verdict of the checker, if it was asked.
    """
    units, objective = result.units_per_pj, result.objective
    alone = None if result.unfused is None else result.unfused.value(objective)
    values = {"value": result.value, "bound": result.bound, "unfused_value": alone}
    found = {}
    if result.mapping is not None and result.evaluation is not None:
        found = fused_document(result.cascade, result.mapping, result.evaluation, notes)
    return {
        **found,
        "kind": "network-fused",
        "workload": result.cascade.name,
        "status": result.status.name,
        "termination": result.termination.name,
        "objective": objective,
        **picked(result, "factors", "shared_factors"),
        "units": UNITS[objective],
        **{k: None if v is None else in_reported_unit(objective, v, units) for k, v in values.items()},
        "gap": result.gap,
        "perfect_factors": narrower_document(result.perfect_factors, objective, units),
        "equal_parts": narrower_document(result.equal_parts, objective, units),
        "restrictions": list(result.restrictions),
        "statistics": asdict(result.statistics),
        "mapping": mapping_text,
        "check": check,
        "notes": plain(notes),
    }


def _part_document(visits: Visits, evaluation: FusedEvaluation, child: Body | Leaf, depth: int) -> Document:
    if isinstance(child, Leaf):
        leaf: Document = _leaf_document(visits, evaluation, child)
        return leaf
    inside = depth + len(child.loops)
    return {
        "loops": [
            {"trips": loop.trips, "tile": tile, "dims": dict(loop.dims)}
            for loop, tile in zip(child.loops, _loop_tiles(visits, child, depth), strict=True)
        ],
        "children": [_part_document(visits, evaluation, below, inside) for below in child.children],
    }


def _einsum_document(cost: EinsumCost, evaluation: FusedEvaluation) -> Document:
    units = evaluation.units_per_pj
    return {
        **picked(cost, "einsum", "visits", "n_instances", "steps", "cycles"),
        "limited_by": limiting(cost),
        "energy_pj": cost.energy / units,
        "compute_energy_pj": cost.compute_energy / units,
        "memories": [
            {
                **picked(memory, "name", "instances", "cycles"),
                "energy_pj": memory.energy / units,
                "leak_energy_pj": memory.leak_energy / units,
                "dataspaces": {
                    space.dataspace: {
                        **picked(space, "tile_words", "reads", "fills", "updates"),
                        "energy_pj": space.energy / units,
                    }
                    for space in memory.dataspaces
                },
            }
            for memory in cost.memories
        ],
        "room": [_room_document(room) for room in evaluation.rooms if room.einsum == cost.einsum],
    }


def _room_document(room: Room) -> Document:
    return {
        **picked(room, "memory", "size_words", "usable_words"),
        "tiles": [picked(tile, "tensor", "einsum", "kind", "size_words") for tile in room.tiles],
    }
