"""Nests with remainders: counts worked out by hand, and those without remainders counted the same way."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.architecture import Fanout, StorageLevel
from model.cost import evaluate
from model.cost.batch import BatchEvaluator, encode
from model.cost.nest import build_nest
from model.cost.remainders import traffic_with_remainders
from model.cost.shares import RowLoop, Share, deal, share_of
from model.cost.traffic import MulticastDelivery, dataspace_traffic
from model.counting import EXACT, TIMELOOP, rule_of
from tests.model.cost.nests import (
    BUFFER,
    DRAM,
    MATMUL,
    across,
    conv1d,
    nest,
    problem,
    rank,
    run,
    space,
    storage,
)
from tests.model.cost.random_mappings import random_case

REGISTERS = StorageLevel("registers")


def cost(task, *pairs):
    return evaluate(task, *nest(*pairs))


def copy(p: int):
    """A product of two vectors, word by word: all dataspaces are indexed by P."""
    return replace(conv1d(p, 1), dataspaces=conv1d(p, 1).dataspaces[1:])


@pytest.mark.parametrize("loops", [("P3", "P2"), ("P2", "P3"), ("P2", "P4"), ("P2", "P7")])
def test_a_temporal_remainder_moves_and_takes_what_there_is(loops):
    inner, outer = loops
    bound = {"P3": 5, "P2": 5}.get(outer, {"P3": 5, "P4": 7, "P7": 13}.get(outer))
    found = cost(copy(bound), (DRAM, storage(outer, "IO")), (BUFFER, storage(inner, "IO")))
    assert found.compute_cycles == found.cycles == bound
    assert found.level("dram").dataspace("I").reads == bound
    assert found.level("buffer").dataspace("I").fills == bound
    assert found.level("buffer").dataspace("I").tile_words == int(inner[1:])


def test_a_spatial_remainder_leaves_instances_idle_in_the_last_round():
    # 5 = 3 rounds of 2: instance 0 works in all of them, instance 1 in two.
    pairs = ((DRAM, storage("P3", "IO")), (Fanout("array", 2), across("P2")), (BUFFER, storage("", "IO")))
    found = cost(copy(5), *pairs)
    assert (found.compute_cycles, found.compute_instances) == (3, 2)
    assert found.utilization == 5 / (2 * 3)
    words = found.level("buffer").dataspace("I")
    assert (words.fills, words.total_fills, words.total_reads) == (3, 5, 5)


def test_uneven_tiles_under_a_spatial_loop_take_as_long_as_the_largest_allow():
    """100 on 4 instances: tiles of 24 take 24 and then 4 steps, tiles of 20 take 20 twice."""
    for inner, outer, steps in (("P24", "P2", 28), ("P20", "P2", 40), ("P25", "", 25)):
        pairs = (
            (DRAM, storage(outer, "IO")),
            (Fanout("array", 4), across("P4")),
            (BUFFER, storage(inner, "IO")),
        )
        assert cost(copy(100), *pairs).compute_cycles == steps


def test_an_instance_with_a_single_tile_fetches_it_in_each_pass():
    # M: 3 = 2 rounds of 2 children; K outside. Child 1 has only row 1, and its word of Z comes for each K.
    task = problem(MATMUL, M=3, N=1, K=4)
    pairs = (
        (DRAM, storage("M2 K4", "ABZ")),
        (Fanout("array", 2), across("M2")),
        (BUFFER, storage("", "ABZ")),
    )
    words = cost(task, *pairs).level("buffer").dataspace("Z")
    # Child 0 gets rows 0 and 2 in each of 4 rounds, 6 times with a sum that has been there before.
    assert (words.fills, words.total_fills) == (6, 6 + 3)
    assert cost(task, *pairs).level("dram").dataspace("Z").updates == 8 + 4


def test_a_last_pass_of_a_single_iteration_moves_the_tile_all_the_same():
    # K: 7 = 4 x (2,1), N between. In the last round the inner loop has one iteration, so that the same column
    # of A is wanted for both n. It comes twice, as all others do: 7 columns of 2 words for 2 values of n.
    task = problem(MATMUL, M=2, K=7, N=2)
    pairs = (
        (DRAM, storage("K4", "ABZ")),
        (BUFFER, storage("K2 N2", "ABZ")),
        (REGISTERS, storage("M2", "ABZ")),
    )
    assert cost(task, *pairs).level("buffer").dataspace("A").reads == 28
    assert run(task, *pairs).counts["buffer", "A"].reads == 28


def test_a_short_last_window_brings_its_halo():
    # Windows of 3 outputs and 3 taps: 5 words, then 4 words of which 2 are there.
    pairs = ((DRAM, storage("P2", "WIO")), (BUFFER, storage("R3 P3", "WIO")))
    assert cost(conv1d(5, 3), *pairs).level("buffer").dataspace("I").fills == 5 + 2


def test_multicast_reaches_a_last_round_that_fills_part_of_the_array():
    # 5 rows of A on 3 children with N along the other axis: B is shared by all children at work.
    task = problem(MATMUL, M=5, N=2, K=1)
    pairs = (
        (DRAM, storage("M2", "ABZ")),
        (Fanout("array", 6), across("M3 N2")),
        (REGISTERS, storage("", "AZ")),
    )
    found = cost(task, *pairs).level("dram")
    assert found.dataspace("A").reads == 5
    # Two words of B in each of the two steps, for the arithmetic keeps nothing.
    assert found.dataspace("B").reads == 4


def test_blocks_are_paid_instance_by_instance():
    level = replace(BUFFER, block_size=2, energy=replace(BUFFER.energy, fill=1))
    pairs = ((DRAM, storage("P3", "IO")), (Fanout("array", 2), across("P2")), (level, storage("", "IO")))
    # 3 words in 2 blocks, 2 words in one.
    assert cost(copy(5), *pairs).level("buffer").dataspace("I").energy == 2 + 1
    pairs = (
        (DRAM, storage("P3", "IO")),
        (Fanout("array", 2), across("P2")),
        (replace(level, cluster_size=2), storage("", "IO")),
    )
    assert cost(copy(5), *pairs).level("buffer").dataspace("I").energy == 2


def test_the_busiest_instance_decides_the_cycles():
    level = replace(BUFFER, write_bandwidth=1)
    pairs = ((DRAM, storage("P3", "IO")), (Fanout("array", 2), across("P2")), (level, storage("", "IO")))
    # Instance 0 takes 3 words of I and writes 3 sums.
    assert cost(copy(5), *pairs).cycles == 6


def test_an_instance_with_a_single_window_may_be_the_busiest():
    # Windows of 6 words. Instance 0 slides by 2 words from row 0 to 2, and back as K advances: 6 + 5 * 2. The
    # other one has row 1 alone: its window comes whole for each of 3 values of K.
    ranks = (space("W", "K", "R"), space("I", rank("P", "R")), space("O", "K", "P", read_write=True))
    task = problem(ranks, K=3, P=3, R=6)
    pairs = (
        (DRAM, storage("P2 K3", "WIO")),
        (Fanout("array", 2), across("P2")),
        (replace(BUFFER, write_bandwidth=Fraction(1, 4)), storage("R6", "I")),
    )
    words = cost(task, *pairs).level("buffer").dataspace("I")
    assert (words.fills, words.total_fills) == (18, 18 + 16)
    assert sorted(own[1] for own in run(task, *pairs).counts["buffer", "I"].of_instances) == [16, 18]
    architecture, mapping = nest(*pairs)
    batch = BatchEvaluator(task, architecture).evaluate(encode(task, architecture, [mapping]))
    assert cost(task, *pairs).cycles == batch.cycles[0] == 18 * 4


def test_timeloops_rule_does_not_count_remainders():
    architecture, mapping = nest((DRAM, storage("P3", "IO")), (BUFFER, storage("P2", "IO")))
    with pytest.raises(ValueError, match=r"remainders are not counted by the rule 'timeloop': \['P'\]"):
        evaluate(copy(5), architecture, mapping, TIMELOOP)


@pytest.mark.parametrize("loops", [("P2", "P2"), ("P2", "P4"), ("P6", ""), ("", "")])
def test_loops_that_do_not_cover_a_dimension_or_go_beyond_are_refused(loops):
    inner, outer = loops
    with pytest.raises(ValueError, match="multiply to"):
        cost(copy(5), (DRAM, storage(outer, "IO")), (BUFFER, storage(inner, "IO")))


def test_shares_are_those_of_iterations_dealt_out_one_by_one():
    random = Random(3)
    for _ in range(300):
        bounds = [random.randint(2, 4) for _ in range(random.randint(1, 4))]
        strides = [1]
        for bound in bounds:
            strides.append(strides[-1] * bound)
        whole = random.randint(1, strides[-1])
        loops = [RowLoop(0, b, s) for b, s in zip(bounds, strides, strict=False) if random.random() < 0.6][
            ::-1
        ]
        seen: dict[tuple[int, ...], int] = {}
        for i in range(whole):
            digits = tuple(i // loop.stride % loop.bound for loop in loops)
            seen[digits] = seen.get(digits, 0) + 1
        dealt = deal([Share(whole, 1)], loops)
        assert sorted(seen.values()) == sorted(s.iterations for s in dealt for _ in range(s.instances))
        for digits, count in seen.items():
            own = whole
            for loop, digit in zip(loops, digits, strict=True):
                own = share_of(own, loop, digit)
            assert own == count


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_nests_without_remainders_are_counted_alike(seed):
    problem, architecture, mapping = random_case(Random(seed))
    loops = build_nest(problem, architecture, mapping)
    rule = rule_of(EXACT)
    for tensor in problem.dataspaces:
        delivery = MulticastDelivery(rule, architecture, loops, tensor)
        expected = {
            own.position: own
            for own in dataspace_traffic(rule, architecture, mapping, loops, tensor, delivery)
        }
        for position, words in traffic_with_remainders(architecture, mapping, loops, tensor):
            shares = {dim: (Share(loops.shares(dim, position)[0].iterations, 1),) for dim in problem.dims}
            assert words(shares) == expected.pop(position)
        assert not expected
