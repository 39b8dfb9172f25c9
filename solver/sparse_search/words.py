"""Words of dense data of all instances together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from model.sparse import FIXED_POINT
from solver.search.path.costs import Part, PartCosts
from solver.search.path.ruled import RuledCosts
from solver.search.path.words import DimLoops


class SparseCosts(PartCosts):
    """Words of all instances together; loads are counted in `FIXED_POINT` parts of a cycle."""

    def by_instance(self, part: Part, lines: Sequence[DimLoops]) -> Iterator[Part]:
        """All instances together."""
        del lines
        yield part

    @cached_property
    def units(self) -> tuple[int, ...]:
        """Parts of a cycle, by resource."""
        return (FIXED_POINT,) * len(self._space.resources)


class SparseRuledCosts(SparseCosts, RuledCosts):
    """Words of all instances together by Timeloop's rule, those of windows at least."""
