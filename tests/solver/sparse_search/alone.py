"""The search along paths of sparse data alone, without a mapping to begin with."""

from model.mapping import Mapping
from model.mapspace import Mapspace
from model.sparse import evaluate_totals
from solver.search.goal import Goal
from solver.search.priced import Priced
from solver.search.stopping import Stop, Stopped, never
from solver.sparse_search.paths import SparseData, SparsePaths, without_capacities
from tests.solver.search.path.alone import quiet


def searched(
    mapspace: Mapspace, objective: str, stop: Stop = never, incumbent: int | None = None
) -> tuple[int | None, int | None]:
    """The bound and the value of the best mapping, or of one that is known; nothing if there was no time."""

    def judge(mapping: Mapping) -> Priced | None:
        totals = evaluate_totals(mapspace, mapping)
        return Priced(mapping, totals) if totals is not None and totals.valid else None

    goal = Goal(objective, (), incumbent)
    try:
        data = SparseData(mapspace, judge, without_capacities(mapspace, stop))
        bound = SparsePaths(data.space, goal, quiet(stop), None, data=data).run()
    except Stopped:
        return 0, incumbent
    return bound, goal.incumbent
