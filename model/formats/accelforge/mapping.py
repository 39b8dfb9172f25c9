"""AccelForge's mapping trees: per Einsum the loops and tiles on the way to its compute, read and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from model.text.fields import (
    add_once,
    as_bool,
    as_int,
    as_mapping,
    as_name,
    as_sequence,
    check_keys,
    given,
    keyed_mapping,
)
from model.text.source import MappingNode, Node, SequenceNode, Span, SpecError
from model.text.writing import quoted_name
from model.wording import suggestion

MAPPING_SECTION = "mapping"
DEEPEST_SPLIT = 1_000
MOST_STEPS = 1_000_000
"""On all paths together."""

_LOOP_KEYS = ("rank_variable", "tile_shape", "initial_tile_shape")
_KEYS: dict[str, tuple[str, ...]] = {
    "Storage": ("tensors", "component", "persistent"),
    "Toll": ("tensors", "component"),
    "Temporal": _LOOP_KEYS,
    "Spatial": (*_LOOP_KEYS, "name", "component"),
    "Compute": ("einsum", "component"),
    "Sequential": ("nodes",),
    "Nested": ("nodes",),
    "Reservation": ("purposes", "resource", "persistent"),
    "TextBox": ("text",),
}
_BRANCHES = ("Sequential", "Nested")
_IDLE = ("Reservation", "TextBox")
"""Nodes that AccelForge's model makes itself, or only draws."""

_REFUSED = {
    "Pipeline": "Einsums that run at the same time; here they run one after the other",
    "Parallel": "Einsums that run at the same time; here they run one after the other",
}


@dataclass(frozen=True, slots=True)
class TileNode:
    """A tensor in a component: the tile that stands there, or what passes a toll.

    Parameters
    ----------
    group
        Of mappings to be written: a number if it stands above the private nest of its Einsum. What is equal
        on several paths is written once.
    """

    tensor: str
    component: str
    is_toll: bool = False
    persistent: bool = False
    group: int | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class TiledLoop:
    """A loop by the extent that it leaves below; spatial ones have their fanout, ``NODE.DIMENSION``.

    Several variables stand for one loop that the Einsums below name differently. `group` as of tiles.
    """

    variables: tuple[str, ...]
    tile: int
    fanout: str | None = None
    group: int | None = None
    span: Span | None = None


Step = TileNode | TiledLoop


@dataclass(frozen=True)
class NestPath:
    """All that stands above the compute of one Einsum, outermost first."""

    einsum: str
    compute: str
    steps: tuple[Step, ...]
    span: Span | None = None

    @property
    def tensors(self) -> frozenset[str]:
        """The tensors that have tiles on the path."""
        return frozenset(step.tensor for step in self.steps if isinstance(step, TileNode))


def read_paths(section: Node) -> dict[str, NestPath]:
    """Read the section ``mapping`` of AccelForge.

    Returns
    -------
    dict
        The path of each Einsum, by name.

    Raises
    ------
    SpecError
        For what is no mapping tree, or not modelled. Whether it is one of a workload is not checked.
    """
    root = keyed_mapping(section, "`mapping`", ("nodes", "title", "type"), ("nodes",))
    places: dict[str, Span] = {}
    paths: dict[str, NestPath] = {}
    steps = 0
    for path in _nest_paths(root, (), 0):
        add_once(places, path.einsum, path.span or root.span, f"the Einsum `{path.einsum}` is mapped twice")
        paths[path.einsum] = path
        steps += len(path.steps)
        if steps > MOST_STEPS:
            raise SpecError(f"a mapping of more than {MOST_STEPS:,} nodes", root.span)
    return paths


def _nest_paths(branch: MappingNode, above: tuple[Step, ...], level: int) -> Iterator[NestPath]:
    """Yield the paths below a list of nodes, each of which stands above the next."""
    if level > DEEPEST_SPLIT:
        raise SpecError(f"more than {DEEPEST_SPLIT} nested nodes", branch.span)
    steps = list(above)
    items = as_sequence(branch.require("nodes", "a branch of a mapping"), "`nodes`").items
    for place, item in enumerate(items):
        kind, node = _tagged_node(item)
        is_end = kind in (*_BRANCHES, "Compute")
        if is_end and place + 1 < len(items):
            message = f"nodes below a `!{kind}` that are not inside of it"
            raise SpecError(message, items[place + 1].span, ((node.span, f"the `!{kind}`"),))
        if kind in _IDLE:
            continue
        if not is_end:
            steps += _tile_nodes(kind, node) if kind in ("Storage", "Toll") else [_tiled_loop(kind, node)]
        elif kind == "Sequential":
            yield from _sequential_paths(node, tuple(steps), level)
            return
        elif kind == "Nested":
            yield from _nest_paths(node, tuple(steps), level + 1)
            return
        else:
            yield _path_to_compute(node, tuple(steps))
            return
    raise SpecError("a branch of a mapping ends without a `!Compute`", branch.span)


