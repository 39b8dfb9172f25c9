"""Least words of windows with remainders, held against what random mappings deliver."""

import math
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, replace
from random import Random

import pytest

from model.architecture import Fanout, Node, StorageLevel
from model.cost import evaluate
from model.extents import ANY
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace
from model.problem import Dataspace, Problem, Term
from solver.search.arrays import IntArray
from solver.search.space.counts import CountLattice
from solver.search.space.remainders import union_along, words_along
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import used_above
from solver.search.space.windows import Unrolling
from tests.mapspaces import free_mapspace
from tests.slow import few
from tests.solver.search.vectors import index_of

MAPPINGS = 25
"""Of each mapspace."""

LARGEST_FANOUT = 64


def convolution(random: Random) -> Problem:
    """A window over P and R, with output channels, input channels, groups or another window beside it."""
    window = (Term("P", random.choice((1, 1, 1, 2, 3))), Term("R", random.choice((1, 1, 1, 2, -1))))
    other = (Term("Q", random.choice((1, 1, 2))), Term("S"))
    bounds = {"P": random.choice((5, 6, 7, 9, 11, 14, 17)), "R": random.choice((2, 3, 4, 5, 7))}
    beside = random.choice(("K", "C", "QS", "GQS", "KQS"))
    bounds |= {d: random.choice((2, 3)) for d in beside}
    bounds |= {"Q": random.choice((2, 3, 5, 7))} if "Q" in beside else {}
    channel = tuple((Term(d),) for d in beside if d in "CG")
    inputs = (*channel, window, *((other,) if "Q" in beside else ()))
    spaces = (
        Dataspace("I", inputs),
        Dataspace("W", tuple((Term(d),) for d in bounds if d not in "PQ")),
        Dataspace("O", tuple((Term(d),) for d in bounds if d not in "RSC"), read_write=True),
    )
    return Problem("convolution", tuple(bounds), tuple(bounds.values()), spaces)


def mapspace(random: Random) -> Mapspace:
    """One or two memories, each below up to two fanouts in a row."""
    nodes: list[Node] = [StorageLevel("DRAM")]
    for level in range(random.choice((1, 1, 2))):
        for number in range(random.choice((0, 1, 1, 2))):
            nodes.append(Fanout(f"F{level}{number}", LARGEST_FANOUT))
        nodes.append(StorageLevel(f"L{level}"))
    return replace(free_mapspace(convolution(random), *nodes), factors=ANY)


@dataclass(frozen=True)
class Drawn:
    """A mapping, and for each node its factors and the numbers of tiles inside, outermost first."""

    mapping: Mapping
    factors: Sequence[Dictionary[str, int]]
    tiles: Sequence[Dictionary[str, int]]


