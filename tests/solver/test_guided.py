"""Searches with a mapping to begin with, and with a second opinion: the answers stay what they are."""

import pytest

from solver import guided
from solver.explain import Diagnosis, Verdict
from solver.guided import map_from, map_or_explain
from solver.result import Options, Status, Termination
from solver.search import map_einsum, mapper
from solver.search.completion import Priced
from tests.solver.explain.enumeration import allows_a_mapping, some_mapspaces
from tests.solver.explain.test_levers import mapspace_of

SPACES = some_mapspaces(97, 60)
ENERGY = Options(objectives=("energy",))


@pytest.fixture
def impatient(monkeypatch):
    """Every search that does not find a mapping at once is interrupted."""
    monkeypatch.setattr(guided, "PATIENCE_S", -1.0)
    monkeypatch.setattr(mapper, "PROGRESS_PERIOD_S", -1.0)


@pytest.mark.parametrize("mapspace", SPACES)
def test_a_second_opinion_changes_no_answer(mapspace, impatient):
    alone = map_einsum(mapspace, ENERGY)
    advised = map_or_explain(mapspace, ENERGY)
    assert (advised.status, advised.value, advised.bound) == (alone.status, alone.value, alone.bound)
    assert bool(advised.reasons) == (advised.status is Status.INFEASIBLE)
    unexplained = map_or_explain(mapspace, ENERGY, reasons=False)
    assert (unexplained.status, unexplained.value, unexplained.reasons) == (alone.status, alone.value, ())


def test_there_are_both_kinds_of_them():
    assert {allows_a_mapping(mapspace) for mapspace in SPACES} >= {True, False}


def test_the_opinion_is_asked_once_and_only_if_nothing_is_found(impatient, monkeypatch):
    asked = []
    monkeypatch.setattr("solver.explain.diagnose", lambda *_: asked.append(1) or Diagnosis(Verdict.UNKNOWN))
    assert map_or_explain(mapspace_of(), ENERGY).status is Status.OPTIMAL
    assert len(asked) == 1
    monkeypatch.setattr(guided, "PATIENCE_S", 60.0)
    assert map_or_explain(mapspace_of(), ENERGY).status is Status.OPTIMAL
    assert len(asked) == 1


def test_a_mapping_to_begin_with_is_kept_or_beaten():
    mapspace = mapspace_of()
    best = map_einsum(mapspace, ENERGY)
    fastest = map_einsum(mapspace, Options(objectives=("latency",)))
    for known in (best, fastest):
        found = map_from(Priced(known.mapping, known.evaluation), mapspace, ENERGY)
        assert (found.status, found.value) == (Status.OPTIMAL, best.value)
    stopped = map_from(Priced(fastest.mapping, fastest.evaluation), mapspace, ENERGY, None, lambda: True)
    assert (stopped.status, stopped.mapping) == (Status.FEASIBLE, fastest.mapping)


def test_a_stop_and_the_time_limit_are_heard(impatient):
    result = map_or_explain(mapspace_of(), ENERGY, should_stop=lambda: True)
    assert (result.status, result.termination) == (Status.UNKNOWN, Termination.INTERRUPTED)
    hurried = map_or_explain(mapspace_of(), Options(time_limit_s=0.0))
    assert (hurried.status, hurried.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)
