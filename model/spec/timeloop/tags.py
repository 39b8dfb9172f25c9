"""Tags mark the nodes of an architecture; anywhere else they would be read and ignored."""

from __future__ import annotations

from collections.abc import Iterator

from model.spec.source import MappingNode, Node, ScalarNode, SpecError, did_you_mean

NODE_TAGS = ("!Component", "!Container", "!Nothing", "!Hierarchical", "!Parallel")

# Names that drafts and extensions of the format use.
OLD_TAGS = {"!Element": "!Component", "!ArrayContainer": "!Container"}


def check_tags(section: str, value: Node) -> None:
    """Refuse tags outside of the architecture's tree; the tree's own are checked where it is read.

    Parameters
    ----------
    section
        A top-level key.
    value
        What stands under it.

    Raises
    ------
    SpecError
        A value that is no node of the architecture carries a tag.
    """
    for node in _children(value) if section == "architecture" else (value,):
        _check(node)


def refused_tag(node: Node) -> SpecError:
    """Say that a tag is unknown."""
    if node.tag in OLD_TAGS:
        return SpecError(f"unknown tag `{node.tag}`", node.span, hint=f"write `{OLD_TAGS[node.tag]}`")
    hint = did_you_mean(node.tag or "", NODE_TAGS) or f"known are {', '.join(NODE_TAGS)}"
    return SpecError(f"unknown tag `{node.tag}`", node.span, hint=hint)


def _check(node: Node) -> None:
    if node.tag in NODE_TAGS:
        hint = "they mark the items of `nodes` in the architecture"
        raise SpecError(f"`{node.tag}` does not belong here", node.span, hint=hint)
    if node.tag is not None:
        raise refused_tag(node)
    for child in _children(node):
        _check(child)


def _children(node: Node) -> Iterator[Node]:
    """Values inside of `node`; of the items of a list of ``nodes``, what lies inside of them."""
    if isinstance(node, ScalarNode):
        return
    if not isinstance(node, MappingNode):
        yield from node.items
        return
    for key, value in node.entries:
        if key.text == "nodes" and not isinstance(value, ScalarNode):
            for item in _children(value):
                yield from _children(item)
        else:
            yield value
