"""Labels of the shortest path over the cuts of a cascade: what is decided up to a cut, and their queue."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from solver.fusion.amounts import UNLIMITED
from solver.fusion.edges import Choice, EdgeKind
from solver.fusion.space import Frame, Frames
from solver.fusion.stores import Spread

DRAFTS = 30
"""Times as many drafts as bodies are looked at, where few are."""


class StoredTile(NamedTuple):
    """A tensor that waits on chip, below the first `depth` segments of its path's loops.

    `level` is that of its memory: 1 for the outermost one on chip, 0 if it may be any one, or none. Where the
    memory exists several times, `spread` is how; None leaves that open, and `words` is the least there is.
    Tensors of one `root` in one memory take one room; without one, a tensor takes a room of its own.
    """

    tensor: str
    depth: int
    words: int
    last: int  # Einsum that reads it
    level: int = 1
    spread: Spread | None = ()
    root: str = ""


def room_of(tiles: Iterable[StoredTile]) -> int:
    """Words that stored tensors of one memory take together."""
    total, largest = 0, dict[str, int]()
    for tile in tiles:
        if tile.root:
            largest[tile.root] = max(largest.get(tile.root, 0), tile.words)
        else:
            total += tile.words
    return total + sum(largest.values())


class Step(NamedTuple):
    """What is decided about one Einsum; `held` has pairs of a dataspace and the segments above its tile."""

    place: int
    frames: Frames
    kind: EdgeKind | None  # None for a copy
    choice: Choice | None  # what a copy costs has no point
    stores: tuple[StoredTile, ...]
    held: tuple[tuple[str, int], ...]


class Room(NamedTuple):
    """Room of the on-chip memories at a cut, in words.

    Parameters
    ----------
    held
        Per open segment, what the outermost one holds right above it; and while an Einsum runs, what that
        holds below all of them.
    peaks
        Per number of open segments that they share, the most that Einsums before the cut took of the
        outermost one, by all that is known.
    inner
        Such peaks of each memory farther in that may store tensors.
    apart
        Such peaks without the rooms of some roots that further tensors may join, by memory and roots.
    """

    held: tuple[int, ...] = ()
    peaks: tuple[int, ...] = (0,)
    inner: tuple[tuple[int, ...], ...] = ()
    apart: tuple[tuple[int, tuple[str, ...], tuple[int, ...]], ...] = ()


class Draft(NamedTuple):
    """A body that is about to be opened.

    Parameters
    ----------
    frame
        With the outermost of its segments.
    left
        Trips that its further segments have, by class of loops; None while nothing is decided.
    """

    frame: Frame
    left: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """A path up to a cut.

    Parameters
    ----------
    at
        The next Einsum.
    opening
        Whether further bodies may begin with it.
    draft
        The one that does.
    parted
        Of each open body, whether there is a body in it.
    """

    at: int
    opening: bool
    frames: Frames
    stored: tuple[StoredTile, ...]
    room: Room
    energy: int
    cycles: int
    parent: Label | None = None
    step: Step | None = None
    draft: Draft | None = None
    parted: tuple[bool, ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        """What labels have in common that can be compared."""
        return self.at, self.opening, self.frames, self.parted, self.draft, self.stored

    @property
    def shape(self) -> tuple[object, ...]:
        """Where it is, and which bodies are open, whatever their loops are."""
        draft = self.draft
        begun = None if draft is None else (draft.frame.end, draft.left is None, len(draft.frame.segments))
        return self.at, self.opening, tuple(frame.end for frame in self.frames), begun

    @property
    def last_held(self) -> tuple[tuple[str, int], ...]:
        """What the Einsum before holds, as `Step` has it."""
        label: Label | None = self
        while label is not None and label.step is None:
            label = label.parent
        return () if label is None or label.step is None else label.step.held

    def steps(self) -> list[Step]:
        """All that is decided, from the first Einsum on."""
        found: list[Step] = []
        label: Label | None = self
        while label is not None:
            found += [label.step] if label.step is not None else []
            label = label.parent
        return found[::-1]


@dataclass
class Queue:
    """Labels by value, and what those cost that were seen.

    Of equal labels the farthest comes first, then those with few open bodies, then the latest.

    Parameters
    ----------
    limit, width
        Those of `PathSearch.shortest`.
    """

    limit: int | None
    width: int | None
    heap: list[tuple[int, int, int, int, Label, bool]] = field(default_factory=list)
    seen: dict[tuple[object, ...], list[tuple[int, ...]]] = field(default_factory=dict)
    looks: Counter[object] = field(default_factory=Counter)
    least: int = 0
    """Value of the last label that was taken: those that are left have no less."""
    tickets: Iterator[int] = field(default_factory=lambda: count(0, -1))

    def __len__(self) -> int:
        return len(self.heap)

    def improves(self, value: int) -> bool:
        """Whether a value is below the limit, and that of something that can be."""
        return value < (UNLIMITED if self.limit is None else self.limit)

    def push(self, label: Label, value: int, is_rough: bool = False) -> None:
        """Add a label if its value is below the limit; `is_rough` if it may be far below the true one."""
        if self.improves(value):
            bodies = len(label.frames) + (label.draft is not None)
            heapq.heappush(self.heap, (value, -label.at, bodies, next(self.tickets), label, is_rough))

    def pop(self) -> tuple[int, Label, bool]:
        """Take the label with the least value."""
        self.least, _, _, _, label, is_rough = heapq.heappop(self.heap)
        return self.least, label, is_rough

    def enter(self, label: Label, costs: tuple[int, ...]) -> bool:
        """Remember a label unless another one is as good."""
        known = self.seen.setdefault(label.key, [])
        if any(_covers(own, costs) for own in known):
            return False
        known[:] = [own for own in known if not _covers(costs, own)]
        known.append(costs)
        return True

    def passes(self, label: Label, costs: tuple[int, ...]) -> bool:
        """Whether a label is still worth a look: no other one dominates it, and its shape had few looks."""
        if any(own != costs and _covers(own, costs) for own in self.seen.get(label.key, ())):
            return False
        self.looks[label.shape] += 1
        if self.width is None:
            return True
        return self.looks[label.shape] <= self.width * (1 if label.draft is None else DRAFTS)


def _covers(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))
