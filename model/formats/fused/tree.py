"""The section ``fused_mapping``: a tree of items in the order in which they stand, outermost first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from model.architecture import Architecture, Fanout, StorageLevel
from model.fused.cascade import Cascade, CascadeEinsum
from model.fused.mapping import (
    Body,
    FusedMapping,
    Held,
    Leaf,
    LeafPath,
    PrivateNest,
    SharedLoop,
    Stored,
    leaves,
    nest_in_order,
)
from model.mapping import Axis, FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.text.fields import (
    add_once,
    as_bool,
    as_int,
    as_mapping,
    as_sequence,
    check_keys,
    keyed_mapping,
    known_name,
    name_list,
)
from model.text.source import MappingNode, Node, Span, SpecError
from model.text.writing import quoted_name
from model.wording import listing

SECTION = "fused_mapping"
DEEPEST = 100
"""Bodies in bodies, at most."""

_ITEM_KEYS: dict[str, tuple[str, ...]] = {
    "body": ("body",),
    "loop": ("loop", "trips"),
    "store": ("store", "memory"),
    "hold": ("hold", "einsum", "keeps_overlap"),
    "einsum": ("einsum", "nest", "nests"),
}
_NEST_KEYS: dict[str, tuple[str, ...]] = {
    "bounds": ("bounds",),
    "loop": ("loop", "trips"),
    "keep": ("keep", "memory"),
    "fanout": ("fanout", "loops"),
}
_AXES: tuple[Axis, ...] = ("x", "y")


@dataclass
class _FusedReader:
    """What is found on the way down: everything is added to it with its place."""

    cascade: Cascade
    stored: list[Stored] = field(default_factory=list)
    held: dict[str, list[Held]] = field(default_factory=dict)
    places: dict[int, Span] = field(default_factory=dict)
    seen: dict[str, Span] = field(default_factory=dict)

    def placed(self, part: Body | Leaf | SharedLoop | Stored | Held | PrivateNest, node: Node) -> None:
        """Remember where a part of the mapping is written."""
        self.places[id(part)] = node.span


def read_fused_tree(node: Node, cascade: Cascade) -> tuple[FusedMapping, dict[int, Span]]:
    """Read a fused mapping of a cascade.

    Returns
    -------
    tuple
        The mapping, and where its parts are written, by their identities.

    Raises
    ------
    SpecError
        For every kind of bad input. Whether the mapping is one of the cascade is not checked.
    """
    reader = _FusedReader(cascade)
    children = _read_items(reader, node, (), 0)
    mapping = FusedMapping(tuple(children), tuple(reader.stored))
    reader.places[id(mapping)] = node.span
    return mapping, reader.places


def _read_items(
    reader: _FusedReader, node: Node, above: Sequence[SharedLoop], level: int
) -> list[Body | Leaf]:
    """Read a list of items; loops go before what is below them."""
    if level > DEEPEST:
        raise SpecError(f"more than {DEEPEST} nested fused groups", node.span)
    loops, children = list(above), list[Body | Leaf]()
    places: list[tuple[set[str], MappingNode]] = []
    for item in as_sequence(node, "a list of loops, stored tensors, held tiles and Einsums").items:
        kind, entry = _kind_by_key(item, _ITEM_KEYS, "an item")
        if kind in ("loop", "store", "hold") and children:
            hint = "loops, stored tensors and held tiles come before the items below them"
            raise SpecError(f"`{kind}` after an Einsum", entry.span, hint=hint)
        if kind == "loop" and level == 0:
            raise SpecError("a shared loop outside a fused group", entry.span, hint="put it in a `body`")
        if kind == "loop":
            loops.append(_read_loop(reader, entry))
        elif kind == "store":
            places.append((_read_stored(reader, entry, len(loops)), entry))
        elif kind == "hold":
            places.append((_read_held(reader, entry, len(loops)), entry))
        elif kind == "einsum":
            children.append(_read_leaf(reader, entry))
        else:
            children.append(_read_body(reader, entry, loops, level))
    below = {leaf.einsum for child in children for leaf in leaves(child)}
    for names, entry in places:
        _check_below(names - below, entry, level)
    return children if level == 0 else [_body(reader, loops[len(above) :], children, node)]


def _check_below(missing: set[str], entry: MappingNode, level: int) -> None:
    """Check that the Einsums that a place is for are in its body, whose loops it counts."""
    if missing and level:
        hint = "put it into the fused group (`body`) of all Einsums that use the tile"
        raise SpecError(f"{listing(sorted(missing))} is not in this fused group", entry.span, hint=hint)


def _body(reader: _FusedReader, loops: list[SharedLoop], children: list[Body | Leaf], node: Node) -> Body:
    body = Body(tuple(loops), tuple(children))
    reader.placed(body, node)
    return body


def _read_body(reader: _FusedReader, entry: MappingNode, loops: list[SharedLoop], level: int) -> Body:
    (body,) = _read_items(reader, entry.require("body"), loops, level + 1)
    assert isinstance(body, Body)
    return body


def _kind_by_key(item: Node, kinds: dict[str, tuple[str, ...]], what: str) -> tuple[str, MappingNode]:
    entry = as_mapping(item, what)
    kind = next((name for name in kinds if name in entry), None)
    if kind is None:
        raise SpecError(f"{what} has one of the keys {listing(kinds)}", entry.span)
    check_keys(entry, kinds[kind], f"an item with `{kind}`")
    return kind, entry


def _read_loop(reader: _FusedReader, entry: MappingNode) -> SharedLoop:
    over = as_mapping(entry.require("loop"), "`loop`, a rank variable for each Einsum,")
    names = [einsum.name for einsum in reader.cascade.einsums]
    dims: list[tuple[str, str]] = []
    for key, value in over.entries:
        einsum = known_name(key, names, "Einsum")
        problem = reader.cascade.einsums[names.index(einsum)].problem
        dims.append((einsum, known_name(value, problem.dims, f"rank variable of `{einsum}`")))
    loop = SharedLoop(as_int(entry.require("trips", "a loop"), "`trips`", minimum=1), tuple(dims))
    reader.placed(loop, entry)
    return loop


def _read_stored(reader: _FusedReader, entry: MappingNode, depth: int) -> set[str]:
    """Read where a tensor is stored; return the Einsums that access it."""
    tensor = known_name(entry.require("store"), reader.cascade.users, "tensor")
    einsum = reader.cascade.einsums[reader.cascade.users[tensor][0]]
    memory = known_name(entry.require("memory", "a stored tensor"), _memories(einsum), "memory")
    stored = Stored(tensor, memory, depth)
    reader.stored.append(stored)
    reader.placed(stored, entry)
    return {reader.cascade.einsums[user].name for user in reader.cascade.users[tensor]}


def _read_held(reader: _FusedReader, entry: MappingNode, depth: int) -> set[str]:
    """Read where a tile is held; return its Einsum."""
    names = [einsum.name for einsum in reader.cascade.einsums]
    name = known_name(entry.require("einsum", "a held tile"), names, "Einsum")
    spaces = [access.dataspace for access in reader.cascade.einsums[names.index(name)].accesses]
    keeps_overlap = entry.get("keeps_overlap")
    held = Held(
        known_name(entry.require("hold"), spaces, f"dataspace of `{name}`"),
        depth,
        keeps_overlap is not None and as_bool(keeps_overlap, "`keeps_overlap`"),
    )
    reader.held.setdefault(name, []).append(held)
    reader.placed(held, entry)
    return {name}


def _read_leaf(reader: _FusedReader, entry: MappingNode) -> Leaf:
    names = [einsum.name for einsum in reader.cascade.einsums]
    name = known_name(entry.require("einsum"), names, "Einsum")
    add_once(reader.seen, name, entry.span, f"the Einsum `{name}` appears twice in the tree")
    einsum = reader.cascade.einsums[names.index(name)]
    if "nest" in entry and "nests" in entry:
        raise SpecError("give either `nest` or `nests`", entry.key("nests").span)
    written = [entry.require("nest")] if "nest" in entry else []
    if "nests" in entry:
        written += as_sequence(entry.require("nests"), "`nests`").items
    nests = tuple(_read_nest(reader, einsum, node) for node in written)
    leaf = Leaf(name, nests, tuple(reader.held.get(name, ())))
    reader.placed(leaf, entry)
    return leaf


def _memories(einsum: CascadeEinsum) -> list[str]:
    return [level.name for level in einsum.mapspace.architecture.levels if not level.tolls]


def _unnamed(node: StorageLevel | Fanout) -> NodeMapping:
    """Return the entry of a node that a nest does not name: what pays a toll passes it in any case."""
    if isinstance(node, Fanout):
        return FanoutMapping()
    return StorageMapping((), frozenset(dict(node.tolls)))


def _own_order(einsum: CascadeEinsum, items: Sequence[MappingNode]) -> tuple[str, ...] | None:
    """Return the memories of a nest's places if they are not in the order of the hardware."""
    memories = _memories(einsum)
    named = [item.require("memory", "a tile") for item in items if "keep" in item]
    order = tuple(known_name(name, memories, "memory") for name in named)
    in_hardware = sorted(order, key=memories.index) == list(order)
    return None if in_hardware or memories[0] in order else order


