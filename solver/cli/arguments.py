"""The arguments of the command line, and what its exit codes mean."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from solver.result import OBJECTIVES, Options

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULTS = Options()

LARGEST_SEED = (1 << 31) - 1

EXIT_OPTIMAL = 0
EXIT_INVALID = 2
EXIT_FEASIBLE = 3
EXIT_INFEASIBLE = 4
EXIT_UNKNOWN = 5
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

EXIT_CODES = f"""\
exit codes:
  {EXIT_OPTIMAL}    the mapping is proven optimal (map), or the command did its work
  {EXIT_INVALID}    invalid input: a spec, a mapping or an argument
  {EXIT_FEASIBLE}    a mapping was found, but it is not proven optimal
  {EXIT_INFEASIBLE}    no mapping satisfies the constraints; this is proven (map),
       or the mapping breaks a limit of the hardware (evaluate)
  {EXIT_UNKNOWN}    stopped before a mapping or a proof was found
  {EXIT_INTERRUPTED}  interrupted before or after the search, or twice during it;
       the first interrupt of a search ends it with the best mapping so far
"""


def build_parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of ``python -m solver``, and the parser of each command."""
    parser = argparse.ArgumentParser(
        prog="python -m solver",
        description="Find the best mapping of a tensor workload onto an accelerator, and prove it.",
        epilog=f"`python -m solver SPEC...` means `python -m solver map SPEC...`.\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    group = parser.add_subparsers(required=True, metavar="{map,evaluate,check}")
    commands = {"map": _add_map(group), "evaluate": _add_evaluate(group), "check": _add_check(group)}
    return parser, commands


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse `arguments`; a first word that is no command means ``map``.

    The result's ``command`` names the command. Options may stand between the specs.

    Raises
    ------
    SystemExit
        With 2 on a wrong argument, with 0 after ``--help``.
    """
    parser, commands = build_parsers()
    words = list(arguments)
    if not words or words[0] in ("-h", "--help"):
        return parser.parse_args(words)
    name = words.pop(0) if words[0] in commands else "map"
    parsed = commands[name].parse_intermixed_args(words)
    parsed.command = name
    return parsed


def _add_map(commands: Commands) -> argparse.ArgumentParser:
    parser = _command(commands, "map", "find the best mapping and prove it")
    parser.add_argument(
        "--objective",
        type=_objectives,
        metavar="LIST",
        help=f"one of {', '.join(OBJECTIVES)}, or several with commas between, compared in that order "
        "(default: the spec's optimization_metrics, or edp)",
    )
    parser.add_argument(
        "--time-limit", type=_seconds, metavar="S", help="stop after S seconds with the best mapping so far"
    )
    parser.add_argument(
        "--jobs",
        type=_positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="workers (default: all cores)",
    )
    parser.add_argument(
        "--seed", type=_seed, default=DEFAULTS.seed, metavar="N", help="seed of the solver core"
    )
    parser.add_argument(
        "--memory-limit",
        type=_positive,
        default=DEFAULTS.memory_limit_mib,
        metavar="MIB",
        help="memory for the tables of the search (default: %(default)s MiB)",
    )
    _add_json(parser)
    parser.add_argument(
        "--mapping", type=Path, metavar="OUT", help="write the mapping as Timeloop v4 YAML (- is stdout)"
    )
    parser.add_argument(
        "--quiet", action="store_true", help="no progress and no report; files and exit code only"
    )
    return parser


def _add_evaluate(commands: Commands) -> argparse.ArgumentParser:
    parser = _command(commands, "evaluate", "price a given mapping")
    parser.add_argument(
        "--mapping", type=Path, required=True, metavar="MAP", help="YAML file with a Timeloop v4 mapping"
    )
    parser.add_argument(
        "--link-transfers",
        action="store_true",
        help="count transfers between neighbours, as Timeloop does by default",
    )
    _add_json(parser)
    return parser


def _add_check(commands: Commands) -> argparse.ArgumentParser:
    return _command(commands, "check", "validate a spec; print hierarchy, problem and size of the mapspace")


def _command(commands: Commands, name: str, summary: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "specs", nargs="+", type=Path, metavar="SPEC", help="YAML files, merged by top-level key"
    )
    parser.add_argument(
        "--set",
        dest="variables",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a variable of the templates; may be repeated",
    )
    parser.add_argument(
        "--ignore-sparse",
        action="store_true",
        help="drop sparse attributes and optimizations instead of refusing them",
    )
    parser.add_argument(
        "--timeloop-padding",
        action="store_true",
        help="pad incomplete spatial permutations before the split is applied, as Timeloop's front end does",
    )
    parser.add_argument(
        "--allow-include",
        dest="include_roots",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="let the specs include files from DIR as well; may be repeated",
    )
    return parser


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the result as JSON (- is stdout)")


def _objectives(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    try:
        Options(objectives=names)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return names


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to {LARGEST_SEED}")
    return int(text)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)
