"""The commands and their arguments, and what the exit codes mean."""

from __future__ import annotations

import argparse
import difflib
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from model.counting import PRICED_COUNTINGS
from model.extents import ANY, FACTORS
from model.objective import ADDITIVE, CRITERIA, OBJECTIVES, TOTAL
from model.wording import printable
from solver.cli.options import (
    OUTSIDE,
    SHIPPED,
    add_arch,
    add_command,
    add_csv_and_plot,
    add_effort,
    add_flag,
    add_gap,
    add_json,
    add_mapping,
    add_memory_limit,
    add_path,
    add_reading,
    add_repeatable,
    add_search_options,
    add_spec_command,
    add_verbose,
    add_wide,
    additive,
    address,
    byte_range,
    byte_sizes,
    count,
    file_path,
    graph,
    input_path,
    mapper_option,
    model_file,
    name_list,
    name_reader,
    names,
    one_or_two,
    picture,
    positive,
    quantity,
    seconds,
    sizes,
    time_limit,
    value_bits,
)
from solver.cli.output import program, write_stderr, write_stdout
from solver.exit_codes import EXIT_INVALID, MEANINGS
from solver.result import BOUNDS, CP_SAT, ENGINES

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from solver.cli.options import Commands

EXPLAIN_TIME_LIMIT_S = 10.0
CHECK_TIME_LIMIT_S = 120.0
COMPARE_BUDGET_S = 10.0
FUSED_TIME_LIMIT_S = 60.0
"""Of `bound --fuse`, whose searches may stay open."""

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

ACCELFORGE_MAPPING = "write the mapping in the form that AccelForge's `evaluate_mapping` reads (- is stdout)"

NETWORK_FILES = "a workload, an ONNX model, layer files or directories of them; and the architecture"


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse `arguments`; a first word that is no command means ``map``. Options may be between the specs."""
    parser, commands = build_parsers()
    words = list(arguments)
    if not words:
        parser.error("nothing to do: give SPEC files or a command")
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
    """Return the parser of the program, and the parser of each command."""
    parser: argparse.ArgumentParser = _CommandParser(
        prog=program(),
        description="Find the best mapping of a tensor workload onto an accelerator, and prove it.",
        epilog=f"`{program()} SPEC...` means `{program()} map SPEC...`.\n"
        f"Paths that begin with `{SHIPPED.name}/` also find the specs that ship with Tilewright, such as\n"
        f"`{SHIPPED.name}/architectures/eyeriss_like.yaml`; `{SHIPPED.name}/README.md` lists them.\n\n"
        f"{MEANINGS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    group = parser.add_subparsers(required=True, metavar="{" + ",".join(ADDERS) + "}")
    return parser, {name: add(group) for name, add in ADDERS.items()}


class _CommandParser(argparse.ArgumentParser):
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
                f"put SPEC before {lists[0].option_strings[0]}, which takes all words up to the next option"
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
    add_gap(parser)
    add_verbose(parser)
    add_json(parser)
    add_mapping(parser)
    add_path(parser, "--accelforge-mapping", f"{ACCELFORGE_MAPPING}, with --einsum")
    add_path(
        parser,
        "--certificate",
        "write a certificate, which `prove OUT` checks without the solver (- is stdout)",
    )
    add_flag(
        parser,
        "--check",
        "have the certificate checked without the solver, as `prove` does; the exit code is 0 only if it is "
        "VALID",
    )
    add_flag(
        parser,
        "--sensitivity",
        "map again with each capacity and bandwidth halved and doubled; --time-limit applies to each",
    )
    add_flag(
        parser,
        "--price-constraints",
        "report the cost of each constraint, as `explain` does; at most "
        f"{EXPLAIN_TIME_LIMIT_S:g} s each unless --time-limit is given",
    )
    add_flag(
        parser,
        "--pareto",
        "find the energy-latency front: all Pareto-optimal mappings; --time-limit applies to the whole front",
    )
    _add_engine(
        parser,
        ENGINES,
        "search engine: bounds and branching (bounds), CP-SAT on the whole problem (cp-sat, slower), or both "
        "(auto, the default: bounds, and after 5 s CP-SAT in parallel, if there are several jobs)",
    )
    parser.add_argument(
        "--export-model",
        type=model_file,
        metavar="OUT",
        help="write the problem for other solvers: OUT.pb (OR-tools), "
        "OUT.mps or OUT.fzn; its optimum is a lower "
        "bound on the energy or latency in the cost model (docs/formulation.md)",
    )
    add_path(
        parser,
        "--plot",
        "draw the mapping, or with --pareto the front, as SVG, PNG or PDF; PNG and PDF need matplotlib",
    )
    add_flag(parser, "--quiet", "print no progress and no report")
    return parser


def _add_evaluate(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(commands, "evaluate", "evaluate a given mapping", countings=PRICED_COUNTINGS)
    add_arch(parser)
    add_path(
        parser,
        "--mapping",
        "YAML file with a Timeloop v4 mapping (default: the mapping in the specs), with a fused mapping "
        "of a workload (docs/fusion.md), or with a mapping of AccelForge (docs/accelforge.md)",
        "MAP",
    )
    add_flag(
        parser,
        "--link-transfers",
        "count transfers between neighbours, as Timeloop does by default (with --counting timeloop)",
    )
    add_flag(
        parser,
        "--timeloop-defects",
        "reproduce Timeloop's known defects in counting sparse data (docs/sparse.md)",
    )
    parser.set_defaults(refuse=parser.error)
    add_verbose(parser)
    add_json(parser)
    add_flag(parser, "--quiet", "print no report")
    return parser


def _add_check(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(
        commands, "check", "validate a spec; print hierarchy, problem and size of the mapspace"
    )
    add_arch(parser)
    add_wide(parser)
    return parser


def _add_compare(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(commands, "compare", "compare heuristic mappers with the proven optimum")
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
        help="comma-separated names of mappers, such as random,greedy (default: all registered mappers)",
    )
    add_repeatable(
        parser,
        "--mapper",
        "own_mappers",
        "MODULE:CLASS",
        "your own mapper, in addition to --mappers; may be repeated",
    )
    add_repeatable(
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
        help="time per mapper in seconds (default: %(default)g)",
    )
    parser.add_argument(
        "--evaluations",
        type=positive,
        metavar="N",
        help="maximum number of mappings that each mapper may evaluate",
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
        help="instead of an operator: tile the problem in these YAML specs for the scratchpads of their "
        "architecture (with only the PEs of the backend), and map it",
    )
    add_mapping(parser, "with --onto: ")
    add_json(parser, has_report=False)
    add_reading(parser)
    parser.set_defaults(refuse=parser.error)
    return parser


def _add_operator(parser: argparse.ArgumentParser) -> None:
    known = tuple(OPERATORS)
    parser.add_argument(
        "--operator", type=name_reader(known), metavar="OP", help=f"one of {', '.join(known)}"
    )
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
    files = "YAML files with a network, merged by top-level key; with --methods, also an architecture; "
    files += "or an instance of the iopddl contest (.json, .json.gz)"
    parser = add_spec_command(commands, "assign", summary, specs_help=files)
    parser.description = """\