@dataclass
class _NestReader:
    """A walk along the architecture's nodes: each `keep` opens a place, and loops belong to the last one."""

    einsum: CascadeEinsum
    outside: frozenset[str]
    order: tuple[str, ...] | None = None
    across: dict[str, FanoutMapping] = field(default_factory=dict)
    nodes: list[NodeMapping] = field(init=False)
    at: int = 0
    opened: bool = False
    places: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, int] | None = None

    def __post_init__(self) -> None:
        """Begin at the outermost memory, which keeps what is not stored on chip."""
        self.nodes = [StorageMapping((), self.outside)]

    @property
    def architecture(self) -> Architecture:
        return self.einsum.mapspace.architecture

    @property
    def is_free(self) -> bool:
        """Whether memories are in an order of the nest's own."""
        return self.order is not None

    def limit(self, entry: MappingNode) -> None:
        """Read the extents in the visits that the nest is for."""
        is_first = len(self.nodes) == 1 and self.nodes[0] == StorageMapping((), self.outside)
        if self.bounds is not None or not is_first:
            raise SpecError("`bounds` must come first in a nest, and only once", entry.span)
        what, dims = f"rank variable of `{self.einsum.name}`", self.einsum.problem.dims
        given = as_mapping(entry.require("bounds"), "`bounds`")
        self.bounds = {
            known_name(key, dims, what): as_int(value, "a bound", minimum=1) for key, value in given.entries
        }

    def open(self, entry: MappingNode) -> None:
        """Open a place of a memory: a further one if it is the memory of the last one."""
        memory = known_name(entry.require("memory", "a tile"), _memories(self.einsum), "memory")
        spaces = [access.dataspace for access in self.einsum.accesses]
        names = frozenset(name_list(entry.require("keep"), spaces, f"dataspace of `{self.einsum.name}`"))
        if memory == self.architecture.levels[0].name:
            raise SpecError(
                f"`{memory}` keeps everything that is not stored on chip: leave it out", entry.span
            )
        if self.is_free:
            self.nodes.append(StorageMapping((), names))
            return
        if self.opened and self.architecture.nodes[self.at].name == memory:
            self.places[memory] = self.places.get(memory, 1) + 1
            self.nodes.append(StorageMapping((), names))
            return
        self._go_to(memory, entry)
        self.nodes.append(StorageMapping((), names))
        self.opened = True

    def spread(self, entry: MappingNode) -> None:
        """Read the spatial loops of a fanout."""
        fanouts = [fanout.name for fanout in self.architecture.fanouts]
        name = known_name(entry.require("fanout"), fanouts, "fanout")
        items = as_sequence(entry.require("loops", "a fanout"), "`loops`").items
        loops = FanoutMapping(tuple(reversed([self._spatial(item) for item in items])))
        if self.is_free:
            if name in self.across:
                raise SpecError(f"the fanout `{name}` stands in the nest twice", entry.span)
            self.across[name] = loops
            return
        self._go_to(name, entry)
        self.nodes.append(loops)
        self.opened = False

    def _spatial(self, item: Node) -> SpatialLoop:
        entry = keyed_mapping(item, "a spatial loop", ("loop", "trips", "axis"))
        loop = self._loop(entry)
        axis = known_name(entry.get("axis") or entry.require("axis", "a spatial loop"), _AXES, "axis")
        return SpatialLoop(loop.dim, loop.bound, "x" if axis == "x" else "y")

    def loop(self, entry: MappingNode) -> None:
        """Add a temporal loop inside of those before."""
        last = self.nodes[-1]
        if not isinstance(last, StorageMapping):
            raise SpecError("a temporal loop must follow the `keep` of its memory", entry.span)
        self.nodes[-1] = replace(last, temporal=(self._loop(entry), *last.temporal))

    def _loop(self, entry: MappingNode) -> Loop:
        what = f"rank variable of `{self.einsum.name}`"
        dim = known_name(entry.require("loop"), self.einsum.problem.dims, what)
        return Loop(dim, as_int(entry.require("trips", "a loop"), "`trips`", minimum=1))

    def _go_to(self, name: str, entry: MappingNode) -> None:
        names = [node.name for node in self.architecture.nodes]
        target = names.index(name)
        if target <= self.at:
            raise SpecError(f"`{name}` lies outside `{names[self.at]}`", entry.span)
        for node in self.architecture.nodes[self.at + 1 : target]:
            self.nodes.append(_unnamed(node))
        self.at = target

    def finish(self) -> PrivateNest:
        """Return the nest, with nothing at the nodes that are left."""
        bounds = None if self.bounds is None else tuple(self.bounds.items())
        if self.order is not None:
            stores = [own for own in self.nodes if isinstance(own, StorageMapping)]
            memories = (self.architecture.levels[0].name, *self.order)
            return nest_in_order(
                self.architecture, [*zip(memories, stores, strict=True)], self.across, bounds
            )
        for node in self.architecture.nodes[self.at + 1 :]:
            self.nodes.append(_unnamed(node))
        return PrivateNest(Mapping(tuple(self.nodes)), tuple(self.places.items()), bounds)


