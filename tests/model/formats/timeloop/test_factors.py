import pytest

from model.text.source import SpecError
from tests.model.formats.timeloop.support import (
    BUFFER,
    DRAM,
    MAC,
    PROBLEM,
    architecture,
    assert_fails,
    constrained,
    failure,
    load,
    spec,
)


def text_with(temporal: str, problem: str = PROBLEM) -> str:
    node = constrained(BUFFER, f"{{temporal: {temporal}}}")
    return spec(problem=problem, arch=architecture(DRAM, node, MAC))


def rules(temporal: str, problem: str = PROBLEM) -> set[str]:
    found = load(text_with(temporal, problem)).mapspace.temporal[1].factors
    return {f"{rule.dim}{rule.relation}{rule.value}" for rule in found}


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ("[P=4, R<=3, 'C>=2']", {"P=4", "R<=3", "C>=2"}),
        ("{P: 4, R: <=3, C: '>=2'}", {"P=4", "R<=3", "C>=2"}),
        ("P=4 R<=3", {"P=4", "R<=3"}),
        ("'P=4, R<=3'", {"P=4", "R<=3"}),
        ("'P=4,R3'", {"P=4", "R=3"}),
        ("P4 R3", {"P=4", "R=3"}),
        ("P = 4", {"P=4"}),
        ("[P==4]", {"P=4"}),
        ("[P4]", {"P=4"}),
        ("[P=0, R=0]", {"P=16", "R=3"}),
        ("[P=depth / 64]", {"P=4"}),
        ("{P: 2*2}", {"P=4"}),
        ("[('P=' + str(depth // 64)), R=3]", {"P=4", "R=3"}),
        ("[P<=100]", {"P<=100"}),
        ("[P=4, P=4]", {"P=4"}),
        ("['P>=2', P<=8]", {"P>=2", "P<=8"}),
        ("[P=-1, R=3]", {"R=3"}),
        ("[]", set()),
        ("''", set()),
    ],
)
def test_forms(factors, expected):
    assert rules(f"{{factors: {factors}}}") == expected


def test_dimension_names_of_several_letters():
    text = PROBLEM
    for short, long in (("R", "N0"), ("P", "N01")):
        text = text.replace(f"[{short}", f"[{long}").replace(f"{{{short}:", f"{{{long}:")
        text = text.replace(f" {short}", f" {long}")
    assert rules("{factors: [N0=3, N01=4]}", text) == {"N0=3", "N01=4"}
    assert rules("{factors: C4 N0=3}", text) == {"C=4", "N0=3"}
    assert "can be a factor of `N0` and `N01`" in failure(text_with("{factors: N012}", text)).message


@pytest.mark.parametrize(
    ("factors", "message", "mark"),
    [
        ("[P=5]", "5 does not divide the bound P = 16", "P=5"),
        ("[P=32]", "exceeds the bound P = 16", "P=32"),
        ("['P>=17']", "exceeds the bound P = 16", "'P>=17'"),
        ("[P<4]", "strict bounds on factors are not supported", "P<4"),
        ("['P>4']", "strict bounds on factors are not supported", "'P>4'"),
        ("['P=4,3']", "`P=4,3`: constraints fix no remainders", "'P=4,3'"),
        ("'P=4,3'", "`P=4,3`: constraints fix no remainders", "'P=4,3'"),
        ("[P=4, 3, C=2]", "`P=4,3`: constraints fix no remainders", "P=4"),
        ("'P=4,0'", "`P=4,0`: a remainder is at least 1", "'P=4,0'"),
        ("'P=4,3,2'", "`2` names no dimension", "'P=4,3,2'"),
        ("[3]", "`3` names no dimension", "3"),
        ("[p=4]", "unknown dimension `p`", "p=4"),
        ("{p: 4}", "unknown dimension `p`", "4"),
        ("Z4", "unknown dimension `Z`", "Z4"),
        ("[P]", "`P` is not a factor", "P"),
        ("[P=]", "`P=` is not a factor", "P="),
        ("[P=-2]", "a factor is at least 1", "P=-2"),
        ("['P<=-1']", "a factor is at least 1", "'P<=-1'"),
        ("[P=1.5]", "must be a whole number", "P=1.5"),
        ("[(2 + 2)]", "`(2 + 2)` is 4, not the text of a factor", "(2 + 2)"),
        ("[('Z=' + str(2))]", "unknown dimension `Z`", "('Z=' + str(2))"),
        ("[[P, [4]]]", "a factor must be text, but is a list", "[P, [4]]"),
        ("[[]]", "a factor must be text, but is a list", "[]"),
        ("[P!=4]", "`P!` is not a dimension", "P!=4"),
        ("'P=4; C=2'", "`P=4;` is not a factor", "'P=4; C=2'"),
        ("[P=2, P=4]", "no divisor of P = 16 satisfies `P=2` and `P=4`", "P=4"),
        ("['P>=8', P<=4]", "no divisor of P = 16 satisfies `P>=8` and `P<=4`", "P<=4"),
        ("['P>=9', P<=15]", "no divisor of P = 16", "P<=15"),
    ],
)
def test_mistakes_are_marked(factors, message, mark):
    assert_fails(text_with(f"{{factors: {factors}}}"), message, mark, factors="perfect")


