"""Lower bounds on the mappings with one keep mask and one choice of spatial factors, tile by tile."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from model.cost.counting import displacement, distinct_offsets, extents
from model.cost.prices import leaking_instances, network_latency, paying_instances
from model.mapspace import EXACT
from model.numbers import divisors
from solver.sparse_search.choices import Mask, Unrolled, always_kept
from solver.sparse_search.grid import ONE, BoolArray, FloatArray, IntArray, TensorGrid, Vector
from solver.sparse_search.instances import NeededInstances
from solver.sparse_search.shares import LeastShares, Term

LEAST = 1 - 1e-9
"""Sums of doubles err by far less than this share."""


Useless = tuple[tuple[str, float], ...]
"""By operand, the share of accesses that its innermost units save, at most."""


class Weight(NamedTuple):
    """A term for one cost of the words of one instance: ``(words * times - free) * weight - slack``.

    ``place`` is the boundary, ``outer`` the level; the weight is that of the table times ``scale``.
    """

    place: int
    outer: int
    per_child: bool
    free: float
    table: FloatArray
    scale: int
    slack: float


class Led(NamedTuple):
    """Innermost loops that move the same dataspaces, by their places, and the dimensions they run over."""

    moved: frozenset[int]
    axes: tuple[int, ...]


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
        """Temporal factors that each level may have, by dimension: those that rules and formats leave."""
        grid = self.shares.grid
        allowed = (grid.allowed(rules.factors) for rules in self.shares.mapspace.temporal)
        return tuple(
            tuple(own & ONE if axis in self._without_rank[level] else own for axis, own in enumerate(slot))
            for level, slot in enumerate(allowed)
        )

    @cached_property
    def _without_rank(self) -> tuple[frozenset[int], ...]:
        """Per level, dimensions whose loops find no rank in a dataspace that is always there."""
        found: list[set[int]] = [set() for _ in range(self.depth)]
        kept = (
            (tensor, level)
            for tensor in self.tensors
            for level in always_kept(self.shares.mapspace, self.shares.sparsity, tensor.space.name)
        )
        for tensor, level in kept:
            found[level] |= self._left_over(tensor, level)
        return tuple(map(frozenset, found))

    def _left_over(self, tensor: TensorGrid, level: int) -> set[int]:
        representation = self.shares.representation(level, tensor.space.name)
        if representation is None or not all(rank.flattened for rank in representation.ranks):
            return set()
        taken = {dim for rank in representation.ranks for group in rank.flattened for dim in group}
        return {axis for axis in tensor.axes if self.shares.grid.dims[axis] not in taken}

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
        return tuple(tuple(self.shares.fanouts_between(level, level + 1)) for level in range(self.depth))

    @cached_property
    def tensors(self) -> tuple[TensorGrid, ...]:
        """Dataspaces, in the problem's order."""
        return tuple(self.shares.tensors.values())

    @cached_property
    def classes(self) -> tuple[Led, ...]:
        """All kinds of innermost loops, by the dataspaces that they move."""
        found: dict[frozenset[int], list[int]] = {}
        for axis in range(len(self.shares.grid.dims)):
            moved = frozenset(place for place, tensor in enumerate(self.tensors) if axis in tensor.axes)
            found.setdefault(moved, []).append(axis)
        if not found:
            return (Led(frozenset(), ()),)
        return tuple(Led(moved, tuple(axes)) for moved, axes in found.items())

    def class_of(self, axis: int) -> int:
        """Number of the class of a dimension's loops."""
        return next(number for number, led in enumerate(self.classes) if axis in led.axes)

    @cached_property
    def led_slots(self) -> tuple[tuple[tuple[frozenset[int], ...], ...], ...]:
        """Per level and class, temporal factors of slots whose innermost loop is of the class."""
        return tuple(tuple(self._led_slot(level, led) for led in self.classes) for level in range(self.depth))

    def _led_slot(self, level: int, led: Led) -> tuple[frozenset[int], ...]:
        """Factors of a slot: those of a slot without loops where the class can have none."""
        dims, allowed = self.shares.grid.dims, self.slots[level]
        if all(allowed[axis] <= ONE for axis in led.axes):
            return tuple(own & ONE for own in allowed)
        inner = [dims.index(dim) for dim in self.shares.mapspace.temporal[level].inner if dim in dims]
        first = next((n for n, axis in enumerate(inner) if axis in led.axes), len(inner))
        before = set(inner[:first])
        return tuple(own & ONE if axis in before else own for axis, own in enumerate(allowed))

    def least(self, weights: FloatArray) -> float:
        """Least entry of a table that many subproblems share."""
        key = id(weights)
        if key not in self._least:
            self._least[key] = float(weights.min()), weights
        return self._least[key][0]

    @cached_property
    def _least(self) -> dict[int, tuple[float, FloatArray]]:
        return {}

    def fits(self, level: int, kept: frozenset[str]) -> BoolArray:
        """Which tiles a level can hold of what it keeps."""
        if (level, kept) not in self._within:
            self._within[level, kept] = self.shares.within(level, kept)
        return self._within[level, kept]

    def made_up(
        self, level: int, factors: tuple[Vector, ...], kept: tuple[frozenset[str], ...]
    ) -> FloatArray:
        """0 for the tiles of a level that fit and that loops make up, infinite for others.

        Parameters
        ----------
        factors, kept
            Of the level and those inside.
        """
        key = level, factors, kept
        if key not in self._made_up:
            grid = self.shares.grid
            if level + 1 < self.depth:
                inner = self.made_up(level + 1, factors[1:], kept[1:])
            else:
                inner = np.full(grid.size, np.inf)
                inner[grid.place((1,) * len(grid.dims))] = 0.0
            own = grid.outwards(inner, factors[0], self.slots[level])
            self._made_up[key] = np.where(self.fits(level, kept[0]), own, np.inf)
        return self._made_up[key]

    @cached_property
    def _made_up(self) -> dict[tuple[int, tuple[Vector, ...], tuple[frozenset[str], ...]], FloatArray]:
        return {}

    @cached_property
    def _within(self) -> dict[tuple[int, frozenset[str]], BoolArray]:
        return {}

    def joined(self, level: int) -> Iterator[int]:
        """A level and those inside of it that are joined to it, see `is_joined`."""
        yield level
        while level + 1 < self.depth and self.is_joined(level + 1):
            level += 1
            yield level

    def is_joined(self, level: int) -> bool:
        """Whether nothing lies between a level and the next outer one: they have the same tiles."""
        if level == 0 or self.stages[level - 1]:
            return False
        return all(own <= ONE for own in self.slots[level - 1])


