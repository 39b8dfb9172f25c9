"""Whether constraints can hold together: decided by CP-SAT, and a mapping as the witness if they can."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import assert_never

from model.architecture import StorageLevel
from model.cost import Evaluation, evaluate
from model.cost.limits import capacity_violations
from model.cost.tiles import tile_words
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace
from model.numbers import divisors, prime_factors
from model.problem import Problem
from solver.cpsat import Answer as Values
from solver.cpsat import Literal, ModelError, Settings, Variable
from solver.explain.constraints import (
    Capacity,
    Constraint,
    FactorLimit,
    Keeping,
    Mesh,
    Parallelism,
    SpatialOrder,
    Split,
    Utilization,
    Whole,
    constraints_of,
)
from solver.explain.encoding import LARGEST_LIMIT, Encoding, Exponents

Stop = Callable[[], bool]


class Verdict(Enum):
    """What is known about a set of constraints."""

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
        stop: Stop = lambda: False,
        seed: int = 0,
        largest_limit: int = LARGEST_LIMIT,
    ) -> None:
        self.mapspace = mapspace
        asked = constraints_of(mapspace) if constraints is None else constraints
        self._encoding = Encoding(mapspace, asked, largest_limit)
        self._stop = stop
        self._seed = seed
        self._oversize: dict[int, list[tuple[Tile, list[Literal]]]] = {}
        self._applied: dict[Capacity, int] = {}

    def alone(self, constraints: Collection[Constraint]) -> Feasibility:
        """Return a new model of these constraints only, with another seed."""
        limit = self._encoding.largest_limit
        return Feasibility(self.mapspace, constraints, self._stop, self._seed + 1, limit)

    def until(self, stop: Stop) -> Feasibility:
        """Return the same model, with all that it has learnt, and another `stop`."""
        other = copy.copy(self)
        other._stop = stop
        return other

    def decide(self, asked: Collection[Constraint]) -> Decision:
        """Return whether a mapping satisfies all of `asked`.

        The plain cost model checks every answer of CP-SAT. One that exceeds a limit that is left out of it
        is cut off, and the model is solved again.
        """
        model = self._encoding.model
        model.clear_assumptions()
        model.add_assumptions([self._encoding.literal(constraint) for constraint in asked])
        capacities = [constraint for constraint in asked if isinstance(constraint, Capacity)]
        while True:
            for capacity in capacities:
                self._apply_known(capacity)
            # Nothing here can check an INFEASIBLE, so presolve is off: that is where CP-SAT had defects.
            outcome = self._encoding.checked.solve(Settings(seed=self._seed, presolve=False), self._stop)
            if outcome.answer is None:
                return Decision(Verdict.INFEASIBLE if outcome.is_infeasible else Verdict.UNKNOWN)
            witness = self._witness(outcome.answer)
            broken = [constraint for constraint in asked if not holds(constraint, witness)]
            if not broken:
                return Decision(Verdict.FEASIBLE, witness)
            for constraint in broken:
                self._cut(constraint, outcome.answer)

    def _witness(self, values: Values) -> Witness:
        """Return the mapping that an answer encodes, with its evaluation."""
        nodes = self.mapspace.architecture.nodes
        levels = iter(zip(self.mapspace.temporal, self._encoding.keep, strict=True))
        fanouts = iter(self.mapspace.spatial)
        entries: list[StorageMapping | FanoutMapping] = []
        for position, node in enumerate(nodes):
            factors = {dim: self._factor(values, position, dim) for dim in self._encoding.dims}
            live = [dim for dim, factor in factors.items() if factor > 1]
            if not isinstance(node, StorageLevel):
                spatial = next(fanouts)
                order = _in_order(live, spatial.inner, spatial.outer)
                entries.append(self._fanout(values, position, order, factors))
                continue
            rules, keep = next(levels)
            order = _in_order(live, rules.inner, rules.outer)
            kept = frozenset(name for name, literal in keep.items() if values.holds(literal))
            entries.append(StorageMapping(tuple(Loop(dim, factors[dim]) for dim in order), kept))
        mapping = Mapping(tuple(entries))
        problem, architecture = self.mapspace.problem, self.mapspace.architecture
        try:
            return Witness(mapping, evaluate(problem, architecture, mapping))
        except ValueError as error:
            raise ModelError(f"CP-SAT's answer is not a mapping: {error}") from error

    def _factor(self, values: Values, position: int, dim: str) -> int:
        return self._extent(self._encoding.exponents[position, dim], dim, values)

    def _extent(self, exponents: Exponents, dim: str, values: Values) -> int:
        """Return the factor of `dim` that the exponents have in an answer."""
        primes = prime_factors(self.mapspace.problem.bound[dim])
        return math.prod(p ** values.value(e) for (p, _), e in zip(primes, exponents, strict=True))

    def _fanout(
        self, values: Values, position: int, live: Sequence[str], factors: dict[str, int]
    ) -> FanoutMapping:
        axes = self._encoding.along_x[position]
        x = [SpatialLoop(dim, factors[dim], "x") for dim in live if values.holds(axes[dim])]
        y = [SpatialLoop(dim, factors[dim], "y") for dim in live if not values.holds(axes[dim])]
        return FanoutMapping((*x, *y))

    # ---------------------------------------------- limits left out of the model

    def _cut(self, constraint: Constraint, values: Values) -> None:
        """Exclude an answer that breaks `constraint`, and all that break it for the same reason.

        Tiles only grow with their extents and with the dataspaces kept; products grow with their factors.
        """
        match constraint:
            case Capacity():
                self._find_oversize(constraint, values)
                return
            case Utilization():
                escapes = self._larger_tile(constraint.level, values)
            case Mesh():
                escapes = self._fewer_children(constraint, values)
            case Parallelism():
                escapes = self._more_units(values)
            case FactorLimit() | SpatialOrder() | Split() | Keeping() | Whole():
                raise ModelError("CP-SAT's answer breaks a constraint of the model")
            case _:
                assert_never(constraint)
        broken = self._encoding.literals[constraint].negated()
        self._encoding.model.add_bool_or([broken, *escapes])

    def _find_oversize(self, constraint: Capacity, values: Values) -> None:
        """Find the smallest part of an answer's tiles that exceeds a capacity; larger tiles exceed it too."""
        level, encoding = constraint.level, self._encoding
        tenants, tiles = encoding.tenant[level], encoding.tiles[level]
        kept = [name for name, tenant in tenants.items() if values.holds(tenant)]
        extents = {dim: self._extent(exponents, dim, values) for dim, exponents in tiles.items()}
        tile = least_oversize(self.mapspace.problem, constraint.storage, constraint.words, kept, extents)
        if tile.words <= constraint.words:
            raise ModelError("CP-SAT's answer and the mapping that it encodes have different tiles")
        leave: list[Literal] = [tenants[name].negated() for name in sorted(tile.kept)]
        shrink = [
            self._step(exponents, dim, -1, tile.extents[dim])
            for dim, exponents in tiles.items()
            if tile.extents[dim] > 1
        ]
        self._oversize.setdefault(level, []).append((tile, [*leave, *shrink]))

    def _apply_known(self, capacity: Capacity) -> None:
        """Exclude the tiles that are known to be too large for a capacity, unless already done."""
        known = self._oversize.get(capacity.level, [])
        broken = self._encoding.literal(capacity).negated()
        for tile, escapes in known[self._applied.get(capacity, 0) :]:
            if tile.words > capacity.words:
                self._encoding.model.add_bool_or([broken, *escapes])
        self._applied[capacity] = len(known)

    def _larger_tile(self, level: int, values: Values) -> list[Literal]:
        tenants = self._encoding.tenant[level].values()
        join: list[Literal] = [tenant for tenant in tenants if not values.holds(tenant)]
        return [
            *join,
            *(
                self._beyond(exponents, dim, 1, values)
                for dim, exponents in self._encoding.tiles[level].items()
            ),
        ]

    def _fewer_children(self, mesh: Mesh, values: Values) -> list[Literal]:
        escapes: list[Literal] = []
        for dim in self._encoding.dims:
            x = self._encoding.along_x[mesh.node][dim]
            if values.holds(x) == (mesh.axis == "x"):
                exponents = self._encoding.exponents[mesh.node, dim]
                escapes += [x.negated() if mesh.axis == "x" else x, self._beyond(exponents, dim, -1, values)]
        return escapes

    def _more_units(self, values: Values) -> list[Literal]:
        fanouts = self.mapspace.architecture.fanout_indices
        exponents = self._encoding.exponents
        return [
            self._beyond(exponents[node, dim], dim, 1, values)
            for node in fanouts
            for dim in self._encoding.dims
        ]

    def _beyond(self, exponents: Exponents, dim: str, direction: int, values: Values) -> Variable:
        """Return a literal that requires a factor below (-1) or above (1) that of the answer."""
        return self._step(exponents, dim, direction, self._extent(exponents, dim, values))

    def _step(self, exponents: Exponents, dim: str, direction: int, factor: int) -> Variable:
        """Return a literal that requires a factor below (-1) or above (1) `factor`."""
        model = self._encoding.model
        place = divisors(self.mapspace.problem.bound[dim]).index(factor)
        index = self._encoding.products.index(exponents, dim)
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
        case Keeping() | Whole():
            return _is_where_asked(constraint, witness)
        case Capacity() | Utilization():
            kind = "capacity" if isinstance(constraint, Capacity) else "min_utilization"
            violations = capacity_violations(constraint.storage, witness.words(constraint.level))
            return all(violation.kind != kind for violation in violations)
        case Mesh():
            return witness.along(constraint.node, constraint.axis) <= constraint.size
        case Parallelism():
            return witness.units >= constraint.units
        case SpatialOrder() | Split():
            return True
        case _:
            assert_never(constraint)


