"""What the bounds rule out: never the best mapping, however little an incumbent leaves."""

from collections.abc import Callable
from random import Random

import pytest

from model.problem import Dataspace
from solver.search import agenda
from solver.search.bounds import lattice_bounds, pairs, steps
from tests import strategies
from tests.slow import few, slow
from tests.solver.search.holding import hold_search, sharp_bounds
from tests.solver.search.unusual import (
    fixed_mapspaces,
    sliding_register_mapspaces,
    under_both_rules,
    unrolled_mapspaces,
    unusual_einsum,
    windows_anywhere,
)
from tests.strategies import CONVOLUTIONS, convolution_2d

Einsum = Callable[[Random], tuple[Dataspace, ...]]

MANY = pairs.MOST_PAIRS


@pytest.mark.parametrize("einsums", [CONVOLUTIONS, (unusual_einsum, convolution_2d)])
@pytest.mark.parametrize(
    ("seed", "first_nodes", "most_pairs"),
    [(3, 0, 16), (11, 0, MANY), slow(3, 200, MANY), slow(3, 0, MANY)],
)
def test_the_best_order_is_not_ruled_out(
    einsums: tuple[Einsum, ...],
    seed: int,
    first_nodes: int,
    most_pairs: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(strategies, "EINSUMS", einsums)
    sharp_bounds(monkeypatch, first_nodes)
    for module in (lattice_bounds, steps):
        monkeypatch.setattr(module, "MOST_PAIRS", most_pairs)
    for mapspace in under_both_rules(fixed_mapspaces(seed, 8, 2000)):
        hold_search(mapspace, monkeypatch)


@pytest.mark.parametrize("seed", few(range(4), 2))
def test_the_best_mapping_is_not_ruled_out_where_there_are_many_subproblems(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    """All subproblems are surveyed closely, or all but the first of each keep mask."""
    monkeypatch.setattr(strategies, "EINSUMS", CONVOLUTIONS)
    monkeypatch.setattr(agenda, *(("FIRST_LOOSELY", 0) if seed % 2 else ("FIRST_ALONE", 1)))
    for mapspace in under_both_rules(strategies.random_mapspaces(330 + seed, 8, 600)):
        hold_search(mapspace, monkeypatch)


@pytest.mark.parametrize(
    ("einsums", "seed"), [(CONVOLUTIONS, 1), ((windows_anywhere,), 3), ((windows_anywhere,), 7)]
)
def test_the_best_order_is_not_ruled_out_where_fanouts_unroll_windows(
    einsums: tuple[Einsum, ...], seed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(strategies, "EINSUMS", einsums)
    sharp_bounds(monkeypatch)
    for mapspace in under_both_rules(unrolled_mapspaces(seed, 8, 500)):
        hold_search(mapspace, monkeypatch)


@pytest.mark.parametrize("seed", [1, 25])
def test_the_best_order_is_not_ruled_out_where_the_lead_is_far_inside(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    sharp_bounds(monkeypatch)
    for mapspace in under_both_rules(sliding_register_mapspaces(seed, 5, 5000)):
        hold_search(mapspace, monkeypatch)
