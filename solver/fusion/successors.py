"""How a path goes on with its next Einsum: what that stores and holds, and the choices for its edge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, product

from model.fused.mapping import Stored
from model.fused.room import is_part_of_other
from solver.fusion.bounds import Remainders
from solver.fusion.edges import EdgeKind
from solver.fusion.labels import Label, Room, Step, StoredTile, room_of
from solver.fusion.least import LeastCosts
from solver.fusion.points import Choice
from solver.fusion.pricing import EdgePricer
from solver.fusion.space import Cut, Frame, Frames, FusionSpace, Tile


@dataclass(frozen=True)
class Successors:
    """Labels after the next Einsum of a label that opens no further body.

    Parameters
    ----------
    as_paid, by_spread
        As of `PathSearch`.
    """

    space: FusionSpace
    pricer: EdgePricer
    least: LeastCosts
    as_paid: bool = False
    by_spread: set[tuple[str, int, Frames]] = field(default_factory=set)

    def of(self, label: Label) -> Iterator[Label]:
        """Yield the label with the next Einsum mapped in each way."""
        place = label.at
        einsum = self.space.einsums[place]
        if einsum.is_copy:
            yield from self._copied(label)
            return
        written = [t.tensor for t in self.space.tiles[place] if t.space.read_write]
        for homes in product(*((0, *self.space.homes.get(tensor, ())) for tensor in written)):
            pairs = [(tensor, level) for tensor, level in zip(written, homes, strict=True) if level]
            for stores in product(*(self._stores(label.frames, place, *pair) for pair in pairs)):
                yield from self._mapped(label, tuple(chain.from_iterable(stores)))

    # Copies

    def _copied(self, label: Label) -> Iterator[Label]:
        """Yield the label with a copy that stores its outputs in each way."""
        place, frames = label.at, label.frames
        einsum, stored = self.space.einsums[place], {tile.tensor: tile for tile in label.stored}
        source = stored.get(einsum.copied)
        levels = self._source_levels(einsum.copied, source)
        targets = [self._targets(frames, source, tensor) for tensor in sorted(einsum.written - stored.keys())]
        for level, chosen in product(levels, product(*targets)):
            stores = tuple(chain.from_iterable(chosen))
            homes = {tile.tensor: tile.level for tile in (*label.stored, *stores)} | {einsum.copied: level}
            cost = self.space.copies.transfer(place, homes)
            room = self._room(label, stores, (), self.space.cuts(frames, place))
            if cost is None or room is None or not self._may_write(place, homes):
                continue
            energy, cycles = (own * einsum.n_instances for own in cost)
            grown = replace(label, energy=label.energy + energy, cycles=label.cycles + cycles)
            step = Step(place, frames, None, Choice(*cost, 0, None), stores, ())
            yield from self._closed(grown, room, step, label)

    def _source_levels(self, tensor: str, tile: StoredTile | None) -> tuple[int, ...]:
        """Memories that a copy may read from; what counts as stored before a path begins may be anywhere."""
        if tile is None:
            return (0,)
        return (tile.level,) if tile.level else (0, *self.space.homes[tensor])

    def _may_write(self, place: int, homes: Mapping[str, int]) -> bool:
        """Whether the rules of the outermost memory let a copy leave there what may be stored on chip."""
        bypass = self.space.einsums[place].mapspace.keep[0].bypass
        tiles = (tile for tile in self.space.tiles[place] if tile.tensor in self.space.storable)
        return all(homes.get(tile.tensor) or tile.space.name not in bypass for tile in tiles)

    def _targets(
        self, frames: Frames, source: StoredTile | None, tensor: str
    ) -> list[tuple[StoredTile, ...]]:
        """The ways to store what a copy writes, with copies of it; none is to leave it outside."""
        found: list[tuple[StoredTile, ...]] = [()]
        for level in self.space.homes.get(tensor, ()):
            tile = self._rooted(frames, self._stored(frames, tensor, level), source)
            if source is None or not self._was_decided(frames, source, tile):
                found += self._with_copies(frames, tile)
        return found

    def _was_decided(self, frames: Frames, source: StoredTile, tile: StoredTile) -> bool:
        """Whether it was decided with its source that a copy is not stored beside that."""
        writer = self.space.cascade.writers[source.tensor]
        before = tuple(frame for frame in frames if frame.start <= writer)
        return tile.level == source.level and self._is_ahead(before, source, tile)

    def _is_ahead(self, frames: Frames, source: StoredTile, tile: StoredTile) -> bool:
        """Whether a copy lies above a loop that its source is below: then it takes room as soon as that."""
        own = self._stored(frames, tile.tensor, tile.level)
        return own.depth < source.depth and self._takes_room_of(frames, source, own)

    def _with_copies(self, frames: Frames, tile: StoredTile) -> list[tuple[StoredTile, ...]]:
        """A stored tensor, with and without each copy beside it that takes room as soon as it."""
        found: list[tuple[StoredTile, ...]] = [(tile,)]
        targets = self.space.copies.targets.get(tile.tensor, ())
        beside = (target for target in targets if tile.level in self.space.homes.get(target, ()))
        for own in (self._stored(frames, target, tile.level) for target in beside):
            if self._is_ahead(frames, tile, own):
                further = self._with_copies(frames, own._replace(root=tile.root))
                found += [(*before, *more) for before, more in product(found, further)]
        return found

    def _rooted(self, frames: Frames, tile: StoredTile, source: StoredTile | None) -> StoredTile:
        """A tile that takes its own room, or that of what it copies."""
        if source is not None and self._takes_room_of(frames, source, tile):
            return tile._replace(root=source.root)
        return tile._replace(root=tile.tensor)

    def _takes_room_of(self, frames: Frames, source: StoredTile, tile: StoredTile) -> bool:
        """Whether a copy lies beside its source, and one of their tiles is always part of the other one."""
        if source.level not in (0, tile.level) or not source.depth | tile.depth:
            return source.level in (0, tile.level)
        key = frames, source[:2], tile[:2]
        if key not in self._joint:
            own = (Stored(t.tensor, "", self.space.loops_above(frames, t.depth)) for t in (source, tile))
            copy = self.space.einsums[self.space.cascade.writers[tile.tensor]]
            self._joint[key] = is_part_of_other(self.space.all_visits(frames), copy, *own)
        return self._joint[key]

    @cached_property
    def _joint(self) -> dict[tuple[object, ...], bool]:
        return {}

    def _stores(
        self, frames: Frames, place: int, tensor: str, level: int
    ) -> Iterator[tuple[StoredTile, ...]]:
        """Yield a tensor that an Einsum writes as it is stored; with each spread, if these are told apart."""
        tile = self._stored(frames, tensor, level)
        if tensor in self.space.copies.accessed:
            yield from self._with_copies(frames, tile._replace(root=tensor))
        elif not self.space.stores.outside(level):
            yield (tile,)
        elif (tensor, level, frames) not in self.by_spread:
            yield (tile._replace(spread=None),)
        else:
            yield from ((own,) for own in self._spread(frames, place, tile))

    def _spread(self, frames: Frames, place: int, tile: StoredTile) -> Iterator[StoredTile]:
        around = tuple(frame for frame in frames if frame.end > tile.last)
        extents = self.space.extents(frames, place)
        for spread in self.space.stores.spreads(place, tile.tensor, tile.level, extents):
            words = self.space.spread_words(around, tile.tensor, tile.level, spread)
            if words <= self.least.room_of(tile.level):
                yield tile._replace(words=words, spread=spread)

    def _stored(self, frames: Frames, tensor: str, level: int) -> StoredTile:
        """A tensor at its place, below the loops that its writer shares with all readers."""
        last = self.space.cascade.users[tensor][-1]
        depth, words = self.space.stored(tuple(frame for frame in frames if frame.end > last), tensor, level)
        return StoredTile(tensor, depth, words, last, level)

    def _mapped(self, label: Label, stores: tuple[StoredTile, ...]) -> Iterator[Label]:
        homes = {tile.tensor: tile.level for tile in (*label.stored, *stores)}
        here = [tile for tile in self.space.tiles[label.at] if tile.tensor in homes]
        # What counts as stored before a path begins need not be: it may be anywhere, or come from outside.
        choices = [(homes[tile.tensor],) if homes[tile.tensor] else self._anywhere(tile) for tile in here]
        for chosen in product(*choices):
            levels = {tile.space.name: own for tile, own in zip(here, chosen, strict=True) if own}
            yield from self._held(label, stores, levels)

    def _anywhere(self, tile: Tile) -> tuple[int, ...]:
        """Levels that a tile may come from; 0 for outside, where that may be cheaper."""
        levels = self.space.homes[tile.tensor]
        return (0, *levels) if tile.bypassable or 1 not in levels else levels

    def _held(self, label: Label, stores: tuple[StoredTile, ...], levels: dict[str, int]) -> Iterator[Label]:
        """Yield the label with each choice of held tiles beside what is stored, by `levels`."""
        place, frames = label.at, label.frames
        cuts = self.space.cuts(frames, place)
        tiles = [tile for tile in self.space.tiles[place] if tile.space.name not in levels]
        above = {name for name, level in levels.items() if level == 1}
        deeper = tuple(sorted((name, level) for name, level in levels.items() if level > 1))
        spreads = {
            tile.tensor: (tile.level, tile.spread) for tile in (*label.stored, *stores) if tile.level > 1
        }
        shares = self.space.stores.shares(place, self.space.extents(frames, place), spreads)
        if shares is None:
            return
        for depths in product(*(self._depths(frames, tile) for tile in tiles)):
            held = [(tile, depth) for tile, depth in zip(tiles, depths, strict=True) if depth is not None]
            room = self._room(label, stores, held, cuts)
            if room is None:
                continue
            everything_above = frozenset(above | {tile.space.name for tile, _ in held})
            kind = EdgeKind(
                place,
                tuple(sorted(cuts[-1].trips.items())),
                everything_above,
                tuple(self.pricer.shift(tile, cuts[depth]) for tile, depth in held),
                tuple(sorted(cuts[-1].parts.items())),
                deeper=deeper,
                shares=shares,
                remainders=self.space.stores.may_leave(deeper)
                and self.pricer.may_leave(frames, everything_above | levels.keys()),
            )
            step = Step(place, frames, kind, None, stores, tuple((t.space.name, d) for t, d in held))
            yield from self._roomed(label, room, step)

    def _depths(self, frames: Frames, tile: Tile) -> Iterator[int | None]:
        """Yield the places above shared loops at which a tile is held with profit; None is below all."""
        yield None
        if tile.bypassed:
            return
        least = self.space.least_depth(frames, tile)
        places = ((frame, number) for frame in frames for number in range(len(frame.segments)))
        for depth, (frame, number) in enumerate(places):
            moving, again = self.space.kind_of(tile, frame.start, frame.end)
            below = {loop for loop, _ in frame.segments[number]}
            above = {loop for loop, _ in frame.segments[number - 1]} if number else moving
            if depth >= least and below & again and (number == 0 or above & moving):
                yield depth

    def _room(
        self,
        label: Label,
        stores: Sequence[StoredTile],
        held: Sequence[tuple[Tile, int]],
        cuts: Sequence[Cut],
    ) -> Room | None:
        """Room after an Einsum's stored and held tiles have got theirs; None if there is too little."""
        amounts = list(label.room.held)
        added: list[tuple[int, int]] = []
        for tile, depth in held:
            words = self.space.tile_words(tile, cuts[depth]) * tile.size_per_value
            amounts[depth] += words
            added.append((depth, words))
        before = _with_stored(label, stores, 1)
        peaks = self._peaks(before, added, _taken(label, stores, 1) + sum(amounts), 1)
        inner = [
            self._peaks(_with_stored(label, stores, level, own), [], _taken(label, stores, level), level)
            for level, own in zip(self.space.rooms, label.room.inner, strict=True)
        ]
        fitting = [own for own in inner if own is not None]
        if peaks is None or len(fitting) < len(inner):
            return None
        return Room(tuple(amounts), peaks, tuple(fitting))

    def _peaks(
        self, before: Sequence[int], added: Sequence[tuple[int, int]], taken_words: int, level: int
    ) -> tuple[int, ...] | None:
        """Most that Einsums so far took of a memory, with tiles that are `added`: depths and words."""
        peaks = list(before)
        for depth, words in added:
            for shared in range(depth + 1, len(peaks)):
                peaks[shared] += words if peaks[shared] else 0
        if max(taken_words, *peaks) > self.least.room_of(level):
            return None
        return (*peaks[:-1], max(peaks[-1], taken_words))

    def _roomed(self, label: Label, room: Room, step: Step) -> Iterator[Label]:
        """Yield the label with each room that later tensors may leave of memories farther in."""
        assert step.kind is not None
        left = [
            [
                (level, words - _taken(label, step.stores, level) - later)
                for later in self._later(label, level)
            ]
            for level, words in self.space.rooms.items()
        ]
        for chosen in product(*left):
            limited = ((level, words) for level, words in chosen if words < self.space.rooms[level])
            if all(words >= 0 for _, words in chosen):
                kind = replace(step.kind, rooms=tuple(limited))
                yield from self._chosen(label, room, step._replace(kind=kind))

    def _later(self, label: Label, level: int) -> tuple[int, ...]:
        """Room of tensors that later Einsums may store above loops which they share with the next one."""
        key = label.frames, label.at, level
        if key not in self._laters:
            self._laters[key] = tuple(sorted(self._sums_later(*key)))
        return self._laters[key]

    @cached_property
    def _laters(self) -> dict[tuple[Frames, int, int], tuple[int, ...]]:
        return {}

    def _sums_later(self, frames: Frames, place: int, level: int) -> set[int]:
        sums = {0}
        for writer in range(place + 1, frames[0].end if frames else 0):
            around = tuple(frame for frame in frames if frame.end > writer)
            shared = sum(len(frame.segments) for frame in around)
            written = (t.tensor for t in self.space.tiles[writer] if t.space.read_write)
            for tensor in (t for t in written if level in self.space.homes.get(t, ())):
                tile = self._stored(frames, tensor, level)
                sizes = {own.words for own in self._spread(around, writer, tile)} | {tile.words}
                sizes |= {max(0, tile.words - words) for words in self._source_words(frames, tensor, level)}
                sums |= {a + b for a in sums for b in sizes} if tile.depth < shared else set()
        return sums

    def _source_words(self, frames: Frames, tensor: str, level: int) -> Iterator[int]:
        """Yield the room of what a tensor is a copy of, if it may be beside that."""
        source = self.space.copies.sources.get(tensor)
        if source is not None and level in self.space.homes.get(source, ()):
            yield self._stored(frames, source, level).words

    def _chosen(self, label: Label, room: Room, step: Step) -> Iterator[Label]:
        """Yield the label with each choice for the next edge that has room."""
        assert step.kind is not None
        taken = _taken(label, step.stores, 1) + sum(room.held)
        n_instances = self.space.einsums[step.place].n_instances
        for choice in self.pricer.edge(step.kind).choices(self.as_paid):
            if choice.room_words > self.least.usable - taken:
                continue
            peaks = (*room.peaks[:-1], max(room.peaks[-1], taken + choice.need_words))
            inner = self._inner_peaks(label, room, step, choice)
            energy = label.energy + choice.energy * n_instances
            cycles = label.cycles + choice.cycles * n_instances
            grown = replace(label, energy=energy, cycles=cycles)
            yield from self._closed(grown, Room(room.held, peaks, inner), step._replace(choice=choice), label)

    def _inner_peaks(
        self, label: Label, room: Room, step: Step, choice: Choice
    ) -> tuple[tuple[int, ...], ...]:
        """Most that is taken of memories farther in, with the own tiles of an edge."""
        if choice.point is None:
            return room.inner
        needs = dict(zip(self.space.inner, choice.point.inner_words, strict=True))
        return tuple(
            (*own[:-1], max(own[-1], _taken(label, step.stores, level) + needs[level]))
            for level, own in zip(self.space.rooms, room.inner, strict=True)
        )

    def _falls_apart(self, label: Label, step: Step) -> bool:
        """Whether a body might as well be two, at the cut before or after an Einsum.

        That is where nothing is stored across the cut below some loop of the innermost body around. Then each
        side can have these loops for itself, and a side of one Einsum needs no shared loops: as private ones
        they do not cost more, unless tiles are held between them.
        """
        stored = (*label.stored, *step.stores)
        for cut in (step.place, step.place + 1):
            around = [frame for frame in step.frames if frame.start < cut < frame.end]
            was_seen = cut == step.place and bool(around) and around[-1].end > cut + 1
            if not around or was_seen or self.space.slides(step.frames):
                continue
            above = sum(len(frame.segments) for frame in around[:-1])
            crossing = (own for own in stored if own.last >= cut and self._writer(own) < cut)
            held = {step.place: any(depth >= above for _, depth in step.held)}
            held[step.place - 1] = any(label.room.held[above:])
            if all(own.depth <= above for own in crossing) and self._may_part(around[-1], cut, held):
                return True
        return False

    def _writer(self, tile: StoredTile) -> int:
        return self.space.cascade.writers[tile.tensor]

    def _may_part(self, frame: Frame, cut: int, held: dict[int, bool]) -> bool:
        """Whether both sides of a cut do as well without the other one; `held` says who holds tiles there."""
        for start, end in ((frame.start, cut), (cut, frame.end)):
            rules = self.space.einsums[start].mapspace.temporal[0]
            # With remainders, the private loops of visits are none of the whole.
            uneven = self.pricer.remainders is Remainders.EVERYWHERE
            is_ruled = uneven or bool(rules.factors or rules.inner or rules.outer)
            if end == start + 1 and (is_ruled or held.get(start, True)):
                return False
            if end > start + 1 and self.least.groups.inside_of(frame.start, frame.end, start, end) is None:
                return False
        return True

    def _closed(self, label: Label, room: Room, step: Step, parent: Label | None = None) -> Iterator[Label]:
        """Yield the label at the next cut, with bodies closed that end there; none if one lacks a body."""
        after = step.place + 1
        frames = tuple(frame for frame in label.frames if frame.end > after)
        ended = zip(label.frames[len(frames) :], label.parted[len(frames) :], strict=True)
        if any(not frame.flat and not parted for frame, parted in ended):
            return
        if not self.space.is_deep and self._falls_apart(label, step):
            return
        depth = sum(len(frame.segments) for frame in frames)
        peaks, *inner = ((*own[:depth], max(own[depth:])) for own in (room.peaks, *room.inner))
        starts = [frame.start for frame in frames for _ in frame.segments]
        stored = tuple(
            tile
            for tile in sorted((*label.stored, *step.stores))
            if tile.last >= after or (tile.depth < depth and starts[tile.depth] <= tile.last)
        )
        firsts: dict[str, str] = {}
        for tile in stored:
            firsts.setdefault(tile.root, tile.tensor)
        stored = tuple(tile._replace(root=firsts[tile.root]) if tile.root else tile for tile in stored)
        yield replace(
            label,
            at=after,
            opening=True,
            frames=frames,
            parted=label.parted[: len(frames)],
            stored=stored,
            room=Room(room.held[:depth], peaks, tuple(inner)),
            parent=parent or label,
            step=step,
        )


def _with_stored(
    label: Label, stores: Sequence[StoredTile], level: int, before: Sequence[int] = ()
) -> list[int]:
    """Most that Einsums so far took of a memory, with tensors that are stored now and wait for them, too.

    Where they share loops below the places of tensors of one room, each waits for them. Of others that share
    less, some may have run before there were such tensors: then the new ones may take room of their own.
    """
    peaks = list(before or label.room.peaks)
    known = [tile for tile in label.stored if tile.level == level and tile.root]
    for tile in (own for own in stores if own.level == level):
        for shared in (n for n in range(tile.depth + 1, len(peaks)) if peaks[n]):
            beside = (t.words for t in known if tile.root and t.root == tile.root and t.depth < shared)
            peaks[shared] += max(0, tile.words - max(beside, default=0))
        known.append(tile)
    return peaks


def _taken(label: Label, stores: Sequence[StoredTile], level: int) -> int:
    """Words that stored tensors take of a memory while the next Einsum runs."""
    return room_of(tile for tile in (*label.stored, *stores) if tile.level == level)
