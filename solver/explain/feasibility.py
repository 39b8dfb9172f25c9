"""Whether constraints can hold together: CP-SAT decides, and a mapping is the witness if they can.

The model is that of `solver.formulation.constraints` on integers, with the constraints as assumptions. A
limit too large to count up to is left out; answers that exceed it are cut off.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import assert_never

from model.architecture import StorageLevel
from model.cost import Evaluation, evaluate_in
from model.cost.limits import capacity_violations
from model.counting.words import tile_words
from model.extents import ANY, PERFECT, Extents, Factors
from model.mapping import FanoutMapping, Mapping, StorageMapping
from model.mapspace import Mapspace
from model.problem import Problem
from solver.cpsat import Answer, Literal, ModelError, Settings, Variable
from solver.formulation.constraints import ChosenValues, Constraints, mapping_of
from solver.formulation.integers import LARGEST_LIMIT, AnyIntegers, Factor, integers_of
from solver.formulation.requirements import (
    AxisSplit,
    Constraint,
    ConstraintSet,
    FactorLimit,
    KeptOrBypassed,
    Mesh,
    Parallelism,
    SpatialOrder,
    TileCapacity,
    Utilization,
    Whole,
    constraints_of,
)
from solver.result import StopCallback


class Verdict(Enum):
    """The answer about a set of constraints."""

    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Witness:
    """A mapping that satisfies all constraints asked for, and its evaluation by the cost model."""

    mapping: Mapping
    evaluation: Evaluation

    def factor(self, node: int, dim: str) -> int:
        """Return the factor of `dim` at a node."""
        entry = self.mapping.nodes[node]
        loops = entry.temporal if isinstance(entry, StorageMapping) else entry.spatial
        return math.prod(loop.bound for loop in loops if loop.dim == dim)

    def along(self, node: int, axis: str) -> int:
        """Return the number of children in use along an axis of a fanout."""
        entry = self.mapping.nodes[node]
        assert isinstance(entry, FanoutMapping)
        return math.prod(loop.bound for loop in entry.spatial if loop.axis == axis)

    def keeps(self, level: int, dataspace: str) -> bool:
        """Whether a storage level keeps a dataspace."""
        entries = [entry for entry in self.mapping.nodes if isinstance(entry, StorageMapping)]
        return dataspace in entries[level].keep

    def words(self, level: int) -> int:
        """Return the words that the tiles of a storage level take together."""
        return self.evaluation.levels[level].size_words

    @property
    def units(self) -> int:
        """Arithmetic units in use."""
        return self.evaluation.compute_instances


@dataclass(frozen=True)
class Decision:
    """A verdict, with a witness if feasible."""

    verdict: Verdict
    witness: Witness | None = None


class Feasibility:
    """Decides sets of constraints of one mapspace with one CP-SAT model, to which it adds those that are new.

    `stop` is polled during a solve; once it is true, verdicts are UNKNOWN. Limits above `largest_limit` are
    left out of the model.
    """

    def __init__(
        self,
        mapspace: Mapspace,
        constraints: Iterable[Constraint] | None = None,
        stop: StopCallback = lambda: False,
        seed: int = 0,
        largest_limit: int = LARGEST_LIMIT,
    ) -> None:
        self.mapspace = mapspace
        asked = tuple(constraints_of(mapspace) if constraints is None else constraints)
        self._numbers = integers_of(mapspace, largest_limit)
        self._constraints = Constraints(self._numbers)
        self._constraints.state(asked)
        rules = [own for own in asked if isinstance(own, KeptOrBypassed) and own.level == 0]
        bypassed = {own.dataspace for own in rules if own.verb == "bypass"}
        spaces = (space.name for space in mapspace.problem.dataspaces)
        self._numbers.keep_outermost(name for name in spaces if name not in bypassed)
        self._numbers.checked.check()
        self._stop = stop
        self._seed = seed
        self._oversize: dict[int, list[tuple[Oversize, list[Literal]]]] = {}
        self._applied: dict[TileCapacity, int] = {}
        self._counted: set[Parallelism] = set()

    def alone(self, constraints: ConstraintSet) -> Feasibility:
        """Return a new model of these constraints only, with another seed."""
        limit = self._numbers.largest_limit
        return Feasibility(self.mapspace, constraints, self._stop, self._seed + 1, limit)

    def until(self, stop: StopCallback) -> Feasibility:
        """Return the same model, with all that it has learnt, and another `stop`."""
        other = copy.copy(self)
        other._stop = stop
        return other

    def decide(self, asked: ConstraintSet) -> Decision:
        """Return whether a mapping satisfies all of `asked`.

        The plain cost model checks every answer of CP-SAT. One that exceeds a limit that is left out of it
        is cut off, and the model is solved again.
        """
        model = self._numbers.model
        model.clear_assumptions()
        model.add_assumptions([self._constraints.literal(constraint) for constraint in asked])
        capacities = [constraint for constraint in asked if isinstance(constraint, TileCapacity)]
        while True:
            for capacity in capacities:
                self._apply_known(capacity)
            # Nothing here can check an INFEASIBLE, so presolve is off: that is where CP-SAT had defects.
            outcome = self._numbers.checked.solve(Settings(seed=self._seed, presolve=False), self._stop)
            if outcome.answer is None:
                return Decision(Verdict.INFEASIBLE if outcome.is_infeasible else Verdict.UNKNOWN)
            witness = self._witness(outcome.answer)
            broken = [constraint for constraint in asked if not holds(constraint, witness)]
            if not broken:
                return Decision(Verdict.FEASIBLE, witness)
            for constraint in broken:
                self._cut(constraint, outcome.answer)

    def _witness(self, answer: Answer) -> Witness:
        """Return the mapping that an answer encodes, with its evaluation."""
        numbers = self._numbers
        chosen = ChosenValues(
            factor=lambda node, dim: self._factor(answer, node, dim) if dim in numbers.dims else 1,
            along_x=lambda node, dim: answer.holds(numbers.along_x(node, dim)),
            keeps=lambda level, name: answer.holds(numbers.keeps(level, name)),
        )
        mapping = mapping_of(self.mapspace, chosen)
        try:
            return Witness(mapping, evaluate_in(self.mapspace, mapping))
        except ValueError as error:
            raise ModelError(f"CP-SAT's answer is not a mapping: {error}") from error

    def _factor(self, answer: Answer, position: int, dim: str) -> int:
        return self._numbers.read(self._numbers.factor(position, dim), answer)

    # ---------------------------------------------- limits left out of the model

    def _cut(self, constraint: Constraint, answer: Answer) -> None:
        """Exclude an answer that breaks `constraint`, and all that break it for the same reason.

        Tiles only grow with their extents and with the dataspaces kept; products grow with their factors.
        """
        match constraint:
            case TileCapacity():
                self._find_oversize(constraint, answer)
                return
            case Utilization():
                escapes = self._larger_tile(constraint.level, answer)
            case Mesh():
                escapes = self._fewer_children(constraint, answer)
            case Parallelism():
                if self._count_last_tiles(constraint):
                    return
                escapes = self._more_units(answer)
            case FactorLimit() | SpatialOrder() | AxisSplit() | KeptOrBypassed() | Whole():
                raise ModelError("CP-SAT's answer breaks a constraint of the model")
            case _:
                assert_never(constraint)
        self._numbers.checked.imply(self._constraints.literal(constraint), escapes)

    def _count_last_tiles(self, constraint: Parallelism) -> bool:
        """Count units of last tiles, which may be fewer; False if that is done already, or too much."""
        if constraint in self._counted or not isinstance(self._numbers, AnyIntegers):
            return False
        self._counted.add(constraint)
        literal = self._constraints.literal(constraint)
        return self._numbers.exact_units_at_least(constraint.least, literal)

    def _find_oversize(self, constraint: TileCapacity, answer: Answer) -> None:
        """Find the smallest part of an answer's tiles that exceeds a capacity; larger tiles exceed it too."""
        level, tiles = constraint.level, self._numbers.extents(constraint.level)
        tenants = self._tenants(level)
        kept = [name for name, tenant in tenants.items() if answer.holds(tenant)]
        extents = {dim: self._numbers.read(extent, answer) for dim, extent in tiles.items()}
        problem, kind = self.mapspace.problem, self.mapspace.factors
        tile = least_oversize(problem, constraint.storage, constraint.words, kept, extents, kind)
        if tile.words <= constraint.words:
            raise ModelError("CP-SAT's answer and the mapping that it encodes have different tiles")
        leave: list[Literal] = [tenants[name].negated() for name in sorted(tile.kept)]
        shrink = [
            self._literal_beyond(extent, -1, tile.extents[dim])
            for dim, extent in tiles.items()
            if tile.extents[dim] > 1
        ]
        self._oversize.setdefault(level, []).append((tile, [*leave, *shrink]))

    def _apply_known(self, capacity: TileCapacity) -> None:
        """Exclude the tiles that are known to be too large for a capacity, unless already done."""
        known = self._oversize.get(capacity.level, [])
        literal = self._constraints.literal(capacity)
        for tile, escapes in known[self._applied.get(capacity, 0) :]:
            if tile.words > capacity.words:
                self._numbers.checked.imply(literal, escapes)
        self._applied[capacity] = len(known)

    def _tenants(self, level: int) -> dict[str, Literal]:
        return {
            space.name: self._numbers.holds(level, space.name) for space in self.mapspace.problem.dataspaces
        }

    def _larger_tile(self, level: int, answer: Answer) -> list[Literal]:
        tenants = self._tenants(level).values()
        join: list[Literal] = [tenant for tenant in tenants if not answer.holds(tenant)]
        return [*join, *(self._beyond(own, 1, answer) for own in self._numbers.extents(level).values())]

    def _fewer_children(self, mesh: Mesh, answer: Answer) -> list[Literal]:
        escapes: list[Literal] = []
        for dim in self._numbers.dims:
            x = self._numbers.along_x(mesh.node, dim)
            if answer.holds(x) == (mesh.axis == "x"):
                factor = self._numbers.factor(mesh.node, dim)
                escapes += [x.negated() if mesh.axis == "x" else x, self._beyond(factor, -1, answer)]
        return escapes

    def _more_units(self, answer: Answer) -> list[Literal]:
        """Other factors: larger ones at a fanout or, if a last tile may use fewer units, any others."""
        fanouts, numbers = self.mapspace.architecture.fanout_indices, self._numbers
        has_remainders = isinstance(numbers, AnyIntegers) and len(fanouts) > 1
        return [
            self._beyond(factor, direction, answer)
            for (node, _), factor in numbers.factors.items()
            for direction in ((-1, 1) if has_remainders else (1,))
            if has_remainders or node in fanouts
        ]

    def _beyond(self, factor: Factor, direction: int, answer: Answer) -> Variable:
        """Return a literal that requires a factor below (-1) or above (1) that of the answer."""
        return self._literal_beyond(factor, direction, self._numbers.read(factor, answer))

    def _literal_beyond(self, factor: Factor, direction: int, value: int) -> Variable:
        """Return a literal that requires a factor below (-1) or above (1) `value`."""
        model = self._numbers.model
        place, index = self._numbers.place(factor.dim, value), self._numbers.index(factor)
        literal = model.new_bool_var("step")
        beyond = index <= place - 1 if direction < 0 else index >= place + 1
        model.add(beyond).only_enforce_if(literal)
        return literal


