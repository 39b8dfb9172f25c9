"""Times proofs of optimality: shipped architectures by unique layers, energy and EDP.

Prints the time to proof per case, the states bounded, and a summary with geometric means. Where factors may
be any, the search without remainders is timed as well, and what remainders save is shown. With ``--uneven``
memories have several places in the loop nest: also what that saves. Nothing here is a test: the figures are
those of the machine it runs on.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_cases import Case, awkward_cases, bench_cases, containing
from rich.console import Console
from rich.table import Table

from model.extents import ANY, FACTORS, PERFECT, Factors
from model.places import spread
from solver.cli.options import objectives
from solver.result import Options, Result, Status
from solver.stages import map_einsum

GOAL_GEOMEAN_S = {"energy": 1.0, "edp": 3.0}
GOAL_SLOWEST_S = 20.0

COLUMNS = ("objective", "cases", "proven", "geometric mean s", "aim", "slowest s", "aim", "slowest case")


class Timing(NamedTuple):
    """One case: what was asked, how it ended, how long it took, and how long without remainders."""

    name: str
    objective: str
    result: Result
    seconds: float
    perfect_seconds: float


def run(
    cases: Sequence[Case], objectives: Sequence[str], limit_s: float, factors: Factors, uneven: bool
) -> Iterator[Timing]:
    """Map each case for each objective."""
    for case, objective in product(cases, objectives):
        result, perfect_seconds = timed(case, objective, limit_s, PERFECT, uneven)
        seconds = perfect_seconds
        if factors == ANY:
            result, seconds = timed(case, objective, limit_s, ANY, uneven)
        yield Timing(case.name, objective, result, seconds, perfect_seconds)


def timed(case: Case, objective: str, limit_s: float, factors: Factors, uneven: bool) -> tuple[Result, float]:
    """Map a case; return the result and the seconds that it took, loading the files included."""
    start = time.perf_counter()
    mapspace = case.mapspace(factors)
    mapspace = spread(mapspace) if uneven else mapspace
    result = map_einsum(mapspace, Options(objectives=(objective,), time_limit_s=limit_s))
    return result, time.perf_counter() - start


def row(timing: Timing) -> list[str]:
    """Table cells of one timing."""
    statistics, value = timing.result.statistics, timing.result.reported_value
    return [
        timing.name,
        timing.objective,
        timing.result.status.name,
        f"{timing.seconds:.2f}",
        f"{value:.5g}" if value is not None else "-",
        f"{timing.perfect_seconds:.2f}",
        gain(timing.result),
        f"{statistics.states:,}",
        f"{statistics.listed:,}",
        f"{statistics.mappings_priced:,}",
    ]


def gain(result: Result) -> str:
    """How much remainders or uneven tiles save of the best value without, as far as both are known."""
    narrower = result.perfect_factors or result.even_tiles
    if narrower is None or not narrower.value or result.value is None:
        return "-"
    return f"{1 - result.value / narrower.value:.2%}"


def summary(timings: Sequence[Timing], objectives: Sequence[str]) -> Table:
    """Geometric mean, slowest case and share of proofs, beside what is aimed for."""
    table = Table(title="Summary", title_justify="left")
    for column in COLUMNS:
        table.add_column(column)
    for objective in objectives:
        own = [t for t in timings if t.objective == objective]
        if not own:
            continue
        proven = sum(t.result.status in (Status.OPTIMAL, Status.INFEASIBLE) for t in own)
        mean = math.exp(sum(math.log(t.seconds) for t in own) / len(own))
        slowest = max(own, key=lambda t: t.seconds)
        table.add_row(
            objective,
            str(len(own)),
            f"{proven}{'' if proven == len(own) else '  MISSED'}",
            f"{mean:.3f}{'' if mean <= GOAL_GEOMEAN_S.get(objective, math.inf) else '  MISSED'}",
            f"{GOAL_GEOMEAN_S.get(objective, math.nan):.1f}",
            f"{slowest.seconds:.2f}{'' if slowest.seconds <= GOAL_SLOWEST_S else '  MISSED'}",
            f"{GOAL_SLOWEST_S:.0f}",
            slowest.name,
        )
    return table


def main() -> None:
    """Parse the options, run the cases, print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="run only cases whose name contains this text")
    parser.add_argument(
        "--objectives", type=objectives, default="energy,edp", help="comma-separated (default: energy,edp)"
    )
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S", help="per case (default: 60)")
    parser.add_argument("--factors", choices=FACTORS, help="of loops (default: any; with --uneven, perfect)")
    parser.add_argument("--uneven", action="store_true", help="let memories have several places")
    parser.add_argument("--awkward", action="store_true", help="shapes whose bounds have few divisors")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the timings as JSON lines as well")
    options = parser.parse_args()
    factors = options.factors or (PERFECT if options.uneven else ANY)
    cases = containing(options.only, awkward_cases() if options.awkward else bench_cases())
    console = Console(width=160)
    timings: list[Timing] = []
    for timing in run(cases, options.objectives, options.time_limit, factors, options.uneven):
        timings.append(timing)
        console.print("  ".join(f"{cell:<{width}}" for cell, width in zip(row(timing), WIDTHS, strict=True)))
    console.print(summary(timings, options.objectives))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"peak memory {peak_mib:.0f} MiB (aim: at most 1536)")
    if options.json:
        lines = (json.dumps([t.name, t.objective, t.result.status.name, t.seconds]) for t in timings)
        options.json.write_text("\n".join(lines) + "\n", encoding="utf-8")


WIDTHS = (58, 7, 8, 7, 11, 7, 7, 12, 7, 7)

if __name__ == "__main__":
    main()
