"""The cost model of fused mappings: totals over all visits, from the tree alone, in exact integers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import NamedTuple

from model.architecture import Architecture, Fanout, StorageLevel
from model.cost.copying import (
    Children,
    CopyMove,
    Transfer,
    leakage_by_level,
    move_cycles,
    move_energy,
    transfer_of,
)
from model.cost.limits import capacity_violations, mesh_violations
from model.cost.order import instances_in_use
from model.cost.prices import (
    access_energy,
    leaking_instances,
    network_latency,
    paid_energy,
    paying_instances,
)
from model.cost.remainders import Route, equal_instances
from model.cost.report import DataspaceCost, Violation
from model.cost.traffic import (
    MulticastDelivery,
    accesses,
    askers,
    dataspace_traffic,
    in_passing,
    kept_positions,
)
from model.counting import EXACT, Counting, CountingRule, Loops, Touched, rule_of
from model.counting.words import tile_words
from model.fused.cascade import Cascade, CascadeEinsum
from model.fused.check import (
    FusedMappingError,
    SpreadLoop,
    check_fused,
    check_held_spread,
    check_spreads,
    copied_loops,
    handed_over,
)
from model.fused.mapping import FusedMapping, Held
from model.fused.nests import Seen, VisitKind, visit_kinds
from model.fused.report import EinsumCost, FusedEvaluation, MemoryCost, RoomTaken
from model.fused.room import Rooms, held_extents, largest_tile_words
from model.fused.twins import other_names, twins_of
from model.fused.visits import Visits, path_dims, window_dims
from model.problem import Dataspace


def evaluate_fused(
    cascade: Cascade, mapping: FusedMapping, counting: Counting | None = None
) -> FusedEvaluation:
    """Price a fused mapping: words, energy, cycles and room, in total over all visits.

    A mapping that breaks a limit of the hardware is priced all the same.

    Parameters
    ----------
    cascade, mapping
        What is computed, and how.
    counting
        ``exact``: words as an execution moves them. ``accelforge``: every loop above a tile brings all of
        it, what drains from a memory is read there, and latencies are not rounded (docs/fusion.md,
        "AccelForge's counting"). None: as the cascade's mapspaces count.

    Raises
    ------
    FusedMappingError
        If the mapping is none of the cascade.
    ValueError
        If the rule does not count fused mappings.
    """
    first = cascade.einsums[0].mapspace
    rule = rule_of(counting or (first.counting if first.counting_rule.fused else EXACT))
    if not rule.fused:
        raise ValueError(f"{rule.title} does not support fused mappings")
    check_fused(cascade, mapping)
    visits = Visits(cascade, mapping)
    spreads = check_spreads(visits)
    check_held_spread(cascade, mapping)
    if rule.by_order:
        _check_overlaps(mapping, rule)
    else:
        _check_windows(cascade, mapping, rule)
    twins = twins_of(cascade, mapping)
    costs, violations = list[EinsumCost](), list[tuple[str, Violation]]()
    kinds = [
        () if einsum.is_copy or twins[place] != place else visit_kinds(visits, place)
        for place, einsum in enumerate(cascade.einsums)
    ]
    for place, (einsum, twin) in enumerate(zip(cascade.einsums, twins, strict=True)):
        if einsum.is_copy:
            costs.append(_copy_cost(visits, place, spreads))
            continue
        is_new = twin == place
        costs.append(
            _EinsumCounter(visits, place, kinds[place], rule).cost()
            if is_new
            else _renamed_cost(costs[twin], cascade.einsums[twin], einsum)
        )
        broken = (v for kind in kinds[twin] for v in mesh_violations(kind.architecture, kind.mapping))
        violations += [(einsum.name, violation) for violation in dict.fromkeys(broken)]
    rooms = tuple(Rooms(visits, kinds, twins).rooms())
    for room in rooms:
        violations += [(room.einsum, violation) for violation in _room_violations(cascade, room)]
    architecture = first.architecture
    return FusedEvaluation(
        tuple(costs),
        rooms,
        tuple(violations),
        architecture.units_per_pj,
        counting=rule.name,
        cycle_s=cascade.cycle_s,
    )


def _check_windows(cascade: Cascade, mapping: FusedMapping, rule: CountingRule) -> None:
    """Check that no shared loop slides a window of what is handed over below it."""
    for path, loop in ((own, loop) for own in mapping.paths for loop in own.loops):
        einsum = cascade.einsums[cascade.place(path.leaf.einsum)]
        handed = handed_over(cascade, [cascade.place(name) for name, _ in loop.dims])
        if (dim := loop.dim(einsum.name)) in window_dims(einsum, handed):
            text = f"{rule.title} does not count shared loops that slide windows of what is handed over"
            raise FusedMappingError(f"{text}, as `{dim}` of `{einsum.name}` does", loop)


def _check_overlaps(mapping: FusedMapping, rule: CountingRule) -> None:
    """Check that all held tiles are fetched as a whole."""
    for tile in (own for path in mapping.paths for own in path.leaf.held if own.keeps_overlap):
        text = f"{rule.title} does not count held tiles that keep what overlaps"
        raise FusedMappingError(f"{text}, as that of `{tile.dataspace}` does", tile)


def _room_violations(cascade: Cascade, room: RoomTaken) -> Iterator[Violation]:
    """Check what is taken of a memory; the least utilization counts the running Einsum's own tiles."""
    einsum = cascade.einsums[cascade.place(room.einsum)]
    level = next(level for level in einsum.mapspace.architecture.levels if level.name == room.memory)
    parts = tuple((tile.tensor, tile.einsum or tile.kind, tile.size_words) for tile in room.tiles)
    for violation in capacity_violations(level, room.size_words):
        if violation.kind == "capacity":
            yield violation._replace(parts=parts)
    for violation in () if einsum.is_copy else capacity_violations(level, room.used_words):
        if violation.kind == "min_utilization":
            yield violation


