"""Reasons why nothing fits: for one network, and for several that share the time."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from model.cascade import Network
from model.formats.cascade import load_network
from model.mapspace import Mapspace
from solver.explain import explain_infeasible
from solver.network import ResultCache, Run, map_network
from solver.network.run import LayerResult, NetworkProgress, map_networks, with_reasons
from solver.result import Options, Phase, Reason, Status, StopCallback
from tests.small_network import too_tight

ENERGY = Options(objectives=("energy",))


def test_reasons_are_in_the_names_of_the_layer_and_never_kept(network: Network, tmp_path: Path):
    tight, cache = too_tight(network), ResultCache(tmp_path)
    found = map_network(tight, ENERGY, Run(cache)).layers[1].result
    (reason,) = found.reasons
    assert reason.text.endswith("= at least 2 words, `buffer` holds 1: 1 too few")
    assert {part.split()[0] for part in reason.text.split(" + ")} < {"T", "V", "Z"}
    assert "reasons" not in next(tmp_path.glob("*.json")).read_text(encoding="utf-8")
    again = map_network(tight, ENERGY, Run(cache, resume=True)).layers[1]
    assert (again.origin, again.result.reasons) == ("cached", found.reasons)


def test_a_stop_ends_the_search_for_reasons(network: Network):
    result = map_network(too_tight(network), ENERGY)
    (reason,) = with_reasons([result], lambda: True)[0].layers[1].result.reasons
    assert "not identified within the time limit" in reason.text


def test_the_reasons_of_a_layer_have_what_its_search_left(network: Network, monkeypatch: pytest.MonkeyPatch):
    times: list[float] = []

    def listen(mapspace: Mapspace, should_stop: StopCallback, time_limit_s: float) -> tuple[Reason, ...]:
        times.append(time_limit_s)
        return explain_infeasible(mapspace, should_stop, time_limit_s)

    monkeypatch.setattr("solver.network.run.explain_infeasible", listen)
    told: list[NetworkProgress] = []
    run = Run(on_progress=told.append)
    for limit_s in (None, 20.0, 0.5):
        map_network(too_tight(network), replace(ENERGY, time_limit_s=limit_s), run)
    assert 59 < times[0] <= 60
    assert 15 < times[1] <= 20
    assert times[2] == 2
    assert (told[-1].done, told[-1].searches, told[-1].search.phase) == (1, 1, Phase.EXPLANATION)


def test_several_networks_come_without_reasons(network: Network):
    (result,) = map_networks([too_tight(network)], ENERGY)
    assert result.status is Status.INFEASIBLE
    assert result.layers[1].result.reasons == ()


def two_that_nothing_fits(network: Network) -> Network:
    """Z twice, kept in a single word, with a capacity of their own each: no identical ones."""
    copy, layer = too_tight(network).layers
    space = layer.mapspace
    levels = [replace(space.architecture.nodes[1], size_words=size) for size in (1, 2)]
    nodes = [(space.architecture.nodes[0], level, *space.architecture.nodes[2:]) for level in levels]
    spaces = [replace(space, architecture=replace(space.architecture, nodes=own)) for own in nodes]
    layers = [replace(layer, name=name, mapspace=own) for name, own in zip("ZY", spaces, strict=True)]
    return replace(network, layers=(copy, *layers))


def faster(network: Network) -> Network:
    """The network on levels with other bandwidths and prices."""
    layers = []
    for layer in network.layers:
        first, *others = layer.mapspace.architecture.nodes
        dearer = replace(first.energy, read=first.energy.read + 1)
        node = replace(first, shared_bandwidth=99, energy=dearer)
        architecture = replace(layer.mapspace.architecture, nodes=(node, *others))
        layers.append(replace(layer, mapspace=replace(layer.mapspace, architecture=architecture)))
    return replace(network, layers=tuple(layers))


@pytest.fixture
def explained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The capacities of the layers that were looked into, in this order."""
    found: list[int] = []

    def listen(mapspace: Mapspace, *rest: object) -> tuple[Reason, ...]:
        found.append(mapspace.architecture.levels[1].size_words)
        return explain_infeasible(mapspace, *rest)

    monkeypatch.setattr("solver.network.run.explain_infeasible", listen)
    return found


