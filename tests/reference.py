"""Reads the reference files of the tests in ``../shared``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from model.architecture import (
    AccessEnergy,
    Architecture,
    Compute,
    Fanout,
    Node,
    StorageLevel,
)
from model.energy.figures import energy_units, to_units
from model.extents import PERFECT
from model.formats.timeloop import LoadOptions, load_timeloop
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem, Term
from tests.conftest import SHARED

DESIGNS = SHARED / "reference" / "designs"
EXAMPLES = DESIGNS / "example_designs"


@cache
def design(name: str, layer: str) -> Mapspace:
    """Mapspace of a layer, such as ``resnet18/07.yaml``, on the design of this name."""
    files = [EXAMPLES / "top.yaml.jinja2", EXAMPLES / name / "ERT.yaml"]
    problem = str(DESIGNS / "layer_shapes" / layer)
    variables = {"architecture": name, "problem": problem}
    return load_timeloop(files, variables, LoadOptions(factors=PERFECT)).mapspace


WORKLOADS = SHARED / "reference" / "workloads"

EINSUMS = {
    "basic/matmuls.yaml": 3,
    "basic/matvecs.yaml": 2,
    "basic/three_matmuls_annotated.yaml": 3,
    "cnns/mobilenet/mobilenet_28.yaml": 6,
    "compute_in_memory/resnet18.yaml": 21,
    "compute_in_memory/vgg16.yaml": 16,
    "transformers/_attention_decode_types/grouped_query.yaml": 8,
    "transformers/_attention_decode_types/grouped_query_chunked.yaml": 9,
    "transformers/_attention_decode_types/multi_head.yaml": 8,
    "transformers/_attention_decode_types/multi_head_latent.yaml": 10,
    "transformers/_feedforward_types/dense_two_layer.yaml": 2,
    "transformers/_feedforward_types/gated_linear_unit.yaml": 4,
    "transformers/_feedforward_types/mixture_of_experts.yaml": 6,
    "transformers/_feedforward_types/mixture_of_experts_shared.yaml": 11,
    "transformers/gpt/_gpt3.yaml": 10,
    "transformers/gpt/gpt3_175B.yaml": 10,
    "transformers/gpt/gpt3_6.7B.yaml": 10,
}
"""How many Einsums each file has."""

FED_FROM_OUTSIDE = {
    "dense_two_layer.yaml": ["FFA"],
    "gated_linear_unit.yaml": ["FFG", "FFU"],
    "mixture_of_experts_shared.yaml": ["SFG", "SFU"],
}
"""Fragments, and those of their Einsums that another file feeds."""


def workload_file(name: str) -> Path:
    """Path of a file; skips the test where the files are absent."""
    path = WORKLOADS / name
    if not path.exists():
        pytest.skip("../shared is absent")
    return path


OPTIMA = SHARED / "reference" / "optima"
NAMES = ("conv1d_bypass_fixed", "conv1d_halo", "depthwise", "gemm_block", "gemm_two_level")
OBJECTIVES = ("energy", "latency", "edp")
ACTIONS = ("read", "fill", "update")


@dataclass(frozen=True)
class ReferenceOptimum:
    """A mapspace, how many valid mappings were enumerated, and the least value per objective.

    Values are in the units of `tests.bruteforce.objective_value`.
    """

    mapspace: Mapspace
    mappings: int
    optimum: dict[str, int]


def load_reference(path: Path, *, axes_apart: bool = False) -> ReferenceOptimum:
    """Read one of the files.

    The enumeration behind the files let a dimension have a factor on each axis of a fanout. With
    ``axes_apart`` the mapspace has a fanout per axis, which is the same; otherwise one for both axes.
    """
    record = json.loads(path.read_text(), parse_float=Decimal)
    levels, compute = record["levels_inner_to_outer"][::-1], record["compute"]
    figures = [compute["energy_pj"], *(level["energy_pj"][action] for level in levels for action in ACTIONS)]
    units = energy_units(Decimal(figure) for figure in figures)
    nodes: list[Node] = []
    for level, inner in zip(levels, [*levels[1:], compute], strict=True):
        nodes.append(_storage(level, units))
        mesh = [inner[axis] // level[axis] for axis in ("meshX", "meshY")]
        nodes.extend(_fanouts(level["name"], *mesh, axes_apart))
    architecture = Architecture(
        record["name"],
        tuple(nodes),
        Compute("mac", to_units(Decimal(compute["energy_pj"]), units)),
        units_per_pj=units,
    )
    problem = _problem(record)
    (keeps,) = record["keeps"]
    everything = frozenset(space.name for space in problem.dataspaces)
    mapspace = Mapspace(
        problem=problem,
        architecture=architecture,
        temporal=tuple(TemporalRules() for _ in architecture.levels),
        spatial=tuple(SpatialRules() for _ in architecture.fanouts),
        keep=tuple(KeepRules(frozenset(keep), everything - frozenset(keep)) for keep in reversed(keeps)),
    )
    scale = {"energy": units, "latency": 1, "edp": units}
    values = {name: int(record["optimum"][name]["value"] * scale[name]) for name in OBJECTIVES}
    return ReferenceOptimum(mapspace, record["mappings"], values)


def _problem(record: dict[str, Any]) -> Problem:
    spaces = tuple(
        Dataspace(
            space["name"],
            tuple(tuple(Term(*term) for term in rank) for rank in space["projection"]),
            space["read_write"],
        )
        for space in record["dataspaces"]
    )
    return Problem(record["name"], tuple(record["dims"]), tuple(record["dims"].values()), spaces)


def _storage(level: dict[str, Any], units: int) -> StorageLevel:
    assert level["read_bandwidth"] is None
    assert level["write_bandwidth"] is None
    read, fill, update = (to_units(Decimal(level["energy_pj"][action]), units) for action in ACTIONS)
    return StorageLevel(
        level["name"],
        level["entries"],
        block_size=level["block_size"],
        energy=AccessEnergy(read, fill, update),
    )


def _fanouts(name: str, mesh_x: int, mesh_y: int, axes_apart: bool) -> list[Fanout]:
    if mesh_x * mesh_y == 1:
        return []
    if axes_apart and mesh_x > 1 and mesh_y > 1:
        return [Fanout(f"below {name}, x", mesh_x, 1), Fanout(f"below {name}, y", 1, mesh_y)]
    return [Fanout(f"below {name}", mesh_x, mesh_y)]