def test_the_message_names_the_place_of_the_bound():
    assert failure(text_with("{factors: [P=5]}"), factors="perfect").render() == (
        "error: `P=5`: 5 does not divide the bound P = 16\n"
        "  --> spec.yaml:26:40\n"
        "   |\n"
        "26 |     constraints: {temporal: {factors: [P=5]}}\n"
        "   |                                        ^^^\n"
        "note: P is 16 here\n"
        "  --> spec.yaml:12:23\n"
        "   |\n"
        "12 |   instance: {R: 3, P: 16, C: 4, K: 8}\n"
        "   |                       ^^\n"
        "help: `--factors any` allows factors that leave a remainder"
    )


@pytest.mark.parametrize(
    ("temporal", "expected"),
    [
        ("{factors_only: [P=4]}", {"P=4", "R=1", "C=1", "K=1"}),
        ("{factors: [C=2], factors_only: [P=4]}", {"P=4", "R=1", "C=2", "K=1"}),
        ("{factors_only: []}", {"P=1", "R=1", "C=1", "K=1"}),
        ("{factors_only: [P=-1, C=-1]}", {"R=1", "K=1"}),
        ("{factors: [P=-1], default_max_factor: 4}", {"P<=4", "R<=4", "C<=4", "K<=4"}),
        ("{factors_only: }", set()),
        ("{factors: [[P, '<=', 4], ['C=', depth / 128]]}", {"P<=4", "C=2"}),
        ("{maximize_dims: [], maximize_dims_capacity: 4}", set()),
        ("{no_iteration_over_dataspaces: [Weights]}", {"R=1", "C=1", "K=1"}),
        ("{no_iteration_over_dataspaces: []}", set()),
        ("{must_iterate_over_dataspaces: [Weights]}", {"P=1"}),
        ("{must_iterate_over_dataspaces: ['*']}", set()),
        ("{default_max_factor: 4, factors: [P=8]}", {"P=8", "R<=4", "C<=4", "K<=4"}),
        ("{default_min_factor: 2, factors: [P<=8]}", {"P<=8", "R>=2", "C>=2", "K>=2", "P>=2"}),
        ("{default_min_factor: 4, factors: [P=8]}", {"P=8", "R>=3", "C>=4", "K>=4"}),
    ],
)
def test_macros(temporal, expected):
    assert rules(temporal) == expected


@pytest.mark.parametrize(
    ("temporal", "message", "mark"),
    [
        ("{factors: [C=2], no_iteration_over_dataspaces: [Weights]}", "`C=2` and `C=1`", None),
        ("{factors: [P=2], must_iterate_over_dataspaces: [Weights]}", "`P=2` and `P=1`", None),
        ("{no_iteration_over_dataspaces: [Weight]}", "unknown dataspace `Weight`", "Weight"),
        ("{no_reuse: [Weights, Weights]}", "listed twice", "Weights"),
        ("{remainders: 2}", "loops have no remainders here", "2"),
        ("{factor: [P=2]}", "unknown key `factor`", "factor"),
        ("{split: 2}", "unknown key `split`", "split"),
        ("{default_max_factor: 0}", "must be at least 1", "0"),
        ("{rmw_first_update: [Inputs]}", "it is only read", "Inputs"),
        ("[P=2]", "`P=2` is not an expression", "="),
    ],
)
def test_wrong_macros_are_marked(temporal, message, mark):
    assert_fails(text_with(temporal), message, mark, factors="perfect")


def test_flags_go_to_the_level():
    text = text_with("{no_reuse: [Weights], rmw_first_update: [Outputs]}")
    level = load(text).mapspace.architecture.levels[1]
    assert level.no_temporal_reuse == {"Weights"}
    assert level.rmw_first_update == {"Outputs"}
    for every in ("['*']", "'*'"):
        level = load(text_with(f"{{rmw_first_update: {every}}}")).mapspace.architecture.levels[1]
        assert level.rmw_first_update == {"Outputs"}
    text = text_with("{no_temporal_reuse: Weights}")
    assert load(text).mapspace.architecture.levels[1].no_temporal_reuse == {"Weights"}


@pytest.mark.parametrize(
    ("permutation", "inner", "outer"),
    [
        ("[R, P]", "RP", ""),
        ("RP", "RP", ""),
        ("R P", "RP", ""),
        ("'R,P'", "RP", ""),
        ("RP_CK", "RP", "CK"),
        ("_CK", "", "CK"),
        ("[R, _, C]", "R", "C"),
        ("R", "R", ""),
        ("[]", "", ""),
    ],
)
def test_permutations(permutation, inner, outer):
    found = load(text_with(f"{{permutation: {permutation}}}")).mapspace.temporal[1]
    assert (found.inner, found.outer) == (tuple(inner), tuple(outer))


