"""The exact price of a mapping's best loop orders, once all factors are known."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from model.cost import Evaluation, evaluate
from model.cost.delivery import delivered_words
from model.cost.nest import Nest, build_nest
from model.cost.partition import partition_words
from model.cost.prices import leaking_instances, network_latency
from model.cost.tiles import displacement, extents, tile_words
from model.cost.traffic import distinct_children
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from solver.search.goal import Goal
from solver.search.orders import allowed_orders
from solver.search.prices import BoundaryPrice, DataspaceFlow, PriceList
from solver.search.space import KeepMask, SearchSpace
from solver.search.spatial import StageChoice

Order = tuple[str, ...]


@dataclass(frozen=True)
class Priced:
    """A complete mapping with what the plain cost model says of it."""

    mapping: Mapping
    evaluation: Evaluation


@dataclass(frozen=True)
class Skeleton:
    """All factors of a mapping: per level the temporal ones, per stage the spatial ones.

    ``temporal[l]`` runs along the active dimensions.
    """

    space: SearchSpace
    mask: KeepMask
    temporal: tuple[tuple[int, ...], ...]
    spatial: tuple[StageChoice, ...]

    def mapping(self, orders: tuple[Order, ...]) -> Mapping:
        """The mapping with the loops of each level in these orders (innermost first)."""
        nodes: list[NodeMapping] = []
        views = self.space.views
        for level, order in enumerate(orders):
            factor = dict(zip(self.space.active, self.temporal[level], strict=True))
            loops = tuple(Loop(dim, factor[dim]) for dim in order)
            nodes.append(StorageMapping(loops, frozenset(views[p].name for p in self.mask[level])))
            nodes.extend(FanoutMapping(loops) for loops in self._spatial_loops(level))
        return Mapping(tuple(nodes))

    def _spatial_loops(self, level: int) -> Iterator[tuple[SpatialLoop, ...]]:
        for choice in self.spatial[level].choices:
            loops = [
                SpatialLoop(dim, factor, "x" if d in choice.along_x else "y")
                for d, (dim, factor) in enumerate(zip(self.space.active, choice.factors, strict=True))
                if factor > 1
            ]
            yield tuple(sorted(loops, key=lambda loop: loop.axis))

    def orders(self, level: int) -> Iterator[Order]:
        """All orders of the loops of `level` that the rules allow."""
        live = [d for d, f in zip(self.space.active, self.temporal[level], strict=True) if f > 1]
        return allowed_orders(self.space.mapspace.temporal[level], live)

    @cached_property
    def _nest(self) -> Nest:
        first = tuple(next(self.orders(level)) for level in range(len(self.temporal)))
        return build_nest(self.space.problem, self.space.architecture, self.mapping(first))

    @cached_property
    def _prices(self) -> tuple[dict[int, BoundaryPrice], ...]:
        """Exact prices: unlike in a subproblem, the tiles of sliding windows are known here."""
        space, nest = self.space, self._nest
        architecture = space.architecture
        paying = tuple(
            min(nest.instances(position), total // level.cluster_size)
            for position, total, level in zip(
                architecture.storage_indices, space.instances, space.levels, strict=True
            )
        )
        table = PriceList(space.levels, paying, ())
        return tuple(table.boundaries(self._flow(place)) for place in range(len(space.views)))

    def _flow(self, place: int) -> DataspaceFlow:
        architecture, nest = self.space.architecture, self._nest
        space = self.space.problem.dataspaces[place]
        parts = partition_words(architecture, [tile_words(space, bounds) for bounds in nest.bounds])
        groups = [
            distinct_children(architecture, nest, space, position) for position in architecture.fanout_indices
        ]
        distinct = [math.prod(groups[number] for number in below) for below in self.space.fanouts_below]
        return DataspaceFlow(
            space.name,
            space.read_write,
            self.space.chain(self.mask, place),
            tuple(distinct),
            tuple(parts[position] for position in architecture.storage_indices),
        )

    def _boundary_energy(self, level: int, orders: tuple[Order, ...]) -> int:
        """Energy at the boundary of `level`, given the orders of all levels above it."""
        energy = 0
        for place, prices in enumerate(self._prices):
            if level in prices:
                energy += prices[level].exact(self._delivered(place, level, orders))
        return energy

    def _delivered(self, place: int, level: int, orders: tuple[Order, ...]) -> int:
        nest = self._nest
        space = self.space.problem.dataspaces[place]
        position = self.space.architecture.storage_indices[level]
        tile = extents(space, nest.bounds[position])
        if space.name in self.space.levels[level].no_temporal_reuse:
            return tile_words(space, nest.bounds[position]) * nest.steps(position)
        moves = []
        for outer in range(level - 1, -1, -1):
            loops = {loop.dim: loop for loop in nest.temporal[self.space.architecture.storage_indices[outer]]}
            for dim in orders[outer]:
                moves.append((loops[dim].bound, displacement(space, dim, loops[dim].stride)))
        return delivered_words(tile, moves)

    def _floor(self, level: int) -> int:
        """Lower bound on the energy at the boundary of `level` over all orders.

        The innermost loop above decides which dataspaces are reused at all; those are at best
        delivered once per combination of the loops that index them.
        """
        boundary = [place for place, prices in enumerate(self._prices) if level in prices]
        reused, unreused = {}, {}
        for place in boundary:
            relevant, all_words = self._least_delivered(place, level)
            reused[place] = self._prices[place][level].exact(relevant)
            unreused[place] = self._prices[place][level].exact(all_words)
        return min(
            sum(reused[p] if p in members or not self._moves_above(level) else unreused[p] for p in boundary)
            for members in self.space.reuse_classes
        )

    def _moves_above(self, level: int) -> bool:
        """Whether any temporal loop lies above `level`."""
        return any(factor > 1 for factors in self.temporal[:level] for factor in factors)

    def _least_delivered(self, place: int, level: int) -> tuple[int, int]:
        """Least words per instance with all reuse there can be, and with no temporal reuse."""
        space, nest = self.space, self._nest
        position = space.architecture.storage_indices[level]
        tile = space.lattice.index([nest.bounds[position][dim] for dim in space.active])
        instances = nest.instances(position)
        all_words = -(-int(space.unreused_words(place, level)[tile]) // instances)
        if not space.reuses(place, level):
            return all_words, all_words
        view = space.views[place]
        unused = math.prod(view.unused(stage.factors) for stage in self.spatial[:level])
        relevant = int(space.tables[place].relevant_words[tile])
        return -(-relevant * unused // instances), all_words

    def complete(self, goal: Goal) -> Iterator[Priced]:
        """Complete mappings in order of access energy, as long as they can improve on the incumbent.

        The access energy of the levels that are ordered so far, plus a floor for those inside, is a
        lower bound: so the first mapping that comes out complete has the least access energy.
        """
        depth = len(self.temporal)
        floors = [0] * (depth + 1)
        for level in range(depth - 1, 0, -1):
            floors[level] = floors[level + 1] + self._floor(level)
        ticket = count()
        fixed = self._fixed_energy
        heap: list[tuple[int, int, tuple[Order, ...], int]] = [(fixed + floors[1], next(ticket), (), fixed)]
        innermost = next(self.orders(depth - 1))
        while heap:
            least, _, orders, energy = heapq.heappop(heap)
            if least >= goal.energy_limit(self._least_cycles):
                return
            if len(orders) == depth - 1:
                # No boundary lies inside the innermost level, so the order of its loops is free.
                mapping = self.mapping((*orders, innermost))
                yield Priced(mapping, evaluate(self.space.problem, self.space.architecture, mapping))
                continue
            level = len(orders) + 1
            for order in self.orders(level - 1):
                extended = (*orders, order)
                spent = energy + self._boundary_energy(level, extended)
                heapq.heappush(heap, (spent + floors[level + 1], -next(ticket), extended, spent))

    @cached_property
    def _least_cycles(self) -> int:
        return self._nest.steps() + network_latency(self.space.architecture)

    @cached_property
    def _fixed_energy(self) -> int:
        """Energy that no order changes: compute, its operands, leakage for the least cycles."""
        space, nest = self.space, self._nest
        architecture = space.architecture
        innermost = len(space.levels)
        operands = sum(p[innermost].exact(nest.steps()) for p in self._prices if innermost in p)
        leak = 0
        for position, level in zip(architecture.storage_indices, space.levels, strict=True):
            children = [nest.children(above) for above in architecture.fanout_indices if above < position]
            leaking = leaking_instances(architecture, level, children)
            leak += level.energy.leak_per_cycle * leaking * self._least_cycles
        return space.problem.computes * architecture.compute.energy + operands + leak
