"""What may be fused: bodies over neighbouring Einsums, their shared loops, and the places of tiles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import NamedTuple

from model.architecture import StorageLevel
from model.counting.words import tile_words
from model.extents import tiles_of
from model.fused.cascade import Access, Cascade, CascadeEinsum
from model.fused.check import FusedMappingError, accesses_of, check_halo, handed_over, loop_choices
from model.fused.mapping import Body, FusedMapping, Leaf, SharedLoop, Stored
from model.fused.visits import Visits, multi_term_dims, slides, window_dims
from model.mapspace import KeepRules
from model.problem import Dataspace
from solver.fusion.amounts import Amount, FloatArray
from solver.fusion.copies import Copies
from solver.fusion.edges import dense
from solver.fusion.limits import FusionLimits, NotSearchedError, check_einsum
from solver.fusion.remembered import remembered
from solver.fusion.stores import Shares, Spread, Stores
from solver.search.stopping import Stop, heed, never

Trips = dict[str, Amount]
"""By dimension of an Einsum, the product of the shared loops over it."""

Parts = tuple[tuple[int, int], ...]
"""Extents of a dimension's parts, and how many there are of each; the first one's extent first."""

TileKind = tuple[frozenset[int], frozenset[int]]
"""Classes of a body's loops that move a tile, and those that bring words of it again."""

