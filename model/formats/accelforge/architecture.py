"""The section ``arch`` as it is written: its nodes, whose keys are all known; nothing is evaluated yet."""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from model.formats.timeloop.document import with_entry
from model.formats.timeloop.overrides import AttributeSetting
from model.text.arithmetic import FUNCTIONS
from model.text.expressions import called_functions
from model.text.fields import (
    IDENTIFIER_HINT,
    add_once,
    as_bool,
    as_mapping,
    as_name,
    as_sequence,
    check_count,
    flat_items,
    given,
    items_of,
    keyed_mapping,
    kind_of,
)
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError, TakeNote, note_at
from model.wording import did_you_mean, suggestion

NodeKind = Literal["Memory", "Toll", "Compute", "Container"]

ARCH_SECTION = "arch"
BESIDE_ARCH = ("variables", "config", "mapper", "model", "mapping")
"""Sections that may stand beside the architecture."""

MOST_NODES = 200


def has_arch(top: MappingNode) -> bool:
    """Whether a file has an architecture of AccelForge; those of Timeloop's version 0.1 stand there too."""
    section = top.get(ARCH_SECTION)
    is_list = isinstance(section, MappingNode) and "storage" in section and "arithmetic" in section
    return section is not None and not is_list


_BRANCH_KEYS: Mapping[str, tuple[str, ...]] = {
    "Hierarchical": ("nodes",),
    "Fork": ("nodes", "forked_power_gateable", "non_forked_power_gateable"),
}
_REFUSED_NODES = {
    "Array": "a grid of nodes, each at its own distance, over which the tensors of a level are spread",
    "Network": "a network that is paid for every hop between two nodes",
}
_COMPONENT_KEYS = (
    "name",
    "component_class",
    "actions",
    "enabled",
    "area",
    "area_scale",
    "leak_power",
    "leak_power_scale",
    "energy_scale",
    "actions_scale",
    "total_latency",
    "throughput_scale",
    "latency_scale",
    "n_parallel_instances",
    "extra_attributes_for_component_model",
    "spatial",
)
_HOLDER_KEYS = (*_COMPONENT_KEYS, "tensors", "bits_per_value", "bits_per_action", "values_per_action")
_NODE_KEYS: Mapping[NodeKind, tuple[str, ...]] = {
    "Memory": (*_HOLDER_KEYS, "size", "skip_initial_output_write"),
    "Toll": (*_HOLDER_KEYS, "direction"),
    "Compute": (*_COMPONENT_KEYS, "skip_initial_output_write"),
    "Container": ("name", "spatial"),
}
_REQUIRED: Mapping[NodeKind, tuple[str, ...]] = {
    "Memory": ("name", "size"),
    "Toll": ("name", "direction"),
    "Compute": ("name",),
    "Container": ("name",),
}
_ACTION_KEYS = (
    "name",
    "energy",
    "energy_scale",
    "throughput",
    "throughput_scale",
    "latency",
    "latency_scale",
    "extra_attributes_for_component_model",
)
_HOLDER_ACTION_KEYS = (*_ACTION_KEYS, "bits_per_action", "values_per_action")
ACTIONS: Mapping[NodeKind, tuple[str, ...]] = {
    "Memory": ("read", "write"),
    "Toll": ("read",),
    "Compute": ("compute",),
    "Container": (),
}
FREE_ORDER_KEY = "force_memory_hierarchy_order"
"""Says of a memory, or of all, whether no tile in it lies above one in a memory outside of it."""

_TENSOR_KEYS = ("keep", "may_keep", FREE_ORDER_KEY)
_SPATIAL_KEYS = (
    "name",
    "fanout",
    "reuse",
    "may_reuse",
    "min_usage",
    "loop_bounds",
    "usage_scale",
    "power_gateable",
)
_COMPARISON_KEYS = ("expression", "operator", "value")

