"""What a mapping must satisfy, stated once: each constraint under a literal that stands for its lines.

How numbers are represented is left open: `solver.formulation.tables` has a Boolean per value, from which
costs are read, and `solver.formulation.integers` has variables, with which feasibility is decided quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Generic, Protocol, TypeVar, assert_never

from model.architecture import Fanout
from model.choices import allowed_factors
from model.mapping import Axis, FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace
from solver.cpsat import CheckedModel, Literal
from solver.formulation.requirements import (
    AxisSplit,
    Constraint,
    FactorLimit,
    KeptOrBypassed,
    Mesh,
    Parallelism,
    SpatialOrder,
    TileCapacity,
    Utilization,
    Whole,
)

Q = TypeVar("Q")
"""A factor or an extent."""

Part = tuple[Q, Literal]
"""A factor of a product, which counts as 1 where a condition does not hold."""


@dataclass(frozen=True, eq=False)
class TakenRoom(Generic[Q]):
    """What a dataspace takes of a level.

    Parameters
    ----------
    held
        Whether it takes anything.
    size_per_value
        Words of the level that a value takes.
    room
        Words that the level has.
    """

    dataspace: Dataspace
    held: Literal
    size_per_value: int
    room: int
    extents: dict[str, Q]


class Numbers(Protocol[Q]):
    """A representation of the factors and extents of all mappings that are well formed, and what it can say.

    Limits hold where their literal does; None is a literal that always holds.
    """

    mapspace: Mapspace
    checked: CheckedModel
    dims: tuple[str, ...]

    def factor(self, node: int, dim: str) -> Q:
        """Return the factor of a node's loop over a dimension."""
        ...

    def may_loop(self, node: int, dim: str) -> bool:
        """Whether a node may have a loop over a dimension."""
        ...

    def extents(self, level: int) -> dict[str, Q]:
        """Return the extents of a level's tiles."""
        ...

    def units(self) -> Sequence[Q]:
        """Return numbers whose product is the number of arithmetic units in use, or at least that."""
        ...

    def along_x(self, node: int, dim: str) -> Literal:
        """Whether a dimension lies along the X axis of a fanout."""
        ...

    def keeps(self, level: int, dataspace: str) -> Literal:
        """Whether a level keeps a dataspace."""
        ...

    def holds(self, level: int, dataspace: str) -> Literal | None:
        """Whether a dataspace takes room in a level; None if it never does."""
        ...

    def between(self, factor: Q, least: int, most: int, literal: Literal | None) -> None:
        """Let a factor lie between two values."""
        ...

    def product_at_most(
        self, name: str, parts: Sequence[Part[Q]], most: int, literal: Literal | None
    ) -> None:
        """Limit a product; one `name` stands for the same parts."""
        ...

    def product_at_least(self, factors: Sequence[Q], least: int, literal: Literal | None) -> None:
        """Ask for a product of at least so much."""
        ...

    def words_at_most(self, tiles: Sequence[TakenRoom[Q]], most: int, literal: Literal | None) -> None:
        """Limit the words that tiles of a level take together."""
        ...

    def words_at_least(self, tiles: Sequence[TakenRoom[Q]], least: int, literal: Literal | None) -> None:
        """Ask for tiles of a level that take at least so many words together."""
        ...


