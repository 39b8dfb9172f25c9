"""Bounds by moving costs: what every value of a variable must pay to its neighbours is paid beforehand.

A cost that all values of a neighbour share may move from the matrix into a vector, and back into another
matrix; no assignment's total changes by it. What all values of a variable then have in common is a
constant, below which no assignment is. Sweeps to and fro move costs such that the constant rises, as in
sequential tree-reweighted message passing (Kolmogorov, PAMI 2006; without trees: PAMI 2015), but in whole
numbers, and for many instances of the same graph at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from model.assignment import LARGEST_TOTAL, CostArray
from solver.assignment.instance import Instance, Pair


@dataclass(eq=False)
class Potentials:
    """Instances of the same graph, each with a constant; sweeps change them in place.

    Parameters
    ----------
    limit
        Assignments of this total or more do not count, so no cost above it needs to be told apart.
    floors
        The constants, shape (instances,).
    vectors
        Per variable, shape (instances, values).
    near
        Per variable and neighbour the matrix, shape (instances, values, neighbour's values); the
        neighbour's is a view of the same.
    """

    limit: int
    floors: CostArray
    vectors: dict[int, CostArray]
    near: dict[int, dict[int, CostArray]]

    @classmethod
    def of(cls, instance: Instance, limit: int) -> Potentials:
        """Return a single instance, nothing moved yet."""
        count = len(instance.vectors) + len(instance.matrices)
        # Totals of allowed assignments bound what a place gathers; forbidden ones are cut off at the limit.
        dtype = np.int64 if limit * 8 * count <= LARGEST_TOTAL else object

        def cut_off(costs: CostArray) -> CostArray:
            return np.minimum(costs, limit).astype(dtype)[None]

        potentials = cls(
            limit,
            np.zeros(1, dtype=dtype),
            {variable: cut_off(vector) for variable, vector in enumerate(instance.vectors)},
            {variable: {} for variable in range(len(instance.vectors))},
        )
        for pair, matrix in instance.matrices.items():
            potentials._join(pair, cut_off(matrix))
        return potentials

    def _join(self, pair: Pair, matrix: CostArray) -> None:
        i, j = pair
        self.near[i][j], self.near[j][i] = matrix, matrix.swapaxes(1, 2)

    def sweep(self, forward: bool) -> None:
        """Gather every variable's costs, add their minimum to the constant, and pass the rest on."""
        for variable in sorted(self.vectors, reverse=not forward):
            vector, near = self.vectors[variable], self.near[variable]
            for matrix in near.values():
                least = matrix.min(axis=2)
                np.subtract(matrix, least[:, :, None], out=matrix)
                vector = vector + least
            least = vector.min(axis=1)
            self.floors = self.floors + least
            vector = vector - least[:, None]
            is_dead = vector + self.floors[:, None] >= self.limit
            ahead = [matrix for other, matrix in near.items() if (other > variable) is forward]
            share = vector // max(1, len(ahead), len(near) - len(ahead))
            rest = vector - share * len(ahead)
            # A dead value has no total to preserve: its whole neighbourhood learns of it at once.
            share[is_dead] = rest[is_dead] = self.limit
            for matrix in ahead:
                np.add(matrix, share[:, :, None], out=matrix)
            self.vectors[variable] = rest

    def alive(self, variable: int) -> NDArray[np.bool_]:
        """Return which values may be part of an assignment below the limit, shape (instances, values)."""
        below_limit: NDArray[np.bool_] = self.vectors[variable] + self.floors[:, None] < self.limit
        return below_limit

    def take(self, rows: NDArray[np.intp]) -> Potentials:
        """Return some of the instances."""
        taken = replace(
            self,
            floors=self.floors[rows],
            vectors={variable: vector[rows] for variable, vector in self.vectors.items()},
            near={variable: {} for variable in self.near},
        )
        pairs = (((i, j), matrix) for i, near in self.near.items() for j, matrix in near.items() if i < j)
        for pair, matrix in pairs:
            taken._join(pair, matrix[rows])
        return taken

    def fix(self, variable: int, rows: NDArray[np.intp], values: NDArray[np.intp]) -> Potentials:
        """Return instances without `variable`: one per entry of `rows`, in which it has taken its value."""
        vectors, near = dict(self.vectors), dict(self.near)
        vector, linked = vectors.pop(variable), near.pop(variable)
        for other in linked:
            near[other] = {third: matrix for third, matrix in near[other].items() if third != variable}
        fixed = replace(self, vectors=vectors, near=near).take(rows)
        fixed.floors = fixed.floors + vector[rows, values]
        for other, matrix in linked.items():
            fixed.vectors[other] = fixed.vectors[other] + matrix[rows, values]
        return fixed

    def bounds_with(self, variable: int, rows: NDArray[np.intp], values: NDArray[np.intp]) -> CostArray:
        """Return what no assignment is below if `variable` takes a value, one per entry of `rows`."""
        bounds = self.floors[rows] + self.vectors[variable][rows, values]
        linked = self.near[variable]
        for other, vector in self.vectors.items():
            if other in linked:
                bounds = bounds + (vector[rows] + linked[other][rows, values]).min(axis=1)
            elif other != variable:
                bounds = bounds + vector[rows].min(axis=1)
        return bounds

    def entries(self) -> int:
        """Return the entries of all matrices of one instance."""
        return sum(int(matrix[0].size) for near in self.near.values() for matrix in near.values()) // 2

    def as_instance(self, origin: Instance, most: int) -> Instance:
        """Return the first instance without its constant, for assignments of at most `most`."""
        infinity, dtype = origin.infinity, origin.vectors[0].dtype
        vectors = [
            np.where(vector[0] + self.floors[0] <= most, vector[0].astype(dtype), infinity)
            for vector in self.vectors.values()
        ]
        matrices = {
            (i, j): np.where(matrix <= most, self.near[i][j][0].astype(dtype), infinity)
            for (i, j), matrix in origin.matrices.items()
        }
        return Instance(vectors, matrices, infinity)
