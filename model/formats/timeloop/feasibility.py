"""Direct checks: constraints that no mapping can satisfy, each with the places that conflict."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from model.counting.words import tile_words
from model.extents import ANY, PERFECT, Extents, Factors, tiles_of
from model.formats.timeloop.assembly import SpatialLevel, TemporalLevel, TilingLevel
from model.formats.timeloop.constraints import WrittenFactor
from model.formats.timeloop.context import Context
from model.formats.timeloop.loops import LoopConstraints, axis_of
from model.formats.timeloop.tree import ArchLeaf
from model.problem import Dataspace
from model.sparsity import Sparsity
from model.text.source import ConflictError, Span, source_ref

Part = TypeVar("Part")

MOST = sys.maxsize
"""More than any factor."""

NONE: dict[Factors, str] = {PERFECT: "no divisor", ANY: "no factor"}
"""How messages say that a set of factors is empty."""


def irreducible(parts: Sequence[Part], conflict: Callable[[Sequence[Part]], bool]) -> list[Part]:
    """Return parts that still conflict, of which none can be left out, by Junker's QuickXplain."""
    all_parts = list(parts)
    needed = _needed_parts([], False, all_parts, conflict)
    return [part for part in all_parts if any(part is other for other in needed)]


def _needed_parts(
    background: list[Part], grown: bool, parts: list[Part], conflict: Callable[[Sequence[Part]], bool]
) -> list[Part]:
    """Return the `parts` that conflict with `background`; `grown` says that it has parts it lacked before."""
    if (grown and conflict(background)) or not parts:
        return []
    if len(parts) == 1:
        return parts
    middle = len(parts) // 2
    first, second = parts[:middle], parts[middle:]
    from_second = _needed_parts([*background, *first], True, second, conflict)
    from_first = _needed_parts([*background, *from_second], bool(from_second), first, conflict)
    return [*from_first, *from_second]


@dataclass(frozen=True, eq=False)
class _Demand:
    """What one place of the spec demands of the factor of a dimension at a node."""

    level: TilingLevel
    dim: str
    span: Span
    text: str
    most: int | None = None  # the largest factor that there is room for, None for a rule
    factor: WrittenFactor | None = None

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest factor that the place allows, as far as it limits them."""
        if self.factor is None:
            return 1, MOST if self.most is None else self.most
        value, relation = self.factor.value, self.factor.relation
        return 1 if relation == "<=" else value, MOST if relation == ">=" else value

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


def check_feasible(
    levels: Sequence[TilingLevel],
    context: Context,
    with_places: Collection[str] = (),
    sparsity: Sparsity | None = None,
) -> None:
    """Check that constraints do not conflict plainly.

    Checked are rules on factors against the bounds, fixed factors against the mesh of their fanout,
    for each dimension whether factors that the nodes allow can have the bound as their product, and
    for each storage level whether the least tiles that it must keep fit; but not for memories
    `with_places`, whose tiles may lie inside of some of their own loops. Of sparse data, compressed tiles
    may take less room, and children that are skipped need no hardware: neither is checked then.
    """
    own = () if sparsity is None else sparsity.levels
    compressed = any(level.representations for level in own)
    if any(unit.kind == "skipping_spatial" for level in own for unit in level.optimizations):
        return
    for level in levels:
        _check_factors(level.loops, context)
    for level in levels:
        if isinstance(level, SpatialLevel):
            _check_mesh(level, context)
    asked = {
        dim: [demand for level in levels for demand in _demands(level, dim, context)]
        for dim in context.problem.dims
    }
    for dim, of_dim in asked.items():
        if not _reachable(dim, levels, of_dim, context):
            raise _unreachable(dim, levels, of_dim, context)
    extents = {dim: _least_extents(dim, levels, of_dim, context) for dim, of_dim in asked.items()}
    demands = [demand for of_dim in asked.values() for demand in of_dim]
    for place, level in enumerate(levels):
        here = {dim: least[place] for dim, least in extents.items()}
        if compressed or not isinstance(level, TemporalLevel) or level.storage.name in with_places:
            continue
        if not _kept_tiles_fit(level, here, context):
            raise _too_small(level, place, levels, demands, context)


def _check_factors(constraints: LoopConstraints, context: Context) -> None:
    """Check for each dimension that some factor of its bound satisfies the rules at one node."""
    for factor in constraints.factors:
        _check_attainable(factor, context)
    for dim, bound in context.problem.bound.items():
        rules = constraints.rules_of(dim)
        extents = context.extents(dim)
        if not _contradict(extents, rules):
            continue
        rules = tuple(irreducible(rules, partial(_contradict, extents)))
        last = rules[-1]
        related = tuple((rule.span, f"`{rule}` here") for rule in rules[:-1] if rule.span != last.span)
        related = (*related, (context.loaded.bound_spans[dim], f"{dim} is {bound} here"))
        shown = " and ".join(f"`{rule}`" for rule in dict.fromkeys(rules))
        message = f"{NONE[context.factors]} of {dim} = {bound} satisfies {shown}"
        raise ConflictError(message, last.span, related)


def _check_attainable(factor: WrittenFactor, context: Context) -> None:
    """Check that some factor of its dimension's bound satisfies a rule."""
    bound = context.problem.bound[factor.dim]
    related = ((context.loaded.bound_spans[factor.dim], f"{factor.dim} is {bound} here"),)
    if factor.relation != "<=" and factor.value > bound:
        message = f"`{factor}`: the factor exceeds the bound {factor.dim} = {bound}"
        raise ConflictError(message, factor.span, related)
    if factor.relation == "=" and factor.value not in context.extents(factor.dim).values:
        message = f"`{factor}`: {factor.value} does not divide the bound {factor.dim} = {bound}"
        hint = "`--factors any` allows factors that leave a remainder"
        raise ConflictError(message, factor.span, related, hint=hint)


