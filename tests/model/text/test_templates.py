"""Templates: the functions, the places of what they print, and their errors."""

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from model.formats.timeloop import load_timeloop
from model.text.reader import is_template, parse_assignments, read_each, read_files, unused_notes
from model.text.source import MappingNode, SourceText, Span, SpecError, to_plain
from model.text.templates import LineMarks
from tests.model.formats.timeloop.support import spec

Write = Callable[..., Path]


def span(read: MappingNode, *keys: str) -> Span:
    node = read
    for key in keys[:-1]:
        node = node.get(key)
    return node.key(keys[-1]).span


def test_what_is_a_template():
    assert is_template(Path("a.yaml.jinja2"), "a: 1")
    assert is_template(Path("a.jinja"), "a: 1")
    assert is_template(Path("a.yaml"), "a: {{ b }}")
    assert is_template(Path("a.yaml"), "{% if a %}")
    assert not is_template(Path("a.yaml"), "a: {b: {c: 1}}")


def test_variables_and_loops(plain: Callable[..., object]):
    text = "{% set n = n | default(2) %}\n{% for i in range(n) %}\nk{{ i }}: {{ 2 ** i }}\n{% endfor %}\n"
    assert plain(text) == {"k0": 1, "k1": 2}
    assert plain(text, variables={"n": 3}) == {"k0": 1, "k1": 2, "k2": 4}


def test_plain_values_are_printed_as_yaml(plain: Callable[..., object]):
    text = "a: {{ none }}\nb: {{ true }}\nc: {{ [1, 'x'] }}\nd: {{ 'p q'.split() | join('-') }}\n"
    assert plain(text) == {"a": None, "b": True, "c": [1, "x"], "d": "p-q"}


def test_filters(plain: Callable[..., object]):
    text = (
        "a: {{ [3, 1, 2] | sort }}\nb: {{ [1, 2] | sum }}\nc: {{ 'x.y' | replace('.', '/') }}\n"
        "d: {{ 2.345 | round(1) }}\ne: |\n  {{ 'p\nq' | indent(2) }}\nf: {{ 1 | string ~ 2 }}\n"
        "{% set ns = namespace(n=1) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}\n"
        "g: {{ ns.n }}\n"
        "h: {{ {'k': 5}.k }}\n"
    )
    assert plain(text) == {
        "a": [1, 2, 3],
        "b": 3,
        "c": "x/y",
        "d": 2.3,
        "e": "p\nq\n",
        "f": 12,
        "g": 4,
        "h": 5,
    }


def test_dict(plain: Callable[..., object]):
    text = (
        "{% set given = given | default(dict()) %}{% set sizes = dict({'M': 1}, M=2, **given) %}\n"
        "{% for name, size in sizes.items() %}\n{{ name }}: {{ size }}\n{% endfor %}\n"
        "pairs: {{ dict([('a', 1)]) }}\n"
    )
    assert plain(text) == {"M": 2, "pairs": {"a": 1}}


def test_dict_of_something_else(failure: Callable[..., SpecError]):
    assert "template: " in failure("a: {{ dict(1) }}\n").message
    assert "template: " in failure("a: {{ dict([[[], 1]]) }}\n").message


