"""A workload of two Einsums and an architecture of AccelForge for them, whose parts tests exchange."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from model.cascade import Network
from model.formats.cascade import load_network
from model.formats.timeloop import LoadOptions

WORKLOAD = """
workload:
  rank_sizes: {M: 8, K: 4, N: 6}
  bits_per_value: {All: 8, }
  einsums:
  - {einsum: "T[m, n] = A[m, k] * W[k, n]", renames: {weight: W, input: A, output: T}}
  - {einsum: "Z[m, n] = T[m, n]", renames: {weight: Nothing, input: T, output: Z}}
"""

ARCH = """
arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 0
    tensors: {keep: All}
    actions: [{name: read, energy: 8e-12, throughput: inf}, {name: write, energy: 9e-12, throughput: inf}]
  - !Container
    name: Array
    spatial: [{name: X, fanout: 4}]
  - !Memory
    name: Buffer
    size: 64 * 8
    leak_power: 1e-3
    tensors: {keep: weight, may_keep: All}
    actions: [{name: read, energy: 1e-12, throughput: 2e9}, {name: write, energy: 2e-12, throughput: 2e9}]
  - !Compute
    name: MAC
    leak_power: 2e-3
    actions: [{name: compute, energy: 5e-13, throughput: 1e9}]
"""


def load(arch: str = ARCH, workload: str = WORKLOAD, options: LoadOptions | None = None) -> Network:
    """Read both from files in the working directory, each memory with one place."""
    Path("w.yaml").write_text(workload, encoding="utf-8")
    Path("a.yaml").write_text(arch, encoding="utf-8")
    return load_network(["w.yaml", "a.yaml"], {}, replace(options or LoadOptions(), has_places=False))


def with_node(before: str, after: str, arch: str = ARCH) -> str:
    """Return an architecture with a part of it replaced, which must be there."""
    assert arch.count(before) >= 1, before
    return arch.replace(before, after, 1)
