"""The canonical problem as JSON: everything that decides which mappings exist and what they cost."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from fractions import Fraction
from itertools import accumulate, dropwhile

from model.architecture import Architecture, Fanout, Port, StorageLevel
from model.choices import SideOrder, allowed_factors, factor_range, keep_sets
from model.cost.prices import most_paying_instances, network_latency
from model.cost.traffic import kept_positions
from model.counting.first_touches import reads_firsts
from model.counting.words import tile_words
from model.extents import PERFECT
from model.mapping import Loop, Mapping, SpatialLoop, StorageMapping
from model.mapspace import FactorRule, JointRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem
from model.sparse import FIXED_POINT
from model.sparsity import Density, Optimization, Representation, SparseLevel

Json = dict[str, object]
MOST_FREE = 16


class CertificateError(Exception):
    """There is nothing to certify, or it does not fit into a certificate."""


def canonical(mapspace: Mapspace, *, lists_sides: bool = True, states_order: bool = False) -> Json:
    """Return `mapspace` as plain JSON values; equal mapspaces give equal documents.

    Rules are resolved: allowed factors, sets of keeping nodes and sets of dimensions along X are listed, and
    loops whose order is fixed have separate nodes. So a reader needs to know no attribute of specs.
    Dimensions, dataspaces and nodes are numbered in the order in which they are listed, nodes from the
    outermost. Integers stay integers, fractions become ``[numerator, denominator]``. What the cost model does
    not read (sources, notes, areas) is left out. docs/certificates.md lists the keys. Rules of the user's own
    are the texts of their conditions, if there are any.

    Parameters
    ----------
    mapspace
        The mapspace.
    lists_sides
        Whether the sets of dimensions along X must be listed. Otherwise, if they are too many, the order from
        which they follow replaces them: enough for a hash, not for a checker.
    states_order
        Whether fanouts whose rules order their loops say so; of dense data it matters to fused mappings.

    Raises
    ------
    CertificateError
        There are too many sets of dimensions along X to list them.
    """
    problem, architecture, places = mapspace.problem, mapspace.architecture, node_places(mapspace)
    temporal, spatial = iter(mapspace.temporal), iter(mapspace.spatial)
    nodes: list[Json] = []
    for position, node in enumerate(architecture.nodes):
        if isinstance(node, Fanout):
            rules = next(spatial)
            is_told = has_sparse_data(mapspace) or (states_order and (rules.inner or rules.outer))
            order = _side_order(problem, rules) if is_told else {}
            nodes.append({**_fanout_json(mapspace, node, rules, lists_sides), **order})
            continue
        nodes.append(_storage_json(problem, architecture, position, places))
        nodes += [_temporal_json(node, stage) for stage in _stages(mapspace, next(temporal))]
    return {
        "counting": mapspace.counting,
        "factors": mapspace.factors,
        "dims": list(problem.dims),
        "bounds": list(problem.bounds),
        "dataspaces": [_dataspace_json(mapspace, space, places) for space in problem.dataspaces],
        "nodes": nodes,
        "compute_energy": architecture.compute.energy,
        "units_per_pj": architecture.units_per_pj,
        "network_latency": network_latency(architecture),
        "least_units": math.ceil(mapspace.min_parallelism),
        **({"memories": [_memory(mapspace, rules) for rules in mapspace.joint]} if mapspace.joint else {}),
        **_free_order(mapspace, places),
        **({"sparse": _sparse(mapspace)} if has_sparse_data(mapspace) else {}),
        **({"rules": sorted({str(rule.condition) for rule in mapspace.rules})} if mapspace.rules else {}),
    }


def _free_order(mapspace: Mapspace, places: Sequence[int]) -> Json:
    """Return the memories that may lie in any order, if there are any."""
    positions = zip(mapspace.architecture.levels, mapspace.architecture.storage_indices, strict=True)
    free = [places[position] for level, position in positions if level.component in mapspace.free_order]
    return {"free_order": free} if free else {}


def has_sparse_data(mapspace: Mapspace) -> bool:
    """Whether densities change any count."""
    return mapspace.sparsity is not None and mapspace.sparsity.optimized


def _side_order(problem: Problem, rules: SpatialRules) -> Json:
    """Return the dimensions whose loops are innermost and outermost along each axis, in this order."""
    return {
        "inner": [problem.dims.index(dim) for dim in rules.inner],
        "outer": [problem.dims.index(dim) for dim in rules.outer],
    }


def _sparse(mapspace: Mapspace) -> Json:
    """Return densities, formats and units, and what expected costs need besides the rest of the problem."""
    problem, architecture, sparsity = mapspace.problem, mapspace.architecture, mapspace.sparsity
    assert sparsity is not None
    compute = sparsity.compute
    return {
        "unit": FIXED_POINT,
        "densities": [_density(sparsity.density(space.name)) for space in problem.dataspaces],
        "levels": [
            _sparse_level(problem, level, own)
            for level, own in zip(architecture.levels, sparsity.levels, strict=True)
        ],
        "compute": {
            "gates_zeros": compute.gates_zeros,
            "skips_unaligned": compute.skips_unaligned,
            "energy": dict(sorted(compute.energy.items())),
        },
        "most_loops": mapspace.max_temporal_loops,
    }


def _density(density: Density) -> Json:
    return {
        "kind": density.distribution,
        "share": _fraction(density.share),
        "band_width": density.band_width,
    }


def _sparse_level(problem: Problem, level: StorageLevel, own: SparseLevel) -> Json:
    """Return what a level has for sparse data."""
    names = [space.name for space in problem.dataspaces]
    return {
        "layouts": [_layout(problem, own.representations.get(name)) for name in names],
        "units": [_unit_json(names, unit) for unit in own.optimizations],
        "metadata_word_bits": own.metadata_word_bits,
        "metadata_width_bits": own.metadata_width_bits,
        "metadata_size_bits": own.metadata_size_bits,
        "decompresses": own.decompresses,
        "compresses": own.compresses,
        "allow_overbooking": own.allow_overbooking,
        "max_overbooked": _fraction(own.max_overbooked),
        "energy": dict(sorted(own.energy.items())),
        "read_energy": level.energy.read,
        "rows": [level.packing_of(name).accesses_per_block for name in names],
        "word_bits": int(level.word_bits),
        "buffering": _fraction(Fraction(level.multiple_buffering)),
        "limited": level.usable_words is not None,
        "leaks_in_use": level.gating_fanouts is None,
    }


def _layout(problem: Problem, representation: Representation | None) -> Json | None:
    if representation is None:
        return None
    fibers = [
        {
            "kind": rank.format,
            "metadata_bits": rank.metadata_bits,
            "payload_bits": rank.payload_bits,
            "flattened": [_dim_numbers(problem, group) for group in rank.flattened],
        }
        for rank in representation.ranks
    ]
    return {"fibers": fibers, "inner_to_outer": representation.inner_to_outer}


def _unit_json(names: Sequence[str], unit: Optimization) -> Json:
    options = [
        {"target": names.index(option.target), "conditions": [names.index(own) for own in option.conditions]}
        for option in unit.options
    ]
    return {"kind": unit.kind, "options": options}


def _memory(mapspace: Mapspace, rules: JointRules) -> Json:
    """Return the places of a memory, the nodes of their loops, and what all of these together may be."""
    problem, places = mapspace.problem, node_places(mapspace)
    storages = [places[mapspace.architecture.storage_indices[level]] for level in rules.levels]
    groups = len(_stages(mapspace, mapspace.temporal[rules.levels[0]]))
    ruled = {rule.dim for rule in rules.temporal.factors}
    factors = _product_ends(mapspace, rules.temporal.factors)
    return {
        "places": storages,
        "groups": [list(range(place + 1, place + 1 + groups)) for place in storages],
        "factors": [own if dim in ruled else None for dim, own in zip(problem.dims, factors, strict=True)],
    }


def _product_ends(mapspace: Mapspace, rules: Sequence[FactorRule]) -> Sequence[Sequence[int | None]]:
    """Return what the factors of each dimension at all places may multiply to, with remainders its ends.

    Then a product may exceed the bound, and None stands for no upper limit.
    """
    if mapspace.factors == PERFECT:
        return _factors_by_dim(mapspace, rules)
    ends: list[list[int | None]] = []
    for dim in mapspace.problem.dims:
        own = [rule for rule in rules if rule.dim == dim]
        least = max((rule.value for rule in own if rule.relation != "<="), default=1)
        most = min((rule.value for rule in own if rule.relation != ">="), default=None)
        ends.append([least, most])
    return ends


def canonical_text(document: object) -> str:
    """Return the serialisation that is hashed: sorted keys, no spaces, ASCII; no infinities and NaN."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical_sha256(document: object) -> str:
    """SHA-256 (hex) of `canonical_text`."""
    return hashlib.sha256(canonical_text(document).encode("ascii")).hexdigest()


