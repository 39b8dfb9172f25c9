"""The canonical problem as JSON: everything that decides which mappings exist and what they cost."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import dropwhile

from model.architecture import Architecture, Fanout, StorageLevel
from model.mapspace import FactorRule, Mapspace, SpatialRules, TemporalRules
from model.numbers import divisors
from model.problem import Dataspace, Problem
from solver.certificate.classes import keep_sets

Json = dict[str, object]


def canonical(mapspace: Mapspace) -> Json:
    """Return `mapspace` as plain JSON values; equal mapspaces give equal documents.

    Rules are resolved: allowed factors, sets of keeping nodes, ways to lay dimensions along X and stages
    of temporal loops are listed, so that whoever reads the document needs no attribute of a spec to be
    explained. Integers stay integers, fractions become ``[numerator, denominator]``. What is there for
    people only (sources, notes, areas) and what the cost model does not read is left out.
    docs/certificates.md lists the keys.
    """
    problem, architecture = mapspace.problem, mapspace.architecture
    temporal, spatial = iter(mapspace.temporal), iter(mapspace.spatial)
    levels = architecture.levels
    return {
        "dims": list(problem.dims),
        "bounds": list(problem.bounds),
        "dataspaces": [_dataspace(mapspace, space) for space in problem.dataspaces],
        "nodes": [
            _fanout(problem, node, next(spatial))
            if isinstance(node, Fanout)
            else _storage(problem, architecture, position, node, next(temporal))
            for position, node in enumerate(architecture.nodes)
        ],
        "compute_energy": architecture.compute.energy,
        "units_per_pj": architecture.units_per_pj,
        "network_latency": sum(level.network_fill_latency + level.network_drain_latency for level in levels),
        "least_units": math.ceil(mapspace.min_parallelism),
    }


def canonical_text(document: object) -> str:
    """Return the one serialisation that hashes are taken over: sorted keys, no spaces, ASCII."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical_sha256(document: object) -> str:
    """SHA-256 (hex) of `canonical_text`."""
    return hashlib.sha256(canonical_text(document).encode("ascii")).hexdigest()


def _dataspace(mapspace: Mapspace, space: Dataspace) -> Json:
    positions = mapspace.architecture.storage_indices
    passing = [space.name in level.no_coalesce for level in mapspace.architecture.levels]
    # A level that only passes words on counts once another one keeps them farther out.
    sets = (dropwhile(passing.__getitem__, levels) for levels in keep_sets(mapspace, space.name))
    kept = {tuple(positions[level] for level in levels) for levels in sets}
    return {
        "name": space.name,
        "ranks": [[[term.dim, term.coefficient] for term in rank] for rank in space.ranks],
        "read_write": space.read_write,
        "keep": [list(own) for own in sorted(kept)],
    }


def _storage(
    problem: Problem, architecture: Architecture, position: int, level: StorageLevel, rules: TemporalRules
) -> Json:
    usable = level.usable_words
    gated = [] if level.gating_fanouts is None else architecture.fanout_indices[level.gating_fanouts :]
    return {
        "kind": "storage",
        "name": level.name,
        "least_size": 0 if usable is None else math.ceil(usable * level.min_utilization),
        "most_size": usable,
        "bandwidths": {
            "read": _optional(level.read_bandwidth),
            "write": _optional(level.write_bandwidth),
            "shared": _optional(level.shared_bandwidth),
        },
        "most_paying": max(1, architecture.instances_above(position) // level.cluster_size),
        "leak": level.energy.leak_per_cycle,
        "gated_fanouts": [index for index in gated if index < position],
        "dataspaces": {space.name: _held(level, space) for space in problem.dataspaces},
        "factors": _factors(problem, rules.factors),
        "stages": _stages(problem, rules),
    }


def _held(level: StorageLevel, space: Dataspace) -> Json:
    """What the accesses of a level to one dataspace cost, and how they are counted."""
    packing, energy = level.packing_of(space.name), level.energy
    return {
        "size": packing.size_per_value,
        "block": packing.block_size,
        "read": energy.read * packing.accesses_per_block,
        "fill": energy.fill * packing.accesses_per_block,
        "update": energy.update * packing.accesses_per_block,
        "bandwidth_scale": _fraction(level.scale(space.name)),
        "temporal_reuse": space.name not in level.no_temporal_reuse,
        "first_write_reads": space.name in level.rmw_first_update,
        "passes_on": space.name in level.no_coalesce,
    }


def _stages(problem: Problem, rules: TemporalRules) -> list[list[str]]:
    """Return the dimensions in groups, innermost first: within one, loops may have any order."""
    between = [dim for dim in problem.dims if dim not in (*rules.inner, *rules.outer)]
    return [*([dim] for dim in rules.inner), between, *([dim] for dim in rules.outer)]


def _fanout(problem: Problem, fanout: Fanout, rules: SpatialRules) -> Json:
    return {
        "kind": "fanout",
        "name": fanout.name,
        "mesh_x": fanout.mesh_x,
        "mesh_y": fanout.mesh_y,
        "dataspaces": {
            space.name: {"multicast": space.name not in fanout.no_multicast} for space in problem.dataspaces
        },
        "factors": _factors(problem, rules.factors),
        "along_x": list(_along_x(problem, rules)),
    }


def _along_x(problem: Problem, rules: SpatialRules) -> Iterator[Json]:
    """Yield what may lie along X: `dims`, and from `least` to `most` of the dimensions in `free`.

    The order of the dimensions is inner, between, outer; the first ones, as many as the split says, lie
    along X, the others along Y. Without a split any number does.
    """
    named = (*rules.inner, *rules.outer, *rules.uncounted)
    inner, outer = list(rules.inner), list(rules.outer)
    between = [dim for dim in problem.dims if dim not in named]
    if rules.split is None:
        yield from (_on_x(inner[:count]) for count in range(len(inner)))
        yield _on_x(inner, between, 0, len(between))
        yield from (_on_x(inner + between + outer[:count]) for count in range(1, len(outer) + 1))
        return
    rest = rules.split - len(inner)
    if rest <= 0:
        yield _on_x(inner[: rules.split])
    elif rest <= len(between):
        yield _on_x(inner, between, rest, rest)
    else:
        yield _on_x(inner + between + outer[: rest - len(between)])


def _on_x(dims: list[str], free: Sequence[str] = (), least: int = 0, most: int = 0) -> Json:
    return {"dims": dims, "free": list(free), "least": least, "most": most}


def _factors(problem: Problem, rules: Iterable[FactorRule]) -> Json:
    """Return the factors that are allowed to each dimension which has a rule."""
    found: dict[str, list[int]] = {}
    for rule in rules:
        own = found.get(rule.dim, divisors(problem.bound[rule.dim]))
        found[rule.dim] = [factor for factor in own if rule.allows(factor)]
    return dict(found)


def _fraction(value: Fraction) -> list[int]:
    exact = Fraction(value)
    return [exact.numerator, exact.denominator]


def _optional(value: Fraction | None) -> list[int] | None:
    return None if value is None else _fraction(value)
