"""Levers are applied to the text of the spec: the change suffices, and one step less does not."""

from fractions import Fraction

import pytest

from model.mapspace import FactorRule
from solver.explain import Verdict, diagnose, explanation
from solver.explain import levers as levers_module
from solver.explain.explanation import Conflict, find_conflicts
from solver.explain.feasibility import Feasibility
from solver.explain.levers import levers, nearest_sufficient
from solver.explain.wording import change_text
from solver.formulation.requirements import Parallelism, TileCapacity, constraints_of
from solver.result import Clock
from tests.mapspaces import copies
from tests.solver.explain.row import PE_FACTORS, SPAD, factors, mapspace_of, pe, share, spad

ALL_IN_PE = ("temporal: {factors: [P=1]}", "temporal: {factors: [P=1, M=6, C=4, R=3]}")
C_AND_R = ("temporal: {factors: [P=1]}", "temporal: {factors: [P=1, C=4, R=3]}")
BUFFERED = "multiple_buffering: 1.5"
CASES = [
    # what makes the row infeasible, a lever, its application, one step less
    ([spad(8), ALL_IN_PE], "`weight_spad` with 72 words instead of 8", spad(72), spad(71)),
    (
        [spad(8, f", {BUFFERED}"), ALL_IN_PE],
        "`weight_spad` with 108 words instead of 8",
        spad(108, f", {BUFFERED}"),
        spad(107, f", {BUFFERED}"),
    ),
    (
        [factors("M=3, C=4, R=3")],
        "meshX 12 instead of 4 of `PE`",
        ("meshX: 4", "meshX: 12"),
        ("meshX: 4", "meshX: 11"),
    ),
    (
        [factors("M=3, C=4, R=3")],
        "C=1 instead of C=4 in the spatial loops of `PE`",
        factors("M=3, C=1, R=3"),
        factors("M=3, C=2, R=3"),
    ),
    (
        [factors("M<=1, C<=1"), share(0.5)],
        "C<=2 instead of C<=1 in the spatial loops of `PE`",
        factors("M<=1, C<=2"),
        factors("M<=1, C<=1"),
    ),
    (
        [factors("M<=2, C<=2, R=1"), share(0.9)],
        "4 of 12 compute units (0.3333) instead of 11",
        share(0.3333),
        share(0.42),
    ),
    (
        [factors("M>=3, C>=4"), spad(64, ", min_utilization: 0.5")],
        "min_utilization 0.09375 instead of 0.5 of `weight_spad` (6 words)",
        spad(64, ", min_utilization: 0.09375"),
        spad(64, ", min_utilization: 0.095"),
    ),
    (
        [factors("M>=3, C>=4"), spad(64, ", min_utilization: 0.5")],
        "`weight_spad` with 12 words instead of 64",
        spad(12, ", min_utilization: 0.5"),
        spad(13, ", min_utilization: 0.5"),
    ),
    (
        [pe("factors: [P=1, C>=4, M>=3], split: 3"), share(1)],
        "split 2 instead of 3 of `PE`",
        pe("factors: [P=1, C>=4, M>=3], split: 2"),
        pe("factors: [P=1, C>=4, M>=3], split: 0"),
    ),
    (
        [pe("factors: [C=4, M=3, R=1], permutation: [C, M, P, R], split: 2")],
        "permutation [C, R, P, M] of `PE` instead of this one",
        pe("factors: [C=4, M=3, R=1], permutation: [C, R, P, M], split: 2"),
        pe("factors: [C=4, M=3, R=1], permutation: [M, C, P, R], split: 2"),
    ),
]


@pytest.mark.parametrize(("edits", "lever", "change", "less"), CASES)
def test_a_lever_suffices_and_less_does_not(edits, lever, change, less):
    found = diagnose(mapspace_of(*edits))
    assert found.verdict is Verdict.INFEASIBLE
    assert lever in [each.text for reason in found.reasons for each in reason.levers]
    kept = [edit for edit in edits if edit[0] != change[0]]
    assert diagnose(mapspace_of(*kept, change)).verdict is Verdict.FEASIBLE
    assert diagnose(mapspace_of(*kept, less)).verdict is Verdict.INFEASIBLE


