"""Reports of one Einsum as pages: a mapping that was found or priced, a front, what constraints cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial

from solver.report.charts import Axis, Bar, Curve, Mark, Segment, bars_scene, curves_scene
from solver.report.drawing import Ink, Scene, series_ink
from solver.report.figures import (
    NOTHING,
    count_text,
    counted,
    energy_text,
    percent,
    seconds_text,
    significant,
)
from solver.report.html import Cell, Figure, Page, Section, Table, notes_section, reason_sections, run_section
from solver.report.mapped import ShownMapping, shown_mapping
from solver.report.mapping_picture import array_scene, nest_scene, tiles_scene
from solver.report.plots import front_scene
from solver.report.reading import Value, value_text

ENDINGS = {
    "TIME_LIMIT": "stopped by the time limit",
    "REMAINDER_LIMIT": "stopped by the default limit on mappings with remainders",
    "GAP": "within the requested gap",
    "INTERRUPTED": "interrupted",
    "MEMORY_LIMIT": "stopped by the memory limit",
    "CHOICES": "too many choices of kept tensors or spatial loops for bounds",
    "TOO_LARGE": "too large for a search",
    "BOUND": "bounds are no closer",
    "LOOP_LIMIT": "the best mapping has more temporal loops than allowed",
}

FREE = "none"
"""A cost of exactly nothing."""

MOST_ROOFS = 3
"""Bandwidths in a roofline: those in use most of the time."""

BANDWIDTHS = {"read_bandwidth": "reads", "write_bandwidth": "writes", "shared_bandwidth": "reads and writes"}
ARITHMETIC: Ink = "work"
LEAKAGE: Ink = "late"
"""Colours beside those of the dataspaces."""


def mapping_page(document: Value) -> Page:
    """Return the report of ``map`` or ``evaluate``."""
    shown = shown_mapping(document)
    architecture = document["architecture"]["name"].text()
    title = " on ".join(filter(None, (document["problem"].text() or "Einsum", architecture)))
    status, verdict = _verdict(document)
    found = [] if shown is None else list(_mapping_sections(document, shown))
    priced = document.get("constraints")
    return Page(
        title,
        status,
        verdict,
        tuple(_facts(document)),
        (
            *reason_sections(document["reasons"].entries()),
            *violation_sections(document),
            *found,
            *sensitivity_sections(document),
            *(cost_sections(priced, document["objective"].text()) if priced else ()),
            notes_section(document),
            sources_section(document),
            work_section(document),
            run_section(document),
        ),
        document["einsum"]["text"].text(),
    )


def _verdict(document: Value) -> tuple[str, str]:
    """Return the status, and a sentence about it."""
    if not document.get("status"):
        valid = document["valid"].flag()
        limits = "breaks limits of the hardware" if document["violations"] else "cannot be priced"
        broken = "breaks rules" if document.get("broken_rules") and not document["violations"] else limits
        return (
            ("VALID", "The mapping respects every limit.") if valid else ("INVALID", f"The mapping {broken}.")
        )
    status, units = document["status"].text(), document["units"].text()
    value, bound = (value_text(document[key], units) for key in ("value", "bound"))
    objective = document["objective"].text()
    ending = ENDINGS.get(document["termination"].text(), "")
    sentences = {
        "OPTIMAL": f"{objective} {value}. Proven: no allowed mapping is better.",
        "FEASIBLE": f"{objective} {value}. The optimum lies between {bound} and this value{_gap(document)}."
        + "".join(_narrower_sentences(document)),
        "INFEASIBLE": "No mapping satisfies all constraints. This is proven.",
        "UNKNOWN": f"No mapping was found. No mapping has less {objective} than {bound}."
        if document["bound"].raw is not None
        else "No mapping was found.",
    }
    return status, " ".join(filter(None, (sentences.get(status, ""), ending and f"({ending})")))


def _narrower_sentences(document: Value) -> Iterator[str]:
    """Yield what is known of the best mappings without remainders and with even tiles."""
    units = document["units"].text()
    for key, which in (("perfect_factors", "without remainders"), ("even_tiles", "with even tiles")):
        known = document.get(key)
        if not known:
            continue
        value, bound = (value_text(known[side], units) for side in ("value", "bound"))
        if known["status"].text() == "OPTIMAL":
            yield f" The best {which} is {value} (proven)."
        elif known["value"].raw is not None:
            yield f" The best found {which} is {value} (bound {bound})."


def _gap(document: Value) -> str:
    return "" if document["gap"].raw is None else f", a gap of {percent(document['gap'].number())}"


def _facts(document: Value) -> Iterator[tuple[str, str]]:
    """Yield the figures that stand at the top."""
    yield from _goal_facts(document)
    yield from cost_facts(document)
    if document["utilization"].raw is not None:
        yield "Utilization", percent(document["utilization"].number())
    yield from _proof_facts(document)


def _goal_facts(document: Value) -> Iterator[tuple[str, str]]:
    """Yield what was sought, and how near it the answer is; nothing for a mapping that was given."""
    if document.get("status"):
        units = document["units"].text()
        yield "Objectives, in order", ", then ".join(document["objectives"].texts())
        yield "Value", value_text(document["value"], units)
        yield "Bound", value_text(document["bound"], units)
        yield "Gap", NOTHING if document["gap"].raw is None else percent(document["gap"].number())


def _proof_facts(document: Value) -> Iterator[tuple[str, str]]:
    """Yield how it was counted, how long it took, and what the checker says."""
    yield "Counting rule", document["counting"].text()
    if document.get("seconds"):
        yield "Time of the search", seconds_text(document["seconds"].number())
    yield from check_facts(document)


def check_facts(document: Value) -> Iterator[tuple[str, str]]:
    """Yield what the checker says, if it was asked."""
    if document.get("check"):
        yield "Checked without the solver", document["check"].text()


def cost_facts(document: Value) -> Iterator[tuple[str, str]]:
    """Yield energy, cycles and EDP, in joules and seconds too where there is a clock."""
    if document["energy_pj"].raw is None:
        return
    yield "Energy", energy_text(document["energy_pj"].number())
    yield "Cycles", count_text(document["cycles"].count())
    yield "EDP", f"{significant(document['edp_pj_cycles'].number())} pJ*cycles"
    if document.get("latency_s"):
        joules, seconds = document["energy_j"].number(), document["latency_s"].number()
        yield "In SI units", f"{joules:.6g} J, {seconds:.6g} s, {document['edp_j_s'].number():.6g} J*s"


def _mapping_sections(document: Value, shown: ShownMapping) -> Iterator[Section]:
    yield Section(
        "Mapping",
        "Memories from the outermost inwards: the tiles that one instance holds, and the loops of the level.",
        [Figure(partial(nest_scene, shown))],
    )
    yield Section(
        "Array", figures=[Figure(partial(array_scene, shown), "One cell per instance; see the loops above.")]
    )
    tiles = "The two longest ranks of each dataspace, and the tiles of its levels inside, to scale"
    tiles += " (thin ones thicker)."
    yield Section("Tiles", figures=[Figure(partial(tiles_scene, shown), tiles)])
    yield capacity_section(shown)
    yield energy_section(document, shown)
    yield from cycles_sections(document, shown)
    yield slack_section(document)


def capacity_section(shown: ShownMapping) -> Section:
    """Return how full each limited memory is, by dataspace."""
    bars, rows = [], []
    for memory, tiles in shown.memories:
        if memory.usable_words is None:
            continue
        limit, taken = memory.usable_words, sum(tile.size_words for tile in tiles)
        share = [float(Fraction(tile.size_words, limit)) if limit else 0.0 for tile in tiles]
        segments = [
            Segment(
                part, shown.inks[tile.dataspace], f"{tile.dataspace}: {count_text(tile.size_words)} words"
            )
            for part, tile in zip(share, tiles, strict=True)
        ]
        text = percent(taken / limit) if limit else NOTHING
        bars.append(Bar(memory.name, segments, text))
        by_space = ", ".join(f"{tile.dataspace} {count_text(tile.size_words)}" for tile in tiles) or NOTHING
        rows.append((memory.name, _figure(limit), _figure(taken), _figure(limit - taken), text, by_space))
    headings = ("Memory", ">Usable words", ">Taken", ">Left", ">Full", "By dataspace")
    return Section(
        "Capacity",
        figures=[Figure(lambda width: bars_scene("How full each memory is", bars, width, _key(shown), 1.0))]
        if bars
        else (),
        tables=[Table("Words of one instance", headings, rows)] if rows else (),
        is_folded=True,
    )


def _key(shown: ShownMapping) -> list[tuple[str, Ink]]:
    return list(shown.inks.items())


def _figure(number: int | float) -> tuple[str, float]:
    return count_text(int(number)), number


def _energy(picojoules: float, whole: float) -> tuple[Cell, Cell]:
    share = picojoules / whole if whole else 0.0
    return (energy_text(picojoules), picojoules), (percent(share), share)


def energy_section(document: Value, shown: ShownMapping) -> Section:
    """Return the energy by level and dataspace."""
    whole, compute = document["energy_pj"].number(), document["compute_energy_pj"].number()
    levels = document["levels"].entries()
    bars = [_level_bar(level, shown, whole) for level in levels]
    bars.append(
        Bar(shown.compute, [Segment(compute, ARITHMETIC, energy_text(compute))], _share_text(compute, whole))
    )
    rows = [row for level in levels for row in _level_rows(level, whole)]
    rows.append(
        (
            shown.compute,
            "(arithmetic)",
            _figure(shown.compute_used),
            *(NOTHING,) * 4,
            *_energy(compute, whole),
        )
    )
    key = [*_key(shown), ("arithmetic", ARITHMETIC)]
    key += [("leakage", LEAKAGE)] if document["leak_energy_pj"].number() else []
    return Section(
        "Energy",
        f"{energy_text(whole)} in all.",
        [Figure(lambda width: bars_scene("Energy by level and dataspace", bars, width, key))],
        [
            Table(
                "Tiles and accesses in words of one instance; energy of all instances", ENERGY_HEADINGS, rows
            )
        ],
        is_folded=True,
    )


ENERGY_HEADINGS = (
    "Level",
    "Dataspace",
    ">Instances",
    ">Tile",
    ">Reads",
    ">Fills",
    ">Updates",
    ">Energy",
    ">Of total",
)


def _level_bar(level: Value, shown: ShownMapping, whole: float) -> Bar:
    name, leak = level["name"].text(), level["leak_energy_pj"].number()
    parts = [(space, figures["energy_pj"].number()) for space, figures in level["dataspaces"].items()]
    segments = [
        Segment(part, shown.inks.get(space, LEAKAGE), f"{name}, {space}: {energy_text(part)}")
        for space, part in parts
    ]
    segments += [Segment(leak, LEAKAGE, f"{name}, leakage: {energy_text(leak)}")] if leak else []
    return Bar(name, segments, _share_text(level["energy_pj"].number(), whole))


def _level_rows(level: Value, whole: float) -> Iterator[Sequence[Cell]]:
    name, leak = level["name"].text(), level["leak_energy_pj"].number()
    for space, figures in level["dataspaces"].items():
        words = [_figure(figures[key].count()) for key in ("tile_words", "reads", "fills", "updates")]
        energy = _energy(figures["energy_pj"].number(), whole)
        yield name, space, _figure(level["instances"].count()), *words, *energy
    if leak:
        yield name, "(leakage)", *(NOTHING,) * 5, *_energy(leak, whole)


def _share_text(part: float, whole: float) -> str:
    return f"{energy_text(part)}, {percent(part / whole if whole else 0.0)}"


def cycles_sections(document: Value, shown: ShownMapping) -> Iterator[Section]:
    """Yield what limits the cycles: the share of the time that each resource needs, and a roofline."""
    cycles, compute_cycles = document["cycles"].count(), document["compute_cycles"].count()
    needed = compute_cycles / cycles if cycles else 0.0
    shares = [
        (shown.compute, "arithmetic", needed, f"{count_text(compute_cycles)} of {count_text(cycles)} cycles")
    ]
    for name, resource, limit, used in _rates(document):
        share = used / limit if limit else 0.0
        text = f"{_amount(used)} of {_amount(limit)} words/cycle"
        shares.append((name, BANDWIDTHS[resource], share, text))
    most = max((share for *_, share, _ in shares), default=0.0)
    bars = [
        Bar(f"{name}, {what}", [Segment(share, "s1" if share == most else "s0", text)], percent(share))
        for name, what, share, text in shares
    ]
    rows: list[Sequence[Cell]] = [
        (name, what, text, (percent(share), share)) for name, what, share, text in shares
    ]
    slowest = max(shares, key=lambda each: each[2])
    limited = (
        f"{slowest[0]} ({slowest[1]}) limits the cycles: it is in use {percent(slowest[2])} of the time."
    )
    yield Section(
        "What limits the cycles",
        f"{limited} Each bar is the share of {count_text(cycles)} cycles that a resource needs on its own.",
        [
            Figure(
                lambda width: bars_scene("Share of the time that each resource needs", bars, width, (), 1.0)
            ),
            Figure(
                partial(_roofline_scene, document, shown),
                "Roofline: the speed that the arithmetic and the scarcest bandwidths allow, by the computes "
                "that a word serves there. The points are this mapping.",
            ),
        ],
        [Table("Resources", ("Component", "Resource", "Use", ">Of the time"), rows)],
        is_folded=True,
    )


def _rates(document: Value) -> Iterator[tuple[str, str, float, float]]:
    """Yield the bandwidths that are limited: level, resource, limit and use of one instance."""
    for level in document["levels"].entries():
        for resource, slack in ((key, value) for key, value in level["slack"].items() if key in BANDWIDTHS):
            yield level["name"].text(), resource, slack["limit"].number(), slack["used"].number()


def _roofline_scene(document: Value, shown: ShownMapping, width: float) -> Scene | None:
    """Return computes per cycle against computes per word, with a line per limited bandwidth."""
    cycles, computes = document["cycles"].count(), document["einsum"]["computes"].count()
    instances = {level["name"].text(): level["instances"].count() for level in document["levels"].entries()}
    limited = [rate for rate in _rates(document) if rate[2] and rate[3]]
    rates = sorted(limited, key=lambda rate: -rate[3] / rate[2])[:MOST_ROOFS]
    peak = shown.compute_instances
    if not cycles or not rates or not peak:
        return None
    speed = computes / cycles
    curves = []
    ridge = [peak / (limit * instances[name]) for name, _, limit, _ in rates]
    points = [speed / (used * instances[name]) for name, _, _, used in rates]
    least, most = min([*ridge, *points]) / 4, max([*ridge, *points]) * 4
    for number, (name, kind, limit, used) in enumerate(rates):
        slope, ink = limit * instances[name], f"s{number % 8}"
        label = f"{name}, {BANDWIDTHS[kind]}"
        bend = min(max(peak / slope, least), most)
        roof = [Mark(least, min(peak, slope * least)), Mark(bend, peak)]
        curves.append(Curve(label, ink, roof, "line", has_dots=False))
        place = speed / (used * instances[name])
        note = f"{label}: {significant(place)} computes per word, {significant(speed)} per cycle"
        curves.append(Curve(label, ink, [Mark(place, speed, note)]))
    roof = [Mark(min(ridge), peak), Mark(most, peak)]
    curves.append(Curve(f"{shown.compute} ({count_text(peak)})", "text", roof, "line", True, False))
    axes = Axis("computes per word", True), Axis("computes per cycle", True)
    return curves_scene("Roofline", curves, *axes, width)


def slack_section(document: Value) -> Section:
    """Return what is left of every limit."""
    rows: list[Sequence[Cell]] = []
    for level in document["levels"].entries():
        for resource, slack in level["slack"].items():
            limit, used, unused = slack["limit"].number(), slack["used"].number(), slack["unused"].signed()
            unit = "words" if resource == "capacity" else "words/cycle"
            share = unused / limit if limit else 0.0
            figures = [(_amount(number), number) for number in (limit, used, unused)]
            of_limit = (f"{share * 100:.2f} %", share)
            rows.append((level["name"].text(), resource.replace("_", " "), unit, *figures, of_limit))
    headings = ("Level", "Resource", "Unit", ">Limit", ">Used", ">Unused", ">Of limit")
    caption = "Of one instance; bandwidths: average over the run"
    return Section("Slack", tables=[Table(caption, headings, rows)] if rows else ())


def _amount(number: float) -> str:
    """Return a number of words, or of words per cycle, as in the printed tables."""
    return count_text(int(number)) if number == int(number) else significant(number)


def violation_sections(document: Value) -> Iterator[Section]:
    """Yield the limits that a priced mapping breaks, and the rules, if any."""
    rows: list[Sequence[Cell]] = [
        (
            each["node"].text(),
            each["kind"].text(),
            _figure(each["demand"].count()),
            f"{each['limit'].number():,g}",
        )
        for each in document.get("violations").entries()
    ]
    if rows:
        yield Section(
            "Limits that are broken", tables=[Table("", ("Node", "Limit", ">Demand", ">Limit"), rows)]
        )
    rules: list[Sequence[Cell]] = [(each["rule"].text(),) for each in document.get("broken_rules").entries()]
    if rules:
        yield Section("Rules that are broken", tables=[Table("", ("Rule",), rules)])


def sensitivity_sections(document: Value) -> Iterator[Section]:
    """Yield the optimum under other limits, if it was asked for."""
    effects = document.get("sensitivity").entries()
    if not effects:
        return
    units, bars = document["units"].text(), list(map(_effect_bar, filter(_matters, effects)))
    rows = []
    for effect in effects:
        ratio = effect["ratio"]
        text = f"{ratio.number():.4f}" if ratio.raw is not None else NOTHING
        limit, value = f"{effect['limit'].number():,g}", value_text(effect["value"], units)
        rows.append((_effect_name(effect), limit, effect["status"].text(), value, text))
    headings = ("Change", ">Limit then", "Status", ">Best value", ">Ratio")
    key: list[tuple[str, Ink]] = [("worse", "s1"), ("better", "s2")]
    yield Section(
        "Sensitivity",
        f"How the optimum of {document['objective'].text()} changes with one limit"
        + (", where it does." if bars else ": not at all."),
        [Figure(lambda width: bars_scene("Change of the optimum", bars, width, key))] if bars else (),
        [Table("With unchanged energies per access", headings, rows)],
        is_folded=True,
    )


def _effect_name(effect: Value) -> str:
    level, resource = effect["level"].text(), effect["resource"].text().replace("_", " ")
    return f"{level} {resource} × {effect['factor'].number():g}"


def _matters(effect: Value) -> bool:
    """Whether a limit is known to change the optimum."""
    return effect["ratio"].raw is not None and effect["ratio"].number() != 1


def _effect_bar(effect: Value) -> Bar:
    change = effect["ratio"].number() - 1
    text = f"{change * 100:+.2f} %" + ("" if effect["status"].text() == "OPTIMAL" else ", not proven")
    return Bar(_effect_name(effect), [Segment(abs(change), "s1" if change > 0 else "s2", text)], text)


def sources_section(document: Value) -> Section:
    """Return where energies and areas come from."""
    rows: list[Sequence[Cell]] = [
        (component, action, source.text() or NOTHING)
        for component, actions in document["energy_sources"].items()
        for action, source in actions.items()
    ]
    areas: list[Sequence[Cell]] = []
    for component, area in document.get("areas").items() if document.get("areas") else ():
        each = "-" if area["area_um2"].raw is None else significant(area["area_um2"].number())
        areas.append((component, _figure(area["instances"].count()), each, area["source"].text() or NOTHING))
    tables = [Table("Energies", ("Component", "Action", "Source"), rows)] if rows else []
    tables += [Table("Areas", ("Component", ">Instances", ">um2 of one", "Source"), areas)] if areas else []
    return Section("Where the figures come from", tables=tables, is_folded=True)


def work_section(document: Value) -> Section:
    """Return how much work the search was."""
    if not document.get("statistics"):
        return Section("Work")
    rows: list[Sequence[Cell]] = [
        (name.replace("_", " "), _work_text(name, value)) for name, value in document["statistics"].items()
    ]
    return Section("Work of the search", tables=[Table("", ("What", ">Amount"), rows)], is_folded=True)


def _work_text(name: str, value: Value) -> str:
    """Return one of the figures of `solver.result.Statistics`, or what is said beside them."""
    if name == "settled":
        shares = (
            f"{objective}: " + ", ".join(f"{step} {percent(own.number())}" for step, own in steps.items())
            for objective, steps in value.items()
        )
        return "; ".join(shares) or NOTHING
    if name == "settled_by":
        return ", ".join(text or "open" for text in value.texts()) or NOTHING
    if name == "cp_sat":
        return value.text() or NOTHING
    return seconds_text(value.number()) if name.endswith("seconds") else count_text(value.count())


def sparse_page(document: Value) -> Page:
    """Return the report of ``map`` or ``evaluate`` on sparse data: what is made, gated and skipped."""
    status, verdict = _verdict(document)
    found = list(_sparse_sections(document)) if document.get("mapping") else []
    priced = document.get("constraints")
    return Page(
        document["problem"].text() or "Einsum",
        status,
        verdict,
        (
            *_goal_facts(document),
            *cost_facts(document),
            *_sparse_facts(document),
            *_proof_facts(document),
        ),
        (
            *reason_sections(document["reasons"].entries()),
            *(violation_sections(document) if document.get("violations") else ()),
            *found,
            *sensitivity_sections(document),
            *(cost_sections(priced, document["objective"].text()) if priced else ()),
            notes_section(document),
            sources_section(document),
            work_section(document),
            run_section(document),
        ),
        document["einsum"]["text"].text(),
    )


def _sparse_facts(document: Value) -> Iterator[tuple[str, str]]:
    """Yield densities, and what the mapping costs without zeros."""
    for name, density in document["densities"].items():
        banded = density["distribution"].text() == "banded"
        figure = f"band of {density['band_width'].count()}" if banded else f"{density['share'].number():g}"
        yield f"Density of {name}", f"{figure}, {density['distribution'].text()}"
    if document.get("dense"):
        dense = document["dense"]
        costs = f"{energy_text(dense['energy_pj'].number())}, {count_text(dense['cycles'].count())} cycles"
        yield "The mapping without zeros", costs


def _sparse_sections(document: Value) -> Iterator[Section]:
    shown = shown_mapping(document)
    assert shown is not None  # it has a mapping
    yield Section("Mapping", figures=[Figure(partial(nest_scene, shown))])
    names = [space["name"].text() for space in document["einsum"]["dataspaces"].entries()]
    inks = {name: series_ink(number) for number, name in enumerate(names)}
    yield Section("Energy", figures=[Figure(partial(_sparse_energy_scene, document, inks))])
    headings = ("Level", "Dataspace", "Format", *(f">{kind}" for kind in SPARSE_KINDS), ">Energy")
    text = "Expected words of one instance: reads, fills and updates together."
    yield Section("Accesses", text, tables=[Table("Accesses", headings, list(_sparse_rows(document)))])
    computes = document["computes"]
    made: list[Sequence[Cell]] = [
        (name, _figure(computes[name].count())) for name in ("dense", "actual", "gated", "skipped")
    ]
    yield Section("Computations", tables=[Table("Computations", ("Kind", ">Number"), made)])
    if document.get("dense_optimum"):
        yield _dense_section(document)


def _dense_section(document: Value) -> Section:
    """Return what the best mapping of dense data costs without zeros, and with them."""
    dense = document["dense_optimum"]
    known = "Best" if dense["status"].text() == "OPTIMAL" else "Best known"
    rows: list[Sequence[Cell]] = [(f"{known} for dense data", "dense", *_sparse_costs(dense))]
    if dense.get("on_sparse_data"):
        rows.append(("The same", "sparse", *_sparse_costs(dense["on_sparse_data"])))
    rows.append(("This mapping", "sparse", *_sparse_costs(document)))
    headings = ("Mapping", "Data", ">Energy", ">Cycles", ">EDP")
    return Section("The best mapping of dense data", tables=[Table("", headings, rows)])


def _sparse_costs(costs: Value) -> tuple[Cell, ...]:
    energy = costs["energy_pj"].number()
    edp = costs["edp_pj_cycles"].number()
    return (energy_text(energy), energy), _figure(costs["cycles"].count()), (significant(edp), edp)


SPARSE_KINDS = ("Dense", "Actual", "Gated", "Skipped")


def _sparse_rows(document: Value) -> Iterator[Sequence[Cell]]:
    for level in document["levels"].entries():
        for name, space in level["dataspaces"].items():
            kinds = (space["dense"], space, space["gated"], space["skipped"])
            words = [sum(kind[access].count() for access in ("reads", "fills", "updates")) for kind in kinds]
            energy = space["energy_pj"].number()
            form = " ".join(space["format"].texts() if isinstance(space["format"].raw, list) else [])
            form = form or (space["format"].text() if isinstance(space["format"].raw, str) else "") or NOTHING
            yield level["name"].text(), name, form, *map(_figure, words), (energy_text(energy), energy)


def _sparse_energy_scene(document: Value, inks: Mapping[str, Ink], width: float) -> Scene:
    whole = document["energy_pj"].number()
    bars = []
    for level in document["levels"].entries():
        segments = [
            Segment(
                space["energy_pj"].number(), inks.get(name, LEAKAGE), energy_text(space["energy_pj"].number())
            )
            for name, space in level["dataspaces"].items()
        ]
        leak = level["leak_energy_pj"].number()
        segments += [Segment(leak, LEAKAGE, f"leakage: {energy_text(leak)}")] if leak else []
        bars.append(Bar(level["name"].text(), segments, _share_text(level["energy_pj"].number(), whole)))
    compute = document["compute_energy_pj"].number()
    name = document["architecture"]["compute"]["name"].text()
    bars.append(Bar(name, [Segment(compute, ARITHMETIC, "arithmetic")], _share_text(compute, whole)))
    return bars_scene(
        "Energy by level and dataspace", bars, width, [*inks.items(), ("arithmetic", ARITHMETIC)]
    )


def front_page(document: Value) -> Page:
    """Return the report of ``map --pareto``."""
    points, status = document["points"].entries(), document["status"].text()
    found = counted(len(points), "point")
    verdict = f"{found}: the complete front." if status == "OPTIMAL" else f"{found}; others may be missing."
    if status == "INFEASIBLE":
        verdict = "No mapping satisfies all constraints. This is proven."
    figures = [Figure(partial(front_scene, document))] if points else ()
    return Page(
        f"Energy-latency front of {document['problem'].text() or 'an Einsum'}",
        status,
        verdict,
        (
            ("Counting rule", document["counting"].text()),
            ("Time", seconds_text(document["seconds"].number())),
        ),
        (
            *reason_sections(document["reasons"].entries()),
            Section("Front", figures=figures, tables=list(_front_tables(document))),
            notes_section(document),
            work_section(document),
            run_section(document),
        ),
    )


def _front_tables(document: Value) -> Iterator[Table]:
    """Yield the points, and where points may be missing, if there are any."""
    points: list[Sequence[Cell]] = [
        (
            _figure(point["cycles"].count()),
            (energy_text(point["energy_pj"].number()), point["energy_pj"].number()),
            (significant(point["edp_pj_cycles"].number()), point["edp_pj_cycles"].number()),
            percent(point["utilization"].number()),
            "proven" if point["proven"].flag() else "not proven",
        )
        for point in document["points"].entries()
    ]
    if points:
        headings = (">Cycles", ">Energy", ">EDP (pJ*cycles)", ">Utilization", "Proof")
        yield Table("Points", headings, points)
    open_ranges: list[Sequence[Cell]] = [
        (
            _figure(each["least_cycles"].count()),
            "no limit" if each["most_cycles"].raw is None else count_text(each["most_cycles"].count()),
            energy_text(each["least_energy_pj"].number()),
        )
        for each in document["open"].entries()
    ]
    if open_ranges:
        yield Table("Open", (">From cycles", ">To", ">No energy below"), open_ranges)


def explanation_page(document: Value) -> Page:
    """Return the report of ``explain``: the conflicts, or what each constraint costs."""
    status, objective = document["status"].text(), document["objective"].text()
    verdict = "No mapping satisfies all constraints." if status == "INFEASIBLE" else "No mapping was found."
    if document["with_all"] and document["with_all"]["value"].raw is not None:
        best = value_text(document["with_all"]["value"], document["units"].text())
        verdict = f"With all constraints: {objective} {best}."
    return Page(
        f"Constraints of {document['problem'].text() or 'an Einsum'}",
        status,
        verdict,
        (("Counting rule", document["counting"].text()),),
        (
            *reason_sections(document["reasons"].entries()),
            *cost_sections(document, objective),
            notes_section(document),
            run_section(document),
        ),
    )


def cost_sections(document: Value, objective: str) -> Iterator[Section]:
    """Yield what each constraint costs, and the constraints that were left untried."""
    rows: list[Sequence[Cell]] = []
    bars = []
    for clause in document["without"].entries():
        least, most = clause["least"].number(), clause["most"]
        cost = _range_text(least, None if most.raw is None else most.number())
        places = ", ".join(clause["sources"].texts()) or NOTHING
        rows.append((clause["text"].text(), places, *_cost_cells(clause), (cost, least)))
        if cost != FREE:
            bars.append(Bar(clause["text"].text(), [Segment(least, "s0", cost)], cost))
    if document["with_all"]:
        rows.insert(0, ("(with all constraints)", "", *_cost_cells(document["with_all"]), NOTHING))
        yield Section(
            "What each constraint costs",
            f"Improvement of the best {objective} if only this constraint is dropped.",
            [Figure(partial(bars_scene, "Cost of each constraint", bars))] if bars else (),
            [Table("The optimum with all constraints, and without each", CONSTRAINT_HEADINGS, rows)],
        )
    left_out = [(text,) for text in document["left_out"].texts()]
    if left_out:
        yield Section("Left untried", tables=[Table("Constraints left untried", ("Constraint",), left_out)])


CONSTRAINT_HEADINGS = ("Without", "At", ">Energy", ">Cycles", ">EDP (pJ*cycles)", ">Cost")


def _range_text(least: float, most: float | None) -> str:
    if most is None:
        return f"at least {percent(least)}" if least else "unproven"
    if least == most:
        return percent(least) if least else FREE
    return f"{percent(least)} to {percent(most)}" if least else f"at most {percent(most)}"


def _cost_cells(figures: Value) -> tuple[Cell, Cell, Cell]:
    if figures["energy_pj"].raw is None:
        return NOTHING, NOTHING, NOTHING
    energy, cycles, edp = (
        figures["energy_pj"].number(),
        figures["cycles"].count(),
        figures["edp_pj_cycles"].number(),
    )
    return (energy_text(energy), energy), _figure(cycles), (significant(edp), edp)
