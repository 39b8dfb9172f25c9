"""The checker's dynamic program: the least costs of all outside of each point of a nest; and its walk.

A point is known by the numbers of tiles that cover the dimensions there, and since which level each tile has
been in place (None: no longer). Words cost where the reuse of their tile ends. The walk builds the nests that
the tables leave open. docs/certificates.md explains why no mapping costs less.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf, prod
from operator import le
from typing import Any, NamedTuple

import numpy as np

from solver.certificate.checker.claims import (
    MOST_ENTRIES,
    MOST_NESTS,
    Array,
    CannotCheckError,
    Cost,
    Mask,
    Number,
    Query,
    State,
    able,
    ceiling,
    need,
)
from solver.certificate.checker.dataspaces import divisors
from solver.certificate.checker.remainders import Space, leaving

Known = dict[tuple[Any, ...], Any]  # arrays by all that they depend on


class TooManyNestsError(CannotCheckError):
    """A walk has visited as many nests as it may."""


class Loop(NamedTuple):
    """A temporal loop of a nest: its node, dimension, and the numbers of tiles inside and outside of it."""

    p: int
    d: int
    number: int
    left: int

    @property
    def factor(self) -> int:
        """Its factor; with remainders the least one."""
        return int(ceiling(self.number, self.left))


class Point(NamedTuple):
    """A point of a nest that is built outwards."""

    p: int  # the node to come
    cell: tuple[int, ...]
    state: State
    paid: Array
    nest: tuple[Loop, ...]
    rooms: tuple[int, ...]  # what tiles farther in take of each memory with several places


class Unrolled:
    """Tiles of one choice of spatial factors, or of many as arrays; `used` has those of each fanout.

    A cell is what a point of a nest is known by, per dimension: with perfect factors the iterations that are
    left to temporal loops. With remainders it is a number of tiles, of which fanouts farther in take some.
    """

    def __init__(self, space: Space, used: Mapping[int, Sequence[Number]]) -> None:
        self.space, self.spaces, self.used, self.size = space, space.spaces, used, len(space.nodes)
        nodes, every = range(self.size + 2), space.every
        self.inside = [[prod(own[d] for q, own in used.items() if q >= p) for d in every] for p in nodes]
        self.around = [[prod(own[d] for q, own in used.items() if q < p) for d in every] for p in nodes]
        pairs = [*zip(space.bounds, self.inside[0], strict=True)]
        self.steps: Number = prod(ceiling(n, by) for n, by in pairs) * space.visits
        self.bounds = space.bounds if space.any else [n // by for n, by in pairs]

    def tiles(self, p: int, cell: Sequence[Number]) -> list[Number]:
        """Numbers of tiles just outside of node `p`, or inside if it is a fanout."""
        if self.space.any:
            return [ceiling(number, by) for number, by in zip(cell, self.inside[p + 1], strict=True)]
        return [number * by for number, by in zip(cell, self.around[p + 1], strict=True)]

    def extents(self, p: int, cell: Sequence[Number]) -> list[Number]:
        """Iterations of a tile just outside of node `p`; with remainders the fewest."""
        if self.space.any:
            parts = zip(self.space.bounds, cell, self.inside[p + 1], strict=True)
            return [np.minimum(n, by * ceiling(n, number)) for n, number, by in parts]
        parts = zip(self.bounds, cell, self.inside[p + 1], strict=True)
        return [n // number * by for n, number, by in parts]

    def largest(self, p: int, cell: Sequence[Number]) -> list[Number]:
        """The most iterations of a tile just outside of node `p`."""
        if not self.space.any:
            return self.extents(p, cell)
        pairs = zip(self.space.bounds, self.tiles(p, cell), strict=True)
        return [np.where(number > 1, (n - 1) // np.maximum(number - 1, 1), n) for n, number in pairs]


class Tables(Unrolled, ABC):
    """Least costs at every point, where keep sets and spatial factors are given.

    The first axes of a table are cells, the last one is for several costs, each of which has a limit. Who
    builds on it sets `limits` before it prepares the tables.
    """

    limits: Array
    compare: Callable[[Any, Any], bool] = staticmethod(le)

    def __init__(self, space: Space, mask: Mask, used: Mapping[int, Sequence[int]]) -> None:
        super().__init__(space, used)
        self.mask, self.start = mask, (None,) * len(mask)
        self.memory = {p: own for own in space.memories for p in own.places}
        self.idle = {p for own in space.memories for p in own.idle(mask)}
        sets = enumerate(mask)
        self.reused = [[p for p in kept[1:] if self.spaces[v].stays(space.at[p][v])] for v, kept in sets]
        self.numbers = space.numbers if space.any else [divisors(n) for n in self.bounds]
        self.place = [{number: i for i, number in enumerate(own)} for own in self.numbers]
        self.cell = np.ix_(*(np.array(own, dtype=np.int64) for own in self.numbers))
        self.known: Known = {}
        self.lefts: dict[tuple[int, int], dict[int, list[int]]] = {}

    def prepare(self) -> None:
        """Make what tables are made of."""
        outer: Number = prod(self.tiles(-1, self.cell))
        entries = outer.size * len(self.limits) * self.size * prod(len(own) + 1 for own in self.reused)
        able(entries < MOST_ENTRIES, "the tables would be too large")
        self.end = np.where(outer[..., None] == 1, 0.0, np.full(len(self.limits), inf))

    @abstractmethod
    def cost(self, v: int, asking: int, n: int) -> Array:
        """Costs at every point of what node `asking` gets of a dataspace, whose reuse ends at node `n`."""

    @abstractmethod
    def boundary(self, p: int) -> Array:
        """Costs of leaving a level: for what it gets without reuse; infinite if its tiles do not fit."""

    @abstractmethod
    def compared(self, at: Point) -> tuple[Any, Sequence[Any]]:
        """What nests have to agree in to be compared, and what one has to `compare` so as to cost no more."""

    @abstractmethod
    def settle(self, at: Point, query: Query) -> Cost | None:
        """The cost of a mapping with the loops of a whole nest that satisfies the query, None without one."""

    # ---------------------------------------------------------------------------------------- tables

    def once(self, key: tuple[Any, ...], count: Callable[..., Array], *arguments: Any) -> Array:
        """What `count` returns, which depends on nothing but the `key`."""
        if key not in self.known:
            if len(self.known) * self.end.size > MOST_ENTRIES:
                self.known.clear()
            self.known[key] = count(*arguments)
        return np.asarray(self.known[key])

    def table(self, p: int, state: State) -> Array:
        """The table inside of a node, for tiles that are in place there; outside of all for node -1."""
        return self.once(("table", p, state), self.filled, p, state)

    def left_for(self, p: int) -> Array:
        """Costs of leaving a level, see `boundary`."""
        return self.once(("level", p), self.boundary, p)

    def filled(self, p: int, state: State) -> Array:
        """A table, made from the one outside of its node."""
        if p < 0:
            left = [(v, since) for v, since in enumerate(state) if since is not None]
            return np.asarray(self.end + sum(self.ended(v, since, p) for v, since in left))
        if p in self.space.stores:
            return self.left_for(p) + self.table(p - 1, self.crossed(state, p))
        if p in self.space.fans:
            return self.unrolled(p, self.table(p - 1, state))
        return self.looped(p, state)

    def unrolled(self, p: int, table: Array) -> Array:
        """The table inside of a fanout, which has no more children than there are tiles."""
        if not self.space.any:
            return table
        pairs = zip(self.tiles(p, self.cell), self.used[p], strict=True)
        return np.where(
            np.logical_or.reduce(np.broadcast_arrays(*(n < f for n, f in pairs)))[..., None], inf, table
        )

    def crossed(self, state: State, p: int) -> State:
        """The state outside of level `p`: what it keeps is in place from there on."""
        return tuple(
            p if c is None and p in levels else c for c, levels in zip(state, self.reused, strict=True)
        )

    def looped(self, p: int, state: State) -> Array:
        """The table inside of a node of temporal loops, by which loop ends the reuse of a tile first."""
        best = self.table(p - 1, state).copy()
        held = [v for v, since in enumerate(state) if since is not None]
        moving: set[int] = set().union(*(self.spaces[v].ending for v in held))
        loops = [d for d in self.space.every if self.joins(p, d)]
        for d in (d for d in loops if d in moving):
            np.minimum(best, self.due(p, state, d) + self.after(p, self.left_in_place(state, d), d), out=best)
        for d in (d for d in loops if d not in moving):
            np.minimum(best, self.spread(best, p, d), out=best)
        return best

    def due(self, p: int, state: State, d: int) -> Number:
        """Costs of the tiles whose reuse a loop of node `p` over `d` ends."""
        return sum((self.ended(v, since, p) for v, since in self.moved(state, d)), 0.0)

    def after(self, p: int, state: State, d: int) -> Array:
        """What costs at the least, at every point before a loop of node `p` over `d`, come after it."""
        return self.once(("after", p, state, d), lambda: self.spread(self.table(p, state), p, d))

    def moved(self, state: State, d: int) -> list[tuple[int, int]]:
        """Dataspaces with tiles in place whose reuse a loop over a dimension ends; and since when."""
        pairs = enumerate(state)
        return [(v, since) for v, since in pairs if since is not None and d in self.spaces[v].ending]

    def left_in_place(self, state: State, d: int) -> State:
        """The state after a loop over a dimension."""
        return tuple(None if d in space.ending else c for c, space in zip(state, self.spaces, strict=True))

    def ended(self, v: int, since: int, p: int) -> Array:
        """Costs of the tiles of a dataspace, in place since a level, if loops of node `p` end their reuse.

        Of what is still in place outside of all loops for node -1.
        """
        levels = [c for c in self.reused[v] if p < c <= since]
        return self.once(("ended", v, levels[0], levels[-1], p), self.sum_of, v, levels, p)

    def sum_of(self, v: int, levels: Iterable[int], p: int) -> Array:
        """Costs of tiles at several levels, whose reuse ends at node `p`."""
        return np.broadcast_to(sum(self.cost(v, c, p) for c in levels), self.end.shape)

    def spread(self, table: Array, p: int, d: int) -> Array:
        """For every entry the least of those that a loop of node `p` over `d` leads to."""
        along, found = np.moveaxis(table, d, 0), np.full(np.moveaxis(table, d, 0).shape, inf)
        for i, lefts in self.joins(p, d).items():
            found[i] = along[lefts].min(axis=0)
        return np.moveaxis(found, 0, d)

    def number(self, p: int, d: int, cell: int) -> int:
        """What loops of node `p` over a dimension split, at a cell of it."""
        return int(ceiling(cell, self.inside[p + 1][d])) if self.space.any else cell

    def leaves(self, p: int, d: int, number: int) -> Iterable[int]:
        """What loops of node `p` over a dimension, with factors above 1, leave of a number."""
        factors = self.space.factors[p][d]
        if self.space.any:
            return leaving(number, factors)
        return [number // f for f in factors if number % f == 0 < f - 1]

    def joins(self, p: int, d: int) -> dict[int, list[int]]:
        """The loops of node `p` over a dimension: by place of a cell, the places that they lead to."""
        if (p, d) not in self.lefts:
            numbers = [self.number(p, d, cell) for cell in self.numbers[d]]
            place = {number: i for i, number in reversed([*enumerate(numbers)])}
            every = ((i, [place[left] for left in self.leaves(p, d, own)]) for i, own in enumerate(numbers))
            self.lefts[p, d] = {i: own for i, own in every if own}
        return self.lefts[p, d]

    def spot(self, cell: Sequence[int]) -> tuple[int, ...]:
        """The place of a cell in tables."""
        return tuple(places[number] for places, number in zip(self.place, cell, strict=True))

    def to_go(self, at: Point) -> Array:
        """The least costs outside of a point."""
        return np.asarray(self.table(at.p, at.state)[self.spot(at.cell)])

    @property
    def origin(self) -> Point:
        """The point inside of all temporal loops."""
        return Point(
            self.size - 1,
            (*self.bounds,),
            self.start,
            np.zeros(len(self.limits)),
            (),
            (0,) * len(self.space.memories),
        )

    @property
    def open(self) -> bool:
        """Whether the tables leave a nest within the limits."""
        return bool((self.to_go(self.origin) < self.limits).all())

    # ------------------------------------------------------------------------------------------ walk

    def search(self, query: Query, budget: int | None = None) -> Cost | None:
        """The cost of a mapping that satisfies the query, None if none does, of all nests within the limits.

        Of nests that are alike only those go on that no other undercuts.
        """
        seen: dict[Any, list[Sequence[Any]]] = {}
        budget, stack = budget or MOST_NESTS, [self.origin]
        while stack:
            at = stack.pop()
            if (at.paid + self.to_go(at) >= self.limits).any():
                continue
            budget -= 1
            need(budget, "the bounds leave too many loop nests open", TooManyNestsError)
            found = self.settle(at, query) if at.p < 0 else None
            if found:
                return found
            stack += () if at.p < 0 or self.undercut(at, seen) else self.grown(at)
        return None

    def undercut(self, at: Point, seen: dict[Any, list[Sequence[Any]]]) -> bool:
        """Whether a nest `seen` before costs no more, however both go on; else this one counts as seen."""
        key, own = self.compared(at)
        known = seen.setdefault(key, [])
        if any(all(map(self.compare, other, own)) for other in known):
            return True
        known.append(own)
        return False

    def grown(self, at: Point) -> Iterator[Point]:
        """Yield the points that may come next: at the next node, or after one more loop of this one."""
        p, factors = at.p, self.space.factors[at.p]
        if p in self.space.stores:
            if (rooms := self.taken(at)) is not None:
                paid, state = at.paid + self.left_for(p)[self.spot(at.cell)], self.crossed(at.state, p)
                yield at._replace(p=p - 1, state=state, paid=paid, rooms=rooms)
            return
        here = {loop.d for loop in at.nest if loop.p == p}
        if p in self.space.fans or all(d in here or 1 in factors[d] for d in self.space.every):
            yield at._replace(p=p - 1)
        if p in self.space.fans or p in self.idle:
            return
        for d in (d for d in self.space.every if d not in here):
            moved, state = self.moved(at.state, d), self.left_in_place(at.state, d)
            spot = self.spot(at.cell)
            lefts = self.joins(p, d).get(spot[d], ())
            paid = at.paid + sum(self.ended(v, since, p)[spot] for v, since in moved) if lefts else at.paid
            for left in (self.numbers[d][i] for i in lefts):
                loop = Loop(p, d, self.number(p, d, at.cell[d]), self.number(p, d, left))
                cell = (*at.cell[:d], left, *at.cell[d + 1 :])
                yield Point(p, cell, state, paid, (*at.nest, loop), at.rooms)

    def taken(self, at: Point) -> tuple[int, ...] | None:
        """Room that tiles take of memories with several places up to the level to come; None: too much."""
        return at.rooms

    def loops(self, at: Point) -> list[dict[int, int]]:
        """The loops of a nest by node, innermost first, and spatial ones; with remainders the shortest."""
        found: list[dict[int, int]] = [{} for _ in range(self.size)]
        for p, own in self.used.items():
            found[p] = {d: n for d, n in enumerate(own) if n > 1}
        for loop in at.nest:
            found[loop.p][loop.d] = loop.factor
        return found
