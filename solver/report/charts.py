"""Charts: stacked bars, points and lines on two axes, and a timeline. Each fits the width it is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product

from solver.report.drawing import (
    SMALL,
    Box,
    Dot,
    Ink,
    Part,
    Point,
    Polyline,
    Scene,
    TextLine,
    fitted_label,
    legend,
    series_ink,
    text_width,
)
from solver.report.figures import count_text, energy_text, energy_unit

LABELS_BESIDE_FROM_PX = 520.0
"""Width from which the label of a bar stands beside it, and not above it."""

BAR_HEIGHT, BAR_GAP = 16.0, 9.0
LABEL_SHARE = 0.42
LONGEST_LABEL_PX = 120.0
TEXT_GAP_PX = 8.0
LEAST_VISIBLE_PX = 1.0
"""Pixels of a segment that is not zero."""

CHART_HEIGHT_PX = 300.0
RING_PX, MOST_RINGS = 2.5, 4
"""By how much a dot is larger than the one that lies on it, and how often."""

TICK_SPACE_PX = 16.0
LEAST_DRAWN, MOST_DRAWN = 1e-100, 1e100
MOST_DECADES = 7

LANE_HEIGHT_PX, LANE_GAP_PX, BREAK_PX = 40.0, 4.0, 9.0
LANE_NAMES_SHARE = 0.3
"""Share of a timeline's width that names of its lanes may take."""

MOST_BARS = 60
"""Bars of a chart; the table below has the others."""

Key = Sequence[tuple[str, Ink]]


@dataclass(frozen=True)
class Segment:
    """A part of a bar; `note` is shown on hovering."""

    value: float
    ink: Ink
    note: str


@dataclass(frozen=True)
class Bar:
    """A labelled bar with the text of its whole."""

    label: str
    segments: Sequence[Segment]
    text: str


def bars_scene(title: str, bars: Sequence[Bar], width: float, key: Key = (), most: float = 0.0) -> Scene:
    """Return bars below each other, on a scale from 0 to the longest one, or to `most` if that is more."""
    is_beside = width >= LABELS_BESIDE_FROM_PX
    longest = max([most, *(sum(segment.value for segment in bar.segments) for bar in bars)], default=0.0)
    texts = max((text_width(bar.text, SMALL) for bar in bars), default=0.0) + TEXT_GAP_PX
    names = max((text_width(bar.label, SMALL + 0.5) for bar in bars), default=0.0)
    names = min(names, width * LABEL_SHARE - TEXT_GAP_PX)
    left = names + TEXT_GAP_PX if is_beside else 0.0
    room = max(20.0, width - left - texts)
    entries = legend(key, width)
    parts: list[Part] = list(entries.parts)
    y = entries.height + (8 if key else 0)
    for bar in bars:
        name = TextLine(0, y + 12, bar.label, size=SMALL + 0.5)
        if not is_beside:
            parts.append(fitted_label(name, width))
            y += 17
        else:
            parts.append(fitted_label(name, names))
        parts.append(Box(left, y, room if most else 0, BAR_HEIGHT, "idle", radius=2))
        end = left
        for segment in bar.segments:
            length = room * segment.value / longest if longest else 0.0
            length = max(length, LEAST_VISIBLE_PX) if segment.value else 0.0
            parts.append(Box(end, y, length, BAR_HEIGHT, segment.ink, note=segment.note))
            end += length
        text = TextLine((left + room if most else end) + TEXT_GAP_PX, y + 12, bar.text, "muted", SMALL)
        parts.append(replace(text, x=min(text.x, width - texts + TEXT_GAP_PX)))
        y += BAR_HEIGHT + BAR_GAP
    described = "; ".join(f"{bar.label}: {bar.text}" for bar in bars)
    return Scene(width, max(1.0, y), title, tuple(parts), described)


COMPUTE, COPY = "compute", "copy"
FIXED_INKS: Mapping[str, Ink] = {COMPUTE: "work", COPY: "late"}


