"""Assignments as text, JSON and DOT."""

import json
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.formats.assignment import load_assignment
from solver.assignment import assign
from solver.assignment.array_search import choose_array
from solver.report.assignment import assignment_document, exact_text
from solver.report.document import json_text
from solver.report.layered_graph import LayeredGraph, dot_text
from tests.conftest import REPOSITORY
from tests.solver.assignment.networks import CONFLICT, TINY

DOCS = (REPOSITORY / "docs" / "assignment.md").read_text(encoding="utf-8")
INCEPTION = load_assignment([REPOSITORY / "specs" / "networks" / "inception_3a.yaml"])


def documents():
    array = choose_array(INCEPTION.shaped, INCEPTION.hardware.model, 100)
    yield assignment_document(array.result, array)
    for path in (TINY, CONFLICT):
        yield assignment_document(assign(load_assignment([path]).network), None)


def test_keys_of_the_document_are_documented():
    part = DOCS.split("## The JSON document")[1].split("\n## ")[0]
    documented = set(re.findall(r"^\| `([^`]+)` \|", part, flags=re.MULTILINE))
    first, *others = documents()
    expected = {"version", *first}
    for name in ("layers", "edges", "policies"):
        expected |= {f"{name}[].{key}" for key in first[name][0]}
    (alternative, *_) = [layer["alternative"] for layer in first["layers"] if layer["alternative"]]
    expected |= {f"layers[].alternative.{key}" for key in alternative}
    for name in ("runner_up", "decomposition", "array"):
        expected |= {f"{name}.{key}" for key in first[name]}
    limited = replace(load_assignment([TINY]).network, usage_limit=3)
    expected |= {f"usage.{key}" for key in assignment_document(assign(limited))["usage"]}
    assert documented == expected
    assert all(set(other) == set(first) for other in others)
    assert all(json.loads(json_text(own)) for own in (first, *others))


@given(st.fractions(min_value=0, max_value=10**9))
def test_exact_text_is_exact(number):
    assert Fraction(exact_text(number)) == number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Fraction(0), "0"),
        (Fraction("0.156556"), "0.156556"),
        (Fraction(1, 3), "1/3"),
        (Fraction(1, 8), "0.125"),
        (Fraction(120), "120"),
    ],
)
def test_exact_text(number, text):
    assert exact_text(number) == text


def test_dot_leaves_out_what_is_forbidden_and_marks_the_choice():
    network = load_assignment([TINY]).network
    plain, marked = dot_text(LayeredGraph(network)), dot_text(LayeredGraph(network, (1, 0)))
    assert "l0m0 -> l1m1" in plain
    assert "l0m1 -> l1m1" not in plain
    assert "bold" not in plain
    bold = [line.split(" [")[0].strip() for line in marked.splitlines() if "bold" in line]
    assert bold == ["l0m1", "l1m0", "l0m1 -> l1m0", "source -> l0m1", "l1m0 -> sink"]


def test_names_are_quoted_in_dot(tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text('network: {layers: [{name: "a\\"b\\\\", methods: {"x\\ny": 1}}]}')
    assert r'label="a\"b\\ x\ny\n1 units"' in dot_text(LayeredGraph(load_assignment([path]).network))
