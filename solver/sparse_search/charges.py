"""What words cost along paths where data are sparse: the least shares of dense words, by tile and choice."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from model.sparse import FIXED_POINT
from model.sparse.density import Banded
from solver.search.arrays import BoolArray, FloatArray, IntArray, alike
from solver.search.path.charges import ENERGY, Charge, Charges, Price, SpatialRows
from solver.search.path.unrolled import Loosest, Unrolled
from solver.search.space.prices import LevelAccess
from solver.search.space.spatial import StageChoice
from solver.search.stopping import heed
from solver.sparse_search.chances import cut, of_any
from solver.sparse_search.choices import Chains
from solver.sparse_search.grid import Cells, Columns, TileGrid, Vector
from solver.sparse_search.instances import Kinds, NeededInstances
from solver.sparse_search.shares import LeastShares, Parts, Saver

LEAST = 1 - 1e-9
"""Sums of doubles err by far less than this share."""

FINELY = 4096
"""Parts of a whole that shares of saved accesses are rounded up to where many are looked at."""

MOST_KNOWN = 1 << 14
"""Tiles of known extents whose figures are remembered."""

Each = tuple[float, tuple[tuple[int, float], ...]]
"""Energy of a word, and its cycles by resource."""

Rows = float | FloatArray
"""A number for each row, or one for all."""


class Tiles(NamedTuple):
    """Tiles by their numbers, shape (rows, dimensions), and by their extents where these are known."""

    numbers: IntArray
    extents: IntArray | None = None


@dataclass
class Figures:
    """Chances that tiles are empty, and what words cost, each computed once for all masks.

    Parameters
    ----------
    shares, grid, kinds
        Figures of all tiles, these, and kinds of spatial choices.
    live
        Per slot, dimensions over which it may have loops.
    """

    shares: LeastShares
    grid: TileGrid
    kinds: Kinds
    live: tuple[frozenset[int], ...]
    _empty: dict[str, dict[tuple[int, ...], float]] = field(default_factory=dict)
    _parts: dict[object, Parts] = field(default_factory=dict)
    _exact: dict[tuple[Vector, Vector], LeastShares] = field(default_factory=dict)

    def parts(self, name: str, chain: tuple[int, ...], access: LevelAccess) -> Parts:
        """See `LeastShares.parts`; remembered."""
        key = name, chain, access
        if key not in self._parts:
            self._parts[key] = self.shares.parts(name, chain, access)
        return self._parts[key]

    def exactly(self, numbers: Vector, extents: Vector) -> LeastShares:
        """Figures of one tile whose extents are known."""
        if len(self._exact) >= MOST_KNOWN:
            self._exact.clear()
        if (numbers, extents) not in self._exact:
            self._exact[numbers, extents] = self.shares.of(Cells.exactly(numbers, extents))
        return self._exact[numbers, extents]

    def useless(
        self, saver: Saver, chain: tuple[int, ...], tiles: Tiles | None, unrolled: SpatialRows, once: bool
    ) -> FloatArray:
        """Chance of an access of a unit to be useless, at most, by row.

        Parameters
        ----------
        tiles
            Those at the next inner level, or such as are no larger; None where an access serves single
            computations.
        once
            Whether each access counts as much as others; else as much as it serves computations.
        """
        shares = self.shares
        effectual = np.ones(1)
        for condition in saver.option.conditions:
            if shares.in_blocks(saver, condition):
                return np.ones(1)
            if self.grid.divides:
                chance = self._empty_around(saver, chain, condition, tiles, unrolled)
            else:
                chance = self._empty_on_average(saver, chain, condition, tiles, unrolled, once)
            effectual = effectual * (1 - chance)
        most: FloatArray = 1 - effectual
        return most

    def _met(self, saver: Saver, chain: tuple[int, ...], unrolled: SpatialRows) -> IntArray:
        """Iterations in space that share an access of a unit's target, shape (rows or 1, dimensions)."""
        child, axes = self.shares.meeting(saver, chain)
        met = np.ones((1, len(self.grid.dims)), dtype=np.int64)
        if axes:
            copies = unrolled.copies(saver.place, child)
            met = np.repeat(met, len(copies), axis=0)
            met[:, axes] = copies[:, axes]
        return met

    def _empty_around(
        self, saver: Saver, chain: tuple[int, ...], name: str, tiles: Tiles | None, unrolled: SpatialRows
    ) -> FloatArray:
        """Chance of what tiles touch, in all children that share it, to be empty, at most."""
        shares, bounds = self.shares, np.array(self.grid.bounds, dtype=np.int64)
        single = shares.splits(saver, chain) if tiles is not None else ()
        if isinstance(shares.distributions[name], Banded):
            if tiles is None or single:
                return np.array([shares.one_empty(name)])
            return self.grid.at(shares.empty(name), self.grid.places(tiles.numbers))
        iterations = self._met(saver, chain, unrolled)
        if tiles is not None:
            own = bounds // tiles.numbers
            own[:, list(single)] = 1
            iterations = np.minimum(own * iterations, bounds)
        return self._empty_boxes(name, iterations)

    def _empty_boxes(self, name: str, iterations: IntArray) -> FloatArray:
        """Chance of what some iterations touch to be empty, by row."""
        tensor, figure = self.shares.tensors[name], self.shares.distributions[name].empty
        codes = np.zeros(len(iterations), dtype=np.int64)
        for axis in tensor.axes:
            codes = codes * (self.grid.bounds[axis] + 1) + iterations[:, axis]
        _, firsts, kinds = np.unique(codes, return_index=True, return_inverse=True)
        known = self._empty.setdefault(name, {})
        found = []
        ranks = tensor.ranks_of(tuple(iterations[firsts].T))
        shapes = zip(*(np.broadcast_to(own, len(firsts)).tolist() for own in ranks), strict=True)
        for shape in shapes if ranks else ((),):
            if shape not in known:
                known[shape] = figure(shape)
            found.append(known[shape])
        return np.array(found, dtype=np.float64)[kinds.reshape(-1)]

    def _empty_on_average(
        self,
        saver: Saver,
        chain: tuple[int, ...],
        name: str,
        tiles: Tiles | None,
        unrolled: SpatialRows,
        once: bool,
    ) -> FloatArray:
        """Chance to be empty where last tiles may be short: an average over accesses or computations."""
        shares, axes = self.shares, self.shares.tensors[name].axes
        child, met = shares.meeting(saver, chain)
        target = shares.tensors[saver.option.target].axes
        splits = shares.splits(saver, chain)
        loosely = bool(splits) or shares.is_blocked(saver)
        one, columns = np.ones(1, dtype=np.int64), []
        for d in axes:
            numbers = one * self.grid.bounds[d] if tiles is None else tiles.numbers[:, d]
            together = aligned = one
            if d in met:
                stage = self._adjoining(saver.place, child, d)
                together = unrolled.copies(stage, child)[:, d]
                aligned = (together == unrolled.product(stage, child)[:, d]).astype(np.int64)
            columns.append((numbers, together, aligned))
        every = np.broadcast_arrays(one, *(own for column in columns for own in column))
        firsts, places = alike(np.column_stack(every))
        sizes = {}
        for d, column in zip(axes, columns, strict=True):
            numbers, together, aligned = (own[firsts] if len(own) > 1 else own for own in column)
            axis, is_once = self.grid.axes[d], once and d not in target
            place = axis.place(numbers)
            least, longest = axis.least[place], axis.longest[place]
            if tiles is not None and tiles.extents is not None:
                least = longest = tiles.extents[:, d]
            if loosely:
                full = one if d in splits else least * together
                sizes[d] = of_any(axis.bound, full, is_once)
            else:
                sizes[d] = cut(axis.bound, numbers, least, longest, together, aligned == 1, is_once)
        return np.broadcast_to(shares.mean_empty(name, sizes), len(firsts))[places]

    def _adjoining(self, place: int, child: int, dim: int) -> int:
        """The first stage from which on no loops over a dimension lie in between the children of stages."""
        stage = child - 1
        while stage > place and dim not in self.live[stage]:
            stage -= 1
        return stage


