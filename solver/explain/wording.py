"""Constraints, their arithmetic and their levers in words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import assert_never

from model.architecture import StorageLevel
from model.cost import DataspaceCost
from model.mapspace import FactorRule, Mapspace
from model.wording import listing
from solver.explain.constraints import (
    Capacity,
    Constraint,
    FactorLimit,
    Keeping,
    Mesh,
    Parallelism,
    SpatialOrder,
    Split,
    TemporalOrder,
    Utilization,
    Whole,
)
from solver.explain.nearest import Nearest
from solver.result import Shortfall


def statement_text(constraint: Constraint, mapspace: Mapspace) -> str:
    """Return what `constraint` asks for."""
    match constraint:
        case FactorLimit(node, rule):
            text = f"{_rule(rule)} in {_loops(mapspace, node)}"
        case SpatialOrder(node):
            text = f"the order of {_loops(mapspace, node)}"
        case Split(node, count):
            text = f"split {count}: so many dimensions of `{_node(mapspace, node)}` lie along X"
        case Keeping(level, dataspace, verb):
            text = f"`{_level(mapspace, level)}` {'keeps' if verb == 'keep' else 'bypasses'} {dataspace}"
        case Whole():
            text = _whole(constraint, mapspace)
        case Capacity(_, storage):
            room = f"{_words(constraint.words)}{_buffering(storage)}{_reserved(storage)}"
            text = f"`{storage.name}` holds {room}"
        case Utilization(_, storage):
            share = (
                f"min_utilization {_share(storage.min_utilization)} of {_words(storage.usable_words or 0)}"
            )
            text = f"`{storage.name}` is to hold {_words(constraint.words)} at the least ({share})"
        case Mesh(node, axis, size):
            text = f"`{_node(mapspace, node)}` is {size:,} wide along {axis.upper()} (mesh{axis.upper()})"
        case Parallelism():
            units = mapspace.architecture.compute_instances
            text = f"{constraint.least:,} of {units:,} arithmetic units are to be in use at the least"
        case _:
            assert_never(constraint)
    return text


def clause_text(parts: Iterable[Constraint | TemporalOrder], mapspace: Mapspace) -> str:
    """Return what several constraints ask for, those on the factors of a node together."""
    factors: dict[int, list[str]] = {}
    texts: list[str] = []
    for part in parts:
        match part:
            case FactorLimit(node, rule):
                factors.setdefault(node, []).append(_rule(rule))
            case TemporalOrder(level):
                texts.append(f"the order of the temporal loops of `{_level(mapspace, level)}`")
            case _:
                texts.append(statement_text(part, mapspace))
    limits = (f"{', '.join(rules)} in {_loops(mapspace, node)}" for node, rules in factors.items())
    return "; ".join((*limits, *texts))


def shortfall(constraint: Constraint, suffices: Nearest, mapspace: Mapspace) -> Shortfall | None:
    """Return what the rest of a conflict makes of the number in `constraint`, None if it has none."""
    value = suffices.value
    match constraint:
        case Capacity(level, storage):
            limit = constraint.words
            tiles = suffices.witness.evaluation.levels[level].dataspaces
            shown = " + ".join(f"{tile.dataspace} {_tile(tile, storage)}" for tile in tiles)
            demand = (
                f"{shown} = {_words(value)}"
                if len(tiles) > 1
                else f"{tiles[0].dataspace} needs {_words(value)}"
            )
            room = f"`{storage.name}` holds {limit:,}{_wide(storage)}"
            text = f"{demand} at the least, {room}: {_missing(value - limit)}"
            return Shortfall(text, value, limit, "words")
        case Utilization(_, storage):
            least = constraint.words
            text = (
                f"the tiles in `{storage.name}` come to {_words(value)} at the most, min_utilization asks "
                f"for {least:,}: {_missing(least - value)}"
            )
            return Shortfall(text, value, least, "words")
        case Mesh(node, axis, size):
            text = (
                f"`{_node(mapspace, node)}` needs {value:,} children along {axis.upper()} at the least, "
                f"there {'is' if size == 1 else 'are'} {size:,}: {_missing(value - size)}"
            )
            return Shortfall(text, value, size, "children")
        case Parallelism():
            least = constraint.least
            text = (
                f"{value:,} arithmetic units can be in use at the most, {least:,} are asked for: "
                f"{_missing(least - value)}"
            )
            return Shortfall(text, value, least, "units")
        case FactorLimit() | SpatialOrder() | Split() | Keeping() | Whole():
            return None
        case _:
            assert_never(constraint)


def change_text(constraint: Constraint, value: int, mapspace: Mapspace) -> str:
    """Return the change of `constraint` to `value` in words; of a capacity, the words of the storage.

    Raises
    ------
    ValueError
        An order, what is kept, and what is stored as a whole have no value.
    """
    match constraint:
        case FactorLimit(node, rule):
            changed = FactorRule(rule.dim, rule.relation, value)
            return f"{_rule(changed)} instead of {_rule(rule)} in {_loops(mapspace, node)}"
        case Split(node, count):
            return f"split {value} instead of {count} of `{_node(mapspace, node)}`"
        case Capacity(_, storage):
            words, before = (usable + storage.reserved_words for usable in (value, storage.size_words or 0))
            rows = _depth(storage, words, before)
            return f"`{storage.name}` with {_words(words)} instead of {before:,}{rows}"
        case Utilization(_, storage):
            room = storage.usable_words or 1
            share = _share_below(Fraction(value, room))
            was = _share(storage.min_utilization)
            return f"min_utilization {share} instead of {was} of `{storage.name}` ({_words(value)})"
        case Mesh(node, axis, size):
            name = f"mesh{axis.upper()}"
            return f"{name} {value:,} instead of {size:,} of `{_node(mapspace, node)}`"
        case Parallelism():
            units = mapspace.architecture.compute_instances
            share = _share_below(Fraction(value, units))
            return f"{value:,} of {units:,} arithmetic units ({share}) instead of {constraint.least:,}"
        case SpatialOrder() | Keeping() | Whole():
            raise ValueError(f"{type(constraint).__name__} has no value")
        case _:
            assert_never(constraint)


def order_text(constraint: SpatialOrder, order: Iterable[str], mapspace: Mapspace) -> str:
    """Return that the spatial loops of a fanout have another order, innermost first."""
    return f"permutation [{', '.join(order)}] of `{_node(mapspace, constraint.node)}` instead of this one"


def without_text(constraint: Constraint, mapspace: Mapspace, turned: bool = False) -> str:
    """Return that `constraint` is dropped; of a dataspace, if `turned`, that the opposite is asked for."""
    if isinstance(constraint, Keeping) and turned:
        opposite = "bypassing" if constraint.verb == "keep" else "keeping"
        return f"`{_level(mapspace, constraint.level)}` {opposite} {constraint.dataspace}"
    return f"without this: {statement_text(constraint, mapspace)}"


def also_text(twins: Iterable[Constraint], mapspace: Mapspace) -> str:
    """Return the nodes that a change is made for as well, because they share its text."""
    names = dict.fromkeys(_named(twin, mapspace) for twin in twins)
    return f"; the line holds for {', '.join(names)} as well" if names else ""


def _named(constraint: Constraint, mapspace: Mapspace) -> str:
    match constraint:
        case FactorLimit(node) | Mesh(node) | Split(node) | SpatialOrder(node):
            return f"`{_node(mapspace, node)}`"
        case Capacity(level) | Utilization(level) | Keeping(level) | Whole(level):
            return f"`{_level(mapspace, level)}`"
        case Parallelism():
            raise ValueError("what the whole array is to do stands at no node")
        case _:
            assert_never(constraint)


def _whole(whole: Whole, mapspace: Mapspace) -> str:
    """Return that a level stores a dataspace as a whole, and why."""
    count = mapspace.architecture.instances_above(mapspace.architecture.storage_indices[whole.level])
    name, outside = _level(mapspace, whole.level), [_node(mapspace, node) for node in whole.outside]
    who = f"`{name}` stores" if count == 1 else f"the instances of `{name}` together store"
    verb = "bypasses" if len(outside) == 1 else "bypass"
    return f"{who} {whole.dataspace} as a whole, as {listing(outside)} {verb} it"


def _rule(rule: FactorRule) -> str:
    return f"{rule.dim}{rule.relation}{rule.value}"


def _node(mapspace: Mapspace, node: int) -> str:
    return mapspace.architecture.nodes[node].name


def _level(mapspace: Mapspace, level: int) -> str:
    return mapspace.architecture.levels[level].name


def _loops(mapspace: Mapspace, node: int) -> str:
    spatial = node in mapspace.architecture.fanout_indices
    return f"the {'spatial' if spatial else 'temporal'} loops of `{_node(mapspace, node)}`"


def _words(count: int) -> str:
    return f"{count:,} word{'' if count == 1 else 's'}"


def _tile(tile: DataspaceCost, storage: StorageLevel) -> str:
    """Return the words of a tile, as a product where its values take several each."""
    size = storage.packing_of(tile.dataspace).size_per_value
    return f"{tile.tile_words:,}" if size == 1 else f"{tile.tile_words:,} x {size:,}"


def _missing(gap: int) -> str:
    return f"{gap:,} too few"


def _buffering(storage: StorageLevel) -> str:
    if storage.multiple_buffering == 1:
        return ""
    return f" ({storage.size_words or 0:,} over multiple_buffering {_share(storage.multiple_buffering)})"


def _wide(storage: StorageLevel) -> str:
    """Return that a word takes several rows of the storage, where it does: so there may be none at all."""
    rows = storage.rows_per_word
    if rows is None or rows == 1 or rows.denominator > 1:
        return ""
    return f", as a word of {storage.word_bits} bits takes {rows} rows"


def _reserved(storage: StorageLevel) -> str:
    taken = storage.reserved_words
    return f" beside {taken:,} of tensors that stay there" if taken > 0 else ""


def _depth(storage: StorageLevel, words: int, before: int) -> str:
    """Return the rows of so many words, where the capacity is given in rows of another size."""
    if storage.rows_per_word is None or storage.rows_per_word == 1:
        return ""
    rows = words * storage.rows_per_word
    if rows.denominator > 1 and words < before:  # fewer rows may be too few, and more too many
        return ""
    return f" (depth {math.ceil(rows):,})"


def _share(share: Fraction) -> str:
    """Return a fraction with four digits; exactly where that is enough."""
    return f"{float(share):.4g}"


def _share_below(share: Fraction) -> str:
    """Return a fraction with four digits, rounded down: what it asks for is not more."""
    below = Context(prec=4, rounding=ROUND_FLOOR)
    return f"{below.divide(Decimal(share.numerator), Decimal(share.denominator)):f}"