def _read_nest(reader: _FusedReader, einsum: CascadeEinsum, node: Node) -> PrivateNest:
    stored = {stored.tensor for stored in reader.stored}
    outside = (access.dataspace for access in einsum.accesses if access.tensor not in stored)
    items = [
        _kind_by_key(item, _NEST_KEYS, "an item of a nest") for item in as_sequence(node, "a nest").items
    ]
    walk = _NestReader(einsum, frozenset(outside), _own_order(einsum, [entry for _, entry in items]))
    for kind, entry in items:
        {"bounds": walk.limit, "loop": walk.loop, "keep": walk.open, "fanout": walk.spread}[kind](entry)
    nest = walk.finish()
    reader.placed(nest, node)
    return nest


def fused_yaml(cascade: Cascade, mapping: FusedMapping) -> str:
    """Return a fused mapping as YAML that reads as the same mapping."""
    writer = _Writer(cascade, mapping)
    lines = [f"{SECTION}:", *writer.places(None, 0)]
    for child in mapping.children:
        lines += writer.part(child, "")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Writer:
    cascade: Cascade
    mapping: FusedMapping

    def part(self, child: Body | Leaf, blanks: str) -> Iterator[str]:
        """Yield the lines of a part of the tree."""
        if isinstance(child, Leaf):
            yield from self._leaf(child, blanks)
            return
        number, depth = next(
            (number, depth) for number, (body, depth) in enumerate(self.mapping.bodies) if body is child
        )
        yield f"{blanks}- body:"
        for trip, loop in enumerate(child.loops, 1):
            dims = ", ".join(f"{quoted_name(einsum)}: {quoted_name(dim)}" for einsum, dim in loop.dims)
            yield f"{blanks}  - {{loop: {{{dims}}}, trips: {loop.trips}}}"
            yield from (f"{blanks}  {line}" for line in self.places(number, depth + trip))
        for below in child.children:
            yield from self.part(below, f"{blanks}  ")

    def places(self, body: int | None, depth: int) -> Iterator[str]:
        """Yield what is stored and held below `depth` loops, the last one being of a body."""
        for path in (path for path in self.mapping.paths if _stands_in(path, body, depth)):
            einsum = quoted_name(path.leaf.einsum)
            for held in (own for own in path.leaf.held if own.depth == depth):
                overlap = ", keeps_overlap: true" if held.keeps_overlap else ""
                yield f"- {{hold: {quoted_name(held.dataspace)}, einsum: {einsum}{overlap}}}"
        for stored in self.mapping.stored:
            path = self.mapping.paths[self.cascade.users[stored.tensor][0]]
            if stored.depth == depth and _stands_in(path, body, depth):
                yield f"- {{store: {quoted_name(stored.tensor)}, memory: {quoted_name(stored.memory)}}}"

    def _leaf(self, leaf: Leaf, blanks: str) -> Iterator[str]:
        einsum = self.cascade.einsums[self.cascade.place(leaf.einsum)]
        yield f"{blanks}- einsum: {quoted_name(leaf.einsum)}"
        written = [list(_nest_lines(einsum, nest)) for nest in leaf.nests]
        if len(written) == 1:
            yield f"{blanks}  nest:{'' if written[0] else ' []'}"
            yield from (f"{blanks}  - {line}" for line in written[0])
        elif written:
            yield f"{blanks}  nests:"
        for lines in written if len(written) > 1 else ():
            yield f"{blanks}  - {f'- {lines[0]}' if lines else '[]'}"
            yield from (f"{blanks}    - {line}" for line in lines[1:])


