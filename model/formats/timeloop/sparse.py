"""``sparse_optimizations``: formats of compressed tensors, and what storages and arithmetic gate or skip."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from model.energy import ComponentPrices
from model.energy.figures import to_units
from model.formats.timeloop.constraints import ADDRESS_KEYS, Clause, of
from model.formats.timeloop.context import Context
from model.formats.timeloop.document import SPARSE_SECTION, read_section, section_of
from model.formats.timeloop.storage import SparseSupport, read_sparse_support
from model.formats.timeloop.tree import ArchLeaf
from model.sparsity import (
    FORMATS,
    OPTIMIZATION_KINDS,
    Conditional,
    Format,
    Optimization,
    OptimizationKind,
    Rank,
    Representation,
    SparseCompute,
    SparseLevel,
    Sparsity,
)
from model.text.fields import (
    add_once,
    as_fraction,
    as_int,
    as_name,
    as_sequence,
    check_count,
    check_keys,
    given,
    items_of,
    keyed_mapping,
    known_name,
    name_list,
)
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError, note_at

_FORMATS = "representation_format"
_ACTIONS = "action_optimization"
_COMPUTE = "compute_optimization"
_NODE_KEYS = (_FORMATS, _ACTIONS, _COMPUTE)
_DATASPACE_KEYS = ("name", "rank_application_order", "ranks", "compression_rate")
_RANK_KEYS = ("format", "metadata_word_bits", "payload_word_bits", "flattened_rankIDs")
_ORDERS = {"outer_to_inner": False, "inner_to_outer": True}
_SPELLINGS: dict[str, Format] = {text: name for name in FORMATS for text in (name, name.lower())}
_COMPUTE_TYPES = {
    "gating": "gating",
    "gate_on_zero_operand": "gating",
    "skipping": "skipping",
    "skip_on_not_aligned_operands": "skipping",
}


def has_optimizations(top: MappingNode, leaves: Iterable[ArchLeaf]) -> bool:
    """Whether a spec has sparse optimizations, at the top or on a component."""
    return any(section_of(node, SPARSE_SECTION) for node in (top, *(leaf.node for leaf in leaves)))


def read_sparsity(top: MappingNode, clauses: Sequence[Clause], context: Context) -> Sparsity | None:
    """Return what a spec says about sparse data, without energies; None where all of it is dense."""
    densities = context.loaded.densities
    storages = [leaf for leaf in context.tree.leaves if leaf.role == "storage"]
    if not context.optimizes_sparse:
        if not densities:
            return None
        _note_idle_densities(context)
        return Sparsity(densities, tuple(SparseLevel() for _ in storages))
    written = list(_all_parts(top, context))
    _check_single(written)
    levels = tuple(_read_level(leaf, written, clauses, context) for leaf in storages)
    compute = SparseCompute()
    for part in written:
        if part.leaf.role == "compute":
            compute = _read_compute(part)
    return Sparsity(densities, levels, compute)


def _note_idle_densities(context: Context) -> None:
    sentence = "densities have no effect: without `{}`, nothing is compressed, gated or skipped"
    context.note(note_at(None, sentence, SPARSE_SECTION))


@dataclass(frozen=True)
class _SparsePart:
    """One of `_NODE_KEYS` of a component."""

    leaf: ArchLeaf
    key: ScalarNode
    value: Node


def _all_parts(top: MappingNode, context: Context) -> Iterator[_SparsePart]:
    """Yield what stands in the spec's section and on components."""
    section = section_of(top, SPARSE_SECTION)
    if section is not None:
        targets = read_section(section, f"`{SPARSE_SECTION}`", ("version", "targets"), ("targets",))
        for item in items_of(targets.get("targets"), "`targets`"):
            node = keyed_mapping(item, "a target", ("name", *_NODE_KEYS), ("name",))
            name = known_name(node.require("name"), context.leaves, "component")
            yield from _sparse_parts(context.leaves[name], node)
    for leaf in context.tree.leaves:
        own = section_of(leaf.node, SPARSE_SECTION)
        if own is not None:
            yield from _sparse_parts(leaf, keyed_mapping(own, f"`{SPARSE_SECTION}`", _NODE_KEYS))


def _sparse_parts(leaf: ArchLeaf, node: MappingNode) -> Iterator[_SparsePart]:
    for key, value in node.entries:
        if key.text not in _NODE_KEYS or given(node, key.text) is None:
            continue
        role = "compute" if key.text == _COMPUTE else "storage"
        if leaf.role != role:
            unit = "the compute component" if role == "compute" else "a storage"
            raise SpecError(f"`{key.text}` belongs on {unit}, but `{leaf.name}` is not one", key.span)
        yield _SparsePart(leaf, key, value)


def _check_single(parts: Iterable[_SparsePart]) -> None:
    places: dict[tuple[str, str], Span] = {}
    for part in parts:
        message = f"`{part.key.text}` of `{part.leaf.name}` is given twice"
        add_once(places, (part.leaf.name, part.key.text), part.key.span, message)


