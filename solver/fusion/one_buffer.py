"""Good fused mappings onto a memory and one buffer, by formulas: groups whose loops run over each rank once.

Within such a group every tensor that its Einsums hand over is stored below all loops. Every other tile is
held above some of the loops, or streams through the buffer in each visit, each word once. So words and room
follow from the trips of the loops, for all trips at a time. Groups follow each other on a shortest path. The
cost model prices what comes of it: this proves nothing, but is often as good as what bounds allow.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, permutations, product

import numpy as np

from model.fused.cascade import CascadeEinsum
from model.fused.check import handed_over
from model.fused.mapping import Body, FusedMapping, Held, Leaf, PrivateNest, SharedLoop, Stored
from model.mapping import Loop, StorageMapping
from model.mapping import Mapping as Nest
from model.numbers import divisors
from model.problem import Dataspace
from solver.fusion.amounts import IntArray
from solver.fusion.space import FusionSpace
from solver.search.stopping import Stop, Stopped

MOST_EINSUMS, MOST_CLASSES = 4, 3
"""Einsums of a group, and ranks that its loops run over, at most."""

MOST_ENERGY = 1 << 62
"""In units that all prices are multiples of: sums of whole numbers of 64 bits."""

MOST_CHOICES = 1 << 12
"""Choices where tiles are held that are looked at in a group with the same loops, at most."""


@dataclass(frozen=True)
class _Group:
    """Loops of a group as pairs of a class and trips, and where tiles are held; the others stream.

    Parameters
    ----------
    depths
        Of what is held: the number of loops above.
    streams
        By place, the dimensions that private loops of the memory run over, outermost first.
    """

    energy: int
    room: int
    start: int
    end: int
    loops: tuple[tuple[int, int], ...]
    depths: Mapping[tuple[int, str], int]
    streams: Mapping[int, tuple[str, ...]]


_Way = tuple[int, tuple[_Group | Leaf, ...]]
"""Energy, and the parts of a mapping up to some Einsum."""


def is_known(space: FusionSpace) -> bool:
    """Whether the formulas are about a cascade: two memories, of which the outer one costs; no windows."""
    for einsum in space.einsums:
        architecture, buffer = einsum.mapspace.architecture, space.memory.energy
        ranks = chain(*(own.ranks for own in einsum.problem.dataspaces))
        if len(architecture.nodes) != 2 or any(len(rank) > 1 for rank in ranks):
            return False
        memory = architecture.levels[0]
        if any(memory.packing_of(own.name).block_size != 1 for own in einsum.problem.dataspaces):
            return False
        if buffer.read or buffer.fill or buffer.update or architecture.compute.energy:
            return False
    return (
        space.memory.usable_words is not None
        and not space.cascade.persistent
        and _most_energy(space) < MOST_ENERGY
    )


def _prices(einsum: CascadeEinsum, space: Dataspace) -> tuple[int, int]:
    """Energy of a word of a dataspace that the outer memory reads, and of one that is written there."""
    memory = einsum.mapspace.architecture.levels[0]
    times = memory.packing_of(space.name).accesses_per_block
    return memory.energy.read * times, memory.energy.update * times


def _unit(space: FusionSpace) -> int:
    """The greatest energy of which all prices are multiples."""
    pairs = (_prices(einsum, own) for einsum in space.einsums for own in einsum.problem.dataspaces)
    return max(1, math.gcd(*chain(*pairs)))


def _most_energy(space: FusionSpace) -> int:
    """What the Einsums take if each iteration moves all of its words, in units."""
    own = (e.problem.computes * sum(sum(_prices(e, x)) for x in e.problem.dataspaces) for e in space.einsums)
    return sum(own) // _unit(space)


def good_mapping(
    space: FusionSpace, alone: Sequence[Leaf], energies: Sequence[int], stop: Stop
) -> tuple[int, FusedMapping]:
    """Return the best mapping of these and its energy, given those of each Einsum alone.

    Raises
    ------
    Stopped
        `stop` answered True.
    """
    best: list[_Way] = [(0, ())]
    for end in range(1, len(alone) + 1):
        ways = [_longer(best[end - 1], energies[end - 1], alone[end - 1])]
        starts = (n for n in range(max(0, end - MOST_EINSUMS), end - 1) if end in space.ends(n))
        groups = (_Groups(space, start, end, stop).best() for start in starts)
        ways += [_longer(best[own.start], own.energy, own) for own in groups if own is not None]
        best.append(min(ways, key=lambda way: way[0]))
    return best[-1][0], _mapping(space, best[-1][1])


def _longer(way: _Way, energy: int, part: _Group | Leaf) -> _Way:
    return way[0] + energy, (*way[1], part)


class _Groups:
    """The groups of some neighbouring Einsums."""

    def __init__(self, space: FusionSpace, start: int, end: int, stop: Stop) -> None:
        self.space, self.start, self.end, self.stop = space, start, end, stop
        self.members, self.classes = range(start, end), space.classes(start, end)
        self.unit = _unit(space)
        self.stored = set(handed_over(space.cascade, self.members))
        self.others = [
            (place, tile.space)
            for place in self.members
            for tile in space.tiles[place]
            if tile.tensor not in self.stored
        ]
        """Dataspaces whose tensors go through the memory."""

    def best(self) -> _Group | None:
        """The one with the least energy, if any has room."""
        space = self.space
        classes = [n for n, _ in enumerate(self.classes) if self.bound(n) > 1]
        if space.sliding(self.start, self.end) or any(space.einsums[own].is_copy for own in self.members):
            return None
        if not self.stored <= space.storable or len(classes) > MOST_CLASSES:
            return None
        orders = chain(*(permutations(classes, size) for size in range(1, len(classes) + 1)))
        groups = (_Ordered(self, order).best() for order in orders)
        return min((own for own in groups if own), key=lambda own: (own.energy, own.room), default=None)

    def bound(self, number: int) -> int:
        """Iterations of a class."""
        return self.space.einsums[self.start].problem.bound[self.classes[number][0]]

    def size(self, place: int, space: Dataspace) -> int:
        """Words of a value in the buffer."""
        memory = self.space.einsums[place].mapspace.architecture.levels[1]
        return memory.packing_of(space.name).size_per_value


class _Ordered:
    """The groups whose loops run over some classes, outermost first, for all trips above 1."""

    def __init__(self, groups: _Groups, order: Sequence[int]) -> None:
        self._groups, self._order = groups, order
        factors = np.meshgrid(*(divisors(groups.bound(n))[1:] for n in order), indexing="ij")
        self._trips = [np.asarray(own.ravel(), dtype=np.int64) for own in factors]
        self._known: dict[object, tuple[IntArray, IntArray, list[tuple[str, ...]]]] = {}

    def best(self) -> _Group | None:
        """The one with the least energy, then the least room, over all choices where tiles are held."""
        groups, best = self._groups, None
        choices = [list(self._depths(*own)) for own in groups.others]
        if math.prod(map(len, choices)) > MOST_CHOICES:
            return None
        pairs = zip(groups.others, choices, strict=True)
        costs = [{depth: self._costs(*own, depth) for depth in depths} for own, depths in pairs]
        for depths in product(*choices):
            if groups.stop():
                raise Stopped
            chosen = [own[depth] for own, depth in zip(costs, depths, strict=True)]
            energy = sum((own for own, _ in chosen), np.zeros_like(self._trips[0]))
            held = sum((own for _, own in chosen), np.zeros_like(energy))
            needed = [self._waiting(place) + self._streamed(place, depths)[0] for place in groups.members]
            room = held + np.maximum.reduce(needed)
            fits = np.flatnonzero(room <= self._usable)
            for at in fits[np.lexsort((room[fits], energy[fits]))][:1].tolist():
                own = int(energy[at]), int(room[at])
                best = (*own, at, depths) if best is None or own < best[:2] else best
        return None if best is None else self._group(*best)

    @property
    def _usable(self) -> int:
        words = self._groups.space.memory.usable_words
        assert words is not None
        return words

    def _group(self, energy: int, room: int, at: int, depths: Sequence[int]) -> _Group:
        groups = self._groups
        pairs = zip(groups.others, depths, strict=True)
        streams = {place: self._streamed(place, depths) for place in groups.members}
        return _Group(
            energy * groups.unit * groups.space.einsums[groups.start].n_instances,
            room,
            groups.start,
            groups.end,
            tuple((n, int(own[at])) for n, own in zip(self._order, self._trips, strict=True)),
            {(place, space.name): depth for (place, space), depth in pairs if depth < len(self._order)},
            {place: ways[int(chosen[at])] for place, (_, chosen, ways) in streams.items()},
        )

    def _depths(self, place: int, space: Dataspace) -> Iterator[int]:
        """Yield numbers of loops above a tile: just inside one that moves it, or outside of all; or all."""
        yield 0
        for depth, number in enumerate(self._order[:-1], 1):
            if self._dim(place, number) in space.dims:
                yield depth
        yield len(self._order)

    def _dim(self, place: int, number: int) -> str:
        return self._groups.classes[number][place - self._groups.start]

    def _costs(self, place: int, space: Dataspace, depth: int) -> tuple[IntArray, IntArray]:
        """Energy of a dataspace with so many loops above its tile, and the room that this takes if held."""
        groups, einsum = self._groups, self._groups.space.einsums[place]
        above = zip(self._order[:depth], self._trips, strict=False)
        apart = [trips for n, trips in above if self._dim(place, n) not in space.dims]
        whole = math.prod(einsum.problem.bound[dim] for dim in space.dims)
        words = whole * math.prod(apart, start=np.ones_like(self._trips[0]))
        read, update = (price // groups.unit for price in _prices(einsum, space))
        cost = (words - whole) * read + words * update if space.read_write else words * read
        is_held = depth < len(self._order)
        return cost, self._size(place, space, depth) if is_held else np.zeros_like(words)

    def _size(self, place: int, space: Dataspace, depth: int, ones: Collection[str] = ()) -> IntArray:
        """Room of a tile below so many loops, with single iterations along some dimensions."""
        bound, own = self._groups.space.einsums[place].problem.bound, np.ones_like(self._trips[0])
        trips = {self._dim(place, n): t for n, t in zip(self._order[:depth], self._trips, strict=False)}
        for dim in space.dims - frozenset(ones):
            own = own * (bound[dim] // trips.get(dim, 1))
        return own * self._groups.size(place, space)

    def _waiting(self, place: int) -> IntArray:
        """Room of what is stored while an Einsum runs."""
        groups, total = self._groups, np.zeros_like(self._trips[0])
        for tensor in groups.stored:
            users = groups.space.cascade.users[tensor]
            if users[0] <= place <= users[-1]:
                einsum = groups.space.einsums[users[0]]
                space = einsum.space(einsum.accesses_of(tensor)[0].dataspace)
                total = total + self._size(users[0], space, len(self._order))
        return total

    def _streamed(
        self, place: int, depths: Sequence[int]
    ) -> tuple[IntArray, IntArray, list[tuple[str, ...]]]:
        """The least room in which what is not held streams, which way needs it, and all ways.

        A way is an order of loops. Each word comes once if a tile is moved by the outermost of them alone.
        """
        pairs = zip(self._groups.others, depths, strict=True)
        own = [space for (at, space), depth in pairs if at == place and depth == len(self._order)]
        key = place, *(space.name for space in own)
        if key not in self._known:
            dims = [
                dim
                for dim in self._groups.space.einsums[place].problem.dims
                if any(dim in x.dims for x in own)
            ]
            every = chain(*(permutations(dims, size) for size in range(min(len(dims), 4) + 1)))
            ways = [way for way in every if all(_comes_once(space, way) for space in own)]
            rooms = [
                sum((self._size(place, x, len(self._order), way) for x in own), np.zeros_like(self._trips[0]))
                for way in ways
            ]
            self._known[key] = np.min(rooms, axis=0), np.argmin(rooms, axis=0), ways
        return self._known[key]


def _comes_once(space: Dataspace, way: Sequence[str]) -> bool:
    """Whether no loop that moves a tile is inside of one that does not."""
    moves = [dim in space.dims for dim in way]
    return moves == sorted(moves, reverse=True)


def _mapping(space: FusionSpace, parts: Sequence[_Group | Leaf]) -> FusedMapping:
    """The fused mapping of groups and Einsums alone."""
    children, stored = list[Body | Leaf](), list[Stored]()
    for part in parts:
        if isinstance(part, Leaf):
            children.append(part)
            continue
        names = [space.einsums[place].name for place in range(part.start, part.end)]
        classes = space.classes(part.start, part.end)
        loops = tuple(SharedLoop(n, tuple(zip(names, classes[c], strict=True))) for c, n in part.loops)
        handed = handed_over(space.cascade, range(part.start, part.end))
        stored += [Stored(tensor, space.memory.name, len(loops)) for tensor in handed]
        leaves = tuple(_leaf(space, part, place, handed) for place in range(part.start, part.end))
        children.append(Body(loops, leaves))
    return FusedMapping(tuple(children), tuple(stored))


def _leaf(space: FusionSpace, group: _Group, place: int, handed: Collection[str]) -> Leaf:
    """An Einsum of a group, with the nest of its visits."""
    einsum, classes = space.einsums[place], space.classes(group.start, group.end)
    trips = {classes[n][place - group.start]: count for n, count in group.loops}
    extents = {dim: bound // trips.get(dim, 1) for dim, bound in einsum.problem.bound.items()}
    through = [tile.space.name for tile in space.tiles[place] if tile.tensor not in handed]
    held = tuple(Held(name, depth) for (at, name), depth in group.depths.items() if at == place)
    kept = frozenset(through) - {own.dataspace for own in held}
    way = group.streams[place]
    outer = tuple(Loop(dim, extents[dim]) for dim in reversed(way) if extents[dim] > 1)
    inner = tuple(Loop(dim, n) for dim, n in extents.items() if dim not in way and n > 1)
    nest = Nest((StorageMapping(outer, frozenset(through)), StorageMapping(inner, kept)))
    return Leaf(einsum.name, (PrivateNest(nest),), held)
