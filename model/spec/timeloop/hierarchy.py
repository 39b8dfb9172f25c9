"""The architecture's tree as a list for people, containers and branches included."""

from __future__ import annotations

from dataclasses import dataclass

from model.spec.timeloop.tree import Leaf, Tree


@dataclass(frozen=True, slots=True)
class HierarchyNode:
    """One line of the tree.

    Parameters
    ----------
    depth
        Nesting depth, 0 for the nodes of the architecture itself.
    kind
        ``container``, ``storage``, ``compute``, ``nothing``, or the tag of a branch.
    name
        Its name, empty where it has none.
    mesh_x, mesh_y
        Instances per instance above, along each axis.
    """

    depth: int
    kind: str
    name: str
    mesh_x: int = 1
    mesh_y: int = 1


def flattened(tree: Tree) -> tuple[HierarchyNode, ...]:
    """Return the tree's branches and leaves in the order in which they are written."""
    branches = [(before, HierarchyNode(depth, tag, "")) for tag, depth, before in tree.branches]
    lines: list[HierarchyNode] = []
    for place, leaf in enumerate(tree.leaves):
        lines += [line for before, line in branches if before == place]
        lines.append(_line(leaf))
    return tuple(lines)


def _line(leaf: Leaf) -> HierarchyNode:
    return HierarchyNode(leaf.depth, leaf.role, leaf.name, leaf.mesh_x, leaf.mesh_y)
