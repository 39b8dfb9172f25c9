"""Times curves of least traffic: a large product, ResNet-50 layer by layer, and fused chains of GPT-3.

    python scripts/bench_curves.py --only product

Prints processor seconds, which say more than the clock on a machine that does other work as well, beside what
is aimed for. Nothing here is a test: the figures are those of the machine it runs on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from model.extents import PERFECT
from model.formats.cascade import read_network
from model.formats.fused import load_cascade
from model.formats.timeloop import LoadOptions
from model.problem import Dataspace, Problem, Term
from solver.cli.curve_inputs import MEMORY, MEMORY_AND_BUFFER, Reading, read_texts
from solver.cli.options import SHIPPED
from solver.curves.fused import fused_curve
from solver.curves.network import Part, network_curve
from solver.result import Clock, Status

FUSED_LIMIT_S = 60.0
FUSED_BYTES = [1 << power for power in range(16, 27, 2)]

STAGES = ((64, 56, 3), (128, 28, 4), (256, 14, 6), (512, 7, 3))
"""Of ResNet-50: channels inside the blocks, rows of the images, blocks."""


@dataclass(frozen=True)
class Case:
    """What is timed, and the seconds that are aimed for; `run` says what came of it."""

    name: str
    goal_s: float
    run: Callable[[], str]


def matmul(m: int, n: int, k: int) -> Problem:
    """A matrix product."""
    spaces = (
        Dataspace("A", ((Term("m"),), (Term("k"),))),
        Dataspace("B", ((Term("k"),), (Term("n"),))),
        Dataspace("Z", ((Term("m"),), (Term("n"),)), read_write=True),
    )
    return Problem("product", ("m", "n", "k"), (m, n, k), spaces)


def convolution(channels: int, filters: int, rows: int, side: int, stride: int = 1) -> Problem:
    """A convolution with square images and filters."""
    spaces = (
        Dataspace("W", ((Term("K"),), (Term("C"),), (Term("R"),), (Term("S"),))),
        Dataspace("I", ((Term("C"),), (Term("P", stride), Term("R")), (Term("Q", stride), Term("S")))),
        Dataspace("O", ((Term("K"),), (Term("P"),), (Term("Q"),)), read_write=True),
    )
    dims = ("C", "K", "P", "Q", "R", "S")
    return Problem("convolution", dims, (channels, filters, rows, rows, side, side), spaces)


def resnet50() -> Iterator[Problem]:
    """The layers of ResNet-50 whose strides are in the 3 x 3 convolutions."""
    yield convolution(3, 64, 112, 7, 2)
    before = 64
    stages = ((inner, rows, block) for inner, rows, blocks in STAGES for block in range(blocks))
    for inner, rows, block in stages:
        stride = 2 if block == 0 and inner > STAGES[0][0] else 1
        yield convolution(before, inner, rows * stride, 1)
        yield convolution(inner, inner, rows, 3, stride)
        yield convolution(inner, 4 * inner, rows, 1)
        if block == 0:
            yield convolution(before, 4 * inner, rows, 1, stride)
        before = 4 * inner
    yield convolution(before, 1000, 1, 1)


def _parts(problems: Iterator[Problem]) -> list[Part]:
    return [
        Part(f"{number}", own, {space.name: 8 for space in own.dataspaces})
        for number, own in enumerate(problems)
    ]


def _curve(parts: list[Part]) -> str:
    curve = network_curve(parts)
    distinct = sum(not layer.same_as for layer in curve.layers)
    return f"{len(curve.layers)} layers, {distinct} distinct, {len(list(curve.steps()))} steps"


def _fused() -> str:
    """The block of GPT-3 at some sizes of the buffer, with divisors."""
    files = [SHIPPED / "workloads" / "gpt3_block.yaml", MEMORY_AND_BUFFER]
    cascade, _ = load_cascade(files, {}, LoadOptions(factors=PERFECT))
    points = fused_curve(cascade, [8 * size for size in FUSED_BYTES], Clock(FUSED_LIMIT_S)).points
    proven = sum(point.status is Status.OPTIMAL for point in points)
    return f"{proven} of {len(points)} sizes proven"


FEED_FORWARD = ("FFA[m,c] = Z[m,g] * W[g,c]", "FFB[m,j] = FFA[m,c] * V[c,j]"), "m8192 g4096 c16384 j4096"
ATTENTION = (
    ("QK[m,p,h] = Q[m,h,e] * K[p,h,e]", "AV[m,h,f] = QK[m,p,h] * V[p,h,f]"),
    "m8192 p8192 h32 e128 f128",
)
"""Pairs of products of GPT-3 6.7B."""

CHAIN_BYTES = [1 << power for power in range(12, 28, 2)]


def _chain(texts: Sequence[str], sizes: str) -> str:
    """Two products at some sizes of the buffer, with divisors."""
    extents = {text[0]: int(text[1:]) for text in sizes.split()}
    cascade = read_texts(texts, extents, Reading(factors=PERFECT, fuse=True), "").cascade
    assert cascade is not None
    points = fused_curve(cascade, [8 * size for size in CHAIN_BYTES], Clock(FUSED_LIMIT_S)).points
    proven = sum(point.status is Status.OPTIMAL for point in points)
    return f"{proven} of {len(points)} sizes proven"


def _network(name: str) -> str:
    layers = read_network([SHIPPED / "workloads" / f"{name}.yaml", MEMORY]).network.layers
    problems = (layer.mapspace.problem for layer in layers if not layer.is_copy)
    return _curve(_parts(problems))


CASES = (
    Case("product", 5.0, lambda: _curve(_parts(iter([matmul(16_384, 1024, 1024)])))),
    Case("resnet50", 60.0, lambda: _curve(_parts(resnet50()))),
    Case("gpt3", 60.0, lambda: _network("gpt3_block")),
    Case("gpt3_feed_forward", 60.0, lambda: _chain(*FEED_FORWARD)),
    Case("gpt3_attention", 60.0, lambda: _chain(*ATTENTION)),
    Case("gpt3_fused", 60.0, _fused),
)


def main() -> None:
    """Time what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[case.name for case in CASES], help="one of the cases")
    only = parser.parse_args().only
    for case in CASES:
        if only in (None, case.name):
            started = time.process_time()
            found = case.run()
            print(
                f"{case.name}: {time.process_time() - started:.1f} s (aim {case.goal_s:g} s); {found}",
                flush=True,
            )


if __name__ == "__main__":
    main()
