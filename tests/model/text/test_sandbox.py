"""Hostile templates end in an error, quickly and with little memory."""

import math
import os
import resource
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import process_time, sleep

import pytest

from model.text.limits import Limits
from model.text.reader import read_files
from model.text.sandbox import StoppedError, run_confined
from model.text.source import SpecError, to_plain

LIMITS = Limits(seconds=0.2, rendered_characters=2**20, template_memory=2**26)
SOON_S = 5.0
ADDED_KIB = 500_000
"""Of a template's process, on top of the one that it is forked from."""


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
        "dict.__subclasses__()",
        "range.__self__",
        "[1] | map(attribute='__class__') | list",
        "[''] | map(attribute='__class__.__mro__') | list",
        "'{0.__class__}'.format(1)",
        "'' | attr('__class__')",
        "[''] | groupby('__class__')",
        "[].append(1)",
        "{}.update({'a': 1})",
        "cycle.__init__.__globals__['os']",
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


REFUSED = [
    "a: {{ 'x' * 10 ** 9 }}",
    "a: {{ [0] * 10 ** 9 }}",
    "a: {{ 10 ** 10 ** 10 ** 10 }}",
    "a: {{ '%1000000000d' % 1 }}",
    "a: {{ '{:>1000000000}'.format(1) }}",
    "a: {{ 'x' | center(1000000000) }}",
    "a: {{ 1 | round(-(10 ** 12), 'ceil') }}",
    "a: {{ 1 | round(10 ** 12, 'ceil') }}",
    "a: {{ 'x' | indent(10 ** 9, true) }}",
    "{% for i in range(10 ** 9) %}{% endfor %}a: 1",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}a: 1",
    "{% for i in range(99999) %}{% set x %}" + "y" * 1000 + "{{ i }}{% endset %}{{ x }}{% endfor %}a: 1",
    grown("'a'", "ns.x ~ ns.x"),
    grown("'a'", "ns.x + ns.x"),
    grown("[1]", "ns.x + ns.x"),
    grown("2", "ns.x * ns.x"),
    grown("[1]", "[ns.x, ns.x]") + "{{ ns.x }}",
    grown("1", "{'a': ns.x, 'b': ns.x}") + "{{ ns.x }}",
    "{% set s = range(99999) | join %}a: {{ range(99999) | map('replace', '1', s) | join }}",
    "{% set s = range(99999) | join %}a: {{ s | replace('', s) }}",
    "{% set s = range(99999) | join %}a: {{ [s, s, s] | join(s) }}",
    "{% set s = range(99999) | join %}{% for i in range(99) %}{{ s }}{% endfor %}a: 1",
    "{% macro m() %}{{ m() }}{% endmacro %}a: {{ m() }}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}a: {{ m(60) }}",
    "a: {{ " + "(" * 300 + "1" + ")" * 300 + " }}",
    "a: {{ " + "[" * 2000 + "1" + "]" * 2000 + " }}",
    LONG + "a: {{ ns.a.rsplit('ab' ~ ns.a[:200000]) | length }}",
    LONG + "a: {{ ns.a.strip(ns.a | replace('a', 'b') ~ 'a') | length }}",
    LONG + "a: {{ ns.a | trim(ns.a | replace('a', 'b') ~ 'a') | length }}",
    "a: {{ " + COLLIDING + " | unique | list | length }}",
    "a: {{ dict(" + COLLIDING + " | batch(2) | list) | length }}",
    "a: {{ lcm(*range(2 ** 4000, 2 ** 4000 + 99999)) }}",
    "{% set x = range(2 ** 4000, 2 ** 4000 + 99999) | list %}a: {{ [x, x, x, x, x, x, x, x, x, x] }}",
    "{% if 1 %}x: 1{% endif %}\n" * 100_000,
]


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_time_memory_and_text_are_bounded(
    failure: Callable[..., SpecError], text: str, monkeypatch: pytest.MonkeyPatch
):
    usages, wait = [], os.wait4

    def noted(*child: int) -> tuple[int, int, resource.struct_rusage]:
        ended = wait(*child)
        usages.append(ended[2])
        return ended

    monkeypatch.setattr(os, "wait4", noted)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = process_time()
    error = failure(text + "\n", limits=LIMITS)
    spent_s = process_time() - start + sum(usage.ru_utime + usage.ru_stime for usage in usages)
    assert spent_s < SOON_S
    assert max((usage.ru_maxrss for usage in usages), default=0) < before + ADDED_KIB
    assert error.span is not None


@pytest.mark.parametrize(
    "text",
    [
        "a: {{ [[]] | sum(start=[]) }}",
        grown("[1]", "[ns.x, ns.x]"),
        "{% set x %}{% for i in range(9999) %}" + "y" * 1000 + "{% endfor %}{% endset %}a: 1",
    ],
)
def test_what_stays_within_the_limits_is_rendered(plain: Callable[..., object], text: str):
    assert plain(text + "\n", limits=LIMITS)["a"] in (1, [])


