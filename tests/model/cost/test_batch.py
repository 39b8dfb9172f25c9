"""The batched cost model equals the plain one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.cost import evaluate
from model.cost.batch import BatchEvaluation, BatchEvaluator, encode
from model.cost.batch.counts import index_space
from model.cost.batch.remainders import RemainderNest, needs_one_by_one
from model.counting import COUNTINGS, EXACT, TIMELOOP, Counting
from model.extents import ANY, PERFECT
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.problem import Dataspace, Problem, Term
from tests.model.cost.random_mappings import random_case, random_mapping
from tests.slow import slow
from tests.strategies import as_part, convolution_1d, depthwise, gemm, packed, with_first_values

GEMM = (
    Dataspace("A", ((Term("M"),), (Term("K"),))),
    Dataspace("B", ((Term("K"),), (Term("N"),))),
    Dataspace("Z", ((Term("M"),), (Term("N"),)), read_write=True),
)


def _assert_row(
    problem: Problem,
    architecture: Architecture,
    mapping: Mapping,
    batch: BatchEvaluation,
    row: int,
    counting: Counting = EXACT,
) -> None:
    plain = evaluate(problem, architecture, mapping, counting)
    assert batch.valid[row] == plain.valid
    assert batch.energy[row] == plain.energy
    assert batch.cycles[row] == plain.cycles
    assert batch.compute_cycles[row] == plain.compute_cycles
    assert batch.edp[row] == plain.edp
    for number, level in enumerate(plain.levels):
        assert batch.instances[row, number] == level.instances
        assert batch.level_cycles[row, number] == level.cycles
        kept = {space.dataspace: space for space in level.dataspaces}
        for column, space in enumerate(problem.dataspaces):
            for count in ("tile_words", "reads", "fills", "updates"):
                expected = getattr(kept[space.name], count) if space.name in kept else 0
                assert getattr(batch, count)[row, number, column] == expected


@given(random=st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_equals_plain(random: Random) -> None:
    problem, architecture, first = random_case(random)
    if random.random() < 0.5:
        architecture = packed(random, problem, architecture)
    if random.random() < 0.3:
        problem = with_first_values(random, problem)
    if random.random() < 0.3:
        architecture = as_part(random, problem, architecture)
    mappings = [first, *(random_mapping(random, problem, architecture) for _ in range(4))]
    counting, encoded = random.choice(COUNTINGS), encode(problem, architecture, mappings)
    batch = BatchEvaluator(problem, architecture, counting).evaluate(encoded)
    batches = [batch]
    if counting == EXACT:  # small counts are exact as doubles, too
        batches.append(BatchEvaluator(problem, architecture, rounded=True).evaluate(encoded))
    for row, mapping in enumerate(mappings):
        for own in batches:
            _assert_row(problem, architecture, mapping, own, row, counting)


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_equals_plain_with_remainders_among_others(seed: int) -> None:
    random = Random(seed)
    problem, architecture, first = random_case(random)
    bounds = tuple(bound + random.choice((0, 0, 1)) for bound in problem.bounds)
    if bounds != problem.bounds:
        problem = replace(problem, bounds=bounds)
        first = random_mapping(random, problem, architecture)
    architecture = packed(random, problem, architecture)
    if random.random() < 0.3:
        problem = with_first_values(random, problem)
    if random.random() < 0.3:
        architecture = as_part(random, problem, architecture)
    kinds = (ANY, PERFECT, ANY)
    mappings = [first, *(random_mapping(random, problem, architecture, kind) for kind in kinds)]
    random.shuffle(mappings)
    exact, rounded = (BatchEvaluator(problem, architecture, rounded=own) for own in (False, True))
    encoded = encode(problem, architecture, mappings)
    batch, *estimates = exact.evaluate(encoded), exact.estimate(encoded), rounded.estimate(encoded)
    for name in ("valid", "energy", "cycles", "reads"):
        assert (getattr(estimates[0], name) == getattr(estimates[1], name)).all()
    for row, mapping in enumerate(mappings):
        _assert_row(problem, architecture, mapping, batch, row)


WIDE_LEVELS = (
    StorageLevel("dram", block_size=4, read_bandwidth=Fraction(3), energy=AccessEnergy(100, 90, 80)),
    Fanout("rows", 100, 100, no_multicast=frozenset("I")),
    StorageLevel(
        "buffer", 60, energy=AccessEnergy(10, 9, 8, 3), gating_fanouts=0, no_coalesce=frozenset("B")
    ),
    Fanout("columns", 100, 100),
    StorageLevel(
        "registers",
        20,
        write_bandwidth=Fraction(1, 2),
        no_temporal_reuse=frozenset("A"),
        rmw_first_update=frozenset("Z"),
    ),
)


def test_one_part_of_several() -> None:
    """Free first touches and further words on the bandwidths change counts and cycles, and are counted."""
    random, changed = Random(8), 0
    for _ in range(30):
        problem, architecture, mapping = random_case(random)
        part = as_part(random, problem, architecture)
        encoded = encode(problem, part, [mapping])
        batch = BatchEvaluator(problem, part).evaluate(encoded)
        _assert_row(problem, part, mapping, batch, 0)
        whole = BatchEvaluator(problem, architecture).evaluate(encoded)
        changed += bool((whole.reads != batch.reads).any() and (whole.cycles != batch.cycles).any())
    assert changed > 5


def test_shares_too_fine_to_be_rounded_are_refused() -> None:
    problem, architecture = _small()
    fine = replace(architecture.levels[0], free_first_touches=(("Z", Fraction(1, 2**30)),))
    with pytest.raises(OverflowError, match="too fine shares"):
        BatchEvaluator(problem, replace(architecture, nodes=(fine, *architecture.nodes[1:])))


@pytest.mark.parametrize(
    ("einsum", "limited", "least"),
    [(gemm, True, 60), (depthwise, True, 10), slow(convolution_1d, True, 50), slow(depthwise, False, 60)],
)
def test_arrays_equal_plain_with_remainders(
    einsum: Callable[[Random], tuple[Dataspace, ...]], limited: bool, least: int
) -> None:
    random = Random(4)
    spaces = einsum(random)
    dims = tuple(sorted({dim for space in spaces for dim in space.dims}))
    problem = Problem("awkward", dims, tuple((7, 13, 5, 3, 9)[: len(dims)]), spaces)
    levels = WIDE_LEVELS if limited else (*WIDE_LEVELS[:-1], replace(WIDE_LEVELS[-1], write_bandwidth=None))
    architecture = Architecture("wide", levels, Compute("mac", 5))
    mappings = [random_mapping(random, problem, architecture, ANY) for _ in range(120)]
    batch = encode(problem, architecture, mappings)
    indexed = [(space, index_space(problem, space)) for space in spaces]
    singly = needs_one_by_one(RemainderNest.of(problem, architecture, batch), indexed)
    assert np.count_nonzero(~singly) > least
    found = BatchEvaluator(problem, architecture).evaluate(batch)
    for row, mapping in enumerate(mappings):
        _assert_row(problem, architecture, mapping, found, row)


def test_estimates_are_exact_but_for_words_with_remainders() -> None:
    random = Random(6)
    problem = Problem("gemm", ("K", "M", "N"), (13, 29, 17), gemm(random))
    architecture = Architecture("wide", WIDE_LEVELS, Compute("mac", 5))
    mappings = [random_mapping(random, problem, architecture, ANY) for _ in range(200)]
    evaluator, batch = BatchEvaluator(problem, architecture), encode(problem, architecture, mappings)
    exact, estimated = evaluator.evaluate(batch), evaluator.estimate(batch)
    for name in ("valid", "compute_cycles", "tile_words"):
        assert (getattr(exact, name) == getattr(estimated, name)).all()
    ratios = estimated.energy / exact.energy
    assert 0.85 < np.median(ratios) < 1.05
    assert np.quantile(np.abs(np.log(ratios)), 0.8) < np.log(1.4)
    even = [random_mapping(random, problem, architecture, PERFECT) for _ in range(20)]
    assert (
        evaluator.estimate(encode(problem, architecture, even)).energy
        == evaluator.evaluate(encode(problem, architecture, even)).energy
    ).all()


def test_remainders_are_not_counted_by_timeloops_rule() -> None:
    problem, architecture = _small()
    problem = replace(problem, bounds=(5, 4, 4))
    mapping = Mapping(
        (
            StorageMapping((Loop("M", 3), Loop("N", 4), Loop("K", 4)), frozenset("ABZ")),
            FanoutMapping((SpatialLoop("M", 2, "x"),)),
            StorageMapping((), frozenset("ABZ")),
        )
    )
    batch = encode(problem, architecture, [mapping])
    nowhere = BatchEvaluator(problem, architecture).evaluate(replace(batch, keep=np.zeros_like(batch.keep)))
    assert not nowhere.valid[0]
    assert not nowhere.reads.any()
    assert BatchEvaluator(problem, architecture).evaluate(batch).compute_cycles[0] == 48
    with pytest.raises(ValueError, match="not counted by the rule 'timeloop'"):
        BatchEvaluator(problem, architecture, TIMELOOP).evaluate(batch)


def test_equals_plain_beyond_one_chunk() -> None:
    random = Random(7)
    problem, architecture, first = random_case(random)
    mappings = [first] * 5000 + [random_mapping(random, problem, architecture)]
    batch = BatchEvaluator(problem, architecture).evaluate(encode(problem, architecture, mappings))
    assert batch.reads.shape == (5001, len(architecture.levels), len(problem.dataspaces))
    for row in (0, 4999, 5000):
        _assert_row(problem, architecture, mappings[row], batch, row)


def _small() -> tuple[Problem, Architecture]:
    problem = Problem("gemm", ("M", "N", "K"), (4, 4, 4), GEMM)
    nodes = (StorageLevel("dram"), Fanout("array", 4, 2), StorageLevel("buffer", size_words=64))
    return problem, Architecture("small", nodes, Compute("mac"))


def test_empty_batch() -> None:
    problem, architecture = _small()
    result = BatchEvaluator(problem, architecture).evaluate(encode(problem, architecture, []))
    assert result.energy.shape == (0,)
    assert result.reads.shape == (0, 2, 3)


def test_dataspace_kept_nowhere_is_not_valid() -> None:
    problem, architecture = _small()
    batch = encode(problem, architecture, [random_mapping(Random(1), problem, architecture)])
    result = BatchEvaluator(problem, architecture).evaluate(replace(batch, keep=np.zeros_like(batch.keep)))
    assert not result.valid[0]
    assert not result.reads.any()


def test_mesh_counts_children_when_columns_are_unknown() -> None:
    problem, architecture = _small()
    batch = encode(problem, architecture, [random_mapping(Random(1), problem, architecture)])
    factors = np.ones_like(batch.factors)
    factors[0, 0] = [4, 4, 1]
    factors[0, 1] = [1, 1, 4]
    keep = np.ones_like(batch.keep)
    evaluator = BatchEvaluator(problem, architecture)
    assert evaluator.evaluate(replace(batch, factors=factors, keep=keep, columns=None)).valid[0]
    assert not evaluator.evaluate(replace(batch, factors=factors, keep=keep, columns=np.array([[1]]))).valid[
        0
    ]


def test_wrong_arrays_are_refused() -> None:
    problem, architecture = _small()
    batch = encode(problem, architecture, [random_mapping(Random(1), problem, architecture)])
    evaluator = BatchEvaluator(problem, architecture)
    with pytest.raises(ValueError, match="do not multiply"):
        evaluator.evaluate(replace(batch, factors=batch.factors * 2))
    with pytest.raises(ValueError, match="permutation"):
        evaluator.evaluate(replace(batch, order=np.zeros_like(batch.order)))
    with pytest.raises(ValueError, match="shape"):
        evaluator.evaluate(replace(batch, factors=batch.factors[:, :2]))
    with pytest.raises(ValueError, match="shapes"):
        evaluator.evaluate(replace(batch, keep=batch.keep[:, :, :2]))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((StorageMapping(),), "1 nodes"),
        ((FanoutMapping(), StorageMapping()), "wrong kind"),
        ((StorageMapping((Loop("Q", 2),)), FanoutMapping()), "'Q', which is not a dimension"),
        ((StorageMapping(), FanoutMapping((SpatialLoop("Q", 2, "x"),))), "'Q', which is not a dimension"),
        ((StorageMapping((Loop("M", 0),)), FanoutMapping()), "'M' with the bound 0"),
        ((StorageMapping(keep=frozenset("AX")), FanoutMapping()), r"unknown dataspaces \['X'\]"),
    ],
)
def test_mappings_that_do_not_belong_are_refused(nodes: tuple[NodeMapping, ...], message: str) -> None:
    problem = Problem("gemm", ("M", "N", "K"), (4, 4, 4), GEMM)
    architecture = Architecture("small", (StorageLevel("dram"), Fanout("array", 4)), Compute("mac"))
    with pytest.raises(ValueError, match=message):
        encode(problem, architecture, [Mapping(nodes)])


def test_too_large_problems_are_refused() -> None:
    problem, architecture = _small()
    with pytest.raises(OverflowError, match="'A' is too large"):
        BatchEvaluator(replace(problem, bounds=(2**20, 2**20, 2**20)), architecture)


@pytest.mark.parametrize("einsum", [gemm, convolution_1d])
def test_counts_beyond_doubles_are_rounded(einsum: Callable[[Random], tuple[Dataspace, ...]]) -> None:
    random = Random(5)
    spaces = einsum(random)
    dims = tuple(sorted({dim for space in spaces for dim in space.dims}))
    problem = Problem("large", dims, (720720 if len(dims) < 4 else 2310,) * len(dims), spaces)
    slow = replace(WIDE_LEVELS[0], read_bandwidth=Fraction(1, 10**9 + 7))
    architecture = Architecture("wide", (slow, *WIDE_LEVELS[1:]), Compute("mac", 3))
    with pytest.raises(OverflowError, match="batched cost model"):
        BatchEvaluator(problem, architecture)
    uneven = replace(problem, bounds=tuple(bound + 1 for bound in problem.bounds))
    for own, kind in ((problem, PERFECT), (uneven, ANY)):
        mappings = [random_mapping(random, own, architecture, kind) for _ in range(20)]
        found = BatchEvaluator(own, architecture, rounded=True).evaluate(encode(own, architecture, mappings))
        for row, mapping in enumerate(mappings):
            plain = evaluate(own, architecture, mapping)
            assert found.valid[row] == plain.valid
            assert found.energy[row] == pytest.approx(plain.energy, rel=1e-12)
            assert found.cycles[row] == pytest.approx(plain.cycles, rel=1e-12)
    with pytest.raises(ValueError, match="not rounded"):
        BatchEvaluator(problem, architecture, TIMELOOP, rounded=True)


def test_tensors_of_many_words_are_priced_alike() -> None:
    """Their squares do not fit 64 bits; shares of an output with windows are products of that size."""
    words = (Term("M"),), (Term("N"),)
    spaces = Dataspace("A", words), Dataspace("Z", words, read_write=True)
    problem = Problem("large", ("M", "N"), (2**18, 3 * 2**15), spaces)
    _, small = _small()
    architecture = replace(small, nodes=(small.levels[0], Fanout("mesh", 8, 8), *small.levels[1:]))
    random = Random(3)
    mappings = [random_mapping(random, problem, architecture) for _ in range(50)]
    found = BatchEvaluator(problem, architecture).evaluate(encode(problem, architecture, mappings))
    for number, mapping in enumerate(mappings):
        expected = evaluate(problem, architecture, mapping)
        assert (found.energy[number], found.cycles[number]) == (expected.energy, expected.cycles)
    window = Dataspace("Z", ((Term("M"), Term("N", 3)), (Term("N"),)), True)
    with pytest.raises(OverflowError, match="'Z' is too large"):
        BatchEvaluator(replace(problem, dataspaces=(spaces[0], window)), architecture)


def test_bandwidths_whose_cycles_do_not_fit_are_refused() -> None:
    problem, architecture = _small()
    slow = replace(architecture.levels[0], read_bandwidth=Fraction(1, 10**17))
    with pytest.raises(OverflowError, match="'dram' takes too many cycles"):
        BatchEvaluator(problem, replace(architecture, nodes=(slow, *architecture.nodes[1:])))


def test_instances_that_do_not_fit_are_refused() -> None:
    problem, architecture = _small()
    top, inner = architecture.levels[0], replace(architecture.levels[-1], name="inner")
    for size, position in ((2**32, 1), (2**31, 2)):
        wide = tuple(Fanout(f"f{number}", size, size) for number in range(position))
        with pytest.raises(OverflowError, match="'inner' has too many instances"):
            BatchEvaluator(problem, replace(architecture, nodes=(top, *wide, inner)))
    assert BatchEvaluator(problem, replace(architecture, nodes=(top, Fanout("f", 2**31, 2**31), inner)))
