import pytest

from tests.model.formats.timeloop.support import assert_fails, load, spec


@pytest.mark.parametrize(
    ("mapper", "objectives"),
    [
        ("{}", ("edp",)),
        ("{version: 0.4, optimization_metrics: [energy]}", ("energy",)),
        ("{optimization_metrics: [delay, energy]}", ("latency", "energy")),
        ("{optimization_metric: edp}", ("edp",)),
        ("{optimization-metrics: [energy, energy]}", ("energy",)),
        ("{optimization_metrics: []}", ("edp",)),
    ],
)
def test_metrics_are_the_objectives(mapper, objectives):
    assert load(spec(f"mapper: {mapper}\n")).mapspace.objectives == objectives


def test_keys_of_a_sampling_search_are_noted_once():
    loaded = load(spec("mapper: {timeout: 10, victory_condition: 5, algorithm: random, num_threads: 8}\n"))
    (note,) = map(str, loaded.notes)
    assert note.startswith("spec.yaml:38:9: only sampling searches use `timeout`, `victory_condition`, `alg")
    assert loaded.mapspace.notes == loaded.notes


def test_keys_for_logs_are_noted():
    (note,) = map(
        str, load(spec("mapper: {log_oave_mappings: true, log_mappings_yaml: true, log_all: true}\n")).notes
    )
    assert "`log_oave_mappings`, `log_mappings_yaml` and `log_all`" in note


@pytest.mark.parametrize("value", ["-1", "0", ""])
def test_no_limit_on_loops(value):
    assert load(spec(f"mapper: {{max_temporal_loops_in_a_mapping: {value}}}\n")).notes == ()


@pytest.mark.parametrize(
    ("mapper", "message", "mark"),
    [
        ("{timeot: 10}", "unknown key `timeot`", "timeot"),
        ("{optimization_metrics: [last_level_accesses]}", "is not supported", "last_level_accesses"),
        ("{optimization_metrics: [accesses-2]}", "is not supported", "accesses-2"),
        ("{optimization_metrics: [enrgy]}", "unknown metric `enrgy`", "enrgy"),
        ("{optimization_metrics: [[edp]]}", "must be a single value", "[edp]"),
        ("{max_temporal_loops_in_a_mapping: 6}", "a limit on loops is not modelled", "6"),
        ("[edp]", "must be a mapping", "[edp]"),
        ("{version: 0.3, timeout: 1}", "version `0.3` is not supported", "0.3"),
    ],
)
def test_mistakes_are_marked(mapper, message, mark):
    assert_fails(spec(f"mapper: {mapper}\n"), message, mark)
