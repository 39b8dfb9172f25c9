"""Combinations of a keep mask and spatial classes, priced by energy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from model.architecture import StorageLevel
from model.cost.prices import paying_instances
from solver.search.arrays import FloatArray, IntArray
from solver.search.goal import SLACK, Goal
from solver.search.space.counts import CountLattice
from solver.search.space.dataspaces import DataspaceView
from solver.search.space.lattice import INFINITY
from solver.search.space.prices import (
    LARGEST_TOTAL,
    Access,
    Action,
    BoundaryPrice,
    LoadTerm,
    PriceList,
    PriceTerm,
    Spread,
    cycles_per_word,
)
from solver.search.subproblems.combination import Combination, Uneven


@dataclass(frozen=True)
class EnergySubproblem(Combination):
    """The mappings of a combination, priced by energy, in the architecture's units."""

    @cached_property
    def prices(self) -> tuple[dict[int, BoundaryPrice], ...]:
        """Per dataspace, the price of each of its boundaries (by the level below)."""
        return tuple(self.priced(view.place, self.spread(view.place)) for view in self.space.views)

    def priced(self, place: int, spread: Spread) -> dict[int, BoundaryPrice]:
        """The prices of a dataspace's boundaries if its words spread so."""
        return self._price_list.boundaries(self.space.views[place].name, self.actions(place, spread))

    @cached_property
    def _price_list(self) -> PriceList:
        space = self.space
        paying = tuple(
            paying_instances(level, total, used)
            for used, total, level in zip(self.used, space.instances, space.levels, strict=False)
        )
        return PriceList(space.levels, paying, space.resources, self.quantum)

    @cached_property
    def leak_per_cycle(self) -> int:
        """Energy units that the instances in use leak per cycle, at least."""
        return sum(
            level.energy.leak_per_cycle * self._least_leaking(place, level)
            for place, level in enumerate(self.space.levels)
        )

    @cached_property
    def constant(self) -> int:
        """Energy units that all mappings here share at least: compute, its operands, leakage."""
        space = self.space
        compute = space.problem.computes * space.architecture.compute.energy
        operands = sum(
            prices[len(space.levels)].exact(self.operations)
            for prices in self.prices
            if len(space.levels) in prices
        )
        busy = self.least_cycles - space.latency
        leak = self.leak_per_cycle * busy - space.unrounded(self.leak_per_cycle)
        return compute + operands * self.quantum + leak

    def rounded_off(self, fewest: Mapping[tuple[int, int], int]) -> int:
        """Units that rounded prices leave out of every mapping's energy, at least."""
        if self.quantum == 1:
            return 0
        exact = replace(self, quantum=1)
        off = exact.constant - self.constant
        for (place, level), words in fewest.items():
            rounded = self.prices[place][level].exact(words)
            # Tables do not tell larger sums apart.
            if rounded < LARGEST_TOTAL:
                off += exact.prices[place][level].exact(words) - rounded * self.quantum
        return off

    def limit(self, goal: Goal) -> int:
        """Least energy that can no longer improve."""
        return goal.energy_limit(self.least_cycles)

    def costs(self, least: IntArray, constant: int, busiest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Energy and cycles at least."""
        least_busy = float(self.least_cycles - self.space.latency)
        # Beside long latencies nothing is left of the difference.
        waiting = np.maximum(np.ceil(busiest * SLACK) - least_busy, 0.0) * float(self.leak_per_cycle)
        energies = least * float(self.quantum) + float(constant) + waiting
        return energies, self.cycles_under(busiest)

    def improves(self, goal: Goal, least: int, cycles: int) -> bool:
        """Whether mappings may improve that take `least` energy units and `cycles`, or more."""
        cycles = max(cycles, self.least_cycles)
        return least + self.leak_per_cycle * (cycles - self.least_cycles) < goal.energy_limit(cycles)

    def _least_leaking(self, place: int, level: StorageLevel) -> int:
        """Instances that leak at least; fewer than in truth only where a gate lies between two fanouts."""
        if level.gating_fanouts is None:
            return self.used[place]
        fanouts_above = 0
        gated_by = 0
        for stage, below in enumerate(self.space.fanouts_below[:place]):
            if fanouts_above + len(below) <= level.gating_fanouts:
                gated_by = stage + 1
            fanouts_above += len(below)
        behind = self.space.architecture.fanouts[level.gating_fanouts : fanouts_above]
        return max(self.used[place], self.used[gated_by] * math.prod(fanout.size for fanout in behind))


class Paid(NamedTuple):
    """An access of all instances of a level, with remainders.

    Parameters
    ----------
    term
        What its words cost, at least: given those that all instances of the level ask for or get.
    loads
        Per resource, cycles of the busiest instance per word, at least, beyond the words that are free.
    free
        Words of first touches, at most.
    """

    access: Access
    term: PriceTerm
    loads: tuple[tuple[int, Fraction], ...]
    free: int


@dataclass(frozen=True)
class UnevenSubproblem(Uneven, EnergySubproblem):
    """The mappings of a combination whose loops may have remainders, priced by energy."""

    def priced(self, place: int, spread: Spread) -> dict[int, BoundaryPrice]:
        """The prices of a dataspace's boundaries, by what its children have in common at least."""
        del spread
        found: dict[int, tuple[list[PriceTerm], list[LoadTerm]]] = {}
        for paid in self.paid(place):
            terms, loads = found.setdefault(paid.access.boundary, ([], []))
            share, term = self.asked_share(place, paid.access), paid.term
            if term.price:
                minus = term.minus * share.denominator
                terms.append(
                    PriceTerm(
                        term.price, term.multiplier * share.numerator, minus, term.block * share.denominator
                    )
                )
            for resource, cycles in paid.loads:
                minus = paid.free * share.denominator
                loads.append(LoadTerm(resource, share.numerator, minus, cycles / share.denominator))
        return {level: BoundaryPrice(tuple(terms), tuple(loads)) for level, (terms, loads) in found.items()}

    def paid(self, place: int) -> list[Paid]:
        """All accesses to a dataspace."""
        return self._paid[place]

    @cached_property
    def _paid(self) -> tuple[list[Paid], ...]:
        return tuple([*self._accesses(view.place)] for view in self.space.views)

    def _accesses(self, place: int) -> Iterator[Paid]:
        space, name = self.space, self.space.views[place].name
        for access in space.accesses(place, space.chain(self.mask, place)):
            level, used = space.levels[access.level], self.used[access.level]
            packing = level.packing_of(name)
            paying = paying_instances(level, space.instances[access.level], used)
            free = self.free_words(place, access)
            price = getattr(level.energy, access.name) * packing.accesses_per_block // self.quantum
            # The busiest instances pay, whole blocks each.
            term = PriceTerm(price, paying, free * paying, used * packing.block_size)
            action = Action(access.level, access.name, access.boundary, 1, 0)
            loads = (
                (number, cycles_per_word(space.levels, resource, action, name) / used)
                for number, resource in enumerate(space.resources)
            )
            yield Paid(access, term, tuple((number, cycles) for number, cycles in loads if cycles), free)

    @cached_property
    def constant(self) -> int:
        """Energy units that all mappings here share at least: compute, its operands, leakage."""
        space = self.space
        compute = space.problem.computes * space.architecture.compute.energy
        operands = sum(
            BoundaryPrice((paid.term,), ()).exact(words)
            for view in space.views
            for words, paid in self._operands(view.place)
        )
        busy = self.least_cycles - space.latency
        return compute + operands * self.quantum + self.leak_per_cycle * busy

    def _operands(self, place: int) -> Iterator[tuple[int, Paid]]:
        """Words of each access that serves the compute, at least."""
        space, view = self.space, self.space.views[place]
        for paid in (own for own in self.paid(place) if own.access.boundary == len(space.levels)):
            words = math.ceil(self.asked_share(place, paid.access) * space.problem.computes)
            if paid.access.per_child:
                words = max(words, self._fewest_asked(view, paid.access.level))
            yield words, paid

    def _fewest_asked(self, view: DataspaceView, level: int) -> int:
        """Words that the compute asks a level for, at least, if all children share what they may."""
        bounds = self.space.lattice.bounds
        if view.window_dims:
            return 0
        rounds = (
            -(-bounds[d] // math.prod(max(m.factors[d] for m in own.members) for own in self.spatial[level:]))
            for d in view.irrelevant
        )
        return math.prod(rounds) * math.prod(bounds[d] for d in view.relevant)

    def operands_beyond(self, tiles: IntArray) -> IntArray:
        """As of `Subproblem`: where the last round has work for few children, the same words come again."""
        total = np.zeros(len(tiles), dtype=np.int64)
        simple = (view for view in self.space.views if not view.window_dims)
        every = ((view, *own) for view in simple for own in self._operands(view.place))
        for view, words, paid in every:
            if paid.access.per_child and paid.term.price:
                price = BoundaryPrice((paid.term,), ())
                asked = self._asked(view, paid.access.level)[tiles]
                total += np.minimum(np.maximum(price.price(asked) - price.exact(words), 0), INFINITY)
        return np.minimum(total, INFINITY)

    def _asked(self, view: DataspaceView, level: int) -> IntArray:
        """Words that the compute asks a level for, at least, by tiles of the innermost level."""
        lattice, last = self.space.lattice, len(self.space.levels) - 1
        assert isinstance(lattice, CountLattice)
        inside = [max(m.factors[d] for m in self.spatial[last].members) for d in range(len(lattice.bounds))]
        stages = [
            [max(m.factors[d] for m in own.members) for d in range(len(lattice.bounds))]
            for own in self.spatial[level:last]
        ]
        outside = tuple(math.prod(own[d] for own in stages) for d in range(len(lattice.bounds)))
        several = tuple(sum(own[d] > 1 for own in stages) > 1 for d in range(len(lattice.bounds)))
        key = ("asked", view.place, tuple(inside), outside, several)
        return self.space.memo(key, lambda: _asked(view, lattice, inside, outside, several))

    def rounded_off(self, fewest: Mapping[tuple[int, int], int]) -> int:
        """Nothing: what rounded prices leave out is not known."""
        del fewest
        return 0


def _asked(
    view: DataspaceView,
    lattice: CountLattice,
    inside: Sequence[int],
    outside: Sequence[int],
    several: Sequence[bool],
) -> IntArray:
    """Words that the compute asks for, at least, shape (lattice size,), given what fanouts unroll."""
    words: IntArray = np.full(lattice.counts, math.prod(lattice.bounds[d] for d in view.relevant))
    for d in view.irrelevant:
        rounds = lattice.fewest_rounds(d, outside[d], inside[d], several[d])
        words = words * rounds.reshape([-1 if e == d else 1 for e in range(len(lattice.bounds))])
    return words.reshape(lattice.size)
