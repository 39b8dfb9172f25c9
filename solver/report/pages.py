"""Reports of JSON documents: which page each kind has; fronts, comparisons and assignments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial

from model.objective import LAYERS, METHODS, TOTAL
from solver.report.charts import MOST_BARS, Bar, Segment, bars_scene, first_of
from solver.report.curves_page import bound_page
from solver.report.difference import difference_page
from solver.report.drawing import Ink
from solver.report.einsum_page import (
    ENDINGS,
    explanation_page,
    mapping_page,
    outcome_text,
    work_section,
    work_text,
)
from solver.report.figures import NOTHING, cost_text, count_text, counted, energy_text, percent, seconds_text
from solver.report.fused_page import fused_page, fused_result_page
from solver.report.html import fragment_text, page_text
from solver.report.network_page import common_page, network_page, sweep_page
from solver.report.page import (
    BOTH,
    DETAIL,
    PAGE,
    SI_UNITS,
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
    joined,
    si_cells,
    si_facts,
    totals_section,
)
from solver.report.plots import LEAST_EDP, convergence_scene, density_scene, front_scene, least_edp, traces
from solver.report.reading import DocumentError, Value, optional, value_text
from solver.report.sparse_page import against_text, sparse_page


def report_html(document: Value) -> str:
    """Return the report of a result as an HTML page.

    Parameters
    ----------
    document
        What ``--json`` writes, of any command but ``tile``.

    Returns
    -------
    str
        A page that needs no other file and no network. Names from specs stand in it as text.

    Raises
    ------
    DocumentError
        If a value is missing or is not what it should be; the message says where.
    """
    return page_text(page_of(document), document)


def report_fragment(document: Value) -> str:
    """Return the report of a result as a fragment of HTML without a script, for a notebook."""
    return fragment_text(page_of(document), document)


def page_of(document: Value) -> Page:
    """Return the report of a document; raise `DocumentError` if there is none of its kind."""
    kind = document["kind"].text()
    if kind not in PAGES:
        raise DocumentError(f"kind: there is no report of {kind!r}, only of {', '.join(PAGES)}")
    return PAGES[kind](document)


def front_page(document: Value) -> Page:
    """Return the report of ``map --pareto``."""
    points, status, name = document["points"].entries(), document["status"].text(), document["problem"].text()
    is_complete = status == "OPTIMAL"
    unproven = sum(not point["proven"].flag() for point in points)
    found = f"{'the complete front, ' if is_complete else ''}{counted(len(points), 'point')}"
    found += f", {unproven} of them not proven" if unproven else ""
    if status == "INFEASIBLE":
        found = "no mapping satisfies all constraints"
    title = f"Energy-latency front{f' of {name}' if name else ''}"
    return Page(
        title,
        status,
        joined((found, ENDINGS.get(document["termination"].text(), ""), work_text(document))),
        [counting_fact(document)],
        (
            Section(
                title,
                figures=[Figure(partial(front_scene, document))] if points else (),
                tables=[_points_table(document)] if points else (),
                remarks=[f"open: {_open_range_text(each)}" for each in document["open"].entries()],
            ),
            work_section(document),
        ),
        notes=document["notes"].texts(),
        conflicts=conflicts_of(document),
    )


def _points_table(document: Value) -> Table:
    """Return a row per point, by rising cycles, with the distances from both ends of what is listed."""
    points, best = document["points"].entries(), least_edp(document)
    fastest, thriftiest = points[0]["cycles"].count(), points[-1]["energy"].count()
    is_timed = all(point.get("power_w").raw is not None for point in points)
    rows: list[Sequence[Cell]] = []
    for point in points:
        marks = [
            "proven" if point["proven"].flag() else "not proven",
            *([LEAST_EDP] if point == best else []),
        ]
        energy, cycles, edp = cost_cells(point)
        rows.append(
            (
                cycles,
                _excess(point["cycles"].count(), fastest),
                energy,
                _excess(point["energy"].count(), thriftiest),
                edp,
                *(si_cells(point) if is_timed else ()),
                percent(point["utilization"].number()),
                ", ".join(marks),
            )
        )
    costs = (">Cycles", ">vs. fastest", ">Energy", ">vs. least", ">EDP (pJ*cycles)")
    headings = (*costs, *(f">{unit}" for unit in SI_UNITS if is_timed), ">Utilization", "")
    return Table("Points", headings, rows, (*SI_UNITS, "EDP (pJ*cycles)", "Utilization"))


def _excess(value: int, least: int) -> str:
    """Return by how much `value` is above `least`."""
    if value == least:
        return "least"
    return f"+{percent((value - least) / least)}" if least else NOTHING


def _open_range_text(open_range: Value) -> str:
    """Return in words where points may be missing."""
    least, most = count_text(open_range["least_cycles"].count()), open_range["most_cycles"]
    cycles = (
        f"{least} cycles and more" if most.raw is None else f"{least} to {count_text(most.count())} cycles"
    )
    return f"{cycles}, where no mapping takes less than {energy_text(open_range['least_energy_pj'].number())}"


def density_page(document: Value) -> Page:
    """Return the report of ``sweep --density``: a row per combination of densities."""
    points = document["points"].entries()
    names = [name for name, _ in points[0]["shares"].items()] if points else []
    statuses = {point["status"].text() for point in points}
    order = ("INFEASIBLE", "UNKNOWN", "FEASIBLE")
    rows: list[Sequence[Cell]] = [
        (
            *(f"{share.number():g}" for _, share in point["shares"].items()),
            point["status"].text(),
            *cost_cells(point),
            against_text(point) or NOTHING,
        )
        for point in points
    ]
    headings = (
        *(f">{name}" for name in names),
        "Status",
        ">Energy",
        ">Cycles",
        ">EDP",
        ">Mapping of dense data",
    )
    return Page(
        f"Densities of {document['problem'].text() or 'an Einsum'}",
        next((status for status in order if status in statuses), "OPTIMAL"),
        counted(len(points), "point"),
        (),
        [
            Section(
                "Densities",
                figures=[Figure(partial(density_scene, document))] if points else (),
                tables=[Table("Points", headings, rows)],
            )
        ],
        notes=list(dict.fromkeys(note for point in points for note in point["notes"].texts())),
    )


def comparison_page(document: Value) -> Page:
    """Return the report of ``compare``: how close each mapper came to the optimum, and when."""
    is_proven = document["proven"].flag()
    ratios = [
        Bar(name, [Segment(max(0.0, ratio - 1), "s0", "")], f"{100 * (ratio - 1):+.2f} %")
        for name, ratio in (
            (each["name"].text(), optional(each["ratio"])) for each in document["mappers"].entries()
        )
        if ratio is not None
    ]
    budget = optional(document["budget"]["seconds"])
    work = counted(document["evaluations"].count(), "mapping") + " evaluated"
    ending = ENDINGS.get(document["termination"].text(), "")
    notes = document["notes"].texts()
    if document["bound"].raw is not None and not is_proven:
        notes.append("the optimum is not proven; ratios and times refer to its bound")
    return Page(
        f"Mappers on {document['case'].text()}",
        document["status"].text(),
        joined((outcome_text(document), ending, f"{work}, {seconds_text(document['seconds'].number())}")),
        [
            ("Budget of each mapper", "no limit" if budget is None else seconds_text(budget), ""),
            counting_fact(document),
            *si_facts(document),
        ],
        (
            _mappers_section(document),
            Section(
                "Convergence",
                "The best value of each mapper over time; the dashed line is the optimum, or its bound.",
                [Figure(partial(convergence_scene, document))] if traces(document) else (),
                where=PAGE,
            ),
            Section(
                "Distance from the optimum" if is_proven else "Distance from the bound",
                figures=[Figure(partial(bars_scene, "Share by which the value is above it", ratios))]
                if ratios
                else (),
                where=PAGE,
            ),
        ),
        notes=notes,
        conflicts=conflicts_of(document),
    )


def _mappers_section(document: Value) -> Section:
    """Return a row per mapper, the exact search first, and what mappers say."""
    mappers = document["mappers"].entries()
    remarks = [
        f"{each['name'].text()}: {each[key].text()}"
        for each in mappers
        for key in ("behind", "remark")
        if each[key]
    ]
    if document["left_out"]:
        remarks.append(f"interrupted before {', '.join(document['left_out'].texts())}")
    text = "The last columns show when a mapper first came within this distance of the reference."
    return Section("Mappers", text, tables=[mappers_table(document)], remarks=remarks)


def mappers_table(document: Value) -> Table:
    """Return a row per mapper of a comparison, the exact search first.

    Ratios are to the optimum, or to its bound if it is not proven; times are those to come so close to it.
    """
    distances = [distance for distance, _ in document["first_within"].items()]
    figures = (f">{document['objective'].text()}", ">Ratio", ">Time", ">Evaluations", ">Valid")
    headings = ("Mapper", *figures, *(f">{distance} %" for distance in distances))
    units = document["units"].text()
    runs = [
        ("tilewright", document),
        *((each["name"].text(), each) for each in document["mappers"].entries()),
    ]
    rows = [_mapper_row(name, run, units, distances) for name, run in runs]
    return Table("Mappers", headings, rows, ("Evaluations", "Valid"))


def _mapper_row(name: str, run: Value, units: str, distances: Sequence[str]) -> Sequence[Cell]:
    value, ratio, seconds = run["value"], optional(run["ratio"]), run["seconds"].number()
    evaluations, valid = run["evaluations"].count(), optional(run.get("valid"))
    return (
        name,
        (value_text(value, units), value.number()) if value.raw is not None else NOTHING,
        NOTHING if ratio is None else (f"{ratio:.4f}", ratio),
        (seconds_text(seconds), seconds),
        count_cell(evaluations),
        NOTHING if valid is None or not evaluations else percent(valid / evaluations),
        *(
            NOTHING if within is None else (seconds_text(within), within)
            for within in (optional(run["first_within"][distance]) for distance in distances)
        ),
    )


RULES_TEXT = {
    "split": ("edge", "split into costs of the two layers"),
    "R0": ("layer", "without a neighbour"),
    "RI": ("layer", "folded into one neighbour"),
    "RII": ("layer", "folded into the edge between two neighbours"),
    "bucket": ("layer", "folded into a table over three or more neighbours"),
}
"""What each of `solver.assignment.result.RULES` is applied to, and what it does."""

SHORT_DECOMPOSITION = 12
"""Steps up to which a decomposition is always printed in full."""

CRITERIA_TEXT = {
    TOTAL: "lowest total of the assignment",
    LAYERS: "lowest sum of the layers' cheapest methods",
    METHODS: "lowest sum over all methods of all layers",
}


def assignment_page(document: Value) -> Page:
    """Return the report of ``assign``: the method of each layer, and what it costs."""
    unit, name, layers = document["unit"].text(), document["network"].text(), document["layers"].entries()
    bars = list(map(_layer_bar, layers[:MOST_BARS]))
    key: list[tuple[str, Ink]] = [("execution", "s0"), ("transition", "s1")]
    drawn = Figure(lambda width: bars_scene("Costs by layer", bars, width, key), first_of(layers))
    facts = _assigned_facts(document)
    notes = document["notes"].texts()
    if document["array"]:
        array = document["array"]
        tried = (
            f"{counted(array['arrays'].count(), 'array')}, {counted(array['assigned'].count(), 'assignment')}"
        )
        criterion = CRITERIA_TEXT.get(array["criterion"].text(), "")
        notes.append(f"array chosen by the {criterion}: {tried} solved")
    return Page(
        f"Assignment of {name or 'a network'}",
        document["status"].text(),
        joined(_assigned_parts(document)),
        facts,
        (
            _methods_section(document),
            Section(
                f"Assignment{f' of {name}' if name else ''}",
                f"Costs are in {unit}.",
                [drawn] if bars else (),
                [_methods_table(document)] if layers else (),
            ),
            totals_section(facts) if facts else Section(""),
            _policies_section(document),
            *_decomposition_sections(document),
        ),
        notes=notes,
        conflicts=conflicts_of(document),
    )


PROOFS = {"exact": "", "checked": "the bound was checked in integers"}
"""What is said of proofs that rest on no library; a proof of another name is a library's."""


