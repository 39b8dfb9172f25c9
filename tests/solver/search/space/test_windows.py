"""Traffic of sliding windows: the bounds against all arrangements of loops."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import permutations, product
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel
from model.counting import COUNTINGS, EXACT, TIMELOOP, Counting, rule_of
from model.counting.words import displacement, distinct_offsets, extents
from model.extents import ANY, PERFECT
from model.mapspace import FactorRule, KeepRules, Mapspace, TemporalRules
from model.numbers import divisors
from model.problem import Dataspace, Problem, Term
from solver.result import Options, Status
from solver.search import map_by_bounds
from solver.search.arrays import IntArray
from solver.search.space.dataspaces import DataspaceView, tables, view
from solver.search.space.lattice import Lattice
from solver.search.space.windows import (
    LeastWords,
    Unrolling,
    relevant_words,
    union_words,
)
from tests.bruteforce import ordered_factorizations
from tests.slow import few
from tests.solver.search.unusual import unusual_einsum
from tests.solver.search.vectors import index_of, vector_at

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


def three_ranks(random: Random) -> Dataspace:
    """Windows along three ranks, of one tap or two, or a dimension that two ranks share."""
    ranks = []
    for position, tap in ("PR", "QS", "TR"):
        stride, dilation = random.choice(STEPS)
        ranks.append((Term(position, stride), Term(tap, dilation)))
    return Dataspace("I", tuple(ranks))


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("einsum", [conv_1d, conv_2d, three_ranks, unusual])
@pytest.mark.parametrize("seed", few(range(4), 2))
def test_no_arrangement_delivers_less(einsum: Callable[[Random], Dataspace], seed: int, counting: Counting):
    """Words of all instances, for every split into tile, fanout and loops, and every order.

    Loops over M leave the tile in place: they repeat what is delivered, unless they are innermost.
    """
    random = Random(seed)
    space = einsum(random)
    dims = (*sorted(space.dims), "M")
    bounds = (*(random.choice((2, 3, 4, 4, 6, 8) if len(dims) < 5 else (2, 3, 4)) for _ in dims[1:]), 6)
    seen = view(space, 0, Problem("p", dims, bounds, (space,)), dims)
    lattice = Lattice(bounds)
    own = tables(seen, lattice)

    def least(unrolling: Unrolling, leading: Collection[int] = range(len(dims))) -> LeastWords:
        words = relevant_words(seen, own, lattice, unrolling, leading, counting)
        return LeastWords(*(figures[place] for figures in words))

    splits = list(product(*(list(ordered_factorizations(bound, 5)) for bound in bounds[:-1])))
    for split in random.sample(splits, min(len(splits), 50)):
        still = random.choice(((1, 1, 2, 1, 3), (2, 1, 3, 1, 1), (3, 1, 1, 1, 2), (6, 1, 1, 1, 1)))
        tile, directly, loops, farther, above = (tuple(part) for part in zip(*split, still, strict=True))
        place = index_of(lattice, tile)
        outer = tuple(a * b for a, b in zip(directly, farther, strict=True))
        unrolling = Unrolling(outer, directly)
        known, weak = least(unrolling), least(Unrolling((1,) * len(dims), (1,) * len(dims)))
        union = union_words(seen, own, lattice, unrolling, counting)[place]
        assert max(*known, *weak) <= own.plain_words[place]
        slots = [(loops, [t * d for t, d in zip(tile, directly, strict=True)])]
        spans = [s * n * f for s, n, f in zip(slots[0][1], loops, farther, strict=True)]
        slots.append((above, spans))
        for leading, repeats, words in received(space, dims, tile, slots, random, counting):
            total = words * math.prod(outer)
            led = least(unrolling, leading)
            assert known.begun <= led.begun
            assert known.repeated <= led.repeated
            for bound in (known, weak, led):
                assert bound.repeated * (repeats - 1) + bound.begun <= total
            assert union <= total


def received(
    space: Dataspace,
    dims: Sequence[str],
    tile: Sequence[int],
    slots: Sequence[tuple[Sequence[int], Sequence[int]]],
    random: Random,
    counting: Counting,
) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """What one instance gets, for loop orders of the slots (bounds, spans) above.

    The loop that moves the tile first, iterations of loops outside of it that leave the tile in place, and
    the words.
    """
    extent = extents(space, dict(zip(dims, tile, strict=True)))
    orders = [list(permutations(d for d, n in enumerate(bounds) if n > 1)) for bounds, _ in slots]
    chosen = list(product(*orders))
    for choice in random.sample(chosen, min(len(chosen), 24)):
        loops = [
            (d, bounds[d], displacement(space, dims[d], spans[d]))
            for order, (bounds, spans) in zip(choice, slots, strict=True)
            for d in order
        ]
        first = next((number for number, (_, _, move) in enumerate(loops) if any(move)), len(loops))
        repeats = math.prod(bound for _, bound, move in loops[first:] if not any(move))
        words = rule_of(counting).delivered_words(extent, [own[1:] for own in loops])
        yield tuple(d for d, _, _ in loops[first : first + 1]), repeats, words


def begun(
    space: Dataspace,
    dims: Sequence[str],
    bounds: tuple[int, ...],
    unrolling: Unrolling | None = None,
    counting: Counting = EXACT,
) -> tuple[Lattice, IntArray]:
    """The lattice of a problem of one dataspace, and the least words of one pass over each of its tiles."""
    seen, lattice = view(space, 0, Problem("p", tuple(dims), bounds, (space,)), dims), Lattice(bounds)
    every, ones = range(len(dims)), (1,) * len(dims)
    unrolling = unrolling or Unrolling(ones, ones)
    return lattice, relevant_words(seen, tables(seen, lattice), lattice, unrolling, every, counting).begun


def test_a_known_window():
    """Three taps over eight positions: tiles of one position and all taps share two words each."""
    space = Dataspace("I", ((Term("P"), Term("R")),))
    lattice, words = begun(space, "PR", (8, 3))
    assert words[index_of(lattice, (1, 3))] == 10
    # Two instances side by side, each at every second position: their windows overlap in one word only.
    lattice, words = begun(space, "PR", (8, 3), Unrolling((2, 1), (2, 1)))
    assert words[index_of(lattice, (1, 3))] == 2 * (3 + 3 * 2)


def nests(left: tuple[int, ...]) -> Iterator[list[tuple[int, int]]]:
    """All sequences of loops (dimension, bound), innermost first, that iterate `left` times per dimension."""
    if all(count == 1 for count in left):
        yield []
    for d, count in enumerate(left):
        for bound in divisors(count)[1:]:
            rest = tuple(n // bound if e == d else n for e, n in enumerate(left))
            yield from ([(d, bound), *inner] for inner in nests(rest))


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("steps", list(product((1, 2, 3, 4, 6), (1, 2, 3))))
@pytest.mark.parametrize("bounds", [(4, 3), (8, 3), (6, 4), (9, 2)])
def test_every_nest_above_a_window(steps: tuple[int, int], bounds: tuple[int, int], counting: Counting):
    """No sequence of loops over any number of levels delivers less, and bounds are met for most tiles."""
    space = Dataspace("I", ((Term("P", steps[0]), Term("R", steps[1])),))
    dims = ("P", "R")
    lattice, known = begun(space, dims, bounds, counting=counting)
    met = 0
    for place in range(lattice.size):
        least = fewest(space, dims, bounds, vector_at(lattice, place), counting)
        assert known[place] <= least
        met += int(known[place]) == least
    assert counting == TIMELOOP or 2 * met > lattice.size


def fewest(
    space: Dataspace, dims: Sequence[str], bounds: Sequence[int], tile: Sequence[int], counting: Counting
) -> int:
    """Least words that any nest of loops above a tile delivers."""
    extent = extents(space, dict(zip(dims, tile, strict=True)))
    return min(
        rule_of(counting).delivered_words(extent, movements(space, dims, tile, nest))
        for nest in nests(tuple(n // t for n, t in zip(bounds, tile, strict=True)))
    )


def movements(
    space: Dataspace, dims: Sequence[str], tile: Sequence[int], nest: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Bounds and displacements of a nest's loops above a tile."""
    spans = list(tile)
    for d, bound in nest:
        yield bound, displacement(space, dims[d], spans[d])
        spans[d] *= bound


