"""The checker's dynamic program: the least costs of all that lies outside of each point of a nest.

A point is known by the numbers of tiles that cover the dimensions there, and since which level each tile has
been in place (None: no longer). Words cost where the reuse of their tile ends. docs/certificates.md explains
why no mapping costs less.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from solver.certificate.checker.claims import MOST_ENTRIES, Array, Mask, Number, State
from solver.certificate.checker.remainders import Space

Known = dict[tuple[Any, ...], Array]  # tables by all that they depend on


class Tables(ABC):
    """Least costs at every point; the first axes of a table are the numbers of tiles of each dimension.

    Who builds on it sets `place`, where a number of tiles is along each axis, and `end`, what is left outside
    of all loops: nothing where there is a single tile.
    """

    place: Sequence[Mapping[int, int]]
    end: Array

    def __init__(self, space: Space, mask: Mask, known: Known) -> None:
        self.space, self.spaces, self.mask, self.size = space, space.spaces, mask, len(space.nodes)
        self.start: State = (None,) * len(mask)
        self.memory = {p: own for own in space.memories for p in own.places}
        self.idle = {p for own in space.memories for p in own.idle(mask)}
        sets = enumerate(mask)
        self.reused = [[p for p in kept[1:] if self.spaces[v].stays(space.at[p][v])] for v, kept in sets]
        self.known = known

    @abstractmethod
    def ends(self, v: int, since: int, p: int) -> Number:
        """Costs of the tiles of a dataspace, in place since a level, if loops of node `p` end their reuse.

        Of what is still in place outside of all loops for node -1.
        """

    @abstractmethod
    def boundary(self, p: int) -> Array:
        """Costs of leaving a level: for what it gets without reuse; infinite if its tiles do not fit."""

    @abstractmethod
    def joins(self, p: int, d: int) -> Mapping[int, Sequence[int]]:
        """The loops of node `p` over a dimension: by place, the places that they lead to."""

    def unrolled(self, p: int, table: Array) -> Array:
        """The table inside of a fanout."""
        return table

    def key(self, p: int, state: State = ()) -> tuple[Any, ...]:
        """All that tables just inside of node `p` depend on, but for what is the same for all of `known`."""
        return ()

    def once(self, key: tuple[Any, ...], count: Callable[..., Array], *arguments: Any) -> Array:
        """What `count` returns, which depends on nothing but the `key`."""
        if key in self.known:
            return self.known[key]
        found = count(*arguments)
        if len(self.known) * self.end.size > MOST_ENTRIES:
            self.known.clear()
        self.known[key] = found
        return found

    def table(self, p: int, state: State) -> Array:
        """The table inside of a node, for tiles that are in place there; outside of all for node -1."""
        return self.once(("table", p, state, self.key(p, state)), self.filled, p, state)

    def left_for(self, p: int) -> Array:
        """Costs of leaving a level, see `boundary`."""
        return self.once(("level", p, self.key(p)), self.boundary, p)

    def filled(self, p: int, state: State) -> Array:
        """A table, made from the one outside of its node."""
        if p < 0:
            left = [(v, since) for v, since in enumerate(state) if since is not None]
            return np.asarray(self.end + sum(self.ends(v, since, p) for v, since in left))
        if p in self.space.stores:
            return self.left_for(p) + self.table(p - 1, self.crossed(state, p))
        if p in self.space.fans:
            return self.unrolled(p, self.table(p - 1, state))
        return self.looped(p, state)

    def crossed(self, state: State, p: int) -> State:
        """The state outside of level `p`: what it keeps is in place from there on."""
        return tuple(
            p if c is None and p in levels else c for c, levels in zip(state, self.reused, strict=True)
        )

    def looped(self, p: int, state: State) -> Array:
        """The table inside of a node of temporal loops, by which loop ends the reuse of a tile first."""
        best, held = (
            self.table(p - 1, state).copy(),
            [v for v, since in enumerate(state) if since is not None],
        )
        moving: set[int] = set().union(*(self.spaces[v].ending for v in held))
        factors = self.space.factors[p]
        loops = [d for d in self.space.every if len(factors[d]) and factors[d][-1] > 1]
        for d in (d for d in loops if d in moving and self.joins(p, d)):
            np.minimum(best, self.due(p, state, d) + self.after(p, self.left_in_place(state, d), d), out=best)
        for d in (d for d in loops if d not in moving):
            np.minimum(best, self.spread(best, p, d), out=best)
        return best

    def due(self, p: int, state: State, d: int) -> Number:
        """Costs of the tiles whose reuse a loop of node `p` over `d` ends."""
        return sum((self.ended(v, since, p) for v, since in self.moved(state, d)), 0.0)

    def after(self, p: int, state: State, d: int) -> Array:
        """What costs at the least, at every point before a loop of node `p` over `d`, come after it."""
        key = "after", p, state, d, self.key(p, state)
        return self.once(key, lambda: self.spread(self.table(p, state), p, d))

    def moved(self, state: State, d: int) -> list[tuple[int, int]]:
        """Dataspaces with tiles in place whose reuse a loop over a dimension ends; and since when."""
        pairs = enumerate(state)
        return [(v, since) for v, since in pairs if since is not None and d in self.spaces[v].ending]

    def left_in_place(self, state: State, d: int) -> State:
        """The state after a loop over a dimension."""
        return tuple(None if d in space.ending else c for c, space in zip(state, self.spaces, strict=True))

    def ended(self, v: int, since: int, p: int) -> Array:
        """Costs of the tiles of a dataspace, in place since a level, whose reuse a loop of node `p` ends."""
        key = "ended", v, p, since, self.key(p, (*(None,) * v, since))
        return self.once(key, lambda: np.broadcast_to(self.ends(v, since, p), self.end.shape))

    def spread(self, table: Array, p: int, d: int) -> Array:
        """For every entry the least of those that a loop of node `p` over `d` leads to."""
        along, found = np.moveaxis(table, d, 0), np.full(np.moveaxis(table, d, 0).shape, inf)
        for i, lefts in self.joins(p, d).items():
            found[i] = along[lefts].min(axis=0)
        return np.moveaxis(found, 0, d)