def _read_level(
    leaf: ArchLeaf, written: Iterable[_SparsePart], clauses: Sequence[Clause], context: Context
) -> SparseLevel:
    support = read_sparse_support(leaf, context)
    own = {part.key.text: part.value for part in written if part.leaf is leaf}
    representations: dict[str, Representation] = {}
    if _FORMATS in own:
        representations = _read_formats(own[_FORMATS], leaf, support, context)
    optimizations: tuple[Optimization, ...] = ()
    if _ACTIONS in own:
        optimizations = tuple(_read_actions(own[_ACTIONS], context))
    return replace(
        support.level,
        representations=representations,
        optimizations=optimizations,
        max_overbooked=_read_overbooked(leaf, support, clauses, context),
    )


def _read_overbooked(
    leaf: ArchLeaf, support: SparseSupport, clauses: Sequence[Clause], context: Context
) -> Fraction:
    """Return the greatest share of cases in which tiles may exceed the capacity."""
    share = Fraction(0)
    for node in of(clauses, leaf, "overbooked"):
        check_keys(node, ("proportion", *ADDRESS_KEYS), "`max_overbooked_proportion`")
        value = node.require("proportion", "`max_overbooked_proportion`")
        share = as_fraction(value, "`proportion`", context.names_at(leaf))
        if not 0 <= share < 1:
            raise SpecError("`proportion` must be at least 0 and below 1", value.span)
        if share and not support.level.allow_overbooking:
            sentence = "max_overbooked_proportion of `{}` has no effect without `allow_overbooking: true`"
            context.note(note_at(node.span, sentence, leaf.name))
    return share


def _read_formats(
    node: Node, leaf: ArchLeaf, support: SparseSupport, context: Context
) -> dict[str, Representation]:
    section = keyed_mapping(node, f"`{_FORMATS}`", ("data_spaces",), ("data_spaces",))
    places: dict[str, Span] = {}
    representations: dict[str, Representation] = {}
    for item in items_of(section.get("data_spaces"), "`data_spaces`"):
        entry = keyed_mapping(item, "a dataspace's format", _DATASPACE_KEYS, ("name", "ranks"))
        name_node = entry.require("name")
        name = known_name(name_node, context.dataspaces, "dataspace")
        add_once(places, name, name_node.span, f"`{name}` has two formats at `{leaf.name}`")
        representations[name] = _read_representation(entry, leaf, support, context)
    return representations


def _read_representation(
    entry: MappingNode, leaf: ArchLeaf, support: SparseSupport, context: Context
) -> Representation:
    order = entry.get("rank_application_order")
    inwards = False if order is None else _ORDERS[known_name(order, _ORDERS, "order")]
    ranks_node = as_sequence(entry.require("ranks"), "`ranks`")
    check_count(ranks_node.items, context.limits.dimensions, "ranks", ranks_node.span)
    if not ranks_node.items:
        raise SpecError("`ranks` must not be empty", ranks_node.span)
    # The text has the top rank first.
    ranks = tuple(_read_rank(item, leaf, support, context) for item in ranks_node.items)[::-1]
    representation = Representation(ranks, inwards)
    _check_stack(ranks, ranks_node)
    rate = entry.get("compression_rate")
    if rate is not None and not representation.compressed:
        message = "`compression_rate` of a format that compresses nothing"
        raise SpecError(message, entry.key("compression_rate").span)
    if rate is not None:
        sentence = "compression_rate is not used, as in Timeloop: the density says how much is left out"
        context.note(note_at(entry.key("compression_rate").span, sentence))
    return representation


def _check_stack(ranks: Sequence[Rank], node: SequenceNode) -> None:
    """Raise a SpecError where a rank leaves out what is empty, but one below it does not."""
    for place, (lower, upper) in enumerate(pairwise(ranks)):
        if upper.compressed and not lower.compressed:
            items = node.items[::-1]
            message = f"a rank of format {upper.format} cannot lie above one of format {lower.format}"
            hint = "what lies below a compressed rank (CP, RLE, B) is compressed as well"
            raise SpecError(message, items[place + 1].span, ((items[place].span, "the rank below"),), hint)


def _read_rank(item: Node, leaf: ArchLeaf, support: SparseSupport, context: Context) -> Rank:
    node = keyed_mapping(item, "a rank", _RANK_KEYS, ("format",))
    name = _SPELLINGS[known_name(node.require("format"), _SPELLINGS, "format")]
    bits = {
        key: _word_bits(node, key, name, leaf, support, context)
        for key in ("metadata_word_bits", "payload_word_bits")
    }
    groups = tuple(
        _read_group(group, context)
        for group in items_of(node.get("flattened_rankIDs"), "`flattened_rankIDs`")
    )
    return Rank(name, bits["metadata_word_bits"], bits["payload_word_bits"], groups)


def _read_group(node: Node, context: Context) -> tuple[str, ...]:
    """Read dimensions that are flattened together; those that the problem lacks are passed over."""
    items = as_sequence(node, "a list of `flattened_rankIDs`").items
    named = [(as_name(item, "a dimension"), item.span) for item in items]
    return tuple(name for name, span in named if context.is_dimension(name, span))


