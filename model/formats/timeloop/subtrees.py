"""Architectures of Timeloop's versions 0.1 to 0.3, as the nodes of version 0.4.

Older architectures give all instances of a component: by a range in its name or in that of a tree around it
(``PE[0..167]``), or by `instances`, laid out on a mesh of `meshX` by `meshY`. Nodes give the children of each
instance above, on a container of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from model.formats.timeloop.document import with_entry, without
from model.formats.timeloop.storage import NETWORK_ENERGIES, SYNONYMS
from model.formats.timeloop.tree import NETWORKS, role_of
from model.text.fields import add_once, as_int, as_mapping, as_name, as_sequence, given, is_blank
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError, TakeNote, note_at
from model.wording import listing

TREE_KEYS = ("subtree", "local")
LIST_KEYS = ("storage", "arithmetic")
DEFAULT_WORD_BITS = 16
"""Bits of a word where nothing says how many there are, as in Timeloop's C++ programs."""

_RANGE = re.compile(r"(?P<name>[^\[\]]*?)\s*\[\s*(?P<first>\d+)\s*\.\.\s*(?P<last>\d+)\s*\]\s*")
_INSTANCES = ("meshX", "meshY", "instances")
_NETWORK_ATTRIBUTES = (
    *(name.replace("-", "_") for name in NETWORK_ENERGIES),
    "network_read",
    "network_fill",
    "network_drain",
    "network_update",
    "network_operand",
    "network_result",
    "network_word_bits",
    "network_type",
)
_ORGANIZATION = ("num_ports", "num_banks")
"""From which Timeloop estimated energies of version 0.1, without Accelergy."""
_BRANCH_KEYS = ("name", "local", "subtree", "attributes", "version")
_ARITHMETIC = "arithmetic"
_STORAGES = ("DRAM", "SRAM", "regfile", "smartbuffer", "storage")
"""What the class of a storage contains, for Timeloop's C++ programs; they pass over other classes."""


def is_old_tree(section: Node | None) -> bool:
    """Whether an architecture has the form of version 0.2 or 0.3."""
    return isinstance(section, MappingNode) and any(key in section for key in TREE_KEYS)


def is_old_list(section: Node | None) -> bool:
    """Whether an architecture has the form of version 0.1."""
    return isinstance(section, MappingNode) and all(key in section for key in LIST_KEYS)


def is_dram(technology: Node) -> bool:
    """Whether the technology of a storage of version 0.1 makes it a DRAM."""
    return isinstance(technology, ScalarNode) and technology.text == "DRAM"


@dataclass(frozen=True)
class _Branch:
    """A tree with attributes, which hold for all that is inside of it."""

    name: str
    node: MappingNode
    instances: int  # of the tree itself in the one around it
    attributes: MappingNode | None


@dataclass(frozen=True)
class _Component:
    """A storage or compute component, with all its instances on their mesh."""

    name: str
    component_class: str
    node: MappingNode
    attributes: MappingNode  # that stay
    mesh: tuple[int, int]
    spans: tuple[Span, Span]  # where each axis is written, or the name

    @property
    def place(self) -> Span:
        """Where its name is written."""
        return self.node.require("name").span if "name" in self.node else self.node.span

    @property
    def is_compute(self) -> bool:
        """Whether it is arithmetic."""
        return not _is_storage(self.component_class)


@dataclass
class _FlatTree:
    """What is read of a tree, outermost first."""

    note: TakeNote
    items: list[_Branch | _Component] = field(default_factory=list)
    networks: dict[str, Span] = field(default_factory=dict)
    organized: list[ScalarNode] = field(default_factory=list)  # ports and banks
    unknown: dict[str, Span] = field(default_factory=dict)
    wordless: dict[str, Span] = field(default_factory=dict)


