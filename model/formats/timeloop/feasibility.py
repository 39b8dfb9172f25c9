"""Direct checks: constraints that no mapping can satisfy, each with the places that conflict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from model.cost.tiles import tile_words
from model.formats.timeloop.context import Context
from model.formats.timeloop.factors import Factor
from model.formats.timeloop.loops import check_factors
from model.formats.timeloop.rules import axis_of
from model.formats.timeloop.shrinking import irreducible
from model.formats.timeloop.slots import FanoutSlot, Slot, StorageSlot
from model.numbers import divisors
from model.problem import Dataspace
from model.text.fields import source_ref
from model.text.source import ConflictError, Span


@dataclass(frozen=True, eq=False)
class _Demand:
    """What one place of the spec demands of the factor of a dimension at a node.

    Parameters
    ----------
    most
        The largest factor that there is room for, None for a rule.
    factor
        The rule.
    """

    slot: Slot
    dim: str
    span: Span
    text: str
    most: int | None = None
    factor: Factor | None = None

    def allows(self, factor: int) -> bool:
        """Whether the place allows `factor`."""
        if self.factor is not None:
            return self.factor.rule().allows(factor)
        return self.most is None or factor <= self.most


@dataclass(frozen=True, eq=False)
class _Kept:
    """A dataspace that a level must keep, and the place that says so."""

    space: Dataspace
    span: Span


def check_feasible(slots: Sequence[Slot], context: Context) -> None:
    """Check that constraints do not conflict plainly.

    Checked are rules on factors against the bounds, fixed factors against the mesh of their fanout,
    for each dimension whether factors that the nodes allow can have the bound as their product, and
    for each storage level whether the least tiles that it must keep fit.

    Raises
    ------
    ConflictError
        They do; it names places none of which is to spare.
    """
    for slot in slots:
        check_factors(slot.loops, context)
    for slot in slots:
        if isinstance(slot, FanoutSlot):
            _check_mesh(slot, context)
    asked = {
        dim: [demand for slot in slots for demand in _demands(slot, dim, context)]
        for dim in context.problem.dims
    }
    for dim, of_dim in asked.items():
        if not _reachable(dim, slots, of_dim, context):
            raise _unreachable(dim, slots, of_dim, context)
    extents = {dim: _least_extents(dim, slots, of_dim, context) for dim, of_dim in asked.items()}
    demands = [demand for of_dim in asked.values() for demand in of_dim]
    for place, slot in enumerate(slots):
        here = {dim: least[place] for dim, least in extents.items()}
        if isinstance(slot, StorageSlot) and not _fits(slot, here, context):
            raise _too_small(slot, place, slots, demands, context)


def _check_mesh(slot: FanoutSlot, context: Context) -> None:
    """Raise a ConflictError if factors that are asked for exceed the fanout, or one of its axes."""
    leaf = slot.loops.leaf
    asked = {f.dim: f for f in slot.loops.factors if f.relation != "<=" and f.value > 1}
    axes = {dim: axis_of(slot.rules, dim, context) for dim in asked}
    sizes = {"x": leaf.mesh_x, "y": leaf.mesh_y}
    instances = f"the {leaf.fanout} instances" if leaf.fanout > 1 else "the single instance"
    limits = [(instances, leaf.fanout, list(asked.values()))]
    for axis, size in sizes.items():
        along = [factor for dim, factor in asked.items() if axes[dim] == axis]
        limits.append((f"mesh{axis.upper()} {size}", size, along))
    for name, size, factors in limits:
        if math.prod(factor.value for factor in factors) <= size:
            continue
        raise _too_wide(slot, name, size, factors)


def _too_wide(slot: FanoutSlot, name: str, size: int, factors: Sequence[Factor]) -> ConflictError:
    """Return the error for factors whose product exceeds `size`, as few of them as exceed it."""
    leaf = slot.loops.leaf
    blamed = irreducible(
        sorted(factors, key=lambda factor: -factor.value),
        lambda rest: math.prod(factor.value for factor in rest) > size,
    )
    shown = [factor for factor in factors if factor in blamed]
    product = math.prod(factor.value for factor in shown)
    total = "" if len(shown) == 1 else f" = {product}"
    places = [(leaf.fanout_place, f"`{leaf.name}` is {leaf.mesh_x} x {leaf.mesh_y}")]
    places += [(factor.span, f"`{factor}` is asked for here") for factor in shown[:-1]]
    if slot.loops.split is not None:
        places.append((slot.loops.split[1], "the split between its axes"))
    text = " * ".join(map(str, shown))
    message = f"the spatial factors {text}{total} exceed {name} of `{leaf.name}`: {product - size:,} too few"
    return ConflictError(message, shown[-1].span, tuple(places))


def _demands(slot: Slot, dim: str, context: Context) -> Iterator[_Demand]:
    """Yield what a node demands of the factor of `dim`: the rules, then the room that it has."""
    loops, leaf = slot.loops, slot.loops.leaf
    for factor in loops.rules_of(dim):
        yield _Demand(slot, dim, factor.span, f"`{factor}` at `{leaf.name}`", factor=factor)
    if not isinstance(slot, FanoutSlot):
        return
    sizes = {"x": leaf.mesh_x, "y": leaf.mesh_y}
    widest = max(sizes.values())
    mesh = f"`{leaf.name}` is {leaf.mesh_x} x {leaf.mesh_y}"
    yield _Demand(slot, dim, leaf.fanout_place, mesh, most=widest)
    axis = axis_of(slot.rules, dim, context)
    if axis is not None and loops.split is not None and sizes[axis] < widest:
        split = f"the split lays {dim} along {axis.upper()} of `{leaf.name}`, {sizes[axis]} wide"
        yield _Demand(slot, dim, loops.split[1], split, most=sizes[axis])


def _allowed(
    dim: str, slots: Sequence[Slot], demands: Sequence[_Demand], context: Context
) -> list[frozenset[int]]:
    """Return for each slot the factors of `dim` that the demands allow."""
    by_slot: dict[int, list[_Demand]] = {id(slot): [] for slot in slots}
    for demand in demands:
        if demand.dim == dim:
            by_slot[id(demand.slot)].append(demand)
    factors = divisors(context.problem.bound[dim])
    return [
        frozenset(f for f in factors if all(demand.allows(f) for demand in here)) for here in by_slot.values()
    ]


def _reachable(dim: str, slots: Sequence[Slot], demands: Sequence[_Demand], context: Context) -> bool:
    bound = context.problem.bound[dim]
    return bound in _products(_allowed(dim, slots, demands, context), bound)[-1]


def _least_extents(
    dim: str, slots: Sequence[Slot], demands: Sequence[_Demand], context: Context
) -> list[int]:
    """Return for each slot the least extent of `dim` that it and the nodes inside it can have."""
    bound = context.problem.bound[dim]
    allowed = _allowed(dim, slots, demands, context)
    inside = _products(reversed(allowed), bound)[::-1]
    outside = [frozenset({1}), *_products(allowed, bound)[:-1]]
    return [
        min(extent for extent in inner if bound // extent in outer)
        for inner, outer in zip(inside, outside, strict=True)
    ]


def _products(choices: Iterable[frozenset[int]], bound: int) -> list[frozenset[int]]:
    """Return the divisors of `bound` that are products of one choice each, after each step."""
    products: list[frozenset[int]] = []
    reached = frozenset({1})
    for factors in choices:
        reached = frozenset(a * b for a in reached for b in factors if bound % (a * b) == 0)
        products.append(reached)
    return products


def _unreachable(
    dim: str, slots: Sequence[Slot], demands: Sequence[_Demand], context: Context
) -> ConflictError:
    """Say why no factors of `dim` multiply to its bound."""
    bound = context.problem.bound[dim]
    blamed = irreducible(demands, lambda rest: not _reachable(dim, slots, rest, context))
    # Rules come first: they are what people change before the hardware.
    places = sorted(blamed, key=lambda demand: demand.factor is None)
    first = places[0].span
    named = ((demand.span, demand.text) for demand in places[1:])
    related = ((context.bounds.spans[dim], f"{dim} is {bound} here"), *named)
    allowed = _allowed(dim, slots, blamed, context)
    if all(factors == {1} for factors in allowed):
        return ConflictError(f"{dim} is {bound}, but its factor is fixed to 1 at every node", first, related)
    if any(not factors for factors in allowed):
        name = next(s.loops.leaf.name for s, factors in zip(slots, allowed, strict=True) if not factors)
        return ConflictError(f"no divisor of {dim} = {bound} is allowed at `{name}`", first, related)
    reached = _products(allowed, bound)[-1]
    shown = "none that divides it" if not reached else f"{max(reached)} at most"
    message = f"the factors allowed for {dim} cannot reach its bound {bound}: their product is {shown}"
    return ConflictError(message, first, related)


def _kept_words(kept: Iterable[_Kept], extents: Mapping[str, int]) -> dict[str, int]:
    return {part.space.name: tile_words(part.space, extents) for part in kept}


def _kept(slot: StorageSlot, context: Context) -> list[_Kept]:
    return [_Kept(context.problem.dataspace(name), span) for name, span in slot.keeping.keep.items()]


def _fits(slot: StorageSlot, extents: Mapping[str, int], context: Context) -> bool:
    """Whether the tiles of what a storage level must keep fit with these extents."""
    usable = slot.level.usable_words
    return usable is None or sum(_kept_words(_kept(slot, context), extents).values()) <= usable


def _too_small(
    slot: StorageSlot, place: int, slots: Sequence[Slot], demands: Sequence[_Demand], context: Context
) -> ConflictError:
    """Say why the least tiles do not fit into a storage level, `slot`, which is at `place` among all."""
    level, leaf = slot.level, slot.keeping.leaf
    usable = level.usable_words or 0

    def tiles(parts: Sequence[_Demand | _Kept]) -> dict[str, int]:
        """Return the words of the least tiles, as far as these parts demand them."""
        asked = [part for part in parts if isinstance(part, _Demand)]
        dims = context.problem.dims
        extents = {dim: _least_extents(dim, slots, asked, context)[place] for dim in dims}
        return _kept_words((part for part in parts if isinstance(part, _Kept)), extents)

    parts: list[_Demand | _Kept] = [*_kept(slot, context), *demands]
    blamed = irreducible(parts, lambda rest: sum(tiles(rest).values()) > usable)
    shown = tiles(blamed)
    total = sum(shown.values())
    words = f"at least {total:,} word{'' if total == 1 else 's'}"
    arithmetic = " + ".join(f"{name} {count:,}" for name, count in shown.items()) + f" = {words}"
    demand = arithmetic if len(shown) > 1 else f"{next(iter(shown))} needs {words}"
    capacity = f"{usable:,}"
    if level.multiple_buffering != 1:
        capacity += f" ({level.size_words:,} over multiple_buffering {level.multiple_buffering})"
    related = [(part.span, f"`{part.space.name}` is kept here") for part in blamed if isinstance(part, _Kept)]
    related += [(part.span, part.text) for part in blamed if isinstance(part, _Demand)]
    written = (attribute.node.span for attribute in leaf.attributes.values())
    related += [(span, "the capacity") for span in written if source_ref(span) == level.size_source][:1]
    message = f"{demand}, `{level.name}` holds {capacity}: {total - usable:,} too few"
    needed = sum(tiles(parts).values())
    hint = f"all that it must keep needs at least {needed:,} words"
    return ConflictError(message, leaf.span, tuple(related), None if needed == total else hint)