class TestIncludes:
    """The functions that Timeloop's example designs use."""

    @pytest.fixture(autouse=True)
    def files(self, write: Write):
        self.write = write
        write("parts/a.yaml", "part: {classes: [{name: a}], name: A}\n")
        write("parts/b.yaml", "part: {classes: [{name: b1}, {name: b2}], name: B}\n")
        write("parts/sub/c.yaml", "value: {{ include('../a.yaml', 'part.name') }}\n")
        write("base.yaml", "base: &base\n  x: {y: 1}\n")

    def load(self, text: str, **variables: object) -> MappingNode:
        return read_files([self.write("top.yaml.jinja2", text)], variables)

    def plain(self, text: str, **variables: object) -> object:
        return to_plain(self.load(text, **variables))

    def test_include(self):
        assert self.plain("a: {{ include('parts/a.yaml', 'part.name') }}\n") == {"a": "A"}
        assert self.plain("a: {{ include('parts/a.yaml') }}\n")["a"]["part"]["name"] == "A"

    def test_include_takes_a_key_behind_it(self):
        text = "{% set P = include('parts/a.yaml', '') %}\na: {{P}}.part.name\n"
        text += "b: [{{P}}.part.classes, {{P}}.part.name]\n"
        assert self.plain(text) == {"a": "A", "b": [[{"name": "a"}], "A"]}

    def test_include_is_relative_to_the_including_file(self):
        assert self.plain("a: {{ include('parts/sub/c.yaml', 'value') }}\n") == {"a": "A"}

    def test_included_files_see_the_variables_set_so_far(self):
        self.write("inner.yaml", "v: {{ x + y }}\n")
        assert self.plain("{% set y = 2 %}\na: {{ include('inner.yaml', 'v') }}\n", x=1) == {"a": 3}

    def test_an_included_node_keeps_its_place(self):
        spec = self.load("\n\na: {{ include('parts/a.yaml', 'part') }}\n")
        assert str(span(spec, "a", "name")) == str(Path("parts/a.yaml")) + ":1:30"

    def test_include_all_joins_lists_in_the_order_of_the_names(self):
        expected = {"a": [{"name": "a"}, {"name": "b1"}, {"name": "b2"}]}
        assert self.plain("a: {{ include_all('parts/*.yaml', 'part.classes') }}\n") == expected
        assert self.plain("a: {{ include_all(cwd() ~ '/parts/?.yaml', 'part.classes') }}\n") == expected
        assert self.plain("a: {{ include_all('parts/*.yaml', 'part.name') }}\n") == {"a": ["A", "B"]}
        assert self.plain("a: {{ include_all('parts/a.yaml', 'part.name') }}\n") == {"a": ["A"]}

    @pytest.mark.parametrize("start", ["..", "parts"])
    def test_specs_named_from_another_directory(
        self, start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        text = "{{ add_to_path(cwd()) }}\na: {{ include_all('parts/*.yaml', 'part.name') }}\n"
        top = self.write("top.yaml.jinja2", text + "b: {{ find_paths('parts/*.yaml') | length }}\n")
        monkeypatch.chdir(tmp_path / start)
        assert to_plain(read_files([Path(os.path.relpath(tmp_path / top))], {})) == {"a": ["A", "B"], "b": 2}

    def test_a_file_of_the_working_directory_is_called_from_where_it_is_included(self):
        self.write("layers/x.yaml", "v: 1\n")
        top = self.write("designs/top.yaml.jinja2", "a: {{ include(layer, 'v') }}\n")
        with pytest.raises(SpecError, match=r"there is no file `layers/x.yaml`") as caught:
            read_files([top], {"layer": "layers/x.yaml"})
        assert "from there it is `../layers/x.yaml`" in (caught.value.hint or "")
        assert to_plain(read_files([top], {"layer": "../layers/x.yaml"})) == {"a": 1}

    def test_include_all_beside_a_file_in_another_directory(self):
        top = self.write("parts/top.yaml", "a: {{ include_all('sub/*.yaml', 'value') }}\n")
        assert to_plain(read_files([top])) == {"a": ["A"]}

    def test_include_text_splices_anchors(self):
        text = "{{include_text('base.yaml')}}\nown:\n  <<<: *base\n  x: {z: 2}\n"
        assert self.plain(text)["own"] == {"x": {"z": 2, "y": 1}}

    def test_include_text_renders_with_the_same_variables(self):
        self.write("inner.yaml", "v{{ n }}: {{ n }}\n{{ include_text('innermost.yaml') }}\n")
        self.write("innermost.yaml", "w: {{ n }}\n")
        assert self.plain("{{ include_text('inner.yaml') }}\n", n=7) == {"v7": 7, "w": 7}

    def test_add_to_path(self):
        assert self.plain("{{ add_to_path('parts') }}\na: {{ include('a.yaml', 'part.name') }}\n") == {
            "a": "A"
        }

    def test_added_paths_reach_included_files_but_not_back(self):
        self.write("adds.yaml", "{{ add_to_path('parts') }}\nv: {{ include('a.yaml', 'part.name') }}\n")
        self.write("uses.yaml", "v: {{ include('a.yaml', 'part.name') }}\n")
        assert self.plain("{{ add_to_path('parts') }}\na: {{ include('uses.yaml', 'v') }}\n") == {"a": "A"}
        with pytest.raises(SpecError, match=r"there is no file `a.yaml`"):
            self.plain("a: {{ include('adds.yaml', 'v') }}\nb: {{ include('a.yaml', 'part.name') }}\n")

    def test_the_directory_of_the_top_file_is_searched_last(self):
        self.write("parts/sub/d.yaml", "v: {{ include('base.yaml', 'base.x.y') }}\n")
        assert self.plain("a: {{ include('parts/sub/d.yaml', 'v') }}\n") == {"a": 1}

    def test_questions_about_paths(self, tmp_path: Path):
        text = "a: {{ path_exists('parts/a.yaml') }}\nb: {{ path_exists('no.yaml') }}\n"
        text += "c: {{ cwd() }}\nd: {{ find_path('base.yaml') }}\n"
        assert self.plain(text) == {
            "a": True,
            "b": False,
            "c": str(tmp_path),
            "d": str(tmp_path / "base.yaml"),
        }

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            ("include('nowhere.yaml', 'x')", "there is no file `nowhere.yaml`"),
            ("include('parts/a.yaml', 'part.nam')", "no `nam` of `part.nam` here"),
            ("include('parts/a.yaml', 'part.name.x')", "here: this is not a mapping"),
            ("include_all('nothing/*.yaml', 'x')", "no file matches `nothing/*.yaml`"),
            ("include_all('parts/*.yaml', 'x')", "no `x` of `x` here"),
            ("include_text('parts')", "parts is a directory"),
            ("add_to_path('base.yaml')", "`base.yaml` is not a directory"),
            ("find_path('nowhere.yaml')", "there is no file `nowhere.yaml`"),
            ("include(5)", "a path is expected, not `5`"),
            ("include('')", "a path is expected"),
            ("include('top.yaml.jinja2', 'a')", "files include one another"),
            ("include('../up.yaml', 'a')", "../up.yaml lies outside"),
            ("include('/etc/passwd', 'a')", "lies outside"),
            ("path_exists('/etc/passwd')", "lies outside"),
            ("include_all('/etc/*', 'a')", "lies outside"),
            ("include_all('/*/passwd', 'a')", "lies outside"),
            ("add_to_path('/')", "lies outside"),
            ("find_path('/etc/passwd')", "lies outside"),
        ],
    )
    def test_errors_name_the_line_of_the_call(self, call: str, message: str):
        with pytest.raises(SpecError) as caught:
            self.load("x: 1\na: {{ " + call + " }}\n")
        assert message in caught.value.message
        places = [caught.value.span, *(place for place, _ in caught.value.related)]
        assert any(str(place) == "top.yaml.jinja2:2:1" for place in places)

    def test_an_include_is_a_value_of_its_own(self):
        with pytest.raises(SpecError, match="is a whole value"):
            self.load("a: \"{{ include('parts/a.yaml') }}\"\n")

    @pytest.mark.parametrize("forged", ["!included 0", "!included x", "!included 0.part"])
    def test_the_tag_behind_includes_is_not_for_users(self, forged: str):
        with pytest.raises(SpecError, match="unknown tag `!included`"):
            self.load(f"a: {forged}\nb: {{{{ 1 }}}}\n")

    def test_an_included_template_with_an_error(self):
        self.write("inner.yaml", "a: 1\nb: {{ nothing }}\n")
        with pytest.raises(SpecError) as caught:
            self.load("x: 1\n\n{{ include_text('inner.yaml') }}\n")
        assert caught.value.render() == "\n".join(
            [
                "error: template: 'nothing' is undefined",
                " --> inner.yaml:2:1",
                "  |",
                "2 | b: {{ nothing }}",
                "  | ^^^^^^^^^^^^^^^^",
                "note: included here",
                " --> top.yaml.jinja2:3:1",
                "  |",
                "3 | {{ include_text('inner.yaml') }}",
                "  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
                "help: give it a value with `--set nothing=VALUE`",
            ]
        )