def canonical_mapping(mapspace: Mapspace, mapping: Mapping) -> Json:
    """Return the loops of each node of the canonical problem, and the nodes that keep each dataspace."""
    problem, places = mapspace.problem, node_places(mapspace)
    temporal = iter(mapspace.temporal)
    loops: list[list[list[int]]] = []
    for entry in mapping.nodes:
        if not isinstance(entry, StorageMapping):
            loops.append(_spatial_loops(mapspace, entry.spatial))
            continue
        node_loops = _loop_pairs(problem, entry.temporal)
        stages = _stages(mapspace, next(temporal))
        loops += [[], *([loop for loop in node_loops if max(stage[loop[0]]) > 1] for stage in stages)]
    kept = (kept_positions(mapspace.architecture, mapping, space.name) for space in problem.dataspaces)
    return {"loops": loops, "keep": [[places[position] for position in positions] for positions in kept]}


def node_places(mapspace: Mapspace) -> list[int]:
    """Return the position of each node of the architecture in the canonical problem."""
    temporal = iter(mapspace.temporal)
    nodes = mapspace.architecture.nodes
    sizes = (1 if isinstance(node, Fanout) else 1 + len(_stages(mapspace, next(temporal))) for node in nodes)
    return list(accumulate(sizes, initial=0))[:-1]


