"""Least words of dataspaces whose tiles overlap: sliding windows, such as the inputs of a convolution."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from typing import NamedTuple

import numpy as np

from model.counting import ACCELFORGE, EXACT, TIMELOOP, Counting, rule_of
from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.space.dataspaces import Component, DataspaceView, TileTables
from solver.search.space.lattice import Lattice

NO_OVERLAP = 1 << 40
"""Words by which no loop moves a tile: it shares nothing with the one before."""

ROUNDING = 1e-9
"""Shares of tiles err by less, relatively."""


@dataclass(frozen=True)
class Unrolling:
    """Spatial factors of the window dimensions above a level, per active dimension (1 for others).

    ``above`` multiplies all fanouts above the level, ``directly`` those between it and the next level
    outside. All ones is always a valid, if weaker, assumption. Only bounds with remainders depend on
    ``used``: how many instances have something to do, at least.
    """

    above: tuple[int, ...]
    directly: tuple[int, ...]
    used: tuple[int, ...] = ()


class LeastWords(NamedTuple):
    """Least words of all deliveries of tiles, over all instances that index them differently.

    Loops that do not index the dataspace repeat the deliveries, but for the innermost ones, which leave it in
    place. With n iterations of such loops, n - 1 times `repeated` and once `begun` are delivered at least.
    """

    repeated: IntArray
    begun: IntArray


class Lead(NamedTuple):
    """A loop that may be the innermost one that moves a tile along a component, all figures least ones.

    Parameters
    ----------
    dim
        What it runs over.
    live
        Where there is such a loop.
    bound, move
        Its iterations, and words by which each moves the tile.
    along, back
        Words by which other loops move the tile when they advance: loops over the component's dimensions, and
        all others, for loops inside go back to their first iteration.
    """

    dim: int
    live: BoolArray
    bound: IntArray | int
    move: IntArray | int
    along: IntArray | int
    back: IntArray | int

    def at(self, places: IntArray | int) -> Lead:
        """The lead at some entries of its arrays."""
        bound, move, along, back = (f[places] if isinstance(f, np.ndarray) else f for f in self[2:])
        return Lead(self.dim, self.live[places], bound, move, along, back)


class Along(NamedTuple):
    """How loops move a tile along one component of its ranks.

    Parameters
    ----------
    box
        Words of the tile along it.
    every
        Positions of the tile along it, in one instance.
    leads
        Loops that may be the innermost ones to do so.
    """

    box: IntArray
    every: IntArray | int
    leads: tuple[Lead, ...]


def _as_executed(component: Component, lead: Lead, iterations: IntArray | int) -> Lead:
    """The lead as it is."""
    del component, iterations
    return lead


def _by_timeloop(component: Component, lead: Lead, iterations: IntArray | int) -> Lead:
    """The lead by Timeloop's rule, which looks at second iterations only, if other loops are not known.

    One over the component's dimensions may seem to move nothing. Any other one brings the whole tile, as
    it seems to go back; where dimensions move the tile both ways, it may seem to go on.
    """
    del iterations
    return lead._replace(along=0, back=0 if component.turns else NO_OVERLAP)


def _by_place(component: Component, lead: Lead, iterations: IntArray | int) -> Lead:
    """The lead by AccelForge's rule, by which only the innermost loop of all keeps what overlaps."""
    del component
    return lead._replace(bound=iterations, along=NO_OVERLAP, back=NO_OVERLAP)


_LEADS: dict[Counting, Callable[[Component, Lead, IntArray | int], Lead]] = {
    EXACT: _as_executed,
    TIMELOOP: _by_timeloop,
    ACCELFORGE: _by_place,
}
"""What a lead is by a rule, given the most iterations that its loop may have."""


def least_words(plain: IntArray, parts: Sequence[Along], first: Callable[[Lead], BoolArray]) -> LeastWords:
    """Least words of deliveries of tiles that move along several components.

    Parameters
    ----------
    plain
        Words of all tiles, each delivered whole.
    parts
        Every component along which tiles may overlap.
    first
        Where a lead may be the innermost loop that moves the tile at all.

    References
    ----------
    docs/search.md, "Sliding windows".
    """
    repeated = begun = plain
    for number, lead in ((number, lead) for number, part in enumerate(parts) for lead in part.leads):
        where = first(lead)
        if not np.any(where):
            continue
        words = _led(plain, parts[number], lead, [*parts[:number], *parts[number + 1 :]])
        repeated = np.where(where, np.minimum(repeated, words.repeated), repeated)
        begun = np.where(where, np.minimum(begun, words.begun), begun)
    return LeastWords(repeated, begun)