def _assigned_parts(document: Value) -> Iterator[str]:
    unit = document["unit"].text()
    if document["status"].text() == "INFEASIBLE":
        yield "no assignment is allowed"
    else:
        parts = (
            [f"total {_cost_or_nothing(document['total'])} {unit}"]
            if document["total"].raw is not None
            else []
        )
        parts.append(f"bound {_cost_or_nothing(document['bound'])} {unit}")
        parts += [f"gap {percent(document['gap'].number())}"] if document["gap"].raw is not None else []
        yield ", ".join(parts)
    yield ENDINGS.get(document["termination"].text(), "")
    yield f"by {document['method_used'].text()}, {seconds_text(document['seconds'].number())}"
    proof = document["proof"].text() if document["proof"].raw is not None else ""
    yield PROOFS.get(proof, f"the proof relies on {proof}" if proof else "")


def _assigned_facts(document: Value) -> list[Fact]:
    """Return the total with its parts, and the runner-up with its margin."""
    total = optional(document["total"])
    if total is None:
        return []
    facts = [("Total", _cost_or_nothing(document["total"]), "")]
    for name in ("execution", "transition"):
        share = f"{percent(document[name].number() / total)} of the total" if total else ""
        facts.append((f"  {name}", _cost_or_nothing(document[name]), share))
    usage = document["usage"]
    if usage:
        limit = count_text(usage["limit"].count())
        facts.append(("Peak usage", count_text(usage["peak"].count()), f"of {limit} that fit"))
    elif document["runner_up"]:
        facts.append(("Runner-up", _cost_or_nothing(document["runner_up"]["total"]), _margin_text(document)))
    elif document["status"].text() == "OPTIMAL":
        facts.append(("Runner-up", NOTHING, "no other assignment is allowed"))
    return facts