Choose a method for every layer of a network so that the total cost of execution
and transitions is minimal, and prove it."""
    _add_costs(parser)
    search = parser.add_argument_group("search")
    search.add_argument(
        "--objective",
        type=additive,
        metavar="NAME",
        help=f"with --methods: the cost to minimise, {' or '.join(ADDITIVE)} (default: {ADDITIVE[0]})",
    )
    add_effort(search, "assignment", seeded="toulbar2 and CP-SAT")
    add_memory_limit(search)
    _add_searches(parser)
    add_json(parser)
    parser.add_argument(
        "--plot",
        type=picture,
        metavar="OUT",
        help="draw the layered graph with the chosen methods highlighted (.png, .svg, .pdf; needs Graphviz)",
    )
    parser.add_argument(
        "--show-graph",
        type=graph,
        metavar="OUT",
        help="write the layered graph without a solution: DOT (.dot, .gv, or - for stdout) or a picture",
    )
    add_path(
        parser, "--answer", "for an instance in JSON: write the chosen strategies in the contest's format"
    )
    add_flag(parser, "--decomposition", "print every step of the decomposition")
    add_flag(parser, "--quiet", "print no report")
    return parser


def _add_costs(parser: argparse.ArgumentParser) -> None:
    """Add the options on where the costs of methods come from, if not from the network."""
    parser.add_argument(
        "--methods",
        type=input_path,
        metavar="FILE",
        help="let the mapper compute the cost of each layer with each method of FILE; --time-limit, "
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
        help="criterion for the array: total of the best assignment, sum "
        "of the layers' cheapest methods, or sum "
        "over all methods (default: %(default)s)",
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
    add_path(parser, "--certificate", "write the certificate to this file")
    _add_engine(
        parser,
        (BOUNDS, CP_SAT),
        "with cp-sat, CP-SAT also solves the problem on its own, as a "
        "further witness, and must find the same optimum",
    )
    parser.add_argument(
        "--check-time-limit", type=seconds, metavar="S", help="stop the check after S seconds"
    )
    add_flag(parser, "--quiet", "print only the verdict")
    return parser


def _add_report(commands: Commands) -> argparse.ArgumentParser:
    summary = "turn a result that --json wrote into an HTML page, or compare two results"
    parser = add_command(commands, "report", summary)
    parser.add_argument(
        "results",
        type=file_path,
        nargs="+",
        metavar=("RESULT", "OTHER"),
        help="JSON document written by --json; of two, print differences in figures, energy and mapping",
    )
    page = "HTML page to write (- is stdout; default: RESULT with the suffix .html, none for two results)"
    add_path(parser, "--output", page, "OUT")
    add_path(parser, "--json", "write the differences of two results as JSON (- is stdout)")
    add_wide(parser)
    return parser


def _add_explain(commands: Commands) -> argparse.ArgumentParser:
    parser = add_spec_command(
        commands,
        "explain",
        "explain why no mapping exists, or report the cost of each constraint",
        countings=PRICED_COUNTINGS,
    )
    parser.description = f"""\
