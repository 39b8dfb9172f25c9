"""Buffers of one dataspace, and the transfers between a kept level and the next one inwards."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Words = frozenset[int]
EMPTY: Words = frozenset()

Way = tuple[Hashable, ...]
"""How a request comes to a store: through which children of fanouts, and the tile that it asks for."""


@dataclass(frozen=True, slots=True)
class AccessCounts:
    """Accesses of one dataspace at one storage level.

    Parameters
    ----------
    reads, fills, updates
        Words, summed over the instances in use.
    tile_words
        The most that one instance ever held.
    instances
        Instances that were ever in use.
    of_instances
        Reads, fills and updates of each instance in use.
    """

    reads: int
    fills: int
    updates: int
    tile_words: int
    instances: int
    of_instances: tuple[tuple[int, int, int], ...] = field(default=(), compare=False)


@dataclass
class Buffer:
    """One dataspace in one instance of a storage level; words are flat positions in the tensor.

    Parameters
    ----------
    held
        Value of each word that is there.
    parcels
        With which accesses each word came, where partial sums go back.
    arrived, served
        Words that have ever come in, and that have ever been handed to a child.
    """

    held: dict[int, int] = field(default_factory=dict)
    parcels: dict[int, list[Parcel]] = field(default_factory=dict)
    arrived: set[int] = field(default_factory=set)
    served: set[int] = field(default_factory=set)
    reads: int = 0
    fills: int = 0
    updates: int = 0
    most_words: int = 0

    def take(self, words: Words, parcels: Mapping[int, Parcel]) -> None:
        """Remember with which access partial sums came."""
        for word in words:
            self.parcels.setdefault(word, []).append(parcels[word])
            parcels[word].holders += 1


@dataclass
class Parcel:
    """What one access brings of one word: whence, and how many children have not given it up again."""

    source: Buffer
    holders: int = 0


@dataclass(frozen=True)
class Visits:
    """What one instance is to hold, visit by visit: the loops outside of its level are in one iteration.

    Parameters
    ----------
    tiles
        Its tile, None where it has nothing to do.
    covered
        The tile that it would have if it had: the words at its place in the nest.
    anew
        Visits in which its tile comes whole (see `whole_visits`).
    """

    tiles: tuple[Words | None, ...]
    covered: tuple[Words, ...]
    anew: frozenset[int] = frozenset()
    upcoming: tuple[Words, ...] = field(init=False)

    def __post_init__(self) -> None:
        upcoming: list[Words] = []
        following = EMPTY
        for visit in reversed(range(len(self.tiles))):
            tile = EMPTY if visit in self.anew else self.tiles[visit]
            following = following if tile is None else tile
            upcoming.append(following)
        object.__setattr__(self, "upcoming", tuple(reversed(upcoming)))

    def spared(self, visit: int | None, *, reuses: bool) -> Words:
        """Words that are not given up when a visit begins, or at the end.

        They are at its place, or wanted next. A tile that comes whole brings all of them anew; so do all
        where nothing `reuses` words.
        """
        if visit is None:
            return EMPTY
        if reuses and visit not in self.anew:
            return self.covered[visit] | self.upcoming[visit]
        return self.covered[visit] if self.tiles[visit] is None else EMPTY


def whole_visits(
    works: Sequence[bool], digits: Sequence[Sequence[int]], moves: Sequence[bool]
) -> frozenset[int]:
    """Return the visits before which a loop that moves an instance's tile has had a single iteration.

    Such a loop moves the tile all the same when a loop outside of it advances, so the tile comes whole.

    Parameters
    ----------
    works
        By visit, whether the instance has anything to do.
    digits
        By visit, the iterations in which the loops outside are, outermost first.
    moves
        By loop, whether it moves the tile.
    """
    found: set[int] = set()
    for before, visit in pairwise(number for number, own in enumerate(works) if own):
        pairs = zip(digits[before], digits[visit], strict=True)
        advanced = next(place for place, (last, now) in enumerate(pairs) if last != now)
        inside = zip(digits[before][advanced + 1 :], moves[advanced + 1 :], strict=True)
        if any(not digit for digit, own in inside if own):
            found.add(visit)
    return frozenset(found)


@dataclass
class Store:
    """All instances of a storage level, as far as one dataspace goes.

    Parameters
    ----------
    visits
        Per instance, what it is to hold.
    temporal_reuse
        False if words that stay in the tile are dropped and fetched again all the same.
    elides_first_touch
        True if the first touch of a word of a read-write dataspace needs neither fill nor read.
    """

    visits: tuple[Visits, ...]
    temporal_reuse: bool = True
    elides_first_touch: bool = True
    buffers: list[Buffer] = field(init=False)

    def __post_init__(self) -> None:
        self.buffers = [Buffer() for _ in self.visits]

    def leaving(self, visit: int | None) -> list[Words]:
        """Words that each instance gives up when a visit begins, or at the end."""
        return [
            frozenset(buffer.held) - own.spared(visit, reuses=self.temporal_reuse)
            for buffer, own in zip(self.buffers, self.visits, strict=True)
        ]

    def tiles(self, visit: int) -> list[Words | None]:
        """The tile of each instance in a visit, None where it has nothing to do."""
        return [own.tiles[visit] for own in self.visits]

    def counts(self) -> AccessCounts:
        """What has been counted so far."""
        used = [
            buffer
            for buffer, own in zip(self.buffers, self.visits, strict=True)
            if any(tile is not None for tile in own.tiles)
        ]
        of_instances = tuple((buffer.reads, buffer.fills, buffer.updates) for buffer in used)
        reads, fills, updates = (sum(words) for words in zip(*of_instances, strict=True))
        most = max(buffer.most_words for buffer in used)
        return AccessCounts(reads, fills, updates, most, len(used), of_instances)


@dataclass
class Toll:
    """All instances of a level through which one dataspace passes, which pays there and is not stored.

    Parameters
    ----------
    instances
        Their number.
    pays_down, pays_up
        Whether words that are delivered count as reads, and partial sums that go back as updates.
    elides_first_touch
        True if the first touch of a word of a read-write dataspace is free.
    """

    instances: int
    pays_down: bool
    pays_up: bool
    elides_first_touch: bool = True
    buffers: list[Buffer] = field(init=False)

    def __post_init__(self) -> None:
        self.buffers = [Buffer() for _ in range(self.instances)]

    def let_down(self, number: int, request: Request, children: Sequence[Buffer], read_write: bool) -> None:
        """Let what an instance is asked for pass."""
        buffer, words = self.buffers[number], request.words
        paid = words & buffer.served if read_write and self.elides_first_touch else words
        buffer.reads += len(paid) * self.pays_down
        buffer.served |= words
        if not read_write:
            return
        parcels = {word: Parcel(buffer) for word in words}
        for receiver, lacks in request.receivers:
            children[receiver].take(lacks, parcels)

    def counts(self) -> AccessCounts:
        """What has been counted so far."""
        used = [buffer for buffer in self.buffers if buffer.served]
        of_instances = tuple((own.reads, 0, own.updates * self.pays_up) for own in used)
        reads, _, updates = (sum(words) for words in zip(*of_instances, strict=True))
        return AccessCounts(reads, 0, updates, 0, len(used), of_instances)


@dataclass
class Request:
    """What reaches a store of what children ask for with one tile: words, and who lacks which of them."""

    tile: Words
    receivers: list[tuple[int, Words]]

    @property
    def words(self) -> Words:
        """Words that are to be read: any receiver lacks them."""
        return frozenset[int]().union(*(lacks for _, lacks in self.receivers))


@dataclass(frozen=True)
class Link:
    """The way between a store and the next one inwards that keeps the dataspace.

    Parameters
    ----------
    parent, child
        The outer and the inner store; transfers change both.
    way
        What is on the way, outermost first: tolls, and of every fanout its children, and whether they can be
        reached by one multicast.
    read_write
        Whether partial sums go back to `parent`; otherwise what leaves `child` is dropped.
    fills_counted
        False where `child` is the outermost level that keeps the dataspace: what is there at the start
        costs nothing.
    """

    parent: Store
    child: Store
    way: tuple[tuple[int, bool] | Toll, ...]
    read_write: bool
    fills_counted: bool = True

    @property
    def _children(self) -> int:
        """Instances of the child per instance of the parent."""
        return len(self.child.buffers) // len(self.parent.buffers)

    def write_back(self, visit: int | None) -> None:
        """Empty the child of what it gives up when a visit begins, or at the end.

        Partial sums of a word that came with one access go back with one: they are added on the way.
        """
        for number, words in enumerate(self.child.leaving(visit)):
            target = self.parent.buffers[number // self._children]
            for word in words:
                self._give_up(self.child.buffers[number], word, target)

    def deliver(self, visit: int) -> None:
        """Bring each child what its tile lacks; children with equal tiles share the accesses."""
        tiles = self.child.tiles(visit)
        asked: list[dict[Way, Request]] = [
            {} if tile is None else {(tile,): Request(tile, [(number, tile - {*buffer.held})])}
            for number, (tile, buffer) in enumerate(zip(tiles, self.child.buffers, strict=True))
        ]
        for number, requests in enumerate(self._gather(asked)):
            for request in requests.values():
                self._send(self.parent.buffers[number], request)
        for buffer in self.child.buffers:
            buffer.most_words = max(buffer.most_words, len(buffer.held))

    def _give_up(self, buffer: Buffer, word: int, target: Buffer) -> None:
        value = buffer.held.pop(word)
        if not self.read_write:
            return
        target.held[word] += value
        for parcel in buffer.parcels.pop(word):
            parcel.holders -= 1
            parcel.source.updates += parcel.holders == 0

    def _send(self, source: Buffer, request: Request) -> None:
        words = request.words
        source.reads += self._charged(self.parent, words, source.served)
        source.served |= words
        values = {word: source.held[word] for word in words}
        parcels = {word: Parcel(source) for word in words}
        for receiver, lacks in request.receivers:
            buffer = self.child.buffers[receiver]
            if self.fills_counted:
                buffer.fills += self._charged(self.child, lacks, buffer.arrived)
            buffer.arrived |= lacks
            buffer.held.update((word, values[word]) for word in lacks)
            if self.read_write:
                # The partial sum moves to one receiver; the others add to zero.
                values.update(dict.fromkeys(lacks, 0))
                source.held.update(dict.fromkeys(lacks, 0))
                buffer.take(lacks, parcels)

    def _charged(self, store: Store, words: Words, touched: set[int]) -> int:
        """Accesses that moving `words` costs at `store`, of which `touched` were there before."""
        if self.read_write and store.elides_first_touch:
            return len(words & touched)
        return len(words)

    def _gather(self, asked: list[dict[Way, Request]]) -> list[dict[Way, Request]]:
        """Return, per parent instance, what arrives there of what each child asks for."""
        for step in reversed(self.way):
            if isinstance(step, Toll):
                self._let_down(step, asked)
                continue
            size, multicast = step
            chunks = [asked[i : i + size] for i in range(0, len(asked), size)]
            asked = [join(chunk, multicast) for chunk in chunks]
        return asked

    def _let_down(self, toll: Toll, asked: Sequence[Mapping[Way, Request]]) -> None:
        for number, requests in enumerate(asked):
            for request in requests.values():
                toll.let_down(number, request, self.child.buffers, self.read_write)


def join(children: Sequence[dict[Way, Request]], multicast: bool) -> dict[Way, Request]:
    """Join the requests of one fanout's children.

    With multicast, children that ask for the same tiles are served together, request by request.
    """
    joined: dict[Way, Request] = {}
    for number, requests in enumerate(children):
        tiles = frozenset(request.tile for request in requests.values())
        via: Hashable = tiles if multicast else number
        for way, request in requests.items():
            known = joined.setdefault((via, *way), Request(request.tile, []))
            known.receivers.extend(request.receivers)
    return joined