def _stands_in(path: LeafPath, body: int | None, depth: int) -> bool:
    """Whether a place below `depth` loops of a leaf is in a body, None being outside of all."""
    if depth == 0:
        return body is None
    return depth <= len(path.bodies) and path.bodies[depth - 1] == body


def _nest_lines(einsum: CascadeEinsum, nest: PrivateNest) -> Iterator[str]:
    architecture = nest.placed(einsum.mapspace.architecture)
    spaces = [access.dataspace for access in einsum.accesses]
    if nest.bounds is not None:
        yield f"{{bounds: {{{', '.join(f'{quoted_name(dim)}: {size}' for dim, size in nest.bounds)}}}}}"
    for position, (node, entry) in enumerate(zip(architecture.nodes, nest.mapping.nodes, strict=True)):
        if isinstance(entry, FanoutMapping):
            loops = ", ".join(
                f"{{loop: {quoted_name(loop.dim)}, trips: {loop.bound}, axis: '{loop.axis}'}}"
                for loop in reversed(entry.spatial)
            )
            yield from [f"{{fanout: {quoted_name(node.name)}, loops: [{loops}]}}"] if loops else []
            continue
        assert isinstance(node, StorageLevel)
        if position and not node.tolls and (entry.keep or entry.temporal):
            names = ", ".join(quoted_name(name) for name in spaces if name in entry.keep)
            yield f"{{keep: [{names}], memory: {quoted_name(node.component)}}}"
        yield from (
            f"{{loop: {quoted_name(loop.dim)}, trips: {loop.bound}}}" for loop in reversed(entry.temporal)
        )
