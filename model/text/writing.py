"""Spec nodes as YAML text that reads as the same nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml
from yaml.emitter import Emitter

from model.text.composer import CORE_TAGS, plain_value
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, SpecError

MOST_CHARACTERS = 1 << 23
"""Of all values together: keys that were merged into many mappings are written in each of them."""

_TEMPLATE_MARKS = ("{{", "{%", "{#")
_BREAKS = re.compile("[\t\n\r\x85\u2028\u2029]+")
_FLOWING = re.compile(r"[\w .+\-/*()=<>]+")
_DASH = "-"  # in a list of lines, it would begin another list
_FLOW_WIDTH = 80
_WIDTH = 1 << 30


def spec_text(root: MappingNode, most_characters: int = MOST_CHARACTERS) -> str:
    """Return YAML text that reads as the nodes of a merged spec, apart from their places.

    Plain values stay plain and quoted ones quoted: that distinguishes an expression from a text. Values that
    aliases share are written once. SpecError for a value that would make the text a template.
    """
    text: str = yaml.emit(_Events(root, most_characters), Dumper=_Emitter, width=_WIDTH, allow_unicode=True)
    return text


class _Emitter(Emitter):
    """Writes plain what was plain: YAML's own emitter would quote some of it."""

    def choose_scalar_style(self) -> str:
        style = super().choose_scalar_style()
        assert isinstance(self.event, yaml.ScalarEvent)
        return "" if self.event.implicit[0] else style


class _Events:
    """The events of a document."""

    def __init__(self, root: MappingNode, most_characters: int) -> None:
        self._root = root
        self._most_characters = most_characters
        self._shared = frozenset(_shared_collections(root))
        self._anchors: dict[int, str] = {}
        self._widths: dict[int, int] = {}
        self._characters = 0

    def __iter__(self) -> Iterator[yaml.Event]:
        yield yaml.StreamStartEvent()
        yield yaml.DocumentStartEvent(explicit=False)
        yield from self._mapping(self._root, None, flow=False)
        yield yaml.DocumentEndEvent(explicit=False)
        yield yaml.StreamEndEvent()

    def _node(self, node: Node) -> Iterator[yaml.Event]:
        if isinstance(node, ScalarNode):
            yield self._scalar(node)
            return
        if id(node) in self._anchors:
            yield yaml.AliasEvent(self._anchors[id(node)])
            return
        anchor = None
        if id(node) in self._shared:
            anchor = self._anchors[id(node)] = f"id{len(self._anchors) + 1}"
        flow = self._width(node) <= _FLOW_WIDTH
        if isinstance(node, MappingNode):
            yield from self._mapping(node, anchor, flow)
            return
        yield yaml.SequenceStartEvent(anchor, node.tag, node.tag is None, flow_style=flow)
        for item in node.items:
            yield from self._node(item)
        yield yaml.SequenceEndEvent()

    def _mapping(self, node: MappingNode, anchor: str | None, flow: bool) -> Iterator[yaml.Event]:
        yield yaml.MappingStartEvent(anchor, node.tag, node.tag is None, flow_style=flow)
        for key, value in node.entries:
            yield self._scalar(key)
            yield from self._node(value)
        yield yaml.MappingEndEvent()

    def _scalar(self, node: ScalarNode) -> yaml.ScalarEvent:
        self._characters += len(node.text)
        if self._characters > self._most_characters:
            raise SpecError(
                f"the values have more than {self._most_characters:,} characters in total", node.span
            )
        mark = next((mark for mark in _TEMPLATE_MARKS if mark in node.text), None)
        if mark is not None:
            raise SpecError(f"`{mark}` in a value would make the text a template", node.span)
        if node.quoted or node.text == _DASH:
            # Never a block: Accelergy takes only quoted values for text.
            quotes = '"' if _BREAKS.search(node.text) else "'"
            return yaml.ScalarEvent(None, node.tag, (False, node.tag is None), node.text, style=quotes)
        if isinstance(node.value, float) and not isinstance(plain_value(node.text), float):
            return yaml.ScalarEvent(None, f"{CORE_TAGS}float", (False, False), node.text, style="'")
        # A line break within a plain value is a space; the emitter would make it a paragraph.
        return yaml.ScalarEvent(None, node.tag, (node.tag is None, False), _BREAKS.sub(" ", node.text))

    def _width(self, node: Node) -> int:
        """Return about how wide a node is on one line, more than `_FLOW_WIDTH` if it needs several."""
        if isinstance(node, ScalarNode):
            return len(node.text) + 2 if _flows(node) else _FLOW_WIDTH + 1
        if id(node) not in self._widths:
            children = node.items if isinstance(node, SequenceNode) else [n for e in node.entries for n in e]
            bare = node.tag is None and id(node) not in self._shared
            self._widths[id(node)] = sum(map(self._width, children)) if bare else _FLOW_WIDTH + 1
        return self._widths[id(node)]


def _shared_collections(root: Node) -> Iterator[int]:
    """Yield the identity of every list and mapping that occurs more than once."""
    waiting: list[Node] = [root]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ScalarNode):
            continue
        if id(node) in seen:
            yield id(node)
            continue
        seen.add(id(node))
        waiting.extend(node.items if isinstance(node, SequenceNode) else (value for _, value in node.entries))


def _flows(node: ScalarNode) -> bool:
    """Whether a value may be written between the brackets of a list or a mapping on one line."""
    if node.tag is not None or _BREAKS.search(node.text):
        return False
    return node.quoted or _FLOWING.fullmatch(node.text) is not None


_WORDS = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"))


def quoted_name(name: str) -> str:
    """Return a name as YAML text that reads as this name, in quotes where needed."""
    return name if name.isidentifier() and name.lower() not in _WORDS else "'" + name.replace("'", "''") + "'"
