"""The kinds of spec that the fuzzer damages: their texts, and what is done with one that loads."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fuzz_formats import FORMATS
from rich.console import Console
from spec_mutation import SPECS, architecture_seeds

from model.assignment.systolic import price_network
from model.cost import evaluate, evaluate_in
from model.counting import TIMELOOP
from model.formats.accelforge import load_workload
from model.formats.assignment import load_assignment
from model.formats.assignment.methods import load_method_network
from model.formats.backends import load_backend
from model.formats.cascade import load_network
from model.formats.timeloop import AccelForgeOptions, LoadOptions, load_timeloop
from model.mapspace import Mapspace
from model.text.source import SpecError
from model.tiling.operators import Convolution
from solver.assignment import AssignOptions, assign
from solver.heuristics.smaug import CannotTile, tile
from solver.report.check import print_check
from solver.result import Options, TooLargeError
from solver.stages import map_einsum

ARCHITECTURE = SPECS / "architectures" / "free_three_level.yaml"
SEARCH_S = 0.2
LARGEST_SEED = 20_000
"""Characters of a shipped file that is damaged: larger files have more layers, but no more keys."""

WORKLOAD = """\
variables: {SIZE: 2**3}
workload:
  n_instances: 2
  rank_sizes: {B: 2, M: SIZE, E: M // 2, D: 4, H: ceil(M / 3) + 5, R: 3}
  iteration_space_shape: {m: 0 <= m < 8, r: 0 <= r and r <= 2}
  bits_per_value: {All - weight: 8, Other: 16}
  persistent_tensors: weight - Intermediates
  einsums:
  - {name: I, is_copy_operation: true, renames: {weight: Nothing, input: Inputs}, tensor_accesses: [
      {name: X, projection: [b, m, d]}, {name: I, projection: [b, m, d], output: true}]}
  - - "Q[b, m, e] = I[b, m, d] * WQ[e, d]"
    - einsum: "K[b, E: e, M: p] = I[b, M: p, D: d] * WK[e, d]"
      tensor_accesses: [{name: WK, persistent: true, bits_per_value: SIZE * 2}]
      iteration_space_shape: [0 <= p < 8, 0 <= e + d < 7]
      n_instances: 3
  - name: conv
    rank_sizes: {H: 10}
    tensor_accesses:
    - {name: Q, projection: {B: b, M: h, E: e}}
    - {name: W, projection: [{R: r}, e], backing_storage_size_scale: 1.5}
    - {name: O, projection: {B: b, H: h + 1*r, F: f}, output: true}
    iteration_space_shape: 0 <= f < 2 and 0 <= h < 8
    renames:
    - {name: input, source: "Inputs & Intermediates", expected_count: 1 if len(All) == 3 else 2}
    - {name: reduced, source: input.rank_variables - Outputs().rank_variables, expected_count: 1}
renames:
  einsums:
  - name: default
    tensor_accesses:
    - {name: input, source: Inputs - weight}
    - {name: output, source: Outputs, expected_count: 1}
    - {name: weight, source: ~(Outputs | Intermediates | Shared)}
    rank_variables: {all: All.rank_variables}
  - {name: Q, tensor_accesses: {weight: WQ | Nothing}}
"""
PRODUCTS = """\
workload:
  rank_sizes: {M: 8, K: 4, N: 6}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "T[m, n] = A[m, k] * W[k, n]", renames: {weight: W, input: A, output: T}}
  - {einsum: "Z[m, n] = T[m, n]", renames: {weight: Nothing, input: T, output: Z}}
"""
ARCH = """\
variables: {DEPTH: 4}
config: {expression_custom_functions: []}
mapper: {metrics: ENERGY}
arch:
  variables: {rows: DEPTH * len(All), width: 8 if weight else 16}
  extra_attributes_for_all_component_models: {tech_node: 45e-9}
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 0
    area: 1e-6
    tensors: {keep: ~Intermediates, may_keep: All}
    actions:
    - {name: read, energy: 8e-12, throughput: 8 * 1.25e9}
    - {name: write, energy: 9e-12, latency: 1e-10}
  - !Hierarchical
    nodes:
    - !Memory
      name: Buffer
      spatial: [{name: Z, fanout: 2, may_reuse: Nothing, power_gateable: False}]
      component_class: SmartBufferSRAM
      extra_attributes_for_component_model: {n_banks: 2}
      size: rows * width * 16
      bits_per_value: {output: 3 * output.bits_per_value}
      bits_per_action: 32
      total_latency: max(a.n_calls / a.throughput for a in actions if a.name != 'x') / 2
      leak_power_scale: 2
      tensors: {keep: ~Main.tensors, may_keep: All & ~Above, force_memory_hierarchy_order: True}
      actions:
      - {name: read, throughput: 2e9, energy_scale: 2}
      - {name: write, throughput: inf, bits_per_action: 16}
  - !Fork
    nodes:
    - !Compute
      name: Scalar
      enabled: len(All) == 2
      leak_power: 1e-3
      actions: [{name: compute, energy: 0, throughput: 4e9}]
  - type: Container
    name: Array
    spatial:
    - {name: X, fanout: 4, reuse: input, min_usage: 1, usage_scale: 1}
    - {name: Y, fanout: 3, min_usage: 0, loop_bounds: [{expression: ~m, operator: ==, value: 1}]}
  - !Memory
    name: Register
    size: weight.bits_per_value if weight else 1
    component_class: Dummy
    n_parallel_instances: 2
    tensors: {keep: weight}
  - !Toll
    name: Converter
    direction: {input | weight: down, output: up_and_down}
    leak_power: 0
    values_per_action: {All: 2}
    tensors: {keep: output | weight, may_keep: All}
    actions: [{name: read, energy: 3e-12, throughput: 1e9}]
  - !Compute
    name: MAC
    enabled: len(All) == 3
    leak_power: 0
    actions_scale: 2
    actions: [{name: compute, energy: 5e-13, throughput: 1e9 / (1)}]
