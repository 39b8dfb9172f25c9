"""Spec files to a mapspace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from pathlib import Path

from model.architecture import Architecture, Compute
from model.cost.nest import build_nest
from model.counting import rule_of
from model.energy import load_compound_classes, load_tables
from model.extents import Factors
from model.formats.foreign import refuse_foreign
from model.formats.timeloop.assembly import (
    Assembly,
    TemporalLevel,
    assemble,
    check_rooms,
    min_parallelism,
    node_of,
    note_overbooking,
)
from model.formats.timeloop.constraints import Clause, node_clauses, target_clauses
from model.formats.timeloop.context import Context
from model.formats.timeloop.document import (
    LEFT_OUT,
    MapperSection,
    check_no_sparsity,
    check_sections,
    check_version,
    read_mapper,
    read_template,
    reads_first_values,
    section_of,
    sections_of,
    without_section,
)
from model.formats.timeloop.feasibility import check_feasible
from model.formats.timeloop.loops import temporal_rules
from model.formats.timeloop.mapping import check_coalescing, check_loop_limit, check_parallelism, read_mapping
from model.formats.timeloop.options import LoadOptions
from model.formats.timeloop.overrides import with_settings
from model.formats.timeloop.places import names_places, read_placed
from model.formats.timeloop.pricing import (
    PriceLists,
    build_architecture,
    priced,
    priced_if_known,
    priced_or_free,
    refuse_wires,
)
from model.formats.timeloop.problem import LoadedProblem, find_shape, read_problem
from model.formats.timeloop.rules import (
    WrittenRule,
    check_searched,
    check_searched_with_places,
    read_rules,
    written_rules,
)
from model.formats.timeloop.sparse import has_optimizations, read_sparsity, with_energies
from model.formats.timeloop.storage import note_unread, refuse_networks
from model.formats.timeloop.tree import read_tree, read_variables
from model.formats.timeloop.values import MOST_WORDS, in_values
from model.formats.timeloop.versions import older_architecture, updated
from model.mapping import Mapping as LoopNest
from model.mapspace import Mapspace
from model.note import Note
from model.objective import LATENCY
from model.places import on_places, spread, tidied
from model.rules import Rule, asks_for_energy
from model.sparsity import Sparsity
from model.text.fields import as_mapping
from model.text.files import display_name
from model.text.limits import Limits
from model.text.merging import join_specs
from model.text.reader import read_each, unused_notes
from model.text.source import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    Span,
    SpecError,
    TakeNote,
    note_at,
    source_ref,
)
from model.wording import listing

HOW_TO_MAP = (
    "`map SPEC... --mapping OUT.yaml` finds the best one; `evaluate SPEC... --mapping OUT.yaml` reads it"
)
"""What helps where a mapping is expected."""

SEVERAL = "if these are several layers, the command `network` maps them"


@dataclass(frozen=True)
class LoadedSpec:
    """What the spec files say."""

    mapspace: Mapspace
    mapping: LoopNest | None  # that under the key ``mapping``, if there is one and it was not skipped
    notes: tuple[Note, ...]  # those of the mapspace as well
    files: tuple[Path, ...]
    document: MappingNode  # the joined text: `model.text.source` finds the places of the mapspace in it
    problem: MappingNode | None  # the section as it was understood, see `LoadedProblem.section`
    # Memories that may have several places; with a problem of a workload they have one in the mapspace
    memories_with_places: frozenset[str] = frozenset()

    @property
    def has_mapping(self) -> bool:
        """Whether there is a mapping under the key ``mapping``, skipped or not."""
        return bool(sections_of(self.document, "mapping"))

    def noted(self, further: Iterable[Note]) -> LoadedSpec:
        """Return the spec with further notes after its own."""
        notes = (*self.notes, *further)
        return replace(self, notes=notes, mapspace=replace(self.mapspace, notes=notes))


def load_timeloop(
    paths: Iterable[str | Path],
    variables: Mapping[str, object] | None = None,
    options: LoadOptions | None = None,
) -> LoadedSpec:
    """Read Timeloop specs of any version, joined by top-level key.

    Parameters
    ----------
    paths
        YAML files and Jinja2 templates.
    variables
        Template variables.

    Raises
    ------
    SpecError
        For every kind of bad input, with its place.
    """
    options = options or LoadOptions()
    files = tuple(Path(path) for path in paths)
    files = files if options.timeloop.mapping_file is None else (*files, options.timeloop.mapping_file)
    refuse_foreign(files)
    names: set[str] = set()
    notes: list[Note] = []
    limits, allowed = options.files.limits, options.files.allow_include
    parts = read_each(files, variables, limits, allowed, names=names, notes=notes)
    notes += unused_notes(variables or {}, names)
    if options.timeloop.mapping_file is not None:
        notes.extend(_overridden_notes(parts[:-1], parts[-1]))
        parts[:-1] = [without_section(part, "mapping") for part in parts[:-1]]
    try:
        top = reduce(join_specs, parts)
    except SpecError as error:
        has_several = sum("problem" in part for part in parts) > 1
        raise SpecError(
            error.message, error.span, error.related, SEVERAL if has_several else error.hint
        ) from None
    return load_node(top, files, options).noted(notes)


def _overridden_notes(others: Iterable[MappingNode], last: MappingNode) -> Iterator[Note]:
    """Note the mappings that the last file overrides."""
    chosen = [value for _, value in sections_of(last, "mapping")]
    for key, value in (section for top in others for section in sections_of(top, "mapping")):
        if value not in chosen:
            yield note_at(key.span, "this `{}` is overridden by that of {}", key.text, last.span.file)


def load_node(
    top: MappingNode, files: Sequence[Path], options: LoadOptions, problem: LoadedProblem | None = None
) -> LoadedSpec:
    """Read a joined spec; see `load_timeloop`. Shapes are looked for beside `files`.

    A `problem` takes the place of the section of that name. It may lack dataspaces that the architecture has
    levels for, so a level may keep nothing.
    """
    notes: list[Note] = []
    is_older = older_architecture(top) is not None
    top = with_settings(updated(top, notes.append), options.files.settings)
    check_sections(top, problem is not None, notes.append)
    context = replace(_context(top, files, options, notes, problem), is_older=is_older)
    written = written_rules(top, context)
    context = replace(context, factors=_factor_kind(top, options, notes.append))
    clauses = [*node_clauses(context), *_clauses(sections_of(top, "constraints"), context)]
    sections = [] if options.timeloop.skip_mapping else sections_of(top, "mapping")
    if not sections and options.timeloop.require_mapping:
        named = ", ".join(
            map(
                display_name,
                files if options.timeloop.mapping_file is None else [options.timeloop.mapping_file],
            )
        )
        lack = "nothing under the key" if "mapping" in top else "no key"
        raise SpecError(f"there is {lack} `mapping` in {named}", hint=HOW_TO_MAP)
    assembly = assemble(clauses, context)
    if not context.optimizes_sparse:
        note_overbooking(clauses, context)
    parallelism = min_parallelism(clauses, assembly, context)
    sparsity = read_sparsity(top, clauses, context)
    _check_given(context, sparsity)
    all_rules = options.all_rules or (sparsity is not None and sparsity.optimized)
    rules = _rules(written, assembly, context, replace(options, all_rules=all_rules), problem is not None)
    mapper = read_mapper(section_of(top, "mapper"), context.variables, context.note)
    objectives = options.objectives or mapper.objectives
    mapspace = _mapspace(top, assembly, parallelism, mapper, context, objectives, sparsity, rules)
    if context.loaded.bits:
        assembly, mapspace = _assembly_in_values(assembly, mapspace, context)
    memories_with_places = _memories_with_places(assembly, options)
    if not sections:
        check_rooms(assembly.storages, context)
    if options.refuse_infeasible:  # once all else is right: `explain` reads the same spec without it
        check_feasible(assembly.levels, context, memories_with_places, sparsity)
    if problem is None and memories_with_places:
        mapspace = spread(mapspace, memories_with_places)
        if options.refuse_unsearchable:
            check_searched_with_places(mapspace, written)
    mapping = None
    if sections:
        span = sections[0][1].span
        mapping = _mapping(sections, clauses, assembly, mapspace, context)
        nest = build_nest(mapspace.problem, mapspace.architecture, mapping)
        check_parallelism(nest.instances(len(mapping.nodes)), *parallelism, span)
        check_loop_limit(mapping, mapper.most_loops, span)
    context.note_lacking()
    if not sections:
        notes.extend(_left_out(top))
    options.check_searched(mapspace)
    loaded_notes = tuple(dict.fromkeys(notes))
    return LoadedSpec(
        mapspace=replace(mapspace, notes=loaded_notes),
        mapping=mapping,
        notes=loaded_notes,
        files=tuple(files),
        document=top,
        problem=context.loaded.section,
        memories_with_places=memories_with_places,
    )


def _mapping(
    sections: Sequence[tuple[ScalarNode, Node]],
    clauses: Sequence[Clause],
    assembly: Assembly,
    mapspace: Mapspace,
    context: Context,
) -> LoopNest:
    """Return the mapping of a spec."""
    nodes = [value for _, value in sections]
    if names_places(nodes, mapspace):
        return read_placed(partial(_clauses, sections), assembly, mapspace, nodes[0].span, context)
    targets = _clauses(sections, context)
    keeping = [clause for clause in targets if clause.kind == "dataspace"]
    with_mapping = assemble([*clauses, *keeping], context)
    check_rooms(with_mapping.storages, context)
    check_coalescing(assembly.storages, with_mapping.storages)
    mapping = read_mapping(targets, with_mapping, nodes[0].span, context)
    return tidied(mapspace, on_places(mapspace, mapping))


def _assembly_in_values(
    assembly: Assembly, mapspace: Mapspace, context: Context
) -> tuple[Assembly, Mapspace]:
    """Return an assembly and its mapspace with levels that count in the values of the problem."""
    bits = context.loaded.bits
    if mapspace.sparsity is not None:
        message = "bit widths of dataspaces are not modelled beside sparse data"
        raise SpecError(message, hint="--ignore-sparse takes all data as dense")
    architecture = in_values(mapspace.architecture, bits)
    for level in architecture.levels:
        if level.packing and (level.size_words or 0) > MOST_WORDS:
            raise SpecError(f"`{level.name}` is too large for values of these sizes", context.tree.span)
    storages = {level.name: level for level in architecture.levels}
    levels = tuple(
        replace(level, storage=storages[level.storage.name]) if isinstance(level, TemporalLevel) else level
        for level in assembly.levels
    )
    return replace(assembly, levels=levels), replace(mapspace, architecture=architecture)


def _memories_with_places(assembly: Assembly, options: LoadOptions) -> frozenset[str]:
    """Return the memories that may have several places in the loop nest."""
    return frozenset(
        level.storage.name for level in assembly.storages if options.has_places or level.keeping.has_places
    )


def _rules(
    written: Sequence[WrittenRule],
    assembly: Assembly,
    context: Context,
    options: LoadOptions,
    of_workload: bool,
) -> tuple[Rule, ...]:
    """Return the user-defined rules; SpecError for those that are not modelled where they stand."""
    if not written:
        return ()
    if of_workload:
        raise SpecError(
            "user-defined constraints need specs of one problem, not a workload", written[0].text.span
        )
    nodes = tuple(map(node_of, assembly.levels))
    rules = read_rules(written, Architecture("", nodes, Compute(assembly.compute.name)), context)
    if options.refuse_unsearchable and not options.all_rules:
        check_searched(rules, written)
    return rules


def _left_out(top: MappingNode) -> Iterator[Note]:
    """Note the constraints that a spec lacks since a mapping was written into it."""
    gone = top.get(LEFT_OUT)
    if isinstance(gone, SequenceNode):
        constraints = listing(item.text for item in gone.items if isinstance(item, ScalarNode))
        sentence = "`--mapped-spec` removed constraints, which the search therefore ignores: {}"
        yield note_at(top.key(LEFT_OUT).span, sentence, constraints)


def _context(
    top: MappingNode,
    files: Sequence[Path],
    options: LoadOptions,
    notes: list[Note],
    problem: LoadedProblem | None,
) -> Context:
    variables = _variables(top, options.files.limits)
    find = partial(
        find_shape, spec_files=files, limits=options.files.limits, allow_include=options.files.allow_include
    )
    loaded = problem
    if loaded is None:
        section = top.require("problem", "the spec")
        loaded = read_problem(
            section,
            find,
            variables,
            options.ignore_sparse,
            options.files.limits,
            options.reads_sparse,
            reads_first_values(top),
        )
    tree = read_tree(top.require("architecture", "the spec"), variables, options.files.limits)
    notes.extend(loaded.notes)
    context = Context(
        loaded=loaded,
        tree=tree,
        variables=variables,
        note=notes.append,
        timeloop_padding=options.timeloop.padding,
        counting=options.rule,
        limits=options.files.limits,
        idle_levels=problem is not None,
        optimizes_sparse=options.reads_sparse and has_optimizations(top, tree.leaves),
    )
    for name, place in tree.disabled:
        context.note(note_at(place, "`{}` is not enabled and is left out", name))
    for node in () if options.reads_sparse else (top, *(leaf.node for leaf in tree.leaves)):
        check_no_sparsity(node, options.ignore_sparse, notes.append)
    for leaf in tree.leaves:
        refuse_networks(leaf)
    return context


def _check_given(context: Context, sparsity: Sparsity | None) -> None:
    """Check that first values of outputs are counted where they are given."""
    rule, place = rule_of(context.counting), context.loaded.given
    if place is None:
        return
    if not rule.given:
        message = f"given first values of outputs are not counted by {rule.title}"
        raise SpecError(message, place, hint="--counting exact")
    if sparsity is not None:
        message = "given first values of outputs are not counted where data are sparse"
        raise SpecError(message, place, hint="--ignore-sparse drops densities")


def _factor_kind(top: MappingNode, options: LoadOptions, note: TakeNote) -> Factors:
    """Return which factors loops may have: as the options say, or the template of the mapspace, or any."""
    written = read_template(top)
    if options.factors is not None:
        return options.check_factors(options.factors)
    if written is not None:
        return options.check_factors(*written)
    return options.free_factors(_obstacle(top, options), note)


def _obstacle(top: MappingNode, options: LoadOptions) -> str | None:
    """Return what excludes remainders, if anything does."""
    if not rule_of(options.rule).remainders:
        return f"the rule `{options.rule}` does not support remainders"
    nodes = [value for name in _CONSTRAINED for _, value in sections_of(top, name)]
    if any(_says(node, "remainders", 1) for node in nodes):
        return "`remainders: 1` leaves none"
    return None


_CONSTRAINED = ("architecture", "constraints")


def _says(node: Node, key: str, value: object) -> bool:
    """Whether a key has this value somewhere under a node."""
    if isinstance(node, SequenceNode):
        return any(_says(item, key, value) for item in node.items)
    if not isinstance(node, MappingNode):
        return False
    own = node.get(key)
    has_it = isinstance(own, ScalarNode) and own.value == value
    return has_it or any(_says(inner, key, value) for _, inner in node.entries)


def _variables(top: MappingNode, limits: Limits) -> dict[str, object]:
    node = section_of(top, "variables")
    if node is None:
        return {}
    section = as_mapping(_one_mapping(node), "`variables`")
    check_version(section)
    return {name: value for name, value in read_variables(section, limits).items() if name != "version"}


def _one_mapping(node: Node) -> Node:
    """Return a list of mappings, such as included files give, as one mapping."""
    if not isinstance(node, SequenceNode):
        return node
    parts = [as_mapping(item, "a part of `variables`") for item in node.items]
    return reduce(join_specs, parts)


def _clauses(sections: Iterable[tuple[ScalarNode, Node]], context: Context) -> list[Clause]:
    return [clause for key, value in sections for clause in target_clauses(value, f"`{key.text}`", context)]


def _mapspace(
    top: MappingNode,
    assembly: Assembly,
    parallelism: tuple[Fraction, Span | None],
    mapper: MapperSection,
    context: Context,
    objectives: tuple[str, ...],
    sparsity: Sparsity | None,
    rules: tuple[Rule, ...],
) -> Mapspace:
    """Return the mapspace; where `objectives` are about latency alone, energies may be unknown."""
    least, place = parallelism
    components = [value for _, value in sections_of(top, "components")]
    tables = load_tables(section_of(top, "ERT"), section_of(top, "ART"))
    lists = PriceLists(tables, load_compound_classes(components, context.note))
    refuse_wires(tables, context)
    note_unread(top, lists.classes, context)
    needs_energy = any(objective != LATENCY for objective in objectives) or asks_for_energy(rules)
    pricing = priced if needs_energy else priced_or_free
    prices = {
        level.storage.name: (priced_if_known if level.keeping.keeps_nothing(context) else pricing)(
            level.loops.leaf, lists, context, level.storage
        )
        for level in assembly.storages
    }
    prices[assembly.compute.name] = pricing(assembly.compute, lists, context)
    nodes = [node_of(level) for level in assembly.levels]
    architecture = build_architecture(nodes, assembly.compute, prices, context)
    if sparsity is not None:
        sparsity = with_energies(sparsity, tuple(prices), prices, architecture.units_per_pj, context)
    return Mapspace(
        problem=context.problem,
        architecture=architecture,
        temporal=tuple(temporal_rules(level.loops) for level in assembly.storages),
        spatial=tuple(level.rules for level in assembly.fanouts),
        keep=tuple(level.keeping.rules() for level in assembly.storages),
        parallel=assembly.parallel,
        min_parallelism=least,
        objectives=mapper.objectives,
        max_temporal_loops=None if mapper.most_loops is None else mapper.most_loops[0],
        min_parallelism_source=None if place is None else source_ref(place),
        counting=context.counting,
        factors=context.factors,
        sparsity=sparsity,
        rules=rules,
    )
