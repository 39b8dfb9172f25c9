"""Lower bounds on the mappings with one keep mask and one choice of spatial factors, tile by tile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from model.cost.counting import displacement, distinct_offsets, extents
from model.cost.prices import leaking_instances, network_latency, paying_instances
from model.mapspace import EXACT
from model.numbers import divisors
from model.problem import Term as IndexTerm
from solver.sparse_search.choices import Mask, Unrolled
from solver.sparse_search.grid import FloatArray, IntArray, TensorGrid, Vector
from solver.sparse_search.shares import LeastShares, Term

LEAST = 1 - 1e-9
"""Sums of doubles err by far less than this share."""


Useless = tuple[tuple[str, float], ...]
"""By operand, the share of accesses that its innermost units save, at most."""


class Weight(NamedTuple):
    """A term for one cost of the words of one instance: ``(words * times - free) * weight - slack``."""

    place: int
    outer: int
    per_child: bool
    free: float
    weight: FloatArray
    slack: float


@dataclass(frozen=True)
class Space:
    """What all subproblems share, with figures that few of them need computed once.

    Parameters
    ----------
    shares
        Figures of all tiles.
    """

    shares: LeastShares

    @cached_property
    def depth(self) -> int:
        """Number of storage levels."""
        return len(self.shares.levels)

    @cached_property
    def slots(self) -> tuple[tuple[frozenset[int], ...], ...]:
        """Temporal factors that each level may have, by dimension."""
        grid = self.shares.grid
        return tuple(grid.allowed(rules.factors) for rules in self.shares.mapspace.temporal)

    @cached_property
    def possible(self) -> bool:
        """Whether rules leave the factor 1 to all dimensions of bound 1."""
        mapspace, grid = self.shares.mapspace, self.shares.grid
        unit = set(mapspace.problem.dims) - set(grid.dims)
        rules = [rule for temporal in mapspace.temporal for rule in temporal.factors if rule.dim in unit]
        return all(rule.allows(1) for rule in rules)

    @cached_property
    def stages(self) -> tuple[tuple[int, ...], ...]:
        """Per level, the fanouts between it and the next one, or the arithmetic."""
        return tuple(
            tuple(self.shares.fanouts_between(level, level + 1)) for level in range(self.depth)
        )

    @cached_property
    def tensors(self) -> tuple[TensorGrid, ...]:
        """Dataspaces, in the problem's order."""
        return tuple(self.shares.tensors.values())


@dataclass(frozen=True)
class Tables:
    """Bounds on one cost, the energy or the cycles of a bandwidth.

    Parameters
    ----------
    inside
        Per level, least cost of all that lies inside of each tile there, its own boundary left out.
    from_here
        The same with its own boundary; nothing at the outermost level, which has none.
    """

    inside: tuple[FloatArray, ...]
    from_here: tuple[FloatArray, ...]


