"""Sections, tags and the mapper's keys."""

from __future__ import annotations

import pytest

from model.formats.timeloop import load_timeloop
from model.text.source import SpecError
from tests.model.formats.timeloop.support import (
    BUFFER,
    DRAM,
    MAC,
    architecture,
    assert_fails,
    failure,
    load,
    spec,
)


@pytest.mark.parametrize(
    ("nodes", "sections", "message", "mark"),
    [
        (
            (DRAM, BUFFER.replace("depth: 256", "depth: !Fast 256"), MAC),
            "",
            "unknown tag `!Fast`",
            "!Fast 256",
        ),
        ((DRAM, BUFFER.replace("depth: 256", "depth: !!python/name:os.system 256"), MAC), "", "python", None),
        ((DRAM, BUFFER.replace("256", "!Component 256"), MAC), "", "does not belong under `depth`", "depth"),
        ((DRAM, MAC), "mapper: !Component {optimization_metrics: [edp]}\n", "does not belong here", None),
        ((DRAM, MAC), "mapper: !Mapper {optimization_metrics: [edp]}\n", "unknown tag `!Mapper`", None),
        ((DRAM, MAC), "variables: {SIZE: !Big 3}\n", "unknown tag `!Big`", "!Big 3"),
    ],
)
def test_other_tags_are_errors(nodes, sections, message, mark):
    assert_fails(spec(sections, arch=architecture(*nodes)), message, mark)


def test_a_tag_that_is_almost_right_is_suggested():
    error = failure(spec(arch=architecture(DRAM, "  - !Componnet {name: x}\n", MAC)))
    assert error.hint == "did you mean `!Component`?"


def test_tags_of_nodes_and_of_yaml_itself_are_fine():
    nodes = architecture(DRAM, BUFFER.replace("depth: 256", "depth: !!int 256"), MAC)
    anchors = "ignore_me: &node\n  - !Component {name: x}\n"
    assert load(spec(anchors, arch=nodes.replace("  nodes:", "  nodes: !!seq"))).mapping is None


def test_elements_of_drafts_are_components():
    old = architecture(DRAM, BUFFER, MAC).replace("!Component", "!Element")
    assert load(spec(arch=old)).mapspace == load(spec(arch=architecture(DRAM, BUFFER, MAC))).mapspace
    assert_fails(spec("mapper: !Element {}\n"), "`!Element` does not belong here", None)


def test_tags_of_other_dialects_are_translated():
    arch = architecture(DRAM, "  - !ArrayContainer {name: part}\n", MAC)
    # Other mistakes are named later.
    error = failure(spec("variables: {X: 1 +}\nunknown: {}\n", arch=arch))
    assert error.message == "`!ArrayContainer` is a node of CiMLoop, which extends Timeloop's format"
    assert error.hint == "write `!Container`, with `split: 0` for a mesh along Y"
    copied = architecture(DRAM, BUFFER.replace("!Component", "!Copy"), MAC)
    assert "`spatial: {meshX: ...}`" in (failure(spec(arch=copied)).hint or "")


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
    assert note.startswith("spec.yaml:38:9: `timeout`, `victory_condition`, `algorithm`")
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
        ("[edp]", "must be a mapping", "[edp]"),
        ("{version: 0.5, timeout: 1}", "version `0.5` is not supported", "0.5"),
    ],
)
def test_mistakes_are_marked(mapper, message, mark):
    assert_fails(spec(f"mapper: {mapper}\n"), message, mark)


MAPPING = "[{target: DRAM, type: temporal, factors: [R=3, P=16, C=4, K=8], permutation: [R, P, C, K]}]"


@pytest.mark.parametrize("key", ["globals", "globals_chip", "my_globals"])
def test_globals_are_known_by_a_part_of_their_key(key):
    section = f"{key}: {{version: 0.4, environment_variables: {{TIMELOOP_OUTPUT_STAT_SCIENTIFIC: 1}}}}\n"
    (note,) = map(str, load(spec(section)).notes)
    assert f"`{key}` controls Timeloop's programs" in note


def test_mappings_are_known_by_a_part_of_their_key_and_add_up():
    loaded = load(spec(f"mapping_given: {MAPPING}\n"))
    assert loaded.has_mapping
    assert loaded.mapping == load(spec(f"mapping: {MAPPING}\n")).mapping
    assert load(spec(f"mapping_given: {MAPPING}\n"), skip_mapping=True).mapping is None
    kept = "mapping_kept: [{target: buffer, type: dataspace, bypass: [Weights]}]\n"
    both = load(spec(f"mapping: {MAPPING}\n", kept)).mapping
    assert both.nodes[1].keep == {"Inputs", "Outputs"}


def test_constraints_take_precedence_over_mappings():
    assert not load(spec("mapping_constraints: []\nmapspace_constraints: {targets: []}\n")).has_mapping


def test_a_limit_on_temporal_loops_is_checked_on_mappings():
    def limited(most, *sections, **options):
        return load(spec(f"mapper: {{max_temporal_loops_in_a_mapping: {most}}}\n", *sections), **options)

    mapspace = limited(4).mapspace
    assert mapspace.max_temporal_loops == 4
    assert "is checked once the best mapping is known" in str(mapspace.notes[0])
    assert limited(4, f"mapping: {MAPPING}\n").mapping.temporal_loops == 4
    with pytest.raises(SpecError, match="has 4 temporal loops, but the mapper allows 3"):
        limited(3, f"mapping: {MAPPING}\n")


@pytest.mark.parametrize("empty", ["[]", "{}", "null", ""])
def test_another_spelling_that_says_nothing_has_no_effect(empty):
    mapper = f"mapper: {{optimization_metrics: [energy], optimization_metric: {empty}}}\n"
    assert load(mapper + spec()).mapspace.objectives == ("energy",)


def test_a_key_given_twice_with_one_value_is_noted(tmp_path):
    path = tmp_path / "spec.yaml"
    mapper = "mapper: {optimization_metrics: [energy], optimization_metrics: [%s]}\n"
    path.write_text(mapper % "energy" + spec())
    mapspace = load_timeloop([path]).mapspace
    assert mapspace.objectives == ("energy",)
    assert "`optimization_metrics` is given twice, with the same value" in str(mapspace.notes[0])
    path.write_text(mapper % "delay" + spec())
    with pytest.raises(SpecError, match="the key `optimization_metrics` is given twice"):
        load_timeloop([path])


def test_so_is_one_in_what_a_template_includes(tmp_path):
    text = "{% if true %}\n{{ include_text('a.yaml') }}\nproblem: {{ include('b.yaml') }}\n{% endif %}\n"
    (tmp_path / "spec.yaml").write_text(text)
    (tmp_path / "a.yaml").write_text(architecture(DRAM, BUFFER.replace("{width", "{depth: 256, width"), MAC))
    (tmp_path / "b.yaml").write_text("{{ '' }}\nshape: gemm\ninstance: {M: 8, K: 4, N: 2, M: 8}\n")
    notes = load_timeloop([tmp_path / "spec.yaml"]).mapspace.notes
    assert [note.values for note in notes if "given twice" in note.sentence] == [("M",), ("depth",)]
