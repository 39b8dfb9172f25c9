import pytest

from model.counting import TIMELOOP
from model.mapping import FanoutMapping, Loop, SpatialLoop, StorageMapping
from tests.model.formats.timeloop.support import (
    ARRAY,
    DRAM,
    MAC,
    PROBLEM,
    SPAD,
    architecture,
    assert_fails,
    constrained,
    failure,
    load,
    marked,
    spec,
)

ALL = frozenset({"Weights", "Inputs", "Outputs"})
NODES = (DRAM, ARRAY, SPAD, MAC)
MAPPING = """\
mapping:
- {target: DRAM, type: temporal, factors: [P=4, C=2], permutation: [P, C]}
- {target: PE, type: spatial, factors: [K=4, C=2], permutation: [K, C], split: 1}
- {target: spad, type: temporal, factors: R3 P4 K2, permutation: RPK}
- {target: spad, type: dataspace, keep: [Inputs, Outputs], bypass: [Weights]}
"""


def text_with(mapping: str, *nodes: str, problem: str = PROBLEM) -> str:
    return spec(problem=problem, arch=architecture(*(nodes or NODES))) + mapping


def test_loops_and_kept_dataspaces():
    mapping = load(text_with(MAPPING)).mapping
    assert mapping is not None
    assert mapping.nodes == (
        StorageMapping((Loop("P", 4), Loop("C", 2)), ALL),
        FanoutMapping((SpatialLoop("K", 4, "x"), SpatialLoop("C", 2, "y"))),
        StorageMapping((Loop("R", 3), Loop("P", 4), Loop("K", 2)), frozenset({"Inputs", "Outputs"})),
    )


def test_no_mapping_is_none_or_an_error():
    assert load(text_with("")).mapping is None
    assert "no key `mapping`" in failure(text_with(""), require_mapping=True).message


@pytest.mark.parametrize(
    ("spatial", "axes"),
    [
        ("permutation: [K, C], split: 2", "xx"),
        ("permutation: [R, P, K, C], split: 3", "xy"),
        ("permutation: [R, P, K, C], split: 2", "yy"),
        ("permutation: [K, _, C], split: 1", "xy"),
    ],
)
def test_split_counts_listed_dimensions(spatial, axes):
    text = text_with(MAPPING.replace("permutation: [K, C], split: 1", spatial))
    assert "".join(loop.axis for loop in load(text).mapping.nodes[1].spatial) == axes


def test_without_a_split_the_mesh_decides():
    row = text_with(
        MAPPING.replace(", split: 1", ""), DRAM, ARRAY.replace(", meshY: 2", "").replace("4", "8"), *NODES[2:]
    )
    assert [loop.axis for loop in load(row).mapping.nodes[1].spatial] == ["x", "x"]
    column = row.replace("meshX: 8", "meshY: 8")
    assert [loop.axis for loop in load(column).mapping.nodes[1].spatial] == ["y", "y"]


def test_a_spatial_target_may_name_the_level_above():
    text = text_with(MAPPING.replace("target: PE", "target: DRAM"))
    assert load(text).mapping == load(text_with(MAPPING)).mapping


@pytest.mark.parametrize("target", ["PE", "DRAM"])
def test_factors_on_a_mesh_of_one_are_refused(target):
    one = ARRAY.replace("{meshX: 4, meshY: 2}", "{meshX: 1}")
    text = MAPPING.replace("R3 P4 K2", "R3 P4 K8").replace("P=4, C=2]", "P=4, C=4]")
    text = text.replace("target: PE", f"target: {target}")
    assert_fails(text_with(text, DRAM, one, SPAD, MAC), "K=4 at `PE` exceeds its mesh of 1 x 1", "K=4")
    assert load(text_with(text.replace("K=4, C=2", "K=1, C=1"), DRAM, one, SPAD, MAC)).mapping is not None


