"""Whether constraints can hold together: a CP-SAT model decides, and a mapping is the witness if they can.

Tiles and meshes are products of the factors of `solver.explain.factors`. A limit too large to count up to is
left out; answers that exceed it are cut off.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise, product
from typing import assert_never

from model.architecture import Fanout, StorageLevel
from model.choices import allowed_factors
from model.cost import Evaluation, evaluate_in
from model.cost.counting import tile_words
from model.cost.limits import capacity_violations
from model.extents import ANY, PERFECT, Extents, Factors
from model.mapping import Axis, FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace
from model.numbers import prime_factors
from model.problem import Dataspace, Problem
from solver.cpsat import LARGEST_ACTIVITY, CheckedModel, Expression, Literal, ModelError, Settings, Variable
from solver.cpsat import Answer as Values
from solver.explain.constraints import (
    Capacity,
    Constraint,
    Constraints,
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
from solver.explain.factors import AnyFactors, Factor, factor_model
from solver.result import StopCallback

LARGEST_LIMIT = 1 << 26
"""Words of a capacity, and children along an axis, up to which the model counts exactly."""

_Count = tuple[Expression, Variable]
"""A count, and a literal without which it need not be right."""


class Encoding:
    """The model of a mapspace's problem, nodes and branches; a constraint holds where its literal is true."""

    def __init__(
        self, mapspace: Mapspace, constraints: Iterable[Constraint], largest_limit: int = LARGEST_LIMIT
    ) -> None:
        self.mapspace = mapspace
        self.largest_limit = largest_limit
        self.problem = mapspace.problem
        self.nodes = mapspace.architecture.nodes
        self.positions = mapspace.architecture.storage_indices
        self.dims = tuple(dim for dim, bound in self.problem.bound.items() if bound > 1)
        self.checked = CheckedModel()
        self.model = self.checked.model
        self.literals: dict[Constraint, Variable] = {}
        self._counts: dict[tuple[object, ...], _Count] = {}
        self._exact = set[Parallelism]()
        self.of = factor_model(self.checked, mapspace)
        self.factors = self.of.factors
        self.tiles = [{dim: self.of.tile(position, dim) for dim in self.dims} for position in self.positions]
        self.along_x = {
            node: {dim: self.model.new_bool_var(f"x{node}_{dim}") for dim in self.problem.dims}
            for node in mapspace.architecture.fanout_indices
        }
        self.keep = [
            {space.name: self.model.new_bool_var(f"keep{level}_{space.name}") for space in self._spaces}
            for level in range(len(self.positions))
        ]
        self.tenant = self._tenants()
        # Which dimensions count in a split depends on the other rules, so splits come last.
        for constraint in sorted(dict.fromkeys(constraints), key=lambda c: isinstance(c, Split)):
            self._add(constraint)
        self._keep_outermost()
        self.checked.check()

    def literal(self, constraint: Constraint) -> Variable:
        """Return the literal of `constraint`, which is added to the model if it is new."""
        if constraint not in self.literals:
            self._add(constraint)
            self.checked.check()
        return self.literals[constraint]

    @property
    def _spaces(self) -> tuple[Dataspace, ...]:
        return self.problem.dataspaces

    # ------------------------------------------------------------ structure

    def _tenants(self) -> list[dict[str, Variable]]:
        """Per level, whether a dataspace takes room there, and the rules on where dataspaces are kept."""
        by_level: list[dict[str, Variable]] = []
        for level in range(len(self.positions)):
            by_level.append(
                {
                    name: self._tenant(level, name, [outer[name] for outer in by_level])
                    for name in self.keep[level]
                }
            )
        for space in self._spaces:
            self.model.add_at_least_one(tenants[space.name] for tenants in by_level)
        for group, space in product(self.mapspace.parallel, self._spaces):
            branches = sum(self.keep[level][space.name] for level in group.levels)
            self.model.add(branches <= 1 if group.may_skip else branches == 1)
        return by_level

    def _tenant(self, level: int, name: str, outside: Sequence[Variable]) -> Variable:
        """Whether a dataspace takes room in a level, given the same of the levels outside.

        A level that does not coalesce it passes its stream on, so it bypasses what no level outside keeps.
        """
        keep = self.keep[level][name]
        tenant = self.model.new_bool_var(f"tenant{level}_{name}")
        if name not in self.mapspace.architecture.levels[level].no_coalesce:
            self.model.add(tenant == keep)
            return tenant
        self.model.add_implication(tenant, keep)
        self.model.add_bool_or([tenant.negated(), *outside])
        for other in outside:
            self.model.add_bool_or([keep.negated(), other.negated(), tenant])
        return tenant

    def _keep_outermost(self) -> None:
        """Let the outermost level keep what no constraint tells it to bypass."""
        rules = [c for c in self.literals if isinstance(c, Keeping)]
        bypassed = {rule.dataspace for rule in rules if rule.level == 0 and rule.verb == "bypass"}
        for name, keep in self.keep[0].items():
            if name not in bypassed:
                self.model.add(keep == 1)

    # ---------------------------------------------------------- constraints

    def _add(self, constraint: Constraint) -> None:
        literal = self.model.new_bool_var(f"c{len(self.literals)}")
        self.literals[constraint] = literal
        match constraint:
            case FactorLimit():
                self._limit_factor(constraint, literal)
            case SpatialOrder():
                self._order(constraint, literal)
            case Split():
                self._split(constraint, literal)
            case Keeping():
                wanted = self.keep[constraint.level][constraint.dataspace]
                wanted_literal = wanted if constraint.verb == "keep" else wanted.negated()
                self.model.add_implication(literal, wanted_literal)
            case Whole():
                self._store_whole(constraint, literal)
            case Capacity():
                self._limit_tiles(constraint, literal)
            case Utilization():
                self._fill_tiles(constraint, literal)
            case Mesh():
                self._limit_mesh(constraint, literal)
            case Parallelism():
                self._use_units(constraint, literal)
            case _:
                assert_never(constraint)

    def _split(self, constraint: Split, literal: Variable) -> None:
        """Count the dimensions along X; one that is fixed to 1 may count once its rule is dropped."""
        node = constraint.node
        places, uncounted = self.along_x[node], self._uncounted(node)
        taken = [x for dim, x in places.items() if dim not in uncounted]
        split = min(constraint.count, len(taken))
        rules = [(c, x) for c, x in self.literals.items() if isinstance(c, FactorLimit) and c.node == node]
        orders = [(c, x) for c, x in self.literals.items() if isinstance(c, SpatialOrder) and c.node == node]
        inside = [(held, places[first]) for order, held in orders for first in order.rules.inner]
        for dim in (dim for dim in self.dims if dim in uncounted):
            takes = self.model.new_bool_var(f"t_{dim}")
            self.model.add_implication(takes, places[dim])
            for held in (held for rule, held in rules if rule.fixes_to_one(dim)):
                self.model.add_implication(held, takes.negated())
            for held, x in inside:
                self.model.add_bool_or([held.negated(), takes.negated(), x])
            taken.append(takes)
        self.model.add(sum(taken) == split).only_enforce_if(literal)

    def _uncounted(self, node: int) -> frozenset[str]:
        place = self.mapspace.architecture.fanout_indices.index(node)
        return self.mapspace.spatial[place].uncounted

    def _limit_factor(self, constraint: FactorLimit, literal: Variable) -> None:
        rule, dim = constraint.rule, constraint.rule.dim
        allowed = allowed_factors((rule,), dim, self.problem.bound[dim], self.mapspace.factors)
        if not allowed:
            self.model.add(literal == 0)
        elif dim in self.dims:
            least, most = (self.of.place(dim, factor) for factor in (allowed[0], allowed[-1]))
            index = self.of.index(self.factors[constraint.node, dim], dim)
            self.model.add_linear_constraint(index, least, most).only_enforce_if(literal)

    def _store_whole(self, constraint: Whole, literal: Variable) -> None:
        """Let the level keep the dataspace, and no level outside have loops over its dimensions."""
        self.model.add_implication(literal, self.keep[constraint.level][constraint.dataspace])
        for node, dim in product(constraint.outside, (dim for dim in self.dims if dim in constraint.dims)):
            one = self.of.place(dim, 1)
            self.model.add(self.of.index(self.factors[node, dim], dim) == one).only_enforce_if(literal)

    def _order(self, constraint: SpatialOrder, literal: Variable) -> None:
        """Let the dimensions along X be a prefix of the order."""
        x, rules = self.along_x[constraint.node], constraint.rules
        ends = {*rules.inner, *rules.outer, *rules.uncounted}
        loose = [dim for dim in self.problem.dims if dim not in ends]
        steps = [*([dim] for dim in rules.inner), loose, *([dim] for dim in rules.outer)]
        filled = [step for step in steps if step]
        for before, after in pairwise(filled):
            for first, second in product(before, after):
                self.model.add_bool_or([x[second].negated(), x[first]]).only_enforce_if(literal)

    def _limit_mesh(self, constraint: Mesh, literal: Variable) -> None:
        if constraint.size >= min(self.problem.computes, self.largest_limit):
            return
        children, counted = self._shared(
            self._children, constraint.node, constraint.axis, _room(constraint.size)
        )
        self.model.add_implication(literal, counted)
        self.model.add(children <= constraint.size).only_enforce_if(literal)

    def _children(self, node: int, axis: Axis, most: int) -> _Count:
        """Children in use along an axis of a fanout."""
        counted = self.model.new_bool_var("counted")
        factors = []
        for dim in self.dims:
            value = self.of.value(self.factors[node, dim], dim, most)
            factors.append(self._where((self._along(node, dim, axis), counted), value, most))
        return self._product(factors, most), counted

    def _along(self, node: int, dim: str, axis: Axis) -> Literal:
        x = self.along_x[node][dim]
        return x if axis == "x" else x.negated()

    def _limit_tiles(self, constraint: Capacity, literal: Variable) -> None:
        limit = constraint.words
        if limit < 1:
            nothing = [tenant.negated() for tenant in self.tenant[constraint.level].values()]
            self.model.add_bool_and(nothing).only_enforce_if(literal)
        if not 1 <= limit <= self._countable:
            return
        words, counted = self._shared(self._words, constraint.level, min(_room(limit), self._countable))
        self.model.add_implication(literal, counted)
        self.model.add(words <= limit).only_enforce_if(literal)

    def _words(self, level: int, most: int) -> _Count:
        """Words that the tiles in a level take."""
        counted = self.model.new_bool_var("counted")
        values, where = self._extents(level, most), self._where
        tiles = []
        for space in self._spaces:
            tenant, size = self.tenant[level][space.name], self._size(level, space, most + 1)
            room = max(1, most // size)
            ranks = [where((tenant, counted), rank, room) for rank in _ranks(space, values)]
            tiles.append(size * where((tenant,), self._product(ranks, room), room, otherwise=0))
        return sum(tiles), counted

    def _size(self, level: int, space: Dataspace, most: int) -> int:
        """Words of a level that a value takes, at most `most`."""
        storage = self.mapspace.architecture.levels[level]
        return min(storage.packing_of(space.name).size_per_value, most)

    def _fill_tiles(self, constraint: Utilization, literal: Variable) -> None:
        least = constraint.words
        if 1 <= least <= self._countable:
            room = min(_room(least), self._countable)
            words, _ = self._shared(self._some_words, constraint.level, room)
            self.model.add(words >= least).only_enforce_if(literal)

    def _some_words(self, level: int, enough: int) -> _Count:
        """Return words that the tiles in a level take, or fewer, but `enough` if they take that many.

        Lowering extents brings any product above `enough` below twice that.
        """
        values = self._extents(level, enough)
        tiles = []
        for space in self._spaces:
            size = self._size(level, space, enough)
            full = -(-enough // size)
            lowered = []
            for rank in _ranks(space, values):
                extent = self.model.new_int_var(1, full, f"u_{space.name}")
                self.model.add(extent <= rank)
                lowered.append(extent)
            tile = self._product(lowered, 2 * full)
            tenant = self.tenant[level][space.name]
            tiles.append(size * self._where((tenant,), tile, 2 * full, otherwise=0))
        return sum(tiles), self.model.new_constant(1)

    def _where(
        self, conditions: Sequence[Literal], value: Expression, most: int, otherwise: int = 1
    ) -> Variable:
        """Return `value`, at most `most`, where all conditions hold, else `otherwise`."""
        shadow = self.model.new_int_var(min(otherwise, 1), most, "s")
        self.model.add(shadow == value).only_enforce_if(*conditions)
        for condition in conditions:
            self.model.add(shadow == otherwise).only_enforce_if(condition.negated())
        return shadow

    def _product(self, factors: Sequence[Variable], most: int) -> Variable:
        """Return the product of variables that are each at least 1, and constrain it to `most`."""
        total = self.model.new_constant(1)
        for factor in factors:
            following = self.model.new_int_var(1, most, "p")
            self.model.add_multiplication_equality(following, [total, factor])
            total = following
        return total

    def _shared(self, count: Callable[..., _Count], *of: object) -> _Count:
        """Add a count once, however many constraints limit it."""
        key = (count.__name__, *of)
        if key not in self._counts:
            self._counts[key] = count(*of)
        return self._counts[key]

    @property
    def _countable(self) -> int:
        """The most words for which sums of ranks and of tiles stay in range."""
        weights = (sum(abs(term.coefficient) for term in rank) for s in self._spaces for rank in s.ranks)
        return min(self.largest_limit, LARGEST_ACTIVITY // (4 * max(len(self._spaces), 1, *weights)))

    def _extents(self, level: int, most: int) -> dict[str, Variable]:
        return {dim: self.of.value(extent, dim, most) for dim, extent in self.tiles[level].items()}

    def _use_units(self, constraint: Parallelism, literal: Variable) -> None:
        if self.mapspace.factors == ANY:
            self._use_any_units(constraint, literal)
            return
        self._use_perfect_units(constraint, literal)

    def _use_any_units(self, constraint: Parallelism, literal: Variable) -> None:
        """Ask for as many units as if last tiles used as many as full ones: exact with one fanout."""
        if constraint.least <= self.largest_limit:
            fanouts = self.mapspace.architecture.fanout_indices
            children = (self.factors[node, dim] for node in fanouts for dim in self.dims)
            some = self._some((factor[0] for factor in children), constraint.least)
            self.model.add(some >= constraint.least).only_enforce_if(literal)

    def use_units_of_last_tiles(self, constraint: Parallelism) -> bool:
        """Ask for the units that are ever in use; False if that is asked for already."""
        of = self.of
        if (
            not isinstance(of, AnyFactors)
            or constraint in self._exact
            or constraint.least > self.largest_limit
        ):
            return False
        self._exact.add(constraint)
        some = self._some((of.units(dim) for dim in self.dims), constraint.least)
        self.model.add(some >= constraint.least).only_enforce_if(self.literals[constraint])
        return True

    def _some(self, factors: Iterable[Expression], least: int) -> Variable:
        """Return a product, or less: lowering factors brings any above `least` below twice that."""
        lowered = []
        for factor in factors:
            own = self.model.new_int_var(1, least, "u")
            self.model.add(own <= factor)
            lowered.append(own)
        return self._product(lowered, 2 * least)

    def _use_perfect_units(self, constraint: Parallelism, literal: Variable) -> None:
        """Compare rounded logarithms; this is exact while the scale separates `least` from one less."""
        terms = [
            (exponent, prime)
            for (node, dim), vector in self.factors.items()
            if isinstance(self.nodes[node], Fanout)
            for exponent, (prime, _) in zip(vector, prime_factors(self.problem.bound[dim]), strict=True)
        ]
        if not terms:
            self.model.add(literal == 0)
            return
        count = sum(most for bound in self.problem.bounds for _, most in prime_factors(bound))
        room = LARGEST_ACTIVITY // (4 * max(1.0, math.log(self.problem.computes)) * len(self.nodes))
        scale = min(2 * (count + 2) * constraint.least, int(room))
        weights = [round(scale * math.log(prime)) for _, prime in terms]
        threshold = math.floor(scale * math.log(constraint.least) - count / 2 - 1)
        total = self.checked.weighted_sum([exponent for exponent, _ in terms], weights)
        self.model.add(total >= threshold).only_enforce_if(literal)


def _room(limit: int) -> int:
    """Return the next power of two, so that limits close to each other share a count."""
    return 1 << (limit - 1).bit_length()


def _ranks(space: Dataspace, extents: dict[str, Variable]) -> list[Expression]:
    """Return the extent per rank of a tile with these extents per dimension."""
    return [
        1 + sum(abs(t.coefficient) * (extents[t.dim] - 1) for t in rank if t.dim in extents)
        for rank in space.ranks
    ]


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
        stop: StopCallback = lambda: False,
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

    def alone(self, constraints: Constraints) -> Feasibility:
        """Return a new model of these constraints only, with another seed."""
        limit = self._encoding.largest_limit
        return Feasibility(self.mapspace, constraints, self._stop, self._seed + 1, limit)

    def until(self, stop: StopCallback) -> Feasibility:
        """Return the same model, with all that it has learnt, and another `stop`."""
        other = copy.copy(self)
        other._stop = stop
        return other

    def decide(self, asked: Constraints) -> Decision:
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
        try:
            return Witness(mapping, evaluate_in(self.mapspace, mapping))
        except ValueError as error:
            raise ModelError(f"CP-SAT's answer is not a mapping: {error}") from error

    def _factor(self, values: Values, position: int, dim: str) -> int:
        return self._encoding.of.read(self._encoding.factors[position, dim], dim, values)

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
                if self._encoding.use_units_of_last_tiles(constraint):
                    return
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
        extents = {dim: encoding.of.read(extent, dim, values) for dim, extent in tiles.items()}
        problem, kind = self.mapspace.problem, self.mapspace.factors
        tile = least_oversize(problem, constraint.storage, constraint.words, kept, extents, kind)
        if tile.words <= constraint.words:
            raise ModelError("CP-SAT's answer and the mapping that it encodes have different tiles")
        leave: list[Literal] = [tenants[name].negated() for name in sorted(tile.kept)]
        shrink = [
            self._step(extent, dim, -1, tile.extents[dim])
            for dim, extent in tiles.items()
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
        tiles = self._encoding.tiles[level].items()
        return [*join, *(self._beyond(extent, dim, 1, values) for dim, extent in tiles)]

    def _fewer_children(self, mesh: Mesh, values: Values) -> list[Literal]:
        escapes: list[Literal] = []
        for dim in self._encoding.dims:
            x = self._encoding.along_x[mesh.node][dim]
            if values.holds(x) == (mesh.axis == "x"):
                factor = self._encoding.factors[mesh.node, dim]
                escapes += [x.negated() if mesh.axis == "x" else x, self._beyond(factor, dim, -1, values)]
        return escapes

    def _more_units(self, values: Values) -> list[Literal]:
        """Other factors: larger ones at a fanout or, if a last tile may use fewer units, any others."""
        fanouts, encoding = self.mapspace.architecture.fanout_indices, self._encoding
        uneven = isinstance(encoding.of, AnyFactors) and len(fanouts) > 1
        return [
            self._beyond(factor, dim, direction, values)
            for (node, dim), factor in encoding.factors.items()
            for direction in ((-1, 1) if uneven else (1,))
            if uneven or node in fanouts
        ]

    def _beyond(self, factor: Factor, dim: str, direction: int, values: Values) -> Variable:
        """Return a literal that requires a factor below (-1) or above (1) that of the answer."""
        return self._step(factor, dim, direction, self._encoding.of.read(factor, dim, values))

    def _step(self, factor: Factor, dim: str, direction: int, value: int) -> Variable:
        """Return a literal that requires a factor below (-1) or above (1) `value`."""
        model, of = self._encoding.model, self._encoding.of
        place, index = of.place(dim, value), of.index(factor, dim)
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
    problem: Problem,
    storage: StorageLevel,
    limit: int,
    kept: Iterable[str],
    extents: dict[str, int],
    kind: Factors = PERFECT,
) -> Tile:
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
        smaller = {dim: _below(Extents(problem.bound[dim], kind), least[dim]) for dim in open_}
        open_ = [dim for dim in open_ if words(left, {**least, dim: smaller[dim]}) > limit]
        for dim in open_:
            fits = words(left, {**least, dim: smaller[dim]}) <= limit
            least[dim] = least[dim] if fits else smaller[dim]
        open_ = [dim for dim in open_ if least[dim] > 1]
    return Tile(frozenset(left), least, words(left, least))


def _below(extents: Extents, extent: int) -> int:
    """Return a smaller extent: the next one of perfect factors."""
    if extents.kind == ANY:
        return extent - max(1, extent // 16)
    return extents.values[extents.values.index(extent) - 1]
