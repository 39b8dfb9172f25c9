"""Least words of dataspaces where the last tile along a dimension may be short."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import reduce
from itertools import product

import numpy as np

from solver.search.arrays import BoolArray, IntArray
from solver.search.space.counts import CountLattice
from solver.search.space.dataspaces import Component, DataspaceView, covered
from solver.search.space.windows import LeastWords, Unrolling, words_apart


def words_along(
    view: DataspaceView, lattice: CountLattice, unrolling: Unrolling, leading: Collection[int]
) -> LeastWords:
    """Least words of deliveries with remainders, as tables along the axes that index the dataspace.

    Parameters
    ----------
    leading
        Dimensions: the innermost loop that moves the tile, if there is one, runs over one of these.

    References
    ----------
    docs/search.md, "Remainders".
    """
    unit: IntArray = np.ones((1,) * len(lattice.bounds), dtype=np.int64)
    plain = math.prod((covered(component, lattice) for component in view.components), start=unit)
    repeated = begun = plain
    for component, dim in ((own, d) for own in view.components for d in own.dims if d in leading):
        if not component.sliding:
            continue
        own, live = covered(component, lattice), lattice.most_along(dim) > unrolling.above[dim]
        again, first = _words_if_leads(view, component, lattice, unrolling, dim, plain // own, own)
        begun = np.where(live, np.minimum(begun, first), begun)
        repeated = np.where(live, np.minimum(repeated, again), repeated)
    return LeastWords(repeated, begun if view.window_dims else plain)


def _tile_words(component: Component, lattice: CountLattice, longest: bool = False) -> IntArray:
    """Words of a tile along a component: of the shortest of which there are so many, or of the longest."""
    side = lattice.longest if longest else lattice.side
    box: IntArray = np.ones((1,) * len(lattice.bounds), dtype=np.int64)
    for rank in component.ranks:
        box = box * (1 + sum(abs(c) * (side(d) - 1) for d, c in rank))
    return box


def _words_if_leads(
    view: DataspaceView,
    component: Component,
    lattice: CountLattice,
    unrolling: Unrolling,
    dim: int,
    share: IntArray,
    own: IntArray,
) -> tuple[IntArray, IntArray]:
    """Least words each time that tiles are repeated, and at first, if a loop over `dim` moves windows.

    If no other loop moves the tile along the component, each delivery brings what a step does at least: the
    first ones of passes, too, go on to the next tile or back by a whole pass, unless it has one iteration
    only. Otherwise the first tile of a pass brings what `_least_start` says. At first whole tiles come, too.
    """
    box = _tile_words(component, lattice)
    none = np.zeros_like(own)
    if not component.linear or lattice.grains:
        return none, none + 1
    step, spans = _window_moves(component, lattice, unrolling)
    others = sum((own for d, own in spans.items() if d != dim), np.zeros_like(box))
    only = others == 0
    start = np.where(only, np.minimum(step[dim], box), _least_start(component, dim, step, spans, box))
    led = _moved_along(component, lattice, unrolling, dim, own, start, only)
    steps = led
    if len(component.dims) == 2:
        steps = np.maximum(led, _steps_along(component, lattice, unrolling, dim, start, only))
    back = np.clip(step[dim] - others * (2 if component.turns else 1), 0, box)
    again = share * np.maximum(steps + np.where(only, 0, np.maximum(back - start, 0)), 0)
    # When the tile moves along other components, a loop over `dim` goes back; at first the tile comes whole.
    used = math.prod(unrolling.used[d] for d in component.dims)
    first = used * _beyond_start(component, lattice, unrolling, dim, start, only)
    begun = led * share + first * _first_tiles(view, component, lattice, unrolling)
    if not component.turns:
        begun = begun + _advances(view, component, lattice, unrolling, dim, start)
    return again, np.maximum(begun, again)


def _window_moves(
    component: Component, lattice: CountLattice, unrolling: Unrolling
) -> tuple[dict[int, IntArray], dict[int, IntArray]]:
    """Words by which loops over each dimension move a window: one iteration at least, all of them at most."""
    steps, spans = {}, {}
    for d in component.dims:
        words = abs(component.coefficient(d))
        steps[d] = words * lattice.side(d) * unrolling.directly[d]
        several = lattice.most_along(d) > unrolling.above[d]
        spans[d] = np.where(several, words * (lattice.bounds[d] - lattice.side(d)), 0)
    return steps, spans


def _least_start(
    component: Component,
    dim: int,
    steps: Mapping[int, IntArray],
    spans: Mapping[int, IntArray],
    box: IntArray,
) -> IntArray:
    """Words that the first tile of a pass brings, at least, if a loop over `dim` leads whose passes go back.

    One loop goes on to its next iteration, and those inside of it go back to their first one, the lead among
    them. If other loops along the window go back or on, they do so by a step at least.
    """
    step, back = steps[dim], spans[dim]
    others = {d: own for d, own in spans.items() if d != dim}
    every: IntArray = sum(others.values(), np.zeros_like(box))
    if component.turns:
        return np.zeros_like(every + box)
    least = step
    for d, own in others.items():
        # The lead goes on, another one goes back; another one goes on, and the lead goes back.
        again = np.maximum(step - every, steps[d] - back)
        along = np.maximum(steps[d] - back - (every - own), step - own)
        least = np.where(own > 0, np.minimum(least, np.minimum(again, along)), least)
    return np.clip(least, 0, box)


def _beyond_start(
    component: Component,
    lattice: CountLattice,
    unrolling: Unrolling,
    dim: int,
    start: IntArray,
    only: BoolArray | bool,
) -> IntArray:
    """Words beyond `start` of a whole tile, at least, in one instance; where loops over `dim` lead."""
    # Longer tiles overlap less, if a step is all that is known of their start.
    longer = np.where(only, lattice.longest(dim) - lattice.side(dim), 0)
    beyond = abs(component.coefficient(dim)) * (unrolling.directly[dim] - 1) * longer
    overlap: IntArray = np.maximum(_tile_words(component, lattice) - start - beyond, 0)
    return overlap


def _first_tiles(
    view: DataspaceView, component: Component, lattice: CountLattice, unrolling: Unrolling
) -> IntArray:
    """Words along other components of tiles that share none with those before, at least, in all instances."""
    words: IntArray = np.ones((1,) * len(lattice.bounds), dtype=np.int64)
    for other in (own for own in view.components if own is not component):
        words = words * (
            _first_along(other, lattice, unrolling) if other.sliding else covered(other, lattice)
        )
    return words


def _first_along(component: Component, lattice: CountLattice, unrolling: Unrolling) -> IntArray:
    """Words along a window: of an instance all words of its first tile, and what steps bring."""
    used = [unrolling.used[d] for d in component.dims]
    box, full = _tile_words(component, lattice), math.prod(max(own - 1, 1) for own in used)
    # Of several instances the last one may have a short tile.
    least = full * box + math.prod(used) - full
    if not component.linear:
        return least
    own = covered(component, lattice)
    steps, spans = _window_moves(component, lattice, unrolling)
    moving = {d: span > 0 for d, span in spans.items()}
    several = sum(moving.values(), np.zeros_like(box))
    for d, moves in moving.items():
        step = np.minimum(steps[d], box)
        led = _moved_along(component, lattice, unrolling, d, own, step, True)
        more = led + math.prod(used) * _beyond_start(component, lattice, unrolling, d, step, True)
        least = np.where((several == 1) & moves, np.maximum(least, more), least)
    return np.where(several == 0, own, least)


def _advances(
    view: DataspaceView,
    component: Component,
    lattice: CountLattice,
    unrolling: Unrolling,
    dim: int,
    start: IntArray,
) -> IntArray:
    """Words beyond `start`, and beyond a step, that come when other loops along a window advance, at least.

    A loop over `dim` leads. Each of the others comes to all of its tiles, to all but the first by advancing.
    """
    step, spans = _window_moves(component, lattice, unrolling)
    box, every = _tile_words(component, lattice), sum(spans.values())
    # After a pass of a single tile such a delivery counts as a step already.
    known = np.maximum(start, np.minimum(step[dim], box))
    words = np.zeros_like(box + start)
    for d in (own for own in component.dims if own != dim):
        more = np.maximum(np.minimum(step[d] - (every - spans[d]), box) - known, 0)
        used = math.prod(unrolling.used[other] for other in component.dims if other != d)
        advances = np.maximum(lattice.tiles_along(d) - unrolling.used[d], 0)
        words = words + np.where(spans[d] > 0, more * advances * used, 0)
    for other in (own for own in view.components if own is not component):
        still = sum(_window_moves(other, lattice, unrolling)[1].values()) == 0 if other.linear else False
        any_tile = math.prod(unrolling.used[d] for d in other.dims)
        own = covered(other, lattice)
        words = words * (np.where(still, own, any_tile) if other.sliding else own)
    return words


def _most_starts(component: Component, lattice: CountLattice, unrolling: Unrolling, dim: int) -> IntArray:
    """Deliveries of all instances, at most, that begin a pass of the lead and may bring less than its steps.

    After a pass of a single tile the next one begins with a whole tile, so that two such passes count as one
    of two tiles; but nothing comes after the last pass. It may be one of a single tile in each instance whose
    number of tiles is odd.
    """
    tiles = lattice.tiles_along(dim)
    rows = math.prod(lattice.tiles_along(d) for d in component.dims if d != dim)
    beside = math.prod(unrolling.above[d] for d in component.dims if d != dim)
    odd = np.minimum(tiles, unrolling.above[dim]) * beside
    most: IntArray = np.minimum(tiles * rows, (tiles * rows + odd) // 2)
    if beside > 1:
        return most
    return np.where(rows > 1, rows * (tiles // 2) + tiles % 2, most)


def _moved_along(
    component: Component,
    lattice: CountLattice,
    unrolling: Unrolling,
    dim: int,
    own: IntArray,
    start: IntArray,
    only: BoolArray | bool,
) -> IntArray:
    """Least words that a loop over `dim` brings along a window, the first tile of each pass so many.

    Where it is the `only` one that moves the window, these bring what a step does. Short tiles lack words of
    whole ones, so that the least may be negative.

    As a function of the extents that leave so many tiles this is concave: its least is at the shortest or the
    longest ones.
    """
    number = math.prod(lattice.tiles_along(d) for d in component.dims)
    starts = _most_starts(component, lattice, unrolling, dim)
    (rank,) = component.ranks
    moved = []
    for ends in product((False, True), repeat=len(component.dims)):
        side = {
            d: lattice.longest(d) if end else lattice.side(d)
            for d, end in zip(component.dims, ends, strict=True)
        }
        box = 1 + sum(abs(c) * (side[d] - 1) for d, c in rank)
        step = np.minimum(abs(component.coefficient(dim)) * side[dim] * unrolling.directly[dim], box)
        words = (number - starts) * step + starts * np.where(only, step, np.minimum(start, step))
        moved.append(words - (number * box - own))
    least: IntArray = reduce(np.minimum, moved)
    return least


def _steps_along(
    component: Component,
    lattice: CountLattice,
    unrolling: Unrolling,
    dim: int,
    start: IntArray,
    only: BoolArray | bool,
) -> IntArray:
    """Least words along a window of two dimensions, of deliveries that begin with no whole tile.

    A step along a row of tiles that are short along the other dimension brings no more than these hold, and
    all other rows are full.
    """
    (other,) = (d for d in component.dims if d != dim)
    tiles, beside = lattice.tiles_along(dim), lattice.tiles_along(other)
    starts = tiles // 2
    more = _most_starts(component, lattice, unrolling, dim) - beside * starts
    words_each, words_other = (abs(component.coefficient(d)) for d in (dim, other))
    moved = []
    for end, other_end in product((False, True), repeat=2):
        side = lattice.longest(dim) if end else lattice.side(dim)
        width = lattice.longest(other) if other_end else lattice.side(other)
        short = lattice.bounds[other] - (beside - 1) * width
        least = lost = np.zeros_like(tiles * beside)
        full = words_each * side * unrolling.directly[dim]
        for rows, extent in ((beside - 1, width), (1, short)):
            step = np.minimum(full, 1 + words_each * (side - 1) + words_other * (extent - 1))
            # The tile before may be longer: it has what a short one lacks of the words that come.
            began = np.where(only, step, np.clip(start - words_other * (width - extent), 0, step))
            least = least + rows * ((tiles - starts) * step + starts * began)
            lost = np.maximum(lost, step - began)
        # The last tile along the loop may be short, too: its step brings as much less.
        shorter = np.minimum(words_each * (side * tiles - lattice.bounds[dim]), full)
        moved.append(least - more * lost - beside * shorter)
    words: IntArray = reduce(np.minimum, moved)
    return words


def _words_of_all(part: Component, lattice: CountLattice, unrolling: Unrolling) -> int:
    """Words along a window of all instances together, at least.

    Sums of sets of integers have at least as many values as these have in all, less one for each set but one.
    Instances that have more to do, or of which more have something to do, do not have fewer.
    """
    used = {d: min(unrolling.used[d], lattice.bounds[d]) for d in part.dims}
    every = math.prod(used.values())
    return sum(lattice.bounds[d] * (every // used[d]) for d in part.dims) - (len(used) - 1) * every


def union_along(view: DataspaceView, lattice: CountLattice, unrolling: Unrolling) -> IntArray:
    """Words in the union of each instance's tiles, over all instances, at least, along the axes."""
    union: IntArray = np.ones((1,) * len(lattice.bounds), dtype=np.int64)
    for part in view.components:
        words = covered(part, lattice)
        if part.sliding:
            least = max(part.window_words, _words_of_all(part, lattice, unrolling))
            apart = 0 if lattice.grains else words_apart(part, lattice, unrolling)
            words = np.minimum(words, np.maximum(least, apart))
        union = union * words
    return union
