"""Pictures of a mapping: its loop nest on the hierarchy, the array and what of it works, tiles to scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from model.wording import printable
from solver.report.drawing import (
    SMALL,
    Box,
    Ink,
    Part,
    Polyline,
    Scene,
    TextLine,
    fitted_label,
    headed_scene,
    legend,
    stacked,
    text_width,
)
from solver.report.figures import count_text, counted, percent
from solver.report.mapped import Axis, ShownLoop, ShownMapping, ShownNode, ShownTile

ROW = 16.0
PAD = 8.0
BAR = 12.0
WIDE_FROM_PX = 560.0
"""Width in pixels from which loops and tiles stand beside a memory, and not below it."""

INDENT, DEEPEST = 7.0, 16
"""Pixels per loop outside of a level, and the loops up to which that is shown."""

MOST_CELLS = 2048
"""Cells of an array that are drawn one by one; of a larger one, areas are."""

SMALLEST_CELL, LARGEST_CELL = 3.0, 26.0
ARRAY_HEIGHT_PX = 260.0

TILE_SIDE, LEAST_SIDE, THIN, TILES_WIDTH = 104.0, 1.5, 8.0, 230.0
GUTTER_PX = 28.0


def nest_scene(shown: ShownMapping, width: float) -> Scene:
    """Return the loop nest on the hierarchy: a band per level with its tiles and its loops."""
    parts: list[Part] = []
    top, depth = 0.0, 0
    bands = [node for node in shown.nodes if node.memory or node.loops or math.prod(node.mesh) > 1]
    for node in bands:
        band = _band(shown, node, width, depth)
        parts += band.at(0, top)
        top += band.height
        parts.append(Polyline(((PAD + 6, top), (PAD + 6, top + 10)), "muted", 1.5))
        top += 10
        depth += len(node.loops)
    parts += _compute_band(shown, width).at(0, top)
    entries = [(name, shown.inks[name]) for name in shown.ranks]
    key = legend(entries, width)
    scene = Scene(width, top + 46, "", tuple(parts))
    joined = stacked(width, "Loop nest on the memory hierarchy", (key, scene), 8)
    return Scene(joined.width, joined.height, joined.title, joined.parts, _in_words(shown))


def _in_words(shown: ShownMapping) -> str:
    kept = (f"{node.name} keeps {', '.join(tile.dataspace for tile in node.tiles)}" for node in shown.levels)
    return "; ".join(kept)


def _band(shown: ShownMapping, node: ShownNode, width: float, depth: int) -> Scene:
    is_wide = width >= WIDE_FROM_PX
    column = width * 0.5 if is_wide else width
    left = list(_memory_parts(shown, node, column) if node.memory else _fanout_parts(node, column))
    height = max((part.y for part in left if isinstance(part, TextLine)), default=0.0) + PAD
    lines = [loop.text for loop in node.loops] or (["(no loops here)"] if node.memory else [])
    indent = min(depth, DEEPEST) * INDENT if is_wide else 0.0
    x, top = (column + PAD, PAD) if is_wide else (2 * PAD, height - 2)
    room = width - x - PAD
    loops: list[Part] = []
    for number, line in enumerate(lines):
        ink: Ink = "text" if node.loops else "muted"
        further = min(indent + number * INDENT, max(0.0, room - 150))
        label = TextLine(x + further, top + 11 + number * ROW, line, ink, SMALL + 0.5, monospace=True)
        loops.append(fitted_label(label, room - further))
    height = max(height, top + len(lines) * ROW + 6)
    fill, stroke = ("panel", "line") if node.memory else (None, "line")
    return Scene(width, height, "", (Box(0, 0, width, height, fill, stroke, radius=6), *left, *loops))


def _memory_parts(shown: ShownMapping, node: ShownNode, width: float) -> Iterator[Part]:
    """Yield a memory's name, how full it is, and its tiles."""
    used = f"{count_text(node.used)} of {count_text(node.instances)} in use"
    y = PAD + 11
    name = fitted_label(
        TextLine(PAD, y, node.name, bold=True), width - 2 * PAD - text_width(used, SMALL) - 10
    )
    yield name
    yield TextLine(width - PAD, y, used, "muted", SMALL, "end")
    y += 8
    if node.usable_words is not None:
        yield from capacity_bar(node.tiles, node.usable_words, shown, (PAD, y, width - 2 * PAD))
        y += BAR + 14
        taken = sum(tile.size_words for tile in node.tiles)
        share = f" ({percent(taken / node.usable_words)})" if node.usable_words else ""
        text = f"{count_text(taken)} of {counted(node.usable_words, 'word')}{share}"
        yield fitted_label(TextLine(PAD, y, text, "muted", SMALL), width - 2 * PAD)
    else:
        y += 10
        yield TextLine(PAD, y, "no limit on words", "muted", SMALL)
    for tile in node.tiles:
        y += ROW
        yield Box(PAD, y - 9, 10, 10, fill=shown.inks[tile.dataspace], radius=2)
        yield fitted_label(TextLine(PAD + 15, y, tile_text(tile), size=SMALL + 0.5), width - 2 * PAD - 15)
    if not node.tiles:
        y += ROW
        yield TextLine(PAD, y, "keeps nothing", "muted", SMALL)


