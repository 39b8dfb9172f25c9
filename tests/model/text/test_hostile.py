"""Malicious specs end in a message: quickly, with little memory, and without access to other files."""

import math
import resource
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest

from model.formats.timeloop import FileOptions, LoadOptions, load_timeloop
from model.mapspace_size import mapspace_size
from model.text.limits import Limits
from model.text.source import SpecError
from model.wording import did_you_mean
from solver.report.figures import large_count_text
from tests.model.formats.timeloop.support import (
    ARRAY,
    DRAM,
    MAC,
    PROBLEM,
    SPAD,
    architecture,
    constrained,
    spec,
)

Write = Callable[..., Path]
SOON_S = 8.0
LITTLE_KIB = 300_000
BLANKS = " " * 9000


def factors(text: str) -> str:
    return spec(arch=architecture(DRAM, constrained(SPAD, f"{{temporal: {{factors: {text}}}}}"), MAC))


def attribute(text: str) -> str:
    return spec(arch=architecture(DRAM, SPAD.replace("depth: 32", text), MAC))


def compound(name: str) -> str:
    part = f"{{name: {name}, class: register}}"
    library = f"components: {{classes: [{{name: cell, subcomponents: [{part}]}}]}}\n"
    return spec(library)


TABLES = (
    "".join(f"  - {{name: t{number}, actions: []}}\n" for number in range(10_000))
    + "  - {name: t1, actions: []}\n"
)
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 20)
)
TEXT = "{% set t = range(9999) | join %}"
LONG_TEMPLATE = {
    "many values": TEXT + "".join(f"{{% set a{n} = t ~ 'x' %}}" for n in range(2000)),
    "many slices": TEXT + "".join(f"{{% set a{n} = t[1:] %}}" for n in range(2000)),
    "many lists": TEXT + "".join(f"{{% set a{n} = t | list %}}" for n in range(2000)),
    "much indentation": "{% set t = range(9999) | join('\n') %}{% set x = t" + " | indent(300)" * 80 + " %}",
    "many comparisons": TEXT + "{% set u = t ~ '' %}" + "{% set x = t == u %}" * 2000,
    "a test in a loop": "{% set t = range(9999) | list %}{% for i in range(99999) if -1 in t %}{% endfor %}",
    "a nested value": "{% set a = [1] %}" + "{% set a = [a, a] %}" * 18 + "{% set b = [a] %}" * 200,
    "blocks": "{% block a %}{{ self.b() }}{{ self.b() }}{% endblock %}{% block b %}"
    + "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}{% endblock %}",
}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("ignore: {<<: [" + "{a: 1}, " * 10_000 + "]}\n", id="merges"),
        pytest.param(BOMB, id="aliases"),
        pytest.param("[" * 10_000 + "]" * 10_000, id="flow lists"),
        pytest.param("{a: " * 10_000 + "1" + "}" * 10_000, id="flow mappings"),
        pytest.param("- " * 10_000 + "a", id="block lists"),
        pytest.param("".join(" " * n + "a:\n" for n in range(2000)), id="block mappings"),
        pytest.param("? " * 10_000 + "a", id="keys"),
        pytest.param("a: " + "x" * 2**22, id="a long value"),
        pytest.param('a: "' + "\\u0041" * 100_000 + '"', id="a long quoted value"),
        pytest.param(factors(f'"K{BLANKS}x="'), id="blanks in a factor"),
        pytest.param(factors("[" + f'"K{BLANKS}x=", ' * 100 + "]"), id="blanks in many factors"),
        pytest.param(factors('"K' + "1" * 9000 + 'x"'), id="digits in a factor"),
        pytest.param(factors("[" + "K<=4, " * 10_000 + "]"), id="rules"),
        pytest.param(compound(f'"bits{BLANKS}x"'), id="blanks in a subcomponent"),
        pytest.param(attribute(f'technology: "45{BLANKS}x"'), id="blanks in an attribute"),
        pytest.param(attribute("depth: 10**10**10"), id="a power"),
        pytest.param(attribute("depth: 2**(2**40)"), id="a power of two"),
        pytest.param(attribute("depth: 2**2000"), id="an integer beyond floats"),
        pytest.param(attribute("depth: 32, read_bandwidth: 1e-999999999"), id="a tiny number"),
        pytest.param(attribute("depth: 32, read_bandwidth: 1e-300"), id="a tiny bandwidth"),
        pytest.param(attribute("depth: 32, sizeKB: 1e300"), id="a huge capacity"),
        pytest.param(
            attribute("depth: a0, " + ", ".join(f"a{n}: a{n + 1}" for n in range(400))), id="a chain"
        ),
        pytest.param(attribute("depth: 1, " + ", ".join(f"a{n}: 1" for n in range(10_000))), id="attributes"),
        pytest.param(spec(arch=architecture(DRAM, *(["  - !Nothing {}\n"] * 10_000), MAC)), id="nodes"),
        pytest.param(spec(arch=architecture(DRAM, ARRAY.replace("4,", "10**15,") * 2, MAC)), id="instances"),
        pytest.param(spec(problem=PROBLEM.replace("C: 4", "C: 10**18")), id="a bound of 1e18"),
        pytest.param(spec(problem=PROBLEM.replace("C: 4", "C: 1000000000000000003")), id="a prime bound"),
        pytest.param(
            spec(problem=PROBLEM.replace("P: 16, C: 4, K: 8", "P: 2**30, C: 2**30, K: 2**30")), id="bounds"
        ),
        pytest.param(
            spec(problem=PROBLEM.replace("K]", "K, " + ", ".join(f"D{n}" for n in range(10_000)) + "]")),
            id="dimensions",
        ),
        pytest.param(spec(problem=PROBLEM.replace("[[[R]]", "[" + "[[R]], " * 10_000 + "[[R]]")), id="ranks"),
        pytest.param(spec(f"ERT:\n  tables:\n{TABLES}"), id="tables"),
        *(pytest.param(text + "a: 1\n", id=name) for name, text in LONG_TEMPLATE.items()),
    ],
)
def test_harm_is_refused_soon(write: Write, text: str):
    path = write("spec.yaml", text)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = process_time()
    with pytest.raises(SpecError) as caught:
        load_timeloop(
            [path], options=LoadOptions(files=FileOptions(limits=Limits(seconds=0.2, template_memory=2**26)))
        )
    assert process_time() - start < SOON_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < LITTLE_KIB
    assert len(caught.value.render()) < 20_000


