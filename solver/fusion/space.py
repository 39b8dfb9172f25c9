"""What may be fused: bodies over neighbouring Einsums, their shared loops, and the places of tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

from model.architecture import Fanout, StorageLevel
from model.extents import PERFECT
from model.fused.cascade import Access, Cascade, CascadeEinsum
from model.fused.check import accesses_of, handed_over, loop_choices
from model.fused.mapping import SharedLoop
from model.fused.visits import multi_term_dims
from model.mapspace import ACCELFORGE, TIMELOOP
from model.numbers import divisors
from model.problem import Dataspace
from solver.fusion.edges import box_words

Trips = dict[str, int]
"""By dimension of an Einsum, the product of the shared loops over it."""

TileKind = tuple[frozenset[int], frozenset[int]]
"""Classes of a body's loops that move a tile, and those that bring words of it again."""

Segment = tuple[tuple[int, int], ...]
"""Loops of a body with no place between them: classes of loops and trips, by class."""


class NotSearchedError(ValueError):
    """A cascade has what the search for fused mappings does not know."""


@dataclass(frozen=True)
class FusionLimits:
    """What narrows the space.

    Parameters
    ----------
    max_loops, max_loops_per_rank
        Most shared loops above an Einsum, in all and over one of its ranks; None for no limit.
    no_fuse
        Tensors that go through the outermost memory.
    """

    max_loops: int | None = None
    max_loops_per_rank: int | None = None
    no_fuse: frozenset[str] = frozenset()


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
    """Bodies, loops and places of a cascade.

    Raises
    ------
    NotSearchedError
        If the search does not know something of the cascade.
    """

    cascade: Cascade
    limits: FusionLimits = FusionLimits()

    def __post_init__(self) -> None:
        """Refuse what is not searched."""
        for einsum in self.cascade.einsums:
            _check_einsum(einsum)

    @cached_property
    def einsums(self) -> tuple[CascadeEinsum, ...]:
        """In the order in which they run."""
        return self.cascade.einsums

    @cached_property
    def memory(self) -> StorageLevel:
        """The outermost on-chip memory."""
        return self.einsums[0].mapspace.architecture.levels[1]

    @cached_property
    def tiles(self) -> tuple[tuple[Tile, ...], ...]:
        """Per Einsum its dataspaces, in the problem's order."""
        return tuple(
            tuple(self._tile(place, space) for space in einsum.problem.dataspaces)
            for place, einsum in enumerate(self.einsums)
        )

    def _tile(self, place: int, space: Dataspace) -> Tile:
        einsum = self.einsums[place]
        rules, level = einsum.mapspace.keep[1], einsum.mapspace.architecture.levels[1]
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

    @cached_property
    def storable(self) -> frozenset[str]:
        """Tensors between Einsums that may be stored in the outermost on-chip memory."""
        return frozenset(t for t in self.cascade.intermediates if self._may_store(t))

    def _may_store(self, tensor: str) -> bool:
        accesses = list(accesses_of(self.cascade, tensor))
        same_ranks = len({frozenset(access.ranks) for _, access in accesses}) == 1
        kept = all(a.dataspace not in einsum.mapspace.keep[1].bypass for einsum, a in accesses)
        copied = any(einsum.is_copy for einsum, _ in accesses)
        free = tensor not in self.limits.no_fuse and tensor not in self.cascade.persistent
        return same_ranks and kept and free and not copied

    @cached_property
    def _classes(self) -> dict[tuple[int, int], tuple[tuple[str, ...], ...]]:
        return {}

    def classes(self, start: int, end: int) -> tuple[tuple[str, ...], ...]:
        """Classes of loops of a body: a dimension for each of its Einsums."""
        key = start, end
        if key not in self._classes:
            self._classes[key] = tuple(self._loop_classes(start, end))
        return self._classes[key]

    def _loop_classes(self, start: int, end: int) -> Iterator[tuple[str, ...]]:
        members = self.einsums[start:end]
        if len({einsum.n_instances for einsum in members}) > 1 or any(e.is_copy for e in members):
            return
        for dims in loop_choices(self.cascade, range(start, end)):
            chosen = tuple(dims[einsum.name] for einsum in members)
            if self._is_plain(start, end, chosen):
                yield chosen

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
        if space.read_write and dim in multi_term_dims(einsum, space.name):
            yield access.tensor, "", None
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

    def skipped_windows(self) -> bool:
        """Whether some pair of neighbours could share a loop that is not searched."""
        for start in range(len(self.einsums) - 1):
            found = list(loop_choices(self.cascade, range(start, start + 2)))
            if len(found) > len(self.classes(start, start + 2)):
                return True
        return False

    # Loops of a path

    @cached_property
    def _cuts(self) -> dict[tuple[Frames, int], tuple[Trips, ...]]:
        return {}

    def cuts(self, frames: Frames, place: int) -> tuple[Trips, ...]:
        """Trips over each dimension of an Einsum above each place of its path, outermost first."""
        key = frames, place
        if key not in self._cuts:
            self._cuts[key] = tuple(self._cut(frames, place))
        return self._cuts[key]

    def _cut(self, frames: Frames, place: int) -> Iterator[Trips]:
        trips: Trips = {}
        yield trips
        for frame, segment in ((own, segment) for own in frames for segment in own.segments):
            trips = self.grown(trips, frame, place, segment)
            yield trips

    def grown(self, trips: Trips, frame: Frame, place: int, segment: Segment) -> Trips:
        """Trips over an Einsum's dimensions with further loops of a body."""
        classes, grown = self.classes(frame.start, frame.end), dict(trips)
        for number, count in segment:
            dim = classes[number][place - frame.start]
            grown[dim] = grown.get(dim, 1) * count
        return grown

    def loops(self, frame: Frame) -> tuple[SharedLoop, ...]:
        """The loops of a body, outermost first."""
        classes = self.classes(frame.start, frame.end)
        names = [einsum.name for einsum in self.einsums[frame.start : frame.end]]
        return tuple(
            SharedLoop(count, tuple(zip(names, classes[number], strict=True)))
            for segment in frame.segments
            for number, count in segment
        )

    @cached_property
    def _ends(self) -> dict[int, tuple[int, ...]]:
        return {}

    def ends(self, start: int) -> tuple[int, ...]:
        """Ends of the bodies that may begin with an Einsum."""
        if start not in self._ends:
            self._ends[start] = () if self.limits.max_loops == 0 else tuple(self._body_ends(start))
        return self._ends[start]

    def _body_ends(self, start: int) -> Iterator[int]:
        for end in range(start + 2, len(self.einsums) + 1):
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

    def longer(self, frame: Frame, left: Sequence[int]) -> Iterator[tuple[Frame, tuple[int, ...]]]:
        """Yield a body with each further segment, and the trips that are left then; none of it if all 1.

        Two segments follow each other only if tiles may be held between them so that no loop is better moved
        to the other one (docs/fusion.md, "Few orders of loops").
        """
        kinds = self._tile_kinds(frame.start, frame.end)
        for counts in product(*map(divisors, left)):
            segment = _segment(counts)
            if segment and (not frame.segments or _is_parted(frame.segments[-1], segment, kinds)):
                rest = tuple(total // own for total, own in zip(left, counts, strict=True))
                yield replace(frame, segments=(*frame.segments, segment)), rest

    def within_limits(self, frames: Frames) -> bool:
        """Whether a path has no more loops than are allowed."""
        loops = [self.loops(frame) for frame in frames]
        if self.limits.max_loops is not None and sum(map(len, loops)) > self.limits.max_loops:
            return False
        most = self.limits.max_loops_per_rank
        if most is None:
            return True
        for place in range(frames[-1].start, frames[-1].end):
            name = self.einsums[place].name
            dims = [loop.dim(name) for own in loops for loop in own]
            if any(dims.count(dim) > most for dim in dims):
                return False
        return True

    def products(self, frames: Frames, start: int, end: int) -> Iterator[tuple[int, ...]]:
        """Yield trips for each class, all loops of the body together, not all 1."""
        classes = self.classes(start, end)
        left = [
            {
                dim: bound // self.cuts(frames, place)[-1].get(dim, 1)
                for dim, bound in self.einsums[place].problem.bound.items()
            }
            for place in range(start, end)
        ]
        yield from self._choose(classes, left, ())

    def _choose(
        self, classes: Sequence[tuple[str, ...]], left: list[Trips], chosen: tuple[int, ...]
    ) -> Iterator[tuple[int, ...]]:
        if len(chosen) == len(classes):
            if max(chosen) > 1:
                yield chosen
            return
        dims = classes[len(chosen)]
        most = math.gcd(*(own[dim] for own, dim in zip(left, dims, strict=True)))
        for count in divisors(most):
            below = (
                [{**own, dim: own[dim] // count} for own, dim in zip(left, dims, strict=True)]
                if count > 1
                else left
            )
            yield from self._choose(classes, below, (*chosen, count))

    @cached_property
    def _kinds(self) -> dict[tuple[int, int], frozenset[TileKind]]:
        return {}

    def _tile_kinds(self, start: int, end: int) -> frozenset[TileKind]:
        """Kinds of all tiles that may be held."""
        key = start, end
        if key not in self._kinds:
            tiles = (tile for place in range(start, end) for tile in self.tiles[place] if not tile.bypassed)
            self._kinds[key] = frozenset(self.kind_of(tile, start, end) for tile in tiles)
        return self._kinds[key]

    def kind_of(self, tile: Tile, start: int, end: int) -> TileKind:
        """Which loops of a body move a tile, and which bring words again."""
        dims = [own[tile.place - start] for own in self.classes(start, end)]
        moving = frozenset(n for n, dim in enumerate(dims) if dim in tile.dims)
        again = frozenset(n for n, dim in enumerate(dims) if dim not in tile.dims or dim in tile.windowed)
        return moving, again

    def moved_words(self, tile: Tile, trips: Trips) -> int:
        """Words of all tiles below shared loops with these trips, each once."""
        bounds = self.einsums[tile.place].problem.bound
        return math.prod(trips.values()) * self.tile_words(tile, trips, bounds)

    def tile_words(self, tile: Tile, trips: Trips, bounds: Trips | None = None) -> int:
        """Words of one of these tiles."""
        bounds = bounds or self.einsums[tile.place].problem.bound
        return box_words(tile.space, {d: bounds[d] // trips.get(d, 1) for d in tile.dims})

    def stored_words(self, tensor: str, trips: Trips) -> int:
        """Room of a stored tensor below shared loops with these trips over its writer's dimensions."""
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
        size = words * self.memory.packing_of(written.dataspace).size_per_value
        return math.ceil(size * dict(self.cascade.room_scale).get(tensor, 1))


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


def _segment(counts: Sequence[int]) -> Segment:
    return tuple((number, count) for number, count in enumerate(counts) if count > 1)


def _is_parted(above: Segment, below: Segment, kinds: frozenset[TileKind]) -> bool:
    """Whether tiles may be held between two segments so that no loop is better moved to the other one."""
    outer, inner = {number for number, _ in above}, {number for number, _ in below}
    using = [(moving, again) for moving, again in kinds if outer & moving and inner & again]
    moving = frozenset[int]().union(*(kind[0] for kind in using))
    again = frozenset[int]().union(*(kind[1] for kind in using))
    return outer <= moving and inner <= again


def _check_einsum(einsum: CascadeEinsum) -> None:
    mapspace = einsum.mapspace
    architecture = mapspace.architecture
    if len(architecture.levels) < 2:
        raise NotSearchedError("there is no on-chip memory to fuse into")
    if any(
        isinstance(n, Fanout) and n.size > 1 for n in architecture.nodes[: architecture.storage_indices[1]]
    ):
        raise NotSearchedError(f"`{architecture.levels[1].name}` exists several times: that is not searched")
    if mapspace.counting == TIMELOOP:
        raise NotSearchedError("Timeloop's rule does not count fused mappings")
    by_place = mapspace.counting == ACCELFORGE
    if by_place and any(map(mapspace.has_windows, mapspace.problem.dataspaces)):
        raise NotSearchedError(
            "sliding windows are not searched with fusion by AccelForge's rule: --counting exact counts what "
            "an execution moves"
        )
    if architecture.levels[1].min_utilization:
        name = architecture.levels[1].name
        raise NotSearchedError(f"a least utilization of `{name}` is not searched with fusion")
    if any(level.no_coalesce for level in architecture.levels):
        raise NotSearchedError("`no_coalesce` is not modelled in fused mappings")
    if mapspace.rules:
        raise NotSearchedError("rules of your own are not searched with fusion")
    try:
        replace(mapspace, factors=PERFECT).check_searchable(by_bounds=by_place)
    except ValueError as error:
        raise NotSearchedError(str(error)) from None
