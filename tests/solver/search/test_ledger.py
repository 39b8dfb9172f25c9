"""The ledger of a search: every class of every keep mask is settled by one step, and by which one."""

import pytest

from model.cost.traffic import kept_positions
from solver import Options, Status
from solver.search import map_einsum
from solver.search.mapper import SharedSearch
from solver.search.space.search_space import SearchSpace
from solver.search.survey.survey import Survey
from tests.bruteforce import objective_value, valid_mappings
from tests.conftest import REPOSITORY
from tests.mapspaces import perfect_mapspace
from tests.strategies import random_mapspaces

SAMPLES = random_mapspaces(seed=31, count=15, max_mappings=400)
OBJECTIVES = ("energy", "latency", "edp")


def settled(mask):
    """Classes of a keep mask that some step settles."""
    return mask.by_survey + mask.by_lattice + mask.by_branching


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_class_of_every_keep_mask_is_settled_once(objective):
    for mapspace in SAMPLES:
        result = map_einsum(mapspace, Options(objectives=(objective,)))
        (evidence,) = result.evidence
        space = SearchSpace(mapspace)
        assert evidence.objective == objective
        assert [mask.keep for mask in evidence.masks] == [space.chains(mask) for mask in space.keep_masks]
        assert len({mask.keep for mask in evidence.masks}) == len(evidence.masks)
        classes = 0 if space.excluded else len(Survey(space).grid)
        assert {settled(mask) for mask in evidence.masks} <= {classes}
        assert all(mask.by_lattice >= 0 for mask in evidence.masks)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_mapping_of_a_keep_mask_is_below_what_the_survey_says(objective):
    checked = 0
    for mapspace in SAMPLES:
        result = map_einsum(mapspace, Options(objectives=(objective,)))
        best = _best_per_mask(mapspace, objective)
        for mask in result.evidence[0].masks:
            if settled(mask) > mask.by_survey:
                continue
            checked += 1
            assert (mask.keep in best) <= (mask.survey_bound is not None)
            assert mask.keep not in best or mask.survey_bound <= best[mask.keep]
            assert mask.survey_bound is None or mask.survey_bound >= result.value
    assert checked > 10


def _best_per_mask(mapspace, objective):
    """Least value per keep mask, of all mappings."""
    best = {}
    positions = list(mapspace.architecture.storage_indices)
    for mapping, energy, cycles in valid_mappings(mapspace, innermost_orders=False):
        kept = (
            kept_positions(mapspace.architecture, mapping, space.name)
            for space in mapspace.problem.dataspaces
        )
        keep = tuple(tuple(positions.index(position) for position in own) for own in kept)
        value = objective_value(objective, energy, cycles)
        best[keep] = min(value, best.get(keep, value))
    return best


def test_branching_settles_what_the_lattice_leaves():
    specs = REPOSITORY / "specs"
    files = [specs / "architectures" / "simba_like.yaml", *(specs / "layers" / "resnet18").glob("01_*")]
    result = map_einsum(perfect_mapspace(*files), Options(objectives=("energy",)))
    (mask,) = result.evidence[0].masks
    assert mask.by_branching > 0
    assert mask.nodes >= mask.by_branching


def test_each_objective_has_evidence_of_its_own():
    mapspace = next(own for own in SAMPLES if map_einsum(own).status is Status.OPTIMAL)
    with SharedSearch(mapspace) as search:
        for names in (("energy", "latency"), ("latency", "energy", "edp"), ("edp",)):
            assert tuple(own.objective for own in search.minimise(names).evidence) == names


def test_a_search_that_stops_at_once_has_no_evidence():
    result = map_einsum(SAMPLES[0], should_stop=lambda: True)
    assert result.evidence == ()
