"""The variables of a mapping: chains of factors, orders of loops, sides of fanouts, and what levels keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations, permutations

from model.architecture import Fanout, StorageLevel
from model.choices import keep_sets
from model.mapspace import Mapspace, TemporalRules
from solver.cpsat import Answer, Literal
from solver.formulation.chains import Chain
from solver.formulation.program import LiteralChoice, Program
from solver.result import StopCallback

Keepers = tuple[int, ...]
"""Levels that keep a dataspace, outermost first."""


class LoopOrder:
    """The order of the temporal loops of one level; loops of one iteration stand anywhere.

    Parameters
    ----------
    program
        What the literals belong to.
    chains
        Of the dimensions that may have a loop in the level.
    node
        Position of the level.
    rules
        Which loops are innermost and outermost.
    """

    def __init__(self, program: Program, chains: Iterable[Chain], node: int, rules: TemporalRules) -> None:
        self._program = program
        self._chains = {chain.dim: chain for chain in chains if node in chain.live}
        self._node = node
        self._rank = _fixed_places(rules)
        self.dims = tuple(self._chains)
        loose = [dim for dim in self.dims if dim not in self._rank]
        self._before = {
            pair: program.literal(f"{pair[0]}<{pair[1]}@{node}") for pair in combinations(loose, 2)
        }
        for one, two, three in combinations(loose, 3):
            self._order_triple(one, two, three)

    def _order_triple(self, one: str, two: str, three: str) -> None:
        """Exclude both cycles of three loops."""
        around = [self._before[one, two], self._before[two, three], self._before[one, three].negated()]
        self._program.model.add_bool_or([literal.negated() for literal in around])
        self._program.model.add_bool_or(around)

    def inside(self, one: str, other: str) -> Literal | bool:
        """Whether the loop over one dimension lies inside of that over another, if both have iterations."""
        if (one, other) in self._before:
            return self._before[one, other]
        if (other, one) in self._before:
            return self._before[other, one].negated()
        return self._rank.get(one, 0) < self._rank.get(other, 0)

    def live(self, dim: str) -> Literal:
        """Whether the loop over one of the slot's dimensions has more than one iteration."""
        if dim not in self._live:
            verdict = self._chains[dim].loop(self._node)
            assert verdict is not None  # or the dimension would not be one of the slot's
            self._live[dim] = verdict
        return self._live[dim]

    @cached_property
    def _live(self) -> dict[str, Literal]:
        return {}

    def require_innermost(self, literal: Literal, dims: Iterable[str]) -> None:
        """Where a literal holds, let the innermost loop with iterations be over one of some dimensions."""
        self._program.imply(literal, [self._innermost[dim] for dim in dims])

    def innermost(self) -> LiteralChoice[str]:
        """The dimension of the innermost loop with iterations, empty without one."""
        first = self._innermost
        return (
            LiteralChoice((*first, ""), (*first.values(), self._none))
            if first
            else self._program.constant("")
        )

    @cached_property
    def _none(self) -> Literal:
        """Whether no loop has iterations."""
        return self._program.literal(f"none{self._node}")

    @cached_property
    def _innermost(self) -> dict[str, Literal]:
        """Whether the loop over a dimension is the innermost one with iterations."""
        names = (f"first{self._node}{dim}" for dim in self.dims)
        first = {dim: self._program.literal(name) for dim, name in zip(self.dims, names, strict=True)}
        none = self._none
        self._program.model.add_exactly_one([*first.values(), none])
        for dim, literal in first.items():
            self._program.model.add_implication(literal, self.live(dim))
            self._program.model.add_implication(none, self.live(dim).negated())
        for dim, other in permutations(self.dims, 2):
            self.require_inside(first[dim], dim, other)
        return first

    def require_inside(self, literal: Literal, one: str, other: str, escapes: Sequence[Literal] = ()) -> None:
        """Where a literal holds, let a loop lie inside of another one with iterations, or an escape hold."""
        inside = self.inside(one, other)
        if inside is not True:
            order = [] if isinstance(inside, bool) else [inside]
            self._program.imply(literal, [self.live(other).negated(), *order, *escapes])

    def order(self, answer: Answer, live: Iterable[str]) -> list[str]:
        """The loops with iterations in the order of an answer, innermost first."""
        dims = list(live)
        return sorted(
            dims, key=lambda dim: sum(self._holds(answer, other, dim) for other in dims if other != dim)
        )

    def _holds(self, answer: Answer, one: str, other: str) -> bool:
        inside = self.inside(one, other)
        return inside if isinstance(inside, bool) else answer.holds(inside)


