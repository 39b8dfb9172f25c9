"""The least traffic of two Einsums, one of which hands a tensor to the other in one buffer, in closed form.

Where the tensor is stored, all loops around tiles of both Einsums are one chain: the trips of the loops above
a tile divide those above the next one. Every tile above the last shared loop is held while both Einsums run;
it takes less room the more loops that move it lie above, and is fetched again by every other loop there. So
only such loops count that move the tile, up to the place of the next one. Below the shared loops an Einsum
has two tiles at most, of which one is fetched once in a visit. All trips are tried together, as arrays.

Where the tensor is not stored, each Einsum costs at least what it costs with a chain of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations, product

import numpy as np

from model.extents import PERFECT
from model.numbers import divisors
from solver.fusion.amounts import BoolArray, IntArray
from solver.fusion.one_buffer import is_known
from solver.fusion.space import FusionSpace, Tile
from solver.search.stopping import Stop, Stopped

MOST_COST = 1 << 60
"""That 64 bits hold."""

CHUNK = 1 << 8
"""Trips of shared loops whose chains are tried together."""


@dataclass(frozen=True)
class _Tensor:
    """What an Einsum moves to or from the buffer.

    Parameters
    ----------
    whole, size
        Its words, and room for each of them.
    reads, updates
        Prices of a word in the memory; no first touch of a result is read.
    """

    dims: frozenset[str]
    whole: int
    size: int
    reads: int
    updates: int
    is_result: bool

    def cost(self, words: IntArray) -> IntArray:
        """What it costs if so many words move."""
        return (
            (words - self.whole) * self.reads + words * self.updates if self.is_result else words * self.reads
        )


class _Side:
    """One of the two Einsums."""

    def __init__(self, space: FusionSpace, place: int, stored: str) -> None:
        einsum = space.einsums[place]
        self.bounds, self.iterations = einsum.problem.bound, einsum.problem.computes
        self.times = einsum.times[0]
        found = [(tile.tensor, self._tensor(space, tile)) for tile in space.tiles[place]]
        self.tensors = [own for _, own in found]
        (self.stored,) = (own for name, own in found if name == stored)
        self.others = [own for own in self.tensors if own is not self.stored]

    def _tensor(self, space: FusionSpace, tile: Tile) -> _Tensor:
        memory = space.einsums[tile.place].mapspace.architecture.levels[0]
        energy, rows = memory.energy, memory.packing_of(tile.space.name).accesses_per_block
        whole = math.prod(self.bounds[dim] for dim in tile.dims)
        prices = energy.read * rows, energy.update * rows
        return _Tensor(tile.dims, whole, tile.size_per_value, *prices, tile.space.read_write)

    def passing(self, own: _Tensor) -> int:
        """What a tensor costs that the buffer does not keep: each compute asks for a word."""
        return int(own.cost(np.array(self.iterations)))

    def below(self, own: Sequence[_Tensor], trips: dict[str, IntArray], room: IntArray) -> IntArray:
        """Least cost of at most two tensors whose tiles lie below all shared loops, with so much room."""
        found = np.where(room >= 0, sum(map(self.passing, own)), MOST_COST)
        apart = {id(each): _irrelevant(each, trips, np.ones_like(room)) for each in own}
        once = [each.cost(each.whole * apart[id(each)]) for each in own]
        for number, each in enumerate(own):
            others = sum(self.passing(other) for other in own if other is not each)
            found = np.where(room >= each.size, np.minimum(found, once[number] + others), found)
        for one, other in permutations(own, 2):
            again = self._again(one, other, trips, room)
            cost = other.cost(other.whole * apart[id(other)]) + one.cost(one.whole * apart[id(one)] * again)
            fits = (room >= one.size + other.size) & (again > 0)
            found = np.where(fits, np.minimum(found, cost), found)
        return found

    def _again(self, one: _Tensor, other: _Tensor, trips: dict[str, IntArray], room: IntArray) -> IntArray:
        """How often one tensor is fetched in a visit, at least, if each word of the other is fetched once.

        A tile of the one is a single word, that of the other as long as fits along their own dimensions.
        """
        dims = sorted(other.dims - one.dims)
        left = [self.bounds[dim] // trips.get(dim, np.ones_like(room)) for dim in dims]
        least = math.prod(left, start=np.ones_like(room))
        most = (room - one.size) // other.size
        longest = np.zeros_like(room)
        for sides in product(*(divisors(self.bounds[dim]) for dim in dims)):
            words = math.prod(sides)
            fits = most >= words
            for own, side in zip(left, sides, strict=True):
                fits &= own % side == 0
            longest = np.where(fits, np.maximum(longest, words), longest)
        return np.where(longest > 0, least // np.maximum(longest, 1), 0)

    def alone(self, room: int, limit: int) -> int:
        """Least cost of the Einsum with a chain of its own; the limit if that is no less."""
        best = limit
        for kept in _subsets(range(len(self.tensors))):
            own = [self.tensors[n] for n in kept]
            passing = sum(self.passing(each) for n, each in enumerate(self.tensors) if n not in kept)
            for order in permutations(own):
                best = min(best, passing + self._chained(order, room, best - passing))
        return best

    def _chained(self, order: Sequence[_Tensor], room: int, limit: int) -> int:
        names = list(self.bounds)
        bounds = [self.bounds[name] for name in names]
        rows = _Rows.of(np.array([bounds]), np.array([room]))
        for number, own in enumerate(order):
            moves = [n for n, name in enumerate(names) if name in own.dims]
            rows = rows.placed(own, moves, bounds, is_last=number == len(order) - 1)
            least = (later.cost(later.whole * rows.apart(later, names)) for later in order[number + 1 :])
            rest = sum(later.size for later in order[number + 1 :])
            rows = rows.where((rows.left >= rest) & (rows.cost + sum(least) < limit))
        return int(rows.cost.min(initial=limit))


@dataclass(frozen=True)
class _Rows:
    """Chains so far: trips of all loops, those above the last place, the room that is left, and the cost."""

    every: IntArray
    trips: IntArray
    left: IntArray
    cost: IntArray
    origin: IntArray

    @staticmethod
    def of(every: IntArray, left: IntArray) -> _Rows:
        """Chains without a place."""
        return _Rows(every, np.ones_like(every), left, np.zeros_like(left), np.arange(len(left)))

    def where(self, chosen: IntArray | BoolArray) -> _Rows:
        """Return some of them."""
        return _Rows(*(own[chosen] for own in (self.every, self.trips, self.left, self.cost, self.origin)))

    def apart(self, own: _Tensor, names: Sequence[str]) -> IntArray:
        """How often loops above the last place that do not move a tensor would fetch it."""
        columns = [self.trips[:, n] for n, name in enumerate(names) if name not in own.dims]
        return math.prod(columns, start=np.ones_like(self.left))

    def placed(self, own: _Tensor, moves: Sequence[int], bounds: Sequence[int], is_last: bool) -> _Rows:
        """Return them with the place of one more tensor, below further loops that move it."""
        rows = self
        for n in moves:
            rows = rows._whole(n) if is_last else rows._longer(n, bounds[n])
        above = math.prod((rows.trips[:, n] for n in moves), start=np.ones_like(rows.left))
        others = (rows.trips[:, n] for n in range(rows.trips.shape[1]) if n not in moves)
        words = own.whole * math.prod(others, start=np.ones_like(rows.left))
        left, cost = rows.left - own.whole // above * own.size, rows.cost + own.cost(words)
        return _Rows(rows.every, rows.trips, left, cost, rows.origin).where(left >= 0)

    def _whole(self, n: int) -> _Rows:
        trips = self.trips.copy()
        trips[:, n] = self.every[:, n]
        return _Rows(self.every, trips, self.left, self.cost, self.origin)

    def _longer(self, n: int, bound: int) -> _Rows:
        more = self.every[:, n] // self.trips[:, n]
        found = [(np.flatnonzero(more % count == 0), count) for count in divisors(bound)]
        rows = self.where(np.concatenate([rows for rows, _ in found]))
        counts = np.concatenate([np.full(len(rows), count) for rows, count in found])
        rows.trips[:, n] *= counts
        return rows


class TwoEinsums:
    """Bounds on two Einsums; `is_known` says whether it has any.

    Parameters
    ----------
    space
        Of a cascade.
    stop
        Raises `Stopped` once it answers True.
    """

    def __init__(self, space: FusionSpace, stop: Stop) -> None:
        self._space, self._stop = space, stop
        (stored,) = space.cascade.intermediates
        self._sides = [_Side(space, place, stored) for place in range(2)]
        self._classes = space.classes(0, 2)
        self._bounds = [space.einsums[0].problem.bound[dims[0]] for dims in self._classes]
        pairs = [(side, own) for side in range(2) for own in self._sides[side].others]
        self._tiles = [(side, own, self._moves(side, own)) for side, own in pairs]

    @staticmethod
    def is_known(space: FusionSpace) -> bool:
        """Whether a cascade is two Einsums that the bounds are about."""
        einsums, cascade = space.einsums, space.cascade
        if len(einsums) != 2 or not is_known(space) or any(own.is_copy for own in einsums):
            return False
        if space.remainders or any(own.mapspace.factors != PERFECT for own in einsums):
            return False
        tensors = [tile.tensor for own in space.tiles for tile in own]
        stored = cascade.intermediates
        if len(stored) != 1 or len(set(tensors)) != len(tensors) - 1 or einsums[0].times != einsums[1].times:
            return False
        if any(len(own) > 3 or stored[0] not in [tile.tensor for tile in own] for own in space.tiles):
            return False
        classes = space.classes(0, 2)
        by_side = list(zip(*classes, strict=True)) or [(), ()]
        if any(len(set(dims)) < len(dims) for dims in by_side):
            return False
        bounds = [own.problem.bound for own in einsums]
        alike = all(bounds[0][one] == bounds[1][other] for one, other in classes)
        most = max(own.problem.computes * own.times[0] for own in einsums)
        price = max(e.mapspace.architecture.levels[0].energy.read for e in einsums)
        price = max(price, *(e.mapspace.architecture.levels[0].energy.update for e in einsums), 1)
        return alike and 64 * most * price * space.memory.word_bits < MOST_COST

    def _moves(self, side: int, own: _Tensor) -> list[int]:
        """Classes of loops that move a tile of a tensor."""
        return [n for n, dims in enumerate(self._classes) if dims[side] in own.dims]

    def least(self, limit: int) -> int:
        """Return what no mapping is below; the limit if that is no less."""
        room = self._space.memory.usable_words
        assert room is not None
        times, apart = self._sides[0].times, 0
        for side in self._sides:
            apart += side.alone(room, limit) * times
            if self._stop():
                raise Stopped
        return min(limit, apart, self._fused(room, -(-limit // times)) * times)

    def _fused(self, room: int, limit: int) -> int:
        """The least of all mappings that store the tensor; the limit if that is no less."""
        grid = np.meshgrid(*map(divisors, self._bounds), indexing="ij")
        trips = np.stack([own.ravel() for own in grid], axis=1) if grid else np.ones((1, 0), dtype=np.int64)
        stored = self._sides[0].stored
        left = room - self._room(stored, trips, self._moves(0, stored))
        trips, left, best = trips[left >= 0], left[left >= 0], limit
        for held in _subsets(range(len(self._tiles))):
            own = [self._tiles[n] for n in held]
            rest = left - sum((self._room(tensor, trips, m) for _, tensor, m in own), np.zeros_like(left))
            once = sum(int(tensor.cost(np.array(tensor.whole))) for _, tensor, _ in own)
            least = once + self._below(held, trips, rest)
            open_ = np.flatnonzero(least < best)
            if len(held) < 2:
                best = int(least[open_].min(initial=best))
                continue
            for first in range(0, len(open_), CHUNK):
                rows = open_[first : first + CHUNK]
                best = self._chains(held, trips[rows], left[rows], best)
        return best

    @staticmethod
    def _room(own: _Tensor, trips: IntArray, moves: Sequence[int]) -> IntArray:
        """Room of a tile below all shared loops."""
        room: IntArray = own.whole // trips[:, moves].prod(axis=1) * own.size
        return room

    def _below(self, held: Sequence[int], trips: IntArray, room: IntArray) -> IntArray:
        """Least cost of what is not held."""
        total = np.zeros_like(room)
        for number, side in enumerate(self._sides):
            own = [t for n, (at, t, _) in enumerate(self._tiles) if at == number and n not in held]
            by_dim = {dims[number]: trips[:, n] for n, dims in enumerate(self._classes)}
            total = total + side.below(own, by_dim, room)
        return total

    def _chains(self, held: Sequence[int], trips: IntArray, left: IntArray, best: int) -> int:
        """The least cost with some tiles held, in any order of their places."""
        for order in permutations(held):
            if self._stop():
                raise Stopped
            best = self._ordered(order, _Rows.of(trips, left), best)
        return best

    def _ordered(self, order: Sequence[int], rows: _Rows, best: int) -> int:
        """The least cost with places of held tiles in an order, the outermost first."""
        for number, n in enumerate(order):
            _, own, moves = self._tiles[n]
            rows = rows.placed(own, moves, self._bounds, is_last=number == len(order) - 1)
            room, least = self._at_least(rows, order, order[number + 1 :])
            chosen = (room >= 0) & (least < best)
            rows, least = rows.where(chosen), least[chosen]
        return int(least.min(initial=best))

    def _at_least(self, rows: _Rows, held: Sequence[int], later: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Room that is left to other tiles, at most, and the least cost, with some places still open."""
        room, least = rows.left, rows.cost
        for side, own, moves in (self._tiles[n] for n in later):
            room = room - self._room(own, rows.every, moves)
            names = [dims[side] for dims in self._classes]
            least = least + own.cost(own.whole * rows.apart(own, names))
        return room, least + self._below(held, rows.every, room)


def _irrelevant(own: _Tensor, trips: dict[str, IntArray], ones: IntArray) -> IntArray:
    """Trips of the loops that do not move a tensor."""
    return math.prod((count for dim, count in trips.items() if dim not in own.dims), start=ones)


def _subsets(numbers: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(numbers, size) for size in range(len(numbers) + 1))
