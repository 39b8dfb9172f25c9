"""Runs the loop nest of a mapping step by step, all instances in lockstep.

Each storage level that keeps a dataspace holds exactly the current tile of it in every used instance: the
bounding box of its words, with those that strides skip, cut off where a dimension ends. Steps in which
no arithmetic unit has anything to do are left out.
When a loop outside a level advances, words that are no longer in the tile leave (partial sums are written
back to the next outer level that keeps the dataspace), and words that were not in the previous tile are
delivered. An instance that lies beyond the end of a dimension for a while has nothing to do: it keeps
what its next tile holds, and what is still at its place in the nest. After a pass in which a loop that moves
the tile had a single iteration, the next tile comes whole. The arithmetic asks for its operands and its
partial sum anew in each step. Nothing is computed by formula: every count is a word seen moving.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Named
from dataclasses import dataclass, field
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from model.architecture import Architecture, Fanout, StorageLevel
from model.mapping import Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.problem import Dataspace, Problem
from tests.witness.layout import Layout
from tests.witness.storage import EMPTY, AccessCounts, Link, Store, Toll, Visits, Words, whole_visits

Array = NDArray[np.int64]


@dataclass(frozen=True)
class Execution:
    """What came out of a run.

    Parameters
    ----------
    outputs
        The read-write tensors, indexed by their ranks.
    counts
        Accesses per name of a storage level and of a dataspace that it keeps.
    steps
        Iterations of the temporal loops, one multiply-accumulate per used arithmetic unit each.
    room_words
        By name of a memory: the most words of it that the tiles at all its places took at a time, in one
        instance.
    overfull
        Memories of which that is more than there is.
    """

    outputs: dict[str, Array]
    counts: dict[tuple[str, str], AccessCounts]
    steps: int
    room_words: dict[str, int]
    overfull: frozenset[str]


@dataclass(frozen=True, slots=True)
class _NestLoop:
    """A loop of the whole nest; ``stride`` is by how much its dimension advances per iteration.

    A spatial loop has the number of its fanout, from the outermost.
    """

    node: int
    dim: str
    bound: int
    stride: int
    fanout: int | None

    @property
    def spatial(self) -> bool:
        """Whether its iterations are children of a fanout."""
        return self.fanout is not None


@dataclass(frozen=True, slots=True)
class _Step:
    """Digits of all temporal loops: the point where they stand, and the outermost loop that has advanced.

    That is number 1 for the outermost one of all, and 0 in the first step.
    """

    point: dict[str, int]
    advanced: int


@dataclass
class _Chain:
    """The stores of one dataspace, from the whole tensor to the arithmetic, and the links between them.

    ``depths`` says per link how many temporal loops lie outside its child, ``visits`` how often its child
    has moved on. ``tolls`` are those on the way, by name.
    """

    space: Dataspace
    layout: Layout
    links: tuple[Link, ...]
    depths: tuple[int, ...]
    levels: tuple[str, ...]
    tolls: Named[str, Toll]
    visits: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.visits = [-1 for _ in self.links]

    def advance(self, advanced: int) -> None:
        """Move on to the next step: tiles inside loop `advanced` change."""
        moved = [number for number, depth in enumerate(self.depths) if depth >= advanced]
        for number in moved:
            self.visits[number] += 1
        for number in reversed(moved):
            self.links[number].write_back(self.visits[number])
        for number in moved:
            self.links[number].deliver(self.visits[number])

    def drain(self) -> None:
        """Write everything back."""
        for link in reversed(self.links):
            link.write_back(None)

    @property
    def registers(self) -> list[dict[int, int]]:
        """What each arithmetic unit holds: one word and its value."""
        return [buffer.held for buffer in self.links[-1].child.buffers]

    def at_work(self) -> list[bool]:
        """Whether each arithmetic unit has anything to do in this step."""
        return [tile is not None for tile in self.links[-1].child.tiles(self.visits[-1])]

    @property
    def tensor(self) -> dict[int, int]:
        """The whole tensor, by flat position."""
        return self.links[0].parent.buffers[0].held


def execute(
    problem: Problem,
    architecture: Architecture,
    mapping: Mapping,
    operands: Named[str, Array],
) -> Execution:
    """Execute a mapping on operands and count what moves.

    The value of every read-write dataspace is the sum of the products of all operands, added to its first
    values where these are given. Link transfers
    between neighbours are not executed.

    Parameters
    ----------
    problem, architecture, mapping
        What to execute. The bounds of a dimension's loops multiply to the problem's, or the outermost one is
        what the others leave of it, rounded up.
    operands
        One integer array per read-only dataspace, and the first values of those that are given, of the shape
        of `Layout`.

    Raises
    ------
    ValueError
        If the mapping does not fit the problem or the architecture, an operand has the wrong shape, or a
        level keeps a dataspace without coalescing (its counts describe no movement of data).
    KeyError
        If an operand is missing.
    """
    _check_names(problem, mapping)
    loops = _nest(problem, architecture, mapping)
    steps = list(_steps(problem, [loop for loop in loops if not loop.spatial]))
    chains = [_chain(problem, architecture, mapping, loops, steps, space) for space in problem.dataspaces]
    for chain in chains:
        _load(chain, operands)
    memories = list(_memories(architecture, chains))
    for step in steps:
        for chain in chains:
            chain.advance(step.advanced)
        for memory in memories:
            memory.look()
        _compute(chains)
    for chain in chains:
        chain.drain()
    outputs = {c.space.name: _unload(c) for c in chains if c.space.read_write}
    counts = {
        (level, chain.space.name): link.child.counts()
        for chain in chains
        for level, link in zip(chain.levels, chain.links, strict=False)
    } | {(level, chain.space.name): toll.counts() for chain in chains for level, toll in chain.tolls.items()}
    return Execution(
        outputs,
        counts,
        len(steps),
        {memory.name: memory.most_words for memory in memories},
        frozenset(memory.name for memory in memories if memory.most_words > memory.usable_words),
    )


@dataclass
class _Memory:
    """A memory, the stores at its places with the words that a value takes, and the most they ever held."""

    name: str
    usable_words: float
    stores: list[tuple[Store, int]]
    most_words: int = 0

    def look(self) -> None:
        """Take note of what the stores hold now."""
        held = ([len(buffer.held) * size for buffer in store.buffers] for store, size in self.stores)
        self.most_words = max(self.most_words, *map(sum, zip(*held, strict=True)), 0)


def _memories(architecture: Architecture, chains: list[_Chain]) -> Iterator[_Memory]:
    """Yield the memories with the stores at all their places."""
    levels = {level.name: level for level in architecture.levels}
    for name in dict.fromkeys(level.component for level in architecture.levels):
        stores = [
            (link.child, levels[place].packing_of(chain.space.name).size_per_value)
            for chain in chains
            for place, link in zip(chain.levels, chain.links, strict=False)
            if levels[place].component == name
        ]
        room = next(level.usable_words for level in architecture.levels if level.component == name)
        yield _Memory(name, math.inf if room is None else room, stores)


def _check_names(problem: Problem, mapping: Mapping) -> None:
    """Refuse loops over what is no dimension or without iterations, and what is kept but no dataspace."""
    loops = [loop for part in mapping.nodes for loop in _loops(part)]
    unknown = {loop.dim for loop in loops} - {*problem.dims}
    if unknown:
        raise ValueError(f"there are loops over {sorted(unknown)}, no dimensions of the problem")
    if any(loop.bound < 1 for loop in loops):
        raise ValueError("the bound of a loop is below 1")
    kept = {name for part in mapping.nodes if isinstance(part, StorageMapping) for name in part.keep}
    unknown = kept - {space.name for space in problem.dataspaces}
    if unknown:
        raise ValueError(f"the mapping keeps {sorted(unknown)}, no dataspaces of the problem")


def _loops(part: NodeMapping) -> Sequence[Loop | SpatialLoop]:
    return part.temporal if isinstance(part, StorageMapping) else part.spatial


def _nest(problem: Problem, architecture: Architecture, mapping: Mapping) -> list[_NestLoop]:
    """Return all loops, outermost first."""
    if len(mapping.nodes) != len(architecture.nodes):
        raise ValueError("the mapping has not one entry per node of the architecture")
    stride = dict.fromkeys(problem.dims, 1)
    nest: list[_NestLoop] = []
    for node, part in enumerate(mapping.nodes):
        if isinstance(part, StorageMapping) != isinstance(architecture.nodes[node], StorageLevel):
            raise ValueError(f"entry {node} of the mapping is not of its node's kind")
    for node, loop in _innermost_first(problem, architecture, mapping):
        fanout = architecture.fanout_indices.index(node) if isinstance(loop, SpatialLoop) else None
        nest.append(_NestLoop(node, loop.dim, loop.bound, stride[loop.dim], fanout))
        stride[loop.dim] *= loop.bound
    for dim, bound in problem.bound.items():
        own = [loop for loop in nest if loop.dim == dim and loop.bound > 1]
        # The last one, outermost of all, begins its last iteration before the end and ends it there or later.
        inner, outer = (own[-1].stride, own[-1].bound) if own else (1, 1)
        if not (outer - 1) * inner < bound <= outer * inner:
            raise ValueError(f"the loops cover {stride} instead of {problem.bound}")
    return nest[::-1]


def _innermost_first(
    problem: Problem, architecture: Architecture, mapping: Mapping
) -> Iterator[tuple[int, Loop | SpatialLoop]]:
    """Yield the loops with their nodes.

    Where memories lie in any order, each spatial loop stands right above the first tile in a memory inside of
    its fanout that the loop's dimension indexes: then the tiles of all memories are boxes.
    """
    placed: dict[int, list[tuple[int, Loop | SpatialLoop]]] = {}
    for node, part in enumerate(mapping.nodes):
        for loop in _loops(part):
            at = node
            if architecture.has_own_order and isinstance(loop, SpatialLoop):
                at = _first_inside(
                    problem, architecture, mapping, architecture.fanout_indices.index(node), loop.dim
                )
            placed.setdefault(at, []).append((node, loop))
    for at in sorted(placed, reverse=True):
        # Spatial loops stand outside of the tile, and so of the loops below it.
        yield from sorted(placed[at], key=lambda own: (isinstance(own[1], SpatialLoop), -own[0]))


def _first_inside(
    problem: Problem, architecture: Architecture, mapping: Mapping, fanout: int, dim: str
) -> int:
    spaces = {space.name for space in problem.dataspaces if dim in space.dims}
    inside = (
        node
        for node, part in enumerate(mapping.nodes)
        if isinstance(part, StorageMapping)
        and part.keep & spaces
        and architecture.fanouts_above(node) > fanout
    )
    return next(inside, len(mapping.nodes))


def _outside(architecture: Architecture, loop: _NestLoop, place: int) -> bool:
    """Whether a loop lies outside of a place: of a spatial one, whether the hardware there is a child."""
    if loop.fanout is None:
        return loop.node < place
    return loop.fanout < (architecture.fanouts_above(place) if place >= 0 else 0)


def _chain(
    problem: Problem,
    architecture: Architecture,
    mapping: Mapping,
    loops: list[_NestLoop],
    steps: list[_Step],
    space: Dataspace,
) -> _Chain:
    layout = Layout.of(problem, space)
    kept = [
        node
        for node, part in enumerate(mapping.nodes)
        if isinstance(part, StorageMapping) and space.name in part.keep
    ]
    tolls = {node: _toll(architecture, loops, space, node) for node in kept if _has_tolls(architecture, node)}
    kept = [node for node in kept if node not in tolls]
    if not kept:
        raise ValueError(f"no level keeps {space.name}")
    tolls = {node: toll for node, toll in tolls.items() if node > kept[0]}
    # The whole tensor lies outside of all nodes, the arithmetic inside of them.
    places = [-1, *kept, len(mapping.nodes)]
    stores = [
        _store(architecture, space, place, _visits(problem, architecture, loops, steps, place, layout))
        for place in places
    ]
    ways = [_way(architecture, loops, space, tolls, a, b) for a, b in pairwise(places)]
    links = tuple(
        Link(parent, child, way, space.read_write, fills_counted=parent is not stores[0])
        for (parent, child), way in zip(pairwise(stores), ways, strict=True)
    )
    depths = tuple(sum(not loop.spatial and loop.node < place for loop in loops) for place in places[1:])
    names = tuple(architecture.nodes[node].name for node in kept)
    return _Chain(space, layout, links, depths, names, {architecture.nodes[n].name: tolls[n] for n in tolls})


def _has_tolls(architecture: Architecture, place: int) -> bool:
    level = architecture.nodes[place]
    return isinstance(level, StorageLevel) and bool(level.tolls)


def _toll(architecture: Architecture, loops: list[_NestLoop], space: Dataspace, place: int) -> Toll:
    level = architecture.nodes[place]
    assert isinstance(level, StorageLevel)
    instances = math.prod(
        loop.bound for loop in loops if loop.spatial and _outside(architecture, loop, place)
    )
    down, up = level.charges(space.name, "down"), level.charges(space.name, "up")
    return Toll(instances, down, up, elides_first_touch=not space.given)


def _extents(architecture: Architecture, loops: list[_NestLoop], place: int) -> dict[str, int]:
    """Extents of the box of iterations that a tile at `place` serves."""
    extents: dict[str, int] = {}
    for loop in loops:
        if not _outside(architecture, loop, place):
            extents[loop.dim] = extents.get(loop.dim, 1) * loop.bound
    return extents


def _visits(
    problem: Problem,
    architecture: Architecture,
    loops: list[_NestLoop],
    steps: list[_Step],
    place: int,
    layout: Layout,
) -> tuple[Visits, ...]:
    """Per instance at `place`, its tiles whenever a loop outside advances."""
    across = [loop for loop in loops if loop.spatial and _outside(architecture, loop, place)]
    across.sort(key=lambda loop: loop.node)
    depth = sum(not loop.spatial and loop.node < place for loop in loops)
    points = [step.point for step in steps if step.advanced <= depth]
    above = [loop for loop in loops if not loop.spatial and loop.node < place and loop.bound > 1]
    digits = [[point[loop.dim] // loop.stride % loop.bound for loop in above] for point in points]
    moves = [loop.dim in layout.dims for loop in above]
    extents = _extents(architecture, loops, place)
    found: list[Visits] = []
    for index in product(*(range(loop.bound) for loop in across)):
        tiles, covered = _tiles(problem, layout, extents, points, _offset(across, index))
        anew = whole_visits([tile is not None for tile in tiles], digits, moves)
        found.append(Visits(tiles, covered, anew))
    return tuple(found)


def _offset(across: Sequence[_NestLoop], index: Sequence[int]) -> dict[str, int]:
    """By dimension, how far an instance is from the first one."""
    offset: dict[str, int] = {}
    for digit, loop in zip(index, across, strict=True):
        offset[loop.dim] = offset.get(loop.dim, 0) + digit * loop.stride
    return offset


def _tiles(
    problem: Problem,
    layout: Layout,
    extents: Named[str, int],
    points: Sequence[Named[str, int]],
    offset: Named[str, int],
) -> tuple[tuple[Words | None, ...], tuple[Words, ...]]:
    """Return an instance's tiles, and what it would have as a tile if it had anything to do."""
    tiles: list[Words | None] = []
    covered: list[Words] = []
    for point in points:
        start = {dim: at + offset.get(dim, 0) for dim, at in point.items()}
        left = {dim: min(extents.get(dim, 1), problem.bound[dim] - at) for dim, at in start.items()}
        inside = all(left[term.dim] > 0 for rank in layout.ranks for term in rank)
        covered.append(layout.touched(start, left) if inside else EMPTY)
        tiles.append(covered[-1] if min(left.values()) > 0 else None)
    return tuple(tiles), tuple(covered)


