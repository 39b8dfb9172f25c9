"""Compares mappers with the proven optimum over the benchmark's cases, and ends in geometric means.

python scripts/compare.py --only eyeriss_like/resnet18 --mappers random,greedy --budget 5 --csv out.csv
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_cases import Case, bench_cases, containing
from rich.console import Console

from model.spec.timeloop import load_timeloop
from solver.cli.compare_arguments import add_mapper_options
from solver.cli.comparing import chosen_mappers
from solver.cli.options import objectives
from solver.heuristics.comparison import Comparison, compare
from solver.heuristics.interface import Budget, MapperError
from solver.report.comparison import comparison_document, comparison_table, comparisons_csv, summary_table
from solver.report.document import json_text
from solver.result import Options


def parser() -> argparse.ArgumentParser:
    own = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    own.add_argument("--only", default="", help="run only cases whose name contains this text")
    own.add_argument(
        "--objectives", type=objectives, default="edp", help="comma-separated, each on its own (default: edp)"
    )
    own.add_argument(
        "--time-limit", type=float, default=60.0, metavar="S", help="of each proof (default: 60)"
    )
    own.add_argument("--seed", type=int, default=0, help="of searches and mappers (default: 0)")
    own.add_argument("--csv", type=Path, metavar="OUT", help="write all rows as CSV as well")
    own.add_argument("--json", type=Path, metavar="OUT", help="write all comparisons as JSON as well")
    add_mapper_options(own)
    return own


def main() -> None:
    """Run the cases one by one, write what is known after each, print the tables."""
    arguments = parser().parse_args()
    console = Console(width=160, highlight=False)
    comparisons: list[Comparison] = []
    cases = containing(arguments.only, bench_cases())
    for case in cases:
        for objective in arguments.objectives:
            console.print(f"\n[bold]{case.name}[/bold] for {objective}")
            comparisons.append(run(case, objective, arguments))
            console.print(comparison_table(comparisons[-1]))
            write(comparisons, arguments)
    console.print(f"\n[bold]Geometric means[/bold] over {len(cases)} cases")
    console.print(summary_table(comparisons))


def run(case: Case, objective: str, arguments: argparse.Namespace) -> Comparison:
    options = Options(objectives=(objective,), time_limit_s=arguments.time_limit, seed=arguments.seed)
    budget = Budget(arguments.budget, arguments.evaluations)
    mapspace, mappers = load_timeloop(case.files).mapspace, chosen_mappers(arguments)
    return compare(mapspace, mappers, options, budget, case=case.name)


def write(comparisons: list[Comparison], arguments: argparse.Namespace) -> None:
    if arguments.csv is not None:
        arguments.csv.write_text(comparisons_csv(comparisons), encoding="utf-8")
    if arguments.json is not None:
        documents = [comparison_document(comparison) for comparison in comparisons]
        arguments.json.write_text(json_text({"comparisons": documents}), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except MapperError as error:
        sys.exit(f"error: {error}")
