"""Shapes of workloads: affine projections, bounds of ranks and variables, sets that are not boxes."""

import sys
from collections.abc import Callable

import pytest

from model.formats.accelforge import LoadedWorkload
from model.problem import Term
from model.text.source import SpecError
from model.workload import RankIndex

Load = Callable[..., LoadedWorkload]
Refuse = Callable[..., SpecError]

HEAD = "workload:\n  bits_per_value: {All: 8}\n"
MATMUL = HEAD + "  rank_sizes: {M: 4, N: 5, K: 6}\n  einsums:\n"


def test_affine_projections(load: Load):
    text = HEAD + "  rank_sizes: {H: 58, P: 28, R: 3}\n  einsums:\n"
    (einsum,) = load(text + '  - "Z[p] = A[H: p * 2 + r - 1] * W[r]"\n').workload.einsums
    assert einsum.accesses[0].indices == (RankIndex("H", (Term("p", 2), Term("r", 1)), -1),)
    assert einsum.extent(einsum.accesses[0].indices[0]) == range(-1, 56)
    assert einsum.bounds == {"p": 28, "r": 3}
    assert not einsum.is_box


def test_a_rank_bounds_the_variables_that_index_it_together(load: Load):
    text = HEAD + "  rank_sizes: {H: 8, R: 3}\n  einsums:\n"
    (einsum,) = load(text + '  - "Z[p] = A[H: p + r] * W[r]"\n').workload.einsums
    assert einsum.ranges == (range(-2, 8), range(3))


def test_one_rank_may_be_indexed_by_several_variables(load: Load):
    text = HEAD + "  rank_sizes: {M: 4, P: 4, E: 2}\n  einsums:\n"
    einsums = '  - "K[m, e] = X[m] * W[e]"\n  - "QK[m, p] = Q[m, e] * K[M: p, e]"\n'
    assert len(load(text + einsums).workload.einsums) == 2


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "  SHAPE: {m: 0 <= m < 3}\n  einsums:\n  - Z[m] = A[m]\n",
        HEAD + "  einsums:\n  - {einsum: 'Z[m] = A[m]', SHAPE: [0 <= m < 3]}\n",
    ],
)
def test_an_older_name_of_the_shape_is_noted(load: Load, refuse: Refuse, text: str):
    loaded = load(text.replace("SHAPE", "shape"))
    assert [einsum.ranges for einsum in loaded.workload.einsums] == [(range(3),)]
    assert ["`shape` is read as `iteration_space_shape`" in note.text for note in loaded.notes] == [True]
    assert load(text.replace("SHAPE", "iteration_space_shape")).notes == ()
    comma = ", " if "{einsum" in text else "\n  "
    twice = text.replace("SHAPE", f"shape: [m < 3]{comma}iteration_space_shape")
    assert "two names for the same key" in refuse(twice).message


def test_a_condition_that_a_rank_cuts_is_noted(load: Load):
    text = HEAD + "  rank_sizes: {M: 4}\n  iteration_space_shape: {m: MINE}\n  einsums:\n  - Z[m] = A[m]\n"
    (note,) = map(str, load(text.replace("MINE", "0 <= m < 128")).notes)
    cut = "`m` ends at 3, as rank `M` has 4 values (w.yaml:3:19)"
    assert note == f"w.yaml:4:30: {cut}; this condition allows values up to 127"
    for kept in ("0 <= m < 4", "m >= 0", "m < 128 and m < 4"):
        assert load(text.replace("MINE", kept)).notes == ()


def test_the_least_of_several_bounds_counts(load: Load):
    text = HEAD + "  rank_sizes: {M: 4, K: 9}\n  iteration_space_shape: {m: m < 3}\n  einsums:\n"
    loaded = load(text + '  - "Z[m] = A[K: m]"\n')
    assert loaded.workload.einsums[0].ranges == (range(3),)
    assert [*map(str, loaded.notes)] == [
        "w.yaml:3:25: rank `K` has 9 values, but `m` of Einsum `Z` takes 0..2 only",
        "w.yaml:3:19: rank `M` has 4 values, but `m` of Einsum `Z` takes 0..2 only",
    ]


def test_iteration_space_shapes(load: Load):
    text = (
        HEAD + "  iteration_space_shape: {m: 0 <= m < 4, n: 1 <= n and n <= 7, q: 0 <= q < 2}\n  einsums:\n"
    )
    loaded = load(
        text
        + '  - {einsum: "Z[m, n] = A[m, k]", iteration_space_shape: [0 <= k < 128*2, k = 5 + m - m + 0*n]}\n'
    )
    assert loaded.workload.einsums[0].ranges == (range(4), range(5, 6), range(1, 8))
    assert any("`0 <= q < 2` has no effect" in note.text for note in loaded.notes)


