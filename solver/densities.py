"""The best mapping over a range of densities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from model.mapspace import Mapspace
from model.sparse import SparseEvaluation
from solver import stages
from solver.result import Options, ProgressCallback, Result, StopCallback
from solver.sparse_search import detailed


@dataclass(frozen=True)
class DensityPoint:
    """Densities of some dataspaces, and the best mapping for these."""

    densities: tuple[tuple[str, Fraction], ...]
    mapspace: Mapspace
    result: Result

    @property
    def best(self) -> SparseEvaluation | None:
        """What the best mapping costs."""
        return detailed(self.mapspace, self.result.mapping)


def density_sweep(
    mapspace: Mapspace,
    densities: Mapping[str, Sequence[Fraction]],
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
) -> Iterator[DensityPoint]:
    """Yield the best mapping for every combination of densities, until it is stopped.

    Parameters
    ----------
    mapspace
        Its data are sparse; distributions stay as they are.
    densities
        Shares of nonzeros, by dataspace.
    options, on_progress, should_stop
        See `solver.stages.map_einsum`; the time limit applies to each point.

    Raises
    ------
    ValueError
        See `solver.stages.map_einsum`.
    KeyError
        There is no such dataspace.
    """
    sparsity = mapspace.sparsity
    if sparsity is None:
        raise ValueError("the data is dense")
    for name in densities:
        mapspace.problem.dataspace(name)
    for values in product(*densities.values()):
        chosen = tuple(zip(densities, values, strict=True))
        own = {name: replace(sparsity.density(name), share=share) for name, share in chosen}
        point = replace(mapspace, sparsity=replace(sparsity, densities={**sparsity.densities, **own}))
        result = stages.map_einsum(point, options, on_progress, should_stop, reasons=False)
        yield DensityPoint(chosen, point, result)
        if should_stop is not None and should_stop():
            return
