"""The top level of a spec: its sections, versions and tags, and the sections that little else reads."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain

from model.extents import ANY, PERFECT, Factors
from model.objective import EDP, ENERGY, LATENCY, TIMELOOP_METRICS
from model.text.fields import (
    Names,
    as_int,
    as_name,
    as_scalar,
    belongs,
    given,
    keyed_mapping,
    one_of,
)
from model.text.source import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    Span,
    SpecError,
    TakeNote,
    note_at,
    values_in,
)
from model.wording import did_you_mean, listing, suggestion

VERSION = Decimal("0.4")


def read_section(node: Node, what: str, keys: Iterable[str], required: Iterable[str] = ()) -> MappingNode:
    """Return a section with none but known keys, after its version is checked."""
    section = keyed_mapping(node, what, keys, required)
    check_version(section)
    return section


def check_version(node: MappingNode) -> None:
    """Check the optional key ``version`` of a section."""
    version = node.get("version")
    if version is None:
        return
    text = as_scalar(version, "`version`").text
    try:
        number = Decimal(text)
    except ArithmeticError:
        number = Decimal(-1)
    if number != VERSION:
        raise SpecError(
            f"version `{text}` is not supported", version.span, hint="versions 0.1 to 0.4 are read"
        )


NODE_TAGS = ("!Component", "!Container", "!Nothing", "!Hierarchical", "!Parallel")

COMPONENT_TAGS = ("!Component", "!Element")
"""Tags of a component, which was an element in drafts of the format."""

_EXTENSIONS = {
    "!ArrayContainer": (
        "a node of CiMLoop, which extends Timeloop's format",
        "write `!Container`, with `split: 0` for a mesh along Y",
    ),
    "!Copy": (
        "a node of an extension of Timeloop's format",
        "instances of a node are its mesh, `spatial: {meshX: ...}`; an anchor repeats text",
    ),
}
"""Nodes of other dialects: what they are, and what to write instead."""


def _check_tags(section: str, value: Node) -> None:
    """Refuse tags outside of the architecture's tree; the tree's own are checked where it is read."""
    for key, node in _values_inside(value) if section == "architecture" else ((None, value),):
        _check_tag(node, key)


def refused_tag(node: Node) -> SpecError:
    """Return the error for an unknown tag."""
    tag = node.tag or ""
    if tag in _EXTENSIONS:
        what, hint = _EXTENSIONS[tag]
        return SpecError(f"`{tag}` is {what}", node.span, hint=hint)
    hint = did_you_mean(tag, NODE_TAGS) or f"known tags are {', '.join(NODE_TAGS)}"
    return SpecError(f"unknown tag `{node.tag}`", node.span, hint=hint)


def _check_tag(node: Node, key: ScalarNode | None) -> None:
    if node.tag in (*NODE_TAGS, *COMPONENT_TAGS):
        where, span = ("here", node.span) if key is None else (f"under `{key.text}`", key.span)
        hint = "they mark the items of `nodes` in the architecture"
        raise SpecError(f"`{node.tag}` does not belong {where}", span, hint=hint)
    if node.tag is not None:
        raise refused_tag(node)
    for inner, child in _values_inside(node):
        _check_tag(child, inner or key)


def _values_inside(node: Node) -> Iterator[tuple[ScalarNode | None, Node]]:
    """Values inside of `node` with their keys; of the items of ``nodes``, what lies inside of them."""
    if isinstance(node, ScalarNode):
        return
    if not isinstance(node, MappingNode):
        yield from ((None, item) for item in node.items)
        return
    for key, value in node.entries:
        if key.text == "nodes" and not isinstance(value, ScalarNode):
            yield from (inner for _, item in _values_inside(value) for inner in _values_inside(item))
        else:
            yield key, value


UNSEARCHED = "this command does not support sparse data"
UNSEARCHED_HINT = "`map`, on specs in Timeloop's form alone, does; --ignore-sparse treats all data as dense"


def check_density(key: ScalarNode, value: Node, ignore_sparse: bool, note: TakeNote) -> None:
    """Check that a density is 1; with `ignore_sparse` another one is noted instead of refused."""
    if _is_dense(value):
        return
    if not ignore_sparse:
        raise SpecError(f"`{key.text}`: {UNSEARCHED}", key.span, hint=UNSEARCHED_HINT)
    note(note_at(key.span, "`{}` is ignored; all data is treated as dense", key.text))


def _is_dense(value: Node) -> bool:
    """Whether a density is 1, or all that are given in a mapping are: then all data is dense."""
    if isinstance(value, MappingNode) and "distribution" not in value:
        return all(_is_dense(part) for _, part in value.entries)
    if isinstance(value, MappingNode):
        return _is_dense(value.require("density", "a density"))
    return isinstance(value, ScalarNode) and value.value == 1 and not isinstance(value.value, bool)


SPARSE_SECTION = "sparse_optimizations"
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
    "model",
    SPARSE_SECTION,
)
_OF_PROGRAMS = ("globals", "model")
_ELSEWHERE = {"shape": "problem", "instance": "problem", "nodes": "architecture", "targets": "constraints"}
NETWORK_SECTIONS = ("workload", "renames")
ASSIGNED = "network"
ASSIGNED_HINT = "the command `assign` reads a `network` of layers and methods"
ANCHOR_MARK = "ignore"
LEFT_OUT = "ignore_left_out_for_the_mapping"
"""What a file with a mapping in it lists here: the constraints that the mapping meets, which it lacks."""
_WORKLOADS = (
    "the command `network` maps workloads; `--einsum NAME` chooses one of their Einsums for map, prove, "
    "compare, evaluate, check and explain"
)
_HINTS = {
    **dict.fromkeys((*NETWORK_SECTIONS, "arch"), _WORKLOADS),
    ASSIGNED: ASSIGNED_HINT,
    "ERT_summary": "a summary has no energies: give the file that has the key `ERT`",
    "ART_summary": "a summary has no energies: give the file that has the key `ART`",
}
"""What to do about keys that other files of the same tools have."""
_ELISION = "TIMELOOP_ENABLE_FIRST_READ_ELISION"
_COUNTING = (
    _ELISION,
    "TIMELOOP_ENABLE_UPDATED_RMW",
    "TIMELOOP_ENABLE_TOROIDAL_LINKS",
    "TIMELOOP_RUN_LAST_ITERATION",
    "TIMELOOP_DISABLE_TEMPORAL_EXTRAPOLATION",
)
"""What Timeloop's programs look up in their environment; the first is on unless it is 0, the others off."""
FLATTENED_MARK = "dumped_by_timeloop_front_end"
"""Key of what Timeloop's front end wrote for its C++ programs: its architecture has a `subtree`."""