class Constraints(Generic[Q]):
    """The constraints of a mapspace, stated of numbers.

    Parameters
    ----------
    numbers
        Of all mappings of the mapspace.

    Attributes
    ----------
    literals
        Of what is stated so far; None where it always holds.
    """

    def __init__(self, numbers: Numbers[Q]) -> None:
        self._numbers = numbers
        self._checked = numbers.checked
        self._model = numbers.checked.model
        self._mapspace = numbers.mapspace
        self.literals: dict[Constraint, Literal | None] = {}
        self._tiles: dict[int, tuple[TakenRoom[Q], ...]] = {}

    def literal(self, constraint: Constraint) -> Literal:
        """Return the literal under which a constraint holds, which is stated now if it is new."""
        if constraint not in self.literals:
            self._state(constraint, self._model.new_bool_var(f"c{len(self.literals)}"))
        literal = self.literals[constraint]
        assert literal is not None  # or it was required
        return literal

    def state(self, constraints: Iterable[Constraint]) -> None:
        """State constraints, each under its own literal."""
        for constraint in _splits_last(constraints):
            self.literal(constraint)

    def require(self, constraints: Iterable[Constraint]) -> None:
        """State constraints that always hold."""
        for constraint in _splits_last(constraints):
            self._state(constraint, None)

    def _state(self, constraint: Constraint, literal: Literal | None) -> None:
        self.literals[constraint] = literal
        match constraint:
            case FactorLimit():
                self._limit_factor(constraint, literal)
            case SpatialOrder():
                self._order(constraint, literal)
            case AxisSplit():
                self._split(constraint, literal)
            case KeptOrBypassed(level, dataspace, verb):
                kept = self._numbers.keeps(level, dataspace)
                self._checked.imply(literal, [kept if verb == "keep" else kept.negated()])
            case Whole():
                self._store_whole(constraint, literal)
            case TileCapacity():
                self._limit_tiles(constraint, literal)
            case Utilization(level):
                if constraint.words > 0:
                    self._numbers.words_at_least(self._tiles_in(level), constraint.words, literal)
            case Mesh():
                self._limit_mesh(constraint, literal)
            case Parallelism():
                self._numbers.product_at_least(self._numbers.units(), constraint.least, literal)
            case _:
                assert_never(constraint)

    # ------------------------------------------------------------------------- factors

    def _limit_factor(self, constraint: FactorLimit, literal: Literal | None) -> None:
        rule, dim = constraint.rule, constraint.rule.dim
        bound = self._mapspace.problem.bound[dim]
        allowed = allowed_factors((rule,), dim, bound, self._mapspace.factors)
        if not allowed:
            self._checked.imply(literal, [])
        elif dim in self._numbers.dims:
            factor = self._numbers.factor(constraint.node, dim)
            self._numbers.between(factor, allowed[0], allowed[-1], literal)

    def _store_whole(self, constraint: Whole, literal: Literal | None) -> None:
        """Let the level keep the dataspace, and no level outside have loops over its dimensions."""
        self._checked.imply(literal, [self._numbers.keeps(constraint.level, constraint.dataspace)])
        live = [dim for dim in self._numbers.dims if dim in constraint.dims]
        for node, dim in product(constraint.outside, live):
            self._numbers.between(self._numbers.factor(node, dim), 1, 1, literal)

    # ------------------------------------------------------------------------- fanouts

    def _limit_mesh(self, constraint: Mesh, literal: Literal | None) -> None:
        """Let the loops along an axis have no more iterations together than it has children."""
        node, axis = constraint.node, constraint.axis
        if constraint.size < self._mapspace.problem.computes:
            numbers = self._numbers
            parts = [(numbers.factor(node, dim), self._along(node, dim, axis)) for dim in numbers.dims]
            numbers.product_at_most(f"mesh{node}{axis}", parts, constraint.size, literal)

    def _along(self, node: int, dim: str, axis: Axis) -> Literal:
        x = self._numbers.along_x(node, dim)
        return x if axis == "x" else x.negated()

    def _order(self, constraint: SpatialOrder, literal: Literal | None) -> None:
        """Let the dimensions along X be the first ones of some order that the rules allow."""
        node, rules = constraint.node, constraint.rules
        ends = {*rules.inner, *rules.outer, *rules.uncounted}
        loose = [dim for dim in self._mapspace.problem.dims if dim not in ends]
        steps = [*([dim] for dim in rules.inner), loose, *([dim] for dim in rules.outer)]
        for before, after in pairwise(step for step in steps if step):
            for first, second in product(before, after):
                self._checked.imply(literal, [self._along(node, second, "y"), self._along(node, first, "x")])

    def _split(self, constraint: AxisSplit, literal: Literal | None) -> None:
        """Count the dimensions along X; one that is fixed to 1 may count once its rule is dropped."""
        node = constraint.node
        place = self._mapspace.architecture.fanout_indices.index(node)
        uncounted = self._mapspace.spatial[place].uncounted
        taken = [self._along(node, d, "x") for d in self._mapspace.problem.dims if d not in uncounted]
        split = min(constraint.count, len(taken))
        taken += [
            self._takes(node, dim) for dim in self._numbers.dims if self._may_take(node, dim, uncounted)
        ]
        row = self._model.add(self._checked.weighted_sum(taken, [1] * len(taken)) == split)
        self._checked.given(literal, row)

    def _may_take(self, node: int, dim: str, uncounted: frozenset[str]) -> bool:
        is_fixed = any(held is None for _, held in self._fixing(node, dim))
        return dim in uncounted and self._numbers.may_loop(node, dim) and not is_fixed

    def _fixing(self, node: int, dim: str) -> list[tuple[FactorLimit, Literal | None]]:
        """Rules that leave a fanout no loop over a dimension."""
        rules = ((own, x) for own, x in self.literals.items() if isinstance(own, FactorLimit))
        return [(own, x) for own, x in rules if own.node == node and own.fixes_to_one(dim)]

    def _takes(self, node: int, dim: str) -> Literal:
        """Whether a dimension that took no place in a fanout's order takes one along X."""
        takes = self._model.new_bool_var(f"takes{node}_{dim}")
        self._model.add_implication(takes, self._along(node, dim, "x"))
        for _, held in self._fixing(node, dim):
            self._checked.imply(held, [takes.negated()])
        orders = [(own, x) for own, x in self.literals.items() if isinstance(own, SpatialOrder)]
        for order, held in ((own, x) for own, x in orders if own.node == node):
            for first in order.rules.inner:
                self._checked.imply(held, [takes.negated(), self._along(node, first, "x")])
        return takes

    # ---------------------------------------------------------------------- capacities

    def _limit_tiles(self, constraint: TileCapacity, literal: Literal | None) -> None:
        tiles = self._tiles_in(constraint.level)
        if constraint.words > 0:
            self._numbers.words_at_most(tiles, constraint.words, literal)
            return
        for tile in tiles:
            self._checked.imply(literal, [tile.held.negated()])

    def _tiles_in(self, level: int) -> tuple[TakenRoom[Q], ...]:
        """The tiles that a level may hold: words of a value times a product over ranks."""
        if level not in self._tiles:
            storage, extents = self._mapspace.architecture.levels[level], self._numbers.extents(level)
            spaces = self._mapspace.problem.dataspaces
            holding = ((space, self._numbers.holds(level, space.name)) for space in spaces)
            self._tiles[level] = tuple(
                TakenRoom(
                    dataspace=space,
                    held=held,
                    size_per_value=storage.packing_of(space.name).size_per_value,
                    room=storage.usable_words or 0,
                    extents=extents,
                )
                for space, held in holding
                if held is not None
            )
        return self._tiles[level]