class TestPlaces:
    """A template that is stopped is shown where it was, even if Python itself could not be interrupted."""

    STUCK = LONG + "\na: {{ ns.a.rsplit('ab' ~ ns.a[:200000]) | length }}\n"

    def test_in_the_file_itself(self, failure: Callable[..., SpecError]):
        error = failure(self.STUCK, limits=LIMITS)
        assert error.message == "templates take longer than 0.2 s"
        assert error.hint == "`--limit seconds=N` allows more"
        assert str(error.span) == "spec.yaml:2:1"

    @pytest.mark.parametrize("call", ["include('b\u00e4.yaml', 'a')", "include_text('b\u00e4.yaml')"])
    def test_in_an_included_file(self, failure: Callable[..., SpecError], write: Callable, call: str):
        write("b\u00e4.yaml", "\n" + self.STUCK)
        error = failure("x: 1\n\ny: {{ " + call + " }}\n", limits=LIMITS)
        assert str(error.span) == "b\\xe4.yaml:3:1"
        assert [(str(span), text) for span, text in error.related] == [("spec.yaml:3:1", "included here")]

    def test_of_too_much_memory(self, failure: Callable[..., SpecError]):
        # Small objects are slow where earlier tests left much free heap: for each, Python asks the system for
        # memory in vain before it uses that.
        grow = "{% for i in range(99999) %}{% set ns.x = [ns.x, '" + "y" * 99999 + "' ~ i] %}{% endfor %}"
        limits = replace(LIMITS, seconds=30.0)
        error = failure("a: 1\n{% set ns = namespace(x=1) %}\n" + grow, limits=limits)
        assert error.message == "templates take more than 64 MiB of memory"
        assert str(error.span) == "spec.yaml:3:1"


class TestChild:
    """The process in which templates are rendered."""

    def confined(self, work: Callable[[], object], seconds: float = 5.0) -> object:
        return run_confined(work, seconds, 2**26)[0]

    def test_it_returns_results_and_exceptions(self):
        assert self.confined(lambda: {"a": (1, [2.5])}) == {"a": (1, [2.5])}
        with pytest.raises(ZeroDivisionError) as caught:
            self.confined(lambda: 1 // 0)
        assert "in <lambda>" in caught.value.__notes__[0]

    def test_it_changes_nothing_here(self):
        values = [1]
        self.confined(lambda: values.append(2))
        assert values == [1]

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
    def test_its_crash_is_an_error(self, number: int):
        with pytest.raises(StoppedError) as caught:
            self.confined(lambda: os.kill(os.getpid(), number))
        assert caught.value.number == number

    @pytest.mark.parametrize("seconds", [1e-9, 0.05])
    def test_its_time_is_limited(self, seconds: float):
        with pytest.raises(StoppedError) as caught:
            self.confined(lambda: [None for _ in iter(int, 1)], seconds)
        assert caught.value.number == signal.SIGPROF

    def test_limits_beyond_all_bounds_are_none(self):
        assert run_confined(lambda: 1, math.inf, 10**30)[0] == 1

    def test_it_writes_no_files(self, tmp_path: Path):
        with pytest.raises(OSError, match="File too large"):
            self.confined(lambda: (tmp_path / "a").write_text("text"))

    def test_an_interrupt_ends_it(self, interrupts: None, monkeypatch: pytest.MonkeyPatch):
        children, fork, opened = [], os.fork, os.fdopen

        def noted() -> int:
            child = fork()
            children.append(child)
            return child

        def read_soon(*words: object) -> object:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            return opened(*words)

        monkeypatch.setattr(os, "fork", noted)
        monkeypatch.setattr(os, "fdopen", read_soon)
        with pytest.raises(KeyboardInterrupt):
            self.confined(lambda: sleep(600))
        with pytest.raises(ChildProcessError):
            os.waitpid(children[0], os.WNOHANG)

    def test_it_leaves_nothing_open(self):
        before = [*Path("/dev/fd").iterdir()]
        self.confined(lambda: 1)
        with pytest.raises(StoppedError):
            self.confined(lambda: os._exit(3))
        assert [*Path("/dev/fd").iterdir()] == before

    def test_several_threads_have_one_each(self, write: Callable[..., Path]):
        paths = [write(f"{number}.yaml", f"a: {{{{ {number} + 1 }}}}\n") for number in range(12)]
        with ThreadPoolExecutor(4) as pool:
            read = list(pool.map(lambda path: to_plain(read_files([path])), paths))
        assert read == [{"a": number + 1} for number in range(12)]

    def test_without_fork_templates_are_rendered_here(self, plain: Callable, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delattr(os, "fork")
        assert plain("a: {{ 1 + 1 }}\n") == {"a": 2}


@pytest.mark.parametrize("expression", ["cwd() | indent(1e4002)", "cwd().count('x') + 1e400"])
def test_constants_are_finite(failure: Callable[..., SpecError], expression: str):
    error = failure("a: 1\nb: {{ " + expression + " }}\n")
    assert error.message == "template: a number is not finite"
    assert error.span is not None
    assert error.span.line == 2
