"""The report of ``bound``: curves of least traffic, what shows them, and what decides."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from solver.report.curve_charts import bound_lines, bound_scene
from solver.report.einsum_page import ENDINGS
from solver.report.figures import NOTHING, bytes_text, count_text, counted, percent, seconds_text, significant
from solver.report.page import Cell, Fact, Figure, Page, Section, Table, joined
from solver.report.reading import Value

MOST_NAMED = 3
"""Layers that are named where they decide."""


def bound_page(document: Value) -> Page:
    """Return the report of ``bound``."""
    curves = document["curves"].entries()
    sections = [_overview(document)]
    for own in curves:
        sections += _curve_sections(own, len(curves) > 1)
    return Page(
        "Least traffic between memory and buffer",
        document["status"].text(),
        _curves_verdict(document),
        [fact for own in curves for fact in _curve_facts(own)] + [_factors_fact(document)],
        sections,
        notes=document["notes"].texts(),
    )


def _curves_verdict(document: Value) -> str:
    curves = document["curves"].entries()
    missing = sum(len(own["missing"].entries()) for own in curves)
    known = sum(len(own["layers"].entries()) for own in curves)
    done = f"{count_text(known)} of {counted(known + missing, 'layer')}" if missing else ""
    least = ""
    if len(curves) == 1 and known:
        own = curves[0]["minimum"]
        least = (
            f"least traffic {bytes_text(own['traffic_bytes'].number())}, "
            f"reached with a buffer of {bytes_text(own['capacity_bytes'].number())}"
        )
    ending = ENDINGS.get(document["termination"].text(), "")
    return joined((least, done, ending, seconds_text(document["seconds"].number())))


def _factors_fact(document: Value) -> Fact:
    factors = document["factors"].text()
    return "Factors of loops", factors, "divisors only" if factors == "perfect" else "remainders, too"


def _curve_facts(own: Value) -> Iterator[Fact]:
    layers = own["layers"].entries()
    if len(layers) == 1:
        layer = layers[0]
        shape = ", ".join(f"{dim}={size.count()}" for dim, size in layer["shape"].items() if size.count() > 1)
        yield own["name"].text(), layer["einsum"].text(), shape
        bits = ", ".join(f"{name}={size.count()}" for name, size in layer["bits"].items())
        yield "  bits of values", bits, f"words of {counted(layer['word_bits'].count(), 'bit')}"
    else:
        yield own["name"].text(), counted(len(layers), "layer"), "one after the other"
    yield "  multiply-accumulates", count_text(own["computes"].count()), ""


def _overview(document: Value) -> Section:
    """The picture of all curves."""
    return Section(
        "Least traffic by size of the buffer",
        figures=[Figure(partial(bound_scene, document))] if _has_steps(document) else (),
        chart=partial(bound_lines, document) if _has_steps(document) else None,
    )


def _has_steps(document: Value) -> bool:
    return any(own["layers"].entries() for own in document["curves"].entries())


def _curve_sections(own: Value, is_named: bool) -> Iterator[Section]:
    """Yield what is said of one input."""
    name = f" of {own['name'].text()}" if is_named else ""
    layers = own["layers"].entries()
    if layers:
        table = _points_table(own) if len(layers) == 1 else _capacities_table(own)
        yield Section(f"At some sizes{name}", tables=[table], remarks=[*_answers(own)])
    if own["fused"]:
        tables = [_fused_table(own["fused"])] if own["fused"]["points"].entries() else []
        restrictions = own["fused"]["restrictions"].texts()
        remarks = [f"Searched: {'; '.join(restrictions)}."] if restrictions else []
        remarks += [] if tables else ["The search stopped before it covered any buffer size."]
        yield Section(f"Fused{name}", tables=tables, remarks=remarks)
    if len(layers) > 1:
        yield Section(f"Layers{name}", tables=[_traffic_table(own)])
    if own["missing"]:
        rows = [[each["name"].text(), each["reason"].text()] for each in own["missing"].entries()]
        yield Section(f"Layers without a curve{name}", tables=[Table("", ("Layer", "...Why"), rows)])


def _point_cells(at: Value, own: Value) -> list[Cell]:
    """Buffer, what tiles take of it, traffic, and computes per byte."""
    capacity, taken, traffic = (
        at[key].number() for key in ("capacity_bytes", "taken_bytes", "traffic_bytes")
    )
    intensity = own["computes"].number() / traffic
    sizes: list[Cell] = [
        (bytes_text(capacity), capacity),
        (bytes_text(taken, capacity), taken),
        (bytes_text(traffic), traffic),
    ]
    return [*sizes, (significant(intensity), intensity)]


HEADINGS = (">Buffer", ">Used", ">Traffic", ">MAC/byte")


def _points_table(own: Value) -> Table:
    """Return a row per shown capacity of a single layer, with the mapping."""
    rows: list[list[Cell]] = []
    for at in own["at"].entries():
        point = at["point"]
        traffic = point["traffic_words"].count()
        tile = " ".join(f"{dim}{size.count()}" for dim, size in point["tile"].items())
        loops = " ".join(
            f"{dim.text()}{bound.count()}"
            for dim, bound in (own.entries() for own in point["loops"].entries())
        )
        kept = ", ".join(point["keep"].texts())
        words: Cell = (count_text(traffic), traffic)
        rows.append([*_point_cells(at, own), words, tile or NOTHING, loops or NOTHING, kept or NOTHING])
    headings = (*HEADINGS, ">Words", "...Tile", "...Loops, outermost first", "Kept")
    return Table("", headings, rows, ("Words",))


def _capacities_table(own: Value) -> Table:
    """Return a row per shown capacity of several layers, with those that decide."""
    rows: list[list[Cell]] = []
    for at in own["at"].entries():
        most = at["layers"].entries()[:MOST_NAMED]
        named = (f"{each['name'].text()} {percent(each['share'].number())}" for each in most)
        rows.append([*_point_cells(at, own), ", ".join(named)])
    return Table("", (*HEADINGS, "...Most of it"), rows)


def _answers(own: Value) -> Iterator[str]:
    """Yield the least buffers for traffics asked for, and what a machine's balance asks for."""
    for each in own["within"].entries():
        traffic = bytes_text(each["traffic_bytes"].number())
        if each["capacity_bytes"].raw is None:
            yield f"No buffer reduces the traffic to {traffic}."
        else:
            room = _exact_size(each["capacity_bytes"].number())
            yield f"Traffic of at most {traffic} needs a buffer of {room}."
    roofline = own["roofline"]
    if not roofline:
        return
    balance = f"At {significant(roofline['macs_per_byte'].number())} MAC/byte"
    if roofline["capacity_bytes"].raw is not None:
        room = _exact_size(roofline["capacity_bytes"].number())
        yield f"{balance}, a buffer of at least {room} makes it compute-bound."
        return
    layers = len(own["layers"].entries())
    never = roofline["never"].count()
    what = "limited by bandwidth with any buffer"
    yield f"{balance}, it is {what}." if layers == 1 else f"{balance}, {never} of {layers} layers are {what}."


