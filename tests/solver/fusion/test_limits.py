"""Limits of fused searches: whenever one strikes, there is a mapping, a true bound, and soon an end."""

from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest

from model.extents import PERFECT
from model.formats.fused import load_cascade
from model.formats.timeloop.options import LoadOptions
from model.fused.cascade import Cascade
from solver.fusion import FusionLimits, FusionProgress, drafts, fuse_cascade, mapper
from solver.fusion.bodies import BodyBounds
from solver.fusion.drafts import Floor
from solver.fusion.mapper import _Search
from solver.fusion.ways import Given
from solver.result import Options, Status, Termination
from tests.conftest import REPOSITORY, Clock
from tests.solver.fusion.test_optimum import drawn
from tests.solver.fusion.test_remainders import with_remainders

STEP_S = 0.01
"""What each question whether to stop takes, by the clock of these tests."""

MOST_QUESTIONS = 100
"""Questions from the one that ends a search to its result."""


@cache
def products(*, remainders: bool = False) -> Cascade:
    """Two products, whose loops may leave remainders or not."""
    cascade = drawn(Random("products 112"), "products")
    return with_remainders(cascade) if remainders else cascade


@cache
def least(objective: str, *, remainders: bool = False) -> int:
    """The optimum of the two products."""
    limits = FusionLimits(equal_parts=not remainders)
    value = fuse_cascade(products(remainders=remainders), objective, limits=limits).value
    assert value is not None
    return value


@pytest.mark.parametrize("limit_s", [0.0, 0.3, 1.0, 2.5, 6.0])
@pytest.mark.parametrize("equal_parts", [True, False])
def test_a_search_ends_soon_after_its_limit_with_a_mapping(limit_s: float, equal_parts: bool, clock: Clock):
    cascade, limits = products(remainders=not equal_parts), FusionLimits(equal_parts=equal_parts)
    optimum = least("energy", remainders=not equal_parts)

    def goes_on() -> bool:
        clock.now_s += STEP_S
        return False

    result = fuse_cascade(cascade, "energy", Options(time_limit_s=limit_s), limits, should_stop=goes_on)
    assert result.value is not None
    assert result.bound is not None
    assert result.bound <= optimum <= result.value
    assert (result.status is Status.OPTIMAL) == (result.bound == result.value)
    assert clock.now_s <= limit_s + mapper.LATE_S + 3 * STEP_S


@pytest.mark.parametrize("first", [1, 10, 40, 160, 500])
def test_an_interrupt_ends_a_search_whatever_it_does(first: int):
    cascade, optimum, questions = products(), least("edp"), 0
    told: list[FusionProgress] = []

    def is_late() -> bool:
        nonlocal questions
        questions += 1
        return questions >= first

    result = fuse_cascade(cascade, "edp", on_progress=told.append, should_stop=is_late)
    assert result.termination is Termination.INTERRUPTED
    assert questions <= first + MOST_QUESTIONS
    assert result.bound is not None
    assert 0 < result.bound <= optimum
    assert result.bound >= max(own.bound or 0 for own in told)
    assert result.value is not None
    assert result.value >= optimum


def test_progress_names_the_stage_and_knows_no_bound_before_the_last_one():
    cascade, told = products(remainders=True), list[FusionProgress]()
    result = fuse_cascade(cascade, "energy", on_progress=told.append)
    stages = list(dict.fromkeys(own.stage for own in told))
    assert stages == ["each Einsum alone", "divisors", "remainders in nests"]
    assert all(own.bound is None for own in told if own.stage != stages[-1])
    bounds = [own.bound for own in told if own.bound is not None]
    assert bounds
    assert result.value is not None
    assert max(bounds) <= result.value


def test_einsums_that_there_is_no_time_to_search_are_mapped_by_a_heuristic():
    cascade, optimum = products(), least("energy")
    result = fuse_cascade(cascade, "energy", Options(time_limit_s=0.0))
    assert result.statistics.searches == 0
    assert result.value is not None
    assert result.value >= optimum
    assert result.evaluation is not None
    assert result.evaluation.valid


