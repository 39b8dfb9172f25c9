import pytest

from model.mapspace import ParallelGroup
from tests.model.formats.timeloop.support import (
    ARRAY,
    BUFFER,
    DRAM,
    MAC,
    SPAD,
    architecture,
    assert_fails,
    constrained,
    failure,
    load,
    marked,
    spec,
)

ALL = {"Weights", "Inputs", "Outputs"}


def keeping(dataspace: str, *sections: str) -> tuple[set[str], set[str]]:
    node = constrained(BUFFER, f"{{dataspace: {dataspace}}}")
    rules = load(spec(*sections, arch=architecture(DRAM, node, MAC))).mapspace.keep[1]
    return set(rules.keep), set(rules.bypass)


def storage(name: str, dataspace: str = "{}") -> str:
    attributes = "attributes: {width: 16, depth: 32, datawidth: 16}, energy: {read: 1, write: 1, leak: 0}"
    constraints = f"constraints: {{dataspace: {dataspace}}}"
    return f"!Component {{name: {name}, class: SRAM, {attributes}, {constraints}}}"


def parallel(*branches: str) -> str:
    return "  - !Parallel\n    nodes:\n" + "".join(f"    - {branch}\n" for branch in branches)


def error_of(*nodes: str):
    return failure(spec(arch=architecture(*nodes)))


@pytest.mark.parametrize(
    ("dataspace", "keep", "bypass"),
    [
        ("{}", set(), set()),
        ("{keep: [Weights]}", {"Weights"}, set()),
        ("{keep: Weights, bypass: [Inputs]}", {"Weights"}, {"Inputs"}),
        ("{keep: ['*']}", ALL, set()),
        ("{keep_only: [Weights]}", {"Weights"}, {"Inputs", "Outputs"}),
        ("{bypass_only: [Weights]}", {"Inputs", "Outputs"}, {"Weights"}),
        ("{keep: [Weights], keep_only: [Weights]}", {"Weights"}, {"Inputs", "Outputs"}),
    ],
)
def test_what_is_not_said_stays_open(dataspace, keep, bypass):
    assert keeping(dataspace) == (keep, bypass)


def test_the_outermost_level_keeps_what_it_does_not_bypass():
    assert load(spec()).mapspace.keep[0].keep == ALL
    dram = constrained(DRAM, "{dataspace: {bypass: [Weights]}}")
    loaded = load(spec(arch=architecture(dram, BUFFER, MAC)))
    assert "bypasses `Weights`" in loaded.notes[0].text
    rules = loaded.mapspace.keep[0]
    assert (rules.keep, rules.bypass) == ({"Inputs", "Outputs"}, {"Weights"})


def test_targets_add_to_what_the_node_says():
    targets = "constraints: {targets: [{target: buffer, type: bypass, bypass: [Inputs]}]}\n"
    assert keeping("{keep: [Weights]}", targets) == ({"Weights"}, {"Inputs"})


def test_branches_of_parallel_exclude_each_other():
    branches = parallel(storage("a", "{keep: [Weights]}"), storage("b", "{keep: [Inputs]}"), storage("c"))
    mapspace = load(spec(arch=architecture(DRAM, ARRAY, branches, MAC))).mapspace
    assert mapspace.parallel == (ParallelGroup((1, 2, 3)),)
    assert [set(rules.bypass) for rules in mapspace.keep] == [
        set(),
        {"Inputs"},
        {"Weights"},
        {"Weights", "Inputs"},
    ]
    assert [set(rules.keep) for rules in mapspace.keep[1:]] == [{"Weights"}, {"Inputs"}, set()]


def test_a_branch_of_nothing_lets_dataspaces_pass_by():
    nothing = "!Nothing {constraints: {dataspace: {keep: [Outputs]}}}"
    branches = parallel(storage("a", "{keep: [Weights]}"), storage("b", "{keep: [Inputs]}"), nothing)
    mapspace = load(spec(arch=architecture(DRAM, branches, MAC))).mapspace
    assert mapspace.parallel == (ParallelGroup((1, 2), may_skip=True),)
    assert [set(rules.bypass) for rules in mapspace.keep[1:]] == [
        {"Inputs", "Outputs"},
        {"Weights", "Outputs"},
    ]


@pytest.mark.parametrize("nothing", ["!Nothing", "!Nothing {}"])
def test_an_empty_branch_of_nothing_lets_any_dataspace_pass_by(nothing):
    branches = parallel(storage("a", "{keep: [Weights]}"), nothing)
    mapspace = load(spec(arch=architecture(DRAM, branches, MAC))).mapspace
    assert mapspace.parallel == (ParallelGroup((1,), may_skip=True),)