def _exact_size(size: float) -> str:
    return f"{bytes_text(size)} ({size:,} bytes)"


def _traffic_table(own: Value) -> Table:
    """Return a row per layer: its least traffic, and the buffer that this takes."""
    rows: list[list[Cell]] = []
    is_rated = bool(own["roofline"])
    for layer in own["layers"].entries():
        least = layer["minimum"]
        sizes = [least[key].number() for key in ("traffic_bytes", "capacity_bytes")]
        row: list[Cell] = [
            layer["name"].text(),
            count_text(layer["n_instances"].count()),
            *((bytes_text(size), size) for size in sizes),
        ]
        if is_rated:
            room = layer["compute_bound_bytes"]
            row.append("never" if room.raw is None else (bytes_text(room.number()), room.number()))
        rows.append([*row, layer["same_as"].text()])
    rated = (">Compute-bound from",) if is_rated else ()
    headings = ("Layer", ">Runs", ">Least traffic", ">From buffer", *rated, "Same as")
    return Table("", headings, rows, ("Same as",))


def _fused_table(fused: Value) -> Table:
    """Return a row per capacity: the fused cascade beside its Einsums alone."""
    rows: list[list[Cell]] = []
    for point in fused["points"].entries():
        alone, value, room = point["unfused_bytes"], point["traffic_bytes"], point["room_bytes"]
        saves = None not in (value.raw, alone.raw) and value.number() < alone.number()
        saved = percent(1 - value.number() / alone.number()) if saves else NOTHING
        gap = "" if not point["gap"].raw else f"gap {percent(point['gap'].number())}"
        rows.append(
            [
                _size_cell(point["capacity_bytes"]),
                _size_cell(room, point["capacity_bytes"].number()),
                _size_cell(value),
                _size_cell(point["bound_bytes"]),
                ", ".join(filter(None, (point["status"].text(), gap))),
                _size_cell(alone),
                saved,
            ]
        )
    headings = (">Buffer", ">Used", ">Fused", ">Bound", "Status", ">Each alone", ">Saved")
    return Table("", headings, rows)


def _size_cell(value: Value, beside: float = 0) -> Cell:
    return NOTHING if value.raw is None else (bytes_text(value.number(), beside), value.number())
