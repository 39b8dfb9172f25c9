"""Mappings whose memories have several places in the loop nest: a target for each of them.

The places of ``buffer`` are the targets ``buffer#1`` (the outermost), ``buffer#2``, and so on. A mapping that
names the memory alone has one place for all of its dataspaces.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations

from model.formats.timeloop.assembly import Assembly, Keeping, TemporalLevel, TilingLevel, read_keeping
from model.formats.timeloop.constraints import Clause
from model.formats.timeloop.context import Context
from model.formats.timeloop.mapping import check_coalescing, read_mapping
from model.formats.timeloop.tree import ArchLeaf
from model.mapping import Mapping as LoopNest
from model.mapping import StorageMapping
from model.mapspace import JointRules, Mapspace
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError
from model.wording import listing


def names_places(sections: Iterable[Node], mapspace: Mapspace) -> bool:
    """Whether targets of a mapping are places of memories that have several."""
    named = set(chain.from_iterable(map(_target_names, sections)))
    return any(not named.isdisjoint(own) for own in place_names(mapspace).values())


def read_placed(
    read: Callable[[Context], list[Clause]],
    constrained: Assembly,
    mapspace: Mapspace,
    span: Span,
    context: Context,
) -> LoopNest:
    """Return a mapping that names places of memories.

    Parameters
    ----------
    read
        Reads the targets of the mapping, given the nodes that they may name.
    constrained
        The nodes with their constraints.
    span
        The place of the mapping.

    Raises
    ------
    SpecError
        If the mapping breaks a constraint, also one on the loops of all places of a memory.
    """
    places = place_names(mapspace)
    leaves = [
        replace(leaf, name=name) if leaf.name in places else leaf
        for leaf in context.tree.leaves
        for name in places.get(leaf.name, (leaf.name,))
    ]
    context = replace(context, tree=replace(context.tree, leaves=tuple(leaves)))
    targets = read(context)
    parted = Assembly(
        tuple(_levels_by_place(constrained, places, context)), constrained.compute, mapspace.parallel
    )
    return read_keeping_mapping(targets, parted, mapspace, span, context)


def read_keeping_mapping(
    targets: Sequence[Clause], constrained: Assembly, mapspace: Mapspace, span: Span, context: Context
) -> LoopNest:
    """Return a mapping whose targets say what each level, or each place of a memory, keeps.

    Parameters
    ----------
    constrained
        The levels of the mapspace, places of memories one by one, with their constraints.
    span
        The place of the mapping.

    Raises
    ------
    SpecError
        If the mapping breaks a constraint, also one on the loops of all places of a memory.
    """
    mapped = _with_keeping(constrained, targets, context)
    check_coalescing(constrained.storages, mapped.storages)
    mapping = read_mapping(targets, mapped, span, context)
    for rules in mapspace.joint:
        _check_joint(rules, mapping, mapspace, span)
    return mapping


def place_names(mapspace: Mapspace) -> dict[str, tuple[str, ...]]:
    """Return the names of the places of each memory that has several."""
    levels = mapspace.architecture.levels
    return {
        levels[rules.levels[0]].component: tuple(levels[level].name for level in rules.levels)
        for rules in mapspace.joint
    }


def _target_names(node: Node) -> Iterator[str]:
    """Yield the names under ``target`` anywhere below a node."""
    if isinstance(node, SequenceNode):
        yield from chain.from_iterable(map(_target_names, node.items))
    if not isinstance(node, MappingNode):
        return
    for key, value in node.entries:
        if key.text == "target" and isinstance(value, ScalarNode):
            yield value.text
        yield from _target_names(value)


def _levels_by_place(
    constrained: Assembly, places: Mapping[str, Sequence[str]], context: Context
) -> Iterator[TilingLevel]:
    """Yield the levels, those of memories with several places once for each."""
    for level in constrained.levels:
        if not isinstance(level, TemporalLevel) or level.storage.name not in places:
            yield level
            continue
        for name in places[level.storage.name]:
            # What binds the loops of all places together is checked once they are known.
            loops = replace(level.loops, leaf=context.leaves[name], factors=(), permutation=None)
            yield TemporalLevel(loops, replace(level.storage, name=name), replace(level.keeping, keep={}))


def _with_keeping(assembly: Assembly, targets: Sequence[Clause], context: Context) -> Assembly:
    """Return the assembly with what a mapping says of keeping."""
    levels = (
        replace(level, keeping=_keeping_of_level(level.keeping, level.loops.leaf, targets, context))
        if isinstance(level, TemporalLevel)
        else level
        for level in assembly.levels
    )
    return replace(assembly, levels=tuple(levels))


def _keeping_of_level(asked: Keeping, leaf: ArchLeaf, targets: Sequence[Clause], context: Context) -> Keeping:
    """Return what a level keeps, as the constraints and a mapping say."""
    keeping = Keeping(leaf, dict(asked.keep), dict(asked.bypass), dict(asked.no_coalesce))
    said = read_keeping(targets, leaf, context)
    keeping.no_coalesce |= said.no_coalesce
    for verb, names in (("keep", said.keep), ("bypass", said.bypass)):
        for name, span in names.items():
            keeping.require(verb, name, span)
    return keeping


def _check_joint(rules: JointRules, mapping: LoopNest, mapspace: Mapspace, span: Span) -> None:
    """Raise a SpecError where the places of a memory break its constraints together."""
    architecture = mapspace.architecture
    name = architecture.levels[rules.levels[0]].component
    entries = [mapping.nodes[architecture.storage_indices[level]] for level in rules.levels]
    places = [entry for entry in entries if isinstance(entry, StorageMapping)]
    missing = rules.keep.keep - frozenset().union(*(place.keep for place in places))
    if missing:
        raise SpecError(f"the mapping keeps {listing(sorted(missing))} at no place of `{name}`", span)
    loops = [{loop.dim: loop.bound for loop in place.temporal if loop.bound > 1} for place in places]
    if rules.allow(loops):
        return
    for rule in rules.temporal.factors:
        factor = 1
        for own in loops:
            factor *= own.get(rule.dim, 1)
        if not rule.allows(factor):
            message = f"the mapping's {rule.dim}={factor} at all places of `{name}` together"
            raise SpecError(
                f"{message} violates the constraint `{rule.dim}{rule.relation}{rule.value}`", span
            )
    outer, inner = _out_of_order(rules, loops)
    message = f"the loops of `{name}` over {listing(outer)} lie outside of those over {listing(inner)}"
    raise SpecError(f"{message}, which violates the order of the constraints", span)


def _out_of_order(rules: JointRules, loops: Sequence[Collection[str]]) -> tuple[Sequence[str], Sequence[str]]:
    pairs = combinations(loops, 2)
    outer, inner = next((outer, inner) for outer, inner in pairs if not rules.follows(outer, inner))
    return sorted(outer), sorted(inner)
