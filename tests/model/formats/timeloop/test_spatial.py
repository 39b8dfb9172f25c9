from fractions import Fraction

import pytest

from model.mapspace import SpatialRules
from model.text.source import ConflictError
from solver import Options, map_einsum
from solver.result import Status
from tests.model.formats.timeloop.support import (
    ARRAY,
    BUFFER,
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

WIDE = "  - !Container\n    name: PE\n    spatial: {meshX: 4, meshY: 4}\n"
ONE = "  - !Container\n    name: PE\n    spatial: {meshX: 1}\n"
ROW = "  - !Container\n    name: PE\n    spatial: {meshX: 4}\n"


def text_with(spatial: str, mesh: str = WIDE) -> str:
    return spec(arch=architecture(DRAM, constrained(mesh, f"{{spatial: {spatial}}}"), SPAD, MAC))


def rules(spatial: str, mesh: str = WIDE, **options: object) -> SpatialRules:
    return load(text_with(spatial, mesh), **options).mapspace.spatial[0]


def test_dimensions_fixed_to_one_take_no_place():
    found = rules("{permutation: [C, K], split: 1, factors: [R=1, P=1]}")
    assert (found.inner, found.outer, found.split) == (("C", "K"), (), 1)
    assert found.uncounted == {"R", "P"}


def test_a_note_says_what_the_front_end_reads_otherwise():
    text = text_with("{permutation: [C, K], split: 1, factors: [R=1, P=1]}")
    (note,) = map(str, load(text).notes)
    assert "split 1 counts the other dimensions only" in note
    assert "0 of the others would lie along X" in note
    assert load(text, padding=True).notes == ()


def test_timeloop_padding_puts_them_first():
    found = rules("{permutation: [C, K], split: 1, factors: [R=1, P=1]}", padding=True)
    assert (found.inner, found.split) == (("P", "R", "C", "K"), 1)
    assert found.uncounted == frozenset()


def test_timeloop_padding_does_not_know_defaults():
    text = text_with("{permutation: [C, K], split: 1, default_max_factor: 1, factors: [C=4, K=4]}")
    assert load(text).notes == ()
    assert load(text).mapspace.spatial[0].uncounted == {"R", "P"}
    padded = load(text, padding=True).mapspace.spatial[0]
    assert (padded.inner, padded.split) == (("C", "K"), 1)


def test_timeloop_padding_takes_any_rule_that_names_one():
    text = text_with("{permutation: [C, P], split: 1, factors: ['K>=1', 'R<=1']}")
    found = load(text)
    assert (found.mapspace.spatial[0].inner, found.mapspace.spatial[0].uncounted) == (("C", "P"), {"R"})
    (note,) = map(str, found.notes)
    assert "leaves out `R` and `K`, for which a rule says 1. Timeloop's front end puts those" in note
    assert "so that 0 of the others would lie along X" in note
    padded = load(text, padding=True).mapspace.spatial[0]
    assert (padded.inner, padded.split) == (("R", "K", "C", "P"), 1)


def test_dimensions_of_bound_one_take_no_place_either():
    problem = PROBLEM.replace("R: 3", "R: 1")
    node = constrained(WIDE, "{spatial: {permutation: [C, K, P], split: 1}}")
    text = spec(problem=problem, arch=architecture(DRAM, node, SPAD, MAC))
    assert load(text).mapspace.spatial[0].uncounted == {"R"}


def test_a_complete_permutation_needs_no_note():
    assert load(text_with("{permutation: [R, C, P, K], split: 2, factors: [R=1]}")).notes == ()


def test_a_split_beyond_the_permutation_is_an_error_where_there_is_a_y_axis():
    error = failure(text_with("{permutation: [C, K], split: 3, factors: [R=1, P=1]}"))
    assert error.message == "split 3 lies beyond the permutation: only 2 dimensions have a position"
    assert marked(error) == "3"
    assert "--timeloop-padding" in (error.hint or "")
    assert rules("{permutation: [C, K], split: 3, factors: [R=1, P=1]}", padding=True).split == 3


def test_a_split_beyond_the_permutation_means_x_where_there_is_no_y_axis():
    loaded = load(text_with("{permutation: [C, K, R, P], split: 999}", ROW))
    assert loaded.mapspace.spatial[0].split == 4
    assert "all dimensions lie along X" in loaded.notes[0].text


@pytest.mark.parametrize(("split", "axis"), [(0, "X"), (4, "Y")])
def test_an_axis_that_is_left_unused_is_noted(split, axis):
    assert f"leaves its {axis} axis" in load(text_with(f"{{split: {split}}}")).notes[0].text


COLUMN = "  - !Container\n    name: PE\n    spatial: {meshY: 4}\n"


@pytest.mark.parametrize(
    ("spatial", "mesh", "axis", "dims"),
    [
        ("{permutation: [C, K, R, P], split: 2}", COLUMN, "X", "`C` and `K`"),
        ("{permutation: [C, K, R, P], split: 2}", ROW, "Y", "`R` and `P`"),
        ("{permutation: [C, K, R, P], split: 2, factors: [K=1]}", COLUMN, "X", "`C`"),
        ("{permutation: [C, K, R, P], split: 2, factors: [K=1, C<=1]}", COLUMN, None, ""),
        ("{permutation: [C, _, K], split: 2}", COLUMN, "X", "`C` and 1 of `R` and `P`"),
        ("{split: 3, factors: [R=1]}", ROW, None, ""),
        ("{split: 1, factors: [R=1]}", ROW, "Y", "2 of `P`, `C` and `K`"),
        ("{permutation: [C, K, R, P], split: 4}", ROW, None, ""),
        ("{permutation: [C, K, R, P], split: 2}", WIDE, None, ""),
    ],
)
def test_loops_along_an_axis_of_one_child_are_noted(spatial, mesh, axis, dims):
    loaded = load(text_with(spatial, mesh))
    found = [(note.text, note.place) for note in loaded.notes if "single child" in note.text]
    assert bool(found) == (axis is not None)
    for text, place in found:
        assert f"leaves {dims} to its {axis} axis, of a single child" in text
        assert place is not None


def test_a_split_of_nothing_leaves_no_axis_unused():
    """Nothing lies along either axis, whatever the split: that is the factors' doing."""
    fixed = "[R=1, P=1, C=1, K=1]"
    assert "axis" not in "".join(load(text_with(f"{{split: 0, factors: {fixed}}}")).notes)


@pytest.mark.parametrize(
    ("spatial", "message", "mark"),
    [
        ("{factors: [K=4, C=4, P=2]}", "K=4 * C=4 * P=2 = 32 exceed the 16 instances", "P=2"),
        ("{permutation: [K, C, P, R], split: 2, factors: [K=4, C=4]}", "exceed meshX 4", "C=4"),
        ("{permutation: [K, C, P, R], split: 1, factors: [P=4, C=2]}", "P=4 * C=2 = 8 exceed meshY 4", "C=2"),
        ("{permutation: [R, _, P], split: 3, factors: [K=4, C=4]}", "K=4 * C=4 = 16 exceed meshX 4", "C=4"),
        ("{split: -1}", "must be at least 0", "-1"),
        ("{no_reuse: [Weihgts]}", "unknown dataspace `Weihgts`", "Weihgts"),
        ("{keep: [Weights]}", "unknown key `keep`", "keep"),
    ],
)
def test_mistakes_are_marked(spatial, message, mark):
    assert_fails(text_with(spatial), message, mark)


@pytest.mark.parametrize("key", ["min_parallelism", "parallelism", "utilization"])
def test_a_least_parallelism_is_told_where_it_belongs(key):
    error = failure(text_with(f"{{{key}: 0.5}}"))
    assert error.message == f"unknown key `{key}` in a spatial constraint"
    assert error.hint == "`constraints: {min_parallelism: SHARE}` on the compute unit asks for units in use"


def test_a_factor_that_fits_on_no_axis_leaves_no_divisor():
    error = failure(text_with("{factors: [K=8]}"), factors="perfect")
    assert error.message == "no divisor of K = 8 is allowed at `PE`"


def test_flags_go_to_the_fanout():
    text = text_with("{no_reuse: [Weights], no_link_transfer: ['*']}")
    fanout = load(text).mapspace.architecture.fanouts[0]
    assert fanout.no_multicast == {"Weights"}
    assert fanout.no_link_transfer == {"Weights", "Inputs", "Outputs"}


def test_spatial_constraints_need_a_fanout():
    node = constrained(BUFFER, "{spatial: {factors: [K=2]}}")
    assert "has no `spatial`" in failure(spec(arch=architecture(DRAM, node, MAC))).message
    assert "have no effect" in load(text_with("{factors: [K=1]}", ONE)).notes[0].text


def test_a_container_without_a_mesh_may_have_the_defaults_of_those_with_one():
    group = constrained("  - !Container\n    name: chip\n", "{spatial: {split: 9, no_reuse: ['*']}}")
    loaded = load(spec(arch=architecture(DRAM, group, SPAD, MAC)))
    assert loaded.mapspace.spatial == ()
    assert ["the mesh of `chip` is 1 x 1" in note.text for note in loaded.notes] == [True]
    wide = group.replace("split: 9", "factors: [K=2]")
    with pytest.raises(ConflictError, match="K=2 exceed the single instance of `chip`: 1 too few"):
        load(spec(arch=architecture(DRAM, wide, SPAD, MAC)))


@pytest.mark.parametrize("asked", ["factors: [K=2]", "factors: ['K>=2']", "default_min_factor: 2"])
def test_a_mesh_of_one_that_is_asked_for_more_is_a_fanout_without_a_mapping(asked):
    text = text_with(f"{{{asked}}}", ONE)
    with pytest.raises(ConflictError, match="of `PE`"):
        load(text)
    mapspace = load(text, refuse_infeasible=False).mapspace
    assert [(fanout.name, fanout.size) for fanout in mapspace.architecture.fanouts] == [("PE", 1)]
    assert map_einsum(mapspace, Options()).status is Status.INFEASIBLE


def test_power_gates_count_a_mesh_of_one_that_is_asked_for_more():
    gate = ONE + "    has_power_gating: true\n"
    for factor, gating in (("K=1", 0), ("K=2", 1)):
        node = constrained(gate, f"{{spatial: {{factors: [{factor}]}}}}")
        loaded = load(spec(arch=architecture(DRAM, node, SPAD, MAC)), refuse_infeasible=False)
        assert loaded.mapspace.architecture.levels[1].gating_fanouts == gating


def test_a_mesh_of_one_that_is_asked_for_more_stands_where_a_fanout_may_stand():
    node = constrained(ONE, "{spatial: {factors: [K=2]}}")
    assert "no storage above it" in failure(spec(arch=architecture(node, DRAM, SPAD, MAC))).message
    inside = (
        "  - !Parallel\n    nodes:\n    - !Component {name: one, class: SRAM, spatial: {meshX: 1},"
        " attributes: {width: 64, depth: 256, datawidth: 16}, energy: {read: 1, write: 1, leak: 0},"
        " constraints: {spatial: {factors: [K=2]},"
        " dataspace: {keep: [Weights], bypass: [Inputs, Outputs]}}}\n"
        "    - !Nothing {constraints: {dataspace: {keep: [Inputs, Outputs]}}}\n"
    )
    assert "inside `!Parallel`" in failure(spec(arch=architecture(DRAM, inside, SPAD, MAC))).message


def test_a_target_above_a_mesh_of_one_speaks_of_it():
    targets = "constraints: [{target: DRAM, type: spatial, factors: [K=1]}]\n"
    loaded = load(spec(targets, arch=architecture(DRAM, ONE, SPAD, MAC)))
    assert loaded.mapspace.spatial == ()
    with pytest.raises(ConflictError, match="K=2 exceed the single instance of `PE`"):
        load(spec(targets.replace("K=1", "K=2"), arch=architecture(DRAM, ONE, SPAD, MAC)))


@pytest.mark.parametrize(
    ("spatial", "expected"),
    [
        ("{maximize_dims: [[K]]}", {"K": 4}),
        ("{maximize_dims: [K, C]}", {"K": 4, "C": 4}),
        ("{maximize_dims: [[C], [P, K]]}", {"C": 4, "P": 4, "K": 1}),
        ("{maximize_dims: [[R, C]]}", {"R": 3, "C": 4}),
        ("{factors: [C=2], maximize_dims: [[K]]}", {"C": 2, "K": 4}),
        ("{permutation: [C, K, P, R], split: 1, maximize_dims: [[K, P]]}", {"K": 4, "P": 1}),
        ("{maximize_dims: [[P]], maximize_dims_capacity: 2}", {"P": 2}),
    ],
)
def test_maximize_dims(spatial, expected):
    loaded = load(text_with(spatial))
    found = {rule.dim: rule.value for rule in loaded.mapspace.spatial[0].factors}
    assert found == expected
    assert any("maximize_dims of `PE` gives" in note.text for note in loaded.notes)


@pytest.mark.parametrize(
    ("spatial", "rounds"), [("{maximize_dims: [[R]]}", False), ("{maximize_dims: [[P]]}", True)]
)
def test_maximize_dims_says_where_timeloop_may_round_up(spatial, rounds):
    """Of a bound of 17 on 16 children Timeloop makes 9, and a remainder."""
    loaded = load(text_with(spatial).replace("P: 16", "P: 17"), factors="perfect")
    assert loaded.mapspace.problem.bound["P"] == 17
    assert any("leave a remainder" in note.text for note in loaded.notes) is rounds


@pytest.mark.parametrize(
    ("spatial", "bounds", "expected"),
    [
        ("{maximize_dims: [[P]]}", {"P": 127}, {"P": 16}),
        ("{maximize_dims: [[P]]}", {"P": 17}, {"P": 9}),
        ("{maximize_dims: [[P]]}", {"P": 32}, {"P": 16}),
        ("{maximize_dims: [[R, P]]}", {"P": 7}, {"R": 3, "P": 4}),
        ("{factors: [C=3], maximize_dims: [[P]]}", {"P": 127}, {"C": 3, "P": 5}),
    ],
)
def test_with_remainders_maximize_dims_takes_the_fewest_rounds(spatial, bounds, expected):
    text = text_with(spatial)
    for dim, bound in bounds.items():
        text = text.replace(f"{dim}: 16", f"{dim}: {bound}")
    loaded = load(text.replace("{meshX: 4, meshY: 4}", "{meshX: 16}"), factors="any")
    found = {rule.dim: rule.value for rule in loaded.mapspace.spatial[0].factors}
    assert found == expected
    assert not any("remainder" in note.text for note in loaded.notes)


def test_maximize_dims_of_temporal_loops_gets_what_is_left():
    spad = constrained(SPAD, "{temporal: {maximize_dims: [[K, C]], maximize_dims_capacity: 3}}")
    array = constrained(WIDE, "{spatial: {factors: [C=2, K=4]}}")
    mapspace = load(spec(arch=architecture(DRAM, array, spad, MAC))).mapspace
    assert {rule.dim: rule.value for rule in mapspace.temporal[1].factors} == {"K": 2, "C": 1}


@pytest.mark.parametrize(
    ("spatial", "message"),
    [
        ("{factors: [K=2], maximize_dims: [[K]]}", "`K` is already constrained"),
        ("{maximize_dims: [[K], C]}", "not a mixture"),
        ("{maximize_dims: [[K], [K]]}", "is listed twice"),
        ("{maximize_dims_capacity: 2}", "without `maximize_dims`"),
        ("{maximize_dims: [[k]]}", "unknown dimension `k`"),
    ],
)
def test_wrong_maximize_dims(spatial, message):
    assert message in failure(text_with(spatial)).message


def test_temporal_maximize_dims_needs_a_capacity():
    spad = constrained(SPAD, "{temporal: {maximize_dims: [[K, C]]}}")
    assert "maximize_dims_capacity" in failure(spec(arch=architecture(DRAM, spad, MAC))).message


@pytest.mark.parametrize(
    "section",
    [
        "constraints: {targets: [{target: spad, type: parallelism, min: 0.5}]}\n",
        "mapspace_constraints: {targets: [{target: mac, type: utilization, min: 1/2}]}\n",
        "architecture_constraints: {min_parallelism: 0.5}\n",
    ],
)
def test_a_least_parallelism_is_a_share_of_the_units(section):
    assert load(spec(section)).mapspace.min_parallelism == Fraction(4)


def test_a_least_parallelism_on_a_node():
    nodes = (DRAM, ARRAY, constrained(SPAD, "{min_parallelism: 0.25}"), MAC)
    assert load(spec(arch=architecture(*nodes))).mapspace.min_parallelism == 2


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ("[{target: DRAM, type: parallelism, min: 0.5}]", "whole array, not at `DRAM`"),
        (
            "[{target: spad, type: parallelism, min: 2}]",
            "a share of all compute units, must be between 0 and 1",
        ),
        ("[{target: spad, type: parallelism}]", "is missing the key `min`"),
        ("[{target: spad, type: parallelism, min: 0.5}, {target: mac, type: parallelism, min: 1}]", "twice"),
    ],
)
def test_wrong_parallelism(targets, message):
    assert message in failure(spec(f"constraints: {{targets: {targets}}}\n")).message


