"""Curves of one Einsum against all mappings, and against searches at single capacities."""

import random
import re
from bisect import bisect_right

import pytest

from model.counting.words import tile_words
from model.extents import ANY, PERFECT
from model.problem import Dataspace, Problem, Term
from solver.curves.design import Design
from solver.curves.einsum import Curve, traffic_curve
from solver.result import Options, Status, TooLargeError
from solver.search.stopping import Stopped
from solver.stages import map_einsum
from tests.bruteforce import count_mappings, valid_mappings
from tests.conftest import REPOSITORY
from tests.mapspaces import matmul
from tests.slow import few
from tests.strategies import EINSUMS


def design_of(problem: Problem, factors: str = ANY, **bits: int) -> Design:
    return Design(problem, {space.name: bits.get(space.name, 8) for space in problem.dataspaces}, factors)


def enumerated(design: Design) -> list[tuple[int, int]]:
    """The staircase of all mappings: pairs of a capacity and the traffic."""
    problem, found = design.problem, []
    for priced in valid_mappings(design.mapspace, innermost_orders=False):
        buffer = priced.mapping.nodes[1]
        extents = {loop.dim: loop.bound for loop in buffer.temporal}
        tile = {dim: min(extents.get(dim, 1), bound) for dim, bound in problem.bound.items()}
        kept = [space for space in problem.dataspaces if space.name in buffer.keep]
        room = sum(tile_words(space, tile) * design.bits[space.name] // design.unit_bits for space in kept)
        found.append((room, priced.energy))
    front: list[tuple[int, int]] = []
    for room, traffic in sorted(found):
        if not front or traffic < front[-1][1]:
            front.append((room, traffic))
    return front


def staircase(curve: Curve) -> list[tuple[int, int]]:
    return [(point.capacity, point.traffic) for point in curve.points]


FEW_MAPPINGS = 800
"""Enumeration takes about a millisecond for each."""


def random_design(seed: int, factors: str) -> Design:
    """Draw an Einsum with three loops at most, so that these are long although there are few mappings."""
    drawn = random.Random(seed)
    spaces = drawn.choice(EINSUMS)(drawn)
    dims = tuple(sorted({dim for space in spaces for dim in space.dims}))
    places = drawn.sample(range(len(dims)), min(len(dims), 3))
    sizes = [drawn.randint(3, 6) for _ in places]
    while True:
        bound = {dims[place]: size for place, size in zip(places, sizes, strict=True)}
        bounds = tuple(bound.get(dim, 1) for dim in dims)
        design = design_of(Problem("random", dims, bounds, spaces), factors)
        if count_mappings(design.mapspace, FEW_MAPPINGS, innermost_orders=False) <= FEW_MAPPINGS:
            return design
        sizes[sizes.index(max(sizes))] -= 1


@pytest.mark.parametrize("factors", [ANY, PERFECT])
@pytest.mark.parametrize("seed", few(range(60), 8))
def test_the_curve_is_that_of_all_mappings(seed: int, factors: str):
    design = random_design(seed, factors)
    assert staircase(traffic_curve(design)) == enumerated(design)


@pytest.mark.parametrize(("stride", "dilation"), [(1, 2), (2, 1), (3, 2), (2, 3)])
def test_windows_whose_tiles_have_holes(stride: int, dilation: int):
    rows = ((Term("P", stride), Term("R", dilation)),)
    window = (Dataspace("W", ((Term("R"),),)), Dataspace("I", rows), Dataspace("O", ((Term("P"),),), True))
    design = design_of(Problem("row", ("P", "R"), (11, 4), window))
    assert staircase(traffic_curve(design)) == enumerated(design)


def test_the_smallest_of_as_many_tiles_is_not_the_best():
    """Rows of 7 rather than 6 of 11 move fewer words, with filters of 4 of 11."""
    rows, columns = (Term("P"), Term("R")), (Term("Q", 2), Term("S", 2))
    spaces = (
        Dataspace("W", ((Term("C"),), (Term("R"),), (Term("S"),))),
        Dataspace("I", ((Term("C"),), rows, columns)),
        Dataspace("O", ((Term("C"),), (Term("P"),), (Term("Q"),)), read_write=True),
    )
    design = design_of(Problem("depthwise", ("C", "P", "Q", "R", "S"), (2, 11, 3, 11, 2), spaces))
    curve = traffic_curve(design)
    assert [curve.at(capacity).traffic for capacity in (20, 21, 22)] == [698, 694, 694]
    assert map_einsum(design.with_capacity(21), Options()).value == 694


def test_a_dimension_that_indexes_two_ranks():
    """Diagonal blocks: the words of all tiles together depend on their extents."""
    spaces = (Dataspace("A", ((Term("M"),), (Term("M"),))), Dataspace("Z", ((Term("M"),),), True))
    design = design_of(Problem("diagonal", ("M",), (11,), spaces))
    assert staircase(traffic_curve(design)) == enumerated(design)


def test_values_of_several_sizes():
    design = design_of(matmul(4, 3, 3), A=8, B=16, Z=32)
    assert design.unit_bits == 8
    assert staircase(traffic_curve(design)) == enumerated(design)


SLIDING = (
    Dataspace("W", ((Term("R"),), (Term("C"),))),
    Dataspace("I", ((Term("P", 2), Term("R")), (Term("C"),))),
    Dataspace("O", ((Term("P"),),), read_write=True),
)


def test_searches_at_single_capacities_find_the_same():
    problem = Problem("row", ("P", "R", "C"), (57, 5, 12), SLIDING)
    design = design_of(problem)
    curve = traffic_curve(design)
    for capacity in (3, 17, 64, 131, 250):
        found = map_einsum(design.with_capacity(capacity), Options())
        assert (found.status, found.value) == (Status.OPTIMAL, curve.at(capacity).traffic)


def test_a_curve_falls_from_no_reuse_to_every_word_once():
    curve = traffic_curve(design_of(matmul(40, 30, 20)))
    first, last = curve.points[0], curve.points[-1]
    assert (first.capacity, first.traffic) == (0, 2 * 24_000 + 2 * 24_000 - 40 * 30)
    assert last.traffic == 40 * 30 + 30 * 20 + 40 * 20
    pairs = staircase(curve)
    assert pairs == sorted(pairs, key=lambda own: (own[0], -own[1]))
    assert len({traffic for _, traffic in pairs}) == len(pairs)


def table(heading: str) -> list[list[int]]:
    """Return the whole numbers in each row of a table of docs/bound.md."""
    _, rows = DOCUMENTATION.split(heading)
    lines = rows.split("\n\n")[0].splitlines()[2:]
    return [[int(cell.replace(",", "")) for cell in re.findall(r"\d[\d,]*(?= \|)", line)] for line in lines]


DOCUMENTATION = (REPOSITORY / "docs" / "bound.md").read_text(encoding="utf-8")


def test_the_published_product():
    """16384 x 1024 x 1024, with divisors as Orojenesis has it: the table in docs/bound.md."""
    curves = [traffic_curve(design_of(matmul(16_384, 1024, 1024), factors)) for factors in (PERFECT, ANY)]
    rows = table("| buffer, words | divisors only | any factors |")
    assert len(rows) == 7
    for capacity, *traffic in rows:
        assert traffic == [curve.at(capacity).traffic for curve in curves]
    example = DOCUMENTATION.split("```")[1]
    shown = re.findall(r"^ *(\d+) ([KM]?i?)B  .*?(\d[\d,]{5,})  .*A, B, Z$", example, re.MULTILINE)
    assert len(shown) == 7
    for number, unit, traffic in shown:
        capacity = int(number) << {"": 0, "Ki": 10, "Mi": 20}[unit]
        assert int(traffic.replace(",", "")) == curves[1].at(capacity).traffic
    least = curves[1].within(100 << 20)
    assert least is not None
    assert f"({least.capacity:,} bytes)" in example


def test_what_was_measured_is_above_the_least():
    """4096 x 4096 x 4096 in values of 32 bits: the table in docs/bound.md, in MiB."""
    curve = traffic_curve(design_of(matmul(4096, 4096, 4096), A=32, B=32, Z=32))
    assert curve.design.unit_bits == 32
    rows = table("| L2, MiB | measured, MiB | proven least, MiB |")
    assert len(rows) == 4
    for capacity, measured, least in rows:
        assert 4 * curve.at(capacity << 18).traffic <= least << 20 < measured << 20
        assert least << 20 < 4 * curve.at(capacity << 18).traffic + (1 << 20)


def test_the_least_buffer_for_a_traffic():
    curve = traffic_curve(design_of(matmul(12, 12, 12)))
    for point in curve.points:
        assert curve.within(point.traffic) == point
    assert curve.within(curve.points[-1].traffic - 1) is None
    capacities = [point.capacity for point in curve.points]
    assert curve.at(200) == curve.points[bisect_right(capacities, 200) - 1]


def test_what_is_too_large_is_refused():
    with pytest.raises(TooLargeError, match="64 bits"):
        traffic_curve(design_of(matmul(1 << 21, 1 << 21, 1 << 21)))
    with pytest.raises(TooLargeError, match="tiles"):
        traffic_curve(design_of(matmul(1 << 18, 1 << 18, 1 << 18)))


def test_a_curve_can_be_stopped():
    with pytest.raises(Stopped):
        traffic_curve(design_of(matmul(100, 100, 100)), lambda: True)
