"""Holds searches against complete enumeration, and lets those of small mapspaces use cells."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

from model.cost import evaluate_in
from model.mapping import FanoutMapping, Mapping, StorageMapping
from model.mapspace import Mapspace
from solver.result import MaskEvidence, Options, Result, Status, Termination
from solver.search import engine, map_einsum
from solver.search.space.grid import SpatialGrid, spatial_grid
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import StageClass
from solver.search.survey import prospects, survey
from tests.bruteforce import Objective, axis_choices, objective_value, optima, valid_mappings
from tests.reference import OBJECTIVES
from tests.rules import allows
from tests.solver.search.unusual import told_apart

Key = tuple[KeepMask, tuple[tuple[object, ...], ...]]
"""A keep mask, and what tells the spatial choices of each stage apart."""

Least = dict[Key, tuple[int, int]]
"""The least energy and the fewest cycles of each."""


def solve(mapspace: Mapspace, objective: Objective, **options: float) -> Result:
    """Search for the best mapping by an objective or a list of them, however long the proof takes."""
    names = (objective,) if isinstance(objective, str) else objective
    return map_einsum(mapspace, Options(objectives=names, **{"time_limit_s": math.inf, **options}))


def axes_as_ruled(mapspace: Mapspace, mapping: Mapping) -> bool:
    """Whether the dimensions along X are ones that the order and the split of each fanout put there."""
    parts = [part for part in mapping.nodes if isinstance(part, FanoutMapping)]
    for rules, part in zip(mapspace.spatial, parts, strict=True):
        along_x = {loop.dim for loop in part.spatial if loop.axis == "x"}
        used = {loop.dim for loop in part.spatial}
        choices = axis_choices(rules, mapspace.problem.dims)
        if not any(along_x == used.intersection(choice) for choice in choices):
            return False
    return True


def assert_best(mapspace: Mapspace, objective: Objective, result: Result, best: object) -> None:
    """Hold a finished search against the least value that any allowed mapping has (None: none is)."""
    assert result.termination is Termination.PROVEN
    if best is None:
        assert result.status is Status.INFEASIBLE
        assert result.mapping is None
        return
    assert result.status is Status.OPTIMAL
    evaluation = evaluate_in(mapspace, result.mapping)
    assert evaluation == result.evaluation
    assert evaluation.valid
    assert objective_value(objective, evaluation.energy, evaluation.cycles) == best
    assert allows(mapspace, result.mapping)
    assert axes_as_ruled(mapspace, result.mapping)
    values = [best] if isinstance(objective, str) else list(best)
    assert [result.bound, *result.later_bounds] == values


def compare(mapspaces: Sequence[Mapspace], objectives: Sequence[Objective], **options: int) -> list[Result]:
    """Hold a search by each objective against the enumeration; return what was found."""
    results = []
    for mapspace in mapspaces:
        for objective, best in zip(objectives, optima(mapspace, objectives), strict=True):
            result = solve(mapspace, objective, **options)
            assert_best(mapspace, objective, result, None if best is None else best[0])
            results.append(result)
    return results


def start_below(monkeypatch: pytest.MonkeyPatch, value: int) -> None:
    """Let searches keep nothing that costs `value` or more, as if a mapping were known that does."""
    begin = engine.Search.__init__

    def started(search: engine.Search, *args: object, **options: object) -> None:
        begin(search, *args, **options)
        search.goal.incumbent = value

    monkeypatch.setattr(engine.Search, "__init__", started)


def without_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches rely on their bounds alone: a heuristic could find the best mapping that they rule out."""
    monkeypatch.setattr(engine, "hint", lambda *_: [])


def sharp_bounds(monkeypatch: pytest.MonkeyPatch, first_nodes: int = 0) -> None:
    """Let the sharpest bounds decide, after so many nodes of branching, and nothing else."""
    monkeypatch.setattr(engine, "FIRST_NODES", first_nodes)
    without_hints(monkeypatch)


def hold_search(mapspace: Mapspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that no mapping hides what a bound rules out: the only ones that are good enough are the best."""
    every = zip(OBJECTIVES, optima(mapspace, OBJECTIVES), strict=True)
    for objective, best in ((objective, best) for objective, best in every if best is not None):
        with monkeypatch.context() as patch:
            start_below(patch, best[0] + 1)
            without_hints(patch)
            result = solve(mapspace, objective)
        assert (result.status, result.value) == (Status.OPTIMAL, best[0])


def least_by_choice(mapspace: Mapspace, space: SearchSpace) -> Least:
    """Least energy and cycles of the valid mappings, by keep mask and what tells spatial choices apart."""
    best: Least = defaultdict(lambda: (2**100, 2**100))
    for mapping, own_energy, own_cycles in valid_mappings(mapspace, innermost_orders=False):
        storage = [part for part in mapping.nodes if isinstance(part, StorageMapping)]
        spatial = [part for part in mapping.nodes if isinstance(part, FanoutMapping)]
        mask = tuple(frozenset(v.place for v in space.views if v.name in part.keep) for part in storage)
        factors = tuple(
            tuple(math.prod(loop.bound for loop in part.spatial if loop.dim == dim) for dim in space.active)
            for part in spatial
        )
        stages = tuple(
            told_apart(space, stage, [factors[place] for place in below])
            for stage, below in enumerate(space.fanouts_below)
        )
        energy, cycles = best[mask, stages]
        best[mask, stages] = (min(energy, own_energy), min(cycles, own_cycles))
    return best


def belongs(space: SearchSpace, stages: Sequence[object], classes: Sequence[StageClass]) -> bool:
    """Whether spatial choices are, for each stage, members of its class."""
    return all(
        own in [told_apart(space, stage, [choice.factors for choice in m.choices]) for m in found.members]
        for stage, (own, found) in enumerate(zip(stages, classes, strict=True))
    )


def least_energies(space: SearchSpace, grid: SpatialGrid, mask: KeepMask, least: Least) -> dict[int, int]:
    """Least energy of the mappings of each subproblem of `mask` that has any."""
    energies = {}
    for number in range(len(grid)):
        classes = grid.spatial(number)
        own = [found[0] for key, found in least.items() if key[0] == mask and belongs(space, key[1], classes)]
        energies.update({number: min(own)} if own else {})
    return energies


def with_several_choices(mapspaces: Iterable[Mapspace]) -> list[Mapspace]:
    """Those with several combinations of spatial choices, which searches can bound together."""
    return [own for own in mapspaces if len(spatial_grid(SearchSpace(own))) > 1]


def few_cells(monkeypatch: pytest.MonkeyPatch, number: int = 3, opened: int = 4) -> None:
    """Let surveys put combinations into cells wherever there are more of them, and open few at a time."""
    monkeypatch.setattr(survey, "MOST_BOUNDS", 0)
    monkeypatch.setattr(survey, "FEWEST_CELLS", number)
    monkeypatch.setattr(survey, "PART", 9)
    monkeypatch.setattr(survey, "SMALL_PART", 5)
    monkeypatch.setattr(prospects, "FIRST_OPENED", 1)
    monkeypatch.setattr(prospects, "MOST_OPENED", opened)


def settled(mask: MaskEvidence) -> int:
    """Classes of a keep mask that some step settles."""
    return mask.by_survey + mask.by_lattice + mask.by_branching
