"""Checks assignments: the claimed one costs what it says, and none that is allowed and fits costs less.

All costs are whole numbers. Four steps raise no assignment's total: values pay for what they occupy at priced
moments, rounded down, and all are given the price of the limit, rounded up; a matrix that is the sum of a row
and a column moves into the vectors; a variable is replaced by the least cost over its values, for all values
of those that share a table with it; and costs move from a matrix into a vector. What every vector and every
matrix that is left costs at least then adds up to the bound.
"""

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from solver.certificate.checker.claims import MOST_NUMBERS, Array, Json, able, natural, need

FORMAT = "tilewright certificate assignment 1"
KEYS = {
    *["format", "versions", "seed", "command", "digest", "problem", "problem_sha256", "status", "choice"],
    *["total", "bound", "order", "moved", "prices", "scale"],
}
STATUSES = "OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNKNOWN"
FORBIDDEN, BITS, NARROW = -1, 40, 1 << 61  # prices are in 2^-40; below 2^61, 64 bits hold what is added

Scope = tuple[int, ...]


class Costs:
    """Layers with their costs, and tables of costs between them, in `scale` parts of a step."""

    def __init__(self, problem: Json, scale: int) -> None:
        layers, edges = problem["layers"], problem["edges"]
        need(layers and all(layers), "every layer has a method")
        need(
            all(0 <= i < len(layers) and 0 <= j < len(layers) and i != j for i, j, _ in edges),
            "edges join two layers",
        )
        need(
            all(
                len(rows) == len(layers[i]) and {len(row) for row in rows} == {len(layers[j])}
                for i, j, rows in edges
            ),
            "edges have a cost for each pair of methods",
        )
        numbers = [*layers, *(row for *_, rows in edges for row in rows)]
        need(
            all(type(own) is int and own >= FORBIDDEN for row in numbers for own in row),
            "costs are whole numbers, or -1 where a choice is forbidden",
        )
        tables = [*([own] for own in layers), *(rows for *_, rows in edges)]
        # More than any assignment costs that takes nothing forbidden; sums are cut off there.
        self.infinity = scale * (1 + sum(max(0, *map(max, rows)) for rows in tables))
        self.dtype: type = np.int64 if self.infinity < NARROW // 4 else object
        self.constant = 0
        self.scale = scale
        self.vectors: list[Array] = [self._array([own])[0].astype(object) for own in layers]
        self.tables: list[dict[Scope, Array]] = [{} for _ in layers]
        joined: dict[tuple[int, int], Array] = {}
        for i, j, rows in edges:
            pair, table = (min(i, j), max(i, j)), self._array(rows)
            table = table if i < j else table.T
            joined[pair] = self._cut(joined[pair] + table) if pair in joined else table
        for pair, table in joined.items():
            self._join(pair, table)

    def _array(self, rows: list[list[int]]) -> Array:
        exact = [[self.infinity if own == FORBIDDEN else own * self.scale for own in row] for row in rows]
        return np.array(exact, dtype=self.dtype)

    def _cut(self, costs: Array) -> Array:
        cut: Array = np.minimum(costs, self.infinity)
        return cut

    def add(self, variable: int, costs: Array) -> None:
        """Let the values of a variable cost more; prices may exceed what is cut off elsewhere."""
        self.vectors[variable] = self.vectors[variable] + costs

    def _join(self, scope: Scope, table: Array) -> None:
        """Put a table over several variables, an axis each; one over two that couples nothing is split."""
        order = sorted(range(len(scope)), key=scope.__getitem__)
        scope, table = tuple(scope[place] for place in order), table.transpose(order)
        if scope in self.tables[scope[0]]:
            table = self._cut(self.tables[scope[0]][scope] + table)
        parts = split(table, self.infinity) if len(scope) == 2 else None
        for variable in scope:
            self.tables[variable].pop(scope, None)
            if parts is None:
                self.tables[variable][scope] = table
        for variable, costs in zip(scope, parts or (), strict=parts is not None):
            self.add(variable, costs)

    def eliminate(self, variable: int) -> None:
        """Replace a variable by the least cost over its values."""
        tables = self.tables[variable]
        others = sorted({other for scope in tables for other in scope} - {variable})
        sizes = [len(self.vectors[other]) for other in others]
        able(len(self.vectors[variable]) * prod(sizes) <= MOST_NUMBERS, "a table has too many entries")
        axes = (variable, *others)
        vector = self._cut(self.vectors[variable])
        joined: Array = vector.astype(self.dtype).reshape(-1, *(1 for _ in others))
        for scope, table in list(tables.items()):
            order = sorted(range(len(scope)), key=lambda place: axes.index(scope[place]))
            shape = [len(self.vectors[own]) if own in scope else 1 for own in axes]
            joined = self._cut(joined + table.transpose(order).reshape(shape))
            for own in scope:
                del self.tables[own][scope]
        least = np.asarray(joined.min(axis=0))
        if not others:
            self.constant += int(least)
        elif len(others) == 1:
            self.add(others[0], least)
        else:
            self._join(tuple(others), least)

    def least(self, moved: dict[Scope, Array], left: list[int]) -> int:
        """The sum of what every vector and every matrix costs at least after costs were moved."""
        total = self.constant
        sums = {variable: self.vectors[variable] for variable in left}
        for (variable, other), costs in moved.items():
            scope = (min(variable, other), max(variable, other))
            need(
                variable in sums and scope in self.tables[variable], "costs move out of a table that is left"
            )
            need(len(costs) == len(sums[variable]), "as many costs move as there are values")
            sums[variable] = sums[variable] + costs
        total += sum(int(own.min()) for own in sums.values())
        tables = {scope: table for variable in left for scope, table in self.tables[variable].items()}
        need(all(len(scope) == 2 for scope in tables), "what is left has tables over two variables at most")
        return total + sum(
            self._least_of(table, moved.get(scope), moved.get(scope[::-1])) for scope, table in tables.items()
        )

    def _least_of(self, table: Array, rows: Array | None, columns: Array | None) -> int:
        most = max((abs(own) for costs in (rows, columns) if costs is not None for own in costs), default=0)
        dtype = np.int64 if table.dtype != object and 2 * most < NARROW else object
        rest: Any = table.astype(dtype)
        if rows is not None:
            rest = rest - rows.astype(dtype)[:, None]
        if columns is not None:
            rest = rest - columns.astype(dtype)[None, :]
        return int(rest.min())


