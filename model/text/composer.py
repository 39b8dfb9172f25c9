"""YAML text to spec nodes, built from parser events so that every limit holds before memory grows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import yaml

from model.text.arithmetic import float_of
from model.text.limits import Limits, raised_by
from model.text.merging import NO_MERGE_TAG, is_merge_key, merged_mapping, without_merge_tags
from model.text.source import (
    Document,
    MappingNode,
    Node,
    Scalar,
    ScalarNode,
    SequenceNode,
    SourceText,
    Span,
    SpecError,
)
from model.wording import did_you_mean

if TYPE_CHECKING:
    _Mark = yaml.Mark | yaml._yaml.Mark


CORE_TAGS = "tag:yaml.org,2002:"
INCLUDE_TAG = "!include"
INCLUDE_DIRECTORY_TAG = "!includedir"
INCLUDED_TAG = "!included"

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {text: text.lower() == "true" for text in ("true", "True", "TRUE", "false", "False", "FALSE")}
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NOT_A_NUMBER = frozenset({".nan", ".NaN", ".NAN"})
_TAGGED_TYPES: dict[str, type | tuple[type, ...]] = {
    "int": int,
    "float": (int, float),
    "bool": bool,
    "null": type(None),
}

Resolver = Callable[[ScalarNode], Node]

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN_COLLECTION_TAGS = frozenset({"!", CORE_TAGS + "map", CORE_TAGS + "seq"})
_UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\ufeff")
_KEY_END, _NO_PLAIN_TEXT = re.compile(r":[ \t\n]"), re.compile("""["'#|>]""")
_NO_BREAK_SPACE = "\xa0"
_UNALIGNED = "keys of one mapping begin in the same column, each on a line; quote text that contains `: `"
_UNNAMED = "`*` and `&` begin aliases and anchors here: quote text that begins with them"
_SYNTAX_HINTS = {
    "mapping values are not allowed in this context": _UNALIGNED,
    "did not find expected key": _UNALIGNED,
    "did not find expected alphabetic or numeric character": _UNNAMED,
    "found unexpected ':'": "write a space after the `:` of a key",
}
_LIBYAML_TOO_DEEP = "exceeded maximum nesting depth"
"""The error of libyaml 0.2.6 at `_LIBYAML_DEPTH`: it reads ahead, so our own limit may come later."""

