"""Random nests of random sparse problems: the model's expectations against executions.

The mean of a count over all draws lies within five standard errors of its expectation, and the words that the
model rounds to: two per instance in use and count. Left out is what docs/sparse.md says the two do not agree
on, or what is not executed: units under other ones, skipping in space, metadata of lower ranks, bands.
``SPARSE_NESTS=400`` tries as many nests.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from model.extents import ANY, FACTORS, PERFECT, Factors
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.problem import Dataspace, Problem, Term
from model.sparse import MappingError, SparseEvaluation
from model.sparsity import Density, Optimization, Representation, SparseCompute, SparseLevel, Sparsity
from tests.model.sparse.nests import Nest, gemm, hardware, level, ranks, saves, space
from tests.slow import few
from tests.witness.sparse import SparseExecution

NESTS = int(os.environ.get("SPARSE_NESTS", "24"))
TOGETHER = 4
"""Nests of one test."""
DRAWS = 20
ERRORS = 5
ROUNDED = 2
SHARES = ("1/4", "3/8", "1/2", "3/4")


def random_nest(seed: int, factors: Factors = PERFECT) -> Nest:
    """Return a nest of two levels that formats can hold, the same for the same seed."""
    random = Random(seed)
    while True:
        case = _tried(random, factors)
        try:
            case.evaluated()
            case.executed(0)
        except MappingError:
            continue
        return case


def _tried(random: Random, factors: Factors) -> Nest:
    problem = random.choice((_product, _window, _three_operands))(random)
    if factors == ANY:
        problem = replace(problem, bounds=tuple(bound + random.choice((0, 1)) for bound in problem.bounds))
    mapping = _mapping(random, problem, factors)
    densities = {own.name: _density(random) for own in problem.dataspaces if random.random() < 0.8}
    levels = _levels(random, problem, mapping)
    compute = SparseCompute(gates_zeros=random.random() < 0.5, skips_unaligned=random.random() < 0.5)
    children = any(isinstance(node, FanoutMapping) for node in mapping.nodes)
    return Nest(problem, hardware(4 if children else 1), mapping, Sparsity(densities, levels, compute))


def _product(random: Random) -> Problem:
    return gemm(*(random.choice((2, 4, 6)) for _ in range(3)))


def _three_operands(random: Random) -> Problem:
    operands = (space("A", "M", "K"), space("B", "K", "N"), space("C", "M", "N"))
    return replace(_product(random), dataspaces=(*operands, space("Z", "M", "N", read_write=True)))


def _window(random: Random) -> Problem:
    """A convolution of one dimension."""
    bounds = (random.choice((2, 4)), random.choice((4, 6)), random.choice((2, 3)))
    inputs = Dataspace("A", ((Term("P"), Term("R")),))
    spaces = (inputs, space("B", "M", "R"), space("Z", "M", "P", read_write=True))
    return Problem("window", ("M", "P", "R"), bounds, spaces)


def _density(random: Random) -> Density:
    return Density("hypergeometric", Fraction(random.choice(SHARES)))


def _mapping(random: Random, problem: Problem, factors: Factors) -> Mapping:
    """Return loops on two levels, some of them across an array in between."""
    loops: list[list[Loop]] = [[], []]
    across: list[SpatialLoop] = []
    for dim, bound in problem.bound.items():
        inner = random.choice([n for n in range(1, bound + 1) if factors == ANY or bound % n == 0])
        outer = -(-bound // inner)
        if 1 < outer <= 4 and not across and random.random() < 0.3:
            across.append(SpatialLoop(dim, outer, "x"))
            outer = 1
        for own, factor in zip(loops, (outer, inner), strict=True):
            own.extend([Loop(dim, factor)] if factor > 1 else [])
    random.shuffle(loops[0])
    random.shuffle(loops[1])
    names = [own.name for own in problem.dataspaces]
    kept = frozenset(name for name in names if random.random() < 0.8)
    outermost = StorageMapping(tuple(loops[0]), frozenset(names))
    innermost = StorageMapping(tuple(loops[1]), kept)
    nodes = [outermost, FanoutMapping(tuple(across)), innermost] if across else [outermost, innermost]
    return Mapping(tuple(nodes))


def _levels(random: Random, problem: Problem, mapping: Mapping) -> tuple[SparseLevel, SparseLevel]:
    """Return formats with a rank per loop, and at most one unit for each dataspace."""
    formats: tuple[dict[str, Representation], ...] = ({}, {})
    units: tuple[list[Optimization], ...] = ([], [])
    names = [own.name for own in problem.dataspaces]
    for own in problem.dataspaces:
        counts = [_moving(own, mapping.nodes), _moving(own, mapping.nodes[-1:])]
        depth = random.choice((0, 0, 1, 2)) if own.name in mapping.nodes[-1].keep else random.choice((0, 1))
        chosen = random.choice(("RLE", "B"))
        for place in range(depth if all(counts[:depth]) else 0):
            formats[place][own.name] = ranks(*[chosen] * counts[place])
        if random.random() < 0.4:
            others = [name for name in names if name != own.name and name != "Z"]
            conditions = random.sample(others, random.randint(1, len(others)))
            kind = random.choice(("gating", "skipping"))
            unit = saves(kind, own.name, "".join(conditions))
            units[random.randint(0, 1)].append(unit)
    outer, inner = (level(*own, formats=of) for own, of in zip(units, formats, strict=True))
    return outer, inner


def _moving(own: Dataspace, nodes: Sequence[NodeMapping]) -> int:
    """Loops that move a dataspace."""
    loops = [loop for node in nodes for loop in getattr(node, "temporal", getattr(node, "spatial", ()))]
    return sum(loop.dim in own.dims for loop in loops)


def expected(evaluation: SparseEvaluation) -> dict[tuple[str, ...], tuple[float, float]]:
    """Return counts by what they are of, each with the words that rounding makes."""
    found: dict[tuple[str, ...], tuple[float, float]] = {}
    stored = ((cost.name, of) for cost in evaluation.levels for of in cost.dataspaces)
    for name, of in stored:
        room = ROUNDED * max(1.0, of.instances)
        words = Counter[str]()
        for instances, moved in of.loads:
            saved = {
                "saved_reads": moved.gated.reads + moved.skipped.reads,
                "saved_updates": moved.gated.updates + moved.skipped.updates,
            }
            words.update({kind: n * instances for kind, n in (moved.data._asdict() | saved).items()})
        found |= {(name, of.dataspace, kind): (n, room) for kind, n in words.items()}
    made = evaluation.computes._asdict()
    return found | {("arithmetic", kind): (float(n), float(ROUNDED)) for kind, n in made.items()}


def counted(run: SparseExecution, keys: Iterable[tuple[str, ...]]) -> list[float]:
    """Return the same counts of an execution."""
    return [
        getattr(run, key[1]) if key[0] == "arithmetic" else getattr(run.tallies[key[0], key[1]], key[2])
        for key in keys
    ]


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("first", few(range(0, NESTS, TOGETHER), 3))
def test_expectations_are_means_of_executions(first, factors):
    for seed in range(first, first + TOGETHER):
        case = random_nest(seed, factors)
        of = expected(case.evaluated())
        figures = np.array([counted(case.executed(draw), of) for draw in range(DRAWS)], dtype=float)
        errors = figures.std(axis=0, ddof=1) / math.sqrt(DRAWS)
        means, room = np.array(list(of.values())).T
        off = np.abs(figures.mean(axis=0) - means) > ERRORS * errors + room
        keys = list(of)
        assert not off.any(), (
            seed,
            [(keys[i], figures.mean(axis=0)[i], means[i]) for i in np.flatnonzero(off)],
        )
