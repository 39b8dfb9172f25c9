"""Bounds on assignments that anybody can check: costs moved between matrices and vectors, with prices of
room.

A cost that all values of a neighbour share may move from a matrix into a vector, and back into another
matrix; no assignment's total changes. What every vector and every matrix then costs at least is a constant
below which no assignment is (a reparametrization, or soft arc consistency). Sweeps forward and backward move
costs such that the constant rises, as in sequential tree-reweighted message passing (Kolmogorov, PAMI 2006;
without trees: PAMI 2015), but in integers.

What a sweep claims is only what it moved: `verified_bound` moves the same in the original costs, and adds up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.assignment import LARGEST_TOTAL, CostArray
from solver.assignment.capacity import Capacity
from solver.assignment.instance import Choice, Instance, Pair

Moved = Mapping[Pair, CostArray]
"""Per variable and neighbour what moved from the matrix between the two into the variable's vector, by
value."""


@dataclass(frozen=True, eq=False)
class Prices:
    """A price for each peak, in ``2 ** -BITS`` steps per unit that is occupied; none negative."""

    capacity: Capacity
    by_peak: tuple[int, ...]

    def charges(self) -> dict[int, CostArray]:
        """Return what each value of a variable pays for what it occupies."""
        sums = [0, *accumulate(self.by_peak)]
        capacity = self.capacity
        return {
            variable: usage.astype(object)
            * (sums[capacity.spans[variable][1]] - sums[capacity.spans[variable][0]])
            for variable, usage in capacity.usages.items()
        }

    @property
    def of_room(self) -> int:
        """What all room costs."""
        return sum(price * int(room) for price, room in zip(self.by_peak, self.capacity.room, strict=True))

    def by_moment(self) -> dict[int, int]:
        """Return the prices that are not zero by moments of the network."""
        pairs = zip(self.capacity.moments.tolist(), self.by_peak, strict=True)
        return {moment: price for moment, price in pairs if price}


BITS = 40


def hopeless_prices(capacity: Capacity, infinity: int) -> Prices:
    """Return prices at which the least usages alone cost `infinity`, where these do not fit."""
    tightest = int(capacity.room.argmin())
    by_peak = [0] * len(capacity.room)
    by_peak[tightest] = infinity << BITS
    return Prices(capacity, tuple(by_peak))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a bound rests on: with it, the bound can be computed once more from the costs alone."""

    bound: int  # in steps
    order: tuple[int, ...] = ()  # variables to eliminate, one after the other
    moved: Moved = field(default_factory=dict)  # between those that are left, in `scale` parts of a step
    prices: Mapping[int, int] = field(default_factory=dict)  # by moment, in ``2 ** -BITS`` of these parts
    scale: int = 1

    def renumbered(self, variables: Sequence[int]) -> Evidence:
        """Return the same where variable `i` is called ``variables[i]``."""
        moved = {(variables[i], variables[j]): costs for (i, j), costs in self.moved.items()}
        return replace(self, order=tuple(variables[own] for own in self.order), moved=moved)


def joined_evidence(order: Sequence[int], base: int, parts: Sequence[Evidence]) -> Evidence:
    """Return what bounds of parts make together, `order` and its constant `base` before them.

    Only one part has prices, as what has a price joins all parts.
    """
    assert len(parts) <= 1 or not any(part.prices or part.scale > 1 for part in parts)
    moved = {pair: costs for part in parts for pair, costs in part.moved.items()}
    later = [own for part in parts for own in part.order]
    prices = {moment: price for part in parts for moment, price in part.prices.items()}
    bound = base + sum(part.bound for part in parts)
    scale = max((part.scale for part in parts), default=1)
    return Evidence(bound, (*order, *later), moved, prices, scale)


