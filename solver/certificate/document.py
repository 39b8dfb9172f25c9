"""The certificate of a result: what it claims, and all that a checker needs to test it."""

from __future__ import annotations

import json
import math
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import product, takewhile
from operator import ge
from typing import Protocol

from model.architecture import Fanout
from model.choices import SideOrder, allowed_factors
from model.cost import Evaluation
from model.extents import ANY, PERFECT, tiles_of
from model.extents import Factors as FactorKind
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace, SpatialRules
from model.objective import OBJECTIVES
from model.rules import Rule
from solver.certificate.canonical import (
    CertificateError,
    Json,
    canonical,
    canonical_mapping,
    canonical_sha256,
    has_sparse_data,
    node_places,
)
from solver.result import Status

FORMAT, WITH_PLACES, WITH_RULES = (f"tilewright certificate {number}" for number in (9, 10, 11))
"""Those where memories have several places, and under user-defined rules: older checkers see neither."""
ORDERS = "tilewright certificate orders 1"
"""Where memories may lie in any order."""
SPARSE = "tilewright certificate sparse 2"
"""Where densities change counts; energies are in parts of a unit (`model.sparse.FIXED_POINT`)."""

Factors = tuple[int, ...]
"""A factor per dimension, in the problem's order."""


class Claims(Protocol):
    """What a certificate takes from a result, of dense or of sparse data."""

    @property
    def status(self) -> Status:
        """How the search ended."""
        ...

    @property
    def objectives(self) -> tuple[str, ...]:
        """What was minimised, one after the other."""
        ...

    @property
    def bound(self) -> int | None:
        """What no mapping is below."""
        ...

    @property
    def later_bounds(self) -> tuple[int, ...]:
        """Those of the objectives after the first."""
        ...

    @property
    def mapping(self) -> Mapping | None:
        """The best mapping."""
        ...

    @property
    def evaluation(self) -> Evaluation | None:
        """Its cost."""
        ...

    @property
    def mapspace(self) -> Mapspace | None:
        """The mapspace of its order, where memories may lie in any."""
        ...


def certificate(mapspace: Mapspace, result: Claims, command: Sequence[str], seed: int = 0) -> Json:
    """Return the certificate of a search's result; docs/certificates.md lists its keys.

    An OPTIMAL result claims its values. A FEASIBLE one claims its bound on the first objective and no
    more. An INFEASIBLE one claims that no mapping exists.

    Parameters
    ----------
    mapspace
        The mapspace that was searched.
    result
        The result of the search.
    command
        The words of the command that reproduces it.
    seed
        Seed of the search.

    Raises
    ------
    CertificateError
        The result claims nothing: no mapping was found, and nothing is proven. Or the mapspace has what the
        checker does not know, see `check_certifiable`.
    """
    check_certifiable(mapspace)
    if result.status is Status.UNKNOWN or (result.status is Status.FEASIBLE and result.bound is None):
        raise CertificateError(f"a result that is {result.status.value} without a bound claims nothing")
    problem = canonical(mapspace)
    document: Json = {
        "format": _format(mapspace),
        "problem": problem,
        "problem_sha256": canonical_sha256(problem),
        "status": result.status.value,
        "objectives": list(result.objectives),
        "bounds": _claimed_bounds(result),
        "mapping": None if result.mapping is None else _mapping(mapspace, result.mapping, result.mapspace),
        "cost": None if result.evaluation is None else _objective_values(result.evaluation),
    }
    if not mapspace.free_order:
        document["spatial_choices"] = count_spatial_choices(mapspace)
        document |= {"rules": [_rule_json(rule) for rule in mapspace.rules]} if mapspace.rules else {}
    return sealed(document, command, seed)


def _mapping(mapspace: Mapspace, mapping: Mapping, ordered: Mapspace | None) -> Json:
    if ordered is not None:
        return _order_claim(mapspace, ordered, mapping)
    return canonical_mapping(mapspace, mapping)