_MEANINGS = {
    "component_model": "a model in Python; specs never run code",
    "component_modeling_log": "AccelForge's own record of how it found the figures",
    "total_area": "what AccelForge calculates from `area` and the instances",
    "total_leak_power": "what AccelForge calculates from `leak_power` and the instances",
    "back": "that these tensors are stored here and nowhere further out; write it as `keep` here and leave "
    "them out of `keep` and `may_keep` of the nodes above",
    "tile_shape": "bounds on the tiles held here, which AccelForge itself reads and does not apply",
    "no_refetch_from_above": "that each value of these tensors comes from above once at most",
    "no_resend_to_below": "that each value of these tensors is handed down once at most",
    "tensor_order_options": "in which order the tensors' places may follow each other in the loop nest",
}
"""Keys of AccelForge that are refused, and what they would mean."""

_NAME = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class WrittenSpatial:
    """One dimension of a node's fanout."""

    name: str
    span: Span
    node: MappingNode
    loop_bounds: tuple[MappingNode, ...] = ()

    def get(self, key: str) -> Node | None:
        """Return what is written under a key, None where that is nothing."""
        return given(self.node, key)


@dataclass(frozen=True)
class WrittenNode:
    """A leaf of the architecture."""

    kind: NodeKind
    name: str
    span: Span  # of its name
    node: MappingNode
    spatial: tuple[WrittenSpatial, ...] = ()
    actions: tuple[tuple[str, MappingNode], ...] = ()  # those that are written, by name
    tensors: MappingNode | None = None

    def get(self, key: str) -> Node | None:
        """Return what is written under a key, None where that is nothing."""
        return given(self.node, key)

    def action(self, name: str) -> MappingNode | None:
        """Return what is written of an action, None where that is nothing."""
        return dict(self.actions).get(name)


@dataclass(frozen=True)
class WrittenFork:
    """Nodes beside the hierarchy, which matter only if their compute is the one that is used."""

    items: tuple[WrittenItem, ...]


WrittenItem = WrittenNode | WrittenFork


@dataclass(frozen=True)
class WrittenArchitecture:
    """The section ``arch``.

    Parameters
    ----------
    name
        For people: the file's.
    items
        Nodes and forks, outermost first.
    variables, attributes
        ``variables`` and ``extra_attributes_for_all_component_models``, in order, not evaluated.
    """

    name: str
    span: Span
    items: tuple[WrittenItem, ...]
    variables: tuple[tuple[ScalarNode, Node], ...] = ()
    attributes: tuple[tuple[ScalarNode, Node], ...] = ()

    def nodes(self) -> tuple[WrittenNode, ...]:
        """Return all leaves, those of forks included."""
        return tuple(_leaves(self.items))

    def chain(self, compute: str) -> tuple[WrittenNode, ...]:
        """Return the nodes on the way to a compute, which comes last; no other compute is among them."""
        return tuple(_nodes_above_compute(self.items, compute))


def _leaves(items: Iterable[WrittenItem]) -> Iterator[WrittenNode]:
    for item in items:
        if isinstance(item, WrittenFork):
            yield from _leaves(item.items)
        else:
            yield item


def _nodes_above_compute(items: Iterable[WrittenItem], compute: str) -> Iterator[WrittenNode]:
    for item in items:
        if any(leaf.name == compute for leaf in _leaves([item])):
            yield from _nodes_above_compute(item.items, compute) if isinstance(item, WrittenFork) else (item,)
            return
        if isinstance(item, WrittenNode) and item.kind != "Compute":
            yield item


def read_architecture(node: Node, name: str, note: TakeNote) -> WrittenArchitecture:
    """Read the section ``arch``; SpecError for whatever is not known, at its place."""
    keys = ("nodes", "variables", "extra_attributes_for_all_component_models")
    section = keyed_mapping(node, "`arch`", keys, ("nodes",))
    items = tuple(_written_items(section.require("nodes", "`arch`"), note))
    arch = WrittenArchitecture(
        name=name,
        span=section.span,
        items=items,
        variables=_section_entries(section, "variables"),
        attributes=_section_entries(section, "extra_attributes_for_all_component_models"),
    )
    leaves = arch.nodes()
    check_count(leaves, MOST_NODES, "nodes", section.span)
    _check_leaf_nodes(leaves, section.span)
    return arch


def _section_entries(section: MappingNode, key: str) -> tuple[tuple[ScalarNode, Node], ...]:
    value = given(section, key)
    return () if value is None else as_mapping(value, f"`{key}`").entries