_LIBYAML_DEPTH = 1000
_MISPLACED_INCLUDE = re.compile(re.escape(INCLUDED_TAG) + r" \d")


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of a node with every alias written out: nodes, and nesting of collections."""

    nodes: int
    depth: int


@dataclass(frozen=True, slots=True)
class _Anchor:
    span: Span
    node: Node | None
    extent: Extent


@dataclass(slots=True)
class _Frame:
    """A collection whose end the parser has not reached."""

    event: yaml.events.CollectionStartEvent
    children: list[Node] = field(default_factory=list)
    nodes: int = 1
    depth: int = 0
    end: tuple[int, int] = (0, 0)


def compose(document: Document, limits: Limits, resolvers: dict[str, Resolver] | None = None) -> Node | None:
    """Return the root node of a document, or None if it is empty; SpecError for what YAML or limits forbid.

    `resolvers` return, by tag (``!include``), the node that replaces a scalar.
    """
    return _Composer(document, limits, resolvers or {}).compose()


def node_extent(node: Node) -> Extent:
    """Measure a node; shared nodes are measured once and counted as often as they occur."""
    known: dict[int, Extent] = {}

    def measure(part: Node) -> Extent:
        if isinstance(part, ScalarNode):
            return Extent(1, 0)
        if id(part) in known:
            return known[id(part)]
        children = part.items if isinstance(part, SequenceNode) else [value for _, value in part.entries]
        extents = [measure(child) for child in children]
        keys = len(part.entries) if isinstance(part, MappingNode) else 0
        nodes = 1 + keys + sum(extent.nodes for extent in extents)
        known[id(part)] = Extent(nodes, 1 + max((extent.depth for extent in extents), default=0))
        return known[id(part)]

    return measure(node)


class _Composer:
    def __init__(self, document: Document, limits: Limits, resolvers: dict[str, Resolver]) -> None:
        self._document = document
        self._limits = limits
        self._resolvers = resolvers
        self._anchors: dict[str, _Anchor] = {}
        self._aliases = False
        self._stack: list[_Frame] = []
        self._root: Node | None = None
        self._has_merge_tags = False

    def compose(self) -> Node | None:
        documents = 0
        for event in self._events():
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                self._check_single(event, documents)
            elif isinstance(event, yaml.ScalarEvent):
                self._on_scalar(event)
            elif isinstance(event, yaml.AliasEvent):
                self._on_alias(event)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._on_start(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._on_end(event)
            self._has_merge_tags |= getattr(event, "tag", None) == NO_MERGE_TAG
        if self._root is None or not self._has_merge_tags:
            return self._root
        return without_merge_tags(self._root)

    def _events(self) -> Iterator[yaml.Event]:
        self._check_readable()
        self._check_pairs()
        try:
            yield from yaml.parse(self._document.text, Loader=_Loader)
        except yaml.MarkedYAMLError as error:
            raise self._syntax_error(error) from None

    def _check_readable(self) -> None:
        unreadable = _UNREADABLE.search(self._document.text)
        if unreadable is None:
            return
        before = SourceText.of("", self._document.text[: unreadable.start()]).lines
        line, column = len(before), len(before[-1]) + 1
        message = f"the character U+{ord(unreadable.group()):04X} is not allowed in YAML"
        raise SpecError(message, self._document.span(line, column, line, column + 1))

    def _check_pairs(self) -> None:
        """Refuse at once what has too many values in its mappings alone, where every `: ` ends a key."""
        text, most = self._document.text, self._limits.nodes // 2
        if text.count(":") <= most or _NO_PLAIN_TEXT.search(text):
            return
        ends = islice(_KEY_END.finditer(text), most, None)
        beyond = next(ends, None)
        if beyond is not None:
            line = text.count("\n", 0, beyond.start()) + 1
            column = beyond.start() - text.rfind("\n", 0, beyond.start())
            message = f"this is more than {self._limits.nodes} values"
            raise SpecError(
                message, self._document.span(line, column, line, column + 1), hint=raised_by("nodes")
            )

    def _syntax_error(self, error: yaml.MarkedYAMLError) -> SpecError:
        span = self._at(error.problem_mark or error.context_mark)
        if error.problem == _LIBYAML_TOO_DEEP:
            return self._too_deep(span, min(self._limits.depth, _LIBYAML_DEPTH))
        context = None if error.context_mark is None else self._at(error.context_mark)
        related: tuple[tuple[Span, str], ...] = ()
        if context is not None and context != span:
            related = ((context, f"{error.context} that begins here"),)
        return SpecError(
            f"not YAML: {error.problem or error.context}", span, related, _syntax_hint(error, span, context)
        )

    def _at(self, mark: _Mark | None) -> Span:
        """Return the span of one character; beyond the end of the text, of that end."""
        line, column = _position(mark)
        lines = self._document.source.lines
        if not any(text.strip() for text in lines[line - 1 :]):
            line = next((number for number in range(len(lines), 0, -1) if lines[number - 1].strip()), 1)
            column = len(lines[line - 1].rstrip()) + 1
        return self._document.span(line, column, line, column + 1)

    def _span(self, event: yaml.Event, end: tuple[int, int] | None = None) -> Span:
        return self._document.span(*_position(event.start_mark), *(end or _position(event.end_mark)))

    def _check_single(self, event: yaml.Event, documents: int) -> None:
        if documents > 1:
            raise SpecError("a second YAML document begins here; a spec file holds one", self._span(event))

    def _on_scalar(self, event: yaml.ScalarEvent) -> None:
        span = self._span(event)
        if len(event.value) > self._limits.scalar_characters:
            most = self._limits.scalar_characters
            message = f"a value of {len(event.value)} characters; at most {most} are read"
            raise SpecError(message, span, hint=raised_by("scalar_characters"))
        written = scalar_node(event.value, bool(event.style), span, event.tag, self._limits)
        node: Node = written
        if event.tag in self._resolvers:
            node = self._resolvers[event.tag](written)
        elif INCLUDED_TAG in self._resolvers and _MISPLACED_INCLUDE.search(event.value):
            raise SpecError("the result of `include` is a whole value and cannot be part of a text", span)
        extent = Extent(1, 0) if isinstance(node, ScalarNode) else node_extent(node)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(span, node, extent)
        self._add(node, extent, span, event)

    def _on_alias(self, event: yaml.AliasEvent) -> None:
        span = self._span(event)
        self._aliases = True
        name = event.anchor or ""
        anchor = self._anchors.get(name)
        if anchor is None:
            message = f"no anchor `&{name}` comes before this alias"
            raise SpecError(message, span, hint=did_you_mean(name, self._anchors))
        if anchor.node is None:
            message = f"the alias `*{name}` is part of the value that it refers to"
            raise SpecError(message, span, ((anchor.span, "the anchor is here"),))
        self._add(anchor.node, anchor.extent, span, event)

    def _on_start(self, event: yaml.events.CollectionStartEvent) -> None:
        if len(self._stack) >= self._limits.depth:
            raise self._too_deep(self._span(event), self._limits.depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(self._span(event), None, Extent(0, 0))
        self._stack.append(_Frame(event, end=_position(event.end_mark)))

    def _on_end(self, event: yaml.events.CollectionEndEvent) -> None:
        frame = self._stack.pop()
        if frame.event.flow_style:
            frame.end = _position(event.end_mark)
        span = self._span(frame.event, frame.end)
        tag = None if frame.event.tag in _PLAIN_COLLECTION_TAGS else frame.event.tag
        node: Node
        if isinstance(frame.event, yaml.MappingStartEvent):
            node = self._mapping(frame.children, span, tag)
        else:
            node = SequenceNode(tuple(frame.children), span, tag)
        extent = Extent(frame.nodes, frame.depth + 1)
        if frame.event.anchor is not None:
            self._anchors[frame.event.anchor] = _Anchor(span, node, extent)
        self._add(node, extent, span, event)
        if self._stack:
            self._stack[-1].end = frame.end

    def _mapping(self, children: list[Node], span: Span, tag: str | None) -> MappingNode:
        seen: dict[str, ScalarNode] = {}
        entries = []
        for key, value in zip(children[::2], children[1::2], strict=True):
            assert isinstance(key, ScalarNode)
            if key.text in seen:
                related = ((seen[key.text].span, "first given here"),)
                raise SpecError(f"the key `{key.text}` is given twice", key.span, related)
            seen[key.text] = key
            entries.append((key, value))
        if not any(is_merge_key(key) for key in seen.values()):
            return MappingNode(tuple(entries), span, tag)
        for key, value in entries:
            self._check_sources(key, value)
        return merged_mapping(entries, span, tag)

    def _check_sources(self, key: ScalarNode, value: Node) -> None:
        most = self._limits.merge_sources
        if is_merge_key(key) and isinstance(value, SequenceNode) and len(value.items) > most:
            message = f"`{key.text}` of {len(value.items)} mappings; at most {most} are merged"
            raise SpecError(message, key.span)

    def _add(self, node: Node, extent: Extent, span: Span, event: yaml.Event) -> None:
        """Put a finished node into the collection that is open."""
        if not self._stack:
            self._root = node
            return
        frame = self._stack[-1]
        is_key = isinstance(frame.event, yaml.MappingStartEvent) and len(frame.children) % 2 == 0
        if is_key and not isinstance(node, ScalarNode):
            raise SpecError("a key is a word or a number, not a list or a mapping", span)
        frame.children.append(node)
        frame.nodes += extent.nodes
        frame.depth = max(frame.depth, extent.depth)
        frame.end = _position(event.end_mark)
        if frame.nodes > self._limits.nodes:
            aliases = ", with its aliases written out" if self._aliases else ""
            message = f"this is more than {self._limits.nodes} values{aliases}"
            raise SpecError(message, span, hint=raised_by("nodes"))
        if len(self._stack) + extent.depth > self._limits.depth:
            raise self._too_deep(span, self._limits.depth)

    def _too_deep(self, span: Span, most: int) -> SpecError:
        return SpecError(f"lists and mappings are nested more than {most} deep", span)


def _syntax_hint(error: yaml.MarkedYAMLError, span: Span, context: Span | None) -> str | None:
    """Return a hint at the likely cause, judged by the lines that the parser stopped at."""
    lines = [_line(place) for place in (span, context) if place is not None]
    if "\t" in _indentation(lines[0]):
        return "YAML is indented with spaces, not tabs"
    if any(_NO_BREAK_SPACE in _indentation(line) for line in (lines[0], _line(span, -1))):
        return "the line is indented with a no-break space; YAML needs plain spaces"
    starts = [line.lstrip() for line in (*lines, _line(span, -1))]
    if any(start.startswith("!") for start in starts):
        return "a tagged node is an item of a list: write a dash and a space before its tag"
    if any(start.startswith("-!") for start in starts):
        return "write a space between the dash of an item and its tag"
    return _SYNTAX_HINTS.get(error.problem or "")


def _line(span: Span, offset: int = 0) -> str:
    return (span.source.line(span.line + offset) if span.source else None) or ""


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _position(mark: _Mark | None) -> tuple[int, int]:
    """Return a mark's line and column, 1-based."""
    return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)


