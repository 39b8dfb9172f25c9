"""Lists of tiles and spatial choices, with the known and the pending costs of their rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.path.charges import Charge, Price, StackedPrices
from solver.search.path.counting import LeftInPlace
from solver.search.path.deliveries import Delivered
from solver.search.path.split import UNSPLIT, Split
from solver.search.path.unrolled import Known, Unrolled

Tiles = Mapping[int, IntArray]
"""Numbers of tiles by boundary, each of shape (rows, dimensions)."""

Leads = Mapping[int, LeftInPlace]
"""What the innermost loops of slots leave in place, by slot."""


class Labels(NamedTuple):
    """Leads of the slots inside but the innermost one, by row.

    Parameters
    ----------
    every
        Those that there are.
    own
        Which of them each row has, shape (rows,), or (1,) where all have the same.
    """

    every: tuple[Leads, ...]
    own: IntArray

    @classmethod
    def alike(cls, leads: Leads) -> Labels:
        """One set of leads for all rows."""
        return cls((leads,), np.zeros(1, dtype=np.int64))

    def at(self, rows: IntArray) -> Labels:
        """Those of some rows."""
        return self if len(self.own) == 1 else Labels(self.every, self.own[rows])

    def of(self, slot: int) -> set[LeftInPlace]:
        """All leads of a slot."""
        return {leads[slot] for leads in self.every}

    def have(self, slot: int, some: Collection[LeftInPlace]) -> BoolArray:
        """Which rows have one of some leads of a slot, shape (rows,) or (1,)."""
        found: BoolArray = np.array([leads[slot] in some for leads in self.every])[self.own]
        return found


@dataclass(frozen=True, eq=False)
class Listed:
    """The rows of a list; data that do not depend on prices are computed once.

    Parameters
    ----------
    tiles
        At the boundaries inside; those that are missing are as few as there may be.
    unrolled
        The spatial choices.
    labels
        Leads of the slots inside but the innermost one.
    source
        Rows that these are some of, and which.
    larger
        A dimension along which tiles at the first boundary are larger than the least ones; None for any.
    smallest
        Along which dimensions these tiles are the least ones, shape (rows, dimensions); None for any.
    """

    tiles: Tiles
    unrolled: Unrolled
    labels: Labels
    source: tuple[Listed, IntArray] | None = None
    larger: int | None = None
    smallest: BoolArray | None = None
    _known: dict[object, Any] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        """Rows."""
        return len(self.unrolled)

    def __getitem__(self, rows: IntArray) -> Listed:
        """Some of the rows."""
        if len(rows) == len(self):
            return self
        tiles = {b: own[rows] for b, own in self.tiles.items()}
        smallest = None if self.smallest is None else self.smallest[rows]
        labels = self.labels.at(rows)
        return Listed(tiles, self.unrolled[rows], labels, (self, rows), self.larger, smallest)

    def once(
        self,
        key: object,
        make: Callable[[], Known],
        at: Callable[[Known, IntArray], Known] | None = None,
    ) -> Known:
        """What `make` returns, remembered by a key; rows that these are some of may know it, `at` theirs."""
        if at is not None:
            self._taken(key, at)
        if key not in self._known:
            self._known[key] = make()
        found: Known = self._known[key]
        return found

    def _taken(self, key: object, at: Callable[[Any, IntArray], Any]) -> bool:
        """Whether something is remembered by a key, here or where these rows are from."""
        if key in self._known:
            return True
        if self.source is None or not self.source[0]._taken(key, at):
            return False
        source, rows = self.source
        self._known[key] = at(source._known[key], rows)
        return True


class Pending(NamedTuple):
    """A dataspace that is stationary at the start of a slot, so that its cost depends on tiles outside.

    Parameters
    ----------
    charge, currency
        An access that its words pay for, and in what.
    price
        Of a word, shape (rows,), or (prices, rows) where there are several; so have costs.
    words
        Of all its tiles, shape (rows,) each.
    copies
        Instances that each round of what lies outside serves, per dimension; shape (rows, dimensions).
    last
        Likewise the last round, at least.
    alike
        Instances at first, shape (rows,).
    free
        Words that cost nothing, shape (rows,).
    share
        Words asked for per word that children get, shape (rows,).
    fewest
        Rounds of what lies outside, at least, shape (rows, dimensions).
    split
        How words split up among the instances of the level that is accessed.
    """

    charge: Charge
    currency: Price | StackedPrices
    price: FloatArray
    words: Delivered
    copies: FloatArray
    last: FloatArray
    alike: FloatArray
    free: FloatArray
    share: FloatArray
    fewest: FloatArray
    split: Split = UNSPLIT

    def cost(self, irrelevant: Sequence[int], rounds: FloatArray) -> FloatArray:
        """Its cost with these rounds outside, shape (..., dimensions)."""
        return self.of_times(self.times(irrelevant, rounds))

    def times(self, irrelevant: Sequence[int], rounds: FloatArray) -> FloatArray:
        """How often all tiles are delivered with these rounds outside."""
        number: FloatArray = np.ones(rounds.shape[:-1])
        for d in irrelevant:
            number = number * ((rounds[..., d] - 1) * self.copies[..., d] + self.last[..., d])
        return number

    def of_times(self, number: FloatArray) -> FloatArray:
        """Its cost if all tiles are delivered a number of times."""
        return self.price * self.currency.paid(self.charge, self.asked(number), self.free, self.split)

    def asked(self, number: FloatArray) -> FloatArray:
        """Words of so many deliveries of all tiles, once at least each, with those that cost nothing."""
        more = np.maximum(number - self.alike, 0)
        return (self.words.begun * self.alike + self.words.again * more) * self.share

    def only(self, rows: BoolArray) -> Pending:
        """The parts with words in these rows alone."""
        if rows.all():
            return self
        return self._replace(words=Delivered(self.words.begun * rows, self.words.again * rows))

    def at(self, rows: IntArray | BoolArray) -> Pending:
        """Some of the rows."""
        words = Delivered(self.words.begun[rows], self.words.again[rows])
        return Pending(
            self.charge,
            self.currency,
            some_values(self.price, rows),
            words,
            some_rows(self.copies, rows),
            some_rows(self.last, rows),
            some_values(self.alike, rows),
            some_values(self.free, rows),
            some_values(self.share, rows),
            some_rows(self.fewest, rows),
            self.split.at(rows),
        )

    def by(self, place: int | slice, price: Price | StackedPrices) -> Pending:
        """What is due by some of several prices."""
        return self._replace(currency=price, price=self.price[place])


class Due(NamedTuple):
    """Words of an access, whatever they cost, with those that cost nothing.

    Parameters
    ----------
    closed
        Words that are known, shape (rows,), 0 where none are; None if there are none at all.
    part
        What is known of words that may stay in place up to the slot outside, without a price; None if no
        words may.
    times
        How often all their tiles are delivered if the innermost loop of that slot moves them, shape (rows,).
    moved, which
        How many words those are then, and which of these numbers belongs to each lead; the last number is of
        the fewest rounds outside.
    open
        Rows in which they stay in place, shape (rows,).
    """

    closed: FloatArray | None
    part: Pending | None = None
    times: FloatArray = np.ones(1)
    moved: tuple[FloatArray, ...] = ()
    which: Mapping[LeftInPlace, int] = {}
    open: BoolArray = np.zeros(1, dtype=np.bool_)

    def at(self, rows: IntArray) -> Due:
        """Some of the rows."""
        closed = None if self.closed is None else self.closed[rows]
        if self.part is None:
            return Due(closed)
        part, moved = self.part.at(rows), tuple(own[rows] for own in self.moved)
        return Due(closed, part, some_values(self.times, rows), moved, self.which, self.open[rows])


class MayStay(NamedTuple):
    """An access that may stay in place up to the slot outside.

    Parameters
    ----------
    part
        What is known of it.
    moved, which
        Its costs if the innermost loop of the slot outside moves it, and which of them belongs to each lead;
        the last one is that of the fewest rounds outside.
    times, open
        How often all its tiles are delivered then, and which rows it stays in; shape (rows,).
    """

    part: Pending
    moved: tuple[FloatArray, ...]
    which: Mapping[LeftInPlace, int]
    times: FloatArray
    open: BoolArray

    @property
    def once(self) -> FloatArray:
        """Its cost with the fewest rounds outside."""
        return self.moved[-1]

    def moved_by(self, lead: LeftInPlace) -> FloatArray:
        """Its cost if a loop with this lead is the innermost one of the slot outside."""
        return self.moved[self.which[lead]]

    def at(self, rows: IntArray) -> MayStay:
        """Some of the rows."""
        moved = tuple(cost[..., rows] for cost in self.moved)
        return MayStay(self.part.at(rows), moved, self.which, some_values(self.times, rows), self.open[rows])

    def by(self, place: int, price: Price) -> MayStay:
        """What is due by one of several prices."""
        moved = tuple(cost[place] for cost in self.moved)
        return self._replace(part=self.part.by(place, price), moved=moved)


class RowCosts(NamedTuple):
    """The known costs of rows, shape (rows,) or (prices, rows), and the accesses whose costs are pending."""

    spent: FloatArray
    waiting: list[MayStay]

    def at(self, rows: IntArray) -> RowCosts:
        """Some of the rows."""
        return RowCosts(self.spent[..., rows], [own.at(rows) for own in self.waiting])

    def by(self, place: int, price: Price) -> RowCosts:
        """The costs by one of several prices."""
        paid = (own for own in self.waiting if price.pays(own.part.charge))
        return RowCosts(self.spent[place], [own.by(place, price) for own in paid])


def some_values(values: FloatArray, rows: IntArray | BoolArray) -> FloatArray:
    """Values of some rows, shape (..., rows); one that stands for all stays."""
    return values if values.shape[-1] == 1 else values[..., rows]


def some_rows(values: FloatArray, rows: IntArray | BoolArray) -> FloatArray:
    """Some rows of an array of shape (rows, dimensions); a row that stands for all stays."""
    return values if len(values) == 1 else values[rows]
