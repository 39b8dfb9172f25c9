"""Spec files to a mapspace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial, reduce
from pathlib import Path

from model.mapping import Mapping as LoopNest
from model.mapspace import Mapspace
from model.spec.fields import as_mapping, as_name, check_keys, source_ref
from model.spec.files import display_name
from model.spec.limits import Limits
from model.spec.merging import join_specs
from model.spec.reader import read_each, unused_notes
from model.spec.source import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    Span,
    SpecError,
    did_you_mean,
    printable,
)
from model.spec.timeloop.assembly import Assembly, assemble, min_parallelism, node_of, note_overbooking
from model.spec.timeloop.attributes import read_variables
from model.spec.timeloop.clauses import Clause, node_clauses, target_clauses
from model.spec.timeloop.conformity import check_coalescing, check_parallelism
from model.spec.timeloop.context import Context
from model.spec.timeloop.editing import without
from model.spec.timeloop.feasibility import check_feasible
from model.spec.timeloop.mapper import read_mapper
from model.spec.timeloop.mapping import read_mapping
from model.spec.timeloop.overrides import AttributeSetting, with_settings
from model.spec.timeloop.pricing import build_architecture, priced, read_price_lists, refuse_wires
from model.spec.timeloop.problem import LoadedProblem, read_problem
from model.spec.timeloop.rules import temporal_rules
from model.spec.timeloop.shapes import find_shape
from model.spec.timeloop.tags import check_tags
from model.spec.timeloop.tree import read_tree
from model.spec.timeloop.unread import note_unread
from model.spec.timeloop.version import check_version
from model.wording import listing

SECTIONS = (
    "problem",
    "architecture",
    "constraints",
    "components",
    "variables",
    "mapper",
    "mapspace",
    "mapping",
    "globals",
    "ERT",
    "ART",
    "sparse_optimizations",
)
NETWORK_SECTIONS = ("workload", "renames")
ASSIGNED = "network"
ASSIGNED_HINT = "the command `assign` reads a `network` of layers and methods"
ANCHOR_MARK = "ignore"
FLATTENED_MARK = "dumped_by_timeloop_front_end"


@dataclass(frozen=True)
class LoadOptions:
    """How specs are read.

    Parameters
    ----------
    ignore_sparse
        Leave out sparse features instead of refusing them.
    timeloop_padding
        Complete spatial permutations as Timeloop's front end does.
    require_mapping
        Refuse specs without the key ``mapping``.
    refuse_infeasible
        Refuse constraints that conflict plainly; otherwise the mapspace is empty.
    limits
        Bounds on the text that is read.
    allow_include
        Further directories that templates and includes may read from.
    settings
        Attributes of the architecture that are given other values than the files say.
    mapping_file
        One more file, whose ``mapping`` takes the place of any that the others give.
    """

    ignore_sparse: bool = False
    timeloop_padding: bool = False
    require_mapping: bool = False
    refuse_infeasible: bool = True
    limits: Limits = field(default_factory=Limits)
    allow_include: tuple[Path, ...] = ()
    settings: tuple[AttributeSetting, ...] = ()
    mapping_file: Path | None = None


@dataclass(frozen=True)
class LoadedSpec:
    """What the spec files say.

    Parameters
    ----------
    mapspace
        The canonical problem; its notes are those below.
    mapping
        The mapping under the key ``mapping``, if there is one.
    notes
        What the user should know about the reading.
    files
        The files that were named.
    document
        The joined text as nodes; `model.spec.places` finds the places of the mapspace in it.
    problem
        The section of that name as it was understood; see `LoadedProblem.section`.
    """

    mapspace: Mapspace
    mapping: LoopNest | None
    notes: tuple[str, ...]
    files: tuple[Path, ...]
    document: MappingNode
    problem: MappingNode | None

    def noted(self, further: Iterable[str]) -> LoadedSpec:
        """Return the spec with further notes."""
        notes = (*self.notes, *map(printable, further))
        return replace(self, notes=notes, mapspace=replace(self.mapspace, notes=notes))


def holds_constraints(key: str) -> bool:
    """Whether a top-level key holds constraints, as ``constraints`` and ``mapspace_constraints`` do."""
    return "constraints" in key and ANCHOR_MARK not in key


def holds_components(key: str) -> bool:
    """Whether a top-level key holds component classes, as ``components`` and ``compound_components`` do."""
    return "components" in key and ANCHOR_MARK not in key


def load_timeloop(
    paths: Iterable[str | Path],
    variables: Mapping[str, object] | None = None,
    options: LoadOptions | None = None,
) -> LoadedSpec:
    """Read Timeloop v4 specs, joined by top-level key.

    A top-level key that contains ``ignore`` only holds anchors.

    Parameters
    ----------
    paths
        YAML files and Jinja2 templates.
    variables
        Template variables.
    options
        How to read them.

    Raises
    ------
    SpecError
        For every kind of bad input, with its place.
    """
    options = options or LoadOptions()
    files = tuple(Path(path) for path in paths)
    files = files if options.mapping_file is None else (*files, options.mapping_file)
    names: set[str] = set()
    parts = read_each(files, variables, options.limits, options.allow_include, names=names)
    notes = unused_notes(variables or {}, names)
    if options.mapping_file is not None:
        notes.extend(_unpriced(parts[:-1], parts[-1]))
        parts[:-1] = [without(part, ("mapping",)) for part in parts[:-1]]
    return load_node(reduce(join_specs, parts), files, options).noted(notes)


def _unpriced(others: Iterable[MappingNode], last: MappingNode) -> Iterator[str]:
    """Note the mappings that give way to that of the last file."""
    for top in others:
        if "mapping" in top and top.get("mapping") != last.get("mapping"):
            yield f"{top.key('mapping').span}: this `mapping` gives way to that of {last.span.file}"


def load_node(
    top: MappingNode, files: Sequence[Path], options: LoadOptions, problem: LoadedProblem | None = None
) -> LoadedSpec:
    """Read a joined spec; see `load_timeloop`.

    `problem` goes in the place of the section of that name. It may lack dataspaces that the
    architecture has levels for, so a level may keep nothing.
    """
    notes: list[str] = []
    top = with_settings(top, options.settings)
    _check_sections(top, options, notes, problem is not None)
    context = _context(top, files, options, notes, problem)
    clauses = _clauses(top, context)
    given = _section(top, "mapping")
    if given is None and options.require_mapping:
        named = ", ".join(
            map(display_name, files if options.mapping_file is None else [options.mapping_file])
        )
        raise SpecError(f"there is no key `mapping` in {named}")
    targets = [] if given is None else target_clauses(given, "`mapping`", context)
    assembly = assemble(clauses, context, options.ignore_sparse)
    if options.refuse_infeasible:
        check_feasible(assembly.slots, context)
    note_overbooking(clauses, context)
    parallelism = min_parallelism(clauses, assembly, context)
    mapspace = _mapspace(top, assembly, parallelism, context)
    mapping = None
    if given is not None:
        keeping = [clause for clause in targets if clause.kind == "dataspace"]
        settled = assemble([*clauses, *keeping], context, options.ignore_sparse)
        check_coalescing(assembly.storages, settled.storages)
        mapping = read_mapping(targets, settled, given.span, context)
        check_parallelism(mapping, *parallelism, given.span)
    loaded_notes = tuple(dict.fromkeys(map(printable, notes)))
    return LoadedSpec(
        mapspace=replace(mapspace, notes=loaded_notes),
        mapping=mapping,
        notes=loaded_notes,
        files=tuple(files),
        document=top,
        problem=context.loaded.section,
    )


def _check_sections(top: MappingNode, options: LoadOptions, notes: list[str], has_problem: bool) -> None:
    required = ("architecture",) if has_problem else ("problem", "architecture")
    missing = [key for key in required if key not in top]
    lacking = f", and the spec lacks {listing(missing)}" if missing else ""
    for key, value in top.entries:
        if ANCHOR_MARK in key.text:
            continue
        check_tags(key.text, value)
        _check_key(key, lacking)
        if key.text == "sparse_optimizations" and not _is_empty(value):
            _refuse_sparse(key, options, notes)
    if "globals" in top:
        notes.append(
            f"{top.key('globals').span}: `globals` steers Timeloop's own programs; nothing here reads it"
        )
    _check_template(top)


def _check_key(key: ScalarNode, lacking: str) -> None:
    """Refuse a top-level key that is unknown; `lacking` says what the spec lacks."""
    if key.text == FLATTENED_MARK:
        hint = "give the files that it was made from; their architecture has `nodes`"
        raise SpecError("this spec is one that Timeloop's front end flattened", key.span, hint=hint)
    if key.text in SECTIONS or holds_constraints(key.text) or holds_components(key.text):
        return
    hint = did_you_mean(key.text, SECTIONS) or f"known are {listing(SECTIONS)}"
    if key.text in NETWORK_SECTIONS:
        hint = "the command `network` maps workloads"
    if key.text == ASSIGNED:
        hint = ASSIGNED_HINT
    raise SpecError(f"unknown top-level key `{key.text}`{lacking}", key.span, hint=hint)


def _is_empty(node: Node) -> bool:
    """Whether a section says nothing: no value, no targets, or a version alone."""
    if isinstance(node, ScalarNode):
        return node.value is None
    if isinstance(node, SequenceNode):
        return not node.items
    return all(key.text == "version" or _is_empty(value) for key, value in node.entries)


def _section(top: MappingNode, name: str) -> Node | None:
    """Return a section, None where there is none or it says nothing."""
    value = top.get(name)
    return None if value is None or _is_empty(value) else value


def _refuse_sparse(key: ScalarNode, options: LoadOptions, notes: list[str]) -> None:
    if not options.ignore_sparse:
        hint = "--ignore-sparse maps the problem as if all data were dense"
        raise SpecError("`sparse_optimizations` are not modelled", key.span, hint=hint)
    notes.append(f"{key.span}: `sparse_optimizations` are ignored; all data is taken as dense")


def _check_template(top: MappingNode) -> None:
    """Check the ``mapspace`` section: only perfect factors are searched."""
    node = _section(top, "mapspace")
    if node is None:
        return
    section = as_mapping(node, "`mapspace`")
    check_keys(section, ("version", "template"), "`mapspace`")
    check_version(section)
    template = section.get("template")
    if template is not None and as_name(template, "`template`") != "uber":
        raise SpecError("only the mapspace template `uber` (perfect factors) is modelled", template.span)


def _context(
    top: MappingNode,
    files: Sequence[Path],
    options: LoadOptions,
    notes: list[str],
    problem: LoadedProblem | None,
) -> Context:
    variables = _variables(top, options.limits)
    find = partial(find_shape, spec_files=files, limits=options.limits, allow_include=options.allow_include)
    loaded = problem
    if loaded is None:
        section = top.require("problem", "the spec")
        loaded = read_problem(section, find, variables, options.ignore_sparse, options.limits)
    tree = read_tree(top.require("architecture", "the spec"), variables, options.limits)
    notes.extend(loaded.notes)
    context = Context(
        loaded=loaded,
        tree=tree,
        variables=variables,
        note=notes.append,
        timeloop_padding=options.timeloop_padding,
        limits=options.limits,
        idle_levels=problem is not None,
    )
    for leaf in tree.leaves:
        key = None if "sparse_optimizations" not in leaf.node else leaf.node.key("sparse_optimizations")
        if key is not None and not _is_empty(leaf.node.require("sparse_optimizations")):
            _refuse_sparse(key, options, notes)
    return context


def _variables(top: MappingNode, limits: Limits) -> dict[str, object]:
    node = _section(top, "variables")
    if node is None:
        return {}
    section = as_mapping(_joined(node), "`variables`")
    check_version(section)
    return {name: value for name, value in read_variables(section, limits).items() if name != "version"}


def _joined(node: Node) -> Node:
    """Return a list of mappings, such as included files give, as one mapping."""
    if not isinstance(node, SequenceNode):
        return node
    parts = [as_mapping(item, "a part of `variables`") for item in node.items]
    return reduce(join_specs, parts)


def _clauses(top: MappingNode, context: Context) -> list[Clause]:
    clauses = node_clauses(context)
    for key, section in top.entries:
        if holds_constraints(key.text) and not _is_empty(section):
            clauses += target_clauses(section, f"`{key.text}`", context)
    return clauses


def _mapspace(
    top: MappingNode, assembly: Assembly, parallelism: tuple[Fraction, Span | None], context: Context
) -> Mapspace:
    least, place = parallelism
    components = [value for key, value in top.entries if holds_components(key.text) and not _is_empty(value)]
    lists = read_price_lists(_section(top, "ERT"), _section(top, "ART"), components)
    refuse_wires(lists.tables, context)
    note_unread(top, lists.classes, context)
    leaves = [*(slot.loops.leaf for slot in assembly.storages), assembly.compute]
    prices = {leaf.name: priced(leaf, lists, context) for leaf in leaves}
    nodes = [node_of(slot) for slot in assembly.slots]
    return Mapspace(
        problem=context.problem,
        architecture=build_architecture(context.tree.name, nodes, assembly.compute, prices),
        temporal=tuple(temporal_rules(slot.loops) for slot in assembly.storages),
        spatial=tuple(slot.rules for slot in assembly.fanouts),
        keep=tuple(slot.keeping.rules() for slot in assembly.storages),
        parallel=assembly.parallel,
        min_parallelism=least,
        objectives=read_mapper(_section(top, "mapper"), context),
        min_parallelism_source=None if place is None else source_ref(place),
    )
