"""Reports as HTML pages, made from the JSON documents of results; those of many Einsums or searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial

from model.objective import UNITS
from solver.report.charts import (
    ARITHMETIC,
    COPY,
    MOST_BARS,
    Bar,
    Segment,
    bars_scene,
    energies_scene,
    first_of,
)
from solver.report.drawing import Ink, Scene
from solver.report.einsum_page import (
    check_facts,
    cost_facts,
    explanation_page,
    front_page,
    mapping_page,
    sparse_page,
    violation_sections,
)
from solver.report.figures import (
    NOTHING,
    cost_text,
    count_text,
    counted,
    energy_text,
    percent,
    seconds_text,
    significant,
)
from solver.report.fused_page import fused_page, fused_result_page
from solver.report.html import (
    Cell,
    Figure,
    Page,
    Section,
    Table,
    fragment_text,
    notes_section,
    page_text,
    reason_sections,
    run_section,
)
from solver.report.plots import convergence_scene, sweep_scenes, traces
from solver.report.reading import DocumentError, Value, optional, value_text


def report_html(document: Value) -> str:
    """Return the report of a result as an HTML page.

    Parameters
    ----------
    document
        What ``--json`` writes, of ``map``, ``evaluate``, ``network``, ``sweep``, ``compare``, ``explain`` or
        ``assign``.

    Returns
    -------
    str
        A page that needs no other file and no network. Names from specs stand in it as text.

    Raises
    ------
    DocumentError
        If a value is missing or is not what it should be; the message says where.
    """
    return page_text(page_of(document), document.get("version").text())


def report_fragment(document: Value) -> str:
    """Return the same for a notebook: a fragment without a script."""
    return fragment_text(page_of(document))


def page_of(document: Value) -> Page:
    """Return what the report of a document says; `DocumentError` if there is none of its kind."""
    kind = document["kind"].text()
    if kind not in PAGES:
        raise DocumentError(f"kind: there is no report of {kind!r}, only of {', '.join(PAGES)}")
    return PAGES[kind](document)


def network_page(document: Value) -> Page:
    """Return the report of ``network``: a row per Einsum, where the energy goes, totals."""
    sections = [*_network_sections(document)]
    proven, einsums = document["proven"].count(), document["einsums"].count()
    seconds = seconds_text(document["seconds"].number())
    return Page(
        f"Network {document['network'].text()}",
        document["status"].text(),
        f"{count_text(proven)} of {counted(einsums, 'Einsum')} proven, in {seconds}.",
        (
            *cost_facts(document),
            ("Proven", f"{count_text(proven)} of {count_text(einsums)}"),
            *check_facts(document),
        ),
        (*sections, notes_section(document), run_section(document)),
    )


def _network_sections(document: Value) -> Iterator[Section]:
    """Yield what a network costs, Einsum by Einsum."""
    layers = document["layers"].entries()
    rows = [_layer_row(*pair) for pair in _with_results(layers)]
    headings = ("Einsum", "Shape", ">Runs", "Status", ">Value", ">Gap", ">Energy", ">Cycles", ">Utilization")
    parts = _energy_parts(layers)
    for layer in layers:
        yield from _layer_reasons(layer)
    yield Section(
        "Energy by Einsum",
        "All instances of each Einsum, by level.",
        [Figure(partial(energies_scene, "Energy by Einsum and level", parts), first_of(parts))]
        if parts
        else (),
    )
    yield Section(
        "Cycles by Einsum",
        figures=[Figure(partial(_cycles_scene, layers), first_of(layers))]
        if any(map(_cycles, layers))
        else (),
    )
    yield Section(
        "Einsums",
        "Energies and cycles of all runs, values of one; shapes leave out dimensions of 1.",
        tables=[Table("Einsums", (*headings, "Limited by", "From"), rows)],
    )


def common_page(document: Value) -> Page:
    """Return the report of ``network --same spatial``: the common loops, and what they cost each Einsum."""
    common, own = document["common"], document["own"]
    shown, objective = common or own, document["objective"].text()
    unit = UNITS[objective]
    loops: list[Sequence[Cell]] = [
        (
            loop["fanout"].text(),
            loop["axis"].text(),
            loop["dimension"].text(),
            count_text(loop["width"].count()),
        )
        for loop in document["spatial"].entries()
    ]
    facts = [
        (label, value_text(document[key], unit))
        for label, key in (("Common", "value"), ("Bound", "bound"), ("Own optima", "own_value"))
    ]
    price = optional(document["price"])
    told = (
        "No common spatial unrolling was found."
        if price is None
        else f"{percent(price)} more than own optima"
    )
    return Page(
        f"Network {document['network'].text()}, one spatial unrolling",
        document["status"].text(),
        f"{told}, by {objective}; in {seconds_text(document['seconds'].number())}.",
        facts,
        (
            Section(
                "Common spatial loops",
                tables=[Table("Loops", ("Fanout", "Axis", "Dimension", ">Width"), loops)],
            ),
            _prices_section(own, common, unit),
            *_network_sections(shown),
            notes_section(shown),
            run_section(document),
        ),
    )


def _prices_section(own: Value, common: Value, unit: str) -> Section:
    """Return what each Einsum costs alone, and under the common unrolling."""
    pairs = zip(
        *(_with_results(document["layers"].entries()) for document in (own, common or own)), strict=True
    )
    rows: list[Sequence[Cell]] = [
        (layer["name"].text(), *(value_text(result["value"], unit) for result in (alone, other)))
        for (layer, alone), (_, other) in pairs
        if alone and other
    ]
    headings = ("Einsum", ">Own optimum", ">Common")
    return Section(
        "Price by Einsum", "Values of one run.", tables=[Table("Prices", headings, rows)] if common else ()
    )


def _with_results(layers: Sequence[Value]) -> list[tuple[Value, Value]]:
    """Return the layers with their results, those of identical ones with that of the layer they repeat."""
    results = {layer["name"].text(): layer["result"] for layer in layers if layer["result"]}
    return [
        (layer, layer["result"] or results.get(layer["same_as"].text(), layer["result"])) for layer in layers
    ]


def _layer_reasons(layer: Value) -> Iterator[Section]:
    if layer["result"]:
        for section in reason_sections(layer["result"]["reasons"].entries()):
            yield Section(f"{layer['name'].text()}: {section.title}", section.text, tables=section.tables)
    if layer["transfer"]:
        yield from violation_sections(layer["transfer"])


def _layer_row(layer: Value, result: Value) -> Sequence[Cell]:
    shape = [(dim, bound.count()) for dim, bound in layer["shape"].items()]
    runs = layer["n_instances"].count()
    head = (
        layer["name"].text(),
        ", ".join(f"{dim} {bound}" for dim, bound in shape if bound > 1) or "1",
        (count_text(runs), runs),
        layer["status"].text(),
    )
    origin, same = layer["origin"].text(), layer["same_as"].text()
    ends = (layer["limited_by"].text() or NOTHING, f"= {same}" if same else origin)
    energy, cycles = _energy_pj(layer), _cycles(layer)
    value = gap = utilization = NOTHING
    if result:
        value = value_text(result["value"], result["units"].text())
        gap = percent(result["gap"].number()) if result["gap"].raw is not None else NOTHING
    if result and result["utilization"].raw is not None:
        utilization = percent(result["utilization"].number())
    spent: tuple[Cell, Cell] = (
        NOTHING if energy is None else (energy_text(energy), energy),
        NOTHING if cycles is None else (count_text(cycles), cycles),
    )
    return (*head, value, gap, *spent, utilization, *ends)


def _energy_pj(layer: Value) -> float | None:
    energy = layer["energy_pj"]
    return None if energy.raw is None else energy.number()


def _cycles(layer: Value) -> int | None:
    cycles = layer["cycles"]
    return None if cycles.raw is None else cycles.count()


def _energy_parts(layers: Sequence[Value]) -> list[tuple[str, list[tuple[str, float]]]]:
    """Return per Einsum the energy of each level and of the arithmetic, over all its runs."""
    found = []
    for layer, result in _with_results(layers):
        runs = layer["n_instances"].count()
        if result and result["levels"]:
            parts = [
                (level["name"].text(), level["energy_pj"].number() * runs)
                for level in result["levels"].entries()
            ]
            parts.append((ARITHMETIC, result["compute_energy_pj"].number() * runs))
            found.append((layer["name"].text(), parts))
        elif (energy := _energy_pj(layer)) is not None:
            found.append((layer["name"].text(), [(COPY, energy)]))
    return found


def _cycles_scene(layers: Sequence[Value], width: float) -> Scene:
    bars = []
    for layer in layers[:MOST_BARS]:
        cycles, limited = _cycles(layer), layer["limited_by"].text()
        if cycles is not None:
            ink = "work" if limited == ARITHMETIC else "s1"
            bars.append(Bar(layer["name"].text(), [Segment(cycles, ink, limited)], count_text(cycles)))
    key = [("limited by the arithmetic", "work"), ("limited by a memory, or a copy", "s1")]
    return bars_scene("Cycles by Einsum", bars, width, key)


def comparison_page(document: Value) -> Page:
    """Return the report of ``compare``: how close each mapper came to the optimum, and when."""
    units, objective = document["units"].text(), document["objective"].text()
    proven = document["proven"].flag()
    reference = "the proven optimum" if proven else "a bound: the optimum is not proven"
    ratios = list(_ratio_bars(document))
    return Page(
        f"Mappers on {document['case'].text()}",
        document["status"].text(),
        f"{objective} {value_text(document['value'], units)}; ratios are to {reference}.",
        (
            ("Value", value_text(document["value"], units)),
            ("Bound", value_text(document["bound"], units)),
            ("Time to the end of the search", seconds_text(document["seconds"].number())),
            ("Budget of each mapper", seconds_text(document["budget"]["seconds"].number())),
            ("Counting rule", document["counting"].text()),
        ),
        (
            *reason_sections(document["reasons"].entries()),
            Section(
                "Convergence",
                "The best value so far of each mapper; the dashed line is the optimum, or its bound.",
                [Figure(partial(convergence_scene, document))] if traces(document) else (),
            ),
            Section(
                "Ratio to the optimum" if proven else "Ratio to the bound",
                figures=[Figure(partial(bars_scene, "Value over the reference", ratios))] if ratios else (),
            ),
            *_mapper_sections(document),
            notes_section(document),
            run_section(document),
        ),
    )


def _ratio_bars(document: Value) -> Iterator[Bar]:
    for each in document["mappers"].entries():
        if each["ratio"].raw is not None:
            ratio = each["ratio"].number()
            yield Bar(each["name"].text(), [Segment(ratio, "s0", "")], f"{ratio:.4f}")


def _mapper_sections(document: Value) -> Iterator[Section]:
    units, mappers = document["units"].text(), document["mappers"].entries()
    distances = [distance for distance, _ in document["first_within"].items()]
    headings = ("Mapper", f">{document['objective'].text()}", ">Ratio", ">Time", ">Evaluations")
    rows = [
        _mapper_row("tilewright", document, units, distances),
        *(_mapper_row(each["name"].text(), each, units, distances) for each in mappers),
    ]
    table = Table("Mappers", (*headings, *(f">{distance} %" for distance in distances)), rows)
    yield Section(
        "Mappers", "The last columns: when a value first was so close to the reference.", (), [table]
    )
    remarks: list[Sequence[Cell]] = [
        (each["name"].text(), each["remark"].text()) for each in mappers if each["remark"]
    ]
    if remarks:
        yield Section("Remarks", tables=[Table("What mappers say", ("Mapper", "Remark"), remarks)])


def _mapper_row(name: str, run: Value, units: str, distances: Sequence[str]) -> Sequence[Cell]:
    value, ratio = run["value"], run.get("ratio")
    evaluations = run.get("evaluations")
    return (
        name,
        (value_text(value, units), value.number()) if value.raw is not None else NOTHING,
        f"{ratio.number():.4f}" if ratio.raw is not None else NOTHING,
        (seconds_text(run["seconds"].number()), run["seconds"].number()),
        NOTHING if evaluations.raw is None else (count_text(evaluations.count()), evaluations.count()),
        *(
            NOTHING if seconds.raw is None else (seconds_text(seconds.number()), seconds.number())
            for seconds in (run["first_within"][distance] for distance in distances)
        ),
    )


def sweep_page(document: Value) -> Page:
    """Return the report of ``sweep``: energy against cycles of all points, and a table of them."""
    points = document["points"].entries()
    attributes = list(dict.fromkeys(name for point in points for name, _ in point["attributes"].items()))
    headings = (
        *("Workload", "Architecture", *(f">{name}" for name in attributes), "Status"),
        *(">Energy", ">Cycles", ">EDP (pJ*cycles)", ">Area (mm2)", ">Proven", "Front"),
    )
    figures = [Figure(draw, workload) for workload, draw in sweep_scenes(document)]
    searches, seconds = document["searches"].count(), seconds_text(document["seconds"].number())
    failures = [failure for point in points for failure in point["infeasible"].entries()]
    return Page(
        f"Sweep over {counted(len(points), 'point')}",
        document["status"].text(),
        f"{counted(searches, 'search', 'searches')} in {seconds}.",
        (),
        (
            Section(
                "Energy against cycles and area",
                "A ring is a point that another one dominates in energy and cycles; discs are the front.",
                figures,
            ),
            Section(
                "Points", tables=[Table("Points", headings, [_point_row(p, attributes) for p in points])]
            ),
            *_failure_sections(failures),
            notes_section(document, "remarks", "notes"),
            run_section(document),
        ),
    )


def _failure_sections(failures: Sequence[Value]) -> Iterator[Section]:
    rows: list[Sequence[Cell]] = [
        (", ".join(failure["einsums"].texts()), reason["text"].text(), ", ".join(reason["sources"].texts()))
        for failure in failures
        for reason in failure["reasons"].entries()
    ]
    if rows:
        yield Section(
            "Why points have no mapping", tables=[Table("Conflicts", ("Einsums", "Conflict", "At"), rows)]
        )


def _point_row(point: Value, attributes: Sequence[str]) -> Sequence[Cell]:
    values = dict(point["attributes"].items())
    figures = [optional(point[key]) for key in ("energy_pj", "cycles", "edp_pj_cycles", "area_mm2")]
    writers: tuple[Callable[[float], str], ...] = (energy_text, _whole, significant, significant)
    return (
        point["workload"].text(),
        point["architecture"].text(),
        *(values[name].text() if name in values else NOTHING for name in attributes),
        point["status"].text(),
        *(
            NOTHING if number is None else (write(number), number)
            for number, write in zip(figures, writers, strict=True)
        ),
        f"{point['proven'].count()}/{point['einsums'].count()}",
        "*" if point["front"].flag() else "",
    )


def _whole(number: float) -> str:
    return count_text(int(number))


def assignment_page(document: Value) -> Page:
    """Return the report of ``assign``: the method of each layer, and what it costs."""
    unit, status = document["unit"].text(), document["status"].text()
    layers = document["layers"].entries()
    verdict = f"Total {_cost(document['total'], unit)}, bound {_cost(document['bound'], unit)}."
    if status == "INFEASIBLE":
        verdict = "No assignment is allowed. This is proven."
    costs, policies = list(map(_layer_bar, layers[:MOST_BARS])), list(_policy_bars(document))
    key: list[tuple[str, Ink]] = [("execution", "s0"), ("transition", "s1")]
    facts = [(name.capitalize(), _cost(document[name], unit)) for name in ASSIGNED_FIGURES]
    facts += [
        ("Solved by", document["method_used"].text()),
        ("Time", seconds_text(document["seconds"].number())),
    ]
    drawn = Figure(lambda width: bars_scene("Costs by layer", costs, width, key), first_of(layers))
    return Page(
        f"Assignment of {document['network'].text() or 'a network'}",
        status,
        verdict,
        facts,
        (
            *reason_sections(document["reasons"].entries()),
            Section("Costs by layer", f"In {unit}.", [drawn]) if costs else Section(""),
            Section(
                "Against naive rules",
                figures=[Figure(partial(bars_scene, "Totals of naive rules", policies))] if policies else (),
            ),
            _assigned_section(layers, unit),
            notes_section(document),
            run_section(document),
        ),
    )


ASSIGNED_FIGURES = ("total", "bound", "execution", "transition", "margin")


def _layer_bar(layer: Value) -> Bar:
    execution, transition = layer["execution"].number(), layer["transition"].number()
    segments = [Segment(execution, "s0", "execution"), Segment(transition, "s1", "transition")]
    return Bar(f"{layer['name'].text()}: {layer['method'].text()}", segments, _costs(execution + transition))


def _policy_bars(document: Value) -> Iterator[Bar]:
    """Yield the totals of naive rules, after that of the assignment."""
    policies = [each for each in document["policies"].entries() if each["total"].raw is not None]
    if policies and document["total"].raw is not None:
        total = document["total"].number()
        yield Bar("this assignment", [Segment(total, "s2", "")], _costs(total))
    for each in policies:
        total = each["total"].number()
        yield Bar(each["name"].text(), [Segment(total, "s0", "")], _costs(total))


def _assigned_section(layers: Sequence[Value], unit: str) -> Section:
    rows: list[Sequence[Cell]] = []
    for layer in layers:
        other, figures = layer["alternative"], [layer[key].number() for key in ("execution", "transition")]
        second = other["method"].text() if other else layer["runner_up"].text() or NOTHING
        margin = _costs(other["margin"].number()) if other else NOTHING
        costs = [(_costs(figure), figure) for figure in figures]
        rows.append((layer["name"].text(), layer["method"].text(), *costs, second, margin))
    headings = ("Layer", "Method", f">Execution ({unit})", f">Transition ({unit})", "Runner-up", ">Margin")
    return Section("Layers", tables=[Table("Layers", headings, rows)] if rows else ())


def _cost(value: Value, unit: str) -> str:
    return NOTHING if value.raw is None else f"{_costs(value.number())} {unit}"


def _costs(number: float) -> str:
    return cost_text(Fraction(number))


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
    "compare": comparison_page,
    "assign": assignment_page,
}
