"""Where untrusted templates run: a child process under limits, and in it Jinja2's own sandbox."""

from __future__ import annotations

import ast
import faulthandler
import gc
import os
import pickle
import re
import signal
import threading
import traceback
from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import NoReturn, TypeVar

from jinja2 import StrictUndefined, Undefined, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Namespace

from model.text.arithmetic import FUNCTIONS, OPERATORS, calculate, short_enough, type_name
from model.text.source import SpecError

CODE_NAME = "template:"
"""What the names of compiled templates begin with, so that tracebacks can be searched for them."""

_Result = TypeVar("_Result")

_FRAME = re.compile(rb'File "' + CODE_NAME.encode() + rb'([^"\n]*)", line (\d+)')
_ADDRESS_SPACE = Path("/proc/self/statm")
_PATIENCE_S = 10.0
_PATIENCE_FACTOR = 20.0
"""A child may take this long on the clock, plus so many times its processor time."""

_LEAST_S, _MOST_S = 1e-3, 1e6
_MOST_BYTES = 2**60
"""What the system calls take: 0 s would be no limit."""

_FORKING = threading.Lock()
"""Held from a pipe's making until only one child can write to it."""

_FOREIGN_STATEMENTS = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


class StoppedError(Exception):
    """The child process ended before its work was done, by a signal (0 for none).

    `frames` are escaped names and lines of the templates that it was rendering, innermost first; known only
    for SIGPROF, which ends it when its processor time is used up.
    """

    def __init__(self, number: int, frames: tuple[tuple[str, int], ...]) -> None:
        super().__init__(number, frames)
        self.number = number
        self.frames = frames


def run_confined(work: Callable[[], _Result], seconds: float, memory_bytes: int) -> tuple[_Result, float]:
    """Run `work` in a child process that can take no more than some time and memory.

    What it changes is lost with the child; its result, or its exception without a traceback, is pickled. On
    systems without ``fork`` it runs in this process, without limits.

    Parameters
    ----------
    work
        It finds all modules loaded and only its own thread alive.
    seconds, memory_bytes
        Processor time, more than 0; address space on top of what this process has, where there is ``/proc``.

    Returns
    -------
    tuple
        The result, and the processor time in seconds.

    Raises
    ------
    StoppedError
        The child exceeded a limit without raising an exception, or crashed.
    OSError
        There can be no child.
    """
    if not hasattr(os, "fork"):
        return work(), 0.0
    child, receiver = _start_child(work, seconds, memory_bytes)
    try:
        with os.fdopen(receiver, "rb") as stream:
            answer = stream.read()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        status, spent_s = _reap(child)
    if status != 0 or not answer:
        frames = tuple((name.decode(), int(line)) for name, line in _FRAME.findall(answer))
        raise StoppedError(status & 0x7F, frames)
    done, result = pickle.loads(answer)
    if not done:
        raise result
    return result, spent_s


def _start_child(work: Callable[[], object], seconds: float, memory_bytes: int) -> tuple[int, int]:
    """Return a child's process number and the file descriptor that its answer comes from."""
    with _FORKING:
        receiver, sender = os.pipe()
        # No handler of this process may run in the child before the child has its own limits and handlers.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            child = os.fork() or _serve(work, sender, seconds, memory_bytes)  # 0 in the child
        except OSError:
            os.close(receiver)
            raise
        finally:
            os.close(sender)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return child, receiver


def _reap(child: int) -> tuple[int, float]:
    """Wait for the end of a child; return its status, and its processor time in seconds."""
    try:
        _, status, usage = os.wait4(child, 0)
    except ChildProcessError:  # where SIGCHLD is ignored, nothing is known of children
        return 0, 0.0
    return status, usage.ru_utime + usage.ru_stime


def _serve(work: Callable[[], object], sender: int, seconds: float, memory_bytes: int) -> NoReturn:
    """Do the work as the child process, and end it: nothing of the parent is flushed or finalized."""
    code = 1
    try:
        _limit(sender, seconds, memory_bytes)
        answer = _pickled_result(work)
        with os.fdopen(sender, "wb") as stream:
            stream.write(answer)
        code = 0
    finally:
        os._exit(code)


def _pickled_result(work: Callable[[], object]) -> bytes:
    """Return whether the work was done, and its result or exception, pickled."""
    try:
        return pickle.dumps((True, work()))
    except Exception as error:
        if not isinstance(error, SpecError):
            error.add_note(traceback.format_exc())
        return pickle.dumps((False, error))