def draw(random: Random, own: Mapspace) -> Drawn:
    """Any mapping that keeps everything everywhere; a loop never has more iterations than there are tiles."""
    rest = own.problem.bound.copy()
    parts: list[NodeMapping] = []
    factors: list[Dictionary[str, int]] = []
    tiles: list[Dictionary[str, int]] = []
    for place, node in reversed(list(enumerate(own.architecture.nodes))):
        tiles.append(rest.copy())
        chosen: dict[str, int] = {}
        for d in random.sample(own.problem.dims, len(own.problem.dims)):
            chosen[d] = rest[d] if place == 0 else _factor(random, node, rest[d], math.prod(chosen.values()))
            rest[d] = -(-rest[d] // chosen[d])
        factors.append(chosen)
        loops = [(d, f) for d, f in chosen.items() if f > 1]
        if isinstance(node, Fanout):
            parts.append(FanoutMapping(tuple(SpatialLoop(d, f, "x") for d, f in loops)))
        else:
            names = frozenset(space.name for space in own.problem.dataspaces)
            parts.append(StorageMapping(tuple(Loop(d, f) for d, f in loops), names))
    return Drawn(Mapping(tuple(parts[::-1])), factors[::-1], tiles[::-1])


def _factor(random: Random, node: Node, most: int, others: int) -> int:
    if isinstance(node, StorageLevel):
        return random.choice((1, random.randint(1, most), random.randint(1, min(3, most))))
    factor = random.choice((1, 1, random.randint(1, min(4, most))))
    return factor if factor * others <= LARGEST_FANOUT else 1


def unrolling(space: SearchSpace, drawn: Drawn, level: int) -> tuple[Unrolling, Sequence[int]]:
    """What bounds know of the fanouts above a level, and how many children are surely used, per dimension."""
    nodes = zip(space.architecture.nodes, drawn.factors, strict=True)
    every_fanout = [tuple(own[d] for d in space.active) for node, own in nodes if isinstance(node, Fanout)]
    stages, used = [], []
    for below in space.fanouts_below[:level]:
        fanouts = [every_fanout[number] for number in below]
        used.append(used_above(fanouts, len(space.active)))
        stages.append(tuple(math.prod(own) for own in zip((1,) * len(space.active), *fanouts, strict=True)))
    return space.unrolling(stages, used), used_above(used, len(space.active))


def innermost_loop(drawn: Drawn, place: int) -> str | None:
    """The dimension of the innermost temporal loop outside of a node."""
    nodes = [
        node for node in drawn.mapping.nodes[:place] if isinstance(node, StorageMapping) and node.temporal
    ]
    return nodes[-1].temporal[0].dim if nodes else None


def entry(table: IntArray, lattice: CountLattice, index: int) -> int:
    """What a table has for the vector at a linear index."""
    return int(lattice.spread(table)[index])


def bounds_and_words(space: SearchSpace, drawn: Drawn) -> Iterator[tuple[int, int]]:
    """Least words of inputs, and those that the mapping delivers, memory by memory."""
    own = space.mapspace
    lattice, view = space.lattice, space.views[0]
    assert isinstance(lattice, CountLattice)
    cost = evaluate(own.problem, own.architecture, drawn.mapping)
    for level, place in list(enumerate(space.architecture.storage_indices))[1:]:
        tiles = [drawn.tiles[place - 1][d] for d in space.active]
        index = index_of(lattice, [-(-bound // n) for bound, n in zip(lattice.bounds, tiles, strict=True)])
        above, used = unrolling(space, drawn, level)
        copies = math.prod(used[d] for d in view.irrelevant)
        words = cost.levels[level].dataspace("I").total_fills
        yield entry(union_along(view, lattice, above), lattice, index) * copies, words
        loop = innermost_loop(drawn, place)
        lead = None if loop is None else space.active.index(loop)
        if lead not in view.relevant:
            continue
        least = words_along(view, lattice, above, (lead,))
        repeated, begun = (entry(own, lattice, index) for own in (least.repeated, least.begun))
        again = math.prod(tiles[d] for d in view.irrelevant)
        yield repeated * again + (begun - repeated) * copies, words


def test_tiles_that_lie_apart_share_nothing():
    # Children that take turns: each needs all three rows of the filter around each of its rows.
    line = Dataspace("I", ((Term("P"), Term("R")),))
    problem = Problem("line", ("P", "R"), (56, 3), (line,))
    space = SearchSpace(replace(free_mapspace(problem, StorageLevel("DRAM")), factors=ANY))
    lattice = space.lattice
    assert isinstance(lattice, CountLattice)
    index = index_of(lattice, (1, 2))

    def union(children: int) -> int:
        unrolling = space.unrolling([(children, 1)], [(children, 1)])
        return entry(union_along(space.views[0], lattice, unrolling), lattice, index)

    assert [union(1), union(2), union(4)] == [58, 56 * 2 + 2, 56 * 3]


@pytest.mark.parametrize("seed", few((2, 0, 1)))
def test_no_mapping_delivers_fewer_words(seed: int):
    random, tight = Random(seed), 0
    for space in (SearchSpace(mapspace(random)) for _ in range(10)):
        for drawn in (draw(random, space.mapspace) for _ in range(MAPPINGS)):
            for least, words in bounds_and_words(space, drawn):
                assert least <= words
                tight += least == words
    assert tight > 20


PASSES_OF_SINGLE_TILES = (1002, 1074, 1236, 1317, 1549, 1572, 1581, 1704, 1807, 2101, 2142)
"""Seeds of mapspaces with a mapping in which the last pass of an instance has a single tile."""


@pytest.mark.parametrize("seed", PASSES_OF_SINGLE_TILES)
def test_the_last_pass_of_an_instance_may_have_a_single_tile(seed: int):
    random = Random(seed)
    space = SearchSpace(mapspace(random))
    for drawn in (draw(random, space.mapspace) for _ in range(MAPPINGS)):
        assert all(least <= words for least, words in bounds_and_words(space, drawn))
