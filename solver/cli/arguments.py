"""The commands and their arguments, the readers of values, and what the exit codes mean."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from model.extents import FACTORS
from model.mapspace import COUNTINGS, PRICED_COUNTINGS, Counting
from model.objective import ADDITIVE, CRITERIA, OBJECTIVES, TIMELOOP_METRICS, TOTAL
from model.text.limits import Limits
from model.wording import printable
from solver.cli.output import write_stderr, write_stdout
from solver.exit_codes import EXIT_INVALID, MEANINGS
from solver.report.pictures import FORMATS
from solver.result import REMAINDERS_S, Options

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
    Container = argparse._ActionsContainer  # a parser or a group of its options

DEFAULTS = Options()

SHIPPED = Path(__file__).resolve().parents[2] / "specs"
"""The specs that ship with the package, in a checkout and installed."""

AUTO, BOUNDS, CP_SAT = ENGINES = ("auto", "bounds", "cp-sat")
"""What searches, see ``map --engine``."""

DOT = (".dot", ".gv")
MODELS = (".pb", ".mps", ".fzn")
"""Formats of `solver.formulation.export`."""

LARGEST_SEED = (1 << 31) - 1
MOST_DIGITS = 18
LONGEST_SHOWN = 60


def add_spec_command(
    commands: Commands,
    name: str,
    summary: str,
    specs_nargs: str = "+",
    specs_help: str = "YAML files with a problem and an architecture, merged by top-level key",
    countings: Sequence[Counting] = COUNTINGS,
) -> argparse.ArgumentParser:
    """Add a command that reads specs, with the options on how to read them."""
    parser = add_command(commands, name, summary)
    parser.add_argument("specs", nargs=specs_nargs, type=input_path, metavar="SPEC", help=specs_help)
    add_reading(parser, countings)
    return parser


OUTSIDE = "keep every tensor in the outermost memory where an `arch` leaves that open"


def add_arch(parser: argparse.ArgumentParser, one_einsum: bool = True, names_tensors: bool = False) -> None:
    """Add the options of the commands that read architectures of AccelForge, or one Einsum of a workload."""
    group = parser.add_argument_group("workloads and architectures of AccelForge")
    if one_einsum:
        group.add_argument(
            "--einsum", metavar="NAME", help="the Einsum of the workload in SPEC that is meant"
        )
    _add_path(group, "--costs", "YAML table of what the components of an `arch` cost", "TABLE")
    if not names_tensors:
        _add_flag(group, "--no-fuse", OUTSIDE)


def add_command(commands: Commands, name: str, summary: str) -> argparse.ArgumentParser:
    """Add a command; `summary` describes it in the list of commands and, by default, in its help."""
    return commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=MEANINGS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _add_flag(container: Container, name: str, text: str) -> None:
    container.add_argument(name, action="store_true", help=text)


def _add_path(container: Container, name: str, text: str, metavar: str = "OUT") -> None:
    container.add_argument(name, type=file_path, metavar=metavar, help=text)


def _add_repeatable(
    container: Container, name: str, dest: str, metavar: str, text: str, read: Callable[[str], object] = str
) -> None:
    container.add_argument(
        name, dest=dest, action="append", default=[], type=read, metavar=metavar, help=text
    )


_RULES = "as an execution moves them (exact, the default) or as Timeloop does (timeloop)"
_THIRD_RULE = ", or as AccelForge does (accelforge, the default for an `arch`, where it means --uneven)"


def add_reading(parser: argparse.ArgumentParser, countings: Sequence[Counting] = COUNTINGS) -> None:
    """Add the options on how specs are read."""
    group = parser.add_argument_group("how specs are read")
    _add_repeatable(group, "--set", "variables", "NAME=VALUE", "set a template variable; may be repeated")
    _add_flag(group, "--ignore-sparse", "drop densities and sparse optimizations instead of refusing them")
    group.add_argument(
        "--counting",
        choices=countings,
        metavar="RULE",
        help=f"how words and cycles are counted: {_RULES}"
        + (_THIRD_RULE if len(countings) > len(COUNTINGS) else ""),
    )
    group.add_argument(
        "--factors",
        choices=FACTORS,
        metavar="KIND",
        help="factors of loops: any, the last pass being cut short (any, the default), or divisors only "
        "(perfect, as `mapspace: {template: uber}`)",
    )
    group.add_argument(
        "--uneven",
        action=argparse.BooleanOptionalAction,
        help="let memories hold the tiles of their dataspaces at several places of the loop nest "
        "(as `constraints: {dataspace: {uneven: true}}` on all of them)",
    )
    _add_flag(
        group,
        "--timeloop-padding",
        "pad incomplete spatial permutations before the split is applied, as Timeloop's front end does",
    )
    _add_repeatable(
        group,
        "--allow-include",
        "include_roots",
        "DIR",
        "allow the specs to include files from DIR too; may be repeated",
        directory,
    )
    _add_repeatable(
        group,
        "--limit",
        "limits",
        "NAME=VALUE",
        "raise or lower a limit on specs, such as nodes=1000000; may be repeated",
        limit,
    )


_NO_LIMIT = (
    f"none, but {REMAINDERS_S:g} for mappings with remainders after those without; none: no limit at all"
)


def add_search_options(
    parser: argparse.ArgumentParser, seeded: str | None = None, default: str = _NO_LIMIT
) -> None:
    """Add the options of every command that searches: objective, limits, workers, seed (of `seeded`).

    `default` is what the help says about the time limit where none is given.
    """
    group = parser.add_argument_group("search")
    group.add_argument(
        "--objective",
        type=objectives,
        metavar="LIST",
        help=f"one of {', '.join(OBJECTIVES)}, or a comma-separated list, most important first "
        "(default: the spec's optimization_metrics, or edp)",
    )
    more = f"; explaining why nothing fits takes what is left, or 2 seconds (default: {default})"
    add_effort(group, "mapping", more, seeded)
    add_memory_limit(group)


def add_memory_limit(group: Container) -> None:
    """Add ``--memory-limit``."""
    group.add_argument(
        "--memory-limit",
        type=positive,
        default=DEFAULTS.memory_limit_mib,
        metavar="MIB",
        help="memory for the tables of the search in each worker (default: %(default)s MiB)",
    )


def add_effort(group: Container, sought: str, more: str = "", seeded: str | None = None) -> None:
    """Add time limit, workers, and a seed, if anything is `seeded`; `sought` and `more` are for the help."""
    group.add_argument(
        "--time-limit",
        type=time_limit,
        metavar="S",
        help=f"stop after S seconds with the best {sought} so far, as the first Ctrl-C does{more}",
    )
    group.add_argument(
        "--jobs",
        type=positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of workers (default: all cores)",
    )
    group.add_argument(
        "--seed",
        type=seed if seeded else _refused_seed,
        default=DEFAULTS.seed,
        metavar="N",
        help=f"seed of {seeded}" if seeded else argparse.SUPPRESS,
    )


def add_wide(parser: argparse.ArgumentParser) -> None:
    """Add ``--wide``."""
    _add_flag(
        parser, "--wide", "print tables with all columns, also where the terminal is too narrow for them"
    )


def _add_verbose(parser: argparse.ArgumentParser) -> None:
    _add_flag(parser, "--verbose", "print all tables: accesses by level, slack, energy per access")


def add_json(parser: argparse.ArgumentParser, has_report: bool = True) -> None:
    """Add ``--json OUT``, and ``--report OUT`` where there is a page about the result."""
    add_wide(parser)
    _add_path(parser, "--json", "write the result as JSON (- is stdout)")
    if has_report:
        _add_path(parser, "--report", "write a report with figures as one HTML page (- is stdout)")


def add_mapping(parser: argparse.ArgumentParser, condition: str = "") -> None:
    """Add ``--mapping OUT`` and ``--mapped-spec OUT``; `condition` says what they need."""
    _add_path(parser, "--mapping", f"{condition}write the mapping as Timeloop v4 YAML (- is stdout)")
    _add_path(
        parser,
        "--mapped-spec",
        f"{condition}write all specs as one Timeloop v4 YAML file, with the mapping in place of the "
        "constraints that it meets (- is stdout)",
    )


def add_csv_and_plot(parser: argparse.ArgumentParser, drawn: str) -> None:
    """Add ``--csv OUT``, and ``--plot OUT`` for a picture of what is `drawn`."""
    _add_path(parser, "--csv", "write a CSV table (- is stdout)")
    _add_path(parser, "--plot", f"draw {drawn} into a PNG, SVG or PDF file; needs matplotlib")


def file_path(text: str) -> Path:
    """Read a path; a variable of the shell that is not set leaves an empty one."""
    if not text:
        raise _wrong("the path is empty")
    return Path(text)


def input_path(text: str) -> Path:
    """Read the path of an input; ``specs/...`` that is absent here is what ships with the package."""
    path = file_path(text)
    shipped = SHIPPED.parent / path
    absent_here = path.parts[:1] == (SHIPPED.name,) and not os.path.lexists(path)
    return shipped if absent_here and shipped.exists() else path


def directory(text: str) -> Path:
    """Read the path of a directory that exists."""
    if not text or not os.path.isdir(text):  # noqa: PTH112 (false for names that are too long)
        raise _wrong(f"there is no directory {text!r}")
    return Path(text)


def picture(text: str) -> Path:
    """Read the path of a picture."""
    return _with_suffix(text, FORMATS)


def model_file(text: str) -> Path:
    """Read the path of a model for other solvers."""
    return _with_suffix(text, MODELS)


def graph(text: str) -> Path:
    """Read the path of a picture or a DOT file; ``-`` is stdout."""
    return Path(text) if text == "-" else _with_suffix(text, (*DOT, *FORMATS))


def _with_suffix(text: str, suffixes: tuple[str, ...]) -> Path:
    if Path(text).suffix.lower() not in suffixes:
        raise _wrong(f"{text!r} does not end in {', '.join(suffixes)}")
    return Path(text)


def objectives(text: str) -> tuple[str, ...]:
    """Read a comma-separated list of objectives."""
    names = tuple(part.strip() for part in text.split(","))
    try:
        Options(objectives=names)
    except ValueError as error:
        unknown = next((name for name in names if name not in OBJECTIVES), "")
        raise _wrong(f"{error}{_other_objective(unknown)}") from None
    return names


def additive(text: str) -> tuple[str, ...]:
    """Read an objective that adds up over layers."""
    if text in ADDITIVE:
        return (text,)
    known = " or ".join(ADDITIVE)
    if text in OBJECTIVES:
        raise _wrong(f"{text} is a product, which does not add up over layers; choose {known}")
    hint = _other_objective(text) or "; only `map` takes a list"
    raise _wrong(f"{text!r} is not {known}{hint}")


def _other_objective(name: str) -> str:
    """Return the end of a message about an unknown objective: a suggestion, if there is one."""
    folded = name.lower()
    close = difflib.get_close_matches(folded, OBJECTIVES, n=1)
    meant = TIMELOOP_METRICS.get(folded) or "".join(close)
    if meant:
        return f"; did you mean {meant!r}?"
    return "; `accesses` is not an objective" if "accesses" in folded else ""


def one_of(known: Sequence[str]) -> Callable[[str], str]:
    """Return a reader of one of several names, which suggests the nearest for others."""

    def choice(text: str) -> str:
        if text in known:
            return text
        begins = [name for name in known if text and name.startswith(text)]
        close = begins or difflib.get_close_matches(text, known, n=1, cutoff=0.75)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise _wrong(f"{shown(text)} is not one of {', '.join(known)}{hint}")

    return choice


def names(text: str) -> tuple[str, ...]:
    """Read a comma-separated list of different names; an empty text is an empty list."""
    listed = [part.strip() for part in text.split(",")] if text else []
    if "" in listed or len(set(listed)) < len(listed):
        raise _wrong(f"{text!r} is not a list of distinct names")
    return tuple(listed)


def mapper_option(text: str) -> tuple[str, str, int | float | str]:
    """Read ``MAPPER.NAME=VALUE``; the value is an integer, a number or a text."""
    left, equals, value = text.partition("=")
    mapper, dot, name = left.rpartition(".")
    if not equals or not dot or not mapper or not name.isidentifier():
        raise _wrong(f"{text!r} is not of the form MAPPER.NAME=VALUE")
    for kind in (int, float):
        try:
            return mapper, name, kind(value)
        except ValueError:
            continue
    return mapper, name, value


def address(text: str) -> str:
    """Read the address of a Dask scheduler; Dask itself refuses one without a port only after some time."""
    host, _, port = text.rpartition(":")
    if not host or host.endswith((":", "/")) or not port.isascii() or not port.isdecimal():
        raise _wrong(f"{text!r} is not an address such as tcp://host:8786")
    return text


def limit(text: str) -> tuple[str, float]:
    """Read the name and value of a limit on specs."""
    name, _, value = text.partition("=")
    known = {field.name: field.default for field in fields(Limits)}
    if name not in known:
        raise _wrong(f"there is no limit {name!r}; known limits are {', '.join(known)}")
    return name, seconds(value) if isinstance(known[name], float) else positive(value)


def seconds(text: str) -> float:
    """Read a finite, non-negative number of seconds."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise _wrong(f"{shown(text)} is not a number of seconds")
    return number