def _margin_text(document: Value) -> str:
    if document["margin"].raw is None:
        return "not proven to be the second best"
    if document["margin"].number() == 0:
        return "equally good: the best assignment is not unique"
    return f"margin {_cost_or_nothing(document['margin'])}"


def _cost_or_nothing(value: Value) -> str:
    return NOTHING if value.raw is None else cost_text(Fraction(value.number()))


def _cost_cell(value: Value) -> Cell:
    return NOTHING if value.raw is None else (_cost_or_nothing(value), value.number())


def _layer_bar(layer: Value) -> Bar:
    execution, transition = layer["execution"].number(), layer["transition"].number()
    segments = [Segment(execution, "s0", "execution"), Segment(transition, "s1", "transition")]
    whole = cost_text(Fraction(execution + transition))
    return Bar(f"{layer['name'].text()}: {layer['method'].text()}", segments, whole)


def _methods_table(document: Value) -> Table:
    """Return a row per layer: method, costs, and its best other method or the second-best assignment's."""
    layers = document["layers"].entries()
    is_margin_known = any(layer["alternative"] for layer in layers)
    rows: list[Sequence[Cell]] = []
    for layer in layers:
        method, other = layer["method"].text(), layer["runner_up"].text()
        ends: tuple[Cell, ...] = (NOTHING if other in ("", method) else other,)
        if is_margin_known:
            best = layer["alternative"]
            ends = (best["method"].text(), _cost_cell(best["margin"])) if best else (NOTHING, NOTHING)
        rows.append((layer["name"].text(), method, *(_cost_cell(layer[key]) for key in PARTS), *ends))
    margin = (">Margin",) if is_margin_known else ()
    runner_up = "a layer's best other method; its margin is how much it raises the total"
    if not is_margin_known:
        runner_up = "the method of a layer in the second-best assignment, where it differs"
    return Table(
        f"Runner-up: {runner_up}",
        ("Layer", "Method", ">Execution", ">Transition", "Runner-up", *margin),
        rows,
    )


