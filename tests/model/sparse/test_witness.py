"""The model's expectations against executions on real sparse tensors.

Each case is executed on tensors of 24 seeds. The mean of a count lies within four standard errors of its
expectation in all but one of 16,000 cases; the model also rounds each count of an instance at most twice, to
whole words, which makes up to two words per instance in use and rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
import pytest

from model.problem import Problem
from model.sparsity import Density, SparseCompute
from tests.model.sparse.nests import (
    Nest,
    level,
    mapping,
    nest,
    ranks,
    saves,
    space,
    structured,
    uniform,
)
from tests.witness.sparse import SparseExecution

SEEDS = 24
ERRORS = 4
ROUNDED = 2
A_AND_B = {"A": uniform("0.25"), "B": uniform("0.5")}
THREE = Problem(
    "three operands",
    ("M", "K", "N"),
    (8, 8, 4),
    (space("A", "M", "K"), space("B", "K", "N"), space("C", "M", "N"), space("Z", "M", "N", read_write=True)),
)

CASES: dict[str, Nest] = {
    "gating of B on A, innermost": nest(
        mapping("M8 K2", "K4 N4"), A_AND_B, (level(), level(saves("gating", "B", "A")))
    ),
    "skipping of both on each other": nest(
        mapping("M8 K2", "K4 N4"),
        A_AND_B,
        (level(), level(saves("skipping", "A", "B"), saves("skipping", "B", "A"))),
    ),
    "outputs skipped on both": nest(
        mapping("K2 M8", "N4 K4"), A_AND_B, (level(), level(saves("skipping", "Z", "AB")))
    ),
    "tiles of B skipped where tiles of A are empty": nest(
        mapping("M4 K4 N2", "M2 K2 N2"),
        {"A": uniform("0.1"), "B": uniform("0.5")},
        (level(saves("skipping", "B", "A")), level()),
    ),
    "a unit under another one": nest(
        mapping("M4 K4 N2", "M2 K2 N2"),
        {"A": uniform("0.1"), "B": uniform("0.5")},
        (level(saves("skipping", "B", "A")), level(saves("gating", "B", "A"))),
    ),
    "compressed, empty tiles do not come": nest(
        mapping("M4 K4 N2", "M2 K2 N2"),
        {"A": uniform("0.1"), "B": uniform("0.5")},
        (
            level(formats={"A": ranks("UOP", "RLE", "RLE", "RLE")}),
            level(formats={"A": ranks("RLE", "RLE")}),
        ),
    ),
    "compressed outputs": nest(
        mapping("K8 M8", "N4"),
        {**A_AND_B, "Z": uniform("0.5")},
        (level(formats={"Z": ranks("RLE", "RLE")}), level(formats={"Z": ranks("RLE")})),
    ),
    "bitmasks, unpacked on the way in": nest(
        mapping("M8 N4", "K8"),
        A_AND_B,
        (level(formats={"A": ranks("RLE", "B")}), level(saves("gating", "B", "A"))),
    ),
    "an array shares words of A": nest(
        mapping("M8", "K8", "N4"), A_AND_B, (level(), level(saves("gating", "B", "A")))
    ),
    "an array shares words of B, read for all rows that need it": nest(
        mapping("K8 N4", "M2", "M4", bypass="AB"), A_AND_B, (level(saves("skipping", "B", "A")), level())
    ),
    "arithmetic that gates": nest(
        mapping("M8 K2", "K4 N4"), A_AND_B, (level(), level()), SparseCompute(gates_zeros=True)
    ),
    "arithmetic that skips what is not there": nest(
        mapping("M8", "K8 N4"),
        A_AND_B,
        (
            level(formats={"A": ranks("RLE", "RLE"), "B": ranks("RLE", "RLE")}),
            level(formats={"A": ranks("RLE"), "B": ranks("RLE", "RLE")}),
        ),
        SparseCompute(skips_unaligned=True),
    ),
    "structured nonzeros": nest(
        mapping("M8 N4", "K8"),
        {"A": structured("1/4"), "B": structured("1/2")},
        (
            level(formats={"A": ranks("RLE", "RLE")}),
            level(saves("skipping", "B", "A"), formats={"A": ranks("RLE")}),
        ),
    ),
    "three operands": nest(
        mapping("M8 K2", "K4 N4", spaces="ABCZ"),
        {**A_AND_B, "C": uniform("0.5")},
        (level(), level(saves("skipping", "B", "A"), saves("skipping", "C", "AB"))),
        SparseCompute(gates_zeros=True),
        problem=THREE,
    ),
    "a band": nest(
        mapping("M4 K4", "M2 K2 N4"),
        {"A": Density("banded", band_width=1)},
        (level(saves("skipping", "B", "A")), level(saves("gating", "B", "A"))),
    ),
}


@cache
def executions(name: str) -> tuple[SparseExecution, ...]:
    return tuple(CASES[name].executed(seed) for seed in range(SEEDS))


def averages(
    runs: Iterable[SparseExecution], figure: Callable[[SparseExecution], tuple[float, ...]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of some figures over all seeds, and their standard errors."""
    figures = np.array([figure(run) for run in runs], dtype=float)
    return figures.mean(axis=0), figures.std(axis=0, ddof=1) / math.sqrt(SEEDS)