"""
TABLES = """\
network:
  name: two
  unit: ms
  layers:
  - {name: a, methods: {direct: 1.25, winograd: 1e-3}}
  - {name: b, methods: {direct: 2, fft: inf}}
  - {name: c, methods: {direct: 0, fft: .inf}}
  edges:
  - {from: a, to: b, transition: {direct: {fft: 0.5}, winograd: {direct: inf, fft: 0}}}
  - {from: a, to: c}
"""
SHAPES = """\
network:
  name: small
  layers:
  - {name: in, tensor: {channels: 4, height: 8, width: 8}}
  - {name: a, conv: {in_channels: 4, out_channels: 8, height: 8, width: 8, kernel: 3}}
  - {name: b, conv: {in_channels: 8, out_channels: 2, height: 8, width: 8}, methods: [direct-os, im2col-os]}
  edges: chain
"""
OPERATOR = Convolution((1, 32, 32, 64), (3, 3), 128, padding="same")


@dataclass(frozen=True)
class Reader:
    """A kind of spec.

    `seeds` returns the texts that are damaged. `use` uses a file as the commands do, with a search if the
    flag says so, and returns how far it went; SpecError if the file is refused.
    """

    seeds: Callable[[], tuple[str, ...] | tuple[bytes, ...]]
    use: Callable[[Path, bool], str]
    suffix: str = ".yaml"


def use_architecture(path: Path, search: bool) -> str:
    """Check a spec, price its mapping, and search its mapspace."""
    loaded = load_timeloop([path])
    mapspace = loaded.mapspace
    text = io.StringIO()
    print_check(Console(file=text, width=200, markup=False, emoji=False, highlight=False), mapspace)
    assert all(character.isprintable() or character == "\n" for character in text.getvalue())
    if loaded.mapping is not None:
        evaluate_in(mapspace, loaded.mapping)
        evaluate(mapspace.problem, mapspace.architecture, loaded.mapping, TIMELOOP, link_transfers=True)
    if search:
        return _searched(mapspace)
    return "loaded" if loaded.mapping is None else "loaded, mapping priced"


def use_workload(path: Path, search: bool) -> str:
    """Read a workload alone and on an architecture, and search the mapspace of its first Einsum."""
    load_workload([path])
    network = load_network([path, ARCHITECTURE])
    return _searched(network.layers[0].mapspace) if search else "loaded"


def use_arch(path: Path, search: bool) -> str:
    """Read an architecture of AccelForge for two Einsums, and search the mapspace of the first."""
    workload = path.with_name("products.yaml")
    workload.write_text(PRODUCTS)
    load_network([workload, path], options=LoadOptions(refuse_unsearchable=False))
    try:
        network = load_network(
            [workload, path], options=LoadOptions(accelforge=AccelForgeOptions(stored_outside=True))
        )
    except SpecError:
        return "loaded, not searchable"
    return _searched(network.layers[0].mapspace) if search else "loaded"


def use_network(path: Path, search: bool) -> str:
    """Read a network, price its shapes, and assign its methods."""
    loaded = load_assignment([path])
    network = loaded.network
    if loaded.shaped is not None and loaded.hardware is not None and loaded.hardware.array is not None:
        network = price_network(loaded.shaped, loaded.hardware.model, *loaded.hardware.array)
    if network is None or not search:
        return "loaded"
    return f"loaded, assigned: {assign(network, AssignOptions(SEARCH_S)).status.value}"


def use_methods(path: Path, search: bool) -> str:
    """Read methods for a small network, and search the mapspace of the first."""
    network = path.with_name("network.yaml")
    network.write_text(SHAPES)
    problem = load_method_network([network, ARCHITECTURE], path)
    return _searched(next(iter(problem.mapspaces.values()))) if search else "loaded"


def use_backend(path: Path, _search: bool) -> str:
    """Read a backend, and tile a convolution for it."""
    try:
        tile(OPERATOR, load_backend(str(path)))
    except CannotTile:
        return "loaded, no tiling"
    return "loaded, tiled"


def _searched(mapspace: Mapspace) -> str:
    try:
        result = map_einsum(mapspace, Options(time_limit_s=SEARCH_S), reasons=False)
    except TooLargeError:
        return "loaded, too large"
    return f"loaded, searched: {result.status.value}"


def _seeds(directory: str, *small: str) -> tuple[str, ...]:
    shipped = [path.read_text() for path in sorted((SPECS / directory).glob("*.yaml"))]
    kept = [text for text in shipped if len(text) <= LARGEST_SEED]
    return (*small * len(kept), *kept)


READERS = {
    "architecture": Reader(architecture_seeds, use_architecture),
    "arch": Reader(lambda: (ARCH,), use_arch),
    "workload": Reader(lambda: _seeds("workloads", WORKLOAD), use_workload),
    "network": Reader(lambda: _seeds("networks", TABLES), use_network),
    "methods": Reader(lambda: _seeds("methods"), use_methods),
    "backend": Reader(lambda: _seeds("backends"), use_backend),
    **{name: Reader(*parts) for name, parts in FORMATS.items()},
}