@pytest.mark.parametrize(("depth", "places"), [(11, 1), (12, 2), (17, 2)])
def test_a_multiple_buffering_is_blamed_only_where_there_would_be_room_without_it(depth, places):
    # Twelve words are needed, whatever else there is.
    (reason,) = diagnose(mapspace_of(spad(depth, f", {BUFFERED}"), C_AND_R)).reasons
    (capacity,) = (statement for statement in reason.constraints if "holds" in statement.text)
    assert len(capacity.sources) == places
    assert reason.shortfalls[0].demand == 12


def test_what_a_branch_keeps_is_one_line_with_what_the_others_bypass():
    wide = ("factors: [C=1, R=1, P=1]", "factors: [M=6, P=4]")
    found = diagnose(mapspace_of(wide, spad(64)))
    levers = [lever.text for reason in found.reasons for lever in reason.levers]
    assert "without this: `output_spad` keeps Outputs" in levers
    keep = ("dataspace: {keep: [Outputs]}\n            ", "")
    assert diagnose(mapspace_of(wide, spad(64), keep)).verdict is Verdict.FEASIBLE


def test_no_level_is_told_to_bypass_everything():
    alone = "keep: [Inputs], bypass: [Weights, Outputs]}\n        temporal: {factors: [C=4, R=3, P=4]}"
    edits = [("keep: [Inputs, Outputs]}", alone), ("depth: 64", "depth: 7")]
    found = diagnose(mapspace_of(*edits))
    texts = [lever.text for reason in found.reasons for lever in reason.levers]
    assert "without this: `buffer` keeps Inputs" in texts
    assert not any("bypassing" in text for text in texts)
    assert diagnose(mapspace_of(*edits, ("keep: [Inputs], bypass", "bypass"))).verdict is Verdict.FEASIBLE


def test_a_capacity_is_lowered_no_further_than_its_rounding_asks_for():
    # 19 rows over 1.5 are 12 usable words, of which 6 are half; 20 rows are 13.
    edits = [factors("M>=3, C>=4"), spad(21, f", min_utilization: 0.5, {BUFFERED}")]
    found = diagnose(mapspace_of(*edits))
    texts = [lever.text for reason in found.reasons for lever in reason.levers]
    assert "`weight_spad` with 19 words instead of 21" in texts
    for rows, verdict in ((19, Verdict.FEASIBLE), (20, Verdict.INFEASIBLE)):
        edits[1] = spad(rows, f", min_utilization: 0.5, {BUFFERED}")
        assert diagnose(mapspace_of(*edits)).verdict is verdict


def test_conflicts_that_share_a_line_are_not_two(monkeypatch):
    # A capacity and the share of it that is to be filled both rest on the depth.
    asked = []

    def blames_capacities(feasibility, constraints):
        asked.append([type(constraint).__name__ for constraint in constraints])
        own = tuple(c for c in constraints if isinstance(c, TileCapacity) and c.storage.name == "weight_spad")
        return Conflict(own, irreducible=True)

    monkeypatch.setattr(explanation, "find_conflict", blames_capacities)
    mapspace = mapspace_of(spad(8, ", min_utilization: 0.9"))
    list(find_conflicts(Feasibility(mapspace), constraints_of(mapspace), most=2))
    first, second = asked
    assert (first.count("Utilization"), first.count("TileCapacity")) == (1, 3)
    assert (second.count("Utilization"), second.count("TileCapacity")) == (0, 2)


def test_the_arithmetic_is_that_of_the_conflict_alone():
    (reason,) = diagnose(mapspace_of(spad(8), ALL_IN_PE)).reasons
    (found,) = reason.shortfalls
    assert (found.demand, found.limit, found.unit, found.gap) == (12, 8, "words", 4)
    assert reason.text == "Weights needs at least 12 words, `weight_spad` holds 8: 4 too few"
    assert all(statement.sources for statement in reason.constraints)


def test_conflicts_that_share_nothing_are_reported_each_with_its_levers():
    buffer = "keep: [Inputs, Outputs]}"
    loops = (buffer, f"{buffer}\n        temporal: {{factors: [R=3, C=4]}}")
    reasons = diagnose(mapspace_of(loops, factors("C=2, R=3"))).reasons
    assert [reason.text for reason in reasons] == [
        "the factors of C that these lines allow cannot multiply to its bound 4",
        "the factors of R that these lines allow cannot multiply to its bound 3",
    ]
    assert all(len(reason.levers) == 2 for reason in reasons)


