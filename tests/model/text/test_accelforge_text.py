"""What AccelForge's files use besides Timeloop's: statements, functions and tags of the text layers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from model.text.reader import read_files
from model.text.source import MappingNode, SpecError, to_plain

Plain = Callable[..., object]
Failure = Callable[..., SpecError]
Write = Callable[..., Path]


def test_an_assertion_that_holds_prints_nothing(plain: Plain):
    assert plain('{% assert 2 < 3, "never" %}\na: {{max(1, 2)}}\n') == {"a": 2}


def test_an_assertion_that_fails_shows_its_message_and_line(failure: Failure):
    error = failure('a: 1\n{% set N = 3 %}\n{% assert N <= 2, "too many: " ~ N %}\n')
    assert "too many: 3" in error.message
    assert error.span is not None
    assert error.span.line == 3


def test_an_assertion_without_a_message(failure: Failure):
    assert "assertion" in failure("{% assert false %}\na: 1\n").message


def test_functions_of_expressions_in_templates(plain: Plain):
    assert plain("a: {{ceil(7 / 2)}}\nb: {{min(3, 4)}}\nc: {{len([1, 2])}}\n") == {"a": 4, "b": 3, "c": 2}


def test_function_errors_name_the_line(failure: Failure):
    error = failure("a: 1\nb: {{max([])}}\n")
    assert error.span is not None
    assert error.span.line == 2


def test_include_passes_variables_on(write: Write):
    write("part.yaml", "inner: {a: {{A}}, b: {{B | default(0)}}}\n")
    top = write(
        "top.yaml", '{% set B = 5 %}\nx: {{include("part.yaml", "inner", inherit_parse_data=False, A=1)}}\n'
    )
    assert to_plain(read_files([top])) == {"x": {"a": 1, "b": 0}}
    top = write("top.yaml", '{% set B = 5 %}\nx: {{include("part.yaml", "inner", A=2)}}\n')
    assert to_plain(read_files([top])) == {"x": {"a": 2, "b": 5}}


def test_setenv_serves_paths_and_nothing_else(write: Write, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PART", "nowhere")
    write("sub/part.yaml", "a: 1\n")
    top = write("top.yaml", '{{setenv("PART", "sub")}}\nx: {{include("$PART/part.yaml")}}\n')
    assert to_plain(read_files([top])) == {"x": {"a": 1}}
    top = write("top.yaml", 'x: {{include("$PART/part.yaml")}}\n')
    with pytest.raises(SpecError, match="no file"):
        read_files([top])


def test_find_paths(write: Write):
    write("sub/b.yaml", "a: 1\n")
    write("sub/a.yaml", "a: 1\n")
    top = write(
        "top.yaml", 'x: [{% for p in find_paths("sub/*.yaml") %}"{{p.split("/") | last}}", {% endfor %}]\n'
    )
    assert to_plain(read_files([top])) == {"x": ["a.yaml", "b.yaml"]}


def test_nomerge_keeps_a_value_from_being_merged(plain: Plain):
    text = """
base: &base {a: {x: 1, y: 2}, b: [1], c: {z: 3}}
own:
  <<<: *base
  a: !nomerge {x: 5}
  b: !nomerge [2]
"""
    assert plain(text)["own"] == {"a": {"x": 5}, "b": [2], "c": {"z": 3}}


def test_nomerge_inside_of_a_merged_mapping(plain: Plain):
    text = """
base: &base {a: {deep: {x: 1, y: 2}}}
own: {<<<: *base, a: {deep: !nomerge {y: 7}}}
"""
    assert plain(text)["own"] == {"a": {"deep": {"y": 7}}}


def test_the_nomerge_tag_is_gone_afterwards(read: Callable[..., MappingNode]):
    node = read("a: !nomerge {b: !nomerge 1}\n")
    inner = node.require("a")
    assert inner.tag is None
    assert isinstance(inner, MappingNode)
    assert inner.require("b").tag is None


def test_includedir_joins_mappings_by_key(write: Write):
    write("parts/a.yaml", "x: {k: 1}\n")
    write("parts/b.yaml", "x: {l: 2}\ny: 3\n")
    write("parts/notes.txt", "no: spec\n")
    top = write("top.yaml", "all: !includedir parts\n")
    assert to_plain(read_files([top])) == {"all": {"x": {"k": 1, "l": 2}, "y": 3}}


def test_includedir_joins_lists(write: Write):
    write("parts/1.yaml", "[a, b]\n")
    write("parts/2.yaml", "[c]\n")
    top = write("top.yaml", "all: !includedir parts\n")
    assert to_plain(read_files([top])) == {"all": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"parts/1.yaml": "[a]\n", "parts/2.yaml": "a: 1\n"}, "all be mappings, or all be lists"),
        ({"parts/1.yaml": "a: 1\n", "parts/2.yaml": "a: 2\n"}, "second value"),
        ({"parts/notes.txt": "x\n"}, "contains no spec files"),
        ({"parts": "x\n"}, "not a directory"),
    ],
)
def test_includedir_errors_name_the_include(write: Write, files: dict[str, str], message: str):
    for name, text in files.items():
        write(name, text)
    top = write("top.yaml", "x: 1\nall: !includedir parts\n")
    with pytest.raises(SpecError, match=message) as caught:
        read_files([top])
    assert "top.yaml:2:6" in caught.value.render()


@pytest.mark.parametrize("name", ["_base.yaml", "_parts/base.yaml"])
def test_fragments_from_above(write: Write, name: str):
    write(name, "a: 1\n")
    top = write("one/two/top.yaml", f"x: !include ../../{name}\n")
    assert to_plain(read_files([top], levels_above=2)) == {"x": {"a": 1}}
    with pytest.raises(SpecError, match="lies outside"):
        read_files([top], levels_above=1)


@pytest.mark.parametrize("name", ["_secret.txt", "base.yaml", "parts/base.yaml"])
def test_other_files_from_above_are_refused(write: Write, name: str):
    write(name, "a: 1\n")
    top = write("one/two/top.yaml", f"x: !include ../../{name}\n")
    with pytest.raises(SpecError, match="lies outside"):
        read_files([top], levels_above=2)


def test_a_spec_name_does_not_lead_elsewhere(write: Write, tmp_path: Path):
    secret = write("secret.txt", "a: 1\n")
    write("one/top.yaml", "x: !include ../_link.yaml\n")
    (tmp_path / "_link.yaml").symlink_to(secret.absolute())
    with pytest.raises(SpecError, match="lies outside"):
        read_files([Path("one/top.yaml")], levels_above=1)
