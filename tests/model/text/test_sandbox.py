"""Hostile templates end in an error, soon and without memory."""

import resource
from collections.abc import Callable
from time import process_time

import pytest

from model.text.limits import Limits
from model.text.source import SpecError

LIMITS = Limits(seconds=1.0, rendered_characters=2**20)


@pytest.mark.parametrize(
    "expression",
    [
        "''.__class__.__mro__",
        "''['__class__']",
        "().__class__.__base__.__subclasses__()",
        "{}.__init__.__globals__",
        "cwd.__func__",
        "include.__globals__",
        "include.__closure__",
        "self.__init__",
        "self._TemplateReference__context",
        "namespace.__init__",
        "dict.fromkeys([1])",
        "dict.__subclasses__()",
        "range.__self__",
        "[1] | map(attribute='__class__') | list",
        "[''] | map(attribute='__class__.__mro__') | list",
        "'{0.__class__}'.format(1)",
        "'{:>1000000000}'.format(1)",
        "'a'.format_map({})",
        "[].append(1)",
        "{}.update({'a': 1})",
        "'a'.encode()",
        "'a'.join(['b'])",
        "(1).bit_length()",
    ],
)
def test_python_is_out_of_reach(failure: Callable[..., SpecError], expression: str):
    message = failure("a: {{ " + expression + " }}\n").message
    assert "unsafe" in message or "no attribute" in message


LONG = "{% set ns = namespace(a='a') %}{% for i in range(19) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}"
COLLIDING = f"range(0, {99999 * (2**61 - 1)}, {2**61 - 1})"
"""Numbers of which all have the hash 0."""


def grown(start: str, step: str) -> str:
    """Return a template that applies a step to a value 99 times."""
    loop = "{% for i in range(99) %}{% set ns.x = " + step + " %}{% endfor %}"
    return "{% set ns = namespace(x=" + start + ") %}" + loop + "a: 1"


@pytest.mark.parametrize("name", ["lipsum", "cycler", "joiner", "open", "__import__"])
def test_no_other_globals(failure: Callable[..., SpecError], name: str):
    assert f"'{name}' is undefined" in failure("a: {{ " + name + "() }}\n").message


@pytest.mark.parametrize(
    "name", ["attr", "format", "center", "tojson", "pprint", "xmlattr", "wordwrap", "batch"]
)
def test_no_other_filters(failure: Callable[..., SpecError], name: str):
    assert f"No filter named '{name}'" in failure("a: {{ 'x' | " + name + " }}\n").message


@pytest.mark.parametrize(
    "text",
    [
        "a: {{ 'x' * 10 ** 9 }}",
        "a: {{ [0] * 10 ** 9 }}",
        "a: {{ 10 ** 10 ** 10 ** 10 }}",
        "a: {{ '%1000000000d' % 1 }}",
        "a: {{ 1 | round(10 ** 9) }}",
        "a: {{ 1 | round(-(10 ** 12), 'ceil') }}",
        "a: {{ 'x' | indent(10 ** 9, true) }}",
        "{% for i in range(10 ** 9) %}{% endfor %}a: 1",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}a: 1",
        "{% set x %}{% for i in range(99999) %}" + "y" * 1000 + "{% endfor %}{% endset %}a: 1",
        grown("'a'", "ns.x ~ ns.x"),
        grown("'a'", "ns.x + ns.x"),
        grown("[1]", "[ns.x, ns.x]"),
        grown("1", "{'a': ns.x, 'b': ns.x}"),
        grown("[1]", "ns.x + ns.x"),
        grown("2", "ns.x * ns.x"),
        "{% set s = range(99999) | join %}a: {{ range(99999) | map('replace', '1', s) | join }}",
        "{% set s = range(99999) | join %}a: {{ s | replace('', s) }}",
        "{% set s = range(99999) | join %}a: {{ [s, s, s] | join(s) }}",
        "{% set s = range(99999) | join %}{% for i in range(99) %}{{ s }}{% endfor %}a: 1",
        "{% macro m() %}{{ m() }}{% endmacro %}a: {{ m() }}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}a: {{ m(60) }}",
        "a: {{ " + "(" * 300 + "1" + ")" * 300 + " }}",
        "a: {{ " + "[" * 2000 + "1" + "]" * 2000 + " }}",
        "a: {{ [[]] | sum(start=[]) }}",
        LONG + "a: {{ ns.a.rsplit('ab' ~ ns.a[:200000]) | length }}",
        LONG + "a: {{ ns.a.strip(ns.a | replace('a', 'b') ~ 'a') | length }}",
        LONG + "a: {{ ns.a | trim(ns.a | replace('a', 'b') ~ 'a') | length }}",
        "a: {{ " + COLLIDING + " | unique | list | length }}",
        "a: {{ lcm(*range(2 ** 4000, 2 ** 4000 + 99999)) }}",
        "{% set x = range(2 ** 4000, 2 ** 4000 + 99999) | list %}a: {{ [x, x, x, x, x, x, x, x, x, x] }}",
    ],
)
def test_work_and_text_are_bounded(failure: Callable[..., SpecError], text: str):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = process_time()
    error = failure(text + "\n", limits=LIMITS)
    assert process_time() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB
    assert error.span is not None


@pytest.mark.parametrize("expression", ["cwd() | indent(1e4002)", "cwd().count('x') + 1e400"])
def test_constants_are_finite(failure: Callable[..., SpecError], expression: str):
    error = failure("a: 1\nb: {{ " + expression + " }}\n")
    assert error.message == "template: a number is not finite"
    assert error.span is not None
    assert error.span.line == 2