def _limit(sender: int, seconds: float, memory_bytes: int) -> None:
    """Set the limits of this process; at the end of its time it writes where it is, even within C code."""
    import resource  # noqa: PLC0415 (not on Windows)

    gc.freeze()
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the child
    faulthandler.register(signal.SIGPROF, sender, all_threads=False, chain=True)
    seconds = min(max(seconds, _LEAST_S), _MOST_S)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE_S + _PATIENCE_FACTOR * seconds)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0}
    with suppress(OSError):
        pages = int(_ADDRESS_SPACE.read_text().split()[0])
        limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + min(memory_bytes, _MOST_BYTES)
    for kind, most in limits.items():
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


class SpecEnvironment(ImmutableSandboxedEnvironment):
    """Jinja2's sandbox with the arithmetic and functions of expressions, and the statement ``assert``."""

    intercepted_binops = OPERATORS

    def __init__(self) -> None:
        super().__init__(
            undefined=StrictUndefined,
            keep_trailing_newline=True,
            finalize=_printed,
            cache_size=0,
            extensions=(AssertStatement,),
        )
        functions = {name: _template_function(name) for name in FUNCTIONS}
        self.globals = {**functions, "range": safe_range, "dict": dict, "namespace": Namespace}

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Calculate as expressions do; errors as for `model.text.arithmetic.calculate`."""
        return calculate(operator, _defined(left), _defined(right))

    def fail(self, message: object) -> NoReturn:
        """Raise the AssertionError of an ``assert`` whose condition does not hold."""
        raise AssertionError(message)

    def _compile(self, source: str, filename: str) -> CodeType:
        """Compile the code of a template under the template's lines, so that all tracebacks name these."""
        tree = ast.parse(source)
        last = tree.body[-1]
        assert isinstance(last, ast.Assign) and isinstance(
            last.value, ast.Constant
        )  # debug_info = "1=9&2=14"
        pairs = [pair.split("=") for pair in str(last.value.value).split("&") if pair]
        starts = [int(start) for _, start in pairs]
        for node in ast.walk(tree):
            if isinstance(node, (ast.stmt, ast.expr, ast.excepthandler, ast.keyword, ast.arg, ast.alias)):
                place = bisect_right(starts, node.lineno) - 1
                node.lineno = node.end_lineno = int(pairs[place][0]) if place >= 0 else 1
                node.col_offset = node.end_col_offset = 0
        return compile(tree, filename, "exec")


class AssertStatement(Extension):
    """The statement ``{% assert condition, "message" %}``."""

    tags = {"assert"}  # noqa: RUF012 (Jinja2 declares it so)

    def parse(self, parser: Parser) -> nodes.Node:
        """Turn the statement into a condition whose failure raises the message."""
        line = next(parser.stream).lineno
        condition = parser.parse_expression()
        message: nodes.Expr = nodes.Const("an assertion failed")
        if parser.stream.skip_if("comma"):
            message = parser.parse_expression()
        call = nodes.Call(nodes.EnvironmentAttribute("fail"), [message], [], None, None)
        return nodes.If(nodes.Not(condition), [nodes.ExprStmt(call, lineno=line)], [], [], lineno=line)


def foreign_statement(template: nodes.Template) -> nodes.Node | None:
    """Return a statement of a parsed template that would load another template, if there is one."""
    return next(template.find_all(_FOREIGN_STATEMENTS), None)


def _template_function(name: str) -> Callable[..., object]:
    return lambda *arguments: short_enough(FUNCTIONS[name](name, [_defined(part) for part in arguments]))


def _defined(value: object) -> object:
    """Return `value`; an undefined one raises its error here."""
    if isinstance(value, Undefined):
        str(value)
    return value


def _printed(value: object) -> object:
    """Return what is printed for a value: YAML writes None as null."""
    _check_printable(value)
    return "null" if value is None else value


def _check_printable(value: object) -> None:
    """Check that a value is plain; TypeError for one that Python would print with its address."""
    if isinstance(value, (list, tuple)):
        for part in value:
            _check_printable(part)
    elif isinstance(value, Mapping):
        _check_printable([*value.keys(), *value.values()])
    elif not isinstance(_defined(value), (str, int, float, type(None))):
        raise TypeError(f"{type_name(value)} cannot be printed")
