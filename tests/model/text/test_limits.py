"""Every limit refuses input that exceeds it, and can be changed."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from model.formats.timeloop import FileOptions, LoadOptions, load_timeloop
from model.text.limits import Limits
from model.text.source import SpecError
from tests.model.formats.timeloop.support import DRAM, MAC, SPAD, architecture, constrained, spec

Write = Callable[..., Path]

RULES = spec(arch=architecture(DRAM, constrained(SPAD, "{temporal: {factors: [K<=4, K<=4, K<=2]}}"), MAC))
INCLUDING = "ignore: !include a.yaml\n" + spec()

CASES = {
    "file_bytes": (200, spec(), "larger than 200 bytes"),
    "total_bytes": (500, spec("ignore: [" + "a, " * 200 + "]\n"), "hold more than 500 bytes in total"),
    "nodes": (60, spec(), "more than 60 values"),
    "depth": (4, spec(), "nested more than 4 deep"),
    "merge_sources": (2, "ignore: {<<: [{a: 1}, {b: 1}, {c: 1}]}\n", "at most 2 are merged"),
    "integer_digits": (5, "ignore: 123456\n", "at most 5 are read"),
    "scalar_characters": (8, "ignore: 'words and words'\n", "at most 8 are read"),
    "includes": (1, "ignore: [!include a.yaml, !include a.yaml]\n", "more than 1 files are included"),
    "include_depth": (1, "ignore: !include b.yaml\n", "nested more than 1 deep"),
    "rendered_characters": (10, "ignore: {{ 'word' }} {{ 'another' }}", "render to more than 10 characters"),
    "template_memory": (2**20, "ignore: {{ 'x' | center(100000000) | length }}", "more than 1 MiB of memory"),
    "seconds": (0.0, "ignore: {{ 1 }}", "take longer than 0 s"),
    "dimensions": (2, spec(), "at most 2 are read"),
    "components": (2, spec(), "at most 2 are read"),
    "attributes": (2, spec(), "at most 2 are read"),
    "rules": (2, RULES, "3 rules on K at `spad`; at most 2 are read"),
    "points": (10, spec(), "at most 10 are read"),
}


@pytest.fixture(autouse=True)
def included(write: Write) -> None:
    write("a.yaml", "a: 1\n")
    write("b.yaml", "b: !include a.yaml\n")


def test_every_limit_has_a_case():
    assert {field.name for field in fields(Limits)} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_limit_refuses_what_exceeds_it(write: Write, name: str):
    most, text, message = CASES[name]
    paths = [write("spec.yaml", text), write("more.yaml", "ignored: [" + "a, " * 20 + "]\n")]
    with pytest.raises(SpecError) as caught:
        load_timeloop(paths, options=LoadOptions(files=FileOptions(limits=Limits(**{name: most}))))
    assert message in caught.value.render()


@pytest.mark.parametrize("text", [spec(), RULES, INCLUDING])
def test_the_defaults_let_specs_pass(write: Write, text: str):
    assert load_timeloop([write("spec.yaml", text)]).mapspace.problem.dims
