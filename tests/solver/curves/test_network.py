"""Curves of networks and of fused cascades."""

from dataclasses import replace
from fractions import Fraction

import pytest

from model.formats.fused import load_cascade
from model.fused.cascade import Cascade
from solver.cli.curve_inputs import MEMORY_AND_BUFFER
from solver.curves.design import Design
from solver.curves.einsum import traffic_curve
from solver.curves.fused import fused_curve
from solver.curves.network import STOPPED, Part, network_curve
from solver.result import Clock, Status
from tests.mapspaces import matmul

CHAIN = """
workload:
  rank_sizes: {M: 8, K: 4, N: 4, L: 4}
  bits_per_value: {A | B | D: 8, T: 32, C: 16}
  einsums:
  - einsum: "T[m,n] = A[m,k] * B[k,n]"
    renames: {input: A, weight: B}
  - einsum: "C[m,l] = T[m,n] * D[n,l]"
    renames: {input: T, weight: D}
"""


def part(name: str, *shape: int, runs: int = 1, **bits: int) -> Part:
    return Part(name, matmul(*shape), {"A": 8, "B": 8, "Z": 8, **bits}, runs)


def test_identical_layers_are_searched_once():
    heard = []
    layers = [part("one", 6, 5, 4), part("two", 5, 5, 5), part("three", 6, 5, 4, runs=3)]
    curve = network_curve(layers, on_layer=lambda own: heard.append(own.name))
    assert heard == ["one", "two"]
    assert [layer.same_as for layer in curve.layers] == ["", "", "one"]
    steps = list(curve.steps())
    alone = [traffic_curve(Design(own.problem, own.bits)) for own in layers]
    for step in steps:
        words = step.capacity_bits // 8
        total = sum(
            8 * own.n_instances * each.at(words).traffic for own, each in zip(layers, alone, strict=True)
        )
        assert step.traffic_bits == total == curve.traffic_bits(step.capacity_bits)
    capacities = {8 * point.capacity for own in alone for point in own.points}
    assert {step.capacity_bits for step in steps} == capacities
    shares = [share for _, share in curve.deciding(128)]
    assert sum(shares) == 1
    assert shares == sorted(shares, reverse=True)


def test_layers_with_other_sizes_of_values_differ():
    curve = network_curve([part("one", 4, 4, 4), part("two", 4, 4, 4, Z=32)])
    assert [layer.same_as for layer in curve.layers] == ["", ""]
    last = list(curve.steps())[-1]
    assert last.traffic_bits == 3 * 16 * 8 + 2 * 16 * 8 + 16 * 32


def test_the_least_room_for_a_traffic_of_all_runs():
    (layer,) = network_curve([part("one", 6, 5, 4, runs=3)]).layers
    for point in layer.curve.points:
        traffic = Fraction(3 * 8 * point.traffic)
        assert layer.least_room_bits(traffic) == 8 * point.capacity
        assert layer.traffic_bits(8 * point.capacity) == traffic
    assert layer.least_room_bits(Fraction(3 * 8 * layer.curve.points[-1].traffic) - 1) is None


def test_what_is_not_done_is_missing():
    stops = iter([False] * 3)
    layers = [part("one", 2, 2, 2), part("huge", 1 << 21, 1 << 21, 1 << 21), part("three", 60, 50, 40)]
    curve = network_curve(layers, should_stop=lambda: next(stops, True))
    assert [own.name for own, _ in curve.missing] == ["one", "huge", "three"]
    assert [reason for _, reason in curve.missing][::2] == [STOPPED, STOPPED]
    assert "64 bits" in curve.missing[1][1]


@pytest.fixture
def cascade(tmp_path) -> Cascade:
    path = tmp_path / "chain.yaml"
    path.write_text(CHAIN, encoding="utf-8")
    return load_cascade([path, MEMORY_AND_BUFFER])[0]


def test_a_fused_chain_moves_inputs_and_results_once(cascade: Cascade):
    curve = fused_curve(cascade, [8 * size for size in (32, 64, 100, 160, 1 << 10)], Clock(None))
    assert {point.status for point in curve.points} == {Status.OPTIMAL}
    values = [point.value_bits for point in curve.points]
    assert values == sorted(values, reverse=True)
    assert values[-1] == 8 * (8 * 4 + 4 * 4 + 4 * 4) + 16 * 8 * 4
    assert all(point.room_bits <= point.capacity_bits for point in curve.points)
    for point in curve.points:  # what holds from the room of a mapping on is found there, too
        (again,) = fused_curve(cascade, [point.room_bits], Clock(None)).points
        assert (again.status, again.value_bits) == (Status.OPTIMAL, point.value_bits)


def test_a_proven_step_is_searched_once(cascade: Cascade):
    heard: list[int] = []
    fused_curve(cascade, [1 << 14, 1 << 15, 1 << 16], Clock(None), heard.append)
    assert heard == [1 << 16]


def test_fused_points_that_are_stopped_are_not_proven(cascade: Cascade):
    asked = iter([False] * 3)
    curve = fused_curve(cascade, [256, 8 * 64], Clock(None, lambda: next(asked, True)))
    assert all(point.status is not Status.OPTIMAL for point in curve.points)


def test_points_that_there_is_no_time_for_have_the_bound_of_a_larger_buffer(cascade: Cascade):
    heard: list[int] = []
    curve = fused_curve(cascade, [128, 256, 1 << 14], Clock(None, lambda: len(heard) > 0), heard.append)
    assert [point.capacity_bits for point in curve.points] == [128, 256, 1 << 14]
    assert heard == [1 << 14]
    assert {point.bound_bits for point in curve.points} == {curve.points[-1].bound_bits}
    assert [point.status for point in curve.points[:2]] == [Status.UNKNOWN] * 2


def test_without_intermediates_fusion_changes_nothing(cascade: Cascade):
    alone = replace(cascade, einsums=cascade.einsums[:1])
    problem = alone.einsums[0].problem
    curve = traffic_curve(Design(problem, {"A": 8, "B": 8, "T": 32}))
    for size in (16, 40, 90, 150):
        (point,) = fused_curve(alone, [8 * size], Clock(None)).points
        assert (point.status, point.value_bits) == (Status.OPTIMAL, 8 * curve.at(size).traffic)