def _splits_last(constraints: Iterable[Constraint]) -> list[Constraint]:
    """Which dimensions count in a split depends on the other rules, so splits come last."""
    return sorted(dict.fromkeys(constraints), key=lambda own: isinstance(own, AxisSplit))


@dataclass(frozen=True)
class ChosenValues:
    """What an answer chooses.

    Parameters
    ----------
    factor
        Of a node's loop over a dimension.
    along_x
        Whether a dimension lies along the X axis of a fanout.
    keeps
        Whether a level keeps a dataspace.
    """

    factor: Callable[[int, str], int]
    along_x: Callable[[int, str], bool]
    keeps: Callable[[int, str], bool]


def mapping_of(
    mapspace: Mapspace, chosen: ChosenValues, order: Callable[[int, list[str]], list[str]] | None = None
) -> Mapping:
    """Return the mapping that an answer stands for; `order` sorts the loops of a level, innermost first."""
    names = [space.name for space in mapspace.problem.dataspaces]
    levels, fanouts = iter(enumerate(mapspace.temporal)), iter(mapspace.spatial)
    entries: list[StorageMapping | FanoutMapping] = []
    for node, hardware in enumerate(mapspace.architecture.nodes):
        factors = {dim: chosen.factor(node, dim) for dim in mapspace.problem.dims}
        live = [dim for dim, factor in factors.items() if factor > 1]
        if isinstance(hardware, Fanout):
            spatial = _allowed_order(live, next(fanouts))
            along_x = [dim for dim in spatial if chosen.along_x(node, dim)]
            x = [SpatialLoop(dim, factors[dim], "x") for dim in along_x]
            y = [SpatialLoop(dim, factors[dim], "y") for dim in spatial if dim not in along_x]
            entries.append(FanoutMapping((*x, *y)))
            continue
        level, rules = next(levels)
        temporal = _allowed_order(live, rules) if order is None else order(level, live)
        kept = frozenset(name for name in names if chosen.keeps(level, name))
        entries.append(StorageMapping(tuple(Loop(dim, factors[dim]) for dim in temporal), kept))
    return Mapping(tuple(entries))


def _allowed_order(live: list[str], rules: TemporalRules | SpatialRules) -> list[str]:
    """Sort loops into an order that the rules allow, innermost first."""
    loose = sorted(dim for dim in live if dim not in rules.inner and dim not in rules.outer)
    return [dim for dim in (*rules.inner, *loose, *rules.outer) if dim in live]
