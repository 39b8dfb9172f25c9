"""AccelForge's counting rule against AccelForge's own answers, where they are at hand."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel, with_places
from model.cascade import Network
from model.cost import Evaluation, evaluate
from model.counting import ACCELFORGE, EXACT, Counting
from model.counting.words import place_changes
from model.formats.cascade import load_network
from model.formats.timeloop import AccelForgeOptions, LoadOptions
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace
from model.problem import Dataspace, Problem, Term
from tests.reference import SHARED

CASES = SHARED / "reference" / "fused" / "cases.jsonl"
TOLERANCE = 1e-6


def paths(nodes: list[dict], above: tuple[dict, ...] = ()) -> Iterator[list[dict]]:
    """Yield the nodes above each compute of a mapping tree, outermost first."""
    current = list(above)
    for node in nodes:
        branch = next((key for key in ("Sequential", "Nested") if key in node), None)
        if branch == "Sequential":
            for child in node[branch]:
                yield from paths([child], tuple(current))
            return
        if branch == "Nested":
            yield from paths(node[branch], tuple(current))
            return
        current.append(node)
        if "compute" in node:
            yield current


def on_places(mapspace: Mapspace, path: list[dict]) -> tuple[Architecture, Mapping]:
    """Return an architecture with a place for each storage node of a path, and the mapping on it."""
    places = Counter(step["storage"] for step in path if "storage" in step)
    architecture = with_places(mapspace.architecture, places)
    chosen: dict[str, NodeMapping] = {
        node.name: FanoutMapping() if isinstance(node, Fanout) else StorageMapping()
        for node in architecture.nodes
    }
    free: dict[str, list[str]] = defaultdict(list)
    for level in architecture.levels:
        free[level.component].append(level.name)
    names = frozenset(space.name for space in mapspace.problem.dataspaces)
    tiles, last, fanout = dict(mapspace.problem.bound), "", architecture.fanouts[:1]
    for step in path:
        if "storage" in step:
            last = free[step["storage"]].pop(0)
            chosen[last] = StorageMapping(keep=names & set(step["tensors"]))
        elif "temporal" in step:
            node = chosen[last]
            assert isinstance(node, StorageMapping), "a temporal loop right below a fanout"
            loop = Loop(step["temporal"], divided(tiles, step["temporal"], step["tile_shape"]))
            chosen[last] = replace(node, temporal=(loop, *node.temporal))
        elif "spatial" in step:
            last = step.get("fanout", fanout[0].name)
            node = chosen[last]
            assert isinstance(node, FanoutMapping)
            bound = divided(tiles, step["spatial"], step["tile_shape"])
            chosen[last] = FanoutMapping((SpatialLoop(step["spatial"], bound, "x"), *node.spatial))
    return architecture, Mapping(tuple(chosen.values()))


def divided(tiles: dict[str, int], dim: str, tile: float) -> int:
    """Return the bound of a loop that leaves a tile of some extent."""
    bound, rest = divmod(tiles[dim], int(tile))
    assert not rest
    tiles[dim] = int(tile)
    return bound


def network_of(case: dict, directory: Path) -> Network:
    (directory / "w.yaml").write_text(case["workload"], encoding="utf-8")
    (directory / "a.yaml").write_text(case["arch"], encoding="utf-8")
    options = LoadOptions(
        accelforge=AccelForgeOptions(stored_outside=True), refuse_unsearchable=False, has_places=False
    )
    return load_network([directory / "w.yaml", directory / "a.yaml"], {}, options)


def counted(architecture: Architecture, evaluation: Evaluation, bits: int) -> dict[tuple[str, str, str], int]:
    """Return reads and writes in bits by memory and tensor."""
    actions: dict[tuple[str, str, str], int] = defaultdict(int)
    memories = [level.component for level in architecture.levels]
    for memory, level in zip(memories, evaluation.levels, strict=True):
        for space in level.dataspaces:
            actions[memory, space.dataspace, "read"] += space.reads * level.instances * bits
            actions[memory, space.dataspace, "write"] += (
                (space.fills + space.updates) * level.instances * bits
            )
    return actions


def cases() -> list[dict]:
    if not CASES.exists():
        return []
    rows = map(json.loads, CASES.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["unfused"]]


@pytest.mark.skipif(not CASES.exists(), reason="no reference data in ../shared")
@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case['name']}-{case['metric']}")
def test_counts_are_those_of_accelforge(case: dict, tmp_path: Path):
    layers = {layer.name: layer.mapspace for layer in network_of(case, tmp_path).layers}
    energy_j, latency_s = 0.0, Fraction(0)
    for path in paths(case["nodes"]):
        name = path[-1]["compute"]
        architecture, mapping = on_places(layers[name], path)
        evaluation = evaluate(layers[name].problem, architecture, mapping, ACCELFORGE)
        for (memory, tensor, action), bits in counted(architecture, evaluation, 8).items():
            assert bits == pytest.approx(case["actions"][f"{name}|{memory}|{tensor}|{action}"], rel=TOLERANCE)
        energy_j += evaluation.energy_j
        assert evaluation.latency_s is not None
        latency_s += evaluation.latency_s
    assert energy_j == pytest.approx(case["energy"], rel=TOLERANCE)
    assert float(latency_s) == pytest.approx(case["latency"], rel=TOLERANCE)


ARCHES = SHARED / "reference" / "accelforge_arches"
MATMULS = SHARED / "reference" / "workloads" / "basic" / "matmuls.yaml"


def nest(*steps: str) -> list[dict]:
    """Return a path written shortly: `GlobalBuffer T0 W0`, `for m 128`, `ProcessingElement.x n1 4`."""
    path: list[dict] = []
    for words in map(str.split, steps):
        if words[0] == "for":
            path.append({"temporal": words[1], "tile_shape": int(words[2])})
        elif "." in words[0]:
            path.append({"spatial": words[1], "tile_shape": int(words[2]), "fanout": words[0]})
        else:
            path.append({"storage": words[0], "tensors": words[1:]})
    return path


ALL = "MainMemory T0 W0 T1"
OPTIMA = {
    ("simple", 1024): (nest(ALL, "for m 1", "for n0 1", "for n1 1"), (35425091584.0, 1073741824.0)),
    ("simple", 4096): (nest(ALL, "for m 1", "for n0 1", "for n1 1"), (2267608514560.0, 68719476736.0)),
    ("snowcat", 1024): (
        nest(ALL, "GlobalBuffer T0 W0 T1", "for m 1", "for n0 1", "for n1 1"),
        (25165824.0, 0.0),
    ),
    ("nvdla", 1024): (
        nest(
            *(ALL, "for m 128", "for n1 256", "GlobalBuffer T1", "for n0 128", "GlobalBuffer T0"),
            *("for n1 128", "GlobalBuffer W0", "for n1 32", "ProcessingElement.reuse_input n1 1"),
            *("ProcessingElement.reuse_output n0 1", "Register W0", "for m 1"),
        ),
        (0.0010062470533369848, 0.0003549866669345647),
    ),
    ("nvdla", 128): (
        nest(
            *(ALL, "GlobalBuffer T0 W0 T1", "for n1 32", "ProcessingElement.reuse_input n1 1"),
            *("ProcessingElement.reuse_output n0 1", "Register W0", "for m 1"),
        ),
        (3.2515031103166427e-06, 1.2799999922208372e-06),
    ),
    ("eyeriss", 128): (
        nest(
            *(ALL, "GlobalBuffer W0 T1", "for m 32", "for n0 32", "ProcessingElement.reuse_weight m 4"),
            *(
                "ProcessingElement.reuse_output n0 4",
                "InputScratchpad T0",
                "for n1 64",
                "WeightScratchpad W0",
            ),
            *("for n1 8", "OutputScratchpad T1", "for m 1", "for n0 1", "for n1 1"),
        ),
        (1.1168196121060029e-05, 0.00016383999900426716),
    ),
}
"""Mappings with the energies and latencies of AccelForge's optima; tiles of a memory at several places."""


