"""What the fanouts between two storage levels unroll together, in classes that cost the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model.architecture import Fanout
from model.extents import Factors as Kind
from solver.search.arrays import TOGETHER, IntArray, alike
from solver.search.space.dataspaces import Component, DataspaceView
from solver.search.space.lattice import Lattice
from solver.search.space.spatial import FanoutChoices, SpatialStage, check_number
from solver.search.stopping import Stop


@dataclass(frozen=True)
class _Choices:
    """Choices of some consecutive fanouts, as arrays with a row each.

    Parameters
    ----------
    places
        Of what is chosen of each fanout, shape (choices, fanouts).
    codes
        Of their factors together, shape (choices,).
    distinct
        Different tiles of each dataspace among the children, a lower bound where windows slide.
    apart
        Per fanout its own part of the product, as far as it matters which of them it is.
    """

    places: IntArray
    codes: IntArray
    distinct: IntArray
    apart: IntArray

    def chosen(self, rows: IntArray) -> _Choices:
        """Some of them."""
        return _Choices(self.places[rows], self.codes[rows], self.distinct[rows], self.apart[rows])

    def and_also(self, others: _Choices) -> _Choices:
        """One of all that have the same product, distinct tiles and parts: the first one."""
        pairs = (
            (self.places, others.places),
            (self.codes, others.codes),
            (self.distinct, others.distinct),
            (self.apart, others.apart),
        )
        every = _Choices(*map(np.concatenate, pairs))
        firsts, _ = alike(np.column_stack((every.codes, every.distinct, every.apart)))
        return every.chosen(firsts)


@dataclass(frozen=True)
class StageRules:
    """What the choices of a stage are told apart by.

    Parameters
    ----------
    lattice, views
        Of the search space.
    gated
        Whether some level gates the power between two of the stage's fanouts, so that it matters how
        many children each of them uses.
    kind
        Of the factors.
    apart
        Whether it matters which of the fanouts unrolls a dimension, as it does where data are sparse.
    """

    lattice: Lattice
    views: tuple[DataspaceView, ...]
    gated: bool
    kind: Kind
    apart: bool = False

    def classes(
        self, fanouts: Sequence[Fanout], options: Sequence[FanoutChoices], stop: Stop
    ) -> SpatialStage:
        """Group the combinations of the fanouts' choices that divide the bounds.

        Of combinations that no cost and no bound tells apart, the first one is enough.
        """
        pairs = self._nothing
        for fanout, own in zip(fanouts, options, strict=True):
            pairs = self._paired(pairs, self._single(fanout, own), stop)
        chosen = [own.factors[places] for own, places in zip(options, pairs.places.T, strict=True)]
        ones = np.ones((len(pairs.codes), len(self.lattice.bounds)), dtype=np.int64)
        factors = math.prod(chosen, start=ones)
        units, sliding = factors.prod(axis=1), {d for view in self.views for d in view.window_dims}
        unused = [factors[:, sorted(view.irrelevant)].prod(axis=1) for view in self.views]
        irrelevant = np.stack(unused, axis=1)
        windows = np.where([d in sliding for d in range(factors.shape[1])], factors, 1)
        firsts, kinds = alike(np.column_stack((units, irrelevant, pairs.distinct, windows)))
        keys = (own[firsts] for own in (units, irrelevant, pairs.distinct, windows))
        starts = np.searchsorted(np.sort(kinds), np.arange(len(firsts)))
        return SpatialStage(tuple(options), pairs.places[np.argsort(kinds, kind="stable")], starts, *keys)

    @property
    def _nothing(self) -> _Choices:
        """The choice of no fanout at all."""
        none, ones = np.empty((1, 0), dtype=np.int64), np.ones((1, len(self.views)), dtype=np.int64)
        return _Choices(none, np.zeros(1, dtype=np.int64), ones, none)

    def _single(self, fanout: Fanout, choices: FanoutChoices) -> _Choices:
        """Choices of one fanout, as far as the lattice has their factors."""
        places = np.flatnonzero(self.lattice.have(choices.factors))
        factors = choices.factors[places]
        units = factors.prod(axis=1)
        distinct = [
            units if view.name in fanout.no_multicast else self._distinct(view, factors)
            for view in self.views
        ]
        apart = factors[:, self._telling]
        if self.gated:
            apart = np.column_stack((apart, units))
        return _Choices(places[:, None], self.lattice.codes(factors), np.stack(distinct, axis=1), apart)

    def _distinct(self, view: DataspaceView, factors: IntArray) -> IntArray:
        """Different tiles among the children of vectors of factors, at least."""
        parts = (self._distinct_along(component, factors) for component in view.components)
        return math.prod(parts, start=np.ones(len(factors), dtype=np.int64))

    def _distinct_along(self, component: Component, factors: IntArray) -> IntArray:
        own = factors[:, component.dims]
        firsts, kinds = alike(own)
        bounds = tuple(self.lattice.bounds[d] for d in component.dims)
        known = [component.distinct_tiles(tuple(row), bounds, self.kind) for row in own[firsts].tolist()]
        return np.array(known, dtype=np.int64)[kinds]

    @property
    def _telling(self) -> tuple[int, ...]:
        """Dimensions for which it matters which of the fanouts unrolls them.

        Distinct tiles of windows depend on the strides at each fanout, and so does how much of a produced
        dataspace an instance holds whose tiles are no plain partition.
        """
        if self.apart:
            return tuple(range(len(self.lattice.bounds)))
        telling = {d for view in self.views if view.read_write and not view.simple for d in view.relevant}
        for view in self.views:
            telling |= view.window_dims
        return tuple(sorted(telling))

    def _paired(self, outer: _Choices, inner: _Choices, stop: Stop) -> _Choices:
        """One of all pairs of choices within the bounds with the same product that nothing tells apart."""
        pairs = self._pairs(outer, inner, *np.empty((2, 0), dtype=np.int64))
        for first, second in self.lattice.dividing(outer.codes, inner.codes, TOGETHER):
            pairs = pairs.and_also(self._pairs(outer, inner, first, second))
            check_number(len(pairs.codes), stop)
        return pairs

    def _pairs(self, outer: _Choices, inner: _Choices, first: IntArray, second: IntArray) -> _Choices:
        outside, inside = outer.chosen(first), inner.chosen(second)
        return _Choices(
            np.column_stack((outside.places, inside.places)),
            self.lattice.product(outside.codes, inside.codes),
            outside.distinct * inside.distinct,
            np.column_stack((outside.apart, inside.apart)),
        )