def holds(constraint: Constraint, witness: Witness) -> bool:
    """Whether a mapping satisfies `constraint`, by the rules of the plain cost model.

    Order and split of spatial loops count loops of bound 1, which the witness does not list: not checked.
    """
    match constraint:
        case FactorLimit():
            return constraint.rule.allows(witness.factor(constraint.node, constraint.rule.dim))
        case KeptOrBypassed() | Whole():
            return _is_where_asked(constraint, witness)
        case TileCapacity() | Utilization():
            kind = "capacity" if isinstance(constraint, TileCapacity) else "min_utilization"
            violations = capacity_violations(constraint.storage, witness.words(constraint.level))
            return all(violation.kind != kind for violation in violations)
        case Mesh():
            return witness.along(constraint.node, constraint.axis) <= constraint.size
        case Parallelism():
            return witness.units >= constraint.units
        case SpatialOrder() | AxisSplit():
            return True
        case _:
            assert_never(constraint)


def _is_where_asked(constraint: KeptOrBypassed | Whole, witness: Witness) -> bool:
    keeps = witness.keeps(constraint.level, constraint.dataspace)
    if isinstance(constraint, KeptOrBypassed):
        return keeps == (constraint.verb == "keep")
    loops = product(constraint.outside, constraint.dims)
    return keeps and all(witness.factor(node, dim) == 1 for node, dim in loops)