def sealed(document: Json, command: Sequence[str], seed: int) -> Json:
    """Return a certificate with what reproduces it, and a digest of all."""
    names = ("tilewright", "ortools", "numpy")
    versions = {**{name: version(name) for name in names}, "python": platform.python_version()}
    whole = {**document, "versions": versions, "seed": seed, "command": list(command)}
    return {**whole, "digest": canonical_sha256(whole)}


def _format(mapspace: Mapspace) -> str:
    if has_sparse_data(mapspace):
        return SPARSE
    if mapspace.free_order:
        return ORDERS
    return WITH_RULES if mapspace.rules else WITH_PLACES if mapspace.joint else FORMAT


def check_certifiable(mapspace: Mapspace) -> None:
    """Raise a `CertificateError` for a mapspace with what the checker does not know."""
    tolls = [level.name for level in mapspace.architecture.levels if level.tolls]
    if tolls and mapspace.factors != PERFECT:
        raise CertificateError(f"the checker does not support remainders where words pass {tolls[0]!r}")
    given = [space.name for space in mapspace.problem.dataspaces if space.given]
    if tolls and given:
        raise CertificateError(
            f"the checker does not support given first values of {given[0]!r} at {tolls[0]!r}"
        )
    ported = [level.name for level in mapspace.architecture.levels if level.ports]
    if ported and not mapspace.counting_rule.certifies_ports:
        raise CertificateError(f"the checker supports ports of {ported[0]!r} with AccelForge's rule only")
    if mapspace.joint and any(level.no_coalesce for level in mapspace.architecture.levels):
        raise CertificateError("the checker does not support no_coalesce where memories have several places")
    if has_sparse_data(mapspace) and mapspace.factors != PERFECT:
        raise CertificateError("the checker does not support remainders on sparse data")
    if has_sparse_data(mapspace) and mapspace.rules:
        raise CertificateError("the checker does not support user-defined rules on sparse data")


def certificate_text(document: Json) -> str:
    """Return the certificate as JSON text, one top-level key a line."""
    lines = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _claimed_bounds(result: Claims) -> list[int]:
    """Bounds that are claimed: each counts among the mappings that reach the ones before."""
    if result.bound is None:
        return []
    return [result.bound, *result.later_bounds] if result.status is Status.OPTIMAL else [result.bound]


def _objective_values(evaluation: Evaluation) -> Json:
    return {name: evaluation.value(name) for name in OBJECTIVES}


def _rule_json(rule: Rule) -> Json:
    """A rule as it is written, where it stands, and what it comes to."""
    kind, _, node = rule.place.partition(" of ")
    return {
        "condition": str(rule.condition),
        "text": rule.text,
        "place": [kind, node] if rule.place else None,
    }


def count_spatial_choices(mapspace: Mapspace) -> int:
    """Count the choices of spatial factors per fanout that the rules, the meshes and the bounds allow.

    Arrangements along X and Y that differ are one choice; none uses fewer units than the mapspace asks for.
    """
    bounds, most = mapspace.problem.bounds, mapspace.problem.computes
    # Choices that leave the same bounds to the fanouts outside of them, and use as many units, go on alike.
    count: Counter[tuple[Factors, int]] = Counter({(bounds, 1): 1})
    fanouts = mapspace.architecture.fanouts
    sparsity = mapspace.sparsity
    if sparsity is not None and sparsity.skips_instances:  # those that are skipped need no hardware
        fanouts = tuple(replace(own, mesh_x=most, mesh_y=most) for own in fanouts)
    pairs = list(zip(fanouts, mapspace.spatial, strict=True))
    for fanout, rules in reversed(pairs):
        fitting = _factors_that_fit(mapspace, fanout, rules)
        count = _left(mapspace.factors, count, fitting)
    return sum(number for (_, units), number in count.items() if units >= mapspace.min_parallelism)


