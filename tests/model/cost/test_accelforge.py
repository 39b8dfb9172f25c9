"""AccelForge's counting rule against AccelForge's own answers, where they are at hand."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from model.architecture import Architecture, Node
from model.cascade import Network
from model.cost import Evaluation, evaluate
from model.formats.cascade import load_network
from model.formats.timeloop import LoadOptions
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import ACCELFORGE, Mapspace
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


def placed(mapspace: Mapspace, path: list[dict]) -> tuple[Architecture, Mapping]:
    """Return an architecture with a level for each storage node of a path, and the mapping on it."""
    levels = {level.name: level for level in mapspace.architecture.levels}
    fanouts = list(mapspace.architecture.fanouts)
    nodes: list[tuple[Node, NodeMapping]] = []
    tiles = dict(mapspace.problem.bound)
    for number, step in enumerate(path):
        if "storage" in step:
            kept = frozenset(step["tensors"]) & {space.name for space in mapspace.problem.dataspaces}
            level = replace(levels[step["storage"]], name=f"{step['storage']} {number}", size_words=None)
            nodes.append((level, StorageMapping(keep=kept)))
        elif "temporal" in step or "spatial" in step:
            dim = step.get("temporal") or step["spatial"]
            bound = tiles[dim] / step["tile_shape"]
            assert bound == int(bound)
            tiles[dim] = step["tile_shape"]
            node, chosen = nodes[-1]
            if "temporal" in step:
                assert isinstance(chosen, StorageMapping), "a temporal loop right below a fanout"
                nodes[-1] = (node, replace(chosen, temporal=(Loop(dim, int(bound)), *chosen.temporal)))
            else:
                loops = chosen.spatial if isinstance(chosen, FanoutMapping) else ()
                if not isinstance(chosen, FanoutMapping):
                    nodes.append((fanouts.pop(0), FanoutMapping()))
                node = nodes[-1][0]
                nodes[-1] = (node, FanoutMapping((SpatialLoop(dim, int(bound), "x"), *loops)))
    architecture = replace(mapspace.architecture, nodes=tuple(node for node, _ in nodes))
    return architecture, Mapping(tuple(chosen for _, chosen in nodes))


def network_of(case: dict, directory: Path) -> Network:
    (directory / "w.yaml").write_text(case["workload"], encoding="utf-8")
    (directory / "a.yaml").write_text(case["arch"], encoding="utf-8")
    options = LoadOptions(stored_outside=True, refuse_unsearchable=False)
    return load_network([directory / "w.yaml", directory / "a.yaml"], {}, options)


def counted(architecture: Architecture, evaluation: Evaluation, bits: int) -> dict[tuple[str, str, str], int]:
    """Return reads and writes in bits by memory and tensor."""
    actions: dict[tuple[str, str, str], int] = defaultdict(int)
    for level in evaluation.levels:
        memory = level.name.split(" ")[0]
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
        architecture, mapping = placed(layers[name], path)
        evaluation = evaluate(layers[name].problem, architecture, mapping, ACCELFORGE)
        for (memory, tensor, action), bits in counted(architecture, evaluation, 8).items():
            assert bits == pytest.approx(case["actions"][f"{name}|{memory}|{tensor}|{action}"], rel=TOLERANCE)
        energy_j += evaluation.energy_j
        latency_s += max(evaluation.compute_cycles, *busy_cycles(architecture, evaluation)) * cycle_s(
            architecture
        )
    assert energy_j == pytest.approx(case["energy"], rel=TOLERANCE)
    assert float(latency_s) == pytest.approx(case["latency"], rel=TOLERANCE)


def busy_cycles(architecture: Architecture, evaluation: Evaluation) -> Iterator[Fraction]:
    """Yield the time of each memory's port, for the tiles of all its places together."""
    busy: dict[str, Fraction] = defaultdict(Fraction)
    for level, cost in zip(architecture.levels, evaluation.levels, strict=True):
        words = sum(space.reads + space.fills + space.updates for space in cost.dataspaces)
        rate = level.shared_bandwidth
        busy[level.name.split(" ")[0]] += Fraction(0) if rate is None else words / rate
    yield from busy.values()


def cycle_s(architecture: Architecture) -> Fraction:
    assert architecture.cycle_s is not None
    return architecture.cycle_s
