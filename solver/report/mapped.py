"""What a picture of a mapping shows, read from the JSON document of a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from solver.report.drawing import Ink, series_ink
from solver.report.reading import DocumentError, Value

Axis = Literal["x", "y", ""]

MOST_DIGITS = 18


@dataclass(frozen=True)
class ShownLoop:
    """A loop above 1: its iterations, and those of the last pass over its dimension; `axis` if spatial."""

    dim: str
    factor: int
    last: int
    axis: Axis = ""

    @property
    def text(self) -> str:
        """The loop as in the printed loop nest."""
        last = "" if self.last == self.factor else f", last [0:{self.last})"
        spans = f"{self.dim} in [0:{self.factor}){last}"
        return f"parallel-for {spans} along {self.axis.upper()}" if self.axis else f"for {spans}"


@dataclass(frozen=True)
class ShownTile:
    """A tile of a dataspace in one instance of a level."""

    dataspace: str
    shape: tuple[int, ...]
    words: int
    size_words: int


@dataclass(frozen=True)
class ShownNode:
    """A node of the hierarchy with its loops, outermost first; tiles and figures of storage levels only."""

    name: str
    memory: str = ""  # empty for a fanout
    usable_words: int | None = None
    instances: int = 1  # in the hardware
    used: int = 1
    mesh: tuple[int, int] = (1, 1)
    loops: tuple[ShownLoop, ...] = ()
    tiles: tuple[ShownTile, ...] = ()

    def along(self, axis: Axis) -> tuple[ShownLoop, ...]:
        """The loops of a fanout along an axis, outermost first."""
        return tuple(loop for loop in self.loops if loop.axis == axis)


@dataclass(frozen=True)
class ShownMapping:
    """A mapping on its hardware: nodes from the outermost inwards, and the compute below them."""

    einsum: str
    ranks: Mapping[str, tuple[str, ...]]  # by dataspace, in the order of the Einsum
    architecture: str
    nodes: tuple[ShownNode, ...]
    compute: str
    compute_instances: int
    compute_used: int
    inks: Mapping[str, Ink]  # the colour of each dataspace

    @property
    def levels(self) -> list[ShownNode]:
        """The storage levels."""
        return [node for node in self.nodes if node.memory]

    @property
    def fanouts(self) -> list[ShownNode]:
        """The spatial fanouts."""
        return [node for node in self.nodes if not node.memory]

    @property
    def memories(self) -> Iterator[tuple[ShownNode, list[ShownTile]]]:
        """Each memory as its outermost place, with the tiles of all its places."""
        places: dict[str, list[ShownNode]] = {}
        for node in self.levels:
            places.setdefault(node.memory, []).append(node)
        for name, nodes in places.items():
            first = nodes[0] if len(nodes) == 1 else _renamed(nodes[0], name)
            yield first, [tile for node in nodes for tile in node.tiles]


def _renamed(node: ShownNode, name: str) -> ShownNode:
    return ShownNode(name, name, node.usable_words, node.instances, node.used)


def shown_mapping(document: Value, inks: Mapping[str, Ink] | None = None) -> ShownMapping | None:
    """Read the mapping of a document of ``map`` or ``evaluate``; None if it has none.

    `inks` are the colours of dataspaces, where a page has others than in their order. `DocumentError` if
    targets, levels and architecture do not belong together.
    """
    if not document.get("mapping") or not document.get("architecture"):
        return None
    einsum, architecture = document["einsum"], document["architecture"]
    levels = {level["name"].text(): level for level in document["levels"].entries()}
    loops = _loops_of(document["mapping"])
    nodes = [_shown_node(node, levels, loops) for node in architecture["nodes"].entries()]
    compute = architecture["compute"]
    spaces = einsum["dataspaces"].entries()
    names = {space["name"].text() for space in spaces}
    if strange := [tile.dataspace for node in nodes for tile in node.tiles if tile.dataspace not in names]:
        raise DocumentError(f"levels: the Einsum has no dataspace {strange[0]!r}")
    return ShownMapping(
        einsum["text"].text(),
        {space["name"].text(): tuple(space["ranks"].texts()) for space in spaces},
        architecture["name"].text(),
        tuple(nodes),
        compute["name"].text(),
        compute["instances"].count(),
        document["compute_instances"].count(),
        {space["name"].text(): series_ink(number) for number, space in enumerate(spaces)} | dict(inks or {}),
    )


def _loops_of(mapping: Value) -> dict[tuple[str, bool], tuple[ShownLoop, ...]]:
    """Return the loops of each component, temporal and spatial ones."""
    return {
        (target["target"].text(), target["type"].text() == "spatial"): tuple(_read_loops(target))
        for target in mapping.entries()
        if target["type"].text() != "dataspace"
    }


def _read_loops(target: Value) -> Iterator[ShownLoop]:
    """Yield the loops above 1 of a target, outermost first."""
    factors: dict[str, tuple[int, int]] = {}
    for entry in target["factors"].entries():
        dim, _, numbers = entry.text().rpartition("=")
        factor, _, last = numbers.partition(",")
        if not all(number.isdecimal() and len(number) <= MOST_DIGITS for number in (factor, last or factor)):
            raise DocumentError(f"{entry.place}: a factor such as P=4 is expected")
        factors[dim] = int(factor), int(last or factor)
    order = target["permutation"].texts()
    split = target["split"].count() if target["type"].text() == "spatial" else None
    for place, dim in reversed(list(enumerate(order))):
        iterations, last_pass = factors.get(dim, (1, 1))
        if iterations > 1:
            axis: Axis = "" if split is None else "x" if place < split else "y"
            yield ShownLoop(dim, iterations, last_pass, axis)


def _shown_node(
    node: Value, levels: Mapping[str, Value], loops: Mapping[tuple[str, bool], tuple[ShownLoop, ...]]
) -> ShownNode:
    name, instances = node["name"].text(), node["instances"].count()
    if node["type"].text() == "fanout":
        mesh = max(1, node["mesh_x"].count()), max(1, node["mesh_y"].count())
        return ShownNode(name, instances=instances, mesh=mesh, loops=loops.get((name, True), ()))
    if name not in levels:
        raise DocumentError(f"{node.place}: `levels` has no entry of this name")
    level = levels[name]
    return ShownNode(
        name,
        node["memory"].text(),
        node["usable_words"].count() if node["usable_words"].raw is not None else None,
        instances,
        level["instances"].count(),
        loops=loops.get((name, False), ()),
        tiles=tuple(_shown_tile(space, figures) for space, figures in level["dataspaces"].items()),
    )


def _shown_tile(name: str, figures: Value) -> ShownTile:
    return ShownTile(
        name,
        tuple(extent.count() for extent in figures["tile_shape"].entries()),
        figures["tile_words"].count(),
        figures["size_words"].count(),
    )


STEP = "  "


def node_texts(architecture: Value, mapping: Value) -> dict[str, str]:
    """Return in one line each what nodes keep, and their loops above 1, outermost first, by name."""
    loops, kept = _loops_of(mapping), _kept(mapping)
    texts: dict[str, str] = {}
    for node in architecture["nodes"].entries():
        name, is_fanout = node["name"].text(), node["type"].text() == "fanout"
        own = ", ".join(loop.text for loop in loops.get((name, is_fanout), ()))
        texts[name] = (
            own if is_fanout else "; ".join(filter(None, (f"keeps {kept.get(name) or 'nothing'}", own)))
        )
    return texts


def _kept(mapping: Value) -> dict[str, str]:
    """Return the dataspaces that storage levels keep, by level."""
    return {
        target["target"].text(): ", ".join(target["keep"].texts())
        for target in mapping.entries()
        if target["type"].text() == "dataspace"
    }


def nest_lines(architecture: Value, mapping: Value, einsum: str) -> list[str]:
    """Return the lines of a loop nest, outermost loop first, without loops of bound 1.

    A storage level heads its temporal loops with its name and the dataspaces that it keeps, a fanout its
    spatial ones; what these enclose is one step deeper. ``last`` is what a loop has in the last pass over its
    dimension if that is cut short.
    """
    loops, kept = _loops_of(mapping), _kept(mapping)
    lines: list[str] = []
    depth = 0
    for node in architecture["nodes"].entries():
        name, is_fanout = node["name"].text(), node["type"].text() == "fanout"
        own = loops.get((name, is_fanout), ())
        verb = "lets pass" if node.get("tolls") else "keeps"
        head = f"{name}:" if is_fanout else f"{name} {verb} {kept.get(name) or 'nothing'}:"
        lines += [] if is_fanout and not own else [f"{STEP * depth}{head}"]
        lines += [f"{STEP * (depth + 1 + step)}{loop.text}" for step, loop in enumerate(own)]
        depth += len(own) + bool(own)
    return [*lines, f"{STEP * depth}{architecture['compute']['name'].text()}: {einsum}"]