def _left(
    kind: FactorKind, count: Counter[tuple[Factors, int]], fitting: Iterable[Factors]
) -> Counter[tuple[Factors, int]]:
    """Count what is left after one more fanout, whose factors have to be some of what was left before."""
    found: Counter[tuple[Factors, int]] = Counter()
    for (left, units), vector in product(count, fitting):
        pairs = list(zip(left, vector, strict=True))
        fits = all(own <= rest if kind == ANY else rest % own == 0 for rest, own in pairs)
        if fits:
            outside = tuple(tiles_of(rest, own) for rest, own in pairs)
            found[outside, units * math.prod(vector)] += count[left, units]
    return found


def _factors_that_fit(mapspace: Mapspace, fanout: Fanout, rules: SpatialRules) -> list[Factors]:
    """Factors of one fanout that its rules allow and that fit its mesh."""
    dims, order = mapspace.problem.dims, SideOrder.of(rules, mapspace.problem.dims)
    vectors: list[Factors] = [()]
    for dim, bound in mapspace.problem.bound.items():
        allowed = allowed_factors(rules.factors, dim, bound, mapspace.factors)
        vectors = [
            (*vector, factor)
            for vector in vectors
            for factor in takewhile(partial(ge, fanout.size // math.prod(vector)), allowed)
        ]
    return [vector for vector in vectors if _fits_mesh(dims, fanout, order, vector)]


def _fits_mesh(dims: Sequence[str], fanout: Fanout, order: SideOrder, factors: Factors) -> bool:
    """Whether some arrangement on X and Y fits the mesh."""
    factor = dict(zip(dims, factors, strict=True))
    for along_x in order.sets_along_x([dim for dim in dims if factor[dim] > 1]):
        width = math.prod(factor[dim] for dim in along_x)
        if width <= fanout.mesh_x and math.prod(factors) // width <= fanout.mesh_y:
            return True
    return False


def _order_claim(mapspace: Mapspace, ordered: Mapspace, mapping: Mapping) -> Json:
    """Return a mapping of the mapspace of one order, as one of what was searched."""
    entries = [mapping.nodes[position] for position in ordered.architecture.storage_indices]
    tiles: list[tuple[str, str]] = []
    slots: list[Sequence[Loop]] = []
    for level, entry in zip(ordered.architecture.levels, entries, strict=True):
        assert isinstance(entry, StorageMapping)
        if slots and not entry.keep:
            continue  # it has no loops
        tiles += [(level.component, name) for name in sorted(entry.keep) if slots]
        slots.append(entry.temporal)
    across = [mapping.nodes[position] for position in ordered.architecture.fanout_indices]
    spatial = [own.spatial if isinstance(own, FanoutMapping) else () for own in across]
    return order_claim(mapspace, tiles, slots, spatial)


def order_claim(
    mapspace: Mapspace,
    tiles: Iterable[tuple[str, str]],
    slots: Iterable[Sequence[Loop]],
    spatial: Iterable[Sequence[SpatialLoop]],
) -> Json:
    """Return a mapping of memories in any order: its tiles as pairs of a node and a dataspace, and loops.

    Parameters
    ----------
    mapspace
        What was searched: its nodes are those of the certificate.
    tiles
        Memories and dataspaces, outermost first.
    slots, spatial
        Loops below the outermost memory and below each tile, innermost first; and those of each fanout.
    """
    names = [space.name for space in mapspace.problem.dataspaces]
    levels = zip(mapspace.architecture.levels, mapspace.architecture.storage_indices, strict=True)
    places = node_places(mapspace)
    nodes = {level.name: places[position] for level, position in levels}
    return {
        "order": [[nodes[memory], names.index(name)] for memory, name in tiles],
        "slots": [_loop_rows(mapspace, own) for own in slots],
        "spatial": [_loop_rows(mapspace, own) for own in spatial],
    }


def _loop_rows(mapspace: Mapspace, loops: Sequence[Loop | SpatialLoop]) -> list[list[int]]:
    dims = mapspace.problem.dims
    return [[dims.index(loop.dim), loop.bound] for loop in loops if loop.bound > 1]
