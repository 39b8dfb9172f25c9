"""Bounds on mappings of sparse data, and the enumeration of those that bounds leave open.

Of the words of dense data, at least a share is left: what a tile of the level inside holds, what units leave
if they see no more than certain boxes, what metadata takes. docs/certificates.md explains why shares hold.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from math import inf, prod
from operator import ge
from typing import Any, NamedTuple

import numpy as np

from solver.certificate.checker.bounds import Charge, Choices
from solver.certificate.checker.claims import (
    EXACT,
    SLACK,
    Array,
    Cost,
    Json,
    Levels,
    Loops,
    Mask,
    Number,
    Query,
    satisfies,
)
from solver.certificate.checker.dataspaces import Extent, Whole, divisors
from solver.certificate.checker.remainders import Bandwidth
from solver.certificate.checker.sparse import HAIR, UNIT, Sides, Sparse, Unit, millionths
from solver.certificate.checker.tables import Point, Tables

MORE = 1 + 1e-12  # doubles err by less
MOST_COSTS = 1 << 17  # of mappings that are known at once
ROUNDED = 3  # computations that rounding takes away at most, one of each kind

Fans = Mapping[int, Sequence[Any]]  # by fanout, spatial factors for each dimension, or arrays of them


class Saver(NamedTuple):
    """A unit that may save accesses."""

    place: int
    conditions: list[int]
    skips: bool


class LeastLeft:
    """The least that is left of the accesses to one dataspace, by the boxes that meet them."""

    def __init__(self, space: Sparse, v: int, kept: Levels) -> None:
        self.space, self.v, self.kept, self.tensor = space, v, kept, space.tensors[v]
        self.savers = [*self.found()]
        units = (unit for p in space.stores for unit in space.has[p]["units"])
        options = (unit["options"] for unit in units if any(own["target"] == v for own in unit["options"]))
        self.alone = all(own["target"] == v for own in chain(*options))  # no unit serves others instead
        self.layout = {p: space.has[p]["layouts"][v] for p in kept}

    def found(self) -> Iterator[Saver]:
        """Units that may save accesses to the dataspace: all options, whichever is chosen."""
        for p in self.space.stores:
            place = max((q for q in self.kept if q <= p), default=None)
            units = self.space.has[p]["units"]
            if place is None:
                continue
            for unit in (own for own in units if own["kind"] != "skipping_spatial"):
                options = (own for own in unit["options"] if own["target"] == self.v)
                yield from (Saver(place, own["conditions"], unit["kind"] == "skipping") for own in options)

    def child(self, p: int) -> int | None:
        """The next keeping level inside of `p`."""
        return next((q for q in self.kept if q > p), None)

    def splits(self, saver: Saver) -> bool:
        """Whether an access may meet less than a tile: with loops in time between fanouts and the tile."""
        child, space = self.child(saver.place), self.space
        inside = [q for q in space.stores if saver.place < q and (child is None or q < child)]
        common = (space.dims[self.v] & space.dims[c] for c in saver.conditions)
        fans = any(saver.place < f < q for f in space.fans for q in inside)
        return fans and any(len(own) > 1 for own in common)

    def scalar(self, child: int | None) -> bool:
        """Whether a child, or the arithmetic (None), has one iteration in time of each access."""
        return child is None and not any(f > self.space.stores[-1] for f in self.space.fans)

    def useless(self, saver: Saver, box: Extent) -> Number:
        """Chance of an access to be useless, at most, if the iterations of a box meet it."""
        useful = 1.0
        for c in saver.conditions:
            useful = useful * (1 - self.space.empty_at_most(c, box))
        return 1 - useful

    def word_useless(self, saver: Saver, fans: Fans) -> Number:
        """Chance of an access to be useless, at most, that serves the arithmetic of all children at once."""
        return self.useless(saver, self.beside(saver, [1] * len(self.space.bounds), fans))

    def beside(self, saver: Saver, box: Extent, fans: Fans, start: int | None = None) -> list[Number]:
        """A box of iterations of what is inside of node `start`, with all that children do of it at once."""
        child, own = self.child(saver.place), self.space.dims[self.v]
        between = [
            f
            for f in fans
            if (child is None or f < child) and saver.place < f and (start is None or f < start)
        ]
        every = enumerate(zip(box, self.space.bounds, strict=True))
        return [
            n if d in own else np.minimum(n * prod(fans[f][d] for f in between), bound)
            for d, (n, bound) in every
        ]

    def seen(
        self, saver: Saver, source: int | None, tile: Extent | None, box: Extent | None, end: int, fans: Fans
    ) -> Number:
        """Chance to be useless, at most, for a `tile` that stays until node `end` around a `box`."""
        if source is None or tile is None or box is None:
            return self.word_useless(saver, fans)
        own = self.space.dims[self.v]
        far = end > saver.place  # loops that leave the tile in place outside of the unit do not count
        outer = self.beside(saver, box, fans, end) if far else self.beside(saver, tile, fans)
        least: Extent = [1 + 0 * x for x in tile] if self.splits(saver) else tile
        met = [x if d in own else y for d, (x, y) in enumerate(zip(least, outer, strict=True))]
        return self.useless(saver, met)

    def weights(
        self, charge: Charge, tile: Extent | None, box: Extent | None, end: int, fans: Fans
    ) -> tuple[Number, Number]:
        """Energy, and words that bandwidths carry, per word of dense data of one instance, at least.

        `fans` has, by fanout, a spatial factor for each dimension, or an array of them.
        """
        source, p, action = charge.source, charge.access.p, charge.access.action
        has, outer, own = self.space.has[p], 0.0, 0.0
        savers = [
            saver for saver in self.savers if saver.place < p or (saver.place == p and action != "fill")
        ]
        skipped = 0.0
        for saver in savers:
            chance = self.seen(saver, source, tile, box, end, fans)
            if saver.place < p:
                outer = np.maximum(outer, chance)
            else:
                own = np.maximum(own, chance)
            if saver.place < p or saver.skips:
                skipped = np.maximum(skipped, chance)
        saved, held = np.maximum(outer, own), self.stored(p, source, tile)
        kinds = {("skipped_" if saver.skips else "gated_") + action for saver in savers}
        idle = (
            0
            if any(saver.place < p for saver in savers)
            else min((has["energy"].get(kind, 0) * has["rows"][self.v] for kind in kinds), default=0)
        )
        spread = self.arriving(p, source, tile) if charge.block > 1 and self.layout[p] else 1.0
        data = (
            held * spread * np.minimum(charge.price, (1 - saved) * charge.price + saved * idle) / charge.block
        )
        bits = self.bits(p, source, tile, action)
        each, width = has["energy"].get("metadata_" + action, 0), has["metadata_width_bits"]
        metadata = bits * (1 - saved) * each / width if width else 0.0
        sure, lasts = self.confidence(p), self.lasts(p)
        return (data + metadata) * sure * lasts, (held + bits / has["word_bits"]) * (1 - skipped) * lasts

    def confidence(self, p: int) -> float:
        """Share of the cases in which tiles fit at least."""
        has = self.space.has[p]
        layout = self.layout[p]
        packs = layout is not None and self.space.packs(layout)
        overbooks = has["allow_overbooking"] and has["limited"] and packs
        return 1 - has["max_overbooked"][0] / has["max_overbooked"][1] if overbooks else 1.0

    def lasts(self, p: int) -> float:
        """Whether all instances of a level are in use: skipping instances may save those below fanouts."""
        return 0.0 if self.space.skips and any(f < p for f in self.space.fans) else 1.0

    def slack(self, charge: Charge) -> tuple[float, float]:
        """Energy, and words, that rounding takes away of one instance's accesses."""
        access = charge.access
        reads = self.space.spaces[self.v].rw and access.action == "read"
        rounds = reads and any(saver.place == access.p for saver in self.savers)
        return (charge.price if rounds else 0.0), (1.0 if rounds else 0.0) + (
            1.0 if self.layout[access.p] else 0.0
        )

    def stored(self, p: int, source: int | None, tile: Extent | None) -> Number:
        """Share of the words of dense data that are at level `p`, of all instances."""
        if self.layout[p]:
            return self.space.least_density(self.v)
        return self.arriving(p, source, tile)

    def arriving(self, p: int, source: int | None, tile: Extent | None) -> Number:
        """Share of tiles that come to level `p`: the next outer one knows which are empty."""
        parent = max((q for q in self.kept if q < p), default=None)
        if parent is None or not self.layout[parent]:
            return 1.0
        return 1 - self.space.empty_at_most(self.v, None if source is None else tile)

    def bits(self, p: int, source: int | None, tile: Extent | None, action: str) -> Number:
        """Bits of metadata per word of dense data."""
        layout = self.layout[p]
        if layout is None:
            return 0.0
        density, ranks = self.space.least_density(self.v), layout["fibers"]
        simple = self.space.spaces[self.v].dense
        full = 1 - self.space.empty_at_most(self.v, None if source is None else tile)
        if len(ranks) == 1:
            words = {"UOP": 0.0, "CP": density, "RLE": density, "B": full, "UB": full}
            return words[ranks[0]["kind"]] * ranks[0]["metadata_bits"] * simple
        child = self.child(p)
        if not simple:
            return 0.0
        sure = all(rank["kind"] != "UOP" and self.takes_any_loop(rank) for rank in ranks)
        least = density * min(rank["metadata_bits"] for rank in ranks) if sure else 0.0
        if not (
            self.space.packs(layout) and child is not None and source == child and not self.layout[child]
        ):
            return least
        assert tile is not None
        words = self.space.spaces[self.v].tile(tile)
        if type(self.tensor).__name__ == "Even":
            filled = np.minimum(1, words * density)
            full = np.maximum(np.clip(words * density - 1, 0, 1), np.maximum(filled - 1 / 8, 0))
        units = {"UOP": 0.0, "CP": density * full, "RLE": density * full, "B": full, "UB": full}
        return np.maximum(
            np.where(words > 1, units[ranks[0]["kind"]] * ranks[0]["metadata_bits"], 0.0), least
        )

    def takes_any_loop(self, rank: Json) -> bool:
        """Whether a rank is never left out as it flattens other dimensions than the next loop's."""
        return not rank["flattened"] or self.space.dims[self.v] <= {*chain(*rank["flattened"])}


