"""SMAUG's tiling as a mapper: one mapping of the nearest tiles; nothing is priced.

The outermost level has SMAUG's loops over tiles: batches, rows, columns, features, channels, from the outside
in; loops over groups lie around them. What is within a tile runs at the innermost scratchpad and on the
fanouts below.

With perfect factors, where a tile does not divide its dimension, or tiles of two tensors disagree, the
largest divisor that is not larger than any of them is taken: the nearest one that is sure to fit. Each such
place is reported in a `Rounding`. With any factors the last tile of a dimension may be short, so that only
the tiles of scratchpads within each other have to divide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from model.architecture import Fanout
from model.choices import allowed_factors
from model.extents import ANY, PERFECT, Factors, tiles_of
from model.mapping import Axis, FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace, ParallelGroup, SpatialRules
from model.numbers import divisors
from model.problem import Dataspace, Problem, Term
from model.tiling.operators import INPUTS, OUTPUTS, WEIGHTS, Convolution, InnerProduct
from model.tiling.tilings import Backend, Tiling
from solver.heuristics.interface import MapperError
from solver.heuristics.pricing import Pricing
from solver.heuristics.smaug.tile_shapes import CannotTile
from solver.heuristics.smaug.tiler import tile

WEIGHT_NAMES = ("weight", "filter", "kernel")
"""How names of weights begin, in lower case; needed where both operands look alike."""


@dataclass(frozen=True)
class FoundOperator:
    """An operator and what its parts are called in the problem."""

    # What is computed, without padding: the problem's inputs are as large as its windows reach.
    operator: Convolution | InnerProduct
    dataspaces: dict[str, str]  # name of the problem's dataspace by name of the operator's tensor
    # Dimension of the problem by letter: N batch, P and Q rows and columns of outputs, K output features, C
    # channels, R and S rows and columns of the filter. Missing letters have the size 1.
    dims: dict[str, str]
    # Dimensions that index all tensors: each of their points is a separate operator.
    groups: tuple[str, ...] = ()


def find_operator(problem: Problem) -> FoundOperator:
    """Return the operator that a problem is."""
    outputs = [space for space in problem.dataspaces if space.read_write]
    operands = [space for space in problem.dataspaces if not space.read_write]
    if len(outputs) != 1 or len(operands) != 2 or any(len(rank) > 1 for rank in outputs[0].ranks):
        raise MapperError("SMAUG tiles convolutions and matrix products: two operands, one output")
    windowed = [space for space in operands if any(len(rank) > 1 for rank in space.ranks)]
    if len(windowed) > 1:
        raise MapperError("both operands have ranks of more than one dimension; in a convolution one has")
    inputs = windowed[0] if windowed else _inputs_of_product(operands)
    weights = operands[1] if operands[0] is inputs else operands[0]
    names = {INPUTS: inputs.name, WEIGHTS: weights.name, OUTPUTS: outputs[0].name}
    groups = tuple(
        dim
        for dim in problem.dims
        if dim in inputs.dims & weights.dims & outputs[0].dims and problem.bound[dim] > 1
    )
    dims = _shared_dims(problem, inputs, weights, outputs[0])
    if not windowed:
        return FoundOperator(_inner_product(problem, dims), names, dims, groups)
    windows = [rank for rank in inputs.ranks if len(rank) > 1]
    if len(windows) > 2:
        raise MapperError("SMAUG's convolutions have windows along two ranks at most")
    strides = (1, 1)
    for number, rank in enumerate(windows):
        place, offset = _window(problem, rank, outputs[0], weights)
        dims |= {"PQ"[number]: place.dim, "RS"[number]: offset.dim}
        strides = (place.coefficient, 1) if number == 0 else (strides[0], place.coefficient)
    return FoundOperator(_as_convolution(problem, dims, strides), names, dims, groups)


def _inputs_of_product(operands: Sequence[Dataspace]) -> Dataspace:
    """Return the operand that is not named like weights; the first one if neither or both are."""
    others = [space for space in operands if not space.name.lower().startswith(WEIGHT_NAMES)]
    return others[0] if others else operands[0]


def _shared_dims(
    problem: Problem, inputs: Dataspace, weights: Dataspace, outputs: Dataspace
) -> dict[str, str]:
    """Return batch, features and channels: the dimensions of exactly two tensors outside of windows."""
    groups = inputs.dims & weights.dims & outputs.dims
    of_inputs, of_weights, of_outputs = (
        {dim for dim in space.dims - groups if problem.bound[dim] > 1} for space in (inputs, weights, outputs)
    )
    in_windows = {term.dim for rank in inputs.ranks if len(rank) > 1 for term in rank}
    found = {
        "N": (of_inputs & of_outputs) - in_windows,
        "K": of_weights & of_outputs,
        "C": (of_inputs & of_weights) - in_windows,
    }
    covered = in_windows.union(groups, *found.values())
    rest = {dim for dim in problem.dims if problem.bound[dim] > 1} - covered
    if rest or any(len(dims) > 1 for dims in found.values()):
        raise MapperError("SMAUG has one dimension each for batches, output features and channels")
    return {letter: next(iter(dims)) for letter, dims in found.items() if dims}


def _window(
    problem: Problem, rank: tuple[Term, ...], outputs: Dataspace, weights: Dataspace
) -> tuple[Term, Term]:
    """Return which term of a rank of inputs is the place of the window, and which the offset in it."""
    places = [term for term in rank if term.dim in outputs.dims and term.dim not in weights.dims]
    offsets = [term for term in rank if term.dim in weights.dims and term.dim not in outputs.dims]
    if len(rank) != 2 or len(places) != 1 or len(offsets) != 1:
        raise MapperError("a rank of the inputs is not the place of a window plus an offset in it")
    place, offset = places[0], offsets[0]
    if offset.coefficient != 1 and problem.bound[offset.dim] > 1:
        raise MapperError("SMAUG does not tile dilated convolutions")
    if place.coefficient < 1:
        raise MapperError("a window's stride is negative")
    return place, offset


def _inner_product(problem: Problem, dims: dict[str, str]) -> InnerProduct:
    batch, features, channels = (_bound_or_one(problem, dims, letter) for letter in "NKC")
    return InnerProduct((batch, channels), features)


def _as_convolution(problem: Problem, dims: dict[str, str], strides: tuple[int, int]) -> Convolution:
    batch, features, channels = (_bound_or_one(problem, dims, letter) for letter in "NKC")
    kernel = (_bound_or_one(problem, dims, "R"), _bound_or_one(problem, dims, "S"))
    height, width = (
        (_bound_or_one(problem, dims, letter) - 1) * stride + field
        for letter, stride, field in zip("PQ", strides, kernel, strict=True)
    )
    return Convolution((batch, height, width, channels), kernel, features, strides)


def _bound_or_one(problem: Problem, dims: dict[str, str], letter: str) -> int:
    return problem.bound[dims[letter]] if letter in dims else 1


@dataclass(frozen=True)
class Scratchpads:
    """Where the tiles lie."""

    # Position in ``architecture.levels`` of each dataspace's scratchpad, by the dataspace's name.
    level_of: dict[str, int]
    # Words of a tile (values of its dataspace): what each gets of the smallest scratchpad, which all that it
    # keeps share equally.
    capacity: int


def find_scratchpads(mapspace: Mapspace) -> Scratchpads:
    """Return the outermost levels of limited size that may keep each dataspace."""
    level_of = {space.name: _first_level(mapspace, space.name) for space in mapspace.problem.dataspaces}
    for group in mapspace.parallel:
        level_of = _separated(mapspace, group, level_of)
    capacity = min(_values_that_fit(mapspace, number, level_of) for number in level_of.values())
    return Scratchpads(level_of, capacity)


def _first_level(mapspace: Mapspace, dataspace: str) -> int:
    architecture = mapspace.architecture
    allowed = [
        number
        for number, level in enumerate(architecture.levels)
        if number > 0 and level.size_words is not None and dataspace not in mapspace.keep[number].bypass
    ]
    if not allowed:
        raise MapperError(f"no level of limited size below the outermost one may keep {dataspace}")
    position = architecture.storage_indices[allowed[0]]
    if architecture.instances_above(position) > 1:
        name = architecture.nodes[position].name
        raise MapperError(
            f"{dataspace} is first kept in {name}, below a fanout; SMAUG needs two levels of tiles above it"
        )
    return allowed[0]


def _separated(mapspace: Mapspace, group: ParallelGroup, level_of: dict[str, int]) -> dict[str, int]:
    """Give each dataspace a separate level among parallel ones, if there are enough."""
    spread = dict(level_of)
    free = list(group.levels)
    for name in (name for name, number in level_of.items() if number in group.levels):
        fitting = [number for number in free if name not in mapspace.keep[number].bypass]
        if fitting:
            spread[name] = fitting[0]
            free.remove(fitting[0])
    return spread


def kept_at(mapspace: Mapspace, level_of: dict[str, int], number: int) -> frozenset[str]:
    """Return what a level keeps: all it may if it is the outermost, else what it holds or must keep."""
    if number == 0:
        return frozenset(space.name for space in mapspace.problem.dataspaces) - mapspace.keep[0].bypass
    held = {name for name, level in level_of.items() if level == number}
    return mapspace.keep[number].keep | held


def _values_that_fit(mapspace: Mapspace, number: int, level_of: dict[str, int]) -> int:
    """Values of any dataspace that fit into an equal share of a level."""
    level, kept = mapspace.architecture.levels[number], kept_at(mapspace, level_of, number)
    widest = max(level.packing_of(name).size_per_value for name in kept)
    return (level.usable_words or 0) // (len(kept) * widest)


LOOP_ORDER = "NPQKCRS"
"""Letters of the loops from the outermost to the innermost."""

Sizes = dict[str, int]
"""Size of a tile along each dimension, by the dimension's letter."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """Where a mapping's tile is not the tiling's: `wanted` and `used` elements of dimension `dim`."""

    dataspace: str
    dim: str
    bound: int  # that of the dimension
    wanted: int
    used: int

    def __str__(self) -> str:
        if self.bound % self.used:
            instead = f"{self.used} of {self.dim} instead of {self.wanted} in a tile"
            return f"{self.dataspace}: {instead}, as tiles of all tensors share their loops"
        why = f"{self.wanted} does not divide {self.bound}"
        if self.bound % self.wanted == 0:
            why = "tiles of all tensors share their loops"
        return (
            f"{self.dataspace}: {self.used} of {self.dim} instead of {self.wanted} in a tile, "
            f"the largest divisor that fits, as {why}"
        )