def section_name(key: str) -> str:
    """Return the section that a key is read as, or itself; Timeloop knows some by a part of their key."""
    if key in SECTIONS:
        return key
    by_part = (ANCHOR_MARK, "components", "constraints", "mapping", "globals")
    return next((name for name in by_part if name in key), key)


def is_empty(node: Node) -> bool:
    """Whether a section says nothing: no value, no targets, or a version alone."""
    if isinstance(node, ScalarNode):
        return node.value is None
    if isinstance(node, SequenceNode):
        return not node.items
    return all(key.text == "version" or is_empty(value) for key, value in node.entries)


def section_of(top: MappingNode, name: str) -> Node | None:
    """Return a section, None where there is none or it says nothing."""
    value = top.get(name)
    return None if value is None or is_empty(value) else value


def sections_of(top: MappingNode, name: str) -> list[tuple[ScalarNode, Node]]:
    """Return the keys that are read as one section, and what they hold, unless that is nothing."""
    named = ((key, value) for key, value in top.entries if section_name(key.text) == name)
    return [(key, value) for key, value in named if not is_empty(value)]


def check_sections(top: MappingNode, has_problem: bool, note: TakeNote) -> None:
    """Check the keys of a joined spec, and the sections that nothing else reads."""
    _refuse_extensions(top)
    required = ("architecture",) if has_problem else ("problem", "architecture")
    missing = [key for key in required if key not in top]
    lacking = f", and the spec is missing {listing(missing)}" if missing else ""
    for key, value in top.entries:
        name = section_name(key.text)
        if name == ANCHOR_MARK:
            continue
        _check_tags(key.text, value)
        if name not in SECTIONS:
            raise _unknown_section(key, lacking)
        if name in _OF_PROGRAMS:
            note(note_at(key.span, "`{}` controls Timeloop's programs; it is not used here", key.text))
        if name == "globals":
            _note_counting(value, note, has_problem)
    if missing:
        hint = f"give a file with `{missing[0]}:` as well"
        raise SpecError(f"the spec is missing the key `{missing[0]}`", top.span, hint=hint)
    read_template(top)


