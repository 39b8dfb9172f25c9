"""The plain cost model: one mapping, exact integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from model.architecture import Architecture, StorageLevel
from model.cost.limits import capacity_violations, mesh_violations
from model.cost.links import LinkDelivery
from model.cost.nest import Nest, build_nest, check_keeps
from model.cost.prices import (
    access_energy,
    leaking_instances,
    network_latency,
    paying_instances,
)
from model.cost.report import DataspaceCost, Evaluation, LevelCost
from model.cost.rules import rule_of
from model.cost.traffic import MulticastDelivery, Traffic, dataspace_traffic
from model.mapping import Mapping
from model.mapspace import EXACT, TIMELOOP, Counting, Mapspace
from model.problem import Problem

Named = tuple[str, Traffic]


def evaluate_in(mapspace: Mapspace, mapping: Mapping) -> Evaluation:
    """Price a mapping of a mapspace, counted as the mapspace says; errors as of `evaluate`."""
    return evaluate(mapspace.problem, mapspace.architecture, mapping, mapspace.counting)


def evaluate(
    problem: Problem,
    architecture: Architecture,
    mapping: Mapping,
    counting: Counting = EXACT,
    link_transfers: bool = False,
) -> Evaluation:
    """Price `mapping`: accesses, energy, cycles and broken limits.

    A mapping that breaks a limit is priced all the same. A level with ``no_coalesce`` of a
    dataspace that no level farther out keeps counts as bypassing it.

    Parameters
    ----------
    problem, architecture
        What is computed, and on what.
    mapping
        Loops and kept dataspaces of every node.
    counting
        How moved words and cycles are counted, see `model.cost.rules`.
    link_transfers
        Whether neighbours under a fanout pass words on to each other, which only Timeloop's rule counts.

    Raises
    ------
    ValueError
        If the mapping does not belong to the problem and the architecture, if no level keeps a
        dataspace, or if link transfers are to be counted by another rule than Timeloop's.
    """
    if link_transfers and counting != TIMELOOP:
        raise ValueError("link transfers are counted by Timeloop's rule only")
    rule = rule_of(counting)
    nest = build_nest(problem, architecture, mapping)
    check_keeps(problem, mapping)
    deliver = LinkDelivery if link_transfers else MulticastDelivery
    at: dict[int, list[Named]] = {position: [] for position in architecture.storage_indices}
    for space in problem.dataspaces:
        delivery = deliver(rule, architecture, nest, space)
        for traffic in dataspace_traffic(rule, architecture, mapping, nest, space, delivery):
            at[traffic.position].append((space.name, traffic))
    steps = nest.steps()
    needed = [
        rule.latency(level, steps, ((name, t.reads, t.fills + t.updates) for name, t in at[position]))
        for position, level in zip(at, architecture.levels, strict=True)
    ]
    busy = max(needed)
    latency = busy + network_latency(architecture)
    levels = tuple(
        _level_cost(architecture, nest, position, level, at[position], own, busy)
        for position, level, own in zip(at, architecture.levels, needed, strict=True)
    )
    violations = [
        violation
        for level, cost in zip(architecture.levels, levels, strict=True)
        for violation in capacity_violations(level, cost.size_words)
    ]
    return Evaluation(
        violations=(*violations, *mesh_violations(architecture, mapping)),
        levels=levels,
        computes=problem.computes,
        compute_cycles=steps,
        compute_instances=nest.instances(len(architecture.nodes)),
        cycles=math.ceil(latency),
        compute_energy=problem.computes * architecture.compute.energy,
        utilization=problem.computes / float(architecture.compute_instances * latency),
        units_per_pj=architecture.units_per_pj,
        latency_s=None if architecture.cycle_s is None else latency * architecture.cycle_s,
    )


def _level_cost(
    architecture: Architecture,
    nest: Nest,
    position: int,
    level: StorageLevel,
    traffic: Sequence[Named],
    needed: int | Fraction,
    busy: int | Fraction,
) -> LevelCost:
    used = nest.instances(position)
    paying = paying_instances(level, architecture.instances_above(position), used)
    children = [nest.children(above) for above in architecture.fanout_indices if above < position]
    return LevelCost(
        name=level.name,
        instances=used,
        cycles=math.ceil(needed),
        leak_energy=round(
            level.energy.leak_per_cycle * busy * leaking_instances(architecture, level, children)
        ),
        dataspaces=tuple(_dataspace_cost(level, name, words, paying) for name, words in traffic),
    )


def _dataspace_cost(level: StorageLevel, name: str, words: Traffic, paying: int) -> DataspaceCost:
    packing = level.packing_of(name)
    return DataspaceCost(
        dataspace=name,
        tile_words=words.tile_words,
        partition_words=words.partition_words,
        reads=words.reads,
        fills=words.fills,
        updates=words.updates,
        energy=access_energy(level, packing, words.reads, words.fills, words.updates) * paying,
        size_words=words.tile_words * packing.size_per_value,
    )