Segment = tuple[tuple[int, Amount], ...]
"""Loops of a body with no place between them: classes of loops and trips, by class."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How shared loops cut the dimensions of an Einsum.

    Parameters
    ----------
    trips
        By dimension, how many parts it has that are not empty; 1 where there is no entry.
    parts
        Those of dimensions whose parts are not alike.
    """

    trips: Trips = field(default_factory=dict)
    parts: dict[str, Parts] = field(default_factory=dict)

    @property
    def visits(self) -> Amount:
        """How often the Einsum runs."""
        return math.prod(self.trips.values())

    def largest(self, dim: str, bound: int) -> Amount:
        """Extent of a dimension's largest part."""
        return (
            max(size for size, _ in self.parts[dim]) if dim in self.parts else bound // self.trips.get(dim, 1)
        )

    def share(self, words: Amount, instances: int) -> Amount:
        """The least part of some words that one of several instances has."""
        return -(-words // instances)


@dataclass(frozen=True, slots=True)
class Cuts(Cut):
    """Those of many bodies: extents of parts are what they are at the least, perhaps no whole numbers.

    Parameters
    ----------
    sizes
        Where further loops may cut dimensions into unequal parts, their largest extents, as far as these are
        known.
    is_rough
        Whether bounds leave out what visits bring again.
    """

    sizes: dict[str, FloatArray] | None = None
    is_rough: bool = False

    def largest(self, dim: str, bound: int) -> Amount:
        """Mean extent of a dimension's parts."""
        return bound / self.trips.get(dim, 1)

    def share(self, words: Amount, instances: int) -> Amount:
        """The mean part of some words that instances have."""
        return words / instances


WHOLE = Cut()
"""Not cut at all."""


class Tile(NamedTuple):
    """A dataspace of an Einsum in the outermost on-chip memory.

    Parameters
    ----------
    windowed
        Dimensions that neighbouring tiles overlap along.
    holdable, bypassed, bypassable
        Whether the memory may keep it at all, must not keep it, and need not.
    """

    place: int
    space: Dataspace
    tensor: str
    dims: frozenset[str]
    windowed: frozenset[str]
    bypassed: bool
    bypassable: bool
    size_per_value: int

    @property
    def least_words(self) -> int:
        """Room that it takes at the least where it is neither stored nor held."""
        return 0 if self.bypassable else self.size_per_value


@dataclass(frozen=True)
class Frame:
    """An open body: Einsums from `start` to before `end`, and its loops, outermost first.

    A flat one has no bodies inside, any other has at least one.
    """

    start: int
    end: int
    segments: tuple[Segment, ...]
    flat: bool = True


Frames = tuple[Frame, ...]
"""Bodies in each other, the outermost first."""


@dataclass(frozen=True)
class FusionSpace:
    """Bodies, loops and places of a cascade that passes `check`."""

    cascade: Cascade
    limits: FusionLimits = FusionLimits()
    remainders: bool = False
    """Whether shared loops may have remainders."""
    stop: Stop = field(default=never, compare=False)
    """Raises `Stopped` where long cascades take long to look at, once it answers True."""

    def check(self) -> None:
        """Refuse what is not searched.

        Raises
        ------
        NotSearchedError
            If the search does not know something of the cascade.
        LimitError
            If limits name what is not there.
        """
        for einsum in self.cascade.einsums:
            check_einsum(einsum)
        if 1 in self.stores.unlike:
            text = f"`{self.memory.name}` has different sizes for some Einsums of the cascade"
            raise NotSearchedError(f"{text}; only memories inside of the outermost on-chip one may")
        self.limits.check(self.cascade)

    @cached_property
    def einsums(self) -> tuple[CascadeEinsum, ...]:
        """In the order in which they run."""
        return self.cascade.einsums

    @cached_property
    def memory(self) -> StorageLevel:
        """The outermost on-chip memory."""
        return self.einsums[0].mapspace.architecture.on_chip[0]

    @cached_property
    def tiles(self) -> tuple[tuple[Tile, ...], ...]:
        """Per Einsum its dataspaces, in the problem's order."""
        return tuple(
            tuple(self._tile(place, space) for space in einsum.problem.dataspaces)
            for place, einsum in enumerate(self.einsums)
        )

    def _tile(self, place: int, space: Dataspace) -> Tile:
        einsum = self.einsums[place]
        rules, level = _home_rules(einsum), einsum.mapspace.architecture.on_chip[0]
        return Tile(
            place,
            space,
            einsum.access(space.name).tensor,
            space.dims,
            multi_term_dims(einsum, space.name) | _strided(space),
            space.name in rules.bypass,
            space.name not in rules.keep,
            level.packing_of(space.name).size_per_value,
        )

    def is_repeated(self, tile: Tile) -> bool:
        """Whether the Einsum accesses before what may take one room with a tile: its tensor, or a copy."""
        relatives = self.copies.relatives(tile.tensor)
        others = self.tiles[tile.place]
        return next(own.space.name for own in others if own.tensor in relatives) != tile.space.name

    @cached_property
    def homes(self) -> dict[str, tuple[int, ...]]:
        """Per tensor that may be stored, the levels of the memories that may do so, outermost first."""
        found = {
            tensor: tuple(level for level in levels if self.copies.may_lie(tensor, level))
            for tensor, levels in self._allowed_homes.items()
        }
        return {tensor: levels for tensor, levels in found.items() if levels}

    @cached_property
    def barred_to_copies(self) -> frozenset[int]:
        """Levels of memories that might store tensors which copies alone access."""
        pairs = ((tensor, level) for tensor, levels in self._allowed_homes.items() for level in levels)
        return frozenset(level for tensor, level in pairs if not self.copies.may_lie(tensor, level))

    @cached_property
    def _allowed_homes(self) -> dict[str, tuple[int, ...]]:
        """Per tensor that may be stored somewhere, the levels that the limits allow."""
        unfused = self.limits.no_fuse | self.cascade.persistent
        tensors = (tensor for tensor in self.cascade.intermediates if tensor not in unfused)
        return {tensor: tuple(filter(self._is_allowed, self.stores.homes(tensor))) for tensor in tensors}

    def _is_allowed(self, level: int) -> bool:
        named = self.limits.memories
        return named is None or self.stores.levels[level].name in named

    @cached_property
    def stores(self) -> Stores:
        """The memories that may store tensors."""
        return Stores(self.cascade)

    @cached_property
    def copies(self) -> Copies:
        """The copies among the Einsums."""
        return Copies(self.cascade)

    @cached_property
    def storable(self) -> frozenset[str]:
        """Tensors between Einsums that may be stored on chip."""
        return frozenset(self.homes)

    @cached_property
    def is_deep(self) -> bool:
        """Whether memories farther in than the outermost on-chip one may store tensors."""
        return any(level > 1 for levels in self.homes.values() for level in levels)

    @cached_property
    def is_parted(self) -> bool:
        """Whether the outermost on-chip memory exists several times."""
        return bool(self.stores.outside(1))

    @cached_property
    def has_shapes(self) -> bool:
        """Whether more than the size of a tile matters to the outermost on-chip memory."""
        return self.is_parted or bool(self.stores.least)

    @cached_property
    def is_intricate(self) -> bool:
        """Whether more than the room of one memory matters to a path: some bounds are left out then."""
        return self.is_deep or self.has_shapes

    @cached_property
    def inner(self) -> tuple[int, ...]:
        """Levels of the memories inside of the outermost on-chip one that may store tensors at all."""
        return tuple(number for number in self.stores.levels if number > 1)

    @cached_property
    def rooms(self) -> dict[int, int]:
        """Words of those of them that may store some tensor, and have a limit."""
        used = {level for levels in self.homes.values() for level in levels}
        pairs = ((number, self.stores.levels[number].usable_words) for number in self.inner)
        return {number: words for number, words in pairs if words is not None and number in used}

    @remembered
    def deeper_choices(self, place: int, outside: frozenset[str]) -> tuple[tuple[tuple[str, int], ...], ...]:
        """Ways to store the tensors of an Einsum in memories farther in, as `EdgeKind.deeper` has them.

        Parameters
        ----------
        outside
            Tensors that go through the outermost memory.
        """
        tensors = sorted({t.tensor for t in self.tiles[place]} - outside)
        levels = [(0, *(n for n in self.homes.get(tensor, ()) if n > 1)) for tensor in tensors]
        return tuple(
            self.deeper(place, dict(zip(tensors, chosen, strict=True))) for chosen in product(*levels)
        )

    def deeper(self, place: int, levels: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
        """The dataspaces of an Einsum that are stored farther in, given the levels of tensors."""
        pairs = ((tile.space.name, levels.get(tile.tensor, 0)) for tile in self.tiles[place])
        return tuple(sorted((name, level) for name, level in pairs if level > 1))

    @remembered
    def classes(self, start: int, end: int) -> tuple[tuple[str, ...], ...]:
        """Classes of loops of a body: a dimension for each of its Einsums."""
        return tuple(self._loop_classes(start, end))

    def _loop_classes(self, start: int, end: int) -> Iterator[tuple[str, ...]]:
        members = self.einsums[start:end]
        if len({einsum.n_instances for einsum in members}) > 1:
            return
        for dims in loop_choices(self.cascade, range(start, end)):
            chosen = tuple(dims[einsum.name] for einsum in members)
            if any(dim in self._windows(start, end, j) for j, dim in enumerate(chosen, start)):
                continue
            slides = not self._is_plain(start, end, chosen)
            if not any(_is_joint(einsum, dim, slides) for einsum, dim in zip(members, chosen, strict=True)):
                yield chosen

    @remembered
    def _windows(self, start: int, end: int, place: int) -> frozenset[str]:
        """Dimensions of an Einsum that no shared loop of a body runs over, if places decide what stays.

        They slide windows of what is handed over in the body.
        """
        einsum = self.einsums[place]
        if einsum.mapspace.counting_rule.by_order:
            return frozenset()
        return window_dims(einsum, handed_over(self.cascade, range(start, end)))

    @property
    def passes_windows(self) -> bool:
        """Whether shared loops leave out dimensions of windows of what Einsums hand over."""
        every = range(len(self.einsums))
        return any(self._windows(0, len(self.einsums), place) for place in every)

    @remembered
    def sliding(self, start: int, end: int) -> frozenset[int]:
        """Classes of a body's loops that move a window: producers go as far as their readers need."""
        classes = enumerate(self.classes(start, end))
        return frozenset(n for n, dims in classes if not self._is_plain(start, end, dims))

    def _is_plain(self, start: int, end: int, dims: Sequence[str]) -> bool:
        """Whether a loop cuts what is handed over into equal parts without an overlap."""
        members = self.einsums[start:end]
        if len({e.problem.bound[dim] for e, dim in zip(members, dims, strict=True)}) > 1:
            return False
        indices = [
            index
            for einsum, dim in zip(members, dims, strict=True)
            for access in einsum.accesses
            for index in self._indices(einsum, access, dim, start, end)
        ]
        offsets = {(tensor, rank): offset for tensor, rank, offset in indices}
        return None not in offsets.values() and len(set(indices)) == len(offsets)

    def _indices(
        self, einsum: CascadeEinsum, access: Access, dim: str, start: int, end: int
    ) -> Iterator[tuple[str, str, int | None]]:
        """Yield tensor, rank and offset where a dimension indexes what is handed over; None in windows."""
        space = einsum.space(access.dataspace)
        if not self._is_handed(access.tensor, start, end):
            return
        for rank, terms, offset in zip(access.ranks, space.ranks, access.offsets, strict=True):
            if dim in [term.dim for term in terms]:
                plain = len(terms) == 1 and terms[0].coefficient == 1
                yield access.tensor, rank, offset if plain else None

    def _is_handed(self, tensor: str, start: int, end: int) -> bool:
        writer = self.cascade.writers.get(tensor)
        if writer is None or not start <= writer < end:
            return False
        return any(start <= reader < end for reader in self.cascade.readers(tensor))

    @cached_property
    def followers(self) -> frozenset[int]:
        """Einsums that loops may cut into unequal parts: in some body they go as far as readers' windows."""
        return frozenset(
            place
            for start, end in self.bodies()
            if self.sliding(start, end)
            for place in range(start, end)
            if any(start <= r < end for t in self.einsums[place].written for r in self.cascade.readers(t))
        )

    def looped(self, place: int) -> dict[str, frozenset[range]]:
        """Dimensions of an Einsum that shared loops may run over, and the bodies that have such loops."""
        return self._looped[place]

    @cached_property
    def _looped(self) -> tuple[dict[str, frozenset[range]], ...]:
        found: list[dict[str, set[range]]] = [{} for _ in self.einsums]
        loops = ((range(*body), dims) for body in self.bodies() for dims in self.classes(*body))
        for body, place, dim in (
            (b, place, dim) for b, dims in loops for place, dim in zip(b, dims, strict=True)
        ):
            found[place].setdefault(dim, set()).add(body)
        return tuple({dim: frozenset(bodies) for dim, bodies in sorted(own.items())} for own in found)

    # Loops of a path

    @remembered
    def cuts(self, frames: Frames, place: int) -> tuple[Cut, ...]:
        """How loops cut an Einsum above each place of its path, outermost first."""
        return tuple(self._cut(frames, place))

    def _cut(self, frames: Frames, place: int) -> Iterator[Cut]:
        yield WHOLE
        visits = self.visits(frames) if self.slides(frames) else None
        parts: dict[str, Counter[int]] = {}
        trips: Trips = {}
        depth = 0
        for frame, segment in ((own, segment) for own in frames for segment in own.segments):
            depth += len(segment)
            trips = self.grown(trips, frame, place, segment)
            if visits is not None:
                extents = {d: visits.extents(place - frames[0].start, d, depth) for d in trips}
                yield _cut_into(extents)
            elif self.remainders:
                parts = self._parted(parts, frame, place, segment)
                yield _cut_into(parts)
            else:
                yield Cut(trips)

    def _parted(
        self, parts: dict[str, Counter[int]], frame: Frame, place: int, segment: Segment
    ) -> dict[str, Counter[int]]:
        """How many parts of each extent further loops of a body make, none of which moves a window."""
        classes, found = self.classes(frame.start, frame.end), dict(parts)
        for number, count in segment:
            dim = classes[number][place - frame.start]
            before = found.get(dim) or {self.einsums[place].problem.bound[dim]: 1}
            tile = tiles_of(max(before), count)
            found[dim] = Counter()
            for size, times in before.items():
                found[dim].update({tile: size // tile * times})
                found[dim].update({size % tile: times})
            found[dim] = Counter({size: times for size, times in found[dim].items() if size and times})
        return found

    def slides(self, frames: Frames) -> bool:
        """Whether some loop of open bodies moves a window."""
        return any(
            number in self.sliding(frame.start, frame.end)
            for frame in frames
            for segment in frame.segments
            for number, _ in segment
        )

    @remembered
    def visits(self, frames: Frames) -> Visits:
        """What the visits of the outermost body's Einsums cover; places count from its first one."""
        members = self.einsums[frames[0].start : frames[0].end]
        part = replace(self.cascade, einsums=members)
        return Visits(part, FusedMapping((self.tree(frames),)))

    def tree(self, frames: Frames) -> Body:
        """The open bodies, with leaves for all that is not decided."""
        frame, inner = frames[0], frames[1:]
        below = range(inner[0].start, inner[0].end) if inner else range(0)
        children: list[Body | Leaf] = [
            Leaf(self.einsums[place].name, ())
            for place in range(frame.start, frame.end)
            if place not in below
        ]
        if inner:
            children.insert(below.start - frame.start, self.tree(inner))
        return Body(self.loops(frame), tuple(children))

    def grown(self, trips: Trips, frame: Frame, place: int, segment: Segment) -> Trips:
        """Trips over an Einsum's dimensions with further loops of a body, whether or not they are empty."""
        classes, grown = self.classes(frame.start, frame.end), dict(trips)
        for number, count in segment:
            dim = classes[number][place - frame.start]
            grown[dim] = grown.get(dim, 1) * count
        return grown

    def loops(self, frame: Frame) -> tuple[SharedLoop, ...]:
        """The loops of a body, outermost first: those of a segment that move a window come last."""
        classes, sliding = self.classes(frame.start, frame.end), self.sliding(frame.start, frame.end)
        names = [einsum.name for einsum in self.einsums[frame.start : frame.end]]
        return tuple(
            SharedLoop(count, tuple(zip(names, classes[number], strict=True)))
            for segment in frame.segments
            for number, count in sorted(segment, key=lambda loop: loop[0] in sliding)
        )

    @remembered
    def ends(self, start: int) -> tuple[int, ...]:
        """Ends of the bodies that may begin with an Einsum."""
        return () if self.limits.max_loops == 0 else tuple(self._body_ends(start))

    def bodies(self) -> Iterator[tuple[int, int]]:
        """Yield the first Einsum and the end of each body that there may be."""
        yield from ((start, end) for start in range(len(self.einsums)) for end in self.ends(start))

    def _body_ends(self, start: int) -> Iterator[int]:
        for end in range(start + 2, len(self.einsums) + 1):
            heed(self.stop)
            if not any(start <= writer for writer in self._writers_across(end - 1)):
                return
            if self.classes(start, end):
                yield end
                continue
            if len(self._connected(start, end)) == end - start:
                return  # a longer body has no loops either

    def _writers_across(self, cut: int) -> Iterator[int]:
        """Yield the Einsums before a cut that hand something over to one after it."""
        for tensor in self.crossing(cut):
            yield self.cascade.writers[tensor]

    @cached_property
    def _crossing(self) -> tuple[tuple[str, ...], ...]:
        """Per cut, before each Einsum, the tensors that are handed over across it."""
        found: list[list[str]] = [[] for _ in range(len(self.einsums) + 1)]
        for tensor in self.cascade.intermediates:
            users = self.cascade.users[tensor]
            for cut in range(users[0] + 1, users[-1] + 1):
                found[cut].append(tensor)
        return tuple(map(tuple, found))

    def crossing(self, cut: int) -> tuple[str, ...]:
        """Return the tensors that Einsums before a cut hand over to those after it."""
        return self._crossing[cut]

    def _connected(self, start: int, end: int) -> set[int]:
        """Einsums that handed tensors connect with the first of some neighbours."""
        members = range(start, end)
        groups = [set(self.cascade.users[t]) & set(members) for t in handed_over(self.cascade, members)]
        reached, before = {start}, set[int]()
        while reached != before:
            before = set(reached)
            reached.update(*(group for group in groups if group & before))
        return reached

    def raw_trips(self, frames: Frames, place: int) -> Trips:
        """Trips of all loops over each dimension of an Einsum, whether or not they are empty."""
        return self._trips_above(frames, place, sum(len(frame.segments) for frame in frames))

    @remembered
    def tile_kinds(self, start: int, end: int) -> frozenset[TileKind]:
        """Kinds of all tiles that may be held."""
        places = (place for place in range(start, end) if not self.einsums[place].is_copy)
        every = (tile for place in places for tile in self.tiles[place])
        tiles = (tile for tile in every if not tile.bypassed or self.stores.least)
        return frozenset(self.kind_of(tile, start, end) for tile in tiles)

    def least_depth(self, frames: Frames, tile: Tile) -> int:
        """Segments that a tile lies below if its tensor goes through the outermost memory."""
        cascade = self.cascade
        writer = cascade.writers.get(tile.tensor)
        if writer is None:
            return 0
        readers = cascade.readers(tile.tensor)
        if writer != tile.place:
            return sum(len(frame.segments) for frame in frames if frame.start <= writer)
        return sum(len(frame.segments) for frame in frames if readers and frame.end > readers[0])

    def kind_of(self, tile: Tile, start: int, end: int) -> TileKind:
        """Which loops of a body move a tile, and which bring words again."""
        dims = [own[tile.place - start] for own in self.classes(start, end)]
        moving = frozenset(n for n, dim in enumerate(dims) if dim in tile.dims)
        again = frozenset(n for n, dim in enumerate(dims) if dim not in tile.dims or dim in tile.windowed)
        return moving, again

    @remembered
    def keeping(self, tile: Tile, start: int, end: int) -> frozenset[int]:
        """Classes of a body's loops right below which a held tile may keep what overlaps."""
        dims = (own[tile.place - start] for own in self.classes(start, end))
        return frozenset(number for number, dim in enumerate(dims) if dim in self.kept_dims(tile))

    @remembered
    def overlapping(self, start: int, end: int) -> frozenset[int]:
        """Classes of a body's loops below which any tile may do so: each is a segment of its own."""
        every = (tile for place in range(start, end) for tile in self.tiles[place])
        return frozenset[int]().union(*(self.keeping(tile, start, end) for tile in every))

    @remembered
    def kept_dims(self, tile: Tile) -> frozenset[str]:
        """Dimensions of shared loops that may slide a held tile so that it keeps what overlaps."""
        einsum = self.einsums[tile.place]
        if tile.bypassed or einsum.is_copy or einsum.mapspace.counting_rule.by_order:
            return frozenset()
        return frozenset(dim for dim in self.looped(tile.place) if _overlaps(einsum, tile.space, dim))

    def fetch_depth(self, frames: Frames, tile: Tile, depth: int) -> int:
        """Segments that fetch all of a held tile again: those above it, or all but the last of them."""
        pairs = [(frame, segment) for frame in frames for segment in frame.segments]
        frame, segment = pairs[depth - 1] if depth else (None, ())
        if frame is None or not {n for n, _ in segment} <= self.keeping(tile, frame.start, frame.end):
            return depth
        fewer, words = (self.moved_words(tile, own) for own in self.cuts(frames, tile.place)[depth - 1 :][:2])
        return depth - 1 if fewer < words else depth

    def moved_words(self, tile: Tile, cut: Cut) -> Amount:
        """Words of all tiles below shared loops, each once."""
        if not cut.parts:
            return cut.visits * self.tile_words(tile, cut)
        bounds = self.einsums[tile.place].problem.bound
        total = math.prod(count for dim, count in cut.trips.items() if dim not in tile.dims)
        for terms in tile.space.ranks:
            parts = math.prod(cut.trips.get(term.dim, 1) for term in terms)
            reach = (
                abs(t.coefficient) * (bounds[t.dim] * parts // cut.trips.get(t.dim, 1) - parts) for t in terms
            )
            total *= parts + sum(reach)
        return total

    @cached_property
    def dense(self) -> dict[Tile, Tile]:
        """Per tile one of no more words than are touched: without holes between strides."""
        found: dict[Tile, Tile] = {}
        for place, tiles in enumerate(self.tiles):
            bound, looped = self.einsums[place].problem.bound, self.looped(place)
            whole = {dim: size for dim, size in bound.items() if dim not in looped}
            found.update({tile: tile._replace(space=dense(tile.space, whole)) for tile in tiles})
        return found

    def tile_words(self, tile: Tile, cut: Cut) -> Amount:
        """Words of the largest of these tiles."""
        bounds = self.einsums[tile.place].problem.bound
        return tile_words(tile.space, {dim: cut.largest(dim, bounds[dim]) for dim in tile.dims})

    def held_words(self, tile: Tile, cut: Cut, shares: Shares = ()) -> Amount:
        """Room of a held tile in one instance; at the least where it is open how spatial loops part it."""
        if not self.is_parted:
            return self.tile_words(tile, cut) * tile.size_per_value
        outside, fixed = self.stores.outside(1), dict(shares)
        if not fixed.keys() >= set(outside):
            return cut.share(self.tile_words(tile, cut), self.stores.instances(1)) * tile.size_per_value
        bounds, parts = self.einsums[tile.place].problem.bound, dict.fromkeys(tile.dims, 1)
        for dim, count in (loop for fanout in outside for loop in fixed[fanout] if loop[0] in parts):
            parts[dim] *= count
        sizes = {dim: -(-cut.largest(dim, bounds[dim]) // parts[dim]) for dim in tile.dims}
        return tile_words(tile.space, sizes) * tile.size_per_value

    def stored(self, frames: Frames, tensor: str, level: int = 1) -> tuple[int, int]:
        """How many segments lie above a stored tensor, as many as may be, and its room.

        Parameters
        ----------
        frames
            Those in which all Einsums that access it are.
        level
            Of the memory that stores it.
        """
        return next(self.stored_at_all(frames, tensor, level))

    def stored_at_all(self, frames: Frames, tensor: str, level: int) -> Iterator[tuple[int, int]]:
        """Yield each number of segments that may lie above a stored tensor with its room, the most first."""
        segments = [segment for frame in frames for segment in frame.segments]
        if not self.slides(frames):
            for depth in reversed(range(len(segments) + 1)):
                trips = self._trips_above(frames, self.cascade.writers[tensor], depth)
                yield depth, self.stored_words(tensor, trips, level)
            return
        visits, memory = self.visits(frames), self.memory.name
        for depth in reversed(range(len(segments) + 1)):
            loops = sum(map(len, segments[:depth]))
            if _keeps_halo(visits, Stored(tensor, memory, loops)):
                tile = visits.tile(tensor, loops)
                words = math.prod(max(high - low for low, high in spans) for _, spans in tile)
                yield depth, self._sized(tensor, words, level)

    def _trips_above(self, frames: Frames, place: int, depth: int) -> Trips:
        """Trips over each dimension of an Einsum of so many segments, whether or not they are empty."""
        trips: Trips = {}
        pairs = [(frame, segment) for frame in frames for segment in frame.segments]
        for frame, segment in pairs[:depth]:
            trips = self.grown(trips, frame, place, segment)
        return trips

    def spread_words(self, frames: Frames, tensor: str, level: int, spread: Spread, depth: int) -> Amount:
        """Room of a stored tensor in one instance, below so many segments; frames are those of `stored`."""
        counts: dict[str, int] = {}
        for share in spread:
            counts[share.rank] = counts.get(share.rank, 1) * share.parts
        loops = self.loops_above(frames, depth)
        parts = (self.visits(frames) if frames else self.all_visits(())).tile(tensor, loops)
        return self._in_words(
            tensor,
            math.prod(
                max(-(-(high - low) // counts.get(rank, 1)) for low, high in spans) for rank, spans in parts
            ),
            level,
        )

    @remembered
    def all_visits(self, frames: Frames) -> Visits:
        """What the visits of all Einsums cover, those in no open body without loops."""
        leaves = [Leaf(einsum.name, ()) for einsum in self.einsums]
        inside = slice(frames[0].start, frames[0].end) if frames else slice(0)
        children: list[Body | Leaf] = [*leaves]
        children[inside] = [self.tree(frames)] if frames else []
        return Visits(self.cascade, FusedMapping(tuple(children)))

    @staticmethod
    def loops_above(frames: Frames, depth: int) -> int:
        """Loops of the first `depth` segments of open bodies."""
        segments = [segment for frame in frames for segment in frame.segments]
        return sum(len(segment) for segment in segments[:depth])

    def extents(self, frames: Frames, place: int) -> dict[str, int]:
        """Extents of an Einsum's dimensions in a visit, but of those whose visits differ."""
        cut = self.cuts(frames, place)[-1]
        bounds = self.einsums[place].problem.bound
        return {dim: size // cut.trips.get(dim, 1) for dim, size in bounds.items() if dim not in cut.parts}

    def _sized(self, tensor: str, words: Amount, level: int) -> Amount:
        """Room of a tensor; at the least where its memory exists several times."""
        return self._in_words(tensor, -(-words // self.stores.instances(level)), level)

    def _in_words(self, tensor: str, words: Amount, level: int) -> Amount:
        writer = self.einsums[self.cascade.writers[tensor]]
        (written,) = writer.accesses_of(tensor)
        memory = writer.mapspace.architecture.on_chip[level - 1]
        size = words * memory.packing_of(written.dataspace).size_per_value
        scale = Fraction(dict(self.cascade.room_scale).get(tensor, 1))
        return -(-size * scale.numerator // scale.denominator)

    def stored_words(self, tensor: str, trips: Trips, level: int = 1) -> Amount:
        """Room of a stored tensor below shared loops with these trips over its writer's dimensions.

        At the least, where the loops move a window, or where the memory exists several times.
        """
        writer = self.einsums[self.cascade.writers[tensor]]
        (written,) = writer.accesses_of(tensor)
        divided = {
            rank: math.prod(trips.get(term.dim, 1) for term in terms)
            for rank, terms in zip(written.ranks, writer.space(written.dataspace).ranks, strict=True)
        }
        spans: dict[str, tuple[int, int]] = {}
        for einsum, access in accesses_of(self.cascade, tensor):
            for rank, (low, high) in _spans(einsum, access):
                before = spans.get(rank, (low, high))
                spans[rank] = min(low, before[0]), max(high, before[1])
        words = math.prod(-(-(high - low) // divided.get(rank, 1)) for rank, (low, high) in spans.items())
        return self._sized(tensor, words, level)


def _cut_into(extents: Mapping[str, Counter[int]]) -> Cut:
    """A cut into so many parts of each extent, the first one's first."""
    parts = {dim: tuple(sizes.items()) for dim, sizes in extents.items() if len(sizes) > 1}
    return Cut({dim: sum(sizes.values()) for dim, sizes in extents.items()}, parts)


def _keeps_halo(visits: Visits, stored: Stored) -> bool:
    try:
        check_halo(visits, stored)
    except FusedMappingError:
        return False
    return True


def _is_joint(einsum: CascadeEinsum, dim: str, slides: bool) -> bool:
    """Whether a dimension moves a window of an output, or a loop that slides indexes two ranks."""
    for space in einsum.problem.dataspaces:
        if space.read_write and dim in multi_term_dims(einsum, space.name):
            return True
        if slides and sum(term.dim == dim for terms in space.ranks for term in terms) > 1:
            return True
    return False


def _overlaps(einsum: CascadeEinsum, space: Dataspace, dim: str) -> bool:
    """Whether a loop over a dimension slides a dataspace so that neighbouring tiles may overlap."""
    bound = einsum.problem.bound
    terms = next((own for own in space.ranks if dim in [term.dim for term in own]), ())
    step = sum(abs(term.coefficient) for term in terms if term.dim == dim)
    reach = sum(abs(term.coefficient) * (bound[term.dim] - 1) for term in terms if term.dim != dim)
    return slides(space, dim) and reach >= step


def _spans(einsum: CascadeEinsum, access: Access) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the first index and the one after the last that an access takes of each rank."""
    ranks = einsum.space(access.dataspace).ranks
    for rank, terms, offset in zip(access.ranks, ranks, access.offsets, strict=True):
        reach = [term.coefficient * (einsum.problem.bound[term.dim] - 1) for term in terms]
        low, high = sum(min(0, each) for each in reach), sum(max(0, each) for each in reach)
        yield rank, (offset + low, offset + high + 1)


def _strided(space: Dataspace) -> frozenset[str]:
    """Dimensions that leave holes, or run backwards."""
    return frozenset(t.dim for terms in space.ranks for t in terms if t.coefficient != 1)


def _home_rules(einsum: CascadeEinsum) -> KeepRules:
    """What the outermost on-chip memory may keep."""
    return einsum.mapspace.keep[1 + len(einsum.mapspace.architecture.outer_tolls)]
