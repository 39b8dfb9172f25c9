"""The ``architecture`` section: a tree of branches and leaves, flattened outermost first, with attributes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from model.energy import AREA_SCALES, ESTIMATED_ATTRIBUTES, GIVEN_KEYS, dram_hint
from model.formats.timeloop.document import COMPONENT_TAGS, NODE_TAGS, check_version, refused_tag
from model.text.expressions import ExpressionText, evaluate_any
from model.text.fields import (
    NO_NAMES,
    Names,
    as_bool,
    as_int,
    as_mapping,
    as_name,
    as_sequence,
    check_count,
    check_keys,
    check_points,
    given,
    is_blank,
    keyed_mapping,
)
from model.text.limits import DEFAULT_LIMITS, LONGEST_CHAIN, Limits
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError
from model.wording import did_you_mean

_WORD = re.compile(r"[.'\"]?(?!(?<=\d)[eE][-+]?\d+\b)[A-Za-z_]\w*")
"""A word of an expression, but no exponent; one after a dot or a quotation mark is not a name."""
_OPERATORS = frozenset(("and", "else", "if", "in", "is", "not", "or"))
"""Words of expressions that name nothing."""
_OF_NODES = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\.(?:attributes|spatial|get_fanout)\b")
"""The node whose attributes or mesh an expression asks for."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An evaluated attribute."""

    value: object  # a scalar, or a plain list or dict of values
    node: Node  # the value's node, whose text gives numbers exactly; an expression's holds its value
    key: Span


Attributes = Mapping[str, Attribute]
NO_ATTRIBUTES: Attributes = MappingProxyType({})


def values_of(attributes: Attributes) -> dict[str, object]:
    """Return the attributes' values by name."""
    return {name: attribute.value for name, attribute in attributes.items()}


def read_attributes(
    node: MappingNode | None,
    inherited: Attributes,
    variables: Names,
    limits: Limits = DEFAULT_LIMITS,
    visible: Attributes | None = None,
    nodes: Names = NO_NAMES,
) -> dict[str, Attribute]:
    """Evaluate the attributes of a node over those it inherits, which come first.

    A plain scalar that reads as an expression over the node's own attributes, the visible ones (the
    inherited ones where none are given) and `variables` (in that order of precedence) is replaced by
    its value. Quoted text stays text, as does plain text that is no expression over known names (``45nm``).
    Expressions name `nodes` by ``buffer.attributes.width``, ``buffer.spatial.meshX`` and
    ``buffer.get_fanout()`` alone, as texts may well be the name of another node.
    """
    attributes = dict(inherited)
    if node is None:
        return attributes
    names = {*inherited, *node.keys()}
    check_count(list(names), limits.attributes, "attributes", node.span)
    outer = {**variables, **values_of(inherited if visible is None else visible)}
    resolver = _Resolver(node, outer, nodes)
    for key, value in node.entries:
        resolved = resolver.value(key.text)
        attributes[key.text] = Attribute(resolved, _node_of_value(value, resolved), key.span)
    return attributes


def _node_of_value(node: Node, value: object) -> Node:
    """Return the node of an evaluated attribute: its value replaces an expression."""
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str) or value == node.text:
        return node
    if not isinstance(value, (bool, int, float, str)):
        return node  # a list: what asks for one value says so
    return ScalarNode(value, str(value), isinstance(value, str), node.span, node.tag)