def test_a_branch_with_several_levels_needs_names():
    deep = f"!Hierarchical\n      nodes:\n      - {storage('a', '{keep: [Weights]}')}\n      - {storage('b')}"
    named = parallel(deep, storage("c", "{keep: [Inputs, Outputs]}"))
    mapspace = load(spec(arch=architecture(DRAM, named, MAC))).mapspace
    assert mapspace.parallel == ()
    assert [set(rules.bypass) for rules in mapspace.keep[1:]] == [
        {"Inputs", "Outputs"},
        {"Inputs", "Outputs"},
        {"Weights"},
    ]
    open_branch = parallel(deep, storage("c", "{keep: [Inputs]}"))
    error = error_of(DRAM, open_branch, MAC)
    assert "keeps `Outputs`" in error.message
    assert "every branch is a single level" in error.hint


def test_keeping_a_dataspace_in_two_branches_names_both():
    branches = parallel(storage("a", "{keep: [Weights]}"), storage("b", "{keep: [Inputs, Weights]}"))
    error = error_of(DRAM, branches, MAC)
    assert error.message == "`Weights` is kept in two branches of one `!Parallel`"
    assert marked(error) == "Weights"
    (place, _), *_ = error.related
    assert place.line == error.span.line - 1


def test_a_dataspace_that_every_branch_bypasses_is_lost():
    branches = parallel(storage("a", "{bypass: [Weights]}"), storage("b", "{bypass: [Weights]}"))
    error = error_of(DRAM, branches, MAC)
    assert "keeps `Weights`" in error.message
    assert "single level" not in error.hint


def test_keeping_and_bypassing_names_both_places():
    error = error_of(DRAM, constrained(BUFFER, "{dataspace: {keep: [Weights], bypass: [Weights]}}"), MAC)
    assert error.message == "`buffer` cannot both keep and bypass `Weights`"
    assert len(error.related) == 1


@pytest.mark.parametrize(
    "bypass", ["{bypass: ['*']}", "{bypass: [Weights, Inputs, Outputs]}", "{keep_only: []}"]
)
def test_a_level_that_keeps_nothing_is_noted(bypass):
    loaded = load(spec(arch=architecture(DRAM, constrained(BUFFER, f"{{dataspace: {bypass}}}"), MAC)))
    assert loaded.mapspace.keep[1].bypass == ALL
    assert any("`buffer` keeps nothing" in note.text for note in loaded.notes)


def test_a_dataspace_that_no_level_keeps_is_an_error():
    bypass = "{dataspace: {bypass: [Weights]}}"
    error = error_of(constrained(DRAM, bypass), constrained(BUFFER, bypass), MAC)
    assert error.message == "no level keeps `Weights`"
    assert len(error.related) == 1


@pytest.mark.parametrize(
    ("dataspace", "message", "mark"),
    [
        ("{keep: [Weight]}", "unknown dataspace `Weight`", "Weight"),
        ("{kep: [Weights]}", "unknown key `kep`", "kep"),
        ("{keep: {Weights: 1}}", "must be a single value", "{Weights: 1}"),
        ("{keep: [Weights], bypass_only: [Weights]}", "cannot both keep and bypass `Weights`", "Weights"),
    ],
)
def test_mistakes_are_marked(dataspace, message, mark):
    error = error_of(DRAM, constrained(BUFFER, f"{{dataspace: {dataspace}}}"), MAC)
    assert message in error.message
    assert marked(error) == mark


@pytest.mark.parametrize(
    "empty",
    [
        "",
        "{temporal: , dataspace: , min_parallelism: }",
        "{dataspace: {keep: , bypass: , keep_only: , bypass_only: , no_coalesce: }}",
        "{temporal: {permutation: , factors: , no_reuse: , default_max_factor: , maximize_dims: }}",
    ],
)
def test_constraints_that_are_left_empty_ask_for_nothing(empty):
    found = load(spec(arch=architecture(DRAM, constrained(BUFFER, empty), MAC))).mapspace
    free = load(spec(arch=architecture(DRAM, BUFFER, MAC))).mapspace
    assert (found.temporal, found.keep, found.min_parallelism) == (free.temporal, free.keep, 0)
    assert found.architecture.levels[1].no_coalesce == frozenset()