def energies_scene(title: str, parts: Sequence[tuple[str, list[tuple[str, float]]]], width: float) -> Scene:
    """Return a bar per Einsum, stacked by level; energies are in picojoules."""
    names = list(dict.fromkeys(name for _, energies in parts for name, _ in energies))
    levels = [name for name in names if name not in FIXED_INKS]
    inks = {name: series_ink(number) for number, name in enumerate(levels)}
    inks |= {name: ink for name, ink in FIXED_INKS.items() if name in names}
    most = max(sum(energy for _, energy in energies) for _, energies in parts)
    size, _ = energy_unit(most)
    bars = []
    for label, energies in parts[:MOST_BARS]:
        segments = [
            Segment(energy / size, inks[name], f"{label}, {name}: {energy_text(energy)}")
            for name, energy in energies
        ]
        bars.append(Bar(label, segments, energy_text(sum(energy for _, energy in energies))))
    return bars_scene(title, bars, width, list(inks.items()))


def first_of(shown: Sequence[object]) -> str:
    """Return a caption that says how many bars there are no room for, if any."""
    if len(shown) <= MOST_BARS:
        return ""
    return f"The first {MOST_BARS} of {count_text(len(shown))}; the table below shows all of them."


@dataclass(frozen=True)
class Mark:
    """A point of a chart; hollow if it is not proven."""

    x: float
    y: float
    note: str = ""
    is_hollow: bool = False
    label: str = ""


@dataclass(frozen=True)
class Curve:
    """Points of one colour; joined by a line, a staircase, or not at all."""

    name: str
    ink: Ink
    marks: Sequence[Mark]
    join: str = ""  # "line", "steps" or nothing
    is_dashed: bool = False
    has_dots: bool = True


@dataclass(frozen=True)
class ChartAxis:
    """The quantity on an axis; `text` formats its figures, and ticks of a logarithm are powers of `base`."""

    name: str
    is_log: bool = False
    from_zero: bool = False
    bounds: tuple[float, float] | None = field(default=None)
    base: int = 10
    text: Callable[[float], str] = field(default_factory=lambda: tick_text)


@dataclass(frozen=True)
class Band:
    """A range of the horizontal axis that is shaded, up to its end if it has no `most`."""

    name: str
    ink: Ink
    least: float
    most: float | None = None


def curves_scene(
    title: str,
    curves: Sequence[Curve],
    across: ChartAxis,
    up: ChartAxis,
    width: float,
    bands: Sequence[Band] = (),
) -> Scene:
    """Return points and lines on two axes, with a legend of the curves and bands that have names."""
    curves = [replace(curve, marks=list(filter(_is_drawable, curve.marks))) for curve in curves]
    marks = [mark for curve in curves for mark in curve.marks]
    if not marks:
        return Scene(width, 1, title)
    x_scale = _scale([mark.x for mark in marks], across)
    y_scale = _scale([mark.y for mark in marks], up)
    named = [*((curve.name, curve.ink) for curve in curves), *((band.name, band.ink) for band in bands)]
    dashed = {curve.name for curve in curves if curve.is_dashed}
    key = legend([(name, ink) for name, ink in dict.fromkeys(named) if name], width, dashed)
    ticks = [(value, up.text(value)) for value in y_scale.ticks]
    left = max((text_width(text, SMALL) for _, text in ticks), default=0.0) + 8
    frame = _PlotArea(
        left, key.height + 22, width - 10, key.height + 22 + CHART_HEIGHT_PX * min(1, width / 500)
    )
    parts: list[Part] = [*key.parts, TextLine(0, key.height + 13, up.name, "muted", SMALL)]
    for band in bands:
        left, right = (frame.across(x_scale.share(end)) for end in (band.least, band.most or x_scale.most))
        parts.append(Box(left, frame.top, right - left, frame.bottom - frame.top, band.ink, opacity=0.12))
    for value, text in ticks:
        y = frame.up(y_scale.share(value))
        parts.append(Polyline(((frame.left, y), (frame.right, y)), "idle"))
        parts.append(TextLine(frame.left - 5, y + 4, text, "muted", SMALL, "end"))
    parts += _ticks_across(frame, x_scale, across.text)
    drawn = [part for curve in curves for part in _curve_parts(curve, frame, x_scale, y_scale)]
    parts = _with_all_dots([*parts, *drawn])
    parts += _labels(curves, drawn, frame, x_scale, y_scale)
    parts.append(TextLine(frame.right, frame.bottom + 34, across.name, "muted", SMALL, "end"))
    described = f"{up.name} against {across.name}: {len(marks)} points"
    return Scene(width, frame.bottom + 40, title, tuple(parts), described)


