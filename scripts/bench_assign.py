"""Time to a proven assignment of methods to layers, and how it grows.

    python scripts/bench_assign.py [--repeats N]
    python scripts/bench_assign.py --race SECONDS [INSTANCE.json.gz ...]

Random costs with a fixed seed: chains of growing length and of growing numbers of methods, series-parallel
graphs, layers joined to the five before them, and dense graphs that are searched. Times include the
second-best assignment and the naive rules. Aims are wall-clock times; growth is measured in processor time,
which other programs disturb less. Prints aims that are missed, and then exits with 1.

With --race, ours beside toulbar2 alone and CP-SAT alone: random dense graphs, registers for the values of a
program (interfering ones need different registers), convolutional networks with branches, and instances of
the iopddl contest without their limit. Each has SECONDS; the figures are processor seconds to the proof, or
the gap.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from model.assignment import FORBIDDEN, CostedLayer, CostedNetwork, Edge
from model.formats.assignment.contest import load_contest
from solver import toulbar
from solver.assignment import AssignOptions, AssignResult, assign
from solver.assignment.instance import Instance, price
from solver.assignment.kernel_model import KernelModel, KernelRequest, KernelResult
from solver.result import Clock, Status, relative_gap

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
        starts = time.perf_counter(), processor_s()
        result = work()
        seconds.append(time.perf_counter() - starts[0])
        processor_seconds.append(processor_s() - starts[1])
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


def registers(values: int, size: int, seed: int) -> CostedNetwork:
    """Values of a straight program, each alive for a while, in registers or memory; moves prefer one."""
    source = random.Random(seed)
    ends = [start + 1 + int(source.expovariate(2 / size)) for start in range(values)]
    names = ("memory", *(f"r{k}" for k in range(size)))
    costs = [[source.randrange(20, 200), *(source.randrange(3) for _ in range(size))] for _ in range(values)]
    different = np.zeros((size + 1, size + 1), dtype=np.int64)
    different[range(1, size + 1), range(1, size + 1)] = FORBIDDEN
    edges = [Edge(i, j, different) for i in range(values) for j in range(i + 1, min(ends[i], values))]
    joined = {(edge.source, edge.target) for edge in edges}
    for i in range(values):
        j = i + source.randrange(1, 8)
        if j < values and (i, j) not in joined:
            same = source.randrange(5, 40) * (1 - np.eye(size + 1, dtype=np.int64))
            edges.append(Edge(i, j, same))
    layers = tuple(CostedLayer(f"v{i}", names, np.array(own)) for i, own in enumerate(costs))
    return CostedNetwork("registers", "cycles", 1, layers, tuple(edges))


def branches(blocks: int, width: int, methods: int, seed: int) -> CostedNetwork:
    """Blocks of layers, each of which feeds every layer of the next block; layouts may differ."""
    costs = np.random.default_rng(seed)
    count = blocks * width
    layouts = [costs.integers(0, 4, methods) for _ in range(count)]
    edges = []
    for i in range(count - width):
        block = i // width
        for j in range((block + 1) * width, (block + 2) * width):
            words = int(costs.integers(1, 400))
            edges.append(Edge(i, j, words * (layouts[i][:, None] != layouts[j][None, :]).astype(np.int64)))
    names = tuple(f"method{k}" for k in range(methods))
    layers = [CostedLayer(f"layer{i}", names, costs.integers(0, 1000, methods)) for i in range(count)]
    return CostedNetwork("branches", "us", 1, tuple(layers), tuple(edges))


def racers(paths: Sequence[Path]) -> Iterator[tuple[str, CostedNetwork]]:
    """Yield the instances of the race."""
    for layers, methods in (
        (12, 8),
        (14, 6),
        (16, 4),
        (16, 6),
        (18, 4),
        (18, 5),
        (20, 3),
        (20, 4),
        (24, 3),
        (30, 2),
    ):
        yield f"dense {layers} x {methods}", network(Case("dense", layers, methods))
    for values, size in (
        (60, 4),
        (60, 8),
        (120, 4),
        (120, 8),
        (200, 6),
        (200, 12),
        (300, 8),
        (300, 16),
        (500, 8),
        (500, 16),
    ):
        yield f"registers {values} x {size}", registers(values, size, values + size)
    for blocks, width, methods in (
        (6, 4, 8),
        (10, 4, 12),
        (10, 5, 8),
        (20, 4, 12),
        (20, 5, 12),
        (30, 6, 8),
        (40, 6, 12),
        (60, 6, 8),
        (60, 8, 6),
        (100, 6, 6),
    ):
        yield f"branches {blocks} x {width} x {methods}", branches(blocks, width, methods, blocks)
    for path in paths:
        yield path.name.split(".")[0], replace(load_contest(path), usage_limit=None)


def ours(own: CostedNetwork, seconds: float) -> tuple[int | None, int | None]:
    result = assign(own, AssignOptions(time_limit_s=seconds))
    return result.total, result.bound


def toulbar_alone(own: CostedNetwork, seconds: float) -> tuple[int | None, int | None]:
    instance, clock = Instance.of(own), Clock(seconds)
    if instance.infinity >= toulbar.LARGEST:
        return None, None
    with toulbar.Problem(instance.vectors, instance.matrices) as problem:
        found = problem.search(instance.infinity, clock.stop)
    total = None if found.choice is None else price(instance, found.choice)
    return total, total if found.is_done else found.bound


def cp_sat_alone(own: CostedNetwork, seconds: float) -> tuple[int | None, int | None]:
    instance, clock = Instance.of(own), Clock(seconds)
    if sum(matrix.size for matrix in instance.matrices.values()) > MOST_PAIRS:
        return None, None
    model = KernelModel(instance, 0, instance.infinity - 1, KernelRequest())
    answer = model.solve(instance, KernelResult(None, None, 0), clock, math.inf)
    return answer.total, answer.bound


MOST_PAIRS = 1_000_000
"""Pairs of values that CP-SAT is not asked for: its model would take longer than the race."""

SOLVERS = {"ours": ours, "toulbar2 alone": toulbar_alone, "CP-SAT alone": cp_sat_alone}


def processor_s() -> float:
    """Return processor seconds of this process and of those that it waited for."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def race(seconds: float, paths: Sequence[Path]) -> int:
    """Run all instances by all solvers, and count proofs."""
    proofs = dict.fromkeys(SOLVERS, 0)
    count = 0
    print(f"{'instance':24}" + "".join(f"{name:>18}" for name in SOLVERS))
    for name, own in racers(paths):
        count += 1
        cells = []
        for solver, solve in SOLVERS.items():
            start = processor_s()
            total, bound = solve(own, seconds)
            is_proven = total is not None and total == bound
            proofs[solver] += is_proven
            gap = relative_gap(total, bound)
            cells.append(
                f"{processor_s() - start:.2f} s" if is_proven else "-" if gap is None else f"{gap:.2%}"
            )
        print(f"{name:24}" + "".join(f"{cell:>18}" for cell in cells), flush=True)
    print(f"{f'proven of {count}':24}" + "".join(f"{proven:>18}" for proven in proofs.values()))
    return 0 if proofs["ours"] == max(proofs.values()) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--repeats", type=int, default=5, help="runs per case, the best one counts (default 5)"
    )
    parser.add_argument("--race", type=float, metavar="SECONDS", help="ours beside libraries alone")
    parser.add_argument("instances", nargs="*", type=Path, help="of the iopddl contest, for --race")
    given = parser.parse_args(arguments)
    if given.race is not None:
        return race(given.race, given.instances)
    repeats = given.repeats
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