def _touched_elsewhere(architecture: Architecture, nest: Loops, space: Dataspace) -> Touched:
    """Nothing is touched first in a visit."""
    return lambda outer, inner: 0


class _Flow(NamedTuple):
    """What equal instances at a node move of a dataspace in one visit, before first touches are left out.

    Parameters
    ----------
    position, asking
        Of the node, and of the one inside that it serves.
    share
        Number of the part of the iterations that the instances have: 0 is the largest one.
    used
        How many instances there are.
    counts
        Reads, fills and updates of one instance.
    served, held
        Distinct words that one hands inside, and that its tiles take.
    """

    position: int
    asking: int
    share: int
    used: int
    counts: tuple[int, int, int]
    served: int
    held: int


@dataclass
class _Words:
    """Words of one dataspace at one memory, per instance: reads, fills and updates.

    `actions` has them by the number of instances that pay, then by share and instances in use; `loads` by
    kind of visits and share. The bandwidths of an instance carry all that it moves.
    """

    partition_words: int = 0
    actions: dict[int, dict[tuple[int, int], list[int]]] = field(default_factory=dict)
    loads: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def add(self, paying: int, kind: int, flow: _Flow, counts: Sequence[int]) -> None:
        """Add reads, fills and updates of each used instance."""
        own = self.actions.setdefault(paying, {}).setdefault((flow.share, flow.used), [0, 0, 0])
        load = self.loads.setdefault((kind, flow.share), [0, 0, 0])
        for number, words in enumerate(counts):
            own[number] += words
            load[number] += words

    @property
    def together(self) -> tuple[int, int, int]:
        """Of all instances in use."""
        used = [(n, counts) for own in self.actions.values() for (_, n), counts in own.items()]
        reads, fills, updates = (sum(n * counts[i] for n, counts in used) for i in range(3))
        return reads, fills, updates

    @property
    def largest(self) -> tuple[int, int, int]:
        """Of an instance with the largest share."""
        first = [counts for (_, share), counts in self.loads.items() if not share]
        reads, fills, updates = (sum(column) for column in zip(*first, strict=True))
        return reads, fills, updates

    def energy(self, level: StorageLevel, name: str) -> int:
        """Energy of all instances that pay."""
        packing = level.packing_of(name)
        total = 0
        for paying, own in self.actions.items():
            energies = [(used, access_energy(level, packing, *counts)) for (_, used), counts in own.items()]
            total += paid_energy(energies, paying)
        return total