@pytest.mark.parametrize("index", ["2p + 3 (q - 1) + r", "3*q - 3 + (2)*p + r", "2 p+3q-(3 - r)"])
def test_a_number_multiplies_what_it_stands_before(load: Load, index: str):
    text = HEAD + "  rank_sizes: {P: 4, Q: 5, R: 3}\n  einsums:\n"
    (einsum,) = load(text + f'  - "Z[p] = A[H: {index}] * B[q] * W[r]"\n').workload.einsums
    (rank,) = einsum.accesses[0].indices
    assert ({term.dim: term.coefficient for term in rank.terms}, rank.offset) == (
        {"p": 2, "q": 3, "r": 1},
        -3,
    )


@pytest.mark.parametrize("index", ["0x10 + p", "1e3", "2e0 + p", "1_000 * p * p", "p * 0b1 * q"])
def test_other_numbers_multiply_nothing(refuse: Refuse, index: str):
    text = HEAD + "  rank_sizes: {P: 4, Q: 5}\n  einsums:\n"
    error = refuse(text + f'  - "Z[p] = A[H: {index}] * B[q] * W[e0, x10]"\n')
    assert "affine" in error.message or "no bounds" in error.message


@pytest.mark.parametrize("condition", ["0 <= q < 4 && 2q <= 5", "0 <= q and 2 q < 7 and q < 3 and q >= 0"])
def test_conditions_that_need_no_isl(load: Load, monkeypatch: pytest.MonkeyPatch, condition: str):
    monkeypatch.setitem(sys.modules, "islpy", None)
    text = MATMUL + f'  - {{einsum: "Z[m] = A[m, q]", iteration_space_shape: "{condition}"}}\n'
    assert load(text).workload.einsums[0].ranges == (range(4), range(3))


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("0 <= q < 4 and q * m < 3", "a product of rank variables is not affine"),
        ("0 <= q < 4 and in < 3", "`in` cannot be a name in an expression"),
    ],
)
def test_conditions_that_nobody_understands(refuse: Refuse, condition: str, message: str):
    text = MATMUL + f'  - {{einsum: "Z[m] = A[m, q]", iteration_space_shape: "{condition}"}}\n'
    assert message in refuse(text).message


def test_a_workload_may_have_many_ranks(load: Load):
    sizes = ", ".join(f"R{place}: 2" for place in range(1000))
    einsums = "".join(f'  - "T{place}[r{place}] = A[r{place}]"\n' for place in (0, 500, 999))
    loaded = load(f"{HEAD}  rank_sizes: {{{sizes}}}\n  einsums:\n{einsums}")
    assert [einsum.bounds for einsum in loaded.workload.einsums] == [{"r0": 2}, {"r500": 2}, {"r999": 2}]


def test_sums_that_bound_their_variables_together(
    load: Load, refuse: Refuse, monkeypatch: pytest.MonkeyPatch
):
    head = HEAD + "  rank_sizes: {X: 5, Y: 3}\n  einsums:\n"
    text = head + '  - "Z[] = A[X: p + q, Y: p - q]"\n'
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "islpy", None)
        assert "tilewright[isl]" in (refuse(text).hint or "")
        assert "no bounds" in refuse(text.replace("p - q", "p + q")).message
    pytest.importorskip("islpy")
    (einsum,) = load(text).workload.einsums
    points = [(p, q) for p in range(-9, 9) for q in range(-9, 9) if p + q in range(5) and p - q in range(3)]
    assert einsum.ranges == tuple(range(min(own), max(own) + 1) for own in zip(*points, strict=True))
    assert not einsum.is_box


def test_a_coupled_condition_that_cuts_nothing_needs_no_isl(load: Load, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "islpy", None)
    text = MATMUL + '  - {einsum: "Z[m, n] = A[m, n]", iteration_space_shape: [m + n <= 7]}\n'
    assert load(text).workload.einsums[0].is_box


@pytest.mark.parametrize(
    "condition", ["m <= n", "m % 2 = 0", "m mod 2 = 0", "m < 2 or m > 2", "0 <= m, n < 3", "m != 2"]
)
def test_other_sets_name_the_extra_where_it_is_missing(
    refuse: Refuse, monkeypatch: pytest.MonkeyPatch, condition: str
):
    monkeypatch.setitem(sys.modules, "islpy", None)
    text = MATMUL + f'  - {{einsum: "Z[m, n] = A[m, n]", iteration_space_shape: ["{condition}"]}}\n'
    error = refuse(text)
    assert "not a box" in error.message
    assert "tilewright[isl]" in (error.hint or "")
    assert error.span.line == 5