def test_prices_and_bandwidths_are_no_new_question(network: Network, explained: list[int]):
    tight = two_that_nothing_fits(network)
    alone = map_network(tight, ENERGY)
    assert explained == [1, 2]
    results = with_reasons(map_networks([tight, faster(tight)], ENERGY), lambda: False)
    assert explained == [1, 2, 1, 2]
    for result in results:
        assert [own.result.reasons for own in result.layers[1:]] == [
            own.result.reasons for own in alone.layers[1:]
        ]
    assert [own.origin for own in results[1].layers] == ["copy", "searched", "searched"]


def test_every_network_has_its_first_reason_before_any_has_the_second(network: Network, explained: list[int]):
    one = two_that_nothing_fits(network)
    other = replace(one, name="other", layers=(one.layers[0], one.layers[2]))
    with_reasons(map_networks([one, other], ENERGY), lambda: False)
    assert explained == [1, 2]
    with_reasons(map_networks([other, one], ENERGY), lambda: False)
    assert explained == [1, 2, 2, 1]
    longer = replace(one, layers=(*one.layers, replace(one.layers[2], name="X")))
    with_reasons(map_networks([longer, other], ENERGY), lambda: len(explained) == 5)
    assert explained == [1, 2, 2, 1, 1]


def test_an_einsum_that_is_identical_to_one_of_another_network_has_reasons_too(network: Network):
    tight = too_tight(network)
    first, second = with_reasons(map_networks([tight, replace(tight, name="again")], ENERGY), lambda: False)
    assert second.layers[1].origin == "identical"
    assert second.layers[1].result.reasons == first.layers[1].result.reasons != ()


DEEPER = re.compile(r"with ([\d,]+) words instead of ([\d,]+) \(depth (\d+)\)")
ROWS = """
architecture:
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {datawidth: 8, width: 64, depth: DRAM_DEPTH}
    energy: {read: 100, write: 100, leak: 0}
  - !Component
    name: buffer
    class: SRAM
    attributes: {datawidth: 8, width: 32, depth: BUFFER_DEPTH}
    energy: {read: 6, write: 5, update: 7, leak: 0}
    constraints: {dataspace: {keep: [All]}}
  - !Component {name: mac, class: intmac, energy: {compute: 1}}
"""
PERSISTENT = """
workload:
  rank_sizes: {M: 8, K: 16, N: 8}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "T[m] = A[m, k] * W[k]", tensor_accesses: [{name: W, persistent: True}], n_instances: 3}
  - {einsum: "Z[m, n] = T[m] * V[n]"}
"""
WIDE = """
workload:
  rank_sizes: {M: 8}
  bits_per_value: BITS
  einsums: ["T[m] = A[m]"]
"""


@pytest.mark.parametrize(
    ("level", "depths", "workload", "words"),
    [
        ("DRAM", {"DRAM": 14, "buffer": 9}, PERSISTENT, (48 + 8 + 8 + 64, 14 * 8)),
        ("buffer", {"DRAM": 99, "buffer": 3}, WIDE.replace("BITS", "{All: 64}"), (2, 1)),
        ("buffer", {"DRAM": 99, "buffer": 5}, WIDE.replace("BITS", "{A: 128, T: 64}"), (3, 2)),
    ],
)
def test_a_depth_that_is_proposed_is_the_least_that_suffices(
    tmp_path: Path, level: str, depths: dict[str, int], workload: str, words: tuple[int, int]
):
    """Beside what persistent tensors take, and where a value takes several rows."""

    def last(depth: int) -> LayerResult:
        own = {**depths, level: depth}
        text = ROWS.replace("DRAM_DEPTH", str(own["DRAM"])).replace("BUFFER_DEPTH", str(own["buffer"]))
        files = (("w.yaml", workload), ("a.yaml", text))
        for name, content in files:
            (tmp_path / name).write_text(content, encoding="utf-8")
        return map_network(load_network([tmp_path / name for name, _ in files]), ENERGY).layers[-1]

    (reason,) = last(depths[level]).result.reasons
    (found,) = filter(None, (DEEPER.search(lever.text) for lever in reason.levers))
    assert tuple(int(number) for number in found.groups()[:2]) == words
    depth = int(found[3])
    assert depth > depths[level]
    assert [last(own).status for own in (depth - 1, depth)] == [Status.INFEASIBLE, Status.OPTIMAL]
