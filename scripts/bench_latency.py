"""Times proofs where bandwidths decide the cycles: shipped architectures with less of them.

Every bandwidth of an architecture is divided by the same number, for several of those, and each case is
searched for the least latency, for latency and then energy, for the least EDP, and for the whole front.
Prints the processor time of each search. Nothing here is a test: the figures are those of the machine it
runs on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_cases import ARCHITECTURES, SPECS, cases, containing
from rich.console import Console

from model.architecture import BANDWIDTHS, StorageLevel
from model.mapspace import Mapspace
from solver.cli.options import objectives, sizes
from solver.pareto import pareto_front
from solver.result import Options, Statistics, Status
from solver.stages import map_einsum

LAYERS = tuple(
    SPECS / "layers" / f"{layer}.yaml"
    for layer in (
        "alexnet/02_conv2",
        "alexnet/05_conv5",
        "resnet18/01_conv1",
        "resnet18/14_conv4_block2_a",
        "vgg16/03_conv2_1",
        "mobilenet_v2/05_block02_depthwise",
        "mobilenet_v2/34_block12_expand",
        "gemm/1024",
        "attention/bert_large_qk",
    )
)
"""Layers whose cycles bandwidths decide, once those are scarce."""

FRONT = "front"
WIDTHS = (54, 16, 11, 8, 12, 7)


class Timing(NamedTuple):
    """One search: what was asked, how it ended, and the processor time it took."""

    name: str
    objective: str
    status: Status
    seconds: float
    statistics: Statistics


def narrowed(mapspace: Mapspace, divisor: int) -> Mapspace:
    """The mapspace with every bandwidth divided by `divisor`."""

    def narrow(level: StorageLevel) -> StorageLevel:
        for kind in BANDWIDTHS:
            rate = level.bandwidth(kind)
            level = level if rate is None else level.with_bandwidth(kind, rate / divisor)
        return level

    architecture = mapspace.architecture
    nodes = tuple(narrow(node) if isinstance(node, StorageLevel) else node for node in architecture.nodes)
    return replace(mapspace, architecture=replace(architecture, nodes=nodes))


def run(mapspace: Mapspace, objective: str, limit_s: float) -> tuple[Status, Statistics]:
    """Search one mapspace: for objectives in order (comma-separated), or for the front."""
    if objective == FRONT:
        front = pareto_front(mapspace, Options(time_limit_s=limit_s))
        return front.status, front.statistics
    result = map_einsum(mapspace, Options(objectives=tuple(objective.split(",")), time_limit_s=limit_s))
    return result.status, result.statistics


def timings(only: str, divisors: Sequence[int], searches: Sequence[str], limit_s: float) -> Iterator[Timing]:
    """Run all cases whose name contains `only`."""
    for case in containing(only, cases(ARCHITECTURES, LAYERS)):
        mapspace = case.mapspace()
        for divisor, objective in product(divisors, searches):
            start = time.process_time()
            status, statistics = run(narrowed(mapspace, divisor), objective, limit_s)
            seconds = time.process_time() - start
            yield Timing(f"{case.name} / {divisor}", objective, status, seconds, statistics)


def lists(text: str) -> list[str]:
    """Read lists of objectives, separated by spaces."""
    found = text.split()
    for own in found:
        if own != FRONT:
            objectives(own)
    return found


def main() -> None:
    """Parse the options, run the cases, print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="run only cases whose name contains this text")
    parser.add_argument(
        "--divide",
        type=sizes,
        default="4,16,64",
        help="bandwidths are divided by these (default: %(default)s)",
    )
    parser.add_argument(
        "--objectives",
        type=lists,
        default=f"latency latency,energy edp {FRONT}",
        help="separated by spaces: comma-separated objectives each, or 'front' (default: all of these)",
    )
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S", help="per case (default: 60)")
    options = parser.parse_args()
    console = Console(width=120)
    found: list[Timing] = []
    for timing in timings(options.only, options.divide, options.objectives, options.time_limit):
        found.append(timing)
        statistics = timing.statistics
        cells = (
            timing.name,
            timing.objective,
            timing.status.name,
            f"{timing.seconds:.2f}",
            f"{statistics.states:,}",
            f"{statistics.mappings_priced:,}",
        )
        console.print("  ".join(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True)))
    proven = sum(timing.status in (Status.OPTIMAL, Status.INFEASIBLE) for timing in found)
    slowest = max((timing.seconds for timing in found), default=0.0)
    total = sum(timing.seconds for timing in found)
    console.print(f"{proven} of {len(found)} proven; slowest {slowest:.2f} s, together {total:.1f} s")


if __name__ == "__main__":
    main()
