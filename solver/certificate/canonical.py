"""The canonical problem as JSON: everything that decides which mappings exist and what they cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from fractions import Fraction

from model.architecture import Fanout, StorageLevel
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace

Json = dict[str, object]


def canonical(mapspace: Mapspace) -> Json:
    """Return `mapspace` as plain JSON values; equal mapspaces give equal documents.

    Integers stay integers, fractions become ``[numerator, denominator]``, sets are sorted. What is
    there for people only (sources, notes, areas) and what the cost model does not read (word width,
    transfers between neighbours) is left out. docs/certificates.md lists the keys.
    """
    problem, architecture = mapspace.problem, mapspace.architecture
    storage = iter(zip(mapspace.temporal, mapspace.keep, strict=True))
    spatial = iter(mapspace.spatial)
    return {
        "dims": list(problem.dims),
        "bounds": list(problem.bounds),
        "dataspaces": [_dataspace(space) for space in problem.dataspaces],
        "nodes": [
            _fanout(node, next(spatial)) if isinstance(node, Fanout) else _storage(node, *next(storage))
            for node in architecture.nodes
        ],
        "compute": {"name": architecture.compute.name, "energy": architecture.compute.energy},
        "units_per_pj": architecture.units_per_pj,
        "parallel": [
            {"levels": list(group.levels), "may_skip": group.may_skip} for group in mapspace.parallel
        ],
        "min_parallelism": _fraction(mapspace.min_parallelism),
    }


def canonical_text(document: object) -> str:
    """Return the one serialisation that hashes are taken over: sorted keys, no spaces, ASCII."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical_sha256(document: object) -> str:
    """SHA-256 (hex) of `canonical_text`."""
    return hashlib.sha256(canonical_text(document).encode("ascii")).hexdigest()


def _dataspace(space: Dataspace) -> Json:
    return {
        "name": space.name,
        "ranks": [[[term.dim, term.coefficient] for term in rank] for rank in space.ranks],
        "read_write": space.read_write,
    }


def _storage(level: StorageLevel, rules: TemporalRules, keep: KeepRules) -> Json:
    energy = level.energy
    return {
        "kind": "storage",
        "name": level.name,
        "size_words": level.size_words,
        "block_size": level.block_size,
        "cluster_size": level.cluster_size,
        "multiple_buffering": _fraction(level.multiple_buffering),
        "min_utilization": _fraction(level.min_utilization),
        "read_bandwidth": _optional(level.read_bandwidth),
        "write_bandwidth": _optional(level.write_bandwidth),
        "shared_bandwidth": _optional(level.shared_bandwidth),
        "bandwidth_scale": {name: _fraction(scale) for name, scale in level.bandwidth_scale},
        "network_fill_latency": level.network_fill_latency,
        "network_drain_latency": level.network_drain_latency,
        "gating_fanouts": level.gating_fanouts,
        "energy": {
            "read": energy.read,
            "fill": energy.fill,
            "update": energy.update,
            "leak_per_cycle": energy.leak_per_cycle,
        },
        "no_temporal_reuse": sorted(level.no_temporal_reuse),
        "rmw_first_update": sorted(level.rmw_first_update),
        "no_coalesce": sorted(level.no_coalesce),
        **_packings(level),
        "factors": _factors(rules.factors),
        "inner": list(rules.inner),
        "outer": list(rules.outer),
        "keep": sorted(keep.keep),
        "bypass": sorted(keep.bypass),
    }


def _packings(level: StorageLevel) -> Json:
    """Return the key ``packing`` where values differ in size, nothing where all are one word."""
    packings = {
        packing.dataspace: {
            "block_size": packing.block_size,
            "size_per_value": packing.size_per_value,
            "accesses_per_block": packing.accesses_per_block,
        }
        for packing in level.packing
    }
    return {"packing": packings} if packings else {}


def _fanout(fanout: Fanout, rules: SpatialRules) -> Json:
    return {
        "kind": "fanout",
        "name": fanout.name,
        "mesh_x": fanout.mesh_x,
        "mesh_y": fanout.mesh_y,
        "no_multicast": sorted(fanout.no_multicast),
        "factors": _factors(rules.factors),
        "inner": list(rules.inner),
        "outer": list(rules.outer),
        "uncounted": sorted(rules.uncounted),
        "split": rules.split,
    }


def _factors(rules: Iterable[FactorRule]) -> list[list[object]]:
    return [[rule.dim, rule.relation, rule.value] for rule in rules]


def _fraction(value: Fraction) -> list[int]:
    exact = Fraction(value)
    return [exact.numerator, exact.denominator]


def _optional(value: Fraction | None) -> list[int] | None:
    return None if value is None else _fraction(value)