@pytest.mark.parametrize(
    "empty",
    [
        "{dataspace: {}, temporal: {}, spatial: {}}",
        "{dataspace: {keep: [], bypass: [], no_coalesce: }}",
        "{temporal: {target: mac, factors: [], permutation: []}}",
        "{spatial: {no_iteration_over_dataspaces: []}}",
    ],
)
def test_what_asks_for_nothing_may_stand_anywhere(empty):
    found = load(spec(arch=architecture(DRAM, BUFFER, constrained(MAC, empty)))).mapspace
    assert found == load(spec(arch=architecture(DRAM, BUFFER, MAC))).mapspace
    container = constrained(ARRAY, "{temporal: {}, dataspace: {keep: []}}")
    load(spec(arch=architecture(DRAM, BUFFER, container, MAC)))
    targets = "targets: [{type: dataspace, target: mac, bypass: []}, {type: temporal, target: mac}]"
    load(spec(f"constraints: {{{targets}}}\n", arch=architecture(DRAM, BUFFER, MAC)))


@pytest.mark.parametrize(
    ("constraints", "message", "mark"),
    [
        ("{dataspace: {keep_only: []}}", "a dataspace constraint has no effect on `mac`", "dataspace"),
        ("{temporal: {fators: []}}", "a temporal constraint has no effect on `mac`", "temporal"),
        ("{temporal: {target: buffer}}", "this constraint is on `mac`", "buffer"),
    ],
)
def test_what_asks_for_something_may_not(constraints, message, mark):
    assert_fails(spec(arch=architecture(DRAM, BUFFER, constrained(MAC, constraints))), message, mark)


@pytest.mark.parametrize(
    ("constraints", "message", "mark"),
    [
        ("{temporal: {target: spad, factors: [P=1]}}", "this constraint is on `buffer`", "spad"),
        ("{temporal: {type: spatial, factors: [P=1]}}", "this is a temporal constraint", "spatial"),
        ("{max_utilization: 0.5}", "`max_utilization` is not modelled", "max_utilization"),
    ],
)
def test_constraints_on_a_node_are_its_own(constraints, message, mark):
    assert_fails(spec(arch=architecture(DRAM, constrained(BUFFER, constraints), MAC)), message, mark)
    agreed = constrained(BUFFER, "{temporal: {target: buffer, type: temporal, factors: [P=1]}}")
    assert len(load(spec(arch=architecture(DRAM, agreed, MAC))).mapspace.temporal[1].factors) == 1


def test_no_coalesce():
    node = constrained(SPAD, "{dataspace: {no_coalesce: [Inputs]}}")
    levels = load(spec(arch=architecture(DRAM, ARRAY, node, MAC))).mapspace.architecture.levels
    assert levels[1].no_coalesce == {"Inputs"}
    outermost = constrained(DRAM, "{dataspace: {no_coalesce: [Inputs]}}")
    noted = load(spec(arch=architecture(outermost, MAC)))
    assert "no_coalesce of `Inputs` has no effect on `DRAM`, which is the outermost" in noted.notes[0].text
    assert noted.mapspace.architecture.levels[0].no_coalesce == frozenset()
    idle = constrained(SPAD, "{dataspace: {no_coalesce: [Inputs], bypass: [Inputs]}}")
    assert "no_coalesce has no effect" in load(spec(arch=architecture(DRAM, idle, MAC))).notes[0].text


@pytest.mark.parametrize(
    "flags",
    [
        "dataspace: {keep_only: [Inputs], no_coalesce: ['*']}",
        "dataspace: {keep_only: [Inputs]}, temporal: {no_reuse: '*', rmw_first_update: ['*']}",
        "dataspace: {keep_only: [Inputs]}, temporal: {no_temporal_reuse: ['*']}",
    ],
)
def test_flags_of_all_dataspaces_mean_those_that_the_level_has(flags):
    node = constrained(SPAD, f"{{{flags}}}")
    assert load(spec(arch=architecture(DRAM, node, MAC))).notes == ()
    named = flags.replace("'*'", "[Weights]").replace("[[Weights]]", "[Weights]")
    named = named.replace("rmw_first_update: [Weights]", "rmw_first_update: [Outputs]")
    notes = [*map(str, load(spec(arch=architecture(DRAM, constrained(SPAD, f"{{{named}}}"), MAC))).notes)]
    assert notes
    assert all("has no effect: `spad` bypasses" in note for note in notes)


def test_a_level_that_passes_on_needs_one_that_keeps():
    dram = constrained(DRAM, "{dataspace: {bypass: [Inputs]}}")
    passing = constrained(BUFFER, "{dataspace: {no_coalesce: [Inputs]}}")
    error = error_of(dram, passing, MAC)
    assert error.message == "no level keeps `Inputs`"
    assert marked(error) == "Inputs"
    assert [text for _, text in error.related] == ["`DRAM` bypasses it"]
    notes = [*map(str, load(spec(arch=architecture(dram, passing, ARRAY, SPAD, MAC))).notes)]
    assert sum("no level above `buffer` keeps `Inputs`" in note for note in notes) == 1
    assert load(spec(arch=architecture(DRAM, passing, MAC))).notes == ()


