"""Nodes, and the text of errors."""

from collections.abc import Callable

import pytest

from model.text.fields import as_int
from model.text.source import MappingNode, ScalarNode, SourceText, Span, SpecError
from model.wording import did_you_mean


def span_of(text: str, line: int, column: int, length: int) -> Span:
    source = SourceText.of("arch.yaml", text)
    return Span("arch.yaml", line, column, line, column + length, source)


def scalar(text: str) -> ScalarNode:
    return ScalarNode(text, text, False, Span("arch.yaml", 1, 1, 1, 2))


def test_an_error_shows_its_place_the_other_place_and_the_hint():
    text = "a: 1\nb:\n  depht: 12\n"
    related = ((span_of(text, 1, 1, 1), "the other one is here"),)
    error = SpecError("unknown key `depht`", span_of(text, 3, 3, 5), related, "did you mean `depth`?")
    assert error.render() == "\n".join(
        [
            "error: unknown key `depht`",
            " --> arch.yaml:3:3",
            "  |",
            "3 |   depht: 12",
            "  |   ^^^^^",
            "note: the other one is here",
            " --> arch.yaml:1:1",
            "  |",
            "1 | a: 1",
            "  | ^",
            "help: did you mean `depth`?",
        ]
    )
    assert str(error) == "arch.yaml:3:3: unknown key `depht`\nhelp: did you mean `depth`?"


def test_an_error_without_a_place_is_one_line():
    assert SpecError("no spec file is given").render() == "error: no spec file is given"


def test_an_error_without_source_text_names_the_position_only():
    assert SpecError("bad", Span("x.yaml", 7, 2, 7, 3)).render() == "error: bad\n --> x.yaml:7:2"


def test_line_numbers_of_different_width_are_aligned():
    text = "\n".join(f"k{number}: 0" for number in range(1, 13))
    error = SpecError("bad", span_of(text, 12, 1, 3), ((span_of(text, 3, 1, 2), "here"),))
    assert " 3 | k3: 0" in error.render().splitlines()
    assert "12 | k12: 0" in error.render().splitlines()


def test_tabs_are_widened_so_that_the_caret_fits():
    lines = SpecError("bad", span_of("\ta:\tb", 1, 5, 1)).render().splitlines()
    assert lines[3:] == ["1 |     a:    b", "  |           ^"]


def test_control_characters_do_not_reach_the_terminal():
    assert "\x1b" not in SpecError("bad", span_of("a: \x1b[31m", 1, 1, 1)).render()


@pytest.mark.parametrize("column", [1, 150, 4990])
def test_a_long_line_is_cut_around_the_caret(column: int):
    text = "".join(chr(ord("a") + position % 26) for position in range(5000))
    lines = SpecError("bad", span_of(text, 1, column, 3)).render().splitlines()
    shown, carets = lines[3], lines[4]
    assert len(shown) < 120
    start = carets.index("^")
    assert carets.count("^") == 3
    assert shown[start : start + 3] == text[column - 1 : column + 2]


def test_a_long_marked_part_is_cut_too():
    lines = SpecError("bad", span_of("x" * 500, 1, 1, 500)).render().splitlines()
    assert max(len(line) for line in lines) < 120


def test_a_span_of_several_lines_marks_the_rest_of_the_first():
    text = "a: [1,\n  2]"
    span = Span("f", 1, 4, 2, 5, SourceText.of("f", text))
    assert SpecError("bad", span).render().splitlines()[3:] == ["1 | a: [1,", "  |    ^^^"]


def test_where_an_include_led_to_an_error_is_told_once_per_include():
    inner = SpecError("bad", span_of("a: 1", 1, 1, 1), hint="think")
    here = span_of("b: !include x", 1, 4, 9)
    assert inner.included_at(here).related == ((here, "included here"),)
    assert inner.included_at(here).hint == "think"
    assert SpecError("bad").included_at(here).span == here


@pytest.mark.parametrize(
    ("word", "candidates", "hint"),
    [
        ("depht", ["width", "depth"], "did you mean `depth`?"),
        ("HStride", ["Hstride", "Hstrides"], "did you mean `Hstride`?"),
        ("data-spaces", ["data_spaces"], "did you mean `data_spaces`?"),
        ("same", ["same"], None),
        ("xyz", ["depth"], None),
        ("operation", ["version", "shape"], None),
        ("rpoblem", ["problem"], "did you mean `problem`?"),
        ("buf", ["bus_width", "buffer"], "did you mean `buffer`?"),
        ("anything", [], None),
    ],
)
def test_did_you_mean(word: str, candidates: list[str], hint: str | None):
    assert did_you_mean(word, candidates) == hint


def test_a_mapping_is_looked_up_by_the_text_of_its_keys():
    node = MappingNode(((scalar("a"), scalar("1")), (scalar("b"), scalar("2"))), Span("f", 1, 1, 2, 1))
    assert node.keys() == ("a", "b")
    assert "a" in node
    assert "c" not in node
    assert node.get("b") == scalar("2")
    assert node.get("c") is None
    assert node.key("b").text == "b"
    with pytest.raises(KeyError):
        node.key("c")
    with pytest.raises(SpecError, match="`problem` is missing the key `c`"):
        node.require("c", "`problem`")


def test_no_message_holds_control_characters():
    span = Span("a.yaml", 1, 1, 1, 2)
    error = SpecError("bad `\x1b[31m`", span, ((span, "near \x07"),), hint="not `\x9b\n`")
    assert str(error) == "a.yaml:1:1: bad `\ufffd[31m`\nhelp: not `\ufffd\ufffd`"
    assert (error.related[0][1], error.hint) == ("near \ufffd", "not `\ufffd\ufffd`")


@pytest.mark.parametrize("text", ["''", '"  "'])
def test_a_quoted_number_without_text_is_called_empty(read: Callable[..., MappingNode], text: str):
    node = read(f"depth: {text}\n").require("depth")
    with pytest.raises(SpecError, match="`depth` must be a whole number, but is empty"):
        as_int(node, "`depth`")