def test_a_larger_mesh_raises_a_least_parallelism_with_it():
    # A least parallelism is a share of all units, so more columns alone do not help.
    found = diagnose(mapspace_of(factors("M<=2, C<=2, R=1"), share(1)))
    levers = [lever.text for reason in found.reasons for lever in reason.levers]
    assert not any("mesh" in text for text in levers)


def test_an_axis_that_is_not_written_is_not_blamed_but_counted():
    edits = [
        ("spatial: {meshX: 4, meshY: 3}", "spatial: {meshX: 4}"),
        pe("factors: [P=1, C=4], permutation: [M, C, R], split: 1"),
    ]
    (reason,) = diagnose(mapspace_of(*edits)).reasons
    assert reason.text == "`PE` needs at least 4 children along Y, but there is 1: 3 too few"
    texts = [statement.text for statement in reason.constraints]
    assert "C=4 in the spatial loops of `PE`" in texts
    assert not any("wide" in text for text in texts)
    assert reason.irreducible


def test_a_share_is_not_said_to_need_more_of_what_it_is_a_share_of():
    (reason,) = diagnose(mapspace_of(factors("C<=2, R=1"), share(1))).reasons
    assert any("meshX" in statement.text for statement in reason.constraints)
    assert [found.unit for found in reason.shortfalls] == ["units"]
    edits = [spad(14, ", min_utilization: 0.9"), (PE_FACTORS, "spatial: {factors: [P=1, M=1, C=1, R=1]}")]
    (reason,) = diagnose(mapspace_of(*edits)).reasons
    assert "`weight_spad` holds 14 words" in [statement.text for statement in reason.constraints]
    assert [found.text for found in reason.shortfalls] == [
        "the tiles in `weight_spad` total at most 12 words, min_utilization requires 13: 1 too few"
    ]


def test_no_value_is_proposed_for_a_dimension_that_would_shift_an_order():
    edit = pe("factors: [P=1, R=1, C<=1, M<=1], permutation: [C, M], split: 1")
    found = diagnose(mapspace_of(edit, share(0.2)))
    (reason,) = found.reasons
    assert [lever.needed for lever in reason.levers if "R=1" in lever.text] == [None]
    assert any(lever.needed == 4 for lever in reason.levers if "C<=" in lever.text)


def test_shares_are_rounded_down():
    text = change_text(Parallelism(Fraction(11), None), 5, mapspace_of())
    assert text == "5 of 12 compute units (0.4166) instead of 11"


def test_a_stopped_search_for_a_value_says_that_it_is_not_exact():
    mapspace = copies((2**10,), 4, 1, tile_rules=(FactorRule("D0", "=", 1),))
    constraints = constraints_of(mapspace)
    (capacity,) = (c for c in constraints if isinstance(c, TileCapacity))
    budget = iter([False, False])
    feasibility = Feasibility(mapspace, stop=lambda: next(budget, True))
    found = nearest_sufficient(feasibility, [c for c in constraints if c != capacity], capacity)
    assert (found.value, found.exact) == (2**11, False)


def test_a_dear_change_leaves_time_for_the_others(clock, monkeypatch):
    def endless(feasibility, rest, changed):
        while feasibility.decide(rest).verdict is not Verdict.UNKNOWN:
            clock.now_s += 0.1
        yield from ()

    mapspace = mapspace_of(factors("C<=2, R=1"), share(1))
    with_all = [lever.text for lever in diagnose(mapspace).reasons[0].levers]
    monkeypatch.setattr(levers_module, "_resized_mesh", endless)
    (reason,) = diagnose(mapspace, time_limit_s=1.5).reasons
    assert [lever.text for lever in reason.levers] == [text for text in with_all if "mesh" not in text]
    assert "6 of 12 compute units (0.5) instead of 12" in with_all
    assert (reason.irreducible, reason.complete) == (True, False)


def test_no_conflict_takes_the_time_of_the_next_one(clock, monkeypatch):
    shares = []

    def listen(feasibility, constraints, blamed, clock):
        shares.append(clock.left_s)
        return levers(feasibility, constraints, blamed, clock)

    monkeypatch.setattr("solver.explain.explanation.levers", listen)
    buffer = "keep: [Inputs, Outputs]}"
    loops = (buffer, f"{buffer}\n        temporal: {{factors: [R=3, C=4]}}")
    reasons = diagnose(mapspace_of(loops, factors("C=2, R=3")), time_limit_s=90).reasons
    assert [reason.complete for reason in reasons] == [True, True]
    assert shares == [45, 90]


