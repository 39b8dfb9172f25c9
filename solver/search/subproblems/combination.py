"""One keep mask and one class of spatial choices: prices are constants, only tiles and orders are open."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np

from model.cost.rules import rule_of
from solver.search.arrays import FloatArray, IntArray
from solver.search.goal import SLACK, rounded_down
from solver.search.space.prices import Access, Action, Spread
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import Factors, StageClass, used_above
from solver.search.space.windows import Unrolling
from solver.search.subproblems.subproblem import Subproblem


@dataclass(frozen=True)
class Combination(Subproblem):
    """The mappings with one keep mask and one class of spatial choices per stage, whatever they cost.

    ``spatial[l]`` belongs to the fanouts below level l.
    """

    spatial: tuple[StageClass, ...]
    _: KW_ONLY

    def on(self, space: SearchSpace) -> Self:
        """The same mappings in a space with the same spatial choices."""
        return replace(self, space=space)

    @cached_property
    def used(self) -> tuple[int, ...]:
        """Instances in use of each level, and of the compute."""
        return tuple(
            math.prod(s.units for s in self.spatial[:level]) for level in range(len(self.spatial) + 1)
        )

    @property
    def above(self) -> tuple[int, ...]:
        """The same: all of them do the same."""
        return self.used

    @property
    def operations(self) -> int:
        """Words of a dataspace that each instance of the compute takes: one per step."""
        return self.steps

    def unused_above(self, place: int, level: int) -> int:
        """Product of the spatial factors above `level` that do not index dataspace `place`."""
        return math.prod(s.irrelevant[place] for s in self.spatial[:level])

    def unrolls(self, outer: int, inner: int) -> bool:
        """Whether any fanout between levels `outer` and `inner` is used."""
        return self.used[outer] != self.used[inner]

    def share(self, place: int, level: int) -> tuple[int, int]:
        """What each instance of `level` gets of the words that deliver dataspace `place` once to all of them.

        Numerator and denominator of that part.
        """
        return 1, self.above[level] // self.unused_above(place, level)

    def unrollings(self, level: int) -> tuple[int, ...]:
        """Lattice indices of the spatial factors below `level`, one of which is chosen."""
        lattice = self.space.lattice
        return tuple(dict.fromkeys(member.code(lattice) for member in self.spatial[level].members))

    def unrolled(self, level: int) -> tuple[Factors, ...]:
        """As of `Subproblem`."""
        return self._unrolled[level]

    @cached_property
    def _unrolled(self) -> tuple[tuple[Factors, ...], ...]:
        return tuple(stage.unrolled for stage in self.spatial)

    def least_used(self, level: int) -> Factors:
        """As of `Subproblem`."""
        return self.spatial[level].least_used

    def unrolling(self, level: int) -> Unrolling:
        """Spatial factors of the window dimensions above `level` (not the outermost)."""
        stages = self.spatial[:level]
        every = [self.unrolled(number) for number in range(level)]
        used = [self.least_used(number) for number in range(level)]
        return self.space.unrolling([own.windows for own in stages], every, used)

    def feasible(self, level: int) -> IntArray:
        """Lattice indices of the tiles that fit into `level`, and leave room for the fanouts above."""
        tenants = self.space.tenants(self.mask, level)
        stages = {place: stage for place, stage in enumerate(self.spatial[:level]) if stage.units > 1}
        if not stages:
            return self.space.feasible(level, tenants)
        # Classes of two stages may have one key and different members.
        key = ("feasible", level, tenants, *((place, stage.key) for place, stage in stages.items()))
        fitting = self.space.feasible(level, tenants)
        return self.space.memo(key, lambda: self._leaving_room(fitting, stages.values()))

    def _leaving_room(self, tiles: IntArray, stages: Iterable[StageClass]) -> IntArray:
        """Those of `tiles` that some spatial choice of each stage can multiply within the bounds."""
        lattice = self.space.lattice
        for stage in stages:
            factors = {member.code(lattice) for member in stage.members}
            tiles = tiles[lattice.leaving_room(tiles, factors)]
        return tiles

    def spread(self, place: int) -> Spread:
        """How the words of a dataspace spread."""
        view = self.space.views[place]
        partition = [self.space.tables[place].whole_words]
        for stage in self.spatial[:-1]:
            shared = stage.units // stage.irrelevant[place] if view.simple else 1
            partition.append(partition[-1] // shared)
        if self.space.touched_apart(place):
            apart = [math.prod(s.irrelevant[place] for s in self.spatial[n:]) for n in range(len(partition))]
            partition = [words * own for words, own in zip(partition, apart, strict=True)]
        return Spread(tuple(stage.distinct[place] for stage in self.spatial), tuple(partition))

    def actions(self, place: int, spread: Spread | None = None) -> Iterator[Action]:
        """All accesses to a dataspace, whose words spread so (None: as `spread` has it)."""
        accesses = self.space.accesses(place, self.space.chain(self.mask, place))
        return map((spread or self.spread(place)).action, accesses)

    @cached_property
    def base_loads(self) -> FloatArray:
        """Load of each resource that the compute's own accesses cause, and words besides, in cycles."""
        besides = [float(resource.besides(self.space.levels)) for resource in self.space.resources]
        loads: FloatArray = np.array([besides])
        for prices in self.prices:
            if len(self.space.levels) in prices:
                prices[len(self.space.levels)].add_loads(np.array([self.operations]), loads)
        only: FloatArray = loads[0]
        return only

    @cached_property
    def steps(self) -> int:
        """Cycles of the compute: product of all temporal bounds."""
        return self.space.problem.computes // self.above[-1]

    @cached_property
    def least_cycles(self) -> int:
        """Cycles that every mapping takes at least, network latencies included."""
        return self.cycles(self.base_loads)

    def cycles_under(self, busiest: FloatArray) -> FloatArray:
        """Least cycles under several loads of the busiest resource (cycles), no double above them."""
        latency = rounded_down(self.space.latency)
        # Each is rounded once: then it is not above the double of any number of cycles that it bounds.
        return np.maximum(np.ceil(busiest * SLACK) + latency, float(self.least_cycles))

    def model_cycles(self, delivered: Mapping[tuple[int, int], int]) -> int:
        """Cycles by the plain cost model, at least: they never fall while words rise."""
        moved: list[dict[str, list[int]]] = [{} for _ in self.space.levels]
        for place, action in self._all_actions:
            words = delivered.get((place, action.boundary), self.steps)
            reads_and_writes = moved[action.level].setdefault(self.space.views[place].name, [0, 0])
            counted = max(0, words * int(action.multiplier) - int(action.minus))
            reads_and_writes[action.name != "read"] += counted
        rule = rule_of(self.space.mapspace.counting)
        slowest = max(
            rule.cycles(
                self.space.levels[places[0]],
                self.steps,
                ((name, own[0], own[1]) for place in places for name, own in moved[place].items()),
            )
            for places in self.space.architecture.memories
        )
        return slowest + self.space.latency

    @cached_property
    def _all_actions(self) -> tuple[tuple[int, Action], ...]:
        """All accesses, each with its dataspace."""
        places = range(len(self.space.views))
        return tuple((place, action) for place in places for action in self.actions(place))