@dataclass(frozen=True)
class _EinsumCounter:
    """Adds up what one Einsum does in all kinds of visits."""

    visits: Visits
    place: int
    kinds: tuple[VisitKind, ...]
    counting: CountingRule

    @property
    def einsum(self) -> CascadeEinsum:
        return self.visits.cascade.einsums[self.place]

    @property
    def rule(self) -> CountingRule:
        """How words are counted within a visit; first touches are looked at over all visits instead."""
        return replace(self.counting, touched=_touched_elsewhere, drains_are_reads=False)

    def cost(self) -> EinsumCost:
        """Return energy and cycles."""
        words: dict[tuple[str, str], _Words] = defaultdict(_Words)
        for number, kind in enumerate(self.kinds):
            for space in kind.problem.dataspaces:
                self._count(number, space, words)
        steps = sum(kind.count * kind.nest.steps() for kind in self.kinds)
        architecture = self.einsum.mapspace.architecture
        latency = self.counting.latency
        busy = max(latency(level, steps, self._demands(level, words)) for level in architecture.levels)
        visits = sum(kind.count for kind in self.kinds)
        return EinsumCost(
            einsum=self.einsum.name,
            visits=visits,
            steps=steps,
            cycles=math.ceil(busy) + visits * network_latency(architecture),
            compute_energy=self.einsum.problem.computes * architecture.compute.energy,
            memories=tuple(self._memory(level, words, steps, busy) for level in architecture.levels),
            n_instances=self.einsum.n_instances,
            unrounded=busy + visits * network_latency(architecture),
            cycle_length=self.einsum.cycle_length,
        )

    def _count(self, number: int, space: Dataspace, words: dict[tuple[str, str], _Words]) -> None:
        """Add the words of a dataspace in one kind of visits."""
        kind = self.kinds[number]
        seen = kind.seen(space.name)
        architecture, nest = seen.architecture, seen.nest
        for passed in architecture.levels:
            if space.name in passed.no_coalesce:
                what = f"`no_coalesce` of `{space.name}` at `{passed.name}`"
                raise FusedMappingError(f"{what} is not modelled in fused mappings", space)
        held = self._held(space)
        kept = kept_positions(architecture, seen.mapping, space.name)
        stores = [position for position in kept if not architecture.level_at(position).tolls]
        skipped = stores[1] if held is not None and len(stores) > 1 else None
        flows = self._flows_with_remainders if nest.remainder_dims else self._even_flows
        for flow in flows(kind, space, kept, skipped):
            position = flow.position
            level = architecture.level_at(position)
            at = words[level.component, space.name]
            used = nest.instances(position)
            paying = paying_instances(level, architecture.instances_above(position), used)
            counts = [kind.count * own for own in flow.counts]
            if held is not None and position <= stores[1]:
                counts = self._with_held(kind, space, (position, stores[1]), held, counts)
            at.add(paying, number, flow, self._settled(kind, space, flow, kept, counts))
            unseen = flow.share or level.tolls
            at.partition_words += 0 if unseen else self._distinct(kind, space, flow.held)

    def _even_flows(
        self, kind: VisitKind, space: Dataspace, kept: Sequence[int], skipped: int | None
    ) -> Iterator[_Flow]:
        """Yield what each node does where all of its instances do the same."""
        seen = kind.seen(space.name)
        architecture, nest = seen.architecture, seen.nest
        delivery = _VisitDelivery(self.rule, architecture, nest, space, skipped)
        asking = {at: inner for at, _, inner in askers(architecture, kept, space)}
        touched = self.counting.touched(architecture, nest, space)
        for traffic in dataspace_traffic(self.rule, architecture, seen.mapping, nest, space, delivery):
            at = traffic.position
            counts = traffic.reads, traffic.fills, traffic.updates
            firsts = touched(at, asking[at]), touched(at, at)
            yield _Flow(at, asking[at], 0, nest.instances(at), counts, *firsts)

    def _flows_with_remainders(
        self, kind: VisitKind, space: Dataspace, kept: Sequence[int], skipped: int | None
    ) -> Iterator[_Flow]:
        """Yield what each node does by the shares of the dimensions that its instances have."""
        if not self.counting.remainders:
            raise FusedMappingError(
                "remainders are supported with the exact counting rule only", kind.private
            )
        architecture, nest = kind.architecture, kind.nest
        for at, level, asking in askers(architecture, kept, space):
            served = Route(architecture, nest, space, at, asking)
            received = Route(architecture, nest, space, at, at)
            for number, (used, one) in enumerate(equal_instances(nest, at)):
                stream = 0 if asking == skipped else served.brought_words(one, reuse=served.reuses)
                filled = 0 if at in {kept[0], skipped} else received.brought_words(one, reuse=received.reuses)
                counts = _of_instance(at, level, space, stream, filled)
                firsts = served.touched_words(one), received.touched_words(one)
                yield _Flow(at, asking, number, used, counts, *firsts)

    def _held(self, space: Dataspace) -> Held | None:
        leaf = self.visits.mapping.paths[self.place].leaf
        return next((tile for tile in leaf.held if tile.dataspace == space.name), None)

    def _with_held(
        self,
        kind: VisitKind,
        space: Dataspace,
        way: tuple[int, int],
        held: Held,
        counts: list[int],
    ) -> list[int]:
        """Add what the tile above the nest exchanges with the outermost memory, once, with the first kind.

        `way` has the node that serves it, lets it pass or is its place; and its place.
        """
        if not _is_first(kind, tuple(kind.counts)):
            return counts
        position, place = way
        seen = kind.seen(space.name)
        moved = self._moved(seen, space, place, held.fetch_depth)
        reads, fills, updates = counts
        if position == place:
            return [reads, fills + moved, updates]
        delivery = MulticastDelivery(self.rule, seen.architecture, seen.nest, space)
        stream: int | Fraction = moved
        for above in reversed(range(position, place)):
            if isinstance(seen.architecture.nodes[above], Fanout):
                stream = delivery.across(above, stream, for_themselves=above + 1 == place)
        level = seen.architecture.level_at(position)
        down = level.charges(space.name, "down")
        up = space.read_write and level.charges(space.name, "up")
        return [reads + down * int(stream), fills, updates + up * int(stream)]

    def _moved(self, seen: Seen, space: Dataspace, position: int, depth: int) -> int:
        """Words that one instance of the tile above the nest receives in all: each tile once."""
        choices = held_extents(self.visits, self.place, seen, position, depth)
        total = 0
        for chosen in product(*(choices[dim].items() for dim in choices)):
            extent = {dim: size for dim, (size, _) in zip(choices, chosen, strict=True)}
            total += tile_words(space, extent) * math.prod(count for _, count in chosen)
        return total

    def _settled(
        self,
        kind: VisitKind,
        space: Dataspace,
        flow: _Flow,
        kept: Sequence[int],
        counts: Sequence[int],
    ) -> tuple[int, int, int]:
        """Leave out first touches of the whole execution: they need neither a read nor a fill."""
        reads, fills, updates = counts
        level = kind.seen(space.name).architecture.level_at(flow.position)
        if not space.read_write or not level.charges(space.name, "down"):
            return reads, fills, updates
        drained = fills if self.counting.drains_are_reads else 0
        if space.name not in level.rmw_first_update:
            reads -= self._distinct(kind, space, flow.served)
            is_filled = flow.position != kept[0] and not level.tolls
            fills -= self._distinct(kind, space, flow.held) if is_filled else 0
        return reads + drained, fills, updates

    def _distinct(self, kind: VisitKind, space: Dataspace, touched: int) -> int:
        """Words that visits of a kind are the first to touch: the parts of different visits are disjoint.

        `touched` of them in one visit.
        """
        dims = space.dims
        if not _is_first(kind, [dim for dim in kind.counts if dim not in dims]):
            return 0
        return touched * math.prod(count for dim, count in kind.counts.items() if dim in dims)

    def _demands(
        self, level: StorageLevel, words: dict[tuple[str, str], _Words]
    ) -> list[tuple[str, int, int]]:
        """Words that a bandwidth of one instance carries: of the busiest one in each kind of visits."""
        names = [s.name for s in self.einsum.problem.dataspaces if (level.name, s.name) in words]
        loads = {name: words[level.name, name].loads for name in names}
        sums = {name: [0, 0] for name in names}
        for number in range(len(self.kinds)):
            shares = {share for own in loads.values() for kind, share in own if kind == number}
            each = [
                [
                    (name, own[0], own[1] + own[2])
                    for name in names
                    if (own := loads[name].get((number, share)))
                ]
                for share in sorted(shares)
            ]
            busiest = max(each, key=partial(self.counting.latency, level, 1), default=[])
            for name, reads, writes in busiest:
                sums[name][0] += reads
                sums[name][1] += writes
        return [(name, reads, writes) for name, (reads, writes) in sums.items()]

    def _tile_words(self, level: StorageLevel, space: Dataspace) -> int:
        if level.tolls:
            return 0
        words = largest_tile_words(self.visits, self.place, self.kinds, space, level.name)
        assert words is not None  # something moves there
        return words

    def _memory(
        self,
        level: StorageLevel,
        words: dict[tuple[str, str], _Words],
        steps: int,
        busy: int | Fraction,
    ) -> MemoryCost:
        positions = [(kind, kind.first_place(level.name)) for kind in self.kinds]
        leaking = max(
            leaking_instances(
                kind.architecture, position, partial(instances_in_use, kind.architecture, kind.nest)
            )
            for kind, position in positions
        )
        return MemoryCost(
            name=level.name,
            instances=max(instances_in_use(k.architecture, k.nest, position) for k, position in positions),
            cycles=self.counting.cycles(level, steps, self._demands(level, words)),
            leak_energy=round(level.energy.leak_per_cycle * busy * leaking),
            dataspaces=tuple(
                _cost_from_words(
                    level, space.name, self._tile_words(level, space), words[level.name, space.name]
                )
                for space in self.einsum.problem.dataspaces
                if (level.name, space.name) in words
            ),
        )


