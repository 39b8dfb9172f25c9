"""Traffic of sliding windows: the bounds against all arrangements of loops."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel
from model.cost.counting import delivered_words, displacement, distinct_offsets, extents
from model.mapspace import FactorRule, KeepRules, Mapspace, TemporalRules
from model.numbers import divisors, ordered_factorizations
from model.problem import Dataspace, Problem, Term
from solver.result import Options, Status
from solver.search import map_einsum
from solver.search.bounds.lattice_bounds import LatticeBounds
from solver.search.space.dataspaces import DataspaceView, tables, view
from solver.search.space.lattice import Lattice
from solver.search.space.search_space import SearchSpace
from solver.search.space.windows import Unrolling, relevant_words, sliding_words
from tests.solver.search.unusual import subproblems, unusual_einsum

STEPS = ((1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (2, 3), (4, 1), (-1, 1), (1, -2))


def conv_1d(random: Random) -> Dataspace:
    stride, dilation = random.choice(STEPS)
    return Dataspace("I", ((Term("P", stride), Term("R", dilation)), (Term("C"),)))


def conv_2d(random: Random) -> Dataspace:
    ranks = []
    for position, tap in ("PR", "QS"):
        stride, dilation = random.choice(STEPS)
        ranks.append((Term(position, stride), Term(tap, dilation)))
    return Dataspace("I", tuple(ranks))


def unusual(random: Random) -> Dataspace:
    while True:
        space = unusual_einsum(random)[0]
        if any(len(rank) > 1 for rank in space.ranks):
            return space


@pytest.mark.parametrize("einsum", [conv_1d, conv_2d, unusual])
@pytest.mark.parametrize("seed", range(10))
def test_no_arrangement_delivers_less(einsum: Callable[[Random], Dataspace], seed: int):
    """Words of all instances over one pass, for every split into tile, fanout and loops, and every order."""
    random = Random(seed)
    space = einsum(random)
    dims = tuple(sorted(space.dims))
    bounds = tuple(random.choice((2, 3, 4, 4, 6, 8) if len(dims) < 4 else (2, 3, 4)) for _ in dims)
    problem = Problem("p", dims, bounds, (space,))
    seen = view(space, 0, problem, dims)
    lattice = Lattice(bounds)
    own = tables(seen, lattice)
    ones = (1,) * len(dims)
    splits = list(product(*(list(ordered_factorizations(bound, 5)) for bound in bounds)))
    for split in random.sample(splits, min(len(splits), 120)):
        tile, directly, loops, farther, above = (tuple(part) for part in zip(*split, strict=True))
        place = lattice.index(tile)
        outer = tuple(a * b for a, b in zip(directly, farther, strict=True))
        known = relevant_words(seen, own, lattice, Unrolling(outer, directly), range(len(dims)))[place]
        weak = relevant_words(seen, own, lattice, Unrolling(ones, ones), range(len(dims)))[place]
        assert weak <= own.plain_words[place]
        assert known <= own.plain_words[place]
        slots = [(loops, [t * d for t, d in zip(tile, directly, strict=True)])]
        spans = [s * n * f for s, n, f in zip(slots[0][1], loops, farther, strict=True)]
        slots.append((above, spans))
        for leading, words in received(space, dims, tile, slots, random):
            led = relevant_words(seen, own, lattice, Unrolling(outer, directly), leading)[place]
            assert max(known, weak) <= words * math.prod(outer)
            assert known <= led <= words * math.prod(outer)


def received(
    space: Dataspace,
    dims: Sequence[str],
    tile: Sequence[int],
    slots: Sequence[tuple[Sequence[int], Sequence[int]]],
    random: Random,
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Innermost loops and words of one instance, for loop orders of the slots (bounds, spans) above."""
    extent = extents(space, dict(zip(dims, tile, strict=True)))
    orders = [list(permutations(d for d, n in enumerate(bounds) if n > 1)) for bounds, _ in slots]
    chosen = list(product(*orders))
    for choice in random.sample(chosen, min(len(chosen), 24)):
        loops = [
            (d, bounds[d], displacement(space, dims[d], spans[d]))
            for order, (bounds, spans) in zip(choice, slots, strict=True)
            for d in order
        ]
        yield tuple(d for d, _, _ in loops[:1]), delivered_words(extent, [own[1:] for own in loops])


