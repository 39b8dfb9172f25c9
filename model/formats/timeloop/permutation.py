"""Loop orders as they are written: innermost first, as a list or a text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from model.text.fields import as_scalar, known_name
from model.text.source import Node, ScalarNode, SequenceNode, Span, SpecError
from model.wording import listing


@dataclass(frozen=True)
class Permutation:
    """An order of dimensions, innermost first.

    Parameters
    ----------
    inner
        The innermost dimensions, in order.
    outer
        The outermost dimensions, in order, the last one being the outermost loop; those in
        neither list lie between.
    span
        Where it was written.
    """

    inner: tuple[str, ...]
    outer: tuple[str, ...]
    span: Span

    @property
    def listed(self) -> tuple[str, ...]:
        """All dimensions that it names."""
        return (*self.inner, *self.outer)


def read_permutation(node: Node, dims: Iterable[str]) -> Permutation:
    """Read a permutation: ``[R, S, P]``, ``RSP``, ``R,S,P``, ``R S P`` or ``RS_P``.

    In a text without separators each character names a dimension; ``_`` parts the innermost
    dimensions from the outermost ones.

    Raises
    ------
    SpecError
        An unknown dimension, or one that is named twice.
    """
    known = tuple(dims)
    if isinstance(node, SequenceNode):
        inner_nodes, outer_nodes = _part(list(node.items))
    else:
        inner_nodes, outer_nodes = _split_text(as_scalar(node, "`permutation`"), known)
    inner = tuple(known_name(item, known, "dimension") for item in inner_nodes)
    outer = tuple(known_name(item, known, "dimension") for item in outer_nodes)
    _check_once([*zip(inner, inner_nodes, strict=True), *zip(outer, outer_nodes, strict=True)])
    return Permutation(inner, outer, node.span)


def _part(items: list[Node]) -> tuple[list[Node], list[Node]]:
    """Part a list at an entry ``_``, if there is one."""
    for place, item in enumerate(items):
        if isinstance(item, ScalarNode) and item.text == "_":
            return items[:place], items[place + 1 :]
    return items, []


def _split_text(node: ScalarNode, known: tuple[str, ...]) -> tuple[list[Node], list[Node]]:
    text = node.text.strip()
    if re.search(r"[,\s]", text):
        words = [word for word in re.split(r"[,\s]+", text) if word]
        return _part([_word(word, node) for word in words])
    characters = list(text)
    if text in known and len(text) > 1:
        if all(character in known for character in characters):
            hint = "write it as a list"
            message = f"permutation `{text}` can be one dimension or {listing(characters)}"
            raise SpecError(message, node.span, hint=hint)
        return [node], []
    if any(character not in known and character != "_" for character in characters) and len(text) > 1:
        unknown = next(c for c in characters if c not in known and c != "_")
        hint = f"known are {listing(known)}; names of several letters need a list or commas"
        raise SpecError(f"unknown dimension `{unknown}` in permutation `{text}`", node.span, hint=hint)
    return _part([_word(character, node) for character in characters])


def _word(text: str, node: ScalarNode) -> Node:
    return ScalarNode(text, text, True, node.span)


def _check_once(named: list[tuple[str, Node]]) -> None:
    first: dict[str, Span] = {}
    for dim, node in named:
        if dim in first:
            related = () if first[dim] == node.span else ((first[dim], "first here"),)
            raise SpecError(f"dimension `{dim}` stands twice in the permutation", node.span, related)
        first[dim] = node.span