@dataclass(frozen=True)
class Uneven(Combination):
    """Mappings whose loops may have remainders: instances differ, and words are counted over all of them."""

    @property
    def above(self) -> tuple[int, ...]:
        """One of each level: its instances count together."""
        return (1,) * (len(self.space.levels) + 1)

    def share(self, place: int, level: int) -> tuple[int, int]:
        """All instances together get as many copies as there are instances that use the same words."""
        return self.copies_above(place, level), 1

    def copies_above(self, place: int, level: int) -> int:
        """Instances of `level` that use the same words of a dataspace, at least."""
        used = used_above([self.least_used(number) for number in range(level)], len(self.space.active))
        return math.prod(used[d] for d in self.space.views[place].irrelevant)

    @property
    def operations(self) -> int:
        """Words of a dataspace that all instances of the compute take: one per operation."""
        return self.space.problem.computes

    @cached_property
    def steps(self) -> int:
        """Cycles of the compute, at least."""
        unrolled = (
            math.prod(max(member.factors[d] for member in stage.members) for stage in self.spatial)
            for d in range(len(self.space.active))
        )
        rounds = math.prod(
            -(-bound // factor) for bound, factor in zip(self.space.lattice.bounds, unrolled, strict=True)
        )
        return max(rounds, -(-self.space.problem.computes // self.used[-1]))

    def model_cycles(self, delivered: Mapping[tuple[int, int], int]) -> int:
        """Cycles at least: which instance is busiest is not known."""
        del delivered
        return self.least_cycles

    def free_words(self, place: int, access: Access) -> int:
        """Words of first touches at all instances of a level, at most: they cost nothing."""
        if not access.first_touch_free:
            return 0
        view, level = self.space.views[place], access.level
        words = self.space.tables[place].whole_words
        return words * (self.unused_above(place, level) if view.simple else self.used[level])

    def asked_share(self, place: int, access: Access) -> Fraction:
        """Words of an access, at least, per word that all instances of its boundary get."""
        if not access.per_child:
            return Fraction(1)
        distinct = (stage.distinct[place] for stage in self.spatial[access.level : access.boundary])
        return Fraction(math.prod(distinct) * self.used[access.level], self.used[access.boundary])
