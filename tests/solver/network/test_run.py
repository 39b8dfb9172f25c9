"""Networks end to end: identical Einsums once, totals against complete enumeration, stops and resumption."""

import copy
import time
from dataclasses import replace
from pathlib import Path

import pytest

from model.cascade import Network
from model.cost import evaluate
from model.renaming import by_position
from model.sparse import evaluate_totals
from solver.network import ResultCache, Run, Serial, map_network
from solver.network.run import NetworkProgress
from solver.report.network import network_document
from solver.result import Options, Result, Status, Termination
from tests.bruteforce import optimum
from tests.small_network import too_tight
from tests.solver.golden import reported
from tests.solver.network.counting import Counting

ENERGY = Options(objectives=("energy",))


def least(network: Network, objective: str) -> list[int]:
    """The optimum of each layer that is no copy, by enumeration of all its mappings."""
    found = []
    for layer in network.layers:
        if not layer.is_copy:
            found.append(optimum(layer.mapspace, objective)[0])
    return found


@pytest.mark.parametrize("objective", ["energy", "latency"])
def test_each_einsum_gets_its_optimum_and_the_totals_count_instances(network: Network, objective: str):
    result = map_network(network, Options(objectives=(objective,)))
    assert result.status is Status.OPTIMAL
    values = [own.result.value for own in result.layers if own.result is not None]
    optima = least(network, objective)
    assert values == optima
    total = result.energy_units if objective == "energy" else result.cycles
    units = result.units_per_pj // network.layers[0].mapspace.architecture.units_per_pj
    assert total == (2 * optima[0] + optima[1] + optima[2]) * (units if objective == "energy" else 1)
    assert result.edp_units == result.energy_units * result.cycles


def test_identical_einsums_are_searched_once(network: Network):
    search = Counting()
    result = map_network(network, ENERGY, Run(executor=Serial(search)))
    assert [own.origin for own in result.layers] == ["copy", "searched", "searched", "identical"]
    assert result.layers[3].same_as == "T"
    assert search.calls == 2
    mapping = result.layers[3].result.mapping
    space = network.layers[3].mapspace
    assert evaluate(space.problem, space.architecture, mapping) == result.layers[3].result.evaluation
    assert any(loop.dim == "j" for node in mapping.nodes for loop in getattr(node, "temporal", ()))


def test_renaming_there_and_back(network: Network):
    space = network.layers[1].mapspace
    naming = by_position(space.problem)
    again = naming.inverse.mapspace(naming.mapspace(space))
    assert replace(again.problem, name=space.problem.name) == space.problem
    assert again.architecture == space.architecture
    assert again.keep[1].keep == space.keep[1].keep


def test_a_run_continues_where_it_was_stopped(network: Network, tmp_path: Path):
    cache = ResultCache(tmp_path / "cache")
    whole = map_network(network, ENERGY)
    search = Counting()
    first = map_network(
        network, ENERGY, Run(cache, executor=Serial(search), should_stop=lambda: search.calls > 0)
    )
    assert first.status is Status.FEASIBLE
    assert first.proven < whole.proven
    assert [own.origin for own in first.layers] == ["copy", "searched", "searched", "identical"]
    assert first.energy_units is not None
    assert first.energy_units >= (whole.energy_units or 0)
    again = Counting()
    second = map_network(network, ENERGY, Run(cache, resume=True, executor=Serial(again)))
    assert second.energy_units == whole.energy_units
    assert [own.result and own.result.mapping for own in second.layers] == [
        own.result and own.result.mapping for own in whole.layers
    ]
    third = Counting()
    last = map_network(network, ENERGY, Run(cache, resume=True, executor=Serial(third)))
    assert third.calls == 0
    assert [own.origin for own in last.layers] == ["copy", "cached", "cached", "identical"]
    fresh = Counting()
    map_network(network, ENERGY, Run(cache, executor=Serial(fresh)))
    assert fresh.calls == 2


def test_a_run_that_is_stopped_at_once_has_a_mapping_of_every_einsum(network: Network):
    best, stopped = map_network(network, ENERGY), map_network(network, ENERGY, Run(should_stop=lambda: True))
    assert stopped.status is Status.FEASIBLE
    for own, least in zip(stopped.layers, best.layers, strict=True):
        if own.result is None or least.result is None:
            continue
        assert own.result.termination is Termination.INTERRUPTED
        assert own.result.mapping is not None
        cost = evaluate_totals(own.layer.mapspace, own.result.mapping)
        assert cost is not None
        assert cost.valid
        assert own.result.value == cost.energy
        assert 0 < (own.result.bound or 0) <= (least.result.value or 0) <= own.result.value


def test_an_interrupted_search_is_not_kept(network: Network, tmp_path: Path):
    def stopped(mapspace: object, *_: object, **__: object) -> Result:
        return Result(Status.UNKNOWN, Termination.INTERRUPTED, ("energy",), 1)

    cache = ResultCache(tmp_path / "cache")
    result = map_network(network, ENERGY, Run(cache, executor=Serial(stopped)))
    assert [own.status for own in result.layers[1:]] == [Status.UNKNOWN] * 3
    assert not (tmp_path / "cache").exists()


def test_progress_names_each_layer_that_is_searched(network: Network):
    seen: list[NetworkProgress] = []
    map_network(network, ENERGY, Run(on_progress=seen.append))
    assert [(p.done, p.searches, p.layer.name) for p in seen if p.search is None] == [
        (0, 2, "T"),
        (1, 2, "Z"),
    ]


def test_an_einsum_without_mapping_leaves_no_totals(network: Network):
    result = map_network(too_tight(network), ENERGY)
    assert result.status is Status.INFEASIBLE
    assert result.energy_units is None
    assert result.proven == 2


def test_layers_that_repeat_cost_next_to_nothing(network: Network):
    """10,000 layers of few kinds, each with a mapspace that is equal and not the same object."""
    first, *_ = network.layers[1:]
    layers = [
        replace(first, name=f"{number}", mapspace=copy.deepcopy(first.mapspace)) for number in range(99)
    ]
    many = replace(network, layers=tuple(layers) * 100)
    start = time.process_time()
    result = map_network(many, ENERGY)
    document = network_document(result)
    reported(network_document(result))
    assert time.process_time() - start < 15
    assert (result.status, len(result.layers)) == (Status.OPTIMAL, 9900)
    assert result.energy_units == 9900 * result.layers[0].energy_units
    heads, *repeated = document["layers"]
    assert heads["result"]["mapping"]
    assert {(own["same_as"], own["result"]) for own in repeated} == {("0", None)}


def test_a_limit_on_loops_has_a_key_of_its_own(network: Network, tmp_path: Path):
    (layer, *_) = network.layers[1:]
    limited = replace(layer, mapspace=replace(layer.mapspace, max_temporal_loops=0))
    run = Run(ResultCache(tmp_path), resume=True)
    assert map_network(replace(network, layers=(layer,)), ENERGY, run).status is Status.OPTIMAL
    assert map_network(replace(network, layers=(limited,)), ENERGY, run).status is Status.UNKNOWN
