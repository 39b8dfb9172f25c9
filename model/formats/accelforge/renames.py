"""Renames: further names for the tensors and rank variables of an Einsum."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from model.formats.accelforge.sets import Kind
from model.text.fields import (
    IDENTIFIER_HINT,
    as_mapping,
    as_name,
    as_scalar,
    as_sequence,
    flat_items,
    given,
    known_name,
)
from model.text.keys import check_keys
from model.text.source import MappingNode, Node, ScalarNode, Span, SpecError

DEFAULT = "default"

_SECTION_KINDS: Mapping[str, Kind] = {"tensor_accesses": "tensors", "rank_variables": "rank variables"}
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class Rename:
    """A name for what a set expression gives.

    Parameters
    ----------
    name, span
        The name and its place.
    source
        The set expression.
    expected_count
        How many elements it must give, None if that is not said.
    kind
        What it must give, None for either.
    """

    name: str
    span: Span
    source: ScalarNode
    expected_count: ScalarNode | None = None
    kind: Kind | None = None


Renames = dict[str, Rename]


def read_renames(node: Node | None, kind: Kind | None = None) -> Renames:
    """Read ``{name: source}``, or a list of mappings with ``name``, ``source`` and ``expected_count``.

    Raises
    ------
    SpecError
        For anything else, and for a name that is given twice.
    """
    if node is None:
        return {}
    if isinstance(node, MappingNode):
        return {key.text: _rename(key, value, None, kind) for key, value in node.entries}
    renames: Renames = {}
    for item in as_sequence(node, "`renames`").items:
        entry = as_mapping(item, "a rename")
        check_keys(entry, ("name", "source", "expected_count"), "a rename", ("name", "source"))
        rename = _rename(
            entry.require("name", "a rename"),
            entry.require("source", "a rename"),
            given(entry, "expected_count"),
            kind,
        )
        if rename.name in renames:
            related = ((renames[rename.name].span, "the first"),)
            raise SpecError(f"rename `{rename.name}` is given twice", rename.span, related)
        renames[rename.name] = rename
    return renames


def _rename(key: Node, source: Node, expected: Node | None, kind: Kind | None) -> Rename:
    name = as_name(key, "`name` of a rename")
    if not _NAME.match(name):
        raise SpecError(f"`{name}` cannot be a name", key.span, hint=IDENTIFIER_HINT)
    return Rename(
        name=name,
        span=key.span,
        source=as_scalar(source, f"the source of `{name}`"),
        expected_count=None if expected is None else as_scalar(expected, "`expected_count`"),
        kind=kind,
    )


def read_top_renames(node: Node | None, einsums: Iterable[str]) -> dict[str, Renames]:
    """Read the top-level section ``renames``.

    Several entries for one Einsum, as files that are joined may bring them, count together.

    Raises
    ------
    SpecError
        For an unknown Einsum, and for a name with two different sources.
    """
    if node is None:
        return {}
    section = as_mapping(node, "`renames`")
    check_keys(section, ("einsums", "version"), "`renames`")
    listed = given(section, "einsums")
    items = () if listed is None else as_sequence(listed, "`einsums` of `renames`").items
    names = (DEFAULT, *einsums)
    by_einsum: dict[str, Renames] = {}
    for item in flat_items(items):
        entry = as_mapping(item, "an Einsum's renames")
        check_keys(entry, ("name", *_SECTION_KINDS), "an Einsum's renames", ("name",))
        name = known_name(entry.require("name", "an Einsum's renames"), names, "Einsum")
        for rename in _renames_of_entry(entry):
            _add(by_einsum.setdefault(name, {}), rename)
    return by_einsum


def _renames_of_entry(entry: MappingNode) -> Iterator[Rename]:
    for key, kind in _SECTION_KINDS.items():
        yield from read_renames(given(entry, key), kind).values()


def _add(renames: Renames, rename: Rename) -> None:
    known = renames.setdefault(rename.name, rename)
    same = known.source.text == rename.source.text and known.expected_count == rename.expected_count
    if not same or known.kind != rename.kind:
        related = ((known.source.span, "the first"),)
        raise SpecError(f"rename `{rename.name}` has two sources", rename.source.span, related)


def effective_renames(own: Renames, top: Mapping[str, Renames], einsum: str) -> Renames:
    """Return the renames that hold in an Einsum."""
    return {**top.get(DEFAULT, {}), **top.get(einsum, {}), **own}
