"""The stages of a search: with a known mapping, or a feasibility check, the results do not change."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Node, Port, StorageLevel
from model.counting import TIMELOOP
from model.extents import ANY
from model.mapspace import FactorRule
from model.sparse import evaluate_totals
from model.sparsity import Sparsity
from solver import pareto, stages
from solver.explain import Diagnosis, Verdict, diagnose, explain_infeasible
from solver.explain.explanation import NOT_FOUND
from solver.explain.feasibility import Witness
from solver.pareto import pareto_front
from solver.result import Options, Phase, Progress, Result, Status, Stopwatch, Termination
from solver.search import map_by_bounds, mapper
from solver.search.mapper import SharedSearch
from solver.search.priced import Priced
from solver.stages import map_einsum
from tests.mapspaces import free_mapspace, matmul
from tests.orders import small_orders
from tests.random_sparsity import random_sparse_mapspace
from tests.slow import few
from tests.solver.explain.enumeration import allows_a_mapping, some_mapspaces
from tests.solver.explain.row import mapspace_of
from tests.strategies import random_mapspaces_with_places, random_mapspaces_with_remainders

SPACES = 42
ENERGY = Options(objectives=("energy",))
SHORT = 1.0
OUTERMOST_TWO = (
    StorageLevel("DRAM", energy=AccessEnergy(100, 100, 100)),
    StorageLevel("buffer", size_words=6, energy=AccessEnergy(5, 5, 5)),
)


def walked(mapspace):
    """The front by bounds alone."""
    return pareto._FrontWalk(SharedSearch(mapspace)).run(None)


def spaces():
    return some_mapspaces(97, SPACES)


@pytest.fixture
def impatient(monkeypatch):
    """Every search that does not find a mapping at once is interrupted."""
    monkeypatch.setattr(stages, "PATIENCE_S", -1.0)
    monkeypatch.setattr(mapper, "PROGRESS_PERIOD_S", -1.0)


@pytest.mark.parametrize("number", few(range(SPACES), 12))
def test_the_feasibility_check_changes_no_answer(number, impatient):
    mapspace = spaces()[number]
    alone = map_by_bounds(mapspace, ENERGY)
    advised = map_einsum(mapspace, ENERGY)
    assert (advised.status, advised.value, advised.bound) == (alone.status, alone.value, alone.bound)
    assert bool(advised.reasons) == (advised.status is Status.INFEASIBLE)
    unexplained = map_einsum(mapspace, ENERGY, reasons=False)
    assert (unexplained.status, unexplained.value, unexplained.reasons) == (alone.status, alone.value, ())


@pytest.mark.parametrize("number", few(range(0, SPACES, 3), 4))
def test_the_feasibility_check_changes_no_front(number, impatient):
    mapspace = spaces()[number]
    alone, advised = walked(mapspace), pareto_front(mapspace)
    assert (advised.status, advised.termination) == (alone.status, Termination.PROVEN)
    costs = [[(p.evaluation.cycles, p.evaluation.energy) for p in own.points] for own in (alone, advised)]
    assert costs[0] == costs[1]
    assert all(point.proven for point in advised.points)
    assert advised.open_ranges == ()
    assert bool(advised.reasons) == (advised.status is Status.INFEASIBLE)


def test_there_are_both_kinds_of_them():
    assert {allows_a_mapping(mapspace) for mapspace in spaces()[::3]} >= {True, False}


@pytest.mark.parametrize("phase", Phase)
def test_patience_begins_once_all_is_surveyed(phase, monkeypatch):
    monkeypatch.setattr(stages, "PATIENCE_S", -1.0)
    patience = stages.Patience(stages.EinsumQuestion(mapspace_of(), ENERGY))
    patience.hear(Progress(phase, 0.0, "energy", label="survey"))
    assert patience.stop() == (phase is not Phase.SURVEY)


def test_the_opinion_is_asked_once_and_only_if_nothing_is_found(impatient, monkeypatch):
    asked = []
    monkeypatch.setattr("solver.explain.diagnose", lambda *_: asked.append(1) or Diagnosis(Verdict.UNKNOWN))
    assert map_einsum(mapspace_of(), ENERGY).status is Status.OPTIMAL
    assert len(asked) == 1
    monkeypatch.setattr(stages, "PATIENCE_S", 60.0)
    assert map_einsum(mapspace_of(), ENERGY).status is Status.OPTIMAL
    assert len(asked) == 1


@cache
def nothing():
    """Those that allow no mapping."""
    return [mapspace for mapspace in spaces()[:12] if allows_a_mapping(mapspace) is False]


@pytest.fixture
def asked(impatient, monkeypatch):
    """The opinions that were given, as they are given."""
    opinions = []
    monkeypatch.setattr(
        "solver.explain.diagnose", lambda *own: opinions.append(diagnose(*own)) or opinions[-1]
    )
    return opinions


def test_the_opinion_answers_for_a_front(asked, monkeypatch):
    """The walk is stopped before it proves anything, and does not begin again."""
    walks, run = [], pareto._FrontWalk.run
    monkeypatch.setattr(pareto._FrontWalk, "run", lambda *own: walks.append(run(*own)) or walks[-1])
    fronts = [pareto_front(mapspace) for mapspace in nothing()]
    assert len(walks) == len(nothing())
    opinions = iter(asked)
    for walk, front in zip(walks, fronts, strict=True):
        assert (front.status, front.termination) == (Status.INFEASIBLE, Termination.PROVEN)
        assert front.reasons
        if walk.status is Status.UNKNOWN:
            assert walk.open_ranges
            assert (front.reasons, front.open_ranges) == (next(opinions).reasons, ())
    assert asked


def stages_of(result):
    return [(cost.stage, cost.engine) for cost in result.statistics.stages]


def test_a_result_says_what_each_stage_took():
    """Divisors come before remainders; reasons are no part of the time of the search."""
    mapspace = replace(mapspace_of(), factors=ANY)
    result = map_einsum(mapspace, Options(("energy",), time_limit_s=600))
    ends = [("divisors", "bounds"), ("all mappings", "bounds"), ("simple mapping", "cost model")]
    assert stages_of(result) == ends
    searched = sum(cost.seconds for cost in result.statistics.stages[:2])
    assert 0 < searched <= result.statistics.seconds
    assert stages_of(map_einsum(nothing()[0], ENERGY))[-1] == ("reasons", "cp-sat")


def test_the_feasibility_check_is_a_stage(impatient):
    assert ("feasibility", "cp-sat") in stages_of(map_einsum(mapspace_of(), ENERGY))


def test_cp_sat_alone_has_stages_of_its_own():
    """Fewer than four mappings, one of them without remainders."""
    mapspace = replace(free_mapspace(matmul(1, 1, 3), *OUTERMOST_TWO), factors=ANY)
    result = map_einsum(mapspace, Options(("energy",), engine="cp-sat", time_limit_s=600))
    assert result.status is Status.OPTIMAL
    assert stages_of(result) == [
        ("divisors", "cp-sat"),
        ("all mappings", "cp-sat"),
        ("simple mapping", "cost model"),
    ]
    assert result.perfect_factors is not None


def test_a_stage_inside_of_another_counts_for_itself(clock):
    watch = Stopwatch([("later", "bounds")])
    with watch.during("outer", "bounds"):
        clock.now_s += 0.25
        with watch.during("inner", "heuristic"):
            clock.now_s += 0.5
        with watch.during("inner", "heuristic"):
            pass
    with watch.during("later", "bounds"):
        clock.now_s += 0.125
    seconds = {cost.stage: cost.seconds for cost in watch.costs}
    assert list(seconds.items()) == [("later", 0.125), ("inner", 0.5), ("outer", 0.25)]


def test_cp_sat_alone_refuses_sparse_data():
    mapspace = replace(mapspace_of(), sparsity=Sparsity({}, ()))
    with pytest.raises(ValueError, match="CP-SAT does not search sparse data"):
        map_einsum(mapspace, Options(engine="cp-sat"))


def test_an_engine_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="unknown engine 'guess'; choose from auto, bounds, cp-sat"):
        Options(engine="guess")


def test_the_documentation_names_all_stages():
    text = (Path(__file__).parents[2] / "docs" / "search.md").read_text(encoding="utf-8")
    names = {stage.name for stage in stages.STAGES if len(stage.scopes) < 2}
    names |= {scope.name for scope in mapper.SCOPES}
    assert {name for name in names if f"| `{name}` |" not in text} == set()


@pytest.mark.parametrize("search", [map_einsum, pareto_front])
def test_what_the_opinion_leaves_open_and_the_search_proves_is_explained(search, impatient, monkeypatch):
    asked = []
    monkeypatch.setattr("solver.explain.diagnose", lambda *_: asked.append(1) or Diagnosis(Verdict.UNKNOWN))
    for mapspace in nothing():
        answer = search(mapspace)
        assert answer.status is Status.INFEASIBLE
        assert answer.reasons
    assert asked


@pytest.mark.parametrize("search", [map_einsum, pareto_front])
@pytest.mark.parametrize(("limit_s", "given"), [(None, 60), (0.5, 2), (5.0, 4.75), (900.0, 60)])
def test_the_reasons_have_what_is_left_of_the_time_limit(search, limit_s, given, clock, monkeypatch):
    times, phases = [], []

    def hear(progress):
        phases.append(progress.phase)
        clock.now_s = 0.25

    monkeypatch.setattr(
        "solver.explain.explain_infeasible", lambda *own: times.append(own[2]) or explain_infeasible(*own)
    )
    answer = search(nothing()[0], Options(time_limit_s=limit_s), hear)
    assert answer.reasons
    assert times[0] == given
    assert phases[-1] == Phase.EXPLANATION


def test_a_second_opinion_is_an_explanation_to_those_who_wait(impatient, monkeypatch):
    phases = []
    monkeypatch.setattr("solver.explain.diagnose", lambda *_: Diagnosis(Verdict.INFEASIBLE, (NOT_FOUND,)))
    map_einsum(mapspace_of(), ENERGY, lambda own: phases.append(own.phase))
    assert phases[-1] == Phase.EXPLANATION


def test_a_mapping_to_begin_with_is_kept_or_beaten():
    mapspace = mapspace_of()
    best = map_einsum(mapspace, ENERGY)
    fastest = map_einsum(mapspace, Options(objectives=("latency",)))
    for known in (best, fastest):
        found = map_einsum(mapspace, ENERGY, known=Priced(known.mapping, known.evaluation))
        assert (found.status, found.value) == (Status.OPTIMAL, best.value)
    stopped = map_einsum(mapspace, ENERGY, None, lambda: True, Priced(fastest.mapping, fastest.evaluation))
    assert (stopped.status, stopped.mapping) == (Status.FEASIBLE, fastest.mapping)


@pytest.mark.parametrize("number", few(range(9), 3))
def test_a_survey_without_end_leaves_a_mapping_or_reasons(number, clock, monkeypatch):
    """It is cut off before the time limit; its bound stays."""
    mapspace = spaces()[number]
    least = map_einsum(mapspace, ENERGY).value

    def surveying(space, options, on_progress, should_stop, known, partner):
        if known is not None:
            return map_by_bounds(space, options, on_progress, lambda: True, known)
        while not should_stop():
            clock.now_s += 0.1
        stopped = Termination.INTERRUPTED
        return Result(Status.UNKNOWN, stopped, ("energy",), space.architecture.units_per_pj, bound=least)

    monkeypatch.setattr(stages, "map_by_bounds", surveying)
    monkeypatch.setattr(stages, "RESERVE_S", 60.0)  # half of the limit
    answer = map_einsum(mapspace, Options(objectives=("energy",), time_limit_s=SHORT))
    if allows_a_mapping(mapspace):
        met = answer.value == least
        assert answer.status is (Status.OPTIMAL if met else Status.FEASIBLE)
        assert (answer.termination is Termination.PROVEN) == met
        assert answer.bound == least
        assert answer.statistics.mappings_priced == 1  # for the second opinion
    else:
        assert answer.status is Status.INFEASIBLE
        assert answer.reasons


def test_a_mapping_found_at_the_last_moment_counts_once(monkeypatch):
    mapspace = mapspace_of()
    best = map_einsum(mapspace, ENERGY)

    def late(space, options, on_progress, should_stop, known, partner):
        if known is not None:
            return map_by_bounds(space, options, on_progress, lambda: True, known)
        on_progress(Progress(Phase.PATHS, 0.0, "energy"))
        while not should_stop():
            pass
        return replace(best, status=Status.FEASIBLE, termination=Termination.INTERRUPTED, bound=None)

    monkeypatch.setattr(stages, "map_by_bounds", late)
    monkeypatch.setattr(stages, "PATIENCE_S", 0.01)
    answer = map_einsum(mapspace, ENERGY)
    assert (answer.status, answer.value) == (Status.FEASIBLE, best.value)
    assert answer.statistics.mappings_priced == best.statistics.mappings_priced > 0


@pytest.mark.parametrize("objectives", [("energy",), ("energy", "latency")])
def test_a_mapping_that_meets_the_bound_of_the_search_before_is_proven(objectives, impatient, monkeypatch):
    """The second search ends at once; what it begins with is the best, but nobody knows of cycles."""
    mapspace = mapspace_of()
    best = map_einsum(mapspace, Options(objectives=objectives))
    least = replace(best, later_bounds=())

    def ending(space, options, on_progress, should_stop, known, partner):
        if known is not None:
            return map_by_bounds(space, options, on_progress, lambda: True, known)
        on_progress(Progress(Phase.PATHS, 0.0, "energy"))
        assert should_stop()
        stopped = (Status.UNKNOWN, Termination.INTERRUPTED)
        return replace(
            least, status=stopped[0], termination=stopped[1], value=None, mapping=None, evaluation=None
        )

    witness = Witness(best.mapping, best.evaluation)
    monkeypatch.setattr(stages, "map_by_bounds", ending)
    monkeypatch.setattr("solver.explain.diagnose", lambda *_: Diagnosis(Verdict.FEASIBLE, witness=witness))
    answer = map_einsum(mapspace, Options(objectives=objectives))
    assert (answer.value, answer.bound, answer.evidence) == (best.value, best.value, best.evidence)
    proven = (Status.OPTIMAL, Termination.PROVEN)
    alone = len(objectives) == 1
    assert (answer.status, answer.termination) == (
        proven if alone else (Status.FEASIBLE, Termination.INTERRUPTED)
    )


@pytest.mark.parametrize("time_limit_s", [None, 0.0])
def test_without_a_time_limit_surveys_go_on(time_limit_s):
    limited = Options(time_limit_s=time_limit_s)
    patience = stages.Patience(stages.EinsumQuestion(mapspace_of(), limited))
    patience.hear(Progress(Phase.SURVEY, 0.0, "energy"))
    assert not patience.stop()


def test_a_stop_and_the_time_limit_are_heard(impatient):
    result = map_einsum(mapspace_of(), ENERGY, should_stop=lambda: True)
    assert (result.status, result.termination) == (Status.FEASIBLE, Termination.INTERRUPTED)
    hurried = map_einsum(mapspace_of(), Options(time_limit_s=0.0))
    assert (hurried.status, hurried.termination) == (Status.FEASIBLE, Termination.TIME_LIMIT)
    stopped = pareto_front(mapspace_of(), should_stop=lambda: True)
    assert (stopped.status, stopped.termination) == (Status.UNKNOWN, Termination.INTERRUPTED)
    assert stopped.open_ranges


def test_more_keep_masks_than_are_searched_leave_a_mapping_without_proof(monkeypatch):
    (space, least) = next(
        (own, found) for own in spaces() if (found := map_einsum(own, ENERGY)).status is Status.OPTIMAL
    )
    monkeypatch.setattr(mapper, "MOST_KEEP_MASKS", 0)
    monkeypatch.setattr(mapper, "MANY_HINTED", 32)
    alone = map_by_bounds(space, ENERGY)
    assert (alone.status, alone.termination) == (Status.FEASIBLE, Termination.CHOICES)
    assert 0 < alone.bound <= least.value <= alone.value
    found = map_einsum(space, ENERGY)
    assert (found.status, found.termination) == (Status.FEASIBLE, Termination.CHOICES)
    assert found.evaluation.valid
    assert found.bound <= least.value <= found.value
    assert map_einsum(nothing()[0], ENERGY).status is Status.INFEASIBLE
    assert pareto_front(space).status is not Status.INFEASIBLE


def test_results_are_checked_for_their_number_of_temporal_loops():
    mapspace = replace(mapspace_of(), objectives=("energy",))
    best = map_einsum(mapspace)
    loops = best.mapping.temporal_loops
    assert loops > 1
    enough = map_einsum(replace(mapspace, max_temporal_loops=loops))
    assert (enough.status, enough.mapping) == (Status.OPTIMAL, best.mapping)
    tight = replace(mapspace, max_temporal_loops=loops - 1)
    result = map_einsum(tight)
    assert (result.status, result.termination) == (Status.UNKNOWN, Termination.LOOP_LIMIT)
    assert (result.mapping, result.bound) == (None, best.bound)
    front = pareto_front(replace(mapspace, max_temporal_loops=0))
    assert (front.status, front.termination, front.points) == (Status.UNKNOWN, Termination.LOOP_LIMIT, ())
    assert pareto_front(replace(mapspace, max_temporal_loops=99)).status is Status.OPTIMAL


def _changed(nodes: tuple[Node, ...]) -> dict[str, object]:
    return {"architecture": Architecture("changed", nodes, Compute("mac"))}


OUTERMOST, *INNER = mapspace_of().architecture.nodes
PORTED = replace(OUTERMOST, ports=(Port(Fraction(1), Fraction(2)),))
PLACED = replace(OUTERMOST, memory=OUTERMOST.name)
UNSEARCHED = {
    "with several places of": _changed((PLACED, *INNER)),
    "remainders are not counted by the rule 'timeloop'": {"factors": ANY, "counting": TIMELOOP},
    "sparse data are not searched": {"sparsity": Sparsity({}, ())},
}
REFUSED = [(map_by_bounds, words) for words in UNSEARCHED]
REFUSED += [
    (search, words) for words in UNSEARCHED if "sparse" not in words for search in (map_einsum, pareto_front)
]


@pytest.mark.parametrize(("search", "words"), REFUSED)
def test_what_only_the_cost_model_knows_is_refused(search, words):
    with pytest.raises(ValueError, match=words):
        search(replace(mapspace_of(), **UNSEARCHED[words]))


def of_all_kinds():
    """Mapspaces of each route, with remainders, places of memories, and sparse data."""
    yield from random_mapspaces_with_remainders(7, 3, 100)
    yield from random_mapspaces_with_places(7, 2, 100)
    yield from (random_sparse_mapspace(seed, 300) for seed in (3, 4, 5))
    yield from (small_orders(Random(seed), 100) for seed in range(2))


def test_once_time_is_over_there_is_a_mapping_that_is_drawn():
    for mapspace in of_all_kinds():
        best = map_einsum(mapspace, ENERGY, reasons=False)
        for late in (
            map_einsum(mapspace, ENERGY, should_stop=lambda: True),
            stages.first_result(mapspace, ENERGY, lambda: False),
        ):
            assert late.units_per_pj == best.units_per_pj
            assert (late.mapping is None) == (best.status is Status.INFEASIBLE)
            if late.mapping is None:
                continue
            cost = evaluate_totals(late.mapspace or mapspace, late.mapping)
            assert cost.valid
            assert (late.bound or 0) <= best.value <= late.value == cost.energy


def test_what_is_drawn_has_remainders_where_there_is_nothing_else():
    free = free_mapspace(matmul(5, 1, 1), *OUTERMOST_TWO)
    rules = replace(free.temporal[0], factors=(FactorRule("M", "=", 3),))
    ruled = replace(free, temporal=(rules, *free.temporal[1:]), factors=ANY)
    found = stages.first_result(ruled, ENERGY, lambda: False)
    assert found.mapping is not None
    assert not found.mapping.divides(free.problem.bound)


def test_what_is_drawn_is_within_the_limit_on_loops():
    mapspace = replace(mapspace_of(), max_temporal_loops=0)
    assert stages.first_result(mapspace, ENERGY, lambda: False).mapping is None
