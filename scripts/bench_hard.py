"""Runs designs that are hard to prove by bounds alone, and by bounds with CP-SAT beside them (`auto`).

Prints per case and engine: value, bound, gap, wall-clock and CPU seconds (of all processes that ended), when
there was a mapping, by how much the time limit was exceeded, and the peak memory of the process that runs
bounds; in the end where `auto` closed or halved the gap of bounds, where it took more time, and where a limit
was not kept. Both engines run one right after the other with the same time limit; figures of a machine that
does other work say little.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hard_designs import HardCase, hard_cases
from rich.console import Console
from rich.table import Table

from solver.heuristics.interface import Budget, BudgetSpent, MapperError
from solver.heuristics.local_search import GreedyDescent
from solver.heuristics.pricing import Pricing
from solver.processes import peak_memory_bytes
from solver.result import AUTO, BOUNDS, Options, Progress, Result, Status
from solver.stages import map_einsum

PROVEN = (Status.OPTIMAL, Status.INFEASIBLE)

SLOWER = 1.1
"""Time of `auto`, divided by that of bounds, above which it is named, where both prove the optimum."""

COLUMNS = (
    "case",
    "objective",
    "engine",
    "status",
    ">value",
    ">bound",
    ">gap",
    ">wall s",
    ">CPU s",
    ">first s",
    ">late s",
    ">MiB",
)

LATE_S = 2.0
"""Seconds beyond the time limit from which on a run is named."""

MEMORY_MIB = Options().memory_limit_mib
"""Peak memory from which on a run is named."""


class Run(NamedTuple):
    """One engine on one case."""

    case: HardCase
    engine: str
    result: Result
    wall_s: float
    cpu_s: float
    first_s: float | None
    late_s: float
    peak_mib: int

    @property
    def gap(self) -> float:
        """Of the result; 1 without a mapping."""
        return 0.0 if self.result.status in PROVEN else self.result.gap or 1.0


def run(case: HardCase, engine: str, limit_s: float, jobs: int, cpu_limit_s: float) -> Run:
    """Map a case; reading it does not count."""
    mapspace, found = case.mapspace(), list[float]()
    options = Options((case.objective,), time_limit_s=limit_s, jobs=jobs, engine=engine)

    def hear(progress: Progress) -> None:
        if progress.incumbent is not None and not found:
            found.append(time.monotonic() - start)

    forget_peak()
    start, cpu, own = time.monotonic(), cpu_seconds(), time.process_time()
    result = map_einsum(mapspace, options, hear, lambda: time.process_time() - own > cpu_limit_s)
    wall_s = time.monotonic() - start
    first_s = found[0] if found else wall_s if result.mapping is not None else None
    late_s, peak_mib = max(0.0, wall_s - limit_s), peak_memory_bytes() >> 20
    return Run(case, engine, result, wall_s, cpu_seconds() - cpu, first_s, late_s, peak_mib)


def forget_peak() -> None:
    """Measure the peak memory of this process anew, where the system can."""
    gc.collect()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def greedy(case: HardCase, seconds: float) -> int | None:
    """Value that greedy descents find in some time."""
    try:
        pricing = Pricing(case.mapspace(), (case.objective,), Budget(seconds, None))
        GreedyDescent().find_mapping(pricing.mapspace, pricing)
    except (BudgetSpent, MapperError):
        pass
    return int(pricing.best.values[0]) if pricing.best is not None else None


def row(run: Run) -> list[str]:
    """Table cells of one run."""
    result = run.result
    figures = (result.reported_value, result.reported_bound)
    return [
        run.case.name,
        run.case.objective,
        run.engine,
        result.status.name,
        *("-" if own is None else f"{own:.5g}" for own in figures),
        f"{100 * run.gap:.2f} %",
        f"{run.wall_s:.1f}",
        f"{run.cpu_s:.1f}",
        "-" if run.first_s is None else f"{run.first_s:.2f}",
        f"{run.late_s:.1f}",
        str(run.peak_mib),
    ]


def verdicts(runs: Sequence[Run]) -> Iterator[str]:
    """Say where `auto` is better, where it is slower, and which limits were not kept."""
    for own in runs:
        name = f"{own.case.name} ({own.case.objective}) by {own.engine}"
        if own.late_s > LATE_S:
            yield f"late: {name}, by {own.late_s:.1f} s"
        if own.peak_mib > MEMORY_MIB:
            yield f"memory: {name}, {own.peak_mib} MiB"
    for bounds, auto in zip(runs[::2], runs[1::2], strict=True):
        name = f"{bounds.case.name} ({bounds.case.objective})"
        both = bounds.result.status in PROVEN and auto.result.status in PROVEN
        if both and auto.wall_s > SLOWER * bounds.wall_s:
            yield f"slower: {name}, {auto.wall_s / bounds.wall_s:.2f} times as long"
        elif auto.result.status in PROVEN and not both:
            yield f"closed: {name}, a gap of {100 * bounds.gap:.2f} %"
        elif not both and 2 * auto.gap <= bounds.gap:
            yield f"halved: {name}, from {100 * bounds.gap:.2f} to {100 * auto.gap:.2f} %"


def main() -> None:
    """Parse the options, run the cases, print tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="run only cases whose name contains one of these texts")
    parser.add_argument("--time-limit", type=float, default=20.0, metavar="S", help="per run (default: 20)")
    parser.add_argument(
        "--cpu-limit",
        type=float,
        default=math.inf,
        metavar="S",
        help="CPU seconds of the process that runs bounds, per run: for machines that do other work",
    )
    parser.add_argument(
        "--jobs", type=int, default=2, help="workers (default: 2; with 1 CP-SAT is not asked)"
    )
    parser.add_argument("--greedy", action="store_true", help="compare with greedy descents of the same time")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures as JSON lines as well")
    options = parser.parse_args()
    console, runs = Console(width=160), list[Run]()
    table = Table(title=f"At most {options.time_limit:g} s each", title_justify="left")
    for column in COLUMNS:
        table.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left")
    only = options.only.split(",")
    for case in (own for own in hard_cases() if any(name in own.name for name in only)):
        for engine in (BOUNDS, AUTO):
            runs.append(run(case, engine, options.time_limit, options.jobs, options.cpu_limit))
            table.add_row(*row(runs[-1]))
            console.print("  ".join(row(runs[-1])))
        if options.greedy and runs[-1].result.value is not None:
            value = greedy(case, min(options.time_limit, runs[-1].wall_s))
            told = "nothing" if value is None else f"{value / runs[-1].result.value:.4f} times that of auto"
            console.print(f"    greedy descents: {told}")
    console.print(table)
    for verdict in verdicts(runs):
        console.print(verdict)
    if options.json:
        lines = (json.dumps(dict(zip(COLUMNS, row(own), strict=True))) for own in runs)
        options.json.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
