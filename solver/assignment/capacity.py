"""Room over time: what the chosen methods occupy while they are alive together must fit a limit.

Only peaks count, moments at which as much is alive as ever: after a layer begins, before one ends. Every
layer is alive at peaks in a row. Of what a layer occupies only what exceeds its least usage is its choice; a
layer for which that is the same whatever it takes, or that is alive only where everything fits, has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from model.assignment import CostArray, CostedNetwork


@dataclass(frozen=True, eq=False)
class Capacity:
    """Peaks, and what variables occupy at them."""

    room: CostArray  # per peak, what is left beside the least usage of all, shape (peaks,)
    # Per variable whose choice matters: what each value occupies above the least, shape (values,), and at
    # which peaks: from the first to before the last.
    usages: dict[int, CostArray]
    spans: dict[int, tuple[int, int]]
    moments: NDArray[np.int64]  # of the peaks, shape (peaks,)

    @classmethod
    def of(cls, network: CostedNetwork) -> Capacity | None:
        """Return what a network's limit asks for; None where everything fits."""
        if network.usage_limit is None:
            return None
        alive = {
            number: layer
            for number, layer in enumerate(network.layers)
            if layer.usages is not None and layer.interval[0] < layer.interval[1] and layer.usages.any()
        }
        peaks = _peaks([layer.interval for layer in alive.values()])
        ends = np.searchsorted(peaks, [layer.interval for layer in alive.values()]).tolist()
        spans = {number: (first, last) for number, (first, last) in zip(alive, ends, strict=True)}
        usages = {number: layer.usages for number, layer in alive.items() if layer.usages is not None}
        least = _summed({own: int(usage.min()) for own, usage in usages.items()}, spans, len(peaks))
        most = _summed({own: int(usage.max()) for own, usage in usages.items()}, spans, len(peaks))
        limit = network.usage_limit
        binding = [place for place in range(len(peaks)) if most[place] > limit]
        if not binding:
            return None
        place = np.searchsorted(binding, range(len(peaks) + 1))
        kept = {
            own: (int(place[first]), int(place[last]))
            for own, (first, last) in spans.items()
            if place[first] < place[last] and usages[own].min() < usages[own].max()
        }
        room: CostArray = np.array([limit - least[peak] for peak in binding], dtype=object)
        above = {own: usages[own] - usages[own].min() for own in kept}
        return cls(room, above, kept, peaks[binding])._without_weaker()

    def _without_weaker(self) -> Capacity:
        """Leave out peaks between which no choice begins or ends but for the one with the least room."""
        borders = {border for span in self.spans.values() for border in span}
        groups = list(accumulate(int(peak in borders) for peak in range(len(self.room) + 1)))
        first = groups[0]
        groups = [group - first for group in groups]
        if groups[-1] == groups[-2]:
            groups[-1] += 1
        peaks = zip(groups[:-1], self.room, self.moments.tolist(), strict=True)
        least = [min((own, moment) for _, own, moment in same) for _, same in groupby(peaks, itemgetter(0))]
        room = np.array([own for own, _ in least], dtype=object)
        spans = {own: (groups[first], groups[last]) for own, (first, last) in self.spans.items()}
        return Capacity(room, self.usages, spans, np.array([moment for _, moment in least]))

    @property
    def is_hopeless(self) -> bool:
        """Whether even the least usages do not fit."""
        return bool((self.room < 0).any())

    def part(self, variables: Sequence[int]) -> Capacity:
        """Return the same for some variables alone, numbered as in `variables`."""
        number = {variable: place for place, variable in enumerate(variables)}
        own = [variable for variable in variables if variable in self.usages]
        usages = {number[variable]: self.usages[variable] for variable in own}
        spans = {number[variable]: self.spans[variable] for variable in own}
        return Capacity(self.room, usages, spans, self.moments)

    def around(self, choice: Sequence[int], variables: Sequence[int]) -> Capacity:
        """Return what is left for some variables alone while all others keep their values."""
        own = [variable for variable in variables if variable in self.usages]
        held = {variable: int(self.usages[variable][choice[variable]]) for variable in own}
        room = self.left(choice) + np.array(_summed(held, self.spans, len(self.room)), dtype=object)
        return Capacity(room, self.usages, self.spans, self.moments).part(variables)

    def left(self, choice: Sequence[int]) -> CostArray:
        """Return the room that is left at each peak; negative where the choice does not fit."""
        used = {own: int(usage[choice[own]]) for own, usage in self.usages.items()}
        left: CostArray = self.room - np.array(_summed(used, self.spans, len(self.room)), dtype=object)
        return left

    def fits(self, choice: Sequence[int]) -> bool:
        """Whether a choice stays within the room at all peaks."""
        return not (self.left(choice) < 0).any()


def _peaks(intervals: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Return moments after a begin and before an end, one for each run of begins."""
    events = sorted({(first, 1) for first, _ in intervals} | {(last, 0) for _, last in intervals})
    peaks = [moment for (moment, begins), (_, begins_next) in pairwise(events) if begins and not begins_next]
    return np.array(peaks, dtype=np.int64)


def _summed(amounts: dict[int, int], spans: dict[int, tuple[int, int]], peaks: int) -> list[int]:
    """Return what amounts add up to at each peak."""
    changes = [0] * (peaks + 1)
    for own, amount in amounts.items():
        first, last = spans[own]
        changes[first] += amount
        changes[last] -= amount
    return list(accumulate(changes[:-1]))
