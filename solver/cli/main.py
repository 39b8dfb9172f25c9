"""From arguments to an exit code: dispatch, and the errors that users cause."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from solver.cli.arguments import parse_arguments
from solver.cli.output import OutputError, write_error, write_stderr
from solver.exit_codes import EXIT_BROKEN_PIPE, EXIT_INFEASIBLE, EXIT_INVALID
from solver.report.pictures import PlotError
from solver.result import TooLargeError

OWN_MODULES = ("assign", "bound", "prove", "network", "sweep")
"""Commands in modules of their name; all others are in ``commands``."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors that users cause are reported on stderr.

    Every function `solver.cli.*.NAME_command` takes the parsed arguments and returns the exit code. It may
    raise `OutputError`, `PlotError`, `SpecError` and `TooLargeError`, which this function reports.
    """
    try:
        return _run_command(parse_arguments(sys.argv[1:] if arguments is None else arguments))
    except (OutputError, PlotError, TooLargeError) as error:
        write_error(error)
        return EXIT_INVALID
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE
    except FileNotFoundError:
        if _has_directory():
            raise
        write_error(OutputError("the working directory no longer exists: change to one that does"))
        return EXIT_INVALID


def _has_directory() -> bool:
    """Whether the working directory still exists."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _run_command(options: argparse.Namespace) -> int:
    """Run a command; errors in its specs are reported on stderr."""
    from model.text.source import ConflictError, SpecError

    try:
        return _command(options.command)(options)
    except ConflictError as error:
        from solver.cli.running import say_conflict

        say_conflict(error)
        return EXIT_INFEASIBLE
    except SpecError as error:
        from solver.cli.prove import known_output

        outputs = filter(None, map(known_output, getattr(options, "specs", None) or ()))
        write_stderr(next(outputs, f"{error.render()}\n"))
        return EXIT_INVALID


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    """Import a command and none of the others, so that a wrong spec is answered at once."""
    module = import_module(f"solver.cli.{name if name in OWN_MODULES else 'commands'}")
    run: Callable[[argparse.Namespace], int] = getattr(module, f"{name}_command")
    return run