def _store(architecture: Architecture, space: Dataspace, place: int, visits: tuple[Visits, ...]) -> Store:
    if place < 0:
        return Store(visits)
    if place == len(architecture.nodes):
        return Store(visits, temporal_reuse=False)
    level = architecture.nodes[place]
    assert isinstance(level, StorageLevel)
    if space.name in level.no_coalesce:
        raise ValueError(f"{level.name} keeps {space.name} without coalescing, which is not executed")
    return Store(
        visits,
        temporal_reuse=space.name not in level.no_temporal_reuse,
        elides_first_touch=not space.given and space.name not in level.rmw_first_update,
    )


def _way(
    architecture: Architecture,
    loops: list[_NestLoop],
    space: Dataspace,
    tolls: Named[int, Toll],
    outer: int,
    inner: int,
) -> tuple[tuple[int, bool] | Toll, ...]:
    """Return the tolls and fanouts between two places: the children in use, and if multicast reaches them."""
    way: list[tuple[int, bool] | Toll] = []
    first, last = (architecture.fanouts_above(place) if place >= 0 else 0 for place in (outer, inner))
    crossed = {*architecture.fanout_indices[first:last], *range(outer + 1, inner)}
    for place in sorted(crossed):
        node = architecture.nodes[place]
        if isinstance(node, Fanout):
            if place not in architecture.fanout_indices[first:last]:
                continue
            used = math.prod(loop.bound for loop in loops if loop.node == place)
            way.append((used, space.name not in node.no_multicast))
        elif place in tolls:
            way.append(tolls[place])
    return tuple(way)


