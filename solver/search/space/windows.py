"""Traffic of dataspaces whose tiles overlap: sliding windows, such as the inputs of a convolution."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

import numpy as np

from solver.search.arrays import BoolArray, IntArray
from solver.search.space.dataspaces import Component, DataspaceView, Tables
from solver.search.space.lattice import Lattice


@dataclass(frozen=True)
class Unrolling:
    """Spatial factors of the window dimensions above a level, per active dimension (1 for others).

    ``above`` multiplies all fanouts above the level, ``directly`` those between it and the next level
    outside. All ones is always a valid, if weaker, assumption.
    """

    above: tuple[int, ...]
    directly: tuple[int, ...]


def sliding_words(
    view: DataspaceView,
    tables: Tables,
    lattice: Lattice,
    component: int,
    unrolling: Unrolling,
    leading: Collection[int],
) -> IntArray:
    """Least words of all deliveries of tiles that cover the dataspace once, if `component` slides.

    Only one component slides: as soon as a loop moves another one, tiles are delivered whole. What an
    instance receives is at least the union of its tiles. It is also no less than what the innermost moving
    loop brings each time it advances, whatever the loops outside of it do. It runs over one of the dimensions
    `leading`.

    Returns
    -------
    IntArray
        A lower bound in words of all instances, shape (lattice size,).

    References
    ----------
    docs/search.md, "Sliding windows", has the lemma, and what holds where strides never meet.
    """
    part = view.components[component]
    ratios = {d: lattice.bounds[d] // lattice.side(d) for d in part.dims}
    box = lattice.across(tables.boxes[component], part.dims)
    covered = _covered(tables, lattice, view, component)
    plain = lattice.across(tables.plain_words, sorted(view.relevant))
    others = math.prod(
        # Loops in both directions may lead back: then it is not certain that tiles elsewhere count apart.
        own.window_words if part.turns and own.sliding else _covered(tables, lattice, view, number)
        for number, own in enumerate(view.components)
        if number != component
    )
    instances = math.prod(unrolling.above[d] for d in part.dims)
    union = -(-part.window_words // instances)
    words: IntArray = others * np.minimum(covered, union * instances)
    if part.steady:
        positions = {d: -(-ratios[d] // unrolling.above[d]) for d in part.dims}
        leads = [d for d in part.dims if d in leading]
        led = [_led_words(plain, box, lattice, part, d, positions, unrolling) for d in leads]
        words = np.maximum(words, reduce(np.minimum, led, plain))
    return lattice.spread(words)


def _covered(tables: Tables, lattice: Lattice, view: DataspaceView, component: int) -> IntArray:
    """Words of all tiles in a component, an axis per dimension."""
    dims = view.components[component].dims
    box = lattice.across(tables.boxes[component], dims)
    covered: IntArray = box * math.prod(lattice.bounds[d] // lattice.side(d) for d in dims)
    return covered


def _led_words(
    plain: IntArray,
    box: IntArray,
    lattice: Lattice,
    part: Component,
    dim: int,
    positions: Mapping[int, IntArray],
    unrolling: Unrolling,
) -> IntArray:
    """Least words if the innermost moving loop is over `dim`, where it has a loop at all.

    Consecutive tiles lie a tile's step times the directly unrolled factor apart. If no loop over another
    dimension of the component can come back to a tile, the tiles make up rows. Otherwise one may bring
    nothing for its first position: the more positions, the less it saves, so the fewest, a prime, bound
    the saving.
    """
    step = lattice.side(dim) * (part.step(dim) * unrolling.directly[dim])
    fresh = np.minimum(step, box)
    prime = lattice.least_prime(dim)
    others = [d for d in part.dims if d != dim]
    straight = math.prod(positions[d] for d in others) == 1
    if len(others) == 1:
        straight = straight | _never_meet(lattice, part, dim, others[0], unrolling)
    count = np.where(straight, positions[dim], prime)
    row = np.where(straight, box, 0) + (count - 1) * fresh
    led: IntArray = np.where(positions[dim] > 1, plain // (box * count) * row, plain)
    return led


def _never_meet(lattice: Lattice, part: Component, dim: int, other: int, unrolling: Unrolling) -> BoolArray:
    """Tiles that no loop over either dimension is compared with again, if one over `dim` leads.

    It would take a movement along one dimension that equals one along the other, or one that is a lead
    farther while tiles overlap: a common multiple of the steps of both, and none is so short.
    """
    steps, farthest, sides, longest = [], [], [], []
    for d in (dim, other):
        coefficient, bound = part.step(d), lattice.bounds[d]
        prime = lattice.least_prime(d)
        extents = lattice.side(d)
        steps.append(coefficient * unrolling.directly[d] * extents)
        farthest.append((coefficient * bound - steps[-1]) // (prime - 1))
        longest.append(coefficient * (bound // prime))
        sides.append(coefficient * (extents - 1))
    box = 1 + sides[0] + sides[1]
    ahead = farthest[0] + np.where(steps[0] < box, np.minimum(box - 1, longest[0]), 0)
    apart: BoolArray = np.lcm(steps[0], steps[1]) > np.minimum(ahead, farthest[1])
    return apart


OFTEN = 1 << 62
"""Iterations of loops that are not known."""


@dataclass(frozen=True)
class Returns:
    """How often loops farther out meet a tile again that overlaps with the one at hand.

    Each time, the innermost loop that moves the window begins anew. Of the nearest slot, the loops that may
    return have `here` iterations together, of the slots outside of it `farther`: 1 where there are none.
    Loops with `between` iterations lie inside of the latter for certain. Farther in than all of these, loops
    with `onward` iterations do not return.

    Parameters
    ----------
    here, farther, between
        Numbers, or arrays that numpy broadcasts with the words; `OFTEN` where they are not known.
    """

    here: IntArray | int = 1
    farther: IntArray | int = 1
    between: IntArray | int = 1
    onward: int = 1

    def only(self, candidate: int) -> Returns:
        """Those of one of several candidates."""
        here, farther, between = (
            int(own[candidate]) for own in map(np.asarray, (self.here, self.farther, self.between))
        )
        return Returns(here, farther, between, self.onward)

    def saved(self, words: IntArray) -> IntArray:
        """At most the words that returns save, of as many that are due to first positions."""
        words = -(-words // self.onward)
        outside = words // self.between
        again = np.where(np.asarray(self.farther) > 1, -(-words // self.between) - outside // self.farther, 0)
        saved: IntArray = np.minimum(words - words // self.here + again, words)
        return saved


NEVER, ALWAYS = Returns(), Returns(farther=OFTEN)


def meeting(
    moves: Sequence[IntArray],
    lead: IntArray | int,
    overlapping: BoolArray,
    passed: IntArray | int,
    inside: Callable[[int, int], bool] = lambda inner, outer: False,
) -> Iterator[BoolArray]:
    """Which of the loops of one slot may meet a tile of a lead's again, as far as their order is known.

    Such a loop moves by what the loops inside of it add up to, the slot's and farther in `passed`, or by the
    lead's movement more if tiles overlap.
    """
    numbers = range(len(moves))
    for number, move in enumerate(moves):
        summed = passed + sum(moves[n] for n in numbers if inside(n, number))
        tied = [n for n in numbers if n == number or inside(n, number) or inside(number, n)]
        others = [moves[n] for n in numbers if n not in tied]
        jumps = [move - summed - sum(own) for n in range(len(others) + 1) for own in combinations(others, n)]
        meets = [(jump == 0) | overlapping & (jump == lead) for jump in jumps]
        yield np.logical_or.reduce(meets) & (move > 0)


def led_words(
    plain: IntArray,
    box: IntArray,
    count: IntArray | int,
    move: IntArray | int,
    returns: Returns,
    least: IntArray,
) -> IntArray:
    """Words of all deliveries when one loop is the innermost one that moves a component.

    Consecutive tiles overlap along that loop only. A loop farther out that happens to continue the
    movement, or to return to the tile at hand, saves its first position at most.
    """
    fresh = np.minimum(move, box)
    share = plain // (box * count)
    whole = share * (box + (count - 1) * fresh)
    words: IntArray = np.minimum(whole, np.maximum(least, whole - returns.saved(share * box)))
    return words


def relevant_words(
    view: DataspaceView, tables: Tables, lattice: Lattice, unrolling: Unrolling, leading: Collection[int]
) -> IntArray:
    """Least words of all deliveries of tiles that cover the dataspace once, shape (lattice size,).

    The innermost loop that moves the tile, if there is one, runs over one of the dimensions `leading`.
    """
    words = tables.plain_words
    for number, component in enumerate(view.components):
        if component.sliding and not frozenset(component.dims).isdisjoint(leading):
            words = np.minimum(words, sliding_words(view, tables, lattice, number, unrolling, leading))
    return words