@dataclass(frozen=True)
class SparseCharges(Charges):
    """All accesses to sparse data under one keep mask, in parts of an energy unit (`FIXED_POINT`).

    Parameters
    ----------
    figures
        What all masks share.
    """

    figures: Figures = field(kw_only=True)

    @property
    def are_sparse(self) -> bool:
        """They are."""
        return True

    @cached_property
    def chains(self) -> tuple[tuple[int, ...], ...]:
        """Levels that keep each dataspace."""
        return self.space.chains(self.mask)

    @cached_property
    def named(self) -> Chains:
        """Levels that keep each dataspace, by its name."""
        return {view.name: chain for view, chain in zip(self.space.views, self.chains, strict=True)}

    # ------------------------------------------------------------------------------------------ words

    def _of(self, place: int) -> list[Charge]:
        """The accesses to a dataspace, priced as the words that cost most."""
        return [self._dearest(charge) for charge in super()._of(place)]

    def _dearest(self, charge: Charge) -> Charge:
        parts = self.parts(charge)
        price = parts.most_whole * FIXED_POINT * float(self.paying(charge.level))
        loads = ((resource, cycles * parts.most_load) for resource, cycles in charge.loads)
        busy = tuple(own for own in loads if own[1])
        return charge._replace(price=price, exact=Fraction(price), loads=busy, block=1)

    def parts(self, charge: Charge) -> Parts:
        """What words of an access cost."""
        key = charge.place, charge.level, charge.boundary, charge.action
        if key not in self._known_parts:
            name = self.space.views[charge.place].name
            self._known_parts[key] = self.figures.parts(
                name, self.chains[charge.place], _level_access(charge)
            )
        return self._known_parts[key]

    @cached_property
    def _known_parts(self) -> dict[tuple[int, int, int, str], Parts]:
        return {}

    def depend_on(self, place: int) -> tuple[object, ...]:
        """What the costs of a dataspace depend on: all that is kept where instances are skipped."""
        skips = self.figures.shares.skips_instances
        return (place, self.mask) if skips else super().depend_on(place)

    def of_part(self, place: int, level: int, boundary: int, action: str) -> Charge | None:
        """An access, None if it costs nothing."""
        return self._by_part.get((place, level, boundary, action))

    @cached_property
    def _by_part(self) -> dict[tuple[int, int, int, str], Charge]:
        return {(own.place, own.level, own.boundary, own.action): own for own in self.every}

    def share(
        self, charge: Charge, price: Price, tiles: IntArray, unrolled: SpatialRows, loose: Collection[int]
    ) -> Rows:
        """Share of the price of an access that a word costs, at least, by row."""
        parts, (whole, divided) = self.parts(charge), price.parts(charge)
        grid, dims = self.figures.grid, frozenset(loose)
        numbers, places = tiles.copy(), grid.places(tiles)
        numbers[:, sorted(dims)] = np.array(grid.bounds, dtype=np.int64)[sorted(dims)]
        rows = Tiles(numbers)
        left, lasting = self._instances(charge.place, charge.level, (places, dims), unrolled)

        def at(table: FloatArray) -> FloatArray:
            return grid.at(table, places, dims)

        load = paid = np.ones(len(tiles))
        if divided:
            useless = np.maximum(1 - left, self._cut(charge, rows, unrolled))
            load = at(parts.load) / parts.most_load * (1 - useless) * lasting * load
        if whole:
            useless = np.maximum(1 - left, self._saved_of(charge, rows, unrolled))
            paid = (
                (at(parts.whole) * (1 - useless) + at(parts.saved) * useless)
                / parts.most_whole
                * lasting
                * paid
            )
        if not (whole and divided):
            return load if divided else paid
        each = divided / unrolled.product(0, charge.level).prod(axis=1)
        both: FloatArray = (whole * paid + each * load) / (whole + each)
        return both

    # -------------------------------------------------------------------------------------- instances

    def _instances(
        self, place: int, level: int, tiles: tuple[Columns, frozenset[int]], unrolled: SpatialRows
    ) -> tuple[Rows, Rows]:
        """Shares of the accesses that units leave, and of the instances that are needed, at least; by row.

        Parameters
        ----------
        tiles
            Their places, and dimensions along which they may be smaller.
        """
        kinds = self._kinds(unrolled)
        if kinds is None:
            return 1.0, 1.0
        name, (places, loose) = self.space.views[place].name, tiles
        every, rows = np.unique(kinds, return_inverse=True)
        several = isinstance(unrolled, Loosest)
        count = len(places[0]) if places else 1
        shape = count if several else max(count, len(kinds))
        found = np.ones((2, shape))
        for number, kind in enumerate(every.tolist()):
            heed(self.space.stop)
            tables = self._needed_at(name, level, kind)
            own = np.stack([np.broadcast_to(self.figures.grid.at(t, places, loose), shape) for t in tables])
            here = np.ones(shape, dtype=np.bool_) if several else np.broadcast_to(rows == number, (shape,))
            found[:, here] = np.minimum(found[:, here], own[:, here])
        return found[0], found[1]

    def _kinds(self, unrolled: SpatialRows) -> IntArray | None:
        """Kinds of spatial choices, of several ones all of them; None if no instances are skipped."""
        if not self.figures.shares.skips_instances:
            return None
        kinds = self.figures.kinds
        if isinstance(unrolled, Unrolled):
            return kinds.numbers(unrolled.listed.members)
        assert isinstance(unrolled, OneChoice)
        return np.array([kinds.number(unrolled.fanouts)]) if unrolled.stages else None

    def needed(self, fanouts: tuple[Vector, ...]) -> NeededInstances | None:
        """The instances that are needed with some spatial factors, where units skip some."""
        if not self.figures.shares.skips_instances:
            return None
        return NeededInstances(self.figures.shares, self.named, fanouts)

    def _needed_of(self, kind: int) -> NeededInstances:
        if kind not in self._known_needed:
            vectors = self.figures.kinds.vectors[kind]
            self._known_needed[kind] = NeededInstances(self.figures.shares, self.named, vectors)
        return self._known_needed[kind]

    @cached_property
    def _known_needed(self) -> dict[int, NeededInstances]:
        return {}

    def _needed_at(self, name: str, level: int, kind: int) -> tuple[FloatArray, FloatArray]:
        key = name, level, kind
        if key not in self._known_tables:
            own = self._needed_of(kind)
            self._known_tables[key] = own.kept(name, level), own.least(name, level)
        return self._known_tables[key]

    @cached_property
    def _known_tables(self) -> dict[object, tuple[FloatArray, FloatArray]]:
        return {}

    def _fits(self, unrolled: SpatialRows) -> BoolArray:
        """Which spatial choices fit meshes as far as all children are needed."""
        kinds = self._kinds(unrolled)
        if kinds is None or not isinstance(unrolled, Unrolled) or isinstance(unrolled, Loosest):
            return np.ones(1, dtype=np.bool_)
        every, rows = np.unique(kinds, return_inverse=True)
        fits, number = np.ones(len(kinds), dtype=np.bool_), 0
        for members, stage in zip(unrolled.members, self.space.stages, strict=True):
            for _ in stage.fanouts:
                free = np.array([not self._needed_of(kind).needs_all(number) for kind in every.tolist()])
                fits = fits & (free[rows.reshape(-1)] | self.figures.kinds.fits[number][members])
                number += 1
        return fits

    # -------------------------------------------------------------------------------------- words

    def each(self, charge: Charge, tiles: tuple[int, ...], unrolled: OneChoice) -> Each:
        """What a word costs, at least, with one vector of numbers of tiles and one spatial choice."""
        key = charge, tiles, unrolled.fanouts
        if key not in self._known_each:
            row = np.array([tiles], dtype=np.int64)
            paid = float(np.min(self.share(charge, ENERGY, row, unrolled, ()))) if charge.price else 0.0
            share = float(np.min(self.share(charge, Price(0.0, charge.loads), row, unrolled, ())))
            loads = tuple((r, cycles * share) for r, cycles in charge.loads)
            self._known_each[key] = charge.price * paid, loads
        return self._known_each[key]

    @cached_property
    def _known_each(self) -> dict[object, Each]:
        return {}

    def each_exactly(self, charge: Charge, tiles: Tiles, unrolled: OneChoice) -> Each:
        """What a word costs, at least, with one tile whose extents are known, and one spatial choice."""
        assert tiles.extents is not None
        numbers, extents = tuple(tiles.numbers[0].tolist()), tuple(tiles.extents[0].tolist())
        key = charge, numbers, extents, unrolled.fanouts
        if len(self._known_each) >= MOST_KNOWN:
            self._known_each.clear()
        if key not in self._known_each:
            parts = self._exact_parts(charge, numbers, extents)
            useless, cut = (of(charge, tiles, unrolled)[0] for of in (self._saved_of, self._cut))
            energy = parts.most_whole * (1 - useless) + float(parts.saved.max()) * useless
            share = parts.most_load * (1 - cut) / self.parts(charge).most_load if charge.loads else 0.0
            loads = tuple((r, float(cycles * share)) for r, cycles in charge.loads)
            self._known_each[key] = float(energy) * FIXED_POINT * float(self.paying(charge.level)), loads
        return self._known_each[key]

    def _exact_parts(self, charge: Charge, numbers: Vector, extents: Vector) -> Parts:
        shares = self.figures.exactly(numbers, extents)
        return shares.parts(
            self.space.views[charge.place].name, self.chains[charge.place], _level_access(charge)
        )

    def _saved_of(self, charge: Charge, tiles: Tiles, unrolled: SpatialRows) -> FloatArray:
        """Share of the accesses that cost what saved ones do, at most, by row."""
        parts = self.parts(charge)
        return self._useless(charge, (*parts.outer, *parts.own), tiles, unrolled)

    def _cut(self, charge: Charge, tiles: Tiles, unrolled: SpatialRows) -> FloatArray:
        """Share of the accesses that take no time, at most, by row."""
        parts = self.parts(charge)
        skipping = [saver for saver in parts.own if saver.skips]
        return self._useless(charge, (*parts.outer, *skipping), tiles, unrolled)

    def _useless(
        self, charge: Charge, savers: Iterable[Saver], tiles: Tiles, unrolled: SpatialRows
    ) -> FloatArray:
        """Share of the accesses that units save, at most, by row.

        Units of a level save a share of accesses; those farther out one of fills, but of what serves
        computations the share of these.
        """
        chain, most = self.chains[charge.place], np.zeros(1)
        serves_arithmetic = charge.boundary == len(self.space.levels)
        for saver in savers:
            is_own = saver.place == charge.level
            once = is_own or charge.action == "fill"
            word = serves_arithmetic and is_own
            own = self.figures.useless(saver, chain, None if word else tiles, unrolled, once)
            most = np.maximum(most, own)
        return most

    def share_outside(self, charge: Charge, price: Price) -> Rows:
        """Share of the price that a word costs, at least, with nothing unrolled; by numbers of tiles."""
        key = charge, price.parts(charge)
        if key not in self._tables:
            self._tables[key] = self._outside(charge, price)
        return self._tables[key]

    @cached_property
    def _tables(self) -> dict[object, Rows]:
        return {}

    def _outside(self, charge: Charge, price: Price) -> Rows:
        grid, parts = self.figures.grid, self.parts(charge)
        names = [self.space.views[charge.place].name]
        names += [name for saver in (*parts.outer, *parts.own) for name in saver.option.conditions]
        seen = {d for name in names for d in self.figures.shares.tensors[name].axes}
        numbers = [axis.numbers if d in seen else np.array([axis.bound]) for d, axis in enumerate(grid.axes)]
        rows = np.stack([own.reshape(-1) for own in np.meshgrid(*numbers, indexing="ij")], axis=1)
        share = self.share(charge, price, rows, OneChoice(len(grid.axes)), ())
        table = np.asarray(share).reshape(tuple(map(len, numbers)))
        return float(table.max()) if table.min() == table.max() else table

    def least_share_outside(self, charge: Charge, price: Price) -> float:
        """Share of the price that a word costs, at least, with nothing unrolled and any tiles."""
        return float(np.min(self.share_outside(charge, price)))

    def least_share(self, charge: Charge, price: Price, unrolled: SpatialRows) -> Rows:
        """Share of the price that a word costs, at least, with any tiles; by spatial choice."""
        bounds = np.array([self.figures.grid.bounds], dtype=np.int64)
        return self.share(charge, price, bounds, unrolled, range(bounds.shape[1]))

    def lost(self, resource: int) -> float:
        """Cycles of a bandwidth by which a mapping may take fewer than its words do."""
        return self._lost.get(resource, 0.0)

    @cached_property
    def _lost(self) -> dict[int, float]:
        total: dict[int, float] = {}
        for charge in self.every:
            parts = self.parts(charge)
            for resource, cycles in charge.loads:
                total[resource] = total.get(resource, 0.0) + parts.lost * cycles / parts.most_load
        return total

    # ------------------------------------------------------------------------------------- arithmetic

    def arithmetic(self, unrolled: SpatialRows) -> Rows:
        """Energy units of the arithmetic, at least, without what rounding may save; by spatial choice."""
        energies, _ = self._computed(unrolled, None)
        return energies * FIXED_POINT - self.saved_by_rounding(unrolled)

    def saved_by_rounding(self, unrolled: SpatialRows) -> Rows:
        """Energy that rounding may save: of words, and of the sum of all energies."""
        total: Rows = 0.5
        for charge in self.every:
            rounded = self.parts(charge).rounded
            if rounded:
                instances = unrolled.product(0, charge.level).prod(axis=1)
                total = total + rounded * FIXED_POINT * float(self.paying(charge.level)) * instances
        return total

    def steps(self, steps: FloatArray, unrolled: SpatialRows, tiles: IntArray | None = None) -> FloatArray:
        """Cycles of the arithmetic, at least, given those of all computations, by row."""
        _, shares = self._computed(unrolled, tiles)
        able = np.isfinite(steps) & self._fits(unrolled)
        left = np.where(able, steps, 1.0) * shares * LEAST
        return np.where(able, np.maximum(np.ceil(left), 1.0), np.inf)

    def _computed(self, unrolled: SpatialRows, tiles: IntArray | None) -> tuple[FloatArray, FloatArray]:
        """Energy units of the arithmetic, and the share of computations that take time, by row."""
        every = self._saved(unrolled, tiles)
        if not every:
            energy, share = self._made(())
            return np.array([energy]), np.array([share])
        columns = np.stack(np.broadcast_arrays(*every.values()), axis=1)
        kinds, inverse = np.unique(columns, axis=0, return_inverse=True)
        made = [self._made(tuple(zip(every, own, strict=True))) for own in kinds.tolist()]
        energies, shares = np.array(made, dtype=np.float64).reshape(-1, 2).T
        rows = inverse.reshape(-1)
        return energies[rows], shares[rows]

    def _made(self, useless: tuple[tuple[str, float], ...]) -> tuple[float, float]:
        """Energy and share of computations if the innermost units save at most some shares, by operand."""
        if useless not in self._known_made:
            shares, problem = self.figures.shares, self.space.problem
            made = shares.computes(self.named, dict(useless))
            compute, further = self.space.architecture.compute, shares.sparsity.compute.energy
            gated = min(compute.energy, further.get("gated_compute", 0))
            self._known_made[useless] = (
                float(made.actual * compute.energy + made.gated * gated),
                (made.actual + made.gated) / problem.computes,
            )
        return self._known_made[useless]

    @cached_property
    def _known_made(self) -> dict[tuple[tuple[str, float], ...], tuple[float, float]]:
        return {}

    def _saved(self, unrolled: SpatialRows, tiles: IntArray | None) -> dict[str, FloatArray]:
        """By operand that has units, the share of accesses that the innermost ones save, at most; by row."""
        found = self._cut_off(unrolled)
        for name, savers in self._innermost.items():
            chain = self.named[name]
            most = np.maximum(self._worst(savers, chain, None, unrolled), found.get(name, 0.0))
            if name in found:
                found[name] = most
                continue
            first = self.first
            children = {next((level for level in chain if level > own.place), first + 1) for own in savers}
            if tiles is not None and len({own.place for own in savers}) == 1 and max(children) <= first:
                close = self._worst(savers, chain, Tiles(tiles), unrolled)
                most = np.minimum(most, np.minimum(np.ceil(close * FINELY) / FINELY, 1.0))
            found[name] = most
        return found

    def _cut_off(self, unrolled: SpatialRows) -> dict[str, FloatArray]:
        """By operand, the share of computations that are cut off with instances, at most, by row."""
        if self._kinds(unrolled) is None:
            return {}
        word = (np.zeros(1, dtype=np.int64),) * len(self.figures.grid.axes), frozenset[int]()
        pairs = ((v.place, v.name) for v in self.space.views if not v.read_write)
        every = ((n, self._instances(p, len(self.space.levels), word, unrolled)[0]) for p, n in pairs)
        return {name: 1 - np.asarray(left) for name, left in every}

    def _worst(
        self,
        savers: Sequence[Saver],
        chain: tuple[int, ...],
        tiles: Tiles | None,
        unrolled: SpatialRows,
    ) -> FloatArray:
        every = (self.figures.useless(own, chain, tiles, unrolled, once=False) for own in savers)
        return reduce(np.maximum, every)

    @cached_property
    def _innermost(self) -> dict[str, tuple[Saver, ...]]:
        every = self.figures.shares.innermost(self.named)
        return {name: savers for name, savers in every.items() if savers}

    @cached_property
    def first(self) -> int:
        """The boundary right inside of the fanouts."""
        below = self.space.fanouts_below
        meeting = min((level for level, own in enumerate(below) if own), default=len(below) - 1)
        return meeting + 1

    # ---------------------------------------------------------------------------------------- leakage

    def leaking(self, level: int, used: FloatArray, busy: IntArray, cycles: FloatArray) -> FloatArray:
        """Cycles in which instances of a level leak, at least; parts of energy units are in them."""
        del busy
        if self.space.levels[level].gating_fanouts is not None or not self.mask[level]:
            return used * FIXED_POINT
        return np.maximum(used * self._in_use(level), cycles) * FIXED_POINT

    def _in_use(self, level: int) -> float:
        """Share of a level's instances that are in use on average, at least."""
        shares, views = self.figures.shares, (self.space.views[place] for place in self.mask[level])
        if shares.skips_instances:
            return 0.0
        return max(float(shares.coming(v.name, level, self.chains[v.place]).min()) for v in views)

    # ----------------------------------------------------------------------------------------- energy

    @cached_property
    def grain(self) -> int:
        """One part of an energy unit: values are rounded to whole ones."""
        return 1

    def whole(self, energies: FloatArray) -> FloatArray:
        """Bounds on energies, rounded down."""
        return energies * LEAST


def _level_access(charge: Charge) -> LevelAccess:
    """The access that a charge is for."""
    return LevelAccess(charge.level, charge.action, charge.boundary, charge.shared, bool(charge.free))


@dataclass(frozen=True)
class OneChoice:
    """One spatial choice, as rows of spatial choices are; without stages it unrolls nothing.

    Parameters
    ----------
    dims
        Number of dimensions.
    stages
        One per stage, outermost first.
    """

    dims: int
    stages: tuple[StageChoice, ...] = ()

    def __len__(self) -> int:
        """One row."""
        return 1

    @property
    def fanouts(self) -> tuple[Vector, ...]:
        """Factors of each fanout."""
        return tuple(choice.factors for stage in self.stages for choice in stage.choices)

    def product(self, first: int, last: int) -> IntArray:
        """Factors of the stages from one up to before another, shape (1, dimensions)."""
        columns = zip(*(stage.factors for stage in self.stages[first:last]), strict=True)
        return np.array([tuple(map(math.prod, columns)) or (1,) * self.dims], dtype=np.int64)

    copies = product
