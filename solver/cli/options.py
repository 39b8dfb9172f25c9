"""Options that several commands have, and the readers of their values."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from model.counting import COUNTINGS, Counting
from model.extents import FACTORS
from model.objective import ADDITIVE, OBJECTIVES, TIMELOOP_METRICS
from model.text.limits import Limits
from solver.exit_codes import MEANINGS
from solver.report.pictures import FORMATS
from solver.result import REMAINDERS_S, Options

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
    Container = argparse._ActionsContainer  # a parser or a group of its options


DEFAULTS = Options()

SHIPPED = Path(__file__).resolve().parents[2] / "specs"
"""The specs that ship with the package, in a checkout and installed."""

DOT = (".dot", ".gv")
MODELS = (".pb", ".mps", ".fzn")
"""Formats of `solver.formulation.export`."""

LARGEST_SEED = (1 << 31) - 1
MOST_DIGITS = 18
LONGEST_SHOWN = 60
MOST_BITS = 1 << 16
"""Of a value."""


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


OUTSIDE = "keep every tensor in the outermost memory, if the `arch` leaves that open"


def add_arch(parser: argparse.ArgumentParser, one_einsum: bool = True, names_tensors: bool = False) -> None:
    """Add the options of the commands that read architectures of AccelForge, or one Einsum of a workload."""
    group = parser.add_argument_group("AccelForge workloads and architectures")
    if one_einsum:
        group.add_argument("--einsum", metavar="NAME", help="map only this Einsum of the workload in SPEC")
    add_path(
        group, "--costs", "YAML table with the energy, time and area of the components of an `arch`", "TABLE"
    )
    if not names_tensors:
        add_flag(group, "--no-fuse", OUTSIDE)


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


def add_flag(container: Container, name: str, text: str) -> None:
    """Add an option without a value."""
    container.add_argument(name, action="store_true", help=text)


def add_path(container: Container, name: str, text: str, metavar: str = "OUT") -> None:
    """Add an option whose value is a file to be written."""
    container.add_argument(name, type=file_path, metavar=metavar, help=text)


def add_repeatable(
    container: Container, name: str, dest: str, metavar: str, text: str, read: Callable[[str], object] = str
) -> None:
    """Add an option that may be given several times."""
    container.add_argument(
        name, dest=dest, action="append", default=[], type=read, metavar=metavar, help=text
    )


_TWO_RULES = "as an execution moves them (exact, the default), or as Timeloop does (timeloop)"
_THREE_RULES = (
    "as an execution moves them (exact, the default), as Timeloop does (timeloop), or as AccelForge does "
    "(accelforge, the default for an `arch`, where it implies --uneven)"
)


def add_reading(parser: argparse.ArgumentParser, countings: Sequence[Counting] = COUNTINGS) -> None:
    """Add the options on how specs are read."""
    group = parser.add_argument_group("how specs are read")
    add_repeatable(group, "--set", "variables", "NAME=VALUE", "set a template variable; may be repeated")
    add_flag(group, "--ignore-sparse", "drop densities and sparse optimizations instead of refusing them")
    group.add_argument(
        "--counting",
        choices=countings,
        metavar="RULE",
        help="how words and cycles are counted: "
        + (_THREE_RULES if len(countings) > len(COUNTINGS) else _TWO_RULES),
    )
    group.add_argument(
        "--factors",
        choices=FACTORS,
        metavar="KIND",
        help="loop factors: any, so that the last pass of a loop may be "
        "short (any, the default), or divisors "
        "only (perfect, as with `mapspace: {template: uber}`)",
    )
    group.add_argument(
        "--uneven",
        action=argparse.BooleanOptionalAction,
        help="uneven mapping: a memory may hold each dataspace at its own place in the loop nest "
        "(as with `constraints: {dataspace: {uneven: true}}` on all memories)",
    )
    add_flag(
        group,
        "--timeloop-padding",
        "pad incomplete spatial permutations before the split is applied, as Timeloop's front end does",
    )
    add_repeatable(
        group,
        "--allow-include",
        "include_roots",
        "DIR",
        "also allow the specs to include files from DIR; may be repeated",
        directory,
    )
    add_repeatable(
        group,
        "--limit",
        "limits",
        "NAME=VALUE",
        "raise or lower a limit on specs, such as nodes=1000000; may be repeated",
        limit,
    )


_NO_LIMIT = f"none, except {REMAINDERS_S:g} s for mappings with remainders; `none` removes that limit, too"


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
    more = f"; explaining why no mapping exists takes the rest, at least 2 s (default: {default})"
    add_effort(group, "mapping", more, seeded)
    add_memory_limit(group)


def add_gap(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add ``--gap``; `more` is for the help."""
    parser.add_argument(
        "--gap",
        type=gap,
        default=DEFAULTS.gap,
        metavar="G",
        help="end the search once the gap is at most G, a share such as 0.01 or 1%%; the exit code is then 0"
        f"{more} (default: run until proven)",
    )


def add_memory_limit(group: Container) -> None:
    """Add ``--memory-limit``."""
    group.add_argument(
        "--memory-limit",
        type=positive,
        default=DEFAULTS.memory_limit_mib,
        metavar="MIB",
        help="memory for the search tables of each worker (default: %(default)s MiB)",
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
        help=f"random seed of {seeded}" if seeded else argparse.SUPPRESS,
    )


