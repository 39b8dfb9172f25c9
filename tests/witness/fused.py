"""Runs a fused cascade on arrays, visit by visit, and counts words, steps and room as they occur.

Each Einsum's nest is executed as `tests.witness` executes one, over the part of the iteration space that the
visit covers. What is stored or held above the nests stays from visit to visit; other tiles end with theirs.
Words that are read before they are written, or after they were dropped, are not there: the execution fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from model.architecture import Architecture, Fanout, StorageLevel
from model.fused.cascade import Access, Cascade, CascadeEinsum
from model.fused.mapping import Body, FusedMapping, Leaf, LeafPath, PrivateNest
from model.mapping import FanoutMapping, Loop, NodeMapping, SpatialLoop
from model.problem import Dataspace
from tests.witness.layout import Layout
from tests.witness.storage import (
    EMPTY,
    AccessCounts,
    Buffer,
    Link,
    Store,
    Toll,
    Visits,
    Words,
    whole_visits,
)

Array = NDArray[np.int64]
Trips = tuple[int, ...]
"""The iteration of each shared loop, outermost first."""


@dataclass(frozen=True)
class FusedExecution:
    """What came out of a run.

    Parameters
    ----------
    tensors
        Every tensor that the outermost memory has, and whole stored ones, indexed by their ranks.
    counts
        Accesses by Einsum, memory and dataspace, summed over all visits and instances.
    steps, visits
        By Einsum.
    room_words
        By memory and running Einsum: the most words that reserved tiles took in one instance at a time.
    """

    tensors: dict[str, Array]
    counts: dict[tuple[str, str, str], AccessCounts]
    steps: dict[str, int]
    visits: dict[str, int]
    room_words: dict[tuple[str, str], int]


def execute_fused(cascade: Cascade, mapping: FusedMapping, operands: Mapping[str, Array]) -> FusedExecution:
    """Execute a fused mapping on the inputs of the cascade and count what moves.

    An Einsum's value is the sum of the products of all its inputs; a copy passes its input on.

    Parameters
    ----------
    operands
        One integer array per tensor that no Einsum writes, of the shape that `tensor_shape` returns.

    Raises
    ------
    ValueError
        If an operand is missing or has another shape, no nest covers a visit, or a word is not where the
        mapping needs it.
    """
    run = _Run(cascade, mapping)
    run.load(operands)
    run.start()
    for child in mapping.children:
        run.walk(child, ())
    return run.result()


def tensor_shape(cascade: Cascade, tensor: str) -> tuple[int, ...]:
    """Return the extent of each rank of a tensor: from the first to the last index that any Einsum uses."""
    return tuple(high - low for low, high in _reach(cascade, tensor))


def _reach(cascade: Cascade, tensor: str) -> list[tuple[int, int]]:
    reach: dict[str, tuple[int, int]] = {}
    users = [cascade.einsums[place] for place in cascade.users[tensor]]
    for einsum, access in [(user, access) for user in users for access in user.accesses_of(tensor)]:
        ranks = einsum.space(access.dataspace).ranks
        for name, terms, offset in zip(access.ranks, ranks, access.offsets, strict=True):
            ends = [t.coefficient * (einsum.problem.bound[t.dim] - 1) for t in terms]
            low = offset + sum(min(0, end) for end in ends)
            high = offset + sum(max(0, end) for end in ends) + 1
            before = reach.get(name, (low, high))
            reach[name] = min(low, before[0]), max(high, before[1])
    return list(reach.values())


def layout_of(cascade: Cascade, einsum: CascadeEinsum, access: Access) -> Layout:
    """Return where the words of an access lie in the array of its tensor."""
    reach, space = _reach(cascade, access.tensor), einsum.space(access.dataspace)
    shape = tuple(high - low for low, high in reach)
    weight, origin = dict.fromkeys(einsum.problem.dims, 0), 0
    for number, (terms, offset) in enumerate(zip(space.ranks, access.offsets, strict=True)):
        step = math.prod(shape[number + 1 :])
        origin += step * (offset - reach[number][0])
        for term in terms:
            weight[term.dim] += step * term.coefficient
    return Layout(space.ranks, shape, weight, origin)


@dataclass(frozen=True)
class _Turns:
    """Which part of each dimension a visit covers: found by asking those that read what it produces."""

    cascade: Cascade
    mapping: FusedMapping
    known: dict[tuple[int, str, Trips], tuple[int, int]] = field(default_factory=dict)
    longest: dict[tuple[int, str, int], int] = field(default_factory=dict)

    def part(self, place: int, dim: str, trips: Trips) -> tuple[int, int]:
        """First index and the one after the last, in all visits with these iterations of the outer loops."""
        key = place, dim, trips
        if key not in self.known:
            self.known[key] = self._find(place, dim, trips)
        return self.known[key]

    def _find(self, place: int, dim: str, trips: Trips) -> tuple[int, int]:
        if not trips:
            return 0, self.cascade.einsums[place].problem.bound[dim]
        path = self.mapping.paths[place]
        loop = path.loops[len(trips) - 1]
        outer = self.part(place, dim, trips[:-1])
        if loop.dim(path.leaf.einsum) != dim:
            return outer
        tile = math.ceil(self._longest(place, dim, len(trips) - 1) / loop.trips)
        start = outer[0]
        if trips[-1]:
            start = self.part(place, dim, (*trips[:-1], trips[-1] - 1))[1]
        asked = list(self._asked(place, dim, trips))
        if asked and trips[-1] == loop.trips - 1:
            return start, outer[1]
        end = max(asked) if asked else start + tile
        return start, max(start, min(outer[1], end))

    def _longest(self, place: int, dim: str, depth: int) -> int:
        """Extent of the longest part in the iterations of so many loops."""
        key = place, dim, depth
        if key not in self.longest:
            loops = self.mapping.paths[place].loops[:depth]
            parts = (self.part(place, dim, own) for own in product(*(range(loop.trips) for loop in loops)))
            self.longest[key] = max(end - start for start, end in parts)
        return self.longest[key]

    def _asked(self, place: int, dim: str, trips: Trips) -> Iterator[int]:
        """How far along a dimension each reader under the same loops gets in these iterations."""
        einsum, paths = self.cascade.einsums[place], self.mapping.paths
        outputs = [access for access in einsum.accesses if einsum.space(access.dataspace).read_write]
        for written in outputs:
            ranks = zip(written.ranks, einsum.space(written.dataspace).ranks, written.offsets, strict=True)
            own = [(name, offset) for name, terms, offset in ranks if [t.dim for t in terms] == [dim]]
            readers = [
                reader
                for reader in self.cascade.readers(written.tensor)
                if paths[reader].shared(paths[place]) >= len(trips)
            ]
            for reader, (name, offset) in product(readers, own):
                yield from (end - offset for end in self._read_to(reader, written.tensor, name, trips))

    def _read_to(self, place: int, tensor: str, rank: str, trips: Trips) -> Iterator[int]:
        einsum = self.cascade.einsums[place]
        for access in einsum.accesses_of(tensor):
            number = access.ranks.index(rank)
            terms = einsum.space(access.dataspace).ranks[number]
            parts = [(term.coefficient, *self.part(place, term.dim, trips)) for term in terms]
            is_idle = any(end <= start for _, start, end in parts)
            ends = (own * (start if is_idle or own < 0 else end - 1) for own, start, end in parts)
            yield access.offsets[number] + sum(ends) + (not is_idle)


@dataclass
class _Pinned(Store):
    """A store above the nest: its tile stays from visit to visit."""

    def hold(self, words: Sequence[Words]) -> None:
        """Set the tile of each instance."""
        self.visits = tuple(Visits((own,), (own,)) for own in words)


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in a nest, for one dataspace.

    Parameters
    ----------
    layout
        Where the words of the dataspace are.
    bounds
        Of the visit; nothing beyond them is executed.
    extents
        Of the first instance's first tile.
    offsets
        Per instance, how far along each dimension it is from the first one.
    outside
        The temporal loops outside, outermost first.
    """

    layout: Layout
    bounds: dict[str, int]
    extents: dict[str, int]
    offsets: tuple[dict[str, int], ...]
    outside: tuple[_NestLoop, ...]
    boxes: dict[tuple[int, ...], Words] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Temporal loops outside."""
        return len(self.outside)

    @property
    def largest(self) -> int:
        """Words of the largest tile."""
        return len(self._box(self.extents))

    def _box(self, extents: Mapping[str, int]) -> Words:
        key = tuple(extents.values())
        if key not in self.boxes:
            self.boxes[key] = _box(self.layout, extents)
        return self.boxes[key]

    def tile(self, base: Mapping[str, int], point: Mapping[str, int], instance: int) -> tuple[Words, bool]:
        """Words at an instance's place in a step of the visit at `base`, and whether it has work."""
        start = {dim: at + self.offsets[instance].get(dim, 0) for dim, at in point.items()}
        left = {dim: min(self.extents[dim], self.bounds[dim] - at) for dim, at in start.items()}
        if any(left[term.dim] <= 0 for rank in self.layout.ranks for term in rank):
            return EMPTY, False
        first = self.layout.position({dim: base[dim] + at for dim, at in start.items()})
        return frozenset(first + word for word in self._box(left)), min(left.values()) > 0

    def visits(self, base: Mapping[str, int], points: Sequence[Mapping[str, int]]) -> tuple[Visits, ...]:
        """Per instance, its tiles in some steps."""
        loops = [loop for loop in self.outside if loop.bound > 1 and loop.stride < self.bounds[loop.dim]]
        digits = [[point[loop.dim] // loop.stride % loop.bound for loop in loops] for point in points]
        moves = [loop.dim in self.layout.dims for loop in loops]
        found: list[Visits] = []
        for number in range(len(self.offsets)):
            each = [self.tile(base, point, number) for point in points]
            covered = tuple(words for words, _ in each)
            tiles = tuple(words if works else None for words, works in each)
            anew = whole_visits([works for _, works in each], digits, moves)
            found.append(Visits(tiles, covered, anew))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class _NestLoop:
    node: float
    dim: str
    bound: int
    stride: int
    fanout: int | None

    @property
    def spatial(self) -> bool:
        """Whether it is one of a fanout, which it has the number of."""
        return self.fanout is not None


_Step = tuple[dict[str, int], int]
"""A step of a nest, relative to the visit's first point, and which temporal loop has advanced: 0 at first."""


@dataclass
class _Chain:
    """The stores of one dataspace in visits with certain bounds, outermost first, and the links between them.

    `places` has those of all stores, the arithmetic's last; `pinned` is the number of links that the nest
    leaves alone, as their child stays from visit to visit.
    """

    space: Dataspace
    layout: Layout
    memories: tuple[str, ...]
    stores: tuple[Store, ...]
    links: tuple[Link, ...]
    places: tuple[_Place, ...]
    pinned: int
    turns: list[int] = field(default_factory=list)

    @property
    def own(self) -> Sequence[Link]:
        """The links that the nest moves words on."""
        return self.links[self.pinned :]

    def begin(self, base: dict[str, int], steps: Sequence[_Step]) -> None:
        """Lay out the tiles of a visit."""
        self.turns = [-1] * len(self.own)
        for link, place in zip(self.own, self.places[self.pinned + 1 :], strict=True):
            points = [point for point, advanced in steps if advanced <= place.depth]
            link.child.visits = place.visits(base, points)

    def advance(self, advanced: int) -> None:
        """Move on to the next step: tiles inside loop `advanced` change."""
        places = self.places[self.pinned + 1 :]
        moved = [number for number, place in enumerate(places) if place.depth >= advanced]
        for number in moved:
            self.turns[number] += 1
        for number in reversed(moved):
            self.own[number].write_back(self.turns[number])
        for number in moved:
            self.own[number].deliver(self.turns[number])

    def end(self) -> None:
        """Give up all tiles of the visit."""
        for link in reversed(self.own):
            link.write_back(None)


@dataclass
class _Waiting:
    """A stored tensor: its words per instance, and the iterations that the tile belongs to."""

    contents: list[dict[int, int]] = field(default_factory=list)
    trips: Trips | None = None


@dataclass
class _Run:
    """A cascade while it runs."""

    cascade: Cascade
    mapping: FusedMapping
    outside: dict[str, dict[int, int]] = field(default_factory=dict)
    waiting: dict[str, _Waiting] = field(default_factory=dict)
    kept_whole: dict[str, dict[int, int]] = field(default_factory=dict)
    chains: dict[tuple[int, tuple[int, ...]], list[_Chain]] = field(default_factory=dict)
    nests: dict[tuple[int, tuple[int, ...]], list[_Step]] = field(default_factory=dict)
    holding: dict[tuple[int, str], Link] = field(default_factory=dict)
    touched: dict[tuple[int, str, str], dict[tuple[int, ...], list[Buffer]]] = field(default_factory=dict)
    tolls: dict[tuple[str, str, str], Toll] = field(default_factory=dict)
    covered: dict[tuple[int, str, Trips], list[Words]] = field(default_factory=dict)
    taken: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    tiles: dict[str, Words] = field(default_factory=dict)  # of stored tensors, in one instance
    done: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    room: dict[tuple[str, str], int] = field(default_factory=dict)
    moved: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)

    @cached_property
    def turns(self) -> _Turns:
        """Which parts the visits cover."""
        return _Turns(self.cascade, self.mapping)

    def load(self, operands: Mapping[str, Array]) -> None:
        """Put the inputs into the outermost memory, and zeros where outputs will be."""
        for tensor in self.cascade.users:
            shape = tensor_shape(self.cascade, tensor)
            if tensor in self.cascade.writers:
                self.outside[tensor] = dict.fromkeys(range(math.prod(shape)), 0)
                continue
            if tensor not in operands or operands[tensor].shape != shape:
                raise ValueError(f"{tensor} has not the shape {shape}")
            self.outside[tensor] = dict(enumerate(operands[tensor].ravel().tolist()))

    def start(self) -> None:
        """Reserve what stays for the whole run."""
        for stored in self.mapping.stored:
            self.waiting[stored.tensor] = _Waiting()
            if stored.tensor in self.cascade.persistent:
                times = max(
                    self.cascade.einsums[user].n_instances for user in self.cascade.users[stored.tensor]
                )
                words = self._stored_size(stored.tensor, len(self.outside[stored.tensor])) * times
                self.taken["stored", stored.tensor] = stored.memory, words

    def walk(self, child: Body | Leaf, trips: Trips) -> None:
        """Run a part of the tree once."""
        if isinstance(child, Leaf):
            self._visit(self.cascade.place(child.einsum), trips)
            return
        number = next(n for n, (body, _) in enumerate(self.mapping.bodies) if body is child)
        for inner in product(*(range(loop.trips) for loop in child.loops)):
            for below in child.children:
                self.walk(below, trips + inner)
            self._free(number, child, trips, inner)

    def _free(self, number: int, body: Body, trips: Trips, inner: Trips) -> None:
        """Free the room of tiles that are not needed any more, where the loops below their place end."""
        over = [key for key, (owner, _) in self.done.items() if owner == number]
        for key in over:
            below = self.done[key][1] - len(trips)
            if all(t == loop.trips - 1 for t, loop in zip(inner[below:], body.loops[below:], strict=True)):
                del self.done[key], self.taken[key]

    def _visit(self, place: int, trips: Trips) -> None:
        einsum = self.cascade.einsums[place]
        parts = {dim: self.turns.part(place, dim, trips) for dim in einsum.problem.dims}
        if all(end > start for start, end in parts.values()):
            self.visits[einsum.name] = self.visits.get(einsum.name, 0) + 1
            self._work(place, trips, parts)
        self._release(place, trips)

    def _work(self, place: int, trips: Trips, parts: dict[str, tuple[int, int]]) -> None:
        einsum = self.cascade.einsums[place]
        base = {dim: start for dim, (start, _) in parts.items()}
        for access in einsum.accesses:
            if access.tensor in self.waiting:
                self._arrive(place, access, trips)
        if einsum.is_copy:
            self._note_room(einsum)
            self._copy(place, trips)
            return
        bounds = tuple(end - start for start, end in parts.values())
        chains = self._chains_for(place, bounds)
        for chain in chains:
            self._reserve(place, chain)
            self._recall(place, bounds, chain)
            self._prepare(place, chain, trips)
        self._note_room(einsum)
        steps = self.nests[place, bounds]
        self._run_nest(chains, base, steps)
        self.steps[einsum.name] = self.steps.get(einsum.name, 0) + len(steps)
        for key in [key for key in self.taken if key[0] == f"own {einsum.name}"]:
            del self.taken[key]

    def _run_nest(self, chains: Sequence[_Chain], base: dict[str, int], steps: Sequence[_Step]) -> None:
        for chain in chains:
            chain.begin(base, steps)
        for _, advanced in steps:
            for chain in chains:
                self._advance(chain, advanced)
            _compute(chains)
        for chain in chains:
            chain.end()

    def _advance(self, chain: _Chain, advanced: int) -> None:
        try:
            chain.advance(advanced)
        except KeyError:
            name = chain.space.name
            raise ValueError(f"a word of {name} is not there when it is needed") from None

    def _recall(self, place: int, bounds: tuple[int, ...], chain: _Chain) -> None:
        """What visits of other bounds have touched, in whichever instances, is not touched first any more."""
        for memory in dict.fromkeys(chain.memories):
            kinds = self.touched[place, chain.space.name, memory]
            others = [own for kind, buffers in kinds.items() if kind != bounds for own in buffers]
            for buffer in kinds[bounds]:
                buffer.arrived.update(*(own.arrived for own in others))
                buffer.served.update(*(own.served for own in others))

    # What stays above the nests

    def _arrive(self, place: int, access: Access, trips: Trips) -> None:
        """Make room for the tile of a stored tensor, and drop what nobody needs any more."""
        stored, waiting = self.mapping.stored_at[access.tensor], self.waiting[access.tensor]
        above = trips[: stored.depth]
        tile = self._tile_of(access.tensor, above)
        if waiting.trips is None:
            waiting.contents = [{} for _ in tile]
            if access.tensor not in self.cascade.writers:
                whole = self.outside[access.tensor]
                waiting.contents = [{word: whole[word] for word in words} for words in tile]
        if waiting.trips != above:
            waiting.contents = [
                {word: value for word, value in held.items() if word in words}
                for held, words in zip(waiting.contents, tile, strict=True)
            ]
            waiting.trips = above
        if access.tensor not in self.cascade.persistent:
            words = self._stored_size(access.tensor, max(map(len, tile)))
            self.taken["stored", access.tensor] = stored.memory, words
            self.tiles[access.tensor] = tile[0]

    def _stored_size(self, tensor: str, words: int) -> int:
        einsum = self.cascade.einsums[self.cascade.users[tensor][0]]
        memory = self.mapping.stored_at[tensor].memory
        level = next(lv for lv in einsum.mapspace.architecture.levels if lv.name == memory)
        per_value = level.packing_of(einsum.accesses_of(tensor)[0].dataspace).size_per_value
        return math.ceil(words * per_value * dict(self.cascade.room_scale).get(tensor, 1))

    def _tile_of(self, tensor: str, above: Trips) -> list[Words]:
        """Words that are produced or read in some iterations, per instance of the memory."""
        covered = [
            self._covered(place, access, above)
            for place in self.cascade.users[tensor]
            for access in self.cascade.einsums[place].accesses_of(tensor)
        ]
        tiles = [frozenset[int]().union(*words) for words in zip(*filter(None, covered), strict=True)]
        return tiles if len(tiles) > 1 else [self._hull(tensor, *tiles)]

    def _hull(self, tensor: str, words: Words = EMPTY) -> Words:
        """The box around some words: what lies between them is still to be read."""
        shape = tensor_shape(self.cascade, tensor)
        if not words or not shape:
            return words
        spans = [range(min(own), max(own) + 1) for own in np.unravel_index(sorted(words), shape)]
        return frozenset(np.ravel_multi_index(np.ix_(*spans), shape).ravel().tolist())

    def _covered(self, place: int, access: Access, above: Trips) -> list[Words]:
        """Words of an access in all visits inside some iterations, per instance of the memory."""
        key = place, access.dataspace, above
        if key not in self.covered:
            visits = list(self._covered_by_visit(place, access, above))
            covered = [frozenset[int]().union(*words) for words in zip(*visits, strict=True)]
            others = (
                self._covered_by_nests(access.tensor, above) if self.cascade.einsums[place].is_copy else []
            )
            self.covered[key] = [words & covered[0] for words in others] if len(others) > 1 else covered
        return self.covered[key]

    def _covered_by_nests(self, tensor: str, above: Trips) -> list[Words]:
        """Words of a stored tensor per instance, as the nests of an Einsum have them that is no copy."""
        place = self._user_with_nests(tensor) if tensor in self.waiting else None
        if place is None:
            return []
        (access, *_) = self.cascade.einsums[place].accesses_of(tensor)
        return self._covered(place, access, above)

    def _user_with_nests(self, tensor: str) -> int | None:
        users = self.cascade.users[tensor]
        return next((place for place in users if not self.cascade.einsums[place].is_copy), None)

    def _covered_by_visit(self, place: int, access: Access, above: Trips) -> Iterator[list[Words]]:
        einsum, path = self.cascade.einsums[place], self.mapping.paths[place]
        for inner in product(*(range(loop.trips) for loop in path.loops[len(above) :])):
            parts = {dim: self.turns.part(place, dim, above + inner) for dim in einsum.problem.dims}
            if any(end <= start for start, end in parts.values()):
                continue
            above_nest = self._place_above(place, access, tuple(e - s for s, e in parts.values()))
            base = {dim: start for dim, (start, _) in parts.items()}
            origin = dict.fromkeys(parts, 0)
            yield [above_nest.tile(base, origin, number)[0] for number in range(len(above_nest.offsets))]

    def _place_above(self, place: int, access: Access, bounds: tuple[int, ...]) -> _Place:
        """Return the place above the nest as one visit sees it."""
        einsum = self.cascade.einsums[place]
        layout = layout_of(self.cascade, einsum, access)
        if einsum.is_copy:
            extents = dict(zip(einsum.problem.dims, bounds, strict=True))
            return _Place(layout, extents, extents, ({},), ())
        chain = next(
            chain for chain in self._chains_for(place, bounds) if chain.space.name == access.dataspace
        )
        pinned = next(number for number, store in enumerate(chain.stores) if isinstance(store, _Pinned))
        return chain.places[pinned]

    def _prepare(self, place: int, chain: _Chain, trips: Trips) -> None:
        """Point at what is stored or held above the nest."""
        access = self.cascade.einsums[place].access(chain.space.name)
        if access.tensor in self.waiting:
            self._point_at_stored(place, chain, access, trips)
        held = self.mapping.paths[place].leaf.held
        for tile in (tile for tile in held if tile.dataspace == chain.space.name):
            self._point_at_held(place, chain, access, trips[: tile.depth])

    def _point_at_stored(self, place: int, chain: _Chain, access: Access, trips: Trips) -> None:
        """Share the words of a stored tensor; add those that the visit will produce."""
        store = chain.stores[0]
        assert isinstance(store, _Pinned)
        buffers, contents = store.buffers, self.waiting[access.tensor].contents
        store.hold([frozenset(held) for held in contents])
        for buffer, held in zip(buffers, contents, strict=True):
            buffer.held = held
        fresh = self._covered(place, access, trips) if chain.space.read_write else []
        for buffer, words in zip(buffers, fresh, strict=False):
            buffer.held.update((word, 0) for word in words if word not in buffer.held)

    def _point_at_held(self, place: int, chain: _Chain, access: Access, above: Trips) -> None:
        """Fill a held tile when its turn begins; in later visits, of whichever kind, it is still there."""
        einsum, link, name = self.cascade.einsums[place], chain.links[0], chain.space.name
        pinned = link.child
        assert isinstance(pinned, _Pinned)
        if (place, name) in self.holding:
            for buffer, other in zip(pinned.buffers, self.holding[place, name].child.buffers, strict=True):
                buffer.held, buffer.parcels = other.held, other.parcels
            return
        for buffer in pinned.buffers:
            buffer.held, buffer.parcels = {}, {}
        tiles = self._held_words(place, access, above)
        pinned.hold(tiles)
        link.deliver(0)
        self.holding[place, name] = link
        level = einsum.mapspace.architecture.on_chip[0]
        size = max(map(len, tiles)) * level.packing_of(name).size_per_value
        self.taken[f"held {einsum.name}", name] = level.name, size

    def _held_words(self, place: int, access: Access, above: Trips) -> list[Words]:
        """Words of a held tile: the box of the part that the loops above select, if it is in one instance."""
        covered = self._covered(place, access, above)
        if len(covered) > 1:
            return covered
        einsum = self.cascade.einsums[place]
        layout = layout_of(self.cascade, einsum, access)
        parts = {dim: self.turns.part(place, dim, above) for dim in einsum.problem.dims}
        start = layout.position({dim: first for dim, (first, _) in parts.items()})
        box = _box(layout, {dim: end - first for dim, (first, end) in parts.items()})
        return [frozenset(start + word for word in box)]

    def _release(self, place: int, trips: Trips) -> None:
        """Write back what was held, and free the room, where the last visit of a turn is over."""
        einsum, path = self.cascade.einsums[place], self.mapping.paths[place]
        for tile in path.leaf.held:
            if self._is_last(path, trips, tile.depth) and (place, tile.dataspace) in self.holding:
                self.holding.pop((place, tile.dataspace)).write_back(None)
                self._finish((f"held {einsum.name}", tile.dataspace), path, tile.depth)
        for tensor in [tensor for tensor in einsum.tensors if tensor in self.waiting]:
            stored, users = self.mapping.stored_at[tensor], self.cascade.users[tensor]
            if place == users[-1] and self._is_last(path, trips, stored.depth):
                self._forget(tensor, path)

    def _finish(self, key: tuple[str, str], path: LeafPath, depth: int) -> None:
        """Free room now, or when the loops below the place end: other Einsums share them until then.

        A turn that is beyond the bounds has taken none.
        """
        if key not in self.taken:
            return
        if depth == len(path.loops):
            del self.taken[key]
        else:
            self.done[key] = path.bodies[depth], depth

    def _forget(self, tensor: str, path: LeafPath) -> None:
        """A stored tensor is not needed any more."""
        depth = self.mapping.stored_at[tensor].depth
        if depth == 0:
            contents = self.waiting[tensor].contents
            self.kept_whole[tensor] = {word: value for held in contents for word, value in held.items()}
        if tensor not in self.cascade.persistent:
            self._finish(("stored", tensor), path, depth)

    def _is_last(self, path: LeafPath, trips: Trips, depth: int) -> bool:
        return all(
            trip == loop.trips - 1 for trip, loop in zip(trips[depth:], path.loops[depth:], strict=True)
        )

    def _note_room(self, einsum: CascadeEinsum) -> None:
        for level in (own for own in einsum.mapspace.architecture.levels if not own.tolls):
            own = [(key, words) for key, (memory, words) in self.taken.items() if memory == level.name]
            groups: dict[str, list[str]] = {}
            for name in (name for (kind, name), _ in own if kind == "stored" and name in self.tiles):
                groups.setdefault(self._roots.get(name, name), []).append(name)
            joint = [names for names in groups.values() if len(names) > 1]
            apart = {("stored", name) for names in joint for name in names}
            total = sum(words for key, words in own if key not in apart) + sum(map(self._joint_size, joint))
            at = level.name, einsum.name
            self.room[at] = max(self.room.get(at, 0), total)

    def _joint_size(self, tensors: Sequence[str]) -> int:
        """Room of the values that a tensor and copies beside it have at some time, each once."""
        values = frozenset[int]().union(
            *(
                map(self._origins.get(name, {}).get, words, words)
                for name in tensors
                for words in [self.tiles[name]]
            )
        )
        return max(self._stored_size(name, len(values)) for name in tensors)

    @cached_property
    def _roots(self) -> dict[str, str]:
        """Copies that lie beside their source in one memory."""
        roots: dict[str, str] = {}
        for _, source, targets in self._copies_beside():
            roots |= dict.fromkeys((a.tensor for a in targets), roots.get(source.tensor, source.tensor))
        return roots

    @cached_property
    def _origins(self) -> dict[str, dict[int, int]]:
        """Of each word of these copies the one that it is a copy of."""
        origins: dict[str, dict[int, int]] = {}
        for einsum, source, targets in self._copies_beside():
            before = origins.get(source.tensor, {})
            for target in targets:
                whole = {dim: (0, bound) for dim, bound in einsum.problem.bound.items()}
                pairs = self._pairs(einsum, source, target, whole)
                origins[target.tensor] = {copy: before.get(word, word) for copy, word in pairs}
        return origins

    def _copies_beside(self) -> Iterator[tuple[CascadeEinsum, Access, list[Access]]]:
        for einsum in (einsum for einsum in self.cascade.einsums if einsum.is_copy):
            (source,) = (a for a in einsum.accesses if not einsum.space(a.dataspace).read_write)
            home = self._home(source.tensor) if source.tensor in self.mapping.stored_at else ""
            targets = (a for a in einsum.accesses if a.tensor in einsum.written)
            yield einsum, source, [target for target in targets if self._home(target.tensor) == home]

    def _pairs(
        self, einsum: CascadeEinsum, source: Access, target: Access, parts: Mapping[str, tuple[int, int]]
    ) -> Iterator[tuple[int, int]]:
        """Yield the words of a copy in part of its iterations, each with the word that it is a copy of."""
        read, written = (layout_of(self.cascade, einsum, access) for access in (source, target))
        for index in product(*(range(*part) for part in parts.values())):
            point = dict(zip(parts, index, strict=True))
            yield written.position(point), read.position(point)

    # Nests

    def _chains_for(self, place: int, bounds: tuple[int, ...]) -> list[_Chain]:
        """Return the chains of an Einsum for visits with some bounds: new stores, the same first touches."""
        if (place, bounds) not in self.chains:
            einsum, leaf = self.cascade.einsums[place], self.mapping.paths[place].leaf
            nest = next((nest for nest in leaf.nests if _bounds(einsum, nest) == bounds), None)
            if nest is None and [own.bounds for own in leaf.nests] == [None]:
                (nest,) = leaf.nests
            if nest is None:
                raise ValueError(f"no nest of {einsum.name} covers {bounds}")
            builder = _Builder(self, place, nest, dict(zip(einsum.problem.dims, bounds, strict=True)))
            self.nests[place, bounds] = list(builder.steps())
            self.chains[place, bounds] = [builder.chain(access) for access in einsum.accesses]
        return self.chains[place, bounds]

    def _reserve(self, place: int, chain: _Chain) -> None:
        """Reserve the tiles that the nest has of its own in the inner memories."""
        einsum = self.cascade.einsums[place]
        levels = {level.name: level for level in einsum.mapspace.architecture.levels}
        stores = zip(chain.memories, chain.places, chain.stores, strict=False)
        outermost = einsum.mapspace.architecture.levels[0].name
        own = [(m, at) for m, at, store in stores if m != outermost and not isinstance(store, _Pinned)]
        for memory, at in own:
            words = at.largest * levels[memory].packing_of(chain.space.name).size_per_value
            self.taken[f"own {einsum.name}", f"{memory} {chain.space.name}"] = memory, words

    # Copies and the result

    def _copy(self, place: int, trips: Trips) -> None:
        """Pass the words of a visit on, one by one."""
        einsum = self.cascade.einsums[place]
        (source,) = (a for a in einsum.accesses if not einsum.space(a.dataspace).read_write)
        home, origins = self._home(source.tensor), self._contents(source.tensor)
        at = {word: number for number, held in enumerate(origins) for word in held}
        parts = {dim: self.turns.part(place, dim, trips) for dim in einsum.problem.dims}
        read: set[int] = set()
        paid: dict[tuple[str, bool], set[int]] = {}
        for target in (a for a in einsum.accesses if einsum.space(a.dataspace).read_write):
            pairs = dict(self._pairs(einsum, source, target, parts))
            for copy, word in pairs.items():
                number = self._instance_of(target.tensor, copy)
                if self._home(target.tensor) == home != self._outermost and number != at[word]:
                    raise ValueError(f"a copy moves a word of {source.tensor} to another instance")
                self._contents(target.tensor)[number][copy] = origins[at[word]][word]
            if self._home(target.tensor) != home:
                read.update(pairs.values())
                inside = self._depth(self._home(target.tensor)) > self._depth(home)
                self._count(
                    einsum.name, self._home(target.tensor), target.dataspace, 1 + (not inside), len(pairs)
                )
                self._pay(einsum, source if inside else target, self._home(target.tensor), home, pairs, paid)
        if read:
            self._count(einsum.name, home, source.dataspace, 0, len(read))

    def _pay(
        self,
        einsum: CascadeEinsum,
        passing: Access,
        target: str,
        source: str,
        pairs: dict[int, int],
        paid: dict[tuple[str, bool], set[int]],
    ) -> None:
        """Let words pay the tolls between two memories that they have not `paid` yet on this way."""
        levels = einsum.mapspace.architecture.levels
        names = [level.name for level in levels]
        inwards = names.index(target) > names.index(source)
        low, high = sorted((names.index(target), names.index(source)))
        for level in (own for own in levels[low:high] if own.tolls):
            if level.charges(passing.dataspace, "down" if inwards else "up"):
                before = paid.setdefault((level.name, inwards), set())
                new = {word for word in pairs.values() if word not in before}
                before |= new
                self._count(einsum.name, level.name, passing.dataspace, 0 if inwards else 2, len(new))

    def _depth(self, memory: str) -> int:
        """Number of a memory, the outermost one first."""
        return [level.name for level in self.cascade.einsums[0].mapspace.architecture.levels].index(memory)

    def _contents(self, tensor: str) -> list[dict[int, int]]:
        """Words of a tensor by instance of its memory."""
        return self.waiting[tensor].contents if tensor in self.waiting else [self.outside[tensor]]

    def _instance_of(self, tensor: str, word: int) -> int:
        """The one instance that has to have a word."""
        if tensor not in self.waiting or len(self.waiting[tensor].contents) == 1:
            return 0
        (number,) = (
            n
            for n, words in enumerate(self._tile_of(tensor, self.waiting[tensor].trips or ()))
            if word in words
        )
        return number

    @property
    def _outermost(self) -> str:
        return self.cascade.einsums[0].mapspace.architecture.levels[0].name

    def _home(self, tensor: str) -> str:
        stored = self.mapping.stored_at.get(tensor)
        return self._outermost if stored is None else stored.memory

    def _used(self, einsum: CascadeEinsum, memory: str) -> int:
        """Instances of a memory among which the tensors of a copy are divided, as far as they lie there."""
        architecture = einsum.mapspace.architecture
        names = [level.name for level in architecture.levels]

        def outside(name: str) -> int:
            return architecture.fanouts_above(architecture.storage_indices[names.index(name)])

        used: dict[int, int] = {}
        for tensor in (own for own in einsum.tensors if own in self.waiting):
            children = self._children(tensor)
            used |= {number: children[number] for number in range(outside(self._home(tensor))) if children}
        return math.prod(used.get(number, 1) for number in range(outside(memory)))

    def _children(self, tensor: str) -> list[int]:
        """Children of each fanout that the nests of an Einsum use which accesses a tensor."""
        place = self._user_with_nests(tensor)
        nodes = () if place is None else self.mapping.paths[place].leaf.nests[0].mapping.nodes
        loops = (entry.spatial for entry in nodes if isinstance(entry, FanoutMapping))
        return [math.prod(loop.bound for loop in own) for own in loops]

    def _count(self, einsum: str, memory: str, dataspace: str, way: int, words: int) -> None:
        """Count words that a copy reads, fills or updates: way 0, 1 or 2."""
        self.moved.setdefault((einsum, memory, dataspace), [0, 0, 0])[way] += words

    def result(self) -> FusedExecution:
        """Sum up."""
        sums: dict[tuple[str, str, str], list[AccessCounts]] = {}
        for (place, _), chain in ((key, chain) for key, chains in self.chains.items() for chain in chains):
            for memory, store in zip(chain.memories, chain.stores, strict=False):
                key = self.cascade.einsums[place].name, memory, chain.space.name
                sums.setdefault(key, []).append(store.counts())
        counts = {
            key: AccessCounts(
                sum(c.reads for c in found),
                sum(c.fills for c in found),
                sum(c.updates for c in found),
                max(c.tile_words for c in found),
                max(c.instances for c in found),
            )
            for key, found in sums.items()
        }
        counts |= {key: toll.counts() for key, toll in self.tolls.items()}
        for key, (reads, fills, updates) in self.moved.items():
            einsum = self.cascade.einsums[self.cascade.place(key[0])]
            counts[key] = AccessCounts(reads, fills, updates, 0, self._used(einsum, key[1]))
        values = {t: held for t, held in self.outside.items() if t not in self.waiting} | self.kept_whole
        tensors = {tensor: self._array(tensor, held) for tensor, held in values.items()}
        return FusedExecution(tensors, counts, self.steps, self.visits, self.room)

    def _array(self, tensor: str, held: dict[int, int]) -> Array:
        shape = tensor_shape(self.cascade, tensor)
        flat = [held.get(word, 0) for word in range(math.prod(shape))]
        return np.array(flat, dtype=np.int64).reshape(shape)


def _loops_of(entry: NodeMapping) -> Sequence[Loop | SpatialLoop]:
    return entry.spatial if isinstance(entry, FanoutMapping) else entry.temporal


def _box(layout: Layout, extents: Mapping[str, int]) -> Words:
    """Words that a block of iterations touches, relative to the first point's."""
    origin = dict.fromkeys(extents, 0)
    first = layout.position(origin)
    return frozenset(word - first for word in layout.touched(origin, extents))


def _bounds(einsum: CascadeEinsum, nest: PrivateNest) -> tuple[int, ...]:
    bound = dict.fromkeys(einsum.problem.dims, 1)
    for entry in nest.mapping.nodes:
        for loop in _loops_of(entry):
            bound[loop.dim] *= loop.bound
    return tuple({**bound, **dict(nest.bounds or ())}.values())


class _Builder:
    """Lays out the nest of one kind of visits, with the tiles above it."""

    def __init__(self, run: _Run, place: int, nest: PrivateNest, bounds: dict[str, int]) -> None:
        self.run, self.place, self.nest, self.bounds = run, place, nest, bounds
        self.einsum = run.cascade.einsums[place]
        self.leaf = run.mapping.paths[place].leaf
        self.architecture = nest.placed(self.einsum.mapspace.architecture)
        self.loops = self._loops()

    @property
    def base(self) -> Architecture:
        return self.einsum.mapspace.architecture

    def _above(self, access: Access) -> tuple[str, float] | None:
        """Return the memory that has the tile above the nest, and a place just outside of its first one."""
        stored = self.run.mapping.stored_at.get(access.tensor)
        held = any(tile.dataspace == access.dataspace for tile in self.leaf.held)
        if stored is None and not held:
            return None
        memory = self.base.on_chip[0].name if stored is None else stored.memory
        if self.nest.order is not None:
            return memory, self._inside_of_outer(memory)
        first = next(
            i
            for i, node in enumerate(self.architecture.nodes)
            if not isinstance(node, Fanout) and node.component == memory
        )
        return memory, first - 0.5

    def _inside_of_outer(self, memory: str) -> float:
        """Return a place just inside of all places of memories that lie outside of one in hardware."""
        names = [level.name for level in self.base.levels]
        outer = names[: names.index(memory)]
        pairs = enumerate(self.architecture.nodes)
        last = max(n for n, node in pairs if not isinstance(node, Fanout) and node.component in outer)
        return last + (0.5 if memory == names[1] else 0.75)

    def _at(self, number: int, dim: str) -> float:
        """Return where a spatial loop stands in a nest of an order of its own.

        That is right above the first tile in a memory inside of its fanout that its dimension indexes: then
        the tiles of all memories are boxes.
        """
        tiles = [float(len(self.architecture.nodes))]
        for access in (own for own in self.einsum.accesses if dim in self.einsum.space(own.dataspace).dims):
            above = self._above(access)
            tiles += [] if above is None else [above[1]]
            tiles += self._kept(access.dataspace)
        return min(tile for tile in tiles if self._fanouts_above(tile) > number) - 0.1

    def _fanouts_above(self, node: float) -> int:
        """Fanouts outside of a place in hardware."""
        if node == int(node):
            return self.architecture.fanouts_above(int(node))
        above = (self._above(access) for access in self.einsum.accesses)
        memory = next(own[0] for own in above if own is not None and own[1] == node)
        names = [level.name for level in self.base.levels]
        return self.base.fanouts_above(self.base.storage_indices[names.index(memory)])

    def _is_outside(self, loop: _NestLoop, node: float) -> bool:
        """Whether a loop lies outside of a place: of a spatial one, whether the hardware there is a child."""
        if loop.fanout is None or self.nest.order is None:
            return loop.node < node
        return loop.fanout < self._fanouts_above(node)

    def _kept(self, name: str) -> list[float]:
        """Return the places that the nest itself has of a dataspace."""
        return [
            float(number)
            for number, entry in enumerate(self.nest.mapping.nodes)
            if not isinstance(entry, FanoutMapping) and name in entry.keep
            if not self._has_tolls(number)
        ]

    def _loops(self) -> list[_NestLoop]:
        """Return all loops, outermost first; those of the outermost memory lie below tiles above the nest."""
        places = [self._above(access) for access in self.einsum.accesses]
        top = self.base.on_chip[0].name if self.base.on_chip else ""
        moved_to = next((place[1] for place in places if place is not None and place[0] == top), 0.0)
        flat: list[tuple[float, str, int, int | None]] = []
        for number, entry in enumerate(self.nest.mapping.nodes):
            node = moved_to if number == 0 else float(number)
            fanout = None
            if isinstance(entry, FanoutMapping):
                fanout = self.architecture.fanout_indices.index(number)
            for loop in reversed(_loops_of(entry)):
                own = fanout is not None and self.nest.order is not None
                flat.append((self._at(fanout or 0, loop.dim) if own else node, loop.dim, loop.bound, fanout))
        flat.sort(key=lambda loop: loop[0])
        stride = dict.fromkeys(self.einsum.problem.dims, 1)
        nest: list[_NestLoop] = []
        for node, dim, bound, fanout in reversed(flat):
            nest.append(_NestLoop(node, dim, bound, stride[dim], fanout))
            stride[dim] *= bound
        if any(stride[dim] < size for dim, size in self.bounds.items()):
            raise ValueError(f"the loops of {self.einsum.name} do not cover {self.bounds}")
        return nest[::-1]

    def steps(self) -> Iterator[_Step]:
        """Yield the steps of a visit in which the first arithmetic unit, and with it any, has work."""
        temporal = [loop for loop in self.loops if not loop.spatial]
        last: Trips = ()
        for index in product(*(range(loop.bound) for loop in temporal)):
            point = dict.fromkeys(self.einsum.problem.dims, 0)
            for i, loop in zip(index, temporal, strict=True):
                point[loop.dim] += i * loop.stride
            if any(at >= self.bounds[dim] for dim, at in point.items()):
                continue
            advanced = next((n for n, (a, b) in enumerate(zip(last, index, strict=False)) if a != b), -1)
            last = index
            yield point, advanced + 1

    def chain(self, access: Access) -> _Chain:
        """Return the stores of a dataspace and the links between them."""
        space = self.einsum.space(access.dataspace)
        layout = layout_of(self.run.cascade, self.einsum, access)
        above = self._above(access)
        nodes = sorted([*self._kept(space.name), *([] if above is None else [above[1]])])
        nodes.append(float(len(self.architecture.nodes)))
        places = tuple(self._place(layout, node) for node in nodes)
        pairs = zip(nodes, places, strict=True)
        stores = [self._store(space, access, node, len(at.offsets)) for node, at in pairs]
        ways = [self._way(space, a, b) for a, b in pairwise(nodes)]
        links = tuple(
            Link(parent, child, way, space.read_write)
            for (parent, child), way in zip(pairwise(stores), ways, strict=True)
        )
        memories = tuple(self._memory(node, above) for node in nodes[:-1])
        held = above is not None and access.tensor not in self.run.mapping.stored_at
        return _Chain(space, layout, memories, tuple(stores), links, places, pinned=int(held))

    def _memory(self, place: float, above: tuple[str, float] | None) -> str:
        if above is not None and place == above[1]:
            return above[0]
        level = self.architecture.nodes[int(place)]
        assert isinstance(level, StorageLevel)
        return level.component

    def _place(self, layout: Layout, node: float) -> _Place:
        extents = dict.fromkeys(self.einsum.problem.dims, 1)
        for loop in self.loops:
            extents[loop.dim] *= 1 if self._is_outside(loop, node) else loop.bound
        extents = {dim: min(size, self.bounds[dim]) for dim, size in extents.items()}
        across = [loop for loop in self.loops if loop.spatial and self._is_outside(loop, node)]
        across.sort(key=lambda loop: loop.fanout or 0)  # children of one parent are neighbours
        offsets = tuple(
            {
                dim: sum(i * own.stride for i, own in zip(index, across, strict=True) if own.dim == dim)
                for dim in {own.dim for own in across}
            }
            for index in product(*(range(loop.bound) for loop in across))
        )
        outside = tuple(loop for loop in self.loops if not loop.spatial and loop.node < node)
        return _Place(layout, self.bounds, extents, offsets, outside)

    def _store(self, space: Dataspace, access: Access, node: float, instances: int) -> Store:
        unused = tuple(Visits((EMPTY,), (EMPTY,)) for _ in range(instances))
        if node == len(self.architecture.nodes):
            return Store(unused, temporal_reuse=False)
        store = self._level_store(space, access, node, unused)
        # A memory has one first touch of a word, at whichever of its places.
        key = self.place, space.name, self._memory(node, self._above(access))
        known = self.run.touched.setdefault(key, {}).setdefault(tuple(self.bounds.values()), store.buffers)
        for buffer, first in zip(store.buffers, known, strict=False):
            buffer.arrived, buffer.served = first.arrived, first.served
        return store

    def _level_store(
        self, space: Dataspace, access: Access, node: float, unused: tuple[Visits, ...]
    ) -> Store:
        memory = self._memory(node, self._above(access))
        level = next(own for own in self.architecture.levels if own.component == memory)
        elides = space.name not in level.rmw_first_update
        if node != int(node):
            return _Pinned(unused, elides_first_touch=elides)
        reuse = space.name not in level.no_temporal_reuse
        store = Store(unused, temporal_reuse=reuse, elides_first_touch=elides)
        if node == 0:
            store.buffers[0].held = self.run.outside[access.tensor]
        return store

    def _way(self, space: Dataspace, outer: float, inner: float) -> tuple[tuple[int, bool] | Toll, ...]:
        """Return the tolls and fanouts between two places: children in use, and if multicast reaches them."""
        way: list[tuple[int, bool] | Toll] = []
        if self.nest.order is not None:
            between = range(self._fanouts_above(outer), self._fanouts_above(inner))
            for fanout in between:
                used = math.prod(loop.bound for loop in self.loops if loop.fanout == fanout)
                way.append((used, space.name not in self.architecture.fanouts[fanout].no_multicast))
            return tuple(way)
        for number, node in enumerate(self.architecture.nodes):
            if not outer < number < inner:
                continue
            if isinstance(node, Fanout):
                used = math.prod(loop.bound for loop in self.loops if loop.node == number)
                way.append((used, space.name not in node.no_multicast))
            elif space.name in dict(node.tolls):
                way.append(self._toll(space, node, number))
        return tuple(way)

    def _has_tolls(self, number: int) -> bool:
        node = self.architecture.nodes[number]
        return isinstance(node, StorageLevel) and bool(node.tolls)

    def _toll(self, space: Dataspace, level: StorageLevel, number: int) -> Toll:
        """Return the toll that all kinds of visits pass, with as many instances as any of them uses."""
        instances = math.prod(loop.bound for loop in self.loops if loop.spatial and loop.node < number)
        toll = Toll(instances, level.charges(space.name, "down"), level.charges(space.name, "up"))
        key = self.einsum.name, level.name, space.name
        known = self.run.tolls.setdefault(key, toll)
        known.buffers += [Buffer() for _ in range(instances - len(known.buffers))]
        return known


def _compute(chains: Sequence[_Chain]) -> None:
    """One multiply-accumulate in each arithmetic unit that has work."""
    operands = [chain.links[-1].child.buffers for chain in chains if not chain.space.read_write]
    results = [chain.links[-1].child.buffers for chain in chains if chain.space.read_write]
    works = chains[0].links[-1].child.tiles(chains[0].turns[-1])
    for unit in (unit for unit, tile in enumerate(works) if tile is not None):
        term = math.prod(value for buffers in operands for value in buffers[unit].held.values())
        for buffers in results:
            (word,) = buffers[unit].held
            buffers[unit].held[word] += term
