"""A depthwise and a pointwise convolution on one buffer, of which AccelForge's mapper keeps what overlaps."""

from pathlib import Path

from model.formats.fused import load_cascade
from model.fused.cascade import Cascade

WORKLOAD = """
workload:
  rank_sizes: {{C: {c}, M: {m}, P: {p}, R: {r}, H: {h}}}
  bits_per_value: {{All: 1}}
  einsums:
  - {{einsum: "T1[c, p] = T0[c, H: p + r] * W0[c, r]", renames: {{input: T0, output: T1, weight: W0}}}}
  - {{einsum: "T2[m, p] = T1[c, p] * W1[m, c]", renames: {{input: T1, output: T2, weight: W1}}}}
"""

ARCHITECTURE = """
arch:
  nodes:
  - !Memory
    {{name: Main, size: inf, leak_power: 0, tensors: {{keep: ~Intermediates, may_keep: All}}, actions: [
      {{name: read, energy: 100, throughput: inf}}, {{name: write, energy: 100, throughput: inf}}]}}
  - !Memory
    {{name: Buffer, size: {size}, leak_power: 0, tensors: {{keep: ~Main, may_keep: All}}, actions: [
      {{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Compute {{name: MAC, leak_power: 0, actions: [{{name: compute, energy: 1, throughput: 1}}]}}
"""


def depthwise_and_pointwise(folder: Path, p: int, r: int, c: int, m: int, size: int) -> Cascade:
    """Rows of outputs and windows, channels of both convolutions, words of the buffer."""
    workload, architecture = folder / "workload.yaml", folder / "architecture.yaml"
    workload.write_text(WORKLOAD.format(p=p, r=r, c=c, m=m, h=p + r - 1))
    architecture.write_text(ARCHITECTURE.format(size=size))
    cascade, _ = load_cascade([workload, architecture])
    return cascade