If no mapping exists, show the conflicting constraints, the shortfall, and changes that resolve it.
Otherwise report the cost of each constraint, by searching the optimum with all constraints and
without each one; at most {EXPLAIN_TIME_LIMIT_S:g} s each unless --time-limit is given."""
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
Find and prove the best mapping of every Einsum of a network: an AccelForge
workload, an ONNX model, or layer files in Timeloop's form (each with `problem`;
a directory means its files), on the architecture in the other files. Identical
Einsums are searched once. --time-limit applies to each search. --set also sets
sizes that an ONNX model leaves open."""
    add_arch(parser, one_einsum=False, names_tensors=True)
    _add_run_options(parser)
    add_json(parser)
    parser.add_argument(
        "--same",
        choices=("spatial",),
        metavar="WHAT",
        help="spatial: find the best spatial unrolling that all Einsums can share, and its cost relative to "
        "their own optima; --time-limit applies to the whole search",
    )
    _add_fusion(parser)
    group = parser.add_argument_group("files per Einsum")
    add_path(
        group,
        "--certificates",
        "write a certificate for each Einsum, identical ones once; `prove` checks them",
        "DIR",
    )
    add_path(group, "--mappings", "write the mapping of each Einsum as Timeloop v4 YAML", "DIR")
    add_flag(
        group,
        "--check",
        "have the certificates checked without the solver, as `prove` does, also that of a fused mapping; "
        "the exit code is 0 only if all are VALID",
    )
    group.add_argument(
        "--check-time-limit",
        type=time_limit,
        metavar="S",
        help="stop each check after S seconds; none: no limit (default: no limit; with --fuse or --same "
        f"{CHECK_TIME_LIMIT_S:g})",
    )
    return parser


def _add_fusion(parser: argparse.ArgumentParser) -> None:
    """Add the options on Einsums that share loops."""
    group = parser.add_argument_group("fused mappings (docs/fusion.md)")
    add_flag(
        group,
        "--fuse",
        "let Einsums share loops and pass tensors on chip; --time-limit applies to the whole search",
    )
    group.add_argument(
        "--fuse-into",
        nargs="+",
        type=name_list,
        metavar="MEMORY",
        help="on-chip memories that may store tensors between Einsums (default: all suitable ones)",
    )
    group.add_argument(
        "--no-fuse",
        nargs="*",
        type=name_list,
        metavar="TENSOR",
        help=f"tensors that must go through the outermost memory; without names and --fuse: {OUTSIDE}",
    )
    group.add_argument(
        "--max-fused-loops", type=count, metavar="N", help="at most N shared loops above an Einsum"
    )
    group.add_argument(
        "--max-fused-loops-per-rank",
        type=positive,
        metavar="N",
        help="at most N shared loops over one rank",
    )
    group.add_argument(
        "--shared-factors",
        choices=FACTORS,
        metavar="KIND",
        help="factors of shared loops: divisors only (perfect, the default), or any, with remainders (any)",
    )
    add_path(group, "--fused-mapping", "write the fused mapping as YAML, which `evaluate` reads")
    add_path(group, "--accelforge-mapping", f"{ACCELFORGE_MAPPING}, for an `arch` of AccelForge")
    add_path(
        group,
        "--certificate",
        "write the certificate of the whole result (also with --same); `prove` checks it",
    )


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that maps networks."""
    add_search_options(parser)
    add_gap(parser, " if it holds for all of them")
    _add_searches(parser)
    add_flag(parser, "--quiet", "print no progress and no report")


def _add_searches(parser: argparse.ArgumentParser) -> None:
    """Add the options on where results of many searches are kept, and where the searches run."""
    group = parser.add_argument_group("many searches")
    cache = group.add_mutually_exclusive_group()
    add_path(
        cache,
        "--cache",
        "directory for proven results (default: tilewright in the user's cache directory)",
        "DIR",
    )
    add_flag(cache, "--no-cache", "cache no results")
    add_flag(group, "--resume", "reuse cached results, for instance after an interrupted run")
    group.add_argument(
        "--cluster",
        type=address,
        metavar="ADDRESS",
        help="search on the workers of a Dask cluster, such as tcp://host:8786 (extra `cluster`)",
    )


def _add_sweep(commands: Commands) -> argparse.ArgumentParser:
    summary = "map networks on many variants of an architecture"
    files = f"{NETWORK_FILES}; shared by all combinations"
    parser = add_spec_command(
        commands, "sweep", summary, specs_nargs="*", specs_help=files, countings=PRICED_COUNTINGS
    )
    parser.description = """\