def time_limit(text: str) -> float:
    """Read a number of seconds, or ``none``, which is infinity."""
    return math.inf if text == "none" else seconds(text)


def seed(text: str) -> int:
    """Read a seed."""
    value = _natural(text)
    if value is None or value > LARGEST_SEED:
        raise _wrong(f"{shown(text)} is not an integer from 0 to {LARGEST_SEED}")
    return value


def _refused_seed(_text: str) -> int:
    raise _wrong("this search draws no random numbers, so a seed has no effect")


def positive(text: str) -> int:
    """Read a positive integer of at most `MOST_DIGITS` digits."""
    value = _natural(text)
    if len(text) > MOST_DIGITS and text.isdecimal():
        raise _wrong(f"{shown(text)} has more than {MOST_DIGITS} digits")
    if not value:
        raise _wrong(f"{shown(text)} is not a positive integer")
    return value


def _natural(text: str) -> int | None:
    if not text.isascii() or not text.isdecimal() or len(text) > MOST_DIGITS:
        return None
    return int(text)


def sizes(text: str) -> tuple[int, ...]:
    """Read comma-separated positive integers."""
    if re.search(r"\dx\d", text):
        raise _wrong(f"{shown(text)} separates its numbers with `x`; use commas")
    return tuple(positive(part.strip()) for part in text.split(","))