def test_nothing_outside_parallel_cannot_keep():
    nothing = "  - !Nothing {constraints: {dataspace: {keep: [Outputs]}}}\n"
    assert "outside `!Parallel`" in error_of(DRAM, nothing, MAC).message


@pytest.mark.parametrize(
    ("targets", "message", "mark"),
    [
        ("[{target: bufer, type: dataspace, keep: [Inputs]}]", "unknown level `bufer`", "bufer"),
        ("[{target: mac, type: dataspace, keep: [Inputs]}]", "stores nothing", "mac"),
        ("[{target: buffer, type: datspace, keep: [Inputs]}]", "unknown constraint type", "datspace"),
        ("[{target: buffer, keep: [Inputs]}]", "is missing the key `type`", None),
        ("[{target: buffer, name: spad, type: temporal}]", "two names for the same key", "name"),
        ("[{target: buffer, type: max_utilization, max: 1}]", "is not modelled", "max_utilization"),
        ("[{type: dataspace, keep: [Inputs]}]", "has no key `target`", None),
        ("{buffer: 1}", "must be a list", "{buffer: 1}"),
    ],
)
def test_wrong_targets_are_marked(targets, message, mark):
    assert_fails(spec(f"architecture_constraints: {{targets: {targets}}}\n"), message, mark)


def test_targets_may_stand_in_a_plain_list_and_name_the_level_above_a_fanout():
    targets = "constraints:\n- {target: buffer, type: spatial, factors: [K=4]}\n"
    (rule,) = load(spec(targets)).mapspace.spatial[0].factors
    assert (rule.dim, rule.value, rule.source.line) == ("K", 4, 39)
    targets = "constraints:\n- {target: inter_PE_spatial, type: spatial, factors: [K=4]}\n"
    assert len(load(spec(targets)).mapspace.spatial[0].factors) == 1
    targets = "constraints:\n- {target: DRAM, type: spatial, factors: [K=4]}\n"
    assert "`DRAM` has no fanout below it" in failure(spec(targets)).message


def test_overbooking_is_noted():
    targets = "constraints: [{target: buffer, type: max_overbooked_proportion, proportion: 0.1}]\n"
    assert "max_overbooked_proportion has no effect" in load(spec(targets)).notes[0].text


def test_two_different_orders_or_splits_of_one_node_are_an_error():
    node = constrained(ARRAY, "{spatial: {permutation: [K, C], split: 1}}")
    arch = architecture(DRAM, node, SPAD, MAC)
    for changed in ("permutation: [C, K]", "split: 2"):
        error = failure(spec(f"constraints: [{{target: PE, type: spatial, {changed}}}]\n", arch=arch))
        assert "two different" in error.message
        assert len(error.related) == 1
    same = "constraints: [{target: PE, type: spatial, permutation: KC, split: 1}]\n"
    assert load(spec(same, arch=arch)).mapspace.spatial[0].split == 1


def test_any_section_named_after_constraints_holds_some():
    first = "constraints: {targets: [{target: buffer, type: dataspace, keep: [Weights]}]}\n"
    second = "constraints_II: {targets: [{target: buffer, type: dataspace, bypass: [Inputs]}]}\n"
    ignored = "constraints_ignore: {targets: [{target: buffer, type: dataspace, bypass: [Weights]}]}\n"
    rules = load(spec(first, second, ignored)).mapspace.keep[1]
    assert (set(rules.keep), set(rules.bypass)) == ({"Weights"}, {"Inputs"})


IDLE = """\
constraints:
- {target: inter_PE_spatial, type: temporal, factors: R1 P1 C1 K1, permutation: RPCK}
- {target: inter_PE_spatial, type: datatype, keep: [], bypass: [Weights, Inputs, Outputs]}
"""


def test_the_level_that_timeloop_writes_for_a_fanout_says_nothing():
    assert load(spec(IDLE)).mapspace == load(spec()).mapspace


@pytest.mark.parametrize(
    ("old", "new", "message", "mark"),
    [
        ("R1 P1 C1 K1", "R1 P1 C2 K1", "the fanout `PE` holds no temporal loops", "R1 P1 C2 K1"),
        ("keep: []", "keep: [Outputs]", "the fanout `PE` holds no data", "Outputs"),
        ("keep: []", "no_coalesce: [Outputs]", "unknown key `no_coalesce`", "no_coalesce"),
        (
            "inter_PE_spatial, type: temporal",
            "inter_PF_spatial, type: temporal",
            "unknown level",
            "inter_PF_spatial",
        ),
    ],
)
def test_a_fanout_has_no_loops_and_no_data_of_its_own(old, new, message, mark):
    assert old in IDLE
    assert_fails(spec(IDLE.replace(old, new)), message, mark)
