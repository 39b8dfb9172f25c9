"""A given mapping of one Einsum of a workload, as targets of Timeloop v4, checked against its mapspace."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from model.architecture import Fanout, StorageLevel
from model.cost.nest import build_nest
from model.formats.timeloop.constraints import factor_texts, order_words, split_factor
from model.formats.timeloop.mapping import check_parallelism
from model.formats.timeloop.places import check_joint, names_places
from model.mapping import FanoutMapping, Loop, NodeMapping, SpatialLoop, StorageMapping
from model.mapping import Mapping as LoopNest
from model.mapspace import FactorRule, KeepRules, Mapspace
from model.places import gathered, on_places, tidied
from model.text.expressions import evaluate_expression
from model.text.fields import (
    add_once,
    as_int,
    as_name,
    as_sequence,
    given,
    keyed_mapping,
    known_name,
    name_list,
)
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError
from model.wording import listing

_KEYS = ("target", "type", "factors", "permutation", "keep", "bypass", "split")
_KINDS = ("temporal", "spatial", "dataspace")


def read_targets(section: Node, mapspace: Mapspace) -> LoopNest:
    """Read a mapping, as ``map --mapping`` writes it.

    A factor that neither the mapping nor a constraint gives is 1; a level that does not mention a
    dataspace keeps it unless it must bypass it. Of memories that may have several places, the mapping names
    the memory alone, or each of its places.

    Parameters
    ----------
    section
        What stands under the key ``mapping``: a list of targets.
    mapspace
        That of the Einsum; the mapping must be in it.

    Raises
    ------
    SpecError
        If it is no mapping of the Einsum, or breaks a constraint.
    """
    if mapspace.joint and not names_places([section], mapspace):
        return tidied(mapspace, on_places(mapspace, read_targets(section, gathered(mapspace))))
    targets = dict(_targets(section, mapspace))
    architecture, nodes = mapspace.architecture, list[NodeMapping]()
    keeps = iter(mapspace.keep)
    left = dict(mapspace.problem.bound)
    for node, rules in zip(architecture.nodes, mapspace.factor_rules, strict=True):
        kind = "spatial" if isinstance(node, Fanout) else "temporal"
        target = targets.get((node.name, kind))
        factors = _factors(target, node.name, rules, mapspace)
        order = _order(target, factors, section.span)
        for dim in order:
            _divide(left, dim, factors[dim], section.span if target is None else target.span)
        if isinstance(node, Fanout):
            nodes.append(FanoutMapping(tuple(_spatial(node, target, factors, order, mapspace))))
            continue
        keep = _kept(node, targets.get((node.name, "dataspace")), next(keeps), mapspace)
        nodes.append(StorageMapping(tuple(Loop(dim, factors[dim]) for dim in order), keep))
    missing = [dim for dim, bound in left.items() if bound > 1]
    if missing:
        raise SpecError(f"the factors of {listing(missing)} multiply to less than the bound", section.span)
    _check_backed(nodes, mapspace, section.span)
    mapping = LoopNest(tuple(nodes))
    for joint in mapspace.joint:
        check_joint(joint, mapping, mapspace, section.span)
    units = build_nest(mapspace.problem, mapspace.architecture, mapping).instances(len(nodes))
    check_parallelism(units, mapspace.min_parallelism, None, section.span)
    return mapping


def _targets(section: Node, mapspace: Mapspace) -> Iterator[tuple[tuple[str, str], MappingNode]]:
    names = [node.name for node in mapspace.architecture.nodes]
    levels = [level.name for level in mapspace.architecture.levels]
    places: dict[tuple[str, str], Span] = {}
    for item in as_sequence(section, "`mapping`").items:
        target = keyed_mapping(item, "a target of a mapping", _KEYS, ("target", "type"))
        name_node, kind_node = (target.require(key, "a target of a mapping") for key in ("target", "type"))
        kind = known_name(kind_node, _KINDS, "type of a target")
        name = known_name(name_node, names, "node")
        if (kind != "spatial") != (name in levels):
            what = "a memory has no spatial loops" if name in levels else "a fanout has spatial loops only"
            raise SpecError(f"`{kind}` at `{name}`: {what}", kind_node.span)
        add_once(places, (name, kind), target.span, f"`{kind}` of `{name}` is given twice")
        yield (name, kind), target


def _factors(
    target: MappingNode | None, name: str, rules: Collection[FactorRule], mapspace: Mapspace
) -> dict[str, int]:
    """Return the factor of each dimension at a node; what constraints fix need not be written."""
    factors = {rule.dim: rule.value for rule in rules if rule.relation == "="}
    factors = {dim: factors.get(dim, 1) for dim in mapspace.problem.dims}
    written = None if target is None else given(target, "factors")
    places: dict[str, Span] = {}
    for text, node in () if written is None else factor_texts(written):
        dim, operator, value = split_factor(text)
        if dim not in mapspace.problem.bound or operator not in ("", "=", "=="):
            hint = f"write `DIMENSION=FACTOR`; the dimensions are {listing(mapspace.problem.dims)}"
            raise SpecError(f"`{text}` is not a factor of this Einsum", node.span, hint=hint)
        add_once(places, dim, node.span, f"the factor of `{dim}` at `{name}` is given twice")
        factors[dim] = _value(value, text, node)
    for rule in rules:
        if not rule.allows(factors.get(rule.dim, 1)):
            source = "" if rule.source is None else f" ({rule.source})"
            message = (
                f"the mapping's {rule.dim}={factors.get(rule.dim, 1)} at `{name}` breaks the constraint "
                f"{rule.dim}{rule.relation}{rule.value}{source}"
            )
            raise SpecError(message, places.get(rule.dim, _place(target, written)))
    return factors


def _place(target: MappingNode | None, written: Node | None) -> Span | None:
    if written is not None:
        return written.span
    return None if target is None else target.span


def _value(value: str, text: str, node: Node) -> int:
    number = evaluate_expression(value, {}) if value else None
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise SpecError(f"`{text}`: a factor is a whole number from 1", node.span)
    return number


def _divide(left: dict[str, int], dim: str, factor: int, span: Span) -> None:
    if left[dim] % factor:
        message = f"the factors of `{dim}` do not multiply to its bound: {factor} does not divide {left[dim]}"
        raise SpecError(message, span)
    left[dim] //= factor


def _order(target: MappingNode | None, factors: Mapping[str, int], span: Span) -> list[str]:
    """Return the dimensions with loops, innermost first."""
    live = [dim for dim, factor in factors.items() if factor > 1]
    written = None if target is None else given(target, "permutation")
    order = [] if written is None else list(_permutation(written, factors))
    missing = [dim for dim in live if dim not in order]
    if missing and len(live) > 1:
        place = span if target is None else target.span
        hint = "`permutation` lists the loops, innermost first"
        raise SpecError(f"the order of the loops over {listing(live)} is not given", place, hint=hint)
    return [dim for dim in order if dim in live] or live


def _permutation(node: Node, factors: Mapping[str, int]) -> Iterator[str]:
    if isinstance(node, SequenceNode):
        words = [(as_name(item, "a dimension"), item.span) for item in node.items]
    else:
        text = as_name(node, "`permutation`")
        parts = order_words(text, factors)
        parts = list(parts[0]) if len(parts) == 1 and parts[0] not in factors else parts
        words = [(part, node.span) for part in parts]
    places: dict[str, Span] = {}
    for word, span in words:
        if word not in factors:
            raise SpecError(f"unknown dimension `{word}`", span, hint=f"they are {listing(factors)}")
        add_once(places, word, span, f"`{word}` is listed twice")
        yield word


def _spatial(
    node: Fanout,
    target: MappingNode | None,
    factors: Mapping[str, int],
    order: Sequence[str],
    mapspace: Mapspace,
) -> Iterator[SpatialLoop]:
    """Yield the loops of a fanout; those behind the `split` of the permutation lie along Y."""
    along_x = set(order)
    written = None if target is None else given(target, "split")
    if written is not None and node.mesh_y > 1:
        split = as_int(written, "`split`", minimum=0, maximum=len(mapspace.problem.dims))
        permutation = None if target is None else given(target, "permutation")
        listed = order if permutation is None else list(_permutation(permutation, factors))
        along_x = set(listed[:split])
    for dim in order:
        yield SpatialLoop(dim, factors[dim], "x" if dim in along_x else "y")


def _kept(
    level: StorageLevel, target: MappingNode | None, rules: KeepRules, mapspace: Mapspace
) -> frozenset[str]:
    names = [space.name for space in mapspace.problem.dataspaces]
    keep, bypass = (
        name_list(node, names, "dataspace") if node is not None else {}
        for node in (None if target is None else given(target, key) for key in ("keep", "bypass"))
    )
    sources = dict(rules.sources)
    for written, ruled, verb in ((keep, rules.bypass, "keeps"), (bypass, rules.keep, "bypasses")):
        for name in (name for name in written if name in ruled):
            source = f" ({sources[name]})" if name in sources else ""
            message = f"the mapping {verb} `{name}` at `{level.name}`, which the architecture forbids{source}"
            raise SpecError(message, written[name])
    for name in (name for name in keep if name in bypass):
        raise SpecError(f"`{name}` is both kept and bypassed at `{level.name}`", bypass[name])
    return frozenset(name for name in names if name not in bypass and name not in rules.bypass)


def _check_backed(nodes: Iterable[NodeMapping], mapspace: Mapspace, span: Span) -> None:
    kept = {name for node in nodes if isinstance(node, StorageMapping) for name in node.keep}
    nowhere = [space.name for space in mapspace.problem.dataspaces if space.name not in kept]
    if nowhere:
        raise SpecError(f"no memory keeps {listing(nowhere)}", span)


def mapping_section(top: MappingNode) -> Node:
    """Return the section ``mapping`` of a file; SpecError without one."""
    section = given(top, "mapping")
    if section is None:
        raise SpecError("there is no key `mapping`", top.span, hint="`map --mapping OUT` writes such a file")
    if isinstance(section, ScalarNode):
        raise SpecError("`mapping` must be a list of targets", section.span)
    if isinstance(section, MappingNode) and "nodes" in section:
        hint = "write it as targets, as `map --mapping OUT` does"
        raise SpecError("mappings in AccelForge's form are not read", section.key("nodes").span, hint=hint)
    return given(section, "targets") or section if isinstance(section, MappingNode) else section
