"""The arguments of ``assign``."""

from __future__ import annotations

import argparse
from pathlib import Path

from model.objective import ADDITIVE, OBJECTIVES
from solver.cli.network_arguments import add_searches
from solver.cli.options import (
    Commands,
    add_effort,
    add_json,
    add_memory_limit,
    add_spec_command,
    file_path,
    other_objective,
    positive,
)
from solver.criteria import CRITERIA, TOTAL

PICTURES = (".png", ".svg", ".pdf")
DOT = (".dot", ".gv")


def add_assign(commands: Commands) -> argparse.ArgumentParser:
    """Add the command ``assign``."""
    summary = "choose a method for every layer of a network, and prove the choice best"
    files = "YAML files with a network, merged by top-level key; with --methods, and an architecture"
    parser = add_spec_command(commands, "assign", summary, specs_help=files)
    parser.description = """\
Choose a method for every layer of a network so that execution and transitions
together cost the least, and prove it."""
    _add_costs(parser)
    search = parser.add_argument_group("search")
    search.add_argument(
        "--objective",
        type=additive,
        metavar="NAME",
        help=f"with --methods: what costs are, {' or '.join(ADDITIVE)} (default: {ADDITIVE[0]})",
    )
    add_effort(search, "assignment")
    add_memory_limit(search)
    add_searches(parser)
    _add_outputs(parser)
    return parser


def _add_costs(parser: argparse.ArgumentParser) -> None:
    """Add the options on where the costs of methods come from, if not from the network."""
    parser.add_argument(
        "--methods",
        type=file_path,
        metavar="FILE",
        help="let the mapper find what each layer costs by each method of FILE; --time-limit, "
        "--memory-limit, --cache, --resume and --cluster are then about its searches",
    )
    parser.add_argument(
        "--dsp-budget",
        type=positive,
        metavar="N",
        help="choose rows and columns of the systolic array with at most N multipliers",
    )
    parser.add_argument(
        "--array-criterion",
        choices=CRITERIA,
        default=TOTAL,
        help="what the array is chosen by: the total of the best assignment, the sum of the layers' cheapest "
        "methods, or the sum over all methods (default: %(default)s)",
    )


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument(
        "--plot",
        type=picture,
        metavar="OUT",
        help="draw the layered graph with the chosen methods marked (.png, .svg, .pdf; needs matplotlib)",
    )
    parser.add_argument(
        "--show-graph",
        type=graph,
        metavar="OUT",
        help="write the layered graph alone: DOT (.dot, .gv, or - for stdout) or a picture",
    )
    parser.add_argument("--decomposition", action="store_true", help="print every step of the decomposition")
    parser.add_argument("--quiet", action="store_true", help="no report; files and exit code only")


def additive(text: str) -> tuple[str, ...]:
    """Read an objective that adds up over layers.

    Raises
    ------
    argparse.ArgumentTypeError
        It is another objective, or none.
    """
    if text in ADDITIVE:
        return (text,)
    known = " or ".join(ADDITIVE)
    if text in OBJECTIVES:
        raise argparse.ArgumentTypeError(
            f"{text} is a product, which does not add up over layers: assign for {known}"
        )
    hint = other_objective(text) or "; lists are for `map`"
    raise argparse.ArgumentTypeError(f"{text!r} is not {known}{hint}")


def picture(text: str) -> Path:
    """Read the path of a picture.

    Raises
    ------
    argparse.ArgumentTypeError
        It does not end in one of `PICTURES`.
    """
    return _path(text, PICTURES)


def graph(text: str) -> Path:
    """Read the path of a picture or a DOT file; ``-`` is stdout.

    Raises
    ------
    argparse.ArgumentTypeError
        It ends in none of `PICTURES` and `DOT`.
    """
    return Path(text) if text == "-" else _path(text, (*DOT, *PICTURES))


def _path(text: str, suffixes: tuple[str, ...]) -> Path:
    if Path(text).suffix.lower() not in suffixes:
        raise argparse.ArgumentTypeError(f"{text!r} does not end in {', '.join(suffixes)}")
    return Path(text)