@dataclass(frozen=True)
class TiledMapspace:
    """A tiling of a mapspace's problem for its scratchpads, and the mapping nearest to it."""

    tiling: Tiling
    mapping: Mapping
    roundings: tuple[Rounding, ...]  # where its tiles are not those of the tiling


def tiling_mapping(
    tiling: Tiling, found: FoundOperator, mapspace: Mapspace, scratchpads: Scratchpads
) -> TiledMapspace:
    """Return the nearest mapping to `tiling`, whether the rules of the mapspace allow it or not."""
    wanted = _wanted(tiling)
    bounds = {letter: mapspace.problem.bound[dim] for letter, dim in found.dims.items()}
    tiles = _nested_tiles(wanted, bounds, found, scratchpads, mapspace.factors)
    roundings = tuple(_roundings(wanted, tiles, bounds, found, scratchpads))
    nodes = _mapping_nodes(tiles, bounds, found, mapspace, scratchpads)
    return TiledMapspace(tiling, Mapping(nodes), roundings)


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
    wanted: dict[str, Sizes], bounds: Sizes, found: FoundOperator, scratchpads: Scratchpads, kind: Factors
) -> dict[int, Sizes]:
    """Return the tile within each scratchpad, outermost first: each divides the one around it.

    With any factors, the first one that is short of a dimension need not divide it.

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
        whole = {letter for letter, bound in bounds.items() if kind == ANY and around[letter] == bound}
        around = {
            letter: min(around[letter], limits[letter])
            if letter in whole
            else _divisor_up_to(around[letter], limits[letter])
            for letter in bounds
        }
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


def _mapping_nodes(
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
    spatial = _filled_fanouts(left, found, mapspace, architecture.storage_indices[innermost])
    around = [bounds, *tiles.values()]
    within = [*tiles.values(), dict.fromkeys(bounds, 1)]
    temporal = {
        level: _temporal_loops({letter: tiles_of(outer[letter], inner[letter]) for letter in bounds}, found)
        for level, outer, inner in zip((0, *tiles), around, within, strict=True)
    }
    temporal[innermost] = _temporal_loops(left, found)
    temporal[0] += tuple(Loop(dim, mapspace.problem.bound[dim]) for dim in found.groups)
    nodes: list[NodeMapping] = []
    for position, node in enumerate(architecture.nodes):
        if isinstance(node, Fanout):
            nodes.append(FanoutMapping(spatial.get(position, ())))
            continue
        level = architecture.storage_indices.index(position)
        nodes.append(StorageMapping(temporal.get(level, ()), kept_at(mapspace, scratchpads.level_of, level)))
    return tuple(nodes)


def _filled_fanouts(
    left: Sizes, found: FoundOperator, mapspace: Mapspace, above: int
) -> dict[int, tuple[SpatialLoop, ...]]:
    """Fill the fanouts below `above` from what is `left` of a tile: features outermost, then channels."""
    positions = [position for position in mapspace.architecture.fanout_indices if position > above]
    letters = ("KC",) if len(positions) == 1 else ("K", "C")
    loops: dict[int, tuple[SpatialLoop, ...]] = {}
    for position, along in zip(positions, letters, strict=False):
        rules = mapspace.spatial[mapspace.architecture.fanout_indices.index(position)]
        fanout = mapspace.architecture.nodes[position]
        assert isinstance(fanout, Fanout)  # positions are those of fanouts
        loops[position] = tuple(_spatial_loops(fanout, rules, along, left, found, mapspace))
    return loops


def _spatial_loops(
    fanout: Fanout, rules: SpatialRules, letters: str, left: Sizes, found: FoundOperator, mapspace: Mapspace
) -> Iterator[SpatialLoop]:
    """Yield loops that fill a mesh as far as the rules on factors allow: X and Y, or its longer side."""
    sides: list[tuple[Axis, int]] = [("x", fanout.mesh_x), ("y", fanout.mesh_y)]
    if len(letters) == 1:
        sides = [max(sides, key=itemgetter(1))]
    for letter, (axis, size) in zip(letters, sides, strict=True):
        if letter not in left:
            continue
        dim = found.dims[letter]
        # A tile that is short of its dimension has to be whole, so that its loops have no remainders.
        kind = mapspace.factors if left[letter] == mapspace.problem.bound[dim] else PERFECT
        allowed = allowed_factors(rules.factors, dim, left[letter], kind)
        most = max((factor for factor in allowed if factor <= size), default=1)
        # Of those that leave as many rounds, the least: it uses no more children than it has to.
        rounds = tiles_of(left[letter], most)
        factor = min((factor for factor in allowed if tiles_of(left[letter], factor) == rounds), default=1)
        if factor > 1:
            left[letter] = rounds
            yield SpatialLoop(dim, factor, axis)


def _temporal_loops(factors: Sizes, found: FoundOperator) -> tuple[Loop, ...]:
    """Return the loops of a level, innermost first, without those of bound 1."""
    return tuple(
        Loop(found.dims[letter], factors[letter])
        for letter in reversed(LOOP_ORDER)
        if factors.get(letter, 1) > 1
    )


def _divisor_up_to(number: int, limit: int) -> int:
    return max(divisor for divisor in divisors(number) if divisor <= limit)


class SmaugTiling:
    """Fills scratchpads with SMAUG's tiles, and loops over them in SMAUG's order.

    It maps convolutions and matrix products onto architectures whose on-chip levels that are not below a
    fanout can keep all tensors. The tiles are chosen for the size of these scratchpads, without padding;
    `num_pes` and `num_maccs_per_pe` are step and minimum of their output features and of their channels.
    """

    def __init__(self, num_pes: int = 8, num_maccs_per_pe: int = 32) -> None:
        if min(num_pes, num_maccs_per_pe) < 1:
            raise ValueError("num_pes and num_maccs_per_pe must be at least 1")
        self._num_pes = num_pes
        self._num_maccs_per_pe = num_maccs_per_pe

    def find_mapping(self, mapspace: Mapspace, pricing: Pricing) -> Mapping:
        """Return the mapping that comes nearest to SMAUG's tiling, and note where it departs from it."""
        tiled = self.tile(mapspace)
        for rounding in tiled.roundings:
            pricing.note(str(rounding))
        return tiled.mapping

    def tile(self, mapspace: Mapspace) -> TiledMapspace:
        """Tile the problem for the architecture's scratchpads; MapperError if that cannot be done."""
        found = find_operator(mapspace.problem)
        scratchpads = find_scratchpads(mapspace)
        backend = Backend(
            name=mapspace.architecture.name,
            num_pes=self._num_pes,
            num_maccs_per_pe=self._num_maccs_per_pe,
            vector_size=1,
            spad_bytes=scratchpads.capacity,
            element_bytes=1,
            alignment=1,
        )
        try:
            tiling = tile(found.operator, backend)
        except CannotTile as error:
            raise MapperError(f"SMAUG cannot tile {found.operator.name}: {error}") from error
        return tiling_mapping(tiling, found, mapspace, scratchpads)
