"""A small cascade on a small architecture."""

from dataclasses import replace
from pathlib import Path

from model.cascade import Network

ARCHITECTURE = """mapspace: {template: uber}
architecture:
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {datawidth: 8, width: 32, shared_bandwidth: 4}
    energy: {read: 100, write: 100, leak: 0}
  - !Component
    name: buffer
    class: SRAM
    attributes: {datawidth: 8, width: 16, depth: 12}
    energy: {read: 6, write: 5, update: 7, leak: 0}
    constraints: {dataspace: {keep: [input], bypass: [weight]}}
  - !Container
    name: PE
    spatial: {meshX: 4}
  - !Component
    name: mac
    class: intmac
    energy: {compute: 1}
"""

HOMES = """mapspace: {template: uber}
architecture:
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {datawidth: 8, width: 8}
    energy: {read: 100, write: 110, update: 120, leak: 0}
    constraints: {dataspace: {bypass: OUTER}}
  - !Container
    name: tile
    spatial: {meshX: WIDTH}
  - !Component
    name: buffer
    class: SRAM
    attributes: {datawidth: 8, width: 8, depth: DEPTH}
    energy: {read: 6, write: 7, update: 8, leak: 0}
    constraints: {dataspace: INNER}
  - !Component
    name: mac
    class: intmac
    energy: {compute: 1}
"""
"""A tile with a buffer where intermediates may be at home, to be filled in by `str.replace`."""

WORKLOAD = """
workload:
  rank_sizes: {M: 4, K: 6, N: 4, J: 6, L: 2}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "A[m, k] = A_in[m, k]", is_copy_operation: true}
  - {einsum: "T[m, n] = A[m, k] * W[k, n]", n_instances: 2}
  - {einsum: "Z[m, l] = T[m, n] * V[n, l]"}
  - {einsum: "Y[m, n] = A[m, j] * U[j, n]"}
renames:
  einsums:
  - name: default
    tensor_accesses: {input: A_in | (Intermediates & Inputs), weight: Inputs - input}
""".replace("A[m, j]", "A[m, K: j]")


def write_specs(workload: str = WORKLOAD, architecture: str = ARCHITECTURE) -> list[Path]:
    """Write a workload and an architecture, with perfect factors, as files here; return their names."""
    perfect = "" if "mapspace:" in architecture else "mapspace: {template: uber}\n"
    Path("a.yaml").write_text(architecture + perfect, encoding="utf-8")
    Path("w.yaml").write_text(workload, encoding="utf-8")
    return [Path("w.yaml"), Path("a.yaml")]


def too_tight(network: Network) -> Network:
    """The copy and Z, whose three tensors are to be kept in a single word."""
    space = network.layers[2].mapspace
    keep = (space.keep[0], replace(space.keep[1], keep=frozenset({"T", "V", "Z"}), bypass=frozenset()))
    tight = replace(space.architecture.nodes[1], size_words=1)
    nodes = (space.architecture.nodes[0], tight, *space.architecture.nodes[2:])
    layer = replace(
        network.layers[2],
        mapspace=replace(space, keep=keep, architecture=replace(space.architecture, nodes=nodes)),
    )
    return replace(network, layers=(network.layers[0], layer))
