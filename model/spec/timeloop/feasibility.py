"""Direct checks: constraints that no mapping can satisfy, each with the places that conflict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from model.architecture import StorageLevel
from model.cost.tiles import tile_words
from model.mapspace import SpatialRules
from model.numbers import divisors
from model.spec.source import Span, SpecError
from model.spec.timeloop.context import Context
from model.spec.timeloop.factors import Factor
from model.spec.timeloop.keeping import Keeping
from model.spec.timeloop.loops import LoopConstraints
from model.spec.timeloop.rules import axis_of

_MAX_PLACES = 6


@dataclass(frozen=True)
class Slot:
    """The loops of one node.

    Parameters
    ----------
    loops
        Temporal at a storage level, spatial at a fanout.
    level, keeping
        Of a storage level.
    spatial
        Of a fanout.
    """

    loops: LoopConstraints
    level: StorageLevel | None = None
    keeping: Keeping | None = None
    spatial: SpatialRules | None = None

    def room(self, dim: str, context: Context) -> int:
        """Return the largest factor of `dim` that the axes of the fanout have room for."""
        leaf = self.loops.leaf
        if self.spatial is None:
            return context.problem.bound[dim]
        axis = axis_of(self.spatial, dim, context)
        sizes = {"x": leaf.mesh_x, "y": leaf.mesh_y}
        return max(sizes.values()) if axis is None else sizes[axis]

    def allowed(self, dim: str, context: Context) -> frozenset[int]:
        """Return the factors of `dim` that the rules and the axes allow."""
        rules = [factor.rule() for factor in self.loops.rules_of(dim)]
        most = self.room(dim, context)
        factors = (d for d in divisors(context.problem.bound[dim]) if d <= most)
        return frozenset(factor for factor in factors if all(rule.allows(factor) for rule in rules))


def check_feasible(slots: Sequence[Slot], context: Context) -> None:
    """Raise a SpecError for constraints that conflict plainly.

    Checked are fixed factors against the mesh of their fanout, for each dimension whether factors
    that the nodes allow can have the bound as their product, and for each storage level whether
    the least tiles that it must keep fit.

    Parameters
    ----------
    slots
        All nodes, outermost first.
    """
    for slot in slots:
        if slot.spatial is not None:
            _check_mesh(slot, slot.spatial, context)
    least: list[dict[str, int]] = [{} for _ in slots]
    for dim, bound in context.problem.bound.items():
        for place, extent in enumerate(_least_extents(dim, bound, slots, context)):
            least[place][dim] = extent
    for slot, extents in zip(slots, least, strict=True):
        if slot.level is not None and slot.keeping is not None:
            _check_capacity(slot.level, slot.keeping, extents, context)


def _check_mesh(slot: Slot, rules: SpatialRules, context: Context) -> None:
    """Raise a SpecError if factors that are asked for exceed the fanout, or one of its axes."""
    leaf = slot.loops.leaf
    asked = {f.dim: f for f in slot.loops.factors if f.relation != "<=" and f.value > 1}
    axes = {dim: axis_of(rules, dim, context) for dim in asked}
    sizes = {"x": leaf.mesh_x, "y": leaf.mesh_y}
    limits = [(f"the {leaf.fanout} instances", leaf.fanout, list(asked.values()))]
    for axis, size in sizes.items():
        along = [factor for dim, factor in asked.items() if axes[dim] == axis]
        limits.append((f"mesh{axis.upper()} {size}", size, along))
    for name, size, factors in limits:
        product = math.prod(factor.value for factor in factors)
        if product <= size:
            continue
        assert leaf.spatial is not None
        shown = " * ".join(str(factor) for factor in factors)
        total = "" if len(factors) == 1 else f" = {product}"
        places = [(leaf.spatial.span, f"`{leaf.name}` is {leaf.mesh_x} x {leaf.mesh_y}")]
        if slot.loops.split is not None:
            places.append((slot.loops.split[1], "the split between its axes"))
        message = f"the spatial factors {shown}{total} exceed {name} of `{leaf.name}`"
        raise SpecError(message, factors[-1].span, tuple(places))


def _least_extents(dim: str, bound: int, slots: Sequence[Slot], context: Context) -> list[int]:
    """Return for each slot the least extent of `dim` that it and the nodes inside it can have."""
    allowed = [slot.allowed(dim, context) for slot in slots]
    inside = _products(reversed(allowed), bound)[::-1]
    outside = [frozenset({1}), *_products(allowed, bound)[:-1]]
    if bound not in inside[0]:
        raise _unreachable(dim, bound, slots, allowed, inside[0], context)
    return [
        min(extent for extent in inner if bound // extent in outer)
        for inner, outer in zip(inside, outside, strict=True)
    ]


def _products(choices: Iterable[frozenset[int]], bound: int) -> list[frozenset[int]]:
    """Return the divisors of `bound` that are products of one choice each, after each step."""
    found: list[frozenset[int]] = []
    reached = frozenset({1})
    all_divisors = len(divisors(bound))
    for factors in choices:
        # Nothing is added once all are reached, and none is lost where 1 is allowed.
        if len(reached) == all_divisors and 1 in factors:
            found.append(reached)
            continue
        reached = frozenset(a * b for a in reached for b in factors if bound % (a * b) == 0)
        found.append(reached)
    return found


def _unreachable(
    dim: str,
    bound: int,
    slots: Sequence[Slot],
    allowed: Sequence[frozenset[int]],
    reached: frozenset[int],
    context: Context,
) -> SpecError:
    """Say why no factors of `dim` multiply to its bound."""
    places = list(_rule_places(dim, slots))
    meshes = [(s.loops.leaf.span, f"mesh of `{s.loops.leaf.name}`") for s in slots if s.level is None]
    bound_place = (context.bounds.spans[dim], f"{dim} is {bound} here")
    first = places[0][0] if places else bound_place[0]
    related = (bound_place, *places[1:], *meshes)[:_MAX_PLACES]
    if all(factors == {1} for factors in allowed):
        return SpecError(f"{dim} is {bound}, but its factor is fixed to 1 at every node", first, related)
    if any(not factors for factors in allowed):
        place = next(i for i, factors in enumerate(allowed) if not factors)
        name = slots[place].loops.leaf.name
        return SpecError(f"no divisor of {dim} = {bound} is allowed at `{name}`", first, related)
    shown = "none that divides it" if not reached else f"{max(reached)} at most"
    message = f"the factors allowed for {dim} cannot reach its bound {bound}: their product is {shown}"
    return SpecError(message, first, related)


def _rule_places(dim: str, slots: Sequence[Slot]) -> Iterable[tuple[Span, str]]:
    for slot in slots:
        rules: tuple[Factor, ...] = slot.loops.rules_of(dim)
        for rule in rules:
            yield rule.span, f"`{rule}` at `{slot.loops.leaf.name}`"


def _check_capacity(
    level: StorageLevel, keeping: Keeping, extents: Mapping[str, int], context: Context
) -> None:
    """Raise a SpecError if the least tiles of the dataspaces that must be kept do not fit."""
    if level.usable_words is None:
        return
    kept = [space for space in context.problem.dataspaces if space.name in keeping.keep]
    tiles = {space.name: tile_words(space, extents) for space in kept}
    total = sum(tiles.values())
    if total <= level.usable_words:
        return
    shown = " + ".join(f"{name} {words}" for name, words in tiles.items())
    capacity = f"{level.usable_words} words"
    if level.multiple_buffering != 1:
        capacity += f" ({level.size_words} over multiple_buffering {level.multiple_buffering})"
    related = tuple((keeping.keep[name], f"`{name}` is kept here") for name in tiles)
    message = f"`{level.name}` cannot hold the least tiles: {shown} = {total} words, in {capacity}"
    raise SpecError(message, keeping.leaf.span, related)
