"""Designs whose optimum is hard to prove: many free levels, many fanouts, windows, awkward constraints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import yaml

from model.extents import PERFECT
from model.formats.timeloop import LoadOptions, load_timeloop
from model.mapspace import Mapspace

Node = dict[str, object]

FREE, BYPASSED = (), ("Weights",)


class Tagged(yaml.YAMLObject):
    """A node of an architecture, with its tag."""

    def __init__(self, tag: str, entries: Node) -> None:
        self.tag, self.entries = tag, entries


def _represent(dumper: yaml.SafeDumper, node: Tagged) -> yaml.Node:
    return dumper.represent_mapping(node.tag, node.entries)


class _Dumper(yaml.SafeDumper):
    """Writes tagged nodes as well."""


_Dumper.add_representer(Tagged, _represent)


class HardCase(NamedTuple):
    """One run: a name, what to minimise, and the documents of its spec."""

    name: str
    objective: str
    documents: tuple[Node, ...]

    def mapspace(self) -> Mapspace:
        """Read the documents, for factors without remainders."""
        with TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{number}.yaml" for number in range(len(self.documents))]
            for path, document in zip(paths, self.documents, strict=True):
                path.write_text(yaml.dump(document, Dumper=_Dumper, sort_keys=False), encoding="utf-8")
            return load_timeloop(paths, options=LoadOptions(factors=PERFECT)).mapspace


# ------------------------------------------------------------------------------ parts


def memory(
    name: str,
    words: int | None,
    energy: float,
    bandwidth: float | None = None,
    keep: Sequence[str] | None = None,
    bits: int = 16,
    **constraints: object,
) -> Tagged:
    """Return a memory of so many words, with one energy for all accesses."""
    attributes: Node = {"width": bits, "datawidth": bits}
    if words is not None:
        attributes["depth"] = words
    if bandwidth is not None:
        attributes |= {"read_bandwidth": bandwidth, "write_bandwidth": bandwidth}
    actions = [{"name": action, "energy": energy} for action in ("read", "write", "update")]
    entries: Node = {
        "name": name,
        "class": "DRAM" if words is None else "SRAM",
        "attributes": attributes,
        "actions": [*actions, {"name": "leak", "energy": 0}],
    }
    if keep is not None:
        constraints["dataspace"] = {"keep_only": list(keep)}
    return Tagged("!Component", entries | ({"constraints": constraints} if constraints else {}))


def array(name: str, columns: int, rows: int = 1, **constraints: object) -> Tagged:
    """Return a fanout."""
    entries: Node = {"name": name, "spatial": {"meshX": columns, "meshY": rows}}
    return Tagged("!Container", entries | ({"constraints": constraints} if constraints else {}))


def multiplier(energy: float = 1.0) -> Tagged:
    """Return the arithmetic."""
    actions = [{"name": "compute", "energy": energy}, {"name": "leak", "energy": 0}]
    widths = {"multiplier_width": 16, "adder_width": 16}
    return Tagged("!Component", {"name": "mac", "class": "intmac", "attributes": widths, "actions": actions})


def design(*nodes: Tagged, **mapspace: object) -> Node:
    """Return a spec of an architecture, and what it says on the mapspace."""
    found: Node = {"architecture": {"version": 0.4, "nodes": [*nodes, multiplier()]}}
    return found | ({"mapspace": {"version": 0.4, **mapspace}} if mapspace else {})


def problem(ranks: dict[str, str], **bounds: int) -> Node:
    """Return a spec of an Einsum; `ranks` has sums such as ``C, P + R`` by dataspace, outputs last."""
    spaces = []
    for place, (name, written) in enumerate(ranks.items()):
        projection = [[_term(term.split("*")) for term in rank.split("+")] for rank in written.split(",")]
        space: Node = {"name": name, "projection": projection}
        spaces.append(space | ({"read_write": True} if place == len(ranks) - 1 else {}))
    numbers = sorted(
        {
            int(n)
            for text in ranks.values()
            for n in text.replace(",", "+").replace("*", "+").split("+")
            if n.strip().isdigit()
        }
    )
    shape: Node = {"name": "einsum", "dimensions": list(bounds), "data_spaces": spaces}
    shape["coefficients"] = [{"name": f"times{n}", "default": n} for n in numbers]
    return {"problem": {"version": 0.4, "shape": shape, "instance": bounds}}


def _term(parts: Sequence[str]) -> list[str]:
    """Return a dimension, with the name of its coefficient where it has one."""
    *factor, dim = (part.strip() for part in parts)
    return [dim, *(f"times{own}" for own in factor)]


def gemm(m: int, n: int, k: int) -> Node:
    """Return a matrix product."""
    return problem({"Weights": "K, N", "Inputs": "M, K", "Outputs": "M, N"}, M=m, N=n, K=k)


def convolution(channels: int, filters: int, size: int, kernel: int = 3, batch: int = 1) -> Node:
    """Return a two-dimensional convolution of square images."""
    ranks = {"Weights": "C, K, R, S", "Inputs": "N, C, P + R, Q + S", "Outputs": "N, K, P, Q"}
    bounds = {"R": kernel, "S": kernel, "P": size, "Q": size, "C": channels, "K": filters}
    return problem(ranks, **bounds, N=batch)


def buffers(count: int, largest: int, bandwidth: float | None = None) -> list[Tagged]:
    """Return a hierarchy of memories, each a sixth of the one outside, at half the energy."""
    return [
        memory(f"B{place}", max(16, largest // 6**place), max(1.0, 20 / 2**place), bandwidth)
        for place in range(count)
    ]


# ---------------------------------------------------------------------------- designs

DRAM = memory("DRAM", None, 200)


def three_levels() -> Node:
    """Return a buffer and an array of registers without constraints."""
    return design(DRAM, memory("buffer", 54 * 1024, 6), array("PE", 16, 16), memory("registers", 256, 1))


def seven_levels() -> Node:
    """Return six memories on each of 8 x 8 units, nothing constrained."""
    return design(DRAM, array("units", 8, 8), *buffers(6, 65536, 8))


def many_levels(count: int) -> Node:
    """Return so many memories below the DRAM, with an array inside."""
    return design(DRAM, *buffers(count - 1, 65536), array("PE", 8, 8), memory("registers", 16, 0.5))


def many_fanouts() -> Node:
    """Return four levels with an array around each, and one inside of all."""
    return design(
        DRAM,
        array("chips", 4),
        memory("shared", 262144, 20),
        array("clusters", 2, 2),
        memory("buffer", 16384, 6),
        array("PE", 8),
        memory("registers", 64, 1),
        array("lanes", 4),
    )


def packaged(bits: int) -> Node:
    """Return a package of processing elements with a buffer for each operand, and bandwidths."""
    per_word, scale = bits / 16, 16 // bits
    vector = {"no_iteration_over_dataspaces": ["Outputs"]}, {"no_iteration_over_dataspaces": ["Inputs"]}
    return design(
        memory("DRAM", None, 128 * per_word, 0.08 * scale, bits=bits),
        memory("shared", 32768 * scale, 1.4 * per_word, 45 * scale, ("Inputs", "Outputs"), bits),
        array("PE", 16),
        memory("inputs", 4096 * scale, 0.24 * per_word, 16 * scale, ("Inputs",), bits),
        memory("weights", 16384 * scale, 1.08 * per_word, 32 * scale, ("Weights",), bits),
        memory("sums", 512 * scale, 0.5 * per_word, 3.2 * scale, ("Outputs",), bits),
        array("outer", 8, spatial=vector[0]),
        array("inner", 1, 8, spatial=vector[1]),
        memory("operand", 1, 0, None, ("Weights",), bits),
    )


def in_memory() -> Node:
    """Return macros that compute where weights are kept: rows add up, columns share an input."""
    return design(
        DRAM,
        memory("buffer", 524288, 12, 64),
        array("macros", 8),
        memory("inputs", 4096, 1.5, None, ("Inputs",)),
        memory("sums", 1024, 1.5, None, ("Outputs",)),
        array("rows", 128, spatial={"no_iteration_over_dataspaces": ["Outputs"]}),
        array("columns", 1, 128, spatial={"no_iteration_over_dataspaces": ["Inputs"]}),
        memory("cell", 4, 0.1, None, ("Weights",)),
    )


def output_stationary() -> Node:
    """Return an array with a sum in each element, and narrow memories."""
    return design(
        memory("DRAM", None, 100, 2),
        memory("buffer", 65536, 4, 32),
        array("columns", 16, spatial={"no_iteration_over_dataspaces": ["Inputs"]}),
        array("rows", 1, 16, spatial={"no_iteration_over_dataspaces": ["Weights"]}),
        memory("sums", 1, 0.2, None, ("Outputs",), temporal={"no_iteration_over_dataspaces": ["Outputs"]}),
    )


def constrained(rules: Sequence[str], words: int = 4096) -> Node:
    """Return three memories of which the middle one has rules on its tiles."""
    return design(
        DRAM,
        memory("shared", 32768, 12),
        memory("buffer", words, 4, tile=list(rules)),
        array("PE", 12, 14),
        memory("registers", 48, 1),
    )


# ------------------------------------------------------------------------------ cases


def hard_cases() -> Iterator[HardCase]:
    """Yield all cases."""
    projection = problem(
        {"Weights": "H, E, D", "Inputs": "M, D", "Outputs": "M, H, E"}, M=2048, H=32, E=128, D=4096
    )
    attention = problem(
        {"Weights": "H, Q + W, E", "Inputs": "H, Q, E", "Outputs": "H, Q, W"}, H=16, Q=512, W=128, E=64
    )
    volume = problem({"Weights": "C, X + D", "Inputs": "C, X", "Outputs": "D, X"}, D=48, X=240, C=32)
    transposed = problem(
        {"Weights": "C, K, R, S", "Inputs": "C, P, Q", "Outputs": "K, 2*P + R, 2*Q + S"},
        R=4,
        S=4,
        P=8,
        Q=8,
        C=64,
        K=32,
    )
    line = problem({"Weights": "K, R", "Inputs": "P", "Outputs": "K, 2*P + R"}, R=16, P=256, K=16)
    correlation = problem({"Weights": "B + C", "Inputs": "A + C", "Outputs": "A + B"}, A=64, B=32, C=32)
    yield HardCase("seven_levels/gemm_512", "edp", (seven_levels(), gemm(512, 512, 512)))
    yield HardCase("seven_levels/gemm_512", "energy", (seven_levels(), gemm(512, 512, 512)))
    for bits in (8, 16):
        yield HardCase(f"packaged_{bits}/projection", "edp", (packaged(bits), projection))
        yield HardCase(f"packaged_{bits}/gemm_1024", "edp", (packaged(bits), gemm(1024, 1024, 1024)))
    yield HardCase("packaged_8/feed_forward", "edp", (packaged(8), gemm(2048, 16384, 4096)))
    yield HardCase("three_levels/gemm_5040", "energy", (three_levels(), gemm(5040, 5040, 5040)))
    yield HardCase("three_levels/gemm_45360", "energy", (three_levels(), gemm(45360, 45360, 45360)))
    yield HardCase("three_levels/gemm_720720", "energy", (three_levels(), gemm(720720, 720720, 720720)))
    yield HardCase(
        "three_levels/large_images", "energy", (three_levels(), convolution(720, 720, 5040, 3, 360))
    )
    yield HardCase("six_levels/gemm_512", "energy", (many_levels(5), gemm(512, 512, 512)))
    yield HardCase("six_levels/convolution_56", "energy", (many_levels(4), convolution(128, 256, 56)))
    yield HardCase("six_levels/convolution_14", "edp", (many_levels(4), convolution(256, 256, 14)))
    yield HardCase("many_fanouts/gemm_1024", "edp", (many_fanouts(), gemm(1024, 1024, 1024)))
    yield HardCase("many_fanouts/convolution_28", "energy", (many_fanouts(), convolution(128, 128, 28)))
    yield HardCase("many_levels/transposed_line", "energy", (many_levels(3), line))
    yield HardCase("many_levels/transposed_8", "energy", (many_levels(3), transposed))
    yield HardCase("many_levels/correlation", "energy", (many_levels(3), correlation))
    yield HardCase("many_levels/window_attention", "edp", (many_levels(3), attention))
    yield HardCase("many_levels/cost_volume", "energy", (many_levels(3), volume))
    yield HardCase("in_memory/feed_forward", "energy", (in_memory(), gemm(2048, 16384, 4096)))
    yield HardCase("in_memory/decode", "edp", (in_memory(), gemm(16, 16384, 4096)))
    yield HardCase(
        "output_stationary/convolution_56", "energy", (output_stationary(), convolution(64, 64, 56))
    )
    yield HardCase("output_stationary/convolution_56", "edp", (output_stationary(), convolution(64, 64, 56)))
    square = ["P == Q", "C * K >= 64", "words(Weights) % 3 == 0"]
    yield HardCase("constrained/convolution_28", "energy", (constrained(square), convolution(96, 96, 28)))
    odd = ["M % 3 == 0", "N % 5 == 0 or K % 7 == 0", "share(Weights) >= share(Inputs)"]
    yield HardCase("constrained/gemm_840", "energy", (constrained(odd), gemm(840, 840, 840)))
