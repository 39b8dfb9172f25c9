"""Scalars by the core schema of YAML 1.2."""

import math
from collections.abc import Callable

import pytest

from model.text.limits import Limits
from model.text.source import MappingNode, ScalarNode, SpecError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-9", 1e-9),
        ("1E+3", 1000.0),
        (".5", 0.5),
        ("4.", 4.0),
        ("-0.25", -0.25),
        ("12", 12),
        ("-7", -7),
        ("+3", 3),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
    ],
)
def test_what_the_core_schema_resolves(read: Callable[..., MappingNode], text: str, value: object):
    node = read(f"key: {text}\n").get("key")
    assert isinstance(node, ScalarNode)
    assert (node.value, type(node.value)) == (value, type(value))
    assert node.text == text
    assert not node.quoted


@pytest.mark.parametrize(
    "text",
    [
        "on",
        "off",
        "yes",
        "No",
        "y",
        "N",
        "tRUE",
        "nil",
        "1_000",
        "1:30",
        "0b11",
        "0o8",
        "1e",
        ".",
        "65nm",
    ],
)
def test_what_stays_text(plain: Callable[..., object], text: str):
    assert plain(f"key: {text}\n") == {"key": text}


def test_not_a_number(plain: Callable[..., dict[str, float]]):
    assert math.isnan(plain("key: .nan\n")["key"])


@pytest.mark.parametrize("written", ['"12"', "'12'", "|-\n  12", ">-\n  12"])
def test_quotes_and_blocks_are_text(read: Callable[..., MappingNode], written: str):
    node = read(f"key: {written}\n").get("key")
    assert isinstance(node, ScalarNode)
    assert (node.value, node.text, node.quoted) == ("12", "12", True)


def test_energies_keep_their_text(read: Callable[..., MappingNode]):
    node = read("energy: 0.10000000000000000000001\n").get("energy")
    assert isinstance(node, ScalarNode)
    assert node.text == "0.10000000000000000000001"


def test_core_tags_are_applied(plain: Callable[..., object]):
    text = "a: !!str 12\nb: !!float 3\nc: !!int '4'\nd: !!null ''\ne: ! 5\nf: !!bool true\n"
    assert plain(text) == {"a": "12", "b": 3.0, "c": 4, "d": None, "e": "5", "f": True}


@pytest.mark.parametrize("written", ["!!int x", "!!int true", "!!bool 1", "!!null 0", "!!float yes"])
def test_a_core_tag_that_does_not_fit(failure: Callable[..., SpecError], written: str):
    assert "is tagged" in failure(f"key: {written}\n").message


def test_other_tags_are_kept(read: Callable[..., MappingNode]):
    spec = read("a: !Foo 1\nb: !Bar [1]\nc: !Baz {x: 1}\nd: !Nothing\n")
    assert [spec.require(key).tag for key in "abcd"] == ["!Foo", "!Bar", "!Baz", "!Nothing"]
    assert spec.require("d") == ScalarNode(None, "", False, spec.span, "!Nothing")


def test_numbers_beyond_the_limits(failure: Callable[..., SpecError]):
    assert "101 digits" in failure("key: " + "9" * 101 + "\n").message
    assert "12 digits" in failure("key: 0x1234567890\n", limits=Limits(integer_digits=10)).message
    assert "too large" in failure("key: 1e999\n").message
    assert "5000 digits" in failure("key: 0." + "1" * 4998 + "\n").message
