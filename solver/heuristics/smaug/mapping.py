"""From a tiling to a mapping: an outermost level, scratchpads that hold the tiles, and arithmetic.

The outermost level has SMAUG's loops over tiles: batches, rows, columns, features, channels, from the
outside in; loops over groups lie around them. What is within a tile runs at the innermost scratchpad and
on the fanouts below.

A mapping has perfect factors. Where a tile does not divide its dimension, or tiles of two tensors
disagree, the largest divisor that is not larger than any of them is taken: it is the nearest one of those
that are sure to fit. Each time it is said in a `Rounding`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from model.architecture import Fanout
from model.choices import allowed_factors
from model.mapping import Axis, FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace, SpatialRules
from model.numbers import divisors
from model.tiling.operators import INPUTS, OUTPUTS, WEIGHTS, InnerProduct
from model.tiling.tilings import Tiling
from solver.heuristics.smaug.problems import FoundOperator
from solver.heuristics.smaug.scratchpads import Scratchpads, kept_at

LOOP_ORDER = "NPQKCRS"
"""Letters of the loops from the outermost to the innermost."""

Sizes = dict[str, int]
"""Size of a tile along each dimension, by the dimension's letter."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """Where a mapping's tile is not the tiling's: `wanted` and `used` elements of dimension `dim`.

    Parameters
    ----------
    dataspace, dim
        Names of the problem's.
    bound
        That of the dimension, which `used` divides.
    """

    dataspace: str
    dim: str
    bound: int
    wanted: int
    used: int

    def __str__(self) -> str:
        why = f"{self.wanted} does not divide {self.bound}"
        if self.bound % self.wanted == 0:
            why = "tiles of all tensors share their loops"
        return (
            f"{self.dataspace}: {self.used} of {self.dim} instead of {self.wanted} in a tile, "
            f"the largest divisor that fits, as {why}"
        )


@dataclass(frozen=True)
class MappedTiling:
    """A mapping, and where its tiles are not those of the tiling."""

    mapping: Mapping
    roundings: tuple[Rounding, ...]


def tiling_mapping(
    tiling: Tiling, found: FoundOperator, mapspace: Mapspace, scratchpads: Scratchpads
) -> MappedTiling:
    """Return the mapping of `mapspace` that comes nearest to `tiling`.

    Rules of the mapspace beyond which level keeps what are not looked at; whether the mapping is allowed
    is for the cost model to say.
    """
    wanted = _wanted(tiling)
    bounds = {letter: mapspace.problem.bound[dim] for letter, dim in found.dims.items()}
    tiles = _nested_tiles(wanted, bounds, found, scratchpads)
    roundings = tuple(_roundings(wanted, tiles, bounds, found, scratchpads))
    nodes = _nodes(tiles, bounds, found, mapspace, scratchpads)
    return MappedTiling(Mapping(nodes), roundings)


def _wanted(tiling: Tiling) -> dict[str, Sizes]:
    """Return the sizes of each tensor's basic tile by the letters of its dimensions."""
    inputs, weights, outputs = (tiling[name].tile for name in (INPUTS, WEIGHTS, OUTPUTS))
    if isinstance(tiling.operator, InnerProduct):
        return {
            INPUTS: {"N": inputs[0], "C": inputs[1]},
            WEIGHTS: {"K": weights[0], "C": weights[1]},
            OUTPUTS: {"N": outputs[0], "K": outputs[1]},
        }
    rows, columns = tiling[OUTPUTS].grid.largest[1:3]
    filter_sizes = {"R": weights[1], "S": weights[2]}
    image = {"N": inputs[0], "P": rows, "Q": columns}
    return {
        INPUTS: {**image, "C": inputs[3], **filter_sizes},
        WEIGHTS: {"K": weights[0], "C": weights[3], **filter_sizes},
        OUTPUTS: {**image, "K": outputs[3]},
    }


def _nested_tiles(
    wanted: dict[str, Sizes], bounds: Sizes, found: FoundOperator, scratchpads: Scratchpads
) -> dict[int, Sizes]:
    """Return the tile within each scratchpad, outermost first: each divides the one around it.

    A scratchpad that stands farther out may keep a larger tile of a dimension that indexes its tensor,
    while those within go through it: so SMAUG keeps inputs when weights alone are cut along channels.
    """
    tiles: dict[int, Sizes] = {}
    around = bounds
    least = {letter: min(sizes.get(letter, bounds[letter]) for sizes in wanted.values()) for letter in bounds}
    for level in sorted(set(scratchpads.level_of.values())):
        held = [
            sizes for name, sizes in wanted.items() if scratchpads.level_of[found.dataspaces[name]] == level
        ]
        limits = {
            letter: min((sizes[letter] for sizes in held if letter in sizes), default=least[letter])
            for letter in bounds
        }
        around = {letter: _divisor_up_to(around[letter], limits[letter]) for letter in bounds}
        tiles[level] = around
    return tiles