@dataclass(frozen=True, slots=True)
class _VisitDelivery(MulticastDelivery):
    """Delivery within a visit; at `skipped` stands a tile from outside of the visits."""

    skipped: int | None

    def received(self, position: int) -> tuple[int, int]:
        """Words of one instance from above."""
        if position == self.skipped:
            return 0, 0
        return MulticastDelivery.received(self, position)


def _of_instance(
    position: int, level: StorageLevel, space: Dataspace, stream: int, filled: int
) -> tuple[int, int, int]:
    """Reads, fills and updates of one instance of a level, first touches included."""
    if not level.tolls:
        return accesses(level, space, stream, (filled, 0), (0, 0))
    passed = in_passing(position, level, space, stream, 0)
    return passed.reads, 0, passed.updates


def _is_first(kind: VisitKind, dims: Iterable[str]) -> bool:
    """Whether no kind of visits with other extents along these dimensions comes before."""
    return kind.first.issuperset(dims)


def _cost_from_words(level: StorageLevel, name: str, tile_words: int, words: _Words) -> DataspaceCost:
    packing = level.packing_of(name)
    reads, fills, updates = words.largest
    together = words.together
    return DataspaceCost(
        dataspace=name,
        tile_words=tile_words,
        partition_words=words.partition_words,
        reads=reads,
        fills=fills,
        updates=updates,
        total_reads=together[0],
        total_fills=together[1],
        total_updates=together[2],
        energy=words.energy(level, name),
        size_words=tile_words * packing.size_per_value,
    )


