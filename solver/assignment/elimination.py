"""Elimination of variables: along paths, by reductions, in buckets; and the way back to the best choices.

Chains are shortest paths through the layered graph of methods, by dynamic programming in O(N K^2).

Reductions of partitioned Boolean quadratic problems solve series-parallel graphs exactly, in O(N K^3): R0
drops a variable without neighbours, RI folds one with a single neighbour into that neighbour's vector, RII
folds one with two neighbours into the matrix between them. A matrix that is the sum of a row cost and a
column cost couples nothing: it is split into the vectors (Scholz and Eckstein, LCTES 2002, call this
normalisation).

Bucket elimination is the general form (Dechter, Artificial Intelligence 113, 1999): a variable is folded into
a table over all of its neighbours. Time and memory are exponential in the width of the order alone, so long
networks of narrow blocks take no longer than their blocks.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

import numpy as np

from model.assignment import CostArray
from solver.assignment.instance import Instance, Pair

Scope = tuple[int, ...]
"""Variables, as the axes of a table."""


@dataclass(frozen=True, eq=False)
class Elimination:
    """A variable that left the problem, with what it cost at that moment."""

    variable: int
    # Per value the cost that depends on it alone, with the best choice of all that was folded into it before,
    # shape (values,).
    vector: CostArray
    # The neighbours that were left, each set with its table of shape (values, values of each).
    links: tuple[tuple[Scope, CostArray], ...]

    @property
    def neighbours(self) -> Scope:
        """The variables that it was folded into."""
        if len(self.links) == 1:
            return self.links[0][0]
        return tuple(dict.fromkeys(other for scope, _ in self.links for other in scope))

    @property
    def entries(self) -> int:
        """Entries of the table over its own values and those of all neighbours."""
        sizes = {
            other: size
            for scope, table in self.links
            for other, size in zip(scope, table.shape[1:], strict=True)
        }
        return int(len(self.vector) * math.prod(sizes.values()))

    def costs(self, choice: Sequence[int], infinity: int) -> CostArray:
        """Return the cost of each value when the neighbours are chosen."""
        costs = self.vector
        for scope, table in self.links:
            place: tuple[Any, ...] = (slice(None), *(choice[other] for other in scope))
            costs = np.minimum(costs + table[place], infinity)
        return costs


@dataclass(frozen=True)
class Departure:
    """The cheapest way to leave the best assignment at one of the eliminated variables."""

    position: int  # place of the variable in the order of elimination
    value: int  # what it takes instead of its best value
    margin: int  # how much more that costs


def restore(eliminations: Sequence[Elimination], choice: list[int], infinity: int) -> Departure | None:
    """Complete `choice` by the best value of every eliminated variable, last eliminated first."""
    best: Departure | None = None
    for position in range(len(eliminations) - 1, -1, -1):
        elimination = eliminations[position]
        costs = elimination.costs(choice, infinity)
        value = int(costs.argmin())
        choice[elimination.variable] = value
        if len(costs) == 1:
            continue
        others = costs.copy()
        others[value] = infinity
        second = int(others.argmin())
        if others[second] >= infinity:
            continue
        margin = int(others[second]) - int(costs[value])
        if best is None or margin < best.margin:
            best = Departure(position, second, margin)
    return best


def depart(
    eliminations: Sequence[Elimination], choice: Sequence[int], departure: Departure, infinity: int
) -> list[int]:
    """Return the assignment that leaves `choice` at the departure and is best from there on."""
    other = list(choice)
    changed = {eliminations[departure.position].variable}
    other[eliminations[departure.position].variable] = departure.value
    for elimination in reversed(eliminations[: departure.position]):
        # What depends on nothing that changed keeps its value.
        if changed.isdisjoint(elimination.neighbours):
            continue
        other[elimination.variable] = value = int(elimination.costs(other, infinity).argmin())
        if value != choice[elimination.variable]:
            changed.add(elimination.variable)
    return other


def least_total(eliminations: Sequence[Elimination]) -> int:
    """Return what the variables without neighbours add up to, each at its best."""
    return sum(int(np.min(elimination.vector)) for elimination in eliminations if not elimination.links)


def find_paths(instance: Instance) -> list[list[int]] | None:
    """Return the variables along every path of the graph, or None where it is no set of paths."""
    neighbours = instance.neighbours()
    if any(len(near) > 2 for near in neighbours):
        return None
    seen: set[int] = set()
    paths = []
    for start, near in enumerate(neighbours):
        if len(near) < 2 and start not in seen:
            path = list(_walk(start, neighbours))
            seen.update(path)
            paths.append(path)
    return paths if len(seen) == len(neighbours) else None


def _walk(start: int, neighbours: list[list[int]]) -> Iterator[int]:
    before, here = -1, start
    while True:
        yield here
        onward = [other for other in neighbours[here] if other != before]
        if not onward:
            return
        before, here = here, onward[0]


def relax_path(instance: Instance, path: list[int]) -> Iterator[Elimination]:
    """Yield the layers of a path, source first, with each method's least cost of a path that ends with it."""
    vectors = [instance.vectors[variable] for variable in path]
    matrices = [
        instance.matrices[here, onward] if here < onward else instance.matrices[onward, here].T
        for here, onward in pairwise(path)
    ]
    distances = _distances(vectors, matrices, instance.infinity)
    for here, onward, reached, matrix in zip(path[:-1], path[1:], distances[:-1], matrices, strict=True):
        yield Elimination(here, reached, (((onward,), matrix),))
    yield Elimination(path[-1], distances[-1], ())