class TestPlaces:
    """Positions in rendered text are told in the lines of the templates."""

    def test_a_line_that_rendering_keeps_has_its_own_columns(self, read: Callable[..., MappingNode]):
        spec = read("{% for i in range(5) %}\nk{{ i }}: 1\n{% endfor %}\n\nlast: {deep: 1}\n")
        assert str(span(spec, "last", "deep")) == "spec.yaml:5:8"

    def test_stripped_lines_are_counted(self, read: Callable[..., MappingNode]):
        spec = read("{#- a\n comment -#}\n\n{%- set a = 1 -%}\n\n\nfirst: 1\nsecond: {{ a }}\n")
        assert str(span(spec, "first")) == "spec.yaml:7:1"
        assert span(spec, "second").line == 8

    def test_spliced_text_points_into_its_own_file(self, write: Write):
        write("inner.yaml", "# comment\ninner: {k: 1}\n")
        spec = read_files([write("top.yaml", "outer: 1\n{{ include_text('inner.yaml') }}\nafter: 2\n")])
        assert str(span(spec, "inner", "k")) == "inner.yaml:2:9"
        assert str(span(spec, "after")) == "top.yaml:3:1"

    def test_a_line_that_rendering_changes_is_shown_as_rendered(self, failure: Callable[..., SpecError]):
        error = failure("a: 1\n{% for i in range(2) %}\n{{ 'ab'[i] }}: {k: {{ i }}, k: 2}\n{% endfor %}\n")
        assert error.render().splitlines()[:9] == [
            "error: the key `k` is given twice",
            " --> spec.yaml:3:1",
            "  |",
            "3 | {{ 'ab'[i] }}: {k: {{ i }}, k: 2}",
            "  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
            "  = in the rendered text of spec.yaml, line 3:",
            "  |",
            "3 | a: {k: 0, k: 2}",
            "  |           ^",
        ]

    def test_text_in_variables_is_not_changed_by_marks(self, plain: Callable[..., object]):
        text = "{% set x %}abc{% endset %}\n{% macro m() %}abc{% endmacro %}\n"
        text += "a: {{ x == 'abc' }}\nb: {{ m() == 'abc' }}\n"
        assert plain(text) == {"a": True, "b": True}

    def test_marks_in_a_template_are_refused(self, failure: Callable[..., SpecError]):
        assert "private-use characters" in failure("a: {{ 1 }}\nb: \U000f0001\n").message

    def test_marks_that_a_template_prints_do_no_harm(self, failure: Callable[..., SpecError]):
        error = failure('a: {{ "\\U0010FFFD\\U000F0000" }}\nb: [\n')
        assert error.span is not None
        assert error.span.line == 2


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a: 1\nb: {{ nothing }}\n", "'nothing' is undefined", 2),
        ("a: 1\nb: {{ 'x' ~ nothing }}\n", "'nothing' is undefined", 2),
        ("a: 1\n\nb: {{ 1 + }}\n", "unexpected", 3),
        ("a: 1\n{% if x %}\nb: 2\n", "Unexpected end of template", 2),
        ("a: 1\n{% endfor %}\n", "Encountered unknown tag 'endfor'", 2),
        ("a: {{ 1 / 0 }}\n", "division by zero", 1),
        ("a: {{ 'x' | nofilter }}\n", "No filter named 'nofilter'", 1),
        ("a: {{ [1][5] }}\n", "has no element 5", 1),
        ("a: {{ range }}\n", "cannot be printed", 1),
        ("a: {{ cwd(1) }}\n", "takes 1 positional argument", 1),
        ("a: 1\n{% include 'b.yaml' %}\n", "is not supported; use `include_text`", 2),
        ("a: 1\n{% extends 'b.yaml' %}\n", "is not supported; use `include_text`", 2),
        ("{% import 'b.yaml' as b %}\n", "is not supported; use `include_text`", 1),
    ],
)
def test_template_errors_have_a_line(failure: Callable[..., SpecError], text: str, message: str, line: int):
    error = failure(text)
    assert message in error.message
    assert error.span is not None
    assert error.span.line == line