def _renamed_cost(cost: EinsumCost, known: CascadeEinsum, einsum: CascadeEinsum) -> EinsumCost:
    """What an Einsum costs that does what another one does by other names."""
    names = other_names(known.problem, einsum.problem)
    memories = (
        replace(own, dataspaces=tuple(replace(s, dataspace=names[s.dataspace]) for s in own.dataspaces))
        for own in cost.memories
    )
    return replace(
        cost,
        einsum=einsum.name,
        memories=tuple(memories),
        n_instances=einsum.n_instances,
        cycle_length=einsum.cycle_length,
    )


def _copy_cost(visits: Visits, place: int, spreads: Mapping[str, Sequence[SpreadLoop]]) -> EinsumCost:
    """What a copy moves between the memories that store its tensors, each word once."""
    einsum, mapping = visits.cascade.einsums[place], visits.mapping
    path, depth = mapping.paths[place], len(mapping.paths[place].loops)
    architecture = einsum.mapspace.architecture
    names = [level.name for level in architecture.levels]
    homes = {
        access.dataspace: names.index(mapping.stored_at[access.tensor].memory)
        if access.tensor in mapping.stored_at
        else 0
        for access in einsum.accesses
    }
    loops = copied_loops(visits, place, spreads)
    children = {
        number: math.prod(count for _, count, _ in loops.get(fanout.name, ()))
        for number, fanout in enumerate(architecture.fanouts)
    }
    transfer = transfer_of(einsum.mapspace, homes, children)
    parts = (visits.extents(place, dim, depth).total() for dim in path_dims(path, depth))
    return EinsumCost(
        einsum=einsum.name,
        visits=math.prod(parts),
        steps=0,
        cycles=0 if transfer is None else transfer.cycles,
        compute_energy=0,
        memories=() if transfer is None else tuple(_transferred(einsum, transfer, children)),
        n_instances=einsum.n_instances,
        cycle_length=einsum.cycle_length,
    )