def plain_value(text: str, span: Span | None = None, limits: Limits | None = None) -> Scalar:
    """Return the value of an unquoted scalar, by YAML 1.2's core schema; SpecError if out of range."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    return _number_or_text(text, span, limits or Limits())


def scalar_node(text: str, quoted: bool, span: Span, tag: str | None, limits: Limits) -> ScalarNode:
    """Return the node of a scalar; tags of the core schema are applied and dropped, others are kept."""
    if tag is None:
        value = text if quoted else plain_value(text, span, limits)
        return ScalarNode(value, text, quoted, span)
    kind = tag.removeprefix(CORE_TAGS)
    if tag == "!" or (tag.startswith(CORE_TAGS) and kind == "str"):
        return ScalarNode(text, text, True, span)
    if tag.startswith(CORE_TAGS) and kind in _TAGGED_TYPES:
        return _converted(text, kind, span, limits)
    value = text if quoted else plain_value(text, span, limits)
    return ScalarNode(value, text, quoted, span, tag)


def _converted(text: str, kind: str, span: Span, limits: Limits) -> ScalarNode:
    value = plain_value(text, span, limits)
    if not isinstance(value, _TAGGED_TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise SpecError(f"`{text}` is tagged `!!{kind}`, but is not one", span)
    return ScalarNode(
        float(value) if kind == "float" and isinstance(value, int) else value, text, False, span
    )


def _number_or_text(text: str, span: Span | None, limits: Limits) -> Scalar:
    """Return the number that `text` is, or `text` itself."""
    bases = ((10, _DECIMAL), (8, _OCTAL), (16, _HEXADECIMAL))
    base = next((base for base, pattern in bases if pattern.fullmatch(text)), None)
    if base is not None:
        _check_digits(text, span, limits)
        return int(text.replace("0o", "") if base == 8 else text, base)
    if _FLOAT.fullmatch(text):
        return _finite(text, span, limits)
    if _INFINITE.fullmatch(text):
        return -math.inf if text.startswith("-") else math.inf
    return math.nan if text in _NOT_A_NUMBER else text


def _finite(text: str, span: Span | None, limits: Limits) -> float:
    _check_digits(text, span, limits)
    value = float_of(text)
    if math.isinf(value):
        raise SpecError(f"`{text}` is too large for a number", span, hint="infinity is written `.inf`")
    # The exact value of such a text is a fraction that can be too long for the memory.
    if value == 0 and any(digit in text.lower().partition("e")[0] for digit in "123456789"):
        raise SpecError(f"`{text}` is too small for a number", span, hint="write 0")
    return value


def _check_digits(text: str, span: Span | None, limits: Limits) -> None:
    if len(text) > limits.integer_digits:
        message = f"a number of {len(text)} digits; at most {limits.integer_digits} are read"
        raise SpecError(message, span, hint=raised_by("integer_digits"))