class Subproblem:
    """The mappings with one keep mask and one choice of spatial factors.

    Parameters
    ----------
    space
        What all of them share.
    mask, unrolled
        What is fixed.
    """

    def __init__(self, space: Space, mask: Mask, unrolled: Unrolled) -> None:
        self.space, self.mask, self.unrolled = space, mask, unrolled
        self.shares = space.shares
        self.grid = self.shares.grid
        self._tables: dict[int | None, Tables] = {}
        self._computes: dict[Useless, tuple[float, int]] = {}

    @cached_property
    def factors(self) -> tuple[Vector, ...]:
        """Per level, spatial factors of all fanouts right below it."""
        ones = (1,) * len(self.grid.dims)
        return tuple(
            tuple(math.prod(own) for own in zip(ones, *(self.unrolled.fanouts[f] for f in stage), strict=True))
            for stage in self.space.stages
        )

    @cached_property
    def above(self) -> tuple[Vector, ...]:
        """Per level, and for the arithmetic, spatial factors above it."""
        found = [(1,) * len(self.grid.dims)]
        for own in self.factors:
            found.append(tuple(a * b for a, b in zip(found[-1], own, strict=True)))
        return tuple(found)

    @cached_property
    def used(self) -> tuple[int, ...]:
        """Instances in use of each level, and of the arithmetic."""
        return tuple(math.prod(own) for own in self.above)

    @cached_property
    def operations(self) -> int:
        """Steps of the arithmetic on dense data."""
        return self.shares.mapspace.problem.computes // self.used[-1]

    @cached_property
    def used_children(self) -> tuple[int, ...]:
        """Children in use of each fanout."""
        return tuple(math.prod(own) for own in self.unrolled.fanouts)

    # ------------------------------------------------------------------------------------------ costs

    def weights(self, resource: int | None) -> tuple[tuple[tuple[int, Weight], ...], ...]:
        """Per level, dataspaces by place with what their words cost; those of the arithmetic where kept.

        Parameters
        ----------
        resource
            Cycles of a bandwidth, or energy (None).
        """
        return self._weights[resource]

    @cached_property
    def _weights(self) -> dict[int | None, tuple[tuple[tuple[int, Weight], ...], ...]]:
        costs: list[int | None] = [None, *range(len(self.shares.resources))]
        found: dict[int | None, list[list[tuple[int, Weight]]]] = {
            cost: [[] for _ in range(self.space.depth)] for cost in costs
        }
        for place, tensor in enumerate(self.space.tensors):
            for term in self.shares.terms(tensor.space.name, self.mask.chains[tensor.space.name]):
                for cost, level, weight in self._of_term(place, tensor, term):
                    found[cost][level].append((place, weight))
        return {cost: tuple(map(tuple, levels)) for cost, levels in found.items()}

    def _of_term(self, place: int, tensor: TensorGrid, term: Term) -> list[tuple[int | None, int, Weight]]:
        access = term.access
        index = access.level if access.boundary == self.space.depth else access.boundary
        free = self._first_touches(tensor, access.level) if access.first_touch_free else 0.0
        level = self.shares.levels[access.level]
        instances = self.shares.mapspace.architecture.instances_above(
            self.shares.mapspace.architecture.storage_indices[access.level]
        )
        paying = paying_instances(level, instances, self.used[access.level])
        found: list[tuple[int | None, int, Weight]] = []
        costs = [(None, term.energy * paying, term.slack * paying), *((r, w, 0.0) for r, w in term.loads)]
        for cost, weight, slack in costs:
            of_cost = Weight(access.boundary, access.level, access.per_child, free, weight, slack)
            found.append((cost, index, of_cost))
        return found

    def _first_touches(self, tensor: TensorGrid, level: int) -> float:
        """Words of an output that one instance of a level ever holds, at most."""
        bounds = zip(self.grid.dims, self.grid.bounds, self.above[level], strict=True)
        simple = tensor.simple
        box = {dim: bound // unrolled if simple else bound for dim, bound, unrolled in bounds}
        return float(math.prod(extents(tensor.space, box)))

    def children(self, place: int, outer: int, inner: int) -> int:
        """Accesses at a level that serve all its children at another one inside, at least, per access."""
        return math.prod(self._distinct[place][outer:inner])

    @cached_property
    def _distinct(self) -> tuple[tuple[int, ...], ...]:
        """By dataspace and level, different tiles among the children below, at least."""
        return tuple(
            tuple(math.prod(self._of_fanout(tensor, f) for f in stage) for stage in self.space.stages)
            for tensor in self.space.tensors
        )

    def _of_fanout(self, tensor: TensorGrid, fanout: int) -> int:
        name, factors = tensor.space.name, self.unrolled.fanouts[fanout]
        if name in self.shares.mapspace.architecture.fanouts[fanout].no_multicast:
            return math.prod(factors)
        named = dict(zip(self.grid.dims, factors, strict=True))
        if not tensor.separate:
            return max([1, *(named[dim] for dim in tensor.space.dims if dim in named)])
        ranks = ([named.get(term.dim, 1) for term in rank] for rank in tensor.space.ranks)
        return math.prod(max(own, default=1) for own in ranks)

    def stage_children(self, place: int, level: int, tile: Vector) -> int:
        """Different tiles of a dataspace among the children below a level, of which each has `tile`."""
        tensor = self.space.tensors[place]
        if tensor.simple:
            return self._distinct[place][level]
        inner, product = list(tile), 1
        for fanout in reversed(self.space.stages[level]):
            factors = self.unrolled.fanouts[fanout]
            if tensor.space.name in self.shares.mapspace.architecture.fanouts[fanout].no_multicast:
                product *= math.prod(factors)
            else:
                moves = [
                    (factor, displacement(tensor.space, dim, extent))
                    for dim, factor, extent in zip(self.grid.dims, factors, inner, strict=True)
                ]
                product *= distinct_offsets(moves)
            inner = [extent * factor for extent, factor in zip(inner, factors, strict=True)]
        return product

    # ------------------------------------------------------------------------------------------ tables

    @cached_property
    def tiles(self) -> tuple[IntArray, ...]:
        """Per level, places of the tiles that fit and leave room for the fanouts above."""
        found = []
        for level in range(self.space.depth):
            within = self.shares.within(level, self.mask.kept[level])
            left = np.array(self.grid.bounds, dtype=np.int64)
            room = (left[None, :] % (self.grid.extents * np.array(self.above[level], dtype=np.int64))) == 0
            found.append(np.flatnonzero(within & room.all(axis=1)))
        return tuple(found)

    def tables(self, resource: int | None = None) -> Tables:
        """Bounds on the energy, or on the cycles of a bandwidth."""
        if resource not in self._tables:
            self._tables[resource] = self._computed(resource)
        return self._tables[resource]

    def _computed(self, resource: int | None) -> Tables:
        depth, size = self.space.depth, self.grid.size
        inside: list[FloatArray] = []
        from_here: list[FloatArray] = []
        least = np.full(size, np.inf)
        least[self.grid.place((1,) * len(self.grid.dims))] = 0.0
        for level in reversed(range(depth)):
            behind = self.grid.outwards(least, self.factors[level], self.space.slots[level])
            own = np.full(size, np.inf)
            tiles = self.tiles[level]
            tiles = tiles[np.isfinite(behind[tiles])]
            own[tiles] = self._at(level, tiles, resource)
            least = own + behind
            inside.append(behind)
            from_here.append(least)
        return Tables(tuple(reversed(inside)), tuple(reversed(from_here)))

    def _at(self, level: int, tiles: IntArray, resource: int | None) -> FloatArray:
        """Least cost at the boundary of a level, and of what the arithmetic asks it for."""
        weights = self.weights(resource)[level]
        total = np.zeros(len(tiles))
        for place, weight in weights:
            if weight.place == self.space.depth:
                total += self.served(place, weight, tiles)
        delivered = [(place, weight) for place, weight in weights if weight.place == level]
        if not delivered:
            return total
        times = self._times(level, tiles)
        best = np.full(len(tiles), np.inf)
        classes: dict[frozenset[int], FloatArray] = {}
        for axis in range(len(self.grid.dims)):
            moved = frozenset(p for p, t in enumerate(self.space.tensors) if axis in t.axes)
            sliding = any(not t.simple for t in self.space.tensors)
            if sliding or moved not in classes:
                classes[moved] = self._led_by(level, tiles, times, axis, delivered)
            best = np.minimum(best, np.where(times[:, axis] > 1, classes[moved], np.inf))
        alone = (times == 1).all(axis=1)
        if alone.any():
            best = np.where(alone, self._led_by(level, tiles, times, None, delivered), best)
        return total + best

    def served(self, place: int, weight: Weight, tiles: IntArray) -> FloatArray:
        """What the arithmetic costs a level that serves it, by the level's tiles."""
        words = float(self.operations)
        if weight.per_child:
            words *= self.children(place, weight.outer, self.space.depth)
        own: FloatArray = np.maximum(words - weight.free, 0.0) * weight.weight[tiles]
        return np.maximum(own - weight.slack, 0.0)

    def _times(self, level: int, tiles: IntArray) -> FloatArray:
        """Iterations of all temporal loops outside of the tiles, by dimension."""
        bounds = np.array(self.grid.bounds, dtype=np.float64)
        times: FloatArray = bounds / (self.grid.extents[tiles] * np.array(self.above[level]))
        return times

    def _led_by(
        self,
        level: int,
        tiles: IntArray,
        times: FloatArray,
        axis: int | None,
        delivered: Sequence[tuple[int, Weight]],
    ) -> FloatArray:
        """Cost at a boundary if the innermost loop outside runs over one dimension."""
        words: dict[int, FloatArray] = {}
        total = np.zeros(len(tiles))
        for place, weight in delivered:
            if place not in words:
                words[place] = self._words(place, level, tiles, times, axis)
            many = words[place]
            if weight.per_child:
                many = many * self.children(place, weight.outer, level)
            cost = np.maximum(many - weight.free, 0.0) * weight.weight[tiles]
            total += np.maximum(cost - weight.slack, 0.0)
        return total

    def _words(
        self, place: int, level: int, tiles: IntArray, times: FloatArray, axis: int | None
    ) -> FloatArray:
        """Words that one instance of a level receives of a dataspace, at least."""
        tensor = self.space.tensors[place]
        words = tensor.words[tiles]
        reuses = tensor.space.name not in self.shares.levels[level].no_temporal_reuse
        repeated = times[:, list(tensor.others)].prod(axis=1)
        moved = times[:, list(tensor.axes)].prod(axis=1)
        if not reuses:
            return words * moved * repeated
        if tensor.simple:
            again = repeated if axis in tensor.axes else 1.0
            return words * moved * again
        least = self._union(tensor, level, tiles)
        if axis not in tensor.axes or self.shares.mapspace.counting != EXACT:
            return least
        assert axis is not None
        first = np.array([_least_prime(round(t)) for t in times[:, axis].tolist()])
        fresh = words - self._overlap(tensor, level, tiles, axis)
        steps = repeated * moved * (1 - 1 / first) * fresh
        return np.maximum(least, words + steps)

    def _union(self, tensor: TensorGrid, level: int, tiles: IntArray) -> FloatArray:
        """Words that the tiles of one instance cover together, at least."""
        words = tensor.words[tiles]
        if not tensor.separate or self.shares.mapspace.counting != EXACT:
            return words
        bounds = dict(zip(self.grid.dims, self.grid.bounds, strict=True))
        above = dict(zip(self.grid.dims, self.above[level], strict=True))
        product = np.ones(len(tiles))
        for rank in tensor.space.ranks:
            live = [term for term in rank if term.dim in bounds]
            positions = 1 + sum(bounds[term.dim] // above[term.dim] - 1 for term in live)
            product = product * np.maximum(self._extent(live, tiles), float(positions))
        return product

    def _extent(self, terms: Sequence[IndexTerm], tiles: IntArray) -> FloatArray:
        total = np.ones(len(tiles))
        for term in terms:
            axis = self.grid.dims.index(term.dim)
            total = total + abs(term.coefficient) * (self.grid.extents[tiles, axis] - 1)
        return total

    def _overlap(self, tensor: TensorGrid, level: int, tiles: IntArray, axis: int) -> FloatArray:
        """Words that a tile keeps when the loop right outside over one dimension advances, at most."""
        dim, factor = self.grid.dims[axis], self.factors[level - 1][axis]
        product = np.ones(len(tiles))
        for rank in tensor.space.ranks:
            live = [term for term in rank if term.dim in self.grid.dims]
            step = sum(abs(term.coefficient) for term in live if term.dim == dim)
            extent = self._extent(live, tiles)
            move = step * factor * self.grid.extents[tiles, axis]
            product = product * np.maximum(extent - move, 0.0)
        return product


    # ------------------------------------------------------------------------------- what all share

    def computed(self, useless: Useless) -> tuple[float, int]:
        """Energy of the arithmetic and its cycles, at least, as of `LeastShares.computes`."""
        if useless not in self._computes:
            made = self.shares.computes(self.mask, dict(useless))
            compute, further = self.shares.mapspace.architecture.compute, self.shares.sparsity.compute.energy
            gated = min(compute.energy, further.get("gated_compute", 0))
            steps = max(1, math.ceil((made.actual + made.gated) / self.used[-1] * LEAST))
            self._computes[useless] = float(made.actual * compute.energy + made.gated * gated), steps
        return self._computes[useless]

    @cached_property
    def leak_per_cycle(self) -> float:
        """Energy units that all instances in use leak per cycle, at least."""
        architecture = self.shares.mapspace.architecture
        total = 0
        for number, (position, level) in enumerate(
            zip(architecture.storage_indices, architecture.levels, strict=True)
        ):
            above = [c for f, c in zip(architecture.fanout_indices, self.used_children, strict=True) if f < position]
            leaking = leaking_instances(architecture, level, above)
            if level.gating_fanouts is None and self.mask.kept[number]:
                leaking = leaking if self._always_used(number) else 1
            total += level.energy.leak_per_cycle * leaking
        return float(total)

    def _always_used(self, level: int) -> bool:
        """Whether empty tiles leave no instance idle."""
        if self.shares.skips_instances:
            return False
        for name in self.mask.kept[level]:
            parent = max((k for k in self.mask.chains[name] if k < level), default=None)
            if parent is None or self.shares.representation(parent, name) is None:
                return True
        return False

    @cached_property
    def latency(self) -> int:
        """Cycles that networks add."""
        return network_latency(self.shares.mapspace.architecture)


def _least_prime(number: int) -> int:
    """Least divisor above 1, or 1."""
    return next(iter(divisors(number)[1:2]), 1)