def add_wide(parser: argparse.ArgumentParser) -> None:
    """Add ``--wide``."""
    add_flag(parser, "--wide", "print tables with all columns, even if the terminal is too narrow")


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """Add ``--verbose``."""
    add_flag(
        parser,
        "--verbose",
        "print all tables: also accesses by level, slack, energy per access and search stages",
    )


def add_json(parser: argparse.ArgumentParser, has_report: bool = True) -> None:
    """Add ``--json OUT``, and ``--report OUT`` where there is a page about the result."""
    add_wide(parser)
    add_path(parser, "--json", "write the result as JSON (- is stdout)")
    if has_report:
        add_path(parser, "--report", "write an HTML report (- is stdout)")


def add_mapping(parser: argparse.ArgumentParser, condition: str = "") -> None:
    """Add ``--mapping OUT`` and ``--mapped-spec OUT``; `condition` says what they need."""
    add_path(parser, "--mapping", f"{condition}write the mapping as Timeloop v4 YAML (- is stdout)")
    add_path(
        parser,
        "--mapped-spec",
        f"{condition}write all specs as one Timeloop v4 YAML file, with the mapping in place of the "
        "constraints that it satisfies (- is stdout)",
    )


def add_csv_and_plot(parser: argparse.ArgumentParser, drawn: str) -> None:
    """Add ``--csv OUT``, and ``--plot OUT`` for a picture of what is `drawn`."""
    add_path(parser, "--csv", "write a CSV table (- is stdout)")
    add_path(parser, "--plot", f"draw {drawn} as SVG, PNG or PDF; PNG and PDF need matplotlib")


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


def name_reader(known: Sequence[str]) -> Callable[[str], str]:
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
    _refuse_negative(text)
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise _wrong(f"{shown(text)} is not a number of seconds")
    return number


def gap(text: str) -> float:
    """Read a share below 1, as a number or in percent."""
    number, percent = text.removesuffix("%"), text.endswith("%")
    _refuse_negative(number)
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise _wrong(f"{shown(text)} is not a share from 0 to below 1, such as 0.01 or 1%")
    return share


def time_limit(text: str) -> float:
    """Read a number of seconds, or ``none``, which is infinity."""
    return math.inf if text == "none" else seconds(text)


def seed(text: str) -> int:
    """Read a seed."""
    value = _natural(text)
    if value is None or value > LARGEST_SEED:
        raise _wrong(f"{shown(text)} is not an integer from 0 to {LARGEST_SEED}")
    return value


NEGATIVE = re.compile(r"-(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


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


def _refuse_negative(text: str) -> None:
    """Say what is wrong with a number below 0."""
    if NEGATIVE.fullmatch(text):
        raise _wrong(f"the value must not be negative, but is {shown(text)}")


SUFFIXES = {
    **{"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12},
    **{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40},
}


def quantity(text: str) -> Fraction:
    """Read a positive number, such as ``1.5Mi``: k, M, G and T are decimal, Ki, Mi, Gi and Ti binary."""
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)([A-Za-z]{0,2}?)B?", text, re.ASCII)
    if found is None or found[2] not in SUFFIXES or not Fraction(found[1]):
        raise _wrong(f"{shown(text)} is not a positive number such as 65536, 64Ki, 64k or 1.5Mi")
    return Fraction(found[1]) * SUFFIXES[found[2]]


def byte_sizes(text: str) -> tuple[int, ...]:
    """Read comma-separated numbers of bytes, in bits."""
    return tuple(_bytes_in_bits(part.strip()) for part in text.split(","))


def _bytes_in_bits(text: str) -> int:
    """Read a number of bytes that are whole bits, in bits."""
    bits = 8 * quantity(text)
    if bits.denominator != 1:
        raise _wrong(f"{shown(text)} bytes is not a whole number of bits")
    return int(bits)


def byte_range(text: str) -> tuple[int | None, int | None]:
    """Read ``LEAST:MOST`` bytes, either of which may be left out, in bits."""
    least, colon, most = text.partition(":")
    if not colon:
        raise _wrong(f"{shown(text)} is not LEAST:MOST, such as 256:16Mi")
    ends = _bytes_in_bits(least) if least else None, _bytes_in_bits(most) if most else None
    if ends[0] is not None and ends[1] is not None and ends[0] >= ends[1]:
        raise _wrong(f"{shown(text)}: the lower end is not below the upper one")
    return ends


def value_bits(text: str) -> int | dict[str, int]:
    """Read bits of all values, or ``NAME=BITS,...`` of those of some tensors."""
    if "=" not in text:
        return _few_bits(text)
    pairs = [part.strip().partition("=") for part in text.split(",")]
    if not all(name and equals for name, equals, _ in pairs):
        raise _wrong(f"{shown(text)} is not a number of bits, nor NAME=BITS,... such as A=8,B=8,Z=32")
    if len({name for name, _, _ in pairs}) < len(pairs):
        raise _wrong(f"{shown(text)} names a tensor twice")
    return {name: _few_bits(number) for name, _, number in pairs}


def _few_bits(text: str) -> int:
    """Read a number of bits of a value."""
    number = positive(text)
    if number > MOST_BITS:
        raise _wrong(f"{shown(text)} bits are more than {MOST_BITS} for one value")
    return number


def _natural(text: str) -> int | None:
    _refuse_negative(text)
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


def name_list(text: str) -> tuple[str, ...]:
    """Read names with commas in between."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def count(text: str) -> int:
    """Read a whole number, 0 included."""
    value = _natural(text)
    if value is None:
        raise _wrong(f"{shown(text)} is not a whole number")
    return value
