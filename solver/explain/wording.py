"""ConstraintSet, their arithmetic and their levers as text."""

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
from solver.explain.feasibility import Witness
from solver.formulation.requirements import (
    AxisSplit,
    Constraint,
    FactorLimit,
    KeptOrBypassed,
    Mesh,
    Parallelism,
    SpatialOrder,
    TemporalOrder,
    TileCapacity,
    UserRule,
    Utilization,
    Whole,
)
from solver.result import Shortfall


def statement_text(constraint: Constraint, mapspace: Mapspace) -> str:
    """Return the requirement of `constraint` as a text."""
    match constraint:
        case FactorLimit(node, rule):
            text = f"{_rule(rule)} in {_loops_text(mapspace, node)}"
        case SpatialOrder(node):
            text = f"the order of {_loops_text(mapspace, node)}"
        case AxisSplit(node, count):
            text = f"split {count} of `{_node_name(mapspace, node)}`: the number of dimensions along X"
        case KeptOrBypassed(level, dataspace, verb):
            text = f"`{_level_name(mapspace, level)}` {'keeps' if verb == 'keep' else 'bypasses'} {dataspace}"
        case Whole():
            text = _stored_whole_text(constraint, mapspace)
        case TileCapacity(_, storage):
            room = f"{_words_text(constraint.words)}{_buffering(storage)}{_reserved(storage)}"
            text = f"`{storage.name}` holds {room}"
        case Utilization(_, storage):
            share, usable = _share_text(storage.min_utilization), _words_text(storage.usable_words or 0)
            demand = f"{_words_text(constraint.words)} (min_utilization {share} of {usable})"
            text = f"`{storage.name}` must hold at least {demand}"
        case Mesh(node, axis, size):
            text = (
                f"`{_node_name(mapspace, node)}` is {size:,} wide along {axis.upper()} (mesh{axis.upper()})"
            )
        case Parallelism():
            units = mapspace.architecture.compute_instances
            text = f"at least {constraint.least:,} of {units:,} compute units must be in use"
        case _:
            assert_never(constraint)
    return text


def clause_text(parts: Iterable[Constraint | TemporalOrder | UserRule], mapspace: Mapspace) -> str:
    """Return the requirements of several constraints, with the factors of a node together."""
    factors: dict[int, list[str]] = {}
    texts: list[str] = []
    for part in parts:
        match part:
            case FactorLimit(node, rule):
                factors.setdefault(node, []).append(_rule(rule))
            case TemporalOrder(level):
                texts.append(f"the order of the temporal loops of `{_level_name(mapspace, level)}`")
            case UserRule(rule):
                texts.append(str(rule))
            case _:
                texts.append(statement_text(part, mapspace))
    limits = (f"{', '.join(rules)} in {_loops_text(mapspace, node)}" for node, rules in factors.items())
    return "; ".join((*limits, *texts))


def shortfall(constraint: Constraint, value: int, witness: Witness, mapspace: Mapspace) -> Shortfall:
    """Return the shortfall of a constraint against the value that the rest of its conflict requires."""
    match constraint:
        case TileCapacity(level, storage):
            limit, unit = constraint.words, "words"
            tiles = witness.evaluation.levels[level].dataspaces
            parts = " + ".join(f"{tile.dataspace} {_tile_text(tile, storage)}" for tile in tiles)
            total = f"{parts} = at least {_words_text(value)}"
            demand = total if len(tiles) > 1 else f"{tiles[0].dataspace} needs at least {_words_text(value)}"
            text = f"{demand}, `{storage.name}` holds {limit:,}{_wide(storage)}"
        case Utilization(_, storage):
            limit, unit = constraint.words, "words"
            demand = f"min_utilization requires {limit:,}"
            text = f"the tiles in `{storage.name}` total at most {_words_text(value)}, {demand}"
        case Mesh(node, axis, limit):
            unit = "children"
            needs = f"`{_node_name(mapspace, node)}` needs at least {value:,} children along {axis.upper()}"
            text = f"{needs}, but there {'is' if limit == 1 else 'are'} {limit:,}"
        case Parallelism():
            limit, unit = constraint.least, "units"
            text = f"at most {value:,} compute units can be in use, but {limit:,} are required"
        case FactorLimit() | SpatialOrder() | AxisSplit() | KeptOrBypassed() | Whole():
            raise ValueError(f"{type(constraint).__name__} has no arithmetic")
        case _:
            assert_never(constraint)
    return Shortfall(f"{text}: {abs(value - limit):,} too few", value, limit, unit)


def change_text(constraint: Constraint, value: int, mapspace: Mapspace) -> str:
    """Return the change of `constraint` to another value; that of a capacity is in words."""
    match constraint:
        case FactorLimit(node, rule):
            changed = FactorRule(rule.dim, rule.relation, value)
            return f"{_rule(changed)} instead of {_rule(rule)} in {_loops_text(mapspace, node)}"
        case AxisSplit(node, count):
            return f"split {value} instead of {count} of `{_node_name(mapspace, node)}`"
        case TileCapacity(_, storage):
            words, before = (usable + storage.reserved_words for usable in (value, storage.size_words or 0))
            rows = _rows_text(storage, words, before)
            return f"`{storage.name}` with {_words_text(words)} instead of {before:,}{rows}"
        case Utilization(_, storage):
            room = storage.usable_words or 1
            share = _share_below(Fraction(value, room))
            was = _share_text(storage.min_utilization)
            return f"min_utilization {share} instead of {was} of `{storage.name}` ({_words_text(value)})"
        case Mesh(node, axis, size):
            name = f"mesh{axis.upper()}"
            return f"{name} {value:,} instead of {size:,} of `{_node_name(mapspace, node)}`"
        case Parallelism():
            units = mapspace.architecture.compute_instances
            share = _share_below(Fraction(value, units))
            return f"{value:,} of {units:,} compute units ({share}) instead of {constraint.least:,}"
        case SpatialOrder() | KeptOrBypassed() | Whole():
            raise ValueError(f"{type(constraint).__name__} has no value")
        case _:
            assert_never(constraint)


