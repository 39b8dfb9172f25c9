"""Values that differ in size, drawn at random."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from model.architecture import Architecture, Packing, StorageLevel
from model.problem import Problem


def packed(random: Random, problem: Problem, architecture: Architecture) -> Architecture:
    """Let values of the dataspaces differ in size and in how they lie in the rows of some levels."""
    nodes = tuple(
        _packed_level(random, problem, node)
        if isinstance(node, StorageLevel) and random.random() < 0.7
        else node
        for node in architecture.nodes
    )
    return replace(architecture, nodes=nodes)


def _packed_level(random: Random, problem: Problem, level: StorageLevel) -> StorageLevel:
    packing = tuple(
        Packing(
            space.name,
            block_size=random.choice((1, 1, 2, 3, 4)),
            size_per_value=random.choice((1, 1, 2, 3, 4)),
            accesses_per_block=random.choice((1, 1, 1, 2, 3)),
        )
        for space in problem.dataspaces
        if random.random() < 0.8
    )
    room = random.randint(1, 3)
    size_words = None if level.size_words is None else level.size_words * room
    return replace(level, packing=packing, size_words=size_words)
