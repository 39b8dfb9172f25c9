"""Lower bounds of the checker `prove.py`, for every choice of keeping levels and spatial factors."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from prove_space import INF, CannotCheckError, Space, divisors, need, positive

MOST_CHOICES = 1 << 17
SLACK = 1e-9  # relative; the sums of doubles here err far less
KINDS = {"read": "read", "fill": "write", "update": "write"}  # the bandwidth that an action uses
Measure = tuple[int, str] | None  # a bandwidth (level, kind), counted in cycles; None is energy


def either(condition: Any, one: Any, other: Any) -> Any:
    """`one` where the condition holds, else `other`; for numbers and arrays."""
    return other + condition * (one - other)


def few_words(
    space: Space, v: int, extent: Any, stride: Any, left: Any, outer: Any, only: tuple[int, int] | None = None
) -> Any:
    """At most the words delivered into one instance, whatever the order of the temporal loops above.

    `extent` is the tile per dimension, `stride` how far a dimension advances above it, `left` the iterations
    left per dimension, `outer` their product, `only` the first loop that moves the tile: (dimension, factor).
    That loop keeps what overlaps. Later loops over the same window may come to agree with it and bring less,
    unless one dimension moves the tile farther at its least than the other one at its most.
    """
    tile = space.tile(v, extent)
    words = outer * tile
    for (d, near), (e, far) in space.windows[v]:
        if only is not None and d != only[0]:
            continue
        apart = (far * extent[e] > near * space.bounds[d]) | (far * space.bounds[e] <= near * extent[d])
        alone = apart | (left[e] == 1)
        factor = either(alone, left[d], 2) if only is None else only[1]
        new = space.fresh(v, extent, space.move(v, d, stride[d]))
        after = outer // factor
        agreeing = either(alone, 1, left[e]) * left[d] // factor
        full = after // (1 + positive(agreeing - 1))
        split = full * tile + (after - full) * new
        again = either(alone, either(factor == 2, split, after * tile), full * tile)
        words = words - (left[d] > 1) * positive(words - (outer - after) * new - again)
    return words


@cache
def lattice(bounds: tuple[int, ...]) -> tuple[Any, ...]:
    """The grid of iterations left, with an axis for every prime of every dimension.

    Returns its shape, per dimension the iterations left (broadcastable), the axes, and each value's place.
    """
    primes = [[q for q in divisors(bound) if len(divisors(q)) == 2] for bound in bounds]
    shape = [
        1 + max(e for e in range(64) if n % q**e == 0)
        for n, own in zip(bounds, primes, strict=True)
        for q in own
    ]
    left: list[Any] = []
    axes: list[list[int]] = []
    for own in primes:
        start = sum(map(len, axes))
        axes.append(list(range(start, start + len(own))))
        value = np.ones((1,) * len(shape), dtype=np.int64)
        for axis, q in zip(axes[-1], own, strict=True):
            along = [-1 if other == axis else 1 for other in range(len(shape))]
            value = value * (q ** np.arange(shape[axis])).reshape(along)
        left.append(value)
    places = [
        {int(value[i]): tuple(i[axis] for axis in axes[d]) for i in np.ndindex(value.shape)}
        for d, value in enumerate(left)
    ]
    return tuple(shape), left, axes, places


class Choices:
    """All spatial choices of a mapspace, and floors for all sets of keeping levels under each of them."""

    def __init__(self, space: Space) -> None:
        self.space = space
        found = np.ones((1, 0, len(space.dims)), dtype=np.int64)
        for p in space.fans:
            own = self._factors_of(p)
            need(len(own) * len(found) < MOST_CHOICES * 16, "too many spatial choices", CannotCheckError)
            rows = [[*row, more] for row in found for more in own]
            found = np.array(rows, dtype=np.int64).reshape(-1, found.shape[1] + 1, len(space.dims))
            found = found[(np.array(space.bounds) % found.prod(axis=1) == 0).all(axis=1)]
        self.spatial = found[found.prod(axis=(1, 2)) >= space.least_units]
        need(len(self.spatial) < MOST_CHOICES, "too many spatial choices", CannotCheckError)
        self.children = {p: self.spatial[:, i].prod(axis=1) for i, p in enumerate(space.fans)}
        self.steps = space.computes // self.spatial.prod(axis=(1, 2))
        ones = np.ones_like(self.steps)
        self.above = [
            math.prod([ones, *(self.children[q] for q in space.fans if q < p)])
            for p in range(len(space.nodes))
        ]

    def _factors_of(self, p: int) -> Any:
        """Factors per dimension that fanout `p` may have by its rules and its mesh."""
        space, node = self.space, self.space.nodes[p]
        own = np.ones((1, 0), dtype=np.int64)
        for d, bound in enumerate(space.bounds):
            allowed = [f for f in divisors(bound) if space.allows(p, d, f)]
            rows = [[*row, f] for row in own for f in allowed if math.prod(row) * f <= space.children(p)]
            own = np.array(rows, dtype=np.int64).reshape(-1, d + 1)
        size = own.prod(axis=1)
        widths = [own[:, sorted(x)].prod(axis=1) for x in space.along_x(p)]
        fits = [(width <= node["mesh_x"]) & (size // width <= node["mesh_y"]) for width in widths]
        return own[np.any(fits, axis=0)] if fits else own[:0]

    def factors(self, q: int, among: Any) -> Any:
        """Per choice, the product of the factors of fanout `q` over the dimensions `among`."""
        return self.spatial[:, self.space.fans.index(q)][:, sorted(among)].prod(axis=1)

    def split(self, v: int, q: int) -> Any:
        """At most the number of different tiles below fanout `q`: those of a window may coincide."""
        if self.space.flag(q, "no_multicast", v):
            return self.children[q]
        pairs = {(d, e) for (d, _), (e, _) in self.space.windows[v] if d < e}
        plain = self.space.relevant[v] - {d for pair in pairs for d in pair}
        sums = [self.factors(q, {d}) + self.factors(q, {e}) - 1 for d, e in pairs]
        return math.prod(sums) * self.factors(q, plain)

    def part(self, v: int, p: int) -> Any:
        """At least the words that an instance of level `p` ever holds; exact without windows and strides."""
        space = self.space
        whole = space.tile(v, space.bounds) + 0 * self.steps
        dims = [d for rank in space.ranks[v] for d, _ in rank]
        simple = all(len(rank) < 2 and all(abs(c) == 1 for _, c in rank) for rank in space.ranks[v])
        if not simple or len(set(dims)) < len(dims):
            return whole
        return whole // math.prod([self.factors(q, dims) for q in space.fans if q < p])

    @cache  # noqa: B019
    def charges(self, v: int, kept: tuple[int, ...]) -> list[tuple[Any, ...]]:
        """Per access (see `Space.accesses`): source, level, action, times, first, paying instances."""
        space, zero = self.space, 0 * self.steps
        return [
            (source, p, action, times + zero, first + zero, np.minimum(self.above[p], space.payers(p)))
            for source, p, action, times, first in space.accesses(
                v, kept, lambda q: self.split(v, q), lambda p: self.part(v, p)
            )
        ]

    @cache  # noqa: B019
    def least_tiles(self, v: int, p: int) -> int:
        """Least words of `v` that all instances of level `p` together get if nothing else is kept there.

        Every loop that does not index the dataspace counts as free, every tile that fits counts.
        """
        space = self.space
        sides = [divisors(n) if d in space.relevant[v] else [1] for d, n in enumerate(space.bounds)]
        extent = np.meshgrid(*sides, indexing="ij")
        left = [max(side) // x for side, x in zip(sides, extent, strict=True)]
        words = few_words(space, v, extent, extent, left, math.prod(left))
        return int(np.where(space.tile(v, extent) <= space.usable(p)[1], words, INF).min())

    @cache  # noqa: B019
    def floor(self, v: int, kept: tuple[int, ...], measure: Measure) -> Any:
        """Per choice, at most what dataspace `v` costs if the levels `kept` keep it."""
        space = self.space
        words: dict[int | None, Any] = {None: self.steps}
        for p in kept[1:]:
            others = set(range(len(space.dims))) - space.relevant[v]
            copies = math.prod([self.factors(q, others) for q in space.fans if q < p])
            words[p] = self.least_tiles(v, p) * copies / self.above[p]
        cost, saved = 0.0 * self.steps, 0.0 * self.steps
        for source, p, action, times, first, paying in self.charges(v, kept):
            node = space.nodes[p]
            unit = node["energy"][action] / node["block_size"] * paying
            if measure is not None:
                counts = measure[0] == p and measure[1] in ("shared", KINDS[action])
                unit = float(space.rate(v, p, measure[1])) * counts
            cost, saved = cost + unit * times * words[source], saved + unit * first
        return cost * (1 - SLACK) - saved * (1 + SLACK)

    def tiles(self, v: int, p: int) -> int:
        """Number of tiles of dataspace `v` that fit level `p` alone."""
        space = self.space
        sides = [divisors(n) if d in space.relevant[v] else [1] for d, n in enumerate(space.bounds)]
        extent = np.meshgrid(*sides, indexing="ij")
        return int((space.tile(v, extent) + 0 * extent[0] <= space.usable(p)[1]).sum())

    def operands(self, v: int, p: int) -> int:
        """Least energy by which level `p` serves the arithmetic with dataspace `v`.

        In each fanout, the largest factor of a dimension that indexes it tells so many children apart.
        """
        space, words = self.space, self.steps
        for q in space.fans:
            own = self.spatial[:, space.fans.index(q)]
            apart = (
                self.children[q]
                if space.flag(q, "no_multicast", v)
                else own[:, sorted(space.relevant[v])].max(axis=1)
            )
            words = words * (apart if q > p else 1)
        node = space.nodes[p]
        blocks = -(-words // node["block_size"]) * np.minimum(self.above[p], space.payers(p))
        return int(blocks.min()) * node["energy"]["update" if space.rw[v] else "read"]
