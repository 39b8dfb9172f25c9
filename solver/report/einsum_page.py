"""Reports of one Einsum: a mapping that was found or priced, and what constraints cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import zip_longest

from model.objective import EDP, UNITS
from solver.report.charts import Bar, ChartAxis, Curve, Mark, Segment, bars_scene, curves_scene
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
from solver.report.mapped import ShownMapping, ShownNode, nest_lines, shown_mapping
from solver.report.mapping_picture import array_scene, nest_scene, tiles_scene
from solver.report.page import (
    BOTH,
    PAGE,
    TERMINAL,
    VERBOSE,
    Cell,
    Fact,
    Figure,
    Page,
    Section,
    Table,
    conflicts_of,
    cost_cells,
    count_cell,
    counting_fact,
    energy_cell,
    figure_cell,
    joined,
    share_cell,
    si_facts,
    totals_section,
)
from solver.report.plots import COST_KEYS
from solver.report.reading import Value, value_text
from solver.result import REMAINDERS_S

ENDINGS = {
    "TIME_LIMIT": "stopped by the time limit",
    "REMAINDER_LIMIT": f"stopped by the default limit of {REMAINDERS_S:g} s on each search for remainders "
    "(--time-limit none: run until proven; --factors perfect: divisors only)",
    "GAP": "within the requested gap",
    "INTERRUPTED": "interrupted",
    "MEMORY_LIMIT": "stopped by the memory limit",
    "CHOICES": "too many bypass choices or spatial choices to compute bounds for",
    "TOO_LARGE": "too large for a search",
    "BOUND": "bounds on Einsums with differing visits cannot be tightened",
    "LOOP_LIMIT": "the best mapping has more temporal loops than `max_temporal_loops_in_a_mapping` allows, a "
    "limit that the search does not model",
}

FREE = "none"
"""A cost of exactly nothing."""

OPEN = "unproven"
"""A cost of which nothing is known."""

MOST_ROOFS = 3
"""Bandwidths in a roofline: those in use most of the time."""

BANDWIDTHS = {"read_bandwidth": "reads", "write_bandwidth": "writes", "shared_bandwidth": "reads and writes"}
COMPUTE: Ink = "work"
LEAKAGE: Ink = "late"
"""Colours beside those of the dataspaces."""


def mapping_page(document: Value) -> Page:
    """Return the report of ``map`` or ``evaluate`` on dense data."""
    shown = shown_mapping(document)
    facts = [] if shown is None else _cost_facts(document)
    found = [] if shown is None else [*_picture_sections(document, shown), totals_section(facts)]
    return einsum_page(document, facts, found)


def einsum_page(document: Value, facts: Sequence[Fact], found: Sequence[Section]) -> Page:
    """Return the report of a search or of a given mapping, with the sections about the mapping."""
    architecture = document["architecture"]["name"].text()
    is_searched = bool(document.get("status"))
    status = document["status"].text() if is_searched else "VALID" if document["valid"].flag() else "INVALID"
    priced = document.get("constraints")
    return Page(
        " on ".join(filter(None, (document["problem"].text() or "Einsum", architecture))),
        status,
        search_text(document) if is_searched else _given_verdict(document),
        facts,
        (
            *violation_sections(document),
            *found,
            *sensitivity_sections(document),
            *(cost_sections(priced, document["objective"].text()) if priced else ()),
            sources_section(document),
            stages_section(document),
            work_section(document),
        ),
        document["einsum"]["text"].text(),
        document["notes"].texts(),
        conflicts_of(document),
        document.get("check").text(),
    )


def search_text(document: Value) -> str:
    """Return the verdict of a search: its result, why it ended, and its work."""
    return joined(
        (outcome_text(document), ENDINGS.get(document["termination"].text(), ""), work_text(document))
    )


def outcome_text(document: Value) -> str:
    """Return the value, bound and gap of what is not proven, later objectives, and narrower mapspaces."""
    if document["status"].text() == "INFEASIBLE":
        return "no mapping satisfies all constraints"
    units, objective = document["units"].text(), document["objective"].text()
    value = document["value"]
    parts = ["no mapping was found" if value.raw is None else f"{objective} {value_text(value, units)}"]
    if document["status"].text() != "OPTIMAL":  # else the bound is the value
        parts.append(f"bound {value_text(document['bound'], units)}")
        if document["gap"].raw is not None:
            parts.append(f"gap {percent(document['gap'].number())}")
    if document.get("energy_pj").raw is not None:
        parts += _later_values(document)
    return ", ".join((*parts, *_narrower_parts(document)))


def _later_values(document: Value) -> Iterator[str]:
    """Yield the values of the second and later objectives, with bounds of what is not proven."""
    is_proven = document["status"].text() == "OPTIMAL"
    bounds = document["later_bounds"].entries() if document.get("later_bounds") else []
    for name, bound in zip_longest(document["objectives"].texts()[1:], bounds):
        value = value_text(document.get(COST_KEYS.get(name, "")), UNITS.get(name, ""))
        known = NOTHING if bound is None else value_text(bound, UNITS.get(name, ""))
        yield f"then {name} {value}" + ("" if is_proven else f" (bound {known})")


def work_text(document: Value) -> str:
    """Return the work of a search in one line."""
    work = document["statistics"]
    priced = f"{counted(work['mappings_priced'].count(), 'mapping')} evaluated"
    return (
        f"{counted(work['states'].count(), 'tile bounded', 'tiles bounded')}, "
        f"{priced}, {seconds_text(work['seconds'].number())}"
    )


def _narrower_parts(document: Value) -> Iterator[str]:
    """Yield the savings from remainders and uneven tiles; without a proof, results of narrower mapspaces."""
    perfect, even, value = document.get("perfect_factors"), document.get("even_tiles"), document["value"]
    hardware = document.get("hardware_order")
    if hardware:
        is_proven = value.raw is not None and document["status"].text() == "OPTIMAL"
        if is_proven:
            yield _saved_text(document, value.number(), hardware, "tiles in any order of the memories")
        else:
            yield _best_text(document, hardware, "in the order of the hardware")
    if value.raw is None or document["status"].text() != "OPTIMAL":
        if perfect:
            yield _best_text(document, perfect, "without remainders")
        if even:
            yield _best_text(document, even, "with even tiles" + (" and no remainders" if perfect else ""))
        return
    if even and not perfect:
        yield _saved_text(document, value.number(), even, "uneven tiles")
    elif even and perfect["value"].raw is not None:
        saved = _saved_text(document, perfect["value"].number(), even, "uneven tiles")
        yield f"without remainders, {saved}"
    if perfect:
        yield _saved_text(document, value.number(), perfect, "remainders")


def _best_text(document: Value, narrower: Value, which: str) -> str:
    """Return the best mapping of a narrower mapspace, and whether that is proven."""
    if narrower["status"].text() == "INFEASIBLE":
        return f"no mapping {which} exists (proven)"
    if narrower["value"].raw is None:
        return f"no mapping {which} was found"
    value, bound = (value_text(narrower[key], document["units"].text()) for key in ("value", "bound"))
    if narrower["status"].text() == "OPTIMAL":
        return f"the best {which} is {value} (proven)"
    return f"the best found {which} is {value} (bound {bound})"


def _saved_text(document: Value, value: float, narrower: Value, what: str) -> str:
    """Return the saving from remainders or uneven tiles."""
    if narrower["status"].text() == "INFEASIBLE":
        return f"no mapping without {what} exists"
    if narrower["value"].raw is None:
        return f"no mapping without {what} was found"
    without = narrower["value"].number()
    if without == value:
        return f"{what} save nothing"
    return (
        f"{what} reduce {document['objective'].text()} by "
        f"{percent(1 - value / without) if without else NOTHING}"
    )


def _given_verdict(document: Value) -> str:
    """Return whether a given mapping is valid, and why not."""
    if document["valid"].flag():
        return "the mapping respects every limit of the hardware"
    if document["violations"]:
        return "the mapping exceeds limits of the hardware"
    return (
        "the mapping "
        f"{'violates user-defined constraints' if document['broken_rules'] else 'cannot be evaluated'}"
    )


def _cost_facts(document: Value) -> list[Fact]:
    """Return energy with the share of each level, cycles with what limits them, EDP and utilization."""
    compute = document["architecture"]["compute"]["name"].text()
    energy, leak = document["energy_pj"].number(), document["leak_energy_pj"].number()
    computes, leakage = document["einsum"]["computes"].count(), percent(leak / energy if energy else 0.0)
    return [
        counting_fact(document),
        ("Energy", energy_text(energy), f"{significant(energy / max(1, computes))} pJ per compute"),
        *energy_facts(document, energy),
        ("  leakage", energy_text(leak), f"{leakage}, included in the levels above"),
        ("Cycles", count_text(document["cycles"].count()), _limiting_text(document)),
        ("EDP", significant(document["edp_pj_cycles"].number()), UNITS[EDP]),
        *si_facts(document),
        (
            "Utilization",
            percent(document["utilization"].number()),
            f"{_used(document['compute_instances'], document['architecture']['compute'])} {compute} in use",
        ),
    ]


def energy_facts(document: Value, whole: float) -> Iterator[Fact]:
    """Yield the energy of each level, and of the computes."""
    parts = [(level["name"].text(), level["energy_pj"].number()) for level in document["levels"].entries()]
    parts.append((document["architecture"]["compute"]["name"].text(), document["compute_energy_pj"].number()))
    for name, part in parts:
        yield f"  {name}", energy_text(part), percent(part / whole if whole else 0.0)


def _used(used: Value, hardware: Value) -> str:
    return f"{count_text(used.count())}/{count_text(hardware['instances'].count())}"


def _limiting_text(document: Value) -> str:
    """Return the latency bottleneck: compute, or the bandwidth of a level."""
    computes = document["compute_cycles"].count()
    slowest = max(document["levels"].entries(), key=lambda level: level["cycles"].count())
    if slowest["cycles"].count() <= computes:
        return "compute-bound"
    return f"limited by the bandwidth of {slowest['name'].text()} ({count_text(computes)} without it)"


def _picture_sections(document: Value, shown: ShownMapping) -> Iterator[Section]:
    """Yield pictures, tiles and accesses, what limits the cycles, and slack."""
    yield from nest_sections(document, shown)
    yield _capacity_section(shown)
    yield _energy_section(document, shown, VERBOSE if document.get("status") else BOTH)
    yield from cycles_sections(document, shown)
    yield _slack_section(document)


def nest_sections(document: Value, shown: ShownMapping) -> Iterator[Section]:
    """Yield the loop nest, the array, and the tiles to scale."""
    name = document["problem"].text()
    lines = nest_lines(document["architecture"], document["mapping"], shown.einsum)
    yield Section(f"Mapping{f' of {name}' if name else ''}", lines=lines, where=TERMINAL)
    yield Section(
        "Mapping",
        "Memories from the outermost inwards, with the tiles in one instance and the loops of the level.",
        [Figure(partial(nest_scene, shown))],
        where=PAGE,
    )
    array = Figure(partial(array_scene, shown), "One cell per instance; see the loops above.")
    yield Section("Array", figures=[array], where=PAGE)
    tiles = "The two longest ranks of each dataspace, with its tiles at each level, drawn to scale"
    yield Section(
        "Tiles", figures=[Figure(partial(tiles_scene, shown), f"{tiles} (thin ones thicker).")], where=PAGE
    )


def _capacity_section(shown: ShownMapping) -> Section:
    """Return the occupancy of each limited memory, by dataspace."""
    bars, rows = [], []
    for memory, tiles in shown.memories:
        if memory.usable_words is None:
            continue
        limit, taken = memory.usable_words, sum(tile.size_words for tile in tiles)
        share = [float(Fraction(tile.size_words, limit)) if limit else 0.0 for tile in tiles]
        segments = [
            Segment(part, shown.inks[tile.dataspace], f"{tile.dataspace}: {counted(tile.size_words, 'word')}")
            for part, tile in zip(share, tiles, strict=True)
        ]
        text = percent(taken / limit) if limit else NOTHING
        bars.append(Bar(memory.name, segments, text))
        by_space = ", ".join(f"{tile.dataspace} {count_text(tile.size_words)}" for tile in tiles) or NOTHING
        rows.append((memory.name, *map(count_cell, (limit, taken, limit - taken)), text, by_space))
    headings = ("Memory", ">Usable words", ">Taken", ">Left", ">Full", "By dataspace")
    key = list(shown.inks.items())
    return Section(
        "Capacity",
        figures=[Figure(lambda width: bars_scene("Occupancy of each memory", bars, width, key, 1.0))]
        if bars
        else (),
        tables=[Table("Words per instance", headings, rows)] if rows else (),
        is_folded=True,
        where=PAGE,
    )


def _energy_section(document: Value, shown: ShownMapping, where: str) -> Section:
    """Return tiles, accesses and energy by level and dataspace."""
    whole, compute = document["energy_pj"].number(), document["compute_energy_pj"].number()
    memories = {node.name: node for node in shown.levels}
    rows: list[Sequence[Cell]] = []
    for level in document["levels"].entries():
        rows += _level_rows(level, whole, memories.get(level["name"].text()))
    used = f"{count_text(shown.compute_used)}/{count_text(shown.compute_instances)}"
    spent = energy_cell(compute), share_cell(compute, whole)
    rows.append((shown.compute, "(compute)", used, *(NOTHING,) * 5, *spent))
    headings = (">Instances", ">Tile", ">Of capacity", ">Reads", ">Fills", ">Updates", ">Energy", ">Of total")
    table = Table(
        "Tiles and accesses",
        ("Level", "Dataspace", *headings),
        rows,
        ("Instances", "Of capacity", "Of total"),
        is_grouped=True,
    )
    return Section(
        "Energy",
        f"{energy_text(whole)} in total. Tiles, reads, fills and updates are in words per instance; "
        "energies are for all instances.",
        [Figure(partial(energy_scene, document, shown.inks))],
        [table],
        is_folded=True,
        where=where,
    )


def _level_rows(level: Value, whole: float, node: ShownNode | None) -> Iterator[Sequence[Cell]]:
    name, leak = level["name"].text(), level["leak_energy_pj"].number()
    instances, limit = (node.instances, node.usable_words) if node else (0, None)
    used = f"{count_text(level['instances'].count())}/{count_text(instances)}"
    for space, figures in level["dataspaces"].items():
        tile, size = figures["tile_words"].count(), figures["size_words"].count()
        wider = "" if size == tile or not tile else f" x {count_text(size // tile)}"
        words = [count_cell(figures[key].count()) for key in ("reads", "fills", "updates")]
        energy = figures["energy_pj"].number()
        full = share_cell(size, limit) if limit else NOTHING
        spent = energy_cell(energy), share_cell(energy, whole)
        yield name, space, used, (f"{count_text(tile)}{wider}", tile), full, *words, *spent
    if leak or not level["dataspaces"]:
        what = "(leakage)" if level["dataspaces"] else "(nothing)"
        yield name, what, *(NOTHING,) * 6, energy_cell(leak), share_cell(leak, whole)


def energy_scene(document: Value, inks: Mapping[str, Ink], width: float) -> Scene:
    """Return the energy by level and dataspace."""
    whole, compute = document["energy_pj"].number(), document["compute_energy_pj"].number()
    bars = [_level_bar(level, inks, whole) for level in document["levels"].entries()]
    name = document["architecture"]["compute"]["name"].text()
    bars.append(Bar(name, [Segment(compute, COMPUTE, energy_text(compute))], _share_text(compute, whole)))
    key = [*inks.items(), ("compute", COMPUTE)]
    key += [("leakage", LEAKAGE)] if document["leak_energy_pj"].number() else []
    return bars_scene("Energy by level and dataspace", bars, width, key)


def _level_bar(level: Value, inks: Mapping[str, Ink], whole: float) -> Bar:
    name, leak = level["name"].text(), level["leak_energy_pj"].number()
    parts = [(space, figures["energy_pj"].number()) for space, figures in level["dataspaces"].items()]
    segments = [
        Segment(part, inks.get(space, LEAKAGE), f"{name}, {space}: {energy_text(part)}")
        for space, part in parts
    ]
    segments += [Segment(leak, LEAKAGE, f"{name}, leakage: {energy_text(leak)}")] if leak else []
    return Bar(name, segments, _share_text(level["energy_pj"].number(), whole))


def _share_text(part: float, whole: float) -> str:
    return f"{energy_text(part)}, {percent(part / whole if whole else 0.0)}"


def cycles_sections(document: Value, shown: ShownMapping) -> Iterator[Section]:
    """Yield what limits the cycles: the share of the time that each resource needs, and a roofline."""
    cycles, compute_cycles = document["cycles"].count(), document["compute_cycles"].count()
    needed = compute_cycles / cycles if cycles else 0.0
    shares = [
        (shown.compute, "compute", needed, f"{count_text(compute_cycles)} of {counted(cycles, 'cycle')}")
    ]
    for name, resource, limit, used in _rates(document):
        share = used / limit if limit else 0.0
        text = f"{_amount(used)} of {_amount(limit)} words/cycle"
        shares.append((name, BANDWIDTHS[resource], share, text))
    most = max((share for *_, share, _ in shares), default=0.0)
    bars = [
        Bar(f"{name}, {what}", [Segment(share, "work" if share == most else "late", text)], percent(share))
        for name, what, share, text in shares
    ]
    rows: list[Sequence[Cell]] = [
        (name, what, text, (percent(share), share)) for name, what, share, text in shares
    ]
    slowest = max(shares, key=lambda each: each[2])
    limited = (
        f"{slowest[0]} ({slowest[1]}) is the bottleneck: it is in use {percent(slowest[2])} of the time."
    )
    yield Section(
        "Latency bottleneck",
        f"{limited} Each bar is the share of {counted(cycles, 'cycle')} that the resource alone needs.",
        [
            Figure(
                lambda width: bars_scene(
                    "Share of the run time that each resource needs", bars, width, (), 1.0
                )
            ),
            Figure(
                partial(_roofline_scene, document, shown),
                "Roofline: computes per cycle that the compute units and the most used bandwidths allow, "
                "against operational intensity. The points show this mapping.",
            ),
        ],
        [Table("Resources", ("Component", "Resource", "Use", ">Share of time"), rows)],
        is_folded=True,
        where=PAGE,
    )


def _rates(document: Value) -> Iterator[tuple[str, str, float, float]]:
    """Yield the bandwidths that are limited: level, resource, limit and use of one instance."""
    for level in document["levels"].entries():
        for resource, slack in ((key, value) for key, value in level["slack"].items() if key in BANDWIDTHS):
            yield level["name"].text(), resource, slack["limit"].number(), slack["used"].number()


def _executed(document: Value) -> int:
    """Return the computes that take time: of sparse data, those that are not skipped."""
    sparse = document.get("computes")
    if sparse:
        return sparse["actual"].count() + sparse["gated"].count()
    return document["einsum"]["computes"].count()


def _roofline_scene(document: Value, shown: ShownMapping, width: float) -> Scene | None:
    """Return computes per cycle against computes per word, with a line per limited bandwidth."""
    cycles, computes = document["cycles"].count(), _executed(document)
    instances = {level["name"].text(): level["instances"].count() for level in document["levels"].entries()}
    limited = [rate for rate in _rates(document) if rate[2] and rate[3] and instances[rate[0]]]
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
        slope, ink = limit * instances[name], series_ink(len(shown.inks) + number)
        label = f"{name}, {BANDWIDTHS[kind]}"
        bend = min(max(peak / slope, least), most)
        roof = [Mark(least, min(peak, slope * least)), Mark(bend, peak)]
        curves.append(Curve(label, ink, roof, "line", has_dots=False))
        place = speed / (used * instances[name])
        note = f"{label}: {significant(place)} computes per word, {significant(speed)} per cycle"
        curves.append(Curve(label, ink, [Mark(place, speed, note)]))
    roof = [Mark(min(ridge), peak), Mark(most, peak)]
    curves.append(Curve(f"{shown.compute} ({count_text(peak)})", "text", roof, "line", True, False))
    axes = ChartAxis("computes per word", True), ChartAxis("computes per cycle", True)
    return curves_scene("Roofline", curves, *axes, width)


def _slack_section(document: Value) -> Section:
    """Return the unused part of every limit."""
    rows: list[Sequence[Cell]] = []
    memories = {
        node["name"].text(): node["memory"].text()
        for node in document["architecture"]["nodes"].entries()
        if node["type"].text() == "storage"
    }
    for level in document["levels"].entries():
        name = level["name"].text()
        for resource, slack in level["slack"].items():
            limit, used, unused = slack["limit"].number(), slack["used"].number(), slack["unused"].signed()
            figures = [(_amount(number), number) for number in (limit, used, unused)]
            share = unused / limit if limit else 0.0
            row = (memories.get(name, name), resource.replace("_", " "), _unit_of(resource))
            rows.append((*row, *figures, (percent(share), share)))
    headings = ("Level", "Resource", "Unit", ">Limit", ">Used", ">Unused", ">Unused share")
    table = Table("Limits", headings, rows, ("Unit", "Unused"), is_grouped=True)
    text = "Per instance; bandwidths are averages over the run."
    return Section("Slack", text if rows else "", tables=[table] if rows else (), where=VERBOSE)


def _unit_of(resource: str) -> str:
    return "words" if resource == "capacity" else "words/cycle"


def _amount(number: float) -> str:
    """Return a number of words, or of words per cycle."""
    return count_text(int(number)) if number == int(number) else significant(number)


def violation_sections(document: Value) -> Iterator[Section]:
    """Yield the limits that a given mapping breaks, and the rules, if any."""
    broken = [f"  {violation_text(each)}" for each in document.get("violations").entries()]
    rules = [f"  {broken_rule_text(each)}" for each in document.get("broken_rules").entries()]
    yield Section("", lines=[*broken, *rules], where=TERMINAL)
    yield Section("Exceeded limits", lines=broken, where=PAGE)
    yield Section("Violated user-defined constraints", lines=rules, where=PAGE)


def violation_text(violation: Value) -> str:
    """Return the limit that is broken, with both figures; of a fused mapping, also while what runs."""
    node, kind = violation["node"].text(), violation["kind"].text()
    demand, limit = count_text(violation["demand"].count()), f"{violation['limit'].number():,g}"
    einsum = violation.get("einsum").text()
    node += f", while {einsum} runs" if einsum else ""
    parts = violation.get("parts").entries()
    if kind == "capacity" and parts and einsum:
        whose = (
            f"{own['dataspace'].text()} ({own['level'].text()}) {own['words'].count():,}" for own in parts
        )
        return f"{node}: {', '.join(whose)} take {demand} words of {limit}"
    if kind == "capacity" and parts:
        *others, last = _places_text(parts)
        listed = f"{', '.join(others)} and {last} exceed" if others else f"{last} exceeds"
        return f"{node}: {listed} {limit}"
    if kind == "capacity":
        return f"{node}: tiles take {demand} words of {limit}"
    if kind == "metadata":
        return f"{node}: metadata takes {demand} bits of {limit}"
    if kind == "min_utilization":
        return f"{node}: tiles take {demand} words, at least {limit} are required"
    return f"{node}: {demand} children along {kind[-1:].upper()}, but there are {limit}"


def _places_text(parts: Sequence[Value]) -> Iterator[str]:
    """Yield the tiles in a memory, such as ``Inputs 512 at the inner place``."""
    levels = list(dict.fromkeys(part["level"].text() for part in parts))
    for part in parts:
        number, places = levels.index(part["level"].text()), len(levels)
        inner = ("outer", "inner")[number % 2]
        where = f"at the {inner} place" if places == 2 else f"at place {number + 1} of {places}"
        yield f"{part['dataspace'].text()} {count_text(part['words'].count())} {where}"


def broken_rule_text(broken: Value) -> str:
    """Return a user-defined constraint that is broken, with the figures that it is about."""
    figures = (f"{name} is {_figure_text(name, value)}" for name, value in broken["figures"].items())
    return f"{broken['rule'].text()} ({', '.join(figures)})"


def _figure_text(name: str, value: Value) -> str:
    if isinstance(value.raw, bool):
        return "true" if value.raw else "false"
    if isinstance(value.raw, str):
        return value.raw or "none"
    return f"{value.number():,.6g} pJ" if name == "energy" else count_text(int(value.number()))


def sensitivity_sections(document: Value) -> Iterator[Section]:
    """Yield the optimum under other limits, if it was requested."""
    effects = document.get("sensitivity").entries()
    if not effects:
        return
    units, bars = document["units"].text(), list(map(_effect_bar, filter(_matters, effects)))
    later = document["objectives"].texts()[1:]
    rows = []
    for effect in effects:
        limit, value = _amount(effect["limit"].number()), value_text(effect["value"], units)
        name = effect["level"].text(), effect["resource"].text().replace("_", " ")
        head = (*name, f"{effect['factor'].number():g}", limit, _unit_of(effect["resource"].text()))
        rows.append((*head, effect["status"].text(), value, _change_text(effect, later)))
    headings = ("Level", "Resource", ">Factor", ">Limit", "Unit", "Status", ">Optimum", ">Change")
    left = document.get("sensitivity_left")
    key: list[tuple[str, Ink]] = [("worse", "s1"), ("better", "s2")]
    yield Section(
        f"Sensitivity of {', then '.join(document['objectives'].texts())}",
        "The optimum with one limit halved or doubled at a time. Energies "
        "per access do not change; capacities "
        "are before multiple buffering.",
        [Figure(lambda width: bars_scene("Change of the optimum", bars, width, key))] if bars else (),
        [Table("Optimum with one limit changed", headings, rows, ("Unit", "Optimum"), is_grouped=True)],
        is_folded=True,
        remarks=[f"Interrupted: {counted(left.count(), 'limit')} not examined."] if left.raw else (),
    )


def _matters(effect: Value) -> bool:
    """Whether a limit is known to change the optimum."""
    return effect["ratio"].raw is not None and effect["ratio"].number() != 1


def _effect_bar(effect: Value) -> Bar:
    change = effect["ratio"].number() - 1
    text = f"{change * 100:+.2f} %" + ("" if effect["status"].text() == "OPTIMAL" else ", not proven")
    level, resource = effect["level"].text(), effect["resource"].text().replace("_", " ")
    name = f"{level} {resource} × {effect['factor'].number():g}"
    return Bar(name, [Segment(abs(change), "s1" if change > 0 else "s2", text)], text)


def _change_text(effect: Value, later: Sequence[str]) -> str:
    """Return the change of the first objective; if it did not change, that of the next one that did."""
    first = effect["ratio"]
    for name, ratio in zip(later, effect["later_ratios"].entries(), strict=False):
        if first.raw == 1 and ratio.raw not in (1, None):
            return f"{_signed_text(ratio)} {name}"
    return _signed_text(first)


def _signed_text(ratio: Value) -> str:
    if ratio.raw is None:
        return NOTHING
    change = ratio.number() - 1
    return f"{'+' if change > 0 else '-'}{percent(abs(change))}" if change else "unchanged"


def sources_section(document: Value) -> Section:
    """Return energies and areas, and where they come from."""
    sources = document["energy_sources"]
    energies = document.get("energies_pj") or sources
    rows: list[Sequence[Cell]] = []
    for component, actions in energies.items():
        for action, energy in actions.items():
            figure = NOTHING if energies is sources else energy_cell(energy.number())
            rows.append((component, action, figure, sources[component].get(action).text() or NOTHING))
    areas: list[Sequence[Cell]] = []
    known = document.get("areas") or Value({})
    is_known = any(area["area_um2"].raw is not None for _, area in known.items())
    for component, area in known.items() if is_known else ():
        each = NOTHING if area["area_um2"].raw is None else figure_cell(area["area_um2"].number())
        instances, source = count_cell(area["instances"].count()), area["source"].text()
        areas.append((component, instances, each, source or NOTHING))
    headings = ("Component", "Action", ">Energy", "Source")
    tables = [Table("Energy per access", headings, rows, is_grouped=True)] if rows else []
    tables += (
        [Table("Areas", ("Component", ">Instances", ">Area of one (um2)", "Source"), areas)] if areas else []
    )
    return Section("Sources of the figures", tables=tables, is_folded=True, where=VERBOSE)


def stages_section(document: Value) -> Section:
    """Return the time of each search stage."""
    if not document.get("statistics"):
        return Section("Stages")
    rows: list[Sequence[Cell]] = []
    for own in document["statistics"].get("stages").entries():
        seconds = own["seconds"].number()
        rows.append((own["stage"].text(), own["engine"].text(), (seconds_text(seconds), seconds)))
    tables = [Table("", ("Stage", "Engine", ">Time"), rows)] if rows else []
    return Section("Search stages", tables=tables, is_folded=True, where=VERBOSE)


def work_section(document: Value) -> Section:
    """Return the work of the search as a table."""
    if not document.get("statistics"):
        return Section("Work")
    rows: list[Sequence[Cell]] = [
        (WORK.get(name, name.replace("_", " ")), _work_text(name, value))
        for name, value in document["statistics"].items()
        if name != "stages"
    ]
    table = Table("", ("Figure", ">Amount"), rows)
    return Section("Search statistics", tables=[table], is_folded=True, where=PAGE)


WORK = {
    "states": "tiles bounded",
    "masks": "bypass choices",
    "listed": "pairs with listed paths",
    "core_variables": "CP-SAT variables",
    "core_calls": "CP-SAT calls",
    "mappings_priced": "mappings evaluated",
    "settled_by": "gap closed by",
    "cp_sat": "CP-SAT",
    "cp_sat_seconds": "CP-SAT time",
    "settled": "pruned by",
}
"""Names of figures of `solver.result.Statistics` on pages, where they are not those of the document."""


def _work_text(name: str, value: Value) -> str:
    """Return one of the figures of `solver.result.Statistics`, or what is said beside them."""
    if name == "settled":
        shares = (
            f"{objective}: " + ", ".join(f"{step} {percent(own.number())}" for step, own in steps.items())
            for objective, steps in value.items()
        )
        return joined(shares) or NOTHING
    if isinstance(value.raw, list):
        return ", ".join(text or "open" for text in value.texts()) or NOTHING
    if value.raw is None or isinstance(value.raw, str):
        return value.text() or NOTHING
    return seconds_text(value.number()) if name.endswith("seconds") else count_text(value.count())


def explanation_page(document: Value) -> Page:
    """Return the report of ``explain``: the conflicts, or what each constraint costs."""
    status, objective = document["status"].text(), document["objective"].text()
    verdict = "no mapping satisfies all constraints" if status == "INFEASIBLE" else "no mapping was found"
    if document["with_all"] and document["with_all"]["value"].raw is not None:
        best = value_text(document["with_all"]["value"], document["units"].text())
        verdict = f"with all constraints: {objective} {best}"
    return Page(
        f"Constraints of {document['problem'].text() or 'an Einsum'}",
        status,
        verdict,
        [counting_fact(document)],
        tuple(cost_sections(document, objective)),
        notes=document["notes"].texts(),
        conflicts=conflicts_of(document),
    )


def cost_sections(document: Value, objective: str) -> Iterator[Section]:
    """Yield the cost of each constraint, and the constraints that were not examined."""
    with_all = document["with_all"]
    if not with_all:
        return
    objectives = with_all["objectives"].texts() or [objective]
    clauses = document["without"].entries()
    rows: list[Sequence[Cell]] = [("(with all constraints)", "", *cost_cells(with_all), NOTHING)]
    bars, free = [], []
    for clause in clauses:
        cost = constraint_cost_text(clause, len(objectives) > 1)
        places = ", ".join(clause["sources"].texts()) or NOTHING
        least = clause["least"].number()
        rows.append((clause["text"].text(), places, *cost_cells(clause), (cost, least)))
        if cost == FREE:
            free.append((clause["text"].text(), _file_names(clause["sources"].texts())))
        else:
            bars.append(Bar(clause["text"].text(), [Segment(least, "s0", cost)], cost))
    first, *later = objectives
    otherwise = f", or else of {', then '.join(later)}" if later else ""
    untried = document["left_out"].texts()
    title, remarks = "Cost of each constraint", list(_proof_remarks(with_all, clauses, untried))
    text = f"Cost: improvement of the best {first}{otherwise} if only this constraint is dropped."
    caption = "The optimum with all constraints and without each one"
    yield Section(
        title, text, tables=[Table(caption, CONSTRAINT_HEADINGS, rows)], remarks=remarks, where=TERMINAL
    )
    costly = [
        (name, cost, *costs, _file_names(places.split(", ")))
        for name, places, *costs, cost in rows
        if cost[0] != FREE and isinstance(places, str)
    ]
    headings = ("Without", ">Cost", ">Energy", ">Cycles", ">EDP", "At")
    yield Section(
        title,
        text,
        [Figure(partial(bars_scene, title, bars))] if bars else (),
        [Table(caption, headings, costly)],
        remarks=remarks,
        where=PAGE,
    )
    without = Table(f"{counted(len(free), 'constraint')} of no cost", ("Constraint", "At"), free)
    yield Section("Constraints of no cost", tables=[without] if free else (), is_folded=True, where=PAGE)


def _file_names(places: Sequence[str]) -> str:
    """Return places by the names of their files; the inputs are listed with their folders."""
    return ", ".join(place.rpartition("/")[2] for place in places) or NOTHING


CONSTRAINT_HEADINGS = ("Without", "At", ">Energy", ">Cycles", ">EDP", ">Cost")


def _proof_remarks(with_all: Value, clauses: Sequence[Value], untried: Sequence[str]) -> Iterator[str]:
    """Yield how far the costs are proven."""
    if with_all["value"].raw is None:
        yield "No mapping was found before the search was stopped."
        return
    if with_all["status"].text() != "OPTIMAL":
        yield (
            "The mapping with all constraints is not proven optimal: costs are derived from bounds, not from "
            "the best mappings found."
        )
    elif not all(clause["proven"].flag() for clause in clauses):
        yield "Where a search was stopped, its bound limits the cost."
    if any(map(_open_besides, clauses)):
        yield "Figures that are not proven are those of the best mapping found; the optimum may be lower."
    if untried:
        yield f"Interrupted: {counted(len(untried), 'constraint')} not examined: {'; '.join(untried)}."


def constraint_cost_text(clause: Value, names_objective: bool) -> str:
    """Return the proven range of a constraint's cost, and the objectives that are not proven."""
    least, most = clause["least"].number(), clause["most"]
    text = _proven_range(least, None if most.raw is None else most.number())
    text += f" of {clause['objective'].text()}" if names_objective and text not in (FREE, OPEN) else ""
    besides = _open_besides(clause)
    return f"{text}; {' and '.join(besides)} not proven" if besides else text


def _open_besides(clause: Value) -> list[str]:
    """Return the objectives with unproven figures, except the one that the cost is a range of."""
    if clause["most"].raw is None and not clause["least"].number():
        return []
    is_proven, own = clause["proven"].flag(), clause["objective"].text()
    return [name for name in clause["unproven"].texts() if is_proven or name != own]


def _proven_range(least: float, most: float | None) -> str:
    """Return what is proven of a cost; exactly nothing does not read like what is rounded to it."""
    if most is None:
        return f"at least {percent(least)}" if least else OPEN
    if least == most:
        return percent(least) if least else FREE
    return f"{percent(least)} to {percent(most)}" if least else f"at most {percent(most).strip('<')}"
