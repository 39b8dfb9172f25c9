"""Counts which step of the search settles what share of the choices, and draws it.

python scripts/bench_shares.py --only resnet18 --plot docs/images/shares.svg
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_cases import bench_cases, containing

from solver.report.charts import Bar, Segment, bars_scene
from solver.report.drawing import save_scene
from solver.result import Options, Result, Status
from solver.search import map_einsum

STEPS = {
    "survey": "survey: bounds on all at a time",
    "lattice": "lattice: exact bounds, one or many at a time",
    "branching": "branching: tiles and orders of one",
}
OBJECTIVES = ("energy", "edp")


def settled(result: Result) -> Counter[str]:
    """Return how many pairs of a keep mask and a spatial class each step settles."""
    masks = [mask for evidence in result.evidence for mask in evidence.masks]
    return Counter({step: sum(getattr(mask, f"by_{step}") for mask in masks) for step in STEPS})


def main() -> None:
    """Prove the cases, print the shares of all together, and draw them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="run only cases whose name contains this text")
    parser.add_argument("--time-limit", type=float, default=15.0, help="of each proof, in seconds")
    parser.add_argument("--plot", type=Path, help="draw the shares")
    arguments = parser.parse_args()
    total: Counter[str] = Counter()
    deepest: Counter[str] = Counter()
    for case, objective in product(containing(arguments.only, bench_cases()), OBJECTIVES):
        options = Options((objective,), arguments.time_limit)
        result = map_einsum(case.mapspace(), options)
        if result.status is Status.OPTIMAL:
            counts = settled(result)
            total += counts
            deepest[next(step for step in reversed(STEPS) if counts[step])] += 1
    whole = total.total()
    for step in STEPS:
        print(f"{step:10} {total[step]:>9,} of {whole:,}: {total[step] / whole:.2%}, last of {deepest[step]}")
    if arguments.plot is not None:
        bars = [
            Bar(text, [Segment(total[step] / whole, "s0", "")], f"{total[step] / whole:.2%}")
            for step, text in STEPS.items()
        ]
        save_scene(bars_scene("What each step settles", bars, 720.0, (), 1.0), arguments.plot)


if __name__ == "__main__":
    main()
