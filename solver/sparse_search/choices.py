"""What is chosen besides tiles and orders: who keeps a dataspace, and what fanouts do side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import permutations, product

from model.architecture import Fanout
from model.choices import SideOrder, keep_sets
from model.mapping import FanoutMapping, SpatialLoop
from model.mapspace import Mapspace
from model.sparse.evaluation import lack_of_packing
from model.sparsity import Sparsity

Chain = tuple[int, ...]
"""Storage levels that keep a dataspace in effect, outermost first; 0 is the outermost level."""


Chains = dict[str, Chain]
"""By dataspace."""


def always_kept(mapspace: Mapspace, sparsity: Sparsity, name: str) -> frozenset[int]:
    """Levels that keep a dataspace whoever else does."""
    every = (_in_effect(mapspace, name, levels) for levels in keep_sets(mapspace, name))
    chains = [frozenset(own) for own in every if own and packs(mapspace, sparsity, name, own)]
    return frozenset.intersection(*chains) if chains else frozenset()


def _in_effect(mapspace: Mapspace, name: str, levels: frozenset[int]) -> Chain:
    """Levels without those that would only pass their own stream on."""
    chain: list[int] = []
    for level in sorted(levels):
        if chain or name not in mapspace.architecture.levels[level].passing:
            chain.append(level)
    return tuple(chain)


def packs(mapspace: Mapspace, sparsity: Sparsity, name: str, chain: Chain) -> bool:
    """Whether the levels that keep a dataspace can pack and unpack what they exchange."""
    compressed = frozenset(
        level
        for level in chain
        if name in sparsity.levels[level].representations
        and sparsity.levels[level].representations[name].compressed
    )
    read_write = mapspace.problem.dataspace(name).read_write
    return lack_of_packing(chain, compressed, dict(enumerate(sparsity.levels)), read_write) is None


def spatial_factors(dims: Sequence[str], factors: Sequence[int]) -> dict[str, int]:
    """Spatial factors above 1, by dimension."""
    return {dim: factor for dim, factor in zip(dims, factors, strict=True) if factor > 1}


def fits_mesh(fanout: Fanout, order: SideOrder, factors: dict[str, int]) -> bool:
    """Whether spatial factors above 1 of a fanout fit its mesh along some axes."""
    total = math.prod(factors.values())
    widths = (math.prod(factors[dim] for dim in along_x) for along_x in order.sets_along_x(factors))
    return any(width <= fanout.mesh_x and total // width <= fanout.mesh_y for width in widths)


def arrangements(
    fanout: Fanout, order: SideOrder, factors: dict[str, int], all_of_them: bool, skips: bool
) -> list[FanoutMapping]:
    """Return the loops of a fanout, or their first order that fits the mesh where none costs less.

    Parameters
    ----------
    factors
        Those above 1.
    all_of_them
        Whether their order matters.
    skips
        Whether there may be more children than hardware has.
    """
    found = dict.fromkeys(_on_axes(fanout, order, factors, skips))
    return list(found) if all_of_them else list(found)[:1]


def _on_axes(
    fanout: Fanout, order: SideOrder, factors: dict[str, int], skips: bool
) -> Iterator[FanoutMapping]:
    for along_x in order.sets_along_x(factors):
        along_y = [dim for dim in factors if dim not in along_x]
        width, height = (math.prod(factors[dim] for dim in dims) for dims in (along_x, along_y))
        if not skips and (width > fanout.mesh_x or height > fanout.mesh_y):
            continue
        for x, y in product(_spatial_orders(order, along_x), _spatial_orders(order, along_y)):
            loops = [SpatialLoop(dim, factors[dim], "x") for dim in x]
            yield FanoutMapping((*loops, *(SpatialLoop(dim, factors[dim], "y") for dim in y)))


def _spatial_orders(order: SideOrder, dims: Sequence[str]) -> Iterator[tuple[str, ...]]:
    inner = [dim for dim in order.inner if dim in dims]
    outer = [dim for dim in order.outer if dim in dims]
    for middle in permutations([dim for dim in dims if dim not in (*inner, *outer)]):
        yield (*inner, *middle, *outer)