def _is_where_asked(constraint: Keeping | Whole, witness: Witness) -> bool:
    keeps = witness.keeps(constraint.level, constraint.dataspace)
    if isinstance(constraint, Keeping):
        return keeps == (constraint.verb == "keep")
    loops = product(constraint.outside, constraint.dims)
    return keeps and all(witness.factor(node, dim) == 1 for node, dim in loops)


def _in_order(live: Iterable[str], inner: Sequence[str], outer: Sequence[str]) -> list[str]:
    """Return loops in an order that the rules allow, innermost first."""
    dims = set(live)
    ends = {*inner, *outer}
    return [
        *(dim for dim in inner if dim in dims),
        *sorted(dims - ends),
        *(dim for dim in outer if dim in dims),
    ]


@dataclass(frozen=True)
class Tile:
    """Tiles of some dataspaces in one level, with the same extents per dimension."""

    kept: frozenset[str]
    extents: dict[str, int]
    words: int  # of the level, all tiles together


def least_oversize(
    problem: Problem, storage: StorageLevel, limit: int, kept: Iterable[str], extents: dict[str, int]
) -> Tile:
    """Return a minimal part of a tile that still exceeds a limit: ruling it out rules out the most."""
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
        smaller = {dim: _below(problem.bound[dim], least[dim]) for dim in open_}
        open_ = [dim for dim in open_ if words(left, {**least, dim: smaller[dim]}) > limit]
        for dim in open_:
            fits = words(left, {**least, dim: smaller[dim]}) <= limit
            least[dim] = least[dim] if fits else smaller[dim]
        open_ = [dim for dim in open_ if least[dim] > 1]
    return Tile(frozenset(left), least, words(left, least))


def _below(bound: int, extent: int) -> int:
    """Return the next smaller divisor of a bound."""
    extents = divisors(bound)
    return extents[extents.index(extent) - 1]
