"""Arguments that several commands share, and what the exit codes mean."""

from __future__ import annotations

import argparse
import difflib
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from model.objective import OBJECTIVES, TIMELOOP_METRICS
from model.text.limits import Limits
from solver.exit_codes import (
    EXIT_BROKEN_PIPE,
    EXIT_DEFECT,
    EXIT_FEASIBLE,
    EXIT_INFEASIBLE,
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_OPTIMAL,
    EXIT_UNCHECKED,
    EXIT_UNKNOWN,
    EXIT_UNPROVEN,
)
from solver.result import Options, Status

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = argparse._SubParsersAction

Group = argparse._ArgumentGroup

DEFAULTS = Options()

LARGEST_SEED = (1 << 31) - 1
MOST_DIGITS = 18
LONGEST_SHOWN = 60

EXIT_OF_STATUS = {
    Status.OPTIMAL: EXIT_OPTIMAL,
    Status.FEASIBLE: EXIT_FEASIBLE,
    Status.INFEASIBLE: EXIT_INFEASIBLE,
    Status.UNKNOWN: EXIT_UNKNOWN,
}

EXIT_CODES = f"""\
exit codes:
  {EXIT_OPTIMAL}    what was found is proven optimal, or the command did its work
  {EXIT_UNPROVEN}    a certificate is INVALID (prove, network --check)
  {EXIT_INVALID}    invalid input: a spec, a mapping or an argument; or an output that cannot be written
  {EXIT_FEASIBLE}    a mapping was found, but it is not proven optimal
  {EXIT_INFEASIBLE}    no mapping satisfies the constraints, which is proven; the mapping breaks
       a limit of the hardware (evaluate); the operator cannot be tiled (tile)
  {EXIT_UNKNOWN}    stopped before a mapping or a proof was found
  {EXIT_UNCHECKED}    a certificate cannot be checked, as in the time given (prove, network --check)
  {EXIT_DEFECT}   a defect of this program, or too little memory
  {EXIT_INTERRUPTED}  interrupted before or after the search, or twice during it;
       the first interrupt of a search ends it with the best mapping so far
  {EXIT_BROKEN_PIPE}  nobody reads stdout any more
"""


def add_spec_command(
    commands: Commands,
    name: str,
    summary: str,
    specs_nargs: str = "+",
    specs_help: str = "YAML files with a problem and an architecture, merged by top-level key",
) -> argparse.ArgumentParser:
    """Add a command that reads specs, with the options that say how to read them."""
    parser = add_command(commands, name, summary)
    parser.add_argument("specs", nargs=specs_nargs, type=file_path, metavar="SPEC", help=specs_help)
    add_reading(parser)
    return parser


def add_command(commands: Commands, name: str, summary: str) -> argparse.ArgumentParser:
    """Add a command; `summary` describes it in the list of commands, and in its help unless that is set."""
    return commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options on how specs are read, from where, and what they may ask for."""
    group = parser.add_argument_group("how specs are read")
    group.add_argument(
        "--set",
        dest="variables",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a variable of the templates; may be repeated",
    )
    group.add_argument(
        "--ignore-sparse",
        action="store_true",
        help="drop densities and sparse optimizations instead of refusing them",
    )
    group.add_argument(
        "--timeloop-padding",
        action="store_true",
        help="pad incomplete spatial permutations before the split is applied, as Timeloop's front end does",
    )
    group.add_argument(
        "--allow-include",
        dest="include_roots",
        action="append",
        default=[],
        type=directory,
        metavar="DIR",
        help="let the specs include files from DIR as well; may be repeated",
    )
    group.add_argument(
        "--limit",
        dest="limits",
        action="append",
        default=[],
        type=limit,
        metavar="NAME=VALUE",
        help="let the specs ask for more, or for less, such as nodes=1000000; may be repeated",
    )


def add_search_options(parser: argparse.ArgumentParser, seeded: str | None = None) -> None:
    """Add the options of every command that searches: objective, limits, workers, seed (of `seeded`)."""
    group = parser.add_argument_group("search")
    group.add_argument(
        "--objective",
        type=objectives,
        metavar="LIST",
        help=f"one of {', '.join(OBJECTIVES)}, or several with commas between, compared in that order "
        "(default: the spec's optimization_metrics, or edp)",
    )
    add_effort(group, "mapping", "; why nothing fits is found in what is left, or in 2 seconds", seeded)
    add_memory_limit(group)


def add_memory_limit(group: Group) -> None:
    """Add ``--memory-limit``."""
    group.add_argument(
        "--memory-limit",
        type=positive,
        default=DEFAULTS.memory_limit_mib,
        metavar="MIB",
        help="memory for the tables of the search, in each worker (default: %(default)s MiB)",
    )


def add_effort(group: Group, sought: str, more: str = "", seeded: str | None = None) -> None:
    """Add time limit, workers and seed.

    `sought` is what is found, `more` what else the limit is for, `seeded` what the seed is of. Without that,
    the seed is refused: it would have no effect.
    """
    group.add_argument(
        "--time-limit",
        type=seconds,
        metavar="S",
        help=f"stop after S seconds with the best {sought} so far, as the first Ctrl-C does{more}",
    )
    group.add_argument(
        "--jobs",
        type=positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="workers (default: all cores)",
    )
    group.add_argument(
        "--seed",
        type=seed if seeded else refused_seed,
        default=DEFAULTS.seed,
        metavar="N",
        help=f"seed of {seeded}" if seeded else argparse.SUPPRESS,
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json OUT``."""
    parser.add_argument(
        "--json", type=file_path, metavar="OUT", help="write the result as JSON (- is stdout)"
    )