@pytest.mark.parametrize(
    ("condition", "bounds", "is_box"),
    [
        ("m + 1 <= n", {"m": 4, "n": 4}, False),
        ("m mod 2 = 0", {"m": 3, "n": 5}, False),
        ("m < 1 or m = 1", {"m": 2, "n": 5}, True),
        ("0 <= m, n < 3", {"m": 3, "n": 3}, True),
        ("m < 1 || m = 1", {"m": 2, "n": 5}, True),
    ],
)
def test_isl_finds_the_box_around_other_sets(
    load: Load, condition: str, bounds: dict[str, int], is_box: bool
):
    pytest.importorskip("islpy")
    text = MATMUL + f'  - {{einsum: "Z[m, n] = A[m, n]", iteration_space_shape: ["{condition}"]}}\n'
    einsum = load(text).workload.einsums[0]
    assert einsum.bounds == bounds
    assert einsum.is_box is is_box


def test_limits_on_different_sums_of_the_same_variables_need_isl(
    load: Load, refuse: Refuse, monkeypatch: pytest.MonkeyPatch
):
    head = HEAD + "  rank_sizes: {X: 4, Y: 4, Q: 4, P: 99}\n  einsums:\n"
    text = head + '  - "Z[q] = A[X: p + q, Y: p - q]"\n'
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "islpy", None)
        assert "not a box" in refuse(text).message
    pytest.importorskip("islpy")
    (einsum,) = load(text).workload.einsums
    points = [(p, q) for p in range(-9, 9) for q in range(4) if p + q in range(4) and p - q in range(4)]
    assert einsum.ranges == tuple(range(min(own), max(own) + 1) for own in zip(*points, strict=True))
    assert einsum.bounds == {"p": 4, "q": 2}
    empty = (
        head.replace("4", "1000000").replace("99", "1000000")
        + '  - "Z[p, q] = A[X: p - q - 1, Y: q - p - 1]"\n'
    )
    assert "no point" in refuse(empty).message


def test_limits_whose_ends_are_attained_need_no_isl(load: Load, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "islpy", None)
    text = HEAD + "  rank_sizes: {H: 8, G: 12, P: 8, R: 3}\n  einsums:\n"
    (einsum,) = load(text + '  - "Z[p] = A[H: p + r] * B[G: 2*p + r] * W[r]"\n').workload.einsums
    assert einsum.bounds == {"p": 6, "r": 3}
    assert not einsum.is_box


@pytest.mark.parametrize(
    "condition", ["m < 3 or m > 5) or (n mod 2 = 0", "m mod 2 = 0; [m, n] : (m = 1", "m mod 2 = 0} + {[m, n]"]
)
def test_a_condition_cannot_end_the_set_that_it_is_put_into(refuse: Refuse, condition: str):
    pytest.importorskip("islpy")
    text = MATMUL + f'  - {{einsum: "Z[m, n] = A[m, n]", iteration_space_shape: ["{condition}"]}}\n'
    assert "is not allowed in this condition" in refuse(text).message


def test_isl_gives_up_on_what_takes_too_long(refuse: Refuse):
    pytest.importorskip("islpy")
    count = 12
    sizes = ", ".join(f"R{own}: 1000" for own in range(count))
    indices = ", ".join(f"r{own}" for own in range(count))
    parts = (
        f"(r{own} < {own + 3} or r{own} > {own + 9} or r{(own + 1) % count} = 7)" for own in range(count)
    )
    einsum = f'{{einsum: "Z[r0] = A[{indices}]", iteration_space_shape: [{" and ".join(parts)}]}}'
    text = f"{HEAD}  rank_sizes: {{{sizes}}}\n  einsums: [{einsum}]\n"
    assert "ISL needs more than" in refuse(text).message


def test_a_size_that_an_einsum_does_not_use_is_noted(load: Load):
    text = MATMUL + '  - {einsum: "Z[m, n] = A[m, n]", rank_sizes: {MM: 2}}\n'
    assert [note for note in load(text).notes if "`MM`" in note.text and "Einsum `Z`" in note.text]


def test_isl_errors_have_their_place(refuse: Refuse):
    pytest.importorskip("islpy")
    for condition, message in (("exists m", "does not understand"), ("m < 0 or m > 9", "no point")):
        text = MATMUL + f'  - {{einsum: "Z[m, n] = A[m, n]", iteration_space_shape: ["{condition}"]}}\n'
        error = refuse(text)
        assert message in error.message
        assert error.span.line == 5