def split(matrix: Array, infinity: int) -> tuple[Array, Array] | None:
    """Costs of rows and of columns that add up to a matrix; None where there are none."""
    if 1 not in matrix.shape and matrix.max() >= infinity:
        return None
    if matrix.shape[0] == 1:
        return matrix[:, 0] * 0, matrix[0]
    if matrix.shape[1] == 1:
        return matrix[:, 0], matrix[0] * 0
    columns = matrix.min(axis=0)
    rows = matrix[:, 0] - columns[0]
    return (rows, columns) if (rows[:, None] + columns == matrix).all() else None


def check_assignment(doc: Json) -> tuple[str, int | None, str, int]:
    """Check what is claimed; return the status, the bound, and the unit of costs with its steps."""
    problem, status, choice = doc["problem"], doc["status"], doc["choice"]
    need(status in STATUSES, "the status is known")
    need(natural([doc["prices"], doc["order"], doc["bound"]]), "prices and bounds are natural numbers")
    need(type(doc["scale"]) is int and doc["scale"] > 0, "costs are moved in parts of a step")
    costs = Costs(problem, doc["scale"])
    if choice is None:
        need(doc["total"] is None and status not in STATUSES[:2], "without an assignment there is no total")
    else:
        need(status in STATUSES[:2], "the status matches the assignment")
        need(doc["total"] == priced(problem, choice), "the total matches the assignment")
    _pay(costs, problem, doc["prices"])
    order = doc["order"]
    need(len(set(order)) == len(order) and all(own < len(costs.vectors) for own in order), "the order is one")
    for variable in order:
        costs.eliminate(variable)
    moved: dict[Scope, Array] = {(i, j): np.array(own, dtype=object) for i, j, own in doc["moved"]}
    need(
        len(moved) == len(doc["moved"]) and all(type(own) is int for *_, row in doc["moved"] for own in row),
        "whole numbers are moved, once between two variables",
    )
    least = costs.least(moved, sorted(set(range(len(costs.vectors))) - {*order}))
    found = max(0, -(-least // doc["scale"]))
    if status == "INFEASIBLE":
        need(doc["bound"] is None, "INFEASIBLE claims no bound")
        need(found * doc["scale"] >= costs.infinity, "no assignment is allowed and fits")
        return status, None, problem["unit"], problem["steps_per_unit"]
    bound = doc["bound"]
    need(type(bound) is int and bound <= found, f"no assignment is below {bound}: only {found} is proven")
    need((status == "OPTIMAL") == (bound == doc["total"]), "the bound matches the status")
    return status, bound, problem["unit"], problem["steps_per_unit"]


def priced(problem: Json, choice: list[int]) -> int:
    """The total of an assignment, if it is allowed and fits."""
    layers = problem["layers"]
    need(
        len(choice) == len(layers)
        and all(type(k) is int and 0 <= k < len(own) for k, own in zip(choice, layers, strict=True)),
        "the assignment has a method for each layer",
    )
    paid = [own[k] for k, own in zip(choice, layers, strict=True)]
    paid += [rows[choice[i]][choice[j]] for i, j, rows in problem["edges"]]
    need(FORBIDDEN not in paid, "the assignment takes nothing that is forbidden")
    changes: dict[int, int] = {}
    for i, first, last, usages in _alive(problem):
        changes[first] = changes.get(first, 0) + usages[choice[i]]
        changes[last] = changes.get(last, 0) - usages[choice[i]]
    used = 0
    for moment in sorted(changes):
        used += changes[moment]
        need(used <= problem["usage_limit"], "the assignment fits the limit at every moment")
    return sum(paid)


def _alive(problem: Json) -> Iterator[tuple[int, int, int, list[int]]]:
    """Layers that occupy room, with the moments from which and before which, and what each method does."""
    limit = problem["usage_limit"]
    need(limit is None or natural(limit), "the limit is a natural number")
    for i, (first, last, usages) in problem["usages"] if limit is not None else ():
        need(natural([i, first, last, usages]), "usages are natural numbers")
        need(len(usages) == len(problem["layers"][i]), "usages have an entry for each method")
        if first < last:
            yield i, first, last, usages


def _pay(costs: Costs, problem: Json, prices: list[list[int]]) -> None:
    """Let values pay for what they occupy above the least of their layer; give all the price of the rest."""
    need(not prices or problem["usage_limit"] is not None, "room has prices only if it is limited")
    moments, each = [moment for moment, _ in prices], [own for _, own in prices]
    need(moments == sorted(set(moments)), "a moment has one price")
    sums, room = np.array([0, *np.cumsum(np.array(each, dtype=object))], dtype=object), {}
    ends: Callable[[int], int] = lambda moment: int(np.searchsorted(moments, moment))  # noqa: E731
    least = [0] * (len(moments) + 1)
    for i, first, last, usages in _alive(problem):
        need(i not in room, "a layer has one list of usages")
        room[i] = start, end = ends(first), ends(last)
        least[start] += min(usages)
        least[end] -= min(usages)
        own = int(sums[end] - sums[start])
        paid = [(used - min(usages)) * own >> BITS for used in usages]
        costs.add(i, np.array(paid, dtype=object))
    used, given = 0, 0
    for change, price in zip(least, each, strict=False):
        used += change
        given += price * (problem["usage_limit"] - used)
    costs.constant -= -(-given >> BITS)