def order_text(constraint: SpatialOrder, order: Iterable[str], mapspace: Mapspace) -> str:
    """Return the change of a fanout's spatial loops to another order, innermost first."""
    return (
        f"permutation [{', '.join(order)}] of `{_node_name(mapspace, constraint.node)}` instead of this one"
    )


def without_text(constraint: Constraint, mapspace: Mapspace, inverted: bool = False) -> str:
    """Return that `constraint` is dropped, or, if `inverted`, that a level does the opposite."""
    if isinstance(constraint, KeptOrBypassed) and inverted:
        opposite = "bypassing" if constraint.verb == "keep" else "keeping"
        return f"`{_level_name(mapspace, constraint.level)}` {opposite} {constraint.dataspace}"
    return f"without this: {statement_text(constraint, mapspace)}"


def also_text(twins: Iterable[Constraint], mapspace: Mapspace) -> str:
    """Return the nodes that also change, because they share the text of a constraint."""
    names = dict.fromkeys(_name_of_place(twin, mapspace) for twin in twins)
    return f"; the line also applies to {listing(names)}" if names else ""


def _name_of_place(constraint: Constraint, mapspace: Mapspace) -> str:
    match constraint:
        case FactorLimit(node) | Mesh(node) | AxisSplit(node) | SpatialOrder(node):
            return _node_name(mapspace, node)
        case TileCapacity(level) | Utilization(level) | KeptOrBypassed(level) | Whole(level):
            return _level_name(mapspace, level)
        case Parallelism():
            raise ValueError("a least parallelism belongs to no node")
        case _:
            assert_never(constraint)


def _stored_whole_text(whole: Whole, mapspace: Mapspace) -> str:
    """Return that a level stores all of a dataspace, and why."""
    count = mapspace.architecture.instances_above(mapspace.architecture.storage_indices[whole.level])
    name, outside = _level_name(mapspace, whole.level), [_node_name(mapspace, node) for node in whole.outside]
    who = f"`{name}` stores" if count == 1 else f"the instances of `{name}` together store"
    verb = "bypasses" if len(outside) == 1 else "bypass"
    return f"{who} {whole.dataspace} as a whole, as {listing(outside)} {verb} it"


def _rule(rule: FactorRule) -> str:
    return f"{rule.dim}{rule.relation}{rule.value}"


def _node_name(mapspace: Mapspace, node: int) -> str:
    return mapspace.architecture.nodes[node].name


def _level_name(mapspace: Mapspace, level: int) -> str:
    return mapspace.architecture.levels[level].name


def _loops_text(mapspace: Mapspace, node: int) -> str:
    spatial = node in mapspace.architecture.fanout_indices
    return f"the {'spatial' if spatial else 'temporal'} loops of `{_node_name(mapspace, node)}`"


def _words_text(count: int) -> str:
    return f"{count:,} word{'' if count == 1 else 's'}"


def _tile_text(tile: DataspaceCost, storage: StorageLevel) -> str:
    """Return the words of a tile, as a product where each value takes several."""
    size = storage.packing_of(tile.dataspace).size_per_value
    return f"{tile.tile_words:,}" if size == 1 else f"{tile.tile_words:,} x {size:,}"


def _wide(storage: StorageLevel) -> str:
    """Return that a word takes several rows of the storage, which explains why few fit."""
    rows = storage.rows_per_word
    if rows is None or rows == 1 or rows.denominator > 1:
        return ""
    return f", as a word of {storage.word_bits} bits takes {rows} rows"


def _buffering(storage: StorageLevel) -> str:
    if storage.multiple_buffering == 1:
        return ""
    return f" ({storage.size_words or 0:,} over multiple_buffering {_share_text(storage.multiple_buffering)})"


def _reserved(storage: StorageLevel) -> str:
    taken = storage.reserved_words
    return f" besides {taken:,} for tensors that stay there" if taken > 0 else ""


def _rows_text(storage: StorageLevel, words: int, before: int) -> str:
    """Return the number of rows for these words, where the capacity is given in rows of another size."""
    if storage.rows_per_word is None or storage.rows_per_word == 1:
        return ""
    rows = words * storage.rows_per_word
    if rows.denominator > 1 and words < before:  # rounding either way could miss the limit
        return ""
    return f" (depth {math.ceil(rows):,})"


def _share_text(share: Fraction) -> str:
    """Return a fraction with four digits."""
    return f"{float(share):.4g}"


def _share_below(share: Fraction) -> str:
    """Return a fraction with four digits, rounded down so that it requires no more."""
    below = Context(prec=4, rounding=ROUND_FLOOR)
    return f"{below.divide(Decimal(share.numerator), Decimal(share.denominator)):f}"
