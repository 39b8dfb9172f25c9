"""Where the words of a tensor lie, and which of them a box of the iteration space touches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from model.problem import Dataspace, Problem, Term


@dataclass(frozen=True)
class Layout:
    """A dense row-major array for a dataspace.

    A rank's index is linear in the problem's dimensions, and so is the position in the flat array:
    ``position = origin + sum(weight[dim] * index[dim])``.

    Parameters
    ----------
    ranks
        The terms of each rank's index.
    shape
        Extent of each rank over the whole iteration space, in words.
    weight
        Words by which the flat position moves when a dimension advances by one.
    origin
        Flat position of the iteration space's first point (not 0 if a coefficient is negative).
    """

    ranks: tuple[tuple[Term, ...], ...]
    shape: tuple[int, ...]
    weight: Mapping[str, int]
    origin: int

    @classmethod
    def of(cls, problem: Problem, space: Dataspace) -> Layout:
        """Lay out a dataspace for the bounds of a problem."""
        reaches = [
            [term.coefficient * (problem.bound[term.dim] - 1) for term in rank] for rank in space.ranks
        ]
        shape = tuple(sum(map(abs, reach)) + 1 for reach in reaches)
        weight = dict.fromkeys(problem.dims, 0)
        origin = 0
        for i, (rank, reach) in enumerate(zip(space.ranks, reaches, strict=True)):
            step = math.prod(shape[i + 1 :])
            origin -= step * sum(min(0, r) for r in reach)
            for term in rank:
                weight[term.dim] += step * term.coefficient
        return cls(space.ranks, shape, weight, origin)

    @property
    def dims(self) -> frozenset[str]:
        """Dimensions that index the dataspace."""
        return frozenset(term.dim for rank in self.ranks for term in rank)

    def position(self, point: Mapping[str, int]) -> int:
        """Flat position of the word that an iteration uses."""
        return self.origin + sum(self.weight[dim] * index for dim, index in point.items())

    def touched(self, start: Mapping[str, int], extents: Mapping[str, int]) -> frozenset[int]:
        """Flat positions in the box that a block of iterations touches."""
        within = {self.position(start)}
        for i, rank in enumerate(self.ranks):
            reaches = [term.coefficient * (extents[term.dim] - 1) for term in rank]
            least, most = (sum(bound(0, reach) for reach in reaches) for bound in (min, max))
            step = math.prod(self.shape[i + 1 :])
            within = {at + step * index for at in within for index in range(least, most + 1)}
        return frozenset(within)
