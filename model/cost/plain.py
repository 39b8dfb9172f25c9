"""The plain cost model: one mapping, exact integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from model.architecture import Architecture, StorageLevel
from model.cost.judge import broken_rules
from model.cost.limits import memory_violations, mesh_violations
from model.cost.links import LinkDelivery
from model.cost.nest import Nest, build_nest, check_keeps, check_places
from model.cost.order import check_order, instances_in_use, seen_by
from model.cost.prices import (
    access_energy,
    leaking_instances,
    network_latency,
    paid_energy,
    paying_instances,
)
from model.cost.remainders import Shares, equal_instances, traffic_with_remainders
from model.cost.report import DataspaceCost, Evaluation, LevelCost
from model.cost.traffic import MulticastDelivery, Traffic, dataspace_traffic
from model.counting import EXACT, Counting, CountingRule, rule_of
from model.mapping import Mapping
from model.mapspace import Mapspace
from model.problem import Problem

Named = tuple[str, Traffic]


class Load(NamedTuple):
    """Instances of a level that do the same, and what one of them does with each dataspace that it keeps."""

    instances: int
    traffic: tuple[Named, ...]


def evaluate_in(mapspace: Mapspace, mapping: Mapping, link_transfers: bool = False) -> Evaluation:
    """Price a mapping of a mapspace, counted as it says, with the rules that it breaks; see `evaluate`."""
    problem, architecture = mapspace.problem, mapspace.architecture
    evaluation = evaluate(problem, architecture, mapping, mapspace.counting, link_transfers)
    return replace(evaluation, broken_rules=broken_rules(mapspace, mapping, evaluation))


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
        How moved words and cycles are counted, see `model.counting`.
    link_transfers
        Whether neighbours under a fanout pass words on to each other, which only Timeloop's rule counts.

    Raises
    ------
    ValueError
        If the mapping does not belong to the problem and the architecture, if no level keeps a
        dataspace, or two places of one memory do, or if link transfers are to be counted by another rule
        than Timeloop's, remainders by another one than the exact rule, or given first values of outputs by
        AccelForge's. For nests in an order of their own also if they have remainders or link transfers, or
        tiles that are no whole ones (`model.cost.order`).
    """
    rule = rule_of(counting)
    rule.check_given(problem)
    if link_transfers and not rule.links:
        raise ValueError("link transfers are supported with Timeloop's counting rule only")
    nest = build_nest(problem, architecture, mapping)
    check_keeps(problem, mapping)
    check_places(architecture, mapping)
    if architecture.has_own_order:
        _check_own_order(problem, architecture, mapping, nest, link_transfers)
    if nest.remainder_dims and not rule.remainders:
        dims = sorted(nest.remainder_dims)
        raise ValueError(f"remainders are not counted by the rule {counting!r}: {dims}")
    if nest.remainder_dims:
        loads = loads_with_remainders(problem, architecture, mapping, nest)
    else:
        loads = _even_loads(rule, problem, architecture, mapping, nest, link_transfers)
    steps = nest.steps()
    needed = _memory_cycles(rule, architecture, steps, loads)
    busy = max(needed)
    latency = busy + network_latency(architecture)
    levels = tuple(
        _level_cost(architecture, nest, position, _busiest_first(rule, level, steps, own), own_cycles, busy)
        for position, level, own, own_cycles in zip(
            architecture.storage_indices, architecture.levels, loads, needed, strict=True
        )
    )
    return Evaluation(
        violations=(*memory_violations(architecture, levels), *mesh_violations(architecture, mapping)),
        levels=levels,
        computes=problem.computes,
        compute_cycles=steps,
        compute_instances=nest.instances(len(architecture.nodes)),
        cycles=math.ceil(latency),
        compute_energy=problem.computes * architecture.compute.energy,
        utilization=float(problem.computes / (architecture.compute_instances * latency)),
        units_per_pj=architecture.units_per_pj,
        latency_s=None if architecture.cycle_s is None else latency * architecture.cycle_s,
    )


def _check_own_order(
    problem: Problem, architecture: Architecture, mapping: Mapping, nest: Nest, link_transfers: bool
) -> None:
    """Refuse nests in an order of their own with what is not counted there."""
    if nest.remainder_dims or link_transfers:
        raise ValueError("remainders and link transfers are not counted in an order of nests")
    check_order(problem, architecture, mapping)


def _memory_cycles(
    rule: CountingRule, architecture: Architecture, steps: int, loads: Sequence[Sequence[Load]]
) -> list[int | Fraction]:
    """Cycles that the memory of each level needs for all its places, which have the same instances."""
    needed: list[int | Fraction] = []
    for places in architecture.memories:
        same = zip(*(loads[place] for place in places), strict=True)
        joint = [Load(own[0].instances, tuple(pair for load in own for pair in load.traffic)) for own in same]
        level = architecture.levels[places[0]]
        needed += [max(_latency(rule, level, steps, load) for load in joint)] * len(places)
    return needed