def verified_bound(instance: Instance, moved: Moved, prices: Prices | None = None, scale: int = 1) -> int:
    """Return the least total by vectors and matrices alone after costs moved, in exact integers.

    Whatever is moved, no assignment is below the answer. Nor does anything that fits become dearer by prices:
    it pays for what it occupies, rounded down, and is given the price of all room, rounded up. `moved` and
    `prices` are in `scale` parts of a step. ValueError for what fits no matrix, and for a price below zero.
    """
    largest = instance.infinity * scale + 2 * max((_largest(costs) for costs in moved.values()), default=0)
    dtype = np.int64 if largest < 1 << 62 else object
    ends: dict[Pair, CostArray] = {}
    sums = [vector.astype(object) * scale for vector in instance.vectors]
    for (variable, other), costs in moved.items():
        pair = (min(variable, other), max(variable, other))
        if pair not in instance.matrices or costs.shape != sums[variable].shape:
            raise ValueError(f"nothing can move between {variable} and {other}")
        ends[variable, other] = costs.astype(dtype)
        sums[variable] = sums[variable] + costs.astype(object)
    total = 0
    for (i, j), matrix in instance.matrices.items():
        left: Any = matrix.astype(dtype) * scale
        if (i, j) in ends:
            left = left - ends[i, j][:, None]
        if (j, i) in ends:
            left = left - ends[j, i][None, :]
        total += int(left.min())
    if prices is None:
        total += sum(int(vector.min()) for vector in sums)
        return -(-total // scale)
    if min(prices.by_peak, default=0) < 0:
        raise ValueError("a price is negative")
    charges = {variable: costs >> BITS for variable, costs in prices.charges().items()}
    total += sum(int((vector + charges.get(variable, 0)).min()) for variable, vector in enumerate(sums))
    total -= -(-prices.of_room >> BITS)
    return -(-total // scale)


def _largest(costs: CostArray) -> int:
    return max(abs(int(costs.min())), abs(int(costs.max())))


@dataclass(eq=False)
class Sweeps:
    """An instance whose costs are moved in place, for assignments below `limit`.

    Costs of `limit` or more need not be told apart, and are cut off there after every step: the constant can
    only become lower than what `moved` proves.
    """

    instance: Instance
    limit: int
    floor: int = 0  # the constant: no assignment is below it, or the limit
    # Per variable the values that may be part of an assignment below `top`, kept while `top` is given.
    top: int | None = None
    alive: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    vectors: list[CostArray] = field(init=False)
    near: list[dict[int, CostArray]] = field(init=False)  # matrices, shared with the neighbours
    moved: dict[Pair, CostArray] = field(init=False)

    def __post_init__(self) -> None:
        """Copy what will change."""
        degrees = [len(near) for near in self.instance.neighbours()]
        dtype = np.int64 if self.limit <= largest_limit(max(degrees)) else object

        def copied(costs: CostArray) -> CostArray:
            # A limit that needs more than 64 bits is compared with Python's integers.
            exact = costs if dtype is np.int64 else costs.astype(object)
            return np.minimum(exact, self.limit).astype(dtype)

        self.vectors = list(map(copied, self.instance.vectors))
        self.near = [{} for _ in self.vectors]
        self.moved = {}
        for (i, j), matrix in self.instance.matrices.items():
            own = copied(matrix)
            self.near[i][j], self.near[j][i] = own, own.T
            self.moved[i, j] = np.zeros_like(self.vectors[i])
            self.moved[j, i] = np.zeros_like(self.vectors[j])

    @property
    def entries(self) -> int:
        """Entries that a sweep goes through, with what a call costs."""
        return sum(matrix.size + CALLS for matrix in self.instance.matrices.values())

    def sweep(self, forward: bool) -> None:
        """Gather every variable's costs, add their minimum to the constant, and pass the rest on."""
        count = len(self.vectors)
        for variable in range(count) if forward else range(count - 1, -1, -1):
            self._pass_on(variable, forward)
            if self.floor >= self.limit:
                return

    def _pass_on(self, variable: int, forward: bool) -> None:
        near, vector = self.near[variable], self.vectors[variable]
        for other, matrix in near.items():
            least = matrix.min(axis=1)
            np.subtract(matrix, least[:, None], out=matrix)
            vector = vector + least
            self.moved[variable, other] += least
        lowest = int(vector.min())
        self.floor += lowest
        vector = np.minimum(vector - lowest, self.limit)
        if self.top is not None:
            self.alive[variable] = self.alive.get(variable, True) & (vector + self.floor < self.top)
        ahead = [other for other in near if (other > variable) is forward]
        share = vector // max(1, len(ahead), len(near) - len(ahead))
        for other in ahead:
            matrix = near[other]
            np.minimum(matrix + share[:, None], self.limit, out=matrix)
            self.moved[variable, other] -= share
        self.vectors[variable] = vector - share * len(ahead)

    def decoded(self) -> Choice:
        """Return an assignment: variable after variable takes what is least with those before it."""
        choice: list[int] = []
        for variable, vector in enumerate(self.vectors):
            costs = vector
            for other, matrix in self.near[variable].items():
                costs = costs + (matrix[:, choice[other]] if other < variable else matrix.min(axis=1))
            choice.append(int(costs.argmin()))
        return tuple(choice)

    def rest(self, most: int) -> Instance:
        """Return what is left without the constant, for assignments of at most `most` in all."""
        window, infinity = most - self.floor, self.instance.infinity
        dtype = self.instance.vectors[0].dtype

        def cut(costs: CostArray) -> CostArray:
            return np.where(costs <= window, costs.astype(dtype, copy=False), infinity)

        matrices = {(i, j): cut(self.near[i][j]) for i, j in self.instance.matrices}
        return Instance(list(map(cut, self.vectors)), matrices, infinity)


def largest_limit(degree: int) -> int:
    """Return the limit up to which 64 bits hold all that a variable with so many neighbours gathers."""
    return LARGEST_TOTAL // (degree + 2)


MOST_SWEEPS = 64
"""Sweeps over an instance, before anything is searched."""

CALLS = 2000
"""Entries that could be swept in the time that the calls for one matrix take."""