def test_a_share_of_a_clock_ends_with_it():
    stopped = []
    clock = Clock(60, lambda: bool(stopped))
    share = clock.share(3)
    assert 19 < share.left_s <= 20
    assert Clock(None).share(3).left_s is None
    assert not share.stop()
    stopped.append(True)
    assert share.stop()
    assert Clock(0).share(2).stop()


def test_a_smaller_mesh_is_proposed_where_a_share_of_it_is_to_be_in_use():
    # M=3 and C=2 fill 3 x 2 children, which are all units if there are no more columns than two.
    edits = [factors("C<=2, R=1"), share(1)]
    (reason,) = diagnose(mapspace_of(*edits)).reasons
    (lever,) = (lever for lever in reason.levers if "meshX" in lever.text)
    assert (lever.text, lever.current, lever.needed) == ("meshX 2 instead of 4 of `PE`", 4, 2)
    verdicts = {
        size: diagnose(mapspace_of(*edits, ("meshX: 4", f"meshX: {size}"))).verdict for size in range(1, 9)
    }
    assert [size for size, verdict in verdicts.items() if verdict is Verdict.FEASIBLE] == [1, 2]


@pytest.mark.parametrize("rule", ["M=3", "M<=1"])
def test_no_value_is_proposed_for_a_dimension_that_would_leave_or_enter_an_order(rule):
    # With M=1, M takes no place any more, and a split of 3 would lie beyond the two that do.
    edits = {
        "M=3": [pe("factors: [P=1, M=3, C=4], split: 3")],
        "M<=1": [pe("factors: [P=1, R=1, C<=1, M<=1], permutation: [C], split: 1"), share(0.2)],
    }[rule]
    (reason,) = diagnose(mapspace_of(*edits)).reasons
    assert [lever.needed for lever in reason.levers if rule in lever.text] == [None]


@pytest.mark.parametrize(
    ("given", "lever"),
    [
        ("depth: 2", "`weight_spad` with 10 words instead of 4 (depth 5)"),
        ("entries: 5", "`weight_spad` with 9 words instead of 5"),
        ("sizeKB: 0.0048828125", "`weight_spad` with 9 words instead of 5"),
    ],
)
def test_a_capacity_grows_by_what_it_is_given_in(given, lever):
    wide = SPAD.replace("depth: 8, width: 8", f"{given}, width: 16")
    tiles = [  # 6 weights and 3 inputs
        ("temporal: {factors: [P=1]}", "temporal: {factors: [P=1, M=2, C=1, R=3]}"),
        ("dataspace: {keep: [Weights]}", "dataspace: {keep: [Weights, Inputs]}"),
        ("- !Nothing\n          constraints:\n            dataspace: {keep: [Inputs]}", "- !Nothing {}"),
    ]
    (reason,) = diagnose(mapspace_of((SPAD, wide), *tiles)).reasons
    assert lever in [each.text for each in reason.levers]


def test_a_rule_that_keeps_a_dimension_out_of_a_split_is_part_of_the_conflict():
    # Were it not for M=1, M could take the second place along X, and P=4 and C=4 would not lie there both.
    edits = [
        ("spatial: {meshX: 4, meshY: 3}", "spatial: {meshX: 4, meshY: 4}"),
        pe("factors: [R=1, M=1], split: 2"),
        share(0.9),
    ]
    (reason,) = diagnose(mapspace_of(*edits)).reasons
    assert "M=1 in the spatial loops of `PE`" in [statement.text for statement in reason.constraints]
    free = [edits[0], pe("factors: [R=1], split: 2"), share(0.9)]
    assert diagnose(mapspace_of(*free)).verdict is Verdict.FEASIBLE


def test_the_conflict_is_named_however_short_the_time_limit_is(clock, monkeypatch):
    mapspace, decide = mapspace_of(factors("M=3, C=4, R=3")), Feasibility.decide
    at_once = diagnose(mapspace)

    def slow(self, asked):
        answer = decide(self, asked)
        clock.now_s = 0.3
        return answer

    monkeypatch.setattr(Feasibility, "decide", slow)
    assert diagnose(mapspace, time_limit_s=0.2) == at_once