def _check_leaf_nodes(leaves: Iterable[WrittenNode], span: Span) -> None:
    places: dict[str, Span] = {}
    kinds: dict[NodeKind, WrittenNode] = {}
    for leaf in leaves:
        add_once(places, leaf.name, leaf.span, f"two nodes are named `{leaf.name}`")
        kinds.setdefault(leaf.kind, leaf)
    for kind in ("Memory", "Compute"):
        if kind not in kinds:
            raise SpecError(f"`arch` has no `!{kind}`", span)


def _written_items(node: Node, note: TakeNote) -> Iterator[WrittenItem]:
    for item in flat_items(as_sequence(node, "`nodes`").items):
        kind = _tag_or_type(item)
        if kind == "Hierarchical":
            yield from _written_items(_branch(item, kind).require("nodes", "`!Hierarchical`"), note)
        elif kind == "Fork":
            yield WrittenFork(tuple(_written_items(_branch(item, kind).require("nodes", "`!Fork`"), note)))
        else:
            yield _leaf_node(as_mapping(item, f"`!{kind}`"), _leaf_kind(kind), note)


def _leaf_kind(kind: str) -> NodeKind:
    return next(known for known in _NODE_KEYS if known == kind)


def _tag_or_type(item: Node) -> str:
    """Return what a node is: its tag, or its key ``type``."""
    known = (*_NODE_KEYS, *_BRANCH_KEYS)
    written = item.get("type") if isinstance(item, MappingNode) else None
    if item.tag is None and written is None:
        hint = f"write `!Memory` before it; known are {', '.join(f'!{kind}' for kind in known)}"
        what = "a node" if isinstance(item, MappingNode) else kind_of(item)
        raise SpecError(f"{what} among `nodes` has no type", item.span, hint=hint)
    kind = item.tag.removeprefix("!") if item.tag is not None else as_name(written or item, "`type`")
    place = item.span if written is None else written.span
    if kind in _REFUSED_NODES:
        raise _refused_node(kind, place)
    if kind not in known:
        raise SpecError(
            f"unknown node `!{kind}`",
            place,
            hint=suggestion(kind, known, "known nodes are"),
        )
    return kind


def _branch(item: Node, kind: str) -> MappingNode:
    branch = keyed_mapping(item, f"`!{kind}`", (*_BRANCH_KEYS[kind], "type"), ("nodes",))
    for key in _BRANCH_KEYS[kind][1:]:
        value = given(branch, key)
        if value is not None and as_bool(value, f"`{key}`"):
            message = f"`{key}` is not modelled: power would be off in the branch that an Einsum does not use"
            raise SpecError(message, value.span)
    return branch


def _leaf_node(node: MappingNode, kind: NodeKind, note: TakeNote) -> WrittenNode:
    if kind == "Toll" and "size" in node:
        hint = "a `!Memory` stores data; a `!Toll` charges for data that passes"
        raise SpecError("a `!Toll` has no size: it stores nothing", node.key("size").span, hint=hint)
    what = f"`!{kind}`"
    if isinstance(given(node, "name"), ScalarNode):
        what = f"{what} `{as_name(node.require('name'), '`name`')}`"
    _check_keys(node, (*_NODE_KEYS[kind], "type"), what, _REQUIRED[kind])
    for key in _REQUIRED[kind]:
        node.require(key, what)
    name = _node_name(node.require("name", what), f"the name of a `!{kind}`")
    tensors = given(node, "tensors")
    if tensors is not None:
        _check_keys(as_mapping(tensors, "`tensors`"), _TENSOR_KEYS, f"`tensors` of `{name}`")
    return WrittenNode(
        kind=kind,
        name=name,
        span=node.require("name").span,
        node=node,
        spatial=tuple(_spatial_dimensions(given(node, "spatial"), name)),
        actions=tuple(_actions(given(node, "actions"), kind, name, note)),
        tensors=None if tensors is None else as_mapping(tensors, "`tensors`"),
    )


def _check_keys(node: MappingNode, known: Iterable[str], what: str, required: Iterable[str] = ()) -> None:
    """Check that all keys are known; those that AccelForge has and we refuse say what they would mean."""
    for key, _ in node.entries:
        if key.text in _MEANINGS:
            raise SpecError(f"`{key.text}` is not modelled: it is {_meaning(key.text)}", key.span)
    keyed_mapping(node, what, known, required)


