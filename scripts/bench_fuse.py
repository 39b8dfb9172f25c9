"""Times fused cascades: shipped workloads by architectures, each to its proof or the time limit.

    python scripts/bench_fuse.py --only attention --time-limit 20

Prints the value, the gap, what fusion saves, and how much work it was; processor seconds say more than the
clock on a machine that does other work as well. A chain of equal blocks shows how
time grows with the length. Nothing here is a test: the figures are those of the machine it runs on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from model.extents import FACTORS, PERFECT, Factors
from model.formats.fused import load_cascade
from model.formats.timeloop.loader import LoadOptions
from model.fused.cascade import Access, Cascade, CascadeEinsum
from solver.cli.options import positive
from solver.fusion import FusedResult, FusionLimits, fuse_cascade
from solver.report.figures import objective_text, percent, seconds_text
from solver.result import Options

SPECS = Path(__file__).resolve().parent.parent / "specs"
WORKLOADS = ("three_matmuls", "attention", "gpt3_block")
ARCHITECTURES = ("tpu_like", "simba_like", "eyeriss_like")
GOALS_S = {"three_matmuls": 1.0, "attention": 3.0, "gpt3_block": 10.0}
"""What is aimed for on two cores."""

COLUMNS = ("cascade", "architecture", "status", "value", "gap", "saves", "searches", "states")


def load(workload: str, architecture: str, tokens: int | None = None, factors: Factors = PERFECT) -> Cascade:
    """Read a shipped workload on a shipped architecture."""
    files = [SPECS / "workloads" / f"{workload}.yaml", SPECS / "architectures" / f"{architecture}.yaml"]
    variables = {} if tokens is None else {"N_TOKENS": tokens}
    return load_cascade(files, variables, LoadOptions(factors=factors))[0]


def chain(cascade: Cascade, blocks: int) -> Cascade:
    """Repeat a cascade several times, each block with tensors of its own."""
    return replace(
        cascade, einsums=tuple(_renamed(e, block) for block in range(blocks) for e in cascade.einsums)
    )


def _renamed(einsum: CascadeEinsum, block: int) -> CascadeEinsum:
    accesses = (Access(a.dataspace, f"{a.tensor}.{block}", a.ranks, a.offsets) for a in einsum.accesses)
    return replace(einsum, name=f"{einsum.name}.{block}", accesses=tuple(accesses))


def run(
    cases: Sequence[tuple[str, str, Cascade]], objective: str, options: Options, limits: FusionLimits
) -> Iterator[tuple[str, str, FusedResult, float]]:
    """Search each cascade, and say how many processor seconds that took."""
    for name, architecture, cascade in cases:
        start = time.process_time()
        result = fuse_cascade(cascade, objective, options, limits)
        yield name, architecture, result, time.process_time() - start


def main(argv: Sequence[str] | None = None) -> int:
    """Print one row per cascade."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=WORKLOADS, action="append", help="workloads")
    parser.add_argument("--on", choices=ARCHITECTURES, action="append", help="architectures")
    parser.add_argument("--objective", choices=("energy", "latency", "edp"), default="energy")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S")
    parser.add_argument("--tokens", type=positive, default=None, help="of gpt3_block")
    parser.add_argument("--factors", choices=FACTORS, default=PERFECT)
    parser.add_argument("--max-fused-loops-per-rank", type=positive, default=None)
    parser.add_argument(
        "--chain", type=positive, default=1, metavar="N", help="N blocks, one after the other"
    )
    arguments = parser.parse_args(argv)
    limits = FusionLimits(max_loops_per_rank=arguments.max_fused_loops_per_rank)
    cases = [
        (name, on, chain(load(name, on, arguments.tokens, arguments.factors), arguments.chain))
        for name in arguments.only or WORKLOADS
        for on in arguments.on or ARCHITECTURES
    ]
    table = Table(*COLUMNS, "time", "processor", "aim")
    options = Options(time_limit_s=arguments.time_limit)
    for row in run(cases, arguments.objective, options, limits):
        table.add_row(*_cells(*row))
    Console(width=160).print(table)
    return 0


def _cells(name: str, architecture: str, result: FusedResult, cpu_s: float) -> Iterator[str]:
    units, objective = result.units_per_pj, result.objective
    alone = None if result.unfused is None else result.unfused.value(objective)
    saves = "-" if not alone or result.value is None else percent((alone - result.value) / alone)
    yield from (name, architecture, result.status.name)
    yield objective_text(objective, result.value, units)
    yield "-" if result.gap is None else percent(result.gap)
    yield from (saves, str(result.statistics.searches), str(result.statistics.states))
    yield from map(seconds_text, (result.statistics.seconds, cpu_s, GOALS_S[name]))


if __name__ == "__main__":
    raise SystemExit(main())
