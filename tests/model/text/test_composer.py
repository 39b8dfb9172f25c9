"""From YAML text to nodes: places, aliases, and what is refused."""

from collections.abc import Callable
from time import process_time

import pytest
import yaml

from model.text.composer import compose
from model.text.limits import Limits
from model.text.source import Document, MappingNode, Node, SequenceNode, Span, SpecError


def place(span: Span) -> tuple[int, int, int, int]:
    return span.line, span.column, span.end_line, span.end_column


def test_every_node_knows_its_place(read: Callable[..., MappingNode]):
    spec = read("top:\n  - !Component # a comment\n    name: 'a b'\n    list: [1,\n      22]\n\n# end\n")
    items = spec.get("top")
    assert isinstance(items, SequenceNode)
    component = items.items[0]
    assert isinstance(component, MappingNode)
    assert place(spec.key("top").span) == (1, 1, 1, 4)
    assert place(items.span) == (2, 3, 5, 10)
    assert place(component.span) == (2, 5, 5, 10)
    assert place(component.require("name").span) == (3, 11, 3, 16)
    assert place(component.require("list").span) == (4, 11, 5, 10)
    assert component.span.file == "spec.yaml"


def test_an_aliased_node_keeps_the_place_of_its_anchor(read: Callable[..., MappingNode]):
    spec = read("a: &x {k: 1}\nb: *x\n")
    assert spec.get("b") is spec.get("a")
    assert spec.require("b").span.line == 1


def test_a_later_anchor_of_the_same_name_counts(plain: Callable[..., object]):
    assert plain("a: &x 1\nb: &x 2\nc: *x\n") == {"a": 1, "b": 2, "c": 2}


def test_duplicate_keys_show_both_places(failure: Callable[..., SpecError]):
    error = failure("a: 1\nb:\n  c: 2\n  d: 3\n  c: 4\n")
    assert error.render() == "\n".join(
        [
            "error: the key `c` is given twice",
            " --> spec.yaml:5:3",
            "  |",
            "5 |   c: 4",
            "  |   ^",
            "note: first given here",
            " --> spec.yaml:3:3",
            "  |",
            "3 |   c: 2",
            "  |   ^",
        ]
    )


@pytest.mark.parametrize("text", ["1: a\n'1': b\n", "{k: 1, k: 2}\n", "<<: {a: 1}\n<<: {b: 1}\n"])
def test_more_duplicate_keys(failure: Callable[..., SpecError], text: str):
    assert "given twice" in failure(text).message


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a: [1, 2", 1, 9),
        ("a: b: c\n", 1, 5),
        ("a: 1\n\tb: 2\n", 2, 1),
        ("a: 'x\n", 1, 6),
        ("a: &x 1\nb: @c\n", 2, 4),
        ("a: !foo!bar 1\n", 1, 4),
    ],
)
def test_syntax_errors_have_a_place(failure: Callable[..., SpecError], text: str, line: int, column: int):
    error = failure(text)
    assert error.message.startswith("not YAML: ")
    assert error.span is not None
    assert (error.span.line, error.span.column) == (line, column)


def test_tabs_get_a_hint(failure: Callable[..., SpecError]):
    assert failure("a:\n\tb: 2\n").hint == "YAML is indented with spaces, not tabs"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a:\n  b: 1\n    c: 2\n", "begin in the same column"),
        ("a:\n  b: 1\n c: 2\n", "begin in the same column"),
        ("a: b: c\n", "quote text that contains `: `"),
        ("a: {b: c, * d}\n", "`*` and `&` begin aliases and anchors here"),
        ("a: {b:, c: 1}\n", "write a space after the `:` of a key"),
        ("a:\n  v: 1\n  !Component\n  nodes: 1\n", "item of a list"),
        ("nodes:\n- name: y\n!Component\n  name: x\n", "item of a list"),
        ("nodes:\n  - !A\n    name: y\n  -!B\n    name: x\n", "between the dash of an item and its tag"),
        ("nodes:\n  -!Component\n    name: x\n", "between the dash of an item and its tag"),
        ("a:\n  b: 1\n\xa0 c: 2\n  d: 3\n", "no-break space"),
    ],
)
def test_other_slips_get_hints(failure: Callable[..., SpecError], text: str, hint: str):
    error = failure(text)
    assert error.message.startswith("not YAML: ")
    assert hint in (error.hint or "")


@pytest.mark.parametrize("character", ["\x00", "\x07", "\ufffe", "\ufeff"])
def test_characters_that_yaml_does_not_have(failure: Callable[..., SpecError], character: str):
    error = failure(f"a: 1\nbc: {character}\n")
    assert f"U+{ord(character):04X}" in error.message
    assert error.span is not None
    assert (error.span.line, error.span.column) == (2, 5)


