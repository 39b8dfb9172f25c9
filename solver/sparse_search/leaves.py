"""From complete paths to mappings of sparse data, judged by the model of expected costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np

from model.choices import SideOrder
from model.mapping import Mapping
from model.mapspace import Mapspace
from model.sparse import FIXED_POINT
from solver.search.goal import Goal
from solver.search.path.costs import BoundaryCosts, BoundaryPrice, BoundaryWords, Cost
from solver.search.path.factors import Factors
from solver.search.path.leaves import Bones, CostOf, Leads, Leaves, TilePath
from solver.search.path.orders import Dims
from solver.search.path.ruled import RuledCosts
from solver.search.path.words import DimLoops
from solver.search.priced import Priced
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stop
from solver.sparse_search.charges import LEAST, Each, OneChoice, SparseCharges, Tiles
from solver.sparse_search.choices import arrangements, spatial_factors
from solver.sparse_search.orders import SparseOrders

Judge = Callable[[Mapping], Priced | None]
"""Prices a mapping; None if it is not allowed, or formats cannot hold it."""


class SparseLeaves(Leaves):
    """Prices complete paths.

    Parameters
    ----------
    space, mapspace
        What the paths are of: the space knows no capacities.
    charges
        Of a keep mask.
    judge
        The cost model.
    goal, stop
        See `Leaves`.
    """

    def __init__(
        self,
        space: SearchSpace,
        mapspace: Mapspace,
        charges: Callable[[KeepMask], SparseCharges],
        judge: Judge,
        goal: Goal,
        stop: Stop,
    ) -> None:
        super().__init__(space, goal, stop)
        self._mapspace, self._charges, self._judge = mapspace, charges, judge
        self._factors = Factors(space, goal.counts_cycles, every=True)
        self._costs = (SparseCosts if mapspace.counting_rule.is_executed else SparseRuledCosts)(space)
        self._by_mask: dict[KeepMask, SparseOrders] = {}

    def _hopeful(self, path: TilePath, goal: Goal) -> Callable[[int], bool]:
        """Whether mappings that take so many steps if data are dense may improve."""
        charges, latency = self._charges(path.mask), self._space.latency
        energy = math.floor(float(np.min(charges.arithmetic(self._chosen(path)))) * LEAST)

        def hopeful(steps: int) -> bool:
            least = self._steps(path, steps)
            return math.isfinite(least) and goal.improves(energy, int(least) + latency)

        return hopeful

    def _steps(self, path: TilePath, steps: int) -> float:
        """Cycles of the arithmetic, at least, given those of all computations."""
        charges = self._charges(path.mask)
        tiles = np.array([path.tiles[charges.first]]) if charges.first < len(path.tiles) else None
        return float(charges.steps(np.array([float(steps)]), self._chosen(path), tiles)[0])

    def _chosen(self, path: TilePath) -> OneChoice:
        return OneChoice(len(self._space.active), path.spatial)

    def _bones(self, path: TilePath, lines: tuple[DimLoops, ...], steps: int) -> Bones:
        charges = self._charges(path.mask)
        if path.mask not in self._by_mask:
            shares = charges.figures.shares
            self._by_mask[path.mask] = SparseOrders(self._space, shares, charges.named)
        orders, least = self._by_mask[path.mask], int(self._steps(path, steps))
        return _SparseBones(self._space, self._costs, orders, path, lines, least, charges)

    def _judged(self, bones: Bones, goal: Goal) -> Iterator[Priced | None]:
        assert isinstance(bones, _SparseBones)
        for orders in self._ordered(bones, goal):
            yield from map(self._judge, bones.arranged(self._mapspace, orders))


@dataclass(frozen=True, eq=False)
class _SparseBones(Bones):
    """All factors of a mapping, and bounds on what its orders of loops cost.

    Parameters
    ----------
    charges
        Of the path's keep mask.
    """

    orders: SparseOrders
    charges: SparseCharges
    _known: dict[BoundaryWords, tuple[CostOf, int]] = field(default_factory=dict)

    @cached_property
    def _chosen(self) -> OneChoice:
        """The spatial choice."""
        return OneChoice(len(self.space.active), self.path.spatial)

    @property
    def _leads(self) -> Leads:
        """Those of the innermost slot matter, too."""
        return (*self.path.leads, None)

    def _may_have(self, above: tuple[Dims, ...]) -> bool:
        """Whether formats have ranks for the loops of the outermost slots."""
        level = len(above)
        slots = [[(d, self.lines[d].temporal[n]) for d in order] for n, order in enumerate(above)]
        tile = tuple(line.extents[level] for line in self.lines)
        return self.orders.are_held(level, tile, slots, self._chosen.fanouts)

    @property
    def _without_words(self) -> Cost:
        charges, space = self.charges, self.space
        loads = (
            math.floor((float(own.besides(space.levels)) - charges.lost(number)) * FIXED_POINT)
            for number, own in enumerate(space.resources)
        )
        return Cost(math.floor(float(np.min(charges.arithmetic(self._chosen))) * LEAST), tuple(loads))

    def _leaking(self, place: int) -> int:
        """Parts of the instances of a level that leak, at least."""
        used, one = np.array([float(super()._leaking(place))]), np.ones(1, dtype=np.int64)
        return math.floor(float(self.charges.leaking(place, used, one, np.ones(1))[0]) * LEAST)

    def _price(self, part: BoundaryWords) -> tuple[CostOf, int]:
        if part not in self._known:
            price, words = self.costs.price(part, self.lines, self._above[part.boundary])
            self._known[part] = _SparsePrice(price, tuple(self._each(part))).of, words
        return self._known[part]

    def _each(self, part: BoundaryWords) -> Iterator[Each]:
        """What a word costs that is read, filled or updated."""
        level = part.level if part.boundary == len(self.space.levels) else part.boundary
        numbers, extents = self.path.tiles[level], tuple(line.extents[level] for line in self.lines)
        for action in ("read", "fill", "update"):
            charge = self.charges.of_part(part.place, part.level, part.boundary, action)
            if charge is None:
                yield 0.0, ()
            elif self.space.has_remainders:
                tiles = Tiles(np.array([numbers]), np.array([extents]))
                yield self.charges.each_exactly(charge, tiles, self._chosen)
            else:
                yield self.charges.each(charge, numbers, self._chosen)

    def arranged(self, mapspace: Mapspace, orders: Sequence[Dims]) -> Iterator[Mapping]:
        """Yield the mappings with these orders, in all arrangements of spatial loops that may differ."""
        mapping, places = self.mapping(orders), mapspace.architecture.fanout_indices
        needed, dims = self.charges.needed(self._chosen.fanouts), mapspace.problem.dims
        rows = zip(mapspace.architecture.fanouts, mapspace.spatial, self._chosen.fanouts, strict=True)
        options = [
            arrangements(
                fanout,
                SideOrder.of(rules, dims),
                spatial_factors(self.space.active, vector),
                needed is not None or self.orders.is_crossed(number, vector),
                needed is not None and not needed.needs_all(number),
            )
            for number, (fanout, rules, vector) in enumerate(rows)
        ]
        for fanouts in product(*options):
            chosen = dict(zip(places, fanouts, strict=True))
            yield replace(
                mapping, nodes=tuple(chosen.get(place, own) for place, own in enumerate(mapping.nodes))
            )


@dataclass(frozen=True)
class _SparsePrice:
    """What dense words of a part cost, at least.

    Parameters
    ----------
    price
        It says how many words are read, filled and updated.
    each
        Of these, energy and cycles of a word of all instances together.
    """

    price: BoundaryPrice
    each: tuple[Each, ...]

    def of(self, words: int) -> Cost:
        """Parts of energy units, and of cycles by resource."""
        energy, loads = 0.0, [0.0] * len(self.price.rates)
        for number, (own, cycles) in zip(self.price.counts(words), self.each, strict=True):
            energy += number * own
            for resource, each in cycles:
                loads[resource] += number * each / self.price.used
        parts = (math.floor(own * LEAST * FIXED_POINT) for own in loads)
        return Cost(math.floor(energy * LEAST), tuple(parts))


class SparseCosts(BoundaryCosts):
    """Words of all instances together; loads are counted in `FIXED_POINT` parts of a cycle."""

    def by_instance(self, part: BoundaryWords, lines: Sequence[DimLoops]) -> Iterator[BoundaryWords]:
        """All instances together."""
        del lines
        yield part

    @cached_property
    def units(self) -> tuple[int, ...]:
        """Parts of a cycle, by resource."""
        return (FIXED_POINT,) * len(self._space.resources)


class SparseRuledCosts(SparseCosts, RuledCosts):
    """Words of all instances together by Timeloop's rule, those of windows at least."""