def _with_all_dots(parts: Sequence[Part]) -> list[Part]:
    """Return parts with dots on top, filled ones above hollow ones; one that lies below others is larger."""
    dots = [part for part in parts if isinstance(part, Dot)]
    dots.sort(key=lambda dot: dot.fill != "page")
    grown = []
    for number, dot in enumerate(dots):
        above = sum(
            math.hypot(dot.x - other.x, dot.y - other.y) < dot.radius / 2 for other in dots[number + 1 :]
        )
        grown.append(replace(dot, radius=dot.radius + RING_PX * min(above, MOST_RINGS)))
    return [*(part for part in parts if not isinstance(part, Dot)), *grown]


def _is_drawable(mark: Mark) -> bool:
    """Whether the quotients of a scale can be computed; figures so far out are no results."""
    return all(value == 0 or LEAST_DRAWN < abs(value) < MOST_DRAWN for value in (mark.x, mark.y))


@dataclass(frozen=True)
class _PlotArea:
    left: float
    top: float
    right: float
    bottom: float

    def across(self, share: float) -> float:
        return self.left + share * (self.right - self.left)

    def up(self, share: float) -> float:
        return self.bottom - share * (self.bottom - self.top)


@dataclass(frozen=True)
class _Scale:
    least: float
    most: float
    is_log: bool
    base: int = 10

    def share(self, value: float) -> float:
        """Return the place of a value between the ends, from 0 to 1."""
        if self.is_log:
            value, least, most = map(math.log10, (value, self.least, self.most))
        else:
            least, most = self.least, self.most
        return min(1.0, max(0.0, (value - least) / (most - least)))

    @property
    def ticks(self) -> list[float]:
        """Round values between the ends."""
        if self.is_log and (found := self._powers()):
            return found
        step = _round_step((self.most - self.least) / 5)
        first = math.ceil(self.least / step - 1e-9)
        return [step * number for number in range(first, math.floor(self.most / step + 1e-9) + 1)]

    def _powers(self) -> list[float]:
        """Return powers of the base between the ends, or where those are few, 2 and 5 times them as well."""
        low, high = math.floor(math.log(self.least, self.base)), math.ceil(math.log(self.most, self.base))
        every = max(1, -((low - high - 1) // MOST_DECADES))
        low -= low % every if self.base == 2 else 0
        tens = [float(self.base) ** power for power in range(low, high + 1, every)]
        for found in (tens, [factor * ten for ten in tens for factor in (1, 2, 5)]):
            within = [value for value in found if self.least <= value <= self.most]
            if len(within) >= 2:
                return within
        return []


def _scale(values: Sequence[float], axis: ChartAxis) -> _Scale:
    is_log = axis.is_log and min(values) > 0
    least, most = axis.bounds or (min(values), max(values))
    if is_log:
        return _Scale(least / 1.2, most * 1.2, True, axis.base)
    if axis.from_zero:
        least = min(0.0, least)
    margin = (most - least) * 0.06 or abs(most) * 0.1 or 1.0
    return _Scale(least if axis.from_zero else least - margin, most + margin, False)


def _round_step(step: float) -> float:
    """Return the next of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


def tick_text(value: float) -> str:
    """Return the figure at a tick, which is round."""
    if value and not 1e-3 <= abs(value) < 1e6:
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return f"{value:,.10g}" if abs(value) >= 1 else f"{value:.4g}"


def _ticks_across(frame: _PlotArea, scale: _Scale, text_of: Callable[[float], str]) -> Iterator[Part]:
    """Yield the ticks of the horizontal axis that do not touch the one before."""
    end = -math.inf
    for value in scale.ticks:
        x, text = frame.across(scale.share(value)), text_of(value)
        half = text_width(text, SMALL) / 2
        yield Polyline(((x, frame.top), (x, frame.bottom)), "idle")
        if x - half > end and x + half <= frame.right + 10:
            yield TextLine(x, frame.bottom + TICK_SPACE_PX, text, "muted", SMALL, "middle")
            end = x + half + 6
    yield Polyline(((frame.left, frame.bottom), (frame.right, frame.bottom)), "muted")


def _curve_parts(curve: Curve, frame: _PlotArea, x_scale: _Scale, y_scale: _Scale) -> Iterator[Part]:
    places = [(frame.across(x_scale.share(m.x)), frame.up(y_scale.share(m.y))) for m in curve.marks]
    if curve.join and len(places) > 1:
        points = tuple(_staircase(places)) if curve.join == "steps" else tuple(places)
        yield Polyline(points, curve.ink, 1.8, curve.is_dashed)
    if curve.has_dots:
        for mark, (x, y) in zip(curve.marks, places, strict=True):
            yield Dot(x, y, 4.0, "page" if mark.is_hollow else curve.ink, curve.ink, mark.note)


def _labels(
    curves: Sequence[Curve], drawn: Sequence[Part], frame: _PlotArea, x_scale: _Scale, y_scale: _Scale
) -> Iterator[Part]:
    """Yield the labels of points where they have room, those of filled points first.

    Each stands where the fewest lines run: at the right or the left, above or below.
    """
    marks = [mark for curve in curves for mark in curve.marks if mark.label]
    lines = [pair for part in drawn if isinstance(part, Polyline) for pair in pairwise(part.points)]
    taken: list[_Area] = []
    for mark in sorted(marks, key=lambda mark: mark.is_hollow):
        x, y = frame.across(x_scale.share(mark.x)), frame.up(y_scale.share(mark.y))
        label = fitted_label(TextLine(x, y, mark.label, size=SMALL, has_halo=True), LONGEST_LABEL_PX)
        width = text_width(label.text, SMALL)
        places = product((y - 5, y + SMALL + 4, y - 18, y + SMALL + 17), (x + 7, x - 7 - width))
        areas = [_Area(left, left + width, base - SMALL, base + 2) for base, left in places]
        free = [own for own in areas if own.is_in(frame) and not any(map(own.overlaps, taken))]
        if free:
            area = min(free, key=lambda own: sum(own.is_crossed(*line) for line in lines))
            taken.append(area)
            yield replace(label, x=area.left, y=area.bottom - 2)


@dataclass(frozen=True)
class _Area:
    """A rectangle that a text takes."""

    left: float
    right: float
    top: float
    bottom: float

    def is_in(self, frame: _PlotArea) -> bool:
        """Whether it lies within a plot area, or above its upper end."""
        return frame.left <= self.left and self.right <= frame.right and self.bottom <= frame.bottom

    def overlaps(self, other: _Area) -> bool:
        """Whether another one has a point in common with it."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def is_crossed(self, start: Point, end: Point) -> bool:
        """Whether a straight line runs through it."""
        across = _shares_between(self.left, self.right, start[0], end[0])
        up = _shares_between(self.top, self.bottom, start[1], end[1])
        return max(0.0, across[0], up[0]) < min(1.0, across[1], up[1])


def _shares_between(low: float, high: float, start: float, end: float) -> tuple[float, float]:
    """Return from where to where a way lies between two ends, as shares of it; (1, 0) if nowhere."""
    if start == end:
        return (0.0, 1.0) if low < start < high else (1.0, 0.0)
    first, last = sorted((side - start) / (end - start) for side in (low, high))
    return first, last


def _staircase(places: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    height = places[0][1]
    for x, y in places:
        yield x, height
        yield x, y
        height = y


@dataclass(frozen=True)
class TimeSpan:
    """A time during which something runs; without `runs`, one that is left out."""

    runs: str
    duration: float
    note: str


@dataclass(frozen=True)
class Lane:
    """A strip along time: by what runs, its contents from the bottom up; `limit` fills the lane."""

    name: str
    remark: str
    limit: float
    contents: Mapping[str, Sequence[Segment]]
    height: float = LANE_HEIGHT_PX


def timeline_scene(
    title: str, spans: Sequence[TimeSpan], lanes: Sequence[Lane], key: Key, width: float
) -> Scene:
    """Return lanes below each other along one axis of time; dashed lines stand for what is left out."""
    entries = legend(key, width)
    names = max((text_width(lane.name, SMALL) for lane in lanes), default=0.0) + TEXT_GAP_PX
    left = min(names, width * LANE_NAMES_SHARE)
    places = list(_spans_across(spans, left, width))
    parts: list[Part] = list(entries.parts)
    first = top = entries.height + 10
    for lane in lanes:
        parts += _lane_parts(lane, places, (left, top, width))
        top += lane.height + LANE_GAP_PX + (SMALL + 9 if lane.remark else 0)
    for span, x, broad in places:
        if not span.runs:
            ends = ((x + broad / 2, first), (x + broad / 2, top - LANE_GAP_PX))
            parts.append(Polyline(ends, "muted", 1.2, dashed=True, note=span.note))
    return Scene(width, max(1.0, top), title, tuple(parts))


def _spans_across(
    spans: Sequence[TimeSpan], left: float, width: float
) -> Iterator[tuple[TimeSpan, float, float]]:
    """Yield spans with their place and width in pixels."""
    room = width - left - BREAK_PX * sum(not span.runs for span in spans)
    whole = sum(span.duration for span in spans)
    x = left
    for span in spans:
        broad = BREAK_PX
        if span.runs:
            broad = max(0.0, room) * (span.duration / whole if whole else 1 / len(spans))
        yield span, x, broad
        x += broad


def _lane_parts(
    lane: Lane, places: Sequence[tuple[TimeSpan, float, float]], frame: tuple[float, float, float]
) -> Iterator[Part]:
    """Yield a lane with its name on the left and its remark above."""
    left, top, width = frame
    if lane.remark:
        yield fitted_label(TextLine(left, top + SMALL + 4, lane.remark, "muted", SMALL), width - left)
        top += SMALL + 9
    middle = top + min(lane.height, SMALL + 4) / 2 + SMALL / 3
    yield fitted_label(TextLine(0, middle, lane.name, size=SMALL), left - TEXT_GAP_PX)
    yield Box(left, top, width - left, lane.height, "panel")
    sums = (sum(fill.value for fill in fills) for fills in lane.contents.values())
    fullest = max([lane.limit, *sums, LEAST_DRAWN])
    for span, x, broad in places:
        bottom = top + lane.height
        for fill in lane.contents.get(span.runs, ()):
            tall = lane.height * fill.value / fullest
            tall = max(tall, LEAST_VISIBLE_PX) if fill.value else 0.0
            yield Box(x, bottom - tall, max(broad, LEAST_VISIBLE_PX / 2), tall, fill.ink, note=fill.note)
            bottom -= tall
    if fullest > lane.limit:
        y = top + lane.height * (1 - lane.limit / fullest)
        yield Polyline(((left, y), (width, y)), "warn", 1.5, dashed=True)
