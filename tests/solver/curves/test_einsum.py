"""Curves of one Einsum against all mappings, and against searches at single capacities."""

import random
import re
from bisect import bisect_right
from itertools import chain

import pytest

from model.extents import ANY, PERFECT
from model.problem import Dataspace, Problem, Term
from solver.curves.einsum import _Search, traffic_curve
from solver.curves.steps import Sums
from solver.result import Options, Status, TooLargeError
from solver.search.stopping import Stopped
from solver.stages import map_einsum
from tests.conftest import REPOSITORY
from tests.curves import design_of, enumerated_steps, small_design, steps_of
from tests.mapspaces import matmul
from tests.slow import few


@pytest.mark.parametrize("factors", [ANY, PERFECT])
@pytest.mark.parametrize("seed", few(range(60), 8))
def test_the_curve_is_that_of_all_mappings(seed: int, factors: str):
    design = small_design(seed, factors)
    assert steps_of(traffic_curve(design)) == enumerated_steps(design)


@pytest.mark.parametrize(("stride", "dilation"), [(1, 2), (2, 1), (3, 2), (2, 3)])
def test_windows_whose_tiles_have_holes(stride: int, dilation: int):
    rows = ((Term("P", stride), Term("R", dilation)),)
    window = (Dataspace("W", ((Term("R"),),)), Dataspace("I", rows), Dataspace("O", ((Term("P"),),), True))
    design = design_of(Problem("row", ("P", "R"), (11, 4), window))
    assert steps_of(traffic_curve(design)) == enumerated_steps(design)


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
    assert steps_of(traffic_curve(design)) == enumerated_steps(design)


def test_values_of_several_sizes():
    design = design_of(matmul(4, 3, 3), A=8, B=16, Z=32)
    assert design.unit_bits == 8
    assert steps_of(traffic_curve(design)) == enumerated_steps(design)


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
    pairs = steps_of(curve)
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


@pytest.mark.parametrize("factors", [ANY, PERFECT])
@pytest.mark.parametrize("seed", few(range(40), 8))
def test_sums_of_a_dimension_alone_are_those_of_the_cost_model(seed, factors, monkeypatch):
    drawn = random.Random(seed)

    def term(dim: str) -> Term:
        return Term(dim, drawn.choice((1, 1, 2, 3, -2)))

    spaces = (
        Dataspace("A", ((term("m"),), (Term("k"),))),
        Dataspace("B", ((term("k"),), (Term("n"), Term("q")))),
        Dataspace("Z", ((Term("m"),), (term("n"),)), read_write=True),
    )
    bounds = (drawn.randint(1, 30), drawn.randint(1, 20), drawn.randint(1, 9), drawn.choice((1, 3)))
    design = design_of(Problem("product", ("m", "n", "k", "q"), bounds, spaces), factors)
    in_closed_form = _Search(design, lambda: False)._single.sums
    monkeypatch.setattr(_Search, "_coefficient_alone", lambda *_: None)
    counted = _Search(design, lambda: False)._single.sums
    for own, other in zip(chain(*in_closed_form), chain(*counted), strict=True):
        assert _listed(own) == _listed(other)


def _listed(sums: Sums) -> list[object]:
    tables = (sums.visits, sums.touched, sums.first, *sums.staying.values(), *sums.fresh.values())
    return [sums.dims, sums.is_indexed, *sums.staying, *sums.fresh, *(own.tolist() for own in tables)]


def test_a_long_dimension_alone_takes_no_time(monkeypatch):
    """Tiles of it are counted all at once: none is a row of its own."""
    monkeypatch.setattr(_Search, "_row", lambda *_: pytest.fail("tiles are counted one by one"))
    curve = traffic_curve(design_of(matmul(999_999_937, 2, 3)))
    assert steps_of(curve)[-1] == (11, 5 * 999_999_937 + 6)
