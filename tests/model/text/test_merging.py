"""Merge keys, and one spec in several files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from model.text.reader import read_files
from model.text.source import MappingNode, SpecError, to_plain

BASE = "base: &base {x: {y: 1, z: 2}, list: [1, 2], only: b}\n"


def test_a_shallow_merge_adds_what_is_missing(plain: Callable[..., dict[str, object]]):
    merged = plain(BASE + "own:\n  <<: *base\n  x: {y: 9}\n")["own"]
    assert merged == {"x": {"y": 9}, "list": [1, 2], "only": "b"}


def test_a_recursive_merge_goes_down_and_joins_lists(plain: Callable[..., dict[str, object]]):
    merged = plain(BASE + "own:\n  <<<: *base\n  x: {y: 9}\n  list: [0]\n  only: a\n")["own"]
    assert merged == {"x": {"y": 9, "z": 2}, "list": [0, 1, 2], "only": "a"}


def test_of_several_sources_the_first_goes_first(plain: Callable[..., dict[str, object]]):
    merged = plain("own: {<<: [{a: 1, b: 1}, {b: 2, c: 2}], c: 0}\n")["own"]
    assert merged == {"a": 1, "b": 1, "c": 0}


def test_merged_keys_keep_their_places_and_follow_the_own_ones(read: Callable[..., MappingNode]):
    own = read(BASE + "own:\n  <<: *base\n  mine: 1\n").get("own")
    assert isinstance(own, MappingNode)
    assert own.keys() == ("mine", "x", "list", "only")
    assert own.key("x").span.line == 1
    assert own.key("mine").span.line == 4


def test_a_quoted_merge_key_is_a_key(plain: Callable[..., object]):
    assert plain("own: {'<<': {a: 1}}\n") == {"own": {"<<": {"a": 1}}}


@pytest.mark.parametrize("value", ["1", "[1]", "[[{a: 1}]]", ""])
def test_only_mappings_are_merged(failure: Callable[..., SpecError], value: str):
    error = failure(f"own:\n  <<: {value}\n")
    assert error.message == "`<<` takes a mapping or a list of mappings"
    assert error.related[0][1] == "merged here"


@pytest.fixture
def joined(write: Callable[..., Path]) -> Callable[..., object]:
    def join(*texts: str) -> object:
        return to_plain(read_files([write(f"{number}.yaml", text) for number, text in enumerate(texts)]))

    return join


def test_files_are_joined_by_top_level_key(joined: Callable[..., object]):
    assert joined("problem: {a: 1}\n", "architecture: {b: 2}\n", "ERT: {}\n") == {
        "problem": {"a": 1},
        "architecture": {"b": 2},
        "ERT": {},
    }


def test_under_the_same_key_mappings_and_lists_of_mappings_are_joined(joined: Callable[..., object]):
    first = "components:\n  version: 0.4\n  classes: [{name: a}]\nvariables: {x: 1}\n"
    second = "components:\n  version: 0.4\n  classes: [{name: b}]\nvariables: {y: 2}\n"
    assert joined(first, second) == {
        "components": {"version": 0.4, "classes": [{"name": "a"}, {"name": "b"}]},
        "variables": {"x": 1, "y": 2},
    }


def test_an_empty_value_gives_way(joined: Callable[..., object]):
    assert joined("mapper:\nERT: {a: 1}\n", "mapper: {b: 1}\nERT:\n") == {"mapper": {"b": 1}, "ERT": {"a": 1}}


def test_the_same_file_twice_is_the_file(joined: Callable[..., object]):
    text = "problem: {dims: [C, M], shape: {spaces: [{name: a}]}}\n"
    assert joined(text, text) == joined(text)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("instance: {C: 1}", "instance: {C: 2}"),
        ("factors: [C=1]", "factors: [C=2]"),
        ("a: {b: 1}", "a: [1]"),
        ("a: !X {b: 1}", "a: !Y {b: 1}"),
        ("a: 1", "a: '1'"),
    ],
)
def test_a_conflict_names_both_places(joined: Callable[..., object], first: str, second: str):
    with pytest.raises(SpecError, match="is given a second value") as caught:
        joined(first + "\n", second + "\n")
    assert caught.value.span is not None
    assert caught.value.span.file == "1.yaml"
    assert [span.file for span, _ in caught.value.related] == ["0.yaml"]


def test_a_version_in_quotes_is_the_same(joined: Callable[..., object]):
    joined("problem:\n  version: 0.4\n", "problem: {version: '0.4'}\n")
    with pytest.raises(SpecError, match=r"second value \(`'4'`\)"):
        joined("problem: {C: 4}\n", "problem: {C: '4'}\n")


def test_the_text_of_a_conflict(joined: Callable[..., object]):
    with pytest.raises(SpecError) as caught:
        joined("problem:\n  instance:\n    C: 64\n", "problem:\n  instance: {C: 128}\n")
    assert caught.value.render() == "\n".join(
        [
            "error: `C` is given a second value (`128`)",
            " --> 1.yaml:2:14",
            "  |",
            "2 |   instance: {C: 128}",
            "  |              ^",
            "note: first given here (`64`)",
            " --> 0.yaml:3:5",
            "  |",
            "3 |     C: 64",
            "  |     ^",
        ]
    )