def test_a_split_may_ask_for_the_keys_of_the_instance():
    loaded = load(
        text_with("{permutation: [C, K], split: len(spec.problem.instance), factors: [R=1, P=1]}", ROW)
    )
    assert loaded.mapspace.spatial[0].split == 2
    assert any("split 4 of `PE` means that all dimensions lie along X" in note.text for note in loaded.notes)
    error = failure(text_with("{split: len(spec.problem.shape)}", ROW))
    assert (error.message, marked(error)) == (
        "`spec.problem.shape` is not defined here",
        "spec.problem.shape",
    )


def test_a_macro_may_ask_for_an_attribute_by_its_path():
    macro = "{temporal: {maximize_dims: [[P]], maximize_dims_capacity: attributes.depth}}"
    loaded = load(spec(arch=architecture(DRAM, constrained(SPAD, macro), MAC)))
    assert [(rule.dim, rule.value) for rule in loaded.mapspace.temporal[1].factors] == [("P", 16)]


def test_no_reuse_has_an_older_name_for_fanouts():
    fanouts = [
        load(text_with(f"{{{name}: [Inputs]}}")).mapspace.architecture.fanouts[0]
        for name in ("no_reuse", "no_multicast_no_reduction")
    ]
    assert [fanout.no_multicast for fanout in fanouts] == [{"Inputs"}, {"Inputs"}]


def test_a_mesh_of_the_outermost_storage_has_a_hint():
    several = DRAM.replace("name: DRAM", "name: DRAM\n    spatial: {meshX: 4}")
    error = failure(spec(arch=architecture(several, SPAD, MAC)))
    assert "has no storage above it" in error.message
    assert "there must be a single outermost storage" in (error.hint or "")


@pytest.mark.parametrize("order", ["[S, C, Q, K]", "SCQK", "'S, C, Q, K'"])
def test_a_split_does_not_count_dimensions_that_the_problem_lacks(order):
    found = rules(f"{{permutation: {order}, split: 2}}")
    assert (found.inner, found.outer, found.split) == (("C", "K"), (), 1)


def test_a_split_counts_the_outer_dimensions_that_the_problem_lacks():
    found = rules("{permutation: [C, _, S, K], split: 4}")
    assert (found.inner, found.outer, found.split) == (("C",), ("K",), 3)


def test_a_loop_that_needs_both_axes_gets_a_hint():
    error = failure(text_with("{factors: [K=8]}"))
    assert "a dimension lies along one axis of a mesh" in error.hint
    assert failure(text_with("{factors: [P=16]}", ROW)).hint is None