def test_a_bound_with_many_divisors_is_counted_soon(write: Write):
    problem = PROBLEM.replace("P: 16, C: 4", "P: 2095133040, C: 2**30")
    start = process_time()
    size = mapspace_size(load_timeloop([write("spec.yaml", spec(problem=problem))]).mapspace)
    assert process_time() - start < SOON_S
    assert size.mappings > 10**10


def test_a_prime_bound_is_counted_soon(write: Write):
    problem = PROBLEM.replace("C: 4", f"C: {2**31 - 1}")
    assert mapspace_size(load_timeloop([write("spec.yaml", spec(problem=problem))]).mapspace).factorizations


def test_numbers_of_thousands_of_digits_are_shown_by_their_magnitude():
    assert large_count_text(math.factorial(64) ** 64) == "about 1e5702"


def test_long_words_are_like_nothing():
    start = process_time()
    assert did_you_mean("ab" * 100_000, ["ab" * 100_001]) is None
    assert did_you_mean("depht", ["ab" * 100_001] * 10 + ["depth"]) == "did you mean `depth`?"
    assert process_time() - start < 1.0


class TestTerminal:
    """Names and messages hold nothing that a terminal acts upon."""

    @pytest.mark.parametrize("character", ["\x1b[31m", "\x07", "\u202e", "\x9b", "\n"])
    @pytest.mark.parametrize("name", ["spad", "conv1d", "regfile", "Weights"])
    def test_names_are_printable(self, write: Write, name: str, character: str):
        escaped = f'name: "{name}{character.encode("unicode_escape").decode()}x"'
        text = spec(arch=architecture(DRAM, SPAD, MAC))
        text = text.replace(f"name: {name}", escaped).replace(
            "class: regfile", escaped.replace("name", "class")
        )
        with pytest.raises(SpecError) as caught:
            load_timeloop([write("spec.yaml", text.replace("\\x9b", "\\u009b"))])
        assert all(line.isprintable() for line in caught.value.render().splitlines())

    def test_keys_and_values_in_messages(self, write: Write):
        with pytest.raises(SpecError) as caught:
            load_timeloop([write("spec.yaml", '"\\e]0;title\\a": "\\e[2J"\n')])
        assert "\x1b" not in caught.value.render()
        assert "unknown top-level key `\N{REPLACEMENT CHARACTER}]0;title" in caught.value.render()

    def test_file_names_in_messages_and_notes(self, write: Write):
        with pytest.raises(SpecError) as caught:
            load_timeloop([write("\x1b[31m.yaml", "a: [\n")])
        assert "\x1b" not in caught.value.render()
        loaded = load_timeloop([write("\x1b[32m.yaml", spec("mapper: {timeout: 5}\n"))])
        assert loaded.notes
        assert all(str(note).isprintable() for note in loaded.notes)

    def test_long_messages_are_cut(self, write: Write):
        with pytest.raises(SpecError) as caught:
            load_timeloop([write("spec.yaml", "k" * 900 + ": 1\n" + "? " + "q" * 5000 + "\n: 1\n")])
        assert max(map(len, caught.value.render().splitlines())) <= 2000


