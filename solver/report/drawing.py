"""Pictures as boxes, lines and texts, and how they become SVG, or PNG and PDF by matplotlib."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import accumulate, takewhile
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from model.wording import printable
from solver.saving import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ink = str
"""A name out of `LIGHT`, which says what a colour is for."""

SERIES = 8
"""Colours that tell series apart; more series use them again."""

LIGHT: Mapping[Ink, str] = {
    "text": "#1b2430",
    "muted": "#5a6675",
    "line": "#b9c2cd",
    "panel": "#f3f5f8",
    "page": "#ffffff",
    "idle": "#dde2e8",
    "work": "#53627a",
    "late": "#a9b4c4",
    "warn": "#b3261e",
    "good": "#0b6b3a",
    "s0": "#3b6fb6",
    "s1": "#d9822b",
    "s2": "#2f9e7e",
    "s3": "#b0508f",
    "s4": "#7a68c4",
    "s5": "#a39a1e",
    "s6": "#4aa6c9",
    "s7": "#8d6e63",
}
DARK: Mapping[Ink, str] = {
    "text": "#e6eaf0",
    "muted": "#a3afbd",
    "line": "#46515f",
    "panel": "#1d242d",
    "page": "#12171d",
    "idle": "#2c353f",
    "work": "#9fb0c9",
    "late": "#5f6d80",
    "warn": "#ff8a80",
    "good": "#6fd39c",
    "s0": "#6fa3e8",
    "s1": "#f0a050",
    "s2": "#55c9a6",
    "s3": "#dd85c0",
    "s4": "#a595ee",
    "s5": "#cfc64a",
    "s6": "#7cccea",
    "s7": "#bfa196",
}

SANS = "system-ui, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
MONOSPACE = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
TEXT_SIZE_PX = 12.0
SMALL = 10.5
HALO = 3.0
ELLIPSIS = "…"

NARROW, WIDE = frozenset("iIjlft.,:;'|!()[] -"), frozenset("mwMW@%…=+<>×~&#")
WIDTHS = {"narrow": 0.4, "wide": 0.98, "upper": 0.77, "other": 0.64}
"""Widths of characters in ems, rather too large: fonts differ."""

DOTS_PER_INCH = 150
POINTS_PER_INCH = 72.0

NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]


def series_ink(number: int) -> Ink:
    """Return the colour of a series."""
    return f"s{number % SERIES}"


@dataclass(frozen=True)
class Box:
    """A rectangle; `note` is shown on hovering."""

    x: float
    y: float
    width: float
    height: float
    fill: Ink | None = None
    stroke: Ink | None = None
    note: str = ""
    radius: float = 0.0
    opacity: float = 1.0


@dataclass(frozen=True)
class Polyline:
    """Straight lines through points."""

    points: tuple[Point, ...]
    ink: Ink = "line"
    width: float = 1.0
    dashed: bool = False
    closed_fill: Ink | None = None
    note: str = ""


@dataclass(frozen=True)
class TextLine:
    """One line of text; `y` is its baseline. With a halo, what lies below stops short of it."""

    x: float
    y: float
    text: str
    ink: Ink = "text"
    size: float = TEXT_SIZE_PX
    anchor: Anchor = "start"
    bold: bool = False
    monospace: bool = False
    note: str = ""
    has_halo: bool = False


@dataclass(frozen=True)
class Dot:
    """A marker of a point: a disc, or a ring without `fill`."""

    x: float
    y: float
    radius: float
    fill: Ink | None
    stroke: Ink | None = None
    note: str = ""


Part = Box | Polyline | TextLine | Dot


@dataclass(frozen=True)
class Scene:
    """A picture in units of CSS pixels; `title` and `description` say in words what it shows."""

    width: float
    height: float
    title: str
    parts: tuple[Part, ...] = field(default=())
    description: str = ""

    def at(self, x: float, y: float) -> tuple[Part, ...]:
        """Return the parts, moved."""
        return tuple(_moved(part, x, y) for part in self.parts)


def _moved(part: Part, x: float, y: float) -> Part:
    if isinstance(part, Polyline):
        return replace(part, points=tuple((left + x, top + y) for left, top in part.points))
    return replace(part, x=part.x + x, y=part.y + y)


def stacked(width: float, title: str, scenes: Iterable[Scene], gap: float = 18.0) -> Scene:
    """Return scenes below each other as one."""
    parts: list[Part] = []
    top = 0.0
    for scene in scenes:
        parts += scene.at(0, top)
        top += scene.height + gap
    return Scene(width, max(0.0, top - gap), title, tuple(parts))


def headed_scene(heading: Sequence[str], scene: Scene) -> Scene:
    """Return a scene under lines of text, the first of which is bold."""
    lines = tuple(
        fitted_label(
            TextLine(0, 14 + 19 * n, line, "text" if n == 0 else "muted", TEXT_SIZE_PX + 2 - n, bold=n == 0),
            scene.width,
        )
        for n, line in enumerate(heading)
    )
    head = Scene(scene.width, 19.0 * len(lines), "", lines)
    joined = stacked(scene.width, scene.title, (head, scene))
    return replace(joined, description=scene.description)


def text_width(text: str, size: float = TEXT_SIZE_PX, monospace: bool = False) -> float:
    """Return a width that a text does not exceed in usual fonts, in pixels."""
    return sum(_widths(text, monospace)) * size


def _widths(text: str, monospace: bool) -> Iterator[float]:
    """Yield the widths of characters, for a size of 1."""
    if monospace:
        return (2 * 0.62 if _is_broad(character) else 0.62 for character in text)
    return map(_em, text)


def _em(character: str) -> float:
    if _is_broad(character):
        return 1.05
    if character in NARROW:
        return WIDTHS["narrow"]
    if character in WIDE:
        return WIDTHS["wide"]
    return WIDTHS["upper"] if character.isupper() else WIDTHS["other"]


def _is_broad(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


def fitted_label(label: TextLine, width: float) -> TextLine:
    """Return a label that is no wider than `width`: a longer text is cut off, and whole on hovering."""
    text = printable(label.text)
    if text_width(text, label.size, label.monospace) <= width:
        return replace(label, text=text)
    end = text_width(ELLIPSIS, 1.0, label.monospace)
    reached = accumulate(_widths(text, label.monospace))
    fits = sum(1 for _ in takewhile(lambda used: (used + end) * label.size <= width, reached))
    return replace(label, text=text[:fits].rstrip() + ELLIPSIS, note=label.note or text)


Paint = Mapping[Ink, str]
"""What colours are written as."""

VARIABLES: Paint = {name: f"var(--{name})" for name in LIGHT}
"""For a picture within a page, whose style sheet knows light and dark."""


def svg_element(scene: Scene, paint: Paint = VARIABLES, identity: str = "") -> ElementTree.Element:
    """Return a picture as an SVG element; `identity` is unique within the page.

    Names stand in texts and attributes of an element tree, so that none of them can become markup.
    """
    root = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {_length_text(scene.width)} {_length_text(scene.height)}",
            "width": _length_text(scene.width),
            "height": _length_text(scene.height),
            "role": "img",
            "font-family": SANS,
        },
    )
    _child(root, "title", scene.title, {"id": f"{identity}-title"} if identity else {})
    if scene.description:
        _child(root, "desc", scene.description, {"id": f"{identity}-desc"} if identity else {})
    if identity:
        described = f" {identity}-desc" if scene.description else ""
        root.set("aria-labelledby", f"{identity}-title{described}")
    for part in scene.parts:
        _draw_element(root, part, paint)
    return root


def svg_text(scene: Scene, paint: Paint = VARIABLES, identity: str = "") -> str:
    """Return the text of `svg_element`."""
    return ElementTree.tostring(svg_element(scene, paint, identity), encoding="unicode")


def _child(
    parent: ElementTree.Element, tag: str, text: str, attributes: Mapping[str, str] = NO_ATTRIBUTES
) -> None:
    child = ElementTree.SubElement(parent, tag, dict(attributes))
    child.text = printable(text)


def _draw_element(root: ElementTree.Element, part: Part, paint: Paint) -> None:
    if isinstance(part, TextLine):
        element = ElementTree.SubElement(root, "text", _label_attributes(part, paint))
        element.text = printable(part.text)
    elif isinstance(part, Polyline):
        element = ElementTree.SubElement(root, "path", _line_attributes(part, paint))
    elif isinstance(part, Dot):
        place = {"cx": _length_text(part.x), "cy": _length_text(part.y), "r": _length_text(part.radius)}
        element = ElementTree.SubElement(root, "circle", {**place, **_colours(part.fill, part.stroke, paint)})
    else:
        element = ElementTree.SubElement(root, "rect", _box_attributes(part, paint))
    if part.note:
        _child(element, "title", part.note)
        if isinstance(part, TextLine):
            element.text, element[0].tail = "", printable(part.text)


def _label_attributes(part: TextLine, paint: Paint) -> dict[str, str]:
    attributes = {
        "x": _length_text(part.x),
        "y": _length_text(part.y),
        "fill": paint[part.ink],
        "font-size": _length_text(part.size),
    }
    attributes |= {"text-anchor": part.anchor} if part.anchor != "start" else {}
    attributes |= {"font-weight": "600"} if part.bold else {}
    if part.has_halo:
        attributes |= {"stroke": paint["page"], "stroke-width": _length_text(HALO), "paint-order": "stroke"}
    return attributes | ({"font-family": MONOSPACE} if part.monospace else {})


def _line_attributes(part: Polyline, paint: Paint) -> dict[str, str]:
    path = " ".join(f"{_length_text(x)},{_length_text(y)}" for x, y in part.points)
    attributes = {
        "d": f"M{path}{'Z' if part.closed_fill else ''}",
        "fill": paint[part.closed_fill] if part.closed_fill else "none",
        "stroke": paint[part.ink],
        "stroke-width": _length_text(part.width),
    }
    return attributes | ({"stroke-dasharray": "4 3"} if part.dashed else {})


def _box_attributes(part: Box, paint: Paint) -> dict[str, str]:
    attributes = {
        "x": _length_text(part.x),
        "y": _length_text(part.y),
        "width": _length_text(max(0.0, part.width)),
        "height": _length_text(max(0.0, part.height)),
        **_colours(part.fill, part.stroke, paint),
    }
    attributes |= {"rx": _length_text(part.radius)} if part.radius else {}
    return attributes | ({"fill-opacity": _length_text(part.opacity)} if part.opacity < 1 else {})


def _colours(fill: Ink | None, stroke: Ink | None, paint: Paint) -> dict[str, str]:
    return {"fill": paint[fill] if fill else "none"} | ({"stroke": paint[stroke]} if stroke else {})


def _length_text(value: float) -> str:
    """Return a length with two decimals at most, the same on every machine."""
    return f"{round(value, 2):.2f}".rstrip("0").rstrip(".") or "0"


def save_scene(scene: Scene, path: Path, margin: float = 12.0) -> None:
    """Write a picture on white, as SVG, or as PNG or PDF by matplotlib; ``OSError`` if that fails."""
    framed = Scene(
        scene.width + 2 * margin,
        scene.height + 2 * margin,
        scene.title,
        (
            Box(0, 0, scene.width + 2 * margin, scene.height + 2 * margin, fill="page"),
            *scene.at(margin, margin),
        ),
        scene.description,
    )
    kind = path.suffix[1:].lower()
    save(path, svg_text(framed, LIGHT).encode() if kind == "svg" else _by_matplotlib(framed, kind))


def _by_matplotlib(scene: Scene, kind: str) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (an optional extra)
    from matplotlib.figure import Figure  # noqa: PLC0415

    inches = scene.width / POINTS_PER_INCH, scene.height / POINTS_PER_INCH
    figure = Figure(figsize=inches)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, scene.width)
    axes.set_ylim(scene.height, 0)
    for order, part in enumerate(scene.parts):
        _draw_artist(axes, part, order)
    drawn = BytesIO()
    metadata = {"CreationDate": None} if kind == "pdf" else None
    with warnings.catch_warnings():
        # Characters that the font lacks are drawn as boxes; the warning would show lines of this program.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure.savefig(drawn, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
    return drawn.getvalue()


def _draw_artist(axes: Axes, part: Part, order: int) -> None:
    from matplotlib.patches import Circle, Polygon, Rectangle  # noqa: PLC0415
    from matplotlib.patheffects import withStroke  # noqa: PLC0415

    if isinstance(part, TextLine):
        axes.text(
            part.x,
            part.y,
            printable(part.text).replace("$", r"\$"),
            color=LIGHT[part.ink],
            fontsize=part.size * 0.9,
            ha={"start": "left", "middle": "center", "end": "right"}[part.anchor],
            va="baseline",
            weight="bold" if part.bold else "normal",
            family="monospace" if part.monospace else "sans-serif",
            path_effects=[withStroke(linewidth=HALO, foreground=LIGHT["page"])] if part.has_halo else None,
            zorder=order,
        )
    elif isinstance(part, Polyline) and not part.closed_fill:
        style = "--" if part.dashed else "-"
        across, down = zip(*part.points, strict=True)
        axes.plot(across, down, color=LIGHT[part.ink], lw=part.width, ls=style, zorder=order)
    elif isinstance(part, Polyline):
        axes.add_patch(Polygon(part.points, **_faces(part.closed_fill, part.ink), zorder=order))
    elif isinstance(part, Dot):
        axes.add_patch(Circle((part.x, part.y), part.radius, **_faces(part.fill, part.stroke), zorder=order))
    else:
        place = (part.x, part.y), max(0.0, part.width), max(0.0, part.height)
        patch = Rectangle(*place, **_faces(part.fill, part.stroke), alpha=part.opacity, zorder=order)
        axes.add_patch(patch)


def _faces(fill: Ink | None, stroke: Ink | None) -> dict[str, Any]:
    return {
        "facecolor": LIGHT[fill] if fill else "none",
        "edgecolor": LIGHT[stroke] if stroke else "none",
        "linewidth": 1.0,
    }


def legend(entries: Sequence[tuple[str, Ink]], width: float, dashed: Container[str] = ()) -> Scene:
    """Return squares with their meanings, in as many rows as it takes; some are dashed lines instead."""
    parts = list(_legend_parts(entries, width, dashed))
    bottom = max((part.y for part in parts if isinstance(part, TextLine)), default=0.0)
    return Scene(width, bottom + 5 if parts else 0.0, "", tuple(parts))


def _legend_parts(entries: Sequence[tuple[str, Ink]], width: float, dashed: Container[str]) -> Iterator[Part]:
    x, y = 0.0, 12.0
    for text, ink in entries:
        label = fitted_label(TextLine(0, 0, text, "muted", SMALL), width - 16)
        room = 16 + text_width(label.text, SMALL) + 12
        if x and x + room > width + 12:
            x, y = 0.0, y + 17
        if text in dashed:
            yield Polyline(((x, y - 4), (x + 11, y - 4)), ink, 2.0, dashed=True)
        else:
            yield Box(x, y - 9, 10, 10, fill=ink, radius=2)
        yield replace(label, x=x + 15, y=y)
        x += room
