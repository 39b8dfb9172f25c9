"""Random sparse problems: densities, formats and units on the small mapspaces of `tests.strategies`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from random import Random

from model.architecture import StorageLevel
from model.extents import ANY, PERFECT
from model.mapspace import Mapspace
from model.problem import Dataspace, Problem
from model.sparsity import (
    COMPUTE_ACTIONS,
    FORMATS,
    STORAGE_ACTIONS,
    Conditional,
    Density,
    Optimization,
    OptimizationKind,
    Rank,
    Representation,
    SparseCompute,
    SparseLevel,
    Sparsity,
)
from tests.bruteforce import enumerate_sparse
from tests.strategies import random_mapspace

MOST_RANKS = 7
PLENTY_BITS = 10**6


def random_sparse_mapspace(seed: int, most_mappings: int, in_space: bool = False) -> Mapspace:
    """Return a mapspace with at most so many mappings, the same for the same seed.

    Some have no valid mapping. With `in_space` units may skip instances.
    """
    random = Random(seed)
    while True:
        dense = replace(random_mapspace(random, most_mappings), factors=PERFECT)
        mapspace = replace(_loosened(random, dense), sparsity=_sparsity(random, dense, in_space))
        count = sum(1 for _ in islice(enumerate_sparse(mapspace), most_mappings + 1))
        if 0 < count <= most_mappings:
            return mapspace


def random_sparse_mapspace_with_remainders(seed: int, most_mappings: int) -> Mapspace:
    """Return a mapspace whose loops may have any factors, some bounds raised by one, as above."""
    random = Random(seed)
    while True:
        dense = random_mapspace(random, most_mappings // 3)
        bounds = tuple(b + random.choice((0, 1)) if b > 1 else 1 for b in dense.problem.bounds)
        dense = replace(dense, problem=replace(dense.problem, bounds=bounds), factors=ANY)
        mapspace = replace(_loosened(random, dense), sparsity=_sparsity(random, dense, in_space=False))
        count = sum(1 for _ in islice(enumerate_sparse(mapspace), most_mappings + 1))
        if 0 < count <= most_mappings:
            return mapspace


def _loosened(random: Random, mapspace: Mapspace) -> Mapspace:
    """Return a mapspace whose levels need not be filled, and some of which hold everything."""
    nodes = tuple(
        replace(
            node,
            size_words=None if random.random() < 0.3 else node.size_words,
            min_utilization=node.min_utilization if random.random() < 0.1 else Fraction(0),
        )
        if isinstance(node, StorageLevel)
        else node
        for node in mapspace.architecture.nodes
    )
    return replace(mapspace, architecture=replace(mapspace.architecture, nodes=nodes))


def _sparsity(random: Random, mapspace: Mapspace, in_space: bool) -> Sparsity:
    problem, depth = mapspace.problem, len(mapspace.architecture.levels)
    stacks = {space.name: _stack(random, space) for space in problem.dataspaces if random.random() < 0.5}
    return Sparsity(
        {s.name: _density(random, problem, s) for s in problem.dataspaces if random.random() < 0.75},
        tuple(_level(random, problem, stacks, depth - place, in_space) for place in range(depth)),
        SparseCompute(random.random() < 0.5, random.random() < 0.5, _energies(random, COMPUTE_ACTIONS)),
    )


def _density(random: Random, problem: Problem, space: Dataspace) -> Density:
    words = [
        1 + sum(abs(term.coefficient) * (problem.bound[term.dim] - 1) for term in rank)
        for rank in space.ranks
    ]
    if len(words) == 2 and words[0] == words[1] and random.random() < 0.4:
        return Density("banded", Fraction(1), random.choice((0, 1, 2)))
    share = Fraction(random.choice((0, 1, 2, 3, 5, 7, 9, 10)), 10)
    return Density(random.choice(("fixed_structured", "hypergeometric")), share)


def _stack(random: Random, space: Dataspace) -> list[Rank]:
    """Return ranks, the lowest first, of which outer levels have more than inner ones."""
    flattens = random.choice(("nothing", "nothing", "all", "some"))
    ranks = [
        Rank(
            random.choice(FORMATS),
            random.choice((1, 2, 4)),
            random.choice((0, 3)),
            _flattened(random, flattens, sorted(space.dims)),
        )
        for _ in range(MOST_RANKS)
    ]
    return sorted(ranks, key=lambda rank: not rank.compressed)


def _flattened(random: Random, flattens: str, dims: list[str]) -> tuple[tuple[str, ...], ...]:
    """Return groups of dimensions: all of them, or some that may leave loops to other ranks."""
    if flattens == "nothing" or not dims:
        return ()
    return (tuple(dims if flattens == "all" else random.sample(dims, random.randint(1, len(dims)))),)


def _level(
    random: Random, problem: Problem, stacks: dict[str, list[Rank]], levels: int, in_space: bool
) -> SparseLevel:
    formats = {
        name: Representation(
            tuple(ranks[: min(MOST_RANKS, max(1, 2 * levels + random.choice((-1, 0, 1))))]),
            random.random() < 0.1,
        )
        for name, ranks in stacks.items()
        if random.random() < 0.6
    }
    overbooks = random.random() < 0.25
    return SparseLevel(
        representations=formats,
        optimizations=tuple(_units(random, problem, in_space)),
        metadata_word_bits=4,
        metadata_width_bits=random.choice((0, 8, 16)),
        metadata_size_bits=random.choice((64, *(PLENTY_BITS,) * 6)),
        decompresses=random.random() < 0.95,
        compresses=random.random() < 0.95,
        allow_overbooking=overbooks,
        max_overbooked=Fraction(random.choice((0, 1, 3, 6)), 10) if overbooks else Fraction(0),
        energy=_energies(random, STORAGE_ACTIONS),
    )


def _units(random: Random, problem: Problem, in_space: bool) -> Iterator[Optimization]:
    names = [space.name for space in problem.dataspaces]
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        spatial = in_space and random.random() < 0.5
        kind: OptimizationKind = "skipping_spatial" if spatial else random.choice(("gating", "skipping"))
        options = []
        for _ in range(1 if spatial else random.choice((1, 1, 2))):
            target = random.choice(names)
            others = [name for name in names if name != target]
            options.append(
                Conditional(target, tuple(random.sample(others, random.choice((1, 1, len(others))))))
            )
        yield Optimization(kind, tuple(options))


def _energies(random: Random, actions: tuple[str, ...]) -> dict[str, int]:
    return {action: random.randint(0, 6) for action in actions if random.random() < 0.4}