def test_an_undefined_variable_names_one_that_is_alike(failure: Callable[..., SpecError]):
    error = failure("a: {{ architectur }}\n", variables={"architecture": "x"})
    assert error.hint == "did you mean `architecture`? that is the variable that was set"


def test_assignments():
    texts = ["name=eyeriss_like", "layer=01", "n=4", "f=1e-3", "b=True", "p=a=b", "o=0o17", "z=null"]
    assert parse_assignments(texts) == {
        "name": "eyeriss_like",
        "layer": "01",
        "n": 4,
        "f": 1e-3,
        "b": True,
        "p": "a=b",
        "o": "0o17",
        "z": "null",
    }


@pytest.mark.parametrize("text", ["x", "=1", " =1", ""])
def test_bad_assignments(text: str):
    with pytest.raises(SpecError, match="does not set a variable"):
        parse_assignments([text])


@pytest.mark.parametrize("name", ["a b", "1", "x[0]", "?"])
def test_variables_that_no_template_could_name(name: str):
    """Such names are those of sizes in ONNX models."""
    assert parse_assignments([f"{name}=2"]) == {name: 2}
    assert unused_notes([name], {name}) == []
    with pytest.raises(SpecError, match="is not the name of a variable"):
        unused_notes([name], {"depth"})


def test_variables_that_no_template_names_are_noted(write: Write):
    write("inner.yaml", "a: {{ depth }}\n")
    top = write("spec.yaml", "{% set wide = width | default(4) %}\nb: {{ include('inner.yaml', 'a') }}\n")
    plain_file = write("plain.yaml", "width: 3\n")
    names: set[str] = set()
    read_each([top, plain_file], {"depth": 1}, names=names)
    assert [*map(str, unused_notes(["depth", "width", "widht", "zzqx"], names))] == [
        "no template uses the variable `widht`; did you mean `width`?",
        "no template uses the variable `zzqx`",
    ]


def test_a_loaded_spec_notes_unused_variables(write: Write):
    path = write("spec.yaml", spec())
    (note,) = load_timeloop([path], {"depth": 4}).notes
    assert note.text == "no template uses the variable `depth`"


def test_a_line_of_many_marks_takes_little_memory():
    marks = LineMarks()
    marks.register(Path("a"), SourceText.of("a", "x\n" * 3))
    text = (marks.mark(0) + "x") * 10**5 + marks.mark(2) + "x"
    tracemalloc.start()
    number = marks._last_number(text, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert number == 2 and marks._last_number("x", 1) == 1
    assert peak < 10**6


def test_no_memory_for_what_a_template_printed(monkeypatch, failure: Callable[..., SpecError]):
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(LineMarks, "document", fail)
    assert "of memory" in failure("a: {{ 1 }}").message