@pytest.mark.parametrize("known", [0, 1])
def test_a_bound_adds_up_what_is_known_of_each_einsum_once_time_is_over(known: int):
    run = _Search(products(), "energy", Options(), FusionLimits(), None, None)
    search = run._paths(run.space)
    least, _ = search.bodies.lower((), known, Given((), 0))
    run._last.end(Termination.TIME_LIMIT)
    run.clock.end(Termination.INTERRUPTED)
    plain = int(run.pricer.arithmetic(1 - known).paid) * run.cascade.einsums[1 - known].n_instances
    assert plain < run._bound_at_once(search) == least + plain


def test_einsums_that_cost_most_are_bounded_first():
    result, run = (
        fuse_cascade(products(), "edp"),
        _Search(products(), "edp", Options(), FusionLimits(), None, None),
    )
    first, last = run._dearest_first(result.evaluation)
    assert result.evaluation is not None
    costs = result.evaluation.einsums
    assert {first, last} == {0, 1}
    assert costs[first].energy * costs[first].cycles > costs[last].energy * costs[last].cycles


def test_a_search_ends_where_memory_does(monkeypatch: pytest.MonkeyPatch):
    cascade, optimum = products(), least("energy")
    monkeypatch.setattr(mapper, "memory_bytes", lambda: 1 << 60)
    result = fuse_cascade(cascade, "energy")
    assert result.termination is Termination.MEMORY_LIMIT
    assert result.bound is not None
    assert 0 < result.bound <= optimum


def test_tensors_that_cause_most_of_the_traffic_are_stored_first():
    """The first fused mapping of a block comes before any floor, and halves what it costs without fusion."""
    names = "workloads/gpt3_block.yaml", "architectures/tpu_like.yaml"
    files = [REPOSITORY / "specs" / name for name in names]
    cascade, _ = load_cascade(files, {"N_TOKENS": 4096}, LoadOptions(factors=PERFECT))
    values: list[int] = []

    def take(told: FusionProgress) -> None:
        if told.incumbent is not None:
            values.append(told.incumbent)

    def is_fused() -> bool:
        return bool(values) and values[-1] < values[0] / 2

    result = fuse_cascade(cascade, "energy", on_progress=take, should_stop=is_fused)
    assert result.termination is Termination.INTERRUPTED
    assert result.value is not None
    assert result.value < values[0] / 2
    assert result.statistics.floors == 0


@pytest.mark.parametrize("remainders", [False, True])
def test_a_floor_is_the_same_however_many_cells_are_bounded_at_a_time(
    remainders: bool, monkeypatch: pytest.MonkeyPatch
):
    tables = [floors(remainders)]
    for together in (1, 7):
        monkeypatch.setattr(drafts, "CELLS_TOGETHER", together)
        tables.append(floors(remainders))
    for one, *others in zip(*tables, strict=True):
        assert one.energy.size > 1
        for other in others:
            np.testing.assert_array_equal(one.energy, other.energy)
            np.testing.assert_array_equal(one.cycles, other.cycles)
    monkeypatch.setattr(drafts, "MOST_CELLS", 1)
    assert all(own.least({}) == (0, 0) for own in floors(remainders))


def floors(remainders: bool) -> list[Floor]:
    """The floor of each Einsum of a cascade."""
    run = _Search(products(), "edp", Options(), FusionLimits(), None, None)
    space = replace(run.space, remainders=remainders)
    run.pricer.space = space
    bounds = BodyBounds(space, run.pricer).bounds
    return [bounds.floor(place, frozenset(), 0) for place in range(len(space.einsums))]


def test_bodies_are_the_same_however_many_are_bounded_at_a_time(monkeypatch: pytest.MonkeyPatch):
    results = []
    for together in (1 << 13, 2):
        monkeypatch.setattr("solver.fusion.bodies.CELLS_TOGETHER", together)
        results.append(fuse_cascade(drawn(Random("three 104"), "three"), "edp"))
    assert results[0].status is Status.OPTIMAL
    one, other = (replace(own.statistics, seconds=0.0, stages=()) for own in results)
    assert (results[0].value, one) == (results[1].value, other)
