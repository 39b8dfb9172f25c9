"""The top-level sections of a spec: which there are, and what may stand in those that are not modelled."""

from __future__ import annotations

from model.formats.timeloop.tags import check_tags
from model.formats.timeloop.version import check_version
from model.text.fields import as_mapping, as_name
from model.text.keys import belongs, check_keys
from model.text.notes import TakeNote, note_at
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, SpecError, did_you_mean
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
_ELSEWHERE = {"shape": "problem", "instance": "problem", "nodes": "architecture", "targets": "constraints"}
NETWORK_SECTIONS = ("workload", "renames")
ASSIGNED = "network"
ASSIGNED_HINT = "the command `assign` reads a `network` of layers and methods"
ANCHOR_MARK = "ignore"
FOREIGN_ARCHITECTURE = (
    "of AccelForge's files workloads are read; an `architecture` is given in Timeloop's form"
)
_HINTS = {
    **dict.fromkeys(NETWORK_SECTIONS, "the command `network` maps workloads"),
    ASSIGNED: ASSIGNED_HINT,
    "arch": FOREIGN_ARCHITECTURE,
    "ERT_summary": "a summary prices nothing: give the file that has the key `ERT`",
    "ART_summary": "a summary prices nothing: give the file that has the key `ART`",
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
_FLATTENED_MARK = "dumped_by_timeloop_front_end"


def holds_constraints(key: str) -> bool:
    """Whether a top-level key holds constraints, as ``constraints`` and ``mapspace_constraints`` do."""
    return "constraints" in key and ANCHOR_MARK not in key


def holds_components(key: str) -> bool:
    """Whether a top-level key holds component classes, as ``components`` and ``compound_components`` do."""
    return "components" in key and ANCHOR_MARK not in key


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


def check_sections(top: MappingNode, has_problem: bool, ignore_sparse: bool, note: TakeNote) -> None:
    """Check the keys of a joined spec, and the sections that nothing else reads.

    Raises
    ------
    SpecError
        A key that is unknown or lacking, a tag outside of the architecture, sparse optimizations, or a
        template of mapspaces with imperfect factors.
    """
    required = ("architecture",) if has_problem else ("problem", "architecture")
    missing = [key for key in required if key not in top]
    lacking = f", and the spec lacks {listing(missing)}" if missing else ""
    for key, value in top.entries:
        if ANCHOR_MARK in key.text:
            continue
        check_tags(key.text, value)
        _check_key(key, lacking)
    check_no_sparsity(top, ignore_sparse, note)
    if missing:
        hint = f"give a file with `{missing[0]}:` as well"
        raise SpecError(f"the spec lacks the key `{missing[0]}`", top.span, hint=hint)
    if "globals" in top:
        sentence = "`globals` steers Timeloop's own programs; nothing here reads it"
        note(note_at(top.key("globals").span, sentence))
        _note_counting(top.require("globals", "the spec"), note)
    _check_template(top)


def _note_counting(section: Node, note: TakeNote) -> None:
    """Note the variables of Timeloop's environment that make it count in another way than is done here."""
    environment = section.get("environment_variables") if isinstance(section, MappingNode) else None
    for key, value in environment.entries if isinstance(environment, MappingNode) else ():
        is_zero = isinstance(value, ScalarNode) and value.text == "0"
        if key.text in _COUNTING and is_zero == (key.text == _ELISION):
            hint = (
                "; `temporal: {rmw_first_update: ['*']}` on each storage does" if key.text == _ELISION else ""
            )
            note(note_at(key.span, "`{}` changes what Timeloop counts, and nothing here{}", key.text, hint))


def _check_key(key: ScalarNode, lacking: str) -> None:
    """Refuse a top-level key that is unknown; `lacking` says what the spec lacks."""
    if key.text == _FLATTENED_MARK:
        hint = "give the files that it was made from; their architecture has `nodes`"
        raise SpecError("this spec is one that Timeloop's front end flattened", key.span, hint=hint)
    if key.text in SECTIONS or holds_constraints(key.text) or holds_components(key.text):
        return
    hint = _HINTS.get(key.text) or did_you_mean(key.text, SECTIONS) or f"known are {listing(SECTIONS)}"
    if key.text in _ELSEWHERE:
        hint = belongs(key.text, _ELSEWHERE)
    raise SpecError(f"unknown top-level key `{key.text}`{lacking}", key.span, hint=hint)


def check_no_sparsity(node: MappingNode, ignore_sparse: bool, note: TakeNote) -> None:
    """Refuse the ``sparse_optimizations`` of a spec or of a component, or note that they are ignored.

    Raises
    ------
    SpecError
        There are some, and they are not to be ignored.
    """
    if section_of(node, "sparse_optimizations") is None:
        return
    key = node.key("sparse_optimizations")
    if not ignore_sparse:
        hint = "--ignore-sparse maps the problem as if all data were dense"
        raise SpecError("`sparse_optimizations` are not modelled", key.span, hint=hint)
    note(note_at(key.span, "`sparse_optimizations` are ignored; all data is taken as dense"))


def _check_template(top: MappingNode) -> None:
    """Check the ``mapspace`` section: only perfect factors are searched."""
    node = section_of(top, "mapspace")
    if node is None:
        return
    section = as_mapping(node, "`mapspace`")
    check_keys(section, ("version", "template"), "`mapspace`")
    check_version(section)
    template = section.get("template")
    if template is not None and as_name(template, "`template`") != "uber":
        raise SpecError("only the mapspace template `uber` (perfect factors) is modelled", template.span)
