"""The commands and their arguments."""

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
    SHIPPED,
    Commands,
    add_command,
    add_csv_and_plot,
    add_effort,
    add_json,
    add_memory_limit,
    add_reading,
    add_search_options,
    add_spec_command,
    additive,
    address,
    file_path,
    graph,
    input_path,
    mapper_option,
    names,
    one_of,
    one_or_two,
    picture,
    positive,
    seconds,
    sizes,
)
from solver.cli.output import write_stderr, write_stdout
from solver.criteria import CRITERIA, TOTAL
from solver.exit_codes import EXIT_INVALID

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

EXPLAIN_TIME_LIMIT_S = 10.0
COMPARE_BUDGET_S = 10.0

SETTING = "--set-attribute"
"""Also the name of its text in messages."""

OPERATORS = {
    "convolution": ("kernel", "ofmaps"),
    "inner_product": ("ofmaps",),
    "pooling": ("kernel",),
    "batch_norm": (),
    "eltwise": (),
    "unary": (),
    "softmax": (),
}
"""Operators, and the options that they need besides ``--input``."""

NETWORK_FILES = "a workload, an ONNX model, layer files or directories of them; and the architecture"


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse `arguments`; a first word that is no command means ``map``. Options may be between the specs."""
    parser, commands = build_parsers()
    words = list(arguments)
    if not words:
        parser.error("nothing to do: give SPEC files, or a command")
    if words[0] in ("-h", "--help", "--version"):
        return parser.parse_args(words)
    _refuse_misspelt_command(parser, commands, words[0])
    name = words.pop(0) if words[0] in commands else "map"
    parsed = commands[name].parse_intermixed_args(words)
    parsed.command = name
    for path in getattr(parsed, "specs", None) or ():
        _refuse_misplaced_word(commands[name], commands, path)
    return parsed


def build_parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of ``python -m solver``, and the parser of each command."""
    parser: argparse.ArgumentParser = _Parser(
        prog="python -m solver",
        description="Find the best mapping of a tensor workload onto an accelerator, and prove it.",
        epilog="`python -m solver SPEC...` means `python -m solver map SPEC...`.\n"
        f"Paths that begin with `{SHIPPED.name}/` also find the specs that ship with Tilewright, such as\n"
        f"`{SHIPPED.name}/architectures/eyeriss_like.yaml`; `{SHIPPED.name}/README.md` there lists them.\n\n"
        f"{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    group = parser.add_subparsers(required=True, metavar="{" + ",".join(ADDERS) + "}")
    return parser, {name: add(group) for name, add in ADDERS.items()}


class _Parser(argparse.ArgumentParser):
    """A parser, of the program or of a command, that leaves no traceback where a stream cannot be written."""

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help to stdout, or to `file`."""
        if file is None:
            write_stdout(self.format_help())
        else:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        """End the program with `message` and a hint on stderr."""
        _, _, unrecognized = message.partition("unrecognized arguments: ")
        option = self._resembling(unrecognized.split(" ")[0].partition("=")[0])
        hint = f"did you mean {option!r}?" if option else f"`{self.prog} --help` lists the arguments"
        write_stderr(f"error: {printable(message)}\nhelp: {hint}\n")
        sys.exit(EXIT_INVALID)

    def _resembling(self, word: str) -> str | None:
        """Return the option that begins with `word` or is spelt like it."""
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
    """Refuse a first word that resembles a command and names no file."""
    if word == "help" and not Path(word).exists():
        parser.error("there is no command 'help'; did you mean --help?")
    close = difflib.get_close_matches(word, commands, n=1, cutoff=0.6)
    if word in commands or not close or Path(word).suffix or Path(word).exists():
        return
    parser.error(f"there is no command and no file {word!r}; did you mean the command {close[0]!r}?")


def _refuse_misplaced_word(
    parser: argparse.ArgumentParser, commands: dict[str, argparse.ArgumentParser], path: Path
) -> None:
    """Refuse a SPEC that names no file but a command, or an objective after another one."""
    word = str(path)
    if word not in (*commands, *OBJECTIVES) or path.exists():
        return
    if word in commands:
        parser.error(f"the command {word!r} must come first")
    parser.error(f"there is no file {word!r}; separate objectives by commas: --objective energy,latency")


def _add_map(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(commands, "map", "find the best mapping and prove it")
    add_search_options(parser)
    add_json(parser)
    add_mapping(parser)
    parser.add_argument(
        "--certificate",
        type=file_path,
        metavar="OUT",
        help="write a certificate, which `prove OUT` checks without the solver (- is stdout)",
    )
    parser.add_argument(
        "--sensitivity",
        action="store_true",
        help="map again with each capacity and bandwidth halved and doubled; --time-limit applies to each",
    )
    parser.add_argument(
        "--pareto",
        action="store_true",
        help="find the energy-latency front: every mapping that no other one dominates; "
        "--time-limit applies to the whole front",
    )
    parser.add_argument(
        "--plot",
        type=file_path,
        metavar="OUT",
        help="with --pareto: draw the front into a PNG, SVG or PDF file; needs matplotlib",
    )
    _add_quiet(parser, "no progress and no report; files and exit code only")
    return parser


def _add_quiet(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--quiet", action="store_true", help=text)


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
    _add_quiet(parser, "no report; files and exit code only")
    return parser


def _add_check(commands: Commands) -> argparse.ArgumentParser:
    return add_spec_command(
        commands, "check", "validate a spec; print hierarchy, problem and size of the mapspace"
    )


def _add_compare(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(commands, "compare", "run heuristic mappers against the proven optimum")
    add_search_options(parser, "the mappers")
    add_mapper_options(parser)
    add_json(parser)
    add_csv_and_plot(parser, "best value against time")
    parser.set_defaults(quiet=False)
    return parser


def add_mapper_options(parser: argparse.ArgumentParser) -> None:
    """Add the options on which mappers run, and for how long."""
    parser.add_argument(
        "--mappers",
        type=names,
        metavar="LIST",
        help="comma-separated names of mappers, such as random,greedy (default: all that are known)",
    )
    parser.add_argument(
        "--mapper",
        dest="own_mappers",
        action="append",
        default=[],
        metavar="MODULE:CLASS",
        help="a mapper of your own, in addition to --mappers; may be repeated",
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
        default=COMPARE_BUDGET_S,
        metavar="S",
        help="time of each mapper in seconds (default: %(default)g)",
    )
    parser.add_argument(
        "--evaluations",
        type=positive,
        metavar="N",
        help="maximum number of mappings that each mapper may price",
    )


def _add_tile(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(commands, "tile", "tile one operator for scratchpads, as SMAUG does")
    parser.description = (
        "Tile one operator for scratchpads, as SMAUG does: strategy and tile shape per tensor."
    )
    _add_operator(parser)
    parser.add_argument(
        "--backend",
        default="smv",
        metavar="NAME|FILE",
        help="a shipped backend or a YAML file (default: %(default)s)",
    )
    parser.add_argument(
        "--onto",
        dest="specs",
        nargs="+",
        type=input_path,
        metavar="SPEC",
        help="instead of an operator: YAML specs with a problem, which is tiled for the scratchpads of their "
        "architecture (of the backend only the PEs count) and mapped",
    )
    add_mapping(parser, "with --onto: ")
    add_json(parser)
    add_reading(parser)
    parser.set_defaults(refuse=parser.error)
    return parser


def _add_operator(parser: argparse.ArgumentParser) -> None:
    known = tuple(OPERATORS)
    parser.add_argument("--operator", type=one_of(known), metavar="OP", help=f"one of {', '.join(known)}")
    parser.add_argument("--input", type=sizes, metavar="SHAPE", help="shape of the inputs: N,H,W,C or N,C")
    parser.add_argument(
        "--kernel",
        "--pool",
        type=one_or_two,
        metavar="R,S",
        help="rows and columns of the filter (convolution) or of the pool (pooling); R alone is R,R",
    )
    parser.add_argument(
        "--ofmaps",
        "--outputs",
        type=positive,
        metavar="K",
        help="output features (convolution, inner_product)",
    )
    parser.add_argument(
        "--stride",
        type=one_or_two,
        metavar="R,S",
        help="stride along rows and columns (default: 1 for convolution, the pool's size for pooling)",
    )
    parser.add_argument(
        "--padding",
        choices=("same", "valid"),
        help="zeros around the inputs of a convolution: kernel - 1 in total, or none (default: valid)",
    )


def _add_assign(commands: Commands) -> argparse.ArgumentParser:
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
    _add_searches(parser)
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
    _add_quiet(parser, "no report; files and exit code only")
    return parser


def _add_costs(parser: argparse.ArgumentParser) -> None:
    """Add the options on where the costs of methods come from, if not from the network."""
    parser.add_argument(
        "--methods",
        type=input_path,
        metavar="FILE",
        help="let the mapper find what each layer costs by each method of FILE; --time-limit, "
        "--memory-limit, --cache, --resume and --cluster then apply to its searches",
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
        help="how the array is chosen: by the total of the best assignment, the sum of the layers' cheapest "
        "methods, or the sum over all methods (default: %(default)s)",
    )


def _add_prove(commands: Commands) -> argparse.ArgumentParser:
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
        "--check-time-limit", type=seconds, metavar="S", help="stop the check after S seconds"
    )
    _add_quiet(parser, "no progress; the verdict only")
    return parser


def _add_explain(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(commands, "explain", "say why nothing fits, or what each constraint costs")
    parser.description = f"""\
If no mapping fits, say why: the constraints in conflict, the arithmetic, and what would resolve it.
Otherwise say what each constraint costs: the optimum is searched with all constraints and without
each, for {EXPLAIN_TIME_LIMIT_S:g} seconds each unless --time-limit sets another limit."""
    add_search_options(parser)
    add_json(parser)
    return parser


def _add_network(commands: Commands) -> argparse.ArgumentParser:
    summary = "map every Einsum of a workload or network"
    parser = add_spec_command(commands, "network", summary, specs_help=NETWORK_FILES)
    parser.description = """\
Map every Einsum of a network to its proven optimum: an AccelForge workload, an
ONNX model, or layer files in Timeloop's form (each with `problem`; a directory
means its files), on the architecture in the other files. Identical Einsums are
searched once. --time-limit applies to each search. --set also gives the sizes
that an ONNX model leaves open."""
    _add_run_options(parser)
    add_json(parser)
    group = parser.add_argument_group("files per Einsum")
    group.add_argument(
        "--certificates",
        type=file_path,
        metavar="DIR",
        help="write a certificate for each Einsum, identical ones once; `prove` checks them",
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
        help="have the certificates checked without the solver, as `prove` does; the exit code says "
        "whether all are VALID",
    )
    group.add_argument(
        "--check-time-limit", type=seconds, metavar="S", help="stop each check after S seconds"
    )
    return parser


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that maps networks."""
    add_search_options(parser)
    _add_searches(parser)
    _add_quiet(parser, "no progress and no report; files and exit code only")