def _fixed_places(rules: TemporalRules) -> dict[str, int]:
    """Places of the loops whose place is fixed: below 0 inside of all others, above 0 outside."""
    inner = {dim: place - len(rules.inner) for place, dim in enumerate(rules.inner)}
    return inner | {dim: 1 + place for place, dim in enumerate(rules.outer)}


class Variables:
    """All choices of a mapping.

    Parameters
    ----------
    mapspace
        What may be chosen.
    stop
        Asked whether to end, see `Program`.

    Raises
    ------
    EmptyProgramError
        The rules on factors, or on what is kept, leave nothing.
    TooLargeError
        A dimension has too many extents.
    """

    def __init__(self, mapspace: Mapspace, stop: StopCallback = lambda: False) -> None:
        self.mapspace = mapspace
        self.architecture = mapspace.architecture
        self.program = Program(stop)
        self.positions = self.architecture.storage_indices
        self.fanouts = self.architecture.fanout_indices
        self.chains = {dim: Chain(self.program, mapspace, dim) for dim in mapspace.problem.dims}
        self.slots = [
            LoopOrder(self.program, self.chains.values(), node, rules)
            for node, rules in zip(self.positions, mapspace.temporal, strict=True)
        ]
        self.sides = {
            node: {dim: self.program.literal(f"x{node}{dim}") for dim in mapspace.problem.dims}
            for node, fanout in zip(self.fanouts, self.architecture.fanouts, strict=True)
            if (fanout.mesh_x > 1 and fanout.mesh_y > 1) or self._has_order(node)
        }
        self.keeping: dict[str, LiteralChoice[Keepers]] = {
            space.name: self.program.choice(self._keepers(space.name), f"keep{space.name}")
            for space in mapspace.problem.dataspaces
        }

    def _has_order(self, node: int) -> bool:
        """Whether order or split may put a dimension along an axis where there is no room."""
        rules = self.mapspace.spatial[self.fanouts.index(node)]
        return rules.split is not None or bool(rules.inner or rules.outer)

    def along_x(self, node: int, dim: str) -> Literal:
        """Whether a dimension lies along the X axis of a fanout; where one axis has room, on that one."""
        if node in self.sides:
            return self.sides[node][dim]
        fanout = self.architecture.nodes[node]
        assert isinstance(fanout, Fanout)
        return self.program.true if fanout.mesh_x > 1 else self.program.true.negated()

    def _keepers(self, dataspace: str) -> Iterator[Keepers]:
        """Yield the sets of levels that may keep a dataspace, those in effect if any is."""
        for levels in keep_sets(self.mapspace, dataspace):
            if self.in_effect(tuple(sorted(levels)), dataspace):
                yield tuple(sorted(levels))

    def in_effect(self, levels: Keepers, dataspace: str) -> Keepers:
        """Return the levels that hold a dataspace: what passes its stream on needs a level outside."""
        held: list[int] = []
        for level in levels:
            if held or dataspace not in self.level(level).passing:
                held.append(level)
        return tuple(held)

    def level(self, number: int) -> StorageLevel:
        """Return a storage level, 0 being the outermost one."""
        return self.architecture.levels[number]

    def keeps(self, dataspace: str, condition: Callable[[Keepers], bool]) -> Literal | None:
        """Return a literal for a condition on the levels that hold a dataspace, None if it cannot hold."""
        return self.program.holds(
            self.keeping[dataspace], lambda levels: condition(self.in_effect(levels, dataspace))
        )
