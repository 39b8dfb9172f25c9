"""The arguments of the command line."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from model.text.source import printable
from solver.cli.assign_arguments import add_assign
from solver.cli.certify_arguments import add_certificate, add_prove
from solver.cli.compare_arguments import add_compare
from solver.cli.explain_arguments import add_explain
from solver.cli.mapped import add_mapping
from solver.cli.network_arguments import add_network
from solver.cli.options import EXIT_CODES, Commands, add_json, add_search_options, add_spec_command, file_path
from solver.cli.output import write_stderr, write_stdout
from solver.cli.pareto_arguments import add_pareto
from solver.cli.sweep_arguments import add_sweep
from solver.cli.tile_arguments import add_tile
from solver.exit_codes import EXIT_INVALID

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse `arguments`; a first word that is no command means ``map``.

    The result's ``command`` names the command. Options may stand between the specs.

    Raises
    ------
    SystemExit
        With 2 on a wrong argument, with 0 after ``--help`` and ``--version``.
    """
    parser, commands = build_parsers()
    words = list(arguments)
    if not words:
        parser.error("nothing to do: name SPEC files, or a command")
    if words[0] in ("-h", "--help", "--version"):
        return parser.parse_args(words)
    _refuse_misspelt_command(parser, commands, words[0])
    name = words.pop(0) if words[0] in commands else "map"
    parsed = commands[name].parse_intermixed_args(words)
    parsed.command = name
    for path in getattr(parsed, "specs", None) or ():
        if str(path) in commands and not path.exists():
            commands[name].error(f"the command {str(path)!r} must come first")
    return parsed


def build_parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of ``python -m solver``, and the parser of each command."""
    parser: argparse.ArgumentParser = _Parser(
        prog="python -m solver",
        description="Find the best mapping of a tensor workload onto an accelerator, and prove it.",
        epilog=f"`python -m solver SPEC...` means `python -m solver map SPEC...`.\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    group = parser.add_subparsers(required=True, metavar="{" + ",".join(ADDERS) + "}")
    return parser, {name: add(group) for name, add in ADDERS.items()}


class _Parser(argparse.ArgumentParser):
    """The parser, and those of the commands; streams that cannot be written leave no traceback."""

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help to stdout, or to `file`."""
        if file is None:
            write_stdout(self.format_help())
        else:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        """End the program with `message` on stderr, and where to read more."""
        _, _, unrecognized = message.partition("unrecognized arguments: ")
        option = self._resembling(unrecognized.split(" ")[0].partition("=")[0])
        hint = f"did you mean {option!r}?" if option else f"`{self.prog} --help` tells what there is"
        write_stderr(f"error: {printable(message)}\nhelp: {hint}\n")
        sys.exit(EXIT_INVALID)

    def _resembling(self, word: str) -> str | None:
        """Return the option that begins with `word`, or that it may be a slip of."""
        known = self._option_string_actions
        longer = [option for option in known if word.startswith("--") and option.startswith(word)]
        close = longer or difflib.get_close_matches(word, known, n=1, cutoff=0.75)
        return close[0] if close else None


class _Version(argparse.Action):
    """Prints the installed version; looked up only then, as it takes a while."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        write_stdout(f"tilewright {version('tilewright')}\n")
        parser.exit()


def _refuse_misspelt_command(
    parser: argparse.ArgumentParser, commands: dict[str, argparse.ArgumentParser], word: str
) -> None:
    """Take a word that resembles a command, and names no file, for a slip."""
    if word == "help" and not Path(word).exists():
        parser.error("there is no command 'help'; did you mean --help?")
    close = difflib.get_close_matches(word, commands, n=1, cutoff=0.6)
    if word in commands or not close or Path(word).suffix or Path(word).exists():
        return
    parser.error(f"there is no command and no file {word!r}; did you mean the command {close[0]!r}?")


def _add_map(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(commands, "map", "find the best mapping and prove it")
    add_search_options(parser)
    add_json(parser)
    add_mapping(parser)
    add_certificate(parser)
    parser.add_argument(
        "--sensitivity",
        action="store_true",
        help="map again with each capacity and bandwidth halved and doubled; --time-limit holds for each",
    )
    add_pareto(parser)
    parser.add_argument(
        "--quiet", action="store_true", help="no progress and no report; files and exit code only"
    )
    return parser


def _add_evaluate(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(commands, "evaluate", "price a given mapping")
    parser.add_argument(
        "--mapping",
        type=file_path,
        metavar="MAP",
        help="YAML file with a Timeloop v4 mapping (default: the mapping in the specs)",
    )
    parser.add_argument(
        "--link-transfers",
        action="store_true",
        help="count transfers between neighbours, as Timeloop does by default",
    )
    add_json(parser)
    parser.add_argument("--quiet", action="store_true", help="no report; files and exit code only")
    return parser


def _add_check(commands: Commands) -> argparse.ArgumentParser:
    return add_spec_command(
        commands, "check", "validate a spec; print hierarchy, problem and size of the mapspace"
    )


ADDERS: dict[str, Callable[[Commands], argparse.ArgumentParser]] = {
    "map": _add_map,
    "evaluate": _add_evaluate,
    "check": _add_check,
    "compare": add_compare,
    "tile": add_tile,
    "assign": add_assign,
    "prove": add_prove,
    "explain": add_explain,
    "network": add_network,
    "sweep": add_sweep,
}