def _even_loads(
    rule: CountingRule,
    problem: Problem,
    architecture: Architecture,
    mapping: Mapping,
    nest: Nest,
    link_transfers: bool,
) -> list[list[Load]]:
    """What each level does where all of its instances do the same."""
    deliver = LinkDelivery if link_transfers else MulticastDelivery
    at: dict[int, list[Named]] = {position: [] for position in architecture.storage_indices}
    for space in problem.dataspaces:
        own = architecture, mapping, nest
        positions = tuple(range(len(architecture.nodes)))
        if architecture.has_own_order:
            seen = seen_by(architecture, mapping, space.name)
            own = seen.architecture, seen.mapping, build_nest(problem, seen.architecture, seen.mapping)
            positions = seen.positions
        delivery = deliver(rule, own[0], own[2], space)
        for traffic in dataspace_traffic(rule, *own, space, delivery):
            position = positions[traffic.position]
            at[position].append((space.name, replace(traffic, position=position)))
    return [
        [Load(instances_in_use(architecture, nest, position), tuple(words))] for position, words in at.items()
    ]


def loads_with_remainders(
    problem: Problem, architecture: Architecture, mapping: Mapping, nest: Nest
) -> list[list[Load]]:
    """What each level does, by the shares of the dimensions that its instances have."""
    at: dict[int, list[tuple[str, Callable[[Shares], Traffic]]]]
    at = {position: [] for position in architecture.storage_indices}
    for space in problem.dataspaces:
        for position, words in traffic_with_remainders(architecture, mapping, nest, space):
            at[position].append((space.name, words))
    return [
        [
            Load(
                instances,
                tuple((name, words(shares)) for name, words in own),
            )
            for instances, shares in equal_instances(nest, position)
        ]
        for position, own in at.items()
    ]


def _latency(rule: CountingRule, level: StorageLevel, steps: int, load: Load) -> int | Fraction:
    words = ((name, own.reads, own.fills + own.updates) for name, own in load.traffic)
    return rule.latency(level, steps, words)


def _busiest_first(
    rule: CountingRule, level: StorageLevel, steps: int, loads: Sequence[Load]
) -> Sequence[Load]:
    if len(loads) == 1:
        return loads
    return sorted(loads, key=lambda load: _latency(rule, level, steps, load), reverse=True)


def _level_cost(
    architecture: Architecture,
    nest: Nest,
    position: int,
    loads: Sequence[Load],
    needed: int | Fraction,
    busy: int | Fraction,
) -> LevelCost:
    level = architecture.level_at(position)
    used = instances_in_use(architecture, nest, position)
    paying = paying_instances(level, architecture.instances_above(position), used)
    by_space = zip(*(load.traffic for load in loads), strict=True)
    counts = [load.instances for load in loads]
    return LevelCost(
        name=level.name,
        instances=used,
        cycles=math.ceil(needed),
        leak_energy=round(_leak_per_cycle(architecture, nest, position) * busy),
        dataspaces=tuple(
            _dataspace_cost(
                level, own[0][0], list(zip(counts, (words for _, words in own), strict=True)), paying
            )
            for own in by_space
        ),
    )


def _leak_per_cycle(architecture: Architecture, nest: Nest, position: int) -> int:
    """Energy that all instances of a level leak in a cycle."""
    level = architecture.level_at(position)
    if not level.energy.leak_per_cycle:
        return 0
    used = partial(instances_in_use, architecture, nest)
    return level.energy.leak_per_cycle * leaking_instances(architecture, position, used)


def _dataspace_cost(
    level: StorageLevel, name: str, words: Sequence[tuple[int, Traffic]], paying: int
) -> DataspaceCost:
    """What a dataspace costs, given the instances that move equally many words, the busiest ones first."""
    packing = level.packing_of(name)
    one = words[0][1]
    return DataspaceCost(
        dataspace=name,
        tile_words=one.tile_words,
        partition_words=one.partition_words,
        reads=one.reads,
        fills=one.fills,
        updates=one.updates,
        total_reads=sum(count * own.reads for count, own in words),
        total_fills=sum(count * own.fills for count, own in words),
        total_updates=sum(count * own.updates for count, own in words),
        energy=paid_energy(
            (
                (count, access_energy(level, packing, own.reads, own.fills, own.updates))
                for count, own in words
            ),
            paying,
        ),
        size_words=one.tile_words * packing.size_per_value,
    )