def _roundings(
    wanted: dict[str, Sizes],
    tiles: dict[int, Sizes],
    bounds: Sizes,
    found: FoundOperator,
    scratchpads: Scratchpads,
) -> Iterator[Rounding]:
    for name, sizes in wanted.items():
        dataspace = found.dataspaces[name]
        used = tiles[scratchpads.level_of[dataspace]]
        for letter in (letter for letter in sizes if letter in bounds and used[letter] != sizes[letter]):
            yield Rounding(dataspace, found.dims[letter], bounds[letter], sizes[letter], used[letter])


def _nodes(
    tiles: dict[int, Sizes],
    bounds: Sizes,
    found: FoundOperator,
    mapspace: Mapspace,
    scratchpads: Scratchpads,
) -> tuple[NodeMapping, ...]:
    """Return loops and kept dataspaces of every node, outermost first."""
    architecture = mapspace.architecture
    innermost = max(tiles)
    left = dict(tiles[innermost])
    spatial = _spatial(left, found, mapspace, architecture.storage_indices[innermost])
    around = [bounds, *tiles.values()]
    within = [*tiles.values(), dict.fromkeys(bounds, 1)]
    temporal = {
        level: _loops({letter: outer[letter] // inner[letter] for letter in bounds}, found)
        for level, outer, inner in zip((0, *tiles), around, within, strict=True)
    }
    temporal[innermost] = _loops(left, found)
    temporal[0] += tuple(Loop(dim, mapspace.problem.bound[dim]) for dim in found.groups)
    nodes: list[NodeMapping] = []
    for position, node in enumerate(architecture.nodes):
        if isinstance(node, Fanout):
            nodes.append(FanoutMapping(spatial.get(position, ())))
            continue
        level = architecture.storage_indices.index(position)
        nodes.append(StorageMapping(temporal.get(level, ()), kept_at(mapspace, scratchpads.level_of, level)))
    return tuple(nodes)


def _spatial(
    left: Sizes, found: FoundOperator, mapspace: Mapspace, above: int
) -> dict[int, tuple[SpatialLoop, ...]]:
    """Fill the fanouts below the node at `above`, and take the factors out of what is `left` of a tile.

    Features go to the outermost fanout, channels to the next; a single one gets both.
    """
    positions = [position for position in mapspace.architecture.fanout_indices if position > above]
    letters = ("KC",) if len(positions) == 1 else ("K", "C")
    loops: dict[int, tuple[SpatialLoop, ...]] = {}
    for position, along in zip(positions, letters, strict=False):
        rules = mapspace.spatial[mapspace.architecture.fanout_indices.index(position)]
        fanout = mapspace.architecture.nodes[position]
        assert isinstance(fanout, Fanout)  # positions are those of fanouts
        loops[position] = tuple(_spatial_loops(fanout, rules, along, left, found))
    return loops


def _spatial_loops(
    fanout: Fanout, rules: SpatialRules, letters: str, left: Sizes, found: FoundOperator
) -> Iterator[SpatialLoop]:
    """Yield loops that fill a mesh as far as the rules on factors allow: X and Y, or its longer side."""
    sides: list[tuple[Axis, int]] = [("x", fanout.mesh_x), ("y", fanout.mesh_y)]
    if len(letters) == 1:
        sides = [max(sides, key=itemgetter(1))]
    for letter, (axis, size) in zip(letters, sides, strict=True):
        if letter not in left:
            continue
        allowed = allowed_factors(rules.factors, found.dims[letter], left[letter])
        factor = max((factor for factor in allowed if factor <= size), default=1)
        if factor > 1:
            left[letter] //= factor
            yield SpatialLoop(found.dims[letter], factor, axis)


def _loops(factors: Sizes, found: FoundOperator) -> tuple[Loop, ...]:
    """Return the loops of a level, innermost first, without those of bound 1."""
    return tuple(
        Loop(found.dims[letter], factors[letter])
        for letter in reversed(LOOP_ORDER)
        if factors.get(letter, 1) > 1
    )


def _divisor_up_to(number: int, limit: int) -> int:
    return max(divisor for divisor in divisors(number) if divisor <= limit)