Map every combination of a workload, an architecture and attribute values, prove
each Einsum's optimum, and show which combinations are Pareto-optimal. SPEC files
belong to every combination; they are read as by `network`. A search that several
combinations need runs once. --time-limit applies to each search."""
    add_repeatable(
        parser,
        SETTING,
        "settings",
        "NODE.ATTRIBUTE=VALUE,...",
        "values of an attribute of a component or container, such as buffer.depth=1024,2048, or "
        "PE.meshX=8,16 for its fanout; repeat for all combinations",
    )
    add_repeatable(
        parser,
        "--density",
        "densities",
        "DATASPACE=SHARE,...",
        "instead of attributes: map one layer with sparse data at each density, such as Weights=0.1,0.5; "
        "repeat for all combinations",
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


def _add_bound(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands, "bound", "find the least traffic to memory that any mapping needs, by buffer size"
    )
    parser.description = """\
Find the least traffic between a memory and one buffer that any mapping reaches, for
all buffer sizes at once: for an Einsum (such as "Z[m,n] = A[m,k] * B[k,n]" m=16384
k=1024 n=1024), for a layer file, or for all layers of a directory, a workload or an
ONNX model, one after the other. Each input gives one curve. No architecture is needed.
Buffer sizes and traffic are in bytes; k, M and G are decimal, Ki, Mi and Gi binary.
docs/bound.md explains the curves."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="an Einsum as text, the size of an index such as m=1024, or the path of a layer file, a "
        "directory of these, a workload, or an ONNX model",
    )
    group = parser.add_argument_group("results")
    group.add_argument(
        "--capacity",
        type=byte_range,
        default=(None, None),
        metavar="LEAST:MOST",
        help="range of buffer sizes to show, such as 256:16Mi (default: all at which the traffic changes)",
    )
    group.add_argument(
        "--at",
        type=byte_sizes,
        default=(),
        metavar="SIZE,...",
        help="buffer sizes to show, such as 64Ki,2Mi; with --fuse, the sizes to search",
    )
    group.add_argument(
        "--traffic",
        type=byte_sizes,
        default=(),
        metavar="BYTES,...",
        help="show the least buffer for these amounts of traffic, such as 100Mi",
    )
    group.add_argument(
        "--bandwidth",
        type=quantity,
        metavar="BYTES",
        help="with --macs: bytes per unit of time (a second or a cycle) between memory and buffer; shows the "
        "buffer size from which the workload is compute-bound",
    )
    group.add_argument(
        "--macs", type=quantity, metavar="N", help="multiply-accumulates in the same unit of time"
    )
    add_flag(
        group,
        "--fuse",
        "also search fused mappings, in which intermediates of a workload stay in the buffer",
    )
    group = parser.add_argument_group("how inputs are read")
    group.add_argument(
        "--bits",
        type=value_bits,
        metavar="N|NAME=N,...",
        help="bits of a value, for all tensors or by tensor: A=8,B=8,Z=32 (default: from the file, or 8)",
    )
    group.add_argument(
        "--factors",
        choices=FACTORS,
        default=ANY,
        metavar="KIND",
        help="loop factors: any, so that the last pass of a loop may be short (any, the default), or "
        "divisors only (perfect)",
    )
    add_repeatable(group, "--set", "variables", "NAME=VALUE", "set a template variable; may be repeated")
    parser.add_argument(
        "--time-limit",
        type=time_limit,
        metavar="S",
        help="stop after S seconds with the curves found so far, as the first Ctrl-C does (default: none; "
        f"with --fuse {FUSED_TIME_LIMIT_S:g})",
    )
    add_json(parser)
    add_csv_and_plot(parser, "the curves")
    add_path(
        parser,
        "--certificate",
        "write a certificate of the curves, which `prove OUT` checks without the solver (- is stdout)",
    )
    add_flag(
        parser,
        "--check",
        "have the certificate checked without the solver, as `prove` does; the exit code is 0 only if it is "
        "VALID",
    )
    add_flag(parser, "--quiet", "print no progress and no report")
    parser.set_defaults(specs=(), check_time_limit=None)
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
    "bound": _add_bound,
    "report": _add_report,
}
