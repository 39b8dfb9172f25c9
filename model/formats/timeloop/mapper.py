"""The ``mapper`` section: the default objectives. A proof needs none of a sampling search's keys."""

from __future__ import annotations

from model.formats.timeloop.context import Context
from model.formats.timeloop.version import check_version
from model.objective import EDP, ENERGY, LATENCY, TIMELOOP_METRICS
from model.text.fields import as_int, as_mapping, as_name, given
from model.text.keys import check_keys, one_of
from model.text.notes import note_at
from model.text.source import MappingNode, Node, SequenceNode, SpecError, did_you_mean
from model.wording import listing

DEFAULT_OBJECTIVES = ("edp",)

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
)
_MOST_LOOPS = "max_temporal_loops_in_a_mapping"


def read_mapper(node: Node | None, context: Context) -> tuple[str, ...]:
    """Return the objectives that the mapper section asks for, ``edp`` where it asks for none.

    Raises
    ------
    SpecError
        An unknown key, a metric that is not supported, or a limit on the number of loops.
    """
    if node is None:
        return DEFAULT_OBJECTIVES
    section = as_mapping(node, "`mapper`")
    check_keys(section, ("version", *_METRIC_KEYS, _MOST_LOOPS, *_SEARCH_KEYS), "`mapper`")
    check_version(section)
    _refuse_most_loops(section, context)
    search = [key for key in section.keys() if key in _SEARCH_KEYS]  # noqa: SIM118 (a node, not a dict)
    if search:
        sentence = "only sampling searches use {}, a proof does not"
        context.note(note_at(section.span, sentence, listing(search)))
    metrics = one_of(section, _METRIC_KEYS, "`mapper`")
    if metrics is None:
        return DEFAULT_OBJECTIVES
    value = metrics[1]
    items = value.items if isinstance(value, SequenceNode) else (value,)
    objectives = tuple(dict.fromkeys(_objective(item) for item in items))
    return objectives or DEFAULT_OBJECTIVES


def _refuse_most_loops(section: MappingNode, context: Context) -> None:
    """Raise a SpecError for a limit on the temporal loops of a mapping; 0 and less stand for none."""
    value = given(section, _MOST_LOOPS)
    if value is not None and as_int(value, f"`{_MOST_LOOPS}`", context.variables) > 0:
        hint = "leave it out; `factors` with `=1` in the constraints forbid loops"
        raise SpecError(f"`{_MOST_LOOPS}`: a limit on loops is not modelled", value.span, hint=hint)


def _objective(node: Node) -> str:
    name = as_name(node, "a metric")
    if name in _OBJECTIVES:
        return _OBJECTIVES[name]
    if name.startswith(_UNSUPPORTED):
        hint = "supported are energy, delay (latency) and edp"
        raise SpecError(f"metric `{name}` is not supported", node.span, hint=hint)
    hint = did_you_mean(name, _OBJECTIVES) or f"known are {listing(_OBJECTIVES)}"
    raise SpecError(f"unknown metric `{name}`", node.span, hint=hint)