class _Resolver:
    """Evaluates the entries of one mapping, each after those it refers to."""

    def __init__(self, node: MappingNode, outer: Names, nodes: Names) -> None:
        self._node = node
        self._outer = outer
        self._nodes = nodes
        self._values: dict[str, object] = {}
        self._open: list[str] = []

    def value(self, name: str) -> object:
        if name in self._values:
            return self._values[name]
        node = self._node.get(name)
        assert node is not None
        if name in self._open:
            chain = " -> ".join((*self._open[self._open.index(name) :], name))
            raise SpecError(f"attributes depend on each other: {chain}", node.span)
        if len(self._open) >= LONGEST_CHAIN:
            message = f"attributes depend on each other in a chain of more than {LONGEST_CHAIN}"
            raise SpecError(message, node.span)
        self._open.append(name)
        self._values[name] = self._evaluate(name, node)
        self._open.pop()
        return self._values[name]

    def _evaluate(self, name: str, node: Node, inside: bool = False) -> object:
        """Return the value of an attribute, or of what stands `inside` of one."""
        if isinstance(node, SequenceNode):
            return [self._evaluate(name, item, inside=True) for item in node.items]
        if isinstance(node, MappingNode):
            return {key.text: self._evaluate(name, item, inside=True) for key, item in node.entries}
        assert isinstance(node, ScalarNode)
        if node.quoted or not isinstance(node.value, str):
            return node.value
        found = dict.fromkeys(_WORD.findall(node.text))
        words = [word for word in found if word not in _OPERATORS]
        asked = _OF_NODES.findall(node.text)
        # An attribute that names itself means the inherited one: `depth: depth * 2`.
        siblings = [word for word in words if word in self._node and word != name]
        names = {**self._outer, **{word: self.value(word) for word in siblings}}
        calls = "(" in node.text and not inside
        # `5 if 3 > 2 else 7` names nothing and is an expression; `10 in` is text.
        is_text = words or (found and not _is_expression(node.text))
        if is_text and not asked and not any(word in names for word in words) and not calls:
            return node.text
        return evaluate_any(node, {**self._nodes, **names} if asked else names)


def _is_expression(text: str) -> bool:
    """Whether a text has the form of an expression, whatever its names mean."""
    try:
        ExpressionText(text, None).parse()
    except SpecError:
        return False
    return True


def read_variables(node: MappingNode, limits: Limits = DEFAULT_LIMITS) -> dict[str, object]:
    """Evaluate the top-level ``variables``; each may use the others."""
    return values_of(read_attributes(node, NO_ATTRIBUTES, {}, limits))


Role = Literal["container", "storage", "compute", "nothing"]

STORAGE_WORDS = ("DRAM", "SRAM", "regfile", "smartbuffer", "storage", "register")
COMPUTE_WORDS = ("mac", "compute")
NETWORKS = ("XY_NoC", "Legacy", "ReductionTree", "SimpleMulticast")

_BRANCHES = ("!Hierarchical", "!Parallel")
_LEAVES = (*COMPONENT_TAGS, "!Container", "!Nothing")
POWER_GATING = "has_power_gating"
_LEAF_KEYS = ("name", "attributes", "spatial", "constraints", "sparse_optimizations", "enabled")
_CONTAINER_KEYS = (*_LEAF_KEYS, POWER_GATING)
_SCALES = ("energy_scale", *AREA_SCALES)
_COMPONENT_KEYS = (*_LEAF_KEYS, "class", "subclass", "required_actions", *_SCALES, *sorted(GIVEN_KEYS))
_ELSEWHERE = {
    **dict.fromkeys(ESTIMATED_ATTRIBUTES, "attributes"),
    **dict.fromkeys(("read_bandwidth", "write_bandwidth", "shared_bandwidth"), "attributes"),
    **dict.fromkeys(("block_size", "cluster_size", "multiple_buffering"), "attributes"),
    **dict.fromkeys(("dataspace", "temporal", "parallelism", "utilization"), "constraints"),
    **dict.fromkeys(("meshX", "meshY"), "spatial"),
}
"""What stands one level too far out, and where it is looked for."""
_NOTHING_KEYS = (*_LEAF_KEYS, "class", "subclass")


_ALTERNATIVES = "the nodes of both files are joined; `sweep --architectures` takes alternatives, file by file"


@dataclass(frozen=True, eq=False)
class ArchLeaf:
    """One leaf of the tree; leaves are compared by identity."""

    role: Role  # what it is to the cost model; a container is a level only if it has a fanout
    # Its name (unique) and where that is written
    name: str
    span: Span
    node: MappingNode
    attributes: Attributes = field(default_factory=dict)  # evaluated, inherited ones included
    # Names of the attributes that are written on the leaf itself
    own_attributes: frozenset[str] = frozenset()

    component_class: str = ""
    subclass: str | None = None
    # Fanout, and the node that says so
    mesh_x: int = 1
    mesh_y: int = 1
    spatial: MappingNode | None = None
    gate: str | None = None  # name of the innermost container around it that gates its power, if any

    @property
    def fanout(self) -> int:
        """Number of instances below one instance above."""
        return self.mesh_x * self.mesh_y

    def as_value(self) -> dict[str, object]:
        """Return what expressions of other nodes see of it."""
        mesh = {"meshX": self.mesh_x, "meshY": self.mesh_y}
        return {"attributes": values_of(self.attributes), "spatial": mesh}

    @property
    def fanout_place(self) -> Span:
        """Where the fanout is written, or the name of the node if it is not."""
        return self.span if self.spatial is None else self.spatial.span

    def mesh_place(self, key: str) -> Span:
        """Return where ``meshX`` or ``meshY`` is written, or the name of the node if it is not."""
        written = None if self.spatial is None else self.spatial.get(key)
        return self.span if written is None else written.span


