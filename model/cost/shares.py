"""One dimension with remainders: the share of every instance, and how its tile changes from step to step.

An instance has its spatial digits fixed. The iterations that these leave to it, without the digits, are
again the first so many of a dimension: its share, which it executes with the temporal loops alone. So
whatever one instance sees of a dimension follows from one number and the factors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from model.extents import tiles_of


class Share(NamedTuple):
    """Instances with equally many iterations of a dimension, at least 1."""

    iterations: int
    instances: int


class RowLoop(NamedTuple):
    """A loop over the dimension.

    Parameters
    ----------
    place
        Of a temporal loop: its number among all of them, innermost first. Of a spatial one: its fanout's
        position.
    bound, stride
        Its factor, and the product of the factors of all loops over the dimension farther in.
    """

    place: int
    bound: int
    stride: int


class Turn(NamedTuple):
    """A step of the tile along the dimension.

    Parameters
    ----------
    shift
        By how much its start moves.
    before, after
        Its extents.
    anew
        Whether it comes whole, although the tile before may share words with it.
    """

    shift: int
    before: int
    after: int
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of one instance's tile at one kind of step, by round of the loops farther out.

    Parameters
    ----------
    rounds
        The loops farther out are in one of so many rounds when it happens.
    regular, last
        The turn in all rounds but the last one, and in that.
    period
        If above 1, rounds that are multiples of it have no turn: the loop is in its first iteration.
    """

    rounds: int
    regular: Turn
    last: Turn
    period: int = 1

    def times(self, start: int, stop: int) -> int:
        """Number of rounds from `start` to before `stop` that have a turn."""
        if self.period == 1:
            return stop - start
        return stop - start - (tiles_of(stop, self.period) - tiles_of(start, self.period))

    def at(self, number: int) -> Turn | None:
        """The turn in a round that has one; None where the instance has nothing to do."""
        if number >= self.rounds:
            return None
        return self.last if number == self.rounds - 1 else self.regular

    def counted(self) -> list[tuple[int, Turn]]:
        """The different turns, and how often each happens."""
        pairs = (
            (self.times(0, self.rounds - 1), self.regular),
            (self.times(self.rounds - 1, self.rounds), self.last),
        )
        return [(times, turn) for times, turn in pairs if times]


@dataclass(frozen=True, slots=True)
class LoopsAbove:
    """The loops over one dimension above a node.

    Parameters
    ----------
    extent
        Iterations of a full tile of the node.
    temporal
        Innermost first.
    spatial
        Outermost first.
    """

    extent: int
    temporal: tuple[RowLoop, ...]
    spatial: tuple[RowLoop, ...]

    def starting(self, iterations: int) -> Turns:
        """The very first step of an instance with so many iterations."""
        extent = min(self.extent, iterations)
        turn = Turn(0, extent, extent, anew=True)
        return Turns(1, turn, turn)

    def every(self, iterations: int) -> Turns:
        """All steps of the loops, each bringing a whole tile."""
        tiles = tiles_of(iterations, self.extent)
        whole, last = (Turn(0, own, own, anew=True) for own in (self.extent, self._last_extent(iterations)))
        return Turns(tiles, whole, last)

    def advancing(self, iterations: int, place: int) -> Turns:
        """The steps in which the temporal loop number `place` advances, be it over this dimension or not.

        All loops farther in go from their last iteration back to their first. If one of them has had a single
        iteration, it moves the tile all the same: what comes next comes whole.
        """
        inside = [loop for loop in self.temporal if loop.place < place]
        own = next((loop for loop in self.temporal if loop.place == place), None)
        period = 1
        for loop in inside:
            period *= loop.bound
        tiles = tiles_of(iterations, self.extent)
        rounds = tiles_of(tiles, period)
        last_tile = tiles - (rounds - 1) * period
        short = self._last_extent(iterations)
        after = short if last_tile == 1 else self.extent
        back = -_position(period - 1, inside)
        if own is not None:
            shift = own.stride + back
            regular, last = (Turn(shift, self.extent, extent) for extent in (self.extent, after))
            return Turns(rounds, regular, last, own.bound)
        regular = Turn(back, self.extent, self.extent)
        anew = _any_at_first(last_tile - 1, inside)
        return Turns(rounds, regular, Turn(-_position(last_tile - 1, inside), short, after, anew))

    def _last_extent(self, iterations: int) -> int:
        return 1 + (iterations - 1) % self.extent


def _position(number: int, loops: Iterable[RowLoop]) -> int:
    """How far the tile is from its start in iteration `number` of loops, innermost first."""
    position = 0
    for loop in loops:
        number, digit = divmod(number, loop.bound)
        position += digit * loop.stride
    return position


def _any_at_first(number: int, loops: Iterable[RowLoop]) -> bool:
    """Whether one of these loops, innermost first, is in its first iteration in their iteration `number`."""
    for loop in loops:
        number, digit = divmod(number, loop.bound)
        if not digit:
            return True
    return False


def deal(shares: Iterable[Share], loops: Iterable[RowLoop]) -> tuple[Share, ...]:
    """Deal shares out to the children of spatial loops, outermost first; the largest share comes first.

    Those without any iterations are not in use.
    """
    dealt = tuple(shares)
    for loop in loops:
        found: dict[int, int] = {}
        for own, instances in (part for share in dealt for part in _shares_of_children(share, loop)):
            found[own] = found.get(own, 0) + instances
        dealt = tuple(Share(*item) for item in sorted(found.items(), reverse=True))
    return dealt


def first(shares: Iterable[Share], loops: Sequence[RowLoop]) -> tuple[Share, ...]:
    """The shares of the first children of spatial loops, outermost first: no others have more to do."""
    return tuple(
        Share(reduce(lambda left, loop: share_of(left, loop, 0), loops, iterations), instances)
        for iterations, instances in shares
    )


def _shares_of_children(share: Share, loop: RowLoop) -> Iterator[Share]:
    """Yield the different shares of a loop's children."""
    full = share.iterations % (loop.bound * loop.stride) // loop.stride
    for child, times in ((0, full), (full, 1), (loop.bound - 1, loop.bound - full - 1)):
        own = share_of(share.iterations, loop, child)
        if own and times:
            yield Share(own, times * share.instances)


def share_of(iterations: int, loop: RowLoop, child: int) -> int:
    """Iterations of a spatial loop's child: whole tiles of all rounds, and what the last round leaves."""
    rounds, rest = divmod(iterations, loop.bound * loop.stride)
    return rounds * loop.stride + min(max(rest - child * loop.stride, 0), loop.stride)