def _contradict(extents: Extents, rules: Sequence[WrittenFactor]) -> bool:
    """Whether no factor of a dimension satisfies all rules."""
    asked = [rule.rule() for rule in rules]
    return not any(all(rule.allows(factor) for rule in asked) for factor in extents.values)


def _check_mesh(level: SpatialLevel, context: Context) -> None:
    """Raise a ConflictError if factors that are asked for exceed the fanout, or one of its axes."""
    leaf = level.loops.leaf
    asked = {f.dim: f for f in level.loops.factors if f.relation != "<=" and f.value > 1}
    axes = {dim: axis_of(level.rules, dim, context) for dim in asked}
    sizes = {"x": leaf.mesh_x, "y": leaf.mesh_y}
    instances = f"the {leaf.fanout} instances" if leaf.fanout > 1 else "the single instance"
    limits = [(instances, leaf.fanout, list(asked.values()))]
    for axis, size in sizes.items():
        along = [factor for dim, factor in asked.items() if axes[dim] == axis]
        limits.append((f"mesh{axis.upper()} {size}", size, along))
    for name, size, factors in limits:
        if math.prod(factor.value for factor in factors) <= size:
            continue
        raise _too_wide(level, name, size, factors)


def _too_wide(level: SpatialLevel, name: str, size: int, factors: Sequence[WrittenFactor]) -> ConflictError:
    """Return the error for factors whose product exceeds `size`, as few of them as exceed it."""
    leaf = level.loops.leaf
    blamed = irreducible(
        sorted(factors, key=lambda factor: -factor.value),
        lambda rest: math.prod(factor.value for factor in rest) > size,
    )
    shown = [factor for factor in factors if factor in blamed]
    product = math.prod(factor.value for factor in shown)
    total = "" if len(shown) == 1 else f" = {product}"
    places = [(leaf.fanout_place, f"`{leaf.name}` is {leaf.mesh_x} x {leaf.mesh_y}")]
    places += [(factor.span, f"`{factor}` is required here") for factor in shown[:-1]]
    if level.loops.split is not None:
        places.append((level.loops.split[1], "the split between its axes"))
    text = " * ".join(map(str, shown))
    message = f"the spatial factors {text}{total} exceed {name} of `{leaf.name}`: {product - size:,} too few"
    return ConflictError(message, shown[-1].span, tuple(places))


def _demands(level: TilingLevel, dim: str, context: Context) -> Iterator[_Demand]:
    """Yield what a node demands of the factor of `dim`: the rules, then the room that it has."""
    loops, leaf = level.loops, level.loops.leaf
    for factor in loops.rules_of(dim):
        yield _Demand(level, dim, factor.span, f"`{factor}` at `{leaf.name}`", factor=factor)
    if not isinstance(level, SpatialLevel):
        return
    sizes = {"x": leaf.mesh_x, "y": leaf.mesh_y}
    widest = max(sizes.values())
    mesh = f"`{leaf.name}` is {leaf.mesh_x} x {leaf.mesh_y}"
    yield _Demand(level, dim, leaf.fanout_place, mesh, most=widest)
    axis = axis_of(level.rules, dim, context)
    if axis is not None and loops.split is not None and sizes[axis] < widest:
        split = f"the split puts {dim} along {axis.upper()} of `{leaf.name}`, {sizes[axis]} wide"
        yield _Demand(level, dim, loops.split[1], split, most=sizes[axis])