def _sequential_paths(node: MappingNode, above: tuple[Step, ...], level: int) -> Iterator[NestPath]:
    for item in as_sequence(node.require("nodes", "`!Sequential`"), "`nodes`").items:
        kind, child = _tagged_node(item)
        if kind not in _BRANCHES:
            raise SpecError(f"`!{kind}` right below a `!Sequential`", item.span, hint="put it in a `!Nested`")
        below = (
            _sequential_paths(child, above, level + 1)
            if kind == "Sequential"
            else _nest_paths(child, above, level + 1)
        )
        yield from below


def _tagged_node(item: Node) -> tuple[str, MappingNode]:
    """Return what a node is, by its tag or its key ``type``, and the node with known keys only."""
    written = item.get("type") if isinstance(item, MappingNode) else None
    if item.tag is None and written is None:
        raise SpecError("a node of a mapping has no type", item.span, hint="such as `!Storage` before it")
    kind = item.tag.removeprefix("!") if item.tag is not None else as_name(written or item, "`type`")
    place = item.span if written is None else written.span
    if kind in _REFUSED:
        raise SpecError(f"`!{kind}` is not modelled: {_REFUSED[kind]}", place)
    if kind not in _KEYS:
        hint = suggestion(kind, _KEYS, "known nodes are")
        raise SpecError(f"unknown node `!{kind}` of a mapping", place, hint=hint)
    node = as_mapping(item, f"`!{kind}`")
    check_keys(node, (*_KEYS[kind], "type", "text"), f"`!{kind}`", _KEYS[kind])
    return kind, node


def _tile_nodes(kind: str, node: MappingNode) -> Iterator[TileNode]:
    what = f"`!{kind}`"
    component = as_name(node.require("component", what), f"`component` of {what}")
    written = given(node, "persistent")
    persistent = written is not None and as_bool(written, "`persistent`")
    places: dict[str, Span] = {}
    for item in as_sequence(node.require("tensors", what), f"`tensors` of {what}").items:
        tensor = as_name(item, "a tensor")
        add_once(places, tensor, item.span, f"`{tensor}` is listed twice")
        yield TileNode(tensor, component, kind == "Toll", persistent, span=item.span)


def _tiled_loop(kind: str, node: MappingNode) -> TiledLoop:
    what = f"`!{kind}`"
    written = node.require("rank_variable", what)
    items = written.items if isinstance(written, SequenceNode) else (written,)
    variables = tuple(as_name(item, "a rank variable") for item in items)
    tile = as_int(node.require("tile_shape", what), "`tile_shape`", minimum=1)
    initial = given(node, "initial_tile_shape")
    if initial is not None and as_int(initial, "`initial_tile_shape`", minimum=1) != tile:
        message = "`initial_tile_shape`: a loop whose first tile is larger is not modelled in this form"
        hint = "docs/fusion.md has a form for shared loops over windows"
        raise SpecError(message, node.key("initial_tile_shape").span, hint=hint)
    fanout = None
    if kind == "Spatial":
        parts = (as_name(node.require(key, what), f"`{key}` of {what}") for key in ("component", "name"))
        fanout = ".".join(parts)
    return TiledLoop(variables, tile, fanout, span=node.span)


def _path_to_compute(node: MappingNode, steps: tuple[Step, ...]) -> NestPath:
    einsum = as_name(node.require("einsum", "`!Compute`"), "`einsum`")
    compute = as_name(node.require("component", "`!Compute`"), "`component` of `!Compute`")
    return NestPath(einsum, compute, steps, node.span)


Branch = NestPath | Sequence["Branch"]
"""Paths that share loops, in groups."""