def _steps(problem: Problem, temporal: list[_NestLoop]) -> Iterator[_Step]:
    """Yield the steps in which the first arithmetic unit, and with it any, has something to do."""
    last: tuple[int, ...] = ()
    for index in product(*(range(loop.bound) for loop in temporal)):
        point = dict.fromkeys(problem.dims, 0)
        for i, loop in zip(index, temporal, strict=True):
            point[loop.dim] += i * loop.stride
        if any(at >= problem.bound[dim] for dim, at in point.items()):
            continue
        advanced = next((n for n, (a, b) in enumerate(zip(last, index, strict=False)) if a != b), -1)
        last = index
        yield _Step(point, advanced + 1)


def _compute(chains: list[_Chain]) -> None:
    """One multiply-accumulate in each arithmetic unit that has work, from registers to registers."""
    operands = [chain.registers for chain in chains if not chain.space.read_write]
    results = [chain.registers for chain in chains if chain.space.read_write]
    for unit, works in enumerate(chains[0].at_work()):
        if not works:
            continue
        term = math.prod(value for registers in operands for value in registers[unit].values())
        for registers in results:
            (word,) = registers[unit]
            registers[unit][word] += term


def _load(chain: _Chain, operands: Named[str, Array]) -> None:
    shape = chain.layout.shape
    if chain.space.read_write and not chain.space.given:
        chain.tensor.update(dict.fromkeys(range(math.prod(shape)), 0))
        return
    values = operands[chain.space.name]
    if values.shape != shape:
        raise ValueError(f"{chain.space.name} has the shape {values.shape} instead of {shape}")
    chain.tensor.update(enumerate(values.ravel().tolist()))


def _unload(chain: _Chain) -> Array:
    flat = [chain.tensor[position] for position in range(math.prod(chain.layout.shape))]
    return np.array(flat, dtype=np.int64).reshape(chain.layout.shape)
