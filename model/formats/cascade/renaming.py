"""Einsums that differ in names only: one is read, the others are it by other names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from model.architecture import Fanout, Node, StorageLevel
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Problem
from model.renaming import Renaming
from model.text.source import MappingNode, ScalarNode, SequenceNode
from model.text.source import Node as TextNode

Names = Mapping[str, str]
Loops = TypeVar("Loops", TemporalRules, SpatialRules)


def numbered(problem: Problem, text: TextNode) -> Renaming:
    """Return names by place that no spec can have; dimensions that a text names keep their names."""
    said = set(_words(text))
    dims = ((f"\0{place}", dim) for place, dim in enumerate(problem.dims))
    spaces = ((f"\0{place}", space.name) for place, space in enumerate(problem.dataspaces))
    return Renaming(
        {dim: dim if dim in said or not dim.isidentifier() else number for number, dim in dims},
        {name: number for number, name in spaces},
    )


def _words(node: TextNode) -> Iterator[str]:
    """Yield all words of the values and keys of a text."""
    if isinstance(node, ScalarNode):
        yield from re.findall(r"\w+", node.text)
    elif isinstance(node, SequenceNode):
        for item in node.items:
            yield from _words(item)
    else:
        for key, value in node.entries:
            yield from re.findall(r"\w+", key.text)
            yield from _words(value)


def renamed_text(node: TextNode, names: Names) -> TextNode:
    """Return a text with other names of dataspaces where a whole value is one."""
    if isinstance(node, ScalarNode):
        return replace(node, value=names[node.text], text=names[node.text]) if node.text in names else node
    if isinstance(node, SequenceNode):
        return replace(node, items=tuple(renamed_text(item, names) for item in node.items))
    assert isinstance(node, MappingNode)
    entries = ((key, renamed_text(value, names)) for key, value in node.entries)
    return MappingNode(tuple(entries), node.span, node.tag)


def renamed_mapspace(mapspace: Mapspace, problem: Problem) -> Mapspace:
    """Return the mapspace of dense data for a problem that differs in names only, without notes."""
    pairs = zip(mapspace.problem.dataspaces, problem.dataspaces, strict=True)
    names = {own.name: other.name for own, other in pairs}
    dims = dict(zip(mapspace.problem.dims, problem.dims, strict=True))
    architecture = mapspace.architecture
    return replace(
        mapspace,
        problem=problem,
        architecture=replace(architecture, nodes=tuple(_node(node, names) for node in architecture.nodes)),
        temporal=tuple(_loops(rules, dims) for rules in mapspace.temporal),
        spatial=tuple(
            replace(_loops(rules, dims), uncounted=_set(rules.uncounted, dims)) for rules in mapspace.spatial
        ),
        keep=tuple(_keep(rules, names) for rules in mapspace.keep),
        parallel=tuple(replace(own, always=_set(own.always, names)) for own in mapspace.parallel),
        notes=(),
    )


def _set(own: Iterable[str], names: Names) -> frozenset[str]:
    return frozenset(names[name] for name in own)


def _loops(rules: Loops, dims: Names) -> Loops:
    """Rules on temporal or spatial loops with other names of dimensions."""
    factors = (replace(rule, dim=dims[rule.dim]) for rule in rules.factors)
    inner, outer = (tuple(dims[dim] for dim in own) for own in (rules.inner, rules.outer))
    return replace(rules, factors=tuple(factors), inner=inner, outer=outer)


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
