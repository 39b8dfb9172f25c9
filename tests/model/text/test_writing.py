"""Nodes as YAML text: it parses to the same nodes, stays small, and is not a template."""

import textwrap

import pytest
import yaml

from model.text.composer import compose
from model.text.limits import Limits
from model.text.reader import is_template, read_files
from model.text.source import Document, MappingNode, SpecError, to_plain
from model.text.writing import spec_text
from tests.conftest import REPOSITORY

SPECS = sorted((REPOSITORY / "specs").rglob("*.yaml"))


def read(text: str) -> MappingNode:
    node = compose(Document.of("spec.yaml", textwrap.dedent(text)), Limits())
    assert isinstance(node, MappingNode)
    return node


def test_shipped_specs_read_as_before():
    for path in SPECS:
        node = read_files([path])
        assert read(spec_text(node)) == node, path


@pytest.mark.parametrize(
    "value",
    [
        "",
        "~",
        "0.4",
        "0x1F",
        "1e-9",
        ".inf",
        "yes",
        "'yes'",
        '"LPDDR4"',
        "45nm",
        "a * (b + 1), c",
        "[a, 'b, c', 1]",
        "x[0]",
        "'('",
        "C<=4",
        "---x",
        "a:b",
        "x#y",
        "'- a'",
        "!!float 1",
        "!!str 1",
        "!!int '8'",
        "[]",
        "{}",
        "{'<<': 1, '': 2, ~: 3}",
        "[[[C]], [[R, Dilation], [P, Stride]], [[], {}]]",
        "[!Component {name: a}, !Nothing {}, !Parallel {nodes: [!Container {name: b}]}]",
        '"a\\nb"',
        '" a\\n  b \\n\\n"',
        '"a\\tb"',
        '"\\u2028\\x85\\a\\u00a0"',
        "é😀",
        "{? " + "k" * 500 + " : 1}",
        "'" + "word " * 1000 + "'",
        "word " * 1000 + "word",
    ],
)
def test_values_read_as_before(value):
    node = read(f"a: {value}")
    assert read(spec_text(node)) == node


def test_blocks_of_lines_read_as_text():
    node = read("a: |\n  first\n   second\nb: >-\n  one\n  two\n")
    text = spec_text(node)
    assert text == "a: \"first\\n second\\n\"\nb: 'one two'\n"
    assert read(text) == node


def test_a_dash_begins_no_list():
    node = read("a: [-, x, '" + "y" * 80 + "']")
    assert to_plain(read(spec_text(node))) == to_plain(node)


def test_a_plain_value_over_several_lines_stays_plain():
    text = spec_text(read("a: (1 +\n\n  2)\nb: 3 -\n  4\n"))
    assert text == "a: (1 + 2)\nb: 3 - 4\n"


def test_short_lists_and_mappings_stand_on_one_line():
    text = "a: [1, 2]\nb:\n- {name: x, keep: [Weights]}\n- !Container\n  name: y\n"
    assert spec_text(read(text)) == text


def test_merge_keys_are_carried_out():
    text = spec_text(read("ignore: &base {a: 1, b: 2}\nc: {<<: *base, b: 3}\n"))
    assert text == "ignore: {a: 1, b: 2}\nc: {b: 3, a: 1}\n"


def test_what_aliases_share_is_written_once():
    shared = "[" + ", ".join(["'" + "x" * 9_000 + "'"] * 3) + "]"
    node = read(
        f"a0: &a0 {shared}\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 12))
    )
    text = spec_text(node)
    assert len(text) < 30_000
    assert read(text) == node


def test_keys_that_are_merged_many_times_reach_a_limit():
    node = read("a: &a {" + "k" * 50 + ": 1}\n" + "".join(f"b{n}: {{<<: *a}}\n" for n in range(10)))
    assert spec_text(node)
    with pytest.raises(SpecError, match="more than 400 characters"):
        spec_text(node, most_characters=400)


@pytest.mark.parametrize("mark", ["{{", "{%", "{#"])
def test_the_text_is_no_template(mark, tmp_path):
    node = read(f"a: ['{mark} x']")
    with pytest.raises(SpecError, match="would make the text a template") as caught:
        spec_text(node)
    assert (caught.value.span.line, caught.value.span.column) == (1, 5)
    nested = spec_text(read("{a: {b: {c: {d: 1}}}}"))
    assert not is_template(tmp_path / "a.yaml", nested)


def test_other_readers_see_the_same():
    text = "a: [1, 0.5, x, null]\nb: {c: 'no', d: &e [true, 2], f: *e}\n"
    assert yaml.safe_load(spec_text(read(text))) == yaml.safe_load(text)