def _led(plain: IntArray, part: Along, lead: Lead, others: Sequence[Along]) -> LeastWords:
    """Least words of deliveries if one loop is the innermost that moves the tile.

    Of the positions along its component, most are reached by this loop, one of its bound by another loop
    over the component's dimensions, and one by a loop over others, or first of all.
    """
    box, every = part.box, part.every
    move, along, back = (np.minimum(words, box) for words in (lead.move, lead.along, lead.back))
    starts = np.maximum(every // lead.bound, 1)
    led = (every - starts) * move
    # Other loops may lie between those over the component's dimensions: then more deliveries are theirs.
    again = led + (starts - 1) * np.minimum(along, back)
    share = plain // (box * every)
    if not others:
        return LeastWords(share * (again + back), share * (led + (starts - 1) * along + box))
    crossed = math.prod(other.every for other in others)
    kept = 1.0 * (box - back) * _overlap(others) * (1 + ROUNDING)
    whole = crossed * box - (crossed - 1) * np.ceil(kept).astype(np.int64)
    return LeastWords(share * (again + back), share * again + share // crossed * whole)


def _overlap(parts: Sequence[Along]) -> FloatArray | float:
    """Share of a tile, at most, that it has in common with the one before when loops move it along `parts`.

    It is the mean over as many movements as there are positions along one part. Loops along several parts may
    lie in any order, so that there each movement is taken to have the most in common.
    """
    most: FloatArray | float = 0.0
    for part, lead in ((own, lead) for own in parts for lead in own.leads):
        by_lead, by_others = (np.maximum(1 - words / part.box, 0.0) for words in (lead.move, lead.along))
        shared = np.maximum(by_lead, by_others)
        if len(parts) == 1:
            starts = np.maximum(part.every // lead.bound, 1)
            steps = np.maximum(part.every - 1, 1)
            shared = ((part.every - starts) * by_lead + (starts - 1) * by_others) / steps
        most = np.maximum(most, np.where(lead.live, shared, 0.0))
    return most


def relevant_words(
    view: DataspaceView,
    tables: TileTables,
    lattice: Lattice,
    unrolling: Unrolling,
    leading: Collection[int],
    counting: Counting,
) -> LeastWords:
    """Least words of deliveries, shape (lattice size,).

    Parameters
    ----------
    leading
        Dimensions: the innermost loop that moves the tile, if there is one, runs over one of these.
    """
    parts = []
    for number, component in enumerate(view.components):
        if component.sliding:
            # Most of the work is done along the few axes of a component.
            box = tables.boxes[number]
            sides = {d: lattice.side(d) for d in component.dims}
            parts.append(along_component(component, box, sides, lattice, unrolling, counting))
    none = np.zeros((1,) * len(lattice.counts), dtype=np.bool_)
    plain = tables.plain_words.reshape(lattice.counts)
    words = least_words(plain, parts, lambda lead: lead.live if lead.dim in leading else none)
    return LeastWords(*(table.reshape(lattice.size) for table in words))


def along_component(
    component: Component,
    box: IntArray,
    extents: Mapping[int, IntArray],
    lattice: Lattice,
    unrolling: Unrolling,
    counting: Counting,
) -> Along:
    """How loops move tiles along a component, as far as the tiles tell.

    Parameters
    ----------
    box
        Words of the tiles along it.
    extents
        Those of the tiles in its dimensions; arrays that numpy broadcasts with `box`.
    """
    positions = {d: -(-(lattice.bounds[d] // x) // unrolling.above[d]) for d, x in extents.items()}
    moves, spans = {}, {}
    for d, extent in extents.items() if component.linear else ():
        step = abs(component.coefficient(d))
        moves[d] = extent * (step * unrolling.directly[d])
        spans[d] = np.where(positions[d] > 1, (lattice.bounds[d] - extent) * step, 0)
    leads = tuple(_any_lead(component, lattice, d, positions, moves, spans) for d in component.dims)
    counted = _LEADS[counting]
    leads = tuple(counted(component, lead, np.maximum(positions[lead.dim], 1)) for lead in leads)
    return Along(box, math.prod(positions.values()), leads)


def _any_lead(
    component: Component,
    lattice: Lattice,
    dim: int,
    positions: Mapping[int, IntArray],
    moves: Mapping[int, IntArray],
    spans: Mapping[int, IntArray],
) -> Lead:
    """A loop over `dim` as the innermost one that moves a component, whatever the other loops are.

    Loops over a dimension move it by `moves` at least, and by `spans` at most, all of them together.
    """
    live, bound = positions[dim] > 1, lattice.least_prime(dim)
    if not component.linear:
        return Lead(dim, live, bound, 0, 0, 0)
    back = (bound - 1) * moves[dim]
    others = sum(spans.values()) - spans[dim]
    # Other loops over the same dimension move it on, unless loops over others go back as far.
    along = np.where(positions[dim] >= bound * lattice.least_prime(dim), moves[dim] - others, NO_OVERLAP)
    for d in (d for d in component.dims if d != dim):
        elsewhere = sum(spans.values()) - spans[d]
        jump = np.maximum(moves[d] - elsewhere, back - others)
        along = np.where(positions[d] > 1, np.minimum(along, jump), along)
    if component.turns:
        back = back - others
    return Lead(dim, live, bound, moves[dim], np.maximum(along, 0), np.maximum(back, 0))


def union_words(
    view: DataspaceView, tables: TileTables, lattice: Lattice, unrolling: Unrolling, counting: Counting
) -> IntArray:
    """Words in the union of each instance's tiles, over all instances; or what Timeloop's rule may count."""
    union: IntArray = np.ones(lattice.size, dtype=np.int64)
    for number, part in enumerate(view.components):
        positions = math.prod(lattice.tiles_along(d) for d in part.dims)
        covered = tables.boxes[number] * positions
        if part.sliding:
            instances = math.prod(unrolling.above[d] for d in part.dims)
            # Sums of sets of integers have at least so many values, wherever the tiles of an instance lie.
            reached = 1 + sum(-(-lattice.bounds[d] // unrolling.above[d]) - 1 for d in part.dims)
            window = max(-(-part.window_words // instances), reached) * instances
            apart = 0 if rule_of(counting).looks_once else words_apart(part, lattice, unrolling)
            covered = np.minimum(covered, np.maximum(window, apart))
        union = union * lattice.spread(covered)
    return union


def words_apart(part: Component, lattice: Lattice, unrolling: Unrolling) -> IntArray:
    """Words along a window of two dimensions in all instances, at least, as a table along its axes.

    An instance that has all iterations of one dimension touches as many words around each of its tiles along
    the other one as lie before its next tile, which is as far away as the tiles of its neighbours in between.
    """
    words: IntArray = np.zeros((1,) * len(lattice.bounds), dtype=np.int64)
    for dim, other in permutations(part.dims, 2) if part.linear and len(part.dims) == 2 else ():
        if unrolling.above[other] == 1 and abs(part.coefficient(other)) == 1:
            ends = (lattice.side(dim), lattice.longest(dim))
            apart = (_words_apart(part, lattice, unrolling, dim, lattice.bounds[other], own) for own in ends)
            # As a function of the extents this is concave.
            words = np.maximum(words, reduce(np.minimum, apart))
    return words


def _words_apart(
    part: Component, lattice: Lattice, unrolling: Unrolling, dim: int, others: int, extents: IntArray
) -> IntArray:
    """`words_apart` for tiles of some extents along `dim`, given the iterations of the other dimension."""
    step, tiles = abs(part.coefficient(dim)), lattice.tiles_along(dim)
    busy = np.minimum((unrolling.used or unrolling.above)[dim], tiles)
    each = min(step, others)
    around = others + (extents - 1) * each
    before = np.minimum(step * extents * unrolling.directly[dim], around)
    missing = (tiles * extents - lattice.bounds[dim]) * each
    words: IntArray = (tiles - busy) * before + busy * around - missing
    return words