def _allowed(
    dim: str, levels: Sequence[TilingLevel], demands: Sequence[_Demand], context: Context
) -> list[Collection[int]]:
    """Return for each level the factors of `dim` that the demands allow, ranges where any may do."""
    by_level: dict[int, list[_Demand]] = {id(level): [] for level in levels}
    for demand in demands:
        if demand.dim == dim:
            by_level[id(demand.level)].append(demand)
    extents = context.extents(dim)
    if extents.kind == ANY:
        return [
            _factors_within([demand.limits for demand in here], extents.bound) for here in by_level.values()
        ]
    return [
        frozenset(f for f in extents.values if all(demand.allows(f) for demand in here))
        for here in by_level.values()
    ]


def _factors_within(limits: Iterable[tuple[int, int]], bound: int) -> range:
    """The factors within all limits."""
    lowest, highest = zip((1, bound), *limits, strict=True)
    return range(max(lowest), min(highest) + 1)


def _reachable(dim: str, levels: Sequence[TilingLevel], demands: Sequence[_Demand], context: Context) -> bool:
    bound = context.problem.bound[dim]
    allowed = _allowed(dim, levels, demands, context)
    if context.factors == PERFECT:
        return bound in _reachable_divisors(allowed, bound)[-1]
    if _covered_at_once(allowed, bound):
        return True
    left = {bound}
    for factors in reversed(allowed):
        left = {count for tiles in left for count in _tiles_left(tiles, factors)}
    return 1 in left


def _covered_at_once(allowed: Sequence[Collection[int]], bound: int) -> bool:
    """Whether one node may have all that the least factors inside of it leave: the usual case, soon seen."""
    left = bound
    for place in reversed(range(len(allowed))):
        if left in allowed[place] and all(1 in factors for factors in allowed[:place]):
            return True
        least, largest = _least_and_largest(allowed[place])
        if not least <= min(left, largest):
            return False
        left = tiles_of(left, least)
    return left == 1


def _least_and_largest(factors: Collection[int]) -> tuple[int, int]:
    """The least factor and the largest, 1 and 0 if there is none; of ranges, which may be long, at once."""
    if isinstance(factors, range):
        return (factors[0], factors[-1]) if factors else (1, 0)
    return min(factors, default=1), max(factors, default=0)


def _tiles_left(tiles: int, factors: Collection[int]) -> Iterator[int]:
    """Yield the different numbers of tiles that loops with these consecutive factors leave outside."""
    factor, largest = _least_and_largest(factors)
    while factor <= min(tiles, largest):
        left = tiles_of(tiles, factor)
        yield left
        if left == 1:
            return
        factor = tiles_of(tiles, left - 1)


