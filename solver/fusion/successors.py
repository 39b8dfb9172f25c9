"""How a path goes on with its next Einsum: what that stores and holds, and the choices for its edge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, product

from model.fused.cascade import lone_dims
from model.fused.mapping import Stored
from model.fused.room import is_part_of_other
from solver.fusion.bodies import BodyBounds
from solver.fusion.edges import Choice, EdgeKind, Shift
from solver.fusion.labels import Label, Room, Step, StoredTile, room_of
from solver.fusion.least import EdgePricer
from solver.fusion.remembered import remembered, remembered_by
from solver.fusion.space import Cut, Frame, Frames, FusionSpace, Tile
from solver.fusion.stores import Shares, Spread

Roots = tuple[str, ...]
"""Tensors whose rooms others take as well, sorted."""

NO_ROOTS: Roots = ()

Views = dict[Roots, list[int]]
"""Peaks of a memory, like those of `Room`, by the roots whose rooms are left out."""


@dataclass(frozen=True)
class Successors:
    """Labels after the next Einsum of a label that opens no further body.

    Parameters
    ----------
    as_paid, by_spread
        Those of `PathSearch`.
    """

    space: FusionSpace
    pricer: EdgePricer
    bodies: BodyBounds
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
        targets = [self._targets(label, source, tensor) for tensor in sorted(einsum.written - stored.keys())]
        for level, chosen in product(levels, product(*targets)):
            stores = tuple(chain.from_iterable(chosen))
            homes = {tile.tensor: tile.level for tile in (*label.stored, *stores)} | {einsum.copied: level}
            shares = self._shares(frames, place, (*label.stored, *stores))
            if shares is None:
                continue
            cost = self.space.copies.transfer(place, homes, shares)
            room = self._room(label, stores, (), self.space.cuts(frames, place))
            if room is None or not self.may_write(place, homes):
                continue
            energy, cycles = (own * times for own, times in zip(cost, einsum.times, strict=True))
            grown = replace(label, energy=label.energy + energy, cycles=label.cycles + cycles)
            step = Step(place, frames, None, Choice(*cost, 0, None), stores, ())
            yield from self._closed(grown, room, step, label)

    def _shares(self, frames: Frames, place: int, tiles: Iterable[StoredTile]) -> Shares | None:
        """Spatial loops of an Einsum that spread what is stored, as far as that is known; None if none do."""
        extents = self.space.extents(frames, place)
        spread = {
            own.tensor: (own.level, own.spread)
            for own in tiles
            if own.level and self.space.stores.outside(own.level)
        }
        return self.space.stores.shares(place, extents, spread)

    def _source_levels(self, tensor: str, tile: StoredTile | None) -> tuple[int, ...]:
        """Memories that a copy may read from; what counts as stored before a path begins may be anywhere."""
        if tile is None:
            return (0,)
        return (tile.level,) if tile.level else (0, *self.space.homes[tensor])

    def may_write(self, place: int, homes: Mapping[str, int]) -> bool:
        """Whether the rules of the outermost memory let a copy leave there what may be stored on chip."""
        bypass = self.space.einsums[place].mapspace.keep[0].bypass
        tiles = (tile for tile in self.space.tiles[place] if tile.tensor in self.space.storable)
        return all(homes.get(tile.tensor) or tile.space.name not in bypass for tile in tiles)

    def _targets(self, label: Label, source: StoredTile | None, tensor: str) -> list[tuple[StoredTile, ...]]:
        """The ways to store what a copy writes, with copies of it; none is to leave it outside."""
        found, frames = list[tuple[StoredTile, ...]]([()]), label.frames
        for level in self.space.homes.get(tensor, ()):
            tile = self._rooted(frames, self._stored(frames, tensor, level), source)
            if source is None or not self._was_decided(frames, source, tile):
                ways = self._in_each_way(frames, label.at, tile)
                found += chain.from_iterable(self._with_copies(frames, own) for own in ways)
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
            if self._is_ahead(frames, tile, own) and (alike := self._spread_as(frames, tile, own)):
                further = self._with_copies(frames, alike._replace(root=tile.root))
                found += [(*before, *more) for before, more in product(found, further)]
        return found

    def _spread_as(self, frames: Frames, source: StoredTile, tile: StoredTile) -> StoredTile | None:
        """A copy beside its source that is spread as that; None if it is not, or too large."""
        if source.spread is None or not self.space.stores.outside(tile.level):
            return tile._replace(spread=source.spread)
        copy = self.space.cascade.writers[tile.tensor]
        spread = self.space.stores.copied(copy, source.tensor, tile.tensor, source.spread)
        return None if spread is None else self._spread_so(frames, tile, spread)

    def _rooted(self, frames: Frames, tile: StoredTile, source: StoredTile | None) -> StoredTile:
        """A tile that takes its own room, or that of what it copies."""
        if source is not None and self._takes_room_of(frames, source, tile):
            return tile._replace(root=source.root)
        return tile._replace(root=tile.tensor)

    @remembered_by(lambda _, frames, source, tile: (frames, source[:2], source.level, tile[:2], tile.level))
    def _takes_room_of(self, frames: Frames, source: StoredTile, tile: StoredTile) -> bool:
        """Whether a copy lies beside its source, and one of their tiles is always part of the other one."""
        if source.level not in (0, tile.level) or not source.depth | tile.depth:
            return source.level in (0, tile.level)
        own = (Stored(t.tensor, "", self.space.loops_above(frames, t.depth)) for t in (source, tile))
        copy = self.space.einsums[self.space.cascade.writers[tile.tensor]]
        return is_part_of_other(self.space.all_visits(frames), copy, *own)

    def _stores(
        self, frames: Frames, place: int, tensor: str, level: int
    ) -> Iterator[tuple[StoredTile, ...]]:
        """Yield a tensor that an Einsum writes as it is stored; with each spread, if these are told apart."""
        root = tensor if tensor in self.space.copies.accessed else ""
        ways = (self._in_each_way(frames, place, tile) for tile in self._places(frames, tensor, level))
        for tile in chain.from_iterable(ways):
            yield from self._with_copies(frames, tile._replace(root=root))

    def _in_each_way(self, frames: Frames, place: int, tile: StoredTile) -> Iterator[StoredTile]:
        """Yield what an Einsum writes with each spread, if these are told apart."""
        if not self.space.stores.outside(tile.level):
            yield tile
        elif (tile.tensor, tile.level, frames) not in self.by_spread:
            yield tile._replace(spread=None)
        else:
            yield from self._spread(frames, place, tile)

    def _spread(self, frames: Frames, place: int, tile: StoredTile) -> Iterator[StoredTile]:
        extents = self.space.extents(frames, place)
        spreads = self.space.stores.spreads(place, tile.tensor, tile.level, extents)
        yield from filter(None, (self._spread_so(frames, tile, spread) for spread in spreads))

    def _spread_so(self, frames: Frames, tile: StoredTile, spread: Spread) -> StoredTile | None:
        """A tile that is spread over instances; None if these have too little room."""
        around = tuple(frame for frame in frames if frame.end > tile.last)
        words = self.space.spread_words(around, tile.tensor, tile.level, spread, tile.depth)
        return tile._replace(words=words, spread=spread) if words <= self.bodies.room_of(tile.level) else None

    def _stored(self, frames: Frames, tensor: str, level: int) -> StoredTile:
        """A tensor at its place, below the loops that its writer shares with all readers."""
        return next(self._places(frames, tensor, level))

    def _places(self, frames: Frames, tensor: str, level: int) -> Iterator[StoredTile]:
        """Yield a tensor there, and farther out where it may help to fill a memory, unless it is copied."""
        last = self.space.cascade.users[tensor][-1]
        around = tuple(frame for frame in frames if frame.end > last)
        places = self.space.stored_at_all(around, tensor, level)
        has_choice = level in self.space.stores.least and tensor not in self.space.copies.accessed
        for depth, words in places if has_choice else islice(places, 1):
            yield StoredTile(tensor, depth, words, last, level)

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
        tiles_here = {tile.tensor: tile for tile in (*label.stored, *stores)}
        extents = self.space.extents(frames, place)
        shares = self._shares(frames, place, tiles_here.values())
        if shares is None:
            return
        for depths in product(*(self._depths(frames, tile) for tile in tiles)):
            held = [(tile, depth) for tile, depth in zip(tiles, depths, strict=True) if depth is not None]
            everything_above = frozenset(above | {tile.space.name for tile, _ in held})
            kind = EdgeKind(
                place,
                tuple(sorted(cuts[-1].trips.items())),
                everything_above,
                tuple(self._shift(frames, tile, depth) for tile, depth in held),
                tuple(sorted(cuts[-1].parts.items())),
                deeper=deeper,
                shares=shares,
                undivided=self._undivided(place, above, [tile for tile, _ in held]),
            )
            may_leave = self.pricer.remainders and self.space.stores.may_leave(kind.deeper, kind.above)
            kinds = self._parted(replace(kind, remainders=may_leave), extents, frames)
            rooms = ((own, self._room(label, stores, held, cuts, own.shares)) for own in kinds)
            for own, room in ((own, room) for own, room in rooms if room is not None):
                large = replace(own, least=self._least(levels, tiles_here, held, cuts, own))
                names = tuple((tile.space.name, depth) for tile, depth in held)
                yield from self._roomed(label, room, Step(place, frames, large, None, stores, names))

    def _shift(self, frames: Frames, tile: Tile, depth: int) -> Shift:
        """What a held tile exchanges with the outermost memory."""
        fetching = self.space.fetch_depth(frames, tile, depth)
        return self.pricer.shift(tile, self.space.cuts(frames, tile.place)[fetching])

    def _undivided(self, place: int, above: set[str], held: Sequence[Tile]) -> tuple[str, ...]:
        """Dimensions that spatial loops outside of the outermost on-chip memory must not part.

        The loops of the outermost memory lie inside of these where something is above the nests, but outside
        in the mapspace of an edge: that matters to windows. Strides leave holes between parts.
        """
        if not self.space.is_parted or not (above or held):
            return ()
        einsum = self.space.einsums[place]
        found = {dim for tile in self.space.tiles[place] for dim in tile.windowed}
        for name in above:
            found.update(einsum.problem.bound.keys() - set(lone_dims(einsum, einsum.access(name)).values()))
        return tuple(sorted(found))

    def _parted(self, kind: EdgeKind, extents: Mapping[str, int], frames: Frames) -> Iterator[EdgeKind]:
        """Yield an edge with each way in which spatial loops part what it holds, if these are told apart."""
        if any(
            dim in kind.undivided
            for n, own in kind.shares
            if n in self.space.stores.outside(1)
            for dim, _ in own
        ):
            return
        if (
            not self.space.stores.is_open(kind)
            or (self.space.einsums[kind.place].name, 0, frames) not in self.by_spread
        ):
            yield kind
            return
        free = {dim: size for dim, size in extents.items() if dim not in kind.undivided}
        for loops in self.space.stores.loops_outside(1, free):
            known = dict(kind.shares)
            if all(known.get(fanout, own) == own for fanout, own in loops):
                yield replace(kind, shares=tuple(sorted((known | dict(loops)).items())))

    def _least(
        self,
        levels: Mapping[str, int],
        stored: Mapping[str, StoredTile],
        held: Sequence[tuple[Tile, int]],
        cuts: Sequence[Cut],
        kind: EdgeKind,
    ) -> tuple[tuple[int, int], ...]:
        """What own tiles of the nests have to take of memories, beside what the Einsum stores and holds."""
        least = dict(self.space.stores.least)
        here = {own.tensor: levels.get(own.space.name, 0) for own in self.space.tiles[kind.place]}
        for level, asked in self.space.stores.least.items():
            tiles = [stored[tensor] for tensor, own in here.items() if own == level]
            # Where it is open how it is spread, it may take all that it has in one instance.
            times = self.space.stores.instances(level)
            whole = [t if t.spread is not None else t._replace(words=t.words * times) for t in tiles]
            least[level] -= room_of(whole) if all(tile.level for tile in tiles) else asked
        times = self.space.stores.instances(1) if self.space.stores.is_open(kind) else 1
        for own, depth in held if 1 in least else ():
            least[1] -= self.space.held_words(own, cuts[depth], kind.shares) * times
        return tuple(sorted((level, words) for level, words in least.items() if words > 0))

    def _depths(self, frames: Frames, tile: Tile) -> Iterator[int | None]:
        """Yield the places among shared loops at which a tile is held with profit; None is in the nest.

        Where a tile may keep what overlaps below the next loop, it moves no more words there, in less room.
        """
        yield None
        if tile.bypassed:
            return
        least, is_large = self.space.least_depth(frames, tile), 1 in self.space.stores.least
        places = [(frame, number) for frame in frames for number in range(len(frame.segments))]
        fetching = [self.space.fetch_depth(frames, tile, depth) for depth in range(len(places) + 1)]
        for depth, (frame, number) in enumerate(places):
            moving, again = self.space.kind_of(tile, frame.start, frame.end)
            below = {loop for loop, _ in frame.segments[number]}
            above = {loop for loop, _ in frame.segments[number - 1]} if number else moving
            keeps, keeps_below = fetching[depth] < depth, fetching[depth + 1] == depth
            helps = is_large or keeps or (below & again and not keeps_below)
            if depth >= least and helps and (number == 0 or above & moving):
                yield depth
        if fetching[-1] < len(places):
            yield len(places)

    def _room(
        self,
        label: Label,
        stores: Sequence[StoredTile],
        held: Sequence[tuple[Tile, int]],
        cuts: Sequence[Cut],
        shares: Shares = (),
    ) -> Room | None:
        """Room after an Einsum's stored and held tiles have got theirs; None if there is too little."""
        amounts = [*label.room.held, 0]  # below all loops, tiles wait for no other Einsum
        added: list[tuple[int, int]] = []
        for tile, depth in held:
            words = self.space.held_words(tile, cuts[depth], shares)
            amounts[depth] += words
            added.append((depth, words))
        here = sum(amounts)
        found = {1: self._views(label, stores, 1, label.room.peaks, added, here)}
        for level, peaks in zip(self.space.rooms, label.room.inner, strict=True):
            found[level] = self._views(label, stores, level, peaks)
        if any(max(views[NO_ROOTS]) > self.bodies.room_of(level) for level, views in found.items()):
            return None
        outside, *inner = (tuple(views[NO_ROOTS]) for views in found.values())
        every = ((level, roots, tuple(own)) for level, views in found.items() for roots, own in views.items())
        return Room(tuple(amounts), outside, tuple(inner), tuple(sorted(own for own in every if own[1])))

    def _views(
        self,
        label: Label,
        stores: Sequence[StoredTile],
        level: int,
        before: Sequence[int],
        added: Sequence[tuple[int, int]] = (),
        held_words: int = 0,
    ) -> Views:
        """Most that Einsums took of a memory, with the next one's stored tiles, and held ones, `added`."""
        views: Views = {NO_ROOTS: [*before]}
        views |= {roots: [*peaks] for own, roots, peaks in label.room.apart if own == level}
        here = [tile for tile in (*label.stored, *stores) if tile.level == level]
        for root in sorted({t.root for t in here if t.tensor in self._joinable} - set(chain(*views))):
            # No Einsum so far has had anything of this room.
            views |= {tuple(sorted((*roots, root))): [*peaks] for roots, peaks in views.items()}
        known = [tile for tile in label.stored if tile.level == level and tile.root]
        for tile in (own for own in stores if own.level == level):
            _add_stored(views, tile, known)
            known.append(tile)
        ran = [bool(words) for words in views[NO_ROOTS]]
        for roots, peaks in views.items():
            for depth, words in added:
                peaks[:] = (own + words * (at > depth and ran[at]) for at, own in enumerate(peaks))
            peaks[-1] = max(peaks[-1], _taken(label, stores, level, roots) + held_words)
        return views

    @cached_property
    def _joinable(self) -> frozenset[str]:
        """Tensors of which several copies may take one room, or copies of copies."""
        relatives, storable = self.space.copies.relatives, self.space.storable
        return frozenset(own for own in self.space.copies.accessed if len(relatives(own) & storable) > 2)

    def _roomed(self, label: Label, room: Room, step: Step) -> Iterator[Label]:
        """Yield the label with each room that later tensors may leave of memories farther in."""
        assert step.kind is not None
        left = [
            [
                (level, words - _taken(label, step.stores, level) - later)
                for later in self._later(label.frames, label.at, level)
            ]
            for level, words in self.space.rooms.items()
        ]
        for chosen in product(*left):
            limited = ((level, words) for level, words in chosen if words < self.space.rooms[level])
            least = dict(step.kind.least)
            if all(words >= least.get(level, 0) for level, words in chosen):
                kind = replace(step.kind, rooms=tuple(limited))
                yield from self._chosen(label, room, step._replace(kind=kind))

    @remembered
    def _later(self, frames: Frames, place: int, level: int) -> list[int]:
        """Room of tensors that later Einsums may store above loops which they share with the next one."""
        sums = {0}
        for writer in range(place + 1, frames[0].end if frames else 0):
            around = tuple(frame for frame in frames if frame.end > writer)
            shared = sum(len(frame.segments) for frame in around)
            written = (t.tensor for t in self.space.tiles[writer] if t.space.read_write)
            for tensor in (t for t in written if level in self.space.homes.get(t, ())):
                above = [tile for tile in self._places(frames, tensor, level) if tile.depth < shared]
                sizes = {own.words for tile in above for own in self._spread(around, writer, tile)}
                sizes.update(tile.words for tile in above)
                others = list(self._words_beside(frames, tensor, level))
                sizes.update(max(0, tile.words - words) for tile in above for words in others)
                sums |= {a + b for a in sums for b in sizes}
        return sorted(sums)

    def _words_beside(self, frames: Frames, tensor: str, level: int) -> Iterator[int]:
        """Yield the room of what may take one room with a tensor: what it is a copy of, or has in common."""
        for other in self.space.copies.relatives(tensor) - {tensor}:
            if level in self.space.homes.get(other, ()):
                writer = self.space.cascade.writers[other]
                around = tuple(frame for frame in frames if frame.start <= writer < frame.end)
                yield self._stored(around, other, level).words

    def _chosen(self, label: Label, room: Room, step: Step) -> Iterator[Label]:
        """Yield the label with each choice for the next edge that has room."""
        assert step.kind is not None
        taken = _taken(label, step.stores, 1) + sum(room.held)
        times, of_cycles = self.space.einsums[step.place].times
        least = dict(step.kind.least).get(1, 0)
        for choice in self.pricer.least(step.kind, as_paid=self.as_paid):
            needed = max(choice.need_words, least)
            if max(choice.room_words, least) > self.bodies.usable - taken:
                continue
            own = self._with_own_tiles(label, room, step, choice, needed)
            energy = label.energy + choice.energy * times
            cycles = label.cycles + choice.cycles * of_cycles
            grown = replace(label, energy=energy, cycles=cycles)
            yield from self._closed(grown, own, step._replace(choice=choice), label)

    def _with_own_tiles(
        self, label: Label, room: Room, step: Step, choice: Choice, needed_words: int
    ) -> Room:
        """What is taken of memories, with the own tiles of an edge."""
        needs = {1: needed_words + sum(room.held)}
        if choice.point is not None:
            needs |= dict(zip(self.space.inner, choice.point.inner_words, strict=True))

        def raised(peaks: tuple[int, ...], level: int, roots: Roots = NO_ROOTS) -> tuple[int, ...]:
            if level not in needs:
                return peaks
            return (*peaks[:-1], max(peaks[-1], _taken(label, step.stores, level, roots) + needs[level]))

        return Room(
            room.held,
            raised(room.peaks, 1),
            tuple(raised(own, level) for level, own in zip(self.space.rooms, room.inner, strict=True)),
            tuple((level, roots, raised(own, level, roots)) for level, roots, own in room.apart),
        )

    def _falls_apart(self, label: Label, step: Step) -> bool:
        """Whether a body might as well be two, at the cut before or after an Einsum.

        That is where nothing is stored across the cut below some loop of the innermost body around. Then each
        side can have these loops for itself, and a side of one Einsum needs no shared loops: as private ones
        they do not cost more, unless tiles are held between them, or they may move what is stored farther in.
        """
        stored = (*label.stored, *step.stores)
        for cut in (step.place, step.place + 1):
            around = [frame for frame in step.frames if frame.start < cut < frame.end]
            was_seen = cut == step.place and bool(around) and around[-1].end > cut + 1
            if not around or was_seen or self.space.slides(step.frames):
                continue
            above = sum(len(frame.segments) for frame in around[:-1])
            crossing = (own for own in stored if own.last >= cut and self._writer(own) < cut)
            bound = {step.place: any(depth >= above for _, depth in step.held)}
            bound[step.place - 1] = any(depth >= above for _, depth in label.last_held)
            bound = {place: own or self._stores_deep(place, stored) for place, own in bound.items()}
            if all(own.depth <= above for own in crossing) and self._may_part(around[-1], cut, bound):
                return True
        return False

    def _stores_deep(self, place: int, stored: Sequence[StoredTile]) -> bool:
        """Whether something that an Einsum accesses may be stored in a memory farther in."""
        accessed = {tile.tensor for tile in self.space.tiles[place]}
        return any(
            own.level != 1 and max(self.space.homes[own.tensor]) > 1
            for own in stored
            if own.tensor in accessed
        )

    def _writer(self, tile: StoredTile) -> int:
        return self.space.cascade.writers[tile.tensor]

    def _may_part(self, frame: Frame, cut: int, bound: dict[int, bool]) -> bool:
        """Whether both sides of a cut do as well without the other one; `bound`: who needs shared loops."""
        for start, end in ((frame.start, cut), (cut, frame.end)):
            # With remainders, the private loops of visits are none of the whole.
            is_ruled = self.pricer.remainders or self.pricer.is_ruled(start)
            if end == start + 1 and (is_ruled or bound.get(start, True)):
                return False
            if end > start + 1 and self.bodies.groups.inside_of(frame.start, frame.end, start, end) is None:
                return False
        return True

    def _closed(self, label: Label, room: Room, step: Step, parent: Label | None = None) -> Iterator[Label]:
        """Yield the label at the next cut, with bodies closed that end there; none if one lacks a body."""
        after = step.place + 1
        frames = tuple(frame for frame in label.frames if frame.end > after)
        ended = zip(label.frames[len(frames) :], label.parted[len(frames) :], strict=True)
        if any(not frame.flat and not parted for frame, parted in ended):
            return
        if not self.space.has_shapes and self._falls_apart(label, step):
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
        here = {(tile.level, tile.root) for tile in stored}
        apart = (
            (level, tuple(sorted(map(firsts.__getitem__, roots))), (*own[:depth], max(own[depth:])))
            for level, roots, own in room.apart
            if all((level, root) in here for root in roots)
        )
        stored = tuple(tile._replace(root=firsts[tile.root]) if tile.root else tile for tile in stored)
        yield replace(
            label,
            at=after,
            opening=True,
            frames=frames,
            parted=label.parted[: len(frames)],
            stored=stored,
            room=Room(room.held[:depth], peaks, tuple(inner), tuple(sorted(apart))),
            parent=parent or label,
            step=step,
        )


def _add_stored(views: Views, tile: StoredTile, known: Sequence[StoredTile]) -> None:
    """Let a tensor that is stored now wait for Einsums that ran before, beside `known` ones.

    A source and its only copy share a room wherever both wait, as it is decided with the source whether the
    copy lies farther out. Where further tensors may join a room, what Einsums took without it says what they
    take with more of it.
    """
    ran = [shared for shared, words in enumerate(views[NO_ROOTS]) if words and shared > tile.depth]
    for roots in (own for own in views if tile.root not in own):
        peaks, without = views[roots], views.get(tuple(sorted((*roots, tile.root))))
        for shared in ran:
            beside = (t.words for t in known if tile.root and t.root == tile.root and t.depth < shared)
            grown = peaks[shared] + max(0, tile.words - max(beside, default=0))
            peaks[shared] = grown if without is None else max(peaks[shared], without[shared] + tile.words)


def _taken(label: Label, stores: Sequence[StoredTile], level: int, without: Roots = NO_ROOTS) -> int:
    """Words that stored tensors take of a memory while the next Einsum runs, `without` the rooms of roots."""
    tiles = (tile for tile in (*label.stored, *stores) if tile.level == level)
    return room_of(tile for tile in tiles if not without or tile.root not in without)
