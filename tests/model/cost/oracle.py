"""Asks ../shared/reference/timeloop/oracle.py, the counting rules in executable form."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any

from model.architecture import Architecture, Fanout
from model.mapping import FanoutMapping, Mapping, StorageMapping
from model.problem import Problem
from tests.conftest import SHARED

ORACLE = SHARED / "reference" / "timeloop" / "oracle.py"
FLAGS = ("no_temporal_reuse", "rmw_first_update", "no_coalesce", "no_multicast", "no_link_transfer")

Level = dict[str, Any]


@cache
def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("timeloop_oracle", ORACLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ask(
    problem: Problem, architecture: Architecture, mapping: Mapping, link_transfers: bool
) -> dict[str, Any]:
    """Price `mapping` with the oracle; its levels come outermost first, without those of fanouts.

    Each fanout becomes a level of its own that keeps nothing.
    """
    rows = range(len(architecture.nodes))[::-1]
    levels = [_level(architecture, position) for position in rows]
    tiles = [_tile(mapping, position) for position in rows]
    keep = [_keep(mapping, position) for position in rows]
    flags = {
        flag: {
            index: getattr(architecture.nodes[position], flag, frozenset())
            for index, position in enumerate(rows)
        }
        for flag in FLAGS
    }
    columns, lines = _mesh(architecture, len(architecture.nodes))
    answer: dict[str, Any] = _module().evaluate(
        {
            "dims": problem.bound,
            "ds": [
                {
                    "name": space.name,
                    "rw": space.read_write,
                    "proj": [[(term.dim, term.coefficient) for term in rank] for rank in space.ranks],
                }
                for space in problem.dataspaces
            ],
        },
        {"levels": levels, "mac": {"meshX": columns, "meshY": lines, "E": architecture.compute.energy}},
        {"tiles": tiles, "keep": keep, "flags": flags},
        link=link_transfers,
    )
    storage = {level.name for level in architecture.levels}
    answer["levels"] = [level for level in reversed(answer["levels"]) if level["name"] in storage]
    return answer


def _mesh(architecture: Architecture, position: int) -> tuple[int, int]:
    columns = lines = 1
    for node in architecture.nodes[:position]:
        if isinstance(node, Fanout):
            columns *= node.mesh_x
            lines *= node.mesh_y
    return columns, lines


def _level(architecture: Architecture, position: int) -> Level:
    node = architecture.nodes[position]
    columns, lines = _mesh(architecture, position)
    level: Level = {"name": node.name, "meshX": columns, "meshY": lines, "size": None, "E": {}}
    if isinstance(node, Fanout):
        return level
    rates = {"rbw": node.read_bandwidth, "wbw": node.write_bandwidth, "sbw": node.shared_bandwidth}
    energy = node.energy
    return {
        **level,
        "size": node.size_words,
        "mult_buf": node.multiple_buffering,
        "min_util": node.min_utilization,
        "block": node.block_size,
        # The oracle divides by the whole clusters, the cost model has one at the least.
        "cluster": min(node.cluster_size, columns * lines),
        "bw_scale": {name: float(scale) for name, scale in node.bandwidth_scale},
        "E": {
            "read": energy.read,
            "write": energy.fill,
            "update": energy.update,
            "leak": energy.leak_per_cycle,
        },
        **{key: float(rate) for key, rate in rates.items() if rate is not None},
    }


def _tile(mapping: Mapping, position: int) -> dict[str, list[tuple[Any, ...]]]:
    """Spatial loops lie below the temporal ones of the same level, which a fanout has none of."""
    entry = mapping.nodes[position]
    if isinstance(entry, FanoutMapping):
        return {"temporal": [], "spatial": [(o.dim, o.bound, o.bound, o.axis) for o in entry.spatial]}
    return {"temporal": [(o.dim, o.bound, o.bound) for o in entry.temporal], "spatial": []}


def _keep(mapping: Mapping, position: int) -> set[str]:
    entry = mapping.nodes[position]
    names: Iterable[str] = entry.keep if isinstance(entry, StorageMapping) else ()
    return set(names)
