"""The arguments of every command."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from model.objective import ADDITIVE, OBJECTIVES
from model.wording import printable
from solver.cli.mapped import add_mapping
from solver.cli.options import (
    EXIT_CODES,
    Commands,
    add_csv_and_plot,
    add_effort,
    add_json,
    add_memory_limit,
    add_search_options,
    add_spec_command,
    file_path,
    other_objective,
    positive,
    seconds,
)
from solver.cli.output import write_stderr, write_stdout
from solver.cli.tile_arguments import add_tile
from solver.criteria import CRITERIA, TOTAL
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


def add_certificate(parser: argparse.ArgumentParser) -> None:
    """Add ``--certificate OUT``."""
    parser.add_argument(
        "--certificate",
        type=file_path,
        metavar="OUT",
        help="write a certificate that scripts/prove.py checks (- is stdout)",
    )


def add_prove(commands: Commands) -> argparse.ArgumentParser:
    """Add ``prove``."""
    parser = add_spec_command(
        commands,
        "prove",
        "map, certify, and have the certificate checked without the solver",
        specs_help="YAML files with a problem and an architecture, merged by top-level key; "
        "or certificates, which are only checked",
    )
    add_search_options(parser)
    parser.add_argument(
        "--certificate", type=file_path, metavar="OUT", help="keep the certificate in this file"
    )
    parser.add_argument(
        "--check-time-limit", type=seconds, metavar="S", help="give the check up after S seconds"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress; the verdict only")
    return parser


TIME_LIMIT_S = 10.0

DESCRIPTION = f"""\
Say why nothing fits: constraints in conflict, the arithmetic, and what would resolve it.
For a spec that allows mappings, say what each constraint costs: the optimum is searched with
all of them and without each, every search for {TIME_LIMIT_S:g} seconds unless --time-limit says otherwise."""


def add_explain(commands: Commands) -> argparse.ArgumentParser:
    """Add the command ``explain``."""
    parser = add_spec_command(commands, "explain", "say why nothing fits, or what each constraint costs")
    parser.description = DESCRIPTION
    add_search_options(parser)
    add_json(parser)
    return parser


def add_pareto(parser: argparse.ArgumentParser) -> None:
    """Add ``--pareto`` and the picture of what it finds."""
    parser.add_argument(
        "--pareto",
        action="store_true",
        help="find every mapping that no other beats in both energy and latency; --time-limit holds for all",
    )
    parser.add_argument(
        "--plot",
        type=file_path,
        metavar="OUT",
        help="with --pareto: draw the front into a PNG, SVG or PDF file; needs matplotlib",
    )


DEFAULT_BUDGET_S = 10.0


def add_compare(commands: Commands) -> argparse.ArgumentParser:
    """Add the command."""
    parser = add_spec_command(commands, "compare", "run heuristic mappers against the proven optimum")
    add_search_options(parser, "the mappers")
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


NETWORK_FILES = "a workload, an ONNX model, layer files or directories of them; and the architecture"


def add_network(commands: Commands) -> argparse.ArgumentParser:
    """Add the command ``network``."""
    summary = "map every Einsum of a workload or network"
    parser = add_spec_command(commands, "network", summary, specs_help=NETWORK_FILES)
    parser.description = """\
Map every Einsum of a network to its proven optimum: an AccelForge workload, an
ONNX model, or layer files of Timeloop's form (each with `problem`; a directory
stands for its files), on the architecture in the other files. Identical Einsums
are searched once. --time-limit holds for each search. --set also gives the sizes
that an ONNX model leaves open."""
    add_run_options(parser)
    add_json(parser)
    _add_files(parser)
    return parser


def _add_files(parser: argparse.ArgumentParser) -> None:
    """Add ``--certificates``, ``--mappings``, and how the certificates are checked."""
    group = parser.add_argument_group("files per Einsum")
    group.add_argument(
        "--certificates",
        type=file_path,
        metavar="DIR",
        help="write a certificate for each Einsum, identical ones once, that scripts/prove.py checks",
    )
    group.add_argument(
        "--mappings",
        type=file_path,
        metavar="DIR",
        help="write the mapping of each Einsum as Timeloop v4 YAML",
    )
    group.add_argument(
        "--check",
        action="store_true",
        help="have the certificates checked without the solver, as prove does; where they are not "
        "all VALID, the exit code says so",
    )
    group.add_argument(
        "--check-time-limit", type=seconds, metavar="S", help="give each check up after S seconds"
    )


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that maps networks: how and where to search, what to keep, quiet."""
    add_search_options(parser)
    add_searches(parser)
    parser.add_argument(
        "--quiet", action="store_true", help="no progress and no report; files and exit code only"
    )


def add_searches(parser: argparse.ArgumentParser) -> None:
    """Add the options on where the answers of many searches are kept, and where the searches run."""
    group = parser.add_argument_group("many searches")
    cache = group.add_mutually_exclusive_group()
    cache.add_argument(
        "--cache",
        type=file_path,
        metavar="DIR",
        help="where proven results are kept (default: tilewright in the user's cache directory)",
    )
    cache.add_argument("--no-cache", action="store_true", help="keep no results")
    group.add_argument(
        "--resume",
        action="store_true",
        help="use the results that are kept, for instance of a run that was interrupted",
    )
    group.add_argument(
        "--cluster",
        type=address,
        metavar="ADDRESS",
        help="search on the workers of a Dask cluster, such as tcp://host:8786 (extra `cluster`)",
    )


def address(text: str) -> str:
    """Read the address of a Dask scheduler; one without a port Dask refuses, after some time.

    Raises
    ------
    argparse.ArgumentTypeError
        There is no host or no port.
    """
    host, _, port = text.rpartition(":")
    if not host or host.endswith((":", "/")) or not port.isascii() or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no address such as tcp://host:8786")
    return text


SETTING = "--set-attribute"
"""Also what messages call the text of a setting."""


def add_sweep(commands: Commands) -> argparse.ArgumentParser:
    """Add the command ``sweep``."""
    summary = "map networks on many variants of an architecture"
    files = f"{NETWORK_FILES}: what all combinations have in common"
    parser = add_spec_command(commands, "sweep", summary, specs_nargs="*", specs_help=files)
    parser.description = """\
Map every combination of a workload, an architecture and attribute values, each
Einsum to its proven optimum, and say which no other one beats. SPEC files belong
to every combination; they are read as by `network`. Searches that several
combinations need run once. --time-limit holds for each search."""
    parser.add_argument(
        SETTING,
        dest="settings",
        action="append",
        default=[],
        metavar="NODE.ATTRIBUTE=VALUE,...",
        help="values of an attribute of a component or container, such as buffer.depth=1024,2048, or "
        "PE.meshX=8,16 for its fanout; may be repeated, for all combinations",
    )
    parser.add_argument(
        "--architectures",
        nargs="+",
        action="extend",
        default=[],
        type=file_path,
        metavar="PATH",
        help="architectures, each one file or one directory of files",
    )
    parser.add_argument(
        "--workloads",
        nargs="+",
        action="extend",
        default=[],
        type=file_path,
        metavar="PATH",
        help="workloads or networks, each one file or one directory of files",
    )
    add_run_options(parser)
    add_json(parser)
    add_csv_and_plot(parser, "energy against cycles, and against area,")
    return parser


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
    add_effort(search, "assignment", seeded="CP-SAT")
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
