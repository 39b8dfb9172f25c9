"""Compares mappers with the proven optimum over the benchmark's cases, and prints geometric means.

python scripts/compare.py --only eyeriss_like/resnet18 --mappers random,greedy --budget 5 --csv out.csv
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import product, takewhile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_cases import Case, bench_cases, containing
from rich.console import Console

from solver.cli.arguments import add_mapper_options
from solver.cli.commands import chosen_mappers
from solver.cli.options import objectives, seconds, seed
from solver.cli.output import OutputError, check_outputs, write_output
from solver.cli.progress import interruptible
from solver.comparison import MILESTONES_PERCENT, Comparison, MapperRun, compare, geometric_mean
from solver.exit_codes import EXIT_INVALID
from solver.heuristics.interface import Budget, MapperError
from solver.heuristics.registry import Mapper
from solver.report.comparison import comparison_document, comparisons_csv, exact_outcome
from solver.report.console import ReportTable, plain_table, text_table
from solver.report.document import json_text
from solver.report.figures import NOTHING, count_text, seconds_text
from solver.report.pages import mappers_table
from solver.report.reading import as_value
from solver.result import Options, StopCallback


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    own = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    own.add_argument("--only", default="", help="run only cases whose name contains this text")
    own.add_argument(
        "--objectives", type=objectives, default="edp", help="comma-separated, each on its own (default: edp)"
    )
    own.add_argument(
        "--time-limit", type=seconds, default=60.0, metavar="S", help="of each proof (default: 60)"
    )
    own.add_argument("--seed", type=seed, default=0, help="of searches and mappers (default: 0)")
    own.add_argument("--csv", type=Path, metavar="OUT", help="write all rows as CSV as well")
    own.add_argument("--json", type=Path, metavar="OUT", help="write all comparisons as JSON as well")
    add_mapper_options(own)
    return own


def main() -> None:
    """Run the cases one by one, write what is known after each, print the tables; Ctrl-C ends it early."""
    arguments = parser().parse_args()
    check_outputs((arguments.csv, arguments.json), ())
    mappers = chosen_mappers(arguments)
    cases = containing(arguments.only, bench_cases())
    console = Console(width=160, highlight=False)
    comparisons: list[Comparison] = []
    console.print("10 %, 1 %, 0 %: time at which a mapper first came within this distance of the reference")
    with interruptible() as stop:
        runs = takewhile(lambda _: not stop.is_set(), product(cases, arguments.objectives))
        for case, objective in runs:
            console.print(f"\n[bold]{case.name}[/bold] for {objective}")
            comparisons.append(run(case, objective, mappers, arguments, stop.is_set))
            document = as_value(comparison_document(comparisons[-1]))
            console.print(text_table(mappers_table(document)))
            write(comparisons, arguments)
    console.print(f"\n[bold]Geometric means[/bold] over {len(comparisons)} comparisons")
    console.print(summary_table(comparisons))


def run(
    case: Case,
    objective: str,
    mappers: Sequence[tuple[str, Mapper]],
    arguments: argparse.Namespace,
    should_stop: StopCallback,
) -> Comparison:
    """Compare the mappers for one case and one objective."""
    options = Options(objectives=(objective,), time_limit_s=arguments.time_limit, seed=arguments.seed)
    budget = Budget(arguments.budget, arguments.evaluations)
    mapspace = case.mapspace()
    return compare(mapspace, mappers, options, budget, should_stop=should_stop, case=case.name)


def write(comparisons: Sequence[Comparison], arguments: argparse.Namespace) -> None:
    """Write what is known so far, where it was asked for."""
    if arguments.csv is not None:
        write_output(arguments.csv, comparisons_csv(comparisons))
    if arguments.json is not None:
        documents = [comparison_document(comparison) for comparison in comparisons]
        write_output(arguments.json, json_text({"comparisons": documents}))


def summary_table(comparisons: Sequence[Comparison]) -> ReportTable:
    """Return a row per mapper and objective over many comparisons, with geometric means.

    Means are over the proven cases that the mapper mapped; shares within a milestone, over all proven ones.
    """
    figures = (">Cases", ">Mapped", ">Ratio", ">Worst", ">Time", ">Evaluations")
    table = plain_table(
        "Mapper", "Objective", *figures, *(f">{distance} %" for distance in MILESTONES_PERCENT)
    )
    runs: dict[tuple[str, str], list[tuple[Comparison, MapperRun]]] = {}
    for each in comparisons:
        for outcome in (exact_outcome(each), *each.outcomes):
            cases = [(each, outcome)] if each.proven else []
            runs.setdefault((outcome.mapper, each.result.objective), []).extend(cases)
    for (mapper, objective), cases in runs.items():
        table.add_row(mapper, objective, *summary_cells(cases))
    return table


def summary_cells(cases: Sequence[tuple[Comparison, MapperRun]]) -> list[str]:
    """Return the figures of a mapper over these cases."""
    ratios = [ratio for each, outcome in cases if (ratio := each.ratio(outcome.value)) is not None]
    mean = geometric_mean(ratios)
    seconds = geometric_mean(max(outcome.seconds, 1e-6) for _, outcome in cases)
    evaluations = geometric_mean(outcome.evaluations for _, outcome in cases if outcome.evaluations)
    reached = [
        sum(each.first_within(outcome.trace, percent) is not None for each, outcome in cases)
        for percent in MILESTONES_PERCENT
    ]
    return [
        count_text(len(cases)),
        count_text(sum(outcome.value is not None for _, outcome in cases)),
        NOTHING if mean is None else f"{mean:.4f}",
        f"{max(ratios):.4f}" if ratios else NOTHING,
        NOTHING if seconds is None else seconds_text(seconds),
        NOTHING if evaluations is None else count_text(round(evaluations)),
        *(f"{count}/{len(cases)}" for count in reached),
    ]


if __name__ == "__main__":
    try:
        main()
    except (MapperError, OutputError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(EXIT_INVALID)
