"""The plain cost model: one mapping, exact integers."""

from __future__ import annotations

from collections.abc import Sequence

from model.architecture import Architecture, StorageLevel
from model.cost.limits import memory_violations, mesh_violations
from model.cost.links import LinkDelivery
from model.cost.nest import Nest, build_nest, check_keeps, check_places
from model.cost.prices import (
    access_energy,
    leaking_instances,
    network_latency,
    paying_instances,
)
from model.cost.report import DataspaceCost, Evaluation, LevelCost
from model.cost.rules import CountingRule, rule_of
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
        dataspace, or two places of one memory do, or if link transfers are to be counted by another rule
        than Timeloop's.
    """
    if link_transfers and counting != TIMELOOP:
        raise ValueError("link transfers are counted by Timeloop's rule only")
    rule = rule_of(counting)
    nest = build_nest(problem, architecture, mapping)
    check_keeps(problem, mapping)
    check_places(architecture, mapping)
    deliver = LinkDelivery if link_transfers else MulticastDelivery
    at: dict[int, list[Named]] = {position: [] for position in architecture.storage_indices}
    for space in problem.dataspaces:
        delivery = deliver(rule, architecture, nest, space)
        for traffic in dataspace_traffic(rule, architecture, mapping, nest, space, delivery):
            at[traffic.position].append((space.name, traffic))
    steps = nest.steps()
    needed = _memory_cycles(rule, architecture, steps, list(at.values()))
    busy = max(needed)
    cycles = busy + network_latency(architecture)
    levels = tuple(
        _level_cost(architecture, nest, position, level, at[position], own, busy)
        for position, level, own in zip(at, architecture.levels, needed, strict=True)
    )
    return Evaluation(
        violations=(*memory_violations(architecture, levels), *mesh_violations(architecture, mapping)),
        levels=levels,
        computes=problem.computes,
        compute_cycles=steps,
        compute_instances=nest.instances(len(architecture.nodes)),
        cycles=cycles,
        compute_energy=problem.computes * architecture.compute.energy,
        utilization=problem.computes / (architecture.compute_instances * cycles),
        units_per_pj=architecture.units_per_pj,
    )


def _memory_cycles(
    rule: CountingRule, architecture: Architecture, steps: int, traffic: Sequence[Sequence[Named]]
) -> list[int]:
    """Cycles that the memory of each level needs for the words of all its places."""
    needed: list[int] = []
    for places in architecture.memories:
        joint = [
            (name, words.reads, words.fills + words.updates)
            for place in places
            for name, words in traffic[place]
        ]
        needed += [rule.cycles(architecture.levels[places[0]], steps, joint)] * len(places)
    return needed


def _level_cost(
    architecture: Architecture,
    nest: Nest,
    position: int,
    level: StorageLevel,
    traffic: Sequence[Named],
    needed: int,
    busy: int,
) -> LevelCost:
    used = nest.instances(position)
    paying = paying_instances(level, architecture.instances_above(position), used)
    children = [nest.children(above) for above in architecture.fanout_indices if above < position]
    return LevelCost(
        name=level.name,
        instances=used,
        cycles=needed,
        leak_energy=level.energy.leak_per_cycle * busy * leaking_instances(architecture, level, children),
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