def add_csv_and_plot(parser: argparse.ArgumentParser, drawn: str) -> None:
    """Add ``--csv OUT``, and ``--plot OUT`` for a picture of what is `drawn`."""
    parser.add_argument("--csv", type=file_path, metavar="OUT", help="write a CSV table (- is stdout)")
    parser.add_argument(
        "--plot",
        type=file_path,
        metavar="OUT",
        help=f"draw {drawn} into a PNG, SVG or PDF file; needs matplotlib",
    )


def file_path(text: str) -> Path:
    """Read a path; an empty one, as a variable of the shell that is not set leaves it, is no place.

    Raises
    ------
    argparse.ArgumentTypeError
        It is empty.
    """
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def directory(text: str) -> Path:
    """Read the path of a directory that exists.

    Raises
    ------
    argparse.ArgumentTypeError
        There is none.
    """
    if not text or not os.path.isdir(text):  # noqa: PTH112 (names that are too long are none either)
        raise argparse.ArgumentTypeError(f"there is no directory {text!r}")
    return Path(text)


def objectives(text: str) -> tuple[str, ...]:
    """Read a list of objectives.

    Raises
    ------
    argparse.ArgumentTypeError
        One is unknown, or stands there twice.
    """
    names = tuple(part.strip() for part in text.split(","))
    try:
        Options(objectives=names)
    except ValueError as error:
        unknown = next((name for name in names if name not in OBJECTIVES), "")
        raise argparse.ArgumentTypeError(f"{error}{other_objective(unknown)}") from None
    return names


def other_objective(name: str) -> str:
    """Return the end of a message that `name` is no objective: which one may be meant, if any."""
    folded = name.lower()
    close = difflib.get_close_matches(folded, OBJECTIVES, n=1)
    meant = TIMELOOP_METRICS.get(folded) or "".join(close)
    if meant:
        return f"; did you mean {meant!r}?"
    return "; accesses are none" if "accesses" in folded else ""


def limit(text: str) -> tuple[str, float]:
    """Read the name and value of a limit on specs.

    Raises
    ------
    argparse.ArgumentTypeError
        There is no such limit, or the value is none.
    """
    name, _, value = text.partition("=")
    known = {field.name: field.default for field in fields(Limits)}
    if name not in known:
        raise argparse.ArgumentTypeError(f"there is no limit {name!r}; known are {', '.join(known)}")
    return name, seconds(value) if isinstance(known[name], float) else positive(value)


def seconds(text: str) -> float:
    """Read a non-negative number of seconds.

    Raises
    ------
    argparse.ArgumentTypeError
        It is no number, negative or infinite.
    """
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a number of seconds") from None
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a number of seconds")
    return seconds


def seed(text: str) -> int:
    """Read a seed.

    Raises
    ------
    argparse.ArgumentTypeError
        It is no integer from 0 to `LARGEST_SEED`.
    """
    value = _natural(text)
    if value is None or value > LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not an integer from 0 to {LARGEST_SEED}")
    return value


def refused_seed(_text: str) -> int:
    """Refuse a seed where nothing is drawn at random.

    Raises
    ------
    argparse.ArgumentTypeError
        Always.
    """
    raise argparse.ArgumentTypeError("this search draws no random numbers, so a seed has no effect")


def positive(text: str) -> int:
    """Read a positive integer.

    Raises
    ------
    argparse.ArgumentTypeError
        It is no integer above 0, or has more than `MOST_DIGITS` digits.
    """
    value = _natural(text)
    if len(text) > MOST_DIGITS and text.isdecimal():
        raise argparse.ArgumentTypeError(f"{shown(text)} has more than {MOST_DIGITS} digits")
    if not value:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a positive integer")
    return value


def _natural(text: str) -> int | None:
    """Read digits; None for other text, and for more of them than anything here can be as large as."""
    if not text.isascii() or not text.isdecimal() or len(text) > MOST_DIGITS:
        return None
    return int(text)


def shown(text: str) -> str:
    """Return a wrong argument for its message, the beginning of a long one."""
    return repr(text) if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]!r}..."
