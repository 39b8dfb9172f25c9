"""Link transfers: words that the children of a fanout hand on to their neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import add
from typing import NamedTuple

from model.architecture import Architecture, Fanout
from model.cost.nest import Nest
from model.cost.traffic import MulticastDelivery, Words, reuses
from model.counting import CountingRule
from model.counting.words import Change, Vector, extents, timeloop_changes
from model.problem import Dataspace


@dataclass(frozen=True, slots=True)
class ChildGrid:
    """The children of a fanout in use.

    Parameters
    ----------
    offsets
        Tile position of each child, the innermost spatial loop counting fastest.
    columns, rows
        Extent of the mesh: the hardware's, or more if the loops need more. Children take their
        places row by row, so that loops which leave columns free change who neighbours whom.
    """

    offsets: tuple[Vector, ...]
    columns: int
    rows: int

    def neighbours(self, child: int) -> Iterator[int]:
        """Places above, below, left and right of a child that are in use.

        Parameters
        ----------
        child
            Its position in ``offsets``, which is its place in the mesh, row by row.
        """
        row, column = divmod(child, self.columns)
        places = (
            (row >= 1, child - self.columns),
            (row < self.rows - 1, child + self.columns),
            (column >= 1, child - 1),
            (column < self.columns - 1, child + 1),
        )
        return (place for inside, place in places if inside and place < len(self.offsets))

    def linked(self, jump: Vector) -> frozenset[int]:
        """Children that now want what a neighbour wanted before the tiles moved."""
        wanted = (tuple(map(add, offset, jump)) for offset in self.offsets)
        return frozenset(
            child
            for child, tile in enumerate(wanted)
            if any(self.offsets[place] == tile for place in self.neighbours(child))
        )

    def groups(self, without: frozenset[int], multicast: bool) -> int:
        """Accesses that serve all children but some.

        Parameters
        ----------
        without
            Children that others serve, as positions in ``offsets``.
        multicast
            Whether children with equal tiles share an access.
        """
        served = [offset for child, offset in enumerate(self.offsets) if child not in without]
        return len(set(served)) if multicast else len(served)


class Sharing(NamedTuple):
    """Words at one fanout over the whole run.

    Parameters
    ----------
    accesses
        Words that are accessed above the fanout.
    received
        Words that all children together get from above.
    linked
        Words handed on from child to child.
    """

    accesses: int
    received: int
    linked: int


class _Step(NamedTuple):
    """A kind of step: how often it is taken, and what it and the step before it bring."""

    repeats: int
    jump: Vector
    words: int
    words_before: int


def _kinds_of_steps(first: int, changes: Sequence[Change]) -> Iterator[_Step]:
    """All kinds of steps of the temporal loops, `first` words being brought by the very first.

    The innermost loop advances after the first step or after a step of a loop farther out; any
    other loop advances after a step of the innermost one.
    """
    if not changes:
        return
    innermost, *outer = changes
    advances = innermost.repeats // (1 + sum(change.repeats for change in outer))
    yield _Step(advances, innermost.jump, innermost.words, first)
    for change in outer:
        yield _Step(advances * change.repeats, innermost.jump, innermost.words, change.words)
        yield _Step(change.repeats, change.jump, change.words, innermost.words)


@lru_cache(maxsize=4096)
def share(grid: ChildGrid, first: int, advances: tuple[Change, ...], multicast: bool, links: bool) -> Sharing:
    """Count accesses and transfers at a fanout.

    In every step a child takes its new words from a neighbour that got the same words in the step
    before, and from above otherwise. A step is counted that way only if it saves accesses above.

    Parameters
    ----------
    grid
        The children.
    first
        Words that each child gets in the first step.
    advances
        What the temporal loops above bring to each child, innermost first.
    multicast
        Whether children with equal words share an access.
    links
        Whether neighbours exchange words at all.

    Returns
    -------
    Sharing
        Summed over all steps, per instance of the fanout.
    """
    nobody: frozenset[int] = frozenset()
    children = len(grid.offsets)
    plain = grid.groups(nobody, multicast)
    accesses, received, linked = first * plain, first * children, 0
    for step in _kinds_of_steps(first, advances):
        same_shape = step.words and step.words == step.words_before
        helped = grid.linked(step.jump) if links and same_shape else nobody
        groups = grid.groups(helped, multicast)
        if groups >= plain:
            helped, groups = nobody, plain
        volume = step.repeats * step.words
        accesses += volume * groups
        received += volume * (children - len(helped))
        linked += volume * len(helped)
    return Sharing(accesses, received, linked)


def _child_grid(fanout: Fanout, nest: Nest, space: Dataspace, position: int) -> ChildGrid:
    offsets: list[Vector] = [(0,) * len(space.ranks)]
    for bound, move in nest.spatial_moves(space, position):
        offsets = [
            tuple(at + index * step for at, step in zip(offset, move, strict=True))
            for index in range(bound)
            for offset in offsets
        ]
    used = {"x": 1, "y": 1}
    for loop in nest.spatial[position]:
        used[loop.axis or "x"] *= loop.bound
    return ChildGrid(tuple(offsets), max(fanout.mesh_x, used["x"]), max(fanout.mesh_y, used["y"]))


@dataclass(frozen=True, slots=True)
class LinkDelivery:
    """Delivery from the level above and from neighbours under the same fanout.

    Words from neighbours reach only children that ask for themselves. Where the children pass on
    what others ask for, the fanout's accesses keep the ratio to delivered words that links give.

    Parameters
    ----------
    rule
        Timeloop's: no other counts link transfers.
    architecture, nest
        The hardware, and the loops of a mapping.
    space
        The dataspace that is delivered.
    """

    rule: CountingRule
    architecture: Architecture
    nest: Nest
    space: Dataspace

    def received(self, position: int) -> tuple[Words, Words]:
        """Words of one instance from above and from neighbours, both averages."""
        above = position - 1
        if not isinstance(self.architecture.nodes[above], Fanout):
            return MulticastDelivery(self.rule, self.architecture, self.nest, self.space).received(position)
        sharing = self._sharing(above)
        return (
            Fraction(sharing.received, self.nest.children(above)),
            Fraction(sharing.linked, self.nest.instances(position)),
        )

    def across(self, position: int, stream: Words, for_themselves: bool) -> Words:
        """Accesses that links leave, scaled to `stream` if the children do not ask for themselves."""
        sharing = self._sharing(position)
        if for_themselves:
            return sharing.accesses
        return stream * Fraction(sharing.accesses * self.nest.children(position), sharing.received)

    def _sharing(self, position: int) -> Sharing:
        fanout = self.architecture.nodes[position]
        assert isinstance(fanout, Fanout)
        tile = extents(self.space, self.nest.bounds[position + 1])
        advances = tuple(timeloop_changes(tile, self.nest.moves_above(self.space, position)))
        if not reuses(self.architecture, self.space, position + 1):
            advances = tuple(change._replace(words=math.prod(tile)) for change in advances)
        return share(
            _child_grid(fanout, self.nest, self.space, position),
            math.prod(tile),
            advances,
            multicast=self.space.name not in fanout.no_multicast,
            links=self.space.name not in fanout.no_link_transfer,
        )
