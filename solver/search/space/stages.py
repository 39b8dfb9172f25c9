"""What the fanouts between two storage levels unroll together, in classes that cost the same."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

import numpy as np

from model.architecture import Fanout
from model.extents import Factors as Kind
from solver.search.arrays import IntArray
from solver.search.space.dataspaces import DataspaceView
from solver.search.space.lattice import Lattice
from solver.search.space.spatial import Factors, FanoutChoice, StageChoice, StageClass
from solver.search.stopping import Stop, Stopped

PAIRS_AT_ONCE = 1 << 18
"""Pairs of choices that are looked at together."""

MOST_CODES = 1 << 40
"""Codes of spatial factors are below it."""

NOTHING = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class _Mark:
    """What tells choices with the same product apart.

    Per dataspace the ``distinct`` tiles among the children, a lower bound where windows slide; and per
    fanout its own part of the product, as far as it matters which of them it is.
    """

    distinct: tuple[int, ...]
    apart: tuple[Factors, ...]

    def then(self, inner: _Mark) -> _Mark:
        """The mark of two choices of consecutive fanouts together."""
        return _Mark(tuple(map(mul, self.distinct, inner.distinct)), self.apart + inner.apart)


@dataclass(frozen=True)
class _Choices:
    """Choices of some consecutive fanouts, with the lattice index of each one's factors, and its mark."""

    choices: tuple[tuple[FanoutChoice, ...], ...]
    indices: IntArray
    kinds: IntArray
    marks: tuple[_Mark, ...]


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
    """

    lattice: Lattice
    views: tuple[DataspaceView, ...]
    gated: bool
    kind: Kind

    def classes(
        self, fanouts: Sequence[Fanout], options: Sequence[Sequence[FanoutChoice]], stop: Stop
    ) -> tuple[StageClass, ...]:
        """Group the combinations of the fanouts' choices that divide the bounds.

        Of combinations that no cost and no bound tells apart, the first one is enough.
        """
        joined = _Choices(((),), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), (self._unit,))
        for fanout, fanout_options in zip(fanouts, options, strict=True):
            joined = self._joined(joined, self._single(fanout, fanout_options), stop)
        sliding = frozenset(d for view in self.views for d in view.window_dims)
        classes = defaultdict(list)
        for choices, index, kind in zip(joined.choices, joined.indices, joined.kinds, strict=True):
            factors = self.lattice.factors(int(index))
            unused = tuple(view.unused(factors) for view in self.views)
            windows = tuple(f if d in sliding else 1 for d, f in enumerate(factors))
            key = math.prod(factors), unused, joined.marks[kind].distinct, windows
            classes[key].append(StageChoice(choices, factors))
        return tuple(StageClass(*key, tuple(members)) for key, members in classes.items())

    @property
    def _unit(self) -> _Mark:
        return _Mark((1,) * len(self.views), ())

    def _single(self, fanout: Fanout, choices: Sequence[FanoutChoice]) -> _Choices:
        """Choices of one fanout, as far as the lattice has their factors."""
        known = [choice for choice in choices if self.lattice.has(choice.factors)]
        numbers: dict[_Mark, int] = {}
        kinds = [numbers.setdefault(self._mark(fanout, choice), len(numbers)) for choice in known]
        indices = [self.lattice.code(choice.factors) for choice in known]
        return _Choices(
            tuple((choice,) for choice in known),
            np.array(indices, dtype=np.int64),
            np.array(kinds, dtype=np.int64),
            tuple(numbers),
        )

    def _mark(self, fanout: Fanout, choice: FanoutChoice) -> _Mark:
        units = math.prod(choice.factors)
        distinct = (
            units
            if view.name in fanout.no_multicast
            else view.distinct_tiles(choice.factors, self.lattice.bounds, self.kind)
            for view in self.views
        )
        apart = tuple(choice.factors[d] for d in self._telling)
        return _Mark(tuple(distinct), ((*apart, units) if self.gated else apart,))

    @property
    def _telling(self) -> tuple[int, ...]:
        """Dimensions for which it matters which of the fanouts unrolls them.

        Distinct tiles of windows depend on the strides at each fanout, and so does how much of a produced
        dataspace an instance holds whose tiles are no plain partition.
        """
        telling = {d for view in self.views if view.read_write and not view.simple for d in view.relevant}
        for view in self.views:
            telling |= view.window_dims
        return tuple(sorted(telling))

    def _joined(self, outer: _Choices, inner: _Choices, stop: Stop) -> _Choices:
        """One of all pairs of choices that have the same product within the bounds, and the same mark."""
        numbers: dict[_Mark, int] = {}
        rows, columns, kinds, known = [NOTHING], [NOTHING], [NOTHING], NOTHING
        for first, second in self.lattice.dividing(outer.indices, inner.indices, PAIRS_AT_ONCE):
            if stop():
                raise Stopped
            together = self._together(outer, inner, outer.kinds[first], inner.kinds[second], numbers)
            # Keys are the same in all rounds: numbers only grow.
            products = self.lattice.product(outer.indices[first], inner.indices[second])
            keys = together * MOST_CODES + products
            places = np.sort(np.unique(keys, return_index=True)[1])
            places = places[~np.isin(keys[places], known)]
            known = np.concatenate((known, keys[places]))
            rows.append(first[places])
            columns.append(second[places])
            kinds.append(together[places])
        first, second = np.concatenate(rows), np.concatenate(columns)
        pairs = zip(first.tolist(), second.tolist(), strict=True)
        return _Choices(
            tuple((*outer.choices[i], *inner.choices[j]) for i, j in pairs),
            self.lattice.product(outer.indices[first], inner.indices[second]),
            np.concatenate(kinds),
            tuple(numbers),
        )

    @staticmethod
    def _together(
        outer: _Choices, inner: _Choices, first: IntArray, second: IntArray, numbers: dict[_Mark, int]
    ) -> IntArray:
        """Number the marks of pairs, given the kinds of both."""
        codes, inverse = np.unique(first * len(inner.marks) + second, return_inverse=True)
        pairs = (divmod(code, len(inner.marks)) for code in codes.tolist())
        marks = (outer.marks[i].then(inner.marks[j]) for i, j in pairs)
        mark_numbers = [numbers.setdefault(mark, len(numbers)) for mark in marks]
        return np.array(mark_numbers, dtype=np.int64)[inverse]
