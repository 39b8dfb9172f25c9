"""Charts of least traffic by capacity: as a picture, and in characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_lowercase

from solver.report.charts import ChartAxis, Curve, Mark, curves_scene
from solver.report.drawing import SERIES, Scene, series_ink
from solver.report.figures import bytes_text
from solver.report.reading import Value
from solver.report.text_chart import Stairs, chart_lines

LEAST_BYTES = 1 / 8
"""A bit: where a logarithmic axis of capacities may begin."""


def curves_title(document: Value) -> str:
    """Return what a document is about."""
    names = [own["name"].text() for own in document["curves"].entries()]
    return (
        f"Least traffic of {', '.join(names)}" if len(names) <= 3 else f"Least traffic of {len(names)} inputs"
    )


def _letters(document: Value) -> list[str]:
    """Return the letter of each curve in a chart of characters; none for a single one."""
    number = len(document["curves"].entries())
    return [ascii_lowercase[place % len(ascii_lowercase)] for place in range(number)] if number > 1 else [""]


def shown_range(document: Value) -> tuple[float, float]:
    """Return the least and the most capacity in bytes that are shown."""
    least, most = document["range_bytes"].entries()
    entries = document["curves"].entries()
    shown = [each for own in entries for each in (*own["steps"].entries(), *_fused_points(own))]
    shown += [at for own in entries for at in own["at"].entries() if at["asked"].flag()]
    known = [each["capacity_bytes"].number() for each in shown]
    low = least.number() if least.raw is not None else min(filter(None, known), default=LEAST_BYTES)
    high = most.number() if most.raw is not None else 2 * max(known, default=LEAST_BYTES)
    return max(low, LEAST_BYTES), max(high, 2 * low)


def _fused_points(own: Value) -> Sequence[Value]:
    return own["fused"]["points"].entries() if own["fused"] else []


def bound_lines(document: Value, width: int) -> Sequence[str]:
    """Return the curves in characters."""
    stairs = [Stairs(*_bytes_of_steps(own["steps"])) for own in document["curves"].entries()]
    lines = chart_lines(stairs, shown_range(document), bytes_text, width)
    names = [own["name"].text() for own in document["curves"].entries()]
    pairs = zip(_letters(document), names, strict=True)
    key = [f"{letter}: {name}" for letter, name in pairs if letter]
    return [*lines, "traffic (vertical) by buffer size (horizontal), logarithmic", *key] if lines else []


def _bytes_of_steps(steps: Value) -> tuple[list[float], list[float]]:
    entries = steps.entries()
    return [own["capacity_bytes"].number() for own in entries], [
        own["traffic_bytes"].number() for own in entries
    ]


def bound_scene(document: Value, width: float) -> Scene:
    """Return the curves, marks at capacities asked for and at the least traffic, and fused points."""
    ends = shown_range(document)
    entries = document["curves"].entries()
    curves = [
        curve for number, own in enumerate(entries) for curve in _curves(own, number, len(entries), ends)
    ]
    across = ChartAxis("buffer", True, bounds=ends, base=2, text=bytes_text)
    axes = across, ChartAxis("traffic", True, base=2, text=bytes_text)
    return curves_scene(curves_title(document), curves, *axes, width)


def _curves(own: Value, number: int, count: int, ends: tuple[float, float]) -> Iterator[Curve]:
    """Yield what shows one of so many inputs; dashes tell apart those that share a colour."""
    name, ink = own["name"].text(), series_ink(number)
    is_dashed = number // SERIES % 2 == 1
    stairs = Stairs(*_bytes_of_steps(own["steps"]))
    marks = [
        Mark(place, figure)
        for place, figure in zip(stairs.places, stairs.figures, strict=True)
        if ends[0] <= place <= ends[1]
    ]
    outer = [Mark(end, figure) for end in ends if (figure := stairs.at(end)) is not None]
    yield Curve(name, ink, [*outer[:1], *marks, *outer[1:]], "steps", is_dashed, has_dots=False)
    least = own["minimum"]
    if not least:
        return
    known = [("least", least["capacity_bytes"], least["traffic_bytes"])]
    known += [
        ("", at["capacity_bytes"], at["traffic_bytes"]) for at in own["at"].entries() if at["asked"].flag()
    ]
    yield Curve(name, ink, [_point_mark(*each) for each in known if ends[0] <= each[1].number() <= ends[1]])
    points = [point for point in _fused_points(own) if point["traffic_bytes"].raw is not None]
    fused = [mark for mark in map(_fused_mark, points) if ends[0] <= mark.x <= ends[1]]
    if fused:
        yield Curve(f"{name}, fused", series_ink(count + number), fused, "steps", is_dashed=True)


def _point_mark(what: str, capacity: Value, traffic: Value) -> Mark:
    x, y = capacity.number(), traffic.number()
    return Mark(x, y, f"{bytes_text(x)}: {bytes_text(y)}", label=f"{what} {bytes_text(y)}".strip())


def _fused_mark(point: Value) -> Mark:
    x, y = point["capacity_bytes"].number(), point["traffic_bytes"].number()
    is_proven = point["status"].text() == "OPTIMAL"
    note = f"{bytes_text(x)}: {bytes_text(y)}{'' if is_proven else ', not proven'}"
    return Mark(x, y, note, is_hollow=not is_proven)
