"""What a mapping must satisfy beside its chains of factors: axes, capacities, parallelism, loop limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product

from model.architecture import Fanout
from model.cost.counting import tile_words
from model.mapspace import SpatialRules
from model.problem import Dataspace
from solver.cpsat import LARGEST_ACTIVITY, Literal
from solver.formulation.program import Choice, EmptyProgramError, Number
from solver.formulation.variables import Variables

UNLIMITED_WORDS = 1 << 62
"""More words than any tile has."""


class Constraints:
    """Adds the constraints of a mapspace to the program of its variables.

    Factor rules, orders of temporal loops and what levels keep are part of the variables.

    Parameters
    ----------
    variables
        Of the mapspace.

    Attributes
    ----------
    rounded
        Whether some capacity is too large for an exact row, so that solutions may exceed it by a little.

    Raises
    ------
    EmptyProgramError
        Nothing can satisfy one of them.
    """

    def __init__(self, variables: Variables) -> None:
        self._variables = variables
        self._program = variables.program
        self._mapspace = variables.mapspace
        self.rounded = False
        for node, fanout, rules in zip(
            variables.fanouts, variables.architecture.fanouts, self._mapspace.spatial, strict=True
        ):
            self._add_fanout(node, fanout, rules)
        for number in range(len(variables.positions)):
            self._add_capacity(number)
        self._add_parallelism()
        self._add_loop_limit()

    # ------------------------------------------------------------------------ fanouts

    def _add_fanout(self, node: int, fanout: Fanout, rules: SpatialRules) -> None:
        """Let the spatial loops of a fanout find room along its axes."""
        factors = {dim: chain.factor(node) for dim, chain in self._variables.chains.items()}
        everywhere = list(factors.values())
        if node not in self._variables.sides:
            self._at_most(everywhere, fanout.size, f"children{node}")
            return
        sides = self._variables.sides[node]
        self._order_sides(sides, rules)
        # Redundant, and stronger than both axes alone where a side is not decided yet.
        self._at_most(everywhere, fanout.size, f"children{node}")
        for axis, size in ((True, fanout.mesh_x), (False, fanout.mesh_y)):
            self._at_most(
                [self._along(factors[dim], sides[dim], axis) for dim in factors], size, f"mesh{node}{axis}"
            )

    def _along(self, factor: Choice[int], side: Literal, axis: bool) -> Choice[int]:
        """The factor of a dimension along one axis: 1 if it lies along the other one."""
        if factor.known == 1:
            return factor
        where = Choice((True, False), (side, side.negated()))
        return self._program.combined(factor, where, lambda own, along_x: own if along_x == axis else 1)

    def _at_most(self, factors: Sequence[Choice[int]], most: int, name: str) -> None:
        total = self._program.product(factors, name, most)
        self._forbid(total, [value for value in total.values if value > most], name)

    def _forbid(self, choice: Choice[Number], values: Sequence[Number], name: str) -> None:
        if len(values) == len(choice.values):
            raise EmptyProgramError(name)
        forbidden = set(values)
        self._program.forbid(literal for value, literal in choice.items() if value in forbidden)

    def _order_sides(self, sides: dict[str, Literal], rules: SpatialRules) -> None:
        """Let the dimensions along X be the first ones of some order, as many as the split says."""
        counted = {dim: side for dim, side in sides.items() if dim not in rules.uncounted}
        loose = [dim for dim in counted if dim not in rules.inner and dim not in rules.outer]
        steps = [*([dim] for dim in rules.inner), loose, *([dim] for dim in rules.outer)]
        for before, after in pairwise(step for step in steps if step):
            for first, second in product(before, after):
                self._program.model.add_implication(sides[second], sides[first])
        if rules.split is not None:
            taken = self._program.sum_of(list(counted.values()))
            self._program.model.add(taken == min(rules.split, len(counted)))

    # --------------------------------------------------------------------- capacities

    def _add_capacity(self, number: int) -> None:
        """Let the tiles that a level holds fit it, and fill it enough."""
        level = self._variables.level(number)
        most = level.usable_words
        if most is None:
            return
        literals: list[Literal] = []
        words: list[int] = []
        for space in self._mapspace.problem.dataspaces:
            tile = self._tile(number, space, most)
            holds = self._variables.keeps(space.name, lambda held: number in held)
            for value, literal in self._program.given(tile, holds).items():
                literals.append(literal)
                words.append(value)
        if min(words, default=0) > 0:
            self._limit_words(literals, words, most, math.ceil(most * level.min_utilization))
        elif most * level.min_utilization > 0:
            raise EmptyProgramError(f"{level.name} is never filled")

    def _limit_words(self, literals: Sequence[Literal], words: Sequence[int], most: int, least: int) -> None:
        """Compare a sum of words; where it is too large for CP-SAT, in units that never exclude too much."""
        most_each = len(self._mapspace.problem.dataspaces) * (most + 1) * len(words)
        unit = -(-most_each // LARGEST_ACTIVITY)
        self.rounded |= unit > 1
        low = [own // unit for own in words]
        self._program.model.add(self._program.sum_of(literals, low) <= most // unit)
        self._program.forbid(literal for literal, own in zip(literals, words, strict=True) if own > most)
        if least > 0:
            high = [-(-own // unit) for own in words]
            self._program.model.add(self._program.sum_of(literals, high) >= least // unit)

    def tile(self, number: int, space: Dataspace) -> Choice[int]:
        """Words of a level that a dataspace's tile takes if kept there, at most one more than fit."""
        usable = self._variables.level(number).usable_words
        return self._tile(number, space, UNLIMITED_WORDS if usable is None else usable)

    def _tile(self, number: int, space: Dataspace, most: int) -> Choice[int]:
        """Words of a level that a tile takes; above `most`, one more than that."""
        node = self._variables.positions[number]
        size = self._variables.level(number).packing_of(space.name).size_per_value
        groups = rank_groups(space, self._mapspace.problem.bound)
        parts = [self._part(node, space, dims, most) for dims in groups]
        total = self._program.product(parts, f"tile{number}{space.name}", most)
        return self._program.mapped(total, lambda own: min(int(own) * size, most + 1))

    def _part(self, node: int, space: Dataspace, dims: Sequence[str], most: int) -> Choice[int]:
        """Words of a tile along the ranks of some dimensions; above `most`, one more than that."""
        joint: Choice[tuple[int, ...]] = self._program.constant(())
        for dim in dims:
            extent = self._variables.chains[dim].extent(node)
            joint = self._program.combined(joint, extent, lambda own, value: (*own, value))
        ranks = tuple(rank for rank in space.ranks if any(term.dim in dims for term in rank))
        part = Dataspace(space.name, ranks)

        def words(extents: tuple[int, ...]) -> int:
            return min(tile_words(part, dict(zip(dims, extents, strict=True))), most + 1)

        return self._program.mapped(joint, words)

    # ---------------------------------------------------------------- whole mappings

    def _add_parallelism(self) -> None:
        """Let enough arithmetic units be in use."""
        least = self._mapspace.min_parallelism
        if least <= 1:
            return
        used = [self._used(dim) for dim in self._variables.chains]
        units = self._program.product(used, "units")
        self._forbid(units, [value for value in units.values if value < least], "units")

    def _used(self, dim: str) -> Choice[int]:
        """Positions along a dimension that the instances of the arithmetic take."""
        spread = self._variables.chains[dim].positions(self._variables.fanouts)
        return self._program.mapped(spread, lambda own: own[0])

    def _add_loop_limit(self) -> None:
        """Let at most so many temporal loops have iterations."""
        most = self._mapspace.max_temporal_loops
        if most is not None:
            loops = [slot.live(dim) for slot in self._variables.slots for dim in slot.dims]
            self._program.model.add(self._program.sum_of(loops) <= most)


def rank_groups(space: Dataspace, bound: dict[str, int]) -> list[tuple[str, ...]]:
    """Group the dimensions with iterations that index a dataspace by the ranks that they share."""
    groups: list[set[str]] = []
    for rank in space.ranks:
        own = {term.dim for term in rank if bound[term.dim] > 1}
        if not own:
            continue
        joined = [group for group in groups if group & own]
        groups = [group for group in groups if not group & own]
        groups.append(own.union(*joined))
    return [tuple(sorted(group)) for group in groups]
