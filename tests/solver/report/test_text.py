"""Reports against golden files, and properties that hold for any mapping."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from model.architecture import Packing
from model.cost import Violation, evaluate
from model.note import Note
from model.problem import Dataspace, Term
from model.source_ref import SourceRef
from solver.report.check import joined_sources, print_check
from solver.report.document import (
    effect_document,
    evaluation_document,
    json_text,
    result_document,
    violation_document,
)
from solver.report.einsum_page import violation_text
from solver.report.figures import percent, space_text
from solver.report.mapped import nest_lines
from solver.report.network_page import brief
from solver.report.reading import as_value
from solver.result import StageCost
from solver.sensitivity import Effect, Variation, variations
from tests.solver.examples import (
    ARCHITECTURE,
    EVALUATION,
    FEASIBLE,
    INFEASIBLE,
    MAPPING,
    MAPSPACE,
    OPTIMAL,
    PROBLEM,
    UNKNOWN,
)
from tests.solver.golden import assert_golden, printed, reported

RESULTS = {"optimal": OPTIMAL, "feasible": FEASIBLE, "infeasible": INFEASIBLE, "unknown": UNKNOWN}


@pytest.mark.parametrize("name", RESULTS)
def test_report_of_a_result(name):
    assert_golden(
        f"report_{name}.txt", reported(result_document(MAPSPACE, RESULTS[name]), name == "feasible")
    )


@pytest.mark.parametrize("name", RESULTS)
def test_json_of_a_result(name):
    document = json.loads(json_text(result_document(MAPSPACE, RESULTS[name])))
    del document["version"]
    assert_golden(f"result_{name}.json", json.dumps(document, indent=1) + "\n")


def test_what_stages_took_is_a_table_of_verbose_reports():
    title = "Search stages"
    assert title not in reported(result_document(MAPSPACE, OPTIMAL), True)
    stages = (StageCost("divisors", "bounds", 1.5),)
    timed = result_document(MAPSPACE, replace(OPTIMAL, statistics=replace(OPTIMAL.statistics, stages=stages)))
    assert title not in reported(timed)
    lines = reported(timed, True).splitlines()
    row = lines[lines.index(title) + 3]
    assert row.split() == ["divisors", "bounds", "1.50", "s"]


def test_keys_of_the_json_do_not_depend_on_the_status():
    keys = {tuple(result_document(MAPSPACE, result)) for result in RESULTS.values()}
    assert len(keys) == 1


def test_report_of_an_evaluation():
    assert_golden("evaluation.txt", reported(evaluation_document(MAPSPACE, MAPPING, EVALUATION), True))


def test_evaluation_and_result_say_the_same_of_a_mapping():
    result = result_document(MAPSPACE, OPTIMAL)
    evaluation = evaluation_document(MAPSPACE, MAPPING, EVALUATION)
    for key in ("energy_pj", "cycles", "edp_pj_cycles", "utilization", "levels", "mapping"):
        assert result[key] == evaluation[key]


def test_energies_of_the_json_add_up():
    document = result_document(MAPSPACE, OPTIMAL)
    parts = [space["energy_pj"] for level in document["levels"] for space in level["dataspaces"].values()]
    leaks = [level["leak_energy_pj"] for level in document["levels"]]
    assert sum(leaks) == pytest.approx(document["leak_energy_pj"])
    assert sum(parts) + sum(leaks) + document["compute_energy_pj"] == pytest.approx(document["energy_pj"])


def test_check_prints_problem_hierarchy_and_size():
    assert_golden("check.txt", printed(print_check, MAPSPACE))


def test_areas_are_shown_with_their_sources():
    architecture = MAPSPACE.architecture
    compute = replace(architecture.compute, area_um2=250.0, area_source="ART.yaml:9")
    mapspace = replace(MAPSPACE, architecture=replace(architecture, compute=compute))
    shown = printed(print_check, mapspace)
    rows = [line.split() for line in shown[shown.index("\nArea\n") :].splitlines()]
    assert ["mac", "12", "250.00", "um2", "0.0030000", "mm2", "ART.yaml:9"] in rows
    assert ["DRAM", "1", "-", "-", "-"] in rows
    found = evaluation_document(mapspace, MAPPING, EVALUATION)["areas"]
    assert found["mac"] == {"instances": 12, "area_um2": 250.0, "source": "ART.yaml:9"}
    assert found["DRAM"] == {"instances": 1, "area_um2": None, "source": None}


def test_check_prints_every_constraint():
    names = frozenset({"Inputs", "Outputs"})
    buffer = replace(
        ARCHITECTURE.levels[1],
        min_utilization=Fraction(1, 4),
        no_temporal_reuse=names,
        rmw_first_update=frozenset({"Outputs"}),
        no_coalesce=names,
    )
    column = replace(ARCHITECTURE.fanouts[0], no_multicast=names, no_link_transfer=frozenset({"Weights"}))
    nodes = (ARCHITECTURE.nodes[0], buffer, column, *ARCHITECTURE.nodes[3:])
    architecture = replace(ARCHITECTURE, nodes=nodes)
    lines = printed(
        print_check, replace(MAPSPACE, architecture=architecture, min_parallelism=Fraction(5, 2))
    ).splitlines()
    text = " ".join(" ".join(lines).split())
    for constraint in (
        "no temporal reuse of Inputs, Outputs; rmw_first_update of Outputs; no coalescing of Inputs, Outputs",
        "at least 25.00 % full",
        "no multicast of Inputs, Outputs; no link transfer of Weights",
        "at least 3 in use",
    ):
        assert constraint in text


def test_values_of_several_sizes_show_in_every_table():
    packing = (Packing("Inputs", 8), Packing("Outputs", 1, 32, 4))
    buffer = replace(ARCHITECTURE.levels[1], packing=packing, size_words=8 * 256)
    nodes = (ARCHITECTURE.nodes[0], buffer, *ARCHITECTURE.nodes[2:])
    architecture = replace(ARCHITECTURE, nodes=nodes)
    mapspace = replace(MAPSPACE, architecture=architecture)
    found = evaluate(PROBLEM, architecture, MAPPING)
    tile = found.level("buffer").dataspace("Outputs").tile_words
    text = reported(evaluation_document(mapspace, MAPPING, found))
    assert f"{tile} x 32" in text
    assert percent(32 * tile / (8 * 256)) in text
    assert "Inputs 8, Outputs 1/4" in printed(print_check, mapspace)


def test_a_loop_nest_holds_every_loop_once():
    document = as_value(evaluation_document(MAPSPACE, MAPPING, EVALUATION))
    nest = nest_lines(document["architecture"], document["mapping"], "")
    lines = [line.strip() for line in nest]
    loops = [line for line in lines if "for " in line]
    assert loops == [
        "for M in [0:2)",
        "for P in [0:8)",
        "parallel-for C in [0:4) along X",
        "parallel-for R in [0:3) along Y",
        "for M in [0:3)",
    ]


def test_negative_coefficients_read_as_differences():
    space = Dataspace("I", ((Term("P", 2), Term("R", -1)),))
    assert space_text(space) == "I[2*P - R]"


def test_sources_are_named_once():
    assert joined_sources(()) == "-"
    assert joined_sources((("read", "given"), ("fill", "given"))) == "given"
    assert joined_sources((("read", "a"), ("fill", "b"), ("update", "b"))) == "read: a; fill, update: b"


def test_sources_in_one_file_become_a_range_of_lines():
    actions = (("read", "ERT.yaml:12"), ("fill", "ERT.yaml:9"), ("update", "ERT.yaml:9"))
    assert joined_sources(actions) == "ERT.yaml:9-12"
    assert joined_sources((("read", "ERT.yaml:12"), ("leak", "other.yaml:12"))) == (
        "read: ERT.yaml:12; leak: other.yaml:12"
    )


@pytest.mark.parametrize(
    ("violation", "text"),
    [
        (Violation("buf", "capacity", 1300, 1024), "buf: tiles take 1,300 words of 1,024"),
        (Violation("buf", "min_utilization", 3, 512), "buf: tiles take 3 words, at least 512 are required"),
        (Violation("PE", "mesh_x", 20, 14), "PE: 20 children along X, but there are 14"),
    ],
)
def test_violations_show_both_figures(violation, text):
    assert violation_text(as_value(violation_document(violation))) == text


EFFECTS = (
    Effect(Variation("buffer", "capacity", Fraction(1, 2)), Fraction(128), INFEASIBLE, None),
    Effect(Variation("buffer", "capacity", Fraction(2)), Fraction(512), OPTIMAL, Fraction(1), searched=False),
    Effect(Variation("buffer", "read_bandwidth", Fraction(1, 2)), Fraction(1, 2), FEASIBLE, Fraction(9, 8)),
    Effect(Variation("weight_spad", "capacity", Fraction(2)), Fraction(32), OPTIMAL, Fraction(99, 100)),
)


def test_report_of_other_limits():
    assert_golden("report_sensitivity.txt", reported(result_document(MAPSPACE, OPTIMAL, EFFECTS)))


@pytest.mark.parametrize(
    ("first", "later", "text"),
    [
        (Fraction(1), (Fraction(1), Fraction(1)), "unchanged"),
        (Fraction(1), (Fraction(9, 10), Fraction(1)), "-10.00 % edp"),
        (Fraction(1), (Fraction(1), Fraction(11, 10)), "+10.00 % energy"),
        (Fraction(1), (Fraction(1), None), "unchanged"),
        (Fraction(9, 8), (Fraction(1, 2), Fraction(1, 2)), "+12.50 %"),
        (None, (None, None), "-"),
    ],
)
def test_a_change_of_a_later_objective_has_its_name(first, later, text):
    ordered = replace(OPTIMAL, objectives=("latency", "edp", "energy"))
    variation = Variation("buffer", "capacity", Fraction(2))
    effect = Effect(variation, Fraction(512), ordered, first, later_ratios=later)
    shown = reported(result_document(MAPSPACE, ordered, [effect]))
    assert "Sensitivity of latency, then edp, then energy\n" in shown
    row = next(line for line in shown.splitlines() if line.startswith("buffer  capacity"))
    assert row.endswith(f"  {text}")
    assert effect_document(effect)["later_ratios"] == [None if own is None else float(own) for own in later]


def test_a_report_of_some_limits_says_how_many_are_missing():
    shown = reported(result_document(MAPSPACE, OPTIMAL, EFFECTS[:1]))
    missing = len(tuple(variations(MAPSPACE.architecture))) - 1
    assert missing > 1
    assert f"\nInterrupted: {missing} limits not examined.\n" in shown


def test_json_of_other_limits():
    document = json.loads(json_text(result_document(MAPSPACE, OPTIMAL, EFFECTS)))
    assert_golden("sensitivity.json", json.dumps(document["sensitivity"], indent=1) + "\n")
    assert result_document(MAPSPACE, OPTIMAL, ())["sensitivity"] == []
    assert result_document(MAPSPACE, OPTIMAL)["sensitivity"] is None


PLACE = SourceRef("a.yaml", 3, 5)


def test_notes_on_one_place_that_differ_in_names_and_figures():
    comes, leaves = "maximize_dims of `{}` gives {}", "the permutation leaves out {}; {} of them"
    notes = [
        Note(comes, ("lane", "k1=32"), PLACE),
        Note(comes, ("lane", "k2=16, m2=4"), PLACE),
        Note(leaves, ("`n` and `p1`", 3), PLACE),
        Note(comes, ("lane", "k3=1"), PLACE),
        Note(leaves, ("`n`, `p2` and `q2`", 10), PLACE),
    ]
    assert brief(list(map(str, notes))) == [
        "a.yaml:3:5: maximize_dims of `lane` gives k1=32 (and 2 similar notes)",
        "a.yaml:3:5: the permutation leaves out `n` and `p1`; 3 of them (and 1 similar note)",
    ]


def test_other_notes_stay():
    nothing = "nothing reads `{}` of `lane`"
    notes = [
        Note(nothing, ("depth",), PLACE),
        Note(nothing, ("depth",), SourceRef("b.yaml", 3, 5)),
        Note("`{}`: padded", ("conv1",)),
        Note("`{}`: padded", ("conv2",)),
        Note("an empty set is {}"),
    ]
    assert brief(list(map(str, notes))) == [str(note) for note in notes]
    assert [note.text for note in notes[2:]] == ["`conv1`: padded", "`conv2`: padded", "an empty set is {}"]