@pytest.mark.parametrize(
    ("permutation", "message", "mark"),
    [
        ("[R, R]", "is listed twice", "R"),
        ("RPR", "is listed twice", "RPR"),
        ("[R, r]", "unknown dimension `r`", "r"),
        ("RPx", "unknown dimension `x`", "RPx"),
        ("XYZ", "unknown dimension `X`", "XYZ"),
        ("[RP]", "unknown dimension `RP`", "RP"),
        ("{R: 1}", "must be a single value", "{R: 1}"),
    ],
)
def test_wrong_permutations_are_marked(permutation, message, mark):
    assert_fails(text_with(f"{{permutation: {permutation}}}"), message, mark)


@pytest.mark.parametrize(
    ("item", "factors"), [("R=1 P=1", "R=1, P=1"), ("R1 P<=4 C2", "R1, P<=4, C2"), ("R=1,P=1", "R=1, P=1")]
)
def test_factors_without_commas_between_them(item, factors):
    error = failure(text_with(f"{{factors: ['{item}']}}"))
    assert error.hint == f"write `[{factors}]`, with a comma between the items"


def test_dimensions_that_the_problem_lacks_are_noted():
    loaded = load(text_with("{factors: [S=1, Q<=4, N=0, R=3, M=-1], permutation: [R, S, C]}"))
    assert {f"{rule.dim}{rule.value}" for rule in loaded.mapspace.temporal[1].factors} == {"R3"}
    assert loaded.mapspace.temporal[1].inner == ("R", "C")
    (note,) = map(str, loaded.notes)
    assert "the problem has no dimensions `S`, `Q`, `N` and `M`; constraints on them have no effect" in note
    assert "`M`: did you mean `K`? Some layers call the output channels `M`" in note
    near = load(text_with("{factors: [KX=1]}")).notes[0].text
    assert near.endswith("no dimension `KX`; constraints on it have no effect; `KX`: did you mean `K`?")


def test_a_loop_over_a_dimension_that_the_problem_lacks_is_an_error():
    error = failure(text_with("{factors: [M=2]}"))
    assert error.message == "unknown dimension `M`"
    assert "call the output channels `M`, this one `K`" in error.hint
    assert failure(text_with("{factors: ['S>=2']}")).message == "unknown dimension `S`"


WIDER = {"factors": "any"}


def wider_rules(temporal: str) -> set[str]:
    mapspace = load(text_with(temporal), **WIDER).mapspace
    assert mapspace.factors == "any"
    return {f"{rule.dim}{rule.relation}{rule.value}" for rule in mapspace.temporal[-1].factors}


def test_with_remainders_factors_need_not_divide():
    assert wider_rules("{factors: [P=5, 'C<=3', 'K>=7']}") == {"P=5", "C<=3", "K>=7"}


@pytest.mark.parametrize(
    ("temporal", "message"),
    [
        ("{factors: [P=17]}", "the factor exceeds the bound P = 16"),
        ("{factors: ['P>=9', 'P<=8']}", "no factor of P = 16 satisfies `P>=9` and `P<=8`"),
        ("{remainders: 15}", "`remainders: 15`: limits on remainders are not modelled"),
    ],
)
def test_with_remainders_rules_may_conflict_all_the_same(temporal, message):
    assert message in failure(text_with(temporal), **WIDER).message
    assert load(text_with("{remainders: 16}"), **WIDER).mapspace.factors == "any"


def test_the_template_says_which_factors_there_are():
    ruby, uber = (f"mapspace: {{template: {name}}}\n" for name in ("ruby", "uber"))
    assert load(text_with("{}") + ruby).mapspace.factors == "any"
    assert load(text_with("{}") + uber).mapspace.factors == "perfect"
    assert load(text_with("{}") + ruby, factors="perfect").mapspace.factors == "perfect"
    assert load(text_with("{}")).mapspace.factors == "any"


RULE = "mapspace: {rules: ['tile(buffer, C) % 2 == 0']}\n"


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        (text_with("{}"), {"counting": "timeloop"}, "the rule `timeloop` does not support remainders"),
        (text_with("{remainders: 1}"), {}, "`remainders: 1` leaves none"),
    ],
)
def test_what_does_not_know_remainders_has_perfect_factors_and_says_so(text, options, reason):
    loaded = load(text, **options)
    assert loaded.mapspace.factors == "perfect"
    assert f"factors are divisors only: {reason}" in [note.text for note in loaded.notes]
    loaded = load(text, **options, factors="perfect")
    assert not any("perfect factors" in note.text for note in loaded.notes)
    with pytest.raises(SpecError):
        load(text, **options, factors="any")


def test_rules_go_with_remainders():
    for options in ({}, {"all_rules": True}, {"refuse_unsearchable": False}):
        loaded = load(f"{text_with('{}')}{RULE}", **options)
        assert (loaded.mapspace.factors, list(loaded.notes)) == ("any", [])
