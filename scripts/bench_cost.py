"""How many mappings per second the cost model prices, one by one and batched.

    python scripts/bench_cost.py [--mappings N]

Random mappings of a 7-dimensional convolution on three storage levels and an array, on one core.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.cost import evaluate
from model.cost.batch import BatchEvaluator, encode
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.numbers import prime_factors
from model.problem import Dataspace, Problem, Term
from solver.cli.options import positive

CONVOLUTION = Problem(
    "convolution",
    ("N", "M", "C", "P", "Q", "R", "S"),
    (4, 128, 128, 28, 28, 3, 3),
    (
        Dataspace("Weights", ((Term("M"),), (Term("C"),), (Term("R"),), (Term("S"),))),
        Dataspace("Inputs", ((Term("N"),), (Term("C"),), (Term("P"), Term("R")), (Term("Q"), Term("S")))),
        Dataspace("Outputs", ((Term("N"),), (Term("M"),), (Term("P"),), (Term("Q"),)), read_write=True),
    ),
)
ARCHITECTURE = Architecture(
    "three levels",
    (
        StorageLevel("DRAM", block_size=8, energy=AccessEnergy(512, 512, 512)),
        StorageLevel("buffer", 65536, block_size=8, energy=AccessEnergy(32, 40, 40)),
        Fanout("array", 16, 16),
        StorageLevel("registers", 256, energy=AccessEnergy(1, 1, 1)),
    ),
    Compute("mac", energy=1),
)


def random_mapping(source: random.Random) -> Mapping:
    factors = [dict.fromkeys(CONVOLUTION.dims, 1) for _ in ARCHITECTURE.nodes]
    for dim, bound in CONVOLUTION.bound.items():
        for prime in (prime for prime, power in prime_factors(bound) for _ in range(power)):
            source.choice(factors)[dim] *= prime
    keep = frozenset(space.name for space in CONVOLUTION.dataspaces)
    entries: list[NodeMapping] = []
    for node, own in zip(ARCHITECTURE.nodes, factors, strict=True):
        dims = source.sample(CONVOLUTION.dims, len(CONVOLUTION.dims))
        if isinstance(node, Fanout):
            entries.append(FanoutMapping(tuple(SpatialLoop(dim, own[dim], "x") for dim in dims)))
        else:
            entries.append(StorageMapping(tuple(Loop(dim, own[dim]) for dim in dims), keep))
    return Mapping(tuple(entries))


def rate(count: int, work: Callable[[], object]) -> float:
    """Best of three runs, in mappings per second."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return count / min(seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--mappings", type=positive, default=20000, help="mappings in the batch (default %(default)s)"
    )
    count = parser.parse_args(arguments).mappings
    source = random.Random(0)
    mappings = [random_mapping(source) for _ in range(count)]
    few = mappings[: max(1, count // 20)]
    batch = encode(CONVOLUTION, ARCHITECTURE, mappings)
    evaluator = BatchEvaluator(CONVOLUTION, ARCHITECTURE)

    plain = rate(len(few), lambda: [evaluate(CONVOLUTION, ARCHITECTURE, mapping) for mapping in few])
    encoded = rate(count, lambda: encode(CONVOLUTION, ARCHITECTURE, mappings))
    batched = rate(count, lambda: evaluator.evaluate(batch))
    print(f"one by one      {plain:12,.0f} mappings/s")
    print(f"encoding        {encoded:12,.0f} mappings/s   {encoded / plain:8.1f} x")
    print(f"batched         {batched:12,.0f} mappings/s   {batched / plain:8.1f} x")


if __name__ == "__main__":
    main()