def _spatial_loops(mapspace: Mapspace, loops: Sequence[SpatialLoop]) -> list[list[int]]:
    """Return the loops of a fanout; formats and units see their axes, too, 0 for X and 1 for Y."""
    plain = _loop_pairs(mapspace.problem, loops)
    if not has_sparse_data(mapspace):
        return plain
    axes = [("x", "y").index(loop.axis) for loop in loops if loop.bound > 1]
    return [[*loop, axis] for loop, axis in zip(plain, axes, strict=True)]


def _loop_pairs(problem: Problem, loops: Iterable[Loop | SpatialLoop]) -> list[list[int]]:
    return [[problem.dims.index(loop.dim), loop.bound] for loop in loops if loop.bound > 1]


def _dataspace_json(mapspace: Mapspace, space: Dataspace, places: Sequence[int]) -> Json:
    positions = [places[index] for index in mapspace.architecture.storage_indices]
    passing = [space.name in level.passing for level in mapspace.architecture.levels]
    # A level that only passes words on counts once another one keeps them farther out; one must keep them.
    sets = (dropwhile(passing.__getitem__, sorted(kept)) for kept in keep_sets(mapspace, space.name))
    kept = {tuple(positions[level] for level in levels) for levels in sets} - {()}
    return {
        "name": space.name,
        "ranks": [
            [[mapspace.problem.dims.index(term.dim), term.coefficient] for term in rank]
            for rank in space.ranks
        ],
        "read_write": space.read_write,
        "keep": [list(keep_set) for keep_set in sorted(kept)],
    }


def _storage_json(problem: Problem, architecture: Architecture, position: int, places: Sequence[int]) -> Json:
    level = architecture.nodes[position]
    assert isinstance(level, StorageLevel)
    usable = level.usable_words
    whole = (
        tile_words(space, problem.bound) * level.packing_of(space.name).size_per_value
        for space in problem.dataspaces
    )
    above = [index for index in architecture.fanout_indices if index < position]
    gating = len(above) if level.gating_fanouts is None else level.gating_fanouts
    idle = (fanout.size for fanout in architecture.fanouts[gating : len(above)])
    return {
        "kind": "storage",
        "name": level.name,
        "least_size": level.least_words,
        "most_size": sum(whole) if usable is None else usable,
        "bandwidths": {
            "read": _optional(level.read_bandwidth),
            "write": _optional(level.write_bandwidth),
            "shared": _optional(level.shared_bandwidth),
        },
        **({"ports": [_port(port) for port in level.ports]} if level.ports else {}),
        "most_paying": most_paying_instances(level, architecture.instances_above(position)),
        "leak": level.energy.leak_per_cycle * math.prod(idle),
        "leak_fanouts": [places[index] for index in above[:gating]],
        "dataspaces": [_access_json(level, space) for space in problem.dataspaces],
    }


def _port(port: Port) -> Json:
    """Return the cycles that a word takes of a port."""
    return {"read": _fraction(port.read_cycles), "write": _fraction(port.write_cycles)}