def _word_bits(
    node: MappingNode, key: str, name: Format, leaf: ArchLeaf, support: SparseSupport, context: Context
) -> int:
    """Return the bits of a word: those of the level by default; widths that rows hold whole words of."""
    value = given(node, key)
    width = support.level.metadata_width_bits
    if value is not None and name == "UB":
        context.note(note_at(node.key(key).span, "`{}` has no effect on the format UB, as in Timeloop", key))
        value = None
    if value is None and name == "B" and key == "metadata_word_bits":
        bits = 1
    elif value is None:
        bits = support.level.metadata_word_bits
    else:
        asked = as_int(value, f"`{key}`", context.names_at(leaf), minimum=0)
        bits = _dividing(asked, width)
        if bits != asked:
            sentence = "`{}` is read as {}: rows of `{}` have {} bits"
            context.note(note_at(value.span, sentence, key, bits, leaf.name, width))
    if bits > width:
        place = node.span if value is None else value.span
        message = f"a word of {bits} bits does not fit into a row of {width} bits of `{leaf.name}`'s metadata"
        hint = "give `metadata_storage_width` in the attributes of the storage"
        raise SpecError(message, place, ((support.width_span, f"`{leaf.name}`"),), hint)
    return bits


def _dividing(bits: int, width: int) -> int:
    """Return the least number of bits from `bits` on that divides a row; twice as many if none does."""
    if not bits or width % bits == 0:
        return bits
    return next((wider for wider in range(bits, 2 * bits) if width % wider == 0), 2 * bits)


def _read_actions(node: Node, context: Context) -> Iterator[Optimization]:
    for item in as_sequence(node, f"`{_ACTIONS}`").items:
        keys = ("type", "options", "target", "condition_on")
        entry = keyed_mapping(item, "an action optimization", keys, ("type",))
        kind = _KINDS[known_name(entry.require("type"), _KINDS, "type")]
        if given(entry, "options") is None:
            yield Optimization(kind, (_read_conditional(entry, context, ("type", "options")),))
            continue
        yield Optimization(kind, _read_options(entry, kind, context))


def _read_options(entry: MappingNode, kind: OptimizationKind, context: Context) -> tuple[Conditional, ...]:
    beside = next((key for key in ("target", "condition_on") if key in entry), None)
    if beside is not None:
        raise SpecError(f"`{beside}` stands beside `options`", entry.key(beside).span)
    listed = as_sequence(entry.require("options"), "`options`")
    if not listed.items:
        raise SpecError("`options` must not be empty", listed.span)
    if kind == "skipping_spatial" and len(listed.items) > 1:
        message = "`skipping_spatial` takes a single option"
        raise SpecError(message, listed.items[1].span, ((listed.items[0].span, "the first"),))
    return tuple(_read_conditional(option, context) for option in listed.items)


_KINDS: dict[str, OptimizationKind] = {kind: kind for kind in OPTIMIZATION_KINDS}


def _read_conditional(node: Node, context: Context, beside: tuple[str, ...] = ()) -> Conditional:
    required = ("target", "condition_on")
    entry = keyed_mapping(node, "an option", (*required, *beside), required)
    target_node = entry.require("target", "an action optimization")
    target = known_name(target_node, context.dataspaces, "dataspace")
    conditions_node = as_sequence(entry.require("condition_on", "an action optimization"), "`condition_on`")
    conditions = name_list(conditions_node, context.dataspaces, "dataspace")
    if not conditions:
        raise SpecError("`condition_on` must name a dataspace", conditions_node.span)
    if target in conditions:
        message = f"`{target}` cannot be a condition of itself"
        raise SpecError(message, conditions[target], ((target_node.span, "the target"),))
    return Conditional(target, tuple(conditions))


def _read_compute(part: _SparsePart) -> SparseCompute:
    kinds: set[str] = set()
    for item in as_sequence(part.value, f"`{_COMPUTE}`").items:
        entry = keyed_mapping(item, "a compute optimization", ("type",), ("type",))
        kinds.add(_COMPUTE_TYPES[known_name(entry.require("type"), _COMPUTE_TYPES, "type")])
    return SparseCompute(gates_zeros="gating" in kinds, skips_unaligned="skipping" in kinds)


def with_energies(
    sparsity: Sparsity,
    names: Sequence[str],
    prices: Mapping[str, ComponentPrices],
    units: int,
    context: Context,
) -> Sparsity:
    """Return sparsity with the energies of its actions; `names` has the levels, then the arithmetic."""

    def of_component(name: str) -> dict[str, int]:
        return {action: to_units(figure, units) for action, figure in prices[name].further.items()}

    levels = tuple(
        replace(level, energy=of_component(name)) for level, name in zip(sparsity.levels, names, strict=False)
    )
    for level, name in zip(levels, names, strict=False):
        if level.representations and not any("metadata" in action for action in level.energy):
            sentence = "metadata accesses of `{}` have no given energy: they cost nothing"
            context.note(note_at(context.leaves[name].span, sentence, name))
    compute = replace(sparsity.compute, energy=of_component(names[-1]))
    return replace(sparsity, levels=levels, compute=compute)