@pytest.mark.parametrize(
    ("old", "new", "message", "mark"),
    [
        ("P=4, C=2]", "P=2, C=2]", "P multiply to 2 (DRAM) * 4 (spad) = 8, but its bound is 16", "R3 P4 K2"),
        ("R3 P4 K2", "P4 K2", "factors of R are all 1, but its bound is 3", None),
        ("[P=4, C=2]", "['P<=4', C=2]", "a mapping fixes its factors", "'P<=4'"),
        ("permutation: [P, C]}", "permutation: []}", "loops over `P` and `C` of `DRAM` is not given", "[]"),
        (", permutation: RPK", "", "loops over `R`, `P` and `K` of `spad` is not given", "R3 P4 K2"),
        (", split: 1", "", "does not split the loops of `PE`", "K=4"),
        ("target: PE", "target: PEE", "unknown level `PEE`", "PEE"),
        ("type: dataspace", "type: dataspaces", "unknown constraint type", "dataspaces"),
        ("bypass: [Weights]", "bypass: [Inputs]", "cannot both keep and bypass `Inputs`", "Inputs"),
        ("split: 1", "split: 1, no_reuse: [Weights]", "belongs to the architecture", "Weights"),
        ("type: dataspace", "type: dataspace, no_coalesce: [Inputs]", "to the architecture", "Inputs"),
        ("type: dataspace", "type: dataspace, uneven: true", "`uneven` is a constraint", "uneven"),
        (", permutation: RPK", ", permutation: RPK, maximize_dims: [C]", "a mapping gives its", "[C]"),
        (
            "type: dataspace, keep: [Inputs, Outputs], bypass: [Weights]",
            "type: parallelism, min: 1",
            "mapping",
            None,
        ),
    ],
)
def test_mistakes_are_marked(old, new, message, mark):
    assert old in MAPPING
    assert_fails(text_with(MAPPING.replace(old, new)), message, mark)


def test_too_few_compute_units_break_a_constraint():
    text = text_with(MAPPING) + "constraints: {targets: [{target: mac, type: utilization, min: SHARE}]}\n"
    assert load(text.replace("SHARE", "1")).mapping is not None
    idle = text.replace("C=2], permutation: [P, C]", "C=4], permutation: [P, C]").replace("K=4, C=2", "K=4")
    assert load(idle.replace("SHARE", "0.5")).mapping is not None
    error = failure(idle.replace("SHARE", "0.6"))
    assert error.message == "the mapping uses 4 compute units, but the constraints require 5"
    assert [place for _, place in error.related] == ["the constraint"]


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ("{temporal: {factors: [K=1]}}", "the mapping's K=2 at `spad` violates the constraint `K=1`"),
        ("{temporal: {permutation: [P, R]}}", "violate the order of the constraints"),
        ("{temporal: {permutation: _RP}}", "violate the order of the constraints"),
        ("{dataspace: {keep: [Weights]}}", "cannot both keep and bypass `Weights`"),
    ],
)
def test_a_mapping_that_breaks_the_constraints(constraints, message):
    error = failure(text_with(MAPPING, DRAM, ARRAY, constrained(SPAD, constraints), MAC))
    assert message in error.message
    assert len(error.related) == 1


def test_a_mapping_that_keeps_the_constraints():
    constraints = "{temporal: {permutation: [C, R, P], factors: ['K>=2']}, dataspace: {bypass: [Weights]}}"
    loaded = load(text_with(MAPPING, DRAM, ARRAY, constrained(SPAD, constraints), MAC))
    assert loaded.mapping == load(text_with(MAPPING)).mapping


REST = """\
mapping:
- {target: DRAM, type: temporal, factors: [P=4, C=2], permutation: [P, C]}
- {target: spad, type: temporal, factors: P4 K2}
"""
SPAD_LOOPS = "{temporal: {factors: [R=3], permutation: RPK}, dataspace: {bypass: [Weights]}}"