def _access_json(level: StorageLevel, space: Dataspace) -> Json:
    """What the accesses of a level to one dataspace cost, and how they are counted."""
    packing, energy = level.packing_of(space.name), level.energy
    return {
        "size": packing.size_per_value,
        "block": packing.block_size,
        "read": energy.read * packing.accesses_per_block,
        "fill": energy.fill * packing.accesses_per_block,
        "update": energy.update * packing.accesses_per_block,
        "bandwidth_scale": _fraction(level.scale(space.name)),
        "temporal_reuse": not level.tolls and space.name not in level.no_temporal_reuse,
        "first_write_reads": space.read_write and reads_firsts(level, space),
        "passes_on": space.name in level.no_coalesce,
        **({"toll": _toll(level, space.name)} if level.tolls else {}),
    }


def _toll(level: StorageLevel, dataspace: str) -> list[bool]:
    """Return whether words that go to the arithmetic pay, and those that come from it."""
    return [level.charges(dataspace, "down"), level.charges(dataspace, "up")]


def _temporal_json(level: StorageLevel, stage: list[list[int]]) -> Json:
    return {"kind": "temporal", "name": level.name, "factors": stage}


def _stages(mapspace: Mapspace, rules: TemporalRules) -> list[list[list[int]]]:
    """Return the factors allowed to each dimension in groups of loops, outermost first.

    Within a group, loops may have any order. A dimension has a factor other than 1 in one group at the most.
    """
    dims, none = mapspace.problem.dims, [1] if mapspace.factors == PERFECT else [1, 1]
    between = [dim for dim in dims if dim not in (*rules.inner, *rules.outer)]
    stages = [*([dim] for dim in reversed(rules.outer)), between, *([dim] for dim in reversed(rules.inner))]
    factors = dict(zip(dims, _factors_by_dim(mapspace, rules.factors), strict=True))
    listed = [[factors[dim] if dim in stage else none for dim in dims] for stage in stages]
    return [stage for stage in listed if any(factors != none for factors in stage)]


def _fanout_json(mapspace: Mapspace, fanout: Fanout, rules: SpatialRules, lists_sides: bool) -> Json:
    return {
        "kind": "spatial",
        "name": fanout.name,
        "mesh_x": fanout.mesh_x,
        "mesh_y": fanout.mesh_y,
        "multicast": [space.name not in fanout.no_multicast for space in mapspace.problem.dataspaces],
        "factors": _factors_by_dim(mapspace, rules.factors),
        "along_x": _sides_json(mapspace, rules, lists_sides),
    }


def _sides_json(mapspace: Mapspace, rules: SpatialRules, lists_sides: bool) -> list[list[int]] | Json:
    """Return the sets of dimensions, out of those that may have a factor, that may lie along X.

    The order of the dimensions is inner, between, outer; the first ones, as many as the split says, lie
    along X, the others along Y. Without a split any number does. Where the sets are too many to list them,
    the order itself is the answer, unless `lists_sides`.
    """
    dims = mapspace.problem.dims
    allowed = _factors_by_dim(mapspace, rules.factors)
    live = {dim for dim, factors in zip(dims, allowed, strict=True) if max(factors, default=1) > 1}
    order = SideOrder.of(rules, dims)
    if len(order.free(live)) > MOST_FREE:
        if lists_sides:
            raise CertificateError(f"more than {MOST_FREE} dimensions may lie along either side of a fanout")
        return asdict(order)
    along_x = {tuple(_dim_numbers(mapspace.problem, names)) for names in order.sets_along_x(live)}
    return [list(numbers) for numbers in sorted(along_x)]


def _factors_by_dim(mapspace: Mapspace, rules: Sequence[FactorRule]) -> list[list[int]]:
    """Return the factors that each dimension may have: all of them, or the least and the most of any."""
    bounds = mapspace.problem.bound.items()
    if mapspace.factors == PERFECT:
        return [list(allowed_factors(rules, dim, bound)) for dim, bound in bounds]
    return [list(factor_range(rules, dim, bound)) for dim, bound in bounds]


def _dim_numbers(problem: Problem, dims: Iterable[str]) -> list[int]:
    return sorted(map(problem.dims.index, dims))


def _fraction(value: Fraction) -> list[int]:
    exact = Fraction(value)
    return [exact.numerator, exact.denominator]


def _optional(value: Fraction | None) -> list[int] | None:
    return None if value is None else _fraction(value)