def _transferred(einsum: CascadeEinsum, transfer: Transfer, children: Children) -> Iterator[MemoryCost]:
    """Yield what a copy moves at each memory, and what leaks meanwhile."""
    architecture = einsum.mapspace.architecture
    leakage = zip(architecture.levels, leakage_by_level(architecture, children), strict=True)
    for number, (level, leak_energy) in enumerate(leakage):
        moves = [move for move in transfer.moves if move.level == number]
        costs = tuple(_moved_cost(architecture, move) for move in moves)
        cycles = move_cycles(level, moves) if moves else 0
        instances = max((move.instances for move in moves), default=1)
        yield MemoryCost(level.name, instances, cycles, leak_energy * transfer.cycles, costs)


def _moved_cost(architecture: Architecture, move: CopyMove) -> DataspaceCost:
    """What a copy moves of one dataspace: each word once."""
    packing = architecture.levels[move.level].packing_of(move.dataspace)
    reads, fills, updates = move.reads, move.fills, move.updates
    return DataspaceCost(
        dataspace=move.dataspace,
        tile_words=move.stored,
        partition_words=move.stored,
        reads=reads,
        fills=fills,
        updates=updates,
        total_reads=reads * move.instances,
        total_fills=fills * move.instances,
        total_updates=updates * move.instances,
        energy=move_energy(architecture, move),
        size_words=move.stored * packing.size_per_value,
    )