def tile_text(tile: ShownTile) -> str:
    """Return a tile with its shape and its words; where values differ in size, with what it takes."""
    shape = " × ".join(map(count_text, tile.shape))
    words = counted(tile.words, "word")
    takes = "" if tile.size_words == tile.words else f", takes {count_text(tile.size_words)}"
    return (
        f"{tile.dataspace}  {shape} = {words}{takes}"
        if len(tile.shape) > 1
        else (f"{tile.dataspace}  {words}{takes}")
    )


def capacity_bar(
    tiles: Sequence[ShownTile], usable_words: int, shown: ShownMapping, place: tuple[float, float, float]
) -> Iterator[Part]:
    """Yield a bar of a memory's room, and what the tiles take of it, to scale."""
    x, y, width = place
    yield Box(x, y, width, BAR, fill="idle", radius=2)
    total = max(usable_words, sum(tile.size_words for tile in tiles), 1)
    for tile in tiles:
        length = width * tile.size_words / total
        note = f"{tile.dataspace}: {count_text(tile.size_words)} of {count_text(usable_words)} words"
        yield Box(x, y, length, BAR, fill=shown.inks[tile.dataspace], note=note)
        x += length


def _fanout_parts(node: ShownNode, width: float) -> Iterator[Part]:
    axes = []
    for axis, size in zip(_AXES, node.mesh, strict=True):
        used = math.prod(loop.factor for loop in node.along(axis))
        if max(size, used) > 1:
            axes.append(f"{count_text(used)} of {count_text(size)} along {axis.upper()}")
    used_text = fitted_label(
        TextLine(width - PAD, PAD + 11, ", ".join(axes), "muted", SMALL, "end"), width * 0.55
    )
    room = width - 2 * PAD - text_width(used_text.text, SMALL) - 10
    yield fitted_label(TextLine(PAD, PAD + 11, node.name, "muted", bold=True), room)
    yield used_text


_AXES: tuple[Axis, Axis] = ("x", "y")


def _compute_band(shown: ShownMapping, width: float) -> Scene:
    used = f"{count_text(shown.compute_used)} of {count_text(shown.compute_instances)} in use"
    name = fitted_label(
        TextLine(PAD, PAD + 11, shown.compute, bold=True), width - 3 * PAD - text_width(used, SMALL)
    )
    einsum = fitted_label(TextLine(PAD, PAD + 29, shown.einsum, size=SMALL, monospace=True), width - 2 * PAD)
    parts = (
        Box(0, 0, width, 46, "panel", "line", radius=6),
        name,
        TextLine(width - PAD, PAD + 11, used, "muted", SMALL, "end"),
        einsum,
    )
    return Scene(width, 46, "", parts)


WORKING, LATE, IDLE = "always in use", "idle in last rounds", "not in use"
STATES: dict[str, Ink] = {WORKING: "work", LATE: "late", IDLE: "idle"}


def array_scene(shown: ShownMapping, width: float) -> Scene | None:
    """Return the array of all fanouts, one cell per instance, with what is unrolled along X and Y.

    None without a fanout. Outer fanouts place blocks, inner ones cells within a block.
    """
    fanouts = [node for node in shown.fanouts if math.prod(node.mesh) > 1 or node.loops]
    if not fanouts:
        return None
    sides = _drawn_axes(fanouts)
    across, down = (_ranges_along(nodes, axis) for _, nodes, axis in sides)
    left, top = 22.0, 20.0
    grid = _array_scene(across, down, width - left - 2)
    bottom = top + grid.height
    above, below = (f"{name}: {_axis_text(nodes, axis)}" for name, nodes, axis in sides)
    rows = [
        fitted_label(TextLine(left, 12, above, size=SMALL), width - left),
        *grid.at(left, top),
        fitted_label(TextLine(left, bottom + 16, below, size=SMALL), width - left),
        Polyline(((left, top - 3), (left + grid.width, top - 3)), "muted", 1.5),
        Polyline(((left - 4, top), (left - 4, bottom)), "muted", 1.5),
        TextLine(left - 9, top - 5, sides[0][0][0], "muted", SMALL, "end"),
        TextLine(left - 9, top + 10, sides[1][0][0], "muted", SMALL, "end"),
    ]
    states = {state for ranges in (across, down) for _, state in ranges}
    entries = [(state, ink) for state, ink in STATES.items() if state in states]
    key = legend(entries, width)
    used = f"{count_text(shown.compute_used)} of {count_text(shown.compute_instances)} {shown.compute} in use"
    parts = (*rows, *key.at(0, bottom + 24))
    return Scene(width, bottom + 24 + key.height, "The array", tuple(parts), used)