@pytest.mark.skipif(not ARCHES.exists(), reason="no reference data in ../shared")
@pytest.mark.parametrize(("name", "size"), OPTIMA)
def test_prices_optima_as_accelforge_does(name: str, size: int):
    path, (energy_j, latency_s) = OPTIMA[name, size]
    variables = {"N_EINSUMS": 1, "M": size, "KN": size}
    options = LoadOptions(
        accelforge=AccelForgeOptions(costs=ARCHES / "costs.yaml"), refuse_unsearchable=False, has_places=False
    )
    (layer,) = load_network([MATMULS, ARCHES / f"{name}.yaml"], variables, options).layers
    architecture, mapping = on_places(layer.mapspace, path)
    evaluation = evaluate(layer.mapspace.problem, architecture, mapping, ACCELFORGE)
    assert evaluation.energy_j == pytest.approx(energy_j, rel=TOLERANCE)
    assert evaluation.latency_s is not None
    assert float(evaluation.latency_s) == pytest.approx(latency_s, rel=TOLERANCE)
    rows = map(json.loads, (ARCHES / "results.jsonl").read_text(encoding="utf-8").splitlines())
    assert (name, energy_j) in {(row["arch"], row["energy_j"]) for row in rows}


PRODUCT = Problem(
    "product",
    ("m", "n", "k"),
    (2, 4, 3),
    (
        Dataspace("A", ((Term("m"),), (Term("k"),))),
        Dataspace("B", ((Term("k"),), (Term("n"),))),
        Dataspace("Z", ((Term("m"),), (Term("n"),)), read_write=True),
    ),
)
BUFFERED = Architecture(
    "buffered",
    (
        StorageLevel("main", shared_bandwidth=Fraction(1)),
        Fanout("array", mesh_x=4, no_multicast=frozenset("B")),
        StorageLevel("buffer", size_words=9, energy=AccessEnergy(leak_per_cycle=3), gating_fanouts=0),
    ),
    Compute("mac"),
    cycle_s=Fraction(1, 2),
)
NEST = Mapping(
    (
        StorageMapping((Loop("n", 4),), frozenset("ABZ")),
        FanoutMapping((SpatialLoop("m", 2, "x"),)),
        StorageMapping((Loop("k", 3),), frozenset("ABZ")),
    )
)


