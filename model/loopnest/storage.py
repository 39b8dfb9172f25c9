"""Buffers of one dataspace, and the transfers between a kept level and the next one inwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Words = frozenset[int]
Request = tuple[tuple[Words, tuple[int, ...]], ...]
"""What a subtree asks for in one step: sets of words, each with the child instances that it is for."""


@dataclass(frozen=True, slots=True)
class AccessCounts:
    """Accesses of one dataspace at one storage level.

    Parameters
    ----------
    reads, fills, updates
        Words, summed over the used instances.
    tile_words
        The most that one instance ever held.
    instances
        Instances in use.
    """

    reads: int
    fills: int
    updates: int
    tile_words: int
    instances: int


@dataclass
class Buffer:
    """One dataspace in one instance of a storage level; words are flat positions in the tensor.

    Parameters
    ----------
    held
        Value of each word that is there.
    arrived, served
        Words that have ever come in, and that have ever been handed to a child.
    """

    held: dict[int, int] = field(default_factory=dict)
    arrived: set[int] = field(default_factory=set)
    served: set[int] = field(default_factory=set)


@dataclass
class Store:
    """All instances of a storage level, as far as one dataspace goes.

    Parameters
    ----------
    box
        Words of an instance's tile, relative to the tile's first one.
    offsets
        Per instance, how far its tile is from that of the first instance.
    temporal_reuse
        False if words that stay in the tile are dropped and fetched again all the same.
    elides_first_touch
        True if the first touch of a word of a read-write dataspace needs neither fill nor read.
    """

    box: Words
    offsets: tuple[int, ...]
    temporal_reuse: bool = True
    elides_first_touch: bool = True
    buffers: list[Buffer] = field(init=False)
    reads: int = 0
    fills: int = 0
    updates: int = 0
    tile_words: int = 0

    def __post_init__(self) -> None:
        self.buffers = [Buffer() for _ in self.offsets]

    def tile(self, instance: int, base: int) -> Words:
        """Words of one instance's tile."""
        start = base + self.offsets[instance]
        return frozenset(start + word for word in self.box)

    def leaving(self, base: int | None) -> list[Words]:
        """Words that each instance gives up when the tiles move."""
        held = [frozenset(buffer.held) for buffer in self.buffers]
        if base is None or not self.temporal_reuse:
            return held
        return [words - self.tile(i, base) for i, words in enumerate(held)]

    def missing(self, base: int) -> list[Words]:
        """Words that each instance does not hold of its tile."""
        return [self.tile(i, base).difference(buffer.held) for i, buffer in enumerate(self.buffers)]

    def drop(self, words: Sequence[Words]) -> None:
        """Forget words of each instance.

        Raises
        ------
        KeyError
            If an instance does not hold one of them.
        """
        for buffer, dropped in zip(self.buffers, words, strict=True):
            for word in dropped:
                del buffer.held[word]

    def counts(self) -> AccessCounts:
        """What has been counted so far."""
        return AccessCounts(self.reads, self.fills, self.updates, self.tile_words, len(self.buffers))


@dataclass(frozen=True)
class Link:
    """The way between a store and the next one inwards that keeps the dataspace.

    Parameters
    ----------
    parent, child
        The outer and the inner store; transfers change both.
    fanouts
        For every fanout on the way, outermost first: the children in use, and whether they can be reached
        by one multicast.
    read_write
        Whether partial sums go back to `parent`; otherwise what leaves `child` is dropped.
    fills_counted
        False where `child` is the outermost level that keeps the dataspace: what is there at the start
        costs nothing.
    """

    parent: Store
    child: Store
    fanouts: tuple[tuple[int, bool], ...]
    read_write: bool
    fills_counted: bool = True

    def write_back(self, base: int | None) -> None:
        """Empty the child of what its next tile does not hold.

        Children that give up the same words in one step are reduced on the way: one update each.
        """
        leaving = self.child.leaving(base)
        if not self.read_write:
            self.child.drop(leaving)
            return
        for instance, request in enumerate(self._gather(leaving)):
            for words, senders in request:
                self._reduce(self.parent.buffers[instance], words, senders)

    def deliver(self, base: int) -> None:
        """Bring each child what its tile lacks; equal requests of one step are one read."""
        for instance, request in enumerate(self._gather(self.child.missing(base))):
            for words, receivers in request:
                self._send(self.parent.buffers[instance], words, receivers)
        most = max(len(buffer.held) for buffer in self.child.buffers)
        self.child.tile_words = max(self.child.tile_words, most)

    def _reduce(self, target: Buffer, words: Words, senders: tuple[int, ...]) -> None:
        self.parent.updates += len(words)
        for word in words:
            target.held[word] += sum(self.child.buffers[sender].held.pop(word) for sender in senders)

    def _send(self, source: Buffer, words: Words, receivers: tuple[int, ...]) -> None:
        self.parent.reads += self._charged(self.parent, words, source.served)
        source.served |= words
        for receiver in receivers:
            buffer = self.child.buffers[receiver]
            if self.fills_counted:
                self.child.fills += self._charged(self.child, words, buffer.arrived)
            buffer.arrived |= words
            buffer.held.update((word, source.held[word]) for word in words)
            if self.read_write:
                # The partial sum moves to one receiver; the others add to zero.
                source.held.update(dict.fromkeys(words, 0))

    def _charged(self, store: Store, words: Words, touched: set[int]) -> int:
        """Accesses that moving `words` costs at `store`, of which `touched` were there before."""
        if self.read_write and store.elides_first_touch:
            return len(words & touched)
        return len(words)

    def _gather(self, wanted: Sequence[Words]) -> list[Request]:
        """Return, per parent instance, what arrives there of what each child wants to exchange."""
        requests: list[Request] = [
            ((words, (child,)),) if words else () for child, words in enumerate(wanted)
        ]
        for size, multicast in reversed(self.fanouts):
            chunks = [requests[i : i + size] for i in range(0, len(requests), size)]
            requests = [merge(chunk) if multicast else sum(chunk, ()) for chunk in chunks]
        return requests


def merge(requests: Sequence[Request]) -> Request:
    """Join the requests of one fanout's children."""
    groups: dict[tuple[Words, ...], list[tuple[int, ...]]] = {}
    for request in requests:
        key = tuple(words for words, _ in request)
        receivers = [children for _, children in request]
        known = groups.get(key)
        groups[key] = receivers if known is None else [a + b for a, b in zip(known, receivers, strict=True)]
    return tuple(
        (words, children)
        for key, receivers in groups.items()
        for words, children in zip(key, receivers, strict=True)
    )