def one_or_two(text: str) -> tuple[int, int]:
    """Read two positive integers, or one that counts for both directions."""
    numbers = sizes(text)
    if len(numbers) > 2:
        raise _wrong(f"{text!r} has more than two numbers")
    return numbers[0], numbers[-1]


def shown(text: str) -> str:
    """Quote a wrong argument in a message; of a long one the beginning."""
    return repr(text) if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]!r}..."


_wrong = argparse.ArgumentTypeError


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
    name, *given = words if words[0] in commands else ["map", *words]
    parsed = commands[name].parse_intermixed_args(given)
    parsed.command, parsed.words = name, (name, *given)
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
        f"{MEANINGS}",
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
        lists = [own for own in self._actions if own.option_strings and own.nargs in {"+", "*"}]
        if lists and message.endswith("required: SPEC"):
            hint = (
                f"give SPEC before {lists[0].option_strings[0]}, which takes all words up to the next option"
            )
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


def _add_engine(parser: argparse.ArgumentParser, engines: Sequence[str], text: str) -> None:
    parser.add_argument("--engine", choices=engines, default=engines[0], metavar="NAME", help=text)


def _add_map(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(
        commands, "map", "find the best mapping and prove it", countings=PRICED_COUNTINGS
    )
    add_arch(parser)
    add_search_options(parser)
    _add_verbose(parser)
    add_json(parser)
    add_mapping(parser)
    _add_path(
        parser,
        "--certificate",
        "write a certificate, which `prove OUT` checks without the solver (- is stdout)",
    )
    _add_flag(
        parser,
        "--check",
        "have the certificate checked without the solver, as `prove` does; the exit code says whether it is "
        "VALID",
    )
    _add_flag(
        parser,
        "--sensitivity",
        "map again with each capacity and bandwidth halved and doubled; --time-limit applies to each",
    )
    _add_flag(
        parser,
        "--price-constraints",
        "say what each constraint costs, as `explain` does, for "
        f"{EXPLAIN_TIME_LIMIT_S:g} seconds each unless --time-limit sets another limit",
    )
    _add_flag(
        parser,
        "--pareto",
        "find the energy-latency front: every mapping that no other one dominates; "
        "--time-limit applies to the whole front",
    )
    _add_engine(
        parser,
        ENGINES,
        "what searches: bounds and branching (bounds), CP-SAT on the whole problem (cp-sat: slower), or both "
        "(auto, the default: bounds, and after 5 s CP-SAT beside them, unless there is one job only)",
    )
    parser.add_argument(
        "--export-model",
        type=model_file,
        metavar="OUT",
        help="write the problem for other solvers: OUT.pb (OR-tools), OUT.mps or OUT.fzn; energy or latency, "
        "as lower bounds on what the cost model says (docs/formulation.md)",
    )
    _add_path(
        parser,
        "--plot",
        "draw the mapping, or with --pareto the front, into a PNG, SVG or PDF file; needs matplotlib, except "
        "for a mapping as SVG",
    )
    _add_flag(parser, "--quiet", "no progress and no report; files and exit code only")
    return parser


def _add_evaluate(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(commands, "evaluate", "price a given mapping", countings=PRICED_COUNTINGS)
    add_arch(parser)
    _add_path(
        parser,
        "--mapping",
        "YAML file with a Timeloop v4 mapping (default: the mapping in the specs), or with a fused mapping "
        "of a workload (docs/fusion.md)",
        "MAP",
    )
    _add_flag(
        parser,
        "--link-transfers",
        "count transfers between neighbours, as Timeloop does by default (with --counting timeloop)",
    )
    _add_flag(
        parser,
        "--timeloop-defects",
        "count sparse data as Timeloop does even where that is wrong (docs/sparse.md)",
    )
    parser.set_defaults(refuse=parser.error)
    _add_verbose(parser)
    add_json(parser)
    _add_flag(parser, "--quiet", "no report; files and exit code only")
    return parser


def _add_check(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(
        commands, "check", "validate a spec; print hierarchy, problem and size of the mapspace"
    )
    add_arch(parser)
    add_wide(parser)
    return parser


def _add_compare(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(commands, "compare", "run heuristic mappers against the proven optimum")
    add_arch(parser)
    add_search_options(parser, "the mappers")
    add_mapper_options(parser)
    add_json(parser)
    add_csv_and_plot(parser, "best value against time")
    return parser


def add_mapper_options(parser: argparse.ArgumentParser) -> None:
    """Add the options on which mappers run, and for how long."""
    parser.add_argument(
        "--mappers",
        type=names,
        metavar="LIST",
        help="comma-separated names of mappers, such as random,greedy (default: all that are known)",
    )
    _add_repeatable(
        parser,
        "--mapper",
        "own_mappers",
        "MODULE:CLASS",
        "a mapper of your own, in addition to --mappers; may be repeated",
    )
    _add_repeatable(
        parser,
        "--option",
        "mapper_options",
        "MAPPER.NAME=VALUE",
        "set an option of a mapper, such as random.victory_condition=500; may be repeated",
        mapper_option,
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
    add_json(parser, has_report=False)
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
    _add_flag(parser, "--decomposition", "print every step of the decomposition")
    _add_flag(parser, "--quiet", "no report; files and exit code only")
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
        countings=PRICED_COUNTINGS,
    )
    add_arch(parser)
    add_search_options(parser, default="none")
    parser.set_defaults(time_limit=math.inf)  # also where loops may have remainders
    _add_path(parser, "--certificate", "keep the certificate in this file")
    _add_engine(
        parser,
        (BOUNDS, CP_SAT),
        "a further witness: with cp-sat, CP-SAT alone solves the problem as well, and has to find the same",
    )
    parser.add_argument(
        "--check-time-limit", type=seconds, metavar="S", help="stop the check after S seconds"
    )
    _add_flag(parser, "--quiet", "no progress; the verdict only")
    return parser


def _add_report(commands: Commands) -> argparse.ArgumentParser:
    summary = "make an HTML page of a result that --json wrote"
    parser = add_command(commands, "report", summary)
    parser.add_argument("result", type=file_path, metavar="RESULT", help="a file that --json wrote")
    _add_path(parser, "--output", "the page (default: RESULT with the suffix .html; - is stdout)", "OUT")
    return parser


def _add_explain(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(
        commands,
        "explain",
        "say why nothing fits, or what each constraint costs",
        countings=PRICED_COUNTINGS,
    )
    parser.description = f"""\
If no mapping fits, say why: the constraints in conflict, the arithmetic, and what would resolve it.
Otherwise say what each constraint costs: the optimum is searched with all constraints and without
each, for {EXPLAIN_TIME_LIMIT_S:g} seconds each unless --time-limit sets another limit."""
    add_arch(parser)
    add_search_options(parser, default=f"{EXPLAIN_TIME_LIMIT_S:g} for each search; none: no limit")
    add_json(parser)
    return parser


def _add_network(commands: Commands) -> argparse.ArgumentParser:
    summary = "map every Einsum of a workload or network"
    parser = add_spec_command(
        commands, "network", summary, specs_help=NETWORK_FILES, countings=PRICED_COUNTINGS
    )
    parser.description = """\
Map every Einsum of a network to its proven optimum: an AccelForge workload, an
ONNX model, or layer files in Timeloop's form (each with `problem`; a directory
means its files), on the architecture in the other files. Identical Einsums are
searched once. --time-limit applies to each search. --set also gives the sizes
that an ONNX model leaves open."""
    add_arch(parser, one_einsum=False, names_tensors=True)
    _add_run_options(parser)
    add_json(parser)
    parser.add_argument(
        "--same",
        choices=("spatial",),
        metavar="WHAT",
        help="spatial: the best spatial unrolling that all Einsums can have, and what it costs against their "
        "own optima; --time-limit applies to the whole search",
    )
    _add_fusion(parser)
    group = parser.add_argument_group("files per Einsum")
    _add_path(
        group,
        "--certificates",
        "write a certificate for each Einsum, identical ones once; `prove` checks them",
        "DIR",
    )
    _add_path(group, "--mappings", "write the mapping of each Einsum as Timeloop v4 YAML", "DIR")
    _add_flag(
        group,
        "--check",
        "have the certificates checked without the solver, as `prove` does; the exit code says "
        "whether all are VALID (of a fused mapping, too)",
    )
    group.add_argument(
        "--check-time-limit", type=seconds, metavar="S", help="stop each check after S seconds"
    )
    return parser


def _add_fusion(parser: argparse.ArgumentParser) -> None:
    """Add the options on Einsums that share loops."""
    group = parser.add_argument_group("fused mappings (docs/fusion.md)")
    _add_flag(
        group,
        "--fuse",
        "let Einsums share loops and hand tensors over on chip; --time-limit applies to the whole search",
    )
    group.add_argument(
        "--fuse-into",
        nargs="+",
        type=_name_list,
        metavar="MEMORY",
        help="memories that may store tensors between Einsums (default: all that are searched)",
    )
    group.add_argument(
        "--no-fuse",
        nargs="*",
        type=_name_list,
        metavar="TENSOR",
        help=f"tensors that go through the outermost memory; without names and --fuse: {OUTSIDE}",
    )
    group.add_argument(
        "--max-fused-loops", type=_count, metavar="N", help="at most N shared loops above an Einsum"
    )
    group.add_argument(
        "--max-fused-loops-per-rank",
        type=positive,
        metavar="N",
        help="at most N of them over one rank of it",
    )
    _add_path(group, "--fused-mapping", "write the fused mapping as YAML, which `evaluate` prices")
    _add_path(
        group, "--certificate", "write the certificate of the whole, also with --same; `prove` checks it"
    )


def _name_list(text: str) -> tuple[str, ...]:
    """Read names with commas in between."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _count(text: str) -> int:
    """Read a whole number, 0 included."""
    value = _natural(text)
    if value is None:
        raise _wrong(f"{shown(text)} is not a whole number")
    return value


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that maps networks."""
    add_search_options(parser)
    _add_searches(parser)
    _add_flag(parser, "--quiet", "no progress and no report; files and exit code only")


def _add_searches(parser: argparse.ArgumentParser) -> None:
    """Add the options on where results of many searches are kept, and where the searches run."""
    group = parser.add_argument_group("many searches")
    cache = group.add_mutually_exclusive_group()
    _add_path(
        cache,
        "--cache",
        "where proven results are kept (default: tilewright in the user's cache directory)",
        "DIR",
    )
    _add_flag(cache, "--no-cache", "keep no results")
    _add_flag(group, "--resume", "reuse kept results, for instance of a run that was interrupted")
    group.add_argument(
        "--cluster",
        type=address,
        metavar="ADDRESS",
        help="search on the workers of a Dask cluster, such as tcp://host:8786 (extra `cluster`)",
    )


def _add_sweep(commands: Commands) -> argparse.ArgumentParser:
    summary = "map networks on many variants of an architecture"
    files = f"{NETWORK_FILES}: files that all combinations share"
    parser = add_spec_command(
        commands, "sweep", summary, specs_nargs="*", specs_help=files, countings=PRICED_COUNTINGS
    )
    parser.description = """\
Map every combination of a workload, an architecture and attribute values, each
Einsum to its proven optimum, and show which combinations no other one dominates.
SPEC files belong to every combination; they are read as by `network`. Searches
that several combinations need run once. --time-limit applies to each search."""
    _add_repeatable(
        parser,
        SETTING,
        "settings",
        "NODE.ATTRIBUTE=VALUE,...",
        "values of an attribute of a component or container, such as buffer.depth=1024,2048, or "
        "PE.meshX=8,16 for its fanout; may be repeated, for all combinations",
    )
    _add_repeatable(
        parser,
        "--density",
        "densities",
        "DATASPACE=SHARE,...",
        "instead: map one layer of sparse data for each density, such as Weights=0.1,0.5; may be repeated, "
        "for all combinations",
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
    add_arch(parser, one_einsum=False)
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
    "report": _add_report,
}