@dataclass(frozen=True)
class Parallel:
    """A ``!Parallel``: one tuple of leaves for each of its branches, and whether it is inside another."""

    branches: tuple[tuple[ArchLeaf, ...], ...]
    span: Span
    nested: bool = False

    def holds(self, leaf: ArchLeaf) -> bool:
        """Whether `leaf` stands in one of the branches."""
        return any(leaf in branch for branch in self.branches)


@dataclass(frozen=True)
class Tree:
    """The flattened tree."""

    leaves: tuple[ArchLeaf, ...]  # all leaves in order, containers included
    parallels: tuple[Parallel, ...]  # the `!Parallel` branches, outer ones first
    span: Span
    name: str  # name of the architecture: its own, or that of the first container
    # Components and containers that are left out as they are not `enabled`: name and place
    disabled: tuple[tuple[str, Span], ...] = ()


@dataclass(frozen=True)
class _Scope:
    """What a leaf finds around it."""

    attributes: Attributes  # that it inherits
    visible: Attributes  # attributes that its expressions see
    variables: Names
    limits: Limits
    nodes: dict[str, object] = field(default_factory=dict)  # those above by name, added as they are read
    gate: str | None = None
    parallel: Span | None = None


@dataclass
class _TreeReader:
    """What was read so far; ``nodes`` are leaves and branches."""

    leaves: list[ArchLeaf] = field(default_factory=list)
    parallels: list[Parallel] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    disabled: list[tuple[str, Span]] = field(default_factory=list)


def read_tree(node: Node, variables: Names, limits: Limits = DEFAULT_LIMITS) -> Tree:
    """Read and flatten the ``architecture`` section; expressions in it may use `variables`."""
    section = as_mapping(node, "`architecture`")
    check_keys(section, ("version", "nodes", "name"), "`architecture`", ("nodes",))
    check_version(section)
    walk = _TreeReader()
    scope = _Scope(NO_ATTRIBUTES, NO_ATTRIBUTES, variables, limits)
    _read_nodes(section.require("nodes", "`architecture`"), scope, walk)
    check_points(math.prod(leaf.fanout for leaf in walk.leaves), limits, "the instances are", section.span)
    _check_distinct(walk.leaves)
    name_node = section.get("name")
    containers = (leaf.name for leaf in walk.leaves if leaf.role == "container")
    name = next(containers, "architecture") if name_node is None else as_name(name_node, "`name`")
    return Tree(tuple(walk.leaves), tuple(walk.parallels), section.span, name, tuple(walk.disabled))


def _read_nodes(node: Node, scope: _Scope, walk: _TreeReader) -> _Scope:
    """Read the nodes of a hierarchical branch, each in the scope that the one before it leaves."""
    for item in as_sequence(node, "`nodes`").items:
        scope = _read_node(item, scope, walk)
    return scope


def _read_node(item: Node, scope: _Scope, walk: _TreeReader) -> _Scope:
    """Read one node, a leaf or a branch, and return the scope of what follows it in a hierarchy.

    A container's attributes hold for what follows, and so does a gate of the power. Expressions see those
    of their own branch and of the branches around it.
    """
    check_count((*walk.nodes, item), scope.limits.components, "nodes", item.span)
    if item.tag in _BRANCHES:
        branch = keyed_mapping(item, f"`{item.tag}`", ("nodes", "name"), ("nodes",))
        nodes = branch.require("nodes", f"`{item.tag}`")
        walk.nodes.append(item)
        if item.tag == "!Parallel":
            _read_parallel(nodes, item.span, scope, walk)
            return scope
        last = _read_nodes(nodes, scope, walk)
        return replace(scope, attributes=last.attributes, gate=last.gate)
    leaf = _read_leaf(item, scope)
    if not isinstance(leaf, ArchLeaf):
        walk.disabled.append(leaf)
        return scope
    walk.nodes.append(item)
    walk.leaves.append(leaf)
    scope = replace(scope, gate=leaf.name) if _gates(leaf) else scope
    return scope if leaf.role != "container" else _scope_inside(leaf, scope)


