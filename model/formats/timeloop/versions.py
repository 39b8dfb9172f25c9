"""Specs of Timeloop's versions 0.1, 0.2 and 0.3 as ones of version 0.4, section by section.

What is written in an older form is rewritten before anything else is read. All values keep their places, so
that messages point at the user's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from model.formats.timeloop.constraints import ADDRESS_KEYS
from model.formats.timeloop.document import (
    FLATTENED_MARK,
    SPARSE_SECTION,
    VERSION,
    is_empty,
    section_name,
    section_of,
    with_entry,
    without,
)
from model.formats.timeloop.subtrees import (
    is_dram,
    is_old_list,
    is_old_tree,
    nodes_of,
    scalar_of,
    storages_of,
    with_underscores,
)
from model.note import Note
from model.text.fields import as_mapping, as_sequence, is_blank
from model.text.source import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    SpecError,
    TakeNote,
    note_at,
    values_in,
)

OLDER_VERSIONS = (Decimal("0.1"), Decimal("0.2"), Decimal("0.3"))
DEFAULT_TECHNOLOGY = "45nm"

_ARCHITECTURES = ("architecture", "arch")
_OF_ARCHITECTURE = "architecture_constraints"
_OF_MAPSPACE = "mapspace_constraints"
_NAMED = "constraints"
_DEFAULT_SHAPE = "cnn-layer"
_SHAPE_KEYS = ("dimensions", "coefficients", "data-spaces", "data_spaces")
_PROBLEM_KEYS = ("shape", "instance", *_SHAPE_KEYS)
_MAPSPACE_KEYS = ("version", "template", "rules")


def older_architecture(top: MappingNode) -> MappingNode | None:
    """Return the architecture of a spec if it has the form of version 0.1, 0.2 or 0.3."""
    sections = (top.get(key) for key in _ARCHITECTURES)
    found = next((node for node in sections if is_old_tree(node) or is_old_list(node)), None)
    return None if found is None else as_mapping(found, "`architecture`")


def updated(top: MappingNode, note: TakeNote) -> MappingNode:
    """Return a joined spec in the form of version 0.4; one that has this form already stays as it is."""
    top = _with_mapspace(_with_architecture(_with_problem(top, note), note))
    storages = storages_of(top.get("architecture"))
    entries = tuple((key, _section(key.text, value, storages, note)) for key, value in top.entries)
    return MappingNode(entries, top.span, top.tag)


def _with_architecture(top: MappingNode, note: TakeNote) -> MappingNode:
    """Return a spec with `nodes`; constraints among the architecture have a section of their own then."""
    section = older_architecture(top)
    if section is None:
        return top
    note(_version_note(section))
    top = without(top, [FLATTENED_MARK, *(key for key in _ARCHITECTURES if top.get(key) is section)])
    top = with_entry(top, "architecture", nodes_of(section, note))
    constraints = _constraints_in(section)
    if constraints is not None:
        top = _with_constraints(top, _OF_ARCHITECTURE, constraints)
    return _with_technology(top, section, note)


def _version_note(section: MappingNode) -> Note:
    """Return a note on the version that an architecture has."""
    version = section.get("version")
    otherwise = "0.1" if is_old_list(section) else "0.2 or 0.3"
    text = version.text if isinstance(version, ScalarNode) and not is_old_list(section) else otherwise
    sentence = "this architecture has version {} of Timeloop's format and is read as one of version {}"
    return note_at(section.span if version is None else version.span, sentence, text, str(VERSION))


def _with_technology(top: MappingNode, section: MappingNode, note: TakeNote) -> MappingNode:
    """Return a spec with a technology for estimates, where nothing says which."""
    variables = top.get("variables")
    said = (node.get("technology") for node in values_in(section) if isinstance(node, MappingNode))
    is_known = any(node is not None and not is_dram(node) for node in said)
    if is_known or section_of(top, "ERT") is not None or not isinstance(variables, MappingNode | None):
        return top
    if variables is not None and "technology" in variables:
        return top
    sentence = "no `technology` is given: missing energies are estimated for {}"
    note(note_at(section.span, sentence, DEFAULT_TECHNOLOGY))
    written = MappingNode((), section.span) if variables is None else variables
    technology = scalar_of(DEFAULT_TECHNOLOGY, section.span)
    return with_entry(top, "variables", with_entry(written, "technology", technology))


def _with_mapspace(top: MappingNode) -> MappingNode:
    """Return a spec whose `mapspace` holds no constraints, which have a section of their own."""
    section = top.get("mapspace")
    if isinstance(section, SequenceNode):
        return _with_constraints(without(top, ("mapspace",)), _OF_MAPSPACE, section)
    constraints = _constraints_in(section) if isinstance(section, MappingNode) else None
    if constraints is None:
        return top
    assert isinstance(section, MappingNode)
    gone = [key.text for key, _ in section.entries if key.text not in _MAPSPACE_KEYS]
    top = with_entry(top, "mapspace", without(section, gone))
    return _with_constraints(top, _OF_MAPSPACE, constraints)


def _constraints_in(section: MappingNode) -> SequenceNode | None:
    """Return the constraints in a section, which are a list, or the name of one beside it; None without."""
    targets = section.get("targets")
    if targets is not None:
        return SequenceNode((), targets.span) if is_blank(targets) else as_sequence(targets, "`targets`")
    value = section.get(_NAMED)
    if isinstance(value, ScalarNode) and value.value is not None:
        name = f"{_NAMED}_{value.text}"
        if name not in section:
            raise SpecError(f"there are no constraints `{name}`", value.span)
        value = section.get(name)
    if value is None or is_blank(value):
        return None
    if isinstance(value, MappingNode) and "targets" in value:
        return _constraints_in(value)
    return as_sequence(value, f"`{_NAMED}`")


def _with_constraints(top: MappingNode, name: str, constraints: SequenceNode) -> MappingNode:
    """Return a spec with further constraints in a section of their own."""
    while name in top:
        name = f"{name}_"
    return with_entry(top, name, constraints)


def _section(name: str, value: Node, storages: Sequence[str], note: TakeNote) -> Node:
    """Return a section in the form of version 0.4."""
    kind = section_name(name)
    if kind == "architecture" or is_blank(value):
        return value
    value = _with_version(value)
    if kind in ("constraints", "mapping"):
        return _by_target(value, storages, note)
    if kind == "mapper" and isinstance(value, MappingNode):
        return with_underscores(value)
    return _deeply(value) if kind == SPARSE_SECTION else value


def _with_version(value: Node) -> Node:
    """Return a section with an older version replaced."""
    version = value.get("version") if isinstance(value, MappingNode) else None
    if not isinstance(value, MappingNode) or not isinstance(version, ScalarNode):
        return value
    return with_entry(value, "version", _new_version(version)) if _is_older(version) else value


def _is_older(version: ScalarNode) -> bool:
    try:
        return Decimal(version.text) in OLDER_VERSIONS
    except ArithmeticError:
        return False


def _new_version(version: ScalarNode) -> ScalarNode:
    return ScalarNode(float(VERSION), str(VERSION), False, version.span)


def _deeply(node: Node) -> Node:
    """Return a node with underscores for dashes in all its keys, and in the words that are chosen."""
    if isinstance(node, SequenceNode):
        return SequenceNode(tuple(map(_deeply, node.items)), node.span, node.tag)
    if not isinstance(node, MappingNode):
        return node
    inner = tuple(
        (key, _with_underscores(value) if key.text.replace("-", "_") in _CHOSEN else _deeply(value))
        for key, value in node.entries
    )
    return with_underscores(MappingNode(inner, node.span, node.tag))


_CHOSEN = ("type", "rank_application_order")


def _with_underscores(value: Node) -> Node:
    """Return a word with underscores for dashes."""
    if not isinstance(value, ScalarNode) or "-" not in value.text:
        return value
    text = value.text.replace("-", "_")
    return ScalarNode(text, text, True, value.span, value.tag)


def _by_target(value: Node, storages: Sequence[str], note: TakeNote) -> Node:
    """Return a section of constraints, or a mapping, with all that is said of one target in one item."""
    if isinstance(value, SequenceNode):
        items = tuple(part for item in value.items for part in _target_constraints(item, storages, note))
        return SequenceNode(items, value.span, value.tag)
    if not isinstance(value, MappingNode):
        return value
    if _NAMED in value and "targets" not in value:
        constraints = _constraints_in(value)
        return value if constraints is None else _by_target(constraints, storages, note)
    targets = value.get("targets")
    if not isinstance(targets, SequenceNode):
        return value
    return with_entry(value, "targets", _by_target(targets, storages, note))


def _target_constraints(item: Node, storages: Sequence[str], note: TakeNote) -> Iterator[Node]:
    """Yield one constraint, or those that are listed inside of a target."""
    if not isinstance(item, MappingNode):
        yield item
        return
    item = _named_target(with_underscores(item), storages)
    listed = item.get("constraints")
    if not isinstance(listed, SequenceNode):
        yield _flat(item, note)
        return
    address = without(item, ("constraints",)).entries
    for part in listed.items:
        node = with_underscores(as_mapping(part, "a constraint"))
        yield _flat(MappingNode((*address, *node.entries), node.span), note)


def _named_target(item: MappingNode, storages: Sequence[str]) -> MappingNode:
    """Return a constraint with the name of its target, where it has the number of a storage."""
    target = item.get("target")
    number = target.value if isinstance(target, ScalarNode) else None
    if isinstance(number, bool) or not isinstance(number, int) or target is None or str(number) in storages:
        return item
    if not 0 <= number < len(storages):
        return item
    return with_entry(item, "target", scalar_of(storages[number], target.span))


def _flat(item: MappingNode, note: TakeNote) -> MappingNode:
    """Return a constraint with its attributes beside its type, without what Timeloop no longer reads."""
    attributes = item.get("attributes")
    if isinstance(attributes, MappingNode):
        item = MappingNode(
            (*without(item, ("attributes",)).entries, *attributes.entries), item.span, item.tag
        )
    stream = item.get("stream")
    if stream is not None and not is_empty(stream):
        note(note_at(item.key("stream").span, "`stream` has no effect: Timeloop does not read it"))
    kind = item.get("type")
    if "split" in item and isinstance(kind, ScalarNode) and kind.text == "temporal":
        note(note_at(item.key("split").span, "`split` of temporal loops has no effect, as in Timeloop"))
        item = without(item, ("split",))
    blank = [key.text for key, value in item.entries if is_blank(value) and key.text not in ADDRESS_KEYS]
    return without(item, ("stream", *blank))


def _with_problem(top: MappingNode, note: TakeNote) -> MappingNode:
    """Return a spec whose problem has a shape and an instance, in the section `problem`."""
    section = top.get("problem")
    moved = [key for key in _PROBLEM_KEYS if key in top]
    if moved and (section is None or isinstance(section, MappingNode)):
        beside = tuple((key, value) for key, value in top.entries if key.text in moved)
        written = () if section is None else section.entries
        span = beside[0][0].span if section is None else section.span
        twice = next(
            (key for key, _ in beside if isinstance(section, MappingNode) and key.text in section), None
        )
        if twice is not None:
            assert isinstance(section, MappingNode)
            related = ((section.key(twice.text).span, "the first"),)
            raise SpecError(f"`{twice.text}` is given twice", twice.span, related)
        section = MappingNode((*written, *beside), span)
        top = without(top, moved)
    if isinstance(section, SequenceNode):
        items = tuple(_modern_problem(item, note) for item in section.items)
        return with_entry(top, "problem", SequenceNode(items, section.span, section.tag))
    return top if section is None else with_entry(top, "problem", _modern_problem(section, note))


def _modern_problem(section: Node, note: TakeNote) -> Node:
    """Return a problem with a shape and an instance."""
    if not isinstance(section, MappingNode):
        return section
    shape_entries = tuple(entry for entry in section.entries if entry[0].text in _SHAPE_KEYS)
    if shape_entries and "shape" not in section:
        section = without(section, _SHAPE_KEYS)
        shape = MappingNode(shape_entries, shape_entries[0][0].span)
        section = with_entry(section, "shape", shape)
    section = _with_instance(section, note)
    for key in ("shape", "instance"):
        value = section.get(key)
        section = section if value is None else with_entry(section, key, _with_version(value))
    return section


def _with_instance(section: MappingNode, note: TakeNote) -> MappingNode:
    """Return a problem with an instance, where bounds and coefficients stand beside the shape."""
    if "instance" in section:
        return section
    sizes = tuple((key, value) for key, value in section.entries if _is_size(key, value))
    if not sizes:
        return section
    section = without(section, [key.text for key, _ in sizes])
    if "shape" not in section:
        sentence = "the problem has no `shape`: it is read as a `{}`, as in Timeloop"
        note(note_at(sizes[0][0].span, sentence, _DEFAULT_SHAPE))
        section = with_entry(section, "shape", scalar_of(_DEFAULT_SHAPE, sizes[0][0].span))
    return with_entry(section, "instance", MappingNode(sizes, sizes[0][0].span))


def _is_size(key: ScalarNode, value: Node) -> bool:
    """Whether an entry of a problem is a bound or a coefficient."""
    return key.text not in ("version", "name") and isinstance(value, ScalarNode) and type(value.value) is int