PARTS = ("execution", "transition")


def _methods_section(document: Value) -> Section:
    """Return the cost of each method for each layer, if the mapper found it."""
    costs = document.get("costs")
    if not costs:
        return Section("Methods")
    methods = list(dict.fromkeys(method for _, own in costs.items() for method, _ in own.items()))
    rows = [(name, *(_method_cell(own.get(method)) for method in methods)) for name, own in costs.items()]
    unproven = document["unproven"].count()
    ended = f"{counted(unproven, 'search', 'searches')} ended without a proof (*) or without any mapping (?)"
    return Section(
        "Methods",
        f"Optima of the mapper, in {document['unit'].text()}.",
        tables=[Table("", ("Layer", *(f">{method}" for method in methods)), rows)],
        remarks=[ended] if unproven else (),
    )


def _method_cell(cost: Value) -> str:
    if cost.raw is None:
        return NOTHING
    if cost["status"].text() == "INFEASIBLE":
        return "no mapping"
    if cost["value"].raw is None:
        return "?"
    return _cost_or_nothing(cost["value"]) + ("" if cost["status"].text() == "OPTIMAL" else " *")


def _policies_section(document: Value) -> Section:
    """Return the costs of naive rules, compared with the assignment."""
    policies, total = document["policies"].entries(), optional(document["total"])
    rows: list[Sequence[Cell]] = []
    bars = (
        []
        if total is None
        else [Bar("this assignment", [Segment(total, "s2", "")], _cost_or_nothing(document["total"]))]
    )
    layers = len(document["layers"].entries())
    for policy in policies:
        own, is_known = optional(policy["total"]), policy["known"].flag()
        text = "forbidden" if own is None else _cost_or_nothing(policy["total"])
        text = text if is_known else "?" if own is None else f"{text} ?"
        more = percent((own - total) / total) if own is not None and total else NOTHING
        followed = count_text(policy["layers_followed"].count()) + (
            f"/{count_text(layers)}" if layers else ""
        )
        rows.append((policy["name"].text(), text, more, followed))
        bars += [] if own is None else [Bar(policy["name"].text(), [Segment(own, "s0", "")], text)]
    headings = ("Rule", ">Total", ">vs. assignment", ">Layers")
    return Section(
        "Naive rules",
        figures=[Figure(partial(bars_scene, "Totals of naive rules", bars))] if policies else (),
        tables=[Table("", headings, rows)] if policies else (),
        remarks=list(_gain_texts(document)),
    )