@pytest.mark.parametrize(
    "spatial",
    [
        "factors: [K=4, C=2], permutation: [K, C, R, P], split: 1",
        "factors: [K=4, C=2, R=1, P=1], permutation: [K, C], split: 1",
        "factors: [K=4, C=2, R=1, P=1], permutation: [R, P, K, C], split: 3",
    ],
)
def test_what_a_mapping_leaves_to_the_constraints(spatial):
    array = constrained(ARRAY, f"{{spatial: {{{spatial}}}}}")
    text = text_with(REST, DRAM, array, constrained(SPAD, SPAD_LOOPS), MAC)
    assert load(text).mapping == load(text_with(MAPPING)).mapping


def test_an_error_in_what_the_constraints_complete_names_both():
    array = constrained(ARRAY, "{spatial: {factors: [K=4, C=2], permutation: [K, C, R, P], split: 1}}")
    text = text_with(REST.replace("P4 K2", "P4 K4"), DRAM, array, constrained(SPAD, SPAD_LOOPS), MAC)
    error = failure(text)
    assert (
        error.message == "the mapping's factors of K multiply to 4 (PE) * 4 (spad) = 16, but its bound is 8"
    )
    assert marked(error) == "P4 K4"
    assert [text for _, text in error.related] == ["K is 8 here", "`K=4` is a constraint"]


@pytest.mark.parametrize(
    ("factors", "padding", "axes"),
    [("K=4, C=2", True, "xy"), ("K=4, C=2, R=1", True, "yy"), ("K=4, C=2, R=1", False, "xy")],
)
def test_padding_a_mapping_looks_at_what_is_written(factors, padding, axes):
    array = constrained(ARRAY.replace("meshX: 4, meshY: 2", "meshX: 8, meshY: 8"), "{spatial: {factors: []}}")
    text = text_with(MAPPING.replace("K=4, C=2", factors), DRAM, array, SPAD, MAC)
    mapping = load(text, padding=padding).mapping
    assert "".join(loop.axis for loop in mapping.nodes[1].spatial) == axes


def test_a_mapping_may_repeat_the_flags_of_the_architecture():
    node = constrained(SPAD, "{dataspace: {no_coalesce: [Inputs]}}")
    text = text_with(MAPPING.replace("keep: [I", "no_coalesce: [Inputs], keep: [I"), DRAM, ARRAY, node, MAC)
    assert load(text).mapspace.architecture.levels[1].no_coalesce == {"Inputs"}


BRANCH = """\
    - !Component
      name: {}
      class: SRAM
      attributes: {{width: 16, depth: 99, datawidth: 16}}
      energy: {{read: 1, write: 1, leak: 0}}
"""
PARALLEL = "  - !Parallel\n    nodes:\n" + BRANCH.format("a") + BRANCH.format("b")
WHOLE = "mapping:\n- {target: DRAM, type: temporal, factors: [R=0, P=0, C=0, K=0], permutation: RPCK}\n"


def test_a_mapping_says_which_branch_keeps_what():
    said = "- {target: a, type: dataspace, keep: [Weights]}\n"
    said += "- {target: b, type: dataspace, keep: [Inputs, Outputs]}\n"
    loaded = load(text_with(WHOLE + said, DRAM, PARALLEL, MAC))
    assert [set(node.keep) for node in loaded.mapping.nodes] == [ALL, {"Weights"}, {"Inputs", "Outputs"}]
    unsaid = failure(text_with(WHOLE, DRAM, PARALLEL, MAC))
    assert "which of `a` and `b` keeps `Weights`" in unsaid.message


@pytest.mark.parametrize(
    "constraint", ["permutation: [R, P, C, K], split: 3", "permutation: [C, K], split: 1"]
)
def test_a_mapping_on_another_axis_than_the_constraints(constraint):
    array = constrained(ARRAY, f"{{spatial: {{{constraint}, factors: [R=1, P=1]}}}}")
    error = failure(text_with(MAPPING, DRAM, array, SPAD, MAC))
    assert error.message == "the mapping puts K along X at `PE`, but the constraints do not"
    assert len(error.related) == 1


