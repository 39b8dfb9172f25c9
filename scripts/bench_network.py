"""Times whole networks: shipped workloads by architectures, every Einsum to its proof.

    python scripts/bench_network.py --jobs 2

Prints the time per network, how many Einsums it has, how many searches that takes, and how many are
proven. Processor seconds are those of all processes together: they say more than the clock on a machine
that does other work as well. Nothing here is a test: the figures are those of the machine it runs on.
"""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from model.extents import PERFECT
from model.formats.cascade import load_network
from model.formats.timeloop import LoadOptions
from solver.cli.options import objectives, positive
from solver.network import NetworkResult, Processes, Run, Serial, map_network
from solver.result import Options

SPECS = Path(__file__).resolve().parent.parent / "specs"
WORKLOADS = ("three_matmuls", "gpt3_block", "resnet18", "mobilenet_v2", "attention")
ARCHITECTURES = ("eyeriss_like", "simba_like", "tpu_like")
GOALS_S = {"resnet18": 20.0}
"""What is aimed for on two cores."""


class Timing(NamedTuple):
    """One network, what came out, and the processor seconds of all processes."""

    workload: str
    architecture: str
    result: NetworkResult
    cpu_s: float


def run(workloads: Sequence[str], architectures: Sequence[str], options: Options) -> Iterator[Timing]:
    """Map each workload on each architecture, without a cache."""
    executor = Processes(options.jobs) if options.jobs > 1 else Serial()
    for workload in workloads:
        for architecture in architectures:
            files = [
                SPECS / "workloads" / f"{workload}.yaml",
                SPECS / "architectures" / f"{architecture}.yaml",
            ]
            network = load_network(files, options=LoadOptions(factors=PERFECT))
            start = cpu_seconds()
            result = map_network(network, options, Run(executor=executor))
            yield Timing(workload, architecture, result, cpu_seconds() - start)


def cpu_seconds() -> float:
    """Processor seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(own.ru_utime + own.ru_stime for own in used)


def table(timings: Sequence[Timing]) -> Table:
    """One row per network."""
    rows = Table()
    for heading in (
        *("workload", "architecture", "Einsums", "searches", "proven", "status"),
        *("seconds", "aim", "processor seconds"),
    ):
        rows.add_column(heading)
    for timing in timings:
        result = timing.result
        einsums, goal = len(result.network.layers), GOALS_S.get(timing.workload)
        rows.add_row(
            timing.workload,
            timing.architecture,
            str(einsums),
            str(sum(own.origin == "searched" for own in result.layers)),
            f"{result.proven}{'' if result.proven == einsums else '  MISSED'}",
            result.status.value,
            f"{result.seconds:.2f}",
            "" if goal is None else f"{goal:.0f}{'' if result.seconds <= goal else '  MISSED'}",
            f"{timing.cpu_s:.2f}",
        )
    return rows


def main() -> None:
    """Parse the options, run the networks, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=WORKLOADS)
    parser.add_argument("--architectures", nargs="+", choices=ARCHITECTURES, default=ARCHITECTURES)
    parser.add_argument(
        "--objective", type=objectives, default="edp", help="energy, latency or edp (default: %(default)s)"
    )
    parser.add_argument("--jobs", type=positive, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument(
        "--time-limit", type=float, default=60.0, metavar="S", help="per search (default: 60)"
    )
    given = parser.parse_args()
    options = Options(given.objective, time_limit_s=given.time_limit, jobs=given.jobs)
    console = Console(width=140)
    console.print(table(list(run(given.workloads, given.architectures, options))))


if __name__ == "__main__":
    main()