def _refuse_extensions(top: MappingNode) -> None:
    """Refuse nodes of other dialects before anything else, as whatever else is wrong follows from them."""
    architecture = top.get("architecture")
    for node in () if architecture is None else values_in(architecture):
        if node.tag in _EXTENSIONS:
            raise refused_tag(node)


def _note_counting(section: Node, note: TakeNote, has_problem: bool) -> None:
    """Note the variables of Timeloop's environment that make it count in another way than by default."""
    for key in _changing(section):
        if key.text == _ELISION and not has_problem:
            note(note_at(key.span, "with `{}`, outputs have given first values, which are read", key.text))
            continue
        hint = "; `temporal: {rmw_first_update: ['*']}` on each storage does" if key.text == _ELISION else ""
        note(note_at(key.span, "`{}` changes what Timeloop counts, but has no effect here{}", key.text, hint))


def _changing(section: Node) -> Iterator[ScalarNode]:
    """Yield the variables of an environment that change what Timeloop counts."""
    environment = section.get("environment_variables") if isinstance(section, MappingNode) else None
    for key, value in environment.entries if isinstance(environment, MappingNode) else ():
        is_zero = isinstance(value, ScalarNode) and value.text == "0"
        if key.text in _COUNTING and is_zero == (key.text == _ELISION):
            yield key


def reads_first_values(top: MappingNode) -> Span | None:
    """Return the variable by which Timeloop reads first values of all outputs, if it is set."""
    keys = chain.from_iterable(_changing(value) for _, value in sections_of(top, "globals"))
    return next((key.span for key in keys if key.text == _ELISION), None)


def _unknown_section(key: ScalarNode, lacking: str) -> SpecError:
    """Return the error for an unknown top-level key; `lacking` says what the spec lacks."""
    if key.text == FLATTENED_MARK:
        hint = "give the files that it was made from; their architecture has `nodes`"
        return SpecError("this spec was flattened by Timeloop's front end", key.span, hint=hint)
    hint = _HINTS.get(key.text) or suggestion(key.text, SECTIONS, "known keys are")
    if key.text in _ELSEWHERE:
        hint = belongs(key.text, _ELSEWHERE)
    return SpecError(f"unknown top-level key `{key.text}`{lacking}", key.span, hint=hint)


def check_no_sparsity(node: MappingNode, ignore_sparse: bool, note: TakeNote) -> None:
    """Refuse the ``sparse_optimizations`` of a spec or of a component, or note that they are ignored."""
    if section_of(node, SPARSE_SECTION) is None:
        return
    key = node.key(SPARSE_SECTION)
    if not ignore_sparse:
        raise SpecError(f"`{SPARSE_SECTION}`: {UNSEARCHED}", key.span, hint=UNSEARCHED_HINT)
    note(note_at(key.span, "`sparse_optimizations` are ignored; all data is treated as dense"))


_TEMPLATES: dict[str, Factors] = {"uber": PERFECT, "ruby": ANY}


def read_template(top: MappingNode) -> tuple[Factors, Span] | None:
    """Return which factors the template of the ``mapspace`` section allows, and its place."""
    node = section_of(top, "mapspace")
    if node is None:
        return None
    template = read_section(node, "`mapspace`", ("version", "template", "rules")).get("template")
    if template is None:
        return None
    kind = _TEMPLATES.get(as_name(template, "`template`"))
    if kind is None:
        message = "only the mapspace templates `uber` (perfect factors) and `ruby` (any) are modelled"
        raise SpecError(message, template.span)
    return kind, template.span


_METRIC_KEYS = ("optimization_metrics", "optimization_metric", "optimization-metrics", "optimization-metric")
_OBJECTIVES = {**TIMELOOP_METRICS, LATENCY: LATENCY, ENERGY: ENERGY, EDP: EDP}
_UNSUPPORTED = ("last_level_accesses", "last-level-accesses", "ordered_accesses", "accesses")
_SEARCH_KEYS = (
    "out_prefix",
    "num_threads",
    "num-threads",
    "search_size",
    "search-size",
    "timeout",
    "victory_condition",
    "victory-condition",
    "sync_interval",
    "sync-interval",
    "log_interval",
    "log_oaves",
    "log_oaves_mappings",
    "log_oave_mappings",
    "log_mappings_yaml",
    "log_mappings_verbose",
    "log_stats",
    "log-stats",
    "log_suboptimal",
    "log-suboptimal",
    "log_all",
    "log-all",
    "log_all_mappings",
    "live_status",
    "live-status",
    "diagnostics",
    "penalize_consecutive_bypass_fails",
    "emit_whoop_nest",
    "algorithm",
    "filter_revisits",
    "max_permutations_per_if_visit",
    "log_orojenesis_mappings",
)
_MOST_LOOPS = "max_temporal_loops_in_a_mapping"