def nodes_of(section: MappingNode, note: TakeNote) -> MappingNode:
    """Return an architecture of version 0.1, 0.2 or 0.3 as one of version 0.4."""
    walk = _FlatTree(note)
    if is_old_list(section):
        _read_list(section, walk)
    else:
        _read_branch(section, "", 1, MappingNode((), section.span), walk)
    _note_left_out(walk)
    name = next((item.name for item in walk.items if isinstance(item, _Branch)), "")
    entries = [entry_of("version", scalar_of("0.4", section.span), section.span)]
    if name:
        entries.append(entry_of("name", scalar_of(name, section.span), section.span))
    nodes = SequenceNode(tuple(_flat_nodes(_nodes_in_order(walk))), section.span)
    return MappingNode((*entries, entry_of("nodes", nodes, section.span)), section.span)


def storages_of(section: Node | None) -> tuple[str, ...]:
    """Return the names of the storages of an architecture of version 0.4, innermost first."""
    nodes = section.get("nodes") if isinstance(section, MappingNode) else None
    names: list[str] = []
    for node in nodes.items if isinstance(nodes, SequenceNode) else ():
        written = [node.get(key) if isinstance(node, MappingNode) else None for key in ("name", "class")]
        name, component_class = written
        if isinstance(name, ScalarNode) and isinstance(component_class, ScalarNode):
            names += [name.text] if role_of(component_class.text) == "storage" else []
    return tuple(reversed(names))


def _read_list(section: MappingNode, walk: _FlatTree) -> None:
    """Read the storages of version 0.1, which stand innermost first, and the arithmetic."""
    storages = as_sequence(section.require("storage"), "`storage`").items
    for item in reversed(storages):
        node = as_mapping(item, "a storage")
        attributes = _plain_attributes(without(node, ("name", "class")))
        walk.organized += [attributes.key(key) for key in _ORGANIZATION if key in attributes]
        attributes = without(attributes, _ORGANIZATION)
        technology = attributes.get("technology")
        as_dram = technology is not None and is_dram(technology)
        written = node.get("class")
        component_class = as_name(written, "`class`") if written else "DRAM" if as_dram else "SRAM"
        attributes = without(attributes, ("technology",)) if as_dram else attributes
        name = as_name(node.require("name", "a storage"), "`name`")
        _add_part(_bare_component(node), name, component_class, attributes, None, walk)
    node = as_mapping(section.require("arithmetic"), "`arithmetic`")
    named = node.get("name")
    name = _ARITHMETIC if named is None else as_name(named, "`name`")
    attributes = _plain_attributes(without(node, ("name", "class")))
    _add_part(_bare_component(node), name, "intmac", attributes, None, walk)
    others = [
        key for key, _ in section.entries if key.text not in (*LIST_KEYS, "version", "name", "constraints")
    ]
    _note_unread(others, walk)


def _bare_component(node: MappingNode) -> MappingNode:
    """Return a component of version 0.1 without its attributes, which stand beside its name."""
    return MappingNode(
        tuple(entry for entry in node.entries if entry[0].text in ("name", "class")), node.span
    )


def _read_branch(node: MappingNode, name: str, instances: int, around: MappingNode, walk: _FlatTree) -> None:
    """Read a tree of which there are so many instances; the attributes `around` it hold in it."""
    _note_unread([key for key, _ in node.entries if key.text not in (*_BRANCH_KEYS, "constraints")], walk)
    attributes = _branch_attributes(node, walk)
    if name:
        walk.items.append(_Branch(name, node, _range_of(node.require("name"))[1], attributes))
    for key, value in () if attributes is None else attributes.entries:
        around = with_entry(around, key.text, value)
    for item in _items_under(node, "local"):
        _read_local(as_mapping(item, "a component"), instances, around, walk)
    trees = _items_under(node, "subtree")
    if len(trees) > 1:
        hint = "Timeloop takes a single tree at each place; put the components of both into one `local`"
        raise SpecError("`subtree` lists several trees", trees[1].span, ((trees[0].span, "the first"),), hint)
    for item in trees:
        tree = as_mapping(item, "a tree")
        own, count = _range_of(tree.require("name", "a tree")) if "name" in tree else ("system", 1)
        _read_branch(tree, own, instances * count, around, walk)