def _least_extents(
    dim: str, levels: Sequence[TilingLevel], demands: Sequence[_Demand], context: Context
) -> list[int]:
    """Return for each level the least extent of `dim` that it and the nodes inside it can have."""
    bound = context.problem.bound[dim]
    allowed = _allowed(dim, levels, demands, context)
    if context.factors == ANY:
        return _least_covering(allowed, bound)
    inside = _reachable_divisors(reversed(allowed), bound)[::-1]
    outside = [frozenset({1}), *_reachable_divisors(allowed, bound)[:-1]]
    return [
        min(extent for extent in inner if bound // extent in outer)
        for inner, outer in zip(inside, outside, strict=True)
    ]


def _least_covering(allowed: Sequence[Collection[int]], bound: int) -> list[int]:
    """Return for each level an extent that none can go below: the least factors inside, the most outside."""
    least: list[int] = []
    for place in range(len(allowed)):
        inside = math.prod(_least_and_largest(factors)[0] for factors in allowed[place:])
        outside = math.prod(_least_and_largest(factors)[1] for factors in allowed[:place])
        least.append(min(bound, max(inside, tiles_of(bound, outside))))
    return least


def _reachable_divisors(choices: Iterable[Collection[int]], bound: int) -> list[frozenset[int]]:
    """Return the divisors of `bound` that are products of one choice each, after each step."""
    products: list[frozenset[int]] = []
    reached = frozenset({1})
    for factors in choices:
        reached = frozenset(a * b for a in reached for b in factors if bound % (a * b) == 0)
        products.append(reached)
    return products


def _unreachable(
    dim: str, levels: Sequence[TilingLevel], demands: Sequence[_Demand], context: Context
) -> ConflictError:
    """Say why no factors of `dim` multiply to its bound."""
    bound = context.problem.bound[dim]
    blamed = irreducible(demands, lambda rest: not _reachable(dim, levels, rest, context))
    # Rules come first: they are what people change before the hardware.
    places = sorted(blamed, key=lambda demand: demand.factor is None)
    first = places[0].span
    named = ((demand.span, demand.text) for demand in places[1:])
    related = ((context.loaded.bound_spans[dim], f"{dim} is {bound} here"), *named)
    allowed = _allowed(dim, levels, blamed, context)
    if all(len(factors) == 1 and 1 in factors for factors in allowed):
        return ConflictError(f"{dim} is {bound}, but its factor is fixed to 1 at every node", first, related)
    if any(not factors for factors in allowed):
        leaf = next(s.loops.leaf for s, factors in zip(levels, allowed, strict=True) if not factors)
        message = f"{NONE[context.factors]} of {dim} = {bound} is allowed at `{leaf.name}`"
        return ConflictError(message, first, related, _one_axis(leaf, places))
    if context.factors == ANY:
        message = f"the factors allowed for {dim} cover less than its bound {bound}, or more"
        return ConflictError(message, first, related)
    reached = _reachable_divisors(allowed, bound)[-1]
    shown = "none that divides it" if not reached else f"{max(reached)} at most"
    message = f"the factors allowed for {dim} cannot reach its bound {bound}: their product is {shown}"
    return ConflictError(message, first, related)


def _one_axis(leaf: ArchLeaf, demands: Iterable[_Demand]) -> str | None:
    """Return a hint where all instances of a mesh would do for a loop, but neither axis alone."""
    asked = max((demand.factor.value for demand in demands if demand.factor is not None), default=0)
    if not max(leaf.mesh_x, leaf.mesh_y) < asked <= leaf.fanout:
        return None
    return (
        "a dimension lies along one axis of a mesh; two containers, one with `meshX` and one with `meshY`, "
        "take it along both"
    )


def _kept_words(kept: Iterable[_Kept], extents: Mapping[str, int]) -> dict[str, int]:
    return {part.space.name: tile_words(part.space, extents) for part in kept}


def _kept_tiles(level: TemporalLevel, context: Context) -> list[_Kept]:
    return [_Kept(context.problem.dataspace(name), span) for name, span in level.keeping.keep.items()]


def _kept_tiles_fit(level: TemporalLevel, extents: Mapping[str, int], context: Context) -> bool:
    """Whether the tiles of what a storage level must keep fit with these extents."""
    usable = level.storage.usable_words
    return usable is None or sum(_kept_words(_kept_tiles(level, context), extents).values()) <= usable


def _too_small(
    level: TemporalLevel,
    place: int,
    levels: Sequence[TilingLevel],
    demands: Sequence[_Demand],
    context: Context,
) -> ConflictError:
    """Say why the least tiles do not fit into a storage level, `level`, which is at `place` among all."""
    storage, leaf = level.storage, level.keeping.leaf
    usable = storage.usable_words or 0

    def tiles(parts: Sequence[_Demand | _Kept]) -> dict[str, int]:
        """Return the words of the least tiles, as far as these parts demand them."""
        asked = [part for part in parts if isinstance(part, _Demand)]
        dims = context.problem.dims
        extents = {dim: _least_extents(dim, levels, asked, context)[place] for dim in dims}
        return _kept_words((part for part in parts if isinstance(part, _Kept)), extents)

    parts: list[_Demand | _Kept] = [*_kept_tiles(level, context), *demands]
    blamed = irreducible(parts, lambda rest: sum(tiles(rest).values()) > usable)
    shown = tiles(blamed)
    total = sum(shown.values())
    words = f"at least {total:,} word{'' if total == 1 else 's'}"
    arithmetic = " + ".join(f"{name} {count:,}" for name, count in shown.items()) + f" = {words}"
    demand = arithmetic if len(shown) > 1 else f"{next(iter(shown))} needs {words}"
    capacity = f"{usable:,}"
    if storage.multiple_buffering != 1:
        capacity += f" ({storage.size_words:,} over multiple_buffering {storage.multiple_buffering})"
    related = [(part.span, f"`{part.space.name}` is kept here") for part in blamed if isinstance(part, _Kept)]
    related += [(part.span, part.text) for part in blamed if isinstance(part, _Demand)]
    written = (attribute.node.span for attribute in leaf.attributes.values())
    related += [(span, "the capacity") for span in written if source_ref(span) == storage.size_source][:1]
    message = f"{demand}, `{storage.name}` holds {capacity}: {total - usable:,} too few"
    needed = sum(tiles(parts).values())
    hint = f"all that it must keep needs at least {needed:,} words"
    return ConflictError(message, leaf.span, tuple(related), None if needed == total else hint)
