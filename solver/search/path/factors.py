"""Temporal factors that lead to given numbers of tiles, without those that others dominate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import NamedTuple

from solver.search.space.counts import loop_factors
from solver.search.space.search_space import SearchSpace
from solver.search.space.user_rules import ExtentsRule

Tiles = tuple[int, ...]
"""Numbers of tiles of one dimension by level, outermost first."""

TemporalFactors = tuple[int, ...]
"""Temporal factors of one dimension by level, outermost first."""


class FactorChoice(NamedTuple):
    """Factors of a dimension, and what mappings depend on, the extents of the tiles of all levels among it.

    Parameters
    ----------
    counts
        Per level, iterations that the arithmetic asks it for; of the outermost level, steps in time.
    extents
        Of the tile at each level.
    """

    factors: TemporalFactors
    counts: tuple[int, ...]
    extents: tuple[int, ...]


Chosen = tuple[FactorChoice, ...]
"""One choice per dimension."""


class Factors:
    """The choices of each dimension, remembered by its numbers of tiles and spatial factors.

    Words follow from the numbers of tiles, and least factors have the smallest tiles. But with spatial
    factors, larger tiles may take fewer steps, and less that the arithmetic asks for; where tiles have to
    fill a level at least, words come in blocks, or only some instances pay, they may be better, too. And
    user-defined rules may allow some extents and no others.

    Parameters
    ----------
    space
        Its rules decide which factors there are.
    timed
        Whether cycles count.
    every
        Whether larger tiles may always be better, as sparse data may leave less of them.
    """

    def __init__(self, space: SearchSpace, timed: bool, every: bool = False) -> None:
        self._space = space
        self._timed, self._every = timed, every
        self._bounds = tuple(space.problem.bound[dim] for dim in space.active)
        self._allowed = [[sorted(own) for own in slot] for slot in space.loop_factors]
        self._known: dict[tuple[int, Tiles, Tiles], tuple[FactorChoice, ...]] = {}

    def chosen(
        self, tiles: Sequence[Tiles], spatial: Sequence[Tiles], hopeful: Callable[[int], bool]
    ) -> Iterator[tuple[Chosen, int]]:
        """Yield the choices of all dimensions together, and their steps, as far as these are hopeful.

        Parameters
        ----------
        tiles, spatial
            By level, numbers of tiles and spatial factors of each dimension.
        """
        pairs = zip(zip(*tiles, strict=True), zip(*spatial, strict=True), strict=True)
        options = [self._options(dim, *pair) for dim, pair in enumerate(pairs)]
        if all(options):
            fewest = [min(choice.counts[0] for choice in own) for own in options]
            yield from self._combined(options, fewest, hopeful, ())

    def _combined(
        self,
        options: Sequence[Sequence[FactorChoice]],
        fewest: Sequence[int],
        hopeful: Callable[[int], bool],
        chosen: Chosen,
    ) -> Iterator[tuple[Chosen, int]]:
        place, steps = len(chosen), math.prod(choice.counts[0] for choice in chosen)
        if not hopeful(steps * math.prod(fewest[place:])):
            return
        if place == len(options):
            if self._satisfies_rules(chosen):
                yield chosen, steps
            return
        for choice in options[place]:
            yield from self._combined(options, fewest, hopeful, (*chosen, choice))

    @cached_property
    def _rules(self) -> list[tuple[int, tuple[ExtentsRule, ...]]]:
        """Levels about whose tiles there are rules, with those that do not ask for what is kept."""
        every = ((level, rules) for level, rules in enumerate(self._space.extents_rules) if rules)
        return [(level, tuple(rule for rule in rules if not rule.asks_for_kept)) for level, rules in every]

    def _satisfies_rules(self, chosen: Chosen) -> bool:
        """Whether rules allow the tiles of all levels; those that ask for what is kept are not looked at."""
        for level, rules in self._rules:
            extents = {dim: own.extents[level] for dim, own in zip(self._space.active, chosen, strict=True)}
            extents = {**dict.fromkeys(self._space.problem.dims, 1), **extents}
            if not all(rule.holds(extents) for rule in rules):
                return False
        return True

    def _allowed_alone(self, dim: int, choice: FactorChoice) -> bool:
        """Whether rules about one dimension alone allow a choice."""
        name = self._space.active[dim]
        extents = dict.fromkeys(self._space.problem.dims, 1)
        for level, rules in self._rules:
            extents[name] = choice.extents[level]
            if not all(rule.holds(extents) for rule in rules if rule.dims == (name,)):
                return False
        return True

    def _is_entangled(self, dim: int) -> bool:
        """Whether rules may allow a choice, together with others, and not one with smaller tiles."""
        name = self._space.active[dim]
        rules = (rule for own in self._space.extents_rules for rule in own if name in rule.dims)
        return any(not rule.falls and (rule.asks_for_kept or len(rule.dims) > 1) for rule in rules)

    @cached_property
    def _fills(self) -> bool:
        """Whether larger tiles may be allowed where smaller ones are not."""
        space = self._space
        return any(level.min_utilization for level in space.levels) or bool(
            space.mapspace.joint and space.mapspace.rules
        )

    @cached_property
    def _by_steps(self) -> bool:
        """Whether choices of the same steps differ in the room only that their tiles take."""
        space = self._space
        packed = any(
            level.packing_of(view.name).block_size > 1 or level.cluster_size > 1
            for level in space.levels
            for view in space.views
        )
        return not packed and not (self._timed and space.resources)

    def _options(self, dim: int, tiles: Tiles, spatial: Tiles) -> tuple[FactorChoice, ...]:
        """The choices of a dimension that no other one is as good as, the least factors first."""
        key = dim, tiles, spatial
        if key not in self._known:
            ranges = self._ranges(dim, tiles, spatial)
            self._known[key] = tuple(
                choice for own in product(*ranges) for choice in self._best(dim, tiles, spatial, own)
            )
        return self._known[key]

    def _best(
        self, dim: int, tiles: Tiles, spatial: Tiles, factors: Sequence[Sequence[int]]
    ) -> Sequence[FactorChoice]:
        """Those of such factors that no other one is as good as; all have passes alike.

        Where it matters what each child has, only such are compared as are the same inside of all fanouts.
        """
        every = (_choice_of(self._bounds[dim], own, spatial) for own in product(*factors))
        found = (own for own in every if self._may_have(dim, own))
        if self._every or self._is_entangled(dim) or self._fills or dim in self._space.window_dims:
            return [*found]
        if self._idle_in_last_round(dim, tiles, spatial, factors):
            return [*found]
        best: dict[Tiles, list[FactorChoice]] = {}
        fewest = _fewest_counts(self._bounds[dim], spatial)
        outside = next((place + 1 for place, own in enumerate(spatial) if own > 1), len(spatial))
        for choice in found:
            alike = best.setdefault(() if self._by_steps else choice.factors[outside:], [])
            if not any(_is_no_larger(other, choice) for other in alike):
                alike[:] = [*(own for own in alike if not _is_no_larger(choice, own)), choice]
            if self._by_steps and choice.counts == fewest:
                # Later ones have larger tiles, and nothing that is less.
                break
        return [choice for alike in best.values() for choice in alike]

    def _may_have(self, dim: int, choice: FactorChoice) -> bool:
        name = self._space.active[dim]
        products = (
            rules.allows_product(name, math.prod(choice.factors[level] for level in rules.levels))
            for rules in self._space.mapspace.joint
        )
        return all(products) and self._allowed_alone(dim, choice)

    def _idle_in_last_round(
        self, dim: int, tiles: Tiles, spatial: Tiles, factors: Sequence[Sequence[int]]
    ) -> bool:
        """Whether some children have one tile only in the last pass of a loop: larger ones leave more."""
        inside = (*tiles[1:], self._bounds[dim])
        for level, own in enumerate(factors[:-1]):
            rounds = -(-inside[level] // spatial[level])
            idle = any(n % children for n, children in zip(inside[level:], spatial[level:], strict=True))
            if idle and any(f > 1 and rounds - f * (tiles[level] - 1) == 2 for f in own):
                return True
        return False

    def _ranges(self, dim: int, tiles: Tiles, spatial: Tiles) -> Sequence[Sequence[Sequence[int]]]:
        """Per level, groups of temporal factors that lead to the tiles; the passes of a group are alike."""
        inside = (*tiles[1:], self._bounds[dim])
        ranges = []
        for level, (own, factor, outer) in enumerate(zip(inside, spatial, tiles, strict=True)):
            groups = self._groups(level, dim, own, factor, outer)
            if not groups:
                return ((),)
            ranges.append(groups)
        return ranges

    def _groups(self, level: int, dim: int, inside: int, unrolled: int, outer: int) -> list[Sequence[int]]:
        allowed, rounds = self._allowed[level][dim], -(-inside // unrolled)
        if not self._space.has_remainders:
            factor = rounds // outer
            divides = inside % unrolled == 0 and rounds == factor * outer
            return [(factor,)] if divides and factor in self._space.loop_factors[level][dim] else []
        one, two, others = loop_factors(rounds, outer, allowed)
        if level == len(self._space.levels) - 1:
            # No boundary lies inside of these loops.
            every = sorted({one, two, *others} - {0})
            return [every] if every else []
        return [own for own in ([one] if one else [], [two] if two else [], others) if own]


def _choice_of(bound: int, temporal: TemporalFactors, spatial: Sequence[int]) -> FactorChoice:
    """Return what factors of a dimension come to; the spatial ones are those of its stages."""
    extents, extent = [], 1
    for factor, unrolled in zip(reversed(temporal), reversed(spatial), strict=True):
        extent = min(extent * unrolled * factor, bound)
        extents.append(extent)
    counts = (_asked_iterations(bound, temporal, spatial, level) for level in range(len(spatial)))
    return FactorChoice(temporal, tuple(counts), tuple(reversed(extents)))


def _is_no_larger(one: FactorChoice, other: FactorChoice) -> bool:
    """Whether one choice has no larger extents and counts than another."""
    pairs = zip((*one.extents, *one.counts), (*other.extents, *other.counts), strict=True)
    return all(a <= b for a, b in pairs)


def _fewest_counts(bound: int, spatial: Sequence[int]) -> tuple[int, ...]:
    """Return the counts of a choice if all children always had something to do."""
    every = math.prod(spatial)
    outside = (every // math.prod(spatial[:level]) for level in range(len(spatial)))
    return tuple(-(-bound // unrolled) for unrolled in outside)


def _asked_iterations(bound: int, temporal: Sequence[int], spatial: Sequence[int], level: int) -> int:
    """Iterations of a dimension that differ by more than what children inside of a level share.

    Levels are outermost first. With level 0 these are its steps in time.
    """
    loops = [
        loop
        for own in reversed(range(len(spatial)))
        for loop in ((spatial[own], own < level), (temporal[own], True))
    ]
    return _digit_combinations(loops, bound)


def _digit_combinations(loops: Sequence[tuple[int, bool]], number: int) -> int:
    """How many combinations of the digits that count the first so many iterations of loops have.

    Loops are given innermost first, with whether their digits count.
    """
    if not loops:
        return 1
    *inner, (_, counts) = loops
    size = math.prod(factor for factor, _ in inner)
    rounds = -(-number // size)
    last = _digit_combinations(inner, number - (rounds - 1) * size)
    if rounds == 1:
        return last
    full = math.prod(factor for factor, own in inner if own)
    return (rounds - 1) * full + last if counts else full