def mapping_text(paths: Sequence[NestPath]) -> str:
    """Return the section ``mapping`` of Einsums in their order, as AccelForge's `evaluate_mapping` reads it.

    What all paths begin with, and has the number of a group, stands above the split.
    """
    used = {path.einsum: path.tensors for path in paths}
    return "\n".join([f"{MAPPING_SECTION}:", "  nodes:", *_tree_lines(list(paths), used, "  ")]) + "\n"


def _tree_lines(paths: list[NestPath], used: Mapping[str, frozenset[str]], blanks: str) -> Iterator[str]:
    trunk, rest = _trunk(paths, used)
    yield from _step_lines(trunk, blanks)
    if len(rest) == 1:
        (path,) = rest
        yield from _step_lines(path.steps, blanks)
        names = f"einsum: {quoted_name(path.einsum)}, component: {quoted_name(path.compute)}"
        yield f"{blanks}- !Compute {{{names}}}"
        return
    yield f"{blanks}- !Sequential"
    yield f"{blanks}  nodes:"
    groups = list(_same_heads(rest))
    for group in groups if len(groups) > 1 else [[path] for path in rest]:
        yield f"{blanks}  - !Nested"
        yield f"{blanks}    nodes:"
        yield from _tree_lines(group, used, f"{blanks}    ")


def _trunk(paths: list[NestPath], used: Mapping[str, frozenset[str]]) -> tuple[list[Step], list[NestPath]]:
    """Return the shared steps that all paths begin with, and the paths without them.

    A tile may stand above Einsums that do not use its tensor.
    """
    if len(paths) == 1:
        return [], paths
    trunk: list[Step] = []
    left = [list(path.steps) for path in paths]
    while step := _common_step(left, [used[path.einsum] for path in paths]):
        trunk.append(step)
        for steps in (own for own in left if own[:1] == [step]):
            del steps[0]
    return trunk, [replace(path, steps=tuple(steps)) for path, steps in zip(paths, left, strict=True)]


def _common_step(left: list[list[Step]], users: list[frozenset[str]]) -> Step | None:
    heads = [steps[0] if steps else None for steps in left]
    for head in heads:
        if not isinstance(head, TileNode) or head.group is None:
            continue
        if all(other == head or head.tensor not in used for other, used in zip(heads, users, strict=True)):
            return head
    head = heads[0]
    is_loop = isinstance(head, TiledLoop) and head.group is not None and all(other == head for other in heads)
    return head if is_loop else None


def _same_heads(paths: list[NestPath]) -> Iterator[list[NestPath]]:
    """Yield neighbours that begin with the same shared loop or tile together."""
    group: list[NestPath] = []
    for path in paths:
        if group and not (_begins(path) and _begins(path) & _begins(group[-1])):
            yield group
            group = []
        group.append(path)
    yield group


def _begins(path: NestPath) -> set[Step]:
    """Return the shared tiles and the first shared loop that a path begins with."""
    found: set[Step] = set()
    for step in path.steps:
        if step.group is None:
            break
        found.add(step)
        if isinstance(step, TiledLoop):
            break
    return found


def _step_lines(steps: Sequence[Step], blanks: str) -> Iterator[str]:
    """Yield a line per loop, and one for neighbouring tiles of one component."""
    for kind, own in groupby(steps, _kind_of_line):
        if isinstance(kind, TiledLoop):
            yield from (f"{blanks}- {_loop_text(kind)}" for _ in own)
            continue
        component, is_toll, persistent = kind
        tensors = ", ".join(quoted_name(step.tensor) for step in own if isinstance(step, TileNode))
        text = f"tensors: [{tensors}], component: {quoted_name(component)}"
        further = ", persistent: true" if persistent else ""
        yield f"{blanks}- !{'Toll' if is_toll else 'Storage'} {{{text}{further}}}"


def _kind_of_line(step: Step) -> TiledLoop | tuple[str, bool, bool]:
    """Return what the steps of one line have in common."""
    return step if isinstance(step, TiledLoop) else (step.component, step.is_toll, step.persistent)


def _loop_text(loop: TiledLoop) -> str:
    (variable,) = loop.variables
    text = f"rank_variable: {quoted_name(variable)}, tile_shape: {loop.tile}"
    if loop.fanout is None:
        return f"!Temporal {{{text}}}"
    component, _, name = loop.fanout.partition(".")
    return f"!Spatial {{{text}, name: {quoted_name(name)}, component: {quoted_name(component)}}}"
