"""Joining mappings: the merge keys ``<<`` and ``<<<``, and one spec given in several files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError, to_plain

SHALLOW = "<<"
RECURSIVE = "<<<"
NO_MERGE_TAG = "!nomerge"

Entry = tuple[ScalarNode, Node]


def is_merge_key(key: ScalarNode) -> bool:
    """Whether the key is an unquoted ``<<`` or ``<<<``."""
    return not key.quoted and key.text in (SHALLOW, RECURSIVE)


def merged_mapping(entries: Iterable[Entry], span: Span, tag: str | None) -> MappingNode:
    """Return the mapping of some entries with its merge keys applied.

    ``<<`` adds the keys that the mapping lacks. ``<<<`` does so at every depth: mappings under the same key
    are merged, lists are joined (merged items last), scalars and values tagged ``!nomerge`` are kept. Earlier
    sources take precedence over later ones. Merged keys follow the others.
    """
    written = tuple(entries)
    result = MappingNode(tuple(entry for entry in written if not is_merge_key(entry[0])), span, tag)
    for key, value in written:
        if is_merge_key(key):
            result = _merge_sources(result, key, value)
    return result


def _merge_sources(target: MappingNode, key: ScalarNode, value: Node) -> MappingNode:
    sources = value.items if isinstance(value, SequenceNode) else (value,)
    for source in sources:
        if not isinstance(source, MappingNode):
            message = f"`{key.text}` takes a mapping or a list of mappings"
            raise SpecError(message, source.span, ((key.span, "merged here"),))
        target = _fill(target, source, recursive=key.text == RECURSIVE)
    return target


def _fill(target: MappingNode, source: MappingNode, recursive: bool) -> MappingNode:
    """Return `target` with what only `source` has."""
    entries = list(target.entries)
    if recursive:
        entries = [(key, _filled_value(value, source.get(key.text))) for key, value in entries]
    entries += [(key, value) for key, value in source.entries if key.text not in target]
    return MappingNode(tuple(entries), target.span, target.tag)


def _filled_value(value: Node, other: Node | None) -> Node:
    if value.tag == NO_MERGE_TAG:
        return value
    if isinstance(value, MappingNode) and isinstance(other, MappingNode):
        return _fill(value, other, recursive=True)
    if isinstance(value, SequenceNode) and isinstance(other, SequenceNode):
        return SequenceNode(value.items + other.items, value.span, value.tag)
    return value


def without_merge_tags(root: Node) -> Node:
    """Return a merged tree without the tag ``!nomerge``, which has no further meaning."""
    known: dict[int, Node] = {}

    def stripped(node: Node) -> Node:
        if id(node) not in known:
            known[id(node)] = _with_children(node, stripped)
        return known[id(node)]

    return stripped(root)


def _with_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return `node` with its children changed, and without the tag ``!nomerge``."""
    tag = None if node.tag == NO_MERGE_TAG else node.tag
    if isinstance(node, ScalarNode):
        return replace(node, tag=tag)
    if isinstance(node, SequenceNode):
        return SequenceNode(tuple(change(item) for item in node.items), node.span, tag)
    return MappingNode(tuple((key, change(value)) for key, value in node.entries), node.span, tag)


def join_included(first: Node, second: Node) -> Node:
    """Return two files of one directory as one mapping, joined by `join_specs`, or as one list."""
    if isinstance(first, MappingNode) and isinstance(second, MappingNode):
        return join_specs(first, second)
    if isinstance(first, SequenceNode) and isinstance(second, SequenceNode):
        return SequenceNode(first.items + second.items, first.span, first.tag)
    message = "the files of a directory must all be mappings, or all be lists"
    raise SpecError(message, second.span, ((first.span, "the first file"),))


def join_specs(first: MappingNode, second: MappingNode) -> MappingNode:
    """Return one spec from two files, with the place of the first; SpecError for different values of a key.

    Under a key that both have, mappings are joined key by key at every depth, lists of mappings (component
    classes, ERT tables, constraint targets) are concatenated, an empty value is overridden, and equal values
    count once.
    """
    entries = [(key, _join_entry(key, value, second)) for key, value in first.entries]
    entries += [(key, value) for key, value in second.entries if key.text not in first]
    return MappingNode(tuple(entries), first.span, first.tag)


def _join_entry(key: ScalarNode, value: Node, second: MappingNode) -> Node:
    """Return `value` joined with what `second` has under the same key."""
    other = second.get(key.text)
    if other is None or _is_empty(other) or (value == other and value.tag == other.tag):
        return value
    if _is_empty(value) or _is_same_version(key, value, other):
        return other
    if value.tag == other.tag and isinstance(value, MappingNode) and isinstance(other, MappingNode):
        return join_specs(value, other)
    if isinstance(value, SequenceNode) and isinstance(other, SequenceNode):
        items = value.items + other.items
        if all(isinstance(item, MappingNode) for item in items):
            return SequenceNode(items, value.span, value.tag)
    related = ((key.span, f"first given here{_brief(value)}"),)
    message = f"`{key.text}` is given a second value{_brief(other)}"
    raise SpecError(message, second.key(key.text).span, related)


def _is_same_version(key: ScalarNode, first: Node, second: Node) -> bool:
    """Whether two files give the same version, with or without quotes."""
    if key.text != "version" or not isinstance(first, ScalarNode) or not isinstance(second, ScalarNode):
        return False
    return first.text == second.text and first.tag == second.tag


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None and node.tag is None


def _brief(node: Node) -> str:
    if not isinstance(node, ScalarNode):
        return ""
    quote = "'" if node.quoted and isinstance(node.value, str) else ""
    return f" (`{quote}{to_plain(node)}{quote}`)"