class TestPlantedLinks:
    """Symbolic links that come with a spec lead nowhere."""

    @pytest.fixture(autouse=True)
    def files(self, write: Write, tmp_path: Path) -> None:
        write("private/secret.yaml", PROBLEM)
        write("private/more.yaml", "more: 1\n")
        write("design/spec.yaml", "")
        self.write = write
        self.secret = tmp_path / "private" / "secret.yaml"

    def refused(self, text: str, **variables: object) -> str:
        with pytest.raises(SpecError) as caught:
            load_timeloop([self.write("design/spec.yaml", text)], variables)
        return caught.value.message

    def shape(self, name: str) -> str:
        return spec(problem=f"problem: {{shape: {name}, instance: {{R: 3}}}}\n")

    def test_as_a_shape(self):
        message = self.refused(self.shape("planted"))
        assert "unknown problem shape" in message
        Path("design/planted.yaml").symlink_to(self.secret)
        assert "lies outside" in self.refused(self.shape("planted"))

    def test_as_the_directory_of_shapes(self):
        Path("design/problem-shapes").symlink_to(self.secret.parent)
        assert "lies outside" in self.refused(self.shape("secret"))

    def test_as_the_value_of_a_variable(self):
        Path("design/01").symlink_to(self.secret)
        including = f"ignore: !include {self.secret.parent}/more.yaml\n"
        assert "lies outside" in self.refused(including, layer="01")

    def test_a_variable_that_names_a_neighbour_opens_nothing_above(self):
        self.write("design/01.yaml", "a: 1\n")
        assert "lies outside" in self.refused("ignore: !include ../private/more.yaml\n", layer="01.yaml")

    def test_nothing_is_told_about_what_is_not_there(self):
        there, missing = (
            self.refused(f"ignore: !include ../private/{name}.yaml\n") for name in ("more", "mor")
        )
        assert there.replace("more", "mor") == missing

    @pytest.mark.parametrize("call", ["path_exists('../private/{}.yaml')", "find_path('../private/{}.yaml')"])
    def test_nor_to_a_template(self, call: str):
        there, missing = (self.refused("a: {{ " + call.format(name) + " }}\n") for name in ("more", "mor"))
        assert there.replace("more", "mor") == missing

    @pytest.mark.parametrize("pattern", ["*/../../private/*", "**/**/*.yaml", "parts*/../../*/secret.yaml"])
    def test_patterns_stay_inside(self, pattern: str):
        self.write("design/parts/a.yaml", "a: 1\n")
        assert "a pattern may have no `..`" in self.refused("a: {{ include_all('" + pattern + "') }}\n")

    @pytest.mark.parametrize("pattern", ["lin*/{}.yaml", "*/{}.yaml", "**/{}.yaml", "lin*/**/{}.yaml"])
    def test_patterns_do_not_follow_links_that_lead_out(self, pattern: str):
        Path("design/link").symlink_to(self.secret.parent)
        there, missing = (
            self.refused("a: {{ find_paths('" + pattern.format(name) + "') }}\n") for name in ("more", "mor")
        )
        assert there.replace("more", "mor") == missing

    def test_a_search_through_all_files_stays_inside(self):
        Path("design/link").symlink_to("/")
        start = process_time()
        assert "no file matches" in self.refused("a: {{ find_paths('lin*/**/nothing-of-this-name') }}\n")
        assert process_time() - start < 1.0

    @pytest.mark.parametrize("name", ["a" * 3000 + "/*", "a\\0b/*", "\\ud800/*"])
    def test_patterns_that_no_file_can_have(self, name: str):
        assert self.refused("a: {{ include_all('" + name + "') }}\n")


def test_values_of_many_included_files_are_counted_together(write: Write):
    write("big.yaml", "[" + "a, " * 900 + "]\n")
    top = write("spec.yaml", "{% for i in range(99) %}{% set x = include('big.yaml') %}{% endfor %}a: 1\n")
    with pytest.raises(SpecError, match="more than 5000 values in total"):
        load_timeloop([top], options=LoadOptions(files=FileOptions(limits=Limits(nodes=5000))))
