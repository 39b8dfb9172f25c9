"""Spatial choices: what each fanout can unroll, and the classes of choices that cost the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import numpy as np

from model.architecture import Fanout
from model.choices import SideOrder
from model.extents import Extents
from model.mapspace import SpatialRules
from solver.search.arrays import TOGETHER, BoolArray, IntArray, alike, distinct, ranges
from solver.search.stopping import Stop, Stopped, never

MOST_CHOICES = 1 << 20
"""Spatial choices, of a stage or of all, that are told apart, at most: each of them takes about 1 kB."""

Factors = tuple[int, ...]


@dataclass(frozen=True)
class FanoutChoice:
    """Factors of one fanout, per active dimension, and the dimensions that lie along X."""

    factors: Factors
    along_x: frozenset[int]


@dataclass(frozen=True, eq=False)
class FanoutChoices:
    """Several choices of a fanout, as arrays with a row each.

    Parameters
    ----------
    factors
        Shape (choices, dimensions).
    along_x
        Which dimensions lie along X, likewise.
    """

    factors: IntArray
    along_x: BoolArray

    def __len__(self) -> int:
        """Number of choices."""
        return len(self.factors)

    def __getitem__(self, place: int) -> FanoutChoice:
        """One of them."""
        along_x = np.flatnonzero(self.along_x[place]).tolist()
        return FanoutChoice(tuple(self.factors[place].tolist()), frozenset(along_x))

    def __iter__(self) -> Iterator[FanoutChoice]:
        """All of them."""
        return map(self.__getitem__, range(len(self)))

    @classmethod
    def together(cls, parts: Sequence[FanoutChoices]) -> FanoutChoices:
        """Those of several, one after the other."""
        return cls(
            np.concatenate([part.factors for part in parts]), np.concatenate([part.along_x for part in parts])
        )


def fanout_choices(
    fanout: Fanout,
    rules: SpatialRules,
    all_dims: Sequence[str],
    active: Sequence[str],
    dims: Sequence[Extents],
    stop: Stop = never,
    allows: Callable[[Factors], bool] | None = None,
) -> FanoutChoices:
    """All factor vectors that `rules`, `allows` and the mesh allow, each with one arrangement on the mesh.

    How the dimensions are arranged along X and Y does not change the cost, so one witness is enough.

    Parameters
    ----------
    active, dims
        The active dimensions, and what extents they may have.
    stop
        Asked now and then.

    Raises
    ------
    Stopped
        Once `stop` answers True, or if there are more than `MOST_CHOICES`.
    """
    none = np.empty((0, len(active)), dtype=np.int64)
    found = [FanoutChoices(none, none > 0)]
    if any(not rule.allows(1) for rule in rules.factors if rule.dim not in active):
        return found[0]
    longest, candidates = max(fanout.mesh_x, fanout.mesh_y), []
    for dim, extents in zip(active, dims, strict=True):
        of_dim = [rule for rule in rules.factors if rule.dim == dim]
        factors = takewhile(lambda factor: factor <= longest, extents.factors(1))
        candidates.append([f for f in factors if all(rule.allows(f) for rule in of_dim)])
    order = SideOrder.of(rules, all_dims)
    for every in _extended_rows(np.ones((1, 0), dtype=np.int64), candidates, fanout.size):
        vectors = every if allows is None else every[[allows(tuple(own)) for own in every.tolist()]]
        found.append(_arranged(fanout, order, active, vectors))
        check_number(sum(map(len, found)), stop)
    return FanoutChoices.together(found)


def check_number(choices: int, stop: Stop) -> None:
    """Raise `Stopped` if so many choices do not fit into memory, or once `stop` answers True."""
    if choices > MOST_CHOICES or stop():
        raise Stopped


def _extended_rows(begun: IntArray, candidates: Sequence[Sequence[int]], room: int) -> Iterator[IntArray]:
    """Rows that begin with those of `begun`, in order, with one of the candidates for each further place.

    Their products are at most `room`.
    """
    if len(begun) == 0:
        return
    if not candidates:
        yield begun
        return
    own = np.array(candidates[0], dtype=np.int64)
    counts = np.searchsorted(own, room // begun.prod(axis=1), side="right")
    ends = np.cumsum(counts)
    cuts = np.searchsorted(ends, np.arange(TOGETHER, ends[-1], TOGETHER))
    for some in np.split(np.arange(len(begun)), cuts):
        rows, places = ranges(np.zeros_like(some), counts[some])
        yield from _extended_rows(np.column_stack((begun[some][rows], own[places])), candidates[1:], room)


def _arranged(fanout: Fanout, order: SideOrder, active: Sequence[str], vectors: IntArray) -> FanoutChoices:
    """Those of several factor vectors that fit the mesh, in the first way that order and split leave."""
    along_x, fits = np.zeros(vectors.shape, dtype=np.bool_), np.zeros(len(vectors), dtype=np.bool_)
    unrolled = vectors > 1
    firsts, kinds = alike(np.packbits(unrolled, axis=1).astype(np.int64))
    for kind, first in enumerate(firsts.tolist()):
        rows = np.flatnonzero(kinds == kind)
        needed = {dim for dim, there in zip(active, unrolled[first].tolist(), strict=True) if there}
        for across, some in _sets_along_x(fanout, order.sets_along_x(needed), active, vectors[rows]):
            along_x[rows[some][:, None], across] = True
            fits[rows[some]] = True
    return FanoutChoices(vectors[fits], along_x[fits])


def _sets_along_x(
    fanout: Fanout, sets: Iterable[tuple[str, ...]], active: Sequence[str], vectors: IntArray
) -> Iterator[tuple[list[int], IntArray]]:
    """Yield sets of dimensions along X, and the rows that fit the mesh with it and none before."""
    place = {dim: d for d, dim in enumerate(active)}
    left, products = np.arange(len(vectors)), vectors.prod(axis=1)
    for dims in sets:
        across = [place[dim] for dim in dims]
        width = math.prod((vectors[left, d] for d in across), start=np.ones_like(left))
        fitting = (width <= fanout.mesh_x) & (products[left] // width <= fanout.mesh_y)
        yield across, left[fitting]
        left = left[~fitting]
        if len(left) == 0:
            return


def nested_use(factor: int, inside: int) -> int:
    """Children under two fanouts that have something to do, at least, of `inside` under each inner one.

    With remainders the last child of the outer one may have work for one child only.
    """
    return inside if factor == 1 else (factor - 1) * inside + 1


def used_above(stages: Sequence[Factors], dims: int) -> Factors:
    """Per dimension, instances below several stages in use, at least, given children that each one uses."""
    used = (1,) * dims
    for own in reversed(stages):
        used = tuple(map(nested_use, own, used))
    return used


@dataclass(frozen=True)
class StageChoice:
    """One choice per fanout between two storage levels, outermost first, and their product."""

    choices: tuple[FanoutChoice, ...]
    factors: Factors

    @cached_property
    def least_used(self) -> Factors:
        """Per dimension, children that have something to do, at least."""
        return used_above([choice.factors for choice in self.choices], len(self.factors))


@dataclass(frozen=True)
class StageClass:
    """Spatial choices of a stage that cost the same up to divisibility.

    ``units`` is the number of children in use per instance above. Per dataspace, ``irrelevant`` is
    the product of the factors that do not index it, and ``distinct`` a lower bound on the number of
    different tiles among the children, exact but for sliding windows. ``windows`` has the factors of
    the dimensions along which tiles overlap, and 1 for the others.
    """

    units: int
    irrelevant: tuple[int, ...]
    distinct: tuple[int, ...]
    windows: Factors
    members: tuple[StageChoice, ...]

    @property
    def key(self) -> tuple[int, Factors, Factors, Factors]:
        """What tells this class from the others of its stage."""
        return self.units, self.irrelevant, self.distinct, self.windows

    @property
    def unrolled(self) -> tuple[Factors, ...]:
        """Per dimension, all factors that members have."""
        return tuple(zip(*(member.factors for member in self.members), strict=True))

    @property
    def least_used(self) -> Factors:
        """Per dimension, children of any member that have something to do, at least."""
        members = (member.least_used for member in self.members)
        return tuple(min(column) for column in zip(*members, strict=True))


@dataclass(frozen=True, eq=False)
class SpatialStage:
    """The classes of a stage, in order. They are made when they are asked for, each once.

    Parameters
    ----------
    fanouts
        The choices of each fanout, outermost first.
    places
        What the members choose of them, class by class: shape (members, fanouts).
    starts
        Where the members of a class begin, shape (classes,).
    units, irrelevant, distinct, windows
        As of `StageClass`: shapes (classes,), (classes, dataspaces), (classes, dataspaces) and
        (classes, dimensions).
    """

    fanouts: tuple[FanoutChoices, ...]
    places: IntArray
    starts: IntArray
    units: IntArray
    irrelevant: IntArray
    distinct: IntArray
    windows: IntArray

    def __len__(self) -> int:
        """Number of classes."""
        return len(self.starts)

    def __getitem__(self, place: int) -> StageClass:
        """One of them."""
        if place not in self._made:
            self._made[place] = StageClass(
                int(self.units[place]),
                tuple(self.irrelevant[place].tolist()),
                tuple(self.distinct[place].tolist()),
                tuple(self.windows[place].tolist()),
                tuple(map(self.member, range(len(self.places))[self.members(place)])),
            )
        return self._made[place]

    def __iter__(self) -> Iterator[StageClass]:
        """All of them."""
        return map(self.__getitem__, range(len(self)))

    @cached_property
    def _made(self) -> dict[int, StageClass]:
        return {}

    def members(self, place: int) -> slice:
        """Which members a class has."""
        return slice(self.starts[place], self.starts[place] + self.sizes[place])

    def member(self, number: int) -> StageChoice:
        """The choice that is the member of that number."""
        choices = tuple(
            own[place] for own, place in zip(self.fanouts, self.places[number].tolist(), strict=True)
        )
        return StageChoice(choices, tuple(self.factors[number].tolist()))

    @cached_property
    def sizes(self) -> IntArray:
        """Members of each class, shape (classes,)."""
        return np.diff(self.starts, append=len(self.places))

    @property
    def _unrolled(self) -> Iterator[IntArray]:
        """Factors of each member's choices, by fanout, innermost first: shape (members, dimensions)."""
        chosen = zip(self.fanouts, self.places.T, strict=True)
        return (own.factors[places] for own, places in reversed(list(chosen)))

    @cached_property
    def factors(self) -> IntArray:
        """Products of the factors of each member's choices, shape (members, dimensions)."""
        ones = np.ones((len(self.places), self.windows.shape[1]), dtype=np.int64)
        return math.prod(self._unrolled, start=ones)

    @cached_property
    def least_used(self) -> IntArray:
        """Least children in use of each member, see `StageChoice`, shape (members, dimensions)."""
        used = np.ones_like(self.factors)
        for factors in self._unrolled:
            used = np.where(factors == 1, used, (factors - 1) * used + 1)
        return used

    @cached_property
    def unrolled(self) -> tuple[Factors, ...]:
        """Per dimension, all factors that members have, ascending."""
        return tuple(tuple(distinct(own).tolist()) for own in self.factors.T)