@dataclass(frozen=True)
class MapperSection:
    """What the ``mapper`` section asks for."""

    objectives: tuple[str, ...] = ("edp",)
    most_loops: tuple[int, Span] | None = None  # the most temporal loops of a mapping, with its place


def read_mapper(node: Node | None, variables: Names, note: TakeNote) -> MapperSection:
    """Read the ``mapper`` section; a proof needs none of a sampling search's keys."""
    if node is None:
        return MapperSection()
    section = read_section(node, "`mapper`", ("version", *_METRIC_KEYS, _MOST_LOOPS, *_SEARCH_KEYS))
    search = [key for key in section.keys() if key in _SEARCH_KEYS]  # noqa: SIM118 (a node, not a dict)
    if search:
        verbs = ("applies", "has") if len(search) == 1 else ("apply", "have")
        sentence = f"{{}} {verbs[0]} to sampling searches only and {verbs[1]} no effect here"
        note(note_at(section.span, sentence, listing(search)))
    most_loops = _most_loops(section, variables, note)
    metrics = one_of(section, _METRIC_KEYS, "`mapper`")
    value = None if metrics is None else metrics[1]
    items = value.items if isinstance(value, SequenceNode) else () if value is None else (value,)
    objectives = tuple(dict.fromkeys(_objective(item) for item in items))
    return MapperSection(objectives or MapperSection.objectives, most_loops)


def _most_loops(section: MappingNode, variables: Names, note: TakeNote) -> tuple[int, Span] | None:
    """Return the most temporal loops of a mapping; 0 and less stand for no limit."""
    value = given(section, _MOST_LOOPS)
    number = 0 if value is None else as_int(value, f"`{_MOST_LOOPS}`", variables)
    if value is None or number <= 0:
        return None
    sentence = "`{}` is checked once the best mapping is known; the search does not use it"
    note(note_at(section.key(_MOST_LOOPS).span, sentence, _MOST_LOOPS))
    return number, value.span


def _objective(node: Node) -> str:
    name = as_name(node, "a metric")
    if name in _OBJECTIVES:
        return _OBJECTIVES[name]
    if name.startswith(_UNSUPPORTED):
        hint = "supported metrics are energy, delay (latency) and edp"
        raise SpecError(f"metric `{name}` is not supported", node.span, hint=hint)
    hint = suggestion(name, _OBJECTIVES, "known metrics are")
    raise SpecError(f"unknown metric `{name}`", node.span, hint=hint)


_LEAF_TAGS = (*COMPONENT_TAGS, "!Container")


def with_entry(node: MappingNode, name: str, value: Node) -> MappingNode:
    """Return a mapping with the value of one key replaced, or the key added at the end."""
    if name in node:
        entries = tuple((key, value if key.text == name else old) for key, old in node.entries)
    else:
        entries = (*node.entries, (ScalarNode(name, name, False, value.span), value))
    return MappingNode(entries, node.span, node.tag)


def without(node: MappingNode, names: Container[str]) -> MappingNode:
    """Return a mapping without the entries of some names, which need not be there."""
    entries = tuple((key, value) for key, value in node.entries if key.text not in names)
    return MappingNode(entries, node.span, node.tag)


def without_section(top: MappingNode, name: str) -> MappingNode:
    """Return a spec without the keys that are read as one section."""
    return without(top, [key.text for key, _ in top.entries if section_name(key.text) == name])


def with_leaves(node: Node, change: Callable[[MappingNode], MappingNode]) -> Node:
    """Return a part of the architecture with its components and containers changed."""
    if isinstance(node, SequenceNode):
        items = tuple(with_leaves(item, change) for item in node.items)
        return SequenceNode(items, node.span, node.tag)
    if not isinstance(node, MappingNode):
        return node
    if node.tag in _LEAF_TAGS:
        return change(node)
    inner = node.get("nodes")
    return node if inner is None else with_entry(node, "nodes", with_leaves(inner, change))
