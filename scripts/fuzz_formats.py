"""What else the fuzzer damages: older specs, topologies, models, mappings, results, instances, a cache."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from spec_mutation import SPECS

from model.formats.assignment.contest import load_contest
from model.formats.cascade import load_network
from model.formats.fused import load_fused
from model.formats.onnx import load_onnx
from model.formats.timeloop import LoadOptions, load_timeloop
from model.fused.cost import evaluate_fused
from model.mapspace import Mapspace
from model.text.limits import Limits
from model.text.source import SpecError
from solver.network.cache import ResultCache
from solver.report.difference import difference_document
from solver.report.pages import report_html
from solver.report.reading import DocumentError, as_value, read_document
from solver.result import Options, Result
from solver.stages import map_einsum

ARCHITECTURE = SPECS / "architectures" / "free_three_level.yaml"
TESTS = SPECS.parent / "tests"
FUSED = TESTS / "model" / "fused" / "data"
GOLDEN = TESTS / "solver" / "golden"

OLDER = """\
problem:
  shape:
    name: product
    dimensions: [M, N, K]
    data-spaces:
    - {name: A, projection: [[[M]], [[K]]]}
    - {name: B, projection: [[[K]], [[N]]]}
    - {name: Z, projection: [[[M]], [[N]]], read-write: true}
  instance: {M: 8, N: 8, K: 16, bitwidths: {A: 8, B: 8, Z: 16}}
architecture:
  version: 0.3
  subtree:
  - name: board
    local:
    - {name: main, class: DRAM, attributes: {width: 64, word-bits: 16, block-size: 4}}
    subtree:
    - name: chip
      attributes: {technology: 45nm, global_cycle_seconds: 1e-9}
      local:
      - {name: buffer, class: SRAM, attributes: {depth: 128, width: 64, block-size: 4, cluster-size: 1}}
      subtree:
      - name: PE[0..15]
        local:
        - {name: regs, class: regfile, attributes: {depth: 8, width: 16, word-bits: 16, meshX: 8}}
        - {name: mac, class: intmac, attributes: {datawidth: 16, meshX: 8}}
mapspace_constraints:
- {target: PE, type: spatial, factors: M=4 N=4, permutation: NMK, split: 1}
- {target: regs, type: bypass, bypass: [A], keep: [Z, B]}
mapping:
- {target: buffer, type: temporal, factors: M2 N2 K16, permutation: K MN}
"""
OLDEST = """\
arch:
  arithmetic: {instances: 16, word-bits: 16, meshX: 16}
  storage:
  - {name: regs, entries: 64, instances: 16, meshX: 16, word-bits: 16, cluster-size: 16}
  - {name: buffer, sizeKB: 8, instances: 1, word-bits: 16, block-size: 4}
  - {name: DRAM, technology: DRAM, instances: 1, word-bits: 16}
problem: {shape: cnn-layer, R: 3, S: 3, P: 4, Q: 4, C: 2, K: 4, N: 1, Wstride: 1}
mapspace: {constraints: [{target: 0, type: temporal, factors: R=3, permutation: RS PQ}]}
"""
TOPOLOGY = """\
Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv1, 16, 16, 3, 3, 4, 8, 1,
Conv2, 14, 14, 3, 3, 8, 8, 2,
FC, 1, 1, 1, 1, 32, 10, 1,
"""
INSTANCE = """\
{"problem": {"name": "example", "nodes": {"intervals": [[40, 70], [30, 50]], "costs": [[15, 10], [55, 65]],
 "usages": [[10, 25], [0, 20]]}, "edges": {"nodes": [[0, 1]], "costs": [[20, 30, 40, 50]]},
 "usage_limit": 50}}
"""


def use_older(path: Path, search: bool) -> str:
    """Read a spec of an older version of Timeloop's format."""
    loaded = load_timeloop([path], options=LoadOptions(objectives=("latency",)))
    if search:
        return f"loaded, searched: {map_einsum(loaded.mapspace, Options(time_limit_s=0.2)).status.value}"
    return "loaded"


def use_topology(path: Path, _search: bool) -> str:
    """Read a SCALE-Sim topology on an architecture."""
    load_network([path, ARCHITECTURE])
    return "loaded"


def use_model(path: Path, search: bool) -> str:
    """Read an ONNX model, and of one in twenty the layers on an architecture."""
    load_onnx(path, {}, Limits())
    if search:
        load_network([path, ARCHITECTURE])
    return "loaded"


