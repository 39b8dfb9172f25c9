"""AccelForge workload files to the canonical workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import TypeVar

from model.formats.accelforge.checks import (
    WORKLOAD_DENSITY_KEYS,
    ShapedEinsum,
    check_densities,
    check_dependencies,
    check_rank_variables,
    check_tensors,
    check_words,
    copy_notes,
    cut_notes,
    note_unreached,
    operation_notes,
    partial_notes,
    unused_size_notes,
    version_notes,
)
from model.formats.accelforge.einsums import (
    COPY_KEY,
    SHAPE_KEYS,
    WrittenAccess,
    WrittenCascade,
    WrittenEinsum,
    WrittenIndex,
    read_einsums,
    within,
)
from model.formats.accelforge.sets import (
    RESERVED,
    EinsumNames,
    Rename,
    SetValue,
    TensorRules,
    effective_renames,
    names_of_part,
    read_renames,
    read_top_renames,
)
from model.formats.accelforge.shapes import (
    Condition,
    RankSize,
    iteration_shape,
    read_conditions,
    read_rank_sizes,
)
from model.formats.timeloop.tree import NO_ATTRIBUTES, Attributes, read_variables
from model.note import Note
from model.problem import Term
from model.text.composer import plain_value
from model.text.fields import Names, as_bool, as_fraction, as_int, as_mapping, given, keyed_mapping
from model.text.files import is_fragment
from model.text.limits import Limits
from model.text.merging import join_specs
from model.text.reader import read_each
from model.text.source import MappingNode, Node, SequenceNode, Span, SpecError, TakeNote, note_at, source_ref
from model.wording import listing, printable, suggestion
from model.workload import Einsum, RankIndex, TensorAccess, Workload

SECTIONS = ("workload", "renames", "variables")
FOREIGN_SECTIONS = ("arch", "mapping", "config", "mapper", "model")
WORKLOAD_KEYS = (
    "rank_sizes",
    *SHAPE_KEYS,
    "bits_per_value",
    "persistent_tensors",
    "n_instances",
    "einsums",
    *WORKLOAD_DENSITY_KEYS,
    "version",
)
LEVELS_ABOVE = 2
"""Directories above a workload from which it may include spec files: collections share fragments."""

MOST_INSTANCES = 10**9
_Fact = TypeVar("_Fact")


@dataclass(frozen=True)
class LoadedWorkload:
    """A workload, what the user should know about the reading, and the sets of each Einsum."""

    workload: Workload
    notes: tuple[Note, ...] = ()
    names: tuple[EinsumNames, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class WorkloadText:
    """The text of a workload."""

    top: MappingNode
    name: str  # the name of the file that holds the Einsums, for people
    # A part of other files, marked by an underscore: what feeds it is missing.
    is_fragment: bool = False
    notes: tuple[Note, ...] = ()  # on how it was read


@dataclass(frozen=True)
class _Section:
    """The section ``workload``, and what its Einsums inherit from it."""

    variables: Names
    sizes: Mapping[str, RankSize]
    inherited_sizes: Attributes
    conditions: tuple[Condition, ...]
    n_instances: int
    cascade: WrittenCascade
    rules: TensorRules


@dataclass
class _Facts:
    """What is known of each tensor, with the Einsum that said so."""

    bits: dict[str, tuple[int, Span]] = field(default_factory=dict)
    persistent: dict[str, tuple[bool, Span]] = field(default_factory=dict)
    scale: dict[str, tuple[Fraction, Span]] = field(default_factory=dict)


def load_workload(
    paths: Iterable[str | Path],
    variables: Mapping[str, object] | None = None,
    limits: Limits | None = None,
    allow_include: Iterable[str | Path] = (),
    ignore_sparse: bool = False,
) -> LoadedWorkload:
    """Read a workload from YAML files and Jinja2 templates, joined by top-level key.

    They may include spec files from the directory of the file and from two directories above. With
    `ignore_sparse` all data is taken as dense; otherwise densities are refused. Raises SpecError, with its
    place, for every kind of bad input.
    """
    text = read_workload_text(paths, variables, limits, allow_include)
    for key, _ in text.top.entries:
        if key.text in FOREIGN_SECTIONS:
            hint = "a workload file holds `workload`, `renames` and `variables`"
            raise SpecError(f"the section `{key.text}` of AccelForge is not read here", key.span, hint=hint)
        if key.text not in SECTIONS:
            hint = suggestion(key.text, SECTIONS, "known keys are")
            raise SpecError(f"unknown top-level key `{key.text}`", key.span, hint=hint)
    return read_workload(text, ignore_sparse)


def read_workload_text(
    paths: Iterable[str | Path],
    variables: Mapping[str, object] | None = None,
    limits: Limits | None = None,
    allow_include: Iterable[str | Path] = (),
) -> WorkloadText:
    """Read the files of a workload; parameters and errors as for `load_workload`."""
    files = [Path(path) for path in paths]
    notes: list[Note] = []
    tops = read_each(files, variables, limits, allow_include, LEVELS_ABOVE, notes=notes)
    main = [path for path, top in zip(files, tops, strict=True) if "workload" in top] or files
    only_fragments = all(is_fragment(path, LEVELS_ABOVE) for path in main)
    return WorkloadText(reduce(join_specs, tops), printable(main[0].stem), only_fragments, tuple(notes))


def read_workload(text: WorkloadText, ignore_sparse: bool = False) -> LoadedWorkload:
    """Read the sections of a workload in a joined spec; others are passed over. See `load_workload`."""
    sections = (entry for entry in text.top.entries if entry[0].text in SECTIONS)
    top = MappingNode(tuple((key, _settled(value)) for key, value in sections), text.top.span)
    notes = [*text.notes]
    section = _read_section(top, notes.append)
    workload = as_mapping(top.require("workload"), "`workload`")
    check_densities(workload, section.cascade.einsums, ignore_sparse, notes.append)
    check_words(section.cascade.einsums, {*section.cascade.ranks, *section.sizes, *section.variables})
    check_dependencies(section.cascade.einsums)
    names = [einsum.name for einsum in section.cascade.einsums]
    top_renames = read_top_renames(given(top, "renames"), names)
    shaped = [_shaped_einsum(einsum, section, notes.append) for einsum in section.cascade.einsums]
    check_rank_variables(shaped)
    check_tensors(shaped, notes.append)
    note_unreached(shaped, notes.append)
    facts = _Facts()
    sets = []
    for written in section.cascade.einsums:
        with within(written.name):
            renames = effective_renames(read_renames(written.get("renames")), top_renames, written.name)
            _check_shadowing(renames.values(), section.cascade)
            known = written, section.cascade, renames, section.rules
            einsum_names = names_of_part(*known, notes.append) if text.is_fragment else EinsumNames(*known)
            _collect(einsum_names, facts)
        sets.append(einsum_names)
    einsums = tuple(
        _resolved_einsum(einsum, einsum_names, facts, section)
        for einsum, einsum_names in zip(shaped, sets, strict=True)
    )
    notes += unused_size_notes(section.sizes, section.conditions, shaped)
    notes += cut_notes(shaped)
    notes += operation_notes(shaped)
    notes += copy_notes(shaped)
    notes += version_notes(workload, given(top, "renames"))
    for name, span in section.cascade.tensors.items():
        if name in RESERVED:
            sentence = "in set expressions `{}` means the set, not the tensor of that name"
            notes.append(note_at(span, sentence, name))
    notes += partial_notes(einsums)
    return LoadedWorkload(Workload(text.name, einsums), tuple(dict.fromkeys(notes)), tuple(sets))


def _settled(node: Node) -> Node:
    """Return a section without tags, in which quoted numbers and truth values count as if unquoted."""
    if node.tag is not None:
        raise SpecError(f"unknown tag `{node.tag}`", node.span)
    if isinstance(node, SequenceNode):
        return replace(node, items=tuple(_settled(item) for item in node.items))
    if isinstance(node, MappingNode):
        return MappingNode(tuple((key, _settled(value)) for key, value in node.entries), node.span)
    value = plain_value(node.text, node.span) if node.quoted else None
    return replace(node, value=value, quoted=False) if isinstance(value, (bool, int, float)) else node


def _read_section(top: MappingNode, note: TakeNote) -> _Section:
    if "workload" not in top:
        what = f"{listing(top.keys())} without a `workload`" if top.entries else "no `workload` is given"
        hint = "give this file together with one that has `workload:`"
        raise SpecError(what, top.span, hint=hint)
    node = keyed_mapping(top.require("workload"), "`workload`", WORKLOAD_KEYS, ("einsums",))
    section = given(top, "variables")
    variables = {} if section is None else read_variables(as_mapping(section, "`variables`"))
    sizes, inherited = read_rank_sizes(given(node, "rank_sizes"), NO_ATTRIBUTES, variables)
    cascade = WrittenCascade(read_einsums(node.require("einsums", "`workload`")))
    return _Section(
        variables=variables,
        sizes=sizes,
        inherited_sizes=inherited,
        conditions=read_conditions(node, cascade.rank_variables, note),
        n_instances=_instances(given(node, "n_instances"), variables),
        cascade=cascade,
        rules=TensorRules(given(node, "bits_per_value"), given(node, "persistent_tensors"), variables),
    )


def _instances(node: Node | None, variables: Names) -> int:
    return 1 if node is None else as_int(node, "`n_instances`", variables, 1, MOST_INSTANCES)


def _shaped_einsum(einsum: WrittenEinsum, section: _Section, note: TakeNote) -> ShapedEinsum:
    sizes, local_sizes = section.sizes, einsum.get("rank_sizes")
    variables = frozenset(einsum.rank_variables)
    inherited = (condition for condition in section.conditions if condition.variables <= variables)
    with within(einsum.name):
        if local_sizes is not None:
            sizes, _ = read_rank_sizes(local_sizes, section.inherited_sizes, section.variables)
        shape = read_conditions(einsum.node, section.cascade.rank_variables, note)
        return ShapedEinsum(einsum, iteration_shape(einsum, sizes, (*shape, *inherited)), sizes)


def _check_shadowing(renames: Iterable[Rename], cascade: WrittenCascade) -> None:
    for rename in renames:
        if rename.name in cascade.tensors:
            related = ((cascade.tensors[rename.name], "the tensor"),)
            raise SpecError(f"rename `{rename.name}` shadows the tensor of that name", rename.span, related)
        if rename.name in cascade.rank_variables:
            raise SpecError(f"rename `{rename.name}` shadows a rank variable", rename.span)
        if rename.name in RESERVED:
            raise SpecError(f"`{rename.name}` is reserved and cannot be a rename", rename.span)


def _collect(names: EinsumNames, facts: _Facts) -> None:
    """Note what an Einsum says of its tensors; SpecError where another one says otherwise."""
    persistent, bits = names.persistent(), names.bits_per_value()
    for access in names.einsum.accesses:
        _check_agreement(facts.bits, access, bits[access.tensor], "bits_per_value")
        _check_agreement(facts.persistent, access, access.tensor in persistent, "persistent")
        factor = access.get("backing_storage_size_scale")
        if factor is None:
            continue
        scale = as_fraction(factor, "`backing_storage_size_scale`", names.rules.variables)
        if scale <= 0:
            raise SpecError("`backing_storage_size_scale` must be positive", factor.span)
        _check_agreement(facts.scale, access, scale, "backing_storage_size_scale")


def _check_agreement(
    known: dict[str, tuple[_Fact, Span]], access: WrittenAccess, value: _Fact, what: str
) -> None:
    first, place = known.setdefault(access.tensor, (value, access.span))
    if first != value:
        message = f"`{what}` of tensor `{access.tensor}` is {value} here, but {first} elsewhere"
        raise SpecError(message, access.span, ((place, "elsewhere"),))


def _resolved_einsum(shaped: ShapedEinsum, names: EinsumNames, facts: _Facts, section: _Section) -> Einsum:
    with within(shaped.written.name):
        return _resolved(shaped, names, facts, section)


def _resolved(shaped: ShapedEinsum, names: EinsumNames, facts: _Facts, section: _Section) -> Einsum:
    written = shaped.written
    renamed = {rename: names.rename(rule) for rename, rule in names.renames.items()}
    copy = written.get(COPY_KEY)
    is_copy = copy is not None and as_bool(copy, "`is_copy_operation`", section.variables)
    if is_copy and copy is not None and sum(not access.output for access in written.accesses) != 1:
        raise SpecError("a copy operation has one input", copy.span, ((written.span, "the Einsum"),))
    tensors = [access.tensor for access in written.accesses]
    return Einsum(
        name=written.name,
        rank_variables=written.rank_variables,
        ranges=shaped.shape.ranges,
        accesses=tuple(_tensor_access(access, facts) for access in written.accesses),
        is_copy_operation=is_copy,
        n_instances=section.n_instances * _instances(written.get("n_instances"), section.variables),
        tensor_renames=tuple(
            (name, _members_in_order(value.members, tensors))
            for name, value in renamed.items()
            if not _renames_rank_variables(names.renames[name], value)
        ),
        rank_variable_renames=tuple(
            (name, _members_in_order(value.members, written.rank_variables))
            for name, value in renamed.items()
            if _renames_rank_variables(names.renames[name], value)
        ),
        is_box=shaped.shape.is_box,
        source=source_ref(written.span),
    )


def _renames_rank_variables(rename: Rename, value: SetValue) -> bool:
    """Whether a rename is of rank variables; an empty set that could be of either kind is of tensors."""
    return "rank variables" in (rename.kind, value.kind)


def _members_in_order(members: frozenset[str], order: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in order if name in members))


def _tensor_access(access: WrittenAccess, facts: _Facts) -> TensorAccess:
    return TensorAccess(
        tensor=access.tensor,
        indices=tuple(_rank_index(index) for index in access.indices),
        output=access.output,
        bits_per_value=facts.bits[access.tensor][0],
        persistent=facts.persistent[access.tensor][0],
        backing_storage_size_scale=facts.scale.get(access.tensor, (Fraction(1), access.span))[0],
    )


def _rank_index(index: WrittenIndex) -> RankIndex:
    terms = tuple(Term(name, coefficient) for name, coefficient in index.affine.coefficients.items())
    return RankIndex(index.rank, terms, index.affine.constant)