@pytest.mark.parametrize("name", CASES)
def test_expected_accesses_are_those_of_executions(name):
    case = CASES[name]
    evaluation = case.evaluated()
    keys = [(cost.name, of.dataspace) for cost in evaluation.levels for of in cost.dataspaces]

    def counts(run: SparseExecution) -> tuple[float, ...]:
        tallies = (run.tallies[key] for key in keys)
        return tuple(
            float(value)
            for tally in tallies
            for value in (tally.reads, tally.fills, tally.updates, tally.saved_reads, tally.saved_updates)
        )

    means, errors = averages(executions(name), counts)
    expected, room = [], []
    for level_name, dataspace in keys:
        of = evaluation.level(level_name).dataspace(dataspace)
        moved, instances = of.moved, of.instances
        saved_reads = moved.gated.reads + moved.skipped.reads
        saved_updates = moved.gated.updates + moved.skipped.updates
        words = (*moved.data, saved_reads, saved_updates)
        expected += [count * instances for count in words]
        room += [ROUNDED * max(1.0, instances)] * len(words)
    shown = [
        (key, kind) for key in keys for kind in ("reads", "fills", "updates", "saved reads", "saved updates")
    ]
    off = np.abs(means - np.array(expected)) > ERRORS * errors + np.array(room)
    assert not [(shown[i], means[i], expected[i], errors[i]) for i in np.flatnonzero(off)]


@pytest.mark.parametrize("name", CASES)
def test_expected_computations_are_those_of_executions(name):
    case = CASES[name]
    means, errors = averages(executions(name), lambda run: (run.actual, run.gated, run.skipped))
    made = case.evaluated().computes
    expected = np.array([made.actual, made.gated, made.skipped])
    assert (np.abs(means - expected) <= ERRORS * errors + ROUNDED).all(), (means, expected, errors)


TILES = {
    "RLE": (structured("1/4"), ranks("RLE")),
    "a bitmask": (uniform("0.25"), ranks("B")),
    "coordinates of structured nonzeros": (structured("1/4"), ranks("CP")),
    "a mask with its empty parts": (uniform("0.25"), ranks("UB")),
    "offsets": (uniform("0.25"), ranks("UOP")),
}


@pytest.mark.parametrize("name", TILES)
def test_metadata_of_tiles_with_one_rank(name):
    density, inner = TILES[name]
    formats = (level(formats={"A": ranks("UOP", inner.ranks[0].format)}), level(formats={"A": inner}))
    case = nest(mapping("M8", "K8 N4"), {"A": density, "B": uniform("0.5")}, formats)
    runs = [case.executed(seed) for seed in range(SEEDS)]
    means, errors = averages(runs, lambda run: run.metadata["inner", "A"][0])
    held = case.evaluated().level("inner").dataspace("A")
    filled = held.moved.metadata.fills[0]
    # The model moves the metadata of a tile, rounded up, as often as there are tiles: 8 of 8 words.
    tiles = held.dense.fills / held.tile_words
    assert (np.abs(means - np.array(filled) / tiles) <= ERRORS * errors + 1 / tiles).all()


def test_metadata_of_lower_ranks_is_underestimated_where_fibers_are_empty():
    """The model multiplies the chances of a fiber and of its parts to have nonzeros as if independent."""
    name = "compressed, empty tiles do not come"
    case = CASES[name]
    means, errors = averages(executions(name), lambda run: run.metadata["inner", "A"][0])
    held = case.evaluated().level("inner").dataspace("A")
    expected = held.moved.metadata.fills[0][0] * held.tile_words / held.dense.fills
    assert means[0] == pytest.approx(1.18, abs=ERRORS * errors[0] + 0.01)
    assert expected == pytest.approx(0.69, abs=0.03)
