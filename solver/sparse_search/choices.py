"""What is chosen besides tiles and orders: who keeps a dataspace, and what fanouts do side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product

from model.architecture import Fanout
from model.choices import SideOrder, keep_sets
from model.mapping import FanoutMapping, SpatialLoop
from model.mapspace import Mapspace, SpatialRules
from model.sparse.evaluation import lack_of_packing
from model.sparsity import Sparsity
from solver.sparse_search.grid import TileGrid, Vector

Chain = tuple[int, ...]
"""Storage levels that keep a dataspace in effect, outermost first; 0 is the outermost level."""


@dataclass(frozen=True)
class Mask:
    """Who keeps what.

    Parameters
    ----------
    kept
        Dataspaces that each storage level keeps, outermost level first.
    chains
        By dataspace.
    """

    kept: tuple[frozenset[str], ...]
    chains: dict[str, Chain]


def masks(mapspace: Mapspace, sparsity: Sparsity) -> Iterator[Mask]:
    """Yield who may keep what, as far as formats can be packed and unpacked; equal chains once."""
    names = [space.name for space in mapspace.problem.dataspaces]
    options = [_keepers(mapspace, sparsity, name) for name in names]
    for chosen in product(*options):
        pairs = list(zip(names, chosen, strict=True))
        kept = tuple(
            frozenset(name for name, (levels, _) in pairs if level in levels)
            for level in range(len(mapspace.keep))
        )
        yield Mask(kept, {name: chain for name, (_, chain) in pairs})


def _keepers(mapspace: Mapspace, sparsity: Sparsity, name: str) -> list[tuple[frozenset[int], Chain]]:
    """Levels that may keep a dataspace, with those that do in effect."""
    found: dict[Chain, frozenset[int]] = {}
    for levels in keep_sets(mapspace, name):
        chain = _in_effect(mapspace, name, levels)
        if chain and _packs(mapspace, sparsity, name, chain):
            found.setdefault(chain, levels)
    return [(levels, chain) for chain, levels in found.items()]


def always_kept(mapspace: Mapspace, sparsity: Sparsity, name: str) -> frozenset[int]:
    """Levels that keep a dataspace whoever else does."""
    chains = [frozenset(chain) for _, chain in _keepers(mapspace, sparsity, name)]
    return frozenset.intersection(*chains) if chains else frozenset()


def _in_effect(mapspace: Mapspace, name: str, levels: frozenset[int]) -> Chain:
    """Levels without those that would only pass their own stream on."""
    chain: list[int] = []
    for level in sorted(levels):
        if chain or name not in mapspace.architecture.levels[level].passing:
            chain.append(level)
    return tuple(chain)


def _packs(mapspace: Mapspace, sparsity: Sparsity, name: str, chain: Chain) -> bool:
    compressed = frozenset(
        level
        for level in chain
        if name in sparsity.levels[level].representations
        and sparsity.levels[level].representations[name].compressed
    )
    read_write = mapspace.problem.dataspace(name).read_write
    return lack_of_packing(chain, compressed, dict(enumerate(sparsity.levels)), read_write) is None


@dataclass(frozen=True)
class Unrolled:
    """Spatial factors.

    Parameters
    ----------
    fanouts
        Per fanout, a factor for each active dimension.
    """

    fanouts: tuple[Vector, ...]


def unrollings(mapspace: Mapspace, grid: TileGrid, skips: bool) -> Iterator[Unrolled]:
    """Yield the spatial factors that rules and meshes leave; where instances are skipped, beyond meshes."""
    options = [
        _of_fanout(fanout, rules, grid, skips)
        for fanout, rules in zip(mapspace.architecture.fanouts, mapspace.spatial, strict=True)
    ]
    for fanouts in _dividing(options, grid.bounds):
        if _enough(mapspace.min_parallelism, fanouts):
            yield Unrolled(fanouts)


def _enough(least: Fraction, fanouts: Sequence[Vector]) -> bool:
    return math.prod(math.prod(own) for own in fanouts) >= least


def _dividing(options: Sequence[Sequence[Vector]], left: Vector) -> Iterator[tuple[Vector, ...]]:
    """Yield one vector per fanout, whose products divide what is left of the bounds."""
    if not options:
        yield ()
        return
    for vector in options[0]:
        if any(bound % factor for bound, factor in zip(left, vector, strict=True)):
            continue
        rest = tuple(bound // factor for bound, factor in zip(left, vector, strict=True))
        yield from ((vector, *others) for others in _dividing(options[1:], rest))


def _of_fanout(fanout: Fanout, rules: SpatialRules, grid: TileGrid, skips: bool) -> list[Vector]:
    unit = set(grid.problem.dims) - set(grid.dims)
    if any(not rule.allows(1) for rule in rules.factors if rule.dim in unit):
        return []
    order = SideOrder.of(rules, grid.problem.dims)
    return [
        vector
        for vector in product(*map(sorted, grid.allowed(rules.factors)))
        if skips or (math.prod(vector) <= fanout.size and fits_mesh(fanout, order, grid, vector))
    ]


def fits_mesh(fanout: Fanout, order: SideOrder, grid: TileGrid, vector: Vector) -> bool:
    """Whether spatial factors of a fanout fit its mesh along some axes."""
    factors = {dim: factor for dim, factor in zip(grid.dims, vector, strict=True) if factor > 1}
    total = math.prod(vector)
    widths = (math.prod(factors[dim] for dim in along_x) for along_x in order.sets_along_x(factors))
    return any(width <= fanout.mesh_x and total // width <= fanout.mesh_y for width in widths)


def arrangements(
    fanout: Fanout, rules: SpatialRules, grid: TileGrid, vector: Vector, all_of_them: bool, skips: bool
) -> list[FanoutMapping]:
    """Return the loops of a fanout, or their first order that fits the mesh where none costs less.

    Parameters
    ----------
    vector
        Spatial factors.
    all_of_them
        Whether their order matters.
    skips
        Whether there may be more children than hardware has.
    """
    factors = {dim: factor for dim, factor in zip(grid.dims, vector, strict=True) if factor > 1}
    found = dict.fromkeys(_arranged(fanout, rules, grid, factors, skips))
    return list(found) if all_of_them else list(found)[:1]


def _arranged(
    fanout: Fanout, rules: SpatialRules, grid: TileGrid, factors: dict[str, int], skips: bool
) -> Iterator[FanoutMapping]:
    for along_x in SideOrder.of(rules, grid.problem.dims).sets_along_x(factors):
        along_y = [dim for dim in factors if dim not in along_x]
        width, height = (math.prod(factors[dim] for dim in dims) for dims in (along_x, along_y))
        if not skips and (width > fanout.mesh_x or height > fanout.mesh_y):
            continue
        for x, y in product(_orders(rules, along_x), _orders(rules, along_y)):
            loops = [SpatialLoop(dim, factors[dim], "x") for dim in x]
            yield FanoutMapping((*loops, *(SpatialLoop(dim, factors[dim], "y") for dim in y)))


def _orders(rules: SpatialRules, dims: Sequence[str]) -> Iterator[tuple[str, ...]]:
    inner = [dim for dim in rules.inner if dim in dims]
    outer = [dim for dim in rules.outer if dim in dims]
    for middle in permutations([dim for dim in dims if dim not in (*inner, *outer)]):
        yield (*inner, *middle, *outer)
