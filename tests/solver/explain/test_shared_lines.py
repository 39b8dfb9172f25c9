"""Lines of a spec that apply to two nodes are reported, and changed, for both."""

from solver.explain import Verdict, diagnose
from tests.solver.explain.row import BOTH_SPADS, OUTPUT_TEMPORAL, SPAD, mapspace_of


def shared_factor(value):
    """One rule for the temporal loops of both scratchpads."""
    return [
        ("temporal: {factors: [P=1]}", f"temporal: &loops {{factors: [P=1, C={value}]}}"),
        (OUTPUT_TEMPORAL, "temporal: *loops"),
    ]


def shared_capacity(depth):
    return [
        (SPAD, f"attributes: &size {{depth: {depth}, width: 8, datawidth: 8}}\n          actions: &spad"),
        (f"attributes: {{{BOTH_SPADS}*spad", "attributes: *size\n          actions: *spad"),
    ]


def test_what_one_line_asks_of_two_nodes_changes_for_both():
    found = diagnose(mapspace_of(*shared_factor(4)))
    (reason,) = found.reasons
    (lever,) = reason.levers
    assert lever.text == (
        "C=2 instead of C=4 in the temporal loops of `weight_spad`; the line also applies to `output_spad`"
    )
    assert diagnose(mapspace_of(*shared_factor(2))).verdict is Verdict.FEASIBLE


def test_a_capacity_of_two_levels_grows_until_both_tiles_fit():
    # Of M=6 and P=4 the one takes 6 words, the other 24.
    tiles = [
        ("temporal: {factors: [P=1]}", "temporal: {factors: [M=1]}"),
        (OUTPUT_TEMPORAL, "temporal: {factors: [M=6, P=4]}"),
    ]
    found = diagnose(mapspace_of(*shared_capacity(8), *tiles))
    texts = [lever.text for reason in found.reasons for lever in reason.levers]
    assert "`output_spad` with 24 words instead of 8; the line also applies to `weight_spad`" in texts
    assert diagnose(mapspace_of(*shared_capacity(24), *tiles)).verdict is Verdict.FEASIBLE
    assert diagnose(mapspace_of(*shared_capacity(23), *tiles)).verdict is Verdict.INFEASIBLE


def test_of_a_shared_line_only_what_matters_is_blamed():
    tiles = (OUTPUT_TEMPORAL, "temporal: {factors: [M=6, P=4]}")
    (reason,) = diagnose(mapspace_of(*shared_capacity(8), tiles)).reasons
    texts = [statement.text for statement in reason.constraints]
    assert [text for text in texts if "holds" in text] == ["`output_spad` holds 8 words"]
    assert reason.irreducible


TWO_LEVELS = [
    # C=4 stands in one line for the buffer and weight_spad, which is one C too many by itself.
    ("keep: [Inputs, Outputs]}", "keep: [Inputs, Outputs]}\n        temporal: &loops {factors: [C=4]}"),
    ("temporal: {factors: [P=1]}", "temporal: *loops"),
    (OUTPUT_TEMPORAL, "temporal: {factors: [C=4, R=1, P=1]}"),
]


def test_a_line_that_serves_two_nodes_is_blamed_alone_if_it_contradicts_itself():
    # Of three rules any two conflict; without the one of output_spad nothing would be gained.
    (reason,) = diagnose(mapspace_of(*TWO_LEVELS)).reasons
    texts = [f"C=4 in the temporal loops of `{level}`" for level in ("buffer", "weight_spad")]
    assert [statement.text for statement in reason.constraints] == texts
    assert reason.irreducible
    assert [lever.needed for lever in reason.levers] == [1]


def test_another_conflict_is_resolved_for_all_nodes_of_its_line():
    # M=6 in each spad is one M too many, and the line of their capacity holds for both.
    tiles = [
        ("temporal: {factors: [P=1]}", "temporal: {factors: [M=6, C=4, R=3]}"),
        (OUTPUT_TEMPORAL, "temporal: {factors: [M=6, P=4]}"),
    ]
    reasons = diagnose(mapspace_of(*shared_capacity(5), *tiles)).reasons
    found = {lever.text for reason in reasons for lever in reason.levers}
    assert "M=1 instead of M=6 in the temporal loops of `weight_spad`" in found
    assert any("instead of 5; the line also applies to" in text for text in found)
    assert {reason.irreducible for reason in reasons} == {True}


def filled(depth, output_tile):
    """Scratchpads of one capacity, to be filled to three quarters: one weight against some outputs."""
    return [
        *shared_capacity(f"{depth}, min_utilization: 0.75"),
        ("temporal: {factors: [P=1]}", "temporal: {factors: [M=1, C=1, R=1, P=1]}"),
        (OUTPUT_TEMPORAL, f"temporal: {{factors: [{output_tile}]}}"),
        ("dataspace: {keep: [Inputs, Outputs]}", "dataspace: {keep: [Inputs]}"),
    ]


def test_a_capacity_of_two_levels_shrinks_only_as_far_as_both_tiles_fit():
    # output_spad's two words are too many for the one that weight_spad can fill.
    found = diagnose(mapspace_of(*filled(8, "M=2, P=1")))
    assert found.reasons
    assert not any("with 1 word " in lever.text for reason in found.reasons for lever in reason.levers)
    assert diagnose(mapspace_of(*filled(1, "M=2, P=1"))).verdict is Verdict.INFEASIBLE
    (reason,) = diagnose(mapspace_of(*filled(8, "M=1, P=1"))).reasons
    assert "`weight_spad` with 1 word instead of 8; the line also applies to `output_spad`" in {
        lever.text for lever in reason.levers
    }
    assert diagnose(mapspace_of(*filled(1, "M=1, P=1"))).verdict is Verdict.FEASIBLE


def test_a_dataspace_is_not_bypassed_where_another_node_of_the_line_needs_it():
    # The buffer's line holds for output_spad as well, which has nothing else to fill it.
    edits = [
        ("dataspace: {keep: [Inputs, Outputs]}", "dataspace: &kept {keep: [Outputs]}"),
        ("dataspace: {keep: [Outputs]}", "dataspace: *kept"),
        ("depth: 64, width: 8, datawidth: 8", "depth: 1, width: 8, datawidth: 8"),
        (f"attributes: {{{BOTH_SPADS}*spad", f"attributes: {{min_utilization: 0.5, {BOTH_SPADS}*spad"),
        (OUTPUT_TEMPORAL, "temporal: {factors: [C=1, R=1, P=4]}"),
    ]
    (reason,) = diagnose(mapspace_of(*edits)).reasons
    texts = [lever.text for lever in reason.levers]
    assert "without this: `buffer` keeps Outputs; the line also applies to `output_spad`" in texts
    assert not any("bypassing" in text for text in texts)
