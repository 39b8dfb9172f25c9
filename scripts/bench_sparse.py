"""CPU time to proof on sparse data: an array after Eyeriss that gates, by layer, density and objective."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

from model.extents import FACTORS, PERFECT
from model.formats.timeloop import LoadOptions, TimeloopOptions, load_timeloop
from model.mapspace import Mapspace
from model.objective import EDP, ENERGY
from solver.result import Options, Result, Status
from solver.stages import map_einsum

SPECS = Path(__file__).resolve().parent.parent / "specs"
LAYERS = ("resnet18", "gpt3_6.7b")
DENSITIES = ("0.1", "0.5", "0.9")
TEXT = """problem:
  instance:
    densities:
      Weights: {{distribution: hypergeometric, density: {0}}}
      Inputs: {{distribution: hypergeometric, density: {0}}}
"""


def main() -> None:
    """Map the layers, and print a line for each and the geometric mean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--architecture", type=Path, default=SPECS / "sparse" / "eyeriss_gating.yaml")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of the names of layers")
    parser.add_argument("--densities", nargs="+", default=DENSITIES)
    parser.add_argument("--objectives", nargs="+", default=(ENERGY, EDP))
    parser.add_argument("--factors", choices=FACTORS, default=PERFECT)
    parser.add_argument("--time-limit", type=float, default=20.0, help="CPU seconds of a search")
    arguments = parser.parse_args()
    layers = [path for folder in LAYERS for path in sorted((SPECS / "layers" / folder).glob("*.yaml"))]
    layers = [
        path for path in layers if any(part in f"{path.parent.name}/{path.name}" for part in arguments.only)
    ]
    seconds = []
    proven = 0
    for layer, density, objective in product(layers, arguments.densities, arguments.objectives):
        mapspace = replace(sparse_layer(arguments.architecture, layer, density), factors=arguments.factors)
        start = time.process_time()
        result = mapped(mapspace, objective, start + arguments.time_limit)
        seconds.append(time.process_time() - start)
        proven += result.status is Status.OPTIMAL
        gap = "" if not result.gap else f"  gap {100 * result.gap:.2f} %"
        print(
            f"{layer.stem:28} {density:>5} {objective:8} {result.status.name:9} {seconds[-1]:7.2f} s{gap}",
            flush=True,
        )
    mean = statistics.geometric_mean(seconds) if seconds else 0.0
    print(f"{proven} of {len(seconds)} proven, geometric mean of CPU times {mean:.2f} s")


def mapped(mapspace: Mapspace, objective: str, end: float) -> Result:
    """Return the best mapping that is found until some CPU time."""
    return map_einsum(mapspace, Options((objective,)), None, lambda: time.process_time() > end)


def sparse_layer(architecture: Path, layer: Path, density: str) -> Mapspace:
    """Return a layer whose weights and inputs have one density."""
    with tempfile.TemporaryDirectory() as folder:
        densities = Path(folder) / "densities.yaml"
        densities.write_text(TEXT.format(density), encoding="utf-8")
        options = LoadOptions(timeloop=TimeloopOptions(skip_mapping=True), model_sparse=True)
        return load_timeloop([architecture, layer, densities], options=options).mapspace


if __name__ == "__main__":
    main()
