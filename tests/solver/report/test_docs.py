"""The documentation lists the keys of the JSON documents, all of them and no others."""

import re
from dataclasses import replace
from fractions import Fraction
from itertools import chain

from model.cost import Violation, evaluate_in
from solver.report.document import evaluation_document, result_document
from solver.sensitivity import Effect, Variation
from tests.conftest import REPOSITORY
from tests.solver.examples import EVALUATION, INFEASIBLE, MAPPING, MAPSPACE, OPTIMAL

TEXT = (REPOSITORY / "docs" / "json.md").read_text(encoding="utf-8")
MAP_PART, EVALUATE_PART = TEXT.split("## `evaluate`")


def first_column(text):
    return re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE)


def test_keys_of_a_result_are_documented():
    document = result_document(MAPSPACE, OPTIMAL)
    level = document["levels"][0]
    space = next(iter(level["dataspaces"].values()))
    expected = [
        "version",
        *document,
        *level,
        *(f"dataspaces.NAME.{key}" for key in space),
        *document["statistics"],
    ]
    (reason,) = result_document(MAPSPACE, INFEASIBLE)["reasons"]
    expected += [*reason, "hardware_order"]
    assert sorted(first_column(MAP_PART)) == sorted(expected)


def test_keys_of_a_variation_are_documented():
    effect = Effect(Variation("buffer", "capacity", Fraction(2)), Fraction(512), OPTIMAL, Fraction(1))
    for key in result_document(MAPSPACE, OPTIMAL, [effect])["sensitivity"][0]:
        assert f"`{key}`" in MAP_PART


def test_keys_of_a_mapping_and_of_its_limits_are_documented():
    document = result_document(MAPSPACE, OPTIMAL)
    assert {target["type"] for target in document["mapping"]} == {"dataspace", "temporal", "spatial"}
    sources, slack = document["energy_sources"], document["levels"][1]["slack"]
    keys = [*chain(*document["mapping"], *sources.values(), *slack.values()), *slack]
    assert [key for key in keys if f"`{key}`" not in MAP_PART] == []


def test_keys_of_an_evaluation_are_documented():
    broken = replace(EVALUATION, violations=(Violation("buffer", "capacity", 8, 4),))
    ruled = MAPSPACE.where("cycles < 1")
    broken = replace(broken, broken_rules=evaluate_in(ruled, MAPPING).broken_rules)
    document = evaluation_document(MAPSPACE, MAPPING, broken)
    for key in (*document, *document["violations"][0], *document["broken_rules"][0]):
        assert f"`{key}`" in EVALUATE_PART