def test_strides_that_meet_in_the_last_tap():
    """With stride 2 and three taps, the last tap of a window is the first one of the next."""
    space = Dataspace("I", ((Term("P", 2), Term("R")),))
    lattice, words = begun(space, "PR", (8, 3))
    assert words[index_of(lattice, (1, 1))] <= fewest(space, "PR", (8, 3), (1, 1), EXACT) == 24 - 7
    # Timeloop's rule looks at the second tap instead, from which no word is the next window's first.
    lattice, words = begun(space, "PR", (8, 3), counting=TIMELOOP)
    assert words[index_of(lattice, (1, 1))] <= fewest(space, "PR", (8, 3), (1, 1), TIMELOOP) == 24


def test_a_register_of_one_word():
    """Five positions, three taps: no two neighbours of 0 1 2 | 1 2 3 | ... are equal; Timeloop sees four."""
    space = Dataspace("I", ((Term("Q"), Term("S")),))
    for counting, least in ((EXACT, 15), (TIMELOOP, 11)):
        lattice, words = begun(space, "QS", (5, 3), counting=counting)
        assert words[index_of(lattice, (1, 1))] <= fewest(space, "QS", (5, 3), (1, 1), counting) == least


@pytest.mark.parametrize("seed", few(range(40), 15))
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
        for kind in (PERFECT, ANY):
            bound = seen.distinct_tiles([factor for _, factor, _ in split], bounds, kind)
            assert 1 <= bound <= distinct_offsets(moves)


@pytest.mark.parametrize("seed", few(range(40), 15))
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
    """The loop that leaves the input in place moves the sum, and the other way round."""

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
    result = map_by_bounds(mapspace, Options(objectives=("energy",)))
    assert result.status is Status.OPTIMAL
