"""Least costs of words: energy, and the load of every bandwidth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import lcm, prod
from typing import NamedTuple

from model.architecture import StorageLevel
from model.cost.prices import access_energy, paying_instances
from model.cost.traffic import accesses, in_passing
from model.problem import Dataspace
from solver.search.path.orders import Dims
from solver.search.path.words import DimLoops, ExecutedWords
from solver.search.space.keep_masks import Chain
from solver.search.space.prices import Resource
from solver.search.space.search_space import SearchSpace

Loads = tuple[int, ...]
"""By resource, in parts of a cycle of which all loads are whole numbers: `PartCosts.units` a cycle."""


class Cost(NamedTuple):
    """Energy units, and loads of resources."""

    energy: int
    loads: Loads

    @property
    def without_loads(self) -> Cost:
        """The energy alone."""
        return Cost(self.energy, (0,) * len(self.loads))

    def plus(self, other: Cost) -> Cost:
        """Both together."""
        return Cost(
            self.energy + other.energy, tuple(a + b for a, b in zip(self.loads, other.loads, strict=True))
        )


class BoundaryWords(NamedTuple):
    """Accesses of a level whose words follow from those of one boundary.

    Parameters
    ----------
    place
        Of the dataspace.
    level
        That is accessed.
    boundary
        The level that gets the words, or the compute: the same one for what fills it.
    by_order
        Whether the words depend on the order of loops.
    shares
        Of instances that do the same: which of `Line.shares` they have of each dimension, and words are those
        of one of them. None for all instances together.
    """

    place: int
    level: int
    boundary: int
    by_order: bool
    shares: Dims | None = None


Above = tuple[int, ...]
"""What lies outside of a boundary: `Line.above` of each dimension."""


@dataclass(frozen=True)
class BoundaryPrice:
    """The price of the words of one boundary.

    Parameters
    ----------
    space, level
        The dataspace, and the level that is accessed.
    fills, drains
        Whether the words fill the level; and whether it reads as many to hand them back.
    firsts
        Words that are touched for the first time: by what asks, and by the level.
    used
        Instances whose words are counted together.
    paying
        Instances that each pay for as many.
    rates
        Per resource, load of one instance per word that is read, or written.
    """

    space: Dataspace
    level: StorageLevel
    fills: bool
    drains: bool
    firsts: tuple[int, int]
    used: int
    paying: int
    rates: tuple[tuple[int, int], ...]

    def of(self, words: int) -> Cost:
        """Cost of so many words."""
        reads, fills, updates = self.counts(words)
        energy = access_energy(self.level, self.level.packing_of(self.space.name), reads, fills, updates)
        written = fills + updates
        return Cost(energy * self.paying, tuple(reads * read + written * write for read, write in self.rates))

    def counts(self, words: int) -> tuple[int, int, int]:
        """Reads, fills and updates of so many words, at least; exactly of one instance."""
        if self.level.tolls:
            traffic = in_passing(0, self.level, self.space, words, self.firsts[0])
            counts = traffic.reads, 0, traffic.updates
        elif self.fills:
            reads, fills, updates = accesses(self.level, self.space, 0, (words, 0), self.firsts)
            counts = reads + (words if self.drains else 0), fills, updates
        else:
            counts = accesses(self.level, self.space, words, (0, 0), self.firsts)
        if self.used == 1 or self.level.free_share(self.space.name) in (0, 1):
            return counts
        # Each instance rounds.
        reads, fills, updates = counts
        return max(0, reads - self.used), max(0, fills - self.used), max(0, updates - self.used)


class BoundaryCosts:
    """Words and prices, remembered by all that they depend on.

    Parameters
    ----------
    space
        Its problem and its architecture.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._words = ExecutedWords(space)
        self._parts: dict[tuple[int, Chain], tuple[BoundaryWords, ...]] = {}
        self._prices: dict[object, tuple[BoundaryPrice, int]] = {}
        self._brought: dict[object, tuple[int, ...]] = {}

    def parts(self, place: int, chain: Chain) -> tuple[BoundaryWords, ...]:
        """All accesses to a dataspace that some levels keep."""
        if (place, chain) not in self._parts:
            self._parts[place, chain] = tuple(self._listed(place, chain))
        return self._parts[place, chain]

    def _listed(self, place: int, chain: Chain) -> Iterator[BoundaryWords]:
        levels, name = self._space.levels, self._space.views[place].name
        asking = len(levels)
        for level in reversed(chain):
            yield BoundaryWords(place, level, asking, self._words.reuses(place, asking))
            if level != chain[0] and not levels[level].tolls:
                yield BoundaryWords(place, level, level, self._words.reuses(place, level))
            if name not in levels[level].passing:
                asking = level

    def by_instance(self, part: BoundaryWords, lines: Sequence[DimLoops]) -> Iterator[BoundaryWords]:
        """The accesses of a part, by instances that do the same where their sum does not tell the cost."""
        if not self._tells_apart[part.place][part.level]:
            yield part
            return
        for shares in product(*(range(len(line.shares[part.level])) for line in lines)):
            yield part._replace(shares=shares)

    @cached_property
    def _tells_apart(self) -> list[list[bool]]:
        """Per dataspace and level, whether instances round, not all pay, or the busiest one decides."""
        return [
            [
                level.packing_of(view.name).block_size > 1
                or level.cluster_size > 1
                or level.free_share(view.name) not in (0, 1)
                or any(number in own.levels for own in self._space.resources)
                for number, level in enumerate(self._space.levels)
            ]
            for view in self._space.views
        ]

    def price(
        self, part: BoundaryWords, lines: Sequence[DimLoops], above: Above
    ) -> tuple[BoundaryPrice, int]:
        """Return what words of a part cost, and how many come whatever loops bring.

        Parameters
        ----------
        part
            The accesses.
        lines
            Of all dimensions.
        above
            What lies outside of the part's boundary.
        """
        key = part, above
        if key not in self._prices:
            words = self._words.start(part.place, part.level, part.boundary, lines, part.shares)
            self._prices[key] = self._price(part, lines), words
        return self._prices[key]

    def _price(self, part: BoundaryWords, lines: Sequence[DimLoops]) -> BoundaryPrice:
        level, space = self._space.levels[part.level], self._space.problem.dataspaces[part.place]
        used, paying = self._instances(part, lines)
        is_busiest, fills = not any(part.shares or ()), part.level == part.boundary
        return BoundaryPrice(
            space,
            level,
            fills,
            fills and space.read_write and self._space.mapspace.counting_rule.drains_are_reads,
            self._firsts(part, lines),
            used,
            paying,
            self._rates[part.place][part.level] if is_busiest else ((0, 0),) * len(self._space.resources),
        )

    def _instances(self, part: BoundaryWords, lines: Sequence[DimLoops]) -> tuple[int, int]:
        """Instances whose words are counted together, and those that pay for as many each."""
        position = self._space.architecture.storage_indices[part.level]
        used = prod(line.instances[position] for line in lines)
        if part.shares is None:
            return used, 1
        left = paying_instances(self._space.levels[part.level], self._space.instances[part.level], used)
        # The first ones have the most to do.
        for shares in product(*(range(len(line.shares[part.level])) for line in lines)):
            own = prod(line.shares[part.level][n].instances for line, n in zip(lines, shares, strict=True))
            if shares == part.shares:
                return 1, min(own, left)
            left -= min(own, left)
        raise AssertionError

    def _firsts(self, part: BoundaryWords, lines: Sequence[DimLoops]) -> tuple[int, int]:
        if not self._space.views[part.place].read_write:
            return 0, 0
        asked, held = (
            self._words.touched(part.place, part.level, own, lines, part.shares)
            for own in (part.boundary, part.level)
        )
        return asked, held

    @cached_property
    def units(self) -> tuple[int, ...]:
        """Per resource, what its loads count a cycle as."""
        return tuple(map(self._unit, self._space.resources))

    def _unit(self, own: Resource) -> int:
        """The least number of parts of a cycle of which all that loads a resource takes a whole number."""
        levels, views = self._space.levels, self._space.views
        scales = [levels[n].scale(view.name) for n in own.levels for view in views]
        cycles = [each * scale for each in (own.read_cycles, own.write_cycles) for scale in scales]
        return lcm(*(Fraction(each).denominator for each in (*cycles, own.besides(levels))))

    @cached_property
    def besides(self) -> Loads:
        """What loads resources besides words."""
        levels = self._space.levels
        pairs = zip(self._space.resources, self.units, strict=True)
        return tuple(int(own.besides(levels) * unit) for own, unit in pairs)

    @cached_property
    def _rates(self) -> list[list[tuple[tuple[int, int], ...]]]:
        """Per dataspace and level, those of a `BoundaryPrice`."""
        levels = range(len(self._space.levels))
        return [[tuple(self._rates_of(view.name, n)) for n in levels] for view in self._space.views]

    def _rates_of(self, name: str, number: int) -> Iterator[tuple[int, int]]:
        scale = self._space.levels[number].scale(name)
        for own, unit in zip(self._space.resources, self.units, strict=True):
            each = scale * unit if number in own.levels else 0
            yield int(own.read_cycles * each), int(own.write_cycles * each)

    def of_slot(
        self,
        part: BoundaryWords,
        lines: Sequence[DimLoops],
        above: Above,
        level: int,
        orders: tuple[Dims, ...],
    ) -> tuple[int, ...]:
        """Words that loops of a level bring in each of some orders."""
        key = part, above, level, orders
        if key not in self._brought:
            self._brought[key] = self._brought_by(part, lines, level, orders)
        return self._brought[key]

    def _brought_by(
        self, part: BoundaryWords, lines: Sequence[DimLoops], level: int, orders: Sequence[Dims]
    ) -> tuple[int, ...]:
        ends = part.place, part.level, part.boundary
        return self._words.of_slot(ends, lines, level, orders, part.shares)
