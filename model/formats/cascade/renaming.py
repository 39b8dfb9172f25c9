"""Einsums that differ in the names of their tensors only: one is read, the others are it by other names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from model.architecture import Fanout, Node, StorageLevel
from model.mapspace import KeepRules, Mapspace
from model.problem import Problem
from model.text.source import MappingNode, ScalarNode, SequenceNode
from model.text.source import Node as TextNode

Names = Mapping[str, str]


def numbered(problem: Problem) -> dict[str, str]:
    """Return for each dataspace a name that no spec can have, by its place."""
    return {space.name: f"\0{place}" for place, space in enumerate(problem.dataspaces)}


def renamed_text(node: TextNode, names: Names) -> TextNode:
    """Return a text with other names where a whole value is one."""
    if isinstance(node, ScalarNode):
        return replace(node, value=names[node.text], text=names[node.text]) if node.text in names else node
    if isinstance(node, SequenceNode):
        return replace(node, items=tuple(renamed_text(item, names) for item in node.items))
    assert isinstance(node, MappingNode)
    entries = ((key, renamed_text(value, names)) for key, value in node.entries)
    return MappingNode(tuple(entries), node.span, node.tag)


def renamed_problem(problem: Problem, names: Names) -> Problem:
    """Return a problem without a name of its own, with other names of its dataspaces."""
    spaces = tuple(replace(space, name=names[space.name]) for space in problem.dataspaces)
    return replace(problem, name="", dataspaces=spaces)


def renamed_mapspace(mapspace: Mapspace, problem: Problem) -> Mapspace:
    """Return the mapspace of dense data for a problem that differs in names only, without notes."""
    pairs = zip(mapspace.problem.dataspaces, problem.dataspaces, strict=True)
    names = {own.name: other.name for own, other in pairs}
    architecture = mapspace.architecture
    return replace(
        mapspace,
        problem=problem,
        architecture=replace(architecture, nodes=tuple(_node(node, names) for node in architecture.nodes)),
        keep=tuple(_keep(rules, names) for rules in mapspace.keep),
        parallel=tuple(replace(own, always=_set(own.always, names)) for own in mapspace.parallel),
        notes=(),
    )


def _set(own: Iterable[str], names: Names) -> frozenset[str]:
    return frozenset(names[name] for name in own)


def _node(node: Node, names: Names) -> Node:
    if isinstance(node, Fanout):
        return replace(
            node,
            no_multicast=_set(node.no_multicast, names),
            no_link_transfer=_set(node.no_link_transfer, names),
        )
    return _level(node, names)


def _level(level: StorageLevel, names: Names) -> StorageLevel:
    return replace(
        level,
        bandwidth_scale=tuple((names[name], scale) for name, scale in level.bandwidth_scale),
        packing=tuple(replace(own, dataspace=names[own.dataspace]) for own in level.packing),
        no_temporal_reuse=_set(level.no_temporal_reuse, names),
        rmw_first_update=_set(level.rmw_first_update, names),
        no_coalesce=_set(level.no_coalesce, names),
        tolls=tuple((names[name], direction) for name, direction in level.tolls),
        free_first_touches=tuple((names[name], share) for name, share in level.free_first_touches),
    )


def _keep(rules: KeepRules, names: Names) -> KeepRules:
    return replace(
        rules,
        keep=_set(rules.keep, names),
        bypass=_set(rules.bypass, names),
        sources=tuple((names[name], source) for name, source in rules.sources),
        settled=_set(rules.settled, names),
        whole=_set(rules.whole, names),
    )