def _items_under(node: MappingNode, key: str) -> tuple[Node, ...]:
    """Return the items under a key; a single one need not be in a list."""
    value = given(node, key)
    if value is None:
        return ()
    return (value,) if isinstance(value, MappingNode) else as_sequence(value, f"`{key}`").items


def _branch_attributes(node: MappingNode, walk: _FlatTree) -> MappingNode | None:
    value = given(node, "attributes")
    if value is None:
        return None
    attributes = _plain_attributes(as_mapping(value, "`attributes`"))
    idle = [key for key, _ in attributes.entries if key.text in _INSTANCES]
    if idle:
        sentence = "{} of a tree has no effect: Timeloop reads it from components"
        walk.note(note_at(idle[0].span, sentence, listing(key.text for key in idle)))
    return without(attributes, _INSTANCES)


def _read_local(node: MappingNode, instances: int, around: MappingNode, walk: _FlatTree) -> None:
    name, count = _range_of(node.require("name", "a component"))
    class_node = node.require("class", f"component `{name}`")
    component_class = as_name(class_node, "`class`")
    if not (_is_storage(component_class) or role_of(component_class) == "compute"):
        found = walk.networks if component_class in NETWORKS else walk.unknown
        found.setdefault(name, class_node.span)
        return
    value = given(node, "attributes")
    attributes = MappingNode((), node.span) if value is None else as_mapping(value, "`attributes`")
    _add_part(node, name, component_class, _plain_attributes(attributes), instances * count, walk, around)


def _add_part(
    node: MappingNode,
    name: str,
    component_class: str,
    attributes: MappingNode,
    instances: int | None,
    walk: _FlatTree,
    around: MappingNode | None = None,
) -> None:
    """Add a component with what its attributes say; without `instances` they say how many there are."""
    place = node.require("name").span if "name" in node else node.span
    mesh, spans = _mesh(attributes, instances, name, place)
    rest = without(attributes, (*_INSTANCES, *_NETWORK_ATTRIBUTES))
    if len(rest.entries) + sum(key in attributes for key in _INSTANCES) < len(attributes.entries):
        walk.networks.setdefault(name, place)
    rest = _preferred(rest, name, walk)
    inherited = MappingNode((), place) if around is None else around
    if not any(spelling in rest or spelling in inherited for spelling in SYNONYMS["datawidth"]):
        walk.wordless[name] = place
        rest = with_entry(rest, "datawidth", scalar_of(DEFAULT_WORD_BITS, place))
    if _is_storage(component_class):
        rest = _with_cluster(rest, inherited, name, walk)
    walk.items.append(_Component(name, component_class, node, rest, mesh, spans))


def with_underscores(node: MappingNode) -> MappingNode:
    """Return a mapping with underscores for dashes in its keys, as later versions of Timeloop read them."""
    places: dict[str, Span] = {}
    entries: list[tuple[ScalarNode, Node]] = []
    for key, value in node.entries:
        name = key.text.replace("-", "_")
        add_once(places, name, key.span, f"`{name}` is given twice")
        entries.append((replace(key, text=name), value))
    return MappingNode(tuple(entries), node.span, node.tag)


def _plain_attributes(node: MappingNode) -> MappingNode:
    """Return attributes with the truth values of YAML 1.1, which older files are written in."""
    entries = tuple((key, _truth(value)) for key, value in with_underscores(node).entries)
    return MappingNode(entries, node.span, node.tag)


def _truth(value: Node) -> Node:
    if not isinstance(value, ScalarNode) or value.quoted or value.text.lower() not in _TRUTHS:
        return value
    return replace(value, value=_TRUTHS[value.text.lower()])


_TRUTHS = {"yes": True, "on": True, "no": False, "off": False}