def test_a_known_window():
    """Three taps over eight positions: tiles of one position and all taps share two words each."""
    space = Dataspace("I", ((Term("P"), Term("R")),))
    problem = Problem("p", ("P", "R"), (8, 3), (space,))
    seen, lattice = view(space, 0, problem, ("P", "R")), Lattice((8, 3))
    own = tables(seen, lattice)
    place = lattice.index((1, 3))
    assert own.plain_words[place] == 24
    assert sliding_words(seen, own, lattice, 0, Unrolling((1, 1), (1, 1)), (0, 1))[place] == 10
    # Two instances side by side, each at every second position: their windows overlap in one word only.
    assert sliding_words(seen, own, lattice, 0, Unrolling((2, 1), (2, 1)), (0, 1))[place] == 2 * (3 + 3 * 2)


def nests(left: tuple[int, ...]) -> Iterator[list[tuple[int, int]]]:
    """All sequences of loops (dimension, bound), innermost first, that iterate `left` times per dimension."""
    if all(count == 1 for count in left):
        yield []
    for d, count in enumerate(left):
        for bound in divisors(count)[1:]:
            rest = tuple(n // bound if e == d else n for e, n in enumerate(left))
            yield from ([(d, bound), *inner] for inner in nests(rest))


@pytest.mark.parametrize("steps", list(product((1, 2, 3, 4, 6), (1, 2, 3))))
@pytest.mark.parametrize("bounds", [(4, 3), (8, 3), (6, 4), (9, 2)])
def test_every_nest_above_a_window(steps: tuple[int, int], bounds: tuple[int, int]):
    """No sequence of loops over any number of levels delivers less, and bounds are met for most tiles."""
    space = Dataspace("I", ((Term("P", steps[0]), Term("R", steps[1])),))
    dims = ("P", "R")
    seen, lattice = view(space, 0, Problem("p", dims, bounds, (space,)), dims), Lattice(bounds)
    known = relevant_words(seen, tables(seen, lattice), lattice, Unrolling((1, 1), (1, 1)), (0, 1))
    met = 0
    for place in range(lattice.size):
        tile = lattice.vector(place)
        extent = extents(space, dict(zip(dims, tile, strict=True)))
        least = min(
            delivered_words(extent, movements(space, dims, tile, nest))
            for nest in nests(tuple(n // t for n, t in zip(bounds, tile, strict=True)))
        )
        assert known[place] <= least
        met += int(known[place]) == least
    assert 2 * met > lattice.size


def movements(
    space: Dataspace, dims: Sequence[str], tile: Sequence[int], nest: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Bounds and displacements of a nest's loops above a tile."""
    spans = list(tile)
    for d, bound in nest:
        yield bound, displacement(space, dims[d], spans[d])
        spans[d] *= bound


def test_strides_that_never_meet():
    """With stride 2 and three taps, single words share nothing, in whatever order the loops run."""
    space = Dataspace("I", ((Term("P", 2), Term("R")),))
    seen, lattice = view(space, 0, Problem("p", ("P", "R"), (8, 3), (space,)), ("P", "R")), Lattice((8, 3))
    own = tables(seen, lattice)
    words = sliding_words(seen, own, lattice, 0, Unrolling((1, 1), (1, 1)), (0, 1))
    assert words[lattice.index((1, 1))] == own.plain_words[lattice.index((1, 1))] == 24


@pytest.mark.parametrize("seed", range(40))
def test_distinct_tiles_are_a_lower_bound(seed: int):
    """Distinct tiles among unrolled children, over all tiles inside."""
    random = Random(seed)
    space = random.choice((conv_1d, conv_2d, unusual))(random)
    dims = tuple(sorted(space.dims))
    bounds = tuple(random.choice((2, 3, 4, 6, 8)) for _ in dims)
    seen: DataspaceView = view(space, 0, Problem("p", dims, bounds, (space,)), dims)
    for _ in range(60):
        split = [random.choice(list(ordered_factorizations(bound, 3))) for bound in bounds]
        moves = [
            (factor, displacement(space, dim, tile))
            for dim, (tile, factor, _) in zip(dims, split, strict=True)
        ]
        bound = seen.distinct_tiles([factor for _, factor, _ in split], bounds)
        assert 1 <= bound <= distinct_offsets(moves)


@pytest.mark.parametrize("seed", range(40))
def test_words_of_the_whole_window(seed: int):
    random = Random(seed)
    space = random.choice((conv_1d, conv_2d, unusual))(random)
    dims = tuple(sorted(space.dims))
    bounds = tuple(random.randint(2, 5) for _ in dims)
    seen = view(space, 0, Problem("p", dims, bounds, (space,)), dims)
    touched = {
        tuple(sum(t.coefficient * point[dims.index(t.dim)] for t in rank) for rank in space.ranks if rank)
        for point in product(*map(range, bounds))
    }
    assert math.prod(component.window_words for component in seen.components) == len(touched)


def test_a_window_and_sums_in_registers_of_one_word():
    """The loop that returns to an input also moves the sum: bounds that see only one of both lose a third."""

    def only(kept: str) -> KeepRules:
        return KeepRules(frozenset(kept), frozenset("WIO") - frozenset(kept))

    spaces = (
        Dataspace("W", tuple((Term(dim),) for dim in "CMRS")),
        Dataspace("I", ((Term("C"),), (Term("P"), Term("R")), (Term("Q"), Term("S")))),
        Dataspace("O", tuple((Term(dim),) for dim in "MPQ"), read_write=True),
    )
    problem = Problem("convolution", tuple("CMPQRS"), (4, 4, 14, 14, 3, 3), spaces)
    nodes = (
        StorageLevel("dram", energy=AccessEnergy(200, 200, 200)),
        StorageLevel("buffer", size_words=256, energy=AccessEnergy(6, 6, 6)),
        StorageLevel("inputs", size_words=1, energy=AccessEnergy(1, 1, 1)),
        StorageLevel("sums", size_words=1, energy=AccessEnergy(1, 1, 1)),
    )
    none = TemporalRules(tuple(FactorRule(dim, "=", 1) for dim in problem.dims))
    mapspace = Mapspace(
        problem,
        Architecture("single", nodes, Compute("mac", 1)),
        (TemporalRules(), TemporalRules(), none, none),
        (),
        (KeepRules(frozenset("WIO")), only("W"), only("I"), only("O")),
    )
    result = map_einsum(mapspace, Options(objectives=("energy",)))
    assert result.status is Status.OPTIMAL
    (sub,) = subproblems(SearchSpace(mapspace))
    blunt, sharp = (LatticeBounds(sub, result.value + 1, sharp=sharp).least for sharp in (False, True))
    assert blunt < 0.7 * result.value
    assert 0.9 * result.value < sharp <= result.value


def test_sharp_bounds_begin_with_the_tiles_that_the_incumbent_leaves():
    """All pairs of tiles are too many to look at; of those that can improve there are few."""
    dims, bounds = tuple("CMPQRSN"), (128, 128, 112, 112, 3, 3, 4)
    spaces = (
        Dataspace("W", tuple((Term(dim),) for dim in "CMRS")),
        Dataspace("I", ((Term("N"),), (Term("C"),), (Term("P"), Term("R")), (Term("Q"), Term("S")))),
        Dataspace("O", tuple((Term(dim),) for dim in "NMPQ"), read_write=True),
    )
    nodes = (
        StorageLevel("dram", energy=AccessEnergy(200_000, 200_000, 200_000)),
        StorageLevel("inputs", size_words=1 << 20, energy=AccessEnergy(62_240, 62_240, 62_240)),
        StorageLevel("registers", size_words=256, energy=AccessEnergy(1_760, 1_760, 1_760)),
    )
    every = KeepRules(frozenset("WIO"))
    mapspace = Mapspace(
        Problem("convolution", dims, bounds, spaces),
        Architecture("single", nodes, Compute("mac", 1_000)),
        (TemporalRules(),) * 3,
        (),
        (every, KeepRules(frozenset("I"), frozenset("WO")), every),
    )
    result = map_einsum(mapspace, Options(objectives=("energy",), time_limit_s=60))
    assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("sign", [1, -1])
def test_where_loops_turn_back_only_the_union_is_certain(sign: int):
    """Tiles of another window count apart only if no loops lead back to where the first one was."""
    space = Dataspace("I", ((Term("P"), Term("R", sign)), (Term("Q"), Term("S"))))
    dims, bounds = ("P", "Q", "R", "S"), (4, 4, 2, 2)
    seen, lattice = view(space, 0, Problem("p", dims, bounds, (space,)), dims), Lattice(bounds)
    ones = (1,) * len(dims)
    words = sliding_words(seen, tables(seen, lattice), lattice, 0, Unrolling(ones, ones), range(len(ones)))
    # A tile of one position has two words along Q and S, of which the next one has one as well.
    place = lattice.index((4, 1, 2, 2))
    assert words[place] == (4 + 1) * (4 * 2 if sign > 0 else 4 + 1)