Row = tuple[int, int] | None
"""A dataspace that stays in place outside of a tile, and the innermost level that it is due at; or none."""


class Repetition(NamedTuple):
    """What deliveries cost that are repeated: ``(words * times - free - least) * weight - slack``."""

    words: float
    free: float
    least: float
    weight: float
    slack: float


def staying(row: Row) -> dict[int, int]:
    """Return the dataspace that stays in place in a row, with the innermost level, if there is one."""
    return {} if row is None else dict([row])


@dataclass(frozen=True)
class Tables:
    """Bounds on one cost, the energy or the cycles of a bandwidth.

    Parameters
    ----------
    at
        Per level, and per class of the innermost loop outside: the cost at each tile's own boundary.
    inside
        Per level, least cost of all that lies inside of each tile, from the next slot with loops on; one row
        for each dataspace that may stay in place, without what `Subproblem.due` adds for it.
    """

    at: tuple[tuple[FloatArray, ...], ...]
    inside: tuple[dict[Row, FloatArray], ...]


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
        self._dues: dict[tuple[int, int, int, int | None], FloatArray] = {}
        self._beginnings: dict[tuple[int, int], dict[int, int]] = {}
        self._known_asked: dict[tuple[int | None, int], float] = {}
        self._known_repetitions: dict[tuple[int, int, int | None], tuple[Repetition, ...]] = {}
        self._once: dict[tuple[int, int], tuple[float, float]] = {}
        self._computes: dict[Useless, tuple[float, int]] = {}

    @cached_property
    def factors(self) -> tuple[Vector, ...]:
        """Per level, spatial factors of all fanouts right below it."""
        ones = (1,) * len(self.grid.dims)
        return tuple(
            tuple(
                math.prod(own) for own in zip(ones, *(self.unrolled.fanouts[f] for f in stage), strict=True)
            )
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
            name, fanouts = tensor.space.name, self.unrolled.fanouts
            terms = self.shares.terms(name, self.mask.chains[name], fanouts, self.needed)
            parts = (part for term in terms for part in self._of_term(place, tensor, term))
            for cost, level, weight in parts:
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
        costs = [(None, term.energy, paying, term.slack), *((r, w, 1, slack) for r, w, slack in term.loads)]
        for cost, table, scale, slack in costs:
            own = (access.boundary, access.level, access.per_child, free, table, scale, slack * scale)
            found.append((cost, index, Weight(*own)))
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
        """Per level, places of the tiles that fit, and that loops make up inside and complete outside."""
        depth, grid, slots = self.space.depth, self.grid, self.space.slots
        inside = [
            self.space.made_up(level, self.factors[level:], self.mask.kept[level:]) for level in range(depth)
        ]
        found = [np.full(grid.size, np.inf)]
        found[0][grid.place(grid.bounds)] = 0.0
        for level in range(depth):
            found[-1] = found[-1] + inside[level]
            found.append(grid.inwards(found[-1], self.factors[level], slots[level]))
        return tuple(np.flatnonzero(np.isfinite(own)) for own in found[:depth])

    @cached_property
    def is_tile(self) -> tuple[BoolArray, ...]:
        """Per level, which tiles are among `tiles`."""
        found = []
        for own in self.tiles:
            here = np.zeros(self.grid.size, dtype=np.bool_)
            here[own] = True
            found.append(here)
        return tuple(found)

    def tables(self, resource: int | None = None) -> Tables:
        """Bounds on the energy, or on the cycles of a bandwidth."""
        if resource not in self._tables:
            self._tables[resource] = self._computed(resource)
        return self._tables[resource]

    def _computed(self, resource: int | None) -> Tables:
        depth, size = self.space.depth, self.grid.size
        least = np.full(size, np.inf)
        least[self.grid.place((1,) * len(self.grid.dims))] = 0.0
        slots = self.space.slots
        rows: dict[Row, FloatArray] = {
            None: self.grid.outwards(least, self.factors[depth - 1], slots[depth - 1])
        }
        at: list[tuple[FloatArray, ...]] = []
        inside: list[dict[Row, FloatArray]] = []
        joined = [np.zeros(size) for _ in self.space.classes]
        for level in reversed(range(depth)):
            own = self._at(level, resource)
            at.append(own)
            inside.append(rows)
            joined = [before + here for before, here in zip(joined, own, strict=True)]
            if level and not self.space.is_joined(level):
                rows = self._crossed(level, joined, rows, resource)
                joined = [np.zeros(size) for _ in self.space.classes]
        return Tables(tuple(reversed(at)), tuple(reversed(inside)))

    def _crossed(
        self,
        level: int,
        at: Sequence[FloatArray],
        rows: dict[Row, FloatArray],
        resource: int | None,
    ) -> dict[Row, FloatArray]:
        """Rows outside of the loops right outside of a level, at the tiles there."""
        found: dict[Row, FloatArray] = {None: np.full(self.grid.size, np.inf)}
        for number, led in enumerate(self.space.classes):
            fitting = ((row, own) for row, own in rows.items() if row is None or row[0] not in led.moved)
            for row, values in fitting:
                ends = {**self.begun(level, number), **staying(row)}
                self._end(level - 1, number, at[number] + values, ends, resource, found)
        return found

    def _end(
        self,
        slot: int,
        number: int,
        inner: FloatArray,
        ends: dict[int, int],
        resource: int | None,
        found: dict[Row, FloatArray],
    ) -> None:
        """Add rows in which each dataspace that stays in place does so up to a slot's tile, or goes on."""
        if not np.isfinite(inner).any():
            return
        factors, allowed = self.factors[slot], self.space.led_slots[slot][number]
        tiles = self.tiles[slot]
        closed = self.grid.outwards(inner, factors, allowed)[tiles]
        for place, innermost in ends.items():
            closed += self.due_at(place, slot, innermost, resource)
        found[None][tiles] = np.minimum(found[None][tiles], closed)
        for going in ends.items() if slot else ():
            on = self.grid.outwards(inner, factors, self._still(allowed, going[0]))
            found[going] = np.minimum(found[going], on) if going in found else on

    def begun(self, level: int, number: int) -> dict[int, int]:
        """Dataspaces that begin to stay in place at a level or one joined to it, with the innermost one.

        The innermost loop outside is of the class with a number.
        """
        if (level, number) not in self._beginnings:
            self._beginnings[level, number] = dict(self._staying(level, self.space.classes[number]))
        return self._beginnings[level, number]

    def _staying(self, level: int, led: Led) -> Iterator[tuple[int, int]]:
        places = [place for place in range(len(self.space.tensors)) if place not in led.moved]
        for own, place in ((own, place) for own in self.space.joined(level) for place in places):
            chain = self.mask.chains[self.space.tensors[place].space.name]
            if own in chain[1:] and self._reuses(place, own):
                yield place, own

    def _reuses(self, place: int, level: int) -> bool:
        name = self.space.tensors[place].space.name
        return name not in self.shares.levels[level].no_temporal_reuse

    def _still(self, allowed: Sequence[frozenset[int]], place: int) -> tuple[frozenset[int], ...]:
        """Loops of a slot that leave a dataspace in place."""
        axes = self.space.tensors[place].axes
        return tuple(own & ONE if axis in axes else own for axis, own in enumerate(allowed))

    def due_at(self, place: int, slot: int, innermost: int, resource: int | None) -> FloatArray:
        """What is due if a dataspace stays in place up to the tile of level `slot`, by its `tiles`.

        It is due at the levels inside, up to `innermost`.
        """
        tensor = self.space.tensors[place]
        key = place, slot, innermost, resource
        if key not in self._dues:
            outside = [self.grid.bounds[axis] // self.above[slot][axis] for axis in tensor.others]
            repeated = math.prod(outside) / tensor.still[self.tiles[slot]]
            self._dues[key] = self.due(place, slot, innermost, repeated, resource)
        return self._dues[key]

    def due(
        self, place: int, slot: int, innermost: int, repeated: FloatArray, resource: int | None
    ) -> FloatArray:
        """What is due beyond the least if a dataspace is delivered anew so many times.

        Parameters
        ----------
        place, slot, innermost
            The dataspace, and the levels inside of `slot` up to which it is due.
        repeated
            Iterations of loops that do not move it, but repeat its deliveries.
        resource
            As of `tables`.
        """
        total = np.zeros(repeated.shape)
        for level in range(slot + 1, innermost + 1):
            for own in self._repetitions(place, level, resource):
                many = np.maximum(own.words * repeated - own.free, 0.0)
                total = total + np.maximum((many - own.least) * own.weight - own.slack, 0.0)
        return total

    def due_once(self, place: int, slot: int, innermost: int, repeated: float, resource: int | None) -> float:
        """As `due`, of one number of repetitions."""
        total = 0.0
        for level in range(slot + 1, innermost + 1):
            for own in self._repetitions(place, level, resource):
                many = max(own.words * repeated - own.free, 0.0)
                total += max((many - own.least) * own.weight - own.slack, 0.0)
        return total

    def _repetitions(self, place: int, level: int, resource: int | None) -> tuple[Repetition, ...]:
        """What deliveries of a dataspace to a level cost beyond the least."""
        key = place, level, resource
        if key not in self._known_repetitions:
            self._known_repetitions[key] = tuple(
                self._repetition(place, level, weight)
                for number, weight in self.weights(resource)[level]
                if number == place and weight.place == level and self._reuses(place, level)
            )
        return self._known_repetitions[key]

    def _repetition(self, place: int, level: int, weight: Weight) -> Repetition:
        children = self.children(place, weight.outer, level) if weight.per_child else 1
        once, words = self._delivered_once(place, level)
        return Repetition(
            words=words * children,
            free=weight.free,
            least=max(once * children - weight.free, 0.0),
            weight=float(weight.table[self.tiles[level]].min(initial=np.inf)) * weight.scale,
            slack=weight.slack,
        )

    def _delivered_once(self, place: int, level: int) -> tuple[float, float]:
        """Words that are in the least cost of a level at most, and those that each repetition brings."""
        key = place, level
        if key not in self._once:
            self._once[key] = self._least_deliveries(place, level)
        return self._once[key]

    def _least_deliveries(self, place: int, level: int) -> tuple[float, float]:
        tensor, tiles = self.space.tensors[place], self.tiles[level]
        if tensor.simple:
            words = float(self._outside(level, tensor.axes))
            return words, words
        once = float(self._union(tensor, level, tiles).max())
        if self.shares.mapspace.counting != EXACT:
            return once, 0.0
        moved = self._outside(level, tensor.axes) / tensor.moving[tiles]
        if (moved == 1).any():
            return once, 0.0
        least = np.full(len(tiles), np.inf)
        for axis in tensor.axes:
            times = self._times(level, tiles, axis)
            steps = moved * self._first_steps(times)
            fresh = tensor.words[tiles] - self._overlap(tensor, level, tiles, axis)
            least = np.minimum(least, np.where(times > 1, steps * fresh, np.inf))
        return once, float(least.min())

    def _outside(self, level: int, axes: Sequence[int]) -> int:
        """Iterations over some dimensions in one instance of a level."""
        return math.prod(self.grid.bounds[axis] // self.above[level][axis] for axis in axes)

    def _times(self, level: int, tiles: IntArray, axis: int) -> IntArray:
        """Iterations of all temporal loops outside of the tiles over one dimension."""
        times: IntArray = self.grid.bounds[axis] // self.above[level][axis] // self.grid.extents[tiles, axis]
        return times

    @staticmethod
    def _first_steps(times: IntArray) -> FloatArray:
        """Share of all steps that the innermost loop over a dimension makes, at least."""
        different, places = np.unique(times, return_inverse=True)
        shares = np.array([1 - 1 / _least_prime(own) for own in different.tolist()])
        return shares[places.reshape(-1)]

    def _at(self, level: int, resource: int | None) -> tuple[FloatArray, ...]:
        """Least cost at the boundary of a level, and of what the arithmetic asks it for, by class."""
        weights, tiles = self.weights(resource)[level], self.tiles[level]
        asked = [pair for pair in weights if pair[1].place == self.space.depth]
        base = sum((self.served(place, weight, tiles) for place, weight in asked), np.zeros(len(tiles)))
        delivered = [(place, weight) for place, weight in weights if weight.place == level]
        words: dict[tuple[int, int], FloatArray] = {}
        found = []
        for number in range(len(self.space.classes)):
            total = np.full(self.grid.size, np.inf)
            total[tiles] = base
            for place, weight in delivered:
                many = self._known_words(words, place, level, number)
                total[tiles] += self._priced(place, level, weight, many, tiles)
            found.append(total)
        return tuple(found)

    def _known_words(
        self, words: dict[tuple[int, int], FloatArray], place: int, level: int, number: int
    ) -> FloatArray:
        """Words that come of a dataspace for a class of loops outside, each kind once."""
        led = self.space.classes[number]
        moves, simple = place in led.moved, self.space.tensors[place].simple
        kind = place, number if moves and not simple else int(moves) - 2
        if kind not in words:
            words[kind] = self._least_words(place, level, self.tiles[level], led if moves else None)
        return words[kind]

    def _least_words(self, place: int, level: int, tiles: IntArray, led: Led | None) -> FloatArray:
        """Words that one instance receives at least, if the innermost loop outside is one of a class."""
        if led is None or self.space.tensors[place].simple:
            axis = None if led is None else led.axes[0]
            return self._words(place, level, tiles, axis)
        least = np.full(len(tiles), np.inf)
        for axis in led.axes:
            own = self._words(place, level, tiles, axis)
            least = np.minimum(least, np.where(self._times(level, tiles, axis) > 1, own, np.inf))
        return np.where(np.isfinite(least), least, self._words(place, level, tiles, None))

    def _priced(
        self, place: int, level: int, weight: Weight, words: FloatArray, tiles: IntArray
    ) -> FloatArray:
        if weight.per_child:
            words = words * self.children(place, weight.outer, level)
        cost = np.maximum(words - weight.free, 0.0) * (weight.scale * weight.table[tiles])
        own: FloatArray = np.maximum(cost - weight.slack, 0.0)
        return own

    def served(self, place: int, weight: Weight, tiles: IntArray) -> FloatArray:
        """What the arithmetic costs a level that serves it, by the level's tiles."""
        words = float(self.operations)
        if weight.per_child:
            words *= self.children(place, weight.outer, self.space.depth)
        own: FloatArray = max(words - weight.free, 0.0) * weight.scale * weight.table[tiles]
        return np.maximum(own - weight.slack, 0.0)

    def _words(self, place: int, level: int, tiles: IntArray, axis: int | None) -> FloatArray:
        """Words that one instance of a level receives if the innermost loop outside runs over `axis`."""
        tensor = self.space.tensors[place]
        words = tensor.words[tiles]
        repeated = self._outside(level, tensor.others) / tensor.still[tiles]
        moved = self._outside(level, tensor.axes) / tensor.moving[tiles]
        if not self._reuses(place, level):
            return words * moved * repeated
        if tensor.simple:
            again = repeated if axis in tensor.axes else 1.0
            return words * moved * again
        least = self._union(tensor, level, tiles)
        if axis not in tensor.axes or self.shares.mapspace.counting != EXACT:
            return least
        assert axis is not None
        fresh = words - self._overlap(tensor, level, tiles, axis)
        steps = repeated * moved * self._first_steps(self._times(level, tiles, axis)) * fresh
        return np.maximum(least, words + steps)

    def _union(self, tensor: TensorGrid, level: int, tiles: IntArray) -> FloatArray:
        """Words that the tiles of one instance cover together, at least."""
        if not tensor.separate or self.shares.mapspace.counting != EXACT:
            return tensor.words[tiles]
        covered = np.ones(len(tiles))
        for number, rank in enumerate(tensor.space.ranks):
            axes = [self.grid.dims.index(term.dim) for term in rank if term.dim in self.grid.dims]
            positions = 1 + sum(self._outside(level, (axis,)) - 1 for axis in axes)
            covered *= np.maximum(tensor.ranks[tiles, number], positions)
        return covered

    def _overlap(self, tensor: TensorGrid, level: int, tiles: IntArray, axis: int) -> FloatArray:
        """Words that a tile keeps when the loop right outside over one dimension advances, at most."""
        dim, factor = self.grid.dims[axis], self.factors[level - 1][axis]
        kept = tensor.words[tiles]
        for number, rank in enumerate(tensor.space.ranks):
            step = factor * sum(abs(term.coefficient) for term in rank if term.dim == dim)
            if step:
                extents = tensor.ranks[tiles, number]
                kept = kept * np.maximum(extents - step * self.grid.extents[tiles, axis], 0) / extents
        return kept

    # ------------------------------------------------------------------------------- what all share

    def asked(self, resource: int | None, level: int = 0) -> float:
        """What the arithmetic costs the levels inside of one at least, or all of them, whatever the tiles."""
        key = resource, level
        if key not in self._known_asked:
            served = (
                self._least_served(place, weight)
                for own in self.weights(resource)[level:]
                for place, weight in own
                if weight.place == self.space.depth
            )
            self._known_asked[key] = math.fsum(served)
        return self._known_asked[key]

    def _least_served(self, place: int, weight: Weight) -> float:
        words = float(self.operations)
        if weight.per_child:
            words *= self.children(place, weight.outer, self.space.depth)
        return max(
            max(words - weight.free, 0.0) * weight.scale * self.space.least(weight.table) - weight.slack, 0.0
        )

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
        total = 0.0
        for number, (position, level) in enumerate(
            zip(architecture.storage_indices, architecture.levels, strict=True)
        ):
            above = [
                c
                for f, c in zip(architecture.fanout_indices, self.used_children, strict=True)
                if f < position
            ]
            leaking = float(leaking_instances(architecture, level, above))
            if level.gating_fanouts is None and self.mask.kept[number]:
                leaking = max(1.0, leaking * self._in_use(number))
            total += level.energy.leak_per_cycle * leaking
        return total

    def _in_use(self, level: int) -> float:
        """Share of a level's instances that are in use on average, at least."""
        return max(self._needed(name, level) for name in self.mask.kept[level])

    def _needed(self, name: str, level: int) -> float:
        if self.needed is not None:
            return float(self.needed.least(name, level).min())
        return float(self.shares.arriving(name, level, self.mask.chains[name]).min())

    @cached_property
    def needed(self) -> NeededInstances | None:
        """The instances that are needed, where units skip some."""
        if not self.shares.skips_instances:
            return None
        return NeededInstances(self.shares, self.mask, self.unrolled.fanouts)

    @cached_property
    def latency(self) -> int:
        """Cycles that networks add."""
        return network_latency(self.shares.mapspace.architecture)


def _least_prime(number: int) -> int:
    """Least divisor above 1, or 1."""
    return next(iter(divisors(number)[1:2]), 1)