class Bounds:
    """What all choices of a mapspace have in common."""

    def __init__(self, space: Sparse) -> None:
        self.space = space
        self.shares: dict[tuple[int, Levels], LeastLeft] = {}
        self.per_choice = Choices(space)
        self.floors: dict[tuple[int, Levels], tuple[Array, dict[tuple[int, str], Any]]] = {}
        self.costs: dict[tuple[Any, ...], Cost] = {}

    def price(self, loops: Loops, mask: Mask, sides: Sides) -> Cost:
        """The cost of a mapping; for each interval of cycles the same ones are left open."""
        key = tuple(tuple(own.items()) for own in loops), mask, tuple(sides.items())
        if key not in self.costs:
            if len(self.costs) >= MOST_COSTS:
                self.costs.clear()
            self.costs[key] = self.space.price(loops, mask, sides)
        return self.costs[key]

    def shares_of(self, v: int, kept: Levels) -> LeastLeft:
        """The shares of a dataspace, by the levels that keep it."""
        if (v, kept) not in self.shares:
            self.shares[v, kept] = LeastLeft(self.space, v, kept)
        return self.shares[v, kept]

    def rates(self, charge: Charge) -> Mapping[Bandwidth, Any]:
        """Cycles that a word of an access takes of the limited bandwidths that it loads."""
        return self.space.rates(charge.access.v, charge.access.p, charge.access.kind)

    def arithmetic(self, mask: Mask, fans: Fans) -> tuple[Number, Number]:
        """Energy of the arithmetic and computations that take time, at least, for some spatial factors."""
        space = self.space
        if space.skips:
            return 0.0, 0.0
        units = [self.innermost(v, mask[v], fans) for v in space.operands]
        chances = np.broadcast_arrays(*(unit.chance if unit else 0.0 for unit in units))
        different, places = np.unique(np.stack([own.ravel() for own in chances]), axis=1, return_inverse=True)
        costs = [self.computed(mask, units, own) for own in different.T.tolist()]
        shape = chances[0].shape
        energy, busy = (np.array(own)[places.ravel()].reshape(shape) for own in zip(*costs, strict=True))
        return energy, busy

    def computed(
        self, mask: Mask, units: Sequence[Unit | None], chances: Sequence[float]
    ) -> tuple[float, float]:
        """Energy of the arithmetic and computations that take time, if units save certain shares at most."""
        space, prices = self.space, self.space.doc["compute"]["energy"]
        sure = len(units) == 2 and all(self.certain(v, mask[v]) for v in space.operands)
        total, passed = self.let_by(units, chances, sure)
        states = [space.states(v, passed.get(v), mask) for v in space.operands]
        kinds = space.by_kind(max(total, 0.0), states)
        made, gated = (max(0.0, n * (1 - SLACK) - ROUNDED) for n in kinds[:2])
        if sure:
            made, gated = total - sum(math.floor(n * MORE) for n in kinds[1:]), math.floor(kinds[1] / MORE)
        return made * space.compute_energy + gated * prices.get("gated_compute", 0), made + gated

    def let_by(
        self, units: Sequence[Unit | None], chances: Sequence[float], sure: bool
    ) -> tuple[float, dict[int, float]]:
        """Computations that units leave, at least, and by operand the share of cases, at most."""
        space, total = self.space, float(self.space.computes)
        if len(units) != 2:
            named = {c for unit in units if unit for c, _ in unit.empty}
            passed = {c: 1 - space.empty_at_most(c, None) + HAIR for c in named}
            return total * prod(1 - space.empty_at_most(c, None) for c in named), passed
        seen = [
            (v, chance) for v, unit, chance in zip(space.operands[::-1], units, chances, strict=True) if unit
        ]
        for _, chance in seen:
            total -= math.floor(total * chance * MORE) if sure else total * chance
        if sure:
            return total, {v: 1 - millionths(chance / MORE) for v, chance in seen}
        return total, {v: 1 - chance + HAIR for v, chance in seen}

    def certain(self, v: int, kept: Levels) -> bool:
        """Whether the units of an operand surely see what single computations need, and no others."""
        own = self.shares_of(v, kept)
        block = self.space.at[kept[-1]][v]["block"]
        return not own.savers or (
            block == 1
            and own.scalar(None)
            and all(saver.place == kept[-1] for saver in own.savers)
            and own.alone
        )

    def innermost(self, v: int, kept: Levels, fans: Fans) -> Unit | None:
        """The most that the innermost unit of an operand may save; None if it has none."""
        own = self.shares_of(v, kept)
        if not own.savers:
            return None
        empty = tuple((c, 0.0) for saver in own.savers for c in saver.conditions)
        chances = [own.word_useless(saver, fans) for saver in own.savers]
        return Unit(np.maximum.reduce(np.broadcast_arrays(*chances)), True, empty)

    @property
    def fans(self) -> dict[int, list[Array]]:
        """By fanout, spatial factors for each dimension, as arrays over the choices."""
        space = self.space
        return {p: list(own.T) for p, own in zip(space.fans, np.moveaxis(space.spatial, 1, 0), strict=True)}

    def floor(self, v: int, kept: Levels) -> tuple[Array, Mapping[tuple[int, str], Any]]:
        """Per choice, energy of a dataspace, and cycles by bandwidth, at least."""
        if (v, kept) not in self.floors:
            energy: Array = 0.0 * self.per_choice.steps
            loads: list[tuple[tuple[int, str], Any]] = []
            cycles: dict[tuple[int, str], Any] = defaultdict(float)
            for charge in self.per_choice.charges(v, kept):
                costs, words = self.least_cost(v, kept, charge)
                energy = energy + charge.paying * costs
                loads += [(way, float(rate) * words) for way, rate in self.rates(charge).items()]
            for way, load in loads:
                cycles[way] = cycles[way] + load
            self.floors[v, kept] = energy, cycles
        return self.floors[v, kept]

    def least_cost(self, v: int, kept: Levels, charge: Charge) -> list[Number]:
        """Energy, and words carried, of one instance's accesses, at least, per choice."""
        floors, own = self.per_choice, self.shares_of(v, kept)
        relevant, source = floors.spaces[v].relevant, charge.source
        above = 1 if source is None else prod(floors.around[source][d] for d in relevant)
        times = charge.times * (floors.steps if charge.source is None else 1 / above)
        pairs = zip(*self.least(own, charge), own.slack(charge), strict=True)
        return [np.maximum(least * times - most * charge.first - slack, 0) for least, most, slack in pairs]

    def least(self, own: LeastLeft, charge: Charge) -> tuple[Sequence[Number], Sequence[Number]]:
        """Energy and words carried, over all tiles that fit: of all words the least, of one the most."""
        space, c = self.space, charge.source
        if c is None:
            weights = own.weights(charge, None, None, 0, self.fans)
            return weights, weights
        tile = [
            np.array(divisors(n) if d in space.spaces[own.v].relevant else [1])
            for d, n in enumerate(space.bounds)
        ]
        tile = list(np.ix_(*tile))
        left = [side.max() // side for side in tile]
        words = space.spaces[own.v].few_words(tile, tile, left, prod(left))
        fits = space.room(own.v, c, tile) <= space.sizes[c][1] if space.has[c]["limited"] else True
        weights = own.weights(charge, tile, [1 + 0 * side for side in tile], len(space.nodes), {})
        return [np.where(fits, words * weight, EXACT).min() for weight in weights], [*map(np.max, weights)]


class SparseChoice(Tables):
    """Keep sets and spatial factors; the temporal loops are open.

    The first cost is energy; each other one the same with cycles of a bandwidth, at a slope that the limits
    give.
    """

    space: Sparse
    compare = staticmethod(ge)

    def __init__(self, bounds: Bounds, mask: Mask, i: int, query: Query, low: int, high: int | float) -> None:
        space = bounds.space
        rows = zip(space.fans, space.spatial[i].tolist(), strict=True)
        super().__init__(space, mask, {p: tuple(own) for p, own in rows})
        self.bounds_of = bounds
        self.prices: dict[tuple[int, int | None], list[Charge]] = defaultdict(list)
        for v, kept in enumerate(mask):
            for charge in bounds.per_choice.charges(v, kept):
                self.prices[v, charge.source].append(charge.of(i))
        self.aim(query, low, high)
        operands = [self.priced(v, None, None, None, 0) for v in range(len(mask))]
        self.limits -= sum(self.charge(prices, self.steps) for prices in operands)
        self.sides = [*self.arrangements(self.loops(self.origin))]
        self.prepare()

    def aim(self, query: Query, low: int, high: int | float) -> None:
        """Limits of energy, and of energy with the cycles of each bandwidth, for mappings with these."""
        ways = {*chain(*map(self.bounds_of.rates, chain(*self.prices.values())))}
        energy = min(query.energy, query.edp / low if low else inf) / UNIT
        counted = min(query.latency, query.edp) < inf
        self.ways = sorted(ways) if counted and high < inf else []
        self.costs_energy = energy < inf
        self.slope = energy / low if energy < inf and low else 1.0
        arithmetic, _ = self.bounds_of.arithmetic(self.mask, self.used)
        fixed = arithmetic + self.leak() * (low - self.space.latency)
        limit = energy - fixed if self.costs_energy else 0.0
        limits = [limit if self.costs_energy else inf, *(limit + self.slope * high for _ in self.ways)]
        self.limits = np.array(limits) + SLACK * (np.abs(limits) + abs(fixed)) + SLACK
        self.factor = np.array([1.0 if self.costs_energy else 0.0] * len(limits))

    def leak(self) -> int:
        """Leakage per cycle at least: of instances that may have nothing to do, one."""
        total, space = 0, self.space
        for p in space.stores:
            node, has = space.nodes[p], space.has[p]
            used = prod(prod(self.used[q]) for q in node["leak_fanouts"])
            kept = [v for v, own in enumerate(self.mask) if p in own]
            if has["leaks_in_use"] and kept and (space.skips or all(self.idles(v, p) for v in kept)):
                used = 1
            total += node["leak"] * used
        return total

    def idles(self, v: int, p: int) -> bool:
        """Whether empty tiles of a dataspace do not come to a level."""
        parent = max((q for q in self.mask[v] if q < p), default=None)
        return parent is not None and self.space.has[parent]["layouts"][v] is not None

    def priced(
        self, v: int, source: int | None, tile: Extent | None, box: Extent | None, end: int
    ) -> list[Any]:
        """Weights of each access of the words that go to `source`, see `LeastLeft.weights`."""
        own, found = self.bounds_of.shares_of(v, self.mask[v]), []
        tile, box = (None if sides is None else [*map(np.asarray, sides)] for sides in (tile, box))
        for charge in self.prices[v, source]:
            energy, words = own.weights(charge, tile, box, end, self.used)
            spare = own.slack(charge)
            rates = self.bounds_of.rates(charge)
            loads = [float(rates.get(way, 0)) * self.slope for way in self.ways]
            columns = [energy * charge.paying * self.factor[0]]
            columns += [columns[0] + load * words for load in loads]
            slack = [spare[0] * charge.paying * self.factor[0]]
            slack += [slack[0] + load * spare[1] for load in loads]
            found.append((charge.times, charge.first, columns, slack))
        return found

    def charge(self, prices: Iterable[Any], words: Number) -> Array:
        """Costs of the accesses that words cause at least, along a last axis."""
        total: Any = 0.0
        for times, first, columns, slack in prices:
            count = np.maximum(words * times - first, 0)
            total = total + np.stack(
                np.broadcast_arrays(
                    *(np.maximum(count * own - less, 0) for own, less in zip(columns, slack, strict=True))
                ),
                axis=-1,
            )
        return np.asarray(total)

    def cost(self, v: int, asking: int, n: int) -> Array:
        """Costs at every point of what a level gets of a dataspace, whose reuse ends at node `n`."""
        tile, box = self.extents(asking, self.cell), self.extents(n, self.cell)
        words = self.spaces[v].few_words(tile, box, self.cell, prod(self.cell))
        return self.charge(self.priced(v, asking, tile, box, n), words)

    def boundary(self, p: int) -> Array:
        """Costs of leaving level `p`: for what it gets without reuse; infinite if its tiles do not fit."""
        extent, (least, most), has = self.extents(p, self.cell), self.space.sizes[p], self.space.has[p]
        kept = [v for v, levels in enumerate(self.mask) if p in levels]
        cost: Any = sum(self.cost(v, p, p) for v in kept if p != self.mask[v][0] and p not in self.reused[v])
        if not has["limited"]:
            return np.asarray(cost + 0.0 * (self.end == 0))
        size = sum(self.space.room(v, p, extent) for v in kept) + 0 * prod(self.cell)
        least = 0 if has["allow_overbooking"] else least
        return np.asarray(cost + np.where((least <= size) & (size <= most), 0.0, inf)[..., None])

    # ------------------------------------------------------------------------------------------ walk

    def settle(self, at: Point, query: Query) -> Cost | None:
        """The cost of a mapping with the loops of a nest that satisfies the query."""
        loops = self.loops(at)
        costs = (self.bounds_of.price(loops, self.mask, own) for own in self.sides)
        return next((cost for cost in costs if satisfies(cost, query)), None)

    def arrangements(self, spatial: Loops) -> Iterator[Sides]:
        """Yield orders of spatial loops, by fanout: one where neither formats nor units see them."""
        options = [self.space.sides(p, spatial[p]) for p in self.space.fans]
        seen = [
            self.space.skips or any(self.crosses(v, p) for v in range(len(self.mask)))
            for p in self.space.fans
        ]
        options = [own if crossed else own[:1] for own, crossed in zip(options, seen, strict=True)]
        yield from (dict(zip(self.space.fans, own, strict=True)) for own in product(*options))

    def crosses(self, v: int, p: int) -> bool:
        """Whether a fanout lies between a level with metadata or units of a dataspace and the next one."""
        keeper = max((q for q in self.mask[v] if q < p), default=None)
        own = self.bounds_of.shares_of(v, self.mask[v])
        return keeper is not None and bool(
            own.layout[keeper] or any(saver.place == keeper for saver in own.savers)
        )

    def compared(self, at: Point) -> tuple[Any, Sequence[Any]]:
        """What counts, formats and units see of a nest; and loops that leave simple dataspaces in place."""
        kinds: list[Any] = [at.p, at.cell]
        runs: list[Any] = []
        loops = self.loops(at)
        temporal = [p for p in range(self.size - 1, at.p - 1, -1) if p not in self.used and loops[p]]
        kinds += [(p, frozenset(loops[p].items())) for p in temporal]
        for p, v in product(temporal, range(len(self.mask))):
            self.told_apart(v, p, (*loops[p],), kinds, runs)
        if self.in_blocks:
            kinds.append(at.nest[:1])
        return tuple(kinds), runs

    def told_apart(self, v: int, p: int, order: Whole, kinds: list[Any], runs: list[Any]) -> None:
        """Add what sets an order of loops apart, and the loops that leave a simple dataspace in place."""
        space, own = self.spaces[v], self.bounds_of.shares_of(v, self.mask[v])
        dims = self.space.dims[v]
        first = next((i for i, d in enumerate(order) if d in dims), len(order))
        keeper = max((q for q in self.mask[v] if q < p), default=None)
        child = next((q for q in self.mask[v] if q > p), None)
        if space.dense:
            runs.append(frozenset(order[:first]) if child is not None else frozenset())
        else:
            still = tuple(frozenset(g) for g in gaps(order, dims))
            kinds.append((still, tuple(d for d in order if d in dims)))
        if keeper is not None and own.layout[keeper]:
            kinds.append(tuple(d for d in order if d in dims))
        if child is not None and any(saver.place == keeper for saver in own.savers):
            kinds.append((frozenset(order[:first]), order[first : first + 1]))

    @property
    def in_blocks(self) -> bool:
        """Whether units see more than one word at a time of what serves the arithmetic."""
        pairs = (
            (v, saver)
            for v, kept in enumerate(self.mask)
            for saver in self.bounds_of.shares_of(v, kept).savers
        )
        return any(self.space.at[saver.place][v]["block"] > 1 for v, saver in pairs)


def gaps(order: Iterable[int], dims: Collection[int]) -> list[list[int]]:
    """Between loops over some dimensions, those over others."""
    found: list[list[int]] = [[]]
    for d in order:
        if d in dims:
            found.append([])
        else:
            found[-1].append(d)
    return found


def decide_sparse(
    bounds: Bounds, query: Query, low: int, high: int | float, mask: Mask, i: int
) -> Cost | None:
    """The cost of a mapping with cycles from `low` to `high` that satisfies the query, None if none does."""
    if low > high:
        return None
    tables = SparseChoice(bounds, mask, i, query, low, high)
    if not tables.open:
        return None
    if query.edp == inf or not 1.05 * low < high < inf:
        return tables.search(query)
    middle = math.isqrt(low * int(high))
    return decide_sparse(bounds, query, low, middle, mask, i) or decide_sparse(
        bounds, query, middle + 1, high, mask, i
    )


def refute_sparse(space: Sparse, query: Query) -> Cost | None:
    """The cost of a mapping of sparse data that satisfies the query, None if the mapspace has none."""
    bounds = Bounds(space)
    choices = choices_left_open(bounds, query)
    return next(filter(None, (decide_sparse(bounds, query, *choice) for choice in choices)), None)


def choices_left_open(bounds: Bounds, query: Query) -> Iterator[tuple[int, int | float, Mask, int]]:
    """Yield least and most cycles, keep sets and number of the choices that floors leave open."""
    space = bounds.space
    if not len(space.spatial):
        return
    for mask in filter(space.exchangeable, product(*(own.keep for own in space.spaces))):
        arithmetic, steps = bounds.arithmetic(mask, bounds.fans)
        energies, loads = zip(*(bounds.floor(v, kept) for v, kept in enumerate(mask)), strict=True)
        energy = (sum(energies) + arithmetic) * (1 - SLACK) * UNIT
        slow = [sum(load[way] for load in loads if way in load) for way in {*chain(*loads)}]
        busy = np.ceil(np.array([steps / space.spatial.prod(axis=(1, 2)), *slow]) * (1 - SLACK)).max(axis=0)
        cycles = np.maximum(busy, 1) + space.latency
        within = (energy <= query.energy) & (cycles <= query.latency) & (energy * cycles <= query.edp)
        for i in np.flatnonzero(within):
            counted = query.edp < inf and energy[i] > 0
            most = int(query.edp / energy[i] * (1 + SLACK)) + 1 if counted else inf
            yield int(cycles[i]), min(query.latency, most), mask, int(i)