def _read_parallel(nodes: Node, span: Span, scope: _Scope, walk: _TreeReader) -> None:
    place = len(walk.parallels)
    branches: list[tuple[ArchLeaf, ...]] = []
    inner = replace(scope, parallel=scope.parallel or span)
    for item in as_sequence(nodes, "`nodes`").items:
        start = len(walk.leaves)
        if item.tag == "!Container":
            hint = "put it into a `!Hierarchical` branch, or use `!Nothing` for data that bypasses the others"
            raise SpecError("a `!Container` cannot be a branch of `!Parallel`", item.span, hint=hint)
        _read_node(item, inner, walk)
        if len(walk.leaves) > start:
            branches.append(tuple(walk.leaves[start:]))
    walk.parallels.insert(place, Parallel(tuple(branches), span, scope.parallel is not None))


def _read_leaf(item: Node, scope: _Scope) -> ArchLeaf | tuple[str, Span]:
    if item.tag not in _LEAVES:
        _refuse_tag(item)
    is_bare = item.tag == "!Nothing" and is_blank(item)
    node = MappingNode((), item.span) if is_bare else as_mapping(item, f"`{item.tag}`")
    if item.tag == "!Nothing":
        check_keys(node, ("name", "constraints"), "`!Nothing`")
        written_name = node.get("name")
        text = "" if written_name is None else as_name(written_name, "`name`")
        return ArchLeaf("nothing", text, (written_name or node).span, node)
    known = _CONTAINER_KEYS if item.tag == "!Container" else _COMPONENT_KEYS
    required = ("name",) if item.tag == "!Container" else ("name", "class")
    check_keys(node, known, f"this `{item.tag}`", required, _ELSEWHERE)
    name_node = node.require("name", f"this `{item.tag}`")
    name = as_name(name_node, "`name`")
    enabled = node.get("enabled")
    if enabled is not None and not as_bool(enabled, "`enabled`", scope.variables):
        return name, enabled.span
    if "[" in name:
        hint = "the number of instances is written as `spatial: {meshX: ..., meshY: ...}`"
        raise SpecError(f"name `{name}` holds a range of instances", name_node.span, hint=hint)
    own_node = _own_attributes(node)
    attributes = read_attributes(
        own_node, scope.attributes, scope.variables, scope.limits, scope.visible, scope.nodes
    )
    leaf = ArchLeaf(
        role="container",
        name=name,
        span=name_node.span,
        node=node,
        attributes=attributes,
        own_attributes=frozenset(() if own_node is None else own_node.keys()),
        gate=scope.gate,
    )
    leaf = _with_mesh(leaf, scope)
    scope.nodes[leaf.name] = leaf.as_value()
    return leaf if item.tag == "!Container" else _with_class(leaf)


def _own_attributes(node: MappingNode) -> MappingNode | None:
    value = given(node, "attributes")
    if value is None:
        return None
    attributes = as_mapping(value, "`attributes`")
    for key, _ in attributes.entries:
        if key.text in ("meshX", "meshY"):
            hint = f"write `spatial: {{{key.text}: ...}}` on the node: instances per instance above"
            raise SpecError(f"`{key.text}` is not an attribute", key.span, hint=hint)
    return attributes


def _refuse_tag(item: Node) -> None:
    if item.tag is None:
        hint = f"write one of {', '.join(NODE_TAGS)} in front of it"
        raise SpecError("a node of the architecture needs a tag", item.span, hint=hint)
    if item.tag == "!Pipelined":
        raise SpecError("`!Pipelined` branches are not modelled", item.span)
    raise refused_tag(item)