def _distances(
    vectors: Sequence[CostArray], matrices: Sequence[CostArray], infinity: int
) -> Sequence[CostArray]:
    """Return per layer of a path each method's least cost of a path that ends with it."""
    size = len(vectors[0])
    is_even = size <= MOST_ABREAST and all(len(vector) == size for vector in vectors)
    if is_even and len(matrices) >= LEAST_ABREAST and vectors[0].dtype != object:
        return _abreast(np.stack(vectors), np.stack(matrices), infinity)
    distances = [vectors[0]]
    for vector, matrix in zip(vectors[1:], matrices, strict=True):
        reached = (distances[-1][:, None] + matrix).min(axis=0)
        distances.append(np.minimum(reached + vector, infinity))
    return distances


MOST_ABREAST, LEAST_ABREAST = 16, 2000
"""Methods up to which, and layers from which on, parts of a path are gone through abreast."""


def _abreast(vectors: CostArray, matrices: CostArray, infinity: int) -> Sequence[CostArray]:
    """Return the same for layers of as many methods, parts of the path abreast.

    Each part is gone through from each method before it, and what that costs is joined one part after the
    other. Then all parts are gone through again, from what reaches them.
    """
    size, count = len(vectors[0]), len(matrices)
    length = max(1, math.isqrt(count // size))
    parts = count // length
    steps = matrices[: parts * length].reshape(parts, length, size, size)
    through = np.where(np.eye(size, dtype=bool), 0, infinity)[None].repeat(parts, axis=0)
    own = vectors[1 : parts * length + 1].reshape(parts, length, size)
    for step in range(length):
        reached = through[:, :, 0, None] + steps[:, step, None, 0]
        for method in range(1, size):
            np.minimum(reached, through[:, :, method, None] + steps[:, step, None, method], out=reached)
        through = np.minimum(reached + own[:, step, None], infinity)
    starts = [vectors[0]]
    for part in through[:-1]:
        starts.append(np.minimum((starts[-1][:, None] + part).min(axis=0), infinity))
    distances = np.empty_like(vectors)
    here = np.stack(starts)
    inner = distances[1 : parts * length + 1].reshape(parts, length, size)
    for step in range(length):
        here = np.minimum((here[:, :, None] + steps[:, step]).min(axis=1) + own[:, step], infinity)
        inner[:, step] = here
    distances[0] = vectors[0]
    for place in range(parts * length, count):
        reached = (distances[place][:, None] + matrices[place]).min(axis=0)
        distances[place + 1] = np.minimum(reached + vectors[place + 1], infinity)
    return list(distances)


MOST_ENTRIES = 1 << 24
"""Entries of all tables of one elimination together: about a second."""


def plan_order(sizes: Mapping[int, int], near: Mapping[int, Set[int]], most_entries: int) -> list[int] | None:
    """Return an order of elimination; the variable with the smallest table goes first."""
    linked = {variable: set(others) for variable, others in near.items()}

    def entries(variable: int) -> int:
        return sizes[variable] * math.prod(sizes[other] for other in linked[variable])

    waiting = [(entries(variable), variable) for variable in linked]
    heapq.heapify(waiting)
    order = []
    while waiting:
        count, variable = heapq.heappop(waiting)
        if variable not in linked or count != entries(variable):
            continue
        most_entries -= count
        if most_entries < 0:
            return None
        order.append(variable)
        scope = linked.pop(variable)
        for other in scope:
            linked[other] |= scope
            linked[other] -= {variable, other}
            heapq.heappush(waiting, (entries(other), other))
    return order


def eliminate(instance: Instance, order: Sequence[int]) -> Iterator[Elimination]:
    """Yield the variables of `order` as they leave; no other variable is linked to them."""
    rank = {variable: place for place, variable in enumerate(order)}
    vectors = {variable: instance.vectors[variable] for variable in order}
    buckets: dict[int, dict[Scope, CostArray]] = {variable: {} for variable in order}
    for (i, j), matrix in instance.matrices.items():
        if i in rank:
            first, second, table = (i, j, matrix) if rank[i] < rank[j] else (j, i, matrix.T)
            buckets[first][second,] = table
    for variable in order:
        links = tuple(buckets.pop(variable).items())
        yield Elimination(variable, vectors[variable], links)
        scope = tuple(sorted({other for own, _ in links for other in own}, key=rank.__getitem__))
        if not scope:
            continue
        folded = _joined(vectors[variable], links, scope, instance.infinity).min(axis=0)
        first, rest = scope[0], scope[1:]
        present = buckets[first].get(rest, 0) if rest else vectors[first]
        total: CostArray = np.minimum(folded + present, instance.infinity)
        if rest:
            buckets[first][rest] = total
        else:
            vectors[first] = total


def _joined(
    vector: CostArray, links: Sequence[tuple[Scope, CostArray]], scope: Scope, infinity: int
) -> CostArray:
    """Return the sum of a vector and all tables, over the values and all of `scope`."""
    joined = vector.reshape(-1, *(1 for _ in scope))
    for neighbours, table in links:
        sizes = dict(zip(neighbours, table.shape[1:], strict=True))
        aligned = table.reshape(len(vector), *(sizes.get(other, 1) for other in scope))
        joined = np.minimum(joined + aligned, infinity)
    return joined


LARGEST_BLOCK = 1 << 24
"""Entries that are added up at a time, so that layers of a thousand methods fit into memory."""


@dataclass(frozen=True, eq=False)
class Reduced:
    """What reductions made of an instance."""

    eliminations: list[Elimination]  # the variables that left, in order
    splits: list[Pair]  # pairs whose matrix was split into the vectors
    kernels: list[list[int]]  # connected rests that are too wide to eliminate: the variables of each
    instance: Instance  # vectors and matrices of the rest, in the original numbers


def reduce_instance(
    instance: Instance, most_entries: int = MOST_ENTRIES, kept: Set[int] = frozenset()
) -> Reduced:
    """Apply reductions until none applies, then bucket elimination to rests of little width.

    Variables in `kept` stay; the rest then is one kernel, as something else joins them.
    """
    work = Reduction(instance, kept)
    work.run()
    matrices = {(i, j): matrix for i, near in enumerate(work.near) for j, matrix in near.items() if i < j}
    rest = Instance(work.vectors, matrices, instance.infinity)
    kernels: list[list[int]] = []
    narrow: list[int] = []
    if kept:
        return Reduced(work.eliminations, work.splits, [sorted(chain(*work.kernels()))], rest)
    for kernel in work.kernels():
        sizes = {variable: rest.vectors[variable].size for variable in kernel}
        order = plan_order(sizes, {variable: work.near[variable].keys() for variable in kernel}, most_entries)
        if order is None:
            kernels.append(kernel)
        else:
            narrow += order
    work.eliminations += eliminate(rest, narrow)
    return Reduced(work.eliminations, work.splits, kernels, rest)


@dataclass
class Reduction:
    """An instance while its variables leave it."""

    instance: Instance
    kept: Set[int]
    vectors: list[CostArray] = field(init=False)
    near: list[dict[int, CostArray]] = field(init=False)
    eliminations: list[Elimination] = field(default_factory=list)
    splits: list[Pair] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.vectors = list(self.instance.vectors)
        self.near = [{} for _ in self.vectors]
        for (i, j), matrix in self.instance.matrices.items():
            self._join(i, j, matrix)
        self._gone = [False] * len(self.vectors)
        self._waiting: dict[int, list[int]] = {0: [], 1: [], 2: []}
        for variable in range(len(self.vectors)):
            self._offer(variable)

    def run(self) -> None:
        """Eliminate as long as a variable has two neighbours at most; those with fewer go first."""
        while (variable := self._next()) is not None:
            links = tuple(self.near[variable].items())
            scoped = tuple(((neighbour,), matrix) for neighbour, matrix in links)
            self.eliminations.append(Elimination(variable, self.vectors[variable], scoped))
            self._gone[variable] = True
            for neighbour, _ in links:
                del self.near[neighbour][variable]
            if len(links) == 1:
                self._fold_into_vector(variable, *links[0])
            elif len(links) == 2:
                self._fold_into_matrix(variable, *links)
            for neighbour, _ in links:
                self._offer(neighbour)

    def hold(self, variable: int, value: int) -> None:
        """Let a variable have one value alone, and leave."""
        alone = np.full_like(self.vectors[variable], self.instance.infinity)
        alone[value] = self.vectors[variable][value]
        self.eliminations.append(Elimination(variable, alone, ()))
        self._gone[variable] = True
        links, self.near[variable] = self.near[variable], {}
        for neighbour, matrix in links.items():
            del self.near[neighbour][variable]
            self._add(neighbour, matrix[value])
            self._offer(neighbour)

    def is_left(self, variable: int) -> bool:
        """Whether a variable has not left yet."""
        return not self._gone[variable]

    def least_beside(self, variable: int) -> int:
        """Return the value that costs least with what each neighbour alone would take."""
        costs = self.vectors[variable]
        for other, matrix in self.near[variable].items():
            costs = costs + (matrix + self.vectors[other]).min(axis=1)
        return int(costs.argmin())

    def kernels(self) -> list[list[int]]:
        """Return the connected components of what is left."""
        seen = set(np.flatnonzero(self._gone).tolist())
        kernels = []
        for start in range(len(self.vectors)):
            if start in seen:
                continue
            seen.add(start)
            component = [start]
            for variable in component:
                fresh = [other for other in self.near[variable] if other not in seen]
                seen.update(fresh)
                component += fresh
            kernels.append(sorted(component))
        return kernels

    def _offer(self, variable: int) -> None:
        degree = len(self.near[variable])
        if degree <= 2 and variable not in self.kept:
            self._waiting[degree].append(variable)

    def _next(self) -> int | None:
        for degree, variable in self._offers():
            if not self._gone[variable] and len(self.near[variable]) == degree:
                return variable
        return None

    def _offers(self) -> Iterator[tuple[int, int]]:
        """Take out what was offered, with its degree of then; it may have changed since."""
        for degree, waiting in self._waiting.items():
            while waiting:
                yield degree, waiting.pop()

    def _fold_into_vector(self, variable: int, neighbour: int, matrix: CostArray) -> None:
        self._add(neighbour, (self.vectors[variable][:, None] + matrix).min(axis=0))

    def _fold_into_matrix(
        self, variable: int, first: tuple[int, CostArray], second: tuple[int, CostArray]
    ) -> None:
        (i, rows), (j, columns) = first, second
        through = self.vectors[variable][:, None] + rows
        size = max(1, LARGEST_BLOCK // columns.size)
        blocks = [through[:, start : start + size] for start in range(0, through.shape[1], size)]
        folded = np.concatenate([(block[:, :, None] + columns[:, None, :]).min(axis=0) for block in blocks])
        present = self.near[i].get(j)
        if present is not None:
            folded = folded + present
        self._join(i, j, np.minimum(folded, self.instance.infinity))

    def _add(self, variable: int, costs: CostArray) -> None:
        self.vectors[variable] = np.minimum(self.vectors[variable] + costs, self.instance.infinity)

    def _join(self, i: int, j: int, matrix: CostArray) -> None:
        """Let a matrix stand between two variables, or split it into their vectors."""
        parts = split_matrix(matrix, self.instance.infinity)
        if parts is None:
            self.near[i][j] = matrix
            self.near[j][i] = matrix.T
            return
        self.near[i].pop(j, None)
        self.near[j].pop(i, None)
        self.splits.append((min(i, j), max(i, j)))
        self._add(i, parts[0])
        self._add(j, parts[1])


def split_matrix(matrix: CostArray, infinity: int) -> tuple[CostArray, CostArray] | None:
    """Return row and column costs that add up to `matrix`, none negative; None where there are none."""
    if matrix.shape[0] == 1:
        return np.zeros_like(matrix[:, 0]), matrix[0]
    if matrix.shape[1] == 1:
        return matrix[:, 0], np.zeros_like(matrix[0])
    if matrix.max() >= infinity:
        return None
    columns = matrix.min(axis=0)
    rows = matrix[:, 0] - columns[0]
    if (rows[:, None] + columns == matrix).all():
        return rows, columns
    return None
