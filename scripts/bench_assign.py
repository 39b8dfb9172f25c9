"""Time to a proven assignment of methods to layers, and how it grows.

    python scripts/bench_assign.py [--repeats N]

Random costs with a fixed seed: chains of growing length and of growing numbers of methods, series-parallel
graphs, layers joined to the five before them, and dense graphs that are searched. Times include the
second-best assignment and the naive rules. Aims are wall-clock times; growth is measured in processor time,
which other programs disturb less. Prints aims that are missed, and then exits with 1.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from model.assignment import CostedLayer, CostedNetwork, Edge
from solver.assignment import AssignResult, assign
from solver.result import Status

LARGEST_COST = 10**6


@dataclass(frozen=True)
class Case:
    """A network of `layers` x `methods`, and the seconds it may take."""

    graph: str
    layers: int
    methods: int
    aim_s: float | None = None


SIZES = {
    "chain": (
        *((500, 10), (1_000, 10), (2_000, 10), (4_000, 10), (50_000, 10), (100_000, 10)),
        *((100, 100), (100, 200), (100, 400), (100, 800)),
    ),
    "series-parallel": ((500, 10), (1_000, 10), (2_000, 10), (200, 20), (200, 40), (200, 80)),
    "narrow": ((500, 4), (1_000, 4), (2_000, 4)),
    "dense": ((10, 4), (16, 4), (16, 6)),
}
"""Layers and methods of the graphs, in the order in which they are run."""

AIMS_S = {("chain", 1_000, 10): 0.05, ("chain", 100_000, 10): 5.0, ("series-parallel", 1_000, 10): 1.0}

CASES = tuple(
    Case(graph, layers, methods, AIMS_S.get((graph, layers, methods)))
    for graph, sizes in SIZES.items()
    for layers, methods in sizes
)


def chain(count: int, _: random.Random) -> list[tuple[int, int]]:
    return [(layer, layer + 1) for layer in range(count - 1)]


def series_parallel(count: int, source: random.Random) -> list[tuple[int, int]]:
    """Put layers on edges of one edge (series), or beside them (parallel)."""
    edges = [(0, 1)]
    for layer in range(2, count):
        place = source.randrange(len(edges))
        start, end = edges[place]
        if source.random() < 0.5:
            edges[place] = edges[-1]
            edges.pop()
        edges += [(start, layer), (layer, end)]
    return edges


def narrow(count: int, _: random.Random) -> list[tuple[int, int]]:
    return [(source, target) for target in range(count) for source in range(max(0, target - 5), target)]


def dense(count: int, _: random.Random) -> list[tuple[int, int]]:
    return [(source, target) for target in range(count) for source in range(target)]


GRAPHS: dict[str, Callable[[int, random.Random], list[tuple[int, int]]]] = {
    "chain": chain,
    "series-parallel": series_parallel,
    "narrow": narrow,
    "dense": dense,
}


def network(case: Case) -> CostedNetwork:
    """Random costs on the case's graph."""
    costs = np.random.default_rng(0)
    edges = GRAPHS[case.graph](case.layers, random.Random(0))
    names = tuple(f"method{k}" for k in range(case.methods))
    vectors = costs.integers(0, LARGEST_COST, (case.layers, case.methods))
    matrices = costs.integers(0, LARGEST_COST, (len(edges), case.methods, case.methods))
    return CostedNetwork(
        case.graph,
        "steps",
        1,
        tuple(CostedLayer(f"layer{number}", names, vector) for number, vector in enumerate(vectors)),
        tuple(Edge(*ends, matrix) for ends, matrix in zip(edges, matrices, strict=True)),
    )


def best_times(work: Callable[[], AssignResult], repeats: int) -> tuple[float, float]:
    """Return the least wall-clock and processor seconds of some runs, each of them proven."""
    seconds, processor_seconds = [], []
    for _ in range(repeats):
        starts = time.perf_counter(), time.process_time()
        result = work()
        seconds.append(time.perf_counter() - starts[0])
        processor_seconds.append(time.process_time() - starts[1])
        assert result.status is Status.OPTIMAL
    return min(seconds), min(processor_seconds)


def growth(case: Case, before: tuple[Case, float] | None, seconds: float) -> str:
    """Say what became of the time when layers or methods doubled."""
    if before is None or before[0].graph != case.graph:
        return ""
    sizes = [
        (now, then) for now, then in ((case.layers, before[0].layers), (case.methods, before[0].methods))
    ]
    if sorted(now / then for now, then in sizes) != [1, 2]:
        return ""
    what = "layers" if sizes[0][0] > sizes[0][1] else "methods"
    return f"{what} x 2: time x {seconds / before[1]:.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--repeats", type=int, default=5, help="runs per case, the best one counts (default 5)"
    )
    repeats = parser.parse_args(arguments).repeats
    missed = 0
    before: tuple[Case, float] | None = None
    print(f"{'graph':16}{'layers':>8}{'methods':>9}{'seconds':>10}{'aim':>8}{'processor':>11}")
    for case in CASES:
        own = network(case)
        seconds, busy = best_times(lambda own=own: assign(own), repeats)  # type: ignore[misc]
        is_missed = case.aim_s is not None and seconds > case.aim_s
        missed += is_missed
        aim = "-" if case.aim_s is None else f"{case.aim_s:g}"
        remark = "MISSED" if is_missed else growth(case, before, busy)
        size = f"{case.graph:16}{case.layers:>8,}{case.methods:>9}"
        print(f"{size}{seconds:>10.4f}{aim:>8}{busy:>11.4f}  {remark}".rstrip())
        before = (case, busy)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