def test_the_order_along_one_axis_is_free():
    array = constrained(
        ARRAY.replace(", meshY: 2", "").replace("4", "8"), "{spatial: {permutation: [R, P, C, K]}}"
    )
    text = text_with(MAPPING.replace("split: 1", "split: 2"), DRAM, array, SPAD, MAC)
    assert [loop.dim for loop in load(text).mapping.nodes[1].spatial] == ["K", "C"]


SEVEN = PROBLEM.replace("P: 16", "P: 7")
REMAINDERS = MAPPING.replace("P=4, C=2]", "'P=2,2', C=2]").replace("R3 P4 K2", "'R3 P4,3 K2'")


def notes_of(text: str, **options) -> list[str]:
    return [note.text for note in load(text, **options).notes]


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ("'P=2,2', C=2]", "R3 P4,3 K2"),
        ("P=2, 2, C=2]", "R=3,3 P=4, 3, K=2"),
        ("P=2, C=2]", "R=3 P=4,3 K=2,2"),
        ("P=2, C=2]", "R3 P4 K2"),
    ],
)
def test_remainders_may_be_given_or_left_out(outer, inner):
    text = text_with(MAPPING.replace("P=4, C=2]", outer).replace("R3 P4 K2", f'"{inner}"'), problem=SEVEN)
    loaded = load(text)
    dram, _, spad = loaded.mapping.nodes
    assert (dram.temporal[0], spad.temporal[1]) == (Loop("P", 2), Loop("P", 4))
    assert loaded.mapping.remainders(loaded.mapspace.problem.bound) == ((2, 2), (4, 2), (3, 3, 2))
    left_out = any("leave remainders: `P=4,3`, the innermost first" in note.text for note in loaded.notes)
    assert left_out is ("4,3" not in inner and "4, 3" not in inner)


@pytest.mark.parametrize(
    ("old", "new", "message", "mark"),
    [
        ("P4,3", "P4,2", "`P=4,2` at `spad`: the remainder is 3, as P is 7", "'R3 P4,2 K2'"),
        ("'P=2,2'", "'P=3,1'", "P multiply to 3 (DRAM) * 4 (spad) = 12, but its bound is 7", "'R3 P4,3 K2'"),
        ("'P=2,2'", "P=1", "P multiply to 4 (spad) = 4, but its bound is 7", "'R3 P4,3 K2'"),
        ("P4,3", "P8", "P multiply to 2 (DRAM) * 8 (spad) = 16, but its bound is 7", "'R3 P8 K2'"),
    ],
)
def test_wrong_remainders_are_marked(old, new, message, mark):
    assert old in REMAINDERS
    assert_fails(text_with(REMAINDERS.replace(old, new), problem=SEVEN), message, mark)


def test_a_factor_beyond_the_dimension_is_cut_where_its_remainder_says_so():
    text = text_with(REMAINDERS.replace("'P=2,2'", "P=1").replace("P4,3", "P8,7"), problem=SEVEN)
    assert Loop("P", 7) in load(text).mapping.nodes[2].temporal
    assert "`P=8,7` at `spad` is read as 7: there are no more iterations" in notes_of(text)


def test_timeloops_rule_takes_no_remainders():
    text = text_with(REMAINDERS, problem=SEVEN)
    error = failure(text, counting=TIMELOOP)
    assert error.message == "the mapping's factors of P = 7 leave a remainder, which Timeloop miscounts"
    assert "--counting exact" in error.hint


def test_compute_units_in_use_are_those_of_any_round():
    # 5 channels on 2 x 4 units: 3 rounds of 2, 4 tiles of 2 of which the last one is short.
    text = text_with(
        MAPPING.replace(
            "K=4, C=2], permutation: [K, C], split: 1", "C=2, K=3], permutation: [K, C], split: 1"
        ).replace("R3 P4 K2", "'R3 P4 K2,1'"),
        problem=PROBLEM.replace("K: 8", "K: 5"),
    )
    share = "constraints: {targets: [{target: mac, type: utilization, min: SHARE}]}\n"
    assert load(text + share.replace("SHARE", "0.75")).mapping is not None
    assert failure(text + share.replace("SHARE", "0.8")).message.startswith(
        "the mapping uses 6 compute units"
    )