def _gain_texts(document: Value) -> Iterator[str]:
    """Yield how much the assignment saves against the best single dataflow and the best single method."""
    hedge = ", by the mappings found" if document.get("unproven").raw else ""
    gains = document.get("gain")
    for kind, gain in gains.items() if gains else ():
        if gain:
            total = f"{_cost_or_nothing(gain['total'])} {document['unit'].text()}"
            other = f"the best single {kind}, {gain['name'].text()} ({total})"
            yield f"Gain {percent(gain['share'].number())} over {other}{hedge}"


def _decomposition_sections(document: Value) -> Iterator[Section]:
    """Yield how the network was taken apart, and every step."""
    decomposition = document["decomposition"]
    lines = [decomposition["structure"].text()]
    for rule, (what, done) in RULES_TEXT.items():
        if count := decomposition["rules"][rule].count():
            lines.append(f"  {rule:6} {counted(count, what)} {done}")
    kernels = [
        f"  left to search: {', '.join(kernel.texts())}" for kernel in decomposition["kernels"].entries()
    ]
    yield Section("Decomposition", lines=[*lines, *kernels])
    steps = decomposition["steps"].entries()
    where = BOTH if len(steps) <= SHORT_DECOMPOSITION else DETAIL
    yield Section("Steps of the decomposition", lines=_elimination_lines(document), where=where)


def _elimination_lines(document: Value) -> list[str]:
    steps = [step.texts() for step in document["decomposition"]["steps"].entries()]
    lines = []
    for rule, layer, *others in steps:
        word = "from" if rule == "split" else "into"
        lines.append(f"  {rule:6} {layer}" + (f" {word} {', '.join(others)}" if others else ""))
    return lines


PAGES: Mapping[str, Callable[[Value], Page]] = {
    "map": mapping_page,
    "evaluate": mapping_page,
    "evaluate-sparse": sparse_page,
    "map-sparse": sparse_page,
    "evaluate-fused": fused_page,
    "network-fused": fused_result_page,
    "pareto": front_page,
    "explain": explanation_page,
    "network": network_page,
    "network-same": common_page,
    "sweep": sweep_page,
    "sweep-sparse": density_page,
    "compare": comparison_page,
    "assign": assignment_page,
    "bound": bound_page,
    "difference": difference_page,
}
