"""Many mappings of one problem on one architecture as arrays, and their loop nests."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from model.architecture import Architecture, Fanout
from model.cost.nest import check_keeps, check_loop, check_nodes
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.problem import Problem

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MappingBatch:
    """Mappings by index: dimensions and dataspaces in the problem's order, nodes outermost first.

    Parameters
    ----------
    factors
        Shape ``(mappings, nodes, dims)``: bound of the loop over each dimension at each node. The
        order and the axes of a fanout's loops do not matter to the cost.
    order
        Shape ``(mappings, storage levels, dims)``: dimensions of the temporal loops, innermost
        first; each row is a permutation.
    keep
        Shape ``(mappings, storage levels, dataspaces)``: what each level keeps.
    columns
        Shape ``(mappings, fanouts)``: children in use along X. Without it, only the number of
        children is held against a fanout's size.
    """

    factors: Integers
    order: Integers
    keep: Booleans
    columns: Integers | None = None

    def __len__(self) -> int:
        return len(self.factors)

    def part(self, rows: slice | Integers) -> MappingBatch:
        """Return some of the mappings: a slice, or those at the indices `rows` of shape ``(rows,)``."""
        columns = None if self.columns is None else self.columns[rows]
        return MappingBatch(self.factors[rows], self.order[rows], self.keep[rows], columns)


def encode(problem: Problem, architecture: Architecture, mappings: Sequence[Mapping]) -> MappingBatch:
    """Turn mappings into arrays.

    Parameters
    ----------
    problem, architecture
        What the mappings are of; dimensions, dataspaces and nodes get the positions that they have there.
    mappings
        One entry per node each. Whether bounds multiply to the problem's is not checked here.

    Returns
    -------
    MappingBatch
        In the order of `mappings`, with ``columns``. Dimensions without a loop come last in an order.

    Raises
    ------
    ValueError
        If a mapping does not belong to the problem and the architecture, or a storage level has two loops
        over one dimension.
    """
    size = len(mappings)
    dims = {dim: index for index, dim in enumerate(problem.dims)}
    factors = np.ones((size, len(architecture.nodes), len(dims)), dtype=np.int64)
    order = np.zeros((size, len(architecture.levels), len(dims)), dtype=np.int64)
    keep = np.zeros((size, len(architecture.levels), len(problem.dataspaces)), dtype=np.bool_)
    columns = np.ones((size, len(architecture.fanouts)), dtype=np.int64)
    for row, mapping in enumerate(mappings):
        check_nodes(architecture, mapping)
        check_keeps(problem, mapping)
        for position, loop in _placed_loops(mapping):
            check_loop(loop, dims)
            factors[row, position, dims[loop.dim]] *= loop.bound
        storage = [entry for entry in mapping.nodes if isinstance(entry, StorageMapping)]
        for level, entry in enumerate(storage):
            order[row, level] = _loop_order(dims, entry.temporal)
            keep[row, level] = [space.name in entry.keep for space in problem.dataspaces]
        fanouts = [entry for entry in mapping.nodes if isinstance(entry, FanoutMapping)]
        columns[row] = [
            math.prod(loop.bound for loop in entry.spatial if loop.axis == "x") for entry in fanouts
        ]
    return MappingBatch(factors, order, keep, columns)


def _placed_loops(mapping: Mapping) -> Iterator[tuple[int, Loop | SpatialLoop]]:
    """Yield the loops of all nodes, each with the position of its node."""
    for position, entry in enumerate(mapping.nodes):
        loops = entry.spatial if isinstance(entry, FanoutMapping) else entry.temporal
        yield from ((position, loop) for loop in loops)


def _loop_order(dims: dict[str, int], loops: Sequence[Loop]) -> list[int]:
    """Return the dimensions of `loops`, then the others."""
    listed = [dims[loop.dim] for loop in loops]
    if len(set(listed)) < len(listed):
        raise ValueError("a storage level has two loops over one dimension")
    return listed + [index for index in dims.values() if index not in listed]


@dataclass(frozen=True, eq=False)
class BatchNest:
    """Loops of many mappings.

    Parameters
    ----------
    architecture
        Its nodes, outermost first.
    factors
        Shape ``(nodes, dims, mappings)``.
    bounds
        Shape ``(nodes + 1, dims, mappings)``: iterations at or below each node.
    order
        Shape ``(storage levels, dims, mappings)``: dimensions, innermost first.
    repeats
        Shape ``(storage levels, dims, mappings)``: how often each temporal loop advances. All counts have
        its type: doubles where they are rounded.
    """

    architecture: Architecture
    factors: Integers
    bounds: Integers
    order: Integers
    repeats: Integers

    @property
    def steps(self) -> Integers:
        """Product of all temporal bounds, shape ``(mappings,)``."""
        return self.steps_above(len(self.architecture.nodes))

    def steps_above(self, position: int) -> Integers:
        """Product of the temporal bounds above a node."""
        nodes = [index for index in self.architecture.storage_indices if index < position]
        return self._product(nodes)

    def children(self, position: int) -> Integers:
        """Children in use per instance of the fanout at `position` of the nodes, shape ``(mappings,)``."""
        return self._product([position])

    def instances(self, position: int) -> Integers:
        """Used instances of the node at `position` (their number for the compute), shape ``(mappings,)``."""
        nodes = [index for index in self.architecture.fanout_indices if index < position]
        return self._product(nodes)

    def _product(self, nodes: list[int]) -> Integers:
        product: Integers = np.prod(self.factors[nodes], axis=(0, 1), dtype=self.repeats.dtype)
        return product


def unroll(
    problem: Problem, architecture: Architecture, batch: MappingBatch, rounded: bool = False
) -> BatchNest:
    """Lay out the loops of all mappings, the last pass of each being taken for a whole one.

    Counts are doubles if they are `rounded`.
    """
    size, dims = len(batch), len(problem.dims)
    factors = np.ascontiguousarray(batch.factors.transpose(1, 2, 0))
    order = np.ascontiguousarray(batch.order.transpose(1, 2, 0))
    bounds = np.ones((len(factors) + 1, dims, size), dtype=np.int64)
    np.cumprod(factors[::-1], axis=0, out=bounds[-2::-1])
    np.minimum(bounds, np.array(problem.bounds)[:, None], out=bounds)
    repeats = _repeats(architecture, factors, order, np.float64 if rounded else np.int64)
    return BatchNest(architecture, factors, bounds, order, repeats)


def check_batch(problem: Problem, architecture: Architecture, batch: MappingBatch) -> None:
    """Check that arrays describe mappings.

    Raises
    ------
    ValueError
        If an array has the wrong shape, an order is no permutation, or the factors of a dimension do not
        multiply to its bound, the outermost one being rounded up where the others leave a remainder.
    """
    size, levels, dims = len(batch), len(architecture.levels), len(problem.dims)
    if batch.factors.shape != (size, len(architecture.nodes), dims):
        raise ValueError(f"factors have shape {batch.factors.shape}")
    if batch.order.shape != (size, levels, dims) or batch.keep.shape != (
        size,
        levels,
        len(problem.dataspaces),
    ):
        raise ValueError(f"order and keep have shapes {batch.order.shape} and {batch.keep.shape}")
    if not (np.sort(batch.order, axis=2) == np.arange(dims)).all():
        raise ValueError("an order is not a permutation of the dimensions")
    if not _covers_all(problem, batch.factors):
        raise ValueError("the factors of a dimension do not multiply to its bound")


def _covers_all(problem: Problem, factors: Integers) -> bool:
    """Whether loops cover all dimensions, none having more iterations than there are tiles inside."""
    left = np.broadcast_to(np.array(problem.bounds, dtype=np.int64), factors[:, 0].shape)
    if (factors.prod(axis=1) == left).all():
        return True
    fits = True
    for node in reversed(range(factors.shape[1])):
        own = factors[:, node]
        fits = fits and bool(((own >= 1) & (own <= left)).all())
        left = -(-left // np.maximum(own, 1))
    return fits and bool((left == 1).all())


def rows_with_remainders(problem: Problem, batch: MappingBatch) -> Booleans:
    """Which mappings have loops with remainders, shape ``(mappings,)``."""
    remaining: Booleans = (batch.factors.prod(axis=1) != np.array(problem.bounds)).any(axis=1)
    return remaining


def decode(problem: Problem, architecture: Architecture, batch: MappingBatch, row: int) -> Mapping:
    """Return one mapping of a batch; which of a fanout's loops lie along X is not known, and all do."""
    entries: list[StorageMapping | FanoutMapping] = []
    level = 0
    for position, node in enumerate(architecture.nodes):
        bounds = dict(zip(problem.dims, batch.factors[row, position].tolist(), strict=True))
        if isinstance(node, Fanout):
            entries.append(FanoutMapping(tuple(SpatialLoop(*loop, "x") for loop in bounds.items())))
            continue
        order = [problem.dims[place] for place in batch.order[row, level]]
        names = zip(problem.dataspaces, batch.keep[row, level], strict=True)
        keep = frozenset(space.name for space, kept in names if kept)
        entries.append(StorageMapping(tuple(Loop(dim, bounds[dim]) for dim in order), keep))
        level += 1
    return Mapping(tuple(entries))


def _repeats(
    architecture: Architecture, factors: Integers, order: Integers, kind: type[np.int64 | np.float64]
) -> Integers:
    """How often each temporal loop advances: all its steps but one, per iteration of the outer loops."""
    repeats: Integers = np.empty(order.shape, dtype=kind)
    outside = np.ones(order.shape[2], dtype=kind)
    for level, node in enumerate(architecture.storage_indices):
        bounds = np.take_along_axis(factors[node], order[level], axis=0)
        for loop in reversed(range(len(bounds))):
            inside = outside * bounds[loop]
            repeats[level, loop] = inside - outside
            outside = inside
    return repeats
