"""Bounds that hold for all mappings, without a look at any tile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from model.architecture import Fanout, Node, StorageLevel
from model.choices import keep_options
from model.cost.prices import paying_instances
from model.mapspace import Mapspace
from model.objective import objective_value
from model.problem import Dataspace


def trivial_bound(mapspace: Mapspace, objective: str) -> int:
    """Bound on an objective of any mapping: in energy units, cycles, or their product.

    All arithmetic units are busy, and every dataspace is read or updated by the level that does it for
    the least energy, for all children at once; no other access counts.

    Parameters
    ----------
    objective
        One of `model.objective.OBJECTIVES`.

    Returns
    -------
    int
        A lower bound, also for a mapspace without any mapping.

    Raises
    ------
    KeyError
        There is no such objective.
    """
    architecture, computes = mapspace.architecture, mapspace.problem.computes
    energy = computes * architecture.compute.energy + math.floor(computes * _operands(mapspace))
    return objective_value(objective, energy, -(-computes // architecture.compute_instances))


def _operands(mapspace: Mapspace) -> Fraction:
    """Energy of the operands of one compute at the least."""
    return sum((_operand(mapspace, space) for space in mapspace.problem.dataspaces), Fraction(0))


def _operand(mapspace: Mapspace, space: Dataspace) -> Fraction:
    """Energy of one operand, at least: of any level that may be the innermost one to keep it."""
    nodes, prices = mapspace.architecture.nodes, list[Fraction]()
    for level, position in enumerate(mapspace.architecture.storage_indices):
        node, options = nodes[position], keep_options(mapspace.keep[level], level, space.name)
        assert isinstance(node, StorageLevel)  # its position says so
        instances = mapspace.architecture.instances_above(position)
        price = _word_energy(node, instances, space) / _most_served(nodes[position:], space)
        if options == (True,) and space.name not in node.no_coalesce:
            prices = [price]
        elif any(options):
            prices.append(price)
    return min(prices, default=Fraction(0))


def _word_energy(level: StorageLevel, instances: int, space: Dataspace) -> Fraction:
    """Energy of one word of a full vector, which as many of all `instances` share as may."""
    packing = level.packing_of(space.name)
    action = level.energy.update if space.read_write else level.energy.read
    if not level.charges(space.name, "up" if space.read_write else "down"):
        return Fraction(0)
    # Where clusters do not divide the instances, one that pays does so for more than its cluster.
    paying = paying_instances(level, instances, instances)
    return Fraction(action * packing.accesses_per_block * paying, packing.block_size * instances)


def _most_served(nodes: Sequence[Node], space: Dataspace) -> int:
    """Computes inside of `nodes` that one word may serve at a time."""
    fanouts = (node for node in nodes if isinstance(node, Fanout))
    return math.prod(fanout.size for fanout in fanouts if space.name not in fanout.no_multicast)