Side = tuple[str, Sequence[ShownNode], Axis]
"""What one side of the array shows: its name, the fanouts and the axis of theirs."""


def _drawn_axes(fanouts: Sequence[ShownNode]) -> tuple[Side, Side]:
    """Return the axes drawn across and down: X and Y, or the last of several fanouts along X alone."""
    if len(fanouts) > 1 and all(node.mesh[1] == 1 and not node.along("y") for node in fanouts):
        return ("→ along X", fanouts[:-1], "x"), ("↓ along X", fanouts[-1:], "x")
    return ("X", fanouts, "x"), ("Y", fanouts, "y")


Ranges = list[tuple[int, str]]
"""Positions along an axis: how many neighbours are in one state, and the state."""


def _ranges_along(fanouts: Sequence[ShownNode], axis: Axis) -> Ranges:
    """Return the states of the positions along an axis of all fanouts together."""
    ranges: Ranges = [(1, WORKING)]
    for node in reversed(fanouts):  # a position of an outer fanout is a block of all inner ones
        size = node.mesh[0 if axis == "x" else 1]
        block, inner = sum(count for count, _ in ranges), ranges
        used, whole = 1, 1
        for loop in node.along(axis):
            used, whole = used * loop.factor, whole * loop.last
        used = min(used, size)
        whole = min(whole, used)
        late = [(count, LATE if state == WORKING else state) for count, state in inner]
        ranges = _joined_ranges([*_repeated_ranges(inner, whole), *_repeated_ranges(late, used - whole)])
        if size > used:
            ranges = _joined_ranges([*ranges, ((size - used) * block, IDLE)])
    return ranges


def _repeated_ranges(ranges: Ranges, times: int) -> Ranges:
    """Return so many copies in a row; of very many, the first stands for all, as areas do."""
    if len(ranges) == 1:
        count, state = ranges[0]
        return [(count * times, state)] if times else []
    return ranges * min(times, MOST_CELLS)


def _joined_ranges(ranges: Ranges) -> Ranges:
    merged: Ranges = []
    for count, state in ranges:
        if merged and merged[-1][1] == state:
            merged[-1] = merged[-1][0] + count, state
        else:
            merged.append((count, state))
    return merged


def _worse(first: str, second: str) -> str:
    order = list(STATES)
    return order[max(order.index(first), order.index(second))]


def _array_scene(across: Ranges, down: Ranges, width: float) -> Scene:
    columns, rows = (sum(count for count, _ in ranges) for ranges in (across, down))
    cell = max(SMALLEST_CELL, min(width / columns, ARRAY_HEIGHT_PX / rows, LARGEST_CELL))
    is_celled = (
        columns * rows <= MOST_CELLS and columns * cell <= width and rows * cell <= ARRAY_HEIGHT_PX + 1
    )
    wide = cell if is_celled else min(width, max(30.0, ARRAY_HEIGHT_PX * columns / rows)) / columns
    high = cell if is_celled else min(ARRAY_HEIGHT_PX, max(16.0, wide * columns * rows / columns)) / rows
    parts: list[Part] = []
    for y, tall, below in _with_positions(down):
        for x, broad, beside in _with_positions(across):
            corner, ink = (x * wide, y * high), STATES[_worse(below, beside)]
            area = Box(*corner, broad * wide, tall * high, ink, "page")
            parts += _cells(corner, (broad, tall), cell, ink) if is_celled else [area]
    return Scene(columns * wide, rows * high, "", tuple(parts))


def _with_positions(ranges: Ranges) -> Iterator[tuple[int, int, str]]:
    """Yield each range with its first position."""
    first = 0
    for count, state in ranges:
        yield first, count, state
        first += count


def _cells(corner: tuple[float, float], size: tuple[int, int], cell: float, ink: Ink) -> Iterator[Part]:
    gap = 0.5 if cell < 8 else 1.0
    side = cell - 2 * gap
    for row in range(size[1]):
        for column in range(size[0]):
            x, y = corner[0] + column * cell + gap, corner[1] + row * cell + gap
            yield Box(x, y, side, side, ink, radius=1.5 if cell >= 8 else 0)


def _axis_text(fanouts: Sequence[ShownNode], axis: Axis) -> str:
    """Return the loops unrolled along an axis, fanout by fanout."""
    texts = []
    for node in fanouts:
        size, loops = node.mesh[0 if axis == "x" else 1], node.along(axis)
        if size > 1 or loops:
            what = " × ".join(map(_factor_text, loops)) or "1"
            texts.append(f"{what} of {count_text(size)} ({node.name})")
    return "; ".join(texts) or "1"