def _add_searches(parser: argparse.ArgumentParser) -> None:
    """Add the options on where results of many searches are kept, and where the searches run."""
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
        "--resume", action="store_true", help="reuse kept results, for instance of a run that was interrupted"
    )
    group.add_argument(
        "--cluster",
        type=address,
        metavar="ADDRESS",
        help="search on the workers of a Dask cluster, such as tcp://host:8786 (extra `cluster`)",
    )


def _add_sweep(commands: Commands) -> argparse.ArgumentParser:
    summary = "map networks on many variants of an architecture"
    files = f"{NETWORK_FILES}: files that all combinations share"
    parser = add_spec_command(commands, "sweep", summary, specs_nargs="*", specs_help=files)
    parser.description = """\
Map every combination of a workload, an architecture and attribute values, each
Einsum to its proven optimum, and show which combinations no other one dominates.
SPEC files belong to every combination; they are read as by `network`. Searches
that several combinations need run once. --time-limit applies to each search."""
    parser.add_argument(
        SETTING,
        dest="settings",
        action="append",
        default=[],
        metavar="NODE.ATTRIBUTE=VALUE,...",
        help="values of an attribute of a component or container, such as buffer.depth=1024,2048, or "
        "PE.meshX=8,16 for its fanout; may be repeated, for all combinations",
    )
    for option, what in (("architectures", "architectures"), ("workloads", "workloads or networks")):
        parser.add_argument(
            f"--{option}",
            nargs="+",
            action="extend",
            default=[],
            type=input_path,
            metavar="PATH",
            help=f"{what}, each one file or one directory of files",
        )
    _add_run_options(parser)
    add_json(parser)
    add_csv_and_plot(parser, "energy against cycles, and against area,")
    return parser


ADDERS: dict[str, Callable[[Commands], argparse.ArgumentParser]] = {
    "map": _add_map,
    "evaluate": _add_evaluate,
    "check": _add_check,
    "compare": _add_compare,
    "tile": _add_tile,
    "assign": _add_assign,
    "prove": _add_prove,
    "explain": _add_explain,
    "network": _add_network,
    "sweep": _add_sweep,
}
