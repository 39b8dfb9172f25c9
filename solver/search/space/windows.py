"""Least words of dataspaces whose tiles overlap: sliding windows, such as the inputs of a convolution."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np

from solver.search.arrays import IntArray
from solver.search.space.dataspaces import Component, DataspaceView, Tables
from solver.search.space.lattice import Lattice

NOWHERE = 1 << 40
"""Words by which no loop moves a tile: it shares nothing with the one before."""


@dataclass(frozen=True)
class Unrolling:
    """Spatial factors of the window dimensions above a level, per active dimension (1 for others).

    ``above`` multiplies all fanouts above the level, ``directly`` those between it and the next level
    outside. All ones is always a valid, if weaker, assumption.
    """

    above: tuple[int, ...]
    directly: tuple[int, ...]


def relevant_words(
    view: DataspaceView, tables: Tables, lattice: Lattice, unrolling: Unrolling, leading: Collection[int]
) -> IntArray:
    """Least words of all deliveries of tiles, over all instances, per iteration of the other loops.

    Other loops are those that do not index the dataspace, but for the ones innermost that leave it in place.

    Parameters
    ----------
    leading
        Dimensions: the innermost loop that moves the tile, if there is one, runs over one of these.

    Returns
    -------
    IntArray
        Lower bounds, shape (lattice size,).

    References
    ----------
    docs/search.md, "Sliding windows".
    """
    leads = [(c, d) for c in view.components if c.sliding for d in c.dims if d in leading]
    led = (_led_words(view, tables, lattice, c, d, unrolling) for c, d in leads)
    return reduce(np.minimum, led, tables.plain_words)


def union_words(view: DataspaceView, tables: Tables, lattice: Lattice, unrolling: Unrolling) -> IntArray:
    """Words in the union of each instance's tiles, over all instances."""
    union: IntArray = np.ones(lattice.size, dtype=np.int64)
    for number, part in enumerate(view.components):
        covered = tables.boxes[number] * math.prod(_positions(lattice, d) for d in part.dims)
        if part.sliding:
            instances = math.prod(unrolling.above[d] for d in part.dims)
            covered = np.minimum(covered, -(-part.window_words // instances) * instances)
        union = union * covered
    return union


def _positions(lattice: Lattice, dim: int) -> IntArray:
    positions: IntArray = lattice.bounds[dim] // lattice.extents[:, dim]
    return positions


def _led_words(
    view: DataspaceView,
    tables: Tables,
    lattice: Lattice,
    part: Component,
    dim: int,
    unrolling: Unrolling,
) -> IntArray:
    """Least words if the innermost moving loop runs over `dim`, where that has a loop at all."""
    if not part.linear:
        return np.where(_positions(lattice, dim) > 1, 0, tables.plain_words)
    positions = {d: -(-_positions(lattice, d) // unrolling.above[d]) for d in part.dims}
    box, every = tables.boxes[view.components.index(part)], math.prod(positions.values())
    move = lattice.extents[:, dim] * (abs(part.coefficient(dim)) * unrolling.directly[dim])
    count = lattice.least_prime(dim)
    # Where the rank moves along no other dimension, no loop over this one moves it by less.
    along = np.where(positions[dim] == every, move, 0)
    back = np.where(positions[dim] == every, (count - 1) * move, 0) if part.turns else (count - 1) * move
    words = moved_words(tables.plain_words, box, every, Movement(count, move, along, back))
    return np.where(positions[dim] > 1, words, tables.plain_words)


class Movement(NamedTuple):
    """How loops move a tile along one rank, all figures least ones.

    Parameters
    ----------
    bound, lead
        Iterations of the innermost loop that moves it, and words by which each does.
    along
        Words by which other loops over the rank's dimensions move it when they advance.
    back
        Words by which any other loop moves it: loops inside go back to their first iteration.
    """

    bound: IntArray | int
    lead: IntArray | int
    along: IntArray | int
    back: IntArray | int


def least_jumps(
    moves: Mapping[int, IntArray], loops: Mapping[int, IntArray], lead: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Words by which loops of one slot move a tile along one rank when they advance, at least.

    The loops inside go back from their last iteration to their first: the lead, and whichever others lie
    inside, for their order is not known.

    Parameters
    ----------
    moves, loops
        Per dimension of the rank, words by which an iteration of its loop moves the tile, of either sign,
        and how many it has.
    lead
        Dimension of the innermost one of these loops.

    Returns
    -------
    tuple
        Arrays like those given: the least move of the other loops over these dimensions, and of all loops
        over others; and how far all of these loops are from their first iteration when they are at their last.
    """
    spans = {d: (loops[d] - 1) * move for d, move in moves.items()}
    past = spans.pop(lead)
    back: IntArray = np.min([np.abs(past + span) for span in _sums(list(spans.values()))], axis=0)
    along: IntArray = np.full(len(back), NOWHERE)
    for d in spans:
        inside = [span for other, span in spans.items() if other != d]
        jump = np.min([np.abs(moves[d] - past - span) for span in _sums(inside)], axis=0)
        along = np.where(loops[d] > 1, np.minimum(along, jump), along)
    return along, back, sum(spans.values(), past)


def least_jumps_outside(
    slots: Iterable[Sequence[tuple[int, int]]], past: IntArray
) -> tuple[IntArray, IntArray]:
    """The same of loops in slots farther out, each given as moves and iterations, in no order.

    Those inside are `past` their first iteration by so many words when all are at their last.
    """
    back, along = np.abs(past), np.full(len(past), NOWHERE)
    for slot in slots:
        spans = [(count - 1) * move for move, count in slot]
        for number, (move, _) in enumerate(slot):
            inside = _sums(spans[:number] + spans[number + 1 :])
            along = np.min([along, *(np.abs(move - past - span) for span in inside)], axis=0)
        back = np.min([back, *(np.abs(past + span) for span in _sums(spans))], axis=0)
        past = past + sum(spans)
    return along, back


def _sums(moves: Sequence[IntArray | int]) -> list[IntArray | int]:
    """Sums of any of the movements."""
    sums: list[IntArray | int] = [0]
    for move in moves:
        sums += [total + move for total in sums]
    return sums


def moved_words(plain: IntArray, box: IntArray, every: IntArray | int, movement: Movement) -> IntArray:
    """Least words of all deliveries of tiles that loops move along one rank.

    Of the `every` positions in the rank, most are reached by the innermost moving loop, one of the loop's bound by
    another loop over the rank's dimensions, and one by a loop over other dimensions, or first of all.

    Parameters
    ----------
    plain
        Words of all tiles, each delivered whole.
    box
        Extent of the tile in the rank.
    every
        Positions of the tile along the rank.
    """
    bound, *moves = movement
    lead, along, back = (np.minimum(move, box) for move in moves)
    begun = np.maximum(every // bound, 1)
    words: IntArray = plain // (box * every) * ((every - begun) * lead + (begun - 1) * along + back)
    return words
