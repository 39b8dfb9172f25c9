"""A given mapping of one Einsum of a workload, as targets of Timeloop v4, checked against its mapspace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from model.architecture import Fanout, StorageLevel
from model.cost.nest import build_nest
from model.formats.timeloop.assembly import Assembly, Keeping, SpatialLevel, TemporalLevel, TilingLevel
from model.formats.timeloop.constraints import Permutation, WrittenFactor, target_clauses
from model.formats.timeloop.context import Context
from model.formats.timeloop.loops import LoopConstraints
from model.formats.timeloop.mapping import check_parallelism
from model.formats.timeloop.places import names_places, read_keeping_mapping
from model.formats.timeloop.problem import LoadedProblem
from model.formats.timeloop.tree import ArchLeaf, Tree
from model.mapping import Mapping as LoopNest
from model.mapping import StorageMapping
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.places import gathered, on_places, tidied
from model.source_ref import SourceRef
from model.text.fields import given
from model.text.source import MappingNode, Node, Span, SpecError, TakeNote
from model.wording import listing


def read_targets(section: Node, mapspace: Mapspace, note: TakeNote) -> LoopNest:
    """Read a mapping, as ``map --mapping`` writes it.

    Of memories that may have several places, the mapping names the memory alone, or each of its places.

    Parameters
    ----------
    section
        What stands under the key ``mapping``: a list of targets.
    mapspace
        That of the Einsum; the mapping must be in it.
    note
        Takes notes on what the mapping leaves to the reader.

    Raises
    ------
    SpecError
        If it is no mapping of the Einsum, or breaks a constraint.
    """
    if mapspace.joint and not names_places([section], mapspace):
        return tidied(mapspace, on_places(mapspace, read_targets(section, gathered(mapspace), note)))
    architecture, problem, span = mapspace.architecture, mapspace.problem, section.span
    leaves = tuple(_target_leaf(node, span) for node in architecture.nodes)
    compute = ArchLeaf("compute", architecture.compute.name, span, MappingNode((), span))
    context = Context(
        LoadedProblem(problem, {}, ()),
        Tree((*leaves, compute), (), span, architecture.name),
        variables={},
        note=note,
        factors=mapspace.factors,
    )
    targets = target_clauses(section, "`mapping`", context)
    assembly = Assembly(tuple(_levels_with_rules(leaves, mapspace, span)), compute, mapspace.parallel)
    mapping = read_keeping_mapping(targets, assembly, mapspace, span, context)
    for dim, place in context.lacking.items():
        raise SpecError(f"unknown dimension `{dim}`", place, hint=f"they are {listing(problem.dims)}")
    if not mapping.divides(problem.bound):
        message = "the mapping's factors leave remainders, which are not modelled on AccelForge architectures"
        raise SpecError(message, span)
    _check_backed(mapping, mapspace, span)
    units = build_nest(problem, architecture, mapping).instances(len(mapping.nodes))
    check_parallelism(units, mapspace.min_parallelism, None, span)
    return mapping


def _target_leaf(node: StorageLevel | Fanout, span: Span) -> ArchLeaf:
    """Return a node as one that targets of a mapping may name."""
    empty = MappingNode((), span)
    if isinstance(node, StorageLevel):
        return ArchLeaf("storage", node.name, span, empty)
    return ArchLeaf(
        "container", node.name, span, empty, mesh_x=node.mesh_x, mesh_y=node.mesh_y, spatial=empty
    )


def _levels_with_rules(leaves: Iterable[ArchLeaf], mapspace: Mapspace, span: Span) -> Iterator[TilingLevel]:
    """Yield the nodes with the rules of a mapspace as their constraints."""
    temporal, spatial, keep = iter(mapspace.temporal), iter(mapspace.spatial), iter(mapspace.keep)
    for node, leaf in zip(mapspace.architecture.nodes, leaves, strict=True):
        if isinstance(node, Fanout):
            own = next(spatial)
            split = None if own.split is None else (own.split, _place(own.split_source, span))
            yield SpatialLevel(LoopConstraints(leaf, "spatial", *_asked_loops(own, span), split), own)
        else:
            loops = LoopConstraints(leaf, "temporal", *_asked_loops(next(temporal), span))
            yield TemporalLevel(loops, node, _keeping_of_rules(leaf, next(keep), span))


def _asked_loops(
    rules: TemporalRules | SpatialRules, span: Span
) -> tuple[tuple[WrittenFactor, ...], Permutation | None]:
    """Return the factors and the order that rules ask for."""
    ordered = rules.inner or rules.outer
    order = Permutation(rules.inner, rules.outer, _place(rules.source, span)) if ordered else None
    return tuple(_factor_of_rule(rule, span) for rule in rules.factors), order


def _factor_of_rule(rule: FactorRule, span: Span) -> WrittenFactor:
    return WrittenFactor(rule.dim, rule.relation, rule.value, _place(rule.source, span))


def _keeping_of_rules(leaf: ArchLeaf, rules: KeepRules, span: Span) -> Keeping:
    places = dict(rules.sources)
    keep, bypass = (
        {name: _place(places.get(name, rules.source), span) for name in sorted(names)}
        for names in (rules.keep, rules.bypass)
    )
    return Keeping(leaf, keep, bypass)


def _place(source: SourceRef | None, otherwise: Span) -> Span:
    """Return where a rule is written, without its text; `otherwise` for one that follows from others."""
    if source is None:
        return otherwise
    return Span(source.file, source.line, source.column, source.line, source.column + 1)


def _check_backed(mapping: LoopNest, mapspace: Mapspace, span: Span) -> None:
    kept = {name for node in mapping.nodes if isinstance(node, StorageMapping) for name in node.keep}
    nowhere = [space.name for space in mapspace.problem.dataspaces if space.name not in kept]
    if nowhere:
        raise SpecError(f"no memory keeps {listing(nowhere)}", span)


def mapping_section(top: MappingNode) -> Node:
    """Return the section ``mapping`` of a file; SpecError without one."""
    section = given(top, "mapping")
    if section is None:
        raise SpecError("there is no key `mapping`", top.span, hint="`map --mapping OUT` writes such a file")
    return section