def model_seeds() -> tuple[bytes, ...]:
    """Return two small models, as bytes."""
    from onnx import TensorProto, helper  # which only models need

    def value(name: str, *shape: int) -> object:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))

    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 3, 3], [0.5] * 108)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    graph = helper.make_graph(nodes, "small", [value("x", 1, 3, 8, 8)], [value("z", 1, 4, 4, 4)], [weights])
    product = helper.make_node("MatMul", ["a", "b"], ["c"], name="product")
    of_product = helper.make_graph([product], "p", [value("a", 4, 8), value("b", 8, 2)], [value("c", 4, 2)])
    opset = [helper.make_opsetid("", 17)]
    models = (helper.make_model(own, opset_imports=opset) for own in (graph, of_product))
    return tuple(model.SerializeToString() for model in models)


def fused_seeds() -> tuple[str, ...]:
    """Return the fused mappings of the tests."""
    return tuple(path.read_text() for path in sorted(FUSED.glob("*.fused.yaml")))


def use_fused(path: Path, _search: bool) -> str:
    """Read a fused mapping for the workload that it is of, the longest first, and price it."""
    names = (
        ("windows", "products")
        if "windows" in path.read_text(errors="replace")
        else ("attention", "products")
    )
    try:
        return _priced_fused(path, names[0])
    except SpecError:
        return _priced_fused(path, names[1])


def _priced_fused(path: Path, workload: str) -> str:
    loaded = load_fused([FUSED / f"{workload}.workload.yaml", FUSED / "arch.yaml"], path)
    with loaded.located():
        evaluate_fused(loaded.cascade, loaded.mapping)
    return "loaded, mapping priced"


def document_seeds() -> tuple[str, ...]:
    """Return results of searches, with a mapping and without."""
    return tuple(path.read_text() for path in sorted(GOLDEN.glob("result_*.json")))


def use_document(path: Path, _search: bool) -> str:
    """Make a page of a result, and compare it with one that is whole."""
    try:
        document = read_document(path)
        report_html(document)
        whole = as_value(json.loads((GOLDEN / "result_optimal.json").read_text()))
        report_html(as_value(difference_document(whole, document, ("whole", "damaged"))))
    except DocumentError as error:
        raise SpecError("".join(one if one.isprintable() else "?" for one in str(error))) from error
    return "loaded"


def use_instance(path: Path, _search: bool) -> str:
    """Read an instance of the iopddl contest."""
    load_contest(path)
    return "loaded"


@cache
def _kept() -> tuple[Mapspace, Result]:
    """Return a mapspace and its optimum."""
    mapspace = load_timeloop([ARCHITECTURE, SPECS / "layers" / "gemm" / "1024.yaml"]).mapspace
    return mapspace, map_einsum(mapspace, Options(time_limit_s=math.inf), reasons=False)


def use_cached(path: Path, _search: bool) -> str:
    """Put an input into the file of a kept result: then it does not count, unless nothing was changed."""
    mapspace, result = _kept()
    with tempfile.TemporaryDirectory() as directory:
        kept = ResultCache(directory)
        kept.store("question", result)
        (entry,) = Path(directory).glob("*.json")
        whole, damage = entry.read_bytes(), path.read_bytes()
        place = len(damage) * 7 % len(whole)
        damaged = whole[:place] + damage + whole[place + len(damage) % 3 :]
        entry.write_bytes(damaged)
        found = kept.find("question", mapspace)
    assert (found is not None) == (damaged == whole)
    return "loaded, does not count" if found is None else "loaded"


def _texts(*texts: str) -> Callable[[], tuple[str, ...]]:
    return lambda: texts


FORMATS: dict[
    str, tuple[Callable[[], tuple[str, ...] | tuple[bytes, ...]], Callable[[Path, bool], str], str]
] = {
    "older": (_texts(OLDER, OLDEST), use_older, ".yaml"),
    "topology": (_texts(TOPOLOGY), use_topology, ".csv"),
    "model": (model_seeds, use_model, ".onnx"),
    "fused": (fused_seeds, use_fused, ".yaml"),
    "document": (document_seeds, use_document, ".json"),
    "instance": (_texts(INSTANCE), use_instance, ".json"),
    "cached": (_texts(INSTANCE), use_cached, ".json"),
}
"""By name: the texts that are damaged, what is done with one, and the suffix of its file."""
