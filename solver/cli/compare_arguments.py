"""The arguments of ``compare``."""

from __future__ import annotations

import argparse

from solver.cli.options import (
    Commands,
    add_csv_and_plot,
    add_json,
    add_search_options,
    add_spec_command,
    positive,
    seconds,
)

DEFAULT_BUDGET_S = 10.0


def add_compare(commands: Commands) -> argparse.ArgumentParser:
    """Add the command."""
    parser = add_spec_command(commands, "compare", "run heuristic mappers against the proven optimum")
    add_search_options(parser)
    add_mapper_options(parser)
    add_json(parser)
    add_csv_and_plot(parser, "best value against time")
    parser.set_defaults(quiet=False)
    return parser


def add_mapper_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which mappers run, and for how long."""
    parser.add_argument(
        "--mappers",
        type=names,
        metavar="LIST",
        help="names of mappers with commas between, such as random,greedy (default: all that are known)",
    )
    parser.add_argument(
        "--mapper",
        dest="own_mappers",
        action="append",
        default=[],
        metavar="MODULE:CLASS",
        help="a mapper of your own, besides those of --mappers; may be repeated",
    )
    parser.add_argument(
        "--option",
        dest="mapper_options",
        action="append",
        default=[],
        type=mapper_option,
        metavar="MAPPER.NAME=VALUE",
        help="set an option of a mapper, such as random.victory_condition=500; may be repeated",
    )
    parser.add_argument(
        "--budget",
        type=seconds,
        default=DEFAULT_BUDGET_S,
        metavar="S",
        help="seconds of each mapper (default: %(default)g)",
    )
    parser.add_argument(
        "--evaluations", type=positive, metavar="N", help="mappings that each mapper may price, at most"
    )


def names(text: str) -> tuple[str, ...]:
    """Read a list of names, each once; an empty text is an empty list.

    Raises
    ------
    argparse.ArgumentTypeError
        A name is empty, or stands there twice.
    """
    listed = [part.strip() for part in text.split(",")] if text else []
    if "" in listed or len(set(listed)) < len(listed):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different names")
    return tuple(listed)


def mapper_option(text: str) -> tuple[str, str, int | float | str]:
    """Read ``MAPPER.NAME=VALUE``; the value is an integer, a number, or a text.

    Raises
    ------
    argparse.ArgumentTypeError
        It is of another form.
    """
    left, equals, value = text.partition("=")
    mapper, dot, name = left.rpartition(".")
    if not equals or not dot or not mapper or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form MAPPER.NAME=VALUE")
    for kind in (int, float):
        try:
            return mapper, name, kind(value)
        except ValueError:
            continue
    return mapper, name, value
