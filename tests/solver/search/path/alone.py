"""The search along paths alone, without a mapping to begin with."""

from model.mapspace import Mapspace
from model.objective import objective_value
from solver.result import Options, Statistics
from solver.search.goal import Goal
from solver.search.path.search import EinsumSearch
from solver.search.shared import ALONE, Shared
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stop, never

Limits = tuple[tuple[str, int], ...]


def searched(
    mapspace: Mapspace, objective: str, stop: Stop = never, limits: Limits = ()
) -> tuple[int | None, int | None]:
    """The bound and the value of the best mapping within limits."""
    goal = Goal(objective, limits)
    search = EinsumSearch(SearchSpace(mapspace), goal, quiet(stop), None)
    bound = search.run()
    if search.best is not None:
        evaluation = search.best.evaluation
        assert evaluation.valid
        assert goal.value(evaluation.energy, evaluation.cycles) == goal.incumbent
        for name, most in limits:
            assert objective_value(name, evaluation.energy, evaluation.cycles) <= most
    return bound, goal.incumbent


def quiet(stop: Stop = never) -> Shared:
    """What a search shares with nobody."""
    return Shared(Options(), stop, lambda *_: None, Statistics(), ALONE)


def stops_after(calls: int) -> Stop:
    """Say no so many times, then yes."""
    left = iter(range(calls))
    return lambda: next(left, None) is None
