"""Spatial choices: what each fanout can unroll, and the classes of choices that cost the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from model.architecture import Fanout
from model.choices import SideOrder
from model.mapspace import SpatialRules
from model.numbers import divisors
from solver.search.arrays import BoolArray, IntArray
from solver.search.space.lattice import Lattice

Factors = tuple[int, ...]


@dataclass(frozen=True)
class FanoutChoice:
    """Factors of one fanout, per active dimension, and the dimensions that lie along X."""

    factors: Factors
    along_x: frozenset[int]


def fanout_choices(
    fanout: Fanout,
    rules: SpatialRules,
    all_dims: Sequence[str],
    active: Sequence[str],
    bounds: Sequence[int],
    allows: Callable[[Factors], bool] = lambda factors: True,
) -> list[FanoutChoice]:
    """All factor vectors that `rules`, `allows` and the mesh allow, each with one arrangement on the mesh.

    How the dimensions are arranged along X and Y does not change the cost, so one witness is enough.
    """
    if any(not rule.allows(1) for rule in rules.factors if rule.dim not in active):
        return []
    candidates = []
    for dim, bound in zip(active, bounds, strict=True):
        of_dim = [rule for rule in rules.factors if rule.dim == dim]
        longest = max(fanout.mesh_x, fanout.mesh_y)
        candidates.append([f for f in divisors(bound) if f <= longest and all(r.allows(f) for r in of_dim)])
    arranger = _Arranger(fanout, rules, all_dims, active)
    choices = []
    for factors in _vectors(candidates, fanout.size):
        along_x = arranger.arrange(factors) if allows(factors) else None
        if along_x is not None:
            choices.append(FanoutChoice(factors, along_x))
    return choices


def _vectors(candidates: Sequence[Sequence[int]], room: int) -> Iterator[Factors]:
    if not candidates:
        yield ()
        return
    for factor in candidates[0]:
        if factor > room:
            break
        for rest in _vectors(candidates[1:], room // factor):
            yield (factor, *rest)


class _Arranger:
    """Finds which dimensions go along X, within the order and split that the rules fix."""

    def __init__(
        self, fanout: Fanout, rules: SpatialRules, all_dims: Sequence[str], active: Sequence[str]
    ) -> None:
        self._fanout = fanout
        self._place = {dim: i for i, dim in enumerate(active)}
        self._active = tuple(active)
        self._order = SideOrder.of(rules, all_dims)

    def arrange(self, factors: Factors) -> frozenset[int] | None:
        """Active dimensions along X for `factors`, None if no arrangement fits the mesh."""
        total = math.prod(factors)
        if total > self._fanout.size:
            return None
        needed = {dim for dim, factor in zip(self._active, factors, strict=True) if factor > 1}
        for dims in self._order.sets_along_x(needed):
            along_x = [self._place[dim] for dim in dims]
            width = math.prod(factors[i] for i in along_x)
            if width <= self._fanout.mesh_x and total // width <= self._fanout.mesh_y:
                return frozenset(along_x)
        return None


@dataclass(frozen=True)
class StageChoice:
    """One choice per fanout between two storage levels, outermost first, and their product."""

    choices: tuple[FanoutChoice, ...]
    factors: Factors


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


class StageTable:
    """The classes of a stage, of which there may be none, as arrays with an entry per class.

    Attributes
    ----------
    units
        Children in use per instance above, shape (classes,).
    irrelevant, distinct
        Of each dataspace, as in `StageClass`, shape (dataspaces, classes).
    unrollings
        Per class, the lattice indices of its members' factors.
    several
        Whether a class has several members, shape (classes,).
    common
        Lattice index of the largest factors that divide those of all members, shape (classes,).
    """

    def __init__(self, classes: Sequence[StageClass], lattice: Lattice, dataspaces: int) -> None:
        shape = len(classes), dataspaces
        self.units = np.array([choice.units for choice in classes], dtype=np.float64)
        self.irrelevant = (
            np.array([choice.irrelevant for choice in classes], dtype=np.float64).reshape(shape).T
        )
        self.distinct = np.array([choice.distinct for choice in classes], dtype=np.float64).reshape(shape).T
        self.unrollings = tuple(
            np.array([lattice.code(member.factors) for member in choice.members], dtype=np.int64)
            for choice in classes
        )
        self.several = np.array([len(members) > 1 for members in self.unrollings], dtype=np.bool_)
        self.common = np.array([lattice.common(members) for members in self.unrollings], dtype=np.int64)

    @property
    def number_of_members(self) -> int:
        """Members of all classes together."""
        return sum(map(len, self.unrollings))

    def members(self, chosen: BoolArray) -> tuple[IntArray, IntArray]:
        """All members of some classes: the place of each one's class, and lattice index of its factors.

        Parameters
        ----------
        chosen
            Shape (classes,).

        Returns
        -------
        tuple[IntArray, IntArray]
            Both of shape (members of these classes,).
        """
        places = np.flatnonzero(chosen)
        parts = [self.unrollings[place] for place in places]
        repeated = np.repeat(places, [len(part) for part in parts])
        return repeated, np.concatenate([np.empty(0, dtype=np.int64), *parts])