def figures(counting: Counting) -> tuple[Evaluation, dict[tuple[str, str], tuple[int, int, int]]]:
    evaluation = evaluate(PRODUCT, BUFFERED, NEST, counting)
    return evaluation, {
        (level.name, space.dataspace): (space.reads, space.fills, space.updates)
        for level in evaluation.levels
        for space in level.dataspaces
    }


def test_every_loop_outside_of_a_tile_fetches_it_again():
    _, exact = figures(EXACT)
    _, placed_ones = figures(ACCELFORGE)
    # The loop over n does not move the tile of A: 3 words for each of two buffers, once or four times.
    assert (exact["main", "A"], placed_ones["main", "A"]) == ((6, 0, 0), (24, 0, 0))
    # B is the same in both buffers, but goes to each on its own.
    assert exact["main", "B"] == placed_ones["main", "B"] == (24, 0, 0)


def test_drains_are_read():
    _, exact = figures(EXACT)
    _, placed_ones = figures(ACCELFORGE)
    assert (exact["buffer", "Z"], placed_ones["buffer", "Z"]) == ((8, 0, 12), (12, 0, 12))
    assert exact["main", "Z"] == placed_ones["main", "Z"] == (0, 0, 8)


def test_latency_is_not_rounded_and_everything_leaks():
    evaluation, counts = figures(ACCELFORGE)
    words = sum(sum(own) for (level, _), own in counts.items() if level == "main")
    assert evaluation.cycles == words
    assert evaluation.latency_s == Fraction(words, 2)
    assert evaluation.level("buffer").leak_energy == 3 * 4 * words
    slow = replace(BUFFERED.levels[0], shared_bandwidth=Fraction(3))
    architecture = replace(BUFFERED, nodes=(slow, *BUFFERED.nodes[1:]))
    finer = evaluate(PRODUCT, architecture, NEST, ACCELFORGE)
    assert finer.latency_s == Fraction(words, 6)
    assert finer.cycles == -(-words // 3)


def test_only_the_innermost_loop_keeps_what_overlaps():
    # Windows of 3 words: the innermost loop moves them by 1, the next one by 4.
    changes = list(place_changes((3,), [(4, (1,)), (2, (4,)), (5, (0,))]))
    assert [(change.repeats, change.words) for change in changes] == [(30, 1), (5, 3), (4, 3)]
    assert [change.words for change in place_changes((3,), [(5, (0,)), (4, (1,))])] == [3, 3]