def _preferred(attributes: MappingNode, name: str, walk: _FlatTree) -> MappingNode:
    """Return attributes with one spelling of each: the one that Timeloop looks for first."""
    for spellings in (_WORDS, _DEPTHS, _WIDTHS, _BLOCKS, ("entries", *_DEPTHS)):
        present = [spelling for spelling in spellings if not is_blank(attributes.get(spelling))]
        idle = [other for other in present[1:] if attributes.get(other) != attributes.get(present[0])]
        if idle:
            sentence = "{} of `{}` is not used: Timeloop takes `{}`"
            walk.note(note_at(attributes.key(idle[0]).span, sentence, listing(idle), name, present[0]))
        attributes = without(attributes, present[1:])
    return attributes


_WORDS = ("word_bits", "word_width", "datawidth")
_DEPTHS = ("depth", "memory_depth", "data_storage_depth")
_WIDTHS = ("width", "memory_width", "data_storage_width")
_BLOCKS = ("block_size", "n_words")
"""Spellings of attributes, in the order in which Timeloop looks for them."""


def _with_cluster(attributes: MappingNode, around: MappingNode, name: str, walk: _FlatTree) -> MappingNode:
    """Return attributes with the cluster size that follows from a block and a width, as in Timeloop.

    Where a cluster is given, a width that does not fit it and the block does not count.
    """
    width, block = _positive_attribute(attributes, _WIDTHS), _positive_attribute(attributes, _BLOCKS)
    word = _positive_attribute(attributes, _WORDS) or _positive_attribute(around, _WORDS)
    cluster = _positive_attribute(attributes, ("cluster_size",))
    if width is None or word is None:
        return attributes
    key, value = next(entry for entry in attributes.entries if entry[0].text in _WIDTHS)
    if "cluster_size" not in attributes and block is not None and width % (block * word) == 0:
        return with_entry(attributes, "cluster_size", scalar_of(width // (block * word), value.span))
    fits = width % ((block or 1) * (cluster or 1) * word) == 0 and (
        block is None or width == block * word * (cluster or 1)
    )
    if cluster is None or fits:
        return attributes
    sentence = "`{}` {} of `{}` is not used: {} instances with blocks of {} words of {} bits make a row"
    walk.note(note_at(key.span, sentence, key.text, width, name, cluster, block or 1, word))
    return without(attributes, _WIDTHS)


def _positive_attribute(attributes: MappingNode, names: Sequence[str]) -> int | None:
    """Return the positive whole number under one of some names, None where there is none."""
    values = (attributes.get(name) for name in names)
    value = next((node for node in values if node is not None), None)
    number = value.value if isinstance(value, ScalarNode) else None
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None


def _range_of(node: Node) -> tuple[str, int]:
    """Return a name without its range, and how many instances the range has."""
    text = as_name(node, "`name`")
    match = _RANGE.fullmatch(text)
    if match is not None:
        count = int(match["last"]) - int(match["first"]) + 1
        if count < 1:
            raise SpecError(f"the range of `{text}` is empty", node.span)
        return match["name"], count
    if "[" in text or "]" in text:
        hint = "write the first and the last instance, as in `PE[0..15]`"
        raise SpecError(f"`{text}` has a range that is not two numbers", node.span, hint=hint)
    return text, 1


def _mesh(
    attributes: MappingNode, instances: int | None, name: str, place: Span
) -> tuple[tuple[int, int], tuple[Span, Span]]:
    """Return how many instances lie along X and Y, all of them in the whole architecture."""
    given_nodes = {key: value for key in _INSTANCES if (value := given(attributes, key)) is not None}
    numbers = {key: as_int(value, f"`{key}`", minimum=1) for key, value in given_nodes.items()}
    total, x, y = numbers.get("instances", instances), numbers.get("meshX"), numbers.get("meshY")
    if total is None and (x is None or y is None):
        raise SpecError(f"`{name}` does not say how many there are", place, hint="give it `instances`")
    total = x * y if total is None and x is not None and y is not None else total
    assert total is not None
    x, y = _completed_mesh(total, x, y)
    if x * y != total:
        shown = " and ".join(f"{key} {numbers[key]}" for key in ("meshX", "meshY") if key in numbers)
        plural = "instance" if total == 1 else "instances"
        message = f"`{name}` has {total} {plural} in total, which {shown} cannot lay out"
        hint = f"ranges such as `{name}[0..15]`, on it or on trees around it, say how many there are"
        raise SpecError(
            message, next(given_nodes[key].span for key in _INSTANCES if key in numbers), hint=hint
        )
    spans = (given_nodes["meshX"].span if "meshX" in numbers else place,)
    return (x, y), (*spans, given_nodes["meshY"].span if "meshY" in numbers else place)


def _completed_mesh(total: int, x: int | None, y: int | None) -> tuple[int, int]:
    """Complete a mesh: one axis follows from the other, and all lie along X where neither is given."""
    if x is not None:
        return x, y or max(1, total // x)
    return (total, 1) if y is None else (max(1, total // y), y)


def _nodes_in_order(walk: _FlatTree) -> list[_Branch | _Component]:
    """Return trees and storages in their order, and the compute component after them."""
    units = [item for item in walk.items if isinstance(item, _Component) and item.is_compute]
    if len(units) > 1:
        names = listing(unit.name for unit in units[:-1])
        sentence = "left out, as Timeloop takes the last compute component, `{}`: {}"
        walk.note(note_at(units[0].node.span, sentence, units[-1].name, names))
    others = [item for item in walk.items if not (isinstance(item, _Component) and item.is_compute)]
    return [*others, *units[-1:]]


def _flat_nodes(items: Sequence[_Branch | _Component]) -> Iterator[MappingNode]:
    """Yield containers and components; a fanout is on a container above what it multiplies."""
    taken = {item.name for item in items if isinstance(item, _Component)}
    outer: _Component | None = None
    around: list[_Branch] = []
    for item in items:
        if isinstance(item, _Branch):
            around.append(item)
            continue
        fanout = _fanout(outer, item)
        yield from _containers(around, item, fanout, taken)
        yield _component_node(item)
        outer, around = item, []


def _fanout(outer: _Component | None, inner: _Component) -> tuple[int, int]:
    """Return how many instances of a component each instance of the next outer one has below it."""
    if outer is None:
        return inner.mesh
    for axis, of_inner, of_outer, place in zip("XY", inner.mesh, outer.mesh, inner.spans, strict=True):
        if of_inner % of_outer:
            message = (
                f"{of_inner} instances of `{inner.name}` along {axis} are no multiple of "
                f"the {of_outer} of `{outer.name}`"
            )
            related = ((outer.spans["XY".index(axis)], f"`{outer.name}`"),)
            raise SpecError(message, place, related)
    return inner.mesh[0] // outer.mesh[0], inner.mesh[1] // outer.mesh[1]


def _containers(
    around: Sequence[_Branch], part: _Component, fanout: tuple[int, int], taken: set[str]
) -> Iterator[MappingNode]:
    """Yield the containers above a component: trees with attributes, and what has the fanout."""
    several = [branch for branch in around if branch.instances > 1] or list(around)
    holder = several[-1] if several and fanout != (1, 1) else None
    for branch in around:
        if branch is holder or branch.attributes is not None:
            span = branch.node.require("name").span
            mesh = _mesh_node(part, fanout) if branch is holder else None
            yield _container(_free_name(branch.name, taken), span, branch.attributes, mesh)
    if fanout != (1, 1) and holder is None:
        name = _free_name(f"inter_{part.name}_spatial", taken)
        yield _container(name, part.spans[0], None, _mesh_node(part, fanout))


def _free_name(name: str, taken: set[str]) -> str:
    """Return a name that no other node has, and take it."""
    free = name
    while free in taken:
        free = f"{free}_container"
    taken.add(free)
    return free


def _mesh_node(part: _Component, fanout: tuple[int, int]) -> MappingNode:
    pairs = zip(("meshX", "meshY"), fanout, part.spans, strict=True)
    entries = tuple(entry_of(key, scalar_of(size, span), span) for key, size, span in pairs)
    return MappingNode(entries, part.spans[0])


def _container(
    name: str, span: Span, attributes: MappingNode | None, spatial: MappingNode | None
) -> MappingNode:
    entries = [entry_of("name", scalar_of(name, span), span)]
    if attributes is not None:
        entries.append(entry_of("attributes", attributes, attributes.span))
    if spatial is not None:
        entries.append(entry_of("spatial", spatial, spatial.span))
    return MappingNode(tuple(entries), span, "!Container")


def _component_node(part: _Component) -> MappingNode:
    """Return a component under its name without a range, with the attributes that stay."""
    place = part.place
    node = MappingNode(part.node.entries, part.node.span, "!Component")
    for key, value in (("name", part.name), ("class", part.component_class)):
        node = node if key == "class" and key in node else with_entry(node, key, scalar_of(value, place))
    node = without(node, ("actions",)) if _names_actions_alone(node) else node
    if _stands_for_container(part) and "constraints" not in node:
        node = with_entry(node, "constraints", _nested(("dataspace", "bypass"), scalar_of("*", place)))
    return with_entry(node, "attributes", part.attributes)


def _stands_for_container(part: _Component) -> bool:
    """Whether Timeloop's front end wrote a component for a container, which keeps nothing."""
    technology = part.attributes.get("technology")
    is_placeholder = isinstance(technology, ScalarNode) and technology.value == -1
    return part.component_class == "dummy_storage" and is_placeholder


def _nested(keys: Sequence[str], value: Node) -> Node:
    """Return a value under keys within keys."""
    for key in reversed(keys):
        value = MappingNode((entry_of(key, value, value.span),), value.span)
    return value


def _names_actions_alone(node: MappingNode) -> bool:
    """Whether a component lists actions, but the energy of none."""
    actions = node.get("actions")
    items = actions.items if isinstance(actions, SequenceNode) else ()
    return not any(isinstance(item, MappingNode) and "energy" in item for item in items)


def _is_storage(component_class: str) -> bool:
    return any(word in component_class for word in _STORAGES)


def _note_unread(keys: Iterable[ScalarNode], walk: _FlatTree) -> None:
    for key in keys:
        walk.note(note_at(key.span, "nothing reads `{}` of the architecture", key.text))


def _note_left_out(walk: _FlatTree) -> None:
    """Note what has no effect here, and what Timeloop leaves out."""
    if walk.networks:
        sentence = "networks are not modelled, so these have no effect: {}"
        walk.note(note_at(next(iter(walk.networks.values())), sentence, listing(walk.networks)))
    if walk.organized:
        names = dict.fromkeys(key.text for key in walk.organized)
        sentence = "{} of storages of version 0.1 have no effect: energies are estimated without them"
        walk.note(note_at(walk.organized[0].span, sentence, listing(names)))
    if walk.unknown:
        sentence = "left out, as in Timeloop, because the class is neither a storage nor a compute unit: {}"
        walk.note(note_at(next(iter(walk.unknown.values())), sentence, listing(walk.unknown)))
    if walk.wordless:
        sentence = "the words of {} have {} bits, Timeloop's default"
        place = next(iter(walk.wordless.values()))
        walk.note(note_at(place, sentence, listing(walk.wordless), DEFAULT_WORD_BITS))


def scalar_of(value: int | str, span: Span) -> ScalarNode:
    """Return a number or a text that the user did not write, at a place that it follows from."""
    return ScalarNode(value, str(value), isinstance(value, str), span)


def entry_of(name: str, value: Node, span: Span) -> tuple[ScalarNode, Node]:
    """Return an entry of a mapping that the user did not write."""
    return ScalarNode(name, name, False, span), value