def _with_mesh(leaf: ArchLeaf, scope: _Scope) -> ArchLeaf:
    value = given(leaf.node, "spatial")
    if value is None:
        return leaf
    spatial = keyed_mapping(value, "`spatial`", ("meshX", "meshY"))
    names = {**scope.nodes, **scope.variables, **values_of(leaf.attributes)}
    mesh = {
        key: as_int(size, f"`{key}`", names, minimum=1)
        for key in ("meshX", "meshY")
        if (size := spatial.get(key)) is not None
    }
    leaf = replace(leaf, mesh_x=mesh.get("meshX", 1), mesh_y=mesh.get("meshY", 1), spatial=spatial)
    if scope.parallel is not None and leaf.fanout > 1:
        related = ((scope.parallel, "the `!Parallel` branch"),)
        raise SpecError("a spatial fanout cannot be inside `!Parallel`", spatial.span, related)
    return leaf


def _with_class(leaf: ArchLeaf) -> ArchLeaf:
    class_node = leaf.node.require("class", f"component `{leaf.name}`")
    component_class = as_name(class_node, "`class`")
    value = given(leaf.node, "subclass")
    subclass = None if value is None else as_name(value, "`subclass`")
    role = role_of(component_class) or (None if subclass is None else role_of(subclass))
    if role is None and component_class in NETWORKS:
        message = f"networks, such as `{component_class}`, are not modelled"
        hint = "leave it out: traffic between levels costs the accesses of the levels"
        raise SpecError(message, class_node.span, hint=hint)
    if role is None:
        shown = component_class if subclass is None else f"{component_class}`, subclass `{subclass}"
        words = (
            f"a storage's class contains one of {', '.join(STORAGE_WORDS)}; "
            f"a compute unit's one of {', '.join(COMPUTE_WORDS)}"
        )
        similar = dram_hint(component_class) or did_you_mean(component_class, STORAGE_WORDS + COMPUTE_WORDS)
        hint = words if similar is None else f"{similar} {words}"
        message = f"class `{shown}` is neither a storage nor a compute unit"
        raise SpecError(message, class_node.span, hint=hint)
    if role == "nothing":
        _check_nothing(leaf)
    return replace(leaf, role=role, component_class=component_class, subclass=subclass)


def _check_nothing(leaf: ArchLeaf) -> None:
    """Raise a SpecError for what a component of the class ``nothing`` cannot have: a mesh, or a price."""
    for key, _ in leaf.node.entries:
        idle = key.text not in _NOTHING_KEYS and given(leaf.node, key.text) is not None
        if idle or (key.text == "spatial" and leaf.fanout > 1):
            message = f"`{key.text}` has no effect on `{leaf.name}`, which has the class `nothing`"
            hint = "put it on a container" if key.text == "spatial" else None
            raise SpecError(message, key.span, hint=hint)


def role_of(name: str) -> Role | None:
    """Return what components of a class are, None for neither a storage nor a compute unit."""
    if name == "nothing":
        return "nothing"
    if any(word in name for word in STORAGE_WORDS):
        return "storage"
    if any(word in name for word in COMPUTE_WORDS):
        return "compute"
    # Older files write compute units in upper case; a storage in another case is a slip.
    folded = name.casefold()
    is_storage = any(word.casefold() in folded for word in STORAGE_WORDS)
    return "compute" if not is_storage and any(word in folded for word in COMPUTE_WORDS) else None


def _scope_inside(container: ArchLeaf, scope: _Scope) -> _Scope:
    """Return the scope of what follows a container: its attributes, but not its own power gate."""
    attributes = {name: value for name, value in container.attributes.items() if name != POWER_GATING}
    of_container = {name: attributes[name] for name in container.own_attributes if name in attributes}
    return replace(scope, attributes=attributes, visible={**scope.visible, **of_container})


def _gates(leaf: ArchLeaf) -> bool:
    """Whether a container or a component gates the power of what follows it, as well as its own."""
    value = leaf.node.get(POWER_GATING)
    if value is None and POWER_GATING in leaf.own_attributes:
        value = leaf.attributes[POWER_GATING].node
    return value is not None and as_bool(value, f"`{POWER_GATING}`", values_of(leaf.attributes))


def _check_distinct(leaves: list[ArchLeaf]) -> None:
    seen: dict[str, Span] = {}
    for leaf in leaves:
        if not leaf.name:
            continue
        if leaf.name in seen:
            related = ((seen[leaf.name], "the first"),)
            hint = None if seen[leaf.name].file == leaf.span.file else _ALTERNATIVES
            raise SpecError(f"two nodes are named `{leaf.name}`", leaf.span, related, hint)
        seen[leaf.name] = leaf.span
