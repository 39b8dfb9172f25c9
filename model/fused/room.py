"""What tiles take of the memories while each Einsum of a fused mapping runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from model.architecture import StorageLevel
from model.counting.words import tile_words
from model.extents import tiles_of
from model.fused.cascade import CascadeEinsum
from model.fused.check import FusedMappingError
from model.fused.mapping import Held, Stored
from model.fused.nests import Seen, VisitKind
from model.fused.report import RoomTaken, RoomTile
from model.fused.twins import other_names
from model.fused.visits import Span, Visits, multi_term_dims
from model.problem import Dataspace


def spatial_divisors(seen: Seen, position: int) -> dict[str, int]:
    """Return by how much the spatial loops outside a node divide each dimension."""
    result: dict[str, int] = {}
    for loops in seen.nest.spatial[:position]:
        for loop in loops:
            result[loop.dim] = result.get(loop.dim, 1) * loop.bound
    return result


def held_extents(
    visits: Visits, place: int, seen: Seen, position: int, depth: int
) -> dict[str, Counter[int]]:
    """Extents of one instance's tile above the nests of an Einsum, per dimension, and how many there are.

    Parameters
    ----------
    seen, position
        A visit, and the node that the tile is at: spatial loops outside divide the tile.
    depth
        Number of shared loops above the tile.
    """
    problem = visits.cascade.einsums[place].problem
    shares = spatial_divisors(seen, position)
    choices: dict[str, Counter[int]] = {}
    for dim in problem.dims:
        choices[dim] = Counter()
        for extent, count in visits.extents(place, dim, depth).items():
            choices[dim][tiles_of(extent, shares.get(dim, 1))] += count
    return choices


def largest_tile_words(
    visits: Visits, place: int, kinds: Sequence[VisitKind], space: Dataspace, memory: str
) -> int | None:
    """Words of an Einsum's largest tile in one instance of a memory.

    Returns
    -------
    int or None
        None where the memory has no tile of the dataspace, as tolls have none at all. The outermost memory
        has the whole of what it keeps.
    """
    einsum, mapping = visits.cascade.einsums[place], visits.mapping
    architecture = einsum.mapspace.architecture
    levels = architecture.levels
    stored = mapping.stored_at.get(einsum.access(space.name).tensor)
    if stored is not None and stored.memory == memory:
        return stored_words(visits, stored, place, kinds)
    if memory == levels[0].name:
        return tile_words(space, einsum.problem.bound) if stored is None else None
    held = next((tile for tile in mapping.paths[place].leaf.held if tile.dataspace == space.name), None)
    if any(level.tolls for level in levels if level.name == memory):
        return None
    if held is not None and memory == architecture.on_chip[0].name:
        return _held_words(visits, place, kinds, space, held)
    words = [
        tile_words(space, seen.nest.bounds[position])
        for seen in (kind.seen(space.name) for kind in kinds)
        for position in seen.places(memory)
        if space.name in getattr(seen.mapping.nodes[position], "keep", ())
    ]
    return max(words, default=None)


def stored_words(visits: Visits, stored: Stored, place: int, kinds: Sequence[VisitKind]) -> int:
    """Words of a stored tensor's largest tile in one instance of its memory.

    Parameters
    ----------
    place, kinds
        One of the Einsums that access it, and the kinds of its visits, none for a copy.
    """
    einsum = visits.cascade.einsums[place]
    (access, *_) = einsum.accesses_of(stored.tensor)
    ranks = dict(zip(access.ranks, einsum.space(access.dataspace).ranks, strict=True))
    shares: dict[str, int] = {}
    if kinds:
        seen = kinds[0].seen(access.dataspace)
        shares = spatial_divisors(seen, seen.home(stored.memory, access.dataspace))
    words = 1
    for name, spans in visits.tile(stored.tensor, stored.depth):
        spread = math.prod(shares.get(term.dim, 1) for term in ranks.get(name, ()))
        words *= max(-(-(high - low) // spread) for low, high in spans)
    return words


def _held_words(visits: Visits, place: int, kinds: Sequence[VisitKind], space: Dataspace, held: Held) -> int:
    einsum, path = visits.cascade.einsums[place], visits.mapping.paths[place]
    seen = kinds[0].seen(space.name)
    position = seen.home(einsum.mapspace.architecture.on_chip[0].name, space.name)
    divided = spatial_divisors(seen, position).keys() & multi_term_dims(einsum, space.name)
    if divided and held.fetch_depth < len(path.loops):
        text = f"windows of `{space.name}` are held above shared loops in a memory that exists several times"
        raise FusedMappingError(f"{text}, which is not modelled", held)
    choices = held_extents(visits, place, seen, position, held.depth)
    return tile_words(space, {dim: max(sizes) for dim, sizes in choices.items()})


def room_roots(visits: Visits) -> dict[str, str]:
    """Return per stored tensor the one whose room it takes: its own, or that of what it copies.

    A copy lies beside its source in one memory, where one of their tiles is always part of the other.
    """
    stored = visits.mapping.stored_at
    roots = {tensor: tensor for tensor in stored}
    copies = (einsum for einsum in visits.cascade.einsums if einsum.is_copy)
    pairs = ((einsum, einsum.copied, target) for einsum in copies for target in sorted(einsum.written))
    for einsum, source, target in ((e, s, t) for e, s, t in pairs if s in stored and t in stored):
        is_beside = stored[source].memory == stored[target].memory
        if is_beside and is_part_of_other(visits, einsum, stored[source], stored[target]):
            roots[target] = roots[source]
    return roots


def is_part_of_other(visits: Visits, copy: CascadeEinsum, source: Stored, target: Stored) -> bool:
    """Whether of the tiles of a copy and of its source one is always part of the other one."""
    if not source.depth and not target.depth:
        return True
    one, other = (dict(_spans_by_dim(visits, copy, stored)) for stored in (source, target))
    # No shared loop runs over other dimensions of a copy.
    pairs = [pair for dim in one.keys() & other.keys() for pair in _in_step(one[dim], other[dim])]
    return all(_contains(*pair) for pair in pairs) or all(_contains(inner, outer) for outer, inner in pairs)


def _spans_by_dim(
    visits: Visits, copy: CascadeEinsum, stored: Stored
) -> Iterator[tuple[str, Sequence[Span]]]:
    """Yield the parts of a stored tensor that wait, by the dimensions that index a rank by themselves."""
    (access,) = copy.accesses_of(stored.tensor)
    tile = dict(visits.tile(stored.tensor, stored.depth))
    ranks = zip(access.ranks, copy.space(access.dataspace).ranks, access.offsets, strict=True)
    for name, (term, *more), offset in ranks:
        if not more and term.coefficient == 1:
            yield term.dim, [(low - offset, high - offset) for low, high in tile[name]]


def _in_step(one: Sequence[Span], other: Sequence[Span]) -> Iterator[tuple[Span, Span]]:
    """Yield the parts that wait at the same time: loops below one place cut its parts further."""
    steps = max(len(one), len(other))
    for step in range(steps):
        yield one[step * len(one) // steps], other[step * len(other) // steps]


def _contains(outer: Span, inner: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


@dataclass(frozen=True)
class _Tile:
    """A tile with what decides when it takes room."""

    tile: RoomTile
    memory: str
    owners: tuple[int, ...]  # Einsums whose loops are above it
    depth: int
    life: range  # of places in the cascade
    root: str  # tiles of one root at one memory take one room
    dataspace: str = ""  # of an Einsum's own tile


def _largest(tiles: Iterable[_Tile]) -> tuple[RoomTile, ...]:
    """Return the tiles that take room: the largest one of each root."""
    largest: dict[str, RoomTile] = {}
    for tile in tiles:
        other = largest.get(tile.root, tile.tile)
        largest[tile.root] = max(other, tile.tile, key=lambda room: room.size_words)
    return tuple(largest.values())


@dataclass(frozen=True)
class Rooms:
    """Room over time.

    Parameters
    ----------
    kinds
        The kinds of visits of each Einsum, none for a copy, and for one that has a twin before it.
    twins
        Per Einsum the place of the first one that does the same by other names (`model.fused.twins`).
    """

    visits: Visits
    kinds: Sequence[tuple[VisitKind, ...]]
    twins: Sequence[int]

    def rooms(self) -> Iterator[RoomTaken]:
        """Yield for each Einsum what is taken of each memory while it runs."""
        for place, einsum in enumerate(self.visits.cascade.einsums):
            for level in (own for own in einsum.mapspace.architecture.levels if not own.tolls):
                there = [
                    own
                    for own in self._near[place]
                    if own.memory == level.name and self._takes_room(own, place)
                ]
                used = sum(tile.size_words for tile in _largest(own for own in there if place in own.owners))
                yield RoomTaken(level.name, einsum.name, _largest(there), level.usable_words, used)

    def _takes_room(self, tile: _Tile, place: int) -> bool:
        """Whether a tile is there while an Einsum runs: in its life, or for a later turn of its owner."""
        paths = self.visits.mapping.paths
        later = any(paths[owner].shared(paths[place]) > tile.depth for owner in tile.owners)
        return place in tile.life or later

    @cached_property
    def _near(self) -> tuple[list[_Tile], ...]:
        """Per Einsum the tiles that may be there while it runs: others than those in its body are over."""
        members: dict[int, set[int]] = {}
        for place, path in enumerate(self.visits.mapping.paths):
            members.setdefault(path.bodies[0] if path.bodies else -1 - place, set()).add(place)
        together = {place: own for own in members.values() for place in own}
        found: tuple[list[_Tile], ...] = tuple([] for _ in together)
        for tile in self._tiles:
            for place in set(tile.life).union(*map(together.__getitem__, tile.owners)):
                found[place].append(tile)
        return found

    @cached_property
    def _tiles(self) -> tuple[_Tile, ...]:
        stored = (self._stored(each) for each in self.visits.mapping.stored)
        own: list[tuple[_Tile, ...]] = []
        for place, first in enumerate(self.twins):
            is_new = first == place
            own.append(
                tuple(self._own(place, self.kinds[place]) if is_new else self._same(own[first], place))
            )
        return (*stored, *chain.from_iterable(own))

    def _same(self, tiles: Iterable[_Tile], place: int) -> Iterator[_Tile]:
        """Yield the tiles of an Einsum's twin as its own."""
        einsum, known = self.visits.cascade.einsums[place], self.visits.cascade.einsums[self.twins[place]]
        names = other_names(known.problem, einsum.problem)
        for own in tiles:
            name = names[own.dataspace]
            tile = replace(own.tile, tensor=einsum.access(name).tensor, einsum=einsum.name)
            life, root = range(place, place + 1), f"{einsum.name} {name}"
            yield replace(own, tile=tile, owners=(place,), life=life, root=root, dataspace=name)

    def _stored(self, stored: Stored) -> _Tile:
        cascade = self.visits.cascade
        users, persistent = cascade.users[stored.tensor], stored.tensor in cascade.persistent
        place = next((user for user in users if self.kinds[user]), users[0])
        words = stored_words(self.visits, stored, place, self.kinds[place])
        einsum = cascade.einsums[place]
        level = next(lv for lv in einsum.mapspace.architecture.levels if lv.name == stored.memory)
        per_value = level.packing_of(einsum.accesses_of(stored.tensor)[0].dataspace).size_per_value
        scale = dict(cascade.room_scale).get(stored.tensor, 1)
        times = max(cascade.einsums[user].n_instances for user in users) if persistent else 1
        size = math.ceil(words * per_value * scale) * times
        return _Tile(
            RoomTile(stored.tensor, "", "persistent" if persistent else "stored", size),
            stored.memory,
            users,
            stored.depth,
            range(len(cascade.einsums)) if persistent else range(users[0], users[-1] + 1),
            self._roots[stored.tensor],
        )

    @cached_property
    def _roots(self) -> dict[str, str]:
        return room_roots(self.visits)

    def _own(self, place: int, kinds: tuple[VisitKind, ...]) -> Iterator[_Tile]:
        """Yield what an Einsum holds, and the tiles of its nests: of unlike visits, those that take most."""
        einsum = self.visits.cascade.einsums[place]
        for level in einsum.mapspace.architecture.levels if kinds else ():
            yield from max(
                ([*self._own_at(place, kind, level)] for kind in kinds),
                key=lambda tiles: sum(tile.tile.size_words for tile in tiles),
            )

    def _own_at(self, place: int, kind: VisitKind, level: StorageLevel) -> Iterator[_Tile]:
        einsum = self.visits.cascade.einsums[place]
        for space in einsum.problem.dataspaces:
            stored = self.visits.mapping.stored_at.get(einsum.access(space.name).tensor)
            words = largest_tile_words(self.visits, place, (kind,), space, level.name)
            if words is not None and (stored is None or stored.memory != level.name):
                yield self._own_tile(place, space, level, words)

    def _own_tile(self, place: int, space: Dataspace, level: StorageLevel, words: int) -> _Tile:
        einsum, path = self.visits.cascade.einsums[place], self.visits.mapping.paths[place]
        outermost = einsum.mapspace.architecture.on_chip[:1]
        held = {tile.dataspace: tile.depth for tile in path.leaf.held if level in outermost}
        tile = RoomTile(
            einsum.access(space.name).tensor,
            einsum.name,
            "held" if space.name in held else "own",
            words * level.packing_of(space.name).size_per_value,
        )
        depth = held.get(space.name, len(path.loops))
        return _Tile(
            tile,
            level.name,
            (place,),
            depth,
            range(place, place + 1),
            f"{einsum.name} {space.name}",
            space.name,
        )