@dataclass(frozen=True)
class Oversize:
    """Tiles of some dataspaces in one level, with the same extents per dimension."""

    kept: frozenset[str]
    extents: dict[str, int]
    words: int  # of the level, all tiles together


def least_oversize(
    problem: Problem,
    storage: StorageLevel,
    limit: int,
    kept: Iterable[str],
    extents: dict[str, int],
    kind: Factors = PERFECT,
) -> Oversize:
    """Return a minimal part of a tile that still exceeds a limit: ruling it out rules out the most.

    Extents that may be any are lowered by a sixteenth at a time, so that the part is almost minimal.
    """
    sizes = {name: storage.packing_of(name).size_per_value for name in kept}
    spaces = {name: problem.dataspace(name) for name in sizes}

    def words(names: Iterable[str], bounds: dict[str, int]) -> int:
        return sum(sizes[name] * tile_words(spaces[name], bounds) for name in names)

    left, least = set(sizes), dict(extents)
    for name in sorted(sizes, key=lambda name: (words((name,), extents), name)):
        left -= {name} if words(left - {name}, least) > limit else set()
    open_ = [dim for dim, extent in least.items() if extent > 1]
    while open_:
        # Shrink dimensions in turns: a tile of even extents is part of more tiles than a narrow one.
        smaller = {dim: _next_smaller(Extents(problem.bound[dim], kind), least[dim]) for dim in open_}
        open_ = [dim for dim in open_ if words(left, {**least, dim: smaller[dim]}) > limit]
        for dim in open_:
            fits = words(left, {**least, dim: smaller[dim]}) <= limit
            least[dim] = least[dim] if fits else smaller[dim]
        open_ = [dim for dim in open_ if least[dim] > 1]
    return Oversize(frozenset(left), least, words(left, least))


def _next_smaller(extents: Extents, extent: int) -> int:
    """Return a smaller extent: the next one of perfect factors."""
    if extents.kind == ANY:
        return extent - max(1, extent // 16)
    return extents.values[extents.values.index(extent) - 1]
