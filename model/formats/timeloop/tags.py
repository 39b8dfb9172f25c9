"""Tags mark the nodes of an architecture; anywhere else they are refused, as nothing would heed them."""

from __future__ import annotations

from collections.abc import Iterator

from model.text.source import MappingNode, Node, ScalarNode, SpecError, did_you_mean

NODE_TAGS = ("!Component", "!Container", "!Nothing", "!Hierarchical", "!Parallel")

COMPONENT_TAGS = ("!Component", "!Element")
"""Tags of a component, which was an element in drafts of the format."""

# Names that extensions of the format use, and what to write instead.
OTHER_TAGS = {
    "!ArrayContainer": "write `!Container`, with `split: 0` for a mesh along Y",
    "!Copy": "instances of a node are its mesh, `spatial: {meshX: ...}`; an anchor repeats text",
}


def check_tags(section: str, value: Node) -> None:
    """Refuse tags outside of the architecture's tree; the tree's own are checked where it is read.

    Raises
    ------
    SpecError
        A value that is no node of the architecture carries a tag.
    """
    for key, node in _children(value) if section == "architecture" else ((None, value),):
        _check(node, key)


def refused_tag(node: Node) -> SpecError:
    """Return the error for an unknown tag."""
    tag = node.tag or ""
    hint = OTHER_TAGS.get(tag) or did_you_mean(tag, NODE_TAGS) or f"known are {', '.join(NODE_TAGS)}"
    return SpecError(f"unknown tag `{node.tag}`", node.span, hint=hint)


def _check(node: Node, key: ScalarNode | None) -> None:
    if node.tag in (*NODE_TAGS, *COMPONENT_TAGS):
        where, span = ("here", node.span) if key is None else (f"under `{key.text}`", key.span)
        hint = "they mark the items of `nodes` in the architecture"
        raise SpecError(f"`{node.tag}` does not belong {where}", span, hint=hint)
    if node.tag is not None:
        raise refused_tag(node)
    for inner, child in _children(node):
        _check(child, inner or key)


def _children(node: Node) -> Iterator[tuple[ScalarNode | None, Node]]:
    """Values inside of `node` with their keys; of the items of ``nodes``, what lies inside of them."""
    if isinstance(node, ScalarNode):
        return
    if not isinstance(node, MappingNode):
        yield from ((None, item) for item in node.items)
        return
    for key, value in node.entries:
        if key.text == "nodes" and not isinstance(value, ScalarNode):
            yield from (inner for _, item in _children(value) for inner in _children(item))
        else:
            yield key, value