def _meaning(key: str) -> str:
    text = _MEANINGS[key]
    return text if not text.startswith("that ") else f"the demand {text}"


def _node_name(node: Node, what: str) -> str:
    name = as_name(node, what)
    if not _NAME.match(name):
        raise SpecError(f"`{name}` cannot be a name", node.span, hint=IDENTIFIER_HINT)
    return name


def _spatial_dimensions(node: Node | None, owner: str) -> Iterator[WrittenSpatial]:
    places: dict[str, Span] = {}
    for item in items_of(node, f"`spatial` of `{owner}`"):
        dimension = _dimension(item, owner)
        add_once(places, dimension.name, dimension.span, f"`{owner}` has two dimensions `{dimension.name}`")
        yield dimension


def _dimension(item: Node, owner: str) -> WrittenSpatial:
    what = f"a dimension of `{owner}`"
    node = as_mapping(item, what)
    _check_keys(node, _SPATIAL_KEYS, what, ("name", "fanout"))
    name = _node_name(node.require("name", what), what)
    node.require("fanout", f"dimension `{name}` of `{owner}`")
    bounds = items_of(given(node, "loop_bounds"), "`loop_bounds`")
    return WrittenSpatial(
        name,
        node.require("name").span,
        node,
        tuple(_written_bound(bound, f"{owner}.{name}") for bound in bounds),
    )


def _written_bound(node: Node, owner: str) -> MappingNode:
    bound = keyed_mapping(node, f"a bound of `{owner}`", _COMPARISON_KEYS, _COMPARISON_KEYS)
    for key in _COMPARISON_KEYS:
        bound.require(key, f"a bound of `{owner}`")
    return bound


def _actions(
    node: Node | None, kind: NodeKind, owner: str, note: TakeNote
) -> Iterator[tuple[str, MappingNode]]:
    known = ACTIONS[kind]
    keys = _ACTION_KEYS if kind == "Compute" else _HOLDER_ACTION_KEYS
    places: dict[str, Span] = {}
    for item in items_of(node, f"`actions` of `{owner}`"):
        action = as_mapping(item, f"an action of `{owner}`")
        _check_keys(action, keys, f"an action of `{owner}`", ("name",))
        where = action.require("name", f"an action of `{owner}`")
        name = as_name(where, f"the name of an action of `{owner}`")
        if name not in known:
            hint = suggestion(name, known, f"a `!{kind}` does")
            raise SpecError(f"unknown action `{name}` of `{owner}`", where.span, hint=hint)
        add_once(places, name, where.span, f"action `{name}` of `{owner}` is given twice")
        for key in (key for key in ("latency", "latency_scale") if key in action):
            note(note_at(action.key(key).span, "`{}` is read as the reciprocal of the throughput", key))
        yield name, action


def check_beside(top: MappingNode, known: Iterable[str], note: TakeNote) -> None:
    """Note the sections beside the architecture that have no effect here.

    These are settings of AccelForge's own mapper and model, and keys that it passes over, such as one with
    anchors for the others; but what is almost one of the `known` ones that is not there is refused.
    """
    everything = (ARCH_SECTION, *BESIDE_ARCH, *known)
    absent = [own for own in everything if own not in top]
    for key, value in top.entries:
        hint = None if key.text in everything else did_you_mean(key.text, absent)
        if hint is not None:
            raise SpecError(f"unknown top-level key `{key.text}`", key.span, hint=hint)
        if key.text not in everything:
            note(note_at(key.span, "`{}` is not a known section and is ignored", key.text))
        elif key.text in ("config", "mapper", "model") and _says_something(value, FREE_ORDER_KEY):
            note(
                note_at(
                    key.span, "`{}` configures AccelForge's own programs and has no effect here", key.text
                )
            )


def free_order_of(mapper: Node | None) -> Span | None:
    """Return where AccelForge's mapper is told that memories may lie in any order; None if it is not."""
    if not isinstance(mapper, MappingNode):
        return None
    written = given(mapper, FREE_ORDER_KEY)
    return None if written is None or as_bool(written, f"`{FREE_ORDER_KEY}`") else written.span


