"""Gating and skipping: how probable it is that accesses of a level are useless, and units that see it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from model.counting.words import extents
from model.sparse.density import Distribution
from model.sparse.nest import Bounds, FullLoop, FullNest
from model.sparsity import Conditional


class Saved(NamedTuple):
    """What a unit saves of a dataspace's accesses at a level.

    Parameters
    ----------
    probability
        Of an access to be useless.
    skips
        Whether useless accesses are skipped, and take no time; else they are gated.
    empty
        By condition, the probability that it is zero, of those that computations meet.
    computed
        Probability of a computation to be one that a useless access serves; None if it is the same. With
        remainders an access may serve fewer computations than others.
    """

    probability: float
    skips: bool
    empty: tuple[tuple[str, float], ...] = ()
    computed: float | None = None


@dataclass(frozen=True)
class _Target:
    """The loop whose tile an access to the target serves, and what else moves meanwhile.

    Parameters
    ----------
    loop
        The loop.
    box, inside
        Iterations of the target's tile, a single one for a scalar, and the loops that go through it.
    held
        Loops outside during which the target's tile stays, which are part of the conditions' tiles.
    scalar
        Whether each access is for one iteration alone.
    """

    loop: FullLoop
    box: Bounds
    inside: tuple[FullLoop, ...]
    held: tuple[FullLoop, ...]
    scalar: bool

    @property
    def spatial(self) -> bool:
        """Whether the loop lies in space."""
        return self.loop.axis is not None


def empty_conditions(
    nest: FullNest,
    conditional: Conditional,
    position: int,
    block_size: int,
    distributions: dict[str, Distribution],
    by_access: bool,
    defects: bool = False,
) -> dict[str, float]:
    """Probabilities that all words of a condition are zero that meet one access to the target.

    Parameters
    ----------
    position
        Of the level that keeps the target.
    block_size
        Words of one access there.
    distributions
        By dataspace.
    by_access
        Whether they are averages over accesses; else over computations.
    defects
        Whether conditions are found as Timeloop finds them.

    Returns
    -------
    dict of str to float
        By condition. With `defects`, those are left out that the order of the loops makes useless.

    Notes
    -----
    docs/sparse.md, "Gating and skipping".
    """
    target = _served_loop(nest, conditional.target, position, defects)
    meetings = (
        (name, _meeting(nest, target, conditional.target, name, block_size, defects))
        for name in conditional.conditions
    )

    once = frozenset(nest.problem.dims) - nest.space(conditional.target).dims if by_access else frozenset()

    def empty(name: str, met: _Meeting) -> float:
        return nest.mean(
            met.box, lambda own: distributions[name].empty(nest.tile(name, own)), met.loops, once
        )

    return {name: empty(name, met) for name, met in meetings if met is not None}


def useless(empty: Iterable[float]) -> float:
    """Probability that an access is useless as a condition is zero; conditions are taken as independent."""
    effectual = 1.0
    for chance in empty:
        effectual *= 1 - chance
    return 1 - effectual


def _served_loop(nest: FullNest, name: str, position: int, defects: bool) -> _Target:
    """Find the loop that an access serves: the innermost one that moves the target.

    Children that want words of their own are not served together. With `defects` they are, an iteration each.
    """
    served = nest.served_by(name, position)
    innermost = nest.child(name, position) is None
    dims = nest.space(name).dims
    index = _innermost_loop(nest, served, dims) if innermost else _moving_loop(nest, served, dims)
    loop = nest.loops[index]
    scalar = innermost and loop.axis is None
    box = dict.fromkeys(nest.problem.dims, 1) if scalar else nest.boxes[index]
    outside = nest.loops[index + 1 : served.stop]
    held = tuple(_loops_of_target(outside, loop.axis is not None, innermost, dims))
    if scalar and not defects:
        held = tuple(own for own in held if own.dim not in dims)
    return _Target(loop, box, () if scalar else nest.loops[: index + 1], held, scalar)


def _innermost_loop(nest: FullNest, served: range, dims: frozenset[str]) -> int:
    """Return the first temporal loop, or of spatial ones the first that moves the target, else the last."""
    for index in served:
        if nest.loops[index].axis is None or nest.loops[index + 1].axis is None:
            return index
        if nest.loops[index].dim in dims and not nest.loops[index].trivial:
            return index
    raise AssertionError("a level has temporal loops")


def _moving_loop(nest: FullNest, served: range, dims: frozenset[str]) -> int:
    moving = (i for i in served if nest.loops[i].dim in dims and not nest.loops[i].trivial)
    return next(moving, served.stop - 1)


def _loops_of_target(
    outside: Iterable[FullLoop], spatial: bool, innermost: bool, dims: frozenset[str]
) -> Iterator[FullLoop]:
    """Yield spatial loops, and outside of a spatial target the temporal ones up to one that moves it."""
    waiting = spatial
    for loop in outside:
        if loop.trivial:
            continue
        if loop.axis is not None:
            yield loop
            continue
        stays = not innermost and loop.dim not in dims
        if waiting and stays:
            yield loop
        elif spatial:
            waiting = False


class _Meeting(NamedTuple):
    """Iterations in which a condition meets an access, and the loops through these; None for blocks."""

    box: Bounds
    loops: frozenset[FullLoop] | None


def _meeting(
    nest: FullNest, target: _Target, name: str, condition: str, block_size: int, defects: bool
) -> _Meeting | None:
    """Return where a condition meets one access to the target; None if it is not in order, with `defects`."""
    box = dict(target.box)
    for loop in target.held:
        box[loop.dim] *= loop.bound
    own, other = nest.space(name).dims, nest.space(condition).dims
    met = () if target.scalar else (target.loop, *target.held)
    shared = [loop for loop in met if loop.dim in own and loop.dim in other]
    if defects and target.spatial and _is_moved_outside(met, shared, other):
        return None
    factors: dict[str, int] = {}
    for loop in shared:
        factors[loop.dim] = factors.get(loop.dim, 1) * loop.bound
    words = math.prod(extents(nest.space(name), target.box)) / math.prod(factors.values())
    scaling = float(math.ceil(block_size / words))
    loops = frozenset((*target.inside, *target.held)).difference(shared) if scaling == 1 else None
    for dim in (dim for dim in nest.problem.dims if dim in factors):
        box[dim] = math.ceil(box[dim] / (factors[dim] / scaling))
        scaling /= factors[dim]
    if scaling > 1:
        box[target.loop.dim] = int(box[target.loop.dim] * scaling)
    return _Meeting(box, loops)


def _is_moved_outside(
    met: Sequence[FullLoop], shared: Sequence[FullLoop], condition_dims: frozenset[str]
) -> bool:
    """Whether a loop outside of one that moves target and condition together moves the condition."""
    return bool(shared) and any(loop.dim in condition_dims for loop in met[met.index(shared[0]) + 1 :])


def chosen(options: Sequence[tuple[float, float]]) -> int:
    """Return which option saves most, the last of equals.

    Parameters
    ----------
    options
        Value of all accesses that an option is about, and the probability that one of them is useless.
    """
    best = 0.0
    place = 0
    for index, (value, probability) in enumerate(options):
        if value * probability >= best:
            best, place = value * probability, index
    return place


def stronger(known: Saved | None, other: Saved) -> Saved:
    """Return which of two units on the same accesses counts: the one that saves more, else the first."""
    return other if known is None or known.probability < other.probability else known