def test_keys_are_scalars(failure: Callable[..., SpecError]):
    assert "a key is a word or a number" in failure("? [1, 2]\n: 3\n").message
    assert "a key is a word or a number" in failure("a: &x {k: 1}\n*x : 3\n").message


def test_only_one_document(failure: Callable[..., SpecError], plain: Callable[..., object]):
    assert plain("---\na: 1\n...\n") == {"a": 1}
    error = failure("a: 1\n---\nb: 2\n")
    assert "a second YAML document" in error.message
    assert error.span is not None
    assert error.span.line == 2


def test_unknown_alias(failure: Callable[..., SpecError]):
    error = failure("a: &problem_base 1\nb: *problem_bsae\n")
    assert error.message == "no anchor `&problem_bsae` comes before this alias"
    assert error.hint == "did you mean `problem_base`?"


@pytest.mark.parametrize(
    "text", ["a: &x [*x]\n", "a: &x {b: {c: *x}}\n", "&x a: {<<: 1, b: *y}\n", "- &x\n  - *x\n"]
)
def test_an_alias_inside_of_its_anchor(failure: Callable[..., SpecError], text: str):
    error = failure(text)
    assert "is part of the value that it refers to" in error.message or "no anchor" in error.message
    assert error.span is not None


def bomb(levels: int, template: str) -> str:
    lines = ["a0: &a0 {k: [x, x]}"]
    for level in range(1, levels):
        alias = f"*a{level - 1}"
        lines.append(f"a{level}: &a{level} " + template.replace("*", alias))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "template", ["[*, *, *, *]", "{x: *, y: *, z: *}", "{<<<: [*, *, *]}", "{<<: {l: *}, k: *}"]
)
def test_alias_bombs_are_refused_at_once(failure: Callable[..., SpecError], template: str):
    start = process_time()
    error = failure(bomb(60, template))
    assert process_time() - start < 2
    assert "with its aliases written out" in error.message or "nested" in error.message


def test_chains_of_aliases_count_as_nesting(failure: Callable[..., SpecError]):
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 120)]
    assert "nested more than 100 deep" in failure("\n".join(lines)).message


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "a: " + "{a: " * 50_000, "- " * 5_000])
def test_deep_nesting_is_refused(failure: Callable[..., SpecError], text: str):
    assert "nested more than 100 deep" in failure(text).message


@pytest.mark.parametrize("text", ["a: " + "[" * 2_000, "- " * 2_000, "a: " + "[" * 2_000 + "]" * 2_000])
def test_the_parsers_own_limit_of_nesting_is_told_alike(failure: Callable[..., SpecError], text: str):
    ours, more = (failure(text, limits=Limits(depth=depth)).message for depth in (1_000, 1_500))
    assert ours == "lists and mappings are nested more than 1000 deep"
    assert more in (ours, ours.replace("1000", "1500"))


def test_too_many_nodes(failure: Callable[..., SpecError]):
    assert "more than 50 values" in failure("a: [" + "1, " * 60 + "]\n", limits=Limits(nodes=50)).message


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n...\n", "%YAML 1.2\n---\n"])
def test_a_document_without_content_has_no_root(text: str):
    root: Node | None = compose(Document.of("x", text), Limits())
    assert root is None or getattr(root, "value", 0) is None


def test_unusual_line_ends_are_counted_as_the_parser_does(failure: Callable[..., SpecError]):
    error = failure("a: 1\r\nb: 2\rc: 3\u2028c: 4\n")
    assert error.span is not None
    assert (error.span.line, error.span.column) == (4, 1)
    assert "4 | c: 4" in error.render()


def test_too_many_keys_are_refused_before_anything_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    document = Document.of("x", "".join(f"a{n}: {{b: 1}}\n" for n in range(20)))
    parse = yaml.parse
    monkeypatch.setattr(yaml, "parse", lambda *_, **__: pytest.fail("this takes long"))
    with pytest.raises(SpecError, match="more than 60 values") as error:
        compose(document, Limits(nodes=60))
    assert error.value.span is not None
    assert error.value.span.line == 16
    monkeypatch.setattr(yaml, "parse", parse)
    assert compose(document, Limits(nodes=101)) is not None


@pytest.mark.parametrize("text", ["a: 'b: c: d: e'", "a: b # c: d: e", "a: |\n  b: c: d: e\n"])
def test_text_that_may_hold_colons_is_not_counted(text: str) -> None:
    assert compose(Document.of("x", text), Limits(nodes=3)) is not None