def check_defined(top: MappingNode) -> None:
    """Refuse a file whose architecture rests on what is not defined here, before anything else is said of it.

    That is functions in Python, which specs never run, given or only used, and nodes that are not modelled.
    """
    config = given(top, "config")
    if config is not None:
        section = as_mapping(config, "`config`")
        functions = given(section, "expression_custom_functions")
        if functions is not None and not (isinstance(functions, SequenceNode) and not functions.items):
            hint = "specs never run code: write the results of the functions as numbers in `arch: variables`"
            place = section.key("expression_custom_functions").span
            raise SpecError(
                "`expression_custom_functions`: functions in Python are not read", place, hint=hint
            )
    arch = given(top, ARCH_SECTION)
    _refuse_nodes(arch)
    if isinstance(arch, MappingNode):
        _refuse_functions(_section_entries(arch, "variables"))


def _refuse_functions(variables: Sequence[tuple[ScalarNode, Node]]) -> None:
    """Refuse variables that call a function which neither AccelForge nor they themselves define."""
    known = {*FUNCTIONS, *dir(math), *dir(builtins), *(key.text for key, _ in variables)}
    values = [value for _, value in variables if isinstance(value, ScalarNode)]
    for name, place in (call for value in values for call in called_functions(value)):
        if name not in known:
            hint = "specs never run code: write the results of functions in Python as numbers"
            raise SpecError(f"the function `{name}` is not defined", place, hint=hint)


def _refuse_nodes(node: Node | None) -> None:
    """Refuse nodes that are not modelled, wherever they are among nodes."""
    if isinstance(node, SequenceNode):
        for item in node.items:
            _refuse_nodes(item)
    elif isinstance(node, MappingNode):
        if (kind := (node.tag or "").removeprefix("!")) in _REFUSED_NODES:
            raise _refused_node(kind, node.span)
        _refuse_nodes(given(node, "nodes"))


def _refused_node(kind: str, place: Span) -> SpecError:
    return SpecError(f"`!{kind}` is not modelled: it is {_REFUSED_NODES[kind]}", place)


def _says_something(node: Node, known: str) -> bool:
    """Whether a section says anything besides one key."""
    if isinstance(node, ScalarNode):
        return node.value is not None
    if isinstance(node, MappingNode):
        return any(key.text != known for key, _ in node.entries)
    return bool(node.items)


def with_arch_settings(node: Node, settings: Iterable[AttributeSetting]) -> Node:
    """Return the section ``arch`` with other values: of a key of a node, of a dimension, or of an action.

    These are called ``NODE.KEY``, ``NODE.DIMENSION.KEY`` and ``NODE.ACTION.KEY``; the key must be written.
    """
    for setting in settings:
        names: list[str] = []
        node = _node_with_setting(node, setting, "", names)
        if setting.node not in names:
            hint = suggestion(setting.node, names, "there are")
            raise SpecError(f"the architecture has no `{setting.node}`", setting.span, hint=hint)
    return node


def _node_with_setting(node: Node, setting: AttributeSetting, owner: str, names: list[str]) -> Node:
    """Return a part of the architecture with a value set; the names that it has are added to `names`."""
    if isinstance(node, SequenceNode):
        items = tuple(_node_with_setting(item, setting, owner, names) for item in node.items)
        return SequenceNode(items, node.span, node.tag)
    if not isinstance(node, MappingNode):
        return node
    name = node.get("name")
    if isinstance(name, ScalarNode):
        owner = f"{owner}.{name.text}" if owner else name.text
        names.append(owner)
        node = _with_attribute(node, setting) if owner == setting.node else node
    for key in ("nodes", "spatial", "actions"):
        inner = node.get(key)
        if inner is not None:
            node = with_entry(node, key, _node_with_setting(inner, setting, owner, names))
    return node


def _with_attribute(node: MappingNode, setting: AttributeSetting) -> MappingNode:
    if setting.attribute not in node:
        hint = suggestion(setting.attribute, node.keys(), "it sets")
        message = f"`{setting.node}` does not set `{setting.attribute}`"
        raise SpecError(message, setting.span, ((node.span, "the node"),), hint)
    return with_entry(node, setting.attribute, setting.value)
