"""Numbers as integer variables, for feasibility: no tables of all extents, so that there may be any number.

Perfect factors are vectors of prime exponents, so that a factorization is a set of sums. Any other factor
is a single variable, its value; the extent outside of a loop is the product of the factors up to it, and a
loop has no more iterations than there are tiles inside of it:

    x_j = x_(j-1) f_j        f_j <= ceil(N / x_(j-1)), that is x_j - x_(j-1) < N        N <= x_n

A limit too large to count up to is left out: see `Integers.largest_limit`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

from model.architecture import Fanout
from model.extents import ANY
from model.mapspace import Mapspace
from model.numbers import divisors, prime_factors
from solver.cpsat import LARGEST_ACTIVITY, Answer, CheckedModel, Expression, Literal, Variable
from solver.formulation.constraints import Part, TakenRoom

LARGEST_LIMIT = 1 << 26
"""Words of a capacity, and children along an axis, that are counted exactly."""

LARGEST_BOUND = LARGEST_ACTIVITY // 4
"""Bounds, with remainders, up to which sums of extents stay in range."""

T = TypeVar("T")

_Count = tuple[Expression, Variable]
"""A count, and a literal without which it need not be right."""


@dataclass(frozen=True, eq=False)
class Factor:
    """A factor or an extent: the exponent of each prime of the bound, primes ascending; or its value."""

    dim: str
    parts: tuple[Variable, ...]


def integers_of(mapspace: Mapspace, largest_limit: int = LARGEST_LIMIT) -> Integers:
    """Return a model of the mappings of a problem on an architecture, without any constraints."""
    kind = AnyIntegers if mapspace.factors == ANY else PerfectIntegers
    return kind(mapspace, largest_limit)


class Integers(ABC):
    """Factors, extents, sides of fanouts and what levels keep, of all well-formed mappings.

    Limits above `largest_limit` are left out: answers may exceed them.
    """

    def __init__(self, mapspace: Mapspace, largest_limit: int) -> None:
        self.mapspace = mapspace
        self.largest_limit = largest_limit
        self.checked = CheckedModel()
        self.model = self.checked.model
        problem, architecture = mapspace.problem, mapspace.architecture
        self.dims = tuple(dim for dim, bound in problem.bound.items() if bound > 1)
        self._bound = problem.bound
        self._nodes = architecture.nodes
        self._counts: dict[Hashable, Any] = {}
        self.factors: dict[tuple[int, str], Factor] = {}
        for dim in self.dims:
            self._add_factors(dim)
        positions = architecture.storage_indices
        self.tiles = [{dim: self._tile(position, dim) for dim in self.dims} for position in positions]
        self._sides = {
            node: {dim: self.model.new_bool_var(f"x{node}_{dim}") for dim in problem.dims}
            for node in architecture.fanout_indices
        }
        self._keeps = [
            {space.name: self.model.new_bool_var(f"keep{level}_{space.name}") for space in problem.dataspaces}
            for level in range(len(positions))
        ]
        self._holds = self._tenants()

    # ------------------------------------------------------------------- what is kept

    def _tenants(self) -> list[dict[str, Variable]]:
        """Per level, whether a dataspace takes room there, and the rules on where dataspaces are kept."""
        by_level: list[dict[str, Variable]] = []
        for level, kept in enumerate(self._keeps):
            by_level.append(
                {name: self._tenant(level, name, [outer[name] for outer in by_level]) for name in kept}
            )
        names = [space.name for space in self.mapspace.problem.dataspaces]
        for name in names:
            self.model.add_at_least_one(tenants[name] for tenants in by_level)
        for group, name in product(self.mapspace.parallel, names):
            branches = sum(self._keeps[level][name] for level in group.levels)
            self.model.add(branches <= 1 if group.may_skip else branches == 1)
        return by_level

    def _tenant(self, level: int, name: str, outside: Sequence[Variable]) -> Variable:
        """Whether a dataspace takes room in a level, given the same of the levels outside.

        A level that passes its stream on bypasses what no level outside keeps.
        """
        keep = self._keeps[level][name]
        if name not in self.mapspace.architecture.levels[level].passing:
            return keep
        tenant = self.model.new_bool_var(f"tenant{level}_{name}")
        self.model.add_implication(tenant, keep)
        self.model.add_bool_or([tenant.negated(), *outside])
        for other in outside:
            self.model.add_bool_or([keep.negated(), other.negated(), tenant])
        return tenant

    def keep_outermost(self, names: Iterable[str]) -> None:
        """Let the outermost level keep some dataspaces."""
        for name in names:
            self.model.add(self._keeps[0][name] == 1)

    def keeps(self, level: int, dataspace: str) -> Literal:
        """Whether a level keeps a dataspace."""
        return self._keeps[level][dataspace]

    def holds(self, level: int, dataspace: str) -> Literal:
        """Whether a dataspace takes room in a level."""
        return self._holds[level][dataspace]

    def along_x(self, node: int, dim: str) -> Literal:
        """Whether a dimension lies along the X axis of a fanout."""
        return self._sides[node][dim]

    # ---------------------------------------------------------------------- factors

    @abstractmethod
    def _add_factors(self, dim: str) -> None:
        """Add the factors of a dimension in all nodes."""

    @abstractmethod
    def _tile(self, position: int, dim: str) -> Factor:
        """Return the extent of a dimension in a full tile of the node at a position."""

    @abstractmethod
    def place(self, dim: str, value: int) -> int:
        """Return the `index` of a factor or an extent with this value."""

    @abstractmethod
    def index(self, factor: Factor) -> Variable:
        """Return a variable that grows with a factor."""

    @abstractmethod
    def read(self, factor: Factor, answer: Answer) -> int:
        """Return the value of a factor in an answer."""

    @abstractmethod
    def _value(self, factor: Factor, most: int) -> Variable:
        """Return a factor; one above `most` counts as ``most + 1``."""

    @abstractmethod
    def logarithm(self, factor: Factor, log: Callable[[int], int], values: Sequence[int]) -> Expression:
        """Return a factor's logarithm, as `log` has it; one that may be any is restricted to some values."""

    def factor(self, node: int, dim: str) -> Factor:
        """Return the factor of a node's loop over a dimension."""
        return self.factors[node, dim]

    def may_loop(self, _node: int, dim: str) -> bool:
        """Whether a node may have a loop over a dimension."""
        return dim in self.dims

    def extents(self, level: int) -> dict[str, Factor]:
        """Return the extents of a level's tiles."""
        return self.tiles[level]

    def units(self) -> list[Factor]:
        """Return factors whose product is at least the number of arithmetic units in use.

        With remainders and several fanouts last tiles may use fewer units than full ones.
        """
        return [
            self.factors[place] for place in product(self.mapspace.architecture.fanout_indices, self.dims)
        ]

    def between(self, factor: Factor, least: int, most: int, literal: Literal | None) -> None:
        """Let a factor lie between two values."""
        first, last = self.place(factor.dim, least), self.place(factor.dim, most)
        row = self.model.add_linear_constraint(self.index(factor), first, last)
        self.checked.given(literal, row)

    # --------------------------------------------------------------- products and tiles

    def product_at_most(
        self, name: str, parts: Sequence[Part[Factor]], most: int, literal: Literal | None
    ) -> None:
        """Limit the product of factors, of which those whose condition does not hold count as 1."""
        if most >= self.largest_limit:
            return
        room = _room(most)
        total, counted = self._shared((name, room), lambda: self._children(parts, room))
        self.checked.imply(literal, [counted])
        self.checked.given(literal, self.model.add(total <= most))

    def _children(self, parts: Sequence[Part[Factor]], most: int) -> _Count:
        counted = self.model.new_bool_var("counted")
        values = [
            self._where((condition, counted), self._value(factor, most), most) for factor, condition in parts
        ]
        return self._product(values, most), counted

    @abstractmethod
    def product_at_least(self, factors: Sequence[Factor], least: int, literal: Literal | None) -> None:
        """Ask for a product of factors of at least so much."""

    def words_at_most(self, tiles: Sequence[TakenRoom[Factor]], most: int, literal: Literal | None) -> None:
        """Limit the words of tiles together."""
        if most > self._countable:
            return
        room = min(_room(most), self._countable)
        words, counted = self._shared((tiles, room), lambda: self._words(tiles, room))
        self.checked.imply(literal, [counted])
        self.checked.given(literal, self.model.add(words <= most))

    def _words(self, tiles: Sequence[TakenRoom[Factor]], most: int) -> _Count:
        """Words of tiles."""
        counted = self.model.new_bool_var("counted")
        values = self._values(tiles, most)
        total: Expression = 0
        for tile in tiles:
            size = min(tile.size_per_value, most + 1)
            room = max(1, most // size)
            ranks = [self._where((tile.held, counted), rank, room) for rank in _rank_extents(tile, values)]
            total += size * self._where((tile.held,), self._product(ranks, room), room, otherwise=0)
        return total, counted

    def words_at_least(self, tiles: Sequence[TakenRoom[Factor]], least: int, literal: Literal | None) -> None:
        """Ask for tiles of at least so many words together."""
        if least <= self._countable:
            room = min(_room(least), self._countable)
            words = self._shared((tiles, room, "some"), lambda: self._some_words(tiles, room))
            self.checked.given(literal, self.model.add(words >= least))

    def _some_words(self, tiles: Sequence[TakenRoom[Factor]], enough: int) -> Expression:
        """Return words of tiles, or fewer, but `enough` if they are that many."""
        values = self._values(tiles, enough)
        total: Expression = 0
        for tile in tiles:
            size = min(tile.size_per_value, enough)
            full = -(-enough // size)
            some = self._some(_rank_extents(tile, values), full)
            total += size * self._where((tile.held,), some, 2 * full, otherwise=0)
        return total

    def _some(self, factors: Iterable[Expression], enough: int) -> Variable:
        """Return a product, or less, but `enough` if it is that much.

        Lowering factors brings any product above that below twice as much.
        """
        lowered = []
        for factor in factors:
            own = self.model.new_int_var(1, enough, "u")
            self.model.add(own <= factor)
            lowered.append(own)
        return self._product(lowered, 2 * enough)

    def _values(self, tiles: Sequence[TakenRoom[Factor]], most: int) -> dict[str, Variable]:
        """Extents of tiles, all of which are those of one level."""
        return {dim: self._value(extent, most) for dim, extent in tiles[0].extents.items()} if tiles else {}

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

    def _shared(self, key: Hashable, count: Callable[[], T]) -> T:
        """Add a count once, however many constraints limit it."""
        if key not in self._counts:
            self._counts[key] = count()
        counted: T = self._counts[key]
        return counted

    @property
    def _countable(self) -> int:
        """The most words for which sums of ranks and of tiles stay in range."""
        spaces = self.mapspace.problem.dataspaces
        weights = (sum(abs(term.coefficient) for term in rank) for own in spaces for rank in own.ranks)
        return min(self.largest_limit, LARGEST_ACTIVITY // (4 * max(len(spaces), 1, *weights)))


def _room(limit: int) -> int:
    """Return the next power of two, so that limits close to each other share a count."""
    return 1 << (limit - 1).bit_length()


def _rank_extents(tile: TakenRoom[Factor], extents: dict[str, Variable]) -> list[Expression]:
    """Return the extent per rank of a tile with these extents per dimension."""
    return [
        1 + sum(abs(t.coefficient) * (extents[t.dim] - 1) for t in rank if t.dim in extents)
        for rank in tile.dataspace.ranks
    ]


class PerfectIntegers(Integers):
    """Vectors of prime exponents.

    Tables tie a vector to the index of its factor among the divisors of the bound, so that rules are
    comparisons, and to the factor itself, capped just above the largest value that matters.
    """

    def __init__(self, mapspace: Mapspace, largest_limit: int) -> None:
        self._indices: dict[Factor, Variable] = {}
        super().__init__(mapspace, largest_limit)

    def _add_factors(self, dim: str) -> None:
        primes = prime_factors(self._bound[dim])
        for node in range(len(self._nodes)):
            exponents = (self.model.new_int_var(0, most, f"e{node}_{dim}_{prime}") for prime, most in primes)
            self.factors[node, dim] = Factor(dim, tuple(exponents))
        for place, (_, most) in enumerate(primes):
            total = sum(self.factors[node, dim].parts[place] for node in range(len(self._nodes)))
            self.model.add(total == most)

    def _tile(self, position: int, dim: str) -> Factor:
        """Its exponents are the sums of those of the factors inside."""
        extents = []
        for place, (prime, most) in enumerate(prime_factors(self._bound[dim])):
            extent = self.model.new_int_var(0, most, f"t{position}_{dim}_{prime}")
            inside = (self.factors[node, dim].parts[place] for node in range(position, len(self._nodes)))
            self.model.add(sum(inside) == extent)
            extents.append(extent)
        return Factor(dim, tuple(extents))

    def place(self, dim: str, value: int) -> int:
        """Return the place of a divisor among those of the bound."""
        return divisors(self._bound[dim]).index(value)

    def index(self, factor: Factor) -> Variable:
        """Return the place of a factor among the divisors of its bound."""
        if factor not in self._indices:
            count = len(divisors(self._bound[factor.dim]))
            self._indices[factor] = self.model.new_int_var(0, count - 1, f"i{len(self._indices)}")
            self._tie(factor, self._indices[factor], list(range(count)))
        return self._indices[factor]

    def _value(self, factor: Factor, most: int) -> Variable:
        values = [min(divisor, most + 1) for divisor in divisors(self._bound[factor.dim])]
        value = self.model.new_int_var(1, values[-1], f"v_{factor.dim}")
        self._tie(factor, value, values)
        return value

    def _tie(self, factor: Factor, variable: Variable, values: Sequence[int]) -> None:
        """Let `variable` be the entry of `values` that belongs to the divisor with these exponents."""
        bound = self._bound[factor.dim]
        primes = [prime for prime, _ in prime_factors(bound)]
        powers = [dict(prime_factors(divisor)) for divisor in divisors(bound)]
        rows = [
            (*(powers_of.get(prime, 0) for prime in primes), value)
            for powers_of, value in zip(powers, values, strict=True)
        ]
        self.model.add_allowed_assignments([*factor.parts, variable], rows)

    def read(self, factor: Factor, answer: Answer) -> int:
        """Return the value of a factor in an answer."""
        primes = zip(prime_factors(self._bound[factor.dim]), factor.parts, strict=True)
        return math.prod(prime ** answer.value(exponent) for (prime, _), exponent in primes)

    def logarithm(self, factor: Factor, log: Callable[[int], int], _values: Sequence[int]) -> Expression:
        """Return the logarithm of a product of primes."""
        primes = [prime for prime, _ in prime_factors(self._bound[factor.dim])]
        return self.checked.weighted_sum(factor.parts, [log(prime) for prime in primes])

    def product_at_least(self, factors: Sequence[Factor], least: int, literal: Literal | None) -> None:
        """Compare rounded logarithms; this is exact while the scale separates `least` from one less."""
        terms = [
            (exponent, prime)
            for factor in factors
            for exponent, (prime, _) in zip(factor.parts, prime_factors(self._bound[factor.dim]), strict=True)
        ]
        if not terms:
            self.checked.imply(literal, [])
            return
        bounds = self._bound.values()
        count = sum(most for bound in bounds for _, most in prime_factors(bound))
        room = LARGEST_ACTIVITY // (4 * max(1.0, math.log(math.prod(bounds))) * len(self._nodes))
        scale = min(2 * (count + 2) * least, int(room))
        weights = [round(scale * math.log(prime)) for _, prime in terms]
        threshold = math.floor(scale * math.log(least) - count / 2 - 1)
        total = self.checked.weighted_sum([exponent for exponent, _ in terms], weights)
        self.checked.given(literal, self.model.add(total >= threshold))


class AnyIntegers(Integers):
    """Values of factors that may leave remainders."""

    def __init__(self, mapspace: Mapspace, largest_limit: int) -> None:
        self._strides: dict[tuple[int, str], Expression] = {}
        super().__init__(mapspace, largest_limit)

    def _add_factors(self, dim: str) -> None:
        bound = self._bound[dim]
        stride: Expression = 1
        for node in reversed(range(len(self._nodes))):
            factor = self.model.new_int_var(1, bound, f"f{node}_{dim}")
            outside = self.model.new_int_var(1, 2 * bound, f"x{node}_{dim}")
            self.model.add_multiplication_equality(outside, [stride, factor])
            self.model.add(outside - stride <= bound - 1)
            self.factors[node, dim] = Factor(dim, (factor,))
            self._strides[node, dim] = stride = outside
        self.model.add(stride >= bound)

    def _tile(self, position: int, dim: str) -> Factor:
        """It is the product of the factors inside, at most the bound."""
        extent = self._at_most(self._strides[position, dim], self._bound[dim], f"t{position}_{dim}")
        return Factor(dim, (extent,))

    def _at_most(self, value: Expression, most: int, name: str) -> Variable:
        """Return `value`, or `most` if that is less."""
        capped, over = self.model.new_int_var(1, most, name), self.model.new_bool_var(f"over_{name}")
        self.model.add(capped == value).only_enforce_if(over.negated())
        self.model.add(capped == most).only_enforce_if(over)
        self.model.add(value >= most).only_enforce_if(over)
        return capped

    def place(self, _dim: str, value: int) -> int:
        """Return the value itself."""
        return value

    def index(self, factor: Factor) -> Variable:
        """Return the variable of a factor."""
        return factor.parts[0]

    def _value(self, factor: Factor, most: int) -> Variable:
        small = self._bound[factor.dim] <= most + 1
        return factor.parts[0] if small else self._at_most(factor.parts[0], most + 1, f"v_{factor.dim}")

    def read(self, factor: Factor, answer: Answer) -> int:
        """Return the value of a factor in an answer."""
        return answer.value(factor.parts[0])

    def logarithm(self, factor: Factor, log: Callable[[int], int], values: Sequence[int]) -> Expression:
        """Return the logarithm of a factor out of a table."""
        own = self.model.new_int_var(0, log(values[-1]), f"log_{factor.dim}")
        self.model.add_allowed_assignments([*factor.parts, own], [(value, log(value)) for value in values])
        return own

    def product_at_least(self, factors: Sequence[Factor], least: int, literal: Literal | None) -> None:
        """Ask for a product of factors of at least so much, unless that is too large."""
        if least <= self.largest_limit:
            some = self._some((factor.parts[0] for factor in factors), least)
            self.checked.given(literal, self.model.add(some >= least))

    def exact_units_at_least(self, least: int, literal: Literal | None) -> bool:
        """Ask for arithmetic units that are ever in use; False if they are too many."""
        if least > self.largest_limit:
            return False
        some = self._some((self._units_of_last_tiles(dim) for dim in self.dims), least)
        self.checked.given(literal, self.model.add(some >= least))
        return True

    def _units_of_last_tiles(self, dim: str) -> Expression:
        """Return how many instances of the innermost node are ever in use along a dimension.

        With several fanouts the last tile may use fewer than a full one does. Of ``T_(j-1)`` tiles inside
        of a loop the last pass has ``T_(j-1) - (T_j - 1) f_j``, of which the last tile may be short; full
        ones use as many instances as the product of the spatial factors inside.
        """
        bound = self._bound[dim]
        tiles: Expression = bound
        full: Expression = 1
        last: Expression = 1
        for node in reversed(range(len(self._nodes))):
            factor = self.factors[node, dim].parts[0]
            spatial = isinstance(self._nodes[node], Fanout)
            outside = self._variable(1, bound)
            passes = self.model.new_int_var(0, 2 * bound, "q")
            self.model.add_multiplication_equality(passes, [outside - 1, factor])
            rest = self._variable(1, bound)
            self.model.add(rest == tiles - passes)
            self.model.add(rest <= factor)
            last = self._last(spatial, rest, full, last, bound)
            full = self._times(full, factor, 2 * bound) if spatial else full
            tiles = outside
        return last

    def _last(
        self, spatial: bool, rest: Variable, full: Expression, last: Expression, bound: int
    ) -> Variable:
        """Instances that the last tile uses outside of a loop whose last pass has `rest` iterations."""
        used = self._variable(1, 2 * bound)
        if spatial:
            self.model.add(used == self._times(rest - 1, full, 2 * bound, least=0) + last)
            return used
        more = self.model.new_bool_var("more")
        self.model.add(rest >= 2).only_enforce_if(more)
        self.model.add(rest == 1).only_enforce_if(more.negated())
        self.model.add(used == full).only_enforce_if(more)
        self.model.add(used == last).only_enforce_if(more.negated())
        return used

    def _times(self, one: Expression, other: Expression, most: int, least: int = 1) -> Variable:
        result = self._variable(least, most)
        self.model.add_multiplication_equality(result, [one, other])
        return result

    def _variable(self, least: int, most: int) -> Variable:
        return self.model.new_int_var(least, most, "u")