def _factor_text(loop: ShownLoop) -> str:
    last = "" if loop.last == loop.factor else f" (last {loop.last})"
    return f"{loop.dim} {loop.factor}{last}"


def tiles_scene(shown: ShownMapping, width: float) -> Scene | None:
    """Return each dataspace as its two longest ranks, to scale, with the tiles of its levels inside.

    Sides that would be too thin to be seen are drawn thicker. None if no dataspace has tiles with a shape.
    """
    drawn = [picture for name in shown.ranks if (picture := _tiles_of(shown, name)) is not None]
    if not drawn:
        return None
    parts: list[Part] = []
    x = top = height = 0.0
    for picture in drawn:
        if x and x + picture.width > width:
            x, top, height = 0.0, top + height + 14, 0.0
        parts += picture.at(x, top)
        x += picture.width + 18
        height = max(height, picture.height)
    return Scene(width, top + height, "Tiles to scale", tuple(parts))


def _tiles_of(shown: ShownMapping, name: str) -> Scene | None:
    """Return one dataspace; its tiles from the outermost level inwards, each at the corner of the last."""
    tiles = [(node, tile) for node in shown.levels for tile in node.tiles if tile.dataspace == name]
    ranks = shown.ranks[name]
    if not tiles or any(len(tile.shape) != len(ranks) for _, tile in tiles) or not ranks:
        return None
    whole = tiles[0][1].shape
    longest = sorted(range(len(ranks)), key=lambda rank: -whole[rank])[:2]
    down, across = (min(longest), max(longest)) if len(longest) == 2 else (None, longest[0])
    tall = 1 if down is None else max(1, whole[down])
    unit = TILE_SIDE / max(tall, whole[across], 1)
    # A side that is too thin to be seen has its own scale.
    units = [max(unit, THIN / max(1, extent)) for extent in (whole[across], tall)]
    ink = shown.inks[name]
    sizes = [tile.shape if down is None else (tile.shape[across], tile.shape[down]) for _, tile in tiles]
    texts = [
        f"{node.name} {' × '.join(map(count_text, size))}"
        for (node, _), size in zip(tiles, sizes, strict=True)
    ]
    width = min(TILES_WIDTH, max(TILE_SIDE + 46, *(text_width(text, SMALL) + 1 for text in texts)))
    title = fitted_label(TextLine(0, 12, name, size=SMALL + 0.5, bold=True), width)
    axes = f"{printable(ranks[across])} →" + ("" if down is None else f"   {printable(ranks[down])} ↓")
    parts: list[Part] = [title, fitted_label(TextLine(0, 27, axes, "muted", SMALL), width)]
    top, shapes = 34.0, set()
    for node, tile in tiles:
        size = tile.shape[across], 1 if down is None else tile.shape[down]
        if size in shapes:
            continue
        shapes.add(size)
        box = [max(LEAST_SIDE, extent * own) for extent, own in zip(size, units, strict=True)]
        shape = " × ".join(map(count_text, tile.shape))
        note = f"{node.name}: {shape} = {count_text(tile.words)} words"
        parts.append(Box(0, top, box[0], box[1], ink, "page", note, opacity=0.3))
    bottom = top + tall * units[1] + 14
    for text in texts:
        parts.append(fitted_label(TextLine(0, bottom, text, "muted", SMALL), width))
        bottom += 14
    return Scene(width, bottom - 10, "", tuple(parts))


def mapping_scene(shown: ShownMapping, width: float, heading: Sequence[str] = ()) -> Scene:
    """Return the whole picture: a heading, the nest on the hierarchy, the array, tiles to scale."""
    title = f"Mapping of {shown.einsum} onto {shown.architecture}"
    return headed_scene(
        heading, stacked(width, title, (nest_scene(shown, width), *_array_and_tiles(shown, width)))
    )


def _array_and_tiles(shown: ShownMapping, width: float) -> Iterator[Scene]:
    """Yield array and tiles, beside each other where there is room."""
    array = array_scene(shown, min(width, WIDE_FROM_PX) * 0.6 if width >= WIDE_FROM_PX else width)
    tiles = tiles_scene(
        shown, width if array is None or width < WIDE_FROM_PX else width - array.width - GUTTER_PX
    )
    found = [_captioned(scene) for scene in (array, tiles) if scene is not None]
    if len(found) < 2 or width < WIDE_FROM_PX:
        yield from found
        return
    left, right = found
    parts = (*left.parts, *right.at(left.width + GUTTER_PX, 0))
    yield Scene(width, max(left.height, right.height), "", parts)


def _captioned(scene: Scene) -> Scene:
    caption = TextLine(0, 12, scene.title, bold=True)
    return Scene(scene.width, scene.height + 20, scene.title, (caption, *scene.at(0, 20)))
